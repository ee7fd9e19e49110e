//! The configuration of a cluster: cb.yaml as text -> `Config`, or all its problems at once, each
//! with file, line, column and a hint. Pure: the caller reads the file and answers which names the
//! operating system knows. Nothing here changes a running cluster.
//!
//! `load` is the entry point, `edit` changes the text; `types` and `policy` hold the result,
//! `query` the questions it answers, `keys` the table of keys and which of them this version
//! supports.

mod brackets;
mod changes;
pub mod edit;
mod graph;
mod keys;
mod load;
mod notices;
mod policy;
mod portal;
mod problem;
mod query;
mod read;
mod read_apps;
mod read_charge;
mod read_cluster;
mod read_env;
mod read_hooks;
mod read_hosts;
mod read_limits;
mod read_notices;
mod read_policy;
mod read_portal;
mod read_queues;
mod read_resources;
mod read_shared;
mod read_shares;
mod read_template;
mod read_users;
mod read_watch;
pub mod require;
mod sensed_names;
mod sets;
mod shown;
mod starter;
pub mod template;
mod types;

pub use changes::{ConfigChange, changes};
pub use load::{Loaded, MAX_BYTES, load};
pub use notices::*;
pub use policy::*;
pub use portal::{Portal, is_apps_domain};
pub use problem::Problem;
pub use query::{ShareNode, ShareStep, UserLimits, seconds_on};
pub use read::OsNames;
pub use read_notices::{SILENCE_MAX_MS, SILENCE_MIN_MS};
pub(crate) use read_notices::{is_address, is_url};
pub use read_template::{TEMPLATE_MAX, read_template};
pub use sets::{HostPrefs, HostSet, Names, UserSet, UserTerm};
pub use starter::{Starter, minimal, starter};
pub use types::*;

#[cfg(test)]
mod tests;
