//! Slow cleaning on a thread of its own: directories of forgotten jobs, blobs nobody refers to,
//! requests that were never published.
//!
//! Removes only what the state no longer knows; everything may be removed late or never.

use crate::spool::Layout;
use crate::sys::dropbox::DropBox;
use crate::sys::{clock, fs, thread};
use crossbeam::channel::{Sender, bounded};
use std::collections::BTreeSet;

/// Most errands waiting, each of up to ten thousand jobs; more are dropped: an old blob goes with a
/// later sweep, a forgotten job's directory stays.
const ERRANDS_MAX: usize = 10_000;
/// Age below which an unreferenced blob is kept, in milliseconds: a request just being taken may
/// refer to it, and so may a leader that does not know yet that it is none.
const BLOB_AGE_MS: i64 = 7 * 24 * 3600 * 1000;

/// Age at which a request that was never published belongs to nobody: far above the time a command
/// takes to write one.
const ASIDE_AGE_MS: u64 = 24 * 3600 * 1000;
/// Most drop boxes looked into.
const USERS_MAX: usize = 100_000;

enum Errand {
    Jobs(Vec<u32>),
    Blobs(BTreeSet<String>),
}

/// Hands errands to the cleaning thread.
pub struct Janitor {
    errands: Sender<Errand>,
}

impl Janitor {
    pub fn start(layout: &Layout) -> Janitor {
        let (errands, inbox) = bounded(ERRANDS_MAX);
        let layout = layout.clone();
        let work = move || {
            while let Ok(errand) = thread::recv(&inbox) {
                match errand {
                    Errand::Jobs(ids) => ids.iter().for_each(|id| {
                        let _ = fs::remove_tree(&layout.job_dir(*id));
                    }),
                    Errand::Blobs(live) => {
                        sweep_blobs(&layout, &live);
                        sweep_inboxes(&layout);
                    }
                }
            }
        };
        if let Err(e) = thread::spawn("janitor", 2 << 20, work) {
            tracing::warn!("no thread for cleaning: {e}");
        }
        Janitor { errands }
    }

    /// The jobs are forgotten: their directories may go.
    pub fn forget(&self, ids: Vec<u32>) {
        let _ = self.errands.try_send(Errand::Jobs(ids));
    }

    /// Removes old blobs that are not in `live`.
    pub fn sweep(&self, live: BTreeSet<String>) {
        let _ = self.errands.try_send(Errand::Blobs(live));
    }
}

/// Removes what commands left in the drop boxes when they were killed before they published.
fn sweep_inboxes(layout: &Layout) {
    let Ok(boxes) = DropBox::open(&layout.inbox()) else {
        return;
    };
    for user in fs::list_dir(&layout.inbox(), USERS_MAX).unwrap_or_default() {
        // A link is not entered: it could lead anywhere.
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
