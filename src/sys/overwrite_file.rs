//! A file that exists beforehand, is kept open, and is repeatedly overwritten in place.
//!
//! Owns the open file and the check whether its path still names it. On NFS an overwrite takes one
//! or two answers of the server, whereas opening it each time takes three or four more. Never
//! creates, renames or removes anything.

use super::file::File;
use super::{ErrorContext, Result};
use std::path::{Path, PathBuf};

/// The open file.
#[derive(Debug)]
pub struct OverwriteFile {
    file: File,
    path: PathBuf,
    id: (u64, u64),
}

impl OverwriteFile {
    /// Opens an existing file for reading and writing. `len`: longer content is cut off.
    ///
    /// # Errors
    /// The file does not exist or cannot be opened.
    pub fn open(path: &Path, len: Option<u64>) -> Result<OverwriteFile> {
        let file = super::fs::open_both(path)?;
        let stat = file.stat().at("stat", path)?;
        if let Some(len) = len.filter(|len| stat.len > *len) {
            file.set_len(len).at("truncate", path)?;
        }
        Ok(OverwriteFile {
            file,
            path: path.to_path_buf(),
            id: (stat.dev, stat.ino),
        })
    }

    /// Whether the path still names the open file.
    ///
    /// # Errors
    /// The path cannot be examined.
    pub fn still_in_place(&self) -> Result<bool> {
        names(&self.path, self.id)
    }

    /// Device and inode of the open file.
    pub fn id(&self) -> (u64, u64) {
        self.id
    }

    /// Overwrites the start of the file. `sync`: waits until the data are durable; without it,
    /// other hosts may never see them while the file stays open.
    ///
    /// # Errors
    /// The write or the sync failed.
    pub fn overwrite(&self, bytes: &[u8], sync: bool) -> Result<()> {
        let wrote = self.file.write_all_at(bytes, 0);
        wrote.at("overwrite the open", &self.path)?;
        match sync {
            true => self.file.sync_data().at("sync the open", &self.path),
            false => Ok(()),
        }
    }

    /// Takes the lock on the file. Returns false if another process holds it.
    pub(super) fn try_lock(&self) -> Result<bool> {
        self.file.try_lock().at("lock", &self.path)
    }
}

/// Whether `path` names the file of this device and inode.
///
/// # Errors
/// The path cannot be examined.
pub fn names(path: &Path, id: (u64, u64)) -> Result<bool> {
    let found = super::fs::stat(path)?;
    Ok(found.is_some_and(|s| (s.dev, s.ino) == id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_overwritten_in_place_and_a_replaced_one_is_noticed() {
        let d = tempfile::tempdir().unwrap();
        let p = d.path().join("beat");
        assert!(OverwriteFile::open(&p, None).unwrap_err().is_not_found());
        super::super::fs::publish(&p, b"a longer content").unwrap();
        let file = OverwriteFile::open(&p, Some(4)).unwrap();
        for text in [b"1234", b"5678"] {
            file.overwrite(text, true).unwrap();
            assert_eq!(super::super::fs::read_small(&p, 99).unwrap(), text);
        }
        assert!(file.still_in_place().unwrap());
        super::super::fs::publish(&p, b"9").unwrap();
        assert!(!file.still_in_place().unwrap());
        assert!(!names(&d.path().join("none"), file.id()).unwrap());
    }
}
