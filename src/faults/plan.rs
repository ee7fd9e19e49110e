//! What a run is about: sizes, the protocol variant, which faults come how often. A function of the
//! options and the seed.

use super::injector::Script;
use crate::lease::{Check, Protocol};
use crate::model::SplitMix64;

/// What the command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
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

/// What a run is about: it draws sizes, faults and deeds of people accordingly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Focus {
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
    /// People and administrators change what there is to be changed.
    Verbs,
    /// Bytes of orders and reports flip while jobs run and processes die.
    Flips,
    /// The share is put back from a copy while hosts and their tasks live.
    Restore,
}

impl Focus {
    pub const ALL: &'static [(&'static str, Focus)] = &[
        ("usual", Focus::Usual),
        ("usurper", Focus::Usurper),
        ("cutoff", Focus::Cutoff),
        ("gangs", Focus::Gangs),
        ("power", Focus::Power),
        ("verbs", Focus::Verbs),
        ("flips", Focus::Flips),
        ("restore", Focus::Restore),
    ];

    pub fn parse(name: &str) -> Option<Focus> {
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
pub enum Variant {
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
    pub const ALL: &'static [(&'static str, Variant)] = &[
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

    pub fn parse(name: &str) -> Option<Variant> {
        let known = Variant::ALL.iter().find(|(n, _)| *n == name);
        known.map(|(_, variant)| *variant)
    }

    pub fn name(self) -> &'static str {
        let known = Variant::ALL.iter().find(|(_, v)| *v == self);
        known.map_or("", |(name, _)| name)
    }

    /// The leader's and the hosts' rules.
    pub fn protocol(self) -> Protocol {
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
    Ambush,
}

/// Of 1000 seeds, so many have bytes that flip whatever they are about.
const FLIPS_PERMILLE: u64 = 60;

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
    Fault::Ambush,
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
            Fault::Ambush => "ambush",
            Fault::Flip => "flip",
            Fault::Locks => "locks",
        }
    }
}

/// One run's parameters; times in ms.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub variant: Variant,
    pub steps: u64,
    pub leaders: usize,
    pub hosts: usize,
    pub people: usize,
    pub faults: Vec<Fault>,
    /// Mean time between two faults.
    pub fault_every_ms: u64,
    /// An open may show content that is this old.
    pub lax_ms: u64,
    /// Facts of a file, listings and missing names are believed for at most this long.
    pub facts_ms: u64,
    pub list_ms: u64,
    pub missing_ms: u64,
    /// A silent client's locks may be taken after this time.
    pub lease_ms: u64,
    /// Longest time written data stay with a client.
    pub write_back_ms: u64,
    pub iso_ms: u64,
    pub segment_bytes: u64,
    pub snapshot_bytes: u64,
    pub cache_ms: u64,
    pub slots: u32,
    /// Requests of each person.
    pub requests: u64,
    pub task_ms: u64,
    pub focus: Focus,
    /// Of 1000 faults that hit a machine, so many hit a leader's, and so many of the rest a host.
    pub at_leaders: u64,
    pub at_hosts: u64,
    /// Longest time without a way to the server.
    pub cut_ms: u64,
    /// A wall clock that steps is off by at most this, either way.
    pub clock_ms: u64,
    /// Of 1000 power losses, so many take the local directory along.
    pub wipes: u64,
    /// Of 1000 jobs, so many may run again, and so many need more than one host.
    pub rerunnable: u64,
    pub wide: u64,
    /// Most hosts of a job.
    pub gang: u64,
    /// Of 1000 submissions, after so many their person does something to the job.
    pub acts: u64,
    /// Each shepherd watches the silence of its host, too; without, only `cbexe` does, and lives.
    pub shepherds_watch: bool,
    /// The share is put back from a copy.
    pub restore: bool,
    /// Faults in a fixed order, beside those drawn.
    pub script: Script,
    offsets: Vec<i64>,
}

impl Plan {
    pub(super) fn of(options: &Options) -> Plan {
        let mut rng = super::rng::rng(options.seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        // A run with few kinds of faults goes deeper than one with all.
        let share = rng.pick(&[250, 500, 1000]);
        let mut faults: Vec<Fault> = FAULTS
            .iter()
            .copied()
            .filter(|_| rng.permille(share))
            .collect();
        let focus = Focus::draw(&mut rng, options.variant);
        let focus = options.focus.unwrap_or(focus);
        if faults.is_empty() || focus == Focus::Usurper {
            // The hardest for a protocol: everything else works, only the moments are chosen.
            faults = vec![Fault::Ambush, Fault::Ambush, Fault::Stop, Fault::Locks];
        }
        if super::rng::rng(options.seed ^ 0x666c_6970).permille(FLIPS_PERMILLE) {
            faults.push(Fault::Flip);
        }
        let machines = options.leaders + options.hosts + options.clients;
        let stale = options.variant == Variant::D8;
        let plan = Plan {
            variant: options.variant,
            steps: options.steps,
            leaders: options.leaders,
            hosts: options.hosts,
            people: options.clients,
            faults,
            fault_every_ms: rng.pick(&[300, 700, 1500, 4000]),
            lax_ms: if stale { 3000 } else { rng.pick(&[0, 3000]) },
            facts_ms: rng.pick(&[0, 3000, 30_000]),
            list_ms: rng.pick(&[0, 3000, 30_000]),
            missing_ms: rng.pick(&[0, 3000, 60_000]),
            lease_ms: rng.pick(&[2000, 5000, 10_000, 30_000]),
            write_back_ms: rng.pick(&[100, 5000, 30_000]),
            iso_ms: rng.pick(&[0, 0, 20_000]),
            segment_bytes: rng.pick(&[4096, 16_384, 1 << 20]),
            snapshot_bytes: rng.pick(&[8192, 32_768, 1 << 30]),
            cache_ms: if stale { 0 } else { 3000 },
            slots: rng.pick(&[1, 2, 4]),
            requests: rng.between(2, 8),
            task_ms: rng.pick(&[300, 2000, 8000]),
            focus,
            at_leaders: 600,
            at_hosts: 0,
            cut_ms: 25_000,
            clock_ms: 600_000,
            wipes: 0,
            rerunnable: 300,
            wide: 80,
            gang: 2,
            acts: 310,
            shepherds_watch: rng.permille(500),
            restore: false,
            script: Script::new(),
            offsets: (0..machines)
                .map(|_| rng.between(0, 1_200_000) as i64 - 600_000)
                .collect(),
        };
        plan.focused(&mut rng).flipping(&mut rng)
    }

    /// What the focus of the run makes different.
    fn focused(self, rng: &mut SplitMix64) -> Plan {
        match self.focus {
            Focus::Usual | Focus::Usurper | Focus::Flips => self,
            Focus::Cutoff => Plan {
                hosts: self.hosts.min(4),
                people: self.people.min(3),
                faults: CUTS.to_vec(),
                fault_every_ms: rng.pick(&[3000, 8000]),
                at_leaders: 100,
                at_hosts: 1000,
                cut_ms: 90_000,
                iso_ms: 30_000,
                task_ms: rng.pick(&[20_000, 90_000]),
                rerunnable: 800,
                wide: 150,
                ..self
            },
            Focus::Gangs => Plan {
                faults: vec![
                    Fault::Kill,
                    Fault::Power,
                    Fault::Cut,
                    Fault::Stop,
                    Fault::Ambush,
                    Fault::Clock,
                ],
                fault_every_ms: rng.pick(&[700, 2500]),
                at_leaders: 200,
                at_hosts: 900,
                clock_ms: rng.pick(&[600_000, 3_600_000, 86_400_000]),
                slots: rng.pick(&[1, 2]),
                task_ms: rng.pick(&[2000, 20_000]),
                wide: 600,
                gang: 5,
                acts: 500,
                ..self
            },
            Focus::Power => Plan {
                hosts: self.hosts.min(5),
                faults: vec![
                    Fault::Power,
                    Fault::Power,
                    Fault::Restart,
                    Fault::Kill,
                    Fault::Flaky,
                ],
                fault_every_ms: rng.pick(&[500, 1500]),
                at_leaders: 200,
                at_hosts: 1000,
                wipes: rng.pick(&[0, 300]),
                requests: rng.between(6, 12),
                task_ms: rng.pick(&[100, 1000]),
                ..self
            },
            Focus::Verbs => Plan {
                hosts: self.hosts.min(5),
                fault_every_ms: rng.pick(&[1500, 4000]),
                clock_ms: rng.pick(&[600_000, 3_600_000, 86_400_000]),
                requests: rng.between(4, 8),
                task_ms: rng.pick(&[2000, 8000]),
                gang: 4,
                acts: 900,
                ..self
            },
            Focus::Restore => self.restored(rng),
        }
    }

    /// The share is put back from a copy, under few other faults or none.
    fn restored(self, rng: &mut SplitMix64) -> Plan {
        Plan {
            hosts: self.hosts.min(5),
            faults: match rng.below(3) {
                0 => vec![Fault::Kill, Fault::Stop, Fault::Slow],
                1 => vec![Fault::Kill, Fault::Cut, Fault::Ambush],
                _ => Vec::new(),
            },
            fault_every_ms: rng.pick(&[2000, 6000]),
            requests: rng.between(6, 12),
            task_ms: rng.pick(&[1000, 8000, 30_000]),
            wide: rng.pick(&[80, 400]),
            gang: 3,
            acts: 400,
            restore: true,
            ..self
        }
    }

    fn flipping(self, rng: &mut SplitMix64) -> Plan {
        if self.focus == Focus::Restore {
            return self;
        }
        if self.focus != Focus::Flips {
            return self;
        }
        let (flip, kill, stop) = (Fault::Flip, Fault::Kill, Fault::Stop);
        Plan {
            hosts: self.hosts.min(4),
            faults: vec![flip, flip, flip, kill, stop],
            fault_every_ms: rng.pick(&[300, 1000, 3000]),
            at_hosts: 500,
            slots: rng.pick(&[2, 4]),
            requests: rng.between(6, 12),
            ..self
        }
    }

    /// A run in which nothing fails but what a script says, and every client asks the server.
    #[cfg(test)]
    pub(super) fn scripted(options: &Options, script: Script) -> Plan {
        Plan {
            faults: Vec::new(),
            lax_ms: 0,
            facts_ms: 0,
            list_ms: 0,
            missing_ms: 0,
            lease_ms: 30_000,
            write_back_ms: 30_000,
            iso_ms: 0,
            slots: 1,
            requests: 4,
            task_ms: 2000,
            restore: false,
            script,
            ..Plan::of(options)
        }
    }

    /// How far a machine's wall clock is off, ms.
    pub(super) fn clock_offset(&self, machine: usize) -> i64 {
        self.offsets.get(machine).copied().unwrap_or(0)
    }
}
