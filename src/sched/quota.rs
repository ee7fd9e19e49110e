//! Section `limits`: how much its consumers use, and how much more a job may take.
//!
//! Owns the counters, also those of job groups with a limit. A counter belongs to one limit and,
//! where the limit says `per_*`, to one member of each such dimension; a job counts in all counters
//! it matches and starts only if each has room. Never sees jobs or the state and never reads a
//! clock: the engine takes and gives back, and passes the time and the position in the log of
//! changed hosts.
//!
//! A limit that falls, as when a window opens, stops no work: nothing more starts until enough has
//! ended.

mod caps;
mod headroom;
mod job_groups;
mod messages;
mod pools;
#[cfg(test)]
mod tests;

pub use messages::QuotaRow;
pub use pools::SharedAmount;

use self::caps::Caps;
use super::amount::Bundle;
use super::host_usage::ResourceId;
use crate::config::{Dimension, Names, Quota, UserGroup, UserSet, WindowedLimit};
use crate::model::Stamp;
use jiff::tz::TimeZone;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// No limit at the moment.
const UNLIMITED: i64 = i64::MAX;
/// Number of identities that are kept before unused ones are dropped.
const KEEP: usize = 1024;

/// The consumers that a job belongs to. `groups`: of the configuration and of the system.
#[derive(Clone, Copy, Debug)]
pub struct Consumers<'a> {
    pub queue: &'a str,
    pub user: &'a str,
    pub groups: &'a [String],
    pub project: &'a str,
    /// Empty = none.
    pub app: &'a str,
    /// The path of its job group; empty = none.
    pub job_group: &'a str,
}

/// The counters to which all jobs of one queue, user, project and application add.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ident {
    /// Counters that apply wherever the job runs.
    host_independent: Vec<u32>,
    /// Limits that depend on the host.
    host_limits: Vec<HostLimit>,
    /// The same number for all identities to which the same host limits apply; 0 = no limit depends
    /// on the host.
    pub on_hosts: u32,
    /// A limit that does not depend on the host limits amounts.
    counts_amounts: bool,
}

impl Ident {
    /// Whether no limit applies to these jobs.
    pub fn is_free(&self) -> bool {
        self.host_independent.is_empty() && self.host_limits.is_empty()
    }

    /// Prefetches its parts by reading one value of each.
    pub fn prefetch(&self) -> usize {
        let first = self.host_independent.first().map_or(0, |n| *n as usize);
        first
            ^ self
                .host_limits
                .first()
                .map_or(0, |host_limit| host_limit.family as usize)
    }

    /// Whether a limit that does not depend on the host limits amounts.
    pub fn counts_amounts(&self) -> bool {
        self.counts_amounts
    }

    /// Whether a limit applies only to certain hosts, or to each host separately.
    pub fn by_host(&self) -> bool {
        !self.host_limits.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostLimit {
    rule: u16,
    family: u32,
    /// One counter for all hosts of the set; `None` = each host has its own.
    shared: Option<u32>,
}

impl HostLimit {
    fn own(&self, host: u32) -> Option<u32> {
        self.shared.is_none().then_some(host)
    }
}

/// What a start would take.
#[derive(Clone, Copy, Debug)]
pub struct Need<'a> {
    /// The minimum number of slots, at least 1.
    pub slots: u32,
    /// Resources per slot.
    pub per_slot: &'a Bundle,
    /// Resources beside that, taken at least once.
    pub fixed: &'a Bundle,
}

/// A counter without room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub rule: u16,
    /// `None`: nothing is in use so far.
    pub counter: Option<u32>,
    family: u32,
    /// The host, if the counter belongs to one.
    host: Option<u32>,
    pub quantity: Quantity,
    /// For resources in thousandths.
    pub need: i64,
    pub used: i64,
    pub limit: i64,
}

/// The quantity that a limit limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Slots,
    Jobs,
    Resource(ResourceId),
}

/// All counters of the cluster.
#[derive(Debug, Default)]
pub struct Quotas {
    rules: Vec<Rule>,
    groups: BTreeMap<String, UserGroup>,
    counters: Vec<Counter>,
    families: Vec<Family>,
    family_ids: HashMap<(u16, Members), u32>,
    unused: FreeNumbers,
    /// Counters of single hosts, by family and host.
    hosted: HashMap<u64, u32, BuildHasherDefault<NumberHasher>>,
    idents: HashMap<Key, Arc<Ident>>,
    /// Numbers of the sets of host limits that apply to jobs.
    on_hosts: HashMap<Vec<(u16, u32)>, u32>,
    /// By [`Ident::on_hosts`] minus one.
    host_limit_sets: Vec<Vec<HostLimit>>,
    keep: usize,
    /// Names by position.
    hosts: Vec<String>,
    /// Counters that changed since the last query, some several times; `None`: changes are not
    /// recorded.
    changed: Option<Vec<u32>>,
    /// Amounts that several hosts share: rules after those of cb.yaml.
    pools: pools::Pools,
    group_limits: job_groups::GroupLimits,
}

/// Numbers to be assigned again.
#[derive(Debug, Default)]
struct FreeNumbers {
    counters: Vec<u32>,
    families: Vec<u32>,
}

/// One entry of section `limits`.
#[derive(Debug)]
struct Rule {
    quota: Quota,
    res: Vec<ResourceId>,
    /// Limits at the moment.
    slots: i64,
    jobs: i64,
    amounts: SmallVec<[i64; 2]>,
    /// When a limit last rose.
    raised_at: u64,
    /// When windows change something next.
    until: Option<Stamp>,
    /// By position of the host, if `hosts` is not [`Dimension::Any`].
    includes_host: Vec<bool>,
    kind: Kind,
}

/// What a rule limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// What section `limits` of cb.yaml says.
    Limit,
    /// An amount that hosts share. `fixed`: it never changes.
    Pool { fixed: bool },
    /// Jobs of job groups: each group has its own limit.
    JobGroups,
}

/// Members of the dimensions queue, user, project and application that have their own counters.
type Members = [Option<Box<str>>; 4];
/// Queue, user, groups, project and application, as far as limits depend on them; the job group;
/// shared resources.
type Key = (
    String,
    String,
    Vec<String>,
    String,
    String,
    String,
    Vec<ResourceId>,
);

/// The counters of one limit for one choice of members.
#[derive(Debug)]
struct Family {
    rule: u16,
    members: Members,
    /// `None` = each host has its own.
    counter: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct Counter {
    rule: u16,
    slots: i64,
    jobs: i64,
    /// In the order of the rule's resources.
    amounts: SmallVec<[i64; 2]>,
    /// The limit of jobs of this counter alone.
    most: Option<i64>,
    /// When something was last returned.
    freed: u64,
    family: u32,
    /// Position of its host, if it belongs to one.
    host: Option<u32>,
}

impl Counter {
    fn is_zero(&self) -> bool {
        self.slots == 0 && self.jobs == 0 && self.amounts.iter().all(|n| *n == 0)
    }
}

impl Quotas {
    /// Empty counters. `number` returns the number of a resource. [`Quotas::tick`] must follow;
    /// until then nothing is limited.
    pub fn new(
        limits: &[Quota],
        groups: &BTreeMap<String, UserGroup>,
        number: &mut dyn FnMut(&str) -> ResourceId,
    ) -> Quotas {
        let rule = |quota: &Quota| Rule {
            quota: quota.clone(),
            res: quota
                .resources
                .iter()
                .map(|(name, _)| number(name))
                .collect(),
            slots: UNLIMITED,
            jobs: UNLIMITED,
            amounts: SmallVec::from_elem(UNLIMITED, quota.resources.len()),
            raised_at: 0,
            until: None,
            includes_host: Vec::new(),
            kind: Kind::Limit,
        };
        Quotas {
            rules: limits.iter().map(rule).chain([Rule::of_groups()]).collect(),
            groups: groups.clone(),
            keep: KEEP,
            ..Quotas::default()
        }
    }

    /// Adds a host, or changes the name of one.
    pub fn host(&mut self, at: u32, name: &str) {
        let at = at as usize;
        if self.hosts.get(at).is_some_and(|known| known == name) {
            return;
        }
        if self.hosts.len() <= at {
            self.hosts.resize(at + 1, String::new());
        }
        name.clone_into(&mut self.hosts[at]);
        for rule in &mut self.rules {
            if let Some(set) = rule.quota.hosts.set()
                && rule.kind == Kind::Limit
            {
                rule.includes_host
                    .resize(rule.includes_host.len().max(at + 1), false);
                rule.includes_host[at] = set.contains(name);
            }
        }
    }

    /// Applies what the windows state at `now`; `at` is the position in the log of changed hosts.
    /// Returns the moment at which to call it again, if windows ever change.
    pub fn tick(&mut self, now: Stamp, tz: &TimeZone, at: u64) -> Option<Stamp> {
        let mut next: Option<Stamp> = None;
        for rule in &mut self.rules {
            rule.tick(now, tz, at);
            next = next.into_iter().chain(rule.until).min();
        }
        next
    }

    /// The counters to which jobs of these consumers add.
    pub fn identity(&mut self, who: &Consumers<'_>) -> Arc<Ident> {
        self.identity_with(who, &[])
    }

    /// The counters to which jobs of these consumers add if they reserve these shared resources.
    pub fn identity_with(&mut self, who: &Consumers<'_>, pools: &[ResourceId]) -> Arc<Ident> {
        self.note_counted(pools);
        let key = self.key(who, pools);
        if let Some(ident) = self.idents.get(&key) {
            return ident.clone();
        }
        if self.idents.len() >= self.keep {
            self.purge();
        }
        let mut ident = Ident::default();
        for rule in 0..self.rules.len() {
            let Some(members) = self.rules[rule].members(who, &self.groups, pools) else {
                continue;
            };
            let rule = u16::try_from(rule).expect("cb.yaml has fewer than 65536 limits");
            let family = self.family(rule, members);
            let shared = self.families[family as usize].counter;
            match shared {
                Some(counter) if self.rules[usize::from(rule)].quota.on_any_host() => {
                    ident.counts_amounts |= !self.rules[usize::from(rule)].res.is_empty();
                    ident.host_independent.push(counter);
                }
                _ => ident.host_limits.push(HostLimit {
                    rule,
                    family,
                    shared,
                }),
            }
        }
        ident
            .host_independent
            .extend(self.counters_of_group(who.job_group));
        if ident.by_host() {
            let pairs: Vec<(u16, u32)> = ident
                .host_limits
                .iter()
                .map(|h| (h.rule, h.family))
                .collect();
            let next =
                u32::try_from(self.host_limit_sets.len() + 1).expect("fewer than 2^32 of them");
            ident.on_hosts = *self.on_hosts.entry(pairs).or_insert(next);
            if ident.on_hosts == next {
                self.host_limit_sets.push(ident.host_limits.clone());
            }
        }
        let ident = Arc::new(ident);
        self.idents.insert(key, ident.clone());
        ident
    }

    /// Prefetches each counter to which jobs on a host add.
    pub fn prefetch(&self, ident: &Ident, host: u32) -> usize {
        let all = ident.host_limits.iter();
        let own = all.filter(|h| h.shared.is_none() && self.rules[usize::from(h.rule)].holds(host));
        let own = own.filter_map(|h| self.hosted.get(&pair(h.family, host)));
        let all = ident.host_independent.iter().chain(own);
        let slots = all.map(|at| self.counters[*at as usize].slots);
        slots.fold(0, |sum, n| sum ^ n as usize)
    }

    /// Counts a start of these parts, one for each host. `job`: the job itself is counted, too;
    /// false if it takes again what it returned while it was suspended.
    pub fn count_start(&mut self, ident: &Ident, parts: &[(u32, Bundle)], job: bool) {
        self.count(ident, parts, i64::from(job), 1, None);
    }

    /// Removes what [`Quotas::count_start`] counted, or the parts of it that a suspended job does
    /// not keep (then without `job`). `at` is the position in the log of changed hosts.
    pub fn count_end(&mut self, ident: &Ident, parts: &[(u32, Bundle)], job: bool, at: u64) {
        self.count(ident, parts, i64::from(job), -1, Some(at));
    }

    /// When something of the counter that blocked was last returned, or its limit rose.
    pub fn freed_at(&self, blocked: &Blocked) -> u64 {
        let counter = blocked
            .counter
            .and_then(|at| self.counters.get(at as usize));
        let risen = self.rules[usize::from(blocked.rule)].raised_at;
        counter.map_or(risen, |counter| counter.freed.max(risen))
    }

    /// When something of a host limit that applies to such jobs ([`Ident::on_hosts`]) was last
    /// returned, or a limit rose. Counters of single hosts are excluded: what they count was on
    /// that host, which changed, too.
    pub fn last_freed_on_hosts(&self, on_hosts: u32) -> u64 {
        let Some(at) = on_hosts.checked_sub(1) else {
            return 0;
        };
        let eased = |host_limit: &HostLimit| {
            let risen = self.rules[usize::from(host_limit.rule)].raised_at;
            let freed = host_limit
                .shared
                .map_or(0, |at| self.counters[at as usize].freed);
            freed.max(risen)
        };
        self.host_limit_sets[at as usize]
            .iter()
            .map(eased)
            .max()
            .unwrap_or(0)
    }

    /// When windows next change the limit that blocks.
    pub fn next_change(&self, blocked: &Blocked) -> Option<Stamp> {
        self.rules[usize::from(blocked.rule)].until
    }

    /// Slots left to one more job beside what the trial has taken, at least `need.slots`.
    #[inline]
    fn slots_left(
        &self,
        counter: &Counter,
        trial: Option<&Bundle>,
        need: &Need<'_>,
    ) -> Result<u32, Blocked> {
        let rule = &self.rules[usize::from(counter.rule)];
        let blocked = |quantity, need, used, limit| Blocked {
            rule: counter.rule,
            counter: None,
            family: 0,
            host: None,
            quantity,
            need,
            used,
            limit,
        };
        let wanted = i64::from(need.slots);
        let none = Bundle::default();
        let taken = trial.unwrap_or(&none);
        let jobs = counter.most.unwrap_or(rule.jobs);
        if jobs != UNLIMITED && trial.is_none() && counter.jobs >= jobs {
            return Err(blocked(Quantity::Jobs, 1, counter.jobs, jobs));
        }
        let mut room = i64::from(u32::MAX);
        if rule.slots != UNLIMITED {
            let used = counter.slots + taken.slots;
            room = rule.slots.saturating_sub(used);
            if room < wanted {
                return Err(blocked(Quantity::Slots, wanted, used, rule.slots));
            }
        }
        for (at, (res, limit)) in rule.res.iter().zip(&rule.amounts).enumerate() {
            let res_at = usize::from(*res);
            let (each, fixed) = (need.per_slot.get(res_at), need.fixed.get(res_at));
            if *limit == UNLIMITED || (each <= 0 && fixed <= 0) {
                continue;
            }
            let used = counter.amounts.get(at).copied().unwrap_or(0) + taken.get(res_at);
            let least = fixed.saturating_add(each.saturating_mul(wanted));
            let left = limit.saturating_sub(used);
            if left < least {
                return Err(blocked(Quantity::Resource(*res), least, used, *limit));
            }
            if each > 0 {
                room = room.min((left - fixed) / each);
            }
        }
        Ok(u32::try_from(room).unwrap_or(u32::MAX))
    }

    fn count(
        &mut self,
        ident: &Ident,
        parts: &[(u32, Bundle)],
        jobs: i64,
        sign: i64,
        freed: Option<u64>,
    ) {
        if let [(host, one)] = parts {
            for at in &ident.host_independent {
                self.bump(*at, one, jobs, sign, freed);
            }
            for host_limit in &ident.host_limits {
                if self.rules[usize::from(host_limit.rule)].holds(*host) {
                    let own = || self.hosted(host_limit.rule, host_limit.family, *host);
                    let at = host_limit.shared.unwrap_or_else(own);
                    self.bump(at, one, jobs, sign, freed);
                }
            }
            return;
        }
        if !ident.host_independent.is_empty() {
            let mut all = Bundle::default();
            parts.iter().for_each(|part| all.add(&part.1));
            for at in &ident.host_independent {
                self.bump(*at, &all, jobs, sign, freed);
            }
        }
        for host_limit in &ident.host_limits {
            let mut sum: Option<Bundle> = None;
            for (host, bundle) in parts {
                if !self.rules[usize::from(host_limit.rule)].holds(*host) {
                    continue;
                }
                if host_limit.shared.is_some() {
                    sum.get_or_insert_default().add(bundle);
                    continue;
                }
                let at = self.hosted(host_limit.rule, host_limit.family, *host);
                self.bump(at, bundle, jobs, sign, freed);
            }
            if let (Some(at), Some(sum)) = (host_limit.shared, sum) {
                self.bump(at, &sum, jobs, sign, freed);
            }
        }
    }

    #[inline]
    fn bump(&mut self, at: u32, bundle: &Bundle, jobs: i64, sign: i64, freed: Option<u64>) {
        let counter = &mut self.counters[at as usize];
        counter.slots += sign * bundle.slots;
        counter.jobs += sign * jobs;
        let rule = &self.rules[usize::from(counter.rule)];
        for (own, res) in counter.amounts.iter_mut().zip(&rule.res) {
            let more = sign * bundle.get(usize::from(*res));
            *own = own.saturating_add(more);
        }
        if let Some(freed) = freed {
            counter.freed = freed;
        }
        if let Some(log) = &mut self.changed
            && log.last() != Some(&at)
        {
            log.push(at);
        }
    }

    fn family(&mut self, rule: u16, members: Members) -> u32 {
        let key = (rule, members);
        if let Some(family) = self.family_ids.get(&key) {
            return *family;
        }
        let id = self.unused.families.pop().unwrap_or_else(|| {
            self.families.push(Family {
                rule,
                members: Members::default(),
                counter: None,
            });
            number(self.families.len() - 1)
        });
        let per_host = self.rules[usize::from(rule)].quota.hosts.is_per();
        let counter = (!per_host).then(|| self.counter(rule, id, None));
        self.families[id as usize] = Family {
            rule,
            members: key.1.clone(),
            counter,
        };
        self.family_ids.insert(key, id);
        id
    }

    /// Returns the counter of one host, and creates it if needed.
    fn hosted(&mut self, rule: u16, family: u32, host: u32) -> u32 {
        if let Some(counter) = self.hosted.get(&pair(family, host)) {
            return *counter;
        }
        let counter = self.counter(rule, family, Some(host));
        self.hosted.insert(pair(family, host), counter);
        counter
    }

    fn counter(&mut self, rule: u16, family: u32, host: Option<u32>) -> u32 {
        let new = Counter {
            rule,
            amounts: SmallVec::from_elem(0, self.rules[usize::from(rule)].res.len()),
            family,
            host,
            ..Counter::default()
        };
        match self.unused.counters.pop() {
            Some(at) => {
                self.counters[at as usize] = new;
                at
            }
            None => {
                self.counters.push(new);
                number(self.counters.len() - 1)
            }
        }
    }

    /// Drops identities without references, and zero counters that are no longer reachable.
    fn purge(&mut self) {
        self.idents.retain(|_, ident| Arc::strong_count(ident) > 1);
        self.keep = KEEP.max(2 * self.idents.len());
        let mut is_used = vec![false; self.families.len()];
        for ident in self.idents.values() {
            for at in &ident.host_independent {
                is_used[self.counters[*at as usize].family as usize] = true;
            }
            for host_limit in &ident.host_limits {
                is_used[host_limit.family as usize] = true;
            }
        }
        let Quotas {
            counters, unused, ..
        } = self;
        self.hosted.retain(|_, at| {
            let zero = counters[*at as usize].is_zero();
            if zero {
                unused.counters.push(*at);
            } else {
                is_used[counters[*at as usize].family as usize] = true;
            }
            !zero
        });
        let (families, unused_numbers) = (&self.families, &mut self.unused);
        self.family_ids.retain(|_, id| {
            let counter = families[*id as usize].counter;
            let zero = counter.is_none_or(|at| counters[at as usize].is_zero());
            if zero && !is_used[*id as usize] {
                unused_numbers.counters.extend(counter);
                unused_numbers.families.push(*id);
                return false;
            }
            true
        });
        let unused_numbers = |family: &u32| self.unused.families.contains(family);
        self.on_hosts
            .retain(|host_limit, _| !host_limit.iter().any(|(_, family)| unused_numbers(family)));
        // Sorted by number, so that the same run assigns the same numbers again.
        self.unused.counters.sort_unstable_by(|a, b| b.cmp(a));
        self.unused.families.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// The parts of an identity on which limits depend; identities that agree in these share one
    /// record.
    fn key(&self, who: &Consumers<'_>, pools: &[ResourceId]) -> Key {
        let quotas = || self.rules.iter().map(|rule| &rule.quota);
        let of = |is_used: bool, name: &str| {
            if is_used {
                name.to_owned()
            } else {
                String::new()
            }
        };
        let users = quotas().any(|q| q.users.set().is_some());
        (
            of(quotas().any(|q| q.queues.set().is_some()), who.queue),
            of(users, who.user),
            if users {
                who.groups.to_vec()
            } else {
                Vec::new()
            },
            of(quotas().any(|q| q.projects.set().is_some()), who.project),
            of(quotas().any(|q| q.apps.set().is_some()), who.app),
            who.job_group.to_owned(),
            pools.to_vec(),
        )
    }
}

impl Rule {
    #[inline]
    fn holds(&self, host: u32) -> bool {
        match self.quota.hosts {
            Dimension::Any => true,
            _ => self
                .includes_host
                .get(host as usize)
                .copied()
                .unwrap_or(false),
        }
    }

    /// The members to whose own counters a job adds; `None` if the limit does not apply to it.
    fn members(
        &self,
        who: &Consumers<'_>,
        groups: &BTreeMap<String, UserGroup>,
        pools: &[ResourceId],
    ) -> Option<Members> {
        let quota = &self.quota;
        match self.kind {
            Kind::Limit => {}
            Kind::Pool { .. } => return pools.contains(&self.res[0]).then(Members::default),
            Kind::JobGroups => return None,
        }
        let named = |set: &Names, name: &str| !name.is_empty() && set.contains(name);
        let user = |set: &UserSet| set.contains(who.user, who.groups, groups);
        Some([
            member(&quota.queues, who.queue, |set| named(set, who.queue))?,
            member(&quota.users, who.user, user)?,
            member(&quota.projects, who.project, |set| named(set, who.project))?,
            member(&quota.apps, who.app, |set| named(set, who.app))?,
        ])
    }

    fn tick(&mut self, now: Stamp, tz: &TimeZone, at: u64) {
        if self.kind != Kind::Limit {
            return;
        }
        let Caps {
            slots,
            jobs,
            amounts,
        } = self.caps_at(now, tz);
        let resources = self.quota.resources.iter().map(|(_, list)| list);
        let changes = resources.filter_map(|list| WindowedLimit::next_change(list, now, tz));
        let changes = changes.chain(WindowedLimit::next_change(&self.quota.slots, now, tz));
        let changes = changes.chain(WindowedLimit::next_change(&self.quota.jobs, now, tz));
        let until = changes.min();
        let more = amounts
            .iter()
            .zip(&self.amounts)
            .any(|(new, old)| new > old);
        if slots > self.slots || jobs > self.jobs || more {
            self.raised_at = at;
        }
        (self.slots, self.jobs, self.amounts) = (slots, jobs, amounts);
        self.until = until;
    }
}

/// The member's name if each has its own counter; `None` if it does not belong to the set.
fn member<S>(
    dim: &Dimension<S>,
    name: &str,
    holds: impl Fn(&S) -> bool,
) -> Option<Option<Box<str>>> {
    match dim {
        Dimension::Any => Some(None),
        Dimension::Shared(set) => holds(set).then_some(None),
        Dimension::Per(set) => holds(set).then(|| Some(Box::from(name))),
    }
}

impl Blocked {
    fn of(self, family: u32, counter: Option<u32>, host: Option<u32>) -> Blocked {
        Blocked {
            family,
            counter,
            host,
            ..self
        }
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("fewer than 2^32 counters")
}

fn pair(family: u32, host: u32) -> u64 {
    u64::from(family) << 32 | u64::from(host)
}

/// A hash of one number that an outsider cannot choose.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
