//! One file watched by one short-lived command: a hint that somebody wrote to it.
//!
//! `watch` serves daemons; it starts a thread, which costs a command more than the wait it saves.
//! This is the same hint without a thread. It means nothing else, and callers poll all the same.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use std::os::fd::AsFd;
use std::path::Path;

/// Waits for writes to at most one file at a time.
#[derive(Debug)]
pub struct FileHint {
    inotify: Option<Inotify>,
    watched: Option<WatchDescriptor>,
}

impl FileHint {
    /// Watches nothing yet. Never fails: without system support there are no hints.
    pub fn new() -> FileHint {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        FileHint {
            inotify: Inotify::init(flags).ok(),
            watched: None,
        }
    }

    /// Watches `path` instead of what was watched before; true when hints will come.
    pub fn set(&mut self, path: &Path) -> bool {
        let Some(inotify) = &self.inotify else {
            return false;
        };
        if let Some(old) = self.watched.take() {
            // A file that is gone took its watch with it.
            let _ = inotify.rm_watch(old);
        }
        self.watched = inotify
            .add_watch(path, AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVED_TO)
            .ok();
        self.watched.is_some()
    }

    /// True while a file is watched.
    pub fn is_set(&self) -> bool {
        self.watched.is_some()
    }

    /// Waits for a write, a signal, or `us` microseconds, whichever comes first.
    pub fn wait(&self, us: u64) {
        let Some(inotify) = self.inotify.as_ref().filter(|_| us >= 1000) else {
            std::thread::sleep(std::time::Duration::from_micros(us));
            return;
        };
        let ms = PollTimeout::try_from(us / 1000).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, ms).is_ok_and(|n| n > 0) {
            // Taken off the queue only; what changed is seen by looking at the file.
            let _ = inotify.read_events();
        }
    }
}

impl Default for FileHint {
    fn default() -> Self {
        FileHint::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_write_ends_the_wait_and_silence_does_not() {
        let d = tempfile::tempdir().unwrap();
        let path = d.path().join("f");
        std::fs::write(&path, "a").unwrap();
        let mut hint = FileHint::new();
        assert!(!hint.set(&d.path().join("missing")));
        if !hint.set(&path) {
            println!("skipped: no inotify here");
            return;
        }
        let from = Instant::now();
        hint.wait(30_000);
        assert!(from.elapsed().as_millis() >= 29);
        std::fs::write(&path, "b").unwrap();
        let from = Instant::now();
        hint.wait(10_000_000);
        assert!(from.elapsed().as_millis() < 5000);
    }
}
