//! The executor's state and its turns: one thread owns everything here.
//!
//! The order of effects is fixed: an attempt is durably on record before it is given to the
//! spawner; an end is durable before it is reported; what is to be reported is written in groups.

use super::hints::Hints;
use super::ledger::{Ledger, ShareSeen};
use super::orders::OrderReader;
use super::parts::Parts;
use super::recovery;
use super::report_queue::UnreportedStarts;
use super::reports::Reporter;
use super::sample::{self, Snapshot};
use super::spawn::{How, Spawner, SpawnerEvent};
use super::starts::{Refused, Starter};
use super::table::{Entry, Pending, Shepherd, Status, Table};
use super::tasklogs::TaskLogs;
use crate::host::ls::write_beat;
use crate::host::setup::Place;
use crate::host::{iso_limit, silence};
use crate::model::{AttemptId, TermReason};
use crate::record::order::{Act, Order, StartOrder};
use crate::record::report::{Ended, Report, RunId};
use crate::sys::{clock, failpoint, proc, supervise};
use crate::task::ending;
use crate::task::log::AttemptRec;
use crate::task::spec::{FromSpawner, TaskAct, TaskSpec, ToSpawner, Unheld, pack_act};
use std::collections::{BTreeMap, BTreeSet};

/// Pause between two samples of usage, ms.
const SAMPLE_MS: u64 = 5_000;
/// Pause between two local beats, ms.
const BEAT_MS: u64 = 5_000;
/// Size of a tasks log at which the next one is begun.
const LOG_BYTES: u64 = 64 << 20;
/// Rounds of reading orders in one turn.
const ROUNDS: usize = 4;
/// The end of a run that the leader believes to be running here.
const FORGOTTEN: &str = "its host has lost the record of it";

/// Everything the executor knows.
pub struct Exec {
    pub place: Place,
    pub how: How,
    pub table: Table,
    pub parts: Parts,
    /// Attempts whose resizes came in this turn.
    pub resized: BTreeSet<AttemptId>,
    /// Runs that are never started here because another run has their id, with their marks.
    pub refused: BTreeMap<AttemptId, u32>,
    pub ledger: Ledger,
    pub logs: TaskLogs,
    pub orders: OrderReader,
    pub reports: Option<Reporter>,
    pub unreported_starts: UnreportedStarts,
    pub hints: Hints,
    /// File and length of the reports, as last published to `cbls`.
    pub news: (u64, u64),
    pub starter: Starter,
    pub spawner: Option<Spawner>,
    pub retired: Vec<Spawner>,
    /// Tasks on record that wait for the rest of the orders at hand: a later one may cancel them.
    pub held: Vec<TaskSpec>,
    /// A tasks log could not be read when a spawner was ready: what was on it is not settled.
    pub unrecovered: bool,
    /// Shepherds that ended while the tasks log with their records could not be read.
    pub died: Vec<(AttemptId, i32)>,
    pub note: String,
    /// Limits that samples must hold even of tasks in control groups.
    pub unheld: Unheld,
    /// The share is older than what this host has followed; logged once.
    pub went_back: Option<u64>,
    /// Final attempts are reported once more and then dropped: the share was replaced.
    pub forget_old: bool,
    /// An `iso_timeout` that the leader ordered and that is not saved yet.
    pub limit_order: Option<u64>,
    /// What is known of the share.
    pub share: ShareSeen,
    pub sampled_at: u64,
    pub beat_at: u64,
    /// Ends to be reported once they are durable.
    pub ends: bool,
    /// A reports file that could not be made is tried again then.
    pub reports_at: u64,
    /// When the present one was last looked for by its name (boot clock, ms).
    pub reports_checked: u64,
    /// How long the next one waits after the leader has called one damaged (ms), and when it last
    /// did.
    pub reports_pause: (u64, u64),
    /// The leader knows a reports file with this number.
    pub reports_above: u64,
    /// The last error of the share, so that it is logged once.
    pub said: String,
    /// Since when orders are for another ledger than this one; 0 = they are for this one.
    pub foreign_at: u64,
    /// The leader has addressed orders to this ledger.
    pub addressed: bool,
}

/// What one turn did, for the pace of the next.
#[derive(Debug, Default, Clone, Copy)]
pub struct Did {
    /// Something was read or written.
    pub work: bool,
    /// More orders wait.
    pub more: bool,
    /// Orders were read.
    pub orders: bool,
}

impl Exec {
    /// One turn. `look`: read the share's orders in it.
    pub fn turn(&mut self, look: bool) -> Did {
        let mut did = Did::default();
        self.hear();
        if self.spawner.is_none() {
            self.respawn();
        }
        did.work |= self.follow_tasks();
        if look && self.spawner.is_some() {
            match self.follow_orders() {
                Ok(d) => {
                    self.said.clear();
                    did.work |= d.work;
                    (did.more, did.orders) = (d.more, d.orders);
                }
                Err(e) if e == self.said => {}
                Err(e) => {
                    tracing::error!("{e}");
                    self.said = e;
                }
            }
        }
        let now = clock::boot_ms();
        if now.saturating_sub(self.sampled_at) >= SAMPLE_MS {
            self.sampled_at = now;
            self.sample(now);
        }
        self.report();
        if now.saturating_sub(self.beat_at) >= BEAT_MS {
            self.beat_at = now;
            self.beat(now);
            self.keep_house();
        }
        did
    }

    /// The local beat: time, epoch, highest job id, and a note for administrators.
    fn beat(&self, now: u64) {
        let (epoch, top) = (self.share.epoch, self.table.top());
        let back = match self.went_back {
            Some(here) => format!("the share went back from epoch {epoch} to {here}; "),
            None => String::new(),
        };
        let note = format!("{back}{}", self.note);
        let note = note.trim_end_matches("; ");
        let words = match &self.share.points {
            none if none.is_empty() => format!("{epoch} {top} {note}"),
            points => format!("{epoch} {top} {points} {note}"),
        };
        let text = format!("{now} {}", super::super::ls::checked(&words));
        write_beat(&self.place.local.exe_beat(), &text);
    }

    // ---- the spawner ----

    fn hear(&mut self) {
        while let Some(h) = self.spawner.as_ref().and_then(|s| s.heard.try_recv().ok()) {
            self.heard(Some(h));
        }
    }

    /// Handles a message of the spawner; `None`: its channel is closed.
    pub fn heard(&mut self, heard: Option<SpawnerEvent>) {
        match heard {
            Some(SpawnerEvent::Message(FromSpawner::Died { a, pid })) => {
                self.follow_tasks();
                self.lost(a, pid);
            }
            Some(SpawnerEvent::Message(FromSpawner::Ready { .. })) => {}
            Some(SpawnerEvent::Ended(why)) => {
                tracing::error!("the spawner ended ({why}); its tasks continue");
                self.give_up_spawner();
            }
            None => self.give_up_spawner(),
        }
    }

    fn give_up_spawner(&mut self) {
        if let Some(s) = self.spawner.take() {
            s.give_up();
        }
    }

    pub(super) fn send(&mut self, message: &ToSpawner) {
        if let Some(s) = self.spawner.as_mut()
            && let Err(e) = s.push(message)
        {
            tracing::error!("{e}");
        }
    }

    pub(super) fn flush_spawner(&mut self) {
        if let Some(Err(e)) = self.spawner.as_mut().map(Spawner::flush) {
            tracing::error!("{e}");
            self.give_up_spawner();
        }
    }

    // ---- ends ----

    /// Records an end that only this process knows, then reports it with the next group.
    pub(super) fn conclude(&mut self, end: Ended) {
        self.ledger
            .push(&AttemptRec::Concluded(Box::new(end.clone())));
        if let Err(e) = self.ledger.commit(true) {
            self.rewrite_after_failure(&e.to_string());
        }
        self.ended(end);
    }

    pub(super) fn never(&mut self, a: AttemptId, why: &str) {
        let Some(e) = self.table.get(a) else { return };
        let (epoch, part) = e.named;
        let why = why.to_owned();
        self.ledger.push(&AttemptRec::Never {
            a,
            e: epoch,
            p: part,
            why: why.clone(),
        });
        if self.table.set(a, Status::Never(why.clone())) {
            self.ends = true;
            self.push(a, &Report::Never { a, why });
        }
    }

    fn sample(&mut self, now: u64) {
        match (&self.spawner, self.unrecovered) {
            (Some(s), true) => self.recover(s.log),
            _ => self.find_lost(),
        }
        let old = |s: &Shepherd| now.saturating_sub(s.born) >= SAMPLE_MS;
        let running: Vec<(AttemptId, Shepherd)> = self
            .table
            .running()
            .filter(|(_, s)| old(s))
            .map(|(a, s)| (a, s.clone()))
            .collect();
        if running.is_empty() {
            return;
        }
        let snapshot = Snapshot::read();
        for (a, shepherd) in running {
            let usage = snapshot.usage(shepherd.pid, sample::details);
            let Some(e) = self.table.get_mut(a) else {
                continue;
            };
            let u = sample::merge(&e.usage, usage);
            let worth = sample::differs(&e.usage, &u);
            let over = sample::exceeded(e, &u, self.unheld);
            if worth {
                e.usage = u.clone();
            }
            if let Some(reason) = over {
                deliver(&shepherd, TaskAct::Terminate, reason, e.grace_ms);
            }
            if worth {
                self.push(a, &Report::Usage { a, u });
            }
        }
    }

    // ---- orders ----

    fn follow_orders(&mut self) -> Result<Did, String> {
        let mut did = Did::default();
        // Checked before the orders are read: they cancel what was dispatched elsewhere earlier.
        let until = silence::may_start_until(&self.place.local);
        for _ in 0..ROUNDS {
            // Given up in the last round: what comes now waits for the next one.
            if self.spawner.is_none() {
                did.more = true;
                break;
            }
            let before = self.orders.place();
            let look = self.orders.look()?;
            self.judge_share(&look);
            if look.new_epoch {
                self.share.epoch = self.orders.place().0;
                self.note_share();
                self.refused.clear();
            }
            if !look.orders.is_empty() {
                self.starter.read_part((self.share.epoch, look.part));
            }
            self.check_identity();
            did.work |= !look.orders.is_empty();
            did.orders |= did.work;
            did.more = look.more;
            if look.damage.is_some() {
                self.begin_new_reports();
                did.work = true;
            }
            self.carry_out(look.orders, before)?;
            if self.orders.place() != before {
                self.table.forget(self.orders.place());
            }
            if !look.more {
                // An order after the unreadable one may cancel a start.
                if !self.held.is_empty() && !look.held_up {
                    self.start_held_until(until?)?;
                }
                break;
            }
        }
        Ok(did)
    }

    /// Starts what no order at hand has cancelled, unless reading took so long that the leader may
    /// have dispatched it elsewhere.
    pub(super) fn start_held_until(&mut self, until: u64) -> Result<(), String> {
        if clock::boot_ms() > until {
            return Err(
                "reading the orders took for longer than iso_timeout allows: no task is started \
                 before they are read again"
                    .to_owned(),
            );
        }
        self.start_held();
        Ok(())
    }

    /// Hands the spawner what no order at hand has cancelled.
    fn start_held(&mut self) {
        failpoint::hit("exe.after_ledger");
        self.drop_unnamed();
        for task in std::mem::take(&mut self.held) {
            self.send(&ToSpawner::Start(Box::new(task)));
        }
        if let Some(forget) = self.starter.forget_now() {
            self.send(&forget);
        }
        self.flush_spawner();
    }

    /// Cancels starts that wait here and that the present orders do not name: the orders after the
    /// damage are lost, and the starts are not among those in force.
    fn drop_unnamed(&mut self) {
        let place = self.orders.place();
        let named = |a: &AttemptId| self.table.get(*a).is_some_and(|e| e.named >= place);
        let held = self.held.iter().map(|task| task.a);
        for a in held.filter(|a| !named(a)).collect::<Vec<_>>() {
            self.held.retain(|task| task.a != a);
            self.never(a, "its orders were damaged, and it is no longer in force");
        }
    }

    /// Notes that the share went back to an older copy, and when it is current again: then
    /// everything is reported again, since the acknowledgements were lost.
    fn judge_share(&mut self, look: &super::orders::Look) {
        if look.new_epoch && self.went_back.take().is_some() {
            tracing::info!("the share has a later epoch again; all attempts are reported again");
            self.repeat_all_reports();
        }
        if look.went_back.is_some() && self.went_back != look.went_back {
            let (seen, here) = (self.share.epoch, look.went_back.unwrap_or_default());
            tracing::error!(
                "the share went back: this host has followed epoch {seen}, the newest here is \
                 {here}. Was it restored from a backup? No order is followed until an \
                 administrator runs 'cadmin restored --confirm'; tasks go on"
            );
            self.went_back = look.went_back;
        }
    }

    /// An administrator has confirmed that the share was restored: acknowledgements of final
    /// reports may be lost.
    fn share_restored(&mut self, above: u64) {
        if above <= self.share.restored {
            return;
        }
        tracing::info!("the share was restored; all attempts are reported again");
        self.share.restored = above;
        self.share.points.forget(above);
        self.note_share();
        self.repeat_all_reports();
    }

    fn repeat_all_reports(&mut self) {
        self.table.unacknowledge();
        self.reports = None;
        self.forget_old = true;
    }

    /// Puts on record what is known of the share.
    fn note_share(&mut self) {
        self.ledger.push(&AttemptRec::Epoch {
            e: self.share.epoch,
            top: self.table.top(),
            r: self.share.restored,
        });
    }

    /// Carries out a batch: starts and cancellations are on record before anything is done.
    fn carry_out(&mut self, batch: Vec<Order>, before: (u64, u64)) -> Result<(), String> {
        let (mut starts, mut acts) = (BTreeSet::new(), Vec::new());
        let mut reached = None;
        for order in batch {
            match order {
                Order::Spec { id, spec } => self.starter.learn(id, spec),
                Order::Start(o) => starts.extend(self.take_start(*o)),
                Order::Cancel { a } => self.cancel(a),
                Order::Signal {
                    a,
                    act,
                    reason,
                    grace_ms,
                    n,
                    mark,
                } => {
                    let act = task_act(act);
                    let pending = Pending {
                        act,
                        reason,
                        grace_ms,
                        n,
                    };
                    acts.push((a, pending, mark));
                }
                Order::Resize { a, hosts, n } => self.take_resize(a, hosts, n),
                Order::Part { a, s, mark, .. } => self.parts.ask(a, s, self.ordered_now(mark)),
                Order::PartEnd { a } => self.parts.end(a),
                Order::Limit { iso_ms } => self.limit_order = Some(iso_ms),
                Order::Ack { part, seq } => self.acknowledge(part, seq),
                Order::Journal(point) => reached = Some(point),
                Order::Restored { above } => self.share_restored(above),
                Order::ReportsDamaged { part, seq, at } => self.renew_reports(part, seq, at),
                Order::Ledger { .. } | Order::Next { .. } => {}
            }
        }
        self.keep_limit();
        if let Some(point) = reached {
            self.share.points.reach(point);
            self.ledger.push(&AttemptRec::Journal(point));
        }
        let recorded = self.ledger.commit(true);
        if let Err(e) = &recorded {
            // No task of it was started: forget them, and read it all again.
            self.held.retain(|task| !starts.contains(&task.a));
            starts.into_iter().for_each(|a| self.table.remove(a));
            self.orders.go_to(before.1);
            self.rewrite_after_failure(&e.to_string());
        }
        // What is to end or to stop does not wait for the disk.
        for (a, pending, mark) in acts {
            if !self.table.get(a).is_some_and(|e| e.is_other(mark)) {
                self.signal(a, pending);
            }
        }
        let until = "no task is started until the local directory can be written";
        recorded.map_err(|e| format!("{e}; {until}"))?;
        self.prepare_parts();
        self.resize_all();
        Ok(())
    }

    /// The run of this mark, which the orders at hand name first.
    fn ordered_now(&self, mark: u32) -> RunId {
        let (epoch, _) = self.orders.place();
        RunId { mark, epoch }
    }

    /// Takes note of a task. Returns the attempt if it is to be started.
    fn take_start(&mut self, o: StartOrder) -> Option<AttemptId> {
        let a = o.a;
        if a.at == 0 || a.j.id == 0 || o.hosts.first().is_none_or(|s| s.0 != self.place.site.host) {
            tracing::error!("an order to start {a} is not for this host: refused");
            return None;
        }
        let named = self.orders.place();
        let spec = self.starter.spec(o.s);
        let rerunnable = spec.is_some_and(|s| o.is_rerunnable(s));
        let notify = spec.is_some_and(|s| !s.notify.is_empty());
        if self.table.get(a).is_some_and(|e| e.is_other(o.mark)) {
            self.refuse(a, o.mark);
            return None;
        }
        if let Some(e) = self.table.get_mut(a) {
            let again = e.named.0 < named.0;
            e.named = e.named.max(named);
            // Limits are not on record: after a restart the repeated order has them.
            let limits = || Box::new(crate::task::build::limits(&o.limits));
            e.limits.get_or_insert_with(limits);
            e.grace_ms = o.grace_ms;
            e.notify = notify;
            // A leader that orders it again does not know its state.
            let reports = if again { e.reports(a) } else { Vec::new() };
            for report in reports {
                self.push(a, &report);
            }
            return None;
        }
        let log = self.spawner.as_ref().map_or(0, |s| s.log);
        let spawner = &mut self.spawner;
        let mut send = |m: &ToSpawner| match spawner.as_mut() {
            Some(s) => s.push(m),
            None => Err("no spawner".to_owned()),
        };
        let built = match o.ran {
            true => Err(Refused::from(FORGOTTEN.to_owned())),
            false => self.starter.task(&o, &mut send),
        };
        let mut entry = Entry::new(Status::Given(log), named, rerunnable);
        entry.grace_ms = o.grace_ms;
        (entry.notify, entry.resizes, entry.mark) = (notify, o.resizes, o.mark);
        entry.boot = proc::boot_id().to_owned();
        let (e, p) = named;
        self.ledger.push(&AttemptRec::Given {
            a,
            e,
            p,
            l: log,
            r: rerunnable,
            b: entry.boot.clone(),
            m: o.mark,
            f: 0,
        });
        match built {
            Ok(task) => {
                entry.limits = Some(Box::new(task.limits.clone()));
                self.table.insert(a, entry);
                self.held.push(task);
                Some(a)
            }
            Err(refused) => {
                self.table.insert(a, entry);
                let end = self.not_started(&o, refused);
                self.conclude(end);
                None
            }
        }
    }

    /// The end of an attempt that is not started here.
    fn not_started(&self, o: &StartOrder, refused: Refused) -> Ended {
        let mut end = match o.ran {
            true => ending::unknown(o.a, TermReason::HostLost, FORGOTTEN),
            false => ending::not_started(o.a, None, refused.text),
        };
        end.t = clock::wall_ms();
        end.elsewhere = refused.elsewhere;
        end.no_account = !o.ran && self.starter.lacks_account(o.s);
        end
    }

    /// Promises that an unknown attempt, or one that still waits here, will never start; repeats
    /// what is known of another.
    fn cancel(&mut self, a: AttemptId) {
        if let Some(at) = self.held.iter().position(|task| task.a == a) {
            self.held.remove(at);
            self.never(a, "cancelled before it was started");
            return;
        }
        if let Some(mark) = self.refused.get(&a) {
            return self.refuse(a, *mark);
        }
        if let Some(e) = self.table.get(a) {
            for report in e.reports(a) {
                self.push(a, &report);
            }
            return;
        }
        let named = self.orders.place();
        self.table
            .insert(a, Entry::new(Status::Given(0), named, false));
        self.never(a, "cancelled before it was started");
    }

    /// Takes up a signal of a number that was not yet taken up.
    fn signal(&mut self, a: AttemptId, p: Pending) {
        let known = self.table.get_mut(a);
        let Some(e) = known.filter(|e| !e.is_final() && p.n > e.signals) else {
            return;
        };
        e.signals = p.n;
        self.act(a, p);
    }

    /// Carries out an act now, or when the task runs. It goes on record afterwards: a crash in
    /// between repeats it, which harms less than losing a kill.
    pub(super) fn act(&mut self, a: AttemptId, p: Pending) {
        let Some(e) = self.table.get_mut(a) else {
            return;
        };
        match &e.status {
            Status::Running(s) => {
                deliver(s, p.act, p.reason, p.grace_ms);
                self.ledger.push(&AttemptRec::Signalled { a, n: p.n });
            }
            Status::Given(_) => e.waiting.push(p),
            _ => {}
        }
    }

    /// Keeps the limit that the leader ordered last, for `cbls`.
    fn keep_limit(&mut self) {
        let Some(limit) = self.limit_order else {
            return;
        };
        match iso_limit::keep_order(&self.place.local, limit) {
            Ok(()) => self.limit_order = None,
            Err(e) => tracing::error!("{e}: iso_timeout is not changed on this host"),
        }
    }

    fn acknowledge(&mut self, part: u64, seq: u64) {
        if self.reports.as_ref().is_none_or(|r| r.number() != part) {
            return;
        }
        for a in self.table.acknowledge(seq) {
            self.ledger.push(&AttemptRec::Acked { a });
        }
    }

    // ---- housekeeping ----

    fn keep_house(&mut self) {
        self.keep_limit();
        self.check_reports_file();
        self.retired.retain_mut(|s| !s.has_ended());
        let full = |s: &Spawner| self.held.is_empty() && self.logs.len_of(s.log) > LOG_BYTES;
        if self.spawner.as_ref().is_some_and(full)
            && let Some(mut old) = self.spawner.take()
        {
            old.retire();
            self.retired.push(old);
            self.respawn();
        }
        let old_logs = self.logs.numbers().len() > 1;
        if self.ledger.wants_rewrite() || (old_logs && !self.needs_old_logs()) {
            self.rewrite();
            // The last tasks of earlier spawners are over, and so is the use of their groups.
            self.sweep_groups();
        } else if let Err(e) = self.ledger.commit(false) {
            self.rewrite_after_failure(&e.to_string());
        }
    }

    fn needs_old_logs(&self) -> bool {
        let present = self.spawner.as_ref().map_or(0, |s| s.log);
        if self.unrecovered {
            return true;
        }
        self.table.live().any(|(_, e)| match &e.status {
            Status::Running(s) => s.log != present,
            Status::Given(log) => *log != present,
            _ => false,
        })
    }

    /// Rewrites the ledger from the table, after which old tasks logs are not needed.
    pub fn rewrite(&mut self) {
        if let Err(e) = self.ledger.rewrite(&self.table, &self.share) {
            tracing::error!("{e}");
            return;
        }
        if !self.needs_old_logs() && self.retired.is_empty() {
            let present = self.spawner.as_ref().map_or(0, |s| s.log);
            self.logs.remove_unless(|n| n == present);
        }
    }

    /// After a failed write the whole ledger must be rewritten.
    pub(super) fn rewrite_after_failure(&mut self, why: &str) {
        tracing::error!("{why}; the local log is rewritten");
        if let Err(e) = self.ledger.rewrite(&self.table, &self.share) {
            tracing::error!("{e}");
        }
    }
}

/// Signals a shepherd. Checks first that it still exists: this process may have been blocked in the
/// share for long, and another process may have its id now.
pub(super) fn deliver(s: &Shepherd, act: TaskAct, reason: TermReason, grace: u64) {
    if !recovery::is_gone(s)
        && let Err(e) = supervise::send_order(s.pid, pack_act(act, reason, grace))
    {
        tracing::error!("{e}");
    }
}

fn task_act(act: Act) -> TaskAct {
    match act {
        Act::Terminate => TaskAct::Terminate,
        Act::Kill => TaskAct::Kill,
        Act::Stop => TaskAct::Stop,
        Act::Resume => TaskAct::Resume,
        Act::Number(n) => TaskAct::Number(n),
    }
}
