//! Admitting a submission: defaults, access, limits, canonical forms. The result is the job's
//! specification; anything wrong is a refusal that names the option.

use super::bounds::{bound, check_slots, limits_in, slots_in};
use super::{Refusal, Requester, apps, execution_options, pending_limit};
use crate::config::require::{self, Request};
use crate::config::{AppProfile, Config, HostEntry, Interactive, Queue, WARN_SIGNALS};
use crate::model::{Limits, MAX_RETRIES, Spec, Stamp, Submission, WARN_BEFORE_MAX_S};
use crate::state::State;
use crate::text::depend::{Elements, Expr, Test};
use crate::text::error::did_you_mean;
use crate::text::exits::RequeueExits;
use crate::text::glob::Glob;
use crate::text::{IndexSet, names};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::convert::Infallible;

/// Maximum length of a command line, in bytes.
const COMMAND_MAX: usize = 64 << 10;
/// Maximum length of a path, in bytes.
const PATH_MAX: usize = 4095;
/// Maximum length of a description, in bytes (as in LSF).
const DESCRIPTION_MAX: usize = 4095;
/// Maximum length of `-L` and of a host name, in bytes.
const SHELL_MAX: usize = 4095;
const HOST_MAX: usize = 255;
/// Maximum length of `-q`, `-m`, `-R`, `-w`, in bytes: far above any use, far below the longest
/// record.
const TEXT_MAX: usize = 1 << 20;
/// Maximum length of `--key`, in bytes.
const KEY_MAX: usize = 256;
/// Maximum length of a dependency once its names are replaced by ids (it is one line of the
/// journal), and the number of bytes that each id in it counts as.
const DEPEND_MAX: usize = 2 << 20;
const ID_BYTES: usize = 40;
/// Maximum number of jobs with which one name is compared.
const LOOKS_MAX: u64 = 200_000;
/// Maximum number of jobs with which all names of one request are compared, and maximum number of
/// jobs that they may stand for.
const REQUEST_LOOKS_MAX: u64 = 20_000_000;
const REQUEST_IDS_MAX: u64 = 1_000_000;
/// Maximum number of slots of one job.
const SLOTS_MAX: u32 = 1_000_000;

/// What the names in the dependencies of one request may still use.
#[derive(Clone, Debug)]
pub struct NameBudget {
    /// Number of jobs with which they may be compared.
    pub lookups: u64,
    /// Number of jobs for which they may stand.
    pub ids: u64,
    /// The jobs of the same pack.
    pub pack: PackNames,
}

/// The jobs of one pack: in its dependencies, a name means these and not older jobs.
#[derive(Clone, Debug, Default)]
pub struct PackNames {
    /// Names of the jobs before the one that is admitted, if they have no ids yet: they stay names
    /// in its dependency.
    pub before: Vec<String>,
    /// Names of the jobs after it, which it cannot wait for.
    pub after: VecDeque<String>,
    /// The jobs before it that have ids.
    pub ids: FxHashSet<u32>,
}

impl PackNames {
    /// The number of jobs without ids before this one that the name means; 0 = it means others.
    ///
    /// # Errors
    /// It means a later job.
    fn count_before(&self, name: &str) -> Result<usize, Refusal> {
        let wanted = Glob::new(name);
        if self.after.iter().any(|after| wanted.matches(after)) {
            return Err(Refusal::usage(format!(
                "-w: {name:?} is a later job of this pack: a job can only wait for jobs that come \
                 before it"
            )));
        }
        let before = self.before.iter();
        Ok(before.filter(|before| wanted.matches(before)).count())
    }
}

impl Default for NameBudget {
    fn default() -> NameBudget {
        let (looks, ids) = (REQUEST_LOOKS_MAX, REQUEST_IDS_MAX);
        NameBudget {
            lookups: looks,
            ids,
            pack: PackNames::default(),
        }
    }
}

/// A checked submission.
#[derive(Clone, Debug)]
pub struct Admitted {
    pub spec: Spec,
    pub name: String,
    pub command: String,
    pub array: Option<IndexSet>,
    pub array_limit: u32,
    pub hold: bool,
    pub key: String,
    /// The queue came from the default list.
    pub default_queue: bool,
}

/// Checks one submission against configuration and state.
///
/// # Errors
/// A [`Refusal`] that states which option is wrong and why.
pub fn admit(
    job: Submission,
    requester: &Requester,
    config: &Config,
    state: &State,
    now: Stamp,
    names: &mut NameBudget,
) -> Result<Admitted, Refusal> {
    if requester.uid == 0 && !config.cluster.allow_root_jobs {
        return Err(Refusal::permission(
            "root may not submit jobs here (allow_root_jobs: no)",
        ));
    }
    let array = check_texts(&job, config)?;
    let count = array.as_ref().map_or(1, IndexSet::len);
    pending_limit::check(count, requester, config, state)?;
    let mut spec = job.spec;
    if spec.session.is_some() && (array.is_some() || job.hold) {
        let text = "-I cannot be given together with an index list in -J, nor with -H";
        return Err(Refusal::usage(text));
    }
    if !spec.params.is_empty() && array.is_none() {
        return Err(Refusal::usage("--params is for arrays"));
    }
    spec.uid = requester.uid;
    spec.user = requester.user.clone();
    check_spec(&mut spec, requester, config, (state, names), now)?;
    if spec.app.is_empty() {
        spec.app.clone_from(&config.general.default_app);
    }
    let app = apps::profile(&spec, job.app_label, requester, config)?;
    let (queue, default_queue) = choose_queue((&spec, app), requester, config, state)?;
    apply_queue((&mut spec, app), queue, config)?;
    Ok(Admitted {
        spec,
        name: if job.name == job.command {
            String::new()
        } else {
            job.name
        },
        command: job.command,
        array,
        array_limit: job.array_limit,
        hold: job.hold,
        key: job.key,
        default_queue,
    })
}

fn check_texts(job: &Submission, config: &Config) -> Result<Option<IndexSet>, Refusal> {
    check_rename(Some(&job.name), Some(&job.command))?;
    if job.key.len() > KEY_MAX || job.key.chars().any(char::is_control) {
        return Err(Refusal::usage(format!(
            "--key: at most {KEY_MAX} printable bytes"
        )));
    }
    if job.array.is_empty() {
        return Ok(None);
    }
    let set = IndexSet::parse(&job.array, 1, u32::MAX >> 1)
        .map_err(|e| Refusal::usage(format!("-J: {e}")))?;
    let most = u64::from(config.general.max_array_size);
    if set.is_empty() || set.len() > most {
        return Err(Refusal::refused(format!(
            "-J: an array has 1 to {most} elements here (max_array_size), not {}",
            set.len()
        )));
    }
    Ok(Some(set))
}

/// Checks a job's name (empty: it has none) and command.
///
/// # Errors
/// A [`Refusal`] that states which one is wrong and why.
pub fn check_rename(name: Option<&str>, command: Option<&str>) -> Result<(), Refusal> {
    if let Some(command) = command {
        if command.trim().is_empty() {
            return Err(Refusal::usage("no command given"));
        }
        if command.len() > COMMAND_MAX || command.contains('\0') {
            return Err(Refusal::usage(format!(
                "the command must have at most {COMMAND_MAX} bytes and no NUL: put it into a script"
            )));
        }
    }
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        names::check_job_name(name).map_err(|e| Refusal::usage(format!("-J: {e}")))?;
    }
    Ok(())
}

/// Whether an option determines what runs, reads or writes with the identity of the job's owner.
pub fn runs_as_owner(option: &str) -> bool {
    const PROGRAM: [&str; 15] = [
        "Z", "L", "rnc", "E", "Ep", "f", "di", "do", "k", "cwd", "i", "o", "oo", "e", "eo",
    ];
    PROGRAM.contains(&option)
}

fn check_priority(priority: u32, requester: &Requester, config: &Config) -> Result<(), Refusal> {
    let most = config.general.max_user_priority;
    if priority > most {
        return Err(Refusal::refused(format!(
            "-sp: {priority} is above the largest user priority {most}"
        )));
    }
    let cap = config
        .user_limits(&requester.user, &requester.groups)
        .priority_cap;
    match cap.filter(|cap| priority > *cap) {
        None => Ok(()),
        Some(cap) => Err(Refusal::refused(format!(
            "-sp: {priority} is above user {}'s largest priority {cap} (priority_cap)",
            requester.user
        ))),
    }
}

/// Checks everything in a specification that does not depend on the queue.
pub(super) fn check_spec(
    spec: &mut Spec,
    requester: &Requester,
    config: &Config,
    (state, names): (&State, &mut NameBudget),
    now: Stamp,
) -> Result<(), Refusal> {
    if !spec.cwd.starts_with('/') {
        return Err(Refusal::usage(format!(
            "-cwd: {:?} is not an absolute path",
            spec.cwd
        )));
    }
    let paths = [
        ("-cwd", &spec.cwd),
        ("-i", &spec.stdin),
        ("-o", &spec.stdout),
        ("-e", &spec.stderr),
    ];
    for (option, path) in paths {
        if path.len() > PATH_MAX || path.contains('\0') {
            return Err(Refusal::usage(format!(
                "{option}: a path has at most {PATH_MAX} bytes"
            )));
        }
    }
    check_plain(spec)?;
    execution_options::check(spec, config)?;
    if spec.description.len() > DESCRIPTION_MAX {
        return Err(Refusal::usage(format!(
            "-Jd: at most {DESCRIPTION_MAX} bytes"
        )));
    }
    if spec.max > SLOTS_MAX || (spec.max > 0 && spec.min > spec.max) {
        return Err(Refusal::usage(format!(
            "-n: {},{} is not a range of 1 to {SLOTS_MAX} slots",
            spec.min, spec.max
        )));
    }
    check_priority(spec.priority, requester, config)?;
    if spec.project.is_empty() {
        spec.project = config.general.default_project.clone();
    }
    names::check_name(&spec.project).map_err(|e| Refusal::usage(format!("-P: {e}")))?;
    check_group(spec, requester, config)?;
    if spec.deadline.is_some_and(|t| t <= now) {
        return Err(Refusal::usage(
            "-t: the termination time has passed already",
        ));
    }
    if !spec.hosts.is_empty() {
        if let Some(why) = require::unknown_host(&spec.hosts, config) {
            return Err(Refusal::not_found(format!("-m: {why}")));
        }
        let prefs = require::requested_hosts(&spec.hosts, config);
        prefs.map_err(|e| Refusal::usage(format!("-m: {e}")))?;
    }
    check_limits(&spec.limits)?;
    for (option, on) in [("-W", &spec.run_on), ("-c", &spec.cpu_on)] {
        if !on.is_empty() && config.cpu_factor(on).is_none() {
            return Err(Refusal::not_found(format!(
                "{option}: no host or host model is named {on:?}"
            )));
        }
    }
    spec.res_req = require::check_request(&spec.res_req, config).map_err(Refusal::usage)?;
    take_slots_of_sections(spec, config)?;
    if !spec.depend.is_empty() {
        spec.depend = resolve_depend(&spec.depend, requester, state, names)?;
    }
    Ok(())
}

/// Checks texts that no parser reads: our clients send short ones; a forged request may contain
/// anything.
fn check_plain(spec: &mut Spec) -> Result<(), Refusal> {
    let bad = |text: &str, most: usize| text.len() > most || text.contains(char::is_control);
    if bad(&spec.shell, SHELL_MAX) {
        return Err(Refusal::usage(format!(
            "-L: a shell has at most {SHELL_MAX} printable bytes"
        )));
    }
    if bad(&spec.sub_host, HOST_MAX) {
        return Err(Refusal::usage(
            "the name of the submitting host is not valid",
        ));
    }
    if spec.umask > 0o777 {
        return Err(Refusal::usage(format!(
            "umask {:o} is not valid",
            spec.umask
        )));
    }
    let hooks = &spec.hooks;
    for (option, command) in [
        ("-rnc", &spec.notify),
        ("-E", &hooks.pre),
        ("-Ep", &hooks.post),
    ] {
        if command.len() > COMMAND_MAX || command.contains('\0') {
            return Err(Refusal::usage(format!(
                "{option}: the command must have at most {COMMAND_MAX} bytes and no NUL"
            )));
        }
    }
    let again = &mut spec.again;
    if again.exits.len() > COMMAND_MAX {
        return Err(Refusal::usage("-Q: too long"));
    }
    let exits = RequeueExits::parse(&again.exits);
    again.exits = exits
        .map_err(|e| Refusal::usage(format!("-Q: {e}")))?
        .to_string();
    if again.retries.is_some_and(|n| n > MAX_RETRIES) {
        return Err(Refusal::usage(format!("--retries: at most {MAX_RETRIES}")));
    }
    if let Some(warn) = &spec.warn {
        let known = WARN_SIGNALS.iter().any(|(_, n)| *n == warn.signal);
        if !known || !(1..=WARN_BEFORE_MAX_S).contains(&warn.before_s) {
            return Err(Refusal::usage(format!(
                "--signal: a signal that is known here, 1 to {WARN_BEFORE_MAX_S} seconds before"
            )));
        }
    }
    check_mail(spec)?;
    check_session(spec)?;
    let texts = [&spec.queue, &spec.hosts, &spec.res_req, &spec.depend];
    if texts.into_iter().any(|t| t.len() > TEXT_MAX) {
        return Err(Refusal::usage(format!(
            "an option of more than {TEXT_MAX} bytes (-q, -m, -R or -w)"
        )));
    }
    Ok(())
}

/// Maximum number of receivers of one job's mails.
const MAILS_MAX: usize = 10;

/// Checks addresses and users.
fn check_mail(spec: &Spec) -> Result<(), Refusal> {
    let named = spec.mail.to.split([' ', ',']).filter(|to| !to.is_empty());
    let to: Vec<&str> = named.collect();
    if to.len() > MAILS_MAX {
        return Err(Refusal::usage(format!("-u: at most {MAILS_MAX} addresses")));
    }
    for whom in to {
        let good = match whom.contains('@') {
            true => crate::config::is_address(whom),
            false => names::check_user(whom).is_ok(),
        };
        if !good {
            return Err(Refusal::usage(format!(
                "-u: {whom:?} is neither a mail address nor the name of a user"
            )));
        }
    }
    Ok(())
}

/// Refuses what an interactive job cannot have: a second run, files instead of its terminal.
fn check_session(spec: &Spec) -> Result<(), Refusal> {
    let Some(session) = &spec.session else {
        return Ok(());
    };
    let again = !spec.again.exits.is_empty() || spec.again.retries.is_some();
    if spec.rerunnable || again {
        return Err(Refusal::usage(
            "an interactive job runs once: -I cannot be given together with -r, -Q or --retries",
        ));
    }
    let files = [&spec.stdin, &spec.stdin_blob, &spec.stdout, &spec.stderr];
    if session.terminal.is_pty() && files.into_iter().any(|file| !file.is_empty()) {
        return Err(Refusal::usage(
            "a job with a terminal of its own (-Ip, -Is) cannot have -i, -is, -o or -e",
        ));
    }
    Ok(())
}

/// Checks that a user who names a group is a member of it: its shares are not for others.
fn check_group(spec: &Spec, requester: &Requester, config: &Config) -> Result<(), Refusal> {
    let group = &spec.user_group;
    if group.is_empty() {
        return Ok(());
    }
    let known = config.user_groups.contains_key(group) || requester.groups.contains(group);
    if !known {
        return Err(Refusal::not_found(format!(
            "-G: no user group is named {group:?}{}",
            did_you_mean(group, config.user_groups.keys().map(String::as_str))
        )));
    }
    if !config.in_user_group(&requester.user, &requester.groups, group) {
        return Err(Refusal::permission(format!(
            "-G: user {} is not in group {group}",
            requester.user
        )));
    }
    Ok(())
}

/// Takes the number of slots from the sections of a requirement; `-n` may only state the same
/// number.
fn take_slots_of_sections(spec: &mut Spec, config: &Config) -> Result<(), Refusal> {
    let slots = require::slots_of(&spec.res_req, config);
    let slots = slots.map_err(|e| Refusal::usage(format!("-R: {e}")))?;
    let Some(slots) = slots else {
        return Ok(());
    };
    if slots > SLOTS_MAX {
        return Err(Refusal::usage(format!(
            "-R: the sections request {slots} slots together, at most {SLOTS_MAX} are allowed"
        )));
    }
    let stated = [spec.min, spec.max]
        .into_iter()
        .find(|n| *n != 0 && *n != slots);
    if let Some(stated) = stated {
        return Err(Refusal::usage(format!(
            "-n: the sections of -R request {slots} slots together, not {stated}; omit -n"
        )));
    }
    (spec.min, spec.max) = (slots, slots);
    Ok(())
}

fn check_limits(limits: &Limits) -> Result<(), Refusal> {
    let all = [
        ("-W", limits.run_s),
        ("-c", limits.cpu_s),
        ("-M", limits.mem_b),
        ("-v", limits.swap_b),
        ("-p", limits.procs),
        ("-F", limits.file_b),
        ("-D", limits.data_b),
        ("-S", limits.stack_b),
    ];
    for (option, value) in all {
        if value.is_some_and(|v| v == 0 || v > i64::MAX as u64) {
            return Err(Refusal::usage(format!(
                "{option}: the limit must be a positive number"
            )));
        }
    }
    Ok(())
}

/// Parses `-w`, replaces names by the ids of the user's own jobs, and refuses what cannot be
/// evaluated.
fn resolve_depend(
    text: &str,
    requester: &Requester,
    state: &State,
    names: &mut NameBudget,
) -> Result<String, Refusal> {
    let bad = |e: String| Refusal::usage(format!("-w: {e}"));
    let expr = Expr::parse(text).map_err(|e| bad(e.to_string()))?;
    // The elements after the name apply to each id.
    let elements = text
        .split('[')
        .skip(1)
        .map(|t| t.find(']').unwrap_or(t.len()));
    let each = ID_BYTES + elements.max().unwrap_or(0);
    let mut room = DEPEND_MAX / each;
    let expr = expr.resolve(&mut |name: &str| {
        let in_pack = names.pack.count_before(name)?;
        if in_pack > 0 && in_pack <= room {
            room -= in_pack;
            return Ok(Vec::new());
        }
        let ids = own_jobs_named(name, requester, state, names, room)?;
        room -= ids.len();
        Ok::<_, Refusal>(ids)
    })?;
    for cond in expr.conditions() {
        if cond.target.elements == Elements::Same {
            return Err(bad(
                "element to element dependencies ([*]) are not available: an element cannot wait \
                 for the element of another array with its index; done(12) waits for the whole \
                 array, done(12[3]) for one element"
                    .into(),
            ));
        }
        if matches!(cond.test, Test::External(_)) {
            return Err(bad("external() is not implemented in this version".into()));
        }
        if let crate::text::depend::JobRef::Id(id) = cond.target.job
            && state.job(id).is_none()
        {
            return Err(bad(format!("job {id} does not exist")));
        }
    }
    Ok(expr.to_string())
}

/// Replaces the names that admission left in a dependency by the ids of the jobs of the pack.
pub fn with_pack_ids(depend: String, jobs: &[(String, u32)]) -> String {
    if depend.is_empty() || jobs.is_empty() {
        return depend;
    }
    let Ok(expr) = Expr::parse_stored(&depend) else {
        return depend;
    };
    let expr = expr.resolve(&mut |name: &str| {
        let wanted = Glob::new(name);
        let named = jobs.iter().filter(|(name, _)| wanted.matches(name));
        Ok::<_, Infallible>(named.map(|(_, id)| *id).collect())
    });
    match expr {
        Ok(expr) => expr.to_string(),
        Err(never) => match never {},
    }
}

/// Ids of the jobs with that name, at most `room`.
fn own_jobs_named(
    name: &str,
    requester: &Requester,
    state: &State,
    names: &mut NameBudget,
    room: usize,
) -> Result<Vec<u32>, Refusal> {
    let wanted = Glob::new(name);
    let (mut ids, mut looks) = (Vec::new(), 0);
    let most = LOOKS_MAX.min(names.lookups);
    for job in state.maybe_named(requester.uid, &wanted) {
        looks += 1;
        if wanted.matches(job.name()) {
            ids.push(job.id);
        }
        if looks > most || ids.len() > room || ids.len() as u64 > names.ids {
            names.lookups = names.lookups.saturating_sub(looks);
            return Err(Refusal::usage(format!(
                "-w: too many jobs: {name:?} is compared with {looks} of yours and matches {} or \
                 more (at most {LOOKS_MAX} and {room}; {REQUEST_LOOKS_MAX} and {REQUEST_IDS_MAX} \
                 in one request); name fewer jobs, or give their ids",
                ids.len()
            )));
        }
    }
    names.lookups -= looks;
    let of_pack = |id: &u32| names.pack.ids.contains(id);
    if ids.iter().any(of_pack) {
        ids.retain(of_pack);
    }
    names.ids -= ids.len() as u64;
    if ids.is_empty() {
        return Err(Refusal::usage(format!(
            "-w: no job of yours is named {name:?}"
        )));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// The first candidate queue that accepts the job; if there is only one candidate, its refusal is
/// the answer.
pub(super) fn choose_queue<'a>(
    (spec, app): (&Spec, Option<&AppProfile>),
    requester: &Requester,
    config: &'a Config,
    state: &State,
) -> Result<(&'a Queue, bool), Refusal> {
    let default = spec.queue.trim().is_empty();
    let candidates: Vec<&str> = if default {
        config
            .general
            .default_queue
            .iter()
            .map(String::as_str)
            .collect()
    } else {
        spec.queue.split_whitespace().collect()
    };
    let mut first_refusal = None;
    let mut without_hosts = None;
    for name in candidates {
        let verdict = match config.queue(name) {
            None => Err(Refusal::not_found(format!(
                "there is no queue {name:?}{}",
                did_you_mean(name, config.queues.iter().map(|q| q.name.as_str()))
            ))),
            Some(queue) => accepts(queue, (spec, app), requester, config, state).map(|()| queue),
        };
        match verdict {
            Ok(queue) if has_requested_hosts(queue, spec, config) => return Ok((queue, default)),
            Ok(queue) => without_hosts = without_hosts.or(Some(queue)),
            Err(refusal) => first_refusal = first_refusal.or(Some(refusal)),
        }
    }
    if let Some(queue) = without_hosts {
        return Ok((queue, default));
    }
    Err(first_refusal.unwrap_or_else(|| Refusal::refused("no default queue is configured")))
}

/// Whether the queue uses a host that the job asks for with `-m` and that has each resource of
/// `rusage[]` which only some hosts of cb.yaml have, such as GPUs. What sensors report is not known
/// here.
fn has_requested_hosts(queue: &Queue, spec: &Spec, config: &Config) -> bool {
    // A list or requirement that cannot be read is refused elsewhere.
    let prefs = require::requested_hosts(&spec.hosts, config).ok().flatten();
    let needs = require::reserved_names(&spec.res_req);
    let entries = &config.hosts.entries;
    let has = |host: &HostEntry, need: &str| host.resources.contains_key(need);
    let of_some_hosts = |need: &&String| entries.iter().any(|host| has(host, need));
    let needs: Vec<&String> = needs.iter().filter(of_some_hosts).collect();
    if prefs.is_none() && needs.is_empty() {
        return true;
    }
    entries.iter().any(|host| {
        let asked = prefs.as_ref();
        queue.hosts.contains(&host.name)
            && asked.is_none_or(|prefs| prefs.preference(&host.name).is_some())
            && needs.iter().all(|need| has(host, need))
    })
}

fn accepts(
    queue: &Queue,
    (spec, app): (&Spec, Option<&AppProfile>),
    requester: &Requester,
    config: &Config,
    state: &State,
) -> Result<(), Refusal> {
    let name = &queue.name;
    if !state.queue_ctl(name).open {
        return Err(Refusal::refused(format!("queue {name} is closed")));
    }
    if !config.queue_accepts(queue, &requester.user, &requester.groups) {
        return Err(Refusal::permission(format!(
            "user {} may not use queue {name}",
            requester.user
        )));
    }
    let refused = match (queue.interactive, spec.session.is_some()) {
        (Interactive::Only, false) => Some("accepts only interactive jobs (-I, -Ip, -Is)"),
        (Interactive::No, true) => Some("accepts no interactive jobs"),
        _ => None,
    };
    if let Some(why) = refused {
        return Err(Refusal::refused(format!("queue {name} {why}")));
    }
    if spec.exclusive && !queue.exclusive {
        return Err(Refusal::refused(format!(
            "queue {name} accepts no exclusive jobs (-x)"
        )));
    }
    if !queue.exclusive && require::wants_units_alone(&spec.res_req, config) {
        return Err(Refusal::refused(format!(
            "queue {name} accepts no exclusive jobs: cu[excl] needs exclusive: yes there"
        )));
    }
    let (min, max) = slots_in(queue, app, spec);
    let of_app = app.and_then(|app| Some((app, app.job_slots?)));
    if let Some((app, slots)) = of_app
        && !check_slots(slots, min, max)
    {
        return Err(Refusal::refused(format!(
            "-n: application {} accepts jobs of {} slots",
            app.name,
            bound(slots)
        )));
    }
    if !check_slots(queue.job_slots, min, max) {
        return Err(Refusal::refused(format!(
            "-n: queue {name} accepts jobs of {} slots",
            bound(queue.job_slots)
        )));
    }
    limits_in(queue, app, &spec.limits).map(|_| ())
}

pub(super) fn apply_queue(
    (spec, app): (&mut Spec, Option<&AppProfile>),
    queue: &Queue,
    config: &Config,
) -> Result<(), Refusal> {
    (spec.min, spec.max) = slots_in(queue, app, spec);
    spec.limits = limits_in(queue, app, &spec.limits)?;
    let of_app = app.and_then(|app| {
        apps::fill(spec, app);
        app.rerunnable
    });
    // The command that waits for an interactive job exists for one run only.
    spec.rerunnable |= of_app.unwrap_or(queue.rerunnable) && spec.session.is_none();
    spec.queue = queue.name.clone();
    let request = Request::new(spec, queue.res_req.as_deref(), config);
    request
        .map(|_| ())
        .map_err(|e| Refusal::usage(format!("-R: {e}")))
}
