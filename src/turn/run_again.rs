//! Whether an attempt that ended is followed by another: by an order, because its host failed it,
//! by its exit value or as a retry. Owns the rule that an attempt that ended by a signal or was
//! terminated is not repeated.

use super::context::Turn;
use super::core::Core;
use crate::model::{Retry, Spec, StartFault, TermReason};
use crate::record::event::{Event, SignalAct};
use crate::record::report::Ended;
use crate::text::exits::{RequeueExits, SuccessExits};
use std::borrow::Cow;

const SIGKILL: u8 = 9;

/// The exit values that put a job back to pending: its own, else those of its queue.
pub(super) fn requeue_exits<'a>(core: &'a Core, spec: &Spec) -> Cow<'a, RequeueExits> {
    let own = RequeueExits::parse(&spec.again.exits).unwrap_or_default();
    let of_queue = core.config.queue(&spec.queue).map(|queue| &queue.requeue);
    match of_queue.filter(|_| own.is_empty() && spec.session.is_none()) {
        Some(exits) => Cow::Borrowed(exits),
        // The command that waits for an interactive job exists for one run only.
        None if spec.session.is_some() => Cow::Owned(RequeueExits::default()),
        None => Cow::Owned(own),
    }
}

/// The exit values other than 0 that count as success of a job: its application's, else its
/// queue's.
pub(super) fn success_exits<'a>(core: &'a Core, spec: &Spec) -> Cow<'a, SuccessExits> {
    let app = core.config.app(&spec.app);
    let of_app = app.and_then(|app| app.success.as_ref());
    let queue = core.config.queue(&spec.queue);
    let all = of_app.or(queue.map(|queue| &queue.success));
    all.map_or_else(Cow::default, Cow::Borrowed)
}

impl Turn<'_> {
    /// Whether the job goes back to pending (held) after this end.
    pub(super) fn requeue_after(&mut self, e: &mut Ended, confirmed: bool) -> (bool, bool) {
        let state = &self.core.state;
        let Some(work) = state.work(e.a.j) else {
            return (false, false);
        };
        let copied = work.run.as_ref().is_some_and(|run| run.rerun.copied);
        match work.run.as_ref().and_then(|run| run.killing) {
            Some(SignalAct::Kill(_)) => return (false, false),
            Some(SignalAct::Requeue { hold, why }) => {
                // It had succeeded before the order reached it: it runs again only at the request
                // of a person.
                let succeeded = e.reason == TermReason::None && e.is_success();
                if !succeeded || why == TermReason::None {
                    return (true, hold || copied);
                }
            }
            _ => {}
        }
        if e.reason == TermReason::Migrate {
            return (true, copied);
        }
        let may_differ = e.pre_failed.is_some() || e.fault() != StartFault::Job;
        if may_differ && e.reason == TermReason::StartFailed {
            return self.after_failed_start(e, copied);
        }
        let state = &self.core.state;
        let Some(spec) = state.spec_of(e.a.j.id) else {
            return (false, false);
        };
        let lost = matches!(
            e.reason,
            TermReason::HostLost | TermReason::ShepherdLost | TermReason::Fenced
        );
        if lost {
            let again = spec.rerunnable && (confirmed || self.may_run_elsewhere(e.a.j));
            return (again, copied);
        }
        (self.after_exit(e), copied)
    }

    /// Whether its exit code counts as success according to its application or else its queue. A
    /// job that was ended, or whose own command never ran, has not succeeded.
    pub(super) fn is_success(&self, e: &Ended) -> bool {
        let Some(code) = e.code.filter(|code| *code != 0) else {
            return false;
        };
        let own_end = e.reason == TermReason::None && e.sig == 0 && e.pre_failed.is_none();
        let spec = self.core.state.spec_of(e.a.j.id);
        own_end && spec.is_some_and(|spec| success_exits(self.core, spec).holds(code))
    }

    /// Whether a job that ended by itself runs again, at once or after a pause.
    fn after_exit(&mut self, e: &mut Ended) -> bool {
        let core = &*self.core;
        let j = e.a.j;
        let (Some(spec), Some(work)) = (core.state.spec_of(j.id), core.state.work(j)) else {
            return false;
        };
        if spec.session.is_some() {
            // The waiting `csub` has already received the end of the job.
            return false;
        }
        let code = e.code.and_then(|code| u8::try_from(code).ok());
        // The job handled the death of one of its processes, and its exit code says what it wants.
        let handled = e.oom && e.reason.is_memory() && code != Some(128 + SIGKILL);
        let by_itself = e.reason == TermReason::None || handled;
        let code = code.filter(|code| *code != 0 && by_itself);
        let (Some(code), Some(queue)) = (code, core.config.queue(&spec.queue)) else {
            return false;
        };
        let runs = work.runs();
        let exits = requeue_exits(core, spec);
        if exits.requeues(code) {
            let excludes = exits.excludes(code);
            let app = core.config.app(&spec.app);
            let most = app.and_then(|app| app.max_requeue).or(queue.max_requeue);
            let tries_left = most.is_none_or(|max| runs <= max);
            return tries_left && (!excludes || self.exclude_host(e));
        }
        if e.success {
            return false;
        }
        let max_retries = spec.again.retries.unwrap_or(queue.retries);
        e.retry = Retry::after(runs, max_retries, self.now.0);
        e.retry.is_some()
    }

    /// Removes the first host of a job from those on which it may run, as `-m` would: permanently,
    /// and before its end is recorded, so that no leader starts it there. Returns false if that
    /// cannot be recorded.
    fn exclude_host(&mut self, e: &Ended) -> bool {
        let (j, state) = (e.a.j, &self.core.state);
        let run = state.work(j).and_then(|work| work.run.as_deref());
        let first = run.and_then(|run| run.hosts.first());
        let (Some((host, _)), Some(spec)) = (first, state.spec_of(j.id)) else {
            return false;
        };
        let host = state.host_name(*host);
        let hosts = match spec.hosts.as_str() {
            "" => format!("all ~{host}"),
            hosts => format!("{hosts} ~{host}"),
        };
        let spec = Spec {
            hosts,
            ..Spec::clone(spec)
        };
        let Some(s) = self.spec_id(spec) else {
            return false;
        };
        let (by, what, t) = ("system".to_owned(), "-m".to_owned(), self.now);
        self.emit(Event::Changed { j, s, by, what, t });
        true
    }
}
