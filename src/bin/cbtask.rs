//! `cbtask`: the spawner and, forked from it, one shepherd per task. Started by `cbexe`.

use corral::host::spawner::{self, SpawnerOptions};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: cbtask --spawner --local DIR --host NAME --log N [--no-cgroups]";

fn options() -> Option<SpawnerOptions> {
    let mut args = std::env::args().skip(1);
    let (mut local, mut host, mut log, mut cgroups) = (None, None, None, true);
    let mut spawner = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--spawner" => spawner = true,
            "--local" => local = Some(PathBuf::from(args.next()?)),
            "--host" => host = args.next(),
            "--log" => log = args.next()?.parse().ok(),
            "--no-cgroups" => cgroups = false,
            _ => return None,
        }
    }
    spawner.then_some(())?;
    Some(SpawnerOptions {
        local: local?,
        host: host?,
        log: log?,
        cgroups,
    })
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match spawner::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cbtask: {e}");
            ExitCode::from(5)
        }
    }
}
