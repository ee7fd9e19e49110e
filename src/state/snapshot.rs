//! The state as a sequence of records, and back. Indices are not written: restoring rebuilds them.

use super::job::{
    Array, Body, Job, JobEnd, OrderNumbers, Rerun, Run, RunExtras, Suspension, UserStop, Work,
};
use super::{HostCtl, KnownAnswer, QueueCtl, State};
use crate::model::{
    Binding, JobKey, JobStat, PartBinding, PendReason, Share, Spec, Stamp, SuspReason, Token, Units,
};
use crate::record::cron::CronJob;
use crate::record::event::{SignalAct, UserShareHistory};
use crate::record::job_group::JobGroup;
use crate::record::message::JobMessage;
use crate::record::report::{PartUse, Usage};
use crate::text::indexset::IndexSet;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// One record of a snapshot. Specifications come before the jobs that refer to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum SnapRecord {
    Meta {
        epoch: u64,
        last_id: u32,
        /// The specification number assigned last.
        next_spec: u32,
        config: String,
        /// Where the last epochs end: epoch, its id, segment, sequence number.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        epochs: Vec<(u64, u32, u64, u64)>,
    },
    Spec {
        id: u32,
        spec: Box<Spec>,
    },
    Queue {
        name: String,
        ctl: QueueCtl,
    },
    Host {
        name: String,
        ctl: HostCtl,
    },
    Token {
        tok: Token,
        t: Stamp,
        jobs: Vec<(u32, u32, u32)>,
    },
    Key {
        uid: u32,
        key: String,
        id: u32,
        t: Stamp,
    },
    /// A request of which only a part was carried out.
    Partly {
        tok: Token,
        t: Stamp,
        verb: u32,
        at: (u32, u32),
    },
    Back(super::RestoredShare),
    Restored {
        above: u64,
        t: Stamp,
    },
    Shares {
        queue: String,
        t: Stamp,
        past: Vec<UserShareHistory>,
    },
    /// Elements of an array, before its job: in a single line they could exceed the maximum length
    /// of a line.
    Elements {
        id: u32,
        w: Vec<SnapWork>,
    },
    Job(Box<SnapJob>),
    Cron(Box<CronJob>),
    JobGroup(JobGroup),
    /// The messages of a job or element, after its job.
    Messages {
        j: JobKey,
        all: Vec<JobMessage>,
    },
}

/// Maximum number of elements and of hosts of elements in one record of an array.
const ELEMENTS: usize = 4096;

impl SnapRecord {
    /// Decodes one record; jobs, by far the most frequent, are decoded faster, without going
    /// through the tag.
    ///
    /// # Errors
    /// Returns what is not understood.
    pub fn decode(json: &[u8]) -> Result<SnapRecord, String> {
        if json.starts_with(br#"{"k":"job","#) {
            let job = serde_json::from_slice(json).map_err(|e| e.to_string())?;
            return Ok(SnapRecord::Job(Box::new(job)));
        }
        serde_json::from_slice(json).map_err(|e| e.to_string())
    }
}

/// A job in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapJob {
    pub(super) id: u32,
    pub(super) s: u32,
    pub(super) t: Stamp,
    pub(super) o: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) n: Option<Box<str>>,
    pub(super) c: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<Box<str>>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) gated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arr: Option<Box<SnapArray>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) w: Vec<SnapWork>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SnapArray {
    pub(super) all: IndexSet,
    pub(super) waiting: IndexSet,
    pub(super) head: JobStat,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<Box<PendReason>>,
    pub(super) limit: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapWork {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) i: u32,
    pub(super) p: JobStat,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) at: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<Box<PendReason>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<Box<SnapRun>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SnapRun {
    pub(super) h: Vec<Share>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) un: Vec<Units>,
    pub(super) dt: Stamp,
    pub(super) st: Stamp,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) killing: Option<SignalAct>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) sigs: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) ustop: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) astop: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) halt: Option<Box<SuspReason>>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) gather: bool,
    /// Whether it may be run again, if that differs from the job's specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) again: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) alt: u8,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) forced: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) copied: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) resizes: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) lims: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) warn: (Stamp, i32),
    #[serde(skip_serializing_if = "is_default")]
    pub(super) stopped: Stamp,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) sus: u64,
    /// When its state was last saved.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) saved: Stamp,
    /// It is migrating (`cmig`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mig: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) u: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fate: Option<Box<JobEnd>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bind: Option<Box<Binding>>,
    /// The bindings on its other hosts.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) pb: Vec<PartBinding>,
    /// The part of `u` that belongs to its other hosts, after its end.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) pu: Vec<PartUse>,
    /// Attempts that could not be started.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) nostart: u32,
}

/// Cuts one record's amount off the end of an array's elements; `None`: they fit into one record.
fn split_off(works: &mut Vec<SnapWork>) -> Option<Vec<SnapWork>> {
    let weight = |w: &SnapWork| 1 + w.run.as_ref().map_or(0, |run| run.h.len());
    let mut sum = 0;
    let fits = |w: &&SnapWork| {
        sum += weight(w);
        sum <= ELEMENTS
    };
    let n = works.iter().rev().take_while(fits).count();
    let at = works.len() - n.clamp(1.min(works.len()), works.len());
    (at > 0).then(|| works.split_off(at))
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The entries in the order of their keys: one state gives one snapshot, to the byte.
fn in_order<K: Ord, V>(map: &HashMap<K, V>) -> impl Iterator<Item = (&K, &V)> {
    let mut all: Vec<(&K, &V)> = map.iter().collect();
    all.sort_unstable_by_key(|(key, _)| *key);
    all.into_iter()
}

impl State {
    /// Every record of the state, in an order that [`State::restore`] accepts.
    pub fn snapshot(&self) -> impl Iterator<Item = SnapRecord> {
        let meta = SnapRecord::Meta {
            epoch: self.leaders.epoch,
            last_id: self.numbers.last_job,
            next_spec: self.numbers.last_spec,
            config: self.leaders.config_digest.clone(),
            epochs: self
                .leaders
                .ends
                .iter()
                .map(|(epoch, end)| (*epoch, end.id, end.end.0, end.end.1))
                .collect(),
        };
        let specs = self.specs.iter().map(|(id, e)| SnapRecord::Spec {
            id: *id,
            spec: Box::new(e.spec.as_ref().clone()),
        });
        let queues = self.queues.ctl.iter().map(|(name, ctl)| SnapRecord::Queue {
            name: name.clone(),
            ctl: ctl.clone(),
        });
        let hosts = self.hosts.ctl.iter().map(|(name, ctl)| SnapRecord::Host {
            name: name.clone(),
            ctl: ctl.clone(),
        });
        let jobs = self.jobs.values().flat_map(|job| {
            let (mut last, mut all) = (self.snap_job(job), Vec::new());
            while let Some(w) = split_off(&mut last.w) {
                all.push(SnapRecord::Elements { id: job.id, w });
            }
            all.push(SnapRecord::Job(Box::new(last)));
            all
        });
        let histories = self
            .queues
            .share_histories
            .iter()
            .map(|(queue, (t, past))| {
                let (queue, past) = (queue.clone(), past.clone());
                SnapRecord::Shares { queue, t: *t, past }
            });
        let back = self
            .leaders
            .restored_share
            .iter()
            .cloned()
            .map(SnapRecord::Back);
        let restored = self.leaders.restored.iter();
        let restored = restored.map(|(above, t)| SnapRecord::Restored {
            above: *above,
            t: *t,
        });
        let small = histories.chain(back).chain(restored);
        let small = specs.chain(queues).chain(hosts).chain(small);
        let small = small.chain(self.snapshot_requests());
        let crons = self.crons().cloned().map(Box::new).map(SnapRecord::Cron);
        let messages = self.all_messages().map(|(j, all)| SnapRecord::Messages {
            j,
            all: all.to_vec(),
        });
        let groups = self.job_groups().cloned().map(SnapRecord::JobGroup);
        let later = jobs.chain(crons).chain(messages).chain(groups);
        std::iter::once(meta).chain(small).chain(later)
    }

    /// What is known of requests: their tokens, the keys of submissions, and requests in progress.
    fn snapshot_requests(&self) -> impl Iterator<Item = SnapRecord> {
        let tokens = in_order(&self.requests.tokens).map(|(tok, known)| SnapRecord::Token {
            tok: *tok,
            t: known.t,
            jobs: known.jobs.to_vec(),
        });
        let keys = in_order(&self.requests.keys).map(|((uid, key), (id, t))| SnapRecord::Key {
            uid: *uid,
            key: key.clone(),
            id: *id,
            t: *t,
        });
        let partly = in_order(&self.requests.partial).map(|(tok, partly)| SnapRecord::Partly {
            tok: *tok,
            t: partly.t,
            verb: partly.verb,
            at: partly.position,
        });
        tokens.chain(keys).chain(partly)
    }

    fn snap_job(&self, job: &Job) -> SnapJob {
        let again = self.spec(job.spec).rerunnable;
        let work = |idx: u32, work: &Work| SnapWork {
            i: idx,
            p: work.stat,
            at: work.attempt,
            why: work.why.clone(),
            run: work
                .run
                .as_deref()
                .map(|run| Box::new(self.snap_run(run, again))),
        };
        let (arr, w) = match &job.body {
            Body::Single(single) => (None, vec![work(0, single)]),
            Body::Array(array) => {
                let part = SnapArray {
                    all: array.all.clone(),
                    waiting: array.waiting.clone(),
                    head: array.head,
                    why: array.why.clone(),
                    limit: array.limit,
                };
                let works = array.work.iter().map(|(idx, w)| work(*idx, w)).collect();
                (Some(Box::new(part)), works)
            }
        };
        SnapJob {
            id: job.id,
            s: job.spec,
            t: job.submit,
            o: job.order,
            n: job.name.clone(),
            c: job.command.clone(),
            key: job.key.clone(),
            gated: job.gated,
            arr,
            w,
        }
    }

    /// `again`: the job's specification allows that it is run again.
    fn snap_run(&self, run: &Run, again: bool) -> SnapRun {
        let hosts = run.hosts.iter();
        SnapRun {
            h: hosts
                .map(|(h, n)| Share(self.host_name(*h).to_string(), *n))
                .collect(),
            un: run.units().to_vec(),
            dt: run.dispatch,
            st: run.start,
            pid: run.pid,
            killing: run.killing,
            sigs: run.orders.signals,
            ustop: run.user_stop.wanted,
            astop: run.user_stop.by_other,
            halt: run.suspension.by_system.clone(),
            gather: run.preparing,
            again: (run.rerun.allowed != again).then_some(run.rerun.allowed),
            alt: run.alt,
            forced: run.forced,
            copied: run.rerun.copied,
            resizes: run.orders.resizes,
            lims: run.orders.limits,
            warn: run.warned().unwrap_or_default(),
            stopped: run.suspension.since,
            sus: run.suspension.total_ms,
            saved: run.saved_at(),
            mig: run.migrating(),
            u: run.usage().clone(),
            fate: run.end.clone(),
            bind: run.bind().cloned().map(Box::new),
            pb: run.part_binds().to_vec(),
            pu: run.part_use().to_vec(),
            nostart: run.put_back(),
        }
    }

    /// Adds one record of a snapshot to an empty (or partly restored) state.
    pub fn restore(&mut self, record: SnapRecord) {
        match record {
            SnapRecord::Meta {
                epoch,
                last_id,
                next_spec,
                config,
                epochs,
            } => {
                let ends = epochs.into_iter().map(|(epoch, id, segment, seq)| {
                    let end = (segment, seq);
                    (epoch, super::parts::EpochEnd { id, end })
                });
                self.leaders.ends = ends.collect();
                (
                    self.leaders.epoch,
                    self.numbers.last_job,
                    self.leaders.config_digest,
                ) = (epoch, last_id, config);
                self.numbers.last_spec = next_spec;
            }
            SnapRecord::Spec { id, spec } => {
                self.define_spec(id, &spec);
            }
            SnapRecord::Queue { name, ctl } => {
                self.queues.ctl.insert(name, ctl);
            }
            SnapRecord::Host { name, ctl } => {
                self.intern_host(&name);
                self.hosts.ctl.insert(name, ctl);
            }
            SnapRecord::Token { tok, t, jobs } => {
                self.requests.tokens.insert(
                    tok,
                    KnownAnswer {
                        t,
                        jobs: jobs.into(),
                    },
                );
            }
            SnapRecord::Key { uid, key, id, t } => {
                self.requests.keys.insert((uid, key), (id, t));
            }
            SnapRecord::Partly { tok, t, verb, at } => {
                let position = at;
                let partial = super::PartialRequest { t, verb, position };
                self.requests.partial.insert(tok, partial);
            }
            SnapRecord::Back(back) => self.leaders.restored_share = Some(back),
            SnapRecord::Restored { above, t } => self.leaders.restored = Some((above, t)),
            SnapRecord::Shares { queue, t, past } => {
                self.queues.share_histories.insert(queue, (t, past));
            }
            SnapRecord::Elements { id, w } => {
                self.detached.restoring.entry(id).or_default().extend(w)
            }
            SnapRecord::Job(job) => self.restore_job(*job),
            SnapRecord::Messages { j, all } => {
                all.into_iter().for_each(|message| self.posted(j, message));
            }
            SnapRecord::Cron(cron) => self.restore_cron(*cron),
            SnapRecord::JobGroup(group) => self.put_job_group(group),
        }
    }

    fn restore_job(&mut self, mut snap: SnapJob) {
        snap.w.extend(
            self.detached
                .restoring
                .remove(&snap.id)
                .into_iter()
                .flatten(),
        );
        if !self.specs.contains_key(&snap.s) || self.jobs.contains_key(snap.id) {
            return;
        }
        let again = self.spec(snap.s).rerunnable;
        let mut works: Vec<(u32, Work)> = Vec::with_capacity(snap.w.len());
        for w in snap.w {
            let run = w.run.map(|run| Box::new(self.restore_run(*run, again)));
            works.push((
                w.i,
                Work {
                    stat: w.p,
                    attempt: w.at,
                    // An older program kept this as a reason of the job alone.
                    why: w.why.filter(|why| **why != PendReason::Requeued),
                    run,
                },
            ));
        }
        let body = match snap.arr {
            None => Body::Single(works.pop().map(|(_, w)| w).unwrap_or_default()),
            Some(part) => {
                let mut counts = [0; 8];
                for (_, w) in &works {
                    counts[w.stat as usize] += 1;
                }
                Body::Array(Box::new(Array {
                    all: part.all,
                    waiting: part.waiting,
                    head: part.head,
                    why: part.why,
                    limit: part.limit,
                    work: works.into_iter().collect(),
                    counts,
                }))
            }
        };
        let job = Job {
            id: snap.id,
            spec: snap.s,
            submit: snap.t,
            order: snap.o,
            name: snap.n,
            command: snap.c,
            key: snap.key,
            gated: snap.gated,
            deferred: false,
            body,
        };
        self.restore_indexed(job);
    }

    fn restore_run(&mut self, run: SnapRun, again: bool) -> Run {
        let extras = RunExtras {
            units: run.un.into(),
            preempt_at: run.warn.0,
            warn_signal: run.warn.1,
            bind: run.bind,
            saved_at: run.saved,
            migrating: run.mig,
            part_binds: run.pb,
            part_use: run.pu,
            put_back: run.nostart,
        };
        Run {
            hosts: run
                .h
                .iter()
                .map(|Share(h, n)| (self.intern_host(h), *n))
                .collect(),
            dispatch: run.dt,
            start: run.st,
            pid: run.pid,
            killing: run.killing,
            user_stop: UserStop {
                wanted: run.ustop,
                by_other: run.astop,
            },
            suspension: Suspension {
                by_system: run.halt,
                since: run.stopped,
                total_ms: run.sus,
            },
            orders: OrderNumbers {
                signals: run.sigs,
                resizes: run.resizes,
                limits: run.lims,
            },
            preparing: run.gather,
            rerun: Rerun {
                allowed: run.again.unwrap_or(again),
                copied: run.copied,
            },
            alt: run.alt,
            forced: run.forced,
            usage: super::job::reported(&run.u),
            end: run.fate,
            extras: extras.boxed(),
        }
    }
}
