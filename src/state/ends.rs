//! What accounting keeps of an attempt, taken at the moment its end is applied: later events of the
//! same turn may start the job again. The same journal gives the same records.
//!
//! Keeps nothing unless it was asked to. Never writes a file.

use super::State;
use crate::model::{AttemptId, JobKey, Units};
use crate::record::acct::{AttemptRecord, HostSlots, short_command};
use crate::record::report::{Ended, Usage};

impl State {
    /// Starts to record the ends of attempts for [`State::take_ends`].
    pub fn note_ends(&mut self) {
        self.changes.ends.get_or_insert_default();
    }

    /// The attempts that ended since the last call, in the order of their ends.
    pub fn take_ends(&mut self) -> Vec<AttemptRecord<'static>> {
        let ends = self.changes.ends.as_mut();
        ends.map(std::mem::take).unwrap_or_default()
    }

    /// The units of an attempt, which it loses with its end; none if ends are not recorded.
    pub(super) fn units_for_account(&self, j: JobKey) -> Vec<Units> {
        if self.changes.ends.is_none() {
            return Vec::new();
        }
        let run = self.work(j).and_then(|work| work.run.as_deref());
        run.map_or(Vec::new(), |run| run.units().to_vec())
    }

    /// Records an end that was just applied.
    pub(super) fn note_end(&mut self, e: &Ended, requeued: bool, units: Vec<Units>) {
        if self.changes.ends.is_none() {
            return;
        }
        let record = self.record_of(e, requeued, units);
        if let (Some(ends), Some(record)) = (self.changes.ends.as_mut(), record) {
            ends.push(record);
        }
    }

    /// Records the success of an attempt whose end as lost was recorded before: no time, and only
    /// the usage that is not in `counted`.
    pub(super) fn note_late_end(&mut self, e: &Ended, counted: &Usage) {
        if self.changes.ends.is_none() {
            return;
        }
        let record = self.record_of(e, false, Vec::new()).map(|mut record| {
            record.late = true;
            (record.dispatch, record.start) = (e.t, e.t);
            record.susp_ms = 0;
            record.subtract_usage(counted);
            record
        });
        if let (Some(ends), Some(record)) = (self.changes.ends.as_mut(), record) {
            ends.push(record);
        }
    }

    fn record_of(
        &self,
        e: &Ended,
        requeued: bool,
        units: Vec<Units>,
    ) -> Option<AttemptRecord<'static>> {
        let AttemptId { j, at } = e.a;
        let job = self.job(j.id)?;
        let run = job.work(j.idx)?.run.as_deref()?;
        let spec = self.spec(job.spec);
        let hosts = run.hosts.iter().map(|(id, slots)| {
            let name = self.host_name(*id).to_string();
            HostSlots(name.into(), *slots)
        });
        let mut record = AttemptRecord {
            j,
            at,
            mark: self.mark(j),
            again: false,
            late: false,
            uid: spec.uid,
            user: spec.user.clone().into(),
            group: spec.user_group.clone().into(),
            project: spec.project.clone().into(),
            app: spec.app.clone().into(),
            queue: spec.queue.clone().into(),
            name: job.name.as_deref().unwrap_or_default().to_owned().into(),
            command: short_command(&job.command).to_owned().into(),
            submit: job.submit.0,
            dispatch: run.dispatch.0,
            start: run.start.0,
            end: e.t,
            hosts: hosts.collect(),
            code: e.code,
            success: e.success,
            sig: e.sig,
            reason: e.reason,
            requeued,
            susp_ms: run.suspension.total_ms,
            units,
            res_req: spec.res_req.clone().into(),
            mem_b: spec.limits.mem_b,
            run_s: spec.limits.run_s,
            shift: spec.index_shift(),
            ..AttemptRecord::default()
        };
        record.set_usage(run.usage());
        Some(record)
    }
}
