//! Floor 5: what a person calls. Commands read the published view and leave requests; only here
//! (and in `bin`) are exit codes chosen.

pub mod dev;
pub mod fail;
pub mod init;

pub use fail::{Fail, report, usage, with_name};
