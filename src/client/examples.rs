//! The examples at the end of the help of each command.
//!
//! Owns their table and how they are shown. The check that each command accepts its example lines
//! is beside the table of options.

use std::fmt::Write as _;

/// A command line without the command's name, and what it does.
type Example = (&'static str, &'static str);

/// The examples of each command, by Corral's own name.
pub(super) const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "csub",
        &[
            ("-q normal -n 4 -W 2:00 ./model in.txt", "4 slots, 2 hours"),
            ("-mem 8G -o out.%J python3 fit.py", "8 GB, output in out.ID"),
            ("-J 'frame[1-100]%10' ./render", "an array, 10 at a time"),
            ("-w 'done(123)' ./collect", "once job 123 is done"),
        ],
    ),
    (
        "ckill",
        &[
            ("123 '124[3-5]'", "a job and three elements"),
            ("-q low 0", "all your jobs in queue low"),
            ("-s USR1 123", "sends a signal"),
        ],
    ),
    (
        "cstop",
        &[("123", "one job"), ("-J 'test*' 0", "all of these names")],
    ),
    (
        "cresume",
        &[("123", "one job"), ("0", "all that are stopped")],
    ),
    (
        "cchkpnt",
        &[
            ("123", "saves the state now"),
            ("-p 30 123", "from now on every 30 minutes"),
            ("-k 123", "and ends the job"),
        ],
    ),
    (
        "crestart",
        &[
            ("/scratch/ck 123", "job 123, from its last checkpoint"),
            ("ck", "the only job that was saved there"),
            ("-q long -W 24:00 ck '123[4]'", "an element of an array"),
        ],
    ),
    (
        "crequeue",
        &[
            ("123", "a running job"),
            ("-e 0", "all of yours that failed"),
            ("-H 123", "and holds it"),
        ],
    ),
    (
        "cmig",
        &[
            ("123", "to any of its hosts with free slots"),
            ("-m 'h2 h3' 123", "to one of these"),
            ("-q low 0", "all of yours in queue low"),
        ],
    ),
    (
        "cgadd",
        &[
            ("/proj/phase1", "a group without a limit"),
            ("-L 20 /proj", "at most 20 of its jobs run at a time"),
        ],
    ),
    (
        "cgmod",
        &[
            ("-L 50 /proj", "another limit"),
            ("-Ln /proj", "without a limit"),
        ],
    ),
    ("cgdel", &[("/proj", "the group and its subgroups")]),
    (
        "cjgroup",
        &[
            ("-s", "all groups as a tree"),
            ("-s /proj", "a group and its subgroups"),
        ],
    ),
    (
        "cmod",
        &[
            ("-W 4:00 123", "another run limit"),
            ("-q high -sp 50 123", "another queue and priority"),
            ("-Rn 123", "without a requirement"),
        ],
    ),
    (
        "cswitch",
        &[
            ("low 123 124", "two jobs"),
            ("-q high low 0", "all of queue high"),
        ],
    ),
    (
        "ctop",
        &[
            ("123", "before all others"),
            ("123 3", "to the third place"),
        ],
    ),
    (
        "cbot",
        &[
            ("123", "after all others"),
            ("123 2", "to the last place but one"),
        ],
    ),
    (
        "crun",
        &[
            ("-m h1 123", "on this host"),
            ("-m 'h1#2 h2#2' 123", "two slots on each"),
        ],
    ),
    (
        "cpost",
        &[
            ("-d 'step 1 is done' 123", "message 0 of job 123"),
            ("-i 1 -d http://h1:8888 '123[4]'", "message 1 of an element"),
        ],
    ),
    (
        "cread",
        &[
            ("123", "message 0 of job 123"),
            ("-i 1 -json '123[4]'", "message 1 of an element, as JSON"),
        ],
    ),
    (
        "cpeek",
        &[
            ("123", "the output so far"),
            ("-f '123[4]'", "follows that of an element"),
        ],
    ),
    (
        "claunch",
        &[
            ("h2 hostname", "on one host"),
            ("-z 'h2 h3' hostname", "on each of two"),
        ],
    ),
    (
        "cwait",
        &[
            ("123 124", "until both have ended"),
            ("-timeout 10m 'done(123)'", "for ten minutes at most"),
        ],
    ),
    (
        "ctasks",
        &[
            ("./rank", "once for each slot"),
            (
                "-launch torch python3 train.py",
                "with the variables of PyTorch",
            ),
        ],
    ),
    (
        "ccron create",
        &[("nightly.yaml", "the cron jobs of the file")],
    ),
    (
        "ccron edit",
        &[("nightly.yaml", "the new content of the file")],
    ),
    (
        "ccron list",
        &[
            ("", "yours"),
            ("-u all -o 'name user next'", "of all users"),
        ],
    ),
    ("ccron show", &[("nightly", "with its runs and history")]),
    ("ccron enable", &[("nightly", "from the next due time on")]),
    ("ccron disable", &[("nightly weekly", "both")]),
    ("ccron start", &[("nightly", "a run now")]),
    ("ccron kill", &[("nightly", "its runs")]),
    ("ccron remove", &[("nightly", "the definition")]),
    (
        "ccron next",
        &[
            ("'30 2 * * mon-fri'", "of a schedule"),
            ("-n 10 nightly", "of a cron job"),
        ],
    ),
    (
        "ccron import",
        &[
            ("crontab.txt", "only prints"),
            ("-create crontab.txt", "creates them"),
        ],
    ),
    (
        "cjobs",
        &[
            ("-a", "finished ones too"),
            ("--why 123", "why it waits or failed, what helps"),
            ("-l 123", "everything about it"),
            ("-o 'jobid stat queue' -u all", "chosen columns"),
        ],
    ),
    (
        "clogin",
        &[("", "the link to open in a browser within a minute")],
    ),
    (
        "ctoken",
        &[
            ("create --scope submit --expires 30d", "for a program"),
            ("list", "your tokens"),
            ("revoke 3f9a1c02b7d4", "invalid at once"),
        ],
    ),
    (
        "cevents",
        &[
            ("-f", "continues with new events"),
            ("-n 20 -e started,ended", "the last 20 of these"),
        ],
    ),
    (
        "chist",
        &[
            ("-l 123", "every event of a job"),
            ("-C 2026/11/1,2026/11/30", "jobs that ended in November"),
        ],
    ),
    (
        "cacct",
        &[
            ("-by user -u all", "totals of each user"),
            ("-l 123", "a page for each attempt"),
            ("-csv -C 2026/11/1,", "since the first of November"),
        ],
    ),
    (
        "capps",
        &[
            ("show pytorch", "parameters of the template"),
            ("check all", "problems of all templates"),
        ],
    ),
    (
        "cqueues",
        &[("", "all queues"), ("-l normal", "everything about one")],
    ),
    (
        "chosts",
        &[
            ("", "all hosts"),
            ("-R 'select[mem>16G]'", "more than 16 GB of free memory"),
            ("-l h1", "everything about one"),
        ],
    ),
    (
        "cload",
        &[
            ("-n 5", "the five least loaded"),
            ("-I r1m:mem h1", "two indices of one"),
        ],
    ),
    (
        "cinfo",
        &[
            ("-r", "resources"),
            ("-H h1", "facts of a host"),
            ("-health", "what is wrong"),
        ],
    ),
    (
        "climits",
        &[
            ("", "all limits"),
            ("-q normal", "those that concern a queue"),
        ],
    ),
    (
        "cslots",
        &[
            ("", "windows for a job of the default queue"),
            ("-l -n 8 -W 30", "8 slots for half an hour, and where"),
            ("-R 'rusage[mem=4G]' -m gpu1", "with 4 GB each on one host"),
        ],
    ),
    (
        "cusers",
        &[("", "your own slots"), ("-w all", "those of all users")],
    ),
    (
        "cugroup",
        &[("", "all user groups"), ("staff", "the members of one")],
    ),
    (
        "cmgroup",
        &[("", "all host groups"), ("gpu", "the members of one")],
    ),
    (
        "cparams",
        &[("", "the main ones"), ("-l", "every parameter of cb.yaml")],
    ),
    (
        "cview",
        &[
            ("", "your jobs"),
            ("-screen hosts", "begins with hosts"),
            ("-once -a", "one frame as text"),
        ],
    ),
    (
        "cdeps",
        &[
            ("123", "what job 123 waits for"),
            ("-r 10 -l 123", "over 10 levels, with the conditions"),
            ("-c 123", "what waits for it"),
        ],
    ),
    (
        "cid",
        &[("", "name and leader"), ("-l", "id and version as well")],
    ),
];

/// The examples of a command for its help, each with the name under which the command was called.
pub(super) fn text(command: &str, called: &str) -> Option<String> {
    let (_, examples) = EXAMPLES.iter().find(|(name, _)| *name == command)?;
    let widest = examples.iter().map(|(line, _)| line.len()).max()?;
    let mut out = String::from("Examples:");
    for (line, about) in *examples {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n  {called} {line:<widest$}  # {about}");
    }
    Some(out)
}
