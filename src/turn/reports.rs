//! Reports of hosts about attempts: starts, ends, usage, refusals; and the end of a host's report,
//! from which the leader learns what the host no longer knows.

use super::context::Turn;
use super::input::REPORTS_AHEAD;
use super::memory::hosts::{GivenUp, ReportFile};
use super::run_again::requeue_exits;
use crate::model::{AttemptId, Binding, JobKey, Stamp, TermReason};
use crate::record::event::Event;
use crate::record::order::Order;
use crate::record::report::{Ended, Report, ReportRecord, RunId, Usage};
use crate::state::{HostCtl, PREFETCH_BATCH, Run, Work};
use std::collections::BTreeSet;

/// Text of a success that stands although its attempt was given up.
const AFTER_ALL: &str = "its host reported this end after the job had been requeued";

/// A job of which a limit ended a command on one of its hosts did not succeed, even if the job
/// handled that.
fn fail_with_command(e: &mut Ended) {
    let Some(command) = e.u.command_end.take() else {
        return;
    };
    if e.reason != TermReason::None || e.pre_failed.is_some() {
        return;
    }
    e.reason = command.reason;
    e.oom |= command.reason.is_memory();
    let text = std::mem::take(&mut e.text);
    e.text = match text.as_str() {
        "" => command.sentence(),
        text => format!("{}; {text}", command.sentence()),
    };
}

impl Turn<'_> {
    /// Handles reports. `more`: the file contains more after these.
    pub(super) fn reports(
        &mut self,
        host: &str,
        part: u64,
        reports: Vec<ReportRecord>,
        more: bool,
    ) {
        self.note_reports_read(host, part);
        let newest = self.is_newest_file(host, part);
        let mut last = None;
        let mut reports = reports.into_iter();
        while reports.len() > 0 {
            let ahead = reports.as_slice().iter().take(PREFETCH_BATCH);
            let attempts = ahead.filter_map(|record| record.report.attempt());
            let works: Vec<_> = attempts.map(|a| (a.j, None)).collect();
            if works.len() > REPORTS_AHEAD {
                self.core.state.prefetch(&works);
            }
            for record in reports.by_ref().take(PREFETCH_BATCH) {
                // A host keeps only what is over until it is acknowledged.
                if matches!(record.report, Report::Ended(_) | Report::Never { .. }) {
                    last = Some(record.seq);
                }
                // A report about another run with the same attempt id does not change this one.
                match record.report.attempt() {
                    Some(a) if self.core.state.is_other_run(a, record.run.mark) => {
                        self.report_of_other_run(host, a, record.run, &record.report);
                    }
                    _ => self.report(host, record.run, record.report),
                }
            }
        }
        // A new leader reads an old file from its start: whatever follows its `Complete` is about
        // later attempts, so nothing is concluded before the end of the file.
        if newest && !more {
            let file = &mut self.core.memory.host_mut(host).report_file;
            if let Some(boot) = file.complete.take() {
                self.report_complete(host, &boot);
            }
            self.kill_strays(host);
        }
        if let Some(seq) = last {
            self.acknowledge_reports(host, part, seq);
        }
    }

    /// Whether this is the newest report file of the host that any leader has read. Records a newer
    /// one before its content. A leader may start with an older one that a beat names: what is
    /// missing there may be in the newer one.
    fn is_newest_file(&mut self, host: &str, part: u64) -> bool {
        let known = self.core.state.host_ctl(host).part;
        if part > known {
            let (name, t) = (host.to_owned(), self.now);
            self.emit(Event::HostReports { name, part, t });
        }
        part >= known
    }

    /// Handles a host's report on a run whose attempt id belongs to another run here.
    fn report_of_other_run(&mut self, host: &str, a: AttemptId, run: RunId, report: &Report) {
        match report {
            Report::Ended(_) | Report::Never { .. } => self.forget_stray(host, a, run),
            Report::PartReady { .. } | Report::PartUsage { .. } | Report::PartOver { .. } => {}
            _ => self.note_stray(host, a, run),
        }
    }

    fn report(&mut self, host: &str, run: RunId, report: Report) {
        match report {
            Report::Hello { parts, .. } => {
                let memory = self.core.memory.host_mut(host);
                memory.reports_parts = parts;
                memory.report_file = ReportFile {
                    mentioned: Some(BTreeSet::new()),
                    ..ReportFile::default()
                };
                // The host reports again everything that runs.
                self.core.memory.stray_runs.forget_host(host);
                self.repeat_part_ends(host);
            }
            Report::Ledger {
                id,
                kept: predates_names,
            } => {
                self.core.memory.host_mut(host).report_file.ledger = Some((id, predates_names));
            }
            // The driver sends them.
            Report::Hints { .. } => {}
            Report::Complete { boot } => {
                self.core.memory.host_mut(host).report_file.complete = Some(boot);
            }
            Report::Started { a, pid, t, bind } => {
                self.started(host, (a, run), (pid, bind), Stamp(t));
            }
            Report::Ended(e) => self.end_reported(host, run, *e),
            Report::Never { a, why } => {
                self.note_mentioned(host, a);
                self.forget_stray(host, a, run);
                self.given_up_reported(host, a);
                if self.bound(host, a).is_some() {
                    self.unbind(a, "", why);
                } else {
                    self.part_refused(host, a, why);
                }
            }
            Report::PartReady { a, bind } => self.part_ready(host, a, bind),
            Report::OrdersDamaged {
                epoch,
                part,
                seq,
                at,
                why,
            } => self.orders_damaged(host, epoch, (part, seq, at), why),
            Report::Suspended { a, t } => self.suspension(host, (a, run), true, t),
            Report::Resumed { a, t } => self.suspension(host, (a, run), false, t),
            Report::Checkpointed { a, t, why } => {
                self.note_mentioned(host, a);
                match self.bound_run(host, a).map(Run::saved_at) {
                    None => self.note_stray(host, a, run),
                    // A new leader reads an old file again.
                    Some(known) if Stamp(t) <= known => {}
                    Some(_) => self.emit(Event::Checkpointed {
                        a,
                        why,
                        t: Stamp(t),
                    }),
                }
            }
            Report::Usage { a, u } => self.first_used(host, (a, run), u),
            Report::PartUsage { a, u } => self.part_used(host, a, u),
            Report::PartOver { a } => {
                if let Some(id) = self.core.state.host_id(host) {
                    self.core.memory.held_ends.part_over(a, id);
                }
            }
        }
    }

    fn end_reported(&mut self, host: &str, run: RunId, mut e: Ended) {
        self.note_mentioned(host, e.a);
        self.forget_stray(host, e.a, run);
        let a = e.a;
        if self.bound(host, a).is_none() {
            self.late_success(host, e);
            return self.given_up_reported(host, a);
        }
        if e.reason != TermReason::StartFailed {
            // A task that starts and ends at once is only reported as ended.
            self.clear_backoff(host);
            if e.code.is_some() || e.sig > 0 {
                self.task_ran(e.a.j, host, e.start);
            }
        }
        self.note_unreported_start(host, &mut e);
        if let Some(e) = self.hold_end(host, e) {
            self.record_end(e, true);
        }
    }

    /// The host has reported how an attempt ended that may have been given up: after the last of
    /// them it gets jobs again.
    fn given_up_reported(&mut self, host: &str, a: AttemptId) {
        if self.core.memory.host_mut(host).given_up.reported(a) {
            self.reevaluate_load(host);
        }
    }

    /// Handles an end that a host reports after its attempt was given up with the host: a success
    /// stands, unless the job has begun again meanwhile.
    fn late_success(&mut self, host: &str, mut e: Ended) {
        let run = self.core.state.work(e.a.j);
        let run = run.and_then(|work| work.run.as_deref());
        let first = run.and_then(|run| run.hosts.first());
        let ran_here = first.is_some_and(|(id, _)| **self.core.state.host_name(*id) == *host);
        if !ran_here || !self.core.state.is_given_up(e.a) {
            return;
        }
        self.judge(&mut e);
        let spec = self.core.state.spec_of(e.a.j.id);
        let code = e.code.and_then(|code| u8::try_from(code).ok());
        let requeues = |code: u8| spec.is_some_and(|s| requeue_exits(self.core, s).requeues(code));
        if !e.is_success() || code.is_some_and(|code| code != 0 && requeues(code)) {
            return;
        }
        (e.pid, e.known) = (0, self.now.0);
        e.text = match e.text.as_str() {
            "" => AFTER_ALL.to_owned(),
            text => format!("{text}; {AFTER_ALL}"),
        };
        let (requeue, hold) = (false, false);
        self.emit(Event::Ended {
            e: Box::new(e),
            requeue,
            hold,
        });
        self.core.pass.needed = true;
    }

    /// Records an end, with what the other hosts have reported by now.
    pub(super) fn record_end(&mut self, mut e: Ended, confirmed: bool) {
        if confirmed {
            self.core.memory.part_usage.add_parts(e.a, &mut e.u);
        }
        self.ended(e, confirmed);
    }

    /// Usage is shown at once but written to the journal only with the end: a lost sample does no
    /// harm.
    fn first_used(&mut self, host: &str, (a, run): (AttemptId, RunId), u: Usage) {
        self.note_mentioned(host, a);
        match self.bound(host, a).is_some() {
            true => self.used(a, u),
            false => self.note_stray(host, a, run),
        }
    }

    fn started(
        &mut self,
        host: &str,
        (a, run): (AttemptId, RunId),
        (pid, bind): (u32, Option<Box<Binding>>),
        t: Stamp,
    ) {
        self.note_mentioned(host, a);
        let Some(bound) = self.bound_run(host, a) else {
            return self.note_stray(host, a, run);
        };
        let known = bound.start != Stamp(0);
        self.clear_backoff(host);
        self.task_began(a.j, host);
        if known {
            return;
        }
        // Only running jobs grow.
        let spec = self.core.state.spec_of(a.j.id);
        if spec.is_some_and(|spec| spec.max > spec.min) {
            self.core.pass.needed = true;
        }
        self.emit(Event::Started { a, pid, t, bind });
    }

    /// A task that starts and ends at once is only reported as ended: its start is recorded first.
    fn note_unreported_start(&mut self, host: &str, e: &mut Ended) {
        let pid = std::mem::take(&mut e.pid);
        let is_known = self
            .bound_run(host, e.a)
            .is_none_or(|run| run.start != Stamp(0));
        let ran = e.start > 0 && e.reason != TermReason::StartFailed && e.pre_failed.is_none();
        if is_known || !ran || (e.code.is_none() && e.sig == 0) {
            return;
        }
        self.emit(Event::Started {
            a: e.a,
            pid,
            t: Stamp(e.start),
            bind: None,
        });
    }

    fn suspension(&mut self, host: &str, (a, of): (AttemptId, RunId), on: bool, t: i64) {
        self.note_mentioned(host, a);
        let Some(run) = self.bound_run(host, a) else {
            return self.note_stray(host, a, of);
        };
        if (run.suspension.since != Stamp(0)) != on {
            self.emit(Event::Suspended { a, on, t: Stamp(t) });
            self.core.pass.needed = true;
        }
        self.correct_suspension(a.j, on);
    }

    fn note_mentioned(&mut self, host: &str, a: AttemptId) {
        if let Some(mentioned) = &mut self.core.memory.host_mut(host).report_file.mentioned {
            mentioned.insert(a);
        }
    }

    /// The job or element whose current attempt is `a` and runs on `host`: only that host may
    /// report on it.
    fn bound(&self, host: &str, a: AttemptId) -> Option<&Work> {
        let state = &self.core.state;
        let work = state.work(a.j)?;
        let run = work.run.as_deref()?;
        let first = run.hosts.first().map(|(id, _)| state.host_name(*id));
        let is_first_host = first.is_some_and(|name| name.as_ref() == host);
        (is_first_host && work.attempt == a.at && work.stat.is_started()).then_some(work)
    }

    pub(super) fn bound_run(&self, host: &str, a: AttemptId) -> Option<&Run> {
        self.bound(host, a)?.run.as_deref()
    }

    /// Whether it succeeded, according to its exit code and to what ended its commands.
    fn judge(&self, e: &mut Ended) {
        fail_with_command(e);
        e.success = self.is_success(e);
    }

    /// `confirmed`: its host or an administrator states that no part of the attempt runs any more.
    pub(super) fn ended(&mut self, mut e: Ended, confirmed: bool) {
        e.known = self.now.0;
        self.judge(&mut e);
        let (requeue, hold) = self.requeue_after(&mut e, confirmed);
        e.success &= !requeue;
        self.count_failure(&e);
        self.emit(Event::Ended {
            e: Box::new(e),
            requeue,
            hold,
        });
        self.core.pass.needed = true;
    }

    /// Handles the end of a host's full report: attempts that ran there and that the host no longer
    /// knows are lost.
    fn report_complete(&mut self, host: &str, boot: &str) {
        let file = std::mem::take(&mut self.core.memory.host_mut(host).report_file);
        let known = file.mentioned.unwrap_or_default();
        self.core.memory.host_mut(host).given_up = GivenUp::default();
        let ctl = self.core.state.host_ctl(host);
        if ctl.boot != boot {
            // The first report of a host that is new to the journal does not indicate a restart.
            if !ctl.boot.is_empty() {
                self.end_lost_parts(host, false);
            }
            let (name, boot, t) = (host.to_owned(), boot.to_owned(), self.now);
            self.emit(Event::HostSeen {
                name,
                up: ctl.up,
                boot,
                t,
            });
        }
        for a in self.attempts_on(host) {
            let started = self.bound_run(host, a).map(|run| run.start);
            if started.is_some_and(|t| t != Stamp(0)) && !known.contains(&a) {
                let text = "its host no longer knows it";
                self.end_when_nothing_is_left(a, TermReason::HostLost, text);
            }
        }
        if let Some((id, predates_names)) = file.ledger
            && ctl.ledger != id
        {
            self.new_ledger(host, id, predates_names, &ctl, &known);
        }
    }

    /// Handles another ledger of a host. The host will not follow earlier orders, and it is no
    /// longer known whether it followed them with its earlier ledger.
    fn new_ledger(
        &mut self,
        host: &str,
        id: String,
        predates_names: bool,
        ctl: &HostCtl,
        known: &BTreeSet<AttemptId>,
    ) {
        // A host that never reported has started nothing: a start needs a known ledger.
        let first = ctl.ledger.is_empty() && ctl.boot.is_empty();
        for a in self.attempts_on(host) {
            let ordered = self
                .bound_run(host, a)
                .is_some_and(|run| run.start == Stamp(0) && !run.preparing);
            if predates_names || !ordered || known.contains(&a) {
                continue;
            }
            if first {
                let why = "its host had not reported yet".to_owned();
                self.unbind(a, "", why);
            } else {
                let text = "its host lost its ledger before it reported whether the job was \
                    started";
                self.end_as_lost(a, TermReason::HostLost, false, text);
            }
        }
        let (name, t) = (host.to_owned(), self.now);
        let ledger = id.clone();
        self.emit(Event::HostLedger { name, id, t });
        self.ready.order(host, Order::Ledger { id: ledger });
        self.reevaluate_load(host);
    }

    /// The current attempt of a job or element.
    pub(super) fn current_attempt(&self, j: JobKey) -> AttemptId {
        let at = self.core.state.work(j).map_or(0, |work| work.attempt);
        AttemptId { j, at }
    }

    /// Current attempts of all jobs and elements that have slots on `host`.
    pub(super) fn current_attempts_on(&self, host: &str) -> Vec<AttemptId> {
        let works = self.core.state.on_host(host);
        works.map(|(j, _)| self.current_attempt(j)).collect()
    }

    /// Attempts whose first host is `host`.
    pub(super) fn attempts_on(&self, host: &str) -> Vec<AttemptId> {
        let mut attempts = self.current_attempts_on(host);
        attempts.retain(|a| self.bound(host, *a).is_some());
        attempts
    }
}
