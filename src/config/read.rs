//! Typed reading of YAML nodes for the sections of cb.yaml: one getter per kind of value. Each
//! getter records errors and returns `None`, so that one run finds every problem.

use super::keys::{Key, KeyState};
use super::problem::Problem;
use super::types::{Cluster, General, HostGroup, HostTable, UserGroup};
use crate::text::duration::{self, DefaultUnit};
use crate::text::error::nearest;
use crate::text::size::{self, Unit};
use crate::text::yaml::{Entry, Node, Pos, Value};
use crate::text::{ParseError, names};
use std::collections::{BTreeMap, HashMap};

// Times in milliseconds.
pub(super) const SECOND: u64 = 1000;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;
pub(super) const DAY: u64 = 24 * HOUR;
pub(super) const YEAR: u64 = 365 * DAY;

/// Maximum number of problems, and of warnings, that are kept for a file; further ones are only
/// counted.
const PROBLEMS_KEPT: usize = 100;

/// Maximum number of names compared for a "did you mean".
pub(super) const MAX_GUESSED: usize = 2000;

/// Which names the operating system knows.
pub struct OsNames<'a> {
    pub user: &'a dyn Fn(&str) -> bool,
    pub group: &'a dyn Fn(&str) -> bool,
}

impl OsNames<'_> {
    /// Accepts every name: for checks away from the cluster.
    pub const ANY: OsNames<'static> = OsNames {
        user: &|_| true,
        group: &|_| true,
    };
}

/// Sections that were read before those that refer to them.
pub(super) struct Defined<'a> {
    pub cluster: &'a Cluster,
    pub general: &'a General,
    pub hosts: &'a HostTable,
    pub host_groups: &'a BTreeMap<String, HostGroup>,
    pub user_groups: &'a BTreeMap<String, UserGroup>,
}

/// The state that all readers share: it collects problems.
pub(super) struct Ctx<'a> {
    pub file: &'a str,
    pub lines: Vec<&'a str>,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
    /// There were more problems than were kept.
    pub left_out: bool,
    pub os: &'a OsNames<'a>,
    /// Parts of the file could not be read: a name that is not found may have been in them.
    pub partial: bool,
}

impl Ctx<'_> {
    fn make(&self, pos: Pos, code: &'static str, message: String) -> Problem {
        let source = self.lines.get((pos.line as usize).wrapping_sub(1));
        Problem {
            file: self.file.to_string(),
            line: pos.line,
            col: pos.col,
            code,
            message,
            source: source.map_or("", |l| l.trim_end_matches('\r')).to_string(),
            hint: None,
        }
    }

    /// The line after the last problem if there were more.
    pub(super) fn more_problems(&self) -> Problem {
        let message = format!("more than {PROBLEMS_KEPT} problems: the rest are not shown");
        self.make(Pos::default(), "too-many-problems", message)
    }

    pub(super) fn problem(&mut self, pos: Pos, code: &'static str, message: impl Into<String>) {
        let p = self.make(pos, code, message.into());
        self.push_problem(p);
    }

    pub(super) fn problem_hint(
        &mut self,
        pos: Pos,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let mut p = self.make(pos, code, message.into());
        p.hint = Some(hint.into());
        self.push_problem(p);
    }

    fn push_problem(&mut self, p: Problem) {
        if self.problems.len() < PROBLEMS_KEPT {
            self.problems.push(p);
        } else {
            self.left_out = true;
        }
    }

    pub(super) fn warn(
        &mut self,
        pos: Pos,
        code: &'static str,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let mut p = self.make(pos, code, message.into());
        p.hint = hint;
        if self.warns() {
            self.warnings.push(p);
        }
    }

    /// Reports a name that is not defined. `known`: names that may have been meant.
    pub(super) fn undefined<'k>(
        &mut self,
        pos: Pos,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) {
        let at = (pos.line, pos.col);
        let reported = |p: &Problem| p.code == "undefined" && (p.line, p.col) == at;
        self.left_out |= !self.partial && self.problems.len() >= PROBLEMS_KEPT;
        if self.partial || self.left_out || self.problems.last().is_some_and(reported) {
            return;
        }
        let mut p = self.make(pos, "undefined", format!("{what} {name:?} is not defined"));
        p.hint = did_you_mean(name, known);
        self.push_problem(p);
    }

    /// Reports an error that a parser of `text` found in the value `words`.
    pub(super) fn parse_error(&mut self, words: &Words, code: &'static str, e: &ParseError) {
        let pos = words.pos_at(e.at, self);
        let mut p = self.make(pos, code, e.message.clone());
        p.hint = e.hint.clone();
        self.push_problem(p);
    }

    /// Checks a name of Corral's (host, queue, group, model); returns whether it is valid.
    pub(super) fn check_name(&mut self, words: &Words) -> bool {
        match names::check_name(&words.text) {
            Ok(()) => true,
            Err(e) => {
                self.parse_error(words, "name", &e);
                false
            }
        }
    }

    /// Whether another warning would be kept.
    pub(super) fn warns(&self) -> bool {
        self.warnings.len() < PROBLEMS_KEPT
    }

    pub(super) fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        match &node.value {
            Value::List(items) => items,
            Value::Null | Value::Refused => &[],
            _ => {
                let hint = "begin each entry with \"- \"";
                self.problem_hint(node.pos, "type", format!("{what} must be a list"), hint);
                &[]
            }
        }
    }
}

/// A scalar, or a list of scalars joined by blanks, with the position of each part.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub text: String,
    pub pos: Pos,
    pub quoted: bool,
    /// Byte offset in `text` and place of each part.
    parts: Vec<(usize, Pos)>,
    /// Written as a list: each entry is a part.
    is_list: bool,
}

impl Words {
    pub(super) fn one_word(text: &str, pos: Pos, quoted: bool) -> Words {
        Words {
            text: text.to_string(),
            pos,
            quoted,
            parts: vec![(0, pos)],
            is_list: false,
        }
    }

    /// The entries of a list with their places; nothing if it was not written as one.
    pub(super) fn entries(&self) -> Vec<(&str, Pos)> {
        if !self.is_list {
            return Vec::new();
        }
        let ends = self.parts.iter().skip(1).map(|(start, _)| start - 1);
        let ends = ends.chain([self.text.len()]);
        let parts = self.parts.iter().zip(ends);
        let entry =
            |((start, pos), end): (&(usize, Pos), usize)| Some((self.text.get(*start..end)?, *pos));
        parts.filter_map(entry).collect()
    }

    /// The position of the word `name`, with or without a leading `~` and a trailing `+n`.
    pub(super) fn pos_of(&self, name: &str, ctx: &Ctx<'_>) -> Pos {
        let is_name = |(_, word): &(usize, &str)| {
            let word = word.trim_start_matches('~').trim_end_matches(',');
            word.split('+').next() == Some(name)
        };
        let at = split(&self.text).find(is_name).map_or(0, |(at, _)| at);
        self.pos_at(at, ctx)
    }

    /// The place of byte `at` of the text, or of its part if the file writes the part in another
    /// form (escapes, several lines).
    pub(super) fn pos_at(&self, at: usize, ctx: &Ctx<'_>) -> Pos {
        let index = self.parts.partition_point(|&(start, _)| start <= at).max(1) - 1;
        let (start, pos) = self.parts[index];
        let Some(before) = self.text.get(start..at.min(self.text.len())) else {
            return pos;
        };
        let Some(line) = ctx.lines.get(pos.line as usize - 1) else {
            return pos;
        };
        let mut rest: &str = line
            .char_indices()
            .nth(pos.col as usize - 1)
            .map_or("", |(i, _)| &line[i..]);
        let mut col = pos.col;
        if rest.starts_with(['\'', '"']) {
            rest = &rest[1..];
            col += 1;
        }
        if !rest.starts_with(before) {
            return pos;
        }
        Pos::new(pos.line, col + before.chars().count() as u32)
    }
}

/// The entries of one map, checked against its table of keys.
pub(super) struct Fields<'n> {
    pub pos: Pos,
    entries: HashMap<&'n str, &'n Entry>,
}

impl<'n> Fields<'n> {
    /// `what` is the name of the map in messages: `queue "low"`, `cluster`.
    pub(super) fn new(
        ctx: &mut Ctx<'_>,
        node: &'n Node,
        table: &[Key],
        what: &str,
    ) -> Option<Fields<'n>> {
        let entries: &'n [Entry] = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            Value::Refused => return None,
            _ => {
                let hint = "write \"key: value\" lines";
                ctx.problem_hint(
                    node.pos,
                    "type",
                    format!("{what} must be keys and values"),
                    hint,
                );
                return None;
            }
        };
        for e in entries {
            check_key(ctx, e, table, what);
        }
        let entries = entries.iter().map(|e| (e.key.as_str(), e)).collect();
        Some(Fields {
            pos: node.pos,
            entries,
        })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The position of the key, or of the map if the key is missing.
    pub(super) fn key_pos(&self, key: &str) -> Pos {
        self.entries.get(key).map_or(self.pos, |e| e.key_pos)
    }

    pub(super) fn node(&self, key: &str) -> Option<&'n Node> {
        self.entries.get(key).map(|e| &e.value)
    }

    /// A scalar. Absent: `None`. Other values: a problem and `None`.
    pub(super) fn scalar(&self, ctx: &mut Ctx<'_>, key: &str) -> Option<Words> {
        let e = self.entries.get(key)?;
        match &e.value.value {
            Value::Text { text, quoted } => Some(Words::one_word(text, e.value.pos, *quoted)),
            Value::Refused => None,
            Value::Null => {
                no_value(ctx, e);
                None
            }
            Value::List(_) | Value::Map(_) => {
                let hint = "quote it if the brackets belong to the text";
                ctx.problem_hint(e.value.pos, "type", format!("{key} takes one value"), hint);
                None
            }
        }
    }

    /// A scalar or a list of scalars.
    pub(super) fn read_words(&self, ctx: &mut Ctx<'_>, key: &str) -> Option<Words> {
        let e = self.entries.get(key)?;
        let Value::List(items) = &e.value.value else {
            return self.scalar(ctx, key);
        };
        let mut out = Words {
            text: String::new(),
            pos: e.value.pos,
            quoted: true,
            parts: vec![],
            is_list: true,
        };
        for item in items {
            match &item.value {
                Value::Text { text, .. } => {
                    if !out.text.is_empty() {
                        out.text.push(' ');
                    }
                    out.parts.push((out.text.len(), item.pos));
                    out.text.push_str(text);
                }
                Value::Refused => {}
                Value::Null => {
                    let hint = "a lone ~ is null in YAML: write '~NAME' or remove it";
                    ctx.problem_hint(item.pos, "no-value", "this entry is empty", hint);
                }
                _ => ctx.problem(item.pos, "type", format!("{key} accepts only names")),
            }
        }
        if out.parts.is_empty() {
            out.parts.push((0, e.value.pos));
        }
        Some(out)
    }

    pub(super) fn flag(&self, ctx: &mut Ctx<'_>, key: &str, default: bool) -> bool {
        let Some(w) = self.scalar(ctx, key) else {
            return default;
        };
        boolean(&w.text).unwrap_or_else(|| {
            let message = format!("{key}: {:?} is neither yes nor no", w.text);
            ctx.problem_hint(w.pos, "flag", message, "write yes or no");
            default
        })
    }

    /// A whole number in `low..=high`.
    pub(super) fn number(&self, ctx: &mut Ctx<'_>, key: &str, low: u64, high: u64) -> Option<u64> {
        let w = self.scalar(ctx, key)?;
        whole_number(ctx, key, &w, low, high)
    }

    /// A count in `low..=u32::MAX` or `unlimited`; absent is unlimited.
    pub(super) fn limit(&self, ctx: &mut Ctx<'_>, key: &str, low: u32) -> Option<u32> {
        let w = self.scalar(ctx, key)?;
        if w.text.eq_ignore_ascii_case("unlimited") {
            return None;
        }
        let n = whole_number(ctx, key, &w, low.into(), i32::MAX as u64)?;
        u32::try_from(n).ok()
    }

    /// A time in milliseconds within `low..=high`; a bare number is in seconds.
    pub(super) fn time(&self, ctx: &mut Ctx<'_>, key: &str, low: u64, high: u64) -> Option<u64> {
        let w = self.scalar(ctx, key)?;
        match duration::parse_ms_from(&w.text, DefaultUnit::Seconds, 0) {
            Ok(ms) if (low..=high).contains(&ms) => Some(ms),
            Ok(_) => {
                let (low, high) = (duration::short(low), duration::short(high));
                let message = format!("{key} {} is outside {low} to {high}", w.text);
                ctx.problem(w.pos, "range", message);
                None
            }
            Err(e) => {
                ctx.parse_error(&w, "time", &e);
                None
            }
        }
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &self,
        ctx: &mut Ctx<'_>,
        key: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let w = self.scalar(ctx, key)?;
        let found = choices
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&w.text));
        if found.is_none() {
            let all: Vec<&str> = choices.iter().map(|(n, _)| *n).collect();
            let message = format!("{key}: {:?} is not known", w.text);
            ctx.problem_hint(
                w.pos,
                "choice",
                message,
                format!("write {}", all.join(", ")),
            );
        }
        found.map(|(_, v)| *v)
    }
}

/// A hint with the known name that is most similar to `name`.
pub(super) fn did_you_mean<'k>(
    name: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<String> {
    nearest(name, known.into_iter().take(MAX_GUESSED)).map(|n| format!("did you mean {n:?}?"))
}

fn no_value(ctx: &mut Ctx<'_>, e: &Entry) {
    let written = ctx
        .lines
        .get(e.value.pos.line as usize - 1)
        .is_some_and(|l| l.contains('~'));
    let hint = if written {
        "a lone ~ is null in YAML: quote it"
    } else {
        "write a value or remove the key"
    };
    ctx.problem_hint(
        e.key_pos,
        "no-value",
        format!("{} has no value", e.key),
        hint,
    );
}

fn check_key(ctx: &mut Ctx<'_>, e: &Entry, table: &[Key], what: &str) {
    if ctx.problems.len() >= PROBLEMS_KEPT {
        ctx.left_out = true;
        return;
    }
    let Some(known) = table.iter().find(|k| k.name == e.key) else {
        let lower = e.key.to_ascii_lowercase();
        let guess = match table.iter().find(|k| k.lsf == lower) {
            Some(k) => Some(k.name),
            None => nearest(&lower, table.iter().map(|k| k.name)),
        };
        let hint = match guess {
            Some(name) => format!("did you mean {name}?"),
            None => match table.iter().any(|k| k.name == "label_zh") {
                true => "see capps(1) for the keys it may have".to_string(),
                false => "see cb.yaml(5) for the keys it may have".to_string(),
            },
        };
        let message = format!("unknown key {:?} in {what}", e.key);
        return ctx.problem_hint(e.key_pos, "unknown-key", message, hint);
    };
    if known.state == KeyState::Later {
        let message = format!("{} is not implemented in this version", e.key);
        let hint = match (e.key.as_str(), what) {
            ("users", "the template") => {
                "write it into the profile: section apps of cb.yaml, which the leader obeys"
            }
            _ => "remove it: it would have no effect",
        };
        ctx.problem_hint(e.key_pos, "not-implemented", message, hint);
    }
}

/// The text under a key of a map, if there is one.
pub(super) fn text_of<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    let Value::Map(entries) = &node.value else {
        return None;
    };
    entries
        .iter()
        .find(|e| e.key == key)
        .and_then(|e| match &e.value.value {
            Value::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
}

pub(super) fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "y" | "on" | "true" => Some(true),
        "no" | "n" | "off" | "false" => Some(false),
        _ => None,
    }
}

/// A whole number: digits only, no leading zero.
pub(super) fn whole_number(
    ctx: &mut Ctx<'_>,
    key: &str,
    w: &Words,
    low: u64,
    high: u64,
) -> Option<u64> {
    whole_word(ctx, key, &w.text, w.pos, low, high)
}

pub(super) fn whole_word(
    ctx: &mut Ctx<'_>,
    key: &str,
    text: &str,
    pos: Pos,
    low: u64,
    high: u64,
) -> Option<u64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        let message = format!("{key}: {text:?} is not a whole number");
        ctx.problem_hint(pos, "number", message, format!("write {low} to {high}"));
        return None;
    }
    if digits.len() > 1 && digits.starts_with('0') {
        let plain = digits.trim_start_matches('0');
        let plain = if plain.is_empty() { "0" } else { plain };
        let message = format!("{key}: {text} has a leading zero");
        ctx.problem_hint(
            pos,
            "number",
            message,
            format!("write {plain} (octal numbers are not supported)"),
        );
        return None;
    }
    match text.trim_start_matches('+').parse::<u64>() {
        Ok(n) if (low..=high).contains(&n) => Some(n),
        _ => {
            ctx.problem(
                pos,
                "range",
                format!("{key} {text} is outside {low} to {high}"),
            );
            None
        }
    }
}

/// A decimal number without exponent or leading zeros.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (int, frac) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let padded = int.len() > 1 && int.starts_with('0');
    if !all_digits(int) || !all_digits(frac) || padded || text.len() > 18 {
        return None;
    }
    text.parse().ok().filter(|n: &f64| n.is_finite())
}

/// A size in bytes.
pub(super) fn size_word(
    ctx: &mut Ctx<'_>,
    w: &Words,
    at: usize,
    text: &str,
    unit: Unit,
) -> Option<u64> {
    match size::parse(text, unit) {
        Ok(n) => Some(n),
        Err(e) => {
            ctx.parse_error(w, "size", &e.shifted(at));
            None
        }
    }
}

/// Words of a text with their byte offsets.
pub(super) fn split(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace()
        .map(move |w| (w.as_ptr() as usize - text.as_ptr() as usize, w))
}
