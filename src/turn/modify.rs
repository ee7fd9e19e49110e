//! Changing jobs: another queue (`cswitch`), other parameters (`cmod`). A job that has started
//! keeps what its attempt was dispatched with; what may change of it is in `intake/started.rs`.

use super::context::Turn;
use super::gang_start::other_hosts;
use super::orders::{limits_order, limits_to};
use super::request_queue::LOOK;
use super::submit::NO_SPEC;
use crate::intake::{self, Action, Refusal, Requester};
use crate::model::{JobKey, JobStat, Limits, Spec};
use crate::record::ack::Code;
use crate::record::event::Event;
use crate::record::request::Changes;
use crate::state::Body;

/// Maximum number of options in one change: changes are written to the journal.
const OPTIONS_MAX: usize = 64;

/// Refuses a change with more options than exist.
pub(super) fn check_options(changes: &Changes) -> Result<(), Refusal> {
    if changes.set.len() + changes.reset.len() > OPTIONS_MAX {
        let text = format!("more than {OPTIONS_MAX} options to change");
        return Err(Refusal::usage(text));
    }
    Ok(())
}

impl Turn<'_> {
    /// Returns what the answer adds for a job that has started.
    pub(super) fn switch_one(
        &mut self,
        requester: &Requester,
        j: JobKey,
        changes: &Changes,
    ) -> Result<String, Refusal> {
        let started = self.has_started(j)?;
        let limits = |turn: &Self| turn.core.state.spec_of(j.id).map(|s| s.limits.clone());
        let before = limits(self);
        self.apply_changes(requester, j, changes, started)?;
        Ok(match (started, before.zip(limits(self))) {
            (true, Some((old, new))) => intake::note_switched(&old, &new),
            _ => String::new(),
        })
    }

    /// Returns what the answer adds for a job that has started.
    pub(super) fn modify_one(
        &mut self,
        requester: &Requester,
        j: JobKey,
        changes: &Changes,
    ) -> Result<String, Refusal> {
        let mut all = changes.set.iter().chain(&changes.reset);
        if let Some(option) = all.find(|o| intake::runs_as_owner(o))
            && !self.may_act(requester, Action::ModifyProgram, j.id)
        {
            return Err(denied_program(option));
        }
        if !self.has_started(j)? {
            self.apply_changes(requester, j, changes, false)?;
            return Ok(String::new());
        }
        if let Some(spec) = self.core.state.spec_of(j.id) {
            intake::check_started(spec, changes)?;
        }
        let mut changes = changes.clone();
        self.keep_request(j, &mut changes)?;
        self.apply_changes(requester, j, &changes, true)?;
        Ok(intake::note_started(&changes))
    }

    /// Whether some of it has started and not ended.
    fn has_started(&self, j: JobKey) -> Result<bool, Refusal> {
        let state = &self.core.state;
        let over = || Refusal::new(Code::NotFound, "job has already finished");
        let job = state.job(j.id).filter(|job| !job.is_finished());
        let job = job.ok_or_else(over)?;
        if state.stat(j).is_none_or(JobStat::is_finished) {
            return Err(over());
        }
        Ok(match &job.body {
            Body::Single(work) => work.stat.is_started(),
            Body::Array(array) => array.started() > 0,
        })
    }

    /// For a job that has started, only `rusage[]` of `-R` is changed: the rest of its requirement
    /// stays.
    fn keep_request(&self, j: JobKey, changes: &mut Changes) -> Result<(), Refusal> {
        let has = |list: &[String]| list.iter().any(|o| o == "R");
        let (set, reset) = (has(&changes.set), has(&changes.reset));
        let Some(spec) = self.core.state.spec_of(j.id).filter(|_| set || reset) else {
            return Ok(());
        };
        let requested = if set {
            changes.job.spec.res_req.as_str()
        } else {
            ""
        };
        let req = intake::replace_rusage(&spec.res_req, requested, &self.core.config)?;
        changes.job.spec.res_req = req;
        if reset {
            changes.reset.retain(|o| o != "R");
            changes.set.push("R".to_owned());
        }
        Ok(())
    }

    /// Checks that there is room for what the started job would hold with this specification, and
    /// that the request is of the same kind.
    fn check_started_work(&mut self, id: u32, old: &Spec, new: &Spec) -> Result<(), Refusal> {
        let holds = |spec: &Spec| {
            (
                spec.queue.clone(),
                spec.res_req.clone(),
                spec.project.clone(),
                spec.app.clone(),
            )
        };
        if holds(old) == holds(new) {
            return Ok(());
        }
        self.rebuild_hosts();
        let core = &mut *self.core;
        core.engine.sync(&mut core.state, &mut core.hosts);
        let checked = core.engine.check_change(&core.state, &core.hosts, id, new);
        checked.map_err(|why| Refusal::refused(format!("the job has started: {why}")))
    }

    /// Orders the hosts of a started job to enforce its changed limits.
    fn order_limits(&mut self, id: u32) {
        let mut works = Vec::new();
        if let Some(job) = self.core.state.job(id) {
            job.each_started(&mut |j, _, _| works.push(j));
        }
        self.spend(works.len() as u64 * LOOK);
        for j in works {
            self.ready.orders.extend(limits_order(self.core, j));
            let others = other_hosts(self.core, j);
            self.spend(others.len() as u64 * LOOK);
            for host in others {
                self.ready.orders.extend(limits_to(self.core, j, host));
            }
        }
    }

    pub(super) fn apply_changes(
        &mut self,
        requester: &Requester,
        j: JobKey,
        changes: &Changes,
        started: bool,
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
            if started {
                self.check_started_work(j.id, &old, &spec)?;
            }
            // Unchanged parameters cause no event.
            if *old != spec {
                let limited = started && limits_of(&old) != limits_of(&spec);
                let s = self
                    .spec_id(spec)
                    .ok_or_else(|| Refusal::refused(NO_SPEC))?;
                let (by, what, t) = (requester.user.clone(), names.join(" "), self.now);
                self.emit(Event::Changed { j, s, by, what, t });
                if limited {
                    self.order_limits(j.id);
                }
            }
        }
        let renames = renames.filter(|renames| self.renames(j.id, renames));
        if let Some((name, command, array_limit)) = renames {
            let (by, t) = (requester.user.clone(), self.now);
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

    /// Whether it changes anything.
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

    /// The owner of the jobs of a specification.
    fn owner_of(&self, spec: &Spec) -> Requester {
        Requester {
            uid: spec.uid,
            user: spec.user.clone(),
            groups: self.core.groups_of(&spec.user).to_vec(),
        }
    }
}

/// The limits that the host enforces on a job.
fn limits_of(spec: &Spec) -> (&Limits, &str, &str) {
    (&spec.limits, &spec.run_on, &spec.cpu_on)
}

fn denied_program(option: &str) -> Refusal {
    Refusal::permission(format!(
        "permission denied: -{option} determines what runs as the job's owner; only the owner \
         may change it"
    ))
}

type Renames = (Option<String>, Option<String>, Option<u32>);

/// Splits off the parts of a change that belong to the job and not to its specification.
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
