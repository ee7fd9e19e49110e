//! A cb.yaml that is read for an administrator: every problem, with line and caret.

use crate::client::exit::{Fail, Result};
use crate::config;
use crate::sys;
use crate::text::count::count;
use std::fmt::Write as _;
use std::path::Path;

/// Reads a configuration; all its problems are the failure.
///
/// # Errors
/// It cannot be read, or has problems.
pub(super) fn load(path: &Path) -> Result<config::Loaded> {
    let bytes = sys::fs::read_small(path, config::MAX_BYTES as u64)?;
    let os = config::OsNames {
        user: &|name| sys::users::by_name(name).is_some(),
        group: &|name| sys::users::group_by_name(name).is_some(),
    };
    config::load(&bytes, &path.display().to_string(), &os).map_err(|problems| {
        let mut text = String::new();
        for problem in &problems {
            let _ = writeln!(text, "{problem}\n");
        }
        text.push_str(&count(problems.len(), "problem"));
        Fail::usage(format!("{} is refused:\n\n{text}", path.display()))
    })
}
