//! Tests the calendar of cron jobs: refusals, the nearest weekday by trying all days, clock
//! changes, missed times.

use super::*;
use jiff::ToSpan;
use jiff::civil::{Date, Weekday, date};
use proptest::prelude::*;

fn zone(name: &str) -> Zone {
    Zone::named(name).unwrap()
}

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|e| panic!("{text}: {}", e.message))
}

fn at(text: &str, zone: &Zone) -> Stamp {
    let time: jiff::civil::DateTime = text.parse().unwrap();
    let time = time.to_zoned(zone.0.clone()).unwrap();
    Stamp(time.timestamp().as_millisecond())
}

/// The next `n` times after a local time.
fn next(expr: &str, zone_name: &str, from: &str, n: usize) -> Vec<String> {
    let (zone, schedule) = (zone(zone_name), schedule(expr));
    let mut last = at(from, &zone);
    let times = std::iter::from_fn(|| {
        last = schedule.next_after(last, &zone)?;
        let time = Timestamp::from_millisecond(last.0).unwrap();
        let time = time.to_zoned(zone.0.clone());
        Some(time.strftime("%m-%d %H:%M %Z").to_string())
    });
    times.take(n).collect()
}

#[test]
fn a_refusal_names_the_field_its_place_and_the_range() {
    for (text, at, why) in [
        ("61 * * * *", 0, "minute: 61 is not a value from 0 to 59"),
        ("* 24 * * *", 2, "hour: 24 is not a value from 0 to 23"),
        (
            "* * 0 * *",
            4,
            "day of month: 0 is not a value from 1 to 31",
        ),
        (
            "* * * 13 *",
            6,
            "month: 13 is not a value from 1 to 12 or jan to dec",
        ),
        (
            "0 0 * * 8",
            8,
            "day of week: 8 is not a value from 0 to 7 or sun to sat",
        ),
        (
            "0 0 * * foo",
            8,
            "day of week: foo is not a value from 0 to 7 or sun to sat",
        ),
        ("*/0 * * * *", 0, "minute: 0 is not a step from 1 to 60"),
        ("*/61 * * * *", 0, "minute: 61 is not a step from 1 to 60"),
        ("5/10 * * * *", 0, "minute: a step needs a range, 5-59/10"),
        ("1,,2 * * * *", 2, "minute: a value is missing"),
        (
            "30-10 * * * *",
            0,
            "minute: the range 30-10 ends before it begins",
        ),
        (
            "0 0 * * fri#6",
            8,
            "day of week: fri#6 is not a value from 0 to 7 or sun to sat",
        ),
        ("0 L * * *", 2, "hour: L is not a value from 0 to 23"),
        (
            "0 0 31 2 *",
            4,
            "day of month: no month given in this schedule has a day 31",
        ),
        (
            "0 0 31 apr,jun *",
            4,
            "day of month: no month given in this schedule has a day 31",
        ),
        ("* * * *", 0, "a schedule has five fields, not 4"),
        (" 0 * * * * *", 1, "a schedule has five fields, not 6"),
        ("", 0, "a schedule has five fields, not 0"),
        (
            "@reboot",
            0,
            "@reboot does not name a time: a cluster is not booted",
        ),
        (" @dayly", 1, "@dayly is not known"),
    ] {
        let e = Schedule::parse(text).expect_err(text);
        assert_eq!((e.at, e.message.as_str()), (at, why), "{text}");
    }
    assert!(Schedule::parse(&"1,".repeat(200)).is_err());
}

#[test]
fn good_ones_are_printed_with_one_blank() {
    assert_eq!(schedule("  0\t2  * * 1-5 ").to_string(), "0 2 * * 1-5");
    assert_eq!(schedule("@daily").to_string(), "0 0 * * *");
    for text in [
        "0 0 29 2 *",
        "0 0 L * *",
        "0 0 15W * *",
        "0 0 LW * *",
        "0 0 * * 5L",
        "0 0 * * fri#2",
        "*/15 0-6/2,22 1,15 jan-mar mon,wed",
        "0 0 13 * 5",
        "0 0 31 2 1",
        "0 0 * * 5-7",
    ] {
        assert_eq!(schedule(text).to_string(), text);
    }
}

#[test]
fn a_fixed_time_in_the_gap_of_spring_comes_once_after_it() {
    let got = next("30 2 * * *", "America/New_York", "2026-03-07T03:00", 2);
    assert_eq!(got, ["03-08 03:00 EDT", "03-09 02:30 EDT"]);
    let got = next("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T03:00", 2);
    assert_eq!(got, ["10-04 02:30 +11", "10-05 02:15 +11"]);
}

#[test]
fn a_fixed_time_that_a_day_has_twice_comes_once() {
    let got = next("30 1 * * *", "America/New_York", "2026-10-31T02:00", 2);
    assert_eq!(got, ["11-01 01:30 EDT", "11-02 01:30 EST"]);
}

#[test]
fn a_list_of_times_is_a_time_of_day_too() {
    let got = next(
        "18,26-27 1 * * *",
        "America/New_York",
        "2026-11-01T00:45",
        4,
    );
    let want = [
        "11-01 01:18 EDT",
        "11-01 01:26 EDT",
        "11-01 01:27 EDT",
        "11-02 01:18 EST",
    ];
    assert_eq!(got, want);
    let got = next("26 2,3 * * *", "Europe/Berlin", "2025-03-29T12:00", 3);
    assert_eq!(
        got,
        ["03-30 03:00 CEST", "03-30 03:26 CEST", "03-31 02:26 CEST"]
    );
}

#[test]
fn what_repeats_goes_on_by_real_time_also_over_half_an_hour() {
    let got = next("*/20 * * * *", "Australia/Lord_Howe", "2026-04-05T01:25", 4);
    let want = [
        "04-05 01:40 +11",
        "04-05 01:40 +1030",
        "04-05 02:00 +1030",
        "04-05 02:20 +1030",
    ];
    assert_eq!(got, want);
    let got = next("*/20 * * * *", "Australia/Lord_Howe", "2026-10-04T01:35", 3);
    assert_eq!(
        got,
        ["10-04 01:40 +1030", "10-04 02:40 +11", "10-04 03:00 +11"]
    );
}

#[test]
fn what_repeats_goes_on_by_real_time() {
    let got = next("*/30 * * * *", "America/New_York", "2026-11-01T00:45", 5);
    let want = [
        "11-01 01:00 EDT",
        "11-01 01:30 EDT",
        "11-01 01:00 EST",
        "11-01 01:30 EST",
        "11-01 02:00 EST",
    ];
    assert_eq!(got, want);
}

#[test]
fn days_of_month_and_week_are_alternatives_unless_one_begins_with_a_star() {
    // 2026-11-13 is a Friday.
    let got = next("0 0 13 * 5", "UTC", "2026-11-01T00:00", 3);
    assert_eq!(
        got,
        ["11-06 00:00 UTC", "11-13 00:00 UTC", "11-20 00:00 UTC"]
    );
    let got = next("0 0 */2 * 5", "UTC", "2026-11-01T00:00", 2);
    assert_eq!(got, ["11-13 00:00 UTC", "11-27 00:00 UTC"]);
}

#[test]
fn what_never_comes_has_no_next_time_and_ends_soon() {
    // 30 February, and a Monday by a field that begins with a star: both are required, so never.
    let s = schedule("0 0 30 2 */7");
    assert_eq!(s.next_after(Stamp(0), &zone("UTC")).map(|_| ()), None);
}

/// The weekday nearest to a day of a month, without leaving the month, by trying all its days.
fn nearest_weekday(year: i16, month: i8, day: i8) -> Option<Date> {
    let first = date(year, month, 1);
    let wanted = Date::new(year, month, day).ok()?;
    let all = (0..first.days_in_month()).map(|n| first.saturating_add(i64::from(n).days()));
    let workdays = all.filter(|d| !matches!(d.weekday(), Weekday::Saturday | Weekday::Sunday));
    workdays.min_by_key(|d| {
        let away = wanted.until(*d).unwrap().get_days();
        (away.abs(), away)
    })
}

#[test]
fn the_nearest_weekday_agrees_with_trying_all_days() {
    let zone = zone("UTC");
    for day in 1..=31 {
        let s = schedule(&format!("0 12 {day}W * *"));
        let mut want = Vec::new();
        for year in 2025..2029 {
            want.extend((1..=12).filter_map(|month| nearest_weekday(year, month, day)));
        }
        let mut last = at("2025-01-01T00:00", &zone);
        for want in want {
            last = s.next_after(last, &zone).unwrap();
            let got = Timestamp::from_millisecond(last.0).unwrap();
            assert_eq!(got.to_zoned(zone.0.clone()).date(), want, "{day}W");
        }
    }
}

#[test]
fn missed_times_are_counted_and_the_newest_counts() {
    let utc = zone("UTC");
    let s = schedule("*/10 * * * *");
    let (from, now) = (at("2026-11-01T00:00", &utc), at("2026-11-01T01:05", &utc));
    let due = s.due(from, now, &utc).unwrap();
    assert_eq!(
        (due.newest, due.count, due.many()),
        (at("2026-11-01T01:00", &utc), 6, false)
    );
    assert_eq!(s.due(from, from, &utc), None);
    assert_eq!(s.due(now, from, &utc), None, "a clock set back");
}

#[test]
fn a_year_of_missed_minutes_ends_soon_and_finds_the_newest() {
    let utc = zone("UTC");
    let now = at("2026-11-01T01:05", &utc);
    for (expr, newest) in [
        ("* * * * *", "2026-11-01T01:05"),
        ("* 3 * * *", "2026-10-31T03:59"),
        ("* * 2 * *", "2026-10-02T23:59"),
        ("* * 2 3 *", "2026-03-02T23:59"),
    ] {
        let due = schedule(expr)
            .due(Stamp(now.0 - 400 * 86_400_000), now, &utc)
            .unwrap();
        assert!(due.many());
        assert_eq!(due.newest, at(newest, &utc), "{expr}");
    }
}

#[test]
fn zones_are_those_of_the_program() {
    assert!(Zone::named("Europe/Berlin").is_ok());
    for bad in ["Europe/Berlni", "", "../etc/passwd", "UTC\n"] {
        assert!(Zone::named(bad).is_err(), "{bad:?}");
    }
}

proptest! {
    #![proptest_config(super::super::cases())]

    /// No text makes the parser panic, and what it accepts makes progress from every moment.
    #[test]
    fn any_text_is_refused_or_moves_on(
        text in "[0-9*/,#LWa-f -]{0,24}|([0-9]{1,2}|\\*|\\*/[1-9]|[1-9]-[1-9]) ([0-9]|\\*) ([1-9]|\\*|L|[1-9]W) ([1-9]|\\*) ([0-7]|\\*|[0-6]L|[0-6]#[1-5])",
        from in 0i64..4_000_000_000_000,
    ) {
        let zone = zone("America/New_York");
        if let Ok(s) = Schedule::parse(&text) {
            prop_assert_eq!(Schedule::parse(&s.to_string()).unwrap().to_string(), s.to_string());
            let mut last = Stamp(from);
            for _ in 0..3 {
                let Some(next) = s.next_after(last, &zone) else { break };
                prop_assert!(next > last);
                last = next;
            }
        }
    }
}
