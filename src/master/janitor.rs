//! Slow cleaning on a separate thread: directories of removed jobs, blobs without references,
//! requests that were never published.
//!
//! Removes only what the state no longer knows; everything may be removed late or never.

use crate::spool::Layout;
use crate::sys::dropbox::{DropBox, Listing};
use crate::sys::{clock, fs, thread};
use crossbeam::channel::{Sender, bounded};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of waiting tasks, each for up to ten thousand jobs. Further ones are dropped:
/// an old blob is removed by a later sweep; the directory of a forgotten job stays.
const TASKS_MAX: usize = 10_000;
/// Age below which an unreferenced blob is kept, in milliseconds: a request that is just being
/// taken may refer to it, and so may a leader that does not know yet that it was replaced.
const BLOB_AGE_MS: i64 = 7 * 24 * 3600 * 1000;
/// Pause between two attempts to clear the directory of all drop boxes, in milliseconds.
const CLEAR_EVERY_MS: u64 = 60_000;
/// Age at which an unpublished request is considered abandoned: far above the time that a command
/// takes to write one.
const ASIDE_AGE_MS: u64 = 24 * 3600 * 1000;
/// Maximum number of drop boxes that are checked.
const USERS_MAX: usize = 100_000;

enum CleaningTask {
    Jobs(Vec<u32>),
    Blobs(BTreeSet<String>),
    Inbox,
}

/// Passes tasks to the cleaning thread.
pub(super) struct Janitor {
    tasks: Sender<CleaningTask>,
    /// The directory of all drop boxes is being cleared.
    clearing: Arc<AtomicBool>,
    /// When clearing was last started (boot clock, ms).
    cleared_at: Option<u64>,
}

impl Janitor {
    pub(super) fn start(layout: &Layout) -> Janitor {
        let (tasks, receiver) = bounded(TASKS_MAX);
        let layout = layout.clone();
        let clearing = Arc::new(AtomicBool::new(false));
        let clears = clearing.clone();
        let work = move || {
            while let Ok(task) = thread::recv(&receiver) {
                match task {
                    CleaningTask::Jobs(ids) => ids.iter().for_each(|id| {
                        let _ = fs::remove_tree(&layout.job_dir(*id));
                    }),
                    CleaningTask::Blobs(live) => {
                        sweep_blobs(&layout, &live);
                        sweep_inboxes(&layout);
                    }
                    CleaningTask::Inbox => {
                        clear_hidden(&layout);
                        clears.store(false, Ordering::Release);
                    }
                }
            }
        };
        if let Err(e) = thread::spawn("janitor", 2 << 20, work) {
            tracing::warn!("the cleaning thread cannot be started: {e}");
        }
        Janitor {
            tasks,
            clearing,
            cleared_at: None,
        }
    }

    /// Notes that jobs were forgotten: their directories may be removed.
    pub(super) fn forget(&self, ids: Vec<u32>) {
        let _ = self.tasks.try_send(CleaningTask::Jobs(ids));
    }

    /// Removes hidden names from the directory of all drop boxes, unless that is in progress or was
    /// tried a short time ago: some may have to stay.
    pub(super) fn clear_inbox(&mut self, now_ms: u64) {
        let rested = self
            .cleared_at
            .is_none_or(|at| now_ms.saturating_sub(at) > CLEAR_EVERY_MS);
        if !rested || self.clearing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.cleared_at = Some(now_ms);
        if self.tasks.try_send(CleaningTask::Inbox).is_err() {
            self.clearing.store(false, Ordering::Release);
        }
    }

    /// Removes old blobs that are not in `live`.
    pub(super) fn request_sweep(&self, live: BTreeSet<String>) {
        let _ = self.tasks.try_send(CleaningTask::Blobs(live));
    }
}

/// Removes the hidden names among the drop boxes; no command creates them. A name that cannot be
/// removed stays, such as a directory that is not empty.
fn clear_hidden(layout: &Layout) {
    let inbox = layout.inbox();
    let (Ok(boxes), Ok(mut names)) = (DropBox::open(&inbox), Listing::open(&inbox)) else {
        return;
    };
    let (mut removed, mut left) = (0, 0);
    while let Ok(Some(name)) = names.next_name() {
        if name.as_encoded_bytes().first() != Some(&b'.') {
            continue;
        }
        match boxes.remove(&name) {
            true => removed += 1,
            false => left += 1,
        }
    }
    let inbox = inbox.display();
    tracing::warn!("{inbox}: {removed} hidden names were removed, {left} could not be");
}

/// Removes files from the drop boxes that commands left when they were killed before they published
/// them.
fn sweep_inboxes(layout: &Layout) {
    let Ok(boxes) = DropBox::open(&layout.inbox()) else {
        return;
    };
    for user in fs::list_dir(&layout.inbox(), USERS_MAX).unwrap_or_default() {
        // A link is not followed: it could lead anywhere.
        if let Ok(own) = boxes.enter(&user.name) {
            let _ = own.sweep(clock::wall_ms(), ASIDE_AGE_MS);
        }
    }
}

fn sweep_blobs(layout: &Layout, live: &BTreeSet<String>) {
    let now = clock::wall_ms();
    for dir in fs::list_dir(&layout.blobs(), 1000).unwrap_or_default() {
        let dir = layout.blobs().join(&dir.name);
        for entry in fs::list_dir(&dir, 1_000_000).unwrap_or_default() {
            let path = dir.join(&entry.name);
            let referred = entry.text().is_some_and(|sha| live.contains(sha));
            let old = fs::stat(&path)
                .ok()
                .flatten()
                .is_some_and(|stat| now - stat.mtime_ms > BLOB_AGE_MS);
            if !referred && old {
                let _ = fs::remove(&path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names_among_the_drop_boxes_go_and_boxes_stay() {
        let d = tempfile::tempdir().unwrap();
        let layout = Layout::new(d.path());
        let inbox = layout.inbox();
        fs::mkdir_p(&layout.inbox_of(7), 0o770).unwrap();
        for name in [".a", ".b"] {
            fs::publish(&inbox.join(name), b"").unwrap();
        }
        fs::mkdir(&inbox.join(".empty"), 0o755).unwrap();
        fs::mkdir_p(&inbox.join(".full/x"), 0o755).unwrap();
        clear_hidden(&layout);
        let mut left = fs::names(&inbox, 99).unwrap();
        left.sort();
        assert_eq!(left, [".full", "7"]);
    }
}
