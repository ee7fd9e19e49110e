//! A snapshot stands for the events before it: the state that is restored from it has every field
//! of the state from those events, and goes on as that does.

use super::facts::facts;
use crate::model::{Stamp, Token};
use crate::record::cron::{CronJob, PackRun};
use crate::record::event::Event;
use crate::state::any_events::{History, KINDS, Step, kind_of, steps};
use crate::state::{SnapRecord, State};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The state restored from a snapshot as it is on disk.
fn restored(state: &State) -> State {
    let mut again = State::new();
    for record in state.snapshot() {
        let line = serde_json::to_vec(&record).unwrap();
        again.restore(SnapRecord::decode(&line).unwrap());
    }
    again
}

/// Facts that differ.
fn differences(a: &State, b: &State) -> Vec<(String, Option<String>, Option<String>)> {
    let (a, b) = (facts(a), facts(b));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let get = |all: &super::facts::Facts, name: &String| all.get(name).cloned();
    let differ = names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name));
    differ
        .map(|name| (name.clone(), get(&a, name), get(&b, name)))
        .collect()
}

/// Names of all fields in JSON.
fn note_fields(value: &serde_json::Value, seen: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (name, inner) in map {
                seen.insert(name.clone());
                note_fields(inner, seen);
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|v| note_fields(v, seen)),
        _ => {}
    }
}

/// What the histories of all cases contained.
#[derive(Default)]
struct Seen {
    kinds: BTreeSet<usize>,
    /// Fields of records of jobs.
    fields: BTreeSet<String>,
    records: BTreeSet<String>,
}

fn follow(before: &[Step], after: &[Step], seen: &mut Seen) -> Result<(), TestCaseError> {
    let mut history = History::default();
    for step in before {
        for event in history.events(*step) {
            seen.kinds.insert(kind_of(&event));
            history.state.apply(&event);
        }
        history.derive(step.1, &mut []);
    }
    for record in history.state.snapshot() {
        let json = serde_json::to_value(&record).unwrap();
        seen.records.insert(json["k"].as_str().unwrap().to_owned());
        if matches!(record, SnapRecord::Job(_)) {
            note_fields(&json, &mut seen.fields);
        }
    }
    let mut again = restored(&history.state);
    prop_assert_eq!(differences(&history.state, &again), []);
    prop_assert_eq!(history.state.check(), [""; 0]);
    prop_assert_eq!(again.check(), [""; 0]);
    // What is restored goes on like the original.
    for step in after {
        for event in history.events(*step) {
            history.state.apply(&event);
            again.apply(&event);
        }
        history.derive(step.1, &mut [&mut again]);
    }
    prop_assert_eq!(differences(&history.state, &again), []);
    Ok(())
}

/// Fields of a job in a snapshot that are omitted if they are empty: each occurs in some history.
const FIELDS: [&str; 40] = [
    "n", "key", "gated", "arr", "w", "all", "waiting", "head", "why", "limit", "i", "at", "run",
    "h", "un", "dt", "st", "pid", "killing", "sigs", "ustop", "astop", "halt", "gather", "again",
    "alt", "forced", "copied", "resizes", "lims", "warn", "stopped", "sus", "saved", "mig", "bind",
    "pb", "pu", "u", "fate",
];

#[test]
fn a_snapshot_stands_for_all_events_before_it() {
    let seen = RefCell::new(Seen::default());
    let mut config = crate::text::cases();
    config.cases = 96;
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let histories = (steps(160), steps(40));
    let ran = runner.run(&histories, |(before, after)| {
        follow(&before, &after, &mut seen.borrow_mut())
    });
    assert!(ran.is_ok(), "{}", ran.unwrap_err());
    // The histories contain everything.
    let seen = seen.into_inner();
    assert_eq!(seen.kinds, (0..KINDS).collect());
    let missing = FIELDS.iter().filter(|name| !seen.fields.contains(**name));
    assert_eq!(missing.collect::<Vec<_>>(), [&""; 0]);
    for record in [
        "meta",
        "spec",
        "queue",
        "host",
        "token",
        "key",
        "partly",
        "back",
        "restored",
        "shares",
        "job",
        "cron",
        "job_group",
        "messages",
    ] {
        assert!(seen.records.contains(record), "{record}");
    }
}

/// A snapshot that could not be read would be ignored, and the journal before it may be gone.
#[test]
fn a_cron_job_with_runs_is_read_back_from_a_snapshot_and_from_the_view() {
    let pack = PackRun {
        made: 2,
        parts: 3,
        live: [13, 14].into(),
        ids: vec![13, 14],
        replaced: true,
        failed: String::new(),
    };
    let cron = CronJob {
        uid: 5,
        running: [(13, Stamp(60)), (20, Stamp(120))].into(),
        packs: [(13, pack)].into(),
        ..CronJob::default()
    };
    let record = SnapRecord::Cron(Box::new(cron.clone()));
    let line = serde_json::to_vec(&record).unwrap();
    assert_eq!(SnapRecord::decode(&line), Ok(record));
    let row = serde_json::to_string(&cron).unwrap();
    assert_eq!(serde_json::from_str::<CronJob>(&row).unwrap(), cron);
    assert!(serde_json::from_str::<CronJob>(r#"{"running":{"x":1}}"#).is_err());
}

/// Maps of two states have their entries in different orders.
#[test]
fn equal_states_have_equal_snapshots() {
    let lines = |from: u128| -> Vec<Vec<u8>> {
        let mut state = State::new();
        for n in (0..64).map(|n| (n + from) % 64) {
            let (tok, t) = (Token(n), Stamp(5));
            state.apply(&Event::Handled { tok, t });
        }
        let records = state.snapshot();
        records.map(|r| serde_json::to_vec(&r).unwrap()).collect()
    };
    assert!(lines(0) == lines(17));
}
