//! `cid` (`lsid`): the cluster's name and the host of its leader.
//!
//! Reads the cluster file, the epoch and the beat besides the view, so that it works if the view is
//! old or missing.

use super::cli::{self, Values, command, flag};
use super::exit::{self, Exit, Fail};
use super::leadership;
use super::read::{self, Source};
use crate::language::tell;
use crate::show::{health, params};
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// The options of `cid`.
pub(super) fn options() -> Command {
    let cmd = command(
        "cid",
        "Show the name of the cluster and the host of its leader",
    )
    .arg(flag(
        "l",
        "Cluster id, epoch, version, administrators and alarms as well",
    ));
    read::json_options(cmd)
}

/// Runs `cid`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    read::end(
        "cid",
        Source::open("cid").and_then(|source| show(&source, &m)),
    )
}

fn show(source: &Source, m: &ArgMatches) -> Result<Exit, Fail> {
    let (out, exit) = answer(source, m)?;
    read::put(&out)?;
    Ok(exit)
}

fn answer(source: &Source, m: &ArgMatches) -> Result<(String, Exit), Fail> {
    let cluster = source.cluster()?;
    let params = source.view.params().unwrap_or_default();
    let leader = leadership::leader(source, &params)?;
    let name = if params.cluster.is_empty() {
        &cluster.name
    } else {
        &params.cluster
    };
    let mut out = String::new();
    let json = m.has("json") || m.has("jsonl");
    if exit::lsf_name().is_some() && !json {
        // The first lines of LSF's output: product and version.
        out.push_str(concat!("Corral ", env!("CARGO_PKG_VERSION"), "\n\n"));
    }
    if json {
        params::put_id_json(&mut out, name, &params, &leader);
        return Ok((out, Exit::Ok));
    }
    if leader.epoch == 0 {
        tell!("cid: no leader has been elected yet; start cbsched on a master host");
        out.push_str(&format!(
            "My cluster name is {}\n",
            crate::text::width::escape(name)
        ));
        return Ok((out, Exit::System));
    }
    params::put_id(&mut out, name, &leader);
    let mut exit = Exit::Ok;
    if m.has("l") {
        params::put_id_long(&mut out, &params, &leader, &source.ctx().dates);
        let standby = leadership::standby(&source.layout, &leader.host);
        let all_stand_by = health::put_standby(&mut out, &params, &leader.host, &standby);
        let wrong = [
            &params.alarms,
            &params.config_problems,
            &params.unconfigured_hosts,
        ];
        if !all_stand_by || wrong.iter().any(|list| !list.is_empty()) {
            exit = Exit::NotFound;
        }
    }
    if let Some(quiet) = leadership::silence(source, &params) {
        tell!(
            "cid: the leader has been silent for {}; another cbsched takes over if one runs",
            crate::text::duration::short(quiet)
        );
        exit = Exit::NotFound;
    }
    Ok((out, exit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_view::TestView;
    use crate::record::leader::{ClusterDoc, EpochDoc, encode_fixed};

    fn run_line(bed: &TestView, line: &[&str]) -> Result<(String, Exit), Fail> {
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        let m = cli::parse(options(), &read::split_json(&args)).unwrap();
        answer(&bed.source("cid", 10), &m)
    }

    fn cluster_file(bed: &TestView) {
        let doc = ClusterDoc {
            cluster: "id1".into(),
            name: "named".into(),
            format: 1,
            service_uid: 0,
            service_gid: 0,
        };
        let path = bed.dir.path().join("cluster");
        std::fs::write(path, serde_json::to_vec(&doc).unwrap()).unwrap();
        std::fs::create_dir(bed.dir.path().join("leader")).unwrap();
    }

    #[test]
    fn the_epoch_file_names_the_leader() {
        let bed = TestView::new();
        cluster_file(&bed);
        let doc = EpochDoc {
            epoch: 7,
            host: "h3".into(),
            ..EpochDoc::default()
        };
        std::fs::write(
            bed.dir.path().join("leader/epoch"),
            encode_fixed(&doc).unwrap(),
        )
        .unwrap();
        let (out, exit) = run_line(&bed, &[]).unwrap();
        assert_eq!(out, "My cluster name is c1\nMy master name is h3\n");
        assert_eq!(exit, Exit::Ok);
        let v: serde_json::Value =
            serde_json::from_str(&run_line(&bed, &["--json"]).unwrap().0).unwrap();
        assert_eq!((&v["master"], &v["epoch"]), (&"h3".into(), &7.into()));
        assert!(run_line(&bed, &["-l"]).unwrap().0.contains("epoch 7"));
    }

    #[test]
    fn no_leader_and_no_cluster_are_told_apart() {
        let bed = TestView::new();
        let fail = run_line(&bed, &[]).unwrap_err();
        assert!(fail.text.contains("no cluster in "), "{}", fail.text);
        cluster_file(&bed);
        let (out, exit) = run_line(&bed, &[]).unwrap();
        assert_eq!(
            (out.as_str(), exit),
            ("My cluster name is c1\n", Exit::System)
        );
    }
}
