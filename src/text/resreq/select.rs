//! The expression inside `select[...]`: tree, parser for both forms, evaluation per host.
//!
//! Owns precedence, the old short form `mem=20:-ultrix` and three-valued evaluation: a resource
//! that a host lacks makes a comparison neither true nor false.

use crate::text::error::nearest;
use crate::text::scan::{Cursor, MAX_DEPTH, Op};
use crate::text::{ParseError, width};

use super::table::{Direction, Kind, ResourceDef, Resources};

/// A parsed `select`: alternatives in the order they were written, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Select {
    /// Expressions separated by commas; the first one that a host satisfies applies.
    pub alternatives: Vec<SelectExpr>,
}

/// A node of a select expression. Every value is a number; a condition is 1 or 0.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectExpr {
    /// `||`, at least two parts.
    Or(Vec<SelectExpr>),
    /// `&&`, at least two parts.
    And(Vec<SelectExpr>),
    /// `!`.
    Not(Box<SelectExpr>),
    /// A comparison of numbers.
    Compare(Box<SelectExpr>, Op, Box<SelectExpr>),
    /// A comparison of a text resource with a word; `any` and `local` have their own meaning.
    Text {
        /// The resource.
        name: String,
        /// The comparison operator.
        op: Op,
        /// The word.
        word: String,
    },
    /// Terms; true: the term is subtracted.
    Sum(Vec<(bool, SelectExpr)>),
    /// Factors; true: divides by the factor.
    Product(Vec<(bool, SelectExpr)>),
    /// A minus sign before an operand.
    Minus(Box<SelectExpr>),
    /// A literal.
    Number(f64),
    /// The value of a number resource.
    Value(String),
    /// 1 if the tag is present.
    Tag(String),
    /// 1 if the host has the resource.
    Defined(String),
}

/// The values of a host that an expression may use.
pub trait HostFacts {
    /// The value of a numeric resource, corrected by reservations; `None` if the host lacks it.
    fn number(&self, name: &str) -> Option<f64>;
    /// The value of a text resource; `None` if the host lacks it.
    fn text(&self, name: &str) -> Option<&str>;
    /// True if the host has the tag.
    fn tag(&self, name: &str) -> bool;
    /// The value of a text resource on the submission host, for the word `local`.
    fn local(&self, _name: &str) -> Option<&str> {
        None
    }
}

impl Select {
    /// True if the host satisfies one of the alternatives.
    pub fn accepts(&self, host: &impl HostFacts) -> bool {
        self.alternatives.iter().any(|a| a.accepts(host))
    }

    /// True if a text or tag is mentioned; then the host type need not be the local one.
    pub fn mentions_text_or_tag(&self) -> bool {
        self.alternatives.iter().any(|a| {
            a.any(&mut |n| {
                matches!(
                    n,
                    SelectExpr::Text { .. } | SelectExpr::Tag(_) | SelectExpr::Defined(_)
                )
            })
        })
    }
}

impl SelectExpr {
    /// True if the expression is certainly true on the host.
    pub fn accepts(&self, host: &impl HostFacts) -> bool {
        self.eval(host).is_some_and(|v| v != 0.0)
    }

    /// The value on the host; `None` if it depends on something that the host lacks.
    pub fn eval(&self, host: &impl HostFacts) -> Option<f64> {
        let truth = |b: bool| Some(f64::from(u8::from(b)));
        match self {
            SelectExpr::Or(parts) => kleene(parts, host, true),
            SelectExpr::And(parts) => kleene(parts, host, false),
            SelectExpr::Not(inner) => inner.eval(host).and_then(|v| truth(v == 0.0)),
            SelectExpr::Compare(left, op, right) => {
                truth(op.holds(left.eval(host)?, right.eval(host)?))
            }
            SelectExpr::Text { name, op, word } => {
                compare_text(host, name, *op, word).and_then(truth)
            }
            SelectExpr::Sum(terms) => finite(terms.iter().try_fold(0.0, |sum, (minus, t)| {
                let value = t.eval(host)?;
                Some(if *minus { sum - value } else { sum + value })
            })),
            SelectExpr::Product(factors) => {
                finite(factors.iter().try_fold(1.0, |product, (div, f)| {
                    let value = f.eval(host)?;
                    Some(if *div {
                        product / value
                    } else {
                        product * value
                    })
                }))
            }
            SelectExpr::Minus(inner) => inner.eval(host).map(|v| -v),
            SelectExpr::Number(value) => Some(*value),
            // A tag that is no longer declared is parsed as a value.
            SelectExpr::Value(name) => {
                finite(host.number(name).or_else(|| host.tag(name).then_some(1.0)))
            }
            SelectExpr::Tag(name) => truth(host.tag(name)),
            SelectExpr::Defined(name) => {
                truth(host.number(name).is_some() || host.text(name).is_some() || host.tag(name))
            }
        }
    }

    fn any(&self, test: &mut impl FnMut(&SelectExpr) -> bool) -> bool {
        test(self)
            || match self {
                SelectExpr::Or(parts) | SelectExpr::And(parts) => parts.iter().any(|p| p.any(test)),
                SelectExpr::Not(inner) | SelectExpr::Minus(inner) => inner.any(test),
                SelectExpr::Compare(left, _, right) => left.any(test) || right.any(test),
                SelectExpr::Sum(parts) | SelectExpr::Product(parts) => {
                    parts.iter().any(|(_, p)| p.any(test))
                }
                _ => false,
            }
    }

    /// Joins with `&&`, keeping conjunctions flat.
    pub(super) fn and(self, other: SelectExpr) -> SelectExpr {
        let parts = |node| match node {
            SelectExpr::And(parts) => parts,
            single => vec![single],
        };
        let mut all = parts(self);
        all.extend(parts(other));
        SelectExpr::And(all)
    }
}

/// `||` (`decisive` true) and `&&` (false) with unknown parts.
fn kleene(parts: &[SelectExpr], host: &impl HostFacts, decisive: bool) -> Option<f64> {
    let mut unknown = false;
    for part in parts {
        match part.eval(host) {
            None => unknown = true,
            Some(v) if (v != 0.0) == decisive => return Some(f64::from(u8::from(decisive))),
            Some(_) => {}
        }
    }
    (!unknown).then_some(f64::from(u8::from(!decisive)))
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}

fn compare_text(host: &impl HostFacts, name: &str, op: Op, word: &str) -> Option<bool> {
    if word == "any" {
        return Some(matches!(op, Op::Eq | Op::Le | Op::Ge));
    }
    let wanted = if word == "local" {
        host.local(name)?
    } else {
        word
    };
    Some(op.holds(host.text(name)?, wanted))
}

/// Characters of resource names and bare words.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// Reads resource requirements; the sections other than `select` are in `parse`.
pub(super) struct Reader<'a> {
    pub cursor: Cursor<'a>,
    pub resources: &'a dyn Resources,
    /// Maximum depth of a select expression.
    pub depth: usize,
}

impl<'a> Reader<'a> {
    /// Parses a list of expressions up to a character that cannot continue it.
    pub(super) fn select(&mut self) -> Result<Select, ParseError> {
        let mut alternatives = vec![self.or(self.depth)?];
        while self.cursor.eat(",") {
            alternatives.push(self.or(self.depth)?);
        }
        if self.cursor.rest().starts_with('=') {
            return Err(
                ParseError::new(self.cursor.at(), 1, "'=' is not a comparison")
                    .hint("write ==, >= or <="),
            );
        }
        if self.cursor.rest().starts_with(':') {
            return Err(
                ParseError::new(self.cursor.at(), 1, "':' is not an operator here").hint(
                    "write && (the short form name=value:name has neither blanks nor operators)",
                ),
            );
        }
        Ok(Select { alternatives })
    }

    fn or(&mut self, depth: usize) -> Result<SelectExpr, ParseError> {
        let mut parts = Vec::new();
        loop {
            match self.and(depth)? {
                SelectExpr::Or(inner) => parts.extend(inner),
                part => parts.push(part),
            }
            if !self.cursor.eat("||") {
                return Ok(single_or(parts, SelectExpr::Or));
            }
        }
    }

    fn and(&mut self, depth: usize) -> Result<SelectExpr, ParseError> {
        let mut parts = Vec::new();
        loop {
            match self.comparison(depth)? {
                SelectExpr::And(inner) => parts.extend(inner),
                part => parts.push(part),
            }
            if !self.cursor.eat("&&") {
                return Ok(single_or(parts, SelectExpr::And));
            }
        }
    }

    fn comparison(&mut self, depth: usize) -> Result<SelectExpr, ParseError> {
        if let Some(text) = self.text_comparison()? {
            return Ok(text);
        }
        let left = self.sum(depth)?;
        let Some(op) = self.cursor.comparison() else {
            return Ok(left);
        };
        let right = self.sum(depth)?;
        let at = self.cursor.at();
        if self.cursor.comparison().is_some() {
            return Err(ParseError::new(
                at,
                self.cursor.at() - at,
                "comparisons cannot be chained",
            )
            .hint("write a < b && b < c"));
        }
        Ok(SelectExpr::Compare(Box::new(left), op, Box::new(right)))
    }

    /// Parses `name op word` or `"word" op name` for a text resource; `None` if something else
    /// comes.
    fn text_comparison(&mut self) -> Result<Option<SelectExpr>, ParseError> {
        let mut ahead = self.cursor.clone();
        match ahead.peek() {
            Some(quote @ ('"' | '\'')) => {
                let word = self.quoted(quote)?;
                let Some(op) = self.cursor.comparison() else {
                    return Err(self.cursor.expected("a comparison such as =="));
                };
                let (at, name) = self.word();
                let def = self.find(name, at)?;
                if !matches!(def.kind, Kind::Text | Kind::Unknown) {
                    return Err(ParseError::new(
                        at,
                        name.len(),
                        format!("{name} is not a text"),
                    ));
                }
                let name = def.name.to_owned();
                return Ok(Some(SelectExpr::Text {
                    name,
                    op: mirrored(op),
                    word: word.to_owned(),
                }));
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {}
            _ => return Ok(None),
        }
        let name = ahead.take_while(is_word);
        let Some(def) = self.resources.find(name) else {
            return Ok(None);
        };
        let is_text = match def.kind {
            Kind::Text => true,
            Kind::Unknown => self.looks_like_text(ahead.clone()),
            Kind::Number | Kind::Tag => false,
        };
        if !is_text || name == "defined" {
            return Ok(None);
        }
        let name_len = name.len();
        let at = ahead.at() - name_len;
        let name = def.name.to_owned();
        self.cursor = ahead;
        let Some(op) = self.cursor.comparison() else {
            if self.cursor.rest().starts_with('=') {
                return Err(
                    ParseError::new(self.cursor.at(), 1, "'=' is not a comparison")
                        .hint(format!("write {name}==word")),
                );
            }
            return Err(ParseError::new(
                at,
                name_len,
                format!("{name} is a text, not a condition"),
            )
            .hint(format!("compare it: {name}==word")));
        };
        let word = match self.cursor.peek() {
            Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
            _ => {
                let word = self.cursor.take_while(|c| is_word(c) || c == '-');
                if word.is_empty() {
                    return Err(self.cursor.expected("a word or a text in quotes"));
                }
                word
            }
        };
        Ok(Some(SelectExpr::Text {
            name,
            op,
            word: word.to_owned(),
        }))
    }

    /// For a resource of unknown kind: a comparison with quotes, or with a word that is neither a
    /// number nor a built-in resource, compares texts.
    fn looks_like_text(&self, mut ahead: Cursor<'a>) -> bool {
        if ahead.comparison().is_none() {
            return false;
        }
        match ahead.peek() {
            Some('"' | '\'') => true,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let word = ahead.take_while(is_word);
                self.resources
                    .find(word)
                    .is_none_or(|d| d.kind == Kind::Unknown)
            }
            _ => false,
        }
    }

    fn quoted(&mut self, quote: char) -> Result<&'a str, ParseError> {
        let at = self.cursor.at();
        self.cursor.skip(1);
        let inside = self.cursor.take_while(|c| c != quote);
        if self.cursor.rest().is_empty() {
            return Err(ParseError::new(
                at,
                1,
                format!("the quote {quote} is not closed"),
            ));
        }
        self.cursor.skip(1);
        match inside.char_indices().find(|(_, c)| width::is_hidden(*c)) {
            None => Ok(inside),
            Some((bad, c)) => Err(ParseError::new(
                at + 1 + bad,
                c.len_utf8(),
                "control and invisible characters are not allowed",
            )),
        }
    }

    fn sum(&mut self, depth: usize) -> Result<SelectExpr, ParseError> {
        let mut terms = vec![(false, self.product(depth)?)];
        loop {
            let minus = match self.cursor.peek() {
                Some('+') => false,
                Some('-') => true,
                _ => break,
            };
            self.cursor.skip(1);
            terms.push((minus, self.product(depth)?));
        }
        Ok(if terms.len() == 1 {
            terms.remove(0).1
        } else {
            SelectExpr::Sum(terms)
        })
    }

    fn product(&mut self, depth: usize) -> Result<SelectExpr, ParseError> {
        let mut factors = vec![(false, self.unary(depth)?)];
        loop {
            let divides = match self.cursor.peek() {
                Some('*') => false,
                Some('/') => true,
                _ => break,
            };
            self.cursor.skip(1);
            factors.push((divides, self.unary(depth)?));
        }
        Ok(if factors.len() == 1 {
            factors.remove(0).1
        } else {
            SelectExpr::Product(factors)
        })
    }

    fn unary(&mut self, depth: usize) -> Result<SelectExpr, ParseError> {
        let next = self.cursor.peek();
        if !matches!(next, Some('!' | '-' | '(')) {
            return self.atom();
        }
        let at = self.cursor.at();
        let Some(deeper) = depth.checked_sub(1) else {
            let message = format!("nested deeper than {} levels", self.depth);
            return Err(ParseError::new(at, 1, message));
        };
        self.cursor.skip(1);
        match next {
            Some('!') => Ok(SelectExpr::Not(Box::new(self.unary(deeper)?))),
            Some('-') => Ok(SelectExpr::Minus(Box::new(self.unary(deeper)?))),
            _ => {
                let inner = self.or(deeper)?;
                self.cursor.expect(")")?;
                Ok(inner)
            }
        }
    }

    fn atom(&mut self) -> Result<SelectExpr, ParseError> {
        let (at, word) = self.word();
        if word.is_empty() {
            return Err(self.cursor.expected("a resource name or a number"));
        }
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return number(word)
                .map(SelectExpr::Number)
                .map_err(|e| e.shifted(at));
        }
        if word == "defined" && self.cursor.eat("(") {
            let (at, name) = self.word();
            let name = self.find(name, at)?.name.to_owned();
            self.cursor.expect(")")?;
            return Ok(SelectExpr::Defined(name));
        }
        let def = self.find(word, at)?;
        let name = def.name.to_owned();
        match def.kind {
            Kind::Number | Kind::Unknown => Ok(SelectExpr::Value(name)),
            Kind::Tag => Ok(SelectExpr::Tag(name)),
            Kind::Text => Err(ParseError::new(at, word.len(), format!("{name} is a text"))
                .hint(format!("compare it: {name}==word"))),
        }
    }

    /// The next word and its position.
    pub(super) fn word(&mut self) -> (usize, &'a str) {
        self.cursor.blanks();
        (self.cursor.at(), self.cursor.take_while(is_word))
    }

    /// Looks a resource up; `at` is the position of its name.
    pub(super) fn find(&mut self, name: &'a str, at: usize) -> Result<ResourceDef<'a>, ParseError> {
        if name.is_empty() {
            return Err(self.cursor.expected("a resource name"));
        }
        self.resources
            .find(name)
            .ok_or_else(|| self.unknown(name, at))
    }

    pub(super) fn unknown(&self, name: &str, at: usize) -> ParseError {
        let shown = width::truncate(name, 64);
        let e = ParseError::new(at, name.len(), format!("unknown resource '{shown}'"));
        match nearest(name, self.resources.names()) {
            Some(near) => e.hint(format!("did you mean {near}?")),
            None => e.hint("cinfo lists the resources"),
        }
    }

    /// Parses the old short form, `mem=20:swp=12:-ultrix`, of the word `text` at the cursor.
    pub(super) fn short_form(&mut self, text: &'a str) -> Result<Select, ParseError> {
        let mut parts = Vec::new();
        let mut at = self.cursor.at();
        for term in text.split(':') {
            parts.push(self.short_term(term, at)?);
            at += term.len() + 1;
        }
        self.cursor.skip(text.len());
        Ok(Select {
            alternatives: vec![single_or(parts, SelectExpr::And)],
        })
    }

    fn short_term(&mut self, term: &'a str, at: usize) -> Result<SelectExpr, ParseError> {
        let text = |name: &str, word: &str| SelectExpr::Text {
            name: name.to_owned(),
            op: Op::Eq,
            word: word.to_owned(),
        };
        if term == "-" {
            return Ok(text("type", "any"));
        }
        let (negated, rest) = match term.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, term),
        };
        let at = at + usize::from(negated);
        let (name, value) = match rest.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (rest, None),
        };
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(ParseError::new(at, name.len(), "a resource name is needed")
                .hint("the short form is name=value:name:-name"));
        }
        let def = self
            .resources
            .find(name)
            .ok_or_else(|| self.unknown(name, at))?;
        let node = match (def.kind, value) {
            (Kind::Text, None) => {
                return Err(ParseError::new(at, name.len(), format!("{name} is a text"))
                    .hint(format!("compare it: {name}=word")));
            }
            (Kind::Text, Some(word)) if !word.is_empty() => text(def.name, word),
            (Kind::Tag, None) => SelectExpr::Tag(def.name.to_owned()),
            (_, None) => SelectExpr::Value(def.name.to_owned()),
            (_, Some(value)) => {
                let number = number(value).map_err(|e| e.shifted(at + name.len() + 1))?;
                let op = if def.direction == Direction::Decrease {
                    Op::Ge
                } else {
                    Op::Le
                };
                let left = Box::new(match def.kind {
                    Kind::Tag => SelectExpr::Tag(def.name.to_owned()),
                    _ => SelectExpr::Value(def.name.to_owned()),
                });
                SelectExpr::Compare(left, op, Box::new(SelectExpr::Number(number)))
            }
        };
        Ok(if negated {
            SelectExpr::Not(Box::new(node))
        } else {
            node
        })
    }
}

/// True if `text` is written in the old short form.
pub(super) fn is_short(text: &str) -> bool {
    let normal = text.contains(|c: char| c.is_ascii_whitespace() || "()|!<>&+*/,\"'".contains(c));
    let short = text.starts_with('-') || text.contains([':', '=']);
    short && !normal && !text.contains("==")
}

fn mirrored(op: Op) -> Op {
    match op {
        Op::Lt => Op::Gt,
        Op::Le => Op::Ge,
        Op::Ge => Op::Le,
        Op::Gt => Op::Lt,
        same => same,
    }
}

fn single_or(
    mut parts: Vec<SelectExpr>,
    many: impl Fn(Vec<SelectExpr>) -> SelectExpr,
) -> SelectExpr {
    if parts.len() == 1 {
        parts.remove(0)
    } else {
        many(parts)
    }
}

/// A literal: digits with at most one point and a suffix K, M, G or T, in megabytes.
pub(super) fn number(word: &str) -> Result<f64, ParseError> {
    let (digits, factor) = split_suffix(word)?;
    let value: f64 = digits.parse().expect("checked to be digits with one point");
    let value = value * factor;
    // Printed numbers must be readable again: at most 15 digits before the point, 32 in total.
    match value {
        1e15.. => Err(ParseError::new(0, word.len(), "the number is too big")),
        v if v > 0.0 && v < 1e-9 => Err(ParseError::new(0, word.len(), "the number is too small")),
        v => Ok(v),
    }
}

/// The digits of a number and the factor of its suffix in megabytes.
pub(super) fn split_suffix(word: &str) -> Result<(&str, f64), ParseError> {
    let len = word
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(word.len());
    let (digits, suffix) = word.split_at(len);
    let whole = digits.split('.').next().unwrap_or("");
    let points = digits.matches('.').count();
    if whole.is_empty() || points > 1 || digits.ends_with('.') {
        let shown = width::escape(width::truncate(word, 40).as_ref()).into_owned();
        return Err(
            ParseError::new(0, word.len(), format!("'{shown}' is not a number"))
                .hint("write digits with at most one decimal point, then optionally K, M, G or T"),
        );
    }
    if whole.len() > 15 || digits.len() > 32 {
        return Err(ParseError::new(0, word.len(), "the number is too big"));
    }
    let unit = suffix.strip_suffix(['b', 'B']).unwrap_or(suffix);
    let factor = match unit {
        "" if suffix.is_empty() => 1.0,
        "k" | "K" => 1.0 / 1024.0,
        "m" | "M" => 1.0,
        "g" | "G" => 1024.0,
        "t" | "T" => 1_048_576.0,
        _ => {
            let shown = width::escape(width::truncate(suffix, 40).as_ref()).into_owned();
            return Err(
                ParseError::new(len, suffix.len(), format!("'{shown}' is not a unit"))
                    .hint("the units are K, M, G and T"),
            );
        }
    };
    Ok((digits, factor))
}

/// Maximum depth of printed text: merging strings adds levels.
pub(super) const STORED_DEPTH: usize = MAX_DEPTH + 8;
