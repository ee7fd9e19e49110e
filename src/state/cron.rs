//! Cron jobs in the state: the effects of events, which jobs are runs of which cron job, and the
//! result of a run. Decides nothing and knows no calendar.

use super::State;
use super::job::{Body, Job, Work};
use crate::model::{JobStat, Stamp, TermReason};
use crate::record::cron::{CronJob, CronRecord, CronResult, CronRun, PackRun, TEXT_MAX};
use crate::record::event::{Event, SignalAct, Submitted};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Its owner and its name.
pub type CronKey = (u32, String);

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct Crons {
    jobs: BTreeMap<CronKey, CronJob>,
    /// Jobs of runs that have not ended, each with the first job of its run.
    runs: FxHashMap<u32, (CronKey, u32)>,
    /// Cron jobs with a pack of which some jobs are still to be submitted.
    open: BTreeSet<CronKey>,
    /// Cron jobs whose due times must be computed again.
    changed: BTreeSet<CronKey>,
    /// Grows whenever something of a cron job changes.
    version: u64,
}

impl State {
    pub fn cron(&self, key: &CronKey) -> Option<&CronJob> {
        self.crons.jobs.get(key)
    }

    /// All cron jobs, by owner and name.
    pub fn crons(&self) -> impl Iterator<Item = &CronJob> {
        self.crons.jobs.values()
    }

    /// The cron jobs of one user.
    pub fn crons_of(&self, uid: u32) -> impl Iterator<Item = &CronJob> {
        let from = (uid, String::new());
        let all = self.crons.jobs.range(from..);
        all.take_while(move |((of, _), _)| *of == uid)
            .map(|(_, cron)| cron)
    }

    pub fn cron_count(&self) -> usize {
        self.crons.jobs.len()
    }

    /// Cron jobs with a run of which an earlier leader submitted only some jobs.
    pub fn open_crons(&self) -> Vec<CronKey> {
        self.crons.open.iter().cloned().collect()
    }

    /// A number that changes whenever something of the cron jobs changes.
    pub fn cron_version(&self) -> u64 {
        self.crons.version
    }

    /// Cron jobs that were created, changed or handled since the last call.
    pub fn take_changed_crons(&mut self) -> BTreeSet<CronKey> {
        std::mem::take(&mut self.crons.changed)
    }

    /// Applies an event about a cron job itself. Returns false if it is not one.
    pub(super) fn apply_to_cron(&mut self, event: &Event) -> bool {
        match event {
            Event::CronDefined {
                uid,
                user,
                def,
                by,
                t,
            } => {
                let key = (*uid, def.name.clone());
                let cron = self.crons.jobs.entry(key.clone()).or_default();
                (cron.uid, cron.user) = (*uid, user.clone());
                (cron.def, cron.by, cron.t) = (def.as_ref().clone(), by.clone(), *t);
                // Due times before a definition do not follow from it.
                cron.handled = cron.handled.max(*t);
                (cron.fails, cron.why) = (0, String::new());
                // The rest of a pack consisted of jobs of the old definition.
                self.crons
                    .close_packs(&key, *t, None, "its definition was changed");
                self.cron_changed(key);
            }
            Event::CronSwitched {
                uid, name, on, t, ..
            } => {
                let key = (*uid, name.clone());
                if let Some(cron) = self.crons.jobs.get_mut(&key) {
                    if *on && cron.def.disabled {
                        // This event starts it again, from now on: also after a clock that was far
                        // ahead.
                        (cron.fails, cron.handled) = (0, *t);
                    }
                    (cron.def.disabled, cron.why) = (!*on, String::new());
                    self.cron_changed(key);
                }
            }
            Event::CronRemoved { uid, name, .. } => {
                let key = (*uid, name.clone());
                if let Some(cron) = self.crons.jobs.remove(&key) {
                    for id in cron.live_jobs() {
                        self.crons.runs.remove(&id);
                    }
                    self.crons.open.remove(&key);
                    self.cron_changed(key);
                }
            }
            Event::CronSkipped {
                uid,
                name,
                due,
                n,
                why,
                text,
                t,
            } => {
                let key = (*uid, name.clone());
                if *n == 0 {
                    self.crons.close_packs(&key, *t, Some(*due), text);
                    self.cron_changed(key);
                } else if let Some(cron) = self.crons.jobs.get_mut(&key) {
                    cron.handled = cron.handled.max(*due);
                    cron.note(CronRecord {
                        what: *why,
                        due: *due,
                        t: *t,
                        id: 0,
                        n: *n,
                        text: short(text),
                    });
                    cron.count(*why);
                    self.cron_changed(key);
                }
            }
            _ => return false,
        }
        true
    }

    /// Records that a job was submitted as a run, or as another job of a pack.
    pub(super) fn cron_run(&mut self, s: &Submitted, run: &CronRun) {
        let key = (run.uid, run.name.clone());
        let made = self.jobs.contains_key(s.id);
        let Crons {
            jobs, runs, open, ..
        } = &mut self.crons;
        let Some(cron) = jobs.get_mut(&key) else {
            return;
        };
        if run.part > 0 {
            let pack = cron.packs.get_mut(&run.first);
            let Some(pack) = pack.filter(|pack| pack.made == run.part) else {
                return;
            };
            pack.made += 1;
            pack.ids.push(s.id);
            if made {
                pack.live.insert(s.id);
                runs.insert(s.id, (key.clone(), run.first));
            }
            if !pack.is_open() {
                open.remove(&key);
            }
            return self.cron_changed(key);
        }
        cron.handled = cron.handled.max(run.due);
        if run.missed > 0 {
            cron.note(CronRecord {
                what: CronResult::Missed,
                due: run.due,
                t: s.t,
                id: s.id,
                n: run.missed,
                text: "one run for all of them".to_owned(),
            });
        }
        if made {
            cron.running.insert(s.id, run.due);
            runs.insert(s.id, (key.clone(), s.id));
            if run.parts > 1 {
                let pack = PackRun {
                    made: 1,
                    parts: run.parts,
                    live: [s.id].into(),
                    ids: vec![s.id],
                    ..PackRun::default()
                };
                cron.packs.insert(s.id, pack);
                open.insert(key.clone());
            }
        }
        self.cron_changed(key);
    }

    /// Checks whether an event ended a job of a run.
    pub(super) fn note_cron_end(&mut self, event: &Event) {
        if self.crons.runs.is_empty() {
            return;
        }
        let (id, t) = match event {
            Event::Ended { e, .. } => (e.a.j.id, Stamp(e.known)),
            Event::Unbound { a, t, .. } => (a.j.id, *t),
            Event::Cancelled { j, t, .. } => (j.id, *t),
            _ => return,
        };
        let finished = self.jobs.get(id).filter(|job| job.is_finished());
        let (Some(job), true) = (finished, self.crons.runs.contains_key(&id)) else {
            return;
        };
        let end = end_of(job);
        if let Some((key, first)) = self.crons.runs.remove(&id) {
            self.crons.job_ended(&key, (first, id), end, t);
            self.cron_changed(key);
        }
    }

    /// Skips due times after the share was restored from a copy: what happened since is not known,
    /// so nothing from before is due any more.
    pub(super) fn skip_due_times(&mut self, t: Stamp) {
        let keys: Vec<CronKey> = self.crons.jobs.keys().cloned().collect();
        for cron in self.crons.jobs.values_mut() {
            cron.handled = cron.handled.max(t);
        }
        keys.into_iter().for_each(|key| self.cron_changed(key));
    }

    /// Adds a cron job from a snapshot.
    pub(super) fn restore_cron(&mut self, cron: CronJob) {
        let key = (cron.uid, cron.def.name.clone());
        for id in cron.running.keys() {
            match cron.packs.get(id) {
                None => _ = self.crons.runs.insert(*id, (key.clone(), *id)),
                Some(pack) => {
                    let jobs = pack.live.iter().map(|job| (*job, (key.clone(), *id)));
                    self.crons.runs.extend(jobs);
                    if pack.is_open() {
                        self.crons.open.insert(key.clone());
                    }
                }
            }
        }
        self.crons.jobs.insert(key.clone(), cron);
        self.cron_changed(key);
    }

    /// Broken invariants.
    pub(super) fn check_crons(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let mut runs = 0;
        for (key, cron) in &self.crons.jobs {
            if (cron.uid, &cron.def.name) != (key.0, &key.1) {
                broken.push(format!("cron job {}: listed under another name", key.1));
            }
            for id in cron.live_jobs() {
                runs += 1;
                let live = self.jobs.get(id).is_some_and(|job| !job.is_finished());
                if !live || self.crons.runs.get(&id).map(|(of, _)| of) != Some(key) {
                    broken.push(format!("cron job {}: job {id} does not run for it", key.1));
                }
            }
            let of_no_run = |id: &&u32| !cron.running.contains_key(id);
            if let Some(id) = cron.packs.keys().find(of_no_run) {
                broken.push(format!("cron job {}: pack {id} is not a run of it", key.1));
            }
            let open = cron.packs.values().any(PackRun::is_open);
            if open != self.crons.open.contains(key) {
                broken.push(format!(
                    "cron job {}: the list of open packs is wrong",
                    key.1
                ));
            }
        }
        if runs != self.crons.runs.len() {
            broken.push("cron jobs: the list of runs is wrong".to_owned());
        }
        broken
    }

    fn cron_changed(&mut self, key: CronKey) {
        self.crons.changed.insert(key);
        self.crons.version += 1;
    }
}

#[cfg(test)]
impl Crons {
    /// All that it stands for, as a text.
    pub(super) fn facts(&self) -> String {
        let Crons {
            jobs,
            runs,
            open,
            // Not kept: all due times are computed again.
            changed: _,
            version: _,
        } = self;
        let runs: BTreeMap<_, _> = runs.iter().collect();
        format!("{jobs:?} {runs:?} {open:?}")
    }
}

impl Crons {
    /// Handles the end of a job of the run `first`. The run has ended if none is left, and has
    /// failed if one of them failed.
    fn job_ended(
        &mut self,
        key: &CronKey,
        (first, id): (u32, u32),
        (what, text): (CronResult, String),
        t: Stamp,
    ) {
        let Some(cron) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(pack) = cron.packs.get_mut(&first) else {
            return end_run(cron, first, (what, text), t);
        };
        pack.live.remove(&id);
        pack.replaced |= what == CronResult::Replaced;
        if what == CronResult::Failed && pack.failed.is_empty() {
            pack.failed = short(&format!("job {id}: {text}"));
        }
        end_pack(cron, first, t);
    }

    /// Drops the jobs of packs that were not submitted, for this due time or for all.
    fn close_packs(&mut self, key: &CronKey, t: Stamp, due: Option<Stamp>, why: &str) {
        let Some(cron) = self.jobs.get_mut(key).filter(|_| self.open.contains(key)) else {
            return;
        };
        let is_due = |first: &u32| due.is_none_or(|due| cron.running.get(first) == Some(&due));
        let open = cron.packs.iter().filter(|(_, pack)| pack.is_open());
        let open: Vec<u32> = open.map(|(first, _)| *first).filter(is_due).collect();
        for first in open {
            if let Some(pack) = cron.packs.get_mut(&first) {
                if pack.failed.is_empty() {
                    let (made, parts) = (pack.made, pack.parts);
                    let text = format!("{made} of {parts} jobs were submitted: {why}");
                    pack.failed = short(&text);
                }
                pack.made = pack.parts;
            }
            end_pack(cron, first, t);
        }
        if !cron.packs.values().any(PackRun::is_open) {
            self.open.remove(key);
        }
    }
}

/// Ends a pack if none of its jobs is left.
fn end_pack(cron: &mut CronJob, first: u32, t: Stamp) {
    let over = |pack: &&PackRun| pack.live.is_empty() && !pack.is_open();
    if cron.packs.get(&first).filter(over).is_none() {
        return;
    }
    let pack = cron.packs.remove(&first).unwrap_or_default();
    let (what, text) = match (pack.failed, pack.replaced) {
        (failed, _) if !failed.is_empty() => (CronResult::Failed, failed),
        (_, true) => (CronResult::Replaced, String::new()),
        (_, false) => (CronResult::Done, String::new()),
    };
    end_run(cron, first, (what, text), t);
}

/// Records the end of a run, given its first job.
fn end_run(cron: &mut CronJob, id: u32, (what, text): (CronResult, String), t: Stamp) {
    let due = cron.running.remove(&id).unwrap_or_default();
    cron.note(CronRecord {
        what,
        due,
        t,
        id,
        n: 1,
        text,
    });
    cron.count(what);
}

/// How a finished job ended.
fn end_of(job: &Job) -> (CronResult, String) {
    let works: Vec<&Work> = match &job.body {
        Body::Single(work) => vec![work],
        Body::Array(array) => array.work.values().collect(),
    };
    let mut bad = works.iter().filter(|work| work.stat != JobStat::Done);
    match bad.clone().all(|work| was_replaced(work)) {
        true if bad.next().is_none() => return (CronResult::Done, String::new()),
        true => return (CronResult::Replaced, String::new()),
        false => {}
    }
    let end = match &job.body {
        Body::Single(work) => work.run.as_deref().and_then(|run| run.end.as_deref()),
        Body::Array(_) => None,
    };
    let text = match end {
        None => "an element failed".to_owned(),
        Some(end) => match (end.code, end.sig, end.reason.word()) {
            (_, _, reason) if !reason.is_empty() => reason.to_owned(),
            (_, sig, _) if sig != 0 => format!("signal {sig}"),
            (Some(code), ..) => format!("exit code {code}"),
            _ => end.text.clone(),
        },
    };
    (CronResult::Failed, short(&text))
}

/// Whether the next run of its cron job ended it.
fn was_replaced(work: &Work) -> bool {
    let Some(run) = work.run.as_deref() else {
        return false;
    };
    let reason = run.end.as_deref().map(|end| end.reason);
    reason == Some(TermReason::Replaced)
        || matches!(run.killing, Some(SignalAct::Kill(TermReason::Replaced)))
}

fn short(text: &str) -> String {
    let end = (0..=TEXT_MAX.min(text.len())).rev();
    let end = end.into_iter().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or(0)].to_owned()
}
