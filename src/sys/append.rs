//! Append-only files: one write per group of records, and no more use of a file after any failure.
//!
//! After a short write, the next append would follow half a record and join the two; after a failed
//! fsync it is unknown what is on the disk. Therefore a failed `Appender` is poisoned permanently:
//! the caller opens a new segment that states the valid length of this one.

use super::file::{File, OpenMode};
use super::{Error, ErrorContext, Result, writeback};
use std::io;
use std::path::{Path, PathBuf};

/// The writer of one append-only file; there must be no other.
#[derive(Debug)]
pub struct Appender {
    file: File,
    path: PathBuf,
    len: u64,
    synced: u64,
    /// The server has received everything up to here; see [`pace`].
    sent: u64,
    poisoned: bool,
}

impl Appender {
    /// Opens `path` at its end, creating it (0644) if it does not exist.
    pub fn open(path: &Path) -> Result<Appender> {
        Appender::with(OpenMode::APPEND.create().mode(super::fs::FILE_MODE), path)
    }

    /// Creates `path`; an existing file is an error (`AlreadyExists`).
    pub fn create_new(path: &Path) -> Result<Appender> {
        Appender::with(
            OpenMode::APPEND.exclusive().mode(super::fs::FILE_MODE),
            path,
        )
    }

    /// Opens `path` at its end; a missing file is an error.
    pub fn open_existing(path: &Path) -> Result<Appender> {
        Appender::with(OpenMode::APPEND, path)
    }

    fn with(mode: OpenMode, path: &Path) -> Result<Appender> {
        let file = File::open(path, mode).at("open for appending", path)?;
        let len = file.stat().at("stat", path)?.len;
        let path = path.to_path_buf();
        Ok(Appender {
            file,
            path,
            len,
            synced: len,
            sent: len,
            poisoned: false,
        })
    }

    /// Appends `bytes` with one write and returns the new length of the file. Any error, including
    /// a short write, poisons the appender.
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        self.refuse_if_poisoned("append to")?;
        let wrote = loop {
            match self.file.append(bytes) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        match wrote {
            Ok(n) if n == bytes.len() => {
                self.len += n as u64;
                self.send()?;
                Ok(self.len)
            }
            Ok(n) => {
                let why = format!(
                    "only {n} of {} bytes were written (file valid to {}; start a new one)",
                    bytes.len(),
                    self.len
                );
                Err(self.poison("append to", io::Error::new(io::ErrorKind::WriteZero, why)))
            }
            Err(e) => Err(self.poison("append to", e)),
        }
    }

    /// Sends data that would keep other users of the share waiting if it were sent all at once.
    fn send(&mut self) -> Result<()> {
        if self.len - self.sent <= writeback::SMALL {
            return Ok(());
        }
        match self.file.send(self.sent, self.len) {
            Ok(()) => {
                self.sent = self.len;
                Ok(())
            }
            Err(e) => Err(self.poison("send", e)),
        }
    }

    /// Makes everything appended so far durable (fdatasync). An error poisons the appender.
    pub fn sync(&mut self) -> Result<()> {
        self.refuse_if_poisoned("sync")?;
        if self.synced == self.len {
            return Ok(());
        }
        match self.file.sync_data() {
            Ok(()) => {
                (self.synced, self.sent) = (self.len, self.len);
                Ok(())
            }
            Err(e) => Err(self.poison("sync", e)),
        }
    }

    /// Makes the file durable, including what other processes appended to it.
    pub fn sync_all(&mut self) -> Result<()> {
        self.refuse_if_poisoned("sync")?;
        self.file.sync_data().map_err(|e| self.poison("sync", e))
    }

    /// The length up to which complete appends succeeded.
    pub fn valid_len(&self) -> u64 {
        self.len
    }

    /// Reserves room for this many more bytes, if the file system supports it.
    pub fn reserve(&self, bytes: u64) {
        let _ = self.file.reserve(self.len, bytes);
    }

    /// The length up to which a sync succeeded (or the length when the file was opened).
    pub fn synced_len(&self) -> u64 {
        self.synced
    }

    /// True after a failure: nothing can be appended any more.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for a lock that must be held through this descriptor.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn refuse_if_poisoned(&self, act: &'static str) -> Result<()> {
        if !self.poisoned {
            return Ok(());
        }
        let why = format!("an earlier failure closed this file at {} bytes", self.len);
        Err(Error::new(act, &self.path, io::Error::other(why)))
    }

    fn poison(&mut self, act: &'static str, source: io::Error) -> Error {
        self.poisoned = true;
        Error::new(act, &self.path, source)
    }
}

/// Appends to a file to which several processes of this machine append: one write each, so that
/// records never mix. The file is created (0600) if needed.
#[derive(Debug)]
pub struct SharedAppender {
    file: File,
    path: PathBuf,
    torn: bool,
}

impl SharedAppender {
    /// Opens the file.
    pub fn open(path: &Path) -> Result<SharedAppender> {
        let how = OpenMode {
            read: false,
            ..OpenMode::APPEND.create().mode(0o600)
        };
        let file = File::open(path, how).at("open for appending", path)?;
        Ok(SharedAppender {
            file,
            path: path.to_path_buf(),
            torn: false,
        })
    }

    /// Reserves room for this many more bytes, if the file system supports it.
    pub fn reserve(&self, bytes: u64) {
        if let Ok(st) = self.file.stat() {
            let _ = self.file.reserve(st.len, bytes);
        }
    }

    /// Appends one line. After a failure the next attempt begins with a newline, so that the
    /// remainder of a short write does not become a part of the line.
    pub fn append(&mut self, line: &[u8]) -> Result<()> {
        let fresh;
        let bytes = match self.torn {
            true => {
                fresh = [b"\n", line].concat();
                &fresh
            }
            false => line,
        };
        self.torn = true;
        let n = self.file.append(bytes).at("append to", &self.path)?;
        if n != bytes.len() {
            let e = io::Error::new(io::ErrorKind::WriteZero, "short write");
            return Err(Error::new("append to", &self.path, e));
        }
        self.torn = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    #[test]
    fn appends_add_up_and_sync_moves_the_mark() {
        let d = tempdir().unwrap();
        let p = d.path().join("log");
        let mut a = Appender::open(&p).unwrap();
        assert_eq!(a.append(b"abc").unwrap(), 3);
        assert_eq!((a.valid_len(), a.synced_len()), (3, 0));
        a.sync().unwrap();
        assert_eq!(a.append(b"de").unwrap(), 5);
        assert_eq!((a.valid_len(), a.synced_len()), (5, 3));
        assert_eq!(Appender::open(&p).unwrap().valid_len(), 5);
    }

    #[test]
    fn create_new_refuses_an_existing_file() {
        let d = tempdir().unwrap();
        let p = d.path().join("log");
        Appender::create_new(&p).unwrap();
        let e = Appender::create_new(&p).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_failed_write_poisons_for_good() {
        let mut a = Appender::open(Path::new("/dev/full")).unwrap();
        assert!(a.append(b"x").unwrap_err().is_no_space());
        assert!(a.is_poisoned());
        assert!(a.append(b"").is_err() && a.sync().is_err());
    }
}
