//! What this host knows about the share: how far it has followed it, whether an older copy has
//! replaced it, and whether its orders are for this host's ledger.
//!
//! Reads nothing itself: the reader of orders passes in its results.

use super::fence;
use super::ledger::KnownShare;
use super::orders::OrdersPoll;
use crate::host::ls::STARTS_NOTHING;
use crate::host::setup::HostSetup;
use crate::sys::clock;

/// How long the leader may take to read of a new ledger before a warning is logged, ms.
const FOREIGN_MS: u64 = 60_000;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct ShareWatch {
    /// The recorded state.
    pub recorded: KnownShare,
    /// The newest epoch on a share that is older than what this host has followed; logged once.
    reverted_epoch: Option<u64>,
    /// The last error of the share, so that it is logged once.
    pub error: String,
    /// Since when the orders are for another ledger than this one; 0 = they are for this one.
    foreign_since: u64,
    /// The leader has addressed orders to this ledger.
    addressed: bool,
}

impl ShareWatch {
    pub(super) fn new(known_share: KnownShare) -> ShareWatch {
        ShareWatch {
            recorded: known_share,
            ..ShareWatch::default()
        }
    }

    /// The state of the share in the local beat, for `cbls` and administrators; `top`: the highest
    /// job id here; `local_error`: why nothing can be recorded on this host.
    pub(super) fn beat(&self, top: u32, note: &str, local_error: Option<&str>) -> String {
        let epoch = self.recorded.epoch;
        let back = match self.reverted_epoch {
            Some(newest) => format!(
                "the share is older than this host's records (epoch {newest}, \
                the host has followed {epoch}); "
            ),
            None => String::new(),
        };
        let stopped = match local_error {
            Some(why) => format!("{STARTS_NOTHING}starts no tasks: {why}; "),
            None => String::new(),
        };
        let note = format!("{stopped}{back}{note}");
        let note = note.trim_end_matches("; ");
        match &self.recorded.points {
            none if none.is_empty() => format!("{epoch} {top} {note}"),
            points => format!("{epoch} {top} {points} {note}"),
        }
    }

    /// Logs an error of the share, once.
    pub(super) fn failed(&mut self, e: String) {
        if e != self.error {
            tracing::error!("{e}");
            self.error = e;
        }
    }

    /// Notes that the share was replaced by an older copy. Returns true if it is current again:
    /// then everything is reported again, because the acknowledgements were lost.
    pub(super) fn judge(&mut self, poll: &OrdersPoll) -> bool {
        let current = poll.new_epoch && self.reverted_epoch.take().is_some();
        if current {
            tracing::info!("the share has a later epoch again; all attempts are reported again");
        }
        if poll.reverted_epoch.is_some() && self.reverted_epoch != poll.reverted_epoch {
            let (followed, newest) = (self.recorded.epoch, poll.reverted_epoch.unwrap_or_default());
            tracing::error!(
                "the share is older than this host's records: the host has followed epoch \
                 {followed}, but the newest epoch on the share is {newest}. Was it restored from a \
                 backup? No order is followed until an administrator runs 'cadmin restored \
                 --confirm'; tasks continue"
            );
            self.reverted_epoch = poll.reverted_epoch;
        }
        current
    }

    /// An administrator has confirmed that the share was restored: acknowledgements of final
    /// reports may be lost. Returns false if this was known.
    pub(super) fn note_restored(&mut self, above: u64) -> bool {
        if above <= self.recorded.restored {
            return false;
        }
        tracing::info!("the share was restored; all attempts are reported again");
        self.recorded.restored = above;
        self.recorded.points.forget(above);
        true
    }

    /// Checks whether the leader's orders are for this ledger (`foreign`; `None`: not known). If
    /// they were and no longer are, another machine or directory uses this host's name: the leader
    /// has given up the tasks of this one and may run them elsewhere, so they must not run here as
    /// well.
    pub(super) fn check_identity(&mut self, foreign: Option<bool>, setup: &HostSetup) {
        self.addressed |= foreign == Some(false);
        if foreign != Some(true) {
            self.foreign_since = 0;
            return;
        }
        let now = clock::boot_ms();
        if self.foreign_since == 0 {
            self.foreign_since = now;
            if self.addressed {
                let host = &setup.site.host;
                let ended = fence::end_all(&setup.local);
                tracing::error!(
                    "another cbexe runs as host {host}: this one starts no more tasks and ends \
                     its {ended} rerunnable tasks; set CB_HOST in the cb.conf of one of them"
                );
            }
        } else if now.saturating_sub(self.foreign_since) > FOREIGN_MS && !self.addressed {
            self.foreign_since = now;
            tracing::warn!(
                "orders are for an earlier ledger of this host; nothing is started until the \
                 leader has read its reports"
            );
        }
    }
}
