//! A state from the published view: what a command can read of the cluster without the journal.
//!
//! Owns which rows become which records of a snapshot. Data that is in no row is missing in such a
//! state: tokens and keys of requests, cron jobs, process ids. It is a copy for computations, never
//! one from which a leader continues.

use super::job::JobEnd;
use super::snapshot::{SnapArray, SnapJob, SnapRecord, SnapRun, SnapWork};
use super::{HostCtl, QueueCtl, State};
use crate::model::{JobStat, PendReason, Spec, Stamp};
use crate::record::event::UserShareHistory;
use crate::record::host_status::HostStatus;
use crate::record::job_group::JobGroup;
use crate::record::view::{HostRow, JobRow, QueueRow, ShareRow};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Collects the rows of a view, in any order.
#[derive(Default)]
pub struct RowGatherer {
    state: State,
    specs: FxHashMap<Arc<Spec>, u32>,
    /// Rows of one file of the view share their specifications: a lookup by address is faster.
    by_address: FxHashMap<*const Spec, u32>,
    jobs: BTreeMap<u32, SnapJob>,
    elements: FxHashMap<u32, Vec<SnapWork>>,
}

impl RowGatherer {
    /// Adds a job, an array or an element, and why it waits according to the view.
    ///
    /// # Errors
    /// The row of an array has a list of indices that cannot be read.
    pub fn job(
        &mut self,
        row: &JobRow<'_>,
        spec: &Arc<Spec>,
        why: Option<&PendReason>,
    ) -> Result<(), String> {
        let own = why.filter(|why| is_own(why)).cloned().map(Box::new);
        let work = work_of(row, own.clone());
        if row.j.idx > 0 {
            self.elements.entry(row.j.id).or_default().push(work);
            return Ok(());
        }
        let s = self.number(spec);
        let arr = match row.arr.as_deref() {
            None => None,
            Some(arr) => {
                let list = |text: &str| text.parse().map_err(|e| format!("job {}: {e}", row.j.id));
                Some(Box::new(SnapArray {
                    all: list(&arr.all)?,
                    waiting: list(&arr.waiting)?,
                    head: row.stat,
                    why: own,
                    limit: arr.limit,
                }))
            }
        };
        let w = match arr {
            None => vec![work],
            Some(_) => Vec::new(),
        };
        let name = (!row.name.is_empty()).then(|| row.name.clone().into());
        let job = SnapJob {
            id: row.j.id,
            s,
            t: Stamp(row.submit),
            o: row.order,
            n: name,
            c: row.command.clone().into(),
            arr,
            w,
            ..SnapJob::default()
        };
        self.jobs.insert(row.j.id, job);
        Ok(())
    }

    fn number(&mut self, spec: &Arc<Spec>) -> u32 {
        if let Some(s) = self.by_address.get(&Arc::as_ptr(spec)) {
            return *s;
        }
        if let Some(s) = self.specs.get(spec) {
            return *s;
        }
        let s = self.specs.len() as u32 + 1;
        let copy = Box::new(spec.as_ref().clone());
        self.state.restore(SnapRecord::Spec { id: s, spec: copy });
        // The address stays that of this specification as long as the map holds it.
        self.by_address.insert(Arc::as_ptr(spec), s);
        self.specs.insert(spec.clone(), s);
        s
    }

    /// Adds what the leader knows of a host.
    pub fn host(&mut self, row: &HostRow) {
        let ctl = HostCtl {
            closed: row.closed,
            by: row.closed_by.clone(),
            comment: row.comment.clone(),
            t: Stamp(row.closed_at),
            lock: row.lock.clone(),
            up: row.status != HostStatus::Unavailable,
            ..HostCtl::default()
        };
        let name = row.name.clone();
        self.state.restore(SnapRecord::Host { name, ctl });
    }

    /// Adds whether a queue is open and active.
    pub fn queue(&mut self, row: &QueueRow) {
        let ctl = QueueCtl {
            open: row.open,
            active: row.active,
            comment: row.comment.clone(),
            ..QueueCtl::default()
        };
        let name = row.name.clone();
        self.state.restore(SnapRecord::Queue { name, ctl });
    }

    /// Adds the explicit job groups.
    pub fn job_groups(&mut self, groups: Vec<JobGroup>) {
        let groups = groups.into_iter();
        groups.for_each(|group| self.state.put_job_group(group));
    }

    /// Adds the usage that counts in share trees, as of `now`. It includes that of running jobs,
    /// which the state would count again, so it is added only for places without started jobs.
    pub fn shares(&mut self, rows: &[ShareRow], now: Stamp) {
        let mut histories: BTreeMap<&str, Vec<UserShareHistory>> = BTreeMap::new();
        for row in rows.iter().filter(|row| !row.group && row.started == 0) {
            let us = |s: f64| (s.max(0.0) * 1e6) as u64;
            histories
                .entry(&row.queue)
                .or_default()
                .push(UserShareHistory {
                    path: row.path.clone(),
                    by: row.path.rsplit('/').next().unwrap_or_default().to_owned(),
                    us: [us(row.hist_s), us(row.run_s), 0],
                    ended: [0; 3],
                    at: now,
                });
        }
        for (queue, past) in histories {
            let (queue, t) = (queue.to_owned(), now);
            self.state.restore(SnapRecord::Shares { queue, t, past });
        }
    }

    /// The state built from all rows. Elements whose array is missing are left out.
    pub fn state(mut self) -> State {
        let last_id = self.jobs.last_key_value().map_or(0, |(id, _)| *id);
        self.state.restore(SnapRecord::Meta {
            epoch: 0,
            last_id,
            next_spec: self.specs.len() as u32,
            config: String::new(),
            epochs: Vec::new(),
        });
        for (id, mut job) in self.jobs {
            job.w.extend(self.elements.remove(&id).unwrap_or_default());
            self.state.restore(SnapRecord::Job(Box::new(job)));
        }
        // Rows do not state which dependencies are met.
        self.state.recheck_dependencies();
        self.state
    }
}

/// Whether a reason belongs to a job alone, so that no pass computes it again. The view does not
/// distinguish it from the reason of the job's class.
fn is_own(why: &PendReason) -> bool {
    matches!(
        why,
        PendReason::HeldByOwner
            | PendReason::HeldByAdmin
            | PendReason::Dependency { .. }
            | PendReason::DependencyNever { .. }
            | PendReason::NoSuchUser { .. }
            | PendReason::PreExec { .. }
            | PendReason::Retry(_)
            | PendReason::HostRefused { .. }
    )
}

fn work_of(row: &JobRow<'_>, why: Option<Box<PendReason>>) -> SnapWork {
    SnapWork {
        i: row.j.idx,
        p: row.stat,
        at: row.attempt,
        why,
        run: (!row.stat.is_waiting()).then(|| Box::new(run_of(row))),
    }
}

fn run_of(row: &JobRow<'_>) -> SnapRun {
    let end = row.stat.is_finished().then(|| {
        Box::new(JobEnd {
            end: Stamp(row.end),
            known: Stamp(0),
            code: row.code,
            success: row.stat == JobStat::Done && row.code != Some(0),
            sig: row.sig,
            core: row.core,
            oom: row.oom,
            post_failed: row.post_failed,
            reason: row.reason,
            text: row.text.clone(),
        })
    });
    SnapRun {
        h: row.hosts.clone(),
        un: row.units.clone(),
        dt: Stamp(row.dispatch),
        st: Stamp(row.start),
        ustop: row.stat == JobStat::Ususp,
        halt: row.halt.clone(),
        alt: row.alt,
        forced: row.forced,
        sus: row.suspended_ms,
        u: row.usage.clone(),
        fate: end,
        ..SnapRun::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AttemptId, JobKey, Share};
    use crate::record::event::Event;
    use crate::record::event::Submitted;
    use crate::record::view::Row;

    fn submitted(id: u32, s: u32, array: &str) -> Event {
        Event::Submitted(Box::new(Submitted {
            id,
            s,
            t: Stamp(5),
            command: "true".into(),
            array: array.into(),
            array_limit: 2,
            line: id,
            ..Submitted::default()
        }))
    }

    /// A running job, an array of which one element runs, and a job that waits for the first.
    fn state() -> State {
        let mut state = State::new();
        for (id, depend) in [(1, ""), (2, "done(1)")] {
            let spec = Spec {
                queue: "normal".into(),
                depend: depend.into(),
                min: 1,
                max: 1,
                ..Spec::default()
            };
            let spec = Box::new(spec);
            state.apply(&Event::Spec { id, spec });
        }
        state.apply(&submitted(1, 1, ""));
        state.apply(&submitted(2, 1, "1-4"));
        state.apply(&submitted(3, 2, ""));
        for j in [JobKey::job(1), JobKey::element(2, 3)] {
            let a = AttemptId { j, at: 1 };
            let (t, hosts) = (Stamp(9), vec![Share("h".into(), 1)]);
            let (alt, forced, units) = (0, false, Vec::new());
            state.apply(&Event::Dispatched {
                a,
                t,
                hosts,
                alt,
                forced,
                units,
            });
        }
        state
    }

    fn copied(state: &State) -> State {
        let mut copy = RowGatherer::default();
        let mut specs: BTreeMap<u32, Arc<Spec>> = BTreeMap::new();
        for key in state.shards() {
            for row in state.shard_rows(key) {
                match row {
                    Row::Spec { id, spec } => {
                        specs.insert(id, Arc::new(*spec));
                    }
                    Row::Job(row) => {
                        copy.job(&row, &specs[&row.s], row.why.as_ref()).unwrap();
                    }
                    _ => {}
                }
            }
        }
        copy.state()
    }

    #[test]
    fn the_copy_publishes_the_same_rows() {
        let state = state();
        let copy = copied(&state);
        for j in [JobKey::job(1), JobKey::job(2), JobKey::element(2, 3)] {
            assert_eq!(copy.row(j), state.row(j), "{j}");
        }
        assert_eq!(copy.pending_jobs(), state.pending_jobs());
        assert_eq!(
            copy.used().queue("normal").total(),
            state.used().queue("normal").total()
        );
    }

    #[test]
    fn held_jobs_stay_held_and_classes_find_their_own_reasons() {
        let mut state = state();
        let (j, by, t) = (JobKey::job(3), String::new(), Stamp(9));
        let (held, admin) = (true, false);
        state.apply(&Event::Held {
            j,
            held,
            admin,
            by,
            t,
        });
        let copy = copied(&state);
        let why = copy.job(3).and_then(|job| job.own_reason(0));
        assert_eq!(why, Some(&PendReason::HeldByOwner));
        assert!(!is_own(&PendReason::New) && !is_own(&PendReason::ArrayLimit { limit: 2 }));
    }

    #[test]
    fn dependencies_are_to_be_judged_again() {
        assert_eq!(copied(&state()).take_dep_dirty(), [3]);
    }

    #[test]
    fn elements_without_their_array_are_left_out() {
        let mut copy = RowGatherer::default();
        let row = JobRow {
            j: JobKey::element(9, 1),
            ..JobRow::default()
        };
        copy.job(&row, &Arc::new(Spec::default()), None).unwrap();
        assert_eq!(copy.state().job_count(), 0);
    }
}
