//! Tests of cacct: copies, damage, selection and totals.

use super::*;
use crate::client::read::test_cluster;
use crate::client::read::test_view::{NOW, TestView};
use crate::model::{Charge, JobKey, NameList, Price, TermReason, Units};
use crate::record::acct::HostSlots;
use crate::record::frame;
use crate::record::header::{FileKind, Header};
use crate::record::view;
use std::path::PathBuf;

/// A cluster with the cluster file that the test view lacks.
fn bed() -> TestView {
    let bed = test_cluster::cluster();
    let doc =
        "{\"format\":1,\"cluster\":\"c\",\"name\":\"c1\",\"service_uid\":0,\"service_gid\":0}";
    std::fs::write(bed.dir.path().join("cluster"), doc).unwrap();
    bed
}

fn record(id: u32, user: u32, cpu_ms: u64) -> AttemptRecord<'static> {
    let end = NOW - 3_600_000;
    AttemptRecord {
        j: JobKey::job(id),
        at: 1,
        mark: id + 100,
        uid: 1000 + user,
        user: format!("u{user}").into(),
        queue: "normal".into(),
        project: "p1".into(),
        command: "sleep 10".into(),
        submit: end - 100_000,
        dispatch: end - 61_000,
        start: end - 60_000,
        end,
        hosts: vec![HostSlots("h1".into(), 2)],
        code: Some(0),
        cpu_ms,
        ..AttemptRecord::default()
    }
}

fn again(record: AttemptRecord<'static>) -> AttemptRecord<'static> {
    AttemptRecord {
        again: true,
        ..record
    }
}

/// Writes a leader's file; returns its path.
fn put(bed: &TestView, name: &str, records: &[AttemptRecord<'_>]) -> PathBuf {
    let mut out = Vec::new();
    frame::write(&mut out, 0, &Header::new(FileKind::Acct, "c", 1, 1)).unwrap();
    for (n, record) in records.iter().enumerate() {
        frame::write(&mut out, n as u64 + 1, record).unwrap();
    }
    let path = bed.dir.path().join("acct").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, out).unwrap();
    path
}

fn ask(bed: &TestView, words: &[&str]) -> Result<(String, Vec<String>), Fail> {
    let m = test_cluster::parse(options(), words);
    let source = bed.source("cacct", 1001);
    let ctx = Ctx {
        now: crate::model::Stamp(NOW),
        dates: crate::show::Dates::new(jiff::tz::TimeZone::UTC).now(NOW),
        ..source.ctx()
    };
    let mut out = String::new();
    let mut output = show(&m, &source, &ctx, &mut |text| {
        out.push_str(text);
        Ok(())
    })?;
    let missing = output.missing.iter();
    output
        .warnings
        .extend(missing.map(|job| format!("no {job}")));
    Ok((out, output.warnings))
}

fn ids(bed: &TestView, words: &[&str]) -> Vec<String> {
    let (out, _) = ask(bed, &[words, &["--csv"]].concat()).unwrap();
    let ids = out
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').next());
    ids.map(str::to_owned).collect()
}

#[test]
fn copies_of_a_new_leader_count_once_and_reused_ids_twice() {
    let bed = bed();
    let one = record(1, 1, 500);
    put(
        &bed,
        "2026-11/000001.0001.yaml",
        &[one.clone(), record(2, 1, 0)],
    );
    let reused = AttemptRecord {
        mark: 7,
        ..record(1, 1, 20)
    };
    put(
        &bed,
        "2026-11/000002.0001.yaml",
        &[again(record(2, 1, 0)), again(record(3, 1, 0)), reused],
    );
    put(
        &bed,
        "2026-11/000003.0001.yaml",
        &[again(record(3, 1, 0)), record(4, 1, 0)],
    );
    let mut all = ids(&bed, &[]);
    all.sort();
    assert_eq!(all, ["1", "1", "2", "3", "4"]);
}

#[test]
fn damage_is_named_and_costs_one_record_and_half_a_line_is_no_damage() {
    let bed = bed();
    let records = [record(1, 1, 0), record(2, 1, 0), record(3, 1, 0)];
    let path = put(&bed, "2026-11/000001.0001.yaml", &records);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(8).position(|w| w == b"\"j\":\"2\",").unwrap();
    let line = bytes[..at].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    bytes[at + 5] = b'9';
    bytes.extend_from_slice(b"- {\"k\":\"en");
    std::fs::write(&path, bytes).unwrap();
    let (out, warnings) = ask(&bed, &["--csv"]).unwrap();
    assert_eq!(out.lines().count(), 3, "{out}");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let place = format!("{}:{line}: ", path.display());
    assert!(warnings[0].starts_with(&place), "{warnings:?} {place}");
    // A file of another cluster contributes nothing.
    let foreign = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, foreign.replace("\"c\"", "\"d\"")).unwrap();
    assert_eq!(ids(&bed, &[]).len(), 0);
}

#[test]
fn attempts_are_selected() {
    let bed = bed();
    let failed = AttemptRecord {
        code: Some(3),
        reason: TermReason::RunLimit,
        queue: "short".into(),
        ..record(2, 1, 0)
    };
    let requeued = AttemptRecord {
        requeued: true,
        project: "p2".into(),
        group: "g1".into(),
        ..record(3, 1, 0)
    };
    let old = AttemptRecord {
        end: NOW - 40 * 86_400_000,
        submit: NOW - 40 * 86_400_000,
        hosts: vec![HostSlots("gone".into(), 1)],
        ..record(4, 1, 0)
    };
    put(
        &bed,
        "2026-11/000001.0001.yaml",
        &[record(1, 1, 0), failed, requeued, record(5, 2, 0)],
    );
    let path = put(&bed, "2026-10/000001.0002.yaml", &[old]);
    assert_eq!(ids(&bed, &[]), ["4", "1", "2", "3"]);
    assert_eq!(ids(&bed, &["-u", "all"]).len(), 5);
    assert_eq!(ids(&bed, &["-d"]), ["4", "1"]);
    assert_eq!(ids(&bed, &["-e"]), ["2"]);
    assert_eq!(ids(&bed, &["-q", "short"]), ["2"]);
    assert_eq!(ids(&bed, &["-P", "p2"]), ["3"]);
    assert_eq!(ids(&bed, &["-G", "g1"]), ["3"]);
    assert_eq!(ids(&bed, &["-m", "gone"]), ["4"]);
    assert_eq!(ids(&bed, &["5", "4"]), ["4", "5"]);
    // Months outside the range are not read.
    std::fs::write(path, "damage\n- more\n").unwrap();
    for range in ["-C", "-S", "-D"] {
        let (_, warnings) = ask(&bed, &[range, ".-3,", "--csv"]).unwrap();
        assert_eq!(warnings, [""; 0], "{range}");
        assert_eq!(ids(&bed, &[range, ".-3,"]), ["1", "2", "3"]);
    }
    assert_eq!(ask(&bed, &[]).unwrap().1.len(), 1);
}

#[test]
fn names_that_select_nothing_must_exist_and_jobs_without_a_record_are_named() {
    let bed = bed();
    put(&bed, "2026-11/000001.0001.yaml", &[record(1, 1, 0)]);
    for (line, want) in [
        (
            ["-q", "normla"],
            "normla: no such queue; did you mean \"normal\"?",
        ),
        (
            ["-m", "hh1"],
            "hh1: no such host or host group; did you mean \"h1\"?",
        ),
    ] {
        let fail = ask(&bed, &line).unwrap_err();
        assert_eq!((fail.exit, fail.text.as_str()), (Exit::NotFound, want));
    }
    let (out, output) = ask(&bed, &["--csv", "1", "99", "3[2]"]).unwrap();
    assert_eq!(
        (out.lines().count(), output),
        (2, vec!["no 99".into(), "no 3[2]".into()])
    );
}

#[test]
fn forms_and_unbuilt_options_are_refused() {
    let bed = bed();
    for line in [
        &["--by", "color"][..],
        &["-o", "nothing"],
        &["-o", "jobid", "-l"],
        &["--csv", "-l"],
    ] {
        let fail = ask(&bed, line).unwrap_err();
        assert_eq!(fail.exit, Exit::Usage, "{line:?}: {}", fail.text);
    }
    let (out, warnings) = ask(&bed, &[]).unwrap();
    assert!(out.contains("Total number of done jobs:") && warnings.is_empty());
}

#[test]
fn golden_output() {
    let bed = bed();
    let gpu = |host: &str, names: &[&str]| Units {
        host: host.into(),
        res: "gpu".into(),
        names: names.iter().map(|name| (*name).into()).collect(),
        ..Units::default()
    };
    let wide = AttemptRecord {
        j: JobKey::element(2, 3),
        name: "train, \"big\"".into(),
        queue: "gpu".into(),
        hosts: vec![HostSlots("h1".into(), 2), HostSlots("h2".into(), 1)],
        units: vec![gpu("h1", &["0", "1"]), gpu("h2", &["0"])],
        code: None,
        sig: 9,
        reason: TermReason::MemLimit,
        maxmem_kb: 2_000_000,
        susp_ms: 10_000,
        mem_b: Some(1 << 30),
        run_s: Some(3600),
        res_req: "select[mem>100]".into(),
        ..record(2, 1, 150_000)
    };
    let requeued = AttemptRecord {
        requeued: true,
        code: Some(7),
        ..record(3, 2, 1_000)
    };
    let done = AttemptRecord {
        at: 2,
        ..record(3, 2, 9_000)
    };
    put(
        &bed,
        "2026-11/000001.0001.yaml",
        &[record(1, 1, 59_000), wide, requeued, done],
    );
    let lines = [
        "-u all",
        "-u all -b",
        "-w 2",
        "-l 2",
        "-u all --csv",
        "--json 3",
        "-json 3",
        "-u all --by user",
        "-u all --by host",
        "--by queue",
        "-u all -o 'jobid stat user exec_host run_time cpu_used max_mem term_reason'",
        "-o \"id:4 attempt requeued submit_time finish_time delimiter='|'\" -noheader 3",
        "-json -o 'jobid slots memlimit rlimit eresreq' 2 3",
    ];
    test_cluster::compare("cacct", &lines, |words| {
        ask(&bed, words).expect("it answers").0
    });
}

#[test]
fn costs_are_in_every_form_and_sums_are_those_of_the_records() {
    let bed = bed();
    let mut params = bed.source("cacct", 1001).params().unwrap();
    let price = |hosts: &[&str], slot_hour, mem_gb_hour| Price {
        queues: NameList::all(),
        hosts: NameList {
            all_but: false,
            names: hosts.iter().map(|h| (*h).to_owned()).collect(),
        },
        apps: NameList::all(),
        slot_hour,
        mem_gb_hour,
        ..Price::default()
    };
    params.charge = Some(Charge {
        currency: "EUR".into(),
        timezone: "UTC".into(),
        prices: vec![price(&["h1"], 3_600_000, 0), price(&["h2"], 60_000, 0)],
        ..Charge::default()
    });
    bed.put(view::PARAMS, &[params]);
    let wide = AttemptRecord {
        hosts: vec![HostSlots("h1".into(), 1), HostSlots("h2".into(), 2)],
        ..record(2, 2, 0)
    };
    put(
        &bed,
        "2026-11/000001.0001.yaml",
        &[record(1, 1, 0), wide, again(record(3, 1, 0))],
    );
    let output = |words: &[&str]| ask(&bed, &[&["-u", "all"], words].concat()).unwrap().0;
    // A minute on two slots of h1; on one slot of h1 and two of h2; and the first again.
    let costs = ["0.12", "0.062", "0.12"];
    let csv = output(&["--csv"]);
    let column: Vec<&str> = csv
        .lines()
        .skip(1)
        .filter_map(|l| l.rsplit(',').nth(3))
        .collect();
    assert_eq!(column, costs, "{csv}");
    for (line, cost) in output(&["--json"]).lines().zip(costs) {
        let ending = format!("\"cost\":{cost},\"currency\":\"EUR\"}}");
        assert!(line.ends_with(&ending), "{line}");
    }
    assert!(output(&["-l", "2"]).contains("\n cost: 0.062 EUR\n"));
    assert!(output(&[]).contains(&format!(" {:<34}{:>12}\n", "Total cost (EUR):", "0.302")));
    let by = output(&["--by", "host"]);
    let (by, spread) = by.split_once("\n\n").expect("a line after the table");
    assert!(spread.starts_with("Slot-hours of 2 hosts: least 0.03 (h2), most 0.08 (h1)"));
    let last = |line: &str| line.split_whitespace().last().map(str::to_owned);
    let column: Vec<_> = by.lines().filter_map(last).collect();
    assert_eq!(column, ["COST", "0.3", "0.002"], "{by}");
    let by = output(&["--by", "user"]);
    let column: Vec<_> = by.lines().filter_map(last).collect();
    assert_eq!(column, ["COST", "0.24", "0.062"], "{by}");
}

#[test]
fn advice_is_given_for_what_was_selected() {
    let bed = bed();
    let sized = |id| AttemptRecord {
        name: format!("sweep{id}").into(),
        mem_b: Some(8 << 30),
        maxmem_kb: 100 << 10,
        ..record(id, 1, 1000)
    };
    let records: Vec<_> = (1..=6).map(sized).collect();
    put(&bed, "2026-11/000001.0001.yaml", &records);
    let output = |words: &[&str]| ask(&bed, &[&["-u", "all"], words].concat());
    let text = output(&["--advice"]).unwrap().0;
    let row = text.lines().nth(1).expect("a row");
    assert!(
        row.contains(" sweep# ") && row.contains("-M 130M"),
        "{text}"
    );
    let lines = output(&["--advice", "--json"]).unwrap().0;
    assert!(lines.contains("\"advised_mem_limit_mb\":130,"), "{lines}");
    let few = output(&["--advice", "1", "2"]).unwrap().0;
    assert!(few.starts_with("There are no 5 similar jobs"), "{few}");
    let Err(fail) = output(&["--advice", "-b"]) else {
        panic!("two forms");
    };
    assert!(fail.text.contains("beside --advice"), "{}", fail.text);
}
