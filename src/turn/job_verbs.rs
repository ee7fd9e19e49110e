//! Verbs that select jobs, carried out job by job and element by element.
//!
//! Owns where such a verb stands. Nothing here is lost when a part ends: the selection goes on
//! behind the last job, and inside of an array behind the last element.

use super::requests::{ACT, ActiveRequest, CHANGE, LOOK};
use super::signal::{RequeueStates, WorkCounts, any_stat, denied, requeued};
use super::{Answer, Turn};
use crate::intake::{Action, Picked, Refusal, Requester, Selection};
use crate::model::{JobKey, JobStat};
use crate::record::ack::Code;
use crate::record::request::{Changes, Selector, SignalHow, Verb};
use crate::state::{Body, Job};

/// Elements of an array that are looked at in one step.
const STEP: usize = 1000;

/// What is done to each job.
#[derive(Clone)]
pub(super) enum JobAction {
    Signal(SignalHow),
    Requeue {
        hold: bool,
        wants: RequeueStates,
    },
    Switch {
        queue: String,
        changes: Box<Changes>,
    },
    Modify(Box<Changes>),
}

impl JobAction {
    fn action(&self) -> Action {
        match self {
            JobAction::Signal(how) => how.action(),
            JobAction::Requeue { .. } => Action::Requeue,
            JobAction::Switch { .. } => Action::Switch,
            JobAction::Modify(_) => Action::Modify,
        }
    }

    fn takes(&self, job: &Job) -> bool {
        let held = |s| matches!(s, JobStat::Psusp | JobStat::Ususp | JobStat::Ssusp);
        match self {
            JobAction::Signal(SignalHow::Resume) => any_stat(job, held),
            JobAction::Requeue { wants, .. } => any_stat(job, |s| wants.stat(s)),
            _ => !job.is_finished(),
        }
    }
}

/// A verb that selects jobs, on its way.
pub(super) struct JobVerb {
    doing: JobAction,
    sel: Selector,
    selection: Option<Selection>,
    /// What is being worked on.
    target: Option<Picked>,
    /// The element of it to go on with.
    within: u32,
    counts: WorkCounts,
}

impl JobVerb {
    /// The verb, if it selects jobs.
    pub fn of(verb: &Verb) -> Option<JobVerb> {
        let (doing, sel) = match verb {
            Verb::Signal { sel, how } => (JobAction::Signal(*how), sel),
            Verb::Requeue { sel, hold, states } => {
                let (hold, wants) = (*hold, RequeueStates::new(states));
                (JobAction::Requeue { hold, wants }, sel)
            }
            Verb::Switch { sel, queue } => {
                let mut changes = Box::<Changes>::default();
                changes.job.spec.queue.clone_from(queue);
                changes.set.push("q".to_owned());
                let queue = queue.clone();
                (JobAction::Switch { queue, changes }, sel)
            }
            Verb::Modify { sel, changes } => (JobAction::Modify(changes.clone()), sel),
            _ => return None,
        };
        Some(JobVerb {
            doing,
            sel: sel.clone(),
            selection: None,
            target: None,
            within: 0,
            counts: WorkCounts::default(),
        })
    }

    /// Where it stands: in its selection, and in the array that comes now.
    pub fn at(&self) -> (u32, u32) {
        let at = self.selection.as_ref().map_or(0, Selection::at);
        (at, self.within)
    }

    pub fn is_signal(&self) -> bool {
        matches!(self.doing, JobAction::Signal(_))
    }
}

impl Turn<'_> {
    /// Begins with a verb; `resume`: where an earlier leader came to.
    pub(super) fn select(
        &mut self,
        who: &Requester,
        mut present: JobVerb,
        resume: Option<(u32, u32)>,
        answer: &mut Answer,
    ) -> Option<JobVerb> {
        if let JobAction::Modify(changes) = &present.doing
            && let Err(refusal) = super::modify::check_options(changes)
        {
            answer.refuse("options", refusal);
            return None;
        }
        let users = self.users_meant(who, &present.sel);
        let mut spent = 0;
        let made = Selection::new(&present.sel, &self.core.state, users, &mut spent);
        let bytes: usize = present.sel.ids.iter().map(String::len).sum();
        self.spend(spent + bytes as u64 / 8);
        match made {
            Err(refusal) => {
                answer.refuse("selection", refusal);
                None
            }
            Ok(mut selection) => {
                if let Some((at, within)) = resume {
                    selection.go_to(at);
                    present.within = within;
                }
                present.selection = Some(selection);
                Some(present)
            }
        }
    }

    /// Uids whom a selector means; `None`: everybody.
    fn users_meant(&mut self, who: &Requester, sel: &Selector) -> Option<Vec<u32>> {
        match sel.user.as_str() {
            "" => Some(vec![who.uid]),
            "all" => None,
            name => Some(self.users_named(name)),
        }
    }

    fn users_named(&mut self, name: &str) -> Vec<u32> {
        let core = &*self.core;
        let specs = core.state.specs().map(|entry| &entry.spec);
        let mut uids: Vec<u32> = specs
            .filter(|spec| {
                let groups = core.groups.get(&spec.user).map_or(&[][..], Vec::as_slice);
                spec.user == name || core.config.in_user_group(&spec.user, groups, name)
            })
            .map(|spec| spec.uid)
            .collect();
        uids.sort_unstable();
        uids.dedup();
        let looks = core.state.spec_count() as u64 * LOOK;
        self.spend(looks);
        uids
    }

    /// Goes on with the verb under way until the part is used up. True when it is done.
    pub(super) fn continue_verb(&mut self, request: &mut ActiveRequest) -> bool {
        let Some(present) = &mut request.present else {
            return true;
        };
        let (who, answer) = (&request.who, &mut request.answer);
        while self.in_slice() {
            let Some(selection) = &mut present.selection else {
                return true;
            };
            let target = match present.target.take() {
                Some(target) => target,
                None => {
                    let mut spent = LOOK;
                    let takes = |job: &Job| present.doing.takes(job);
                    let picked = selection.now(&self.core.state, &takes, &mut spent);
                    self.spend(spent);
                    picked
                }
            };
            match &target {
                Picked::Searching => continue,
                Picked::End => {
                    if !selection.found() {
                        answer.refuse("selection", not_found());
                    }
                    return true;
                }
                Picked::Missing(operand) => answer.refuse(operand, not_found()),
                Picked::Whole(_) | Picked::Elements(..) => {
                    if !self.apply_to_target(who, present, &target, answer) {
                        present.target = Some(target);
                        continue;
                    }
                }
            }
            if let Some(selection) = &mut present.selection {
                selection.advance();
            }
            (present.within, present.counts) = (0, WorkCounts::default());
        }
        false
    }

    /// Works on a target until it is done (true) or the part is used up.
    fn apply_to_target(
        &mut self,
        who: &Requester,
        present: &mut JobVerb,
        target: &Picked,
        answer: &mut Answer,
    ) -> bool {
        let (id, set) = match target {
            Picked::Whole(id) => (*id, None),
            Picked::Elements(id, set) => (*id, Some(set)),
            _ => return true,
        };
        let may = self.may_act(who, present.doing.action(), id);
        let once = !matches!(
            present.doing,
            JobAction::Signal(_) | JobAction::Requeue { .. }
        );
        let Some(set) = set else {
            let j = JobKey::job(id);
            if !may {
                answer.refuse(j, denied());
                return true;
            }
            return self.apply_to(who, present, j, answer);
        };
        while self.in_slice() {
            let Some(idx) = set.first_from(present.within) else {
                return true;
            };
            present.within = idx + 1;
            self.spend(LOOK);
            let j = JobKey::element(id, idx);
            match self.core.state.stat(j) {
                None => answer.refuse(j, not_found()),
                Some(_) if !may => answer.refuse(j, denied()),
                Some(_) => {
                    self.apply_to(who, present, j, answer);
                    present.counts = WorkCounts::default();
                    present.within = idx + 1;
                    // Parameters belong to the array: changed for one, they are for all.
                    if once {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Works on a job, an element, or an array with all its elements. True when it is done.
    fn apply_to(
        &mut self,
        who: &Requester,
        present: &mut JobVerb,
        j: JobKey,
        answer: &mut Answer,
    ) -> bool {
        let at = (&mut present.within, &mut present.counts);
        match &present.doing {
            JobAction::Signal(how) => {
                let how = *how;
                if !self.for_each_work(j, at, true, |turn, key, counts| {
                    turn.signal_work(who, key, how, counts);
                }) {
                    return false;
                }
                match self.signal_answer(j, how, &present.counts) {
                    Ok(text) => answer.say(j, Code::Ok, text),
                    Err(refusal) => answer.refuse(j, refusal),
                }
                self.core.needs_pass = true;
            }
            JobAction::Requeue { hold, wants } => {
                let (hold, wants) = (*hold, *wants);
                if !self.for_each_work(j, at, false, |turn, key, counts| {
                    let left = turn.stray_host(key);
                    if turn.requeue_one(who, key, hold || left.is_some(), wants) {
                        counts.done += 1;
                        counts.left = counts.left.take().or(left);
                    }
                }) {
                    return false;
                }
                match present.counts.done {
                    0 => answer.say(j, Code::Refused, "is not in a state to be requeued"),
                    _ => answer.say(j, Code::Ok, requeued(present.counts.left.as_deref())),
                }
                self.core.needs_pass = true;
            }
            JobAction::Switch { queue, changes } => {
                self.spend(CHANGE);
                match self.switch_one(who, j, changes) {
                    Ok(()) => answer.say(j, Code::Ok, format!("is switched to queue <{queue}>")),
                    Err(refusal) => answer.refuse(j, refusal),
                }
            }
            JobAction::Modify(changes) => {
                self.spend(CHANGE);
                match self.modify_one(who, j, changes) {
                    Ok(()) => answer.say(j, Code::Ok, "parameters are being changed"),
                    Err(refusal) => answer.refuse(j, refusal),
                }
            }
        }
        true
    }

    fn is_whole_array(&self, j: JobKey) -> bool {
        let job = self.core.state.job(j.id);
        j.idx == 0 && job.is_some_and(|job| job.array().is_some())
    }

    /// Calls `f` for each work behind a key: of an array its waiting part (index 0, if `waiting` is
    /// asked for) and each element made, behind `within`; of others themselves. False when the part
    /// is used up before the last one.
    fn for_each_work(
        &mut self,
        j: JobKey,
        (within, counts): (&mut u32, &mut WorkCounts),
        waiting: bool,
        mut f: impl FnMut(&mut Self, JobKey, &mut WorkCounts),
    ) -> bool {
        self.spend(LOOK);
        if !self.is_whole_array(j) {
            f(self, j, counts);
            return true;
        }
        if *within == 0 {
            *within = 1;
            if waiting {
                f(self, j, counts);
            }
        }
        while self.in_slice() {
            let Some(Body::Array(array)) = self.core.state.job(j.id).map(|job| &job.body) else {
                return true;
            };
            let (mut looked, mut last, mut found) = (0, None, None);
            for (idx, work) in array.work.range(*within..).take(STEP) {
                (looked, last) = (looked + LOOK, Some(*idx));
                if !waiting || !work.stat.is_finished() {
                    found = Some(*idx);
                    break;
                }
            }
            let Some(last) = last else { return true };
            *within = last + 1;
            self.spend(looked);
            if let Some(idx) = found {
                f(self, JobKey::element(j.id, idx), counts);
            }
        }
        false
    }

    /// An event about a job is about to be made.
    pub(super) fn act(&mut self) {
        self.spend(ACT);
    }
}

fn not_found() -> Refusal {
    Refusal::new(Code::NotFound, "no matching job found")
}
