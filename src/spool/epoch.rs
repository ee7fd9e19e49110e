//! Which epochs were claimed, and the number in `leader/epoch` compared with the claims and
//! journals.
//!
//! A claim is made before its number is written, and each leader's journal has a directory.
//! Therefore a number far above both was not written by a claimant. Only reads.

use super::Layout;
use crate::sys;

/// A client of the share may see claims and directories late, and if claims are removed by hand,
/// their journals remain; a number that is farther above both than this is not an epoch.
const EPOCH_LEAP: u64 = 1000;
/// Maximum number of names that are checked.
const NAMES_MAX: usize = 1_000_000;
/// No claimant gets this far one by one: a name above it is not a claim, and counting does not
/// continue from it.
const EPOCH_MAX: u64 = 1 << 53;

/// The epochs that have a claim, not in order; other names are ignored.
///
/// # Errors
/// The directory cannot be listed.
pub fn claims(layout: &Layout) -> sys::Result<Vec<u64>> {
    let entries = sys::fs::list_dir(&layout.claims_dir(), NAMES_MAX)?;
    let number = |e: &sys::fs::Entry| {
        let n = e.text()?.parse().ok().filter(|n| *n <= EPOCH_MAX)?;
        (layout.claim(n).file_name()? == e.name).then_some(n)
    };
    Ok(entries.iter().filter_map(number).collect())
}

/// The highest epoch that is known on the share, if `epoch` is too far above it to be one.
///
/// # Errors
/// A directory cannot be listed.
pub fn epoch_known(layout: &Layout, epoch: u64) -> sys::Result<Option<u64>> {
    if epoch <= EPOCH_LEAP {
        return Ok(None);
    }
    let journals = sys::fs::list_dir(&layout.epochs(), NAMES_MAX)?;
    let journals = journals.iter().filter_map(|e| e.text()?.parse().ok());
    let numbers = claims(layout)?.into_iter().chain(journals);
    let known = numbers.filter(|n| *n <= epoch).max().unwrap_or(0);
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
        std::fs::write(layout.claim(u64::MAX), b"").unwrap();
        for name in [".aside", "8", "0000009"] {
            std::fs::write(layout.claims_dir().join(name), b"").unwrap();
        }
        assert_eq!(claims(&layout).unwrap(), [7]);
        std::fs::remove_dir_all(layout.claims_dir()).unwrap();
        assert!(epoch_known(&layout, 5000).is_err());
    }
}
