//! Units of resources with `assign` on one host: which there are, which are in use, which come
//! next. Owns the lists and what is taken of them; who holds what follows from the runs of started
//! work. Knows no request: amounts are counted with all others in `host_usage.rs`.

use super::host_usage::ResourceId;
use std::borrow::Cow;

/// Units of one resource that work holds on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldUnits {
    /// Position of the host.
    pub at: u32,
    pub res: ResourceId,
    pub names: Vec<String>,
}

/// Units of a host that has some.
#[derive(Clone, Debug, Default)]
pub(super) struct HostUnits {
    kinds: Vec<UnitKind>,
}

#[derive(Clone, Debug)]
struct UnitKind {
    res: ResourceId,
    /// Those that the host lists, in its order; then those that work still holds.
    units: Vec<Unit>,
    listed: usize,
}

#[derive(Clone, Debug)]
struct Unit {
    name: Box<str>,
    /// Pieces of work that hold it; more than one only if the journal says so.
    holders: u32,
}

/// Units that were chosen, and their places in the host's list.
pub(super) type Chosen<'a> = Vec<(u32, &'a str)>;

impl HostUnits {
    fn kind(&self, res: ResourceId) -> Option<&UnitKind> {
        self.kinds.iter().find(|kind| kind.res == res)
    }

    fn kind_mut(&mut self, res: ResourceId) -> &mut UnitKind {
        let known = self.kinds.iter().position(|kind| kind.res == res);
        let at = known.unwrap_or_else(|| {
            self.kinds.push(UnitKind {
                res,
                units: Vec::new(),
                listed: 0,
            });
            self.kinds.len() - 1
        });
        &mut self.kinds[at]
    }

    /// Whether the host lists exactly these.
    pub(super) fn lists(&self, res: ResourceId, names: &[Cow<'_, str>]) -> bool {
        let kind = self.kind(res);
        let listed = kind.map_or(&[][..], |kind| &kind.units[..kind.listed]);
        listed.len() == names.len() && listed.iter().zip(names).all(|(u, name)| *u.name == **name)
    }

    /// The host lists these from now on. What work holds stays held, listed or not.
    pub(super) fn set(&mut self, res: ResourceId, names: &[Cow<'_, str>]) {
        let kind = self.kind_mut(res);
        let mut old = std::mem::take(&mut kind.units);
        old.retain(|unit| unit.holders > 0);
        for name in names {
            let held = old.iter().position(|unit| *unit.name == **name);
            let holders = held.map_or(0, |at| old.remove(at).holders);
            let name = name.as_ref().into();
            kind.units.push(Unit { name, holders });
        }
        kind.listed = names.len();
        kind.units.append(&mut old);
    }

    /// Takes units or gives them back.
    pub(super) fn hold(&mut self, res: ResourceId, names: &[String], plus: bool) {
        let kind = self.kind_mut(res);
        for name in names {
            let known = kind.units.iter().position(|unit| *unit.name == **name);
            match (known, plus) {
                (Some(at), true) => kind.units[at].holders += 1,
                (None, true) => kind.units.push(Unit {
                    name: name.as_str().into(),
                    holders: 1,
                }),
                (Some(at), false) => {
                    let holders = &mut kind.units[at].holders;
                    *holders = holders.checked_sub(1).expect("a unit is given back once");
                    if *holders == 0 && at >= kind.listed {
                        kind.units.remove(at);
                    }
                }
                (None, false) => panic!("a unit is given back that was never taken"),
            }
        }
    }

    /// How many of these the host lists.
    pub(super) fn listed(&self, res: ResourceId, names: &[String]) -> usize {
        let Some(kind) = self.kind(res) else {
            return 0;
        };
        let listed = &kind.units[..kind.listed];
        let is_listed = |name: &&String| listed.iter().any(|unit| *unit.name == ***name);
        names.iter().filter(is_listed).count()
    }

    /// The first `n` free units in the host's order; `None`: fewer are free.
    pub(super) fn choose(&self, res: ResourceId, n: usize) -> Option<Chosen<'_>> {
        let kind = self.kind(res)?;
        let listed = (0..).zip(&kind.units[..kind.listed]);
        let free = listed.filter(|(_, unit)| unit.holders == 0);
        let chosen: Chosen<'_> = free.take(n).map(|(at, unit)| (at, &*unit.name)).collect();
        (chosen.len() == n).then_some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(units: &mut HostUnits, names: &[&str]) {
        let names: Vec<Cow<'_, str>> = names.iter().map(|n| Cow::Borrowed(*n)).collect();
        units.set(0, &names);
        assert!(units.lists(0, &names) && !units.lists(0, &[Cow::Borrowed("other")]));
    }

    fn hold(units: &mut HostUnits, names: &[&str], plus: bool) {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        units.hold(0, &names, plus);
    }

    fn next(units: &HostUnits, n: usize) -> Option<Vec<&str>> {
        let chosen = units.choose(0, n)?;
        Some(chosen.into_iter().map(|(_, name)| name).collect())
    }

    #[test]
    fn the_first_free_unit_of_the_list_comes_next() {
        let mut units = HostUnits::default();
        assert_eq!(next(&units, 1), None);
        set(&mut units, &["a", "b", "c", "d"]);
        hold(&mut units, &["a", "c"], true);
        assert_eq!(units.choose(0, 2), Some(vec![(1, "b"), (3, "d")]));
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
        assert_eq!(units.listed(0, &["a".into(), "b".into()]), 1);
        assert_eq!(
            (next(&units, 2), next(&units, 3)),
            (Some(vec!["b", "c"]), None)
        );
        // Listed again while it is held: the holder still has it.
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
}
