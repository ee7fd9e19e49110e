//! The effects of due events on the cluster, and the end of a run: when everything is done, or when
//! it is not done within the time limit after the faults. The effects are those of `cluster`,
//! `injector`, `processes` and `share_restore`.

use super::cluster::{Cluster, Event, ProcessSlot};
use super::kernel::{Kernel, S};
use super::plan::{Role, Trigger};
use super::processes;
use super::world::{World, WorldState};
use std::sync::Arc;

/// Maximum time (µs) for everything to finish after the faults have ended.
const QUIET_US: u64 = 900 * S;

/// Carries out the event with that number.
pub(super) fn carry_out_event(world: &Arc<World>, inner: &mut WorldState, n: u64) {
    let Some(event) = inner.cluster.take_event(n) else {
        return;
    };
    let WorldState { kernel, cluster } = inner;
    match event {
        Event::NextFault => cluster.next_fault(kernel),
        Event::Start(slot) => processes::start(world, inner, slot),
        Event::Boot(machine) => cluster.boot(kernel, machine),
        Event::Reachable(machine) => cluster.reachable(kernel, machine),
        Event::ServerUp {
            locks_lost,
            data_lost,
        } => cluster.server_up(kernel, locks_lost, data_lost),
        Event::WriteBack(machine) => cluster.write_back(kernel, machine),
        Event::CheckEnd => cluster.check_end(kernel),
        Event::PowerOff(machine) => cluster.power_off(kernel, machine),
        Event::CopyShare => cluster.copy_share(kernel),
        Event::RestoreShare => cluster.restore_share(kernel),
        Event::NextOfScript => {
            cluster.run_script(kernel, |t| matches!(t, Trigger::After(_)), None);
        }
    }
}

impl Cluster {
    /// Ends the run if everything is done or the time is over.
    fn check_end(&mut self, kernel: &mut Kernel) {
        let client = |s: &ProcessSlot| matches!(s.role, Role::Client | Role::RestoreAdmin);
        let served = self.slots.iter().all(|s| !client(s) || s.done);
        self.check_restore(kernel);
        if self.history.failed() || (served && self.history.all_ended(&self.tasks)) {
            self.history.check_final_ends(kernel);
            kernel.is_over = true;
            return;
        }
        if kernel.now > self.faults_end_at.unwrap_or(kernel.now) + QUIET_US {
            let waiting = self.history.waiting(&self.tasks);
            let who = match served {
                true => "all clients have their answers",
                false => "clients still wait for answers",
            };
            let text = format!("{} s after the last fault: {who}; {waiting}", QUIET_US / S);
            self.history.broken(kernel, text);
            kernel.is_over = true;
            return;
        }
        self.plan_end_check(kernel);
    }
}
