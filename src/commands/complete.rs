//! `cb __complete SHELL WORDS...`: the possible completions of the last of these words, for the
//! completion files of the shells in etc/completions.
//!
//! Owns the output: a first line `words`, `files` or `dirs`, the latter two if the shell itself
//! completes file names; then one candidate per line, with a description after a tab, in the
//! language of the help of the command that is completed. Prints no errors and changes nothing: if
//! names cannot be found in time, there are no candidates.

mod kinds;
mod line;
mod live;
#[cfg(test)]
mod tests;

use crate::sys::{proc, thread};
use crate::text::width::{escape, pad_right, width};
use kinds::{Candidate, ClusterNames, ShellCompletion};
use line::Completions;
use std::ffi::OsString;
use std::io::Write as _;

/// How long to wait for names of the cluster, ms, because a share may hang.
const LIVE_MS: u64 = 200;
/// Stack size of the thread that reads them, in bytes.
const STACK: usize = 2 << 20;
/// Maximum number of words of a line, and maximum length of each in bytes.
const WORDS_MAX: usize = 4096;
const WORD_MAX: usize = 64 << 10;
/// Characters with a special meaning for bash outside quotes.
const BASH_SPECIAL: &str = " \t'\"\\$`!&;|<>()[]{}*?~#";

/// The shell, which determines the form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shell {
    /// Bash inserts the output.
    Bash,
    /// Bash shows the output and inserts what the lines have in common.
    BashList,
    /// Zsh and fish: both support candidates with descriptions.
    Other,
}

/// Runs the hidden command; returns the exit code.
pub(super) fn run(args: &[OsString]) -> i32 {
    let words: Option<Vec<String>> = args
        .iter()
        .map(|arg| arg.to_str().map(str::to_owned))
        .collect();
    let words = words.unwrap_or_default();
    if words.len() > WORDS_MAX || words.iter().any(|word| word.len() > WORD_MAX) {
        return 0;
    }
    let Some((shell, words)) = words.split_first() else {
        return 0;
    };
    super::set_language(line::command_name(words));
    let out = answer(shell, words, &|live, word| in_time(live, word));
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(out.as_bytes());
    let _ = stdout.flush();
    // Another thread may be blocked in the share, so it is not joined.
    proc::exit_now(0)
}

/// The names of a kind that begin with `word`; none if they take too long.
fn in_time(live: ClusterNames, word: &str) -> Vec<Candidate> {
    let (tx, rx) = crossbeam::channel::bounded(1);
    let word = word.to_owned();
    let read = move || drop(tx.send(live::names(live, &word)));
    if thread::spawn("names", STACK, read).is_err() {
        return Vec::new();
    }
    thread::recv_timeout(&rx, LIVE_MS).unwrap_or_default()
}

/// The output for a command line in a shell.
fn answer(shell: &str, words: &[String], names: line::Names<'_>) -> String {
    let (shell, words, joined) = match shell {
        "bash" | "bash-list" => {
            let (words, joined) = line::join_split_words(words);
            let list = shell == "bash-list";
            let shell = if list { Shell::BashList } else { Shell::Bash };
            (shell, words, joined)
        }
        _ => (Shell::Other, words.to_vec(), 0),
    };
    let Some((last, before)) = words.split_last() else {
        return String::new();
    };
    let (last, quote) = match last.chars().next() {
        Some(quote @ ('"' | '\'')) => (last[1..].to_owned(), Some(quote)),
        _ => (line::unquoted(last), None),
    };
    let before: Vec<String> = before.iter().map(|word| line::unquoted(word)).collect();
    let mut answer = line::answer(&before, &last, names);
    answer.words.retain(|c| c.word.starts_with(&last));
    for c in &mut answer.words {
        c.word.drain(..joined.min(c.word.len()));
        if shell != Shell::Other && quote.is_none() {
            c.word = escaped(&c.word);
        }
    }
    printed(shell, &answer)
}

/// A word in the form in which it is typed in bash without quotes.
fn escaped(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        if BASH_SPECIAL.contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn printed(shell: Shell, answer: &Completions) -> String {
    let mut out = String::from(match answer.shell_completion {
        ShellCompletion::Nothing => "words\n",
        ShellCompletion::Files => "files\n",
        ShellCompletion::Dirs => "dirs\n",
    });
    let widest = answer.words.iter().map(|c| width(&c.word)).max();
    let widest = widest.unwrap_or_default();
    // A single candidate is inserted as it is, also for a list.
    let shown = shell == Shell::BashList && answer.words.len() > 1;
    for c in &answer.words {
        let (word, about) = (escape(&c.word), escape(&c.description));
        match (shell, about.is_empty()) {
            (Shell::Other, false) => out.push_str(&format!("{word}\t{about}")),
            (Shell::BashList, false) if shown => {
                out.push_str(&format!("{}  ({about})", pad_right(&word, widest)));
            }
            _ => out.push_str(&word),
        }
        out.push('\n');
    }
    out
}
