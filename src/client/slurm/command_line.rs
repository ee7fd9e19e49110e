//! Code shared by the commands under Slurm's names: their options, how they are refused, ids and
//! users.
//!
//! Knows no command. An unsupported option is refused by name.

use crate::client::cli::{self, Values, command};
use crate::client::exit::{Exit, Fail, Result};
use crate::client::read::{self, Source};
use crate::record::view::Params;
use crate::show::job_select::Users;
use crate::sys;
use crate::text::slurm::SlurmJobId;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::collections::HashSet;
use std::ffi::OsString;

/// Maximum number of ids and names on one command line.
const WORDS_MAX: usize = 100_000;

/// A command whose letter `-h` is not help.
pub(super) fn without_h_flag(name: &'static str, about: &'static str) -> Command {
    command(name, about)
        .disable_help_flag(true)
        .arg(help_option())
}

pub(super) fn help_option() -> Arg {
    Arg::new("help")
        .long("help")
        .action(ArgAction::Help)
        .help("Print help")
}

/// A Slurm option with a letter and a name.
pub(super) fn both(arg: Arg, letter: char) -> Arg {
    arg.short(letter)
}

/// Options that are refused: name, letter or blank, whether it takes a value, why.
pub(super) type RefusedOption = (&'static str, char, bool, &'static str);

pub(super) fn refusals(cmd: Command, list: &[RefusedOption]) -> Command {
    list.iter().fold(cmd, |cmd, (name, letter, takes, _)| {
        let arg = match takes {
            true => cli::opt(name, "VALUE", ""),
            false => cli::flag(name, ""),
        };
        let arg = match letter {
            ' ' => arg,
            letter => arg.short(*letter),
        };
        cmd.arg(arg.hide(true))
    })
}

pub(super) fn refuse(m: &ArgMatches, list: &[RefusedOption]) -> Result<()> {
    let given = |name: &str| m.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
    match list.iter().find(|(name, ..)| given(name)) {
        None => Ok(()),
        Some((name, _, _, why)) => Err(Fail::usage(format!(
            "--{name} is not available here: {why}"
        ))),
    }
}

/// Parses a command line and runs the command's function.
pub(super) fn run(
    name: &'static str,
    cmd: Command,
    args: &[OsString],
    body: impl FnOnce(&ArgMatches, &Source) -> Result<Exit>,
) -> i32 {
    let m = match cli::parse_with(cli::Table::getopt_long(cmd), args) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open(name).and_then(|source| body(&m, &source));
    read::end(name, answer)
}

/// The words in the values of an option, separated by commas outside of brackets.
pub(super) fn value_words(m: &ArgMatches, id: &str) -> Vec<String> {
    let text = crate::text::slurm::host_words(&m.all(id).join(","));
    text.split_whitespace().map(str::to_owned).collect()
}

/// The words of an option, separated by commas only, because names may contain blanks.
pub(super) fn comma_words(m: &ArgMatches, id: &str) -> Vec<String> {
    let text = m.last(id).unwrap_or_default();
    let words = text.split(',').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Ids of jobs and elements.
pub(super) fn job_words(list: &[String]) -> Result<Vec<SlurmJobId>> {
    if list.len() > WORDS_MAX {
        return Err(Fail::usage(format!("more than {WORDS_MAX} job ids")));
    }
    list.iter()
        .map(|word| SlurmJobId::parse(word).map_err(Fail::usage))
        .collect()
}

/// The users of `-u` and `--me`; `None` if neither was given.
pub(super) fn users_named(m: &ArgMatches, source: &Source, params: &Params) -> Option<Users> {
    if m.has("me") {
        return Some(Users::one(source.me.uid));
    }
    let names = value_words(m, "user");
    if names.is_empty() {
        return None;
    }
    let (mut uids, mut unknown_users) = (HashSet::new(), HashSet::new());
    for name in names {
        match source.users(&name, params) {
            // A user may have the name all.
            Users::These(ids, names) => {
                uids.extend(ids);
                unknown_users.extend(names);
            }
            _ => drop(unknown_users.insert(name)),
        }
    }
    Some(Users::These(uids, unknown_users))
}

/// A parsed line of arguments.
#[cfg(test)]
pub(crate) fn parsed(cmd: Command, words: &[&str]) -> ArgMatches {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    cli::parse_with(cli::Table::getopt_long(cmd), &words).expect("a good line")
}

/// The name of a user's group on this host, else its number.
pub(super) fn group_of(uid: u32) -> String {
    let gid = sys::users::by_uid(uid).map(|user| user.gid);
    gid.map_or(String::new(), |gid| {
        sys::users::group_by_gid(gid).unwrap_or_else(|| gid.to_string())
    })
}
