//! Sections `hosts`, `hosttypes`, `hostmodels` and `hostgroups`, and sets of hosts in any place.
//! Never reads a resource (see `read_resources`).

use super::keys;
use super::policy::Threshold;
use super::read::{Ctx, Fields, Words, decimal, did_you_mean, split, whole_number};
use super::read_resources::{ResourceKinds, resources, tags};
use super::read_users::{group_name, unsound_groups};
use super::read_watch::{thresholds, windows};
use super::sets::HostSetUnion;
use super::sets::{HostPrefs, HostSet};
use super::types::{HostEntry, HostGroup, HostModel, HostTable, ResourceValue, SlotSpec};
use crate::text::ErrorKind;
use crate::text::hostlist::{self, MAX_HOSTS};
use crate::text::names;
use crate::text::window::Windows;
use crate::text::yaml::{Node, Pos, Value};
use std::collections::{BTreeMap, HashMap};

/// Words with a special meaning in host sets.
const RESERVED: &[&str] = &["all", "none", "others", "default"];
/// Maximum number of slots of a host.
const MAX_SLOTS: u64 = 1_000_000;

/// Section `hosttypes`: a list of names.
pub(super) fn host_types(ctx: &mut Ctx<'_>, node: Option<&Node>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let Some(node) = node else { return out };
    for item in ctx.list(node, "hosttypes") {
        let Value::Text { text, quoted } = &item.value else {
            if item.value != Value::Refused {
                ctx.problem(item.pos, "type", "hosttypes accepts only names");
            }
            continue;
        };
        let w = Words::one_word(text, item.pos, *quoted);
        if !ctx.check_name(&w) {
            continue;
        }
        if out.contains(text) {
            ctx.problem(
                item.pos,
                "duplicate",
                format!("host type {text:?} is named twice"),
            );
        } else {
            out.push(text.clone());
        }
    }
    out
}

/// Section `hostmodels`.
pub(super) fn host_models(ctx: &mut Ctx<'_>, node: Option<&Node>) -> BTreeMap<String, HostModel> {
    let mut out = BTreeMap::new();
    let Some(node) = node else { return out };
    let mut places = HashMap::new();
    for item in ctx.list(node, "hostmodels") {
        let Some(f) = Fields::new(ctx, item, keys::HOST_MODEL, "a host model") else {
            continue;
        };
        let Some(name) = group_name(ctx, &f, "host model", &[], &mut places) else {
            continue;
        };
        let cpuf = cpu_factor(ctx, &f).unwrap_or(1.0);
        out.insert(name.clone(), HostModel { name, cpuf });
    }
    out
}

fn cpu_factor(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<f64> {
    let w = f.scalar(ctx, "cpuf")?;
    let n = decimal(&w.text).filter(|n| (0.001..=1000.0).contains(n));
    if n.is_none() {
        let message = format!("cpuf {:?} is outside 0.001 to 1000", w.text);
        ctx.problem(w.pos, "range", message);
    }
    n
}

/// The values of one entry of `hosts`; missing values come from the default entry.
#[derive(Default)]
struct EntryValues {
    type_name: Option<String>,
    model: Option<String>,
    cpuf: Option<f64>,
    slots: Option<SlotSpec>,
    user_slots: Option<Option<u32>>,
    tags: Option<Vec<String>>,
    resources: BTreeMap<String, ResourceValue>,
    server: Option<bool>,
    unit: Option<String>,
    dispatch_window: Option<Windows>,
    thresholds: Vec<Threshold>,
}

impl EntryValues {
    /// The host takes precedence over the model, the model over the default entry.
    fn complete(
        &self,
        name: &str,
        base: &HostEntry,
        models: &BTreeMap<String, HostModel>,
    ) -> HostEntry {
        let model = self.model.clone().or_else(|| base.model.clone());
        let of_model = self
            .model
            .as_ref()
            .and_then(|m| models.get(m))
            .map(|m| m.cpuf);
        let mut resources = base.resources.clone();
        resources.extend(self.resources.clone());
        let mut thresholds = self.thresholds.clone();
        let own = |t: &&Threshold| !self.thresholds.iter().any(|o| o.index == t.index);
        thresholds.extend(base.thresholds.iter().filter(own).cloned());
        HostEntry {
            name: name.to_string(),
            type_name: self.type_name.clone().or_else(|| base.type_name.clone()),
            model,
            cpuf: self.cpuf.or(of_model).unwrap_or(base.cpuf),
            slots: self.slots.unwrap_or(base.slots),
            user_slots: self.user_slots.unwrap_or(base.user_slots),
            tags: self.tags.clone().unwrap_or_else(|| base.tags.clone()),
            resources,
            server: self.server.unwrap_or(base.server),
            unit: self.unit.clone().or_else(|| base.unit.clone()),
            dispatch_window: self
                .dispatch_window
                .clone()
                .or_else(|| base.dispatch_window.clone()),
            thresholds,
        }
    }
}

fn built_in() -> HostEntry {
    HostEntry {
        name: "default".into(),
        type_name: None,
        model: None,
        cpuf: 1.0,
        slots: SlotSpec::Cores,
        user_slots: None,
        tags: Vec::new(),
        resources: BTreeMap::new(),
        server: true,
        unit: None,
        dispatch_window: None,
        thresholds: Vec::new(),
    }
}

impl Default for HostTable {
    fn default() -> HostTable {
        HostTable {
            default: built_in(),
            open: false,
            entries: Vec::new(),
            resources: BTreeMap::new(),
            sensed: BTreeMap::new(),
            index: BTreeMap::new(),
        }
    }
}

/// Section `hosts`. `kinds`: the declarations of section `resources`.
pub(super) fn hosts(
    ctx: &mut Ctx<'_>,
    node: Option<&Node>,
    types: &[String],
    models: &BTreeMap<String, HostModel>,
    mut kinds: ResourceKinds,
) -> HostTable {
    let mut out = HostTable::default();
    let mut lines: HashMap<String, u32> = HashMap::new();
    let mut read: Vec<(Vec<String>, EntryValues, Option<&Node>)> = Vec::new();
    let mut default: Option<(EntryValues, Option<&Node>)> = None;
    let items = node.map_or(&[][..], |n| ctx.list(n, "hosts"));
    for item in items {
        let Some(f) = Fields::new(ctx, item, keys::HOST, "an entry of hosts") else {
            continue;
        };
        let names = host_names(ctx, &f, &mut lines);
        let values = read_entry(ctx, &f, (types, models), &mut kinds);
        let marks = f.node("thresholds");
        if names == ["default"] {
            out.open = f.flag(ctx, "open", false);
            default = Some((values, marks));
        } else {
            if f.has("open") {
                let message = "open is only valid in the entry with name: default";
                ctx.problem(f.key_pos("open"), "misplaced-key", message);
            }
            read.push((names, values, marks));
        }
    }
    out.resources = kinds.declared();
    // Thresholds may watch a resource that another entry defines.
    let mut watch = |values: &mut EntryValues, marks: Option<&Node>, out: &HostTable| {
        values.thresholds = marks.map_or_else(Vec::new, |n| thresholds(ctx, n, out));
    };
    if let Some((mut values, marks)) = default {
        watch(&mut values, marks, &out);
        out.default = values.complete("default", &built_in(), models);
    }
    for (_, values, marks) in &mut read {
        watch(values, *marks, &out);
    }
    for (name, values) in read
        .iter()
        .flat_map(|(names, values, _)| names.iter().map(move |n| (n, values)))
    {
        if out.entries.len() == MAX_HOSTS {
            let message = format!("hosts lists more than {MAX_HOSTS} hosts");
            ctx.problem(node.map_or(Pos::new(1, 1), |n| n.pos), "range", message);
            return out;
        }
        out.index.insert(name.clone(), out.entries.len());
        out.entries
            .push(values.complete(name, &out.default, models));
    }
    out
}

/// The hosts that an entry names, except those of earlier entries.
fn host_names(ctx: &mut Ctx<'_>, f: &Fields<'_>, lines: &mut HashMap<String, u32>) -> Vec<String> {
    let key = match (f.has("name"), f.has("names")) {
        (true, false) => "name",
        (false, true) => "names",
        (true, true) => {
            ctx.problem(
                f.key_pos("names"),
                "conflict",
                "an entry cannot have both name and names",
            );
            return Vec::new();
        }
        (false, false) => {
            let hint = "write name: HOST or names: 'node[01-64]'";
            ctx.problem_hint(
                f.pos,
                "missing-key",
                "an entry of hosts without a name",
                hint,
            );
            return Vec::new();
        }
    };
    let Some(w) = f.read_words(ctx, key) else {
        return Vec::new();
    };
    let all = match hostlist::expand(&w.text) {
        Ok(all) => all,
        Err(e) => {
            let long = e.kind == ErrorKind::TooMany;
            ctx.parse_error(&w, if long { "range" } else { "name" }, &e);
            return Vec::new();
        }
    };
    if key == "name" && all.len() > 1 {
        ctx.problem_hint(
            w.pos,
            "name",
            "name takes one host",
            "write names: for several",
        );
    }
    let mut out = Vec::with_capacity(all.len());
    for name in all {
        if RESERVED.contains(&name.as_str()) && (name != "default" || key != "name") {
            let message = format!("{name:?} is a reserved word and cannot be the name of a host");
            ctx.problem(w.pos, "reserved-name", message);
        } else if let Some(line) = lines.get(&name) {
            let message = format!("host {name:?} is already on line {line}");
            ctx.problem_hint(w.pos, "duplicate", message, "list each host once");
        } else {
            lines.insert(name.clone(), w.pos.line);
            out.push(name);
        }
    }
    out
}

fn read_entry(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    (types, models): (&[String], &BTreeMap<String, HostModel>),
    kinds: &mut ResourceKinds,
) -> EntryValues {
    let mut out = EntryValues {
        cpuf: cpu_factor(ctx, f),
        ..EntryValues::default()
    };
    out.type_name = f
        .scalar(ctx, "type")
        .filter(|w| ctx.check_name(w))
        .and_then(|w| {
            let known = w.text == "auto" || types.is_empty() || types.contains(&w.text);
            if !known {
                ctx.undefined(
                    w.pos,
                    "host type",
                    &w.text,
                    types.iter().map(String::as_str),
                );
            }
            (known && w.text != "auto").then_some(w.text)
        });
    out.model = f
        .scalar(ctx, "model")
        .filter(|w| ctx.check_name(w))
        .and_then(|w| {
            let known = w.text == "auto" || models.is_empty() || models.contains_key(&w.text);
            if !known {
                ctx.undefined(
                    w.pos,
                    "host model",
                    &w.text,
                    models.keys().map(String::as_str),
                );
            }
            (known && w.text != "auto").then_some(w.text)
        });
    out.slots = f.scalar(ctx, "slots").and_then(|w| slots(ctx, &w));
    if f.has("user_slots") {
        out.user_slots = Some(f.limit(ctx, "user_slots", 0));
    }
    out.tags = f.read_words(ctx, "tags").map(|w| tags(ctx, &w, kinds));
    if let Some(node) = f.node("resources") {
        out.resources = resources(ctx, node, kinds);
    }
    if f.has("server") {
        out.server = Some(f.flag(ctx, "server", true));
    }
    out.unit = unit(ctx, f);
    out.dispatch_window = windows(ctx, f, "dispatch_window");
    out
}

/// The rack or switch of the host, from either key.
fn unit(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<String> {
    if f.has("unit") && f.has("rack") {
        let hint = "keep one of the two";
        let message = "unit and rack are the same setting";
        ctx.problem_hint(f.key_pos("rack"), "conflict", message, hint);
        return None;
    }
    let w = match f.scalar(ctx, "unit") {
        None => f.scalar(ctx, "rack")?,
        values => values?,
    };
    ctx.check_name(&w).then_some(w.text)
}

fn slots(ctx: &mut Ctx<'_>, w: &Words) -> Option<SlotSpec> {
    if w.text == "!" || w.text.eq_ignore_ascii_case("cores") {
        return Some(SlotSpec::Cores);
    }
    if !w.text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        let message = format!("slots: {:?} is not a number of slots", w.text);
        ctx.problem_hint(w.pos, "number", message, "write a number, '!' or cores");
        return None;
    }
    let n = whole_number(ctx, "slots", w, 0, MAX_SLOTS)?;
    Some(SlotSpec::Count(
        u32::try_from(n).expect("the range is within u32"),
    ))
}

/// Section `hostgroups`.
pub(super) fn host_groups(
    ctx: &mut Ctx<'_>,
    node: Option<&Node>,
    hosts: &HostTable,
) -> BTreeMap<String, HostGroup> {
    let mut out = BTreeMap::new();
    let Some(node) = node else { return out };
    let mut places: HashMap<String, Pos> = HashMap::new();
    let mut read: BTreeMap<String, (Words, names::HostSet)> = BTreeMap::new();
    for item in ctx.list(node, "hostgroups") {
        let Some(f) = Fields::new(ctx, item, keys::HOST_GROUP, "a host group") else {
            continue;
        };
        let Some(name) = group_name(ctx, &f, "host group", RESERVED, &mut places) else {
            continue;
        };
        if hosts.index.contains_key(&name) {
            let message = format!("{name:?} is already the name of a host");
            ctx.problem_hint(f.key_pos("name"), "duplicate", message, "rename the group");
        }
        let Some(w) = f.read_words(ctx, "members") else {
            if !f.has("members") {
                let message = format!("host group {name:?} has no members");
                ctx.problem_hint(f.pos, "missing-key", message, "write members: HOSTS or all");
            }
            continue;
        };
        if let Some(set) = parse_members(ctx, &w) {
            read.insert(name, (w, set));
        }
    }
    let edges: BTreeMap<&str, Vec<&str>> = read
        .iter()
        .map(|(name, (_, set))| {
            let inner = set.items.iter().map(|i| i.name.as_str());
            (
                name.as_str(),
                inner.filter(|n| read.contains_key(*n)).collect(),
            )
        })
        .collect();
    let unsound = unsound_groups(ctx, "host group", &edges, &places);
    for name in super::graph::inner_first(&edges) {
        let (w, set) = &read[name];
        let hosts = if unsound.iter().any(|n| n == name) {
            HostSet::none()
        } else {
            let is_group = |n: &str| places.contains_key(n);
            resolve(ctx, w, set, hosts, &out, &is_group)
        };
        let group = HostGroup {
            name: name.to_string(),
            members: w.text.clone(),
            hosts,
        };
        out.insert(name.to_string(), group);
    }
    out
}

fn parse_members(ctx: &mut Ctx<'_>, w: &Words) -> Option<names::HostSet> {
    let set = parse_hosts(ctx, w)?;
    for item in &set.items {
        let message = if item.preference != 0 {
            "preferences (+n) are only valid in the hosts of a queue"
        } else if item.name == "others" {
            "others is only valid in the hosts of a queue"
        } else {
            continue;
        };
        ctx.problem(w.pos, "hosts", message);
        return None;
    }
    Some(set)
}

fn parse_hosts(ctx: &mut Ctx<'_>, w: &Words) -> Option<names::HostSet> {
    if split(&w.text).any(|(_, word)| word == "!") {
        let message = "members from an external program (!) are not implemented in this version";
        ctx.problem(w.pos, "not-implemented", message);
        return None;
    }
    match names::HostSet::parse(&w.text) {
        Ok(set) => Some(set),
        Err(e) => {
            let long = e.kind == ErrorKind::TooMany;
            ctx.parse_error(w, if long { "range" } else { "hosts" }, &e);
            None
        }
    }
}

/// The hosts with a name; an unknown name is reported once.
fn lookup(
    ctx: &mut Ctx<'_>,
    w: &Words,
    name: &str,
    hosts: &HostTable,
    groups: &BTreeMap<String, HostGroup>,
    is_group: &dyn Fn(&str) -> bool,
) -> HostSet {
    if name == "all" {
        return HostSet::all();
    }
    if let Some(g) = groups.get(name) {
        return g.hosts.clone();
    }
    // A group that could not be read was already reported; an open cluster has unlisted hosts.
    if !hosts.index.contains_key(name) && !hosts.open && !is_group(name) {
        let known = hosts.index.keys().chain(groups.keys()).map(String::as_str);
        let pos = w.pos_of(name, ctx);
        ctx.undefined(pos, "host or host group", name, known);
    }
    HostSet::one(name)
}

fn resolve(
    ctx: &mut Ctx<'_>,
    w: &Words,
    set: &names::HostSet,
    hosts: &HostTable,
    groups: &BTreeMap<String, HostGroup>,
    is_group: &dyn Fn(&str) -> bool,
) -> HostSet {
    let mut include = HostSetUnion::default();
    let mut exclude = HostSetUnion::default();
    for item in &set.items {
        let found = lookup(ctx, w, &item.name, hosts, groups, is_group);
        if item.exclude {
            exclude.add(found)
        } else {
            include.add(found)
        }
    }
    include.set().minus(&exclude.set())
}

/// A plain set of hosts, without preferences.
pub(super) fn host_set(
    ctx: &mut Ctx<'_>,
    w: &Words,
    hosts: &HostTable,
    groups: &BTreeMap<String, HostGroup>,
) -> Option<HostSet> {
    let set = parse_members(ctx, w)?;
    Some(resolve(ctx, w, &set, hosts, groups, &|_| false))
}

/// The `hosts` of a queue.
pub(super) fn host_prefs(
    ctx: &mut Ctx<'_>,
    w: &Words,
    hosts: &HostTable,
    groups: &BTreeMap<String, HostGroup>,
) -> Option<HostPrefs> {
    let set = parse_hosts(ctx, w)?;
    let mut terms: BTreeMap<u32, HostSetUnion> = BTreeMap::new();
    let mut others = None;
    let mut exclude = HostSetUnion::default();
    for item in &set.items {
        if matches!(item.name.as_str(), "all" | "others") {
            others = others.max(Some(item.preference));
            continue;
        }
        let found = lookup(ctx, w, &item.name, hosts, groups, &|_| false);
        if item.exclude {
            exclude.add(found);
        } else {
            terms.entry(item.preference).or_default().add(found);
        }
    }
    let terms = terms.into_iter().map(|(p, g)| (g.set(), p)).collect();
    Some(HostPrefs {
        text: w.text.clone(),
        terms,
        others,
        exclude: exclude.set(),
    })
}

/// Masters that are not hosts of the cluster are allowed, but are usually a mistake.
pub(super) fn check_masters(ctx: &mut Ctx<'_>, masters: &[String], pos: Pos, hosts: &HostTable) {
    if hosts.open || hosts.entries.is_empty() || ctx.partial {
        return;
    }
    for m in masters.iter().filter(|m| !hosts.index.contains_key(*m)) {
        let hint = did_you_mean(m, hosts.index.keys().map(String::as_str));
        ctx.warn(
            pos,
            "unlisted-master",
            format!("master {m:?} is not listed under hosts"),
            hint,
        );
    }
}
