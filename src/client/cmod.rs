//! `cmod`: changes options of jobs. The options are those of csub; `-Xn` resets option X.

use super::cli::{Table, texts};
use super::csub::no_effect::{NoEffect, has_no_effect};
use super::csub::options::{self, JobOptions, RESETS, replacement_group};
use super::csub::spec::{self, ParseContext};
use super::env::Site;
use super::exit::{Fail, Result};
use super::job_requests::{capital, finish, ids, show};
use super::limit_unit::limit_unit;
use super::requests;
use crate::record::ack::{Code, Outcome};
use crate::record::request::{Changes, Verb};
use crate::sys;
use std::ffi::OsString;

/// Runs `cmod`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let table = Table::new(options::cmod());
    let split = texts(args).and_then(|words| table.split(&words));
    let split = match split {
        Ok(split) => split,
        Err(e) => return Fail::usage(format!("{e}\nhint: cmod -h")).report("cmod"),
    };
    if split
        .given
        .iter()
        .any(|g| matches!(table.id(g), "help" | "version"))
    {
        return table.check(&split).err().unwrap_or(0);
    }
    let options = JobOptions::from_split(&table, &split);
    finish("cmod", modify(&options, &split.operands))
}

fn modify(options: &JobOptions, operands: &[String]) -> Result<i32> {
    options.check_implemented()?;
    NoEffect::of(options).warn("cmod");
    let wait_s = requests::wait_s(options.get("wait"))?;
    if operands.is_empty() {
        return Err(Fail::usage("a job ID is missing"));
    }
    let sel = ids(operands)?;
    let site = Site::find()?;
    let changes = Box::new(changes_of(options, &site)?);
    let verb = Verb::Modify { sel, changes };
    match requests::send_and_wait(&site, "cmod", &[verb], wait_s) {
        Ok(ack) => Ok(show("cmod", &ack, phrase)),
        Err(e) => Ok(e.report("cmod")),
    }
}

/// The changes that the options request, in the context of this process.
///
/// # Errors
/// Names the option that is wrong or cannot be changed.
pub(crate) fn changes_of(options: &JobOptions, site: &Site) -> Result<Changes> {
    let unit = || limit_unit(site);
    let cwd = sys::caller::working_directory()?;
    let context = ParseContext {
        now_ms: sys::clock::wall_ms(),
        cwd: &cwd,
        umask: 0,
        host: &site.host,
        default_queue: "",
        default_project: "",
        unit: &unit,
    };
    changes(options, &context)
}

fn phrase(outcome: &Outcome) -> String {
    match outcome.code {
        Code::Ok => format!("Parameters of job <{}> {}", outcome.what, outcome.text),
        _ => format!("Job <{}>: {}", outcome.what, capital(&outcome.text)),
    }
}

/// The changes that the words of a command line request; its operands are ignored.
///
/// # Errors
/// Names the option that is wrong or cannot be changed.
pub(crate) fn changes_of_words(words: &[String], context: &ParseContext<'_>) -> Result<Changes> {
    let table = Table::new(options::cmod());
    let split = table.split(words).map_err(|e| Fail::usage(e.0))?;
    changes(&JobOptions::from_split(&table, &split), context)
}

/// The changes that the options request.
fn changes(options: &JobOptions, context: &ParseContext<'_>) -> Result<Changes> {
    let mut given = JobOptions::default();
    let mut changes = Changes::default();
    let mut limit = None;
    for (id, value) in options.iter() {
        if let Some((_, option)) = RESETS.iter().find(|(name, _)| *name == id) {
            note(&mut changes.reset, option);
            continue;
        }
        match id {
            "wait" => continue,
            id if has_no_effect(id) => continue,
            "is" => return Err(Fail::usage("-is: spooled input cannot be changed")),
            "Z" => {
                spec::check_command(value)?;
                changes.job.command = value.to_owned();
            }
            "J" => limit = array_limit(value)?,
            "mem" => {
                note(&mut changes.set, "M");
                note(&mut changes.set, "R");
            }
            "gpu" => note(&mut changes.set, "R"),
            "So" | "Sb" => note(&mut changes.set, "di"),
            _ => {}
        }
        if !["gpu", "mem", "So", "Sb"].contains(&id) {
            note(&mut changes.set, replacement_group(id));
        }
        if !(id == "J" && limit.is_some()) && id != "Z" {
            given.add(id, value);
        }
    }
    if let Some(both) = changes.set.iter().find(|o| changes.reset.contains(o)) {
        return Err(Fail::usage(format!("-{both} is both set and reset")));
    }
    if changes.set.is_empty() && changes.reset.is_empty() {
        return Err(Fail::usage(
            "nothing to change\nhint: cmod -h lists the options",
        ));
    }
    let command = std::mem::take(&mut changes.job.command);
    changes.job = spec::submission(&given, context)?;
    if !changes.job.array.is_empty() {
        return Err(Fail::usage(
            "-J: the elements of an array cannot be changed\nhint: -J %N changes its limit",
        ));
    }
    if let Some(limit) = limit {
        changes.job.array_limit = limit;
    }
    changes.job.command = command;
    Ok(changes)
}

fn note(list: &mut Vec<String>, option: &str) {
    if !list.iter().any(|o| o == option) {
        list.push(option.to_owned());
    }
}

/// The limit of `-J %N`; `None` for a name.
fn array_limit(value: &str) -> Result<Option<u32>> {
    let Some(number) = value.strip_prefix('%') else {
        return Ok(None);
    };
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    match number.parse::<u32>() {
        Ok(n) if digits && n > 0 => Ok(Some(n)),
        _ => Err(Fail::usage(format!(
            "-J: '{value}' is not a limit, %1 or more"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::size::Unit;
    use std::path::Path;

    fn read(words: &[&str]) -> Result<Changes> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let context = ParseContext {
            now_ms: 0,
            cwd: Path::new("/w"),
            umask: 0,
            host: "h",
            default_queue: "",
            default_project: "",
            unit: &|| Unit::M,
        };
        changes_of_words(&words, &context)
    }

    #[test]
    fn values_and_resets_are_told_apart() {
        let parsed = read(&[
            "-W", "10", "-oo", "f", "-Pn", "-Jdn", "-mem", "1G", "-cwdc", "d", "7",
        ]);
        let parsed = parsed.unwrap();
        assert_eq!(read(&["-gpu", "num=1", "7"]).unwrap().set, ["R"]);
        assert_eq!(parsed.set, ["W", "o", "M", "R", "cwd"]);
        assert_eq!(parsed.reset, ["P", "Jd"]);
    }

    #[test]
    fn values_that_are_set_and_set_back_are_refused() {
        assert!(read(&["-W", "10", "-Wn"]).is_err());
        assert!(read(&[]).is_err());
        assert!(read(&["-is", "f"]).is_err());
        assert!(read(&["-J", "a[1-3]"]).is_err());
        assert!(read(&["-J", "%0"]).is_err());
        assert!(
            read(&["-freq", "1"])
                .unwrap_err()
                .text
                .contains("not implemented")
        );
    }

    #[test]
    fn options_without_effect_change_nothing() {
        assert_eq!(read(&["-W", "10", "-A", "me", "-Zs"]).unwrap().set, ["W"]);
        assert!(
            read(&["-Zs"])
                .unwrap_err()
                .text
                .contains("nothing to change")
        );
    }

    #[test]
    fn names_limits_and_commands() {
        let parsed = read(&["-J", "%4", "-Z", "new cmd"]).unwrap();
        assert_eq!(
            (parsed.job.array_limit, parsed.job.command.as_str()),
            (4, "new cmd")
        );
        assert_eq!(parsed.job.name, "");
        let parsed = read(&["-J", "new", "-rn", "-n", "2,3"]).unwrap();
        assert_eq!((parsed.job.name.as_str(), parsed.job.spec.min), ("new", 2));
        assert_eq!(parsed.set, ["J", "r", "n"]);
    }

    #[test]
    fn the_answer_reads_as_in_lsf() {
        let mut outcome = Outcome {
            what: "7".into(),
            code: Code::Ok,
            text: "are being changed".into(),
        };
        assert_eq!(phrase(&outcome), "Parameters of job <7> are being changed");
        (outcome.code, outcome.text) = (Code::NotFound, "is not found".into());
        assert_eq!(phrase(&outcome), "Job <7>: Is not found");
    }
}
