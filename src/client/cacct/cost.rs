//! The cost of attempts, by the prices and discounts of the cluster.
//!
//! Owns the arithmetic. Each host's slots, memory and GPUs are charged for the run time and rounded
//! once, half up, to a millionth of the currency; sums are sums of these. Never reads a file.

use super::totals::{HostPart, host_parts};
use crate::client::visibility::UserSets;
use crate::model::{Charge, Price, WHOLE_DISCOUNT, WHOLE_UNIT};
use crate::record::acct::AttemptRecord;
use crate::record::view::Params;
use crate::text::cron::Zone;
use crate::text::window::Windows;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

const HOUR_MS: u128 = 3_600_000;
const KB_PER_GB: u128 = 1 << 20;
const MINUTE_MS: i64 = 60_000;
/// Maximum number of periods that are kept for one set of discounts.
const TIMES_MAX: usize = 10_000;
/// Maximum number of discount changes in one attempt (decades); the time after them has no
/// discount.
const STEPS_MAX: u32 = 100_000;
/// Maximum number of discounts: each is one bit of a number.
const DISCOUNTS_MAX: usize = 128;

/// Prices and discounts, prepared for use.
pub(super) struct Rates<'p> {
    charge: &'p Charge,
    sets: UserSets<'p>,
    /// One entry for each discount; `None`: always valid.
    windows: Vec<Option<Windows>>,
    zone: Zone,
}

/// Results found so far; each thread has its own.
#[derive(Default)]
pub(super) struct DiscountMemo {
    /// Bits of the discounts of a user.
    users: FxHashMap<String, u128>,
    /// For each set of discounts: start and end of a period, and the percentage that is deducted.
    times: FxHashMap<u128, BTreeMap<i64, (i64, u32)>>,
}

/// What an attempt cost on each of its hosts, in millionths.
#[derive(Default)]
pub(super) struct AttemptCost<'r>(Vec<(&'r str, u128)>);

impl AttemptCost<'_> {
    pub(super) fn total(&self) -> u128 {
        let costs = self.0.iter().map(|(_, cost)| *cost);
        costs.fold(0, u128::saturating_add)
    }

    pub(super) fn on_host(&self, host: &str) -> u128 {
        let entry = self.0.iter().find(|(name, _)| *name == host);
        entry.map_or(0, |(_, cost)| *cost)
    }
}

impl<'p> Rates<'p> {
    /// The rates that the leader has published; `None`: usage costs nothing.
    ///
    /// # Errors
    /// The rates are of a newer version with windows or zones that this program does not know.
    pub(super) fn of(
        params: &'p Params,
        os_groups: crate::client::visibility::GroupsOfUser<'p>,
    ) -> Result<Option<Rates<'p>>, String> {
        let Some(charge) = &params.charge else {
            return Ok(None);
        };
        let windows = charge.discounts.iter().map(|d| match d.window.as_str() {
            "" => Ok(None),
            text => Windows::parse(text).map(Some),
        });
        let windows: Result<Vec<_>, _> = windows.collect();
        let windows = windows.map_err(|e| format!("window of a discount: {e}"))?;
        if windows.len() > DISCOUNTS_MAX {
            return Err(format!("more than {DISCOUNTS_MAX} discounts"));
        }
        Ok(Some(Rates {
            charge,
            sets: UserSets::new(params, os_groups),
            windows,
            zone: Zone::named(&charge.timezone)?,
        }))
    }

    pub(super) fn currency(&self) -> &str {
        &self.charge.currency
    }

    pub(super) fn bill<'r>(
        &self,
        known: &mut DiscountMemo,
        record: &'r AttemptRecord<'_>,
    ) -> AttemptCost<'r> {
        let weight = self.weight(known, record);
        let parts = host_parts(record);
        let costs = parts.iter().map(|part| {
            let applies = |p: &&Price| {
                let job = p.queues.contains(&record.queue) && p.apps.contains(&record.app);
                job && p.hosts.contains(part.host)
            };
            let price = self.charge.prices.iter().find(applies);
            let cost = price.map_or(0, |price| cost(price, weight, record, part));
            (part.host, cost)
        });
        AttemptCost(costs.collect())
    }

    /// Run time in ms times the thousandths of a percent that are charged. Of suspensions only the
    /// length is known, so their time is deducted evenly from all parts.
    fn weight(&self, known: &mut DiscountMemo, record: &AttemptRecord<'_>) -> u128 {
        let run_ms = u128::from(record.run_ms());
        let whole = u128::from(WHOLE_DISCOUNT);
        let mask = self.discounts_of(known, record);
        if run_ms == 0 || mask == 0 {
            return run_ms * whole;
        }
        let (mut at, mut paid, mut steps) = (record.start, 0, 0);
        while at < record.end {
            steps += 1;
            if steps > STEPS_MAX {
                paid += u128::from(record.end.abs_diff(at)) * whole;
                break;
            }
            let (until, percent) = self.percent_at(known, mask, at);
            let until = until.clamp(at + 1, record.end);
            paid += u128::from(until.abs_diff(at)) * u128::from(WHOLE_DISCOUNT - percent);
            at = until;
        }
        let span = u128::from(record.end.abs_diff(record.start));
        mul_div(paid, run_ms, span.max(1))
    }

    /// Bits of the discounts that may apply to the attempt.
    fn discounts_of(&self, known: &mut DiscountMemo, record: &AttemptRecord<'_>) -> u128 {
        let discounts = (0..).zip(&self.charge.discounts);
        let bits = |has: &dyn Fn(&crate::model::Discount) -> bool| {
            let mine = discounts.clone().filter(|(_, d)| has(d));
            mine.fold(0_u128, |bits, (n, _)| bits | 1 << n)
        };
        if self.charge.discounts.is_empty() {
            return 0;
        }
        let user = match known.users.get(&*record.user) {
            Some(bits) => *bits,
            None => {
                let found = bits(&|d| self.sets.contains_user(&d.users, &record.user));
                known.users.insert(record.user.to_string(), found);
                found
            }
        };
        match user {
            0 => 0,
            user => user & bits(&|d| d.queues.contains(&record.queue)),
        }
    }

    /// The largest of these discounts at a time, and until when it applies.
    fn percent_at(&self, known: &mut DiscountMemo, mask: u128, at: i64) -> (i64, u32) {
        let times = known.times.entry(mask).or_default();
        if let Some((_, (until, percent))) = times.range(..=at).next_back()
            && *until > at
        {
            return (*until, *percent);
        }
        let zone = self.zone.tz();
        // Windows begin and end at whole minutes, so a result is kept from the start of the minute.
        let from = at - at.rem_euclid(MINUTE_MS);
        let (mut until, mut percent) = (i64::MAX, 0);
        let mine = self.windows.iter().zip(&self.charge.discounts);
        for (_, (window, discount)) in (0..).zip(mine).filter(|(n, _)| mask & (1 << n) != 0) {
            let open = window.as_ref().is_none_or(|w| w.contains_ms(from, zone));
            if open {
                percent = percent.max(discount.percent.min(WHOLE_DISCOUNT));
            }
            let change = window.as_ref().and_then(|w| w.next_change_ms(from, zone));
            until = until.min(change.unwrap_or(i64::MAX));
        }
        if times.len() >= TIMES_MAX {
            times.clear();
        }
        times.insert(from, (until, percent));
        (until, percent)
    }
}

/// The cost of the part on one host.
fn cost(price: &Price, weight: u128, record: &AttemptRecord<'_>, part: &HostPart<'_>) -> u128 {
    let hour = HOUR_MS * u128::from(WHOLE_DISCOUNT);
    let slots = u128::from(part.slots);
    // A host's share of the memory is proportional to its slots.
    let kb = u128::from(record.maxmem_kb) * slots / u128::from(record.slots().max(1));
    let of = |price: u64, amount: u128, unit: u128| {
        mul_div(u128::from(price) * amount, weight, hour * unit)
    };
    let gpu = u128::from(part.gpu);
    of(price.slot_hour, slots, 1)
        .saturating_add(of(price.mem_gb_hour, kb, KB_PER_GB))
        .saturating_add(of(price.gpu_hour, gpu, u128::from(WHOLE_UNIT)))
}

/// `a * b / c`, rounded half up; inexact only for amounts beyond any real payment.
fn mul_div(a: u128, b: u128, c: u128) -> u128 {
    match a.checked_mul(b).and_then(|n| n.checked_add(c / 2)) {
        Some(n) => n / c,
        None => (a / c).saturating_mul(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Discount, NameList, Units};
    use crate::record::acct::HostSlots;

    /// 2026-11-25 12:00 UTC.
    const NOON: i64 = 1_795_608_000_000;
    const HOUR: i64 = 3_600_000;

    fn list(names: &[&str]) -> NameList {
        NameList {
            all_but: false,
            names: names.iter().map(|n| (*n).to_owned()).collect(),
        }
    }

    fn params() -> Params {
        let price = |queues, hosts, slot_hour, mem_gb_hour, gpu_hour| Price {
            queues,
            hosts,
            apps: NameList::all(),
            slot_hour,
            mem_gb_hour,
            gpu_hour,
        };
        let discount = |users: &str, queues, window: &str, percent| Discount {
            users: users.into(),
            queues,
            window: window.into(),
            percent,
        };
        let priced_app = Price {
            apps: list(&["cfd"]),
            ..price(list(&["day"]), NameList::all(), 100_000, 0, 0)
        };
        let charge = Charge {
            currency: "EUR".into(),
            timezone: "Europe/Berlin".into(),
            prices: vec![
                priced_app,
                price(list(&["gpu"]), NameList::all(), 50_000, 0, 1_500_000),
                price(NameList::all(), list(&["big"]), 30_000, 0, 0),
                price(NameList::all(), NameList::all(), 20_000, 1_000, 0),
            ],
            discounts: vec![
                discount("students ~u2", NameList::all(), "", 25_000),
                discount("all", list(&["normal"]), "20:00-7:59", 50_000),
            ],
        };
        Params {
            charge: Some(charge),
            user_groups: vec![(
                "students".into(),
                vec!["u1".into(), "u2".into()],
                String::new(),
            )],
            ..Params::default()
        }
    }

    fn record(user: &str, queue: &str, hours: (i64, i64)) -> AttemptRecord<'static> {
        AttemptRecord {
            user: user.to_owned().into(),
            queue: queue.to_owned().into(),
            start: NOON + hours.0 * HOUR,
            end: NOON + hours.1 * HOUR,
            hosts: vec![HostSlots("h1".into(), 2)],
            ..AttemptRecord::default()
        }
    }

    fn costs(records: &[AttemptRecord<'_>]) -> Vec<u128> {
        let params = params();
        let rates = Rates::of(&params, &|_| Vec::new()).unwrap().unwrap();
        let mut known = DiscountMemo::default();
        let bills = records.iter().map(|r| rates.bill(&mut known, r).total());
        bills.collect()
    }

    #[test]
    fn the_first_price_that_fits_counts_on_each_host() {
        let plain = record("x", "day", (0, 3));
        let memory = AttemptRecord {
            maxmem_kb: 4 << 20,
            ..plain.clone()
        };
        let two_hosts = AttemptRecord {
            hosts: vec![HostSlots("h1".into(), 1), HostSlots("big".into(), 3)],
            ..memory.clone()
        };
        let half = |host: &str| Units {
            host: host.into(),
            res: "gpu".into(),
            names: vec!["0".into()].into(),
            part: 500,
            ..Units::default()
        };
        let gpu = AttemptRecord {
            queue: "gpu".into(),
            units: vec![half("h1")],
            ..plain.clone()
        };
        let never = AttemptRecord {
            start: 0,
            ..plain.clone()
        };
        let app = AttemptRecord {
            app: "cfd".into(),
            ..plain.clone()
        };
        assert_eq!(
            costs(&[plain, memory, two_hosts, gpu, never, app]),
            [
                // 2 slots * 3 h * 0.02, and 4 GB * 3 h * 0.001
                120_000,
                132_000,
                // h1: 3 h * 0.02 + 1 GB * 3 h * 0.001; big: 3 slots * 3 h * 0.03
                60_000 + 3_000 + 270_000,
                // 2 * 3 h * 0.05 + 0.5 * 3 h * 1.5
                300_000 + 2_250_000,
                0,
                // The application has a price of its own in that queue: 2 * 3 h * 0.1
                600_000,
            ]
        );
    }

    #[test]
    fn the_largest_discount_of_each_minute_counts() {
        let day = record("u1", "day", (0, 1));
        let other = record("u2", "day", (0, 1));
        // Noon UTC is 13:00 in Berlin: the window is open from 20:00 to 8:00, i.e. 7 to 19 hours
        // later.
        let night = record("x", "normal", (6, 8));
        let student_night = record("u1", "normal", (6, 8));
        let long = record("x", "normal", (0, 24));
        let suspended = AttemptRecord {
            susp_ms: HOUR.unsigned_abs(),
            ..record("x", "normal", (6, 8))
        };
        let wanted = [30_000, 40_000, 60_000, 50_000, 720_000, 30_000];
        assert_eq!(
            costs(&[day, other, night, student_night, long, suspended]),
            wanted
        );
    }

    #[test]
    fn what_is_kept_of_times_changes_no_cost() {
        let all: Vec<_> = (0..200)
            .map(|n| record("u1", "normal", (n * 7 % 50 - 30, n * 7 % 50 - 29 + n % 30)))
            .collect();
        let each: Vec<u128> = all
            .iter()
            .flat_map(|r| costs(std::slice::from_ref(r)))
            .collect();
        assert_eq!(costs(&all), each);
    }

    #[test]
    fn amounts_are_rounded_once_and_never_overflow() {
        assert_eq!((mul_div(7, 1, 2), mul_div(5, 1, 4)), (4, 1));
        assert_eq!(mul_div(u128::MAX, 2, 4), u128::MAX / 4 * 2);
        let endless = AttemptRecord {
            start: 1,
            end: i64::MAX,
            maxmem_kb: u64::MAX,
            hosts: vec![HostSlots("h1".into(), u32::MAX)],
            ..record("x", "day", (0, 1))
        };
        assert!(costs(&[endless])[0] > 0);
        let mut bad = params();
        bad.charge.as_mut().unwrap().timezone = "Mars".into();
        assert!(Rates::of(&bad, &|_| Vec::new()).is_err());
        assert!(
            Rates::of(&Params::default(), &|_| Vec::new())
                .unwrap()
                .is_none()
        );
    }
}
