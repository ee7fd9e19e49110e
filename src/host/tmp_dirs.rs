//! Directories in /tmp for the temporary files of tasks: each task has its own.
//!
//! Owns their names, which of them are kept for the next task of the same user, and the removal of
//! those left by dead processes. Directories are reused because creating or removing one waits for
//! the lock of /tmp, which reduced the throughput of an array by a quarter. A shepherd creates its
//! directory, locks it and leaves it empty; this module never looks into a locked one.

use super::outputs::run_as;
use crate::sys::launch::ProcessIdentity;
use crate::sys::locked_dir::LockedDir;
use crate::sys::{Result, clock, fs};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The default directory for temporary files of jobs.
pub(super) const TMP: &str = "/tmp";
/// The group `nogroup`, which owns nothing.
const NO_GROUP: u32 = 65_534;
/// Maximum number of names of /tmp that are read in search of leftovers of dead processes.
const NAMES_MAX: usize = 100_000;

/// The names that a spawner assigns, and the free ones among them.
pub(super) struct TmpDirs {
    /// Prefix of all names of this host's spawners.
    host: String,
    /// Prefix of this spawner's names.
    own_prefix: String,
    next: u64,
    /// Free names by user; `None`: the user of this process.
    free: HashMap<Option<u32>, Vec<PathBuf>>,
}

impl TmpDirs {
    /// `tag`: of the host, unique among the clusters on the machine; `pid`: of the spawner.
    pub(super) fn new(tag: &str, pid: u32) -> TmpDirs {
        let host = format!("corral.{tag}.");
        TmpDirs {
            own_prefix: format!("{host}{pid}."),
            host,
            next: 0,
            free: HashMap::new(),
        }
    }

    /// A directory for a task of this user: a free one, or a new name.
    pub(super) fn take_dir(&mut self, uid: Option<u32>) -> PathBuf {
        let free = self.free.get_mut(&uid).and_then(Vec::pop);
        free.unwrap_or_else(|| {
            self.next += 1;
            Path::new(TMP).join(format!("{}{}", self.own_prefix, self.next))
        })
    }

    /// Takes back a directory that the shepherd left empty.
    pub(super) fn return_dir(&mut self, uid: Option<u32>, path: PathBuf) {
        self.free.entry(uid).or_default().push(path);
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Forgets the free directories, which [`Leftovers::remove`] then removes.
    pub(super) fn forget_free(&mut self) -> Leftovers {
        let free = self.free.drain();
        Leftovers::Free(
            free.flat_map(|(uid, all)| all.into_iter().map(move |p| (uid, p)))
                .collect(),
        )
    }

    /// What killed shepherds may have left, of this spawner and earlier ones.
    pub(super) fn leftovers(&self) -> Leftovers {
        Leftovers::OfDeadSpawners(self.host.clone())
    }
}

/// Directories that no task needs any more.
pub(super) enum Leftovers {
    /// Directories, each with its user.
    Free(Vec<(Option<u32>, PathBuf)>),
    /// All directories with this prefix that no process holds.
    OfDeadSpawners(String),
}

impl Leftovers {
    /// Removes them, each as its owner. This may take long and changes the identity of the process,
    /// so it runs in a separate one. `as_root`: it may switch to other users.
    pub(super) fn remove(&self, as_root: bool) {
        match self {
            Leftovers::Free(all) => {
                for (uid, path) in all {
                    // A directory into which the user has put files since is left for the next
                    // sweep.
                    let _ = run_as(uid.map(owner).as_ref(), || fs::remove_dir(path));
                }
            }
            Leftovers::OfDeadSpawners(prefix) => sweep(Path::new(TMP), prefix, as_root),
        }
    }
}

/// A user without groups, to act on that user's own files.
fn owner(uid: u32) -> ProcessIdentity {
    let (gid, groups) = (NO_GROUP, Vec::new());
    ProcessIdentity { uid, gid, groups }
}

fn sweep(tmp: &Path, prefix: &str, as_root: bool) {
    for entry in fs::list_dir(tmp, NAMES_MAX).unwrap_or_default() {
        let Some(name) = entry.text().filter(|name| name.starts_with(prefix)) else {
            continue;
        };
        let path = tmp.join(name);
        let Ok(Some(stat)) = fs::stat(&path) else {
            continue;
        };
        let user = as_root.then(|| owner(stat.uid));
        let remove = || LockedDir::try_lock(&path)?.map_or(Ok(()), LockedDir::remove);
        if let Err(e) = run_as(user.as_ref(), remove) {
            eprintln!("cbtask: {e}: the directory is not removed");
        }
    }
}

/// Makes the directory of a task: that of the spawner, otherwise one whose name begins with
/// `prefix`; `None`: the task uses /tmp.
///
/// # Errors
/// /tmp has no room: what the task would write there fails, so that it is not started.
pub(super) fn make(
    from_spawner: Option<&Path>,
    prefix: &str,
    user: Option<&ProcessIdentity>,
) -> Result<Option<LockedDir>> {
    let made = run_as(user, || {
        if let Some(path) = from_spawner
            && let Some(own) = LockedDir::open(path)?
        {
            return Ok(Some(own));
        }
        LockedDir::open(&Path::new(TMP).join(format!("{prefix}{}", clock::nonce(8))))
    });
    match made {
        Err(e) if !e.is_no_space() => {
            eprintln!("cbtask: {e}: the job uses {TMP} for its temporary files");
            Ok(None)
        }
        other => other,
    }
}

/// Empties the directory as its user: targets of links, and files that the user may not remove, are
/// not touched.
///
/// # Errors
/// Something remains in the directory.
pub(super) fn clear(own: &LockedDir, user: Option<&ProcessIdentity>) -> Result<()> {
    run_as(user, || own.clear())
}

/// Removes the directory with its content, as its user.
pub(super) fn remove(own: LockedDir, user: Option<&ProcessIdentity>) {
    if let Err(e) = run_as(user, || own.remove()) {
        eprintln!("cbtask: {e}: the directory is not removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_came_back_is_lent_again_to_the_same_user_only() {
        let mut dirs = TmpDirs::new("h1.0a", 7);
        let first = dirs.take_dir(Some(1));
        assert_eq!(first, Path::new("/tmp/corral.h1.0a.7.1"));
        assert!(!dirs.has_free());
        dirs.return_dir(Some(1), first.clone());
        let other = dirs.take_dir(Some(2));
        assert_ne!(other, first);
        assert_eq!(dirs.take_dir(Some(1)), first);
        assert_ne!(dirs.take_dir(Some(1)), first);
    }

    #[test]
    fn a_sweep_removes_what_nobody_holds_and_nothing_else() {
        let tmp = tempfile::tempdir().unwrap();
        let path = |name: &str| tmp.path().join(name);
        let locked = LockedDir::open(&path("corral.h1.7.1")).unwrap().unwrap();
        for name in ["corral.h1.7.2/d", "corral.h1.6.1", "corral.h2.7.1", "other"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        std::fs::write(path("corral.h1.7.2/d/f"), "x").unwrap();
        std::os::unix::fs::symlink(path("other"), path("corral.h1.9.9")).unwrap();
        sweep(tmp.path(), "corral.h1.", false);
        let left = fs::list_dir(tmp.path(), 99).unwrap();
        let left: Vec<_> = left.iter().filter_map(|e| e.text()).collect();
        assert_eq!(
            left,
            ["corral.h1.7.1", "corral.h1.9.9", "corral.h2.7.1", "other"]
        );
        drop(locked);
    }
}
