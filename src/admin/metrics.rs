//! `cadmin metrics`: the cluster's figures for Prometheus, to standard output or into a file for
//! the text collector of its node exporter.
//!
//! Reads the published view like any command, and asks no daemon. A file is replaced whole.

use super::{Sub, cmd, matches};
use crate::client::cli::Values;
use crate::client::exit::{Exit, Fail, Result};
use crate::client::job_requests::finish;
use crate::client::leadership;
use crate::client::read::{self, Source};
use crate::show::metrics::{Facts, JobSums, text};
use crate::spool::view::{Piece, Want};
use crate::sys::{clock, fs};
use clap::{Arg, Command};
use std::path::Path;

/// Its options.
pub(super) fn options(s: &Sub) -> Command {
    let file = Arg::new("file").long("file").value_name("FILE");
    cmd(s).arg(file.help("Replace FILE, whose name should end in .prom, instead of printing"))
}

/// Runs `cadmin metrics`; returns the exit code.
pub(super) fn run(s: &'static Sub, words: &[String]) -> i32 {
    match matches(options(s), words) {
        Ok(m) => finish("cadmin metrics", give(m.last("file"))),
        Err(code) => code,
    }
}

fn give(file: Option<&str>) -> Result<i32> {
    let source = Source::open("cadmin metrics")?;
    let out = figures(&source, clock::wall_ms())?;
    match file {
        None => read::put(&out)?,
        Some(path) => fs::publish(Path::new(path), out.as_bytes())?,
    }
    Ok(Exit::Ok.code())
}

fn figures(source: &Source, now_ms: i64) -> Result<String> {
    let params = source.params()?;
    let leader = leadership::leader(source, &params)?;
    let standby = leadership::standby(&source.layout, &leader.host);
    let (hosts, queues) = (source.counted_hosts()?, source.counted_queues()?);
    let mut jobs = JobSums::new(now_ms);
    let read = source
        .view
        .stream(&Want::default(), &mut |piece| match piece {
            Piece::Restart => jobs = JobSums::new(now_ms),
            Piece::Job { row, spec, .. } => jobs.add(&row, spec),
        });
    let read = read.map_err(|e| source.failed(e))?;
    source.warn(&read.warnings);
    let facts = Facts {
        silent_ms: leadership::silence(source, &params),
        users: source.sees_all(&params),
        params: &params,
        leader: &leader,
        standby: &standby,
        hosts: &hosts,
        queues: &queues,
        jobs: &jobs,
    };
    text(&facts).map_err(|e| Fail::system(format!("the figures cannot be written as text: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;
    use crate::client::read::test_view::NOW;

    fn page() -> String {
        let bed = test_cluster::cluster();
        figures(&bed.source("cadmin metrics", 0), NOW).expect("it answers")
    }

    #[test]
    fn golden_output() {
        test_cluster::compare("cadmin-metrics", &[""], |_| page());
    }

    /// A figure that was renamed would leave an empty panel and a rule that never fires.
    #[test]
    fn rules_and_dashboard_name_figures_that_there_are() {
        let names = include_str!("../show/metrics.rs");
        let there = |name: &str| names.contains(&format!("\"{name}\""));
        let all = [
            include_str!("../../etc/monitoring/corral.rules.yml"),
            include_str!("../../etc/monitoring/grafana-corral.json"),
            include_str!("../../docs/monitoring.md"),
        ];
        let mut n = 0;
        for text in all {
            let word = |c: char| !(c.is_ascii_lowercase() || c == '_');
            for name in text.split(word).filter(|w| w.starts_with("corral_")) {
                assert!(there(name), "{name}");
                n += 1;
            }
        }
        assert!(n > 50, "{n}");
    }
}
