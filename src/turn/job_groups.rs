//! Requests about job groups (`cgadd`, `cgmod`, `cgdel`): what is checked and journalled. The
//! limits are enforced by the scheduler (`src/sched/quota/job_groups.rs`).

use super::answer::Answer;
use super::context::Turn;
use super::request_queue::{CHANGE, LOOK};
use crate::intake::{Action, ActionObject, Owner, Refusal, Requester};
use crate::record::ack::Code;
use crate::record::event::Event;
use crate::record::job_group::{JobGroup, JobGroupAct};
use crate::text::error::did_you_mean;
use crate::text::job_group::{ancestors, check, is_within};

/// Maximum number of explicit groups of the cluster, and of one user.
const ALL_MAX: usize = 10_000;
const USER_MAX: usize = 1_000;
/// Maximum limit of a group, as in LSF.
const LIMIT_MAX: u32 = i32::MAX as u32;

impl Turn<'_> {
    /// Carries out an action on a job group.
    pub(super) fn act_on_job_group(
        &mut self,
        requester: &Requester,
        name: &str,
        act: JobGroupAct,
        answer: &mut Answer,
    ) {
        self.spend(CHANGE);
        if let Err(e) = check(name) {
            return answer.add_result("job group", Code::Usage, e.message);
        }
        let done = match act {
            JobGroupAct::Add(limit) => self.add_job_group(requester, name, limit),
            JobGroupAct::Limit(limit) => self.limit_job_group(requester, name, limit),
            JobGroupAct::Remove => self.remove_job_group(requester, name),
        };
        match done {
            Ok(text) => {
                self.core.pass.needed = true;
                self.ready.publish = true;
                answer.add_result(name, Code::Ok, text);
            }
            Err(refusal) => answer.refuse(name, refusal),
        }
    }

    fn add_job_group(
        &mut self,
        requester: &Requester,
        name: &str,
        limit: Option<u32>,
    ) -> Result<&'static str, Refusal> {
        let state = &self.core.state;
        if state.job_group(name).is_some() {
            let text = "the group exists already: cgmod -L changes its limit";
            return Err(Refusal::refused(text));
        }
        if state.job_groups().len() >= ALL_MAX {
            return Err(Refusal::refused(format!(
                "the cluster's limit of {ALL_MAX} job groups is reached"
            )));
        }
        let own = state
            .job_groups()
            .filter(|group| group.uid == requester.uid);
        if own.count() >= USER_MAX {
            return Err(Refusal::refused(format!(
                "user {}'s limit of {USER_MAX} job groups is reached",
                requester.user
            )));
        }
        self.check_limit(name, limit)?;
        if !self.may(requester, Action::JobGroup, ActionObject::Cluster)
            && self.belongs_to_others(name, requester.uid)
        {
            return Err(Refusal::permission(
                "permission denied: the group has jobs or subgroups of other users",
            ));
        }
        self.define_group(
            requester,
            name,
            (requester.uid, requester.user.clone()),
            limit,
        );
        Ok("was added")
    }

    fn limit_job_group(
        &mut self,
        requester: &Requester,
        name: &str,
        limit: Option<u32>,
    ) -> Result<&'static str, Refusal> {
        let Some(group) = self.core.state.job_group(name).cloned() else {
            return Err(self.no_such_group(name));
        };
        if !self.may_change_group(requester, name) {
            return Err(Refusal::permission("permission denied"));
        }
        self.check_limit(name, limit)?;
        if group.limit != limit {
            self.define_group(requester, name, (group.uid, group.user), limit);
        }
        Ok("is modified")
    }

    fn remove_job_group(
        &mut self,
        requester: &Requester,
        name: &str,
    ) -> Result<&'static str, Refusal> {
        let state = &self.core.state;
        let within = state.job_groups().filter(|g| is_within(&g.name, name));
        let names: Vec<String> = within.map(|group| group.name.clone()).collect();
        if names.is_empty() {
            return Err(self.no_such_group(name));
        }
        if !names
            .iter()
            .all(|group| self.may_change_group(requester, group))
        {
            return Err(Refusal::permission("permission denied"));
        }
        self.spend_search();
        if self.core.state.owners_in_group(name).next().is_some() {
            return Err(Refusal::refused("the group has unfinished jobs"));
        }
        self.spend(names.len() as u64 * CHANGE);
        for name in names {
            let (by, t) = (requester.user.clone(), self.now);
            self.emit(Event::JobGroupRemoved { name, by, t });
        }
        Ok("was deleted")
    }

    fn define_group(
        &mut self,
        requester: &Requester,
        name: &str,
        (uid, user): (u32, String),
        limit: Option<u32>,
    ) {
        let group = JobGroup {
            name: name.to_owned(),
            uid,
            user,
            limit,
            t: self.now,
        };
        let by = requester.user.clone();
        self.emit(Event::JobGroupDefined { group, by });
    }

    /// Whether the user may change a group: its owner and the owners of the groups that contain it
    /// may.
    fn may_change_group(&self, requester: &Requester, name: &str) -> bool {
        let explicit = ancestors(name).filter_map(|name| self.core.state.job_group(name));
        let mut owners = explicit.map(|group| {
            ActionObject::Job(Owner {
                uid: group.uid,
                user: &group.user,
                groups: self.core.groups_of(&group.user),
                queue: "",
            })
        });
        owners.any(|owner| self.may(requester, Action::JobGroup, owner))
    }

    /// Whether other users have unfinished jobs in the group, or own groups below it.
    fn belongs_to_others(&mut self, name: &str, uid: u32) -> bool {
        self.spend_search();
        let state = &self.core.state;
        let below = state.job_groups().filter(|g| is_within(&g.name, name));
        let mut owners = below.map(|g| g.uid).chain(state.owners_in_group(name));
        owners.any(|owner| owner != uid)
    }

    /// Spends the units for a search of all specifications and started jobs.
    fn spend_search(&mut self) {
        let state = &self.core.state;
        let looks = state.spec_count() + state.all_started().count();
        self.spend(looks as u64 * LOOK);
    }

    /// A limit is at most that of each group that contains the group, and at least that of each
    /// subgroup.
    fn check_limit(&self, name: &str, limit: Option<u32>) -> Result<(), Refusal> {
        let Some(limit) = limit else {
            return Ok(());
        };
        if limit > LIMIT_MAX {
            return Err(Refusal::usage(format!("a limit is at most {LIMIT_MAX}")));
        }
        let limits = self.core.state.job_groups();
        let others = limits.filter_map(|group| Some((group.name.as_str(), group.limit?)));
        for (other, theirs) in others.filter(|(other, _)| *other != name) {
            if is_within(name, other) && theirs < limit {
                return Err(Refusal::refused(format!(
                    "limit {limit} is above the limit {theirs} of {other}, which contains the group"
                )));
            }
            if is_within(other, name) && theirs > limit {
                return Err(Refusal::refused(format!(
                    "limit {limit} is below the limit {theirs} of the subgroup {other}"
                )));
            }
        }
        Ok(())
    }

    fn no_such_group(&self, name: &str) -> Refusal {
        let known = self.core.state.job_groups();
        let near = did_you_mean(name, known.map(|group| group.name.as_str()));
        Refusal::not_found(format!("no such group was created by cgadd{near}"))
    }
}
