//! The catalogue of what commands say: a pattern in English, its sentence in Chinese.
//!
//! Owns how a text is matched with the patterns. A pattern is the format string of the source: `{}`
//! and `{name}` stand for what varies. In the sentence `{name}` and `{0}` (the first without a
//! name) stand for the same text; `{name:t}` for it in Chinese, if the catalogue has it;
//! `{name:T}` likewise, and without an entry the pattern does not fit; `{name:-}` for nothing;
//! `{name:n}` for a number, and of something else the pattern does not fit.
//! What stands where a plain value should be holds no `; `, nor `: ` unless the pattern ends with
//! it. Of several patterns that fit, the one with the most characters of its own wins;
//! see [`Pattern`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The text of the catalogue, in the format of GNU gettext: msgid and msgstr on a line each.
pub const CATALOGUE: &str = include_str!("zh_CN.po");

/// Sentences within a line: how often one is looked up at most, so that a text that somebody made
/// up costs little.
const LOOKS: u32 = 200;
/// A pattern that joins sentences counts as much as one with so many characters of its own.
const JOINT_RANK: usize = 12;
/// The longest name of a command, `cadmin schedrestart`, bytes.
const NAME_MAX: usize = 20;
/// A longer line is no message of ours, bytes.
const LINE_MAX: usize = 8 << 10;

/// An entry: the English pattern, the Chinese sentence, and the notes that stand before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub english: String,
    pub chinese: String,
    /// What follows `#,`: how the entry is to be judged by tests.
    pub flag: &'static str,
}

/// All entries in the order of the file, without its head.
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

/// What stands in the quotes after `word`.
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

/// A piece of a pattern or sentence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternPart<'a> {
    Text(&'a str),
    /// What varies: its name, or its number as text when it has none; and what follows a colon.
    Value(&'a str, &'a str),
}

/// Takes a pattern or sentence apart. A brace that does not belong to a name is text.
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

/// A pattern with at least one value, ready to be tried.
struct Pattern {
    /// What stands before, between and behind the values.
    texts: Vec<String>,
    /// The name of each value; of one without a name its number.
    names: Vec<String>,
    /// Characters of its own.
    own: usize,
    /// What goes before what: patterns with more of their own, and of the short ones those that
    /// join sentences, since all their parts must be sentences.
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
        let own = texts.iter().map(String::len).sum();
        Pattern {
            rank: if joins { JOINT_RANK.max(own) } else { own },
            own,
            texts,
            names,
            chinese,
        }
    }

    /// The values for which the pattern gives this text.
    fn values<'t>(&self, text: &'t str) -> Option<Vec<&'t str>> {
        let (first, rest) = self.texts.split_first()?;
        let (last, between) = rest.split_last()?;
        if text.len() < self.own {
            return None;
        }
        let mut left = text
            .strip_prefix(first.as_str())?
            .strip_suffix(last.as_str())?;
        let mut out = Vec::with_capacity(self.names.len());
        // Of values without a text between them the first one has all.
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

    /// Where a name or number should be, there is a part of another sentence: the pattern does not
    /// fit.
    fn is_more_than_a_value(&self, at: usize, value: &str) -> bool {
        let is_rest = at + 1 == self.names.len() && self.texts.last().is_some_and(String::is_empty);
        value.contains("; ") || !is_rest && value.contains(": ")
    }

    /// The sentence with these values; `None` when one that must be in the catalogue is not.
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

/// The catalogue, ready to be asked.
struct Catalogue {
    /// Sentences in which nothing varies.
    whole: HashMap<String, String>,
    /// The others, those with the most characters of their own first.
    patterns: Vec<Pattern>,
}

fn catalogue() -> &'static Catalogue {
    static ALL: OnceLock<Catalogue> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Catalogue {
            whole: HashMap::new(),
            patterns: Vec::new(),
        };
        for entry in entries() {
            let pattern = Pattern::of(&entry.english, entry.chinese, entry.flag == "joint");
            if pattern.names.is_empty() {
                all.whole.insert(entry.english, pattern.chinese);
            } else {
                all.patterns.push(pattern);
            }
        }
        // Stable: of equals the first in the file.
        all.patterns
            .sort_by_key(|p| std::cmp::Reverse((p.rank, p.own)));
        all
    })
}

impl Catalogue {
    /// A line in Chinese, if the catalogue has it.
    fn line(&self, line: &str, looks: &mut u32) -> Option<String> {
        if *looks == 0 || line.is_empty() || line.len() > LINE_MAX {
            return None;
        }
        *looks -= 1;
        if let Some(found) = self.as_it_is(line, looks) {
            return Some(found);
        }
        // Sentences that begin a line do so with a capital letter.
        let first = line.chars().next().filter(char::is_ascii_uppercase)?;
        let small = format!("{}{}", first.to_ascii_lowercase(), &line[1..]);
        self.as_it_is(&small, looks)
    }

    fn as_it_is(&self, line: &str, looks: &mut u32) -> Option<String> {
        if let Some(found) = self.whole.get(line) {
            return Some(found.clone());
        }
        self.patterns.iter().find_map(|pattern| {
            let values = pattern.values(line)?;
            pattern.sentence(self, &values, looks)
        })
    }
}

/// A line in Chinese, with the name of the command that says it, if it begins with one.
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

/// A text in Chinese, line by line. An indented line is a quotation, but for its advice.
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
