//! Actions that depend only on time: dependencies are evaluated, finished jobs and old tokens are
//! removed, the scheduler runs again.

use super::context::Turn;
use crate::model::{JobKey, JobStat, Orphans, PendReason, TermReason};
use crate::record::event::Event;
use crate::record::request::HostAct;
use crate::sched::depend;
use crate::state::{DepVerdict, HostCtl};

/// Maximum number of finished jobs removed in one turn.
const CLEAN_MAX: usize = 10_000;
/// Maximum number of failed jobs released in one turn.
const RETRIES_MAX: usize = 10_000;
/// How long a repeated token gets the same answer.
const TOKEN_KEEP_MS: u64 = 24 * 3600 * 1000;
/// Pause between two removals of old tokens.
const EXPIRE_MS: u64 = 60_000;
/// Pause between two checks of the locks of hosts.
const LOCK_CHECK_MS: u64 = 1_000;
/// Number of jobs and elements that are considered for evaluating conditions in one turn, and the
/// additional cost of one condition.
pub(super) const JUDGE_LOOKS: u64 = 1_000_000;
pub(super) const JUDGE_EACH: u64 = 100;

impl Turn<'_> {
    /// Evaluates conditions whose jobs changed: as many as fit into one turn, the others in the
    /// next turns. A job whose condition is not evaluated yet waits.
    pub(super) fn judge_dependencies(&mut self) {
        let core = &mut *self.core;
        let (mut looks, mut orphans) = (0, Vec::new());
        while looks < JUDGE_LOOKS {
            let Some(id) = core.state.pop_dep_dirty(core.memory.last_judged) else {
                break;
            };
            core.memory.last_judged = id;
            looks += JUDGE_EACH;
            if let Some(verdict) = depend::evaluate_counting(&core.state, id, &mut looks) {
                let policy = depend::policy_of(&core.state, id, core.config.general.orphans);
                let verdict = depend::apply_policy(verdict, policy);
                core.pass.needed |= verdict == DepVerdict::Met;
                if matches!(verdict, DepVerdict::Never(_)) && policy == Orphans::Kill {
                    orphans.push(id);
                }
                core.state.set_dependency(id, verdict);
            }
        }
        orphans.into_iter().for_each(|id| self.end_orphan(id));
        self.ready.more |= self.core.state.has_dep_dirty();
    }

    /// Ends what is waiting of a job whose dependency can never be satisfied.
    fn end_orphan(&mut self, id: u32) {
        for j in self.works_of(JobKey::job(id)) {
            if self.core.state.stat(j).is_some_and(JobStat::is_waiting) {
                let (by, reason, t) = ("system".to_owned(), TermReason::Orphan, self.now);
                self.emit(Event::Cancelled { j, by, reason, t });
            }
        }
    }

    /// Returns failed jobs whose pause is over to scheduling.
    pub(super) fn release_retries(&mut self) {
        let due = self.core.state.retries_due(self.now);
        let due: Vec<JobKey> = due.take(RETRIES_MAX).collect();
        self.ready.more |= due.len() == RETRIES_MAX;
        for j in due {
            let (why, t) = (PendReason::Requeued, self.now);
            self.emit(Event::Why { j, why, t });
            self.core.pass.needed = true;
        }
    }

    /// Removes jobs that finished before `clean_period`.
    pub(super) fn clean_finished(&mut self) {
        let core = &*self.core;
        let old = core.clock.older_than(core.config.general.clean_period_ms);
        let ids: Vec<u32> = core.state.finished_before(old).take(CLEAN_MAX).collect();
        if !ids.is_empty() {
            self.ready.more |= ids.len() == CLEAN_MAX;
            let t = self.now;
            self.emit(Event::Cleaned { ids, t });
        }
    }

    pub(super) fn expire_tokens(&mut self) {
        let core = &mut *self.core;
        if self.mono.since_ms(core.memory.last.expire) > EXPIRE_MS {
            core.memory.last.expire = self.mono;
            let tokens = core.clock.older_than(TOKEN_KEEP_MS);
            let keys = core.clock.older_than(core.config.general.key_keep_ms);
            core.state.expire(tokens, keys);
        }
    }

    /// Unlocks hosts that are locked until a time that has come.
    pub(super) fn end_host_locks(&mut self) {
        let core = &mut *self.core;
        if self.mono.since_ms(core.memory.last.lock_check) < LOCK_CHECK_MS {
            return;
        }
        core.memory.last.lock_check = self.mono;
        let ends = |ctl: &HostCtl| ctl.lock.as_ref().is_some_and(|lock| lock.is_over(self.now));
        let hosts = core.state.known_hosts().filter(|(_, ctl)| ends(ctl));
        let names: Vec<String> = hosts.map(|(name, _)| name.clone()).collect();
        if names.is_empty() {
            return;
        }
        for name in names {
            self.emit(Event::Host {
                name,
                act: HostAct::Unlock,
                by: "system".to_owned(),
                comment: "the time of the lock is over".to_owned(),
                t: self.now,
            });
        }
        self.core.hosts_changed();
        self.ready.publish = true;
    }

    /// Requests a scheduler pass when one is due by time.
    pub(super) fn request_due_pass(&mut self) {
        let core = &mut *self.core;
        if core.pass.wake.is_some_and(|at| at <= self.now) {
            core.pass.wake = None;
            core.pass.needed = true;
        }
        core.pass.needed |= core.next_pass().is_some_and(|at| at <= self.mono);
    }
}
