//! The leading process: gathers inputs, takes turns, carries each `Ready` out in its fixed order.
//!
//! One thread owns everything here. After each sync the epoch is checked again; any error on the
//! way from the journal to the orders ends the process without a clean-up write, and a successor
//! repeats every answer and order.

use super::Witness;
use super::acks::Acks;
use super::alarms::Alarms;
use super::blobs::Blobs;
use super::conf::Loaded;
use super::disk_reserve::DiskReserve;
use super::election::Leadership;
use super::hints::{Hints, Named};
use super::hosts::{Hosts, Which};
use super::inbox::{Boxes, Inbox, Rejected, Taken};
use super::janitor::Janitor;
use super::outbox::Orders;
use super::publish::Publisher;
use super::receipts::Receipts;
use super::snapshots::Snapshots;
use super::summary_pace::SummaryPace;
use crate::config::Config;
use crate::journal::{self, Position, Writer};
use crate::lease::Check;
use crate::model::{AttemptId, Stamp};
use crate::record::ack::Ack;
use crate::record::event::Event;
use crate::record::order::Order;
use crate::record::report::{Report, ReportRecord};
use crate::record::request::Verb;
use crate::record::view;
use crate::spool::Layout;
use crate::spool::polling::Budget;
use crate::sys::thread::Which as Spoke;
use crate::sys::watch::Watcher;
use crate::sys::{self, clock, failpoint, fs, thread};
use crate::turn::{self, Core, Input, Ready, RequestIn};
use crossbeam::channel::Receiver;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Wait between looks at an idle share that raises events, in milliseconds.
const IDLE_HINTED_MS: u64 = 5000;
/// While inputs keep coming, turns are this far apart so that one sync serves many, in
/// milliseconds.
const BUSY_GAP_MS: u64 = 3;
/// So many busy turns a second, and at once, do not wait for more inputs: what a few people ask is
/// answered at once, and under load turns still serve many.
pub(super) const ALONE_PER_S: u64 = 100;
pub(super) const ALONE_MAX: u64 = 20;
/// Time for the published view in each turn, in milliseconds.
const PUBLISH_MS: u64 = 5;
/// How often it is given while requests fill each turn, in milliseconds.
const PUBLISH_EVERY_MS: u64 = 100;
/// Events of one turn after which freed memory is given back.
const BURST: usize = 5000;
/// How often drop boxes of new users are looked for after a hint, and while not all names were
/// looked at, in milliseconds.
pub(super) const USERS_HINTED_MS: u64 = 20;
/// Wait between looks while the share is full, in milliseconds.
const FULL_MS: u64 = 1000;
/// How often the leader's clock is compared with the file server's, in milliseconds.
const CLOCK_EVERY_MS: u64 = 30_000;
/// Most alarms shown.
const ALARMS_MAX: usize = 50;

/// Everything a leader holds.
pub(super) struct Leader {
    pub layout: Layout,
    pub cluster: String,
    pub host: String,
    pub leadership: Leadership,
    pub core: Core,
    pub journal: Writer,
    pub reserve: DiskReserve,
    pub publisher: Publisher,
    pub acks: Acks,
    pub orders: Orders,
    pub inbox: Inbox,
    pub hosts: Hosts,
    pub hints: Hints,
    /// Busy turns that need not wait for company: of a leader with little to do.
    pub alone: Budget,
    pub snapshots: Snapshots,
    pub janitor: Janitor,
    pub watcher: Watcher,
    pub stop: Receiver<i32>,
    /// Events on the share raise hints here (a local file system).
    pub hinted_share: bool,
    pub alarms: Alarms,
    /// Attempts bound in the last turn whose start no host was sent.
    pub unsent: Vec<(String, AttemptId)>,
    /// Acknowledgements that wait for orders to go with.
    pub receipts: Receipts,
    pub blobs: Blobs,
    pub since: Stamp,
    /// Since when no host was sent how far the journal has come (boot clock, ms).
    pub point_unsent_since: Option<u64>,
    /// When the summary views are written.
    pub(super) summary: SummaryPace,
    /// When the leader's clock was last compared with the file server's (boot clock, ms).
    pub clock_compared_at: Option<u64>,
    pub publishing: bool,
    /// When the published view was last given its time (boot clock, ms).
    pub ticked_at: u64,
    pub users_at: u64,
    pub users_due: bool,
    /// When the directory of drop boxes was last looked at (boot clock, ms), and its mark.
    pub users_seen: (u64, Option<fs::Mark>),
    /// The configuration to put in force with the first turn.
    pub first_config: Option<Arc<Config>>,
    /// A configuration that was read, to be kept once it is in force.
    pub configured: Option<Loaded>,
    /// Sees every turn; for simulations.
    pub witness: Option<Arc<dyn Witness>>,
    /// An attempt runs elsewhere only after its host's own word; see [`crate::lease::Protocol`].
    pub bind: bool,
}

/// Why a leader ends.
pub(super) enum End {
    /// Asked to.
    Stopped,
    /// It may not or cannot lead any longer; the reason is for the log.
    Lost(String),
}

impl From<crate::sys::Error> for End {
    fn from(e: crate::sys::Error) -> End {
        End::Lost(e.to_string())
    }
}

impl From<crate::journal::Error> for End {
    fn from(e: crate::journal::Error) -> End {
        End::Lost(e.to_string())
    }
}

/// Whether an order to start the attempt follows from this event.
fn lets_start(event: &Event, wanted: AttemptId) -> bool {
    match event {
        Event::Dispatched { a, .. } | Event::Gathered { a, .. } => *a == wanted,
        _ => false,
    }
}

impl Leader {
    /// Repeats everything that is in force, then leads until the end.
    pub(super) fn run(&mut self) -> End {
        if let Err(end) = self.first() {
            return end;
        }
        let mut all = true;
        loop {
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

    /// A new epoch's first acts: orders files for all hosts with what is in force, a fresh view.
    fn first(&mut self) -> Result<(), End> {
        let now = clock::boot_ms();
        // On a share that is full nothing is started, not even once; on another one the reserve is
        // made before anything can fill it.
        self.tend_room(now);
        let mut inputs: Vec<Input> = self
            .first_config
            .take()
            .map(Input::Config)
            .into_iter()
            .collect();
        let problems = std::mem::take(&mut self.core.config_problems);
        let state = &self.core.state;
        let no_work = |host: &str| state.on_host(host).next().is_none();
        let (times, poll_ms) = ((now, clock::wall_ms()), self.poll_ms());
        for (host, ctl) in state.known_hosts().filter(|(host, _)| !no_work(host)) {
            self.hosts.begin_with(host, ctl.part);
        }
        self.hosts
            .listen(times, Which::All, poll_ms, &no_work, &mut inputs);
        self.look_ahead(&mut inputs);
        // Before the first turn can take a time of day for reached.
        self.compare_clock(&self.layout.epoch());
        if !self.bind {
            self.take_all_back(&mut inputs);
        }
        self.core.config_problems = problems;
        self.turn(inputs, now)?;
        let mut orders = turn::outstanding(&self.core, None);
        // The name of a host's ledger alone does not make its file: it goes with each first order.
        let is_work = |order: &Order| !matches!(order, Order::Ledger { .. });
        let busy = orders.iter().filter(|(_, order)| is_work(order));
        let busy: BTreeSet<String> = busy.map(|(host, _)| host.clone()).collect();
        orders.retain(|(host, _)| busy.contains(host));
        self.write_orders(orders)?;
        let epoch = self.core.state.epoch();
        if let Err(e) = super::election::remove_old_claims(&self.layout, epoch) {
            tracing::warn!("{e}: old claims stay");
        }
        let _ = self.core.state.take_dirty();
        self.publish_summary(now)?;
        self.leadership.set_leading(true);
        // Hosts follow a new epoch at once.
        let endpoints = self.hosts.names().filter_map(|h| self.hosts.endpoint(h));
        endpoints.for_each(|endpoint| self.hints.ordered(endpoint));
        tracing::info!("epoch {epoch} is in force: orders repeated, requests taken");
        Ok(())
    }

    /// Unbinds what was dispatched and is not known to have started, without a word of its host:
    /// the rule that simulations take away.
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
                inputs.push(Input::Reports {
                    host: host.clone(),
                    part: 0,
                    reports: vec![ReportRecord {
                        seq: 0,
                        run: Default::default(),
                        report: Report::Never { a, why },
                    }],
                    more: true,
                });
            }
        }
    }

    /// Gathers, takes a turn. `all`: something changed, and it is not known where. True when there
    /// was something to do.
    fn step(&mut self, now: u64, all: bool) -> Result<bool, End> {
        let mut inputs = Vec::new();
        self.hints.take(None);
        let (boxes, hosts) = self.hints.due(now, &self.hosts);
        self.find_users(now, all, &boxes)?;
        // First the watch: what comes after the look gives a hint.
        self.watch(self.inbox.directories());
        let (taken, mut rejected) = self.take_requests(now, all, &boxes);
        let found = taken.iter().map(|request| &request.place);
        let found = found.chain(rejected.iter().map(|bad| &bad.place));
        let found: BTreeSet<u32> = found.map(|place| place.uid).collect();
        if self.inbox.is_waiting(now) {
            let text = "the user database does not answer or is slow: users that this leader has \
                        not seen yet wait";
            self.alarms.raise("accounts", text.to_owned(), now);
        }
        let (taken, refused) = self.keep_blobs(taken, now)?;
        rejected.extend(refused);
        let requests = !taken.is_empty();
        for request in taken {
            let wants_config = request.verbs.contains(&Verb::Reconfig);
            let config = wants_config.then(|| self.read_config());
            let place = self.inbox.hold(request.place);
            inputs.push(Input::Request(Box::new(RequestIn {
                who: request.who,
                head: request.head,
                verbs: request.verbs,
                config,
                place,
            })));
        }
        let reports = self.listen(now, all, &hosts, &mut inputs);
        let in_vain = boxes.keys().filter(|uid| !found.contains(uid));
        let vain = in_vain.count() + hosts.len().saturating_sub(reports);
        self.hints.in_vain(vain);
        self.look_ahead(&mut inputs);
        let news = self.hear_of_orders(&mut inputs);
        self.watch(self.hosts.directories());
        let more = self.turn(inputs, now)?;
        self.reject(rejected, now)?;
        Ok(more || requests || reports > 0 || news || self.orders.has_news())
    }

    /// Reads what hosts have reported; how many of them had something.
    fn listen(
        &mut self,
        now: u64,
        all: bool,
        named: &BTreeSet<String>,
        inputs: &mut Vec<Input>,
    ) -> usize {
        let which = match all {
            true => Which::All,
            false => Which::Hosts(named),
        };
        let poll_ms = self.poll_ms();
        let state = &self.core.state;
        let no_work = |host: &str| state.on_host(host).next().is_none();
        let now = (now, clock::wall_ms());
        self.hosts.listen(now, which, poll_ms, &no_work, inputs);
        let reports = |input: &&Input| matches!(input, Input::Reports { .. });
        inputs.iter().filter(reports).count()
    }

    /// Reads cb.yaml again for a request: the turn decides whether it comes into force.
    fn read_config(&mut self) -> Result<Arc<Config>, Vec<String>> {
        let owners = crate::spool::owners(&self.leadership.cluster);
        let loaded = super::conf::read(&self.layout, owners)?;
        Ok(self.configured.insert(loaded).config.clone())
    }

    /// Keeps the configuration that was read last once a turn has put it in force.
    fn keep_config(&mut self) {
        let digest = self.core.state.config_digest();
        if let Some(read) = self.configured.take_if(|read| read.digest == digest) {
            read.keep(&self.layout);
        }
    }

    /// What lies in the drop boxes. On a full share it stays there, but for the signals by which
    /// people end what fills it.
    fn take_requests(
        &mut self,
        now: u64,
        all: bool,
        hinted: &Named,
    ) -> (Vec<Taken>, Vec<Rejected>) {
        self.inbox.set_poll(self.poll_ms());
        let boxes = match all {
            true => Boxes::All,
            false => Boxes::Of(hinted),
        };
        if !self.reserve.is_full() {
            return self.inbox.take(now, boxes);
        }
        if !self.reserve.may_spend() {
            return (Vec::new(), Vec::new());
        }
        let (mut taken, _) = self.inbox.take(now, boxes);
        let signal = |verb: &Verb| matches!(verb, Verb::Signal { .. });
        taken.retain(|request| request.verbs.iter().all(signal));
        (taken, Vec::new())
    }

    fn turn(&mut self, inputs: Vec<Input>, now: u64) -> Result<bool, End> {
        let loads = inputs
            .iter()
            .any(|input| matches!(input, Input::Load { .. }));
        self.core.set_share_full(self.reserve.is_full());
        let ready = turn::turn(&mut self.core, inputs, clock::now());
        if loads {
            self.summary.loads_changed();
        }
        if !ready.events.is_empty() {
            self.summary.changed();
        }
        let burst = ready.events.len() > BURST;
        let changed = !ready.events.is_empty();
        let more = self.carry_out(ready, now)?;
        self.keep_config();
        if let Some(witness) = &self.witness {
            witness.turned(self.core.state.epoch(), &self.core.state, changed);
        }
        if burst {
            crate::sys::memory::give_back();
        }
        Ok(more)
    }

    /// Carries out what a turn wants, in the order that makes it safe.
    fn carry_out(&mut self, mut ready: Ready, now: u64) -> Result<bool, End> {
        // They are there already: the requests that bring them were kept off otherwise.
        for blob in &ready.blobs {
            self.must(blob.bytes.len(), |leader| Ok(leader.blobs.store(blob)?))?;
        }
        let committed = self.commit(&ready.events)?;
        ready.orders = self.due_orders(std::mem::take(&mut ready.orders), now);
        // Answers without events (refusals, repeated tokens) are a leader's word all the same.
        if ready.events.is_empty() && !(ready.acks.is_empty() && ready.orders.is_empty()) {
            self.recheck()?;
        }
        if let (Some(witness), false) = (&self.witness, ready.events.is_empty()) {
            witness.committed(self.core.state.epoch(), &self.core.state);
        }
        self.publish_rows(!ready.acks.is_empty(), now)?;
        if ready.publish {
            self.publish_summary(now)?;
        }
        if !ready.acks.is_empty() {
            failpoint::hit("leader.before_ack");
            self.answer(&ready.acks)?;
            failpoint::hit("leader.after_ack");
        }
        if !ready.orders.is_empty() {
            failpoint::hit("leader.before_orders");
            let unsent = self.write_orders(std::mem::take(&mut ready.orders))?;
            // An earlier leader may have sent what was not decided in this turn.
            let decided = |a: AttemptId| ready.events.iter().any(|e| lets_start(e, a));
            self.unsent = unsent.into_iter().filter(|(_, a)| decided(*a)).collect();
            failpoint::hit("leader.after_orders");
        }
        let damaged = std::mem::take(&mut ready.damaged);
        self.orders.renew(damaged, now);
        let taken = self.inbox.release(&ready.taken, now);
        self.inbox.take_away(&taken.iter().collect::<Vec<_>>());
        self.clean(&ready.events);
        self.after(committed, ready.units >= turn::TURN_UNITS, now)?;
        Ok(ready.more)
    }

    /// Does what must not fail, as often as it finds no room for its `need` bytes.
    pub(super) fn must<T>(
        &mut self,
        need: usize,
        mut write: impl FnMut(&mut Leader) -> Result<T, journal::Error>,
    ) -> Result<T, End> {
        loop {
            match write(self) {
                Err(e) if e.is_no_space() => {
                    self.reserve.make(
                        need as u64 * 3 / 2,
                        &e.to_string(),
                        &self.leadership,
                        &self.stop,
                    )?;
                    self.summary.changed();
                }
                other => return Ok(other?),
            }
        }
    }

    fn answer(&mut self, acks: &[Ack]) -> Result<(), End> {
        self.acks.push(acks);
        self.must(0, |leader| Ok(leader.acks.flush()?))?;
        self.hints.answered(acks);
        Ok(self.acks.turn_over()?)
    }

    /// The view that readers see may lag on a full share.
    fn may_lag(&mut self, wrote: sys::Result<()>) {
        if let Err(e) = wrote {
            self.view_lags(&e);
        }
    }

    /// Makes the events durable and makes sure that no other process leads.
    fn commit(&mut self, events: &[Event]) -> Result<Position, End> {
        if events.is_empty() {
            return Ok(self.journal.position());
        }
        for event in events {
            self.journal.append(event)?;
        }
        let bytes = self.journal.pending_bytes() as u64;
        if self.leadership.check() == Check::Before {
            self.recheck()?;
        }
        let need = self.journal.pending_bytes();
        let at = self.must(need, |leader| leader.journal.commit())?;
        if self.leadership.check() == Check::After {
            self.recheck()?;
        }
        failpoint::hit("leader.after_check");
        self.snapshots.grew(bytes);
        Ok(at)
    }

    pub(super) fn recheck(&self) -> Result<(), End> {
        let checked = self.leadership.recheck();
        checked.map_err(|e| End::Lost(e.to_string()))
    }

    /// Sets unreadable requests aside and answers where an answer can be given.
    fn reject(&mut self, rejected: Vec<Rejected>, now: u64) -> Result<(), End> {
        if !rejected.is_empty() && self.leadership.check() == Check::After {
            self.recheck()?;
        }
        for bad in rejected {
            if let Some(tok) = bad.token {
                let error = format!("the request was not accepted: {}", bad.why);
                self.answer(&[Ack::refused(tok, error)])?;
            }
            self.inbox.set_aside(&bad, now);
        }
        Ok(())
    }

    fn clean(&self, events: &[Event]) {
        for event in events {
            if let Event::Cleaned { ids, .. } = event {
                self.janitor.forget(ids.clone());
            }
        }
    }

    /// What may wait until the answers are out. `full`: requests used up their part of this turn,
    /// and those who wait for their answers wait for further turns.
    fn after(&mut self, at: Position, full: bool, now: u64) -> Result<(), End> {
        if !full || now.saturating_sub(self.ticked_at) >= PUBLISH_EVERY_MS {
            self.ticked_at = now;
            match self.publisher.tick(&self.core.state, PUBLISH_MS) {
                Ok(more) => self.publishing = more,
                // As with the rows: the round is tried again.
                Err(e) => self.view_lags(&e),
            }
        }
        self.tend_room(now);
        self.orders.sweep();
        if self.orders.retry_at().is_some_and(|at| at <= now) {
            self.write_orders(Vec::new())?;
        }
        self.write_receipts(now)?;
        if self
            .summary
            .due_ms(self.hosts.count())
            .is_some_and(|at| at < now)
        {
            self.publish_summary(now)?;
        }
        self.have_remembered(now)?;
        let keep_ms = self.core.config.general.journal_keep_ms;
        // A snapshot takes room before its compaction gives some back.
        if !self.reserve.is_full() && self.snapshots.step(&self.core.state, at, now, keep_ms) {
            let live = self
                .core
                .state
                .blobs()
                .into_iter()
                .map(str::to_owned)
                .collect();
            // What was stored long ago may go now: the next job with it stores it again.
            self.blobs.forget();
            self.janitor.sweep(live);
        }
        if self.leadership.is_lost() {
            return Err(End::Lost("the lease was not renewed in time".to_owned()));
        }
        self.leave_old_epochs()
    }

    /// Writes what changed in this turn, for readers, in one write. `answers`: a command waits for
    /// an answer. Rows that no command waits for are written a few times a second at most.
    fn publish_rows(&mut self, answers: bool, now: u64) -> Result<(), End> {
        let changed = self.core.state.take_delta();
        let state = &self.core.state;
        let (rows, shards) = state.delta_rows(changed);
        if !rows.is_empty() {
            self.publisher.rows(&rows, &|id| state.spec(id).as_ref());
            self.publisher.touch(shards);
        }
        drop(rows);
        let soon = !self.hinted_share && self.publisher.flush_at().is_some_and(|at| now < at);
        if soon && !answers {
            return Ok(());
        }
        // A full disk costs freshness, not correctness: the rows come with the next round.
        if let Err(e) = self.publisher.flush() {
            self.view_lags(&e);
        }
        Ok(())
    }

    /// Looks after the reserve; what waited for room goes on when there is some.
    fn tend_room(&mut self, now: u64) {
        if self.reserve.tend(now, &self.leadership) {
            self.summary.changed();
            if !self.reserve.is_full() {
                self.core.request_pass();
            }
        }
    }

    fn view_lags(&mut self, e: &sys::Error) {
        if e.is_no_space() {
            return self.reserve.fill(&e.to_string(), &self.leadership);
        }
        let text = format!("commands show an old state, the view lags: {e}");
        self.alarms.raise("view", text, clock::boot_ms());
    }

    fn publish_summary(&mut self, now: u64) -> Result<(), End> {
        self.summary.written(now);
        turn::refresh(&mut self.core);
        let recent = |at: u64| now.saturating_sub(at) < CLOCK_EVERY_MS;
        if !self.clock_compared_at.is_some_and(recent) {
            self.clock_compared_at = Some(now);
            // Seconds old at most, which is little against the minute that counts.
            self.compare_clock(&self.layout.beat());
        }
        let core = &self.core;
        let mut params = turn::params(core, &self.cluster, &self.host, self.since);
        let full = self.reserve.alarm();
        let back = core.state.back();
        let back = back.map(|back| turn::restored_share_alarm(back, core.state.epoch()));
        let clock_alarm = core.clock_alarm();
        let (orders, snapshots) = (self.orders.alarm(), self.snapshots.alarm());
        let unreadable = self.hosts.damages(now);
        let alarms = full.iter().chain(&back).chain(&clock_alarm).chain(&orders);
        let alarms = alarms.chain(&snapshots).chain(self.alarms.texts(now));
        let alarms = alarms.chain(self.orders.damages(now));
        let alarms = alarms.chain(&unreadable).chain(&self.hosts.alarms);
        params.alarms = alarms.take(ALARMS_MAX).cloned().collect();
        let wall = Stamp(clock::wall_ms());
        let publisher = &mut self.publisher;
        // The parameters first: they tell of a share without room for the rest. Each for itself:
        // one that cannot be replaced must not keep the others.
        let wrote = [
            publisher.document(view::PARAMS, &[params]),
            publisher.document(view::HOSTS, &turn::host_rows(core)),
            publisher.document(view::QUEUES, &turn::queue_rows(core)),
            publisher.document(view::USERS, &turn::user_rows(core)),
            publisher.document(view::LIMITS, &turn::limit_rows(core)),
            publisher.document(view::SHARES, &turn::share_rows(core, wall)),
            publisher.document(view::ESTIMATES, &turn::estimate_rows(core)),
        ];
        self.may_lag(wrote.into_iter().collect());
        Ok(())
    }

    /// Compares the leader's clock with the file server's, by a file that this leader wrote just
    /// now.
    fn compare_clock(&mut self, written: &Path) {
        if let Ok(Some(written)) = fs::stat(written) {
            let now = clock::now();
            let ahead_ms = now.wall.0.saturating_sub(written.mtime_ms);
            self.core.note_server_clock(now, ahead_ms);
        }
    }

    /// Watches directories that others write into, and what took the place of one.
    fn watch(&mut self, directories: Vec<PathBuf>) {
        if self.hinted_share {
            directories.iter().for_each(|dir| {
                self.watcher.add(dir);
            });
        }
    }

    /// Waits for a hint, a signal, or the time to look again. True when an event came, so that
    /// anything may have changed. Where no events come, busy or not, only that is looked at which
    /// hints named or whose time has come.
    fn wait(&mut self, began: u64, busy: bool) -> Result<bool, End> {
        let now = clock::boot_ms();
        let mut until = now.saturating_add(self.idle_ms());
        if busy {
            // Let the next turn gather company for its sync. With little to do it need not.
            until = began + BUSY_GAP_MS;
            if self.alone.left(now) == 0 {
                clock::sleep_ms(until.saturating_sub(now));
                let all = self.hinted_share;
                return self.stop.try_recv().map_or(Ok(all), |_| Err(End::Stopped));
            }
            self.alone.spend(1);
        }
        loop {
            let left = until.saturating_sub(clock::boot_ms());
            let (events, heard) = (self.watcher.hints(), self.hints.heard());
            match thread::any(&self.stop, events, heard, left) {
                (Spoke::First, _) => return Err(End::Stopped),
                (Spoke::Second, _) => return Ok(true),
                (Spoke::Third, Some(hint)) => self.hints.take(Some(hint)),
                (Spoke::Third, None) => self.hints.deafen(),
                (Spoke::Neither, _) => return Ok(busy && self.hinted_share),
            }
            if self.hints.call(clock::boot_ms()) {
                return Ok(false);
            }
        }
    }

    /// Longest pause between two looks at what changes without a hint.
    fn poll_ms(&self) -> u64 {
        match self.hinted_share {
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
        if let Some(due) = self.summary.due_ms(self.hosts.count()) {
            ms = ms.min(due.saturating_sub(now).max(250));
        }
        if self.publishing {
            ms = ms.min(250);
        }
        if !self.orders.is_remembered() {
            ms = ms.min(super::restored::REMIND_MS);
        }
        ms = ms.min(self.hosts.pace(now));
        let looks = [
            self.inbox.due_ms(),
            self.hosts.due_ms(),
            self.orders.retry_at(),
            self.receipts.due_ms(),
            self.publisher.flush_at(),
        ];
        if let Some(due) = looks.into_iter().flatten().min() {
            ms = ms.min(due.saturating_sub(now).max(1));
        }
        if self.users_due || self.inbox.is_listing() {
            ms = ms.min(USERS_HINTED_MS);
        }
        ms.min(self.hints.wait_ms(now))
    }
}
