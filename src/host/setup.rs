//! The first steps of every daemon of a host: find the cluster, refuse a directory that is not a
//! cluster, create the local directory, set up the log.

use super::local::Local;
use crate::config::{self, Config, OsNames};
use crate::record::leader::{CLUSTER_MAX, ClusterDoc};
use crate::spool::{Layout, Site, hazards};
use crate::sys::lock::Lock;
use crate::sys::statfs::{FsKind, fs_kind};
use crate::sys::{fs, users};
use std::path::{Path, PathBuf};

/// The directory in which a host keeps its state if `cb.conf` names none.
const USER_LOCAL: &str = ".local/state/corral";
const CONFIG_MAX: u64 = 4 << 20;

/// A host's place in its cluster.
#[derive(Clone, Debug)]
pub struct HostSetup {
    pub site: Site,
    pub layout: Layout,
    pub cluster: ClusterDoc,
    pub local: Local,
    /// The share is a file system of this machine: data need not be synced to be visible.
    pub share_is_local: bool,
}

/// The reason why a daemon ends.
#[derive(Debug)]
pub struct DaemonEnd {
    /// It must not run here: a supervisor should not restart it at once. Nothing was created.
    pub refused: bool,
    pub text: String,
}

impl DaemonEnd {
    /// The exit code: 2 refused, 5 failed.
    pub fn code(&self) -> u8 {
        if self.refused { 2 } else { 5 }
    }
}

impl From<String> for DaemonEnd {
    fn from(text: String) -> DaemonEnd {
        let refused = false;
        DaemonEnd { refused, text }
    }
}

/// The refusal for this reason.
pub fn refused(text: String) -> DaemonEnd {
    let refused = true;
    DaemonEnd { refused, text }
}

/// Logs problems of the share's mount on this host.
pub fn warn_of_mount(setup: &HostSetup) {
    for hazard in hazards(&setup.layout) {
        tracing::error!("{}", hazard.text);
    }
}

impl HostSetup {
    /// Finds the cluster and checks it; creates the local directory.
    ///
    /// # Errors
    /// A sentence with the action to take; nothing was created then.
    pub fn find() -> Result<HostSetup, String> {
        let site = Site::find().map_err(|e| e.to_string())?;
        site.check_for_daemon()?;
        // Whatever umask the daemon inherits, all users must be able to read what is written here.
        crate::sys::caller::umask(0o022);
        let layout = site.layout();
        let cluster = read_cluster(&layout).map_err(|e| format!("{e}\n{}", site.diagnose()))?;
        if !fs::exists(&layout.hosts()) || !fs::exists(&layout.epoch()) {
            return Err(site.diagnose());
        }
        let local = local_directory(&site, &cluster.cluster);
        let pin = pin_of(&site);
        refuse_another(&pin, &cluster)?;
        fs::mkdir_p(local.dir(), 0o711).map_err(|e| e.to_string())?;
        // It contains what this host remembers, and the scripts that it runs.
        let safe = crate::spool::owners(&cluster).safe_to_load(local.dir(), local.dir());
        safe.map_err(|e| e.to_string())?;
        if !fs::exists(&pin) {
            let text = format!("{}\n", cluster.cluster);
            fs::durable_write(&pin, text.as_bytes()).map_err(|e| e.to_string())?;
        }
        let share_is_local = fs_kind(layout.root()).is_ok_and(|k| k == FsKind::Local);
        Ok(HostSetup {
            site,
            layout,
            cluster,
            local,
            share_is_local,
        })
    }

    /// The current configuration.
    ///
    /// # Errors
    /// The first problem, as text.
    pub fn config(&self) -> Result<Config, String> {
        let path = self.layout.config();
        let safe = crate::spool::owners(&self.cluster).safe_to_load(&path, self.layout.root());
        safe.map_err(|e| e.to_string())?;
        let bytes = fs::read_small(&path, CONFIG_MAX).map_err(|e| e.to_string())?;
        let name = path.to_string_lossy().into_owned();
        match config::load(&bytes, &name, &OsNames::ANY) {
            Ok(loaded) => Ok(loaded.config),
            Err(problems) => Err(problems.first().map_or_else(
                || format!("{name} is not valid"),
                |p| format!("{name}: {p:?}"),
            )),
        }
    }

    /// Takes the lock that only one daemon of this kind and host can hold.
    ///
    /// # Errors
    /// Another one holds it.
    pub fn take_daemon_lock(&self, path: &Path, what: &str) -> Result<Lock, String> {
        fs::ensure_file(path, 0o600).map_err(|e| e.to_string())?;
        match Lock::try_take(path) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(format!(
                "another {what} of host {} is running",
                self.site.host
            )),
            Err(e) => Err(e.to_string()),
        }
    }
}

/// Reads the document that makes a directory a cluster.
fn read_cluster(layout: &Layout) -> Result<ClusterDoc, String> {
    let path = layout.cluster();
    let bytes = fs::read_small(&path, CLUSTER_MAX).map_err(|e| e.to_string())?;
    ClusterDoc::decode(&bytes).map_err(|e| format!("{}: {e}", path.display()))
}

/// The file in which this host remembers its cluster.
fn pin_of(site: &Site) -> PathBuf {
    match &site.local {
        Some(dir) => dir.join("cluster"),
        None => base_dir().join(format!("{}.cluster", site.host)),
    }
}

/// Refuses another cluster than the one this host has served: another share is mounted in its
/// place.
fn refuse_another(pin: &Path, cluster: &ClusterDoc) -> Result<(), String> {
    let known = fs::read_optional(pin, 4096).map_err(|e| e.to_string())?;
    match known {
        Some(known) if known.trim_ascii() != cluster.cluster.as_bytes() => Err(format!(
            "the share belongs to cluster {}, this host to {}: is the right directory mounted? \
             Remove {} if the change is intended",
            cluster.cluster,
            String::from_utf8_lossy(&known).trim(),
            pin.display()
        )),
        _ => Ok(()),
    }
}

fn base_dir() -> PathBuf {
    match users::may_switch() {
        true => PathBuf::from(crate::spool::ROOT_LOCAL),
        false => users::current_user().home.join(USER_LOCAL),
    }
}

/// The local directory of this host for the cluster with this id.
pub(crate) fn local_directory(site: &Site, cluster: &str) -> Local {
    if let Some(dir) = &site.local {
        return Local::at(dir);
    }
    Local::new(&base_dir().join(cluster), &site.host)
}
