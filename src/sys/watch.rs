//! Hints that something changed on this machine: they shorten a wait and mean nothing else.
//!
//! The only user of `notify`. Another NFS client's writes raise no event, and a watch may fail for
//! many reasons (limits, file systems): every caller polls anyway, so failures only warn once.

use crossbeam::channel::{Receiver, Sender, bounded};
use notify::event::ModifyKind;
use notify::{Config, EventKind, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The events that are changes. Pollers open and read all the time, their own files too: the kernel
/// does not report it, so that it wakes no thread.
const CHANGES: EventKindMask = EventKindMask::CREATE
    .union(EventKindMask::REMOVE)
    .union(EventKindMask::MODIFY_DATA)
    .union(EventKindMask::MODIFY_NAME);

/// Watches files and directories (not their subdirectories) and raises wake-up hints.
#[derive(Debug)]
pub struct Watcher {
    inner: Option<RecommendedWatcher>,
    hints: Receiver<()>,
    // Kept so that `hints` is never disconnected if there is no inner watcher.
    _keep: Sender<()>,
    watched: Watched,
    warned: bool,
}

/// The watched paths. When a path is removed or renamed, `notify` stops watching it, even if the
/// name exists again, without reporting it: the thread that receives the event removes the path
/// here, and the next [`Watcher::add`] watches it again.
#[derive(Debug, Clone, Default)]
struct Watched(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Watched {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_event(&self, event: &notify::Event) {
        if event.need_rescan() {
            // Events were lost, and it is not known which.
            return self.lock().clear();
        }
        let is_removal = EventKind::is_remove(&event.kind)
            || matches!(event.kind, EventKind::Modify(ModifyKind::Name(_)));
        if is_removal {
            let mut watched = self.lock();
            event.paths.iter().for_each(|path| {
                watched.remove(path);
            });
        }
    }
}

impl Watcher {
    /// Creates a watcher that watches nothing yet. Never fails: without system support it raises no
    /// hints.
    pub fn new() -> Watcher {
        Watcher::filtered(|_| true)
    }

    /// Like `new`, with a filter on the changed path: what the owner itself writes into a watched
    /// directory should not wake it.
    pub fn filtered(wanted: impl Fn(&Path) -> bool + Send + 'static) -> Watcher {
        // One pending hint is enough: the receiver checks everything when it wakes.
        let (tx, hints) = bounded(1);
        let sender = tx.clone();
        let watched = Watched::default();
        let watched_paths = watched.clone();
        let handler = move |event: notify::Result<notify::Event>| {
            if let Ok(e) = &event {
                watched_paths.note_event(e);
            }
            let counts = match &event {
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
            watched,
            warned: false,
        };
        if super::platform::simulated() {
            return w;
        }
        match RecommendedWatcher::new(handler, Config::default().with_event_kinds(CHANGES)) {
            Ok(inner) => w.inner = Some(inner),
            Err(e) => w.warn(&e, Path::new("anything")),
        }
        w
    }

    /// Watches a file or the names in a directory. Returns true if hints will arrive. Costs nothing
    /// if the path is watched already, so call it again for a path that may have been removed and
    /// created again.
    pub fn add(&mut self, path: &Path) -> bool {
        let Some(inner) = self.inner.as_mut() else {
            return false;
        };
        // Recorded before the system is asked: the path may be gone again when the answer arrives.
        if !self.watched.lock().insert(path.to_path_buf()) {
            return true;
        }
        // A watch of the earlier file at this path would remove the new one when it ends.
        let _ = inner.unwatch(path);
        let Err(e) = inner.watch(path, RecursiveMode::NonRecursive) else {
            return true;
        };
        self.watched.lock().remove(path);
        // The path may appear later: the caller tries again, and no warning is needed.
        if !matches!(e.kind, notify::ErrorKind::PathNotFound) {
            self.warn(&e, path);
        }
        false
    }

    /// The channel of hints, for a `select!` among other channels.
    pub fn hints(&self) -> &Receiver<()> {
        &self.hints
    }

    /// Waits for a hint for at most `ms` milliseconds. Returns true if one arrived.
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

    /// A directory with the same name as one that was watched; its parent is watched as well.
    #[test]
    fn a_directory_that_took_anothers_place_is_watched_once_it_is_added_again() {
        let d = tempdir().unwrap();
        let (dir, old) = (d.path().join("box"), d.path().join("old"));
        let mut w = Watcher::new();
        fs::mkdir(&dir, 0o755).unwrap();
        if !w.add(d.path()) || !w.add(&dir) {
            println!("skipped: no inotify here");
            return;
        }
        for round in 0..40 {
            let aside = round % 2 == 0;
            match aside {
                true => fs::rename(&dir, &old).unwrap(),
                false => fs::remove_tree(&dir).unwrap(),
            }
            fs::mkdir(&dir, 0o755).unwrap();
            // As the leader does in every turn. Events about the parent are hints, too.
            while w.wait(20) {
                assert!(w.add(&dir));
            }
            fs::publish(&dir.join("x"), b"1").unwrap();
            assert!(w.wait(2000), "round {round}: changes in it give no hint");
            if aside {
                fs::remove_tree(&old).unwrap();
                while w.wait(20) {
                    assert!(w.add(&dir));
                }
                fs::publish(&dir.join("y"), b"1").unwrap();
                assert!(
                    w.wait(2000),
                    "round {round}: the old one took the watch along"
                );
            }
            while w.wait(20) {}
        }
    }
}
