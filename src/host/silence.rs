//! For how long this host has not written to the share, and what `iso_timeout` says about it.
//!
//! Goes by two small files of the local directory: the beat of `cbls`, and the limit that `cbexe`
//! last read. Never touches the share, so nothing can block it.

use super::local::Local;
use super::ls::{read_beat, write_beat};
use crate::sys::{clock, proc};

/// Looks in one limit: silence that ended between two of them is noticed all the same.
const LOOKS: u64 = 8;
/// Shortest and longest pause between two looks, ms; the pause where there is no limit.
const PAUSE_MS: (u64, u64) = (250, 5_000);
const PAUSE_UNLIMITED_MS: u64 = 30_000;

/// Watches the silence of this host.
#[derive(Debug)]
pub struct Silence {
    local: Local,
    /// The last write to the share as of the last look.
    seen: u64,
}

impl Silence {
    /// Without a beat of this boot on record, silence counts from now on.
    pub fn new(local: &Local) -> Silence {
        Silence {
            local: local.clone(),
            seen: last_write(local).unwrap_or_else(clock::boot_ms),
        }
    }

    /// True when the host was silent for longer than its limit at any moment since the last look:
    /// the leader may have given its rerunnable tasks to others, even if it writes again by now.
    pub fn is_over(&mut self) -> bool {
        let limit = limit(&self.local);
        let late = |seen: u64| limit != 0 && clock::boot_ms().saturating_sub(seen) > limit;
        let before = late(self.seen);
        self.seen = last_write(&self.local).map_or(self.seen, |at| at.max(self.seen));
        before || late(self.seen)
    }

    /// How long to wait before the next look, ms.
    pub fn pause(&self) -> u64 {
        match limit(&self.local) {
            0 => PAUSE_UNLIMITED_MS,
            limit => (limit / LOOKS).clamp(PAUSE_MS.0, PAUSE_MS.1),
        }
    }
}

/// When `cbls` last wrote to the share, by the boot-time clock.
fn last_write(local: &Local) -> Option<u64> {
    let (beat, boot) = read_beat(&local.ls_beat())?;
    let ours = boot.is_empty() || boot == proc::boot_id();
    // A value above the present is of an earlier boot, too (a beat without the boot's name).
    (ours && beat <= clock::boot_ms()).then_some(beat)
}

/// Whether tasks may be started now: the host wrote to the share in this boot and within its limit.
/// Otherwise the leader may have given away what its orders name.
///
/// # Errors
/// Why not, for the log.
pub fn may_start(local: &Local) -> Result<(), String> {
    let limit = limit(local);
    if limit == 0 {
        return Ok(());
    }
    let what = match last_write(local) {
        Some(at) if clock::boot_ms().saturating_sub(at) <= limit => return Ok(()),
        Some(_) => "for longer than iso_timeout",
        None => "since this host was started",
    };
    Err(format!(
        "cbls has not written this host's load {what}: no task is started until it does"
    ))
}

/// A host silent for this long kills its rerunnable tasks, ms; 0 = never.
pub fn limit(local: &Local) -> u64 {
    read_beat(&local.iso()).map_or(0, |b| b.0)
}

/// Keeps the limit for when the share cannot be asked.
pub fn set_limit(local: &Local, ms: u64) {
    if limit(local) != ms {
        write_beat(&local.iso(), &format!("{ms} "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_over_the_limit_when_it_was_at_the_last_look_or_is_now() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        let beat = |ms: u64| write_beat(&local.ls_beat(), &ms.to_string());
        let now = clock::boot_ms();
        beat(now.saturating_sub(100));
        let mut s = Silence::new(&local);
        assert!(!s.is_over(), "no limit is in force");
        set_limit(&local, 50);
        assert!(s.is_over(), "silent for too long");
        // It writes again, but the look before saw an old one.
        beat(clock::boot_ms());
        assert!(s.is_over());
        set_limit(&local, 60_000);
        assert!(!s.is_over());
        beat(clock::boot_ms() + 3_600_000);
        assert!(!s.is_over(), "a beat of an earlier boot says nothing");
        assert_eq!(s.pause(), 5_000);
        set_limit(&local, 0);
        assert_eq!((limit(&local), s.pause()), (0, PAUSE_UNLIMITED_MS));
    }
}
