//! Tests of restarts, hanging sensors, messages, and which files are sensors.

use crate::sensors::log_throttle::{EVERY_MS, LINES, LogThrottle};
use crate::sensors::sensor_files::{Role, sensor};
use crate::sensors::sensor_lifecycle::{
    ABSENT_MS, ABSENT_TRIES, BACKOFF_MS, HANG_MS, STEADY_MS, SensorLifecycle,
};
use proptest::prelude::*;

#[test]
fn each_failure_doubles_the_pause_and_a_steady_run_forgets_them() {
    let mut life = SensorLifecycle::new(10);
    assert!(!life.is_due(9) && life.is_due(10));
    let mut now = 10;
    let mut pauses = Vec::new();
    for _ in 0..12 {
        life.started(now);
        assert_eq!(life.due_at(), None);
        life.document_received(now);
        pauses.push(life.ended(now) / 1000);
        assert!(!life.is_due(now));
        now = life.due_at().unwrap();
        assert!(life.is_due(now));
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    // A long run, but nothing was printed.
    life.started(now);
    assert_eq!(life.ended(now + STEADY_MS), BACKOFF_MS.1);
    life.started(now);
    life.document_received(now + 1);
    assert_eq!(life.ended(now + STEADY_MS), BACKOFF_MS.0);
    // It could not be started at all.
    assert_eq!(life.ended(now), 2 * BACKOFF_MS.0);
}

#[test]
fn a_sensor_with_nothing_to_measure_is_tried_for_an_hour() {
    let mut life = SensorLifecycle::new(0);
    let mut now = 0;
    for n in 0..ABSENT_TRIES {
        life.started(now);
        assert_eq!(life.ended_without_data(now), Some(ABSENT_MS));
        assert_eq!(life.had_nothing_to_measure(), n > 0);
        now = life.due_at().unwrap();
    }
    assert_eq!(now, 3_600_000);
    life.started(now);
    assert_eq!(life.ended_without_data(now), None);
    assert!(life.due_at().is_none() && !life.is_due(u64::MAX) && !life.is_hanging(None, u64::MAX));
    // A driver that comes and goes resets the count.
    let mut life = SensorLifecycle::new(0);
    for _ in 0..3 * ABSENT_TRIES {
        life.started(now);
        life.document_received(now);
        assert!(life.ended_without_data(now).is_some() && !life.had_nothing_to_measure());
    }
}

#[test]
fn a_sensor_hangs_after_ten_of_its_periods() {
    let mut life = SensorLifecycle::new(0);
    assert!(!life.is_hanging(None, u64::MAX));
    life.started(1000);
    assert!(!life.is_hanging(None, 1000 + HANG_MS.1));
    assert!(life.is_hanging(None, 1001 + HANG_MS.1));
    life.document_received(5000);
    // Ten periods of 5 s would be 50 s, which is below the minimum.
    assert!(!life.is_hanging(Some(5_000), 5000 + HANG_MS.0));
    assert!(life.is_hanging(Some(5_000), 5001 + HANG_MS.0));
    assert!(!life.is_hanging(Some(10_000), 105_000));
    assert!(life.is_hanging(Some(10_000), 105_001));
    assert!(life.is_hanging(Some(u64::MAX), 5001 + HANG_MS.1));
}

proptest! {
    /// Whatever happens to a sensor, it is due again within the longest pause, and never at once.
    #[test]
    fn it_is_always_started_again_but_never_at_once(
        steps in prop::collection::vec((0u8..4, 0u64..200_000), 1..60),
    ) {
        let mut life = SensorLifecycle::new(0);
        let mut now = 0;
        for (what, wait) in steps {
            now += wait;
            match what {
                0 if life.is_due(now) => life.started(now),
                1 => life.document_received(now),
                2 => {
                    let pause = life.ended(now);
                    prop_assert!((BACKOFF_MS.0..=BACKOFF_MS.1).contains(&pause));
                    prop_assert!(!life.is_due(now) && life.is_due(now + pause));
                }
                _ => {}
            }
        }
    }
}

#[test]
fn of_a_flood_of_complaints_ten_lines_a_minute_are_passed_on() {
    let mut quiet = LogThrottle::default();
    let flood = "no \u{1b}[31mlicence\n\n".repeat(1000);
    let lines = quiet.push(flood.as_bytes(), 5);
    assert_eq!(lines.len(), LINES as usize);
    assert_eq!(lines[0], "no ?[31mlicence");
    assert!(quiet.push(b"one more\nand a half", EVERY_MS).is_empty());
    let later = quiet.push(b" line\n", 5 + EVERY_MS);
    assert_eq!(later, ["... and 991 more lines", "and a half line"]);
    let long = quiet.push(&[b'x'; 100_000], 6 + EVERY_MS);
    assert!(long.is_empty());
    assert_eq!(quiet.push(b"\n", 7 + EVERY_MS)[0].len(), 300);
}

#[test]
fn sensors_are_told_by_their_names() {
    let role = |file: &str, within| sensor(file, "n1.lab", within).map(|s| s.role);
    assert_eq!(role("ress.master", false), Some(Role::Master));
    assert_eq!(role("ress.host", false), Some(Role::Host));
    assert_eq!(role("ress.n1.lab", false), Some(Role::Named));
    assert_eq!(role("gpu.host", true), Some(Role::Host));
    assert_eq!(role("my.net.n1.lab", true), Some(Role::Named));
    for file in [
        "ress.n2",
        "ress.lab",
        "ress",
        "ress.",
        "gpu.host",
        "xress.host",
        "ress.host.old",
    ] {
        assert_eq!(role(file, false), None, "{file}");
    }
    for file in [
        ".host",
        ".gpu.host",
        "gpu.host.example",
        "gpu.hosts",
        "host",
        "README",
    ] {
        assert_eq!(role(file, true), None, "{file}");
    }
    let order = ["ress.master", "ress.host", "ress.n1.lab"].map(|f| sensor(f, "n1.lab", false));
    let more = ["a.master", "a.host"].map(|f| sensor(f, "n1.lab", true));
    assert!(order.iter().chain(&more).is_sorted());
}
