//! The options of a started job that may change, and what `rusage[]` it reserves then. Gives the
//! reason why the others may not change.

use super::Refusal;
use crate::config::Config;
use crate::model::{Limits, Spec};
use crate::record::request::Changes;
use crate::text::duration::exact;
use crate::text::resreq::{Body, ResReq, Simple};

/// Options that only the leader uses.
const LEADER: [&str; 14] = [
    "B", "J", "Jd", "N", "Ne", "P", "Q", "notify", "q", "r", "retries", "sp", "t", "u",
];
/// Options that the host receives in an order.
const HOST: [&str; 5] = ["M", "W", "c", "p", "v"];

/// Checks that a job that has started, with this specification, may have these changes.
///
/// # Errors
/// Returns the first option that may not be changed, and why.
pub fn check_started(old: &Spec, changes: &Changes) -> Result<(), Refusal> {
    check_cpu_limit(old, changes)?;
    let mut all = changes.set.iter().chain(&changes.reset);
    let known = |o: &str| LEADER.contains(&o) || HOST.contains(&o) || o == "R";
    let Some(option) = all.find(|option| !known(option)) else {
        return Ok(());
    };
    let why = match option.as_str() {
        "Z" | "L" | "rnc" | "E" | "Ep" | "f" | "di" | "do" | "k" | "cwd" | "i" | "is" => {
            "it only takes effect at the start"
        }
        "o" | "oo" | "e" | "eo" => "its output files are open",
        "n" | "m" | "x" | "b" | "w" | "ti" | "orphan" | "start-timeout" => {
            "that only decides when and where a job starts"
        }
        "F" | "D" | "S" | "C" => {
            "its processes have that limit since they started; -W, -M, -v and -p can be changed, \
             -c lowered"
        }
        "g" => "it counts for the limits of the group in which it started",
        "G" => "its run time counts for the group for which it started",
        _ => "that applies only to pending jobs",
    };
    Err(Refusal::refused(format!(
        "-{option} cannot be changed, the job has started: {why}"
    )))
}

/// The kernel holds the processes of the job to their CPU limit, and it cannot be raised there. A
/// lower limit is enforced by samples of the job's usage.
fn check_cpu_limit(old: &Spec, changes: &Changes) -> Result<(), Refusal> {
    let has = |list: &[String]| list.iter().any(|o| o == "c");
    let Some(limit) = old.limits.cpu_s.filter(|_| {
        // Without a limit, every limit is lower.
        has(&changes.set) || has(&changes.reset)
    }) else {
        return Ok(());
    };
    let new = &changes.job.spec;
    let lower =
        new.limits.cpu_s.is_some_and(|requested| requested <= limit) && new.cpu_on == old.cpu_on;
    if lower && !has(&changes.reset) {
        return Ok(());
    }
    let on = match old.cpu_on.as_str() {
        "" => String::new(),
        on => format!(", of the speed of {on}"),
    };
    Err(Refusal::refused(format!(
        "-c can only be lowered, the job has started: its processes have the limit of {}{on} since \
         they started",
        exact(limit)
    )))
}

/// The requirement of a job that has started, with its `rusage[]` replaced by that of another
/// requirement. `requested` is empty for none.
///
/// # Errors
/// `requested` has other sections, or the job has several requirements.
pub fn replace_rusage(old: &str, requested: &str, config: &Config) -> Result<String, Refusal> {
    let only = "-R: only rusage[...] of a job that has started can be changed";
    let requested = ResReq::parse(requested, config).map_err(|e| {
        Refusal::usage(format!(
            "-R: {}\n{}",
            e.message,
            e.caret(requested).trim_end()
        ))
    })?;
    let rusage = requested.simple().cloned();
    let rusage = rusage.ok_or_else(|| Refusal::refused(only))?.rusage;
    let new = Simple {
        rusage: rusage.clone(),
        ..Simple::default()
    };
    if requested.simple() != Some(&new) || rusage.len() > 1 {
        return Err(Refusal::refused(only));
    }
    let several = "-R: the job has started by one of several alternatives or sections; its \
                   rusage[] cannot be changed";
    let mut req = ResReq::parse_stored(old, config)
        .map_err(|e| Refusal::usage(format!("-R: {}", e.caret(old))))?;
    match &mut req.alternatives[..] {
        [one] if one.delay_s.is_none() => match &mut one.body {
            Body::Simple(simple) if simple.rusage.len() <= 1 => simple.rusage = rusage,
            _ => return Err(Refusal::refused(several)),
        },
        _ => return Err(Refusal::refused(several)),
    }
    Ok(match req.is_empty() {
        true => String::new(),
        false => req.to_string(),
    })
}

/// The note in the answer to the switch of a running job: limits of the new queue that are not
/// enforced on its processes.
pub fn note_switched(old: &Limits, new: &Limits) -> String {
    let all = [
        ("-c", old.cpu_s, new.cpu_s),
        ("-F", old.file_b, new.file_b),
        ("-S", old.stack_b, new.stack_b),
        ("-C", old.core_b, new.core_b),
    ];
    // A lower CPU limit takes effect at once.
    let holds = |option: &str, old: Option<u64>, new: Option<u64>| {
        option == "-c" && new.is_some_and(|new| old.is_none_or(|old| new < old))
    };
    let differ = all
        .iter()
        .filter(|(option, old, new)| old != new && !holds(option, *old, *new));
    let differ: Vec<&str> = differ.map(|(option, ..)| *option).collect();
    if differ.is_empty() {
        return String::new();
    }
    format!(
        "; the job has started: its other limits of that queue ({}) apply when it is started again",
        differ.join(", ")
    )
}

/// The note in the answer to a change of a started job that does not have the full effect of its
/// option.
pub fn note_started(changes: &Changes) -> String {
    let has = |o: &str| changes.set.iter().chain(&changes.reset).any(|x| x == o);
    let mut notes = Vec::new();
    if has("R") {
        notes.push(
            "the scheduler counts the new rusage[] from now on; the job's processes and its \
             limits (-M) are unchanged",
        );
    }
    if has("sp") || has("r") {
        notes.push("-sp and -r apply when the job is started again");
    }
    if notes.is_empty() {
        String::new()
    } else {
        format!("; the job has started: {}", notes.join("; "))
    }
}
