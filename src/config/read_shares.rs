//! Share trees as written in cb.yaml: `fairshare: '[g1,2] [u007,1] [default,1]'`. Owns the text and
//! the check that groups do not contain themselves; never walks a tree for a user (see `query`).

use super::brackets::{Bracket, brackets};
use super::policy::{ShareEntry, ShareSubject, Shares};
use super::read::{Ctx, Fields, Words, did_you_mean, whole_word};
use super::read_users::{RESERVED, unknown_at, unsound_groups};
use super::sets::{UserSet, UserTerm};
use super::types::UserGroup;
use crate::text::names;
use crate::text::yaml::Pos;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum number of brackets of one tree level.
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of shares of one bracket.
const MAX_SHARES: u64 = 1_000_000;

const HINT: &str = "write [NAME,SHARES] with a user, a group, group@, default or others";

/// The value of key `fairshare`.
pub(super) fn shares(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    groups: &BTreeMap<String, UserGroup>,
) -> Option<Shares> {
    let w = f.scalar(ctx, "fairshare")?;
    let all = match brackets(&w.text, MAX_ENTRIES) {
        Ok(all) => all,
        Err(e) => {
            ctx.parse_error(&w, "fairshare", &e);
            return None;
        }
    };
    let mut out = Shares::default();
    let mut seen: HashSet<&str> = HashSet::new();
    for bracket in all {
        let Some((name, number)) = bracket.split() else {
            let pos = bracket.pos(&w, ctx);
            let message = format!("[{}] has no number of shares", bracket.text);
            ctx.problem_hint(pos, "fairshare", message, HINT);
            return None;
        };
        let pos = number.pos(&w, ctx);
        let shares = whole_word(ctx, "shares", number.text, pos, 1, MAX_SHARES);
        let subject = subject(ctx, &w, name, groups);
        let (Some(shares), Some(subject)) = (shares, subject) else {
            return None;
        };
        if !seen.insert(name.text) {
            let message = format!("{} has shares twice", name.text);
            let pos = name.pos(&w, ctx);
            ctx.problem_hint(pos, "duplicate", message, "keep one of the two");
            return None;
        }
        if both_defaults(&out, &subject) {
            let message = "others has no effect together with default, which covers every user";
            ctx.warn(name.pos(&w, ctx), "no-effect", message, None);
        }
        let shares = u32::try_from(shares).expect("the range is within u32");
        out.entries.push(ShareEntry { subject, shares });
    }
    Some(out)
}

/// Whether this entry and an earlier one are `default` and `others`.
fn both_defaults(before: &Shares, new: &ShareSubject) -> bool {
    let other = match new {
        ShareSubject::Default => ShareSubject::Others,
        ShareSubject::Others => ShareSubject::Default,
        _ => return false,
    };
    before.entries.iter().any(|e| e.subject == other)
}

fn subject(
    ctx: &mut Ctx<'_>,
    w: &Words,
    name: Bracket<'_>,
    groups: &BTreeMap<String, UserGroup>,
) -> Option<ShareSubject> {
    match name.text {
        "default" => return Some(ShareSubject::Default),
        "others" => return Some(ShareSubject::Others),
        _ => {}
    }
    let (text, each) = match name.text.strip_suffix('@') {
        Some(text) => (text, true),
        None => (name.text, false),
    };
    let pos = name.pos(w, ctx);
    if RESERVED.contains(&text) {
        let message = format!("{:?} cannot have shares", name.text);
        let hint = "write default for each user not named, others for all of them together";
        ctx.problem_hint(pos, "fairshare", message, hint);
        return None;
    }
    if let Err(e) = names::check_user(text) {
        ctx.parse_error(w, "name", &e.shifted(name.at));
        return None;
    }
    let guess = |n: &str| did_you_mean(n, groups.keys().map(String::as_str));
    let group = groups.contains_key(text) || (ctx.os.group)(text) && !(ctx.os.user)(text);
    if !group {
        unknown_at(ctx, pos, text, &guess);
    }
    let text = text.to_string();
    Some(match (each, group) {
        (true, _) => ShareSubject::GroupEach(text),
        (false, true) => ShareSubject::Group(text),
        (false, false) => ShareSubject::User(text),
    })
}

/// Checks shares of user groups: removes entries that lead back to their own group, and warns of
/// names that are not members.
pub(super) fn check_groups(
    ctx: &mut Ctx<'_>,
    groups: &mut BTreeMap<String, UserGroup>,
    places: &HashMap<String, Pos>,
) {
    let edges: BTreeMap<&str, Vec<&str>> = groups
        .iter()
        .filter_map(|(name, g)| Some((name.as_str(), g.fairshare.as_ref()?)))
        .map(|(name, shares)| (name, inner(shares).collect()))
        .collect();
    let broken = unsound_groups(ctx, "the fairshare of user group", &edges, places);
    for name in broken {
        if let Some(g) = groups.get_mut(&name) {
            g.fairshare = None;
        }
    }
    for (name, g) in groups.iter() {
        let entries = g.fairshare.iter().flat_map(|s| &s.entries);
        let Some(pos) = places.get(name) else {
            continue;
        };
        for entry in entries {
            let who = match &entry.subject {
                ShareSubject::User(n) | ShareSubject::Group(n) | ShareSubject::GroupEach(n) => n,
                ShareSubject::Default | ShareSubject::Others => continue,
            };
            if !may_hold(&g.set, who, groups, ctx) {
                let message =
                    format!("{who:?} has shares in user group {name:?} but is not a member");
                let hint = "add it to members, or remove its shares";
                ctx.warn(*pos, "no-effect", message, Some(hint.into()));
            }
        }
    }
}

/// Names of the groups that are inner nodes of this level.
fn inner(shares: &Shares) -> impl Iterator<Item = &str> {
    shares.entries.iter().filter_map(|e| match &e.subject {
        ShareSubject::Group(n) => Some(n.as_str()),
        _ => None,
    })
}

/// Whether the set names the user or group, or might contain it: members of system groups are
/// unknown.
fn may_hold(set: &UserSet, who: &str, groups: &BTreeMap<String, UserGroup>, ctx: &Ctx<'_>) -> bool {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut open: Vec<&UserSet> = vec![set];
    while let Some(set) = open.pop() {
        for term in &set.include {
            match term {
                UserTerm::All => return true,
                UserTerm::Name(n) if n == who || (ctx.os.group)(n) => return true,
                UserTerm::Group(n) if n == who => return true,
                UserTerm::Group(n) if seen.insert(n) => {
                    open.extend(groups.get(n).map(|g| &g.set));
                }
                _ => {}
            }
        }
    }
    false
}
