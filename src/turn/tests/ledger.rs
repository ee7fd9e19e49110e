//! A host that lost its ledger: what it may have started is an unknown end, nothing is sent twice.

use super::*;
use crate::model::TermReason;
use crate::state::HostCtl;

fn speaks(ledger: &str, predates_names: bool, known: &[AttemptId]) -> Vec<Report> {
    let id = ledger.to_owned();
    let mut out = vec![
        hello("b"),
        Report::Ledger {
            id,
            kept: predates_names,
        },
    ];
    let started = |a: &AttemptId| Report::Started {
        a: *a,
        pid: 7,
        t: 5,
        bind: None,
    };
    out.extend(known.iter().map(started));
    out.push(complete("b"));
    out
}

/// One job in each of the two slots of h1: the first may run again, the second must not.
fn busy() -> TestLeader {
    let mut b = TestLeader::new();
    b.report("h1", speaks("one", false, &[]));
    b.submit(5, |j| {
        (j.spec.queue, j.spec.hosts) = ("again".into(), "h1".into());
        j.spec.rerunnable = true;
    });
    b.submit(5, |j| j.spec.hosts = "h1".into());
    b
}

impl TestLeader {
    fn ctl(&self) -> HostCtl {
        self.core.state.host_ctl("h1")
    }

    fn load(&mut self, ledger: &str) {
        let mut doc = self.core.inputs.loads["h1"].0.clone();
        (doc.executor, doc.ledger) = (true, ledger.to_owned());
        self.turn(vec![Input::Load {
            host: "h1".into(),
            doc: Box::new(doc),
            silent_ms: 0,
        }]);
    }
}

#[test]
fn unreported_starts_of_a_host_that_forgot_them_are_unknown_ends() {
    let mut b = busy();
    b.report("h1", speaks("two", false, &[]));
    assert_eq!(b.stat(2), JobStat::Exit);
    let run = b.core.state.work(JobKey::job(2)).unwrap().run.clone();
    let fate = run.unwrap().end.unwrap();
    assert_eq!((fate.reason, fate.code), (TermReason::HostLost, None));
    // The ends come before the name: if the file is cut off in between, they are reported again.
    let name = |e: &Event| matches!(e, Event::HostLedger { .. });
    let at = b.last.events.iter().position(name).unwrap();
    let ends = b
        .last
        .events
        .iter()
        .rposition(|e| matches!(e, Event::Ended { .. }));
    assert!(ends.unwrap() < at, "{:?}", b.last.events);
    // Orders after the name are for the new ledger.
    let of: Vec<&Order> = b.last.orders.iter().map(|(_, o)| o).collect();
    let named = of
        .iter()
        .position(|o| **o == Order::Ledger { id: "two".into() });
    let again = of
        .iter()
        .position(|o| matches!(o, Order::Start(s) if s.a.j.id == 1 && s.a.at == 2));
    assert!(named.unwrap() < again.unwrap(), "{of:?}");
    assert!(matches!(&outstanding(&b.core, Some("h1"))[0].1, Order::Ledger { id } if id == "two"));
}

#[test]
fn a_host_that_remembers_loses_nothing_by_a_restart() {
    let mut b = busy();
    b.report("h1", speaks("one", false, &[]));
    assert_eq!((b.stat(1), b.stat(2)), (JobStat::Run, JobStat::Run));
    // Found again in logs that survived.
    b.report("h1", speaks("two", false, &[attempt(1, 1), attempt(2, 1)]));
    assert_eq!((b.stat(1), b.stat(2)), (JobStat::Run, JobStat::Run));
    assert_eq!(b.ctl().ledger, "two");
    b.report("h1", speaks("three", true, &[attempt(1, 1), attempt(2, 1)]));
    assert_eq!(
        (b.stat(2), b.ctl().ledger.as_str()),
        (JobStat::Run, "three")
    );
}

#[test]
fn the_first_word_of_a_host_puts_back_what_it_did_not_follow() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.hosts = "h1".into());
    assert_eq!(b.starts().len(), 1);
    b.report("h1", speaks("one", false, &[]));
    assert_eq!(b.starts(), [("h1".to_string(), "1.2".to_string())]);
    // If the name is older than the naming, the host has followed its orders.
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.hosts = "h1".into());
    b.report("h1", speaks("one", true, &[]));
    assert!(b.starts().is_empty() && b.stat(1) == JobStat::Run);
}

#[test]
fn nothing_is_sent_to_a_host_before_its_ledger_is_journalled() {
    let mut b = TestLeader::new();
    b.load("one");
    b.submit(5, |j| j.spec.hosts = "h1".into());
    assert!(b.starts().is_empty());
    b.report("h1", speaks("one", false, &[]));
    assert_eq!(b.starts(), [("h1".to_string(), "1.1".to_string())]);
    b.load("two");
    b.submit(5, |j| j.spec.hosts = "h1".into());
    assert!(b.starts().is_empty());
}

#[test]
fn a_dead_executor_undoes_a_gang_that_gathers() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.min = 4);
    let gathering = |b: &TestLeader| b.core.state.work(JobKey::job(1)).unwrap().stat.is_started();
    assert!(gathering(&b));
    let mut doc = b.core.inputs.loads["h2"].0.clone();
    doc.executor = false;
    b.turn(vec![Input::Load {
        host: "h2".into(),
        doc: Box::new(doc),
        silent_ms: 0,
    }]);
    assert!(!gathering(&b));
}

#[test]
fn a_host_whose_orders_cannot_be_written_gets_no_work_until_they_can() {
    let mut b = TestLeader::new();
    let waits = |host: &str, why: Option<&str>| Input::OrdersBlocked {
        host: host.into(),
        why: why.map(str::to_owned),
    };
    b.turn(vec![waits("h1", Some("it is a file"))]);
    b.submit(5, |_| {});
    assert_eq!(b.starts(), [("h2".to_string(), "1.1".to_string())]);
    b.beat("h1");
    b.submit(5, |j| j.spec.hosts = "h1".into());
    assert_eq!(b.starts(), []);
    let warnings = |b: &TestLeader| -> Vec<String> {
        let mut rows = crate::turn::host_rows(&b.core).into_iter();
        let h1 = rows.find(|row| row.name == "h1").unwrap();
        let about = h1.warnings.into_iter();
        about.filter(|w| w.contains("it is a ")).collect()
    };
    let why = "gets no work: its orders cannot be written: it is a";
    assert_eq!(warnings(&b), [format!("{why} file")]);
    b.turn(vec![waits("h1", Some("it is a pipe"))]);
    assert_eq!(warnings(&b), [format!("{why} pipe")], "only the last one");
    b.turn(vec![waits("h1", None)]);
    assert_eq!(b.starts(), [("h1".to_string(), "2.1".to_string())]);
    assert_eq!(warnings(&b), [] as [String; 0]);
}

/// A leader that began without it in cb.yaml has not sent it the ledger for which its orders are.
#[test]
fn a_host_that_is_put_back_into_the_configuration_follows_orders() {
    let mut b = TestLeader::new();
    b.report("h1", speaks("one", false, &[]));
    let config = |text: &str| {
        let os = crate::config::OsNames::ANY;
        let loaded = crate::config::load(text.as_bytes(), "cb.yaml", &os);
        Input::Config(Arc::new(loaded.unwrap().config))
    };
    b.turn(vec![config(
        &super::CONFIG.replace("- {name: h1, slots: 2}\n", ""),
    )]);
    assert_eq!(b.last.orders, []);
    b.turn(vec![config(super::CONFIG)]);
    let named = ("h1".to_owned(), Order::Ledger { id: "one".into() });
    assert_eq!(b.last.orders, [named]);
}

#[test]
fn damaged_orders_are_renewed_and_a_host_is_told_of_damaged_reports_until_it_has_others() {
    let mut b = TestLeader::new();
    let damaged = |epoch| Report::OrdersDamaged {
        epoch,
        part: 2,
        seq: 5,
        at: 700,
        why: "x".into(),
    };
    let epoch = b.core.state.epoch();
    b.report("h1", vec![damaged(epoch + 1)]);
    assert!(b.last.damaged.is_empty(), "of another epoch");
    b.report("h1", vec![damaged(epoch)]);
    let [one] = &b.last.damaged[..] else {
        panic!("{:?}", b.last.damaged);
    };
    assert_eq!((one.host.as_str(), one.part, one.at), ("h1", 2, 700));
    let (part, seq, at) = (1, 7, 99);
    b.turn(vec![Input::ReportsDamaged {
        host: "h1".into(),
        part,
        seq,
        at,
    }]);
    let order = ("h1".to_owned(), Order::ReportsDamaged { part, seq, at });
    assert!(b.last.orders.contains(&order));
    let repeated = |b: &TestLeader| crate::turn::outstanding(&b.core, Some("h1")).contains(&order);
    assert!(repeated(&b));
    b.report("h1", speaks("one", true, &[]));
    assert!(repeated(&b), "file 1 again");
    b.report_in(2, "h1", RunId::default(), vec![complete("b")]);
    assert!(!repeated(&b));
}

/// The beat of a host that was cut off names the file before its last one.
#[test]
fn what_an_older_reports_file_does_not_mention_is_not_lost() {
    let mut b = TestLeader::new();
    let own = RunId::default();
    b.report_in(1, "h1", own, speaks("one", true, &[]));
    b.submit(5, |j| j.spec.hosts = "h1".into());
    let a = attempt(1, 1);
    b.report_in(2, "h1", own, speaks("one", true, &[]));
    let (pid, t) = (7, b.now);
    b.report_in(
        2,
        "h1",
        own,
        vec![Report::Started {
            a,
            pid,
            t,
            bind: None,
        }],
    );
    b.next_leader();
    b.report_in(1, "h1", own, speaks("one", true, &[]));
    assert_eq!(b.stat(1), JobStat::Run);
    // The newest file proves it.
    b.report_in(3, "h1", own, speaks("one", true, &[]));
    assert_eq!(b.stat(1), JobStat::Exit);
}
