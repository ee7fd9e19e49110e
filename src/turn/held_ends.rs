//! Ends of parallel jobs that are not recorded at once. Until then the job keeps what it holds.
//!
//! What a job holds on a host is free when that host has said that nothing of the job is left
//! there: each of its hosts is ordered to end what is left, and reports when that is over. A host
//! that is silent, runs no executor or was removed is not waited for, since it gets no new jobs.
//!
//! An end may also be the consequence of the loss of another host: a command that waits for its
//! processes there fails as soon as their connections break, long before the leader can know that
//! the host is lost. The end of a job that may run again is kept until its other hosts have shown
//! that they live, or are judged as lost.
//!
//! The report is not acknowledged until then, so that another leader reads it again.

use super::context::Turn;
use super::host_loss::SILENT_MS;
use super::memory::held_ends::HeldEnd;
use crate::model::{AttemptId, JobKey, Mono, TermReason};
use crate::record::order::Order;
use crate::record::report::Ended;
use crate::state::{HostId, Run};

/// For how long a host that lives may fail to report that nothing of an attempt is left there: a
/// process in the kernel may not end at all.
const LEFT_MS: u64 = 600_000;

impl Turn<'_> {
    /// Keeps an end until nothing of the attempt is left on its hosts, and as long as it may be the
    /// consequence of the loss of another host. Returns it if it is not to be kept.
    pub(super) fn hold_end(&mut self, host: &str, e: Ended) -> Option<Ended> {
        let consequence = self.may_be_consequence(&e);
        self.hold(host.to_owned(), e, (consequence, true))
    }

    /// The same for an end that the first host of the attempt does not report.
    pub(super) fn hold_lost_end(&mut self, e: Ended) -> Option<Ended> {
        let run = self
            .core
            .state
            .work(e.a.j)
            .and_then(|work| work.run.as_deref());
        let first = run.and_then(|run| run.hosts.first());
        let first = first.map(|(id, _)| self.core.state.host_name(*id).to_string());
        self.hold(first.unwrap_or_default(), e, (false, false))
    }

    fn hold(
        &mut self,
        host: String,
        e: Ended,
        (consequence, confirmed): (bool, bool),
    ) -> Option<Ended> {
        let (a, since) = (e.a, self.mono);
        if let Some(held) = self.core.memory.held_ends.ends.get_mut(&a) {
            // What its host reports stands.
            if confirmed {
                (held.host, held.e) = (host, e);
                (held.consequence, held.confirmed) = (consequence, true);
            }
            return None;
        }
        let all = self.hosts_of_gang(a.j);
        if !consequence && !all.iter().any(|id| self.must_report_over(*id)) {
            return Some(e);
        }
        for id in &all {
            let name = self.core.state.host_name(*id).to_string();
            self.ready.order(&name, Order::PartEnd { a });
        }
        let held = HeldEnd {
            host,
            e,
            since,
            consequence,
            confirmed,
            left: all,
        };
        self.core.memory.held_ends.ends.insert(a, held);
        None
    }

    /// Whether a host is waited for until it reports that nothing of an attempt is left there. A
    /// leader that has not read its reports yet does not know whether it is of an earlier version.
    fn must_report_over(&self, id: HostId) -> bool {
        let name = self.core.state.host_name(id);
        let memory = self.core.memory.host(name);
        let able = memory.is_none_or(|memory| memory.reports_parts || !memory.reports_read);
        let load = self.core.inputs.loads.get(&**name);
        let answers = load.is_some_and(|(doc, _)| doc.executor);
        let silent = self.core.memory.silent.contains(&**name) || !answers;
        able && !silent && self.core.hosts.find_by_name(name).is_some()
    }

    /// Orders a host again to end what is left of attempts: its earlier answers may be lost with
    /// its last report file.
    pub(super) fn repeat_part_ends(&mut self, host: &str) {
        let Some(id) = self.core.state.host_id(host) else {
            return;
        };
        let left: Vec<AttemptId> = self.core.memory.held_ends.left_on(id).collect();
        for a in left {
            self.ready.order(host, Order::PartEnd { a });
        }
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
            .filter(|(a, held)| self.may_be_recorded(**a, held));
        let over: Vec<AttemptId> = over.map(|(a, _)| *a).collect();
        for a in over {
            let Some(held) = self.core.memory.held_ends.ends.get(&a) else {
                continue;
            };
            let (host, e, confirmed) = (held.host.clone(), held.e.clone(), held.confirmed);
            if self.bound_run(&host, a).is_some() {
                self.record_end(e, confirmed);
            }
            let held = &mut self.core.memory.held_ends;
            held.ends.remove(&a);
            if !held.holds_some_of(&host)
                && let Some((part, seq)) = held.unacknowledged.remove(&host)
            {
                self.ready.order(&host, Order::Ack { part, seq });
            }
        }
    }

    /// Whether an end is to be recorded now, or was recorded meanwhile.
    fn may_be_recorded(&self, a: AttemptId, held: &HeldEnd) -> bool {
        let run = self.running(a);
        if run.is_none_or(|run| run.end.is_some()) {
            return true;
        }
        let late = self.mono.since_ms(held.since) > LEFT_MS;
        let left = held.left.iter().any(|id| self.must_report_over(*id));
        (late || !left) && (!held.consequence || self.is_decided(a, held.since))
    }

    /// The run of an attempt that is the current one of its job.
    fn running(&self, a: AttemptId) -> Option<&Run> {
        let current = self.core.state.work(a.j);
        current
            .filter(|work| work.attempt == a.at)
            .and_then(|work| work.run.as_deref())
    }

    /// Whether nothing more is to be learned about an end: it was requested meanwhile (the loss of
    /// a host requests it), or each of the other hosts has lived longer than the attempt.
    fn is_decided(&self, a: AttemptId, since: Mono) -> bool {
        let run = self.running(a);
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
        run.is_none_or(|run| run.killing.is_some()) || self.other_hosts_of(a.j).iter().all(lives)
    }
}
