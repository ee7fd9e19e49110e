//! A problem in a cb.yaml: its place, and what to do about it. Owns the form in which it is shown;
//! finds nothing itself.

use std::fmt;
use unicode_width::UnicodeWidthChar;

/// Columns of the source line shown around the caret.
const WINDOW: usize = 96;

/// One problem of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// Counted from 1; 0 = the whole file.
    pub line: u32,
    /// In characters, counted from 1.
    pub col: u32,
    /// Stable short name of the kind of problem, such as `unknown-key`.
    pub code: &'static str,
    pub message: String,
    /// The line of the file, without its line ending.
    pub source: String,
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", printable(&self.file))?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.col)?;
        }
        write!(f, ": {}", printable(&self.message))?;
        if self.line > 0 {
            let (text, caret) = window(&self.source, self.col.max(1) as usize - 1);
            let line_number = self.line.to_string();
            write!(f, "\n {line_number} | {text}")?;
            write!(f, "\n {:w$} | {:caret$}^", "", "", w = line_number.len())?;
        }
        if let Some(h) = &self.hint {
            write!(f, "\nhint: {}", printable(h))?;
        }
        Ok(())
    }
}

/// The text, with characters escaped that could control a terminal or reverse the direction of
/// text.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push_printable(&mut out, c);
    }
    out
}

fn push_printable(out: &mut String, c: char) {
    match c {
        '\t' => out.push(' '),
        '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}' => {
            out.extend(c.escape_unicode());
        }
        c if c.is_control() => out.extend(c.escape_default()),
        c => out.push(c),
    }
}

/// The part of a line around character `at`, and the number of screen columns before that
/// character.
fn window(line: &str, at: usize) -> (String, usize) {
    let chars: Vec<char> = line.chars().collect();
    let at = at.min(chars.len());
    let start = if at > WINDOW * 3 / 4 {
        at - WINDOW / 2
    } else {
        0
    };
    let end = chars.len().min(start + WINDOW);
    let mut text = String::new();
    let mut caret = 0;
    if start > 0 {
        text.push_str("... ");
    }
    for (i, &c) in chars[start..end].iter().enumerate() {
        if start + i == at {
            caret = columns(&text);
        }
        push_printable(&mut text, c);
    }
    if at >= end {
        caret = columns(&text);
    }
    if end < chars.len() {
        text.push_str(" ...");
    }
    (text, caret)
}

fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}
