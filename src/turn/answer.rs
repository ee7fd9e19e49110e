//! An acknowledgement while it is built: limited in results and bytes.

use crate::intake::Refusal;
use crate::model::Token;
use crate::record::ack::{Ack, Code, Outcome, RESULTS_MAX};

/// Maximum length of operand and text of one result, in bytes.
const OPERAND_MAX: usize = 300;
const TEXT_MAX: usize = 16 << 10;
/// Number of bytes of texts in one answer after which further texts are cut, and the length to
/// which they are cut.
const TEXTS_MAX: usize = 1 << 20;
const SHORT_MAX: usize = 200;

/// See the head of this file.
pub(super) struct Answer {
    pub ack: Ack,
    /// Total length of the texts in its results, in bytes.
    text_bytes: usize,
}

impl Answer {
    pub(crate) fn to(token: Token) -> Answer {
        Answer {
            ack: Ack::empty(token),
            text_bytes: 0,
        }
    }

    /// Adds a result.
    pub(crate) fn add_result(&mut self, what: impl ToString, code: Code, text: impl Into<String>) {
        if self.ack.results.len() >= RESULTS_MAX {
            self.ack.more += 1;
            return;
        }
        // Parts of a forged request may be returned in an answer, so they are cut.
        let mut what = what.to_string();
        let mut text = text.into();
        cut(&mut what, OPERAND_MAX);
        let short = self.text_bytes > TEXTS_MAX;
        cut(&mut text, if short { SHORT_MAX } else { TEXT_MAX });
        self.text_bytes += text.len();
        self.ack.results.push(Outcome { what, code, text });
    }

    pub(crate) fn refuse(&mut self, what: impl ToString, refusal: Refusal) {
        self.ack.retry_s = self.ack.retry_s.max(refusal.retry_s);
        self.add_result(what, refusal.code, refusal.text);
    }
}

/// Cuts a text to at most `most` bytes.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push_str("...");
    }
}
