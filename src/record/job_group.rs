//! Job groups that were created by `cgadd`: a record of the journal's snapshots and a document of
//! the view. A group that consists only of its jobs has no record.

use crate::model::Stamp;
use serde::{Deserialize, Serialize};

/// An explicit job group.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct JobGroup {
    /// Its path: `/proj/phase1`.
    pub name: String,
    pub uid: u32,
    pub user: String,
    /// Maximum number of started jobs in it and its subgroups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// When it was created or last changed.
    pub t: Stamp,
}

/// An action on a job group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobGroupAct {
    /// Create it, with this limit.
    Add(Option<u32>),
    /// Change its limit; `None`: it has none.
    Limit(Option<u32>),
    /// Delete it and its subgroups.
    Remove,
}
