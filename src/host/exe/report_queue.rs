//! The executor's reports: collected during a turn and written in one group at its end; and the
//! decision when to begin another file, which repeats what is not acknowledged.
//!
//! A start waits a moment for its end: for the leader a dispatched job is running, so a short job
//! needs only one report. Never decides what is durable: see [`super::reporting`].

use super::reports::Reporter;
use super::table::{Entry, Status, Table};
use crate::host::local::Local;
use crate::host::ls::{read_news, write_news};
use crate::host::setup::Place;
use crate::model::AttemptId;
use crate::record::report::{Report, RunId};
use crate::sys::clock;
use std::collections::BTreeMap;

/// Pause before a reports file is tried to be made again, ms.
const RETRY_MS: u64 = 2_000;
/// How often this host checks that its reports file was not replaced, ms.
const CHECK_MS: u64 = 30_000;
/// A disk that damages each file must not fill the share with them: the second one within
/// [`CALM_MS`] waits this long, the next twice as long, up to the second number, ms.
const PAUSE_MS: (u64, u64) = (2_000, 300_000);
const CALM_MS: u64 = 600_000;
/// How long a start waits for its end where a report costs requests to a file server, ms.
const START_WAITS_MS: u64 = 300;

/// What is to be reported, and the file it goes to.
#[derive(Default)]
pub(super) struct ReportQueue {
    file: Option<Reporter>,
    /// Starts that are not reported yet, and until when each waits (boot clock, ms).
    starts: BTreeMap<AttemptId, u64>,
    /// Ends wait until they are durable.
    ends: bool,
    /// Runs that are never started here because another run has their id, with their marks.
    refused: BTreeMap<AttemptId, u32>,
    /// Final attempts are reported once more and then dropped: the share was replaced.
    forget_old: bool,
    /// Number and length of the file, as last published to `cbls`.
    published: (u64, u64),
    /// The next file is begun then (boot clock, ms).
    begin_at: u64,
    /// When the present one was last looked for by its name (boot clock, ms).
    checked_at: u64,
    /// How long the next one waits after the leader has called one damaged (ms), and when it last
    /// did.
    pause: (u64, u64),
    /// The leader knows a file with this number.
    above: u64,
}

/// The report of the start of a task that runs.
fn start_of(table: &Table, a: AttemptId) -> Option<Report> {
    let entry = table.get(a)?;
    match &entry.status {
        Status::Running(s) => Some(entry.started(a, s)),
        _ => None,
    }
}

fn refusal(a: AttemptId) -> Report {
    let why = "its host knows another run by this id, of before the share was restored".to_owned();
    Report::Never { a, why }
}

fn is_final(report: &Report) -> bool {
    matches!(report, Report::Ended(_) | Report::Never { .. })
}

impl ReportQueue {
    /// The number of the present file.
    pub(super) fn number(&self) -> Option<u64> {
        self.file.as_ref().map(Reporter::number)
    }

    /// When the first start that waits is due.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.starts.values().min().copied()
    }

    /// Reports a start: at once on a local file system, where a report costs next to nothing.
    pub(super) fn push_start(&mut self, a: AttemptId, share_is_local: bool) {
        let wait = match share_is_local {
            true => 0,
            false => START_WAITS_MS,
        };
        self.starts.insert(a, clock::boot_ms() + wait);
    }

    /// Adds the starts that have waited long enough.
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
    /// start that waits is written before any report but the end, which includes it.
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

    /// Adds a report of what is not in the table of attempts.
    pub(super) fn push_beside(&mut self, report: &Report, run: RunId) {
        if let Some(r) = self.file.as_mut() {
            r.push(report, run);
        }
    }

    /// Ends wait to be made durable; the caller does it now, or says that [`Self::ends_failed`].
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
        self.push_beside(&refusal(a), RunId::marked(mark));
    }

    /// The mark of the run that was refused under this name.
    pub(super) fn refused(&self, a: AttemptId) -> Option<u32> {
        self.refused.get(&a).copied()
    }

    /// The next epoch's orders name the runs again.
    pub(super) fn forget_refused(&mut self) {
        self.refused.clear();
    }

    /// The reports of all refused runs, for a new file.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (Report, RunId)> {
        let all = self.refused.iter();
        all.map(|(a, mark)| (refusal(*a), RunId::marked(*mark)))
    }

    /// The present file is given up: another one repeats what is not acknowledged.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Reports everything again, and drops then what is over: the share was replaced.
    pub(super) fn repeat_all(&mut self) {
        self.close();
        self.forget_old = true;
    }

    /// Everything was repeated: true when what is over may be dropped.
    pub(super) fn take_forget_old(&mut self) -> bool {
        std::mem::take(&mut self.forget_old)
    }

    /// The leader cannot read the present file any more, or waits for one with a number above that
    /// of the present one: another one repeats everything that is not acknowledged.
    pub(super) fn renew(&mut self, place: &Place, (part, seq, at): (u64, u64, u64)) {
        let Some(number) = self.number().filter(|number| *number <= part) else {
            return;
        };
        if number < part {
            tracing::error!(
                "the leader knows reports file {part} of this host, the present one is {number}: \
                 its directory on the share was lost; reports continue in another file"
            );
            self.above = part;
            return self.begin_new();
        }
        let path = place.layout.reports(&place.site.host, part);
        tracing::error!(
            "{}: the leader found damage at byte {at}, record {seq}; reports continue in a \
             new file",
            path.display()
        );
        self.begin_new();
    }

    /// The next report goes into a new file, which repeats what is not acknowledged and names the
    /// damage of the orders, if there is any. That damage may hide the order to renew reports that
    /// the leader cannot read: a request in those would never arrive.
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

    /// Checks now and then that the reports file is still the one that the leader reads.
    pub(super) fn check_file(&mut self) {
        let now = clock::boot_ms();
        if now.saturating_sub(self.checked_at) < CHECK_MS {
            return;
        }
        self.checked_at = now;
        if self.file.as_ref().is_some_and(|r| !r.is_in_place()) {
            tracing::warn!("the reports file was replaced: reports continue in a new file");
            self.close();
        }
    }

    /// A file is to be begun now.
    pub(super) fn wants_file(&self) -> bool {
        let wanted = self.file.as_ref().is_none_or(Reporter::is_full);
        wanted && clock::boot_ms() >= self.begin_at
    }

    /// Makes the next file; a failure is logged and tried again later.
    pub(super) fn create(&mut self, place: &Place) -> Option<Reporter> {
        let (host, cluster) = (&place.site.host, &place.cluster.cluster);
        let sync = !place.share_is_local;
        // Where the directory was lost, the leader still waits for a number above the last one.
        let above = self.above.max(read_news(&place.local).0);
        let named = (host.as_str(), above);
        match Reporter::create(&place.layout, named, cluster, sync) {
            Ok(r) => Some(r),
            Err(e) => {
                tracing::error!("{e}");
                self.begin_at = clock::boot_ms() + RETRY_MS;
                None
            }
        }
    }

    /// Puts a file to use that has all that was to be reported, starts included.
    pub(super) fn put_to_use(&mut self, file: Reporter) {
        self.starts.clear();
        self.file = Some(file);
    }

    /// Writes the group; true when the file has grown.
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
    pub(super) fn publish_place(&mut self, local: &Local) {
        let place = self.file.as_ref().map(Reporter::place);
        if let Some(place) = place.filter(|place| *place != self.published) {
            self.published = place;
            write_news(local, place);
        }
    }

    /// Ends all pauses; when the next file would have been begun.
    #[cfg(test)]
    pub(super) fn end_pauses(&mut self) -> u64 {
        self.checked_at = 0;
        std::mem::take(&mut self.begin_at)
    }

    /// Nothing is refused.
    #[cfg(test)]
    pub(super) fn refuses_none(&self) -> bool {
        self.refused.is_empty()
    }
}
