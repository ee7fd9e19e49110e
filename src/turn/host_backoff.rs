//! Hosts that get no work although their executor is alive: a host that cannot start tasks gets
//! none for a while, and its jobs go elsewhere; a host whose orders cannot be written gets none
//! until they can. What is judged from failed starts is in `memory/start_faults.rs`.
//!
//! Known only to this leader: the next one finds out again, at the cost of a few starts.

use super::context::Turn;
use super::memory::hosts::Backoff;
use super::memory::start_faults::{FailedStart, FaultScope, StartVerdict};
use crate::config::RetryAction;
use crate::model::{HookOf, JobKey, StartFault};
use crate::record::load::LoadDoc;
use crate::record::report::Ended;
use crate::sched::JobVeto;

/// Maximum number of times that a job is requeued because a host could not start it.
const TRIES_MAX: u32 = 3;
/// Pause between two looks at jobs that ran elsewhere and jobs that are gone.
const REVIEW_MS: u64 = 1_000;

impl Turn<'_> {
    /// Whether a job that could not be started becomes pending again, and whether it is held.
    /// `held`: it is held if it becomes pending.
    pub(super) fn after_failed_start(&mut self, e: &mut Ended, held: bool) -> (bool, bool) {
        let Some(host) = self.first_host(e.a.j) else {
            return (false, false);
        };
        if e.pre_failed.is_none() && e.fault() == StartFault::Host {
            self.host_failed(&host, &e.text);
            return (self.may_retry_start(e.a.j), held);
        }
        let start = FailedStart {
            j: e.a.j,
            uid: self.core.state.spec_of(e.a.j.id).map_or(0, |spec| spec.uid),
            scope: self.fault_scope(e),
            t: e.t,
            text: e.text.clone(),
            host,
        };
        self.core.memory.faults.failed(&start, self.mono);
        let verdict = self.start_verdict(e);
        let result = match verdict {
            StartVerdict::Again { after_s } => {
                self.veto_start(e.a.j, after_s);
                (true, held)
            }
            StartVerdict::OfJob(text) => {
                e.text = text;
                self.forget_failed_starts(e.a.j);
                self.after_last_try(e, held)
            }
        };
        self.reevaluate_load(&start.host);
        result
    }

    fn start_verdict(&self, e: &Ended) -> StartVerdict {
        let (core, j) = (&*self.core, e.a.j);
        if e.pre_failed.is_some() {
            let most = core.config.general.hooks.pre_exec_retries;
            return core.memory.faults.pre_exec_verdict(j, most);
        }
        let spec = core.state.spec_of(j.id);
        let lacked_before = spec.is_some_and(|spec| spec.unseen) && !e.no_account;
        core.memory.faults.verdict(j, lacked_before)
    }

    /// Whether a job that is not tried again is held, or ends.
    fn after_last_try(&self, e: &Ended, held: bool) -> (bool, bool) {
        if e.no_account {
            // Its user was removed, or is not on all hosts yet: an administrator must resume the
            // job.
            return (true, true);
        }
        let action = self.core.config.general.hooks.pre_exec_retry_action;
        let suspends = e.pre_failed.is_some() && action == RetryAction::Suspend;
        (suspends, suspends || held)
    }

    fn fault_scope(&self, e: &Ended) -> FaultScope {
        let spec = self.core.state.spec_of(e.a.j.id);
        match (e.pre_failed, spec) {
            (None, _) => FaultScope::AllJobs,
            (Some(HookOf::Queue), Some(spec)) => FaultScope::Queue(spec.queue.clone()),
            (Some(_), _) => FaultScope::OwnHook,
        }
    }

    pub(super) fn first_host(&self, j: JobKey) -> Option<String> {
        let run = self.core.state.work(j)?.run.as_deref()?;
        let (host, _) = run.hosts.first()?;
        Some(self.core.state.host_name(*host).to_string())
    }

    /// A host could not prepare its part of a job on several hosts: the job goes elsewhere if it
    /// can.
    pub(super) fn avoid_after_refusal(&mut self, host: &str, j: JobKey, why: &str) {
        let start = FailedStart {
            j,
            uid: 0,
            host: host.to_owned(),
            scope: FaultScope::OwnHook,
            t: 0,
            text: why.to_owned(),
        };
        self.core.memory.faults.failed(&start, self.mono);
        self.veto_start(j, 0);
    }

    /// The job starts not before this time, and elsewhere if it can.
    fn veto_start(&mut self, j: JobKey, after_s: u64) {
        let core = &mut *self.core;
        let hosts = core.memory.faults.hosts_of(j);
        let hosts = hosts.filter_map(|host| core.state.host_id(host));
        let veto = JobVeto {
            not_before: self.now.plus_ms(after_s.saturating_mul(1_000)),
            hosts: hosts.collect(),
        };
        core.engine.vetoes_mut().set_job(j, veto);
        core.pass.needed = true;
    }

    /// The failed starts of a job say nothing about hosts.
    fn forget_failed_starts(&mut self, j: JobKey) {
        let hosts: Vec<String> = self
            .core
            .memory
            .faults
            .hosts_of(j)
            .map(str::to_owned)
            .collect();
        self.core.memory.faults.acquit_hosts(j);
        self.core.engine.vetoes_mut().forget_job(j);
        hosts.iter().for_each(|host| self.reevaluate_load(host));
    }

    /// A host reports that it runs the task of a job: whether it could really be started is known
    /// when it has run for a while.
    pub(super) fn task_began(&mut self, j: JobKey, host: &str) {
        self.core.memory.faults.began(j, host, self.mono);
    }

    /// The command of a job ran on `host`, started at `start` by the host's clock.
    pub(super) fn task_ran(&mut self, j: JobKey, host: &str, start: i64) {
        self.core.memory.failed_starts.remove(&j);
        if self.core.memory.faults.is_empty() {
            return;
        }
        let core = &mut *self.core;
        let mut hosts: Vec<String> = core.memory.faults.hosts_of(j).map(str::to_owned).collect();
        hosts.push(host.to_owned());
        let queue = core.state.spec_of(j.id).map_or("", |spec| &spec.queue);
        core.memory.faults.ran(j, queue, (host, start), self.mono);
        core.engine.vetoes_mut().forget_job(j);
        hosts.iter().for_each(|host| self.reevaluate_load(host));
    }

    /// Draws the conclusions from jobs that run although they could not be started before, and
    /// forgets jobs that are gone.
    pub(super) fn review_failed_starts(&mut self) {
        let memory = &mut self.core.memory;
        let due = memory.last.start_review.plus_ms(REVIEW_MS) <= self.mono;
        if memory.faults.is_empty() || !due {
            return;
        }
        memory.last.start_review = self.mono;
        for (j, host) in self.core.memory.faults.proved(self.mono) {
            self.task_ran(j, &host, 0);
        }
        for (host, last) in self.core.memory.faults.doubtful_hosts() {
            self.clear_where_tasks_run(&host, last);
        }
        let state = &self.core.state;
        let gone = |j: &JobKey| state.stat(*j).is_none_or(|stat| stat.is_finished());
        let gone: Vec<JobKey> = self.core.memory.faults.jobs().filter(gone).collect();
        gone.into_iter().for_each(|j| self.forget_failed_starts(j));
    }

    /// A host on which starts failed runs a task that was started since, and for a while.
    fn clear_where_tasks_run(&mut self, host: &str, last: i64) {
        let ran_ms = i64::try_from(REVIEW_MS * 3).unwrap_or(i64::MAX);
        let newest = self.core.inputs.loads.get(host).map_or(0, |(doc, _)| doc.t);
        let started = |j: &JobKey| {
            let run = self
                .core
                .state
                .work(*j)
                .and_then(|work| work.run.as_deref());
            let start = run.map_or(0, |run| run.start.0);
            start > last && start.saturating_add(ran_ms) < newest
        };
        let runs = self.attempts_on(host).into_iter().map(|a| (a.j, a));
        let found = runs.map(|(j, _)| j).find(started);
        if let Some(j) = found {
            self.task_ran(j, host, last);
        }
    }

    /// An administrator opens a host: it gets work at once.
    pub(super) fn forget_failures_on(&mut self, host: &str) {
        self.core.memory.faults.forget_host(host);
        self.core.memory.exit_rates.forget_host(host);
        self.clear_backoff(host);
        self.reevaluate_load(host);
    }

    /// Notes that `host` could not start a task, whichever.
    fn host_failed(&mut self, host: &str, text: &str) {
        let now = self.mono;
        let memory = self.core.memory.host_mut(host);
        let backoff = memory.backoff.get_or_insert_with(|| Backoff::new(now));
        backoff.failed(now);
        backoff.text = format!("cannot start tasks ({} in a row): {text}", backoff.count);
        self.reevaluate_load(host);
    }

    /// Notes that a task was started on the host.
    pub(super) fn clear_backoff(&mut self, host: &str) {
        if self.core.memory.host_mut(host).backoff.take().is_some() {
            self.reevaluate_load(host);
        }
    }

    /// Notes whether orders to `host` can be written.
    pub(super) fn orders_blocked(&mut self, host: &str, why: Option<String>) {
        self.core.memory.host_mut(host).orders_blocked = why;
        self.reevaluate_load(host);
    }

    /// Whether a job that its host could not start must be tried again.
    fn may_retry_start(&mut self, j: JobKey) -> bool {
        self.failed_starts(j) <= TRIES_MAX
    }

    /// How often `j` could not be started, including this time.
    fn failed_starts(&mut self, j: JobKey) -> u32 {
        let core = &mut *self.core;
        let tries = &mut core.memory.failed_starts;
        tries.retain(|j, _| core.state.work(*j).is_some());
        let n = tries.entry(j).or_default();
        *n += 1;
        *n
    }

    /// Marks a sample of a host that gets no jobs although its executor is alive: its ledger is not
    /// in the journal yet, its orders cannot be written, or it recently could not start tasks.
    pub(super) fn exclude_from_dispatch(&mut self, host: &str, doc: &mut LoadDoc) {
        // A host would not follow orders that are written before its ledger is in the journal.
        let known = doc.ledger.is_empty() || self.core.state.host_ctl(host).ledger == doc.ledger;
        let (mut closed, mut notes) = self.closures_of(host);
        if let Some(note) = self.exit_rate_note(host) {
            closed = true;
            notes.push(note);
        }
        let memory = self.core.memory.host_mut(host);
        let backoff = memory.backoff.as_ref();
        let pausing = backoff.is_some_and(|backoff| backoff.is_pausing(self.mono));
        let closed = closed || doc.starts_nothing;
        notes.extend(backoff.map(|backoff| backoff.text.clone()));
        let awaited = memory.given_up.awaited(self.mono);
        if awaited > 0 {
            notes.push(format!(
                "gets no jobs until it has reported how {awaited} attempts ended that were given up"
            ));
        }
        doc.failing = closed || pausing || awaited > 0;
        let blocked = memory.orders_blocked.as_ref();
        notes.extend(
            blocked.map(|why| format!("gets no work: its orders cannot be written: {why}")),
        );
        doc.notes.extend_from_slice(&notes);
        memory.leader_notes = notes;
        let blocked = memory.orders_blocked.is_some();
        memory.excluded = doc.executor && (!known || blocked);
        doc.executor &= !memory.excluded;
    }

    /// Whether failed starts close the host for all jobs, with notes for administrators. Closes it
    /// for single queues.
    fn closures_of(&mut self, host: &str) -> (bool, Vec<String>) {
        if self.core.memory.faults.is_empty() && !self.core.engine.vetoes_mut().has_queues() {
            return (false, Vec::new());
        }
        let core = &mut *self.core;
        let (mut closed, mut notes, mut queues) = (false, Vec::new(), Vec::new());
        for (scope, now, text) in core.memory.faults.closures(host, self.mono) {
            notes.push(text);
            match scope {
                FaultScope::Queue(queue) if now => queues.push(queue.clone()),
                FaultScope::Queue(_) | FaultScope::OwnHook => {}
                FaultScope::AllJobs => closed |= now,
            }
        }
        if let Some(id) = core.state.host_id(host) {
            core.pass.needed |= core.engine.vetoes_mut().set_queues_of(id, &queues);
        }
        (closed, notes)
    }

    /// Evaluates the last sample of a host again.
    pub(super) fn reevaluate_load(&mut self, host: &str) {
        let Some((mut doc, silent_ms)) = self.core.inputs.loads.get(host).cloned() else {
            return;
        };
        let memory = self.core.memory.host_mut(host);
        doc.executor |= std::mem::take(&mut memory.excluded);
        doc.notes.retain(|note| !memory.leader_notes.contains(note));
        self.load(host, doc, silent_ms);
    }
}
