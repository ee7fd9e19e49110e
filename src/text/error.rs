//! The only error type of all parsers: the problem, its place, and a suggestion.
//!
//! Owns the rendering of the source line with a caret. Never knows a grammar.

use std::fmt;

use super::width;

/// Columns of source shown on either side of the caret before the line is cut.
const SIDE: usize = 60;

/// A refusal that points into the text it refuses.
///
/// ```
/// use corral::text::size::{self, Unit};
/// let text = "12Q";
/// let e = size::parse(text, Unit::M).unwrap_err();
/// assert_eq!(e.at, 2);
/// assert!(e.caret(text).starts_with("  12Q\n    ^\n"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Byte offset of the first wrong byte; the length of the text if it ends too early.
    pub at: usize,
    /// Number of wrong bytes; 0 if something is missing.
    pub len: usize,
    /// What is wrong, lower case, without a full stop.
    pub message: String,
    /// What to write instead, if known.
    pub hint: Option<String>,
    pub kind: ErrorKind,
}

/// Errors that callers treat differently; the text is only for users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ErrorKind {
    #[default]
    Invalid,
    /// The text is correct, but means more than is allowed.
    TooMany,
    /// The name has a fixed meaning.
    Reserved,
}

impl ParseError {
    /// An error over `len` bytes at byte `at`.
    pub fn new(at: usize, len: usize, message: impl Into<String>) -> Self {
        ParseError {
            at,
            len,
            message: message.into(),
            hint: None,
            kind: ErrorKind::Invalid,
        }
    }

    /// The same error of another kind.
    #[must_use]
    pub fn kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error for a text in which the parsed part starts `by` bytes later.
    #[must_use]
    pub fn shifted(mut self, by: usize) -> Self {
        self.at += by;
        self
    }

    /// The refusal of a text longer than `limit` bytes.
    pub fn too_long(what: &str, limit: usize, actual: usize) -> Self {
        ParseError::new(
            limit,
            0,
            format!("{what} has {actual} bytes, at most {limit} are allowed"),
        )
    }

    /// Line and column, both from 1, of the error in `source`; the column counts characters.
    pub fn line_column(&self, source: &str) -> (usize, usize) {
        let at = floor_boundary(source, self.at);
        let start = source[..at].rfind('\n').map_or(0, |p| p + 1);
        let line = source[..at].matches('\n').count() + 1;
        (line, source[start..at].chars().count() + 1)
    }

    /// The source line, a caret under the column and the hint: two or three lines, each indented
    /// by two blanks and ended by a line feed. Control characters are shown escaped.
    pub fn caret(&self, source: &str) -> String {
        let at = floor_boundary(source, self.at);
        let start = source[..at].rfind('\n').map_or(0, |p| p + 1);
        let stop = source[at..].find('\n').map_or(source.len(), |p| at + p);
        let end = ceil_boundary(source, at.saturating_add(self.len)).clamp(at, stop);
        let before = width::escape(&source[start..at]);
        let marked = width::escape(&source[at..end]);
        let after = width::escape(&source[end..stop]);
        let before = keep_end(&before, SIDE);
        let marked = keep_start(&marked, SIDE);
        let after = keep_start(&after, SIDE);
        let mut out = format!("  {before}{marked}{after}\n  ");
        out.extend(std::iter::repeat_n(' ', width::width(&before)));
        out.extend(std::iter::repeat_n('^', width::width(&marked).max(1)));
        out.push('\n');
        if let Some(hint) = &self.hint {
            out.push_str("  hint: ");
            out.push_str(hint);
            out.push('\n');
        }
        out
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ParseError {}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

fn keep_start(text: &str, columns: usize) -> String {
    if width::width(text) <= columns {
        return text.to_owned();
    }
    let mut shortened = width::truncate(text, columns - 3).into_owned();
    shortened.push_str("...");
    shortened
}

fn keep_end(text: &str, columns: usize) -> String {
    if width::width(text) <= columns {
        return text.to_owned();
    }
    let shortened = width::truncate_left(text, columns - 3);
    format!("...{shortened}")
}

/// A shorter prefix of a word is not accepted for the word.
const SHORTENED_MIN: usize = 3;

/// The word of `known` that is most similar to `word`, if it is similar enough to be a typing
/// error.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    let known: Vec<&str> = known.into_iter().collect();
    let similar = known
        .iter()
        .map(|k| {
            (
                strsim::damerau_levenshtein(&lower, &k.to_ascii_lowercase()),
                k,
            )
        })
        .filter(|(d, k)| *d <= 1 + k.len().max(word.len()) / 4 && *d < word.chars().count())
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| *k);
    similar.or_else(|| shortened(&lower, &known))
}

/// The only word that begins with `start`: `prio` for `priority`.
fn shortened<'a>(start: &str, known: &[&'a str]) -> Option<&'a str> {
    let long = |k: &&&str| k.to_ascii_lowercase().starts_with(start);
    let mut found = known.iter().filter(long);
    match (found.next(), found.next()) {
        (Some(only), None) if start.len() >= SHORTENED_MIN => Some(only),
        _ => None,
    }
}

/// The end of a message about an unknown word: `; did you mean "medium"?`, or empty if no known
/// word is similar.
///
/// ```
/// use corral::text::error::did_you_mean;
/// assert_eq!(did_you_mean("medum", ["low", "medium"]), "; did you mean \"medium\"?");
/// assert_eq!(did_you_mean("zebra", ["low", "medium"]), "");
/// ```
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, known) {
        Some(near) => format!("; did you mean \"{near}\"?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caret_counts_display_columns() {
        let source = "名字 bad";
        let e = ParseError::new("名字 ".len(), 3, "x").hint("use good");
        assert_eq!(
            e.caret(source),
            "  名字 bad\n       ^^^\n  hint: use good\n"
        );
        assert_eq!(e.line_column(source), (1, 4));
    }

    #[test]
    fn caret_shows_only_the_line_and_survives_wrong_offsets() {
        let e = ParseError::new(4, 99, "x");
        assert_eq!(e.caret("ab\ncd\nef"), "  cd\n   ^\n");
        assert_eq!(e.line_column("ab\ncd\nef"), (2, 2));
        assert_eq!(ParseError::new(99, 0, "x").caret("ab"), "  ab\n    ^\n");
        assert_eq!(ParseError::new(1, 1, "x").caret("名"), "  名\n  ^^\n");
    }

    #[test]
    fn caret_cuts_long_lines_and_escapes() {
        let source = format!("{}\u{1b}bad{}", "a".repeat(5000), "b".repeat(5000));
        let shown = ParseError::new(5000, 1, "x").caret(&source);
        assert!(shown.lines().all(|l| l.len() < 140), "{shown}");
        assert!(shown.contains("\\x1b"));
    }

    #[test]
    fn nearest_finds_slips_only() {
        assert_eq!(nearest("selct", ["select", "order"]), Some("select"));
        assert_eq!(nearest("zebra", ["select", "order"]), None);
        assert_eq!(nearest("a", ["b", "c"]), None);
        assert_eq!(nearest("prio", ["policy", "priority"]), Some("priority"));
        assert_eq!(nearest("prio", ["priority", "priority_cap"]), None);
        assert_eq!(nearest("pr", ["priority"]), None);
    }
}
