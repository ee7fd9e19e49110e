//! The file that warns a running job that it will be preempted, and when. Never stops a job.

use super::exec::Exec;
use crate::model::AttemptId;
use crate::sys::{clock, fs};

impl Exec {
    /// Writes the file of the warning with number `n`, for `at` (ms); 0: the warning was withdrawn.
    pub(super) fn take_warning(&mut self, (a, mark): (AttemptId, u32), at: i64, n: u32) {
        let path = self.setup.local.warning_file(a);
        let Some(e) = self.table.get_mut(a).filter(|e| !e.is_final()) else {
            return;
        };
        if e.is_other_run(mark) || n < e.signals || (n == e.signals && e.warned) {
            return;
        }
        if at == 0 {
            (e.warned, e.signals) = (false, n);
            let _ = fs::remove(&path);
            return;
        }
        let left_s = at.saturating_sub(clock::wall_ms()).max(0) / 1000;
        let text = format!("reason=preempt\nat={}\nseconds={left_s}\n", at / 1000);
        let scratch = fs::mkdir_p(&self.setup.local.scratch_dir(), 0o711);
        let written = scratch.and_then(|()| fs::publish_mode(&path, text.as_bytes(), 0o644));
        match written {
            Ok(()) => e.warned = true,
            // The signal is sent nevertheless.
            Err(e) => tracing::error!("attempt {a}: {e}; the job gets no warning file"),
        }
    }

    /// Removes the file: the task has ended, or continues after a suspension.
    pub(super) fn end_warning(&mut self, a: AttemptId) {
        let entry = self.table.get_mut(a);
        if entry.is_some_and(|e| std::mem::take(&mut e.warned)) {
            let _ = fs::remove(&self.setup.local.warning_file(a));
        }
    }
}
