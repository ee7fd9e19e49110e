//! The command line of `cbsim`: subcommands and exit codes. Owns no work of its own.

use super::generate::{self, Wish};
use super::{csv, files, swf, trace};
use clap::{Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Replays workloads through Corral's scheduler on a virtual cluster.
#[derive(Parser)]
#[command(name = "cbsim", version)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Replay a workload and measure what came of it
    Trace(trace::Args),
    /// Make a synthetic workload
    Generate(Generate),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Swf,
    Csv,
}

/// Makes a synthetic workload.
#[derive(clap::Args)]
struct Generate {
    /// Number of jobs
    #[arg(long, value_name = "N")]
    jobs: u32,
    /// Processors of the machine the workload is made for
    #[arg(long, value_name = "P")]
    procs: u32,
    /// Number of users
    #[arg(long, value_name = "U", default_value_t = 20)]
    users: u32,
    /// Number of queues, by length of the jobs
    #[arg(long, value_name = "Q", default_value_t = 1)]
    queues: u32,
    /// Work over capacity while jobs arrive: 0.7 leaves room, 1.2 is more than fits
    #[arg(long, value_name = "L", default_value_t = 0.8)]
    load: f64,
    /// The same seed makes the same workload
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[arg(long, value_enum, default_value_t = Format::Swf)]
    format: Format,
    /// Where to write it; - is standard output
    #[arg(long, short, value_name = "OUT", default_value = "-")]
    output: PathBuf,
}

/// Runs `cbsim` with these arguments; gives its exit code.
pub fn main(argv: &[OsString]) -> i32 {
    let cli = match Cli::try_parse_from(argv) {
        Ok(cli) => cli,
        Err(e) => {
            let code = if e.use_stderr() { 2 } else { 0 };
            // Nothing is left to do if even this cannot be written.
            drop(e.print());
            return code;
        }
    };
    let done = match cli.what {
        What::Trace(args) => trace::main(&args),
        What::Generate(args) => generate(&args),
    };
    match done {
        Ok(code) => code,
        Err(why) => {
            eprintln!("cbsim: {why}");
            2
        }
    }
}

fn generate(args: &Generate) -> Result<i32, String> {
    let workload = generate::generate(&Wish {
        jobs: args.jobs,
        procs: args.procs,
        users: args.users,
        queues: args.queues,
        load: args.load,
        seed: args.seed,
    })?;
    let bytes = match args.format {
        Format::Swf => swf::write(&workload).into_bytes(),
        Format::Csv => csv::write(&workload)?,
    };
    files::write(&args.output, &bytes)?;
    Ok(0)
}
