//! Placing jobs on hosts within one pass: a trial balance of slots and resources on top of the
//! state. All or nothing per job; nothing is held by a job that does not start.

use super::class::Compiled;
use super::hosts::{HostInfo, HostTable, Obstacle};
use super::order::Rank;
use super::request::{Facts, Reserved};
use super::{Cache, Placement, Start};
use crate::config::Config;
use crate::config::require::Request;
use crate::model::{HostCounts, JobKey, PendReason};
use crate::state::{Class, State};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// What became of a class's turn.
pub enum Step {
    /// A start, and the class's next turn if it has more jobs.
    Start(Start, Option<Rank>),
    /// This array has as many elements started as it may; the class goes on with the next job.
    AtLimit(u32, u32, Option<Rank>),
    /// No job of the class can start in this pass.
    Blocked(PendReason),
}

/// One host's balance.
#[derive(Clone, Debug, Default)]
struct Balance {
    free: u32,
    jobs: u32,
    exclusive: bool,
    /// Amounts of `rusage[]` reserved by running jobs and by starts of this pass.
    reserved: Reserved,
    queue_used: HashMap<String, u32>,
    user_used: HashMap<u32, u32>,
}

/// A pass in the making.
pub struct Trial<'a> {
    table: &'a HostTable,
    hosts: Vec<&'a HostInfo>,
    balance: Vec<Balance>,
    queue_used: HashMap<String, u32>,
    user_used: HashMap<u32, u32>,
    queue_user_used: HashMap<(String, u32), u32>,
    array_started: HashMap<u32, u32>,
    /// Hosts by preference and free slots, per class.
    ready: BTreeMap<u32, BinaryHeap<Candidate>>,
}

/// A host that passed a class's fixed conditions; the greatest is tried first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Candidate {
    preference: u32,
    /// Rank by the job's `order[]`, greater is better; 0 for all without one.
    score: i64,
    free: u32,
    position: Reverse<u32>,
}

impl<'a> Trial<'a> {
    pub fn new(
        state: &State,
        config: &Config,
        cache: &mut Cache,
        table: &'a HostTable,
    ) -> Trial<'a> {
        let hosts: Vec<&HostInfo> = table.iter().collect();
        let balance = hosts
            .iter()
            .map(|host| balance_of(state, config, cache, host))
            .collect();
        Trial {
            table,
            hosts,
            balance,
            queue_used: HashMap::new(),
            user_used: HashMap::new(),
            queue_user_used: HashMap::new(),
            array_started: HashMap::new(),
            ready: BTreeMap::new(),
        }
    }

    /// Tries the job of `rank` and says what the class does next.
    pub fn next(&mut self, state: &State, class: &Class, compiled: &Compiled, rank: &Rank) -> Step {
        let Some((j, more)) = self.element(state, rank) else {
            let limit = state
                .job(rank.j.id)
                .and_then(|job| job.array())
                .map_or(0, |a| a.limit);
            return Step::AtLimit(rank.j.id, limit, following(class, rank));
        };
        if let Err(reason) = self.room(state, compiled) {
            return Step::Blocked(reason);
        }
        match self.place(state, compiled, rank.class) {
            Err(reason) => Step::Blocked(reason),
            Ok(hosts) => {
                self.book(compiled, &hosts, j);
                let next = match more {
                    true => Some(rank.from(j.idx + 1)),
                    false => following(class, rank),
                };
                Step::Start(Start { j, hosts }, next)
            }
        }
    }

    /// The element (or job) to start and whether the same entry has more. `None`: its array is at
    /// its limit.
    fn element(&mut self, state: &State, rank: &Rank) -> Option<(JobKey, bool)> {
        let job = state.job(rank.j.id)?;
        let Some(array) = job.array() else {
            return Some((rank.j, false));
        };
        let started = array.started() + self.array_started.get(&job.id).copied().unwrap_or(0);
        if array.limit > 0 && started >= array.limit {
            return None;
        }
        if rank.j.idx > 0 {
            return Some((rank.j, false));
        }
        let idx = array.waiting.first_from(rank.from)?;
        let more = array.waiting.first_from(idx + 1).is_some();
        Some((JobKey::element(job.id, idx), more))
    }

    /// Limits that do not depend on the host.
    fn room(&self, state: &State, c: &Compiled) -> Result<(), PendReason> {
        let Some(queue) = &c.queue else { return Ok(()) };
        let need = c.request.min;
        let name = &queue.name;
        let over = |limit: Option<u32>, used: u32| limit.filter(|l| used + need > *l);
        let in_queue = state.used().queue(name).total() + get(&self.queue_used, name);
        if let Some(limit) = over(queue.slots, in_queue) {
            return Err(PendReason::QueueSlots {
                queue: name.clone(),
                limit,
            });
        }
        let key = (name.clone(), c.uid);
        let of_user = state.used().queue_user(name, c.uid) + get(&self.queue_user_used, &key);
        if let Some(limit) = over(queue.user_slots, of_user) {
            return Err(PendReason::QueueUserSlots {
                queue: name.clone(),
                limit,
            });
        }
        let in_all = state.used().user(c.uid).total() + get(&self.user_used, &c.uid);
        if let Some(limit) = over(c.user_max, in_all) {
            return Err(PendReason::UserSlots {
                user: c.user.clone(),
                limit,
            });
        }
        Ok(())
    }

    /// Most slots the job may get: its maximum, cut by limits that do not depend on the host.
    fn most(&self, state: &State, c: &Compiled) -> u32 {
        let mut most = c.request.max.max(c.request.min);
        let Some(queue) = &c.queue else { return most };
        let mut cut = |limit: Option<u32>, used: u32| {
            if let Some(limit) = limit {
                most = most.min(limit.saturating_sub(used));
            }
        };
        let name = &queue.name;
        cut(
            queue.slots,
            state.used().queue(name).total() + get(&self.queue_used, name),
        );
        let key = (name.clone(), c.uid);
        cut(
            queue.user_slots,
            state.used().queue_user(name, c.uid) + get(&self.queue_user_used, &key),
        );
        cut(
            c.user_max,
            state.used().user(c.uid).total() + get(&self.user_used, &c.uid),
        );
        most
    }

    fn place(&mut self, state: &State, c: &Compiled, class: u32) -> Result<Placement, PendReason> {
        if !self.ready.contains_key(&class) {
            let heap = self.candidates(c);
            self.ready.insert(class, heap);
        }
        let most = self.most(state, c);
        let mut heap = self.ready.remove(&class).expect("just made");
        let mut seen = Vec::new();
        let mut chosen = Placement::new();
        let mut got = 0;
        while let Some(candidate) = heap.pop() {
            let at = candidate.position.0 as usize;
            let free = self.balance[at].free;
            if free != candidate.free {
                // Its balance changed since it was ranked: rank it again.
                if free > 0 {
                    let score = match c.request.by_slots() {
                        Some(_) => slots_score(&c.request, free),
                        None => candidate.score,
                    };
                    heap.push(Candidate {
                        free,
                        score,
                        ..candidate
                    });
                }
                continue;
            }
            seen.push(candidate);
            let room = self.capacity(state, c, at).min(most - got);
            if room == 0 || !enough_here(&c.request, room, got) {
                continue;
            }
            chosen.push((self.hosts[at].id, room));
            got += room;
            if got >= most
                || c.request
                    .hosts_max
                    .is_some_and(|n| chosen.len() as u32 >= n)
            {
                break;
            }
        }
        heap.extend(seen);
        self.ready.insert(class, heap);
        if got >= c.request.min.max(1) {
            return Ok(chosen);
        }
        Err(self.explain(state, c, got))
    }

    /// Hosts the class could use at all, by preference and order.
    fn candidates(&self, c: &Compiled) -> BinaryHeap<Candidate> {
        let mut found: Vec<(Vec<f64>, Candidate)> = Vec::new();
        for (at, host) in self.hosts.iter().enumerate() {
            let free = self.balance[at].free;
            if free == 0 || host.obstacle().is_some() || self.unfit(c, host).is_some() {
                continue;
            }
            let preference = preference(c, &host.name).unwrap_or(0);
            let score = slots_score(&c.request, free);
            let keys = c.request.keys(&self.facts(c, host));
            let position = Reverse(at as u32);
            found.push((
                keys,
                Candidate {
                    preference,
                    score,
                    free,
                    position,
                },
            ));
        }
        if c.request.order.is_some() && c.request.by_slots().is_none() {
            let by_keys = |a: &Vec<f64>, b: &Vec<f64>| {
                let pairs = a.iter().zip(b).map(|(x, y)| x.total_cmp(y));
                pairs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
            };
            found.sort_by(|a, b| by_keys(&a.0, &b.0));
            let mut rank = 0;
            for at in 0..found.len() {
                if at > 0 && found[at].0 != found[at - 1].0 {
                    rank += 1;
                }
                found[at].1.score = -rank;
            }
        }
        found.into_iter().map(|(_, candidate)| candidate).collect()
    }

    fn facts<'b>(&'b self, c: &'b Compiled, host: &'b HostInfo) -> Facts<'b> {
        let balance = &self.balance[host.position as usize];
        let local = self.table.named(&c.sub_host);
        Facts {
            host,
            reserved: &balance.reserved,
            free: balance.free,
            local,
        }
    }

    /// A condition of the request or queue that the host does not meet, whatever is free.
    fn unfit(&self, c: &Compiled, host: &HostInfo) -> Option<Unfit> {
        if let Some(queue) = &c.queue
            && !queue.hosts.contains(&host.name)
        {
            return Some(Unfit::NotInQueue);
        }
        if let Some(asked) = &c.asked
            && !asked.contains(&host.name)
        {
            return Some(Unfit::NotAsked);
        }
        (!c.request.selects(&self.facts(c, host))).then_some(Unfit::Select)
    }

    /// Slots the job could take on host `at` now.
    fn capacity(&self, state: &State, c: &Compiled, at: usize) -> u32 {
        let (host, balance) = (self.hosts[at], &self.balance[at]);
        if balance.exclusive || (c.request.exclusive && balance.jobs > 0) {
            return 0;
        }
        let mut room = balance.free;
        let mut cut = |limit: Option<u32>, used: u32| {
            if let Some(limit) = limit {
                room = room.min(limit.saturating_sub(used));
            }
        };
        if let Some(queue) = &c.queue {
            let used = state.used().queue_host(&queue.name, host.id)
                + get(&balance.queue_used, &queue.name);
            cut(queue.host_slots, used);
            let per_core = queue.proc_slots_milli.map(|milli| {
                let slots = (milli * u64::from(host.load.ncpus.max(1))).div_ceil(1000);
                u32::try_from(slots).unwrap_or(u32::MAX)
            });
            cut(per_core, used);
        }
        let of_user = state.used().user_host(c.uid, host.id) + get(&balance.user_used, &c.uid);
        cut(host.entry.user_slots, of_user);
        if let Some(tile) = c.request.ptile {
            room = room.min(tile);
        }
        c.request.fit(host, &balance.reserved, room)
    }

    fn book(&mut self, c: &Compiled, hosts: &Placement, j: JobKey) {
        let queue = c.queue.as_ref().map_or("", |q| q.name.as_str());
        let mut total = 0;
        for (id, slots) in hosts {
            let at = self
                .table
                .position(*id)
                .expect("placed on hosts of the table");
            let balance = &mut self.balance[at];
            balance.free -= slots;
            balance.jobs += 1;
            balance.exclusive |= c.request.exclusive;
            c.request.reserve(&mut balance.reserved, *slots);
            *balance.queue_used.entry(queue.to_owned()).or_default() += slots;
            *balance.user_used.entry(c.uid).or_default() += slots;
            total += slots;
        }
        *self.queue_used.entry(queue.to_owned()).or_default() += total;
        *self.user_used.entry(c.uid).or_default() += total;
        *self
            .queue_user_used
            .entry((queue.to_owned(), c.uid))
            .or_default() += total;
        if j.idx > 0 {
            *self.array_started.entry(j.id).or_default() += 1;
        }
    }

    /// Why the class cannot start now: counts of hosts by obstacle, or that it can never fit.
    fn explain(&self, state: &State, c: &Compiled, got: u32) -> PendReason {
        let mut counts = HostCounts::default();
        let (mut ever, mut one_host) = (0u64, 0u32);
        for (at, host) in self.hosts.iter().enumerate() {
            match (self.unfit(c, host), host.obstacle()) {
                (Some(Unfit::NotInQueue), _) => counts.not_in_queue += 1,
                (Some(Unfit::NotAsked), _) => counts.not_asked += 1,
                (_, Some(Obstacle::Closed)) => counts.closed += 1,
                (_, Some(Obstacle::Unavailable)) => counts.unavailable += 1,
                (Some(Unfit::Select), None) => counts.select += 1,
                (None, None) => self.count_busy(state, c, at, &mut counts),
            }
            let fixed = matches!(
                self.unfit(c, host),
                Some(Unfit::NotInQueue | Unfit::NotAsked)
            );
            if !fixed {
                let cap = host.slots.min(c.request.ptile.unwrap_or(u32::MAX));
                ever += u64::from(cap);
                one_host = one_host.max(cap);
            }
        }
        let need = c.request.min.max(1);
        let most = if c.request.hosts_max == Some(1) {
            u64::from(one_host)
        } else {
            ever
        };
        if most < u64::from(need) {
            let place = if c.request.hosts_max == Some(1) {
                "on one host"
            } else {
                "in all"
            };
            let why = format!("it needs {need} slots {place}, hosts it may use have {most}");
            return PendReason::NeverFits { why };
        }
        if got > 0 {
            return PendReason::Slots { need, free: got };
        }
        PendReason::Hosts(counts)
    }

    fn count_busy(&self, state: &State, c: &Compiled, at: usize, counts: &mut HostCounts) {
        let (host, balance) = (self.hosts[at], &self.balance[at]);
        if balance.exclusive || (c.request.exclusive && balance.jobs > 0) {
            counts.exclusive += 1;
        } else if balance.free == 0 {
            counts.full += 1;
        } else if c.request.fit(host, &balance.reserved, balance.free) == 0 {
            counts.rusage += 1;
        } else if host.entry.user_slots.is_some_and(|l| {
            state.used().user_host(c.uid, host.id) + get(&balance.user_used, &c.uid) >= l
        }) {
            counts.user_limit += 1;
        } else if self.capacity(state, c, at) == 0 {
            counts.queue_limit += 1;
        } else {
            counts.span += 1;
        }
    }
}

/// Score of an order by unused slots alone, 0 for any other.
fn slots_score(request: &Request, free: u32) -> i64 {
    match request.by_slots() {
        Some(true) => i64::from(free),
        Some(false) => -i64::from(free),
        None => 0,
    }
}

enum Unfit {
    NotInQueue,
    NotAsked,
    Select,
}

/// Whether `room` slots on this host serve the span: one host must hold the minimum alone, a tile
/// must be whole unless it is the rest.
fn enough_here(request: &Request, room: u32, got: u32) -> bool {
    if request.hosts_max == Some(1) {
        return room >= request.min;
    }
    match request.ptile {
        Some(tile) => room >= tile.min(request.min.saturating_sub(got)).max(1),
        None => true,
    }
}

fn preference(c: &Compiled, host: &str) -> Option<u32> {
    match (&c.asked, &c.queue) {
        (Some(asked), _) => asked.preference(host),
        (None, Some(queue)) => queue.hosts.preference(host),
        (None, None) => Some(0),
    }
}

/// The class's next turn behind the job of `rank`.
fn following(class: &Class, rank: &Rank) -> Option<Rank> {
    use std::ops::Bound::{Excluded, Unbounded};
    let (order, j) = class
        .jobs
        .range((Excluded((rank.order, rank.j)), Unbounded))
        .next()?;
    Some(rank.with(*order, *j))
}

fn get<K: std::hash::Hash + Eq>(map: &HashMap<K, u32>, key: &K) -> u32 {
    map.get(key).copied().unwrap_or(0)
}

/// Balance of a host before the pass; `cache` knows the requests of what runs there.
fn balance_of(state: &State, config: &Config, cache: &mut Cache, host: &HostInfo) -> Balance {
    let used = state.used().host(host.id).total();
    let mut balance = Balance {
        free: host.slots.saturating_sub(used),
        ..Balance::default()
    };
    for (j, slots) in state.used().work_on(host.id) {
        balance.jobs += 1;
        let Some(job) = state.job(j.id) else { continue };
        let compiled = cache.get(state.class_of(job.spec), state, config);
        balance.exclusive |= compiled.request.exclusive;
        if !compiled.request.rusage.is_empty() {
            let usage = job
                .work(j.idx)
                .and_then(|w| w.run.as_ref())
                .map(|run| &run.usage);
            compiled
                .request
                .reserve_running(&mut balance.reserved, slots, usage);
        }
    }
    balance
}

/// Amounts reserved on a host by what runs there.
pub fn reserved_on(state: &State, config: &Config, host: &HostInfo) -> Reserved {
    balance_of(state, config, &mut Cache::default(), host).reserved
}
