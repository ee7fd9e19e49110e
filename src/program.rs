//! The first words of a program that is not a command of `cb`: its help, the refusal of its options
//! and the reason for which it does not start, in the language of the locale.
//!
//! Owns how the options of such a program are parsed and how one line is printed for a person. The
//! language of the process stays English, so that what a daemon logs, stores and sends does not
//! depend on the locale in which it was started.

use crate::client::help;
use crate::language::Language;
use clap::Parser;
use std::ffi::OsString;

/// Exit code after a command line that is not understood.
pub const USAGE: u8 = 2;

/// The language of the locale in which this process was started.
pub fn language() -> Language {
    Language::of_locale(|name| std::env::var(name).ok())
}

/// The options of a program, from its whole command line.
///
/// # Errors
/// The exit code, after help, version or the refusal was printed.
pub fn options<T: Parser>(argv: &[OsString]) -> Result<T, u8> {
    parsed(argv, language()).map_err(|e| {
        if e.use_stderr() {
            eprint!("{}", language().translate(&e.to_string()));
            return USAGE;
        }
        // Nothing is left to do if even this cannot be written.
        drop(e.print());
        0
    })
}

fn parsed<T: Parser>(argv: &[OsString], language: Language) -> Result<T, clap::Error> {
    let cmd = help::in_language(T::command(), language, argv);
    T::from_arg_matches(&cmd.try_get_matches_from(argv)?)
}

/// Refuses a command line. Gives the exit code.
pub fn refuse(usage: &str) -> u8 {
    print_error(usage);
    USAGE
}

/// Prints a text for a person to standard error.
pub fn print_error(text: &str) {
    eprintln!("{}", language().translate(text));
}

/// Prints a text for a person to standard output.
pub fn answer(text: &str) {
    println!("{}", language().translate(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Help
    #[derive(Parser, Debug)]
    #[command(name = "cbtest", version)]
    struct Options {
        /// A JSON object for each replay instead of a table
        #[arg(long)]
        json: bool,
        /// Number of users
        #[arg(long, default_value_t = 20)]
        users: u32,
        /// Seeds
        #[arg(long, value_enum)]
        estimates: Option<crate::replay::convert::Estimates>,
    }

    fn said(words: &[&str], language: Language) -> String {
        let argv: Vec<OsString> = ["cbtest"].iter().chain(words).map(OsString::from).collect();
        let refused = parsed::<Options>(&argv, language).unwrap_err();
        refused.to_string()
    }

    #[test]
    fn help_is_in_the_language_and_says_default_and_possible_values() {
        let chinese = said(&["-h"], Language::Chinese);
        for part in [
            "用法：cbtest",
            "用户数 [默认值：20]",
            "[可选值：expected, limit]",
            "显示帮助",
        ] {
            assert!(chinese.contains(part), "{part}\n{chinese}");
        }
        let long = said(&["--help"], Language::Chinese);
        assert!(long.contains("limit：用户要求的运行时限"), "{long}");
        for english in ["default", "possible", "Possible", "Options", "Print"] {
            assert!(!long.contains(english) && !chinese.contains(english));
        }
        let english = said(&["-h"], Language::English);
        assert!(
            english.contains("Number of users [default: 20]"),
            "{english}"
        );
    }

    #[test]
    fn options_are_read_and_refused_alike_in_each_language() {
        for language in [Language::English, Language::Chinese] {
            let argv = ["cbtest", "--users", "3", "--json"].map(OsString::from);
            let options = parsed::<Options>(&argv, language).unwrap();
            assert!(options.json && options.users == 3 && options.estimates.is_none());
            assert!(said(&["--nonsense"], language).contains("--nonsense"));
        }
    }
}
