//! `cjobs --why`: why a job waits and what would help; why it failed and what to do.
//!
//! Owns the sequence: which jobs, the copy of the cluster on which they are examined, the estimate
//! of their start, the end of their output. Sends no request to the leader: everything comes from
//! the published view, cb.yaml and the job's own files.

mod candidates;
mod ended;
mod page;
mod pending;
mod subjects;
#[cfg(test)]
mod tests;
mod text;
mod units;

use crate::client::cli::Values as _;
use crate::client::cluster_copy::{self, ClusterCopy};
use crate::client::cpeek;
use crate::client::exit::{Exit, Fail};
use crate::client::read::{self, Source};
use crate::language::{tell, translated};
use crate::model::{JobKey, JobStat};
use crate::record::view::JobRow;
use crate::replay::estimate::{SimulationStart, StartEstimates, estimate};
use crate::replay::live_cluster;
use crate::show::Dates;
use crate::spool::view::{JobSet, ViewJob};
use crate::sys;
use crate::text::jobids::JobSel;
use clap::ArgMatches;
use page::{Estimate, Explained, JobCase, Output};
use std::collections::BTreeMap;
use std::path::Path;
use subjects::JobSubject;

/// Maximum number of jobs and groups of elements that one command explains.
const SUBJECTS_MAX: usize = 50;
/// Total time for trying changes, and for running the cluster forward, ms. A trial on a large
/// cluster takes tens of ms. What the second time does not suffice for is reported as later.
const TRY_MS: u64 = 2000;
const RUN_MS: u64 = 500;
/// The run time that is assumed for a job without a run limit, ms: the same as in `cbsim when`.
const ASSUME_MS: u64 = 3_600_000;
/// The part of an output file that is shown: the bytes that are read, and lines.
const TAIL_BYTES: usize = 8192;
const TAIL_LINES: usize = 10;
/// Files are written by this much before the start or after the end of a job at most, ms: clocks of
/// hosts and of the file server differ, and the report follows the output.
const CLOCKS_MS: i64 = 10_000;
const OF_OTHERS: &str = "not shown: the file was last written when this job did not run, so that \
                         it is not, or not only, its output";
/// Options that select or format rows: `--why` has its own page.
const OTHERS: &[&str] = &[
    "a", "d", "p", "r", "s", "A", "w", "W", "l", "UF", "t", "noheader",
];

/// Runs the command.
///
/// # Errors
/// No job is given, another page is requested as well, or the view or cb.yaml cannot be read.
pub(super) fn run(m: &ArgMatches, source: &Source) -> Result<Exit, Fail> {
    let ids = requested_jobs(m)?;
    let params = source.params()?;
    let users = read::selected_users(m, source, &params, &ids)?;
    source.banner(&params);
    let jobs = jobs(source, &ids)?;
    let found = subjects::find(jobs, &ids, &users);
    for label in &found.not_found {
        tell!("Job <{label}> is not found");
    }
    let mut subjects = found.subjects;
    let left_out = found.left_out + subjects.len().saturating_sub(SUBJECTS_MAX);
    subjects.truncate(SUBJECTS_MAX);
    if subjects.is_empty() {
        return Ok(Exit::NotFound);
    }
    let ctx = source.ctx();
    let waits = |subject: &JobSubject| subject.row.stat.is_waiting();
    let mut copy = match subjects.iter().any(waits) {
        true => Some(cluster_copy::read(source, &params, ctx.now)?),
        false => None,
    };
    let mut explained: Vec<Explained> = Vec::with_capacity(subjects.len());
    let until = sys::clock::boot_ms() + TRY_MS;
    for subject in subjects {
        let state = match &mut copy {
            Some(copy) if waits(&subject) => {
                let mut go_on = || sys::clock::boot_ms() < until;
                JobCase::Waiting(Box::new(pending::explain(copy, subject.j, &mut go_on)))
            }
            _ => of_started(source, &subject, &ctx.dates),
        };
        explained.push(Explained {
            subject,
            state,
            estimate: None,
        });
    }
    if let Some(copy) = copy {
        put_estimates(copy, &mut explained)?;
    }
    let form = match (m.has("json"), m.has("jsonl")) {
        (true, _) => page::Form::Records,
        (_, true) => page::Form::Lines,
        _ => page::Form::Text,
    };
    read::put(&page::print(&explained, form, &ctx.dates))?;
    if left_out > 0 {
        tell!(
            "{}: {left_out} more jobs or groups of elements are left out: name them",
            source.name
        );
    }
    Ok(Exit::Ok)
}

/// The selected jobs.
fn requested_jobs(m: &ArgMatches) -> Result<Vec<JobSel>, Fail> {
    if let Some(id) = OTHERS.iter().find(|id| m.has(id)) {
        return Err(Fail::usage(format!("--why and -{id} exclude each other")));
    }
    for id in ["o", "J", "m", "q", "P", "g"] {
        if m.last(id).is_some() {
            return Err(Fail::usage(format!("--why and -{id} exclude each other")));
        }
    }
    if m.has("json") && m.has("jsonl") {
        return Err(Fail::usage("-json and --json exclude each other"));
    }
    let ids = read::job_ids(m)?;
    if ids.is_empty() || ids.contains(&JobSel::All) {
        return Err(Fail::usage(
            "--why explains the jobs that are named\nhint: cjobs --why 123 \"124[3-5]\"",
        ));
    }
    Ok(ids)
}

fn jobs(source: &Source, ids: &[JobSel]) -> Result<Vec<ViewJob>, Fail> {
    let range = |sel: &JobSel| sel.id().map(|id| (id, id));
    let want = JobSet {
        ids: ids.iter().filter_map(range).collect(),
        finished: true,
        ..JobSet::default()
    };
    let (jobs, reading) = source.view.collect(&want).map_err(|e| source.failed(e))?;
    source.warn(&reading.warnings);
    Ok(jobs)
}

/// What is known of a job that has started or ended.
fn of_started(source: &Source, subject: &JobSubject, dates: &Dates) -> JobCase {
    let row = &subject.row;
    match row.stat {
        JobStat::Done | JobStat::Exit => {
            let cause = ended::cause(row, &subject.spec, &sys::signals::name);
            let output = match row.start > 0 {
                true => output(source, subject),
                false => Vec::new(),
            };
            JobCase::Ended(Box::new(cause), output)
        }
        _ => JobCase::Started(page::started(row, dates)),
    }
}

/// The last lines of a job's output, as far as the caller may read it.
fn output(source: &Source, subject: &JobSubject) -> Vec<Output> {
    let row = &subject.row;
    let job = ViewJob {
        row: subject.row.clone(),
        spec: subject.spec.clone(),
        why: None,
    };
    let ends = cpeek::ends(&job, &source.layout, TAIL_BYTES);
    let one = |end: cpeek::OutputEnd| Output {
        path: end.path.display().to_string(),
        lines: match is_of_job(row, modified_ms(&end.path)) {
            true => end
                .bytes
                .map(|bytes| page::last_lines(&bytes, TAIL_LINES))
                .map_err(|fail| fail.text),
            false => Err(translated(OF_OTHERS).into_owned()),
        },
    };
    ends.into_iter().map(one).collect()
}

fn modified_ms(path: &Path) -> Option<i64> {
    sys::fs::stat(path).ok().flatten().map(|stat| stat.mtime_ms)
}

/// Whether a file that was last written at this time can have the end of a job's own output.
fn is_of_job(row: &JobRow<'_>, modified_ms: Option<i64>) -> bool {
    modified_ms.is_none_or(|at| {
        let begun = at >= row.start.saturating_sub(CLOCKS_MS);
        begun && (row.end <= 0 || at <= row.end.saturating_add(CLOCKS_MS))
    })
}

/// Runs the copy forward until the waiting jobs have started.
fn put_estimates(copy: ClusterCopy, explained: &mut [Explained]) -> Result<(), Fail> {
    let open = |e: &&mut Explained| match &e.state {
        JobCase::Waiting(waiting) => !waiting.can_never_run && waiting.reason.is_some(),
        _ => false,
    };
    let jobs: Vec<JobKey> = explained
        .iter_mut()
        .filter(open)
        .map(|e| e.subject.j)
        .collect();
    if jobs.is_empty() {
        return Ok(());
    }
    let now = copy.now;
    let present = live_cluster::present(&copy.state, now, ASSUME_MS).map_err(Fail::system)?;
    let begin = SimulationStart {
        state: copy.state,
        config: copy.config,
        samples: copy.samples,
        now,
        present,
        zone: copy.zone,
    };
    let until = sys::clock::boot_ms() + RUN_MS;
    let go_on = Box::new(move || sys::clock::boot_ms() < until);
    let StartEstimates {
        jobs,
        unlimited,
        stopped_at,
    } = estimate(begin, &jobs, go_on);
    let mut of: BTreeMap<JobKey, Estimate> = BTreeMap::new();
    for job in jobs {
        let made = Estimate {
            now: now.0,
            start: job.at,
            simulated_until: stopped_at.filter(|_| job.at.is_none()),
            why: job.why,
            unlimited,
        };
        of.insert(job.j, made);
    }
    for e in explained {
        e.estimate = of.remove(&e.subject.j);
    }
    Ok(())
}
