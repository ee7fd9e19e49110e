//! The last reported usage of the hosts of attempts on several hosts: the usage of the job is the
//! sum. Owns what is forgotten when an attempt is over; a new leader receives it again.

use crate::model::AttemptId;
use crate::record::report::Usage;
use crate::state::HostId;
use std::collections::BTreeMap;

/// Upper bound against a leak: far more than the attempts that run at a time.
const ATTEMPTS_MAX: usize = 200_000;

#[derive(Default)]
struct HostUsages {
    /// Usage on the host that runs the command.
    first: Usage,
    others: BTreeMap<HostId, Usage>,
}

/// See the head of this file.
#[derive(Default)]
pub(in crate::turn) struct PartUsage {
    attempts: BTreeMap<AttemptId, HostUsages>,
}

impl PartUsage {
    fn of(&mut self, a: AttemptId) -> &mut HostUsages {
        if self.attempts.len() >= ATTEMPTS_MAX {
            self.attempts.pop_first();
        }
        self.attempts.entry(a).or_default()
    }

    pub(crate) fn note_first(&mut self, a: AttemptId, u: Usage) {
        self.of(a).first = u;
    }

    pub(crate) fn note(&mut self, a: AttemptId, host: HostId, u: Usage) {
        self.of(a).others.insert(host, u);
    }

    /// The sum over all hosts.
    pub(crate) fn total(&self, a: AttemptId) -> Option<Usage> {
        let mut sum = self.attempts.get(&a)?.first.clone();
        self.add_parts(a, &mut sum);
        Some(sum)
    }

    /// Adds the usage of the hosts after the first.
    pub(crate) fn add_parts(&self, a: AttemptId, sum: &mut Usage) {
        let hosts = self.attempts.get(&a);
        for other in hosts.into_iter().flat_map(|hosts| hosts.others.values()) {
            sum.note_maxmem_of_host(other.maxmem_kb);
            sum.add(other);
        }
    }

    /// Whether any host has reported usage of it.
    pub(crate) fn knows(&self, a: AttemptId) -> bool {
        self.attempts.contains_key(&a)
    }

    /// What the hosts after the first reported.
    pub(crate) fn parts(&self, a: AttemptId) -> impl Iterator<Item = (HostId, &Usage)> {
        let hosts = self.attempts.get(&a);
        let all = hosts.into_iter().flat_map(|hosts| &hosts.others);
        all.map(|(id, u)| (*id, u))
    }

    /// Forgets an attempt that is over.
    pub(crate) fn end(&mut self, a: AttemptId) {
        self.attempts.remove(&a);
    }
}
