//! Changing the specification of a job: which options can be changed, and what each of them sets.
//!
//! Owns the option names of `cmod`. The changed specification is checked like a submission.

use super::submit::{NameBudget, apply_queue, check_spec, choose_queue};
use super::{Refusal, Requester, apps};
use crate::config::{Config, require};
use crate::model::{Spec, Stamp};
use crate::record::request::Changes;
use crate::state::State;

/// A changed specification for `cmod` and `cswitch`: the old one with the named options replaced or
/// reset, checked like a new submission (except for pending limits).
///
/// # Errors
/// As [`admit`].
pub fn modify(
    old: &Spec,
    changes: &Changes,
    owner: &Requester,
    config: &Config,
    state: &State,
    now: Stamp,
) -> Result<Spec, Refusal> {
    let mut spec = changed(
        old,
        &changes.job.spec,
        (&changes.set, &changes.reset),
        config,
    )?;
    // The jobs of an unchanged dependency may have been forgotten by now.
    let names = |list: &[String], option: &str| list.iter().any(|o| o == option);
    let depend = match names(&changes.set, "w") {
        true => String::new(),
        false => std::mem::take(&mut spec.depend),
    };
    let room = &mut NameBudget::default();
    check_spec(&mut spec, owner, config, (state, room), now)?;
    if !depend.is_empty() && !names(&changes.reset, "w") {
        spec.depend = depend;
    }
    // The profile of a job's application may have been removed by now.
    if changes.reset.iter().any(|o| o == "app") {
        spec.app.clone_from(&config.general.default_app);
    }
    let app = apps::profile(&spec, old.app == spec.app, owner, config)?;
    let (queue, _) = choose_queue((&spec, app), owner, config, state)?;
    apply_queue((&mut spec, app), queue, config)?;
    Ok(spec)
}

/// A specification with the options `set` taken from another one, and those of `reset` reset. Only
/// checks whether they can be changed.
///
/// # Errors
/// Returns an option that cannot be changed.
pub fn changed(
    old: &Spec,
    from: &Spec,
    (set, reset): (&[String], &[String]),
    config: &Config,
) -> Result<Spec, Refusal> {
    let mut spec = old.clone();
    let blank = Spec::default();
    let named = |option: &str| set.iter().chain(reset).any(|o| o == option);
    if named("R")
        && !named("n")
        && require::slots_of(&old.res_req, config).is_ok_and(|slots| slots.is_some())
    {
        // The slots came from the sections that are removed.
        (spec.min, spec.max) = (0, 0);
    }
    if named("app")
        && let Some(app) = config.app(&old.app)
    {
        apps::remove_filled(&mut spec, app);
    }
    if (named("app") || named("q"))
        && let Some(queue) = config.queue(&old.queue)
    {
        // The limits of another queue apply there, and an application's defaults take precedence
        // over both.
        apps::forget_limits(&mut spec.limits, &queue.job_limits());
    }
    for option in set {
        replace(&mut spec, from, option)?;
    }
    for option in reset {
        replace(&mut spec, &blank, option)?;
    }
    Ok(spec)
}

/// Copies what `option` sets from one specification to another.
fn replace(to: &mut Spec, from: &Spec, option: &str) -> Result<(), Refusal> {
    let from = from.clone();
    // Whether the new file or directory can be reached was not looked up.
    to.unseen &= !matches!(option, "cwd" | "i" | "o" | "oo" | "e" | "eo");
    match option {
        "q" => to.queue = from.queue,
        "n" => (to.min, to.max) = (from.min, from.max),
        "R" => to.res_req = from.res_req,
        "m" => to.hosts = from.hosts,
        "x" => to.exclusive = from.exclusive,
        "r" => to.rerunnable = from.rerunnable,
        // The one given last takes precedence.
        "ti" => {
            to.end_orphan = from.end_orphan;
            to.orphan = to.orphan.filter(|_| !from.end_orphan);
        }
        "orphan" => {
            to.orphan = from.orphan;
            to.end_orphan &= from.orphan.is_none();
        }
        "P" => to.project = from.project,
        "app" => to.app = from.app,
        "G" => to.user_group = from.user_group,
        "g" => to.job_group = from.job_group,
        "rnc" => to.notify = from.notify,
        "B" => to.mail.start = from.mail.start,
        "N" => (to.mail.done, to.mail.exit) = (from.mail.done, from.mail.exit),
        "Ne" => (to.mail.done, to.mail.exit) = (false, from.mail.exit),
        "notify" => {
            let to_whom = std::mem::take(&mut to.mail.to);
            to.mail = from.mail;
            to.mail.to = to_whom;
        }
        "u" => to.mail.to = from.mail.to,
        "E" => to.hooks.pre = from.hooks.pre,
        "signal" | "wa" | "wt" => to.warn = from.warn,
        "Q" => to.again.exits = from.again.exits,
        "retries" => to.again.retries = from.again.retries,
        "Ep" => to.hooks.post = from.hooks.post,
        "f" => to.files = from.files,
        "di" | "do" => to.container = from.container,
        "k" if to.chkpnt.as_ref().is_some_and(|old| !old.from.is_empty()) => {
            let text = "-k: the job continues from a checkpoint: its directory cannot be changed";
            return Err(Refusal::usage(text));
        }
        "k" => to.chkpnt = from.chkpnt,
        "sp" => to.priority = from.priority,
        "W" => (to.limits.run_s, to.run_on) = (from.limits.run_s, from.run_on),
        "c" => (to.limits.cpu_s, to.cpu_on) = (from.limits.cpu_s, from.cpu_on),
        "M" => to.limits.mem_b = from.limits.mem_b,
        "v" => to.limits.swap_b = from.limits.swap_b,
        "p" => to.limits.procs = from.limits.procs,
        "F" => to.limits.file_b = from.limits.file_b,
        "D" => to.limits.data_b = from.limits.data_b,
        "S" => to.limits.stack_b = from.limits.stack_b,
        "C" => to.limits.core_b = from.limits.core_b,
        "oom-kill" => to.limits.oom_kill = from.limits.oom_kill,
        "b" => to.begin = from.begin,
        "t" => to.deadline = from.deadline,
        "start-timeout" => to.start_by = from.start_by,
        "w" => to.depend = from.depend,
        "cwd" => (to.cwd, to.cwd_create) = (from.cwd, from.cwd_create),
        "i" => to.stdin = from.stdin,
        "o" | "oo" => (to.stdout, to.stdout_over) = (from.stdout, from.stdout_over),
        "e" | "eo" => (to.stderr, to.stderr_over) = (from.stderr, from.stderr_over),
        "Jd" => to.description = from.description,
        "L" => to.shell = from.shell,
        "launch" => to.launch = from.launch,
        "no-report" => to.no_report = from.no_report,
        _ => return Err(Refusal::usage(format!("-{option} cannot be changed"))),
    }
    Ok(())
}
