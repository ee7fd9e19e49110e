//! Random histories with every kind of event: most fit the state, some do not. The same dice give
//! the same history.

use super::{DepVerdict, State};
use crate::model::{
    AttemptId, Binding, HookOf, JobKey, JobStat, Limits, PartBinding, PendReason, Retry, Share,
    Spec, Stamp, SuspReason, TermReason, Token, Units,
};
use crate::record::cron::{CronDef, CronResult, CronRun};
use crate::record::device_use::DeviceUse;
use crate::record::event::{Event, SignalAct, Submitted, UserShareHistory};
use crate::record::job_group::JobGroup;
use crate::record::message::JobMessage;
use crate::record::report::{Ended, PartUse, TaskUse, Usage};
use crate::record::request::{HostAct, QueueAct};
use proptest::prelude::*;

/// Number of kinds of events.
pub(crate) const KINDS: usize = 41;
const HOSTS: u32 = 4;
const SPECS: u32 = 8;
/// Elements of arrays.
const LAST: u32 = 6;

/// What happens in one step: the kind of the event, and the dice for its fields.
pub(crate) type Step = (usize, u64);

/// Random steps; kinds about jobs are far more frequent than others.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let often = [
        3, 3, 3, 6, 6, 6, 8, 8, 11, 11, 13, 16, 17, 20, 21, 22, 23, 28,
    ];
    let rare = (0..KINDS).collect::<Vec<_>>();
    let kind = prop_oneof![
        3 => proptest::sample::select(often.to_vec()),
        2 => proptest::sample::select(rare),
    ];
    proptest::collection::vec((kind, any::<u64>()), 1..most)
}

/// The number of each kind, by which steps name it.
pub(crate) fn kind_of(event: &Event) -> usize {
    match event {
        Event::Epoch { .. } => 0,
        Event::Seal { .. } => 1,
        Event::Spec { .. } => 2,
        Event::Submitted(_) => 3,
        Event::Handled { .. } => 4,
        Event::PartHandled { .. } => 5,
        Event::Dispatched { .. } => 6,
        Event::Gathered { .. } => 7,
        Event::Started { .. } => 8,
        Event::PartBound { .. } => 9,
        Event::PartUsed { .. } => 10,
        Event::Ended { .. } => 11,
        Event::Unbound { .. } => 12,
        Event::Signalled { .. } => 13,
        Event::Halted { .. } => 14,
        Event::Warned { .. } => 15,
        Event::Unhalted { .. } => 16,
        Event::Cancelled { .. } => 17,
        Event::Held { .. } => 18,
        Event::Resized { .. } => 19,
        Event::Suspended { .. } => 20,
        Event::Checkpointed { .. } => 21,
        Event::Requeued { .. } => 22,
        Event::Changed { .. } => 23,
        Event::Renamed { .. } => 24,
        Event::Moved { .. } => 25,
        Event::Posted { .. } => 26,
        Event::Used { .. } => 27,
        Event::Cleaned { .. } => 28,
        Event::Why { .. } => 29,
        Event::Queue { .. } => 30,
        Event::Host { .. } => 31,
        Event::HostSeen { .. } => 32,
        Event::HostLedger { .. } | Event::HostReports { .. } => 33,
        Event::Config { .. } | Event::AlertSilenced { .. } => 34,
        Event::WentBack { .. } | Event::Restored { .. } => 35,
        Event::Shares { .. } => 36,
        Event::CronDefined { .. } | Event::CronSwitched { .. } => 37,
        Event::CronRemoved { .. } => 38,
        Event::CronSkipped { .. } => 39,
        Event::JobGroupDefined { .. } | Event::JobGroupRemoved { .. } => 40,
    }
}

/// Random numbers.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed | 1)
    }

    pub(crate) fn roll(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 20) % u64::from(n.max(1))) as u32
    }

    fn coin(&mut self) -> bool {
        self.roll(2) == 0
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len() as u32) as usize].clone()
    }
}

/// A history so far.
#[derive(Default)]
pub(crate) struct History {
    pub state: State,
    t: i64,
    /// The last id and the last epoch.
    next: u32,
    epoch: u64,
}

impl History {
    /// The events of one step, which are not applied yet. A specification that is needed comes
    /// first.
    pub(crate) fn events(&mut self, (kind, seed): Step) -> Vec<Event> {
        self.t += 10;
        let mut dice = Dice::new(seed);
        match kind {
            2 | 3 => self.submit(&mut dice),
            23 => self.change(&mut dice),
            0 | 1 | 4 | 5 | 30..=36 => vec![self.of_cluster(kind, &mut dice)],
            37..=40 => vec![self.of_cron_or_group(kind, &mut dice)],
            17 | 18 | 22 | 24..=26 | 28 | 29 => vec![self.of_job(kind, &mut dice)],
            _ => vec![self.of_attempt(kind, &mut dice)],
        }
    }

    /// Every job and element, with its state.
    pub(crate) fn keys(&self) -> Vec<(JobKey, JobStat)> {
        let mut keys = Vec::new();
        for job in self.state.jobs() {
            let most = if job.array().is_some() { LAST } else { 0 };
            let all = (0..=most).map(|idx| (JobKey::element(job.id, idx), job.stat(idx)));
            keys.extend(all.filter_map(|(j, stat)| Some((j, stat?))));
        }
        keys
    }

    /// Usually a job in such a state, sometimes any or one that does not exist.
    fn key(&self, dice: &mut Dice, fits: impl Fn(JobStat) -> bool) -> JobKey {
        let all = self.keys();
        let good: Vec<_> = all.iter().filter(|(_, stat)| fits(*stat)).collect();
        match dice.roll(10) {
            0 => JobKey::element(1 + dice.roll(self.next + 1), dice.roll(LAST + 2)),
            _ if !good.is_empty() => dice.of(&good).0,
            _ if !all.is_empty() => dice.of(&all).0,
            _ => JobKey::job(1),
        }
    }

    fn attempt(&self, j: JobKey, dice: &mut Dice) -> AttemptId {
        let at = self.state.work(j).map_or(0, |work| work.attempt);
        let at = if dice.roll(12) == 0 { at + 1 } else { at };
        AttemptId { j, at }
    }

    fn submit(&mut self, dice: &mut Dice) -> Vec<Event> {
        let s = 1 + dice.roll(SPECS);
        let spec = Box::new(spec(s, dice.roll(self.next + 1)));
        // An id may be that of an existing job.
        self.next += u32::from(dice.roll(15) > 0);
        let id = self.next.max(1);
        let cron = (dice.roll(4) == 0).then(|| self.cron_run(dice));
        let submitted = Submitted {
            id,
            s,
            t: Stamp(self.t),
            command: format!("command {id}"),
            name: dice.of(&["", "", "n1", "name 2"]).to_owned(),
            array: dice.of(&["", "", "1-6", "1-5:2"]).to_owned(),
            array_limit: dice.roll(3),
            hold: dice.roll(6) == 0,
            tok: Token(u128::from(dice.roll(30))),
            line: dice.roll(3),
            key: dice.of(&["", "k1", "k2"]).to_owned(),
            cron,
        };
        vec![
            Event::Spec { id: s, spec },
            Event::Submitted(Box::new(submitted)),
        ]
    }

    fn cron_run(&self, dice: &mut Dice) -> Box<CronRun> {
        let first = self.state.open_crons().into_iter().find_map(|key| {
            let cron = self.state.cron(&key)?;
            let open = cron.packs.iter().find(|(_, pack)| pack.is_open());
            open.map(|(first, pack)| (*first, pack.made))
        });
        let (first, part) = first.filter(|_| dice.coin()).unwrap_or_default();
        let (uid, name) = cron_key(dice);
        Box::new(CronRun {
            uid,
            name,
            due: Stamp(self.t * i64::from(dice.roll(2))),
            missed: dice.roll(2),
            part,
            parts: dice.roll(4),
            first,
        })
    }

    fn change(&mut self, dice: &mut Dice) -> Vec<Event> {
        let j = JobKey::job(self.key(dice, |_| true).id);
        // The owner stays the same.
        let owner = self.state.job(j.id).map_or(1, |job| job.spec % 3);
        let s = owner + 3 * dice.roll(3);
        let s = if s == 0 { 6 } else { s };
        let spec = Box::new(spec(s, dice.roll(self.next + 1)));
        let (by, what, t) = ("u".to_owned(), String::new(), Stamp(self.t));
        vec![
            Event::Spec { id: s, spec },
            Event::Changed { j, s, by, what, t },
        ]
    }

    fn of_attempt(&mut self, kind: usize, dice: &mut Dice) -> Event {
        let started = JobStat::is_started;
        let j = match kind {
            6 => self.key(dice, JobStat::is_waiting),
            10 => self.key(dice, JobStat::is_finished),
            _ => self.key(dice, started),
        };
        let (a, t) = (self.attempt(j, dice), Stamp(self.t));
        match kind {
            6 => self.dispatch(a, dice),
            7 => Event::Gathered { a, t },
            8 => Event::Started {
                a,
                pid: 1 + dice.roll(9),
                t,
                bind: dice.coin().then(|| Box::new(binding(dice))),
            },
            9 => Event::PartBound {
                a,
                part: PartBinding {
                    host: host(dice),
                    bind: binding(dice),
                },
                t,
            },
            10 => {
                let part = part_use(dice);
                Event::PartUsed { a, part, t }
            }
            11 => self.end(a, dice),
            12 => Event::Unbound {
                a,
                why: "no room".into(),
                t,
                host: dice.of(&["", "h2"]).to_owned(),
            },
            13 => Event::Signalled {
                j,
                act: act(dice),
                by: dice.of(&["u1", "u2", "root"]).to_owned(),
                t,
            },
            14 => Event::Halted {
                j,
                why: SuspReason::Preempted { by: JobKey::job(1) },
                t,
            },
            15 => {
                let at = Stamp(i64::from(dice.roll(3)) * self.t);
                let signal = if at == Stamp(0) { 0 } else { 10 };
                Event::Warned { j, at, signal, t }
            }
            16 => Event::Unhalted { j, t },
            19 => {
                let (host, n) = (host(dice), 1 + dice.roll(2));
                let units = self.units(&host, dice);
                let hosts = vec![Share(host, n)];
                Event::Resized { a, hosts, units, t }
            }
            20 => {
                let on = dice.coin();
                Event::Suspended { a, on, t }
            }
            21 => {
                let why = dice.of(&["", "no room"]).to_owned();
                Event::Checkpointed { a, why, t }
            }
            _ => {
                let u = usage(dice);
                Event::Used { a, u }
            }
        }
    }

    fn dispatch(&mut self, a: AttemptId, dice: &mut Dice) -> Event {
        let first = dice.roll(HOSTS);
        let hosts = (0..=dice.roll(2)).map(|n| format!("h{}", (first + n) % HOSTS));
        let hosts: Vec<Share> = hosts.map(|h| Share(h, 1 + dice.roll(3))).collect();
        let units = match dice.coin() {
            true => self.units(&hosts[0].0, dice),
            false => Vec::new(),
        };
        Event::Dispatched {
            a: AttemptId { at: a.at + 1, ..a },
            t: Stamp(self.t),
            hosts,
            alt: dice.roll(3) as u8,
            forced: dice.roll(4) == 0,
            units,
        }
    }

    /// Units with names that no other attempt has.
    fn units(&self, host: &str, dice: &mut Dice) -> Vec<Units> {
        let part = dice.of(&[0, 250]);
        vec![Units {
            host: host.into(),
            res: "gpu".into(),
            names: vec![format!("u{}", self.t).into()].into(),
            places: vec![dice.roll(4)],
            part,
            amounts: vec![("gpu_mem".into(), 7)],
        }]
    }

    fn end(&mut self, a: AttemptId, dice: &mut Dice) -> Event {
        let (requeue, hold) = (dice.roll(3) == 0, dice.coin());
        let retry = Retry {
            at: self.t + 50,
            n: 1,
            of: 3,
            delay_s: 5,
        };
        let e = Ended {
            a,
            start: self.t - i64::from(dice.roll(9)),
            t: self.t,
            pid: 0,
            known: self.t + i64::from(dice.roll(2)),
            retry: (dice.roll(3) == 0).then_some(retry),
            code: dice.of(&[None, Some(0), Some(3)]),
            success: dice.roll(4) == 0,
            sig: dice.of(&[0, 0, 9]),
            core: dice.coin(),
            reason: dice.of(&[
                TermReason::None,
                TermReason::Owner,
                TermReason::MemLimit,
                TermReason::StartFailed,
            ]),
            oom: dice.coin(),
            elsewhere: false,
            unclear: dice.roll(8) == 0,
            no_account: dice.roll(8) == 0,
            pre_failed: (dice.roll(8) == 0).then_some(HookOf::Queue),
            post_failed: dice.coin(),
            text: dice.of(&["", "how it ended"]).to_owned(),
            parts: vec![part_use(dice)],
            u: usage(dice),
        };
        let e = Box::new(e);
        Event::Ended { e, requeue, hold }
    }

    fn of_job(&mut self, kind: usize, dice: &mut Dice) -> Event {
        let (by, t) = ("u1".to_owned(), Stamp(self.t));
        let waiting = self.key(dice, JobStat::is_waiting);
        match kind {
            17 => Event::Cancelled {
                j: waiting,
                by,
                reason: TermReason::Owner,
                t,
            },
            18 => Event::Held {
                j: waiting,
                held: dice.coin(),
                admin: dice.coin(),
                by,
                t,
            },
            22 => Event::Requeued {
                j: self.key(dice, JobStat::is_finished),
                hold: dice.coin(),
                by,
                t,
            },
            24 => Event::Renamed {
                j: waiting,
                name: dice.of(&[None, Some(String::new()), Some("new".into())]),
                command: dice.of(&[None, Some("other".into())]),
                array_limit: dice.of(&[None, Some(2)]),
                by,
                t,
            },
            25 => Event::Moved {
                j: JobKey::job(waiting.id),
                order: i64::from(dice.roll(1000)),
                by,
                t,
            },
            26 => Event::Posted {
                j: self.key(dice, |_| true),
                message: JobMessage {
                    index: dice.roll(3),
                    by,
                    t,
                    text: "text".into(),
                },
            },
            28 => {
                // A job on which others depend is not forgotten; one that has not ended stays.
                let over = self.state.finished_before(Stamp(i64::MAX));
                let over: Vec<u32> = over.filter(|_| dice.coin()).collect();
                let waiting = waiting.id;
                let watched = self.state.dependencies.watchers.contains_key(&waiting);
                let ids = over.into_iter().chain((!watched).then_some(waiting));
                let ids = ids.collect();
                Event::Cleaned { ids, t }
            }
            _ => Event::Why {
                j: waiting,
                why: dice.of(&[PendReason::Requeued, PendReason::HeldByAdmin]),
                t,
            },
        }
    }

    fn of_cluster(&mut self, kind: usize, dice: &mut Dice) -> Event {
        let (by, t) = ("root".to_owned(), Stamp(self.t));
        let comment = format!("c{}", self.t);
        let tok = Token(u128::from(dice.roll(30)));
        match kind {
            0 => {
                self.epoch += 1;
                let (epoch, host, pid) = (self.epoch, "h0".to_owned(), 7);
                Event::Epoch {
                    epoch,
                    host,
                    pid,
                    t,
                }
            }
            1 => Event::Seal {
                epoch: self.epoch,
                segment: u64::from(dice.roll(3)),
                bytes: 9,
                next_seq: u64::from(dice.roll(99)),
            },
            4 => Event::Handled { tok, t },
            5 => Event::PartHandled {
                tok,
                verb: dice.roll(3),
                at: dice.roll(5),
                within: dice.roll(5),
                t,
            },
            30 => {
                let acts = [
                    QueueAct::Open,
                    QueueAct::Close,
                    QueueAct::Activate,
                    QueueAct::Inactivate,
                ];
                Event::Queue {
                    name: format!("q{}", dice.roll(2)),
                    act: dice.of(&acts),
                    by,
                    comment,
                    t,
                }
            }
            31 => {
                let lock = HostAct::Lock {
                    for_s: dice.roll(2),
                };
                let acts = [HostAct::Open, HostAct::Close, lock, HostAct::Unlock];
                Event::Host {
                    name: host(dice),
                    act: dice.of(&acts),
                    by,
                    comment,
                    t,
                }
            }
            32 => Event::HostSeen {
                name: host(dice),
                up: dice.coin(),
                boot: dice.of(&["", "b1", "b2"]).to_owned(),
                t,
            },
            _ => self.of_share(kind, dice),
        }
    }

    fn of_share(&mut self, kind: usize, dice: &mut Dice) -> Event {
        let (by, t) = ("root".to_owned(), Stamp(self.t));
        match (kind, dice.coin()) {
            (33, true) => Event::HostLedger {
                name: host(dice),
                id: format!("l{}", self.t),
                t,
            },
            (33, false) => Event::HostReports {
                name: host(dice),
                part: u64::from(dice.roll(9)),
                t,
            },
            (34, true) => Event::Config {
                digest: format!("d{}", self.t),
                t,
            },
            (34, false) => Event::AlertSilenced {
                name: "a".into(),
                until: t,
                by,
                why: String::new(),
                t,
            },
            (35, true) => Event::WentBack {
                epoch: self.epoch + 1,
                host: host(dice),
                id: self.next,
                t,
            },
            (35, false) => Event::Restored {
                above: self.epoch,
                id: self.next,
                by,
                t,
            },
            _ => {
                let past = UserShareHistory {
                    path: "g1/u1".into(),
                    by: "u1".into(),
                    us: [1, 2, u64::from(dice.roll(99))],
                    ended: [4, 5, 6],
                    at: t,
                };
                Event::Shares {
                    queue: format!("q{}", dice.roll(2)),
                    past: vec![past],
                    t,
                }
            }
        }
    }

    fn of_cron_or_group(&mut self, kind: usize, dice: &mut Dice) -> Event {
        let (by, t) = ("u1".to_owned(), Stamp(self.t));
        let (uid, name) = cron_key(dice);
        match (kind, dice.roll(3)) {
            (37, 0) => {
                let on = dice.coin();
                Event::CronSwitched {
                    uid,
                    name,
                    on,
                    by,
                    t,
                }
            }
            (37, _) => {
                let def = CronDef {
                    name,
                    schedule: "* * * * *".into(),
                    max_fails: dice.roll(3),
                    history: 5,
                    disabled: dice.roll(4) == 0,
                    ..CronDef::default()
                };
                let def = Box::new(def);
                Event::CronDefined {
                    uid,
                    user: format!("u{uid}"),
                    def,
                    by,
                    t,
                }
            }
            (38, _) => Event::CronRemoved { uid, name, by, t },
            (39, _) => Event::CronSkipped {
                uid,
                name,
                due: t,
                n: dice.roll(3),
                why: dice.of(&[CronResult::Missed, CronResult::Refused]),
                text: "why".into(),
                t,
            },
            (_, 0) => {
                let name = format!("/g{}", dice.roll(3));
                Event::JobGroupRemoved { name, by, t }
            }
            _ => {
                let group = JobGroup {
                    name: format!("/g{}", dice.roll(3)),
                    uid,
                    user: format!("u{uid}"),
                    limit: dice.coin().then_some(3),
                    t,
                };
                Event::JobGroupDefined { group, by }
            }
        }
    }

    /// What the leader derives without an event: verdicts on dependencies, limits of arrays. Does
    /// the same to other states.
    pub(crate) fn derive(&mut self, seed: u64, others: &mut [&mut State]) {
        let mut dice = Dice::new(seed);
        let id = self.key(&mut dice, JobStat::is_waiting).id;
        let depends = self.state.spec_of(id).is_some_and(|s| !s.depend.is_empty());
        // Only what is watched is judged.
        let watchers = &self.state.dependencies.watchers;
        let waits = watchers.values().any(|waiting| waiting.contains(&id));
        let on = self
            .state
            .spec_of(id)
            .map_or(String::new(), |s| s.depend.clone());
        let verdict = match dice.roll(3) {
            0 => DepVerdict::NotYet(PendReason::Dependency { on }),
            _ => DepVerdict::Met,
        };
        let limit = dice.coin().then_some(2);
        for state in std::iter::once(&mut self.state).chain(others.iter_mut().map(|s| &mut **s)) {
            state.note_array_limit(id, limit);
            if depends && waits {
                state.set_dependency(id, verdict.clone());
            }
        }
    }
}

fn host(dice: &mut Dice) -> String {
    format!("h{}", dice.roll(HOSTS))
}

fn cron_key(dice: &mut Dice) -> (u32, String) {
    (1 + dice.roll(2), dice.of(&["c1", "c2"]).to_owned())
}

/// Specifications with the same number differ only in what they depend on.
fn spec(n: u32, on: u32) -> Spec {
    let uid = 1 + n % 3;
    Spec {
        uid,
        user: format!("u{uid}"),
        queue: format!("q{}", n % 2),
        depend: match n % 4 {
            3 if on > 0 => format!("done({on})"),
            _ => String::new(),
        },
        min: 1 + n % 2,
        max: 4,
        rerunnable: (n / 3).is_multiple_of(2),
        deadline: n.is_multiple_of(5).then_some(Stamp(5_000 + i64::from(n))),
        start_by: (n % 5 == 1).then_some(Stamp(6_000 + i64::from(n))),
        job_group: ["", "/g1"][n as usize % 2].to_owned(),
        limits: Limits {
            run_s: Some(u64::from(n)),
            ..Limits::default()
        },
        res_req: format!("rusage[mem={n}.{on}]"),
        ..Spec::default()
    }
}

fn binding(dice: &mut Dice) -> Binding {
    Binding {
        cpus: [dice.roll(8), 9].into_iter().collect(),
        why: String::new(),
        slots: Vec::new(),
    }
}

fn act(dice: &mut Dice) -> SignalAct {
    let hold = dice.coin();
    dice.of(&[
        SignalAct::Kill(TermReason::Owner),
        SignalAct::Requeue {
            hold,
            why: TermReason::None,
        },
        SignalAct::Migrate { force: hold },
        SignalAct::Stop,
        SignalAct::Stop,
        SignalAct::Resume,
        SignalAct::Number(10),
        SignalAct::Checkpoint { kill: hold },
    ])
}

fn part_use(dice: &mut Dice) -> PartUse {
    PartUse {
        host: host(dice),
        u: usage(dice).totals(),
    }
}

fn usage(dice: &mut Dice) -> Usage {
    if dice.roll(4) == 0 {
        return Usage::default();
    }
    let mut n = || u64::from(dice.roll(1000));
    let devices = DeviceUse {
        gpu_util: n(),
        gpu_mem_mb: n(),
        max_gpu_mem_mb: n(),
        gpu_ms: n(),
        net_in_kb: n(),
        net_out_kb: n(),
    };
    Usage {
        cpu_ms: n(),
        mem_kb: n(),
        maxmem_kb: n(),
        host_maxmem_kb: n(),
        swap_kb: n(),
        maxswap_kb: n(),
        procs: n() as u32,
        threads: n() as u32,
        read_kb: n(),
        write_kb: n(),
        devices: devices.boxed(),
        wrong_units: vec!["gpu 7".into()],
        pids: vec![n() as u32],
        tasks: vec![TaskUse::default()],
        command_end: None,
        hook: Some(Box::default()),
    }
}
