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
    /// Preempted work does not count: others have its slots.
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

/// Adds slots to a counter or subtracts them; a counter of zero is dropped.
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

/// What all started work holds.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    records: AllocationStore,
    /// What the last pass decided to start: specification of the class, slots.
    planned: Vec<(JobKey, u32, u32)>,
    /// New records need not be found before the present pass has considered all classes.
    deferred: bool,
    /// When what work holds changes next; entries of work that is gone are ignored.
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

    /// Adds the record of work that has none.
    pub(super) fn insert(&mut self, j: JobKey, allocation: Allocation) {
        match self.deferred {
            true => self.records.insert_later(j, allocation),
            false => drop(self.records.insert(j, allocation)),
        }
    }

    /// Replaces the record of work that has one.
    pub(super) fn replace(&mut self, j: JobKey, allocation: Allocation) -> Option<Allocation> {
        self.records.insert(j, allocation)
    }

    pub(super) fn remove(&mut self, j: &JobKey) -> Option<Allocation> {
        self.records.remove(j)
    }

    /// From now on new records need not be found, until [`Allocations::settle`].
    pub(super) fn defer(&mut self) {
        self.deferred = true;
    }

    /// Makes all records be found.
    pub(super) fn settle(&mut self) {
        self.deferred = false;
        self.records.settle();
    }

    /// See `State::prefetch`.
    pub(super) fn prefetch(
        &self,
        works: &[JobKey],
        go: &dyn Fn(&JobKey) -> bool,
        more: &mut dyn FnMut(&Allocation) -> usize,
    ) {
        self.records.prefetch(works, go, more);
    }

    /// Slots in use that limits count.
    pub(super) fn in_use(&self) -> &InUse {
        &self.in_use
    }

    /// Counts slots of work that starts (`plus`) or ends to hold them.
    pub(super) fn count(&mut self, allocation: &Allocation, plus: bool) {
        self.in_use.add(allocation, plus);
    }

    /// What a piece of work holds changes at that time.
    pub(super) fn note_change(&mut self, at: Stamp, j: JobKey) {
        self.changes.insert((at, j));
    }

    /// The next change of what some work holds.
    pub(super) fn next_change(&self) -> Option<(Stamp, JobKey)> {
        self.changes.first().copied()
    }

    pub(super) fn drop_change(&mut self, change: (Stamp, JobKey)) {
        self.changes.remove(&change);
    }

    /// The pass decided to start this.
    pub(super) fn plan_start(&mut self, j: JobKey, spec: u32, slots: u32) {
        self.planned.push((j, spec, slots));
    }

    pub(super) fn clear_planned(&mut self) {
        self.planned.clear();
    }

    pub(super) fn sort_planned(&mut self) {
        self.planned.sort_unstable_by_key(|(j, ..)| j.number());
    }

    /// The work is one of the last pass's starts, carried out, and nothing more happened to it: its
    /// record is right. Called in the order of jobs; `next` is how far that got.
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
        let planned = self.planned.get(*next).filter(|(of, ..)| *of == j);
        planned.is_some_and(|(_, spec, slots)| {
            let foreseen = RunFingerprint::to_be(*spec, now, *slots);
            RunFingerprint::of(state, j).is_some_and(|sign| foreseen.foresaw(&sign))
        })
    }
}

impl Index<&JobKey> for Allocations {
    type Output = Allocation;

    fn index(&self, j: &JobKey) -> &Allocation {
        self.get(j).expect("started work has a record")
    }
}

/// Records in a page.
const PAGE: usize = 1024;

/// All records. Looking one up touches two places far away in memory, the index and the record.
#[derive(Debug, Default)]
struct AllocationStore {
    index: FxHashMap<JobKey, u32>,
    /// Pages do not move when there are more of them.
    pages: Vec<Vec<Option<Allocation>>>,
    free: Vec<u32>,
    /// Not in their places yet: see [`AllocationStore::insert_later`].
    unlisted: Vec<(JobKey, Allocation)>,
}

impl AllocationStore {
    fn slot(&mut self, n: u32) -> &mut Option<Allocation> {
        &mut self.pages[n as usize / PAGE][n as usize % PAGE]
    }

    pub(crate) fn get(&self, j: &JobKey) -> Option<&Allocation> {
        let n = *self.index.get(j)? as usize;
        self.pages[n / PAGE][n % PAGE].as_ref()
    }

    pub(crate) fn get_mut(&mut self, j: &JobKey) -> Option<&mut Allocation> {
        let n = *self.index.get(j)?;
        self.slot(n).as_mut()
    }

    /// Prefetches the records of these; for those that `go`, also what `more` reads of each.
    pub(crate) fn prefetch(
        &self,
        works: &[JobKey],
        go: &dyn Fn(&JobKey) -> bool,
        more: &mut dyn FnMut(&Allocation) -> usize,
    ) {
        let place = |j: &JobKey| Some((*self.index.get(j)?, go(j)));
        let places: SmallVec<[_; PREFETCH_BATCH]> = works.iter().filter_map(place).collect();
        let record = |n: &u32| self.pages[*n as usize / PAGE][*n as usize % PAGE].as_ref();
        let mut sum = 0;
        for allocation in places.iter().filter_map(|(n, _)| record(n)) {
            sum ^= allocation.sign.spec as usize ^ allocation.until as usize;
        }
        let gone = places.iter().filter(|(_, gone)| *gone);
        let gone: SmallVec<[_; PREFETCH_BATCH]> = gone.filter_map(|(n, _)| record(n)).collect();
        for allocation in &gone {
            sum ^= allocation.uid as usize ^ allocation.parts.len() ^ allocation.ident.prefetch();
        }
        for allocation in &gone {
            sum ^= more(allocation);
        }
        std::hint::black_box(sum);
    }

    pub(crate) fn contains_key(&self, j: &JobKey) -> bool {
        self.index.contains_key(j)
    }

    pub(crate) fn insert(&mut self, j: JobKey, allocation: Allocation) -> Option<Allocation> {
        if let Some(n) = self.index.get(&j).copied() {
            return self.slot(n).replace(allocation);
        }
        let n = self.room();
        *self.slot(n) = Some(allocation);
        self.index.insert(j, n);
        None
    }

    /// Adds the record of work that has none, to be found after [`AllocationStore::settle`].
    pub(crate) fn insert_later(&mut self, j: JobKey, allocation: Allocation) {
        self.unlisted.push((j, allocation));
        if self.unlisted.len() >= PREFETCH_BATCH {
            self.settle();
        }
    }

    /// Makes all records be found.
    pub(crate) fn settle(&mut self) {
        let mut unlisted = std::mem::take(&mut self.unlisted);
        // Their places are far apart in memory: all are read first, so that the reads overlap.
        let mut rooms: SmallVec<[u32; PREFETCH_BATCH]> = SmallVec::new();
        let mut known = 0;
        for (j, _) in &unlisted {
            known += usize::from(self.index.contains_key(j));
            rooms.push(self.room());
        }
        for n in &rooms {
            known += usize::from(self.slot(*n).is_some());
        }
        std::hint::black_box(known);
        for ((j, allocation), n) in unlisted.drain(..).zip(rooms) {
            *self.slot(n) = Some(allocation);
            self.index.insert(j, n);
        }
        self.unlisted = unlisted;
    }

    /// The place of a new record.
    fn room(&mut self) -> u32 {
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
        self.slot(n).take()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Allocation> {
        self.pages.iter().flatten().flatten()
    }
}
