//! A part is over when nothing of it is left here; until then nothing else gets its units.

use super::late_usage::command;
use super::*;
use crate::model::Units;
use crate::record::order::{PartResources, TaskUnits};
use crate::record::report::{Ended, RunId};

fn with_gpu(name: &str) -> PartResources {
    let units = Units {
        host: "h1".into(),
        res: "gpu".into(),
        names: vec![name.into()].into(),
        ..Units::default()
    };
    let list = vec![units];
    PartResources {
        units: TaskUnits {
            list,
            ..TaskUnits::default()
        },
        ..PartResources::default()
    }
}

/// The reports of these kinds in the current file.
fn reported(exec: &Exec, kinds: &[&'static str]) -> Vec<&'static str> {
    let number = exec.reports.number().unwrap();
    let text = std::fs::read_to_string(exec.setup.layout.reports("h1", number)).unwrap();
    let kind = |line: &str| kinds.iter().copied().find(|kind| line.contains(kind));
    text.lines().filter_map(kind).collect()
}

/// The reports about parts.
fn told(exec: &Exec) -> Vec<&'static str> {
    reported(exec, &["\"part_over\"", "\"part_ready\"", "\"never\""])
}

/// The reports about attempts.
fn kinds(exec: &Exec) -> Vec<&'static str> {
    reported(exec, &["\"ended\"", "\"usage\"", "\"part_over\""])
}

#[test]
fn the_leader_hears_that_a_part_is_over_when_its_last_command_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    publish(&exec, 1, &[]);
    exec.turn(true);
    let (a, next) = (first(2), first(3));
    let spec = Box::new(Spec::default());
    exec.starter.store_spec(1, spec);
    exec.parts
        .add_part(a, (1, 1, with_gpu("0")), RunId::marked(7));
    exec.turn(false);
    let after_preparing = told(&exec).len();
    exec.parts.commands.note_begin(a, command());
    exec.end_part(a);
    // The next job got the same unit.
    exec.parts
        .add_part(next, (1, 1, with_gpu("0")), RunId::marked(8));
    let other = first(4);
    exec.parts
        .add_part(other, (1, 1, with_gpu("1")), RunId::marked(9));
    exec.turn(false);
    assert_eq!(told(&exec).len(), after_preparing + 1, "of the other unit");
    let pid = i32::try_from(std::process::id()).unwrap();
    exec.parts
        .commands
        .note_end((a, pid), &Ended::default(), "h1");
    exec.turn(false);
    assert_eq!(told(&exec).len(), after_preparing + 3);
    assert_eq!(told(&exec)[after_preparing + 1], "\"part_over\"");
    // A leader that asks again is answered again.
    exec.end_part(a);
    exec.turn(false);
    assert_eq!(told(&exec).len(), after_preparing + 4);
}

#[test]
fn an_end_is_reported_when_the_last_command_beside_the_task_has_ended() {
    for gang in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut exec = deaf_executor(dir.path());
        publish(&exec, 1, &[]);
        exec.turn(true);
        let a = first(2);
        super::units::add(&mut exec, 2, &["gpu 0"], false);
        exec.table.get_mut(a).unwrap().given.gang = gang;
        exec.parts.commands.note_begin(a, command());
        let end = Ended {
            a,
            code: Some(0),
            ..Ended::default()
        };
        exec.ended(end);
        exec.turn(false);
        if gang {
            assert_eq!(
                kinds(&exec),
                ["\"ended\""],
                "the leader orders what follows"
            );
            continue;
        }
        assert!(kinds(&exec).is_empty());
        super::units::add(&mut exec, 5, &["gpu 0"], true);
        assert!(exec.take_ready().is_empty(), "its unit is not free");
        // A leader that loses the file must not think that the attempt is lost.
        exec.reports.begin_new();
        exec.turn(false);
        assert_eq!(kinds(&exec), ["\"usage\""]);
        exec.table.acknowledge(u64::MAX);
        let pid = i32::try_from(std::process::id()).unwrap();
        exec.parts
            .commands
            .note_end((a, pid), &Ended::default(), "h1");
        exec.follow_over_parts(clock::boot_ms());
        assert_eq!(exec.take_ready().len(), 1);
        exec.turn(false);
        let all = ["\"usage\"", "\"ended\"", "\"part_over\""];
        assert_eq!(kinds(&exec), all, "a leader may wait for the last one");
    }
}

#[test]
fn an_end_is_reported_although_a_command_never_ends() {
    let mut over = crate::host::exe::over_parts::OverParts::default();
    over.add(first(2), (RunId::marked(7), vec!["gpu 0".into()]), None);
    over.withhold_end(first(2), 1_000);
    assert!(over.take_over(600_999, |_| true).is_empty());
    assert_eq!(over.due_in(600_999), Some(1));
    assert!(over.late_ends(600_999).is_empty());
    assert_eq!(over.late_ends(601_000), [first(2)]);
    assert_eq!(over.units().count(), 1, "its unit stays in use");
}

#[test]
fn a_task_waits_for_the_unit_of_a_part_that_is_over_and_still_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    let a = first(2);
    exec.parts
        .add_part(a, (1, 1, with_gpu("0")), RunId::marked(7));
    exec.parts.commands.note_begin(a, command());
    exec.end_part(a);
    super::units::add(&mut exec, 5, &["gpu 0"], true);
    assert!(exec.take_ready().is_empty());
    let pid = i32::try_from(std::process::id()).unwrap();
    exec.parts
        .commands
        .note_end((a, pid), &Ended::default(), "h1");
    exec.follow_over_parts(clock::boot_ms());
    assert_eq!(exec.take_ready().len(), 1);
}
