//! Changes a YAML text at the places named by its tree: adds or removes an item of a list, replaces
//! a scalar. Everything else, including comments and blanks, stays as it is.
//!
//! Owns only characters. If a place is not certain, the result is `None`; the caller parses every
//! result again and compares it with the intended tree.

use crate::text::yaml::{Node, Pos, Value};

/// The text, and where its lines begin.
pub(super) struct Source<'t> {
    text: &'t str,
    /// Byte offset of each line, starting with line 1.
    starts: Vec<usize>,
}

impl<'t> Source<'t> {
    pub(super) fn new(text: &'t str) -> Source<'t> {
        // Columns do not count the byte order mark that some editors write.
        let first = if text.starts_with('\u{feff}') { 3 } else { 0 };
        let more = text.match_indices('\n').map(|(at, _)| at + 1);
        Source {
            text,
            starts: std::iter::once(first).chain(more).collect(),
        }
    }

    /// The line ending of this text.
    pub(super) fn eol(&self) -> &'static str {
        if self.text.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        }
    }

    /// The byte offset of a place.
    fn offset_of(&self, pos: Pos) -> Option<usize> {
        let start = *self.starts.get(pos.line.checked_sub(1)? as usize)?;
        let mut chars = self.text[start..].char_indices();
        let at = chars.nth(pos.col.checked_sub(1)? as usize).map(|(i, _)| i);
        at.map(|i| start + i)
    }

    /// The line (from 0) of a byte offset.
    fn line_of(&self, at: usize) -> usize {
        self.starts.partition_point(|&s| s <= at).saturating_sub(1)
    }

    /// A line without its line ending.
    fn line(&self, n: usize) -> &'t str {
        let rest = &self.text[self.starts[n]..];
        let line = rest.split('\n').next().unwrap_or_default();
        line.strip_suffix('\r').unwrap_or(line)
    }

    fn end_of_line(&self, n: usize) -> usize {
        self.starts[n] + self.line(n).len()
    }

    /// Inserts whole lines, without the last line ending, after line `n` (from 0).
    fn after_line(&self, n: usize, lines: &str) -> String {
        let eol = self.eol();
        match self.starts.get(n + 1) {
            Some(&next) => format!("{}{lines}{eol}{}", &self.text[..next], &self.text[next..]),
            None => format!("{}{eol}{lines}{eol}", self.text),
        }
    }

    /// Inserts a line below the line of a key.
    pub(super) fn insert_below(&self, key: Pos, line: &str) -> String {
        self.after_line(key.line as usize - 1, line)
    }

    /// Appends lines to the text.
    pub(super) fn at_the_end(&self, lines: &str) -> String {
        let eol = self.eol();
        let closed = self.text.ends_with('\n') || self.text.is_empty();
        let gap = if closed { "" } else { eol };
        format!("{}{gap}{lines}{eol}", self.text)
    }

    fn spliced(&self, from: usize, to: usize, put: &str) -> String {
        format!("{}{put}{}", &self.text[..from], &self.text[to..])
    }

    /// The byte offset after a node with a clear end: brackets, quotes, a word on one line.
    fn end(&self, node: &Node) -> Option<usize> {
        let at = self.offset_of(node.pos)?;
        match &node.value {
            Value::List(_) | Value::Map(_) if self.text[at..].starts_with(['[', '{']) => {
                closing_bracket(self.text, at)
            }
            Value::Text { text, quoted } => {
                let rest = &self.text[at..];
                match rest.chars().next() {
                    Some(q @ ('\'' | '"')) if *quoted => closing_quote(rest, q).map(|n| at + n),
                    _ if !quoted && rest.starts_with(text.as_str()) => Some(at + text.len()),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The last line (from 0) that certainly contains a part of the node.
    fn last_known_line(&self, node: &Node) -> usize {
        let own = node.pos.line as usize - 1;
        if let Some(end) = self.end(node) {
            return self.line_of(end - 1);
        }
        let below = match &node.value {
            Value::List(items) => items.iter().map(|i| self.last_known_line(i)).max(),
            Value::Map(entries) => {
                let lines = entries.iter().map(|e| match e.value.value {
                    // The place of a null value may be that of the next node.
                    Value::Null => e.key_pos.line as usize - 1,
                    _ => self.last_known_line(&e.value),
                });
                lines.max()
            }
            _ => None,
        };
        below.unwrap_or(own)
    }

    /// The dash of an item: its line (from 0) and column in bytes; it must begin its line.
    fn dash(&self, item: &Node) -> Option<(usize, usize)> {
        let before = self.text[..self.offset_of(item.pos)?].trim_end();
        let dash = before.len().checked_sub(1)?;
        let line = self.line_of(dash);
        let indent = &self.text[self.starts[line]..dash];
        let leads = before.ends_with('-') && indent.bytes().all(|b| b == b' ');
        leads.then_some((line, indent.len()))
    }

    /// The last line (from 0) of an item in a block list whose dashes are in column `dash`: further
    /// lines, including comments, belong to it if they are indented more.
    fn last_line(&self, item: &Node, dash: usize) -> usize {
        let mut last = self.last_known_line(item);
        for n in last + 1..self.starts.len() {
            let line = self.line(n);
            if line.trim().is_empty() {
                continue;
            }
            if line.len() - line.trim_start_matches(' ').len() <= dash {
                break;
            }
            last = n;
        }
        last
    }

    /// Whether a list is written in brackets.
    pub(super) fn is_flow(&self, list: &Node) -> bool {
        self.offset_of(list.pos)
            .is_some_and(|at| self.text[at..].starts_with('['))
    }

    /// The text with a new item at the end of a list.
    pub(super) fn append(&self, list: &Node, item: &str) -> Option<String> {
        let Value::List(items) = &list.value else {
            return None;
        };
        if self.is_flow(list) {
            return self.append_flow(list, items, item);
        }
        let last = items.last()?;
        let (_, dash) = self.dash(last)?;
        let line = format!("{}- {item}", " ".repeat(dash));
        Some(self.after_line(self.last_line(last, dash), &line))
    }

    fn append_flow(&self, list: &Node, items: &[Node], item: &str) -> Option<String> {
        let Some(last) = items.last() else {
            let inside = self.offset_of(list.pos)? + 1;
            return Some(self.spliced(inside, inside, item));
        };
        let (start, end) = (self.offset_of(last.pos)?, self.end(last)?);
        let line = self.line_of(start);
        let indent = &self.text[self.starts[line]..start];
        if !indent.trim().is_empty() {
            return Some(self.spliced(end, end, &format!(", {item}")));
        }
        // The last item begins a line, so the new item does, too.
        let eol = self.eol();
        let stop = self.end_of_line(self.line_of(end));
        let rest = &self.text[end..stop];
        let (comma, rest) = match rest.strip_prefix(',') {
            Some(rest) => (",", rest),
            None => ("", rest),
        };
        if rest.trim().is_empty() || rest.trim_start().starts_with('#') {
            let put = format!(",{rest}{eol}{indent}{item}{comma}");
            return Some(self.spliced(end, stop, &put));
        }
        Some(self.spliced(end, end, &format!(",{eol}{indent}{item}")))
    }

    /// The text without one item of a list.
    pub(super) fn remove(&self, list: &Node, index: usize) -> Option<String> {
        let Value::List(items) = &list.value else {
            return None;
        };
        let item = items.get(index)?;
        if self.is_flow(list) {
            return self.remove_flow(items, index);
        }
        let (line, dash) = self.dash(item)?;
        let to = self.starts.get(self.last_line(item, dash) + 1);
        Some(self.spliced(
            self.starts[line],
            to.copied().unwrap_or(self.text.len()),
            "",
        ))
    }

    fn remove_flow(&self, items: &[Node], index: usize) -> Option<String> {
        let item = &items[index];
        let (start, end) = (self.offset_of(item.pos)?, self.end(item)?);
        let (first, last) = (self.line_of(start), self.line_of(end));
        let before = &self.text[self.starts[first]..start];
        let after = &self.text[end..self.end_of_line(last)];
        let after = after.strip_prefix(',').unwrap_or(after).trim_start();
        if before.trim().is_empty() && (after.is_empty() || after.starts_with('#')) {
            let next = self.starts.get(last + 1)?;
            return Some(self.spliced(self.starts[first], *next, ""));
        }
        if let Some(next) = items.get(index + 1) {
            let to = self.offset_of(next.pos)?;
            let between = self.text[end..to].trim();
            return (between == ",").then(|| self.spliced(start, to, ""));
        }
        let rest = &self.text[end..];
        let comma = rest.len() - rest.trim_start().len();
        let end = match rest.trim_start().starts_with(',') {
            true => end + comma + 1,
            false => end,
        };
        let from = match index.checked_sub(1) {
            Some(previous) => self.end(&items[previous])?,
            None => start,
        };
        let between = self.text[from..start].trim();
        (between.is_empty() || between == ",").then(|| self.spliced(from, end, ""))
    }

    /// The text with other words in place of a scalar, if the scalar is written exactly as the tree
    /// has it.
    pub(super) fn replace(&self, scalar: &Node, words: &str) -> Option<String> {
        let Value::Text { text, quoted } = &scalar.value else {
            return None;
        };
        let (start, end) = (self.offset_of(scalar.pos)?, self.end(scalar)?);
        let written = &self.text[start..end];
        if *quoted && written.get(1..written.len() - 1) != Some(text.as_str()) {
            return None;
        }
        let put = match written.as_bytes().first() {
            Some(b'"') if !words.contains(['"', '\\']) => format!("\"{words}\""),
            _ if *quoted => quoted_text(words),
            _ => scalar_text(words),
        };
        Some(self.spliced(start, end, &put))
    }
}

/// A scalar for the text: in quotes unless it consists of plain words.
pub(super) fn scalar_text(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-~+ ".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && text.chars().all(plain) && !text.ends_with(' ') {
        text.to_owned()
    } else {
        quoted_text(text)
    }
}

fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Length of a quoted scalar at the beginning of `rest`, bytes.
fn closing_quote(rest: &str, quote: char) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((i, c)) = chars.next() {
        let next = chars.peek().map(|&(_, c)| c);
        if c == '\\' && quote == '"' || c == quote && quote == '\'' && next == Some('\'') {
            chars.next();
        } else if c == quote {
            return Some(i + 1);
        }
    }
    None
}

/// The byte offset after the bracket that closes the one at `at`.
fn closing_bracket(text: &str, at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    // The last character that was not a blank: a quote starts a scalar only where a value may
    // begin.
    let mut before = ' ';
    let mut i = at;
    while let Some(c) = text[i..].chars().next() {
        let blank_before = text[..i].ends_with(char::is_whitespace);
        match c {
            '#' if blank_before => {
                i += text[i..].find('\n')?;
                continue;
            }
            '\'' | '"' if "[{,:".contains(before) => {
                i += closing_quote(&text[i..], c)?;
                before = c;
                continue;
            }
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        i += c.len_utf8();
        if depth == 0 {
            return Some(i);
        }
        if !c.is_whitespace() {
            before = c;
        }
    }
    None
}
