//! `cswitch`: moves jobs to another queue.

use super::cli::{Values, command, parse};
use super::exit::{Fail, Result};
use super::job_requests::{filters, finish, ids, job_phrase, send_and_report, with_selectors};
use crate::record::request::{Selector, Verb};
use crate::text::jobids::JobSel;
use crate::text::names;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// The options of `cswitch`.
pub(super) fn options() -> Command {
    let cmd = command("cswitch", "Switch pending jobs to another queue")
        .override_usage("cswitch [OPTIONS] QUEUE JOB...");
    with_selectors(cmd).mut_arg("jobs", |arg| {
        arg.value_name("QUEUE JOB").help(
            "The new queue, then job IDs, or 0 for all that match; none: the latest that matches",
        )
    })
}

/// Runs `cswitch`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match parse(options(), args) {
        Ok(m) => finish("cswitch", switch(&m)),
        Err(code) => code,
    }
}

fn switch(m: &ArgMatches) -> Result<i32> {
    let (queue, sel) = destination(&m.all("jobs"))?;
    let sel = Selector {
        ids: sel.ids,
        all: sel.all,
        ..filters(m)?
    };
    send_and_report("cswitch", m, &[Verb::Switch { sel, queue }], job_phrase)
}

/// The queue and the jobs given by the operands.
fn destination(operands: &[String]) -> Result<(String, Selector)> {
    let Some((queue, jobs)) = operands.split_first() else {
        return Err(Fail::usage(
            "the new queue is missing\nhint: cswitch QUEUE JOB...",
        ));
    };
    names::check_name(queue).map_err(|e| Fail::usage(format!("queue '{queue}': {}", e.message)))?;
    let jobs = ids(jobs).map_err(|fail| match operands {
        [id, word] if JobSel::parse(id).is_ok() && names::check_name(word).is_ok() => {
            Fail::usage(format!("the queue comes first: cswitch {word} {id}"))
        }
        _ => fail,
    })?;
    Ok((queue.clone(), jobs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_operand_is_the_queue() {
        let words = |w: &[&str]| w.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let (queue, sel) = destination(&words(&["night", "1", "2[3]"])).unwrap();
        assert_eq!(
            (queue.as_str(), sel.ids.len(), sel.all),
            ("night", 2, false)
        );
        assert!(destination(&words(&["night", "0"])).unwrap().1.all);
        let turned = destination(&words(&["18", "high"])).unwrap_err().text;
        assert_eq!(turned, "the queue comes first: cswitch high 18");
        for bad in [&[][..], &["a/b", "1"], &["night", "x"]] {
            assert!(destination(&words(bad)).is_err(), "{bad:?}");
        }
    }
}
