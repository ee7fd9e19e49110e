//! From the files to a state: newest usable snapshot, then every event after it, in order.
//!
//! Reads only, except that with `accept_loss` damaged bytes are copied to `lost+found`. Decides
//! nothing about events; the caller's [`Restore`] applies them.

use super::chain::{Chain, Flow, WalkItem};
use super::decode::decode_event;
use super::{Error, Position, snapshot};
use crate::record::event::Event;
use crate::record::frame::{Damage, Damaged};
use crate::spool::Layout;
use crate::sys;
use std::path::Path;

/// Receives what [`recover`] reads.
pub trait Restore {
    /// Discards everything: what was passed on so far came from a damaged snapshot.
    fn reset(&mut self);

    /// One record of a snapshot.
    ///
    /// # Errors
    /// The record is not understood.
    fn record(&mut self, json: &[u8]) -> Result<(), String>;

    /// One event; `position` is the position after it. Epoch and Seal events are passed on, too.
    ///
    /// # Errors
    /// The event contradicts the state.
    fn event(&mut self, position: Position, event: Event) -> Result<(), String>;
}

/// How [`recover`] handles what it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Set damaged bytes aside in `lost+found` and continue, instead of refusing to lead.
    pub accept_loss: bool,
    /// Epoch whose leader is known to have led (according to the beat file): its journal must
    /// exist.
    pub led_epoch: Option<u64>,
    /// Epochs are not sealed: simulations show that this protocol fails.
    pub unsealed: bool,
}

/// The outcome of [`recover`].
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Number and position of the snapshot that was read.
    pub snapshot: Option<(u64, Position)>,
    /// Seals that the new leader must write as its first events, after `Event::Epoch`.
    pub seals: Vec<Event>,
    /// Number of events passed to [`Restore::event`].
    pub events: u64,
    /// Notes for administrators: dropped tails, damage set aside.
    pub notes: Vec<String>,
    /// Snapshots that were not used, each with the reason.
    pub skipped_snapshots: Vec<String>,
    /// Bytes or files were lost, and `accept_loss` allowed it.
    pub loss: bool,
}

impl Recovered {
    fn skip(&mut self, snapshot: &Path, why: &str) {
        let note = format!("{}: {why}", snapshot.display());
        self.skipped_snapshots.push(note);
    }
}

/// Restores the state as the leader of `epoch` must see it: everything of older epochs. Call it
/// after the claim and after waiting out the cache; write the seals before anything else.
///
/// # Errors
/// Damage, missing files, contradictions (unless accepted), failing reads. The error names file and
/// offset.
pub fn recover(
    layout: &Layout,
    cluster: &str,
    epoch: u64,
    options: Options,
    to: &mut dyn Restore,
) -> Result<Recovered, Error> {
    let mut recovered = Recovered::default();
    let (chain, from) = from_snapshot(layout, cluster, epoch, to, &mut recovered)?;
    if !options.accept_loss {
        refuse_broken_chain(layout, &chain, options.unsealed)?;
    }
    let mut recovery = Recovery {
        layout,
        options,
        to,
        recovered,
    };
    for e in chain.first..epoch {
        let from = from.filter(|p| p.epoch == e);
        recovery.replay_epoch(&chain, e, from)?;
    }
    Ok(recovery.recovered)
}

/// Reads the newest snapshot that is intact and permitted by the seals.
fn from_snapshot(
    layout: &Layout,
    cluster: &str,
    epoch: u64,
    to: &mut dyn Restore,
    out: &mut Recovered,
) -> Result<(Chain, Option<Position>), Error> {
    for found in snapshot::list(layout, cluster, &mut out.skipped_snapshots)? {
        let covers = found.covers;
        if covers.epoch >= epoch {
            let why = "it covers an epoch that is not older than this leader's";
            out.skip(&found.path, why);
            continue;
        }
        let chain = Chain::read(layout, cluster, covers.epoch, epoch)?;
        if !chain.covers(covers) {
            let why = "it covers bytes after a seal: not used";
            out.skip(&found.path, why);
            continue;
        }
        to.reset();
        match snapshot::read(&found, &mut |json| to.record(json)) {
            Ok(()) => {
                out.snapshot = Some((found.number, covers));
                return Ok((chain, Some(covers)));
            }
            Err(Error::Io(e)) => return Err(Error::Io(e)),
            Err(e) => out
                .skipped_snapshots
                .push(format!("snapshot not used: {e}")),
        }
    }
    to.reset();
    Ok((Chain::read(layout, cluster, 1, epoch)?, None))
}

/// Makes durable what the seals will cover: an older leader may have been killed between its write
/// and its sync, and what a seal covers must never be lost. Must be called before the seals are
/// written.
///
/// # Errors
/// A segment cannot be synced.
pub fn make_durable(layout: &Layout, seals: &[Event]) -> Result<(), Error> {
    let remote = sys::statfs::fs_kind(layout.root())? != sys::statfs::FsKind::Local;
    for seal in seals {
        if let Event::Seal {
            epoch,
            segment,
            bytes,
            ..
        } = seal
            && *bytes > 0
        {
            sys::fs::make_durable(&layout.journal(*epoch, *segment), *bytes, remote)?;
            sys::fs::fsync_dir(&layout.epoch_dir(*epoch))?;
        }
    }
    Ok(())
}

fn refuse_broken_chain(layout: &Layout, chain: &Chain, unsealed: bool) -> Result<(), Error> {
    if let Some((path, damaged)) = chain.head_damage.first() {
        return Err(Error::Damaged {
            path: path.clone(),
            damaged: damaged.clone(),
        });
    }
    match chain.unsealed_middle.first() {
        None => Ok(()),
        Some(_) if unsealed => Ok(()),
        Some(epoch) => Err(Error::Conflict {
            path: layout.epoch_dir(*epoch),
            why: "no later epoch says where it ends, although a later one has events".into(),
        }),
    }
}

struct Recovery<'a> {
    layout: &'a Layout,
    options: Options,
    to: &'a mut dyn Restore,
    recovered: Recovered,
}

impl Recovery<'_> {
    fn replay_epoch(
        &mut self,
        chain: &Chain,
        epoch: u64,
        from: Option<Position>,
    ) -> Result<(), Error> {
        let reached = chain.walk(epoch, from, false, &mut |item| {
            self.item(epoch, item)?;
            Ok(Flow::Continue)
        })?;
        if self.options.led_epoch == Some(epoch)
            && reached.at.seq <= 1
            && chain.end(epoch).is_none()
        {
            let path = self.layout.journal(epoch, 1);
            let why = "its leader has led, but there is no event of it";
            self.missing(&path, why)?;
        }
        if chain.end(epoch).is_none() {
            self.recovered.seals.push(Event::Seal {
                epoch,
                segment: reached.at.segment,
                bytes: reached.at.bytes,
                next_seq: reached.at.seq,
            });
        }
        Ok(())
    }

    fn item(&mut self, epoch: u64, item: WalkItem<'_>) -> Result<(), Error> {
        match item {
            WalkItem::Record {
                at: position,
                offset,
                line,
            } => {
                let path = self.layout.journal(epoch, position.segment);
                let event = match decode_event(&line) {
                    Ok(event) => event,
                    Err(damage) => {
                        let damaged = Damaged { offset, damage };
                        return self.damaged(&path, &damaged, Some((offset, position.bytes)));
                    }
                };
                self.recovered.events += 1;
                match self.to.event(position, event) {
                    Ok(()) => Ok(()),
                    Err(why) if self.options.accept_loss => {
                        let damage = Damage::Content(why);
                        let damaged = Damaged { offset, damage };
                        self.damaged(&path, &damaged, Some((offset, position.bytes)))
                    }
                    Err(why) => Err(Error::Refused { path, offset, why }),
                }
            }
            WalkItem::Damage {
                path,
                damaged,
                skipped,
            } => self.damaged(path, damaged, skipped.map(|s| (s.from, s.to))),
            WalkItem::Missing { path, why } => self.missing(path, why),
            WalkItem::Torn { path, from, bytes } => {
                self.recovered.notes.push(format!(
                    "{}:{from}: dropped {bytes} bytes of a record that was never completed",
                    path.display()
                ));
                Ok(())
            }
        }
    }

    fn missing(&mut self, path: &Path, why: &str) -> Result<(), Error> {
        if !self.options.accept_loss {
            let (path, why) = (path.to_path_buf(), why.to_owned());
            return Err(Error::Missing { path, why });
        }
        self.recovered.loss = true;
        let path = path.display();
        self.recovered
            .notes
            .push(format!("{path} is missing: {why}"));
        Ok(())
    }

    fn damaged(
        &mut self,
        path: &Path,
        damaged: &Damaged,
        bytes: Option<(u64, u64)>,
    ) -> Result<(), Error> {
        if !self.options.accept_loss {
            return Err(Error::Damaged {
                path: path.to_path_buf(),
                damaged: damaged.clone(),
            });
        }
        self.recovered.loss = true;
        let mut note = format!("{} is damaged {damaged}", path.display());
        if let Some((from, to)) = bytes.filter(|(from, to)| to > from) {
            let copy = set_aside(self.layout, path, from, to, &note)?;
            note = format!("{note}; bytes {from} to {to} were copied to {copy}");
        }
        self.recovered.notes.push(note);
        Ok(())
    }
}

/// Copies a range of a file to `lost+found`, with a line that states why. Returns the path of the
/// copy.
fn set_aside(layout: &Layout, path: &Path, from: u64, to: u64, why: &str) -> Result<String, Error> {
    const MOST: u64 = 256 << 20;
    let part = |p: Option<&std::ffi::OsStr>| p.unwrap_or_default().to_string_lossy().into_owned();
    let parent = part(path.parent().and_then(Path::file_name));
    let name = format!("{parent}.{}.{from}", part(path.file_name()));
    let copy = layout.lost_found().join(&name);
    let want = usize::try_from((to - from).min(MOST)).unwrap_or(usize::MAX);
    let bytes = sys::fs::read_from(path, from, want)?.bytes;
    sys::fs::durable_write(&copy, &bytes)?;
    let reason = layout.lost_found().join(format!("{name}.why"));
    sys::fs::durable_write(&reason, format!("{why}\n").as_bytes())?;
    Ok(copy.display().to_string())
}
