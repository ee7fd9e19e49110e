//! client: the commands of users, and the code that all commands share.
//!
//! Commands read the published view and leave requests in the drop box; none of them talks to a
//! daemon or imports one's code. Owns the table of users' commands and the exit codes.

pub(crate) mod aip;
pub(crate) mod alerts;
pub(crate) mod answers;
pub(crate) mod cacct;
pub(crate) mod capps;
pub(crate) mod ccron;
pub(crate) mod cdeps;
pub(crate) mod cevents;
pub(crate) mod checkpoint;
pub(crate) mod chist;
pub(crate) mod chosts;
pub(crate) mod cid;
pub(crate) mod cinfo;
pub(crate) mod cjobs;
pub(crate) mod claunch;
pub(crate) mod cli;
pub(crate) mod climits;
pub(crate) mod cload;
pub(crate) mod clogin;
mod cluster_copy;
pub(crate) mod cmod;
pub(crate) mod cparams;
pub(crate) mod cpeek;
pub(crate) mod cqueues;
pub(crate) mod crun;
pub(crate) mod cslots;
pub(crate) mod csub;
pub(crate) mod ctasks;
pub(crate) mod ctoken;
pub(crate) mod cusers;
pub(crate) mod cview;
pub(crate) mod cwait;
mod definition_file;
pub(crate) mod env;
mod examples;
pub(crate) mod exit;
pub(crate) mod groups;
pub(crate) mod hang_notice;
pub(crate) mod help;
pub(crate) mod interactive;
mod job_description;
mod job_groups;
pub(crate) mod job_requests;
mod known_names;
pub(crate) mod leadership;
mod limit_unit;
pub(crate) mod lsf_names;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod migrate;
pub(crate) mod options;
pub(crate) mod past_view;
pub(crate) mod portal;
pub(crate) mod quiet;
pub(crate) mod read;
pub(crate) mod reorder;
pub(crate) mod requests;
pub(crate) mod requeue;
pub(crate) mod signal;
pub(crate) mod slurm;
pub(crate) mod switch;
pub(crate) mod templates;
mod visibility;

pub(crate) use exit::{Fail, report, usage};
pub(crate) use help::parsed;
pub(crate) use limit_unit::limit_unit;

use std::ffi::OsString;

/// A command: takes its arguments (without its name) and returns its exit code.
pub(crate) type Run = fn(&[OsString]) -> i32;

/// A row of the table: the command's names (help shows the first one), its purpose, its function.
pub(crate) struct Entry {
    pub(crate) names: &'static [&'static str],
    pub(crate) about: &'static str,
    pub(crate) run: Run,
}

pub(crate) const fn entry(names: &'static [&'static str], about: &'static str, run: Run) -> Entry {
    Entry { names, about, run }
}

/// The names by which jobs are submitted, Corral's and LSF's: links to the executable `csub`, where
/// it is installed.
pub(crate) const SUBMISSION_NAMES: [&str; 2] = ["csub", "bsub"];

/// The commands of users. Each name is also a link to the executable.
pub(crate) const COMMANDS: &[Entry] = &[
    // Jobs.
    entry(
        &["csub"],
        "submit a job, an array or a pack of jobs",
        csub::run,
    ),
    entry(&["ckill"], "kill jobs or send them a signal", signal::ckill),
    entry(&["cstop"], "stop jobs", signal::cstop),
    entry(&["cresume"], "resume stopped jobs", signal::cresume),
    entry(
        &["cchkpnt"],
        "save the state of running jobs: a checkpoint",
        checkpoint::run,
    ),
    entry(
        &["crestart"],
        "submit jobs again, from their last checkpoint",
        csub::restart::run,
    ),
    entry(
        &["crequeue"],
        "requeue jobs: put them back to pending",
        requeue::run,
    ),
    entry(
        &["cmig"],
        "migrate jobs: save them or run them again, on other hosts",
        migrate::run,
    ),
    entry(&["cmod"], "change the options of jobs", cmod::run),
    entry(&["cswitch"], "switch jobs to another queue", switch::run),
    entry(
        &["ctop"],
        "move a pending job up in the order of its queue",
        reorder::ctop,
    ),
    entry(
        &["cbot"],
        "move a pending job down in the order of its queue",
        reorder::cbot,
    ),
    entry(
        &["crun"],
        "start a pending job now, as an administrator",
        crun::run,
    ),
    entry(&["cpost"], "attach a message to a job", messages::cpost),
    entry(&["cread"], "print a message of a job", messages::cread),
    entry(&["cpeek"], "show the output of a job so far", cpeek::run),
    entry(
        &["claunch", "blaunch"],
        "run a command on hosts of the running job",
        claunch::run,
    ),
    entry(
        &["cwait"],
        "wait until jobs have ended or a condition holds",
        cwait::run,
    ),
    entry(
        &["ctasks"],
        "start the tasks of a job, from inside the job",
        ctasks::run,
    ),
    entry(
        &["ccron"],
        "define and list cron jobs, which submit jobs by a schedule",
        ccron::run,
    ),
    entry(
        &["cgadd"],
        "create a job group, with a limit of started jobs",
        job_groups::cgadd,
    ),
    entry(
        &["cgmod"],
        "change the limit of a job group",
        job_groups::cgmod,
    ),
    entry(
        &["cgdel"],
        "delete job groups that have no unfinished jobs",
        job_groups::cgdel,
    ),
    entry(
        &["aip"],
        "commands in the form NOUN VERB: aip job info, aip queue info, aip cronjob list",
        aip::run,
    ),
    // Views.
    entry(&["cjobs"], "list jobs", cjobs::run),
    entry(
        &["cdeps"],
        "show the jobs that a job depends on, or that depend on it",
        cdeps::run,
    ),
    entry(
        &["cevents"],
        "print events as JSON lines, as they happen",
        cevents::run,
    ),
    entry(&["chist"], "show the history of jobs", chist::run),
    entry(
        &["cacct"],
        "show the resource usage of ended jobs, from accounting",
        cacct::run,
    ),
    entry(
        &["capps"],
        "list applications and the parameters of their templates",
        capps::run,
    ),
    entry(
        &["cjgroup"],
        "list job groups with their numbers of jobs",
        job_groups::run,
    ),
    entry(&["cqueues"], "list queues", cqueues::run),
    entry(&["chosts"], "list hosts with their slots", chosts::run),
    entry(&["cload"], "list the load of hosts", cload::run),
    entry(
        &["cinfo"],
        "list resources, host types and models",
        cinfo::run,
    ),
    entry(
        &["climits"],
        "list the limits of cb.yaml and their usage",
        climits::run,
    ),
    entry(
        &["cslots"],
        "show the slots on which a job can start now, and for how long",
        cslots::run,
    ),
    entry(&["cusers"], "list users with their slots", cusers::run),
    entry(&["cugroup"], "list user groups", groups::cugroup),
    entry(&["cmgroup"], "list host groups", groups::cmgroup),
    entry(&["cparams"], "show the cluster's parameters", cparams::run),
    entry(
        &["cview"],
        "watch queues, hosts and jobs on a full screen, and act on them",
        cview::run,
    ),
    // The portal.
    entry(
        &["clogin"],
        "print a link that logs you in to the portal",
        clogin::run,
    ),
    entry(
        &["ctoken"],
        "create, list and revoke tokens for programs that use the portal",
        ctoken::run,
    ),
    entry(&["cid"], "show the cluster's name and its leader", cid::run),
];
