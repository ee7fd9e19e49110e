//! The width of text on a terminal, and how to show untrusted text.
//!
//! Owns padding, truncation and escaping by display columns (a Chinese character takes two). `show`
//! defines the layout of tables.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Display columns of `text`.
///
/// ```
/// assert_eq!(corral::text::width::width("作业 a"), 6);
/// ```
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.width()
    }
}

/// The longest prefix of `text` that fits in `columns`.
pub fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return Cow::Borrowed(&text[..at]);
        }
    }
    Cow::Borrowed(text)
}

/// The longest suffix of `text` that fits in `columns`.
pub fn truncate_left(text: &str, columns: usize) -> &str {
    if width(text) <= columns {
        return text;
    }
    let mut used = 0;
    for (at, c) in text.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return &text[at + c.len_utf8()..];
        }
    }
    text
}

/// `text` truncated or padded with blanks on the right to exactly `columns`.
///
/// ```
/// use corral::text::width::pad_right;
/// assert_eq!(pad_right("作业", 5), "作业 ");
/// assert_eq!(pad_right("作业", 3), "作 ");
/// ```
pub fn pad_right(text: &str, columns: usize) -> String {
    let shortened = truncate(text, columns);
    let mut out = String::with_capacity(shortened.len() + columns);
    out.push_str(&shortened);
    out.extend(std::iter::repeat_n(
        ' ',
        columns.saturating_sub(width(&shortened)),
    ));
    out
}

/// `text` padded with blanks on the left to `columns`; a longer text is not truncated, since
/// numbers must never be cut.
pub fn pad_left(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len() + columns);
    out.extend(std::iter::repeat_n(
        ' ',
        columns.saturating_sub(width(text)),
    ));
    out.push_str(text);
    out
}

/// `text` in at most `columns`: if it is too wide, its last characters after a `*`, as job names
/// are shown.
///
/// ```
/// assert_eq!(corral::text::width::tail("a_long_name", 6), "*_name");
/// ```
pub fn tail(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns || columns == 0 {
        return truncate(text, columns);
    }
    Cow::Owned(format!("*{}", truncate_left(text, columns - 1)))
}

/// `text` with everything made visible that could move the cursor, or reorder or hide other text:
/// control characters, bidirectional marks, separators, invisible fillers. A backslash is not
/// escaped: the result is for reading, not for parsing.
///
/// ```
/// use corral::text::width::escape;
/// assert_eq!(escape("a\u{1b}[31m\u{202e}b"), "a\\x1b[31m\\u{202e}b");
/// assert_eq!(escape("作业"), "作业");
/// ```
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if !is_hidden(c) => out.push(c),
            c if c.is_ascii() => {
                write!(out, "\\x{:02x}", u32::from(c)).expect("a string takes every write");
            }
            c => write!(out, "\\u{{{:x}}}", u32::from(c)).expect("a string takes every write"),
        }
    }
    Cow::Owned(out)
}

/// True for characters that must not be sent to a terminal unescaped.
pub fn is_hidden(c: char) -> bool {
    match c {
        ' '..='~' => false,
        c if c.is_control() => true,
        // Soft hyphen, letter mark, fillers, zero-width space and direction marks (the joiners
        // U+200C and U+200D are ordinary spelling in several scripts and stay).
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}' | '\u{ffa0}' => {
            true
        }
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cutting_never_splits_a_wide_character() {
        assert_eq!(truncate("作业名", 5), "作业");
        assert_eq!(truncate_left("作业名", 5), "业名");
        assert_eq!(tail("作业名字", 5), "*名字");
        assert_eq!(tail("abc", 3), "abc");
        assert_eq!(tail("abc", 0), "");
    }

    #[test]
    fn numbers_are_never_cut() {
        assert_eq!(pad_left("12345", 3), "12345");
        assert_eq!(pad_left("12", 4), "  12");
    }

    #[test]
    fn escape_shows_newline_tab_and_c1() {
        assert_eq!(escape("a\n\t\u{9b}"), "a\\n\\t\\u{9b}");
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn padded_text_has_the_asked_width(s in "[a-z作业名字é]{0,12}", w in 0usize..20) {
            prop_assert_eq!(width(&pad_right(&s, w)), w);
            prop_assert!(width(&tail(&s, w)) <= w);
        }

        #[test]
        fn escaped_text_hides_nothing(s in ".*") {
            prop_assert!(!escape(&s).chars().any(is_hidden));
        }
    }
}
