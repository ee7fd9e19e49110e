//! `cbsim faults`: the daemons' own code on a simulated shared file system that fails in every way
//! it can, with the promises checked after every step. One seed reproduces a run.
//!
//! `world` has the clock and the actors, `scene` the machines and the faults, `disk` and `port` the
//! file system as servers and clients see it, `stage` and `tasks` the processes, `history` the
//! promises, `restore` a share put back from a copy. Never touches a real file.

pub mod cli;
mod client_actions;
mod clients;
mod cluster;
mod confirmed;
#[cfg(test)]
mod crash_images;
mod disk;
mod file_checks;
mod history;
mod injector;
mod open_file;
mod plan;
mod processes;
mod restored_share;
mod rng;
mod simulated_os;
mod tasks;
mod world;

pub use plan::{Focus, Options, Variant};

use cluster::Scene;
use std::collections::BTreeMap;
use world::World;

/// Lets the daemons' own log lines appear in traces.
fn log_daemons() {
    let _ = tracing_subscriber::fmt()
        .with_writer(|| Notes)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .try_init();
}

/// Log lines into the trace of the world that the thread plays in.
struct Notes;

impl std::io::Write for Notes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        world::note(String::from_utf8_lossy(bytes).trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    /// Promises that were broken; empty = none.
    pub broken: Vec<String>,
    /// A number that differs when two runs differ in anything.
    pub digest: u64,
    /// File operations, the calm included.
    pub steps: u64,
    /// Virtual time, ms.
    pub ms: u64,
    pub takeovers: u64,
    pub acked: usize,
    pub starts: usize,
    /// Readings of the view.
    pub reads: u64,
    /// The longest wait for the answer to a submission, ms.
    pub longest_ms: u64,
    pub faults: BTreeMap<&'static str, u64>,
    /// What happened, if that was asked for.
    pub log: Vec<String>,
    /// The share and the machines' local directories at the end, likewise.
    pub disks: Vec<(&'static str, disk::Disk)>,
}

/// Runs one seed. `log`: keep what happens, line by line.
pub fn run(options: &Options, log: bool) -> Outcome {
    run_plan(options, plan::Plan::of(options), log)
}

fn run_plan(options: &Options, plan: plan::Plan, log: bool) -> Outcome {
    let world = World::new(options.seed, Scene::new(plan), log);
    world.run(processes::begin);
    let mut inner = world.lock();
    let core = &mut inner.core;
    let (digest, steps, ms) = (core.digest(), core.steps, core.now / 1000);
    let kept = core.log.take();
    let disks = kept.as_ref().map_or_else(Vec::new, |_| {
        let local = |m: &cluster::Machine| (m.name, m.local.clone());
        let locals = inner.scene.machines.iter().map(local);
        std::iter::once(("share", inner.scene.share.clone()))
            .chain(locals)
            .collect()
    });
    let history = &inner.scene.history;
    Outcome {
        seed: options.seed,
        broken: history.broken.clone(),
        digest,
        steps,
        ms,
        takeovers: history.takeovers,
        acked: history.acked(),
        starts: history.starts(),
        reads: history.reads,
        longest_ms: history.longest_ms,
        faults: inner.scene.faults.clone(),
        log: kept.unwrap_or_default(),
        disks,
    }
}

#[cfg(test)]
mod tests;
