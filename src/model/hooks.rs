//! Commands that a job requests before and after its own, as data. The shepherd decides what runs
//! when.

use serde::{Deserialize, Serialize};

/// Commands of one job besides its own.
#[allow(clippy::derived_hash_with_manual_eq)] // equal by all fields, as the hash is
#[derive(Clone, Default, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hooks {
    /// `-E`: runs before the command, on its first host; empty = none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pre: String,
    /// `-Ep`: runs after the command; empty = none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub post: String,
}

impl Hooks {
    pub(super) fn is_none(&self) -> bool {
        *self == Hooks::default()
    }
}

/// The owner of a hook: the queue, through an administrator's file, or the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookOf {
    Queue,
    Job,
}

/// An action on a running job that its queue may replace by its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlOf {
    Suspend,
    Resume,
    Terminate,
}

impl ControlOf {
    pub fn word(self) -> &'static str {
        match self {
            ControlOf::Suspend => "suspend",
            ControlOf::Resume => "resume",
            ControlOf::Terminate => "terminate",
        }
    }
}

/// The action of the queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlAct {
    /// Send this signal to all processes of the job.
    Signal(i32),
    /// Run this program with plain arguments, as specified in an administrator's file.
    Program(String),
    /// Make a checkpoint of a job that has them, then the default action.
    Checkpoint,
}

/// The actions that a queue defines (`job_controls`).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Controls {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<ControlAct>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<ControlAct>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminate: Option<ControlAct>,
}

impl Controls {
    pub fn get(&self, of: ControlOf) -> Option<&ControlAct> {
        match of {
            ControlOf::Suspend => self.suspend.as_ref(),
            ControlOf::Resume => self.resume.as_ref(),
            ControlOf::Terminate => self.terminate.as_ref(),
        }
    }

    pub fn is_none(&self) -> bool {
        *self == Controls::default()
    }

    /// The actions of `self`, or those of `other` if they are not set.
    pub fn or(&self, other: &Controls) -> Controls {
        Controls {
            suspend: self.suspend.as_ref().or(other.suspend.as_ref()).cloned(),
            resume: self.resume.as_ref().or(other.resume.as_ref()).cloned(),
            terminate: self
                .terminate
                .as_ref()
                .or(other.terminate.as_ref())
                .cloned(),
        }
    }
}

/// The warning of a job before its run limit ends it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunWarning {
    /// The signal for its processes; 0 = none, only the file is written.
    pub signal: i32,
    /// Time before the limit, in seconds.
    pub before_s: u64,
    #[serde(default, skip_serializing_if = "WarnedProcesses::is_all")]
    pub to: WarnedProcesses,
}

/// The processes of a job that get the signal of its warning.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WarnedProcesses {
    #[default]
    All,
    /// The first one: the shell that runs the script. Slurm's `B:`.
    Shell,
    /// All but the first one: what the script started. Slurm's default.
    Steps,
}

impl WarnedProcesses {
    pub fn is_all(&self) -> bool {
        *self == WarnedProcesses::All
    }

    /// Its prefix in `csub --signal`.
    pub fn prefix(self) -> &'static str {
        match self {
            WarnedProcesses::All => "",
            WarnedProcesses::Shell => "B:",
            WarnedProcesses::Steps => "S:",
        }
    }
}

/// Maximum time between a warning and the run limit, in seconds: a day.
pub const WARN_BEFORE_MAX_S: u64 = 86_400;
