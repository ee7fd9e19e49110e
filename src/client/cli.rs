//! Command lines as LSF users type them, on top of clap: words with a single dash (`-noheader`,
//! `-oo`), combined letters (`-aJ name`), values attached to their letter (`-n4`). Commands under
//! Slurm's names read words as `getopt_long` does.
//!
//! Owns the rewriting of such words and the common options of all commands. It knows no command:
//! each describes itself as a `clap::Command` whose one-letter ids are letters and whose longer ids
//! are words (see [`flag`] and [`opt`]). Never guesses: an unknown option is an error, and an
//! unknown word is not taken for a letter with a value (`-outdir` is not `-o utdir`).

use super::examples;
use super::exit::{Exit, lsf_name};
use super::help;
use crate::language::tell;
use crate::text::error::nearest;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;

/// An option without a value: a letter, or a word when `id` is longer. May be repeated.
pub(crate) fn flag(id: &'static str, help: &'static str) -> Arg {
    named(id)
        .action(ArgAction::SetTrue)
        .overrides_with(id)
        .help(help)
}

/// An option with a value. May be repeated: [`Values::last`] or [`Values::all`] say what that
/// means.
pub(crate) fn opt(id: &'static str, value: &'static str, help: &'static str) -> Arg {
    named(id)
        .action(ArgAction::Append)
        .value_name(value)
        .allow_hyphen_values(true)
        .help(help)
}

/// An option with an optional value, which must follow after `=`.
pub(crate) fn optional_value(id: &'static str, value: &'static str, help: &'static str) -> Arg {
    opt(id, value, help)
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("")
}

/// A command and its arguments: everything from the first word that is not an option.
pub(crate) fn trailing_command(value: &'static str, help: &'static str) -> Arg {
    Arg::new("command")
        .value_name(value)
        .num_args(0..)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .help(help)
}

fn named(id: &'static str) -> Arg {
    let mut letters = id.chars();
    match (letters.next(), letters.next()) {
        (Some(c), None) => Arg::new(id).short(c),
        _ => Arg::new(id).long(id),
    }
}

/// Operands that are listed one after the other (`[NAME]...`).
pub(crate) fn operands(id: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(id)
        .value_name(value)
        .action(ArgAction::Append)
        .num_args(0..)
        .help(help)
}

/// What all commands have in common: name, purpose, version and examples. The name is the one under
/// which the command was called if that is one of LSF's.
pub(crate) fn command(name: &'static str, about: &'static str) -> Command {
    let called = lsf_name().unwrap_or(name);
    let cmd = Command::new(called)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"));
    match examples::text(name, called) {
        Some(text) => cmd.after_help(text),
        None => cmd,
    }
}

/// Shorthands for what a command reads out of its matches.
pub(crate) trait Values {
    /// Whether the flag was given.
    fn has(&self, id: &str) -> bool;
    /// The last value of an option.
    fn last(&self, id: &str) -> Option<&str>;
    /// All values of an option or operand, in their order.
    fn all(&self, id: &str) -> Vec<String>;
}

impl Values for ArgMatches {
    fn has(&self, id: &str) -> bool {
        self.get_flag(id)
    }

    fn last(&self, id: &str) -> Option<&str> {
        self.get_many::<String>(id)
            .and_then(|mut all| all.next_back())
            .map(String::as_str)
    }

    fn all(&self, id: &str) -> Vec<String> {
        self.get_many::<String>(id)
            .map(|all| all.cloned().collect())
            .unwrap_or_default()
    }
}

/// Parses a command line (without the command's own name). `Err` is the exit code after clap's
/// message (help, version, an error) was printed.
///
/// # Errors
/// The exit code with which the command ends: 0 after help or version, 2 after a wrong line.
pub(crate) fn parse(cmd: Command, args: &[OsString]) -> Result<ArgMatches, i32> {
    parse_with(Table::new(cmd), args)
}

/// Like [`parse`], for a table of either syntax.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_with(table: Table, args: &[OsString]) -> Result<ArgMatches, i32> {
    let name = table.cmd.get_name().to_owned();
    let words = match texts(args).and_then(|args| table.split(&args)) {
        Ok(split) => split.to_clap(&table),
        Err(e) => {
            tell!("{name}: {e}\nTry '{name} -h' for its options.");
            return Err(Exit::Usage.code());
        }
    };
    clap_matches(table.cmd, &name, words)
}

/// Lets clap check rewritten words and prints its message.
fn clap_matches(cmd: Command, name: &str, words: Vec<String>) -> Result<ArgMatches, i32> {
    let cmd = help::with_long_help(cmd, &words);
    let all = std::iter::once(name.to_owned()).chain(words);
    cmd.try_get_matches_from(all).map_err(|e| {
        if !e.use_stderr() {
            return super::usage(&e);
        }
        tell!(
            "{name}: {}\nTry '{name} -h' for its options.",
            error_text(&e)
        );
        Exit::Usage.code()
    })
}

/// The error that clap found, without its usage and advice.
fn error_text(e: &clap::Error) -> String {
    let text = e.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The arguments as text.
///
/// # Errors
/// Names the first one that is not UTF-8.
pub(crate) fn texts(args: &[OsString]) -> Result<Vec<String>, UsageError> {
    args.iter()
        .enumerate()
        .map(|(n, arg)| match arg.to_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(UsageError(format!(
                "argument {} is not UTF-8: {arg:?}",
                n + 1
            ))),
        })
        .collect()
}

/// Why a command line could not be parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How the words of a command line are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Syntax {
    /// As LSF's commands: a word after one dash is an option's whole name, combined letters, or a
    /// letter with its value.
    Lsf,
    /// As `getopt_long`: letters after one dash, the last with any value; after two dashes a name,
    /// or the beginning of exactly one.
    GetoptLong,
}

/// Words that are options of some of LSF's commands. Where a command does not have one, it is not
/// read as letters: `bjobs -sla x` is not `-s -l -a`.
const LSF_WORDS: &[&str] = &[
    "Lp",
    "UF",
    "XF",
    "aff",
    "alloc",
    "aps",
    "cname",
    "cu",
    "data",
    "dl",
    "ext",
    "fwd",
    "hl",
    "hms",
    "hostfile",
    "outdir",
    "pac",
    "plan",
    "pri",
    "prio",
    "psum",
    "rc",
    "rcacct",
    "rcalloc",
    "rcproject",
    "rconly",
    "rusage",
    "script",
    "sl",
    "sla",
    "ss",
    "stat",
    "sum",
];

/// The options of a command, prepared for parsing many lines (`csub -pack`).
pub(crate) struct Table {
    cmd: Command,
    syntax: Syntax,
    options: Vec<Option_>,
    /// The index of each long name in `options`.
    by_name: HashMap<String, usize>,
    /// The first operand ends the options: what follows is another program's command line.
    trailing: bool,
}

struct Option_ {
    id: String,
    short: Option<char>,
    longs: Vec<String>,
    takes: bool,
    /// The value is optional: it only counts after `=`.
    value_optional: bool,
}

/// An option as it was given: which one, and its value ("" for a flag).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GivenOption {
    option: usize,
    pub value: String,
}

/// What a word of a line is, judged by the words before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WordPlace {
    /// The value of the option with this id.
    Value(String),
    /// An operand after this many others, or an option where one is still allowed.
    Operand { before: usize, options: bool },
}

/// A placeholder for the next word; no shell can pass it.
const NEXT: &str = "\0";

/// A command line taken apart.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Split {
    pub given: Vec<GivenOption>,
    pub operands: Vec<String>,
    /// `--` preceded `operands`.
    pub has_separator: bool,
}

impl Table {
    pub(crate) fn new(cmd: Command) -> Table {
        Table::of(cmd, Syntax::Lsf)
    }

    /// A table for a command under one of Slurm's names.
    pub(crate) fn getopt_long(cmd: Command) -> Table {
        Table::of(cmd, Syntax::GetoptLong)
    }

    fn of(mut cmd: Command, syntax: Syntax) -> Table {
        cmd.build();
        let options: Vec<Option_> = cmd
            .get_arguments()
            .filter(|a| !a.is_positional())
            .map(|a| Option_ {
                id: a.get_id().to_string(),
                short: a.get_short(),
                longs: a
                    .get_long_and_visible_aliases()
                    .unwrap_or_default()
                    .into_iter()
                    .map(str::to_owned)
                    .collect(),
                takes: a.get_action().takes_values(),
                value_optional: a.get_num_args().is_some_and(|n| n.min_values() == 0),
            })
            .collect();
        let trailing = cmd
            .get_positionals()
            .any(clap::Arg::is_trailing_var_arg_set);
        let names = |(n, o): (usize, &Option_)| o.longs.clone().into_iter().map(move |l| (l, n));
        Table {
            cmd,
            syntax,
            by_name: options.iter().enumerate().flat_map(names).collect(),
            options,
            trailing,
        }
    }

    /// The id of a given option.
    pub(crate) fn id(&self, given: &GivenOption) -> &str {
        &self.options[given.option].id
    }

    /// Takes a line apart.
    ///
    /// # Errors
    /// Names the option that is unknown, lacks its value or has a value that it does not take.
    pub(crate) fn split(&self, args: &[String]) -> Result<Split, UsageError> {
        let mut split = Split::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                split.has_separator = split.operands.is_empty();
                split.operands.extend(args.cloned());
                break;
            }
            match arg.strip_prefix('-') {
                Some(word) if !word.is_empty() => self.option(arg, word, &mut args, &mut split)?,
                _ => {
                    split.operands.push(arg.clone());
                    if self.trailing {
                        split.operands.extend(args.cloned());
                        break;
                    }
                }
            }
        }
        Ok(split)
    }

    /// Parses one word that starts with a dash; `word` is the word without it.
    fn option(
        &self,
        arg: &str,
        word: &str,
        args: &mut std::slice::Iter<'_, String>,
        split: &mut Split,
    ) -> Result<(), UsageError> {
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) => (name.trim_start_matches('-'), Some(value)),
            None => (word.strip_prefix('-').unwrap_or(word), None),
        };
        let option = match (self.by_name.get(name), word.starts_with('-')) {
            (Some(option), _) => *option,
            (None, true) => self.named_by_prefix(arg, name)?,
            (None, false) => return self.parse_letters(arg, word, args, split),
        };
        let value = match (self.options[option].takes, attached) {
            (false, None) => String::new(),
            (false, Some(_)) => return Err(UsageError(format!("option -{name} takes no value"))),
            (true, Some(value)) => value.to_owned(),
            (true, None) if self.options[option].value_optional => String::new(),
            (true, None) => next_value(name, args)?,
        };
        split.given.push(GivenOption { option, value });
        Ok(())
    }

    /// The option of which `name` is the beginning of its long name, as `getopt_long` finds it.
    ///
    /// # Errors
    /// There is none, or several.
    fn named_by_prefix(&self, arg: &str, name: &str) -> Result<usize, UsageError> {
        if self.syntax == Syntax::Lsf || name.is_empty() {
            return Err(self.unknown(arg, name));
        }
        let mut found: Vec<(&str, usize)> = self
            .by_name
            .iter()
            .filter(|(long, _)| long.starts_with(name))
            .map(|(long, option)| (long.as_str(), *option))
            .collect();
        found.sort_unstable();
        let Some(option) = found.first().map(|(_, option)| *option) else {
            return Err(self.unknown(arg, name));
        };
        if found.iter().all(|(_, other)| *other == option) {
            return Ok(option);
        }
        let names: Vec<String> = found.iter().map(|(long, _)| format!("--{long}")).collect();
        Err(UsageError(format!(
            "option '--{name}' is ambiguous; possibilities: {}",
            names.join(" ")
        )))
    }

    /// Parses combined letters; the last one may have its value attached.
    fn parse_letters(
        &self,
        arg: &str,
        word: &str,
        args: &mut std::slice::Iter<'_, String>,
        split: &mut Split,
    ) -> Result<(), UsageError> {
        let lsf = self.syntax == Syntax::Lsf;
        if lsf && LSF_WORDS.contains(&word.split('=').next().unwrap_or(word)) {
            return Err(self.unknown(arg, word));
        }
        for (at, letter) in word.char_indices() {
            let found = self.options.iter().position(|o| o.short == Some(letter));
            let Some(option) = found else {
                return Err(self.unknown(arg, if at == 0 { word } else { &word[at..] }));
            };
            // A letter is not combined with itself: this is a word, `-all`.
            if lsf && word[..at].contains(letter) {
                return Err(self.unknown(arg, word));
            }
            if !self.options[option].takes {
                let value = String::new();
                split.given.push(GivenOption { option, value });
                continue;
            }
            let attached = &word[at + letter.len_utf8()..];
            if lsf && is_part_of_a_word(letter, attached) {
                let UsageError(unknown) = self.unknown(arg, word);
                return Err(UsageError(format!(
                    "{unknown}; a value of -{letter} follows after a blank: -{letter} {attached}"
                )));
            }
            let value = match attached {
                "" if self.options[option].value_optional => String::new(),
                "" => next_value(&letter.to_string(), args)?,
                _ => attached.to_owned(),
            };
            split.given.push(GivenOption { option, value });
            break;
        }
        Ok(())
    }

    fn unknown(&self, arg: &str, word: &str) -> UsageError {
        let known = self.options.iter().flat_map(|o| &o.longs);
        let dashes = match self.syntax {
            Syntax::Lsf => "-",
            Syntax::GetoptLong => "--",
        };
        let hint = match nearest(word, known.map(String::as_str)) {
            Some(near) => format!("; did you mean {dashes}{near}?"),
            None => String::new(),
        };
        let shown = crate::text::width::escape(arg);
        UsageError(format!("unknown option '{shown}'{hint}"))
    }

    /// What the word after these words of a line is; `None` if they are wrong.
    pub(crate) fn place_of_next(&self, before: &[String]) -> Option<WordPlace> {
        let mut line = before.to_vec();
        line.push(NEXT.to_owned());
        let split = self.split(&line).ok()?;
        match split.given.last() {
            Some(given) if given.value == NEXT => Some(WordPlace::Value(self.id(given).to_owned())),
            _ => {
                let operands = split.operands.len().saturating_sub(1);
                let ended = before.iter().any(|word| word == "--");
                let in_command = self.trailing && operands > 0;
                Some(WordPlace::Operand {
                    before: operands,
                    options: !ended && !in_command,
                })
            }
        }
    }

    /// The option whose value is attached to it in this word, and where the value begins.
    pub(crate) fn attached_value(&self, word: &str) -> Option<(&str, usize)> {
        let split = self.split(&[word.to_owned()]).ok()?;
        let given = split.given.last()?;
        let takes = self.options[given.option].takes;
        let at = word.len().checked_sub(given.value.len())?;
        (takes && word.ends_with(&given.value)).then(|| (self.id(given), at))
    }

    /// The command with its options and operands.
    pub(crate) fn command(&self) -> &Command {
        &self.cmd
    }

    /// Lets clap check a split line; prints help, version or the error.
    ///
    /// # Errors
    /// The exit code, as [`parse`].
    pub(crate) fn check(&self, split: &Split) -> Result<ArgMatches, i32> {
        let name = self.cmd.get_name().to_owned();
        clap_matches(self.cmd.clone(), &name, split.to_clap(self))
    }
}

impl Split {
    /// The words in the form that clap parses.
    fn to_clap(&self, table: &Table) -> Vec<String> {
        let mut out = Vec::with_capacity(self.given.len() + self.operands.len() + 1);
        for given in &self.given {
            let option = &table.options[given.option];
            let name = match (option.longs.first(), option.short) {
                (Some(long), _) => format!("--{long}"),
                (None, Some(short)) => format!("-{short}"),
                (None, None) => continue,
            };
            out.push(if option.takes {
                format!("{name}={}", given.value)
            } else {
                name
            });
        }
        out.push("--".to_owned());
        out.extend(self.operands.iter().cloned());
        out
    }
}

/// Whether what follows a letter in its word reads as the rest of a word instead of a value of this
/// letter: `utdir` in `-outdir`, `utput=x` in `-output=x`; `4`, `out.%J` and `host1` are values.
fn is_part_of_a_word(letter: char, attached: &str) -> bool {
    let rest = attached.split('=').next().unwrap_or(attached);
    let lower = |c: char| c.is_ascii_lowercase() || c == '-' || c == '_';
    let is_lower = !rest.is_empty() && rest.chars().all(lower);
    match letter {
        // No word of LSF begins with q, and a queue that does not exist is refused by name.
        'q' => false,
        'u' => is_lower && rest != "all",
        'a'..='z' => is_lower,
        // `-Jname` is typed often, words in upper case are few: `-Lp`, `-Jn` of bmod.
        _ => is_lower && rest.len() == 1,
    }
}

fn next_value(name: &str, args: &mut std::slice::Iter<'_, String>) -> Result<String, UsageError> {
    args.next()
        .cloned()
        .ok_or_else(|| UsageError(format!("option -{name} needs a value")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cmd() -> Command {
        command("cx", "test")
            .arg(flag("a", "all"))
            .arg(flag("noheader", "none"))
            .arg(opt("J", "NAME", "name"))
            .arg(opt("Jd", "TEXT", "description"))
            .arg(opt("o", "FMT", "format"))
            .arg(opt("oo", "FILE", "file"))
            .arg(opt("n", "N", "number"))
            .arg(operands("ids", "JOB", "jobs"))
    }

    fn split(line: &[&str]) -> Result<Vec<String>, String> {
        let table = Table::new(cmd());
        let args: Vec<String> = line.iter().map(|s| (*s).to_string()).collect();
        let split = table.split(&args).map_err(|e| e.0)?;
        let mut out: Vec<String> = split
            .given
            .iter()
            .map(|g| format!("{}={}", table.id(g), g.value))
            .collect();
        out.extend(split.operands);
        Ok(out)
    }

    #[test]
    fn lsf_forms_are_understood() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["-aJ", "x*", "7"], &["a=", "J=x*", "7"]),
            (
                &["-noheader", "-o", "jobid stat"],
                &["noheader=", "o=jobid stat"],
            ),
            (&["--noheader", "-ofmt.%J"], &["noheader=", "o=fmt.%J"]),
            (&["-ao/tmp/x", "-Jname"], &["a=", "o=/tmp/x", "J=name"]),
            (&["-n4", "-oo", "f", "-Jd", "-x"], &["n=4", "oo=f", "Jd=-x"]),
            (&["--Jd=a=b"], &["Jd=a=b"]),
            (&["-J=x"], &["J==x"]),
            (&["--", "-a"], &["-a"]),
            (&["-"], &["-"]),
            (&["7", "-a", "8"], &["a=", "7", "8"]),
        ];
        for (line, want) in cases {
            assert_eq!(split(line).as_deref(), Ok(&want.map_to()[..]), "{line:?}");
        }
    }

    trait MapTo {
        fn map_to(&self) -> Vec<String>;
    }
    impl MapTo for &[&str] {
        fn map_to(&self) -> Vec<String> {
            self.iter().map(|s| (*s).to_string()).collect()
        }
    }

    #[test]
    fn wrong_lines_are_named() {
        let cases: &[(&[&str], &str)] = &[
            (&["-xyz"], "unknown option '-xyz'"),
            (&["--nohaeder"], "did you mean -noheader?"),
            (&["-z"], "unknown option '-z'"),
            (&["-1"], "unknown option '-1'"),
            (&["-J"], "needs a value"),
            (&["--noheader=1"], "takes no value"),
        ];
        for (line, want) in cases {
            let got = split(line).unwrap_err();
            assert!(got.contains(want), "{line:?}: {got}");
        }
    }

    #[test]
    fn a_word_is_not_a_letter_with_a_value() {
        for (word, want) in [
            (
                "-output",
                "unknown option '-output'; a value of -o follows after a blank: -o utput",
            ),
            ("-output=x", "unknown option '-output=x'"),
            ("-name", "unknown option '-name'"),
            ("-Jn", "unknown option '-Jn'; did you mean -Jd?"),
            ("-aa", "unknown option '-aa'"),
            ("-outdir", "unknown option '-outdir'"),
            ("-stat", "unknown option '-stat'"),
            ("-noheaders", "did you mean -noheader?"),
        ] {
            let got = split(&[word, "dir", "command"]).unwrap_err();
            assert!(got.starts_with(want) || got.contains(want), "{word}: {got}");
        }
        assert!(is_part_of_a_word('u', "ser") && !is_part_of_a_word('u', "all"));
        assert!(!is_part_of_a_word('q', "normal") && !is_part_of_a_word('m', "host1"));
    }

    #[test]
    fn slurms_names_are_read_as_getopt_long_reads_them() {
        let cmd = command("sx", "t")
            .arg(opt("jobs", "LIST", "j").short('j'))
            .arg(opt("job-name", "NAME", "n").short('J'))
            .arg(
                opt("output", "FILE", "o")
                    .short('o')
                    .visible_alias("output-file"),
            );
        let table = Table::getopt_long(cmd);
        let split = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            let split = table.split(&words).map_err(|e| e.0)?;
            let given = split.given.iter();
            Ok::<Vec<String>, String>(
                given
                    .map(|g| format!("{}={}", table.id(g), g.value))
                    .collect(),
            )
        };
        assert_eq!(
            split(&[
                "--out=x", "--outp", "y", "--job-", "n", "-outdir", "--jobs=1"
            ])
            .unwrap(),
            [
                "output=x",
                "output=y",
                "job-name=n",
                "output=utdir",
                "jobs=1"
            ]
        );
        assert_eq!(
            split(&["--job=1"]).unwrap_err(),
            "option '--job' is ambiguous; possibilities: --job-name --jobs"
        );
        assert_eq!(
            split(&["--jbs"]).unwrap_err(),
            "unknown option '--jbs'; did you mean --jobs?"
        );
    }

    #[test]
    fn clap_sees_the_same_values() {
        let args: Vec<OsString> = ["-aJ", "x y", "-o", "", "3", "-n5"]
            .map(OsString::from)
            .into();
        let m = parse(cmd(), &args).unwrap();
        assert!(m.has("a") && !m.has("noheader"));
        assert_eq!(m.last("J"), Some("x y"));
        assert_eq!(m.last("o"), Some(""));
        assert_eq!(m.last("n"), Some("5"));
        assert_eq!(m.all("ids"), ["3"]);
    }

    #[test]
    fn what_clap_finds_wrong_is_one_line_of_the_command() {
        let wrong = |line: &[&str]| {
            let cmd = command("cx", "t").arg(Arg::new("one").required(true));
            let all = ["cx"].iter().chain(line);
            error_text(&cmd.try_get_matches_from(all).unwrap_err())
        };
        assert_eq!(wrong(&["a", "b"]), "unexpected argument 'b' found");
        let missing = "the following required arguments were not provided: <one>";
        assert_eq!(wrong(&[]), missing);
    }

    #[test]
    fn the_place_of_the_next_word_follows_from_those_before_it() {
        let table = Table::new(cmd());
        let place = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            table.place_of_next(&words)
        };
        let operand = |before, options| Some(WordPlace::Operand { before, options });
        assert_eq!(place("-aJ"), Some(WordPlace::Value("J".into())));
        assert_eq!(place("-oo"), Some(WordPlace::Value("oo".into())));
        assert_eq!(place("-n4 7"), operand(1, true));
        assert_eq!(place(""), operand(0, true));
        assert_eq!(place("7 --"), operand(1, false));
        assert_eq!(place("-n4x -J"), Some(WordPlace::Value("J".into())));
        assert_eq!(place("-zzz"), None);
        assert_eq!(table.attached_value("-Jxy"), Some(("J", 2)));
        assert_eq!(table.attached_value("--Jd="), Some(("Jd", 5)));
        assert_eq!(table.attached_value("-aa"), None);
        assert_eq!(table.attached_value("-J"), None);
    }

    #[test]
    fn bad_bytes_are_refused() {
        use std::os::unix::ffi::OsStringExt;
        let bad = OsString::from_vec(vec![b'a', 0xff]);
        assert!(texts(&[bad]).unwrap_err().0.contains("not UTF-8"));
    }
}
