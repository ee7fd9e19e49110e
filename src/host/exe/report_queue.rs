//! The executor's reports, collected during a turn and written in one group at its end; and the
//! decision when a new file is begun, which repeats what is not acknowledged.
//!
//! The report of a start is delayed for a moment: for the leader a dispatched job is running, so a
//! short job needs only the report of its end. Never decides what is durable: see
//! [`super::reporting`].

use super::reports::Reporter;
use super::table::{Entry, Status, Table};
use crate::host::local::Local;
use crate::host::ls::{read_reports_position, write_reports_position};
use crate::host::setup::HostSetup;
use crate::model::AttemptId;
use crate::record::report::{Report, RunId};
use crate::sys::clock;
use std::collections::BTreeMap;

/// Pause before the creation of a reports file is tried again, ms.
const RETRY_MS: u64 = 2_000;
/// How often this host checks that its reports file was not replaced, ms.
const CHECK_MS: u64 = 30_000;
/// Limits the number of files that a damaging disk can cause: the second file within [`CALM_MS`] is
/// delayed by the first number, each further one twice as long, up to the second number, ms.
const PAUSE_MS: (u64, u64) = (2_000, 300_000);
const CALM_MS: u64 = 600_000;
/// How long the report of a start is delayed if a report costs requests to a file server, ms.
const START_WAITS_MS: u64 = 300;

/// Reports to be written, and their file.
#[derive(Default)]
pub(super) struct ReportQueue {
    file: Option<Reporter>,
    /// Starts that are not reported yet, and when each is due (boot clock, ms).
    starts: BTreeMap<AttemptId, u64>,
    /// There are ends to be made durable before they are written.
    ends: bool,
    /// Runs that are never started here because another run has their id, with their marks.
    refused: BTreeMap<AttemptId, u32>,
    /// Final attempts are reported once more and then dropped: the share was replaced.
    forget_old: bool,
    /// Number and length of the file, as last published to `cbls`.
    published: (u64, u64),
    /// When the next file may be begun (boot clock, ms).
    begin_at: u64,
    /// When the current file was last checked by its name (boot clock, ms).
    checked_at: u64,
    /// Delay of the next file after the leader has reported damage (ms), and the time of its last
    /// report.
    pause: (u64, u64),
    /// The leader knows a file with this number.
    known_file: u64,
}

/// The report of the start of a running task.
fn start_of(table: &Table, a: AttemptId) -> Option<Report> {
    let entry = table.get(a)?;
    match &entry.status {
        Status::Running(s) => Some(entry.started(a, s)),
        _ => None,
    }
}

fn refusal(a: AttemptId) -> Report {
    let why = "its host has another run with this id, from before the share was restored";
    Report::Never {
        a,
        why: why.to_owned(),
    }
}

fn is_final(report: &Report) -> bool {
    matches!(report, Report::Ended(_) | Report::Never { .. })
}

impl ReportQueue {
    /// The number of the current file.
    pub(super) fn number(&self) -> Option<u64> {
        self.file.as_ref().map(Reporter::number)
    }

    /// The time when the first delayed start is due.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.starts.values().min().copied()
    }

    /// Reports a start: without delay on a local file system, where a report costs next to nothing.
    pub(super) fn push_start(&mut self, a: AttemptId, share_is_local: bool) {
        let wait = match share_is_local {
            true => 0,
            false => START_WAITS_MS,
        };
        self.starts.insert(a, clock::boot_ms() + wait);
    }

    /// Adds the starts that are due.
    pub(super) fn push_due_starts(&mut self, table: &mut Table) {
        let now = clock::boot_ms();
        let due = self.starts.iter().filter(|(_, until)| **until <= now);
        let due: Vec<AttemptId> = due.map(|(a, _)| *a).collect();
        for a in due {
            match start_of(table, a) {
                Some(start) => self.push(table, a, &start),
                None => drop(self.starts.remove(&a)),
            }
        }
    }

    /// Adds a report to the next group, if there is a file; a new file repeats everything anyway. A
    /// delayed start is written before any report except the end, which includes it.
    pub(super) fn push(&mut self, table: &mut Table, a: AttemptId, report: &Report) {
        let waited = self.starts.remove(&a).is_some();
        if waited
            && !is_final(report)
            && let Some(start) = start_of(table, a).filter(|start| start != report)
        {
            self.push_now(table, a, &start);
        }
        self.push_now(table, a, report);
    }

    /// As [`ReportQueue::push`], once the end is durable.
    pub(super) fn push_end(&mut self, table: &mut Table, a: AttemptId, end: &Report) {
        self.ends = true;
        self.push(table, a, end);
    }

    fn push_now(&mut self, table: &mut Table, a: AttemptId, report: &Report) {
        let run = table.get(a).map_or(RunId::default(), Entry::run);
        if let Some(r) = self.file.as_mut() {
            let seq = r.push(report, run);
            if is_final(report) {
                table.reported(a, seq);
            }
        }
    }

    /// Adds a report on something that is not in the table of attempts.
    pub(super) fn push_unlisted(&mut self, report: &Report, run: RunId) {
        if let Some(r) = self.file.as_mut() {
            r.push(report, run);
        }
    }

    /// Whether there are ends to be made durable; the caller does it now or calls
    /// [`Self::ends_failed`].
    pub(super) fn take_ends(&mut self) -> bool {
        std::mem::take(&mut self.ends)
    }

    /// Nothing is written before the ends are durable.
    pub(super) fn ends_failed(&mut self) {
        self.ends = true;
    }

    /// Reports that this run is never started here: another run has its id.
    pub(super) fn push_refusal(&mut self, a: AttemptId, mark: u32) {
        if self.refused.insert(a, mark) != Some(mark) {
            tracing::warn!("attempt {a} is known here as another run: it is not started");
        }
        self.push_unlisted(&refusal(a), RunId::marked(mark));
    }

    /// The mark of the run that was refused with this id.
    pub(super) fn refused(&self, a: AttemptId) -> Option<u32> {
        self.refused.get(&a).copied()
    }

    /// The orders of the next epoch name the runs again.
    pub(super) fn forget_refused(&mut self) {
        self.refused.clear();
    }

    /// The reports of all refused runs, for a new file.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (Report, RunId)> {
        let all = self.refused.iter();
        all.map(|(a, mark)| (refusal(*a), RunId::marked(*mark)))
    }

    /// Closes the current file: another one repeats what is not acknowledged.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Reports everything again and drops final attempts afterwards: the share was replaced.
    pub(super) fn repeat_all(&mut self) {
        self.close();
        self.forget_old = true;
    }

    /// Whether everything was repeated, so that final attempts may be dropped.
    pub(super) fn take_forget_old(&mut self) -> bool {
        std::mem::take(&mut self.forget_old)
    }

    /// The leader cannot read the current file any more, or expects a file with a higher number:
    /// another file repeats everything that is not acknowledged.
    pub(super) fn renew(&mut self, setup: &HostSetup, (part, seq, at): (u64, u64, u64)) {
        let Some(number) = self.number().filter(|number| *number <= part) else {
            return;
        };
        if number < part {
            tracing::error!(
                "the leader has read reports file {part} of this host, but the current one is \
                 {number}: the host's directory on the share was lost; reports continue in \
                 another file"
            );
            self.known_file = part;
            return self.begin_new();
        }
        let path = setup.layout.reports(&setup.site.host, part);
        tracing::error!(
            "{}: the leader found damage at byte {at}, record {seq}; reports continue in a \
             new file",
            path.display()
        );
        self.begin_new();
    }

    /// The next report goes into a new file, which repeats what is not acknowledged and reports the
    /// damage of the orders, if there is any. That damage may hide an order to begin a new file
    /// because the leader cannot read the current one; it could not read a report of the damage
    /// there either.
    pub(super) fn begin_new(&mut self) {
        let now = clock::boot_ms();
        let (pause, last) = self.pause;
        let pause = match last > 0 && now.saturating_sub(last) < CALM_MS + pause {
            true => (pause * 2).clamp(PAUSE_MS.0, PAUSE_MS.1),
            false => 0,
        };
        self.pause = (pause, now);
        self.begin_at = now + pause;
        self.file = None;
    }

    /// Checks from time to time that the reports file is still the one that the leader reads.
    pub(super) fn check_file(&mut self) {
        let now = clock::boot_ms();
        if now.saturating_sub(self.checked_at) < CHECK_MS {
            return;
        }
        self.checked_at = now;
        if self.file.as_ref().is_some_and(|r| !r.is_same_file()) {
            tracing::warn!("the reports file was replaced: reports continue in a new file");
            self.close();
        }
    }

    /// Whether a file is to be begun now.
    pub(super) fn wants_file(&self) -> bool {
        let wanted = self.file.as_ref().is_none_or(Reporter::is_full);
        wanted && clock::boot_ms() >= self.begin_at
    }

    /// Creates the next file; a failure is logged, and the creation is tried again later.
    pub(super) fn create(&mut self, setup: &HostSetup) -> Option<Reporter> {
        let (host, cluster) = (&setup.site.host, &setup.cluster.cluster);
        let sync = !setup.share_is_local;
        // If the directory was lost, the leader still expects a number above the last one.
        let above = self.known_file.max(read_reports_position(&setup.local).0);
        let named = (host.as_str(), above);
        match Reporter::create(&setup.layout, named, cluster, sync) {
            Ok(r) => Some(r),
            Err(e) => {
                tracing::error!("{e}");
                self.begin_at = clock::boot_ms() + RETRY_MS;
                None
            }
        }
    }

    /// Uses a new file that contains all reports, starts included.
    pub(super) fn put_to_use(&mut self, file: Reporter) {
        self.starts.clear();
        self.file = Some(file);
    }

    /// Writes the group. Returns true if the file has grown.
    pub(super) fn flush(&mut self) -> bool {
        let Some(reports) = self.file.as_mut().filter(|r| !r.is_empty()) else {
            return false;
        };
        match reports.flush() {
            Ok(()) => true,
            Err(e) => {
                tracing::error!("{e}; reports continue in a new file");
                self.close();
                false
            }
        }
    }

    /// Publishes to `cbls` how far the file has grown.
    pub(super) fn publish_position(&mut self, local: &Local) {
        let position = self.file.as_ref().map(Reporter::position);
        if let Some(position) = position.filter(|position| *position != self.published) {
            self.published = position;
            write_reports_position(local, position);
        }
    }

    /// Ends all pauses. Returns the time when the next file would have been begun.
    #[cfg(test)]
    pub(super) fn end_pauses(&mut self) -> u64 {
        self.checked_at = 0;
        std::mem::take(&mut self.begin_at)
    }

    /// Whether no run is refused.
    #[cfg(test)]
    pub(super) fn refuses_none(&self) -> bool {
        self.refused.is_empty()
    }
}
