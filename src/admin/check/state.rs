//! Compares the state with the configuration in force: slots and amounts of hosts, quotas.
//!
//! Uses the core of a temporary leader for counting, so that there is only one implementation of
//! it.

use super::Ctx;
use super::finding::Finding;
use crate::config::{Config, Quota};
use crate::model::Stamp;
use crate::record::load::{self, LOAD_MAX, LoadDoc};
use crate::sched::HostInfo;
use crate::state::State;
use crate::sys;
use crate::turn::{self, Core, Input, SILENT_MS};
use std::collections::BTreeMap;
use std::sync::Arc;

const EACH_MAX: usize = 20;

/// What the started jobs of a host hold.
#[derive(Default)]
struct HostAllocations {
    slots: u32,
    /// When the last of them was dispatched.
    last: Stamp,
    forced: bool,
}

/// Checks that no host holds more than it has, and that no quota is exceeded.
pub(super) fn check_totals(ctx: &Ctx, state: State, config: &Config, out: &mut Vec<Finding>) {
    let by_host = allocations_by_host(&state);
    let changed = changed_at(ctx);
    let last = by_host.values().map(|h| h.last).max().unwrap_or_default();
    let forced = by_host.values().any(|h| h.forced);
    let core = core(ctx, state, config);
    for host in core.hosts.iter() {
        if let Some(allocations) = by_host.get(host.name.as_str()) {
            slots(host, allocations, changed, out);
        }
        amounts(&core, host, changed, out);
    }
    for row in turn::limit_rows(&core, sys::clock::now().wall) {
        let Some(limit) = row.limit.filter(|limit| row.used > limit + 1e-6) else {
            continue;
        };
        let what = format!(
            "{} {} of {} are in use, {limit} are allowed",
            row.used, row.resource, row.consumer
        );
        let place = format!("limit {}", row.name);
        // A lowered limit, a window that has begun and a forced job only prevent new starts.
        let windows = config
            .limits
            .iter()
            .any(|q| q.name == row.name && windowed(q));
        let excused = forced || windows || changed > last;
        out.push(over_allocated(place, what, excused));
    }
}

/// Whether its caps depend on the time of day.
fn windowed(quota: &Quota) -> bool {
    let slots = quota.slots.iter().chain(&quota.jobs);
    let amounts = quota.resources.iter().flat_map(|(_, caps)| caps);
    slots
        .map(|c| &c.window)
        .chain(amounts.map(|c| &c.window))
        .any(Option::is_some)
}

fn over_allocated(place: String, what: String, excused: bool) -> Finding {
    if excused {
        let todo = "nothing more is started until the usage is within it; expected after a lowered \
                    limit, a window that began, or a forced start";
        return Finding::warning("state", place, what, todo);
    }
    Finding::defect("state", place, what)
}

/// Slots by host; those that a preempted job lends count for the borrower.
fn allocations_by_host(state: &State) -> BTreeMap<String, HostAllocations> {
    let mut all: BTreeMap<String, HostAllocations> = BTreeMap::new();
    for j in state.all_started() {
        let Some(run) = state.work(j).and_then(|w| w.run.as_deref()) else {
            continue;
        };
        for (id, n) in &run.hosts {
            let name = state.host_name(*id).to_string();
            let allocations = all.entry(name).or_default();
            allocations.slots += if run.lends_slots() { 0 } else { *n };
            allocations.last = allocations.last.max(run.dispatch);
            allocations.forced |= run.forced;
        }
    }
    all
}

/// When cb.yaml was last written.
fn changed_at(ctx: &Ctx) -> Stamp {
    let stat = sys::fs::stat(&ctx.layout.config()).ok().flatten();
    stat.map_or(Stamp(0), |s| Stamp(s.mtime_ms))
}

fn core(ctx: &Ctx, state: State, config: &Config) -> Core {
    let mut core = Core::new(state, Arc::new(config.clone()), ctx.cluster.service_uid);
    core.engine.set_zone(jiff::tz::TimeZone::system());
    let mut inputs = vec![Input::Config(Arc::new(config.clone()))];
    for host in config.host_names() {
        if let Some(doc) = sample(ctx, host) {
            inputs.push(Input::Load {
                host: host.to_owned(),
                doc: Box::new(doc),
                // Counts as silent, so that nothing is started here.
                silent_ms: SILENT_MS,
            });
        }
    }
    // The decisions of this turn are discarded; the turn only builds the tables.
    drop(turn::turn(&mut core, inputs, sys::clock::now()));
    turn::refresh(&mut core);
    core
}

/// A host's last sample.
pub(super) fn sample(ctx: &Ctx, host: &str) -> Option<LoadDoc> {
    for _ in 0..3 {
        let path = ctx.layout.load(host);
        let bytes = sys::fs::read_optional(&path, LOAD_MAX as u64).ok()??;
        if let Ok(doc) = load::decode(&bytes) {
            return Some(doc);
        }
        sys::clock::sleep_ms(2);
    }
    None
}

fn slots(host: &HostInfo, allocations: &HostAllocations, changed: Stamp, out: &mut Vec<Finding>) {
    if allocations.slots <= host.slots {
        return;
    }
    let what = format!(
        "{} slots are in use, it has {}",
        allocations.slots, host.slots
    );
    let excused = allocations.forced || changed > allocations.last || host.slots == 0;
    out.push(over_allocated(format!("host {}", host.name), what, excused));
}

/// Checks amounts reserved by started jobs: memory of the machine, numbers of cb.yaml.
fn amounts(core: &Core, host: &HostInfo, changed: Stamp, out: &mut Vec<Finding>) {
    for (name, reserved) in core.engine.reserved(&core.hosts, &host.name) {
        let has = match name.as_str() {
            "mem" => host.load.maxmem as f64,
            "swp" => host.load.maxswp as f64,
            "tmp" => host.load.maxtmp as f64,
            of_units if core.config.hosts.per_unit(of_units).is_some() => {
                let unit = core.config.hosts.per_unit(of_units).unwrap_or_default();
                let sizes = host.unit_sizes(of_units, host.units(unit).len());
                sizes.iter().sum()
            }
            _ => match host.entry.resources.get(&name) {
                Some(crate::config::ResourceValue::Number(n)) => *n,
                Some(crate::config::ResourceValue::Units(names)) => names.len() as f64,
                _ => continue,
            },
        };
        if has <= 0.0 || reserved <= has + 1e-6 || out.len() > EACH_MAX * 10 {
            continue;
        }
        let what = format!("{reserved} of {name} are reserved by started jobs, it has {has}");
        let excused = changed > Stamp(0) && changed > newest(core, &host.name);
        out.push(over_allocated(format!("host {}", host.name), what, excused));
    }
}

fn newest(core: &Core, host: &str) -> Stamp {
    let state = &core.state;
    let times = state.on_host(host).filter_map(|(j, _)| {
        let run = state.work(j)?.run.as_deref()?;
        Some(run.dispatch)
    });
    times.max().unwrap_or_default()
}
