//! The control groups that a task creates below its own, for example by a container runtime with a
//! parent group: they belong to the task. Finds them and their processes, and removes them.
//!
//! Limited in depth and number: groups beyond the limit stay, and so does the group above them,
//! which is not used again. Decides nothing about when.

use super::values::{read_pids, write};
use crate::sys::{clock, fs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum depth of groups below a task's group that are searched, and their maximum number.
const DEPTH_MAX: usize = 32;
const NUMBER_MAX: usize = 10_000;
/// Number of links of a directory of the control group file system without subdirectories.
const LINKS: u64 = 2;

/// Whether the group has others below it: one call, using the directory's number of links.
pub(super) fn any(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.nlink() > LINKS)
}

/// All groups below this one, each after those above it.
pub(super) fn all(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut level = vec![dir.to_path_buf()];
    for _ in 0..DEPTH_MAX {
        let from = found.len();
        for above in level.iter().filter(|dir| any(dir)) {
            let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
            let dirs = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
            found.extend(dirs.map(|e| e.path()).take(NUMBER_MAX - found.len()));
        }
        level = found[from..].to_vec();
        if level.is_empty() {
            break;
        }
    }
    found
}

/// The processes of the group and of all below it.
pub(super) fn pids(dir: &Path) -> Vec<i32> {
    let mut pids = read_pids(&dir.join("cgroup.procs"));
    if any(dir) {
        let below = all(dir);
        pids.extend(
            below
                .iter()
                .flat_map(|d| read_pids(&d.join("cgroup.procs"))),
        );
    }
    pids
}

/// Removes the group and all below it, deepest first; a group that is not empty stays. Returns true
/// if it is gone.
pub(super) fn remove(dir: &Path) -> bool {
    // A group stays busy for a moment after its last process was reaped.
    [0, 1, 5, 20].into_iter().any(|pause| {
        clock::sleep_ms(pause);
        if any(dir) {
            for below in all(dir).iter().rev() {
                let _ = fs::remove_dir(below);
            }
        }
        fs::remove_dir(dir).is_ok()
    })
}

/// Thaws everything below the group that froze itself: in version 1 a frozen process cannot be
/// killed.
pub(super) fn thaw_v1(dir: &Path) {
    for below in all(dir) {
        let _ = write(&below.join("freezer.state"), "THAWED");
    }
}

/// The directories of the same group in all other hierarchies of this machine.
pub(super) fn elsewhere(dir: &Path, mounts: &str) -> Vec<PathBuf> {
    let point = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let point = words.next()?;
        let kind = words.next()?;
        (kind == "cgroup" || kind == "cgroup2").then(|| PathBuf::from(point))
    };
    let points: Vec<PathBuf> = mounts.lines().filter_map(point).collect();
    let Some(own) = points
        .iter()
        .filter(|point| dir.starts_with(point))
        .max_by_key(|point| point.components().count())
    else {
        return Vec::new();
    };
    let Ok(path) = dir.strip_prefix(own) else {
        return Vec::new();
    };
    let others = points.iter().filter(|point| *point != own);
    others.map(|point| point.join(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_group_is_known_in_the_other_hierarchies() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
            cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
            cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let of = |dir: &str| elsewhere(Path::new(dir), mounts);
        assert_eq!(
            of("/sys/fs/cgroup/memory/a/b"),
            [
                Path::new("/sys/fs/cgroup/blkio/a/b"),
                Path::new("/sys/fs/cgroup/unified/a/b")
            ]
        );
        assert!(of("/tmp/x").is_empty());
    }
}
