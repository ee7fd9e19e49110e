//! Framed lines of a file of any size, read in chunks, with a way to continue after damage.
//!
//! Every chunk is read by open, read, close: fresh on NFS, and no descriptor is held. Does not
//! judge damage; it reports its place, and finds the next intact line on request.

use crate::record::frame::{Damage, Damaged, LINE_MAX, Line, parse_line};
use crate::record::header::FileKind;
use crate::sys;
use std::path::{Path, PathBuf};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Why there is no next line.
#[derive(Debug)]
pub enum LineError {
    Io(sys::Error),
    Damaged(Damaged),
}

impl From<sys::Error> for LineError {
    fn from(e: sys::Error) -> LineError {
        LineError::Io(e)
    }
}

/// An intact line and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntactLine<'a> {
    /// Offset of the line in the file, and of the data after it.
    pub offset: u64,
    pub end: u64,
    pub line: Line<'a>,
}

/// Bytes that [`Lines::skip`] skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    pub from: u64,
    pub to: u64,
    /// An intact line follows at `to`.
    pub intact_after: bool,
}

impl Skipped {
    /// Whether record `expected`, at which the damage began, is repeated intact after it, so that
    /// no record is missing: `next` is the one found there. Only answers are written in this way
    /// ([`FileKind::Acks`]).
    pub fn repeats(&self, what: FileKind, expected: u64, next: u64) -> bool {
        what == FileKind::Acks && self.intact_after && next == expected
    }
}

/// Reads framed lines of one file in order.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    /// File offset of `buf[0]`.
    base: u64,
    buf: Vec<u8>,
    offset: usize,
    next_seq: u64,
    /// Bytes at or after this offset are treated as nonexistent.
    limit: u64,
    chunk: usize,
    ended: bool,
}

impl Lines {
    /// A reader from the start of `path`; bytes from `limit` on are treated as nonexistent.
    pub fn new(path: &Path, limit: u64) -> Lines {
        Lines::resume(path, 0, 0, limit)
    }

    /// A reader from `offset` on, where record `next_seq` is expected.
    pub fn resume(path: &Path, offset: u64, next_seq: u64, limit: u64) -> Lines {
        Lines {
            path: path.to_path_buf(),
            base: offset,
            buf: Vec::new(),
            offset: 0,
            next_seq,
            limit,
            chunk: CHUNK,
            ended: false,
        }
    }

    /// The same reader with smaller reads, for reading only the first records.
    pub fn small_chunks(mut self) -> Lines {
        self.chunk = 16 << 10;
        self
    }

    /// File offset after the last line that was returned or skipped.
    pub fn offset(&self) -> u64 {
        self.base + self.offset as u64
    }

    /// The sequence number that is expected next.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads more bytes after those in the buffer. Returns false at the end.
    fn fill(&mut self) -> Result<bool, sys::Error> {
        if self.ended {
            return Ok(false);
        }
        if self.offset > 0 {
            self.buf.drain(..self.offset);
            self.base += self.offset as u64;
            self.offset = 0;
        }
        let from = self.base + self.buf.len() as u64;
        let room = usize::try_from(self.limit.saturating_sub(from)).unwrap_or(usize::MAX);
        let want = self.chunk.min(room);
        let bytes = if want == 0 {
            Vec::new()
        } else {
            sys::fs::read_from(&self.path, from, want)?.bytes
        };
        self.ended = bytes.len() < want || want == 0;
        if self.buf.is_empty() {
            self.buf = bytes;
            Ok(!self.buf.is_empty())
        } else {
            self.buf.extend_from_slice(&bytes);
            Ok(!bytes.is_empty())
        }
    }

    /// Index after the next line's newline, reading as much as needed; `None` = there is no
    /// newline.
    fn line_end(&mut self) -> Result<Option<usize>, sys::Error> {
        let mut from = self.offset;
        loop {
            if let Some(n) = memchr::memchr(b'\n', &self.buf[from..]) {
                return Ok(Some(from + n + 1));
            }
            let pending = self.buf.len() - self.offset;
            if pending > LINE_MAX || !self.fill()? {
                return Ok(None);
            }
            from = self.offset + pending;
        }
    }

    /// The next intact line; `None` at the end.
    ///
    /// # Errors
    /// Damage at the current offset (another call returns it again), or a failing read.
    pub fn next_line(&mut self) -> Result<Option<IntactLine<'_>>, LineError> {
        let end = self.line_end()?;
        let offset = self.offset();
        let damaged = |damage| LineError::Damaged(Damaged { offset, damage });
        let Some(end) = end else {
            return match self.buf.len() - self.offset {
                0 => Ok(None),
                n if n > LINE_MAX => Err(damaged(Damage::Frame("line longer than the limit"))),
                _ => Err(damaged(Damage::Torn)),
            };
        };
        let line = parse_line(&self.buf[self.offset..end - 1]).map_err(damaged)?;
        if line.seq != self.next_seq {
            let expected = self.next_seq;
            let found = line.seq;
            return Err(damaged(Damage::Sequence { expected, found }));
        }
        self.offset = end;
        self.next_seq += 1;
        Ok(Some(IntactLine {
            offset,
            end: self.base + end as u64,
            line,
        }))
    }

    /// Skips the damage at the current offset up to the next intact line, if there is one, and
    /// expects that line's sequence number next.
    ///
    /// # Errors
    /// A failing read.
    pub fn skip(&mut self) -> Result<Skipped, sys::Error> {
        let from = self.offset();
        let expected = self.next_seq;
        loop {
            match self.line_end()? {
                None if self.buf.len() - self.offset > LINE_MAX => self.offset = self.buf.len(),
                None => {
                    self.offset = self.buf.len();
                    let to = self.offset();
                    return Ok(Skipped {
                        from,
                        to,
                        intact_after: false,
                    });
                }
                Some(end) => {
                    let found = parse_line(&self.buf[self.offset..end - 1]).map(|l| l.seq);
                    if let Ok(seq) = found
                        && seq >= expected
                    {
                        self.next_seq = seq;
                        let to = self.offset();
                        return Ok(Skipped {
                            from,
                            to,
                            intact_after: true,
                        });
                    }
                    self.offset = end;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::frame;

    fn file(lines: &[(u64, &str)]) -> tempfile::NamedTempFile {
        let mut out = Vec::new();
        for (seq, text) in lines {
            frame::write(&mut out, *seq, text).unwrap();
        }
        let f = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(f.path(), out).unwrap();
        f
    }

    fn all(lines: &mut Lines) -> (usize, Option<Damage>) {
        let mut n = 0;
        loop {
            match lines.next_line() {
                Ok(Some(_)) => n += 1,
                Ok(None) => return (n, None),
                Err(LineError::Damaged(d)) => return (n, Some(d.damage)),
                Err(LineError::Io(e)) => panic!("{e}"),
            }
        }
    }

    #[test]
    fn lines_over_chunk_borders_are_whole() {
        let long = "x".repeat(700_000);
        let f = file(&[(0, &long), (1, &long), (2, "a"), (3, &long)]);
        assert_eq!(all(&mut Lines::new(f.path(), u64::MAX)), (4, None));
        let mut small = Lines::new(f.path(), u64::MAX).small_chunks();
        assert_eq!(all(&mut small), (4, None));
    }

    #[test]
    fn a_limit_inside_a_line_tears_it() {
        let f = file(&[(0, "a"), (1, "b")]);
        let len = std::fs::metadata(f.path()).unwrap().len();
        let cut = all(&mut Lines::new(f.path(), len - 1));
        assert_eq!(cut, (1, Some(Damage::Torn)));
        assert_eq!(all(&mut Lines::new(f.path(), len / 2)), (1, None));
    }

    #[test]
    fn skipping_finds_the_next_intact_line_and_its_number() {
        let f = file(&[(0, "a"), (1, "b"), (2, "c"), (3, "d")]);
        let mut bytes = std::fs::read(f.path()).unwrap();
        let each = bytes.len() / 4;
        bytes[each + 3] ^= 1;
        std::fs::write(f.path(), &bytes).unwrap();
        let mut lines = Lines::new(f.path(), u64::MAX);
        assert!(matches!(all(&mut lines), (1, Some(Damage::Frame(_)))));
        let skipped = lines.skip().unwrap();
        let due = Skipped {
            from: each as u64,
            to: 2 * each as u64,
            intact_after: true,
        };
        assert_eq!(skipped, due);
        assert_eq!(all(&mut lines), (2, None));
        assert!(!lines.skip().unwrap().intact_after);
    }
}
