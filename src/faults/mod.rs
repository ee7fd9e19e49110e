//! `cbsim faults`: the daemons' own code on a simulated shared file system that fails in every
//! possible way, with the promises checked after every step. One seed reproduces a run.
//!
//! `kernel` has the virtual clock and the run queue, `world` the threads, `cluster` the machines
//! and the file server, `disk` and `simulated_os` the file system as servers and clients see it,
//! `processes` and `shepherds` the daemons and tasks, `clients` the users, `injector` the faults,
//! `history` and `leader_checks` the promises. Never touches a real file.

mod accounting_checks;
mod breakpoint;
pub(crate) mod cli;
mod client_actions;
mod clients;
mod cluster;
mod configuration;
mod confirmed;
#[cfg(test)]
mod crash_images;
mod cron_checks;
mod disk;
mod events;
mod file_checks;
mod history;
mod injector;
mod kernel;
mod leader_checks;
mod licence_checks;
mod open_file;
mod own_units;
mod plan;
mod processes;
mod read_only_disk;
mod restore_admin;
mod restored_share;
mod share_restore;
mod shepherds;
mod simulated_os;
mod tasks;
mod unit_checks;
mod world;

use cluster::Cluster;
use kernel::MS;
use plan::{Fault, Options, Plan};
use std::collections::BTreeMap;
use world::{Handlers, World};

/// Makes the daemons' own log lines appear in traces.
fn log_daemons() {
    let _ = tracing_subscriber::fmt()
        .with_writer(|| LogIntoTrace)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .try_init();
}

/// Passes log lines to the trace of the world in which the thread runs.
struct LogIntoTrace;

impl std::io::Write for LogIntoTrace {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        world::trace_log_line(String::from_utf8_lossy(bytes).trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Figures of one run, or of many runs together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Figures {
    /// File operations, including those in the phase after the faults.
    pub steps: u64,
    /// Virtual time, ms.
    pub ms: u64,
    pub takeovers: u64,
    pub acked: usize,
    pub starts: usize,
    /// Number of reads of the view.
    pub reads: u64,
    /// Number of due times of cron jobs that led to a run.
    pub crons: u64,
    pub faults: BTreeMap<&'static str, u64>,
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.steps += other.steps;
        self.ms += other.ms;
        self.takeovers += other.takeovers;
        self.acked += other.acked;
        self.starts += other.starts;
        self.reads += other.reads;
        self.crons += other.crons;
        for (name, n) in &other.faults {
            *self.faults.entry(name).or_default() += n;
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    pub seed: u64,
    /// Promises that were broken; empty = none.
    pub broken: Vec<String>,
    /// A number that differs if two runs differ in anything.
    pub digest: u64,
    pub figures: Figures,
    /// The longest wait for the answer to a submission, ms.
    pub longest_ms: u64,
    /// The longest time for which a host gave no sign of life, ms.
    pub longest_silence_ms: u64,
    /// What happened, if that was requested.
    pub log: Vec<String>,
    /// The share and the machines' local directories at the end, if that was requested.
    pub disks: Vec<(&'static str, disk::Disk)>,
}

/// Runs one seed. `log`: record what happens, line by line.
fn run(options: &Options, log: bool) -> Outcome {
    run_plan(options, Plan::of(options), log)
}

fn run_plan(options: &Options, plan: Plan, log: bool) -> Outcome {
    let restored = plan.restore;
    let (mut outcome, share, silences) =
        run_cluster(options.seed, Cluster::new(plan), log, |inner| {
            let kernel = &mut inner.kernel;
            let (digest, steps, ms) = (kernel.digest(), kernel.steps, kernel.now / MS);
            let kernel_log = kernel.log.take();
            let cluster = &inner.cluster;
            let disks = kernel_log.as_ref().map_or_else(Vec::new, |_| {
                let local = |m: &cluster::Machine| (m.name, m.local.clone());
                let locals = cluster.machines.iter().map(local);
                std::iter::once(("share", cluster.share.clone()))
                    .chain(locals)
                    .collect()
            });
            let history = &cluster.history;
            let outcome = Outcome {
                seed: options.seed,
                broken: history.broken.clone(),
                digest,
                figures: Figures {
                    steps,
                    ms,
                    takeovers: history.takeovers,
                    acked: history.facts.acked.len(),
                    starts: history.starts.len(),
                    reads: history.clients.reads,
                    crons: history.clients.crons.count() as u64,
                    faults: cluster.injected.counts.clone(),
                },
                longest_ms: history.clients.longest_ms,
                longest_silence_ms: history.file_checks.longest_silence() / MS,
                log: kernel_log.unwrap_or_default(),
                disks,
            };
            let silences = history.clients.silences.clone();
            (outcome, cluster.share.clone(), silences)
        });
    let flipped = outcome.figures.faults.contains_key(Fault::Flip.name());
    if outcome.broken.is_empty() && !restored && !flipped {
        outcome.broken = accounting_checks::check(&share, &silences);
    }
    outcome
}

/// Runs a cluster to its end. Returns what is to be known of it.
fn run_cluster<T>(
    seed: u64,
    cluster: Cluster,
    log: bool,
    result: impl FnOnce(&mut world::WorldState) -> T,
) -> T {
    let handlers = Handlers {
        event: events::carry_out_event,
        process_ended: processes::ended,
    };
    let world = World::new(seed, cluster, log, handlers);
    world.run(processes::begin);
    result(&mut world.lock())
}

#[cfg(test)]
mod tests;
