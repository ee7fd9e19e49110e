//! Compares the orders to hosts and the reports of hosts with the journal.
//!
//! Reads each host's newest orders and its kept reports, as streams. Reports of the newest file
//! show which tasks are alive on the host; all reports together show who started which attempt.

use super::Ctx;
use super::finding::Finding;
use super::journal::{first_host, next_id, work_of};
use crate::journal::{IntactLine, LineError, Lines};
use crate::model::{AttemptId, Stamp, TermReason};
use crate::record::FORMAT;
use crate::record::frame::{Damage, Damaged};
use crate::record::header::Header;
use crate::record::order::Order;
use crate::record::report::Report;
use crate::spool::Layout;
use crate::state::{State, Work};
use crate::sys;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Maximum number of host directories.
const HOSTS_MAX: usize = 100_000;
/// Maximum total size of reports and orders, in bytes; hosts beyond it are reported as not checked.
const BYTES_MAX: u64 = 8 << 30;
/// Maximum number of starts that are compared with each other.
const STARTS_MAX: usize = 8_000_000;
const EACH_MAX: usize = 20;

/// A report with the mark of its run: runs before and after the restore of a share may have the
/// same name.
#[derive(Deserialize)]
struct ReportWithMark {
    #[serde(flatten)]
    report: Report,
    #[serde(rename = "m", default)]
    mark: u32,
}

/// One host's newest reports file.
#[derive(Default)]
struct HostReports {
    /// Attempts that have started and not ended, with their marks.
    live: FxHashMap<AttemptId, u32>,
    /// All attempts that are mentioned.
    mentioned: FxHashSet<AttemptId>,
    /// Whether the file contains everything that the host knows.
    complete: bool,
}

/// All orders to hosts and reports of hosts.
#[derive(Default)]
pub(super) struct OrdersAndReports {
    hosts: Vec<(String, HostReports)>,
    /// Orders to start: host and attempt.
    orders: Vec<(String, AttemptId)>,
    /// Index of the host that reported the start of an attempt with this mark.
    starts: FxHashMap<(AttemptId, u32), u32>,
    duplicate_starts: Vec<(AttemptId, String, String)>,
    bytes: u64,
    left_out: usize,
}

impl OrdersAndReports {
    /// Reads the orders to all hosts and their reports.
    pub(super) fn read(ctx: &Ctx, out: &mut Vec<Finding>) -> OrdersAndReports {
        let mut orders_and_reports = OrdersAndReports::default();
        let entries = match sys::fs::list_dir(&ctx.layout.hosts(), HOSTS_MAX) {
            Ok(entries) => entries,
            Err(e) => {
                out.push(Finding::unreadable("hosts", &e));
                return orders_and_reports;
            }
        };
        let mut names: Vec<&str> = entries.iter().filter_map(|e| e.text()).collect();
        names.sort_unstable();
        for host in names {
            if orders_and_reports.bytes > BYTES_MAX {
                orders_and_reports.left_out += 1;
                continue;
            }
            orders_and_reports.host(ctx, host, out);
        }
        if orders_and_reports.left_out > 0 {
            let what = format!(
                "{} hosts were left out: their files are too long",
                orders_and_reports.left_out
            );
            out.push(Finding::unknown("hosts", "hosts", what));
        }
        orders_and_reports
    }

    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    fn host(&mut self, ctx: &Ctx, host: &str, out: &mut Vec<Finding>) {
        let dir = ctx.layout.host(host);
        let names = match sys::fs::list_dir(&dir, 100_000) {
            Ok(names) => names,
            Err(e) if e.is_not_found() => return,
            Err(e) => return out.push(Finding::unreadable("hosts", &e)),
        };
        let mut orders: Vec<(u64, u64)> = Vec::new();
        let mut reports: Vec<u64> = Vec::new();
        for name in names.iter().filter_map(|e| e.text()) {
            orders.extend(Layout::parse_orders_name(name));
            reports.extend(Layout::parse_reports_name(name));
        }
        // Hosts do not follow orders of older epochs.
        let newest = orders.iter().map(|(epoch, _)| *epoch).max();
        for (epoch, part) in orders.iter().filter(|(e, _)| Some(*e) == newest) {
            let path = ctx.layout.orders(host, *epoch, *part);
            let all = &mut self.orders;
            let read = records::<Order>(&path, &mut |order| {
                if let Order::Start(start) = order {
                    all.push((host.to_owned(), start.a));
                }
            });
            self.read_of("orders", &path, read, out);
        }
        reports.sort_unstable();
        let at = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        self.hosts.push((host.to_owned(), HostReports::default()));
        for n in reports {
            let path = ctx.layout.reports(host, n);
            let mut host_reports = HostReports::default();
            let read = records::<ReportWithMark>(&path, &mut |reported| {
                self.report(at, &mut host_reports, reported)
            });
            self.read_of("hosts", &path, read, out);
            self.hosts[at as usize].1 = host_reports;
        }
    }

    fn read_of(
        &mut self,
        area: &'static str,
        path: &Path,
        read: Result<u64, LineError>,
        out: &mut Vec<Finding>,
    ) {
        match read {
            Ok(bytes) => self.bytes += bytes,
            Err(LineError::Io(e)) => out.push(Finding::unreadable(area, &e)),
            Err(LineError::Damaged(d)) => out.push(Finding::broken(
                area,
                format!("{}:{}", path.display(), d.offset),
                format!("{}; the rest of the file is not read", d.damage),
                match area {
                    "orders" => {
                        "its host requests another part automatically; if none comes, 'cadmin \
                         schedrestart': a new leader writes all orders again"
                    }
                    _ => {
                        "the leader automatically requests another file from its host; if none \
                         comes, restart cbexe there: it repeats all that is not acknowledged"
                    }
                },
            )),
        }
    }

    fn report(&mut self, at: u32, host_reports: &mut HostReports, reported: ReportWithMark) {
        let mark = reported.mark;
        match reported.report {
            Report::Hello { .. } => *host_reports = HostReports::default(),
            Report::Complete { .. } => host_reports.complete = true,
            Report::Started { a, .. } => {
                host_reports.live.insert(a, mark);
                host_reports.mentioned.insert(a);
                self.start(a, mark, at);
            }
            Report::Ended(e) => {
                host_reports.live.remove(&e.a);
                host_reports.mentioned.insert(e.a);
                if e.start != 0 {
                    self.start(e.a, mark, at);
                }
            }
            Report::Never { a, .. } => {
                host_reports.live.remove(&a);
                host_reports.mentioned.insert(a);
            }
            _ => {}
        }
    }

    fn start(&mut self, a: AttemptId, mark: u32, at: u32) {
        if self.starts.len() >= STARTS_MAX {
            return;
        }
        let first = *self.starts.entry((a, mark)).or_insert(at);
        if first != at && self.duplicate_starts.len() < EACH_MAX {
            let name = |n: u32| self.hosts[n as usize].0.clone();
            self.duplicate_starts.push((a, name(first), name(at)));
        }
    }

    /// Compares everything with the journal, which was read later.
    pub(super) fn check_against(&self, state: &State, out: &mut Vec<Finding>) {
        for (a, first, second) in &self.duplicate_starts {
            let what = format!("it was started on {first} and on {second}");
            out.push(Finding::defect("hosts", format!("attempt {a}"), what));
        }
        let next = next_id(state);
        let unknown = |a: &AttemptId| match state.work(a.j) {
            Some(work) => work.attempt < a.at,
            None => state.job(a.j.id).is_some() || a.j.id >= next,
        };
        for (host, a) in self
            .orders
            .iter()
            .filter(|(_, a)| unknown(a))
            .take(EACH_MAX)
        {
            let what = format!(
                "{host} was ordered to start it, but the journal does not contain \
                it"
            );
            out.push(Finding::defect("orders", format!("attempt {a}"), what));
        }
        for (host, host_reports) in self
            .hosts
            .iter()
            .filter(|(_, host_reports)| host_reports.complete)
        {
            for (a, mark) in &host_reports.live {
                out.extend(alive(state, host, *a, *mark));
            }
            out.extend(unmentioned_attempts(state, host, host_reports));
        }
    }
}

/// The finding for a task that is alive on `host`, if any.
fn alive(state: &State, host: &str, a: AttemptId, mark: u32) -> Option<Finding> {
    let place = format!("host {host}, attempt {a}");
    let todo = format!(
        "check {host} with 'cadmin dev ps' or ps; kill the process if it is not needed, the \
         cluster counts no slot for it"
    );
    let Some(work) = work_of(state, a) else {
        let what = "it runs there, but the journal does not contain this attempt";
        return Some(Finding::broken("hosts", place, what, todo));
    };
    if state.is_other_run(a, mark) {
        let what = "it runs there as a job from before the share was restored";
        return Some(Finding::broken("hosts", place, what, todo));
    }
    if work.stat.is_started() {
        let right = first_host(state, a.j).is_some_and(|h| h == host);
        let what = "it runs there, but the journal binds it to another host";
        return (!right).then(|| Finding::defect("hosts", place, what));
    }
    let reason = end_reason(work);
    let what = format!("it runs there, but the journal has it as {}", work.stat);
    // Removed while its host was silent: the host may not know it yet.
    let given_up = matches!(
        reason,
        TermReason::HostLost | TermReason::Fenced | TermReason::Force
    );
    Some(match given_up {
        true => Finding::warning("hosts", place, what, todo),
        false => Finding::broken("hosts", place, what, todo),
    })
}

fn end_reason(work: &Work) -> TermReason {
    let end = work.run.as_ref().and_then(|run| run.end.as_ref());
    end.map_or(TermReason::None, |f| f.reason)
}

/// Attempts that run on a host according to the journal, but that the host does not mention.
fn unmentioned_attempts(state: &State, host: &str, host_reports: &HostReports) -> Vec<Finding> {
    let mut out = Vec::new();
    for (j, _) in state.on_host(host) {
        let Some(work) = state.work(j) else { continue };
        let a = AttemptId {
            j,
            at: work.attempt,
        };
        let run = work.run.as_deref();
        let started = run.is_some_and(|run| run.start != Stamp(0));
        let is_first_host = first_host(state, j).is_some_and(|h| h == host);
        if started && is_first_host && !host_reports.mentioned.contains(&a) && out.len() < EACH_MAX
        {
            out.push(Finding::broken(
                "hosts",
                format!("host {host}, attempt {a}"),
                "according to the journal it runs there, but the host does not know it",
                "restart cbexe there: what it does not know is then ended as lost",
            ));
        }
    }
    out
}

/// Refuses a file of a newer format.
fn check_format(step: &IntactLine<'_>) -> Result<(), LineError> {
    let offset = step.offset;
    let damaged = |damage| LineError::Damaged(Damaged { offset, damage });
    let header: Header = step.line.decode().map_err(damaged)?;
    if header.format <= FORMAT {
        return Ok(());
    }
    let text = format!(
        "format {} is newer than this program's {FORMAT}",
        header.format
    );
    Err(damaged(Damage::Content(text)))
}

/// Passes on every record after the header; a partial line at the end is being written. Returns the
/// number of bytes read.
fn records<T: DeserializeOwned>(path: &Path, sink: &mut dyn FnMut(T)) -> Result<u64, LineError> {
    let mut lines = Lines::new(path, u64::MAX);
    let mut header = true;
    loop {
        match lines.next_line() {
            Ok(None) => return Ok(lines.offset()),
            Ok(Some(step)) if std::mem::take(&mut header) => check_format(&step)?,
            Ok(Some(step)) => {
                // Records of a kind from a newer version are not needed here.
                if let Ok(record) = serde_json::from_slice(step.line.json) {
                    sink(record);
                }
            }
            Err(LineError::Io(e)) if e.is_not_found() => return Ok(0),
            Err(LineError::Damaged(d)) if d.damage == Damage::Torn => return Ok(lines.offset()),
            Err(e) => return Err(e),
        }
    }
}
