//! Ends of parallel jobs that are kept until nothing of the job is left on its hosts, and until it
//! is known whether another host was lost.

use crate::model::{AttemptId, Mono};
use crate::record::report::Ended;
use crate::state::HostId;
use std::collections::{BTreeMap, BTreeSet};

/// Ends that are kept, by attempt.
#[derive(Default)]
pub(in crate::turn) struct HeldEnds {
    pub ends: BTreeMap<AttemptId, HeldEnd>,
    /// The last records of report files that are to be acknowledged when nothing is kept, by host:
    /// part and number.
    pub unacknowledged: BTreeMap<String, (u64, u64)>,
}

/// An end, and the host that reported it.
pub(in crate::turn) struct HeldEnd {
    pub host: String,
    pub e: Ended,
    /// When it was received.
    pub since: Mono,
    /// It may be the consequence of the loss of another host.
    pub consequence: bool,
    /// As in `Turn::ended`; false: no host reported it.
    pub confirmed: bool,
    /// Hosts that have not reported yet that nothing of the attempt is left there.
    pub left: BTreeSet<HostId>,
}

impl HeldEnds {
    /// Whether the end of this attempt is kept: its hosts were ordered to end what is left of it.
    pub(crate) fn contains(&self, a: AttemptId) -> bool {
        self.ends.contains_key(&a)
    }

    /// Notes that nothing of the attempt is left on a host.
    pub(crate) fn part_over(&mut self, a: AttemptId, host: HostId) {
        if let Some(held) = self.ends.get_mut(&a) {
            held.left.remove(&host);
        }
    }

    /// The attempts of which something may be left on a host.
    pub(crate) fn left_on(&self, host: HostId) -> impl Iterator<Item = AttemptId> {
        let left = move |(_, held): &(&AttemptId, &HeldEnd)| held.left.contains(&host);
        self.ends.iter().filter(left).map(|(a, _)| *a)
    }

    pub(crate) fn holds_some_of(&self, host: &str) -> bool {
        self.ends.values().any(|held| held.host == host)
    }
}
