//! The commands: every command of users and administrators, chosen by name.
//!
//! Owns how the executable `cb` finds the command, and its help. The tables of commands are in
//! `client` and `admin`.

mod complete;
#[cfg(test)]
mod help_tests;

use crate::admin;
use crate::client::exit::{self, Exit};
use crate::client::{Entry, SUBMISSION_NAMES, csub, hang_notice, past_view};
use crate::language::{self, Language, tell, translated};
use crate::text::error::did_you_mean;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Number of LSF names on one line of the overview.
const NAMES_A_LINE: usize = 10;

/// Runs the command that `argv` names: by the link's name, or as `cb COMMAND` with or without the
/// leading c. Gives the exit code.
pub fn main(argv: &[OsString]) -> i32 {
    crate::sys::signals::default_sigpipe();
    past_view::set_maker(crate::master::past_view::view_at);
    let called = argv.first().map(OsString::as_os_str).unwrap_or_default();
    let link = Path::new(called).file_name().unwrap_or(OsStr::new("cb"));
    if let Some((name, found)) = link.to_str().and_then(|name| Some((name, find(name)?))) {
        set_language(name);
        hang_notice::watch(found.names[0]);
        return (found.run)(&argv[1..]);
    }
    if let Some(found) = link.to_str().and_then(find_lsf) {
        return run_lsf(found, &argv[1..]);
    }
    if let Some(found) = link.to_str().and_then(find_slurm) {
        return run_slurm(found, &argv[1..]);
    }
    match argv.get(1).and_then(|word| word.to_str()) {
        None | Some("-h" | "--help" | "help") => {
            set_language("help");
            print!("{}", overview());
            Exit::Ok.code()
        }
        Some("-V" | "--version") => {
            println!("cb {}", env!("CARGO_PKG_VERSION"));
            Exit::Ok.code()
        }
        // Not in the overview: only shells call it.
        Some("__complete") => complete::run(&argv[2..]),
        Some("--names") => {
            names().for_each(|name| println!("{name}"));
            Exit::Ok.code()
        }
        Some("--lsf-names") => {
            lsf_names().for_each(|name| println!("{name}"));
            Exit::Ok.code()
        }
        Some("--slurm-names") => {
            slurm_names().for_each(|name| println!("{name}"));
            Exit::Ok.code()
        }
        Some(word) => match find(word).or_else(|| find(&format!("c{word}"))) {
            Some(found) => {
                set_language(word);
                hang_notice::watch(found.names[0]);
                (found.run)(&argv[2..])
            }
            None => match (find_lsf(word), find_slurm(word)) {
                (Some(found), _) => run_lsf(found, &argv[2..]),
                (None, Some(found)) => run_slurm(found, &argv[2..]),
                (None, None) => {
                    set_language(word);
                    unknown(word)
                }
            },
        },
    }
}

/// Runs `csub`, or `bsub` if `argv` begins with a link of that name: what [`main`] does for these
/// names, without a reference to the other commands. Gives the exit code.
pub fn submit(argv: &[OsString]) -> i32 {
    crate::sys::signals::default_sigpipe();
    let called = argv.first().map(Path::new).and_then(Path::file_name);
    let [own, lsf] = SUBMISSION_NAMES;
    if called.is_some_and(|name| name == lsf) {
        language::choose(Language::English);
        hang_notice::watch(lsf);
        exit::called_by_lsf_name(lsf);
    } else {
        language::choose(Language::of_locale(|name| std::env::var(name).ok()));
        hang_notice::watch(own);
    }
    csub::run(argv.get(1..).unwrap_or_default())
}

/// Every name of Corral's own commands. With [`lsf_names`] and [`slurm_names`]: the links to
/// install.
pub fn names() -> impl Iterator<Item = &'static str> {
    admin::command_names()
}

/// The names of LSF's commands that are links to the same executable.
pub fn lsf_names() -> impl Iterator<Item = &'static str> {
    admin::lsf_names()
}

fn find_lsf(name: &str) -> Option<&'static Entry> {
    admin::lsf_commands().find(|e| e.names.contains(&name))
}

fn run_lsf(found: &'static Entry, args: &[OsString]) -> i32 {
    set_language(found.names[0]);
    hang_notice::watch(found.names[0]);
    exit::called_by_lsf_name(found.names[0]);
    (found.run)(args)
}

/// The names of Slurm's commands that are links to the same executable.
pub fn slurm_names() -> impl Iterator<Item = &'static str> {
    admin::slurm_names()
}

fn find_slurm(name: &str) -> Option<&'static Entry> {
    admin::slurm_commands().find(|e| e.names.contains(&name))
}

fn run_slurm(found: &'static Entry, args: &[OsString]) -> i32 {
    set_language(found.names[0]);
    hang_notice::watch(found.names[0]);
    exit::called_by_slurm_name();
    (found.run)(args)
}

fn find(name: &str) -> Option<&'static Entry> {
    admin::all_commands().find(|e| e.names.contains(&name))
}

/// Sets the language of a command that is called by this name.
fn set_language(called: &str) {
    let locale = Language::of_locale(|name| std::env::var(name).ok());
    language::choose(language_of(called, locale));
}

/// The language of a command of Corral's own name is that of the locale. What a command prints
/// under an LSF or Slurm name is parsed by programs written for those systems, so it stays English.
fn language_of(called: &str, locale: Language) -> Language {
    let is_own = |name: &str| name == called || name.strip_prefix('c') == Some(called);
    let of_others = find_lsf(called).or_else(|| find_slurm(called));
    match find(called).or_else(|| find(&format!("c{called}"))) {
        Some(found) if !is_own(found.names[0]) => Language::English,
        None if of_others.is_some() => Language::English,
        _ => locale,
    }
}

fn unknown(word: &str) -> i32 {
    let hint = match did_you_mean(word, names()) {
        none if none.is_empty() => did_you_mean(&format!("c{word}"), names()),
        hint => hint,
    };
    let all: Vec<&str> = names().collect();
    tell!(
        "cb: unknown command '{}'{hint}\ncommands: {}",
        crate::text::width::escape(word),
        all.join(" ")
    );
    Exit::Usage.code()
}

fn overview() -> String {
    let usage =
        "Usage: cb COMMAND [OPTIONS] [ARGUMENTS], or the command's own name as a link to cb\n\n";
    let mut out = translated(usage).into_owned();
    for e in admin::all_commands() {
        out.push_str(&format!(
            "  {:<16} {}\n",
            e.names.join(", "),
            translated(e.about)
        ));
    }
    let lsf: Vec<&str> = lsf_names().collect();
    out.push_str(&translated(
        "\nLSF's names of the same commands (man 7 lsf-names):\n",
    ));
    for names in lsf.chunks(NAMES_A_LINE) {
        out.push_str(&format!("  {}\n", names.join(" ")));
    }
    let slurm: Vec<&str> = slurm_names().collect();
    out.push_str(&translated(
        "\nSlurm's names, with Slurm's options (man 7 slurm-names):\n",
    ));
    for names in slurm.chunks(NAMES_A_LINE) {
        out.push_str(&format!("  {}\n", names.join(" ")));
    }
    out.push_str(&translated(
        "\n'COMMAND -h' lists the options of a command, 'man COMMAND' explains them.\n\
         'cb --names', 'cb --lsf-names' and 'cb --slurm-names' print the names to link to cb, \
         one per line.\n",
    ));
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
        let mut lsf: Vec<&str> = super::lsf_names().collect();
        lsf.sort_unstable();
        lsf.dedup();
        assert_eq!(lsf.len(), super::lsf_names().count());
        assert!(lsf.iter().all(|n| !names.contains(n)));
        let mut slurm: Vec<&str> = super::slurm_names().collect();
        assert_eq!(
            slurm,
            ["sbatch", "squeue", "scancel", "sinfo", "sacct", "scontrol"]
        );
        slurm.retain(|n| names.contains(n) || lsf.contains(n) || !overview().contains(n));
        assert_eq!(slurm, [""; 0]);
    }

    #[test]
    fn only_commands_of_our_own_names_speak_the_language_of_the_locale() {
        let spoken = |name: &str| super::language_of(name, Language::Chinese);
        for name in [
            "csub", "sub", "cjobs", "jobs", "cadmin", "admin", "help", "nix",
        ] {
            assert_eq!(spoken(name), Language::Chinese, "{name}");
        }
        let others = super::lsf_names().chain(super::slurm_names());
        for name in others.chain(["bsub", "bjobs", "badmin"]) {
            assert_eq!(spoken(name), Language::English, "{name}");
        }
    }

    #[test]
    fn an_unknown_command_is_a_usage_error() {
        assert_eq!(main(&["cb".into(), "nonsense".into()]), 2);
        assert_eq!(main(&["/x/cb".into(), "--version".into()]), 0);
    }
}
