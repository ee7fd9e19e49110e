//! The configuration of a cluster: cb.yaml as text -> `Config`, or all its problems at once, each
//! with file, line, column and a hint. Pure: the caller reads the file and answers which names the
//! operating system knows. Nothing here changes a running cluster.

mod problem;
mod query;
mod sets;
mod types;

pub use problem::Problem;
pub use query::UserLimits;
pub use sets::{HostPrefs, HostSet, UserSet, UserTerm};
pub use types::*;
