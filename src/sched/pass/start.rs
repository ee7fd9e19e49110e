//! A decided start: what it takes is counted everywhere it counts.

use super::Pass;
use crate::sched::allocation::{Allocation, RunFingerprint, ShareCharge};
use crate::sched::pending_classes::PendingClass;
use crate::sched::placement::HostSlots;
use crate::sched::plan::Start;
use crate::sched::queue_order::OrderGroup;
use crate::sched::run_length::end_at;
use crate::sched::units::HeldUnits;
use smallvec::SmallVec;

/// What a start takes, by positions of hosts.
pub(super) struct StartUsage {
    pub hosts: HostSlots,
    pub held: Vec<HeldUnits>,
}

impl Pass<'_> {
    pub(super) fn commit_start(
        &mut self,
        pending: &PendingClass,
        start: &Start,
        StartUsage { hosts, held }: StartUsage,
    ) {
        let now = self.now;
        self.picture.requests.add_ref(pending.shape);
        let shape = self.picture.requests.shape(pending.shape);
        let exclusive = shape.is_exclusive(start.alt);
        let shares: SmallVec<[_; 1]> = hosts.iter().map(|(at, n)| (Some(*at), *n)).collect();
        let alternative = shape.alternative(start.alt);
        let parts = alternative.bundles(&shares, 0);
        if let Some(next) = alternative.next_change(0) {
            self.picture
                .allocations
                .note_change(now.plus_ms(next), start.j);
        }
        let slots = hosts.iter().map(|(_, n)| n).sum();
        let charge = match pending.group {
            OrderGroup::Leaf(leaf) => {
                let counts = self.picture.counts(pending.queue);
                Some(ShareCharge::start(leaf, slots, now, &parts, counts))
            }
            OrderGroup::Queue | OrderGroup::User(_) => None,
        };
        let mut allocation = Allocation {
            fingerprint: RunFingerprint::after_start(pending.spec, now, slots),
            shape: pending.shape,
            queue: pending.queue,
            uid: pending.user.uid,
            slots,
            exclusive,
            halted: false,
            lent: false,
            until: end_at(
                now,
                pending
                    .length
                    .at(self.table, hosts.first().map(|(at, _)| *at)),
            ),
            count: None,
            ident: pending.ident.clone(),
            parts,
            charge,
            units: held.into(),
        };
        if let Some(reserver) = &mut self.picture.reserver {
            reserver.book.started(start.j);
        }
        for (at, bundle) in &allocation.parts {
            let slots = u32::try_from(bundle.slots).unwrap_or(0);
            self.begin_on(*at as usize, slots);
        }
        allocation.block_compute_units(self.shape(pending.shape), start.alt, self.table);
        let allocations = &mut self.picture.allocations;
        allocations.plan_start(start.j, pending.spec, slots);
        self.picture.add_allocation(start.j, allocation);
        if start.j.idx > 0 {
            *self.array_started.entry(start.j.id).or_default() += 1;
        }
    }

    /// Notes that a job starts on a host in this pass.
    fn begin_on(&mut self, at: usize, slots: u32) {
        self.picture.throttle.begin(at, self.now, slots);
        let expected = self.picture.throttle.expected(at, self.now);
        self.picture.usage.set_expected(at, expected);
        if self.picture.monitor.depends_on_samples()
            && self.picture.monitor.blocks(self.table.at(at), expected)
        {
            self.picture.usage.close(at);
        }
    }
}
