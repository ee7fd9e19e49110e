//! Which jobs may run elsewhere while their host is silent, and how tasks are handled that run on
//! although their attempts are over.

use super::*;
use crate::model::TermReason;
use crate::record::report::Usage;
use crate::record::request::Changes;

impl TestLeader {
    fn silent_for(&mut self, host: &str, silent_ms: u64) {
        let doc = Box::new(self.core.inputs.loads[host].0.clone());
        let host = host.to_owned();
        self.turn(vec![Input::Load {
            host,
            doc,
            silent_ms,
        }]);
    }

    /// The leader reads part of a report file, which states that an attempt has started.
    fn reads_start_first(&mut self, host: &str, a: AttemptId) {
        let (pid, t) = (7, self.now);
        let reports = vec![ReportRecord {
            seq: 1,
            run: Default::default(),
            report: Report::Started {
                a,
                pid,
                t,
                bind: None,
            },
        }];
        let (host, part, more) = (host.to_owned(), 1, true);
        self.turn(vec![Input::Reports {
            host,
            part,
            reports,
            more,
        }]);
    }

    /// A load document of the host that contains its limit.
    fn reports_limit(&mut self, host: &str, iso_ms: Option<u64>, silent_ms: u64) {
        let (mut doc, _) = self.core.inputs.loads[host].clone();
        doc.iso_ms = iso_ms;
        let doc = Box::new(doc);
        let host = host.to_owned();
        self.turn(vec![Input::Load {
            host,
            doc,
            silent_ms,
        }]);
    }

    /// Limits in the orders of the last turn, with their hosts.
    fn limits(&self) -> Vec<(String, u64)> {
        limits(&self.last.orders)
    }

    /// Sets `iso_timeout` in cb.yaml.
    fn set_limit(&mut self, seconds: u64) {
        let mut config = (*self.core.config).clone();
        config.general.iso_timeout_ms = seconds * 1000;
        self.turn(vec![Input::Config(Arc::new(config))]);
    }

    /// `cmod -r` or `-rn` of job 1.
    fn set_rerunnable(&mut self, yes: bool) {
        let mut changes = Box::<Changes>::default();
        changes.job.spec.rerunnable = yes;
        changes.set.push("r".to_owned());
        let sel = selector(&["1"]);
        let ack = self.ask(5, vec![Verb::Modify { sel, changes }]);
        assert_eq!(ack.results[0].code, Code::Ok, "{}", ack.results[0].text);
    }

    fn force(&mut self) -> String {
        let (sel, how) = (selector(&["1"]), SignalAction::Force);
        let ack = self.ask(0, vec![Verb::Signal { sel, how }]);
        ack.results[0].text.clone()
    }

    /// Attempts that the orders of the last turn kill, with their hosts.
    fn kills(&self) -> Vec<(String, AttemptId)> {
        let kill = |(host, order): &(String, Order)| match order {
            Order::Signal {
                a, act: Act::Kill, ..
            } => Some((host.clone(), *a)),
            _ => None,
        };
        self.last.orders.iter().filter_map(kill).collect()
    }

    /// The next leader, which knows what is in the journal and reads the hosts again.
    pub(super) fn next_leader(&mut self) {
        let state = self.replayed();
        let loads = std::mem::take(&mut self.core.inputs.loads);
        self.core = Core::new(state, self.core.config.clone(), 1000);
        self.core.inputs.loads = loads;
        self.turn(vec![Input::Config(self.core.config.clone())]);
    }
}

fn limits(orders: &[(String, Order)]) -> Vec<(String, u64)> {
    let limit = |(host, order): &(String, Order)| match order {
        Order::Limit { iso_ms } => Some((host.clone(), *iso_ms)),
        _ => None,
    };
    orders.iter().filter_map(limit).collect()
}

fn with_fence() -> TestLeader {
    let config = CONFIG.replace("general: {", "general: {iso_timeout: 6, ");
    let mut b = TestLeader::with(&config.replace("cluster: {", "cluster: {lease_timeout: 3, "));
    b.submit(5, |_| {});
    b
}

#[test]
fn what_was_dispatched_as_not_rerunnable_is_not_given_away_after_cmod_r() {
    let mut b = with_fence();
    let a = attempt(1, 1);
    b.host_runs("h1", a);
    b.set_rerunnable(true);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    b.next_leader();
    // The host does not end it: it was ordered as a job that runs once.
    b.silent_for("h1", 3_600_000);
    assert!(b.core.state.stat(a.j).unwrap().is_started());
    let anew = outstanding(&b.core, Some("h1"));
    let start = anew.iter().find_map(|(_, order)| match order {
        Order::Start(start) => Some(start),
        _ => None,
    });
    assert_eq!(start.unwrap().rerunnable, Some(false), "as it was ordered");
    // The host's statement counts at once.
    let e = Ended {
        a,
        reason: TermReason::HostLost,
        ..Ended::default()
    };
    b.report("h1", vec![Report::Ended(Box::new(e))]);
    assert_eq!(b.core.state.work(a.j).unwrap().attempt, 2, "run again");
    b.silent_for("h2", 3_600_000);
    assert_eq!(
        b.stat(1),
        JobStat::Pend,
        "given away, for the next attempt may be"
    );
}

#[test]
fn what_is_not_to_be_run_again_any_more_is_not_given_away() {
    let mut b = with_fence();
    b.ask(
        5,
        vec![Verb::Signal {
            sel: selector(&["1"]),
            how: SignalAction::Force,
        }],
    );
    b.submit(5, |j| j.spec.rerunnable = true);
    let a = attempt(2, 1);
    b.host_runs("h1", a);
    let mut changes = Box::<Changes>::default();
    changes.reset.push("r".to_owned());
    let sel = selector(&["2"]);
    b.ask(5, vec![Verb::Modify { sel, changes }]);
    b.silent_for("h1", 3_600_000);
    assert!(b.core.state.stat(a.j).unwrap().is_started());
}

#[test]
fn a_snapshot_remembers_as_what_an_attempt_was_dispatched() {
    let mut b = with_fence();
    b.host_runs("h1", attempt(1, 1));
    b.set_rerunnable(true);
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    assert_eq!(contents(&restored), contents(&b.core.state));
    let run = |s: &State| {
        s.work(JobKey::job(1))
            .unwrap()
            .run
            .as_ref()
            .unwrap()
            .rerun
            .allowed
    };
    assert!(!run(&restored) && !run(&b.core.state));
}

#[test]
fn a_removed_job_is_killed_by_every_leader_until_its_host_says_that_it_ended() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    let a = attempt(1, 1);
    b.host_runs("h1", a);
    let output = b.force();
    assert!(output.contains("may still run on host h1"), "{output}");
    assert_eq!(b.kills(), [("h1".to_owned(), a)]);
    assert_eq!(b.stat(1), JobStat::Exit);
    // The order was lost with the leader; the next leader reads the reports from their start.
    b.next_leader();
    b.host_runs("h1", a);
    assert_eq!(b.kills(), [("h1".to_owned(), a)]);
    let u = Default::default();
    b.report("h1", vec![Report::Usage { a, u }]);
    assert!(b.kills().is_empty(), "once is enough");
    let repeated = outstanding(&b.core, Some("h1"));
    let kill = |(_, o): &(String, Order)| matches!(o, Order::Signal { a: of, .. } if *of == a);
    assert!(repeated.iter().any(kill), "in a new part of the orders");
    let states = vec!["exit".to_owned()];
    let (sel, hold) = (selector(&["1"]), true);
    let requeue = Verb::Requeue { sel, hold, states };
    let ack = b.ask(5, vec![requeue.clone()]);
    let message = &ack.results[0].text;
    assert!(message.contains("may still run"), "{message}");
    b.report("h1", vec![signalled(a)]);
    assert!(b.core.memory.stray_runs.is_empty());
    assert!(!outstanding(&b.core, Some("h1")).iter().any(kill));
}

/// Job 1 has ended on h1; the next leader has read its start there but not yet its end.
fn reading_of_an_end() -> TestLeader {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    let a = attempt(1, 1);
    b.host_runs("h1", a);
    b.end("h1", 1, 1, 0);
    b.next_leader();
    b.reads_start_first("h1", a);
    b
}

#[test]
fn old_reports_of_what_has_ended_kill_nothing() {
    let mut b = reading_of_an_end();
    assert!(b.kills().is_empty(), "the file goes on");
    b.end("h1", 1, 1, 0);
    assert!(b.kills().is_empty() && b.core.memory.stray_runs.is_empty());
    // The same for an attempt that was never known here: the share may be an older copy.
    b.host_runs("h1", attempt(77, 1));
    b.host_runs("h1", attempt(1, 2));
    assert!(b.kills().is_empty());
}

#[test]
fn a_lost_job_whose_host_comes_back_is_ended_there() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.hosts = "h1".into());
    let a = attempt(1, 1);
    b.host_runs("h1", a);
    b.silent_for("h1", SILENT_MS);
    let host = "h1".to_owned();
    b.ask(0, vec![Verb::HostLost { host }]);
    assert_eq!(b.stat(1), JobStat::Exit);
    b.beat("h1");
    let u = Usage {
        cpu_ms: 5,
        ..Default::default()
    };
    b.report("h1", vec![Report::Usage { a, u }]);
    assert_eq!(b.kills(), [("h1".to_owned(), a)]);
}

/// A host that is cut off uses the earlier limit, regardless of the current cb.yaml.
#[test]
fn a_silent_host_is_fenced_by_the_limit_that_its_last_load_named() {
    for (seconds, reported) in [(6, 60_000), (0, 60_000), (600, 60_000), (6, 10_000)] {
        let mut b = TestLeader::new();
        b.submit(5, |j| {
            (j.spec.rerunnable, j.spec.hosts) = (true, "h1".into())
        });
        b.host_runs("h1", attempt(1, 1));
        b.reports_limit("h1", Some(reported), 0);
        b.set_limit(seconds);
        b.next_leader();
        let due = reported + 10_000;
        for (silent_ms, fenced) in [(due, false), (due + 1, true)] {
            b.reports_limit("h1", Some(reported), silent_ms);
            let pends = b.stat(1) == JobStat::Pend;
            assert_eq!(pends, fenced, "{seconds} s, {silent_ms} ms");
        }
    }
}

/// Job 1, which only h1 may run, was given up because that host is silent.
fn given_up() -> (TestLeader, AttemptId) {
    let mut b = TestLeader::new();
    b.submit(5, |j| {
        (j.spec.rerunnable, j.spec.hosts) = (true, "h1".into())
    });
    let a = attempt(1, 1);
    b.host_runs("h1", a);
    b.reports_limit("h1", Some(60_000), 0);
    let u = Usage {
        cpu_ms: 3_000,
        ..Usage::default()
    };
    b.report("h1", vec![Report::Usage { a, u }]);
    b.reports_limit("h1", Some(60_000), 70_001);
    assert_eq!(b.stat(1), JobStat::Pend);
    (b, a)
}

#[test]
fn a_success_that_a_fenced_host_reports_stands_while_the_job_waits() {
    let (mut b, a) = given_up();
    b.submit(5, |j| j.spec.depend = "done(1)".into());
    b.core.state.note_ends();
    // The load of the host is read before its reports are.
    b.reports_limit("h1", Some(60_000), 0);
    assert_eq!(
        b.stat(1),
        JobStat::Pend,
        "what became of it is not known yet"
    );
    let mut end = exited(a, 0);
    if let Report::Ended(e) = &mut end {
        e.u.cpu_ms = 4_000;
    }
    b.report("h1", vec![end.clone()]);
    assert_eq!(b.stat(1), JobStat::Done);
    assert_eq!(b.stat(2), JobStat::Run, "its dependent");
    let run = b.core.state.work(a.j).unwrap().run.clone().unwrap();
    assert_eq!(run.usage().cpu_ms, 4_000);
    assert_eq!(run.end.unwrap().reason, TermReason::None);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    let records = b.core.state.take_ends();
    let [record] = &records[..] else {
        panic!("{records:?}");
    };
    assert!(record.late && record.is_done() && !record.requeued);
    assert_eq!((record.run_ms(), record.cpu_ms), (0, 1_000));
    // The next leader reads the same report.
    b.report("h1", vec![end]);
    assert!(b.last.events.is_empty() && b.core.state.take_ends().is_empty());
}

#[test]
fn a_failure_that_a_fenced_host_reports_changes_nothing_and_it_gets_jobs_again() {
    for end in [exited(attempt(1, 1), 5), {
        let mut end = exited(attempt(1, 1), 0);
        if let Report::Ended(e) = &mut end {
            e.reason = TermReason::Fenced;
        }
        end
    }] {
        let (mut b, a) = given_up();
        b.reports_limit("h1", Some(60_000), 0);
        assert_eq!(b.stat(1), JobStat::Pend);
        b.report("h1", vec![end]);
        assert_eq!(b.core.state.work(a.j).unwrap().attempt, 2, "run again");
    }
    // The order to start it was cancelled before the host read it.
    let (mut b, a) = given_up();
    b.reports_limit("h1", Some(60_000), 0);
    let why = "cancelled".to_owned();
    b.report("h1", vec![Report::Never { a, why }]);
    assert_eq!(b.core.state.work(a.j).unwrap().attempt, 2, "run again");
    // A host that says nothing about it.
    let (mut b, a) = given_up();
    b.reports_limit("h1", Some(60_000), 0);
    b.now += 5_001;
    b.reports_limit("h1", Some(60_000), 0);
    assert_eq!(b.core.state.work(a.j).unwrap().attempt, 2, "run again");
    b.report("h1", vec![exited(a, 0)]);
    assert_eq!(b.stat(1), JobStat::Run, "it has begun again");
}

#[test]
fn a_host_that_names_no_limit_is_not_fenced() {
    let mut b = with_fence();
    b.submit(5, |j| {
        (j.spec.rerunnable, j.spec.hosts) = (true, "h1".into())
    });
    for iso_ms in [None, Some(0)] {
        b.reports_limit("h1", iso_ms, 86_400_000);
        assert!(b.core.state.stat(JobKey::job(2)).unwrap().is_started());
    }
}

#[test]
fn hosts_are_ordered_the_limit_until_they_report_it() {
    let h1 = |ms: u64| vec![("h1".to_owned(), ms)];
    let mut b = with_fence();
    b.reports_limit("h1", Some(6000), 0);
    assert!(b.limits().is_empty(), "it goes by it already");
    b.set_limit(60);
    b.reports_limit("h1", Some(6000), 0);
    assert_eq!(b.limits(), h1(60_000));
    b.reports_limit("h1", Some(6000), 0);
    assert!(b.limits().is_empty(), "once");
    assert_eq!(limits(&outstanding(&b.core, Some("h1"))), h1(60_000));
    b.next_leader();
    b.reports_limit("h1", Some(6000), 0);
    assert_eq!(b.limits(), h1(60_000), "by every leader");
    b.reports_limit("h1", Some(60_000), 0);
    assert!(limits(&outstanding(&b.core, Some("h1"))).is_empty());
    b.set_limit(0);
    b.reports_limit("h1", Some(60_000), SILENT_MS);
    assert!(b.limits().is_empty(), "it does not listen");
    b.reports_limit("h1", Some(60_000), 0);
    assert_eq!(b.limits(), h1(0));
    b.reports_limit("h2", None, 0);
    assert!(b.limits().is_empty(), "where there never was a limit");
}

/// The file is damaged between the start of a job and its end, or another read returns the rest.
#[test]
fn a_job_whose_host_reported_its_end_is_requeued_while_its_reports_are_read() {
    let mut b = reading_of_an_end();
    let states = vec!["done".to_owned()];
    let (sel, hold) = (selector(&["1"]), false);
    let again = b.ask(5, vec![Verb::Requeue { sel, hold, states }]);
    assert_eq!(again.results[0].text, "is being requeued");
    assert_ne!(b.stat(1), JobStat::Psusp);
}

#[test]
fn a_removed_job_that_may_still_run_is_held_when_it_is_requeued() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    let a = attempt(1, 1);
    b.host_runs("h1", a);
    b.force();
    // The next leader has not read the host's reports yet.
    b.next_leader();
    let states = vec!["exit".to_owned()];
    let (sel, hold) = (selector(&["1"]), false);
    let again = b.ask(5, vec![Verb::Requeue { sel, hold, states }]);
    let message = &again.results[0].text;
    assert!(message.contains("requeued and held"), "{message}");
    assert!(b.starts().is_empty());
    assert_eq!(b.stat(1), JobStat::Psusp);
}
