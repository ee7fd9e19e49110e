//! Judges what a script for Slurm or PBS runs and reads: commands that do not exist here, and
//! variables that the job does not find.
//!
//! A script for a system whose commands or variables would silently be missing is refused with the
//! line; in a script without lines for that system, which may be written for several, a warning
//! names them. What the script defines, sets, tests or gives a default is its own matter.

use crate::client::exit::{Fail, Result};
use crate::task::{pbs, slurm};
use crate::text::command::{PBS, SBATCH};
use crate::text::shell::{NameAt, ShellScript};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A script with what its job gets.
pub(crate) struct ScriptUse<'a> {
    pub place: &'a str,
    pub text: &'a str,
    /// Its interpreter line; empty: a shell.
    pub shell: &'a str,
    /// The system for which it has lines: its prefix.
    pub system: Option<&'static str>,
    /// Whether the job has the variable by its environment or its options.
    pub has_variable: &'a dyn Fn(&str) -> bool,
    /// Whether a program is found by its name or path.
    pub has_program: &'a dyn Fn(&str) -> bool,
}

/// A batch system whose commands and variables are looked for.
struct System {
    prefix: &'static str,
    variables: &'static str,
    /// Commands without which the job does less than it seems, and what to use instead.
    commands: &'static [&'static str],
    instead: &'static str,
    is_set: fn(&str) -> bool,
}

const SYSTEMS: &[System] = &[
    System {
        prefix: SBATCH,
        variables: "SLURM_",
        commands: &["srun", "salloc", "sbcast", "sattach", "sgather"],
        instead: "start MPI programs with mpirun, and commands on hosts of the job with claunch; a \
                  program that runs once needs no launcher",
        is_set: is_set_by_slurm,
    },
    System {
        prefix: PBS,
        variables: "PBS_",
        commands: &["pbsdsh", "pbs_tmrsh", "qsub", "qrsh"],
        instead: "start MPI programs with mpirun, and commands on hosts of the job with claunch; \
                  submit jobs with csub",
        is_set: pbs::is_set,
    },
];

/// Variables that Slurm itself sets only for jobs with certain requests. `sbatch` sets those of the
/// requests that have a counterpart here.
const OFTEN_EMPTY: &[&str] = &[
    "SLURM_MEM_PER_NODE",
    "SLURM_MEM_PER_CPU",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_TASK",
    "SLURM_JOB_QOS",
    "SLURM_JOB_RESERVATION",
    "SLURM_JOB_DEPENDENCY",
    "SLURM_JOB_LICENSES",
    "SLURM_HET_SIZE",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
];

fn is_set_by_slurm(name: &str) -> bool {
    slurm::is_set(name) || OFTEN_EMPTY.contains(&name)
}

/// Checks a script; returns warnings.
///
/// # Errors
/// Names the first command or variable that the script would silently miss, with its line.
pub(crate) fn check(script: &ScriptUse<'_>) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if !is_shell(script.shell) {
        let used = words_of(script.text);
        for system in SYSTEMS.iter().filter(|s| Some(s.prefix) == script.system) {
            warnings.extend(warn_of_variables(
                script,
                system,
                &missing(script, system, &used),
            ));
        }
        return Ok(warnings);
    }
    let found = ShellScript::read(script.text);
    for system in SYSTEMS {
        let is_own = Some(system.prefix) == script.system;
        if let Some(call) = missing_command(script, system, &found) {
            let text = format!(
                "{}:{}: {}: there is no such command here, and the job would go on without it",
                script.place, call.line, call.name
            );
            let instead = system.instead;
            match is_own {
                true => return Err(Fail::usage(format!("{text}\nhint: {instead}"))),
                false => warnings.push(format!("warning: {text}\nhint: {instead}")),
            }
        }
        let missing = missing(script, system, &found.uses);
        match missing.first() {
            Some(first) if is_own => {
                let (place, line, name) = (script.place, first.line, &first.name);
                return Err(Fail::usage(format!(
                    "{place}:{line}: ${name} is not set in this job, and the script does not \
                     expect it to be empty\nhint: set it, or write ${{{name}:-}} if it may be empty"
                )));
            }
            _ => warnings.extend(warn_of_variables(script, system, &missing)),
        }
    }
    Ok(warnings)
}

fn is_shell(interpreter: &str) -> bool {
    let mut words = interpreter.split_whitespace();
    let mut name = words.next().unwrap_or("sh");
    if name.ends_with("/env") {
        name = words.find(|word| !word.starts_with('-')).unwrap_or("sh");
    }
    name.ends_with("sh")
}

/// The first call of a command that does not exist.
fn missing_command(script: &ScriptUse<'_>, system: &System, found: &ShellScript) -> Option<NameAt> {
    let variables = found.command_variables.iter();
    let through = variables.filter(|(variable, _)| found.read.contains(variable));
    let calls = found.commands.iter().chain(through.map(|(_, first)| first));
    let is_missing = |call: &&NameAt| {
        let name = call.name.rsplit('/').next().unwrap_or_default();
        system.commands.contains(&name)
            && !found.known_commands.contains(name)
            && !(script.has_program)(&call.name)
    };
    calls
        .filter(is_missing)
        .min_by_key(|call| call.line)
        .cloned()
}

/// The variables of a system that the job does not have.
fn missing(script: &ScriptUse<'_>, system: &System, used: &[NameAt]) -> Vec<NameAt> {
    let is_own = Some(system.prefix) == script.system;
    let lacks = |used: &&NameAt| {
        let name = used.name.as_str();
        let set = is_own && (system.is_set)(name);
        name.starts_with(system.variables) && !set && !(script.has_variable)(name)
    };
    let mut seen = BTreeSet::new();
    let all = used.iter().filter(lacks);
    all.filter(|used| seen.insert(used.name.clone()))
        .cloned()
        .collect()
}

/// Maximum number of variables that a warning names.
const SHOWN: usize = 5;

fn warn_of_variables(
    script: &ScriptUse<'_>,
    system: &System,
    missing: &[NameAt],
) -> Option<String> {
    missing.first()?;
    let mut list = String::new();
    for (n, used) in missing.iter().take(SHOWN).enumerate() {
        let comma = if n == 0 { "" } else { ", " };
        let _ = write!(list, "{comma}${} (line {})", used.name, used.line);
    }
    if missing.len() > SHOWN {
        let _ = write!(list, " and {} more", missing.len() - SHOWN);
    }
    let verb = if missing.len() == 1 { "is" } else { "are" };
    let (place, prefix) = (script.place, system.prefix);
    Some(format!(
        "warning: {place}: {list} {verb} not set in this job\nhint: jobs of scripts with {prefix} \
         lines and no others find the variables of that system"
    ))
}

/// The names in the text of a program that is not a shell script.
fn words_of(text: &str) -> Vec<NameAt> {
    let mut all = Vec::new();
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with('#') {
            continue;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = line.split(|c| !plain(c)).filter(|word| !word.is_empty());
        all.extend(words.map(|word| NameAt {
            line: n + 1,
            name: word.to_owned(),
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str, shell: &str, system: Option<&'static str>) -> Result<Vec<String>> {
        check(&ScriptUse {
            place: "s.sh",
            text,
            shell,
            system,
            has_variable: &|name| name == "SLURM_CONF" || name == "PBS_GIVEN",
            has_program: &|name| name == "salloc" || name == "/opt/srun",
        })
    }

    #[test]
    fn a_script_that_would_do_nothing_is_refused() {
        for (text, line) in [
            ("#!/bin/sh\nsrun ./a.out\n", 2),
            ("x\nif true; then\n  time srun -n 4 ./a.out\nfi", 3),
            ("L='srun -n 4'\n$L ./a.out", 1),
            ("/usr/bin/srun x", 1),
            ("sbcast a /tmp/a && x", 1),
        ] {
            let fail = judged(text, "", Some(SBATCH)).expect_err(text);
            assert!(
                fail.text.starts_with(&format!("s.sh:{line}: ")),
                "{}",
                fail.text
            );
            assert!(fail.text.contains("claunch"), "{}", fail.text);
            let warnings = judged(text, "/bin/bash", None).unwrap();
            assert!(warnings[0].starts_with("warning: s.sh:"), "{warnings:?}");
        }
        for text in [
            "# srun x\necho srun",
            "srun() { x; }\nsrun y",
            "command -v srun && srun x",
            "salloc x",
            "/opt/srun x",
            "L=srun",
        ] {
            assert_eq!(judged(text, "", Some(SBATCH)), Ok(vec![]), "{text}");
        }
        assert!(judged("pbsdsh x", "", Some(PBS)).is_err());
        assert!(judged("qsub next.sh", "/bin/csh", Some(PBS)).is_err());
    }

    #[test]
    fn a_variable_that_is_not_set_is_refused_by_its_line() {
        let fail = judged("x\nrm -rf $W/$PBS_FOO\n", "", Some(PBS)).unwrap_err();
        assert!(
            fail.text.starts_with("s.sh:2: $PBS_FOO is not set"),
            "{}",
            fail.text
        );
        assert!(judged("cd ${SLURM_BAR}", "", Some(SBATCH)).is_err());
        for (text, system) in [
            (
                "cd $PBS_O_WORKDIR; echo $PBS_JOBID $PBS_ARRAY_INDEX $PBS_NODEFILE",
                PBS,
            ),
            ("echo $PBS_GIVEN ${PBS_FOO:-x}", PBS),
            ("PBS_FOO=1; echo $PBS_FOO", PBS),
            (
                "echo $SLURM_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_CONF $SLURM_MEM_PER_NODE",
                SBATCH,
            ),
            ("[ -n \"$SLURM_FOO\" ] && cd $SLURM_FOO", SBATCH),
        ] {
            assert_eq!(judged(text, "", Some(system)), Ok(vec![]), "{text}");
        }
        let warnings = judged("a\necho $PBS_JOBID $PBS_JOBID $SLURM_JOB_ID", "", None).unwrap();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[1].starts_with("warning: s.sh: $PBS_JOBID (line 2) is not set"));
        let python = "#!/usr/bin/python3\nx = os.environ['PBS_FOO'], os.environ['PBS_JOBID']\n";
        let warnings = judged(python, "/usr/bin/env python3", Some(PBS)).unwrap();
        assert!(
            warnings[0].contains("$PBS_FOO (line 2) is not set"),
            "{warnings:?}"
        );
        assert_eq!(warnings.len(), 1);
    }
}
