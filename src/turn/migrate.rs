//! `cmig`: started jobs continue on other hosts. A job with checkpoints is saved, then ended, and
//! stays where it is if it cannot be saved; a job that is only rerunnable is ended at once. Both
//! become pending again under the same id by the reason of their end, which the host records, so
//! that no leader has to remember it.
//!
//! Owns which jobs may migrate, and that their hosts are changed before they end.

use super::context::Turn;
use super::orders::{checkpoint_of, to_migrate};
use crate::intake::{Refusal, Requester};
use crate::model::{JobKey, JobStat, Stamp, TermReason};
use crate::record::event::{Event, SignalAct};
use crate::record::order::Act;
use crate::record::request::Changes;
use crate::state::Body;

/// How a job migrates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MigrationMethod {
    /// It is already migrating.
    Already,
    /// Its state is saved first; it continues to run if that fails.
    Saved,
    /// It starts again from the beginning.
    Again,
}

impl Turn<'_> {
    /// Gives a job the hosts to which it must migrate, if any are named and some part of it can
    /// migrate.
    pub(super) fn move_to(
        &mut self,
        requester: &Requester,
        j: JobKey,
        hosts: &str,
    ) -> Result<(), Refusal> {
        self.may_run_again(j)?;
        if hosts.is_empty() {
            return Ok(());
        }
        if j.idx > 0 {
            return Err(Refusal::usage(
                "all elements of an array have the same hosts: use cmig -m HOSTS ID for the \
                 whole array, or cmig without -m",
            ));
        }
        let mut works = self.works_of(j).into_iter();
        if !works.any(|key| self.migration_method(key).is_ok()) {
            // The answer to each job or element states why.
            return Ok(());
        }
        let mut changes = Changes::default();
        changes.job.spec.hosts = hosts.to_owned();
        changes.set.push("m".to_owned());
        self.apply_changes(requester, j, &changes, true)
    }

    /// Makes one job or element migrate.
    pub(super) fn migrate_one(
        &mut self,
        requester: &Requester,
        j: JobKey,
        force: bool,
    ) -> Result<(), Refusal> {
        let (signal_act, act, reason) = match self.migration_method(j)? {
            MigrationMethod::Already => return Ok(()),
            MigrationMethod::Saved => {
                let act = Act::Checkpoint(to_migrate(force));
                (SignalAct::Migrate { force }, act, TermReason::None)
            }
            MigrationMethod::Again => {
                let why = TermReason::Migrate;
                (SignalAct::Requeue { hold: false, why }, Act::Terminate, why)
            }
        };
        self.spend_event();
        let (by, t) = (requester.user.clone(), self.now);
        self.emit(Event::Signalled {
            j,
            act: signal_act,
            by,
            t,
        });
        self.order_signal(j, act, reason);
        Ok(())
    }

    fn migration_method(&self, j: JobKey) -> Result<MigrationMethod, Refusal> {
        let state = &self.core.state;
        let (Some(stat), Some(spec)) = (state.stat(j), state.spec_of(j.id)) else {
            return Err(Refusal::not_found("no matching job found"));
        };
        if stat.is_finished() {
            return Err(Refusal::not_found("job has already finished"));
        }
        let array = state.job(j.id).map(|job| &job.body);
        let part = j.idx == 0 && matches!(array, Some(Body::Array(_)));
        let run = state.work(j).and_then(|work| work.run.as_deref());
        let run = run.filter(|_| stat.is_started() && !part);
        let run = run.ok_or_else(|| {
            Refusal::refused("has not started: 'cmod -m' gives a pending job other hosts")
        })?;
        if stat == JobStat::Unkwn {
            return Err(Refusal::refused("its host does not answer"));
        }
        match run.killing {
            Some(SignalAct::Requeue {
                why: TermReason::Migrate,
                ..
            }) => return Ok(MigrationMethod::Already),
            Some(SignalAct::Requeue { .. }) => return Err(Refusal::refused("is being requeued")),
            Some(_) => return Err(Refusal::refused("is being terminated")),
            None if run.migrating().is_some() => return Ok(MigrationMethod::Already),
            None => {}
        }
        let saved = checkpoint_of(self.core, spec).is_some();
        let begun = run.start != Stamp(0) && !run.preparing;
        let runs = stat == JobStat::Run && !run.to_stop();
        match (saved, spec.rerunnable) {
            (true, _) if begun && runs => Ok(MigrationMethod::Saved),
            // There is nothing to save yet, or it may start from the beginning anyway.
            (true, _) if !begun => Ok(MigrationMethod::Again),
            (_, true) => Ok(MigrationMethod::Again),
            (true, false) => Err(Refusal::refused(
                "is stopped, so that its state cannot be saved: 'cresume' it first",
            )),
            (false, false) => Err(Refusal::refused(
                "cannot migrate: it has no checkpoints (csub -k, chkpnt of its queue) and may not \
                 be run again (csub -r)",
            )),
        }
    }
}
