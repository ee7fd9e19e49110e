//! The processes of the simulated cluster: the daemons' own code on a simulated operating system,
//! and the clients. Starts them and, like a supervisor, restarts them.

use super::clients::Client;
use super::cluster::{Cluster, Event, ProcessSlot};
use super::configuration::{self, SERVICE, Settings};
use super::history::History;
use super::kernel::{Kernel, MS, ProcId};
use super::plan::{Role, Trigger};
use super::simulated_os::{SHARE, SimulatedOs};
use super::world::{World, WorldState};
use super::{restore_admin, shepherds};
use crate::admin::init;
use crate::host::exe;
use crate::host::ls;
use crate::host::setup::HostSetup;
use crate::master::{self, Witness};
use crate::spool::{Layout, Site};
use crate::state::State;
use crate::sys::{fs, platform};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Creates the cluster, then starts everything.
pub(super) fn begin(world: &Arc<World>, inner: &mut WorldState) {
    spawn(world, inner, 0, "setup".into(), SERVICE, 0, make);
}

/// Starts a process on a machine: its first thread runs `body` from `at` on.
fn spawn(
    world: &Arc<World>,
    inner: &mut WorldState,
    machine: usize,
    name: String,
    uid: u32,
    at: u64,
    body: impl FnOnce(&SimulatedOs) + Send + 'static,
) -> ProcId {
    let m = &inner.cluster.machines[machine];
    let (boot, frozen_until) = (m.boot, m.frozen_until);
    let proc = inner.kernel.add_proc(machine, name.clone(), frozen_until);
    let os = SimulatedOs {
        world: world.clone(),
        proc,
        machine,
        boot,
        uid,
    };
    let body = move || {
        platform::enter(Arc::new(os.clone()));
        body(&os);
    };
    world.start(inner, proc, name, at, Box::new(body));
    proc
}

fn make(os: &SimulatedOs) {
    let config = {
        let plan = &os.world.lock().cluster.plan;
        configuration::text(plan, Settings::first(plan))
    };
    let made = init::make(&Layout::new(SHARE), "sim", &config);
    let mut inner = os.world.lock();
    let WorldState { kernel, cluster } = &mut *inner;
    match made {
        Ok(doc) => cluster.doc = Some(doc),
        Err(e) => {
            let text = format!("no cluster: {}", e.text);
            cluster.history.broken(kernel, text);
        }
    }
    // The calls that created the cluster are not counted.
    kernel.steps = 0;
    for slot in 0..cluster.slots.len() {
        let at = kernel.now + kernel.rng.below(300) * MS;
        cluster.plan_at(kernel, at, Event::Start(slot));
    }
    let at = kernel.now + kernel.rng.between(500, 6000) * MS;
    cluster.plan_at(kernel, at, Event::NextFault);
    cluster.plan_script(kernel);
    cluster.plan_restore(kernel);
}

/// Starts the process of a slot, if it should run and does not.
pub(super) fn start(world: &Arc<World>, inner: &mut WorldState, slot: usize) {
    let WorldState { kernel, cluster } = inner;
    let s = &mut cluster.slots[slot];
    let (role, machine) = (s.role, s.machine);
    let runs = s.proc.is_some_and(|p| kernel.procs[p].threads > 0);
    if s.done || runs || !cluster.machines[machine].up || cluster.doc.is_none() {
        return;
    }
    let from = cluster.leaders_from;
    if role == Role::Leader && kernel.now < from {
        let at = from + kernel.rng.below(2000) * MS;
        cluster.plan_at(kernel, at, Event::Start(slot));
        return;
    }
    s.starts += 1;
    let program = match role {
        Role::Setup => "setup",
        Role::Leader => "cbsched",
        Role::Executor => "cbexe",
        Role::Load => "cbls",
        Role::Shepherds => "tasks",
        Role::Client => "csub",
        Role::RestoreAdmin => "cadmin",
    };
    let name = format!("{}/{program}.{}", cluster.machines[machine].name, s.starts);
    let uid = match role {
        Role::Client => configuration::uid_of_client(&cluster.plan, machine),
        _ => SERVICE,
    };
    let at = kernel.now + 1;
    let proc = spawn(world, inner, machine, name, uid, at, move |os| {
        let result = run(os, role, slot);
        let mut inner = os.world.lock();
        let name = inner.kernel.procs[os.proc].name.clone();
        inner.kernel.trace(&name, || format!("ends: {result}"));
        inner.kernel.kill(os.proc);
    });
    inner.cluster.slots[slot].proc = Some(proc);
}

/// Handles the end of a process: its supervisor starts another one.
pub(super) fn ended(inner: &mut WorldState, proc: usize) {
    let WorldState { kernel, cluster } = inner;
    let Some(slot) = cluster.slots.iter().position(|s| s.proc == Some(proc)) else {
        return;
    };
    cluster.slots[slot].proc = None;
    let up = cluster.machines[cluster.slots[slot].machine].up;
    if up && !cluster.slots[slot].done {
        let at = kernel.now + kernel.rng.between(50, 2000) * MS;
        cluster.plan_at(kernel, at, Event::Start(slot));
    }
}

/// Runs the code of a process to its end. Returns what it ended with.
fn run(os: &SimulatedOs, role: Role, slot: usize) -> String {
    let (host, doc, options) = {
        let inner = os.world.lock();
        let host = inner.cluster.machines[os.machine].name.to_owned();
        let options = leader_options(os, &inner.cluster);
        (host, inner.cluster.doc.clone(), options)
    };
    let Some(doc) = doc else {
        return "there is no cluster".into();
    };
    let local = shepherds::local_dir(&host);
    let site = Site {
        conf: PathBuf::from("/local/cb.conf"),
        share: PathBuf::from(SHARE),
        host: host.clone(),
        local: Some(local.dir().to_path_buf()),
        unsafe_mount: false,
        servers: None,
        esubs: None,
    };
    let made = fs::mkdir_p(local.dir(), 0o755);
    if let Err(e) = made {
        return e.to_string();
    }
    let setup = || HostSetup {
        layout: site.layout(),
        site: site.clone(),
        cluster: doc.clone(),
        local: local.clone(),
        share_is_local: false,
    };
    let client = Client {
        os,
        site: &site,
        slot,
    };
    let never = crossbeam::channel::never();
    match role {
        Role::Setup => String::new(),
        Role::Leader => match master::serve(&site, never, &options) {
            Ok(code) => format!("code {code}"),
            Err(e) => e,
        },
        Role::Load => ls::serve(setup(), &never).err().unwrap_or_default(),
        Role::Executor => {
            let own = os.clone();
            let start_replacement = move |_: &_, log, tx| Ok(shepherds::spawner(&own, log, tx));
            let options = exe::Options {
                no_cgroups: true,
                replacement: Some(Arc::new(start_replacement)),
                follow_lower: !options.protocol.host_epoch,
            };
            exe::serve(setup(), &options, &never)
                .err()
                .unwrap_or_default()
        }
        Role::Shepherds => {
            shepherds::run(os, &local);
            String::new()
        }
        Role::Client => client.run(),
        Role::RestoreAdmin => restore_admin::run(&client),
    }
}

fn leader_options(os: &SimulatedOs, cluster: &Cluster) -> master::Options {
    let plan = &cluster.plan;
    let witness: Arc<dyn Witness> = Arc::new(HistoryWitness(os.world.clone(), os.proc));
    master::Options {
        accept_loss: false,
        cache_ms: Some(plan.cache_wait_ms),
        opens_are_fresh: Some(plan.caches.open_stale_ms == 0),
        protocol: plan.variant.protocol(),
        segment_bytes: Some(plan.segment_bytes),
        acks_bytes: Some(plan.segment_bytes / 4),
        // Room runs out here at random, not because of what is written: a reserve would change
        // nothing.
        reserve_bytes: Some(0),
        snapshot_bytes: Some(plan.snapshot_bytes),
        // It needs processes and the network.
        notifier: None,
        witness: Some(witness),
    }
}

/// Reports a leader's state to the history.
struct HistoryWitness(Arc<World>, ProcId);

impl fmt::Debug for HistoryWitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HistoryWitness")
    }
}

impl HistoryWitness {
    fn check(&self, check: impl FnOnce(&mut History, &mut Kernel)) {
        let mut inner = self.0.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        check(&mut cluster.history, kernel);
    }
}

impl Witness for HistoryWitness {
    fn recovered(&self, epoch: u64, state: &State) {
        let mut inner = self.0.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        cluster.history.recovered(kernel, epoch, state);
        let leads = |s: &ProcessSlot| s.role == Role::Leader && s.proc == Some(self.1);
        if cluster.slots.iter().any(leads) {
            cluster.run_script(kernel, |t| matches!(t, Trigger::Recovered), Some(self.1));
        }
    }

    fn committed(&self, epoch: u64, state: &State) {
        self.check(|history, kernel| {
            history.committed(epoch, state);
            history.restored.observe(kernel, state);
        });
    }

    fn after_turn(&self, epoch: u64, state: &State, changed: bool) {
        self.check(|history, kernel| history.note_turn(kernel, epoch, state, changed));
    }
}
