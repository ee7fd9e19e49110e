//! What really happened, and whether what leaders believe and people were told agrees with it.
//!
//! The promises that are checked: an acknowledged job is never lost, a submission makes one job,
//! ids are not given twice; an attempt starts at most once, a job's attempts never overlap and none
//! follows a success; after an accepted kill nothing is dispatched any more; a finished status
//! never changes and success is never made up; no host holds more than its slots; every leader's
//! state is sound; what readers of the view see was the state of some leader. Judges only; acts on
//! nothing.

use super::confirmed::Words;
use super::file_checks::Evidence;
use super::restored_share::Restore;
use super::tasks::{Task, Tasks};
use super::world::Core;
use crate::model::{AttemptId, JobKey, JobStat, TermReason};
use crate::spool::view::Job as Shown;
use crate::state::{Job, Run, State, Work};
use std::collections::{BTreeMap, BTreeSet};

/// Broken promises that are kept of one run.
const BROKEN_MAX: usize = 50;

/// An attempt, and its mark: before and after a share was restored two runs may have one name.
pub(super) type RunKey = (AttemptId, u32);

/// A start that happened.
#[derive(Clone, Debug)]
pub(super) struct Started {
    pub machine: usize,
    host: String,
    /// How it ended, once it has: `None` = by a signal or unseen; and when (µs).
    ended: Option<Option<i32>>,
    ended_at: u64,
    /// Its machine lost power afterwards, and perhaps what it remembered.
    pub forgotten: bool,
}

/// How a job ended, as somebody may have seen it.
type Final = (JobStat, Option<i32>, u32);

#[derive(Clone, Default)]
pub(super) struct History {
    /// What broke a promise, the first first.
    pub broken: Vec<String>,
    /// Name to id, as people were told.
    pub(super) acked: BTreeMap<String, u32>,
    /// Names of submissions that were sent.
    pub sent: u64,
    pub(super) starts: BTreeMap<RunKey, Started>,
    /// Runs that leaders have made, with the names of their jobs; the last of each attempt.
    pub(super) runs: BTreeMap<RunKey, String>,
    marks: BTreeMap<AttemptId, u32>,
    /// What is known of a share that was put back from a copy.
    pub restore: Restore,
    finals: BTreeMap<JobKey, Final>,
    /// Jobs of which everything has ended.
    ended: BTreeSet<u32>,
    /// States and attempts that some leader had a job in.
    passed: BTreeSet<(JobKey, JobStat, u32)>,
    /// Ends that readers saw.
    shown: BTreeMap<JobKey, JobStat>,
    /// The last attempt that a leader had made when a kill was accepted.
    killed: BTreeMap<JobKey, u32>,
    /// Highest attempt that a leader has made.
    attempts: BTreeMap<JobKey, u32>,
    /// Attempts whose hosts have not all prepared their parts.
    gathering: BTreeSet<AttemptId>,
    /// Hosts of these attempts behind the first one, with their boots when all were prepared.
    gangs: BTreeMap<AttemptId, Vec<(String, String)>>,
    /// Attempts that an administrator forced onto a host, whatever runs there.
    uncounted: BTreeSet<AttemptId>,
    /// What files said while they were written.
    pub evidence: Evidence,
    /// What people were told to be so from then on.
    pub words: Words,
    /// Wall clocks step by more than `clean_period`: jobs that have ended may be forgotten.
    pub clocks_jump: bool,
    /// Silence (µs) after which a host's rerunnable work may run elsewhere; 0 = never.
    pub fence_us: u64,
    /// Jobs that somebody wanted to run again.
    requeued: BTreeSet<u32>,
    /// Jobs whose requeue was not answered: it may come at any time.
    unsettled: BTreeSet<u32>,
    /// How many times somebody read the view.
    pub reads: u64,
    /// Jobs that their owners have stopped and not resumed, by slot.
    pub stopped: BTreeMap<usize, BTreeSet<u32>>,
    /// Found where nothing could be said: said with the next look.
    late: Vec<String>,
    /// Longest time that somebody waited for an answer since the first leader came, ms.
    pub longest_ms: u64,
    /// Jobs that a live leader knows and that have not ended.
    open: BTreeMap<u32, String>,
    pub highest: u64,
    pub takeovers: u64,
    pub recovered_jobs: usize,
    /// Slots of each host.
    pub slots: u32,
    requests: BTreeMap<usize, u64>,
    /// Jobs that may run again when nobody knows how they ended.
    rerunnable: BTreeSet<u32>,
}

impl History {
    /// A promise was broken.
    pub(super) fn broken(&mut self, core: &mut Core, text: String) {
        core.say("BROKEN", || text.clone());
        // What is wrong stays wrong at every look.
        if self.broken.len() < BROKEN_MAX && !self.broken.contains(&text) {
            self.broken.push(text);
        }
    }

    pub(super) fn all_broken(&mut self, core: &mut Core, wrong: impl IntoIterator<Item = String>) {
        wrong.into_iter().for_each(|text| self.broken(core, text));
    }

    pub(super) fn failed(&self) -> bool {
        !self.broken.is_empty()
    }

    /// The number of the next request of the person in a slot.
    pub(super) fn next_request(&mut self, slot: usize) -> u64 {
        let n = self.requests.entry(slot).or_default();
        *n += 1;
        *n
    }

    pub(super) fn acked(&self) -> usize {
        self.acked.len()
    }

    pub(super) fn starts(&self) -> usize {
        self.starts.len()
    }

    /// Names and ids that people were told.
    #[cfg(test)]
    pub(super) fn told_so_far(&self) -> BTreeMap<String, u32> {
        self.acked.clone()
    }

    /// How jobs ended, as leaders have made known.
    #[cfg(test)]
    pub(super) fn ended_so_far(&self) -> BTreeMap<JobKey, JobStat> {
        self.finals.iter().map(|(j, end)| (*j, end.0)).collect()
    }

    /// A person was told the id of a job.
    pub(super) fn told(&mut self, core: &mut Core, name: &str, id: u32) {
        core.say("people", || format!("{name} was told job {id}"));
        if let Some((other, _)) = self.acked.iter().find(|(n, i)| **i == id && *n != name) {
            let text = format!("{name} was told job {id}, as {other} had been");
            self.broken(core, text);
        }
        let wrong = self.restore.tells(name, id);
        self.all_broken(core, wrong);
        if self.restore.is_doubtful(name) {
            return;
        }
        match self.acked.insert(name.to_owned(), id) {
            Some(old) if old != id => {
                let text = format!("{name} was told job {old}, later job {id}");
                self.broken(core, text);
            }
            _ => {}
        }
    }

    /// Somebody has waited for the end of a job, and was given this exit code.
    pub(super) fn waited(&mut self, core: &mut Core, name: &str, id: u32, code: i32) {
        core.say("people", || {
            format!("{name} has waited for job {id}: code {code}")
        });
        let own = |(run, of): &(&RunKey, &String)| run.0.j.id == id && *of == name;
        let mut own = self.runs.iter().filter(own).map(|(run, _)| run);
        let well = own.any(|run| {
            self.starts
                .get(run)
                .is_some_and(|s| s.ended == Some(Some(0)))
        });
        if code == 0 && !well {
            self.broken(
                core,
                format!("{name} was told that job {id} has ended well: it has not"),
            );
        }
    }

    /// A job that somebody at another machine was told, and where.
    pub(super) fn job_of_another(&self, host: &str) -> Option<(String, u32)> {
        let parts = |(name, id): (&String, &u32)| {
            let (of, _) = name.rsplit_once('-')?;
            (of != host).then(|| (of.to_owned(), *id))
        };
        self.acked.iter().rev().find_map(parts)
    }

    /// An owner was told that work is being killed: no attempt is made from now on.
    pub(super) fn kill_accepted(&mut self, core: &mut Core, j: JobKey) {
        core.say("people", || format!("the kill of {j} was accepted"));
        // A whole array: also what has no attempt yet.
        let meant = |k: &JobKey| k.id == j.id && (j.idx == 0 || k.idx == j.idx);
        let made = self.attempts.iter().filter(|(k, _)| meant(k));
        let made: Vec<(JobKey, u32)> = made.map(|(k, at)| (*k, *at)).collect();
        self.killed.entry(j).or_insert(0);
        for (k, at) in made {
            self.killed.insert(k, at);
        }
    }

    /// An owner asks that what runs of a job, or has ended, runs again.
    pub(super) fn requeue_asked(&mut self, id: u32) {
        self.requeued.insert(id);
        self.killed.retain(|j, _| j.id != id);
    }

    /// Nobody answered: a requeue may be carried out after a kill that was accepted later.
    pub(super) fn requeue_unanswered(&mut self, id: u32) {
        self.unsettled.insert(id);
    }

    /// Of these attempts, so many that leaders count the slots of.
    pub(super) fn counted(&self, of: impl Iterator<Item = RunKey>) -> usize {
        // What the journal does not know holds no slots until it is killed.
        let counts = |run: &RunKey| !self.uncounted.contains(&run.0) && !self.restore.is_lost(run);
        of.filter(counts).count()
    }

    /// What somebody read of the view.
    pub(super) fn read(&mut self, core: &mut Core, who: &str, jobs: &[Shown], warnings: &[String]) {
        self.reads += 1;
        core.say(who, || format!("reads {} rows of the view", jobs.len()));
        let mut seen = BTreeSet::new();
        let mut wrong: Vec<String> = warnings
            .iter()
            .map(|text| format!("{who} met damage in the view: {text}"))
            .collect();
        for job in jobs {
            let (j, stat, at) = (job.row.j, job.row.stat, job.row.attempt);
            if !seen.insert(j) {
                wrong.push(format!("{who} read {j} twice in one view"));
            }
            if stat.is_finished() {
                self.shown.insert(j, stat);
            }
            let name = job.row.name.as_ref();
            let told = self.acked.iter().find(|(_, id)| **id == j.id);
            if let Some((known, _)) = told.filter(|(n, _)| !name.is_empty() && *n != name) {
                wrong.push(format!("{who} read {j} as {name}, which is {known}"));
            }
            // What is waiting of an array has no state of its own.
            let whole = j.idx == 0 && (job.row.arr.is_some() || stat.is_waiting());
            if !whole && !self.passed.contains(&(j, stat, at)) {
                wrong.push(format!(
                    "{who} read {j} as {stat} in attempt {at}: no leader ever had it so"
                ));
            }
        }
        for text in wrong {
            self.broken(core, text);
        }
    }

    /// The end of a run: what readers saw as ended is how it ended.
    pub(super) fn conclude(&mut self, core: &mut Core) {
        for (j, stat) in self.shown.clone() {
            let truth = self.finals.get(&j).map(|end| end.0);
            if truth != Some(stat) && !self.requeued.contains(&j.id) {
                self.broken(core, format!("{j} was shown as {stat}, ended as {truth:?}"));
            }
        }
    }

    /// A task runs.
    pub(super) fn task_started(
        &mut self,
        core: &mut Core,
        task: &Task,
        host: &str,
        on_host: usize,
        slots: u32,
    ) {
        let a = task.a;
        core.say("task", || format!("attempt {a} starts on {host}"));
        let run = (a, task.mark);
        let wrong = self.restore.starts(&run, host);
        self.all_broken(core, wrong);
        if let Some(first) = self.starts.get(&run) {
            let text = format!("attempt {a} started on {} and again on {host}", first.host);
            self.broken(core, text);
            return;
        }
        if on_host >= slots as usize && !self.uncounted.contains(&a) {
            let text = format!(
                "{} tasks run on {host}, which has {slots} slots",
                on_host + 1
            );
            self.broken(core, text);
        }
        self.judge_others(core, a, host);
        let whole = JobKey::job(a.j.id);
        let killed = self.killed.get(&a.j).or_else(|| self.killed.get(&whole));
        let settled = !self.unsettled.contains(&a.j.id);
        if let Some(at) = killed.filter(|at| settled && a.at > **at) {
            let text = format!(
                "attempt {a} starts on {host}; its kill was accepted when attempt {at} was the last"
            );
            self.broken(core, text);
        }
        let parts = self.gangs.get(&a).into_iter().flatten();
        let missing = parts.filter(|(host, _)| !self.evidence.is_prepared(host, run));
        let missing: Vec<&str> = missing.map(|(host, _)| host.as_str()).collect();
        if !missing.is_empty() {
            let missing = missing.join(" ");
            self.broken(
                core,
                format!("attempt {a} starts on {host}, not prepared: {missing}"),
            );
        }
        if self.gathering.contains(&a) {
            let text = format!("attempt {a} starts on {host} before all its hosts are prepared");
            self.broken(core, text);
        }
        let started = Started {
            machine: task.machine,
            host: host.to_owned(),
            ended: None,
            ended_at: 0,
            forgotten: false,
        };
        self.starts.insert(run, started);
    }

    /// Holds a start against all earlier ones of its job.
    fn judge_others(&mut self, core: &mut Core, a: AttemptId, host: &str) {
        let others: Vec<(RunKey, Started)> = self
            .starts
            .range((AttemptId { j: a.j, at: 0 }, 0)..)
            .take_while(|((b, _), _)| b.j == a.j)
            .map(|(run, s)| (*run, s.clone()))
            .collect();
        for (of, other) in others {
            let (b, lost) = (of.0, self.restore.is_lost(&of));
            let wanted = self.requeued.contains(&a.j.id);
            let again = wanted || self.rerunnable.contains(&a.j.id);
            let wrong = match other.ended {
                None => Some("while it still runs"),
                Some(_) if lost => None,
                Some(_) if b.at > a.at => Some("although it is the later one"),
                Some(_) if !again => Some("though it must not run twice"),
                Some(Some(0)) if !other.forgotten && !wanted && !self.cut_off(core, &other) => {
                    Some("after it had succeeded")
                }
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
    }

    /// Its host was silent for longer than the fence after it had ended, so that nobody could know
    /// how: what may rerun is rerun then.
    fn cut_off(&self, core: &Core, s: &Started) -> bool {
        let (host, since, us) = (&s.host, s.ended_at, self.fence_us);
        us > 0 && self.evidence.was_silent(core, host, since, us)
    }

    /// A task has ended; `None`: killed.
    pub(super) fn task_ended(&mut self, core: &mut Core, run: RunKey, code: Option<i32>) {
        let (a, _) = run;
        core.say("task", || format!("attempt {a} ends with {code:?}"));
        if let Some(s) = self.starts.get_mut(&run) {
            s.ended = Some(code);
            s.ended_at = core.now;
        }
    }

    /// Everything on a machine ended unseen.
    pub(super) fn machine_died(&mut self, machine: usize) {
        for s in self.starts.values_mut() {
            if s.machine == machine {
                s.forgotten = true;
                s.ended.get_or_insert(None);
            }
        }
    }

    /// A leader has recovered this state.
    pub(super) fn recovered(&mut self, core: &mut Core, epoch: u64, state: &State) {
        self.takeovers += 1;
        self.evidence.leads(core, epoch);
        self.recovered_jobs = state.job_count();
        core.say("check", || {
            format!("epoch {epoch} recovered {} jobs", state.job_count())
        });
        if epoch < self.highest {
            // A claimant that was overtaken: its first commit counts for nothing, nor does it.
            return;
        }
        self.highest = epoch;
        self.recovered_copy(state);
        self.hear_of_restore(core, state);
        self.check(core, epoch, state);
    }

    /// A leader has carried out a turn.
    pub(super) fn turned(&mut self, core: &mut Core, epoch: u64, state: &State, changed: bool) {
        if epoch == self.highest {
            // What a late leader says is believed by people and hosts: the present one must know.
            self.check_known(core, epoch, state);
        }
        if !changed {
            return;
        }
        self.hear_of_restore(core, state);
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

    /// Everything that anybody was told and every start is known to this leader.
    fn check_known(&mut self, core: &mut Core, epoch: u64, state: &State) {
        let mut wrong = Vec::new();
        let cleaned = |id: u32| self.clocks_jump && self.ended.contains(&id);
        let cleaned = |id: u32| cleaned(id) && state.job(id).is_none();
        for (name, id) in self.acked.iter().filter(|(_, id)| !cleaned(**id)) {
            let found = state.job(*id).and_then(|job| job.name.as_deref());
            if found != Some(name.as_str()) {
                wrong.push(format!(
                    "epoch {epoch} does not know job {id} ({name}), which was acknowledged; it \
                     has {found:?} there"
                ));
            }
        }
        let here = |run: &RunKey| !cleaned(run.0.j.id) && !self.restore.is_lost(run);
        for ((a, _), s) in self.starts.iter().filter(|(run, _)| here(run)) {
            match state.work(a.j) {
                None => wrong.push(format!(
                    "epoch {epoch} does not know {a}, which ran on {}",
                    s.host
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
                    if host.is_some_and(|h| h != s.host) {
                        wrong.push(format!(
                            "epoch {epoch} has {a} elsewhere than on {}",
                            s.host
                        ));
                    }
                }
                Some(_) => {}
            }
        }
        for text in wrong {
            self.broken(core, text);
        }
    }

    fn check(&mut self, core: &mut Core, epoch: u64, state: &State) {
        self.check_known(core, epoch, state);
        for (j, known) in self.finals.clone() {
            let cleaned = self.clocks_jump && state.job(j.id).is_none();
            if cleaned || self.requeued.contains(&j.id) {
                continue;
            }
            let now = state.work(j).and_then(final_of);
            if now != Some(known) {
                let text = format!("{j} had ended as {known:?}, epoch {epoch} has {now:?}");
                self.broken(core, text);
            }
        }
        self.note_passed(epoch, state);
        self.check_jobs(core, epoch, state);
    }

    /// Remembers what a leader has and is about to make known.
    pub(super) fn note_passed(&mut self, epoch: u64, state: &State) {
        for job in state.jobs() {
            let name = job.name.as_deref().unwrap_or("?");
            self.late.extend(self.restore.names(job.id, name));
            for (j, work) in works(job) {
                self.passed.insert((j, work.stat, work.attempt));
                let a = AttemptId {
                    j,
                    at: work.attempt,
                };
                // Not what a leader that was overtaken meanwhile has made.
                let mark = state.mark(j);
                if mark != 0 && epoch >= self.highest {
                    self.runs
                        .entry((a, mark))
                        .or_insert_with(|| name.to_owned());
                    self.marks.insert(a, mark);
                }
                if let Some(run) = work.run.as_deref() {
                    let name = |(id, _): &(_, u32)| state.host_name(*id).to_string();
                    let hosts: Vec<String> = run.hosts.iter().map(name).collect();
                    self.note_run(a, run, &hosts, state);
                }
                let made = self.attempts.entry(j).or_default();
                *made = work.attempt.max(*made);
                match work.run.as_ref().is_some_and(|run| run.gathering) {
                    true => self.gathering.insert(a),
                    false => self.gathering.remove(&a),
                };
            }
        }
    }

    /// Remembers where an attempt is bound to.
    fn note_run(&mut self, a: AttemptId, run: &Run, hosts: &[String], state: &State) {
        let new = self.attempts.get(&a.j).is_none_or(|made| *made < a.at);
        if run.forced {
            self.uncounted.insert(a);
        } else if let Some(closed) = hosts.iter().find(|h| new && self.words.is_closed(h)) {
            self.late
                .push(format!("attempt {a} is bound to {closed}, which is closed"));
        }
        let Some((first, others)) = hosts.split_first() else {
            return;
        };
        let others: BTreeSet<&String> = others.iter().filter(|h| *h != first).collect();
        let begins = run.gathering || self.gathering.contains(&a);
        if others.is_empty() || (self.gangs.contains_key(&a) && !begins) {
            return;
        }
        let boot = |h: &String| (h.clone(), state.host_ctl(h).boot);
        self.gangs.insert(a, others.into_iter().map(boot).collect());
    }

    fn check_jobs(&mut self, core: &mut Core, epoch: u64, state: &State) {
        let mut names: BTreeMap<&str, u32> = BTreeMap::new();
        let mut wrong = std::mem::take(&mut self.late);
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
            if job.is_finished() {
                self.ended.insert(job.id);
            }
            let min = state.spec(job.spec).min;
            for (j, work) in works(job) {
                let slots = work.run.as_ref().map_or(0, |run| run.slots());
                if work.stat.is_started() && slots < min {
                    wrong.push(format!("epoch {epoch}: {j} runs on {slots} of {min} slots"));
                }
                let Some(now) = final_of(work) else { continue };
                if !self.finals.contains_key(&j) {
                    core.say("check", || format!("{j} has ended: {:?}", fate_of(work)));
                }
                let known = self.finals.entry(j).or_insert(now);
                if *known != now && self.requeued.contains(&j.id) {
                    *known = now;
                }
                if *known != now {
                    wrong.push(format!(
                        "{j} had ended as {known:?}, epoch {epoch} has {now:?}"
                    ));
                }
                let a = AttemptId { j, at: now.2 };
                let run = (a, state.mark(j));
                let truth = self.starts.get(&run).and_then(|s| s.ended);
                if now.0 == JobStat::Done && truth != Some(Some(0)) {
                    wrong.push(format!(
                        "epoch {epoch} shows {a} as done, it ended as {truth:?}"
                    ));
                }
            }
        }
        wrong.extend(self.check_gangs(epoch, state));
        for (name, _) in state.known_hosts() {
            let counted = |j: &JobKey| !state.work(*j).is_some_and(is_forced);
            let on_host = state.on_host(name).filter(|(j, _)| counted(j));
            let used: u32 = on_host.map(|(_, slots)| slots).sum();
            if used > self.slots {
                let slots = self.slots;
                wrong.push(format!(
                    "epoch {epoch} gives away {used} of {slots} slots of {name}"
                ));
            }
        }
        wrong.extend(self.words.check(epoch, state));
        self.all_broken(core, wrong);
    }

    /// What runs on several hosts is being ended once one of them was restarted.
    fn check_gangs(&mut self, epoch: u64, state: &State) -> Vec<String> {
        let mut wrong = Vec::new();
        for (a, parts) in &self.gangs {
            let Some(work) = state.work(a.j).filter(|w| w.attempt == a.at) else {
                continue;
            };
            let run = work.run.as_deref();
            if !work.stat.is_started() || run.is_none_or(|r| r.gathering || r.killing.is_some()) {
                continue;
            }
            for (host, boot) in parts.iter().filter(|(_, boot)| !boot.is_empty()) {
                let now = state.host_ctl(host).boot;
                if now != *boot {
                    wrong.push(format!(
                        "epoch {epoch} lets {a} run on, although {host} was restarted ({now})"
                    ));
                }
            }
        }
        wrong
    }

    /// Everything that somebody waits for has ended.
    pub(super) fn all_ended(&self, tasks: &Tasks) -> bool {
        let told = self.acked.values().all(|id| self.ended.contains(id));
        told && self.open.is_empty() && self.takeovers > 0 && tasks.running() == 0
    }

    /// Jobs that have not ended, as the leader has them.
    pub(super) fn open_jobs(&self) -> Vec<u32> {
        self.open.keys().copied().collect()
    }

    /// Which run of an attempt leaders mean.
    pub(super) fn mark_of(&self, a: AttemptId) -> u32 {
        self.marks.get(&a).copied().unwrap_or(0)
    }

    /// Somebody lets go what was held, whatever became of it after a copy of the share was made.
    pub(super) fn may_run_again(&mut self, id: u32) {
        self.requeued.insert(id);
    }

    /// Jobs that people were told since `then`.
    pub(super) fn acked_since(&self, then: &History) -> BTreeMap<String, u32> {
        let new = self
            .acked
            .iter()
            .filter(|(name, _)| !then.acked.contains_key(*name));
        new.map(|(name, id)| (name.clone(), *id)).collect()
    }

    /// The share is as it was `then`: what leaders and people knew since counts no more. What ran
    /// has run.
    pub(super) fn forget_since(&mut self, then: History) {
        self.acked = then.acked;
        self.finals = then.finals;
        self.ended = then.ended;
        self.shown = then.shown;
        self.killed = then.killed;
        self.attempts = then.attempts;
        self.gathering = then.gathering;
        self.gangs = then.gangs;
        self.uncounted.extend(then.uncounted);
        self.words.go_back(then.words);
        self.highest = then.highest;
        self.open = then.open;
        self.evidence.go_back();
    }

    /// What is still open, for people.
    pub(super) fn waiting(&self, tasks: &Tasks) -> String {
        let some: Vec<String> = self
            .open
            .iter()
            .take(5)
            .map(|(id, name)| format!("{id} ({name})"))
            .collect();
        let told = self.acked.iter();
        let unknown: Vec<&String> = told
            .filter(|(_, id)| !self.ended.contains(id) && !self.open.contains_key(id))
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

/// All that can run of a job and has a state of its own.
fn works(job: &Job) -> Vec<(JobKey, &Work)> {
    match job.array() {
        None => job
            .work(0)
            .map(|w| (JobKey::job(job.id), w))
            .into_iter()
            .collect(),
        Some(array) => {
            let elements = array.work.iter();
            elements
                .map(|(idx, work)| (JobKey::element(job.id, *idx), work))
                .collect()
        }
    }
}

/// An administrator forced it onto its hosts, whatever runs there.
fn is_forced(work: &Work) -> bool {
    work.run.as_ref().is_some_and(|run| run.forced)
}

fn fate_of(work: &Work) -> Option<&crate::state::Fate> {
    work.run.as_ref()?.fate.as_deref()
}

/// How work ended, if it has and nobody can bring it back.
fn final_of(work: &Work) -> Option<Final> {
    let fate = fate_of(work);
    let code = fate
        .filter(|f| f.reason == TermReason::None)
        .and_then(|f| f.code);
    let ended = work.stat.is_finished();
    ended.then_some((work.stat, code, work.attempt))
}
