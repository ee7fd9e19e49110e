//! Content that is submitted with jobs, stored under its hash: scripts, environments, inputs.
//!
//! Each blob is written once, to a temporary file that is renamed, and is durable before a job that
//! needs it. Any other file with its name is renamed. The janitor removes blobs that no job refers
//! to.

use crate::spool::Layout;
use crate::sys::{self, clock, fs};
use crate::turn::Blob;
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum number of hashes that are remembered.
const KNOWN_MAX: usize = 100_000;

/// The blobs that this leader has stored.
pub(super) struct Blobs {
    layout: Layout,
    stored: BTreeSet<String>,
}

impl Blobs {
    pub(super) fn new(layout: &Layout) -> Blobs {
        Blobs {
            layout: layout.clone(),
            stored: BTreeSet::new(),
        }
    }

    /// Forgets what was stored, because it may have been removed since.
    pub(super) fn forget(&mut self) {
        self.stored.clear();
    }

    /// Stores a blob, unless this leader has done so before.
    ///
    /// # Errors
    /// The share rejects it.
    pub(super) fn store(&mut self, blob: &Blob) -> sys::Result<()> {
        if self.stored.contains(&blob.sha) {
            return Ok(());
        }
        match self.write(blob) {
            Err(e) if !e.is_no_space() && self.clear(&blob.sha)? => {
                tracing::warn!("{e}: the existing entry with this name was renamed");
                self.write(blob)
            }
            other => other,
        }?;
        if self.stored.len() > KNOWN_MAX {
            self.stored.clear();
        }
        self.stored.insert(blob.sha.clone());
        Ok(())
    }

    fn write(&self, blob: &Blob) -> sys::Result<()> {
        let path = self.layout.blob(&blob.sha);
        fs::mkdir_p(fs::parent(&path), 0o750)?;
        fs::durable_write_mode(&path, &blob.bytes, 0o640)
    }

    /// Renames an entry that is not a file but has the name of a blob, or that is not a directory
    /// but has the name of one.
    fn clear(&self, sha: &str) -> sys::Result<bool> {
        let path = self.layout.blob(sha);
        Ok(clear_file(fs::parent(&path))? || fs::clear_name(&path)?)
    }
}

fn clear_file(dir: &Path) -> sys::Result<bool> {
    let found = fs::stat(dir)?.map(|found| found.kind);
    if found.is_none_or(|kind| kind == fs::Kind::Dir) {
        return Ok(false);
    }
    let hidden = format!(".foreign.{}", clock::nonce(8));
    fs::rename(dir, &dir.with_file_name(hidden)).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(sha: &str) -> Blob {
        let (sha, bytes) = (sha.repeat(32), b"x".to_vec());
        Blob { sha, bytes }
    }

    #[test]
    fn what_stands_in_the_place_of_a_blob_or_of_its_directory_is_got_out_of_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let mut blobs = Blobs::new(&layout);
        let (one, two) = (blob("ab"), blob("cd"));
        fs::mkdir_p(&layout.blob(&one.sha).join("sub"), 0o755).unwrap();
        fs::publish(fs::parent(&layout.blob(&two.sha)), b"in the way").unwrap();
        for blob in [&one, &two] {
            blobs.store(blob).unwrap();
            assert_eq!(fs::read_small(&layout.blob(&blob.sha), 9).unwrap(), b"x");
        }
    }

    #[test]
    fn a_blob_that_cannot_be_stored_is_an_error_of_that_blob() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        fs::publish(&layout.blobs(), b"in the way").unwrap();
        let mut blobs = Blobs::new(&layout);
        let e = blobs.store(&blob("ab")).unwrap_err();
        assert!(e.to_string().contains("blobs"), "{e}");
    }
}
