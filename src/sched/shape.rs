//! What all jobs with the same placement request share: the request compiled against the
//! configuration, and how it judges one host. Owns nothing that changes but the rankings inside its
//! alternatives; never changes the usage of hosts.

use super::amount::{Bundle, HostBundles};
use super::best_fit::{RankedResources, free_after};
use super::compiled_request::{Alternative, TrialUse};
use super::fragmentation::Demand;
use super::host_ranking::{Candidate, HostJudge, LimitGroup, Ranking, StaticFit};
use super::host_usage::{ClusterUsage, HostUsage, ResourceId};
use super::hosts::{HostInfo, HostTable};
use super::load_thresholds as thresholds;
use super::placement::Shortfall;
use super::quota::Blocked;
use super::request_compiler::compile;
use super::resource_names::ResourceNames;
use crate::config::require::{Request, requested_hosts};
use crate::config::{Config, HostPrefs, Packing, Queue};
use crate::model::Spec;
use crate::text::resreq::{Direction, HostFacts, OrderKey, Resources as _, Select};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};

/// The values that two classes must share to have the same shape.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ShapeKey {
    queue: String,
    app: String,
    min: u32,
    max: u32,
    res_req: String,
    hosts: String,
    exclusive: bool,
    sub_host: String,
}

impl ShapeKey {
    pub(super) fn of(spec: &Spec) -> ShapeKey {
        ShapeKey {
            queue: spec.queue.clone(),
            app: spec.app.clone(),
            min: spec.min,
            max: spec.max,
            res_req: spec.res_req.clone(),
            hosts: spec.hosts.clone(),
            exclusive: spec.exclusive,
            sub_host: spec.sub_host.clone(),
        }
    }
}

impl ShapeKey {
    /// The same request for any number of slots.
    pub(super) fn family(&self) -> ShapeKey {
        ShapeKey {
            min: 0,
            max: 0,
            ..self.clone()
        }
    }
}

/// Which slots are requested of a host: those of a part of an alternative, beside what the job
/// holds there in trial.
#[derive(Clone, Copy)]
pub(super) struct HostQuery<'a> {
    pub alt: usize,
    pub part: usize,
    pub trial: &'a TrialUse,
    /// They are the first ones of the part.
    pub first: bool,
    /// What the job takes in trial on all hosts.
    pub trial_hosts: TrialHosts<'a>,
}

/// What a job takes in trial.
#[derive(Clone, Copy)]
pub(super) enum TrialHosts<'a> {
    /// Slots of the first part.
    Slots(&'a [(u32, u32)]),
    Uses(&'a HashMap<u32, TrialUse>),
}

impl<'a> HostQuery<'a> {
    pub(super) fn new(alt: usize, part: usize, trial_use: &'a TrialUse) -> HostQuery<'a> {
        HostQuery {
            alt,
            part,
            trial: trial_use,
            first: false,
            trial_hosts: TrialHosts::Slots(&[]),
        }
    }

    /// Slots that the job holds there.
    pub(super) fn trial_slots(&self) -> u32 {
        u32::try_from(self.trial.bundle.slots).unwrap_or(u32::MAX)
    }
}

/// A compiled placement request.
#[derive(Debug)]
pub(super) struct Shape {
    /// Position of its queue in the configuration; `None`: the queue was removed.
    pub queue: Option<u16>,
    pub request: Request,
    /// `-m` of the job.
    pub requested_hosts: Option<HostPrefs>,
    pub sub_host: String,
    /// Alternatives of the request, in the order in which they are tried; at least one.
    pub alternatives: Vec<Alternative>,
    /// Some alternatives open only later.
    pub timed: bool,
    /// Maximum number of slots that the queue may hold on a host, and per core in thousandths.
    pub host_slots: Option<u32>,
    pub proc_slots_milli: Option<u64>,
    pub packing: Packing,
    /// Queues whose stopped jobs lend it slots.
    pub lending_queues: SmallVec<[u16; 2]>,
    /// `stop_cond` of the queue.
    stop: Option<Select>,
    /// Why the request can never be placed in its present form.
    pub bad: Option<String>,
    /// Searches that failed: the position in the log of changes, how much was missing, and how many
    /// alternatives were open.
    pub failed: Vec<FailedSearch>,
}

impl Shape {
    pub(super) fn new(spec: &Spec, config: &Config, names: &mut ResourceNames) -> Shape {
        let at = config.queues.iter().position(|q| q.name == spec.queue);
        let queue: Option<&Queue> = at.map(|at| &config.queues[at]);
        let request = Request::new(spec, queue.and_then(|q| q.res_req.as_deref()), config);
        let prefs = requested_hosts(&spec.hosts, config);
        let alternatives = request.as_ref().map_err(String::clone);
        let alternatives = alternatives.and_then(|request| compile(request, config, names));
        let bad = match (&alternatives, &prefs) {
            (Err(e), _) | (_, Err(e)) => Some(e.clone()),
            _ => None,
        };
        let request = request.unwrap_or_default();
        let alternatives = alternatives.unwrap_or_else(|_| vec![Alternative::slots_only(&request)]);
        Shape {
            timed: alternatives
                .iter()
                .any(|alternative| alternative.after_ms > 0),
            queue: at.map(|at| u16::try_from(at).expect("cb.yaml has fewer than 65536 queues")),
            requested_hosts: prefs.unwrap_or(None),
            sub_host: spec.sub_host.clone(),
            alternatives,
            host_slots: queue.and_then(|q| q.host_slots),
            proc_slots_milli: queue.and_then(|q| q.proc_slots_milli),
            packing: queue.map_or(config.general.packing, |q| q.packing),
            lending_queues: at.map_or_else(SmallVec::new, |at| lending_queues(config, at)),
            stop: queue.and_then(|q| thresholds::condition(q.stop_cond.as_deref(), config)),
            bad,
            failed: Vec::new(),
            request,
        }
    }

    /// The alternative that a number in the journal denotes.
    pub(super) fn alternative(&self, alt: u8) -> &Alternative {
        self.alternatives
            .get(usize::from(alt))
            .unwrap_or(&self.alternatives[0])
    }

    /// The number of alternatives that are open to a job that has waited this long, and when the
    /// next one opens.
    pub(super) fn open_alternatives(&self, waited_ms: u64) -> (usize, Option<u64>) {
        let later = |alternative: &&Alternative| alternative.after_ms > waited_ms;
        let next = self
            .alternatives
            .iter()
            .filter(later)
            .map(|w| w.after_ms)
            .min();
        (self.alternatives.iter().filter(|w| !later(w)).count(), next)
    }

    /// What a start with `slots` slots on one host takes there, by the first alternative.
    pub(super) fn bundle(&self, slots: u32) -> Bundle {
        self.alternatives[0].bundle(slots)
    }

    /// Slots that its jobs may use on a host: free ones, and those that stopped jobs lend them.
    pub(super) fn free(&self, usage: &HostUsage) -> i64 {
        match self.lending_queues[..] {
            [] => usage.free(),
            _ => usage.free() + usage.slots_lent_by(&self.lending_queues),
        }
    }

    /// Whether a start by this alternative excludes other jobs from its hosts.
    pub(super) fn is_exclusive(&self, alt: u8) -> bool {
        self.request.exclusive || self.alternative(alt).compute_units_alone
    }

    pub(super) fn is_exclusive_by(&self, alt: usize) -> bool {
        self.request.exclusive || self.alternatives[alt].compute_units_alone
    }

    /// Entries that keep other jobs off the rest of the compute units of a start that has them
    /// to itself: an empty entry for each of their other hosts.
    pub(super) fn rest_of_compute_units(&self, alt: u8, table: &HostTable, held: &mut HostBundles) {
        if !self.alternative(alt).compute_units_alone {
            return;
        }
        let unit = |at: usize| table.at(at).entry.unit.as_deref();
        let used: BTreeSet<u32> = held.iter().map(|(at, _)| *at).collect();
        let units: BTreeSet<&str> = used.iter().filter_map(|at| unit(*at as usize)).collect();
        let in_them = |at: &u32| unit(*at as usize).is_some_and(|unit| units.contains(unit));
        let rest = (0..table.count() as u32).filter(|at| !used.contains(at) && in_them(at));
        held.extend(rest.map(|at| (at, Bundle::default())));
    }

    /// Whether no exclusive use prevents it.
    pub(super) fn may_be_exclusive(&self, alt: usize, usage: &HostUsage) -> bool {
        let lent = |(queue, _): &(u16, i64)| self.lending_queues.contains(queue);
        let empty = || usage.jobs == 0 && usage.lent_slots().iter().all(lent);
        let wanted = self.is_exclusive_by(alt);
        usage.exclusive == 0 && (!wanted || empty())
    }

    /// Slots that the first part of the first alternative could take on a host that has `room`
    /// slots to give.
    pub(super) fn capacity(&self, host: &HostInfo, usage: &HostUsage, room: i64) -> u32 {
        let room = self.slots_allowed(0, usage, room, || host);
        let trial_use = TrialUse::default();
        self.fit_amounts(&HostQuery::new(0, 0, &trial_use), usage, room)
    }

    /// How many of `room` slots the host has amounts and units for.
    pub(super) fn fit_amounts(&self, query: &HostQuery<'_>, usage: &HostUsage, room: u32) -> u32 {
        let alternative = &self.alternatives[query.alt];
        let left = |res: ResourceId| usage.free_amount(res);
        let room = query
            .trial
            .fit(alternative, query.part, query.first, room, left);
        match alternative.units {
            true => {
                query
                    .trial
                    .fit_units(alternative, (query.part, query.first), room, usage.units())
            }
            false => room,
        }
    }

    /// How many of `room` slots a host may give to the request, not considering amounts.
    ///
    /// `host` is a function that is called only if the queue limits its slots. With a reference,
    /// the compiler reads the host's cores for every host that is tried: they are far away in
    /// memory, which costs 5 % of a pass.
    pub(super) fn slots_allowed<'h>(
        &self,
        alt: usize,
        usage: &HostUsage,
        room: i64,
        host: impl FnOnce() -> &'h HostInfo,
    ) -> u32 {
        if !self.may_be_exclusive(alt, usage) {
            return 0;
        }
        let room = room.clamp(0, i64::from(u32::MAX)) as u32;
        if self.host_slots.is_some() || self.proc_slots_milli.is_some() {
            room.min(self.queue_slots_left(host(), usage))
        } else {
            room
        }
    }

    /// Slots that fit on a host now.
    pub(super) fn fit(&self, query: &HostQuery<'_>, view: &ClusterView<'_>, at: usize) -> u32 {
        let usage = view.usage.get(at);
        let room = self.slots_allowed(query.alt, usage, self.free(usage), || view.table.at(at));
        self.fit_amounts(query, usage, room.saturating_sub(query.trial_slots()))
    }

    /// The amounts per slot and beside the slots that are needed on one more host, or for more of a
    /// host.
    pub(super) fn needs_on_host(&self, query: &HostQuery<'_>) -> (Bundle, Bundle) {
        query
            .trial
            .needs_for_more(&self.alternatives[query.alt], query.part, query.first)
    }

    /// What the job takes in trial, by host.
    pub(super) fn trial_by_host(&self, query: &HostQuery<'_>) -> SmallVec<[(u32, Bundle); 4]> {
        let alternative = &self.alternatives[query.alt];
        match query.trial_hosts {
            TrialHosts::Slots(slots) => slots
                .iter()
                .map(|(at, n)| (*at, alternative.bundle(*n)))
                .collect(),
            TrialHosts::Uses(uses) => {
                let all = uses
                    .iter()
                    .map(|(at, trial_use)| (*at, trial_use.bundle.clone()));
                let mut all: SmallVec<[(u32, Bundle); 4]> = all.collect();
                all.sort_unstable_by_key(|(at, _)| *at);
                all
            }
        }
    }

    /// Slots that the first part of an alternative could take where `free` is free, not considering
    /// anything else.
    pub(super) fn capacity_in(&self, alt: usize, free: &Bundle) -> u32 {
        let trial_use = TrialUse::default();
        let query = HostQuery::new(alt, 0, &trial_use);
        self.fit_in(&query, free)
    }

    /// Slots that fit where `free` is free beside what the same job holds there, not considering
    /// anything else.
    pub(super) fn fit_in(&self, query: &HostQuery<'_>, free: &Bundle) -> u32 {
        let room = free.slots.saturating_sub(query.trial.bundle.slots);
        let room = room.clamp(0, i64::from(u32::MAX)) as u32;
        let alternative = &self.alternatives[query.alt];
        let left = |res: ResourceId| free.get(usize::from(res));
        let fit = query
            .trial
            .fit(alternative, query.part, query.first, room, left);
        match alternative.parts[query.part].spread.tile {
            0 => fit,
            tile => fit.min(tile),
        }
    }

    /// As [`Shape::fit_in`], on a host where reservations leave `free`: an exclusive request needs
    /// all of it.
    pub(super) fn slots_beside_reservations(
        &self,
        query: &HostQuery<'_>,
        usage: &HostUsage,
        free: &Bundle,
    ) -> u32 {
        match self.is_exclusive_by(query.alt) && free.slots < usage.slots {
            true => 0,
            false => self.fit_in(query, free),
        }
    }

    /// Whether only the number of slots decides: if fewer slots have no place, more slots never
    /// have one.
    pub(super) fn grows_evenly(&self) -> bool {
        self.alternatives
            .iter()
            .all(|alternative| alternative.is_plain && alternative.after_ms == 0)
    }

    /// Whether it is known that there is no place for it as long as nothing is freed after `freed`.
    pub(super) fn has_no_place(&self, on_hosts: u32, freed: u64) -> bool {
        !self.timed && self.failed_for(on_hosts, freed).is_some()
    }

    /// Slots that the queue may still use on a host.
    pub(super) fn queue_slots_left(&self, host: &HostInfo, usage: &HostUsage) -> u32 {
        let used = self.queue.map_or(0, |q| usage.queue_used(q));
        let per_core = self
            .proc_slots_milli
            .map(|milli| host.slots_of_cores(milli));
        let limit = self.host_slots.into_iter().chain(per_core).min();
        limit.map_or(u32::MAX, |limit| limit.saturating_sub(used))
    }

    /// A condition that the host does not meet, regardless of what is free.
    pub(super) fn unmet(
        &self,
        of: (usize, usize),
        view: &ClusterView<'_>,
        at: usize,
    ) -> Option<UnmetCondition> {
        let host = view.table.at(at);
        if !view
            .queue(self)
            .is_none_or(|q| q.hosts.contains(&host.name))
        {
            return Some(UnmetCondition::NotInQueue);
        }
        if !self
            .requested_hosts
            .as_ref()
            .is_none_or(|m| m.contains(&host.name))
        {
            return Some(UnmetCondition::NotAsked);
        }
        if self.is_loaded(view, at) {
            return Some(UnmetCondition::Load);
        }
        if !self.is_of_type(of, view, at) {
            return Some(UnmetCondition::Type);
        }
        (!self.selects(of, view, at)).then_some(UnmetCondition::Select)
    }

    /// Whether thresholds or the condition of the queue exclude its jobs from the host.
    fn is_loaded(&self, view: &ClusterView<'_>, at: usize) -> bool {
        view.queue(self).is_some_and(|queue| {
            (!queue.thresholds.is_empty() || self.stop.is_some())
                && thresholds::queue_excludes(
                    view.table.at(at),
                    view.usage.get(at).expected,
                    queue,
                    self.stop.as_ref(),
                )
        })
    }

    /// If the requirement does not mention types, the host must have the type of the submission
    /// host, if that is known.
    fn is_of_type(&self, (alt, part): (usize, usize), view: &ClusterView<'_>, at: usize) -> bool {
        self.alternatives[alt].parts[part].any_type
            || view
                .table
                .find_by_name(&self.sub_host)
                .is_none_or(|local| local.host_type() == view.table.at(at).host_type())
    }

    fn selects(&self, (alt, part): (usize, usize), view: &ClusterView<'_>, at: usize) -> bool {
        let select = self.alternatives[alt].parts[part].select.as_ref();
        select.is_none_or(|select| select.accepts(&view.facts(self, at)))
    }

    /// The part of the host's evaluation that changes only with the host itself.
    pub(super) fn static_fit(
        &self,
        of: (usize, usize),
        view: &ClusterView<'_>,
        at: usize,
    ) -> StaticFit {
        let name = &view.table.at(at).name;
        let listed = view.queue(self).is_none_or(|q| q.hosts.contains(name));
        let is_requested = || {
            self.requested_hosts
                .as_ref()
                .is_none_or(|m| m.contains(name))
        };
        StaticFit {
            serves: listed && is_requested() && self.is_of_type(of, view, at),
            preference: self.preference(view, name),
            ..StaticFit::default()
        }
    }

    /// Whether the host could ever serve a part of an alternative, regardless of its load.
    pub(super) fn could_ever_fit(&self, alt: usize, view: &ClusterView<'_>, at: usize) -> bool {
        let mut parts = 0..self.alternatives[alt].parts.len();
        let passing = |condition: UnmetCondition| condition == UnmetCondition::Load;
        parts.any(|part| self.unmet((alt, part), view, at).is_none_or(passing))
    }

    /// Whether the host could serve a part of some alternative, regardless of what is free.
    pub(super) fn could_fit(&self, view: &ClusterView<'_>, at: usize) -> bool {
        let mut alternatives = self.alternatives.iter().enumerate();
        alternatives.any(|(alt, alternative)| {
            let mut parts = 0..alternative.parts.len();
            parts.any(|part| self.unmet((alt, part), view, at).is_none())
        })
    }

    /// Whether only slots matter and there is one alternative: growth and forced starts support
    /// nothing else.
    pub(super) fn is_simple(&self) -> bool {
        self.alternatives.len() == 1 && self.grows_evenly()
    }

    /// Whether all slots must be on one host.
    pub(super) fn one_host(&self) -> bool {
        self.alternatives[0].parts[0].spread.one_host()
    }

    /// This many slots on each host, the rest on the last.
    pub(super) fn slots_per_host(&self) -> Option<u32> {
        Some(self.alternatives[0].parts[0].spread.tile).filter(|n| *n > 0)
    }

    pub(super) fn preference(&self, view: &ClusterView<'_>, host: &str) -> u32 {
        let preference = match (&self.requested_hosts, view.queue(self)) {
            (Some(asked), _) => asked.preference(host),
            (None, Some(queue)) => queue.hosts.preference(host),
            (None, None) => Some(0),
        };
        preference.unwrap_or(0)
    }

    /// The host's entry among those that could take at least one slot of a part now.
    pub(super) fn candidate(
        &self,
        (alt, part): (usize, usize),
        view: &ClusterView<'_>,
        at: usize,
        lasting: &StaticFit,
    ) -> Option<Candidate> {
        let usage = view.usage.get(at);
        let free = self.free(usage);
        if !lasting.serves
            || !usage.open
            || free <= 0
            || self.fit(&HostQuery::new(alt, part, &TrialUse::default()), view, at) == 0
            || self.is_loaded(view, at)
            || !self.selects((alt, part), view, at)
        {
            return None;
        }
        let order = self.alternatives[alt].parts[part].order.as_ref();
        let keys = order.map(|order| {
            let facts = view.facts(self, at);
            let keys = order.keys.iter().map(|key| sort_key(key, &facts, view));
            keys.collect()
        });
        let strict = order.is_some_and(|order| order.strict);
        Some(Candidate {
            preference: if strict { 0 } else { lasting.preference },
            keys,
            fullness: match self.packing {
                _ if strict => 0,
                Packing::Pack => -self.free_after_start((alt, part), view, (usage, free)),
                Packing::Spread => free,
                Packing::Fit | Packing::Frag => -self.cost((alt, part), view, at),
            },
            position: at as u32,
            version: usage.version,
        })
    }

    /// What a start leaves free on a host, for `packing: pack`; less means fuller. Jobs that
    /// request only slots are ranked by slots if no job requests units.
    fn free_after_start(
        &self,
        (alt, part): (usize, usize),
        view: &ClusterView<'_>,
        (usage, free): (&HostUsage, i64),
    ) -> i64 {
        let plain = self.alternatives[alt].rusage().next().is_none();
        if plain && view.names.with_units().next().is_none() {
            return free;
        }
        free_after(
            usage,
            view,
            &self.least_start((alt, part)),
            RankedResources::Requested,
        )
    }

    /// The smallest start of a part on a host.
    fn least_start(&self, (alt, part): (usize, usize)) -> TrialUse {
        let mut trial_use = TrialUse::default();
        let slots = match self.alternatives[alt].is_plain {
            true => self.request.min.max(1),
            false => 1,
        };
        trial_use.add_slots(&self.alternatives[alt], part, slots, true, 0);
        trial_use
    }

    /// What the smallest start of a part costs on a host; less is better.
    fn cost(&self, which: (usize, usize), view: &ClusterView<'_>, at: usize) -> i64 {
        let trial_use = self.least_start(which);
        let usage = view.usage.get(at);
        let left = free_after(usage, view, &trial_use, RankedResources::All);
        if self.packing != Packing::Frag {
            return left;
        }
        // Among starts with the same loss, the best fit.
        let lost = view
            .demand
            .score(at, usage, (&trial_use.bundle, trial_use.units()));
        lost.saturating_mul(1 << 24)
            .saturating_add(left.min((1 << 24) - 1))
    }

    /// Whether its alternatives compete for the best host, instead of being tried in order.
    pub(super) fn alternatives_compete(&self) -> bool {
        let by_cost = matches!(self.packing, Packing::Fit | Packing::Frag);
        let free = |alternative: &Alternative| {
            alternative.is_plain && alternative.parts[0].spread.tile == 0
        };
        by_cost && self.alternatives.len() > 1 && self.alternatives.iter().all(free)
    }

    /// The failed search of jobs to which the same host limits apply, if nothing was freed since.
    pub(super) fn failed_for(&self, on_hosts: u32, freed: u64) -> Option<&FailedSearch> {
        let alike = |failed: &&FailedSearch| failed.on_hosts == on_hosts;
        let failed = self.failed.iter().find(alike);
        failed.filter(|failed| failed.log_position >= freed)
    }

    /// Records that no place was found for such jobs.
    pub(super) fn fail(&mut self, new: FailedSearch) {
        self.failed.retain(|old| old.on_hosts != new.on_hosts);
        self.failed.insert(0, new);
        self.failed.truncate(MANY_RANKS);
    }

    /// Takes out the ranking of a part, brought up to date.
    pub(super) fn take_rank(
        &mut self,
        (alt, part): (usize, usize),
        view: &ClusterView<'_>,
        limit_group: LimitGroup,
    ) -> Box<Ranking> {
        let ranks = &mut self.alternatives[alt].parts[part].ranks;
        let known = ranks.iter().position(|(of, _)| *of == limit_group.on_hosts);
        let mut rank = known.map_or_else(Default::default, |at| ranks.remove(at).1);
        let judge = PartJudge {
            shape: self,
            of: (alt, part),
            view,
        };
        let (version, eased_at) = (view.demand.version, limit_group.eased_at);
        rank.refresh(&judge, view.usage, version, eased_at);
        rank
    }

    pub(super) fn put_rank(
        &mut self,
        (alt, part): (usize, usize),
        rank: Box<Ranking>,
        limit_group: LimitGroup,
    ) {
        let ranks = &mut self.alternatives[alt].parts[part].ranks;
        ranks.insert(0, (limit_group.on_hosts, rank));
        ranks.truncate(MANY_RANKS);
    }
}

/// Queues whose stopped jobs lend slots to jobs of this one: those that it may preempt, those that
/// they may preempt, and so on.
fn lending_queues(config: &Config, queue: usize) -> SmallVec<[u16; 2]> {
    let mut all: SmallVec<[u16; 2]> = SmallVec::new();
    let mut next = vec![queue];
    while let Some(at) = next.pop() {
        let rules = config.queues[at].preemption.iter();
        for theirs in rules.flat_map(|rules| &rules.victims) {
            let found = config.queues.iter().position(|q| q.name == theirs.queue);
            let new = found.filter(|at| *at != queue && !all.contains(&(*at as u16)));
            if let Some(at) = new {
                all.push(at as u16);
                next.push(at);
            }
        }
    }
    all
}

/// A part of an alternative that evaluates hosts for its ranking.
struct PartJudge<'a> {
    shape: &'a Shape,
    of: (usize, usize),
    view: &'a ClusterView<'a>,
}

impl HostJudge for PartJudge<'_> {
    fn static_fit(&self, at: usize) -> StaticFit {
        self.shape.static_fit(self.of, self.view, at)
    }

    fn candidate(&self, at: usize, lasting: &StaticFit) -> Option<Candidate> {
        self.shape.candidate(self.of, self.view, at, lasting)
    }
}

/// A search that found no place, for all jobs to which the same host limits apply.
#[derive(Clone, Debug)]
pub(super) struct FailedSearch {
    pub on_hosts: u32,
    /// Position in the log of changed hosts.
    pub log_position: u64,
    pub shortfall: Shortfall,
    /// Alternatives that were open at that time.
    pub open: usize,
    /// The limit that prevented the start.
    pub over_limit: Option<Blocked>,
}

/// Maximum number of rankings and failures that are kept of one part.
const MANY_RANKS: usize = 16;

/// A host's value of an `order[]` key, converted so that smaller is better; a missing value comes
/// last.
fn sort_key(key: &OrderKey, facts: &HostValues<'_>, view: &ClusterView<'_>) -> i64 {
    let less_is_better = view
        .config
        .find(&key.name)
        .is_some_and(|def| def.direction == Direction::Increase);
    match (facts.number(&key.name), less_is_better != key.reverse) {
        (None, _) => i64::MAX,
        (Some(value), true) => sortable(value),
        (Some(value), false) => -sortable(value),
    }
}

/// Converts a number to an integer with the same order, in millionths.
fn sortable(value: f64) -> i64 {
    (value * 1e6).clamp(-9e18, 9e18) as i64
}

/// A condition of the request or queue that a host does not meet, regardless of what is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UnmetCondition {
    NotInQueue,
    NotAsked,
    /// Thresholds of the queue exclude the host.
    Load,
    /// The type differs from that of the submission host.
    Type,
    Select,
}

/// The data that shapes read.
pub(super) struct ClusterView<'a> {
    pub config: &'a Config,
    pub table: &'a HostTable,
    pub usage: &'a ClusterUsage,
    pub names: &'a ResourceNames,
    pub demand: &'a Demand,
}

impl<'a> ClusterView<'a> {
    pub(super) fn queue(&self, shape: &Shape) -> Option<&'a Queue> {
        shape.queue.map(|at| &self.config.queues[usize::from(at)])
    }

    pub(super) fn facts(&self, shape: &Shape, at: usize) -> HostValues<'a> {
        HostValues {
            host: self.table.at(at),
            usage: self.usage.get(at),
            names: self.names,
            config: self.config,
            local: self.table.find_by_name(&shape.sub_host),
        }
    }
}

/// A host as an expression sees it: measured values minus what is reserved.
pub(super) struct HostValues<'a> {
    pub host: &'a HostInfo,
    usage: &'a HostUsage,
    names: &'a ResourceNames,
    config: &'a Config,
    /// The submission host, if it belongs to the cluster.
    local: Option<&'a HostInfo>,
}

impl HostFacts for HostValues<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        if name == "slots" {
            return Some(self.usage.free().max(0) as f64);
        }
        let expected = thresholds::expected_load(self.host, name, self.usage.expected);
        let value = self.host.number(name)? + expected as f64 / 1000.0;
        let found = self.names.find(name);
        if let Some(res) = found.filter(|res| self.names.per_unit(*res).is_some()) {
            // A job can get what is left on one unit.
            let (left, _) = self
                .usage
                .units()
                .map_or((0, 0), |units| units.largest_free(res));
            return Some(left as f64 / 1000.0);
        }
        if found.is_some_and(|res| self.names.is_shared(res)) {
            // What jobs reserve of it is counted over all its hosts.
            return Some(value);
        }
        let taken = found.map_or(0, |res| {
            self.usage
                .reserved
                .get(usize::from(res))
                .copied()
                .unwrap_or(0)
        });
        let taken = taken as f64 / 1000.0;
        let def = self.config.find(name);
        let more_is_less = def.is_some_and(|def| def.direction == Direction::Increase);
        Some(if more_is_less {
            value + taken
        } else {
            value - taken
        })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.host.text(name)
    }

    fn tag(&self, name: &str) -> bool {
        self.host.tag(name)
    }

    fn local(&self, name: &str) -> Option<&str> {
        self.local?.text(name)
    }
}
