//! Pending jobs as the scheduler sees them: classes of jobs that are equal for scheduling. Owns the
//! records of the classes; their order is `queues.rs`'s.

use super::line::{Place, Turn};
use super::quota::Ident;
use super::run_length::Length;
use crate::model::{JobKey, Stamp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// First jobs of a class that are kept in its record.
pub(super) const AHEAD: usize = 6;

/// A class of pending jobs that are equal for scheduling.
#[derive(Debug)]
pub(super) struct Bucket {
    pub shape: u32,
    /// Position of the queue in the configuration.
    pub queue: Option<u16>,
    pub place: Place,
    pub uid: u32,
    pub user: String,
    /// `-sp`.
    pub priority: u32,
    /// Slots it needs at least.
    pub min: u32,
    pub begin: Option<Stamp>,
    /// `-t`.
    pub deadline: Option<Stamp>,
    /// Run limit or estimate in milliseconds, as it is stated; a hundred years without.
    pub estimate: i64,
    pub length: Length,
    /// Slot limit of the user over all queues.
    pub user_max: Option<u32>,
    /// Slot limit of the user on each host for each of its cores, in thousandths.
    pub user_per_core: Option<u64>,
    /// The counters of section `limits` that its jobs count in.
    pub ident: Arc<Ident>,
    /// One of the specifications of the class.
    pub spec: u32,
    /// Its first jobs; all of them when there is room for more.
    pub ahead: SmallVec<[(i64, JobKey); AHEAD]>,
    /// Some of its jobs are arrays.
    pub arrays: bool,
    /// Its entry in the order of its queue.
    pub turn: Option<Turn>,
    /// That entry is not its first job: the class advanced within a pass.
    pub moved: bool,
    /// Elements of the array at `turn` below this index were already considered in this pass.
    pub from: u32,
}

/// All classes of pending jobs, by number.
#[derive(Debug, Default)]
pub(super) struct PendingClasses {
    all: FxHashMap<u32, Box<Bucket>>,
    /// Classes whose entry is not their first job: set right before the next pass.
    moved: Vec<u32>,
    /// Classes that came or changed since the last pass.
    fresh: Vec<u32>,
}

impl PendingClasses {
    pub fn get(&self, id: u32) -> Option<&Bucket> {
        self.all.get(&id).map(Box::as_ref)
    }

    pub fn contains(&self, id: u32) -> bool {
        self.all.contains_key(&id)
    }

    pub fn values(&self) -> impl Iterator<Item = &Bucket> {
        self.all.values().map(Box::as_ref)
    }

    /// Takes a class out, so that it can be read while the rest of the picture changes.
    pub fn take(&mut self, id: u32) -> Option<Box<Bucket>> {
        self.all.remove(&id)
    }

    pub fn put(&mut self, id: u32, bucket: Box<Bucket>) {
        self.all.insert(id, bucket);
    }

    /// The class came or changed.
    pub fn note_fresh(&mut self, id: u32) {
        self.fresh.push(id);
        if self.fresh.len() > 2 * self.all.len() + 64 {
            self.fresh.sort_unstable();
            self.fresh.dedup();
        }
    }

    pub fn take_fresh(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.fresh)
    }

    /// The class's entry is no longer its first job.
    pub fn note_moved(&mut self, id: u32) {
        self.moved.push(id);
    }

    pub fn take_moved(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.moved)
    }
}
