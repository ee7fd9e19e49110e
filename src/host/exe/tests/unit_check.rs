//! `gpu_check`: the job to which a process on a unit belongs, and what happens to jobs that use
//! units of other jobs.

use super::*;
use crate::host::exe::known_units::{reason_to_end, wrong_unit_sentences};
use crate::host::exe::launches::{AttemptResources, LaunchableWork};
use crate::host::exe::sample::Snapshot;
use crate::model::{CpuSet, TermReason, UnitCheck, Units};
use crate::record::host_units::{HostUnitsDoc, UnitDoc};
use crate::record::order::{PartResources, TaskUnits};
use crate::record::report::{RunId, Usage};
use crate::sys::proc;

fn shepherd(pid: i32) -> table::Shepherd {
    table::Shepherd {
        pid,
        started_ms: proc::own_birth_ms(),
        boot: proc::boot_id().to_owned(),
        group: String::new(),
        t: 1,
        log: 1,
    }
}

/// Job 1 runs below this process and has unit 0; process `pid` is on `unit`, seen at `sampled`.
fn bed(dir: &std::path::Path, check: UnitCheck, (unit, pid, sampled): (usize, u32, u64)) -> Exec {
    let mut exec = deaf_executor(dir);
    let shepherd = shepherd(i32::try_from(std::process::id()).unwrap());
    let mut entry = table::Entry::new(table::Status::Running(shepherd), (1, 1), false);
    entry.given.units = vec!["gpu 0 500".into()];
    entry.given.check = check;
    exec.table.insert(first(1), entry);
    let mut units = vec![UnitDoc::named("0"), UnitDoc::named("1")];
    (units[unit].processes, units[unit].seen) = (vec![pid], sampled);
    let doc = HostUnitsDoc {
        boot: proc::boot_id().to_owned(),
        kinds: [("gpu".to_owned(), units)].into(),
    };
    let path = exec.setup.local.units();
    fs::publish(&path, &serde_json::to_vec(&doc).unwrap()).unwrap();
    exec.starter.units.reread(&path, "h1");
    exec
}

fn look(exec: &mut Exec) -> Vec<String> {
    let wrong = exec.wrong_units(&Snapshot::read());
    wrong_unit_sentences(&wrong, first(1))
}

#[test]
fn a_process_on_a_unit_of_others_is_said_or_ends_its_job() {
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let now = clock::boot_ms() + 1_000;
    let dir = tempfile::tempdir().unwrap();
    let wrong = format!("gpu 1 (process {})", child.id());
    for (check, on, sampled, output) in [
        (UnitCheck::Warn, 1, now, true),
        (UnitCheck::Kill, 1, now, true),
        (UnitCheck::Off, 1, now, false),
        (UnitCheck::Kill, 0, now, false),
        // Another process had this number when the sensor looked.
        (UnitCheck::Kill, 1, 1, false),
    ] {
        let place = tempfile::tempdir_in(dir.path()).unwrap();
        let mut exec = bed(place.path(), check, (on, child.id(), sampled));
        let found = look(&mut exec);
        assert_eq!(
            found,
            if output { vec![wrong.clone()] } else { vec![] },
            "{check:?} {on}"
        );
        let u = Usage {
            wrong_units: found,
            ..Usage::default()
        };
        let reason = reason_to_end(exec.table.get(first(1)).unwrap().given.check, &u);
        let kill = output && check == UnitCheck::Kill;
        assert_eq!(reason, kill.then_some(TermReason::Units), "{check:?} {on}");
        let note = exec.starter.units.note("more");
        assert_eq!(
            note.contains("of job 1 uses gpu 1, which the job does not have; more"),
            output
        );
        assert_eq!(
            look(&mut exec).is_empty(),
            !output,
            "as long as it is there"
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A process that job 1, which has another shepherd, did not start, but that claims to be the
/// job's.
fn stranger(exec: impl FnOnce(u32) -> Exec) -> (Exec, std::process::Child) {
    let child = std::process::Command::new("sleep")
        .arg("60")
        .envs([("CB_JOBID", "1"), ("CB_JOBINDEX", "0"), ("CB_ATTEMPT", "1")])
        .spawn()
        .unwrap();
    let mut exec = exec(child.id());
    let shepherd = shepherd(i32::MAX);
    exec.table.set(first(1), table::Status::Running(shepherd));
    (exec, child)
}

#[test]
fn a_process_is_of_the_job_that_started_it_and_not_of_the_one_that_it_names() {
    let now = clock::boot_ms() + 1_000;
    let dir = tempfile::tempdir().unwrap();
    let (mut exec, mut child) = stranger(|pid| bed(dir.path(), UnitCheck::Kill, (1, pid, now)));
    let claimed = look(&mut exec);
    let pid = i32::try_from(child.id()).unwrap();
    let command = commands::Command {
        shepherd: shepherd(pid),
        cpus: CpuSet::default(),
    };
    exec.parts.commands.note_begin(first(1), command);
    let started = look(&mut exec);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(claimed.is_empty(), "{claimed:?}");
    assert_eq!(started, [format!("gpu 1 (process {pid})")]);
}

#[test]
fn a_process_of_no_job_is_said_to_whom_the_unit_belongs() {
    let now = clock::boot_ms() + 1_000;
    let note = |check, on| {
        let dir = tempfile::tempdir().unwrap();
        let mut exec = bed(dir.path(), check, (on, 1, now));
        assert!(look(&mut exec).is_empty());
        exec.starter.units.note("")
    };
    let output = "process 1 of no job uses gpu 0, which is assigned to job 1";
    assert_eq!(note(UnitCheck::Kill, 0), output);
    assert_eq!(note(UnitCheck::Off, 0), "");
    assert_eq!(note(UnitCheck::Kill, 1), "", "no job has it");
}

/// A part of job 2, which has unit 1 here; job 1 has unit 0.
fn with_part(dir: &std::path::Path, check: UnitCheck, (unit, pid): (usize, u32)) -> Exec {
    let now = clock::boot_ms() + 1_000;
    let mut exec = bed(dir, UnitCheck::Warn, (unit, pid, now));
    // Job 1 runs elsewhere in the tree of processes.
    exec.table
        .set(first(1), table::Status::Running(shepherd(i32::MAX)));
    let gpu = Units {
        host: "h1".into(),
        res: "gpu".into(),
        names: vec!["1".into()].into(),
        ..Units::default()
    };
    let units = TaskUnits {
        list: vec![gpu],
        check,
        ..TaskUnits::default()
    };
    let own = PartResources {
        units,
        ..PartResources::default()
    };
    let run = RunId::marked(7);
    exec.parts.add_part(first(2), (1, 1, own), run);
    let work = LaunchableWork::new(
        (&Spec::default(), 1),
        AttemptResources::default(),
        Some(run),
    );
    exec.parts.launches.note(first(2), work);
    exec
}

/// The effect of a process of job 2 on this unit: the note, the job's usage, and whether the
/// process is ended.
fn command_on(unit: usize, check: UnitCheck) -> (String, Vec<String>, bool) {
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut exec = with_part(dir.path(), check, (unit, child.id()));
    let pid = i32::try_from(child.id()).unwrap();
    let began = proc::info(pid).unwrap().start;
    let shepherd = table::Shepherd {
        started_ms: began * 1000 / proc::ticks_per_second(),
        ..shepherd(pid)
    };
    let cpus = CpuSet::default();
    exec.parts
        .commands
        .note_begin(first(2), commands::Command { shepherd, cpus });
    let snapshot = Snapshot::read();
    let wrong = exec.wrong_units(&snapshot);
    exec.sample_parts(&snapshot, &wrong);
    // Where it must be ended, a busy machine may take its time.
    let looks = match (unit, check) {
        (0, UnitCheck::Kill) => 6_000,
        _ => 5,
    };
    let ended = (0..looks).any(|_| {
        clock::sleep_ms(10);
        child.try_wait().unwrap().is_some()
    });
    if !ended {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (used, _) = exec.parts.launches.part_usage(first(2)).unwrap();
    let hide = |text: &str| text.replace(&pid.to_string(), "N");
    let wrong = used.wrong_units.iter().map(|text| hide(text)).collect();
    (hide(&exec.starter.units.note("")), wrong, ended)
}

#[test]
fn what_a_job_of_another_host_started_here_answers_for_the_units_it_uses() {
    let nothing = (String::new(), Vec::new(), false);
    for check in [UnitCheck::Off, UnitCheck::Warn, UnitCheck::Kill] {
        assert_eq!(command_on(1, check), nothing, "its own, {check:?}");
    }
    let output = "process N of job 2 uses gpu 0, which the job does not have".to_owned();
    let named = vec!["gpu 0 (process N on h1)".to_owned()];
    let warned = (output.clone(), named.clone(), false);
    assert_eq!(command_on(0, UnitCheck::Warn), warned);
    assert_eq!(command_on(0, UnitCheck::Kill), (output, named, true));
    // Job 2 is not checked, but the job that has the unit is.
    let finding = "process N of job 2 uses gpu 0, which is assigned to job 1".to_owned();
    let finding = (finding, Vec::new(), false);
    assert_eq!(command_on(0, UnitCheck::Off), finding);
}

#[test]
fn a_stranger_on_a_unit_of_a_part_is_said() {
    let note = |check| {
        let dir = tempfile::tempdir().unwrap();
        let mut exec = with_part(dir.path(), check, (1, 1));
        assert!(look(&mut exec).is_empty());
        (exec.starter.units.note(""), exec.parts.are_checked())
    };
    let output = "process 1 of no job uses gpu 1, which is assigned to job 2".to_owned();
    assert_eq!(note(UnitCheck::Warn), (output, true));
    assert_eq!(note(UnitCheck::Off), (String::new(), false));
}
