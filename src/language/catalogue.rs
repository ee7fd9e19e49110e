//! The catalogue of the messages of commands: English patterns and Chinese sentences.
//!
//! Owns the matching of texts with patterns. A pattern is the format string of the source; `{}` and
//! `{name}` are its values. In the Chinese sentence, `{name}` and `{0}` (the first value without a
//! name) are replaced by the same text, and
//! `{name:t}` by its translation, if the catalogue has one;
//! `{name:T}` likewise, but without an entry the pattern does not match;
//! `{name:-}` by nothing;
//! `{name:n}` by a number; the pattern does not match other texts.
//! A plain value does not contain `; `, and contains `: ` only if the pattern ends with the value.
//! Of several matching patterns, the one with the most literal characters applies; see [`Pattern`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The text of the catalogue, in the format of GNU gettext; each msgid and msgstr is one line.
pub const CATALOGUE: &str = include_str!("zh_CN.po");

/// Maximum number of lookups of sentences within a line: limits the cost of malicious texts.
const LOOKS: u32 = 200;
/// A pattern that joins sentences ranks like a pattern with this many literal characters.
const JOINT_RANK: usize = 12;
/// Maximum length of the name of a command (`cadmin schedrestart`), in bytes.
const NAME_MAX: usize = 20;
/// Maximum length of a message, in bytes.
const LINE_MAX: usize = 8 << 10;

/// An entry: the English pattern, the Chinese sentence and the flag before them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub english: String,
    pub chinese: String,
    /// The text after `#,`: how tests check the entry.
    pub flag: &'static str,
}

/// All entries in the order of the file, without its header.
pub fn entries() -> Vec<Entry> {
    let mut out = Vec::new();
    let (mut english, mut flag) = (None, "");
    for line in CATALOGUE.lines() {
        if let Some(text) = quoted(line, "msgid ") {
            english = Some(text);
        } else if let Some(text) = quoted(line, "msgstr ") {
            if let Some(english) = english.take().filter(|text| !text.is_empty()) {
                out.push(Entry {
                    english: english.into_owned(),
                    chinese: text.into_owned(),
                    flag: std::mem::take(&mut flag),
                });
            }
        } else if let Some(text) = line.strip_prefix("#, ") {
            flag = text.trim();
        }
    }
    out
}

/// The quoted text after `word`.
fn quoted(line: &'static str, word: &str) -> Option<Cow<'static, str>> {
    let text = line.strip_prefix(word)?.trim();
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(c) => out.push(c),
                None => {}
            },
            c => out.push(c),
        }
    }
    Some(Cow::Owned(out))
}

/// A part of a pattern or sentence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternPart<'a> {
    Text(&'a str),
    /// A value: its name (or its number as text), and the text after the colon.
    Value(&'a str, &'a str),
}

/// Splits a pattern or sentence into parts. A brace that does not belong to a name is text.
pub fn pattern_parts(pattern: &str) -> Vec<PatternPart<'_>> {
    let mut out = Vec::new();
    let mut rest = pattern;
    let mut from = 0;
    while let Some(at) = rest[from..].find('{').map(|at| from + at) {
        let inside = rest[at + 1..]
            .find('}')
            .map(|end| &rest[at + 1..at + 1 + end]);
        let value = inside.and_then(|inside| {
            let (name, how) = inside.split_once(':').unwrap_or((inside, ""));
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let is_how = !how.contains([' ', '{']);
            (is_name && is_how).then_some((inside.len(), name, how))
        });
        let Some((len, name, how)) = value else {
            from = at + 1;
            continue;
        };
        if at > 0 {
            out.push(PatternPart::Text(&rest[..at]));
        }
        out.push(PatternPart::Value(name, how));
        rest = &rest[at + len + 2..];
        from = 0;
    }
    if !rest.is_empty() {
        out.push(PatternPart::Text(rest));
    }
    out
}

/// A pattern with at least one value, prepared for matching.
struct Pattern {
    /// The literal texts before, between and after the values.
    texts: Vec<String>,
    /// The name of each value, or its number if it has no name.
    names: Vec<String>,
    /// Number of literal characters.
    literal_chars: usize,
    /// The order of matching: patterns with more literal characters first; among short ones, those
    /// that join sentences first, since all their parts must be sentences.
    rank: usize,
    chinese: String,
}

impl Pattern {
    fn of(english: &str, chinese: String, joins: bool) -> Pattern {
        let mut texts = vec![String::new()];
        let mut names: Vec<String> = Vec::new();
        let mut unnamed = 0;
        for piece in pattern_parts(english) {
            match piece {
                PatternPart::Text(text) => {
                    texts.last_mut().expect("it begins with one").push_str(text)
                }
                PatternPart::Value(name, _) => {
                    names.push(match name {
                        "" => {
                            unnamed += 1;
                            (unnamed - 1).to_string()
                        }
                        name => name.to_owned(),
                    });
                    texts.push(String::new());
                }
            }
        }
        let literal_chars = texts.iter().map(String::len).sum();
        Pattern {
            rank: if joins {
                JOINT_RANK.max(literal_chars)
            } else {
                literal_chars
            },
            literal_chars,
            texts,
            names,
            chinese,
        }
    }

    /// The values for which the pattern gives this text.
    fn values<'t>(&self, text: &'t str) -> Option<Vec<&'t str>> {
        let (first, rest) = self.texts.split_first()?;
        let (last, between) = rest.split_last()?;
        if text.len() < self.literal_chars {
            return None;
        }
        let mut left = text
            .strip_prefix(first.as_str())?
            .strip_suffix(last.as_str())?;
        let mut out = Vec::with_capacity(self.names.len());
        // Of adjacent values without a text between them, the first gets everything.
        let mut without = 0;
        for part in between {
            if part.is_empty() {
                without += 1;
                continue;
            }
            let at = left.find(part.as_str())?;
            out.push(&left[..at]);
            out.extend(std::iter::repeat_n("", std::mem::take(&mut without)));
            left = &left[at + part.len()..];
        }
        out.push(left);
        out.extend(std::iter::repeat_n("", without));
        Some(out)
    }

    /// Whether the text of a value is a part of another sentence: then the pattern does not match.
    fn is_more_than_a_value(&self, at: usize, value: &str) -> bool {
        let is_rest = at + 1 == self.names.len() && self.texts.last().is_some_and(String::is_empty);
        value.contains("; ") || !is_rest && value.contains(": ")
    }

    /// The sentence with these values; `None` if a value that must be in the catalogue is missing
    /// there.
    fn sentence(&self, all: &Catalogue, values: &[&str], looks: &mut u32) -> Option<String> {
        let mut out = String::with_capacity(self.chinese.len() + 32);
        let mut unnamed = 0;
        for piece in pattern_parts(&self.chinese) {
            let (name, how) = match piece {
                PatternPart::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                PatternPart::Value("", how) => {
                    unnamed += 1;
                    (Cow::Owned((unnamed - 1_u32).to_string()), how)
                }
                PatternPart::Value(name, how) => (Cow::Borrowed(name), how),
            };
            let at = self.names.iter().position(|known| *known == name)?;
            let value = values[at];
            match how {
                "-" => {}
                "n" if !value.bytes().all(|c| c.is_ascii_digit()) => return None,
                "" if self.is_more_than_a_value(at, value) => return None,
                "t" => match all.line(value, looks) {
                    Some(said) => out.push_str(&said),
                    None => out.push_str(value),
                },
                "T" => out.push_str(&all.line(value, looks)?),
                _ => out.push_str(value),
            }
        }
        Some(out)
    }
}

/// The catalogue, prepared for lookups.
struct Catalogue {
    /// Sentences without values.
    constant_sentences: HashMap<String, String>,
    /// The others in the order of matching.
    patterns: Vec<Pattern>,
}

fn catalogue() -> &'static Catalogue {
    static ALL: OnceLock<Catalogue> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Catalogue {
            constant_sentences: HashMap::new(),
            patterns: Vec::new(),
        };
        for entry in entries() {
            let pattern = Pattern::of(&entry.english, entry.chinese, entry.flag == "joint");
            if pattern.names.is_empty() {
                all.constant_sentences
                    .insert(entry.english, pattern.chinese);
            } else {
                all.patterns.push(pattern);
            }
        }
        // Stable: among equals, the first in the file.
        all.patterns
            .sort_by_key(|p| std::cmp::Reverse((p.rank, p.literal_chars)));
        all
    })
}

impl Catalogue {
    /// The translation of a line, if the catalogue has it.
    fn line(&self, line: &str, looks: &mut u32) -> Option<String> {
        if *looks == 0 || line.is_empty() || line.len() > LINE_MAX {
            return None;
        }
        *looks -= 1;
        if let Some(found) = self.as_it_is(line, looks) {
            return Some(found);
        }
        // Sentences at the beginning of a line have a capital letter.
        let first = line.chars().next().filter(char::is_ascii_uppercase)?;
        let small = format!("{}{}", first.to_ascii_lowercase(), &line[1..]);
        self.as_it_is(&small, looks)
    }

    fn as_it_is(&self, line: &str, looks: &mut u32) -> Option<String> {
        if let Some(found) = self.constant_sentences.get(line) {
            return Some(found.clone());
        }
        self.patterns.iter().find_map(|pattern| {
            let values = pattern.values(line)?;
            pattern.sentence(self, &values, looks)
        })
    }
}

/// The translation of a line, which may begin with the name of the command that prints it.
fn sentence(line: &str) -> Option<String> {
    let mut left = LOOKS;
    let looks = &mut left;
    let is_name = |name: &str| {
        let plain = |c: u8| c.is_ascii_lowercase() || c == b' ' || c == b'-';
        name.starts_with('c') && name.len() <= NAME_MAX && name.bytes().all(plain)
    };
    let Some((name, rest)) = line.split_once(": ").filter(|(name, _)| is_name(name)) else {
        return catalogue().line(line, looks);
    };
    if let Some(found) = catalogue().line(rest, looks) {
        return Some(format!("{name}: {found}"));
    }
    let found = catalogue().line(line, looks)?;
    match found
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('：'))
    {
        Some(rest) => Some(format!("{name}: {rest}")),
        None => Some(found),
    }
}

/// Translates a text line by line. An indented line is a quotation, except for its advice.
pub(super) fn translate(text: &str) -> Cow<'_, str> {
    let mut changed = false;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => (body, "\n"),
            None => (line, ""),
        };
        let words = body.trim_start_matches(' ');
        let quoted = words.len() < body.len() && !words.starts_with("hint: ");
        match sentence(words).filter(|_| !quoted) {
            Some(found) => {
                changed = true;
                out.push_str(&body[..body.len() - words.len()]);
                out.push_str(&found);
            }
            None => out.push_str(body),
        }
        out.push_str(end);
    }
    match changed {
        true => Cow::Owned(out),
        false => Cow::Borrowed(text),
    }
}
