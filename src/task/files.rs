//! Paths of the files on its host that a task needs.
//!
//! Owns their names only; the executor creates them.

/// Local copies that a task needs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TaskFiles {
    /// Path of the script's copy, removed when the task ends; empty = the command line is the job.
    pub script: String,
    /// Path of the default output, used if no output file was requested.
    pub default_output: String,
    /// Path of the list of hosts of a job with several slots; empty = the job has none.
    pub hosts: String,
    /// Path of the notice of added slots, if the job is to be notified.
    pub notice: String,
    /// Path of the file with the time of preemption, once the job was warned.
    pub warning: String,
    /// Directory of the programs, for a job that starts a task for each slot.
    pub bindir: String,
}
