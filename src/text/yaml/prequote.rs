//! Puts quotes around the only form of values that administrators write and YAML does not allow:
//! `resources: [mem,5000] [gpu, 2]`, bracket groups side by side. Records where, so that columns
//! are reported as written.

use super::Pos;
use super::prescan::BlockText;

/// A text for the parser, with a mapping of its places to those of the file.
pub(super) struct Quoted {
    pub text: String,
    /// Line (from 1) and column (from 0, in the new line) of each added character, ascending.
    added: Vec<(usize, usize)>,
}

impl Quoted {
    /// The place in the file for the parser's line (from 1) and column (from 0).
    pub(super) fn original(&self, line: usize, col: usize) -> Pos {
        let first = self.added.partition_point(|&(l, _)| l < line);
        let before = self.added.partition_point(|&at| at < (line, col)) - first;
        Pos::new(line as u32, (col - before) as u32 + 1)
    }
}

/// Joins the lines and quotes the unquoted values of these keys.
pub(super) fn quote(lines: &[String], keys: &[&str]) -> Quoted {
    let size = lines.iter().map(|l| l.len() + 1).sum();
    let mut out = Quoted {
        text: String::with_capacity(size),
        added: Vec::new(),
    };
    let mut block = BlockText::default();
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.text.push('\n');
        }
        if block.holds(line) || !line.contains('[') || keys.is_empty() {
            out.text.push_str(line);
        } else {
            quote_line(line, i + 1, keys, &mut out);
        }
    }
    out
}

fn quote_line(line: &str, number: usize, keys: &[&str], out: &mut Quoted) {
    let mut rest = line;
    let mut col = 0;
    let mut push = |out: &mut Quoted, text: &str| {
        out.text.push_str(text);
        col += text.chars().count();
        col
    };
    while let Some((start, end)) = find_groups(rest, line.len() - rest.len(), line, keys) {
        push(out, &rest[..start]);
        let at = push(out, "'") - 1;
        out.added.push((number, at));
        push(out, &rest[start..end]);
        let at = push(out, "'") - 1;
        out.added.push((number, at));
        rest = &rest[end..];
    }
    push(out, rest);
}

/// The bytes of `rest` (which starts at byte `base` of `line`) with the groups of the next key.
fn find_groups(rest: &str, base: usize, line: &str, keys: &[&str]) -> Option<(usize, usize)> {
    let mut quote: Option<char> = None;
    for (i, c) in rest.char_indices() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '#' && line[..base + i].ends_with([' ', '\t']) => return None,
            None if matches!(c, '\'' | '"') && opens_quote(&line[..base + i]) => quote = Some(c),
            None if c == '[' && follows_key(&line[..base + i], keys) => {
                if let Some(len) = groups(&rest[i..]) {
                    return Some((i, i + len));
                }
            }
            None => {}
        }
    }
    None
}

/// A quote character starts a quoted text only where a value or key may begin.
fn opens_quote(before: &str) -> bool {
    let b = before.trim_end();
    b.is_empty() || b.ends_with(['{', '[', ',', ':', '-', '?'])
}

/// Whether the text ends in `KEY: ` with KEY at the beginning of an entry.
fn follows_key(before: &str, keys: &[&str]) -> bool {
    let Some(b) = before.trim_end().strip_suffix(':') else {
        return false;
    };
    if !before.ends_with(' ') {
        return false;
    }
    keys.iter().any(|key| {
        b.strip_suffix(key).is_some_and(|head| {
            let head = head.trim_end_matches(' ');
            head.is_empty() || head.ends_with(['{', ',', '-'])
        })
    })
}

/// Length of a run of bracket groups that ends the value, or `None` if it is something else.
fn groups(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut end = None;
    for (i, c) in text.char_indices() {
        match c {
            '[' if depth == 0 => depth = 1,
            ']' if depth == 1 => {
                depth = 0;
                end = Some(i + 1);
            }
            '[' | ']' | '{' | '\'' | '"' => break,
            '}' | ',' if depth == 0 => break,
            ' ' | '\t' => {}
            '#' if depth == 0 => break,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    if depth == 0 { end } else { None }
}
