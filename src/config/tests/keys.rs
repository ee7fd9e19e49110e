//! Compares the tables of keys with the readers, the example and the manual page: no key is
//! accepted and ignored, and each is documented.

use super::super::keys::{self, Key, KeyState};
use super::super::*;
use super::{codes, good, with};

const EXAMPLE: &str = include_str!("../../../etc/cb.yaml");
const MANUAL: &str = include_str!("../../../man/cb.yaml.5");

/// Each table with the place of its keys: text around `KEY: VALUE`.
const TABLES: &[(&[Key], &str)] = &[
    (keys::CLUSTER, "cluster: {@}"),
    (keys::GENERAL, "general: {@}"),
    (keys::HOST, "hosts: [{@}]"),
    (keys::HOST_MODEL, "hostmodels: [{@}]"),
    (keys::HOST_GROUP, "hostgroups: [{@}]"),
    (keys::USER_GROUP, "usergroups: [{@}]"),
    (keys::USER, "users: [{@}]"),
    (keys::QUEUE, "queues: [{@}]"),
    (keys::PREEMPTION, "queues: [{name: q, preemption: {@}}]"),
    (keys::CONTROLS, "queues: [{name: q, job_controls: {@}}]"),
    (keys::RESOURCE, "resources: [{@}]"),
    (keys::LIMIT, "limits: [{@}]"),
    (keys::APP, "apps: [{@}]"),
    (keys::ALERT, "alerts: [{@}]"),
    (keys::RECEIVER, "receivers: [{@}]"),
    (keys::MAIL, "mail: {@}"),
    (keys::PORTAL, "portal: {@}"),
    (keys::CHARGE, "charge: {@}"),
    (keys::PRICE, "charge: {prices: [{@}]}"),
    (
        keys::DISCOUNT,
        "charge: {prices: [{gpu_hour: 1}], discounts: [{@}]}",
    ),
];

/// The place with the key, and what else the entry requires.
fn entry(place: &str, key: &str, value: &str) -> String {
    let mut all = format!("{key}: {value}");
    if key == "open" {
        all.push_str(", name: default");
    } else if !matches!(key, "name" | "names")
        && place.contains("[{@")
        && !place.starts_with("charge")
    {
        all.push_str(if place.contains("groups") {
            ", name: g9"
        } else {
            ", name: h1"
        });
    }
    if place.contains("groups") && key != "members" {
        all.push_str(", members: all");
    }
    with(&place.replace('@', &all))
}

fn is_key(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

#[test]
fn every_accepted_key_is_read() {
    for (table, place) in TABLES {
        for key in table.iter().filter(|k| k.state == KeyState::Now) {
            let text = entry(place, key.name, "{wrong: [1, {b: 2}], 'c d': }");
            let got = codes(&text);
            assert!(!got.is_empty(), "{text}: the value is never looked at");
            // The wrong value is a map: if a map is allowed, its keys are unknown.
            let unknown =
                got.contains(&"unknown-key") && !["preemption", "job_controls"].contains(&key.name);
            assert!(!unknown, "{text}");
        }
    }
}

#[test]
fn every_key_that_has_no_effect_yet_is_refused() {
    let mut count = 0;
    for (table, place) in TABLES {
        for key in table.iter().filter(|k| k.state == KeyState::Later) {
            let text = entry(place, key.name, "1");
            let mut got = codes(&text);
            // These alone would be the only problem if preemption did not require `preempt`.
            got.retain(|code| *code != "missing-key");
            assert_eq!(got, ["not-implemented"], "{text}");
            count += 1;
        }
    }
    for key in keys::SECTIONS.iter().filter(|k| k.state == KeyState::Later) {
        assert_eq!(
            codes(&with(&format!("{}: []", key.name))),
            ["not-implemented"]
        );
    }
    assert!(count > 50, "only {count}");
}

#[test]
fn every_key_is_in_the_manual() {
    for (table, _) in TABLES.iter().chain(&[(keys::SECTIONS, "")]) {
        for key in table.iter() {
            let found = MANUAL
                .lines()
                .any(|l| l.split([' ', ',', ':', ';']).any(|w| w == key.name));
            assert!(found, "man/cb.yaml.5 lacks {}", key.name);
        }
    }
}

/// The paragraphs of NOT IMPLEMENTED with the tables that they describe.
const LATER: &[(&str, &[&[Key]])] = &[
    ("sections", &[keys::SECTIONS]),
    ("cluster", &[keys::CLUSTER]),
    ("general", &[keys::GENERAL]),
    ("hosts", &[keys::HOST]),
    (
        "hostmodels, hostgroups, usergroups, users",
        &[
            keys::HOST_MODEL,
            keys::HOST_GROUP,
            keys::USER_GROUP,
            keys::USER,
        ],
    ),
    ("queues", &[keys::QUEUE, keys::PREEMPTION]),
    ("resources", &[keys::RESOURCE]),
];

/// The list at the end of the manual is exactly what is refused.
#[test]
fn the_manuals_list_of_what_is_refused_is_the_tables() {
    let (_, list) = MANUAL.split_once(".SH NOT IMPLEMENTED\n").unwrap();
    let list = list.split(".SH ").next().unwrap_or_default();
    let later = |tables: &[&[Key]], name: &str| {
        let mut all = tables.iter().flat_map(|t| t.iter());
        all.any(|k| k.name == name && k.state == KeyState::Later)
    };
    let mut seen = Vec::new();
    for paragraph in list.split(".TP\n").skip(1) {
        let (heading, text) = paragraph.split_once('\n').unwrap();
        let known = LATER.iter().find(|(name, _)| *name == heading);
        let (_, tables) = known.unwrap_or_else(|| panic!("man/cb.yaml.5: {heading}"));
        let words: Vec<&str> = text.split([' ', ',', ';', '\n']).collect();
        for key in tables.iter().flat_map(|t| t.iter()) {
            let name = key.name;
            // A value of such a key is refused, or a form of it.
            let in_part = words.contains(&format!("{name}:").as_str()) || name == "members";
            let listed = words.contains(&name) && !in_part;
            assert_eq!(listed, later(tables, name), "{heading}: {name}");
        }
        seen.push(heading);
    }
    let all: Vec<&str> = LATER.iter().map(|(name, _)| *name).collect();
    assert_eq!(seen, all);
    let paragraphs = LATER.iter().flat_map(|(_, tables)| tables.iter());
    let told: usize = paragraphs.map(|t| count_later(t)).sum();
    let tables = TABLES.iter().map(|(t, _)| *t).chain([keys::SECTIONS]);
    let all: usize = tables.map(count_later).sum();
    assert_eq!(told, all, "a table has no paragraph");
}

fn count_later(table: &[Key]) -> usize {
    let later = |k: &&Key| k.state == KeyState::Later;
    table.iter().filter(later).count()
}

#[test]
fn the_manual_names_no_key_that_is_unknown() {
    for line in MANUAL.lines().filter_map(|l| l.strip_prefix(".B ")) {
        let key = line.split([':', ' ']).next().unwrap_or_default();
        let like_a_key = line.contains(": ") && is_key(key);
        let all = TABLES.iter().chain(&[(keys::SECTIONS, "")]);
        let known = all.flat_map(|(t, _)| t.iter()).any(|k| k.name == key);
        assert!(!like_a_key || known, "man/cb.yaml.5: {key}");
    }
}

#[test]
fn every_setting_is_in_the_example() {
    for table in [keys::CLUSTER, keys::GENERAL] {
        for key in table.iter().filter(|k| k.state == KeyState::Now) {
            let found = EXAMPLE.lines().any(|l| {
                let l = l.trim_start().trim_start_matches('#');
                l.starts_with(&format!("{}:", key.name))
            });
            assert!(found, "etc/cb.yaml lacks {}", key.name);
        }
    }
}

#[test]
fn what_the_example_comments_out_are_the_defaults() {
    let load_text = |text: &str| load(text.as_bytes(), "etc/cb.yaml", &OsNames::ANY).unwrap();
    let mut text = String::new();
    let mut count = 0;
    for line in EXAMPLE.lines() {
        let setting = line
            .strip_prefix("  #")
            .filter(|l| l.split(':').next().is_some_and(is_key) && !l.starts_with("interactive"));
        match setting {
            Some(l) => {
                text.push_str(&format!("  {l}\n"));
                count += 1;
            }
            None => text.push_str(&format!("{line}\n")),
        }
    }
    assert!(count > 15, "only {count}");
    assert_eq!(load_text(&text).config, load_text(EXAMPLE).config);
}

#[test]
fn the_example_loads_without_a_word() {
    let loaded = load(EXAMPLE.as_bytes(), "etc/cb.yaml", &OsNames::ANY);
    match loaded {
        Ok(l) => assert_eq!(l.warnings, []),
        Err(all) => panic!(
            "{}",
            all.iter().map(|p| format!("{p}\n")).collect::<String>()
        ),
    }
}

#[test]
fn the_examples_of_the_manual_load() {
    let mut text = String::new();
    let mut inside = false;
    let mut count = 0;
    for line in MANUAL.lines() {
        match line {
            ".EX" => (inside, text) = (true, String::new()),
            ".EE" => {
                inside = false;
                count += 1;
                let text = text
                    .replace("\\-", "-")
                    .replace("\\(aq", "'")
                    .replace("\\(ti", "~");
                let text = text.replace("\\e", "\\");
                if text.contains("cluster:") {
                    load(text.as_bytes(), "man", &OsNames::ANY).unwrap_or_else(|p| {
                        panic!("{}", p.iter().map(|p| format!("{p}\n")).collect::<String>())
                    });
                } else {
                    good(&text);
                }
            }
            _ if inside => text.push_str(&format!("{line}\n")),
            _ => {}
        }
    }
    assert!(count >= 3, "only {count} examples");
}
