//! Who is at fault when a task could not be started.

use serde::{Deserialize, Serialize};

/// Decides what becomes of the job and of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartFault {
    /// The job: it would fail everywhere.
    #[default]
    Job,
    /// The host: it has no room for a process, or its own set-up fails.
    Host,
    /// One of them: a file, a directory, an account or a program is missing or not accessible on
    /// this host. Another host shows which.
    Unclear,
}
