//! What a host remembers of a share that an older copy may replace, and of runs whose id now
//! belongs to another job.

use super::*;
use crate::task::log::TaskRec;

#[test]
fn how_far_the_journal_had_come_is_remembered_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let reached = |seq| {
        Order::Journal(crate::record::point::Point {
            epoch: 1,
            segment: 1,
            seq,
            id: 5,
        })
    };
    let mut exec = deaf_executor(dir.path());
    publish(&exec, 1, &[reached(7), reached(9)]);
    exec.turn(true);
    let text = "1.1.9.00000005";
    assert_eq!(exec.share.recorded.points.to_string(), text);
    let (_, reports) = crate::host::ls::read_beat(&exec.setup.local.exe_beat()).unwrap();
    assert!(reports.contains(text), "{reports}");
    // Known from the ledger before any order is read.
    exec.ledger.commit(true).unwrap();
    drop(exec);
    let exec = deaf_executor(dir.path());
    assert_eq!(exec.share.recorded.points.to_string(), text);
}

#[test]
fn a_restored_share_is_told_all_once_more_and_only_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    publish(&exec, 1, &[]);
    exec.turn(true);
    let end = crate::record::report::Ended {
        a: first(3),
        ..Default::default()
    };
    let over = table::Status::Ended(Box::new(end));
    let mut entry = table::Entry::new(over, (1, 2), false);
    entry.acked = true;
    exec.table.insert(first(3), entry);
    let number = |e: &Exec| e.reports.number().unwrap();
    let before = number(&exec);
    let restored = Order::Restored { above: 1 };
    publish(&exec, 2, std::slice::from_ref(&restored));
    publish(&exec, 1, &[Order::Next { part: 2 }]);
    exec.turn(true);
    exec.turn(true);
    let path = exec.setup.layout.reports("h1", before + 1);
    let reports = std::fs::read_to_string(path).unwrap();
    assert!(reports.contains("\"k\":\"ended\""), "{reports}");
    assert_eq!(
        (number(&exec), exec.share.recorded.restored),
        (before + 1, 1)
    );
    // An order for another run could not be told from one for this run, which has no mark.
    assert!(exec.table.get(first(3)).is_none());
    // A later process reads the same orders again, without effect.
    drop(exec);
    let mut exec = deaf_executor(dir.path());
    exec.turn(true);
    let number_now = number(&exec);
    exec.turn(true);
    assert_eq!(
        (number(&exec), exec.share.recorded.restored),
        (number_now, 1)
    );
}

#[test]
fn an_order_for_another_run_by_a_known_name_starts_nothing_and_tells_no_old_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    let a = first(3);
    let over = table::Status::Ended(Box::new(crate::record::report::Ended {
        a,
        code: Some(0),
        ..Default::default()
    }));
    let mut entry = table::Entry::new(over, (1, 1), false);
    (entry.acked, entry.mark) = (true, 5);
    exec.table.insert(a, entry);
    exec.rewrite();
    let marked = |mark| match start(3) {
        Order::Start(mut o) => {
            o.mark = mark;
            Order::Start(o)
        }
        other => other,
    };
    publish(&exec, 2, &[spec(3), marked(6), Order::Cancel { a }]);
    let reports = |e: &Exec| {
        let number = e.reports.number().unwrap();
        std::fs::read_to_string(e.setup.layout.reports("h1", number)).unwrap()
    };
    // A restart reads the same orders again; the known run was acknowledged long before.
    for _ in 0..2 {
        exec.turn(true);
        exec.turn(true);
        assert!(exec.spawners.is_ready(), "it dies of the first task");
        let text = reports(&exec);
        assert!(!text.contains("\"ended\""), "{text}");
        let never = text.lines().find(|line| line.contains("\"never\""));
        assert!(never.is_some_and(|l| l.contains("\"m\":6")), "{text}");
        assert_eq!(
            exec.table.get(a).map(|e| (e.mark, e.named_by)),
            Some((5, (1, 2)))
        );
        drop(exec);
        exec = deaf_executor(dir.path());
    }
    // A cancellation that comes later is for the other run as well.
    publish(&exec, 2, &[spec(3), marked(6), Order::Cancel { a }]);
    exec.turn(true);
    publish(
        &exec,
        2,
        &[spec(3), marked(6), Order::Cancel { a }, Order::Cancel { a }],
    );
    exec.turn(true);
    assert!(!reports(&exec).contains("\"ended\""), "{}", reports(&exec));
    drop(exec);
    exec = deaf_executor(dir.path());
    // The run itself is recognized by its mark.
    publish(&exec, 3, &[spec(3), marked(5)]);
    exec.turn(true);
    assert!(exec.spawners.is_ready() && exec.reports.refuses_none());
    assert!(!reports(&exec).contains("\"never\""));
}

/// The tasks log is kept for other tasks; the ledger has dropped the acknowledged attempt.
#[test]
fn what_the_tasks_log_tells_of_a_forgotten_run_is_not_taken_for_another_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    given(dir.path(), 7);
    let mut exec = deaf_executor(dir.path());
    let a = first(3);
    let end = crate::record::report::Ended {
        a,
        code: Some(0),
        ..Default::default()
    };
    let old = [fencing::start_record(a), TaskRec::End(Box::new(end))];
    let log = exec.spawners.log().unwrap();
    publish(&exec, 1, &[]);
    exec.turn(true);
    fencing::shepherds_write(&exec, (log, 5), &old);
    exec.turn(false);
    let mark = exec.table.get(a).map(|e| e.mark);
    assert_eq!(mark, Some(5));
    let number = exec.reports.number().unwrap();
    let text = std::fs::read_to_string(exec.setup.layout.reports("h1", number)).unwrap();
    let ended = text.lines().find(|l| l.contains("\"ended\",\"j\":\"3\""));
    assert!(ended.is_some_and(|l| l.contains("\"m\":5")), "{text}");
    drop(exec);

    // Another run with this id is recorded: the old records are not about it.
    let dir = tempfile::tempdir().unwrap();
    given(dir.path(), 7);
    let mut exec = deaf_executor(dir.path());
    let log = exec.spawners.log().unwrap();
    let mut given = table::Entry::new(table::Status::Sent(log), (1, 1), false);
    given.mark = 6;
    exec.table.insert(a, given);
    fencing::shepherds_write(&exec, (log, 5), &old);
    exec.turn(false);
    let status = |e: &Exec| format!("{:?}", e.table.get(a).unwrap().status);
    assert!(status(&exec).starts_with("Sent"), "{}", status(&exec));
    fencing::shepherds_write(&exec, (log, 6), &old[..1]);
    exec.turn(false);
    assert!(status(&exec).starts_with("Running"), "{}", status(&exec));
}

#[test]
fn what_the_leader_believes_to_run_and_the_host_forgot_is_not_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    let ran = match start(1) {
        Order::Start(mut o) => {
            o.ran = true;
            Order::Start(o)
        }
        other => other,
    };
    publish(&exec, 1, &[spec(1), ran]);
    for _ in 0..2 {
        exec.turn(true);
        assert!(exec.spawners.is_ready(), "it dies of the first task");
        let status = &exec.table.get(first(1)).unwrap().status;
        let table::Status::Ended(end) = status else {
            panic!("{status:?}");
        };
        assert_eq!(end.reason, crate::model::TermReason::HostLost);
        drop(exec);
        exec = deaf_executor(dir.path());
    }
}

#[test]
fn a_part_is_told_with_the_run_that_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    let part_of = |id, mark| Order::Part {
        a: first(id),
        s: 3,
        first: "h2".into(),
        slots: 1,
        mark,
        own: Box::default(),
    };
    let part = |mark| part_of(3, mark);
    publish(&exec, 1, &[spec(3), part(6)]);
    exec.turn(true);
    let reports = |e: &Exec| {
        let number = e.reports.number().unwrap();
        let text = std::fs::read_to_string(e.setup.layout.reports("h1", number)).unwrap();
        let ready = text.lines().filter(|l| l.contains("\"part_ready\""));
        ready.map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = reports(&exec);
    assert!(
        lines.len() == 1 && lines[0].contains("\"m\":6,\"e\":1"),
        "{lines:?}"
    );
    // Another run with the same id: the result of the first one is no longer reported.
    publish(&exec, 2, &[spec(3), part(7)]);
    publish(&exec, 1, &[spec(3), part(6), Order::Next { part: 2 }]);
    exec.turn(true);
    exec.turn(true);
    exec.reports.close();
    exec.turn(true);
    let lines = reports(&exec);
    assert!(
        lines.len() == 1 && lines[0].contains("\"m\":7"),
        "{lines:?}"
    );
    // A part is reported as soon as it is prepared.
    publish(&exec, 2, &[spec(3), part(7), part_of(4, 9)]);
    exec.turn(true);
    let lines = reports(&exec);
    assert!(
        lines.len() == 2 && lines[1].contains("\"m\":9"),
        "{lines:?}"
    );
}

#[test]
fn a_reports_file_that_a_copy_of_the_share_replaced_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    publish(&exec, 1, &[]);
    exec.turn(true);
    let number = exec.reports.number().unwrap();
    let path = exec.setup.layout.reports("h1", number);
    let written = std::fs::read(&path).unwrap();
    let in_place = |exec: &mut Exec| {
        exec.reports.end_pauses();
        exec.reports.check_file();
        let kept = exec.reports.number().is_some();
        exec.turn(true);
        kept
    };
    assert!(in_place(&mut exec), "nothing happened to it");
    // The file's earlier content, under the same name.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &written[..written.len() - 9]).unwrap();
    assert!(!in_place(&mut exec));
    let next = exec.reports.number().unwrap();
    assert_eq!(next, number + 1);
    std::fs::remove_file(exec.setup.layout.reports("h1", next)).unwrap();
    assert!(!in_place(&mut exec));
}
