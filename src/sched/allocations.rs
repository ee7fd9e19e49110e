//! What all started work holds: one record for each piece, the slots that limits count, and when
//! reservations change with time. Owns these records; hosts, limits and share trees are charged by
//! `picture/`.

use super::allocation::{Allocation, RunFingerprint};
use crate::model::{JobKey, Stamp};
use crate::state::{PREFETCH_BATCH, State};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::ops::Index;

/// Slots in use that limits count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InUse {
    pub queue: Vec<u32>,
    pub user: FxHashMap<u32, u32>,
    pub queue_user: FxHashMap<(u16, u32), u32>,
}

impl InUse {
    /// Preempted jobs do not count: other jobs use their slots.
    pub(super) fn add(&mut self, allocation: &Allocation, plus: bool) {
        if allocation.lent {
            return;
        }
        if let Some(queue) = allocation.queue {
            let n = &mut self.queue[usize::from(queue)];
            *n = match plus {
                true => *n + allocation.slots,
                false => *n - allocation.slots,
            };
            count(
                &mut self.queue_user,
                (queue, allocation.uid),
                allocation.slots,
                plus,
            );
        }
        count(&mut self.user, allocation.uid, allocation.slots, plus);
    }
}

/// Adds slots to a counter or subtracts them, and removes the counter when it reaches zero.
fn count<K: Eq + Hash>(all: &mut FxHashMap<K, u32>, key: K, slots: u32, plus: bool) {
    match all.entry(key) {
        Entry::Occupied(mut n) if plus => *n.get_mut() += slots,
        Entry::Occupied(mut n) => {
            *n.get_mut() -= slots;
            if *n.get() == 0 {
                n.remove();
            }
        }
        Entry::Vacant(none) if plus => drop(none.insert(slots)),
        Entry::Vacant(_) => assert_eq!(slots, 0, "slots are given back that were never taken"),
    }
}

/// The allocations of all started jobs.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    records: AllocationStore,
    /// Starts that the last pass decided: job, specification of the class, slots.
    planned: Vec<(JobKey, u32, u32)>,
    /// New records need not be listed in the index until the current pass has considered all
    /// classes.
    deferred: bool,
    /// When the allocation of a job changes next. Entries of jobs that no longer exist are ignored.
    changes: BTreeSet<(Stamp, JobKey)>,
    in_use: InUse,
}

impl Allocations {
    pub(super) fn new(queues: usize) -> Allocations {
        let mut new = Allocations::default();
        new.in_use.queue = vec![0; queues];
        new
    }

    pub(super) fn get(&self, j: &JobKey) -> Option<&Allocation> {
        self.records.get(j)
    }

    pub(super) fn get_mut(&mut self, j: &JobKey) -> Option<&mut Allocation> {
        self.records.get_mut(j)
    }

    pub(super) fn contains(&self, j: &JobKey) -> bool {
        self.records.contains_key(j)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Allocation> {
        self.records.values()
    }

    /// Adds the record of a job that has none.
    pub(super) fn insert(&mut self, j: JobKey, allocation: Allocation) {
        match self.deferred {
            true => self.records.insert_later(j, allocation),
            false => drop(self.records.insert(j, allocation)),
        }
    }

    /// Replaces the record of a job that has one.
    pub(super) fn replace(&mut self, j: JobKey, allocation: Allocation) -> Option<Allocation> {
        self.records.insert(j, allocation)
    }

    pub(super) fn remove(&mut self, j: &JobKey) -> Option<Allocation> {
        self.records.remove(j)
    }

    /// Lets [`Allocations::insert`] postpone listing new records until [`Allocations::settle`].
    pub(super) fn defer(&mut self) {
        self.deferred = true;
    }

    /// Lists all postponed records, so that lookups find them.
    pub(super) fn settle(&mut self) {
        self.deferred = false;
        self.records.settle();
    }

    /// See `State::prefetch`.
    pub(super) fn prefetch(
        &self,
        works: &[JobKey],
        is_removed: &dyn Fn(&JobKey) -> bool,
        more: &mut dyn FnMut(&Allocation) -> usize,
    ) {
        self.records.prefetch(works, is_removed, more);
    }

    /// Slots in use that limits count.
    pub(super) fn in_use(&self) -> &InUse {
        &self.in_use
    }

    /// Adds the slots of a job that starts (`plus`), or subtracts those of a job that no longer
    /// holds them.
    pub(super) fn count(&mut self, allocation: &Allocation, plus: bool) {
        self.in_use.add(allocation, plus);
    }

    /// Notes that the allocation of a job changes at `at`.
    pub(super) fn note_change(&mut self, at: Stamp, j: JobKey) {
        self.changes.insert((at, j));
    }

    /// The next change of any allocation.
    pub(super) fn next_change(&self) -> Option<(Stamp, JobKey)> {
        self.changes.first().copied()
    }

    pub(super) fn drop_change(&mut self, change: (Stamp, JobKey)) {
        self.changes.remove(&change);
    }

    /// Notes that the pass decided this start.
    pub(super) fn plan_start(&mut self, j: JobKey, spec: u32, slots: u32) {
        self.planned.push((j, spec, slots));
    }

    pub(super) fn clear_planned(&mut self) {
        self.planned.clear();
    }

    pub(super) fn sort_planned(&mut self) {
        self.planned.sort_unstable_by_key(|(j, ..)| j.number());
    }

    /// Whether the job was started exactly as the last pass planned and has not changed since; its
    /// record is then still right. Must be called in the order of jobs: `next` is the position
    /// reached so far.
    pub(super) fn as_planned(
        &self,
        state: &State,
        now: Stamp,
        j: JobKey,
        next: &mut usize,
    ) -> bool {
        while self.planned.get(*next).is_some_and(|(of, ..)| *of < j) {
            *next += 1;
        }
        let entry = self.planned.get(*next).filter(|(of, ..)| *of == j);
        entry.is_some_and(|(_, spec, slots)| {
            let planned = RunFingerprint::after_start(*spec, now, *slots);
            RunFingerprint::of(state, j).is_some_and(|fingerprint| planned.predicted(&fingerprint))
        })
    }
}

impl Index<&JobKey> for Allocations {
    type Output = Allocation;

    fn index(&self, j: &JobKey) -> &Allocation {
        self.get(j).expect("started work has a record")
    }
}

/// Number of records in a page.
const PAGE: usize = 1024;

/// All records. A lookup touches two distant places in memory: the index and the record.
#[derive(Debug, Default)]
struct AllocationStore {
    index: FxHashMap<JobKey, u32>,
    /// Pages stay where they are when more are added.
    pages: Vec<Vec<Option<Allocation>>>,
    free: Vec<u32>,
    /// Records that are not in the index yet: see [`AllocationStore::insert_later`].
    unlisted: Vec<(JobKey, Allocation)>,
}

impl AllocationStore {
    fn record_at(&mut self, n: u32) -> &mut Option<Allocation> {
        &mut self.pages[n as usize / PAGE][n as usize % PAGE]
    }

    pub(crate) fn get(&self, j: &JobKey) -> Option<&Allocation> {
        let n = *self.index.get(j)? as usize;
        self.pages[n / PAGE][n % PAGE].as_ref()
    }

    pub(crate) fn get_mut(&mut self, j: &JobKey) -> Option<&mut Allocation> {
        let n = *self.index.get(j)?;
        self.record_at(n).as_mut()
    }

    /// Prefetches the records of these jobs; for a job for which `is_removed` is true, also what
    /// `more` reads of its record.
    pub(crate) fn prefetch(
        &self,
        works: &[JobKey],
        is_removed: &dyn Fn(&JobKey) -> bool,
        more: &mut dyn FnMut(&Allocation) -> usize,
    ) {
        let place = |j: &JobKey| Some((*self.index.get(j)?, is_removed(j)));
        let places: SmallVec<[_; PREFETCH_BATCH]> = works.iter().filter_map(place).collect();
        let record = |n: &u32| self.pages[*n as usize / PAGE][*n as usize % PAGE].as_ref();
        let mut sum = 0;
        for allocation in places.iter().filter_map(|(n, _)| record(n)) {
            sum ^= allocation.fingerprint.spec as usize ^ allocation.until as usize;
        }
        let removed = places.iter().filter(|(_, removed)| *removed);
        let removed: SmallVec<[_; PREFETCH_BATCH]> =
            removed.filter_map(|(n, _)| record(n)).collect();
        for allocation in &removed {
            sum ^= allocation.uid as usize ^ allocation.parts.len() ^ allocation.ident.prefetch();
        }
        for allocation in &removed {
            sum ^= more(allocation);
        }
        std::hint::black_box(sum);
    }

    pub(crate) fn contains_key(&self, j: &JobKey) -> bool {
        self.index.contains_key(j)
    }

    pub(crate) fn insert(&mut self, j: JobKey, allocation: Allocation) -> Option<Allocation> {
        if let Some(n) = self.index.get(&j).copied() {
            return self.record_at(n).replace(allocation);
        }
        let n = self.free_position();
        *self.record_at(n) = Some(allocation);
        self.index.insert(j, n);
        None
    }

    /// Adds the record of a job that has none; lookups find it after [`AllocationStore::settle`].
    pub(crate) fn insert_later(&mut self, j: JobKey, allocation: Allocation) {
        self.unlisted.push((j, allocation));
        if self.unlisted.len() >= PREFETCH_BATCH {
            self.settle();
        }
    }

    /// Adds all postponed records to the index.
    pub(crate) fn settle(&mut self) {
        let mut unlisted = std::mem::take(&mut self.unlisted);
        // The index entries are far apart in memory: all are read first, so that the reads overlap.
        let mut positions: SmallVec<[u32; PREFETCH_BATCH]> = SmallVec::new();
        let mut known = 0;
        for (j, _) in &unlisted {
            known += usize::from(self.index.contains_key(j));
            positions.push(self.free_position());
        }
        for n in &positions {
            known += usize::from(self.record_at(*n).is_some());
        }
        std::hint::black_box(known);
        for ((j, allocation), n) in unlisted.drain(..).zip(positions) {
            *self.record_at(n) = Some(allocation);
            self.index.insert(j, n);
        }
        self.unlisted = unlisted;
    }

    /// Returns a free position for a new record.
    fn free_position(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            if self.pages.last().is_none_or(|page| page.len() == PAGE) {
                self.pages.push(Vec::with_capacity(PAGE));
            }
            let full = (self.pages.len() - 1) * PAGE;
            let last = self.pages.last_mut().expect("just made");
            last.push(None);
            u32::try_from(full + last.len() - 1).expect("fewer than 2^32 pieces of work run")
        })
    }

    pub(crate) fn remove(&mut self, j: &JobKey) -> Option<Allocation> {
        let n = self.index.remove(j)?;
        self.free.push(n);
        self.record_at(n).take()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Allocation> {
        self.pages.iter().flatten().flatten()
    }
}
