//! The small published views: hosts, queues, users, parameters. Rows for `record::view`, pure.

use super::core::Core;
use crate::config::{AppProfile, Config, JobSlots, LimitPair, Queue, ResourceValue, Threshold};
use crate::model::{Charge, JobKey, Stamp, WHOLE_UNIT};
use crate::record::host_status::HostStatus;
use crate::record::view::{
    AppRow, Counts, HostCounts, HostRow, HostThresholds, Params, QueueRow, UserRow,
};
use crate::sched::{DispatchBlock, HostInfo};
use crate::state::{InUse, PendingCounts};
use crate::text::{size, units};
use std::collections::BTreeMap;

/// Names of the alert rules.
fn alert_rules(config: &Config) -> Vec<String> {
    let rules = config.notices.alerts.iter();
    rules.map(|rule| rule.name.clone()).collect()
}

/// One row per host of the cluster.
pub fn host_rows(core: &Core) -> Vec<HostRow> {
    let mut notes = core.hook_notes();
    let mut row = |host: &HostInfo| {
        let mut row = host_row(core, host);
        row.warnings.extend(notes.remove(&host.id));
        row
    };
    core.hosts.iter().map(&mut row).collect()
}

/// The part of a host's row that jobs change.
pub(super) fn host_counts(core: &Core, host: &HostInfo) -> HostCounts {
    let used = core.state.used().host(host.id);
    let reserved = core.engine.reserved(&core.hosts, &host.name);
    let (units, unit_parts) = units_in_use(core, &host.name);
    HostCounts {
        name: host.name.clone(),
        status: host_status(core, host),
        njobs: used.total(),
        run: used.run,
        ssusp: used.ssusp,
        ususp: used.ususp,
        rsv: core.reserved.host(host.id),
        reserved: reserved.into_iter().collect(),
        units,
        unit_parts,
    }
}

/// Units in use by resource, and the thousandths of each if some are held in parts.
type HeldUnits = (
    BTreeMap<String, Vec<(String, JobKey)>>,
    BTreeMap<String, Vec<u32>>,
);

/// Units of a host that jobs hold, by resource, in the order of their names.
fn units_in_use(core: &Core, host: &str) -> HeldUnits {
    let (mut units, mut parts) = HeldUnits::default();
    for same in core.state.units_on(host).chunk_by(|a, b| a.res == b.res) {
        let each = || {
            same.iter()
                .flat_map(|unit| unit.holders.iter().map(move |of| (&unit.name, of)))
        };
        let res = &same[0].res;
        let names = each().map(|(name, of)| (name.to_string(), of.j));
        units.insert(res.to_string(), names.collect());
        if each().any(|(_, of)| of.part < WHOLE_UNIT) {
            parts.insert(res.to_string(), each().map(|(_, of)| of.part).collect());
        }
    }
    (units, parts)
}

fn host_row(core: &Core, host: &HostInfo) -> HostRow {
    let mut row = HostRow {
        slots: host.slots,
        user_slots: host.entry.user_slots.unwrap_or(0),
        closed: host.ctl.closed,
        closed_by: host.ctl.by.clone(),
        comment: host.ctl.comment.clone(),
        closed_at: host.ctl.t.0,
        lock: host.ctl.lock.clone(),
        host_type: host.host_type().to_owned(),
        model: host.model().to_owned(),
        cpuf: host.entry.cpuf,
        tags: host.entry.tags.clone(),
        load: host.load.clone(),
        jobs: core.state.used().started_on(host.id).take(1000).collect(),
        warnings: host.load.notes.clone(),
        thresholds: thresholds(&core.config, host),
        ..HostRow::default()
    };
    for (name, value) in &host.entry.resources {
        let text = match value {
            ResourceValue::Number(n) => n.to_string(),
            ResourceValue::Text(text) => text.clone(),
            ResourceValue::Units(names) => units::join(names),
            ResourceValue::Sizes(sizes) => units::join_sizes(sizes),
        };
        row.resources.insert(name.clone(), text);
    }
    let shared = core.config.hosts.resources.iter();
    for (name, _) in shared.filter(|(name, decl)| decl.shared && row.resources.contains_key(*name))
    {
        // The source that reports it is the same for all its hosts.
        row.load.shared.insert(name.clone(), "cb.yaml".to_owned());
    }
    row.set_counts(host_counts(core, host));
    row
}

/// Load thresholds of the host itself and, for the jobs of queues that have thresholds, of both.
fn thresholds(config: &Config, host: &HostInfo) -> Vec<HostThresholds> {
    let own = &host.entry.thresholds;
    let shown = |queue: &str, thresholds: &[Threshold]| HostThresholds {
        queue: queue.to_owned(),
        marks: thresholds.iter().map(Threshold::to_string).collect(),
    };
    let mut out = Vec::new();
    if !own.is_empty() {
        out.push(shown("", own));
    }
    let queues = config.queues.iter();
    let queues = queues.filter(|q| !q.thresholds.is_empty() && q.hosts.contains(&host.name));
    for queue in queues {
        let mut all = own.clone();
        for threshold in &queue.thresholds {
            match all.iter_mut().find(|known| known.index == threshold.index) {
                Some(known) => *known = known.combined_with(threshold),
                None => all.push(threshold.clone()),
            }
        }
        out.push(shown(&queue.name, &all));
    }
    out
}

fn host_status(core: &Core, host: &HostInfo) -> HostStatus {
    let used = core.state.used();
    let exclusive = || {
        let mut work = used.started_on(host.id);
        core.engine.is_exclusive(host)
            || work.any(|(j, _)| core.state.spec_of(j.id).is_some_and(|spec| spec.exclusive))
    };
    if !host.ctl.up {
        HostStatus::Unavailable
    } else if !host.load.executor {
        HostStatus::Unreachable
    } else if host.ctl.closed || !host.entry.server {
        HostStatus::ClosedByAdmin
    } else if host.ctl.lock.is_some() {
        HostStatus::Locked
    } else if host.load.failing {
        HostStatus::Failing
    } else if core.engine.dispatch_block(host) == Some(DispatchBlock::Window) {
        HostStatus::ClosedByWindow
    } else if exclusive() {
        HostStatus::Exclusive
    } else if used.host(host.id).total() >= host.slots {
        HostStatus::Full
    } else if core.engine.dispatch_block(host) == Some(DispatchBlock::Load) {
        HostStatus::Busy
    } else {
        HostStatus::Ok
    }
}

fn counts(used: InUse, pending: PendingCounts, rsv: u64) -> Counts {
    Counts {
        njobs: u64::from(used.total()) + pending.slots,
        pend: pending.slots,
        run: u64::from(used.run),
        ssusp: u64::from(used.ssusp),
        ususp: u64::from(used.ususp),
        rsv,
        pend_jobs: pending.jobs,
    }
}

pub(super) fn queue_counts(core: &Core, queue: &str) -> Counts {
    let state = &core.state;
    let (used, pending) = (state.used().queue(queue), state.waiting_in(queue));
    counts(used, pending, core.reserved.queue(queue))
}

pub(super) fn user_counts(core: &Core, uid: u32) -> Counts {
    let state = &core.state;
    let (used, pending) = (state.used().user(uid), state.waiting_of(uid));
    counts(used, pending, core.reserved.user(uid))
}

/// One row per queue in cb.yaml's order.
pub fn queue_rows(core: &Core) -> Vec<QueueRow> {
    let config = &core.config;
    config
        .queues
        .iter()
        .map(|queue| queue_row(core, config, queue))
        .collect()
}

fn queue_row(core: &Core, config: &Config, queue: &Queue) -> QueueRow {
    let ctl = core.state.queue_ctl(&queue.name);
    let hosts = core.hosts.iter().filter(|h| queue.hosts.contains(&h.name));
    QueueRow {
        name: queue.name.clone(),
        description: queue.description.clone(),
        priority: i64::from(queue.priority),
        nice: queue.nice,
        open: ctl.open,
        active: ctl.active,
        comment: ctl.comment,
        max: queue.slots,
        user: queue.user_slots,
        proc: queue.proc_slots_milli.map(|milli| milli as f64 / 1000.0),
        host: queue.host_slots,
        counts: queue_counts(core, &queue.name),
        settings: queue_settings(queue),
        window_closed: false,
        users: queue.users.to_string(),
        hosts: hosts.map(|h| h.name.clone()).collect(),
        administrators: queue
            .administrators
            .to_string()
            .split(' ')
            .map(str::to_owned)
            .collect(),
        default: config.general.default_queue.contains(&queue.name),
    }
}

/// Settings as `cqueues -l` shows them: limits as `DEFAULT name` and `MAXIMUM name`.
fn queue_settings(queue: &Queue) -> Vec<(String, String)> {
    let mut out = Vec::new();
    limit_settings(
        &mut out,
        [
            &queue.run_limit_ms,
            &queue.cpu_limit_ms,
            &queue.mem_limit,
            &queue.swap_limit,
            &queue.process_limit,
            &queue.file_limit,
            &queue.stack_limit,
            &queue.core_limit,
        ],
    );
    out.push(slots_setting(&queue.job_slots));
    if let Some(req) = &queue.res_req {
        out.push(("RES_REQ".into(), req.clone()));
    }
    let yes = |b: bool| if b { "yes" } else { "no" }.to_owned();
    out.push(("EXCLUSIVE".into(), yes(queue.exclusive)));
    out.push(("RERUNNABLE".into(), yes(queue.rerunnable)));
    let requeue = queue.requeue.to_string();
    if !requeue.is_empty() {
        out.push(("REQUEUE_EXIT_VALUES".into(), requeue));
    }
    if queue.retries > 0 {
        out.push(("RETRIES".into(), queue.retries.to_string()));
    }
    out.extend(queue.scheduling());
    out
}

fn slots_setting(slots: &JobSlots) -> (String, String) {
    let max = slots.max.map_or("-".to_owned(), |n| n.to_string());
    let text = format!("{} {} {max}", slots.min, slots.default);
    ("PROCLIMIT".to_owned(), text)
}

/// Limits of run time, CPU time, memory, swap, processes, file, stack and core, in this order.
fn limit_settings(out: &mut Vec<(String, String)>, pairs: [&LimitPair; 8]) {
    let minutes = |ms: u64| format!("{}.{} min", ms / 60_000, ms % 60_000 / 6_000);
    let number = |n: u64| n.to_string();
    type Shown<'a> = (&'a str, &'a dyn Fn(u64) -> String);
    let titles: [Shown<'_>; 8] = [
        ("RUNLIMIT", &minutes),
        ("CPULIMIT", &minutes),
        ("MEMLIMIT", &size::human),
        ("SWAPLIMIT", &size::human),
        ("PROCESSLIMIT", &number),
        ("FILELIMIT", &size::human),
        ("STACKLIMIT", &size::human),
        ("CORELIMIT", &size::human),
    ];
    for ((title, show), pair) in titles.into_iter().zip(pairs) {
        for (which, value) in [("DEFAULT", pair.default), ("MAXIMUM", pair.max)] {
            out.extend(value.map(|n| (format!("{which} {title}"), show(n))));
        }
    }
}

/// An application with the settings that it gives to its jobs.
fn app_row(app: &AppProfile) -> AppRow {
    let mut settings = Vec::new();
    let of = &app.limits;
    limit_settings(
        &mut settings,
        [
            &of.run_limit_ms,
            &of.cpu_limit_ms,
            &of.mem_limit,
            &of.swap_limit,
            &of.process_limit,
            &of.file_limit,
            &of.stack_limit,
            &of.core_limit,
        ],
    );
    settings.extend(app.job_slots.as_ref().map(slots_setting));
    settings.extend(app.settings());
    AppRow {
        name: app.name.clone(),
        description: app.description.clone(),
        users: app.users.to_string(),
        res_req: app.res_req.clone().unwrap_or_default(),
        settings,
    }
}

/// One row per user with jobs and per entry of section `users`.
pub fn user_rows(core: &Core) -> Vec<UserRow> {
    let mut users: Vec<(u32, &str)> = core.state.users().collect();
    users.sort_unstable();
    let rows = users.into_iter();
    rows.map(|(uid, name)| user_row(core, uid, name)).collect()
}

pub(super) fn user_row(core: &Core, uid: u32, name: &str) -> UserRow {
    let limits = core.config.user_limits(name, core.groups_of(name));
    UserRow {
        name: name.to_owned(),
        group: false,
        per_proc: limits.slots_per_cpu_milli.map(|n| n as f64 / 1000.0),
        max: limits.max_slots,
        max_pend: limits.max_pend_jobs,
        counts: user_counts(core, uid),
    }
}

/// A setting as cb.yaml would state it; `-` = unlimited or not set.
fn setting_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "-".to_owned(),
        serde_json::Value::Bool(b) => if *b { "yes" } else { "no" }.to_owned(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(list) => {
            let words: Vec<String> = list.iter().map(setting_text).collect();
            words.join(" ")
        }
        other => other.to_string(),
    }
}

/// The names of the resources that a suspended job releases, without the built-in ones.
fn released(config: &Config) -> Vec<String> {
    let own = config.hosts.declared().filter(|(_, decl)| decl.release);
    own.map(|(name, _)| name.clone()).collect()
}

/// Every general parameter with its value.
fn settings(config: &Config) -> Vec<(String, String)> {
    let mut params: Vec<(String, String)> = Vec::new();
    for (section, value) in [
        ("cluster", serde_json::to_value(&config.cluster)),
        ("general", serde_json::to_value(&config.general)),
    ] {
        if let Ok(serde_json::Value::Object(map)) = value {
            for (key, value) in map {
                let text = match key.as_str() {
                    "administrators" => config.cluster.administrators.to_string(),
                    _ => setting_text(&value),
                };
                params.push((format!("{section}.{key}"), text));
            }
        }
    }
    let charge = config.charge.iter().flat_map(Charge::settings);
    params.extend(charge.map(|(key, value)| (format!("charge.{key}"), value)));
    params
}

/// Facts about the cluster. `master`: host of the leader; `since`: when it began to lead.
pub fn params(core: &Core, cluster_id: &str, master: &str, since: Stamp) -> Params {
    let config = &core.config;
    let groups = config.host_groups.values();
    let user_groups = config.user_groups.values();
    Params {
        cluster: config.cluster.name.clone(),
        cluster_id: cluster_id.to_owned(),
        master: master.to_owned(),
        epoch: core.state.epoch(),
        since: since.0,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        administrators: config
            .cluster
            .administrators
            .to_string()
            .split(' ')
            .map(str::to_owned)
            .collect(),
        default_queues: config.general.default_queue.clone(),
        view_all_jobs: config.general.user_view_alljobs,
        params: settings(config),
        resources: crate::sched::resource_table(config),
        released: released(config),
        sensed: crate::sensors::cluster_resources::published(&config.hosts.sensed),
        models: config
            .host_models
            .values()
            .map(|m| (m.name.clone(), m.cpuf))
            .collect(),
        types: config.host_types.clone(),
        host_groups: groups
            .map(|g| {
                (
                    g.name.clone(),
                    config.expand(&g.hosts).map(str::to_owned).collect(),
                )
            })
            .collect(),
        user_groups: user_groups
            .map(|g| {
                let members = g.members.split_whitespace().map(str::to_owned).collect();
                (g.name.clone(), members, g.administrators.to_string())
            })
            .collect(),
        alarms: Vec::new(),
        grave_alarms: 0,
        config_problems: core.config_problems.clone(),
        unconfigured_hosts: Vec::new(),
        config_digest: core.state.config_digest().to_owned(),
        max_array_size: config.general.max_array_size,
        alert_rules: alert_rules(config),
        tells_jobs: config.notices.notifies_jobs(),
        charge: config.charge.clone(),
        apps: config.apps.iter().map(app_row).collect(),
    }
}
