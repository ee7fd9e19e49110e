//! The device nodes that tasks may open: the nodes of their own units and of no other unit, if
//! control groups can enforce this. A task's own nodes are sent with the task; nodes that the
//! spawner does not know stay open to all tasks.

use super::exec::Exec;
use crate::config::Config;
use crate::model::{AttemptId, DeviceNode};
use crate::task::spec::ToSpawner;

impl Exec {
    /// Applies the settings that concern units.
    pub(super) fn configure_units(&mut self, config: Config) {
        self.starter.units.configure(config, &self.setup.site.host);
    }

    /// Updates the list of units and sends changes to the spawner.
    pub(super) fn follow_units(&mut self) {
        if self.spawners.is_simulated() {
            return;
        }
        let host = self.setup.site.host.clone();
        self.starter.units.reread(&self.setup.local.units(), &host);
        if self.starter.units.has_paths() {
            self.starter.units.renew(&host);
        }
        if !self.spawners.is_ready() {
            return;
        }
        let all = self.starter.units.all();
        if self.spawners.unenforced_limits().devices {
            if !all.is_empty() && !std::mem::replace(&mut self.starter.units.warned, true) {
                tracing::warn!(
                    "no control group can deny devices on this host: the environment of a job \
                     names its units, but the job can open others"
                );
            }
            return;
        }
        if self
            .starter
            .units
            .sent
            .as_ref()
            .map_or(all.is_empty(), |sent| *sent == all)
        {
            return;
        }
        tracing::info!(
            "tasks open the devices of their own units only ({} nodes)",
            all.len()
        );
        self.spawners.send(&ToSpawner::Devices { all: all.clone() });
        self.starter.units.sent = Some(all);
    }

    /// The device nodes of the units that an attempt, or its part, has here.
    pub(super) fn devices_of(&self, a: AttemptId) -> Vec<DeviceNode> {
        let entry = self.table.get(a).map(|e| &e.given.units[..]);
        let units = entry.or_else(|| self.parts.units_of(a).map(|units| units.names));
        self.starter.units.nodes_of(units.unwrap_or_default())
    }
}
