//! A cursor over text for the expression parsers.
//!
//! Owns blanks, words, numbers and the wording of "expected ..., found ...". Knows no grammar.

use super::{ParseError, width};

/// Deepest nesting of parentheses and prefix operators in any expression.
pub const MAX_DEPTH: usize = 32;

/// A position in a text.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `text`.
    pub fn new(text: &'a str) -> Self {
        Cursor { text, at: 0 }
    }

    /// The byte offset.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What is left.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The text from byte `from` to here.
    pub fn since(&self, from: usize) -> &'a str {
        &self.text[from..self.at]
    }

    /// Goes over blanks.
    pub fn blanks(&mut self) {
        self.take_while(|c| c.is_ascii_whitespace());
    }

    /// The next character after blanks; the cursor stands before it.
    pub fn peek(&mut self) -> Option<char> {
        self.blanks();
        self.rest().chars().next()
    }

    /// True at the end, blanks apart.
    pub fn done(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Goes over blanks and `token` when it comes next.
    pub fn eat(&mut self, token: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// As [`Cursor::eat`], or the error "expected `token`".
    pub fn expect(&mut self, token: &str) -> Result<(), ParseError> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.expected(&format!("'{token}'")))
        }
    }

    /// Goes on while `keep` holds and returns what was passed.
    pub fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Goes on by `bytes`, which must end at a character.
    pub fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// The error "expected ..., found ..." at the next character.
    pub fn expected(&mut self, what: &str) -> ParseError {
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
