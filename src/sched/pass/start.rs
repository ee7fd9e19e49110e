//! A start that was decided: what it takes is booked everywhere it counts.

use super::Pass;
use crate::sched::held::{Charge, Held, Sign};
use crate::sched::line::Place;
use crate::sched::pending::Bucket;
use crate::sched::placement::Spot;
use crate::sched::plan::Start;
use crate::sched::run_length::end_at;
use smallvec::SmallVec;

impl Pass<'_> {
    pub(super) fn book_start(&mut self, bucket: &Bucket, start: &Start, spot: &Spot) {
        let now = self.now;
        self.picture.requests.add_ref(bucket.shape);
        let shape = self.picture.requests.shape(bucket.shape);
        let exclusive = shape.is_exclusive(start.alt);
        let shares: SmallVec<[_; 1]> = spot.iter().map(|(at, n)| (Some(*at), *n)).collect();
        let way = shape.way(start.alt);
        let parts = way.bundles(&shares, 0);
        if let Some(next) = way.next_change(0) {
            self.picture
                .allocations
                .note_change(now.plus_ms(next), start.j);
        }
        let slots = spot.iter().map(|(_, n)| n).sum();
        let charge = match bucket.place {
            Place::Leaf(leaf) => {
                let counts = self.picture.counts(bucket.queue);
                Some(Charge::start(leaf, slots, now, &parts, counts))
            }
            Place::Open | Place::User(_) => None,
        };
        let mut held = Held {
            sign: Sign::to_be(bucket.spec, now, slots),
            shape: bucket.shape,
            queue: bucket.queue,
            uid: bucket.uid,
            slots,
            exclusive,
            halted: false,
            lent: false,
            until: end_at(
                now,
                bucket
                    .length
                    .at(self.table, spot.first().map(|(at, _)| *at)),
            ),
            count: None,
            ident: bucket.ident.clone(),
            parts,
            charge,
        };
        if let Some(reserver) = &mut self.picture.reserver {
            reserver.book.started(start.j);
        }
        for (at, bundle) in &held.parts {
            let slots = u32::try_from(bundle.slots).unwrap_or(0);
            self.begin_on(*at as usize, slots);
        }
        held.fence(self.shape(bucket.shape), start.alt, self.table);
        let planned = &mut self.picture.allocations;
        planned.plan_start(start.j, bucket.spec, slots);
        self.picture.put_held(start.j, held);
        if start.j.idx > 0 {
            *self.array_started.entry(start.j.id).or_default() += 1;
        }
    }

    /// Work starts on a host in this pass.
    fn begin_on(&mut self, at: usize, slots: u32) {
        self.picture.throttle.begin(at, self.now, slots);
        let young = self.picture.throttle.young(at, self.now);
        self.picture.usage.set_young(at, young);
        if self.picture.monitor.samples() && self.picture.monitor.bars(self.table.at(at), young) {
            self.picture.usage.shut(at);
        }
    }
}
