//! `cadmin host add` and `cadmin host remove`: a host joins or leaves the cluster in one command.
//!
//! Owns the order of the steps: check, drain, change cb.yaml, apply it. Each step may be
//! repeated, so an interrupted command can be given again. Starts and stops no daemons: these
//! belong to the service manager of the host.

use super::config_file::{self, ConfigChangeResult};
use crate::client::env::Site;
use crate::client::exit::{Exit, Fail, Result};
use crate::client::job_requests::capital;
use crate::client::requests;
use crate::config::Config;
use crate::config::edit::{self, NewHost, Refusal};
use crate::language::{answer, tell};
use crate::record::ack::{Ack, Code};
use crate::record::request::{HostAct, Verb};
use crate::record::view::HostRow;
use crate::spool::view::ViewReader;
use crate::sys::{clock, fs};
use crate::text::count::count;
use crate::text::duration::{self, DefaultUnit};
use crate::text::error::did_you_mean;
use clap::{Args, Command, CommandFactory as _, Parser, Subcommand};
use std::path::Path;

/// The comment with which a leaving host is closed; a host that returns with it is opened.
const LEAVING: &str = "leaves the cluster (cadmin host remove)";
/// Pause between two looks at the jobs of a host, ms.
const POLL_MS: u64 = 1_000;
/// How long the leader may take to publish a change after its answer, and the pause between two
/// looks, ms.
const PUBLISHED_MS: u64 = 30_000;
const SHORT_MS: u64 = 100;
/// Maximum number of jobs that are named while the command waits for them.
const JOBS_NAMED: usize = 10;

/// Hosts that join and leave without a restart.
#[derive(Parser, Debug)]
#[command(name = "cadmin host", disable_version_flag = true)]
struct HostArgs {
    #[command(subcommand)]
    command: HostCommand,
}

/// The options of `cadmin host`.
pub(super) fn options() -> Command {
    HostArgs::command()
}

#[derive(Subcommand, Debug)]
enum HostCommand {
    /// Adds a host to cb.yaml and applies the change.
    Add(AddArgs),
    /// Closes a host, waits for its jobs, removes it from cb.yaml and applies the change.
    Remove(RemoveArgs),
}

#[derive(Args, Debug)]
struct AddArgs {
    /// The host's name.
    name: String,
    /// slots=N, user_slots=N, type=T, model=M, unit=U, tags=A,B, groups=G,H.
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

#[derive(Args, Debug)]
struct RemoveArgs {
    /// The host's name.
    name: String,
    /// Give up if its jobs have not ended after this time; the host stays closed [no limit].
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "force")]
    wait: Option<u64>,
    /// Do not wait for its jobs.
    #[arg(long)]
    force: bool,
}

fn parse_time(text: &str) -> std::result::Result<u64, String> {
    duration::parse_ms_from(text, DefaultUnit::Seconds, 0).map_err(|e| e.message)
}

/// Runs `cadmin host` with its arguments; returns the exit code.
pub(super) fn run(words: &[String]) -> i32 {
    let host = match crate::client::parsed::<HostArgs>("cadmin host", words) {
        Ok(host) => host,
        Err(e) => return crate::client::usage(&e),
    };
    let (name, result) = match &host.command {
        HostCommand::Add(args) => ("cadmin host add", add(args)),
        HostCommand::Remove(args) => ("cadmin host remove", remove(args)),
    };
    match result {
        Ok(exit) => exit.code(),
        Err(fail) => fail.report(name),
    }
}

fn add(args: &AddArgs) -> Result<Exit> {
    let host = NewHost::parse(&args.name, &args.settings).map_err(Fail::usage)?;
    let site = Site::find()?;
    let path = site.layout().config();
    let changed = config_file::change(&path, |text, _| {
        edit::add_host(text, &host).map_err(|e| refused(&path, &e))
    })?;
    show(
        &changed,
        &path,
        &format!("Host <{}> is listed already", args.name),
    );
    apply_config(&site)?;
    open_again(&site, &args.name)?;
    answer!("Its daemons join when they are started: systemctl enable --now cbls cbexe");
    Ok(Exit::Ok)
}

fn remove(args: &RemoveArgs) -> Result<Exit> {
    let name = args.name.as_str();
    edit::check_host(name).map_err(Fail::usage)?;
    let site = Site::find()?;
    let path = site.layout().config();
    let (text, loaded) = config_file::text(&path)?;
    if !edit::lists_host(&text, name).map_err(|e| refused(&path, &e))? {
        if !was_host(&site, name)? {
            return Err(unknown(name, &loaded.config));
        }
        answer!("Host <{name}> is not listed in {}.", path.display());
        apply_config(&site)?;
        return Ok(Exit::Ok);
    }
    removable(&path, &text, name, &loaded.config)?;
    drain(&site, args)?;
    let changed = config_file::change(&path, |text, config| {
        // The host may have been mentioned elsewhere while its jobs ended.
        removable(&path, text, name, config)?;
        edit::remove_host(text, name).map_err(|e| refused(&path, &e))
    })?;
    show(
        &changed,
        &path,
        &format!("Host <{name}> is no longer listed"),
    );
    apply_config(&site)?;
    if loaded.config.hosts.open {
        answer!("Any host may join this cluster: this one joins again while its daemons run.");
    }
    answer!("Stop its daemons: systemctl disable --now cbls cbexe");
    Ok(Exit::Ok)
}

/// Whether a host of this name was in the cluster: its daemons have joined, or an earlier version
/// of cb.yaml that is kept lists it.
fn was_host(site: &Site, name: &str) -> Result<bool> {
    let layout = site.layout();
    if fs::exists(&layout.host(name)) || row(site, name)?.is_some() {
        return Ok(true);
    }
    let earlier = config_file::earlier_texts(&layout);
    // A version with mistakes lists no host.
    let lists = |text: &String| edit::lists_host(text, name).unwrap_or(false);
    Ok(earlier.iter().any(lists))
}

fn unknown(name: &str, config: &Config) -> Fail {
    let hint = did_you_mean(name, config.host_names());
    let name = crate::text::width::escape(name);
    Fail::new(
        Exit::NotFound,
        format!("{name}: no such host; nothing was changed{hint}"),
    )
}

fn refused(path: &Path, e: &Refusal) -> Fail {
    Fail::refused(format!("{}, {e}", path.display()))
}

/// Refuses a host that the cluster needs.
fn removable(path: &Path, text: &str, name: &str, config: &Config) -> Result<()> {
    let mut places = edit::other_mentions(text, name).map_err(|e| refused(path, &e))?;
    if places.is_empty() && config.may_lead(name) {
        places.push("it may lead, as one of the first two hosts; set masters of cluster".into());
    }
    // A refusal of the edit is reported before the host is closed.
    edit::remove_host(text, name).map_err(|e| refused(path, &e))?;
    if places.is_empty() {
        return Ok(());
    }
    Err(Fail::refused(format!(
        "host {name} is named elsewhere in {}; nothing was changed\n  {}\nhint: change that first",
        path.display(),
        places.join("\n  ")
    )))
}

/// Prints the changes of the file, in sentences.
fn show(changed: &ConfigChangeResult, path: &Path, same: &str) {
    for warning in &changed.warnings {
        tell!("warning: {warning}");
    }
    for sentence in &changed.done {
        answer!("{sentence}.");
    }
    match &changed.backup {
        Some(kept) => answer!(
            "{} is changed; the previous version is in {}.",
            path.display(),
            kept.display()
        ),
        None => answer!("{same}."),
    }
}

/// Sends a request to the leader; an answer that is not a success is a failure.
fn send_verb(site: &Site, verb: Verb) -> Result<Ack> {
    let wait_s = requests::wait_s(None)?;
    let ack = match requests::send_and_wait(site, "cadmin host", &[verb], wait_s) {
        Ok(ack) => ack,
        Err(requests::NoAnswer::NotSent(fail)) => return Err(fail),
        Err(requests::NoAnswer::Silence(text) | requests::NoAnswer::Interrupted(text)) => {
            return Err(Fail::system(text));
        }
    };
    if !ack.error.is_empty() {
        return Err(Fail::refused(ack.error));
    }
    Ok(ack)
}

/// The failure in an answer, if any.
fn failure(ack: &Ack) -> Option<Fail> {
    let bad = ack.results.iter().filter(|o| o.code != Code::Ok);
    let texts: Vec<String> = bad
        .clone()
        .map(|o| format!("{}: {}", o.what, o.text))
        .collect();
    let exit = bad.map(|o| Exit::of(o.code)).max()?;
    Some(Fail::new(exit, texts.join("\n")))
}

/// Applies cb.yaml.
fn apply_config(site: &Site) -> Result<()> {
    let later = |fail: Fail| {
        let hint = "cb.yaml is changed but not yet in force: 'cadmin reconfig'";
        Fail::new(fail.exit, format!("{}\nhint: {hint}", fail.text))
    };
    let ack = send_verb(site, Verb::Reconfig).map_err(later)?;
    if let Some(fail) = failure(&ack) {
        return Err(later(fail));
    }
    for outcome in &ack.results {
        answer!("{}.", capital(&outcome.text));
    }
    Ok(())
}

/// The published row of a host.
fn row(site: &Site, name: &str) -> Result<Option<HostRow>> {
    let rows = ViewReader::new(&site.layout()).hosts();
    let rows = rows.map_err(|e| Fail::system(e.to_string()))?;
    Ok(rows.into_iter().find(|row| row.name == name))
}

/// The row of a host, once the leader has published one for which `fresh` holds.
fn published(site: &Site, name: &str, fresh: impl Fn(&HostRow) -> bool) -> Result<HostRow> {
    let end = clock::boot_ms() + PUBLISHED_MS;
    loop {
        if let Some(row) = row(site, name)?.filter(&fresh) {
            return Ok(row);
        }
        if clock::boot_ms() >= end {
            return Err(Fail::system(format!(
                "the leader has not published the new state of host {name} within {} s\n\
                 hint: 'cinfo -health' says whether one leads; then repeat the command",
                PUBLISHED_MS / 1000
            )));
        }
        clock::sleep_ms(SHORT_MS);
    }
}

/// Opens a host that was closed by `host remove`.
fn open_again(site: &Site, name: &str) -> Result<()> {
    let row = published(site, name, |_| true)?;
    if row.closed_at != 0 && row.comment == LEAVING {
        let verb = host_verb(name, HostAct::Open, "");
        let ack = send_verb(site, verb)?;
        if let Some(fail) = failure(&ack) {
            return Err(fail);
        }
        answer!("Host <{name}> is opened again.");
    }
    Ok(())
}

fn host_verb(name: &str, act: HostAct, comment: &str) -> Verb {
    Verb::Host {
        names: vec![name.to_owned()],
        act,
        comment: comment.to_owned(),
    }
}

/// Closes the host and waits for its jobs.
fn drain(site: &Site, args: &RemoveArgs) -> Result<()> {
    let name = args.name.as_str();
    let ack = send_verb(site, host_verb(name, HostAct::Close, LEAVING))?;
    match failure(&ack) {
        // Listed, but not yet applied: the host cannot have jobs.
        Some(fail) if fail.exit == Exit::NotFound => return Ok(()),
        Some(fail) => return Err(fail),
        None => answer!("Host <{name}> is closed."),
    }
    if args.force {
        return Ok(());
    }
    let start = clock::boot_ms();
    let mut last_text = String::new();
    loop {
        // A view in which the host is closed also shows all jobs that were sent to it before.
        let row = published(site, name, |row| row.comment == LEAVING)?;
        let Some(text) = remaining_jobs(&row) else {
            return Ok(());
        };
        if args.wait.is_some_and(|ms| clock::boot_ms() - start >= ms) {
            return Err(Fail::refused(format!(
                "host {name} still has {text}; it stays closed and listed\nhint: repeat the \
                 command, or 'cadmin hopen {name}' to keep the host"
            )));
        }
        if text != last_text {
            answer!("Waiting for {text}.");
            last_text = text;
        }
        clock::sleep_ms(POLL_MS);
    }
}

/// The text about the jobs of a host; `None`: it has none.
fn remaining_jobs(row: &HostRow) -> Option<String> {
    let jobs = &row.jobs;
    let named = jobs.iter().take(JOBS_NAMED);
    let named: Vec<String> = named.map(|(key, _)| key.to_string()).collect();
    let more = if jobs.len() > JOBS_NAMED { " ..." } else { "" };
    let text = format!("{}: {}{more}", count(jobs.len(), "job"), named.join(" "));
    (!jobs.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;

    fn parsed(line: &str) -> std::result::Result<HostArgs, clap::Error> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        crate::client::parsed::<HostArgs>("cadmin host", &words)
    }

    #[test]
    fn lines_are_read() {
        assert!(parsed("add h1 slots=2 groups=a,b").is_ok());
        let Ok(HostArgs {
            command: HostCommand::Remove(args),
        }) = parsed("remove h1 --wait 2m")
        else {
            panic!("not read");
        };
        assert_eq!((args.wait, args.force), (Some(120_000), false));
        for wrong in [
            "",
            "add",
            "remove",
            "remove h1 --wait soon",
            "remove h1 --wait 1 --force",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn jobs_that_are_waited_for_are_named() {
        let mut row = HostRow {
            name: "h1".into(),
            ..HostRow::default()
        };
        assert_eq!(remaining_jobs(&row), None);
        row.jobs = (1..=12).map(|id| (JobKey::job(id), 1)).collect();
        let text = remaining_jobs(&row).unwrap();
        assert_eq!(text, "12 jobs: 1 2 3 4 5 6 7 8 9 10 ...");
    }
}
