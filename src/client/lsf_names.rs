//! LSF's names of the commands: links to the same executable, so that programs and scripts written
//! for LSF run unchanged.
//!
//! Owns the table of these names and the few commands that only LSF has. A name runs the code of
//! Corral's own command; the differences between the names are its exit code (`exit`) and those
//! listed in docs/lsf.md.

use super::exit::{Exit, Fail};
use super::groups::{self, NAME};
use super::leadership;
use super::read::{self, Source};
use super::{Entry, entry};
use super::{
    cacct, capps, cdeps, checkpoint, chist, chosts, cid, cinfo, cjobs, climits, cload, cmod,
    cparams, cpeek, cqueues, crun, cslots, csub, cusers, cwait, job_groups, messages, migrate,
    reorder, requeue, signal, switch,
};
use crate::record::view::Params;
use crate::text::width::escape;
use clap::Command;
use std::ffi::OsString;

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
    entry(&["bmgroup"], "cmgroup", groups::cmgroup),
    entry(&["bugroup"], "cugroup", groups::cugroup),
    entry(&["lsid"], "cid", cid::run),
    entry(&["lsclusters"], "lists the cluster", lsclusters),
    entry(&["lsload"], "cload", cload::run),
    entry(&["lshosts"], "cinfo -H", lshosts),
    entry(&["lsinfo"], "cinfo", cinfo::run),
];

fn lshosts(args: &[OsString]) -> i32 {
    let mut words = vec![OsString::from("-H")];
    words.extend(args.iter().cloned());
    cinfo::run(&words)
}

/// The options of a command that only LSF has.
pub(super) fn options(name: &str) -> Option<Command> {
    (name == "lsclusters").then(lsclusters_options)
}

fn lsclusters_options() -> Command {
    groups::names_only("lsclusters", "Show the cluster, its leader and its hosts")
}

fn lsclusters(args: &[OsString]) -> i32 {
    groups::list("lsclusters", lsclusters_options(), args, clusters)
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
}
