//! The limits that `climits` shows.

use super::*;

/// In an idle cluster no pass runs: the limits of the moment are listed nevertheless.
#[test]
fn rows_have_the_limits_of_the_moment_without_a_pass() {
    let limits = [limit1(), limit4()];
    let mut quotas = Quotas::new(&limits, &BTreeMap::new(), &mut number);
    let utc = TimeZone::UTC;
    let max = |rows: Vec<QuotaRow>| rows.iter().map(|r| r.max).collect::<Vec<_>>();
    let inside = moment("2026-11-18T10:00:00Z");
    let outside = moment("2026-11-21T10:00:00Z");
    assert_eq!(max(quotas.rows(inside, &utc)), [Some(130), Some(2)]);
    assert_eq!(max(quotas.rows(outside, &utc)), [Some(130), Some(5)]);
    quotas.tick(outside, &utc, 0);
    assert!(quotas.take_changed(outside, &utc).is_none());
    let ident = quotas.identity(&who("low", "u"));
    quotas.count_start(&ident, &on(0, 1), true);
    let changed = quotas.take_changed(inside, &utc).expect("it listens");
    let changed = changed.into_iter().map(|(row, _)| row).collect();
    assert_eq!(max(changed), [Some(130), Some(2)]);
}

#[test]
fn rows_of_limits_that_nobody_met() {
    let rows = rows(&quotas(&[limit1(), limit2(), limit4()]));
    let row = |r: QuotaRow| format!("{} {} {:?} {}", r.limit, r.used, r.max, r.each);
    let rows: Vec<_> = rows.into_iter().map(row).collect();
    let due = ["limit1 0 Some(130) false", "limit2 0 Some(2) true"]; // the epoch: a Thursday
    assert_eq!(rows, [&due[..], &["limit4 0 Some(2) false"]].concat());
}
