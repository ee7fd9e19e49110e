//! What the events of attempts do to the state: bound to hosts, started, ended, given up.
//!
//! Total functions like those of `apply.rs`, which calls them: an event that does not fit changes
//! nothing.

use super::State;
use super::job::{Body, HostId, Job, JobEnd, Rerun, Run, RunExtras};
use super::running::close_suspension;
use crate::model::{
    AttemptId, Binding, JobKey, JobStat, PendReason, Share, Stamp, TermReason, Units,
};
use crate::record::event::SignalAct;
use crate::record::report::{Ended, PartUse, Usage};
use smallvec::SmallVec;

impl State {
    pub(super) fn dispatched(
        &mut self,
        a: AttemptId,
        t: Stamp,
        (hosts, units): (&[Share], &[Units]),
        (alt, forced): (u8, bool),
    ) {
        let ids: SmallVec<[(HostId, u32); 1]> = hosts
            .iter()
            .map(|Share(h, n)| (self.intern_host(h), *n))
            .collect();
        let preparing = ids.iter().any(|(h, _)| *h != ids[0].0);
        let rerun = Rerun {
            allowed: self.spec_traits(a.j.id).is_some_and(|of| of.rerunnable),
            copied: false,
        };
        self.change_job(a.j, |job| {
            let Some(work) = job.materialise(a.j.idx) else {
                return;
            };
            if !work.stat.is_waiting() || a.at <= work.attempt {
                return;
            }
            let extras = RunExtras {
                units: units.iter().cloned().collect(),
                put_back: work.run.as_deref().map_or(0, Run::put_back),
                ..RunExtras::default()
            };
            let run = Run {
                hosts: ids,
                dispatch: t,
                preparing,
                rerun,
                alt,
                forced,
                extras: extras.boxed(),
                ..Run::default()
            };
            work.attempt = a.at;
            work.why = None;
            work.run = Some(Box::new(run));
            job.set_stat(a.j.idx, JobStat::Run);
        });
    }

    pub(super) fn started(
        &mut self,
        a: AttemptId,
        (pid, bind): (u32, &Option<Box<Binding>>),
        t: Stamp,
    ) {
        if let Some(run) = self.current_run(a) {
            run.set_bind(bind);
            run.start = t;
            run.pid = pid;
            run.preparing = false;
            self.changes.rows.note(a.j);
            self.note_work(a.j);
        }
    }

    pub(super) fn ended(&mut self, e: &Ended, requeue: bool, hold: bool) {
        if !self.is_current(e.a) {
            if self.is_given_up(e.a) && e.is_success() && !requeue {
                self.succeeded_after_all(e);
            }
            return;
        }
        let pend_reason = match e.pre_failed {
            Some(_) => Some(PendReason::PreExec {
                why: e.text.clone(),
            }),
            None if e.no_account && hold => Some(self.no_account(e.a.j)),
            None if e.reason == TermReason::StartFailed => Some(self.refused(e)),
            None => e.retry.filter(|_| !hold).map(PendReason::Retry),
        };
        let units = self.units_for_account(e.a.j);
        self.change_job(e.a.j, |job| {
            let idx = e.a.j.idx;
            let Some(run) = job.work_mut(idx).and_then(|w| w.run.as_deref_mut()) else {
                return;
            };
            close_suspension(run, Stamp(e.t));
            if e.start > 0 && run.start == Stamp(0) {
                run.start = Stamp(e.start);
            }
            run.set_usage(&e.u);
            run.set_part_use(&e.parts);
            run.killing = None;
            run.suspension.by_system = None;
            run.end = Some(Box::new(end_of(e)));
            if requeue && e.reason == TermReason::StartFailed {
                run.note_put_back();
            }
            let ok = e.is_success();
            let stat = match (requeue, hold, ok) {
                (true, true, _) => JobStat::Psusp,
                (true, false, _) => JobStat::Pend,
                (false, _, true) => JobStat::Done,
                (false, _, false) => JobStat::Exit,
            };
            job.set_stat(idx, stat);
            if requeue {
                let usual = match hold {
                    true => PendReason::HeldByOwner,
                    false => PendReason::Requeued,
                };
                job.set_why(idx, Some(pend_reason.unwrap_or(usual)));
            }
        });
        self.note_end(e, requeue, units);
    }

    /// Whether an attempt was ended as lost with its host, and its job still waits to run again.
    pub fn is_given_up(&self, a: AttemptId) -> bool {
        let work = self.work(a.j).filter(|work| work.attempt == a.at);
        let end = work.filter(|work| work.stat.is_waiting()).and_then(|work| {
            let run = work.run.as_deref();
            run.and_then(|run| run.end.as_deref())
        });
        end.is_some_and(|end| end.reason.is_given_up())
    }

    /// The host of an attempt that was given up reports that the job had succeeded.
    fn succeeded_after_all(&mut self, e: &Ended) {
        let counted = self.work(e.a.j).and_then(|work| work.run.as_deref());
        let counted = counted.map_or_else(Usage::default, |run| run.usage().clone());
        self.change_job(e.a.j, |job| {
            let idx = e.a.j.idx;
            let Some(work) = job.work_mut(idx) else {
                return;
            };
            work.why = None;
            if let Some(run) = work.run.as_deref_mut() {
                if run.start == Stamp(0) {
                    run.start = Stamp(e.start);
                }
                run.set_usage(&e.u);
                run.set_part_use(&e.parts);
                run.end = Some(Box::new(end_of(e)));
            }
            job.set_stat(idx, JobStat::Done);
        });
        self.note_late_end(e, &counted);
    }

    /// Only valid as long as the attempt is the last one, and over.
    pub(super) fn part_used(&mut self, a: AttemptId, part: &PartUse) {
        let work = self.jobs.get_mut(a.j.id);
        let work = work.and_then(|job| job.work_mut(a.j.idx));
        let Some(work) = work.filter(|work| work.attempt == a.at) else {
            return;
        };
        if let Some(run) = work.run.as_deref_mut().filter(|run| run.end.is_some()) {
            run.add_late_usage(part);
            self.changes.rows.note(a.j);
        }
    }

    /// The reason of a job that is held because its host has no account for its user.
    pub(super) fn no_account(&self, j: JobKey) -> PendReason {
        let user = self.spec_of(j.id).map_or(String::new(), |s| s.user.clone());
        let first = self.work(j).and_then(|w| w.run.as_deref()?.hosts.first());
        let host = first.map_or(String::new(), |(id, _)| self.host_name(*id).to_string());
        PendReason::NoSuchUser { user, host }
    }

    /// The reason of a job that its host could not start.
    fn refused(&self, e: &Ended) -> PendReason {
        let first = self
            .work(e.a.j)
            .and_then(|w| w.run.as_deref()?.hosts.first());
        PendReason::HostRefused {
            host: first.map_or(String::new(), |(id, _)| self.host_name(*id).to_string()),
            why: e.text.clone(),
        }
    }

    pub(super) fn unbound(&mut self, a: AttemptId, why: &str, t: Stamp, at: &str) {
        let Some(run) = self.current_run(a) else {
            return;
        };
        let killing = run.killing;
        let host = run.hosts.first().map(|(h, _)| *h);
        let host = match at {
            "" => host.map_or(String::new(), |h| self.host_name(h).to_string()),
            at => at.to_owned(),
        };
        self.change_job(a.j, |job| {
            let idx = a.j.idx;
            if let Some(run) = job.work_mut(idx).and_then(|w| w.run.as_deref_mut()) {
                run.suspension.by_system = None;
            }
            match killing {
                Some(SignalAct::Kill(reason)) => {
                    let end = JobEnd {
                        end: t,
                        reason,
                        text: why.to_owned(),
                        ..JobEnd::default()
                    };
                    let run = job.work_mut(idx).and_then(|w| w.run.as_deref_mut());
                    if let Some(run) = run {
                        run.killing = None;
                        run.end = Some(Box::new(end));
                    }
                    job.set_stat(idx, JobStat::Exit);
                }
                Some(SignalAct::Requeue { hold: true, .. }) => {
                    job.set_stat(idx, JobStat::Psusp);
                    job.set_why(idx, Some(PendReason::HeldByOwner));
                }
                Some(SignalAct::Requeue { .. }) => {
                    job.set_stat(idx, JobStat::Pend);
                    job.set_why(idx, Some(PendReason::Requeued));
                }
                _ => {
                    job.set_stat(idx, JobStat::Pend);
                    let why = why.to_owned();
                    job.set_why(idx, Some(PendReason::HostRefused { host, why }));
                }
            }
        });
    }

    pub(super) fn cancelled(&mut self, j: JobKey, reason: TermReason, t: Stamp) {
        let job_end = || {
            Box::new(JobEnd {
                end: t,
                reason,
                ..JobEnd::default()
            })
        };
        let end = |job: &mut Job, idx: u32| {
            let Some(work) = job.materialise(idx) else {
                return;
            };
            if !work.stat.is_waiting() {
                return;
            }
            work.why = None;
            match work.run.as_deref_mut() {
                Some(run) => run.end = Some(job_end()),
                None => work.run = Some(Box::new(never_ran(t, job_end()))),
            }
            job.set_stat(idx, JobStat::Exit);
        };
        let waiting = match self.jobs.get(j.id).map(|job| &job.body) {
            Some(Body::Array(array)) if j.idx == 0 => array.waiting.clone(),
            _ => return self.change_job(j, |job| end(job, j.idx)),
        };
        self.change_job(j, |job| waiting.iter().for_each(|idx| end(job, idx)));
        self.changes
            .rows
            .extend(waiting.iter().map(|idx| JobKey::element(j.id, idx)));
    }
}

fn end_of(e: &Ended) -> JobEnd {
    JobEnd {
        end: Stamp(e.t),
        known: Stamp(e.known),
        code: e.code,
        success: e.success,
        sig: e.sig,
        core: e.core,
        oom: e.oom,
        post_failed: e.post_failed,
        reason: e.reason,
        text: e.text.clone(),
    }
}

/// The run of a job that ended without ever being dispatched.
fn never_ran(t: Stamp, end: Box<JobEnd>) -> Run {
    Run {
        dispatch: t,
        end: Some(end),
        ..Run::default()
    }
}
