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
    pub about: String,
}

impl Candidate {
    pub(super) fn new(word: impl Into<String>, about: impl Into<String>) -> Candidate {
        Candidate {
            word: word.into(),
            about: about.into(),
        }
    }

    /// With a description of ours, in the language of this process.
    pub(super) fn described(word: impl Into<String>, about: &str) -> Candidate {
        Candidate::new(word, translated(about))
    }
}

/// A kind of names in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Live {
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
    Jobs(States),
    JobNames,
    Limits,
    Resources,
    CronJobs,
    /// The rules of alerts.
    Alerts,
}

/// The states of the jobs to which a command applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum States {
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
pub(super) enum Kind {
    Nothing,
    Shell(ShellCompletion),
    /// One name.
    One(Live),
    /// Names separated by commas or blanks.
    List(Live),
    Fixed(Vec<Candidate>),
    FixedList(Vec<Candidate>),
}

/// The kind of an option value, or of an operand after `before` others: determined by its id and by
/// its placeholder in the help of `command`.
pub(super) fn kind(command: &str, id: &str, shown: &str, before: usize) -> Kind {
    match (shown, command) {
        ("QUEUE", _) if id == "names" => Kind::One(Live::Queues),
        ("QUEUE" | "QUEUES", _) => Kind::List(Live::Queues),
        ("HOST", _) if id.len() > 1 => Kind::One(Live::Hosts),
        ("HOST" | "HOSTS", _) => Kind::List(Live::Hosts),
        ("USER", _) => Kind::List(Live::Users),
        ("/GROUP" | "/GROUP...", _) => Kind::One(Live::JobGroups),
        ("GROUP", _) => Kind::One(Live::Groups),
        ("PROJECT", _) => Kind::One(Live::Projects),
        ("[show|check] APPLICATION", _) => Kind::One(Live::Apps),
        ("APP" | "APPLICATION", _) => Kind::One(Live::Apps),
        ("APPLICATIONS", _) => Kind::List(Live::Apps),
        ("JOB" | "JOBID" | "JOBS" | "JOB... | CONDITION", _) => {
            Kind::One(Live::Jobs(states(command)))
        }
        ("JOB [POSITION]", _) if before == 0 => Kind::One(Live::Jobs(states(command))),
        ("CHKPNT_DIR [JOB]", _) if before == 0 => Kind::Shell(ShellCompletion::Dirs),
        ("CHKPNT_DIR [JOB]", _) => Kind::One(Live::Jobs(States::Any)),
        ("QUEUE JOB", _) if before == 0 => Kind::One(Live::Queues),
        ("QUEUE JOB", _) => Kind::One(Live::Jobs(states(command))),
        ("[HOST] COMMAND", _) if before == 0 => Kind::One(Live::Hosts),
        ("FORMAT", _) => Kind::FixedList(fields(command)),
        ("EVENTS", _) => Kind::FixedList(fixed(event_json::NAMES.iter().copied())),
        ("SIGNAL", _) => Kind::Fixed(fixed(signals::names().map(|(name, _)| name))),
        ("KIND", _) => Kind::Fixed(fixed(LAUNCH_KINDS.iter().map(|(word, _)| *word))),
        ("WHAT", "cacct") => {
            Kind::Fixed(fixed(["user", "group", "project", "app", "queue", "host"]))
        }
        ("NAME", "cview") if id == "screen" => {
            Kind::Fixed(fixed(["queues", "hosts", "jobs", "job", "host"]))
        }
        ("NAME", "climits") => Kind::One(Live::Limits),
        ("NAME", "cinfo") => Kind::One(Live::Resources),
        ("NAME", "lshosts") => Kind::One(Live::Hosts),
        ("NAME", "cmgroup") => Kind::One(Live::HostGroups),
        ("NAME", "cugroup") => Kind::One(Live::Groups),
        ("NAME" | "SCHEDULE|NAME", "ccron") => Kind::One(Live::CronJobs),
        ("NAME", _) if id == "J" => Kind::One(Live::JobNames),
        ("WORD", _) => of_words((command, id), before),
        ("FILE" | "FILE OP FILE" | "SHELL" | "COMMAND" | "[HOST] COMMAND", _) => {
            Kind::Shell(ShellCompletion::Files)
        }
        ("DIR" | "D" | "IMAGE", _) => Kind::Shell(ShellCompletion::Dirs),
        _ => choice(shown),
    }
}

/// Operands of commands whose first word says what to do.
fn of_words(operand: (&str, &str), before: usize) -> Kind {
    let words: &[&str] = match (operand, before) {
        (("cadmin", "which"), _) => &["mbd", "sbd", "lim"],
        (("cadmin", "words"), 0) => &["list", "silence", "unsilence"],
        (("cadmin", "words"), 1) => return Kind::One(Live::Alerts),
        (("ctoken", _), 0) => &["create", "list", "revoke"],
        _ => return Kind::Nothing,
    };
    Kind::Fixed(fixed(words.iter().copied()))
}

/// For a placeholder such as `auto|off`: one of these words.
fn choice(shown: &str) -> Kind {
    let is_word = |word: &str| word.bytes().all(|b| b.is_ascii_lowercase()) && !word.is_empty();
    match shown.contains('|') && shown.split('|').all(is_word) {
        true => {
            let words = shown.split('|').map(|word| Candidate::new(word, ""));
            Kind::Fixed(words.collect())
        }
        false => Kind::Nothing,
    }
}

fn fixed<'w>(words: impl IntoIterator<Item = &'w str>) -> Vec<Candidate> {
    let words = words.into_iter().map(|word| Candidate::new(word, ""));
    words.collect()
}

/// The states of the jobs to which a command applies.
fn states(command: &str) -> States {
    match command {
        "ckill" | "cmod" | "cchkpnt" | "cstop" => States::Unfinished,
        "cresume" => States::Suspended,
        "ctop" | "cbot" | "crun" | "cswitch" => States::Waiting,
        _ => States::Any,
    }
}

/// The fields of `-o`.
fn fields(command: &str) -> Vec<Candidate> {
    fn named<G>(fields: &[Field<G>]) -> Vec<Candidate> {
        let fields = fields.iter();
        let named = fields.map(|f| Candidate::new(f.name, f.header));
        named.collect()
    }
    match command {
        "cjobs" => named(job::FIELDS),
        "cacct" => named(acct::FIELDS),
        "cqueues" => named(queue::FIELDS),
        "chosts" => named(host::FIELDS),
        "cload" => named(load::FIELDS),
        "cinfo" | "lshosts" => named(info::HOST_FIELDS),
        "cslots" => named(slots::FIELDS),
        "climits" => named(limit::FIELDS),
        "cjgroup" => named(job_group::FIELDS),
        "cusers" => named(user::FIELDS),
        "ccron" => named(cron::FIELDS),
        _ => Vec::new(),
    }
}
