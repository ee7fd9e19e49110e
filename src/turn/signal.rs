//! Signals to jobs: kill, stop, resume, any number; requeue.

use super::context::Turn;
use super::job_verb::{RequeueStates, WorkCounts};
use super::orders::{attempt_of, checkpoint_of, grace_of};
use super::request_queue::EVENT;
use crate::intake::{Action, ActionObject, Owner, Refusal, Requester};
use crate::model::{JobKey, JobStat, PendReason, Stamp, SuspReason, TermReason};
use crate::record::ack::Code;
use crate::record::event::{Event, SignalAct};
use crate::record::order::{Act, Order};
use crate::record::report::Ended;
use crate::record::request::{Selector, SignalAction};
use crate::state::{Body, Run};

// The numbers are the same on every Linux.
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;

impl Turn<'_> {
    /// Counts the cost of an event about a job that is about to be added.
    pub(super) fn spend_event(&mut self) {
        self.spend(EVENT);
    }

    /// Whether `requester` may do `action` to the job.
    pub(super) fn may_act(&self, requester: &Requester, action: Action, id: u32) -> bool {
        let core = &*self.core;
        let Some(spec) = core.state.spec_of(id) else {
            return false;
        };
        let owner = Owner {
            uid: spec.uid,
            user: &spec.user,
            groups: core.groups_of(&spec.user),
            queue: &spec.queue,
        };
        requester.may(
            action,
            ActionObject::Job(owner),
            &core.config,
            core.inputs.service_uid,
        )
    }

    /// Signals a single job, an element, or the waiting part of an array.
    pub(super) fn signal_work(
        &mut self,
        requester: &Requester,
        key: JobKey,
        action: SignalAction,
        counts: &mut WorkCounts,
    ) {
        let Some(stat) = self.stat(key).filter(|stat| !stat.is_finished()) else {
            return;
        };
        let action = self.as_verb(key, action);
        counts.live += 1;
        if action == SignalAction::Resume
            && self.stopped_by_others(key)
            && !self.may_act(requester, Action::ResumeAdmins, key.id)
        {
            counts.denied += 1;
            return;
        }
        if matches!(action, SignalAction::Checkpoint(_)) && !self.can_be_saved(key, stat) {
            counts.unsaved += 1;
            return;
        }
        let spec = self.core.state.spec_of(key.id);
        let own = spec.is_some_and(|spec| spec.uid == requester.uid);
        match stat.is_waiting() {
            true => self.signal_waiting(requester, (key, stat), action, own),
            false => self.signal_started(requester, key, action, own),
        }
    }

    /// SIGCONT for a job that users or the system stopped is a request to resume it: it must not
    /// run without what it released.
    fn as_verb(&self, key: JobKey, action: SignalAction) -> SignalAction {
        let run = self.core.state.work(key).and_then(|w| w.run.as_deref());
        match action {
            SignalAction::Number(SIGCONT) if run.is_some_and(Run::to_stop) => SignalAction::Resume,
            action => action,
        }
    }

    /// Whether it has not ended, and its state is none of those that the selector names.
    pub(super) fn is_in_other_state(&self, j: JobKey, sel: &Selector) -> bool {
        let stat = self.stat(j).filter(|stat| !stat.is_finished());
        stat.is_some_and(|stat| !sel.has_stat(stat))
    }

    /// The answer for an operand whose jobs or elements were signalled.
    pub(super) fn signal_answer(
        &self,
        j: JobKey,
        action: SignalAction,
        counts: &WorkCounts,
    ) -> Result<String, Refusal> {
        if counts.live == 0 && counts.in_other_state > 0 {
            return Err(Refusal::refused("is not in the requested state"));
        }
        if counts.live == 0 {
            return Err(Refusal::new(Code::NotFound, "job has already finished"));
        }
        if counts.denied == counts.live {
            return Err(Refusal::permission(
                "permission denied: an administrator stopped it, only one may resume it",
            ));
        }
        if counts.unsaved == counts.live {
            return Err(Refusal::refused(
                "has no checkpoints (csub -k, chkpnt of its queue), or is not running",
            ));
        }
        let run = self.core.state.work(j).and_then(|w| w.run.as_deref());
        let halt = run.and_then(|run| run.suspension.by_system.as_deref());
        let hook = run.and_then(|run| run.usage().post_exec());
        if let (SignalAction::Kill, Some(hook)) = (action, hook) {
            return Ok(format!("has ended: its {} is being ended", hook.what));
        }
        Ok(match (action, halt) {
            (SignalAction::Kill, _) => "is being terminated".to_owned(),
            (SignalAction::Force, _) => self.removed(j),
            (SignalAction::Stop, _) => "is being stopped".to_owned(),
            (SignalAction::Resume, Some(SuspReason::Released { .. })) => {
                "is being resumed as soon as what it released is free".to_owned()
            }
            (SignalAction::Resume | SignalAction::Number(SIGCONT), Some(why)) => format!(
                "continues as soon as the system allows \
                it: {why}"
            ),
            (SignalAction::Resume, None) => "is being resumed".to_owned(),
            (SignalAction::Number(_), _) => "is being signaled".to_owned(),
            (SignalAction::Checkpoint(_), _) => "is being checkpointed".to_owned(),
        })
    }

    /// Whether it runs and has checkpoints.
    fn can_be_saved(&self, j: JobKey, stat: JobStat) -> bool {
        let spec = self.core.state.spec_of(j.id);
        let saved = spec.is_some_and(|spec| checkpoint_of(self.core, spec).is_some());
        let run = self.core.state.work(j).and_then(|work| work.run.as_deref());
        let going = run.is_some_and(|run| run.start != Stamp(0) && run.killing.is_none());
        saved && stat == JobStat::Run && going
    }

    fn stat(&self, j: JobKey) -> Option<JobStat> {
        match self.core.state.job(j.id).map(|job| &job.body) {
            Some(Body::Array(array)) if j.idx == 0 && array.waiting.is_empty() => None,
            Some(_) => self.core.state.stat(j),
            None => None,
        }
    }

    /// Whether a user other than the owner holds or stopped it.
    fn stopped_by_others(&self, j: JobKey) -> bool {
        let state = &self.core.state;
        if state.stat(j) == Some(JobStat::Psusp) {
            let Some(job) = state.job(j.id) else {
                return false;
            };
            // An element that was not changed individually waits for the same reason as its array.
            let why = job.own_reason(j.idx).or_else(|| job.own_reason(0));
            return why == Some(&PendReason::HeldByAdmin);
        }
        let run = state.work(j).and_then(|work| work.run.as_deref());
        run.is_some_and(|run| run.user_stop.by_other)
    }

    /// The jobs or elements that a key names: for an array its pending part (index 0) and each
    /// created element.
    pub(super) fn works_of(&self, j: JobKey) -> Vec<JobKey> {
        match self.core.state.job(j.id).map(|job| &job.body) {
            Some(Body::Array(array)) if j.idx == 0 => {
                let elements = array
                    .work
                    .iter()
                    .filter(|(_, work)| !work.stat.is_finished());
                let elements = elements.map(|(idx, _)| JobKey::element(j.id, *idx));
                std::iter::once(j).chain(elements).collect()
            }
            _ => vec![j],
        }
    }

    fn signal_waiting(
        &mut self,
        requester: &Requester,
        (j, stat): (JobKey, JobStat),
        action: SignalAction,
        own: bool,
    ) {
        let (by, t) = (requester.user.clone(), self.now);
        match action {
            // There is nothing to change.
            SignalAction::Stop if stat == JobStat::Psusp => return,
            SignalAction::Resume if stat == JobStat::Pend => return,
            SignalAction::Kill | SignalAction::Force => self.cancel_waiting(j, by, own),
            SignalAction::Stop => {
                self.emit(Event::Held {
                    j,
                    held: true,
                    admin: !own,
                    by,
                    t,
                });
            }
            SignalAction::Resume => {
                self.emit(Event::Held {
                    j,
                    held: false,
                    admin: false,
                    by,
                    t,
                });
            }
            // A job without processes accepts no other signal, as in LSF.
            SignalAction::Number(n) if [SIGKILL, SIGTERM, SIGINT].contains(&n) => {
                self.cancel_waiting(j, by, own);
            }
            SignalAction::Number(_) | SignalAction::Checkpoint(_) => return,
        }
        self.spend_event();
    }

    fn cancel_waiting(&mut self, j: JobKey, by: String, own: bool) {
        let reason = match own {
            true => TermReason::Owner,
            false => TermReason::Admin,
        };
        let t = self.now;
        self.emit(Event::Cancelled { j, by, reason, t });
    }

    /// Whether a signal changes nothing: the requested state is reached already, or is being
    /// reached.
    fn has_no_effect(run: &Run, action: SignalAction, own: bool) -> bool {
        match action {
            SignalAction::Kill => {
                let is_killed = matches!(run.killing, Some(SignalAct::Kill(_)));
                is_killed && run.usage().post_exec().is_none()
            }
            SignalAction::Stop => run.user_stop.wanted && (own || run.user_stop.by_other),
            SignalAction::Resume => !run.user_stop.wanted && !run.user_stop.by_other,
            SignalAction::Force | SignalAction::Number(_) | SignalAction::Checkpoint(_) => false,
        }
    }

    fn signal_started(
        &mut self,
        requester: &Requester,
        j: JobKey,
        action: SignalAction,
        own: bool,
    ) {
        let reason = match (action, own) {
            (SignalAction::Force, _) => TermReason::Force,
            (_, true) => TermReason::Owner,
            (_, false) => TermReason::Admin,
        };
        let (act, signal_act) = match action {
            SignalAction::Kill => (Act::Terminate, SignalAct::Kill(reason)),
            SignalAction::Force => (Act::Kill, SignalAct::Kill(reason)),
            SignalAction::Stop => (Act::Stop, SignalAct::Stop),
            SignalAction::Resume => (Act::Resume, SignalAct::Resume),
            SignalAction::Number(n) => (Act::Number(n), SignalAct::Number(n)),
            SignalAction::Checkpoint(act) => (
                Act::Checkpoint(act),
                SignalAct::Checkpoint { kill: act.kill },
            ),
        };
        let (by, t) = (requester.user.clone(), self.now);
        let run = self.core.state.work(j).and_then(|w| w.run.as_deref());
        if run.is_some_and(|run| Self::has_no_effect(run, action, own)) {
            return;
        }
        if action == SignalAction::Resume {
            self.wait_for_released(j);
        }
        let run = self.core.state.work(j).and_then(|w| w.run.as_deref());
        // A stop by the system stays in force regardless of users, and theirs regardless of the
        // system.
        let halted = run.is_some_and(|run| run.suspension.by_system.is_some());
        let has_no_effect = halted && matches!(action, SignalAction::Stop | SignalAction::Resume);
        self.spend_event();
        self.emit(Event::Signalled {
            j,
            act: signal_act,
            by,
            t,
        });
        if action == SignalAction::Force {
            self.end_by_force(j);
        } else if !has_no_effect {
            self.order_signal(j, act, reason);
        }
    }

    /// A job that released resources when users stopped it continues when they are free, which is
    /// for the scheduler to decide. Called before a user's stop is taken back.
    fn wait_for_released(&mut self, j: JobKey) {
        let core = &*self.core;
        let run = core.state.work(j).and_then(|work| work.run.as_deref());
        let by_user = |run: &Run| {
            run.user_stop.wanted && run.suspension.by_system.is_none() && run.killing.is_none()
        };
        if !run.is_some_and(by_user) {
            return;
        }
        if let Some(why) = core.engine.needs_again(&core.state, &core.hosts, j) {
            let t = self.now;
            self.emit(Event::Halted { j, why, t });
        }
    }

    /// The answer of `ckill -r`: the job is over, but what it started perhaps is not yet.
    fn removed(&self, j: JobKey) -> String {
        match self.stray_host(j) {
            Some(host) => format!(
                "is removed; what it started may still run on host {host} until that host has \
                 killed it"
            ),
            None => "is being terminated".to_owned(),
        }
    }

    /// Ends jobs whose termination time (`-t`) has come, pending or not, and those that should have
    /// started by now but never did.
    pub(super) fn end_overdue(&mut self) {
        for (id, reason) in self.core.state.take_overdue(self.now) {
            let late = reason == TermReason::StartTimeout;
            for j in self.works_of(JobKey::job(id)) {
                let tried = self.current_attempt(j).at > 0;
                match self.stat(j) {
                    Some(stat) if late && (tried || !stat.is_waiting()) => {}
                    _ => self.end_work(j, reason),
                }
            }
        }
    }

    /// Ends a single job, an element, or the waiting part of an array without the request of a
    /// person.
    pub(super) fn end_work(&mut self, j: JobKey, reason: TermReason) {
        let (by, t) = ("system".to_owned(), self.now);
        match self.stat(j) {
            Some(stat) if stat.is_waiting() => {
                self.emit(Event::Cancelled { j, by, reason, t });
            }
            Some(stat) if stat.is_started() => {
                let act = SignalAct::Kill(reason);
                self.emit(Event::Signalled { j, act, by, t });
                self.order_signal(j, Act::Terminate, reason);
            }
            Some(_) | None => {}
        }
    }

    /// Ends it now; its host is ordered to kill it, by this leader and by every later one to which
    /// the host reports it.
    fn end_by_force(&mut self, j: JobKey) {
        let state = &self.core.state;
        let work = state.work(j).filter(|work| work.stat.is_started());
        let Some((work, run)) = work.and_then(|work| Some((work, work.run.as_deref()?))) else {
            return;
        };
        if run.preparing {
            return self.order_signal(j, Act::Kill, TermReason::Force);
        }
        let a = attempt_of(j, work);
        let first = run.hosts.first();
        let host = first.map(|(id, _)| state.host_name(*id).to_string());
        let (u, parts) = self.used_so_far(a);
        let e = Ended {
            a,
            start: run.start.0,
            t: self.now.0,
            known: self.now.0,
            sig: SIGKILL,
            reason: TermReason::Force,
            u,
            parts,
            ..Ended::default()
        };
        if let Some(host) = host {
            self.kill_unconfirmed(&host, a);
        }
        self.emit(Event::Ended {
            e: Box::new(e),
            requeue: false,
            hold: false,
        });
    }

    /// Orders the first host of a started job to signal it.
    pub(super) fn order_signal(&mut self, j: JobKey, act: Act, reason: TermReason) {
        let state = &self.core.state;
        let Some(work) = state.work(j) else { return };
        let Some(run) = work.run.as_deref() else {
            return;
        };
        if run.preparing {
            // No host has the job yet: an end is carried out here, a stop is ordered with the
            // start.
            if run.killing.is_some() {
                self.cancel_preparing(j, "killed before it started");
            }
            return;
        }
        let Some((host, _)) = run.hosts.first() else {
            return;
        };
        let host = state.host_name(*host);
        let order = Order::Signal {
            a: attempt_of(j, work),
            act,
            reason,
            grace_ms: grace_of(self.core, j, act),
            n: run.orders.signals,
            mark: state.mark(j),
        };
        self.ready.order(host, order);
        if act.is_suspension() {
            self.signal_parts(j);
        }
    }

    /// Whether users may have a job run again at all.
    ///
    /// # Errors
    /// Returns why they may not.
    pub(super) fn may_run_again(&self, j: JobKey) -> Result<(), Refusal> {
        let spec = self.core.state.spec_of(j.id);
        match spec.is_some_and(|spec| spec.session.is_some()) {
            false => Ok(()),
            true => Err(Refusal::new(
                Code::Refused,
                "is interactive and runs only once, because no csub waits for another run; \
                 submit it again",
            )),
        }
    }

    pub(super) fn requeue_one(
        &mut self,
        requester: &Requester,
        j: JobKey,
        hold: bool,
        wants: RequeueStates,
    ) -> bool {
        let Some(stat) = self.core.state.stat(j).filter(|stat| wants.stat(*stat)) else {
            return false;
        };
        let run = self.core.state.work(j).and_then(|w| w.run.as_deref());
        let killing = run.and_then(|run| run.killing);
        let same = |act| matches!(act, SignalAct::Requeue { hold: was, .. } if was == hold);
        let post_exec = run.is_some_and(|run| run.usage().post_exec().is_some());
        if stat.is_started() && killing.is_some_and(same) && !post_exec {
            return true;
        }
        let own = self
            .core
            .state
            .spec_of(j.id)
            .is_some_and(|spec| spec.uid == requester.uid);
        self.spend_event();
        let (by, t) = (requester.user.clone(), self.now);
        if stat.is_finished() {
            self.emit(Event::Requeued { j, hold, by, t });
        } else {
            self.emit(Event::Signalled {
                j,
                act: SignalAct::Requeue {
                    hold,
                    why: TermReason::None,
                },
                by,
                t,
            });
            let reason = match (post_exec, own) {
                (false, _) => TermReason::Requeue,
                // The reason concerns only the command after its own.
                (true, true) => TermReason::Owner,
                (true, false) => TermReason::Admin,
            };
            self.order_signal(j, Act::Terminate, reason);
        }
        true
    }
}

/// The answer of `crequeue`. `left`: where the last attempt may still run.
pub(super) fn requeued(left: Option<&str>) -> String {
    let Some(host) = left else {
        return "is being requeued".to_owned();
    };
    format!(
        "is requeued and held: host {host} has not confirmed the end of its last attempt, which \
         may still run there; 'cresume' it when that host has ended it or is lost"
    )
}

pub(super) fn denied() -> Refusal {
    Refusal::permission("permission denied: the job is not yours")
}
