//! Converts options to a submission. Everything that can be checked without the cluster is checked
//! here.
//!
//! Pure: the working directory, the time and the unit of limits are passed in as [`ParseContext`].

use super::options::JobOptions;
use super::{container, gpus};
use crate::client::cli::Split;
use crate::client::ctasks;
use crate::client::exit::{Fail, Result};
use crate::config::WARN_SIGNALS;
use crate::language::translated;
use crate::model::{
    Checkpoint, FILE_COPIES_MAX, FileCopy, Launch, LaunchKind, Limits, MAX_RETRIES, MailRequest,
    OomKill, Orphans, RunWarning, Spec, Stamp, Submission, WARN_BEFORE_MAX_S, WarnedProcesses,
};
use crate::task::build::exact_command;
use crate::task::launch::section_slots;
use crate::text::arrayspec::ArraySpec;
use crate::text::command::quote;
use crate::text::depend::Expr;
use crate::text::exits::RequeueExits;
use crate::text::names::{self, HostSet};
use crate::text::resreq::{self, AnyResource, Builtins};
use crate::text::size::{self, Unit};
use crate::text::{ParseError, duration, indexset, job_group};
use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

/// Maximum number of slots of one job.
const SLOTS_MAX: u32 = 1_000_000;
/// Maximum length of a description, in bytes.
const DESCRIPTION_MAX: usize = 4095;
/// Maximum length of the path of a file or directory, in bytes.
const PATH_MAX: usize = 4095;
/// Maximum length of the key of `--key`, in bytes.
const KEY_MAX: usize = 255;
/// Maximum length of the name of an application, in bytes.
const APP_MAX: usize = 240;
/// Maximum length of a project name, in bytes.
const PROJECT_MAX: usize = 255;
/// Maximum length of the name of a user group, in bytes.
const GROUP_MAX: usize = 255;
/// Maximum length of a command of -rnc, -E and -Ep, in bytes.
const COMMAND_MAX: usize = 4095;

/// The context in which options are parsed.
pub(crate) struct ParseContext<'a> {
    /// Wall clock, ms since the epoch.
    pub now_ms: i64,
    /// Working directory.
    pub cwd: &'a Path,
    pub umask: u32,
    /// This host's name.
    pub host: &'a str,
    /// LSB_DEFAULTQUEUE and LSB_DEFAULTPROJECT; may be empty.
    pub default_queue: &'a str,
    pub default_project: &'a str,
    /// Unit of numbers without unit in -M and -v; called only if there is one.
    pub unit: &'a dyn Fn() -> Unit,
}

/// The failure for an invalid option value, with the value and a caret.
pub(crate) fn invalid_value(option: &str, value: &str, e: &ParseError) -> Fail {
    let caret = e.caret(value);
    Fail::usage(format!(
        "-{option}: {}\n{}",
        e.message,
        caret.trim_end_matches('\n')
    ))
}

/// Parses the options of one job. Command, script and environment are not options.
///
/// # Errors
/// Names the option and the problem with its value.
pub(crate) fn submission(options: &JobOptions, context: &ParseContext<'_>) -> Result<Submission> {
    options.check_implemented()?;
    let options = &*whole_hosts(options)?;
    let mut job = Submission::default();
    job.spec.cwd = path_text(context.cwd)?;
    job.spec.umask = context.umask;
    job.spec.sub_host = context.host.to_owned();
    for (id, value) in options.iter() {
        if !value.is_empty() && value.contains('\0') {
            return Err(Fail::usage(format!("-{id}: the value contains a NUL byte")));
        }
        name_option(&mut job, id, value)?;
        place_option(&mut job.spec, id, value)?;
        limit_option(&mut job.spec, id, value, context)?;
        file_option(&mut job.spec, id, value, context)?;
        mail_option(&mut job.spec.mail, id, value)?;
    }
    if !job.spec.mail.to.is_empty() && job.spec.stdout.is_empty() && !job.spec.mail.is_wanted() {
        // As in LSF, which mails the report of a job that has no output file.
        (job.spec.mail.done, job.spec.mail.exit) = (true, true);
    }
    if options.has("ti") && options.has("orphan") {
        return Err(Fail::usage("-ti and -orphan cannot be given together"));
    }
    if job.spec.queue.is_empty() && !context.default_queue.is_empty() {
        job.spec.queue = queues("LSB_DEFAULTQUEUE", context.default_queue)?;
    }
    if job.spec.project.is_empty() {
        job.spec.project = context.default_project.to_owned();
    }
    job.spec.res_req = requirement(options, context)?;
    job.spec.warn = warning(options)?;
    job.spec.container = container::of(options, context)?.map(Box::new);
    job.spec.files = copies(options, context)?;
    job.spec.chkpnt = checkpoint(options, context)?.map(Box::new);
    job.spec.launch = launch(options, &job.spec)?.map(Box::new);
    Ok(job)
}

/// Replaces `-nnodes` by the equivalent options.
pub(super) fn whole_hosts(options: &JobOptions) -> Result<Cow<'_, JobOptions>> {
    let Some(value) = options.get("nnodes") else {
        return Ok(Cow::Borrowed(options));
    };
    if options.has("n") {
        return Err(Fail::usage("-n and -nnodes cannot be given together"));
    }
    let hosts = number("nnodes", value, 1, SLOTS_MAX)?.to_string();
    let mut same = options.clone();
    same.add("n", &hosts);
    same.add("x", "");
    same.add("R", "span[ptile=1]");
    Ok(Cow::Owned(same))
}

/// -J -Jd -H --key.
fn name_option(job: &mut Submission, id: &str, value: &str) -> Result<()> {
    match id {
        "J" => {
            // The maximum size of an array is a setting of the cluster, which the leader checks.
            let most = u64::from(indexset::MAX_INDEX);
            let spec = ArraySpec::parse(value, most).map_err(|e| invalid_value(id, value, &e))?;
            job.name = spec.name;
            job.array = spec.indices.map_or(String::new(), |set| set.to_string());
            job.array_limit = spec.limit.unwrap_or(0);
        }
        "Jd" => {
            bounded(id, value, DESCRIPTION_MAX)?;
            job.spec.description = value.to_owned();
        }
        "H" => job.hold = true,
        "key" => {
            bounded(id, value, KEY_MAX)?;
            if value.is_empty() || value.chars().any(char::is_control) {
                return Err(Fail::usage("-key: give a key of printable text"));
            }
            job.key = value.to_owned();
        }
        _ => {}
    }
    Ok(())
}

/// Where and when: -q -app -P -G -g -sp -n -m -x -r -rn -Q --retries -b -t -ti -orphan -w.
fn place_option(spec: &mut Spec, id: &str, value: &str) -> Result<()> {
    match id {
        "q" => spec.queue = queues("-q", value)?,
        "P" => {
            bounded(id, value, PROJECT_MAX)?;
            if value.trim().is_empty() || value.chars().any(char::is_control) {
                return Err(Fail::usage("-P: give a project name of printable text"));
            }
            spec.project = value.to_owned();
        }
        "app" => {
            bounded(id, value, APP_MAX)?;
            names::check_name(value).map_err(|e| invalid_value(id, value, &e))?;
            spec.app = value.to_owned();
        }
        "G" => {
            bounded(id, value, GROUP_MAX)?;
            if value.trim().is_empty() || value.chars().any(|c| c.is_control() || c == ' ') {
                return Err(Fail::usage("-G: give the name of a user group"));
            }
            spec.user_group = value.to_owned();
        }
        "g" => {
            job_group::check(value).map_err(|e| invalid_value(id, value, &e))?;
            spec.job_group = value.to_owned();
        }
        "sp" => spec.priority = number(id, value, 1, u32::MAX)?,
        "n" => (spec.min, spec.max) = slots(value)?,
        "m" => {
            let hosts = HostSet::parse(value).map_err(|e| invalid_value(id, value, &e))?;
            spec.hosts = hosts.to_string();
        }
        "x" => spec.exclusive = true,
        "Q" => {
            bounded(id, value, COMMAND_MAX)?;
            let exits = RequeueExits::parse(value).map_err(|e| invalid_value(id, value, &e))?;
            if exits.is_empty() {
                return Err(Fail::usage("-Q: an exit value is missing"));
            }
            spec.again.exits = exits.to_string();
        }
        "retries" => spec.again.retries = Some(number(id, value, 0, MAX_RETRIES)?),
        "r" => spec.rerunnable = true,
        "rn" => spec.rerunnable = false,
        "ti" => spec.end_orphan = true,
        "orphan" => {
            let known = Orphans::ALL.iter().find(|(word, _)| *word == value);
            let Some((_, policy)) = known else {
                return Err(Fail::usage(format!(
                    "-orphan: '{value}' is not hold, kill or run"
                )));
            };
            spec.orphan = Some(*policy);
        }
        "w" => {
            let expr = Expr::parse(value).map_err(|e| invalid_value(id, value, &e))?;
            spec.depend = expr.to_string();
        }
        _ => {}
    }
    Ok(())
}

/// -W -c -M -v -p -F -D -S -C --mem --oom-kill -b -t --start-timeout.
fn limit_option(spec: &mut Spec, id: &str, value: &str, context: &ParseContext<'_>) -> Result<()> {
    let Limits {
        run_s,
        cpu_s,
        mem_b,
        swap_b,
        procs,
        file_b,
        data_b,
        stack_b,
        core_b,
        oom_kill,
    } = &mut spec.limits;
    match id {
        "W" | "c" => {
            let limit = duration::limit(value).map_err(|e| invalid_value(id, value, &e))?;
            let (place, on) = match id {
                "W" => (run_s, &mut spec.run_on),
                _ => (cpu_s, &mut spec.cpu_on),
            };
            *place = Some(limit.seconds);
            *on = limit.on.unwrap_or_default();
        }
        "M" => *mem_b = Some(bytes(id, value, &context.unit)?),
        "mem" => {
            let reserved = bytes(id, value, &context.unit)?;
            mem_b.get_or_insert(reserved);
        }
        "v" => *swap_b = Some(bytes(id, value, &context.unit)?),
        "p" => *procs = Some(u64::from(number(id, value, 1, u32::MAX)?)),
        "F" => *file_b = Some(bytes(id, value, &|| Unit::K)?),
        "D" => *data_b = Some(bytes(id, value, &|| Unit::K)?),
        "S" => *stack_b = Some(bytes(id, value, &|| Unit::K)?),
        // A limit without a size, no core file, is valid too.
        "C" => *core_b = Some(size_of(id, value, &|| Unit::K)?),
        "oom-kill" => {
            let known = OomKill::ALL.iter().find(|(word, _)| *word == value);
            let Some((_, act)) = known else {
                return Err(Fail::usage(format!(
                    "--oom-kill: '{value}' is not fail or ignore"
                )));
            };
            *oom_kill = Some(*act);
        }
        "b" => spec.begin = Some(moment(id, value, context.now_ms)?),
        "t" => spec.deadline = Some(moment(id, value, context.now_ms)?),
        "start-timeout" => {
            let limit =
                duration::limit(value).map_err(|e| invalid_value("-start-timeout", value, &e))?;
            if limit.on.is_some() || limit.seconds == 0 {
                return Err(Fail::usage(
                    "--start-timeout: write [HOURS:]MINUTES above 0",
                ));
            }
            let ms = limit.seconds.saturating_mul(1000);
            spec.start_by = Some(Stamp(context.now_ms).plus_ms(ms));
        }
        _ => {}
    }
    Ok(())
}

/// -B -N -Ne -notify -u.
fn mail_option(mail: &mut MailRequest, id: &str, value: &str) -> Result<()> {
    match id {
        "B" => mail.start = true,
        "N" => (mail.done, mail.exit) = (true, true),
        "Ne" => mail.exit = true,
        "notify" => mail
            .add(value)
            .map_err(|why| Fail::usage(format!("-notify: {why}")))?,
        "u" => {
            let named = value.split([' ', ',']).filter(|to| !to.is_empty());
            let to: Vec<&str> = named.collect();
            mail.to = to.join(",");
            if mail.to.is_empty() {
                return Err(Fail::usage("-u: give an address or a user"));
            }
        }
        _ => {}
    }
    Ok(())
}

/// -i -o -oo -e -eo --no-report -cwd -cwdc -L -rnc -E -Ep.
fn file_option(spec: &mut Spec, id: &str, value: &str, context: &ParseContext<'_>) -> Result<()> {
    match id {
        "no-report" => spec.no_report = true,
        "i" => spec.stdin = file(id, value)?,
        "o" | "oo" => {
            spec.stdout = file(id, value)?;
            spec.stdout_over = id == "oo";
        }
        "e" | "eo" => {
            spec.stderr = file(id, value)?;
            spec.stderr_over = id == "eo";
        }
        "cwd" | "cwdc" => {
            if ["%J", "%I"].iter().any(|pattern| value.contains(pattern)) {
                return Err(Fail::usage(format!(
                    "-{id}: %J and %I are not replaced in a working directory\nhint: let the \
                     script make its directory: mkdir run_$LSB_JOBID && cd run_$LSB_JOBID"
                )));
            }
            spec.cwd = path_text(&without_current_dirs(&context.cwd.join(file(id, value)?)))?;
            spec.cwd_create = id == "cwdc";
        }
        "rnc" | "E" | "Ep" => {
            bounded(id, value, COMMAND_MAX)?;
            check_command(value)?;
            let place = match id {
                "rnc" => &mut spec.notify,
                "E" => &mut spec.hooks.pre,
                _ => &mut spec.hooks.post,
            };
            *place = value.to_owned();
        }
        "L" => {
            if !value.starts_with('/') || value.chars().any(char::is_whitespace) {
                return Err(Fail::usage(format!(
                    "-L: '{value}' is not the absolute path of a shell"
                )));
            }
            spec.shell = format!("{value} -l");
        }
        _ => {}
    }
    Ok(())
}

/// Checks that every later reader parses a command in the same way.
///
/// # Errors
/// The command is empty or contains a NUL byte.
pub(crate) fn check_command(command: &str) -> Result<()> {
    if command.trim().is_empty() {
        return Err(Fail::usage("no command is specified"));
    }
    if command.contains('\0') {
        return Err(Fail::usage("the command contains a NUL byte"));
    }
    Ok(())
}

/// Combines all `-R` and `--mem` into one requirement. The cluster's own resources are not known
/// here: the grammar is checked here, the names by the leader. A single text is sent as typed,
/// since the meaning of `=` in the short form depends on the resource.
fn requirement(options: &JobOptions, context: &ParseContext<'_>) -> Result<String> {
    let mut parts: Vec<(&str, String)> = Vec::new();
    for text in options.all("R") {
        parts.push(("R", text.trim().to_owned()));
    }
    if let Some(text) = options.get("mem") {
        let bytes = size_of("mem", text, &context.unit)?;
        parts.push(("mem", format!("rusage[mem={}M]", bytes.div_ceil(1 << 20))));
    }
    if let Some(text) = options.get("gpu") {
        parts.push(("gpu", gpus::rusage(text)?));
    }
    if parts.is_empty() {
        return Ok(String::new());
    }
    let texts: Vec<&str> = parts.iter().map(|(_, text)| text.as_str()).collect();
    let merged = resreq::merge_all(&texts, &AnyResource(&Builtins)).map_err(|(n, e)| {
        let (option, text) = &parts[n];
        invalid_value(option, text, &e)
    })?;
    Ok(match parts.as_slice() {
        [(_, only)] => only.clone(),
        _ => merged.to_string(),
    })
}

/// `-k`.
fn checkpoint(options: &JobOptions, context: &ParseContext<'_>) -> Result<Option<Checkpoint>> {
    let Some(text) = options.get("k") else {
        return Ok(None);
    };
    let mut read = Checkpoint::parse(text).map_err(|e| Fail::usage(format!("-k: {e}")))?;
    // The path as the submitter sees it, wherever the job runs.
    read.dir = path_text(&without_current_dirs(&context.cwd.join(&read.dir)))?;
    read.check().map_err(|e| Fail::usage(format!("-k: {e}")))?;
    Ok(Some(read))
}

/// All `-f`.
fn copies(options: &JobOptions, context: &ParseContext<'_>) -> Result<Vec<FileCopy>> {
    let mut all = Vec::new();
    for text in options.all("f") {
        let copy = FileCopy::parse(text).map_err(|e| Fail::usage(format!("-f: '{text}': {e}")))?;
        let local = path_text(&without_current_dirs(&context.cwd.join(&copy.local)))?;
        all.push(FileCopy { local, ..copy });
    }
    if all.len() > FILE_COPIES_MAX {
        return Err(Fail::usage(format!("-f: at most {FILE_COPIES_MAX} files")));
    }
    Ok(all)
}

/// `--launch` and `--section`.
fn launch(options: &JobOptions, spec: &Spec) -> Result<Option<Launch>> {
    let sections: Result<Vec<_>> = options.all("section").map(ctasks::section).collect();
    let (kind, sections) = (options.get("launch"), sections?);
    if kind.is_none() && sections.is_empty() {
        return Ok(None);
    }
    let kind = kind.map_or(Ok(LaunchKind::Tasks), ctasks::kind)?;
    let launch = Launch { kind, sections };
    let wrong = |e| Fail::usage(format!("--launch: {e}"));
    launch.check().map_err(wrong)?;
    let slots = section_slots(&spec.res_req, spec.min.max(1)).map_err(wrong)?;
    launch.names(&slots).map_err(wrong)?;
    Ok(Some(launch))
}

/// `--signal`, or `-wa` and `-wt` together.
fn warning(options: &JobOptions) -> Result<Option<RunWarning>> {
    let both = (options.get("wa"), options.get("wt"));
    let mut to = WarnedProcesses::All;
    let (option, signal, before_s) = match (options.get("signal"), both) {
        (None, (None, None)) => return Ok(None),
        (None, (Some(signal), Some(time))) => {
            let time = duration::limit(time).map_err(|e| invalid_value("wt", time, &e))?;
            if time.on.is_some() {
                return Err(Fail::usage("-wt: a warning time takes no host"));
            }
            ("wa", signal, time.seconds)
        }
        (None, _) => return Err(Fail::usage("-wa and -wt go together: give both")),
        (Some(text), (None, None)) => {
            let rest;
            (to, rest) = warned_processes(text);
            let Some((signal, seconds)) = rest.split_once('@') else {
                let message = "--signal: write SIGNAL@SECONDS, for example USR1@600";
                return Err(Fail::usage(message));
            };
            let most = u32::try_from(WARN_BEFORE_MAX_S).unwrap_or(u32::MAX);
            let seconds = number("-signal", seconds, 1, most)?;
            ("-signal", signal, u64::from(seconds))
        }
        (Some(_), _) => {
            return Err(Fail::usage(
                "--signal has the effect of -wa and -wt: give one of them",
            ));
        }
    };
    let bare = signal.strip_prefix("SIG").unwrap_or(signal);
    let known = WARN_SIGNALS.iter().find(|(name, _)| *name == bare);
    let Some((_, signal)) = known else {
        let names: Vec<&str> = WARN_SIGNALS.iter().map(|(name, _)| *name).collect();
        return Err(Fail::usage(format!(
            "-{option}: '{signal}' is not one of {}; commands and checkpoints are not \
             implemented in this version",
            names.join(" ")
        )));
    };
    Ok(Some(RunWarning {
        signal: *signal,
        before_s,
        to,
    }))
}

/// The prefix of a value of `--signal`, and the rest.
fn warned_processes(text: &str) -> (WarnedProcesses, &str) {
    let some = [WarnedProcesses::Shell, WarnedProcesses::Steps];
    let found = some
        .into_iter()
        .find_map(|to| Some((to, text.strip_prefix(to.prefix())?)));
    found.unwrap_or((WarnedProcesses::All, text))
}

fn queues(option: &str, value: &str) -> Result<String> {
    let names: Vec<&str> = value.split([' ', ',']).filter(|w| !w.is_empty()).collect();
    if names.is_empty() {
        return Err(Fail::usage(format!("{option}: a queue is missing")));
    }
    for name in &names {
        names::check_name(name)
            .map_err(|e| Fail::usage(format!("{option}: '{name}': {}", e.message)))?;
    }
    Ok(names.join(" "))
}

fn slots(value: &str) -> Result<(u32, u32)> {
    let (min, max) = value.split_once(',').unwrap_or((value, value));
    let min = number("n", min.trim(), 1, SLOTS_MAX)?;
    let max = number("n", max.trim(), 1, SLOTS_MAX)?;
    if max < min {
        return Err(Fail::usage(format!(
            "-n: the maximum {max} is less than the minimum {min}"
        )));
    }
    Ok((min, max))
}

fn number(option: &str, value: &str, low: u32, high: u32) -> Result<u32> {
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    match value.parse::<u32>() {
        Ok(n) if digits && (low..=high).contains(&n) => Ok(n),
        _ => Err(Fail::usage(format!(
            "-{option}: '{}' is not a number from {low} to {high}",
            crate::text::width::escape(value)
        ))),
    }
}

fn bytes(option: &str, value: &str, unit: &dyn Fn() -> Unit) -> Result<u64> {
    match size_of(option, value, unit)? {
        0 => Err(Fail::usage(format!("-{option}: the limit must be above 0"))),
        n => Ok(n),
    }
}

fn size_of(option: &str, value: &str, unit: &dyn Fn() -> Unit) -> Result<u64> {
    let text = value.trim();
    let plain = text.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    let unit = if plain { unit() } else { Unit::M };
    size::parse(text, unit).map_err(|e| invalid_value(option, text, &e))
}

fn moment(option: &str, value: &str, now_ms: i64) -> Result<Stamp> {
    let zone = jiff::tz::TimeZone::system();
    duration::point_in_time(value, now_ms, &zone)
        .map(Stamp)
        .map_err(|e| invalid_value(option, value, &e))
}

pub(super) fn file(option: &str, value: &str) -> Result<String> {
    if value.trim().is_empty() {
        return Err(Fail::usage(format!("-{option}: a path is missing")));
    }
    bounded(option, value, PATH_MAX)?;
    Ok(value.to_owned())
}

fn bounded(option: &str, value: &str, most: usize) -> Result<()> {
    if value.len() > most {
        return Err(Fail::usage(format!(
            "-{option}: {} bytes, at most {most} are allowed",
            value.len()
        )));
    }
    Ok(())
}

/// The path without `.` parts; `..` is kept, since the part before it may be a link.
pub(super) fn without_current_dirs(path: &Path) -> PathBuf {
    path.components()
        .filter(|c| !matches!(c, Component::CurDir))
        .collect()
}

pub(super) fn path_text(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        Fail::usage(format!(
            "the working directory {} is not UTF-8",
            path.display()
        ))
    })?;
    if text.contains('\0') {
        return Err(Fail::usage("the working directory contains a NUL byte"));
    }
    Ok(text.to_owned())
}

/// The command of an option line: its words joined by blanks, as in LSF, so that a command given in
/// one pair of quotes keeps its meaning for the shell; after `--` exactly these words, which no
/// shell interprets.
pub(crate) fn command_line(split: &Split) -> String {
    if split.has_separator {
        exact_command(&split.operands)
    } else {
        split.operands.join(" ")
    }
}

/// How sizes and times were parsed, one sentence per line, for `-verbose`.
pub(crate) fn interpretation(spec: &Spec) -> Vec<String> {
    let limits = &spec.limits;
    let mut out = Vec::new();
    let time = |name: &str, s: Option<u64>, on: &str| {
        let on = if on.is_empty() {
            String::new()
        } else {
            format!(" on {on}")
        };
        s.map(|s| format!("{} {}{on}", translated(name), duration::exact(s)))
    };
    let size =
        |name: &str, b: Option<u64>| b.map(|b| format!("{} {}", translated(name), size::exact(b)));
    out.extend(time("run limit", limits.run_s, &spec.run_on));
    out.extend(time("CPU limit", limits.cpu_s, &spec.cpu_on));
    out.extend(size("memory limit", limits.mem_b));
    out.extend(size("swap limit", limits.swap_b));
    out.extend(size("file size limit", limits.file_b));
    out.extend(size("data limit", limits.data_b));
    out.extend(size("stack limit", limits.stack_b));
    out.extend(size("core limit", limits.core_b));
    out.extend(
        limits
            .procs
            .map(|n| format!("{} {n}", translated("process limit"))),
    );
    if !spec.res_req.is_empty() {
        out.push(format!("{} {}", translated("requirement"), spec.res_req));
    }
    if !spec.depend.is_empty() {
        out.push(format!("{} {}", translated("dependency"), spec.depend));
    }
    if spec.begin.is_some() || spec.deadline.is_some() {
        let zone = jiff::tz::TimeZone::system();
        let date = |name: &str, t: Stamp| {
            format!("{} {}", translated(name), duration::date_long(t.0, &zone))
        };
        out.extend(spec.begin.map(|t| date("begin", t)));
        out.extend(spec.deadline.map(|t| date("deadline", t)));
    }
    let cwd = quote(&spec.cwd);
    out.push(format!("{} {cwd}", translated("working directory")));
    out
}
