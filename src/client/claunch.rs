//! `claunch` (also `blaunch`): runs a command on hosts of the job in which it is called.
//!
//! Leaves a request for each host in the drop box of its user and waits for their connections, like
//! `csub -I`. Input, output, signals and exit codes are those of the commands on these hosts; the
//! commands end with this process.

mod doorbell;

use super::cli::{Split, Table, command, flag, opt, texts, trailing_command};
use super::env::Site;
use super::exit::{Exit, Fail, Result};
use super::interactive::InteractiveListener;
use super::interactive::host_commands::{HostCommands, RunResult};
use super::job_requests::finish;
use crate::language::tell;
use crate::model::Terminal;
use crate::model::{AttemptId, JobKey};
use crate::record::launch::{LAUNCH_MAX, LaunchRequest};
use crate::sys::{
    self,
    signals::{self, SignalQueue},
};
use clap::Command;
use doorbell::Doorbell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// Signals that do not end this command: they are passed on, or mean nothing to it.
const SIGNALS: [&str; 9] = [
    "INT", "QUIT", "TERM", "HUP", "TSTP", "CONT", "WINCH", "USR1", "USR2",
];
/// Maximum size of a file of hosts, in bytes.
const HOSTS_MAX: u64 = 4 << 20;
/// Maximum number of hosts of one call.
const CALL_MAX: usize = 1_000;

/// The options of `claunch`.
pub(super) fn options() -> Command {
    command("claunch", "Run a command on hosts of the running job")
        .arg(flag("n", "The command has no input"))
        .arg(opt(
            "z",
            "HOSTS",
            "Run it on each of these hosts: \"h1 h2\"",
        ))
        .arg(opt(
            "u",
            "FILE",
            "Run it on each host in this file, one host per line",
        ))
        .arg(trailing_command(
            "[HOST] COMMAND",
            "The host (not with -z or -u), then the command, joined by blanks for /bin/sh",
        ))
}

/// Runs `claunch`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let table = Table::new(options());
    let split = match texts(args).and_then(|words| table.split(&words)) {
        Ok(split) => split,
        Err(e) => return Fail::usage(format!("{e}\nhint: claunch -h")).report("claunch"),
    };
    let asks = |g| matches!(table.id(g), "help" | "version");
    if split.given.iter().any(asks) {
        return table.check(&split).err().unwrap_or(0);
    }
    finish("claunch", launch(&table, &split))
}

/// The running job around this process, from its environment.
#[derive(Clone, PartialEq, Eq, Debug)]
struct JobContext {
    a: AttemptId,
    hosts: Vec<String>,
}

impl JobContext {
    fn of(var: &dyn Fn(&str) -> Option<String>) -> Result<JobContext> {
        let number = |name: &str| var(name).and_then(|text| text.parse::<u32>().ok());
        let (Some(id), Some(at)) = (number("LSB_JOBID"), number("CB_ATTEMPT")) else {
            return Err(Fail::usage(
                "not in a job: LSB_JOBID and CB_ATTEMPT are not set\nhint: claunch adds to a \
                 running job; csub starts one",
            ));
        };
        let idx = number("LSB_JOBINDEX").unwrap_or(0);
        let counted = var("LSB_MCPU_HOSTS").unwrap_or_default();
        let hosts = counted.split_whitespace().step_by(2).map(str::to_owned);
        Ok(JobContext {
            a: AttemptId {
                j: JobKey { id, idx },
                at,
            },
            hosts: hosts.collect(),
        })
    }

    /// Checks that a host belongs to the job.
    fn check(&self, host: &str) -> Result<()> {
        if self.hosts.iter().any(|own| own == host) {
            return Ok(());
        }
        Err(Fail::refused(format!(
            "host '{}' is not one of job <{}>: {}",
            crate::text::width::escape(host),
            self.a.j,
            self.hosts.join(" ")
        )))
    }
}

/// The hosts and the command.
fn hosts_and_command(table: &Table, split: &Split) -> Result<(Vec<String>, String, bool)> {
    let value = |id: &str| {
        let mut given = split.given.iter().filter(|g| table.id(g) == id);
        given.next_back().map(|g| g.value.clone())
    };
    let mut words = &split.operands[..];
    let hosts: Vec<String> = match (value("z"), value("u")) {
        (Some(_), Some(_)) => return Err(Fail::usage("-z and -u cannot be given together")),
        (Some(list), None) => list.split_whitespace().map(str::to_owned).collect(),
        (None, Some(file)) => {
            let bytes = sys::fs::read_small(Path::new(&file), HOSTS_MAX)
                .map_err(|e| Fail::usage(format!("-u: {e}")))?;
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| Fail::usage(format!("-u: {file} is not UTF-8 text")))?;
            text.split_whitespace().map(str::to_owned).collect()
        }
        (None, None) => {
            let (first, rest) = words
                .split_first()
                .ok_or_else(|| Fail::usage("a host and a command are missing"))?;
            words = rest;
            vec![first.clone()]
        }
    };
    if hosts.is_empty() || hosts.len() > CALL_MAX {
        let text = format!("give 1 to {CALL_MAX} hosts, not {}", hosts.len());
        return Err(Fail::usage(text));
    }
    // Joined as rsh and ssh do: callers quote for a shell on the remote side.
    let line = words.join(" ");
    if line.trim().is_empty() || line.contains('\0') {
        return Err(Fail::usage("a command is missing"));
    }
    let no_input = split.given.iter().any(|g| table.id(g) == "n");
    Ok((hosts, line, no_input))
}

fn launch(table: &Table, split: &Split) -> Result<i32> {
    let (hosts, line, no_input) = hosts_and_command(table, split)?;
    let around = JobContext::of(&|name| std::env::var(name).ok())?;
    for host in &hosts {
        around.check(host)?;
    }
    let site = Site::find()?;
    let queue = catch_signals()?;
    let umask = sys::caller::umask(0o007);
    sys::caller::umask(umask);
    let cwd = sys::caller::working_directory()?;
    let cwd = cwd.to_str().map(str::to_owned);
    let cwd = cwd.ok_or_else(|| Fail::usage("the working directory is not UTF-8"))?;
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    let started = LaunchedCommand {
        a: around.a,
        line,
        cwd,
        umask,
        env,
    };
    Ok(match started.run(&site, &hosts, !no_input, &queue)? {
        RunResult::Codes(codes) => code_of_all(&hosts, &codes),
        RunResult::Signal(signal) => 128 + signal,
    })
}

/// A command that is started beside a running job, with its environment.
pub(crate) struct LaunchedCommand {
    pub(crate) a: AttemptId,
    pub(crate) line: String,
    pub(crate) cwd: String,
    pub(crate) umask: u32,
    pub(crate) env: BTreeMap<String, String>,
}

impl LaunchedCommand {
    /// Starts the command on each of these hosts and waits for all of them to end. `input`: the
    /// first one gets standard input.
    ///
    /// # Errors
    /// The command is too long, or a host does not connect.
    pub(crate) fn run(
        &self,
        site: &Site,
        hosts: &[String],
        input: bool,
        queue: &SignalQueue,
    ) -> Result<RunResult> {
        let doorbell = Doorbell::new(site.layout());
        let mut waiting = Vec::new();
        for (host, task) in hosts.iter().zip(1..) {
            let mut one = InteractiveListener::open(site, Terminal::Streams)?;
            let launch = LaunchRequest {
                a: self.a,
                session: one.session().token,
                command: self.line.clone(),
                cwd: self.cwd.clone(),
                umask: self.umask,
                env: self.env.clone(),
                task,
                ..LaunchRequest::default()
            };
            let bytes = launch.to_bytes();
            if bytes.len() as u64 > LAUNCH_MAX {
                let text = format!("command and environment have more than {LAUNCH_MAX} bytes");
                return Err(Fail::usage(text));
            }
            one.ask_host(site, host, &bytes)?;
            doorbell.ring(host);
            waiting.push((host.clone(), one));
        }
        HostCommands::new(self.a.j, waiting, queue).run(input)
    }
}

/// From now on signals to this process go to the queue.
pub(crate) fn catch_signals() -> Result<SignalQueue> {
    signals::ignore_sigpipe();
    let numbers = SIGNALS.iter().filter_map(|name| signals::number(name));
    Ok(SignalQueue::open(&numbers.collect::<Vec<_>>())?)
}

/// The exit code: the highest one of several commands.
fn code_of_all(hosts: &[String], codes: &[Option<i32>]) -> i32 {
    let each = hosts.iter().zip(codes).map(|(host, code)| match code {
        Some(code) => *code,
        None => {
            tell!("claunch: the connection to host {host} was lost");
            Exit::System.code()
        }
    });
    each.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|w| (*w).to_owned()).collect()
    }

    fn read(list: &[&str]) -> Result<(Vec<String>, String, bool)> {
        let table = Table::new(options());
        let split = table.split(&words(list)).map_err(|e| Fail::usage(e.0))?;
        hosts_and_command(&table, &split)
    }

    #[test]
    fn launchers_lines_are_understood_as_they_write_them() {
        let hydra = [
            "-n",
            "h2",
            "\"/usr/bin/hydra_pmi_proxy\"",
            "--control-port",
            "h1:33731",
        ];
        let (hosts, line, no_input) = read(&hydra).unwrap();
        assert_eq!((hosts, no_input), (words(&["h2"]), true));
        assert_eq!(line, "\"/usr/bin/hydra_pmi_proxy\" --control-port h1:33731");
        let intel = ["-z", "h1 h2", "/x/hydra_bstrap_proxy", "-n", "1"];
        let (hosts, line, no_input) = read(&intel).unwrap();
        assert_eq!((hosts, no_input), (words(&["h1", "h2"]), false));
        assert_eq!(line, "/x/hydra_bstrap_proxy -n 1");
        let open = ["h2", " orted", "-mca", "ess", "\"env\""];
        assert_eq!(read(&open).unwrap().1, " orted -mca ess \"env\"");
        for bad in [&[][..], &["h1"], &["-z", "h1 h2"], &["-z", "", "x"]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_job_around_says_which_hosts_there_are() {
        let var = |name: &str| {
            let all = [
                ("LSB_JOBID", "7"),
                ("LSB_JOBINDEX", "3"),
                ("CB_ATTEMPT", "2"),
                ("LSB_MCPU_HOSTS", "h1 2 h2 1"),
            ];
            let found = all.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| (*v).to_owned())
        };
        let around = JobContext::of(&var).unwrap();
        assert_eq!((around.a.j, around.a.at), (JobKey::element(7, 3), 2));
        assert!(around.check("h2").is_ok());
        let refused = around.check("h3").unwrap_err();
        assert_eq!(refused.exit, Exit::Refused);
        assert!(JobContext::of(&|_| None).is_err());
    }

    #[test]
    fn the_exit_code_is_the_highest_and_a_lost_one_is_no_success() {
        let hosts = words(&["h1", "h2"]);
        assert_eq!(code_of_all(&hosts, &[Some(0), Some(0)]), 0);
        assert_eq!(code_of_all(&hosts, &[Some(7), Some(0)]), 7);
        assert_eq!(code_of_all(&hosts, &[Some(0), None]), 5);
    }
}
