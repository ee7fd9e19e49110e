//! Limits of running attempts that the leader changed: kept for the samples, and given to the
//! shepherd.
//!
//! Each change has a number. A higher one replaces a lower one, on record here and in the
//! shepherd, so that an order that is read again brings no earlier limit back.

use super::exec::{Exec, deliver};
use super::table::Status;
use crate::model::{AttemptId, Limits, TermReason};
use crate::sys::fs;
use crate::task::build;
use crate::task::log::AttemptRec;
use crate::task::spec::{NewLimits, TaskAct};

impl Exec {
    /// Takes note of a change; running tasks get it at the end of this batch of orders.
    pub(super) fn take_limits(&mut self, (a, mark): (AttemptId, u32), limits: &Limits, n: u32) {
        let entry = self.table.get_mut(a).filter(|e| !e.is_final());
        let Some(e) = entry.filter(|e| !e.is_other(mark) && n >= e.limits.known) else {
            return;
        };
        e.limits.now = Some(Box::new(build::limits(limits)));
        e.limits.known = n;
        self.limited.insert(a);
    }

    /// Gives running tasks the limits that were changed in this turn.
    pub(super) fn limit_all(&mut self) {
        for a in std::mem::take(&mut self.limited) {
            self.limit(a);
        }
    }

    /// Gives a task the limits that it has by now, if it runs and does not have them yet.
    pub(super) fn limit(&mut self, a: AttemptId) {
        let Some(e) = self.table.get_mut(a) else {
            return;
        };
        let (Status::Running(shepherd), Some(limits)) = (&e.status, &e.limits.now) else {
            return;
        };
        let n = e.limits.known;
        if n <= e.limits.given {
            return;
        }
        let limits = (**limits).clone();
        let path = self.place.local.limits_file(a);
        let json = serde_json::to_vec(&NewLimits { n, limits }).map_err(|e| e.to_string());
        let written = json.and_then(|json| {
            fs::mkdir_p(&self.place.local.scratch(), 0o711).map_err(|e| e.to_string())?;
            fs::publish_mode(&path, &json, 0o600).map_err(|e| e.to_string())
        });
        if let Err(text) = written {
            // Tried again with the next order that names the attempt, at the latest by the next
            // leader.
            tracing::error!("attempt {a}: {text}; its limits are not changed");
            return;
        }
        deliver(shepherd, TaskAct::Limits, TermReason::None, 0);
        e.limits.given = n;
        self.ledger.push(&AttemptRec::Limited { a, n });
    }
}
