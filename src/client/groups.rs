//! `cmgroup` (`bmgroup`) and `cugroup` (`bugroup`): the host groups and the user groups of cb.yaml.
//!
//! Owns the table of groups, and how a command runs that only prints a text about its operands.

use super::cli::{self, Values, command, flag, operands};
use super::exit::{Exit, Fail};
use super::read::{self, Source};
use crate::language::tell;
use crate::text::width::escape;
use clap::Command;
use std::ffi::OsString;
use std::fmt::Write as _;

/// Width of the columns with names.
pub(super) const NAME: usize = 17;

/// A function that returns the output of a command, and its exit code.
type Text = fn(&Source, &[String]) -> Result<(String, Exit), Fail>;

/// The options of a command that takes names only.
pub(super) fn names_only(name: &'static str, about: &'static str) -> Command {
    command(name, about)
        .arg(flag("w", "Wide: no effect, since no value is ever cut"))
        .arg(operands("names", "NAME", "Only these; default: all"))
}

/// The options of `cmgroup`.
pub(super) fn cmgroup_options() -> Command {
    names_only("cmgroup", "List the host groups of cb.yaml")
}

/// The options of `cugroup`.
pub(super) fn cugroup_options() -> Command {
    names_only("cugroup", "List the user groups of cb.yaml")
}

/// Runs a command: `text` produces its output.
pub(super) fn list(name: &'static str, cmd: Command, args: &[OsString], text: Text) -> i32 {
    let m = match cli::parse(cmd, args) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open(name).and_then(|source| {
        let (out, exit) = text(&source, &m.all("names"))?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end(name, answer)
}

/// Runs `cmgroup`; returns the exit code.
pub(crate) fn cmgroup(args: &[OsString]) -> i32 {
    list("cmgroup", cmgroup_options(), args, |source, names| {
        let groups = source.params()?.host_groups;
        Ok(group_table("HOSTS", &groups, names))
    })
}

/// Runs `cugroup`; returns the exit code.
pub(crate) fn cugroup(args: &[OsString]) -> i32 {
    list("cugroup", cugroup_options(), args, |source, names| {
        let groups = source.params()?.user_groups.into_iter();
        let groups: Vec<_> = groups.map(|(name, users, _)| (name, users)).collect();
        Ok(group_table("USERS", &groups, names))
    })
}

/// A line for each group: its name, then its members.
fn group_table(title: &str, groups: &[(String, Vec<String>)], names: &[String]) -> (String, Exit) {
    let mut exit = Exit::Ok;
    for name in names.iter().filter(|n| !groups.iter().any(|g| g.0 == **n)) {
        let known = groups.iter().map(|g| g.0.as_str());
        tell!("{}", read::unknown("group", name, known).text);
        exit = Exit::NotFound;
    }
    let mut out = String::new();
    let shown = groups
        .iter()
        .filter(|g| names.is_empty() || names.contains(&g.0));
    for (n, (name, members)) in shown.enumerate() {
        if n == 0 {
            let _ = writeln!(out, "{:<NAME$}{title}", "GROUP_NAME");
        }
        let name = format!("{} ", escape(name));
        let _ = writeln!(out, "{name:<NAME$}{}", escape(&members.join(" ")));
    }
    (out, exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_listed_whole_or_by_name() {
        let groups = vec![
            ("g1".to_owned(), vec!["h1".to_owned(), "h2".to_owned()]),
            ("g2".to_owned(), vec!["all".to_owned()]),
        ];
        let (text, exit) = group_table("HOSTS", &groups, &[]);
        assert_eq!(exit, Exit::Ok);
        assert_eq!(
            text,
            "GROUP_NAME       HOSTS\ng1               h1 h2\ng2               all\n"
        );
        let (text, exit) = group_table("HOSTS", &groups, &["g2".into(), "g3".into()]);
        assert_eq!((text.lines().count(), exit), (2, Exit::NotFound));
        assert_eq!(group_table("USERS", &[], &[]).0, "");
    }
}
