//! What an executor knows after a crash: with each of its logs cut at any record, what the one
//! before it knew; and what it does about tasks of earlier spawners.

mod histories;

use super::fencing::{shepherds_write, start_record};
use super::*;
use crate::host::command_records;
use crate::model::TermReason;
use crate::record::report::Ended;
use crate::task::log::TaskRec;
use crate::task::spec::{FromSpawner, ToSpawner, split};
use std::sync::{Arc, Mutex};

/// The messages to all spawners of a host.
type Sent = Arc<Mutex<Vec<ToSpawner>>>;

/// A spawner that starts nothing and keeps what it is sent.
struct KeepingSpawner {
    sent: Sent,
    _says: crossbeam::channel::Sender<spawn::SpawnerEvent>,
}

impl spawn::Wire for KeepingSpawner {
    fn pid(&self) -> i32 {
        0
    }
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut rest = bytes;
        while let Ok(Some((json, n))) = split(rest) {
            let message = serde_json::from_slice(json).unwrap();
            self.sent.lock().unwrap().push(message);
            rest = &rest[n..];
        }
        Ok(())
    }
    fn close(&mut self) {}
    fn has_ended(&mut self) -> bool {
        true
    }
    fn kill(&mut self) {}
}

/// An executor below `dir`, as it begins after an earlier one.
fn executor(dir: &std::path::Path, sent: &Sent) -> Exec {
    let sent = sent.clone();
    let begin = move |_: &Local, _: u64, says: crossbeam::channel::Sender<spawn::SpawnerEvent>| {
        let (pid, cgroups, unheld) = (0, String::new(), Default::default());
        let ready = FromSpawner::Ready {
            pid,
            cgroups,
            unheld,
        };
        says.send(spawn::SpawnerEvent::Message(ready)).unwrap();
        let (sent, _says) = (sent.clone(), says);
        Ok(Box::new(KeepingSpawner { sent, _says }) as Box<dyn spawn::Wire>)
    };
    executor_with(dir, Arc::new(begin))
}

fn status(exec: &Exec, id: u32) -> table::Status {
    exec.table.get(first(id)).unwrap().status.clone()
}

#[test]
fn what_was_given_to_the_present_spawner_may_still_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = executor(dir.path(), &Sent::default());
    publish(&exec, 1, &[spec(1), start(1)]);
    exec.turn(true);
    let log = exec.spawners.log().unwrap();
    assert_eq!(status(&exec, 1), table::Status::Sent(log));
    // As when a log could not be read before.
    exec.recover(log);
    assert_eq!(status(&exec, 1), table::Status::Sent(log));
    // Its spawner ended without starting it.
    exec.spawners.give_up();
    exec.respawn();
    assert!(matches!(status(&exec, 1), table::Status::NeverStarts(_)));
}

/// What a log has lost may be the start.
#[test]
fn a_log_of_starts_that_is_damaged_or_gone_proves_nothing() {
    let lost = |spoil: &dyn Fn(&Local)| {
        let dir = tempfile::tempdir().unwrap();
        let local = given(dir.path(), 1);
        spoil(&local);
        let exec = executor(dir.path(), &Sent::default());
        status(&exec, 1)
    };
    let is_unknown = |status| match status {
        table::Status::Ended(end) => end.reason == TermReason::HostLost && end.code.is_none(),
        _ => false,
    };
    assert!(is_unknown(lost(&|_| {})), "there is no log");
    let damaged = |local: &Local| std::fs::write(local.tasks(1), "- {x} #0 1 00000000\n").unwrap();
    assert!(is_unknown(lost(&damaged)));
    let intact = |local: &Local| std::fs::write(local.tasks(1), "").unwrap();
    let never = lost(&intact);
    assert!(matches!(never, table::Status::NeverStarts(_)), "{never:?}");
}

/// A new file begins with everything that is not acknowledged, so that its numbers mean others.
#[test]
fn an_acknowledgement_counts_the_records_of_the_file_that_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = executor(dir.path(), &Sent::default());
    let log = exec.spawners.log().unwrap();
    publish(&exec, 1, &[]);
    exec.turn(true);
    let end = |id| {
        let (a, code) = (first(id), Some(0));
        let end = Ended {
            a,
            code,
            ..Ended::default()
        };
        TaskRec::End(Box::new(end))
    };
    // The only end in the old file is record 4.
    shepherds_write(&exec, (log, 0), &[start_record(first(9)), end(9)]);
    exec.turn(false);
    let old = exec.reports.number().unwrap();
    let running = [1, 2, 3].map(|id| start_record(first(id)));
    shepherds_write(&exec, (log, 0), &running);
    exec.turn(false);
    exec.reports.begin_new();
    exec.turn(false);
    exec.reports.end_pauses();
    exec.turn(false);
    let part = exec.reports.number().unwrap();
    assert!(part > old);
    let acked = |exec: &Exec| exec.table.get(first(9)).is_none_or(|e| e.acked);
    publish(&exec, 1, &[Order::Ack { part, seq: 4 }]);
    exec.turn(true);
    assert!(!acked(&exec), "record 4 is about a start");
    publish(
        &exec,
        1,
        &[
            Order::Ack { part, seq: 4 },
            Order::Ack { part: old, seq: 99 },
        ],
    );
    exec.turn(true);
    assert!(!acked(&exec), "it names the old file");
    let all = Order::Ack { part, seq: 99 };
    publish(
        &exec,
        1,
        &[
            Order::Ack { part, seq: 4 },
            Order::Ack { part: old, seq: 99 },
            all,
        ],
    );
    exec.turn(true);
    assert!(acked(&exec));
}

#[test]
fn a_sweep_keeps_the_groups_of_tasks_and_of_commands_that_run() {
    let dir = tempfile::tempdir().unwrap();
    let sent = Sent::default();
    let mut exec = executor(dir.path(), &sent);
    let log = exec.spawners.log().unwrap();
    let in_group = |id: u32, name: &str| match start_record(first(id)) {
        TaskRec::Start {
            a,
            pid,
            born,
            boot,
            t,
            cpus,
            ..
        } => TaskRec::Start {
            a,
            pid,
            born,
            boot,
            group: name.to_owned(),
            t,
            cpus,
        },
        other => other,
    };
    shepherds_write(&exec, (log, 0), &[in_group(1, "of-task")]);
    exec.turn(false);
    // The command of another executor's time is known from its file only.
    let pid = i32::try_from(std::process::id()).unwrap();
    command_records::write(&exec.setup.local, pid, &in_group(2, "of-command")).unwrap();
    exec.spawners.follow_real_commands();
    let kept = |exec: &mut Exec| {
        sent.lock().unwrap().clear();
        exec.sweep_groups();
        let sent = sent.lock().unwrap();
        let keep = sent.iter().find_map(|message| match message {
            ToSpawner::Sweep { keep } => Some(keep.clone()),
            _ => None,
        });
        keep.map(|mut keep| {
            keep.sort();
            keep
        })
    };
    let both = ["of-command".to_owned(), "of-task".to_owned()];
    assert_eq!(kept(&mut exec), Some(both.to_vec()));
    // While a log cannot be read, other groups may belong to tasks.
    exec.spawners.unrecovered = true;
    assert_eq!(kept(&mut exec), None);
}

/// Nothing of a batch may be acted on, and none of it forgotten, if it could not be recorded.
#[test]
fn a_batch_that_could_not_be_recorded_is_read_again_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let sent = Sent::default();
    let mut exec = executor(dir.path(), &sent);
    publish(&exec, 1, &[]);
    exec.turn(true);
    exec.ledger.on_full_disk();
    let orders = [spec(1), start(1), Order::Cancel { a: first(2) }];
    publish(&exec, 1, &orders);
    exec.turn(true);
    let starts = || {
        let sent = sent.lock().unwrap();
        let is_start = |message: &&ToSpawner| matches!(message, ToSpawner::Start(_));
        sent.iter().filter(is_start).count()
    };
    assert_eq!(starts(), 0);
    assert!(exec.table.get(first(1)).is_none() && exec.spawners.deferred.is_empty());
    exec.ledger.on_disk_again(&exec.setup.local);
    exec.turn(true);
    exec.turn(true);
    assert_eq!(starts(), 1, "it starts once it can be recorded");
    let remembered = ledger::read(&exec.setup.local).unwrap();
    assert!(remembered.table.get(first(1)).is_some());
    let never = remembered.table.get(first(2)).unwrap();
    assert!(matches!(never.status, table::Status::NeverStarts(_)));
}

/// A shepherd that ended without a record: its end is unknown, and what it left is killed.
#[test]
fn a_task_whose_shepherd_is_gone_ended_and_its_processes_are_reaped() {
    let dir = tempfile::tempdir().unwrap();
    let sent = Sent::default();
    let mut exec = executor(dir.path(), &sent);
    let log = exec.spawners.log().unwrap();
    let own = i32::try_from(std::process::id()).unwrap();
    let born = crate::sys::proc::own_birth_ms();
    let gone = |id, pid, boot: &str| TaskRec::Start {
        a: first(id),
        pid,
        born,
        boot: boot.to_owned(),
        group: format!("g{id}"),
        t: 77,
        cpus: Default::default(),
    };
    let here = crate::sys::proc::boot_id().to_owned();
    // No task has process id 1; the other process exists, since this boot.
    let lost = [
        gone(1, 1, &here),
        gone(2, own, "an earlier boot"),
        gone(3, 1, &here),
    ];
    shepherds_write(&exec, (log, 0), &lost);
    exec.follow_tasks();
    // This one ended with a record that was not read yet.
    let (a, code) = (first(3), Some(0));
    let end = Ended {
        a,
        code,
        ..Ended::default()
    };
    shepherds_write(&exec, (log, 0), &[TaskRec::End(Box::new(end))]);
    exec.find_lost();
    let ended = |id| match status(&exec, id) {
        table::Status::Ended(end) => (end.reason, end.start, end.code),
        other => panic!("{other:?}"),
    };
    assert_eq!(ended(1), (TermReason::ShepherdLost, 77, None));
    assert_eq!(ended(2), (TermReason::HostLost, 77, None));
    assert_eq!(ended(3), (TermReason::None, 0, Some(0)));
    let sent = sent.lock().unwrap();
    let reaped = sent.iter().filter_map(|message| match message {
        ToSpawner::Reap { a, group, env } => Some((*a, group.clone(), env.len())),
        _ => None,
    });
    let reaped: Vec<_> = reaped.filter(|(a, ..)| a.j.id > 0).collect();
    assert_eq!(reaped, [(first(1), "g1".to_owned(), 5)]);
    assert!(sent.contains(&ToSpawner::ClearTmp));
    // The ends are durable before they are reported.
    let remembered = ledger::read(&exec.setup.local).unwrap();
    assert_eq!(remembered.table.live_attempts().count(), 0);
}

/// The ledger is lost: processes that it may have named are ended, unless tasks are still known.
#[test]
fn a_host_that_knows_nothing_ends_what_an_earlier_executor_left() {
    let cleared = |known: bool| {
        let dir = tempfile::tempdir().unwrap();
        let sent = Sent::default();
        if known {
            let local = Local::at(&dir.path().join("local"));
            fs::mkdir_p(local.dir(), 0o755).unwrap();
            let mut log = crate::sys::append::SharedAppender::open(&local.tasks(1)).unwrap();
            let line = crate::task::log::encode_task(&start_record(first(1)), 0).unwrap();
            log.append(&line).unwrap();
        }
        let exec = executor(dir.path(), &sent);
        assert_eq!(exec.table.live_attempts().count(), usize::from(known));
        let sent = sent.lock().unwrap();
        sent.iter()
            .any(|m| matches!(m, ToSpawner::Reap { a, .. } if a.j.id == 0))
    };
    assert!(cleared(false) && !cleared(true));
}

/// Scripts and other files of attempts that are over go, those of live ones stay.
#[test]
fn files_of_live_attempts_are_not_swept() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = executor(dir.path(), &Sent::default());
    let scratch = exec.setup.local.scratch_dir();
    fs::mkdir_p(&scratch, 0o711).unwrap();
    publish(&exec, 1, &[spec(1), start(1)]);
    exec.turn(true);
    let file = |id| scratch.join(Local::scratch_prefix(first(id)) + "x");
    for id in [1, 2] {
        std::fs::write(file(id), "").unwrap();
    }
    exec.spawners.unrecovered = true;
    exec.sweep_scratch();
    assert!(file(2).exists(), "it is not known what runs");
    exec.spawners.unrecovered = false;
    exec.sweep_scratch();
    assert!(file(1).exists() && !file(2).exists());
}

#[test]
fn directories_of_a_killed_spawners_tasks_are_swept_when_the_last_of_them_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let sent = Sent::default();
    let local = Local::at(&dir.path().join("local"));
    fs::mkdir_p(local.dir(), 0o755).unwrap();
    let mut log = crate::sys::append::SharedAppender::open(&local.tasks(1)).unwrap();
    let mut write = |record: &TaskRec| {
        let line = crate::task::log::encode_task(record, 0).unwrap();
        log.append(&line).unwrap();
    };
    write(&start_record(first(1)));
    let mut exec = executor(dir.path(), &sent);
    let present = exec.spawners.log().unwrap();
    std::fs::write(local.tasks(present), "").unwrap();
    let sweeps = |exec: &mut Exec| {
        exec.turn(false);
        sent.lock().unwrap().clear();
        exec.do_housekeeping();
        let sent = sent.lock().unwrap();
        let sweeps = sent.iter().filter(|m| matches!(m, ToSpawner::ClearTmp));
        sweeps.count()
    };
    assert_eq!(sweeps(&mut exec), 0, "it runs");
    let end = crate::task::ending::unknown(first(1), TermReason::None, "");
    write(&TaskRec::End(Box::new(end)));
    exec.follow_tasks();
    assert!(sweeps(&mut exec) > 0);
    assert_eq!(sweeps(&mut exec), 0, "once");
}

/// The log of started tasks may have lost its last records with the host.
#[test]
fn a_task_that_was_given_before_the_host_was_restarted_may_have_run() {
    let dir = tempfile::tempdir().unwrap();
    let local = given(dir.path(), 1);
    std::fs::write(local.tasks(1), "").unwrap();
    let mut known = ledger::read(&local).unwrap();
    let entry = known.table.get_mut(first(1)).unwrap();
    entry.given.boot = "an earlier boot".to_owned();
    let identity = known.identity.clone().unwrap();
    ledger::Ledger::create(&local, "c", identity, &known.table, &known.share).unwrap();
    let exec = executor(dir.path(), &Sent::default());
    match status(&exec, 1) {
        table::Status::Ended(end) => assert_eq!(end.reason, TermReason::HostLost),
        other => panic!("{other:?}"),
    }
}

/// Its end may be known, but not its directory in /tmp be removed.
#[test]
fn what_a_dead_shepherd_left_in_tmp_is_removed_whatever_is_known_of_its_task() {
    let dir = tempfile::tempdir().unwrap();
    let sent = Sent::default();
    let mut exec = executor(dir.path(), &sent);
    exec.turn(true);
    sent.lock().unwrap().clear();
    let (a, pid) = (first(1), 7);
    let died = FromSpawner::Died { a, pid };
    exec.handle_spawner_event(Some(spawn::SpawnerEvent::Message(died)));
    assert!(sent.lock().unwrap().contains(&ToSpawner::ClearTmp));
}

/// After the report the leader may start it elsewhere.
#[test]
fn a_promise_never_to_start_is_on_the_disk_before_it_is_on_the_share() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = executor(dir.path(), &Sent::default());
    publish(&exec, 1, &[spec(1), start(1)]);
    exec.turn(true);
    let died = FromSpawner::Died {
        a: first(1),
        pid: 7,
    };
    exec.handle_spawner_event(Some(spawn::SpawnerEvent::Message(died)));
    exec.turn(false);
    let part = exec.reports.number().unwrap();
    let path = exec.setup.layout.reports("h1", part);
    assert!(std::fs::read_to_string(path).unwrap().contains("\"never\""));
    let remembered = ledger::read(&exec.setup.local).unwrap();
    let status = &remembered.table.get(first(1)).unwrap().status;
    assert!(
        matches!(status, table::Status::NeverStarts(_)),
        "{status:?}"
    );
}

/// Everything that an entry has, in a ledger that was written at once.
#[test]
fn each_number_of_an_attempt_survives_a_rewrite_of_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = executor(dir.path(), &Sent::default());
    let running = |log| {
        table::Status::Running(table::Shepherd {
            pid: 1,
            started_ms: 5,
            boot: "b".into(),
            group: "g".into(),
            t: 7,
            log,
        })
    };
    let mut entry = table::Entry::new(running(9), (3, 2), true);
    (entry.mark, entry.ordered, entry.signals) = (5, 1, 4);
    (entry.resizes.done, entry.limits.last_sent) = (3, 2);
    entry.given.boot = "b".into();
    entry.given.units = vec!["gpu 0".into()];
    entry.given.binding = Some(Box::new(crate::model::Binding {
        cpus: [1, 2].into_iter().collect(),
        ..Default::default()
    }));
    exec.table.insert(first(1), entry.clone());
    let mut over = entry.clone();
    over.status = table::Status::Ended(Box::new(Ended {
        a: first(2),
        code: Some(3),
        ..Ended::default()
    }));
    over.acked = true;
    exec.table.insert(first(2), over);
    exec.table.raise_top(99);
    exec.share.recorded.restored = 6;
    exec.share.recorded.epoch = 8;
    exec.rewrite();
    let found = ledger::read(&exec.setup.local).unwrap();
    assert_eq!(found.share, exec.share.recorded);
    assert_eq!(found.table.highest_job_id(), 99);
    for (a, entry) in exec.table.iter() {
        let mut read = found.table.get(a).unwrap().clone();
        // The process is in the log of the tasks.
        if read.status == table::Status::Sent(9) {
            read.status = running(9);
        }
        assert_eq!(histories::known(&read), histories::known(entry));
        assert_eq!(read.named_by, entry.named_by);
    }
}

/// The spawner that was to start it is gone, and the leader may start it elsewhere.
#[test]
fn a_task_that_waited_for_its_units_is_not_started_by_the_next_spawner() {
    let dir = tempfile::tempdir().unwrap();
    let sent = Sent::default();
    let mut exec = executor(dir.path(), &sent);
    let with_unit = |id| match start(id) {
        Order::Start(mut order) => {
            order.units.list = vec![crate::model::Units {
                host: "h1".into(),
                res: "gpu".into(),
                names: vec!["0".into()].into(),
                ..Default::default()
            }];
            Order::Start(order)
        }
        other => other,
    };
    publish(&exec, 1, &[spec(1), spec(2), with_unit(1), with_unit(2)]);
    exec.turn(true);
    let started = |id| {
        let sent = sent.lock().unwrap();
        let is_it = |m: &ToSpawner| matches!(m, ToSpawner::Start(task) if task.a == first(id));
        sent.iter().any(is_it)
    };
    assert!(started(1) && !started(2) && exec.spawners.deferred.len() == 1);
    exec.spawners.give_up();
    for _ in 0..3 {
        exec.turn(true);
    }
    for id in [1, 2] {
        let status = status(&exec, id);
        assert!(
            matches!(status, table::Status::NeverStarts(_)),
            "{status:?}"
        );
    }
    assert!(!started(2) && exec.spawners.deferred.is_empty());
}

/// A kill that came before the start ends the task as soon as it runs.
#[test]
fn acts_that_waited_for_the_start_are_carried_out_then() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = executor(dir.path(), &Sent::default());
    let kill = Order::Signal {
        a: first(1),
        act: crate::record::order::Act::Kill,
        reason: TermReason::Owner,
        grace_ms: 0,
        n: 1,
        mark: 0,
    };
    publish(&exec, 1, &[spec(1), start(1), kill]);
    exec.turn(true);
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let began = crate::sys::proc::info(pid).unwrap().start;
    let record = TaskRec::Start {
        a: first(1),
        pid,
        born: began * 1000 / crate::sys::proc::ticks_per_second(),
        boot: crate::sys::proc::boot_id().to_owned(),
        group: String::new(),
        t: 1,
        cpus: Default::default(),
    };
    shepherds_write(&exec, (exec.spawners.log().unwrap(), 0), &[record]);
    exec.follow_tasks();
    // The signal of an order ends a process that does not expect it.
    assert!(!child.wait().unwrap().success());
}

/// Samples may have seen more than what the shepherd records at the end.
#[test]
fn the_largest_usage_counts_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = executor(dir.path(), &Sent::default());
    let log = exec.spawners.log().unwrap();
    shepherds_write(&exec, (log, 0), &[start_record(first(1))]);
    exec.follow_tasks();
    exec.table.get_mut(first(1)).unwrap().usage.maxmem_kb = 500;
    let mut end = Ended {
        a: first(1),
        code: Some(0),
        ..Ended::default()
    };
    end.u.maxmem_kb = 20;
    shepherds_write(&exec, (log, 0), &[TaskRec::End(Box::new(end))]);
    exec.follow_tasks();
    match status(&exec, 1) {
        table::Status::Ended(end) => assert_eq!(end.u.maxmem_kb, 500),
        other => panic!("{other:?}"),
    }
}

/// The leader reads no file with a number that it has read before.
#[test]
fn reports_go_on_behind_the_last_file_although_the_directory_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = executor(dir.path(), &Sent::default());
    publish(&exec, 1, &[]);
    for _ in 0..3 {
        exec.turn(true);
        exec.reports.begin_new();
        exec.reports.end_pauses();
        exec.turn(true);
    }
    let last = exec.reports.number().unwrap();
    drop(exec);
    let share = dir.path().join("share");
    std::fs::remove_dir_all(crate::spool::Layout::new(&share).host("h1")).unwrap();
    let mut exec = executor(dir.path(), &Sent::default());
    exec.turn(false);
    assert!(exec.reports.number().unwrap() > last);
}

/// The report of a start waits for a moment where reports cost requests, but not for later ones.
#[test]
fn a_delayed_start_is_reported_before_what_follows_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = executor(dir.path(), &Sent::default());
    exec.setup.share_is_local = false;
    publish(&exec, 1, &[]);
    exec.turn(true);
    let log = exec.spawners.log().unwrap();
    let a = first(1);
    shepherds_write(&exec, (log, 0), &[start_record(a)]);
    exec.follow_tasks();
    shepherds_write(&exec, (log, 0), &[TaskRec::Susp { a, on: true, t: 5 }]);
    exec.follow_tasks();
    exec.report();
    let path = exec
        .setup
        .layout
        .reports("h1", exec.reports.number().unwrap());
    let text = std::fs::read_to_string(path).unwrap();
    let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
    assert!(at("\"started\"") < at("\"suspended\""));
}

/// What a task did before this executor began is told, too: reports may have been lost with a file.
#[test]
fn a_new_file_tells_that_a_task_was_resumed() {
    let running = table::Status::Running(table::Shepherd {
        pid: 1,
        started_ms: 5,
        boot: String::new(),
        group: String::new(),
        t: 7,
        log: 1,
    });
    let mut entry = table::Entry::new(running, (1, 1), false);
    let resumed = |entry: &table::Entry| {
        let reports = entry.reports(first(1));
        let is_resumed = |r: &crate::record::report::Report| {
            matches!(r, crate::record::report::Report::Resumed { .. })
        };
        reports.iter().any(is_resumed)
    };
    assert!(!resumed(&entry), "it was never stopped");
    entry.signals = 2;
    assert!(resumed(&entry));
    entry.suspended = Some(5);
    assert!(!resumed(&entry));
}
