//! `cmig`: a job with checkpoints is saved first and stays if it cannot be saved; a rerunnable job
//! is ended at once; a change of leader neither loses a migration nor makes two runs of it.

use super::*;
use crate::model::{Checkpoint, CheckpointAct, TermReason};
use crate::record::event::SignalAct;

fn saved(j: &mut Submission) {
    let checkpoint = Checkpoint {
        dir: "/ck".into(),
        ..Checkpoint::default()
    };
    j.spec.chkpnt = Some(Box::new(checkpoint));
}

fn migrate(b: &mut TestLeader, ids: &[&str], hosts: &str) -> Ack {
    let (sel, hosts, force) = (selector(ids), hosts.to_owned(), false);
    b.ask(5, vec![Verb::Migrate { sel, hosts, force }])
}

/// Codes and texts of an answer.
fn said(ack: &Ack) -> Vec<(Code, &str)> {
    ack.results
        .iter()
        .map(|outcome| (outcome.code, outcome.text.as_str()))
        .collect()
}

/// The orders of the last turn for job 1, apart from its start.
fn signals(b: &TestLeader) -> Vec<(Act, TermReason, u32)> {
    signals_in(&b.last.orders)
}

fn signals_in(orders: &[(String, Order)]) -> Vec<(Act, TermReason, u32)> {
    let signal = |(_, order): &(String, Order)| match order {
        Order::Signal { act, reason, n, .. } => Some((*act, *reason, *n)),
        _ => None,
    };
    orders.iter().filter_map(signal).collect()
}

fn host_of(b: &TestLeader, id: u32) -> String {
    let work = b.core.state.work(JobKey::job(id)).unwrap();
    let hosts = &work.run.as_ref().unwrap().hosts;
    b.core.state.host_name(hosts[0].0).to_string()
}

/// Its host reports that it was ended to migrate.
fn migrated(b: &mut TestLeader, id: u32, at: u32) {
    let host = host_of(b, id);
    let e = Ended {
        a: attempt(id, at),
        start: 1,
        t: 2,
        sig: 15,
        reason: TermReason::Migrate,
        ..Ended::default()
    };
    b.report(&host, vec![Report::Ended(Box::new(e))]);
    b.turn(Vec::new());
}

/// A running job 1 of user 5.
fn running(change: impl FnOnce(&mut Submission)) -> TestLeader {
    let mut b = TestLeader::new();
    b.submit(5, change);
    let host = host_of(&b, 1);
    b.host_runs(&host, attempt(1, 1));
    b
}

const SAVE: Act = Act::Checkpoint(CheckpointAct {
    kill: true,
    migrate: true,
    force: false,
    period_min: None,
});

#[test]
fn a_job_with_checkpoints_is_saved_ended_and_goes_on_elsewhere() {
    let mut b = running(saved);
    let from = host_of(&b, 1);
    let others = format!("all ~{from}");
    let ack = migrate(&mut b, &["1"], &others);
    assert_eq!(said(&ack), [(Code::Ok, "is being migrated")]);
    assert_eq!(signals(&b), [(SAVE, TermReason::None, 1)]);
    assert_eq!(b.stat(1), JobStat::Run, "until its state is saved");
    // A second request is answered that it is in progress.
    let ack = migrate(&mut b, &["1"], "");
    assert_eq!(said(&ack), [(Code::Ok, "is being migrated")]);
    assert_eq!(signals(&b), []);
    b.report(
        &from,
        vec![Report::Checkpointed {
            a: attempt(1, 1),
            t: b.now,
            why: String::new(),
        }],
    );
    migrated(&mut b, 1, 1);
    let work = b.core.state.work(JobKey::job(1)).unwrap();
    assert_eq!((work.stat, work.attempt), (JobStat::Run, 2));
    assert_ne!(host_of(&b, 1), from);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn one_that_cannot_be_saved_runs_on_and_may_be_asked_again() {
    let mut b = running(saved);
    migrate(&mut b, &["1"], "");
    let host = host_of(&b, 1);
    b.report(
        &host,
        vec![Report::Checkpointed {
            a: attempt(1, 1),
            t: b.now,
            why: "no disk".into(),
        }],
    );
    let run = |b: &TestLeader| b.core.state.work(JobKey::job(1)).unwrap().run.clone();
    assert_eq!(run(&b).unwrap().migrating(), None);
    assert_eq!(b.stat(1), JobStat::Run);
    migrate(&mut b, &["1"], "");
    assert_eq!(signals(&b), [(SAVE, TermReason::None, 2)]);
    // If it ends by itself, that end is final.
    b.end(&host, 1, 1, 0);
    assert_eq!(b.stat(1), JobStat::Done);
}

#[test]
fn a_new_leader_orders_it_again_and_once() {
    let mut b = running(saved);
    migrate(&mut b, &["1"], "");
    let mut of_snapshot = State::new();
    b.core.state.snapshot().for_each(|r| of_snapshot.restore(r));
    for state in [b.replayed(), of_snapshot] {
        let core = Core::new(state, b.core.config.clone(), 1000);
        let again = signals_in(&outstanding(&core, None));
        assert_eq!(again, [(SAVE, TermReason::None, 1)], "by the same number");
    }
    migrated(&mut b, 1, 1);
    assert_eq!(b.core.state.work(JobKey::job(1)).unwrap().attempt, 2);
    // The report of the earlier run is read again, as by a new leader.
    let e = Ended {
        a: attempt(1, 1),
        reason: TermReason::Migrate,
        sig: 15,
        ..Ended::default()
    };
    let host = host_of(&b, 1);
    b.report(&host, vec![Report::Ended(Box::new(e))]);
    b.turn(Vec::new());
    assert_eq!(b.core.state.work(JobKey::job(1)).unwrap().attempt, 2);
    assert_eq!(b.stat(1), JobStat::Run);
}

#[test]
fn a_rerunnable_job_begins_again_unless_it_had_ended_well() {
    let rerunnable = |j: &mut Submission| j.spec.rerunnable = true;
    let mut b = running(rerunnable);
    migrate(&mut b, &["1"], "");
    let order = (Act::Terminate, TermReason::Migrate, 1);
    assert_eq!(signals(&b), [order]);
    assert_eq!(signals_in(&outstanding(&b.core, None)), [order]);
    migrated(&mut b, 1, 1);
    assert_eq!(b.core.state.work(JobKey::job(1)).unwrap().attempt, 2);
    let mut b = running(rerunnable);
    migrate(&mut b, &["1"], "");
    let host = host_of(&b, 1);
    b.end(&host, 1, 1, 0);
    assert_eq!(b.stat(1), JobStat::Done, "it is not run twice");
}

#[test]
fn a_kill_outranks_it_and_a_stop_ends_it() {
    let signal = |b: &mut TestLeader, how| {
        let sel = selector(&["1"]);
        b.ask(5, vec![Verb::Signal { sel, how }]);
    };
    let mut b = running(saved);
    migrate(&mut b, &["1"], "");
    signal(&mut b, SignalAction::Kill);
    let ack = migrate(&mut b, &["1"], "");
    assert_eq!(said(&ack), [(Code::Refused, "is being terminated")]);
    migrated(&mut b, 1, 1);
    assert_eq!(b.stat(1), JobStat::Exit);
    let mut b = running(saved);
    migrate(&mut b, &["1"], "");
    signal(&mut b, SignalAction::Stop);
    assert_eq!(
        signals_in(&outstanding(&b.core, None)),
        [(Act::Stop, TermReason::None, 2)]
    );
    let ack = migrate(&mut b, &["1"], "");
    assert_eq!(ack.results[0].code, Code::Refused);
    // Its host had begun to end it before it read the stop: it is not lost.
    migrated(&mut b, 1, 1);
    assert_eq!(b.core.state.work(JobKey::job(1)).unwrap().attempt, 2);
}

#[test]
fn what_cannot_migrate_is_refused_with_the_reason() {
    let mut b = running(|_| ());
    let ack = migrate(&mut b, &["1"], "");
    assert!(ack.results[0].text.contains("no checkpoints"), "{ack:?}");
    let ack = migrate(&mut b, &["1"], "h1");
    assert!(ack.results[0].text.contains("no checkpoints"), "{ack:?}");
    let hosts = |b: &TestLeader| b.core.state.spec_of(1).unwrap().hosts.clone();
    assert_eq!(hosts(&b), "", "what does not migrate keeps its hosts");
    b.submit(5, |j| j.hold = true);
    let ack = migrate(&mut b, &["2"], "");
    assert!(ack.results[0].text.contains("has not started"), "{ack:?}");
    let (sel, force) = (selector(&["1"]), false);
    let hosts = String::new();
    let ack = b.ask(6, vec![Verb::Migrate { sel, hosts, force }]);
    assert_eq!(ack.results[0].code, Code::Permission);
    let ack = migrate(&mut b, &["9"], "");
    assert_eq!(ack.results[0].code, Code::NotFound);
}

#[test]
fn a_job_whose_host_is_silent_cannot_migrate() {
    let mut b = running(|j| j.spec.rerunnable = true);
    let doc = b.core.inputs.loads["h1"].0.clone();
    b.turn(vec![Input::Load {
        host: "h1".into(),
        doc: Box::new(doc),
        silent_ms: SILENT_MS + 1,
    }]);
    assert_eq!(b.stat(1), JobStat::Unkwn);
    let ack = migrate(&mut b, &["1"], "");
    assert_eq!(said(&ack), [(Code::Refused, "its host does not answer")]);
}

#[test]
fn arrays_migrate_whole_or_by_element() {
    let mut b = TestLeader::new();
    b.submit(5, |j| {
        (j.array, j.spec.rerunnable) = ("1-3".into(), true);
    });
    let ack = migrate(&mut b, &["1[2]"], "h1");
    assert_eq!(ack.results[0].code, Code::Usage);
    let ack = migrate(&mut b, &["1"], "h1");
    assert_eq!(said(&ack), [(Code::Ok, "is being migrated")]);
    assert_eq!(b.core.state.spec_of(1).unwrap().hosts, "h1");
    let migrations = b.events.iter().filter(|event| {
        let act = match event {
            Event::Signalled { act, .. } => Some(*act),
            _ => None,
        };
        matches!(
            act,
            Some(SignalAct::Requeue {
                why: TermReason::Migrate,
                ..
            })
        )
    });
    assert_eq!(migrations.count(), 3);
}

/// A new leader reads the reports of a host again from their beginning.
#[test]
fn a_checkpoint_that_failed_before_ends_no_migration_that_began_after_it() {
    let mut b = running(saved);
    let host = host_of(&b, 1);
    let failed = |t| Report::Checkpointed {
        a: attempt(1, 1),
        t,
        why: "no disk".into(),
    };
    let migrating = |b: &TestLeader| {
        let work = b.core.state.work(JobKey::job(1)).unwrap();
        work.run.as_ref().unwrap().migrating()
    };
    let old = b.now;
    b.report(&host, vec![failed(old)]);
    b.now += 1000;
    migrate(&mut b, &["1"], "");
    assert_eq!(migrating(&b), Some(false));
    b.report(&host, vec![failed(old)]);
    assert_eq!(migrating(&b), Some(false), "the report is known");
    b.report(&host, vec![failed(b.now)]);
    assert_eq!(migrating(&b), None);
}
