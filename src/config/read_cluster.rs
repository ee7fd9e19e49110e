//! Sections `cluster` and `general`, with the default and the range of every setting.

use super::keys;
use super::policy::{FairFactors, HookRules, Packing};
use super::read::{Ctx, DAY, Fields, HOUR, MINUTE, SECOND, Words, YEAR};
use super::read_users::admin_set;
use super::sets::UserSet;
use super::types::{CgroupMode, Cluster, General, HintsMode};
use super::types::{HostModel, HostTable, Queue, UserGroup};
use super::{read_hooks, read_policy};
use crate::model::ContainerRuntime;
use crate::model::Orphans;
use crate::text::hostlist;
use crate::text::size::Unit;
use crate::text::yaml::{Node, Pos};
use std::collections::BTreeMap;

/// Minimum of `lease_timeout`: on a slow share, a leader cannot renew its lease faster.
pub(super) const LEASE_FLOOR_MS: u64 = 3 * SECOND;
/// `iso_timeout`, unless twice `lease_timeout` is more: longer than the restart of a file server
/// takes.
const ISO_TIMEOUT_MS: u64 = 10 * MINUTE;

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            name: "cluster1".into(),
            administrators: UserSet::default(),
            masters: Vec::new(),
            lease_timeout_ms: 15 * SECOND,
            poll_interval_ms: SECOND,
            allow_root_jobs: false,
            cgroup: CgroupMode::Auto,
            hints: HintsMode::Auto,
            hint_port: (0, 0),
            unit_for_limits: Unit::M.bytes(),
        }
    }
}

impl Default for General {
    fn default() -> General {
        General {
            default_queue: Vec::new(),
            default_project: "default".into(),
            default_app: String::new(),
            clean_period_ms: 4000 * SECOND,
            journal_keep_ms: 30 * DAY,
            history_keep_ms: 7 * DAY,
            history_bytes: 4 << 30,
            job_terminate_interval_ms: 10 * SECOND,
            kill_wait_ms: 30 * SECOND,
            sched_interval_ms: SECOND,
            iso_timeout_ms: ISO_TIMEOUT_MS,
            key_keep_ms: 7 * DAY,
            sub_try_interval_ms: 60 * SECOND,
            exit_rate: None,
            exit_rate_duration_ms: 300 * SECOND,
            max_array_size: 100_000,
            max_jobid: i32::MAX as u32,
            max_pend_jobs: None,
            max_user_priority: 100,
            pack_max: 100_000,
            orphans: Orphans::Hold,
            container_runtime: ContainerRuntime::None,
            user_view_alljobs: false,
            fair: FairFactors::default(),
            packing: Packing::default(),
            job_accept_interval_ms: 0,
            new_job_sched_delay_ms: 0,
            job_check_interval_ms: 2 * SECOND,
            pg_susp_it_ms: 180 * SECOND,
            job_priority_over_time: None,
            resource_reserve_per_task: false,
            default_host_spec: None,
            hooks: HookRules::default(),
        }
    }
}

pub(super) fn cluster(
    ctx: &mut Ctx<'_>,
    node: &Node,
    groups: &BTreeMap<String, UserGroup>,
) -> Cluster {
    let mut out = Cluster::default();
    let Some(f) = Fields::new(ctx, node, keys::CLUSTER, "cluster") else {
        return out;
    };
    if let Some(name) = f.scalar(ctx, "name")
        && ctx.check_name(&name)
    {
        out.name = name.text;
    }
    out.administrators = administrators(ctx, &f, groups);
    out.masters = masters(ctx, &f);
    if let Some(t) = f.time(ctx, "lease_timeout", LEASE_FLOOR_MS, 10 * MINUTE) {
        out.lease_timeout_ms = t;
    }
    if let Some(t) = f.time(ctx, "poll_interval", 10, MINUTE) {
        out.poll_interval_ms = t;
    }
    out.allow_root_jobs = f.flag(ctx, "allow_root_jobs", false);
    use CgroupMode as C;
    let cgroup = [
        ("auto", C::Auto),
        ("off", C::Off),
        ("no", C::Off),
        ("required", C::Required),
    ];
    out.cgroup = f.choice(ctx, "cgroup", &cgroup).unwrap_or(C::Auto);
    use HintsMode as H;
    let hints = [("auto", H::Auto), ("yes", H::Yes), ("no", H::No)];
    out.hints = f.choice(ctx, "hints", &hints).unwrap_or(H::Auto);
    if let Some(words) = f.scalar(ctx, "hint_port") {
        out.hint_port = hint_port(ctx, &words);
    }
    let units = [
        ("B", Unit::B),
        ("KB", Unit::K),
        ("MB", Unit::M),
        ("GB", Unit::G),
        ("TB", Unit::T),
        ("PB", Unit::P),
    ];
    if let Some(unit) = f.choice(ctx, "unit_for_limits", &units) {
        out.unit_for_limits = unit.bytes();
    }
    out
}

/// An empty list is not an error: `root` stays administrator, and a cluster must not stop because a
/// directory service temporarily does not know a name.
fn administrators(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    groups: &BTreeMap<String, UserGroup>,
) -> UserSet {
    let set = f
        .read_words(ctx, "administrators")
        .and_then(|w| admin_set(ctx, &w, groups));
    let set = set.unwrap_or_default();
    if set.is_empty() && !ctx.partial {
        let hint = "write administrators: [NAME] under cluster".to_string();
        let message = "no administrators are configured: only root can administer the cluster";
        ctx.warn(
            f.key_pos("administrators"),
            "no-administrator",
            message,
            Some(hint),
        );
    }
    set
}

fn masters(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Vec<String> {
    let Some(w) = f.read_words(ctx, "masters") else {
        return Vec::new();
    };
    match hostlist::expand(&w.text) {
        Ok(names) => {
            let mut out: Vec<String> = Vec::with_capacity(names.len());
            for name in names {
                if out.contains(&name) {
                    ctx.problem(w.pos, "duplicate", format!("host {name:?} is named twice"));
                } else if out.len() < 64 {
                    out.push(name);
                } else {
                    ctx.problem(w.pos, "range", "masters: more than 64 hosts");
                    break;
                }
            }
            out
        }
        Err(e) => {
            ctx.parse_error(&w, "name", &e);
            Vec::new()
        }
    }
}

/// Section `general` without the default queues, which `default_queue` reads.
pub(super) fn general(
    ctx: &mut Ctx<'_>,
    fields: Option<&Fields<'_>>,
    hosts: &HostTable,
    models: &BTreeMap<String, HostModel>,
) -> General {
    let mut out = General::default();
    let Some(f) = fields else {
        return out;
    };
    if let Some(w) = f.scalar(ctx, "default_project")
        && ctx.check_name(&w)
    {
        out.default_project = w.text;
    }
    let mut time = |key, low, high, slot: &mut u64| {
        if let Some(t) = f.time(ctx, key, low, high) {
            *slot = t;
        }
    };
    time("clean_period", SECOND, YEAR, &mut out.clean_period_ms);
    time("journal_keep", 0, 10 * YEAR, &mut out.journal_keep_ms);
    time("history_keep", 0, 10 * YEAR, &mut out.history_keep_ms);
    time(
        "job_terminate_interval",
        0,
        HOUR,
        &mut out.job_terminate_interval_ms,
    );
    time("kill_wait", 0, HOUR, &mut out.kill_wait_ms);
    time("sched_interval", 10, HOUR, &mut out.sched_interval_ms);
    time("iso_timeout", 0, DAY, &mut out.iso_timeout_ms);
    time("key_keep", HOUR, YEAR, &mut out.key_keep_ms);
    time(
        "sub_try_interval",
        SECOND,
        HOUR,
        &mut out.sub_try_interval_ms,
    );
    time(
        "exit_rate_duration",
        SECOND,
        DAY,
        &mut out.exit_rate_duration_ms,
    );
    let mut number = |key, low, high, slot: &mut u32| {
        if let Some(n) = f.number(ctx, key, low, high) {
            *slot = u32::try_from(n).expect("the range is within u32");
        }
    };
    number("max_array_size", 1, 10_000_000, &mut out.max_array_size);
    number("max_jobid", 1000, i32::MAX as u64, &mut out.max_jobid);
    number(
        "max_user_priority",
        1,
        1_000_000,
        &mut out.max_user_priority,
    );
    number("pack_max", 1, 1_000_000, &mut out.pack_max);
    out.max_pend_jobs = f.limit(ctx, "max_pend_jobs", 1);
    out.exit_rate = f.limit(ctx, "exit_rate", 1);
    let orphans = f.choice(ctx, "orphans", &Orphans::ALL);
    out.orphans = orphans.unwrap_or(out.orphans);
    out.history_bytes = history_size(ctx, f).unwrap_or(out.history_bytes);
    out.container_runtime = container_runtime(ctx, f);
    out.user_view_alljobs = f.flag(ctx, "user_view_alljobs", false);
    read_policy::general(ctx, f, &mut out, hosts, models);
    out.hooks = read_hooks::general(ctx, f);
    out
}

/// Maximum size of the history in bytes; a bare number is in megabytes.
fn history_size(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<u64> {
    let words = f.scalar(ctx, "history_size")?;
    super::read::size_word(ctx, &words, 0, &words.text, Unit::M)
}

/// The program that runs containers.
fn container_runtime(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> ContainerRuntime {
    let runtime = f.choice(ctx, "container_runtime", &ContainerRuntime::ALL);
    runtime.unwrap_or_default()
}

/// The queues of a job that names none; default: the first queue of the file.
pub(super) fn default_queue(
    ctx: &mut Ctx<'_>,
    fields: Option<&Fields<'_>>,
    queues: &[Queue],
) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let words = fields.and_then(|f| f.read_words(ctx, "default_queue"));
    let Some(w) = words else {
        out.extend(queues.first().map(|q| q.name.clone()));
        return out;
    };
    for (at, name) in super::read::split(&w.text) {
        let name = name.trim_matches(',');
        let pos = w.pos_at(at, ctx);
        if !queues.iter().any(|q| q.name == name) {
            ctx.undefined(pos, "queue", name, queues.iter().map(|q| q.name.as_str()));
        } else if out.iter().any(|o| o == name) {
            ctx.problem(pos, "duplicate", format!("queue {name:?} is named twice"));
        } else {
            out.push(name.to_string());
        }
    }
    if out.is_empty() {
        out.extend(queues.first().map(|q| q.name.clone()));
    }
    out
}

/// A port, a range of ports, or any.
fn hint_port(ctx: &mut Ctx<'_>, words: &Words) -> (u16, u16) {
    if words.text.eq_ignore_ascii_case("any") {
        return (0, 0);
    }
    let (first, last) = words
        .text
        .split_once('-')
        .unwrap_or((&words.text, &words.text));
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => (first, last),
        _ => {
            let message = format!("hint_port: {:?} is not a range of UDP ports", words.text);
            ctx.problem_hint(words.pos, "range", message, "write 47100 or 47100-47199");
            (0, 0)
        }
    }
}

/// Checks combinations of settings from several sections.
pub(super) fn check_together(ctx: &mut Ctx<'_>, cluster: &Cluster, general: &General, pos: Pos) {
    let (iso, lease) = (general.iso_timeout_ms, cluster.lease_timeout_ms);
    if iso > 0 && iso < 2 * lease {
        let message = "iso_timeout is shorter than two lease_timeouts: a change of leader could \
                       kill healthy jobs";
        ctx.problem_hint(
            pos,
            "conflict",
            message,
            format!("write {}s or more", 2 * lease / 1000),
        );
    }
    if cluster.poll_interval_ms * 3 > lease {
        let message = "poll_interval is more than a third of lease_timeout";
        ctx.problem_hint(
            pos,
            "conflict",
            message,
            "lower poll_interval or raise lease_timeout",
        );
    }
}
