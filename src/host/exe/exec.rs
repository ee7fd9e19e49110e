//! The executor's state and its turns: one thread owns everything here.
//!
//! The order of effects is fixed: an attempt is recorded durably before it is given to the spawner;
//! an end is durable before it is reported; reports are written in groups.

use super::cpus;
use super::hints::Hints;
use super::known_units::{reason_to_end, wrong_unit_sentences};
use super::ledger::{self, KnownShare, Ledger};
use super::orders::OrderReader;
use super::parts::Parts;
use super::recovery;
use super::report_queue::ReportQueue;
use super::sample::{self, Samples, Snapshot};
use super::share_watch::ShareWatch;
use super::spawn::SpawnerEvent;
use super::spawners::Spawners;
use super::start_refusal::StartRefusal;
use super::starts::Starter;
use super::table::{Entry, PendingAction, Resize, Shepherd, Status, Table};
use super::unit_names::names_of;
use crate::host::ls::write_beat;
use crate::host::setup::HostSetup;
use crate::host::{iso_limit, silence};
use crate::model::{AttemptId, TermReason};
use crate::record::order::{Order, StartOrder};
use crate::record::report::{Ended, Report, RunId};
use crate::spool::leader_copy;
use crate::sys::{clock, failpoint, proc, statfs, supervise};
use crate::task::ending;
use crate::task::log::AttemptRec;
use crate::task::spec::{FromSpawner, TaskAct, ToSpawner, pack_act};
use std::collections::BTreeSet;

/// Pause between two samples of usage, ms.
const SAMPLE_MS: u64 = 5_000;
/// Pause between two local beats, ms.
const BEAT_MS: u64 = 5_000;
/// Rounds of reading orders in one turn.
const ROUNDS: usize = 4;
/// The reason in the end of a run that the leader believes to be running here.
const FORGOTTEN: &str = "its host has lost the record of it";

/// Everything the executor knows.
pub struct Exec {
    pub(super) setup: HostSetup,
    pub(super) table: Table,
    pub(super) ledger: Ledger,
    pub(super) orders: OrderReader,
    pub(super) starter: Starter,
    pub(super) parts: Parts,
    /// Attempts whose resizes were received in this turn.
    pub(super) resized: BTreeSet<AttemptId>,
    /// Attempts whose limits were changed in this turn.
    pub(super) limited: BTreeSet<AttemptId>,
    pub(super) spawners: Spawners,
    pub(super) reports: ReportQueue,
    pub(super) hints: Hints,
    pub(super) share: ShareWatch,
    /// An `iso_timeout` that the leader ordered and that is not saved yet.
    limit_order: Option<u64>,
    pub(super) samples: Samples,
    beat_at: u64,
}

/// The result of one turn, which determines the pace of the next.
#[derive(Debug, Default, Clone, Copy)]
pub struct TurnResult {
    /// Something was read or written.
    pub did_work: bool,
    /// More orders are to be read.
    pub more: bool,
    /// Orders were read.
    pub orders: bool,
}

impl Exec {
    /// An executor that has only restored its state.
    pub(super) fn new(
        setup: HostSetup,
        (table, ledger): (Table, Ledger),
        (orders, starter): (OrderReader, Starter),
        spawners: Spawners,
        share: KnownShare,
    ) -> Exec {
        Exec {
            setup,
            table,
            ledger,
            orders,
            starter,
            parts: Parts::default(),
            resized: BTreeSet::new(),
            limited: BTreeSet::new(),
            spawners,
            reports: ReportQueue::default(),
            hints: Hints::none(),
            share: ShareWatch::new(share),
            limit_order: None,
            samples: Samples::default(),
            beat_at: 0,
        }
    }

    /// The id of this host's ledger, which orders refer to.
    pub fn ledger_id(&self) -> &str {
        &self.ledger.identity.id
    }

    /// Executes one turn. `poll_orders`: read the share's orders in it.
    pub fn turn(&mut self, poll_orders: bool) -> TurnResult {
        let mut did = TurnResult::default();
        self.receive_events();
        if !self.spawners.is_ready() {
            self.respawn();
        }
        did.did_work |= self.follow_tasks();
        let parts = &self.parts;
        let over = parts.late_parts.any() || parts.over.any();
        if parts.commands.any() || parts.launches.any_launched() || over {
            self.follow_commands();
        }
        if poll_orders && self.spawners.is_ready() {
            match self.follow_orders() {
                Ok(d) => {
                    self.share.error.clear();
                    did.did_work |= d.did_work;
                    (did.more, did.orders) = (d.more, d.orders);
                }
                Err(e) => self.share.failed(e),
            }
        }
        let now = clock::boot_ms();
        if self.parts.launches.due_in(now, self.launch_pause_ms()) == Some(0) {
            self.follow_launches(now);
        }
        if now.saturating_sub(self.samples.sampled_at) >= SAMPLE_MS {
            self.samples.sampled_at = now;
            self.sample(now);
        }
        self.follow_late_parts(now);
        self.follow_over_parts(now);
        self.report();
        if now.saturating_sub(self.beat_at) >= BEAT_MS {
            self.beat_at = now;
            self.beat(now);
            self.do_housekeeping();
        }
        did
    }

    /// Writes the local beat: time, epoch, highest job id, and a note for administrators.
    fn beat(&self, now: u64) {
        let note = self.starter.units.note(self.spawners.note());
        let top = self.table.highest_job_id();
        let full = statfs::check_room(self.setup.local.dir()).err();
        let local_error = full.map(|e| e.to_string());
        let local_error = local_error.or_else(|| self.ledger.error.clone());
        let words = self.share.beat(top, &note, local_error.as_deref());
        let text = format!("{now} {}", super::super::ls::checked(&words));
        write_beat(&self.setup.local.exe_beat(), &text);
        self.copy_leader();
    }

    /// Keeps a copy of `leader/epoch` for the commands of this host if reading the share needs
    /// requests.
    fn copy_leader(&self) {
        if self.setup.share_is_local {
            return;
        }
        if let Some((doc, at_ms)) = self.orders.epoch_doc()
            && let Err(e) = leader_copy::write(&self.setup.site.leader_copy(), doc, at_ms)
        {
            // Commands then read the share.
            tracing::debug!("{e}");
        }
    }

    // ---- the spawner ----

    fn receive_events(&mut self) {
        while let Some(h) = self.spawners.next_event() {
            self.handle_spawner_event(Some(h));
        }
    }

    /// Handles a message of the spawner; `None`: its channel is closed.
    pub fn handle_spawner_event(&mut self, event: Option<SpawnerEvent>) {
        match event {
            Some(SpawnerEvent::Message(FromSpawner::Died { a, pid })) => {
                self.follow_tasks();
                self.note_lost(a, pid);
                // It may have died after it recorded the end.
                self.spawners.send(&ToSpawner::ClearTmp);
                self.spawners.flush();
            }
            Some(SpawnerEvent::Message(FromSpawner::Ready { .. })) => {}
            Some(SpawnerEvent::Ended(why)) => {
                tracing::error!("the spawner ended ({why}); its tasks continue");
                self.spawners.give_up();
            }
            None => self.spawners.give_up(),
        }
    }

    // ---- ends ----

    /// Records an end that only this process knows, then reports it with the next group.
    pub(super) fn record_end(&mut self, end: Ended) {
        self.ledger
            .push(&AttemptRec::Concluded(Box::new(end.clone())));
        if let Err(e) = self.ledger.commit(true) {
            self.rewrite_after_failure(&e.to_string());
        }
        self.ended(end);
    }

    pub(super) fn never_start(&mut self, a: AttemptId, why: &str) {
        let Some(e) = self.table.get(a) else { return };
        let (epoch, part) = e.named_by;
        let why = why.to_owned();
        self.ledger.push(&AttemptRec::Never {
            a,
            e: epoch,
            p: part,
            why: why.clone(),
        });
        if self.table.set(a, Status::NeverStarts(why.clone())) {
            let never = Report::Never { a, why };
            self.reports.push_end(&mut self.table, a, &never);
        }
    }

    /// Adds a report to the next group.
    pub(super) fn push(&mut self, a: AttemptId, report: &Report) {
        self.reports.push(&mut self.table, a, report);
    }

    fn sample(&mut self, now: u64) {
        self.follow_units();
        match (self.spawners.log(), self.spawners.unrecovered) {
            (Some(log), true) => self.recover(log),
            _ => self.find_lost(),
        }
        let old = |s: &Shepherd| now.saturating_sub(s.started_ms) >= SAMPLE_MS;
        let running: Vec<(AttemptId, Shepherd)> = self
            .table
            .running()
            .filter(|(_, s)| old(s))
            .map(|(a, s)| (a, s.clone()))
            .collect();
        if running.is_empty() && !self.parts.commands.any() && !self.parts.are_checked() {
            self.keep_devices();
            return;
        }
        let snapshot = Snapshot::read();
        self.count_devices(&snapshot, now);
        let wrong = self.wrong_units(&snapshot);
        self.sample_parts(&snapshot, &wrong);
        for (a, shepherd) in running {
            let mut usage = snapshot.usage(shepherd.pid, sample::details);
            if self.table.get(a).is_some_and(|e| e.given.launched) {
                usage.tasks = snapshot.tasks(shepherd.pid, sample::named_task);
            }
            self.add_command_usage(a, &mut usage, &snapshot);
            let Some(e) = self.table.get_mut(a) else {
                continue;
            };
            let mut u = sample::merge(&e.usage, usage);
            u.wrong_units = wrong_unit_sentences(&wrong, a);
            let worth = sample::differs(&e.usage, &u);
            let mut unheld = self.spawners.unenforced_limits();
            if self.parts.commands.has(a) {
                // Each task has a control group with the whole limit; their sum must not exceed it.
                (unheld.memory, unheld.procs) = (true, true);
            }
            let over = sample::exceeded(e, &u, unheld);
            let over = over.or_else(|| reason_to_end(e.given.check, &u));
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

    fn follow_orders(&mut self) -> Result<TurnResult, String> {
        let mut did = TurnResult::default();
        // Checked before the orders are read: these cancel starts that were dispatched elsewhere
        // meanwhile.
        let until = silence::may_start_until(&self.setup.local);
        for _ in 0..ROUNDS {
            // The spawner failed in the last round: new orders wait for the next one.
            if !self.spawners.is_ready() {
                did.more = true;
                break;
            }
            let before = self.orders.position();
            let poll = self.orders.poll()?;
            if self.share.judge(&poll) {
                self.repeat_all_reports();
            }
            if poll.new_epoch {
                self.share.recorded.epoch = self.orders.position().0;
                self.record_share();
                self.copy_leader();
                self.reports.forget_refused();
                self.parts.launches.forget_reported();
                self.parts.late_parts.forget_reported();
            }
            if !poll.orders.is_empty() {
                self.starter
                    .read_part((self.share.recorded.epoch, poll.part));
            }
            self.share
                .check_identity(self.orders.is_foreign(), &self.setup);
            did.did_work |= !poll.orders.is_empty();
            did.orders |= did.did_work;
            did.more = poll.more;
            if poll.damage.is_some() {
                self.reports.begin_new();
                did.did_work = true;
            }
            self.carry_out(poll.orders, before)?;
            if self.orders.position() != before {
                self.table.forget(self.orders.position());
            }
            if !poll.more {
                // An order after the unreadable one may cancel a start.
                if !self.spawners.deferred.is_empty() && !poll.blocked {
                    self.start_deferred_until(until?)?;
                }
                break;
            }
        }
        Ok(did)
    }

    /// Starts the tasks that no order read so far has cancelled, unless reading took so long that
    /// the leader may have dispatched them elsewhere.
    pub(super) fn start_deferred_until(&mut self, until: u64) -> Result<(), String> {
        if clock::boot_ms() > until {
            return Err(
                "reading the orders took longer than iso_timeout allows: no task is started \
                 before they are read again"
                    .to_owned(),
            );
        }
        self.start_deferred();
        Ok(())
    }

    /// Sends the spawner the tasks that no order read so far has cancelled.
    fn start_deferred(&mut self) {
        failpoint::hit("exe.after_ledger");
        self.drop_unnamed();
        for task in self.take_ready() {
            self.spawners.send(&ToSpawner::Start(Box::new(task)));
        }
        // A task that waits for its units still names its shared part.
        if self.spawners.deferred.is_empty()
            && let Some(forget) = self.starter.forget_now()
        {
            self.spawners.send(&forget);
        }
        self.spawners.flush();
    }

    /// Cancels waiting starts that the current orders do not name: the orders after the damage are
    /// lost, and these starts are not among the orders in force.
    fn drop_unnamed(&mut self) {
        let place = self.orders.position();
        let named = |a: &AttemptId| self.table.get(*a).is_some_and(|e| e.named_by >= place);
        let deferred = self.spawners.deferred.iter().map(|task| task.a);
        for a in deferred.filter(|a| !named(a)).collect::<Vec<_>>() {
            self.spawners.deferred.retain(|task| task.a != a);
            self.never_start(a, "its orders were damaged, and it is no longer in force");
        }
    }

    fn repeat_all_reports(&mut self) {
        self.table.unacknowledge();
        self.reports.repeat_all();
    }

    /// Records what is known of the share.
    fn record_share(&mut self) {
        self.ledger.push(&AttemptRec::Epoch {
            e: self.share.recorded.epoch,
            top: self.table.highest_job_id(),
            r: self.share.recorded.restored,
        });
    }

    /// Carries out a batch of orders: starts and cancellations are recorded before any task is
    /// started.
    fn carry_out(&mut self, batch: Vec<Order>, before: (u64, u64)) -> Result<(), String> {
        let (mut starts, mut acts) = (BTreeSet::new(), Vec::new());
        if batch.iter().any(|order| matches!(order, Order::Start(_))) {
            self.follow_units();
        }
        let mut reached = None;
        for order in batch {
            acts.extend(PendingAction::of(&order));
            match order {
                Order::Spec { id, spec } => self.starter.store_spec(id, spec),
                Order::Start(o) => starts.extend(self.take_start(*o)),
                Order::Cancel { a } => self.cancel(a),
                Order::Signal { .. } => {}
                Order::Resize { a, hosts, n, units } => {
                    self.take_resize(a, Resize { hosts, n, units });
                }
                Order::Limits { a, limits, n, mark } => self.take_limits((a, mark), &limits, n),
                Order::Warn {
                    a, due, n, mark, ..
                } => self.take_warning((a, mark), due, n),
                part @ Order::Part { .. } => self.take_part(part),
                Order::PartEnd { a } => self.end_part(a),
                Order::Limit { iso_ms } => self.limit_order = Some(iso_ms),
                Order::Ack { part, seq } => self.acknowledge(part, seq),
                Order::Journal(point) => reached = Some(point),
                Order::Restored { above } => {
                    if self.share.note_restored(above) {
                        self.record_share();
                        self.repeat_all_reports();
                    }
                }
                Order::ReportsDamaged { part, seq, at } => {
                    self.reports.renew(&self.setup, (part, seq, at));
                }
                Order::Ledger { .. } | Order::Next { .. } => {}
            }
        }
        self.store_limit();
        if let Some(point) = reached {
            self.share.recorded.points.reach(point);
            self.ledger.push(&AttemptRec::Journal(point));
        }
        let recorded = self.ledger.commit(true);
        if let Err(e) = &recorded {
            // No task of this batch was started: forget them and read the batch again.
            self.spawners
                .deferred
                .retain(|task| !starts.contains(&task.a));
            starts.into_iter().for_each(|a| self.table.remove(a));
            self.orders.go_to_part(before.1);
            self.rewrite_after_failure(&e.to_string());
        }
        // Kills and suspensions do not wait for the disk.
        acts.retain(|(a, _, mark)| !self.table.get(*a).is_some_and(|e| e.is_other_run(*mark)));
        for (a, pending, _) in &acts {
            self.signal(*a, *pending);
        }
        let consequence = "no task is started until the local directory can be written";
        recorded.map_err(|e| format!("{e}; {consequence}"))?;
        self.prepare_parts();
        acts.into_iter()
            .for_each(|(a, p, mark)| self.signal_commands(a, p, mark));
        self.resize_all();
        self.limit_all();
        Ok(())
    }

    /// The run with this mark, which the current orders name.
    pub(super) fn ordered_run(&self, mark: u32) -> RunId {
        let (epoch, _) = self.orders.position();
        RunId { mark, epoch }
    }

    /// Records a task. Returns the attempt if it is to be started.
    fn take_start(&mut self, o: StartOrder) -> Option<AttemptId> {
        let a = o.a;
        if a.at == 0 || a.j.id == 0 || o.hosts.first().is_none_or(|s| s.0 != self.setup.site.host) {
            tracing::error!("an order to start {a} is not for this host: refused");
            return None;
        }
        let named = self.orders.position();
        self.parts.note_start(&o, self.starter.spec(o.s));
        let spec = self.starter.spec(o.s);
        let rerunnable = spec.is_some_and(|s| o.is_rerunnable(s));
        let notify = spec.is_some_and(|s| !s.notify.is_empty());
        let launched = spec.is_some_and(|s| s.launch.is_some());
        if self.table.get(a).is_some_and(|e| e.is_other_run(o.mark)) {
            self.refuse(a, o.mark);
            return None;
        }
        if let Some(e) = self.table.get_mut(a) {
            let again = e.named_by.0 < named.0;
            e.named_by = e.named_by.max(named);
            // Limits are not in the ledger: after a restart the repeated order contains them.
            if e.limits.limits.is_none() || o.limit_changes > e.limits.last_change {
                e.limits.limits = Some(Box::new(crate::task::build::limits(&o.limits)));
                e.limits.last_change = o.limit_changes;
            }
            e.grace_ms = o.grace_ms;
            (e.resizes.notify, e.given.launched) = (notify, launched);
            (e.given.check, e.given.gang) = (o.units.check, o.hosts.len() > 1);
            e.renew_units(&o);
            // A leader that orders the start again does not know the state of the attempt.
            let entry = self.table.get(a).filter(|_| again);
            for report in entry.map_or(Vec::new(), |e| self.reports_on(a, e)) {
                self.push(a, &report);
            }
            return None;
        }
        let log = self.spawners.log().unwrap_or(0);
        let spawners = &mut self.spawners;
        let mut send = |m: &ToSpawner| spawners.push(m);
        let built = match o.ran {
            true => Err(StartRefusal::from(FORGOTTEN.to_owned())),
            false => self.starter.task(&o, &mut send),
        };
        let mut entry = Entry::new(Status::Sent(log), named, rerunnable);
        entry.grace_ms = o.grace_ms;
        (entry.resizes.notify, entry.resizes.done) = (notify, o.resizes);
        (entry.limits.last_change, entry.limits.last_sent) = (o.limit_changes, o.limit_changes);
        entry.mark = o.mark;
        entry.given.boot = proc::boot_id().to_owned();
        let cpus_in_use = built.is_ok().then(|| self.cpus_in_use());
        let binding = cpus_in_use.and_then(|cpus_in_use| self.starter.cpus.bind(&o, &cpus_in_use));
        entry.given.binding = binding.as_deref().map(|b| Box::new(b.without_slots()));
        (entry.given.units, entry.given.launched) = (names_of(&o.units), launched);
        (entry.given.check, entry.given.gang) = (o.units.check, o.hosts.len() > 1);
        self.ledger.push(&ledger::given_record(a, &entry, log));
        match built {
            Ok(mut task) => {
                if let Some(binding) = &binding {
                    cpus::put(&mut task, &self.setup.local, &o, binding);
                }
                task.limits.devices = self.starter.units.nodes_of(&entry.given.units);
                entry.limits.limits = Some(Box::new(task.limits.clone()));
                self.table.insert(a, entry);
                self.spawners.deferred.push(task);
                Some(a)
            }
            Err(refused) => {
                self.table.insert(a, entry);
                let end = self.not_started(&o, refused);
                self.record_end(end);
                None
            }
        }
    }

    /// The end of an attempt that is not started here.
    fn not_started(&self, o: &StartOrder, refused: StartRefusal) -> Ended {
        let mut end = match o.ran {
            true => ending::unknown(o.a, TermReason::HostLost, FORGOTTEN),
            false => ending::not_started(o.a, None, (refused.text, refused.fault)),
        };
        end.t = clock::wall_ms();
        end.no_account = !o.ran && self.starter.lacks_account(o.s);
        end
    }

    /// Guarantees that an unknown attempt, or one that still waits here, will never start; for any
    /// other attempt, repeats its reports.
    fn cancel(&mut self, a: AttemptId) {
        let deferred = &mut self.spawners.deferred;
        if let Some(at) = deferred.iter().position(|task| task.a == a) {
            deferred.remove(at);
            self.never_start(a, "cancelled before it was started");
            return;
        }
        if let Some(mark) = self.reports.refused(a) {
            return self.refuse(a, mark);
        }
        if let Some(e) = self.table.get(a) {
            for report in e.reports(a) {
                self.push(a, &report);
            }
            return;
        }
        let named = self.orders.position();
        self.table
            .insert(a, Entry::new(Status::Sent(0), named, false));
        self.never_start(a, "cancelled before it was started");
    }

    /// Accepts a signal whose number is higher than that of the last one.
    fn signal(&mut self, a: AttemptId, p: PendingAction) {
        let known = self.table.get_mut(a);
        let Some(e) = known.filter(|e| !e.is_final() && p.number > e.signals) else {
            return;
        };
        e.signals = p.number;
        if p.act == TaskAct::Resume {
            self.end_warning(a);
        }
        self.carry_out_action(a, p);
    }

    /// Carries out a signal now, or when the task runs. It is recorded afterwards: a crash in
    /// between repeats it, which does less harm than losing a kill.
    pub(super) fn carry_out_action(&mut self, a: AttemptId, p: PendingAction) {
        let Some(e) = self.table.get_mut(a) else {
            return;
        };
        match &e.status {
            Status::Running(s) => {
                deliver(s, p.act, p.reason, p.grace_ms);
                self.ledger.push(&AttemptRec::Signalled { a, n: p.number });
            }
            Status::Sent(_) => e.waiting.push(p),
            _ => {}
        }
    }

    /// Stores the limit that the leader ordered last, for `cbls`.
    fn store_limit(&mut self) {
        let Some(limit) = self.limit_order else {
            return;
        };
        match iso_limit::keep_order(&self.setup.local, limit) {
            Ok(()) => self.limit_order = None,
            Err(e) => tracing::error!("{e}: iso_timeout is not changed on this host"),
        }
    }

    fn acknowledge(&mut self, part: u64, seq: u64) {
        if self.reports.number() != Some(part) {
            return;
        }
        for a in self.table.acknowledge(seq) {
            self.ledger.push(&AttemptRec::Acked { a });
        }
    }

    // ---- housekeeping ----

    pub(super) fn do_housekeeping(&mut self) {
        self.store_limit();
        self.reports.check_file();
        if self.spawners.retire_full() {
            self.respawn();
        }
        let old_logs = self.spawners.logs.numbers().len() > 1;
        if self.ledger.wants_rewrite() || (old_logs && !self.needs_old_logs()) {
            self.rewrite();
            // The last tasks of earlier spawners have ended, so their groups and directories are
            // unused.
            self.sweep_groups();
            self.sweep_tmp();
        } else if let Err(e) = self.ledger.commit(false) {
            self.rewrite_after_failure(&e.to_string());
        }
    }

    fn needs_old_logs(&self) -> bool {
        if self.spawners.unrecovered {
            return true;
        }
        let present = self.spawners.log().unwrap_or(0);
        self.table.live_attempts().any(|(_, e)| match &e.status {
            Status::Running(s) => s.log != present,
            Status::Sent(log) => *log != present,
            _ => false,
        })
    }

    /// Rewrites the ledger from the table; old tasks logs are not needed after that.
    pub fn rewrite(&mut self) {
        if let Err(e) = self.ledger.rewrite(&self.table, &self.share.recorded) {
            tracing::error!("{e}");
            return;
        }
        if !self.needs_old_logs() {
            self.spawners.remove_old_logs();
        }
    }

    /// After a failed write the whole ledger must be rewritten.
    pub(super) fn rewrite_after_failure(&mut self, why: &str) {
        tracing::error!("{why}; the local log is rewritten");
        if let Err(e) = self.ledger.rewrite(&self.table, &self.share.recorded) {
            tracing::error!("{e}");
        }
    }
}

/// Signals a shepherd. Checks first that it still exists: this process may have been blocked for
/// long by the share, and another process may have its id now.
pub(super) fn deliver(s: &Shepherd, act: TaskAct, reason: TermReason, grace: u64) {
    if !recovery::has_ended(s)
        && let Err(e) = supervise::send_order(s.pid, pack_act(act, reason, grace))
    {
        tracing::error!("{e}");
    }
}
