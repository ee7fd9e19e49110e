//! `cbexe`'s table of attempts: given, running, over; reported and acknowledged.
//!
//! Values only, no files. An attempt leaves the table when its end was acknowledged *and* the
//! orders that named it are no longer read, because a start that is read twice must be recognized.

use super::unit_names::{OwnUnits, names_of};
use crate::model::{AttemptId, Binding, Share, TermReason, UnitCheck};
use crate::record::order::{Act, Order, StartOrder, TaskUnits};
use crate::record::report::{Ended, Report, RunId, Usage};
use crate::task::spec::{TaskAct, TaskLimits};
use std::collections::{BTreeMap, BTreeSet};

/// A shepherd according to its start record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Shepherd {
    pub pid: i32,
    /// When it began, in ms of the boot-time clock.
    pub started_ms: u64,
    pub boot: String,
    /// Its control group, empty = none.
    pub group: String,
    /// Wall clock of the start, ms.
    pub t: i64,
    /// Number of the tasks log it writes to.
    pub log: u64,
}

/// An ordered act: kind, reason, grace in ms, number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PendingAction {
    pub act: TaskAct,
    pub reason: TermReason,
    pub grace_ms: u64,
    pub number: u32,
}

impl PendingAction {
    /// The act of an order on a running attempt, with the mark that the order names.
    pub(super) fn of(order: &Order) -> Option<(AttemptId, PendingAction, u32)> {
        match *order {
            Order::Signal {
                a,
                act,
                reason,
                grace_ms,
                n: number,
                mark,
            } => {
                let act = task_act(act);
                let pending = PendingAction {
                    act,
                    reason,
                    grace_ms,
                    number,
                };
                Some((a, pending, mark))
            }
            Order::Warn {
                a,
                signal,
                n: number,
                mark,
                ..
            } if signal > 0 => {
                let (act, reason) = (TaskAct::Number(signal), TermReason::Preempt);
                let pending = PendingAction {
                    act,
                    reason,
                    grace_ms: 0,
                    number,
                };
                Some((a, pending, mark))
            }
            _ => None,
        }
    }
}

fn task_act(act: Act) -> TaskAct {
    match act {
        Act::Terminate => TaskAct::Terminate,
        Act::Kill => TaskAct::Kill,
        Act::Stop => TaskAct::Stop,
        Act::Resume => TaskAct::Resume,
        Act::Number(n) => TaskAct::Number(n),
        Act::Checkpoint(act) => TaskAct::Checkpoint(act),
    }
}

/// The state of an attempt.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Status {
    /// Durably given to this spawner (its log number); no start recorded yet.
    Sent(u64),
    Running(Shepherd),
    Ended(Box<Ended>),
    /// Not started, and never will be; with the reason.
    NeverStarts(String),
}

/// The resources of an attempt after slots were added.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resize {
    pub hosts: Vec<Share>,
    pub n: u32,
    pub units: TaskUnits,
}

/// Slots that an attempt got while it ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Resizes {
    /// Number of the last resize of which the job was notified.
    pub done: u32,
    /// A resize that is still to be sent, with its number.
    pub next: Option<Box<Resize>>,
    /// The job has a command to run after resizes.
    pub notify: bool,
}

/// The limits of an attempt, and their changes by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HeldLimits {
    /// Known only after this process has read the start order.
    pub limits: Option<Box<TaskLimits>>,
    /// The last change that is included in `limits`.
    pub last_change: u32,
    /// The last change that its shepherd was sent.
    pub last_sent: u32,
}

/// How an attempt was given to a spawner, as recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SpawnRecord {
    /// The boot of the host at that time; empty = not recorded.
    pub boot: String,
    /// Binding, if its queue binds jobs.
    pub binding: Option<Box<Binding>>,
    /// Units that it has here (`gpu 0`): no other attempt starts with one of them before this one
    /// is over.
    pub units: Vec<String>,
    /// It starts a task for each slot. Not recorded: the repeated order contains it.
    pub launched: bool,
    /// What happens if it uses units that it does not have. Not recorded either.
    pub check: UnitCheck,
    /// Other hosts have parts of it, too. Not recorded either.
    pub gang: bool,
}

impl SpawnRecord {
    pub(super) fn own_units(&self) -> OwnUnits<'_> {
        let (names, check) = (&self.units[..], self.check);
        OwnUnits { names, check }
    }
}

/// One attempt.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Entry {
    pub status: Status,
    /// Epoch and part of the orders that named it.
    pub named_by: (u64, u64),
    pub rerunnable: bool,
    /// The mark in its start order (`StartOrder::mark`); 0 = not known.
    pub mark: u32,
    /// The epoch whose orders named it first; 0 = not known.
    pub ordered: u64,
    pub limits: HeldLimits,
    pub grace_ms: u64,
    /// Highest number of an accepted signal.
    pub signals: u32,
    /// Acts to carry out once it runs.
    pub waiting: Vec<PendingAction>,
    pub resizes: Resizes,
    /// It was warned that it will be preempted, and the file with the warning exists.
    pub warned: bool,
    /// Suspended since (wall ms), as last recorded.
    pub suspended: Option<i64>,
    pub usage: Usage,
    /// Its final report was acknowledged.
    pub acked: bool,
    pub given: SpawnRecord,
}

impl Entry {
    /// Takes the units from a start order that is repeated: the ledger has only those of the first
    /// one, without those of resizes.
    pub(super) fn renew_units(&mut self, o: &StartOrder) {
        if o.resizes >= self.resizes.done.max(1) && self.resizes.next.is_none() && !self.is_final()
        {
            self.given.units = names_of(&o.units);
        }
    }

    pub(super) fn new(status: Status, named_by: (u64, u64), rerunnable: bool) -> Entry {
        Entry {
            status,
            named_by,
            rerunnable,
            mark: 0,
            ordered: named_by.0,
            limits: HeldLimits::default(),
            grace_ms: 10_000,
            signals: 0,
            waiting: Vec::new(),
            resizes: Resizes::default(),
            warned: false,
            suspended: None,
            usage: Usage::default(),
            acked: false,
            given: SpawnRecord::default(),
        }
    }

    /// Whether an order with this mark is for another run.
    pub(super) fn is_other_run(&self, mark: u32) -> bool {
        self.mark != 0 && mark != 0 && self.mark != mark
    }

    /// The id of the run for reports.
    pub(super) fn run(&self) -> RunId {
        let (mark, epoch) = (self.mark, self.ordered);
        RunId { mark, epoch }
    }

    /// Whether its state can no longer change.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.status, Status::Ended(_) | Status::NeverStarts(_))
    }

    /// The report that it was started by this shepherd.
    pub(super) fn started(&self, a: AttemptId, s: &Shepherd) -> Report {
        Report::Started {
            a,
            pid: u32::try_from(s.pid).unwrap_or(0),
            t: s.t,
            bind: self.given.binding.clone(),
        }
    }

    /// The reports that describe its complete current state.
    pub(super) fn reports(&self, a: AttemptId) -> Vec<Report> {
        match &self.status {
            Status::Sent(_) => Vec::new(),
            Status::NeverStarts(why) => vec![Report::Never {
                a,
                why: why.clone(),
            }],
            Status::Ended(e) => vec![Report::Ended(e.clone())],
            Status::Running(s) => {
                let mut out = vec![self.started(a, s)];
                match self.suspended {
                    Some(t) => out.push(Report::Suspended { a, t }),
                    // The report that it was resumed may have been lost with an earlier file.
                    None if self.signals > 0 => out.push(Report::Resumed { a, t: s.t }),
                    None => {}
                }
                if !self.usage.is_empty() {
                    out.push(Report::Usage {
                        a,
                        u: self.usage.clone(),
                    });
                }
                out
            }
        }
    }
}

/// All attempts that this host knows.
#[derive(Debug, Default)]
pub(super) struct Table {
    map: BTreeMap<AttemptId, Entry>,
    /// Attempts that are not final.
    live: BTreeSet<AttemptId>,
    /// Final reports in the current file that are not acknowledged: sequence number, attempt.
    waiting: BTreeMap<u64, AttemptId>,
    /// Highest job id that was ever in the table.
    highest_job_id: u32,
}

impl Table {
    pub(super) fn get(&self, a: AttemptId) -> Option<&Entry> {
        self.map.get(&a)
    }

    /// For changes other than of the status, which `set` makes.
    pub(super) fn get_mut(&mut self, a: AttemptId) -> Option<&mut Entry> {
        self.map.get_mut(&a)
    }

    pub(super) fn insert(&mut self, a: AttemptId, entry: Entry) {
        match entry.is_final() {
            true => self.live.remove(&a),
            false => self.live.insert(a),
        };
        self.highest_job_id = self.highest_job_id.max(a.j.id);
        self.map.insert(a, entry);
    }

    /// Changes the status of an attempt; a final status is not changed.
    pub(super) fn set(&mut self, a: AttemptId, status: Status) -> bool {
        let Some(e) = self.map.get_mut(&a).filter(|e| !e.is_final()) else {
            return false;
        };
        e.status = status;
        if e.is_final() {
            self.live.remove(&a);
        }
        true
    }

    /// Highest job id that was ever in the table.
    pub(super) fn highest_job_id(&self) -> u32 {
        self.highest_job_id
    }

    /// Notes a job id that was in the table before.
    pub(super) fn raise_top(&mut self, id: u32) {
        self.highest_job_id = self.highest_job_id.max(id);
    }

    /// Drops all acknowledgements: the leader's record of them is lost.
    pub(super) fn unacknowledge(&mut self) {
        self.map.values_mut().for_each(|e| e.acked = false);
    }

    /// Drops final attempts without a mark: an order for another run could not be distinguished
    /// from an order for them.
    pub(super) fn drop_unmarked(&mut self) {
        self.map.retain(|_, e| !e.is_final() || e.mark != 0);
        let map = &self.map;
        self.waiting.retain(|_, a| map.contains_key(a));
    }

    /// Removes an attempt that was never recorded.
    pub(super) fn remove(&mut self, a: AttemptId) {
        self.map.remove(&a);
        self.live.remove(&a);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (AttemptId, &Entry)> {
        self.map.iter().map(|(a, e)| (*a, e))
    }

    /// Attempts that are given or running.
    pub(super) fn live_attempts(&self) -> impl Iterator<Item = (AttemptId, &Entry)> {
        self.live
            .iter()
            .filter_map(|a| Some((*a, self.map.get(a)?)))
    }

    /// Running attempts with their shepherds.
    pub(super) fn running(&self) -> impl Iterator<Item = (AttemptId, &Shepherd)> {
        self.live_attempts().filter_map(|(a, e)| match &e.status {
            Status::Running(s) => Some((a, s)),
            _ => None,
        })
    }

    /// Notes the sequence number of an attempt's final report in the current file.
    pub(super) fn reported(&mut self, a: AttemptId, seq: u64) {
        if self.map.get(&a).is_some_and(|e| e.is_final() && !e.acked) {
            self.waiting.insert(seq, a);
        }
    }

    /// A new reports file begins: sequence numbers start over.
    pub(super) fn new_file(&mut self) {
        self.waiting.clear();
    }

    /// Notes that reports up to `seq` of the current file are journalled. Returns the attempts
    /// whose final report is among them.
    pub(super) fn acknowledge(&mut self, seq: u64) -> Vec<AttemptId> {
        let later = self.waiting.split_off(&seq.saturating_add(1));
        let done: Vec<AttemptId> = std::mem::replace(&mut self.waiting, later)
            .into_values()
            .collect();
        for a in &done {
            if let Some(e) = self.map.get_mut(a) {
                e.acked = true;
            }
        }
        done
    }

    /// Drops acknowledged attempts whose orders are no longer read.
    pub(super) fn forget(&mut self, now: (u64, u64)) -> usize {
        let before = self.map.len();
        self.map
            .retain(|_, e| !(e.acked && e.is_final() && e.named_by < now));
        before - self.map.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::first_attempt as a;

    #[test]
    fn an_acknowledgement_may_name_any_number() {
        let mut t = Table::default();
        t.insert(
            a(1),
            Entry::new(Status::Ended(Box::default()), (1, 1), false),
        );
        t.reported(a(1), 5);
        assert_eq!(t.acknowledge(u64::MAX), [a(1)]);
    }

    #[test]
    fn an_attempt_is_forgotten_only_when_acknowledged_and_unnamed() {
        let mut t = Table::default();
        for id in 1..=3 {
            let over = Status::Ended(Box::default());
            t.insert(a(id), Entry::new(over, (1, 1), false));
            t.reported(a(id), u64::from(id));
        }
        assert_eq!(t.acknowledge(2), [a(1), a(2)]);
        assert_eq!(t.acknowledge(2), []);
        assert_eq!(t.forget((1, 1)), 0);
        t.get_mut(a(2)).unwrap().named_by = (1, 2);
        assert_eq!((t.forget((1, 2)), t.iter().count()), (1, 2));
        assert!(t.get(a(1)).is_none());
    }

    #[test]
    fn a_share_that_went_back_is_told_everything_and_what_has_no_mark_is_meant_anew() {
        let mut t = Table::default();
        let over = Status::Ended(Box::default());
        t.insert(a(7), Entry::new(over, (1, 1), false));
        t.insert(a(9), Entry::new(Status::Sent(1), (1, 1), false));
        t.reported(a(7), 1);
        assert_eq!(t.acknowledge(1), [a(7)]);
        t.unacknowledge();
        assert!(!t.get(a(7)).unwrap().acked);
        let mut marked = Entry::new(Status::Ended(Box::default()), (1, 1), false);
        marked.mark = 5;
        t.insert(a(8), marked);
        t.drop_unmarked();
        assert!(t.get(a(7)).is_none() && t.get(a(8)).is_some() && t.get(a(9)).is_some());
        assert_eq!(t.highest_job_id(), 9);
        t.raise_top(12);
        assert_eq!(t.highest_job_id(), 12);
    }

    #[test]
    fn running_attempts_are_not_acknowledged_away() {
        let mut t = Table::default();
        t.insert(a(1), Entry::new(Status::Sent(1), (1, 1), false));
        t.reported(a(1), 1);
        assert_eq!(t.acknowledge(9), []);
        assert_eq!(t.live_attempts().count(), 1);
        assert!(t.set(a(1), Status::Ended(Box::default())));
        assert!(!t.set(a(1), Status::NeverStarts(String::new())));
        assert_eq!(t.live_attempts().count(), 0);
    }
}
