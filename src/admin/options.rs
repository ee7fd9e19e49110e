//! The options of the subcommands, for code that needs them without running one: completion.
//!
//! Owns which subcommand accepts which options; each subcommand describes its own. Runs nothing.

use super::{ALIASES, SUBS, Subcommand};
use super::{
    alert, badmin, check, dev, diag, event_history, fsck, host, init, journal, lsf_conf, metrics,
    perfmon, queue_host_control, showconf,
};
use clap::Command;

/// A subcommand with its options, for completion.
pub(crate) struct SubcommandOptions {
    pub name: &'static str,
    pub about: &'static str,
    pub options: Command,
    /// Long options take two dashes, never one.
    pub two_dashes: bool,
}

/// The subcommands of cadmin in the order of its help, or those of `badmin` and `lsadmin`.
pub(crate) fn subcommands(command: &str) -> Vec<SubcommandOptions> {
    let names: Vec<&'static str> = match command {
        "badmin" => badmin::BADMIN
            .iter()
            .chain(&["showconf"])
            .copied()
            .collect(),
        "lsadmin" => badmin::LSADMIN
            .iter()
            .chain(&["showconf"])
            .copied()
            .collect(),
        _ => SUBS.iter().map(|s| s.name).collect(),
    };
    names.into_iter().filter_map(subcommand).collect()
}

fn subcommand(name: &'static str) -> Option<SubcommandOptions> {
    let alias = ALIASES.iter().find(|(other, _)| *other == name);
    let own_name = alias.map_or(name, |(_, own)| own);
    let s = SUBS.iter().find(|s| s.name == own_name)?;
    let (options, two_dashes) = match clap_command(s) {
        Some(options) => (options, false),
        None => (derived_command(own_name), true),
    };
    Some(SubcommandOptions {
        name,
        about: s.about,
        options,
        two_dashes,
    })
}

/// The options of a subcommand that parses them like users' commands.
fn clap_command(s: &Subcommand) -> Option<Command> {
    Some(match s.name {
        "ckconfig" => super::ckconfig_options(s),
        "ress-check" => super::ress_check_options(s),
        "reconfig" => super::reconfig_options(s),
        "alert" => alert::options(s),
        "hlost" => queue_host_control::hlost_options(s),
        "restored" => super::restored_options(s),
        "showconf" => showconf::options(s),
        "metrics" => metrics::options(s),
        "perfmon" => perfmon::options(s),
        "qhist" | "hhist" | "mbdhist" | "hist" => event_history::options(s),
        "qopen" | "qclose" | "qact" | "qinact" => queue_host_control::queue_options(s),
        "hopen" | "hclose" => queue_host_control::host_options(s),
        "lslock" | "lsunlock" => queue_host_control::lock_options(s),
        "hstartup" | "hshutdown" | "hrestart" | "lsstartup" | "lsshutdown" | "lsrestart"
        | "schedrestart" => super::daemon_options(s),
        _ => return None,
    })
}

/// The options of a subcommand that clap parses without preprocessing.
fn derived_command(name: &str) -> Command {
    match name {
        "init" => init::options(),
        "dev" => dev::options(),
        "check" => check::options(),
        "diag" => diag::options(),
        "fsck" => fsck::options(),
        "host" => host::options(),
        "journal" => journal::options(),
        "lsf-conf" => lsf_conf::options(),
        _ => Command::new("cadmin"),
    }
}
