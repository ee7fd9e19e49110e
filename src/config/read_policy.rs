//! Scheduling settings of queues and of section `general`. Owns their keys, ranges and forbidden
//! combinations; never decides anything about a job.

use super::brackets::milli;
use super::keys;
use super::policy::{
    Ageing, Backfill, FairFactors, HostSpec, Packing, Policy, PreemptMethod, PreemptOrder,
    Preemption, ShareEntry, ShareSubject, Shares, ThresholdAction, Victims, WARN_SIGNALS,
};
use super::read::{
    Ctx, DAY, Defined, Fields, HOUR, MINUTE, SECOND, Words, YEAR, boolean, split, whole_number,
    whole_word,
};
use super::read_shares::shares;
use super::read_watch::{condition, thresholds, windows};
use super::types::{General, HostModel, HostTable, Queue};
use crate::model::UnitCheck;
use crate::text::yaml::Value;
use std::collections::BTreeMap;

/// Maximum weight in the formula of fairshare, in thousandths.
const MAX_FACTOR: i64 = 1_000_000;
/// Maximum of `hist_hours`: ten years.
const MAX_HOURS: i64 = 87_600;
const MAX_DEPTH: u64 = 1_000_000;
const MAX_PREFERENCE: u64 = 1_000_000;
const MAX_VICTIMS: u64 = 10_000;

const PACKINGS: &[(&str, Packing)] = &[
    ("pack", Packing::Pack),
    ("spread", Packing::Spread),
    ("fit", Packing::Fit),
    ("frag", Packing::Frag),
];
const ACTIONS: &[(&str, ThresholdAction)] = &[
    ("suspend", ThresholdAction::Suspend),
    ("kill", ThresholdAction::Kill),
    ("requeue", ThresholdAction::Requeue),
];

/// The scheduling settings of section `general`.
pub(super) fn general(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    out: &mut General,
    hosts: &HostTable,
    models: &BTreeMap<String, HostModel>,
) {
    out.fair = fair(ctx, f, out.fair);
    if let Some(packing) = f.choice(ctx, "packing", PACKINGS) {
        out.packing = packing;
    }
    let mut time = |key, low, high, slot: &mut u64| {
        if let Some(t) = f.time(ctx, key, low, high) {
            *slot = t;
        }
    };
    time(
        "job_accept_interval",
        0,
        HOUR,
        &mut out.job_accept_interval_ms,
    );
    time(
        "new_job_sched_delay",
        0,
        HOUR,
        &mut out.new_job_sched_delay_ms,
    );
    time(
        "job_check_interval",
        SECOND,
        HOUR,
        &mut out.job_check_interval_ms,
    );
    time("pg_susp_it", 0, DAY, &mut out.pg_susp_it_ms);
    out.job_priority_over_time = ageing(ctx, f);
    out.resource_reserve_per_task = f.flag(ctx, "resource_reserve_per_task", false);
    out.default_host_spec = host_spec(ctx, f, hosts, models);
}

/// `3/20`: points and minutes.
fn ageing(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<Ageing> {
    let key = "job_priority_over_time";
    let w = f.scalar(ctx, key)?;
    let Some((points, minutes)) = w.text.split_once('/') else {
        let message = format!("{key}: {:?} has no '/'", w.text);
        let hint = "write POINTS/MINUTES, for example 3/20";
        ctx.problem_hint(w.pos, "number", message, hint);
        return None;
    };
    let after = w.pos_at(points.len() + 1, ctx);
    let points = whole_word(ctx, key, points, w.pos, 1, 1_000_000)?;
    let minutes = whole_word(ctx, key, minutes, after, 1, YEAR / MINUTE)?;
    Some(Ageing {
        points: u32::try_from(points).expect("the range is within u32"),
        every_ms: minutes * MINUTE,
    })
}

fn host_spec(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    hosts: &HostTable,
    models: &BTreeMap<String, HostModel>,
) -> Option<HostSpec> {
    let w = f.scalar(ctx, "default_host_spec")?;
    let host = hosts.index.get(&w.text).and_then(|&i| hosts.entries.get(i));
    let cpuf = match (models.get(&w.text), host) {
        (Some(model), _) => model.cpuf,
        (None, Some(host)) => host.cpuf,
        (None, None) => {
            let known = models.keys().chain(hosts.index.keys()).map(String::as_str);
            ctx.undefined(w.pos, "host model or host", &w.text, known);
            return None;
        }
    };
    Some(HostSpec { name: w.text, cpuf })
}

/// Weights of fairshare; missing ones are as in `base`.
fn fair(ctx: &mut Ctx<'_>, f: &Fields<'_>, base: FairFactors) -> FairFactors {
    let mut factor = |key, most| {
        let w = f.scalar(ctx, key)?;
        match milli(&w.text) {
            Ok(n) if n <= most * 1000 => Some(n),
            Ok(_) => {
                let message = format!("{key} {} is outside 0 to {most}", w.text);
                ctx.problem(w.pos, "range", message);
                None
            }
            Err(e) => {
                ctx.parse_error(&w, "number", &e);
                None
            }
        }
    };
    let run_job = match f.node("run_job_factor").map(|node| &node.value) {
        Some(Value::Text { text, .. }) if text == "auto" => None,
        Some(_) => factor("run_job_factor", MAX_FACTOR).or(base.run_job),
        None => base.run_job,
    };
    let mut or = |key, base: i64| factor(key, MAX_FACTOR).unwrap_or(base);
    FairFactors {
        cpu_time: or("cpu_time_factor", base.cpu_time),
        run_time: or("run_time_factor", base.run_time),
        run_job,
        gpu_time: or("gpu_time_factor", base.gpu_time),
        hist_ms: factor("hist_hours", MAX_HOURS)
            .map_or(base.hist_ms, |milli| milli.unsigned_abs() * (HOUR / SECOND)),
    }
}

/// The scheduling settings of a queue. Returns the queues that it may preempt as words: they may be
/// defined later.
pub(super) fn queue(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    out: &mut Queue,
    defined: &Defined<'_>,
) -> Option<Words> {
    let (general, hosts) = (defined.general, defined.hosts);
    out.policy = policy(ctx, f, defined);
    out.fair = fair(ctx, f, general.fair);
    out.strict = f.flag(ctx, "strict", false);
    out.backfill = backfill(ctx, f);
    out.slot_reserve_ms = slot_reserve(ctx, f);
    if let Some(node) = f.node("thresholds") {
        out.thresholds = thresholds(ctx, node, hosts);
    }
    let mut action = |key| f.choice(ctx, key, ACTIONS).unwrap_or_default();
    out.threshold_action = action("threshold_action");
    out.window_action = action("window_action");
    out.stop_cond = condition(ctx, f, "stop_cond", hosts);
    out.resume_cond = condition(ctx, f, "resume_cond", hosts);
    out.run_window = windows(ctx, f, "run_window");
    out.dispatch_window = windows(ctx, f, "dispatch_window");
    out.ignore_deadline = f.flag(ctx, "ignore_deadline", false);
    out.packing = f
        .choice(ctx, "packing", PACKINGS)
        .unwrap_or(general.packing);
    let gpu_env = [("uuid", false), ("index", true)];
    out.gpu_by_place = f.choice(ctx, "gpu_env", &gpu_env).unwrap_or(false);
    out.gpu_check = f
        .choice(ctx, "gpu_check", &UnitCheck::ALL)
        .unwrap_or_default();
    out.elastic = f.flag(ctx, "elastic", false);
    out.job_accept_interval_ms = f
        .time(ctx, "job_accept_interval", 0, HOUR)
        .unwrap_or(general.job_accept_interval_ms);
    out.new_job_sched_delay_ms = f
        .time(ctx, "new_job_sched_delay", 0, HOUR)
        .unwrap_or(general.new_job_sched_delay_ms);
    no_effect(ctx, f, out);
    let (preemption, words) = preemption(ctx, f).unzip();
    out.preemption = preemption;
    words
}

/// Settings that have no effect without another one, or that leave no time to start.
fn no_effect(ctx: &mut Ctx<'_>, f: &Fields<'_>, q: &Queue) {
    let lonely = [
        ("window_action", q.run_window.is_none(), "run_window"),
        ("backfill_order", q.backfill.depth == 0, "backfill"),
        ("backfill_hosts", q.backfill.depth == 0, "backfill"),
    ];
    for (key, without, needs) in lonely {
        if f.has(key) && without {
            let message = format!("{key} has no effect without {needs}");
            ctx.warn(f.key_pos(key), "no-effect", message, None);
        }
    }
    if let (Some(run), Some(start)) = (&q.run_window, &q.dispatch_window)
        && !run.overlaps(start)
    {
        let message = "run_window and dispatch_window never overlap: no job can start";
        ctx.warn(f.key_pos("dispatch_window"), "no-start", message, None);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Fifo,
    RoundRobin,
    Fairshare,
    Drf,
    External,
}

/// `policy`, `round_robin` and `fairshare` together.
fn policy(ctx: &mut Ctx<'_>, f: &Fields<'_>, defined: &Defined<'_>) -> Policy {
    let shares = shares(ctx, f, defined.user_groups);
    let order_setting = order(ctx, f);
    if f.flag(ctx, "round_robin", false) {
        let other = match order_setting {
            Some(Order::RoundRobin) | None if f.has("fairshare") => Some("fairshare"),
            Some(Order::RoundRobin) | None => None,
            Some(_) => Some("policy"),
        };
        if let Some(other) = other {
            let message = format!("round_robin conflicts with {other}");
            let hint = "keep one of the two";
            ctx.problem_hint(f.key_pos("round_robin"), "conflict", message, hint);
        }
        return Policy::RoundRobin;
    }
    // The same share for every user.
    let equal = || Shares {
        entries: vec![ShareEntry {
            subject: ShareSubject::Default,
            shares: 1,
        }],
    };
    match order_setting {
        Some(Order::Drf) => Policy::Drf(shares.unwrap_or_else(equal)),
        Some(Order::Fairshare) => Policy::Fairshare(shares.unwrap_or_else(equal)),
        Some(order @ (Order::Fifo | Order::RoundRobin)) => {
            if f.has("fairshare") {
                let message = "fairshare is not used by this policy";
                let hint = "write policy: fairshare or policy: drf, or remove fairshare";
                ctx.problem_hint(f.key_pos("fairshare"), "conflict", message, hint);
            }
            match order {
                Order::RoundRobin => Policy::RoundRobin,
                _ => Policy::Fifo,
            }
        }
        Some(Order::External) | None => shares.map_or(Policy::Fifo, Policy::Fairshare),
    }
}

fn order(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<Order> {
    let external = f.node("policy").and_then(|n| match &n.value {
        Value::Text { text, .. } => text.strip_prefix("external"),
        _ => None,
    });
    if external.is_some_and(|rest| rest.is_empty() || rest.starts_with(':')) {
        let w = f.scalar(ctx, "policy")?;
        let message = "policy: external is not implemented in this version";
        let hint = "write fifo, rr, fairshare or drf";
        ctx.problem_hint(w.pos, "not-implemented", message, hint);
        return Some(Order::External);
    }
    let choices = [
        ("fifo", Order::Fifo),
        ("rr", Order::RoundRobin),
        ("fairshare", Order::Fairshare),
        ("drf", Order::Drf),
    ];
    f.choice(ctx, "policy", &choices)
}

/// `no`, `yes`, a number or `all`, the order of the candidates, and which hosts are reserved.
fn backfill(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Backfill {
    let depth = f.scalar(ctx, "backfill").and_then(|w| {
        if w.text.eq_ignore_ascii_case("all") {
            return Some(u32::MAX);
        }
        if let Some(on) = boolean(&w.text) {
            return Some(u32::from(on));
        }
        if !w.text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let message = format!("backfill: {:?} is not known", w.text);
            let hint = "write no, yes, all or the number of jobs that have a reservation";
            ctx.problem_hint(w.pos, "choice", message, hint);
            return None;
        }
        let n = whole_number(ctx, "backfill", &w, 0, MAX_DEPTH)?;
        u32::try_from(n).ok()
    });
    let orders = [("time", false), ("shortest", true)];
    let hosts = [("preferred", false), ("free", true)];
    Backfill {
        depth: depth.unwrap_or(0),
        shortest_first: f.choice(ctx, "backfill_order", &orders).unwrap_or(false),
        free_first: f.choice(ctx, "backfill_hosts", &hosts).unwrap_or(false),
    }
}

/// A time, or `no`.
fn slot_reserve(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<u64> {
    let off = f.node("slot_reserve").is_some_and(|n| {
        matches!(&n.value, Value::Text { text, .. }
            if boolean(text) == Some(false))
    });
    if off {
        return None;
    }
    f.time(ctx, "slot_reserve", SECOND, YEAR)
}

/// `{preempt: 'low med+1', method: suspend, ...}`; the queues are returned as words.
fn preemption(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<(Preemption, Words)> {
    let f = Fields::new(ctx, f.node("preemption")?, keys::PREEMPTION, "preemption")?;
    let words = f.read_words(ctx, "preempt");
    if words.is_none() && !f.has("preempt") {
        let hint = "write preempt: QUEUES (the queues whose jobs may be preempted)";
        let message = "preemption lists no queue";
        ctx.problem_hint(f.pos, "missing-key", message, hint);
    }
    let order = [
        ("priority", PreemptOrder::LeastPriority),
        ("youngest", PreemptOrder::Youngest),
    ];
    let out = Preemption {
        victims: Vec::new(),
        method: method(ctx, &f),
        order: f.choice(ctx, "order", &order).unwrap_or_default(),
        grace_ms: f.time(ctx, "grace", 0, DAY).unwrap_or(0),
        warn_signal: f
            .choice(ctx, "warn_signal", &WARN_SIGNALS)
            .unwrap_or(WARN_SIGNALS[0].1),
        max_victims: f
            .number(ctx, "max_victims", 1, MAX_VICTIMS)
            .map(|n| u32::try_from(n).expect("the range is within u32")),
    };
    Some((out, words?))
}

fn method(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> PreemptMethod {
    let methods = [
        ("suspend", Some(PreemptMethod::Suspend)),
        ("requeue", Some(PreemptMethod::Requeue)),
        ("checkpoint", None),
    ];
    match f.choice(ctx, "method", &methods) {
        Some(Some(method)) => method,
        Some(None) => {
            let pos = f.node("method").map_or(f.pos, |n| n.pos);
            let message = "method: checkpoint is not implemented in this version";
            ctx.problem_hint(pos, "not-implemented", message, "write suspend or requeue");
            PreemptMethod::Suspend
        }
        None => PreemptMethod::Suspend,
    }
}

/// The queues whose jobs `queues[at]` may stop: `low med+1`.
pub(super) fn victims(ctx: &mut Ctx<'_>, w: &Words, at: usize, queues: &[Queue]) -> Vec<Victims> {
    let mut out: Vec<Victims> = Vec::new();
    let own = &queues[at];
    for (byte, word) in split(&w.text) {
        let word = word.trim_end_matches(',');
        let pos = w.pos_at(byte, ctx);
        let (name, preference) = match word.split_once('+') {
            None => (word, Some(0)),
            Some((name, n)) => {
                let pos = w.pos_at(byte + name.len() + 1, ctx);
                let n = whole_word(ctx, "a preference", n, pos, 0, MAX_PREFERENCE);
                (name, n)
            }
        };
        let Some(preference) = preference else {
            continue;
        };
        let Some(victim) = queues.iter().find(|q| q.name == name) else {
            ctx.undefined(pos, "queue", name, queues.iter().map(|q| q.name.as_str()));
            continue;
        };
        if victim.priority >= own.priority {
            let (low, high) = (victim.priority, own.priority);
            let message = format!(
                "queue {name:?} has priority {low}, which is not lower than {high} of this queue"
            );
            let hint = "only queues of lower priority can be preempted";
            ctx.problem_hint(pos, "conflict", message, hint);
        } else if out.iter().any(|v| v.queue == name) {
            ctx.problem(pos, "duplicate", format!("queue {name:?} is named twice"));
        } else {
            out.push(Victims {
                queue: name.to_string(),
                preference: u32::try_from(preference).expect("the range is within u32"),
            });
        }
    }
    if split(&w.text).next().is_none() {
        let hint = "name at least one queue, or remove preemption";
        ctx.problem_hint(w.pos, "missing-key", "preempt lists no queue", hint);
    }
    out
}
