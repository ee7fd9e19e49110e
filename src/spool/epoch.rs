//! The number in `leader/epoch`, held against what stands beside it.
//!
//! A claim is made before its number is written, and each leader's journal has a directory. So a
//! number far above both was written by nobody who claimed it. Reads only.

use super::Layout;
use crate::sys;

/// A client of the share may see claims and directories late, and claims that were removed by hand
/// leave the journals; what lies farther above both than this is no epoch.
const EPOCH_LEAP: u64 = 1000;
/// Most names looked at.
const NAMES_MAX: usize = 1_000_000;

/// The highest epoch that the share knows of, when `epoch` is too far above it to be one.
///
/// # Errors
/// A directory cannot be listed.
pub fn epoch_known(layout: &Layout, epoch: u64) -> sys::Result<Option<u64>> {
    if epoch <= EPOCH_LEAP {
        return Ok(None);
    }
    let mut known = 0;
    for dir in [layout.claims_dir(), layout.epochs()] {
        for entry in sys::fs::list_dir(&dir, NAMES_MAX)? {
            let number = entry.text().and_then(|t| t.parse().ok());
            known = known.max(number.filter(|n| *n <= epoch).unwrap_or(0));
        }
    }
    Ok((epoch - known > EPOCH_LEAP).then_some(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fs::mkdir_p;

    #[test]
    fn an_epoch_is_held_against_claims_and_journals() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let known = |epoch| epoch_known(&layout, epoch).unwrap();
        assert_eq!(known(EPOCH_LEAP), None, "a young cluster needs no look");
        mkdir_p(&layout.claims_dir(), 0o755).unwrap();
        mkdir_p(&layout.epoch_dir(5), 0o755).unwrap();
        assert_eq!(known(EPOCH_LEAP + 5), None);
        assert_eq!(known(EPOCH_LEAP + 6), Some(5));
        std::fs::write(layout.claim(7), b"").unwrap();
        assert_eq!(known(EPOCH_LEAP + 7), None);
        assert_eq!(known(u64::MAX), Some(7));
        std::fs::remove_dir_all(layout.claims_dir()).unwrap();
        assert!(epoch_known(&layout, 5000).is_err());
    }
}
