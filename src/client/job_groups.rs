//! `cgadd`, `cgdel`, `cgmod` and `cjgroup`: job groups with their limits and sums.
//!
//! Owns the options of these commands. The leader decides who may change a group.

use super::cli::{self, Values, command, flag, opt, parse};
use super::exit::{Exit, Fail, Result};
use super::job_requests::{finish, send_and_report, with_wait};
use super::read::table::{self, Listing};
use super::read::{self, Source};
use crate::record::ack::Outcome;
use crate::record::job_group::{JobGroup, JobGroupAct};
use crate::record::request::Verb;
use crate::show::job_group::{self as shown, GroupRow, GroupSums};
use crate::show::job_select::Users;
use crate::spool::view::{JobSet, ViewItem};
use crate::text::job_group;
use crate::text::width::escape;
use clap::{Arg, ArgMatches, Command};
use std::ffi::OsString;

/// Maximum limit, as in LSF.
const LIMIT_MAX: u32 = i32::MAX as u32;

fn group_operand(help: &'static str) -> Arg {
    cli::operands("groups", "/GROUP", help)
}

/// The options of `cgadd`.
pub(super) fn cgadd_options() -> Command {
    let cmd = command("cgadd", "Create a job group, with a limit of started jobs")
        .arg(opt(
            "L",
            "LIMIT",
            "Maximum number of started jobs in the group and its subgroups [no limit]",
        ))
        .arg(group_operand("The path of the group: /proj/phase1"));
    with_wait(cmd)
}

/// The options of `cgmod`.
pub(super) fn cgmod_options() -> Command {
    let cmd = command("cgmod", "Change the limit of a job group")
        .arg(opt(
            "L",
            "LIMIT",
            "Maximum number of started jobs in the group and its subgroups",
        ))
        .arg(flag("Ln", "No limit"))
        .arg(group_operand("A group that was created by cgadd"));
    with_wait(cmd)
}

/// The options of `cgdel`.
pub(super) fn cgdel_options() -> Command {
    let about = "Delete job groups that have no unfinished jobs";
    let cmd = command("cgdel", about).arg(group_operand(
        "Groups that were created by cgadd; subgroups are deleted, too",
    ));
    with_wait(cmd)
}

/// Runs `cgadd`; returns the exit code.
pub(crate) fn cgadd(args: &[OsString]) -> i32 {
    changing("cgadd", cgadd_options(), args, |m| {
        let limit = m.last("L").map(limit).transpose()?;
        Ok(vec![verb(only_operand(m)?, JobGroupAct::Add(limit))])
    })
}

/// Runs `cgmod`; returns the exit code.
pub(crate) fn cgmod(args: &[OsString]) -> i32 {
    changing("cgmod", cgmod_options(), args, |m| {
        let limit = match (m.last("L"), m.has("Ln")) {
            (Some(text), false) => Some(limit(text)?),
            (None, true) => None,
            _ => return Err(Fail::usage("give either -L LIMIT or -Ln")),
        };
        Ok(vec![verb(only_operand(m)?, JobGroupAct::Limit(limit))])
    })
}

/// Runs `cgdel`; returns the exit code.
pub(crate) fn cgdel(args: &[OsString]) -> i32 {
    changing("cgdel", cgdel_options(), args, |m| {
        let names = groups(m)?;
        if names.is_empty() {
            return Err(Fail::usage(MISSING));
        }
        let verbs = names
            .into_iter()
            .map(|name| verb(name, JobGroupAct::Remove));
        Ok(verbs.collect())
    })
}

const MISSING: &str = "a job group is missing";

fn changing(
    name: &'static str,
    options: Command,
    args: &[OsString],
    verbs: fn(&ArgMatches) -> Result<Vec<Verb>>,
) -> i32 {
    match parse(options, args) {
        Ok(m) => finish(
            name,
            verbs(&m).and_then(|verbs| send_and_report(name, &m, &verbs, phrase)),
        ),
        Err(code) => code,
    }
}

/// `Job group </a> was added.`, as LSF words it.
fn phrase(outcome: &Outcome) -> String {
    format!("Job group <{}> {}.", outcome.what, outcome.text)
}

fn verb(name: String, act: JobGroupAct) -> Verb {
    Verb::JobGroup { name, act }
}

/// The operands, which are paths of groups.
fn groups(m: &ArgMatches) -> Result<Vec<String>> {
    let names = m.all("groups");
    for name in &names {
        job_group::check(name)
            .map_err(|e| Fail::usage(format!("'{}': {}", escape(name), e.message)))?;
    }
    Ok(names)
}

/// The only operand.
fn only_operand(m: &ArgMatches) -> Result<String> {
    let mut names = groups(m)?.into_iter();
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name),
        (None, _) => Err(Fail::usage(MISSING)),
        (Some(_), Some(_)) => Err(Fail::usage("give one job group")),
    }
}

fn limit(text: &str) -> Result<u32> {
    let limit = text.parse::<u32>().ok().filter(|n| *n <= LIMIT_MAX);
    limit.ok_or_else(|| {
        let text = escape(text);
        Fail::usage(format!(
            "-L: '{text}' is not a number of jobs from 0 to {LIMIT_MAX}"
        ))
    })
}

const LIST: Listing<GroupRow> = Listing {
    command: "cjgroup",
    records_key: "GROUPS",
    fields: shown::FIELDS,
    json_default: shown::JSON_DEFAULT,
    put_json: shown::put_json,
};

/// The options of `cjgroup`.
pub(super) fn options() -> Command {
    let cmd = command("cjgroup", "List job groups with their numbers of jobs")
        .arg(flag("s", "Each group is followed by its subgroups"))
        .arg(flag("N", "Numbers of slots instead of jobs"))
        .arg(flag("w", "Wide: no value is cut"))
        .arg(super::past_view::option())
        .arg(group_operand(
            "Only this group and its subgroups; with / at its end only the group",
        ));
    table::options(cmd)
}

/// Runs `cjgroup`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open_at("cjgroup", &m).and_then(|source| {
        let (out, exit) = show(&m, &source)?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end("cjgroup", answer)
}

/// The output of `cjgroup` and its exit code.
///
/// # Errors
/// The view cannot be read, or the operand is not the path of a group.
pub(super) fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit)> {
    let (top, alone) = group_and_depth(m)?;
    let params = source.params()?;
    let users = source.allowed(&params, Users::All);
    let sums = sums(source, &users, m.has("N"))?;
    source.banner(&params);
    let mut rows = sums.rows(&explicit(source)?, top.as_deref(), m.has("s"));
    rows.retain(|row| !alone || top.as_deref() == Some(&row.name));
    if rows.is_empty() {
        return match top {
            Some(top) => Err(Fail::not_found(format!("{top}: no such job group"))),
            None => Err(Fail::not_found("No job group found")),
        };
    }
    let rows: Vec<&GroupRow> = rows.iter().collect();
    let table = || shown::table(m.has("N"), m.has("w"));
    Ok((LIST.render(m, &rows, table)?, Exit::Ok))
}

/// The operand: a group, and whether its subgroups are left out.
fn group_and_depth(m: &ArgMatches) -> Result<(Option<String>, bool)> {
    let names = m.all("groups");
    let name = match names.as_slice() {
        [] => return Ok((None, false)),
        [name] => name.as_str(),
        _ => return Err(Fail::usage("give one job group")),
    };
    let path = name.strip_suffix('/').unwrap_or(name);
    job_group::check(path)
        .map_err(|e| Fail::usage(format!("'{}': {}", escape(name), e.message)))?;
    Ok((Some(path.to_owned()), path != name))
}

fn explicit(source: &Source) -> Result<Vec<JobGroup>> {
    match source.view.job_groups() {
        Ok(groups) => Ok(groups),
        // A leader of an older version publishes none.
        Err(crate::spool::view::ViewError::None(_)) => Ok(Vec::new()),
        Err(e) => Err(source.failed(e)),
    }
}

fn sums(source: &Source, users: &Users, slots: bool) -> Result<GroupSums> {
    let in_group = |spec: &crate::model::Spec| !spec.job_group.is_empty();
    let want = JobSet {
        finished: true,
        spec: Some(&in_group),
        ..JobSet::default()
    };
    let mut sums = GroupSums::new(slots);
    let reading = source.view.stream(&want, &mut |piece| match piece {
        ViewItem::Restart => sums = GroupSums::new(slots),
        ViewItem::Job { row, spec, .. } => {
            if users.has(spec.uid, &spec.user, &spec.queue) {
                sums.add(&row, spec);
            }
        }
    });
    source.warn(&reading.map_err(|e| source.failed(e))?.warnings);
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn limits_and_groups_are_checked_before_anything_is_sent() {
        let add = |line: &str| {
            let m = parse(cgadd_options(), &words(line)).expect("clap accepts it");
            let limit = m.last("L").map(limit).transpose();
            limit.and_then(|limit| Ok((only_operand(&m)?, limit)))
        };
        let good = add("-L 0 /a/b").expect("good");
        assert_eq!(good, ("/a/b".to_owned(), Some(0)));
        assert_eq!(add("/a").expect("good").1, None);
        for (bad, want) in [
            ("", MISSING),
            ("/a /b", "give one job group"),
            ("a", "'a': a job group starts with /"),
            ("/a/", "'/a/': a name is missing"),
            ("-L x /a", "-L: 'x' is not a number"),
            ("-L 2147483648 /a", "from 0 to 2147483647"),
        ] {
            let fail = add(bad).expect_err(bad);
            assert!(fail.text.contains(want), "{bad}: {}", fail.text);
            assert_eq!(fail.exit, Exit::Usage);
        }
    }

    #[test]
    fn a_group_with_a_slash_at_its_end_is_shown_alone() {
        let of = |line: &str| {
            let m = parse(options(), &words(line)).expect("clap accepts it");
            group_and_depth(&m).map_err(|fail| fail.text)
        };
        assert_eq!(of(""), Ok((None, false)));
        assert_eq!(of("/a/b"), Ok((Some("/a/b".into()), false)));
        assert_eq!(of("-s /a/b/"), Ok((Some("/a/b".into()), true)));
        assert!(of("/").is_err() && of("/a /b").is_err() && of("a").is_err());
    }

    #[test]
    fn golden_output() {
        let bed = test_cluster::cluster();
        let lines = [
            "",
            "-s",
            "-N",
            "-s /proj/",
            "/proj/b",
            "-json",
            "--json",
            "-o 'group_name jlimit'",
        ];
        test_cluster::compare("cjgroup", &lines, |words| {
            let m = test_cluster::parse(options(), words);
            show(&m, &bed.source("cjgroup", 10)).expect("it answers").0
        });
    }
}
