//! Changing pending jobs: another queue, other parameters, another place in the order.

use super::requests::LOOK;
use super::signal::denied;
use super::{Answer, Turn};
use crate::intake::{self, Action, Refusal, Requester};
use crate::model::{JobKey, JobStat, Spec};
use crate::record::ack::Code;
use crate::record::event::Event;
use crate::record::request::Changes;
use crate::state::{Body, ChunkedSet};
use crate::text::jobids::JobSel;

/// Options that may change after the start: nothing on the host depends on them.
const RUNNING_OK: [&str; 4] = ["r", "sp", "Jd", "P"];
/// Most options of one change: what was changed is journalled.
const OPTIONS_MAX: usize = 64;

/// Refuses a change of more options than there are.
pub(super) fn check_options(changes: &Changes) -> Result<(), Refusal> {
    if changes.set.len() + changes.reset.len() > OPTIONS_MAX {
        let text = format!("more than {OPTIONS_MAX} options to change");
        return Err(Refusal::usage(text));
    }
    Ok(())
}

impl Turn<'_> {
    pub(super) fn switch_one(
        &mut self,
        who: &Requester,
        j: JobKey,
        changes: &Changes,
    ) -> Result<(), Refusal> {
        self.check_waiting(j)?;
        self.change(who, j, changes)
    }

    pub(super) fn modify_one(
        &mut self,
        who: &Requester,
        j: JobKey,
        changes: &Changes,
    ) -> Result<(), Refusal> {
        let mut all = changes.set.iter().chain(&changes.reset);
        if let Some(option) = all.find(|o| intake::runs_as_owner(o))
            && !self.may_act(who, Action::ModifyProgram, j.id)
        {
            return Err(denied_program(option));
        }
        let mut all = changes.set.iter().chain(&changes.reset);
        if !all.all(|o| RUNNING_OK.contains(&o.as_str())) {
            self.check_waiting(j)?;
        }
        self.change(who, j, changes)
    }

    /// Changes that reach the host are possible only before the start.
    fn check_waiting(&self, j: JobKey) -> Result<(), Refusal> {
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
            let now = self.now;
            let spec = intake::modify(&old, &changes, &owner, &core.config, &core.state, now)?;
            let names: Vec<String> = changes
                .set
                .iter()
                .chain(&changes.reset)
                .map(|o| format!("-{o}"))
                .collect();
            // The same parameters as before are no event.
            if *old != spec {
                let s = self
                    .spec_id(spec)
                    .ok_or_else(|| Refusal::refused(super::submit::NO_SPEC))?;
                let (by, what, t) = (who.user.clone(), names.join(" "), self.now);
                self.emit(Event::Changed { j, s, by, what, t });
            }
        }
        let renames = renames.filter(|renames| self.renames(j.id, renames));
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

    /// Whether anything of it is not so already.
    fn renames(&self, id: u32, (name, command, limit): &Renames) -> bool {
        let Some(job) = self.core.state.job(id) else {
            return false;
        };
        let array = job.array();
        name.as_ref()
            .is_some_and(|n| job.name.as_deref().unwrap_or("") != n)
            || command.as_ref().is_some_and(|c| &*job.command != c)
            || limit.is_some_and(|n| array.is_some_and(|array| array.limit != n))
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

    /// The jobs that a move counts: as the last move left them, unless anything else changed.
    fn move_order(&mut self, group: Group) -> PendingOrder {
        let pending = self.core.state.pending();
        let version = pending.version();
        let kept = self.core.underway.moves.take();
        if let Some(kept) = kept.filter(|kept| kept.version == version && kept.group == group) {
            return kept;
        }
        let (queue, priority, uid) = &group;
        let classes = pending.classes().map(|(_, class)| class).filter(|class| {
            let key = &class.key;
            key.queue == *queue && key.priority == *priority && uid.is_none_or(|u| key.uid == u)
        });
        let jobs = classes.flat_map(|class| class.jobs.iter());
        let mut jobs: Vec<(i64, u32)> = jobs.map(|(order, j)| (order, j.id)).collect();
        // Of classes that are each in order.
        jobs.sort();
        jobs.dedup();
        let looked = (jobs.len() as u64 / 8 + pending.classes().count() as u64) * LOOK;
        let jobs = ChunkedSet::of(jobs.into_iter());
        self.spend(looked);
        PendingOrder {
            group,
            jobs,
            version,
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
        if !self.may_act(who, Action::Move, j.id) {
            return answer.refuse(id, denied());
        }
        if state.stat(j) != Some(JobStat::Pend) {
            return answer.say(id, Code::Refused, "only pending jobs can be moved");
        }
        let own = (job.order, j.id);
        let spec = state.spec(job.spec).clone();
        let admin = self.may_act(who, Action::MoveAmongAll, j.id);
        let mut line = self.move_order((
            spec.queue.clone(),
            spec.priority,
            (!admin).then_some(spec.uid),
        ));
        // Its own place does not count.
        let rank = line.jobs.rank(own);
        let listed = line.jobs.nth(rank) == Some(own);
        let others = line.jobs.len() - usize::from(listed);
        let pos = (pos.max(1) as usize).min(others + 1);
        let at = if bottom { others + 1 - pos } else { pos - 1 };
        let other = |n: usize| line.jobs.nth(n + usize::from(listed && n >= rank));
        let before = at.checked_sub(1).and_then(other);
        let after = other(at);
        let stays = before.is_none_or(|b| b < own) && after.is_none_or(|a| own < a);
        if !stays {
            let order = order_between(before.map(|b| b.0), after.map(|a| a.0), own.0);
            let (by, t) = (who.user.clone(), self.now);
            self.act();
            self.emit(Event::Moved { j, order, by, t });
            if listed {
                line.jobs.remove(own);
                line.jobs.insert((order, j.id));
            }
            self.core.needs_pass = true;
        }
        line.version = self.core.state.pending().version();
        self.core.underway.moves = Some(line);
        let from = if bottom { "bottom" } else { "top" };
        answer.say(
            id,
            Code::Ok,
            format!("has been moved to position {pos} from {from}"),
        );
    }
}

/// Whose places a move counts: of a queue and a priority, of everybody or of one user.
type Group = (String, u32, Option<u32>);

/// Pending jobs in the order in which moves count them, kept from one move to the next.
pub(crate) struct PendingOrder {
    group: Group,
    jobs: ChunkedSet<(i64, u32)>,
    /// Of the pending jobs that it shows.
    version: u64,
}

/// An order number between those of two neighbours.
fn order_between(before: Option<i64>, after: Option<i64>, own: i64) -> i64 {
    match (before, after) {
        (None, None) => own,
        (None, Some(after)) => after - (1 << 20),
        (Some(before), None) => before + (1 << 20),
        (Some(before), Some(after)) => before + (after - before) / 2,
    }
}

fn denied_program(option: &str) -> Refusal {
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
        assert!(order_between(None, Some(10), 5) < 10);
        assert!(order_between(Some(20), None, 5) > 20);
        let median = order_between(Some(10), Some(20), 5);
        assert!(10 < median && median < 20);
        assert_eq!(order_between(None, None, 5), 5);
    }
}
