//! Changing pending jobs: another queue (`cswitch`), other parameters (`cmod`).

use super::context::Turn;
use super::submit::NO_SPEC;
use crate::intake::{self, Action, Refusal, Requester};
use crate::model::{JobKey, JobStat, Spec};
use crate::record::ack::Code;
use crate::record::event::Event;
use crate::record::request::Changes;
use crate::state::Body;

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
        self.apply_changes(who, j, changes)
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
        self.apply_changes(who, j, changes)
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

    fn apply_changes(
        &mut self,
        who: &Requester,
        j: JobKey,
        changes: &Changes,
    ) -> Result<(), Refusal> {
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
            // The same parameters as before make no event.
            if *old != spec {
                let s = self
                    .spec_id(spec)
                    .ok_or_else(|| Refusal::refused(NO_SPEC))?;
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
        self.core.pass.needed = true;
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

    /// Who owns the jobs of a specification.
    fn owner_of(&self, spec: &Spec) -> Requester {
        Requester {
            uid: spec.uid,
            user: spec.user.clone(),
            groups: self.core.groups_of(&spec.user).to_vec(),
        }
    }
}

fn denied_program(option: &str) -> Refusal {
    Refusal::permission(format!(
        "permission denied: -{option} says what runs as the job's owner, only the owner may \
         change it"
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
