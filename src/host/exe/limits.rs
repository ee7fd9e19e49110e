//! Limits of running attempts that the leader changed: stored for the samples, and sent to the
//! shepherd and to the shepherds of the commands that `claunch` started here for the attempt. A
//! part has only the latter.
//!
//! Each change has a number. A higher number replaces a lower one, in the ledger here and in the
//! shepherd, so an order that is read again does not restore an earlier limit.

use super::exec::{Exec, deliver};
use super::table::Status;
use crate::model::{AttemptId, Limits, TermReason};
use crate::sys::fs;
use crate::task::build;
use crate::task::log::AttemptRec;
use crate::task::spec::{NewLimits, TaskAct};
use std::path::Path;

impl Exec {
    /// Records a change; running tasks get it at the end of this batch of orders.
    pub(super) fn take_limits(&mut self, (a, mark): (AttemptId, u32), limits: &Limits, n: u32) {
        if self.table.get(a).is_none() {
            if self.parts.limit((a, mark), limits, n) {
                self.limited.insert(a);
            }
            return;
        }
        let entry = self.table.get_mut(a).filter(|e| !e.is_final());
        let Some(e) = entry.filter(|e| !e.is_other_run(mark) && n >= e.limits.last_change) else {
            return;
        };
        e.limits.limits = Some(Box::new(build::limits(limits)));
        e.limits.last_change = n;
        self.limited.insert(a);
    }

    /// Sends running tasks the limits that were changed in this turn.
    pub(super) fn limit_all(&mut self) {
        for a in std::mem::take(&mut self.limited) {
            self.limit(a);
        }
    }

    /// Sends the current limits to the processes of an attempt here that do not have them yet.
    pub(super) fn limit(&mut self, a: AttemptId) {
        self.limit_task(a);
        self.limit_commands(a);
    }

    /// Sends the limits to the commands that the attempt has started here.
    fn limit_commands(&mut self, a: AttemptId) {
        if !self.parts.launches.is_launched(a) && !self.parts.commands.has(a) {
            // Commands that it starts later get the new limits.
            return;
        }
        let limits = match self.table.get(a) {
            Some(e) => e
                .limits
                .limits
                .as_deref()
                .map(|now| (e.limits.last_change, now)),
            None => {
                let limits = self.parts.launches.limits_of(a);
                limits.map(|limits| (limits.changes, limits))
            }
        };
        let Some((n, limits)) = limits.filter(|(n, _)| self.parts.launches.needs_limits(a, *n))
        else {
            return;
        };
        let new = NewLimits {
            n,
            limits: limits.clone(),
        };
        if let Err(text) = self.write_limits(&self.setup.local.part_limits_file(a), &new) {
            tracing::error!("attempt {a}: {text}; the limits of its commands are not changed");
            return;
        }
        for command in self.parts.commands.of(a) {
            deliver(&command.shepherd, TaskAct::Limits, TermReason::None, 0);
        }
        self.parts.launches.note_limits_sent(a, n);
    }

    fn write_limits(&self, path: &Path, new: &NewLimits) -> Result<(), String> {
        let json = serde_json::to_vec(new).map_err(|e| e.to_string())?;
        fs::mkdir_p(&self.setup.local.scratch_dir(), 0o711).map_err(|e| e.to_string())?;
        fs::publish_mode(path, &json, 0o600).map_err(|e| e.to_string())
    }

    fn limit_task(&mut self, a: AttemptId) {
        let Some(e) = self.table.get(a) else {
            return;
        };
        let (Status::Running(shepherd), Some(limits)) = (&e.status, &e.limits.limits) else {
            return;
        };
        let n = e.limits.last_change;
        if n <= e.limits.last_sent {
            return;
        }
        let (limits, shepherd) = ((**limits).clone(), shepherd.clone());
        let path = self.setup.local.limits_file(a);
        if let Err(text) = self.write_limits(&path, &NewLimits { n, limits }) {
            // Repeated with the next order that names the attempt, at the latest by the next
            // leader.
            tracing::error!("attempt {a}: {text}; its limits are not changed");
            return;
        }
        deliver(&shepherd, TaskAct::Limits, TermReason::None, 0);
        if let Some(e) = self.table.get_mut(a) {
            e.limits.last_sent = n;
        }
        self.ledger.push(&AttemptRec::Limited { a, n });
    }
}
