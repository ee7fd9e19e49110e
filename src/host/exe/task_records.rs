//! Adds the records of shepherds in the tasks logs to the table of attempts and reports them.
//!
//! Owns the rule that a record counts only for the run that it names: a log outlives the ledger's
//! entries about its attempts, and a restored share may give their ids to other runs. Never writes.

use super::exec::Exec;
use super::sample;
use super::table::{Entry, Shepherd, Status};
use crate::model::{AttemptId, Binding, CpuSet};
use crate::record::report::{Ended, Report};
use crate::task::log::{MarkedTask, TaskRec};

impl Exec {
    /// Reads what shepherds have written.
    pub fn follow_tasks(&mut self) -> bool {
        let recs = self.spawners.logs.read();
        if self.parts.commands.any() && !recs.is_empty() {
            // How they ended counts for the end of their job.
            self.follow_commands();
        }
        let any = !recs.is_empty();
        let mut started = Vec::new();
        for (log, task) in recs {
            if let Some(a) = self.take_task(log, task) {
                started.push(a);
            }
        }
        // A task that started and ended in one batch needs no report of its start.
        for a in started {
            self.started(a);
        }
        any
    }

    /// Applies one record. Returns the attempt if it has started.
    fn take_task(&mut self, log: u64, task: MarkedTask) -> Option<AttemptId> {
        let MarkedTask { rec, mark } = task;
        let a = rec.attempt();
        match self.table.get(a) {
            // The record of a run from before the share was restored; the log is kept for other
            // tasks.
            Some(e) if e.is_other_run(mark) => return None,
            Some(_) => {}
            None if !matches!(rec, TaskRec::Start { .. } | TaskRec::End(_)) => return None,
            None => {
                // The ledger was lost or has dropped an acknowledged attempt; the run exists.
                let mut found = Entry::new(Status::Sent(0), (0, 0), false);
                found.mark = mark;
                self.table.insert(a, found);
            }
        }
        match rec {
            TaskRec::Start {
                pid,
                born: started_ms,
                boot,
                group,
                t,
                cpus,
                ..
            } => {
                self.hold_cpus(a, cpus);
                let status = Status::Running(Shepherd {
                    pid,
                    started_ms,
                    boot,
                    group,
                    t,
                    log,
                });
                self.table.set(a, status).then_some(a)
            }
            TaskRec::End(end) => {
                self.ended(*end);
                None
            }
            TaskRec::Susp { on, t, .. } => {
                let e = self.table.get_mut(a).filter(|e| !e.is_final())?;
                e.suspended = on.then_some(t);
                let report = if on {
                    Report::Suspended { a, t }
                } else {
                    Report::Resumed { a, t }
                };
                self.push(a, &report);
                None
            }
            TaskRec::Saved { t, why, .. } => {
                // Reported once: if this process ends before, only a line of the history is lost.
                let live = self.table.get(a).is_some_and(|e| !e.is_final());
                if live {
                    self.push(a, &Report::Checkpointed { a, t, why });
                }
                None
            }
            TaskRec::Hook { hook, .. } => {
                let e = self.table.get_mut(a).filter(|e| !e.is_final())?;
                e.usage.hook = hook;
                let u = e.usage.clone();
                self.push(a, &Report::Usage { a, u });
                None
            }
        }
    }

    /// Keeps the processors to which the task is bound if the ledger with the binding was lost.
    fn hold_cpus(&mut self, a: AttemptId, cpus: CpuSet) {
        let entry = self.table.get_mut(a).filter(|_| !cpus.is_empty());
        if let Some(e) = entry.filter(|e| e.given.binding.is_none()) {
            e.given.binding = Some(Box::new(Binding {
                cpus,
                ..Binding::default()
            }));
        }
    }

    fn started(&mut self, a: AttemptId) {
        let Some(e) = self.table.get_mut(a) else {
            return;
        };
        if !matches!(e.status, Status::Running(_)) {
            return;
        }
        let waiting = std::mem::take(&mut e.waiting);
        self.reports.push_start(a, self.setup.share_is_local);
        for p in waiting {
            self.carry_out_action(a, p);
        }
        self.resize(a);
        self.limit(a);
    }

    pub(super) fn ended(&mut self, mut end: Ended) {
        let a = end.a;
        self.end_warning(a);
        let Some(e) = self.table.get_mut(a) else {
            return;
        };
        if let Status::Running(s) = &e.status {
            end.pid = u32::try_from(s.pid).unwrap_or(0);
        }
        // Waiting acts never reached the task, so they do not affect this end.
        end.u = sample::final_usage(&end.u, &e.usage);
        // Small changes were not reported.
        let used = self.samples.devices.of(a).totals();
        end.u.devices = end.u.devices().updated_by(used).boxed();
        end.u.command_end = end.u.command_end.or(self.parts.commands.limited(a));
        let end = Box::new(end);
        let more = self.parts.commands.has(a) && !e.given.gang;
        if self.table.set(a, Status::Ended(end.clone())) {
            if more {
                return self.withhold_end(a);
            }
            let ended = Report::Ended(end);
            self.reports.push_end(&mut self.table, a, &ended);
        }
    }
}
