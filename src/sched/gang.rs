//! Chooses hosts for a request of several sections, or with conditions on its hosts as a set: all
//! or nothing. Trial bookings are kept in [`TrialBookings`], with an undo log; the usage of hosts
//! is only read.
//!
//! The most constrained section is placed first (fewest hosts that could serve it); a section that
//! finds no place is tried again before the others. The hosts of the start are in the order of the
//! sections, whatever the order of placing.

use super::compiled_request::{Alternative, TrialUse};
use super::host_ranking::{Candidate, LimitGroup, Ranking};
use super::host_sets::{self, Subset};
use super::job_terms::JobTerms;
use super::placement::{HostSlots, Shortfall};
use super::shape::{ClusterView, HostQuery, Shape, TrialHosts};
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};

/// How many times a section that did not fit is moved to the front before the request counts as not
/// fitting.
const MAX_RETRIES: usize = 8;

/// A set of hosts from which a request can be placed.
pub(super) trait CandidateHosts {
    /// The `n`-th host by rank for a part.
    fn host(&mut self, part: usize, n: usize) -> Option<u32>;
    /// Slots that a part could take on a host beside what the job already holds there in trial.
    fn fit(&self, part: usize, at: u32, trial_use: &TrialUse, first: bool) -> u32;
    /// How many of these slots this particular job may have.
    fn allowed(&mut self, part: usize, at: u32, trial: &HashMap<u32, TrialUse>, first: bool)
    -> u32;
    /// All slots of a host, used ones included.
    fn all_slots(&self, at: u32) -> u32;
    /// Whether a host can be used exclusively.
    fn empty(&self, at: u32) -> bool;
}

/// Trial bookings of one job.
#[derive(Default)]
struct TrialBookings {
    by_host: HashMap<u32, TrialUse>,
    /// The previous uses of hosts, oldest first.
    undo: Vec<(u32, Option<TrialUse>)>,
}

impl TrialBookings {
    fn at(&self, at: u32) -> TrialUse {
        self.by_host.get(&at).cloned().unwrap_or_default()
    }

    fn add(&mut self, request: &Alternative, part: usize, at: u32, slots: u32, first: bool) {
        self.undo.push((at, self.by_host.get(&at).cloned()));
        let trial_use = self.by_host.entry(at).or_default();
        trial_use.add_slots(request, part, slots, first, 0);
    }

    fn roll_back(&mut self, to: usize) {
        for (at, before) in self.undo.drain(to..).rev() {
            match before {
                Some(trial_use) => self.by_host.insert(at, trial_use),
                None => self.by_host.remove(&at),
            };
        }
    }
}

/// One search.
struct GangSearch<'a, F> {
    request: &'a Alternative,
    candidates: &'a mut F,
    view: &'a ClusterView<'a>,
    /// Maximum number of slots of the only part of a request without sections.
    most: u32,
    trial: TrialBookings,
}

/// Finds a placement; returns hosts and slots in the order of parts.
///
/// # Errors
/// The part that fell short, and how far it got.
pub(super) fn search(
    request: &Alternative,
    candidates: &mut impl CandidateHosts,
    view: &ClusterView<'_>,
    most: u32,
) -> Result<HostSlots, Shortfall> {
    let mut search = GangSearch {
        request,
        candidates,
        view,
        most,
        trial: TrialBookings::default(),
    };
    search.run()
}

impl<F: CandidateHosts> GangSearch<'_, F> {
    fn run(&mut self) -> Result<HostSlots, Shortfall> {
        let request = self.request;
        if request.same.is_empty() && request.cu.is_none() {
            return self.all_parts(None);
        }
        let mut all: Vec<u32> = Vec::new();
        for part in 0..request.parts.len() {
            all.extend(self.listed(part, None));
        }
        let mut known = std::collections::HashSet::new();
        all.retain(|at| known.insert(*at));
        let need = request.slots_min();
        let sets = self.subsets(&request.same, request.cu.as_ref(), &all, need, usize::MAX);
        let mut worst = None;
        for set in sets {
            match self.all_parts(Some(&set)) {
                Ok(placed) => return Ok(placed),
                Err(short) => worst.get_or_insert(short),
            };
        }
        Err(worst.unwrap_or_default())
    }

    /// Hosts of a part by rank, within a subset.
    fn listed(&mut self, part: usize, within: Option<&Subset>) -> Vec<u32> {
        let mut list = Vec::new();
        while let Some(at) = self.candidates.host(part, list.len()) {
            list.push(at);
        }
        match within {
            None => list,
            Some(set) => set.order(&list),
        }
    }

    /// Sets of hosts to try one after the other, taken from `all` in the order of rank. What each
    /// offers is counted for `part`, or as free slots if there are several parts.
    fn subsets(
        &mut self,
        same: &[String],
        cu: Option<&crate::text::resreq::Cu>,
        all: &[u32],
        need: u32,
        part: usize,
    ) -> Vec<Subset> {
        let offer = |at: &u32| {
            let slots = match part {
                usize::MAX => {
                    let parts = 0..self.request.parts.len();
                    parts
                        .map(|p| self.candidates.fit(p, *at, &TrialUse::default(), false))
                        .max()
                }
                part => Some(self.candidates.fit(part, *at, &self.trial.at(*at), false)),
            };
            (*at, slots.unwrap_or(0))
        };
        let offers: Vec<(u32, u32)> = all.iter().map(offer).collect();
        let mut sets = host_sets::sets_with_equal_values(self.view.table, same, &offers, need);
        if let Some(cu) = cu {
            let (table, empty) = (self.view.table, |at: u32| self.candidates.empty(at));
            let units = |set: Subset| {
                host_sets::sets_of_units(table, cu, &set.offers_within(&offers), need, empty)
            };
            sets = sets.into_iter().flat_map(units).collect();
        }
        sets
    }

    /// Places all parts within a set of hosts.
    fn all_parts(&mut self, within: Option<&Subset>) -> Result<HostSlots, Shortfall> {
        let mut order: Vec<usize> = (0..self.request.parts.len()).collect();
        if order.len() > 1 {
            let count_hosts = |part: usize, search: &mut Self| search.listed(part, within).len();
            let counts: Vec<usize> = order.iter().map(|p| count_hosts(*p, self)).collect();
            order.sort_by_key(|part| counts[*part]);
        }
        let mut retries = MAX_RETRIES.min(order.len());
        loop {
            self.trial.roll_back(0);
            match self.in_order(&order, within) {
                Ok(placed) => return Ok(placed),
                Err(short) => {
                    let at = order.iter().position(|p| *p == usize::from(short.part));
                    let at = at.expect("a part of this request");
                    if at == 0 || retries == 0 {
                        return Err(short);
                    }
                    retries -= 1;
                    order[..=at].rotate_right(1);
                }
            }
        }
    }

    fn in_order(
        &mut self,
        order: &[usize],
        within: Option<&Subset>,
    ) -> Result<HostSlots, Shortfall> {
        let mut picks: Vec<HostSlots> = vec![HostSlots::new(); self.request.parts.len()];
        let units = within.filter(|set| !set.units.is_empty());
        let mut left = units.map(|set| shares(self.request.slots_min(), set.units.len()));
        for part in order {
            let found = match (&mut left, units) {
                (Some(left), Some(set)) => self.by_shares(*part, set, left),
                _ => self.place_part(*part, within),
            };
            picks[*part] = found.map_err(|slots_found| Shortfall {
                found: slots_found,
                part: u16::try_from(*part).expect("a request has at most 100 sections"),
                ..Shortfall::default()
            })?;
        }
        Ok(picks.into_iter().flatten().collect())
    }

    /// Places one part beside those placed before. On failure returns the number of slots it found.
    fn place_part(&mut self, part: usize, within: Option<&Subset>) -> Result<HostSlots, u32> {
        let wanted = &self.request.parts[part];
        if wanted.same.is_empty() && wanted.cu.is_none() {
            return self.spread(part, within);
        }
        let all = self.listed(part, within);
        let cu = wanted.cu.as_ref();
        let (mut best, mark) = (0, self.trial.undo.len());
        for set in self.subsets(&wanted.same, cu, &all, wanted.min, part) {
            let found = match cu.is_some_and(|cu| cu.balance) {
                true => self.balanced(part, &set),
                false => self.spread(part, Some(&set)),
            };
            match found {
                Ok(placed) => return Ok(placed),
                Err(slots_found) => best = best.max(slots_found),
            }
            self.trial.roll_back(mark);
        }
        Err(best)
    }

    /// Slots of one of several parts, taken from what is left of each unit's share of all parts.
    fn by_shares(&mut self, part: usize, set: &Subset, left: &mut [u32]) -> Result<HostSlots, u32> {
        let min = self.request.parts[part].min;
        let all = self.listed(part, Some(set));
        let mut placed = HostSlots::new();
        let mut slots_found = 0;
        for (unit, left) in set.units.iter().zip(left) {
            let want = (min - slots_found).min(*left);
            if want == 0 || self.request.parts[part].spread.one_host() && want < min {
                continue;
            }
            let list: Vec<u32> = all.iter().copied().filter(|at| unit.contains(at)).collect();
            let mark = self.trial.undo.len();
            let mut walk = |slots: u32| {
                self.trial.roll_back(mark);
                let mut list = list.iter().copied();
                self.take_best_first(part, (slots, slots), slots_found == 0, |_: &mut F| {
                    list.next()
                })
            };
            let found = match walk(want) {
                // Take as much as there is.
                Err(less) if less > 0 => walk(less),
                found => found,
            };
            match found {
                Ok(some) => {
                    let slots: u32 = some.iter().map(|(_, n)| n).sum();
                    (slots_found, *left) = (slots_found + slots, *left - slots);
                    placed.extend(some);
                }
                Err(_) => self.trial.roll_back(mark),
            }
        }
        if slots_found == min {
            Ok(placed)
        } else {
            Err(slots_found)
        }
    }

    /// The same number of slots in each unit of the set.
    fn balanced(&mut self, part: usize, set: &Subset) -> Result<HostSlots, u32> {
        let shares = shares(self.request.parts[part].min, set.units.len());
        let mut placed = HostSlots::new();
        for (share, unit) in shares.into_iter().zip(&set.units) {
            let mut list = set.order(unit).into_iter();
            let walk = |_: &mut F| list.next();
            placed.extend(self.take_best_first(part, (share, share), placed.is_empty(), walk)?);
        }
        Ok(placed)
    }

    /// Places a part according to its span.
    fn spread(&mut self, part: usize, within: Option<&Subset>) -> Result<HostSlots, u32> {
        let wanted = &self.request.parts[part];
        let (spread, min) = (wanted.spread, wanted.min);
        let most = match self.request.parts.len() {
            1 => self.most.min(wanted.max).max(min),
            _ => min,
        };
        if spread.hosts_max > 1 {
            return self.on_hosts(part, (min, most), within);
        }
        if spread.stride > 0 {
            return self.take_in_turn(part, (min, most), within);
        }
        match within {
            Some(_) => {
                let mut list = self.listed(part, within).into_iter();
                self.take_best_first(part, (min, most), true, |_| list.next())
            }
            None => {
                let mut n = 0;
                self.take_best_first(part, (min, most), true, |candidates| {
                    n += 1;
                    candidates.host(part, n - 1)
                })
            }
        }
    }

    /// Slots that a part may take on a host now.
    fn allowed(&mut self, part: usize, at: u32, first: bool) -> u32 {
        self.candidates
            .allowed(part, at, &self.trial.by_host, first)
    }

    /// Takes the best hosts first, with as many slots on each as the span allows.
    fn take_best_first(
        &mut self,
        part: usize,
        (min, most): (u32, u32),
        mut first: bool,
        mut next: impl FnMut(&mut F) -> Option<u32>,
    ) -> Result<HostSlots, u32> {
        let spread = self.request.parts[part].spread;
        let mut placed = HostSlots::new();
        let mut found = 0;
        // Better hosts that cannot be the first host, but may be later ones.
        let mut later: VecDeque<u32> = VecDeque::new();
        while found < most {
            let deferred = if first { None } else { later.pop_front() };
            let Some(at) = deferred.or_else(|| next(self.candidates)) else {
                break;
            };
            let may = self.allowed(part, at, first);
            if may == 0 && first && self.allowed(part, at, false) > 0 {
                later.push_back(at);
                continue;
            }
            let tile = match spread.whole_hosts {
                true => self.candidates.all_slots(at),
                false => spread.tile,
            };
            let mut take = may.min(most - found);
            if tile > 0 {
                take = take.min(tile);
            }
            if spread.block > 0 && take < most - found {
                take = take / spread.block * spread.block;
            }
            let rest = min.saturating_sub(found);
            let enough = match spread.one_host() {
                true => min,
                false => tile.min(rest).max(1),
            };
            if take < enough {
                continue;
            }
            self.trial.add(self.request, part, at, take, first);
            placed.push((at, take));
            (found, first) = (found + take, false);
            if spread.one_host() {
                break;
            }
        }
        if found >= min { Ok(placed) } else { Err(found) }
    }

    /// Places a part on a number of hosts between a minimum and a maximum.
    fn on_hosts(
        &mut self,
        part: usize,
        (min, most): (u32, u32),
        within: Option<&Subset>,
    ) -> Result<HostSlots, u32> {
        let spread = self.request.parts[part].spread;
        let mut offers = Vec::new();
        for at in self.listed(part, within) {
            let slots = self.allowed(part, at, false);
            offers.push((at, slots.min(most)));
        }
        offers.retain(|(_, slots)| *slots > 0);
        let mut selected = host_sets::few_offers(&offers, spread.hosts_max as usize, min)?;
        if let Some(at) = selected
            .iter()
            .position(|(at, _)| self.allowed(part, *at, true) > 0)
        {
            // The first host also takes the amounts that count once for the job.
            let host = selected.remove(at);
            selected.insert(0, host);
        }
        let mut placed = HostSlots::new();
        let mut found = 0;
        for (n, (at, slots)) in (1u32..).zip(selected) {
            let reserved = spread.hosts_min.saturating_sub(n);
            let take = slots.min((most - found).saturating_sub(reserved));
            if take > 0 && self.allowed(part, at, n == 1) >= take {
                self.trial.add(self.request, part, at, take, n == 1);
                placed.push((at, take));
                found += take;
            }
        }
        let hosts = u32::try_from(placed.len()).unwrap_or(u32::MAX);
        match found >= min && hosts >= spread.hosts_min {
            true => Ok(placed),
            false => Err(found.min(min - 1)),
        }
    }

    /// Takes some slots on each host in turn until there are enough.
    fn take_in_turn(
        &mut self,
        part: usize,
        (min, most): (u32, u32),
        within: Option<&Subset>,
    ) -> Result<HostSlots, u32> {
        let stride = self.request.parts[part].spread.stride;
        let list = self.listed(part, within);
        let mut placed = HostSlots::new();
        let mut found = 0;
        let mut exhausted = vec![false; list.len()];
        loop {
            let before = found;
            for (n, at) in list.iter().enumerate() {
                let want = stride.min(most - found);
                if want == 0 || exhausted[n] {
                    continue;
                }
                let may = self.allowed(part, *at, found == 0);
                if may < want.min(min.saturating_sub(found).max(1)) {
                    exhausted[n] = true;
                    continue;
                }
                let take = may.min(want);
                self.trial.add(self.request, part, *at, take, found == 0);
                match placed.last_mut() {
                    Some((last, slots)) if last == at => *slots += take,
                    _ => placed.push((*at, take)),
                }
                found += take;
            }
            if found == before || found >= most {
                break;
            }
        }
        if found >= min { Ok(placed) } else { Err(found) }
    }
}

/// Splits slots as evenly as possible, the larger shares first.
fn shares(need: u32, units: usize) -> Vec<u32> {
    let units = u32::try_from(units).expect("fewer than 2^32 hosts").max(1);
    let share = |n: u32| need / units + u32::from(n < need % units);
    (0..units).map(share).collect()
}

/// The hosts of a shape with their current usage.
struct CurrentHosts<'a, 'b> {
    shape: &'a Shape,
    alt: usize,
    view: &'a ClusterView<'a>,
    terms: &'a mut JobTerms<'b>,
    ranks: SmallVec<[Box<Ranking>; 2]>,
    /// Candidates taken out of the ranking so far.
    taken_out: Vec<Vec<Candidate>>,
}

impl CandidateHosts for CurrentHosts<'_, '_> {
    fn host(&mut self, part: usize, n: usize) -> Option<u32> {
        while self.taken_out[part].len() <= n {
            let next = self.ranks[part].pop(self.view.usage)?;
            self.taken_out[part].push(next);
        }
        Some(self.taken_out[part][n].position)
    }

    fn fit(&self, part: usize, at: u32, trial_use: &TrialUse, first: bool) -> u32 {
        let query = HostQuery {
            first,
            ..HostQuery::new(self.alt, part, trial_use)
        };
        self.shape.fit(&query, self.view, at as usize)
    }

    fn allowed(
        &mut self,
        part: usize,
        at: u32,
        trial: &HashMap<u32, TrialUse>,
        first: bool,
    ) -> u32 {
        let none = TrialUse::default();
        let query = HostQuery {
            first,
            trial_hosts: TrialHosts::Uses(trial),
            ..HostQuery::new(self.alt, part, trial.get(&at).unwrap_or(&none))
        };
        let can = self.shape.fit(&query, self.view, at as usize);
        (self.terms.room)(self.shape, &query, at as usize, can)
    }

    fn all_slots(&self, at: u32) -> u32 {
        self.view.table.at(at as usize).slots
    }

    fn empty(&self, at: u32) -> bool {
        self.shape
            .may_be_exclusive(self.alt, self.view.usage.get(at as usize))
    }
}

/// Finds hosts for an alternative of a request among the resources that are free now.
///
/// # Errors
/// The part that fell short, and how far it got.
pub(super) fn find(
    shape: &mut Shape,
    alt: usize,
    view: &ClusterView<'_>,
    terms: &mut JobTerms<'_>,
) -> Result<HostSlots, Shortfall> {
    let parts = shape.alternatives[alt].parts.len();
    let ranks = (0..parts)
        .map(|part| shape.take_rank((alt, part), view, LimitGroup::default()))
        .collect();
    let most = terms.most;
    let mut current = CurrentHosts {
        shape,
        alt,
        view,
        terms,
        ranks,
        taken_out: vec![Vec::new(); parts],
    };
    let found = search(&shape.alternatives[alt], &mut current, view, most);
    let (ranks, taken_out) = (current.ranks, current.taken_out);
    for (part, (mut rank, taken_out)) in ranks.into_iter().zip(taken_out).enumerate() {
        rank.put_back(taken_out);
        shape.put_rank((alt, part), rank, LimitGroup::default());
    }
    found
}

/// What hosts offer a request at some time, best first: host, slots, amounts.
pub(super) type Offers<'a> = &'a [(u32, super::amount::Bundle)];

/// The hosts of a shape as a timeline predicts them.
struct PredictedHosts<'a> {
    shape: &'a Shape,
    alt: usize,
    view: &'a ClusterView<'a>,
    free: HashMap<u32, &'a super::amount::Bundle>,
    lists: Vec<Vec<u32>>,
}

impl CandidateHosts for PredictedHosts<'_> {
    fn host(&mut self, part: usize, n: usize) -> Option<u32> {
        self.lists[part].get(n).copied()
    }

    fn fit(&self, part: usize, at: u32, trial_use: &TrialUse, first: bool) -> u32 {
        let query = HostQuery {
            first,
            ..HostQuery::new(self.alt, part, trial_use)
        };
        self.free
            .get(&at)
            .map_or(0, |free| self.shape.fit_in(&query, free))
    }

    fn allowed(
        &mut self,
        part: usize,
        at: u32,
        trial: &HashMap<u32, TrialUse>,
        first: bool,
    ) -> u32 {
        let none = TrialUse::default();
        self.fit(part, at, trial.get(&at).unwrap_or(&none), first)
    }

    fn all_slots(&self, at: u32) -> u32 {
        self.view.table.at(at as usize).slots
    }

    /// As with `-x`: a timeline does not show which other jobs are there.
    fn empty(&self, _at: u32) -> bool {
        true
    }
}

/// Chooses hosts for an alternative of a request from the offers, for reservations. Returns the
/// hosts in the order of parts.
pub(super) fn choose(
    shape: &Shape,
    alt: usize,
    view: &ClusterView<'_>,
    offers: Offers<'_>,
) -> Option<HostSlots> {
    let request = &shape.alternatives[alt];
    let fits = |part: usize, at: u32| shape.unmet((alt, part), view, at as usize).is_none();
    let list = |part: usize| {
        let all = offers.iter().map(|(at, _)| *at);
        all.filter(|at| fits(part, *at)).collect()
    };
    let mut predicted = PredictedHosts {
        shape,
        alt,
        view,
        free: offers.iter().map(|(at, free)| (*at, free)).collect(),
        lists: (0..request.parts.len()).map(list).collect(),
    };
    search(request, &mut predicted, view, request.slots_min()).ok()
}
