//! `cadmin check`: the invariants of a live cluster, without writing anything and without a lock.
//!
//! Owns the command, the order of the checks and the exit code: 0 sound, 1 something is broken, 2
//! wrong command line, 3 unknown. Data that changes during the check (journal, orders, reports,
//! view) is read again, and only a lasting fault is reported, because jobs may run and leaders may
//! change during the check.

mod answers;
mod config_and_hosts;
mod context;
mod finding;
mod hosts;
mod journal;
mod leader;
mod progress;
mod share;
mod state;
mod view;

pub(crate) use context::{Ctx, open};
pub(crate) use finding::{CheckedCounts, Finding, Report};

use crate::language::tell;
use crate::sys;
use clap::{Command, CommandFactory as _, Parser};
use finding::UNKNOWN;
use progress::Progress;
use std::collections::HashSet;
use std::path::PathBuf;

/// Number of looks at changing data before a fault is reported.
const ROUNDS: usize = 3;
/// Pause between two looks, ms: longer than a leader needs for a turn and its view.
const PAUSE_MS: u64 = 2_000;
/// Maximum number of findings that are printed; further ones are counted.
const SHOWN_MAX: usize = 200;

/// Checks the invariants of a live cluster; reads only.
#[derive(Parser, Debug)]
#[command(name = "cadmin check", disable_version_flag = true)]
struct Args {
    /// The shared directory; without it, the cluster of CB_ENVDIR.
    dir: Option<PathBuf>,
    /// Print one JSON object instead of lines.
    #[arg(long)]
    json: bool,
    /// Print only what is broken or unknown.
    #[arg(short, long)]
    quiet: bool,
}

/// The options of `cadmin check`.
pub(super) fn options() -> Command {
    Args::command()
}

/// Runs `cadmin check` with its arguments; returns the exit code.
pub(crate) fn run(words: &[String]) -> i32 {
    let args = match crate::client::parsed::<Args>("cadmin check", words) {
        Ok(args) => args,
        Err(e) => return crate::client::usage(&e),
    };
    let ctx = match open(args.dir) {
        Ok(ctx) => ctx,
        Err(e) => {
            tell!("cadmin check: {}", e.text);
            return UNKNOWN;
        }
    };
    let report = run_checks_with(&ctx, &mut Progress::on_terminal());
    let text = if args.json {
        finding::json(&report)
    } else {
        finding::text(&report, args.quiet, SHOWN_MAX)
    };
    if let Err(e) = crate::client::read::put(&text) {
        tell!("cadmin check: {}", e.text);
        return UNKNOWN;
    }
    report.code()
}

/// A report as text.
pub(crate) fn report_text(report: &Report) -> String {
    finding::text(report, false, SHOWN_MAX)
}

/// Runs all checks.
pub(crate) fn run_checks(ctx: &Ctx) -> Report {
    run_checks_with(ctx, &mut Progress::silent())
}

fn run_checks_with(ctx: &Ctx, progress: &mut Progress) -> Report {
    let mut report = Report::default();
    let before = leader::beat(ctx);
    progress.begin_step("the share");
    report.findings.extend(share::check_all(ctx));
    let config = config_and_hosts::config(ctx, &mut report.findings);
    let lease_ms = config
        .as_ref()
        .map_or(15_000, |c| c.cluster.lease_timeout_ms);
    let (mut persistent, counts) = read_once(ctx, config.as_ref(), progress);
    report.counts = counts;
    for _ in 1..ROUNDS {
        if persistent.is_empty() {
            break;
        }
        progress.begin_step("data that may have changed, again");
        // Without a leader no request is accepted and nothing is published, so the end of a
        // takeover is awaited.
        leader::wait(ctx, lease_ms);
        sys::clock::sleep_ms(PAUSE_MS);
        let (again, counts) = read_once(ctx, config.as_ref(), progress);
        report.counts = counts;
        let keys: HashSet<&str> = again.iter().map(|f| f.key.as_str()).collect();
        persistent.retain(|f| keys.contains(f.key.as_str()));
    }
    report.findings.append(&mut persistent);
    progress.begin_step("the leader and the hosts");
    report
        .findings
        .extend(leader::check_beat(ctx, before.as_ref(), lease_ms));
    report.findings.extend(config_and_hosts::check_all(ctx));
    progress.end();
    report
        .findings
        .sort_by(|a, b| (a.level, a.area).cmp(&(b.level, b.area)));
    report
}

/// Reads once all data that change while the cluster works. Answers, orders and reports are read
/// before the journal, because each fact is in the journal before it is published.
fn read_once(
    ctx: &Ctx,
    config: Option<&crate::config::Config>,
    progress: &mut Progress,
) -> (Vec<Finding>, CheckedCounts) {
    let mut out = Vec::new();
    let mut counts = CheckedCounts::default();
    progress.begin_step("answers, orders and reports");
    let answers = answers::AcknowledgedJobs::read(ctx, &mut out);
    let orders_and_reports = hosts::OrdersAndReports::read(ctx, &mut out);
    let shown = view::ViewRows::read(ctx, &mut out);
    progress.begin_step("the journal");
    journal::history(ctx, &mut counts, &mut out);
    let state = journal::replay(ctx, &mut out);
    counts.hosts = orders_and_reports.hosts();
    counts.rows = shown.as_ref().map_or(0, view::ViewRows::len);
    let Some(state) = state else {
        return (out, counts);
    };
    counts.jobs = state.job_count();
    answers.check_against(&state, &mut out);
    orders_and_reports.check_against(&state, &mut out);
    if let Some(shown) = shown {
        shown.check_against(&state, &mut out);
    }
    if let Some(config) = config {
        state::check_totals(ctx, state, config, &mut out);
    }
    (out, counts)
}

#[cfg(test)]
mod tests;
