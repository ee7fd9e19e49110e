//! What a leader remembers from turn to turn and writes to no journal: the next leader learns it
//! again from files and reports, at the cost of a few repeated orders. Decides nothing.

pub(super) mod exit_rates;
pub(super) mod gangs;
pub(super) mod held_ends;
pub(super) mod hosts;
pub(super) mod long_hooks;
pub(super) mod part_usage;
pub(super) mod start_faults;
pub(super) mod stray_runs;

use super::cron::CronTimetable;
use crate::model::{JobKey, Mono};
use crate::state::HostId;
use exit_rates::ExitRates;
use gangs::GangStarts;
use held_ends::HeldEnds;
use hosts::HostMemory;
use long_hooks::LongHooks;
use part_usage::PartUsage;
use start_faults::StartFaults;
use std::collections::{BTreeMap, BTreeSet};
use stray_runs::StrayRuns;

/// Pause between two records of one queue's history, in milliseconds.
const HISTORY_MS: u64 = 300_000;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Memory {
    hosts: BTreeMap<String, HostMemory>,
    /// Hosts that have been silent for longer than the leader tolerates.
    pub silent: BTreeSet<String>,
    pub stray_runs: StrayRuns,
    pub gangs: GangStarts,
    pub part_usage: PartUsage,
    /// How often a job could not be started because its host could not start tasks.
    pub failed_starts: BTreeMap<JobKey, u32>,
    /// Starts that failed for lack of a file, a directory or an account, or in a pre-exec command.
    pub faults: StartFaults,
    /// Jobs that failed lately.
    pub exit_rates: ExitRates,
    /// Ends that are not recorded yet because something of the job may be left on its hosts.
    pub held_ends: HeldEnds,
    /// Commands around jobs that take long.
    pub long_hooks: LongHooks,
    pub share_history: HistoryTimer,
    /// When cron jobs fall due.
    pub timetable: CronTimetable,
    /// The job whose dependency was evaluated last.
    pub last_judged: u32,
    pub last: LastTimes,
}

/// When this leader last did what it does from time to time.
#[derive(Default)]
pub(super) struct LastTimes {
    /// Removed tokens and keys.
    pub expire: Mono,
    /// Checked whether locks of hosts have ended.
    pub lock_check: Mono,
    /// Reviewed failed starts.
    pub start_review: Mono,
    /// Reviewed hooks that take long.
    pub hook_review: Mono,
}

impl Memory {
    pub(crate) fn host(&self, name: &str) -> Option<&HostMemory> {
        self.hosts.get(name)
    }

    pub(crate) fn host_mut(&mut self, name: &str) -> &mut HostMemory {
        if !self.hosts.contains_key(name) {
            self.hosts.insert(name.to_owned(), HostMemory::default());
        }
        self.hosts.get_mut(name).expect("just inserted")
    }
}

/// Queues whose share trees have history that is not in the journal.
#[derive(Default)]
pub(super) struct HistoryTimer {
    queues: BTreeSet<String>,
    /// Since when the first of them has such history.
    since: Mono,
}

impl HistoryTimer {
    pub(crate) fn contains(&self, queue: &str) -> bool {
        self.queues.contains(queue)
    }

    pub(crate) fn add(&mut self, queue: &str, now: Mono) {
        if self.queues.is_empty() {
            self.since = now;
        }
        self.queues.insert(queue.to_owned());
    }

    /// When history must be written to the journal.
    pub(crate) fn due(&self) -> Option<Mono> {
        (!self.queues.is_empty()).then(|| self.since.plus_ms(HISTORY_MS))
    }

    /// The queues, if it is time to write their history.
    pub(crate) fn take_due(&mut self, now: Mono) -> BTreeSet<String> {
        match self.due().is_some_and(|at| at <= now) {
            true => std::mem::take(&mut self.queues),
            false => BTreeSet::new(),
        }
    }
}

/// Slots that are reserved for pending jobs, by the rows of views that show them.
#[derive(Clone, Debug, Default)]
pub(super) struct ReservedSlots {
    pub hosts: BTreeMap<HostId, u32>,
    pub queues: BTreeMap<String, u64>,
    pub users: BTreeMap<u32, u64>,
}

impl ReservedSlots {
    pub(crate) fn host(&self, host: HostId) -> u32 {
        self.hosts.get(&host).copied().unwrap_or(0)
    }

    pub(crate) fn queue(&self, queue: &str) -> u64 {
        self.queues.get(queue).copied().unwrap_or(0)
    }

    pub(crate) fn user(&self, uid: u32) -> u64 {
        self.users.get(&uid).copied().unwrap_or(0)
    }
}
