//! Verbs that select jobs are carried out job by job and element by element.

use super::answer::Answer;
use super::context::Turn;
use super::job_verb::{JobAction, JobVerb, WorkCounts};
use super::modify::check_options;
use super::request_queue::{ActiveRequest, CHANGE, LOOK};
use super::signal::{denied, requeued};
use crate::intake::{Refusal, Requester, Selection, SelectionItem};
use crate::model::JobKey;
use crate::record::ack::Code;
use crate::record::message;
use crate::record::request::Selector;
use crate::state::{Body, Job};

/// Number of elements of an array that are considered in one step.
const STEP: usize = 1000;

impl Turn<'_> {
    /// Begins a verb; `resume`: the progress of an earlier leader.
    pub(super) fn select(
        &mut self,
        requester: &Requester,
        mut job_verb: JobVerb,
        resume: Option<(u32, u32)>,
        answer: &mut Answer,
    ) -> Option<JobVerb> {
        let checked = match &job_verb.action {
            JobAction::Modify(changes) => check_options(changes),
            JobAction::Post { index, text } => message::check(*index, text).map_err(Refusal::usage),
            _ => Ok(()),
        };
        if let Err(refusal) = checked {
            answer.refuse("options", refusal);
            return None;
        }
        let users = self.target_users(requester, &job_verb.sel);
        let mut spent = 0;
        let made = Selection::new(&job_verb.sel, &self.core.state, users, &mut spent);
        let bytes: usize = job_verb.sel.ids.iter().map(String::len).sum();
        self.spend(spent + bytes as u64 / 8);
        match made {
            Err(refusal) => {
                answer.refuse("selection", refusal);
                None
            }
            Ok(mut selection) => {
                if let Some((at, within)) = resume {
                    selection.go_to(at);
                    job_verb.next_index = within;
                }
                job_verb.selection = Some(selection);
                Some(job_verb)
            }
        }
    }

    /// The users that a selector selects, by uid; `None`: all.
    fn target_users(&mut self, requester: &Requester, sel: &Selector) -> Option<Vec<u32>> {
        match sel.user.as_str() {
            "" => Some(vec![requester.uid]),
            "all" => None,
            name => Some(self.users_named(name)),
        }
    }

    fn users_named(&mut self, name: &str) -> Vec<u32> {
        let core = &*self.core;
        let specs = core.state.specs().map(|entry| &entry.spec);
        let mut uids: Vec<u32> = specs
            .filter(|spec| {
                let groups = core.groups_of(&spec.user);
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

    /// Continues the current verb until the slice is used up. Returns true if the verb is done.
    pub(super) fn continue_verb(&mut self, request: &mut ActiveRequest) -> bool {
        let Some(job_verb) = &mut request.job_verb else {
            return true;
        };
        let (who, answer) = (&request.requester, &mut request.answer);
        while self.in_slice() {
            let Some(selection) = &mut job_verb.selection else {
                return true;
            };
            let target = match job_verb.target.take() {
                Some(target) => target,
                None => {
                    let mut spent = LOOK;
                    let takes = |job: &Job| job_verb.action.takes(job, &job_verb.sel);
                    let picked = selection.current_item(&self.core.state, &takes, &mut spent);
                    self.spend(spent);
                    picked
                }
            };
            match &target {
                SelectionItem::Searching => continue,
                SelectionItem::End => {
                    if !selection.found() {
                        answer.refuse("selection", not_found());
                    }
                    return true;
                }
                SelectionItem::Missing(operand) => answer.refuse(operand, not_found()),
                SelectionItem::Whole(_) | SelectionItem::Elements(..) => {
                    if !self.apply_to_target(who, job_verb, &target, answer) {
                        job_verb.target = Some(target);
                        continue;
                    }
                }
            }
            if let Some(selection) = &mut job_verb.selection {
                selection.advance();
            }
            (job_verb.next_index, job_verb.counts) = (0, WorkCounts::default());
        }
        false
    }

    /// Applies the verb to a target until it is done (true) or the slice is used up.
    fn apply_to_target(
        &mut self,
        requester: &Requester,
        job_verb: &mut JobVerb,
        target: &SelectionItem,
        answer: &mut Answer,
    ) -> bool {
        let (id, set) = match target {
            SelectionItem::Whole(id) => (*id, None),
            SelectionItem::Elements(id, set) => (*id, Some(set)),
            _ => return true,
        };
        let may = self.may_act(requester, job_verb.action.action(), id);
        let once = matches!(
            job_verb.action,
            JobAction::Switch { .. } | JobAction::Modify(_)
        );
        let Some(set) = set else {
            let j = JobKey::job(id);
            if !may {
                answer.refuse(j, denied());
                return true;
            }
            return self.apply_to(requester, job_verb, j, answer);
        };
        while self.in_slice() {
            let Some(idx) = set.first_from(job_verb.next_index) else {
                return true;
            };
            job_verb.next_index = idx + 1;
            self.spend(LOOK);
            let j = JobKey::element(id, idx);
            match self.core.state.stat(j) {
                None => answer.refuse(j, not_found()),
                Some(_) if !may => answer.refuse(j, denied()),
                Some(_) => {
                    self.apply_to(requester, job_verb, j, answer);
                    job_verb.counts = WorkCounts::default();
                    job_verb.next_index = idx + 1;
                    // Parameters belong to the array: a change for one element is a change for all.
                    if once {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Applies the verb to a job, an element, or an array with all its elements. Returns true if it
    /// is done.
    fn apply_to(
        &mut self,
        requester: &Requester,
        job_verb: &mut JobVerb,
        j: JobKey,
        answer: &mut Answer,
    ) -> bool {
        let at = (&mut job_verb.next_index, &mut job_verb.counts);
        match &job_verb.action {
            JobAction::Signal(how) => {
                let (how, sel) = (*how, &job_verb.sel);
                if !self.for_each_work(j, at, true, |turn, key, counts| {
                    match turn.is_in_other_state(key, sel) {
                        true => counts.in_other_state += 1,
                        false => turn.signal_work(requester, key, how, counts),
                    }
                }) {
                    return false;
                }
                match self.signal_answer(j, how, &job_verb.counts) {
                    Ok(text) => answer.add_result(j, Code::Ok, text),
                    Err(refusal) => answer.refuse(j, refusal),
                }
                self.core.pass.needed = true;
            }
            JobAction::Requeue { hold, wants } => {
                let (hold, wants) = (*hold, *wants);
                if let Err(refusal) = self.may_run_again(j) {
                    answer.refuse(j, refusal);
                    return true;
                }
                if !self.for_each_work(j, at, false, |turn, key, counts| {
                    let stray = turn.stray_host(key);
                    if turn.requeue_one(requester, key, hold || stray.is_some(), wants) {
                        counts.done += 1;
                        counts.stray_host = counts.stray_host.take().or(stray);
                    }
                }) {
                    return false;
                }
                match job_verb.counts.done {
                    0 => answer.add_result(j, Code::Refused, "is not in a state to be requeued"),
                    _ => answer.add_result(
                        j,
                        Code::Ok,
                        requeued(job_verb.counts.stray_host.as_deref()),
                    ),
                }
                self.core.pass.needed = true;
            }
            JobAction::Migrate { hosts, force } => {
                let (hosts, force) = (hosts.clone(), *force);
                return self.migrate(requester, j, (&hosts, force), at, answer);
            }
            JobAction::Switch { queue, changes } => {
                let done = self.switch_one(requester, j, changes);
                let text = done.map(|note| format!("is switched to queue <{queue}>{note}"));
                self.answer_change(j, text, answer);
            }
            JobAction::Modify(changes) => {
                let done = self.modify_one(requester, j, changes);
                let text = done.map(|note| format!("are being changed{note}"));
                self.answer_change(j, text, answer);
            }
            JobAction::Post { index, text } => {
                let done = self.post_one(requester, j, *index, text);
                let text = done.map(|()| format!("has message {index}"));
                self.answer_change(j, text, answer);
            }
        }
        true
    }

    fn answer_change(&mut self, j: JobKey, done: Result<String, Refusal>, answer: &mut Answer) {
        self.spend(CHANGE);
        match done {
            Ok(text) => answer.add_result(j, Code::Ok, text),
            Err(refusal) => answer.refuse(j, refusal),
        }
    }

    /// Returns true if it is done.
    fn migrate(
        &mut self,
        requester: &Requester,
        j: JobKey,
        (hosts, force): (&str, bool),
        (within, counts): (&mut u32, &mut WorkCounts),
        answer: &mut Answer,
    ) -> bool {
        if let Err(refusal) = self.move_to(requester, j, hosts) {
            answer.refuse(j, refusal);
            return true;
        }
        let at = (&mut *within, &mut *counts);
        if !self.for_each_work(j, at, false, |turn, key, counts| {
            match turn.migrate_one(requester, key, force) {
                Ok(()) => counts.done += 1,
                Err(refusal) => counts.refusal = counts.refusal.take().or(Some(refusal)),
            }
        }) {
            return false;
        }
        match (counts.done, counts.refusal.take()) {
            (0, Some(refusal)) => answer.refuse(j, refusal),
            (0, None) => answer.refuse(j, not_found()),
            _ => answer.add_result(j, Code::Ok, "is being migrated"),
        }
        self.core.pass.needed = true;
        true
    }

    fn is_whole_array(&self, j: JobKey) -> bool {
        let job = self.core.state.job(j.id);
        j.idx == 0 && job.is_some_and(|job| job.array().is_some())
    }

    /// Calls `f` for each job or element that a key names: for an array its pending part (index 0,
    /// if `waiting` is requested) and each created element after `next_index`; otherwise the job or
    /// element itself. Returns false if the slice is used up before the last one.
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
}

fn not_found() -> Refusal {
    Refusal::new(Code::NotFound, "no matching job found")
}
