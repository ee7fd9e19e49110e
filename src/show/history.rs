//! The history of jobs, from journal events: time spent in each state, and the times of events.
//!
//! Owns the conversion of events to histories. The rules are those of the leader's state, reduced
//! to what `chist` shows. Never reads a journal and never decides what is printed.

pub(crate) mod page;
pub(crate) mod range;

use super::event::with_units;
use crate::model::{
    AttemptId, Binding, JobKey, JobStat, PendReason, Share, Spec, Stamp, TermReason, Units,
};
use crate::record::event::{Event, SignalAct, Submitted};
use crate::record::message::JobMessage;
use crate::record::report::{Ended, PartUse};
use crate::record::view::JobRow;
use crate::text::indexset::{IndexSet, MAX_INDEX};
use crate::text::width::escape;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

/// States with their own column.
pub(crate) const COLUMNS: [JobStat; 6] = [
    JobStat::Pend,
    JobStat::Psusp,
    JobStat::Run,
    JobStat::Ususp,
    JobStat::Ssusp,
    JobStat::Unkwn,
];

/// Milliseconds spent in each state of [`COLUMNS`].
pub(crate) type TimeInStates = [u64; COLUMNS.len()];

/// The state of a job over time.
#[derive(Clone, Debug, Default)]
struct StateTimes {
    stat: JobStat,
    /// When it entered `stat`.
    since: i64,
    spent: TimeInStates,
}

impl StateTimes {
    fn set(&mut self, stat: JobStat, t: i64) {
        self.spent = self.times_until(t);
        (self.stat, self.since) = (stat, self.since.max(t));
    }

    /// The times until `t`, including the current state.
    fn times_until(&self, t: i64) -> TimeInStates {
        let mut spent = self.spent;
        if let Some(n) = COLUMNS.iter().position(|s| *s == self.stat) {
            spent[n] += Stamp(t).since_ms(Stamp(self.since));
        }
        spent
    }
}

/// The history of one job or element.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobHistory {
    track: StateTimes,
    attempt: u32,
    pub hosts: Vec<Share>,
    killing: Option<SignalAct>,
    user_stop: bool,
    /// The state before its host became silent.
    before_lost: JobStat,
    /// Its end, for JSON and selection.
    pub end: Option<Ended>,
    pub dispatch: i64,
    /// Events that concern it alone, oldest first.
    lines: Vec<(i64, String)>,
    /// Number of lines of its array that belong to it as well.
    of_array: usize,
}

/// The history of a submitted job or array.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubmissionHistory {
    pub id: u32,
    pub submit: i64,
    pub spec: Option<Arc<Spec>>,
    spec_number: u32,
    pub name: String,
    pub command: String,
    /// All indices; `None` for a single job.
    pub indices: Option<IndexSet>,
    /// The history of the job, or of the elements of an array that have not started yet.
    head: JobHistory,
    /// Histories of the elements with events of their own.
    elements: BTreeMap<u32, JobHistory>,
}

/// The histories of all jobs that the events name.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    specs: HashMap<u32, Arc<Spec>>,
    pub by_job: BTreeMap<u32, SubmissionHistory>,
    /// Jobs that are on hosts now, for hosts that become silent.
    started: BTreeSet<JobKey>,
    /// Whether lines are kept.
    detail: bool,
}

impl Histories {
    /// `detail`: also keeps events as sentences.
    pub(crate) fn new(detail: bool) -> Histories {
        Histories {
            detail,
            ..Histories::default()
        }
    }

    /// Applies the next event.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Spec { id, spec } => {
                self.specs.insert(*id, Arc::from(spec.clone()));
            }
            Event::Submitted(s) => self.submitted(s),
            Event::Dispatched {
                a,
                t,
                hosts,
                forced,
                units,
                ..
            } => self.dispatched(*a, t.0, (hosts, units), *forced),
            Event::Resized { a, hosts, units, t } => self.resized(*a, (hosts, units), t.0),
            Event::Halted { j, why, t } => {
                let line = || format!("Stop by the system: {why}");
                self.change(*j, t.0, line, |_, _| {});
            }
            Event::Warned { j, at, t, .. } => self.warned(*j, *at, *t),
            Event::Unhalted { j, t } => {
                self.change(*j, t.0, || "Resume by the system".to_owned(), |_, _| {});
            }
            Event::Started { a, pid, t, bind } => self.started(*a, (*pid, bind), t.0),
            Event::PartBound { .. } | Event::PartUsed { .. } => self.record_part(event),
            Event::Ended { e, requeue, hold } => self.ended(e, *requeue, *hold),
            Event::Unbound { a, why, t, host } => self.unbound(*a, why, t.0, host),
            Event::Signalled { j, act, by, t } => self.signalled(*j, *act, by, t.0),
            Event::Cancelled { j, by, reason, t } => self.cancelled(*j, by, *reason, t.0),
            Event::Held { j, held, by, t, .. } => self.held(*j, *held, by, t.0),
            Event::Suspended { a, on, t } => self.suspended(*a, *on, t.0),
            Event::Checkpointed { a, why, t } => self.checkpointed(a.j, why, t.0),
            Event::Requeued { j, hold, by, t } => self.requeued(*j, *hold, by, t.0),
            Event::Changed { j, s, by, what, t } => self.changed(*j, *s, by, what, t.0),
            Event::Renamed {
                j,
                name,
                command,
                by,
                t,
                ..
            } => self.renamed(*j, name.as_deref(), command.as_deref(), by, t.0),
            Event::Moved { j, by, t, .. } => self.moved(*j, t.0, by),
            Event::Posted { j, message } => self.posted(*j, message),
            Event::Why { j, why, t } => self.pending_reason(*j, why, t.0),
            Event::HostSeen { name, up, t, .. } => self.record_host(name, *up, t.0),
            Event::Epoch { .. }
            | Event::Seal { .. }
            | Event::Handled { .. }
            | Event::PartHandled { .. }
            | Event::Queue { .. }
            | Event::Host { .. }
            | Event::HostLedger { .. }
            | Event::HostReports { .. }
            | Event::Config { .. }
            | Event::WentBack { .. }
            | Event::Restored { .. }
            | Event::Used { .. }
            | Event::Gathered { .. }
            | Event::Shares { .. }
            | Event::CronDefined { .. }
            | Event::CronSwitched { .. }
            | Event::CronRemoved { .. }
            | Event::CronSkipped { .. }
            | Event::JobGroupDefined { .. }
            | Event::JobGroupRemoved { .. }
            | Event::AlertSilenced { .. }
            | Event::Cleaned { .. } => {}
        }
    }

    fn warned(&mut self, j: JobKey, at: Stamp, t: Stamp) {
        let line = || match at.0 {
            0 => "Warning taken back: will not be preempted".to_owned(),
            _ => {
                let s = at.since_ms(t).div_ceil(1000);
                format!("Warned: will be preempted in {s} seconds")
            }
        };
        self.change(j, t.0, line, |_, _| {});
    }

    fn submitted(&mut self, s: &Submitted) {
        let stat = if s.hold {
            JobStat::Psusp
        } else {
            JobStat::Pend
        };
        let name = if s.name.is_empty() {
            &s.command
        } else {
            &s.name
        };
        let mut submission = SubmissionHistory {
            id: s.id,
            submit: s.t.0,
            spec: self.specs.get(&s.s).cloned(),
            spec_number: s.s,
            name: name.clone(),
            command: s.command.clone(),
            indices: if s.array.is_empty() {
                None
            } else {
                IndexSet::parse(&s.array, 1, MAX_INDEX).ok()
            },
            ..SubmissionHistory::default()
        };
        submission.head.track = StateTimes {
            stat,
            since: s.t.0,
            ..StateTimes::default()
        };
        // Ids are reused after a long time: the new job replaces the old one.
        self.by_job.insert(s.id, submission);
    }

    /// The history of `j`. The first event of an element creates it from that of its array. For a
    /// job whose submission is no longer kept, it begins here.
    fn past(&mut self, j: JobKey, t: i64) -> &mut JobHistory {
        let submission = self
            .by_job
            .entry(j.id)
            .or_insert_with(|| SubmissionHistory {
                id: j.id,
                ..SubmissionHistory::default()
            });
        if submission.head.track.since == 0 {
            submission.head.track.since = t;
        }
        if j.idx == 0 {
            return &mut submission.head;
        }
        let head = &submission.head;
        submission
            .elements
            .entry(j.idx)
            .or_insert_with(|| JobHistory {
                track: head.track.clone(),
                of_array: head.lines.len(),
                ..JobHistory::default()
            })
    }

    /// Changes the history of `j` and notes a line.
    fn change(
        &mut self,
        j: JobKey,
        t: i64,
        line: impl FnOnce() -> String,
        how: impl FnOnce(&mut JobHistory, i64),
    ) {
        let detail = self.detail;
        let past = self.past(j, t);
        how(past, t);
        if detail {
            past.lines.push((t, line()));
        }
    }

    fn started(&mut self, a: AttemptId, (pid, bind): (u32, &Option<Box<Binding>>), t: i64) {
        let line = || {
            let bound: String = bind.iter().map(|bind| format!("; {bind}")).collect();
            format!("Starting (Pid {pid})") + &bound
        };
        self.change(a.j, t, line, |_, _| {});
    }

    fn dispatched(
        &mut self,
        a: AttemptId,
        t: i64,
        (hosts, units): (&[Share], &[Units]),
        forced: bool,
    ) {
        let line = || {
            let slots: u32 = hosts.iter().map(|h| h.1).sum();
            let mut s = format!("Dispatched {slots} Slot(s) on Host(s)");
            for host in hosts {
                write!(s, " <{host}>").expect("a string takes every write");
            }
            if forced {
                s.push_str(" by force");
            }
            s.push_str(&with_units(units));
            if a.at > 1 {
                write!(s, ", attempt {}", a.at).expect("a string takes every write");
            }
            s
        };
        self.change(a.j, t, line, |past, t| {
            past.track.set(JobStat::Run, t);
            past.attempt = a.at;
            past.hosts = hosts.to_vec();
            past.dispatch = t;
            (past.killing, past.user_stop, past.end) = (None, false, None);
        });
        self.started.insert(a.j);
    }

    fn resized(&mut self, a: AttemptId, (hosts, units): (&[Share], &[Units]), t: i64) {
        let line = || {
            let slots: u32 = hosts.iter().map(|h| h.1).sum();
            let mut s = format!("Added {slots} Slot(s) on Host(s)");
            for host in hosts {
                write!(s, " <{host}>").expect("a string takes every write");
            }
            s.push_str(&with_units(units));
            s
        };
        self.change(a.j, t, line, |past, _| past.hosts.extend_from_slice(hosts));
    }

    fn ended(&mut self, e: &Ended, requeue: bool, hold: bool) {
        let past = self.past(e.a.j, e.t);
        if e.a.at < past.attempt || past.track.stat.is_finished() {
            return;
        }
        let ok = e.is_success();
        let stat = match (requeue, hold, ok) {
            (true, true, _) => JobStat::Psusp,
            (true, false, _) => JobStat::Pend,
            (false, _, true) => JobStat::Done,
            (false, _, false) => JobStat::Exit,
        };
        let line = || page::ending(e, requeue, hold);
        self.change(e.a.j, e.t, line, |past, t| {
            past.track.set(stat, t);
            past.attempt = e.a.at;
            past.killing = None;
            past.end = Some(e.clone());
        });
        self.started.remove(&e.a.j);
    }

    /// Applies an event of a host after the first.
    fn record_part(&mut self, event: &Event) {
        match event {
            Event::PartBound { a, part, t } => {
                let line = || format!("Host <{}>: {}", part.host, part.bind);
                self.change(a.j, t.0, line, |_, _| {});
            }
            Event::PartUsed { a, part, t } => self.add_late_usage(*a, part, t.0),
            _ => {}
        }
    }

    /// Adds the usage that a host after the first reported when the attempt had ended.
    fn add_late_usage(&mut self, a: AttemptId, part: &PartUse, t: i64) {
        let line = || {
            let seconds = part.u.cpu_ms / 1000;
            format!("Host <{}> had used {seconds} seconds of CPU", part.host)
        };
        self.change(a.j, t, line, |past, _| {
            let end = past.end.as_mut().filter(|end| end.a == a);
            if let Some(end) = end {
                end.u.add_late_usage(&mut end.parts, part);
            }
        });
    }

    fn unbound(&mut self, a: AttemptId, why: &str, t: i64, at: &str) {
        let first = self.past(a.j, t).hosts.first().map(|h| h.0.clone());
        let host = match at {
            "" => first.unwrap_or_default(),
            at => at.to_owned(),
        };
        let line = || format!("Host <{host}> did not start it: {why}");
        self.change(a.j, t, line, |past, t| match past.killing.take() {
            Some(SignalAct::Kill(reason)) => past.finish(a, reason, why, t),
            Some(SignalAct::Requeue { hold: true, .. }) => past.track.set(JobStat::Psusp, t),
            _ => past.track.set(JobStat::Pend, t),
        });
        self.started.remove(&a.j);
    }

    fn signalled(&mut self, j: JobKey, act: SignalAct, by: &str, t: i64) {
        let line = || match act {
            SignalAct::Kill(reason) => {
                format!("Kill requested by <{by}>; {}", page::reason_words(reason))
            }
            SignalAct::Migrate { .. }
            | SignalAct::Requeue {
                why: TermReason::Migrate,
                ..
            } => format!("Migration requested by <{by}>"),
            SignalAct::Requeue { why, .. } if why != TermReason::None => {
                format!("Requeue by the system; {}", page::reason_words(why))
            }
            SignalAct::Requeue { .. } => format!("Requeue requested by <{by}>"),
            SignalAct::Stop => format!("Stop requested by <{by}>"),
            SignalAct::Resume => format!("Resume requested by <{by}>"),
            SignalAct::Number(n) => format!("Signal <{n}> requested by <{by}>"),
            SignalAct::Checkpoint { kill: false } => format!("Checkpoint requested by <{by}>"),
            SignalAct::Checkpoint { kill: true } => {
                format!("Checkpoint and kill requested by <{by}>")
            }
        };
        self.change(j, t, line, |past, _| match act {
            SignalAct::Kill(_) => past.killing = Some(act),
            SignalAct::Requeue { .. } if past.killing.is_none() => past.killing = Some(act),
            SignalAct::Stop => past.user_stop = true,
            SignalAct::Resume => past.user_stop = false,
            SignalAct::Requeue { .. }
            | SignalAct::Migrate { .. }
            | SignalAct::Number(_)
            | SignalAct::Checkpoint { .. } => {}
        });
    }

    fn cancelled(&mut self, j: JobKey, by: &str, reason: TermReason, t: i64) {
        let line = || {
            let who = if by.is_empty() {
                String::new()
            } else {
                format!(" by <{by}>")
            };
            format!(
                "Ended before its start{who}; {}",
                page::reason_words(reason)
            )
        };
        let a = AttemptId { j, at: 0 };
        self.change(j, t, line, |past, t| past.finish(a, reason, "", t));
    }

    fn held(&mut self, j: JobKey, held: bool, by: &str, t: i64) {
        let line = || {
            if held {
                format!("Held before its start by <{by}>")
            } else {
                format!("Released by <{by}>")
            }
        };
        self.change(j, t, line, |past, t| {
            if past.track.stat.is_waiting() {
                let stat = if held { JobStat::Psusp } else { JobStat::Pend };
                past.track.set(stat, t);
            }
        });
    }

    fn checkpointed(&mut self, j: JobKey, why: &str, t: i64) {
        let line = || match why {
            "" => "Checkpoint made".to_owned(),
            why => format!("Checkpoint failed: {}", escape(why)),
        };
        self.change(j, t, line, |_, _| {});
    }

    fn suspended(&mut self, a: AttemptId, on: bool, t: i64) {
        let by_user = self.past(a.j, t).user_stop;
        let line = || match (on, by_user) {
            (true, true) => "Suspended by its owner or an administrator".to_owned(),
            (true, false) => "Suspended by the system".to_owned(),
            (false, _) => "Running again".to_owned(),
        };
        self.change(a.j, t, line, |past, t| {
            if past.track.stat.is_started() {
                let stat = match (on, by_user) {
                    (true, true) => JobStat::Ususp,
                    (true, false) => JobStat::Ssusp,
                    (false, _) => JobStat::Run,
                };
                past.track.set(stat, t);
            }
        });
    }

    fn requeued(&mut self, j: JobKey, hold: bool, by: &str, t: i64) {
        let line = || format!("Requeued by <{by}>{}", if hold { " and held" } else { "" });
        self.change(j, t, line, |past, t| {
            if past.track.stat.is_finished() {
                let stat = if hold { JobStat::Psusp } else { JobStat::Pend };
                past.track.set(stat, t);
            }
        });
    }

    fn changed(&mut self, j: JobKey, s: u32, by: &str, what: &str, t: i64) {
        let spec = self.specs.get(&s).cloned();
        self.change(j, t, || format!("Changed by <{by}>: {what}"), |_, _| {});
        if let (Some(submission), Some(spec)) = (self.by_job.get_mut(&j.id), spec) {
            (submission.spec, submission.spec_number) = (Some(spec), s);
        }
    }

    fn renamed(&mut self, j: JobKey, name: Option<&str>, command: Option<&str>, by: &str, t: i64) {
        let line = || {
            let mut s = format!("Changed by <{by}>");
            for (title, value) in [("Job Name", name), ("Command", command)] {
                if let Some(value) = value {
                    write!(s, ", {title} <{value}>").expect("a string takes every write");
                }
            }
            s
        };
        self.change(JobKey::job(j.id), t, line, |_, _| {});
        if let Some(submission) = self.by_job.get_mut(&j.id) {
            if let Some(name) = name {
                submission.name = name.to_owned();
            }
            if let Some(command) = command {
                submission.command = command.to_owned();
            }
        }
    }

    fn moved(&mut self, j: JobKey, t: i64, by: &str) {
        let text = || format!("Moved in the pending order by <{by}>");
        self.change(j, t, text, |_, _| {});
    }

    /// In the words of LSF.
    fn posted(&mut self, j: JobKey, message: &JobMessage) {
        let JobMessage { index, by, t, text } = message;
        let line = || {
            format!("External Message \"{text}\" was posted from \"{by}\" to message box {index}")
        };
        self.change(j, t.0, line, |_, _| {});
    }

    fn pending_reason(&mut self, j: JobKey, why: &PendReason, t: i64) {
        self.change(j, t, || format!("Pending: {why}"), |_, _| {});
    }

    fn record_host(&mut self, name: &str, up: bool, t: i64) {
        let on_it = |past: &JobHistory| past.hosts.iter().any(|h| h.0 == name);
        let keys: Vec<JobKey> = self.started.iter().copied().collect();
        for j in keys {
            let past = self.past(j, t);
            let was = past.track.stat;
            let change = if up {
                was == JobStat::Unkwn
            } else {
                was != JobStat::Unkwn
            };
            if !change || !on_it(past) {
                continue;
            }
            let stat = if up { past.before_lost } else { JobStat::Unkwn };
            past.before_lost = was;
            let line = || {
                if up {
                    format!("Host <{name}> answers again")
                } else {
                    format!("Host <{name}> does not answer")
                }
            };
            self.change(j, t, line, |past, t| past.track.set(stat, t));
        }
    }

    /// Jobs whose submission or specification is missing in the kept events.
    pub(crate) fn incomplete(&self) -> Vec<u32> {
        let lacks = |s: &&SubmissionHistory| s.submit == 0 || s.spec.is_none();
        self.by_job.values().filter(lacks).map(|s| s.id).collect()
    }

    /// Completes a job or array with data that only the view still has.
    pub(crate) fn complete(&mut self, row: &JobRow<'_>, spec: &Arc<Spec>) {
        let Some(submission) = self.by_job.get_mut(&row.j.id).filter(|_| row.j.idx == 0) else {
            return;
        };
        submission.spec.get_or_insert_with(|| spec.clone());
        if submission.submit == 0 {
            submission.submit = row.submit;
            submission.command = row.command.clone().into_owned();
            let name = if row.name.is_empty() {
                &row.command
            } else {
                &row.name
            };
            submission.name = name.clone().into_owned();
            submission.indices = row
                .arr
                .as_ref()
                .and_then(|arr| IndexSet::parse(&arr.all, 1, MAX_INDEX).ok());
        }
    }
}

impl JobHistory {
    /// Ends a job that has never run.
    fn finish(&mut self, a: AttemptId, reason: TermReason, text: &str, t: i64) {
        if self.track.stat.is_finished() {
            return;
        }
        self.track.set(JobStat::Exit, t);
        self.end = Some(Ended {
            a,
            t,
            reason,
            text: text.to_owned(),
            ..Ended::default()
        });
    }
}

/// One job or element with its history, in the form that pages use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementHistory<'h> {
    pub key: JobKey,
    pub submission: &'h SubmissionHistory,
    pub history: &'h JobHistory,
}

impl SubmissionHistory {
    /// The job itself, or each of its elements by index.
    pub(crate) fn element_histories(&self) -> impl Iterator<Item = ElementHistory<'_>> {
        let single = self.indices.is_none() && self.elements.is_empty();
        let own = single.then(|| ElementHistory {
            key: JobKey::job(self.id),
            submission: self,
            history: &self.head,
        });
        let known: Vec<u32> = match &self.indices {
            Some(all) => all.iter().collect(),
            None => self.elements.keys().copied().collect(),
        };
        let elements = known.into_iter().map(|idx| ElementHistory {
            key: JobKey::element(self.id, idx),
            submission: self,
            history: self.elements.get(&idx).unwrap_or(&self.head),
        });
        own.into_iter().chain(elements)
    }
}

impl<'h> ElementHistory<'h> {
    pub(crate) fn stat(&self) -> JobStat {
        self.history.track.stat
    }

    /// Time spent in each state until `now` (ms).
    pub(crate) fn time_in_states(&self, now: i64) -> TimeInStates {
        self.history.track.times_until(now)
    }

    /// The time of the last change of state.
    pub(crate) fn since(&self) -> i64 {
        self.history.track.since
    }

    pub(crate) fn user(&self) -> &'h str {
        self.submission.spec.as_ref().map_or("-", |s| &s.user)
    }

    /// All events that concern it, oldest first, including those of its array.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &'h (i64, String)> {
        let head = &self.submission.head;
        let inherited = if std::ptr::eq(self.history, head) {
            0
        } else {
            self.history.of_array.min(head.lines.len())
        };
        head.lines[..inherited].iter().chain(&self.history.lines)
    }

    /// Whether it has events between two times.
    pub(crate) fn has_events_between(&self, from: i64, to: i64) -> bool {
        let submitted = (from..to).contains(&self.submission.submit);
        submitted
            || (from..to).contains(&self.since())
            || (from..to).contains(&self.history.dispatch)
            || self.lines().any(|(t, _)| (from..to).contains(t))
    }
}

#[cfg(test)]
mod tests;
