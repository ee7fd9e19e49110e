//! Floor 4: one bounded turn of the leader. `turn(core, inputs, now) -> Ready`: pure.
//!
//! The driver gathers inputs, calls [`turn`], and carries the [`Ready`] out in this order: blobs,
//! events (append, sync), re-check of the epoch, view delta, acknowledgements, orders, taken
//! requests. Nothing of a `Ready` may be done before its events are durable; all of it may be done
//! twice.

mod admin;
mod damaged_files;
mod forced_start;
mod gang_start;
mod host_backoff;
mod job_verbs;
mod leader_clock;
mod modify;
mod plan_sink;
mod reports;
mod requests;
mod restored_share;
mod schedule;
mod scheduler_views;
mod sensor_resources;
mod share_history;
mod signal;
mod stray_runs;
mod submit;
mod summary_views;

#[cfg(test)]
mod tests;

pub use requests::TURN_UNITS;
pub use restored_share::alarm_text as restored_share_alarm;
pub use schedule::outstanding;
pub use scheduler_views::{estimate_rows, limit_rows, refresh, share_rows};
pub use submit::blobs;
pub use summary_views::{host_rows, params, queue_rows, user_rows};

use crate::config::Config;
use crate::intake::Requester;
use crate::model::{JobKey, Mono, Now, Stamp, Token};
use crate::record::ack::{Ack, Code, Outcome, RESULTS_MAX};
use crate::record::event::Event;
use crate::record::load::LoadDoc;
use crate::record::order::Order;
use crate::record::report::ReportRecord;
use crate::record::request::{RequestHead, Verb};
use crate::ress::gather::Gather;
use crate::sched::{Engine, HostTable};
use crate::state::{HostId, PREFETCH_BATCH, State};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most starts decided in one turn: keeps turns short; the next turn goes on.
pub const STARTS_MAX: usize = 4096;
/// Most finished jobs forgotten in one turn.
const CLEAN_MAX: usize = 10_000;
/// Reports of a host that are read ahead together with other hosts'.
const REPORTS_NEAR: usize = 4;
/// Longest operand and text of one part of an answer, in bytes.
const OPERAND_MAX: usize = 300;
const TEXT_MAX: usize = 16 << 10;
/// Bytes of texts in one answer behind which the rest are cut short, and to what.
const TEXTS_MAX: usize = 1 << 20;
const SHORT_MAX: usize = 200;
/// How long a token answers again with the same result.
const TOKEN_KEEP_MS: u64 = 24 * 3600 * 1000;
/// A host whose heart has not been seen to beat for this long is unavailable.
pub const SILENT_MS: u64 = 20_000;
/// Looks at jobs and their elements by which a turn judges conditions, and what one condition takes
/// besides.
const JUDGE_LOOKS: u64 = 1_000_000;
const JUDGE_EACH: u64 = 100;

/// Everything the leader knows and needs to decide.
pub struct Core {
    pub state: State,
    pub config: Arc<Config>,
    /// Uid that owns the share: its requests come from the administrator of a single-user cluster.
    pub service_uid: u32,
    /// Last load sample per host and milliseconds since its beat changed.
    pub seen: BTreeMap<String, (LoadDoc, u64)>,
    pub hosts: HostTable,
    pub engine: Engine,
    /// Something changed that may let a job start.
    pub needs_pass: bool,
    /// The share has no room: nothing is started, ended by the planner or moved.
    pub full: bool,
    /// When to look again although nothing happens (`-b`).
    pub wake: Option<Stamp>,
    hosts_dirty: bool,
    /// What sensors report.
    pub(crate) gather: Gather,
    /// Attempts that the present report file of a host has spoken of, until the end of the file
    /// was reached behind its `Complete`.
    pub(crate) mentioned: BTreeMap<String, BTreeSet<crate::model::AttemptId>>,
    /// Boot ids of hosts whose `Complete` was read, the end of the file not yet.
    pub(crate) completed: BTreeMap<String, String>,
    /// Ledgers that hosts named in their present report files, until `Complete`.
    pub(crate) ledgers: BTreeMap<String, (String, bool)>,
    /// Hosts that are silent for longer than [`SILENT_MS`].
    pub(crate) silent: BTreeSet<String>,
    /// `iso_timeout` as it was ordered from hosts that do not report it yet.
    pub(crate) limits: BTreeMap<String, u64>,
    /// Runs that are over and that a host may still have, and whether it was ordered to kill them.
    pub(crate) leftovers: BTreeMap<String, stray_runs::Runs>,
    /// Hosts whose reports this leader has read to their end.
    pub(crate) heard: BTreeSet<String>,
    /// Jobs kept out of scheduling until a run of theirs that nobody here knew has ended.
    pub(crate) outlived: BTreeSet<u32>,
    /// Hosts whose executor lives and that get no work all the same.
    pub(crate) excluded: BTreeSet<String>,
    /// Hosts that could not start their last task, and how often jobs were put back for that.
    pub(crate) faults: BTreeMap<String, host_backoff::Backoff>,
    pub(crate) tries: BTreeMap<crate::model::JobKey, u8>,
    /// Hosts whose orders cannot be written, and why.
    pub(crate) unwritten: BTreeMap<String, String>,
    /// Requests that were taken in and not answered.
    pub(crate) underway: requests::RequestQueue,
    /// Report files that are damaged: file, record, byte. Their hosts are to begin others.
    pub(crate) unreadable: BTreeMap<String, (u64, u64, u64)>,
    /// Groups by user, as the driver looked them up.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Problems of the last refused reconfiguration, for the view.
    pub config_problems: Vec<String>,
    /// Slots kept for reservations, as of the last [`refresh`].
    pub(crate) kept: scheduler_views::ReservedSlots,
    /// Attempts whose hosts prepare their parts, and which have.
    pub(crate) gathering: BTreeMap<crate::model::AttemptId, gang_start::PartPreparation>,
    /// The job whose condition was judged last.
    last_judged: u32,
    /// Jobs kept out of scheduling after a host did not prepare its part.
    pub(crate) parked: BTreeMap<u32, gang_start::RetryDelay>,
    /// The attempts that an earlier leader began to gather are known.
    counted: bool,
    /// Queues whose share trees have history that is not journalled, and when it last was.
    owed: BTreeSet<String>,
    owed_since: Mono,
    last_expire: Mono,
    /// When the planner last ran.
    last_pass: Mono,
    /// The leader's wall clock: its steps, and whether the hosts' clocks agree with it.
    clock: leader_clock::LeaderClock,
}

impl Core {
    pub fn new(state: State, config: Arc<Config>, service_uid: u32) -> Core {
        Core {
            engine: Engine::new(config.clone()),
            state,
            config,
            service_uid,
            seen: BTreeMap::new(),
            hosts: HostTable::default(),
            needs_pass: true,
            full: false,
            wake: None,
            hosts_dirty: true,
            gather: Gather::default(),
            mentioned: BTreeMap::new(),
            completed: BTreeMap::new(),
            ledgers: BTreeMap::new(),
            silent: BTreeSet::new(),
            limits: BTreeMap::new(),
            leftovers: BTreeMap::new(),
            heard: BTreeSet::new(),
            outlived: BTreeSet::new(),
            excluded: BTreeSet::new(),
            faults: BTreeMap::new(),
            tries: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            underway: requests::RequestQueue::default(),
            unreadable: BTreeMap::new(),
            groups: BTreeMap::new(),
            config_problems: Vec::new(),
            kept: scheduler_views::ReservedSlots::default(),
            gathering: BTreeMap::new(),
            last_judged: 0,
            parked: BTreeMap::new(),
            counted: false,
            owed: BTreeSet::new(),
            owed_since: Mono(0),
            last_expire: Mono(0),
            last_pass: Mono(0),
            clock: leader_clock::LeaderClock::default(),
        }
    }

    /// When pending jobs are to be looked at again even if nothing changed (`sched_interval`):
    /// what `select[]` asks for may become true by itself.
    pub fn next_pass(&self) -> Option<Mono> {
        let every = self.config.general.sched_interval_ms;
        (self.state.pending_jobs() > 0).then(|| self.last_pass.plus_ms(every))
    }

    /// How long nothing becomes due by time alone, in milliseconds; `None`: for ever.
    pub fn idle_ms(&self, now: Now) -> Option<u64> {
        // After a restore nothing is decided, whatever is due.
        if self.state.back().is_some() {
            return None;
        }
        let wall = self.clock.agreed(now.wall);
        let days = [self.wake, self.state.next_deadline()]
            .into_iter()
            .flatten();
        let days = days.map(|at| at.since_ms(wall));
        let intervals = [
            self.next_pass(),
            self.next_gang_deadline(),
            self.next_history(),
        ];
        let intervals = intervals.into_iter().flatten();
        days.chain(intervals.map(|at| at.since_ms(now.mono))).min()
    }
}

impl Core {
    /// Groups of a user in the operating system, as the driver looked them up.
    pub fn note_groups(&mut self, user: &str, groups: &[String]) {
        self.engine.note_groups(user, groups);
        self.groups.insert(user.to_owned(), groups.to_vec());
    }
}

/// One thing that happened.
pub enum Input {
    Request(Box<RequestIn>),
    /// Reports of one host in order, from file `part`.
    Reports {
        host: String,
        part: u64,
        reports: Vec<ReportRecord>,
        /// The file goes on behind these.
        more: bool,
    },
    /// A host's load sample; `silent_ms` since its beat last changed.
    Load {
        host: String,
        doc: Box<LoadDoc>,
        silent_ms: u64,
    },
    /// A host remembers what the journal does not have: it has followed `epoch`, which nobody
    /// claimed here, or was given orders in it that nothing here accounts for. It and others were
    /// given jobs up to `id`. Comes before what the same look brought.
    RestoredShare {
        host: String,
        epoch: u64,
        id: u32,
    },
    /// Orders to this host cannot be written, and why; `None`: they can be again.
    OrdersBlocked {
        host: String,
        why: Option<String>,
    },
    /// Report file `part` of a host is damaged from record `seq` (byte `at`) on.
    ReportsDamaged {
        host: String,
        part: u64,
        seq: u64,
        at: u64,
    },
    /// cb.yaml was read (at the start of the epoch, or for a request that is in the same turn).
    Config(Arc<Config>),
}

impl Input {
    /// What the first reports are about, for reading ahead.
    fn first_works(&self) -> impl Iterator<Item = (JobKey, Option<HostId>)> {
        let reports = match self {
            Input::Reports { reports, .. } => &reports[..],
            _ => &[],
        };
        let attempts = reports.iter().filter_map(|record| record.report.attempt());
        attempts.map(|a| (a.j, None)).take(REPORTS_NEAR)
    }
}

/// A request as the driver read it.
pub struct RequestIn {
    pub who: Requester,
    pub head: RequestHead,
    pub verbs: Vec<Verb>,
    /// For `Reconfig`: the new configuration or its problems.
    pub config: Option<Result<Arc<Config>, Vec<String>>>,
    /// Where the request lies, given back in [`Ready::taken`] by this turn or a later one.
    pub place: usize,
}

/// A content-addressed file that must exist before the events are appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pub sha: String,
    pub bytes: Vec<u8>,
}

/// A part of a host's orders that the host reads up to byte `at`, and why not further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedOrders {
    pub host: String,
    pub part: u64,
    pub at: u64,
    pub why: String,
}

/// What a turn wants done.
#[derive(Default)]
pub struct Ready {
    pub blobs: Vec<Blob>,
    pub events: Vec<Event>,
    pub acks: Vec<Ack>,
    /// Orders by host.
    pub orders: Vec<(String, Order)>,
    /// Orders files of this epoch that their hosts cannot read to the end.
    pub damaged: Vec<DamagedOrders>,
    /// `place` of requests that were carried out or refused.
    pub taken: Vec<usize>,
    /// The summary views (queues, hosts, users, parameters) must be fresh before the acks.
    pub publish: bool,
    /// There is more to do at once.
    pub more: bool,
    /// Work that requests made, in units of [`TURN_UNITS`].
    pub units: u64,
}

/// The working of one turn: events are applied as they arise, so later steps see earlier ones.
pub(crate) struct Turn<'a> {
    pub core: &'a mut Core,
    /// The time by the wall clock, or by most hosts' clocks where the leader's differs: for what
    /// people read and write as a time of day.
    pub now: Stamp,
    /// The monotonic clock: for every interval.
    pub mono: Mono,
    pub out: Ready,
    /// Units at which the part of the present request ends.
    slice_end: u64,
}

/// Takes one turn.
pub fn turn(core: &mut Core, inputs: Vec<Input>, now: Now) -> Ready {
    let mut turn = Turn {
        core,
        now: now.wall,
        mono: now.mono,
        out: Ready::default(),
        slice_end: 0,
    };
    turn.observe_clock(now);
    let mut inputs = inputs.into_iter();
    while inputs.len() > 0 {
        let ahead = inputs.as_slice().iter().take(PREFETCH_BATCH);
        let works: Vec<_> = ahead.flat_map(Input::first_works).collect();
        turn.core.state.prefetch(&works);
        inputs
            .by_ref()
            .take(PREFETCH_BATCH)
            .for_each(|input| turn.input(input));
    }
    turn.process_requests();
    if turn.core.state.is_old() {
        // What follows from a state that is older than what happened would do harm.
        turn.out.orders.clear();
        // People see the hosts all the same.
        turn.rebuild_hosts();
        return turn.out;
    }
    turn.tick();
    turn.schedule();
    turn.renew_orders();
    turn.out
}

impl Turn<'_> {
    /// Applies an event and keeps it for the journal.
    pub fn emit(&mut self, event: Event) {
        // What is over on several hosts is over for all of them.
        let over = match &event {
            Event::Ended { e, .. } => self.part_end_orders(e.a),
            Event::Unbound { a, .. } => self.part_end_orders(*a),
            _ => Vec::new(),
        };
        if let Event::Ended { e, .. } = &event {
            self.note_share_use(e.a.j.id);
        }
        self.core.state.apply(&event);
        self.out.events.push(event);
        self.out.orders.extend(over);
    }

    fn input(&mut self, input: Input) {
        match input {
            Input::Request(request) => self.request(*request),
            Input::RestoredShare { host, epoch, id } => self.note_restored_share(host, epoch, id),
            Input::Reports { .. } if self.core.state.is_old() => {}
            Input::Reports {
                host,
                part,
                reports,
                more,
            } => self.reports(&host, part, reports, more),
            Input::Load {
                host,
                doc,
                silent_ms,
            } => self.load(&host, *doc, silent_ms),
            Input::OrdersBlocked { host, why } => self.orders_blocked(host, why),
            Input::ReportsDamaged {
                host,
                part,
                seq,
                at,
            } => self.reports_damaged(host, (part, seq, at)),
            Input::Config(config) => self.configure(config),
        }
    }

    pub(crate) fn configure(&mut self, config: Arc<Config>) {
        let digest = config.digest();
        let before: BTreeSet<String> = self.core.config.host_names().map(str::to_owned).collect();
        self.core.config = self.with_sensor_resources(config);
        if self.core.state.config_digest() != digest {
            let t = self.now;
            self.emit(Event::Config { digest, t });
        }
        for name in self
            .core
            .config
            .host_names()
            .map(str::to_owned)
            .collect::<Vec<_>>()
        {
            if self.core.state.host_id(&name).is_none() {
                let (up, boot, t) = (false, String::new(), self.now);
                self.emit(Event::HostSeen { name, up, boot, t });
            } else if !before.contains(&name) {
                self.name_ledger(&name);
            }
        }
        self.core.engine.configure(self.core.config.clone());
        self.core.config_problems.clear();
        self.hosts_changed();
        self.out.publish = true;
    }

    /// Says for which ledger the orders of a host are, as it was not said at the start of this
    /// epoch to one that cb.yaml did not name then: it would follow none.
    fn name_ledger(&mut self, host: &str) {
        let id = self.core.state.host_ctl(host).ledger;
        if !id.is_empty() {
            let order = Order::Ledger { id };
            self.out.orders.push((host.to_owned(), order));
        }
    }

    pub(crate) fn hosts_changed(&mut self) {
        self.core.hosts_dirty = true;
        self.core.needs_pass = true;
    }

    /// The answer to a token that was carried out before.
    fn again(&self, tok: Token) -> Option<Ack> {
        let known = self.core.state.known(tok)?;
        let mut ack = empty_ack(tok);
        for (line, id, n) in &known.jobs {
            let queue = self
                .core
                .state
                .spec_of(*id)
                .map_or(String::new(), |s| s.queue.clone());
            ack.ids.push(crate::record::ack::IdRun {
                line: *line,
                id: *id,
                n: *n,
                queue,
                default: false,
                known: true,
                t: self.core.state.job(*id).map_or(0, |job| job.submit.0),
            });
        }
        Some(ack)
    }

    /// What time alone brings.
    fn tick(&mut self) {
        self.judge_dependencies();
        self.fence_silent_hosts();
        self.gather();
        self.journal_share_history();
        self.end_overdue();
        let keep = self.core.config.general.clean_period_ms;
        let old = self.core.clock.older_than(keep);
        let ids: Vec<u32> = self
            .core
            .state
            .finished_before(old)
            .take(CLEAN_MAX)
            .collect();
        if !ids.is_empty() {
            self.out.more |= ids.len() == CLEAN_MAX;
            let t = self.now;
            self.emit(Event::Cleaned { ids, t });
        }
        if self.mono.since_ms(self.core.last_expire) > 60_000 {
            self.core.last_expire = self.mono;
            let tokens = self.core.clock.older_than(TOKEN_KEEP_MS);
            let keep = self.core.config.general.key_keep_ms;
            let keys = self.core.clock.older_than(keep);
            self.core.state.expire(tokens, keys);
        }
        if self.core.wake.is_some_and(|at| at <= self.now) {
            self.core.wake = None;
            self.core.needs_pass = true;
        }
        if let Some(at) = self.core.next_pass() {
            self.core.needs_pass |= at <= self.mono;
        }
    }

    /// Judges conditions whose jobs changed: a turn's worth, the rest in the next ones. A job whose
    /// condition was not judged yet waits.
    fn judge_dependencies(&mut self) {
        let mut looks = 0;
        while looks < JUDGE_LOOKS {
            let Some(id) = self.core.state.pop_dep_dirty(self.core.last_judged) else {
                break;
            };
            self.core.last_judged = id;
            looks += JUDGE_EACH;
            let verdict = crate::sched::depend::judge_counting(&self.core.state, id, &mut looks);
            if let Some(verdict) = verdict {
                self.core.needs_pass |= verdict == crate::state::DepVerdict::Met;
                self.core.state.set_dependency(id, verdict);
            }
        }
        self.out.more |= self.core.state.has_dep_dirty();
    }
}

fn empty_ack(tok: Token) -> Ack {
    Ack {
        tok,
        ok: true,
        error: String::new(),
        ids: Vec::new(),
        results: Vec::new(),
        more: 0,
    }
}

/// Cuts a text to at most `most` bytes.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push_str("...");
    }
}

/// An acknowledgement in the making.
pub(crate) struct Answer {
    pub ack: Ack,
    /// Bytes of the texts in its results.
    pub record: usize,
}

impl Answer {
    pub fn say(&mut self, what: impl ToString, code: Code, text: impl Into<String>) {
        if self.ack.results.len() >= RESULTS_MAX {
            self.ack.more += 1;
            return;
        }
        // Parts of a forged request may come back in an answer: not at their full length.
        let mut what = what.to_string();
        let mut text = text.into();
        cut(&mut what, OPERAND_MAX);
        let most = match self.record > TEXTS_MAX {
            true => SHORT_MAX,
            false => TEXT_MAX,
        };
        cut(&mut text, most);
        self.record += text.len();
        self.ack.results.push(Outcome { what, code, text });
    }

    pub fn refuse(&mut self, what: impl ToString, refusal: crate::intake::Refusal) {
        self.say(what, refusal.code, refusal.text);
    }
}
