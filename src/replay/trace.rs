//! `cbsim trace`: replays a workload under one or several configurations and prints the results.
//! Owns the sequence and the messages to the user; other modules read, decide and measure.

use super::meter::{Meter, Sample};
use super::metrics::{self, Summary};
use super::plot::{Panel, svg};
use super::report::{Report, table};
use super::virtual_cluster::{Outcome, Replay};
use super::virtual_leader::{ClusterSetting, VirtualLeader};
use super::when::{self, LiveWorkload};
use super::workload::{Principals, Workload, print_id, print_seconds};
use super::{csv, files, from_journal, policy, shares, swf};
use crate::config::{self, Config, OsNames};
use crate::language::tell;
use crate::sys;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// When a workload without a start time starts: a Monday, midnight UTC.
const START_MS: i64 = 1_704_067_200_000;

/// Replays a workload under one or several configurations.
#[derive(clap::Args)]
pub struct TraceArgs {
    /// The workload: a log in the Standard Workload Format, plain or packed with gzip
    #[arg(long, value_name = "FILE", conflicts_with = "jobs")]
    swf: Option<PathBuf>,
    /// The workload: CSV with a header line, or SWF if the name ends in .swf or .swf.gz
    #[arg(long, value_name = "FILE")]
    jobs: Option<PathBuf>,
    /// The workload: what ran in a cluster, from its shared directory or one file of its journal
    #[arg(long, value_name = "DIR|FILE", conflicts_with_all = ["jobs", "swf"])]
    journal: Option<PathBuf>,
    /// What waits and runs in a cluster now, from its shared directory; nothing there is changed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["jobs", "swf", "journal", "policy"])]
    from_state: Option<PathBuf>,
    /// With --from-state: how long jobs without a run limit run
    #[arg(long, value_name = "TIME", default_value = "1h")]
    assume: String,
    /// Processors of the one host of --policy [default: the number in the log]
    #[arg(long, value_name = "N")]
    procs: Option<u32>,
    /// fcfs, easy, sjbf or conservative; several give a table
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<String>,
    /// A cb.yaml; several give a table
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Cores of hosts whose slots are their cores
    #[arg(long, value_name = "N", default_value_t = 1)]
    cores: u32,
    /// Writes a line `id start` for each job that started; - is standard output
    #[arg(long, value_name = "OUT")]
    starts: Option<PathBuf>,
    /// Draws utilization and waiting over time
    #[arg(long, value_name = "OUT.svg")]
    plot: Option<PathBuf>,
    /// A JSON object for each replay instead of a table
    #[arg(long)]
    json: bool,
    /// Treat lines that cannot be read as an error
    #[arg(long)]
    strict: bool,
}

/// One configuration for the replay.
struct TraceRun {
    name: String,
    config: Arc<Config>,
}

/// The result of a replay.
struct Replayed {
    report: Report,
    outcome: Outcome,
    samples: Vec<Sample>,
    slots: u64,
}

/// Carries out the command. Returns its exit code.
///
/// # Errors
/// A sentence for the user.
pub fn main(args: &TraceArgs) -> Result<i32, String> {
    let begun = sys::clock::boot_ns();
    let mut runs = configs(args)?;
    let mut live = None;
    let (file, mut workload) = match &args.from_state {
        Some(share) => {
            let found = when::read_cluster(share, &args.assume)?;
            if runs.is_empty() {
                let (bytes, name) = &found.live.config;
                let config = load(bytes, name)?;
                runs.push(TraceRun {
                    name: "now".to_owned(),
                    config,
                });
            }
            let (name, workload) = (share.display().to_string(), found.present.workload.clone());
            live = Some(found);
            (name, workload)
        }
        None => workload(args, &runs)?,
    };
    if !args.policy.is_empty() {
        runs.extend(policies(args, &file, &mut workload)?);
    }
    if runs.is_empty() {
        return Err("no configuration: give --policy NAME or --config FILE".to_owned());
    }
    for sentence in workload.left_out.sentences() {
        tell!("cbsim: {sentence}");
    }
    if args.strict && workload.left_out.bad > 0 {
        return Err(format!("{file} has lines that cannot be read"));
    }
    let principals = Principals::of(&workload);
    let reading = sys::clock::boot_ns() - begun;
    let mut results = Vec::new();
    for run in &runs {
        let begun = sys::clock::boot_ns();
        let mut result = replay(run, &workload, &principals, args, live.as_ref());
        let took = sys::clock::boot_ns() - begun + reading;
        result.report.wall_s = (took / 1000) as f64 / 1e6;
        report_errors(run, &result.outcome);
        results.push(result);
    }
    output(args, &workload, &results)?;
    Ok(0)
}

fn policies(
    args: &TraceArgs,
    file: &str,
    workload: &mut Workload,
) -> Result<Vec<TraceRun>, String> {
    let procs = args
        .procs
        .or(workload.procs)
        .ok_or_else(|| format!("{file} does not state the number of processors: give --procs"))?;
    workload.drop_oversized(procs);
    let each = args.policy.iter().map(|name| {
        let text = policy::config(name, procs)?;
        let config = load(text.as_bytes(), name)?;
        let name = name.clone();
        Ok(TraceRun { name, config })
    });
    each.collect()
}

fn configs(args: &TraceArgs) -> Result<Vec<TraceRun>, String> {
    let mut runs = Vec::new();
    for path in &args.config {
        let name = short_name(path, &args.config);
        let bytes = files::read(path)?;
        let config = load(&bytes, &path.display().to_string())?;
        if config.host_names().next().is_none() {
            return Err(format!(
                "{name} lists no host: a virtual cluster has only listed hosts"
            ));
        }
        runs.push(TraceRun { name, config });
    }
    Ok(runs)
}

/// The name of a file without its directory, if that tells the files apart.
fn short_name(path: &Path, all: &[PathBuf]) -> String {
    let alike = all.iter().filter(|p| p.file_name() == path.file_name());
    match path.file_name() {
        Some(name) if alike.count() == 1 => name.to_string_lossy().into_owned(),
        _ => path.display().to_string(),
    }
}

/// Reads a configuration.
///
/// # Errors
/// Every problem of the configuration, one per line.
pub fn load(bytes: &[u8], name: &str) -> Result<Arc<Config>, String> {
    let problems = match config::load(bytes, name, &OsNames::ANY) {
        Ok(loaded) => return Ok(Arc::new(loaded.config)),
        Err(problems) => problems,
    };
    let mut text = format!("{name} cannot be used");
    for problem in problems {
        text.push_str(&format!("\n{problem}"));
    }
    Err(text)
}

fn workload(args: &TraceArgs, runs: &[TraceRun]) -> Result<(String, Workload), String> {
    let (path, is_swf) = match (&args.swf, &args.jobs) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => {
            let name = path.to_string_lossy();
            let name = name.trim_end_matches(".gz");
            (path, name.ends_with(".swf"))
        }
        (None, None) => {
            let Some(path) = &args.journal else {
                let how = "no workload: give --swf, --jobs, --journal or --from-state";
                return Err(how.to_owned());
            };
            return Ok((path.display().to_string(), from_journal::read(path)?));
        }
    };
    let file = path.display().to_string();
    let bytes = files::read(path)?;
    let workload = match is_swf {
        true => swf::read(&bytes, &file)?,
        false => csv::read(&bytes, &file, &|name| {
            let declared = |run: &TraceRun| run.config.hosts.resources.contains_key(name);
            runs.iter().any(declared)
        })?,
    };
    Ok((file, workload))
}

fn replay(
    run: &TraceRun,
    workload: &Workload,
    principals: &Principals,
    args: &TraceArgs,
    live: Option<&LiveWorkload>,
) -> Replayed {
    let (config, setting) = match live {
        Some(found) => {
            let (config, setting) = found.setting(run.config.clone());
            (config, Some(setting))
        }
        None => (run.config.clone(), None),
    };
    let mut core = VirtualLeader::new(ClusterSetting {
        workload,
        principals,
        config,
        base_ms: match live {
            Some(found) => found.live.now.0,
            None => workload.start_ms.unwrap_or(START_MS),
        },
        cores: args.cores,
        // On the single host of a log, no resources lie in fragments that another host could take.
        waste: args.policy.is_empty(),
        live: setting,
    });
    let first = workload.jobs.first().map_or(0, |j| j.submit_ms);
    let first = if live.is_some() { 0 } else { first };
    let (users, groups) = shares::shares(&run.config, workload, principals);
    let meter = Meter::new(first, users, groups, core.waste_capacity());
    let mut replay = Replay::new(workload, &principals.by_request, Some(meter));
    if let Some(found) = live {
        found.present.adopt(&mut replay, &core);
    }
    let mut outcome = replay.run(&mut core);
    // In the order of the workload, so that sums do not depend on the order of ends.
    outcome.done.sort_by_key(|d| d.job);
    let slots = core.slots();
    let mut summary = metrics::summarize(&outcome.done, slots);
    let meter = replay.meter.take();
    let samples = measured(&mut summary, meter, &core, &outcome);
    let report = Report::new(&run.name, summary, &outcome, workload.left_out.total());
    Replayed {
        report,
        outcome,
        samples,
        slots,
    }
}

/// Replays a workload on the hosts of a configuration. Returns what happened, without measurements.
pub fn run(workload: &Workload, config: Arc<Config>) -> Outcome {
    let principals = Principals::of(workload);
    let mut core = VirtualLeader::new(ClusterSetting {
        workload,
        principals: &principals,
        config,
        base_ms: workload.start_ms.unwrap_or(START_MS),
        cores: 1,
        waste: false,
        live: None,
    });
    Replay::new(workload, &principals.by_request, None).run(&mut core)
}

fn measured(
    summary: &mut Summary,
    meter: Option<Meter>,
    core: &VirtualLeader<'_>,
    outcome: &Outcome,
) -> Vec<Sample> {
    let Some(meter) = meter else {
        return Vec::new();
    };
    let span_ms = (summary.makespan_s * 1000.0).round() as i64;
    summary.resources = meter.resources(span_ms, &core.resources());
    summary.fragmentation = meter.fragmentation(span_ms);
    let done = &outcome.done;
    let (users, groups) = (&meter.users, &meter.groups);
    summary.users = metrics::fairness(done, users.shares(), |d| d.user, users.share_error());
    summary.groups = metrics::fairness(done, groups.shares(), |d| d.group, groups.share_error());
    meter.into_samples()
}

/// Reports the errors of a replay.
fn report_errors(run: &TraceRun, outcome: &Outcome) {
    let name = &run.name;
    for (id, why) in &outcome.refused {
        tell!("cbsim: {name}: job {} was refused: {why}", print_id(*id));
    }
    if outcome.refused_jobs > 0 {
        tell!("cbsim: {name}: {} jobs were refused", outcome.refused_jobs);
    }
    for (id, why) in &outcome.never_ended {
        tell!("cbsim: {name}: job {} never ended: {why}", print_id(*id));
    }
    if outcome.never_ended_count > 0 {
        tell!(
            "cbsim: {name}: {} jobs never ended",
            outcome.never_ended_count
        );
    }
}

fn output(args: &TraceArgs, workload: &Workload, results: &[Replayed]) -> Result<(), String> {
    if let Some(path) = &args.starts {
        for (n, result) in results.iter().enumerate() {
            let path = numbered(path, &result.report.name, n, results.len());
            files::write(&path, starts(workload, &result.outcome).as_bytes())?;
        }
    }
    if let Some(path) = &args.plot {
        let panels: Vec<Panel<'_>> = results
            .iter()
            .map(|r| Panel {
                title: &r.report.name,
                samples: &r.samples,
                slots: r.slots,
            })
            .collect();
        files::write(path, svg(&panels).as_bytes())?;
    }
    let one_log = results.len() == 1 && args.policy.len() == 1;
    if args.json || one_log {
        for result in results {
            println!("{}", result.report.json());
        }
        return Ok(());
    }
    let reports: Vec<Report> = results.iter().map(|r| r.report.clone()).collect();
    print!("{}", table(&reports));
    Ok(())
}

/// With several replays, each has its own file, `OUT.NAME`.
fn numbered(path: &Path, name: &str, n: usize, all: usize) -> PathBuf {
    if all == 1 || path == Path::new("-") {
        return path.to_path_buf();
    }
    let base = Path::new(name)
        .file_name()
        .map(|f| f.to_string_lossy().into_owned());
    let base = base.unwrap_or_else(|| n.to_string());
    PathBuf::from(format!("{}.{base}", path.display()))
}

fn starts(workload: &Workload, outcome: &Outcome) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(16 * workload.jobs.len());
    for (job, start) in workload.jobs.iter().zip(&outcome.starts) {
        if let Some(ms) = start {
            writeln!(out, "{} {}", print_id(job.id), print_seconds(*ms))
                .expect("writing to a String cannot fail");
        }
    }
    out
}
