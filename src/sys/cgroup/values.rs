//! Reading and writing the files of a control group. Decides nothing.

use crate::sys::{ErrorContext, Result, fs};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Writes a control file, which must exist.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().write(true).open(path).at("open", path)?;
    file.write_at(text.as_bytes(), 0)
        .at("write to", path)
        .map(drop)
}

/// The numbers in a file with one per line.
pub(super) fn read_pids(path: &Path) -> Vec<i32> {
    let bytes = fs::read_small(path, 16 << 20).unwrap_or_default();
    parse_pids(&bytes)
}

fn parse_pids(bytes: &[u8]) -> Vec<i32> {
    let words = bytes.split(|b| b.is_ascii_whitespace());
    words
        .filter_map(|w| std::str::from_utf8(w).ok()?.parse().ok())
        .collect()
}

pub(super) fn number(path: PathBuf) -> u64 {
    let bytes = fs::read_small(&path, 4096).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().parse().unwrap_or(0)
}

/// The value of `key` in a file with lines `key value`.
pub(super) fn keyed(bytes: &[u8], key: &str) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(key)?.strip_prefix(' '));
    line.and_then(|v| v.trim().parse().ok()).unwrap_or(0)
}
