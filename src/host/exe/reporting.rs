//! The executor writes its reports at the end of a turn, and all of them again in each new file.
//!
//! Owns the rule that an end is durable in the local directory before it is written on the share.

use super::exec::Exec;
use crate::model::AttemptId;
use crate::record::report::{Report, RunId};
use crate::sys::{clock, proc};
use crate::task::log::AttemptRec;

impl Exec {
    /// Answers an order to start a run whose id another run has here: the ordered run is never
    /// started here, and the known run is not confused with it. The job gets its next attempt.
    pub(super) fn refuse(&mut self, a: AttemptId, mark: u32) {
        let (e, p) = self.orders.position();
        if let Some(entry) = self.table.get_mut(a) {
            entry.named_by = entry.named_by.max((e, p));
        }
        self.ledger.push(&AttemptRec::Refused { a, e, p });
        self.reports.push_refusal(a, mark);
    }

    /// Writes the group; ends are made durable here first.
    pub(super) fn report(&mut self) {
        self.reports.push_due_starts(&mut self.table);
        if self.reports.take_ends() {
            let durable = self.spawners.logs.sync();
            let durable = durable.and_then(|()| self.ledger.commit(true));
            if let Err(e) = durable {
                tracing::error!("{e}; ends are not reported before they are durable");
                return self.reports.ends_failed();
            }
        }
        if self.reports.wants_file() {
            self.new_reports();
        }
        if self.reports.flush() {
            self.hints.reported(self.orders.leader());
        }
        self.reports.publish_position(&self.setup.local);
    }

    /// Begins a reports file with everything that the leader has not acknowledged.
    fn new_reports(&mut self) {
        let Some(mut r) = self.reports.create(&self.setup) else {
            return;
        };
        self.table.new_file();
        let own = RunId::default();
        for report in self.introduction() {
            r.push(&report, own);
        }
        let mut finals = Vec::new();
        for (a, e) in self
            .table
            .iter()
            .filter(|(_, e)| !(e.is_final() && e.acked))
        {
            for report in self.reports_on(a, e) {
                let seq = r.push(&report, e.run());
                if e.is_final() && !self.parts.over.withholds_end(a) {
                    finals.push((a, seq));
                }
            }
        }
        for (report, run) in self.parts.reports().chain(self.reports.refusals()) {
            r.push(&report, run);
        }
        if let Some(damage) = self.orders.damage() {
            r.push(damage, own);
        }
        let boot = proc::boot_id().to_owned();
        r.push(&Report::Complete { boot }, own);
        finals
            .into_iter()
            .for_each(|(a, seq)| self.table.reported(a, seq));
        self.reports.put_to_use(r);
        if self.reports.take_forget_old() {
            self.table.drop_unmarked();
            self.rewrite();
        }
    }

    /// The first reports of a file, which identify its writer.
    fn introduction(&self) -> impl Iterator<Item = Report> {
        let hello = Report::Hello {
            boot: proc::boot_id().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            t: clock::wall_ms(),
            parts: true,
        };
        let identity = self.ledger.identity.clone();
        let ledger = Report::Ledger {
            id: identity.id,
            kept: identity.predates_names,
        };
        let hints = self.hints.address();
        let hints = hints.map(|at| Report::Hints { at: at.to_owned() });
        [hello, ledger].into_iter().chain(hints)
    }
}
