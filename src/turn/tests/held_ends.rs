//! Ends of parallel jobs that may be the consequence of the loss of another host.

use super::*;
use crate::model::TermReason;

const A: AttemptId = AttemptId {
    j: JobKey { id: 1, idx: 0 },
    at: 1,
};

impl TestLeader {
    /// A job that runs on both hosts, the first of them h1, and then fails there.
    fn fails_on_two_hosts(queue: &str) -> TestLeader {
        let mut b = TestLeader::new();
        b.submit(5, |j| (j.spec.queue, j.spec.min) = (queue.into(), 4));
        b.part_ready("h2", A);
        b.host_runs("h1", A);
        b.report("h1", vec![exited(A, 5)]);
        b
    }

    fn beats_again(&mut self, host: &str, beat: u64, silent_ms: u64) {
        let mut doc = self.core.inputs.loads[host].0.clone();
        doc.beat = beat;
        let (host, doc) = (host.to_owned(), Box::new(doc));
        self.turn(vec![Input::Load {
            host,
            doc,
            silent_ms,
        }]);
    }

    fn acks(&self) -> Vec<u64> {
        let acks = self
            .last
            .orders
            .iter()
            .filter_map(|(_, order)| match order {
                Order::Ack { seq, .. } => Some(*seq),
                _ => None,
            });
        acks.collect()
    }
}

#[test]
fn a_failure_is_recorded_when_the_other_host_has_shown_that_it_lives() {
    let mut b = TestLeader::fails_on_two_hosts("again");
    assert_eq!(b.stat(1), JobStat::Run);
    assert!(b.acks().is_empty(), "the next leader must read it again");
    b.now += 3_000;
    b.beats_again("h1", 7, 0);
    b.beats_again("h2", 0, 3_000);
    assert_eq!(b.stat(1), JobStat::Run, "h2 has not beaten since");
    b.beats_again("h2", 8, 0);
    assert_eq!(b.stat(1), JobStat::Exit);
    assert_eq!(b.acks(), [1]);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_job_whose_connection_broke_with_its_host_runs_again() {
    let mut b = TestLeader::fails_on_two_hosts("again");
    let limit = b.core.config.general.iso_timeout_ms;
    b.beats_again("h2", 0, SILENT_MS + 1);
    assert_eq!(b.stat(1), JobStat::Unkwn, "it is not known to be lost");
    b.now += i64::try_from(limit).unwrap() + 20_000;
    b.beats_again("h2", 0, limit + 20_000);
    b.turn(Vec::new());
    assert_eq!(b.stat(1), JobStat::Pend);
    let run = b.core.state.work(A.j).unwrap().run.as_ref().unwrap();
    assert_eq!(run.end.as_ref().unwrap().code, Some(5));
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn an_end_that_no_loss_would_change_is_recorded_at_once() {
    // Not rerunnable.
    let b = TestLeader::fails_on_two_hosts("normal");
    assert_eq!((b.stat(1), b.acks()), (JobStat::Exit, vec![1]));
    // On one host.
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.queue = "again".into());
    b.end("h1", 1, 1, 5);
    assert_eq!(b.stat(1), JobStat::Exit);
    // A success, and an end for another reason.
    for change in [
        |e: &mut Ended| e.code = Some(0),
        |e: &mut Ended| e.reason = TermReason::RunLimit,
    ] {
        let mut b = TestLeader::new();
        b.submit(5, |j| (j.spec.queue, j.spec.min) = ("again".into(), 4));
        b.part_ready("h2", A);
        let Report::Ended(mut e) = exited(A, 5) else {
            panic!("an end");
        };
        change(&mut e);
        b.report("h1", vec![Report::Ended(e)]);
        assert!(b.stat(1).is_finished());
    }
}

/// Whoever kills the job meanwhile need not wait.
#[test]
fn a_kill_ends_the_wait() {
    let mut b = TestLeader::fails_on_two_hosts("again");
    let (sel, how) = (selector(&["1"]), SignalAction::Kill);
    b.ask(5, vec![Verb::Signal { sel, how }]);
    b.turn(Vec::new());
    assert_eq!(b.stat(1), JobStat::Exit);
}

/// A job runs on both hosts, which report when nothing of it is left, and another job of this user
/// waits for its slots.
fn answering(queue: &str) -> TestLeader {
    let mut b = TestLeader::new();
    for host in ["h1", "h2"] {
        b.core.memory.host_mut(host).reports_parts = true;
    }
    b.submit(5, |j| (j.spec.queue, j.spec.min) = (queue.into(), 4));
    b.part_ready("h2", A);
    b.host_runs("h1", A);
    b.submit(5, |j| j.spec.queue = "normal".into());
    b.turn(Vec::new());
    assert_eq!((b.stat(1), b.stat(2)), (JobStat::Run, JobStat::Pend));
    b
}

impl TestLeader {
    /// Whether the host was ordered in the last turn to end what is left of the job.
    fn told_to_end(&self, host: &str) -> bool {
        let end = Order::PartEnd { a: A };
        self.last.orders.contains(&(host.to_owned(), end))
    }

    fn part_over(&mut self, host: &str) {
        self.report(host, vec![Report::PartOver { a: A }]);
    }
}

#[test]
fn a_job_keeps_what_it_holds_until_each_host_has_said_that_nothing_of_it_is_left() {
    let ends: [fn(&mut Ended); 4] = [
        |e| e.code = Some(0),
        |e| e.code = Some(3),
        |e| e.reason = TermReason::Owner,
        |e| e.reason = TermReason::RunLimit,
    ];
    for change in ends {
        let mut b = answering("normal");
        let Report::Ended(mut e) = exited(A, 0) else {
            panic!("an end");
        };
        change(&mut e);
        b.report("h1", vec![Report::Ended(e)]);
        assert!(b.told_to_end("h1") && b.told_to_end("h2"));
        assert!(b.acks().is_empty(), "the next leader must read it again");
        b.part_over("h1");
        b.now += 60_000;
        b.beat("h1");
        b.beat("h2");
        assert_eq!((b.stat(1), b.stat(2)), (JobStat::Run, JobStat::Pend));
        b.part_over("h2");
        assert!(b.stat(1).is_finished() && !b.told_to_end("h2"));
        assert_eq!((b.stat(2), b.acks()), (JobStat::Run, vec![1]));
        assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    }
}

#[test]
fn a_requeued_job_starts_again_when_nothing_of_it_is_left() {
    let mut b = answering("normal");
    let sel = selector(&["1"]);
    let (hold, states) = (true, Vec::new());
    b.ask(5, vec![Verb::Requeue { sel, hold, states }]);
    b.report("h1", vec![signalled(A)]);
    b.part_over("h1");
    assert_eq!((b.stat(1), b.stat(2)), (JobStat::Run, JobStat::Pend));
    b.part_over("h2");
    assert_eq!((b.stat(1), b.stat(2)), (JobStat::Psusp, JobStat::Run));
}

/// What a restarted executor was told is told again, by whichever leader and in whichever file.
#[test]
fn hosts_are_told_again_that_nothing_may_be_left() {
    let mut b = answering("normal");
    b.report("h1", vec![exited(A, 0)]);
    let again = outstanding(&b.core, Some("h2"));
    let ends = |order: &&(String, Order)| order.1 == Order::PartEnd { a: A };
    assert_eq!(again.iter().filter(ends).count(), 1);
    let part = |order: &(String, Order)| matches!(order.1, Order::Part { .. });
    assert!(!again.iter().any(part));
    let mut hello = hello("b1");
    let Report::Hello { parts, .. } = &mut hello else {
        panic!("an introduction");
    };
    *parts = true;
    b.report("h2", vec![hello]);
    assert!(b.told_to_end("h2") && !b.told_to_end("h1"));
}

#[test]
fn a_host_that_is_silent_or_removed_is_not_waited_for() {
    let mut b = answering("normal");
    b.report("h1", vec![exited(A, 0)]);
    b.part_over("h1");
    b.beats_again("h2", 0, SILENT_MS + 1);
    b.turn(Vec::new());
    assert_eq!(b.stat(1), JobStat::Done);
    // It is alive, but nobody follows orders there.
    let mut b = answering("normal");
    b.report("h1", vec![exited(A, 0)]);
    b.part_over("h1");
    let mut doc = b.core.inputs.loads["h2"].0.clone();
    (doc.executor, doc.beat) = (false, 9);
    let (host, doc) = ("h2".to_owned(), Box::new(doc));
    let silent_ms = 0;
    b.turn(vec![Input::Load {
        host,
        doc,
        silent_ms,
    }]);
    assert_eq!(b.stat(1), JobStat::Done);
    // A process that no signal ends.
    let mut b = answering("normal");
    b.report("h1", vec![exited(A, 0)]);
    b.part_over("h1");
    b.now += 700_000;
    b.turn(Vec::new());
    assert_eq!(b.stat(1), JobStat::Done);
}

#[test]
fn a_job_of_a_lost_host_starts_again_when_nothing_is_left_on_the_others() {
    let lost = || {
        let mut b = answering("again");
        let limit = b.core.config.general.iso_timeout_ms;
        b.now += i64::try_from(limit).unwrap() + 20_000;
        b.beats_again("h2", 3, 0);
        b.beats_again("h1", 0, limit + 20_000);
        b
    };
    let mut b = lost();
    assert_eq!(b.stat(1), JobStat::Unkwn);
    assert!(b.told_to_end("h2"));
    b.turn(Vec::new());
    assert!(!b.told_to_end("h2"), "once");
    b.part_over("h2");
    let run = b.core.state.work(A.j).unwrap().run.as_ref().unwrap();
    let reason = run.end.as_ref().map(|end| end.reason);
    assert_eq!(reason, Some(TermReason::Fenced));
    // The host comes back before that, with the end in its log.
    let mut b = lost();
    b.report("h1", vec![exited(A, 0)]);
    b.part_over("h1");
    b.part_over("h2");
    assert_eq!(b.stat(1), JobStat::Done);
}
