//! The acknowledgements of an epoch: the current file and the previous one.
//!
//! Like orders, they need no durability: a new epoch repeats every answer from the journal. The
//! file does not grow with the epoch. Never writes an answer before its events are durable; its
//! caller ensures that.

use super::outbox::FramedFile;
use crate::record::ack::Ack;
use crate::record::frame;
use crate::record::header::{FileKind, Header};
use crate::spool::Layout;
use crate::sys::append::Appender;
use crate::sys::statfs::FsKind;
use crate::sys::{self, fs};

/// Size at which the answers continue in a new file, in bytes. The previous file is kept for
/// commands that are waiting.
const PART_BYTES: u64 = 16 << 20;

/// An answer that is too long to be read, without the details that make it too long.
fn without_details(ack: &Ack) -> Ack {
    Ack {
        tok: ack.tok,
        ok: ack.ok,
        error: "the request was carried out, but the answer is too long: see cjobs".to_owned(),
        ids: Vec::new(),
        results: Vec::new(),
        more: ack.results.len() as u64 + ack.more,
        retry_s: 0,
    }
}

/// The acknowledgements of this epoch: the current file and the previous one. A command that waits
/// reads on from the length at which it began; if the current file is shorter, it has been
/// replaced.
pub(super) struct Acks {
    layout: Layout,
    cluster: String,
    epoch: u64,
    framed: FramedFile,
    /// Number of the current file.
    part: u64,
    part_bytes: u64,
}

impl Acks {
    /// `part_bytes`: size of a file; `None` = the default.
    ///
    /// # Errors
    /// The file exists already or cannot be created.
    pub(super) fn create(
        layout: &Layout,
        cluster: &str,
        epoch: u64,
        part_bytes: Option<u64>,
    ) -> sys::Result<Acks> {
        let header = Header::new(FileKind::Acks, cluster, epoch, 1);
        let sync = sys::statfs::fs_kind(layout.root())? != FsKind::Local;
        Ok(Acks {
            framed: FramedFile::create(&layout.acks(epoch), &header, sync)?,
            layout: layout.clone(),
            cluster: cluster.to_owned(),
            epoch,
            part: 1,
            part_bytes: part_bytes.unwrap_or(PART_BYTES),
        })
    }

    /// Continues in another file if the current one is large enough. If there is no room for one,
    /// it continues in the current file.
    ///
    /// # Errors
    /// On a failure for another reason, the leader must step down.
    pub(super) fn switch_file(&mut self) -> sys::Result<()> {
        if self.framed.file.valid_len() < self.part_bytes || !self.framed.buffer.is_empty() {
            return Ok(());
        }
        let current_file = self.layout.acks(self.epoch);
        let next_file = current_file.with_file_name(".acks.next");
        fs::remove(&next_file)?;
        let header = Header::new(FileKind::Acks, &self.cluster, self.epoch, self.part + 1);
        let mut next = match FramedFile::create(&next_file, &header, self.framed.sync) {
            Err(e) if e.is_no_space() => {
                tracing::warn!("{e}: the answers continue in the current file");
                return Ok(());
            }
            other => other?,
        };
        fs::rename(&current_file, &self.layout.acks_before(self.epoch))?;
        fs::rename(&next_file, &current_file)?;
        next.file = Appender::open_existing(&current_file)?;
        self.framed = next;
        self.part += 1;
        Ok(())
    }

    /// Adds answers to those that [`Acks::flush`] writes.
    pub(super) fn push(&mut self, acks: &[Ack]) {
        for ack in acks {
            let from = self.framed.buffer.len();
            self.framed.push(ack);
            if self.framed.buffer.len() - from > frame::LINE_MAX {
                self.framed.buffer.truncate(from);
                self.framed.push(&without_details(ack));
            }
        }
    }

    /// Writes the added answers with one write.
    ///
    /// # Errors
    /// A write that failed for lack of space may be repeated: the file continues on a new line
    /// after what the failed write left. Readers accept only whole lines, and an answer may be in
    /// the file twice. After any other failure the leader must step down.
    pub(super) fn flush(&mut self) -> sys::Result<()> {
        let framed = &mut self.framed;
        if framed.buffer.is_empty() {
            return Ok(());
        }
        if framed.file.is_poisoned() {
            framed.file = Appender::open_existing(framed.file.path())?;
            if framed.buffer.first() != Some(&b'\n') {
                framed.buffer.insert(0, b'\n');
            }
        }
        let wrote = framed.file.append(&framed.buffer).map(|_| ());
        match framed.sync {
            true => wrote.and_then(|()| framed.file.sync()),
            false => wrote,
        }?;
        framed.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Token;
    use crate::record::frame::Reader;

    fn ack(n: u128) -> Ack {
        Ack::empty(Token(n))
    }

    fn tokens(path: &std::path::Path, part: u64) -> Vec<u128> {
        let bytes = std::fs::read(path).unwrap();
        let mut reader = Reader::new(&bytes);
        let header = Header::read(&mut reader, FileKind::Acks, Some("c")).unwrap();
        assert_eq!(header.map(|h| (h.epoch, h.part)), Some((7, part)));
        let next = std::iter::from_fn(|| reader.next_line().unwrap());
        next.map(|line| line.decode::<Ack>().unwrap().tok.0)
            .collect()
    }

    #[test]
    fn a_thousand_answers_do_not_make_the_file_grow() {
        let d = tempfile::tempdir().unwrap();
        let layout = Layout::new(d.path());
        let mut acks = Acks::create(&layout, "c", 7, Some(2000)).unwrap();
        let mut last = 0;
        for n in 1..=1000 {
            acks.push(&[ack(n)]);
            acks.flush().unwrap();
            acks.switch_file().unwrap();
            let names = fs::names(&layout.epoch_dir(7), 10).unwrap();
            let sizes = names.iter().map(|name| {
                let stat = fs::stat(&layout.epoch_dir(7).join(name)).unwrap();
                stat.unwrap().len
            });
            last = sizes.sum::<u64>();
            assert!(names.len() <= 2 && last < 5000, "{names:?}: {last} bytes");
        }
        assert!(last > 0);
        // The previous file contains what the current one no longer does.
        let mut all = tokens(&layout.acks_before(7), acks.part - 1);
        all.extend(tokens(&layout.acks(7), acks.part));
        let first = all[0];
        assert_eq!(all, (first..=1000).collect::<Vec<u128>>());
        assert!(all.len() > 15);
    }
}
