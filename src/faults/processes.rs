//! The processes of the simulated cluster: the daemons' own code with a simulated way out, and
//! people who submit jobs. Starts them and, as supervisors do, starts them again.

use super::clients;
use super::cluster::{Happening, Role, Scene, Slot};
use super::history::History;
use super::injector::When;
use super::plan::Plan;
use super::restored_share;
use super::simulated_os::{Port, SHARE};
use super::tasks;
use super::world::{Inner, Proc, ProcId, THAW_US, World};
use crate::admin::init;
use crate::host::exe;
use crate::host::ls;
use crate::host::setup::Place;
use crate::master::{self, Witness};
use crate::spool::{Layout, Site};
use crate::state::State;
use crate::sys::{fs, platform};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

const MS: u64 = 1000;
/// The account of the daemons.
const SERVICE: u32 = 900;
/// The first of the people's accounts, and how many there are.
const USERS: (u32, u32) = (1001, 3);

/// Makes the cluster, then lets everything begin.
pub(super) fn begin(world: &Arc<World>, inner: &mut Inner) {
    let proc = add_proc(inner, Role::Setup, 0, "setup".into());
    let (clone, boot) = (world.clone(), inner.scene.machines[0].boot);
    let body = move || {
        let port = Port {
            world: clone,
            proc,
            machine: 0,
            boot,
            uid: SERVICE,
        };
        platform::enter(Arc::new(port.clone()));
        make(&port);
    };
    world.start(inner, proc, "setup".into(), 0, Box::new(body));
}

fn make(port: &Port) {
    let config = {
        let inner = port.world.lock();
        let plan = &inner.scene.plan;
        configuration(plan, first_settings(plan))
    };
    let made = init::make(&Layout::new(SHARE), "sim", &config);
    let mut inner = port.world.lock();
    let Inner { core, scene } = &mut *inner;
    match made {
        Ok(doc) => scene.cluster = Some(doc),
        Err(e) => scene
            .history
            .broken(core, format!("no cluster: {}", e.text)),
    }
    // Making the cluster is no part of what is tried.
    core.steps = 0;
    for slot in 0..scene.slots.len() {
        let at = core.now + core.rng.below(300) * MS;
        scene.plan_at(core, at, Happening::Start(slot));
    }
    let at = core.now + core.rng.between(500, 6000) * MS;
    scene.plan_at(core, at, Happening::NextFault);
    scene.arm(core);
    scene.plan_restore(core);
}

/// What an administrator changes in cb.yaml.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub iso_ms: u64,
    /// The first so many hosts are listed.
    pub hosts: usize,
    /// Slots of all jobs of the second queue.
    pub limit: Option<u32>,
}

/// The cb.yaml that a run begins with.
pub(super) fn first_settings(plan: &Plan) -> Settings {
    Settings {
        iso_ms: plan.iso_ms,
        hosts: plan.hosts,
        limit: None,
    }
}

pub(super) fn configuration(plan: &Plan, settings: Settings) -> String {
    let masters: Vec<String> = (1..=plan.leaders).map(|n| format!("m{n}")).collect();
    let hosts = (1..=settings.hosts).map(|n| format!("- name: 'h{n}'\n"));
    let iso = match settings.iso_ms {
        0 => "0".to_owned(),
        ms => format!("{}s", ms / 1000),
    };
    let limit = settings.limit.map(|n| format!("\n  slots: {n}"));
    format!(
        "cluster:\n  name: sim\n  administrators: [u{SERVICE}]\n  masters: '{}'\n  \
         lease_timeout: 3s\n  poll_interval: 500ms\ngeneral:\n  iso_timeout: {iso}\nhosts:\n\
         - {{name: default, slots: {}}}\n{}queues:\n- name: normal\n- name: other{}\n",
        masters.join(" "),
        plan.slots,
        hosts.collect::<String>(),
        limit.unwrap_or_default(),
    )
}

fn add_proc(inner: &mut Inner, _role: Role, machine: usize, name: String) -> usize {
    let frozen_until = inner.scene.machines[machine].frozen_until;
    inner.core.procs.push(Proc {
        name,
        machine,
        alive: true,
        frozen_until,
        thaw: THAW_US,
        threads: 0,
    });
    inner.core.procs.len() - 1
}

/// Whether the person at a machine administers the cluster: the last one does.
pub(super) fn administers(plan: &Plan, machine: usize) -> bool {
    machine + 1 == plan.leaders + plan.hosts + plan.people
}

/// The account of whoever sits at a machine.
pub(super) fn uid_of_person(plan: &Plan, machine: usize) -> u32 {
    match administers(plan, machine) {
        true => SERVICE,
        false => USERS.0 + machine as u32 % USERS.1,
    }
}

/// Starts the process of a slot.
pub(super) fn start(world: &Arc<World>, inner: &mut Inner, slot: usize) {
    let (role, machine, done) = {
        let s = &inner.scene.slots[slot];
        (s.role, s.machine, s.done)
    };
    if done || !inner.scene.machines[machine].up || inner.scene.cluster.is_none() {
        return;
    }
    if inner.scene.slots[slot]
        .proc
        .is_some_and(|p| inner.core.procs[p].threads > 0)
    {
        return;
    }
    let from = inner.scene.leaders_from;
    if role == Role::Leader && inner.core.now < from {
        let Inner { core, scene } = inner;
        let at = from + core.rng.below(2000) * MS;
        scene.plan_at(core, at, Happening::Start(slot));
        return;
    }
    let host = inner.scene.machines[machine].name;
    let what = match role {
        Role::Setup => "setup",
        Role::Leader => "cbsched",
        Role::Executor => "cbexe",
        Role::Load => "cbls",
        Role::Shepherds => "tasks",
        Role::Person => "csub",
        Role::Restorer => "cadmin",
    };
    inner.scene.slots[slot].starts += 1;
    let n = inner.scene.slots[slot].starts;
    let name = format!("{host}/{what}.{n}");
    let proc = add_proc(inner, role, machine, name.clone());
    inner.scene.slots[slot].proc = Some(proc);
    let boot = inner.scene.machines[machine].boot;
    let uid = match role {
        Role::Person => uid_of_person(&inner.scene.plan, machine),
        _ => SERVICE,
    };
    let clone = world.clone();
    let body = move || {
        let port = Port {
            world: clone,
            proc,
            machine,
            boot,
            uid,
        };
        platform::enter(Arc::new(port.clone()));
        let said = live(&port, role, slot);
        let mut inner = port.world.lock();
        let name = inner.core.procs[proc].name.clone();
        inner.core.say(&name, || format!("ends: {said}"));
        inner.core.kill(proc);
    };
    let at = inner.core.now + 1;
    world.start(inner, proc, name, at, Box::new(body));
}

/// A process is gone: its supervisor starts another.
pub(super) fn ended(inner: &mut Inner, proc: usize) {
    let Inner { core, scene } = inner;
    let Some(slot) = scene.slots.iter().position(|s| s.proc == Some(proc)) else {
        return;
    };
    scene.slots[slot].proc = None;
    let up = scene.machines[scene.slots[slot].machine].up;
    if up && !scene.slots[slot].done {
        let at = core.now + core.rng.between(50, 2000) * MS;
        scene.plan_at(core, at, Happening::Start(slot));
    }
}

fn live(port: &Port, role: Role, slot: usize) -> String {
    let (host, cluster, options) = {
        let inner = port.world.lock();
        let host = inner.scene.machines[port.machine].name.to_owned();
        let options = leader_options(port, &inner.scene);
        (host, inner.scene.cluster.clone(), options)
    };
    let Some(cluster) = cluster else {
        return "there is no cluster".into();
    };
    let local = tasks::local_dir(&host);
    let site = Site {
        conf: PathBuf::from("/local/cb.conf"),
        share: PathBuf::from(SHARE),
        host: host.clone(),
        local: Some(local.dir().to_path_buf()),
        unsafe_mount: false,
        servers: None,
    };
    let made = fs::mkdir_p(local.dir(), 0o755);
    if let Err(e) = made {
        return e.to_string();
    }
    let place = || Place {
        layout: site.layout(),
        site: site.clone(),
        cluster: cluster.clone(),
        local: local.clone(),
        share_is_local: false,
    };
    let never = crossbeam::channel::never();
    match role {
        Role::Setup => String::new(),
        Role::Leader => match master::serve(&site, never, &options) {
            Ok(code) => format!("code {code}"),
            Err(e) => e,
        },
        Role::Load => ls::serve(place(), &never).err().unwrap_or_default(),
        Role::Executor => {
            let own = port.clone();
            let stand = move |_: &_, log, tx| Ok(tasks::spawner(&own, log, tx));
            let options = exe::Options {
                no_cgroups: true,
                stand: Some(Arc::new(stand)),
                follow_lower: !options.protocol.host_epoch,
            };
            exe::serve(place(), &options, &never)
                .err()
                .unwrap_or_default()
        }
        Role::Shepherds => {
            tasks::tend(port, &local);
            String::new()
        }
        Role::Person => clients::person(port, &site, slot),
        Role::Restorer => restored_share::administer(&clients::Person {
            port,
            site: &site,
            slot,
        }),
    }
}

fn leader_options(port: &Port, scene: &Scene) -> master::Options {
    let plan = &scene.plan;
    let witness: Arc<dyn Witness> = Arc::new(Eyes(port.world.clone(), port.proc));
    master::Options {
        accept_loss: false,
        cache_ms: Some(plan.cache_ms),
        fresh: Some(plan.lax_ms == 0),
        protocol: plan.variant.protocol(),
        segment_bytes: Some(plan.segment_bytes),
        acks_bytes: Some(plan.segment_bytes / 4),
        // Room runs out here by chance, not by what is written: a reserve would change nothing.
        reserve_bytes: Some(0),
        snapshot_bytes: Some(plan.snapshot_bytes),
        witness: Some(witness),
    }
}

/// Holds what a leader believes against what happened.
struct Eyes(Arc<World>, ProcId);

impl fmt::Debug for Eyes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Eyes")
    }
}

impl Eyes {
    fn look(&self, judge: impl FnOnce(&mut History, &mut super::world::Core)) {
        let mut inner = self.0.lock();
        let Inner { core, scene } = &mut *inner;
        judge(&mut scene.history, core);
    }
}

impl Witness for Eyes {
    fn recovered(&self, epoch: u64, state: &State) {
        let mut inner = self.0.lock();
        let Inner { core, scene } = &mut *inner;
        scene.history.recovered(core, epoch, state);
        let leads = |s: &Slot| s.role == Role::Leader && s.proc == Some(self.1);
        if scene.slots.iter().any(leads) {
            scene.cue(core, |when| matches!(when, When::Recovered), Some(self.1));
        }
    }

    fn committed(&self, epoch: u64, state: &State) {
        self.look(|history, core| {
            history.note_passed(epoch, state);
            history.hear_of_restore(core, state);
        });
    }

    fn turned(&self, epoch: u64, state: &State, changed: bool) {
        self.look(|history, core| history.turned(core, epoch, state, changed));
    }
}

impl Scene {
    /// A task was started on a host.
    pub(super) fn task_started(&mut self, core: &mut super::world::Core, task: &tasks::Task) {
        let host = self.machines[task.machine].name;
        let on_host = self.history.counted(self.tasks.running_on(task.machine));
        let slots = self.plan.slots;
        self.history.task_started(core, task, host, on_host, slots);
        let executes = |s: &&Slot| s.role == Role::Executor && s.machine == task.machine;
        let proc = self.slots.iter().find(executes).and_then(|s| s.proc);
        self.cue(core, |when| matches!(when, When::Started), proc);
    }
}
