//! The options of Slurm's sbatch: which are supported, which change nothing, and which are refused
//! because the job would differ without them.
//!
//! Owns only the table; the effect of a supported option is in `slurm`.

use crate::client::cli::{flag, opt, optional_value};
use clap::{Arg, Command};

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionValue {
    No,
    /// The name of the value in the help.
    Value(&'static str),
    /// The value is optional; its name in the help.
    Optional(&'static str),
}

/// What happens to an option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    /// It is supported; its help.
    Supported(&'static str),
    /// The job computes the same without it; why it has no effect.
    NoEffect(&'static str),
    /// It is refused; why, or what to use instead.
    Refused(&'static str),
}

pub(crate) struct SlurmOption {
    pub long: &'static str,
    pub short: Option<char>,
    pub takes: OptionValue,
    pub support: Support,
}

const fn row(long: &'static str, short: char, takes: OptionValue, support: Support) -> SlurmOption {
    let short = if short == ' ' { None } else { Some(short) };
    SlurmOption {
        long,
        short,
        takes,
        support,
    }
}

use OptionValue::{No, Optional, Value};
use Support::{NoEffect, Refused, Supported};

const ORDER: Support = NoEffect("queues and shares decide the order of jobs");
const STEPS: Support = NoEffect("there are no job steps: there is no srun");
const BIND: Support = NoEffect("queues bind jobs to cores");
const SHAPE: Support = Refused("use --ntasks, --cpus-per-task and --nodes");
const CLUSTERS: Support = Refused("there is one cluster");
const IMAGE: Support = Refused("csub -di runs a job in a container");

/// Every option of sbatch.
pub(crate) const OPTIONS: &[SlurmOption] = &[
    row(
        "job-name",
        'J',
        Value("NAME"),
        Supported("Job name; default: that of the script"),
    ),
    row(
        "output",
        'o',
        Value("FILE"),
        Supported("Output; default slurm-%j.out, of an array slurm-%A_%a.out"),
    ),
    row(
        "error",
        'e',
        Value("FILE"),
        Supported("Error output; default: with the output"),
    ),
    row("input", 'i', Value("FILE"), Supported("Standard input")),
    row(
        "open-mode",
        ' ',
        Value("MODE"),
        Supported("append or truncate, the default"),
    ),
    row("ntasks", 'n', Value("N"), Supported("Tasks")),
    row(
        "cpus-per-task",
        'c',
        Value("N"),
        Supported("Slots of each task, on one host"),
    ),
    row("nodes", 'N', Value("N"), Supported("Hosts")),
    row(
        "ntasks-per-node",
        ' ',
        Value("N"),
        Supported("Tasks on each host"),
    ),
    row(
        "mem",
        ' ',
        Value("SIZE"),
        Supported("Memory on each host; a plain number is in MB"),
    ),
    row(
        "mem-per-cpu",
        ' ',
        Value("SIZE"),
        Supported("Memory for each slot"),
    ),
    row(
        "time",
        't',
        Value("TIME"),
        Supported("Run limit: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S"),
    ),
    row(
        "partition",
        'p',
        Value("QUEUES"),
        Supported("Queue, or several"),
    ),
    row(
        "array",
        'a',
        Value("LIST"),
        Supported("Array: 0-9, 1-10:2%4 (4 at a time), 1,3,7"),
    ),
    row(
        "dependency",
        'd',
        Value("LIST"),
        Supported("Start after jobs: afterok:12:13,afterany:14; after, afternotok"),
    ),
    row("hold", 'H', No, Supported("Hold the job")),
    row(
        "begin",
        'b',
        Value("TIME"),
        Supported("Do not start before this time"),
    ),
    row("account", 'A', Value("PROJECT"), Supported("Project")),
    row(
        "gres",
        ' ',
        Value("LIST"),
        Supported("Resources on each host: gpu:2, NAME:N"),
    ),
    row("gpus", 'G', Value("N"), Supported("GPUs of the job")),
    row(
        "gpus-per-node",
        ' ',
        Value("N"),
        Supported("GPUs on each host"),
    ),
    row(
        "gpus-per-task",
        ' ',
        Value("N"),
        Supported("GPUs of each task"),
    ),
    row(
        "exclusive",
        ' ',
        Optional("MODE"),
        Supported("Exclusive use of the hosts"),
    ),
    row("nodelist", 'w', Value("HOSTS"), Supported("These hosts")),
    row("exclude", 'x', Value("HOSTS"), Supported("Not these hosts")),
    row(
        "constraint",
        'C',
        Value("FEATURES"),
        Supported("Hosts with these boolean resources: a&b, a|b"),
    ),
    row("chdir", 'D', Value("DIR"), Supported("Working directory")),
    row(
        "export",
        ' ',
        Value("LIST"),
        Supported("Environment: ALL, NONE, VAR, VAR=VALUE"),
    ),
    row(
        "requeue",
        ' ',
        No,
        Supported("Rerun the job when its host fails"),
    ),
    row(
        "no-requeue",
        ' ',
        No,
        Supported("Do not rerun the job when its host fails"),
    ),
    row(
        "signal",
        ' ',
        Value("[B:]SIG[@S]"),
        Supported("Warn the job this many seconds before its run limit [60]"),
    ),
    row(
        "comment",
        ' ',
        Value("TEXT"),
        Supported("Description of the job"),
    ),
    row(
        "kill-on-invalid-dep",
        ' ',
        Value("yes|no"),
        Supported("End the job when its dependency can never be satisfied"),
    ),
    row(
        "wait",
        'W',
        No,
        Supported("Wait for the job to end, exit with its exit code"),
    ),
    row(
        "wrap",
        ' ',
        Value("COMMAND"),
        Supported("Run this command line, without a script"),
    ),
    row("parsable", ' ', No, Supported("Print only the id")),
    row("quiet", 'Q', No, Supported("No warnings")),
    row(
        "mail-type",
        ' ',
        Value("TYPE"),
        Supported("Mail at BEGIN, END, FAIL, ALL or NONE"),
    ),
    row(
        "mail-user",
        ' ',
        Value("USER"),
        Supported("Recipients of the mails; default: the submitter"),
    ),
    row("qos", 'q', Value("QOS"), NoEffect("there are no QOS")),
    row(
        "wckey",
        ' ',
        Value("KEY"),
        NoEffect("--account names the project"),
    ),
    row("nice", ' ', Optional("N"), ORDER),
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
        Optional("TIME"),
        NoEffect("the environment is always sent"),
    ),
    row(
        "propagate",
        ' ',
        Optional("LIMITS"),
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
        Optional("off"),
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
        Refused("use --gpus-per-node"),
    ),
    row("cpus-per-gpu", ' ', Value("N"), SHAPE),
    row("mem-per-gpu", ' ', Value("SIZE"), Refused("use --mem")),
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
        Refused("use --cpus-per-task and --gres"),
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
        Optional("N"),
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
        let help = match o.support {
            Supported(help) => help,
            _ => "",
        };
        let arg = match o.takes {
            No => flag(o.long, help),
            Value(name) => opt(o.long, name, help),
            Optional(name) => optional_value(o.long, name, help),
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
