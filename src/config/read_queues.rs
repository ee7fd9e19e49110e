//! Section `queues`.

use super::keys;
use super::read::{Ctx, Defined, Fields, Words, size_word, split, whole_word};
use super::read_hosts::host_prefs;
use super::read_users::{admin_set, group_name, per_core, user_set};
use super::sets::{HostPrefs, UserSet};
use super::types::{Cluster, HostTable, Interactive, JobSlots, LimitPair, Queue};
use super::{read_hooks, read_policy};
use crate::model::{CpuBind, MAX_RETRIES, OomKill};
use crate::text::duration;
use crate::text::exits::{RequeueExits, SuccessExits};
use crate::text::size::Unit;
use crate::text::yaml::Node;
use std::collections::HashMap;

/// `lost_and_found` is a queue that LSF makes itself: a queue of this name would be taken for it.
const RESERVED: &[&str] = &["all", "none", "lost_and_found"];
/// Maximum length of a queue's name and description, in characters.
const MAX_NAME: usize = 40;
const MAX_DESCRIPTION: usize = 512;
const MAX_QUEUES: usize = 10_000;

pub(super) fn queues(ctx: &mut Ctx<'_>, node: &Node, defined: &Defined<'_>) -> Vec<Queue> {
    let mut out: Vec<Queue> = Vec::new();
    let mut preempting: Vec<(usize, Words)> = Vec::new();
    let mut places = HashMap::new();
    let items = ctx.list(node, "queues");
    for item in items {
        let what = super::read::text_of(item, "name")
            .map_or("a queue".to_string(), |name| format!("queue {name:?}"));
        let Some(f) = Fields::new(ctx, item, keys::QUEUE, &what) else {
            continue;
        };
        let name = group_name(ctx, &f, "queue", RESERVED, &mut places);
        let mut queue = queue(ctx, &f, name.clone().unwrap_or_default(), defined);
        let preempts = read_policy::queue(ctx, &f, &mut queue, defined);
        if out.len() == MAX_QUEUES {
            ctx.problem(f.pos, "range", format!("more than {MAX_QUEUES} queues"));
            return out;
        }
        if name.is_some() {
            preempting.extend(preempts.map(|words| (out.len(), words)));
            out.push(queue);
        }
    }
    for (at, words) in preempting {
        let victims = read_policy::victims(ctx, &words, at, &out);
        if let Some(p) = &mut out[at].preemption {
            p.victims = victims;
        }
    }
    out
}

fn queue(ctx: &mut Ctx<'_>, f: &Fields<'_>, name: String, defined: &Defined<'_>) -> Queue {
    if name.chars().count() > MAX_NAME {
        let message = format!("a queue name has at most {MAX_NAME} characters");
        ctx.problem(f.key_pos("name"), "name", message);
    }
    let unit = unit(defined.cluster);
    let sizes = |ctx: &mut Ctx<'_>, key: &str| limit_pair(ctx, f, key, Kind::Size(unit));
    let out = Queue {
        description: description(ctx, f),
        priority: f.number(ctx, "priority", 1, i32::MAX as u64).unwrap_or(1) as u32,
        nice: nice(ctx, f),
        administrators: f
            .read_words(ctx, "administrators")
            .and_then(|w| admin_set(ctx, &w, defined.user_groups))
            .unwrap_or_default(),
        users: f
            .read_words(ctx, "users")
            .and_then(|w| user_set(ctx, &w, defined.user_groups))
            .unwrap_or_else(UserSet::all),
        hosts: f
            .read_words(ctx, "hosts")
            .and_then(|w| host_prefs(ctx, &w, defined.hosts, defined.host_groups))
            .unwrap_or_else(HostPrefs::all),
        slots: f.limit(ctx, "slots", 0),
        user_slots: f.limit(ctx, "user_slots", 0),
        host_slots: f.limit(ctx, "host_slots", 0),
        proc_slots_milli: per_core(ctx, f, "proc_slots"),
        job_slots: job_slots(ctx, f),
        run_limit_ms: limit_pair(ctx, f, "run_limit", Kind::Time),
        cpu_limit_ms: limit_pair(ctx, f, "cpu_limit", Kind::Time),
        mem_limit: sizes(ctx, "mem_limit"),
        swap_limit: sizes(ctx, "swap_limit"),
        file_limit: sizes(ctx, "file_limit"),
        stack_limit: sizes(ctx, "stack_limit"),
        core_limit: sizes(ctx, "core_limit"),
        process_limit: limit_pair(ctx, f, "process_limit", Kind::Count),
        res_req: res_req(ctx, f, defined.hosts, "a queue"),
        exclusive: f.flag(ctx, "exclusive", false),
        interactive: interactive(ctx, f),
        rerunnable: f.flag(ctx, "rerunnable", false),
        requeue: f
            .read_words(ctx, "requeue_exit_values")
            .map_or_else(RequeueExits::default, |w| requeue_exits(ctx, &w)),
        max_requeue: f.limit(ctx, "max_requeue", 0),
        success: success_exits(ctx, f).unwrap_or_default(),
        retries: f
            .number(ctx, "retries", 0, u64::from(MAX_RETRIES))
            .unwrap_or(0) as u32,
        oom_kill: f.choice(ctx, "oom_kill", &OomKill::ALL).unwrap_or_default(),
        cpu_bind: f.choice(ctx, "cpu_bind", &CpuBind::ALL).unwrap_or_default(),
        hooks: read_hooks::queue(ctx, f),
        warn: read_hooks::warning(ctx, f),
        ..Queue::named(name)
    };
    check_contradictions(ctx, f, &out);
    out
}

/// The unit of bare numbers; its value in bytes was read from one of these words.
pub(super) fn unit(cluster: &Cluster) -> Unit {
    let all = [Unit::B, Unit::K, Unit::M, Unit::G, Unit::T, Unit::P];
    all.into_iter()
        .find(|u| u.bytes() == cluster.unit_for_limits)
        .unwrap_or(Unit::M)
}

pub(super) fn description(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> String {
    let Some(w) = f.scalar(ctx, "description") else {
        return String::new();
    };
    if w.text.chars().count() > MAX_DESCRIPTION {
        let message = format!("a description has at most {MAX_DESCRIPTION} characters");
        ctx.problem(w.pos, "range", message);
    }
    w.text.trim_end().to_string()
}

fn nice(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> i32 {
    let Some(w) = f.scalar(ctx, "nice") else {
        return 0;
    };
    match w.text.parse::<i32>() {
        Ok(n) if (-20..=19).contains(&n) => n,
        _ => {
            let message = format!("nice {:?} is outside -20 to 19", w.text);
            ctx.problem(w.pos, "range", message);
            0
        }
    }
}

pub(super) fn job_slots(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> JobSlots {
    let Some(w) = f.read_words(ctx, "job_slots") else {
        return JobSlots::ANY;
    };
    let mut numbers = Vec::new();
    for (at, word) in split(&w.text) {
        let pos = w.pos_at(at, ctx);
        let Some(n) = whole_word(ctx, "job_slots", word, pos, 1, i32::MAX as u64) else {
            return JobSlots::ANY;
        };
        numbers.push(n as u32);
    }
    let out = match numbers[..] {
        [max] => JobSlots {
            min: 1,
            default: 1,
            max: Some(max),
        },
        [min, max] => JobSlots {
            min,
            default: min,
            max: Some(max),
        },
        [min, default, max] => JobSlots {
            min,
            default,
            max: Some(max),
        },
        _ => {
            let message = "job_slots takes one to three numbers";
            ctx.problem_hint(w.pos, "number", message, "write 'min [default] max'");
            return JobSlots::ANY;
        }
    };
    if out.min > out.default || out.max.is_some_and(|m| out.default > m) {
        let message = format!("job_slots {}: the numbers must not decrease", w.text);
        ctx.problem_hint(w.pos, "conflict", message, "write 'min [default] max'");
        return JobSlots::ANY;
    }
    out
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Time,
    Size(Unit),
    Count,
}

/// `'[default] max'`: a single value is the maximum.
pub(super) fn limit_pair(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str, kind: Kind) -> LimitPair {
    let none = LimitPair::default();
    let Some(w) = f.read_words(ctx, key) else {
        return none;
    };
    let mut values: Vec<Option<u64>> = Vec::new();
    for (at, word) in split(&w.text) {
        if word.eq_ignore_ascii_case("unlimited") {
            values.push(None);
            continue;
        }
        let value = match kind {
            Kind::Time => time_word(ctx, key, &w, at, word),
            Kind::Size(unit) => size_word(ctx, &w, at, word, unit),
            Kind::Count => {
                let pos = w.pos_at(at, ctx);
                whole_word(ctx, key, word, pos, 1, i32::MAX as u64)
            }
        };
        match value {
            Some(v) => values.push(Some(v)),
            None => return none,
        }
    }
    let pair = match values[..] {
        [max] => LimitPair { default: None, max },
        [default, max] => LimitPair { default, max },
        _ => {
            let message = format!("{key} takes one or two values");
            ctx.problem_hint(w.pos, "number", message, "write '[default] max'");
            return none;
        }
    };
    if let (Some(d), Some(m)) = (pair.default, pair.max)
        && d > m
    {
        let message = format!("{key} {}: the default is above the maximum", w.text);
        ctx.problem_hint(w.pos, "conflict", message, "write '[default] max'");
        return none;
    }
    pair
}

fn time_word(ctx: &mut Ctx<'_>, key: &str, w: &Words, at: usize, word: &str) -> Option<u64> {
    match duration::limit(word) {
        Ok(limit) if limit.on.is_none() => Some(limit.seconds * 1000),
        Ok(_) => {
            let pos = w.pos_at(at, ctx);
            let message = format!("{key} with /HOST is not implemented in this version");
            let hint = "write the limit without /HOST";
            ctx.problem_hint(pos, "not-implemented", message, hint);
            None
        }
        Err(e) => {
            ctx.parse_error(w, "time", &e.shifted(at));
            None
        }
    }
}

pub(super) fn res_req(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    hosts: &HostTable,
    whose: &str,
) -> Option<String> {
    let w = f.scalar(ctx, "res_req")?;
    match super::require::check_general(&w.text, hosts, whose) {
        Ok((text, unknown)) => {
            for name in unknown {
                let pos = w.pos_of(&name, ctx);
                super::sensed_names::warn(ctx, pos, &name, hosts);
            }
            Some(text).filter(|t| !t.is_empty())
        }
        // The missing resource may be defined in a part that could not be read.
        Err(_) if ctx.partial => None,
        Err((code, e)) => {
            ctx.parse_error(&w, code, &e);
            None
        }
    }
}

fn interactive(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Interactive {
    let Some(w) = f.scalar(ctx, "interactive") else {
        return Interactive::Yes;
    };
    if w.text.eq_ignore_ascii_case("only") {
        return Interactive::Only;
    }
    match super::read::boolean(&w.text) {
        Some(true) => Interactive::Yes,
        Some(false) => Interactive::No,
        None => {
            let message = format!("interactive: {:?} is not known", w.text);
            ctx.problem_hint(w.pos, "choice", message, "write yes, no or only");
            Interactive::Yes
        }
    }
}

/// `30 40-45 all ~9 EXCLUDE(20)`.
pub(super) fn requeue_exits(ctx: &mut Ctx<'_>, w: &Words) -> RequeueExits {
    RequeueExits::parse(&w.text).unwrap_or_else(|e| {
        ctx.parse_error(w, "number", &e);
        RequeueExits::default()
    })
}

/// `success_exit_values: 3 7-9`.
pub(super) fn success_exits(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<SuccessExits> {
    let w = f.read_words(ctx, "success_exit_values")?;
    let read = SuccessExits::parse(&w.text);
    Some(read.unwrap_or_else(|e| {
        ctx.parse_error(&w, "number", &e);
        SuccessExits::default()
    }))
}

/// Settings that are each valid but together let no job run.
fn check_contradictions(ctx: &mut Ctx<'_>, f: &Fields<'_>, q: &Queue) {
    let name = &q.name;
    for (key, limit) in [
        ("slots", q.slots),
        ("user_slots", q.user_slots),
        ("host_slots", q.host_slots),
    ] {
        let pos = f.key_pos(key);
        if limit == Some(0) {
            let message = format!("{key} is 0: no job of queue {name:?} can start");
            ctx.warn(
                pos,
                "no-start",
                message,
                Some("close the queue instead".into()),
            );
        } else if key != "host_slots" && limit.is_some_and(|l| l < q.job_slots.min) {
            let min = q.job_slots.min;
            let message =
                format!("{key} is below the {min} slots of the smallest job: none can start");
            ctx.problem_hint(
                pos,
                "conflict",
                message,
                format!("raise {key} or lower job_slots"),
            );
        }
    }
    if let (Some(user), Some(all)) = (q.user_slots, q.slots)
        && user > all
    {
        let message = format!("user_slots {user} is above slots {all} and has no effect");
        ctx.warn(f.key_pos("user_slots"), "no-effect", message, None);
    }
    if q.users.is_empty() && f.has("users") {
        let message = format!("queue {name:?} accepts no user: no job can be submitted");
        ctx.warn(f.key_pos("users"), "no-start", message, None);
    }
    let nowhere = q.hosts.others.is_none() && q.hosts.terms.iter().all(|(s, _)| s.is_empty());
    if nowhere && f.has("hosts") && !ctx.partial {
        let message = format!("queue {name:?} has no hosts");
        ctx.warn(f.key_pos("hosts"), "no-start", message, None);
    }
}
