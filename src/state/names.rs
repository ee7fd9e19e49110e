//! Jobs by owner and name, so that a name given to `-w` or `-J` does not walk all jobs. Owns the
//! order of that index; the reader asks the job itself for the full name of a candidate.

use super::chunked_set::ChunkedSet;
use crate::text::glob::Glob;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// Number of first bytes of a name by which the index is sorted.
const FRONT: usize = 8;

/// A job's place in the index of its owner: jobs whose names begin alike are adjacent, and among
/// them those with the same name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct NameKey {
    prefix: u64,
    hash: u32,
    id: u32,
}

/// Every job by its owner and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// By uid; no set is empty.
    users: FxHashMap<u32, ChunkedSet<NameKey>>,
}

fn prefix_number(name: &[u8], fill: u8) -> u64 {
    let mut bytes = [fill; FRONT];
    let n = name.len().min(FRONT);
    bytes[..n].copy_from_slice(&name[..n]);
    u64::from_be_bytes(bytes)
}

fn hash(name: &str) -> u32 {
    let mut hasher = FxHasher::default();
    name.hash(&mut hasher);
    (hasher.finish() >> 32) as u32
}

fn key_of(name: &str, id: u32) -> NameKey {
    let (prefix, hash) = (prefix_number(name.as_bytes(), 0), hash(name));
    NameKey { prefix, hash, id }
}

impl Names {
    pub(super) fn add(&mut self, uid: u32, name: &str, id: u32) {
        self.users.entry(uid).or_default().insert(key_of(name, id));
    }

    pub(super) fn remove(&mut self, uid: u32, name: &str, id: u32) {
        let Some(keys) = self.users.get_mut(&uid) else {
            return;
        };
        keys.remove(key_of(name, id));
        if keys.is_empty() {
            self.users.remove(&uid);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.users.values().map(ChunkedSet::len).sum()
    }

    pub(super) fn has(&self, uid: u32, name: &str, id: u32) -> bool {
        let keys = self.users.get(&uid);
        keys.is_some_and(|keys| keys.contains(key_of(name, id)))
    }

    /// Jobs of `uid` that may have a matching name; all that do are among them.
    pub(super) fn candidates(&self, uid: u32, glob: &Glob<'_>) -> impl Iterator<Item = u32> {
        let (low, high) = match (glob.exact(), glob.beginning()) {
            (Some(name), _) => (key_of(name, 0), key_of(name, u32::MAX)),
            (None, begin) => {
                let begin = begin.as_bytes();
                let end = |fill, n| NameKey {
                    prefix: prefix_number(begin, fill),
                    hash: n,
                    id: n,
                };
                (end(0, 0), end(u8::MAX, u32::MAX))
            }
        };
        let keys = self.users.get(&uid).into_iter();
        keys.flat_map(move |keys| keys.range(low, high))
            .map(|key| key.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &Names, uid: u32, pattern: &str) -> Vec<u32> {
        let mut ids: Vec<u32> = names.candidates(uid, &Glob::new(pattern)).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn a_name_leads_to_its_jobs_and_few_others() {
        let mut names = Names::default();
        for id in 1..=1000 {
            names.add(5, &format!("step-{id}"), id);
            names.add(6, "step-7", 1000 + id);
        }
        assert_eq!(found(&names, 5, "step-7"), [7]);
        assert_eq!(found(&names, 6, "step-7").len(), 1000);
        assert_eq!(
            found(&names, 5, "step-99*"),
            [99, 990, 991, 992, 993, 994, 995, 996, 997, 998, 999]
        );
        assert_eq!(found(&names, 5, "*7").len(), 1000);
        assert_eq!(found(&names, 5, "other"), [0u32; 0]);
        names.remove(5, "step-7", 7);
        assert_eq!(found(&names, 5, "step-7"), [0u32; 0]);
    }
}
