//! Changing pending jobs: another queue, other parameters, another place in the order.

use super::signal::denied;
use super::{Answer, Turn};
use crate::intake::{self, Deed, Refusal, Requester};
use crate::model::{JobKey, JobStat, Spec};
use crate::record::ack::Code;
use crate::record::event::Event;
use crate::record::request::{Changes, Selector};
use crate::state::{Body, Job};
use crate::text::jobids::JobSel;

/// Options that may change after the start: nothing on the host depends on them.
const RUNNING_OK: [&str; 4] = ["r", "sp", "Jd", "P"];
/// Most options of one change: what was changed is journalled.
const OPTIONS_MAX: usize = 64;

impl Turn<'_> {
    pub(super) fn switch(
        &mut self,
        who: &Requester,
        sel: &Selector,
        queue: &str,
        answer: &mut Answer,
    ) {
        let mut changes = Changes::default();
        changes.job.spec.queue = queue.to_owned();
        changes.set.push("q".to_owned());
        let eligible = |job: &Job| !job.is_finished();
        for j in self.picked(who, Deed::Switch, sel, &eligible, answer) {
            if let Err(refusal) = self.all_waiting(j) {
                answer.refuse(j, refusal);
                continue;
            }
            match self.change(who, j, &changes) {
                Ok(()) => answer.say(j, Code::Ok, format!("is switched to queue <{queue}>")),
                Err(refusal) => answer.refuse(j, refusal),
            }
        }
    }

    pub(super) fn modify(
        &mut self,
        who: &Requester,
        sel: &Selector,
        changes: &Changes,
        answer: &mut Answer,
    ) {
        let eligible = |job: &Job| !job.is_finished();
        if changes.set.len() + changes.reset.len() > OPTIONS_MAX {
            let text = format!("more than {OPTIONS_MAX} options to change");
            return answer.say("options", Code::Usage, text);
        }
        let all = changes.set.iter().chain(&changes.reset);
        let program = all.into_iter().find(|o| intake::runs_as_owner(o));
        for j in self.picked(who, Deed::Modify, sel, &eligible, answer) {
            if let Some(option) = program
                && !self.may_act(who, Deed::ModifyProgram, j.id)
            {
                answer.refuse(j, others_program(option));
                continue;
            }
            let all = changes.set.iter().chain(&changes.reset);
            let anytime = all.into_iter().all(|o| RUNNING_OK.contains(&o.as_str()));
            let verdict = if anytime { Ok(()) } else { self.all_waiting(j) };
            match verdict.and_then(|()| self.change(who, j, changes)) {
                Ok(()) => answer.say(j, Code::Ok, "parameters are being changed"),
                Err(refusal) => answer.refuse(j, refusal),
            }
        }
    }

    /// Changes that reach the host are possible only before the start.
    fn all_waiting(&self, j: JobKey) -> Result<(), Refusal> {
        let state = &self.core.state;
        let waiting = match state.job(j.id).map(|job| &job.body) {
            Some(Body::Single(work)) => work.stat.is_waiting(),
            Some(Body::Array(array)) => {
                array.started() == 0 && array.finished() < array.all.len() as u32
            }
            None => false,
        };
        let stat = state.stat(j).unwrap_or(JobStat::Exit);
        if stat.is_finished() {
            return Err(Refusal::new(Code::NotFound, "job has already finished"));
        }
        if waiting {
            return Ok(());
        }
        Err(Refusal::refused(
            "only pending jobs can be changed this way",
        ))
    }

    fn change(&mut self, who: &Requester, j: JobKey, changes: &Changes) -> Result<(), Refusal> {
        let state = &self.core.state;
        let Some(job) = state.job(j.id) else {
            return Ok(());
        };
        let old = state.spec(job.spec).clone();
        let owner = self.owner_of(&old);
        let (renames, changes) = split_names(changes);
        if let Some((name, command, _)) = &renames {
            intake::check_rename(name.as_deref(), command.as_deref())?;
        }
        let set_any = !changes.set.is_empty() || !changes.reset.is_empty();
        if set_any {
            let core = &*self.core;
            let now = core.clock.reached(self.now);
            let spec = intake::modify(&old, &changes, &owner, &core.config, &core.state, now)?;
            let names: Vec<String> = changes
                .set
                .iter()
                .chain(&changes.reset)
                .map(|o| format!("-{o}"))
                .collect();
            let s = self
                .spec_id(spec)
                .ok_or_else(|| Refusal::refused(super::submit::NO_SPEC))?;
            let (by, what, t) = (who.user.clone(), names.join(" "), self.now);
            self.emit(Event::Changed { j, s, by, what, t });
        }
        if let Some((name, command, array_limit)) = renames {
            let (by, t) = (who.user.clone(), self.now);
            self.emit(Event::Renamed {
                j,
                name,
                command,
                array_limit,
                by,
                t,
            });
        }
        self.core.needs_pass = true;
        Ok(())
    }

    fn owner_of(&self, spec: &Spec) -> Requester {
        Requester {
            uid: spec.uid,
            user: spec.user.clone(),
            groups: self
                .core
                .groups
                .get(&spec.user)
                .cloned()
                .unwrap_or_default(),
        }
    }

    /// `ctop` / `cbot`: to position `pos` (from 1) among the pending jobs that compete with it: an
    /// administrator's move counts all of the queue and priority, a user's only his own.
    pub(super) fn move_job(
        &mut self,
        who: &Requester,
        id: &str,
        pos: u32,
        bottom: bool,
        answer: &mut Answer,
    ) {
        let j = match JobSel::parse(id) {
            Ok(JobSel::Job(id)) => JobKey::job(id),
            Ok(_) => return answer.say(id, Code::Usage, "name one job"),
            Err(e) => return answer.say(id, Code::Usage, e.to_string()),
        };
        let state = &self.core.state;
        let Some(job) = state.job(j.id) else {
            return answer.say(id, Code::NotFound, "no matching job found");
        };
        if !self.may_act(who, Deed::Move, j.id) {
            return answer.refuse(id, denied());
        }
        if state.stat(j) != Some(JobStat::Pend) {
            return answer.say(id, Code::Refused, "only pending jobs can be moved");
        }
        let spec = state.spec(job.spec).clone();
        let admin = self.may_act(who, Deed::MoveAmongAll, j.id);
        let mut others: Vec<i64> = state
            .pending()
            .classes()
            .filter(|(_, class)| {
                class.key.queue == spec.queue
                    && class.key.priority == spec.priority
                    && (admin || class.key.uid == spec.uid)
            })
            .flat_map(|(_, class)| class.jobs.iter())
            .filter(|(_, other)| other.id != j.id)
            .map(|(order, _)| order)
            .collect();
        others.sort_unstable();
        others.dedup();
        let pos = (pos.max(1) as usize).min(others.len() + 1);
        let at = if bottom {
            others.len() + 1 - pos
        } else {
            pos - 1
        };
        let order = order_between(&others, at, job.order);
        let (by, t) = (who.user.clone(), self.now);
        self.emit(Event::Moved { j, order, by, t });
        self.core.needs_pass = true;
        let from = if bottom { "bottom" } else { "top" };
        answer.say(
            id,
            Code::Ok,
            format!("has been moved to position {pos} from {from}"),
        );
    }
}

/// An order number that comes behind `at` of the sorted `others`.
fn order_between(others: &[i64], at: usize, own: i64) -> i64 {
    let before = at.checked_sub(1).and_then(|i| others.get(i)).copied();
    let after = others.get(at).copied();
    match (before, after) {
        (None, None) => own,
        (None, Some(after)) => after - (1 << 20),
        (Some(before), None) => before + (1 << 20),
        (Some(before), Some(after)) => before + (after - before) / 2,
    }
}

fn others_program(option: &str) -> Refusal {
    Refusal::permission(format!(
        "permission denied: -{option} says what runs as the job's owner, only he may change it"
    ))
}

type Renames = (Option<String>, Option<String>, Option<u32>);

/// Parts of a change that belong to the job and not to its specification.
fn split_names(changes: &Changes) -> (Option<Renames>, Changes) {
    let mut rest = changes.clone();
    let has = |list: &[String], o: &str| list.iter().any(|x| x == o);
    let job = &changes.job;
    let name = match (has(&changes.set, "J"), has(&changes.reset, "J")) {
        (_, true) => Some(String::new()),
        (true, _) if !job.name.is_empty() => Some(job.name.clone()),
        _ => None,
    };
    let limit = has(&changes.set, "J")
        .then_some(job.array_limit)
        .filter(|n| *n > 0);
    let command = has(&changes.set, "Z").then(|| job.command.clone());
    for list in [&mut rest.set, &mut rest.reset] {
        list.retain(|o| o != "J" && o != "Z");
    }
    let any = name.is_some() || limit.is_some() || command.is_some();
    (any.then_some((name, command, limit)), rest)
}

#[cfg(test)]
mod tests {
    use super::order_between;

    #[test]
    fn order_numbers_fall_between_their_neighbours() {
        assert!(order_between(&[10, 20], 0, 5) < 10);
        assert!(order_between(&[10, 20], 2, 5) > 20);
        let middle = order_between(&[10, 20], 1, 5);
        assert!(10 < middle && middle < 20);
        assert_eq!(order_between(&[], 0, 5), 5);
    }
}
