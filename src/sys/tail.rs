//! A file to which another machine appends, kept open between polls if that saves requests.
//!
//! On NFS a poll that opens, reads and closes takes three requests. A descriptor that is kept open
//! shows what this machine has cached, except with `O_DIRECT`: then each read is one request that
//! the server answers. Therefore a file that grew a moment ago is kept open and read past the
//! cache. Data that such a read does not find is looked for by open, read and close, and the file
//! is reopened periodically, because its name may now belong to another file. Never writes.

use super::clock;
use super::file::{File, OpenMode};
use super::fs::{self, Chunk};
use super::statfs::{FsKind, fs_kind};
use super::{ErrorContext, Result};
use std::path::{Path, PathBuf};

/// How long a file is kept open before it is opened again (ms).
const KEEP_MS: u64 = 10_000;
/// Number of bytes that the first read requests: more is rarely added between two reads, and a
/// request larger than the mount's `rsize` takes several requests to the server, regardless of how
/// much there is.
const STEP: usize = 16 << 10;

/// The file, which may be kept open.
#[derive(Debug)]
pub struct Tail {
    /// Reads can bypass the caches.
    direct: bool,
    open: Option<OpenTail>,
}

#[derive(Debug)]
struct OpenTail {
    file: File,
    path: PathBuf,
    ino: u64,
    uid: u32,
    /// Boot clock, ms.
    opened_at: u64,
}

impl Tail {
    /// A tail for files of `share`; they are kept open only if that is NFS.
    pub fn of(share: &Path) -> Tail {
        Tail {
            direct: fs_kind(share).is_ok_and(|kind| kind == FsKind::Nfs),
            open: None,
        }
    }

    /// Another tail on the same share.
    pub fn another(&self) -> Tail {
        Tail {
            direct: self.direct,
            open: None,
        }
    }

    /// As [`fs::read_from`]. For a file that was kept open, `file_len` is what this read has shown.
    ///
    /// # Errors
    /// The file cannot be opened or read, or is not a regular one.
    pub fn read_from(&mut self, path: &Path, offset: u64, max: usize) -> Result<Chunk> {
        let now = clock::boot_ms();
        let young = |open_tail: &OpenTail| {
            open_tail.path == path && now.saturating_sub(open_tail.opened_at) < KEEP_MS
        };
        if let Some(open_tail) = self.open.take_if(|open_tail| young(open_tail))
            && let Some(chunk) = open_tail.read(offset, max)
        {
            self.open = Some(open_tail);
            return Ok(chunk);
        }
        self.open = None;
        let direct = self.direct;
        let mode = OpenMode {
            direct,
            ..OpenMode::LOOK
        };
        let file = File::open(path, mode).at("open", path)?;
        let chunk = fs::read_open(&file, path, offset, max)?;
        if direct {
            let (path, ino, uid) = (path.to_path_buf(), chunk.ino, chunk.uid);
            self.open = Some(OpenTail {
                file,
                path,
                ino,
                uid,
                opened_at: now,
            });
        }
        Ok(chunk)
    }
}

impl OpenTail {
    /// The data after `offset`, if there are some and less than `max`.
    fn read(&self, offset: u64, max: usize) -> Option<Chunk> {
        let mut bytes = vec![0u8; STEP.min(max)];
        let mut filled = 0;
        loop {
            match self
                .file
                .read_at(&mut bytes[filled..], offset + filled as u64)
            {
                Ok(n) => filled += n,
                // Opening it reports the problem.
                Err(_) => return None,
            }
            if filled < bytes.len() {
                break;
            }
            if filled == max {
                return None;
            }
            bytes.resize((filled * 4).min(max), 0);
        }
        bytes.truncate(filled);
        (filled > 0).then(|| Chunk {
            bytes,
            file_len: offset + filled as u64,
            ino: self.ino,
            uid: self.uid,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(path: &Path, bytes: &[u8]) {
        use std::io::Write;
        let options = std::fs::OpenOptions::new().append(true).open(path);
        options.unwrap().write_all(bytes).unwrap();
    }

    /// Kept open although this is a local file system, and read through the cache.
    fn open_cached(path: &Path) -> Tail {
        let mut tail = Tail::of(path);
        assert!(!tail.direct);
        let chunk = tail.read_from(path, 0, 100).unwrap();
        assert!(tail.open.is_none(), "a local file is not kept open");
        tail.open = Some(OpenTail {
            file: File::open(path, OpenMode::LOOK).unwrap(),
            path: path.to_path_buf(),
            ino: chunk.ino,
            uid: chunk.uid,
            opened_at: clock::boot_ms(),
        });
        tail
    }

    #[test]
    fn a_file_that_is_kept_open_shows_what_was_added_and_its_successor_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::publish(&path, b"0123").unwrap();
        let mut tail = open_cached(&path);
        add(&path, b"4567");
        let chunk = tail.read_from(&path, 4, 100).unwrap();
        assert_eq!((chunk.bytes.as_slice(), chunk.file_len), (&b"4567"[..], 8));
        assert!(tail.open.is_some());
        // Another file with that name, longer than what was read: the old descriptor has nothing
        // more.
        fs::publish(&path, b"another one").unwrap();
        let chunk = tail.read_from(&path, 8, 100).unwrap();
        assert_eq!((chunk.bytes.as_slice(), chunk.file_len), (&b"one"[..], 11));
        // There is nothing: the file is shorter than what was read of it, and the reader reports
        // that.
        let mut tail = open_cached(&path);
        assert_eq!(tail.read_from(&path, 50, 100).unwrap().file_len, 11);
        // The requested length may be less than there is: the length comes from the file.
        let mut tail = open_cached(&path);
        let chunk = tail.read_from(&path, 0, 4).unwrap();
        assert_eq!((chunk.bytes.as_slice(), chunk.file_len), (&b"anot"[..], 11));
    }

    #[test]
    fn a_descriptor_that_is_old_or_of_another_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a"), dir.path().join("b"));
        fs::publish(&path, b"old").unwrap();
        fs::publish(&other, b"other").unwrap();
        let mut tail = open_cached(&path);
        assert_eq!(tail.read_from(&other, 0, 100).unwrap().bytes, b"other");
        let mut tail = open_cached(&path);
        fs::publish(&path, b"new").unwrap();
        tail.open.as_mut().unwrap().opened_at = clock::boot_ms().saturating_sub(KEEP_MS);
        assert_eq!(tail.read_from(&path, 0, 100).unwrap().bytes, b"new");
    }

    #[test]
    fn much_that_was_added_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::publish(&path, b"").unwrap();
        let mut tail = open_cached(&path);
        let much = vec![7u8; STEP * 5 + 3];
        add(&path, &much);
        assert_eq!(tail.read_from(&path, 0, 1 << 20).unwrap().bytes, much);
        assert!(tail.open.is_some());
    }
}
