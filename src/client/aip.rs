//! `aip`: commands as a noun and a verb, such as `aip job info`, and `aip cronjob`.
//!
//! Owns which command a noun and a verb stand for. Each form runs that command with its options;
//! nothing is decided or printed here except help.

use super::exit::{Exit, Fail};
use super::{COMMANDS, ccron};
use crate::language::answer;
use crate::text::width::escape;
use std::ffi::OsString;

/// A noun and a verb, each with its short form.
pub(crate) struct AipForm {
    pub(crate) noun: [&'static str; 2],
    pub(crate) verb: [&'static str; 2],
    /// Corral's own name of the command.
    pub(crate) command: &'static str,
    /// Its option that the form stands for; empty = none.
    option: &'static str,
    pub(crate) about: &'static str,
}

/// All forms but those of `aip cronjob`.
pub(crate) const FORMS: &[AipForm] = &[
    form(
        ["cluster", "c"],
        ["info", "i"],
        ("cid", "-l"),
        "the cluster, as cid -l",
    ),
    form(
        ["host", "h"],
        ["info", "i"],
        ("chosts", ""),
        "hosts, as chosts",
    ),
    form(
        ["host", "h"],
        ["res", "r"],
        ("chosts", "-s"),
        "resources of hosts, as chosts -s",
    ),
    form(
        ["queue", "q"],
        ["info", "i"],
        ("cqueues", ""),
        "queues, as cqueues",
    ),
    form(
        ["job", "j"],
        ["info", "i"],
        ("cjobs", ""),
        "jobs, as cjobs; -p: with their tasks, as cjobs -t",
    ),
    form(
        ["job", "j"],
        ["submit", "s"],
        ("csub", "--spec"),
        "the job that a file describes, as csub --spec",
    ),
];

const fn form(
    noun: [&'static str; 2],
    verb: [&'static str; 2],
    (command, option): (&'static str, &'static str),
    about: &'static str,
) -> AipForm {
    AipForm {
        noun,
        verb,
        command,
        option,
        about,
    }
}

/// The forms of a noun.
pub(crate) fn forms(noun: &str) -> impl Iterator<Item = &'static AipForm> {
    FORMS.iter().filter(move |form| form.noun.contains(&noun))
}

/// Whether the word is the noun of `aip cronjob`.
pub(crate) fn is_cronjob(noun: &str) -> bool {
    matches!(noun, "cronjob" | "cron")
}

/// Runs `aip`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let words: Vec<&str> = args.iter().filter_map(|word| word.to_str()).collect();
    match &words[..] {
        ["-h" | "--help" | "help", ..] => help(),
        ["-V" | "--version", ..] => {
            println!("aip {}", env!("CARGO_PKG_VERSION"));
            Exit::Ok.code()
        }
        [noun, ..] if is_cronjob(noun) => ccron::run(&cronjob_words(&args[1..])),
        [noun, "-h" | "--help", ..] if forms(noun).next().is_some() => help(),
        [noun, verb, ..] if forms(noun).any(|form| form.verb.contains(verb)) => {
            let form = forms(noun).find(|form| form.verb.contains(verb));
            let entry = form.and_then(|form| {
                let found = COMMANDS.iter().find(|e| e.names[0] == form.command);
                found.map(|entry| (form, entry))
            });
            entry.map_or(Exit::System.code(), |(form, entry)| {
                (entry.run)(&form.arguments(&args[2..]))
            })
        }
        [word, ..] if word.starts_with('-') => {
            let word = escape(word);
            Fail::usage(format!("unknown option '{word}'\nhint: aip -h")).report("aip")
        }
        [noun, rest @ ..] if forms(noun).next().is_some() => {
            let verbs: Vec<&str> = forms(noun).map(|form| form.verb[0]).collect();
            let noun = forms(noun).next().map_or("", |form| form.noun[0]);
            let message = match rest.first() {
                Some(word) => format!("aip {noun} '{}' is not known", escape(word)),
                None => format!("aip {noun}: a word is missing"),
            };
            let verbs = verbs.join(", ");
            Fail::usage(format!("{message}; it takes {verbs}\nhint: aip -h")).report("aip")
        }
        words => {
            let message = words
                .first()
                .map_or("a word is missing".to_owned(), |word| {
                    format!("'{}' is not implemented in this version", escape(word))
                });
            Fail::usage(format!(
                "{message}; the nouns of aip are cluster, host, queue, job and cronjob\n\
                 hint: cb -h lists the commands"
            ))
            .report("aip")
        }
    }
}

/// The words for `ccron`: `info` is `show`, whose `-l` asks for JSON.
fn cronjob_words(given: &[OsString]) -> Vec<OsString> {
    let (verb, rest) = match given {
        [verb, rest @ ..] if verb == "info" || verb == "i" => (Some("show".into()), rest),
        _ => (None, given),
    };
    let is_info = verb.is_some();
    let turned = rest.iter().map(|word| match is_info && word == "-l" {
        true => "--json".into(),
        false => word.clone(),
    });
    verb.into_iter().chain(turned).collect()
}

fn help() -> i32 {
    answer!(
        "Usage: aip cluster|host|queue|job info [-l] [OPTIONS] ...\n       \
         aip host res [OPTIONS]\n       \
         aip job submit FILE [OPTIONS]\n       \
         aip cronjob create|edit|info|list|show|enable|disable|start|kill|remove|next|import \
         ...\n\n\
         Other names of cid -l, chosts, cqueues, cjobs, chosts -s, csub --spec FILE and ccron, \
         with their options.\n\
         Of info, -l prints JSON, as --json. aip job info -p is cjobs -t, aip cronjob info is \
         ccron show.\n\
         First letters are enough: aip j i.\n\nExamples:\n  \
         aip job info -p 123          # a job with its tasks\n  \
         aip h i -l                   # hosts as JSON\n  \
         aip cronjob list             # your cron jobs\n  \
         aip job submit job.yaml      # the job that the file describes"
    );
    Exit::Ok.code()
}

impl AipForm {
    /// The words for the command, where `-l` of a view asks for JSON and `-p` of jobs for tasks.
    fn arguments(&self, given: &[OsString]) -> Vec<OsString> {
        let is_info = self.verb[0] == "info";
        let json = is_info && given.iter().any(|word| word == "-l");
        let own = [self.option];
        let own = own.iter().filter(|word| !(word.is_empty() || json));
        let turned = given.iter().map(|word| match word.to_str() {
            Some("-l") if is_info => "--json".into(),
            Some("-p") if is_info && self.command == "cjobs" => "-t".into(),
            _ => word.clone(),
        });
        own.map(OsString::from).chain(turned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{cli, options, read};
    use super::*;

    fn meant(line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let form = forms(words[0]).find(|form| form.verb.contains(&words[1]));
        let form = form.unwrap_or_else(|| panic!("{line}"));
        let given: Vec<OsString> = words[2..].iter().map(OsString::from).collect();
        let words = form.arguments(&given);
        let words = words.iter().map(|word| word.to_str().unwrap());
        let words: Vec<&str> = [form.command].into_iter().chain(words).collect();
        words.join(" ")
    }

    #[test]
    fn nouns_and_verbs_stand_for_commands() {
        for (form, command) in [
            ("cluster info", "cid -l"),
            ("c i -l", "cid --json"),
            ("host info h1", "chosts h1"),
            ("h i -l h1", "chosts --json h1"),
            ("host res gpu", "chosts -s gpu"),
            ("h r", "chosts -s"),
            ("q i -l", "cqueues --json"),
            ("job info -u all", "cjobs -u all"),
            ("j i -p 123", "cjobs -t 123"),
            ("j i -l 123", "cjobs --json 123"),
            (
                "job submit job.yaml -q short",
                "csub --spec job.yaml -q short",
            ),
        ] {
            assert_eq!(meant(form), command, "{form}");
        }
    }

    #[test]
    fn cron_jobs_are_those_of_ccron() {
        for (given, words) in [
            ("info -l nightly", "show --json nightly"),
            ("i", "show"),
            ("list -u all", "list -u all"),
            ("remove -l", "remove -l"),
        ] {
            let given: Vec<OsString> = given.split(' ').map(OsString::from).collect();
            let converted = cronjob_words(&given);
            let converted: Vec<&str> = converted.iter().filter_map(|word| word.to_str()).collect();
            assert_eq!(converted.join(" "), words, "{given:?}");
        }
    }

    #[test]
    fn every_form_is_a_line_that_its_command_reads() {
        for form in FORMS {
            let given: &[&str] = match form.verb[0] {
                "submit" => &["job.yaml"],
                _ => &["-l"],
            };
            let given: Vec<OsString> = given.iter().map(OsString::from).collect();
            let options = options::of(form.command).expect("a command with options");
            let words = read::split_json(&form.arguments(&given));
            let parsed = cli::parse(options, &words);
            assert!(parsed.is_ok(), "{}: {words:?}", form.about);
        }
    }

    #[test]
    fn what_is_not_a_form_is_refused() {
        let code = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            run(&words)
        };
        for words in [
            &[][..],
            &["job"],
            &["job", "inof"],
            &["user", "info"],
            &["-x"],
        ] {
            assert_eq!(code(words), 2, "{words:?}");
        }
        assert_eq!(code(&["cronjob", "inof"]), 2);
        assert_eq!((code(&["-h"]), code(&["job", "-h"])), (0, 0));
    }
}
