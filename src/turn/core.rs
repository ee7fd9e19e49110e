//! All data that the leader knows and needs to decide. Takes no turn: `mod.rs` does.

use super::memory::{Memory, ReservedSlots};
use super::request_queue::RequestQueue;
use crate::config::Config;
use crate::model::{Mono, Now, Stamp};
use crate::record::load::LoadDoc;
use crate::sched::{Engine, HostTable};
use crate::sensors::cluster_resources::ClusterResources;
use crate::state::State;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the head of this file.
pub struct Core {
    pub state: State,
    pub config: Arc<Config>,
    pub hosts: HostTable,
    pub engine: Engine,
    /// Problems of the last refused reconfiguration, for the view.
    pub config_problems: Vec<String>,
    pub(super) inputs: Inputs,
    pub(super) pass: PassTimer,
    pub(super) memory: Memory,
    pub(super) requests: RequestQueue,
    pub(super) clock: super::leader_clock::LeaderClock,
    /// As of the last [`super::refresh`].
    pub(super) reserved: ReservedSlots,
}

/// The latest inputs from the driver and the hosts.
pub(super) struct Inputs {
    /// The uid that owns the share: in a single-user cluster its requests are those of the
    /// administrator.
    pub service_uid: u32,
    /// Groups by user, as the driver looked them up.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Last load sample by host, and milliseconds since its beat changed.
    pub loads: BTreeMap<String, (LoadDoc, u64)>,
    /// What sensors report.
    pub sensors: ClusterResources,
    /// The share is full: nothing is started or moved, and the scheduler ends nothing.
    pub share_full: bool,
}

/// When the scheduler runs, and whether its host table is up to date.
pub(super) struct PassTimer {
    /// Something changed that may allow a job to start.
    pub needed: bool,
    /// When to run even if nothing happens (`-b`).
    pub wake: Option<Stamp>,
    /// When the scheduler last ran.
    pub last: Mono,
    /// The host table must be rebuilt.
    pub hosts_changed: bool,
}

impl Core {
    pub fn new(state: State, config: Arc<Config>, service_uid: u32) -> Core {
        Core {
            engine: Engine::new(config.clone()),
            state,
            config,
            hosts: HostTable::default(),
            config_problems: Vec::new(),
            inputs: Inputs {
                service_uid,
                groups: BTreeMap::new(),
                loads: BTreeMap::new(),
                sensors: ClusterResources::default(),
                share_full: false,
            },
            pass: PassTimer {
                needed: true,
                wake: None,
                last: Mono(0),
                hosts_changed: true,
            },
            memory: Memory::default(),
            requests: RequestQueue::default(),
            clock: super::leader_clock::LeaderClock::default(),
            reserved: ReservedSlots::default(),
        }
    }

    /// Makes the next turn run the scheduler.
    pub fn request_pass(&mut self) {
        self.pass.needed = true;
    }

    /// Makes the next turn rebuild the host table and run the scheduler.
    pub(super) fn hosts_changed(&mut self) {
        self.pass.hosts_changed = true;
        self.pass.needed = true;
    }

    pub fn set_share_full(&mut self, full: bool) {
        self.inputs.share_full = full;
    }

    /// Groups of a user in the operating system, as the driver looked them up.
    pub fn note_groups(&mut self, user: &str, groups: &[String]) {
        self.engine.note_groups(user, groups);
        let groups = groups.to_vec();
        self.inputs.groups.insert(user.to_owned(), groups);
    }

    /// The known groups of a user.
    pub(super) fn groups_of(&self, user: &str) -> &[String] {
        self.inputs.groups.get(user).map_or(&[], Vec::as_slice)
    }

    /// When pending jobs are considered again even if nothing changed (`sched_interval`): a
    /// condition of `select[]` may become true by itself.
    pub(super) fn next_pass(&self) -> Option<Mono> {
        let every = self.config.general.sched_interval_ms;
        (self.state.pending_jobs() > 0).then(|| self.pass.last.plus_ms(every))
    }

    /// Milliseconds until something becomes due by the passing of time; `None`: never.
    pub fn idle_ms(&self, now: Now) -> Option<u64> {
        // After a restore nothing is decided, even if something is due.
        if self.state.restored_share().is_some() {
            return None;
        }
        let wall = self.clock.agreed(now.wall);
        let days = [
            self.pass.wake,
            self.state.next_deadline(),
            self.state.next_retry(),
        ];
        let days = days.into_iter().flatten().map(|at| at.since_ms(wall));
        let gangs = self.memory.gangs.next_deadline();
        let history = self.memory.share_history.due();
        let intervals = [self.next_pass(), gangs, history].into_iter().flatten();
        let crons = self.cron_due_ms(wall, now.mono);
        days.chain(intervals.map(|at| at.since_ms(now.mono)))
            .chain(crons)
            .min()
    }
}
