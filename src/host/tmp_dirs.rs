//! The directories for temporary files that jobs have for themselves: made by the shepherd as the
//! job's user, removed by it at the end, and by the spawner where the shepherd could not.
//!
//! Owns their names, from which follows whose they are: several hosts and clusters may share a
//! machine. Never follows a link, and removes nothing that the owner of the directory may not.

use super::local::Local;
use super::outputs::acting;
use crate::model::{AttemptId, JobKey, sha256_hex};
use crate::sys::launch::Who;
use crate::sys::{clock, fs, users};
use std::path::{Path, PathBuf};

/// Where jobs have their temporary files.
pub(super) const TMP: &str = "/tmp";
/// What the names begin with.
const PREFIX: &str = "corral.";
/// Most entries of that directory that are looked at.
const ENTRIES_MAX: usize = 1_000_000;
/// Length of what tells hosts apart.
const TAG: usize = 8;

/// What a host's directories have in their names: its local directory is its own.
fn tag(local: &Local) -> String {
    let mut sum = sha256_hex(local.dir().as_os_str().as_encoded_bytes());
    sum.truncate(TAG);
    sum
}

/// `corral.ID.INDEX.ATTEMPT.TAG.RANDOM`.
fn name(a: AttemptId, local: &Local) -> String {
    let AttemptId { j, at } = a;
    let (tag, nonce) = (tag(local), clock::nonce(8));
    format!("{PREFIX}{}.{}.{at}.{tag}.{nonce}", j.id, j.idx)
}

/// The attempt whose directory has this name on this host.
fn attempt_of(name: &str, tag: &str) -> Option<AttemptId> {
    let mut parts = name.strip_prefix(PREFIX)?.split('.');
    let mut number = || parts.next()?.parse::<u32>().ok();
    let (id, idx, at) = (number()?, number()?, number()?);
    let j = JobKey { id, idx };
    (parts.next() == Some(tag) && parts.count() == 1).then_some(AttemptId { j, at })
}

/// Makes a directory for the temporary files of an attempt alone, as its user.
pub(super) fn make(a: AttemptId, local: &Local, user: Option<&Who>) -> Option<PathBuf> {
    let path = Path::new(TMP).join(name(a, local));
    match acting(user, || fs::mkdir(&path, 0o700)) {
        Ok(true) => Some(path),
        // What has that name is not the job's.
        Ok(false) => None,
        Err(e) => {
            eprintln!("cbtask: {e}: the job has {TMP} for its temporary files");
            None
        }
    }
}

/// Removes it with all below, as the user: what a link names is not touched, and nothing that the
/// user may not remove.
pub(super) fn remove(path: &Path, user: Option<&Who>) {
    if let Err(e) = acting(user, || fs::remove_tree(path)) {
        eprintln!("cbtask: {e}: it stays");
    }
}

/// Directories of this host's attempts whose shepherds have ended, with their owners. `only`: of
/// this attempt; else of all but those in `keep`.
pub(super) fn abandoned(
    local: &Local,
    only: Option<AttemptId>,
    keep: &[AttemptId],
) -> Vec<(PathBuf, Who)> {
    found(Path::new(TMP), &tag(local), |a| match only {
        Some(only) => a == only,
        None => !keep.contains(&a),
    })
}

fn found(dir: &Path, tag: &str, wanted: impl Fn(AttemptId) -> bool) -> Vec<(PathBuf, Who)> {
    let names = fs::list_dir(dir, ENTRIES_MAX).unwrap_or_default();
    let ours = names.iter().filter_map(|entry| {
        let name = entry.text()?;
        attempt_of(name, tag)
            .filter(|a| wanted(*a))
            .map(|_| dir.join(name))
    });
    let owned = ours.filter_map(|path| {
        let seen = fs::stat(&path).ok().flatten()?;
        let (uid, gid) = (seen.uid, seen.gid);
        let who = Who {
            uid,
            gid,
            groups: Vec::new(),
        };
        // A link is not followed, and without privilege only what is this account's is removed.
        let mine = users::may_switch() || uid == users::effective_uid();
        (seen.kind == fs::Kind::Dir && mine).then_some((path, who))
    });
    owned.collect()
}

/// Removes such directories, each as its owner. Takes as long as they are large: for a process of
/// its own.
pub(super) fn clear(dirs: &[(PathBuf, Who)]) {
    for (path, who) in dirs {
        let who = Some(who).filter(|_| users::may_switch());
        remove(path, who);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a(id: u32) -> AttemptId {
        AttemptId {
            j: JobKey { id, idx: 2 },
            at: 3,
        }
    }

    #[test]
    fn a_name_says_whose_it_is() {
        let (one, two) = (Local::at(Path::new("/l/a")), Local::at(Path::new("/l/b")));
        let name = name(a(7), &one);
        assert_eq!(attempt_of(&name, &tag(&one)), Some(a(7)));
        assert_eq!(attempt_of(&name, &tag(&two)), None);
        for wrong in [
            "corral.7.2.3.x",
            "corral.7.2.3",
            "a.7.2.3.t.n",
            "corral.7.2.3.t.n.m",
        ] {
            assert_eq!(attempt_of(wrong, "t"), None, "{wrong}");
        }
    }

    #[test]
    fn only_directories_of_attempts_that_are_over_are_found() {
        let d = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::mkdir(&d.path().join(name), 0o700).unwrap();
        make("corral.7.2.3.t.one");
        make("corral.8.2.3.t.two");
        make("corral.7.2.3.other.one");
        make("else");
        std::os::unix::fs::symlink("/", d.path().join("corral.9.2.3.t.link")).unwrap();
        let names = |wanted: &dyn Fn(AttemptId) -> bool| {
            let all = found(d.path(), "t", wanted);
            let names = all
                .iter()
                .map(|(p, _)| p.file_name().unwrap().to_str().unwrap().to_owned());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        assert_eq!(names(&|x| x != a(8)), ["corral.7.2.3.t.one"]);
        assert_eq!(names(&|x| x == a(8)), ["corral.8.2.3.t.two"]);
        std::fs::write(d.path().join("corral.8.2.3.t.two/f"), "x").unwrap();
        clear(&found(d.path(), "t", |x| x == a(8)));
        assert!(!d.path().join("corral.8.2.3.t.two").exists());
        assert!(d.path().join("corral.7.2.3.t.one").exists());
    }
}
