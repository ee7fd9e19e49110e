//! A sorted set in chunks, for what is mostly taken from its front: the jobs of a class in their
//! order. Entries lie side by side, so walking on from one costs nothing, and the front moves
//! without touching the rest. Never knows what it holds.

use smallvec::SmallVec;
use std::collections::VecDeque;

/// Maximum number of entries of a chunk.
const CHUNK: usize = 512;
/// A chunk frees memory when it holds less than one in this many of the entries for which it has
/// room.
const SPARSE: usize = 4;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct ChunkedSet<T> {
    /// In order; none is empty.
    chunks: SmallVec<[VecDeque<T>; 1]>,
}

impl<T> Default for ChunkedSet<T> {
    fn default() -> ChunkedSet<T> {
        let chunks = SmallVec::new();
        ChunkedSet { chunks }
    }
}

impl<T: Ord + Copy> ChunkedSet<T> {
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub fn first(&self) -> Option<T> {
        self.chunks.first()?.front().copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = T> {
        self.chunks.iter().flatten().copied()
    }

    /// A set of sorted entries without duplicates.
    pub fn of(sorted: impl Iterator<Item = T>) -> ChunkedSet<T> {
        let mut chunks: SmallVec<[VecDeque<T>; 1]> = SmallVec::new();
        for entry in sorted {
            match chunks.last_mut() {
                Some(last) if last.len() < CHUNK => last.push_back(entry),
                _ => chunks.push(VecDeque::from([entry])),
            }
        }
        ChunkedSet { chunks }
    }

    pub fn len(&self) -> usize {
        self.chunks.iter().map(VecDeque::len).sum()
    }

    /// The entry with `n` entries before it. Skips whole chunks.
    pub fn nth(&self, mut n: usize) -> Option<T> {
        for chunk in &self.chunks {
            match chunk.get(n) {
                Some(entry) => return Some(*entry),
                None => n -= chunk.len(),
            }
        }
        None
    }

    /// How many entries come before `entry`, which need not be in the set.
    pub fn rank(&self, entry: T) -> usize {
        let n = self.chunk_of(|last| *last < entry);
        let before: usize = self.chunks.iter().take(n).map(VecDeque::len).sum();
        let chunk = self.chunks.get(n);
        before + chunk.map_or(0, |chunk| chunk.partition_point(|e| *e < entry))
    }

    /// The first entry after `entry`, which need not be in the set. Fast near the beginning.
    pub fn after(&self, entry: T) -> Option<T> {
        let first = self.chunks.first()?;
        if first.back().is_some_and(|last| *last > entry) {
            let mut end = 1;
            while end < first.len() && first[end] <= entry {
                end *= 2;
            }
            // The entry is in the last doubling.
            let (mut low, mut high) = (end / 2, end.min(first.len()));
            while low < high {
                let half = (low + high) / 2;
                match first[half] <= entry {
                    true => low = half + 1,
                    false => high = half,
                }
            }
            return first.get(low).copied();
        }
        let n = self.chunk_of(|last| *last <= entry);
        let chunk = self.chunks.get(n)?;
        chunk.get(chunk.partition_point(|e| *e <= entry)).copied()
    }

    pub fn contains(&self, entry: T) -> bool {
        self.range(entry, entry).next().is_some()
    }

    /// The entries from `low` to `high`, both included.
    pub fn range(&self, low: T, high: T) -> impl Iterator<Item = T> {
        let chunks = self.chunks.iter().skip(self.chunk_of(|last| *last < low));
        let all = chunks.enumerate().flat_map(move |(n, chunk)| {
            let before = match n {
                0 => chunk.partition_point(|entry| *entry < low),
                _ => 0,
            };
            chunk.range(before..)
        });
        all.copied().take_while(move |entry| *entry <= high)
    }

    /// The first chunk whose last entry does not satisfy `before`.
    fn chunk_of(&self, before: impl Fn(&T) -> bool) -> usize {
        let last = |chunk: &VecDeque<T>| chunk.back().is_some_and(&before);
        self.chunks.partition_point(last)
    }

    /// Returns false if it was already there.
    pub fn insert(&mut self, entry: T) -> bool {
        let n = self.chunk_of(|last| *last < entry);
        let count = self.chunks.len();
        // An entry after all others is added to the last chunk, or starts a new one.
        let n = match n == count && count > 0 && self.chunks[count - 1].len() < CHUNK {
            true => count - 1,
            false => n,
        };
        let Some(chunk) = self.chunks.get_mut(n) else {
            self.chunks.push(VecDeque::from([entry]));
            return true;
        };
        let Err(at) = chunk.binary_search(&entry) else {
            return false;
        };
        chunk.insert(at, entry);
        if chunk.len() > CHUNK {
            let rest = chunk.split_off(CHUNK / 2);
            self.chunks.insert(n + 1, rest);
        }
        true
    }

    /// Returns false if it was not there.
    pub fn remove(&mut self, entry: T) -> bool {
        let n = match self.first() == Some(entry) {
            true => 0,
            false => self.chunk_of(|last| *last < entry),
        };
        let Some(chunk) = self.chunks.get_mut(n) else {
            return false;
        };
        if chunk.front() == Some(&entry) {
            chunk.pop_front();
        } else if let Ok(at) = chunk.binary_search(&entry) {
            chunk.remove(at);
        } else {
            return false;
        }
        if chunk.is_empty() {
            self.chunks.remove(n);
        } else if chunk.len() * SPARSE < chunk.capacity() {
            chunk.shrink_to(chunk.len() * 2);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SplitMix64;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_sorted_set() {
        let (mut chunked, mut set, mut rng) =
            (ChunkedSet::default(), BTreeSet::new(), SplitMix64::new(5));
        for round in 0..60_000u32 {
            let n = rng.below(5000) as u32;
            match (round / 10_000 % 2, rng.below(4)) {
                (0, 0..=2) | (1, 0) => assert_eq!(chunked.insert(n), set.insert(n)),
                (1, 1) => {
                    if let Some(first) = chunked.first() {
                        assert!(chunked.remove(first) && set.remove(&first));
                    }
                }
                _ => assert_eq!(chunked.remove(n), set.remove(&n)),
            }
            assert_eq!(chunked.first(), set.first().copied());
            assert_eq!(chunked.is_empty(), set.is_empty());
            let other = n.wrapping_mul(7) % 5000;
            assert_eq!(chunked.after(other), set.range(other + 1..).next().copied());
            if round % 500 == 0 {
                let rank = set.range(..other).count();
                assert_eq!((chunked.rank(other), chunked.len()), (rank, set.len()));
                assert_eq!(chunked.nth(rank), set.range(other..).next().copied());
                assert_eq!(chunked.nth(set.len()), None);
                let high = other + rng.below(1000) as u32;
                let part = chunked.range(other, high);
                assert!(part.eq(set.range(other..=high).copied()));
                assert_eq!(chunked.contains(other), set.contains(&other));
                let again = ChunkedSet::of(set.iter().copied());
                assert!(again.iter().eq(chunked.iter()));
            }
            assert!(
                chunked
                    .chunks
                    .iter()
                    .all(|c| !c.is_empty() && c.len() <= CHUNK)
            );
        }
        assert!(chunked.iter().eq(set.iter().copied()));
    }

    #[test]
    fn what_comes_in_order_fills_its_chunks() {
        let mut chunked = ChunkedSet::default();
        (0..10 * CHUNK).for_each(|n| assert!(chunked.insert(n)));
        assert_eq!(chunked.chunks.len(), 10);
        assert!(!chunked.insert(3));
        for n in 0..10 * CHUNK {
            assert_eq!(chunked.first(), Some(n));
            assert_eq!(chunked.after(n), (n + 1 < 10 * CHUNK).then_some(n + 1));
            assert!(chunked.remove(n));
        }
        assert!(chunked.is_empty() && chunked.after(0).is_none());
    }

    #[test]
    fn a_chunk_with_few_entries_left_has_room_for_few() {
        let mut chunked = ChunkedSet::default();
        (0..CHUNK).for_each(|n| assert!(chunked.insert(n)));
        (5..CHUNK).for_each(|n| assert!(chunked.remove(n)));
        assert!(chunked.chunks[0].capacity() <= 32);
    }
}
