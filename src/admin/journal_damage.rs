//! Damage in the journal, found by reading every kept record: for `cadmin fsck` and `cadmin check`.

use crate::journal::{Chain, Error, Flow, WalkItem, WalkPosition, decode_event};
use crate::record::event::Event;
use crate::spool::Layout;
use crate::sys;
use std::path::{Path, PathBuf};

/// What the reader encounters.
pub(super) enum ReadFinding {
    Event(Box<Event>),
    /// A damaged record; `record` is false for a file or a range of bytes without any whole record.
    Damage {
        record: bool,
        place: DamagePlace,
    },
    /// A partial record at the end: path, offset, bytes. It is being written, or its writer
    /// crashed.
    Partial(PathBuf, u64, u64),
}

/// File, offset, and what is wrong there.
pub(super) type DamagePlace = (PathBuf, u64, String);

/// Epochs that no later epoch has sealed, except for the newest.
pub(super) fn unsealed(chain: &Chain, layout: &Layout) -> Vec<DamagePlace> {
    let what = "no later epoch records where it ends";
    let epochs = chain.unsealed_middle.iter();
    let place = |epoch: &u64| (layout.epoch_dir(*epoch), 0, what.to_owned());
    epochs.map(place).collect()
}

/// Reads every kept record of an epoch.
///
/// # Errors
/// The epoch cannot be read to its end.
pub(super) fn read_epoch(
    chain: &Chain,
    epoch: u64,
    met: &mut dyn FnMut(ReadFinding),
) -> Result<WalkPosition, Error> {
    let from = chain.lowest(epoch)?;
    chain.walk(epoch, from, false, &mut |item| {
        if let Some(found) = judge(chain, epoch, &item) {
            met(found);
        }
        Ok(Flow::Continue)
    })
}

fn judge(chain: &Chain, epoch: u64, item: &WalkItem<'_>) -> Option<ReadFinding> {
    let damage = |record: bool, path: &Path, offset: u64, what: String| {
        let place = (path.to_path_buf(), offset, what);
        Some(ReadFinding::Damage { record, place })
    };
    match item {
        WalkItem::Record {
            at: position,
            offset,
            line,
        } => match decode_event(line) {
            Ok(event) => Some(ReadFinding::Event(Box::new(event))),
            Err(e) => {
                let path = chain.segment_path(epoch, position.segment);
                damage(true, &path, *offset, e.to_string())
            }
        },
        WalkItem::Damage {
            path,
            damaged,
            skipped: Some(_),
        } => damage(false, path, damaged.offset, damaged.damage.to_string()),
        WalkItem::Damage { .. } => None,
        WalkItem::Missing { path, why } => damage(false, path, 0, format!("missing: {why}")),
        WalkItem::Torn { path, from, bytes } => match whole_line(path, *from, *bytes) {
            Some(what) => damage(false, path, *from, what),
            None => Some(ReadFinding::Partial(path.to_path_buf(), *from, *bytes)),
        },
    }
}

/// What is wrong with the end of a file that may still grow, if it is damaged. A complete but wrong
/// line is damage; a partial line is being written, or its writer crashed.
pub(super) fn whole_line(path: &Path, from: u64, bytes: u64) -> Option<String> {
    let last = sys::fs::read_from(path, (from + bytes).saturating_sub(1), 1);
    let whole = last.is_ok_and(|c| c.bytes == b"\n");
    whole.then(|| format!("the last {bytes} bytes are not an intact record"))
}
