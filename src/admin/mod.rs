//! `cadmin` (also `csadmin`): the commands of administrators.
//!
//! Owns the table of its subcommands, and the subcommands that check a configuration or bring it
//! into force. Subcommands that create or run clusters are in `init`, `dev` and `daemons`.

mod alert;
mod badmin;
pub(crate) mod check;
mod command_names;
mod config_effects;
pub(crate) mod config_file;
mod daemons;
pub(crate) mod dev;
pub(crate) mod diag;
mod event_history;
pub(crate) mod fsck;
mod host;
pub(crate) mod init;
pub(crate) mod journal;
mod journal_damage;
mod journal_export;
mod lsf_conf;
mod metrics;
mod options;
mod perfmon;
mod queue_host_control;
mod ress_check;
mod showconf;
mod subcommand;

use crate::client::cli::{Values, flag, operands, texts};
use crate::client::env::Site;
use crate::client::exit::{Exit, Fail, Result};
use crate::client::job_requests::{capital, finish, send_and_report, with_wait};
use crate::client::{self, Entry, entry, requests};
use crate::language::{answer, tell, translated};
use crate::record::ack::Code;
use crate::record::request::Verb;
use crate::sys;
use crate::text::command::split_words;
use crate::text::error::did_you_mean;
use clap::{ArgMatches, Command};
use command_names::{BADMIN, LSADMIN, NAMES};
pub(crate) use command_names::{command_names, lsf_names, slurm_names};
use config_file::load;
use daemons::DaemonAction;
pub(crate) use options::subcommands;
use queue_host_control::{hlost, hosts, locks, queues};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use subcommand::{Subcommand, cmd, matches, sub};

/// Maximum length of a comment, in bytes.
pub(crate) const COMMENT_MAX: usize = 511;
/// Maximum length of a line at the prompt, in bytes.
const LINE_MAX: u64 = 64 << 10;

/// The row of cadmin in the table of commands.
const COMMAND: Entry = entry(
    NAMES,
    "administer the cluster, its queues, hosts and daemons",
    run,
);

/// All commands: those of users, then cadmin.
pub(crate) fn all_commands() -> impl Iterator<Item = &'static Entry> {
    client::COMMANDS.iter().chain(std::iter::once(&COMMAND))
}

/// LSF's names for parts of cadmin.
const LSF_ADMIN: &[Entry] = &[
    entry(BADMIN, "cadmin", badmin::badmin),
    entry(LSADMIN, "cadmin", badmin::lsadmin),
];

/// The commands under LSF's names.
pub(crate) fn lsf_commands() -> impl Iterator<Item = &'static Entry> {
    client::lsf_names::COMMANDS.iter().chain(LSF_ADMIN)
}

/// The commands under Slurm's names.
pub(crate) fn slurm_commands() -> impl Iterator<Item = &'static Entry> {
    client::slurm::COMMANDS.iter()
}

/// All subcommands, in the order of the help.
static SUBS: &[Subcommand] = &[
    sub(
        "init",
        "DIR",
        "create the shared directory of a new cluster",
        |_, w| init::run(w),
    ),
    sub(
        "dev",
        "up|env|ps|demo|down",
        "a whole cluster in one directory",
        |_, w| dev::run(w),
    ),
    sub(
        "ckconfig",
        "[FILE]",
        "check cb.yaml, of the cluster or FILE",
        ckconfig,
    ),
    sub(
        "ress-check",
        "FILE|-",
        "check what a sensor prints",
        ress_check,
    ),
    sub("reconfig", "", "apply the changed cb.yaml", reconfig),
    sub(
        "qopen",
        "[-C COMMENT] [QUEUE...|all]",
        "open queues for submission",
        queues,
    ),
    sub(
        "qclose",
        "[-C COMMENT] [QUEUE...|all]",
        "close queues for submission",
        queues,
    ),
    sub(
        "qact",
        "[-C COMMENT] [QUEUE...|all]",
        "activate queues: they dispatch jobs",
        queues,
    ),
    sub(
        "qinact",
        "[-C COMMENT] [QUEUE...|all]",
        "inactivate queues: they dispatch no jobs",
        queues,
    ),
    sub(
        "hopen",
        "[-C COMMENT] [HOST...|all]",
        "open hosts for jobs",
        hosts,
    ),
    sub(
        "hclose",
        "[-C COMMENT] [HOST...|all]",
        "close hosts; running jobs continue",
        hosts,
    ),
    sub(
        "lslock",
        "[-l SECONDS] [HOST...|all]",
        "lock hosts: no new jobs, running jobs continue",
        locks,
    ),
    sub(
        "lsunlock",
        "[HOST...|all]",
        "unlock hosts; closed hosts stay closed",
        locks,
    ),
    sub(
        "host",
        "add|remove NAME ...",
        "let a host join or leave: edits cb.yaml",
        |_, w| host::run(w),
    ),
    sub(
        "alert",
        "list | silence ALERT --for TIME --because TEXT | unsilence ALERT",
        "list firing alerts and silences, silence alerts",
        alert::run,
    ),
    sub(
        "hlost",
        "--confirm HOST",
        "confirm that a silent host is dead",
        hlost,
    ),
    sub(
        "restored",
        "--confirm",
        "confirm that the share was restored from a backup",
        restored,
    ),
    sub(
        "hstartup",
        "[-f] [HOST...|all]",
        "start cbexe",
        control_daemons,
    ),
    sub(
        "hshutdown",
        "[-f] [HOST...|all]",
        "stop cbexe; tasks continue",
        control_daemons,
    ),
    sub(
        "hrestart",
        "[-f] [HOST...|all]",
        "restart cbexe; tasks continue",
        control_daemons,
    ),
    sub(
        "lsstartup",
        "[-f] [HOST...|all]",
        "start cbls",
        control_daemons,
    ),
    sub(
        "lsshutdown",
        "[-f] [HOST...|all]",
        "stop cbls",
        control_daemons,
    ),
    sub(
        "lsrestart",
        "[-f] [HOST...|all]",
        "restart cbls",
        control_daemons,
    ),
    sub(
        "schedrestart",
        "[-f] [HOST...|all]",
        "restart cbsched",
        control_daemons,
    ),
    sub(
        "showconf",
        "",
        "show the settings in force as KEY = VALUE",
        showconf::run,
    ),
    sub(
        "lsf-conf",
        "[DIR]",
        "write lsf.conf and lsb.params from cb.yaml",
        |_, w| lsf_conf::run(w),
    ),
    sub(
        "metrics",
        "[--file FILE]",
        "print the cluster's metrics for Prometheus",
        metrics::run,
    ),
    sub(
        "perfmon",
        "view [-json] | start [SECONDS] | stop | setperiod SECONDS",
        "requests and jobs of each minute, in LSF's form",
        perfmon::run,
    ),
    sub(
        "check",
        "[-q] [--json] [DIR]",
        "check the invariants of the live cluster",
        |_, w| check::run(w),
    ),
    sub(
        "diag",
        "[--out FILE] [--names]",
        "collect a redacted bundle for a bug report",
        |_, w| diag::run(w),
    ),
    sub(
        "fsck",
        "[-q] [DIR]",
        "read everything on the share and report damage",
        |_, w| fsck::run(w),
    ),
    sub(
        "journal",
        "[-f] [-n N] [--json] [JOB...]",
        "print the events of the journal",
        |_, w| journal::run(w),
    ),
    sub(
        "qhist",
        "[-t T0,T1] [QUEUE...]",
        "history of queues, from the journal",
        event_history::run,
    ),
    sub(
        "hhist",
        "[-t T0,T1] [HOST...]",
        "history of hosts: actions of administrators, availability",
        event_history::run,
    ),
    sub(
        "mbdhist",
        "[-t T0,T1]",
        "history of leaders and configurations, from the journal",
        event_history::run,
    ),
    sub(
        "hist",
        "[-t T0,T1]",
        "qhist, hhist and mbdhist together",
        event_history::run,
    ),
];

/// Names of the same subcommands in other systems.
const ALIASES: &[(&str, &str)] = &[
    ("mbdrestart", "schedrestart"),
    ("limlock", "lslock"),
    ("limunlock", "lsunlock"),
    ("limstartup", "lsstartup"),
    ("limshutdown", "lsshutdown"),
    ("limrestart", "lsrestart"),
];

/// Subcommands of other systems that are not implemented.
const UNBUILT: &[&str] = &[
    "mbddebug",
    "mbdtime",
    "sbddebug",
    "sbdtime",
    "limdebug",
    "limtime",
    "resdebug",
    "restime",
    "resstartup",
    "resshutdown",
    "resrestart",
    "diagnose",
    "gpdckconfig",
    "hpower",
];

/// Runs `cadmin`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let words = match texts(args) {
        Ok(words) => words,
        Err(e) => return Fail::usage(e.0).report("cadmin"),
    };
    if words.is_empty() {
        return finish("cadmin", prompt());
    }
    run_line(&words)
}

/// Runs one command line.
fn run_line(words: &[String]) -> i32 {
    let Some((word, rest)) = words.split_first() else {
        return Exit::Ok.code();
    };
    let name = ALIASES
        .iter()
        .find(|(other, _)| other == word)
        .map_or(word.as_str(), |(_, own)| own);
    if let Some(found) = SUBS.iter().find(|s| s.name == name) {
        return (found.run)(found, rest);
    }
    match name {
        "help" | "-h" | "--help" | "?" => {
            print!("{}", translated(&overview()));
            Exit::Ok.code()
        }
        "-V" | "--version" => {
            println!("cadmin {}", env!("CARGO_PKG_VERSION"));
            Exit::Ok.code()
        }
        _ if UNBUILT.contains(&name) => {
            Fail::usage(format!("{name} is not implemented in this version")).report("cadmin")
        }
        _ => {
            let hint = did_you_mean(name, SUBS.iter().map(|s| s.name));
            let shown = crate::text::width::escape(name);
            Fail::usage(format!(
                "unknown subcommand '{shown}'{hint}\nhint: cadmin help"
            ))
            .report("cadmin")
        }
    }
}

fn overview() -> String {
    let mut out = String::from("Usage: cadmin SUBCOMMAND [OPTIONS] [ARGUMENTS]\n\n");
    for s in SUBS {
        let left = format!("{} {}", s.name, s.args);
        let _ = writeln!(out, "  {left:<36} {}", translated(s.about));
    }
    out.push_str("\nWithout a subcommand cadmin reads them from standard input until 'quit'.\n");
    out
}

/// Reads subcommands, one per line. The exit code is that of the last one.
fn prompt() -> Result<i32> {
    let asks = sys::caller::stdin_is_terminal();
    let mut code = Exit::Ok.code();
    loop {
        if asks {
            eprint!("cadmin> ");
        }
        let Some(line) = sys::caller::read_line(LINE_MAX)? else {
            return Ok(code);
        };
        let words = match split_words(&line) {
            Ok(words) => words,
            Err(e) => {
                code = Fail::usage(e.to_string()).report("cadmin");
                continue;
            }
        };
        match words.first().map(String::as_str) {
            None => {}
            Some("quit" | "exit" | "q") => return Ok(code),
            Some(_) => code = run_line(&words),
        }
    }
}

fn ckconfig_options(s: &Subcommand) -> Command {
    cmd(s)
        .arg(flag(
            "v",
            "Show what the file defines and what it would change",
        ))
        .arg(operands(
            "file",
            "FILE",
            "A cb.yaml; by default that of the cluster",
        ))
}

fn ckconfig(s: &Subcommand, words: &[String]) -> i32 {
    let cmd = ckconfig_options(s);
    match matches(cmd, words) {
        Ok(m) => finish("cadmin ckconfig", check(&m)),
        Err(code) => code,
    }
}

fn check(m: &ArgMatches) -> Result<i32> {
    let path = match m.all("file").as_slice() {
        [] => Site::find()?.layout().config(),
        [one] => PathBuf::from(one),
        _ => return Err(Fail::usage("give one file")),
    };
    let loaded = load(&path).map_err(|fail| match (fail.exit, m.all("file").is_empty()) {
        // The file is given by the caller, it is not that of the cluster.
        (Exit::System | Exit::Permission, false) => Fail::usage(fail.text),
        _ => fail,
    })?;
    for warning in &loaded.warnings {
        tell!("warning: {warning}");
    }
    if m.has("v") {
        let c = &loaded.config;
        println!("cluster {}", c.cluster.name);
        let queues: Vec<&str> = c.queues.iter().map(|q| q.name.as_str()).collect();
        println!("queues {}", queues.join(" "));
        // Outside a cluster there is nothing to compare with.
        if let Ok(site) = Site::find() {
            print!("{}", config_effects::effects_text(&site, c)?);
        }
    }
    answer!("No errors found in {}.", path.display());
    Ok(Exit::Ok.code())
}

fn ress_check_options(s: &Subcommand) -> Command {
    cmd(s).arg(operands(
        "file",
        "FILE",
        "Output of a sensor; - reads standard input",
    ))
}

fn ress_check(s: &Subcommand, words: &[String]) -> i32 {
    let cmd = ress_check_options(s);
    match matches(cmd, words) {
        Ok(m) => finish("cadmin ress-check", ress_check::check(&m)),
        Err(code) => code,
    }
}

fn reconfig_options(s: &Subcommand) -> Command {
    with_wait(cmd(s))
        .arg(flag("v", "Show what was done"))
        .arg(flag("f", "Accepted and ignored: cadmin never asks"))
}

fn reconfig(s: &Subcommand, words: &[String]) -> i32 {
    let cmd = reconfig_options(s);
    match matches(cmd, words) {
        Ok(m) => finish("cadmin reconfig", ask_reconfig(&m)),
        Err(code) => code,
    }
}

fn ask_reconfig(m: &ArgMatches) -> Result<i32> {
    let wait_s = requests::wait_s(m.last("wait"))?;
    let site = Site::find()?;
    // Checked here first, to report all problems at once with line and caret. The leader checks
    // again.
    let loaded = load(&site.layout().config())?;
    for warning in &loaded.warnings {
        tell!("warning: {warning}");
    }
    let ack = match requests::send_and_wait(&site, "cadmin", &[Verb::Reconfig], wait_s) {
        Ok(ack) => ack,
        Err(e) => return Ok(e.report("cadmin reconfig")),
    };
    let mut exit = if ack.ok { Exit::Ok } else { Exit::Refused };
    if !ack.error.is_empty() {
        tell!("cadmin reconfig: {}", ack.error);
    }
    for outcome in &ack.results {
        exit = exit.worst(Exit::of(outcome.code));
        match outcome.code {
            Code::Ok => answer!("{}.", capital(&outcome.text)),
            _ => tell!("{}", outcome.text),
        }
    }
    Ok(exit.code())
}

fn restored_options(s: &Subcommand) -> Command {
    with_wait(cmd(s)).arg(flag(
        "confirm",
        "Confirm that everything after the backup is lost",
    ))
}

fn restored(s: &Subcommand, words: &[String]) -> i32 {
    let cmd = restored_options(s);
    let ask = |m: &ArgMatches| {
        if !m.has("confirm") {
            return Err(Fail::usage(
                "restored holds all pending jobs and continues with later job IDs; give --confirm",
            ));
        }
        send_and_report(&format!("cadmin {}", s.name), m, &[Verb::Restored], |o| {
            capital(&o.text)
        })
    };
    match matches(cmd, words) {
        Ok(m) => finish("cadmin restored", ask(&m)),
        Err(code) => code,
    }
}

fn daemon_options(s: &Subcommand) -> Command {
    cmd(s)
        .arg(flag("f", "Accepted and ignored: cadmin never asks"))
        .arg(operands("names", "HOST", "Hosts, or all; none: this host"))
}

fn control_daemons(s: &Subcommand, words: &[String]) -> i32 {
    let cmd = daemon_options(s);
    let m = match matches(cmd, words) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let role = match s.name {
        "schedrestart" => "cbsched",
        name if name.starts_with("ls") => "cbls",
        _ => "cbexe",
    };
    let what = match s.name {
        name if name.ends_with("startup") => DaemonAction::Start,
        name if name.ends_with("shutdown") => DaemonAction::Stop,
        _ => DaemonAction::Restart,
    };
    finish("cadmin", daemons::control(role, what, &m.all("names")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> i32 {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        run_line(&words)
    }

    #[test]
    fn every_subcommand_stands_in_the_help_once() {
        let text = overview();
        for s in SUBS {
            assert!(text.contains(s.name) && !s.about.is_empty(), "{}", s.name);
            assert_eq!(SUBS.iter().filter(|o| o.name == s.name).count(), 1);
        }
        for (_, own) in ALIASES {
            assert!(SUBS.iter().any(|s| s.name == *own));
        }
    }

    #[test]
    fn wrong_lines_are_usage_errors() {
        assert_eq!(line(&["nonsense"]), 2);
        assert_eq!(line(&["mbddebug"]), 2);
        for seconds in ["0", "-1", "1h", "4294967296"] {
            assert_eq!(line(&["limlock", "-l", seconds]), 2, "{seconds}");
        }
        assert_eq!(line(&["lsunlock", "-l", "5"]), 2);
        assert_eq!(line(&["hlost", "h1"]), 2);
        assert_eq!(line(&["ckconfig", "a", "b"]), 2);
        assert_eq!(line(&["qclose", "-Q"]), 2);
        assert_eq!(line(&["help"]), 0);
        assert_eq!(line(&["qclose", "-h"]), 0);
    }

    #[test]
    fn a_file_is_checked_without_a_cluster() {
        let d = tempfile::tempdir().unwrap();
        let path = d.path().join("cb.yaml");
        std::fs::write(&path, "general: {nonsense: 1}\nqueues: 7\n").unwrap();
        let fail = load(&path).unwrap_err();
        assert!(fail.text.contains("nonsense"), "{}", fail.text);
        assert!(fail.text.contains("problems"), "all of them: {}", fail.text);
        assert_eq!(line(&["ckconfig", path.to_str().unwrap()]), 2);
        let missing = d.path().join("missing");
        assert_eq!(line(&["ckconfig", missing.to_str().unwrap()]), 2);
    }
}
