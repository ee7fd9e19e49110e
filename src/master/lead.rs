//! The leading process: collects inputs, takes turns, carries out each `Ready` in its fixed order.
//!
//! One thread owns everything here. After each sync the epoch is checked again; any error on the
//! way from the journal to the orders ends the process without a clean-up write, and a successor
//! repeats every answer and order.

use super::Witness;
use super::conf::Loaded;
use super::disk_reserve::DiskReserve;
use super::election::Leadership;
use super::hints::Hints;
use super::hosts::{HostSelection, Hosts};
use super::inbox::{self, Inbox};
use super::leader_end::LeaderEnd;
use super::leader_metrics::TimedWork;
use super::new_drop_boxes::NewDropBoxes;
use super::notifier::Notifier;
use super::outgoing::Outgoing;
use super::published::PublishedView;
use super::store::Store;
use super::wakeups::Wakeups;
use crate::config::Config;
use crate::journal::{self, HistoryRetention, Position, Retention};
use crate::lease::Check;
use crate::model::{AttemptId, Stamp};
use crate::record::ack::Ack;
use crate::record::event::Event;
use crate::record::order::Order;
use crate::record::request::Verb;
use crate::spool::Layout;
use crate::sys::thread::ReadyChannel as Spoke;
use crate::sys::{clock, failpoint, service, thread};
use crate::turn::{self, Core, Input, Ready, RequestIn};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pause between checks of an idle share that raises events, in milliseconds.
const IDLE_HINTED_MS: u64 = 5000;
/// Distance of turns while inputs keep arriving, in milliseconds, so that one sync serves many.
const BUSY_GAP_MS: u64 = 3;
/// Pause between checks while the share is full, in milliseconds.
const FULL_MS: u64 = 1000;

/// The place at which this leader runs.
pub(super) struct LeaderSite {
    pub layout: Layout,
    pub cluster: String,
    pub host: String,
    pub since: Stamp,
}

/// Everything a leader holds.
pub(super) struct Leader {
    pub site: LeaderSite,
    pub leadership: Leadership,
    pub core: Core,
    pub store: Store,
    pub reserve: DiskReserve,
    pub view: PublishedView,
    pub outgoing: Outgoing,
    pub inbox: Inbox,
    pub new_boxes: NewDropBoxes,
    pub notifier: Notifier,
    pub hosts: Hosts,
    pub hints: Hints,
    pub wakeups: Wakeups,
    /// A configuration that was read, to be stored once it is in force.
    pub configured: Option<Loaded>,
    /// Observes every turn; for simulations.
    pub witness: Option<Arc<dyn Witness>>,
}

/// Whether this event leads to an order to start the attempt.
fn starts_attempt(event: &Event, wanted: AttemptId) -> bool {
    match event {
        Event::Dispatched { a, .. } | Event::Gathered { a, .. } => *a == wanted,
        _ => false,
    }
}

/// Whether the summary views show more of this event than the counts that are published with the
/// rows of jobs.
fn is_of_cluster(event: &Event) -> bool {
    matches!(
        event,
        Event::Queue { .. }
            | Event::Host { .. }
            | Event::HostSeen { .. }
            | Event::Config { .. }
            | Event::WentBack { .. }
            | Event::Restored { .. }
    )
}

impl Leader {
    /// Repeats everything that is in force, then leads until the end. `bind`: an attempt runs
    /// elsewhere only after a report of its own host; see [`crate::lease::Protocol`].
    pub(super) fn run(&mut self, bind: bool) -> LeaderEnd {
        if let Err(end) = self.first(bind) {
            return end;
        }
        let mut all = true;
        loop {
            service::alive();
            let began = clock::boot_ms();
            let busy = match self.step(began, all) {
                Ok(busy) => busy,
                Err(end) => return end,
            };
            match self.wait(began, busy) {
                Ok(event) => all = event,
                Err(end) => return end,
            }
        }
    }

    /// The first actions of a new epoch: orders files for all hosts with everything in force, and a
    /// fresh view.
    fn first(&mut self, bind: bool) -> Result<(), LeaderEnd> {
        let now = clock::boot_ms();
        // On a full share nothing is started, not even once; on any other the reserve is created
        // before anything can fill the share.
        self.check_disk_space(now);
        let configured = self.configured.iter();
        let mut inputs: Vec<Input> = configured
            .map(|read| Input::Config(read.config.clone()))
            .collect();
        let state = &self.core.state;
        let no_work = |host: &str| state.on_host(host).next().is_none();
        let (times, poll_ms) = ((now, clock::wall_ms()), self.poll_ms());
        for (host, ctl) in state.known_hosts().filter(|(host, _)| !no_work(host)) {
            self.hosts.begin_with(host, ctl.part);
        }
        self.hosts
            .read_all(times, HostSelection::All, poll_ms, &no_work, &mut inputs);
        self.report_lost_history(&mut inputs);
        // Before the first turn can take a time of day as reached.
        self.compare_clock(&self.site.layout.epoch());
        if !bind {
            self.take_all_back(&mut inputs);
        }
        self.turn(inputs, now)?;
        let mut orders = turn::outstanding(&self.core, None);
        // The name of a host's ledger alone does not create its file: it is sent with each first
        // order.
        let is_work = |order: &Order| !matches!(order, Order::Ledger { .. });
        let busy = orders.iter().filter(|(_, order)| is_work(order));
        let busy: BTreeSet<String> = busy.map(|(host, _)| host.clone()).collect();
        orders.retain(|(host, _)| busy.contains(host));
        self.write_orders(orders)?;
        let epoch = self.core.state.epoch();
        if let Err(e) = super::election::remove_old_claims(&self.site.layout, epoch) {
            tracing::warn!("{e}: old claims are not removed");
        }
        let _ = self.core.state.take_dirty();
        self.publish_summary(true, now);
        self.leadership.set_leading(true);
        // Hints make hosts follow a new epoch at once.
        let endpoints = self.hosts.names().filter_map(|h| self.hosts.endpoint(h));
        endpoints.for_each(|endpoint| self.hints.hint_host(endpoint));
        tracing::info!("epoch {epoch} is in force: orders repeated, requests taken");
        Ok(())
    }

    /// Unbinds what was dispatched and is not known to have started, without a report of its host:
    /// simulations use it to remove the rule against this.
    fn take_all_back(&self, inputs: &mut Vec<Input>) {
        let state = &self.core.state;
        let hosts: Vec<String> = state.known_hosts().map(|(name, _)| name.clone()).collect();
        for host in hosts {
            for (j, _) in state.on_host(&host) {
                let Some(work) = state.work(j) else { continue };
                if work.run.as_ref().is_none_or(|run| run.start != Stamp(0)) {
                    continue;
                }
                let at = work.attempt;
                let a = AttemptId { j, at };
                let why = "a new leader starts it elsewhere".to_owned();
                inputs.push(Input::never(host.clone(), a, why));
            }
        }
    }

    /// Raises the alarm if `leader/beat` was damaged since the last call.
    fn note_beat_damage(&mut self, now: u64) {
        if self.leadership.take_beat_damage() {
            let text = format!(
                "{} was damaged, and was written again: something else writes to the share, or \
                 its storage fails",
                self.site.layout.beat().display()
            );
            self.view.alarms.raise("beat", text, now);
        }
    }

    /// Collects inputs and takes a turn. `all`: something changed, and it is not known where.
    /// Returns true if there was something to do.
    fn step(&mut self, now: u64, all: bool) -> Result<bool, LeaderEnd> {
        let mut inputs = Vec::new();
        self.hints.take_all(None);
        let (boxes, hosts) = self.hints.due(now, &self.hosts);
        self.find_users(now, all, &boxes)?;
        // The watch comes first: a change after the check then gives a hint.
        self.wakeups.watch(self.inbox.directories());
        let (taken, mut rejected) = self.take_requests(now, all, &boxes);
        let found = taken.iter().map(|request| &request.location);
        let found = found.chain(rejected.iter().map(|bad| &bad.location));
        let found: BTreeSet<u32> = found.map(|location| location.uid).collect();
        if self.inbox.is_waiting(now) {
            let text = "the user database does not answer or is slow: users that this leader has \
                        not seen yet wait";
            self.view.alarms.raise("accounts", text.to_owned(), now);
        }
        self.note_beat_damage(now);
        let (taken, refused) = self.keep_blobs(taken, now)?;
        rejected.extend(refused);
        let requests = !taken.is_empty();
        for request in taken {
            let wants_config = request.verbs.contains(&Verb::Reconfig);
            let config = wants_config.then(|| self.read_config());
            let others = inbox::named_accounts(&request.verbs);
            let location = self.inbox.record_held(request.location);
            inputs.push(Input::Request(Box::new(RequestIn {
                requester: request.requester,
                head: request.head,
                verbs: request.verbs,
                others,
                config,
                location,
            })));
        }
        let reports = self.read_host_reports(now, all, &hosts, &mut inputs);
        let in_vain = boxes.keys().filter(|uid| !found.contains(uid));
        let futile = in_vain.count() + hosts.len().saturating_sub(reports);
        self.hints.note_futile_hints(futile);
        self.report_lost_history(&mut inputs);
        let changed = self.outgoing.report_problems(&mut inputs);
        if changed {
            self.view.summary.changed();
        }
        self.wakeups.watch(self.hosts.directories());
        let more = self.turn(inputs, now)?;
        self.reject(rejected, now)?;
        Ok(more || requests || reports > 0 || changed || self.outgoing.orders.has_changes())
    }

    /// Reads what hosts have reported. Returns how many of them had something.
    fn read_host_reports(
        &mut self,
        now: u64,
        all: bool,
        named: &BTreeSet<String>,
        inputs: &mut Vec<Input>,
    ) -> usize {
        let which = match all {
            true => HostSelection::All,
            false => HostSelection::Hosts(named),
        };
        let poll_ms = self.poll_ms();
        let state = &self.core.state;
        let no_work = |host: &str| state.on_host(host).next().is_none();
        let now = (now, clock::wall_ms());
        self.hosts.read_all(now, which, poll_ms, &no_work, inputs);
        let reports = |input: &&Input| matches!(input, Input::Reports { .. });
        inputs.iter().filter(reports).count()
    }

    /// Reads cb.yaml again for a request: the turn decides whether it takes effect.
    fn read_config(&mut self) -> Result<Arc<Config>, Vec<String>> {
        let owners = crate::spool::owners(&self.leadership.cluster);
        let loaded = super::conf::read(&self.site.layout, owners)?;
        Ok(self.configured.insert(loaded).config.clone())
    }

    /// Stores the configuration that was read last once a turn has put it in force.
    fn keep_config(&mut self) {
        let digest = self.core.state.config_digest();
        if let Some(read) = self.configured.take_if(|read| read.digest == digest) {
            read.store_last_good(&self.site.layout);
        }
    }

    fn turn(&mut self, inputs: Vec<Input>, now: u64) -> Result<bool, LeaderEnd> {
        let loads = inputs
            .iter()
            .any(|input| matches!(input, Input::Load { .. }));
        self.core.set_share_full(self.reserve.is_full());
        let began_ns = clock::boot_ns();
        let ready = turn::turn(&mut self.core, inputs, clock::now());
        self.view.meter.timed(TimedWork::Turn, began_ns);
        let (events, acks, wall_ms) = (&ready.events, &ready.acks, clock::wall_ms());
        self.view
            .meter
            .count_turn(events, acks, &self.core.state, wall_ms);
        if loads {
            self.view.summary.loads_changed();
        }
        if ready.events.iter().any(is_of_cluster) {
            self.view.summary.changed();
        } else if !ready.events.is_empty() {
            self.view.summary.jobs_changed();
        }
        let count = ready.events.len();
        let more = self.carry_out(ready, now)?;
        self.keep_config();
        if let Some(witness) = &self.witness {
            witness.after_turn(self.core.state.epoch(), &self.core.state, count > 0);
        }
        if self.view.burst_is_over(count) {
            crate::sys::memory::release_freed();
        }
        Ok(more)
    }

    /// Carries out the results of a turn, in the order that makes it safe.
    fn carry_out(&mut self, mut ready: Ready, now: u64) -> Result<bool, LeaderEnd> {
        // They are already stored: otherwise the requests that bring them were not passed to the
        // turn.
        for blob in &ready.blobs {
            self.retry_until_room(blob.bytes.len(), |leader| {
                Ok(leader.store.blobs.store(blob)?)
            })?;
        }
        let committed = self.commit(&ready.events)?;
        let ends = self.core.state.take_ends();
        self.view.meter.ended(&ends);
        self.store.accounts.push(ends);
        // On a local file system all orders are due now.
        if !self.wakeups.has_events() {
            let orders = std::mem::take(&mut ready.orders);
            ready.orders = self.outgoing.report_acks.hold_back(orders, now);
        }
        // Answers without events (refusals, repeated tokens) are also statements of a leader.
        if ready.events.is_empty() && !(ready.acks.is_empty() && ready.orders.is_empty()) {
            self.recheck()?;
        }
        if let (Some(witness), false) = (&self.witness, ready.events.is_empty()) {
            witness.committed(self.core.state.epoch(), &self.core.state);
        }
        self.publish_rows(!ready.acks.is_empty(), now)?;
        if ready.publish {
            self.publish_summary(true, now);
        }
        if !ready.acks.is_empty() {
            failpoint::hit("leader.before_ack");
            self.answer(&ready.acks)?;
            failpoint::hit("leader.after_ack");
        }
        if !ready.orders.is_empty() {
            failpoint::hit("leader.before_orders");
            let unsent = self.write_orders(std::mem::take(&mut ready.orders))?;
            // An earlier leader may have sent starts that were not decided in this turn.
            let decided = |a: AttemptId| ready.events.iter().any(|e| starts_attempt(e, a));
            self.outgoing.unsent = unsent.into_iter().filter(|(_, a)| decided(*a)).collect();
            failpoint::hit("leader.after_orders");
        }
        let damaged = std::mem::take(&mut ready.damaged);
        self.outgoing.orders.renew(damaged, now);
        let finished = self.inbox.release(&ready.finished_requests, now);
        self.inbox.remove_done(&finished.iter().collect::<Vec<_>>());
        self.store.clean(&ready.events);
        self.after(committed, ready.units >= turn::TURN_UNITS, now)?;
        Ok(ready.more)
    }

    /// Does something that must not fail, and repeats it as long as there is no room for its `need`
    /// bytes.
    pub(super) fn retry_until_room<T>(
        &mut self,
        need: usize,
        mut write: impl FnMut(&mut Leader) -> Result<T, journal::Error>,
    ) -> Result<T, LeaderEnd> {
        loop {
            match write(self) {
                Err(e) if e.is_no_space() => {
                    self.reserve.make_room(
                        need as u64 * 3 / 2,
                        &e.to_string(),
                        &self.leadership,
                        &self.wakeups.stop,
                    )?;
                    self.view.summary.changed();
                }
                other => return Ok(other?),
            }
        }
    }

    pub(super) fn answer(&mut self, acks: &[Ack]) -> Result<(), LeaderEnd> {
        self.outgoing.acks.push(acks);
        self.retry_until_room(0, |leader| Ok(leader.outgoing.acks.flush()?))?;
        self.hints.answered(acks);
        Ok(self.outgoing.acks.switch_file()?)
    }

    /// Makes the events durable and verifies that no other process leads.
    fn commit(&mut self, events: &[Event]) -> Result<Position, LeaderEnd> {
        if events.is_empty() {
            return Ok(self.store.journal.position());
        }
        for event in events {
            self.store.journal.append(event)?;
        }
        let bytes = self.store.journal.pending_bytes() as u64;
        if self.leadership.check() == Check::Before {
            self.recheck()?;
        }
        let need = self.store.journal.pending_bytes();
        let began_ns = clock::boot_ns();
        let at = self.retry_until_room(need, |leader| leader.store.journal.commit())?;
        self.view.meter.timed(TimedWork::Sync, began_ns);
        if self.leadership.check() == Check::After {
            self.recheck()?;
        }
        failpoint::hit("leader.after_check");
        self.store.snapshots.note_written(bytes);
        Ok(at)
    }

    pub(super) fn recheck(&self) -> Result<(), LeaderEnd> {
        let checked = self.leadership.recheck();
        checked.map_err(|e| LeaderEnd::Lost(e.to_string()))
    }

    /// What may wait until the answers are written. `full`: requests used up their part of this
    /// turn, so other commands wait for further turns.
    fn after(&mut self, at: Position, full: bool, now: u64) -> Result<(), LeaderEnd> {
        // As with the rows: the round is repeated.
        if let Err(e) = self.view.tick(&self.core.state, full, now) {
            self.view_lags(&e);
        }
        self.check_disk_space(now);
        self.outgoing.orders.remove_older_epochs();
        if self.outgoing.orders.retry_at().is_some_and(|at| at <= now) {
            self.write_orders(Vec::new())?;
        }
        self.write_report_acks(now)?;
        if self.view.is_due(self.hosts.count(), now) {
            self.publish_summary(false, now);
        }
        self.store_point_on_host(now)?;
        self.supervise_notifier(at, now);
        let keep = self.retention();
        // A snapshot takes room before its compaction frees some.
        if !self.reserve.is_full() {
            if self.store.account(at, now) {
                self.view.summary.changed();
            }
            self.store.maintain(&self.core.state, at, now, keep);
        }
        if self.leadership.is_lost() {
            return Err(LeaderEnd::Lost(
                "the lease was not renewed in time".to_owned(),
            ));
        }
        self.end_in_known_epoch()
    }

    /// Which parts of the journal and of older snapshots are kept.
    fn retention(&self) -> Retention {
        let general = &self.core.config.general;
        Retention {
            age_ms: general.journal_keep_ms,
            history: HistoryRetention {
                age_ms: general.history_keep_ms,
                bytes: general.history_bytes,
            },
            ..Retention::default()
        }
    }

    /// Runs `cbnotify` if cb.yaml has alerts or mail.
    fn supervise_notifier(&mut self, at: Position, now: u64) {
        let wanted = !self.core.config.notices.is_empty();
        if let Some(text) = self.notifier.supervise(wanted, at, now) {
            self.view.raise("notifier", text, now);
        }
    }

    /// Maintains the reserve; what waited for room continues when there is some.
    fn check_disk_space(&mut self, now: u64) {
        if self.reserve.maintain(now, &self.leadership) {
            self.view.summary.changed();
            if !self.reserve.is_full() {
                self.core.request_pass();
            }
        }
    }

    /// Waits for a hint, a signal, or the time of the next check. Returns true if an event arrived,
    /// so that anything may have changed. If no events come, busy or not, only what hints named or
    /// what is due is checked.
    fn wait(&mut self, began: u64, busy: bool) -> Result<bool, LeaderEnd> {
        let now = clock::boot_ms();
        let mut until = now.saturating_add(self.idle_ms());
        if busy {
            // Let the next turn gather more inputs for its sync. With little to do this is not
            // needed.
            until = began + BUSY_GAP_MS;
            if !self.wakeups.may_run_now(now) {
                clock::sleep_ms(until.saturating_sub(now));
                let all = self.wakeups.has_events();
                let stop = self.wakeups.stop.try_recv();
                return stop.map_or(Ok(all), |_| Err(LeaderEnd::Stopped));
            }
        }
        loop {
            let left = until.saturating_sub(clock::boot_ms());
            let (events, heard) = (self.wakeups.channel(), self.hints.receiver());
            match thread::any(&self.wakeups.stop, events, heard, left) {
                (Spoke::First, _) => return Err(LeaderEnd::Stopped),
                (Spoke::Second, _) => return Ok(true),
                (Spoke::Third, Some(hint)) => self.hints.take_all(Some(hint)),
                (Spoke::Third, None) => self.hints.note_closed(),
                (Spoke::Neither, _) => return Ok(busy && self.wakeups.has_events()),
            }
            if self.hints.call(clock::boot_ms()) {
                return Ok(false);
            }
        }
    }

    /// Longest pause between two checks of whatever changes without a hint.
    pub(super) fn poll_ms(&self) -> u64 {
        match self.wakeups.has_events() {
            true => IDLE_HINTED_MS,
            false => self.core.config.cluster.poll_interval_ms.max(1),
        }
    }

    fn idle_ms(&mut self) -> u64 {
        let mut ms = self.poll_ms();
        if self.reserve.is_full() {
            return ms.min(FULL_MS);
        }
        if let Some(due) = self.core.idle_ms(clock::now()) {
            ms = ms.min(due.max(1));
        }
        let now = clock::boot_ms();
        ms = ms.min(self.view.wait_ms(self.hosts.count(), now));
        ms = ms.min(self.outgoing.remind_ms());
        ms = ms.min(self.hosts.poll_pause_ms(now));
        let due_times = [
            self.inbox.due_ms(),
            self.hosts.due_ms(),
            self.outgoing.orders.retry_at(),
            self.outgoing.report_acks.due_ms(),
            self.view.publisher.flush_at(),
            self.store.accounts.due_at(),
            self.notifier.due_at(!self.core.config.notices.is_empty()),
        ];
        if let Some(due) = due_times.into_iter().flatten().min() {
            ms = ms.min(due.saturating_sub(now).max(1));
        }
        if let Some(wait) = self.new_boxes.wait_ms(self.inbox.is_listing()) {
            ms = ms.min(wait);
        }
        ms.min(self.hints.wait_ms(now))
    }
}
