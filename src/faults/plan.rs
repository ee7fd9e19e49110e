//! The plan of a run: sizes, the protocol variant, the kinds and frequencies of faults. A function
//! of the options and the seed.

use super::kernel::random_numbers;
use crate::lease::{Check, Protocol};
use crate::model::SplitMix64;
use std::collections::VecDeque;

/// The options of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub seed: u64,
    /// File operations in the faulty phase.
    pub steps: u64,
    pub leaders: usize,
    pub hosts: usize,
    pub clients: usize,
    pub variant: Variant,
    /// The focus of all seeds; `None`: each seed draws its own.
    pub focus: Option<Focus>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 1,
            steps: 2000,
            leaders: 3,
            hosts: 8,
            clients: 4,
            variant: Variant::D11,
            focus: None,
        }
    }
}

/// The focus of a run: sizes, faults and actions of clients are drawn accordingly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Focus {
    /// A bit of everything.
    Usual,
    /// Leaders that are overtaken in the middle of an action.
    Usurper,
    /// Hosts that are cut off for longer than `iso_timeout`, with long rerunnable jobs.
    Cutoff,
    /// Jobs on many hosts that are lost while the jobs run.
    Gangs,
    /// Power losses, some of which destroy the local directory, too.
    Power,
    /// Clients and the administrator change everything that can be changed.
    Verbs,
    /// Bytes of orders and reports flip while jobs run and processes die.
    Flips,
    /// The share is restored from a copy while hosts and their tasks are running.
    Restore,
    /// Every client has a cron job; leaders are killed and clocks step.
    Cron,
}

impl Focus {
    pub(super) const ALL: &'static [(&'static str, Focus)] = &[
        ("usual", Focus::Usual),
        ("usurper", Focus::Usurper),
        ("cutoff", Focus::Cutoff),
        ("gangs", Focus::Gangs),
        ("power", Focus::Power),
        ("verbs", Focus::Verbs),
        ("flips", Focus::Flips),
        ("restore", Focus::Restore),
        ("cron", Focus::Cron),
    ];

    pub(super) fn parse(name: &str) -> Option<Focus> {
        let known = Focus::ALL.iter().find(|(n, _)| *n == name);
        known.map(|(_, focus)| *focus)
    }

    /// The number of seeds out of seventeen with each focus. The weaker protocols differ from the
    /// one in use in what leaders do: their seeds have no other focus.
    fn draw(rng: &mut SplitMix64, variant: Variant) -> Focus {
        let n = rng.below(17);
        match n {
            0..7 if variant != Variant::D11 => Focus::Usurper,
            _ if variant != Variant::D11 => Focus::Usual,
            0..4 => Focus::Usual,
            4..8 => Focus::Usurper,
            8..10 => Focus::Cutoff,
            10..12 => Focus::Gangs,
            12..14 => Focus::Power,
            14..16 => Focus::Verbs,
            _ => Focus::Restore,
        }
    }
}

/// A protocol of the model check; D11 is the one in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variant {
    D0,
    D1,
    D2,
    D3,
    D4,
    D7,
    D8,
    D11,
    D12,
}

impl Variant {
    pub(super) const ALL: &'static [(&'static str, Variant)] = &[
        ("d0", Variant::D0),
        ("d1", Variant::D1),
        ("d2", Variant::D2),
        ("d3", Variant::D3),
        ("d4", Variant::D4),
        ("d7", Variant::D7),
        ("d8", Variant::D8),
        ("d11", Variant::D11),
        ("d12", Variant::D12),
    ];

    pub(super) fn parse(name: &str) -> Option<Variant> {
        let known = Variant::ALL.iter().find(|(n, _)| *n == name);
        known.map(|(_, variant)| *variant)
    }

    pub(super) fn name(self) -> &'static str {
        let known = Variant::ALL.iter().find(|(_, v)| *v == self);
        known.map_or("", |(name, _)| name)
    }

    /// The rules of the leader and the hosts.
    pub(super) fn protocol(self) -> Protocol {
        let (seal, check, bind, host_epoch) = match self {
            Variant::D0 => (false, Check::Never, false, false),
            Variant::D1 => (false, Check::Before, false, false),
            Variant::D2 => (true, Check::Before, false, false),
            Variant::D3 => (true, Check::After, false, false),
            Variant::D4 => (true, Check::After, false, true),
            Variant::D7 => (false, Check::Before, true, true),
            Variant::D8 | Variant::D11 => (true, Check::After, true, true),
            Variant::D12 => (true, Check::Before, true, false),
        };
        Protocol {
            seal,
            check,
            bind,
            host_epoch,
        }
    }
}

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// `kill -9` of a process.
    Kill,
    /// SIGSTOP and SIGCONT.
    Stop,
    /// A whole machine stands still; its lease may expire.
    Freeze,
    /// Power loss.
    Power,
    /// There is no connection to the file server.
    Cut,
    /// EIO, ESTALE, short writes, lost replies.
    Flaky,
    /// The wall clock steps.
    Clock,
    Slow,
    /// ENOSPC or EDQUOT.
    Full,
    /// The file server restarts, perhaps without its locks or unsynced data.
    Restart,
    /// `kill -9` of a shepherd.
    Shepherd,
    /// A byte of an orders or reports file changes permanently.
    Flip,
    /// The server forgets all locks.
    Locks,
    /// The next leader or executor that does a certain thing is stopped right before it, for longer
    /// than others wait; the processes that read its files may be stopped together with it.
    Breakpoint,
}

/// Number of seeds out of 1000 that have flipping bytes regardless of their focus.
const FLIPS_PERMILLE: u64 = 60;

/// Number of seeds out of 1000 that have cron jobs regardless of their focus; also drawn
/// separately.
const CRONS_PERMILLE: u64 = 60;

/// [`Fault::Flip`] is drawn separately, so that it changes no other seed.
const FAULTS: &[Fault] = &[
    Fault::Kill,
    Fault::Stop,
    Fault::Freeze,
    Fault::Power,
    Fault::Cut,
    Fault::Flaky,
    Fault::Clock,
    Fault::Slow,
    Fault::Full,
    Fault::Restart,
    Fault::Shepherd,
    Fault::Breakpoint,
    Fault::Locks,
];

/// The faults of runs about hosts that are cut off.
const CUTS: &[Fault] = &[
    Fault::Cut,
    Fault::Cut,
    Fault::Cut,
    Fault::Kill,
    Fault::Power,
];

/// The faults of runs about jobs on many hosts.
const GANG_FAULTS: &[Fault] = &[
    Fault::Kill,
    Fault::Power,
    Fault::Cut,
    Fault::Stop,
    Fault::Breakpoint,
    Fault::Clock,
];

/// The faults of runs about power losses.
const POWER_FAULTS: &[Fault] = &[
    Fault::Power,
    Fault::Power,
    Fault::Restart,
    Fault::Kill,
    Fault::Flaky,
];

/// The faults of runs about damaged files.
const FLIP_FAULTS: &[Fault] = &[
    Fault::Flip,
    Fault::Flip,
    Fault::Flip,
    Fault::Kill,
    Fault::Stop,
];

/// The faults of runs about cron jobs.
const CRON_FAULTS: &[Fault] = &[
    Fault::Kill,
    Fault::Kill,
    Fault::Stop,
    Fault::Clock,
    Fault::Breakpoint,
];

/// How far wall clocks may step in runs where that matters.
const CLOCK_STEPS_MS: &[u64] = &[600_000, 3_600_000, 86_400_000];

impl Fault {
    pub(super) fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Stop => "stop",
            Fault::Freeze => "freeze",
            Fault::Power => "power",
            Fault::Cut => "cut",
            Fault::Flaky => "flaky",
            Fault::Clock => "clock",
            Fault::Slow => "slow",
            Fault::Full => "full",
            Fault::Restart => "restart",
            Fault::Shepherd => "shepherd",
            Fault::Breakpoint => "breakpoint",
            Fault::Flip => "flip",
            Fault::Locks => "locks",
        }
    }
}

/// The role of a process; a supervisor starts it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Setup,
    Leader,
    Executor,
    Load,
    Shepherds,
    Client,
    /// The administrator that confirms that a share was restored.
    RestoreAdmin,
}

/// An operation on a file whose path contains this text.
pub(super) type CallPattern = (&'static str, &'static str);

/// When the next part of a script is carried out.
#[derive(Clone, Debug)]
#[cfg_attr(not(test), allow(dead_code))] // scripts are for tests
pub(super) enum Trigger {
    /// This long after the previous part, ms.
    After(u64),
    /// Right before a process of that kind makes this call.
    Call(Role, CallPattern),
    /// A leader has recovered, once more.
    Recovered,
    /// A task has started.
    Started,
}

/// The effect of a script on the process that made a call, the host of a start, or the leader.
#[derive(Clone, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(super) enum ScriptedFault {
    Kill,
    /// The process is killed, and this long afterwards (ms), when its kernel has sent what it
    /// wrote, its machine loses power.
    Perish(u64),
    /// Its machine loses power for this long, ms.
    PowerOff(u64),
    /// Frozen for this long, ms; together with the processes that read its files.
    Stop(u64),
    ForgetLocks,
    /// The server is unavailable for this long (ms) and loses unsynced data.
    Restart(u64),
}

/// Faults in a fixed order instead of drawn ones.
pub(super) type Script = VecDeque<(Trigger, Vec<ScriptedFault>)>;

/// The size of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    pub leaders: usize,
    pub hosts: usize,
    pub clients: usize,
    /// Slots of each host.
    pub slots: u32,
}

/// Which faults occur, how often, and where.
#[derive(Clone, Debug)]
pub(super) struct FaultPlan {
    pub kinds: Vec<Fault>,
    /// Mean time between two faults.
    pub every_ms: u64,
    /// Number of faults out of 1000 on a machine that hit a leader's, and number of the others that
    /// hit a host.
    pub leaders_permille: u64,
    pub hosts_permille: u64,
    /// Longest time without a connection to the server.
    pub cut_ms: u64,
    /// Maximum offset of a wall clock that steps, in either direction.
    pub clock_ms: u64,
    /// Number of power losses out of 1000 that also destroy the local directory.
    pub wipes_permille: u64,
    /// Faults in a fixed order, in addition to those drawn.
    pub script: Script,
}

/// What the clients of the file server cache, and for how long.
#[derive(Clone, Debug)]
pub(super) struct CacheTimes {
    /// An open may show content that is this old.
    pub open_stale_ms: u64,
    /// Attributes of a file, listings and missing names are considered valid for at most this time.
    pub attributes_ms: u64,
    pub list_ms: u64,
    pub missing_ms: u64,
    /// A silent client's locks may be taken after this time.
    pub lease_ms: u64,
    /// Longest time that written data stay with a client.
    pub write_back_ms: u64,
}

/// What the clients of the cluster submit.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// Requests of each client.
    pub requests: u64,
    /// Longest run time of a task.
    pub task_ms: u64,
    /// Number of jobs out of 1000 that are rerunnable, and number that need more than one host.
    pub rerunnable: u64,
    pub wide: u64,
    /// Maximum number of hosts of a job.
    pub gang: u64,
    /// Some jobs reserve licences of their hosts, which stopped jobs release.
    pub licences: bool,
    /// Number of submissions out of 1000 after which the client does something to the job or the
    /// cluster.
    pub actions: u64,
}

/// One run's parameters; times in ms.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub variant: Variant,
    pub focus: Focus,
    /// File operations in the faulty phase.
    pub steps: u64,
    pub sizes: Sizes,
    pub faults: FaultPlan,
    pub caches: CacheTimes,
    pub workload: Work,
    /// `iso_timeout` of cb.yaml.
    pub iso_ms: u64,
    pub segment_bytes: u64,
    pub snapshot_bytes: u64,
    /// How long a claimant waits before it reads.
    pub cache_wait_ms: u64,
    /// Each shepherd watches the silence of its host, too; without this, only `cbexe` does, and
    /// stays alive.
    pub shepherds_watch: bool,
    /// The share is restored from a copy.
    pub restore: bool,
    /// Every client has a cron job.
    pub crons: bool,
    /// The initial offsets of the machines' wall clocks.
    offsets: Vec<i64>,
}

impl Plan {
    pub(super) fn of(options: &Options) -> Plan {
        let mut rng = random_numbers(options.seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        // A run with few kinds of faults goes deeper than one with all kinds.
        let share = rng.pick(&[250, 500, 1000]);
        let mut kinds: Vec<Fault> = FAULTS
            .iter()
            .copied()
            .filter(|_| rng.permille(share))
            .collect();
        let focus = Focus::draw(&mut rng, options.variant);
        let focus = options.focus.unwrap_or(focus);
        if kinds.is_empty() || focus == Focus::Usurper {
            // The hardest case for a protocol: everything else works, and only the moments are
            // chosen.
            kinds = vec![
                Fault::Breakpoint,
                Fault::Breakpoint,
                Fault::Stop,
                Fault::Locks,
            ];
        }
        if random_numbers(options.seed ^ 0x666c_6970).permille(FLIPS_PERMILLE) {
            kinds.push(Fault::Flip);
        }
        let machines = options.leaders + options.hosts + options.clients;
        // The fields are drawn in this order: another order would change the runs of all seeds.
        let plan = Plan {
            variant: options.variant,
            focus,
            steps: options.steps,
            faults: FaultPlan {
                kinds,
                every_ms: rng.pick(&[300, 700, 1500, 4000]),
                leaders_permille: 600,
                hosts_permille: 0,
                cut_ms: 25_000,
                clock_ms: 600_000,
                wipes_permille: 0,
                script: Script::new(),
            },
            caches: CacheTimes::draw(&mut rng, options.variant),
            iso_ms: rng.pick(&[0, 0, 20_000]),
            segment_bytes: rng.pick(&[4096, 16_384, 1 << 20]),
            snapshot_bytes: rng.pick(&[8192, 32_768, 1 << 30]),
            cache_wait_ms: match options.variant {
                Variant::D8 => 0,
                _ => 3000,
            },
            sizes: Sizes {
                leaders: options.leaders,
                hosts: options.hosts,
                clients: options.clients,
                slots: rng.pick(&[1, 2, 4]),
            },
            workload: Work {
                requests: rng.between(2, 8),
                task_ms: rng.pick(&[300, 2000, 8000]),
                rerunnable: 300,
                wide: 80,
                gang: 2,
                licences: false,
                actions: 310,
            },
            shepherds_watch: rng.permille(500),
            restore: false,
            crons: random_numbers(options.seed ^ 0x6372_6f6e).permille(CRONS_PERMILLE),
            offsets: (0..machines)
                .map(|_| rng.between(0, 1_200_000) as i64 - 600_000)
                .collect(),
        };
        plan.focused(&mut rng)
    }

    /// Applies the changes for the focus of the run. Numbers are drawn in the order of the code.
    fn focused(mut self, rng: &mut SplitMix64) -> Plan {
        let (faults, sizes, work) = (&mut self.faults, &mut self.sizes, &mut self.workload);
        match self.focus {
            Focus::Usual | Focus::Usurper => {}
            Focus::Cutoff => {
                sizes.hosts = sizes.hosts.min(4);
                sizes.clients = sizes.clients.min(3);
                faults.kinds = CUTS.to_vec();
                faults.every_ms = rng.pick(&[3000, 8000]);
                (faults.leaders_permille, faults.hosts_permille) = (100, 1000);
                faults.cut_ms = 90_000;
                self.iso_ms = 30_000;
                work.task_ms = rng.pick(&[20_000, 90_000]);
                (work.rerunnable, work.wide) = (800, 150);
            }
            Focus::Gangs => {
                faults.kinds = GANG_FAULTS.to_vec();
                faults.every_ms = rng.pick(&[700, 2500]);
                (faults.leaders_permille, faults.hosts_permille) = (200, 900);
                faults.clock_ms = rng.pick(CLOCK_STEPS_MS);
                sizes.slots = rng.pick(&[1, 2]);
                work.task_ms = rng.pick(&[2000, 20_000]);
                (work.wide, work.gang, work.actions) = (600, 5, 500);
            }
            Focus::Power => {
                sizes.hosts = sizes.hosts.min(5);
                faults.kinds = POWER_FAULTS.to_vec();
                faults.every_ms = rng.pick(&[500, 1500]);
                (faults.leaders_permille, faults.hosts_permille) = (200, 1000);
                faults.wipes_permille = rng.pick(&[0, 300]);
                work.requests = rng.between(6, 12);
                work.task_ms = rng.pick(&[100, 1000]);
            }
            Focus::Verbs => {
                sizes.hosts = sizes.hosts.min(5);
                faults.every_ms = rng.pick(&[1500, 4000]);
                faults.clock_ms = rng.pick(CLOCK_STEPS_MS);
                work.requests = rng.between(4, 8);
                work.task_ms = rng.pick(&[2000, 8000]);
                (work.gang, work.actions, work.licences) = (4, 900, true);
            }
            Focus::Flips => {
                sizes.hosts = sizes.hosts.min(4);
                faults.kinds = FLIP_FAULTS.to_vec();
                faults.every_ms = rng.pick(&[300, 1000, 3000]);
                faults.hosts_permille = 500;
                sizes.slots = rng.pick(&[2, 4]);
                work.requests = rng.between(6, 12);
            }
            Focus::Restore => {
                sizes.hosts = sizes.hosts.min(5);
                faults.kinds = match rng.below(3) {
                    0 => vec![Fault::Kill, Fault::Stop, Fault::Slow],
                    1 => vec![Fault::Kill, Fault::Cut, Fault::Breakpoint],
                    _ => Vec::new(),
                };
                faults.every_ms = rng.pick(&[2000, 6000]);
                work.requests = rng.between(6, 12);
                work.task_ms = rng.pick(&[1000, 8000, 30_000]);
                work.wide = rng.pick(&[80, 400]);
                (work.gang, work.actions) = (3, 400);
                // An earlier state of the share may again start what its hosts have not reported
                // yet.
                (self.restore, self.crons) = (true, false);
            }
            Focus::Cron => return self.with_crons(rng),
        }
        self
    }

    /// A run about cron jobs.
    fn with_crons(mut self, rng: &mut SplitMix64) -> Plan {
        self.sizes.hosts = self.sizes.hosts.min(4);
        self.faults.kinds = CRON_FAULTS.to_vec();
        self.faults.every_ms = rng.pick(&[5000, 15_000]);
        self.faults.leaders_permille = 800;
        self.faults.clock_ms = rng.pick(&[60_000, 600_000]);
        self.workload.requests = rng.between(6, 12);
        self.crons = true;
        self
    }

    /// A run in which nothing fails except what a script specifies, and every client asks the
    /// server.
    #[cfg(test)]
    pub(super) fn scripted(options: &Options, script: Script) -> Plan {
        let mut plan = Plan::of(options);
        (plan.faults.kinds, plan.faults.script) = (Vec::new(), script);
        plan.caches = CacheTimes {
            open_stale_ms: 0,
            attributes_ms: 0,
            list_ms: 0,
            missing_ms: 0,
            lease_ms: 30_000,
            write_back_ms: 30_000,
        };
        plan.sizes.slots = 1;
        (plan.workload.requests, plan.workload.task_ms) = (4, 2000);
        (plan.iso_ms, plan.restore) = (0, false);
        plan.crons = false;
        plan
    }

    /// The offset of a machine's wall clock, ms.
    pub(super) fn clock_offset(&self, machine: usize) -> i64 {
        self.offsets.get(machine).copied().unwrap_or(0)
    }

    /// Whether the client on a machine is the administrator of the cluster: the last one is.
    pub(super) fn administers(&self, machine: usize) -> bool {
        machine + 1 == self.sizes.leaders + self.sizes.hosts + self.sizes.clients
    }
}

impl CacheTimes {
    fn draw(rng: &mut SplitMix64, variant: Variant) -> CacheTimes {
        CacheTimes {
            open_stale_ms: match variant {
                Variant::D8 => 3000,
                _ => rng.pick(&[0, 3000]),
            },
            attributes_ms: rng.pick(&[0, 3000, 30_000]),
            list_ms: rng.pick(&[0, 3000, 30_000]),
            missing_ms: rng.pick(&[0, 3000, 60_000]),
            lease_ms: rng.pick(&[2000, 5000, 10_000, 30_000]),
            write_back_ms: rng.pick(&[100, 5000, 30_000]),
        }
    }
}
