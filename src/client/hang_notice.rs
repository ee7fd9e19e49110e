//! Handles a command that hangs in the share: prints a notice, obeys `-wait`, and reacts to ^C.
//!
//! An unavailable file system holds a system call until it comes back, so the calling thread can
//! neither print nor handle signals. Another thread observes it from outside; it accesses no file
//! of the share.

use super::env::Site;
use super::exit::Exit;
use crate::language::translated;
use crate::sys::blocked_thread::{self, BlockedThread};
use crate::sys::{caller, clock, proc, signals, thread};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Interval at which the command's threads are checked, ms.
const POLL_MS: u64 = 250;
/// A command that is blocked in one call for this time counts as hanging, ms.
const HANGS_MS: u64 = 5_000;
/// The same for an interrupted command, ms.
const INTERRUPTED_MS: u64 = 500;
/// A hanging command is not ended before this time, whatever `-wait` specifies, ms.
const GIVE_UP_MS: u64 = 2_000;
/// Exit code of a command that was interrupted.
const INTERRUPTED: i32 = 130;
/// No limit to the wait.
const UNLIMITED_MS: u64 = u64::MAX;

/// How long the command waits for its answer, ms.
static WAIT_MS: AtomicU64 = AtomicU64::new(UNLIMITED_MS);
/// The command itself reports that the share does not answer.
static ENDED: AtomicBool = AtomicBool::new(false);
/// Found by a separate thread: the file that names the share may be on the hanging file system.
static SHARE: OnceLock<PathBuf> = OnceLock::new();

/// Starts to monitor the calling command.
pub(crate) fn watch(command: &str) {
    let command = command.to_owned();
    // Without the thread the command waits without a notice.
    drop(thread::spawn("patience", 128 << 10, move || body(&command)));
}

/// Notes that the command waits for an answer, at most for this time.
pub(crate) fn wait_at_most(seconds: u64) {
    let ms = seconds.saturating_mul(1000).max(GIVE_UP_MS);
    WAIT_MS.store(ms, Ordering::Relaxed);
}

/// Notes that the answer has arrived, or that the command no longer waits for it.
pub(crate) fn answered() {
    WAIT_MS.store(UNLIMITED_MS, Ordering::Relaxed);
}

/// From now on nothing is printed and the command is not ended, because it owns the screen.
pub(crate) fn end() {
    ENDED.store(true, Ordering::Relaxed);
}

/// Since when each thread has been blocked in its current call.
#[derive(Default)]
struct BlockedThreads {
    since: HashMap<i32, (u64, (String, u64))>,
}

impl BlockedThreads {
    /// The thread that has been blocked longest, and for how long.
    fn longest_blocked(
        &mut self,
        blocked: Vec<BlockedThread>,
        now: u64,
    ) -> Option<(u64, BlockedThread)> {
        let before = std::mem::take(&mut self.since);
        let mut longest = None;
        for thread in blocked {
            let known = before.get(&thread.thread);
            let known = known.filter(|(_, call)| *call == thread.call);
            let since = known.map_or(now, |(since, _)| *since);
            let entry = (since, thread.call.clone());
            self.since.insert(thread.thread, entry);
            let ms = now - since;
            if longest.as_ref().is_none_or(|(most, _)| ms > *most) {
                longest = Some((ms, thread));
            }
        }
        longest
    }
}

fn body(command: &str) {
    let (mut blocked, mut notified, mut prompted) = (BlockedThreads::default(), false, false);
    loop {
        clock::sleep_ms(POLL_MS);
        if ENDED.load(Ordering::Relaxed) {
            return;
        }
        let Some((ms, thread)) =
            blocked.longest_blocked(blocked_thread::blocked_threads(), clock::boot_ms())
        else {
            continue;
        };
        if ms >= INTERRUPTED_MS && !prompted {
            prompted = true;
            drop(thread::spawn("site", 128 << 10, || {
                if let Ok(site) = Site::find() {
                    drop(SHARE.set(site.share));
                }
            }));
        }
        if ms >= INTERRUPTED_MS && signals::caught() {
            write_notice(&format!(
                "{command}: interrupted while {} does not answer; the request may still be carried \
                 out when it does",
                blocked_on(&thread)
            ));
            proc::exit_now(INTERRUPTED);
        }
        if ms >= WAIT_MS.load(Ordering::Relaxed) {
            write_notice(&format!(
                "{command}: {} has not answered for {} s; the request may still be carried out \
                 when it does",
                blocked_on(&thread),
                ms / 1000
            ));
            proc::exit_now(Exit::System.code());
        }
        if ms >= HANGS_MS && !notified {
            notified = true;
            write_notice(&format!(
                "{command}: {} has not answered for {} s; waiting until it does (^C gives up)",
                blocked_on(&thread),
                ms / 1000
            ));
        }
    }
}

/// Prints a sentence in the language of the process.
fn write_notice(text: &str) {
    caller::print_error(&translated(text));
}

/// What does not answer, as far as this is known.
fn blocked_on(thread: &BlockedThread) -> String {
    let share = SHARE.get().map(PathBuf::as_path);
    match (&thread.file, share) {
        (Some(file), Some(share)) if file.starts_with(share) => share_text(share),
        (Some(file), _) => {
            let dir = file.parent().unwrap_or(Path::new("/"));
            format!("the directory {}", dir.display())
        }
        (None, Some(share)) => share_text(share),
        (None, None) => "the directory of cb.conf or the share".to_owned(),
    }
}

fn share_text(share: &Path) -> String {
    format!("the share {}", share.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_goes_on_without_a_break_hangs() {
        let mut h = BlockedThreads::default();
        let at = |call: &str, used| BlockedThread {
            thread: 5,
            call: (call.to_owned(), used),
            file: None,
        };
        let mut look =
            |blocked: Vec<BlockedThread>, now| h.longest_blocked(blocked, now).map(|(ms, _)| ms);
        assert_eq!(look(vec![], 1000), None);
        assert_eq!(look(vec![at("open", 5)], 2000), Some(0));
        assert_eq!(look(vec![at("open", 5)], 7000), Some(5000));
        // It ran in between: each single wait was short.
        assert_eq!(look(vec![at("open", 6)], 7500), Some(0));
        assert_eq!(look(vec![at("stat", 6)], 8000), Some(0));
        assert_eq!(look(vec![at("stat", 6)], 9000), Some(1000));
        assert_eq!(look(vec![], 9500), None);
        assert_eq!(look(vec![at("stat", 6)], 9600), Some(0));
    }
}
