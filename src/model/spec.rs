//! The job specification: the request of one submission. A `Spec` is immutable and shared by all
//! jobs with equal options (interned by the state); the id, name and command are stored per job.

use super::MailRequest;
use super::{
    Checkpoint, Container, FileCopy, Hooks, JobKey, Launch, PbsJob, RerunSettings, RunWarning,
    Session, SlurmJob, Stamp,
};
use serde::{Deserialize, Serialize};

/// Limits of one job. `None` = unlimited. Times in seconds, sizes in bytes.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub procs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_b: Option<u64>,
    /// `--oom-kill`; `None` = as set by its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kill: Option<OomKill>,
}

/// What happens to a job if the kernel kills one of its processes for lack of memory and its
/// command goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OomKill {
    /// It fails, even with exit code 0.
    #[default]
    Fail,
    /// Its exit code counts.
    Ignore,
}

impl OomKill {
    pub const ALL: [(&'static str, OomKill); 2] =
        [("fail", OomKill::Fail), ("ignore", OomKill::Ignore)];

    /// The word in cb.yaml and for `csub --oom-kill`.
    pub fn word(self) -> &'static str {
        match self {
            OomKill::Fail => "fail",
            OomKill::Ignore => "ignore",
        }
    }
}

/// What happens to a job whose dependency can never be satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Orphans {
    /// It stays pending.
    Hold,
    /// It ends.
    Kill,
    /// It runs as if the dependency were met.
    Run,
}

impl Orphans {
    pub const ALL: [(&'static str, Orphans); 3] = [
        ("hold", Orphans::Hold),
        ("kill", Orphans::Kill),
        ("run", Orphans::Run),
    ];

    /// The word in cb.yaml and for `csub -orphan`.
    pub fn word(self) -> &'static str {
        match self {
            Orphans::Hold => "hold",
            Orphans::Kill => "kill",
            Orphans::Run => "run",
        }
    }
}

/// The accepted specification, shared. Text fields are in canonical printed form.
#[allow(clippy::derived_hash_with_manual_eq)] // equal by all fields, as the hash is
#[derive(Clone, Default, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    /// Owner, from the request file's owner; `user` is the account name at submission.
    pub uid: u32,
    pub user: String,
    pub queue: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// `-app`: the application, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app: String,
    /// `-G`: the user group whose shares the job uses, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_group: String,
    /// `-g`: the path of its job group, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job_group: String,
    /// Requested slots: at least `min`, at most `max`.
    pub min: u32,
    pub max: u32,
    /// The job's own requirement string, all `-R` merged (`text::resreq` canonical form), or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub res_req: String,
    /// `-m`: hosts and groups with preferences, canonical text, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hosts: String,
    #[serde(skip_serializing_if = "is_false")]
    pub exclusive: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub rerunnable: bool,
    /// User priority (`-sp`), 0 = none given.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: u32,
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Host or model to which the run limit and the CPU limit refer; empty = any host.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub run_on: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cpu_on: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<Stamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Stamp>,
    /// `--start-timeout`: if it was not started by then, it is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_by: Option<Stamp>,
    /// `-w`, canonical text with names resolved to job ids at submission, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub depend: String,
    /// `-ti`: the job ends when its dependency can never be satisfied.
    #[serde(skip_serializing_if = "is_false")]
    pub end_orphan: bool,
    /// `-orphan`; `None` = according to `end_orphan` or the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan: Option<Orphans>,
    /// Absolute working directory on the execution host.
    pub cwd: String,
    /// `-cwdc`: create `cwd` as the user if it is missing.
    #[serde(skip_serializing_if = "is_false")]
    pub cwd_create: bool,
    pub umask: u32,
    /// SHA-256 (hex) of the environment blob: JSON object of strings.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub env: String,
    /// SHA-256 (hex) of the spooled script, or empty if the job is a command line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub script: String,
    /// Interpreter line of the script (`/bin/bash -e`), or a shell requested by `-L`; empty =
    /// /bin/sh.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub shell: String,
    /// `-i`: input path as given (%J %I not replaced yet), or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// SHA-256 of the spooled input of `-is`, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stdin_blob: String,
    /// SHA-256 of the parameter table of `--params`, or empty (`task::params`).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub params: String,
    /// `-o` / `-oo`; empty = the job's default output on the share.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    #[serde(skip_serializing_if = "is_false")]
    pub stdout_over: bool,
    /// `-e` / `-eo`; empty = merged into stdout.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    #[serde(skip_serializing_if = "is_false")]
    pub stderr_over: bool,
    /// `--no-report`: the output file contains only the output.
    #[serde(skip_serializing_if = "is_false")]
    pub no_report: bool,
    /// `-rnc`: run by the first host as the user after slots were added, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notify: String,
    #[serde(skip_serializing_if = "Hooks::is_none")]
    pub hooks: Hooks,
    /// `-B`, `-N`, `-Ne`, `-notify`, `-u`.
    #[serde(skip_serializing_if = "MailRequest::is_none")]
    pub mail: MailRequest,
    /// `-f`, in the given order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileCopy>,
    #[serde(skip_serializing_if = "RerunSettings::is_none")]
    pub again: RerunSettings,
    /// `-wa` and `-wt`, `--signal`; `None` = as set by its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn: Option<RunWarning>,
    /// `--launch` and `--section`: a task is started for each slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch: Option<Box<Launch>>,
    /// `-di` and `-do`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<Container>>,
    /// `-k`; `None` = as set by its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chkpnt: Option<Box<Checkpoint>>,
    /// `-I`, `-Ip`, `-Is`: how the job is connected to its waiting csub; `None` = not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<Session>>,
    /// Submitted by `sbatch`, or by `csub` from a script with lines for Slurm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm: Option<Box<SlurmJob>>,
    /// Submitted by `csub` from a script with lines for PBS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pbs: Option<Box<PbsJob>>,
    /// Host where csub ran.
    pub sub_host: String,
    /// A file or directory that the job needs could not be reached there either.
    #[serde(skip_serializing_if = "is_false")]
    pub unseen: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl Spec {
    /// What happens to the job if its dependency can never be satisfied; `general`: the cluster's
    /// setting for jobs without their own.
    pub fn orphans(&self, general: Orphans) -> Orphans {
        match (self.orphan, self.end_orphan) {
            (Some(own), _) => own,
            (None, true) => Orphans::Kill,
            (None, false) => general,
        }
    }

    /// The index of an element as counted by its submitter: `sbatch` may count from 0.
    pub fn submitters_index(&self, idx: u32) -> u32 {
        idx.saturating_sub(self.index_shift())
    }

    /// By how much the indices of an array of `sbatch` were raised.
    pub fn index_shift(&self) -> u32 {
        self.slurm.as_ref().map_or(0, |slurm| slurm.shift())
    }

    /// Whether the output file gets a report of the job. Slurm writes none.
    pub fn wants_report(&self) -> bool {
        let of_sbatch = self.slurm.as_ref().is_some_and(|slurm| !slurm.of_csub);
        let unwanted = self.no_report || of_sbatch;
        !unwanted && !self.stdout.is_empty() && self.stdout != "/dev/null"
    }

    /// Whether no option is set: a pack line whose options equal those of the line before.
    fn is_blank(&self) -> bool {
        *self == Spec::default()
    }
}

impl Limits {
    fn is_none(&self) -> bool {
        *self == Limits::default()
    }
}

fn is_false(b: &bool) -> bool {
    !*b
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// A client's submission of one job. The leader checks it, fills in defaults and derives a
/// [`Spec`]; uid, user and anything about identity come from the request file, never from here.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Submission {
    /// Options of the job; `uid`, `user` are ignored, `queue` may be empty or a list of candidates,
    /// `env`/`script`/`stdin_blob`/`params` are empty (the request contains the contents), min = 0
    /// means default.
    #[serde(skip_serializing_if = "Spec::is_blank")]
    pub spec: Spec,
    pub command: String,
    /// `-J` without the index list; empty = the command.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Index list of an array (`1-10:2,15`), or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub array: String,
    /// `%limit` of an array, 0 = none.
    #[serde(skip_serializing_if = "is_zero")]
    pub array_limit: u32,
    /// `-H`.
    #[serde(skip_serializing_if = "is_false")]
    pub hold: bool,
    /// The name of its application comes from a template, so no profile needs to have it.
    #[serde(skip_serializing_if = "is_false")]
    pub app_label: bool,
    /// `--key`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `--clone`; only the options of `spec` that it names are then used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clone: Option<Box<CloneOf>>,
    /// `crestart`; as for `clone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<Box<Restart>>,
}

/// The job from whose checkpoint a new one continues.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Restart {
    pub j: JobKey,
    /// When it was submitted.
    pub t: Stamp,
    /// Its specification as it was saved.
    pub old: Spec,
    /// Options (csub's letters) whose values are from the submission.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
}

/// The job that a new one repeats, and the differences.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CloneOf {
    pub id: u32,
    /// A selection of its elements as an index list, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub elements: String,
    /// Options (csub's letters) whose values are from the submission.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_stands_in_a_file_that_is_not_asked_to_be_without() {
        let wants = |stdout: &str, no_report| {
            Spec {
                stdout: stdout.into(),
                no_report,
                ..Spec::default()
            }
            .wants_report()
        };
        assert!(wants("out", false));
        assert!(!wants("out", true) && !wants("", false) && !wants("/dev/null", false));
    }
}
