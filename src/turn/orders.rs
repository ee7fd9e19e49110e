//! Orders to hosts, derived from the state: for a start, a part, a signal, more slots, other
//! limits; and all orders that are still in force, which a new epoch or orders file repeats.
//! Decides nothing.

use super::context::Turn;
use super::core::Core;
use super::run_again::{requeue_exits, success_exits};
use crate::config::{AppProfile, QueueHooks, seconds_on};
use crate::model::{
    AttemptId, CheckpointAct, ContainerRuntime, CpuBind, JobKey, Limits, OomKill, Share, Spec,
    Stamp, SuspReason, TermReason, UnitCheck, Units,
};
use crate::record::event::SignalAct;
use crate::record::order::{
    Act, CheckpointOrder, HookOrder, Order, PartResources, StartOrder, TaskUnits,
};
use crate::sched::plan_applier::requeue_reason;
use crate::state::{HostId, Run, State, Work};
use std::collections::{BTreeMap, BTreeSet};

impl Turn<'_> {
    /// Renews the orders at the end of the turn. An order with a specification that a later request
    /// of the same turn replaced is created again, or dropped if the attempt is over.
    pub(super) fn renew_orders(&mut self) {
        let mut orders = std::mem::take(&mut self.ready.orders);
        let core = &*self.core;
        orders.retain_mut(|(host, order)| {
            let (a, s) = match order {
                Order::Start(start) => (start.a, start.s),
                Order::Part { a, s, .. } => (*a, *s),
                _ => return true,
            };
            if core.state.specs.contains_key(&s) {
                return true;
            }
            let current = core.state.work(a.j).is_some_and(|w| w.attempt == a.at);
            let again = match (&*order, core.state.host_id(host)) {
                (Order::Start(_), _) => start_order(core, a.j),
                (_, Some(id)) => part_order(core, a.j, id),
                _ => None,
            };
            let again = again.filter(|_| current).map(|(_, order)| order);
            again.map(|new| *order = new).is_some()
        });
        self.ready.orders = orders;
    }
}

/// The current attempt of a job or element.
pub(super) fn attempt_of(j: JobKey, work: &Work) -> AttemptId {
    let at = work.attempt;
    AttemptId { j, at }
}

/// The order that starts the current attempt of `j`, with the host it goes to.
pub(super) fn start_order(core: &Core, j: JobKey) -> Option<(String, Order)> {
    let state = &core.state;
    let job = state.job(j.id)?;
    let work = job.work(j.idx)?;
    let run = work.run.as_deref()?;
    let spec = state.spec(job.spec);
    let queue = core.config.queue(&spec.queue);
    let (index_end, index_step) = job.array().map_or((0, 0), |array| {
        (
            array.all.last().unwrap_or(0),
            array.all.ranges().next().map_or(1, |r| r.step),
        )
    });
    let order = StartOrder {
        a: attempt_of(j, work),
        s: job.spec,
        command: job.command.to_string(),
        name: job.name.as_deref().unwrap_or("").to_owned(),
        hosts: shares(state, run),
        resizes: run.orders.resizes,
        limit_changes: run.orders.limits,
        limits: limits_on(core, spec, first(run)),
        index_end,
        index_step,
        t: job.submit.0,
        nice: queue.map_or(0, |q| q.nice),
        grace_ms: kill_grace_ms(core, spec),
        rerunnable: Some(run.rerun.allowed),
        mark: state.mark(j),
        ran: run.start != Stamp(0),
        hooks: hooks_of(core, spec),
        success: success_exits(core, spec).to_string(),
        requeue: requeue_exits(core, spec).to_string(),
        warn: spec.warn.or(queue.and_then(|q| q.warn)),
        private: !core.config.general.user_view_alljobs,
        bind: queue.map_or(CpuBind::None, |q| q.cpu_bind),
        part_binds: run.part_binds().to_vec(),
        units: task_units(core, spec, run),
    };
    let host = order.hosts.first()?.0.clone();
    Some((host, Order::Start(Box::new(order))))
}

/// The wait between two signals of the end of a job: the user's of Slurm know only TERM and KILL.
fn kill_grace_ms(core: &Core, spec: &Spec) -> u64 {
    let general = &core.config.general;
    match spec.slurm.is_some() {
        true => general.kill_wait_ms,
        false => general.job_terminate_interval_ms,
    }
}

/// The same for an order: the wait before a stop has no other name in Slurm.
pub(super) fn grace_of(core: &Core, j: JobKey, act: Act) -> u64 {
    let spec = core.state.spec_of(j.id).filter(|_| act == Act::Terminate);
    spec.map_or(core.config.general.job_terminate_interval_ms, |spec| {
        kill_grace_ms(core, spec)
    })
}

/// What the queue of a job runs around its command, and how long that and the job's own commands
/// may run.
fn hooks_of(core: &Core, spec: &Spec) -> Option<Box<HookOrder>> {
    let queue = core.config.queue(&spec.queue);
    let queue = queue.map(|queue| &queue.hooks);
    let of_queue = queue.filter(|hooks| !hooks.is_none());
    let own = !(spec.hooks.pre.is_empty() && spec.hooks.post.is_empty());
    let own = own || !spec.files.is_empty() || spec.container.is_some();
    let checkpoint = checkpoint_of(core, spec);
    let app = core.config.app(&spec.app);
    let own = own || checkpoint.is_some() || app.is_some_and(has_hooks);
    let rules = &core.config.general.hooks;
    let none = QueueHooks::default();
    let hooks = of_queue.or(own.then_some(&none))?;
    Some(Box::new(HookOrder {
        pre: hooks.pre.clone(),
        post: hooks.post.clone(),
        user: hooks.user.clone(),
        pre_ms: rules.pre_exec_timeout_ms,
        post_ms: rules.post_exec_timeout_ms,
        starter: match app {
            Some(app) if !app.job_starter.is_empty() => app.job_starter.clone(),
            _ => hooks.starter.clone(),
        },
        runtime: match spec.container {
            Some(_) => core.config.general.container_runtime,
            None => ContainerRuntime::None,
        },
        env: app.map_or_else(BTreeMap::new, |app| app.env.clone()),
        controls: match app {
            Some(app) => app.controls.or(&hooks.controls),
            None => hooks.controls.clone(),
        },
        checkpoint,
    }))
}

/// Whether orders must contain settings of an application.
fn has_hooks(app: &AppProfile) -> bool {
    !(app.job_starter.is_empty() && app.env.is_empty() && app.controls.is_none())
}

/// Its checkpoints, as specified by the job or else by its queue. Jobs in containers, with tasks
/// for each slot or with a terminal have none, because a method cannot save these.
pub(super) fn checkpoint_of(core: &Core, spec: &Spec) -> Option<CheckpointOrder> {
    if spec.container.is_some() || spec.launch.is_some() || spec.session.is_some() {
        return None;
    }
    let queue = core.config.queue(&spec.queue);
    let of_queue = queue.and_then(|queue| queue.hooks.checkpoint.as_ref());
    let rules = &core.config.general.hooks;
    Some(CheckpointOrder {
        what: spec.chkpnt.as_deref().or(of_queue)?.clone(),
        methods: rules.checkpoint_methods.clone(),
        limit_ms: rules.checkpoint_timeout_ms,
    })
}

/// The order to `host` to prepare its part of `j`.
pub(super) fn part_order(core: &Core, j: JobKey, host: HostId) -> Option<(String, Order)> {
    let state = &core.state;
    let job = state.job(j.id)?;
    let work = job.work(j.idx)?;
    let run = work.run.as_deref()?;
    let slots = run.hosts.iter().filter(|(h, _)| *h == host);
    let spec = state.spec(job.spec);
    let order = Order::Part {
        a: attempt_of(j, work),
        s: job.spec,
        first: state.host_name(first(run)?).to_string(),
        slots: slots.map(|(_, n)| n).sum(),
        mark: state.mark(j),
        own: Box::new(PartResources {
            limits: limits_on(core, spec, Some(host)),
            limit_changes: run.orders.limits,
            bind: core
                .config
                .queue(&spec.queue)
                .map_or(CpuBind::None, |q| q.cpu_bind),
            units: units_on(core, spec, run, state.host_name(host)),
        }),
    };
    Some((state.host_name(host).to_string(), order))
}

/// The order to a host to start another report file, if its current one is damaged.
pub(super) fn renewal_order(core: &Core, host: &str) -> Option<(String, Order)> {
    let (part, seq, at) = core.memory.host(host)?.damaged_reports?;
    Some((host.to_owned(), Order::ReportsDamaged { part, seq, at }))
}

/// The host that runs the command.
fn first(run: &Run) -> Option<HostId> {
    run.hosts.first().map(|(id, _)| *id)
}

/// The limits on a host: a limit that is stated for a host or model of some speed is scaled so that
/// the same computation fits.
fn limits_on(core: &Core, spec: &Spec, host: Option<HostId>) -> Limits {
    let mut limits = spec.limits.clone();
    let host_name = host.map(|id| core.state.host_name(id));
    let host_factor = host_name.and_then(|name| core.config.factor_of_host(name));
    let factor = |on: &str| core.config.cpu_factor(on).filter(|_| !on.is_empty());
    let scale =
        |seconds: Option<u64>, stated_factor: Option<f64>| match (host_factor, stated_factor) {
            (Some(host_factor), Some(stated_factor)) => {
                seconds.map(|s| seconds_on(s, stated_factor, host_factor))
            }
            _ => seconds,
        };
    let general = core.config.general.default_host_spec.as_ref();
    limits.run_s = scale(limits.run_s, factor(&spec.run_on));
    let cpu_on = factor(&spec.cpu_on).or(general.map(|g| g.cpuf));
    limits.cpu_s = scale(limits.cpu_s, cpu_on);
    let of_queue = core.config.queue(&spec.queue).map(|queue| queue.oom_kill);
    let oom_kill = limits.oom_kill.or(of_queue).unwrap_or_default();
    // Hosts of earlier versions do not know it.
    limits.oom_kill = Some(oom_kill).filter(|act| *act != OomKill::Fail);
    limits
}

/// The order that gives the first host of `j` all slots it has now, if some were added.
pub(super) fn resize_order(core: &Core, j: JobKey) -> Option<(String, Order)> {
    let state = &core.state;
    let work = state.work(j)?;
    let run = work.run.as_deref().filter(|run| run.orders.resizes > 0)?;
    let a = attempt_of(j, work);
    let (hosts, n) = (shares(state, run), run.orders.resizes);
    let host = hosts.first()?.0.clone();
    let units = task_units(core, state.spec_of(j.id)?, run);
    Some((host, Order::Resize { a, hosts, n, units }))
}

/// Units of the host that runs the command.
fn task_units(core: &Core, spec: &Spec, run: &Run) -> TaskUnits {
    let first = run.hosts.first().map(|(id, _)| core.state.host_name(*id));
    first.map_or_else(TaskUnits::default, |first| units_on(core, spec, run, first))
}

/// Units of a job on one of its hosts.
fn units_on(core: &Core, spec: &Spec, run: &Run, host: &str) -> TaskUnits {
    let there = |units: &&Units| units.host == *host;
    let queue = core.config.queue(&spec.queue);
    let list: Vec<Units> = run.units().iter().filter(there).cloned().collect();
    TaskUnits {
        by_place: !list.is_empty() && queue.is_some_and(|queue| queue.gpu_by_place),
        check: queue.map_or(UnitCheck::Off, |queue| queue.gpu_check),
        list,
    }
}

/// The order that gives the first host of `j` the limits it has now, if they were changed after the
/// dispatch. An attempt whose hosts are preparing their parts gets them with the order to start it.
pub(super) fn limits_order(core: &Core, j: JobKey) -> Option<(String, Order)> {
    let run = core.state.work(j)?.run.as_deref()?;
    let host = first(run).filter(|_| !run.preparing)?;
    limits_to(core, j, host)
}

/// The same for a host that has a part of it or is preparing one. It is not needed among repeated
/// orders: the order to prepare the part contains the limits.
pub(super) fn limits_to(core: &Core, j: JobKey, host: HostId) -> Option<(String, Order)> {
    let state = &core.state;
    let job = state.job(j.id)?;
    let work = job.work(j.idx).filter(|work| work.stat.is_started())?;
    let run = work.run.as_deref().filter(|run| run.orders.limits > 0)?;
    let order = Order::Limits {
        a: attempt_of(j, work),
        limits: limits_on(core, state.spec(job.spec), Some(host)),
        n: run.orders.limits,
        mark: state.mark(j),
    };
    Some((state.host_name(host).to_string(), order))
}

fn shares(state: &State, run: &Run) -> Vec<Share> {
    run.hosts
        .iter()
        .map(|(id, n)| Share(state.host_name(*id).to_string(), *n))
        .collect()
}

/// Every order still in force, by host; a new epoch or a new orders file must repeat them.
pub fn outstanding(core: &Core, only: Option<&str>) -> Vec<(String, Order)> {
    let mut orders = Vec::new();
    if core.state.is_old() {
        return orders;
    }
    let members = core.hosts.iter().map(|host| host.name.as_str());
    // Includes hosts that cb.yaml no longer names, as long as jobs are there.
    let stray_runs = &core.memory.stray_runs;
    let works = |name: &&str| core.state.on_host(name).next().is_some() || stray_runs.any_on(name);
    let known = core.state.known_hosts().map(|(name, _)| name.as_str());
    let hosts: BTreeSet<&str> = members.chain(known.filter(works)).collect();
    let wanted = |name: &&str| only.is_none_or(|only| only == *name);
    for host in hosts.into_iter().filter(wanted) {
        let to_host = |order: Order| (host.to_owned(), order);
        orders.extend(orders_to_host(core, host).into_iter().map(to_host));
        for (j, _) in core.state.on_host(host) {
            orders.extend(orders_of_work(core, host, j));
        }
    }
    orders
}

/// The orders in force that are about the host itself and runs that it must kill.
fn orders_to_host(core: &Core, host: &str) -> Vec<Order> {
    let mut orders = Vec::new();
    if let Some((above, _)) = core.state.restored() {
        orders.push(Order::Restored { above });
    }
    let id = core.state.host_ctl(host).ledger;
    if !id.is_empty() {
        orders.push(Order::Ledger { id });
    }
    let memory = core.memory.host(host);
    if let Some(iso_ms) = memory.and_then(|memory| memory.iso_ordered) {
        orders.push(Order::Limit { iso_ms });
    }
    orders.extend(core.memory.stray_runs.orders(host));
    orders.extend(renewal_order(core, host).map(|(_, order)| order));
    orders
}

/// The orders in force about jobs that have slots on `host`.
fn orders_of_work(core: &Core, host: &str, j: JobKey) -> Vec<(String, Order)> {
    let Some((work, run)) = core
        .state
        .work(j)
        .and_then(|work| Some((work, work.run.as_deref()?)))
    else {
        return Vec::new();
    };
    let at = core.state.host_id(host);
    let a = attempt_of(j, work);
    if core.memory.held_ends.contains(a) {
        return vec![(host.to_owned(), Order::PartEnd { a })];
    }
    if first(run).is_none_or(|id| Some(id) != at) {
        let part = at.and_then(|at| part_order(core, j, at));
        let signal = at.and_then(|at| part_signal(core, j, at));
        return part.into_iter().chain(signal).collect();
    }
    if run.preparing {
        return Vec::new();
    }
    let orders = [
        start_order(core, j),
        signal_order(core, j),
        resize_order(core, j),
        limits_order(core, j),
    ];
    let mut orders: Vec<_> = orders.into_iter().flatten().collect();
    if run.start == Stamp(0) && !core.state.host_ctl(host).up {
        orders.push((host.to_owned(), Order::Cancel { a }));
    }
    orders
}

/// The order to the first host of `j` to warn it, or to take the warning back.
pub(super) fn warn_order(core: &Core, j: JobKey) -> Option<(String, Order)> {
    let work = core.state.work(j)?;
    let run = work.run.as_deref().filter(|run| !run.preparing)?;
    let (host, _) = run.hosts.first()?;
    let (due, signal) = run.warned().unwrap_or_default();
    let order = Order::Warn {
        a: attempt_of(j, work),
        due: due.0,
        signal,
        n: run.orders.signals,
        mark: core.state.mark(j),
    };
    Some((core.state.host_name(*host).to_string(), order))
}

/// The signal order that repeats the last one to the first host of `j`.
pub(super) fn signal_order(core: &Core, j: JobKey) -> Option<(String, Order)> {
    let work = core.state.work(j)?;
    let run = work.run.as_deref()?;
    // A warning has the number of the last signal: it is repeated instead of it.
    let other = run.killing.is_some() || run.to_stop() || run.migrating().is_some();
    if run.warned().is_some() && !other {
        return warn_order(core, j);
    }
    let (act, reason) = pending_signal(run)?;
    let (host, _) = run.hosts.first()?;
    let order = Order::Signal {
        a: attempt_of(j, work),
        act,
        reason,
        grace_ms: grace_of(core, j, act),
        n: run.orders.signals,
        mark: core.state.mark(j),
    };
    Some((core.state.host_name(*host).to_string(), order))
}

/// The same for a host that has a part of it: what the job has started there is stopped and
/// continued with it. Its end is ordered as the end of the part.
pub(super) fn part_signal(core: &Core, j: JobKey, host: HostId) -> Option<(String, Order)> {
    let work = core.state.work(j)?;
    let run = work.run.as_deref().filter(|run| !run.preparing)?;
    let (act, reason) = pending_signal(run).filter(|(act, _)| act.is_suspension())?;
    let order = Order::Signal {
        a: attempt_of(j, work),
        act,
        reason,
        grace_ms: 0,
        n: run.orders.signals,
        mark: core.state.mark(j),
    };
    Some((core.state.host_name(host).to_string(), order))
}

/// The signal that an attempt should have received, if any.
pub(super) fn pending_signal(run: &Run) -> Option<(Act, TermReason)> {
    match run.killing {
        Some(SignalAct::Kill(TermReason::Force)) => Some((Act::Kill, TermReason::Force)),
        Some(SignalAct::Kill(reason)) => Some((Act::Terminate, reason)),
        Some(act @ SignalAct::Requeue { .. }) => Some((Act::Terminate, requeue_reason(act))),
        // Repeated in every epoch: the host may not have read the last order of the previous one.
        _ if run.orders.signals == 0 => None,
        _ if run.user_stop.wanted => Some((Act::Stop, TermReason::None)),
        _ if run.to_stop() => {
            let why = run
                .suspension
                .by_system
                .as_deref()
                .map(SuspReason::of_order);
            Some((Act::Stop, why.unwrap_or_default()))
        }
        _ => match run.migrating() {
            Some(force) => Some((Act::Checkpoint(to_migrate(force)), TermReason::None)),
            None => Some((Act::Resume, TermReason::None)),
        },
    }
}

/// The action for the host of a migrating job.
pub(super) fn to_migrate(force: bool) -> CheckpointAct {
    CheckpointAct {
        kill: true,
        migrate: true,
        force,
        period_min: None,
    }
}
