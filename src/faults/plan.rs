//! The plan of a run: sizes, the protocol variant, the kinds and frequencies of faults. A function
//! of the options and the seed.

use super::kernel::random_numbers;
use crate::lease::{Check, Protocol};
use crate::model::SplitMix64;
use std::collections::VecDeque;

/// What the command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub seed: u64,
    /// File operations in the faulty phase.
    pub steps: u64,
    pub leaders: usize,
    pub hosts: usize,
    pub clients: usize,
    pub variant: Variant,
    /// What all seeds are about; `None`: each seed chooses.
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

/// What a run is about: it draws sizes, faults and actions of clients accordingly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Focus {
    /// A bit of everything.
    Usual,
    /// Leaders that are overtaken in the middle of what they do.
    Usurper,
    /// Hosts that are cut off for longer than `iso_timeout`, with rerunnable jobs that run long.
    Cutoff,
    /// Jobs on many hosts, which are lost under them.
    Gangs,
    /// Power losses, of which some take the local directory along.
    Power,
    /// Clients and the administrator change whatever can be changed.
    Verbs,
    /// Bytes of orders and reports flip while jobs run and processes die.
    Flips,
    /// The share is put back from a copy while hosts and their tasks live.
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

    /// Of seventeen seeds, so many are about each. The weaker protocols differ from the one in use
    /// in what leaders do: of their seeds none is about anything else.
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

    /// The leader's and the hosts' rules.
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
    /// A whole machine stands still; its lease may lapse.
    Freeze,
    /// Power loss.
    Power,
    /// No way to the file server.
    Cut,
    /// EIO, ESTALE, short writes, lost replies.
    Flaky,
    /// The wall clock steps.
    Clock,
    Slow,
    /// ENOSPC or EDQUOT.
    Full,
    /// The file server restarts, perhaps without its locks or what was not synced.
    Restart,
    /// `kill -9` of a shepherd.
    Shepherd,
    /// A byte of an orders or reports file is another one from now on.
    Flip,
    /// The server forgets all locks.
    Locks,
    /// The next leader or executor that does a certain thing is stopped right before it, for longer
    /// than others wait; perhaps those who listen to it are stopped along with it.
    Breakpoint,
}

/// Of 1000 seeds, so many have bytes that flip whatever they are about.
const FLIPS_PERMILLE: u64 = 60;

/// Of 1000 seeds, so many have cron jobs whatever they are about; drawn apart, too.
const CRONS_PERMILLE: u64 = 60;

/// [`Fault::Flip`] is drawn apart, so that it changes no other seed.
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

/// Of runs about hosts that are cut off.
const CUTS: &[Fault] = &[
    Fault::Cut,
    Fault::Cut,
    Fault::Cut,
    Fault::Kill,
    Fault::Power,
];

/// Of runs about jobs on many hosts.
const GANG_FAULTS: &[Fault] = &[
    Fault::Kill,
    Fault::Power,
    Fault::Cut,
    Fault::Stop,
    Fault::Breakpoint,
    Fault::Clock,
];

/// Of runs about power losses.
const POWER_FAULTS: &[Fault] = &[
    Fault::Power,
    Fault::Power,
    Fault::Restart,
    Fault::Kill,
    Fault::Flaky,
];

/// Of runs about damaged files.
const FLIP_FAULTS: &[Fault] = &[
    Fault::Flip,
    Fault::Flip,
    Fault::Flip,
    Fault::Kill,
    Fault::Stop,
];

/// Of runs about cron jobs.
const CRON_FAULTS: &[Fault] = &[
    Fault::Kill,
    Fault::Kill,
    Fault::Stop,
    Fault::Clock,
    Fault::Breakpoint,
];

/// How far wall clocks may step where that is of interest.
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

/// What a process is for; a supervisor starts it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Setup,
    Leader,
    Executor,
    Load,
    Shepherds,
    Client,
    /// Who confirms that a share was restored.
    RestoreAdmin,
}

/// An operation on a file whose path contains this.
pub(super) type CallPattern = (&'static str, &'static str);

/// When the next part of a script comes.
#[derive(Clone, Debug)]
#[cfg_attr(not(test), allow(dead_code))] // scripts are for tests
pub(super) enum Trigger {
    /// So long after the part before it, ms.
    After(u64),
    /// Right before a process of that kind does this.
    Call(Role, CallPattern),
    /// A leader has recovered, once more.
    Recovered,
    /// A task has started.
    Started,
}

/// What a script does to the process that made a call, the host of a start, or the leader.
#[derive(Clone, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(super) enum ScriptedFault {
    Kill,
    /// Killed, and so long afterwards (ms), when its kernel has sent what it wrote, its machine
    /// loses power.
    Perish(u64),
    /// Its machine loses power for so long, ms.
    PowerOff(u64),
    /// Frozen for so long, ms; with those who listen to it.
    Stop(u64),
    ForgetLocks,
    /// The server is away for so long (ms) and loses what was not synced.
    Restart(u64),
}

/// Faults in a fixed order instead of drawn ones.
pub(super) type Script = VecDeque<(Trigger, Vec<ScriptedFault>)>;

/// How large the cluster is.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    pub leaders: usize,
    pub hosts: usize,
    pub clients: usize,
    /// Slots of each host.
    pub slots: u32,
}

/// Which faults come, how often, and where.
#[derive(Clone, Debug)]
pub(super) struct FaultPlan {
    pub kinds: Vec<Fault>,
    /// Mean time between two faults.
    pub every_ms: u64,
    /// Of 1000 faults that hit a machine, so many hit a leader's, and so many of the rest a host.
    pub at_leaders: u64,
    pub at_hosts: u64,
    /// Longest time without a connection to the server.
    pub cut_ms: u64,
    /// A wall clock that steps is off by at most this, either way.
    pub clock_ms: u64,
    /// Of 1000 power losses, so many destroy the local directory as well.
    pub wipes: u64,
    /// Faults in a fixed order, in addition to those drawn.
    pub script: Script,
}

/// What the clients of the file server cache, and for how long.
#[derive(Clone, Debug)]
pub(super) struct CacheTimes {
    /// An open may show content that is this old.
    pub lax_ms: u64,
    /// Attributes of a file, listings and missing names are believed for at most this long.
    pub attributes_ms: u64,
    pub list_ms: u64,
    pub missing_ms: u64,
    /// A silent client's locks may be taken after this time.
    pub lease_ms: u64,
    /// Longest time written data stay with a client.
    pub write_back_ms: u64,
}

/// What the clients of the cluster submit.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// Requests of each client.
    pub requests: u64,
    /// Longest run time of a task.
    pub task_ms: u64,
    /// Of 1000 jobs, so many may be rerun, and so many need more than one host.
    pub rerunnable: u64,
    pub wide: u64,
    /// Most hosts of a job.
    pub gang: u64,
    /// After so many of 1000 submissions the client does something to the job or the cluster.
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
    pub work: Work,
    /// `iso_timeout` of cb.yaml.
    pub iso_ms: u64,
    pub segment_bytes: u64,
    pub snapshot_bytes: u64,
    /// How long a claimant waits before it reads.
    pub cache_wait_ms: u64,
    /// Each shepherd watches the silence of its host, too; without, only `cbexe` does, and lives.
    pub shepherds_watch: bool,
    /// The share is put back from a copy.
    pub restore: bool,
    /// Every client has a cron job.
    pub crons: bool,
    /// How far the wall clocks of the machines are off at first.
    offsets: Vec<i64>,
}

impl Plan {
    pub(super) fn of(options: &Options) -> Plan {
        let mut rng = random_numbers(options.seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        // A run with few kinds of faults goes deeper than one with all.
        let share = rng.pick(&[250, 500, 1000]);
        let mut kinds: Vec<Fault> = FAULTS
            .iter()
            .copied()
            .filter(|_| rng.permille(share))
            .collect();
        let focus = Focus::draw(&mut rng, options.variant);
        let focus = options.focus.unwrap_or(focus);
        if kinds.is_empty() || focus == Focus::Usurper {
            // The hardest for a protocol: everything else works, only the moments are chosen.
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
        // The fields are drawn in this order: another order gives all seeds other runs.
        let plan = Plan {
            variant: options.variant,
            focus,
            steps: options.steps,
            faults: FaultPlan {
                kinds,
                every_ms: rng.pick(&[300, 700, 1500, 4000]),
                at_leaders: 600,
                at_hosts: 0,
                cut_ms: 25_000,
                clock_ms: 600_000,
                wipes: 0,
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
            work: Work {
                requests: rng.between(2, 8),
                task_ms: rng.pick(&[300, 2000, 8000]),
                rerunnable: 300,
                wide: 80,
                gang: 2,
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

    /// What the focus of the run changes. Numbers are drawn in the order in which they stand.
    fn focused(mut self, rng: &mut SplitMix64) -> Plan {
        let (faults, sizes, work) = (&mut self.faults, &mut self.sizes, &mut self.work);
        match self.focus {
            Focus::Usual | Focus::Usurper => {}
            Focus::Cutoff => {
                sizes.hosts = sizes.hosts.min(4);
                sizes.clients = sizes.clients.min(3);
                faults.kinds = CUTS.to_vec();
                faults.every_ms = rng.pick(&[3000, 8000]);
                (faults.at_leaders, faults.at_hosts) = (100, 1000);
                faults.cut_ms = 90_000;
                self.iso_ms = 30_000;
                work.task_ms = rng.pick(&[20_000, 90_000]);
                (work.rerunnable, work.wide) = (800, 150);
            }
            Focus::Gangs => {
                faults.kinds = GANG_FAULTS.to_vec();
                faults.every_ms = rng.pick(&[700, 2500]);
                (faults.at_leaders, faults.at_hosts) = (200, 900);
                faults.clock_ms = rng.pick(CLOCK_STEPS_MS);
                sizes.slots = rng.pick(&[1, 2]);
                work.task_ms = rng.pick(&[2000, 20_000]);
                (work.wide, work.gang, work.actions) = (600, 5, 500);
            }
            Focus::Power => {
                sizes.hosts = sizes.hosts.min(5);
                faults.kinds = POWER_FAULTS.to_vec();
                faults.every_ms = rng.pick(&[500, 1500]);
                (faults.at_leaders, faults.at_hosts) = (200, 1000);
                faults.wipes = rng.pick(&[0, 300]);
                work.requests = rng.between(6, 12);
                work.task_ms = rng.pick(&[100, 1000]);
            }
            Focus::Verbs => {
                sizes.hosts = sizes.hosts.min(5);
                faults.every_ms = rng.pick(&[1500, 4000]);
                faults.clock_ms = rng.pick(CLOCK_STEPS_MS);
                work.requests = rng.between(4, 8);
                work.task_ms = rng.pick(&[2000, 8000]);
                (work.gang, work.actions) = (4, 900);
            }
            Focus::Flips => {
                sizes.hosts = sizes.hosts.min(4);
                faults.kinds = FLIP_FAULTS.to_vec();
                faults.every_ms = rng.pick(&[300, 1000, 3000]);
                faults.at_hosts = 500;
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
                // A share of before may fire again what its hosts have not reported yet.
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
        self.faults.at_leaders = 800;
        self.faults.clock_ms = rng.pick(&[60_000, 600_000]);
        self.work.requests = rng.between(6, 12);
        self.crons = true;
        self
    }

    /// A run in which nothing fails but what a script says, and every client asks the server.
    #[cfg(test)]
    pub(super) fn scripted(options: &Options, script: Script) -> Plan {
        let mut plan = Plan::of(options);
        (plan.faults.kinds, plan.faults.script) = (Vec::new(), script);
        plan.caches = CacheTimes {
            lax_ms: 0,
            attributes_ms: 0,
            list_ms: 0,
            missing_ms: 0,
            lease_ms: 30_000,
            write_back_ms: 30_000,
        };
        plan.sizes.slots = 1;
        (plan.work.requests, plan.work.task_ms) = (4, 2000);
        (plan.iso_ms, plan.restore) = (0, false);
        plan.crons = false;
        plan
    }

    /// How far a machine's wall clock is off, ms.
    pub(super) fn clock_offset(&self, machine: usize) -> i64 {
        self.offsets.get(machine).copied().unwrap_or(0)
    }

    /// Whether the client on a machine administers the cluster: the last one does.
    pub(super) fn administers(&self, machine: usize) -> bool {
        machine + 1 == self.sizes.leaders + self.sizes.hosts + self.sizes.clients
    }
}

impl CacheTimes {
    fn draw(rng: &mut SplitMix64, variant: Variant) -> CacheTimes {
        CacheTimes {
            lax_ms: match variant {
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
