//! The plan applier: which events follow from a [`Plan`] and in which order, and the resulting
//! orders to hosts. The leader, the simulators, the tests and the benchmarks all apply plans by it,
//! each with its own [`Sink`]. Decides nothing and writes nothing itself.

use super::{Placement, Plan, Start};
use crate::model::{AttemptId, JobKey, Share, Stamp, SuspReason, TermReason, Units};
use crate::record::event::{Event, SignalAct};
use crate::record::order::Act;
use crate::state::{PREFETCH_BATCH, Run, State};

/// Receives the consequences of a plan.
pub trait Sink {
    /// The state that the plan was made for.
    fn state(&mut self) -> &mut State;
    /// Applies an event to the state and stores it with the events.
    fn emit(&mut self, event: Event);
    /// Called when an attempt was bound to its hosts: they must start it.
    fn bound(&mut self, a: AttemptId);
    /// Called when a started attempt is to be stopped, resumed or terminated.
    fn signal(&mut self, j: JobKey, act: Act, reason: TermReason);
    /// Called when a running attempt was warned or a warning was taken back: its host must pass it
    /// on.
    fn warned(&mut self, _j: JobKey) {}
    /// Called when a running attempt has got these additional slots.
    fn resized(&mut self, j: JobKey, added: &[Share]);
}

/// Applies a whole plan. Room is made before it is used; jobs that resume or grow take what the
/// starts left.
pub fn apply_plan(plan: Plan, now: Stamp, sink: &mut impl Sink) {
    for j in plan.unwarns {
        warn(sink, j, (Stamp(0), 0), now);
    }
    for (j, at, signal) in plan.warns {
        warn(sink, j, (at, signal), now);
    }
    for (j, why) in plan.halts {
        suspend(sink, j, why, now);
    }
    for (j, why) in plan.requeues {
        requeue(sink, j, why, now);
    }
    for (j, why) in plan.kills {
        end(sink, j, SignalAct::Kill(why), why, now);
    }
    apply_starts(plan.starts, now, sink);
    for j in plan.resumes {
        resume(sink, j, now);
    }
    for growth in plan.growths {
        let hosts = shares(sink.state(), &growth.hosts);
        grow(sink, growth.j, (hosts, growth.units), now);
    }
    for (id, limit) in plan.at_limit {
        sink.state().note_array_limit(id, Some(limit));
    }
    for (class, why) in plan.reasons {
        sink.state().note_reason(class, why);
    }
}

fn apply_starts(starts: Vec<Start>, now: Stamp, sink: &mut impl Sink) {
    let mut starts = starts.into_iter();
    while starts.len() > 0 {
        let ahead = starts.as_slice().iter().take(PREFETCH_BATCH);
        let first = |start: &Start| (start.j, start.hosts.first().map(|(host, _)| *host));
        let ahead: Vec<_> = ahead.map(first).collect();
        sink.state().prefetch(&ahead);
        for start in starts.by_ref().take(PREFETCH_BATCH) {
            sink.state().note_array_limit(start.j.id, None);
            let hosts = shares(sink.state(), &start.hosts);
            bind(sink, start.j, (hosts, start.units), (start.alt, false), now);
        }
    }
}

/// Slots by the names of their hosts.
pub fn shares(state: &State, hosts: &Placement) -> Vec<Share> {
    let share = |(id, n): &(_, u32)| Share(state.host_name(*id).to_string(), *n);
    hosts.iter().map(share).collect()
}

/// Binds a pending job to hosts and units. `forced`: on an administrator's request.
///
/// Panics if another job has one of the units: nothing of this turn has been written to the journal
/// yet, and the next leader derives the allocations from the journal again.
pub fn bind(
    sink: &mut impl Sink,
    j: JobKey,
    (hosts, units): (Vec<Share>, Vec<Units>),
    (alt, forced): (u8, bool),
    t: Stamp,
) {
    assert_free(sink.state(), j, &units);
    let attempt = sink.state().work(j).map_or(0, |work| work.attempt);
    let a = AttemptId { j, at: attempt + 1 };
    sink.emit(Event::Dispatched {
        a,
        t,
        hosts,
        alt,
        forced,
        units,
    });
    sink.bound(a);
}

fn assert_free(state: &State, j: JobKey, units: &[Units]) {
    if !units.is_empty()
        && let Some(why) = state.used().units().conflict(j, units)
    {
        panic!("{why}");
    }
}

/// The run of a started job that is not being ended.
pub fn live_run(state: &State, j: JobKey) -> Option<&Run> {
    let work = state.work(j)?;
    let run = work.run.as_deref()?;
    (work.stat.is_started() && run.killing.is_none()).then_some(run)
}

/// Warns a started job that it will be stopped at that time; time 0 takes the warning back.
fn warn(sink: &mut impl Sink, j: JobKey, (at, signal): (Stamp, i32), t: Stamp) {
    let run = live_run(sink.state(), j);
    if run.is_some_and(|run| at != Stamp(0) || run.warned().is_some()) {
        sink.emit(Event::Warned { j, at, signal, t });
        sink.warned(j);
    }
}

/// Stops a job for a reason of the system, or replaces that reason.
pub fn suspend(sink: &mut impl Sink, j: JobKey, why: SuspReason, t: Stamp) {
    let Some(run) = live_run(sink.state(), j) else {
        return;
    };
    if run.suspension.by_system.as_deref() == Some(&why) {
        return;
    }
    let (stopped, reason) = (run.to_stop(), why.of_order());
    sink.emit(Event::Halted { j, why, t });
    if !stopped {
        sink.signal(j, Act::Stop, reason);
    }
}

/// Removes the system's reason to stop a job. A stop by a user stays in force.
pub fn resume(sink: &mut impl Sink, j: JobKey, t: Stamp) {
    let Some(run) = live_run(sink.state(), j).filter(|run| run.suspension.by_system.is_some())
    else {
        return;
    };
    let stopped = run.user_stop.wanted;
    sink.emit(Event::Unhalted { j, t });
    if !stopped {
        sink.signal(j, Act::Resume, TermReason::None);
    }
}

/// Ends an attempt and puts the job back in its old place in the queue.
pub fn requeue(sink: &mut impl Sink, j: JobKey, why: TermReason, t: Stamp) {
    let act = SignalAct::Requeue { hold: false, why };
    end(sink, j, act, requeue_reason(act), t);
}

/// Ends a started job, once.
pub fn end(sink: &mut impl Sink, j: JobKey, act: SignalAct, why: TermReason, t: Stamp) {
    if live_run(sink.state(), j).is_none() {
        return;
    }
    let by = "system".to_owned();
    sink.emit(Event::Signalled { j, act, by, t });
    sink.signal(j, Act::Terminate, why);
}

/// The reason recorded with the end of a job that is to be requeued.
pub fn requeue_reason(act: SignalAct) -> TermReason {
    match act {
        SignalAct::Requeue { why, .. } if why != TermReason::None => why,
        _ => TermReason::Requeue,
    }
}

/// Gives a running job more slots, and the units that belong to them.
pub fn grow(sink: &mut impl Sink, j: JobKey, (hosts, units): (Vec<Share>, Vec<Units>), t: Stamp) {
    if live_run(sink.state(), j).is_none() || hosts.is_empty() {
        return;
    }
    assert_free(sink.state(), j, &units);
    let at = sink.state().work(j).map_or(0, |work| work.attempt);
    let a = AttemptId { j, at };
    let added = hosts.clone();
    sink.emit(Event::Resized { a, hosts, units, t });
    sink.resized(j, &added);
}
