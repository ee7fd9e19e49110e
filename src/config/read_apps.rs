//! Section `apps`: common settings of an application's jobs. Owns only the values of the keys;
//! which of them a job gets is decided when it is admitted.

use super::UserSet;
use super::keys;
use super::read::{Ctx, Defined, Fields, did_you_mean};
use super::read_env;
use super::read_hooks;
use super::read_queues::{
    Kind, description, job_slots, limit_pair, requeue_exits, res_req, success_exits, unit,
};
use super::read_users::{group_name, user_set};
use super::types::{AppLimits, AppProfile};
use crate::model::MAX_RETRIES;
use crate::text::yaml::Node;
use std::collections::{BTreeMap, HashMap};

/// Names with another meaning where applications are named.
const RESERVED: &[&str] = &["all", "none"];
/// Maximum length of a name, in characters.
pub(super) const MAX_NAME: usize = 60;
const MAX_APPS: usize = 2_000;
/// Maximum number of variables of `env`, and maximum size of their names and values, bytes.
const MAX_VARIABLES: usize = 1_000;
const MAX_ENV: usize = 16_384;
/// Prefixes of variables that every job gets from its host or its leader.
const OWN_PREFIXES: &[&str] = &["CB_", "LSB_", "LSF_", "LS_", "SLURM_"];
const OWN_NAMES: &[&str] = &["HOME", "USER", "LOGNAME", "LSFUSER", "PWD"];

pub(super) fn apps(
    ctx: &mut Ctx<'_>,
    node: Option<&Node>,
    defined: &Defined<'_>,
) -> Vec<AppProfile> {
    let mut out: Vec<AppProfile> = Vec::new();
    let Some(node) = node else { return out };
    let mut places = HashMap::new();
    for item in ctx.list(node, "apps") {
        let what = super::read::text_of(item, "name").map_or("an application".to_owned(), |name| {
            format!("application {name:?}")
        });
        let Some(f) = Fields::new(ctx, item, keys::APP, &what) else {
            continue;
        };
        if out.len() == MAX_APPS {
            let message = format!("more than {MAX_APPS} applications");
            ctx.problem(f.pos, "range", message);
            return out;
        }
        let name = group_name(ctx, &f, "application", RESERVED, &mut places);
        let app = app(ctx, &f, name.clone().unwrap_or_default(), defined);
        if name.is_some() {
            out.push(app);
        }
    }
    out
}

fn app(ctx: &mut Ctx<'_>, f: &Fields<'_>, name: String, defined: &Defined<'_>) -> AppProfile {
    if name.chars().count() > MAX_NAME {
        let message = format!("the name of an application has at most {MAX_NAME} characters");
        ctx.problem(f.key_pos("name"), "name", message);
    }
    let out = AppProfile {
        name,
        description: description(ctx, f),
        users: f
            .read_words(ctx, "users")
            .and_then(|w| user_set(ctx, &w, defined.user_groups))
            .unwrap_or_else(UserSet::all),
        job_slots: f.has("job_slots").then(|| job_slots(ctx, f)),
        limits: limits(ctx, f, defined),
        res_req: res_req(ctx, f, defined.hosts, "an application"),
        rerunnable: f
            .has("rerunnable")
            .then(|| f.flag(ctx, "rerunnable", false)),
        requeue: f
            .read_words(ctx, "requeue_exit_values")
            .map(|w| requeue_exits(ctx, &w)),
        max_requeue: f.has("max_requeue").then(|| {
            f.limit(ctx, "max_requeue", 0)
                .unwrap_or(AppProfile::UNLIMITED)
        }),
        success: success_exits(ctx, f),
        retries: f
            .number(ctx, "retries", 0, u64::from(MAX_RETRIES))
            .map(|n| n as u32),
        warn: read_hooks::warning(ctx, f),
        pre_exec: read_hooks::command_line(ctx, f, "pre_exec"),
        post_exec: read_hooks::command_line(ctx, f, "post_exec"),
        job_starter: read_hooks::command_line(ctx, f, "job_starter"),
        controls: read_hooks::controls(ctx, f),
        env: env(ctx, f),
        chkpnt: read_hooks::checkpoint(ctx, f),
        preemptable: f.flag(ctx, "preemptable", true),
    };
    if out.users.is_empty() && f.has("users") {
        let message = format!(
            "application {:?} accepts no user: no job can have it",
            out.name
        );
        ctx.warn(f.key_pos("users"), "no-start", message, None);
    }
    out
}

fn env(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> BTreeMap<String, String> {
    let taken = |name: &str| {
        let own = OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        (own || OWN_NAMES.contains(&name)).then_some(": Corral sets it itself")
    };
    let all = read_env::env(ctx, f, MAX_VARIABLES, taken);
    let out: BTreeMap<String, String> = all.into_iter().map(|(name, w)| (name, w.text)).collect();
    let bytes: usize = out
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if bytes > MAX_ENV {
        let message = format!("env has {bytes} bytes of names and values, at most {MAX_ENV}");
        ctx.problem(f.key_pos("env"), "range", message);
    }
    out
}

fn limits(ctx: &mut Ctx<'_>, f: &Fields<'_>, defined: &Defined<'_>) -> AppLimits {
    let unit = unit(defined.cluster);
    let mut pair = |key: &str, kind: Kind| limit_pair(ctx, f, key, kind);
    AppLimits {
        run_limit_ms: pair("run_limit", Kind::Time),
        cpu_limit_ms: pair("cpu_limit", Kind::Time),
        mem_limit: pair("mem_limit", Kind::Size(unit)),
        swap_limit: pair("swap_limit", Kind::Size(unit)),
        file_limit: pair("file_limit", Kind::Size(unit)),
        stack_limit: pair("stack_limit", Kind::Size(unit)),
        core_limit: pair("core_limit", Kind::Size(unit)),
        process_limit: pair("process_limit", Kind::Count),
    }
}

/// `default_app` of section `general`; empty = no application for jobs that name none.
pub(super) fn default_app(
    ctx: &mut Ctx<'_>,
    fields: Option<&Fields<'_>>,
    apps: &[AppProfile],
) -> String {
    let Some(w) = fields.and_then(|f| f.scalar(ctx, "default_app")) else {
        return String::new();
    };
    if w.text == "none" {
        return String::new();
    }
    if !apps.iter().any(|app| app.name == w.text) && !ctx.partial {
        let message = format!("application {:?} is not defined", w.text);
        let near = did_you_mean(&w.text, apps.iter().map(|app| app.name.as_str()));
        let hint = near.unwrap_or_else(|| "write it into section apps".to_owned());
        ctx.problem_hint(w.pos, "undefined", message, hint);
    }
    w.text
}
