//! The help of commands in the language of the process.
//!
//! Owns how a `clap::Command` is translated to Chinese before its help is printed. The catalogue is
//! read only when help is requested.

use crate::language::{self, Language, said};
use crate::text::width;
use clap::{Arg, Command, Parser};
use std::ffi::OsString;

/// Width of the help of an option, which is printed to the right of its name.
const HELP_COLUMNS: usize = 64;
/// Characters after which a line may be broken.
const PAUSES: [char; 5] = ['，', '；', '：', '、', '。'];

/// Parses the words of a command that is defined by a type.
///
/// # Errors
/// The errors of clap: help, version, or a wrong command line.
pub(crate) fn parsed<T: Parser>(name: &str, words: &[String]) -> Result<T, clap::Error> {
    let all: Vec<OsString> = std::iter::once(name.into())
        .chain(words.iter().map(OsString::from))
        .collect();
    let matches = if_asked(T::command(), words).try_get_matches_from(all)?;
    T::from_arg_matches(&matches)
}

/// The command with its help in the language of the process, if these words request help.
pub(super) fn if_asked(cmd: Command, words: &[String]) -> Command {
    let asks = |word: &String| ["-h", "--help", "help"].contains(&word.as_str());
    match language::here() {
        Language::Chinese if words.iter().any(asks) => in_chinese(cmd),
        _ => cmd,
    }
}

/// The command with its help texts in Chinese, including those of its subcommands.
fn in_chinese(mut cmd: Command) -> Command {
    cmd.build();
    let subs: Vec<String> = cmd
        .get_subcommands()
        .map(|s| s.get_name().to_owned())
        .collect();
    for sub in subs {
        cmd = cmd.mut_subcommand(sub, in_chinese);
    }
    if let Some(about) = cmd.get_about().map(ToString::to_string) {
        cmd = cmd.about(said(&about).into_owned());
    }
    if let Some(about) = cmd.get_long_about().map(ToString::to_string) {
        cmd = cmd.long_about(said(&about).into_owned());
    }
    if let Some(text) = cmd.get_after_help().map(ToString::to_string) {
        let lines: Vec<String> = text.lines().map(caption).collect();
        cmd = cmd.after_help(lines.join("\n"));
    }
    let cmd = cmd.mut_args(argument);
    let template = template(&cmd);
    cmd.help_template(template)
}

/// The existing parts of the help, under their titles.
fn template(cmd: &Command) -> String {
    let mut out = String::from("{about-with-newline}\n用法：{usage}\n");
    if cmd.get_subcommands().next().is_some() {
        out.push_str("\n命令：\n{subcommands}\n");
    }
    if cmd.get_positionals().next().is_some() {
        out.push_str("\n参数：\n{positionals}\n");
    }
    out.push_str("\n选项：\n{options}{after-help}");
    out
}

fn argument(arg: Arg) -> Arg {
    let text = |help: &clap::builder::StyledStr| folded(&said(&help.to_string()));
    let (short, long) = (arg.get_help().map(text), arg.get_long_help().map(text));
    let arg = match short {
        Some(help) => arg.help(help),
        None => arg,
    };
    match long {
        Some(help) => arg.long_help(help),
        None => arg,
    }
}

/// A line after the options: the text after `#` explains an example.
fn caption(line: &str) -> String {
    match line.split_once("  # ") {
        Some((example, about)) => format!("{example}  # {}", said(about)),
        None => said(line).into_owned(),
    }
}

/// Chinese text has no blanks at which clap could break a line: it is broken after punctuation, or
/// where the line is full. ASCII text is left to clap.
fn folded(text: &str) -> String {
    if text.is_ascii() || width::width(text) <= HELP_COLUMNS {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while width::width(rest) > HELP_COLUMNS {
        let full = width::truncate(rest, HELP_COLUMNS).len();
        let pause = rest[..full]
            .char_indices()
            .filter(|(at, c)| PAUSES.contains(c) && *at > full / 2)
            .map(|(at, c)| at + c.len_utf8())
            .next_back();
        let word = rest[..full].rfind(|c: char| c == ' ' || !c.is_ascii());
        let word = word.map_or(full, |at| {
            rest[at..].chars().next().map_or(at, |c| at + c.len_utf8())
        });
        let at = pause.unwrap_or(if word > full / 2 { word } else { full });
        out.push_str(rest[..at].trim_end());
        out.push('\n');
        rest = rest[at..].trim_start();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_broken_after_a_pause() {
        let text = "等待".repeat(12) + "，" + &"作业".repeat(12) + "。" + &"abc ".repeat(9);
        let folded = folded(&text);
        assert!(
            folded
                .lines()
                .all(|line| width::width(line) <= HELP_COLUMNS)
        );
        assert!(
            folded.starts_with(&("等待".repeat(12) + "，\n")),
            "{folded}"
        );
        let joint = |text: &str| text.replace(['\n', ' '], "");
        assert_eq!(joint(&folded), joint(&text));
        assert_eq!(super::folded("short"), "short");
    }
}
