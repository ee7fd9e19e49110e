//! What happens to started work: signals, stops by users and by the system, growth, silent hosts.
//!
//! Two wishes to stop are kept apart, the users' and the system's; the work's host gets their
//! sum, and only its reports open and close a suspension. Never decides anything.

use super::State;
use super::job::Run;
use crate::model::{AttemptId, JobKey, JobStat, Share, Stamp, SuspReason, Units};
use crate::record::event::SignalAct;

/// By how much the numbers of orders are increased after a restore of the share: more than any run
/// was ever signalled, and far from the number of a last kill.
const ORDERS_SKIPPED: u32 = 1 << 20;

impl State {
    /// Handles a restore of the share: hosts may have carried out signals and limits that this
    /// state has lost. Orders in force here are sent again, with numbers above all that a host
    /// knows, since it carries out no order with a lower number.
    pub(super) fn skip_order_numbers(&mut self) {
        for j in self.all_started().collect::<Vec<JobKey>>() {
            self.change_run(j, |run| {
                run.orders.signals = run.orders.signals.saturating_add(ORDERS_SKIPPED);
                run.orders.limits = run.orders.limits.saturating_add(ORDERS_SKIPPED);
            });
        }
    }

    /// `by`: the user who requested it.
    pub(super) fn signalled(&mut self, j: JobKey, act: SignalAct, by: &str) {
        let own = self.spec_of(j.id).is_some_and(|spec| spec.user == by);
        self.change_run(j, |run| {
            run.orders.signals += 1;
            if matches!(act, SignalAct::Kill(_) | SignalAct::Requeue { .. }) {
                run.set_warned(Stamp(0), 0);
            }
            if matches!(act, SignalAct::Stop | SignalAct::Resume) {
                run.set_migrating(None);
            }
            match act {
                SignalAct::Kill(_) => run.killing = Some(act),
                // A kill takes precedence over a later requeue.
                SignalAct::Requeue { .. } if run.killing.is_none() => run.killing = Some(act),
                SignalAct::Stop => {
                    // A stop by the owner after one by an administrator does not give the owner
                    // control of it.
                    run.user_stop.by_other |= !own;
                    run.user_stop.wanted = true;
                }
                SignalAct::Resume => {
                    (run.user_stop.wanted, run.user_stop.by_other) = (false, false)
                }
                SignalAct::Migrate { force } => run.set_migrating(Some(force)),
                SignalAct::Requeue { .. } | SignalAct::Number(_) | SignalAct::Checkpoint { .. } => {
                }
            }
        });
    }

    /// Records the warning of a started job that it will be stopped at that time, 0 = it will not.
    pub(super) fn warned(&mut self, j: JobKey, at: Stamp, signal: i32) {
        self.change_run(j, |run| {
            run.orders.signals += 1;
            run.set_warned(at, signal);
        });
    }

    /// Records that the system wants a started job to be stopped, or no longer wants it.
    pub(super) fn halted(&mut self, j: JobKey, why: Option<&SuspReason>) {
        self.change_run(j, |run| {
            run.orders.signals += 1;
            run.set_warned(Stamp(0), 0);
            run.set_migrating(None);
            run.suspension.by_system = why.cloned().map(Box::new);
        });
    }

    /// Changes the run of a started job, then its state if that changes with it.
    fn change_run(&mut self, j: JobKey, change: impl FnOnce(&mut Run)) {
        if !self.stat(j).is_some_and(JobStat::is_started) {
            return;
        }
        self.change_job(j, |job| {
            let Some(run) = job.work_mut(j.idx).and_then(|w| w.run.as_deref_mut()) else {
                return;
            };
            change(run);
            let reported = run.reported_stat();
            match (reported, job.stat(j.idx)) {
                (_, Some(JobStat::Unkwn)) | (None, _) => {}
                (Some(stat), _) => job.set_stat(j.idx, stat),
            }
        });
    }

    /// Records that its state was saved, or could not be saved, at this time; in the latter case it
    /// does not migrate.
    pub(super) fn checkpointed(&mut self, a: AttemptId, saved: bool, t: Stamp) {
        if self.is_current(a) {
            self.change_run(a.j, |run| {
                run.set_saved_at(t);
                if !saved {
                    run.set_migrating(None);
                }
            });
        }
    }

    pub(super) fn suspended(&mut self, a: AttemptId, on: bool, t: Stamp) {
        if !self.is_current(a) {
            return;
        }
        self.change_job(a.j, |job| {
            let Some(run) = job.work_mut(a.j.idx).and_then(|w| w.run.as_deref_mut()) else {
                return;
            };
            match (on, run.suspension.since) {
                (true, Stamp(0)) => run.suspension.since = t,
                (true, _) => {}
                (false, _) => close_suspension(run, t),
            }
            let stat = run.reported_stat().unwrap_or(JobStat::Ssusp);
            job.set_stat(a.j.idx, stat);
        });
    }

    /// Adds slots at the end of the hosts of a running job, and the units that belong to them.
    pub(super) fn resized(&mut self, a: AttemptId, hosts: &[Share], units: &[Units]) {
        if !self.is_current(a) || hosts.is_empty() {
            return;
        }
        let ids: Vec<_> = hosts
            .iter()
            .map(|Share(h, n)| (self.intern_host(h), *n))
            .collect();
        self.change_job(a.j, |job| {
            let Some(run) = job.work_mut(a.j.idx).and_then(|w| w.run.as_deref_mut()) else {
                return;
            };
            run.orders.resizes += 1;
            if !units.is_empty() {
                Units::merge(&mut run.extras.get_or_insert_default().units, units);
            }
            for (id, n) in ids {
                match run.hosts.last_mut() {
                    Some((last, slots)) if *last == id => *slots += n,
                    _ => run.hosts.push((id, n)),
                }
            }
        });
    }

    pub(super) fn host_seen(&mut self, name: &str, up: bool, boot: &str) {
        let id = self.intern_host(name);
        let ctl = self.hosts.ctl.entry(name.to_owned()).or_default();
        ctl.up = up;
        if !boot.is_empty() {
            ctl.boot = boot.to_owned();
        }
        // Jobs on a silent host are UNKWN until the host reports again.
        for (j, _) in self.used.started_on(id).collect::<Vec<_>>() {
            self.change_job(j, |job| {
                let run = job.work(j.idx).and_then(|w| w.run.as_deref());
                let back = run.and_then(Run::reported_stat).unwrap_or(JobStat::Ssusp);
                match (up, job.stat(j.idx)) {
                    (false, Some(stat)) if stat.is_started() => job.set_stat(j.idx, JobStat::Unkwn),
                    (true, Some(JobStat::Unkwn)) => job.set_stat(j.idx, back),
                    _ => {}
                }
            });
        }
    }
}

pub(super) fn close_suspension(run: &mut Run, t: Stamp) {
    if run.suspension.since != Stamp(0) {
        // A host may report any time.
        let ms = t.since_ms(run.suspension.since);
        run.suspension.total_ms = run.suspension.total_ms.saturating_add(ms);
        run.suspension.since = Stamp(0);
    }
}
