//! Amounts that several hosts share: licences, the bandwidth of a file system. Each is counted over
//! all its hosts, like a limit that applies only to jobs that reserve it. Owns which hosts share
//! which amount; the counters are those of limits.

use super::{Kind, Quotas, Rule, UNLIMITED};
use crate::config::{Dimension, HostSet, Quota};
use crate::sched::host_usage::ResourceId;
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};

/// Maximum number of shared amounts; hosts of further ones are counted with the first one of their
/// resource.
const POOLS_MAX: usize = 4096;

/// Shared amounts, and the hosts that have them.
#[derive(Debug, Default)]
pub(super) struct Pools {
    list: Vec<Pool>,
    /// By resource and host: the position in the list.
    of_host: HashMap<(ResourceId, u32), usize>,
    /// Resources that some identity counts.
    counted: BTreeSet<ResourceId>,
    outdated: bool,
}

#[derive(Debug)]
struct Pool {
    res: ResourceId,
    /// The source that reports it.
    source: String,
    rule: u16,
}

/// A host's amount of a shared resource.
#[derive(Clone, Copy, Debug)]
pub struct SharedAmount<'a> {
    /// All hosts with the same source share one amount.
    pub source: &'a str,
    /// Thousandths.
    pub amount: i64,
    /// It never changes: cb.yaml states it.
    pub fixed: bool,
}

impl Quotas {
    /// Sets the amount that a host shares, or that it shares none. `idle`: no job there holds any
    /// of it; `at`: the position in the log of changed hosts.
    pub fn set_shared_amount(
        &mut self,
        (res, name): (ResourceId, &str),
        host: u32,
        shared: Option<SharedAmount<'_>>,
        (idle, at): (bool, u64),
    ) {
        let before = self.pools.of_host.get(&(res, host)).copied();
        let Some(shared) = shared else {
            if let Some(old) = before {
                self.leave(old, host, idle);
                self.pools.of_host.remove(&(res, host));
            }
            return;
        };
        let pool = self.pool(res, name, &shared);
        if before != Some(pool) {
            if let Some(old) = before {
                self.leave(old, host, idle);
            }
            self.pools.outdated |= !idle;
            let rule = &mut self.rules[usize::from(self.pools.list[pool].rule)];
            let at = host as usize;
            rule.includes_host
                .resize(rule.includes_host.len().max(at + 1), false);
            rule.includes_host[at] = true;
            self.pools.of_host.insert((res, host), pool);
        }
        let rule = &mut self.rules[usize::from(self.pools.list[pool].rule)];
        if self.pools.list[pool].source == shared.source {
            if shared.amount > rule.amounts[0] {
                rule.raised_at = at;
            }
            rule.amounts[0] = shared.amount;
        }
    }

    /// Whether jobs were counted with other hosts: everything must be counted again.
    pub fn is_outdated(&self) -> bool {
        self.pools.outdated
    }

    /// Notes that identities now count these.
    pub(super) fn note_counted(&mut self, pools: &[ResourceId]) {
        self.pools.counted.extend(pools);
    }

    fn leave(&mut self, pool: usize, host: u32, idle: bool) {
        let rule = &mut self.rules[usize::from(self.pools.list[pool].rule)];
        rule.includes_host[host as usize] = false;
        self.pools.outdated |= !idle;
    }

    /// Returns the position of an amount, which is created if it is new.
    fn pool(&mut self, res: ResourceId, name: &str, shared: &SharedAmount<'_>) -> usize {
        let same = |of: &&(usize, &Pool)| of.1.res == res;
        let mut all = self.pools.list.iter().enumerate().filter(|of| same(&of));
        let first = all.clone().next().map(|(at, _)| at);
        if let Some((at, _)) = all.find(|(_, of)| of.source == shared.source) {
            return at;
        }
        if let Some(first) = first.filter(|_| self.pools.list.len() >= POOLS_MAX) {
            return first;
        }
        // Existing identities do not count it.
        self.pools.outdated |= self.pools.counted.contains(&res);
        let rule = u16::try_from(self.rules.len()).expect("at most 4096 beside those of cb.yaml");
        self.rules.push(Rule::of_pool(res, name, shared));
        self.pools.list.push(Pool {
            res,
            source: shared.source.to_owned(),
            rule,
        });
        self.pools.list.len() - 1
    }
}

impl Rule {
    fn of_pool(res: ResourceId, name: &str, now: &SharedAmount<'_>) -> Rule {
        Rule {
            quota: Quota {
                name: name.to_owned(),
                hosts: Dimension::Shared(HostSet::none()),
                resources: vec![(name.to_owned(), Vec::new())],
                ..Quota::default()
            },
            res: vec![res],
            slots: UNLIMITED,
            jobs: UNLIMITED,
            amounts: SmallVec::from_elem(now.amount, 1),
            raised_at: 0,
            until: None,
            includes_host: Vec::new(),
            kind: Kind::Pool { fixed: now.fixed },
        }
    }
}
