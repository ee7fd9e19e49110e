//! Bytes that attempts have received and sent over TCP on this host, summed up from one list of
//! connections to the next: the bytes of a closed connection stay counted. Values only: it lists no
//! connections and looks at no process.

use crate::model::AttemptId;
use crate::sys::sockets::Connection;
use std::collections::{BTreeMap, HashMap};

/// How many times a connection is searched among the descriptors of jobs' processes before it
/// counts as belonging to no job. A job's shepherd may become known after the job has connected.
const LOOKUPS_MAX: u8 = 3;

/// Bytes received and sent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Bytes {
    pub received: u64,
    pub sent: u64,
}

impl Bytes {
    fn each(self, other: Bytes, of: fn(u64, u64) -> u64) -> Bytes {
        Bytes {
            received: of(self.received, other.received),
            sent: of(self.sent, other.sent),
        }
    }

    fn plus(self, more: Bytes) -> Bytes {
        self.each(more, u64::saturating_add)
    }
}

#[derive(Debug)]
struct ConnectionRecord {
    owner: Option<AttemptId>,
    inode: u64,
    lookups: u8,
    bytes: Bytes,
}

/// The sums of one attempt.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct AttemptBytes {
    /// Bytes of closed connections.
    pub(super) closed: Bytes,
    /// Bytes of the connections in the last list.
    live: Bytes,
    /// Bytes that were counted before this program began.
    baseline: Bytes,
}

impl AttemptBytes {
    /// The sum as it was before this program began.
    pub(super) fn restored(closed: Bytes, baseline: Bytes) -> AttemptBytes {
        let live = Bytes::default();
        AttemptBytes {
            closed,
            live,
            baseline,
        }
    }

    /// All bytes that the attempt has received and sent.
    pub(super) fn all(self) -> Bytes {
        self.closed.plus(self.live).each(self.baseline, u64::max)
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct NetCounts {
    /// The connections of the last list, by cookie.
    connections: HashMap<u64, ConnectionRecord>,
    pub sums: BTreeMap<AttemptId, AttemptBytes>,
}

impl NetCounts {
    /// Takes the list of all current connections. Returns true if the owner of some of them is not
    /// known.
    pub(super) fn note(&mut self, all: &[Connection]) -> bool {
        let mut before = std::mem::take(&mut self.connections);
        self.connections.reserve(all.len());
        for found in all {
            let bytes = Bytes {
                received: found.received,
                sent: found.sent,
            };
            let record = before.remove(&found.cookie).unwrap_or(ConnectionRecord {
                owner: None,
                inode: found.inode,
                // No process has the socket open.
                lookups: if found.inode == 0 { LOOKUPS_MAX } else { 0 },
                bytes,
            });
            self.connections
                .insert(found.cookie, ConnectionRecord { bytes, ..record });
        }
        for closed in before.into_values() {
            if let Some(sum) = closed.owner.and_then(|a| self.sums.get_mut(&a)) {
                sum.closed = sum.closed.plus(closed.bytes);
            }
        }
        self.add_up();
        let mut all = self.connections.values();
        all.any(|record| record.owner.is_none() && record.lookups < LOOKUPS_MAX)
    }

    /// Takes the sockets that processes of attempts have open. The first owner of a connection
    /// stays its owner.
    pub(super) fn claim(&mut self, open: &HashMap<u64, AttemptId>) {
        for record in self.connections.values_mut() {
            if record.owner.is_none() && record.lookups < LOOKUPS_MAX {
                record.owner = open.get(&record.inode).copied();
                record.lookups += 1;
            }
        }
        self.add_up();
    }

    fn add_up(&mut self) {
        for sum in self.sums.values_mut() {
            sum.live = Bytes::default();
        }
        for record in self.connections.values() {
            if let Some(a) = record.owner {
                let sum = self.sums.entry(a).or_default();
                sum.live = sum.live.plus(record.bytes);
            }
        }
    }

    /// Forgets attempts. The rest of their connections counts for no job.
    pub(super) fn retain(&mut self, keep: impl Fn(AttemptId) -> bool) {
        self.sums.retain(|a, _| keep(*a));
        for record in self.connections.values_mut() {
            if record.owner.is_some_and(|a| !keep(a)) {
                (record.owner, record.lookups) = (None, LOOKUPS_MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::first_attempt as a;

    /// A connection whose inode is its cookie plus 100.
    fn open(cookie: u64, received: u64, sent: u64) -> Connection {
        Connection {
            cookie,
            inode: cookie + 100,
            received,
            sent,
        }
    }

    fn all(counts: &NetCounts, id: u32) -> (u64, u64) {
        let sum = counts.sums.get(&a(id)).copied().unwrap_or_default().all();
        (sum.received, sum.sent)
    }

    #[test]
    fn what_a_closed_connection_carried_stays_counted() {
        let mut counts = NetCounts::default();
        assert!(counts.note(&[open(1, 10, 20), open(2, 1, 1)]));
        counts.claim(&HashMap::from([(101, a(1))]));
        assert_eq!(all(&counts, 1), (10, 20));
        counts.note(&[open(1, 15, 25), open(3, 100, 200)]);
        counts.claim(&HashMap::from([(101, a(1)), (103, a(1))]));
        assert_eq!(all(&counts, 1), (115, 225));
        counts.note(&[open(3, 100, 300)]);
        assert_eq!(all(&counts, 1), (115, 325));
        // Another socket with the same inode is another connection.
        let other = Connection {
            inode: 101,
            ..open(4, 5, 5)
        };
        counts.note(&[other]);
        counts.claim(&HashMap::from([(101, a(1))]));
        assert_eq!(all(&counts, 1), (120, 330));
    }

    #[test]
    fn a_connection_belongs_to_the_first_attempt_that_has_it() {
        let mut counts = NetCounts::default();
        counts.note(&[open(1, 10, 20)]);
        counts.claim(&HashMap::from([(101, a(1))]));
        assert!(!counts.note(&[open(1, 11, 21)]));
        counts.claim(&HashMap::from([(101, a(2))]));
        assert_eq!((all(&counts, 1), all(&counts, 2)), ((11, 21), (0, 0)));
        counts.retain(|of| of != a(1));
        assert!(
            !counts.note(&[open(1, 12, 22)]),
            "it is not looked for again"
        );
        assert_eq!(counts.sums.len(), 0);
    }

    #[test]
    fn connections_of_no_job_are_looked_for_a_few_times_only() {
        let mut counts = NetCounts::default();
        let orphan = Connection {
            inode: 0,
            ..open(9, 1, 1)
        };
        assert!(!counts.note(&[orphan]));
        for _ in 0..LOOKUPS_MAX {
            assert!(counts.note(&[open(1, 10, 20)]));
            counts.claim(&HashMap::new());
        }
        assert!(!counts.note(&[open(1, 10, 20)]));
        counts.claim(&HashMap::from([(101, a(1))]));
        assert_eq!(all(&counts, 1), (0, 0));
        // The usual job without connections leaves no entry.
        assert!(counts.sums.is_empty());
    }

    #[test]
    fn sums_of_before_a_restart_never_fall() {
        let mut counts = NetCounts::default();
        let bytes = |received, sent| Bytes { received, sent };
        let sum = AttemptBytes::restored(bytes(7, 7), bytes(1000, 10));
        counts.sums.insert(a(1), sum);
        assert_eq!(all(&counts, 1), (1000, 10));
        counts.note(&[open(1, 500, 500)]);
        counts.claim(&HashMap::from([(101, a(1))]));
        assert_eq!(all(&counts, 1), (1000, 507));
        counts.note(&[open(1, 2000, 500)]);
        assert_eq!(all(&counts, 1), (2007, 507));
    }
}
