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
