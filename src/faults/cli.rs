//! `cbsim faults`: runs one seed or many, and prints the results and the command that repeats a
//! failing seed with its trace.

use super::plan::{Focus, Options, Variant};
use super::{Figures, Outcome, run};
use crate::program::answer;
use crate::sys::{self, clock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lines of a trace shown before the failure.
const TAIL: usize = 200;

/// The arguments of `cbsim faults`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// First seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// File operations before the faults end.
    #[arg(long, default_value_t = 2000)]
    steps: u64,
    /// Number of master candidates.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    leaders: u8,
    /// Number of hosts.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    hosts: u8,
    /// Number of users that submit jobs and act on them.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    clients: u8,
    /// Protocol: d11 is the one in use; d0 d1 d2 d3 d4 d7 d8 d12 leave rules out and must fail.
    #[arg(long, default_value = "d11")]
    variant: String,
    /// Focus of all seeds: usual usurper cutoff gangs power verbs flips restore [default: drawn for
    /// each seed].
    #[arg(long)]
    focus: Option<String>,
    /// Number of seeds that run at the same time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// Stop after the first seed that breaks a promise.
    #[arg(long)]
    until_broken: bool,
    /// Print the whole trace of the first seed.
    #[arg(long)]
    trace: bool,
    /// With --trace: write the share and the local directories of the machines, as they are at the
    /// end, to this new directory.
    #[arg(long, requires = "trace", value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Runs `cbsim faults`. Returns the exit code: 0 = all promises were kept, 1 = one was broken.
///
/// # Errors
/// The variant is not known.
pub(crate) fn main(args: &Args) -> Result<i32, String> {
    let Some(variant) = Variant::parse(&args.variant) else {
        let all: Vec<&str> = Variant::ALL.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "--variant {}: not one of {}",
            args.variant,
            all.join(" ")
        ));
    };
    let focus = match &args.focus {
        None => None,
        Some(name) => Some(focus_named(name)?),
    };
    let options = Options {
        seed: args.seed,
        focus,
        steps: args.steps,
        leaders: args.leaders.into(),
        hosts: args.hosts.into(),
        clients: args.clients.into(),
        variant,
    };
    if args.trace {
        super::log_daemons();
        let outcome = run(&options, true);
        outcome.log.iter().for_each(|line| println!("{line}"));
        if let Some(dir) = &args.keep {
            keep_directories(dir, &outcome).map_err(|e| format!("--keep: {e}"))?;
        }
        return Ok(report(&options, &outcome));
    }
    let began = clock::boot_ms();
    let summary = run_seeds(&options, args.seeds, args.threads.into(), args.until_broken);
    let ms = clock::boot_ms() - began;
    print_summary(&options, &summary, ms);
    Ok(match &summary.first {
        None => 0,
        Some(outcome) => {
            let again = Options {
                seed: outcome.seed,
                ..options
            };
            super::log_daemons();
            let outcome = run(&again, true);
            let from = outcome.log.len().saturating_sub(TAIL);
            outcome.log[from..]
                .iter()
                .for_each(|line| println!("{line}"));
            report(&again, &outcome)
        }
    })
}

fn focus_named(name: &str) -> Result<Focus, String> {
    Focus::parse(name).ok_or_else(|| {
        let all: Vec<&str> = Focus::ALL.iter().map(|(name, _)| *name).collect();
        format!("--focus {name}: not one of {}", all.join(" "))
    })
}

/// Writes the directories at the end of a run.
fn keep_directories(dir: &Path, outcome: &Outcome) -> sys::Result<()> {
    if !sys::fs::mkdir(dir, 0o755)? {
        return Err(sys::Error::invalid("make", dir, "it exists already"));
    }
    for (name, disk) in &outcome.disks {
        for (path, content) in disk.all() {
            let to = PathBuf::from(format!("{}/{name}{path}", dir.display()));
            match content {
                None => sys::fs::mkdir_p(&to, 0o755)?,
                Some(bytes) => sys::fs::publish(&to, bytes)?,
            }
        }
    }
    Ok(())
}

/// The results of many seeds.
#[derive(Default)]
pub(super) struct Summary {
    pub runs: u64,
    pub figures: Figures,
    /// Seeds that broke a promise, with the first message of each.
    pub failed: BTreeMap<u64, String>,
    /// The failing run with the lowest seed.
    pub first: Option<Outcome>,
}

/// Runs `seeds` seeds from `options.seed` on, `threads` at a time; `until_broken`: up to the first
/// that breaks a promise.
pub(super) fn run_seeds(
    options: &Options,
    seeds: u64,
    threads: usize,
    until_broken: bool,
) -> Summary {
    let next = AtomicU64::new(0);
    let summary = Mutex::new(Summary::default());
    let work = |thread: usize| {
        crate::sys::thread::bind_to_processor(thread);
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= seeds {
                return;
            }
            let options = Options {
                seed: options.seed + n,
                ..options.clone()
            };
            let outcome = run(&options, false);
            let mut all = summary.lock().unwrap_or_else(|p| p.into_inner());
            all.add(outcome);
            if until_broken && all.first.is_some() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    summary.into_inner().unwrap_or_else(|p| p.into_inner())
}

impl Summary {
    fn add(&mut self, outcome: Outcome) {
        self.runs += 1;
        self.figures.add(&outcome.figures);
        if let Some(text) = outcome.broken.first() {
            self.failed.insert(outcome.seed, text.clone());
            if self.first.as_ref().is_none_or(|f| f.seed > outcome.seed) {
                self.first = Some(outcome);
            }
        }
    }
}

fn print_summary(options: &Options, all: &Summary, ms: u64) {
    let sum = &all.figures;
    let rate = all.runs as f64 * 1000.0 / ms.max(1) as f64;
    answer(&format!(
        "variant {}: {} seeds in {:.1} s ({rate:.1} seeds/s), {} file operations, {} s of virtual \
         time",
        options.variant.name(),
        all.runs,
        ms as f64 / 1000.0,
        sum.steps,
        sum.ms / 1000
    ));
    answer(&format!(
        "{} changes of leader, {} jobs acknowledged, {} starts, {} runs of cron jobs, {} readings \
         of the view",
        sum.takeovers, sum.acked, sum.starts, sum.crons, sum.reads
    ));
    let faults: Vec<String> = sum.faults.iter().map(|(k, n)| format!("{k} {n}")).collect();
    answer(&format!("faults: {}", faults.join(", ")));
    answer(&format!("{} seeds broke a promise", all.failed.len()));
    for (seed, text) in all.failed.iter().take(20) {
        println!("  seed {seed}: {text}");
    }
}

fn report(options: &Options, outcome: &Outcome) -> i32 {
    answer(&format!(
        "seed {} variant {}: {} file operations, {} ms, digest {:016x}",
        outcome.seed,
        options.variant.name(),
        outcome.figures.steps,
        outcome.figures.ms,
        outcome.digest
    ));
    for text in &outcome.broken {
        println!("BROKEN: {text}");
    }
    if outcome.broken.is_empty() {
        return 0;
    }
    answer(&format!(
        "whole trace: cbsim faults --seed {} --steps {} --leaders {} --hosts {} --clients {} \
         --variant {} --trace",
        options.seed,
        options.steps,
        options.leaders,
        options.hosts,
        options.clients,
        options.variant.name()
    ));
    1
}
