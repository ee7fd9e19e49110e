//! Jobs that a host could not start: where they go, when they are at fault, and when the host is.

use super::*;
use crate::model::{HookOf, PendReason, StartFault, TermReason};
use crate::record::host_status::HostStatus;
use crate::record::request::HostAct;
use crate::turn::host_rows;

const J: JobKey = JobKey { id: 1, idx: 0 };

/// The report of a host that could not start the attempt.
fn refused(a: AttemptId, t: i64, change: impl FnOnce(&mut Ended)) -> Report {
    let mut end = Ended {
        a,
        t,
        start: t,
        reason: TermReason::StartFailed,
        text: "cannot enter /work: No such file or directory".into(),
        ..Ended::default()
    };
    end.set_fault(StartFault::Unclear);
    change(&mut end);
    Report::Ended(Box::new(end))
}

fn by_hook(of: HookOf) -> impl FnOnce(&mut Ended) {
    move |e| {
        e.pre_failed = Some(of);
        e.text = "pre-exec failed on host h1".into();
    }
}

impl TestLeader {
    /// The first host of a started job, and its attempt.
    fn place(&self, id: u32) -> (String, AttemptId) {
        let j = JobKey::job(id);
        let work = self.core.state.work(j).unwrap();
        assert_eq!(work.stat, JobStat::Run, "job {id}");
        let host = work.run.as_ref().unwrap().hosts[0].0;
        let a = AttemptId {
            j,
            at: work.attempt,
        };
        (self.core.state.host_name(host).to_string(), a)
    }

    /// The host of a started job could not start it.
    fn refuse(&mut self, id: u32, change: impl FnOnce(&mut Ended)) -> String {
        let (host, a) = self.place(id);
        let report = refused(a, self.now, change);
        self.report(&host, vec![report]);
        host
    }

    fn switch_host(&mut self, host: &str, act: HostAct) {
        let (names, comment) = (vec![host.to_owned()], String::new());
        self.ask(
            0,
            vec![Verb::Host {
                names,
                act,
                comment,
            }],
        );
    }

    fn pass_time(&mut self, ms: i64) {
        self.now += ms;
        self.beat("h1");
        self.beat("h2");
        self.turn(Vec::new());
    }

    fn own_why(&self, id: u32) -> PendReason {
        self.replayed()
            .job(id)
            .unwrap()
            .own_reason(0)
            .unwrap()
            .clone()
    }

    fn shown_status(&self, host: &str) -> (HostStatus, Vec<String>) {
        let rows = host_rows(&self.core);
        let row = rows.into_iter().find(|row| row.name == host).unwrap();
        (row.status, row.warnings)
    }

    /// The reason and text of the last attempt's end.
    fn end_of(&self, id: u32) -> (TermReason, String) {
        let work = self.core.state.work(JobKey::job(id)).unwrap();
        let end = work.run.as_ref().unwrap().end.as_ref().unwrap();
        (end.reason, end.text.clone())
    }

    /// Two jobs of different users that h1 cannot start run on h2.
    fn close_h1(&mut self, queue: &str, change: fn(&mut Ended)) {
        for id in [1, 2] {
            self.submit(id + 4, |j| {
                (j.spec.queue, j.spec.hosts) = (queue.into(), "h1 h2".into());
            });
            if self.place(id).0 == "h2" {
                panic!("job {id} began on h2");
            }
            self.refuse(id, change);
            self.pass_time(1_000);
            let (host, a) = self.place(id);
            assert_eq!(host, "h2");
            self.host_runs("h2", a);
        }
        assert_eq!(self.shown_status("h1").0, HostStatus::Ok);
        self.pass_time(4_000);
    }
}

#[test]
fn a_job_whose_directory_is_missing_on_one_host_runs_on_another() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.again.retries = Some(1));
    let first = b.refuse(1, |_| {});
    let (second, a) = b.place(1);
    assert_ne!(first, second, "it goes elsewhere at once");
    let reason = b.replayed();
    assert_eq!(contents(&reason), contents(&b.core.state));
    // The start that failed is no retry.
    b.report(&second, vec![exited(a, 3)]);
    let PendReason::Retry(retry) = b.own_why(1) else {
        panic!("{:?}", b.own_why(1));
    };
    assert_eq!((retry.n, retry.of), (1, 1));
    b.pass_time(2_000);
    let (host, a) = b.place(1);
    b.report(&host, vec![exited(a, 3)]);
    assert_eq!(b.stat(1), JobStat::Exit, "one retry");
}

#[test]
fn a_job_whose_directory_is_missing_on_two_hosts_ends_with_both_reasons() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    let first = b.refuse(1, |_| {});
    let second = b.refuse(1, |_| {});
    assert_ne!(first, second);
    assert_eq!(b.stat(1), JobStat::Exit);
    let (reason, text) = b.end_of(1);
    assert_eq!(reason, TermReason::StartFailed);
    assert!(text.contains("host h1: cannot enter") && text.contains("host h2: cannot enter"));
    b.pass_time(5_000);
    for host in ["h1", "h2"] {
        assert_eq!(b.shown_status(host), (HostStatus::Ok, Vec::new()));
    }
}

#[test]
fn a_job_with_a_single_host_ends_after_few_tries() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.hosts = "h1".into());
    b.refuse(1, |_| {});
    b.refuse(1, |_| {});
    b.turn(Vec::new());
    assert_eq!(b.stat(1), JobStat::Pend, "a pause");
    assert_eq!(
        b.own_why(1).to_string(),
        "host h1 did not start it: cannot enter /work: No such file or directory"
    );
    b.pass_time(1_100);
    b.refuse(1, |_| {});
    assert_eq!(b.stat(1), JobStat::Exit);
    assert_eq!(b.core.state.work(J).unwrap().attempt, 3);
}

/// All hosts but one are too small or closed: there is none to wait for.
#[test]
fn a_job_waits_only_for_hosts_that_could_take_it() {
    let mut b = TestLeader::new();
    b.switch_host("h2", HostAct::Close);
    b.submit(5, |_| {});
    assert_eq!(b.refuse(1, |_| {}), "h1");
    assert_eq!(b.place(1).0, "h1");
    // A busy host is worth waiting for.
    b.switch_host("h2", HostAct::Open);
    b.submit(5, |j| (j.spec.hosts, j.spec.min) = ("h2".into(), 2));
    assert_eq!(b.place(2).0, "h2");
    b.refuse(1, |_| {});
    b.pass_time(60_000);
    assert_eq!(b.stat(1), JobStat::Pend);
    // And jobs behind it do not wait with it.
    b.submit(5, |_| {});
    assert_eq!(b.place(3).0, "h1");
    let a = b.place(2).1;
    b.report("h2", vec![exited(a, 0)]);
    assert_eq!(b.place(1).0, "h2");
}

#[test]
fn what_the_submitter_lacked_too_is_not_tried_twice() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.unseen = true);
    b.refuse(1, |_| {});
    assert_eq!(b.stat(1), JobStat::Exit);
    assert_eq!(b.end_of(1).0, TermReason::StartFailed);
    // An account has nothing to do with files.
    b.submit(5, |j| j.spec.unseen = true);
    b.refuse(2, |e| e.no_account = true);
    assert_eq!(b.stat(2), JobStat::Run);
}

#[test]
fn a_host_that_fails_jobs_which_run_elsewhere_is_closed_for_a_while() {
    let mut b = TestLeader::new();
    b.close_h1("normal", |_| {});
    let (status, notes) = b.shown_status("h1");
    assert_eq!(status, HostStatus::Failing);
    assert!(
        notes[0].contains("jobs 1, 2: cannot enter /work"),
        "{notes:?}"
    );
    assert_eq!(b.shown_status("h2").0, HostStatus::Full);
    b.submit(7, |_| {});
    assert_eq!(b.stat(3), JobStat::Pend, "h2 is full, h1 closed");
    // It is tried again, and one more failure closes it for longer.
    b.pass_time(10_000);
    assert_eq!(b.place(3).0, "h1");
    b.refuse(3, |_| {});
    b.pass_time(10_000);
    assert_eq!(b.shown_status("h1").0, HostStatus::Failing);
    b.submit(8, |_| {});
    b.pass_time(11_000);
    let (host, a) = b.place(4);
    assert_eq!(host, "h1");
    let mut exited = exited(a, 0);
    if let Report::Ended(e) = &mut exited {
        (e.start, e.t) = (b.now, b.now);
    }
    b.report("h1", vec![exited]);
    assert_eq!(b.shown_status("h1"), (HostStatus::Ok, Vec::new()));
}

#[test]
fn an_administrator_opens_a_host_that_failed_starts_closed() {
    let mut b = TestLeader::new();
    b.close_h1("normal", |_| {});
    b.switch_host("h1", HostAct::Open);
    assert_eq!(b.shown_status("h1"), (HostStatus::Ok, Vec::new()));
    b.submit(7, |_| {});
    assert_eq!(b.place(3).0, "h1");
}

#[test]
fn a_pre_exec_of_a_queue_closes_a_host_for_that_queue_only() {
    let mut b = TestLeader::new();
    b.close_h1("again", |e| by_hook(HookOf::Queue)(e));
    let (status, notes) = b.shown_status("h1");
    assert_eq!(status, HostStatus::Ok, "{notes:?}");
    assert!(
        notes[0].contains("gets no jobs of queue again"),
        "{notes:?}"
    );
    b.submit(7, |j| j.spec.queue = "again".into());
    b.submit(8, |_| {});
    assert_eq!((b.stat(3), b.place(4).0), (JobStat::Pend, "h1".to_owned()));
    b.pass_time(10_000);
    assert_eq!(b.place(3).0, "h1", "it is tried again");
}

/// A wrong path of the queue's program fails on every host.
#[test]
fn a_pre_exec_that_fails_everywhere_closes_no_host() {
    let mut b = TestLeader::new();
    for id in 1..=2 {
        b.submit(5, |j| j.spec.queue = "again".into());
        for pause_ms in [1_100, 2_100, 4_100, 8_100, 16_100] {
            b.refuse(id, by_hook(HookOf::Queue));
            b.turn(Vec::new());
            assert_eq!(b.stat(id), JobStat::Pend, "a pause for this job");
            b.pass_time(pause_ms);
        }
        b.refuse(id, by_hook(HookOf::Queue));
        assert_eq!(b.stat(id), JobStat::Psusp);
        for host in ["h1", "h2"] {
            assert_eq!(b.shown_status(host), (HostStatus::Ok, Vec::new()));
        }
    }
}

/// The job waits in its place and is tried again, but not without limit.
#[test]
fn a_job_whose_pre_exec_always_fails_is_held_with_the_reason() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.hosts = "h1".into());
    for at in 1..=6 {
        assert_eq!(b.core.state.work(J).unwrap().attempt, at);
        b.refuse(1, by_hook(HookOf::Job));
        b.pass_time(20_000);
    }
    assert_eq!(b.stat(1), JobStat::Psusp);
    assert_eq!(b.own_why(1).code(), 32);
    assert_eq!(b.own_why(1).to_string(), "pre-exec failed on host h1");
    // A user who resumes it wants the full number of attempts again.
    let (sel, how) = (selector(&["1"]), SignalAction::Resume);
    b.ask(5, vec![Verb::Signal { sel, how }]);
    assert_eq!(b.core.state.work(J).unwrap().attempt, 7);
    b.refuse(1, by_hook(HookOf::Job));
    assert_eq!(b.stat(1), JobStat::Pend);
    let mut config = (*b.core.config).clone();
    config.general.hooks.pre_exec_retries = 0;
    config.general.hooks.pre_exec_retry_action = crate::config::RetryAction::Exit;
    b.turn(vec![Input::Config(Arc::new(config))]);
    b.submit(5, |j| j.spec.hosts = "h2".into());
    b.refuse(2, by_hook(HookOf::Job));
    assert_eq!(b.stat(2), JobStat::Exit);
}

/// A user who was removed after the submission of the job, or does not exist on all hosts yet.
#[test]
fn a_job_whose_hosts_know_no_account_is_held_with_the_reason() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    b.refuse(1, |e| e.no_account = true);
    let host = b.refuse(1, |e| e.no_account = true);
    assert_eq!(b.stat(1), JobStat::Psusp);
    let why = b.own_why(1).to_string();
    assert!(
        why.contains(&format!("host {host} has no account")),
        "{why}"
    );
    b.pass_time(60_000);
    assert_eq!(b.stat(1), JobStat::Psusp, "not tried again by itself");
    let (sel, how) = (selector(&["1"]), SignalAction::Resume);
    b.ask(5, vec![Verb::Signal { sel, how }]);
    assert_eq!(b.core.state.work(J).unwrap().attempt, 3);
}

/// The host has no room for a process: whichever job it gets, it fails.
#[test]
fn a_host_that_cannot_fork_is_closed_by_one_failure() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    let host = b.refuse(1, |e| e.set_fault(StartFault::Host));
    assert_eq!(b.shown_status(&host).0, HostStatus::Failing);
    let (other, a) = b.place(1);
    assert_ne!(host, other);
    b.host_runs(&other, a);
    assert_eq!(b.shown_status(&other).0, HostStatus::Ok);
}

#[test]
fn what_a_snapshot_keeps_of_failed_starts_is_their_number() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.hosts = "h1".into());
    b.refuse(1, |_| {});
    let mut copy = State::new();
    b.core
        .state
        .snapshot()
        .for_each(|record| copy.restore(record));
    assert_eq!(copy.work(J).unwrap().runs(), 1);
    assert_eq!(copy.work(J).unwrap().attempt, 2);
}

/// A host on which jobs end at once would take one after the other.
#[test]
fn a_host_on_which_most_jobs_fail_gets_none_for_a_while() {
    let mut b = TestLeader::new();
    let mut config = (*b.core.config).clone();
    config.general.exit_rate = Some(2);
    config.general.exit_rate_duration_ms = 60_000;
    b.core.config = Arc::new(config);
    let fail = |b: &mut TestLeader, id, host: &str, reason| {
        b.submit(5, |j| j.spec.hosts = host.into());
        let (on, a) = b.place(id);
        assert_eq!(on, host);
        let (start, t) = (b.now, b.now);
        let e = Ended {
            a,
            start,
            t,
            code: Some(1),
            reason,
            ..Ended::default()
        };
        b.report(host, vec![Report::Ended(Box::new(e))]);
    };
    // What a person ended says nothing about the host, nor do jobs that succeed.
    for id in 1..4 {
        fail(&mut b, id, "h1", TermReason::Owner);
    }
    b.submit(5, |j| j.spec.hosts = "h1".into());
    b.end("h1", 4, 1, 0);
    fail(&mut b, 5, "h1", TermReason::None);
    assert_eq!(b.shown_status("h1").0, HostStatus::Ok);
    fail(&mut b, 6, "h1", TermReason::None);
    let (status, notes) = b.shown_status("h1");
    assert_eq!(status, HostStatus::Failing);
    let said = "gets no jobs: 2 jobs failed on it within 1m, many more than on other hosts \
                (exit_rate)";
    assert_eq!(notes, [said]);
    b.submit(5, |_| {});
    assert_eq!(b.place(7).0, "h2");
    // An administrator who has repaired it opens it at once.
    b.switch_host("h1", HostAct::Open);
    assert_eq!(b.shown_status("h1"), (HostStatus::Ok, Vec::new()));
    fail(&mut b, 8, "h1", TermReason::None);
    fail(&mut b, 9, "h1", TermReason::None);
    assert_eq!(b.shown_status("h1").0, HostStatus::Failing);
    b.pass_time(61_000);
    assert_eq!(b.shown_status("h1"), (HostStatus::Ok, Vec::new()));
}

/// Nothing can be recorded there: it keeps what it runs and gets nothing new.
#[test]
fn a_host_whose_local_disk_is_full_gets_no_jobs_until_it_has_room() {
    let mut b = TestLeader::new();
    let beat = |b: &mut TestLeader, full: bool| {
        let (mut doc, _) = b.core.inputs.loads["h1"].clone();
        doc.starts_nothing = full;
        doc.notes = match full {
            true => vec!["starts no tasks: No space left on device".into()],
            false => Vec::new(),
        };
        let (host, doc) = ("h1".to_owned(), Box::new(doc));
        b.turn(vec![Input::Load {
            host,
            doc,
            silent_ms: 0,
        }]);
    };
    beat(&mut b, true);
    let (status, notes) = b.shown_status("h1");
    assert_eq!(status, HostStatus::Failing);
    assert!(notes[0].starts_with("starts no tasks"), "{notes:?}");
    for id in 1..=3 {
        b.submit(id + 4, |_| {});
    }
    assert_eq!((b.place(1).0, b.place(2).0), ("h2".into(), "h2".into()));
    assert_eq!(b.stat(3), JobStat::Pend);
    beat(&mut b, false);
    assert_eq!(b.shown_status("h1").0, HostStatus::Ok);
    assert_eq!(b.place(3).0, "h1");
}
