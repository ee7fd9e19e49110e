//! Which units a start or a growth gets: the first free ones of each host, in the host's order.

use super::Pass;
use crate::model::Units;
use crate::sched::allocation::Allocation;
use crate::sched::amount::HostBundles;
use crate::sched::pending_classes::PendingClass;
use crate::sched::placement::HostSlots;
use smallvec::SmallVec;

impl Pass<'_> {
    /// Units of a start by way `alt`; `None`: its hosts have too few that are free, although the
    /// amounts fit.
    pub(super) fn units_of_start(
        &self,
        pending: &PendingClass,
        alt: u8,
        spot: &HostSlots,
    ) -> Option<Vec<Units>> {
        let way = self.shape(pending.shape).way(alt);
        if !way.units {
            return Some(Vec::new());
        }
        let shares: SmallVec<[_; 1]> = spot.iter().map(|(at, n)| (Some(*at), *n)).collect();
        let units = self
            .picture
            .choose_units(&way.bundles(&shares, 0), self.table);
        debug_assert!(units.is_ok(), "what fits by its amount has units");
        units.ok()
    }

    /// Units that a growth brings, which are added to what is held; `None`: too few are free.
    pub(super) fn units_of_growth(
        &self,
        before: &Allocation,
        grown: &mut Allocation,
    ) -> Option<Vec<Units>> {
        if before.units.is_empty() && !self.shape(before.shape).ways[0].units {
            return Some(Vec::new());
        }
        let mut added: HostBundles = grown.parts.clone();
        for (at, bundle) in &mut added {
            if let Some((_, had)) = before.parts.iter().find(|(of, _)| of == at) {
                bundle.sub(had);
            }
        }
        let units = self.picture.choose_units(&added, self.table).ok()?;
        let mut all = grown.units.to_vec();
        for more in self.picture.held_units(&units, self.table) {
            match all
                .iter_mut()
                .find(|held| (held.at, held.res) == (more.at, more.res))
            {
                Some(held) => held.names.extend(more.names),
                None => all.push(more),
            }
        }
        grown.units = all.into();
        Some(units)
    }
}
