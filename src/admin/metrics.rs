//! `cadmin metrics`: the cluster's metrics for Prometheus, to standard output or into a file for
//! the textfile collector of its node exporter.
//!
//! Reads the published view like any command and queries no daemon. A file is replaced as a whole.

use super::subcommand::{Subcommand, cmd, matches};
use crate::client::cli::Values;
use crate::client::exit::{Exit, Result};
use crate::client::job_requests::finish;
use crate::client::metrics;
use crate::client::read::{self, Source};
use crate::sys::fs;
use clap::{Arg, Command};
use std::path::Path;

/// The options of `cadmin metrics`.
pub(super) fn options(s: &Subcommand) -> Command {
    let file = Arg::new("file").long("file").value_name("FILE");
    cmd(s).arg(file.help("Replace FILE, whose name should end in .prom, instead of printing"))
}

/// Runs `cadmin metrics`; returns the exit code.
pub(super) fn run(s: &'static Subcommand, words: &[String]) -> i32 {
    match matches(options(s), words) {
        Ok(m) => finish("cadmin metrics", print_or_write(m.last("file"))),
        Err(code) => code,
    }
}

fn print_or_write(file: Option<&str>) -> Result<i32> {
    let source = Source::open("cadmin metrics")?;
    let out = metrics::text(&source)?;
    match file {
        None => read::put(&out)?,
        Some(path) => fs::publish(Path::new(path), out.as_bytes())?,
    }
    Ok(Exit::Ok.code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;
    use crate::client::read::test_view::NOW;

    fn page() -> String {
        let bed = test_cluster::cluster();
        let source = bed.source("cadmin metrics", 0);
        metrics::text_at(&source, NOW, Some((1 << 40, 1 << 39))).expect("it answers")
    }

    #[test]
    fn golden_output() {
        test_cluster::compare("cadmin-metrics", &[""], |_| page());
    }

    /// A renamed figure would leave an empty panel and a rule that never fires.
    #[test]
    fn rules_and_dashboard_name_figures_that_there_are() {
        let names = concat!(
            include_str!("../show/metrics.rs"),
            include_str!("../show/metrics/activity.rs")
        );
        let has = |name: &str| names.contains(&format!("\"{name}\""));
        let parts = ["_total", "_bucket", "_sum", "_count"];
        let there = |name: &str| {
            has(name)
                || parts
                    .iter()
                    .any(|part| name.strip_suffix(part).is_some_and(has))
        };
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
