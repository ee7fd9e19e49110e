//! Requests that were accepted but not answered: those of each user in their order, users in turn.
//! Carries nothing out.

use super::answer::Answer;
use super::input::RequestIn;
use super::job_verb::JobVerb;
use super::pack::Pack;
use super::pending_order::PendingOrder;
use crate::config::Config;
use crate::intake::Requester;
use crate::record::request::{RequestHead, Verb};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

// What work costs, in units of about 0.1 microseconds.
/// Considering a job or element.
pub(super) const LOOK: u64 = 1;
/// An event of a job: applied, written to the journal, published.
pub(super) const EVENT: u64 = 25;
/// A job that is accepted or refused, and each job that its dependency names.
pub(super) const SUBMIT: u64 = 75;
pub(super) const DEPEND: u64 = 10;
/// Changed parameters of a job, and an administrator's action.
pub(super) const CHANGE: u64 = 250;

/// See the head of this file.
#[derive(Default)]
pub(super) struct RequestQueue {
    users: BTreeMap<u32, VecDeque<ActiveRequest>>,
    /// The user whose request had the last slice.
    last_served: u32,
    /// The order in which moves count positions, after the last move.
    pub moves: Option<PendingOrder>,
}

impl RequestQueue {
    pub(crate) fn push(&mut self, request: RequestIn) {
        let of_user = self.users.entry(request.requester.uid).or_default();
        of_user.push_back(ActiveRequest::new(request));
    }

    /// The next request: that of the next user after the one served last who is not in `waiting`.
    pub(crate) fn pop(&mut self, waiting: &[u32]) -> Option<ActiveRequest> {
        let waits = |uid: &&u32| !waiting.contains(*uid);
        let next = self.users.range(self.last_served.saturating_add(1)..);
        let uid = next.map(|(uid, _)| uid).find(waits);
        let uid = *uid.or_else(|| self.users.keys().find(waits))?;
        self.last_served = uid;
        let of_user = self.users.get_mut(&uid)?;
        let first = of_user.pop_front();
        if of_user.is_empty() {
            self.users.remove(&uid);
        }
        first
    }

    /// Puts back a request that `pop` returned.
    pub(crate) fn put_back(&mut self, request: ActiveRequest) {
        let of_user = self.users.entry(request.requester.uid).or_default();
        of_user.push_front(request);
    }

    pub(crate) fn has_users_except(&self, waiting: &[u32]) -> bool {
        self.users.keys().any(|uid| !waiting.contains(uid))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ActiveRequest> {
        self.users.values_mut().flatten()
    }
}

/// A request that is being carried out.
pub(super) struct ActiveRequest {
    pub requester: Requester,
    pub head: RequestHead,
    /// The verbs that have not begun yet.
    pub verbs: VecDeque<Verb>,
    /// Number of verbs that are done.
    pub verb: u32,
    pub config: Option<Result<Arc<Config>, Vec<String>>>,
    /// Accounts of other users that the request names.
    pub others: Vec<Requester>,
    pub location: usize,
    pub answer: Answer,
    pub has_begun: bool,
    /// The current verb, if it selects jobs.
    pub job_verb: Option<JobVerb>,
    /// The progress of an earlier leader in the first remaining verb.
    pub resume: Option<(u32, u32)>,
    /// It submits jobs.
    pub pack: Option<Pack>,
    pub journal: JournalProgress,
}

/// What the journal contains of a request.
#[derive(Default)]
pub(super) struct JournalProgress {
    /// The request caused events.
    pub changed: bool,
    /// It caused events that are not covered by the last `PartHandled`.
    pub has_uncovered: bool,
    /// The journal has a `PartHandled` of it.
    pub is_partial: bool,
}

impl ActiveRequest {
    fn new(request: RequestIn) -> ActiveRequest {
        let RequestIn {
            requester,
            head,
            verbs,
            config,
            others,
            location,
        } = request;
        ActiveRequest {
            answer: Answer::to(head.token),
            requester,
            head,
            verbs: verbs.into(),
            verb: 0,
            config,
            others,
            location,
            has_begun: false,
            job_verb: None,
            resume: None,
            pack: None,
            journal: JournalProgress::default(),
        }
    }

    /// The next verb. Among equal ones in a row only the last is returned, and so for moves of one
    /// job.
    pub(crate) fn next_verb(&mut self) -> Option<Verb> {
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

    /// How far it has advanced in its current verb.
    pub(crate) fn at(&self) -> (u32, u32) {
        self.job_verb.as_ref().map_or((0, 0), JobVerb::at)
    }

    pub(crate) fn only_signals(&self) -> bool {
        let signal = |verb: &Verb| matches!(verb, Verb::Signal { .. });
        self.verbs.iter().all(signal) && self.job_verb.as_ref().is_none_or(JobVerb::is_signal)
    }
}
