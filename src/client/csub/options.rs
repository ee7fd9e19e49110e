//! The options of csub, cmod and each pack line: which are implemented, and which are not yet.

use super::no_effect::HARMLESS;
use crate::client::cli::{Table, command, flag, opt, trailing_command};
use crate::client::exit::Fail;
use clap::{Arg, Command};
use std::collections::HashSet;
use std::sync::LazyLock;

/// LSF options that this version does not implement: name, whether it takes a value. They are
/// refused by name, since an option that is silently ignored changes what a job does.
const UNBUILT: &[(&str, bool)] = &[
    ("ar", false),
    ("clusters", true),
    ("data", true),
    ("dl", false),
    ("eptl", true),
    ("ext", true),
    ("freq", true),
    ("hl", false),
    ("hostfile", true),
    ("IS", false),
    ("ISp", false),
    ("ISs", false),
    ("IX", false),
    ("jobaff", true),
    ("json", true),
    ("jsdl", true),
    ("network", true),
    ("outdir", true),
    ("proxy", true),
    ("ptl", true),
    ("rcacct", true),
    ("s", true),
    ("sla", true),
    ("stage", true),
    ("T", true),
    ("tty", false),
    ("ul", false),
    ("We", true),
    ("yaml", true),
];

/// Whether the option is known but not implemented in this version.
pub(crate) fn is_unimplemented(id: &str) -> bool {
    // A pack calls this for each option of each line.
    static NAMES: LazyLock<HashSet<&str>> =
        LazyLock::new(|| UNBUILT.iter().map(|(name, _)| *name).collect());
    NAMES.contains(id)
}

/// The refusal of such an option.
pub(crate) fn unimplemented_option(id: &str) -> Fail {
    let instead = match id {
        "IS" | "ISp" | "ISs" => "; the connection of -I, -Ip and -Is is always encrypted",
        "IX" => "; -XF passes the windows of an interactive job on",
        "outdir" => "; write the directory into the names of files: -o DIR/%J.out",
        "json" | "yaml" | "jsdl" => "; --spec reads a description with its own keys",
        _ => "",
    };
    Fail::usage(format!(
        "option -{id} is not implemented in this version{instead}"
    ))
}

/// Options that describe a job, shared by csub and cmod: name, value (none for a flag), help.
const JOB_OPTIONS: &[(&str, &str, &str)] = &[
    (
        "J",
        "NAME[LIST]%N",
        "Job name; with an index list an array, %N elements at a time",
    ),
    (
        "Jd",
        "TEXT",
        "Description of the job, up to 4095 characters",
    ),
    (
        "q",
        "QUEUES",
        "Queue, or several: the first that accepts the job",
    ),
    (
        "app",
        "APPLICATION",
        "Application: a profile of cb.yaml, or a template that takes NAME=VALUE; see capps",
    ),
    ("P", "PROJECT", "Project"),
    ("G", "GROUP", "User group whose shares the job uses"),
    ("g", "/GROUP", "Job group: a path of names; see cjgroup"),
    (
        "sp",
        "PRIORITY",
        "Priority among your own jobs, 1 or higher",
    ),
    ("n", "MIN[,MAX]", "Number of slots"),
    (
        "R",
        "REQUIREMENT",
        "Resource requirement; several are joined by &&",
    ),
    (
        "gpu",
        "num=N[/task]",
        "GPUs on each host or for each slot, in LSF's syntax; the same as rusage[gpu=N]",
    ),
    ("m", "HOSTS", "Hosts and host groups, host+N prefers"),
    ("x", "", "Exclusive use of the hosts"),
    ("r", "", "Rerun the job when its host fails"),
    ("rn", "", "Do not rerun the job when its host fails"),
    (
        "ti",
        "",
        "End the job when its dependency (-w) can never be satisfied",
    ),
    (
        "orphan",
        "hold|kill|run",
        "What happens to the job when its dependency (-w) can never be satisfied",
    ),
    ("b", "[[MON:]DAY:]H:M", "Do not start before this time"),
    ("t", "[[MON:]DAY:]H:M", "End the job at this time"),
    (
        "start-timeout",
        "T",
        "End the job if it is not started within this time",
    ),
    (
        "w",
        "CONDITION",
        "Start when the condition on other jobs holds: done(12) && ended(\"a\")",
    ),
    (
        "W",
        "[H:]M[/HOST]",
        "Run limit; with a host or host model for its speed",
    ),
    (
        "c",
        "[H:]M[/HOST]",
        "CPU time limit; with a host or host model for its speed",
    ),
    (
        "M",
        "SIZE",
        "Memory limit; a plain number is in the cluster's unit (MB)",
    ),
    (
        "v",
        "SIZE",
        "Swap limit; a plain number is in the cluster's unit (MB)",
    ),
    ("p", "N", "Limit of processes"),
    ("F", "SIZE", "Limit of file size; a plain number is KB"),
    (
        "D",
        "SIZE",
        "Limit of the data segment; a plain number is KB",
    ),
    ("S", "SIZE", "Limit of the stack; a plain number is KB"),
    ("C", "SIZE", "Limit of core files; a plain number is KB"),
    (
        "mem",
        "SIZE",
        "Reserve this memory and limit the job to it: rusage[mem=SIZE] and -M SIZE",
    ),
    (
        "oom-kill",
        "fail|ignore",
        "Whether the job fails if one of its processes is killed for lack of memory",
    ),
    ("i", "FILE", "Standard input (%J job id, %I array index)"),
    ("is", "FILE", "Standard input, copied at submission"),
    ("o", "FILE", "Append output to FILE (%J, %I)"),
    ("oo", "FILE", "Write output to FILE"),
    ("e", "FILE", "Append error output to FILE"),
    ("eo", "FILE", "Write error output to FILE"),
    ("cwd", "DIR", "Working directory"),
    ("cwdc", "DIR", "Working directory, created if missing"),
    ("L", "SHELL", "Login shell that runs the command"),
    ("B", "", "Mail when the job starts"),
    ("N", "", "Mail a report when the job ends, also with -o"),
    ("Ne", "", "Mail a report when the job fails"),
    (
        "notify",
        "EVENTS",
        "Mail at these events: start, done, exit, suspend",
    ),
    (
        "u",
        "ADDRESSES",
        "Recipients of the mails; default: the submitter",
    ),
    (
        "rnc",
        "COMMAND",
        "Run COMMAND on the first host each time slots are added to the job",
    ),
    (
        "E",
        "COMMAND",
        "Run COMMAND on the first host before the job; if it fails, the job pends again",
    ),
    (
        "Ep",
        "COMMAND",
        "Run COMMAND on the first host after the job, however it ended",
    ),
    (
        "f",
        "FILE OP FILE",
        "Copy a file: > before the job, < or << back after it, >< both",
    ),
    (
        "di",
        "IMAGE",
        "Run the job in a container with this directory as its root",
    ),
    ("do", "OPTIONS", "Options for the container runtime"),
    (
        "Si",
        "IMAGE",
        "Run the job in a container of Apptainer: a file, a directory or docker://NAME",
    ),
    ("So", "OPTIONS", "Options for apptainer exec"),
    (
        "Sb",
        "/SRC[:/DST[:ro]],...",
        "Paths of the host to bind into the container of -Si",
    ),
    (
        "k",
        "DIR [init=MIN] [MIN] [method=NAME]",
        "Save the job's state below DIR, every MIN minutes, or on request",
    ),
    (
        "Q",
        "EXIT_VALUES",
        "Requeue the job when it exits with one of these: '30 40-45 all ~9 EXCLUDE(20)'",
    ),
    (
        "signal",
        "SIG@S",
        "Warn the job with SIG this many seconds before its run limit, as -wa with -wt does",
    ),
    (
        "wa",
        "SIGNAL",
        "Warn the job with SIGNAL before its run limit",
    ),
    ("wt", "[H:]M", "Warn the job this long before its run limit"),
    (
        "retries",
        "N",
        "Retry a failed job up to N times, after 1 s, 2 s, 4 s ... 5 min",
    ),
];

fn args_of(
    options: &'static [(&'static str, &'static str, &'static str)],
) -> impl Iterator<Item = Arg> {
    options.iter().map(|(name, value, help)| match *value {
        "" => flag(name, help),
        value => opt(name, value, help),
    })
}

fn hidden_options() -> impl Iterator<Item = Arg> {
    let harmless = HARMLESS.iter().map(|(name, takes, _)| (name, takes));
    let unbuilt = UNBUILT.iter().map(|(name, takes)| (name, takes));
    unbuilt.chain(harmless).map(|(name, takes)| {
        let arg = if *takes {
            opt(name, "VALUE", "")
        } else {
            flag(name, "")
        };
        arg.hide(true)
    })
}

fn base(name: &'static str, about: &'static str) -> Command {
    command(name, about)
        .args(args_of(JOB_OPTIONS))
        .args(hidden_options())
        .arg(wait_option())
}

fn wait_option() -> Arg {
    opt(
        "wait",
        "SECONDS",
        "Wait this long for the leader's answer [60]",
    )
}

/// Options of csub only: name, value (none for a flag), help.
const SUBMIT_OPTIONS: &[(&str, &str, &str)] = &[
    ("H", "", "Hold the job until cresume"),
    (
        "I",
        "",
        "Interactive job: uses the input, output and error output of this command",
    ),
    (
        "Ip",
        "",
        "Interactive job with its own terminal; ^C and ^Z act on this command",
    ),
    (
        "Is",
        "",
        "Interactive job with its own terminal, which gets every key: for a shell",
    ),
    (
        "XF",
        "",
        "Interactive job with X11 forwarding to the display of this command",
    ),
    (
        "K",
        "",
        "Wait for the job to finish and exit with its exit code",
    ),
    (
        "env",
        "LIST",
        "Environment: all, none, ~VAR leaves out, VAR=VALUE sets",
    ),
    (
        "nnodes",
        "N",
        "N whole hosts: the same as -n N -x -R span[ptile=1]",
    ),
    (
        "no-report",
        "",
        "The file of -o contains only the output, without the job report at its head",
    ),
    (
        "launch",
        "KIND",
        "Start the command once for each slot: tasks, torch, tf, mxnet; or mpi",
    ),
    (
        "section",
        "SECTION",
        "Name of a section of -R and its own command, once for each section",
    ),
    (
        "key",
        "KEY",
        "A second submission with this key within 7 days returns the same job",
    ),
    (
        "spec",
        "FILE",
        "Submit the job that this file of YAML or JSON describes (- for standard input)",
    ),
    (
        "clone",
        "JOB",
        "Submit a job with the command and options of this one, except for those given here",
    ),
    (
        "params",
        "FILE",
        "An array with an element for each line of this CSV file: CB_PARAM_<COLUMN>",
    ),
    (
        "pack",
        "FILE",
        "Submit one job for each line of FILE (- for standard input)",
    ),
    (
        "dry-run",
        "",
        "Submit nothing: show the job as interpreted, any refusal, and the hosts that fit now",
    ),
    (
        "jsonl",
        "",
        "With -dry-run, also --json: one JSON object with typed values",
    ),
    (
        "verbose",
        "",
        "Report on standard error how the options were interpreted",
    ),
];

/// The command line of csub.
pub(crate) fn csub() -> Command {
    base("csub", "Submit a job")
        .args(args_of(SUBMIT_OPTIONS))
        .mut_arg("env", |env| env.visible_alias("ENV"))
        .arg(trailing_command(
            "COMMAND",
            "Command and arguments, a script file, or nothing: script on standard input",
        ))
}

/// Options of csub that `crestart` accepts.
const RESTART_OPTIONS: &[&str] = &[
    "q", "P", "G", "R", "m", "x", "b", "t", "w", "W", "c", "M", "v", "p", "F", "D", "S", "C", "B",
    "N", "Ne", "E",
];

/// The command line of crestart.
pub(crate) fn crestart() -> Command {
    let taken = |(name, ..): &&(&str, &str, &str)| RESTART_OPTIONS.contains(name);
    let options = JOB_OPTIONS.iter().filter(taken);
    let options = options.map(|(name, value, help)| match *value {
        "" => flag(name, help),
        value => opt(name, value, help),
    });
    command("crestart", "Submit a job again, from its last checkpoint")
        .args(options)
        .arg(
            flag(
                "force",
                "Force: passed on to the checkpoint method, which restores despite obstacles",
            )
            .short('f'),
        )
        .arg(wait_option())
        .arg(crate::client::cli::operands(
            "jobs",
            "CHKPNT_DIR [JOB]",
            "Checkpoint directory, and which job below it: 123, or an element, 123[4]",
        ))
}

/// The command line of cmod: the options of csub, and `-Xn` to reset option X.
pub(crate) fn cmod() -> Command {
    let resets = RESETS.iter().map(|(name, id)| {
        let help = format!("Reset -{id} to its default");
        Arg::new(*name)
            .long(*name)
            .action(clap::ArgAction::SetTrue)
            .overrides_with(*name)
            .help(help)
    });
    base("cmod", "Change the options of jobs")
        .args(resets)
        .arg(opt("Z", "COMMAND", "New command line").hide(false))
        .arg(crate::client::cli::operands(
            "jobs",
            "JOB",
            "Job IDs, elements as 12[3-5]",
        ))
}

/// Options of cmod that reset an option: their own name, the option. `-rn` is csub's own.
pub(crate) const RESETS: &[(&str, &str)] = &[
    ("Jn", "J"),
    ("Jdn", "Jd"),
    ("appn", "app"),
    ("Pn", "P"),
    ("Gn", "G"),
    ("gn", "g"),
    ("rncn", "rnc"),
    ("Bn", "B"),
    ("Nn", "N"),
    ("notifyn", "notify"),
    ("un", "u"),
    ("En", "E"),
    ("Epn", "Ep"),
    ("fn", "f"),
    ("din", "di"),
    ("Sin", "di"),
    ("kn", "k"),
    ("Qn", "Q"),
    ("signaln", "signal"),
    ("wan", "wa"),
    ("wtn", "wt"),
    ("retriesn", "retries"),
    ("spn", "sp"),
    ("nn", "n"),
    ("Rn", "R"),
    ("mn", "m"),
    ("xn", "x"),
    ("bn", "b"),
    ("tn", "t"),
    ("start-timeoutn", "start-timeout"),
    ("wn", "w"),
    ("tin", "ti"),
    ("orphann", "orphan"),
    ("Wn", "W"),
    ("cn", "c"),
    ("Mn", "M"),
    ("vn", "v"),
    ("pn", "p"),
    ("Fn", "F"),
    ("Dn", "D"),
    ("Sn", "S"),
    ("Cn", "C"),
    ("oom-killn", "oom-kill"),
    ("in", "i"),
    ("isn", "is"),
    ("on", "o"),
    ("oon", "o"),
    ("en", "e"),
    ("eon", "e"),
    ("cwdn", "cwd"),
    ("Ln", "L"),
    ("qn", "q"),
];

/// The option under which an option is stored: options with the same one replace each other.
pub(crate) fn replacement_group(id: &str) -> &str {
    match id {
        "oo" => "o",
        "eo" => "e",
        "is" => "i",
        "cwdc" => "cwd",
        "Si" => "di",
        "rn" => "r",
        other => other,
    }
}

/// Options in the order in which they were given. Of those that count once only the last is kept.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct JobOptions {
    list: Vec<(String, String)>,
}

/// Options whose values accumulate.
const ACCUMULATING: &[&str] = &["R", "env", "f", "section"];

/// Whether the values of an option accumulate.
pub(crate) fn accumulates(id: &str) -> bool {
    ACCUMULATING.contains(&id)
}

impl JobOptions {
    /// The options of one line. A later option replaces an earlier one of the same replacement
    /// group.
    pub(crate) fn from_split(table: &Table, split: &crate::client::cli::Split) -> JobOptions {
        let mut options = JobOptions::default();
        for given in &split.given {
            options.add(table.id(given), &given.value);
        }
        options
    }

    /// Adds an option; it replaces an earlier one of the same replacement group, unless its values
    /// accumulate.
    pub(crate) fn add(&mut self, id: &str, value: &str) {
        if !accumulates(id) {
            self.list
                .retain(|(old, _)| replacement_group(old) != replacement_group(id));
        }
        self.list.push((id.to_owned(), value.to_owned()));
    }

    /// Adds the options of a later line of the same script, as if both lines were one.
    pub(crate) fn append(&mut self, later: JobOptions) {
        for (id, value) in later.list {
            self.add(&id, &value);
        }
    }

    /// Removes all options of the same replacement group.
    pub(crate) fn remove(&mut self, id: &str) {
        self.list
            .retain(|(old, _)| replacement_group(old) != replacement_group(id));
    }

    /// These options, plus those of a script that the command line does not set. Settings of the
    /// environment accumulate, those of the command line last.
    #[must_use]
    pub(crate) fn overriding(self, script: JobOptions) -> JobOptions {
        let beaten = |id: &str| {
            id != "env"
                && self
                    .list
                    .iter()
                    .any(|(own, _)| replacement_group(own) == replacement_group(id))
        };
        let mut list: Vec<_> = script
            .list
            .into_iter()
            .filter(|(id, _)| !beaten(id))
            .collect();
        list.extend(self.list);
        JobOptions { list }
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.list.iter().any(|(given, _)| given == id)
    }

    /// The value of an option that counts once.
    pub(crate) fn get(&self, id: &str) -> Option<&str> {
        self.list
            .iter()
            .rfind(|(given, _)| given == id)
            .map(|(_, value)| value.as_str())
    }

    /// All values of an option that accumulates.
    pub(crate) fn all(&self, id: &str) -> impl Iterator<Item = &str> {
        self.list
            .iter()
            .filter(move |(given, _)| given == id)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list.iter().map(|(id, v)| (id.as_str(), v.as_str()))
    }

    /// Refuses options that this version does not implement.
    ///
    /// # Errors
    /// Names the first such option.
    pub(crate) fn check_implemented(&self) -> Result<(), Fail> {
        match self.list.iter().find(|(id, _)| is_unimplemented(id)) {
            Some((id, _)) => Err(unimplemented_option(id)),
            None => Ok(()),
        }
    }
}
