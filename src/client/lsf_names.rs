//! LSF's names of the commands: links to the same executable, so that programs and scripts written
//! for LSF run unchanged.
//!
//! Owns the table of these names and the few commands that only LSF has. A name runs the code of
//! Corral's own command; the differences between the names are its exit code (`exit`) and those
//! listed in docs/lsf.md.

use super::cli::{self, Values, command, flag, operands};
use super::exit::{Exit, Fail};
use super::leadership;
use super::read::{self, Source};
use super::{Entry, entry};
use super::{
    cacct, capps, cdeps, checkpoint, chist, chosts, cid, cinfo, cjobs, climits, cload, cmod,
    cparams, cpeek, cqueues, crun, cslots, csub, cusers, cwait, job_groups, messages, migrate,
    reorder, requeue, signal, switch,
};
use crate::language::tell;
use crate::record::view::Params;
use crate::text::width::escape;
use clap::Command;
use std::ffi::OsString;
use std::fmt::Write as _;

/// Each name with Corral's own name of the command.
pub(crate) const COMMANDS: &[Entry] = &[
    entry(&["bsub"], "csub", csub::run),
    entry(&["bjobs"], "cjobs", cjobs::run),
    entry(&["bkill"], "ckill", signal::ckill),
    entry(&["bstop"], "cstop", signal::cstop),
    entry(&["bresume"], "cresume", signal::cresume),
    entry(&["brequeue"], "crequeue", requeue::run),
    entry(&["bmig"], "cmig", migrate::run),
    entry(&["bgadd"], "cgadd", job_groups::cgadd),
    entry(&["bgmod"], "cgmod", job_groups::cgmod),
    entry(&["bgdel"], "cgdel", job_groups::cgdel),
    entry(&["bjgroup"], "cjgroup", job_groups::run),
    entry(&["bmod"], "cmod", cmod::run),
    entry(&["bswitch"], "cswitch", switch::run),
    entry(&["btop"], "ctop", reorder::ctop),
    entry(&["bbot"], "cbot", reorder::cbot),
    entry(&["bpost"], "cpost", messages::cpost),
    entry(&["bread"], "cread", messages::cread),
    entry(&["bpeek"], "cpeek", cpeek::run),
    entry(&["bhist"], "chist", chist::run),
    entry(&["bacct"], "cacct", cacct::run),
    entry(&["bapp"], "capps", capps::run),
    entry(&["bqueues"], "cqueues", cqueues::run),
    entry(&["bhosts"], "chosts", chosts::run),
    entry(&["blimits"], "climits", climits::run),
    entry(&["bslots"], "cslots", cslots::run),
    entry(&["busers"], "cusers", cusers::run),
    entry(&["bparams"], "cparams", cparams::run),
    entry(&["bjdepinfo"], "cdeps", cdeps::run),
    entry(&["bwait"], "cwait", cwait::run),
    entry(&["brun"], "crun", crun::run),
    entry(&["bchkpnt"], "cchkpnt", checkpoint::run),
    entry(&["brestart"], "crestart", csub::restart::run),
    entry(&["bmgroup"], "lists host groups", bmgroup),
    entry(&["bugroup"], "lists user groups", bugroup),
    entry(&["lsid"], "cid", cid::run),
    entry(&["lsclusters"], "lists the cluster", lsclusters),
    entry(&["lsload"], "cload", cload::run),
    entry(&["lshosts"], "cinfo -H", lshosts),
    entry(&["lsinfo"], "cinfo", cinfo::run),
];

/// Width of the columns with names.
const NAME: usize = 17;

fn lshosts(args: &[OsString]) -> i32 {
    let mut words = vec![OsString::from("-H")];
    words.extend(args.iter().cloned());
    cinfo::run(&words)
}

/// A function that returns the output of a command of this file, and its exit code.
type Text = fn(&Source, &[String]) -> Result<(String, Exit), Fail>;

/// The options of a command that only LSF has.
pub(super) fn options(name: &str) -> Option<Command> {
    let (name, about) = match name {
        "lsclusters" => ("lsclusters", "Show the cluster, its leader and its hosts"),
        "bmgroup" => ("bmgroup", "List the host groups of cb.yaml"),
        "bugroup" => ("bugroup", "List the user groups of cb.yaml"),
        _ => return None,
    };
    let cmd = command(name, about)
        .arg(flag("w", "Wide: the same, since no value is ever cut"))
        .arg(operands("names", "NAME", "Only these; default: all"));
    Some(cmd)
}

/// Runs one of the commands of this file: `text` produces its output.
fn list(name: &'static str, args: &[OsString], text: Text) -> i32 {
    let cmd = options(name).unwrap_or_else(|| command(name, ""));
    let m = match cli::parse(cmd, args) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open(name).and_then(|source| {
        let (out, exit) = text(&source, &m.all("names"))?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end(name, answer)
}

fn lsclusters(args: &[OsString]) -> i32 {
    list("lsclusters", args, clusters)
}

fn clusters(source: &Source, names: &[String]) -> Result<(String, Exit), Fail> {
    let params = source.params()?;
    if let Some(other) = names.iter().find(|name| **name != params.cluster) {
        return Err(read::unknown(
            "cluster",
            other,
            std::iter::once(params.cluster.as_str()),
        ));
    }
    let leader = leadership::leader(source, &params)?;
    let silent = leadership::silence(source, &params).is_some();
    let status = if silent { "unavail" } else { "ok" };
    Ok((
        cluster_table(&params, status, &leader.host, source.hosts()?.len()),
        Exit::Ok,
    ))
}

/// Two lines of six words. Every host accepts submissions, so all count as servers.
fn cluster_table(params: &Params, status: &str, leader: &str, hosts: usize) -> String {
    let first = |name: &str| match name {
        "" => "-".to_owned(),
        name => escape(name).into_owned(),
    };
    let admin = params.administrators.first().map_or("", String::as_str);
    format!(
        "{:<NAME$}{:<10}{:<24}{:<12}{:>6}{:>9}\n{:<NAME$}{:<10}{:<24}{:<12}{:>6}{:>9}\n",
        "CLUSTER_NAME",
        "STATUS",
        "MASTER_HOST",
        "ADMIN",
        "HOSTS",
        "SERVERS",
        format!("{} ", first(&params.cluster)),
        format!("{status} "),
        format!("{} ", first(leader)),
        format!("{} ", first(admin)),
        hosts,
        hosts
    )
}

fn bmgroup(args: &[OsString]) -> i32 {
    list("bmgroup", args, |source, names| {
        let groups = source.params()?.host_groups;
        Ok(group_table("HOSTS", &groups, names))
    })
}

fn bugroup(args: &[OsString]) -> i32 {
    list("bugroup", args, |source, names| {
        let groups = source.params()?.user_groups.into_iter();
        let groups: Vec<_> = groups.map(|(name, users, _)| (name, users)).collect();
        Ok(group_table("USERS", &groups, names))
    })
}

/// A line for each group: its name, then its members.
fn group_table(title: &str, groups: &[(String, Vec<String>)], names: &[String]) -> (String, Exit) {
    let mut exit = Exit::Ok;
    for name in names.iter().filter(|n| !groups.iter().any(|g| g.0 == **n)) {
        let known = groups.iter().map(|g| g.0.as_str());
        tell!("{}", read::unknown("group", name, known).text);
        exit = Exit::NotFound;
    }
    let mut out = String::new();
    let shown = groups
        .iter()
        .filter(|g| names.is_empty() || names.contains(&g.0));
    for (n, (name, members)) in shown.enumerate() {
        if n == 0 {
            let _ = writeln!(out, "{:<NAME$}{title}", "GROUP_NAME");
        }
        let name = format!("{} ", escape(name));
        let _ = writeln!(out, "{name:<NAME$}{}", escape(&members.join(" ")));
    }
    (out, exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_line_begins_with_the_clusters_name() {
        let params = Params {
            cluster: "c1".into(),
            administrators: vec!["adm".into(), "b".into()],
            ..Params::default()
        };
        let text = cluster_table(&params, "ok", "h2", 3);
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(words[0].len(), 6);
        assert_eq!(words[1], ["c1", "ok", "h2", "adm", "3", "3"]);
        let none = cluster_table(&Params::default(), "ok", "", 0);
        assert!(none.contains("\n- "), "{none}");
    }

    #[test]
    fn groups_are_listed_whole_or_by_name() {
        let groups = vec![
            ("g1".to_owned(), vec!["h1".to_owned(), "h2".to_owned()]),
            ("g2".to_owned(), vec!["all".to_owned()]),
        ];
        let (text, exit) = group_table("HOSTS", &groups, &[]);
        assert_eq!(exit, Exit::Ok);
        assert_eq!(
            text,
            "GROUP_NAME       HOSTS\ng1               h1 h2\ng2               all\n"
        );
        let (text, exit) = group_table("HOSTS", &groups, &["g2".into(), "g3".into()]);
        assert_eq!((text.lines().count(), exit), (2, Exit::NotFound));
        assert_eq!(group_table("USERS", &[], &[]).0, "");
    }
}
