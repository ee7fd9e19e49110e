//! A directory that one process holds: created or taken over, locked while it is used, so that a
//! sweep sees which are in use, even after a kill.
//!
//! Acts under the identity of the process. Never follows a link, never enters a directory of
//! another user.

use super::{Error, ErrorContext, Result, fs, lock};
use std::fs::{DirEntry, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Number of bytes that getdents64 returns for a directory that contains only "." and "..".
const NO_ENTRIES: usize = 48;
/// Access only for its user.
const MODE: u32 = 0o700;

/// A directory held until it is dropped or the process ends.
#[derive(Debug)]
pub struct LockedDir {
    path: PathBuf,
    file: File,
    /// The ids when it was taken.
    uid: u32,
    mode: u32,
}

impl LockedDir {
    /// Creates `path`, or takes over an empty directory of that name to which only this user has
    /// access. `Ok(None)`: something else has the name, or another process holds it.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn open(path: &Path) -> Result<Option<LockedDir>> {
        // An existing one is tried first: creating a directory waits for the lock of its parent.
        let (own, made) = match LockedDir::try_lock(path)? {
            Some(own) => (own, false),
            None if fs::mkdir(path, MODE)? => match LockedDir::try_lock(path)? {
                Some(own) => (own, true),
                None => return Ok(None),
            },
            None => return Ok(None),
        };
        let is_private = own.uid == super::users::effective_uid() && own.mode == MODE;
        Ok((is_private && (made || own.is_empty()?)).then_some(own))
    }

    /// Takes the lock of an existing directory; `Ok(None)` if it is held by another process, or
    /// gone.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn try_lock(path: &Path) -> Result<Option<LockedDir>> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            // It is a link.
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => return Ok(None),
            Err(e) => return Err(Error::new("open the directory", path, e)),
        };
        match lock::wait_for(&file, 0) {
            // The lock is held through the descriptor.
            Some(held) => std::mem::forget(held),
            None => return Ok(None),
        }
        // The process that held it may have removed it since.
        let ino_of_path = fs::stat(path)?.map(|stat| stat.ino);
        let stat = file.metadata().at("stat", path)?;
        let own = LockedDir {
            path: path.to_owned(),
            file,
            uid: stat.uid(),
            mode: stat.mode() & 0o7777,
        };
        Ok((ino_of_path == Some(stat.ino())).then_some(own))
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes its contents.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn clear(&self) -> Result<()> {
        if self.is_empty()? {
            return Ok(());
        }
        for entry in self.entries()? {
            let path = entry.path();
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => fs::remove_tree(&path)?,
                false => fs::remove(&path)?,
            }
        }
        Ok(())
    }

    /// Removes it with its contents.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn remove(self) -> Result<()> {
        fs::remove_tree(&self.path)
    }

    /// Checked twice for each task, hence without a directory reader and its 32 KiB.
    fn is_empty(&self) -> Result<bool> {
        let mut buffer = [0u64; 32];
        let (fd, at, len) = (
            self.file.as_raw_fd(),
            buffer.as_mut_ptr(),
            size_of_val(&buffer),
        );
        // SAFETY: the descriptor is open, and the kernel writes at most `len` bytes to `buffer`.
        let n = unsafe {
            libc::lseek(fd, 0, libc::SEEK_SET);
            libc::syscall(libc::SYS_getdents64, fd, at, len)
        };
        let n = usize::try_from(n).map_err(|_| Error::last("list", &self.path))?;
        // "." and ".." take 24 bytes each, in any position: every further entry takes more.
        Ok(n <= NO_ENTRIES)
    }

    fn entries(&self) -> Result<Vec<DirEntry>> {
        let all = std::fs::read_dir(&self.path).and_then(Iterator::collect);
        all.at("list", &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_made_held_emptied_and_taken_over() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("own");
        let own = LockedDir::open(&path).unwrap().unwrap();
        assert!(LockedDir::open(&path).unwrap().is_none(), "it is held");
        assert!(LockedDir::try_lock(&path).unwrap().is_none());
        std::fs::create_dir_all(path.join("a/b")).unwrap();
        std::fs::write(root.path().join("kept"), "x").unwrap();
        std::os::unix::fs::symlink(root.path(), path.join("link")).unwrap();
        own.clear().unwrap();
        assert!(root.path().join("kept").exists(), "no link is followed");
        drop(own);
        let again = LockedDir::open(&path).unwrap().unwrap();
        again.remove().unwrap();
        assert!(!path.exists());
        assert!(LockedDir::try_lock(&path).unwrap().is_none());
    }

    #[test]
    fn what_is_not_empty_or_open_to_others_or_a_link_is_not_taken_over() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("own");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(LockedDir::open(&path).unwrap().is_none());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::write(path.join("f"), "x").unwrap();
        assert!(LockedDir::open(&path).unwrap().is_none());
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(LockedDir::open(&link).unwrap().is_none());
        let file = root.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(LockedDir::open(&file).unwrap().is_none());
    }

    #[test]
    fn a_directory_that_was_replaced_is_not_held() {
        let root = tempfile::tempdir().unwrap();
        let (path, other) = (root.path().join("own"), root.path().join("other"));
        let own = LockedDir::open(&path).unwrap().unwrap();
        std::fs::rename(&path, &other).unwrap();
        assert!(LockedDir::try_lock(&path).unwrap().is_none());
        assert!(LockedDir::try_lock(&other).unwrap().is_none(), "{own:?}");
    }
}
