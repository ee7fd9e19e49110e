//! What really happened, and whether it agrees with the answers to clients and the view of readers.
//!
//! The promises that are checked here: an acknowledged job is never lost, ids are not given twice;
//! an attempt starts at most once, a job's attempts never overlap and none follows a success; after
//! an accepted kill nothing is dispatched; success is never invented; no host has more slots in use
//! than it has; what readers of the view see was the state of some leader. `leader_checks` checks
//! the state of leaders. Only judges.

use super::confirmed::ConfirmedSettings;
use super::cron_checks::CronChecks;
use super::file_checks::FileChecks;
use super::kernel::Kernel;
use super::restored_share::RestoredShare;
use super::tasks::{RunKey, Task, Tasks};
use crate::model::{AttemptId, JobKey, JobStat};
use crate::spool::view::ViewJob as ShownJob;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of broken promises that are kept of one run.
const BROKEN_MAX: usize = 50;

/// A start of a task.
#[derive(Clone, Debug)]
pub(super) struct Started {
    pub machine: usize,
    pub host: String,
    /// How it ended, once it has (`None` = by a signal or unseen), and when (µs).
    pub ended: Option<Option<i32>>,
    ended_at: u64,
    /// Its machine lost power afterwards, and perhaps its local directory.
    pub forgotten: bool,
}

/// The end of a job as published by a leader: state, exit code, attempt.
pub(super) type PublishedEnd = (JobStat, Option<i32>, u32);

/// What leaders, clients and readers know; a restore of the share from a copy reverts it.
#[derive(Clone, Default)]
pub(super) struct KnownFacts {
    /// Ids by name, as answered to clients.
    pub acked: BTreeMap<String, u32>,
    pub published_ends: BTreeMap<JobKey, PublishedEnd>,
    /// Jobs all of whose parts have ended.
    pub ended: BTreeSet<u32>,
    /// Ends that readers saw.
    ends_read: BTreeMap<JobKey, JobStat>,
    /// The last attempt that a leader had created when a kill was accepted.
    killed: BTreeMap<JobKey, u32>,
    /// The highest attempt that a leader has created.
    pub attempts: BTreeMap<JobKey, u32>,
    /// Attempts for which not all hosts have prepared their parts.
    pub preparing: BTreeSet<AttemptId>,
    /// The hosts of these attempts after the first one, with their boots when all were prepared.
    pub gangs: BTreeMap<AttemptId, Vec<(String, String)>>,
    /// Jobs that a running leader knows and that have not ended.
    pub open: BTreeMap<u32, String>,
    /// The highest epoch that has recovered.
    pub highest_epoch: u64,
}

/// Runs that leaders have created.
#[derive(Clone, Default)]
pub(super) struct Runs {
    /// The names of their jobs.
    pub names: BTreeMap<RunKey, String>,
    /// The mark of the last run of each attempt.
    pub marks: BTreeMap<AttemptId, u32>,
}

/// Jobs that may run more than once.
#[derive(Clone, Default)]
pub(super) struct Reruns {
    /// A client requested it.
    pub requeued: BTreeSet<u32>,
    /// The requeue was not answered: it may be carried out at any time.
    unanswered: BTreeSet<u32>,
    /// Jobs that may run again if their end is unknown.
    pub rerunnable: BTreeSet<u32>,
    /// Jobs for which a migration was requested.
    pub migrated: BTreeSet<u32>,
}

/// What clients did.
#[derive(Clone, Default)]
pub(super) struct ClientLog {
    /// Number of requests of each slot.
    requests: BTreeMap<usize, u64>,
    /// Jobs that their owners have stopped and not resumed, by slot.
    pub stopped: BTreeMap<usize, BTreeSet<u32>>,
    /// Names of the jobs that requested units, and which of the requests each made.
    pub with_units: BTreeMap<String, usize>,
    /// Their cron jobs, and the results of these.
    pub crons: CronChecks,
    /// Jobs that end without a start if the job with that id does not succeed.
    pub dependent: BTreeMap<String, u32>,
    /// Reasons of the silences that were confirmed to the administrator.
    pub silences: BTreeSet<String>,
    /// How many times the view was read.
    pub reads: u64,
    /// Longest wait for an answer since the first leader led, ms.
    pub longest_ms: u64,
}

/// What is permitted in a run.
#[derive(Clone, Default)]
pub(super) struct Limits {
    /// Slots of each host.
    pub slots: u32,
    /// Wall clocks step by more than `clean_period`: jobs that have ended may be forgotten.
    pub clocks_jump: bool,
    /// Time of silence (µs) after which a host's rerunnable jobs may run elsewhere; 0 = never.
    fence_us: u64,
}

/// See the head of this file.
#[derive(Clone, Default)]
pub(super) struct History {
    /// Broken promises, the first one first.
    pub broken: Vec<String>,
    /// Errors found where no trace could be written: the next check reports them.
    pub deferred_errors: Vec<String>,
    pub limits: Limits,
    pub facts: KnownFacts,
    pub starts: BTreeMap<RunKey, Started>,
    pub runs: Runs,
    pub reruns: Reruns,
    /// States and attempts in which some leader had a job.
    pub leader_states: BTreeSet<(JobKey, JobStat, u32)>,
    /// Attempts whose slots leaders do not count: an administrator forced them onto a host, or the
    /// job was removed by `ckill -r` while its tasks may still run.
    pub uncounted: BTreeSet<AttemptId>,
    /// The last change of its limits that the shepherd of each run took. A restored share may lack
    /// some: nothing is recorded from then on.
    pub limit_changes: BTreeMap<RunKey, u32>,
    pub clients: ClientLog,
    pub takeovers: u64,
    /// What files contained while they were written.
    pub file_checks: FileChecks,
    /// Settings that were answered to clients as being in force.
    pub confirmed: ConfirmedSettings,
    /// What is known of a share that was restored from a copy.
    pub restored: RestoredShare,
}

impl History {
    /// The history of a cluster whose hosts have `slots` slots; see [`Limits`].
    pub(super) fn new(slots: u32, clocks_jump: bool, fence_us: u64) -> History {
        History {
            limits: Limits {
                slots,
                clocks_jump,
                fence_us,
            },
            ..History::default()
        }
    }

    /// Records a broken promise.
    pub(super) fn broken(&mut self, kernel: &mut Kernel, text: String) {
        kernel.trace("BROKEN", || text.clone());
        // An error is found again by every check.
        if self.broken.len() < BROKEN_MAX && !self.broken.contains(&text) {
            self.broken.push(text);
        }
    }

    pub(super) fn all_broken(
        &mut self,
        kernel: &mut Kernel,
        wrong: impl IntoIterator<Item = String>,
    ) {
        wrong.into_iter().for_each(|text| self.broken(kernel, text));
    }

    pub(super) fn failed(&self) -> bool {
        !self.broken.is_empty()
    }

    /// The number of the next request of the client in a slot.
    pub(super) fn next_request(&mut self, slot: usize) -> u64 {
        let n = self.clients.requests.entry(slot).or_default();
        *n += 1;
        *n
    }

    /// How jobs ended, as published by leaders.
    #[cfg(test)]
    pub(super) fn ended_so_far(&self) -> BTreeMap<JobKey, JobStat> {
        let finals = self.facts.published_ends.iter();
        finals.map(|(j, end)| (*j, end.0)).collect()
    }

    /// Records the id of a job that was answered to a client.
    pub(super) fn acknowledged(&mut self, kernel: &mut Kernel, name: &str, id: u32) {
        kernel.trace("people", || format!("{name} is acknowledged as job {id}"));
        let mut others = self.facts.acked.iter();
        if let Some((other, _)) = others.find(|(n, i)| **i == id && *n != name) {
            let text = format!("{name} is acknowledged as job {id}, as {other} was before");
            self.broken(kernel, text);
        }
        let wrong = self.restored.acknowledged(name, id);
        self.all_broken(kernel, wrong);
        if self.restored.is_uncertain(name) {
            return;
        }
        match self.facts.acked.insert(name.to_owned(), id) {
            Some(old) if old != id => {
                let text = format!("{name} was acknowledged as job {old}, later as job {id}");
                self.broken(kernel, text);
            }
            _ => {}
        }
    }

    /// Records that a client waited for the end of a job and got this exit code.
    pub(super) fn waited(&mut self, kernel: &mut Kernel, name: &str, id: u32, code: i32) {
        kernel.trace("people", || {
            format!("{name} has waited for job {id}: code {code}")
        });
        let own = |(run, of): &(&RunKey, &String)| run.0.j.id == id && *of == name;
        let succeeded = |run: &RunKey| {
            let start = self.starts.get(run);
            start.is_some_and(|s| s.ended == Some(Some(0)))
        };
        let mut own = self.runs.names.iter().filter(own);
        if code == 0 && !own.any(|(run, _)| succeeded(run)) {
            let text = format!("{name} was answered that job {id} succeeded: it has not");
            self.broken(kernel, text);
        }
    }

    /// A job that was acknowledged to a client on another machine, and the machine.
    pub(super) fn job_of_another(&self, host: &str) -> Option<(String, u32)> {
        let parts = |(name, id): (&String, &u32)| {
            let (of, _) = name.rsplit_once('-')?;
            (of != host).then(|| (of.to_owned(), *id))
        };
        self.facts.acked.iter().rev().find_map(parts)
    }

    /// Records that a client was answered that a job is being killed: no attempt is created from
    /// now on.
    pub(super) fn kill_accepted(&mut self, kernel: &mut Kernel, j: JobKey) {
        kernel.trace("people", || format!("the kill of {j} was accepted"));
        // For a whole array: also elements that have no attempt yet.
        let meant = |k: &JobKey| k.id == j.id && (j.idx == 0 || k.idx == j.idx);
        let made = self.facts.attempts.iter().filter(|(k, _)| meant(k));
        let made: Vec<(JobKey, u32)> = made.map(|(k, at)| (*k, *at)).collect();
        self.facts.killed.entry(j).or_insert(0);
        self.facts.killed.extend(made);
    }

    /// Records that an owner requests a migration: what was saved and then ended runs again.
    pub(super) fn note_migration_request(&mut self, id: u32) {
        self.reruns.migrated.insert(id);
    }

    /// Records that an owner requests that what runs of a job, or has ended, runs again.
    pub(super) fn note_requeue_request(&mut self, id: u32) {
        self.reruns.requeued.insert(id);
        self.facts.killed.retain(|j, _| j.id != id);
    }

    /// Records that no answer came: a requeue may be carried out after a kill that was accepted
    /// later.
    pub(super) fn requeue_unanswered(&mut self, id: u32) {
        self.reruns.unanswered.insert(id);
    }

    /// Records that a job is resumed. If the share was restored from a copy, that releases what was
    /// held: it may run again, regardless of what happened to it after the copy was made.
    pub(super) fn note_resume_request(&mut self, id: u32) {
        if self.restored.replaced_at.is_some() {
            self.reruns.requeued.insert(id);
        }
    }

    /// The number of these attempts whose slots leaders count.
    pub(super) fn counted(&self, of: impl Iterator<Item = RunKey>) -> usize {
        // A run that is not in the journal holds no slots until it is killed.
        let counts = |run: &RunKey| !self.uncounted.contains(&run.0) && !self.restored.is_lost(run);
        of.filter(counts).count()
    }

    /// Records what a client read of the view, and when it began to read (µs).
    pub(super) fn view_read(
        &mut self,
        kernel: &mut Kernel,
        (who, began): (&str, u64),
        jobs: &[ShownJob],
        warnings: &[String],
    ) {
        self.clients.reads += 1;
        kernel.trace(who, || format!("reads {} rows of the view", jobs.len()));
        let mut seen = BTreeSet::new();
        let mut wrong: Vec<String> = warnings
            .iter()
            .map(|text| format!("{who} met damage in the view: {text}"))
            .collect();
        // A view that a restore of the share has replaced meanwhile shows what the restore lost.
        let lasts = self.restored.replaced_at.is_none_or(|at| began >= at);
        for job in jobs {
            let (j, stat, at) = (job.row.j, job.row.stat, job.row.attempt);
            if !seen.insert(j) {
                wrong.push(format!("{who} read {j} twice in one view"));
            }
            if stat.is_finished() && lasts {
                self.facts.ends_read.insert(j, stat);
            }
            let name = job.row.name.as_ref();
            let acked = self.facts.acked.iter().find(|(_, id)| **id == j.id);
            if let Some((known, _)) = acked.filter(|(n, _)| !name.is_empty() && *n != name) {
                wrong.push(format!("{who} read {j} as {name}, which is {known}"));
            }
            // The waiting part of an array has no state of its own.
            let whole = j.idx == 0 && (job.row.arr.is_some() || stat.is_waiting());
            if !whole && !self.leader_states.contains(&(j, stat, at)) {
                wrong.push(format!(
                    "{who} read {j} as {stat} in attempt {at}: no leader ever had this state"
                ));
            }
        }
        self.all_broken(kernel, wrong);
    }

    /// Checks at the end of a run that everything that readers saw as ended ended in that way.
    pub(super) fn check_final_ends(&mut self, kernel: &mut Kernel) {
        for (j, stat) in self.facts.ends_read.clone() {
            let real_end = self.facts.published_ends.get(&j).map(|end| end.0);
            if real_end != Some(stat) && !self.reruns.requeued.contains(&j.id) {
                let text = format!("{j} was shown as {stat}, ended as {real_end:?}");
                self.broken(kernel, text);
            }
        }
    }

    /// Records that a task starts on a host on which `on_host` tasks run already.
    pub(super) fn task_started(
        &mut self,
        kernel: &mut Kernel,
        task: &Task,
        host: &str,
        on_host: usize,
    ) {
        let a = task.a;
        kernel.trace("task", || format!("attempt {a} starts on {host}"));
        let run = (a, task.mark);
        let wrong = self.restored.starts(&run, host);
        self.all_broken(kernel, wrong);
        if let Some(first) = self.starts.get(&run) {
            let text = format!("attempt {a} started on {} and again on {host}", first.host);
            self.broken(kernel, text);
            return;
        }
        let slots = self.limits.slots;
        if on_host >= slots as usize && !self.uncounted.contains(&a) {
            let n = on_host + 1;
            let text = format!("{n} tasks run on {host}, which has {slots} slots");
            self.broken(kernel, text);
        }
        let mut wrong = self.earlier_start_errors(kernel, a, host);
        wrong.extend(self.kill_error(a, host));
        wrong.extend(self.gang_errors(run, host));
        wrong.extend(self.dependency_error(run, host));
        self.all_broken(kernel, wrong);
        let started = Started {
            machine: task.machine,
            host: host.to_owned(),
            ended: None,
            ended_at: 0,
            forgotten: false,
        };
        self.starts.insert(run, started);
    }

    /// The error of a start with respect to all earlier ones of its job, if there is one.
    fn earlier_start_errors(&self, kernel: &Kernel, a: AttemptId, host: &str) -> Vec<String> {
        let was_requested = self.reruns.requeued.contains(&a.j.id);
        let again = was_requested || self.reruns.rerunnable.contains(&a.j.id);
        let migrates = self.reruns.migrated.contains(&a.j.id);
        let of_job = self.starts.range((AttemptId { j: a.j, at: 0 }, 0)..);
        let of_job = of_job.take_while(|((b, _), _)| b.j == a.j);
        let wrong = of_job.filter_map(|(of, other)| {
            let b = of.0;
            let wrong = match other.ended {
                None => "while it still runs",
                Some(_) if self.restored.is_lost(of) => return None,
                Some(_) if b.at > a.at => "although it is the later one",
                // It was ended, and not together with its host.
                Some(None) if migrates && !other.forgotten => return None,
                Some(_) if !again => "though it must not run twice",
                Some(Some(0))
                    if !other.forgotten && !was_requested && !self.cut_off(kernel, other) =>
                {
                    "after it had succeeded"
                }
                Some(_) => return None,
            };
            let on = &other.host;
            Some(format!(
                "attempt {a} starts on {host}, attempt {b} started on {on}: {wrong}"
            ))
        });
        wrong.collect()
    }

    /// Whether its host was silent for longer than the fence after it had ended, so that its end
    /// could not be known: a rerunnable job is then run again.
    fn cut_off(&self, kernel: &Kernel, s: &Started) -> bool {
        let (host, since, us) = (&s.host, s.ended_at, self.limits.fence_us);
        us > 0 && self.file_checks.was_silent(kernel, host, since, us)
    }

    /// The error of a start after an accepted kill, if there is one.
    fn kill_error(&self, a: AttemptId, host: &str) -> Option<String> {
        let killed = &self.facts.killed;
        let at = killed.get(&a.j).or(killed.get(&JobKey::job(a.j.id)))?;
        let settled = !self.reruns.unanswered.contains(&a.j.id);
        (settled && a.at > *at).then(|| {
            format!(
                "attempt {a} starts on {host}; its kill was accepted when attempt {at} was the last"
            )
        })
    }

    /// The error of a start of a job whose dependency was never met, if there is one.
    fn dependency_error(&self, run: RunKey, host: &str) -> Option<String> {
        let name = self.runs.names.get(&run)?;
        let id = *self.clients.dependent.get(name)?;
        // A job that an administrator has forced waits for nothing, in later attempts either.
        let first = AttemptId { at: 0, ..run.0 };
        if self.uncounted.range(first..=run.0).next().is_some() {
            return None;
        }
        let from = AttemptId {
            j: JobKey::job(id),
            at: 0,
        };
        let mut of_job = self.starts.range((from, 0)..);
        let met = of_job
            .by_ref()
            .take_while(|((b, _), _)| b.j.id == id)
            .any(|(_, s)| s.ended == Some(Some(0)));
        (!met).then(|| {
            format!(
                "attempt {} starts on {host}: job {id} never succeeded",
                run.0
            )
        })
    }

    /// The errors of a start for which not all other hosts are prepared.
    fn gang_errors(&self, run: RunKey, host: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let a = run.0;
        let parts = self.facts.gangs.get(&a).into_iter().flatten();
        let missing = parts.filter(|(host, _)| !self.file_checks.is_prepared(host, run));
        let missing: Vec<&str> = missing.map(|(host, _)| host.as_str()).collect();
        if !missing.is_empty() {
            let missing = missing.join(" ");
            wrong.push(format!(
                "attempt {a} starts on {host}, not prepared: {missing}"
            ));
        }
        if self.facts.preparing.contains(&a) {
            wrong.push(format!(
                "attempt {a} starts on {host} before all its hosts are prepared"
            ));
        }
        wrong
    }

    /// Records that a task has ended; `None`: killed.
    pub(super) fn task_ended(&mut self, kernel: &mut Kernel, run: RunKey, code: Option<i32>) {
        let (a, _) = run;
        kernel.trace("task", || format!("attempt {a} ends with {code:?}"));
        // A shepherd that is killed may have recorded the end before.
        let running = self.starts.get_mut(&run).filter(|s| s.ended.is_none());
        if let Some(s) = running {
            s.ended = Some(code);
            s.ended_at = kernel.now;
        }
    }

    /// Records that everything on a machine ended unseen.
    pub(super) fn machine_died(&mut self, machine: usize) {
        for s in self.starts.values_mut().filter(|s| s.machine == machine) {
            s.forgotten = true;
            s.ended.get_or_insert(None);
        }
    }

    /// Whether everything for which a client waits has ended.
    pub(super) fn all_ended(&self, tasks: &Tasks) -> bool {
        let known = &self.facts;
        let acked = known.acked.values().all(|id| known.ended.contains(id));
        acked && known.open.is_empty() && self.takeovers > 0 && tasks.running() == 0
    }

    /// The mark of the run that leaders mean by an attempt.
    pub(super) fn mark_of(&self, a: AttemptId) -> u32 {
        self.runs.marks.get(&a).copied().unwrap_or(0)
    }

    /// Records that the shepherd of a run took a change of its limits.
    pub(super) fn limits_taken(&mut self, run: RunKey, n: u32) {
        if self.restored.replaced_at.is_none() {
            self.limit_changes.insert(run, n);
        }
    }

    /// Records that the share was restored from a copy: what happened since counts as lost, until a
    /// leader has it in its state. Tasks that ran have still run.
    pub(super) fn share_restored(&mut self, kernel: &Kernel, then: History) {
        let acked = self.facts.acked.iter();
        let since = acked.filter(|(name, _)| !then.facts.acked.contains_key(*name));
        let since = since.map(|(name, id)| (name.clone(), *id)).collect();
        self.restored = self.restored.note_restore(
            kernel.now,
            self.runs.names.keys().copied().collect(),
            then.runs.names.keys().copied().collect(),
            since,
        );
        for (run, started) in &self.starts {
            if self.restored.is_lost(run) && !started.forgotten {
                let name = self.runs.names.get(run).cloned().unwrap_or_default();
                self.restored
                    .note_known_run(started.machine, run.0.j.id, name);
            }
        }
        let known = then.runs.names.iter().map(|(run, n)| (run.0.j.id, n));
        self.restored.forget_names_in(&known.collect());
        self.facts = then.facts;
        self.limit_changes.clear();
        self.uncounted.extend(then.uncounted);
        // They were resumed by a request that the copy has, or may have.
        for stopped in self.clients.stopped.values() {
            self.reruns.requeued.extend(stopped);
        }
        self.confirmed.revert_to(then.confirmed);
        self.file_checks.note_restore();
    }

    /// What is still open, for a report.
    pub(super) fn waiting(&self, tasks: &Tasks) -> String {
        let open = &self.facts.open;
        let some: Vec<String> = open
            .iter()
            .take(5)
            .map(|(id, name)| format!("{id} ({name})"))
            .collect();
        let lost = |id: &u32| !self.facts.ended.contains(id) && !open.contains_key(id);
        let acked = self.facts.acked.iter();
        let unknown = acked.filter(|(_, id)| lost(id)).map(|(name, _)| name);
        let unknown: Vec<&String> = unknown.take(5).collect();
        format!(
            "{} jobs have not ended: {}; {} tasks run; acknowledged and not known: {unknown:?}",
            open.len(),
            some.join(", "),
            tasks.running()
        )
    }
}
