//! A command that hangs in the share: prints a notice, and ^C works.
//!
//! A file system that is away holds a system call until it comes back, so the thread that asked can
//! neither print nor handle signals. Another thread observes it from outside; it touches no file
//! of the share.

use super::env::Site;
use crate::sys::{caller, clock, proc, signals, thread};

/// How often the state of the command's thread is read, ms.
const LOOK_MS: u64 = 500;
/// A command that is blocked in the system for all of this time hangs, ms.
const HANGS_MS: u64 = 5_000;
/// The same for an interrupted one, ms.
const INTERRUPTED_MS: u64 = 1_000;
/// Exit code of a command that was interrupted.
const INTERRUPTED: i32 = 130;

/// Starts watching over the calling command, which must run on the process's first thread.
pub(crate) fn watch(command: &str) {
    let command = command.to_owned();
    // Without the thread the command only waits in silence.
    drop(thread::spawn("patience", 128 << 10, move || body(&command)));
}

/// The time for which the first thread has been held by the system without using the processor.
#[derive(Default)]
struct Held {
    since: Option<u64>,
    used: u64,
}

impl Held {
    fn look(&mut self, state: char, used: u64, now: u64) -> u64 {
        if state != 'D' || used != self.used {
            (self.since, self.used) = (None, used);
            return 0;
        }
        now - *self.since.get_or_insert(now)
    }
}

fn body(command: &str) {
    let pid = i32::try_from(proc::own_pid()).unwrap_or(0);
    let (mut held, mut said) = (Held::default(), false);
    loop {
        clock::sleep_ms(LOOK_MS);
        let Some(me) = proc::info(pid) else { return };
        let ms = held.look(me.state, me.utime + me.stime, clock::boot_ms());
        if ms >= INTERRUPTED_MS && signals::caught() {
            caller::say(&format!(
                "{command}: interrupted while the share does not answer; the request may still \
                 be carried out when it does"
            ));
            proc::exit_now(INTERRUPTED);
        }
        if ms >= HANGS_MS && !said {
            said = true;
            let share =
                Site::find().map_or_else(|_| String::new(), |s| s.share.display().to_string());
            caller::say(&format!(
                "{command}: the share {share} has not answered for {} s; waiting until it does \
                 (^C gives up)",
                ms / 1000
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_that_is_held_without_a_break_hangs() {
        let mut h = Held::default();
        assert_eq!(h.look('S', 5, 1000), 0);
        assert_eq!(h.look('D', 5, 2000), 0);
        assert_eq!(h.look('D', 5, 7000), 5000);
        // It was busy in between: each single wait was short.
        assert_eq!(h.look('D', 6, 7500), 0);
        assert_eq!(h.look('D', 6, 8000), 0);
        assert_eq!(h.look('D', 6, 9000), 1000);
        assert_eq!(h.look('R', 6, 9500), 0);
    }
}
