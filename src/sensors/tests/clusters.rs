//! Tests of the combined sensors of several hosts.

use crate::config::{Config, OsNames, ResourceKind};
use crate::record::load::{Sensed, SensedKind};
use crate::sensors::cluster_resources::{ClusterResources, LINGER_MS, SETTLE_MS};
use std::collections::BTreeMap;

fn config() -> Config {
    let text = "cluster: {name: c, administrators: adm}\nhosts:\n  - names: h[1-3]\nhostgroups:\n  \
                - {name: two, members: h1 h2}\nresources:\n  - {name: own, type: text}\n\
                queues:\n  - name: normal\n";
    let loaded = crate::config::load(text.as_bytes(), "cb.yaml", &OsNames::ANY);
    loaded.unwrap_or_else(|p| panic!("{}", p[0])).config
}

fn report(entries: &[(&str, SensedKind, &str, &str)]) -> Option<BTreeMap<String, Sensed>> {
    let one = |(name, kind, locale, value): &(&str, SensedKind, &str, &str)| {
        let sensed = Sensed {
            kind: *kind,
            locale: (*locale).to_owned(),
            value: (!value.is_empty()).then(|| (*value).to_owned()),
            ..Sensed::default()
        };
        ((*name).to_owned(), sensed)
    };
    Some(entries.iter().map(one).collect())
}

const N: SensedKind = SensedKind::Number;

/// Applies the definitions of `g` at `now` to the configuration.
fn defined(g: &mut ClusterResources, config: &mut Config, now: u64) -> bool {
    let new = g.define(config, now);
    let changed = new.is_some();
    if let Some(sensed) = new {
        config.hosts.sensed = sensed;
    }
    changed
}

fn values(g: &ClusterResources, config: &Config, host: &str) -> Vec<String> {
    let all = g.values(host, config).values;
    all.iter().map(|(n, v)| format!("{n}={v}")).collect()
}

#[test]
fn locales_say_who_has_a_value() {
    let (mut g, mut c) = (ClusterResources::default(), config());
    let all = report(&[
        ("a", N, "", "1"),
        ("b", N, "all", "2"),
        ("c", N, "h2 h9", "3"),
        ("d", N, "two", "4"),
        ("e", N, "h3", "5"),
    ]);
    assert!(g.take_report("h1", all));
    assert!(defined(&mut g, &mut c, 0));
    assert_eq!(values(&g, &c, "h1"), ["a=1", "b=2", "d=4"]);
    assert_eq!(values(&g, &c, "h2"), ["b=2", "c=3", "d=4"]);
    assert_eq!(values(&g, &c, "h3"), ["b=2", "e=5"]);
    let shared: Vec<bool> = c.hosts.sensed.values().map(|d| d.shared).collect();
    assert_eq!(shared, [false, true, true, true, false]);
    let warnings = g.values("h1", &c).warnings;
    assert!(
        warnings.len() == 1 && warnings[0].ends_with("of this cluster: h9"),
        "{warnings:?}"
    );
    assert_eq!(g.values("h2", &c).shared["b"], "h1");
    // The host becomes silent: its shared values are removed too.
    assert!(g.take_report("h1", None));
    assert!(values(&g, &c, "h2").is_empty());
}

#[test]
fn an_own_value_wins_over_a_shared_one_and_the_first_host_over_others() {
    let (mut g, mut c) = (ClusterResources::default(), config());
    g.take_report("h2", report(&[("b", N, "all", "2")]));
    g.take_report("h1", report(&[("b", N, "all", "1")]));
    g.take_report("h3", report(&[("b", N, "", "3")]));
    defined(&mut g, &mut c, 0);
    let all = ["h1", "h2", "h3"].map(|h| values(&g, &c, h).join(" "));
    assert_eq!(all, ["b=1", "b=2", "b=3"]);
    g.take_report("h2", report(&[("b", N, "all", "")]));
    assert_eq!(values(&g, &c, "h2"), ["b=1"]);
}

#[test]
fn the_first_definition_stays_while_anybody_reports_it() {
    let (mut g, mut c) = (ClusterResources::default(), config());
    g.take_report("h2", report(&[("x", N, "", "2")]));
    assert!(defined(&mut g, &mut c, 0));
    assert!(!g.take_report("h1", report(&[("x", SensedKind::Text, "", "7")])));
    assert!(!defined(&mut g, &mut c, SETTLE_MS));
    assert_eq!(values(&g, &c, "h1"), Vec::<String>::new());
    assert_eq!(values(&g, &c, "h2"), ["x=2"]);
    let output = g.values("h1", &c).warnings;
    assert_eq!(
        output,
        ["resource x is a number elsewhere: its value is not used"]
    );
    // No host reports it any more: the other definition applies after a while.
    g.take_report("h2", report(&[]));
    assert!(!defined(&mut g, &mut c, 2 * SETTLE_MS));
    assert!(!defined(&mut g, &mut c, 2 * SETTLE_MS + LINGER_MS - 1));
    assert!(defined(&mut g, &mut c, 2 * SETTLE_MS + LINGER_MS));
    assert_eq!(c.hosts.sensed["x"].kind, ResourceKind::Text);
    assert_eq!(values(&g, &c, "h1"), ["x=7"]);
    g.take_report("h1", None);
    let gone = 4 * SETTLE_MS + LINGER_MS;
    assert!(!defined(&mut g, &mut c, gone));
    assert!(defined(&mut g, &mut c, gone + LINGER_MS));
    assert!(c.hosts.sensed.is_empty());
}

#[test]
fn definitions_settle_and_a_clock_that_is_set_back_stops_nothing() {
    let (mut g, mut c) = (ClusterResources::default(), config());
    g.take_report("h1", report(&[("x", N, "", "1")]));
    assert!(defined(&mut g, &mut c, 1_000_000));
    g.take_report("h1", report(&[("x", N, "", "1"), ("y", N, "", "1")]));
    assert!(!defined(&mut g, &mut c, 1_000_000 + SETTLE_MS - 1));
    assert!(defined(&mut g, &mut c, 5));
    assert_eq!(c.hosts.sensed.len(), 2);
}

#[test]
fn cb_yaml_and_the_built_in_names_come_first() {
    let (mut g, mut c) = (ClusterResources::default(), config());
    let all = report(&[
        ("own", N, "", "1"),
        ("mem", N, "", "1"),
        ("bad name", N, "", "1"),
        ("gpu", N, "", "2"),
        ("t", SensedKind::Tag, "", "yes"),
        ("u", SensedKind::Tag, "", "no"),
        ("later", SensedKind::Unknown, "", "1"),
    ]);
    g.take_report("h1", all);
    defined(&mut g, &mut c, 0);
    let names: Vec<&str> = c.hosts.sensed.keys().map(String::as_str).collect();
    assert_eq!(names, ["gpu", "t", "u"]);
    assert_eq!(values(&g, &c, "h1"), ["gpu=2", "t=yes"]);
    g.take_report("h2", report(&[("own", SensedKind::Text, "", "word")]));
    assert_eq!(values(&g, &c, "h2"), ["own=word"]);
    assert_eq!(
        c.hosts.resource("own").map(|d| d.kind),
        Some(ResourceKind::Text)
    );
}

#[test]
fn a_cluster_has_at_most_a_thousand_resources_of_sensors() {
    let (mut g, mut c) = (ClusterResources::default(), config());
    for host in ["h1", "h2", "h3"] {
        let names: Vec<String> = (0..900).map(|n| format!("{host}_{n}")).collect();
        let all: Vec<_> = names.iter().map(|n| (n.as_str(), N, "", "1")).collect();
        g.take_report(host, report(&all));
    }
    defined(&mut g, &mut c, 0);
    assert_eq!(c.hosts.sensed.len(), super::super::RESOURCES_MAX);
    assert_eq!(g.values("h3", &c).values.len(), 0);
}

#[test]
fn a_reader_of_the_view_defines_what_the_leader_defines() {
    use crate::sensors::cluster_resources::{defined as read, published};
    let (mut g, mut c) = (ClusterResources::default(), config());
    let mut all = report(&[("gpu", N, "", "[A]"), ("lic", N, "all", "2")]).unwrap();
    all.insert("gpu_mem".to_owned(), sensed_of_gpus());
    all.insert("os".to_owned(), text_of_the_host());
    assert!(g.take_report("h1", Some(all)));
    assert!(defined(&mut g, &mut c, 0));
    let sensed = &c.hosts.sensed;
    assert!(sensed.len() == 4 && sensed["lic"].shared && !sensed["gpu"].shared);
    assert_eq!(sensed["gpu_mem"].per_unit.as_deref(), Some("gpu"));
    let mut view = published(sensed);
    assert!(view.values().all(|sensed| sensed.value.is_none()));
    // A kind of a later version.
    let kind = SensedKind::Unknown;
    view.insert(
        "new".to_owned(),
        Sensed {
            kind,
            ..Sensed::default()
        },
    );
    assert_eq!(read(&view), *sensed);
}

fn sensed_of_gpus() -> Sensed {
    Sensed {
        per_unit: "gpu".to_owned(),
        value: Some("{81559}".to_owned()),
        ..Sensed::default()
    }
}

fn text_of_the_host() -> Sensed {
    Sensed {
        kind: SensedKind::Text,
        about: "operating system".to_owned(),
        value: Some("Linux".to_owned()),
        ..Sensed::default()
    }
}
