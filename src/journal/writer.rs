//! The leader's writer of the journal: append, commit, rotate, and never touch a file that failed.

use super::{Error, Position};
use crate::record::event::Event;
use crate::record::frame;
use crate::record::header::{FileKind, Header};
use crate::spool::Layout;
use crate::sys::append::Appender;
use crate::sys::{self, ErrorContext, failpoint};
use std::io;

/// Size at which a segment ends, in bytes.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// Writes the segments of one epoch. If it is dropped without [`Writer::commit`], buffered events
/// are lost.
#[derive(Debug)]
pub struct Writer {
    layout: Layout,
    cluster: String,
    /// `None` until the first segment is open.
    appender: Option<Appender>,
    /// The position after the last committed record.
    position: Position,
    /// The highest segment whose file was created; those after `position` contain nothing that
    /// counts.
    last_created: u64,
    /// Framed records that are not committed yet, and the number of the next one.
    buf: Vec<u8>,
    next_seq: u64,
    segment_bytes: u64,
    /// Number of segments that ended because a write or sync failed.
    pub failures: u64,
}

impl Writer {
    /// Creates the epoch's directory and its first segment, locked for this process.
    ///
    /// # Errors
    /// The directory or file cannot be created, or the segment exists: there is another leader of
    /// the same epoch.
    pub fn create(layout: &Layout, cluster: &str, epoch: u64) -> Result<Writer, Error> {
        let mut writer = Writer::new(layout, cluster, epoch);
        writer.open()?;
        Ok(writer)
    }

    /// A writer without a file: [`Writer::open`] must be called before anything else.
    pub fn new(layout: &Layout, cluster: &str, epoch: u64) -> Writer {
        Writer {
            layout: layout.clone(),
            cluster: cluster.to_owned(),
            appender: None,
            position: Position {
                epoch,
                segment: 0,
                bytes: 0,
                seq: 1,
            },
            last_created: 0,
            buf: Vec::with_capacity(64 << 10),
            next_seq: 1,
            segment_bytes: SEGMENT_BYTES,
            failures: 0,
        }
    }

    /// Creates the epoch's directory and its first segment. After a failure for lack of room, the
    /// call may be repeated.
    ///
    /// # Errors
    /// As [`Writer::create`].
    pub fn open(&mut self) -> Result<(), Error> {
        sys::fs::mkdir_p(&self.layout.epoch_dir(self.position.epoch), 0o755)?;
        sys::fs::fsync_dir(&self.layout.epochs())?;
        self.next_segment()
    }

    /// Sets the size at which segments end.
    pub fn with_segment_bytes(mut self, bytes: u64) -> Writer {
        self.segment_bytes = bytes.max(4096);
        self
    }

    /// Adds an event to the group that the next [`Writer::commit`] makes durable.
    ///
    /// # Errors
    /// The event cannot be represented, or its line would be longer than readers accept: no reader
    /// could read what follows it.
    pub fn append(&mut self, event: &Event) -> Result<(), Error> {
        let from = self.buf.len();
        put(&mut self.buf, self.next_seq, event)?;
        let bytes = self.buf.len() - from;
        if bytes > frame::WRITE_MAX {
            self.buf.truncate(from);
            let path = self
                .layout
                .journal(self.position.epoch, self.position.segment);
            let what = format!(
                "an event of {bytes} bytes, at most {} can be",
                frame::WRITE_MAX
            );
            return Err(Error::Io(sys::Error::invalid("append to", &path, what)));
        }
        self.next_seq += 1;
        Ok(())
    }

    /// Number of events that wait for the commit.
    pub fn pending(&self) -> u64 {
        self.next_seq - self.position.seq
    }

    /// Number of bytes that wait for the commit.
    pub fn pending_bytes(&self) -> usize {
        self.buf.len()
    }

    /// The position after the last committed record.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Makes all appended events durable: one write, one fdatasync. After a failure the same events
    /// are written to a new segment that states where the failed one ends.
    ///
    /// # Errors
    /// The new segment failed too: nothing of the group is known to be durable. After a failure for
    /// lack of room, the same commit may be repeated; after any other, the leader must end.
    pub fn commit(&mut self) -> Result<Position, Error> {
        if self.buf.is_empty() {
            return Ok(self.position);
        }
        match self.write() {
            Ok(bytes) => {
                failpoint::hit("journal.after_sync");
                self.position.bytes = bytes;
                self.position.seq = self.next_seq;
                self.buf.clear();
            }
            Err(e) => {
                tracing::error!("{e}: this segment ends at {} bytes", self.position.bytes);
                self.failures += 1;
                self.next_segment()?;
            }
        }
        if self.position.bytes >= self.segment_bytes {
            self.next_segment()?;
        }
        // One huge group must not occupy its memory permanently.
        if self.buf.capacity() > 4 << 20 {
            self.buf = Vec::with_capacity(64 << 10);
        }
        Ok(self.position)
    }

    /// The single write of the group and its sync. Returns the length of the file.
    fn write(&mut self) -> sys::Result<u64> {
        let path = self
            .layout
            .journal(self.position.epoch, self.position.segment);
        let Some(appender) = self.appender.as_mut() else {
            return Err(sys::Error::invalid("append to", &path, "it is not open"));
        };
        failpoint::pass("journal.before_write").at("append to", &path)?;
        appender.append(&self.buf)?;
        failpoint::pass("journal.after_write").at("sync", &path)?;
        appender.sync()?;
        Ok(appender.valid_len())
    }

    /// Opens the next segment: header, the seals of this one and of those that failed since, and
    /// what is not committed yet, in one write and one sync.
    fn next_segment(&mut self) -> Result<(), Error> {
        let old = self.position;
        let segment = self.last_created.max(old.segment) + 1;
        let mut front = Vec::with_capacity(self.buf.len() + 512);
        let header = Header::new(FileKind::Journal, &self.cluster, old.epoch, segment);
        put(&mut front, 0, &header)?;
        let mut seq = 1;
        for sealed in (old.segment.max(1)..segment).rev() {
            let this = sealed == old.segment;
            let seal = Event::Seal {
                epoch: old.epoch,
                segment: sealed,
                bytes: if this { old.bytes } else { 0 },
                next_seq: if this { old.seq } else { 0 },
            };
            put(&mut front, seq, &seal)?;
            seq += 1;
        }
        for line in self.buf.split_inclusive(|b| *b == b'\n') {
            let line = frame::parse_line(&line[..line.len() - 1]).expect("written by append");
            frame::write_json(&mut front, seq, line.json);
            seq += 1;
        }
        let appender = match open_segment(&self.layout, old.epoch, segment, &front) {
            Ok(appender) => appender,
            Err(e) => {
                // Regardless of its content, the next attempt uses another file and states that.
                // The file may contain the seal of this segment, which must stay true: nothing more
                // is written here.
                if sys::fs::exists(&self.layout.journal(old.epoch, segment)) {
                    self.last_created = segment;
                    self.appender = None;
                }
                return Err(e);
            }
        };
        self.last_created = segment;
        self.position = Position {
            epoch: old.epoch,
            segment,
            bytes: appender.valid_len(),
            seq,
        };
        self.appender = Some(appender);
        self.next_seq = seq;
        self.buf.clear();
        Ok(())
    }
}

fn put<T: serde::Serialize>(out: &mut Vec<u8>, seq: u64, value: &T) -> Result<(), Error> {
    frame::write(out, seq, value).map_err(|e| {
        let e = io::Error::new(io::ErrorKind::InvalidInput, e);
        Error::Io(sys::Error::new(
            "encode an event for",
            "journal".as_ref(),
            e,
        ))
    })
}

/// Creates a segment with its first records, durable and locked by its own descriptor.
fn open_segment(
    layout: &Layout,
    epoch: u64,
    segment: u64,
    front: &[u8],
) -> Result<Appender, Error> {
    let path = layout.journal(epoch, segment);
    failpoint::pass("journal.next_segment").at("create", &path)?;
    let mut appender = Appender::create_new(&path)?;
    if !sys::lock::fence(appender.file(), &path)? {
        return Err(Error::Locked(path));
    }
    appender.append(front)?;
    appender.sync()?;
    sys::fs::fsync_dir(&layout.epoch_dir(epoch))?;
    Ok(appender)
}
