//! Slots added to running attempts: the list of hosts is rewritten and the job is notified.
//!
//! The job's shepherd runs the command of `-rnc` once for each number: it ignores a resize that is
//! sent again because of a crash before it was recorded. Never decides which job gets slots.

use super::exec::{Exec, deliver};
use super::table::{Resize, Status};
use super::unit_names::names_of;
use crate::model::{AttemptId, DeviceNode, TermReason};
use crate::sys::fs;
use crate::task::build;
use crate::task::log::AttemptRec;
use crate::task::spec::{Notice, TaskAct};

/// Maximum size of a list of hosts and of a notice, in bytes.
const FILE_MAX: u64 = 16 << 20;

impl Exec {
    /// Notes a resize of which the job has not been notified yet.
    pub(super) fn take_resize(&mut self, a: AttemptId, new: Resize) {
        let entry = self.table.get_mut(a).filter(|e| !e.is_final());
        let Some(e) = entry.filter(|e| new.n >= e.resizes.done) else {
            return;
        };
        if new.n == e.resizes.done {
            // Read again after a restart: the ledger has only the units of the start.
            e.given.units = names_of(&new.units);
            return;
        }
        if e.resizes.next.as_ref().is_none_or(|known| known.n < new.n) {
            e.given.units = names_of(&new.units);
            e.resizes.next = Some(Box::new(new));
            self.resized.insert(a);
        }
    }

    /// Notifies running jobs of the resizes that were received in this turn.
    pub(super) fn resize_all(&mut self) {
        for a in std::mem::take(&mut self.resized) {
            self.resize(a);
        }
    }

    /// Notifies a job of its noted resize, if it runs.
    pub(super) fn resize(&mut self, a: AttemptId) {
        let Some(e) = self.table.get_mut(a) else {
            return;
        };
        let Status::Running(shepherd) = &e.status else {
            return;
        };
        let shepherd = shepherd.clone();
        let Some(new) = e.resizes.next.take() else {
            return;
        };
        let n = new.n;
        e.resizes.done = n;
        // The shepherd opens the devices of added units.
        let devices = self.starter.units.nodes_of(&e.given.units);
        let notify = e.resizes.notify || !devices.is_empty();
        if let Err(text) = self.notify_resize(a, &new, notify.then_some(devices)) {
            tracing::error!("attempt {a}: {text}; the job is not notified of its new slots");
            return;
        }
        if notify {
            deliver(&shepherd, TaskAct::Resize, TermReason::None, 0);
        }
        self.ledger.push(&AttemptRec::Resized { a, n });
    }

    /// `devices`: the devices of its units, if its shepherd is to read the notice.
    fn notify_resize(
        &self,
        a: AttemptId,
        new: &Resize,
        devices: Option<Vec<DeviceNode>>,
    ) -> Result<(), String> {
        let Resize { hosts, n, units } = new;
        let local = &self.setup.local;
        fs::mkdir_p(&local.scratch_dir(), 0o711).map_err(|e| e.to_string())?;
        let path = local.hosts_file(a);
        let read = |path| fs::read_optional(path, FILE_MAX).map_err(|e| e.to_string());
        let before = String::from_utf8(read(&path)?.unwrap_or_default()).unwrap_or_default();
        if let Some(devices) = devices {
            let notice = local.notice(a);
            let known = read(&notice)?.and_then(|b| serde_json::from_slice::<Notice>(&b).ok());
            // If the notice was written before a crash, only it contains the state before the
            // resize.
            if known.is_none_or(|known| known.n != *n) {
                let env = build::resize_env(&before, hosts, units);
                let notice_of = Notice {
                    devices,
                    n: *n,
                    env,
                };
                let json = serde_json::to_vec(&notice_of).map_err(|e| e.to_string())?;
                fs::publish_mode(&notice, &json, 0o600).map_err(|e| e.to_string())?;
            }
        }
        // Lines for PBS cannot request a job that grows.
        let text = build::hosts_text(hosts, &crate::model::Spec::default());
        fs::publish_mode(&path, text.as_bytes(), 0o644).map_err(|e| e.to_string())
    }
}
