//! The options of Slurm's sbatch: which are supported, which change nothing, and which are refused
//! because the job would differ without them.
//!
//! Owns only the table; the effect of a supported option is in `slurm`.

use crate::client::cli::{flag, maybe, opt};
use clap::{Arg, Command};

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    No,
    /// The name of the value in the help.
    Value(&'static str),
    /// The value is optional; its name in the help.
    Maybe(&'static str),
}

/// What happens to an option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is supported; its help.
    Counts(&'static str),
    /// The job computes the same without it; why it has no effect.
    NoEffect(&'static str),
    /// It is refused; why, or what to use instead.
    Refused(&'static str),
}

pub(crate) struct SlurmOption {
    pub long: &'static str,
    pub short: Option<char>,
    pub takes: Takes,
    pub fate: Fate,
}

const fn row(long: &'static str, short: char, takes: Takes, fate: Fate) -> SlurmOption {
    let short = if short == ' ' { None } else { Some(short) };
    SlurmOption {
        long,
        short,
        takes,
        fate,
    }
}

use Fate::{Counts, NoEffect, Refused};
use Takes::{Maybe, No, Value};

const ORDER: Fate = NoEffect("queues and shares decide the order of jobs");
const STEPS: Fate = NoEffect("there are no job steps: there is no srun");
const BIND: Fate = NoEffect("queues bind jobs to cores");
const SHAPE: Fate = Refused("say it with --ntasks, --cpus-per-task and --nodes");
const CLUSTERS: Fate = Refused("there is one cluster");
const IMAGE: Fate = Refused("csub -di runs a job in a container");

/// Every option of sbatch.
pub(crate) const OPTIONS: &[SlurmOption] = &[
    row(
        "job-name",
        'J',
        Value("NAME"),
        Counts("Job name; default: that of the script"),
    ),
    row(
        "output",
        'o',
        Value("FILE"),
        Counts("Output; default slurm-%j.out, of an array slurm-%A_%a.out"),
    ),
    row(
        "error",
        'e',
        Value("FILE"),
        Counts("Error output; default: with the output"),
    ),
    row("input", 'i', Value("FILE"), Counts("Standard input")),
    row(
        "open-mode",
        ' ',
        Value("MODE"),
        Counts("append or truncate, the default"),
    ),
    row("ntasks", 'n', Value("N"), Counts("Tasks")),
    row(
        "cpus-per-task",
        'c',
        Value("N"),
        Counts("Slots of each task, on one host"),
    ),
    row("nodes", 'N', Value("N"), Counts("Hosts")),
    row(
        "ntasks-per-node",
        ' ',
        Value("N"),
        Counts("Tasks on each host"),
    ),
    row(
        "mem",
        ' ',
        Value("SIZE"),
        Counts("Memory on each host; a plain number is in MB"),
    ),
    row(
        "mem-per-cpu",
        ' ',
        Value("SIZE"),
        Counts("Memory for each slot"),
    ),
    row(
        "time",
        't',
        Value("TIME"),
        Counts("Run limit: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S"),
    ),
    row(
        "partition",
        'p',
        Value("QUEUES"),
        Counts("Queue, or several"),
    ),
    row(
        "array",
        'a',
        Value("LIST"),
        Counts("Array: 0-9, 1-10:2%4 (4 at a time), 1,3,7"),
    ),
    row(
        "dependency",
        'd',
        Value("LIST"),
        Counts("Start after jobs: afterok:12:13,afterany:14; after, afternotok, aftercorr"),
    ),
    row("hold", 'H', No, Counts("Hold the job")),
    row(
        "begin",
        'b',
        Value("TIME"),
        Counts("Do not start before this time"),
    ),
    row("account", 'A', Value("PROJECT"), Counts("Project")),
    row(
        "gres",
        ' ',
        Value("LIST"),
        Counts("Resources on each host: gpu:2, NAME:N"),
    ),
    row("gpus", 'G', Value("N"), Counts("GPUs of the job")),
    row(
        "gpus-per-node",
        ' ',
        Value("N"),
        Counts("GPUs on each host"),
    ),
    row(
        "gpus-per-task",
        ' ',
        Value("N"),
        Counts("GPUs of each task"),
    ),
    row(
        "exclusive",
        ' ',
        Maybe("MODE"),
        Counts("Exclusive use of the hosts"),
    ),
    row("nodelist", 'w', Value("HOSTS"), Counts("These hosts")),
    row("exclude", 'x', Value("HOSTS"), Counts("Not these hosts")),
    row(
        "constraint",
        'C',
        Value("FEATURES"),
        Counts("Hosts with these boolean resources: a&b, a|b"),
    ),
    row("chdir", 'D', Value("DIR"), Counts("Working directory")),
    row(
        "export",
        ' ',
        Value("LIST"),
        Counts("Environment: ALL, NONE, VAR, VAR=VALUE"),
    ),
    row(
        "requeue",
        ' ',
        No,
        Counts("Rerun the job when its host fails"),
    ),
    row(
        "no-requeue",
        ' ',
        No,
        Counts("Do not rerun the job when its host fails"),
    ),
    row(
        "signal",
        ' ',
        Value("[B:]SIG[@S]"),
        Counts("Warn the job this many seconds before its run limit [60]"),
    ),
    row(
        "comment",
        ' ',
        Value("TEXT"),
        Counts("Description of the job"),
    ),
    row(
        "kill-on-invalid-dep",
        ' ',
        Value("yes|no"),
        Counts("End the job when its dependency can never be satisfied"),
    ),
    row(
        "wait",
        'W',
        No,
        Counts("Wait for the job to end, exit with its exit code"),
    ),
    row(
        "wrap",
        ' ',
        Value("COMMAND"),
        Counts("Run this command line, without a script"),
    ),
    row("parsable", ' ', No, Counts("Print only the id")),
    row("quiet", 'Q', No, Counts("No warnings")),
    row(
        "mail-type",
        ' ',
        Value("TYPE"),
        Counts("Mail at BEGIN, END, FAIL, ALL or NONE"),
    ),
    row(
        "mail-user",
        ' ',
        Value("USER"),
        Counts("Where the mails go; default: the submitter"),
    ),
    row("qos", 'q', Value("QOS"), NoEffect("there are no QOS")),
    row(
        "wckey",
        ' ',
        Value("KEY"),
        NoEffect("--account names the project"),
    ),
    row("nice", ' ', Maybe("N"), ORDER),
    row("priority", ' ', Value("N"), ORDER),
    row(
        "verbose",
        'v',
        No,
        NoEffect("there is nothing more to report"),
    ),
    row(
        "get-user-env",
        ' ',
        Maybe("TIME"),
        NoEffect("the environment is always sent"),
    ),
    row(
        "propagate",
        ' ',
        Maybe("LIMITS"),
        NoEffect("queues set the limits of processes"),
    ),
    row(
        "profile",
        ' ',
        Value("KIND"),
        NoEffect("usage is always recorded"),
    ),
    row(
        "acctg-freq",
        ' ',
        Value("LIST"),
        NoEffect("usage is always recorded"),
    ),
    row(
        "ignore-pbs",
        ' ',
        No,
        NoEffect("sbatch reads no #PBS lines"),
    ),
    row(
        "delay-boot",
        ' ',
        Value("TIME"),
        NoEffect("hosts are not booted for jobs"),
    ),
    row(
        "wait-all-nodes",
        ' ',
        Value("N"),
        NoEffect("jobs start when all hosts are ready"),
    ),
    row(
        "no-kill",
        'k',
        Maybe("off"),
        NoEffect("a job ends with its first host only"),
    ),
    row("spread-job", ' ', No, NoEffect("queues choose the hosts")),
    row(
        "use-min-nodes",
        ' ',
        No,
        NoEffect("queues choose the hosts"),
    ),
    row(
        "prefer",
        ' ',
        Value("FEATURES"),
        NoEffect("--constraint requests features"),
    ),
    row(
        "switches",
        ' ',
        Value("N"),
        NoEffect("csub -R cu[] requests adjacent hosts"),
    ),
    row(
        "oversubscribe",
        's',
        No,
        NoEffect("jobs share hosts, not slots"),
    ),
    row("share", ' ', No, NoEffect("jobs share hosts, not slots")),
    row("distribution", 'm', Value("KIND"), STEPS),
    row("overcommit", 'O', No, STEPS),
    row("cpu-bind", ' ', Value("KIND"), BIND),
    row("mem-bind", ' ', Value("KIND"), BIND),
    row("gpu-bind", ' ', Value("KIND"), BIND),
    row("hint", ' ', Value("KIND"), BIND),
    row("threads-per-core", ' ', Value("N"), BIND),
    row("gres-flags", ' ', Value("FLAGS"), BIND),
    row(
        "cpu-freq",
        ' ',
        Value("FREQ"),
        NoEffect("hosts set their frequency"),
    ),
    row(
        "gpu-freq",
        ' ',
        Value("FREQ"),
        NoEffect("hosts set their frequency"),
    ),
    row(
        "power",
        ' ',
        Value("FLAGS"),
        NoEffect("hosts set their frequency"),
    ),
    row(
        "test-only",
        ' ',
        No,
        Refused("csub --dry-run shows what would be submitted, and which hosts fit now"),
    ),
    row("sockets-per-node", ' ', Value("N"), SHAPE),
    row("cores-per-socket", ' ', Value("N"), SHAPE),
    row("ntasks-per-socket", ' ', Value("N"), SHAPE),
    row("ntasks-per-core", ' ', Value("N"), SHAPE),
    row("ntasks-per-gpu", ' ', Value("N"), SHAPE),
    row("extra-node-info", 'B', Value("S:C:T"), SHAPE),
    row("mincpus", ' ', Value("N"), SHAPE),
    row("core-spec", 'S', Value("N"), SHAPE),
    row("thread-spec", ' ', Value("N"), SHAPE),
    row(
        "contiguous",
        ' ',
        No,
        Refused("csub -R cu[] requests adjacent hosts"),
    ),
    row(
        "gpus-per-socket",
        ' ',
        Value("N"),
        Refused("say it with --gpus-per-node"),
    ),
    row("cpus-per-gpu", ' ', Value("N"), SHAPE),
    row(
        "mem-per-gpu",
        ' ',
        Value("SIZE"),
        Refused("say it with --mem"),
    ),
    row(
        "tmp",
        ' ',
        Value("SIZE"),
        Refused("csub -R select[tmp>SIZE] requests it"),
    ),
    row(
        "nodefile",
        'F',
        Value("FILE"),
        Refused("name the hosts with --nodelist"),
    ),
    row(
        "reservation",
        ' ',
        Value("NAME"),
        Refused("there are no reservations by name"),
    ),
    row(
        "licenses",
        'L',
        Value("LIST"),
        Refused("csub -R rusage[NAME=N] reserves them"),
    ),
    row(
        "deadline",
        ' ',
        Value("TIME"),
        Refused("csub -t ends a job at a time"),
    ),
    row(
        "time-min",
        ' ',
        Value("TIME"),
        Refused("a run limit is one time"),
    ),
    row(
        "export-file",
        ' ',
        Value("FILE"),
        Refused("name the variables with --export"),
    ),
    row(
        "uid",
        ' ',
        Value("USER"),
        Refused("a job belongs to its submitter"),
    ),
    row(
        "gid",
        ' ',
        Value("GROUP"),
        Refused("a job belongs to its submitter"),
    ),
    row("clusters", 'M', Value("LIST"), CLUSTERS),
    row("cluster-constraint", ' ', Value("LIST"), CLUSTERS),
    row(
        "bb",
        ' ',
        Value("SPEC"),
        Refused("there are no burst buffers"),
    ),
    row(
        "bbf",
        ' ',
        Value("FILE"),
        Refused("there are no burst buffers"),
    ),
    row(
        "network",
        ' ',
        Value("TYPE"),
        Refused("there are no switch plugins"),
    ),
    row("reboot", ' ', No, Refused("hosts are not booted for jobs")),
    row("container", ' ', Value("PATH"), IMAGE),
    row("container-id", ' ', Value("ID"), IMAGE),
    row(
        "tres-per-task",
        ' ',
        Value("LIST"),
        Refused("say it with --cpus-per-task and --gres"),
    ),
    row("tres-bind", ' ', Value("LIST"), BIND),
    row(
        "mcs-label",
        ' ',
        Value("LABEL"),
        Refused("there are no labels"),
    ),
    row(
        "resv-ports",
        ' ',
        Maybe("N"),
        Refused("csub -R rusage[PORTS=N] reserves ports"),
    ),
    row("segment", ' ', Value("N"), SHAPE),
    row("stepmgr", ' ', No, STEPS),
];

pub(crate) fn option(long: &str) -> Option<&'static SlurmOption> {
    OPTIONS.iter().find(|o| o.long == long)
}

/// Options that `#SBATCH` lines cannot give.
pub(crate) const NOT_IN_A_SCRIPT: &[&str] = &["wrap", "parsable", "test-only", "quiet"];

/// A command with all options of sbatch; the supported ones are in its help.
pub(crate) fn with_options(cmd: Command) -> Command {
    OPTIONS.iter().fold(cmd, |cmd, o| {
        let help = match o.fate {
            Counts(help) => help,
            _ => "",
        };
        let arg = match o.takes {
            No => flag(o.long, help),
            Value(name) => opt(o.long, name, help),
            Maybe(name) => maybe(o.long, name, help),
        };
        let arg: Arg = match o.short {
            Some(c) => arg.short(c),
            None => arg,
        };
        cmd.arg(arg.hide(help.is_empty()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_option_and_letter_stands_once() {
        let longs: BTreeSet<&str> = OPTIONS.iter().map(|o| o.long).collect();
        assert_eq!(longs.len(), OPTIONS.len());
        let shorts: Vec<char> = OPTIONS.iter().filter_map(|o| o.short).collect();
        let different: BTreeSet<&char> = shorts.iter().collect();
        assert_eq!(different.len(), shorts.len());
        assert!(NOT_IN_A_SCRIPT.iter().all(|long| option(long).is_some()));
    }
}
