//! The kinds of values of options and operands, determined by the placeholder words in the help of
//! each command.
//!
//! Owns the table of these words and the lists of constant words. Reads no file.

use crate::language::translated;
use crate::model::LAUNCH_KINDS;
use crate::show::field::Field;
use crate::show::{
    acct, cron, event_json, host, info, job, job_group, limit, load, queue, slots, user,
};
use crate::sys::signals;

/// A possible completion, and its description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub word: String,
    pub description: String,
}

impl Candidate {
    pub(super) fn new(word: impl Into<String>, about: impl Into<String>) -> Candidate {
        Candidate {
            word: word.into(),
            description: about.into(),
        }
    }

    /// With a description of ours, in the language of this process.
    pub(super) fn described(word: impl Into<String>, about: &str) -> Candidate {
        Candidate::new(word, translated(about))
    }
}

/// A kind of names in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClusterNames {
    Queues,
    /// Including host groups.
    Hosts,
    HostGroups,
    /// Including user groups.
    Users,
    Groups,
    Projects,
    JobGroups,
    Apps,
    /// The parameters of the template whose name is given instead of the word.
    AppParams,
    /// The caller's own jobs in these states.
    Jobs(JobStates),
    JobNames,
    Limits,
    Resources,
    CronJobs,
    /// The rules of alerts.
    Alerts,
}

/// The states of the jobs to which a command applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobStates {
    Any,
    Unfinished,
    Waiting,
    Suspended,
}

/// What the shell completes itself.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum ShellCompletion {
    #[default]
    Nothing,
    Files,
    Dirs,
}

/// The kind of a word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WordKind {
    Nothing,
    Shell(ShellCompletion),
    /// One name.
    One(ClusterNames),
    /// Names separated by commas or blanks.
    List(ClusterNames),
    Fixed(Vec<Candidate>),
    FixedList(Vec<Candidate>),
}

/// The kind of an option value, or of an operand after `before` others: determined by its id and by
/// its placeholder in the help of `command`.
pub(super) fn kind(command: &str, id: &str, shown: &str, before: usize) -> WordKind {
    match (shown, command) {
        ("QUEUE", _) if id == "names" => WordKind::One(ClusterNames::Queues),
        ("QUEUE" | "QUEUES", _) => WordKind::List(ClusterNames::Queues),
        ("HOST", _) if id.len() > 1 => WordKind::One(ClusterNames::Hosts),
        ("HOST" | "HOSTS", _) => WordKind::List(ClusterNames::Hosts),
        ("USER", _) => WordKind::List(ClusterNames::Users),
        ("/GROUP" | "/GROUP...", _) => WordKind::One(ClusterNames::JobGroups),
        ("GROUP", _) => WordKind::One(ClusterNames::Groups),
        ("PROJECT", _) => WordKind::One(ClusterNames::Projects),
        ("[show|check] APPLICATION", _) => WordKind::One(ClusterNames::Apps),
        ("APP" | "APPLICATION", _) => WordKind::One(ClusterNames::Apps),
        ("APPLICATIONS", _) => WordKind::List(ClusterNames::Apps),
        ("JOB" | "JOBID" | "JOBS" | "JOB... | CONDITION", _) => {
            WordKind::One(ClusterNames::Jobs(states(command)))
        }
        ("JOB [POSITION]", _) if before == 0 => WordKind::One(ClusterNames::Jobs(states(command))),
        ("CHKPNT_DIR [JOB]", _) if before == 0 => WordKind::Shell(ShellCompletion::Dirs),
        ("CHKPNT_DIR [JOB]", _) => WordKind::One(ClusterNames::Jobs(JobStates::Any)),
        ("QUEUE JOB", _) if before == 0 => WordKind::One(ClusterNames::Queues),
        ("QUEUE JOB", _) => WordKind::One(ClusterNames::Jobs(states(command))),
        ("[HOST] COMMAND", _) if before == 0 => WordKind::One(ClusterNames::Hosts),
        ("FORMAT", _) => WordKind::FixedList(fields(command)),
        ("EVENTS", _) => WordKind::FixedList(fixed(event_json::NAMES.iter().copied())),
        ("SIGNAL", _) => WordKind::Fixed(fixed(signals::names().map(|(name, _)| name))),
        ("KIND", _) => WordKind::Fixed(fixed(LAUNCH_KINDS.iter().map(|(word, _)| *word))),
        ("WHAT", "cacct") => {
            WordKind::Fixed(fixed(["user", "group", "project", "app", "queue", "host"]))
        }
        ("NAME", "cview") if id == "screen" => {
            WordKind::Fixed(fixed(["queues", "hosts", "jobs", "job", "host"]))
        }
        ("NAME", "climits") => WordKind::One(ClusterNames::Limits),
        ("NAME", "cinfo") => WordKind::One(ClusterNames::Resources),
        ("NAME", "lshosts") => WordKind::One(ClusterNames::Hosts),
        ("NAME", "cmgroup") => WordKind::One(ClusterNames::HostGroups),
        ("NAME", "cugroup") => WordKind::One(ClusterNames::Groups),
        ("NAME" | "SCHEDULE|NAME", "ccron") => WordKind::One(ClusterNames::CronJobs),
        ("NAME", _) if id == "J" => WordKind::One(ClusterNames::JobNames),
        ("WORD", _) => of_words((command, id), before),
        ("FILE" | "FILE OP FILE" | "SHELL" | "COMMAND" | "[HOST] COMMAND", _) => {
            WordKind::Shell(ShellCompletion::Files)
        }
        ("DIR" | "D" | "IMAGE", _) => WordKind::Shell(ShellCompletion::Dirs),
        _ => choice(shown),
    }
}

/// Operands of commands whose first word says what to do.
fn of_words(operand: (&str, &str), before: usize) -> WordKind {
    let words: &[&str] = match (operand, before) {
        (("cadmin", "which"), _) => &["mbd", "sbd", "lim"],
        (("cadmin", "words"), 0) => &["list", "silence", "unsilence"],
        (("cadmin", "words"), 1) => return WordKind::One(ClusterNames::Alerts),
        (("ctoken", _), 0) => &["create", "list", "revoke"],
        _ => return WordKind::Nothing,
    };
    WordKind::Fixed(fixed(words.iter().copied()))
}

/// For a placeholder such as `auto|off`: one of these words.
fn choice(shown: &str) -> WordKind {
    let is_word = |word: &str| word.bytes().all(|b| b.is_ascii_lowercase()) && !word.is_empty();
    match shown.contains('|') && shown.split('|').all(is_word) {
        true => {
            let words = shown.split('|').map(|word| Candidate::new(word, ""));
            WordKind::Fixed(words.collect())
        }
        false => WordKind::Nothing,
    }
}

fn fixed<'w>(words: impl IntoIterator<Item = &'w str>) -> Vec<Candidate> {
    let words = words.into_iter().map(|word| Candidate::new(word, ""));
    words.collect()
}

/// The states of the jobs to which a command applies.
fn states(command: &str) -> JobStates {
    match command {
        "ckill" | "cmod" | "cchkpnt" | "cstop" => JobStates::Unfinished,
        "cresume" => JobStates::Suspended,
        "ctop" | "cbot" | "crun" | "cswitch" => JobStates::Waiting,
        _ => JobStates::Any,
    }
}

/// The fields of `-o`.
fn fields(command: &str) -> Vec<Candidate> {
    fn field_candidates<G>(fields: &[Field<G>]) -> Vec<Candidate> {
        let fields = fields.iter();
        let named = fields.map(|f| Candidate::new(f.name, f.header));
        named.collect()
    }
    match command {
        "cjobs" => field_candidates(job::FIELDS),
        "cacct" => field_candidates(acct::FIELDS),
        "cqueues" => field_candidates(queue::FIELDS),
        "chosts" => field_candidates(host::FIELDS),
        "cload" => field_candidates(load::FIELDS),
        "cinfo" | "lshosts" => field_candidates(info::HOST_FIELDS),
        "cslots" => field_candidates(slots::FIELDS),
        "climits" => field_candidates(limit::FIELDS),
        "cjgroup" => field_candidates(job_group::FIELDS),
        "cusers" => field_candidates(user::FIELDS),
        "ccron" => field_candidates(cron::FIELDS),
        _ => Vec::new(),
    }
}
