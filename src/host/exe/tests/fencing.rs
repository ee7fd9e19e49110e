//! What an order or a limit of silence may do to a task, and what it must leave alone.

use super::*;
use crate::model::TermReason;
use crate::record::order::Act;
use crate::record::report::Ended;
use crate::sys::append::SharedAppender;
use crate::task::log::{TaskRec, encode_task};

/// Shepherds of log `n` write these records.
fn shepherds_write(exec: &Exec, n: u64, records: &[TaskRec]) {
    let mut log = SharedAppender::open(&exec.place.local.tasks(n)).unwrap();
    for record in records {
        log.append(&encode_task(record).unwrap()).unwrap();
    }
}

fn start_record(a: AttemptId) -> TaskRec {
    TaskRec::Start {
        a,
        pid: i32::try_from(std::process::id()).unwrap(),
        born: crate::sys::proc::own_birth_ms(),
        boot: crate::sys::proc::boot_id().to_owned(),
        group: String::new(),
        t: 1,
    }
}

#[test]
fn a_success_that_is_read_with_its_start_is_not_laid_to_a_signal_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    given(dir.path(), 7);
    let mut exec = deaf_executor(dir.path());
    let a = first(2);
    let log = exec.spawner.as_ref().unwrap().log;
    let given = table::Status::Given(log);
    exec.table.insert(a, table::Entry::new(given, (1, 1), true));
    let end_it = Order::Signal {
        a,
        act: Act::Terminate,
        reason: TermReason::HostLost,
        grace_ms: 0,
        n: 1,
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
    shepherds_write(&exec, log, &[start_record(a), end]);
    exec.turn(false);
    let table::Status::Over(end) = &exec.table.get(a).unwrap().status else {
        panic!("its end was read");
    };
    assert_eq!((end.code, end.reason), (Some(0), TermReason::None));
}
