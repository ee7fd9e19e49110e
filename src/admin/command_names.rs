//! The names of all commands, for links to the executable.

use crate::client;

/// The names of cadmin.
pub(super) const NAMES: &[&str] = &["cadmin", "csadmin"];

/// Every name a command goes by: the links to install.
pub(crate) fn command_names() -> impl Iterator<Item = &'static str> {
    let users = client::COMMANDS.iter().flat_map(|entry| entry.names);
    users.chain(NAMES).copied()
}
