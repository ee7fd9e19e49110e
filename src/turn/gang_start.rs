//! Attempts on several hosts: every host prepares its part before the first one starts the command.
//!
//! Until all parts are ready no host has an order to start, so an attempt can be undone without
//! asking anybody. Which parts are ready is known to this leader only: a new one asks again. The
//! word that lets the first host start is journalled before it is given.

use super::schedule::{signal_order, start_order};
use super::{Core, Turn};
use crate::model::{AttemptId, JobKey, Mono, TermReason};
use crate::record::event::{Event, SignalAct};
use crate::record::order::Order;
use crate::state::HostId;
use std::collections::BTreeSet;

/// How long the parts may take before the attempt is undone.
const PARTS_MS: u64 = 30_000;
/// First and longest pause before a job is tried again after a host did not prepare its part.
const PAUSE_MS: (u64, u64) = (1_000, 60_000);

/// An attempt whose parts are being prepared.
#[derive(Clone, Debug)]
pub(crate) struct PartPreparation {
    since: Mono,
    ready: BTreeSet<HostId>,
}

/// A job that pauses before it is tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryDelay {
    until: Mono,
    pause_ms: u64,
    /// It is kept out of scheduling at present.
    pub(super) out: bool,
}

/// The order to `host` to prepare its part of `j`.
pub(super) fn part_order(core: &Core, j: JobKey, host: HostId) -> Option<(String, Order)> {
    let state = &core.state;
    let job = state.job(j.id)?;
    let work = job.work(j.idx)?;
    let run = work.run.as_deref()?;
    let slots = run.hosts.iter().filter(|(h, _)| *h == host);
    let order = Order::Part {
        a: AttemptId {
            j,
            at: work.attempt,
        },
        s: job.spec,
        first: state.host_name(run.hosts.first()?.0).to_string(),
        slots: slots.map(|(_, n)| n).sum(),
        mark: state.mark(j),
    };
    Some((state.host_name(host).to_string(), order))
}

/// Hosts of an attempt behind its first one, each once.
fn others(core: &Core, j: JobKey) -> BTreeSet<HostId> {
    let run = core.state.work(j).and_then(|work| work.run.as_deref());
    let Some((first, rest)) = run.and_then(|run| run.hosts.split_first()) else {
        return BTreeSet::new();
    };
    let rest = rest.iter().map(|(h, _)| *h);
    rest.filter(|h| *h != first.0).collect()
}

impl Turn<'_> {
    /// Asks the hosts of a new attempt for their parts; false when it has only one.
    pub(super) fn begin_preparing(&mut self, a: AttemptId) -> bool {
        if !self.is_preparing(a) {
            return false;
        }
        self.await_parts(a);
        for host in others(self.core, a.j) {
            self.out.orders.extend(part_order(self.core, a.j, host));
        }
        true
    }

    fn await_parts(&mut self, a: AttemptId) {
        let gathering = PartPreparation {
            since: self.mono,
            ready: BTreeSet::new(),
        };
        self.core.gathering.entry(a).or_insert(gathering);
    }

    /// The attempt is the current one and its first host has no order to start it.
    fn is_preparing(&self, a: AttemptId) -> bool {
        let work = self.core.state.work(a.j);
        work.is_some_and(|work| {
            let gathering = work.run.as_ref().is_some_and(|run| run.gathering);
            work.attempt == a.at && work.stat.is_started() && gathering
        })
    }

    /// The attempt is the current one, is not over, and has a part on `host`.
    fn has_part(&self, a: AttemptId, host: &str) -> Option<HostId> {
        let state = &self.core.state;
        let id = state.host_id(host)?;
        let work = state.work(a.j)?;
        let current = work.attempt == a.at && work.stat.is_started();
        (current && others(self.core, a.j).contains(&id)).then_some(id)
    }

    pub(super) fn part_ready(&mut self, host: &str, a: AttemptId) {
        let Some(id) = self.has_part(a, host) else {
            // It was undone or ended while the host did not listen.
            self.out
                .orders
                .push((host.to_owned(), Order::PartEnd { a }));
            return;
        };
        if !self.is_preparing(a) {
            return;
        }
        self.await_parts(a);
        let all = others(self.core, a.j);
        let ready = self.core.gathering.get_mut(&a).map(|g| {
            g.ready.insert(id);
            g.ready.is_superset(&all)
        });
        if ready == Some(true) {
            self.start_prepared(a);
        }
    }

    fn start_prepared(&mut self, a: AttemptId) {
        self.core.gathering.remove(&a);
        let t = self.now;
        self.emit(Event::Gathered { a, t });
        let orders = [start_order(self.core, a.j), signal_order(self.core, a.j)];
        self.out.orders.extend(orders.into_iter().flatten());
        self.core.parked.remove(&a.j.id);
        self.core.state.park(a.j.id, false);
    }

    /// A host other than the first says that it cannot prepare its part.
    pub(super) fn part_refused(&mut self, host: &str, a: AttemptId, why: String) {
        if self.has_part(a, host).is_some() && self.is_preparing(a) {
            self.undo(a, host, &why);
        }
    }

    /// Undoes what was not started yet and has a part on `host`.
    pub(super) fn cancel_preparing_on(&mut self, host: &str, why: &str) {
        let keys: Vec<JobKey> = self.core.state.on_host(host).map(|(j, _)| j).collect();
        for j in keys {
            let at = self.core.state.work(j).map_or(0, |work| work.attempt);
            let a = AttemptId { j, at };
            if self.is_preparing(a) {
                self.undo(a, host, why);
            }
        }
    }

    /// Undoes an attempt that no host was told to start, for no fault of a host.
    pub(super) fn cancel_preparing(&mut self, j: JobKey, why: &str) {
        let at = self.core.state.work(j).map_or(0, |work| work.attempt);
        self.unbind(AttemptId { j, at }, String::new(), why);
    }

    fn undo(&mut self, a: AttemptId, host: &str, why: &str) {
        self.unbind(a, host.to_owned(), why);
        let known = self.core.parked.get(&a.j.id);
        let pause_ms = known.map_or(PAUSE_MS.0, |p| (p.pause_ms * 2).min(PAUSE_MS.1));
        let parked = RetryDelay {
            until: self.mono.plus_ms(pause_ms),
            pause_ms,
            out: true,
        };
        self.core.parked.insert(a.j.id, parked);
        self.core.state.park(a.j.id, true);
    }

    fn unbind(&mut self, a: AttemptId, host: String, why: &str) {
        self.core.gathering.remove(&a);
        let (why, t) = (why.to_owned(), self.now);
        self.emit(Event::Unbound { a, why, t, host });
        self.core.needs_pass = true;
    }

    /// What time brings: parts that never come, jobs that may be tried again.
    pub(super) fn gather(&mut self) {
        if !std::mem::replace(&mut self.core.counted, true) {
            let all: Vec<JobKey> = self.core.state.all_started().collect();
            for j in all {
                let at = self.core.state.work(j).map_or(0, |work| work.attempt);
                let a = AttemptId { j, at };
                if self.is_preparing(a) {
                    self.await_parts(a);
                }
            }
        }
        let late = |g: &PartPreparation, now: Mono| now.since_ms(g.since) > PARTS_MS;
        let now = self.mono;
        let overdue: Vec<AttemptId> = self
            .core
            .gathering
            .iter()
            .filter(|(a, g)| late(g, now) || !self.is_preparing(**a))
            .map(|(a, _)| *a)
            .collect();
        for a in overdue {
            let gathering = self.core.gathering.remove(&a);
            if !self.is_preparing(a) {
                continue;
            }
            let ready = gathering.map(|g| g.ready).unwrap_or_default();
            let missing = others(self.core, a.j)
                .into_iter()
                .find(|h| !ready.contains(h));
            let name = missing.map_or(String::new(), |h| self.core.state.host_name(h).to_string());
            self.undo(a, &name, "its part was not prepared in time");
        }
        let due = |p: &RetryDelay| p.out && p.until <= now;
        let again: Vec<u32> = self
            .core
            .parked
            .iter()
            .filter(|(_, p)| due(p))
            .map(|(id, _)| *id)
            .collect();
        for id in again {
            let waits = self.core.waits_for_stray(id);
            self.core.state.park(id, waits);
            self.core.needs_pass = true;
            if let Some(parked) = self.core.parked.get_mut(&id) {
                parked.out = false;
            }
        }
        let state = &self.core.state;
        self.core
            .parked
            .retain(|id, _| state.job(*id).is_some_and(|job| !job.is_finished()));
    }

    /// Tells the hosts behind the first one that their parts of an attempt are over.
    pub(super) fn part_end_orders(&self, a: AttemptId) -> Vec<(String, Order)> {
        let current = self.core.state.work(a.j);
        if current.is_none_or(|work| work.attempt != a.at || !work.stat.is_started()) {
            return Vec::new();
        }
        let name = |h| self.core.state.host_name(h).to_string();
        let hosts = others(self.core, a.j).into_iter().map(name);
        hosts.map(|host| (host, Order::PartEnd { a })).collect()
    }

    /// Ends started work that has a part on a host which lost it: requeued when it may run again.
    /// `fenced`: only work that may run elsewhere while the host is silent.
    pub(super) fn lose_parts(&mut self, host: &str, fenced: bool) -> usize {
        let keys: Vec<JobKey> = self.core.state.on_host(host).map(|(j, _)| j).collect();
        let mut lost = 0;
        for j in keys {
            let at = self.core.state.work(j).map_or(0, |work| work.attempt);
            let a = AttemptId { j, at };
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

impl Core {
    /// When an attempt's parts become late or a job may be tried again, if any waits for that.
    pub fn next_gang_deadline(&self) -> Option<Mono> {
        let late = self
            .gathering
            .values()
            .map(|g| g.since.plus_ms(PARTS_MS + 1));
        let again = self.parked.values().filter(|p| p.out).map(|p| p.until);
        late.chain(again).min()
    }
}
