//! Units of resources with `assign` on one host: their names, the usage of each, and the next to
//! assign. Owns the lists and what is taken of them; who holds what follows from the runs of
//! started jobs. A unit is held whole or in parts; a part is on one unit. Knows no request: amounts
//! are counted with all others in `host_usage.rs`.

use super::host_usage::ResourceId;
use crate::model::{ShortName, UnitNames};
use crate::state::PREFETCH_UNITS;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Reverse;

/// Number of thousandths in one unit of a resource.
pub(super) const UNIT: i64 = 1000;
/// Maximum number of resources of units (such as their memory) that one item of units can request.
pub(super) const UNIT_AMOUNTS_MAX: usize = 2;

/// Amounts requested of each unit, by resource; a resource of which nothing is requested has no
/// entry.
pub(super) type UnitAmounts = SmallVec<[(ResourceId, i64); 1]>;

/// Units of one resource that a job holds on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldUnits {
    /// Position of the host.
    pub host: u32,
    pub res: ResourceId,
    /// A name that occurs again stands for one more part of that unit.
    pub names: UnitNames,
    /// Thousandths of each unit.
    pub part: i64,
    pub amounts: UnitAmounts,
}

/// What a start requests of the units of one resource of a host: a number of units, and an amount
/// of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitRequest {
    pub res: ResourceId,
    pub count: u32,
    /// Thousandths of each unit, at least 1; [`UNIT`] = whole units.
    pub part: i64,
    /// Amounts of each unit, by resource; 0 = none.
    pub amounts: [(ResourceId, i64); UNIT_AMOUNTS_MAX],
}

impl UnitRequest {
    /// Whether both request the same of each unit.
    pub(super) fn has_same_needs(&self, other: &UnitRequest) -> bool {
        (self.res, self.part, self.amounts) == (other.res, other.part, other.amounts)
    }

    fn has_amounts(&self) -> bool {
        self.amounts.iter().any(|(_, n)| *n > 0)
    }

    fn amounts(&self) -> impl Iterator<Item = (ResourceId, i64)> + '_ {
        self.amounts.iter().copied().filter(|(_, n)| *n > 0)
    }
}

/// The units of a host that has some.
#[derive(Clone, Debug, Default)]
pub(super) struct HostUnits {
    kinds: Vec<UnitKind>,
}

#[derive(Clone, Debug)]
struct UnitKind {
    res: ResourceId,
    /// Units that the host lists, in its order; then those that jobs still hold.
    units: Vec<Unit>,
    listed: usize,
    /// Number of listed units of which nothing is held.
    unused: u32,
    /// The amounts of each listed unit, in thousandths, by resource.
    sizes: Vec<(ResourceId, Vec<i64>)>,
}

#[derive(Clone, Debug)]
struct Unit {
    name: ShortName,
    /// Thousandths that jobs hold; more than [`UNIT`] only if the journal states it.
    used: i64,
    amounts: UnitAmounts,
}

impl Unit {
    fn used_of(&self, res: ResourceId) -> i64 {
        let own = self.amounts.iter().find(|(of, _)| *of == res);
        own.map_or(0, |(_, n)| *n)
    }
}

/// The units that were chosen, and their positions in the host's list.
pub(super) type Chosen<'a> = Vec<(u32, &'a str)>;

/// Decides to which unit a part goes: the unit for whose position and remainder this returns the
/// smallest value; the first of equal ones.
pub(super) type PartOrder<'a> = &'a dyn Fn(usize, i64) -> i64;

/// Prefers the unit with the smallest remainder: an exact fit first.
pub(super) fn best_fit(_: usize, left: i64) -> i64 {
    left
}

/// What is left of the listed units of one resource while units are assigned in trial.
struct TrialUnits {
    left: SmallVec<[i64; 16]>,
    amounts: SmallVec<[(ResourceId, SmallVec<[i64; 16]>); 1]>,
}

impl TrialUnits {
    fn of(kind: &UnitKind) -> TrialUnits {
        let listed = &kind.units[..kind.listed];
        let free_amounts = |(res, sizes): &(ResourceId, Vec<i64>)| {
            let each = listed.iter().zip(sizes);
            (*res, each.map(|(unit, n)| n - unit.used_of(*res)).collect())
        };
        TrialUnits {
            left: listed.iter().map(|unit| UNIT - unit.used).collect(),
            amounts: kind.sizes.iter().map(free_amounts).collect(),
        }
    }

    /// Takes one unit, or a part of one, and returns its position in the list.
    fn take_unit(&mut self, ask: &UnitRequest, order: PartOrder<'_>) -> Option<usize> {
        let enough = |at: usize, (res, need): (ResourceId, i64)| {
            let of = self.amounts.iter().find(|(of, _)| *of == res);
            of.is_some_and(|(_, left)| left[at] >= need)
        };
        let fits =
            |at: &usize| self.left[*at] >= ask.part && ask.amounts().all(|need| enough(*at, need));
        let mut fit = (0..self.left.len()).filter(fits);
        let at = match ask.part {
            UNIT => fit.next(),
            _ => fit.min_by_key(|at| order(*at, self.left[*at])),
        }?;
        self.left[at] -= ask.part;
        for (res, need) in ask.amounts() {
            let of = self.amounts.iter_mut().find(|(of, _)| *of == res);
            of.expect("it was enough").1[at] -= need;
        }
        Some(at)
    }
}

impl HostUnits {
    fn kind(&self, res: ResourceId) -> Option<&UnitKind> {
        self.kinds.iter().find(|kind| kind.res == res)
    }

    /// The units of a resource that the host lists, in its order.
    fn listed(&self, res: ResourceId) -> &[Unit] {
        let kind = self.kind(res);
        kind.map_or(&[], |kind| &kind.units[..kind.listed])
    }

    /// Prefetches the first units of a resource by reading one value of each.
    pub(super) fn prefetch(&self, res: ResourceId) -> usize {
        let units = self.listed(res).iter().take(PREFETCH_UNITS);
        units.map(|unit| unit.name.len()).sum()
    }

    fn kind_mut(&mut self, res: ResourceId) -> &mut UnitKind {
        let known = self.kinds.iter().position(|kind| kind.res == res);
        let at = known.unwrap_or_else(|| {
            self.kinds.push(UnitKind {
                res,
                units: Vec::new(),
                listed: 0,
                unused: 0,
                sizes: Vec::new(),
            });
            self.kinds.len() - 1
        });
        &mut self.kinds[at]
    }

    /// Whether the host lists exactly these.
    pub(super) fn lists(&self, res: ResourceId, names: &[Cow<'_, str>]) -> bool {
        let listed = self.listed(res);
        listed.len() == names.len() && listed.iter().zip(names).all(|(u, name)| *u.name == **name)
    }

    /// Sets the units that the host lists from now on. What jobs hold stays held, listed or not.
    pub(super) fn set(&mut self, res: ResourceId, names: &[Cow<'_, str>]) {
        let kind = self.kind_mut(res);
        let mut old = std::mem::take(&mut kind.units);
        old.retain(|unit| unit.used > 0);
        for name in names {
            let position = old.iter().position(|unit| *unit.name == **name);
            let (used, amounts) = position.map_or_else(Default::default, |at| {
                let unit = old.remove(at);
                (unit.used, unit.amounts)
            });
            let name = name.as_ref().into();
            kind.units.push(Unit {
                name,
                used,
                amounts,
            });
        }
        let unused = kind.units.iter().map(|unit| u32::from(unit.used == 0));
        kind.unused = unused.sum();
        kind.listed = names.len();
        kind.units.append(&mut old);
    }

    /// Sets how much of a resource of its own each listed unit of `res` has, in thousandths.
    pub(super) fn set_sizes(&mut self, res: ResourceId, own: ResourceId, sizes: Vec<i64>) {
        let kind = self.kind_mut(res);
        debug_assert_eq!(sizes.len(), kind.listed, "a size for each unit");
        match kind.sizes.iter_mut().find(|(of, _)| *of == own) {
            Some((_, known)) => *known = sizes,
            None => kind.sizes.push((own, sizes)),
        }
    }

    /// Takes units or returns them.
    pub(super) fn hold(&mut self, units: &HeldUnits, plus: bool) {
        let kind = self.kind_mut(units.res);
        for name in &units.names {
            let known = kind.units.iter().position(|unit| *unit.name == **name);
            let at = known.unwrap_or_else(|| {
                assert!(plus, "a unit is given back that was never taken");
                kind.units.push(Unit {
                    name: name.as_str().into(),
                    used: 0,
                    amounts: UnitAmounts::new(),
                });
                kind.units.len() - 1
            });
            let unit = &mut kind.units[at];
            let sign = if plus { 1 } else { -1 };
            let was_unused = unit.used == 0;
            unit.used += sign * units.part;
            assert!(unit.used >= 0, "a unit is given back once");
            let is_unused = unit.used == 0;
            if at < kind.listed {
                kind.unused = kind.unused + u32::from(is_unused) - u32::from(was_unused);
            }
            for (res, n) in &units.amounts {
                match unit.amounts.iter_mut().find(|(of, _)| of == res) {
                    Some((_, taken)) => *taken += sign * n,
                    None => unit.amounts.push((*res, sign * n)),
                }
            }
            unit.amounts.retain(|(_, n)| *n != 0);
            if is_unused && at >= kind.listed {
                kind.units.remove(at);
            }
        }
    }

    /// How many of these the host lists; each counts as often as it is named.
    pub(super) fn count_listed(&self, res: ResourceId, names: &[ShortName]) -> usize {
        let listed = self.listed(res);
        let is_listed = |name: &&ShortName| listed.iter().any(|unit| *unit.name == ***name);
        names.iter().filter(is_listed).count()
    }

    /// Whether all of these requests fit together.
    pub(super) fn fits(&self, asks: &[UnitRequest]) -> bool {
        match asks {
            [one] if !one.has_amounts() => self.has_parts(one),
            _ => self.place_units(asks, &best_fit, |_, _| ()),
        }
    }

    /// Whether a request without amounts fits alone: as many parts of its size are free.
    fn has_parts(&self, ask: &UnitRequest) -> bool {
        if ask.part == UNIT {
            return self.kind(ask.res).map_or(0, |kind| kind.unused) >= ask.count;
        }
        let mut missing = i64::from(ask.count);
        for unit in self.listed(ask.res) {
            if missing <= 0 {
                break;
            }
            missing -= (UNIT - unit.used).max(0) / ask.part;
        }
        missing <= 0
    }

    /// Chooses units for each of these requests: whole ones in the host's order, parts by `order`.
    /// `None`: too few are free.
    pub(super) fn choose(
        &self,
        asks: &[UnitRequest],
        order: PartOrder<'_>,
    ) -> Option<Vec<Chosen<'_>>> {
        if let [one] = asks
            && one.part == UNIT
            && !one.has_amounts()
        {
            return self.first_free(one).map(|units| vec![units]);
        }
        let mut selected: Vec<Chosen<'_>> = vec![Vec::new(); asks.len()];
        let placed = self.place_units(asks, order, |n, at| {
            let kind = self.kind(asks[n].res).expect("it has units");
            selected[n].push((at as u32, &*kind.units[at].name));
        });
        selected
            .iter_mut()
            .for_each(|units| units.sort_by_key(|(at, _)| *at));
        placed.then_some(selected)
    }

    /// The first free units of the list, for a request of whole ones without amounts.
    fn first_free(&self, ask: &UnitRequest) -> Option<Chosen<'_>> {
        let free = self
            .listed(ask.res)
            .iter()
            .enumerate()
            .filter(|(_, unit)| unit.used == 0);
        let chosen = free.map(|(at, unit)| (at as u32, &*unit.name));
        let chosen: Chosen<'_> = chosen.take(ask.count as usize).collect();
        (chosen.len() == ask.count as usize).then_some(chosen)
    }

    /// Assigns units in trial: whole ones first, then the largest parts. `took` receives the number
    /// of the request and the position of the unit.
    fn place_units(
        &self,
        asks: &[UnitRequest],
        order: PartOrder<'_>,
        mut took: impl FnMut(usize, usize),
    ) -> bool {
        let mut turn: SmallVec<[usize; 4]> = (0..asks.len()).collect();
        turn.sort_by_key(|n| {
            (
                asks[*n].res,
                Reverse(asks[*n].part),
                Reverse(asks[*n].amounts),
            )
        });
        let mut room: Option<(ResourceId, TrialUnits)> = None;
        for n in turn {
            let ask = &asks[n];
            let same = room.take().filter(|(res, _)| *res == ask.res);
            let Some((_, mut trial)) = same.or_else(|| {
                let kind = self.kind(ask.res)?;
                Some((ask.res, TrialUnits::of(kind)))
            }) else {
                return ask.count == 0;
            };
            for _ in 0..ask.count {
                match trial.take_unit(ask, order) {
                    Some(at) => took(n, at),
                    None => return false,
                }
            }
            room = Some((ask.res, trial));
        }
        true
    }

    /// What is left of each listed unit, in thousandths.
    pub(super) fn free_of(&self, res: ResourceId) -> impl Iterator<Item = i64> {
        let listed = self.listed(res).iter();
        listed.map(|unit| (UNIT - unit.used).max(0))
    }

    /// What is left of all listed units together, in thousandths.
    pub(super) fn free_total(&self) -> i64 {
        let listed = self
            .kinds
            .iter()
            .flat_map(|kind| &kind.units[..kind.listed]);
        listed.map(|unit| (UNIT - unit.used).max(0)).sum()
    }

    /// The maximum that is left of a resource of units on one of them, and the maximum that one
    /// has.
    pub(super) fn largest_free(&self, own: ResourceId) -> (i64, i64) {
        let (mut left, mut size) = (0, 0);
        for kind in &self.kinds {
            for (_, sizes) in kind.sizes.iter().filter(|(res, _)| *res == own) {
                for (unit, n) in kind.units[..kind.listed].iter().zip(sizes) {
                    size = size.max(*n);
                    if unit.used < UNIT {
                        left = left.max(n - unit.used_of(own));
                    }
                }
            }
        }
        (left, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SplitMix64;

    const GPU: ResourceId = 0;
    const MEM: ResourceId = 1;

    /// Requests of one kind are answered without a trial: as the trial answers them.
    #[test]
    fn one_request_fits_as_in_a_trial() {
        let mut rng = SplitMix64::new(5);
        for _ in 0..2000 {
            let mut units = HostUnits::default();
            set(&mut units, &["a", "b", "c"][..1 + rng.below(3) as usize]);
            for name in ["a", "b", "c", "gone"] {
                let n = 125 * rng.below(9) as i64;
                if n > 0 {
                    units.hold(&held(&[name], n, 0), true);
                }
                if n > 0 && rng.below(3) == 0 {
                    units.hold(&held(&[name], n, 0), false);
                }
            }
            if rng.below(4) == 0 {
                set(&mut units, &["gone", "b"][..1 + rng.below(2) as usize]);
            }
            let part = [UNIT, 250, 300, 999][rng.below(4) as usize];
            let asks = [ask(rng.below(6) as u32, part, 0)];
            let mut placed = Vec::new();
            let fits = units.place_units(&asks, &best_fit, |_, at| placed.push(at));
            assert_eq!(units.fits(&asks), fits, "{asks:?} on {units:?}");
            let selected = units.choose(&asks, &best_fit);
            placed.sort_unstable();
            let positions =
                |all: Vec<Chosen<'_>>| all[0].iter().map(|(at, _)| *at as usize).collect();
            assert_eq!(selected.map(positions), fits.then_some(placed));
        }
    }

    fn set(units: &mut HostUnits, names: &[&str]) {
        let names: Vec<Cow<'_, str>> = names.iter().map(|n| Cow::Borrowed(*n)).collect();
        units.set(GPU, &names);
        assert!(units.lists(GPU, &names) && !units.lists(GPU, &[Cow::Borrowed("other")]));
    }

    fn held(names: &[&str], part: i64, mem: i64) -> HeldUnits {
        HeldUnits {
            host: 0,
            res: GPU,
            names: names.iter().map(|n| (*n).into()).collect(),
            part,
            amounts: (mem > 0).then_some((MEM, mem)).into_iter().collect(),
        }
    }

    fn hold(units: &mut HostUnits, names: &[&str], plus: bool) {
        units.hold(&held(names, UNIT, 0), plus);
    }

    fn ask(count: u32, part: i64, mem: i64) -> UnitRequest {
        UnitRequest {
            res: GPU,
            count,
            part,
            amounts: [(MEM, mem), (0, 0)],
        }
    }

    fn chosen<'a>(units: &'a HostUnits, asks: &[UnitRequest]) -> Option<Vec<Vec<&'a str>>> {
        assert_eq!(units.fits(asks), units.choose(asks, &best_fit).is_some());
        let names = |units: Chosen<'a>| units.into_iter().map(|(_, name)| name).collect();
        let selected = units.choose(asks, &best_fit)?;
        Some(selected.into_iter().map(names).collect())
    }

    fn next(units: &HostUnits, n: u32) -> Option<Vec<&str>> {
        chosen(units, &[ask(n, UNIT, 0)]).map(|mut all| all.remove(0))
    }

    fn part(units: &HostUnits, n: u32, part: i64) -> Option<Vec<&str>> {
        chosen(units, &[ask(n, part, 0)]).map(|mut all| all.remove(0))
    }

    #[test]
    fn the_first_free_unit_of_the_list_comes_next() {
        let mut units = HostUnits::default();
        assert_eq!(next(&units, 1), None);
        set(&mut units, &["a", "b", "c", "d"]);
        hold(&mut units, &["a", "c"], true);
        let both = units.choose(&[ask(2, UNIT, 0)], &best_fit);
        assert_eq!(both, Some(vec![vec![(1, "b"), (3, "d")]]));
        assert_eq!(next(&units, 3), None);
        hold(&mut units, &["a"], false);
        assert_eq!(next(&units, 2), Some(vec!["a", "b"]));
    }

    #[test]
    fn a_unit_that_is_no_longer_listed_stays_held_and_is_not_given_out_again() {
        let mut units = HostUnits::default();
        set(&mut units, &["a", "b"]);
        hold(&mut units, &["a"], true);
        set(&mut units, &["b", "c"]);
        assert_eq!(units.count_listed(GPU, &["a".into(), "b".into()]), 1);
        assert_eq!(
            (next(&units, 2), next(&units, 3)),
            (Some(vec!["b", "c"]), None)
        );
        // Listed again while it is held: the holder keeps it.
        set(&mut units, &["c", "a", "b"]);
        assert_eq!(next(&units, 2), Some(vec!["c", "b"]));
        set(&mut units, &["b"]);
        hold(&mut units, &["a"], false);
        assert_eq!(next(&units, 2), None);
        set(&mut units, &["a", "b"]);
        assert_eq!(next(&units, 2), Some(vec!["a", "b"]));
    }

    #[test]
    fn a_unit_with_two_holders_is_free_after_both() {
        let mut units = HostUnits::default();
        set(&mut units, &["a"]);
        hold(&mut units, &["a"], true);
        hold(&mut units, &["a"], true);
        hold(&mut units, &["a"], false);
        assert_eq!(next(&units, 1), None);
        hold(&mut units, &["a"], false);
        assert_eq!(next(&units, 1), Some(vec!["a"]));
    }

    #[test]
    fn a_part_lies_on_one_unit_and_on_the_fullest_that_has_it() {
        let mut units = HostUnits::default();
        set(&mut units, &["a", "b", "c"]);
        units.hold(&held(&["a"], 500, 0), true);
        units.hold(&held(&["b"], 750, 0), true);
        assert_eq!(part(&units, 1, 250), Some(vec!["b"]));
        assert_eq!(part(&units, 1, 300), Some(vec!["a"]));
        assert_eq!(part(&units, 1, 600), Some(vec!["c"]));
        // 500 and 250 are left on two units: together they are not a unit.
        assert_eq!(part(&units, 2, 600), None);
        assert_eq!(next(&units, 2), None);
        assert_eq!(part(&units, 3, 400), Some(vec!["a", "c", "c"]));
        let both = chosen(&units, &[ask(2, 250, 0), ask(1, UNIT, 0)]);
        assert_eq!(both, Some(vec![vec!["a", "b"], vec!["c"]]));
        assert_eq!(chosen(&units, &[ask(1, UNIT, 0), ask(1, 501, 0)]), None);
        assert_eq!(units.free_of(GPU).collect::<Vec<_>>(), [500, 250, 1000]);
        assert_eq!(units.free_total(), 1750);
    }

    #[test]
    fn memory_of_a_unit_is_counted_on_that_unit() {
        let mut units = HostUnits::default();
        set(&mut units, &["a", "b"]);
        // If a host does not report the memory of its units, none can be requested.
        assert_eq!(chosen(&units, &[ask(1, 100, 1)]), None);
        units.set_sizes(GPU, MEM, vec![40, 80]);
        units.hold(&held(&["a"], 250, 30), true);
        units.hold(&held(&["b"], 100, 50), true);
        assert_eq!(chosen(&units, &[ask(1, 250, 10)]), Some(vec![vec!["a"]]));
        assert_eq!(chosen(&units, &[ask(1, 250, 20)]), Some(vec![vec!["b"]]));
        assert_eq!(chosen(&units, &[ask(1, 250, 31)]), None);
        assert_eq!(units.largest_free(MEM), (30, 80));
        units.hold(&held(&["b"], 100, 50), false);
        assert_eq!(chosen(&units, &[ask(1, UNIT, 80)]), Some(vec![vec!["b"]]));
        assert_eq!(units.largest_free(MEM), (80, 80));
    }
}
