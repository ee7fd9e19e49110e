//! The settings that an application gives to its jobs: which application a job has, who may use it,
//! and the values that the job itself leaves open. Owns the rule that a job's own options take
//! precedence, then the application's, then the queue's; never reads the queue.

use super::{Refusal, Requester};
use crate::config::{AppLimits, AppProfile, Config};
use crate::model::{Limits, Spec};
use crate::text::error::did_you_mean;
use crate::text::names;

/// Maximum length of an application name from a template, in bytes.
const NAME_MAX: usize = 240;

/// The profile of a job's application, if it has one. `label`: the name comes from a template or
/// was checked before, so a profile with this name need not exist.
///
/// # Errors
/// There is no such profile, or it is not for this user.
pub(super) fn profile<'a>(
    spec: &Spec,
    label: bool,
    requester: &Requester,
    config: &'a Config,
) -> Result<Option<&'a AppProfile>, Refusal> {
    if spec.app.is_empty() {
        return Ok(None);
    }
    let Some(app) = config.app(&spec.app) else {
        names::check_name(&spec.app).map_err(|e| Refusal::usage(format!("-app: {e}")))?;
        if label && spec.app.len() <= NAME_MAX {
            return Ok(None);
        }
        let known = config.apps.iter().map(|app| app.name.as_str());
        return Err(Refusal::not_found(format!(
            "-app: there is no application {:?}{}",
            spec.app,
            did_you_mean(&spec.app, known)
        )));
    };
    if !config.user_in(&requester.user, &requester.groups, &app.users) {
        return Err(Refusal::permission(format!(
            "-app: user {} may not use application {}",
            requester.user, app.name
        )));
    }
    Ok(Some(app))
}

/// Fills in what the job does not specify itself and has an option for. Limits and slots are
/// resolved together with those of the queue; requirement and starter stay in the profile and are
/// read when they are needed.
pub(super) fn fill(spec: &mut Spec, app: &AppProfile) {
    let set = |text: &mut String, of_app: &str| {
        if text.is_empty() {
            of_app.clone_into(text);
        }
    };
    set(&mut spec.hooks.pre, &app.pre_exec);
    set(&mut spec.hooks.post, &app.post_exec);
    spec.warn = spec.warn.or(app.warn);
    // The command that waits for an interactive job exists for one run only.
    if spec.session.is_none() {
        if let Some(exits) = &app.requeue {
            set(&mut spec.again.exits, &exits.to_string());
        }
        spec.again.retries = spec.again.retries.or(app.retries);
    }
    let can_save = spec.container.is_none() && spec.launch.is_none() && spec.session.is_none();
    if spec.chkpnt.is_none() && can_save {
        spec.chkpnt = app.chkpnt.clone().map(Box::new);
    }
}

/// Removes from a specification what its application filled in, before it gets another application.
/// A value that the job specified itself is also removed if it is the same.
pub(super) fn remove_filled(spec: &mut Spec, app: &AppProfile) {
    let clear = |text: &mut String, of_app: &str| {
        if text == of_app {
            text.clear();
        }
    };
    clear(&mut spec.hooks.pre, &app.pre_exec);
    clear(&mut spec.hooks.post, &app.post_exec);
    if let Some(exits) = &app.requeue {
        clear(&mut spec.again.exits, &exits.to_string());
    }
    spec.again.retries = spec.again.retries.filter(|n| Some(*n) != app.retries);
    spec.warn = spec.warn.filter(|warn| Some(*warn) != app.warn);
    spec.rerunnable &= app.rerunnable != Some(true);
    if spec.chkpnt.as_deref() == app.chkpnt.as_ref() {
        spec.chkpnt = None;
    }
    forget_limits(&mut spec.limits, &app.limits);
}

/// Removes limits that equal those that these pairs give to a job without limits.
pub(super) fn forget_limits(limits: &mut Limits, of: &AppLimits) {
    let Limits {
        run_s,
        cpu_s,
        mem_b,
        swap_b,
        procs,
        file_b,
        data_b: _,
        stack_b,
        core_b,
        oom_kill: _,
    } = limits;
    for (own, pair, unit) in [
        (run_s, &of.run_limit_ms, 1000),
        (cpu_s, &of.cpu_limit_ms, 1000),
        (mem_b, &of.mem_limit, 1),
        (swap_b, &of.swap_limit, 1),
        (procs, &of.process_limit, 1),
        (file_b, &of.file_limit, 1),
        (stack_b, &of.stack_limit, 1),
        (core_b, &of.core_limit, 1),
    ] {
        let given = pair.default.or(pair.max).map(|n| n.div_ceil(unit));
        if given.is_some() && *own == given {
            *own = None;
        }
    }
}
