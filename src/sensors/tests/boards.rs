//! Tests of the values of one host: their age, their definitions, what is reported.

use crate::record::load::{LoadDoc, SensedKind, encode};
use crate::sensors::parse::document;
use crate::sensors::sensor_files::{Role, Sensor};
use crate::sensors::sensor_values::{
    DEFINED_MS, FIRST_PERIOD_MS, PERIOD_MS, PERIODS, SensorValues,
};

fn sensor(name: &str) -> Sensor {
    let (name, role) = (name.to_owned(), Role::Host);
    Sensor { name, role }
}

fn take(board: &mut SensorValues, name: &str, text: &str, now: u64) -> Vec<String> {
    board.take_document(&sensor(name), document(text.as_bytes(), 1), now)
}

fn value(board: &mut SensorValues, name: &str, now: u64) -> Option<Option<String>> {
    let (report, _) = board.report(now);
    report.get(name).map(|s| s.value.clone())
}

const LIC: &str = "- resource: lic\n  value: 3\n";

#[test]
fn a_value_counts_for_three_periods() {
    let mut b = SensorValues::new();
    take(&mut b, "ress.host", LIC, 0);
    assert_eq!(
        value(&mut b, "lic", PERIODS * FIRST_PERIOD_MS),
        Some(Some("3".into()))
    );
    assert_eq!(
        value(&mut b, "lic", PERIODS * FIRST_PERIOD_MS + 1),
        Some(None)
    );
    take(&mut b, "ress.host", LIC, 200_000);
    take(&mut b, "ress.host", LIC, 210_000);
    take(&mut b, "ress.host", LIC, 220_000);
    assert_eq!(b.period(&sensor("ress.host")), Some(10_000));
    assert_eq!(value(&mut b, "lic", 250_000), Some(Some("3".into())));
    let (report, messages) = b.report(250_001);
    assert_eq!(report["lic"].value, None);
    assert!(
        messages[0].contains("the value of lic is 30 s old"),
        "{messages:?}"
    );
    assert!(b.report(250_002).1.is_empty());
    assert_eq!(value(&mut b, "lic", 220_000 + DEFINED_MS), Some(None));
    assert_eq!(value(&mut b, "lic", 220_001 + DEFINED_MS), None);
}

#[test]
fn a_period_is_believed_within_bounds() {
    let mut b = SensorValues::new();
    for now in [0, 10, 20] {
        take(&mut b, "ress.host", LIC, now);
    }
    assert_eq!(b.period(&sensor("ress.host")), Some(PERIOD_MS.0));
    assert_eq!(
        value(&mut b, "lic", 20 + 3 * PERIOD_MS.0),
        Some(Some("3".into()))
    );
    for now in [1_000_000, 2_000_000] {
        take(&mut b, "ress.host", LIC, now);
    }
    assert_eq!(b.period(&sensor("ress.host")), Some(PERIOD_MS.1));
}

#[test]
fn a_definition_stays_until_the_sensor_is_started_again() {
    let mut b = SensorValues::new();
    take(&mut b, "ress.host", LIC, 0);
    let text = "- resource: lic\n  type: text\n  value: x\n";
    let messages = take(&mut b, "ress.host", text, 1);
    assert!(messages[0].contains("has changed"), "{messages:?}");
    assert_eq!(take(&mut b, "ress.host", text, 2), Vec::<String>::new());
    assert_eq!(value(&mut b, "lic", 2), Some(Some("3".into())));
    let slot = "- resource: lic\n  slotresource: yes\n  value: 4\n";
    take(&mut b, "ress.host", slot, 3);
    let (report, _) = b.report(3);
    assert_eq!(
        (report["lic"].slot, report["lic"].value.as_deref()),
        (false, Some("4"))
    );
    b.restarted(&sensor("ress.host"));
    take(&mut b, "ress.host", text, 4);
    assert_eq!(b.report(4).0["lic"].kind, SensedKind::Text);
}

#[test]
fn of_two_sensors_the_first_has_its_say() {
    let mut b = SensorValues::new();
    take(&mut b, "ress.d/a.host", LIC, 0);
    take(&mut b, "ress.host", "- resource: lic\n  value: 9\n", 0);
    let (report, messages) = b.report(1);
    assert_eq!(report["lic"].value.as_deref(), Some("9"));
    assert_eq!(messages.len(), 1);
    assert!(
        messages[0].starts_with("ress.d/a.host: resource lic is left out"),
        "{messages:?}"
    );
    b.forget(&sensor("ress.host"), 0, 2);
    assert_eq!(value(&mut b, "lic", 2), Some(Some("3".into())));
    b.forget(&sensor("ress.d/a.host"), 1000, 3);
    assert_eq!(value(&mut b, "lic", 1002), Some(None));
    assert_eq!(value(&mut b, "lic", 1003), None);
}

#[test]
fn a_mistake_in_every_document_is_told_once() {
    let mut b = SensorValues::new();
    let bad = "- resource: lic\n  value: abc\n";
    let messages = take(&mut b, "ress.host", bad, 0);
    assert_eq!(messages.len(), 1);
    assert!(
        messages[0].starts_with("ress.host:2:10: resource lic: abc is not a usable number"),
        "{messages:?}"
    );
    for n in 0..5 {
        let parsed = document(bad.as_bytes(), 100 * n);
        assert!(b.take_document(&sensor("ress.host"), parsed, n).is_empty());
    }
    // A sensor that prints new mistakes all the time does not fill the memory.
    let logged = (0..3000).filter(|n| {
        let text = format!("- resource: r{n}\n  value: abc\n");
        !take(&mut b, "ress.host", &text, 9).is_empty()
    });
    assert!(logged.count() < 1000);
}

#[test]
fn however_much_is_printed_it_fits_into_a_load_report() {
    let mut b = SensorValues::new();
    let about = "\u{1F4A1}\"".repeat(200);
    for part in 0..5 {
        let text: String = (0..300)
            .map(|n| {
                let about = about.replace('"', "'");
                format!("- resource: r{part}_{n}\n  description: \"{about}\"\n  value: 1\n")
            })
            .collect();
        take(&mut b, &format!("ress.d/{part}.host"), &text, 0);
    }
    let (report, messages) = b.report(1);
    assert!(report.len() > 30 && !messages.is_empty());
    let doc = LoadDoc {
        sensors: report,
        ..LoadDoc::default()
    };
    assert!(encode(&doc).is_ok());
}
