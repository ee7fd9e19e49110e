//! Determines the possible completions of the last word of a command line.
//!
//! Owns which command, subcommand, option or operand applies, based on the definitions with which
//! the commands themselves parse their options. Names of the cluster are passed as an argument.

use super::kinds::{self, Candidate, ClusterNames, ShellCompletion, WordKind};
use crate::admin;
use crate::client::aip;
use crate::client::cli::{Table, WordPlace};
use crate::client::options;
use clap::{Arg, Command};
use std::path::Path;

/// Returns the names of a kind that begin with the text, best first.
pub(super) type Names<'n> = &'n dyn Fn(ClusterNames, &str) -> Vec<Candidate>;

/// The possible completions of the word.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Completions {
    pub shell_completion: ShellCompletion,
    pub words: Vec<Candidate>,
}

impl Completions {
    fn of(words: Vec<Candidate>) -> Completions {
        Completions {
            shell_completion: ShellCompletion::Nothing,
            words,
        }
    }

    fn shell(shell_completion: ShellCompletion) -> Completions {
        Completions {
            shell_completion,
            words: Vec::new(),
        }
    }
}

/// A command whose options are known.
struct KnownCommand {
    /// Corral's own name of the command.
    command: String,
    options: Command,
    /// Long options take two dashes, never one.
    two_dashes: bool,
}

/// The completions of the word `last` after `before`, whose first word is the command's name.
pub(super) fn answer(before: &[String], last: &str, names: Names<'_>) -> Completions {
    let Some((called, before)) = before.split_first() else {
        return Completions::default();
    };
    let called = Path::new(called).file_name().and_then(|name| name.to_str());
    let called = called.unwrap_or_default();
    if called != "cb" || super::super::find(called).is_some() {
        return of_command(called, before, last, names);
    }
    match before.split_first() {
        None => Completions::of(commands(last)),
        Some((command, before)) => of_command(command, before, last, names),
    }
}

/// The name by which these words call a command: the first one, or the one after `cb`.
pub(super) fn command_name(words: &[String]) -> &str {
    let first = words.first().map(Path::new).and_then(Path::file_name);
    let first = first.and_then(|name| name.to_str()).unwrap_or_default();
    match words {
        [_, second, _, ..] if first == "cb" => second,
        _ => first,
    }
}

/// The commands of cb; those with LSF names only once a first letter has been typed.
fn commands(last: &str) -> Vec<Candidate> {
    let own = admin::all_commands().flat_map(|e| e.names.iter().map(|n| (*n, e.about)));
    let own = own.map(|(name, about)| Candidate::described(name, about));
    let lsf = admin::lsf_commands().filter(|_| !last.is_empty());
    let lsf = lsf.flat_map(|e| e.names.iter().map(|n| (*n, e.about)));
    own.chain(lsf.map(|(name, about)| Candidate::described(name, about)))
        .collect()
}

/// Corral's own name of a command, resolved as in cb.
fn own_name(called: &str) -> Option<&'static str> {
    use super::super::{find, find_lsf};
    if let Some(entry) = find(called).or_else(|| find(&format!("c{called}"))) {
        return Some(entry.names[0]);
    }
    let entry = find_lsf(called)?;
    let only_there = ["lsclusters", "lshosts", "badmin", "lsadmin"];
    let name = entry.names[0];
    Some(if only_there.contains(&name) {
        name
    } else {
        entry.about
    })
}

fn of_command(called: &str, before: &[String], last: &str, names: Names<'_>) -> Completions {
    let Some(command) = own_name(called) else {
        return Completions::default();
    };
    match command {
        "aip" => of_aip(before, last, names),
        "ccron" => of_ccron(before, last, names),
        "cadmin" | "badmin" | "lsadmin" => of_cadmin(command, before, last, names),
        _ => match options::of(command) {
            None => Completions::default(),
            Some(options) => {
                let known_command = KnownCommand {
                    command: command.to_owned(),
                    options,
                    two_dashes: false,
                };
                of_options(known_command, before, last, names)
            }
        },
    }
}

fn of_aip(before: &[String], last: &str, names: Names<'_>) -> Completions {
    let words: Vec<&str> = before.iter().map(String::as_str).collect();
    match words[..] {
        [] => {
            let mut nouns: Vec<Candidate> = Vec::new();
            for form in aip::FORMS {
                if nouns.last().is_none_or(|last| last.word != form.noun[0]) {
                    nouns.push(Candidate::described(form.noun[0], form.about));
                }
            }
            let cron = Candidate::described("cronjob", "jobs that the calendar submits, as ccron");
            nouns.push(cron);
            Completions::of(nouns)
        }
        [noun, "info", ..] if aip::is_cronjob(noun) => {
            let mut line = before[1..].to_vec();
            line[0] = "show".to_owned();
            of_ccron(&line, last, names)
        }
        [noun, ..] if aip::is_cronjob(noun) => of_ccron(&before[1..], last, names),
        [noun] => {
            let verbs = aip::forms(noun);
            Completions::of(
                verbs
                    .map(|form| Candidate::described(form.verb[0], form.about))
                    .collect(),
            )
        }
        [noun, verb, ref rest @ ..] => {
            match aip::forms(noun).find(|form| form.verb.contains(&verb)) {
                Some(form) if form.command == "csub" && rest.is_empty() => {
                    Completions::shell(ShellCompletion::Files)
                }
                Some(form) => of_command(form.command, &before[2..], last, names),
                None => Completions::default(),
            }
        }
    }
}

fn of_ccron(before: &[String], last: &str, names: Names<'_>) -> Completions {
    let Some((word, before)) = before.split_first() else {
        let about = |options: Command| {
            let about = options.get_about().map(ToString::to_string);
            about.unwrap_or_default()
        };
        let subs = options::of_ccron();
        return Completions::of(
            subs.map(|(name, options)| Candidate::described(name, &about(options)))
                .collect(),
        );
    };
    let sub = options::of_ccron().find(|(name, _)| name == word);
    let Some((_, options)) = sub else {
        return Completions::default();
    };
    let command = KnownCommand {
        command: "ccron".to_owned(),
        options,
        two_dashes: false,
    };
    of_options(command, before, last, names)
}

fn of_cadmin(command: &str, before: &[String], last: &str, names: Names<'_>) -> Completions {
    let subs = admin::subcommands(command);
    let Some((word, mut before)) = before.split_first() else {
        let subs = subs.iter().map(|s| Candidate::described(s.name, s.about));
        return Completions::of(subs.collect());
    };
    let Some(sub) = subs.into_iter().find(|s| s.name == word) else {
        return Completions::default();
    };
    let mut options = sub.options;
    if options.has_subcommands() {
        let Some((part, rest)) = before.split_first() else {
            let parts = options.get_subcommands();
            let about = |part: &Command| part.get_about().map(ToString::to_string);
            let parts = parts.map(|part| {
                Candidate::described(part.get_name(), &about(part).unwrap_or_default())
            });
            return Completions::of(parts.collect());
        };
        let Some(found) = options.find_subcommand(part) else {
            return Completions::default();
        };
        options = found.clone();
        before = rest;
    }
    let known_command = KnownCommand {
        command: "cadmin".to_owned(),
        options,
        two_dashes: sub.two_dashes,
    };
    of_options(known_command, before, last, names)
}

/// Options, their values and operands.
fn of_options(
    known_command: KnownCommand,
    before: &[String],
    last: &str,
    names: Names<'_>,
) -> Completions {
    let KnownCommand {
        command,
        options,
        two_dashes,
    } = known_command;
    let table = Table::new(options);
    let options = table.command();
    match table.place_of_next(before) {
        None => Completions::default(),
        Some(WordPlace::Value(id)) => match options.get_arguments().find(|arg| arg.get_id() == &id)
        {
            Some(arg) => values(kinds::kind(&command, &id, placeholder(arg), 0), last, names),
            None => Completions::default(),
        },
        Some(WordPlace::Operand { options: true, .. }) if last.starts_with('-') => {
            let mut words: Vec<Candidate> = options
                .get_arguments()
                .flat_map(|arg| spellings(arg, options, last, two_dashes))
                .collect();
            if let Some((id, at)) = table.attached_value(last)
                && let Some(arg) = options.get_arguments().find(|arg| arg.get_id() == id)
            {
                let kind = kinds::kind(&command, id, placeholder(arg), 0);
                let attached = values(kind, &last[at..], names).words;
                let whole =
                    |c: Candidate| Candidate::new(last[..at].to_owned() + &c.word, c.description);
                words.extend(attached.into_iter().map(whole));
            }
            Completions::of(words)
        }
        Some(WordPlace::Operand { before: count, .. }) => {
            let all: Vec<&Arg> = options.get_positionals().collect();
            let Some(arg) = all.get(count).or(all.last()) else {
                return Completions::default();
            };
            let id = arg.get_id().as_str();
            let kind = kinds::kind(&command, id, placeholder(arg), count);
            let mut answer = values(kind, last, names);
            // A job or host is proposed only once.
            answer.words.retain(|c| !before.contains(&c.word));
            if command == "csub" {
                answer.words.extend(parameters(&table, before, last, names));
            }
            answer
        }
    }
}

/// Parameters of the template that `-app` names, each proposed once.
fn parameters(table: &Table, before: &[String], last: &str, names: Names<'_>) -> Vec<Candidate> {
    let Ok(split) = table.split(before) else {
        return Vec::new();
    };
    let app = split.given.iter().rfind(|given| table.id(given) == "app");
    let Some(app) = app else {
        return Vec::new();
    };
    let given = |word: &str| {
        split
            .operands
            .iter()
            .any(|operand| operand.starts_with(word))
    };
    let all = names(ClusterNames::AppParams, &app.value).into_iter();
    all.filter(|c| c.word.starts_with(last) && !given(&c.word))
        .collect()
}

/// The placeholder of a value in the help.
fn placeholder(arg: &Arg) -> &str {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or("", |name| name.as_str())
}

/// The spellings of an option: words with a single dash, unless a second one has been typed.
fn spellings(arg: &Arg, options: &Command, last: &str, two_dashes: bool) -> Vec<Candidate> {
    if arg.is_positional() || arg.is_hide_set() {
        return Vec::new();
    }
    let two = last.starts_with("--");
    let about = |arg: &Arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        help.lines().next().unwrap_or_default().to_owned()
    };
    let mut out = Vec::new();
    if let Some(short) = arg.get_short() {
        out.push(Candidate::described(format!("-{short}"), &about(arg)));
        if ["help", "version"].contains(&arg.get_id().as_str()) && !two {
            return out;
        }
    }
    let Some(long) = arg.get_long() else {
        return out;
    };
    let dashes = if two || two_dashes { "--" } else { "-" };
    // --json means JSON Lines, -json the format of LSF.
    let lines = options.get_arguments().find(|a| a.get_id() == "jsonl");
    let about = match lines {
        Some(lines) if long == "json" && two => about(lines),
        _ => about(arg),
    };
    out.push(Candidate::described(format!("{dashes}{long}"), &about));
    out
}

fn values(kind: WordKind, last: &str, names: Names<'_>) -> Completions {
    match kind {
        WordKind::Nothing => Completions::default(),
        WordKind::Shell(shell_completion) => Completions::shell(shell_completion),
        WordKind::One(live) => Completions::of(names(live, last)),
        WordKind::List(live) => in_list(last, |word| names(live, word)),
        WordKind::Fixed(words) => Completions::of(words),
        WordKind::FixedList(words) => in_list(last, |_| words),
    }
}

/// The last name of a list: the names before it are kept and not proposed again.
fn in_list(last: &str, names: impl FnOnce(&str) -> Vec<Candidate>) -> Completions {
    let at = last.rfind([' ', ',']).map_or(0, |at| at + 1);
    let (unchanged, word) = last.split_at(at);
    let taken: Vec<&str> = unchanged.split([' ', ',']).collect();
    let words = names(word).into_iter();
    let words = words.filter(|c| !taken.contains(&c.word.as_str()));
    let whole = words.map(|c| Candidate::new(format!("{unchanged}{}", c.word), c.description));
    Completions::of(whole.collect())
}

/// The words as typed, with those joined that bash splits at `=` and `:`; and the number of bytes
/// of the last one that bash does not replace.
pub(super) fn join_split_words(words: &[String]) -> (Vec<String>, usize) {
    let is_mark = |word: &str| !word.is_empty() && word.bytes().all(|b| b":=".contains(&b));
    let mut out: Vec<String> = Vec::new();
    let (mut unchanged_bytes, mut is_joined) = (0, false);
    for (n, word) in words.iter().enumerate() {
        let mark = is_mark(word) && n > 0;
        match out.last_mut() {
            Some(before) if n > 1 && (mark || (is_joined && !word.is_empty())) => {
                unchanged_bytes = if mark {
                    before.len() + word.len()
                } else {
                    before.len()
                };
                before.push_str(word);
            }
            _ => {
                unchanged_bytes = 0;
                out.push(word.clone());
            }
        }
        is_joined = mark;
    }
    (out, unchanged_bytes)
}

/// A word as the shell passes it on: without quotes and backslashes.
pub(super) fn unquoted(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let (mut quote, mut chars) = (None, word.chars());
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => out.extend(chars.next()),
            (_, c) => out.push(c),
        }
    }
    out
}
