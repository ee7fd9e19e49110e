//! Compares the state of leaders with what really happened and with the answers to clients.
//!
//! The checked promises: each leader knows every acknowledged job and every start, and keeps what
//! it confirmed; a submission creates one job; a finished status never changes; success is never
//! invented; no leader assigns more slots than hosts have, or lets a gang continue without one of
//! its hosts; every state is sound. Only judges.

use super::cron_checks::CRON_NAME;
use super::history::{History, PublishedEnd};
use super::kernel::Kernel;
use super::licence_checks;
use super::tasks::RunKey;
use crate::model::{AttemptId, JobKey, JobStat, TermReason};
use crate::state::{Job, JobEnd, Run, State, Work};
use std::collections::{BTreeMap, BTreeSet};

impl History {
    /// Notes that a leader has recovered this state.
    pub(super) fn recovered(&mut self, kernel: &mut Kernel, epoch: u64, state: &State) {
        self.takeovers += 1;
        self.file_checks.note_leader(kernel, epoch);
        kernel.trace("check", || {
            format!("epoch {epoch} recovered {} jobs", state.job_count())
        });
        if epoch < self.facts.highest_epoch {
            // A claimant that was overtaken: neither its first commit nor itself counts.
            return;
        }
        self.facts.highest_epoch = epoch;
        self.facts.acked.extend(self.restored.recovered(state));
        self.restored.observe(kernel, state);
        self.check_known(kernel, epoch, state);
        self.check_finals(kernel, epoch, state);
        self.committed(epoch, state);
        self.check_jobs(kernel, epoch, state);
    }

    /// Notes that a leader has carried out a turn.
    pub(super) fn note_turn(
        &mut self,
        kernel: &mut Kernel,
        epoch: u64,
        state: &State,
        changed: bool,
    ) {
        if epoch == self.facts.highest_epoch {
            // Clients and hosts believe the statements of a late leader, so the current leader must
            // know them.
            self.check_known(kernel, epoch, state);
        }
        if !changed {
            return;
        }
        self.restored.observe(kernel, state);
        self.check_jobs(kernel, epoch, state);
        let broken = state.check();
        if !broken.is_empty() {
            let text = format!("epoch {epoch} has an unsound state: {broken:?}");
            self.broken(kernel, text);
        }
        kernel.trace("check", || {
            format!("epoch {epoch} turned: {} jobs", state.job_count())
        });
        if epoch == self.facts.highest_epoch {
            let open = state.jobs().filter(|job| !job.is_finished());
            self.facts.open = open.map(|job| (job.id, name_of(job).to_owned())).collect();
        }
    }

    /// Checks that this leader knows everything that was acknowledged and every start.
    fn check_known(&mut self, kernel: &mut Kernel, epoch: u64, state: &State) {
        let mut wrong = Vec::new();
        let cleaned = |id: u32| {
            let may_be = self.limits.clocks_jump && self.facts.ended.contains(&id);
            may_be && state.job(id).is_none()
        };
        for (name, id) in self.facts.acked.iter().filter(|(_, id)| !cleaned(**id)) {
            let found = state.job(*id).and_then(|job| job.name.as_deref());
            if found != Some(name.as_str()) {
                wrong.push(format!(
                    "epoch {epoch} does not know job {id} ({name}), which was acknowledged; it \
                     has {found:?} there"
                ));
            }
        }
        let is_known = |run: &RunKey| !cleaned(run.0.j.id) && !self.restored.is_lost(run);
        for ((a, _), s) in self.starts.iter().filter(|(run, _)| is_known(run)) {
            let ran_on = &s.host;
            match state.work(a.j) {
                None => wrong.push(format!(
                    "epoch {epoch} does not know {a}, which ran on {ran_on}"
                )),
                Some(work) if work.attempt < a.at => {
                    let at = work.attempt;
                    wrong.push(format!(
                        "epoch {epoch} is at attempt {at} of {a}, which has run"
                    ));
                }
                Some(work) if work.attempt == a.at => {
                    let first = work.run.as_ref().and_then(|run| run.hosts.first());
                    let host = first.map(|(id, _)| state.host_name(*id).to_string());
                    if host.is_some_and(|h| h != *ran_on) {
                        wrong.push(format!("epoch {epoch} has {a} elsewhere than on {ran_on}"));
                    }
                }
                Some(_) => {}
            }
        }
        self.all_broken(kernel, wrong);
    }

    /// Checks that every published end is also an end for this leader.
    fn check_finals(&mut self, kernel: &mut Kernel, epoch: u64, state: &State) {
        let mut wrong = Vec::new();
        for (j, known) in &self.facts.published_ends {
            let cleaned = self.limits.clocks_jump && state.job(j.id).is_none();
            if cleaned || self.reruns.requeued.contains(&j.id) {
                continue;
            }
            let now = state.work(*j).and_then(published_end_of);
            if now != Some(*known) {
                wrong.push(format!(
                    "{j} had ended as {known:?}, epoch {epoch} has {now:?}"
                ));
            }
        }
        self.all_broken(kernel, wrong);
    }

    /// Records what a leader has and is about to publish.
    pub(super) fn committed(&mut self, epoch: u64, state: &State) {
        for job in state.jobs() {
            let name = name_of(job);
            self.deferred_errors
                .extend(self.restored.names(job.id, name));
            for (j, work) in works(job) {
                let at = work.attempt;
                self.leader_states.insert((j, work.stat, at));
                let a = AttemptId { j, at };
                // Excludes what a leader created that was overtaken meanwhile.
                let mark = state.mark(j);
                if mark != 0 && epoch >= self.facts.highest_epoch {
                    let names = &mut self.runs.names;
                    names.entry((a, mark)).or_insert_with(|| name.to_owned());
                    self.runs.marks.insert(a, mark);
                }
                if end_of(work).is_some_and(|end| end.reason == TermReason::Force) {
                    self.uncounted.insert(a);
                }
                if let Some(run) = work.run.as_deref() {
                    self.bound(a, run, state);
                }
                let made = self.facts.attempts.entry(j).or_default();
                *made = at.max(*made);
                match work.run.as_ref().is_some_and(|run| run.preparing) {
                    true => self.facts.preparing.insert(a),
                    false => self.facts.preparing.remove(&a),
                };
            }
        }
    }

    /// Records the hosts to which an attempt is bound.
    fn bound(&mut self, a: AttemptId, run: &Run, state: &State) {
        let name = |(id, _): &(_, u32)| state.host_name(*id).to_string();
        let hosts: Vec<String> = run.hosts.iter().map(name).collect();
        let known = &mut self.facts;
        let new = known.attempts.get(&a.j).is_none_or(|made| *made < a.at);
        if run.forced {
            self.uncounted.insert(a);
        } else if let Some(closed) = hosts
            .iter()
            .find(|h| new && self.confirmed.takes_no_jobs(h))
        {
            self.deferred_errors.push(format!(
                "attempt {a} is bound to {closed}, which is closed or locked"
            ));
        }
        let Some((first, others)) = hosts.split_first() else {
            return;
        };
        let others: BTreeSet<&String> = others.iter().filter(|h| *h != first).collect();
        let begins = run.preparing || known.preparing.contains(&a);
        if others.is_empty() || (known.gangs.contains_key(&a) && !begins) {
            return;
        }
        let boot = |h: &String| (h.clone(), state.host_ctl(h).boot);
        known
            .gangs
            .insert(a, others.into_iter().map(boot).collect());
    }

    fn check_jobs(&mut self, kernel: &mut Kernel, epoch: u64, state: &State) {
        let mut names: BTreeMap<&str, u32> = BTreeMap::new();
        let mut wrong = std::mem::take(&mut self.deferred_errors);
        for job in state.jobs() {
            let (id, name) = (job.id, name_of(job));
            let spec = state.spec(job.spec);
            if spec.rerunnable {
                self.reruns.rerunnable.insert(id);
            }
            // Runs of a cron job share one name.
            let of_cron = name.starts_with(CRON_NAME);
            if let Some(other) = names.insert(name, id).filter(|_| !of_cron) {
                wrong.push(format!(
                    "epoch {epoch}: {name} became job {other} and job {id}"
                ));
            }
            if job.is_finished() {
                self.facts.ended.insert(id);
            }
            for (j, work) in works(job) {
                let slots = work.run.as_ref().map_or(0, |run| run.slots());
                let min = spec.min;
                if work.stat.is_started() && slots < min {
                    wrong.push(format!("epoch {epoch}: {j} runs on {slots} of {min} slots"));
                }
                if let Some(now) = published_end_of(work) {
                    wrong.extend(self.check_end(kernel, epoch, state, (j, work, now)));
                }
            }
        }
        wrong.extend(self.check_gangs(epoch, state));
        wrong.extend(self.check_slots(epoch, state));
        wrong.extend(self.check_units(epoch, state));
        wrong.extend(licence_checks::check(epoch, state));
        // A leader that was stopped and overtaken still has the state of that time.
        if epoch >= self.facts.highest_epoch {
            wrong.extend(self.confirmed.check(epoch, state));
            wrong.extend(self.check_limits(epoch, state));
            wrong.extend(self.clients.crons.observe(epoch, state));
        }
        self.all_broken(kernel, wrong);
    }

    /// Checks that the end that a leader has for a job is the first one published and really
    /// happened.
    fn check_end(
        &mut self,
        kernel: &mut Kernel,
        epoch: u64,
        state: &State,
        (j, work, now): (JobKey, &Work, PublishedEnd),
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        if !self.facts.published_ends.contains_key(&j) {
            kernel.trace("check", || format!("{j} has ended: {:?}", end_of(work)));
        }
        let known = self.facts.published_ends.entry(j).or_insert(now);
        if self.reruns.requeued.contains(&j.id) {
            *known = now;
        }
        if *known != now {
            wrong.push(format!(
                "{j} had ended as {known:?}, epoch {epoch} has {now:?}"
            ));
        }
        let a = AttemptId { j, at: now.2 };
        let real_end = self.starts.get(&(a, state.mark(j))).and_then(|s| s.ended);
        if now.0 == JobStat::Done && real_end != Some(Some(0)) {
            wrong.push(format!(
                "epoch {epoch} shows {a} as done, it ended as {real_end:?}"
            ));
        }
        wrong
    }

    /// Checks that no host enforces limits that the leader does not know: they are ordered after
    /// the commit.
    fn check_limits(&self, epoch: u64, state: &State) -> Vec<String> {
        let unknown = |(run, taken): (&RunKey, &u32)| {
            let (a, mark) = *run;
            let work = state.work(a.j).filter(|work| work.attempt == a.at)?;
            let has = work.run.as_deref()?.orders.limits;
            (state.mark(a.j) == mark && has < *taken).then(|| {
                format!("epoch {epoch} knows {has} changes of limits of {a}, its host {taken}")
            })
        };
        self.limit_changes.iter().filter_map(unknown).collect()
    }

    /// Checks that no slot of a host is allocated more than once.
    fn check_slots(&self, epoch: u64, state: &State) -> Vec<String> {
        let slots = self.limits.slots;
        let counted = |j: &JobKey| !state.work(*j).is_some_and(is_forced);
        let hosts = state.known_hosts().filter_map(|(name, _)| {
            let on_host = state.on_host(name).filter(|(j, _)| counted(j));
            let used: u32 = on_host.map(|(_, slots)| slots).sum();
            (used > slots)
                .then(|| format!("epoch {epoch} assigns {used} of {slots} slots of {name}"))
        });
        hosts.collect()
    }

    /// Checks that a job on several hosts is being ended once one of them was restarted.
    fn check_gangs(&self, epoch: u64, state: &State) -> Vec<String> {
        let mut wrong = Vec::new();
        for (a, parts) in &self.facts.gangs {
            let Some(work) = state.work(a.j).filter(|w| w.attempt == a.at) else {
                continue;
            };
            let run = work.run.as_deref();
            if !work.stat.is_started() || run.is_none_or(|r| r.preparing || r.killing.is_some()) {
                continue;
            }
            for (host, boot) in parts.iter().filter(|(_, boot)| !boot.is_empty()) {
                let now = state.host_ctl(host).boot;
                if now != *boot {
                    wrong.push(format!(
                        "epoch {epoch} lets {a} continue, although {host} was restarted ({now})"
                    ));
                }
            }
        }
        wrong
    }
}

fn name_of(job: &Job) -> &str {
    job.name.as_deref().unwrap_or("?")
}

/// Everything of a job that can run and has a state of its own.
fn works(job: &Job) -> Vec<(JobKey, &Work)> {
    match job.array() {
        None => {
            let work = job.work(0).map(|w| (JobKey::job(job.id), w));
            work.into_iter().collect()
        }
        Some(array) => {
            let elements = array.work.iter();
            elements
                .map(|(idx, work)| (JobKey::element(job.id, *idx), work))
                .collect()
        }
    }
}

/// Whether an administrator forced it onto its hosts, regardless of what runs there.
pub(super) fn is_forced(work: &Work) -> bool {
    work.run.as_ref().is_some_and(|run| run.forced)
}

fn end_of(work: &Work) -> Option<&JobEnd> {
    work.run.as_ref()?.end.as_deref()
}

/// How a job ended, if it has and no requeue can bring it back.
fn published_end_of(work: &Work) -> Option<PublishedEnd> {
    let end = end_of(work);
    let code = end
        .filter(|f| f.reason == TermReason::None)
        .and_then(|f| f.code);
    let ended = work.stat.is_finished();
    ended.then_some((work.stat, code, work.attempt))
}
