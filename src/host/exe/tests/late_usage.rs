//! Usage on a host after its part of a job is over is reported once all commands have ended.

use super::*;
use crate::host::exe::launches::{AttemptResources, LaunchableWork};
use crate::model::CpuSet;
use crate::record::report::{Ended, RunId, Usage};

/// A command whose shepherd is this process.
pub(super) fn command() -> commands::Command {
    let shepherd = table::Shepherd {
        pid: i32::try_from(std::process::id()).unwrap(),
        started_ms: crate::sys::proc::own_birth_ms(),
        boot: crate::sys::proc::boot_id().to_owned(),
        group: String::new(),
        t: 1,
        log: 0,
    };
    let cpus = CpuSet::default();
    commands::Command { shepherd, cpus }
}

fn used(cpu_ms: u64) -> Usage {
    Usage {
        cpu_ms,
        ..Usage::default()
    }
}

/// CPU times of job 2 in the current reports file.
fn told(exec: &Exec) -> Vec<u64> {
    let number = exec.reports.number().unwrap();
    let text = std::fs::read_to_string(exec.setup.layout.reports("h1", number)).unwrap();
    let lines = text.lines().filter(|l| l.contains("\"part_usage\""));
    let json = |line: &str| {
        let from = line.find('{').unwrap();
        // A checksum follows the value.
        let values = serde_json::Deserializer::from_str(&line[from..]).into_iter();
        let value: serde_json::Value = values.map(Result::unwrap).next().unwrap();
        assert_eq!(value["m"], 7, "{line}");
        value["cpu_ms"].as_u64().unwrap_or(0)
    };
    lines.map(json).collect()
}

#[test]
fn what_a_part_used_after_its_end_is_said_and_said_again_to_another_leader() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    let a = first(2);
    let run = Some(RunId::marked(7));
    publish(&exec, 1, &[]);
    exec.turn(true);
    let work = LaunchableWork::new((&Spec::default(), 1), AttemptResources::default(), run);
    exec.parts.launches.note(a, work);
    for pid in [50, 51] {
        let mut command = command();
        command.shepherd.pid = pid;
        exec.parts.commands.note_begin(a, command);
    }
    exec.end_launches(a);
    let ended = |cpu_ms| Ended {
        u: used(cpu_ms),
        ..Ended::default()
    };
    let now = clock::boot_ms();
    let follow = |exec: &mut Exec, now| {
        exec.follow_late_parts(now);
        exec.report();
        told(exec)
    };
    exec.parts.commands.note_end((a, 50), &ended(300), "h1");
    assert_eq!(follow(&mut exec, now), [0; 0], "another one runs");
    exec.parts.commands.note_end((a, 51), &ended(200), "h1");
    assert_eq!(follow(&mut exec, now), [500]);
    assert_eq!(follow(&mut exec, now), [500], "once");
    // The command was about to start when the part ended.
    exec.parts.commands.note_end((a, 52), &ended(50), "h1");
    assert_eq!(follow(&mut exec, now), [500, 550]);
    exec.parts.late_parts.forget_reported();
    assert_eq!(follow(&mut exec, now), [500, 550, 550]);
    exec.reports.close();
    exec.turn(true);
    assert_eq!(told(&exec), [550], "in a new file, too");
    assert!(exec.parts.late_parts.any());
    assert_eq!(follow(&mut exec, now + 60_000), [550]);
    assert!(!exec.parts.late_parts.any(), "it is forgotten");
    exec.reports.close();
    exec.turn(true);
    assert_eq!(told(&exec), [0; 0]);
}
