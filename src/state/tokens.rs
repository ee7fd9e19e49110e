//! The known requests by their tokens and keys. Never answers one.

use super::{KnownAnswer, PartialRequest, State};
use crate::model::{Stamp, Token};
use crate::record::event::{Event, Submitted};

impl State {
    /// Notes that all of a request was carried out; jobs that it created are known already.
    pub(super) fn note_handled(&mut self, tok: Token, t: Stamp) {
        self.requests.partial.remove(&tok);
        let jobs = Default::default;
        let known = self.requests.tokens.entry(tok);
        known.or_insert_with(|| KnownAnswer { t, jobs: jobs() }).t = t;
    }

    /// Notes that a part of a request was carried out.
    pub(super) fn part_handled(&mut self, event: &Event) {
        if let Event::PartHandled {
            tok,
            verb,
            at: position,
            within,
            t,
        } = event
        {
            let (t, verb, position) = (*t, *verb, (*position, *within));
            self.requests
                .partial
                .insert(*tok, PartialRequest { t, verb, position });
        }
    }

    /// Records what was created with a token and a key.
    pub(super) fn remember(&mut self, s: &Submitted) {
        let spec_uid = self.specs.get(&s.s).map(|e| e.spec.uid);
        let known = self
            .requests
            .tokens
            .entry(s.tok)
            .or_insert_with(|| KnownAnswer {
                t: s.t,
                jobs: Default::default(),
            });
        match known.jobs.last_mut() {
            // A client may have given any line number.
            Some((line, id, n))
                if line.checked_add(*n) == Some(s.line) && id.checked_add(*n) == Some(s.id) =>
            {
                *n += 1;
            }
            _ => known.jobs.push((s.line, s.id, 1)),
        }
        if let (false, Some(uid)) = (s.key.is_empty(), spec_uid) {
            self.requests.keys.insert((uid, s.key.clone()), (s.id, s.t));
        }
    }
}
