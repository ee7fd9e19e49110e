//! Ends of parallel jobs that may be the consequence of the loss of another host: a command that
//! waits for its processes there fails as soon as their connections break, long before the
//! leader can know that the host is lost. The end of a job that may run again is kept until its
//! other hosts have shown that they live, or are judged as lost.
//!
//! The report is not acknowledged until then, so that another leader reads it again.

use super::context::Turn;
use super::host_loss::SILENT_MS;
use super::memory::held_ends::HeldEnd;
use crate::model::{AttemptId, JobKey, Mono, TermReason};
use crate::record::order::Order;
use crate::record::report::Ended;

impl Turn<'_> {
    /// Keeps an end that may be the consequence of the loss of another host. Returns it if it is
    /// not to be kept.
    pub(super) fn hold_end(&mut self, host: &str, e: Ended) -> Option<Ended> {
        if !self.may_be_consequence(&e) {
            return Some(e);
        }
        let since = self.mono;
        let held = HeldEnd {
            host: host.to_owned(),
            e,
            since,
        };
        let ends = &mut self.core.memory.held_ends.ends;
        ends.entry(held.e.a).or_insert(held);
        None
    }

    /// Whether the attempt failed by itself, has other hosts, and runs again if one of them is
    /// lost.
    fn may_be_consequence(&self, e: &Ended) -> bool {
        let failed = e.reason == TermReason::None && !e.is_success() && !self.is_success(e);
        let run = self
            .core
            .state
            .work(e.a.j)
            .and_then(|work| work.run.as_deref());
        let connected = self
            .core
            .state
            .spec_of(e.a.j.id)
            .is_some_and(|spec| spec.session.is_some());
        failed
            && !connected
            && run.is_some_and(|run| run.killing.is_none())
            && self.may_run_elsewhere(e.a.j)
            && !self.other_hosts_of(e.a.j).is_empty()
    }

    fn other_hosts_of(&self, j: JobKey) -> Vec<String> {
        let run = self.core.state.work(j).and_then(|work| work.run.as_deref());
        let hosts = run.map_or(&[][..], |run| &run.hosts);
        let first = hosts.first().map(|(id, _)| *id);
        let others = hosts.iter().filter(|(id, _)| Some(*id) != first);
        others
            .map(|(id, _)| self.core.state.host_name(*id).to_string())
            .collect()
    }

    /// Acknowledges what was read of a host's reports, unless an end in them is kept.
    pub(super) fn acknowledge_reports(&mut self, host: &str, part: u64, seq: u64) {
        let held = &mut self.core.memory.held_ends;
        if held.holds_some_of(host) {
            held.unacknowledged.insert(host.to_owned(), (part, seq));
            return;
        }
        held.unacknowledged.remove(host);
        self.ready.order(host, Order::Ack { part, seq });
    }

    /// Records ends that need not be kept any longer.
    pub(super) fn release_held_ends(&mut self) {
        let held = &self.core.memory.held_ends.ends;
        let over = held
            .iter()
            .filter(|(a, held)| self.is_decided(**a, held.since));
        let over: Vec<AttemptId> = over.map(|(a, _)| *a).collect();
        for a in over {
            let Some(HeldEnd { host, e, .. }) = self.core.memory.held_ends.ends.remove(&a) else {
                continue;
            };
            if self.bound_run(&host, a).is_some() {
                self.ended(e, true);
            }
            let held = &mut self.core.memory.held_ends;
            if !held.holds_some_of(&host)
                && let Some((part, seq)) = held.unacknowledged.remove(&host)
            {
                self.ready.order(&host, Order::Ack { part, seq });
            }
        }
    }

    /// Whether nothing more is to be learned about an end: it was requested meanwhile (the loss of
    /// a host requests it), or each of the other hosts has lived longer than the attempt.
    fn is_decided(&self, a: AttemptId, since: Mono) -> bool {
        let current = self
            .core
            .state
            .work(a.j)
            .filter(|work| work.attempt == a.at);
        let run = current.and_then(|work| work.run.as_deref());
        let waited_ms = self.mono.since_ms(since);
        // Without a limit after which it ends its tasks a silent host is never judged as lost.
        let in_vain = self.core.config.general.iso_timeout_ms == 0 && waited_ms > SILENT_MS;
        let lives = |host: &String| {
            let alive_at = self
                .core
                .memory
                .host(host)
                .and_then(|memory| memory.alive_at);
            let load = self.core.inputs.loads.get(host);
            let executor = load.is_some_and(|(doc, _)| doc.executor);
            in_vain
                || alive_at.is_some_and(|at| at > since) && (executor || waited_ms > 2 * SILENT_MS)
        };
        run.is_none_or(|run| run.killing.is_some() || run.end.is_some())
            || self.other_hosts_of(a.j).iter().all(lives)
    }
}
