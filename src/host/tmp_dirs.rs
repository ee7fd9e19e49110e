//! Directories in /tmp for the temporary files of tasks: each task has its own.
//!
//! Owns their names, which of them are kept for the next task of the same user, and the removal of
//! those left by dead processes. Directories are reused because creating or removing one waits for
//! the lock of /tmp, which took a quarter of the speed of an array. A shepherd creates its
//! directory, locks it and leaves it empty; this module never looks into a locked one.

use super::outputs::acting;
use crate::sys::launch::Who;
use crate::sys::own_dir::OwnDir;
use crate::sys::{Result, clock, fs};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where jobs have their temporary files.
pub(super) const TMP: &str = "/tmp";
/// The group `nogroup`, which owns nothing.
const NO_GROUP: u32 = 65_534;
/// Most names of /tmp that are looked at for what dead processes left.
const NAMES_MAX: usize = 100_000;

/// The names that a spawner gives, and those of them that are free.
pub(super) struct TmpDirs {
    /// All names of this host's spawners begin like this.
    host: String,
    /// This spawner's own.
    own: String,
    next: u64,
    /// By user; `None`: this process's own.
    free: HashMap<Option<u32>, Vec<PathBuf>>,
}

impl TmpDirs {
    /// `tag`: of the host, as no other cluster on the machine has it; `pid`: of the spawner.
    pub(super) fn new(tag: &str, pid: u32) -> TmpDirs {
        let host = format!("corral.{tag}.");
        TmpDirs {
            own: format!("{host}{pid}."),
            host,
            next: 0,
            free: HashMap::new(),
        }
    }

    /// A directory for a task of this user: one that is free, or a new name.
    pub(super) fn lend(&mut self, uid: Option<u32>) -> PathBuf {
        let free = self.free.get_mut(&uid).and_then(Vec::pop);
        free.unwrap_or_else(|| {
            self.next += 1;
            Path::new(TMP).join(format!("{}{}", self.own, self.next))
        })
    }

    /// The shepherd left it empty.
    pub(super) fn take_back(&mut self, uid: Option<u32>, path: PathBuf) {
        self.free.entry(uid).or_default().push(path);
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// What is free is forgotten: [`Leftovers::remove`] removes it.
    pub(super) fn forget_free(&mut self) -> Leftovers {
        let free = self.free.drain();
        Leftovers::Free(
            free.flat_map(|(uid, all)| all.into_iter().map(move |p| (uid, p)))
                .collect(),
        )
    }

    /// What shepherds that were killed may have left, of this spawner and those before it.
    pub(super) fn of_the_dead(&self) -> Leftovers {
        Leftovers::OfTheDead(self.host.clone())
    }
}

/// Directories that no task needs any more.
pub(super) enum Leftovers {
    /// Each with its user.
    Free(Vec<(Option<u32>, PathBuf)>),
    /// All whose names begin like this and that no process holds.
    OfTheDead(String),
}

impl Leftovers {
    /// Removes them, each as its owner. It may take long and changes who this process is: for a
    /// process of its own. `as_root`: it may act as others.
    pub(super) fn remove(&self, as_root: bool) {
        match self {
            Leftovers::Free(all) => {
                for (uid, path) in all {
                    // What a user put into it since stays for the next sweep.
                    let _ = acting(uid.map(owner).as_ref(), || fs::remove_dir(path));
                }
            }
            Leftovers::OfTheDead(prefix) => sweep(Path::new(TMP), prefix, as_root),
        }
    }
}

/// A user without groups: for what is that user's own.
fn owner(uid: u32) -> Who {
    let (gid, groups) = (NO_GROUP, Vec::new());
    Who { uid, gid, groups }
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
        let remove = || OwnDir::hold(&path)?.map_or(Ok(()), OwnDir::remove);
        if let Err(e) = acting(user.as_ref(), remove) {
            eprintln!("cbtask: {e}: it stays");
        }
    }
}

/// Makes the directory of a task: that which is lent, else one whose name begins with `prefix`;
/// `None`: the task has /tmp.
pub(super) fn make(lent: Option<&Path>, prefix: &str, user: Option<&Who>) -> Option<OwnDir> {
    let made = acting(user, || {
        if let Some(path) = lent
            && let Some(own) = OwnDir::open(path)?
        {
            return Ok(Some(own));
        }
        OwnDir::open(&Path::new(TMP).join(format!("{prefix}{}", clock::nonce(8))))
    });
    made.unwrap_or_else(|e| {
        eprintln!("cbtask: {e}: the job has {TMP} for its temporary files");
        None
    })
}

/// Empties the directory, as its user: what a link names is not touched, and nothing that the user
/// may not remove.
///
/// # Errors
/// Something stays.
pub(super) fn clear(own: &OwnDir, user: Option<&Who>) -> Result<()> {
    acting(user, || own.clear())
}

/// Removes it with all that is in it, likewise.
pub(super) fn remove(own: OwnDir, user: Option<&Who>) {
    if let Err(e) = acting(user, || own.remove()) {
        eprintln!("cbtask: {e}: it stays");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_came_back_is_lent_again_to_the_same_user_only() {
        let mut dirs = TmpDirs::new("h1.0a", 7);
        let first = dirs.lend(Some(1));
        assert_eq!(first, Path::new("/tmp/corral.h1.0a.7.1"));
        assert!(!dirs.has_free());
        dirs.take_back(Some(1), first.clone());
        let other = dirs.lend(Some(2));
        assert_ne!(other, first);
        assert_eq!(dirs.lend(Some(1)), first);
        assert_ne!(dirs.lend(Some(1)), first);
    }

    #[test]
    fn a_sweep_removes_what_nobody_holds_and_nothing_else() {
        let tmp = tempfile::tempdir().unwrap();
        let path = |name: &str| tmp.path().join(name);
        let held = OwnDir::open(&path("corral.h1.7.1")).unwrap().unwrap();
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
        drop(held);
    }
}
