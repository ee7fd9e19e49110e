//! Damaged shares and host directories.

use super::*;
use crate::journal::Writer;
use crate::model::Stamp;
use crate::record::event::Event;
use crate::record::leader::encode_fixed;
use std::fs;

fn share() -> (tempfile::TempDir, Layout) {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    for (dir, _) in layout.directories() {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(layout.lock(), b"").unwrap();
    fs::write(layout.epoch(), encode_fixed(&EpochDoc::default()).unwrap()).unwrap();
    fs::write(layout.beat(), encode_fixed(&BeatDoc::default()).unwrap()).unwrap();
    let doc = ClusterDoc {
        cluster: "c".into(),
        name: "n".into(),
        format: FORMAT,
        service_uid: 0,
        service_gid: 0,
    };
    fs::write(layout.cluster(), serde_json::to_vec(&doc).unwrap()).unwrap();
    let mut w = Writer::create(&layout, "c", 1).unwrap();
    for n in 0..10 {
        w.append(&Event::Cleaned {
            ids: vec![n],
            t: Stamp(1),
        })
        .unwrap();
    }
    w.commit().unwrap();
    (dir, layout)
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn log(path: &Path, what: FileKind, rows: &[serde_json::Value]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut out = Vec::new();
    frame::write(&mut out, 0, &Header::new(what, "c", 1, 1)).unwrap();
    for (n, row) in rows.iter().enumerate() {
        frame::write(&mut out, n as u64 + 1, row).unwrap();
    }
    fs::write(path, out).unwrap();
}

fn three_answers(layout: &Layout) {
    let ack = serde_json::json!({"k": "ack", "tok": "0".repeat(32), "ok": true});
    let rows = [ack.clone(), ack.clone(), ack];
    log(&layout.acks(1), FileKind::Acks, &rows);
}

/// A report on a share with these bytes as answers.
fn with_answers(layout: &Layout, bytes: &[&[u8]]) -> FsckReport {
    fs::write(layout.acks(1), bytes.concat()).unwrap();
    check(layout).unwrap()
}

#[test]
fn damage_of_accounting_is_named_and_no_accounting_is_none() {
    let (_dir, layout) = share();
    let record = serde_json::json!({"k": "ended", "j": "7", "at": 1, "mark": 9});
    let path = layout.acct_file("2026-11", 1, 1);
    log(&path, FileKind::Acct, &[record.clone(), record]);
    log(
        &layout.acct_written(),
        FileKind::Acct,
        &[serde_json::json!({"k": "written",
        "epoch": 1, "segment": 1, "bytes": 5, "seq": 2})],
    );
    let report = check(&layout).unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    let bytes = fs::read_to_string(&path)
        .unwrap()
        .replacen("\"mark\":9", "\"mark\":8", 1);
    let at = bytes.find("- {\"at\"").unwrap();
    fs::write(&path, &bytes).unwrap();
    let report = check(&layout).unwrap();
    let place = format!("{}:{at}: ", path.display());
    assert_eq!(report.damage.len(), 1);
    assert!(report.damage[0].starts_with(&place), "{report:?}");
}

#[test]
fn a_sound_share_has_no_damage() {
    let (_dir, layout) = share();
    let report = check(&layout).unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    assert!(report.records >= 12);
}

/// After the remains of a failed write, a leader writes the whole group again.
#[test]
fn answers_that_a_full_share_cut_short_are_no_damage() {
    let (_dir, layout) = share();
    three_answers(&layout);
    let whole = fs::read(layout.acks(1)).unwrap();
    let ends: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .map(|(n, _)| n + 1)
        .collect();
    let cut = &whole[..ends[1] + 20];
    // Record 1 and half of record 2 were written, then 1, 2 and 3.
    let report = with_answers(&layout, &[cut, b"\n", &whole[ends[0]..]]);
    assert_eq!(report.damage, Vec::<String>::new());
    // Without the complete record after the partial one, a record is missing.
    let report = with_answers(&layout, &[cut, b"\n", &whole[ends[2]..]]);
    assert!(
        report.damage[0].contains("acks.yaml:"),
        "{:?}",
        report.damage
    );
}

#[test]
fn damage_anywhere_is_named_by_file_and_offset() {
    let (_dir, layout) = share();
    three_answers(&layout);
    let never = serde_json::json!({"k": "never", "j": "1", "at": 1, "why": "x"});
    log(&layout.reports("h1", 1), FileKind::Reports, &[never]);
    let odd = serde_json::json!({"k": "dance"});
    log(&layout.orders("h1", 1, 1), FileKind::Orders, &[odd]);
    flip(&layout.acks(1), 150);
    flip(&layout.journal(1, 1), 200);
    flip(&layout.epoch(), 5);
    fs::create_dir(layout.blobs().join("ab")).unwrap();
    fs::write(layout.blob(&"ab".repeat(32)), b"x").unwrap();
    let report = check(&layout).unwrap();
    let text = report.damage.join("\n");
    for due in [
        "acks.yaml:",
        "journal.0001.yaml:",
        "leader/epoch:0",
        "orders.",
        "/ab/",
    ] {
        assert!(text.contains(due), "{due} is not in\n{text}");
    }
    assert_eq!(report.damaged, 5, "{text}");
    assert!(text.contains("dance"), "{text}");
    let words = [layout.root().display().to_string()];
    assert_eq!(run(&words), 1);
}

#[test]
fn half_a_record_at_the_end_is_a_note_and_a_foreign_directory_an_error() {
    let (dir, layout) = share();
    let mut bytes = fs::read(layout.journal(1, 1)).unwrap();
    bytes.extend_from_slice(b"- {\"k\":");
    fs::write(layout.journal(1, 1), bytes).unwrap();
    let report = check(&layout).unwrap();
    assert_eq!(report.damaged, 0);
    assert!(report.notes[0].contains("half a record of 7 bytes"));
    assert_eq!(run(&[dir.path().join("jobs").display().to_string()]), 5);
}

#[test]
fn names_that_users_made_are_no_damage_and_shown_without_their_control_characters() {
    let (_dir, layout) = share();
    fs::write(layout.inbox().join("evil\u{1b}[2J"), b"").unwrap();
    fs::write(layout.inbox().join("4711"), b"").unwrap();
    fs::create_dir_all(layout.inbox_of(5)).unwrap();
    let report = check(&layout).unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    let lines = report.lines(false).join("\n");
    assert!(lines.contains("(2 such names)"), "{lines}");
    let odd = serde_json::json!({"k": "da\u{1b}]0;x\u{7}nce"});
    log(&layout.orders("h1", 1, 1), FileKind::Orders, &[odd]);
    fs::remove_file(layout.inbox().join("4711")).unwrap();
    let report = check(&layout).unwrap();
    assert_eq!(report.damaged, 1);
    let lines = report.lines(false);
    assert!(lines[0].contains("nce"), "{lines:?}");
    assert!(
        lines.iter().any(|l| l.contains("evil\\x1b[2J")),
        "{lines:?}"
    );
    let hidden = |line: &String| line.chars().any(width::is_hidden);
    assert!(!lines.iter().any(hidden), "{lines:?}");
}

/// Flips and cuts each of `files`; returns those where a change had no damage of that file.
fn unnoticed(files: &[PathBuf], cut: bool, check: &dyn Fn() -> Option<FsckReport>) -> Vec<String> {
    let mut missed = Vec::new();
    for path in files {
        let good = fs::read(path).unwrap();
        let len = good.len();
        let mut bad: Vec<(String, Vec<u8>)> = Vec::new();
        for at in [0, 3, len / 4, len / 2, len * 3 / 4, len - 4] {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            bad.push((format!("flip at {at}"), bytes));
        }
        if cut {
            bad.push(("cut to half".to_owned(), good[..len / 2].to_vec()));
            bad.push(("emptied".to_owned(), Vec::new()));
        }
        for (how, bytes) in bad {
            fs::write(path, bytes).unwrap();
            let begin = format!("{}:", path.display());
            let named = check().is_some_and(|report| {
                let all = report.damage.iter().chain(&report.notes);
                all.into_iter().any(|line| line.starts_with(&begin))
            });
            if !named {
                missed.push(format!("{}: {how}", path.display()));
            }
        }
        fs::write(path, good).unwrap();
    }
    missed
}

/// A share with a file of each kind that is checked by its content.
fn populated() -> (tempfile::TempDir, Layout) {
    let (dir, layout) = share();
    let doc = ClusterDoc {
        cluster: "c".into(),
        name: "n".into(),
        format: FORMAT,
        service_uid: 0,
        service_gid: 0,
    };
    fs::write(layout.cluster(), doc.encode().unwrap()).unwrap();
    three_answers(&layout);
    let in_force = crate::master::config_in_force_path(&layout);
    let config = sealed::seal_text(b"cluster: {name: c}\nhosts: []\n");
    fs::write(in_force, &config).unwrap();
    fs::create_dir_all(layout.history()).unwrap();
    fs::write(layout.past_config("ab12"), &config).unwrap();
    fs::create_dir_all(layout.notices()).unwrap();
    let state = crate::record::notices::NotifierState::default();
    fs::write(layout.notices_state(1), sealed::to_json(&state).unwrap()).unwrap();
    let alerts = crate::record::notices::AlertsDoc::default();
    fs::write(layout.notices_alerts(1), sealed::to_json(&alerts).unwrap()).unwrap();
    let limit = serde_json::to_value(crate::record::view::LimitRow::default()).unwrap();
    log(&layout.view_file(view::LIMITS), FileKind::View, &[limit]);
    fs::write(
        layout.claim(1),
        encode_fixed(&EpochDoc {
            epoch: 1,
            ..EpochDoc::default()
        })
        .unwrap(),
    )
    .unwrap();
    (dir, layout)
}

#[test]
fn damage_of_each_kind_of_file_of_the_share_is_named() {
    let (_dir, layout) = populated();
    let sound = check(&layout).unwrap();
    assert_eq!(sound.damage, Vec::<String>::new());
    let unsure: Vec<&String> = sound
        .notes
        .iter()
        .filter(|n| n.contains("not a file"))
        .collect();
    assert!(unsure.is_empty(), "{unsure:?}");
    let files = [
        layout.cluster(),
        crate::master::config_in_force_path(&layout),
        layout.past_config("ab12"),
        layout.notices_state(1),
        layout.notices_alerts(1),
        layout.view_file(view::LIMITS),
        layout.epoch(),
        layout.beat(),
        layout.claim(1),
        layout.acks(1),
        layout.journal(1, 1),
    ];
    // What is appended to may be cut at any time; the others are whole or damaged.
    let missed = unnoticed(&files[..9], true, &|| check(&layout).ok());
    // The check of a share whose cluster file is empty ends there, and says so.
    assert_eq!(missed, Vec::<String>::new());
    let missed = unnoticed(&files[9..], false, &|| check(&layout).ok());
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn damage_of_each_kind_of_file_of_a_host_is_named() {
    let (dir, layout) = share();
    let local = crate::host::local::Local::at(&dir.path().join("local-h1"));
    fs::create_dir_all(local.command_records()).unwrap();
    let never = serde_json::json!({"k": "never", "j": "1", "at": 1, "e": 1, "p": 1,
        "why": "x"});
    let acked = serde_json::json!({"k": "signalled", "j": "1", "at": 1, "n": 1});
    log(&local.attempts(), FileKind::Local, &[never, acked]);
    let units = crate::record::host_units::HostUnitsDoc::default();
    fs::write(local.units(), sealed::to_json(&units).unwrap()).unwrap();
    fs::write(local.iso(), sealed::seal_words("60000 60000")).unwrap();
    fs::write(local.iso_ordered(), sealed::seal_words("60000")).unwrap();
    fs::write(local.exe_id(), sealed::seal_words("77 1234 abcd")).unwrap();
    fs::write(
        local.device_use(),
        sealed::to_json(&serde_json::json!({"boot": "b"})).unwrap(),
    )
    .unwrap();
    fs::write(local.dir().join("cluster"), "c\n").unwrap();
    fs::write(local.dir().join("stray"), "x").unwrap();
    let checked = || check_with(&layout, &|_| Some(local.dir().to_path_buf()));
    let sound = checked().unwrap();
    assert_eq!(sound.damage, Vec::<String>::new());
    assert!(
        sound.notes.iter().any(|n| n.contains("stray: not a file")),
        "{sound:?}"
    );
    let files = [
        local.units(),
        local.iso(),
        local.iso_ordered(),
        local.exe_id(),
        local.device_use(),
    ];
    let missed = unnoticed(&files, true, &|| checked().ok());
    assert_eq!(missed, Vec::<String>::new());
    let missed = unnoticed(&[local.attempts()], false, &|| checked().ok());
    assert_eq!(missed, Vec::<String>::new());
    fs::write(local.dir().join("cluster"), "d\n").unwrap();
    assert_eq!(checked().unwrap().damaged, 1);
}

#[test]
fn a_file_that_is_no_file_of_corral_is_named_and_a_changed_configuration_noted() {
    let (_dir, layout) = populated();
    fs::write(layout.root().join("core"), "x").unwrap();
    fs::write(layout.config(), "cluster: {name: d}\nhosts: []\n").unwrap();
    let report = check(&layout).unwrap();
    let notes = report.notes.join("\n");
    assert!(notes.contains("core: not a file of Corral"), "{notes}");
    assert!(notes.contains("cb.yaml:16: differs"), "{notes}");
}
