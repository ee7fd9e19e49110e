//! Moving a pending job to another position in its queue: `ctop` and `cbot`.

use super::answer::Answer;
use super::context::Turn;
use super::pending_order::{MoveScope, PendingOrder};
use super::request_queue::LOOK;
use super::signal::denied;
use crate::intake::{Action, Requester};
use crate::model::{JobKey, JobStat};
use crate::record::ack::Code;
use crate::record::event::Event;
use crate::text::jobids::JobSel;

impl Turn<'_> {
    /// The order of the jobs that a move counts: that of the last move, unless anything else has
    /// changed.
    fn pending_order(&mut self, scope: MoveScope) -> PendingOrder {
        let core = &mut *self.core;
        let known = core.requests.moves.take();
        if let Some(known) = known.filter(|known| known.is_current(&core.state, &scope)) {
            return known;
        }
        let (order, looks) = PendingOrder::collect(&core.state, scope);
        self.spend(looks * LOOK);
        order
    }

    /// Moves a job to position `pos` (from 1) among the pending jobs that compete with it: an
    /// administrator's move counts all jobs of the queue and priority, a user's move only jobs of
    /// that user.
    pub(super) fn move_job(
        &mut self,
        requester: &Requester,
        id: &str,
        (pos, bottom): (u32, bool),
        answer: &mut Answer,
    ) {
        let j = match JobSel::parse(id) {
            Ok(JobSel::Job(id)) => JobKey::job(id),
            Ok(_) => return answer.add_result(id, Code::Usage, "name one job"),
            Err(e) => return answer.add_result(id, Code::Usage, e.to_string()),
        };
        let state = &self.core.state;
        let Some(job) = state.job(j.id) else {
            return answer.add_result(id, Code::NotFound, "no matching job found");
        };
        if !self.may_act(requester, Action::Move, j.id) {
            return answer.refuse(id, denied());
        }
        if state.stat(j) != Some(JobStat::Pend) {
            return answer.add_result(id, Code::Refused, "only pending jobs can be moved");
        }
        let own = (job.order, j.id);
        let spec = state.spec(job.spec);
        let admin = self.may_act(requester, Action::MoveAmongAll, j.id);
        let user = (!admin).then_some(spec.uid);
        let scope = (spec.queue.clone(), spec.priority, user);
        let mut pending = self.pending_order(scope);
        let target = pending.target(own, pos, bottom);
        if let Some(order) = target.order {
            let (by, t) = (requester.user.clone(), self.now);
            self.spend_event();
            self.emit(Event::Moved { j, order, by, t });
            pending.moved(own, order);
            self.core.pass.needed = true;
        }
        pending.synced(&self.core.state);
        self.core.requests.moves = Some(pending);
        let from = if bottom { "bottom" } else { "top" };
        let text = format!("has been moved to position {} from {from}", target.pos);
        answer.add_result(id, Code::Ok, text);
    }
}
