//! Files in which users define jobs and cron jobs: YAML or JSON.
//!
//! Owns how values are read and how errors are reported with their position. Knows no key and reads
//! no file.

use super::exit::{Fail, Result};
use crate::text::error::did_you_mean;
use crate::text::yaml::{self, Entry, Limits, Node, Pos, Value};

/// Maximum size of a file, in bytes.
pub(super) const FILE_MAX: usize = 1 << 20;

/// The content of a file. `place`: its name.
///
/// # Errors
/// Names the first error by line and column.
pub(super) fn tree(bytes: &[u8], place: &str) -> Result<Node> {
    let read = yaml::parse(bytes, &Limits::bytes(FILE_MAX), &[]);
    if let Some(defect) = read.defects.first() {
        let hint = defect.hint.as_ref().map(|hint| format!("\nhint: {hint}"));
        let hint = hint.unwrap_or_default();
        return Err(failure_at(place, defect.pos, &defect.message, &hint));
    }
    read.root
        .ok_or_else(|| Fail::usage(format!("{place}: it contains no definition")))
}

/// A failure with its position in a file.
pub(super) fn failure_at(place: &str, pos: Pos, text: &str, more: &str) -> Fail {
    Fail::usage(format!("{place}:{}:{}: {text}{more}", pos.line, pos.col))
}

/// A key in any of its spellings: `MaxFails`, `max_fails`, `maxfails`.
pub(super) fn normalized_key(key: &str) -> String {
    let letters = key.chars().filter(|c| !matches!(c, '_' | '-'));
    letters.flat_map(char::to_lowercase).collect()
}

/// Reads values of one file.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub place: &'a str,
}

impl Reader<'_> {
    pub(super) fn invalid(&self, pos: Pos, text: impl AsRef<str>) -> Fail {
        failure_at(self.place, pos, text.as_ref(), "")
    }

    pub(super) fn map<'n>(&self, node: &'n Node, what: &str) -> Result<&'n [Entry]> {
        match &node.value {
            Value::Map(entries) => Ok(entries),
            _ => Err(self.invalid(node.pos, format!("{what}: give a map of keys and values"))),
        }
    }

    pub(super) fn text<'n>(&self, entry: &'n Entry) -> Result<&'n str> {
        self.text_of(&entry.key, &entry.value)
    }

    fn text_of<'n>(&self, key: &str, node: &'n Node) -> Result<&'n str> {
        match &node.value {
            Value::Text { text, .. } if !text.contains('\0') => Ok(text),
            _ => Err(self.invalid(node.pos, format!("{key}: give a text"))),
        }
    }

    /// One text, or a list of them.
    pub(super) fn texts<'n>(&self, entry: &'n Entry) -> Result<Vec<&'n str>> {
        match &entry.value.value {
            Value::List(nodes) => {
                let texts = nodes.iter().map(|node| self.text_of(&entry.key, node));
                texts.collect()
            }
            _ => Ok(vec![self.text(entry)?]),
        }
    }

    pub(super) fn number(&self, entry: &Entry) -> Result<u64> {
        let text = self.text(entry)?;
        let digits =
            !text.is_empty() && text.len() < 10 && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten().ok_or_else(|| {
            let key = &entry.key;
            self.invalid(entry.value.pos, format!("{key}: '{text}' is not a number"))
        })
    }

    pub(super) fn small(&self, entry: &Entry) -> Result<u32> {
        let n = self.number(entry)?;
        u32::try_from(n)
            .map_err(|_| self.invalid(entry.value.pos, format!("{}: too big", entry.key)))
    }

    pub(super) fn read_flag(&self, entry: &Entry) -> Result<bool> {
        match self.text(entry)? {
            "yes" | "true" => Ok(true),
            "no" | "false" => Ok(false),
            _ => {
                let text = format!("{}: write yes or no", entry.key);
                Err(self.invalid(entry.value.pos, text))
            }
        }
    }

    pub(super) fn unknown<'k>(&self, entry: &Entry, known: impl Iterator<Item = &'k str>) -> Fail {
        let key = &entry.key;
        let hint = did_you_mean(&normalized_key(key), known);
        self.invalid(entry.key_pos, format!("no key is named '{key}' here{hint}"))
    }
}

/// The entries of a map that have a value. A key that is given twice, in any spelling, is refused;
/// `of` returns the common name of keys that mean the same.
///
/// # Errors
/// The node is not a map, or a key is given twice.
pub(super) fn entries<'n>(
    node: &'n Node,
    what: &str,
    r: Reader<'_>,
    of: impl Fn(&str) -> String,
) -> Result<Vec<(String, &'n Entry)>> {
    let mut out: Vec<(String, &Entry)> = Vec::new();
    for entry in r.map(node, what)? {
        let key = of(&normalized_key(&entry.key));
        if out.iter().any(|(known, _)| *known == key) {
            let text = format!("{}: it was given before", entry.key);
            return Err(r.invalid(entry.key_pos, text));
        }
        if !is_null(&entry.value.value) {
            out.push((key, entry));
        }
    }
    Ok(out)
}

/// Programs that write JSON write `null` for unset values.
fn is_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Text { text, quoted } => !quoted && text == "null",
        _ => false,
    }
}
