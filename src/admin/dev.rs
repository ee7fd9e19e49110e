//! `cadmin dev`: a complete cluster in one directory on one machine, without root: several virtual
//! hosts and leader candidates, for trials, tests and benchmarks.
//!
//! Owns everything below the directory D that it created, and the processes that have D in their
//! environment. Never signals a process without that mark, and never touches a directory that it
//! did not create.

mod demo;
mod down;
pub(super) mod processes;
mod progress;
mod ready;
pub(super) mod site;
mod templates;
pub(super) mod up;
mod web;

use crate::client::Fail;
use crate::text::duration::{self, DefaultUnit};
use clap::{Args, Command, CommandFactory as _, Parser, Subcommand, ValueEnum};
use serde::Serialize;
pub(super) use site::development;
use site::{Settings, Site};
use std::path::PathBuf;

/// Bounds of cb.yaml's `lease_timeout`.
const LEASE_MS: std::ops::RangeInclusive<u64> = 3000..=600_000;

/// A cluster in a directory of this machine.
#[derive(Parser, Debug)]
#[command(name = "cadmin dev", disable_version_flag = true)]
struct DevArgs {
    #[command(subcommand)]
    command: DevCommand,
}

#[derive(Subcommand, Debug)]
enum DevCommand {
    /// Creates the cluster if needed, starts missing daemons and returns when it is ready.
    Up(UpOptions),
    /// Prints shell commands that make csub and the rest use the cluster: eval "$(...)".
    Env(DirOption),
    /// Submits an array, a job that depends on it and a parallel job, and shows them run.
    Demo(DirOption),
    /// Lists the cluster's processes.
    Ps(PsOptions),
    /// Stops every process of the cluster, jobs included.
    Down(DownOptions),
}

#[derive(Args, Debug)]
struct DirOption {
    /// The cluster's directory.
    #[arg(long = "dir", value_name = "D")]
    dir: PathBuf,
}

#[derive(Args, Debug)]
struct UpOptions {
    #[command(flatten)]
    dir: DirOption,
    /// Virtual hosts h1..hN [new clusters: 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    hosts: Option<u32>,
    /// Slots of each host [new clusters: 4].
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    slots: Option<u32>,
    /// Leader candidates [new clusters: 2].
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=9))]
    masters: Option<u32>,
    /// Failover timeout in seconds or with a unit [new clusters: 15s].
    #[arg(long, value_name = "T", value_parser = parse_lease)]
    lease: Option<u64>,
    /// Whether tasks get control groups [new clusters: auto].
    #[arg(long, value_name = "auto|off")]
    cgroup: Option<Cgroup>,
    /// Starts missing daemons and returns at once, as a supervisor would.
    #[arg(long)]
    no_wait: bool,
    /// Starts the portal, cbweb, too, and prints a link that logs you in.
    #[arg(long, conflicts_with = "no_wait")]
    web: bool,
    /// Seconds to wait for the cluster to be ready.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Cgroup {
    Auto,
    Off,
}

#[derive(Args, Debug)]
struct PsOptions {
    #[command(flatten)]
    dir: DirOption,
    /// Prints a JSON array.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct DownOptions {
    #[command(flatten)]
    dir: DirOption,
    /// Removes the directory too.
    #[arg(long)]
    purge: bool,
}

fn parse_lease(text: &str) -> Result<u64, String> {
    let ms = duration::parse_ms(text, DefaultUnit::Seconds).map_err(|e| e.message)?;
    if LEASE_MS.contains(&ms) {
        Ok(ms)
    } else {
        Err("from 3s to 10m".to_string())
    }
}

/// The options of `cadmin dev`.
pub(super) fn options() -> Command {
    DevArgs::command()
}

/// Runs `cadmin dev` with its arguments; returns the exit code.
pub(crate) fn run(words: &[String]) -> i32 {
    let dev = match crate::client::parsed::<DevArgs>("cadmin dev", words) {
        Ok(dev) => dev,
        Err(e) => return crate::client::usage(&e),
    };
    crate::client::report(match dev.command {
        DevCommand::Up(args) => start(&args),
        DevCommand::Env(args) => Site::open(&args.dir).map(|site| print!("{}", site.shell_lines())),
        DevCommand::Demo(args) => Site::open(&args.dir).and_then(|site| demo::demo(&site)),
        DevCommand::Ps(args) => list(&args),
        DevCommand::Down(args) => down::down(&args.dir.dir, args.purge),
    })
}

fn start(args: &UpOptions) -> Result<(), Fail> {
    let site = Site::make(&args.dir.dir, |old| requested_settings(args, old))?;
    let wait_ms = (!args.no_wait).then(|| args.timeout.saturating_mul(1000));
    up::up(&site, wait_ms)?;
    if args.web {
        web::up(&site)?;
    }
    Ok(())
}

/// The settings for a new cluster, or those of an existing one if the options agree with them.
fn requested_settings(args: &UpOptions, old: Option<&Settings>) -> Result<Settings, Fail> {
    let cgroup = args.cgroup.map(|c| c != Cgroup::Off);
    let base = old.cloned().unwrap_or_default();
    let new = Settings {
        hosts: args.hosts.unwrap_or(base.hosts),
        slots: args.slots.unwrap_or(base.slots),
        masters: args.masters.unwrap_or(base.masters),
        lease_ms: args.lease.unwrap_or(base.lease_ms),
        cgroup: cgroup.unwrap_or(base.cgroup),
    };
    match old {
        Some(old) if *old != new => Err(Fail::refused(format!(
            "{}: the cluster was created with {}\nhint: leave the options out, or `cadmin dev down \
             --purge` it first",
            args.dir.dir.display(),
            old.as_options()
        ))),
        _ => Ok(new),
    }
}

/// One line of `cadmin dev ps`.
#[derive(Serialize, Debug)]
struct PsRow<'a> {
    role: &'a str,
    host: &'a str,
    pid: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<bool>,
}

fn list(args: &PsOptions) -> Result<(), Fail> {
    let site = Site::open(&args.dir.dir)?;
    let processes = processes::find(&site);
    let leader = ready::leader_pid(&site.layout(), &processes);
    let members = processes.members.iter().filter(|m| m.listed());
    let rows: Vec<PsRow> = members
        .map(|m| PsRow {
            role: &m.role,
            host: &m.host,
            pid: m.pid,
            leader: (Some(m.pid) == leader).then_some(true),
        })
        .collect();
    if args.json {
        let text = serde_json::to_string_pretty(&rows).map_err(|e| Fail::system(e.to_string()))?;
        println!("{text}");
        return Ok(());
    }
    println!("{:<8} {:<6} {:>8}", "ROLE", "HOST", "PID");
    for row in rows {
        let mark = if row.leader.is_some() { " leader" } else { "" };
        println!("{:<8} {:<6} {:>8}{mark}", row.role, row.host, row.pid);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_args(words: &str) -> UpOptions {
        let words: Vec<String> = words.split(' ').map(String::from).collect();
        let parsed = crate::client::parsed::<DevArgs>("cadmin dev", &words);
        match parsed.unwrap().command {
            DevCommand::Up(up) => up,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_an_existing_cluster_must_agree() {
        let made = requested_settings(&up_args("up --dir d --hosts 2 --lease 3"), None).unwrap();
        assert_eq!((made.hosts, made.slots, made.lease_ms), (2, 4, 3000));
        assert_eq!(
            requested_settings(&up_args("up --dir d"), Some(&made)).unwrap(),
            made
        );
        assert_eq!(
            requested_settings(&up_args("up --dir d --hosts 2"), Some(&made)).unwrap(),
            made
        );
        let refused =
            requested_settings(&up_args("up --dir d --hosts 3"), Some(&made)).unwrap_err();
        assert!(
            refused.text.contains("created with --hosts 2"),
            "{}",
            refused.text
        );
    }

    #[test]
    fn a_lease_below_the_floor_is_refused() {
        assert_eq!(parse_lease("3"), Ok(3000));
        assert_eq!(parse_lease("20s"), Ok(20_000));
        assert!(parse_lease("2").is_err());
        assert!(parse_lease("x").is_err());
    }
}
