//! What a job requests to be run around its command, as data. The shepherd decides what runs when.

use serde::{Deserialize, Serialize};

/// Commands of one job beside its own.
#[allow(clippy::derived_hash_with_manual_eq)] // equal by all fields, as the hash is
#[derive(Clone, Default, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hooks {
    /// `-E`: run before the command, on its first host; empty = none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pre: String,
    /// `-Ep`: run after it; empty = none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub post: String,
}

impl Hooks {
    pub(super) fn is_none(&self) -> bool {
        *self == Hooks::default()
    }
}

/// Whose hook it is: that of the queue, by an administrator's file, or the job's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookOf {
    Queue,
    Job,
}

/// Something that is done to a running job, for which its queue may set an act of its own.
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

/// What is done instead.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlAct {
    /// This signal to all of its processes.
    Signal(i32),
    /// This program with plain arguments, by an administrator's file.
    Program(String),
    /// A checkpoint of a job that has them, then what is done without an act.
    Checkpoint,
}

/// The acts that a queue has set (`job_controls`).
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

    /// Each act of these; `other`'s where these say nothing.
    pub fn over(&self, other: &Controls) -> Controls {
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
    /// Sent to all of its processes; 0 = none, it finds the file alone.
    pub signal: i32,
    /// So long before the limit, in seconds.
    pub before_s: u64,
}

/// Longest time between a warning and the run limit, in seconds: a day.
pub const WARN_BEFORE_MAX_S: u64 = 86_400;
