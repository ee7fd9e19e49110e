//! Reads the answers of a leader from the position at which a request was sent.
//!
//! A new leader repeats every answer, so each epoch is read separately. Never writes.

use crate::model::Token;
use crate::record::ack::Ack;
use crate::record::frame;
use crate::spool::Layout;
use crate::sys;
use crate::sys::tail::Tail;
use std::path::Path;

/// Maximum number of bytes of answers read at once.
const CHUNK: usize = frame::LINE_MAX + (1 << 20);

/// The answers of one epoch, and how far they have been read.
pub(super) struct Answers {
    layout: Layout,
    epoch: u64,
    /// Offset in the current file up to which everything has been read.
    offset: u64,
    /// The inode of the file that was read; 0: none yet.
    ino: u64,
    tail: Tail,
}

/// The current file is not the one that has been read so far.
struct Replaced;

impl Answers {
    /// The answers of `epoch` from now on.
    pub(super) fn from_now_on(layout: &Layout, epoch: u64) -> Answers {
        let mut answers = Answers {
            layout: layout.clone(),
            epoch,
            offset: 0,
            ino: 0,
            tail: Tail::of(layout.root()),
        };
        if let Ok(chunk) = answers.tail.read_from(&layout.acks(epoch), 0, 0) {
            (answers.offset, answers.ino) = (chunk.file_len, chunk.ino);
        }
        answers
    }

    /// Continues with all answers of another epoch.
    pub(super) fn follow_epoch(&mut self, epoch: u64) {
        (self.epoch, self.offset) = (epoch, 0);
    }

    /// The answer to `token` in the part added since the last look. `added`: it is known that
    /// something was added; otherwise this is checked first, since most looks find nothing.
    pub(super) fn find(&mut self, token: Token, added: bool) -> Option<Ack> {
        let acks = self.layout.acks(self.epoch);
        let read = (self.ino, self.offset);
        let same = || sys::fs::mark(&acks).is_ok_and(|mark| (mark.ino, mark.len) == read);
        if !added && same() {
            return None;
        }
        // If the file is shorter than the part already read, the leader has started a new file. The
        // file before it is read as well; if that has been replaced too, the request is repeated.
        match self.find_in(&acks, token) {
            Err(Replaced) => {
                let before = self.layout.acks_before(self.epoch);
                if let Ok(Some(ack)) = self.find_in(&before, token) {
                    return Some(ack);
                }
                self.offset = 0;
                self.find_in(&acks, token).ok().flatten()
            }
            Ok(found) => found,
        }
    }

    fn find_in(&mut self, acks: &Path, token: Token) -> Result<Option<Ack>, Replaced> {
        loop {
            let chunk = match self.tail.read_from(acks, self.offset, CHUNK) {
                Ok(chunk) if chunk.file_len < self.offset => return Err(Replaced),
                Ok(chunk) => chunk,
                Err(e) => {
                    if e.is_not_found() {
                        // Looked up before its leader created it: this host could cache its absence
                        // for up to a minute.
                        sys::fs::revalidate(&self.layout.epochs());
                        sys::fs::revalidate(&self.layout.epoch_dir(self.epoch));
                    }
                    return Ok(None);
                }
            };
            self.ino = chunk.ino;
            let whole = match chunk.bytes.iter().rposition(|b| *b == b'\n') {
                Some(end) => end + 1,
                None if chunk.bytes.len() < CHUNK => return Ok(None),
                // A line longer than any answer is not an answer to this command.
                None => chunk.bytes.len(),
            };
            if let Some(ack) = find_ack(&chunk.bytes[..whole], token) {
                return Ok(Some(ack));
            }
            self.offset += whole as u64;
            if chunk.bytes.len() < CHUNK {
                return Ok(None);
            }
        }
    }
}

/// The answer to `token` among whole lines. Damaged lines are skipped: the first one may be the
/// rest of a record, and damage elsewhere does not concern this command.
pub(super) fn find_ack(bytes: &[u8], token: Token) -> Option<Ack> {
    let text = token.to_string();
    let text = text.as_bytes();
    for line in bytes.split(|b| *b == b'\n') {
        // The token is in the first bytes of its record, so most lines are skipped cheaply.
        let front = &line[..line.len().min(80)];
        if !front.windows(text.len()).any(|w| w == text) {
            continue;
        }
        if let Ok(ack) = frame::parse_line(line).and_then(|l| l.decode::<Ack>())
            && ack.tok == token
        {
            return Some(ack);
        }
    }
    None
}
