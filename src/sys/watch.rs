//! Hints that something changed on this machine: they shorten a wait and mean nothing else.
//!
//! Only user of `notify`. Another NFS client's writes raise no event, a watch may fail for many
//! reasons (limits, file systems): every caller polls anyway, so failures only warn once.

use crossbeam::channel::{Receiver, Sender, bounded};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::path::Path;
use std::time::Duration;

/// Watches files and directories (not what is below them) and gives wake-up hints.
#[derive(Debug)]
pub struct Watcher {
    inner: Option<RecommendedWatcher>,
    hints: Receiver<()>,
    // Kept so that `hints` never reads as disconnected when there is no inner watcher.
    _keep: Sender<()>,
    warned: bool,
}

impl Watcher {
    /// Makes a watcher that watches nothing yet. Never fails: without system support it gives no
    /// hints.
    pub fn new() -> Watcher {
        Watcher::filtered(|_| true)
    }

    /// Like `new`, with a filter on the changed path: what the owner itself writes into a watched
    /// directory should not wake it.
    pub fn filtered(wanted: impl Fn(&Path) -> bool + Send + 'static) -> Watcher {
        // One pending hint is enough: the receiver looks at everything when it wakes.
        let (tx, hints) = bounded(1);
        let sender = tx.clone();
        let handler = move |event: notify::Result<notify::Event>| {
            // Opening and reading are what pollers do all the time: no change, no hint.
            let counts = match &event {
                Ok(e) if matches!(e.kind, EventKind::Access(_)) => false,
                Ok(e) => e.paths.is_empty() || e.paths.iter().any(|p| wanted(p)),
                Err(_) => true,
            };
            if counts {
                let _ = sender.try_send(());
            }
        };
        let mut w = Watcher {
            inner: None,
            hints,
            _keep: tx,
            warned: false,
        };
        if super::door::simulated() {
            return w;
        }
        match notify::recommended_watcher(handler) {
            Ok(inner) => w.inner = Some(inner),
            Err(e) => w.warn(&e, Path::new("anything")),
        }
        w
    }

    /// Starts to watch a file or the names in a directory; true when hints will come.
    pub fn add(&mut self, path: &Path) -> bool {
        let Some(inner) = self.inner.as_mut() else {
            return false;
        };
        match inner.watch(path, RecursiveMode::NonRecursive) {
            Ok(()) => true,
            // The path may appear later: the caller tries again, and there is nothing to warn of.
            Err(e) if matches!(e.kind, notify::ErrorKind::PathNotFound) => false,
            Err(e) => {
                self.warn(&e, path);
                false
            }
        }
    }

    /// Stops to watch `path`.
    pub fn remove(&mut self, path: &Path) {
        if let Some(inner) = self.inner.as_mut() {
            let _ = inner.unwatch(path);
        }
    }

    /// The channel of hints, for a `select!` among other channels.
    pub fn hints(&self) -> &Receiver<()> {
        &self.hints
    }

    /// Waits for a hint for at most `ms` milliseconds; true when one came.
    pub fn wait(&self, ms: u64) -> bool {
        self.hints.recv_timeout(Duration::from_millis(ms)).is_ok()
    }

    fn warn(&mut self, e: &notify::Error, path: &Path) {
        if !self.warned {
            self.warned = true;
            let path = path.display();
            tracing::warn!("cannot watch {path}: {e}; polling alone will notice changes");
        }
    }
}

impl Default for Watcher {
    fn default() -> Self {
        Watcher::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fs;
    use tempfile::tempdir;

    #[test]
    fn a_new_file_gives_a_hint_and_reading_gives_none() {
        let d = tempdir().unwrap();
        let mut w = Watcher::new();
        if !w.add(d.path()) {
            println!("skipped: no inotify here");
            return;
        }
        fs::publish(&d.path().join("x"), b"1").unwrap();
        assert!(w.wait(2000));
        while w.wait(100) {}
        fs::read_small(&d.path().join("x"), 9).unwrap();
        assert!(!w.wait(200));
    }

    #[test]
    fn filtered_paths_are_silent_and_missing_ones_are_refused() {
        let d = tempdir().unwrap();
        let mut w = Watcher::filtered(|p| !p.ends_with("own"));
        if !w.add(d.path()) {
            println!("skipped: no inotify here");
            return;
        }
        fs::ensure_file(&d.path().join("own"), 0o644).unwrap();
        assert!(!w.wait(200));
        assert!(!w.add(&d.path().join("missing")));
    }
}
