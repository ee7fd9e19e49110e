//! Requests are carried out: of each user one at a time, a bounded slice in each turn.
//!
//! Work is counted in units, not in time, so that a turn does the same wherever it is repeated. A
//! request that takes longer than a slice continues in the next turn, with reports and other users'
//! requests in between, and the journal records its progress: a leader that takes over reads the
//! request again and continues there. The request stays in its drop box, and its token is
//! unanswered, until the last slice is done.

use super::context::Turn;
use super::job_verb::JobVerb;
use super::request_queue::{ActiveRequest, CHANGE, LOOK};
use crate::intake;
use crate::model::Token;
use crate::record::ack::{Ack, Code, IdRun};
use crate::record::event::Event;
use crate::record::request::Verb;

/// Units for all requests of one turn: about 25 ms.
pub const TURN_UNITS: u64 = 250_000;
/// Units for one user's request before the requests of other users get their slices.
const SLICE: u64 = 25_000;

/// The result of a slice.
enum SliceEnd {
    Done(Ack),
    More,
    /// The request must wait: the share is full or was restored.
    Waits,
}

impl Turn<'_> {
    /// Carries out slices of requests, as many as fit into this turn.
    pub(super) fn process_requests(&mut self) {
        let mut waiting = Vec::new();
        while self.ready.units < TURN_UNITS {
            let Some(mut request) = self.core.requests.pop(&waiting) else {
                break;
            };
            self.slice_end = (self.ready.units + SLICE).min(TURN_UNITS);
            let before = self.ready.events.len();
            let end = self.slice(&mut request);
            let events = self.ready.events.len() > before;
            request.journal.changed |= events;
            request.journal.has_uncovered |= events;
            match end {
                SliceEnd::Done(ack) => {
                    self.journal_handled(&request);
                    self.ready.acks.push(ack);
                    self.ready.finished_requests.push(request.location);
                }
                SliceEnd::More => self.core.requests.put_back(request),
                SliceEnd::Waits => {
                    waiting.push(request.requester.uid);
                    self.core.requests.put_back(request);
                }
            }
        }
        self.ready.more |= self.core.requests.has_users_except(&waiting);
        self.journal_progress();
    }

    /// Adds the last event of a request that caused any; the events of a submission within one
    /// slice contain its token themselves.
    fn journal_handled(&mut self, request: &ActiveRequest) {
        let journal = &request.journal;
        if journal.is_partial || (journal.changed && request.pack.is_none()) {
            let (tok, t) = (request.head.token, self.now);
            self.emit(Event::Handled { tok, t });
        }
    }

    /// Writes to the journal how far those requests have advanced that continue in the next turn.
    fn journal_progress(&mut self) {
        let mut events = Vec::new();
        let t = self.now;
        for request in self.core.requests.iter_mut() {
            if std::mem::take(&mut request.journal.has_uncovered) {
                request.journal.is_partial = true;
                let (at, within) = request.at();
                let (tok, verb) = (request.head.token, request.verb);
                events.push(Event::PartHandled {
                    tok,
                    verb,
                    at,
                    within,
                    t,
                });
            }
        }
        events.into_iter().for_each(|event| self.emit(event));
    }

    fn slice(&mut self, request: &mut ActiveRequest) -> SliceEnd {
        if !request.has_begun {
            if let Some(ack) = self.begin(request) {
                return SliceEnd::Done(ack);
            }
            request.has_begun = true;
        } else if self.core.state.is_old()
            || (self.core.inputs.share_full && !request.only_signals())
        {
            return SliceEnd::Waits;
        }
        let done = match request.pack.is_some() {
            true => self.submit_slice(request),
            false => self.verbs_slice(request),
        };
        if !done {
            return SliceEnd::More;
        }
        let empty = Ack::empty(request.head.token);
        SliceEnd::Done(std::mem::replace(&mut request.answer.ack, empty))
    }

    /// The answer to a token that was already carried out.
    fn known_answer(&self, tok: Token) -> Option<Ack> {
        let state = &self.core.state;
        let known = state.known_answer(tok)?;
        let mut ack = Ack::empty(tok);
        for (line, id, n) in &known.jobs {
            let queue = state.spec_of(*id).map(|spec| spec.queue.clone());
            ack.ids.push(IdRun {
                line: *line,
                id: *id,
                n: *n,
                queue: queue.unwrap_or_default(),
                default: false,
                known: true,
                t: state.job(*id).map_or(0, |job| job.submit.0),
            });
        }
        Some(ack)
    }

    /// Starts a request. Returns an answer if there is nothing to carry out.
    fn begin(&mut self, request: &mut ActiveRequest) -> Option<Ack> {
        let token = request.head.token;
        let who = &request.requester;
        self.core.note_groups(&who.user, &who.groups);
        self.spend(LOOK);
        let known = self.known_answer(token);
        let partly = self.core.state.partial_request(token);
        if let (Some(ack), None) = (&known, partly) {
            return Some(ack.clone());
        }
        if let Some(ack) = self.refuse_while_restored(token, &request.verbs) {
            return Some(ack);
        }
        let refused = |text: String| Ack::refused(token, text);
        if let Err(refusal) = intake::check_bounds(request.verbs.iter(), &self.core.state) {
            return Some(refused(refusal.text));
        }
        request.journal.is_partial = partly.is_some();
        let submits = |v: &Verb| matches!(v, Verb::Submit { .. });
        if request.verbs.iter().all(submits) {
            return self.begin_pack(request, known).err().map(refused);
        }
        if let Some(partly) = partly {
            let done = (partly.verb as usize).min(request.verbs.len());
            request.verbs.drain(..done);
            (request.verb, request.resume) = (partly.verb, Some(partly.position));
        }
        None
    }

    /// Carries out verbs until the slice is used up. Returns true if none is left.
    fn verbs_slice(&mut self, request: &mut ActiveRequest) -> bool {
        while self.in_slice() {
            if request.job_verb.is_none() {
                let Some(verb) = request.next_verb() else {
                    return true;
                };
                self.spend(LOOK);
                request.job_verb = self.start_verb(request, verb);
            }
            let done = request.job_verb.is_none() || self.continue_verb(request);
            if done {
                request.job_verb = None;
                request.verb += 1;
            }
        }
        false
    }

    /// Carries out a verb, or starts one that selects jobs.
    fn start_verb(&mut self, request: &mut ActiveRequest, verb: Verb) -> Option<JobVerb> {
        if let Some(job_verb) = JobVerb::of(&verb) {
            let resume = request.resume.take();
            return self.select(&request.requester, job_verb, resume, &mut request.answer);
        }
        request.resume = None;
        self.spend(CHANGE);
        let (who, answer) = (&request.requester, &mut request.answer);
        match verb {
            Verb::Submit { .. } => answer.add_result(
                "submission",
                Code::Usage,
                "a request holds either submissions or other verbs, not both",
            ),
            Verb::Move { id, pos, bottom } => self.move_job(who, &id, (pos, bottom), answer),
            Verb::Run { id, hosts, closed } => {
                self.run_now(who, &id, (&hosts, closed), answer);
            }
            Verb::Queue {
                names,
                act,
                comment,
            } => {
                self.queue_act(who, &names, act, &comment, answer);
            }
            Verb::Host {
                names,
                act,
                comment,
            } => self.host_act(who, &names, act, &comment, answer),
            Verb::CronPut(put) => {
                self.put_cron((who, &request.others), &request.head, *put, answer);
            }
            Verb::Cron { name, user, act } => {
                let token = request.head.token;
                self.act_on_cron((who, token), (&name, &user), act, answer);
            }
            Verb::JobGroup { name, act } => self.act_on_job_group(who, &name, act, answer),
            Verb::Reconfig => self.reconfig(who, request.config.take(), answer),
            Verb::HostLost { host } => self.host_lost(who, &host, answer),
            Verb::SilenceAlert { name, for_ms, why } => {
                self.silence_alert(who, &name, (for_ms, why), answer);
            }
            Verb::Restored => self.confirm_restored(who, answer),
            Verb::Signal { .. }
            | Verb::Requeue { .. }
            | Verb::Migrate { .. }
            | Verb::Switch { .. }
            | Verb::Post { .. }
            | Verb::Modify { .. } => {}
        }
        None
    }
}
