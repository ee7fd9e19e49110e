//! api: jobs, metrics and events of the cluster by function calls, for programs that are not
//! commands of Corral (`src/drmaa`, `src/export`, `src/web`).
//!
//! Owns what such a program may request and how a refusal reads. Uses the same path as the
//! commands: a request in the drop box, the leader's answer. Prints nothing, catches no signal,
//! does not change umask and working directory, never ends the process. The current state of jobs
//! is in the published view, `spool::view`.

pub mod accounting;
pub mod admin;
pub mod attach;
pub mod events;
pub mod files;
pub mod hosts;
pub mod jobs;
pub mod portal;
pub mod read;

pub use crate::language::Language;

pub use crate::config::template::{BilingualText, Param, ParamKind, Template, TemplateCommand};

use crate::client::csub::program_job::{self, PrepareError, PreparedJob, ProgramJob};
use crate::client::exit::{Exit, Fail};
use crate::client::requests::{self, Outgoing};
use crate::model::Stamp;
use crate::record::ack::{Ack, Outcome};
use crate::record::request::{RequestHead, Selector, SignalAction, Verb};
use crate::spool::Site;
use serde::{Deserialize, Serialize};

/// The templates of applications that `csub -app` accepts, by name, for forms. Invalid ones are
/// left out; `capps check` names them. [`Template::fill`] checks values and returns the resulting
/// variables and options.
///
/// # Errors
/// The directory cannot be read.
pub fn templates(site: &Site) -> Result<Vec<Template>, Failure> {
    let found = crate::client::templates::all(site).map_err(|fail| Failure {
        kind: FailureKind::System,
        text: fail.text,
    })?;
    Ok(found.into_iter().filter_map(|one| one.read.ok()).collect())
}

/// A job, or an array of them, to be submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobRequest {
    /// Words of options as `csub` accepts them.
    pub options: Vec<String>,
    /// The program and its arguments, which no shell reads.
    pub command: Vec<String>,
    /// Instead of it: a command line that a shell reads.
    pub line: String,
    /// Instead of both: the text of a script, whose lines of options count.
    pub script: String,
    /// Instead of a program and a script: a template of an application; `line` has the command or
    /// more words where the template takes them.
    pub template: Option<TemplateValues>,
    /// Options of `csub` that the program states itself: the name without dashes, the value.
    pub named_options: Vec<(&'static str, String)>,
    /// Variables that override those of this process.
    pub env: Vec<(String, String)>,
    /// Name of the job; empty = its command.
    pub name: String,
    /// Index list of an array (`1-9:2`), or empty.
    pub array: String,
    /// Hold it until it is released.
    pub hold: bool,
    /// Not to be started before, and to be ended at, ms since 1970.
    pub begin_ms: Option<i64>,
    pub deadline_ms: Option<i64>,
    /// Maximum run time, excluding suspension.
    pub run_limit_s: Option<u64>,
}

/// A template of `csub -app` with the values of its parameters; those that are missing have their
/// defaults. A relative path of a value begins in the job's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateValues {
    pub name: String,
    pub values: Vec<(String, String)>,
}

/// A job that the leader has accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub id: u32,
    pub queue: String,
    /// When it was accepted, as in its row of the view (ms); 0 = unknown.
    pub accepted_ms: i64,
    /// Options that were accepted and have no effect, as `csub` warns of them.
    pub warning: Option<String>,
}

/// The kind of a refusal or failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The request is invalid, regardless of the cluster.
    Wrong,
    /// An attribute and an option set the same value.
    Twice,
    NotFound,
    Permission,
    /// A limit or a policy of the cluster.
    Refused,
    /// A limit that is reached now but may not be later: the same request may succeed after this
    /// number of seconds.
    TryLater {
        after_s: u32,
    },
    /// No leader, no share, no answer.
    System,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub text: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl From<Fail> for Failure {
    fn from(fail: Fail) -> Failure {
        let kind = match fail.exit {
            Exit::Ok | Exit::Usage => FailureKind::Wrong,
            Exit::NotFound => FailureKind::NotFound,
            Exit::Permission => FailureKind::Permission,
            Exit::Refused => FailureKind::Refused,
            Exit::System => FailureKind::System,
        };
        Failure {
            kind,
            text: fail.text,
        }
    }
}

impl From<PrepareError> for Failure {
    fn from(unfit: PrepareError) -> Failure {
        match unfit {
            PrepareError::Invalid(fail) => fail.into(),
            PrepareError::DuplicateOption(name) => Failure {
                kind: FailureKind::Twice,
                text: format!("-{name} is given both as an option and by an attribute"),
            },
        }
    }
}

/// Checks options of `csub` as far as that is possible without the cluster; `host`: this host.
///
/// # Errors
/// The text of `csub`'s refusal.
pub fn check_options(options: &[String], host: &str) -> Result<(), Failure> {
    Ok(program_job::check(options, host)?)
}

/// Submits a job and waits for the leader's answer.
///
/// # Errors
/// It is refused, or no answer came; the text says whether the request may still be carried out.
pub fn submit(site: &Site, job: &JobRequest) -> Result<Accepted, Failure> {
    submit_prepared(site, program_job::prepare(site, &program_job(job))?)
}

/// Submits a job like one that is known (`12`), with its command, options, script and environment,
/// as `csub --clone` does. `key`: the same key names the same job; may be empty.
///
/// # Errors
/// As [`submit`].
pub fn submit_clone(site: &Site, job: &str, key: &str) -> Result<Accepted, Failure> {
    submit_prepared(site, program_job::prepare_clone(site, job, key)?)
}

fn submit_prepared(site: &Site, prepared: PreparedJob) -> Result<Accepted, Failure> {
    let PreparedJob { job, head, warning } = prepared;
    let verb = Verb::Submit {
        line: 0,
        same: false,
        job: Box::new(job),
    };
    let ack = send(site, head, &verb)?;
    let Some(run) = ack.ids.first() else {
        let refused = ack.results.first().map(failure_of);
        return Err(refused.map_or_else(
            || without_ids(&ack),
            |failure| of_submission(failure, ack.retry_s),
        ));
    };
    Ok(Accepted {
        id: run.id,
        queue: run.queue.clone(),
        accepted_ms: run.t,
        warning,
    })
}

/// The result of `csub --dry-run --json` for a job; nothing is submitted.
///
/// # Errors
/// The text of `csub`'s refusal, or cb.yaml or the view cannot be read.
pub fn dry_run(site: &Site, job: &JobRequest) -> Result<String, Failure> {
    let prepared = program_job::prepare(site, &program_job(job))?;
    Ok(program_job::dry_run_json(site, &prepared)?)
}

fn program_job(job: &JobRequest) -> ProgramJob<'_> {
    ProgramJob {
        options: &job.options,
        command: &job.command,
        line: &job.line,
        script: &job.script,
        template: job
            .template
            .as_ref()
            .map(|form| (form.name.as_str(), form.values.as_slice())),
        named_options: &job.named_options,
        env: &job.env,
        name: &job.name,
        array: &job.array,
        hold: job.hold,
        begin: job.begin_ms.map(Stamp),
        deadline: job.deadline_ms.map(Stamp),
        run_limit_s: job.run_limit_s,
    }
}

/// Puts jobs back to pending. Returns the result for each of them.
///
/// # Errors
/// The whole request is refused, or no answer came.
pub fn requeue(site: &Site, jobs: Vec<String>) -> Result<Vec<Outcome>, Failure> {
    let sel = Selector {
        ids: jobs,
        ..Selector::default()
    };
    let states = ["run", "done", "exit"].map(str::to_owned).into();
    let verb = Verb::Requeue {
        sel,
        hold: false,
        states,
    };
    let ack = send(site, RequestHead::default(), &verb)?;
    match ack.ok {
        true => Ok(ack.results),
        false => Err(without_ids(&ack)),
    }
}

/// Kills, stops or resumes jobs (`12`, `12[3-5]`). Returns the result for each of them.
///
/// # Errors
/// The whole request is refused, or no answer came.
pub fn signal(
    site: &Site,
    jobs: Vec<String>,
    action: SignalAction,
) -> Result<Vec<Outcome>, Failure> {
    let sel = Selector {
        ids: jobs,
        ..Selector::default()
    };
    let ack = send(
        site,
        RequestHead::default(),
        &Verb::Signal { sel, how: action },
    )?;
    match ack.ok {
        true => Ok(ack.results),
        false => Err(without_ids(&ack)),
    }
}

/// The failure for the outcome of a refused job.
pub fn failure_of(outcome: &Outcome) -> Failure {
    Failure::from(Fail::new(Exit::of(outcome.code), outcome.text.clone()))
}

/// The leader knows more than this process: any problem that it finds with a job is its refusal.
/// `retry_s`: after how many seconds another try may succeed; 0: never.
fn of_submission(failure: Failure, retry_s: u32) -> Failure {
    let kind = match (failure.kind, retry_s) {
        (FailureKind::Permission, _) => FailureKind::Permission,
        (_, 0) => FailureKind::Refused,
        (_, after_s) => FailureKind::TryLater { after_s },
    };
    Failure { kind, ..failure }
}

fn send(site: &Site, head: RequestHead, verb: &Verb) -> Result<Ack, Failure> {
    let wait_s = requests::wait_s(None)?;
    let mut request = Outgoing::new(site, head)?;
    request.push(verb)?;
    Ok(requests::send_silently(site, request, wait_s)?)
}

fn without_ids(ack: &Ack) -> Failure {
    let (kind, text) = match ack.error.as_str() {
        "" => (FailureKind::System, "the leader gave no answer to it"),
        text => (FailureKind::Refused, text),
    };
    Failure {
        kind,
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ack::Code;

    #[test]
    fn a_limit_that_is_reached_now_is_worth_another_try() {
        let kind = |code, retry_s| {
            let outcome = Outcome {
                what: String::new(),
                code,
                text: "full".into(),
            };
            of_submission(failure_of(&outcome), retry_s).kind
        };
        assert_eq!(kind(Code::Refused, 0), FailureKind::Refused);
        assert_eq!(kind(Code::Usage, 0), FailureKind::Refused);
        assert_eq!(
            kind(Code::Refused, 60),
            FailureKind::TryLater { after_s: 60 }
        );
        assert_eq!(kind(Code::Permission, 60), FailureKind::Permission);
    }

    #[test]
    fn a_refusal_keeps_its_kind_and_its_text() {
        let outcome = Outcome {
            what: "7".into(),
            code: Code::Permission,
            text: "permission denied".into(),
        };
        let failure = failure_of(&outcome);
        assert_eq!(failure.kind, FailureKind::Permission);
        assert_eq!(failure.to_string(), "permission denied");
        let text = check_options(&["-n".to_owned()], "h1").unwrap_err();
        assert_eq!(text.kind, FailureKind::Wrong);
        assert!(text.text.contains("-n needs a value"), "{text}");
    }
}
