//! Pending jobs as the scheduler sees them: classes of jobs that are equal for scheduling. Owns the
//! records of the classes; their order is in `queues.rs`.

use super::queue_order::{OrderGroup, QueueEntry};
use super::quota::Ident;
use super::run_length::RunLength;
use crate::model::{JobKey, Stamp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Number of first jobs of a class that are kept in its record.
pub(super) const FIRST_JOBS: usize = 6;

/// A class of pending jobs that are equal for scheduling.
#[derive(Debug)]
pub(super) struct PendingClass {
    pub shape: u32,
    /// Position of the queue in the configuration.
    pub queue: Option<u16>,
    /// The queue, user or share-tree leaf within which it is ordered.
    pub group: OrderGroup,
    pub user: ClassUser,
    /// `-sp`.
    pub priority: u32,
    /// Minimum number of slots.
    pub min: u32,
    pub begin: Option<Stamp>,
    /// `-t`.
    pub deadline: Option<Stamp>,
    /// Run limit or estimate in milliseconds, as specified; a hundred years if there is none.
    pub estimate: i64,
    pub length: RunLength,
    /// The counters of section `limits` to which its jobs add.
    pub ident: Arc<Ident>,
    /// One of the specifications of the class.
    pub spec: u32,
    /// Its first jobs; all its jobs if there is room for more.
    pub first_jobs: SmallVec<[(i64, JobKey); FIRST_JOBS]>,
    /// Some of its jobs are arrays.
    pub arrays: bool,
    pub progress: Progress,
}

/// The user of a class, and the limits of section `users`.
#[derive(Debug)]
pub(super) struct ClassUser {
    pub uid: u32,
    pub name: String,
    /// Maximum number of slots over all queues.
    pub max_slots: Option<u32>,
    /// Maximum number of slots on each host per core, in thousandths.
    pub slots_per_core: Option<u64>,
}

/// How far a pass has advanced in a class.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Its entry in the order of its queue.
    pub entry: Option<QueueEntry>,
    /// The entry is not the first job of the class: the class advanced within a pass.
    pub has_advanced: bool,
    /// Elements of the array at `entry` below this index were already considered in this pass.
    pub first_index: u32,
}

/// All classes of pending jobs, by number.
#[derive(Debug, Default)]
pub(super) struct PendingClasses {
    all: FxHashMap<u32, Box<PendingClass>>,
    /// Classes whose entry is not their first job; corrected before the next pass.
    misplaced: Vec<u32>,
    /// Classes that were added or changed since the last pass.
    changed: Vec<u32>,
}

impl PendingClasses {
    pub(super) fn get(&self, id: u32) -> Option<&PendingClass> {
        self.all.get(&id).map(Box::as_ref)
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.all.contains_key(&id)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &PendingClass> {
        self.all.values().map(Box::as_ref)
    }

    /// Takes a class out, so that it can be read while the rest of the picture changes.
    pub(super) fn take_out(&mut self, id: u32) -> Option<Box<PendingClass>> {
        self.all.remove(&id)
    }

    pub(super) fn put(&mut self, id: u32, pending: Box<PendingClass>) {
        self.all.insert(id, pending);
    }

    /// Notes that the class was added or changed.
    pub(super) fn note_changed(&mut self, id: u32) {
        self.changed.push(id);
        if self.changed.len() > 2 * self.all.len() + 64 {
            self.changed.sort_unstable();
            self.changed.dedup();
        }
    }

    pub(super) fn take_changed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.changed)
    }

    /// Notes that the entry of the class is no longer its first job.
    pub(super) fn note_moved(&mut self, id: u32) {
        self.misplaced.push(id);
    }

    pub(super) fn take_moved(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.misplaced)
    }
}
