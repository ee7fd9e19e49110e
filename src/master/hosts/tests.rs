//! Tests of listening to hosts.

use super::*;
use crate::record::header::{FileKind, Header};
use crate::turn::SILENT_MS;

/// Hosts of a share on which h1 wrote its load once, at the epoch of the wall clock.
fn one_host(every_ms: u64) -> (tempfile::TempDir, Hosts) {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::mkdir_p(&layout.host("h1"), 0o755).unwrap();
    let doc = LoadDoc {
        incarnation: "i".into(),
        every_ms,
        beat: 1,
        ..LoadDoc::default()
    };
    fs::publish(&layout.load("h1"), &load::encode(&doc).unwrap()).unwrap();
    let owners = Owners {
        uid: crate::sys::users::effective_uid(),
        gid: 0,
    };
    let hosts = Hosts::new(&layout, "c", owners);
    (dir, hosts)
}

#[test]
fn a_host_may_say_any_pace() {
    let (_dir, mut hosts) = one_host(u64::MAX);
    let mut inputs = Vec::new();
    hosts.read_all(
        (1, i64::MIN),
        HostSelection::All,
        1000,
        &|_| false,
        &mut inputs,
    );
    assert!(matches!(&inputs[..], [Input::Load { .. }]));
}

#[test]
fn a_host_that_this_leader_has_not_heard_is_silent_since_it_listens() {
    let (_dir, mut hosts) = one_host(1_000);
    let mut inputs = Vec::new();
    hosts.read_all(
        (1, 1 << 40),
        HostSelection::All,
        1000,
        &|_| false,
        &mut inputs,
    );
    hosts.read_all(
        (50_001, 1 << 40),
        HostSelection::All,
        1000,
        &|_| false,
        &mut inputs,
    );
    let silent = inputs.iter().map(|input| match input {
        Input::Load { silent_ms, .. } => *silent_ms,
        _ => 0,
    });
    assert_eq!(silent.collect::<Vec<_>>(), [SILENT_MS, 50_000]);
}

#[test]
fn a_load_that_cannot_be_read_any_more_is_silence() {
    let (dir, mut hosts) = one_host(1_000);
    let path = Layout::new(dir.path()).load("h1");
    let mut silence = |now: u64| {
        let mut inputs = Vec::new();
        hosts.read_all((now, 0), HostSelection::All, 1000, &|_| false, &mut inputs);
        inputs.iter().find_map(|input| match input {
            Input::Load { silent_ms, .. } => Some(*silent_ms),
            _ => None,
        })
    };
    assert_eq!(silence(1), Some(0));
    std::fs::write(&path, b"torn").unwrap();
    assert_eq!(silence(10_001), None, "it may be written right now");
    assert_eq!(silence(50_001), Some(50_000));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(silence(60_001), Some(60_000));
}

/// A share with `n` listed hosts; those in `live` beat by name and have a report file.
fn many(n: usize, live: &[&str]) -> (tempfile::TempDir, Hosts, Layout) {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::mkdir_p(&layout.beats(), 0o755).unwrap();
    for host in 0..n {
        fs::mkdir_p(&layout.host(&format!("n{host:04}")), 0o755).unwrap();
    }
    for host in live {
        let doc = sample(host, 0);
        fs::publish(&layout.load(host), &load::encode(&doc).unwrap()).unwrap();
        let mut out = Vec::new();
        let header = Header::new(FileKind::Reports, "c", 0, 1);
        crate::record::frame::write(&mut out, 0, &header).unwrap();
        fs::publish(&layout.reports(host, 1), &out).unwrap();
    }
    let owners = Owners {
        uid: crate::sys::users::effective_uid(),
        gid: 0,
    };
    let hosts = Hosts::new(&layout, "c", owners);
    (dir, hosts, layout)
}

fn sample(host: &str, beat: u64) -> LoadDoc {
    LoadDoc {
        host: host.into(),
        boot: "b".into(),
        incarnation: "i".into(),
        every_ms: 5000,
        executor: true,
        written: 1,
        beat,
        ..LoadDoc::default()
    }
}

fn beat_by_name(layout: &Layout, host: &str, beat: u64, end: u64) {
    let all = fs::names(&layout.beats(), 10_000).unwrap();
    let old = all.iter().filter_map(|name| name.to_str());
    let old: Vec<&str> = old.filter(|name| name.starts_with(host)).collect();
    for name in old {
        fs::remove(&layout.beats().join(name)).unwrap();
    }
    let doc = sample(host, beat);
    let name = crate::record::beat::Beat::of(&doc, (1, end))
        .name()
        .unwrap();
    fs::publish(&layout.beats().join(name), b"").unwrap();
}

#[test]
fn an_idle_second_costs_no_more_with_many_listed_hosts() {
    for n in [3, 1_000, 5_000] {
        let live = ["n0000", "n0001", "n0002"];
        let (_dir, mut hosts, layout) = many(n, &live);
        let mut calls = 0;
        let mut heard = BTreeSet::new();
        for now in (1_000..181_000).step_by(1_000) {
            if now % 5_000 == 0 {
                live.iter().for_each(|h| beat_by_name(&layout, h, now, 0));
            }
            let mut inputs = Vec::new();
            let before = crate::sys::failpoint::calls();
            hosts.read_all((now, 0), HostSelection::Due, 1000, &|_| true, &mut inputs);
            // In its first seconds, a new leader checks more.
            if now > 60_000 {
                calls += crate::sys::failpoint::calls() - before;
            }
            for input in inputs {
                if let Input::Load {
                    host, silent_ms, ..
                } = input
                {
                    assert!(now < 10_000 || silent_ms < SILENT_MS, "{host} at {now}");
                    heard.insert(host);
                }
            }
        }
        assert_eq!(heard.len(), 3);
        // Beats, the list of hosts, and in turn a few hosts without signs of life.
        assert!(calls <= 4 * 120, "{calls} calls in 120 s with {n} hosts");
    }
}

/// Listing thousands of names takes many requests to a file server.
#[test]
fn hosts_are_listed_only_when_their_directory_changed() {
    let (_dir, mut hosts, layout) = many(3, &["n0000"]);
    let mut inputs = Vec::new();
    let mut listen = |from: u64, to: u64| {
        let before = hosts.readers.len();
        for now in (from..to).step_by(1_000) {
            hosts.read_all((now, 0), HostSelection::Due, 1000, &|_| true, &mut inputs);
        }
        (
            hosts.readers.len() - before,
            hosts.names.gate.last_read_ms(),
        )
    };
    let (_, first) = listen(1_000, 60_000);
    let (_, later) = listen(60_000, 300_000);
    assert_eq!(first, later, "nothing changed");
    fs::mkdir_p(&layout.host("n9999"), 0o755).unwrap();
    assert_eq!(listen(300_000, 330_000).0, 1);
    let (_, before) = listen(330_000, 400_000);
    let (_, swept) = listen(400_000, 1_100_000);
    assert!(swept > before, "now and then they are listed all the same");
}

#[test]
fn news_in_a_beat_is_read_from_whoever_has_it() {
    let (_dir, mut hosts, layout) = many(500, &["n0000"]);
    let mut out = fs::read_small(&layout.reports("n0000", 1), 9999).unwrap();
    let mut listen = |now: u64| {
        let mut inputs = Vec::new();
        hosts.read_all((now, 0), HostSelection::Due, 1000, &|_| true, &mut inputs);
        let reports = |i: &&Input| matches!(i, Input::Reports { .. });
        inputs.iter().filter(reports).count()
    };
    beat_by_name(&layout, "n0000", 1, out.len() as u64);
    assert_eq!(listen(1_000), 0, "a header is no report");
    let report = Report::Complete { boot: "b".into() };
    crate::record::frame::write(&mut out, 1, &report).unwrap();
    fs::publish(&layout.reports("n0000", 1), &out).unwrap();
    beat_by_name(&layout, "n0000", 2, out.len() as u64);
    assert_eq!(listen(6_000), 1);
    assert_eq!(listen(11_000), 0);
}

#[test]
fn a_host_whose_name_stands_still_is_silent_after_as_long_as_ever() {
    let (_dir, mut hosts, layout) = many(3, &["n0000"]);
    let mut silent_at = None;
    for now in (1_000..60_000).step_by(500) {
        if now % 5_000 == 0 && now <= 20_000 {
            beat_by_name(&layout, "n0000", now, 0);
        }
        let mut inputs = Vec::new();
        hosts.read_all((now, 0), HostSelection::Due, 1000, &|_| true, &mut inputs);
        for input in inputs {
            if let Input::Load { silent_ms, .. } = input
                && now > 10_000
                && silent_ms >= SILENT_MS
            {
                silent_at.get_or_insert(now);
            }
        }
    }
    let at = silent_at.unwrap_or_default();
    assert!(
        (40_000..=45_000).contains(&at),
        "the last beat was at 20 s, silent at {at}"
    );
}

/// A silent host without jobs is checked in turn; one with jobs is not considered cut off while its
/// load document changes, and its limit counts.
#[test]
fn a_host_with_work_whose_name_stands_still_is_looked_at_each_time() {
    let (_dir, mut hosts, layout) = many(300, &["n0000"]);
    let busy = |host: &str| host != "n0000";
    let mut told = None;
    for now in (1_000..120_000).step_by(1_000) {
        if now <= 20_000 {
            beat_by_name(&layout, "n0000", now / 1_000, 0);
        }
        if now > 60_000 && now <= 70_000 {
            // An older version was installed again on the host.
            let doc = LoadDoc {
                incarnation: "old".into(),
                iso_ms: Some(9_000),
                written: 0,
                ..sample("n0000", now)
            };
            fs::publish(&layout.load("n0000"), &load::encode(&doc).unwrap()).unwrap();
        }
        let mut inputs = Vec::new();
        hosts.read_all((now, 0), HostSelection::Due, 1000, &busy, &mut inputs);
        for input in inputs {
            if let Input::Load { doc, silent_ms, .. } = input {
                told = Some((doc.iso_ms, silent_ms));
            }
        }
        match now {
            59_000 => assert!(told.is_some_and(|(_, silent)| silent >= 35_000), "{told:?}"),
            66_000..=80_000 => assert!(told.is_some_and(|(_, silent)| silent < SILENT_MS)),
            _ => {}
        }
    }
    let (limit, silent) = told.unwrap();
    assert!((45_000..55_000).contains(&silent), "{silent}");
    assert_eq!(limit, Some(9_000));
}

#[test]
fn a_directory_of_beats_that_is_missing_is_made_and_one_that_cannot_be_read_is_told_of() {
    let (_dir, mut hosts, layout) = many(1, &[]);
    std::fs::remove_dir(layout.beats()).unwrap();
    let mut inputs = Vec::new();
    let mut listen = |hosts: &mut Hosts, now| {
        hosts.read_all((now, 0), HostSelection::All, 1000, &|_| true, &mut inputs)
    };
    listen(&mut hosts, 1_000);
    assert!(fs::exists(&layout.beats()));
    assert_eq!(hosts.unreadable().next(), None);
    std::fs::remove_dir(layout.beats()).unwrap();
    fs::publish(&layout.beats(), b"in the way").unwrap();
    listen(&mut hosts, 7_000);
    let alarm = hosts.unreadable().next().unwrap();
    assert!(
        alarm.contains("the beats of hosts cannot be read"),
        "{alarm}"
    );
}

/// As long as a damaged file exists, it does not cost a read in each turn.
#[test]
fn reports_that_do_not_go_on_are_looked_at_when_their_poll_is_due() {
    let (_dir, mut hosts, layout) = many(1, &["n0000"]);
    let path = layout.reports("n0000", 1);
    let mut out = fs::read_small(&path, 9999).unwrap();
    out.extend_from_slice(b"half a line");
    fs::publish(&path, &out).unwrap();
    beat_by_name(&layout, "n0000", 1, out.len() as u64);
    let (mut calls, mut given_up) = (0, 0);
    for now in (1_000..40_000).step_by(10) {
        let mut inputs = Vec::new();
        let before = crate::sys::failpoint::calls();
        hosts.read_all((now, 0), HostSelection::Due, 1000, &|_| true, &mut inputs);
        calls += crate::sys::failpoint::calls() - before;
        let told = |i: &&Input| matches!(i, Input::ReportsDamaged { .. });
        given_up += inputs.iter().filter(told).count();
    }
    assert_eq!(given_up, 1);
    // Without that it would be three in each of the 3,900 turns.
    assert!(calls < 500, "{calls} calls in 39 s");
}

#[test]
fn only_hosts_whose_reports_are_due_or_named_are_read() {
    let (dir, mut hosts) = one_host(1_000);
    let layout = Layout::new(dir.path());
    let mut out = Vec::new();
    let header = Header::new(FileKind::Reports, "c", 0, 1);
    crate::record::frame::write(&mut out, 0, &header).unwrap();
    fs::publish(&layout.reports("h1", 1), &out).unwrap();
    let mut seq = 0;
    let mut add = || {
        seq += 1;
        let report = Report::Complete { boot: "b".into() };
        crate::record::frame::write(&mut out, seq, &report).unwrap();
        fs::publish(&layout.reports("h1", 1), &out).unwrap();
    };
    let listen = |hosts: &mut Hosts, now: u64, which: HostSelection<'_>| {
        let mut inputs = Vec::new();
        hosts.read_all((now, 0), which, 1000, &|_| false, &mut inputs);
        let reports = |i: &Input| matches!(i, Input::Reports { .. });
        inputs.iter().any(reports)
    };
    listen(&mut hosts, 1, HostSelection::All);
    add();
    let due = hosts.due_ms().unwrap();
    assert!(!listen(&mut hosts, due - 1, HostSelection::Due));
    assert!(listen(&mut hosts, due, HostSelection::Due));
    assert!(hosts.due_ms().unwrap() - due <= 10, "news comes in company");
    let mut now = due;
    while now < due + 10_000 {
        now = hosts.due_ms().unwrap();
        assert!(!listen(&mut hosts, now, HostSelection::Due));
    }
    assert_eq!(hosts.due_ms().unwrap() - now, 1000);
    add();
    assert!(!listen(&mut hosts, now + 1, HostSelection::Due));
    let named = BTreeSet::from(["h1".to_owned()]);
    assert!(listen(&mut hosts, now + 1, HostSelection::Hosts(&named)));
    // After orders, reports are likely.
    let now = now + 5_000;
    listen(&mut hosts, now, HostSelection::Due);
    hosts.expect("h1", now);
    assert!(hosts.due_ms().unwrap() - now <= 10);
}

/// A leader that used the limit of a load document it cannot read would start running jobs
/// elsewhere.
#[test]
fn a_load_that_cannot_be_read_any_more_names_no_limit() {
    let (dir, mut hosts) = one_host(1_000);
    let path = Layout::new(dir.path()).load("h1");
    let mut doc = LoadDoc {
        incarnation: "i".into(),
        every_ms: 1_000,
        beat: 1,
        iso_ms: Some(6_000),
        ..LoadDoc::default()
    };
    let mut limit = |now: u64| {
        let mut inputs = Vec::new();
        hosts.read_all((now, 0), HostSelection::All, 1000, &|_| false, &mut inputs);
        inputs.iter().find_map(|input| match input {
            Input::Load { doc, .. } => Some(doc.iso_ms),
            _ => None,
        })
    };
    fs::publish(&path, &load::encode(&doc).unwrap()).unwrap();
    assert_eq!(limit(1), Some(Some(6_000)));
    std::fs::write(&path, b"damaged").unwrap();
    assert_eq!(limit(50_001), Some(None));
    doc.beat = 2;
    fs::publish(&path, &load::encode(&doc).unwrap()).unwrap();
    assert_eq!(limit(60_001), Some(Some(6_000)));
}

#[test]
fn clocks_that_differ_are_told_of_with_the_sign() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("load.yaml");
    let told = |t: i64| {
        let doc = LoadDoc {
            t,
            ..LoadDoc::default()
        };
        clock_ahead_ms(&path, &doc).and_then(skew)
    };
    assert_eq!(told(0), None, "no file, no word");
    fs::publish(&path, b"x").unwrap();
    let written = fs::stat(&path).unwrap().unwrap().mtime_ms;
    for (ms, due) in [
        (0, None),
        (5_000, None),
        (-5_000, None),
        (6_000, Some("its clock is 6s ahead of the file server's")),
        (-6_400, Some("its clock is 6s behind the file server's")),
        (600_000, Some("its clock is 10m ahead of the file server's")),
        (-7_200_000, Some("its clock is 2h behind the file server's")),
    ] {
        assert_eq!(told(written + ms).as_deref(), due, "{ms} ms");
    }
    for wild in [i64::MAX, i64::MIN] {
        assert!(told(wild).is_some());
    }
}

#[test]
fn a_lasting_flip_in_reports_is_told_once_and_nothing_behind_it_is_believed() {
    let (dir, mut hosts) = one_host(1_000);
    let layout = Layout::new(dir.path());
    let file = |part: u64| {
        let mut out = Vec::new();
        let header = Header::new(FileKind::Reports, "c", 0, part);
        crate::record::frame::write(&mut out, 0, &header).unwrap();
        for seq in 1..=3 {
            let boot = format!("b{seq}");
            let report = Report::Complete { boot };
            crate::record::frame::write(&mut out, seq, &report).unwrap();
        }
        out
    };
    let mut bytes = file(1);
    let at = bytes.len() - 60;
    bytes[at] ^= 1;
    fs::publish(&layout.reports("h1", 1), &bytes).unwrap();
    let listen = |hosts: &mut Hosts, now: u64| {
        let mut inputs = Vec::new();
        hosts.read_all((now, 0), HostSelection::All, 1000, &|_| false, &mut inputs);
        inputs.retain(|input| !matches!(input, Input::Load { .. }));
        inputs
    };
    let first = listen(&mut hosts, 1);
    assert!(
        matches!(&first[..], [Input::Reports { reports, .. }] if reports.len() < 3),
        "what stands in front counts"
    );
    let second = listen(&mut hosts, 20001);
    assert!(matches!(
        &second[..],
        [Input::ReportsDamaged { part: 1, .. }]
    ));
    let alarm = hosts.damages(20_001).pop().unwrap();
    assert!(alarm.contains("reports.000001.yaml:"), "{alarm}");
    assert!(listen(&mut hosts, 40_001).is_empty(), "told once");
    fs::publish(&layout.reports("h1", 2), &file(2)).unwrap();
    let third = listen(&mut hosts, 60_001);
    assert!(matches!(&third[..], [Input::Reports { part: 2, reports, .. }] if reports.len() == 3));
    assert!(hosts.damages(60_001 + SHOWN_MS).is_empty());
}

#[test]
fn a_pipe_or_directory_in_the_place_of_reports_hides_no_others_and_holds_nobody() {
    let (dir, mut hosts) = one_host(1_000);
    let layout = Layout::new(dir.path());
    fs::mkdir_p(&layout.reports("h1", 9), 0o755).unwrap();
    let pipe = layout.reports("h1", 8);
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut bytes = Vec::new();
    let header = Header::new(FileKind::Reports, "c", 0, 1);
    crate::record::frame::write(&mut bytes, 0, &header).unwrap();
    let report = Report::Complete { boot: "b".into() };
    crate::record::frame::write(&mut bytes, 1, &report).unwrap();
    fs::publish(&layout.reports("h1", 1), &bytes).unwrap();
    let mut inputs = Vec::new();
    hosts.read_all((1, 0), HostSelection::All, 1000, &|_| false, &mut inputs);
    let read = |input: &Input| matches!(input, Input::Reports { part: 1, .. });
    assert!(inputs.iter().any(read));
    assert!(
        hosts
            .alarms
            .iter()
            .any(|a| a.contains("not a regular file"))
    );
}
