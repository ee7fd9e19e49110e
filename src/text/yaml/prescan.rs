//! Checks the raw bytes before parsing: size, encoding, control characters, tabs. Also splits a
//! text into parts that can be omitted.

use super::{Defect, Limits, Pos};

/// A text that can be parsed, as lines without line endings.
pub(super) struct Scan {
    pub lines: Vec<String>,
    /// Lines indented with tabs.
    pub tabs: Vec<Defect>,
}

/// # Errors
/// Why the bytes cannot be parsed at all.
pub(super) fn check(bytes: &[u8], limits: &Limits) -> Result<Scan, Vec<Defect>> {
    let whole = |code, message: String| Defect::new(Pos::new(1, 1), code, message);
    if bytes.len() > limits.bytes {
        let message = format!(
            "{} bytes, more than the {} allowed",
            bytes.len(),
            limits.bytes
        );
        return Err(vec![whole("too-large", message)]);
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let defect = whole("encoding", "the file is UTF-16, not UTF-8".into());
        return Err(vec![defect.hint("save it as UTF-8")]);
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(e) => return Err(vec![not_utf8(bytes, e.valid_up_to())]),
    };
    let count = text.bytes().filter(|&b| b == b'\n').count();
    if count > limits.nodes {
        let message = format!("{count} lines, more than the {} allowed", limits.nodes);
        return Err(vec![whole("too-many", message)]);
    }
    let lines: Vec<String> = split(text);
    let control = control_bytes(&lines, limits.defects);
    if !control.is_empty() {
        return Err(control);
    }
    if lines
        .iter()
        .all(|l| l.trim().is_empty() || l.trim_start().starts_with('#'))
    {
        let defect = whole("empty", "the file is empty".into());
        return Err(vec![defect.hint("it contains only blanks and comments")]);
    }
    let tabs = tabs(&lines, limits.defects);
    Ok(Scan { lines, tabs })
}

fn split(text: &str) -> Vec<String> {
    text.split('\n')
        .map(|l| l.strip_suffix('\r').unwrap_or(l).to_string())
        .collect()
}

fn not_utf8(bytes: &[u8], at: usize) -> Defect {
    let before = &bytes[..at];
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let start = before
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |p| p + 1);
    let col = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    let message = format!("byte 0x{:02x} is not UTF-8", bytes[at]);
    Defect::new(Pos::new(line as u32, col as u32), "encoding", message).hint("save it as UTF-8")
}

fn control_bytes(lines: &[String], most: usize) -> Vec<Defect> {
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let bad = |c: &char| c.is_control() && *c != '\t' && *c != '\u{85}';
        // A shortcut: almost no line contains such bytes, so its characters need not be decoded.
        if !line.bytes().any(|b| b < b' ' || b == 0x7f || b == 0xc2) {
            continue;
        }
        for (j, c) in line.chars().enumerate().filter(|(_, c)| bad(c)) {
            if found.len() >= most {
                return found;
            }
            let pos = Pos::new(i as u32 + 1, j as u32 + 1);
            let defect = match c {
                '\0' => Defect::new(pos, "nul", "NUL in the text"),
                '\r' => Defect::new(pos, "control", "carriage return inside a line"),
                c => Defect::new(
                    pos,
                    "control",
                    format!("control character U+{:04X}", c as u32),
                ),
            };
            found.push(defect.hint("remove it"));
        }
    }
    found
}

fn tabs(lines: &[String], most: usize) -> Vec<Defect> {
    let mut found = Vec::new();
    let mut block = BlockText::default();
    for (i, line) in lines.iter().enumerate() {
        if block.holds(line) || found.len() >= most {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        let rest = &line[indent.len()..];
        if let Some(at) = indent.find('\t')
            && !rest.is_empty()
            && !rest.starts_with('#')
        {
            let pos = Pos::new(i as u32 + 1, at as u32 + 1);
            let defect = Defect::new(pos, "tab", "tab in the indentation");
            found.push(defect.hint("replace the tab with blanks"));
        }
    }
    found
}

/// Follows a text line by line and reports which lines belong to a block text (`key: |`), where
/// everything is content.
#[derive(Default)]
pub(super) struct BlockText {
    /// Indentation of the line that opened the block text.
    opened: Option<usize>,
}

impl BlockText {
    pub(super) fn holds(&mut self, line: &str) -> bool {
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        if let Some(opened) = self.opened {
            if body.is_empty() || indent > opened {
                return true;
            }
            self.opened = None;
        }
        let code = body.split(" #").next().unwrap_or(body).trim_end();
        let head = code.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
        let opens = [": |", ": >", "- |", "- >"]
            .iter()
            .any(|end| head.ends_with(end));
        if opens && !body.starts_with('#') {
            self.opened = Some(indent);
        }
        false
    }
}

/// Blanks the smallest self-contained part of the text around line `at` (from 0): the item of a
/// list directly below a top-level key, else the lines of the top-level key. Returns the number of
/// the first line after it.
pub(super) fn drop_part(lines: &mut [String], at: usize) -> usize {
    let top = |l: &str| !l.is_empty() && !l.starts_with([' ', '\t', '#', '-']);
    let at = at.min(lines.len().saturating_sub(1));
    let section = (0..=at).rev().find(|&i| top(&lines[i])).unwrap_or(0);
    let end = (at + 1..lines.len())
        .find(|&i| top(&lines[i]))
        .unwrap_or(lines.len());
    let dash = |l: &str| {
        l.trim_start_matches([' ', '\t'])
            .starts_with('-')
            .then(|| indent(l))
    };
    let item = (section + 1..end).find_map(|i| dash(&lines[i]));
    let (from, to) = match item {
        Some(depth) if at > section => {
            let starts = |i: &usize| dash(&lines[*i]).is_some_and(|d| d <= depth);
            let from = (section + 1..=at).rev().find(starts).unwrap_or(section);
            (from, (at + 1..end).find(starts).unwrap_or(end))
        }
        _ => (section, end),
    };
    for line in &mut lines[from..to] {
        line.clear();
    }
    to
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}
