//! The lock on a file that exists beforehand: a hint of liveness, never a proof.
//!
//! The file is opened without create (a dead holder's NFS delegation stalls creates in its
//! directory), is never unlinked, and the inode is compared with the path, because a lock on a file
//! that was replaced protects nothing.

use super::file::File;
use super::overwrite_file::OverwriteFile;
use super::{ErrorContext, Result};
use fs2::FileExt;
use std::path::Path;

/// A held exclusive lock; it is released when dropped.
#[derive(Debug)]
pub struct Lock(OverwriteFile);

impl Lock {
    /// Takes the lock if it is free; `Ok(None)` if another process holds it.
    pub fn try_take(path: &Path) -> Result<Option<Lock>> {
        let file = OverwriteFile::open(path, None)?;
        if !file.try_lock()? {
            return Ok(None);
        }
        // The locked file no longer has that name: this counts as if another process held the lock.
        Ok(file.still_in_place()?.then_some(Lock(file)))
    }

    /// Whether the path still names the locked file.
    pub fn still_in_place(&self) -> Result<bool> {
        self.0.still_in_place()
    }

    /// Overwrites the start of the locked file through the locked descriptor and syncs it: the
    /// server rejects this write if the lock was lost.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        self.0.overwrite(bytes, true)
    }
}

/// Locks an open file for the life of its descriptor: on NFS the server then rejects what this
/// process writes through it once the lock was lost. Returns false if another process holds the
/// lock.
pub fn fence(file: &File, path: &Path) -> Result<bool> {
    file.try_lock().at("lock", path)
}

/// A lock on an open file, held until it is dropped.
#[derive(Debug)]
pub struct HeldLock<'a>(&'a std::fs::File);

impl Drop for HeldLock<'_> {
    fn drop(&mut self) {
        let _ = FileExt::unlock(self.0);
    }
}

/// Waits at most `ms` for the lock on an open file; `None` if it could not be taken.
pub fn wait_for(file: &std::fs::File, ms: u64) -> Option<HeldLock<'_>> {
    let start = super::clock::boot_ms();
    loop {
        match FileExt::try_lock(file) {
            Ok(()) => return Some(HeldLock(file)),
            Err(fs2::TryLockError::WouldBlock) => {}
            Err(fs2::TryLockError::Error(_)) => return None,
        }
        if super::clock::boot_ms() - start >= ms {
            return None;
        }
        super::clock::sleep_ms(5);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    #[test]
    fn a_second_taker_is_turned_away_until_the_first_drops() {
        let d = tempdir().unwrap();
        let p = d.path().join("lock");
        assert!(Lock::try_take(&p).unwrap_err().is_not_found());
        super::super::fs::publish(&p, b"").unwrap();
        let first = Lock::try_take(&p).unwrap().unwrap();
        assert!(Lock::try_take(&p).unwrap().is_none());
        drop(first);
        // Other tests of this process start programs: until its exec, such a child also holds the
        // descriptor, and with it the lock.
        let deadline = super::super::clock::boot_ms() + 120_000;
        while Lock::try_take(&p).unwrap().is_none() {
            assert!(super::super::clock::boot_ms() < deadline, "never released");
            super::super::clock::sleep_ms(5);
        }
    }

    #[test]
    fn a_replaced_file_is_noticed() {
        let d = tempdir().unwrap();
        let p = d.path().join("lock");
        super::super::fs::publish(&p, b"").unwrap();
        let lock = Lock::try_take(&p).unwrap().unwrap();
        assert!(lock.still_in_place().unwrap());
        super::super::fs::publish(&p, b"new").unwrap();
        assert!(!lock.still_in_place().unwrap());
    }
}
