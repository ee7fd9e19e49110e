//! Converts the bytes of cb.yaml to a configuration: reads the sections in the order in which they
//! refer to each other, and collects all reported problems.

use super::keys;
use super::problem::Problem;
use super::read::{Ctx, Fields, OsNames};
use super::read_users;
use super::types::{Cluster, Config, HostTable};
use super::{
    read_apps, read_charge, read_cluster, read_hosts, read_limits, read_notices, read_portal,
    read_queues, read_resources, read_shared,
};
use crate::text::yaml::{self, Document, Pos, Value};

/// Largest cb.yaml, in bytes.
pub const MAX_BYTES: usize = 4 << 20;

/// Keys whose values may be bracket groups without quotes.
pub(super) const LOOSE_KEYS: &[&str] = &["slots", "jobs", "resources", "fairshare"];

/// A valid configuration, and warnings for its administrator.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Vec<Problem>,
}

/// Reads a cb.yaml.
///
/// `file` is the name used in messages.
///
/// # Errors
/// All problems found, in the order of the file; never empty.
pub fn load(bytes: &[u8], file: &str, os: &OsNames<'_>) -> Result<Loaded, Vec<Problem>> {
    let doc = yaml::parse(bytes, &yaml::Limits::bytes(MAX_BYTES), LOOSE_KEYS);
    let text = String::from_utf8_lossy(if bytes.len() > MAX_BYTES { &[] } else { bytes });
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut ctx = Ctx {
        file,
        lines: text.split('\n').collect(),
        problems: Vec::new(),
        warnings: Vec::new(),
        left_out: false,
        os,
        partial: doc.partial,
    };
    for d in &doc.defects {
        match &d.hint {
            Some(hint) => ctx.problem_hint(d.pos, d.code, d.message.as_str(), hint.as_str()),
            None => ctx.problem(d.pos, d.code, d.message.as_str()),
        }
    }
    let config = sections(&mut ctx, &doc);
    let more = ctx.left_out.then(|| ctx.more_problems());
    let Ctx {
        mut problems,
        mut warnings,
        ..
    } = ctx;
    problems.sort_by_key(|p| (p.line, p.col));
    problems.extend(more);
    warnings.sort_by_key(|p| (p.line, p.col));
    match config {
        Some(config) if problems.is_empty() => Ok(Loaded { config, warnings }),
        _ => Err(problems),
    }
}

/// The place of the list of masters.
fn masters_pos(f: &Fields<'_>) -> Pos {
    let Some(Value::Map(entries)) = f.node("cluster").map(|n| &n.value) else {
        return f.key_pos("cluster");
    };
    let named = |e: &&yaml::Entry| matches!(e.key.as_str(), "masters" | "lsf_master_list");
    let entry = entries.iter().find(named);
    entry.map_or(f.key_pos("cluster"), |e| e.value.pos)
}

/// `None`: no sections could be read, and a problem reports why.
fn sections(ctx: &mut Ctx<'_>, doc: &Document) -> Option<Config> {
    let root = doc.root.as_ref()?;
    if root.value == Value::Null && !ctx.problems.is_empty() {
        return None;
    }
    let f = Fields::new(ctx, root, keys::SECTIONS, "cb.yaml")?;
    required(ctx, &f);
    let user_groups = read_users::user_groups(ctx, f.node("usergroups"));
    let users = read_users::users(ctx, f.node("users"), &user_groups);
    let cluster = match f.node("cluster") {
        Some(n) if !is_empty(&n.value) => read_cluster::cluster(ctx, n, &user_groups),
        _ => Cluster::default(),
    };
    let host_types = read_hosts::host_types(ctx, f.node("hosttypes"));
    let host_models = read_hosts::host_models(ctx, f.node("hostmodels"));
    let declared = read_resources::declarations(ctx, f.node("resources"));
    let mut hosts = read_hosts::hosts(ctx, f.node("hosts"), &host_types, &host_models, declared);
    let host_groups = read_hosts::host_groups(ctx, f.node("hostgroups"), &hosts);
    read_shared::shared(ctx, f.node("resources"), &mut hosts, &host_groups);
    read_hosts::check_masters(ctx, &cluster.masters, masters_pos(&f), &hosts);
    no_hosts(ctx, &f, &hosts);
    let fields = f
        .node("general")
        .and_then(|n| Fields::new(ctx, n, keys::GENERAL, "general"));
    let mut general = read_cluster::general(ctx, fields.as_ref(), &hosts, &host_models);
    let defined = super::read::Defined {
        cluster: &cluster,
        general: &general,
        hosts: &hosts,
        host_groups: &host_groups,
        user_groups: &user_groups,
    };
    let queues = f
        .node("queues")
        .map_or_else(Vec::new, |n| read_queues::queues(ctx, n, &defined));
    let apps = read_apps::apps(ctx, f.node("apps"), &defined);
    let limits = read_limits::limits(ctx, f.node("limits"), (&queues, &apps), &defined);
    let charge = f
        .node("charge")
        .and_then(|n| read_charge::charge(ctx, n, &queues, &defined));
    general.default_app = read_apps::default_app(ctx, fields.as_ref(), &apps);
    let notices = read_notices::notices(ctx, &f, &queues);
    let portal = f
        .node("portal")
        .and_then(|n| read_portal::portal(ctx, n))
        .unwrap_or_default();
    general.default_queue = read_cluster::default_queue(ctx, fields.as_ref(), &queues);
    if !fields.as_ref().is_some_and(|f| f.has("iso_timeout")) {
        general.iso_timeout_ms = general.iso_timeout_ms.max(2 * cluster.lease_timeout_ms);
    }
    read_cluster::check_together(ctx, &cluster, &general, f.key_pos("cluster"));
    Some(Config {
        cluster,
        general,
        hosts,
        host_types,
        host_models,
        host_groups,
        users,
        user_groups,
        queues,
        apps,
        limits,
        charge,
        notices,
        portal,
    })
}

/// A cluster without hosts is not an error: hosts may be added later.
fn no_hosts(ctx: &mut Ctx<'_>, f: &Fields<'_>, hosts: &HostTable) {
    if hosts.entries.is_empty() && !hosts.open && !ctx.partial {
        let pos = if f.has("hosts") {
            f.key_pos("hosts")
        } else {
            Pos::new(1, 1)
        };
        let hint = "list hosts, or write \"- {name: default, open: yes}\" to let any host join";
        let message = "the cluster has no hosts: no job can start";
        ctx.warn(pos, "no-hosts", message, Some(hint.into()));
    }
}

/// A cluster and a queue are required.
fn required(ctx: &mut Ctx<'_>, f: &Fields<'_>) {
    for section in ["cluster", "queues"] {
        let empty = f.node(section).is_none_or(|n| is_empty(&n.value));
        if empty && !ctx.partial {
            let pos = if f.has(section) {
                f.key_pos(section)
            } else {
                Pos::new(1, 1)
            };
            let (message, hint) = match section {
                "queues" => (
                    "no queue is defined",
                    "write queues: with at least \"- name: NAME\"",
                ),
                _ => (
                    "section cluster is missing",
                    "write cluster: with administrators: [NAME]",
                ),
            };
            ctx.problem_hint(pos, "missing-section", message, hint);
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
        Value::Text { .. } | Value::Refused => false,
    }
}
