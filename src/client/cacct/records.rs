//! The records in `acct/`: which files, in which order, each ended attempt once.
//!
//! Reads one file after the other, a part at a time; what it keeps is the list of files and the
//! keys of records that may have a copy (marked `again`, at the front of a leader's file). Never
//! stops at damage: it is named by file and offset, and the rest is read.

use crate::journal::{LineError, Lines};
use crate::record::FORMAT;
use crate::record::acct::{AttemptRecord, Key};
use crate::record::frame::Damage;
use crate::record::header::{Header, What};
use crate::spool::Layout;
use crate::sys;
use rustc_hash::FxHashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Most names read in one directory.
const NAMES_MAX: usize = 1_000_000;

/// A file in the order in which they are read: by month, leader and part.
struct File {
    path: PathBuf,
    place: (String, u64, u64),
}

/// See the top of this file.
pub(crate) struct Records {
    cluster: String,
    files: Vec<File>,
    /// The last file that has a record which may have copies.
    copies: FxHashMap<Key, usize>,
}

/// What is done with each record.
pub(crate) type Sink<'s> = dyn FnMut(&AttemptRecord<'_>) -> Result<(), sys::Error> + 's;

impl Records {
    /// Finds the files of the months that are `wanted`, and which records have copies.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub(crate) fn open(
        layout: &Layout,
        cluster: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Records, sys::Error> {
        let mut files = Vec::new();
        for month in list(&layout.acct())? {
            if !Layout::is_acct_month(&month) || !wanted(&month) {
                continue;
            }
            let dir = layout.acct().join(&month);
            for name in list(&dir)? {
                if let Some((epoch, part)) = Layout::parse_acct_name(&name) {
                    let path = dir.join(name);
                    let place = (month.clone(), epoch, part);
                    files.push(File { path, place });
                }
            }
        }
        files.sort_by(|a, b| a.place.cmp(&b.place));
        let mut records = Records {
            cluster: cluster.to_owned(),
            files,
            copies: FxHashMap::default(),
        };
        for n in 0..records.files.len() {
            records.find_copies(n)?;
        }
        Ok(records)
    }

    /// Notes the records at the front of a file that may be in an earlier one.
    fn find_copies(&mut self, n: usize) -> Result<(), sys::Error> {
        let (path, copies) = (&self.files[n].path, &mut self.copies);
        let mut lines = Lines::new(path, u64::MAX).small_chunks();
        loop {
            match lines.next_line() {
                Ok(None) => return Ok(()),
                Ok(Some(step)) if step.line.seq == 0 => {}
                Ok(Some(step)) => match step.line.decode::<AttemptRecord<'_>>() {
                    Ok(record) if record.again => drop(copies.insert(record.key(), n)),
                    Ok(_) => return Ok(()),
                    Err(_) => {}
                },
                Err(LineError::Io(e)) if e.is_not_found() => return Ok(()),
                Err(LineError::Io(e)) => return Err(e),
                Err(LineError::Damaged(_)) => {
                    if !lines.skip()?.intact_behind {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Gives each ended attempt once to `on`, the files in their order; `warn` is told of damage.
    ///
    /// # Errors
    /// A file cannot be read, or `on` failed.
    pub(crate) fn each(
        &self,
        on: &mut Sink<'_>,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), sys::Error> {
        for n in 0..self.files.len() {
            self.read(n, on, warn)?;
        }
        Ok(())
    }

    fn read(
        &self,
        n: usize,
        on: &mut Sink<'_>,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), sys::Error> {
        let path = &self.files[n].path;
        let mut lines = Lines::new(path, u64::MAX);
        loop {
            let step = match lines.next_line() {
                Ok(None) => return Ok(()),
                Ok(Some(step)) => step,
                Err(LineError::Io(e)) if e.is_not_found() => return Ok(()),
                Err(LineError::Io(e)) => return Err(e),
                Err(LineError::Damaged(damaged)) => {
                    let intact = lines.skip()?.intact_behind;
                    // Half a line at the end: its writer died, or writes it now.
                    if intact || damaged.damage != Damage::Torn {
                        warn(text_of(path, damaged.offset, &damaged.damage));
                    }
                    match intact {
                        true => continue,
                        false => return Ok(()),
                    }
                }
            };
            if step.line.seq == 0 {
                if let Err(why) = self.header(step.line.json) {
                    warn(text_of(path, 0, &why));
                    return Ok(());
                }
                continue;
            }
            match step.line.decode::<AttemptRecord<'_>>() {
                Ok(record) if self.is_copy(&record, n) => {}
                Ok(record) => on(&record)?,
                Err(damage) => warn(text_of(path, step.offset, &damage)),
            }
        }
    }

    fn header(&self, json: &[u8]) -> Result<(), String> {
        let header: Header = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        if header.what != What::Acct || header.cluster != self.cluster {
            return Err("not an accounting file of this cluster".to_owned());
        }
        if header.format > FORMAT {
            let newer = header.format;
            return Err(format!(
                "format {newer} is newer than this program's {FORMAT}"
            ));
        }
        Ok(())
    }

    /// A later file has the record, too.
    fn is_copy(&self, record: &AttemptRecord<'_>, n: usize) -> bool {
        if self.copies.is_empty() {
            return false;
        }
        self.copies.get(&record.key()).is_some_and(|last| *last > n)
    }
}

fn text_of(path: &Path, offset: u64, what: &dyn Display) -> String {
    format!("{}:{offset}: {what}; skipped", path.display())
}

/// The names in a directory in their order; none when it is missing.
fn list(dir: &Path) -> Result<Vec<String>, sys::Error> {
    let entries = match sys::fs::list_dir(dir, NAMES_MAX) {
        Err(e) if e.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let names = entries.iter().filter_map(|e| e.text().map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    Ok(names)
}
