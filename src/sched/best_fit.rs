//! What remains on a host after a start: the measure of `packing: pack` and `fit`. Less is a better
//! fit. Integer arithmetic; changes nothing.

use super::compiled_request::TrialUse;
use super::host_usage::{HostUsage, ResourceId};
use super::shape::ClusterView;
use super::units::UNIT;
use std::collections::BTreeSet;

/// Weight of a unit, in thousandths of the host's whole amount of another resource. On hosts with
/// units, units are the scarce resource; with a lower weight, hosts would fill up by cores and
/// memory while units stay idle.
const UNIT_MILLI: i64 = 1000;
/// Extra weight of the remainder that a part leaves on its unit, so that partly used units are
/// filled first.
const BEGUN_MILLI: i64 = 250;

/// Which resources the rank considers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RankedResources {
    /// Slots, units and the resources that the job requests.
    Requested,
    /// Also the resources that other jobs request.
    All,
}

/// What a start leaves free on a host, in millionths of the host's amounts, summed over resources.
/// It depends only on the host itself, so a rank holds until the host changes. Units count by the
/// resources that the job requests; jobs that request no units avoid hosts with free ones.
pub(super) fn free_after(
    usage: &HostUsage,
    view: &ClusterView<'_>,
    trial_use: &TrialUse,
    ranked: RankedResources,
) -> i64 {
    let take = &trial_use.bundle;
    let mut sum = part(usage.free() - take.slots, usage.slots);
    for res in 0..view.names.len() {
        let (id, need) = (res as ResourceId, take.get(res));
        let counts = need > 0 || ranked == RankedResources::All;
        if counts && !view.names.has_units(id) && view.names.per_unit(id).is_none() {
            let have = usage.have.get(res).copied().unwrap_or(0);
            sum += part(usage.free_amount(id) - need, have);
        }
    }
    let Some(units) = usage.units() else {
        return sum;
    };
    let asks = trial_use.units();
    let mut left = match asks {
        [] => units.free_total(),
        [one] => units.free_of(one.res).sum(),
        _ => {
            let kinds: BTreeSet<ResourceId> = asks.iter().map(|ask| ask.res).collect();
            kinds.iter().flat_map(|res| units.free_of(*res)).sum()
        }
    };
    for ask in asks {
        left -= ask.part * i64::from(ask.count);
        if ask.part < UNIT {
            let fit = units.free_of(ask.res).filter(|n| *n >= ask.part);
            let keeps = fit.min().map_or(0, |n| n - ask.part);
            sum += BEGUN_MILLI * keeps;
        }
    }
    sum + UNIT_MILLI * left
}

/// `amount` in millionths of `of`.
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
