//! Invariants of the state, recomputed from the jobs alone. Cheap enough for tests after each step
//! and for `cadmin check`; the daemons run it after replay.

use super::State;
use super::job::Body;
use super::parts::{PendingCounts, PendingTotals};
use crate::model::{JobKey, JobStat};
use std::collections::BTreeSet;

/// Incorrect counts of an array.
fn check_array(job: &super::Job) -> Vec<String> {
    let mut broken = Vec::new();
    let Body::Array(array) = &job.body else {
        return broken;
    };
    let mut counts = [0u32; 8];
    for work in array.work.values() {
        counts[work.stat as usize] += 1;
    }
    if counts != array.counts {
        broken.push(format!("job {}: counts by state are wrong", job.id));
    }
    if array.waiting.len() + array.work.len() as u64 != array.all.len() {
        broken.push(format!(
            "job {}: elements are missing or occur twice",
            job.id
        ));
    }
    if !array.head.is_waiting() {
        broken.push(format!(
            "job {}: its waiting part is {}",
            job.id, array.head
        ));
    }
    broken
}

impl State {
    /// Every broken invariant as a sentence; empty = the state is sound.
    pub fn check(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let mut used = self.used.unused();
        let mut pend_total = 0;
        let mut listed = BTreeSet::new();
        for job in self.jobs.values() {
            let who = self.specs[&job.spec].owner;
            job.each_started(&mut |j, run, stat| {
                used.charge(j, who, run, stat, true, &self.hosts.numbers)
            });
            job.each_pending(&mut |order, j, n, ready| {
                pend_total += n;
                if ready {
                    listed.insert((self.class_of(job.spec), order, j));
                }
            });
            broken.extend(check_array(job));
            if job.is_finished()
                != self
                    .times
                    .finished
                    .contains(&(job.end_learned_at(), job.id))
            {
                broken.push(format!("job {}: wrongly listed as finished or not", job.id));
            }
            broken.extend(self.check_work(job));
        }
        let mut have = self.used.clone();
        broken.extend(self.check_crons());
        broken.extend(self.check_messages());
        used.tidy();
        have.tidy();
        if used != have {
            broken.push("slots in use do not follow from the started jobs".to_owned());
        }
        broken.extend(self.over_allocated_units());
        broken.extend(self.check_backlog(pend_total));
        let in_classes: BTreeSet<_> = self
            .pending
            .classes()
            .flat_map(|(id, class)| class.jobs.iter().map(move |(o, j)| (id, o, j)))
            .collect();
        for (id, class) in self.pending.classes() {
            let array = |j: &JobKey| self.job(j.id).is_some_and(|job| job.array().is_some());
            let arrays = class.jobs.iter().filter(|(_, j)| j.idx == 0 && array(j));
            if arrays.count() != class.arrays as usize {
                broken.push(format!("class {id}: its arrays are miscounted"));
            }
        }
        let named = |job: &&super::Job| {
            let uid = self.spec(job.spec).uid;
            self.dependencies.names.has(uid, job.name(), job.id)
        };
        if self.dependencies.names.len() != self.jobs.len()
            || !self.jobs.values().all(|job| named(&job))
        {
            broken.push("jobs are not found by their names".to_owned());
        }
        let known = |id: &u32| self.jobs.contains_key(*id);
        if !self.times.deadlines.iter().all(|(_, id)| known(id)) {
            broken.push("termination times of forgotten jobs are left".to_owned());
        }
        if in_classes != listed {
            broken.push("the classes of pending jobs do not follow from the jobs".to_owned());
        }
        broken
    }

    /// `pending`: waiting jobs, with elements counted individually.
    fn check_backlog(&self, pending: u64) -> Vec<String> {
        let mut broken = Vec::new();
        if pending != self.specs.values().map(|e| e.waiting).sum::<u64>() {
            broken.push("waiting jobs are miscounted by specification".to_owned());
        }
        let mut expected = PendingTotals::default();
        for entry in self.specs.values().filter(|entry| entry.waiting > 0) {
            expected.change(entry.owner, entry.spec.min, 0, entry.waiting);
        }
        let have = &self.backlog;
        if pending != have.total {
            broken.push(format!("{} jobs pend, {pending} counted", have.total));
        }
        let of_user =
            |(uid, n): (&u32, &PendingCounts)| expected.by_user.get(uid).copied() == Some(*n);
        let none = |n: &PendingCounts| *n == PendingCounts::default();
        let mut users = have.by_user.iter().filter(|(_, n)| !none(n));
        let queues = have.by_queue.iter().filter(|n| !none(n));
        if !users.all(of_user)
            || !queues.eq(expected.by_queue.iter().filter(|n| !none(n)))
            || expected.by_user.values().map(|n| n.jobs).sum::<u64>() != pending
        {
            broken.push("pending slots are miscounted by user or queue".to_owned());
        }
        broken
    }

    fn check_work(&self, job: &super::Job) -> Vec<String> {
        let mut broken = Vec::new();
        let mut one = |idx: u32, work: &super::Work| {
            let end = work.run.as_ref().and_then(|run| run.end.as_ref());
            let hosts = work.run.as_ref().is_some_and(|run| !run.hosts.is_empty());
            if work.stat.is_started() && (!hosts || end.is_some() || work.attempt == 0) {
                broken.push(format!(
                    "job {}[{idx}]: {} without a live run",
                    job.id, work.stat
                ));
            }
            if work.stat.is_finished() && end.is_none() {
                broken.push(format!(
                    "job {}[{idx}]: {} without an end",
                    job.id, work.stat
                ));
            }
            let ok = end.is_some_and(|f| (f.code == Some(0) || f.success) && f.sig == 0);
            if work.stat == JobStat::Done && !ok {
                broken.push(format!(
                    "job {}[{idx}]: DONE without an exit code of success",
                    job.id
                ));
            }
        };
        match &job.body {
            Body::Single(work) => one(0, work),
            Body::Array(array) => array.work.iter().for_each(|(idx, work)| one(*idx, work)),
        }
        broken
    }
}
