//! The leader's own end of the journal: append, commit, rotate, and never touch a file that failed.

use super::{Error, Position};
use crate::record::event::Event;
use crate::record::frame;
use crate::record::header::{Header, What};
use crate::spool::Layout;
use crate::sys::append::Appender;
use crate::sys::{self, At, failpoint};
use std::io;

/// Size at which a segment is ended, in bytes.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// Writes the segments of one epoch. Dropped without [`Writer::commit`], buffered events are gone.
#[derive(Debug)]
pub struct Writer {
    layout: Layout,
    cluster: String,
    app: Appender,
    /// Behind the last committed record.
    at: Position,
    /// Framed records that are not committed yet, and the number the next one gets.
    buf: Vec<u8>,
    next_seq: u64,
    segment_bytes: u64,
    /// Segments that were ended because a write or sync failed.
    pub failures: u64,
}

impl Writer {
    /// Makes the epoch's directory and its first segment, locked for this process.
    ///
    /// # Errors
    /// The directory or file cannot be made; the segment exists: another leader of the same epoch.
    pub fn create(layout: &Layout, cluster: &str, epoch: u64) -> Result<Writer, Error> {
        sys::fs::mkdir_p(&layout.epoch_dir(epoch), 0o755)?;
        sys::fs::fsync_dir(&layout.epochs())?;
        let mut front = Vec::new();
        put(
            &mut front,
            0,
            &Header::new(What::Journal, cluster, epoch, 1),
        )?;
        let app = open_segment(layout, epoch, 1, &front)?;
        let at = Position {
            epoch,
            segment: 1,
            bytes: app.valid_len(),
            seq: 1,
        };
        Ok(Writer {
            layout: layout.clone(),
            cluster: cluster.to_owned(),
            app,
            at,
            buf: Vec::with_capacity(64 << 10),
            next_seq: 1,
            segment_bytes: SEGMENT_BYTES,
            failures: 0,
        })
    }

    /// Sets the size at which segments end.
    pub fn with_segment_bytes(mut self, bytes: u64) -> Writer {
        self.segment_bytes = bytes.max(4096);
        self
    }

    /// Adds an event to the group that the next [`Writer::commit`] makes durable.
    ///
    /// # Errors
    /// Only when the event cannot be represented.
    pub fn append(&mut self, event: &Event) -> Result<(), Error> {
        put(&mut self.buf, self.next_seq, event)?;
        self.next_seq += 1;
        Ok(())
    }

    /// Adds an event whose JSON text is ready (one line).
    pub fn append_json(&mut self, json: &[u8]) {
        frame::write_json(&mut self.buf, self.next_seq, json);
        self.next_seq += 1;
    }

    /// Events waiting for the commit.
    pub fn pending(&self) -> u64 {
        self.next_seq - self.at.seq
    }

    /// Bytes waiting for the commit.
    pub fn pending_bytes(&self) -> usize {
        self.buf.len()
    }

    /// Behind the last committed record.
    pub fn position(&self) -> Position {
        self.at
    }

    /// Makes all appended events durable: one write, one fdatasync. After a failure the same events
    /// go to a new segment that says where the failed one ends.
    ///
    /// # Errors
    /// The new segment failed too: nothing is known to be durable, the leader must end.
    pub fn commit(&mut self) -> Result<Position, Error> {
        if self.buf.is_empty() {
            return Ok(self.at);
        }
        match self.write() {
            Ok(()) => {
                failpoint::hit("journal.after_sync");
                self.at.bytes = self.app.valid_len();
                self.at.seq = self.next_seq;
                self.buf.clear();
            }
            Err(e) => {
                tracing::error!("{e}: ending this segment at {} bytes", self.at.bytes);
                self.failures += 1;
                self.next_segment()?;
            }
        }
        if self.at.bytes >= self.segment_bytes {
            self.next_segment()?;
        }
        // One huge group must not keep its memory for good.
        if self.buf.capacity() > 4 << 20 {
            self.buf = Vec::with_capacity(64 << 10);
        }
        Ok(self.at)
    }

    /// The group's one write and its sync.
    fn write(&mut self) -> sys::Result<()> {
        failpoint::pass("journal.before_write").at("append to", self.app.path())?;
        self.app.append(&self.buf)?;
        failpoint::pass("journal.after_write").at("sync", self.app.path())?;
        self.app.sync()
    }

    /// Opens the next segment: header, the seal of this one, and what is not committed yet, in one
    /// write and one sync.
    fn next_segment(&mut self) -> Result<(), Error> {
        let old = self.at;
        let segment = old.segment + 1;
        let mut front = Vec::with_capacity(self.buf.len() + 512);
        let header = Header::new(What::Journal, &self.cluster, old.epoch, segment);
        put(&mut front, 0, &header)?;
        let seal = Event::Seal {
            epoch: old.epoch,
            segment: old.segment,
            bytes: old.bytes,
            next_seq: old.seq,
        };
        put(&mut front, 1, &seal)?;
        let mut seq = 2;
        for line in self.buf.split_inclusive(|b| *b == b'\n') {
            let line = frame::parse_line(&line[..line.len() - 1]).expect("written by append");
            frame::write_json(&mut front, seq, line.json);
            seq += 1;
        }
        self.app = open_segment(&self.layout, old.epoch, segment, &front)?;
        self.at = Position {
            epoch: old.epoch,
            segment,
            bytes: self.app.valid_len(),
            seq,
        };
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

/// Makes a segment with its first records, durable and locked on its own descriptor.
fn open_segment(
    layout: &Layout,
    epoch: u64,
    segment: u64,
    front: &[u8],
) -> Result<Appender, Error> {
    let path = layout.journal(epoch, segment);
    failpoint::pass("journal.next_segment").at("create", &path)?;
    let mut app = Appender::create_new(&path)?;
    if !sys::lock::fence(app.file(), &path)? {
        return Err(Error::Locked(path));
    }
    app.append(front)?;
    app.sync()?;
    sys::fs::fsync_dir(&layout.epoch_dir(epoch))?;
    Ok(app)
}
