//! Hosts that cannot start tasks: the jobs go elsewhere a few times, the host gets none for a
//! while. Hosts whose orders cannot be written get none until they can.
//!
//! Known to this leader only: a new one finds out again, at the cost of a few starts.

use super::Turn;
use crate::model::{JobKey, Mono};
use crate::record::load::LoadDoc;
use crate::record::report::Ended;

/// How often a job is put back because a host could not start it.
const TRIES_MAX: u8 = 3;
/// First and longest time without new work for such a host (ms).
const PAUSE_MS: (u64, u64) = (10_000, 300_000);
/// How the note on such a host begins.
const NOTE: &str = "cannot start tasks";

/// How the note on a host begins whose orders wait.
const UNWRITTEN: &str = "gets no work: its orders cannot be written";

/// A host that could not start its last task.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    until: Mono,
    pause_ms: u64,
    count: u32,
    text: String,
}

impl Turn<'_> {
    /// Notes that `host` could not start a task.
    pub(super) fn start_failed(&mut self, host: &str, e: &Ended) {
        let now = self.mono;
        let fault = self
            .core
            .faults
            .entry(host.to_owned())
            .or_insert_with(|| Backoff {
                until: now,
                pause_ms: PAUSE_MS.0 / 2,
                count: 0,
                text: String::new(),
            });
        fault.count += 1;
        // Tasks that were on their way fail too: that is one fault, not many.
        if now >= fault.until {
            fault.pause_ms = (fault.pause_ms * 2).min(PAUSE_MS.1);
            fault.until = now.plus_ms(fault.pause_ms);
        }
        fault.text = format!("{NOTE} ({} in a row): {}", fault.count, e.text);
        self.reevaluate_load(host);
    }

    /// A task was started there.
    pub(super) fn clear_backoff(&mut self, host: &str) {
        if self.core.faults.remove(host).is_some() {
            self.reevaluate_load(host);
        }
    }

    /// Notes whether orders to `host` can be written.
    pub(super) fn orders_blocked(&mut self, host: String, why: Option<String>) {
        match why {
            Some(why) => self.core.unwritten.insert(host.clone(), why),
            None => self.core.unwritten.remove(&host),
        };
        self.reevaluate_load(&host);
    }

    /// Whether a job whose host could not start it is to be tried again.
    pub(super) fn may_retry_start(&mut self, j: JobKey) -> bool {
        let core = &mut *self.core;
        let state = &core.state;
        core.tries.retain(|j, _| state.work(*j).is_some());
        let n = core.tries.entry(j).or_default();
        *n += 1;
        *n <= TRIES_MAX
    }

    /// Marks a sample of a host that gets no work although its executor lives: its ledger is not
    /// journalled yet, its orders cannot be written, or it could not start tasks a moment ago.
    pub(super) fn exclude_from_dispatch(&mut self, host: &str, doc: &mut LoadDoc) {
        // What is ordered before its ledger is journalled, a host would not follow.
        let known = doc.ledger.is_empty() || self.core.state.host_ctl(host).ledger == doc.ledger;
        let fault = self.core.faults.get(host);
        let paused = fault.is_some_and(|f| self.mono < f.until);
        if let Some(f) = fault {
            doc.notes.push(f.text.clone());
        }
        let unwritten = self.core.unwritten.get(host);
        if let Some(why) = unwritten {
            doc.notes.push(format!("{UNWRITTEN}: {why}"));
        }
        if doc.executor && (!known || paused || unwritten.is_some()) {
            doc.executor = false;
            self.core.excluded.insert(host.to_owned());
        } else {
            self.core.excluded.remove(host);
        }
    }

    /// Judges the last sample of a host anew.
    pub(super) fn reevaluate_load(&mut self, host: &str) {
        let Some((mut doc, silent_ms)) = self.core.seen.get(host).cloned() else {
            return;
        };
        doc.executor |= self.core.excluded.remove(host);
        doc.notes
            .retain(|n| !n.starts_with(NOTE) && !n.starts_with(UNWRITTEN));
        self.load(host, doc, silent_ms);
    }
}
