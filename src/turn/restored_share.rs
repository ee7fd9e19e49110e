//! A share that is older than the cluster: restored from a backup, or a server that lost data.
//!
//! From the moment a host remembers something that the share does not contain, a later epoch than
//! any on it or a later position of the journal, nothing is decided: no start, no end, no answer
//! except to the administrator's confirmation. The confirmation holds pending jobs, unbinds
//! attempts that were bound and not started, and continues ids and epochs above all that hosts have
//! seen.

use super::answer::Answer;
use super::context::Turn;
use super::orders::attempt_of;
use crate::intake::{Action, ActionObject, Requester};
use crate::model::{AttemptId, Stamp, Token};
use crate::record::ack::{Ack, Code};
use crate::record::event::Event;
use crate::record::request::Verb;
use crate::state::RestoredShare;
use std::collections::VecDeque;

/// Ids continue at a multiple of this, so that a new job is not mistaken for a forgotten one.
const ID_STEP: u32 = 10_000;

/// The text about it in alarms and answers.
pub fn alarm_text(back: &RestoredShare, newest: u64) -> String {
    let RestoredShare { host, epoch, .. } = back;
    let what = match *epoch > newest {
        true => format!(
            "host {host} has followed epoch {epoch}, but the newest epoch here is \
            {newest}"
        ),
        false => format!(
            "host {host} received orders of epoch {epoch} that are based on records missing from \
             this journal"
        ),
    };
    let id = match back.id {
        0 => String::new(),
        id => format!(" (jobs up to {id} were dispatched)"),
    };
    format!(
        "the share is older than the cluster: {what}{id}. Was it restored from a backup? No job \
         is started and no request is carried out until an administrator runs 'cadmin restored \
         --confirm'"
    )
}

impl Turn<'_> {
    pub(super) fn note_restored_share(&mut self, host: String, epoch: u64, id: u32) {
        let known = self
            .core
            .state
            .restored_share()
            .map(|back| (back.epoch, back.id));
        // A leader whose epoch is not above the confirmed one steps down; what it detects has
        // already been confirmed by the administrator.
        let last_id = self.core.state.last_id();
        let confirmed = self.core.state.restored();
        let confirmed = confirmed.is_some_and(|(above, _)| epoch <= above && id <= last_id);
        if confirmed || known.is_some_and(|k| k >= (epoch, id)) {
            return;
        }
        let t = self.now;
        self.emit(Event::WentBack { epoch, host, id, t });
        self.ready.publish = true;
    }

    /// The refusal of a request that must not be carried out on an old state.
    pub(super) fn refuse_while_restored(
        &self,
        token: Token,
        verbs: &VecDeque<Verb>,
    ) -> Option<Ack> {
        let state = &self.core.state;
        let confirms = verbs.iter().all(|v| matches!(v, Verb::Restored));
        if !state.is_old() || (confirms && state.restored_share().is_some()) {
            return None;
        }
        let why = match state.restored_share() {
            Some(back) => alarm_text(back, state.epoch()),
            None => "the leader is being replaced: repeat the command".to_owned(),
        };
        Some(Ack::refused(token, why))
    }

    /// `cadmin restored --confirm`.
    pub(super) fn confirm_restored(&mut self, requester: &Requester, answer: &mut Answer) {
        if !self.may(requester, Action::Restored, ActionObject::Cluster) {
            return answer.add_result("restored", Code::Permission, "permission denied");
        }
        let Some(back) = self.core.state.restored_share().cloned() else {
            let text = "no host has seen anything that the share does not contain: there is \
                nothing to confirm";
            return answer.add_result("restored", Code::Refused, text);
        };
        for a in self.unstarted() {
            self.unbind(a, "", "the share was restored from a backup".to_owned());
        }
        let highest = back.id.max(self.core.state.last_id());
        let id = (highest / ID_STEP + 1).saturating_mul(ID_STEP);
        let waiting = self.core.state.pending_jobs();
        // The next leader's epoch must be new to all hosts, including those that follow this
        // leader.
        let above = back.epoch.max(self.core.state.epoch());
        let (by, t) = (requester.user.clone(), self.now);
        self.emit(Event::Restored { above, id, by, t });
        self.ready.publish = true;
        let text = format!(
            "epochs continue above {above}, job ids above {id}; {waiting} pending jobs are held: \
             use 'cresume' for those that did not run in the meantime; 'cadmin check' lists \
             running tasks that the share does not contain"
        );
        answer.add_result("restored", Code::Ok, text);
    }

    /// Attempts that are bound but that no host reported as started.
    fn unstarted(&self) -> Vec<AttemptId> {
        let state = &self.core.state;
        let all = state.all_started().filter_map(|j| {
            let work = state.work(j)?;
            let open = work.run.as_ref().is_some_and(|run| run.start == Stamp(0));
            open.then(|| attempt_of(j, work))
        });
        let mut all: Vec<AttemptId> = all.collect();
        all.sort_unstable();
        all
    }
}
