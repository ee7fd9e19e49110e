//! Which files a daemon trusts: those of root and of the account that owns the share.
//!
//! Owns the check of owners and permission bits, from the open descriptor for files that are read,
//! along the whole path for files that are loaded. The share's directories let no other user write;
//! this is the second check, in case the permissions of one of them were changed.

use super::fs::{self, Kind};
use super::{Error, ErrorContext, Result, platform, users};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The account that owns the share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owners {
    pub uid: u32,
    pub gid: u32,
}

impl Owners {
    /// Whether files of `uid` are trusted.
    pub fn trusts(self, uid: u32) -> bool {
        uid == 0 || uid == self.uid || platform::simulated()
    }

    /// Rejects a file of `uid` unless that account is trusted.
    ///
    /// # Errors
    /// The error names the path and the owner.
    pub fn check(self, act: &'static str, path: &Path, uid: u32) -> Result<()> {
        if self.trusts(uid) {
            return Ok(());
        }
        Err(Error::invalid(act, path, self.foreign(uid)))
    }

    fn foreign(self, uid: u32) -> String {
        format!(
            "it belongs to uid {uid}, neither to root nor to the cluster's account (uid {})",
            self.uid
        )
    }

    /// [`fs::read_small`] for a file whose owner is trusted.
    ///
    /// # Errors
    /// As there, or the file belongs to another user.
    pub fn read_small(self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        let (bytes, uid) = fs::read_small_owned(path, limit)?;
        self.check("believe", path, uid).map(|()| bytes)
    }

    /// The owner of `path` if it is not trusted. Links are not followed.
    pub fn untrusted_owner(self, path: &Path) -> Option<u32> {
        if platform::simulated() {
            return None;
        }
        let found = fs::stat(path).ok().flatten()?;
        (!self.trusts(found.uid)).then_some(found.uid)
    }

    /// Why a file is not trusted, determined from the entry at its name: it belongs to an untrusted
    /// account, or is not a file at all. Links are not followed.
    pub fn refusal_of(self, path: &Path) -> Option<Error> {
        if platform::simulated() {
            return None;
        }
        let found = fs::stat(path).ok().flatten()?;
        if found.kind != Kind::File {
            return Some(Error::invalid("believe", path, "it is not a regular file"));
        }
        self.check("believe", path, found.uid).err()
    }

    /// The entries of `dir` that belong to a user who is not trusted, with that user.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn untrusted_entries(self, dir: &Path, max: usize) -> Result<Vec<(PathBuf, u32)>> {
        if platform::simulated() {
            return Ok(Vec::new());
        }
        let all = fs::list_dir(dir, max)?.into_iter();
        let all = all.map(|entry| dir.join(entry.name));
        Ok(all
            .filter_map(|path| self.untrusted_owner(&path).map(|uid| (path, uid)))
            .collect())
    }

    /// Renames an entry of an untrusted account to a hidden name beside it.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn quarantine(self, path: &Path) -> Result<PathBuf> {
        let hidden = format!(".foreign.{}", super::clock::nonce(8));
        let hidden = path.with_file_name(hidden);
        fs::rename(path, &hidden).map(|()| hidden)
    }

    /// Refuses to load `path` if other users could have written or placed it: it and every
    /// directory above must belong to root or the cluster's account, and no other user may have
    /// write permission. For an unprivileged daemon this applies only below `base`; further up, it
    /// suffices that not all users may write.
    ///
    /// # Errors
    /// The error names the file or directory and its problem.
    pub fn safe_to_load(self, path: &Path, base: &Path) -> Result<()> {
        if platform::simulated() {
            return Ok(());
        }
        let strict = users::serves_others();
        let base = fs::canonical(base)?;
        // The path as written: a link in it must not belong to an untrusted account.
        for at in path.ancestors().filter(|at| !at.as_os_str().is_empty()) {
            let found = fs::stat(at)?;
            if let Some(link) = found.filter(|f| f.kind == Kind::Link) {
                self.check("load", at, link.uid)?;
            }
        }
        let real = fs::canonical(path)?;
        for at in real.ancestors() {
            self.judge(at, strict || at.starts_with(&base))?;
        }
        Ok(())
    }

    fn judge(self, at: &Path, strict: bool) -> Result<()> {
        let meta = std::fs::metadata(at).at("look at", at)?;
        let (mode, gid) = (meta.mode() & 0o7777, meta.gid());
        let refuse = |why: String| Err(Error::invalid("load", at, why));
        if strict {
            self.check("load", at, meta.uid())?;
        }
        // In a sticky directory users can only change their own files.
        if meta.is_dir() && mode & 0o1000 != 0 {
            return Ok(());
        }
        if mode & 0o002 != 0 {
            let text = format!("all users may write to it (mode {mode:o}): chmod o-w it");
            return refuse(text);
        }
        if strict && mode & 0o020 != 0 && gid != 0 && gid != self.gid {
            let text = format!("group {gid} may write to it (mode {mode:o}): chmod g-w it");
            return refuse(text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners() -> Owners {
        let me = users::current_user();
        Owners {
            uid: me.uid,
            gid: me.gid,
        }
    }

    fn tree() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let d = tempfile::tempdir().unwrap();
        let conf = d.path().join("share/conf");
        fs::mkdir_p(&conf, 0o755).unwrap();
        let file = conf.join("cb.yaml");
        fs::publish(&file, b"x").unwrap();
        let base = d.path().join("share");
        (d, base, file)
    }

    #[test]
    fn what_others_can_write_is_not_loaded_and_the_path_is_named() {
        let (_d, base, file) = tree();
        let dir = fs::parent(&file).to_path_buf();
        owners().safe_to_load(&file, &base).unwrap();
        for at in [&file, &dir, &base] {
            for mode in [0o757, 0o777, 0o666] {
                fs::chmod(at, mode).unwrap();
                // A directory must remain searchable for this test if it is not run by root.
                if mode & 0o100 == 0 && at != &file {
                    continue;
                }
                let e = owners().safe_to_load(&file, &base).unwrap_err();
                assert_eq!(&e.path, at, "{e}");
                assert!(e.to_string().contains("may write"), "{e}");
            }
            fs::chmod(at, 0o755).unwrap();
        }
        owners().safe_to_load(&file, &base).unwrap();
    }

    #[test]
    fn a_foreign_group_may_not_write_and_a_foreign_owner_is_not_believed() {
        let (d, base, file) = tree();
        if !users::may_switch() {
            println!("skipped: only root can give files away");
            return;
        }
        fs::chown(&file, 0, 65_534).unwrap();
        fs::chmod(&file, 0o664).unwrap();
        let e = owners().safe_to_load(&file, &base).unwrap_err();
        assert!(e.to_string().contains("group 65534"), "{e}");
        fs::chmod(&file, 0o644).unwrap();
        owners().safe_to_load(&file, &base).unwrap();
        for at in [d.path(), fs::parent(&file), &file] {
            fs::chown(at, 65_534, 65_534).unwrap();
            let e = owners().safe_to_load(&file, &base).unwrap_err();
            assert!(e.path == at && e.to_string().contains("uid 65534"), "{e}");
            fs::chown(at, 0, 0).unwrap();
        }
        fs::chown(&file, 65_534, 65_534).unwrap();
        assert!(owners().read_small(&file, 9).is_err());
        assert_eq!(owners().untrusted_owner(&file), Some(65_534));
        let service = Owners {
            uid: 65_534,
            gid: 65_534,
        };
        assert_eq!(service.read_small(&file, 9).unwrap(), b"x");
    }

    #[test]
    fn a_link_of_a_stranger_on_the_way_is_refused() {
        let (d, base, file) = tree();
        let link = d.path().join("link");
        std::os::unix::fs::symlink(&base, &link).unwrap();
        let by_link = link.join("conf/cb.yaml");
        owners().safe_to_load(&by_link, &base).unwrap();
        if users::may_switch() {
            std::os::unix::fs::lchown(&link, Some(65_534), Some(65_534)).unwrap();
            let e = owners().safe_to_load(&by_link, &base).unwrap_err();
            assert_eq!(e.path, link, "{e}");
        }
        owners().safe_to_load(&file, &base).unwrap();
    }
}
