//! Hosts that could serve one part of a request, best first: preference, the keys of `order[]`,
//! packing or spreading, the order of cb.yaml. Kept fresh from the log of changed hosts; never
//! books anything.

use super::balance::Balances;
use super::shape::{Shape, View};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A host that could serve; the greatest is tried first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Candidate {
    pub preference: u32,
    pub keys: Reverse<SmallVec<[i64; 1]>>,
    pub fullness: i64,
    /// The last tie-break: the order of cb.yaml.
    pub at: Reverse<u32>,
    pub version: u32,
}

impl Candidate {
    pub fn host(&self) -> usize {
        self.at.0 as usize
    }
}

/// Hosts that could serve a part, best first. Entries of hosts that changed since are stale and
/// passed over; the log of changes brings fresh ones.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    heap: BinaryHeap<Candidate>,
    /// Position in the log of changed hosts up to which the ranking is fresh.
    seen: Option<u64>,
}

impl Ranking {
    /// Brings the ranking of a part up to date. True when some host may serve now that did not
    /// before.
    pub fn refresh(&mut self, shape: &Shape, (way, part): (usize, usize), view: &View<'_>) -> bool {
        let end = view.books.now();
        let changed = self.seen.and_then(|seen| view.books.changed(seen));
        let small = self.heap.len() <= 4 * view.books.len() + 64;
        let candidate = |at| shape.candidate((way, part), view, at);
        let news = match changed {
            Some(changed) if small && changed.len() <= view.books.len() => {
                let before = self.heap.len();
                for at in changed {
                    self.heap.extend(candidate(*at as usize));
                }
                self.heap.len() > before
            }
            _ => {
                self.heap = (0..view.books.len()).filter_map(candidate).collect();
                !self.heap.is_empty()
            }
        };
        self.seen = Some(end);
        news
    }

    /// The best host, taken out. Stale and repeated entries are dropped.
    pub fn pop(&mut self, books: &Balances) -> Option<Candidate> {
        while let Some(best) = self.heap.pop() {
            if books.get(best.host()).version == best.version {
                // A host that changed twice between two looks has two fresh entries.
                while self.heap.peek() == Some(&best) {
                    self.heap.pop();
                }
                return Some(best);
            }
        }
        None
    }

    pub fn put_back(&mut self, candidates: impl IntoIterator<Item = Candidate>) {
        self.heap.extend(candidates);
    }
}
