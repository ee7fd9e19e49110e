//! Section `charge`: the results of valid prices, and every refusal with the place of its caret.

use super::{good, read, warnings, with};
use crate::model::{Charge, NameList};

fn charge(text: &str) -> Charge {
    good(&format!("charge: {text}")).charge.expect("prices")
}

#[test]
fn prices_and_discounts_are_exact() {
    assert_eq!(good("").charge, None);
    let c = charge(
        "{currency: EUR, timezone: Europe/Berlin, prices: [{queues: q, hosts: h1 h2, \
         apps: all ~cfd, slot_hour: 0.020001, mem_gb_hour: 1, gpu_hour: 1000000}, {slot_hour: 0}], \
         discounts: [{users: u1 ~u2, window: '20:00-8:00', percent: 12.5}]}",
    );
    assert_eq!(
        (c.currency.as_str(), c.timezone.as_str()),
        ("EUR", "Europe/Berlin")
    );
    let first = &c.prices[0];
    assert_eq!(
        (first.slot_hour, first.mem_gb_hour, first.gpu_hour),
        (20_001, 1_000_000, 1_000_000_000_000)
    );
    assert_eq!(first.queues.to_string(), "q");
    assert_eq!(first.hosts.to_string(), "h1 h2");
    assert_eq!(first.apps.to_string(), "all ~cfd");
    assert_eq!(c.prices[1].queues, NameList::all());
    assert_eq!(c.prices[1].apps, NameList::all());
    let discount = &c.discounts[0];
    assert_eq!(
        (discount.percent, discount.users.as_str()),
        (12_500, "u1 ~u2")
    );
    assert_eq!(discount.window, "20:00-8:00");
    assert_eq!(charge("{prices: [{slot_hour: 1}]}").timezone, "UTC");
}

#[test]
fn what_is_published_of_it_is_part_of_the_digest() {
    let (none, one) = (good(""), good("charge: {prices: [{slot_hour: 1}]}"));
    let two = good("charge: {prices: [{slot_hour: 2}]}");
    assert!(none.digest() != one.digest() && one.digest() != two.digest());
}

/// Text under `charge:`, the kind of the only problem, and the text at its caret.
const REFUSED: &[(&str, &str, &str)] = &[
    ("{}", "missing-key", "{}"),
    ("{prices: []}", "missing-key", "{prices"),
    ("{prices: 5}", "type", "5}"),
    ("{cost: 5, prices: [{slot_hour: 1}]}", "unknown-key", "cost"),
    (
        "{currency: 'a b', prices: [{slot_hour: 1}]}",
        "name",
        "'a b'",
    ),
    (
        "{timezone: Mars, prices: [{slot_hour: 1}]}",
        "timezone",
        "Mars",
    ),
    ("{prices: [{queues: q}]}", "missing-key", "{queues"),
    (
        "{prices: [{queues: nix, slot_hour: 1}]}",
        "undefined",
        "nix",
    ),
    ("{prices: [{hosts: nix, slot_hour: 1}]}", "undefined", "nix"),
    ("{prices: [{slot_hour: -1}]}", "number", "-1"),
    ("{prices: [{slot_hour: 1e3}]}", "number", "1e3"),
    ("{prices: [{gpu_hour: 0.1234567}]}", "number", "0.1234567"),
    ("{prices: [{mem_gb_hour: 1000001}]}", "range", "1000001"),
    ("{prices: [{slot_hour: [1]}]}", "type", "[1]"),
    (
        "{prices: [{slot_hour: 1}], discounts: [{users: u1}]}",
        "missing-key",
        "{users: u1",
    ),
    (
        "{prices: [{slot_hour: 1}], discounts: [{percent: 101}]}",
        "range",
        "101",
    ),
    (
        "{prices: [{slot_hour: 1}], discounts: [{percent: 1.0001}]}",
        "number",
        "1.0001",
    ),
    (
        "{prices: [{slot_hour: 1}], discounts: [{percent: 5, window: '25:00-1:00'}]}",
        "window",
        "25:00",
    ),
    (
        "{prices: [{slot_hour: 1}], discounts: [{percent: 5, queues: nix}]}",
        "undefined",
        "nix",
    ),
    (
        "{prices: [{slot_hour: 1}], discounts: [{percent: 5, user: u1}]}",
        "unknown-key",
        "user: u1",
    ),
];

#[test]
fn what_is_wrong_is_refused_at_its_place() {
    for (text, code, at) in REFUSED {
        let problems = read(&with(&format!("charge: {text}\n"))).expect_err(text);
        let found: Vec<&str> = problems.iter().map(|p| p.code).collect();
        assert_eq!(found, [*code], "{text}: {problems:?}");
        let p = &problems[0];
        let rest: String = p.source.chars().skip(p.col as usize - 1).collect();
        let rest = rest.trim_start_matches('\'');
        let at = at.trim_start_matches('\'');
        assert!(
            rest.starts_with(at),
            "{text}: caret at {rest:?}, not {at:?}"
        );
    }
}

#[test]
fn a_price_that_is_never_reached_and_too_many_are_said() {
    let text = "charge: {prices: [{slot_hour: 1}, {queues: q, slot_hour: 2}]}";
    assert_eq!(warnings(&with(text)), ["no-effect"]);
    let many = "{slot_hour: 1, queues: q}, ".repeat(1001);
    let problems = read(&with(&format!("charge: {{prices: [{many}]}}"))).unwrap_err();
    assert_eq!((problems.len(), problems[0].code), (1, "range"));
}
