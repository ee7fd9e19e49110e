//! Modules import only downwards: every `crate::x` path of src/<module>/ is held against the table
//! of floors in docs/architecture.md. A module the table does not know fails too.

use crate::source;

/// Name and floor. A module may use itself and modules of lower floors.
const FLOORS: &[(&str, u8)] = &[
    ("model", 0),
    ("text", 1),
    ("record", 1),
    ("channel", 1),
    ("language", 1),
    ("sys", 1),
    ("config", 2),
    ("state", 2),
    ("spool", 2),
    ("journal", 2),
    ("x11", 2),
    ("sched", 3),
    ("alert", 3),
    ("intake", 3),
    ("lease", 3),
    ("sensors", 3),
    ("task", 3),
    ("show", 3),
    ("state_loader", 3),
    ("turn", 4),
    ("replay", 5),
    ("master", 5),
    ("host", 5),
    ("client", 5),
    ("admin", 6),
    ("api", 6),
    ("notifier", 6),
    ("program", 6),
    ("commands", 7),
    ("faults", 7),
    ("cbsim", 8),
];

/// Imports within a floor, one way only: the journal lies where `spool` says, a command asks a
/// virtual cluster when a job will start, and programs ask for what `cadmin` does.
const BESIDE: &[(&str, &str)] = &[("journal", "spool"), ("client", "replay"), ("api", "admin")];

/// Modules that decide and never act: time, ids and files reach them as arguments.
const PURE: &[&str] = &[
    "model", "text", "record", "channel", "language", "config", "state", "sched", "intake",
    "lease", "sensors", "alert", "task", "show", "turn",
];

fn floor(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(m, _)| *m == module).map(|(_, f)| *f)
}

/// Why `from` may not use `to`, if it may not.
fn objection(from: &str, to: &str) -> Option<String> {
    if from == to || BESIDE.contains(&(from, to)) {
        return None;
    }
    let (Some(a), Some(b)) = (floor(from), floor(to)) else {
        return Some(format!("no floor is known for {from} or {to}"));
    };
    if b >= a {
        return Some(format!(
            "{from} (floor {a}) may not import {to} (floor {b})"
        ));
    }
    let acts = ["sys", "spool", "journal"];
    if PURE.contains(&from) && acts.contains(&to) {
        return Some(format!("{from} is pure and may not import {to}"));
    }
    None
}

/// The first words after `crate::` in blanked source, braces expanded one level.
fn imports(blanked: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    for (at, mark) in blanked.match_indices("crate::") {
        if blanked[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &blanked[at + mark.len()..];
        if rest.starts_with('{') {
            let end = source::body_end(rest, 0);
            for part in split_top(&rest[1..end.saturating_sub(1)]) {
                out.push((at, word(part.trim_start())));
            }
        } else {
            out.push((at, word(rest)));
        }
    }
    out
}

fn word(s: &str) -> String {
    s.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// The parts of a list at its commas, those within braces left whole.
pub fn split_top(s: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0, 0, Vec::new());
    for (i, c) in s.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                out.push(&s[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    out.push(&s[start..]);
    out.retain(|p| !p.trim().is_empty());
    out
}

#[test]
fn modules_import_only_downwards() {
    let mut wrong = Vec::new();
    for file in source::files("src", &["rs"]) {
        let mut parts = file.split('/').skip(1);
        let module = parts.next().expect("below src").trim_end_matches(".rs");
        // Packages of their own.
        if ["lib", "bin", "drmaa", "export", "notify", "web"].contains(&module) {
            continue;
        }
        let text = source::read(&file);
        for (at, to) in imports(&source::blank(&text)) {
            if let Some(why) = objection(module, &to) {
                wrong.push(format!("{file}:{}: {why}", source::line_of(&text, at)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a package of its own goes through: one door, and what all commands read; it knows nothing of
/// daemons.
fn uses_the_door(package: &str, least: usize) {
    let open = ["api", "model", "program", "record", "spool", "sys", "text"];
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in source::files(package, &["rs"]) {
        let blanked = source::blank(&source::read(&file));
        for (at, mark) in blanked.match_indices("corral::") {
            let module = word(&blanked[at + mark.len()..]);
            seen += 1;
            if !open.contains(&module.as_str()) {
                wrong.push(format!("{file}: corral::{module}"));
            }
        }
        if blanked.contains("crate::") {
            wrong.push(format!(
                "{file}: name modules by super::, which is judged elsewhere"
            ));
        }
    }
    assert!(seen > least, "the sources were not understood: {seen}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The portal goes through the same door, and only one of its files acts with a user's rights.
#[test]
fn the_portal_uses_the_door_that_is_meant_for_it() {
    let open = ["api", "model", "program", "record", "spool", "sys", "text"];
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in source::files("src/web", &["rs"]) {
        if file.starts_with("src/web/tests/") {
            continue;
        }
        let blanked = source::blank(&source::read(&file));
        for (at, mark) in blanked.match_indices("corral::") {
            let rest = &blanked[at + mark.len()..];
            let modules = match rest.strip_prefix('{') {
                Some(list) => split_top(list.split('}').next().unwrap_or_default()),
                None => vec![rest],
            };
            for module in modules.iter().map(|part| word(part.trim_start())) {
                seen += 1;
                if !open.contains(&module.as_str()) {
                    wrong.push(format!("{file}: corral::{module}"));
                }
            }
        }
        let acts = [
            "api::submit",
            "api::signal",
            "api::requeue",
            "admin::administer",
            "Reader::new(",
        ];
        let may_act = ["src/web/identity.rs", "src/web/cluster.rs"].contains(&file.as_str());
        let attends = ["src/web/identity.rs", "src/web/broker/calls.rs"];
        if blanked.contains("attend::attend(") && !attends.contains(&file.as_str()) {
            wrong.push(format!(
                "{file}: attend::attend: only a process of the user attends"
            ));
        }
        for call in acts
            .iter()
            .filter(|call| !may_act && blanked.contains(*call))
        {
            wrong.push(format!("{file}: {call}: only identity.rs acts as a user"));
        }
    }
    assert!(seen > 50, "the sources were not understood: {seen}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_library_for_other_programs_uses_the_door_that_is_meant_for_it() {
    uses_the_door("src/drmaa", 20);
}

#[test]
fn the_exporter_uses_the_door_that_is_meant_for_it() {
    uses_the_door("src/export", 15);
}

/// Clients of HTTP and TLS are in the two programs that need them.
#[test]
fn only_two_programs_call_servers() {
    let knows = |file: &String| source::blank(&source::read(file)).contains("ureq::");
    let files: Vec<String> = source::files("src", &["rs"])
        .into_iter()
        .filter(knows)
        .collect();
    assert_eq!(files, ["src/export/http.rs", "src/notify/webhook.rs"]);
    assert!(!source::read("Cargo.toml").contains("\nureq"));
}

#[test]
fn every_module_of_the_library_has_a_floor() {
    let lib = source::read("src/lib.rs");
    for line in lib.lines().filter_map(|l| l.strip_prefix("pub mod ")) {
        let name = line.trim_end_matches(';');
        assert!(
            floor(name).is_some(),
            "src/lib.rs: {name} has no floor in the table"
        );
    }
}

#[test]
fn an_upward_import_is_seen() {
    let found = imports(&source::blank(
        "use crate::{model::X, master::{A, B}}; crate::sys::y()",
    ));
    let names: Vec<&str> = found.iter().map(|(_, n)| n.as_str()).collect();
    assert_eq!(names, ["model", "master", "sys"]);
    assert!(objection("state", "master").is_some());
    assert!(objection("host", "client").is_some());
    assert!(objection("sched", "sys").is_some());
    assert!(objection("state", "nowhere").is_some());
    assert!(objection("master", "turn").is_none());
}

/// A library whose choice may change is known to one file: the calendar can be searched by another.
#[test]
fn croner_is_known_to_one_file() {
    let knows = |file: &String| source::blank(&source::read(file)).contains("croner::");
    let files: Vec<String> = source::files("src", &["rs"])
        .into_iter()
        .filter(knows)
        .collect();
    assert_eq!(files, ["src/text/cron.rs"]);
}

/// An allocator sets itself up before `main`, which takes a command a tenth of its start: it is
/// linked only into the programs that hold the state.
#[test]
fn only_programs_with_the_state_link_its_allocator() {
    let links = |program: &str| {
        let bytes = std::fs::read(program).unwrap();
        let name = b"mi_process_init";
        memchr::memmem::find(&bytes, name).is_some()
    };
    assert!(links(env!("CARGO_BIN_EXE_cbsched")));
    let without = [
        env!("CARGO_BIN_EXE_cb"),
        env!("CARGO_BIN_EXE_cbls"),
        env!("CARGO_BIN_EXE_cbexe"),
        env!("CARGO_BIN_EXE_cbtask"),
    ];
    for program in without {
        assert!(!links(program), "{program} links the allocator of cbsched");
    }
}
