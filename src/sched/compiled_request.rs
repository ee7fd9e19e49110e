//! A requirement compiled for placing: its alternatives in the order they are tried, each with
//! its parts (sections) and what they reserve. Owns what a start takes on each host, at its
//! beginning and as reservations end or shrink with time; never reads a host.
//!
//! An alternative fixes everything: one side of the requirement, of each `select[a, b]` and of each
//! `rusage[a || b]`. `request_compiler.rs` makes the alternatives and owns their order.

use super::amount::Bundle;
use super::host_ranking::Ranking;
use super::host_usage::ResourceId;
use super::units::{HostUnits, UNIT, UNIT_AMOUNTS_MAX, UnitRequest};
use crate::config::require::Request;
use crate::text::resreq::{Cu, Order, Select, Span};
use smallvec::SmallVec;
use std::collections::HashMap;

/// A decreasing reservation is updated in this many steps, but at most once a second.
const FADE_STEPS: u64 = 100;

/// The unit per which an amount is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RusagePer {
    /// Each slot.
    Slot,
    /// Each host, regardless of the number of its slots.
    Host,
    /// Only the first host of the part.
    Job,
}

/// One reserved amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RusageItem {
    pub res: ResourceId,
    /// Thousandths at the start of the job.
    pub amount: i64,
    pub per: RusagePer,
    /// Milliseconds after the start at which the reservation ends; `None`: when the job ends.
    pub life_ms: Option<u64>,
    /// The amount decreases linearly to zero over its life.
    pub decay: bool,
    /// Its relation to units that are assigned one by one.
    pub unit: UnitUse,
}

/// The relation of a reserved amount to units that are assigned one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitUse {
    No,
    /// It requests units, and of each unit these amounts of its resources; 0 = none.
    Units([(ResourceId, i64); UNIT_AMOUNTS_MAX]),
    /// It is the total of an amount that another item requests of each unit; the amount per unit.
    OfEach(i64),
}

impl RusageItem {
    /// Length of the steps in which the amount decreases.
    fn step_ms(life: u64) -> u64 {
        (life / FADE_STEPS).max(1000)
    }

    /// The thousandths that are still reserved `elapsed_ms` after the start.
    pub(super) fn amount_at(&self, elapsed_ms: u64) -> i64 {
        let Some(life) = self.life_ms else {
            return self.amount;
        };
        if elapsed_ms >= life {
            return 0;
        }
        if !self.decay {
            return self.amount;
        }
        let step = RusageItem::step_ms(life);
        let left = life - elapsed_ms / step * step;
        let left = i128::from(self.amount) * i128::from(left);
        let milli = (left + i128::from(life) - 1) / i128::from(life);
        i64::try_from(milli).expect("no more than the whole amount")
    }

    /// The units that it requests, `n` times.
    pub(super) fn units(&self, n: u32) -> Option<UnitRequest> {
        let UnitUse::Units(amounts) = self.unit else {
            return None;
        };
        let whole = u32::try_from(self.amount / UNIT).unwrap_or(u32::MAX);
        Some(UnitRequest {
            res: self.res,
            count: whole.max(1).saturating_mul(n),
            part: self.amount.min(UNIT),
            amounts,
        })
    }

    /// The time of the next change of the amount, in milliseconds after the start.
    fn next_change(&self, elapsed_ms: u64) -> Option<u64> {
        let life = self.life_ms.filter(|life| elapsed_ms < *life)?;
        let step = RusageItem::step_ms(life);
        Some(match self.decay {
            true => life.min((elapsed_ms / step + 1) * step),
            false => life,
        })
    }
}

/// How the slots of a part are spread over hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spread {
    /// Minimum and maximum number of hosts; 0 = any number.
    pub hosts_min: u32,
    pub hosts_max: u32,
    /// This many slots on each host, the rest on the last; 0 = any number.
    pub tile: u32,
    /// All slots of each host, the rest on the last.
    pub whole_hosts: bool,
    /// Slots in blocks of this size; 0 = no blocks.
    pub block: u32,
    /// This many slots on each host in turn; 0 = not in turn.
    pub stride: u32,
}

impl Spread {
    pub(super) fn of(span: Option<Span>) -> Spread {
        let mut spread = Spread::default();
        match span {
            Some(Span::Hosts { min, max }) => (spread.hosts_min, spread.hosts_max) = (min, max),
            Some(Span::Ptile(n)) => spread.tile = n,
            Some(Span::PtileAll) => spread.whole_hosts = true,
            Some(Span::Block(n)) => spread.block = n,
            Some(Span::Stride(n)) => spread.stride = n,
            Some(Span::Free) | None => {}
        }
        spread
    }

    /// All on one host.
    pub(super) fn one_host(&self) -> bool {
        self.hosts_max == 1
    }
}

/// A group of slots with the same requirement.
#[derive(Debug, Default)]
pub(super) struct RequestPart {
    pub min: u32,
    pub max: u32,
    pub select: Option<Select>,
    /// The requirement mentions types or tags, so hosts of any type are allowed.
    pub any_type: bool,
    pub order: Option<Order>,
    pub rusage: SmallVec<[RusageItem; 2]>,
    /// The job's common reservations that apply to it, as bits.
    pub common: u64,
    pub spread: Spread,
    pub same: Vec<String>,
    pub cu: Option<Cu>,
    /// Rankings of the hosts that could serve it, by the host limits that apply; the last used one
    /// first.
    pub ranks: Vec<(u32, Box<Ranking>)>,
    /// The text as written, for messages: what is inside `4{...}`.
    pub text: String,
}

/// One alternative of a requirement: everything that a placement by it needs.
#[derive(Debug, Default)]
pub(super) struct Alternative {
    /// Milliseconds for which the job must have waited.
    pub after_ms: u64,
    /// It has one part and no condition on the set of hosts as a whole.
    pub is_plain: bool,
    /// At least one, in the order of their hosts.
    pub parts: SmallVec<[RequestPart; 1]>,
    /// Reserved once for each host of the job, if a part on the host has the reservation.
    pub common: SmallVec<[RusageItem; 1]>,
    /// Resources in which all hosts of several parts must agree.
    pub same: Vec<String>,
    pub cu: Option<Cu>,
    /// No other job may use its compute units (`cu[excl]`).
    pub compute_units_alone: bool,
    /// What the request as a whole takes for each slot, and the minimum beside that.
    pub needs: (Bundle, Bundle),
    /// It reserves resources whose units are assigned one by one.
    pub units: bool,
    /// It may take more than that: amounts count once for each host, and there may be several
    /// hosts.
    pub adds_up: bool,
}

/// Host (`None`: it was removed from the cluster) and slots.
pub(super) type Share = (Option<u32>, u32);

impl Alternative {
    /// An alternative that requests only slots, for a request that cannot be parsed.
    pub(super) fn slots_only(request: &Request) -> Alternative {
        let part = RequestPart {
            min: request.min.max(1),
            max: request.max.max(1),
            ..RequestPart::default()
        };
        Alternative {
            is_plain: true,
            parts: SmallVec::from_iter([part]),
            ..Alternative::default()
        }
    }

    /// Whether it suffices to take hosts in the order of their ranks: one part, no spread, no
    /// agreement.
    pub(super) fn is_plain(&self) -> bool {
        let [part] = &self.parts[..] else {
            return false;
        };
        let spread = &part.spread;
        let odd =
            spread.hosts_max > 1 || spread.whole_hosts || spread.block > 0 || spread.stride > 0;
        let job = part.rusage.iter().any(|w| w.per == RusagePer::Job);
        !odd && !job && part.same.is_empty() && part.cu.is_none()
    }

    pub(super) fn slots_min(&self) -> u32 {
        self.parts.iter().map(|p| p.min).sum()
    }

    pub(super) fn may_add_up(&self) -> bool {
        let one = |part: &RequestPart| part.max == 1 || part.spread.one_host();
        let one_host = self.parts.len() == 1 && one(&self.parts[0]);
        let by_host =
            |part: &RequestPart| part.rusage.iter().any(|item| item.per == RusagePer::Host);
        !one_host && (!self.common.is_empty() || self.parts.iter().any(by_host))
    }

    pub(super) fn least(&self) -> (Bundle, Bundle) {
        let (mut each, mut fixed) = (Bundle::default(), Bundle::default());
        let one = self.parts.len() == 1;
        for part in &self.parts {
            for item in &part.rusage {
                match item.per {
                    RusagePer::Slot if one => add(&mut each, item, 1, 0),
                    RusagePer::Slot => add(&mut fixed, item, i64::from(part.min), 0),
                    RusagePer::Host | RusagePer::Job => add(&mut fixed, item, 1, 0),
                }
            }
        }
        self.common
            .iter()
            .for_each(|item| add(&mut fixed, item, 1, 0));
        (each, fixed)
    }

    /// All reservations of all parts.
    pub(super) fn rusage(&self) -> impl Iterator<Item = &RusageItem> {
        let own = self.parts.iter().flat_map(|p| &p.rusage);
        own.chain(&self.common)
    }

    /// Reservations that apply once for each host of a part; of the job's common ones, only those
    /// that are not yet in `done`.
    pub(super) fn common_of(&self, part: usize, done: u64) -> impl Iterator<Item = &RusageItem> {
        let mask = self.parts[part].common & !done;
        let set = move |(n, _): &(usize, &RusageItem)| mask >> n & 1 == 1;
        self.common.iter().enumerate().filter(set).map(|(_, w)| w)
    }

    /// What `slots` slots of the first part take on one host.
    pub(super) fn bundle(&self, slots: u32) -> Bundle {
        let mut bundle = Bundle::of_slots(i64::from(slots));
        let part = &self.parts[0];
        for item in &part.rusage {
            let n = if item.per == RusagePer::Slot {
                i64::from(slots)
            } else {
                1
            };
            add(&mut bundle, item, n, 0);
        }
        bundle
    }

    /// The units that a start requests on each host; `shares` as for [`Alternative::bundles`].
    pub(super) fn unit_asks(&self, shares: &[Share]) -> Vec<(u32, Vec<UnitRequest>)> {
        let uses = self.uses(shares, 0).list.into_iter();
        uses.map(|(at, trial_use)| (at, trial_use.units)).collect()
    }

    /// What a start holds on each host `elapsed_ms` after it began; `shares` in the order of parts.
    pub(super) fn bundles(
        &self,
        shares: &[Share],
        elapsed_ms: u64,
    ) -> SmallVec<[(u32, Bundle); 1]> {
        if let ([(Some(at), slots)], 1) = (shares, self.parts.len()) {
            let mut trial_use = TrialUse::default();
            if *slots > 0 {
                trial_use.add_amounts(self, 0, (*slots, true), elapsed_ms);
                return SmallVec::from_buf([(*at, trial_use.bundle)]);
            }
        }
        let whole = |(at, trial_use): (u32, TrialUse)| (at, trial_use.bundle);
        self.uses(shares, elapsed_ms)
            .list
            .into_iter()
            .map(whole)
            .collect()
    }

    fn uses(&self, shares: &[Share], elapsed_ms: u64) -> TrialUses {
        let mut out = TrialUses::default();
        let (mut part, mut left, mut first) = (0, self.slots_of(0), true);
        for (at, slots) in shares {
            let mut slots = *slots;
            while slots > 0 {
                if left == 0 {
                    part += 1;
                    (left, first) = (self.slots_of(part), true);
                    continue;
                }
                let take = slots.min(left);
                if let Some(at) = at {
                    out.at(*at).add_slots(self, part, take, first, elapsed_ms);
                }
                (slots, left, first) = (slots - take, left - take, false);
            }
        }
        out
    }

    /// Slots that belong to a part; the last part gets all the rest.
    fn slots_of(&self, part: usize) -> u32 {
        match part + 1 < self.parts.len() {
            true => self.parts[part].min,
            false => u32::MAX,
        }
    }

    /// The time of the next change of what a start holds, in milliseconds after it began.
    pub(super) fn next_change(&self, elapsed_ms: u64) -> Option<u64> {
        self.rusage()
            .filter_map(|w| w.next_change(elapsed_ms))
            .min()
    }
}

fn add(bundle: &mut Bundle, item: &RusageItem, n: i64, elapsed_ms: u64) {
    let at = usize::from(item.res);
    let amount = item.amount_at(elapsed_ms).saturating_mul(n);
    bundle.set(at, bundle.get(at).saturating_add(amount));
}

/// What one job holds on one host.
#[derive(Clone, Debug)]
pub(super) struct TrialUse {
    pub bundle: Bundle,
    /// The last part that got slots on this host.
    part: usize,
    /// Common reservations that are already counted.
    done: u64,
    /// Requested units, with those that need the same combined.
    units: Vec<UnitRequest>,
}

impl Default for TrialUse {
    fn default() -> TrialUse {
        TrialUse {
            bundle: Bundle::default(),
            part: usize::MAX,
            done: 0,
            units: Vec::new(),
        }
    }
}

impl TrialUse {
    /// The use by a job that runs on a host: one-time amounts are already counted there.
    pub(super) fn running() -> TrialUse {
        TrialUse {
            part: 0,
            done: u64::MAX,
            ..TrialUse::default()
        }
    }

    /// The units that are requested here.
    pub(super) fn units(&self) -> &[UnitRequest] {
        &self.units
    }

    /// Counts more slots of a part. `first`: they are the first ones of the part.
    pub(super) fn add_slots(
        &mut self,
        alternative: &Alternative,
        part: usize,
        slots: u32,
        first: bool,
        elapsed_ms: u64,
    ) {
        if alternative.units {
            self.units = self
                .units_with(alternative, part, (slots, first))
                .into_vec();
        }
        self.add_amounts(alternative, part, (slots, first), elapsed_ms);
    }

    /// As [`TrialUse::add_slots`], without the units.
    fn add_amounts(
        &mut self,
        alternative: &Alternative,
        part: usize,
        (slots, first): (u32, bool),
        elapsed_ms: u64,
    ) {
        let fresh = self.part != part;
        self.bundle.slots += i64::from(slots);
        for item in &alternative.parts[part].rusage {
            match item.per {
                RusagePer::Slot => add(&mut self.bundle, item, i64::from(slots), elapsed_ms),
                RusagePer::Host if fresh => add(&mut self.bundle, item, 1, elapsed_ms),
                RusagePer::Job if first => add(&mut self.bundle, item, 1, elapsed_ms),
                RusagePer::Host | RusagePer::Job => {}
            }
        }
        for item in alternative.common_of(part, self.done) {
            add(&mut self.bundle, item, 1, elapsed_ms);
        }
        self.part = part;
        self.done |= alternative.parts[part].common;
    }

    /// The units that are requested here with more slots of a part. `first`: they are the first
    /// ones of the part.
    fn units_with(
        &self,
        alternative: &Alternative,
        part: usize,
        (slots, first): (u32, bool),
    ) -> SmallVec<[UnitRequest; 2]> {
        let fresh = self.part != part;
        let own = alternative.parts[part]
            .rusage
            .iter()
            .filter_map(|item| match item.per {
                RusagePer::Slot => item.units(slots),
                RusagePer::Host => item.units(1).filter(|_| fresh),
                RusagePer::Job => item.units(1).filter(|_| first),
            });
        let common = alternative.common_of(part, self.done);
        let mut all: SmallVec<[UnitRequest; 2]> = SmallVec::from_slice(&self.units);
        for ask in own.chain(common.filter_map(|item| item.units(1))) {
            match all.iter_mut().find(|known| known.has_same_needs(&ask)) {
                Some(known) => known.count = known.count.saturating_add(ask.count),
                None => all.push(ask),
            }
        }
        all
    }

    /// How many of `room` slots of a part the host has units for, beside what is held here.
    pub(super) fn fit_units(
        &self,
        alternative: &Alternative,
        (part, first): (usize, bool),
        room: u32,
        units: Option<&HostUnits>,
    ) -> u32 {
        let fits = |slots: u32| {
            let all = self.units_with(alternative, part, (slots, first));
            all.is_empty() || units.is_some_and(|units| units.fits(&all))
        };
        let each = alternative.parts[part].rusage.iter();
        let mut each = each.filter(|item| item.per == RusagePer::Slot);
        let grows = each.any(|item| matches!(item.unit, UnitUse::Units(_)));
        if room == 0 || !grows {
            return if room > 0 && fits(1) { room } else { 0 };
        }
        // More slots never need fewer units, so a binary search works.
        let (mut low, mut high) = (0, room.min(alternative.parts[part].max));
        while low < high {
            let half = high - (high - low) / 2;
            match fits(half) {
                true => low = half,
                false => high = half - 1,
            }
        }
        low
    }

    /// What more slots of a part take here for each slot, and the fixed amount beside that.
    pub(super) fn needs_for_more(
        &self,
        alternative: &Alternative,
        part: usize,
        first: bool,
    ) -> (Bundle, Bundle) {
        let (mut each, mut fixed) = (Bundle::default(), Bundle::default());
        for item in &alternative.parts[part].rusage {
            match item.per {
                RusagePer::Slot => add(&mut each, item, 1, 0),
                RusagePer::Host if self.part != part => add(&mut fixed, item, 1, 0),
                RusagePer::Job if first => add(&mut fixed, item, 1, 0),
                RusagePer::Host | RusagePer::Job => {}
            }
        }
        alternative
            .common_of(part, self.done)
            .for_each(|item| add(&mut fixed, item, 1, 0));
        (each, fixed)
    }

    /// How many of `room` slots of a part fit beside what is held here; `left` returns what the
    /// host has left without it.
    pub(super) fn fit(
        &self,
        alternative: &Alternative,
        part: usize,
        first: bool,
        room: u32,
        left: impl Fn(ResourceId) -> i64,
    ) -> u32 {
        let mut room = room;
        let left = |item: &RusageItem| left(item.res) - self.bundle.get(usize::from(item.res));
        for item in &alternative.parts[part].rusage {
            let due = match item.per {
                RusagePer::Slot => {
                    let fit = (left(item) / item.amount).clamp(0, i64::from(u32::MAX)) as u32;
                    room = room.min(fit);
                    false
                }
                RusagePer::Host => self.part != part,
                RusagePer::Job => first,
            };
            if due && left(item) < item.amount {
                return 0;
            }
        }
        let short = |item: &RusageItem| left(item) < item.amount;
        match alternative.common_of(part, self.done).any(short) {
            true => 0,
            false => room,
        }
    }
}

/// What a start holds on each host.
#[derive(Default)]
struct TrialUses {
    list: SmallVec<[(u32, TrialUse); 1]>,
    index: HashMap<u32, usize>,
}

impl TrialUses {
    fn at(&mut self, at: u32) -> &mut TrialUse {
        let known = match self.list.len() {
            0..=8 => self.list.iter().position(|(host, _)| *host == at),
            _ => self.index.get(&at).copied(),
        };
        let place = known.unwrap_or_else(|| {
            self.list.push((at, TrialUse::default()));
            if self.list.len() > 8 {
                let fresh = self.list.iter().enumerate().skip(self.index.len());
                self.index.extend(fresh.map(|(n, (host, _))| (*host, n)));
            }
            self.list.len() - 1
        });
        &mut self.list[place].1
    }
}
