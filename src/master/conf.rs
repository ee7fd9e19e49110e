//! Reading conf/cb.yaml, and falling back to the last good one: a bad file never stops the cluster.

use crate::config::{self, Config, OsNames};
use crate::spool::Layout;
use crate::sys::trust::Owners;
use crate::sys::{fs, users};
use std::path::PathBuf;
use std::sync::Arc;

/// The copy of the last configuration that was in force, kept by the leader.
fn last_good(layout: &Layout) -> PathBuf {
    layout.conf_dir().join("last-good.yaml")
}

/// Reads and checks cb.yaml.
///
/// # Errors
/// Every problem as one text with place, line and hint.
pub fn read(layout: &Layout, owners: Owners) -> Result<Arc<Config>, Vec<String>> {
    read_file(layout, layout.config(), owners).map(|(config, bytes)| {
        if let Err(e) = fs::durable_write(&last_good(layout), &bytes) {
            tracing::warn!("{e}: the last good configuration is not kept");
        }
        config
    })
}

fn read_file(
    layout: &Layout,
    path: PathBuf,
    owners: Owners,
) -> Result<(Arc<Config>, Vec<u8>), Vec<String>> {
    let safe = owners.safe_to_load(&path, layout.root());
    safe.map_err(|e| vec![e.to_string()])?;
    let bytes =
        fs::read_small(&path, config::MAX_BYTES as u64 + 1).map_err(|e| vec![e.to_string()])?;
    let user = |name: &str| users::by_name(name).is_some();
    let group = |name: &str| users::group_by_name(name).is_some();
    let os = OsNames {
        user: &user,
        group: &group,
    };
    let loaded = config::load(&bytes, &path.display().to_string(), &os)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok((Arc::new(loaded.config), bytes))
}

/// The configuration for a starting leader: cb.yaml, or the last good one with cb.yaml's problems.
///
/// # Errors
/// When neither can be used.
pub fn read_or_last_good(
    layout: &Layout,
    owners: Owners,
) -> Result<(Arc<Config>, Vec<String>), String> {
    let problems = match read(layout, owners) {
        Ok(config) => return Ok((config, Vec::new())),
        Err(problems) => problems,
    };
    match read_file(layout, last_good(layout), owners) {
        Ok((config, _)) => {
            tracing::error!(
                "cb.yaml is not usable, the last good one is: {}",
                problems.join("; ")
            );
            Ok((config, problems))
        }
        Err(_) => Err(problems.join("\n")),
    }
}
