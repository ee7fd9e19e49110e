//! Floor 3: the election as a state machine. Observations in, one intent out; pure.
//!
//! The driver carries out the intent and comes back with what it observed. Time is the caller's
//! monotonic clock in milliseconds; two clocks are never compared. The machine decides who may
//! claim and when a leader must stop; what really excludes a stale leader is the epoch re-read
//! after each sync ([`judge`]), which no timing can weaken.

use crate::record::leader::{BeatDoc, EpochDoc};
use std::fmt;

/// Constant properties of one candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// T: a beat that stays unchanged for this time (ms) means that its leader is gone.
    pub takeover_ms: u64,
    /// How long readers may see old content of a file after it was overwritten (ms); 0 = local.
    pub cache_ms: u64,
    /// Time between two polls of a waiting candidate (ms).
    pub poll_ms: u64,
    /// Host, pid, nonce and boot of this candidate, and whether its opens are fresh; the state
    /// machine fills in `epoch` and `locked`.
    pub me: EpochDoc,
}

impl Settings {
    /// Time between two renewals of a leader (ms).
    pub fn renew_ms(&self) -> u64 {
        (self.takeover_ms / 6).max(1)
    }

    /// A leader that could not renew for this time must be silent (ms).
    pub fn silent_ms(&self) -> u64 {
        self.takeover_ms * 2 / 3
    }

    /// Whether a leader could keep its lease on a share on which it takes `read_ms` to read one of
    /// its files. A renewal takes about as long; the maximum age of a lease is two of them, one
    /// after the other.
    fn tolerates(&self, read_ms: u64) -> bool {
        read_ms * 2 < self.silent_ms()
    }

    /// The advice if an operation on a file of the lease takes `took_ms`: renewals should end
    /// before the next one is due, after T/6.
    pub fn advice(&self, took_ms: u64) -> String {
        format!(
            "the share is slow for a lease_timeout of {} ms; use at least {} s",
            self.takeover_ms,
            (took_ms * 6).div_ceil(1000)
        )
    }
}

/// When a leader checks the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// Never: it relies on the lock only.
    Never,
    /// Before it appends.
    Before,
    /// After the append is durable and before anything is published.
    #[default]
    After,
}

/// The rules that keep a stale leader harmless. The default is the protocol; every other choice
/// loses jobs or starts them twice, as the fault simulation shows, and no daemon uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protocol {
    /// A new leader states where older epochs end.
    pub seal: bool,
    pub check: Check,
    /// An attempt runs elsewhere only after its own host reports that it never will run there.
    pub bind: bool,
    /// Hosts follow no epoch lower than one they have seen.
    pub host_epoch: bool,
}

impl Default for Protocol {
    fn default() -> Protocol {
        Protocol {
            seal: true,
            check: Check::After,
            bind: true,
            host_epoch: true,
        }
    }
}

/// The result of one poll by a waiting candidate. `None` = the file's content is damaged, which
/// also counts as content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PollResult {
    /// The election's lock is held by this process.
    pub locked: bool,
    pub epoch: Option<EpochDoc>,
    pub beat: Option<BeatDoc>,
    /// How long reading the beat took (ms).
    pub read_ms: u64,
}

/// What the driver found after the last intent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observation {
    /// After [`Intent::Poll`].
    Polled(PollResult),
    /// After [`Intent::ListClaims`].
    Highest {
        /// The highest claim; 0 if there is none.
        highest: u64,
        /// All claims above the epoch of the last beat were made by claimants whose opens are
        /// fresh.
        claims_are_fresh: bool,
    },
    /// After [`Intent::Claim`].
    Claimed(bool),
    /// After [`Intent::WriteEpoch`].
    Wrote,
    /// After [`Intent::WaitCache`].
    Waited,
    /// After [`Intent::Confirm`]: the epoch as read now, and the highest claim.
    Confirmed {
        epoch: Option<EpochDoc>,
        highest: u64,
    },
    /// The intent could not be carried out (share unavailable, disk full).
    Failed(String),
}

/// The next action of the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Intent {
    /// After `in_ms` milliseconds: try the lock unless it is held, read epoch and beat. `unlock`:
    /// release the lock first, because it belongs to a leader that does not hold it.
    Poll {
        in_ms: u64,
        unlock: bool,
    },
    ListClaims,
    /// Create the claim of this epoch exclusively.
    Claim(EpochDoc),
    /// Overwrite `leader/epoch` in place and sync it.
    WriteEpoch(EpochDoc),
    WaitCache(u64),
    /// Read `leader/epoch` and list the claims again.
    Confirm,
    /// The claim is valid: this process leads.
    Lead(EpochDoc),
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |locked: bool| if locked { "+" } else { "" };
        match self {
            Intent::Poll { in_ms, unlock } => {
                write!(
                    f,
                    "poll in {in_ms}{}",
                    if *unlock { " unlocked" } else { "" }
                )
            }
            Intent::ListClaims => f.write_str("list"),
            Intent::Claim(doc) => write!(f, "claim {}{}", doc.epoch, mark(doc.locked)),
            Intent::WriteEpoch(doc) => write!(f, "write {}{}", doc.epoch, mark(doc.locked)),
            Intent::WaitCache(ms) => write!(f, "wait {ms}"),
            Intent::Confirm => f.write_str("confirm"),
            Intent::Lead(doc) => write!(f, "lead {}{}", doc.epoch, mark(doc.locked)),
        }
    }
}

/// The phase of a candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    Watching,
    Listing,
    Claiming(u64),
    Writing(u64),
    Waiting(u64),
    Confirming(u64),
    Leading(u64),
}

/// The state machine of one candidate, from its first poll until it leads.
#[derive(Clone, Debug)]
pub struct Lease {
    settings: Settings,
    phase: Phase,
    /// The last poll, its time, and for how long its documents had not changed.
    last: Option<(PollResult, u64)>,
    silent_ms: u64,
    locked: bool,
    /// No process can read from a cache what this claim overwrites.
    no_wait: bool,
    /// Why the candidate claims, for the log.
    reason: &'static str,
    /// The claim that was due was not made: the share is too slow for a leader with this T.
    too_slow: Option<u64>,
}

impl Lease {
    /// A candidate that has not seen anything yet, and its first intent.
    pub fn new(settings: Settings) -> (Lease, Intent) {
        let lease = Lease {
            settings,
            phase: Phase::Watching,
            last: None,
            silent_ms: 0,
            locked: false,
            no_wait: false,
            reason: "",
            too_slow: None,
        };
        let first = Intent::Poll {
            in_ms: 0,
            unlock: false,
        };
        (lease, first)
    }

    /// Why the last claim was made.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// The time (ms) for reading 512 bytes, if that alone prevents this candidate from leading.
    pub fn too_slow(&self) -> Option<u64> {
        self.too_slow
    }

    /// Takes what was found at `now` (ms, monotonic). Returns what to do next.
    pub fn step(&mut self, now: u64, observation: Observation) -> Intent {
        match (self.phase.clone(), observation) {
            (Phase::Watching, Observation::Polled(poll)) => self.polled(now, poll),
            (
                Phase::Listing,
                Observation::Highest {
                    highest,
                    claims_are_fresh,
                },
            ) => {
                self.no_wait = claims_are_fresh && self.all_fresh();
                let n = highest.max(self.highest_epoch()) + 1;
                self.phase = Phase::Claiming(n);
                Intent::Claim(self.doc(n))
            }
            (Phase::Claiming(n), Observation::Claimed(true)) => {
                self.phase = Phase::Writing(n);
                Intent::WriteEpoch(self.doc(n))
            }
            (Phase::Writing(n), Observation::Wrote)
                if self.settings.cache_ms > 0 && !self.no_wait =>
            {
                self.phase = Phase::Waiting(n);
                Intent::WaitCache(self.settings.cache_ms)
            }
            (Phase::Writing(n), Observation::Wrote) | (Phase::Waiting(n), Observation::Waited) => {
                self.phase = Phase::Confirming(n);
                Intent::Confirm
            }
            (Phase::Confirming(n), Observation::Confirmed { epoch, highest }) => {
                self.confirmed(n, epoch, highest)
            }
            // A lost claim, a failure, or an answer to an outdated question: start again.
            _ => self.restart(),
        }
    }

    /// Returns to watching; what was found before no longer proves anything.
    fn restart(&mut self) -> Intent {
        self.phase = Phase::Watching;
        self.last = None;
        self.silent_ms = 0;
        Intent::Poll {
            in_ms: self.settings.poll_ms,
            unlock: false,
        }
    }

    fn doc(&self, epoch: u64) -> EpochDoc {
        EpochDoc {
            epoch,
            locked: self.locked,
            ..self.settings.me.clone()
        }
    }

    /// Whether this candidate and the last leader or claimant read the server's current content.
    /// The one that beat last has waited for earlier leaders, if needed.
    fn all_fresh(&self) -> bool {
        let Some((PollResult { epoch, beat, .. }, _)) = &self.last else {
            return false;
        };
        let claimed = epoch.as_ref().is_some_and(|e| e.epoch == 0 || e.fresh);
        let led = beat.as_ref().is_some_and(|b| b.epoch == 0 || b.fresh);
        self.settings.me.fresh && claimed && led
    }

    fn highest_epoch(&self) -> u64 {
        let poll = self.last.as_ref().map(|(poll, _)| poll);
        let epoch = poll.and_then(|l| l.epoch.as_ref()).map_or(0, |e| e.epoch);
        let beat = poll.and_then(|l| l.beat.as_ref()).map_or(0, |b| b.epoch);
        epoch.max(beat)
    }

    fn polled(&mut self, now: u64, poll: PollResult) -> Intent {
        self.locked = poll.locked;
        let same = match &self.last {
            Some((old, at)) if (&old.epoch, &old.beat) == (&poll.epoch, &poll.beat) => {
                // A gap in which this candidate itself stood still counts only a little.
                let most = self.settings.takeover_ms / 3;
                self.silent_ms += now.saturating_sub(*at).min(most);
                true
            }
            _ => false,
        };
        if !same {
            self.silent_ms = 0;
        }
        // A claimant that waits for caches to expire does not beat yet: it gets that time in
        // addition. Without it, candidates with a short T would overtake each other without end.
        let claiming =
            poll.epoch.as_ref().map_or(0, |e| e.epoch) > poll.beat.as_ref().map_or(0, |b| b.epoch);
        let enough = match claiming {
            true => self.settings.takeover_ms + self.settings.cache_ms,
            false => self.settings.takeover_ms,
        };
        let has_lock = lock_is_proof(&poll);
        let (locked, read_ms) = (poll.locked, poll.read_ms);
        self.last = Some((poll, now));
        self.too_slow = None;
        if locked && has_lock {
            self.reason = "the lock is free: the last leader is gone";
        } else if self.silent_ms >= enough {
            self.reason = "the leader's beat has not changed";
        } else {
            return Intent::Poll {
                in_ms: self.settings.poll_ms,
                unlock: locked,
            };
        }
        // Leaders that lose their lease one after the other are worse than no leader.
        if !self.settings.tolerates(read_ms) {
            self.too_slow = Some(read_ms);
            return Intent::Poll {
                in_ms: self.settings.poll_ms,
                unlock: false,
            };
        }
        self.phase = Phase::Listing;
        Intent::ListClaims
    }

    fn confirmed(&mut self, n: u64, epoch: Option<EpochDoc>, highest: u64) -> Intent {
        if highest > n {
            return self.restart();
        }
        let own = self.doc(n);
        match judge(&own, epoch.as_ref()) {
            Verdict::Mine => {
                self.phase = Phase::Leading(n);
                Intent::Lead(own)
            }
            Verdict::Lower => {
                self.phase = Phase::Writing(n);
                Intent::WriteEpoch(own)
            }
            Verdict::Higher => self.restart(),
        }
    }
}

/// Whether a free lock means that the last leader or claimant is gone: only if it held the lock.
fn lock_is_proof(poll: &PollResult) -> bool {
    let (epoch, claimed_locked) = match &poll.epoch {
        // It is damaged: only the beat counts.
        None => (0, true),
        Some(doc) => (doc.epoch, doc.locked),
    };
    match &poll.beat {
        Some(beat) if beat.epoch >= epoch => beat.epoch == 0 || beat.locked,
        _ => epoch == 0 || claimed_locked,
    }
}

/// What the epoch file means for the leader or claimant `own`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It names this leader or claimant.
    Mine,
    /// A late claimant of a lower epoch overwrote it, or its content is damaged. A claimant, which
    /// has not done anything yet, writes it again. A leader must end as if it had read a higher
    /// epoch: the lower one may have hidden a higher one for a moment, and then two leaders would
    /// continue.
    Lower,
    /// A higher epoch: become silent at once.
    Higher,
}

/// Evaluates `leader/epoch` as read by the leader or claimant `own`.
pub fn judge(own: &EpochDoc, read: Option<&EpochDoc>) -> Verdict {
    match read {
        None => Verdict::Lower,
        Some(read) if read.epoch < own.epoch => Verdict::Lower,
        Some(read) if read.epoch == own.epoch && read.nonce == own.nonce => Verdict::Mine,
        // There cannot be two holders of one exclusive claim: a candidate in doubt yields.
        Some(_) => Verdict::Higher,
    }
}

/// Whether a leader whose last successful renewal began at `renewed` must be silent at `now`.
pub fn lease_over(settings: &Settings, renewed: u64, now: u64) -> bool {
    now.saturating_sub(renewed) >= settings.silent_ms()
}

/// Whether a leader whose last successful check of the epoch began at `checked_at` must be silent
/// at `now`. This is later than [`lease_over`]: a check takes more operations, and protection from
/// a stale leader does not depend on it but on the check after each sync. It keeps such a leader
/// from beating for long.
pub fn check_overdue(settings: &Settings, checked_at: u64, now: u64) -> bool {
    now.saturating_sub(checked_at) >= settings.takeover_ms
}

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod tests;
