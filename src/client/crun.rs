//! `crun`: starts a waiting job on named hosts now, as an administrator.

use super::cli::{Values, command, flag, operands, opt, parse};
use super::exit::{Fail, Result};
use super::job_requests::{finish, job_phrase, send_and_report, with_wait};
use crate::record::request::Verb;
use crate::text::jobids::JobSel;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// The options of `crun`.
pub(super) fn options() -> Command {
    with_wait(command(
        "crun",
        "Start a pending job now, whatever its pending reason (administrators)",
    ))
    .arg(opt(
        "m",
        "HOSTS",
        "Hosts in order, each optionally with #SLOTS; the first runs the command",
    ))
    .arg(flag(
        "f",
        "Also on hosts that an administrator closed or locked",
    ))
    .arg(operands("jobs", "JOB", "Job IDs, elements as 12[3]"))
}

/// Runs `crun`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match parse(options(), args) {
        Ok(m) => finish("crun", force(&m)),
        Err(code) => code,
    }
}

fn force(m: &ArgMatches) -> Result<i32> {
    let hosts = m.last("m").unwrap_or_default().trim().to_owned();
    if hosts.is_empty() {
        return Err(Fail::usage("-m: hosts are missing\nhint: crun -m HOST JOB"));
    }
    let verbs = verbs(&m.all("jobs"), &hosts, m.has("f"))?;
    send_and_report("crun", m, &verbs, job_phrase)
}

/// One verb for each job or element.
fn verbs(operands: &[String], hosts: &str, closed: bool) -> Result<Vec<Verb>> {
    let mut verbs = Vec::new();
    for text in operands {
        let ids: Vec<String> = match JobSel::parse(text) {
            Ok(JobSel::Job(id)) => vec![id.to_string()],
            Ok(JobSel::Elements(id, set)) => set.iter().map(|i| format!("{id}[{i}]")).collect(),
            Ok(JobSel::All) => return Err(Fail::usage("0: name the jobs to start")),
            Err(e) => return Err(Fail::usage(format!("{}\n{}", e.message, e.caret(text)))),
        };
        verbs.extend(ids.into_iter().map(|id| Verb::Run {
            id,
            hosts: hosts.to_owned(),
            closed,
        }));
    }
    if verbs.is_empty() {
        Err(Fail::usage("a job ID is missing"))
    } else {
        Ok(verbs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_is_a_start_of_its_own() {
        let words = |w: &[&str]| w.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let parsed = verbs(&words(&["7", "8[2-3]"]), "h1", false).unwrap();
        let ids: Vec<&str> = parsed
            .iter()
            .map(|v| match v {
                Verb::Run { id, .. } => id.as_str(),
                _ => "",
            })
            .collect();
        assert_eq!(ids, ["7", "8[2]", "8[3]"]);
        assert!(verbs(&[], "", true).is_err() && verbs(&words(&["0"]), "h1", false).is_err());
    }
}
