//! The help of commands in the language of the process.
//!
//! Owns how a `clap::Command` is translated to Chinese before its help is printed. The catalogue is
//! read only when help is requested.

use crate::language::{self, Language};
use crate::text::width;
use clap::{Arg, Command, Parser};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

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
    let matches = with_long_help(T::command(), words).try_get_matches_from(all)?;
    T::from_arg_matches(&matches)
}

/// The command with its help in the language of the process, if these words request help.
pub(super) fn with_long_help(cmd: Command, words: &[String]) -> Command {
    in_language(cmd, language::of_process(), words)
}

/// The command with its help in this language, if these words request it.
pub(crate) fn in_language<W: AsRef<OsStr>>(
    cmd: Command,
    language: Language,
    words: &[W],
) -> Command {
    let asks = |word: &W| {
        ["-h", "--help", "help"]
            .iter()
            .any(|ask| word.as_ref() == *ask)
    };
    match language {
        Language::Chinese if words.iter().any(asks) => in_chinese(cmd),
        _ => cmd,
    }
}

fn translated_text(text: &str) -> Cow<'_, str> {
    Language::Chinese.translate(text)
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
        cmd = cmd.about(translated_text(&about).into_owned());
    }
    if let Some(about) = cmd.get_long_about().map(ToString::to_string) {
        cmd = cmd.long_about(translated_text(&about).into_owned());
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
    let text = |help: Option<&clap::builder::StyledStr>| {
        help.map(|help| translated_text(&help.to_string()).into_owned())
    };
    let (short, long) = (text(arg.get_help()), text(arg.get_long_help()));
    let (values, described, default) = (values(&arg), described_values(&arg), default(&arg));
    let with = |text: Option<&str>, more: &[&str]| {
        let text = folded(text.unwrap_or_default());
        more.iter().fold(text, |text, part| append_part(text, part))
    };
    let arg = match with(short.as_deref(), &[&default, &values]) {
        text if text.is_empty() => arg,
        text => arg.help(text),
    };
    let arg = match (&long, described.is_empty()) {
        (None, true) => arg,
        _ => {
            let values = if described.is_empty() { &values } else { "" };
            let text = with(long.as_deref().or(short.as_deref()), &[&default, values]);
            arg.long_help(text + &described)
        }
    };
    arg.hide_default_value(true).hide_possible_values(true)
}

/// Adds a part in brackets, on a line of its own if the last line has no room for it.
fn append_part(text: String, part: &str) -> String {
    if text.is_empty() || part.is_empty() {
        return text + part;
    }
    let last = text.lines().next_back().unwrap_or_default();
    let fits = width::width(last) + 1 + width::width(part) <= HELP_COLUMNS;
    text + if fits { " " } else { "\n" } + part
}

/// The text that clap shows as `[default: N]`.
fn default(arg: &Arg) -> String {
    let all: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    match all.is_empty() || arg.is_hide_default_value_set() || !arg.get_action().takes_values() {
        true => String::new(),
        false => format!("[默认值：{}]", all.join(" ")),
    }
}

/// The text that clap shows as `[possible values: A, B]`.
fn values(arg: &Arg) -> String {
    let shown = shown_values(arg);
    let names: Vec<&str> = shown
        .iter()
        .map(clap::builder::PossibleValue::get_name)
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("[可选值：{}]", names.join(", ")),
    }
}

/// The values, each on a line, if their meanings are given.
fn described_values(arg: &Arg) -> String {
    let shown = shown_values(arg);
    if shown.iter().all(|value| value.get_help().is_none()) {
        return String::new();
    }
    let mut out = String::from("\n\n可选值：");
    for value in shown {
        let about = value
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        out.push_str(&folded(&format!(
            "\n- {}：{}",
            value.get_name(),
            translated_text(&about)
        )));
    }
    out
}

fn shown_values(arg: &Arg) -> Vec<clap::builder::PossibleValue> {
    match arg.is_hide_possible_values_set() {
        true => Vec::new(),
        false => {
            let all = arg.get_possible_values().into_iter();
            all.filter(|value| !value.is_hide_set()).collect()
        }
    }
}

/// A line after the options: the text after `#` explains an example.
fn caption(line: &str) -> String {
    match line.split_once("  # ") {
        Some((example, about)) => format!("{example}  # {}", translated_text(about)),
        None => translated_text(line).into_owned(),
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

    #[test]
    fn a_default_is_never_taken_apart() {
        let long = "作业".repeat(14);
        assert_eq!(append_part("短".into(), "[默认值：1]"), "短 [默认值：1]");
        assert_eq!(
            append_part(long.clone(), "[默认值：1]"),
            format!("{long}\n[默认值：1]")
        );
        assert_eq!(append_part(String::new(), "[默认值：1]"), "[默认值：1]");
    }
}
