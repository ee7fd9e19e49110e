//! Run windows and dispatch windows: which are open now, who may start in them, what becomes of
//! running work when one closes. Owns what is open and until when; the zone is data. Never reads a
//! clock.

use super::Plan;
use super::amount::NEVER_MS;
use super::engine::{Bucket, Engine};
use super::hosts::HostTable;
use crate::config::{Config, GuardAction};
use crate::model::{PendReason, Stamp, SuspReason, TermReason};
use crate::state::State;
use crate::text::duration;
use crate::text::window::Windows;
use jiff::tz::TimeZone;

/// Whether something is open at a moment, and for how long that holds.
#[derive(Clone, Debug)]
struct Gate {
    open: bool,
    /// The next change.
    change: Option<Stamp>,
}

impl Gate {
    const ALWAYS: Gate = Gate {
        open: true,
        change: None,
    };

    fn at(windows: Option<&Windows>, now: Stamp, zone: &TimeZone) -> Gate {
        windows.map_or(Gate::ALWAYS, |windows| Gate {
            open: windows.contains_ms(now.0, zone),
            change: windows.next_change_ms(now.0, zone).map(Stamp),
        })
    }
}

/// What is open now.
#[derive(Debug)]
pub(super) struct Hours {
    pub zone: TimeZone,
    /// By queue.
    run: Vec<Gate>,
    dispatch: Vec<Gate>,
    /// Hosts that have a window, by position.
    hosts: Vec<(u32, Gate)>,
    /// Some queue has a window.
    any: bool,
    /// All this holds from and until.
    holds: Option<(Stamp, Stamp)>,
}

impl Default for Hours {
    fn default() -> Hours {
        Hours {
            zone: TimeZone::UTC,
            run: Vec::new(),
            dispatch: Vec::new(),
            hosts: Vec::new(),
            any: false,
            holds: None,
        }
    }
}

impl Hours {
    /// For another configuration or other hosts: everything is worked out at the next look.
    pub fn renewed(zone: TimeZone, config: &Config, table: &HostTable) -> Hours {
        let queues = config.queues.len();
        let windowed = |at: &usize| table.at(*at).entry.dispatch_window.is_some();
        let hosts = (0..table.len()).filter(windowed);
        let windowed =
            |q: &crate::config::Queue| q.run_window.is_some() || q.dispatch_window.is_some();
        Hours {
            zone,
            run: vec![Gate::ALWAYS; queues],
            dispatch: vec![Gate::ALWAYS; queues],
            hosts: hosts.map(|at| (at as u32, Gate::ALWAYS)).collect(),
            any: config.queues.iter().any(windowed),
            holds: None,
        }
    }

    /// The run window of a queue is open.
    pub fn runs(&self, queue: Option<u16>) -> bool {
        let gate = queue.and_then(|at| self.run.get(usize::from(at)));
        gate.is_none_or(|gate| gate.open)
    }

    /// The dispatch window of a host is closed.
    pub fn shuts(&self, at: usize) -> bool {
        let found = self.hosts.binary_search_by_key(&(at as u32), |(at, _)| *at);
        found.is_ok_and(|at| !self.hosts[at].1.open)
    }

    fn next(&self, now: Stamp) -> Option<Stamp> {
        let hosts = self.hosts.iter().map(|(_, gate)| gate);
        let gates = self.run.iter().chain(&self.dispatch).chain(hosts);
        gates
            .filter_map(|gate| gate.change)
            .filter(|at| *at > now)
            .min()
    }
}

/// A run limit in milliseconds, if there is one.
fn run_limit(estimate: i64) -> Option<u64> {
    let known = (0..NEVER_MS).contains(&estimate);
    known.then_some(estimate.unsigned_abs())
}

impl Engine {
    /// The civil time that windows are in. Hosts of another zone make no difference.
    pub fn set_zone(&mut self, zone: TimeZone) {
        self.hours.zone = zone;
        self.hours.holds = None;
    }

    /// Looks which windows are open, opens and closes hosts, stops what may no longer run.
    pub(super) fn look_at_windows(
        &mut self,
        state: &State,
        table: &HostTable,
        now: Stamp,
        plan: &mut Plan,
    ) {
        if !self.hours.any && self.hours.hosts.is_empty() {
            return;
        }
        let holds = |(from, until)| from <= now && now < until;
        if !self.hours.holds.is_some_and(holds) {
            self.renew_gates(table, now);
        }
        plan.wake_at(self.hours.next(now));
        for queue in 0..self.config().queues.len() {
            if !self.hours.run[queue].open {
                self.close_queue(state, queue, plan);
            }
        }
    }

    fn renew_gates(&mut self, table: &HostTable, now: Stamp) {
        let config = self.config.clone().expect("an engine has a configuration");
        let mut hours = std::mem::take(&mut self.hours);
        for (at, queue) in config.queues.iter().enumerate() {
            hours.run[at] = Gate::at(queue.run_window.as_ref(), now, &hours.zone);
            hours.dispatch[at] = Gate::at(queue.dispatch_window.as_ref(), now, &hours.zone);
        }
        let mut turned = Vec::new();
        for (at, gate) in &mut hours.hosts {
            let windows = table.at(*at as usize).entry.dispatch_window.as_ref();
            let new = Gate::at(windows, now, &hours.zone);
            if new.open != gate.open {
                turned.push(*at as usize);
            }
            *gate = new;
        }
        // Clocks may be set.
        let until = now.plus_ms(config.general.job_check_interval_ms.max(1));
        hours.holds = Some((now, hours.next(now).map_or(until, |at| at.min(until))));
        self.hours = hours;
        for at in turned {
            self.set_host(table, at);
        }
    }

    /// What the queue does with work that still runs when its run window is closed.
    fn close_queue(&mut self, state: &State, queue: usize, plan: &mut Plan) {
        let Some(on) = self.watch.on(queue) else {
            return;
        };
        let (action, name) = {
            let queue = &self.config().queues[queue];
            (queue.window_action, queue.name.clone())
        };
        let still = |j: &&crate::model::JobKey| {
            let run = state.work(**j).and_then(|work| work.run.as_deref());
            run.is_some_and(|run| run.halt.is_none() && run.killing.is_none() && !run.forced)
        };
        let running: Vec<_> = on.iter().filter(still).copied().collect();
        for j in running {
            match action {
                GuardAction::Suspend => {
                    let queue = name.clone();
                    self.halt(j, SuspReason::RunWindow { queue }, plan);
                }
                GuardAction::Kill => plan.kills.push((j, TermReason::Window)),
                GuardAction::Requeue => plan.requeues.push((j, TermReason::Window)),
            }
        }
    }

    /// When a job of a class may end at the latest, by the run window and `-t`.
    pub(super) fn latest_end(&self, bucket: &Bucket) -> Option<Stamp> {
        let at = usize::from(bucket.queue?);
        if self.config().queues[at].ignore_deadline {
            return None;
        }
        let closes = self.hours.run.get(at).and_then(|gate| gate.change);
        closes.into_iter().chain(bucket.deadline).min()
    }

    /// What windows and the termination time keep a class from starting now, and until when.
    pub(super) fn window_gate(
        &self,
        bucket: &Bucket,
        now: Stamp,
    ) -> Result<(), (PendReason, Option<Stamp>)> {
        let Some(at) = bucket.queue.map(usize::from) else {
            return Ok(());
        };
        if !self.hours.any && bucket.deadline.is_none() {
            return Ok(());
        }
        let queue = &self.config().queues[at];
        let closed = |gate: &Gate| {
            let change = gate.change.unwrap_or(Stamp(i64::MAX));
            let opens = duration::date(change.0, &self.hours.zone);
            (!gate.open).then(|| (queue.name.clone(), change.0, opens, gate.change))
        };
        if let Some((queue, at, opens, wake)) = closed(&self.hours.run[at]) {
            return Err((PendReason::RunWindow { queue, at, opens }, wake));
        }
        if let Some((queue, at, opens, wake)) = closed(&self.hours.dispatch[at]) {
            return Err((PendReason::DispatchWindow { queue, at, opens }, wake));
        }
        let run_limit = run_limit(self.shortest(bucket));
        let Some(run_ms) = run_limit.filter(|_| !queue.ignore_deadline) else {
            return Ok(());
        };
        let end = now.plus_ms(run_ms);
        let left = |at: Stamp| at.since_ms(now) / 1000;
        if let Some(closes) = self.hours.run[at].change.filter(|at| end > *at) {
            let why = PendReason::RunWindowShort {
                queue: queue.name.clone(),
                need_s: run_ms / 1000,
                left_s: left(closes),
            };
            return Err((why, Some(closes)));
        }
        if let Some(deadline) = bucket.deadline.filter(|at| end > *at) {
            let (need_s, left_s) = (run_ms / 1000, left(deadline));
            return Err((PendReason::DeadlineShort { need_s, left_s }, None));
        }
        Ok(())
    }
}
