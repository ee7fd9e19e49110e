//! The names of all commands, for links to the executable.

use crate::client::{self, lsf_names as lsf};

/// The names of cadmin.
pub(super) const NAMES: &[&str] = &["cadmin", "csadmin"];

/// Every name of a command: the links to install.
pub(crate) fn command_names() -> impl Iterator<Item = &'static str> {
    let users = client::COMMANDS.iter().flat_map(|entry| entry.names);
    users.chain(NAMES).copied()
}

/// LSF's names of the administrators' commands.
pub(super) const BADMIN: &[&str] = &["badmin"];
pub(super) const LSADMIN: &[&str] = &["lsadmin"];

/// LSF's names, which are links to the executable as well.
pub(crate) fn lsf_names() -> impl Iterator<Item = &'static str> {
    let users = lsf::COMMANDS.iter().flat_map(|entry| entry.names);
    users.chain(BADMIN).chain(LSADMIN).copied()
}

/// Slurm's names, which are links to the executable as well.
pub(crate) fn slurm_names() -> impl Iterator<Item = &'static str> {
    let users = client::slurm::COMMANDS.iter();
    users.flat_map(|entry| entry.names).copied()
}
