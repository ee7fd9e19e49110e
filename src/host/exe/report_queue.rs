//! The executor's reports: gathered during a turn, written in one group at its end.
//!
//! An end is durable in the local directory before it is written here. A start waits a moment for
//! its end: to the leader a dispatched job runs, and a short job needs one report.

use super::exec::Exec;
use super::reports::Reporter;
use super::table::{Entry, Status};
use crate::host::ls::{read_news, write_news};
use crate::model::AttemptId;
use crate::record::report::{Report, RunId};
use crate::sys::{clock, proc};
use crate::task::log::AttemptRec;
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

/// Starts that are not reported yet, and until when each waits (boot clock, ms).
#[derive(Debug, Default)]
pub struct UnreportedStarts(BTreeMap<AttemptId, u64>);

impl UnreportedStarts {
    /// When the first of them is due.
    pub fn due_ms(&self) -> Option<u64> {
        self.0.values().min().copied()
    }

    fn due(&self, now: u64) -> Vec<AttemptId> {
        let due = self.0.iter().filter(|(_, until)| **until <= now);
        due.map(|(a, _)| *a).collect()
    }
}

fn refusal(a: AttemptId) -> Report {
    let why = "its host knows another run by this id, of before the share was restored".to_owned();
    Report::Never { a, why }
}

impl Exec {
    /// Reports a start: at once on a local file system, where a report costs next to nothing.
    pub(super) fn report_start(&mut self, a: AttemptId) {
        let wait = match self.place.share_is_local {
            true => 0,
            false => START_WAITS_MS,
        };
        self.unreported_starts.0.insert(a, clock::boot_ms() + wait);
    }

    fn start_of(&self, a: AttemptId) -> Option<Report> {
        let Status::Running(s) = &self.table.get(a)?.status else {
            return None;
        };
        let pid = u32::try_from(s.pid).unwrap_or(0);
        Some(Report::Started { a, pid, t: s.t })
    }

    /// Adds a report to the next group, if there is a file; a new file repeats everything anyway. A
    /// start that waits is written before any report but the end, which includes it.
    pub(super) fn push(&mut self, a: AttemptId, report: &Report) {
        let waited = self.unreported_starts.0.remove(&a).is_some();
        if waited
            && !matches!(report, Report::Ended(_) | Report::Never { .. })
            && let Some(start) = self.start_of(a).filter(|start| start != report)
        {
            self.push_now(a, &start);
        }
        self.push_now(a, report);
    }

    fn push_now(&mut self, a: AttemptId, report: &Report) {
        let run = self.table.get(a).map_or(RunId::default(), Entry::run);
        if let Some(r) = self.reports.as_mut() {
            let seq = r.push(report, run);
            if matches!(report, Report::Ended(_) | Report::Never { .. }) {
                self.table.reported(a, seq);
            }
        }
    }

    /// Answers an order to start a run whose id another run has here: the ordered run is never
    /// started here, and the known run is not taken for it. The job gets its next attempt.
    pub(super) fn refuse(&mut self, a: AttemptId, mark: u32) {
        let (epoch, part) = self.orders.place();
        if let Some(e) = self.table.get_mut(a) {
            e.named = e.named.max((epoch, part));
        }
        let (e, p) = (epoch, part);
        self.ledger.push(&AttemptRec::Refused { a, e, p });
        if self.refused.insert(a, mark) != Some(mark) {
            tracing::warn!("attempt {a} is known here as another run: it is not started");
        }
        if let Some(r) = self.reports.as_mut() {
            r.push(&refusal(a), RunId::marked(mark));
        }
    }

    /// The leader cannot read the present file any more, or waits for one with a number above that
    /// of the present one: another one repeats everything that is not acknowledged.
    pub(super) fn renew_reports(&mut self, part: u64, seq: u64, at: u64) {
        let number = self.reports.as_ref().map(Reporter::number);
        let Some(number) = number.filter(|number| *number <= part) else {
            return;
        };
        if number < part {
            tracing::error!(
                "the leader knows reports file {part} of this host, the present one is {number}: \
                 its directory on the share was lost; reports continue in another file"
            );
            self.reports_above = part;
            return self.begin_new_reports();
        }
        let path = self.place.layout.reports(&self.place.site.host, part);
        tracing::error!(
            "{}: the leader found damage at byte {at}, record {seq}; reports continue in a \
             new file",
            path.display()
        );
        self.begin_new_reports();
    }

    /// The next report goes into a new file, which repeats what is not acknowledged and names the
    /// damage of the orders, if there is any. That damage may hide the order to renew reports that
    /// the leader cannot read: a request in those would never arrive.
    pub(super) fn begin_new_reports(&mut self) {
        let now = clock::boot_ms();
        let (pause, last) = self.reports_pause;
        let pause = match last > 0 && now.saturating_sub(last) < CALM_MS + pause {
            true => (pause * 2).clamp(PAUSE_MS.0, PAUSE_MS.1),
            false => 0,
        };
        self.reports_pause = (pause, now);
        self.reports_at = now + pause;
        self.reports = None;
    }

    /// Checks now and then that the reports file is still the one that the leader reads.
    pub(super) fn check_reports_file(&mut self) {
        let now = clock::boot_ms();
        if now.saturating_sub(self.reports_checked) < CHECK_MS {
            return;
        }
        self.reports_checked = now;
        if self.reports.as_ref().is_some_and(|r| !r.is_in_place()) {
            tracing::warn!("the reports file was replaced: reports continue in a new file");
            self.reports = None;
        }
    }

    /// Writes the group; ends are made durable here first.
    pub(super) fn report(&mut self) {
        for a in self.unreported_starts.due(clock::boot_ms()) {
            match self.start_of(a) {
                Some(start) => self.push(a, &start),
                None => drop(self.unreported_starts.0.remove(&a)),
            }
        }
        if std::mem::take(&mut self.ends) {
            let durable = self.logs.sync().and_then(|()| self.ledger.commit(true));
            if let Err(e) = durable {
                tracing::error!("{e}; ends are not reported before they are durable");
                self.ends = true;
                return;
            }
        }
        let wanted = self.reports.as_ref().is_none_or(Reporter::is_full);
        if wanted && clock::boot_ms() >= self.reports_at {
            self.new_reports();
        }
        let Some(reports) = self.reports.as_mut().filter(|r| !r.is_empty()) else {
            return;
        };
        match reports.flush() {
            Ok(()) => self.hints.reported(self.orders.leader()),
            Err(e) => {
                tracing::error!("{e}; reports continue in a new file");
                self.reports = None;
            }
        }
        let place = self.reports.as_ref().map(Reporter::place);
        if let Some(place) = place.filter(|place| *place != self.news) {
            self.news = place;
            write_news(&self.place.local, place);
        }
    }

    /// Begins a reports file with everything that the leader has not acknowledged.
    fn new_reports(&mut self) {
        let (host, cluster) = (&self.place.site.host, &self.place.cluster.cluster);
        let sync = !self.place.share_is_local;
        // Where the directory was lost, the leader still waits for a number above the last one.
        let above = self.reports_above.max(read_news(&self.place.local).0);
        let named = (host.as_str(), above);
        let mut r = match Reporter::create(&self.place.layout, named, cluster, sync) {
            Ok(r) => r,
            Err(e) => {
                tracing::error!("{e}");
                self.reports_at = clock::boot_ms() + RETRY_MS;
                return;
            }
        };
        self.table.new_file();
        let own = RunId::default();
        let boot = proc::boot_id().to_owned();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let hello = Report::Hello {
            boot: boot.clone(),
            version,
            t: clock::wall_ms(),
        };
        r.push(&hello, own);
        let identity = self.ledger.identity.clone();
        let ledger = Report::Ledger {
            id: identity.id,
            kept: identity.kept,
        };
        r.push(&ledger, own);
        if let Some(at) = self.hints.at() {
            r.push(&Report::Hints { at: at.to_owned() }, own);
        }
        self.unreported_starts = UnreportedStarts::default();
        let mut finals = Vec::new();
        for (a, e) in self
            .table
            .iter()
            .filter(|(_, e)| !(e.is_final() && e.acked))
        {
            for report in e.reports(a) {
                let seq = r.push(&report, e.run());
                if e.is_final() {
                    finals.push((a, seq));
                }
            }
        }
        for (report, run) in self.parts.reports() {
            r.push(&report, run);
        }
        for (a, mark) in &self.refused {
            r.push(&refusal(*a), RunId::marked(*mark));
        }
        if let Some(damage) = self.orders.damage() {
            r.push(damage, own);
        }
        r.push(&Report::Complete { boot }, own);
        finals
            .into_iter()
            .for_each(|(a, seq)| self.table.reported(a, seq));
        self.reports = Some(r);
        if std::mem::take(&mut self.forget_old) {
            self.table.drop_unmarked();
            self.rewrite();
        }
    }
}
