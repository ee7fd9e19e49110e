//! The check of a host's local directory.

use super::ShareCheck;
use crate::host::local::{LocalFile, local_file};
use crate::record::device_use::DeviceUse;
use crate::record::frame::{Damage, Damaged};
use crate::record::header::FileKind;
use crate::record::host_units::HostUnitsDoc;
use crate::record::leader::{EpochDoc, FIXED_LEN, decode_fixed};
use crate::record::sealed;
use crate::sys;
use crate::task::log::{AttemptRec, TaskRec, decode_tasks};
use serde::de::IgnoredAny;
use std::path::Path;

/// Maximum size of a tasks log that is read.
const TASKS_MAX: usize = 1 << 30;
/// Maximum size of a file of words.
const WORDS_MAX: u64 = 64 << 10;
/// Directories that are not entered: their files belong to jobs.
const SCRATCH: &str = "scratch";

impl ShareCheck<'_> {
    /// Checks the local directory of a host.
    pub(super) fn local(&mut self, dir: &Path) {
        self.local_dir(dir, "");
    }

    fn local_dir(&mut self, dir: &Path, below: &str) {
        for name in self.names(dir) {
            let path = dir.join(&name);
            let below = format!("{below}{name}");
            let is_dir = |s: sys::fs::Stat| s.kind == sys::fs::Kind::Dir;
            if below == SCRATCH {
                continue;
            }
            if sys::fs::stat(&path).ok().flatten().is_some_and(is_dir) {
                self.local_dir(&path, &format!("{below}/"));
                continue;
            }
            match local_file(&below) {
                Some(kind) => self.local_file(kind, &path),
                None => self.note(format!(
                    "{}: not a file of Corral, not checked",
                    path.display()
                )),
            }
        }
    }

    fn local_file(&mut self, kind: LocalFile, path: &Path) {
        match kind {
            LocalFile::Ledger => self.log(path, FileKind::Local, None, |json| {
                serde_json::from_slice::<AttemptRec>(json).map(drop)
            }),
            LocalFile::Tasks => self.tasks(path),
            LocalFile::IsoLimit | LocalFile::ExeId => {
                self.whole_document(path, WORDS_MAX, &|bytes| {
                    let content = sealed::open_words(bytes)?;
                    number(content.bytes).map(|()| content.checked)
                });
            }
            LocalFile::Position => {
                let first = |bytes: &[u8]| number(bytes).map_err(|d| d.damage.to_string());
                self.document(path, first);
            }
            LocalFile::Units => self.sealed_json::<HostUnitsDoc>(path),
            LocalFile::DeviceUse => self.sealed_json::<SavedUse>(path),
            LocalFile::Command => self.sealed_json::<TaskRec>(path),
            LocalFile::Pin => {
                let own = self.cluster.clone();
                let same = |bytes: &[u8]| match bytes.trim_ascii() == own.as_bytes() {
                    true => Ok(()),
                    false => Err(format!("does not name this cluster, {own}")),
                };
                self.document(path, same);
            }
            LocalFile::LeaderCopy => {
                let copy = |bytes: &[u8]| {
                    let doc = bytes.get(..FIXED_LEN).unwrap_or(bytes);
                    decode_fixed::<EpochDoc>(doc).map(drop)
                };
                self.document(path, copy);
            }
            // Without content, or with content that only the job reads.
            LocalFile::Lock | LocalFile::Bell | LocalFile::Scratch | LocalFile::Aside => {}
        }
    }

    /// Checks a tasks log: many shepherds append to it, so its lines are not numbered.
    fn tasks(&mut self, path: &Path) {
        self.report.files += 1;
        let bytes = match sys::fs::read_from(path, 0, TASKS_MAX) {
            Ok(read) => read.bytes,
            Err(e) => return self.unreadable(&e),
        };
        let lines = decode_tasks(&bytes);
        self.report.records += lines.recs.len() as u64;
        for (offset, what) in lines.bad {
            self.damage(path, offset as u64, &what);
        }
        if lines.end < bytes.len() {
            let rest = (bytes.len() - lines.end) as u64;
            match super::whole_line(path, lines.end as u64, rest) {
                Some(what) => self.damage(path, lines.end as u64, &what),
                None => self.partial_record(path, lines.end as u64, rest),
            }
        }
    }
}

/// The form of `use.json`, as far as it can be checked.
#[derive(serde::Deserialize)]
struct SavedUse {
    #[serde(default, rename = "boot")]
    _boot: String,
    #[serde(default, rename = "attempts")]
    _attempts: Vec<SavedAttempt>,
}

#[derive(serde::Deserialize)]
struct SavedAttempt {
    #[serde(rename = "u")]
    _use: DeviceUse,
    #[serde(flatten)]
    _rest: std::collections::BTreeMap<String, IgnoredAny>,
}

/// Whether a line begins with a number.
fn number(bytes: &[u8]) -> Result<(), Damaged> {
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let word = line.split(|b| *b == b' ').next().unwrap_or_default();
    match !word.is_empty() && word.iter().all(u8::is_ascii_digit) {
        true => Ok(()),
        false => Err(Damaged {
            offset: 0,
            damage: Damage::Frame("does not begin with a number"),
        }),
    }
}
