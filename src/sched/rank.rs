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
    /// Hosts that limits keep from these jobs until something is given back, and since when.
    aside: Vec<u32>,
    aside_since: u64,
    /// The demand it was made for.
    demand: u64,
    /// By host: the refresh that last looked at it. A host that changed often is looked at once.
    looked: Vec<u32>,
    round: u32,
}

/// Whom a ranking is for: jobs that limits on hosts concern alike (0 = no limit does).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alike {
    pub on_hosts: u32,
    /// When one of these limits was last eased, in positions of the log of changed hosts.
    pub eased: u64,
}

impl Ranking {
    /// Brings the ranking of a part up to date. True when some host may serve now that did not
    /// before.
    pub fn refresh(
        &mut self,
        shape: &Shape,
        (way, part): (usize, usize),
        view: &View<'_>,
        eased: u64,
    ) -> bool {
        let end = view.books.now();
        if std::mem::replace(&mut self.demand, view.demand.version) != view.demand.version {
            self.seen = None;
        }
        let changed = self.seen.and_then(|seen| view.books.changed(seen));
        let small = self.heap.len() <= 4 * view.books.len() + 64;
        let candidate = |at| shape.candidate((way, part), view, at);
        let news = match changed {
            Some(changed) if small && changed.len() <= view.books.len() => {
                let before = self.heap.len();
                self.looked.resize(view.books.len(), 0);
                self.round += 1;
                for at in changed {
                    let at = *at as usize;
                    if std::mem::replace(&mut self.looked[at], self.round) != self.round {
                        self.heap.extend(candidate(at));
                    }
                }
                if eased > self.aside_since {
                    let aside = std::mem::take(&mut self.aside);
                    let back = aside.into_iter().map(|at| at as usize);
                    self.heap.extend(back.filter_map(candidate));
                }
                self.heap.len() > before
            }
            _ => {
                self.heap = (0..view.books.len()).filter_map(candidate).collect();
                self.aside.clear();
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

    /// Limits keep this host from these jobs for now.
    pub fn put_aside(&mut self, at: usize, books: &Balances) {
        if self.aside.is_empty() {
            self.aside_since = books.now();
        }
        self.aside.push(at as u32);
    }

    pub fn put_back(&mut self, candidates: impl IntoIterator<Item = Candidate>) {
        self.heap.extend(candidates);
    }
}
