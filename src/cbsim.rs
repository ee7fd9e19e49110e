//! Floor 8: the command line of `cbsim`: subcommands and exit codes. Owns no work of its own.

use crate::faults;
use crate::language::{self, tell};
use crate::program;
use crate::replay::convert::{self, Aleang, AleangOptions, Converted, Estimates, Openb};
use crate::replay::generate::{self, WorkloadOptions};
use crate::replay::{csv, files, swf, trace, when};
use clap::{Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Replays workloads through Corral's scheduler on a virtual cluster.
#[derive(Parser)]
#[command(name = "cbsim", version)]
struct Cli {
    #[command(subcommand)]
    what: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Replay a workload and report measurements
    Trace(trace::TraceArgs),
    /// Estimate when jobs of a live cluster will start
    When(when::WhenArgs),
    /// Generate a synthetic workload
    Generate(Generate),
    /// Convert files of another simulator to CSV and cb.yaml
    Convert(Convert),
    /// Run the daemons on a shared file system that fails, and check their promises
    Faults(faults::cli::Args),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Swf,
    Csv,
}

/// Generates a synthetic workload.
#[derive(clap::Args)]
struct Generate {
    /// Number of jobs
    #[arg(long, value_name = "N")]
    jobs: u32,
    /// Number of processors of the machine
    #[arg(long, value_name = "P")]
    procs: u32,
    /// Number of users
    #[arg(long, value_name = "U", default_value_t = 20)]
    users: u32,
    /// Number of queues, by the length of their jobs
    #[arg(long, value_name = "Q", default_value_t = 1)]
    queues: u32,
    /// Load while jobs arrive, relative to the capacity: 0.7 leaves idle processors, 1.2 overloads
    #[arg(long, value_name = "L", default_value_t = 0.8)]
    load: f64,
    /// The same seed generates the same workload
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Format of the file
    #[arg(long, value_enum, default_value_t = Format::Swf)]
    format: Format,
    /// Output file; -: standard output
    #[arg(long, short, value_name = "OUT", default_value = "-")]
    output: PathBuf,
}

/// Writes OUT/jobs.csv and OUT/cb.yaml, converted from files of another simulator.
#[derive(clap::Args)]
struct Convert {
    #[command(subcommand)]
    from: SourceFormat,
}

#[derive(Subcommand)]
enum SourceFormat {
    /// A log with files .users, .groups, .queues and .machines
    Aleang {
        /// The log; the other files have the same name with their suffixes
        file: PathBuf,
        /// The setting of the same name in the queues
        #[arg(long, value_name = "DEPTH", default_value = "1")]
        backfill: String,
        /// The run time that the scheduler knows: the expected run time, or the limit
        #[arg(long, value_enum, default_value_t = Estimates::Expected)]
        estimates: Estimates,
        /// The output directory
        #[arg(long, short, value_name = "OUT")]
        output: PathBuf,
    },
    /// Lists of nodes and pods of a GPU cluster
    Openb {
        /// CSV with a line for each node
        nodes: PathBuf,
        /// CSV with a line for each pod
        pods: PathBuf,
        /// The setting of the same name in the queue
        #[arg(long, default_value = "pack")]
        packing: String,
        /// Requested GPUs divided by existing GPUs
        #[arg(long, value_name = "L", default_value_t = 1.3)]
        load: f64,
        /// Seed for the order of the pods
        #[arg(long, value_name = "S", default_value_t = 42)]
        seed: u64,
        /// The output directory
        #[arg(long, short, value_name = "OUT")]
        output: PathBuf,
    },
}

/// Runs `cbsim` with these arguments; returns its exit code.
pub fn main(argv: &[OsString]) -> i32 {
    let cli: Cli = match program::options(argv) {
        Ok(cli) => cli,
        Err(code) => return code.into(),
    };
    // Daemons that run in this process write to the simulated share: always in English.
    if !matches!(cli.what, CliCommand::Faults(_)) {
        language::choose(program::language());
    }
    let done = match cli.what {
        CliCommand::Trace(args) => trace::main(&args),
        CliCommand::When(args) => when::main(&args),
        CliCommand::Generate(args) => generate(&args),
        CliCommand::Convert(args) => convert(&args),
        CliCommand::Faults(args) => faults::cli::main(&args),
    };
    match done {
        Ok(code) => code,
        Err(why) => {
            program::print_error(&format!("cbsim: {why}"));
            2
        }
    }
}

fn generate(args: &Generate) -> Result<i32, String> {
    let workload = generate::generate(&WorkloadOptions {
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

fn convert(args: &Convert) -> Result<i32, String> {
    let (made, output) = match &args.from {
        SourceFormat::Aleang {
            file,
            backfill,
            estimates,
            output,
        } => {
            let options = AleangOptions {
                backfill,
                estimates: *estimates,
            };
            (convert_aleang(file, options)?, output)
        }
        SourceFormat::Openb {
            nodes,
            pods,
            packing,
            load,
            seed,
            output,
        } => {
            let from = Openb {
                nodes: &files::read(nodes)?,
                pods: &files::read(pods)?,
                packing,
                load_milli: (load.clamp(0.0, 100.0) * 1000.0) as u64,
                seed: *seed,
            };
            (convert::openb(&from)?, output)
        }
    };
    let Converted { workload, config } = made;
    for sentence in workload.left_out.sentences() {
        tell!("cbsim: {sentence}");
    }
    crate::sys::fs::mkdir_p(output, 0o755).map_err(|e| e.to_string())?;
    files::write(&output.join("jobs.csv"), &csv::write(&workload)?)?;
    files::write(&output.join("cb.yaml"), config.as_bytes())?;
    Ok(0)
}

/// Reads an aleang log and its tables.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn convert_aleang(file: &Path, options: AleangOptions<'_>) -> Result<Converted, String> {
    let text = |suffix: &str| -> Result<String, String> {
        let mut path = file.as_os_str().to_owned();
        path.push(suffix);
        let bytes = files::read(Path::new(&path))?;
        String::from_utf8(bytes).map_err(|_| format!("{} is not text", path.display()))
    };
    let from = Aleang {
        jobs: &text("")?,
        users: &text(".users")?,
        groups: &text(".groups")?,
        queues: &text(".queues")?,
        machines: &text(".machines")?,
    };
    convert::aleang(&from, options)
}

#[cfg(test)]
mod tests {
    use crate::language::Language;
    use crate::replay::workload::LeftOut;

    #[test]
    fn what_was_left_out_is_said_in_chinese() {
        let mut left_out = LeftOut::default();
        left_out.rule("it has no processors");
        left_out.note_corrected("run longer than their estimate, cut to it");
        left_out.bad_line("a.swf", 3, "field 2: \"x\" is not a number of seconds");
        let sentences: Vec<String> = left_out
            .sentences()
            .iter()
            .map(|text| {
                Language::Chinese
                    .translate(&format!("cbsim: {text}"))
                    .into_owned()
            })
            .collect();
        assert_eq!(
            sentences,
            [
                "cbsim: a.swf:3: 字段 2：\"x\" 不是秒数",
                "cbsim: 略去 1 个作业：没有处理器",
                "cbsim: 1 个作业：运行时间长于估计值，截短到估计值",
            ]
        );
    }
}
