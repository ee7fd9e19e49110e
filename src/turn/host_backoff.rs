//! Hosts that get no work although their executor is alive: a host that cannot start tasks gets
//! none for a while, and its jobs go elsewhere a few times; a host whose orders cannot be written
//! gets none until they can.
//!
//! Known only to this leader: the next one finds out again, at the cost of a few starts.

use super::context::Turn;
use super::memory::hosts::Backoff;
use crate::config::RetryAction;
use crate::model::JobKey;
use crate::record::load::LoadDoc;
use crate::record::report::Ended;

/// Maximum number of times that a job is requeued because a host could not start it.
const TRIES_MAX: u32 = 3;

impl Turn<'_> {
    /// Notes that `host` could not start a task.
    pub(super) fn start_failed(&mut self, host: &str, e: &Ended) {
        let now = self.mono;
        let memory = self.core.memory.host_mut(host);
        let backoff = memory.backoff.get_or_insert_with(|| Backoff::new(now));
        backoff.failed(now);
        backoff.text = format!(
            "cannot start tasks ({} in a row): {}",
            backoff.count, e.text
        );
        self.reevaluate_load(host);
    }

    /// Notes that a task was started on the host.
    pub(super) fn clear_backoff(&mut self, host: &str) {
        if self.core.memory.host_mut(host).backoff.take().is_some() {
            self.reevaluate_load(host);
        }
    }

    /// Notes whether orders to `host` can be written.
    pub(super) fn orders_blocked(&mut self, host: &str, why: Option<String>) {
        self.core.memory.host_mut(host).orders_blocked = why;
        self.reevaluate_load(host);
    }

    /// Whether a job that its host could not start must be tried again.
    pub(super) fn may_retry_start(&mut self, j: JobKey) -> bool {
        self.failed_starts(j) <= TRIES_MAX
    }

    /// Whether a job whose pre-exec command failed becomes pending again, and whether it is held.
    pub(super) fn after_pre_exec(&mut self, j: JobKey, old: bool) -> (bool, bool) {
        let failed = self.failed_starts(j);
        let rules = &self.core.config.general.hooks;
        match rules.pre_exec_retry_action {
            _ if failed <= rules.pre_exec_retries => (true, old),
            RetryAction::Suspend => {
                // A user who resumes it wants the full number of attempts again.
                self.core.memory.failed_starts.remove(&j);
                (true, true)
            }
            RetryAction::Exit => (false, false),
        }
    }

    /// Whether the queue of `j` runs something before the command.
    pub(super) fn queue_has_pre_exec(&self, j: JobKey) -> bool {
        let spec = self.core.state.spec_of(j.id);
        let queue = spec.and_then(|spec| self.core.config.queue(&spec.queue));
        queue.is_some_and(|queue| !queue.hooks.pre.is_empty())
    }

    /// How often `j` could not be started, including this time.
    fn failed_starts(&mut self, j: JobKey) -> u32 {
        let core = &mut *self.core;
        let tries = &mut core.memory.failed_starts;
        tries.retain(|j, _| core.state.work(*j).is_some());
        let n = tries.entry(j).or_default();
        *n += 1;
        *n
    }

    /// Marks a sample of a host that gets no jobs although its executor is alive: its ledger is not
    /// in the journal yet, its orders cannot be written, or it recently could not start tasks.
    pub(super) fn exclude_from_dispatch(&mut self, host: &str, doc: &mut LoadDoc) {
        // A host would not follow orders that are written before its ledger is in the journal.
        let known = doc.ledger.is_empty() || self.core.state.host_ctl(host).ledger == doc.ledger;
        let memory = self.core.memory.host_mut(host);
        let paused = memory.backoff.as_ref();
        let paused = paused.is_some_and(|backoff| backoff.is_pausing(self.mono));
        let failing = memory.backoff.as_ref().map(|backoff| backoff.text.clone());
        let blocked = memory.orders_blocked.as_ref();
        let blocked =
            blocked.map(|why| format!("gets no work: its orders cannot be written: {why}"));
        memory.leader_notes = failing.into_iter().chain(blocked).collect();
        doc.notes.extend_from_slice(&memory.leader_notes);
        let blocked = memory.orders_blocked.is_some();
        memory.excluded = doc.executor && (!known || paused || blocked);
        doc.executor &= !memory.excluded;
    }

    /// Evaluates the last sample of a host again.
    pub(super) fn reevaluate_load(&mut self, host: &str) {
        let Some((mut doc, silent_ms)) = self.core.inputs.loads.get(host).cloned() else {
            return;
        };
        let memory = self.core.memory.host_mut(host);
        doc.executor |= std::mem::take(&mut memory.excluded);
        doc.notes.retain(|note| !memory.leader_notes.contains(note));
        self.load(host, doc, silent_ms);
    }
}
