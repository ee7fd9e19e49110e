//! One value in its cell: padded, truncated and escaped for a terminal, or quoted for JSON.
//!
//! Owns the rule that text from users never reaches a terminal with control characters in it, and
//! that JSON strings are always valid. Never decides what is shown.

use crate::text::width;
use std::borrow::Cow;
use unicode_width::UnicodeWidthChar as _;

/// How to shorten a value that is wider than its column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// Not at all: ids and numbers are shown whole.
    Never,
    /// Keeps the beginning.
    Head,
    /// Keeps the end, after a `*`.
    Tail,
}

/// Blanks to copy from, more than the width of any column.
const BLANKS: &str = "                                                                ";

/// Appends `n` blanks.
pub(crate) fn blanks(out: &mut String, mut n: usize) {
    while n > 0 {
        let part = n.min(BLANKS.len());
        out.push_str(&BLANKS[..part]);
        n -= part;
    }
}

/// Whether every byte is a printable ASCII character: the usual case, which needs no escaping.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| (b' '..=b'~').contains(&b))
}

/// Escapes for a terminal what was appended to `out` since `from`, and cuts it to at most `columns`
/// unless that is `None`. Returns its display width.
pub(crate) fn escape_and_cut(
    out: &mut String,
    from: usize,
    columns: Option<usize>,
    cut: Cut,
) -> usize {
    let plain = is_plain(&out[from..]);
    if plain {
        let len = out.len() - from;
        if columns.is_none_or(|c| len <= c) || cut == Cut::Never {
            return len;
        }
    } else if let Cow::Owned(safe) = width::escape(&out[from..]) {
        out.truncate(from);
        out.push_str(&safe);
    }
    if let Some(columns) = columns {
        let shortened = match cut {
            Cut::Never => None,
            Cut::Head => Some(width::truncate(&out[from..], columns).into_owned()),
            Cut::Tail => Some(width::tail(&out[from..], columns).into_owned()),
        };
        if let Some(shortened) = shortened {
            out.truncate(from);
            out.push_str(&shortened);
        }
    }
    width::width(&out[from..])
}

/// Cuts what was appended to `out` since `from` to `columns` of a terminal; colour sequences take
/// no columns and are kept.
pub(crate) fn fit(out: &mut String, from: usize, columns: usize) {
    if out.len() - from <= columns {
        return;
    }
    let line = out.split_off(from);
    let (mut used, mut in_code) = (0, false);
    for c in line.chars() {
        in_code |= c == '\x1b';
        if in_code {
            out.push(c);
            in_code = c != 'm';
            continue;
        }
        used += c.width().unwrap_or(0);
        if used <= columns {
            out.push(c);
        }
    }
    out.truncate(out.trim_end_matches(' ').len().max(from));
}

/// Appends a decimal number.
pub(crate) fn int<N: itoa::Integer>(out: &mut String, n: N) {
    out.push_str(itoa::Buffer::new().format(n));
}

/// Appends a number given in thousandths as a decimal fraction with `digits` digits after the point
/// (1 or 2), rounded down.
pub(crate) fn fraction(out: &mut String, milli: u64, digits: u32) {
    int(out, milli / 1000);
    out.push('.');
    let scale = if digits == 1 { 100 } else { 10 };
    let part = milli % 1000 / scale;
    if digits == 2 && part < 10 {
        out.push('0');
    }
    int(out, part);
}

/// Whether a byte must be escaped in a JSON string.
fn needs_quoting(b: u8) -> bool {
    b < 0x20 || b == b'"' || b == b'\\' || b == 0x7f
}

/// Appends `text` as a JSON string.
pub(crate) fn json_str(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(needs_quoting) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b => {
                out.push_str("\\u00");
                for digit in [b >> 4, b & 15] {
                    out.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
                }
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Converts in place what was appended to `out` since `from` to a JSON string.
pub(crate) fn json_quote_from(out: &mut String, from: usize) {
    if out[from..].bytes().any(needs_quoting) {
        let text = out.split_off(from);
        json_str(out, &text);
    } else {
        out.insert(from, '"');
        out.push('"');
    }
}

/// Writes one JSON object member by member.
pub(crate) struct Object<'o> {
    pub out: &'o mut String,
    first: bool,
}

impl<'o> Object<'o> {
    /// Opens an object; [`Object::end`] closes it.
    pub(crate) fn begin(out: &'o mut String) -> Object<'o> {
        out.push('{');
        Object { out, first: true }
    }

    /// Writes a member's name; its value is appended to `out` next.
    pub(crate) fn key(&mut self, name: &str) -> &mut String {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
        self.out
    }

    /// Like [`Object::key`], for a name chosen by a user or a sensor.
    pub(crate) fn free_key(&mut self, name: &str) -> &mut String {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
        json_str(self.out, name);
        self.out.push(':');
        self.out
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        json_str(self.key(name), value);
    }

    /// A text, or `null` if it is empty.
    pub(crate) fn some_text(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            self.null(name);
        } else {
            self.text(name, value);
        }
    }

    pub(crate) fn int<N: itoa::Integer>(&mut self, name: &str, value: N) {
        int(self.key(name), value);
    }

    /// A number, or `null` if there is none.
    pub(crate) fn opt<N: itoa::Integer>(&mut self, name: &str, value: Option<N>) {
        match value {
            Some(n) => self.int(name, n),
            None => self.null(name),
        }
    }

    /// A number with a fraction; a value that JSON cannot represent becomes `null`.
    pub(crate) fn float(&mut self, name: &str, value: f64) {
        let out = self.key(name);
        if value.is_finite() {
            let rounded = (value * 1000.0).round() / 1000.0;
            out.push_str(&rounded.to_string());
        } else {
            out.push_str("null");
        }
    }

    pub(crate) fn flag(&mut self, name: &str, value: bool) {
        self.key(name)
            .push_str(if value { "true" } else { "false" });
    }

    pub(crate) fn null(&mut self, name: &str) {
        self.key(name).push_str("null");
    }

    /// A list of texts.
    pub(crate) fn texts<S: AsRef<str>>(&mut self, name: &str, values: impl IntoIterator<Item = S>) {
        let out = self.key(name);
        list(out, values, |out, v| json_str(out, v.as_ref()));
    }

    /// Text that already is a list of members without braces.
    pub(crate) fn members(&mut self, ready: &str) {
        if !ready.is_empty() {
            if !self.first {
                self.out.push(',');
            }
            self.first = false;
            self.out.push_str(ready);
        }
    }

    pub(crate) fn end(self) {
        self.out.push('}');
    }
}

/// Appends a JSON array.
pub(crate) fn list<T>(
    out: &mut String,
    values: impl IntoIterator<Item = T>,
    mut one: impl FnMut(&mut String, T),
) {
    out.push('[');
    let mut first = true;
    for value in values {
        if !first {
            out.push(',');
        }
        first = false;
        one(out, value);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tamed(text: &str, columns: usize, cut: Cut) -> (String, usize) {
        let mut out = String::from("x");
        out.push_str(text);
        let width = escape_and_cut(&mut out, 1, Some(columns), cut);
        (out.split_off(1), width)
    }

    #[test]
    fn values_are_cut_by_display_columns() {
        assert_eq!(tamed("abcdef", 4, Cut::Head), ("abcd".into(), 4));
        assert_eq!(tamed("abcdef", 4, Cut::Tail), ("*def".into(), 4));
        assert_eq!(tamed("abcdef", 4, Cut::Never), ("abcdef".into(), 6));
        assert_eq!(tamed("作业名字", 5, Cut::Head), ("作业".into(), 4));
    }

    #[test]
    fn control_characters_never_pass() {
        assert_eq!(tamed("a\u{1b}[2J", 20, Cut::Head), ("a\\x1b[2J".into(), 8));
    }

    #[test]
    fn fractions_round_down() {
        let mut out = String::new();
        fraction(&mut out, 61_059, 2);
        out.push(' ');
        fraction(&mut out, 999, 1);
        assert_eq!(out, "61.05 0.9");
    }

    proptest! {
        #[test]
        fn quoted_text_reads_back(text in ".*") {
            let mut out = String::new();
            json_str(&mut out, &text);
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text.clone());
            let mut out = String::from("{");
            out.push_str(&text);
            json_quote_from(&mut out, 1);
            prop_assert_eq!(serde_json::from_str::<String>(&out[1..]).unwrap(), text);
        }
    }
}
