//! Rows of the published view: the visible form of a job. Pure; the publisher writes them.

use super::State;
use super::job::{Array, Body, Job, Work};
use crate::model::{JobKey, JobStat, PendReason, Share};
use crate::record::view::{ArrayRow, JobRow, Row, SHARD_JOBS};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The file of the view to which a row belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ShardKey {
    /// Jobs and arrays with `id / SHARD_JOBS` equal.
    Jobs(u32),
    /// Elements of array `.0` with `idx / SHARD_JOBS` equal.
    Elements(u32, u32),
}

impl ShardKey {
    pub fn of(j: JobKey) -> ShardKey {
        match j.idx {
            0 => ShardKey::Jobs(j.id / SHARD_JOBS),
            idx => ShardKey::Elements(j.id, idx / SHARD_JOBS),
        }
    }
}

impl fmt::Display for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardKey::Jobs(n) => write!(f, "j{n}"),
            ShardKey::Elements(id, n) => write!(f, "a{id}.{n}"),
        }
    }
}

/// What changed since the view was published last.
#[derive(Debug)]
pub struct Delta {
    specs: BTreeSet<u32>,
    keys: Vec<JobKey>,
    classes: Vec<(u32, PendReason)>,
}

impl Delta {
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty() && self.keys.is_empty() && self.classes.is_empty()
    }
}

impl State {
    /// The row of a job, array or materialised element; `None` if it is gone (or still waits inside
    /// its array).
    pub fn row(&self, j: JobKey) -> Option<JobRow<'_>> {
        let job = self.jobs.get(j.id)?;
        match (&job.body, j.idx) {
            (Body::Array(array), 0) => Some(self.array_row(job, array)),
            _ => Some(self.work_row(job, j, job.work(j.idx)?)),
        }
    }

    fn base_row<'a>(&'a self, job: &'a Job, j: JobKey, stat: JobStat) -> JobRow<'a> {
        JobRow {
            j,
            s: job.spec,
            stat,
            submit: job.submit.0,
            order: job.order,
            name: job.name.as_deref().map_or(Cow::Borrowed(""), Cow::Borrowed),
            command: Cow::Borrowed(&job.command),
            class: if stat == JobStat::Pend {
                self.class_of(job.spec)
            } else {
                0
            },
            why: job.own_reason(j.idx).cloned(),
            key: job.key.as_deref().unwrap_or("").to_owned(),
            messages: self.messages(j).to_vec(),
            ..JobRow::default()
        }
    }

    fn array_row<'a>(&'a self, job: &'a Job, array: &Array) -> JobRow<'a> {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for stat in JobStat::ALL {
            if array.count(stat) > 0 {
                counts.insert(stat.word().to_owned(), array.count(stat));
            }
        }
        let mut row = self.base_row(job, JobKey::job(job.id), array.head);
        row.arr = Some(Box::new(ArrayRow {
            all: array.all.to_string(),
            waiting: array.waiting.to_string(),
            limit: array.limit,
            counts,
        }));
        row
    }

    fn work_row<'a>(&'a self, job: &'a Job, j: JobKey, work: &Work) -> JobRow<'a> {
        let mut row = self.base_row(job, j, work.stat);
        row.attempt = work.attempt;
        // The data of an earlier attempt does not count while the job waits to run again.
        let Some(run) = work.run.as_deref().filter(|_| !work.stat.is_waiting()) else {
            return row;
        };
        let share = |(host, n): &(super::HostId, u32)| Share(self.host_name(*host).to_string(), *n);
        row.hosts = run.hosts.iter().map(share).collect();
        row.units = run.units().to_vec();
        row.dispatch = run.dispatch.0;
        row.start = run.start.0;
        row.usage = run.usage().clone();
        row.suspended_ms = run.suspension.total_ms;
        row.halt = run.suspension.by_system.clone();
        row.warned = run.warned().map_or(0, |(at, _)| at.0);
        (row.alt, row.forced) = (run.alt, run.forced);
        row.bind = run.bind().cloned().map(Box::new);
        row.part_binds = run.part_binds().to_vec();
        row.killing = run.killing.is_some();
        if let Some(end) = run.end.as_deref() {
            row.end = end.end.0;
            row.code = end.code;
            (row.sig, row.core, row.oom) = (end.sig, end.core, end.oom);
            (row.reason, row.post_failed) = (end.reason, end.post_failed);
            row.text = end.text.clone();
        }
        row
    }

    /// All shards that have rows now.
    pub fn shards(&self) -> BTreeSet<ShardKey> {
        let mut keys = BTreeSet::new();
        for job in self.jobs.values() {
            keys.insert(ShardKey::Jobs(job.id / SHARD_JOBS));
            if let Body::Array(array) = &job.body {
                keys.extend(
                    array
                        .work
                        .keys()
                        .map(|idx| ShardKey::of(JobKey::element(job.id, *idx))),
                );
            }
        }
        keys
    }

    /// The rows of one shard: specifications first, then jobs in order.
    pub fn shard_rows(&self, key: ShardKey) -> Vec<Row<'_>> {
        let mut jobs = Vec::new();
        match key {
            ShardKey::Jobs(n) => {
                let ids = n.saturating_mul(SHARD_JOBS)..(n + 1).saturating_mul(SHARD_JOBS);
                jobs.extend(
                    self.jobs
                        .range(ids)
                        .filter_map(|(id, _)| self.row(JobKey::job(id))),
                );
            }
            ShardKey::Elements(id, n) => {
                if let Some(Body::Array(array)) = self.jobs.get(id).map(|job| &job.body) {
                    let idx = n * SHARD_JOBS..(n + 1) * SHARD_JOBS;
                    let keys = array
                        .work
                        .range(idx)
                        .map(|(idx, _)| JobKey::element(id, *idx));
                    jobs.extend(keys.filter_map(|j| self.row(j)));
                }
            }
        }
        let specs: BTreeSet<u32> = jobs.iter().map(|row| row.s).collect();
        let mut rows: Vec<Row<'_>> = specs
            .into_iter()
            .map(|id| Row::Spec {
                id,
                spec: Box::new(self.spec(id).as_ref().clone()),
            })
            .collect();
        rows.extend(jobs.into_iter().map(|row| Row::Job(Box::new(row))));
        rows
    }

    /// The reasons of all classes, for a new view.
    pub fn class_rows(&self) -> Vec<Row<'static>> {
        let classes = self
            .pending
            .classes()
            .filter(|(_, class)| !class.jobs.is_empty());
        classes
            .map(|(id, class)| Row::Class {
                id,
                why: class.why.clone(),
            })
            .collect()
    }

    /// What changed since the last call, for [`State::delta_rows`].
    pub fn take_delta(&mut self) -> Delta {
        let (specs, keys) = self.take_dirty();
        let classes = self.pending.take_dirty();
        Delta {
            specs,
            keys,
            classes,
        }
    }

    /// The changes as rows for the delta, specifications first, and the shards to which they
    /// belong.
    pub fn delta_rows(&self, changed: Delta) -> (Vec<Row<'_>>, BTreeSet<ShardKey>) {
        let live = changed.specs.into_iter();
        let live = live.filter(|id| self.specs.contains_key(id));
        let mut rows: Vec<Row<'_>> = live
            .map(|id| Row::Spec {
                id,
                spec: Box::new(self.spec(id).as_ref().clone()),
            })
            .collect();
        let classes = changed.classes.into_iter();
        rows.extend(classes.map(|(id, why)| Row::Class { id, why }));
        let mut shards = BTreeSet::new();
        for j in changed.keys {
            shards.insert(ShardKey::of(j));
            match self.row(j) {
                Some(row) => rows.push(Row::Job(Box::new(row))),
                // The row of a job that is gone speaks for its elements.
                None if j.idx == 0 || self.jobs.contains_key(j.id) => rows.push(Row::Gone { j }),
                None => {}
            }
        }
        (rows, shards)
    }
}
