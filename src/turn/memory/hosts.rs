//! What a leader remembers of one host.

use crate::model::{AttemptId, Mono};
use std::collections::BTreeSet;

/// First and longest time without new jobs for a host that cannot start tasks, in milliseconds.
const PAUSE_MS: (u64, u64) = (10_000, 300_000);

/// See the head of this file.
#[derive(Default)]
pub(in crate::turn) struct HostMemory {
    pub report_file: ReportFile,
    /// This leader has read the host's reports to their end.
    pub reports_read: bool,
    /// Its executor reports when nothing of a part is left.
    pub reports_parts: bool,
    /// File, record and byte from which its report file is damaged: it must start another one.
    pub damaged_reports: Option<(u64, u64, u64)>,
    /// The `iso_timeout` that was ordered, until the host reports it.
    pub iso_ordered: Option<u64>,
    /// Why its orders cannot be written.
    pub orders_blocked: Option<String>,
    /// It could not start its last task.
    pub backoff: Option<Backoff>,
    /// Its executor is alive, but it gets no jobs.
    pub excluded: bool,
    /// When it last beat.
    pub alive_at: Option<Mono>,
    /// Attempts that were given up because the host is silent, or was declared lost.
    pub given_up: GivenUp,
    /// The notes on it that the leader added to its last sample.
    pub leader_notes: Vec<String>,
}

/// Time within which a host that speaks again reports how its attempts ended, in ms.
const RETURN_MS: u64 = 5_000;

/// Attempts that were given up with a host. If one has succeeded meanwhile, that stands only until
/// the job runs again: the host gets no jobs until it has reported on them.
#[derive(Default)]
pub(in crate::turn) struct GivenUp {
    attempts: BTreeSet<AttemptId>,
    /// Since when the host speaks again.
    returned: Option<Mono>,
}

impl GivenUp {
    pub(in crate::turn) fn add(&mut self, a: AttemptId) {
        self.attempts.insert(a);
    }

    /// The host has reported the end of an attempt. Returns true if it was the last of them.
    pub(in crate::turn) fn reported(&mut self, a: AttemptId) -> bool {
        self.attempts.remove(&a) && self.attempts.is_empty()
    }

    /// Notes whether the host is silent.
    pub(in crate::turn) fn heard(&mut self, now: Mono, silent: bool) {
        match silent {
            true => self.returned = None,
            false if self.attempts.is_empty() => self.returned = None,
            false => _ = self.returned.get_or_insert(now),
        }
    }

    /// The number of attempts on which the host still has to report before it gets jobs.
    pub(in crate::turn) fn awaited(&mut self, now: Mono) -> usize {
        if self.returned.is_some_and(|at| now.since_ms(at) > RETURN_MS) {
            *self = GivenUp::default();
        }
        self.attempts.len()
    }
}

/// What the current report file of a host has stated since its `Hello`.
#[derive(Default)]
pub(in crate::turn) struct ReportFile {
    /// Attempts that it has mentioned; `None`: its `Hello` was not read.
    pub mentioned: Option<BTreeSet<AttemptId>>,
    /// The boot id in its `Complete`, until the end of the file is reached.
    pub complete: Option<String>,
    /// The ledger that it named, and whether that one was kept, until `Complete`.
    pub ledger: Option<(String, bool)>,
}

/// For how long a host that cannot start tasks gets no jobs.
#[derive(Clone, Debug)]
pub(in crate::turn) struct Backoff {
    until: Mono,
    pause_ms: u64,
    /// Failed starts in a row.
    pub count: u32,
    pub text: String,
}

impl Backoff {
    pub(crate) fn new(now: Mono) -> Backoff {
        Backoff {
            until: now,
            pause_ms: PAUSE_MS.0 / 2,
            count: 0,
            text: String::new(),
        }
    }

    /// Notes a failed start: the pause doubles from one to the next.
    pub(crate) fn failed(&mut self, now: Mono) {
        self.count += 1;
        // Tasks whose orders were already written fail too: they count as one failure.
        if now >= self.until {
            self.pause_ms = (self.pause_ms * 2).min(PAUSE_MS.1);
            self.until = now.plus_ms(self.pause_ms);
        }
    }

    pub(crate) fn is_pausing(&self, now: Mono) -> bool {
        now < self.until
    }
}
