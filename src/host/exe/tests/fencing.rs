//! Effects of orders and of the silence limit on a task, and what they must not affect.

use super::*;
use crate::model::TermReason;
use crate::record::order::Act;
use crate::record::report::Ended;
use crate::sys::append::SharedAppender;
use crate::task::log::{TaskRec, encode_task};
use crate::task::spec::TaskAct;

/// Shepherds of log `n` write these records.
pub(super) fn shepherds_write(exec: &Exec, (n, mark): (u64, u32), records: &[TaskRec]) {
    let mut log = SharedAppender::open(&exec.setup.local.tasks(n)).unwrap();
    for record in records {
        log.append(&encode_task(record, mark).unwrap()).unwrap();
    }
}

pub(super) fn start_record(a: AttemptId) -> TaskRec {
    TaskRec::Start {
        a,
        pid: i32::try_from(std::process::id()).unwrap(),
        born: crate::sys::proc::own_birth_ms(),
        boot: crate::sys::proc::boot_id().to_owned(),
        group: String::new(),
        t: 1,
        cpus: Default::default(),
    }
}

/// After this report the leader starts it elsewhere: a restart must not forget the report.
#[test]
fn a_promise_never_to_start_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    let a = first(2);
    publish(&exec, 1, &[Order::Cancel { a }]);
    exec.turn(true);
    let is_never = |entry: &table::Entry| matches!(entry.status, table::Status::NeverStarts(_));
    assert!(exec.table.get(a).is_some_and(is_never));
    let remembered = ledger::read(&exec.setup.local).unwrap();
    assert!(remembered.table.get(a).is_some_and(is_never));
}

#[test]
fn a_success_that_is_read_with_its_start_is_not_laid_to_a_signal_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    given(dir.path(), 7);
    let mut exec = deaf_executor(dir.path());
    let a = first(2);
    let log = exec.spawners.log().unwrap();
    let given = table::Status::Sent(log);
    exec.table.insert(a, table::Entry::new(given, (1, 1), true));
    let end_it = Order::Signal {
        a,
        act: Act::Terminate,
        reason: TermReason::HostLost,
        grace_ms: 0,
        n: 1,
        mark: 0,
    };
    publish(&exec, 1, &[end_it]);
    exec.turn(true);
    assert_eq!(exec.table.get(a).unwrap().waiting.len(), 1);
    let end = Ended {
        a,
        start: 1,
        t: 2,
        code: Some(0),
        ..Ended::default()
    };
    let end = TaskRec::End(Box::new(end));
    shepherds_write(&exec, (log, 0), &[start_record(a), end]);
    exec.turn(false);
    let table::Status::Ended(end) = &exec.table.get(a).unwrap().status else {
        panic!("its end was read");
    };
    assert_eq!((end.code, end.reason), (Some(0), TermReason::None));
}

/// A stop that every later leader repeats must not undo the resume that followed it.
#[test]
fn a_signal_that_is_ordered_again_is_taken_up_once() {
    let dir = tempfile::tempdir().unwrap();
    given(dir.path(), 7);
    let mut exec = deaf_executor(dir.path());
    let (a, log) = (first(2), exec.spawners.log().unwrap());
    let given = table::Status::Sent(log);
    exec.table
        .insert(a, table::Entry::new(given, (1, 1), false));
    let signal = |act, n| Order::Signal {
        a,
        act,
        reason: TermReason::None,
        grace_ms: 0,
        n,
        mark: 0,
    };
    let taken_up = |exec: &Exec| {
        let waiting = exec.table.get(a).unwrap().waiting.iter();
        waiting.map(|p| p.act).collect::<Vec<TaskAct>>()
    };
    let (stop, resume) = (signal(Act::Stop, 1), signal(Act::Resume, 2));
    publish_in(1, &exec, 1, &[stop.clone(), resume]);
    exec.turn(true);
    publish_in(2, &exec, 1, &[stop]);
    exec.turn(true);
    exec.turn(true);
    assert_eq!(exec.orders.position(), (2, 1));
    assert_eq!(taken_up(&exec), [TaskAct::Stop, TaskAct::Resume]);
}

#[test]
fn a_limit_of_silence_is_the_leaders_and_waits_for_cbls() {
    use crate::host::iso_limit;
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    let local = exec.setup.local.clone();
    let limit = |iso_ms| Order::Limit { iso_ms };
    publish(&exec, 1, &[limit(60_000), limit(7_000)]);
    exec.turn(true);
    assert_eq!(iso_limit::ordered_limit(&local), Some(7_000));
    assert_eq!(iso_limit::in_force(&local), 0, "cbls has not reported it");
}

#[test]
fn nothing_is_started_when_the_reading_of_orders_took_longer_than_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    crate::host::iso_limit::force(&exec.setup.local, 60_000);
    publish(&exec, 1, &[spec(1), start(1)]);
    exec.turn(true);
    assert_eq!(exec.spawners.deferred.len(), 1, "cbls has not written yet");
    let now = clock::boot_ms();
    let refused = exec
        .start_deferred_until(now.saturating_sub(1))
        .unwrap_err();
    assert!(refused.contains("read again"), "{refused}");
    assert!(exec.spawners.deferred.len() == 1 && exec.spawners.is_ready());
    exec.start_deferred_until(now + 60_000).unwrap();
    assert!(
        exec.spawners.deferred.is_empty() && !exec.spawners.is_ready(),
        "it dies of it"
    );
}
