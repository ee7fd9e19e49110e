//! What hosts say: starts, ends, samples; and what follows from their silence.

use super::{REPORTS_NEAR, SILENT_MS, Turn};
use crate::model::{AttemptId, JobKey, Stamp, TermReason};
use crate::record::event::{Event, SignalAct};
use crate::record::load::LoadDoc;
use crate::record::order::Order;
use crate::record::report::{Ended, Report, ReportRecord, RunId};
use crate::state::{HostCtl, PREFETCH_BATCH, Work};
use std::collections::BTreeSet;

/// Margin behind a host's self-fence before its work may run elsewhere.
const FENCE_MARGIN_MS: u64 = 10_000;

impl Turn<'_> {
    /// `more`: the file goes on behind these.
    pub(super) fn reports(
        &mut self,
        host: &str,
        part: u64,
        reports: Vec<ReportRecord>,
        more: bool,
    ) {
        self.reports_read(host, part);
        let mut last = None;
        let mut reports = reports.into_iter();
        while reports.len() > 0 {
            let ahead = reports.as_slice().iter().take(PREFETCH_BATCH);
            let attempts = ahead.filter_map(|record| record.report.attempt());
            let works: Vec<_> = attempts.map(|a| (a.j, None)).collect();
            if works.len() > REPORTS_NEAR {
                self.core.state.prefetch(&works);
            }
            for record in reports.by_ref().take(PREFETCH_BATCH) {
                // A host keeps nothing but what is over until it is acknowledged.
                if matches!(record.report, Report::Ended(_) | Report::Never { .. }) {
                    last = Some(record.seq);
                }
                // Of another run than the one that is known by this name nothing is believed.
                match record.report.attempt() {
                    Some(a) if self.core.state.is_other(a, record.run.mark) => {
                        self.report_of_other_run(host, a, record.run, &record.report);
                    }
                    _ => self.report(host, record.run, record.report),
                }
            }
        }
        // A new leader reads an old file from its start: what stands behind its `Complete` tells of
        // attempts that came later, so nothing is concluded before the end of the file.
        if !more && let Some(boot) = self.core.completed.remove(host) {
            self.complete(host, &boot);
        }
        if !more {
            self.kill_strays(host);
        }
        if let Some(seq) = last {
            self.out
                .orders
                .push((host.to_owned(), Order::Ack { part, seq }));
        }
    }

    /// A host speaks of a run whose name another one has here.
    fn report_of_other_run(&mut self, host: &str, a: AttemptId, run: RunId, report: &Report) {
        match report {
            Report::Ended(_) | Report::Never { .. } => self.forget_stray(host, a, run),
            Report::PartReady { .. } => {}
            _ => self.note_stray(host, a, run),
        }
    }

    fn report(&mut self, host: &str, run: RunId, report: Report) {
        match report {
            Report::Hello { .. } => {
                self.core
                    .mentioned
                    .insert(host.to_owned(), Default::default());
                self.core.completed.remove(host);
                self.core.ledgers.remove(host);
                // All that runs is reported anew.
                self.core.leftovers.remove(host);
            }
            Report::Ledger { id, kept } => {
                self.core.ledgers.insert(host.to_owned(), (id, kept));
            }
            // For whoever sends them.
            Report::Hints { .. } => {}
            Report::Complete { boot } => {
                self.core.completed.insert(host.to_owned(), boot);
            }
            Report::Started { a, pid, t } => self.started(host, (a, run), pid, Stamp(t)),
            Report::Ended(e) => {
                self.note_mentioned(host, e.a);
                self.forget_stray(host, e.a, run);
                if self.bound(host, e.a).is_some() {
                    if e.elsewhere {
                        self.start_failed(host, &e);
                    } else if e.reason != TermReason::StartFailed {
                        // What starts and ends at once is told as ended only.
                        self.clear_backoff(host);
                    }
                    self.ended(*e, true);
                }
            }
            Report::Never { a, why } => {
                self.note_mentioned(host, a);
                self.forget_stray(host, a, run);
                if self.bound(host, a).is_some() {
                    let (host, t) = (String::new(), self.now);
                    self.emit(Event::Unbound { a, why, t, host });
                    self.core.needs_pass = true;
                } else {
                    self.part_refused(host, a, why);
                }
            }
            Report::PartReady { a } => self.part_ready(host, a),
            Report::OrdersDamaged {
                epoch,
                part,
                seq,
                at,
                why,
            } => self.orders_damaged(host, epoch, (part, seq, at), why),
            Report::Suspended { a, t } => self.suspension(host, (a, run), true, t),
            Report::Resumed { a, t } => self.suspension(host, (a, run), false, t),
            Report::Usage { a, u } => {
                self.note_mentioned(host, a);
                // Shown at once, journalled only with the end: a lost sample costs nothing.
                match self.bound(host, a).is_some() {
                    true => self.core.state.apply(&Event::Used { a, u }),
                    false => self.note_stray(host, a, run),
                }
            }
        }
    }

    fn started(&mut self, host: &str, (a, run): (AttemptId, RunId), pid: u32, t: Stamp) {
        self.note_mentioned(host, a);
        let Some(bound) = self.bound(host, a).and_then(|w| w.run.as_deref()) else {
            return self.note_stray(host, a, run);
        };
        let known = bound.start != Stamp(0);
        self.clear_backoff(host);
        if known {
            return;
        }
        // Only running work grows.
        let spec = self.core.state.spec_of(a.j.id);
        if spec.is_some_and(|spec| spec.max > spec.min) {
            self.core.needs_pass = true;
        }
        self.emit(Event::Started { a, pid, t });
    }

    fn suspension(&mut self, host: &str, (a, of): (AttemptId, RunId), on: bool, t: i64) {
        self.note_mentioned(host, a);
        let Some(run) = self.bound(host, a).and_then(|w| w.run.as_deref()) else {
            return self.note_stray(host, a, of);
        };
        if (run.stopped_at != Stamp(0)) != on {
            self.emit(Event::Suspended { a, on, t: Stamp(t) });
            self.core.needs_pass = true;
        }
        self.correct_suspension(a.j, on);
    }

    fn note_mentioned(&mut self, host: &str, a: AttemptId) {
        if let Some(set) = self.core.mentioned.get_mut(host) {
            set.insert(a);
        }
    }

    /// The work whose current attempt is `a` and runs on `host`: only that host may speak of it.
    fn bound(&self, host: &str, a: AttemptId) -> Option<&Work> {
        let state = &self.core.state;
        let work = state.work(a.j)?;
        let run = work.run.as_deref()?;
        let first = run.hosts.first().map(|(id, _)| state.host_name(*id));
        let here = first.is_some_and(|name| name.as_ref() == host);
        (here && work.attempt == a.at && work.stat.is_started()).then_some(work)
    }

    /// `sure`: nothing of the attempt runs any more, by the word of its host or an administrator.
    fn ended(&mut self, mut e: Ended, sure: bool) {
        e.known = self.now.0;
        let (requeue, hold) = self.fate(&e, sure);
        self.emit(Event::Ended {
            e: Box::new(e),
            requeue,
            hold,
        });
        self.core.needs_pass = true;
    }

    /// Whether the job goes back to pending (held) after this end.
    fn fate(&mut self, e: &Ended, sure: bool) -> (bool, bool) {
        let state = &self.core.state;
        let Some(work) = state.work(e.a.j) else {
            return (false, false);
        };
        let old = work.run.as_ref().is_some_and(|run| run.copied);
        match work.run.as_ref().and_then(|run| run.killing) {
            Some(SignalAct::Kill(_)) => return (false, false),
            Some(SignalAct::Requeue { hold, why }) => {
                // It had succeeded before the order reached it: only a person may have it again.
                let well = e.reason == TermReason::None && e.code == Some(0);
                if !well || why == TermReason::None {
                    return (true, hold || old);
                }
            }
            _ => {}
        }
        if e.elsewhere {
            return (self.may_retry_start(e.a.j), old);
        }
        if e.no_account {
            // Its user was removed, or is not everywhere yet: whoever knows lets it go again.
            return (true, true);
        }
        let state = &self.core.state;
        let Some(spec) = state.spec_of(e.a.j.id) else {
            return (false, false);
        };
        let lost = matches!(
            e.reason,
            TermReason::HostLost | TermReason::ShepherdLost | TermReason::Fenced
        );
        if lost {
            let again = spec.rerunnable && (sure || self.may_run_elsewhere(e.a.j));
            return (again, old);
        }
        let Some(queue) = self.core.config.queue(&spec.queue) else {
            return (false, false);
        };
        let Some(code) = e.code.and_then(|c| u8::try_from(c).ok()) else {
            return (false, false);
        };
        let again = queue.requeue.puts_back(code);
        let tries_left = queue.max_requeue.is_none_or(|max| work.attempt <= max);
        (again && e.reason == TermReason::None && tries_left, old)
    }

    /// The host has said all it knows: attempts that ran there and that it no longer knows are
    /// lost.
    fn complete(&mut self, host: &str, boot: &str) {
        let known = self.core.mentioned.remove(host).unwrap_or_default();
        let ctl = self.core.state.host_ctl(host);
        if ctl.boot != boot {
            // The first word of a host that is new to the journal is no restart.
            if !ctl.boot.is_empty() {
                self.lose_parts(host, false);
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
            let started = self
                .bound(host, a)
                .and_then(|w| w.run.as_ref())
                .map(|run| run.start);
            if started.is_some_and(|t| t != Stamp(0)) && !known.contains(&a) {
                self.end_as_lost(
                    a,
                    TermReason::HostLost,
                    false,
                    "its host no longer knows it",
                );
            }
        }
        if let Some((id, kept)) = self.core.ledgers.remove(host)
            && ctl.ledger != id
        {
            self.new_ledger(host, id, kept, &ctl, &known);
        }
    }

    /// A host remembers by another ledger. It will not follow what was ordered before, and whether
    /// an earlier ledger's owner did, nobody can tell any more.
    fn new_ledger(
        &mut self,
        host: &str,
        id: String,
        kept: bool,
        ctl: &HostCtl,
        known: &BTreeSet<AttemptId>,
    ) {
        // Nobody who never spoke has started anything: a start needs a ledger that we know.
        let first = ctl.ledger.is_empty() && ctl.boot.is_empty();
        for a in self.attempts_on(host) {
            let ordered = self
                .bound(host, a)
                .and_then(|w| w.run.as_ref())
                .is_some_and(|run| run.start == Stamp(0) && !run.gathering);
            if kept || !ordered || known.contains(&a) {
                continue;
            }
            if first {
                let why = "its host had not reported yet".to_owned();
                let (host, t) = (String::new(), self.now);
                self.emit(Event::Unbound { a, why, t, host });
                self.core.needs_pass = true;
            } else {
                let text = "its host lost its memory before it said whether the job was started";
                self.end_as_lost(a, TermReason::HostLost, false, text);
            }
        }
        let (name, t) = (host.to_owned(), self.now);
        let ledger = id.clone();
        self.emit(Event::HostLedger { name, id, t });
        let order = Order::Ledger { id: ledger };
        self.out.orders.push((host.to_owned(), order));
        self.reevaluate_load(host);
    }

    /// Attempts whose first host is `host`.
    pub(super) fn attempts_on(&self, host: &str) -> Vec<AttemptId> {
        let state = &self.core.state;
        let keys: Vec<JobKey> = state.on_host(host).map(|(j, _)| j).collect();
        keys.into_iter()
            .filter_map(|j| {
                Some(AttemptId {
                    j,
                    at: state.work(j)?.attempt,
                })
            })
            .filter(|a| self.bound(host, *a).is_some())
            .collect()
    }

    /// Whether the work may be started elsewhere although nobody knows if its attempt still runs:
    /// its host ends by itself what was dispatched as rerunnable, and nothing else. What the job
    /// became since then counts for its next attempt, unless it is not to be run again at all.
    pub(super) fn may_run_elsewhere(&self, j: JobKey) -> bool {
        let state = &self.core.state;
        let run = state.work(j).and_then(|work| work.run.as_deref());
        let spec = state.spec_of(j.id);
        run.is_some_and(|run| run.rerunnable) && spec.is_some_and(|spec| spec.rerunnable)
    }

    /// Ends an attempt without a word of its host. `sure`: as in [`Turn::ended`].
    fn end_as_lost(&mut self, a: AttemptId, reason: TermReason, sure: bool, text: &str) {
        let Some(run) = self.core.state.work(a.j).and_then(|w| w.run.as_deref()) else {
            return;
        };
        // The order to start it stands in the file that its first host reads when it is back.
        if let Some((id, _)) = run.hosts.first() {
            let host = self.core.state.host_name(*id).to_string();
            self.out.orders.push((host, Order::Cancel { a }));
        }
        let e = Ended {
            a,
            start: run.start.0,
            t: self.now.0,
            reason,
            text: text.to_owned(),
            u: run.usage().clone(),
            ..Ended::default()
        };
        self.ended(e, sure);
    }

    /// A load sample, and what its age means.
    pub(super) fn load(&mut self, host: &str, mut doc: LoadDoc, silent_ms: u64) {
        // A host that cb.yaml no longer names is judged until the last work there has ended.
        let member = self.core.config.host(host).is_some();
        if !member && self.core.state.on_host(host).next().is_none() {
            return;
        }
        self.exclude_from_dispatch(host, &mut doc);
        self.order_iso_timeout(host, &doc, silent_ms);
        match silent_ms > SILENT_MS {
            true => self.core.silent.insert(host.to_owned()),
            false => self.core.silent.remove(host),
        };
        let up = silent_ms < SILENT_MS && !doc.boot.is_empty();
        self.take_sensors(host, &mut doc, up);
        let before = self.core.seen.get(host).is_some_and(|(d, _)| d.executor);
        if before && !doc.executor {
            // Nobody there will prepare a part. What was started needs no executor.
            self.cancel_preparing_on(host, "runs no executor");
        }
        let ctl = self.core.state.host_ctl(host);
        if ctl.up != up {
            let (name, boot, t) = (host.to_owned(), String::new(), self.now);
            self.emit(Event::HostSeen { name, up, boot, t });
            self.core.needs_pass = true;
            if !up && !self.core.state.is_old() {
                self.cancel_unstarted(host);
                self.cancel_preparing_on(host, "does not answer");
            }
        }
        let core = &mut *self.core;
        if !member {
            core.seen.insert(host.to_owned(), (doc, silent_ms));
            return;
        }
        if core.hosts.sample(&core.state, host, &doc, silent_ms) {
            core.needs_pass = true;
            core.seen.insert(host.to_owned(), (doc, silent_ms));
        } else {
            core.seen.insert(host.to_owned(), (doc, silent_ms));
            self.hosts_changed();
        }
    }

    /// Asks a silent host never to start what it has not reported as started.
    fn cancel_unstarted(&mut self, host: &str) {
        for a in self.attempts_on(host) {
            let not_started = self
                .bound(host, a)
                .and_then(|w| w.run.as_ref())
                .is_some_and(|run| run.start == Stamp(0) && !run.gathering);
            if not_started {
                self.out.orders.push((host.to_owned(), Order::Cancel { a }));
            }
        }
    }

    /// Orders `iso_timeout` from a host that goes by another one.
    fn order_iso_timeout(&mut self, host: &str, doc: &LoadDoc, silent_ms: u64) {
        let limit = self.core.config.general.iso_timeout_ms;
        // Where there never was a limit none is needed.
        if doc.iso_ms.map_or(limit == 0, |reported| reported == limit) {
            self.core.limits.remove(host);
            return;
        }
        let listens = doc.executor && silent_ms < SILENT_MS && !self.core.state.is_old();
        if listens && self.core.limits.get(host) != Some(&limit) {
            self.core.limits.insert(host.to_owned(), limit);
            let order = Order::Limit { iso_ms: limit };
            self.out.orders.push((host.to_owned(), order));
        }
    }

    /// Rerunnable work of a host that must have fenced itself by now goes back to pending. A host
    /// goes by the limit that its last load names, or by a shorter one, whatever cb.yaml says by
    /// now: one that is cut off cannot learn another.
    pub(super) fn fence_silent_hosts(&mut self) {
        let core = &*self.core;
        let overdue = |host: &&String| {
            let Some((doc, silent_ms)) = core.seen.get(*host) else {
                return false;
            };
            // A host that this leader has not heard yet counts as silent for `SILENT_MS` at first.
            let after = |limit: u64| limit.saturating_add(FENCE_MARGIN_MS).max(SILENT_MS);
            let limit = doc.iso_ms.filter(|limit| *limit > 0);
            limit.is_some_and(|limit| *silent_ms > after(limit))
        };
        let silent: Vec<String> = core.silent.iter().filter(overdue).cloned().collect();
        for host in silent {
            for a in self.attempts_on(&host) {
                if self.may_run_elsewhere(a.j) {
                    let text = "its host was cut off from the share";
                    self.end_as_lost(a, TermReason::Fenced, false, text);
                }
            }
            self.lose_parts(&host, true);
        }
    }

    /// Ends everything that ran on a host an administrator declared dead.
    pub(super) fn lose_all_on(&mut self, host: &str) -> usize {
        self.cancel_preparing_on(host, "is lost");
        self.drop_strays(host);
        let attempts = self.attempts_on(host);
        for a in &attempts {
            self.end_as_lost(
                *a,
                TermReason::HostLost,
                true,
                "an administrator confirmed that its host is lost",
            );
        }
        attempts.len() + self.lose_parts(host, false)
    }
}
