//! What a shepherd has to run, and the messages between `cbexe` and the process that forks
//! shepherds.
//!
//! A message is a length (4 bytes, little endian) and a JSON text. Data that many tasks share is
//! sent once as a `TaskBase`, to which a task then refers. Owns the form of the messages; never
//! sends one.

use crate::model::{
    AttemptId, CheckpointAct, Controls, CpuSet, DeviceNode, HookOf, RunWarning, Session, TermReason,
};
use serde::{Deserialize, Serialize};

/// Maximum length of a message in bytes: enough for an environment and a command line.
pub const MESSAGE_MAX: usize = 32 << 20;

/// The identity that a process takes on.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskIdentity {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// An output file of a task. `%J` and `%I` are not replaced yet.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Output {
    /// Path, relative to the working directory unless absolute; empty = none.
    #[serde(rename = "p")]
    pub path: String,
    /// Truncate an existing file instead of appending.
    #[serde(rename = "o", skip_serializing_if = "is_false")]
    pub over: bool,
    /// In the system's own directory (default output): opened by the system, not as the user.
    #[serde(rename = "s", skip_serializing_if = "is_false")]
    pub ours: bool,
}

/// Data that tasks of one specification share.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskBase {
    /// `NAME=value`, without the names that `build::task_env` sets.
    pub env: Vec<String>,
    /// `None`: run as the user of the shepherd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<TaskIdentity>,
    /// The account that owns the system's files on the share, if it is not the shepherd's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<TaskIdentity>,
    pub cwd: String,
    /// Create `cwd` as the user if it is missing.
    pub cwd_create: bool,
    pub umask: u32,
    pub nice: i32,
    /// The image of its container, if that is a file or directory: it must be there; else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Input file; empty = no input.
    pub stdin: String,
    /// The input is the system's own file, not opened as the user.
    pub stdin_ours: bool,
    pub stdout: Output,
    /// Empty path: merged into `stdout`.
    pub stderr: Output,
    /// The content of the job report besides the task's own facts; `None` = no report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportFacts>,
    /// The command that waits at a terminal for the job; `None` = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<Box<WaitingClient>>,
    /// The job was submitted by `sbatch`: it gets Slurm's variables.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sbatch: bool,
    /// By how much the indices of an array of `sbatch` were raised.
    #[serde(skip_serializing_if = "is_zero")]
    pub index_shift: u32,
}

impl TaskBase {
    /// Whether the environment contains this variable.
    pub fn names(&self, variable: &str) -> bool {
        let mut names = self.env.iter().filter_map(|e| e.split_once('='));
        names.any(|(name, _)| name == variable)
    }
}

/// The command that waits for an interactive job.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitingClient {
    pub session: Session,
    /// The file of its address and key, which the job's user reads.
    pub file: String,
    /// For a command that the job starts (`claunch`), its number from 1; 0 = the job's own command.
    #[serde(skip_serializing_if = "is_zero")]
    pub task: u32,
}

/// Facts of the job report that tasks of one specification share.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportFacts {
    pub cluster: String,
    pub user: String,
    pub home: String,
    pub queue: String,
    pub sub_host: String,
}

/// Limits that the shepherd sets or enforces. Sizes in bytes, times in milliseconds or seconds.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
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
    /// A process that is killed for lack of memory does not make the job fail.
    #[serde(skip_serializing_if = "is_false")]
    pub oom_ignored: bool,
    /// When `-t` ends the job, ms since the epoch. Used only to inform and warn the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<i64>,
    /// How it is warned before the run limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn: Option<RunWarning>,
    /// The processors that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
    /// Number of the last change of the limits that is included here: for commands that a job
    /// starts by `claunch`.
    #[serde(skip_serializing_if = "is_zero")]
    pub changes: u32,
    /// The device nodes of its units: nodes of other units are denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceNode>,
}

/// Output file of a task whose base's output is in the system's own directory.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct DefaultOutput {
    #[serde(rename = "out", skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Only the task's user may read it.
    #[serde(skip_serializing_if = "is_false")]
    pub private: bool,
}

/// One task to run.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskSpec {
    #[serde(flatten)]
    pub a: AttemptId,
    /// `StartOrder::mark` for its records.
    #[serde(rename = "m", skip_serializing_if = "is_zero")]
    pub mark: u32,
    /// Number of the `TaskBase`, which was sent before.
    pub base: u32,
    /// Program and arguments; a program without a slash is looked up in the job's PATH.
    pub argv: Vec<String>,
    /// Variables added to the base's environment.
    pub env: Vec<String>,
    pub limits: TaskLimits,
    /// Milliseconds between INT, TERM and KILL.
    pub grace_ms: u64,
    #[serde(skip_serializing_if = "is_false")]
    pub rerunnable: bool,
    /// The job is an element of an array.
    #[serde(skip_serializing_if = "is_false")]
    pub array: bool,
    #[serde(flatten)]
    pub out: DefaultOutput,
    /// A file that is removed when the task ends (the local copy of a script); empty = none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scratch: String,
    /// File with the job's hosts, a line for each slot; removed when the task ends.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hosts_file: String,
    #[serde(flatten)]
    pub resize: ResizeHook,
    /// Commands before and after the job's own, in order; `None` = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Box<TaskHooks>>,
    /// Text for the job report, if the base has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "told")]
    pub header: Option<ReportHeader>,
}

/// The command that runs each time slots were added, and the file with the details.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ResizeHook {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notify: String,
    /// The file; removed when the task ends.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notice: String,
}

/// Commands before and after that of a task.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskHooks {
    pub pre: Vec<Hook>,
    pub post: Vec<Hook>,
    /// A daemon starts its container: the processes are not descendants of the shepherd.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub daemon: bool,
    /// Actions of the queue instead of suspending, resuming and terminating.
    #[serde(skip_serializing_if = "Controls::is_none")]
    pub controls: Controls,
    /// How its state is saved; `None` = not saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<TaskCheckpoint>,
}

/// How the state of a task is saved.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskCheckpoint {
    /// The job's own directory, created if missing.
    pub dir: String,
    /// The program that saves the job. It runs only from a file that no other user could have
    /// written.
    pub program: String,
    /// Its complete environment except the task's own part.
    pub env: Vec<String>,
    /// Time from the start to the first checkpoint, and between later ones; 0 = none by time.
    pub first_ms: u64,
    pub period_ms: u64,
    /// Maximum time for a checkpoint.
    pub limit_ms: u64,
    /// Text from which the job can be submitted again (`record::saved_job`), stored with each
    /// checkpoint.
    pub job: String,
}

/// One command before or after that of a task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hook {
    /// The owner of the hook. A queue's program runs only from a file that no other user could have
    /// written.
    pub of: HookOf,
    pub argv: Vec<String>,
    /// The identity to take on; `None` = that of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<TaskIdentity>,
    /// For a queue's hook: its complete environment except the task's own part. A job's hook gets
    /// the job's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// How long it may run (ms).
    pub limit_ms: u64,
    /// A description for messages if it is not a pre- or post-exec: a copy of a file (`-f`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Its standard input; empty = none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input: String,
    /// For a queue's hook: the program that our shell command runs; empty = the first of `argv`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checked: String,
}

impl Hook {
    /// The file that the administrator specified.
    pub fn program(&self) -> &str {
        match self.checked.as_str() {
            "" => self.argv.first().map_or("", String::as_str),
            program => program,
        }
    }
}

impl TaskBase {
    /// Whether it is a command beside a job, not the job itself: nothing of it is in the tasks log.
    pub fn is_beside(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| caller.task > 0)
    }
}

impl TaskSpec {
    /// `CB_DEADLINE`: the second since the epoch at which the run limit or `-t` ends a job that
    /// begins at `start` (ms) and is never suspended; none without either.
    pub fn deadline_env(&self, start: i64) -> Option<String> {
        let run = self.limits.run_ms.map(|ms| {
            let ms = i64::try_from(ms).unwrap_or(i64::MAX);
            start.saturating_add(ms)
        });
        let end = run.into_iter().chain(self.limits.deadline).min()?;
        Some(format!("CB_DEADLINE={}", end / 1000))
    }
}

/// A task's own part of the job report.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportHeader {
    pub name: String,
    pub command: String,
    /// `h1`, `2*h2` ...
    pub hosts: Vec<String>,
    /// When it was submitted, ms since the epoch.
    pub submitted: i64,
    /// Exit values besides 0 that count as success.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub success: String,
}

/// Messages of `cbexe` to the spawner.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum ToSpawner {
    /// Store a base under this number; it replaces an earlier one with the same number.
    Base { n: u32, base: Box<TaskBase> },
    /// Start a task.
    Start(Box<TaskSpec>),
    /// Forget bases below this number.
    Forget { below: u32 },
    /// Kill what a dead shepherd left: its group, if it had one, and every process that has all of
    /// these `NAME=value` in its environment. (A user who may kill a process may also read its
    /// environment.)
    Reap {
        #[serde(flatten)]
        a: AttemptId,
        group: String,
        #[serde(default)]
        env: Vec<String>,
    },
    /// Remove the groups of earlier spawners, except these of running tasks.
    Sweep { keep: Vec<String> },
    /// Remove the directories for temporary files that dead shepherds left.
    ClearTmp,
    /// From now on deny these nodes, which belong to the units of this host, to tasks without the
    /// unit.
    Devices { all: Vec<DeviceNode> },
}

/// Limits that the control groups of a host do not enforce, so that samples must.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UnenforcedLimits {
    pub memory: bool,
    pub procs: bool,
    /// Devices of units can be opened by tasks that do not have the units.
    #[serde(default)]
    pub devices: bool,
}

/// Messages of the spawner to `cbexe`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum FromSpawner {
    /// Ready: every earlier spawner of this host has ended, and none of their tasks is half
    /// started.
    Ready {
        pid: i32,
        cgroups: String,
        #[serde(default)]
        unheld: UnenforcedLimits,
    },
    /// A shepherd died instead of ending by itself.
    Died {
        #[serde(flatten)]
        a: AttemptId,
        pid: i32,
    },
}

/// An act on a running task, as sent in the value of one signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskAct {
    /// INT, TERM, KILL, with the grace in between.
    Terminate,
    /// KILL.
    Kill,
    Stop,
    Resume,
    /// This signal, once.
    Number(i32),
    /// Run the command of `-rnc` according to the notice.
    Resize,
    /// Apply the limits in the file of changed limits.
    Limits,
    /// Make a checkpoint.
    Checkpoint(CheckpointAct),
}

/// The content of the file of changed limits.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct NewLimits {
    /// Number of the change: an earlier one never replaces a later one.
    pub n: u32,
    pub limits: TaskLimits,
}

/// The content of a notice of added slots.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Notice {
    /// All device nodes of its current units.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceNode>,
    /// Number of the resize of the attempt: each is handled once.
    pub n: u32,
    /// Variables that replace others with the same name.
    pub env: Vec<String>,
}

const REASONS: &[TermReason] = &[
    TermReason::None,
    TermReason::Owner,
    TermReason::Admin,
    TermReason::Force,
    TermReason::RunLimit,
    TermReason::CpuLimit,
    TermReason::MemLimit,
    TermReason::SwapLimit,
    TermReason::ProcessLimit,
    TermReason::Oom,
    TermReason::Deadline,
    TermReason::Requeue,
    TermReason::HostLost,
    TermReason::ShepherdLost,
    TermReason::StartFailed,
    TermReason::Fenced,
    TermReason::Orphan,
    TermReason::Preempt,
    TermReason::Load,
    TermReason::Window,
    TermReason::Units,
    TermReason::Checkpoint,
    TermReason::Migrate,
    TermReason::Replaced,
];

/// Packs an act, its reason and the grace (ms, capped at about 49 days) into a signal's value.
pub fn pack_act(act: TaskAct, reason: TermReason, grace_ms: u64) -> u64 {
    let (kind, number) = match act {
        TaskAct::Terminate => (1, 0),
        TaskAct::Kill => (2, 0),
        TaskAct::Stop => (3, 0),
        TaskAct::Resume => (4, 0),
        TaskAct::Number(n) => (5, n as u64 & 0xff),
        TaskAct::Resize => (6, 0),
        TaskAct::Limits => (7, 0),
        TaskAct::Checkpoint(act) => {
            let bits = [act.kill, act.force, act.migrate];
            let bits = bits.iter().zip(0u32..).map(|(on, at)| u64::from(*on) << at);
            (8, bits.sum())
        }
    };
    // A checkpoint has no grace, so its period plus one is stored instead.
    let grace_ms = match act {
        TaskAct::Checkpoint(act) => act.period_min.map_or(0, |min| u64::from(min) + 1),
        _ => grace_ms,
    };
    let reason = REASONS
        .iter()
        .position(|r| *r == reason)
        .unwrap_or(REASONS.len()) as u64;
    kind | number << 8 | reason << 16 | grace_ms.min(u64::from(u32::MAX)) << 32
}

/// Reverses `pack_act`; `None` for a value that `pack_act` cannot produce.
pub fn unpack_act(value: u64) -> Option<(TaskAct, TermReason, u64)> {
    let number = (value >> 8 & 0xff) as i32;
    let act = match value & 0xff {
        1 => TaskAct::Terminate,
        2 => TaskAct::Kill,
        3 => TaskAct::Stop,
        4 => TaskAct::Resume,
        5 if (1..=64).contains(&number) => TaskAct::Number(number),
        6 => TaskAct::Resize,
        7 => TaskAct::Limits,
        8 => {
            let period = u32::try_from(value >> 32).unwrap_or(0);
            let act = CheckpointAct {
                kill: number & 1 > 0,
                force: number & 2 > 0,
                migrate: number & 4 > 0,
                period_min: period.checked_sub(1),
            };
            return Some((TaskAct::Checkpoint(act), TermReason::None, 0));
        }
        _ => return None,
    };
    let reason = REASONS.get((value >> 16 & 0xff) as usize);
    Some((
        act,
        reason.copied().unwrap_or(TermReason::Unknown),
        value >> 32,
    ))
}

/// Appends one message to `out`.
///
/// # Errors
/// The message cannot be written as JSON, or it is too long.
pub fn encode<T: Serialize>(out: &mut Vec<u8>, message: &T) -> Result<(), String> {
    let from = out.len();
    out.extend_from_slice(&[0; 4]);
    serde_json::to_writer(&mut *out, message).map_err(|e| e.to_string())?;
    let len = out.len() - from - 4;
    if len > MESSAGE_MAX {
        out.truncate(from);
        return Err(format!("message of {len} bytes exceeds {MESSAGE_MAX}"));
    }
    out[from..from + 4].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(())
}

/// The first whole message's JSON text in `bytes` and the number of bytes that it takes; `None` if
/// more bytes are needed.
///
/// # Errors
/// The length at the beginning exceeds the maximum.
pub fn split(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    let Some(head) = bytes.get(..4) else {
        return Ok(None);
    };
    let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if len > MESSAGE_MAX {
        return Err(format!("message of {len} bytes exceeds {MESSAGE_MAX}"));
    }
    Ok(bytes.get(4..4 + len).map(|json| (json, 4 + len)))
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_false(b: &bool) -> bool {
    !*b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;

    #[test]
    fn messages_are_split_as_they_were_joined() {
        let a = AttemptId {
            j: JobKey::element(7, 3),
            at: 2,
        };
        let task = TaskSpec {
            a,
            argv: vec!["/bin/true".into()],
            ..TaskSpec::default()
        };
        let first = ToSpawner::Start(Box::new(task));
        let mut bytes = Vec::new();
        encode(&mut bytes, &first).unwrap();
        let len = bytes.len();
        encode(&mut bytes, &ToSpawner::Forget { below: 3 }).unwrap();
        assert_eq!(split(&bytes[..len - 1]), Ok(None));
        let (json, used) = split(&bytes).unwrap().unwrap();
        assert_eq!(used, len);
        assert_eq!(serde_json::from_slice::<ToSpawner>(json).unwrap(), first);
        assert!(split(&[255, 255, 255, 255, 1]).is_err());
    }

    #[test]
    fn acts_survive_the_trip_through_a_number() {
        let acts = [
            TaskAct::Terminate,
            TaskAct::Kill,
            TaskAct::Stop,
            TaskAct::Resume,
            TaskAct::Number(10),
            TaskAct::Resize,
            TaskAct::Limits,
        ];
        for act in acts {
            for reason in REASONS {
                let packed = pack_act(act, *reason, 10_000);
                assert_eq!(unpack_act(packed), Some((act, *reason, 10_000)));
            }
        }
        for period_min in [None, Some(0), Some(30)] {
            let (kill, force) = (true, period_min.is_none());
            let act = TaskAct::Checkpoint(CheckpointAct {
                kill,
                force,
                migrate: !force,
                period_min,
            });
            let packed = pack_act(act, TermReason::None, 10_000);
            assert_eq!(unpack_act(packed), Some((act, TermReason::None, 0)));
        }
        assert_eq!(unpack_act(0), None);
        assert_eq!(unpack_act(5), None);
    }
}
