//! A copy of `leader/epoch` on a host's own disk: the leader and the addresses for hints, as last
//! read by its `cbexe`. A command on that host then needs no request to the file server for them.
//!
//! The copy may be old and contains its time: a command reads `leader/epoch` itself if no answer
//! comes. Never on the share, never trusted by a daemon.

use crate::record::leader::{EpochDoc, decode_fixed, encode_fixed};
use crate::sys::{clock, fs, proc};
use std::path::Path;

/// A copy that was not confirmed for this time is not used, ms: `cbexe` checks the share at least
/// every 7 s.
const FRESH_MS: u64 = 20_000;
/// Maximum size of the file in bytes.
const COPY_MAX: u64 = 4096;

/// Writes the copy: `doc` was read or found unchanged at `at_ms` of the boot clock.
///
/// # Errors
/// The document does not fit, or the directory cannot be written.
pub fn write(path: &Path, doc: &EpochDoc, at_ms: u64) -> Result<(), String> {
    let mut bytes = encode_fixed(doc)?;
    bytes.extend_from_slice(format!("{at_ms} {}\n", proc::boot_id()).as_bytes());
    fs::publish(path, &bytes).map_err(|e| e.to_string())
}

/// The copy, if there is one that was recently confirmed since the machine booted.
pub fn read(path: &Path) -> Option<EpochDoc> {
    let bytes = fs::read_small(path, COPY_MAX).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let (doc, read_at) = text.split_once('\n')?;
    let (at_ms, boot) = read_at.trim_end().split_once(' ')?;
    let age = clock::boot_ms().checked_sub(at_ms.parse().ok()?)?;
    let fresh = age <= FRESH_MS && boot == proc::boot_id();
    fresh.then(|| decode_fixed(doc.as_bytes()).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_copy_of_this_boot_that_was_confirmed_lately_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leader");
        let doc = EpochDoc {
            epoch: 7,
            host: "m1".into(),
            ..EpochDoc::default()
        };
        assert_eq!(read(&path), None);
        let now = clock::boot_ms();
        write(&path, &doc, now).unwrap();
        assert_eq!(read(&path), Some(doc.clone()));
        write(&path, &doc, now.saturating_sub(FRESH_MS + 1_000)).unwrap();
        assert_eq!(read(&path), None, "old");
        write(&path, &doc, now + 60_000).unwrap();
        assert_eq!(read(&path), None, "from the time after this one");
        let mut other = encode_fixed(&doc).unwrap();
        other.extend_from_slice(format!("{now} another-boot\n").as_bytes());
        std::fs::write(&path, &other).unwrap();
        assert_eq!(read(&path), None, "another boot");
        std::fs::write(&path, "{}\n").unwrap();
        assert_eq!(read(&path), None, "damaged");
    }
}
