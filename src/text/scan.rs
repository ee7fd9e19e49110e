//! A cursor over text for the expression parsers, and their comparison operators.
//!
//! Owns blanks, words, operators and the wording of "expected ..., found ...". Knows no grammar.

use super::{ParseError, width};

/// Maximum depth of parentheses and prefix operators in any expression.
pub(super) const MAX_DEPTH: usize = 32;

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Op {
    Lt,
    Le,
    Eq,
    Ne,
    Ge,
    Gt,
}

impl Op {
    /// Longer operators first, so that `>=` is not parsed as `>`.
    const ALL: [(Op, &str); 6] = [
        (Op::Le, "<="),
        (Op::Ge, ">="),
        (Op::Eq, "=="),
        (Op::Ne, "!="),
        (Op::Lt, "<"),
        (Op::Gt, ">"),
    ];

    /// True if the comparison of `left` with `right` is true.
    pub fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Op::Lt => left < right,
            Op::Le => left <= right,
            Op::Eq => left == right,
            Op::Ne => left != right,
            Op::Ge => left >= right,
            Op::Gt => left > right,
        }
    }

    /// The text of the operator.
    pub fn sign(self) -> &'static str {
        Op::ALL
            .iter()
            .find(|(op, _)| *op == self)
            .map_or("", |(_, sign)| sign)
    }
}

/// A position in a text.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Cursor { text, at: 0 }
    }

    /// The byte offset.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The remaining text.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The text from byte `from` to the current position.
    pub(super) fn since(&self, from: usize) -> &'a str {
        &self.text[from..self.at]
    }

    /// Skips blanks.
    pub(super) fn blanks(&mut self) {
        self.take_while(|c| c.is_ascii_whitespace());
    }

    /// Skips blanks and returns the next character without consuming it.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.blanks();
        self.rest().chars().next()
    }

    /// True at the end, except for blanks.
    pub(super) fn done(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Skips blanks and `token` if it comes next.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Skips a comparison operator if one comes next, and returns it.
    pub(super) fn comparison(&mut self) -> Option<Op> {
        Op::ALL
            .into_iter()
            .find(|(_, sign)| self.eat(sign))
            .map(|(op, _)| op)
    }

    /// As [`Cursor::eat`], or the error "expected `token`".
    pub(super) fn expect(&mut self, token: &str) -> Result<(), ParseError> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.expected(&format!("'{token}'")))
        }
    }

    /// Advances while `keep` is true and returns the skipped text.
    pub(super) fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Advances by `bytes`, which must end at a character boundary.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// The error "expected ..., found ..." at the next character.
    pub(super) fn expected(&mut self, what: &str) -> ParseError {
        match self.peek() {
            None => ParseError::new(self.at, 0, format!("expected {what}, found the end")),
            Some(c) => {
                let shown = width::escape(&self.rest()[..c.len_utf8()]).into_owned();
                let message = format!("expected {what}, found '{shown}'");
                ParseError::new(self.at, c.len_utf8(), message)
            }
        }
    }
}
