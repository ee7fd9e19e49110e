//! `badmin` and `lsadmin`: LSF's names for parts of cadmin.
//!
//! Owns the subcommands of each, and `showconf` in the form that programs for LSF read. Every
//! other subcommand is refused by name.

use super::lsf_conf::LsfConfValues;
use super::run_line;
use crate::client::cli::texts;
use crate::client::env::Site;
use crate::client::exit::{Exit, Fail, Result};
use crate::client::job_requests::finish;
use crate::spool::view::ViewReader;
use crate::sys::fs;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Subcommands of badmin that cadmin has by the same name or an alias.
pub(super) const BADMIN: &[&str] = &[
    "ckconfig",
    "reconfig",
    "mbdrestart",
    "qopen",
    "qclose",
    "qact",
    "qinact",
    "hopen",
    "hclose",
    "lslock",
    "lsunlock",
    "hstartup",
    "hshutdown",
    "hrestart",
    "qhist",
    "hhist",
    "mbdhist",
    "hist",
    "perfmon",
];
/// The same for lsadmin.
pub(super) const LSADMIN: &[&str] = &[
    "ckconfig",
    "reconfig",
    "limstartup",
    "limshutdown",
    "limrestart",
    "limlock",
    "limunlock",
    "lslock",
    "lsunlock",
];

/// Runs `badmin`; returns the exit code.
pub(super) fn badmin(args: &[OsString]) -> i32 {
    run("badmin", args, BADMIN, ("mbd", "MBD"))
}

/// Runs `lsadmin`; returns the exit code.
pub(super) fn lsadmin(args: &[OsString]) -> i32 {
    run("lsadmin", args, LSADMIN, ("lim", "LIM"))
}

fn run(name: &str, args: &[OsString], subs: &[&str], daemon: (&str, &str)) -> i32 {
    let words = match texts(args) {
        Ok(words) => words,
        Err(e) => return Fail::usage(e.0).report(name),
    };
    let text: Vec<&str> = words.iter().map(String::as_str).collect();
    match text[..] {
        [] | ["help" | "-h" | "--help"] => {
            println!(
                "Usage: {name} SUBCOMMAND [OPTIONS] [ARGUMENTS]\n\n  {} showconf {}\n\n\
                 The subcommands are those of cadmin, man 8 cadmin.",
                subs.join(" "),
                daemon.0
            );
            Exit::Ok.code()
        }
        ["-V" | "--version"] => {
            println!("{name} {}", env!("CARGO_PKG_VERSION"));
            Exit::Ok.code()
        }
        ["showconf", which] if which == daemon.0 => finish(name, showconf(daemon.1)),
        ["showconf", ..] => Fail::usage(format!("give showconf {}", daemon.0)).report(name),
        [sub, ..] if subs.contains(&sub) => run_line(&words),
        [sub, ..] => {
            let shown = crate::text::width::escape(sub);
            Fail::usage(format!(
                "{shown} is not implemented; there are: {} showconf\nhint: man 8 cadmin",
                subs.join(" ")
            ))
            .report(name)
        }
    }
}

/// Prints a heading, then `KEY = VALUE` on each line.
fn showconf(title: &str) -> Result<i32> {
    let site = Site::find()?;
    let params = ViewReader::new(&site.layout())
        .params()
        .map_err(|e| Fail::system(format!("{e}\nhint: settings are published by the leader")))?;
    let values = LsfConfValues::of_params(&params, &site.share, &conf_dir(&site.conf));
    let mut out = format!("{title} configuration of cluster {}\n", params.cluster);
    for (key, value) in values.conf() {
        out.push_str(&format!("{key} = {value}\n"));
    }
    crate::client::read::put(&out)?;
    Ok(Exit::Ok.code())
}

/// The directory of lsf.conf: `LSF_ENVDIR` if it contains one, else that of cb.conf.
fn conf_dir(conf: &Path) -> PathBuf {
    let named = std::env::var_os("LSF_ENVDIR").map(PathBuf::from);
    named
        .filter(|dir| fs::exists(&dir.join("lsf.conf")))
        .unwrap_or_else(|| fs::parent(conf).to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_line(run: fn(&[OsString]) -> i32, line: &str) -> i32 {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        run(&words)
    }

    #[test]
    fn other_subcommands_are_refused_by_name() {
        assert_eq!(run_line(badmin, "diagnose 1"), 2);
        assert_eq!(run_line(badmin, "limrestart"), 2);
        assert_eq!(run_line(badmin, "showconf"), 2);
        assert_eq!(run_line(lsadmin, "showconf mbd"), 2);
        assert_eq!(run_line(lsadmin, "qopen"), 2);
        assert_eq!(run_line(badmin, "help") + run_line(lsadmin, "-h"), 0);
    }

    #[test]
    fn what_is_listed_is_a_subcommand_of_cadmin() {
        for name in BADMIN.iter().chain(LSADMIN) {
            let alias = super::super::ALIASES
                .iter()
                .find(|(other, _)| other == name);
            let own = alias.map_or(*name, |(_, own)| own);
            assert!(super::super::SUBS.iter().any(|s| s.name == own), "{name}");
        }
    }
}
