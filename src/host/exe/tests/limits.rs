//! Limits that the leader changes while a task runs.

use super::fencing::shepherds_write;
use super::*;
use crate::host::exe::launches::{AttemptResources, LaunchableWork};
use crate::model::{CpuSet, Limits};
use crate::record::order::PartResources;
use crate::record::report::RunId;
use crate::task::log::TaskRec;
use crate::task::spec::NewLimits;

fn change(a: AttemptId, n: u32, run_s: u64) -> Order {
    let limits = Limits {
        run_s: Some(run_s),
        mem_b: Some(1 << 30),
        ..Limits::default()
    };
    let mark = 0;
    Order::Limits { a, limits, n, mark }
}

/// The number and the run limit in the file that a shepherd reads.
fn on_file(exec: &Exec, a: AttemptId) -> Option<(u32, Option<u64>)> {
    read_limits(&exec.setup.local.limits_file(a))
}

fn read_limits(path: &std::path::Path) -> Option<(u32, Option<u64>)> {
    let text = fs::read_optional(path, 1 << 16).unwrap()?;
    let new: NewLimits = serde_json::from_slice(&text).unwrap();
    Some((new.n, new.limits.run_ms))
}

/// Attempt 1 of job 2 was given to the spawner; its shepherd is a process that has ended.
fn with_task(dir: &std::path::Path) -> (Exec, AttemptId, TaskRec) {
    given(dir, 7);
    let mut exec = deaf_executor(dir);
    let a = first(2);
    let log = exec.spawners.log().unwrap();
    let mut entry = table::Entry::new(table::Status::Sent(log), (1, 1), false);
    entry.given.boot = crate::sys::proc::boot_id().to_owned();
    exec.table.insert(a, entry);
    let start = TaskRec::Start {
        a,
        pid: i32::try_from(std::process::id()).unwrap(),
        born: 1,
        boot: crate::sys::proc::boot_id().to_owned(),
        group: String::new(),
        t: 1,
        cpus: Default::default(),
    };
    (exec, a, start)
}

#[test]
fn the_last_of_several_changes_counts_whatever_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let (mut exec, a, start) = with_task(dir.path());
    let log = exec.spawners.log().unwrap();
    publish(&exec, 1, &[change(a, 2, 120), change(a, 1, 60)]);
    exec.turn(true);
    assert_eq!(on_file(&exec, a), None, "it waits for the start");
    shepherds_write(&exec, (log, 0), &[start]);
    exec.turn(false);
    assert_eq!(on_file(&exec, a), Some((2, Some(120_000))));
    let entry = exec.table.get(a).unwrap();
    let limits = entry.limits.limits.as_deref().unwrap();
    assert_eq!(
        (limits.run_ms, limits.mem_b),
        (Some(120_000), Some(1 << 30))
    );
}

#[test]
fn an_order_of_limits_that_is_read_again_after_a_restart_brings_no_earlier_ones_back() {
    let dir = tempfile::tempdir().unwrap();
    let (mut exec, a, start) = with_task(dir.path());
    let log = exec.spawners.log().unwrap();
    // The first turn looks for lost shepherds.
    exec.turn(false);
    shepherds_write(&exec, (log, 0), &[start]);
    exec.turn(false);
    publish(&exec, 1, &[change(a, 1, 60), change(a, 2, 120)]);
    exec.turn(true);
    assert_eq!(on_file(&exec, a), Some((2, Some(120_000))));
    exec.rewrite();
    let remembered = ledger::read(&exec.setup.local).unwrap();
    let given = remembered.table.get(a).unwrap().limits.last_sent;
    assert_eq!(given, 2);
    // The state after a restart: the limits are not recorded, but the number is.
    let entry = exec.table.get_mut(a).unwrap();
    let (limits, last_change) = (None, 0);
    entry.limits = table::HeldLimits {
        limits,
        last_change,
        last_sent: given,
    };
    exec.take_limits((a, 0), &Limits::default(), 1);
    exec.limit_all();
    assert_eq!(on_file(&exec, a), Some((2, Some(120_000))));
    exec.take_limits((a, 0), &Limits::default(), 3);
    exec.limit_all();
    assert_eq!(on_file(&exec, a), Some((3, None)));
}

#[test]
fn limits_for_another_run_of_that_name_are_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (mut exec, a, _) = with_task(dir.path());
    exec.table.get_mut(a).unwrap().mark = 5;
    exec.take_limits((a, 6), &Limits::default(), 1);
    assert_eq!(exec.table.get(a).unwrap().limits.last_change, 0);
}

fn shepherd_of(pid: i32) -> table::Shepherd {
    let began = crate::sys::proc::info(pid).unwrap().start;
    table::Shepherd {
        pid,
        started_ms: began * 1000 / crate::sys::proc::ticks_per_second(),
        boot: crate::sys::proc::boot_id().to_owned(),
        group: String::new(),
        t: 1,
        log: 0,
    }
}

/// Job 2 has a part here.
fn with_part(dir: &std::path::Path) -> (Exec, AttemptId) {
    let mut exec = deaf_executor(dir);
    let a = first(2);
    let run = Some(RunId::marked(7));
    let work = LaunchableWork::new((&Spec::default(), 1), AttemptResources::default(), run);
    exec.parts.launches.note(a, work);
    (exec, a)
}

/// Job 2 has a part here, with a command whose shepherd is the process `pid`.
fn with_command(dir: &std::path::Path, pid: i32) -> (Exec, AttemptId) {
    let (mut exec, a) = with_part(dir);
    let shepherd = shepherd_of(pid);
    let cpus = CpuSet::default();
    exec.parts
        .commands
        .note_begin(a, commands::Command { shepherd, cpus });
    (exec, a)
}

#[test]
fn what_a_job_of_another_host_started_here_takes_its_changed_limits() {
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (mut exec, a) = with_command(dir.path(), pid);
    let path = exec.setup.local.part_limits_file(a);
    publish(&exec, 1, &[]);
    exec.turn(true);
    assert!(child.try_wait().unwrap().is_none() && !fs::exists(&path));
    publish(&exec, 2, &[change(a, 2, 120), change(a, 1, 60)]);
    let next = Order::Next { part: 2 };
    publish(&exec, 1, &[next]);
    exec.turn(true);
    assert_eq!(read_limits(&path), Some((2, Some(120_000))));
    assert_eq!(exec.parts.launches.memory_of(a), Some(1 << 30));
    // The signal of an order ends a process that does not expect it.
    assert!(!child.wait().unwrap().success());
    // Commands that it starts from now on get these limits, and the file is removed with the part.
    assert_eq!(exec.parts.launches.limits_of(a).unwrap().changes, 2);
    exec.end_launches(a);
    assert!(!fs::exists(&path));
}

/// A command that was requested before an order for its job and begins after it gets the order.
#[test]
fn a_command_that_begins_late_is_stopped_or_limited_as_its_job() {
    for stopped in [false, true] {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (mut exec, a) = with_part(dir.path());
        match stopped {
            true => assert!(exec.parts.launches.suspend(a, true, (1, 7))),
            false => exec.parts.launches.note_limits_sent(a, 1),
        }
        let cpus = CpuSet::from_iter([63]);
        let shepherd = shepherd_of(pid);
        let command = commands::Command {
            shepherd,
            cpus: cpus.clone(),
        };
        exec.command_began(a, command);
        // The signal of an order ends a process that does not expect it.
        assert!(!child.wait().unwrap().success());
        assert_eq!(exec.cpus_in_use(), cpus);
    }
}

#[test]
fn limits_that_come_with_the_part_itself_are_its_limits() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    let a = first(2);
    let part = Order::Part {
        a,
        s: 1,
        first: "h2".into(),
        slots: 1,
        mark: 7,
        own: Box::<PartResources>::default(),
    };
    publish(&exec, 1, &[spec(1), part, change(a, 1, 60)]);
    exec.turn(true);
    let limits = exec.parts.launches.limits_of(a).unwrap();
    assert_eq!((limits.changes, limits.mem_b), (1, Some(1 << 30)));
    let file = exec.setup.local.part_limits_file(a);
    assert!(!fs::exists(&file), "nothing runs that could read it");
}
