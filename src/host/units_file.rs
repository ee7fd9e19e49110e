//! The file in the local directory with the sensors' information about this host's units: written
//! by `cbls`, read by `cbexe`. Owns when it is written and removed.

use super::local::Local;
use crate::record::host_units::{HOST_UNITS_MAX, HostUnitsDoc, UnitDoc};
use crate::record::sealed;
use crate::sys::{self, fs, proc};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How long the content of an earlier `cbls` is kept while no sensor reports anything: a unit must
/// not become accessible to all because its sensor is slow or fails.
const KEPT_MS: u64 = 3_600_000;

/// The file as known to its writer.
#[derive(Debug)]
pub(super) struct UnitsFile {
    path: PathBuf,
    written: Option<HostUnitsDoc>,
    started_at: u64,
    failing: bool,
}

impl UnitsFile {
    pub(super) fn new(local: &Local, now: u64) -> UnitsFile {
        UnitsFile {
            path: local.units(),
            written: None,
            started_at: now,
            failing: false,
        }
    }

    /// Updates it with the sensors' values at `now` (boot-time clock, ms).
    pub(super) fn write(&mut self, kinds: BTreeMap<String, Vec<UnitDoc>>, now: u64) {
        if kinds.is_empty() {
            if self.written.take().is_some() || now >= self.started_at + KEPT_MS {
                // A missing file need not be removed.
                let _ = fs::remove(&self.path);
                self.started_at = u64::MAX - KEPT_MS;
            }
            return;
        }
        if self.written.as_ref().is_some_and(|doc| doc.kinds == kinds) {
            return;
        }
        let boot = proc::boot_id().to_owned();
        let doc = HostUnitsDoc { boot, kinds };
        let json = sealed::to_json(&doc).expect("plain data becomes JSON");
        match fs::publish(&self.path, &json) {
            Ok(()) => (self.written, self.failing) = (Some(doc), false),
            // Repeated with the next report of the sensors.
            Err(e) if !self.failing => {
                self.failing = true;
                tracing::error!("{e}: cbexe does not learn of changed units");
            }
            Err(_) => {}
        }
    }
}

/// Identifies a version of the file: inode, time, length.
pub(super) type Stamp = Option<(u64, i64, u64)>;

/// The stamp of the file; `None`: it does not exist.
pub(super) fn stamp(path: &Path) -> Stamp {
    let found = fs::stat(path).ok().flatten();
    found.map(|s| (s.ino, s.mtime_ms, s.len))
}

/// Reads the file; empty if it does not exist.
///
/// # Errors
/// It cannot be read or understood.
pub(super) fn read(path: &Path) -> Result<HostUnitsDoc, String> {
    let bytes = fs::read_optional(path, HOST_UNITS_MAX);
    let Some(bytes) = bytes.map_err(|e: sys::Error| e.to_string())? else {
        return Ok(HostUnitsDoc::default());
    };
    sealed::from_json(&bytes)
        .map(|(doc, _)| doc)
        .map_err(|d| format!("{}:{}: {}", path.display(), d.offset, d.damage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_outlives_its_writer_and_a_sensor_that_is_slow_but_not_one_that_was_removed() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        let kinds = || BTreeMap::from([("gpu".to_owned(), vec![UnitDoc::named("0")])]);
        let there = || !read(&local.units()).unwrap().kinds.is_empty();
        let mut file = UnitsFile::new(&local, 100);
        file.write(kinds(), 100);
        assert_eq!(read(&local.units()).unwrap().kinds, kinds());
        assert_eq!(read(&local.units()).unwrap().boot, proc::boot_id());
        let mut next = UnitsFile::new(&local, 1_000);
        next.write(BTreeMap::new(), 1_000 + KEPT_MS - 1);
        assert!(there());
        next.write(BTreeMap::new(), 1_000 + KEPT_MS);
        assert!(!there());
        next.write(kinds(), 1_000 + KEPT_MS);
        assert!(there());
        next.write(BTreeMap::new(), 1_000 + KEPT_MS);
        assert!(!there(), "the sensor was removed");
        std::fs::write(local.units(), "{").unwrap();
        assert!(read(&local.units()).is_err());
    }
}
