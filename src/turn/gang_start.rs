//! Attempts on several hosts: every host prepares its part before the first one starts the command.
//!
//! Until all parts are ready, no host has an order to start, so an attempt can be cancelled without
//! asking any host. Only this leader knows which parts are ready: a new one asks again. The
//! permission of the first host to start is journalled before it is ordered to.

use super::context::Turn;
use super::core::Core;
use super::orders::{part_order, part_signal, signal_order, start_order};
use crate::model::{AttemptId, Binding, JobKey, PartBinding, TermReason};
use crate::record::event::{Event, SignalAct};
use crate::record::order::Order;
use crate::state::HostId;
use std::collections::BTreeSet;

/// Hosts of an attempt after its first one, each once.
pub(super) fn other_hosts(core: &Core, j: JobKey) -> BTreeSet<HostId> {
    let run = core.state.work(j).and_then(|work| work.run.as_deref());
    let Some((first, rest)) = run.and_then(|run| run.hosts.split_first()) else {
        return BTreeSet::new();
    };
    let rest = rest.iter().map(|(h, _)| *h);
    rest.filter(|h| *h != first.0).collect()
}

impl Turn<'_> {
    /// Orders the hosts of a new attempt to prepare their parts. Returns false if it has only one
    /// host.
    pub(super) fn begin_preparing(&mut self, a: AttemptId) -> bool {
        if !self.is_preparing(a) {
            return false;
        }
        self.core.memory.gangs.begin(a, self.mono);
        for host in other_hosts(self.core, a.j) {
            self.ready.orders.extend(part_order(self.core, a.j, host));
        }
        true
    }

    /// Whether the attempt is the current one and its first host has no order to start it yet.
    fn is_preparing(&self, a: AttemptId) -> bool {
        let work = self.core.state.work(a.j);
        work.is_some_and(|work| {
            let preparing = work.run.as_ref().is_some_and(|run| run.preparing);
            work.attempt == a.at && work.stat.is_started() && preparing
        })
    }

    /// Returns the host's number if the attempt is the current one, is not over, and has a part on
    /// `host`.
    pub(super) fn has_part(&self, a: AttemptId, host: &str) -> Option<HostId> {
        let state = &self.core.state;
        let id = state.host_id(host)?;
        let work = state.work(a.j)?;
        let current = work.attempt == a.at && work.stat.is_started();
        (current && other_hosts(self.core, a.j).contains(&id)).then_some(id)
    }

    pub(super) fn part_ready(&mut self, host: &str, a: AttemptId, bind: Option<Box<Binding>>) {
        let Some(id) = self.has_part(a, host) else {
            // It was cancelled or ended before the host read its orders.
            return self.ready.order(host, Order::PartEnd { a });
        };
        if let Some(bind) = bind {
            self.part_bound(host, a, *bind);
        }
        if !self.is_preparing(a) {
            return;
        }
        let all = other_hosts(self.core, a.j);
        let gangs = &mut self.core.memory.gangs;
        gangs.begin(a, self.mono);
        let all_ready = gangs.part_ready(a, id, &all);
        if all_ready {
            self.start_prepared(a);
        }
    }

    /// Records the binding of a part, if it is not known yet.
    fn part_bound(&mut self, host: &str, a: AttemptId, bind: Binding) {
        let host = host.to_owned();
        let part = PartBinding { host, bind };
        let run = self.core.state.work(a.j).and_then(|w| w.run.as_deref());
        let known = |p: &PartBinding| p.has_the_cpus_of(&part);
        if run.is_some_and(|run| !run.part_binds().iter().any(known)) {
            let t = self.now;
            self.emit(Event::PartBound { a, part, t });
        }
    }

    fn start_prepared(&mut self, a: AttemptId) {
        self.core.memory.gangs.started(a);
        let t = self.now;
        self.emit(Event::Gathered { a, t });
        let orders = [start_order(self.core, a.j), signal_order(self.core, a.j)];
        self.ready.orders.extend(orders.into_iter().flatten());
        self.signal_parts(a.j);
        self.core.state.defer(a.j.id, false);
    }

    /// Orders the hosts after the first to stop what a job has started there, or to continue it.
    pub(super) fn signal_parts(&mut self, j: JobKey) {
        for host in other_hosts(self.core, j) {
            self.ready.orders.extend(part_signal(self.core, j, host));
        }
    }

    /// Handles the report of a host other than the first that it cannot prepare its part.
    pub(super) fn part_refused(&mut self, host: &str, a: AttemptId, why: String) {
        if self.has_part(a, host).is_some() && self.is_preparing(a) {
            self.avoid_after_refusal(host, a.j, &why);
            self.cancel_and_delay(a, host, why);
        }
    }

    /// Cancels attempts that have not been started yet and have a part on `host`.
    pub(super) fn cancel_preparing_on(&mut self, host: &str, why: &str) {
        for a in self.current_attempts_on(host) {
            if self.is_preparing(a) {
                self.cancel_and_delay(a, host, why.to_owned());
            }
        }
    }

    /// Cancels an attempt that no host was ordered to start, for a reason that does not concern a
    /// host.
    pub(super) fn cancel_preparing(&mut self, j: JobKey, why: &str) {
        self.unbind(self.current_attempt(j), "", why.to_owned());
    }

    /// Cancels an attempt because of `host`; its job is tried again after a pause.
    fn cancel_and_delay(&mut self, a: AttemptId, host: &str, why: String) {
        self.unbind(a, host, why);
        self.core.memory.gangs.delay(a.j.id, self.mono);
        self.core.state.defer(a.j.id, true);
    }

    /// Puts a job whose attempt was not started by any host back to pending. `host`: the host that
    /// caused it, if any.
    pub(super) fn unbind(&mut self, a: AttemptId, host: &str, why: String) {
        self.core.memory.gangs.end(a);
        let (host, t) = (host.to_owned(), self.now);
        self.emit(Event::Unbound { a, why, t, host });
        self.core.pass.needed = true;
    }

    /// Handles timeouts: parts that do not become ready, jobs that may be tried again.
    pub(super) fn check_preparations(&mut self) {
        if self.core.memory.gangs.must_resume() {
            let all: Vec<JobKey> = self.core.state.all_started().collect();
            for j in all {
                let a = self.current_attempt(j);
                if self.is_preparing(a) {
                    self.core.memory.gangs.begin(a, self.mono);
                }
            }
        }
        let preparing = self.core.memory.gangs.preparing(self.mono);
        let over = preparing.filter(|(a, late)| *late || !self.is_preparing(*a));
        for a in over.map(|(a, _)| a).collect::<Vec<_>>() {
            let ready = self.core.memory.gangs.end(a);
            if !self.is_preparing(a) {
                continue;
            }
            let mut others = other_hosts(self.core, a.j).into_iter();
            let missing = others.find(|h| !ready.contains(h));
            let name = missing.map(|h| self.core.state.host_name(h).to_string());
            let why = "its part was not prepared in time".to_owned();
            self.cancel_and_delay(a, &name.unwrap_or_default(), why);
        }
        for id in self.core.memory.gangs.take_due(self.mono) {
            let waits = self.core.memory.stray_runs.is_waiting(id);
            self.core.state.defer(id, waits);
            self.core.pass.needed = true;
        }
        let Core { state, memory, .. } = &mut *self.core;
        let waits = |id| state.job(id).is_some_and(|job| !job.is_finished());
        memory.gangs.retain_delays(waits);
    }

    /// The hosts of a started attempt on several hosts, its first one included; none if its
    /// command was not ordered to start.
    pub(super) fn hosts_of_gang(&self, j: JobKey) -> BTreeSet<HostId> {
        let run = self.core.state.work(j).and_then(|work| work.run.as_deref());
        match run.filter(|run| !run.preparing) {
            Some(run) if !other_hosts(self.core, j).is_empty() => {
                run.hosts.iter().map(|(host, _)| *host).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Orders to the hosts after the first one: their parts of an attempt are over.
    pub(super) fn part_end_orders(&self, a: AttemptId) -> Vec<(String, Order)> {
        let current = self.core.state.work(a.j);
        if current.is_none_or(|work| work.attempt != a.at || !work.stat.is_started()) {
            return Vec::new();
        }
        let name = |h| self.core.state.host_name(h).to_string();
        let hosts = other_hosts(self.core, a.j).into_iter().map(name);
        hosts.map(|host| (host, Order::PartEnd { a })).collect()
    }

    /// Ends started jobs that have a part on a host that lost it; they are requeued if they may run
    /// again. `fenced`: only jobs that may run elsewhere while the host is silent.
    pub(super) fn end_lost_parts(&mut self, host: &str, fenced: bool) -> usize {
        let mut lost = 0;
        for a in self.current_attempts_on(host) {
            let j = a.j;
            let Some(spec) = self.core.state.spec_of(j.id) else {
                continue;
            };
            if fenced && !self.may_run_elsewhere(j) {
                continue;
            }
            if self.has_part(a, host).is_none() || self.is_preparing(a) {
                continue;
            }
            let why = TermReason::HostLost;
            let act = match spec.rerunnable {
                true => SignalAct::Requeue { hold: false, why },
                false => SignalAct::Kill(why),
            };
            self.end_by_system(j, act, why);
            lost += 1;
        }
        lost
    }
}
