//! `ctasks`: starts the tasks of a job, one for each slot, from inside the job. `csub --launch`
//! prepends it to the job's command.
//!
//! Owns how tasks on other hosts are reached (by `claunch`) and what the end of one task means for
//! the others. `task::launch` computes the tasks.

use super::cli::{Table, command, opt, texts, trailing_command};
use super::exit::{Exit, Fail, Result};
use crate::language::tell;
use crate::model::{LAUNCH_KINDS, Launch, LaunchKind, TaskSection};
use crate::sys::{self, ranks, supervise::Ended};
use crate::task::launch::{self, RankedTask, TaskPlaces};
use crate::text::command::quote;
use clap::Command;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

/// Time between TERM and KILL for the remaining tasks after one has failed, ms.
const GRACE_MS: u64 = 10_000;
/// Maximum length of a script that is sent to other hosts with a command line, in bytes.
const SCRIPT_MAX: u64 = 96 << 10;
/// Variables of other batch systems that mpiexec would prefer to ours.
const MARKERS: &[&str] = &["SLURM_", "PBS_", "SGE_", "PE_HOSTFILE", "LOADL"];
/// Exit code if a task cannot be started.
const NOT_STARTED: i32 = 126;

/// The options of `ctasks`.
pub(super) fn options() -> Command {
    let kinds: Vec<&str> = LAUNCH_KINDS.iter().map(|(word, _)| *word).collect();
    let help = format!("Variables for the tasks: {} [tasks]", kinds.join(", "));
    command("ctasks", "Start the tasks of a job, from inside the job")
        .arg(opt("launch", "KIND", "").help(help))
        .arg(opt(
            "section",
            "NAME[=COMMAND]",
            "Name of a section and its command, once for each section",
        ))
        .arg(trailing_command(
            "COMMAND",
            "Command and arguments of each task",
        ))
}

/// Runs `ctasks`; returns the exit code: that of the first task that failed.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let table = Table::new(options());
    let split = match texts(args).and_then(|words| table.split(&words)) {
        Ok(split) => split,
        Err(e) => return Fail::usage(format!("{e}\nhint: ctasks -h")).report("ctasks"),
    };
    let asks = |g| matches!(table.id(g), "help" | "version");
    if split.given.iter().any(asks) {
        return table.check(&split).err().unwrap_or(0);
    }
    let mut request = Launch::default();
    for given in &split.given {
        let read = match table.id(given) {
            "launch" => kind(&given.value).map(|kind| request.kind = kind),
            _ => section(&given.value).map(|section| request.sections.push(section)),
        };
        if let Err(fail) = read {
            return fail.report("ctasks");
        }
    }
    match JobEnvironment::find(&request).and_then(|job| job.start(&request, &split.operands)) {
        Ok(code) => code,
        Err(fail) => fail.report("ctasks"),
    }
}

/// The value of `--launch`.
pub(super) fn kind(word: &str) -> Result<LaunchKind> {
    LaunchKind::parse(word).ok_or_else(|| {
        let all: Vec<&str> = LAUNCH_KINDS.iter().map(|(word, _)| *word).collect();
        let shown = crate::text::width::escape(word);
        Fail::usage(format!(
            "--launch: '{shown}' is not one of {}",
            all.join(" ")
        ))
    })
}

/// A value of `--section`.
pub(super) fn section(text: &str) -> Result<TaskSection> {
    TaskSection::parse(text).map_err(|e| Fail::usage(format!("--section: {e}")))
}

/// What this process finds out about its job.
struct JobEnvironment {
    hosts: Vec<(String, u32)>,
    sections: Vec<u32>,
    /// The host of this process.
    this_host: String,
    port: u16,
    /// The program that starts a command on another host of the job.
    agent: String,
    cwd: String,
    /// The local copy of the job's script, if the job has one.
    script: Option<String>,
}

impl JobEnvironment {
    fn find(request: &Launch) -> Result<JobEnvironment> {
        let var = |name: &str| std::env::var(name).unwrap_or_default();
        let hosts = host_list(&var("CB_MCPU_HOSTS")).ok_or_else(|| {
            Fail::usage("CB_MCPU_HOSTS is not set: this command runs inside a job")
        })?;
        let total: u32 = hosts.iter().map(|(_, n)| n).sum();
        let sizes: Option<Vec<u32>> = var("CB_SECTIONS")
            .split_whitespace()
            .map(|word| word.parse().ok())
            .collect();
        let sections = sizes.filter(|all| !all.is_empty()).unwrap_or(vec![total]);
        let places = TaskPlaces {
            hosts: &hosts,
            sections: &sections,
            port: 0,
        };
        let most = match request.kind {
            LaunchKind::Tasks | LaunchKind::Mpi => 0,
            LaunchKind::Torch | LaunchKind::Mxnet => 1,
            LaunchKind::Tf => launch::most_on_one_host(&places),
        };
        let seed = var("CB_JOBID").parse().unwrap_or(0);
        let port = match most {
            0 => 0,
            most => ranks::free_ports(most, seed)
                .ok_or_else(|| Fail::system(format!("{most} ports in a row are not free")))?,
        };
        let cwd = sys::caller::working_directory()?;
        let agent = match var("CB_LAUNCH_AGENT") {
            own if !own.is_empty() => own,
            _ => format!("{}/claunch", var("CB_BINDIR")),
        };
        Ok(JobEnvironment {
            this_host: var("CB_EXEC_HOST"),
            hosts,
            sections,
            port,
            agent,
            cwd: cwd.to_string_lossy().into_owned(),
            script: Some(var("LSB_JOBFILENAME")).filter(|path| !path.is_empty()),
        })
    }

    fn start(&self, request: &Launch, argv: &[String]) -> Result<i32> {
        request
            .check()
            .map_err(|e| Fail::usage(format!("--launch: {e}")))?;
        let places = TaskPlaces {
            hosts: &self.hosts,
            sections: &self.sections,
            port: self.port,
        };
        let mut all =
            launch::tasks(request, &places).map_err(|e| Fail::usage(format!("--launch: {e}")))?;
        if argv.is_empty() && all.iter().any(|task| own_command(request, task).is_empty()) {
            return Err(Fail::usage("no command is specified"));
        }
        let without = match request.kind {
            LaunchKind::Mpi => {
                all[0].env.extend(self.mpi_env()?);
                markers()
            }
            _ => Vec::new(),
        };
        ranks::outlive_signals();
        let mut running = HashMap::new();
        let mut failed = None;
        for task in &all {
            match self.start_one(request, task, argv, &without) {
                Ok(pid) => {
                    running.insert(pid, task);
                }
                Err(fail) => {
                    tell!("ctasks: task {} on {}: {}", task.rank, task.host, fail.text);
                    failed = Some(NOT_STARTED);
                    break;
                }
            }
        }
        Ok(until_over(running, failed))
    }

    fn start_one(
        &self,
        request: &Launch,
        task: &RankedTask,
        argv: &[String],
        removed_variables: &[String],
    ) -> Result<i32> {
        let own = own_command(request, task);
        let argv = match own {
            "" => argv.to_vec(),
            own => ["/bin/sh", "-c", own].map(str::to_owned).to_vec(),
        };
        let argv = match task.host == self.this_host {
            true => argv,
            false => self.remote(task, argv)?,
        };
        let rank = ranks::Rank {
            argv: &argv,
            env: &task.env,
            removed_variables,
            reads: task.rank == 0,
            own_group: !sys::caller::stdin_is_terminal(),
        };
        Ok(rank.start()?)
    }

    /// The command line that starts a task on its host.
    fn remote(&self, task: &RankedTask, mut argv: Vec<String>) -> Result<Vec<String>> {
        // Only this host has the copy of the job's script.
        if self
            .script
            .as_ref()
            .is_some_and(|script| argv.last() == Some(script))
        {
            let path = argv.pop().unwrap_or_default();
            let bytes = sys::fs::read_small(Path::new(&path), SCRIPT_MAX).map_err(|e| {
                Fail::system(format!("{e}\nhint: other hosts get scripts of up to 96 KB"))
            })?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            argv.extend(["-c".to_owned(), text]);
        }
        let mut line = format!("cd {} && exec env", quote(&self.cwd));
        for (name, value) in &task.env {
            line.push(' ');
            line.push_str(&quote(&format!("{name}={value}")));
        }
        for word in &argv {
            line.push(' ');
            line.push_str(&quote(word));
        }
        Ok(vec![self.agent.clone(), task.host.clone(), line])
    }

    /// The variables that make Open MPI use the hosts of the job; MPICH uses those that every job
    /// has.
    fn mpi_env(&self) -> Result<Vec<(String, String)>> {
        let dir = std::env::var("TMPDIR").unwrap_or_else(|_| "/tmp".to_owned());
        let path = Path::new(&dir).join(format!("hosts.{}", sys::clock::nonce(8)));
        let lines = self
            .hosts
            .iter()
            .map(|(host, n)| format!("{host} slots={n}\n"));
        let text: String = lines.collect();
        sys::fs::publish_mode(&path, text.as_bytes(), 0o644)?;
        let path = path.to_string_lossy().into_owned();
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Ok(vec![
            set("OMPI_MCA_plm_rsh_agent", &self.agent),
            set("OMPI_MCA_orte_default_hostfile", &path),
        ])
    }
}

fn own_command<'a>(request: &'a Launch, task: &RankedTask) -> &'a str {
    let section = request.sections.get(task.section);
    section.map_or("", |section| section.command.as_str())
}

/// Variables of this process that belong to other batch systems.
fn markers() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names
        .filter(|name| MARKERS.iter().any(|m| name.starts_with(m)))
        .collect()
}

/// `h1 2 h2 1` as hosts and slots.
fn host_list(text: &str) -> Option<Vec<(String, u32)>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.chunks(2).map(|pair| match pair {
        [host, n] => n.parse().ok().map(|n| ((*host).to_owned(), n)),
        _ => None,
    });
    let hosts: Option<Vec<(String, u32)>> = pairs.collect();
    hosts.filter(|hosts| !hosts.is_empty())
}

/// Waits for all tasks. If one fails the others are ended, because they would wait for it.
fn until_over(mut running: HashMap<i32, &RankedTask>, mut failed: Option<i32>) -> i32 {
    let mut deadline = None;
    if failed.is_some() {
        deadline = end_all(&running);
    }
    while !running.is_empty() {
        let now = sys::clock::boot_ms();
        let left = deadline.map(|at: u64| at.saturating_sub(now));
        let Some((pid, how)) = ranks::wait(left) else {
            if left != Some(0) {
                // This process has no child left to wait for.
                break;
            }
            running
                .keys()
                .for_each(|pid| ranks::signal(*pid, kill_number()));
            deadline = Some(now + GRACE_MS);
            continue;
        };
        let Some(task) = running.remove(&pid) else {
            continue;
        };
        let code = match how {
            Ended::Exited(code) => code,
            Ended::Killed(signal, _) => 128 + signal,
        };
        if code != 0 && failed.is_none() {
            let (rank, host) = (task.rank, &task.host);
            tell!("ctasks: task {rank} on {host} ended with {code}; the others are ended");
            failed = Some(code);
            deadline = end_all(&running);
        }
    }
    failed.unwrap_or(Exit::Ok.code())
}

/// Terminates all tasks; returns the time at which they are killed.
fn end_all(running: &HashMap<i32, &RankedTask>) -> Option<u64> {
    let term = sys::signals::number("TERM").unwrap_or(15);
    running.keys().for_each(|pid| ranks::signal(*pid, term));
    Some(sys::clock::boot_ms() + GRACE_MS)
}

fn kill_number() -> i32 {
    sys::signals::number("KILL").unwrap_or(9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(this_host: &str) -> JobEnvironment {
        JobEnvironment {
            hosts: host_list("h1 1 h2 1").unwrap(),
            sections: vec![2],
            this_host: this_host.into(),
            port: 1,
            agent: "/b/claunch".into(),
            cwd: "/a b".into(),
            script: Some("/l/s".into()),
        }
    }

    #[test]
    fn hosts_and_slots_come_in_pairs() {
        let two = host_list("h1 2 h2 1").unwrap();
        assert_eq!(two, [("h1".to_owned(), 2), ("h2".to_owned(), 1)]);
        for wrong in ["", "h1", "h1 x", "h1 1 h2"] {
            assert_eq!(host_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn another_host_gets_directory_environment_and_words_for_its_shell() {
        let task = RankedTask {
            rank: 1,
            host: "h2".into(),
            env: vec![("A".into(), "x y".into())],
            ..RankedTask::default()
        };
        let line = job("h1")
            .remote(&task, vec!["run".into(), "it's".into()])
            .unwrap();
        assert_eq!(line[..2], ["/b/claunch", "h2"]);
        assert_eq!(line[2], r"cd '/a b' && exec env 'A=x y' run 'it'\''s'");
        let missing = job("h1").remote(&task, vec!["/bin/sh".into(), "/l/s".into()]);
        assert!(missing.unwrap_err().text.contains("96 KB"));
    }
}
