//! client: every command of users and administrators, chosen by name.
//!
//! Owns the table of commands and their exit codes. Commands read the published view and leave
//! requests in the drop box; none of them talks to a daemon or imports one's code.

pub mod admin;
mod admin_daemons;
pub mod ask;
mod ask_jobs;
pub mod check;
pub mod chist;
pub mod chosts;
pub mod cid;
pub mod cinfo;
pub mod cjobs;
pub mod cli;
pub mod climits;
pub mod cload;
mod cmod;
pub mod cparams;
mod cpeek;
pub mod cqueues;
mod crun;
pub mod csub;
pub mod cusers;
pub mod cwait;
pub mod dev;
pub mod diag;
pub mod env;
pub mod exit;
pub mod fsck;
pub mod init;
pub mod journal_cmd;
mod order_cmds;
mod patience;
pub mod read;
mod requeue;
mod ress_check;
mod sight;
mod signal;
mod switch;

pub use exit::{Fail, report, usage, with_name};

use crate::spool::view::ViewReader;
use crate::text::error::did_you_mean;
use crate::text::size::Unit;
use exit::Exit;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A command: gets its arguments (without its name), gives its exit code.
type Run = fn(&[OsString]) -> i32;

/// A row of the table: the command's names, the first of which is shown, what it does, how it runs.
struct Entry {
    names: &'static [&'static str],
    about: &'static str,
    run: Run,
}

const fn entry(names: &'static [&'static str], about: &'static str, run: Run) -> Entry {
    Entry { names, about, run }
}

/// All commands. Each name is also a link to the executable.
const COMMANDS: &[Entry] = &[
    // Jobs.
    entry(
        &["csub"],
        "submit a job, an array or a pack of jobs",
        csub::run,
    ),
    entry(&["ckill"], "kill jobs or send them a signal", signal::ckill),
    entry(&["cstop"], "stop jobs", signal::cstop),
    entry(&["cresume"], "resume stopped jobs", signal::cresume),
    entry(&["crequeue"], "put jobs back to pending", requeue::run),
    entry(&["cmod"], "change the options of jobs", cmod::run),
    entry(&["cswitch"], "switch jobs to another queue", switch::run),
    entry(
        &["ctop"],
        "move a pending job up in its order",
        order_cmds::ctop,
    ),
    entry(
        &["cbot"],
        "move a pending job down in its order",
        order_cmds::cbot,
    ),
    entry(
        &["crun"],
        "start a waiting job now, as an administrator",
        crun::run,
    ),
    entry(
        &["cpeek", "cview"],
        "show the output of a job so far",
        cpeek::run,
    ),
    entry(
        &["cwait"],
        "wait until jobs have ended or a condition holds",
        cwait::run,
    ),
    // Views.
    entry(&["cjobs"], "list jobs", cjobs::run),
    entry(&["chist"], "show the history of jobs", chist::run),
    entry(&["cqueues"], "list queues", cqueues::run),
    entry(&["chosts"], "list hosts with their slots", chosts::run),
    entry(&["cload"], "list the load of hosts", cload::run),
    entry(
        &["cinfo"],
        "list resources, host types and models",
        cinfo::run,
    ),
    entry(
        &["climits"],
        "list the limits of cb.yaml and what is used of them",
        climits::run,
    ),
    entry(&["cusers"], "list users with their slots", cusers::run),
    entry(&["cparams"], "show the cluster's parameters", cparams::run),
    entry(&["cid"], "name the cluster and its leader", cid::run),
    // Administration.
    entry(
        &["cadmin", "csadmin"],
        "administer the cluster, its queues, hosts and daemons",
        admin::run,
    ),
];

/// Runs the command that `argv` names: by the link's name, or as `cb COMMAND` with or without the
/// leading c. Gives the exit code.
pub fn main(argv: &[OsString]) -> i32 {
    crate::sys::signals::default_sigpipe();
    let called = argv.first().map(OsString::as_os_str).unwrap_or_default();
    let link = Path::new(called).file_name().unwrap_or(OsStr::new("cb"));
    if let Some(found) = link.to_str().and_then(find) {
        patience::watch(found.names[0]);
        return (found.run)(&argv[1..]);
    }
    match argv.get(1).and_then(|word| word.to_str()) {
        None | Some("-h" | "--help" | "help") => {
            print!("{}", overview());
            Exit::Ok.code()
        }
        Some("-V" | "--version") => {
            println!("cb {}", env!("CARGO_PKG_VERSION"));
            Exit::Ok.code()
        }
        Some(word) => match find(word).or_else(|| find(&format!("c{word}"))) {
            Some(found) => {
                patience::watch(found.names[0]);
                (found.run)(&argv[2..])
            }
            None => unknown(word),
        },
    }
}

/// Every name a command goes by: the links to install.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().flat_map(|e| e.names).copied()
}

/// The unit of plain numbers in -M and -v: the cluster's `unit_for_limits`, else MB.
fn limit_unit(site: &env::Site) -> Unit {
    let params = ViewReader::new(&site.layout()).params().ok();
    let value = params.and_then(|p| {
        let mut all = p.params.into_iter();
        all.find(|(name, _)| name == "cluster.unit_for_limits")
    });
    value
        .and_then(|(_, text)| unit_of(&text))
        .unwrap_or(Unit::M)
}

/// A unit as the parameters show it: bytes in one, or its suffix.
fn unit_of(text: &str) -> Option<Unit> {
    let units = [Unit::B, Unit::K, Unit::M, Unit::G, Unit::T, Unit::P];
    match text.parse::<u64>() {
        Ok(bytes) => units.into_iter().find(|u| u.bytes() == bytes),
        Err(_) => Unit::from_suffix(text),
    }
}

fn find(name: &str) -> Option<&'static Entry> {
    COMMANDS.iter().find(|e| e.names.contains(&name))
}

fn unknown(word: &str) -> i32 {
    let hint = match did_you_mean(word, names()) {
        none if none.is_empty() => did_you_mean(&format!("c{word}"), names()),
        hint => hint,
    };
    let all: Vec<&str> = names().collect();
    eprintln!(
        "cb: unknown command '{}'{hint}\ncommands: {}",
        crate::text::width::escape(word),
        all.join(" ")
    );
    Exit::Usage.code()
}

fn overview() -> String {
    let mut out = String::from(
        "Usage: cb COMMAND [OPTIONS] [ARGUMENTS], or the command's own name as a link to cb\n\n",
    );
    for e in COMMANDS {
        out.push_str(&format!("  {:<16} {}\n", e.names.join(", "), e.about));
    }
    out.push_str("\n'COMMAND -h' lists the options of a command, 'man COMMAND' explains them.\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_once_and_the_overview_shows_it() {
        let mut names: Vec<&str> = super::names().collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|n| overview().contains(n)));
    }

    #[test]
    fn the_unit_of_limits_is_read_as_published() {
        assert_eq!(unit_of("1048576"), Some(Unit::M));
        assert_eq!(unit_of("KB"), Some(Unit::K));
        assert_eq!(unit_of("7"), None);
    }

    #[test]
    fn an_unknown_command_is_a_usage_error() {
        assert_eq!(main(&["cb".into(), "nonsense".into()]), 2);
        assert_eq!(main(&["/x/cb".into(), "--version".into()]), 0);
    }
}
