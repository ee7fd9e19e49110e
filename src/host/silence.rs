//! How long this host has not written to the share, and the consequence of `iso_timeout`.
//!
//! Reads two small files of the local directory, both written by `cbls`: its beat, and the limit in
//! force. Never accesses the share, so nothing can block it.

use super::iso_limit::in_force;
use super::local::Local;
use super::ls::read_beat;
use crate::sys::{clock, proc};

/// Number of looks within the limit: silence that ended between two of them is noticed too.
const LOOKS: u64 = 8;
/// Shortest and longest pause between two looks, ms. The longest applies if there is no limit,
/// because a new limit must be noticed soon.
const PAUSE_MS: u64 = 250;
pub const PAUSE_MAX_MS: u64 = 5_000;

/// Watches the silence of this host.
#[derive(Debug)]
pub struct Silence {
    local: Local,
    /// The last write to the share and the limit in force, both as of the last look.
    last_write: u64,
    limit: u64,
}

impl Silence {
    /// If no beat of this boot is recorded, silence counts from now on.
    pub fn new(local: &Local) -> Silence {
        Silence {
            local: local.clone(),
            limit: in_force(local),
            last_write: last_write(local).unwrap_or_else(clock::boot_ms),
        }
    }

    /// Returns true if the host was silent for longer than its limit at any time since the last
    /// look: the leader may have started its rerunnable tasks elsewhere, even if this host writes
    /// again now.
    ///
    /// The last look is judged by the limit of that time: a shorter limit does not apply to the
    /// time before it was in force, and a longer one does not excuse earlier silence. It comes into
    /// force after a write to the share, so a process that reads the limit first then reads a write
    /// that is at least as new.
    pub fn exceeded_limit(&mut self) -> bool {
        let late = |last_sign: u64, limit: u64| {
            limit != 0 && clock::boot_ms().saturating_sub(last_sign) > limit
        };
        let before = late(self.last_write, self.limit);
        self.limit = in_force(&self.local);
        self.last_write =
            last_write(&self.local).map_or(self.last_write, |at| at.max(self.last_write));
        before || late(self.last_write, self.limit)
    }

    /// How long to wait before the next look, ms.
    pub fn pause(&self) -> u64 {
        match self.limit {
            0 => PAUSE_MAX_MS,
            limit => (limit / LOOKS).clamp(PAUSE_MS, PAUSE_MAX_MS),
        }
    }
}

/// When `cbls` last wrote to the share (boot-time clock).
fn last_write(local: &Local) -> Option<u64> {
    let (beat, boot) = read_beat(&local.ls_beat())?;
    let ours = boot.is_empty() || boot == proc::boot_id();
    // A time in the future is also from an earlier boot (a beat without the boot's name).
    (ours && beat <= clock::boot_ms()).then_some(beat)
}

/// Until when tasks of orders that are read from now on may be started (boot-time clock, ms): the
/// host wrote to the share in this boot and within its limit. Later the leader may have dispatched
/// these tasks elsewhere, and later orders may cancel them.
///
/// # Errors
/// No task may be started now: the reason, for the log.
pub fn may_start_until(local: &Local) -> Result<u64, String> {
    let limit = in_force(local);
    if limit == 0 {
        return Ok(u64::MAX);
    }
    let what = match last_write(local) {
        Some(at) if clock::boot_ms().saturating_sub(at) <= limit => {
            return Ok(at.saturating_add(limit));
        }
        Some(_) => "for longer than iso_timeout",
        None => "since this host was started",
    };
    Err(format!(
        "cbls has not written this host's load {what}: no task is started until it does"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::iso_limit::force;
    use super::super::ls::write_beat;
    use super::*;

    fn beat(local: &Local, ms: u64) {
        write_beat(&local.ls_beat(), &ms.to_string());
    }

    #[test]
    fn silence_is_over_the_limit_when_it_was_at_the_last_look_or_is_now() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        beat(&local, clock::boot_ms().saturating_sub(20_000));
        let mut s = Silence::new(&local);
        assert!(!s.exceeded_limit(), "no limit is in force");
        force(&local, 10_000);
        assert!(s.exceeded_limit(), "silent for too long");
        // The host writes again, but the last look saw an old write.
        beat(&local, clock::boot_ms());
        assert!(s.exceeded_limit());
        force(&local, 60_000);
        assert!(!s.exceeded_limit());
        beat(&local, clock::boot_ms() + 3_600_000);
        assert!(
            !s.exceeded_limit(),
            "a beat of an earlier boot says nothing"
        );
        assert_eq!(s.pause(), PAUSE_MAX_MS);
        force(&local, 8_000);
        assert!(!s.exceeded_limit());
        assert_eq!(s.pause(), 1_000);
        force(&local, 0);
        assert!(!s.exceeded_limit());
        assert_eq!((in_force(&local), s.pause()), (0, PAUSE_MAX_MS));
    }

    #[test]
    fn a_beat_with_a_flipped_byte_never_lengthens_the_time_that_a_task_may_run() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        let now = clock::boot_ms();
        let text = format!("{now} {}", proc::boot_id());
        for n in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[n] ^= 1 << bit;
                std::fs::write(local.ls_beat(), &bytes).unwrap();
                let read = last_write(&local);
                assert!(read.is_none_or(|at| at <= clock::boot_ms()), "{bytes:?}");
            }
        }
    }

    #[test]
    fn a_shorter_limit_is_not_held_against_a_look_of_before() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        beat(&local, clock::boot_ms().saturating_sub(20_000));
        let mut s = Silence::new(&local);
        assert!(!s.exceeded_limit());
        // The host continues to write; the limit comes into force half a minute after the last
        // look.
        beat(&local, clock::boot_ms());
        force(&local, 10_000);
        assert!(!s.exceeded_limit(), "it was never cut off");
        assert!(!s.exceeded_limit());
    }

    #[test]
    fn a_longer_limit_takes_back_no_silence_that_was_over_the_one_before() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        force(&local, 10_000);
        beat(&local, clock::boot_ms().saturating_sub(20_000));
        // All processes stopped for 20 s; then cbls runs first and puts a longer limit in force.
        let mut s = Silence::new(&local);
        beat(&local, clock::boot_ms());
        force(&local, 60_000);
        assert!(s.exceeded_limit(), "its work may run elsewhere by now");
    }

    #[test]
    fn starts_are_allowed_for_as_long_as_nothing_is_given_away() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        assert_eq!(may_start_until(&local), Ok(u64::MAX));
        force(&local, 10_000);
        assert!(may_start_until(&local).is_err(), "it has not written yet");
        let now = clock::boot_ms();
        write_beat(&local.ls_beat(), &format!("{now} {}", proc::boot_id()));
        assert_eq!(may_start_until(&local), Ok(now + 10_000));
        let old = now.saturating_sub(20_000);
        write_beat(&local.ls_beat(), &format!("{old} {}", proc::boot_id()));
        assert!(may_start_until(&local).is_err());
    }
}
