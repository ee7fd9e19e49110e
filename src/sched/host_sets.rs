//! Sets of hosts that a job may be confined to: hosts that agree in some values (`same[]`), hosts
//! of few units (`cu[]`). Pure: what hosts offer comes as arguments.

use super::hosts::{HostInfo, HostTable};
use crate::text::resreq::{Cu, CuPref};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Hosts to try together.
#[derive(Clone, Debug, Default)]
pub(super) struct Subset {
    /// Position of each host in the order in which they are tried.
    positions: HashMap<u32, usize>,
    /// The hosts by unit, if units matter.
    pub units: Vec<Vec<u32>>,
}

impl Subset {
    fn of(hosts: impl IntoIterator<Item = u32>) -> Subset {
        Subset {
            positions: hosts.into_iter().zip(0..).collect(),
            units: Vec::new(),
        }
    }

    /// The hosts of a list that belong to the set, in the set's order.
    pub(super) fn order(&self, list: &[u32]) -> Vec<u32> {
        let known = |at: &u32| self.positions.get(at).map(|place| (*place, *at));
        let mut list: Vec<(usize, u32)> = list.iter().filter_map(known).collect();
        list.sort_unstable();
        list.into_iter().map(|(_, at)| at).collect()
    }

    /// The offers of a list whose hosts belong to the set.
    pub(super) fn offers_within(&self, offers: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let known = |(at, _): &&(u32, u32)| self.positions.contains_key(at);
        offers.iter().filter(known).copied().collect()
    }
}

/// A host's value of any resource, as text; `None` if it has none.
fn value(host: &HostInfo, name: &str) -> Option<String> {
    let number = || host.number(name).map(|n| n.to_string());
    let text = host.text(name).map(str::to_owned);
    let tag = || host.tag(name).then(|| "yes".to_owned());
    text.or_else(number).or_else(tag)
}

/// Sets of hosts that agree in all of `names` and together offer `need` slots; the set of the best
/// host comes first. Hosts without a value for one of the names are in no set. Without names there
/// is one set of all hosts.
pub(super) fn sets_with_equal_values(
    table: &HostTable,
    names: &[String],
    offers: &[(u32, u32)],
    need: u32,
) -> Vec<Subset> {
    if names.is_empty() {
        return vec![Subset::of(offers.iter().map(|(at, _)| *at))];
    }
    let mut index: HashMap<Vec<String>, usize> = HashMap::new();
    let mut sets: Vec<(u64, Vec<u32>)> = Vec::new();
    for (at, slots) in offers {
        let host = table.at(*at as usize);
        let Some(key) = names.iter().map(|name| value(host, name)).collect() else {
            continue;
        };
        let n = *index.entry(key).or_insert_with(|| {
            sets.push((0, Vec::new()));
            sets.len() - 1
        });
        sets[n].0 += u64::from(*slots);
        sets[n].1.push(*at);
    }
    let enough = |set: (u64, Vec<u32>)| (set.0 >= u64::from(need)).then(|| Subset::of(set.1));
    sets.into_iter().filter_map(enough).collect()
}

/// Sets of hosts from few enough compute units, in the order in which they are tried. Hosts without
/// a unit are in no set. `empty`: whether nothing runs on a host; if units are requested
/// exclusively, only empty hosts count.
pub(super) fn sets_of_units(
    table: &HostTable,
    cu: &Cu,
    offers: &[(u32, u32)],
    need: u32,
    empty: impl Fn(u32) -> bool,
) -> Vec<Subset> {
    let mut index: HashMap<&str, usize> = HashMap::new();
    let mut all: Vec<(u64, Vec<u32>)> = Vec::new();
    for (at, slots) in offers {
        let Some(unit) = table.at(*at as usize).entry.unit.as_deref() else {
            continue;
        };
        let n = *index.entry(unit).or_insert_with(|| {
            all.push((0, Vec::new()));
            all.len() - 1
        });
        all[n].0 += u64::from(*slots);
        all[n].1.push(*at);
    }
    if cu.excl {
        let taken: HashSet<&str> = table
            .iter()
            .filter(|host| !empty(host.position))
            .filter_map(|host| host.entry.unit.as_deref())
            .collect();
        let taken = |hosts: &[u32]| {
            let unit = |at: &u32| table.at(*at as usize).entry.unit.as_deref();
            hosts
                .iter()
                .filter_map(unit)
                .any(|unit| taken.contains(unit))
        };
        all.retain(|(_, hosts)| !taken(hosts));
    }
    if let Some(least) = cu.usable_slots {
        all.retain(|(slots, _)| *slots >= u64::from(least));
    }
    match cu.pref {
        None => {}
        Some(CuPref::Config) => all.sort_by_key(|(_, hosts)| hosts.iter().min().copied()),
        Some(CuPref::MinAvail) => all.sort_by_key(|(slots, _)| *slots),
        Some(CuPref::MaxAvail) => all.sort_by_key(|(slots, _)| std::cmp::Reverse(*slots)),
    }
    let most = cu.max.map_or(all.len(), |n| n as usize);
    if cu.balance {
        return even_units(&all, most, need);
    }
    let set = |units: Vec<&Vec<u32>>| Subset::of(units.into_iter().flatten().copied());
    // First single units that hold the whole request, then as few units as possible.
    let one = all.iter().filter(|(slots, _)| *slots >= u64::from(need));
    let one = one
        .filter(|_| cu.max.is_some())
        .map(|(_, hosts)| set(vec![hosts]));
    let mut sets: Vec<Subset> = one.collect();
    let cap = |slots: u64| u32::try_from(slots).unwrap_or(u32::MAX);
    let caps: Vec<(u32, u32)> = (0..)
        .zip(all.iter().map(|(slots, _)| cap(*slots)))
        .collect();
    if (most > 1 || cu.max.is_none())
        && let Ok(selected) = few_offers(&caps, most, need)
    {
        let hosts = selected.iter().map(|(n, _)| &all[*n as usize].1);
        sets.push(set(hosts.collect()));
    }
    sets
}

/// The fewest units that can each provide the same share, or one slot more.
fn even_units(all: &[(u64, Vec<u32>)], most: usize, need: u32) -> Vec<Subset> {
    let mut sets = Vec::new();
    for count in 1..=most.min(all.len()) {
        let (share, more) = (u64::from(need) / count as u64, need as usize % count);
        // Units that provide one more come first.
        let large = |n: &usize| all[*n].0 > share;
        let mut selected: Vec<usize> = (0..all.len()).filter(large).take(more).collect();
        let small = |n: &usize| all[*n].0 >= share && !selected[..].contains(n);
        let rest: Vec<usize> = (0..all.len()).filter(small).take(count - more).collect();
        let enough = selected.len() == more;
        selected.extend(rest);
        if enough && selected.len() == count {
            let hosts = |n: &usize| all[*n].1.clone();
            let units: Vec<Vec<u32>> = selected.iter().map(hosts).collect();
            let mut set = Subset::of(units.iter().flatten().copied());
            set.units = units;
            sets.push(set);
        }
    }
    sets
}

/// Takes at most `most` offers in order so that they add up to `need` slots. An offer is skipped if
/// the rest could not reach `need` together with it.
///
/// # Errors
/// The maximum number of slots of `most` offers.
pub(super) fn few_offers(
    offers: &[(u32, u32)],
    most: usize,
    need: u32,
) -> Result<Vec<(u32, u32)>, u32> {
    let need = u64::from(need);
    // The remaining offers, by size.
    let mut rest: BTreeMap<u32, usize> = BTreeMap::new();
    for (_, slots) in offers {
        *rest.entry(*slots).or_default() += 1;
    }
    let top = |rest: &BTreeMap<u32, usize>, n: usize| {
        let (mut left, mut sum) = (n, 0u64);
        for (slots, count) in rest.iter().rev() {
            let take = left.min(*count);
            sum += u64::from(*slots) * take as u64;
            left -= take;
            if left == 0 {
                break;
            }
        }
        sum
    };
    let best = top(&rest, most);
    if best < need {
        return Err(u32::try_from(best).unwrap_or(u32::MAX));
    }
    let (mut selected, mut total) = (Vec::new(), 0u64);
    for (at, slots) in offers {
        if selected.len() == most {
            break;
        }
        if let Some(count) = rest.get_mut(slots) {
            *count -= 1;
            if *count == 0 {
                rest.remove(slots);
            }
        }
        let with = total + u64::from(*slots);
        if with >= need || with + top(&rest, most - selected.len() - 1) >= need {
            selected.push((*at, *slots));
            total = with;
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_offers_are_taken_in_order_where_that_can_do() {
        let offers = [(0, 2), (1, 4), (2, 1), (3, 6)];
        assert_eq!(few_offers(&offers, 2, 6), Ok(vec![(0, 2), (1, 4)]));
        assert_eq!(few_offers(&offers, 2, 8), Ok(vec![(0, 2), (3, 6)]));
        assert_eq!(few_offers(&offers, 2, 9), Ok(vec![(1, 4), (3, 6)]));
        assert_eq!(few_offers(&offers, 2, 11), Err(10));
        assert_eq!(few_offers(&offers, 1, 5), Ok(vec![(3, 6)]));
        assert_eq!(few_offers(&offers, 9, 13).map(|c| c.len()), Ok(4));
        assert_eq!(few_offers(&[], 3, 1), Err(0));
    }
}
