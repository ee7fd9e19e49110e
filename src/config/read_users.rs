//! Sections `users` and `usergroups`, and sets of users in any place.

use super::keys;
use super::read::{Ctx, Fields, Words, decimal, did_you_mean};
use super::read_shares;
use super::sets::{UserSet, UserTerm};
use super::types::{UserEntry, UserGroup, UserSubject};
use crate::text::names::{self, NameSet};
use crate::text::yaml::{Node, Pos};
use std::collections::{BTreeMap, HashMap};

/// Words with a special meaning in user sets.
pub(super) const RESERVED: &[&str] = &["all", "none", "default", "others"];

/// Maximum number of levels of nested groups.
const MAX_LEVELS: usize = 32;

/// Reads a set of users. Unknown names cause only a warning: a directory service that is down must
/// not make the configuration unusable.
pub(super) fn user_set(
    ctx: &mut Ctx<'_>,
    w: &Words,
    groups: &BTreeMap<String, UserGroup>,
) -> Option<UserSet> {
    let is_group = |name: &str| groups.contains_key(name);
    parse_set(ctx, w, &is_group, &|name| {
        did_you_mean(name, groups.keys().map(String::as_str))
    })
}

fn parse_set(
    ctx: &mut Ctx<'_>,
    w: &Words,
    is_group: &dyn Fn(&str) -> bool,
    guess: &dyn Fn(&str) -> Option<String>,
) -> Option<UserSet> {
    if super::read::split(&w.text).any(|(_, word)| word == "!") {
        let message = "members from an external program (!) are not implemented in this version";
        ctx.problem(w.pos, "not-implemented", message);
        return None;
    }
    if has_entry_with_blanks(ctx, w) {
        return None;
    }
    // Of equal length, so that offsets in the text stay valid.
    let text = w.text.replace("@system", "all    ");
    let set = match NameSet::parse(&text) {
        Ok(set) => set,
        Err(e) => {
            ctx.parse_error(w, "users", &e);
            return None;
        }
    };
    let mut out = UserSet::default();
    for item in set.items {
        let term = if item.name == "all" {
            UserTerm::All
        } else if is_group(&item.name) {
            UserTerm::Group(item.name)
        } else {
            unknown_user(ctx, w, &item.name, guess);
            UserTerm::Name(item.name)
        };
        if item.exclude {
            out.exclude.push(term)
        } else {
            out.include.push(term)
        }
    }
    Some(out)
}

/// What to do about a name with blanks.
const BLANKS_HINT: &str =
    "a name with blanks cannot be written; name its members, or another of its names";
/// Maximum number of words of a name in a directory service.
const WORDS_OF_NAME: usize = 6;

/// Refuses entries of a list with blanks, such as `CORP\domain users`: they would be read as
/// several names, one of which may be that of other users.
pub(super) fn has_entry_with_blanks(ctx: &mut Ctx<'_>, w: &Words) -> bool {
    let several = |(entry, _): &(&str, Pos)| super::read::split(entry).count() > 1;
    let Some((entry, pos)) = w.entries().into_iter().find(several) else {
        return false;
    };
    let n = super::read::split(entry).count();
    let message = format!("the entry {entry:?} would be read as {n} names");
    ctx.problem_hint(pos, "name", message, BLANKS_HINT);
    true
}

/// The name of the system that begins with the word `name` of the text and has blanks.
fn name_with_blanks(ctx: &Ctx<'_>, w: &Words, name: &str) -> Option<String> {
    let words = super::read::split(&w.text).map(|(_, word)| word.trim_start_matches('~'));
    let mut words = words.skip_while(|word| *word != name);
    let mut long = words.next()?.to_owned();
    for next in words.take(WORDS_OF_NAME - 1) {
        long = format!("{long} {next}");
        if (ctx.os.user)(&long) || (ctx.os.group)(&long) {
            return Some(long);
        }
    }
    None
}

fn unknown_user(ctx: &mut Ctx<'_>, w: &Words, name: &str, guess: &dyn Fn(&str) -> Option<String>) {
    // Finding the place is expensive, so not for known names.
    if ctx.warns() && !(ctx.os.user)(name) && !(ctx.os.group)(name) {
        if let Some(long) = name_with_blanks(ctx, w, name) {
            let message = format!("{long:?} would be read as several names");
            return ctx.problem_hint(w.pos_of(name, ctx), "name", message, BLANKS_HINT);
        }
        unknown_at(ctx, w.pos_of(name, ctx), name, guess);
    }
}

/// Warns of a name that neither the file nor the operating system knows.
pub(super) fn unknown_at(
    ctx: &mut Ctx<'_>,
    pos: Pos,
    name: &str,
    guess: &dyn Fn(&str) -> Option<String>,
) {
    if ctx.partial || !ctx.warns() || (ctx.os.user)(name) || (ctx.os.group)(name) {
        return;
    }
    let hint = guess(name);
    let message = format!("{name:?} is neither a user group nor a user or group of the system");
    ctx.warn(pos, "unknown-user", message, hint);
}

/// Section `usergroups`.
pub(super) fn user_groups(ctx: &mut Ctx<'_>, node: Option<&Node>) -> BTreeMap<String, UserGroup> {
    let mut out: BTreeMap<String, UserGroup> = BTreeMap::new();
    let Some(node) = node else { return out };
    let mut places: HashMap<String, Pos> = HashMap::new();
    let mut read: Vec<(String, Fields<'_>, Option<Words>)> = Vec::new();
    for item in ctx.list(node, "usergroups").iter() {
        let Some(f) = Fields::new(ctx, item, keys::USER_GROUP, "a user group") else {
            continue;
        };
        let Some(name) = group_name(ctx, &f, "user group", RESERVED, &mut places) else {
            continue;
        };
        if (ctx.os.user)(&name) && !(ctx.os.group)(&name) {
            let message =
                format!("{name:?} is also a user of the system: the group hides the user");
            ctx.warn(
                f.key_pos("name"),
                "hides-user",
                message,
                Some("rename the group".into()),
            );
        }
        let members = f.read_words(ctx, "members");
        if members.is_none() && !f.has("members") {
            let message = format!("user group {name:?} has no members");
            let hint = "write members: NAMES, all, or '@system'";
            ctx.problem_hint(f.pos, "missing-key", message, hint);
        }
        read.push((name, f, members));
    }
    // Forward references are allowed: first all names, then all members.
    for (name, _, members) in &read {
        let set = members.as_ref().and_then(|w| {
            let guess = |n: &str| did_you_mean(n, places.keys().map(String::as_str));
            parse_set(ctx, w, &|n| places.contains_key(n), &guess)
        });
        let members = members.as_ref().map_or(String::new(), |w| w.text.clone());
        let group = UserGroup {
            name: name.clone(),
            members,
            set: set.unwrap_or_default(),
            administrators: UserSet::default(),
            fairshare: None,
        };
        out.insert(name.clone(), group);
    }
    break_cycles(ctx, &mut out, &places);
    for (name, f, _) in &read {
        let admins = f
            .read_words(ctx, "administrator")
            .and_then(|w| admin_set(ctx, &w, &out));
        if let (Some(set), Some(group)) = (admins, out.get_mut(name)) {
            group.administrators = set;
        }
        let shares = read_shares::shares(ctx, f, &out);
        if let Some(group) = out.get_mut(name) {
            group.fairshare = shares;
        }
    }
    read_shares::check_groups(ctx, &mut out, &places);
    out
}

/// The name of a group of users or hosts, checked and noted in `places`.
pub(super) fn group_name(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    what: &str,
    reserved: &[&str],
    places: &mut HashMap<String, Pos>,
) -> Option<String> {
    let Some(w) = f.scalar(ctx, "name") else {
        if !f.has("name") {
            ctx.problem(f.pos, "missing-key", format!("a {what} without a name"));
        }
        return None;
    };
    if !ctx.check_name(&w) {
        return None;
    }
    if reserved.contains(&w.text.as_str()) {
        let message = format!(
            "{:?} is a reserved word and cannot be the name of a {what}",
            w.text
        );
        ctx.problem(w.pos, "reserved-name", message);
        return None;
    }
    if let Some(first) = places.get(&w.text) {
        let message = format!("{what} {:?} is already on line {}", w.text, first.line);
        ctx.problem_hint(
            w.pos,
            "duplicate",
            message,
            "rename or remove one of the two",
        );
        return None;
    }
    places.insert(w.text.clone(), w.pos);
    Some(w.text)
}

fn break_cycles(
    ctx: &mut Ctx<'_>,
    groups: &mut BTreeMap<String, UserGroup>,
    places: &HashMap<String, Pos>,
) {
    let edges: BTreeMap<&str, Vec<&str>> = groups
        .iter()
        .map(|(name, g)| {
            let all = g.set.include.iter().chain(&g.set.exclude);
            let to = all.filter_map(|t| match t {
                UserTerm::Group(n) => Some(n.as_str()),
                _ => None,
            });
            (name.as_str(), to.collect())
        })
        .collect();
    let broken = unsound_groups(ctx, "user group", &edges, places);
    for name in broken {
        if let Some(g) = groups.get_mut(&name) {
            g.set = UserSet::default();
        }
    }
}

/// Reports cycles and too deep nesting; returns the names of the affected groups.
pub(super) fn unsound_groups(
    ctx: &mut Ctx<'_>,
    what: &str,
    edges: &BTreeMap<&str, Vec<&str>>,
    places: &HashMap<String, Pos>,
) -> Vec<String> {
    let cycles = super::graph::cycles(edges);
    for cycle in &cycles {
        report_cycle(ctx, what, cycle, places);
    }
    if !cycles.is_empty() {
        return cycles.iter().flatten().map(ToString::to_string).collect();
    }
    let depths = super::graph::depths(edges);
    let deep: Vec<&str> = depths
        .iter()
        .filter(|&(_, &d)| d > MAX_LEVELS)
        .map(|(name, _)| *name)
        .collect();
    if let Some(first) = deep.first() {
        let pos = places.get(*first).copied().unwrap_or_default();
        let message = format!("{what} {first:?} nests groups more than {MAX_LEVELS} levels deep");
        ctx.problem(pos, "too-deep", message);
    }
    deep.iter().map(ToString::to_string).collect()
}

fn report_cycle(ctx: &mut Ctx<'_>, what: &str, cycle: &[&str], places: &HashMap<String, Pos>) {
    let pos = places.get(cycle[0]).copied().unwrap_or_default();
    let mut cycle_path: Vec<&str> = cycle.iter().copied().take(10).collect();
    if cycle.len() > cycle_path.len() {
        cycle_path.push("...");
    }
    cycle_path.push(cycle[0]);
    let message = format!(
        "{what} {:?} is a member of itself: {}",
        cycle[0],
        cycle_path.join(" -> ")
    );
    ctx.problem_hint(
        pos,
        "cycle",
        message,
        "remove one of the groups from the other",
    );
}

/// Section `users`.
pub(super) fn users(
    ctx: &mut Ctx<'_>,
    node: Option<&Node>,
    groups: &BTreeMap<String, UserGroup>,
) -> Vec<UserEntry> {
    let mut out: Vec<UserEntry> = Vec::new();
    let Some(node) = node else { return out };
    let mut places: HashMap<String, u32> = HashMap::new();
    for item in ctx.list(node, "users") {
        let Some(f) = Fields::new(ctx, item, keys::USER, "an entry of users") else {
            continue;
        };
        let Some(w) = f.scalar(ctx, "name") else {
            if !f.has("name") {
                ctx.problem(f.pos, "missing-key", "an entry of users without a name");
            }
            continue;
        };
        let entry = UserEntry {
            subject: match subject(ctx, &w, groups) {
                Some(s) => s,
                None => continue,
            },
            max_slots: f.limit(ctx, "max_slots", 0),
            max_pend_jobs: f.limit(ctx, "max_pend_jobs", 0),
            slots_per_cpu_milli: per_core(ctx, &f, "slots_per_cpu"),
            priority_cap: f.limit(ctx, "priority_cap", 0),
        };
        if let Some(line) = places.insert(w.text.clone(), w.pos.line) {
            let message = format!("users has {:?} already on line {line}", w.text);
            ctx.problem_hint(w.pos, "duplicate", message, "keep one of the two");
            continue;
        }
        out.push(entry);
    }
    out
}

fn subject(
    ctx: &mut Ctx<'_>,
    w: &Words,
    groups: &BTreeMap<String, UserGroup>,
) -> Option<UserSubject> {
    if w.text == "default" {
        return Some(UserSubject::Default);
    }
    let (name, each) = match w.text.strip_suffix('@') {
        Some(name) => (name, true),
        None => (w.text.as_str(), false),
    };
    if let Err(e) = names::check_user(name) {
        ctx.parse_error(w, "name", &e);
        return None;
    }
    let guess = |n: &str| did_you_mean(n, groups.keys().map(String::as_str));
    let os_group = || (ctx.os.group)(name) && !(ctx.os.user)(name);
    if each {
        if !groups.contains_key(name) && !(ctx.os.group)(name) {
            unknown_user(ctx, w, name, &guess);
        }
        Some(UserSubject::GroupEach(name.to_string()))
    } else if groups.contains_key(name) || os_group() {
        let message = format!("a limit of group {name:?} as a whole is not implemented");
        let hint = format!("write {name}@ to limit each member separately");
        ctx.problem_hint(w.pos, "not-implemented", message, hint);
        None
    } else {
        unknown_user(ctx, w, name, &guess);
        Some(UserSubject::User(name.to_string()))
    }
}

/// Names of administrators: users and groups, without `all` and `~`.
pub(super) fn admin_set(
    ctx: &mut Ctx<'_>,
    w: &Words,
    groups: &BTreeMap<String, UserGroup>,
) -> Option<UserSet> {
    let set = user_set(ctx, w, groups)?;
    if !set.exclude.is_empty() || set.include.contains(&UserTerm::All) {
        let hint = "name users or user groups";
        let message = "administrators accepts neither all nor ~";
        ctx.problem_hint(w.pos, "administrator", message, hint);
        return None;
    }
    Some(set)
}

/// Slots for each core, in thousandths.
pub(super) fn per_core(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> Option<u64> {
    let w = f.scalar(ctx, key)?;
    if w.text.eq_ignore_ascii_case("unlimited") {
        return None;
    }
    let n = decimal(&w.text).filter(|n| (0.0..=1_000_000.0).contains(n));
    if n.is_none() {
        let message = format!("{key} {:?} is outside 0 to 1000000", w.text);
        ctx.problem_hint(
            w.pos,
            "range",
            message,
            "write slots per core, for example 1 or 0.5",
        );
    }
    n.map(|n| (n * 1000.0).round() as u64)
}
