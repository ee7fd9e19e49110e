//! Reading conf/cb.yaml, and falling back to the last good one: a bad file never stops the cluster.

use crate::config::{self, Config, OsNames};
use crate::record::sealed;
use crate::spool::Layout;
use crate::sys::trust::Owners;
use crate::sys::{fs, users};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The leader's copy of the last configuration that was in force.
pub(super) fn last_good(layout: &Layout) -> PathBuf {
    layout.conf_dir().join("last-good.yaml")
}

/// A configuration as it was read.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub config: Arc<Config>,
    pub digest: String,
    bytes: Vec<u8>,
}

impl Loaded {
    /// Stores it as the last good configuration. Only a configuration that is in force, activated
    /// by an administrator or by the start of a leader, may be stored there.
    pub(super) fn store_last_good(&self, layout: &Layout) {
        if let Err(e) = fs::durable_write(&last_good(layout), &self.sealed()) {
            tracing::warn!("{e}: the last good configuration is not stored");
        }
        if self.config.general.history_keep_ms > 0
            && let Err(e) = self.keep_for_history(layout)
        {
            tracing::warn!("{e}: the history has no copy of this configuration");
        }
    }

    /// Stores a copy under its digest; the journal refers to it by the digest.
    fn keep_for_history(&self, layout: &Layout) -> crate::sys::Result<()> {
        fs::mkdir_p(&layout.history(), 0o755)?;
        fs::durable_write(&layout.past_config(&self.digest), &self.sealed())
    }

    /// The text with a checksum: it is read when cb.yaml cannot be used, perhaps years later.
    fn sealed(&self) -> Vec<u8> {
        sealed::seal_text(&self.bytes)
    }
}

/// Reads and checks cb.yaml.
///
/// # Errors
/// Every problem as one text with place, line and hint.
pub(super) fn read(layout: &Layout, owners: Owners) -> Result<Loaded, Vec<String>> {
    read_file(layout, layout.config(), owners)
}

/// Reads the configuration in force.
///
/// # Errors
/// As [`read`].
pub(super) fn in_force(layout: &Layout, owners: Owners) -> Result<Loaded, Vec<String>> {
    read_file(layout, last_good(layout), owners)
}

fn read_file(layout: &Layout, path: PathBuf, owners: Owners) -> Result<Loaded, Vec<String>> {
    let safe = owners.safe_to_load(&path, layout.root());
    safe.map_err(|e| vec![e.to_string()])?;
    parse_file(&path)
}

/// As [`read`], but without checking the owner of the file: for commands, which act only for their
/// user.
///
/// # Errors
/// As [`read`].
pub(super) fn parse_file(path: &Path) -> Result<Loaded, Vec<String>> {
    let mut bytes =
        fs::read_small(path, config::MAX_BYTES as u64 + 100).map_err(|e| vec![e.to_string()])?;
    if path.file_name().is_some_and(|name| name != "cb.yaml") {
        let place = path.display();
        let content = sealed::open_text(&bytes)
            .map_err(|d| vec![format!("{place}:{}: {}", d.offset, d.damage)])?;
        bytes.truncate(content.bytes.len());
    }
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
    let config = Arc::new(loaded.config);
    let digest = config.digest();
    Ok(Loaded {
        config,
        digest,
        bytes,
    })
}

/// The configuration for a starting leader: cb.yaml, or the last good one together with the
/// problems of cb.yaml.
///
/// # Errors
/// Neither can be used.
pub(super) fn read_or_last_good(
    layout: &Layout,
    owners: Owners,
) -> Result<(Loaded, Vec<String>), String> {
    let problems = match read(layout, owners) {
        Ok(loaded) => return Ok((loaded, Vec::new())),
        Err(problems) => problems,
    };
    match read_file(layout, last_good(layout), owners) {
        Ok(loaded) => {
            tracing::error!(
                "cb.yaml is not usable, so the last good configuration is used: {}",
                problems.join("; ")
            );
            Ok((loaded, problems))
        }
        Err(_) => Err(problems.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_only_read_does_not_become_the_last_good_one() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().join("share"));
        fs::mkdir_p(&layout.conf_dir(), 0o755).unwrap();
        let me = users::current_user();
        let owners = Owners {
            uid: me.uid,
            gid: me.gid,
        };
        let write = |slots: u32| {
            let hosts = format!("hosts:\n- {{name: h1, slots: {slots}}}\n");
            let text = format!("cluster: {{name: c, administrators: [root]}}\n{hosts}");
            let text = text + "queues:\n- {name: normal}\n";
            fs::durable_write(&layout.config(), text.as_bytes()).unwrap();
        };
        write(1);
        let first = read(&layout, owners).unwrap();
        assert!(!last_good(&layout).exists());
        first.store_last_good(&layout);
        write(2);
        assert_ne!(read(&layout, owners).unwrap().digest, first.digest);
        fs::durable_write(&layout.config(), b"hosts: [").unwrap();
        let (good, problems) = read_or_last_good(&layout, owners).unwrap();
        assert_eq!(good.digest, first.digest);
        assert!(!problems.is_empty());
        // A changed number is still valid YAML, but not the configuration that was in force.
        let copy = std::fs::read_to_string(last_good(&layout)).unwrap();
        let damaged = copy.replace("slots: 1", "slots: 9");
        assert_ne!(copy, damaged);
        std::fs::write(last_good(&layout), damaged).unwrap();
        let said = in_force(&layout, owners).unwrap_err().join("");
        assert!(said.contains("last-good.yaml:0: the checksum"), "{said}");
        assert!(read_or_last_good(&layout, owners).is_err());
        first.store_last_good(&layout);
        assert_eq!(in_force(&layout, owners).unwrap().digest, first.digest);
    }
}
