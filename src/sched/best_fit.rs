//! What remains on a host after a start: the measure of `packing: pack` and `fit`. Less is a better
//! fit. Integer arithmetic; changes nothing.

use super::compiled_request::TrialUse;
use super::host_usage::{HostUsage, ResourceId};
use super::shape::View;
use super::units::UNIT;
use std::collections::BTreeSet;

/// What a unit weighs, in thousandths of all that the host has of another resource: units are what
/// is scarce where there are any. With less, hosts are filled by processors and memory while units
/// lie idle.
const UNIT_MILLI: i64 = 1000;
/// What a part leaves on its unit weighs so much more, so that begun units are filled first.
const BEGUN_MILLI: i64 = 250;

/// What is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// Slots, units, and what the job asks for.
    Requested,
    /// Also what other jobs ask for.
    All,
}

/// What a start leaves on a host, in millionths of what it has, summed over resources. Only the
/// host itself is looked at, so that a rank holds until the host changes. Of units
/// the kinds count that are asked for; jobs that ask for none keep off hosts with free ones.
pub(super) fn leaves(usage: &HostUsage, view: &View<'_>, hold: &TrialUse, looked: Looked) -> i64 {
    let take = &hold.bundle;
    let mut sum = part(usage.free() - take.slots, usage.slots);
    for res in 0..view.names.len() {
        let (id, need) = (res as ResourceId, take.get(res));
        let asked = need > 0 || looked == Looked::All;
        if asked && !view.names.has_units(id) && view.names.per_unit(id).is_none() {
            let have = usage.have.get(res).copied().unwrap_or(0);
            sum += part(usage.left(id) - need, have);
        }
    }
    let Some(units) = usage.units() else {
        return sum;
    };
    let asks = hold.units();
    let mut left = match asks {
        [] => units.left_in_all(),
        _ => {
            let kinds: BTreeSet<ResourceId> = asks.iter().map(|ask| ask.res).collect();
            kinds.iter().flat_map(|res| units.left(*res)).sum()
        }
    };
    for ask in asks {
        left -= ask.part * i64::from(ask.count);
        if ask.part < UNIT {
            let fit = units.left(ask.res).into_iter().filter(|n| *n >= ask.part);
            let keeps = fit.min().map_or(0, |n| n - ask.part);
            sum += BEGUN_MILLI * keeps;
        }
    }
    sum + UNIT_MILLI * left
}

/// An amount in millionths of another.
fn part(amount: i64, of: i64) -> i64 {
    let (amount, of) = (amount.max(0), of.max(1));
    match amount < 1 << 42 {
        true => amount * 1_000_000 / of,
        false => {
            i64::try_from(i128::from(amount) * 1_000_000 / i128::from(of)).unwrap_or(i64::MAX / 16)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parts_of_the_largest() {
        assert_eq!(
            (part(1, 4), part(-3, 4), part(3, 0)),
            (250_000, 0, 3_000_000)
        );
        assert_eq!(part(1 << 44, 1 << 45), 500_000);
    }
}
