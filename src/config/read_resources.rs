//! Section `resources`, and the resources and tags of hosts: their names, kinds and values. Never
//! reads the requests of a job.

use super::keys;
use super::read::{Ctx, Fields, Words, boolean, decimal, split, whole_number};
use super::read_users::group_name;
use super::types::{ResourceDecl, ResourceKind, ResourceValue};
use crate::model::DeviceNode;
use crate::text::resreq::{builtin, check_resource_name};
use crate::text::yaml::{Node, Pos, Value};
use crate::text::{ErrorKind, units};
use std::collections::{BTreeMap, HashMap};

const MAX_RESOURCES: usize = 1000;
const MAX_DESCRIPTION: usize = 512;
const MAX_DEVICES: usize = 16;

/// Section `resources`.
pub(super) fn declarations(ctx: &mut Ctx<'_>, node: Option<&Node>) -> ResourceKinds {
    let mut out = ResourceKinds::default();
    let Some(node) = node else { return out };
    // An empty list as the value of this key is parsed as the text `[]`.
    if matches!(&node.value, Value::Text { text, .. } if text == "[]") {
        return out;
    }
    let mut places = HashMap::new();
    for item in ctx.list(node, "resources") {
        let what = super::read::text_of(item, "name").map_or("a resource".to_string(), |name| {
            format!("resource {name:?}")
        });
        let Some(f) = Fields::new(ctx, item, keys::RESOURCE, &what) else {
            continue;
        };
        let name = group_name(ctx, &f, "resource", &[], &mut places);
        let decl = declaration(ctx, &f);
        let Some(name) = name else { continue };
        let pos = f.node("name").map_or(f.pos, |n| n.pos);
        // For the built-in resource with units, only the devices can be set.
        let gpu = name == "gpu" && only_devices(&f);
        if !gpu && !resource_name(ctx, &name, pos) {
            continue;
        }
        let has_units = gpu || decl.assign;
        if !decl.devices.is_empty() && !has_units {
            let message = "devices belong to units, and this resource has none";
            let hint = "write assign: yes, or leave devices out";
            ctx.problem_hint(f.key_pos("devices"), "conflict", message, hint);
        }
        if out.0.len() == MAX_RESOURCES {
            let message = format!("more than {MAX_RESOURCES} resources");
            ctx.problem(f.pos, "range", message);
            break;
        }
        out.0.insert(name, (decl, pos.line));
    }
    let items = match &node.value {
        Value::List(items) => &items[..],
        _ => &[],
    };
    for item in items {
        has_units_of(ctx, item, &out);
    }
    out
}

/// Checks that `per_unit` names a resource whose units are assigned to jobs.
fn has_units_of(ctx: &mut Ctx<'_>, item: &Node, kinds: &ResourceKinds) {
    let Value::Map(entries) = &item.value else {
        return;
    };
    let Some(entry) = entries.iter().find(|e| e.key == "per_unit") else {
        return;
    };
    let Value::Text { text, .. } = &entry.value.value else {
        return;
    };
    if !kinds.has_units(text.trim()) {
        let message = format!("per_unit: {:?} has no units", text.trim());
        let hint = "name gpu, or a resource that is declared with assign: yes";
        ctx.problem_hint(entry.value.pos, "conflict", message, hint);
    }
}

fn declaration(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> ResourceDecl {
    let kinds = [
        ("number", ResourceKind::Number),
        ("text", ResourceKind::Text),
        ("tag", ResourceKind::Tag),
    ];
    let kind = f.choice(ctx, "type", &kinds);
    let known = !f.has("type") || kind.is_some();
    let mut out = ResourceDecl::plain(kind.unwrap_or(ResourceKind::Number));
    let directions = [("increase", true), ("decrease", false)];
    out.increase = f.choice(ctx, "direction", &directions).unwrap_or(false);
    out.release = f.flag(ctx, "release", false);
    out.slotresource = f.flag(ctx, "slotresource", false);
    out.assign = f.flag(ctx, "assign", false);
    out.per_unit = f.scalar(ctx, "per_unit").map(|w| w.text.trim().to_owned());
    out.shared = f.has("locale");
    out.devices = devices(ctx, f);
    check_shared(ctx, f);
    if let Some(w) = f.scalar(ctx, "description") {
        if w.text.chars().count() > MAX_DESCRIPTION {
            let message = format!("a description has at most {MAX_DESCRIPTION} characters");
            ctx.problem(w.pos, "range", message);
        }
        out.description = w.text.trim_end().to_string();
    }
    for key in ["direction", "release", "slotresource", "assign", "per_unit"] {
        if f.has(key) && known && out.kind != ResourceKind::Number {
            let message = format!("{key} is only valid for numbers");
            ctx.problem_hint(f.key_pos(key), "conflict", message, "write type: number");
        }
    }
    if out.assign && out.release {
        let message = "units stay with a suspended job: assign: yes excludes release: yes";
        let hint = "leave release out; preemption with method: requeue frees units";
        ctx.problem_hint(f.key_pos("release"), "conflict", message, hint);
    }
    if out.assign && out.increase {
        let message = "units do not grow with the load: assign: yes excludes direction: increase";
        ctx.problem_hint(
            f.key_pos("direction"),
            "conflict",
            message,
            "leave direction out",
        );
    }
    for key in ["direction", "release", "slotresource", "assign"] {
        if out.per_unit.is_some() && f.has(key) {
            let message = format!("per_unit excludes {key}: it is counted as its units are");
            ctx.problem_hint(f.key_pos(key), "conflict", message, "leave it out");
        }
    }
    out
}

/// Whether the entry sets only name, devices and description.
fn only_devices(f: &Fields<'_>) -> bool {
    let other = keys::RESOURCE.iter().map(|key| key.name);
    let mut other = other.filter(|key| !matches!(*key, "name" | "devices" | "description"));
    f.has("devices") && !other.any(|key| f.has(key))
}

/// The patterns of the device nodes of a unit.
fn devices(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Vec<String> {
    let Some(w) = f.read_words(ctx, "devices") else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for (at, word) in split(&w.text) {
        let example = word.replace("%u", "0").replace("%n", "0");
        let path = example.starts_with("/dev/") && !example.contains("/../");
        if path || example.parse::<DeviceNode>().is_ok() {
            out.push(word.to_owned());
            continue;
        }
        let pos = w.pos_at(at, ctx);
        let hint = "write a path, /dev/nvidia%u, or numbers, 195:%u; %u is the unit's name, %n its \
                    place";
        ctx.problem_hint(pos, "type", format!("{word:?} is not a device"), hint);
    }
    if out.len() > MAX_DEVICES {
        let message = format!("a unit has at most {MAX_DEVICES} device nodes");
        ctx.problem(w.pos, "range", message);
        out.truncate(MAX_DEVICES);
    }
    out
}

/// `locale` and `value` together define a shared amount, and exclude settings of unshared
/// resources.
fn check_shared(ctx: &mut Ctx<'_>, f: &Fields<'_>) {
    for (key, other) in [("locale", "value"), ("value", "locale")] {
        if f.has(key) && !f.has(other) {
            let message = format!(
                "{key} needs {other}: together they state an amount that hosts \
                share"
            );
            let hint = "state what single hosts have in their resources, without locale and value";
            ctx.problem_hint(f.key_pos(key), "conflict", message, hint);
        }
    }
    for key in ["assign", "per_unit", "direction"] {
        if f.has("locale") && f.has(key) {
            let message = format!("locale excludes {key}: hosts share an amount");
            ctx.problem_hint(f.key_pos(key), "conflict", message, "leave one of them out");
        }
    }
}

/// The kind of each resource, and the line that declared it first.
#[derive(Default)]
pub(super) struct ResourceKinds(BTreeMap<String, (ResourceDecl, u32)>);

impl ResourceKinds {
    /// All declared resources.
    pub(super) fn declared(self) -> BTreeMap<String, ResourceDecl> {
        let all = self.0.into_iter();
        all.map(|(name, (decl, _))| (name, decl)).collect()
    }

    fn is_text(&self, name: &str) -> bool {
        let decl = self.0.get(name);
        decl.is_some_and(|(decl, _)| decl.kind == ResourceKind::Text)
    }

    /// The resource of which each unit has an amount of this one. A host states `gpu_mem` for each
    /// of its GPUs.
    fn per_unit(&self, name: &str) -> Option<&str> {
        match name {
            "gpu_mem" => Some("gpu"),
            _ => self.0.get(name)?.0.per_unit.as_deref(),
        }
    }

    fn has_units(&self, name: &str) -> bool {
        name == "gpu" || self.0.get(name).is_some_and(|(decl, _)| decl.assign)
    }

    /// A resource is of one kind on all hosts: a requirement is checked once for all of them.
    fn declare(&mut self, ctx: &mut Ctx<'_>, name: &str, kind: ResourceKind, pos: Pos) -> bool {
        let word = |k| match k {
            ResourceKind::Number => "a number",
            ResourceKind::Text => "a text",
            ResourceKind::Tag => "a tag",
        };
        let per_unit = self.per_unit(name).map(str::to_owned);
        let plain = ResourceDecl::plain(kind);
        let new = || (ResourceDecl { per_unit, ..plain }, pos.line);
        let (decl, line) = self.0.entry(name.to_string()).or_insert_with(new);
        let (first, line) = (decl.kind, *line);
        if first != kind {
            let (this_kind, other_kind) = (word(kind), word(first));
            let message =
                format!("resource {name:?} is {this_kind} here and {other_kind} on line {line}");
            ctx.problem_hint(pos, "conflict", message, "make it the same on all hosts");
        }
        first == kind
    }
}

/// The tags of a host.
pub(super) fn tags(ctx: &mut Ctx<'_>, w: &Words, kinds: &mut ResourceKinds) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for (at, tag) in split(&w.text) {
        let pos = w.pos_at(at, ctx);
        if !resource_name(ctx, tag, pos) {
            continue;
        }
        if out.iter().any(|t| t == tag) {
            ctx.problem(pos, "duplicate", format!("tag {tag:?} is named twice"));
        } else if kinds.declare(ctx, tag, ResourceKind::Tag, pos) {
            out.push(tag.to_string());
        }
    }
    out
}

/// Checks a name that resource requirements may use and that has no meaning in them yet.
fn resource_name(ctx: &mut Ctx<'_>, name: &str, pos: Pos) -> bool {
    let Err(e) = check_resource_name(name) else {
        return true;
    };
    let code = if e.kind == ErrorKind::Reserved {
        "reserved-name"
    } else {
        "name"
    };
    let hint = e.hint.unwrap_or_else(|| "choose another name".into());
    ctx.problem_hint(pos, code, e.message, hint);
    false
}

/// The static resources of a host.
pub(super) fn resources(
    ctx: &mut Ctx<'_>,
    node: &Node,
    kinds: &mut ResourceKinds,
) -> BTreeMap<String, ResourceValue> {
    let mut out = BTreeMap::new();
    let entries = match &node.value {
        Value::Map(entries) => entries,
        Value::Refused => return out,
        _ => {
            let hint = "write resources: {NAME: VALUE, NAME: VALUE}";
            ctx.problem_hint(node.pos, "type", "resources must map names to values", hint);
            return out;
        }
    };
    for e in entries {
        // The built-in resources that a host without a sensor may state.
        if !matches!(&*e.key, "gpu" | "gpu_mem") && !resource_name(ctx, &e.key, e.key_pos) {
            continue;
        }
        let Some(v) = value_of(ctx, &e.key, &e.value, kinds) else {
            continue;
        };
        let kind = match v {
            ResourceValue::Text(_) => ResourceKind::Text,
            ResourceValue::Number(_) | ResourceValue::Units(_) | ResourceValue::Sizes(_) => {
                ResourceKind::Number
            }
        };
        if kinds.declare(ctx, &e.key, kind, e.key_pos) {
            out.insert(e.key.clone(), v);
        }
    }
    out
}

/// The value of one static resource; problems are reported.
fn value_of(
    ctx: &mut Ctx<'_>,
    name: &str,
    node: &Node,
    kinds: &ResourceKinds,
) -> Option<ResourceValue> {
    match &node.value {
        // An empty list is parsed as the text `[]`.
        Value::Text { text, quoted } if kinds.has_units(name) && text == "[]" && !quoted => {
            Some(ResourceValue::Units(Vec::new()))
        }
        Value::Text { text, quoted } => {
            let w = Words::one_word(text, node.pos, *quoted);
            if kinds.per_unit(name).is_some() {
                size(ctx, name, &w).map(ResourceValue::Number)
            } else if kinds.is_text(name) {
                Some(ResourceValue::Text(w.text.clone()))
            } else if kinds.has_units(name) {
                let most = units::UNITS_MAX as u64;
                whole_number(ctx, name, &w, 0, most).map(|n| ResourceValue::Number(n as f64))
            } else {
                resource_value(ctx, name, &w)
            }
        }
        Value::List(list) if kinds.has_units(name) => unit_names(ctx, name, node, list),
        Value::List(list) if kinds.per_unit(name).is_some() => unit_sizes(ctx, name, list),
        Value::Refused => None,
        Value::List(_) => {
            let message = format!("resource {name} must be one number or text");
            let hint =
                format!("for named units declare resources: [{{name: {name}, assign: yes}}]");
            ctx.problem_hint(node.pos, "type", message, hint);
            None
        }
        _ => {
            let message = format!("resource {name} must be one number or text");
            ctx.problem(node.pos, "type", message);
            None
        }
    }
}

/// The names of a host's units.
fn unit_names(ctx: &mut Ctx<'_>, name: &str, node: &Node, list: &[Node]) -> Option<ResourceValue> {
    let mut names = Vec::new();
    for item in list {
        match &item.value {
            Value::Text { text, .. } => names.push(text.trim().to_owned()),
            Value::Refused => return None,
            _ => {
                let message = format!("resource {name}: the name of a unit is one word");
                ctx.problem(item.pos, "type", message);
                return None;
            }
        }
    }
    match units::check_list(names.iter().map(String::as_str)) {
        Ok(()) => Some(ResourceValue::Units(names)),
        Err(e) => {
            ctx.problem(node.pos, "units", format!("resource {name}: {e}"));
            None
        }
    }
}

/// The amount of a resource in each unit of a host, in the order of the units.
fn unit_sizes(ctx: &mut Ctx<'_>, name: &str, list: &[Node]) -> Option<ResourceValue> {
    let mut sizes = Vec::new();
    for item in list.iter().take(units::UNITS_MAX + 1) {
        let Value::Text { text, quoted } = &item.value else {
            let message = format!("resource {name}: an amount of a unit is one number");
            ctx.problem(item.pos, "type", message);
            return None;
        };
        sizes.push(size(ctx, name, &Words::one_word(text, item.pos, *quoted))?);
    }
    if sizes.len() > units::UNITS_MAX {
        let message = format!(
            "a host has at most {} units of a resource",
            units::UNITS_MAX
        );
        ctx.problem(list[0].pos, "units", message);
        return None;
    }
    Some(ResourceValue::Sizes(sizes))
}

/// The amount of a resource in one unit; K, M, G and T are converted to megabytes.
fn size(ctx: &mut Ctx<'_>, name: &str, w: &Words) -> Option<f64> {
    let def = builtin("gpu_mem").expect("it is built in").def();
    match super::brackets::amount(&def, w.text.trim()) {
        Ok(milli) => Some(milli as f64 / 1000.0),
        Err(e) => {
            ctx.problem(w.pos, "number", format!("resource {name}: {}", e.message));
            None
        }
    }
}

/// A quoted value is a text. Otherwise a value that resembles a number must be a plain decimal
/// number.
fn resource_value(ctx: &mut Ctx<'_>, name: &str, w: &Words) -> Option<ResourceValue> {
    if w.quoted {
        return Some(ResourceValue::Text(w.text.clone()));
    }
    if let Some(n) = decimal(&w.text) {
        return Some(ResourceValue::Number(n));
    }
    let lower = w.text.to_ascii_lowercase();
    let special = matches!(
        lower.trim_start_matches(['-', '+']),
        ".nan" | ".inf" | "nan" | "inf"
    );
    if special || w.text.parse::<f64>().is_ok() || lower.starts_with("0x") {
        let message = format!("resource {name}: {:?} is not a decimal number", w.text);
        ctx.problem_hint(
            w.pos,
            "number",
            message,
            "write a decimal number, or quote a text",
        );
        return None;
    }
    if boolean(&w.text).is_some() {
        let message = format!("resource {name}: {:?} is neither number nor text", w.text);
        ctx.problem_hint(
            w.pos,
            "number",
            message,
            "use tags for yes and no, or quote a text",
        );
        return None;
    }
    Some(ResourceValue::Text(w.text.clone()))
}
