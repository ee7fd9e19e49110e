//! Section `limits`: who may use how much at a time. Owns its keys and the text of its values;
//! never counts anything.

use super::brackets::{Bracket, amount, brackets};
use super::keys;
use super::policy::{Dimension, Quota, WindowedLimit};
use super::read::{Ctx, Defined, Fields, Words, did_you_mean, split, whole_word};
use super::read_hosts::host_set;
use super::read_users::{group_name, user_set};
use super::sensed_names;
use super::sets::Names;
use super::types::{AppProfile, HostTable, Queue};
use crate::text::names::NameSet;
use crate::text::resreq::{Kind, Resources};
use crate::text::window::Windows;
use crate::text::yaml::Node;
use std::collections::HashMap;

const MAX_LIMITS: usize = 10_000;
/// Maximum number of brackets in a value.
const MAX_BRACKETS: usize = 100;
const MAX_SLOTS: u64 = i64::MAX as u64 / 1_000_000;

const HINT: &str = "write a number, or '[NUMBER WINDOW] [NUMBER WINDOW]'";
const RESOURCE_HINT: &str = "write '[NAME,AMOUNT]' or '[NAME,AMOUNT WINDOW]' for each resource";

pub(super) fn limits(
    ctx: &mut Ctx<'_>,
    node: Option<&Node>,
    (queues, apps): (&[Queue], &[AppProfile]),
    defined: &Defined<'_>,
) -> Vec<Quota> {
    let mut out: Vec<Quota> = Vec::new();
    let Some(node) = node else { return out };
    let mut places = HashMap::new();
    for item in ctx.list(node, "limits") {
        let what = super::read::text_of(item, "name")
            .map_or("a limit".to_string(), |name| format!("limit {name:?}"));
        let Some(f) = Fields::new(ctx, item, keys::LIMIT, &what) else {
            continue;
        };
        if out.len() == MAX_LIMITS {
            ctx.problem(f.pos, "range", format!("more than {MAX_LIMITS} limits"));
            return out;
        }
        let name = group_name(ctx, &f, "limit", &[], &mut places);
        let quota = quota(ctx, &f, name.clone().unwrap_or_default(), queues, defined);
        unknown_apps(ctx, &f, &quota, apps);
        if name.is_some() {
            out.push(quota);
        }
    }
    out
}

fn quota(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    name: String,
    queues: &[Queue],
    defined: &Defined<'_>,
) -> Quota {
    let out = Quota {
        name,
        queues: dim(ctx, f, "queues", "per_queue", |ctx, w| {
            names(ctx, w, Some(queues))
        }),
        users: dim(ctx, f, "users", "per_user", |ctx, w| {
            user_set(ctx, w, defined.user_groups)
        }),
        hosts: dim(ctx, f, "hosts", "per_host", |ctx, w| {
            host_set(ctx, w, defined.hosts, defined.host_groups)
        }),
        projects: dim(ctx, f, "projects", "per_project", |ctx, w| {
            names(ctx, w, None)
        }),
        apps: dim(ctx, f, "apps", "per_app", |ctx, w| names(ctx, w, None)),
        slots: counts(ctx, f, "slots"),
        jobs: counts(ctx, f, "jobs"),
        resources: resources(ctx, f, defined.hosts),
    };
    if !["slots", "jobs", "resources"].iter().any(|key| f.has(key)) {
        let message = "the limit has no effect without slots, jobs or resources";
        let hint = "write slots: N, jobs: N or resources: '[NAME,AMOUNT]'";
        ctx.problem_hint(f.pos, "missing-key", message, hint);
    }
    empty_sets(ctx, f, &out);
    out
}

/// A limit may name a template of `apps.d`, which is not read here; any other unknown name is a
/// mistake.
fn unknown_apps(ctx: &mut Ctx<'_>, f: &Fields<'_>, q: &Quota, apps: &[AppProfile]) {
    let Some(key) = ["apps", "per_app"].into_iter().find(|key| f.has(key)) else {
        return;
    };
    let Some(words) = f.read_words(ctx, key).filter(|_| !ctx.partial) else {
        return;
    };
    for name in q.apps.set().iter().flat_map(|set| &set.names) {
        if apps.iter().any(|app| app.name == *name) {
            continue;
        }
        let pos = words.pos_of(name, ctx);
        let known = apps.iter().map(|app| app.name.as_str());
        let near = did_you_mean(name, known);
        let hint = near.unwrap_or_else(|| "write it into section apps".to_owned());
        let message = format!(
            "section apps has no application {name:?}: only jobs of a template of that name count"
        );
        ctx.warn(pos, "no-profile", message, Some(hint));
    }
}

/// Reports empty sets, with which the limit never applies.
fn empty_sets(ctx: &mut Ctx<'_>, f: &Fields<'_>, q: &Quota) {
    let empty = |n: &Names| !n.all_but && n.names.is_empty();
    for (keys, is_empty) in [
        (["queues", "per_queue"], q.queues.set().is_some_and(empty)),
        (
            ["users", "per_user"],
            q.users.set().is_some_and(|s| s.is_empty()),
        ),
        (
            ["hosts", "per_host"],
            q.hosts.set().is_some_and(|s| s.is_empty()),
        ),
        (
            ["projects", "per_project"],
            q.projects.set().is_some_and(empty),
        ),
        (["apps", "per_app"], q.apps.set().is_some_and(empty)),
    ] {
        let Some(key) = keys.iter().find(|key| f.has(key)) else {
            continue;
        };
        if is_empty && !ctx.partial {
            let message = format!("{key} is empty: the limit has no effect");
            ctx.warn(f.key_pos(key), "no-effect", message, None);
        }
    }
}

/// One dimension, from its two keys.
fn dim<S>(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    shared: &str,
    per: &str,
    read: impl FnOnce(&mut Ctx<'_>, &Words) -> Option<S>,
) -> Dimension<S> {
    if f.has(shared) && f.has(per) {
        let message = format!("a limit cannot have both {shared} and {per}");
        let hint = format!("{shared}: one counter for all; {per}: one for each");
        ctx.problem_hint(f.key_pos(per), "conflict", message, hint);
        return Dimension::Any;
    }
    let (key, each) = if f.has(per) {
        (per, true)
    } else {
        (shared, false)
    };
    let words = f.read_words(ctx, key);
    match words.and_then(|w| read(ctx, &w)) {
        None => Dimension::Any,
        Some(set) if each => Dimension::Per(set),
        Some(set) => Dimension::Shared(set),
    }
}

/// `low medium`, `all ~low`. `queues`: the defined names; `None`: any name is accepted.
pub(super) fn names(ctx: &mut Ctx<'_>, w: &Words, queues: Option<&[Queue]>) -> Option<Names> {
    if super::read_users::has_entry_with_blanks(ctx, w) {
        return None;
    }
    let set = match NameSet::parse(&w.text) {
        Ok(set) => set,
        Err(e) => {
            ctx.parse_error(w, "name", &e);
            return None;
        }
    };
    let mut out = Names {
        all_but: set.items.iter().any(|i| i.name == "all" && !i.exclude),
        ..Names::default()
    };
    for item in &set.items {
        if item.name == "all" {
            continue;
        }
        if let Some(queues) = queues
            && !queues.iter().any(|q| q.name == item.name)
        {
            let pos = w.pos_of(&item.name, ctx);
            let known = queues.iter().map(|q| q.name.as_str());
            ctx.undefined(pos, "queue", &item.name, known);
        }
        // With `all`, the names with a `~` are stored; otherwise they are removed from the others.
        if item.exclude == out.all_but {
            out.names.insert(item.name.clone());
        }
    }
    if !out.all_but {
        for item in set.items.iter().filter(|i| i.exclude) {
            out.names.remove(&item.name);
        }
    }
    Some(out)
}

/// `130`, or `[2 1:8:0-5:18:0] [5 5:18:01-1:7:59]`.
fn counts(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> Vec<WindowedLimit<u64>> {
    let Some(w) = f.scalar(ctx, key) else {
        return Vec::new();
    };
    if w.text.eq_ignore_ascii_case("unlimited") {
        return Vec::new();
    }
    if !w.text.contains(['[', ']', ' ']) {
        let limit = whole_word(ctx, key, &w.text, w.pos, 0, MAX_SLOTS);
        let always = |limit| WindowedLimit {
            limit,
            window: None,
        };
        return limit.map(always).into_iter().collect();
    }
    let Some(groups) = groups(ctx, &w, HINT) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for group in groups {
        let (number, rest) = group.first_word();
        let pos = number.pos(&w, ctx);
        let Some(limit) = whole_word(ctx, key, number.text, pos, 0, MAX_SLOTS) else {
            return Vec::new();
        };
        let Some(window) = window(ctx, &w, rest) else {
            return Vec::new();
        };
        out.push((WindowedLimit { limit, window }, group));
    }
    first_wins(ctx, &w, &out);
    out.into_iter().map(|(capped, _)| capped).collect()
}

/// `[mem,5000] [gpu, 2]`, with windows after the amounts.
fn resources(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    hosts: &HostTable,
) -> Vec<(String, Vec<WindowedLimit<i64>>)> {
    let Some(w) = f.scalar(ctx, "resources") else {
        return Vec::new();
    };
    let Some(groups) = groups(ctx, &w, RESOURCE_HINT) else {
        return Vec::new();
    };
    #[allow(clippy::type_complexity)] // amounts with their source text, by name
    let mut out: Vec<(String, Vec<(WindowedLimit<i64>, Bracket<'_>)>)> = Vec::new();
    for group in groups {
        let Some((name, rest)) = group.split() else {
            let message = format!("[{}] has no amount", group.text);
            let pos = group.pos(&w, ctx);
            ctx.problem_hint(pos, "number", message, RESOURCE_HINT);
            return Vec::new();
        };
        let Some((name, capped)) = resource(ctx, &w, name, rest, hosts) else {
            continue;
        };
        match out.iter_mut().find(|(n, _)| *n == name) {
            Some((_, all)) => all.push((capped, group)),
            None => out.push((name, vec![(capped, group)])),
        }
    }
    for (_, all) in &out {
        first_wins(ctx, &w, all);
    }
    let plain =
        |all: Vec<(WindowedLimit<i64>, _)>| all.into_iter().map(|(capped, _)| capped).collect();
    out.into_iter().map(|(n, all)| (n, plain(all))).collect()
}

fn resource(
    ctx: &mut Ctx<'_>,
    w: &Words,
    name: Bracket<'_>,
    rest: Bracket<'_>,
    hosts: &HostTable,
) -> Option<(String, WindowedLimit<i64>)> {
    let pos = name.pos(w, ctx);
    let found = hosts.find(name.text);
    let def = found.or_else(|| sensed_names::number(ctx, pos, name.text, hosts))?;
    if def.kind != Kind::Number || !def.reserve {
        let message = format!("{} is not a resource that jobs consume", name.text);
        let hint = "limits are for slots, jobs and numbers that rusage[] can reserve";
        ctx.problem_hint(pos, "resource", message, hint);
        return None;
    }
    let (number, rest) = rest.first_word();
    let limit = match amount(&def, number.text) {
        Ok(limit) => limit,
        Err(e) => {
            ctx.parse_error(w, "number", &e.shifted(number.at));
            return None;
        }
    };
    let window = window(ctx, w, rest)?;
    Some((def.name.to_string(), WindowedLimit { limit, window }))
}

/// The bracket groups of a value; `hint` shows the syntax.
fn groups<'w>(ctx: &mut Ctx<'_>, w: &'w Words, hint: &str) -> Option<Vec<Bracket<'w>>> {
    match brackets(&w.text, MAX_BRACKETS) {
        Ok(all) => Some(all),
        Err(mut e) => {
            e.hint = Some(hint.to_string());
            ctx.parse_error(w, "number", &e);
            None
        }
    }
}

/// The windows after a number; none means always. `None`: they are invalid.
fn window(ctx: &mut Ctx<'_>, w: &Words, b: Bracket<'_>) -> Option<Option<Windows>> {
    if split(b.text).next().is_none() {
        return Some(None);
    }
    match Windows::parse(b.text) {
        Ok(windows) => Some(Some(windows)),
        Err(e) => {
            ctx.parse_error(w, "window", &e.shifted(b.at));
            None
        }
    }
}

/// Warns of values that apply at the same time: the first one with an open window applies.
fn first_wins<T>(ctx: &mut Ctx<'_>, w: &Words, all: &[(WindowedLimit<T>, Bracket<'_>)]) {
    for (i, (later, group)) in all.iter().enumerate().skip(1) {
        if !ctx.warns() {
            return;
        }
        let meets =
            |(earlier, _): &(WindowedLimit<T>, Bracket<'_>)| match (&earlier.window, &later.window)
            {
                (None, _) => true,
                (Some(a), Some(b)) => a.overlaps(b),
                // A value without a window applies the rest of the time.
                (Some(_), None) => false,
            };
        if all[..i].iter().any(meets) {
            let pos = group.pos(w, ctx);
            let message = format!("[{}] overlaps the window of an earlier group", group.text);
            let hint = "the first group with an open window applies";
            ctx.warn(pos, "overlap", message, Some(hint.into()));
        }
    }
}
