//! Requests on their way: of each user one at a time, a bounded part in each turn.
//!
//! Work is counted in units of about 0.1 microseconds, not in time, so that a turn does the same
//! wherever it is repeated. What takes longer than a part goes on in the next turn, with reports
//! and other users' requests in between, and says in the journal how far it has come: a leader that
//! takes over reads the request again and goes on there. The request stays in its drop box, and its
//! token is unanswered, until the last part is done.

use super::job_verbs::JobVerb;
use super::modify::PendingOrder;
use super::submit::Pack;
use super::{Answer, RequestIn, Turn, empty_ack};
use crate::config::Config;
use crate::intake::{self, Requester};
use crate::record::ack::{Ack, Code};
use crate::record::event::Event;
use crate::record::request::{RequestHead, Verb};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Looking at a job or element.
pub(super) const LOOK: u64 = 1;
/// An event of a job: applied, journalled, shown.
pub(super) const ACT: u64 = 25;
/// A job accepted or refused, and each job that its dependency names.
pub(super) const SUBMIT: u64 = 150;
pub(super) const DEPEND: u64 = 10;
/// Changed parameters of a job, and what an administrator does.
pub(super) const CHANGE: u64 = 250;
/// Units for all requests of one turn: about 25 ms.
pub const TURN_UNITS: u64 = 250_000;
/// Units for one user's request before another user's gets its part.
const SLICE: u64 = 25_000;

/// All requests that were taken in and not answered.
#[derive(Default)]
pub(crate) struct RequestQueue {
    users: BTreeMap<u32, VecDeque<ActiveRequest>>,
    /// Whose request had the last part.
    served: u32,
    /// The order that moves are counted in, as of the last one.
    pub(super) moves: Option<PendingOrder>,
}

impl RequestQueue {
    fn push(&mut self, request: RequestIn) {
        let of_user = self.users.entry(request.who.uid).or_default();
        of_user.push_back(ActiveRequest::new(request));
    }

    /// The next one's: of the user behind the one that was served last who is not in `waiting`.
    fn pop(&mut self, waiting: &[u32]) -> Option<ActiveRequest> {
        let waits = |uid: &&u32| !waiting.contains(*uid);
        let behind = self.users.range(self.served.saturating_add(1)..);
        let uid = behind.map(|(uid, _)| uid).find(waits);
        let uid = *uid.or_else(|| self.users.keys().find(waits))?;
        self.served = uid;
        let of_user = self.users.get_mut(&uid)?;
        let first = of_user.pop_front();
        if of_user.is_empty() {
            self.users.remove(&uid);
        }
        first
    }

    fn put_back(&mut self, request: ActiveRequest) {
        let of_user = self.users.entry(request.who.uid).or_default();
        of_user.push_front(request);
    }
}

/// A request that is carried out.
pub(super) struct ActiveRequest {
    pub who: Requester,
    pub head: RequestHead,
    /// What is left of its verbs.
    pub verbs: VecDeque<Verb>,
    /// How many verbs are done.
    pub verb: u32,
    config: Option<Result<Arc<Config>, Vec<String>>>,
    place: usize,
    pub answer: Answer,
    begun: bool,
    /// The verb under way that selects jobs.
    pub present: Option<JobVerb>,
    /// Where an earlier leader came to in the first verb that is left.
    pub resume: Option<(u32, u32)>,
    /// It submits jobs.
    pub pack: Option<Pack>,
    /// It led to events, and to such as the last `PartHandled` does not count in.
    changed: bool,
    unjournalled: bool,
    /// An earlier part is in the journal.
    parted: bool,
}

impl ActiveRequest {
    fn new(request: RequestIn) -> ActiveRequest {
        let RequestIn {
            who,
            head,
            verbs,
            config,
            place,
        } = request;
        ActiveRequest {
            answer: Answer {
                record: 0,
                ack: empty_ack(head.token),
            },
            who,
            head,
            verbs: verbs.into(),
            verb: 0,
            config,
            place,
            begun: false,
            present: None,
            resume: None,
            pack: None,
            changed: false,
            unjournalled: false,
            parted: false,
        }
    }

    /// The next verb; of equal ones in a row the last, and of moves of one job, too.
    fn next_verb(&mut self) -> Option<Verb> {
        loop {
            let verb = self.verbs.pop_front()?;
            let same = match (&verb, self.verbs.front()) {
                (Verb::Move { id, .. }, Some(Verb::Move { id: next, .. })) => id == next,
                (verb, next) => Some(verb) == next,
            };
            if !same {
                return Some(verb);
            }
            self.verb += 1;
        }
    }

    /// Where it stands.
    fn at(&self) -> (u32, u32) {
        self.present.as_ref().map_or((0, 0), JobVerb::at)
    }

    fn only_signals(&self) -> bool {
        let signal = |verb: &Verb| matches!(verb, Verb::Signal { .. });
        self.verbs.iter().all(signal) && self.present.as_ref().is_none_or(JobVerb::is_signal)
    }
}

/// What became of a part.
enum Part {
    Done(Ack),
    More,
    /// It cannot go on as things stand.
    Waits,
}

impl Turn<'_> {
    pub(super) fn request(&mut self, request: RequestIn) {
        self.core.underway.push(request);
    }

    /// Counts work that a request makes.
    pub(super) fn spend(&mut self, units: u64) {
        self.out.units += units;
    }

    /// The part of the present request is not used up.
    pub(super) fn in_slice(&self) -> bool {
        self.out.units < self.slice_end
    }

    /// Parts of requests, as many as this turn has room for.
    pub(super) fn process_requests(&mut self) {
        let mut waiting = Vec::new();
        while self.out.units < TURN_UNITS {
            let Some(mut request) = self.core.underway.pop(&waiting) else {
                break;
            };
            self.slice_end = (self.out.units + SLICE).min(TURN_UNITS);
            let before = self.out.events.len();
            let part = self.part(&mut request);
            let events = self.out.events.len() > before;
            request.changed |= events;
            request.unjournalled |= events;
            match part {
                Part::Done(ack) => {
                    self.handled(&request);
                    self.out.acks.push(ack);
                    self.out.taken.push(request.place);
                }
                Part::More => self.core.underway.put_back(request),
                Part::Waits => {
                    waiting.push(request.who.uid);
                    self.core.underway.put_back(request);
                }
            }
        }
        let users = self.core.underway.users.keys();
        self.out.more |= users.into_iter().any(|uid| !waiting.contains(uid));
        self.journal_progress();
    }

    /// The last event of a request that led to any; jobs of a submission in one part say it
    /// themselves.
    fn handled(&mut self, request: &ActiveRequest) {
        if request.parted || (request.changed && request.pack.is_none()) {
            let (tok, t) = (request.head.token, self.now);
            self.emit(Event::Handled { tok, t });
        }
    }

    /// Journals how far requests have come that go on in the next turn.
    fn journal_progress(&mut self) {
        let mut events = Vec::new();
        let t = self.now;
        for request in self.core.underway.users.values_mut().flatten() {
            if std::mem::take(&mut request.unjournalled) {
                request.parted = true;
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

    fn part(&mut self, request: &mut ActiveRequest) -> Part {
        if !request.begun {
            if let Some(ack) = self.begin(request) {
                return Part::Done(ack);
            }
            request.begun = true;
        } else if self.core.state.is_old() || (self.core.full && !request.only_signals()) {
            return Part::Waits;
        }
        let done = match request.pack.is_some() {
            true => self.submit_slice(request),
            false => self.verbs_slice(request),
        };
        match done {
            true => Part::Done(std::mem::replace(
                &mut request.answer.ack,
                empty_ack(request.head.token),
            )),
            false => Part::More,
        }
    }

    /// Looks at a request for the first time; an answer when there is nothing to carry out.
    fn begin(&mut self, request: &mut ActiveRequest) -> Option<Ack> {
        let token = request.head.token;
        let who = &request.who;
        self.core.note_groups(&who.user, &who.groups);
        self.spend(LOOK);
        let known = self.again(token);
        let partly = self.core.state.partly(token);
        if let (Some(ack), None) = (&known, partly) {
            return Some(ack.clone());
        }
        if let Some(ack) = self.refuse_while_restored(token, &request.verbs) {
            return Some(ack);
        }
        let refused = |text: String| {
            let mut ack = empty_ack(token);
            (ack.ok, ack.error) = (false, text);
            ack
        };
        if let Err(refusal) = intake::check_bounds(request.verbs.iter(), &self.core.state) {
            return Some(refused(refusal.text));
        }
        request.parted = partly.is_some();
        let submits = |v: &Verb| matches!(v, Verb::Submit { .. });
        if request.verbs.iter().all(submits) {
            return self.begin_pack(request, known).err().map(refused);
        }
        if let Some(partly) = partly {
            let done = (partly.verb as usize).min(request.verbs.len());
            request.verbs.drain(..done);
            (request.verb, request.resume) = (partly.verb, Some(partly.at));
        }
        None
    }

    /// Carries out verbs until the part is used up. True when none is left.
    fn verbs_slice(&mut self, request: &mut ActiveRequest) -> bool {
        while self.in_slice() {
            if request.present.is_none() {
                let Some(verb) = request.next_verb() else {
                    return true;
                };
                self.spend(LOOK);
                request.present = self.verb(request, verb);
            }
            let done = request.present.is_none() || self.continue_verb(request);
            if done {
                request.present = None;
                request.verb += 1;
            }
        }
        false
    }

    /// Carries out a verb, or begins with one that selects jobs.
    fn verb(&mut self, request: &mut ActiveRequest, verb: Verb) -> Option<JobVerb> {
        if let Some(present) = JobVerb::of(&verb) {
            let resume = request.resume.take();
            return self.select(&request.who, present, resume, &mut request.answer);
        }
        request.resume = None;
        self.spend(CHANGE);
        let (who, answer) = (&request.who, &mut request.answer);
        match verb {
            Verb::Submit { .. } => answer.say(
                "submission",
                Code::Usage,
                "a request holds either submissions or other verbs, not both",
            ),
            Verb::Move { id, pos, bottom } => self.move_job(who, &id, pos, bottom, answer),
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
            Verb::Reconfig => self.reconfig(who, request.config.take(), answer),
            Verb::HostLost { host } => self.host_lost(who, &host, answer),
            Verb::Restored => self.restored(who, answer),
            Verb::Signal { .. }
            | Verb::Requeue { .. }
            | Verb::Switch { .. }
            | Verb::Modify { .. } => {}
        }
        None
    }
}
