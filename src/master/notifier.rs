//! The program that sends alerts and mail (`cbnotify`) beside this leader: started if cb.yaml has
//! settings for it, restarted when it ends, ended with the leader.
//!
//! The leader never waits for it: it starts a process and periodically checks whether it is alive.

use crate::journal::Position;
use crate::sys::child::{self, Helper};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Pause between two checks, and before a restart after an end, in milliseconds.
const POLL_MS: u64 = 5_000;
const FIRST_PAUSE_MS: u64 = 1_000;
const LONGEST_PAUSE_MS: u64 = 60_000;
/// A notifier that ran for this time (ms) is restarted at once.
const STEADY_MS: u64 = 60_000;

/// See the head of this file.
pub(super) struct Notifier {
    /// `None`: this leader starts none.
    program: Option<PathBuf>,
    epoch: u64,
    /// The last record (epoch, segment, number) that was written while no notifier was wanted: of
    /// what happens after it, messages are sent. `None`: one was wanted all the time.
    off_until: Option<(u64, u64, u64)>,
    running: Option<Helper>,
    /// When it was started, and when to check or start it next (boot clock, ms).
    began_at: u64,
    next_at: u64,
    pause_ms: u64,
}

impl Notifier {
    pub(super) fn new(program: Option<&Path>, epoch: u64) -> Notifier {
        Notifier {
            program: program.map(Path::to_path_buf),
            epoch,
            off_until: None,
            running: None,
            began_at: 0,
            next_at: 0,
            pause_ms: FIRST_PAUSE_MS,
        }
    }

    /// Starts or ends the notifier, depending on `wanted`. `at`: the end of the journal. Returns
    /// the problem in a sentence, if there is one.
    pub(super) fn supervise(&mut self, wanted: bool, at: Position, now: u64) -> Option<String> {
        let program = self.program.clone()?;
        if !wanted {
            self.off_until = Some(at.record_before());
        }
        if now < self.next_at {
            return None;
        }
        self.next_at = now + POLL_MS;
        if !wanted {
            if let Some(mut helper) = self.running.take() {
                helper.kill();
            }
            return None;
        }
        if let Some(helper) = &mut self.running {
            if !helper.has_ended() {
                return None;
            }
            self.running = None;
            self.pause_ms = match now.saturating_sub(self.began_at) >= STEADY_MS {
                true => FIRST_PAUSE_MS,
                false => (self.pause_ms * 2).min(LONGEST_PAUSE_MS),
            };
            self.next_at = now + self.pause_ms;
            return Some(format!(
                "cbnotify has ended, so no alert or mail is sent: its log says why; it is \
                 started again in {} s",
                self.pause_ms.div_ceil(1000)
            ));
        }
        self.start(&program, now)
    }

    /// The arguments of the program.
    fn words(&self) -> Vec<String> {
        let mut words = vec!["--epoch".to_owned(), self.epoch.to_string()];
        if let Some((epoch, segment, number)) = self.off_until {
            words.extend(["--since".to_owned(), format!("{epoch}.{segment}.{number}")]);
        }
        words
    }

    fn start(&mut self, program: &Path, now: u64) -> Option<String> {
        let words = self.words();
        let nothing = crate::sys::fs::open_rw(Path::new("/dev/null"));
        let started =
            nothing.and_then(|nothing: File| child::start(program, &words, nothing, false));
        match started {
            Ok(helper) => {
                self.running = Some(helper);
                self.began_at = now;
                None
            }
            Err(e) => {
                self.next_at = now + LONGEST_PAUSE_MS;
                Some(format!("alerts and mails are not sent: {e}"))
            }
        }
    }

    /// When it needs to be checked (boot clock, ms); `None`: never.
    pub(super) fn due_at(&self, wanted: bool) -> Option<u64> {
        let cares = self.program.is_some() && (wanted || self.running.is_some());
        cares.then_some(self.next_at)
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        if let Some(mut helper) = self.running.take() {
            helper.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Position = Position {
        epoch: 7,
        segment: 2,
        bytes: 99,
        seq: 5,
    };

    /// Its program ignores the arguments.
    fn notifier(program: &str) -> Notifier {
        Notifier::new(Some(Path::new(program)), 7)
    }

    #[test]
    fn one_that_ends_is_started_again_ever_later() {
        let mut notifier = notifier("/bin/false");
        assert_eq!(notifier.supervise(false, END, 1_000), None);
        assert!(notifier.running.is_none() && notifier.due_at(false).is_none());
        assert_eq!(notifier.supervise(true, END, 5_000), None);
        let mut now = 6_000;
        let mut problem = None;
        for _ in 0..6_000 {
            problem = notifier.supervise(true, END, now);
            if problem.is_some() {
                break;
            }
            now += POLL_MS;
            crate::sys::clock::sleep_ms(10);
        }
        assert!(problem.expect("its end is noticed").contains("in 2 s"));
        assert_eq!(notifier.due_at(true), Some(now + 2_000));
        assert!(notifier.supervise(true, END, now + 1_999).is_none() && notifier.running.is_none());
        assert!(notifier.supervise(true, END, now + 2_000).is_none() && notifier.running.is_some());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let problem = notifier("/no/cbnotify")
            .supervise(true, END, 1)
            .expect("it says so");
        assert!(problem.contains("/no/cbnotify"), "{problem}");
        assert!(Notifier::new(None, 7).supervise(true, END, 1).is_none());
    }

    /// The turn that switches messages on may contain events of which they report.
    #[test]
    fn one_that_is_switched_on_reports_from_there_on() {
        let mut notifier = notifier("/bin/true");
        notifier.supervise(true, END, 1_000);
        assert_eq!(notifier.words(), ["--epoch", "7"], "it was never off");
        notifier.supervise(false, END, 2_000);
        let later = Position { seq: 9, ..END };
        notifier.supervise(false, later, 2_001);
        notifier.supervise(true, Position { seq: 30, ..END }, 20_000);
        assert_eq!(notifier.words(), ["--epoch", "7", "--since", "7.2.8"]);
    }
}
