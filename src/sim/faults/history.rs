//! What really happened, and whether what leaders believe and people were told agrees with it.
//!
//! The promises that are checked: an acknowledged job is never lost, a submission makes one job; an
//! attempt starts at most once, a job's attempts never overlap and none follows a success; a
//! finished status never changes and success is never made up; no host holds more than its slots;
//! every leader's state is sound. Judges only; acts on nothing.

use super::tasks::{Task, Tasks};
use super::world::Core;
use crate::model::{AttemptId, JobKey, JobStat, TermReason};
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};

/// A start that happened.
#[derive(Clone, Debug)]
struct Started {
    machine: usize,
    host: String,
    /// How it ended, once it has: `None` = by a signal or unseen.
    ended: Option<Option<i32>>,
    /// Its machine lost power afterwards, and perhaps what it remembered.
    forgotten: bool,
}

/// How a job ended, as somebody may have seen it.
type Final = (JobStat, Option<i32>, u32);

#[derive(Default)]
pub struct History {
    /// What broke a promise, the first first.
    pub broken: Vec<String>,
    /// Name to id, as people were told.
    acked: BTreeMap<String, u32>,
    /// Names of submissions that were sent.
    pub sent: u64,
    starts: BTreeMap<AttemptId, Started>,
    finals: BTreeMap<u32, Final>,
    /// Jobs that a live leader knows and that have not ended.
    open: BTreeMap<u32, String>,
    pub highest: u64,
    pub takeovers: u64,
    pub recovered_jobs: usize,
    requests: BTreeMap<usize, u64>,
    /// Jobs that may run again when nobody knows how they ended.
    rerunnable: BTreeSet<u32>,
}

impl History {
    /// A promise was broken.
    pub fn broken(&mut self, core: &mut Core, text: String) {
        core.say("BROKEN", || text.clone());
        self.broken.push(text);
    }

    pub fn failed(&self) -> bool {
        !self.broken.is_empty()
    }

    /// The number of the next request of the person in a slot.
    pub fn next_request(&mut self, slot: usize) -> u64 {
        let n = self.requests.entry(slot).or_default();
        *n += 1;
        *n
    }

    pub fn acked(&self) -> usize {
        self.acked.len()
    }

    pub fn starts(&self) -> usize {
        self.starts.len()
    }

    /// Names and ids that people were told.
    #[cfg(test)]
    pub fn told_so_far(&self) -> BTreeMap<String, u32> {
        self.acked.clone()
    }

    /// How jobs ended, as leaders have made known.
    #[cfg(test)]
    pub fn ended_so_far(&self) -> BTreeMap<u32, JobStat> {
        self.finals.iter().map(|(id, end)| (*id, end.0)).collect()
    }

    /// A person was told the id of a job.
    pub fn told(&mut self, core: &mut Core, name: &str, id: u32) {
        core.say("people", || format!("{name} was told job {id}"));
        match self.acked.insert(name.to_owned(), id) {
            Some(old) if old != id => {
                let text = format!("{name} was told job {old}, later job {id}");
                self.broken(core, text);
            }
            _ => {}
        }
    }

    /// A task runs.
    pub fn task_started(
        &mut self,
        core: &mut Core,
        task: &Task,
        host: &str,
        on_host: usize,
        slots: u32,
    ) {
        let a = task.a;
        core.say("task", || format!("attempt {a} starts on {host}"));
        if let Some(first) = self.starts.get(&a) {
            let text = format!("attempt {a} started on {} and again on {host}", first.host);
            self.broken(core, text);
            return;
        }
        if on_host >= slots as usize {
            let text = format!(
                "{} tasks run on {host}, which has {slots} slots",
                on_host + 1
            );
            self.broken(core, text);
        }
        let others: Vec<(AttemptId, Started)> = self
            .starts
            .range(AttemptId { j: a.j, at: 0 }..)
            .take_while(|(b, _)| b.j == a.j)
            .map(|(b, s)| (*b, s.clone()))
            .collect();
        for (b, other) in others {
            let again = self.rerunnable.contains(&a.j.id);
            let wrong = match other.ended {
                None => Some("while it still runs"),
                Some(_) if b.at > a.at => Some("although it is the later one"),
                Some(_) if !again => Some("though it must not run twice"),
                Some(Some(0)) if !other.forgotten => Some("after it had succeeded"),
                Some(_) => None,
            };
            if let Some(wrong) = wrong {
                let text = format!(
                    "attempt {a} starts on {host}, attempt {b} started on {}: {wrong}",
                    other.host
                );
                self.broken(core, text);
            }
        }
        let started = Started {
            machine: task.machine,
            host: host.to_owned(),
            ended: None,
            forgotten: false,
        };
        self.starts.insert(a, started);
    }

    /// A task has ended; `None`: killed.
    pub fn task_ended(&mut self, core: &mut Core, a: AttemptId, code: Option<i32>) {
        core.say("task", || format!("attempt {a} ends with {code:?}"));
        if let Some(s) = self.starts.get_mut(&a) {
            s.ended = Some(code);
        }
    }

    /// Everything on a machine ended unseen.
    pub fn machine_died(&mut self, machine: usize) {
        for s in self.starts.values_mut() {
            if s.machine == machine {
                s.forgotten = true;
                s.ended.get_or_insert(None);
            }
        }
    }

    /// A leader has recovered this state.
    pub fn recovered(&mut self, core: &mut Core, epoch: u64, state: &State) {
        self.takeovers += 1;
        self.recovered_jobs = state.job_count();
        core.say("check", || {
            format!("epoch {epoch} recovered {} jobs", state.job_count())
        });
        if epoch < self.highest {
            // A claimant that was overtaken: its first commit counts for nothing, nor does it.
            return;
        }
        self.highest = epoch;
        self.check(core, epoch, state);
    }

    /// A leader has carried out a turn.
    pub fn turned(&mut self, core: &mut Core, epoch: u64, state: &State) {
        self.check_jobs(core, epoch, state);
        let broken = state.check();
        if !broken.is_empty() {
            self.broken(
                core,
                format!("epoch {epoch} has an unsound state: {broken:?}"),
            );
        }
        core.say("check", || {
            format!("epoch {epoch} turned: {} jobs", state.job_count())
        });
        if epoch == self.highest {
            self.open.clear();
            for job in state.jobs().filter(|job| !job.is_finished()) {
                let name = job.name.as_deref().unwrap_or("?").to_owned();
                self.open.insert(job.id, name);
            }
        }
    }

    fn check(&mut self, core: &mut Core, epoch: u64, state: &State) {
        for (name, id) in self.acked.clone() {
            let found = state.job(id).and_then(|job| job.name.as_deref());
            if found != Some(name.as_str()) {
                let text = format!(
                    "epoch {epoch} does not know job {id} ({name}), which was acknowledged; it \
                     has {found:?} there"
                );
                self.broken(core, text);
            }
        }
        for (a, s) in self.starts.clone() {
            let Some(work) = state.work(a.j) else {
                let text = format!("epoch {epoch} does not know {a}, which ran on {}", s.host);
                self.broken(core, text);
                continue;
            };
            if work.attempt < a.at {
                let at = work.attempt;
                let text = format!("epoch {epoch} is at attempt {at} of {a}, which has run");
                self.broken(core, text);
            }
            let first = work.run.as_ref().and_then(|run| run.hosts.first());
            let host = first.map(|(id, _)| state.host_name(*id).to_string());
            if work.attempt == a.at && host.is_some_and(|h| h != s.host) {
                let text = format!("epoch {epoch} has {a} elsewhere than on {}", s.host);
                self.broken(core, text);
            }
        }
        for (id, known) in self.finals.clone() {
            let now = final_of(state, id);
            if now != Some(known) {
                let text = format!("job {id} had ended as {known:?}, epoch {epoch} has {now:?}");
                self.broken(core, text);
            }
        }
        self.check_jobs(core, epoch, state);
    }

    fn check_jobs(&mut self, core: &mut Core, epoch: u64, state: &State) {
        let mut names: BTreeMap<&str, u32> = BTreeMap::new();
        let mut wrong = Vec::new();
        for job in state.jobs() {
            let name = job.name.as_deref().unwrap_or("?");
            if state.spec(job.spec).rerunnable {
                self.rerunnable.insert(job.id);
            }
            if let Some(other) = names.insert(name, job.id) {
                let id = job.id;
                wrong.push(format!(
                    "epoch {epoch}: {name} became job {other} and job {id}"
                ));
            }
            let Some(now) = final_of(state, job.id) else {
                continue;
            };
            if !self.finals.contains_key(&job.id) {
                core.say("check", || {
                    format!("job {} has ended: {:?}", job.id, fate_of(state, job.id))
                });
            }
            let known = self.finals.entry(job.id).or_insert(now);
            if *known != now {
                let id = job.id;
                wrong.push(format!(
                    "job {id} had ended as {known:?}, epoch {epoch} has {now:?}"
                ));
            }
            let a = AttemptId {
                j: JobKey::job(job.id),
                at: now.2,
            };
            let truth = self.starts.get(&a).and_then(|s| s.ended);
            if now.0 == JobStat::Done && truth != Some(Some(0)) {
                wrong.push(format!(
                    "epoch {epoch} shows {a} as done, it ended as {truth:?}"
                ));
            }
        }
        for text in wrong {
            self.broken(core, text);
        }
    }

    /// Everything that somebody waits for has ended.
    pub fn all_ended(&self, tasks: &Tasks) -> bool {
        let told = self.acked.values().all(|id| self.finals.contains_key(id));
        told && self.open.is_empty() && self.takeovers > 0 && tasks.running() == 0
    }

    /// What is still open, for people.
    pub fn waiting(&self, tasks: &Tasks) -> String {
        let some: Vec<String> = self
            .open
            .iter()
            .take(5)
            .map(|(id, name)| format!("{id} ({name})"))
            .collect();
        let told = self.acked.iter();
        let unknown: Vec<&String> = told
            .filter(|(_, id)| !self.finals.contains_key(id) && !self.open.contains_key(id))
            .map(|(name, _)| name)
            .take(5)
            .collect();
        format!(
            "{} jobs have not ended: {}; {} tasks run; told and not known: {unknown:?}",
            self.open.len(),
            some.join(", "),
            tasks.running()
        )
    }
}

fn fate_of(state: &State, id: u32) -> Option<&crate::state::Fate> {
    state.job(id)?.work(0)?.run.as_ref()?.fate.as_deref()
}

/// How a job ended, if it has and nobody can bring it back.
fn final_of(state: &State, id: u32) -> Option<Final> {
    let job = state.job(id)?;
    let work = job.work(0)?;
    let run = work.run.as_ref();
    let fate = run.and_then(|run| run.fate.as_ref());
    let code = fate
        .filter(|f| f.reason == TermReason::None)
        .and_then(|f| f.code);
    job.is_finished().then_some((work.stat, code, work.attempt))
}
