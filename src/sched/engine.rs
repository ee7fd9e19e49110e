//! The interface of the scheduler: [`Engine::sync`] updates its picture of the cluster,
//! [`Engine::plan`] decides. Owns the picture and what one pass leaves to the next.

use super::hosts::HostTable;
use super::pass::{Pass, PassMemory};
use super::picture::Picture;
use super::plan::Plan;
use super::share::UserShareHistory;
use super::start_vetoes::StartVetoes;
use crate::config::Config;
use crate::model::Stamp;
use crate::state::State;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the head of this file.
pub struct Engine {
    /// Takes effect at the next [`Engine::sync`].
    config: Arc<Config>,
    pub(super) picture: Picture,
    pub(super) memory: PassMemory,
    /// The picture must be rebuilt.
    stale: bool,
}

impl Engine {
    /// An empty engine; the first [`Engine::sync`] fills it.
    pub fn new(config: Arc<Config>) -> Engine {
        Engine {
            picture: Picture::new(config.clone()),
            memory: PassMemory::default(),
            stale: true,
            config,
        }
    }

    /// Sets the configuration.
    pub fn configure(&mut self, config: Arc<Config>) {
        self.config = config;
        self.stale = true;
    }

    /// Notes that the wall clock was set forward or back by `by_ms`: the times that this engine
    /// remembers move with it.
    pub fn clock_stepped(&mut self, by_ms: i64) {
        self.memory.clock_stepped(by_ms);
        self.stale = true;
    }

    /// Where jobs get no place because starts failed.
    pub fn vetoes_mut(&mut self) -> &mut StartVetoes {
        &mut self.memory.vetoes
    }

    /// Stores the groups of a user. If they changed, the values that depend on them are computed
    /// again.
    pub fn note_groups(&mut self, user: &str, groups: &[String]) {
        self.stale |= self.picture.users.note(user, groups);
    }

    /// Sets whether plans state why jobs wait. A pass without reasons is faster.
    pub fn give_reasons(&mut self, on: bool) {
        self.memory.skip_reasons = !on;
    }

    /// Sets the time zone of windows. The zones of hosts have no effect.
    pub fn set_zone(&mut self, zone: TimeZone) {
        self.picture.windows.set_zone(zone);
    }

    /// Brings the picture up to date.
    pub fn sync(&mut self, state: &mut State, table: &mut HostTable) {
        let changed = state.take_changed();
        let hosts = table.take_changed();
        let (Some((classes, works)), Some(hosts), false) = (changed, hosts, self.stale) else {
            self.memory = std::mem::take(&mut self.memory).renewed();
            self.picture.rebuild(self.config.clone(), state, table);
            self.stale = false;
            return;
        };
        self.picture.limit_groups(state);
        self.picture.update(state, table, &hosts, &works, &classes);
        if self.picture.quotas.is_outdated() {
            self.memory = std::mem::take(&mut self.memory).renewed();
            self.picture.rebuild(self.config.clone(), state, table);
        }
    }

    /// Decides at most `max` starts, books them and states why the other jobs wait. The caller must
    /// carry out the plan or create a new engine.
    pub fn plan(&mut self, state: &State, table: &HostTable, now: Stamp, max: usize) -> Plan {
        Pass::new(&mut self.picture, &mut self.memory, state, table, now).run(max)
    }

    /// The history of each queue's share tree and the moment up to which it contains all usage:
    /// `now`.
    pub fn histories(&mut self, now: Stamp) -> BTreeMap<String, (Stamp, Vec<UserShareHistory>)> {
        self.picture.histories(now)
    }
}
