//! The silence limit of this host (`iso_timeout`): as ordered by the leader, as in force here, and
//! as reported by `cbls`.
//!
//! The leader starts the rerunnable tasks of a silent host elsewhere by the limit in the host's
//! last load. Therefore the reported limit must never be shorter than one that a process of this
//! host applies: a longer limit comes into force when a load that names it was written; a shorter
//! limit comes into force right after a write to the share, and is reported when all watching
//! processes have seen it.
//!
//! Two files of the local directory with one writer each: `cbexe` writes the ordered limit, `cbls`
//! the limit in force. Both are durable, because after a restart of the machine they decide what
//! may start. Never accesses the share.

use super::local::Local;
use super::silence::PAUSE_MAX_MS;
use crate::record::frame::{Damage, Damaged};
use crate::record::sealed;
use crate::sys::{self, fs};
use std::path::Path;

/// Time after which all processes of this host have seen a changed limit, ms.
const SETTLE_MS: u64 = PAUSE_MAX_MS + 2_000;

/// A limit as a length: 0 means no limit, which is longer than all others.
fn length(limit: u64) -> u64 {
    if limit == 0 { u64::MAX } else { limit }
}

fn longest(one: u64, other: u64) -> u64 {
    if length(one) >= length(other) {
        one
    } else {
        other
    }
}

/// A host silent for this long kills its rerunnable tasks, ms; 0 = never.
pub(super) fn in_force(local: &Local) -> u64 {
    match read(&local.iso()) {
        Ok(found) => found.map_or(0, |(limit, _)| limit),
        // `cbls` writes it again with its next load; until then, the order is known. Without a
        // limit, tasks would run here and elsewhere.
        Err(_) => intact(&local.iso_ordered()).unwrap_or(0),
    }
}

/// The limit that the leader ordered last; `None`: no leader has ordered one yet.
pub(super) fn ordered_limit(local: &Local) -> Option<u64> {
    match read(&local.iso_ordered()) {
        Ok(found) => found.map(|(limit, _)| limit),
        // `cbexe` writes it again with the leader's next order.
        Err(_) => intact(&local.iso()),
    }
}

/// The limit in a file, if it is intact.
fn intact(path: &Path) -> Option<u64> {
    read(path).ok().flatten().map(|(limit, _)| limit)
}

/// The number and the text of a file; `None` if it does not exist.
///
/// # Errors
/// It is damaged.
fn read(path: &Path) -> Result<Option<(u64, String)>, Damaged> {
    let Some(bytes) = fs::read_optional(path, 4096).ok().flatten() else {
        return Ok(None);
    };
    parse(&bytes).map(Some)
}

/// Parses the content of such a file.
///
/// # Errors
/// It is damaged.
pub(super) fn parse(bytes: &[u8]) -> Result<(u64, String), Damaged> {
    let content = sealed::open_words(bytes)?;
    let words = std::str::from_utf8(content.bytes).unwrap_or_default();
    let (limit, text) = words.split_once(' ').unwrap_or((words, ""));
    let damage = || Damaged {
        offset: 0,
        damage: Damage::Frame("no number of milliseconds"),
    };
    let limit = limit.trim().parse().map_err(|_| damage())?;
    Ok((limit, text.trim().to_owned()))
}

/// Replaces such a file.
fn write(path: &Path, words: &str) -> sys::Result<()> {
    fs::durable_write_mode(path, sealed::seal_words(words).as_bytes(), 0o600)
}

/// Stores the limit that the leader ordered: `cbls` puts it in force.
///
/// # Errors
/// The local directory cannot be written.
pub(super) fn keep_order(local: &Local, limit: u64) -> sys::Result<()> {
    let known = read(&local.iso_ordered()).ok().flatten();
    if known.is_some_and(|(known, _)| known == limit) {
        return Ok(());
    }
    write(&local.iso_ordered(), &limit.to_string())
}

/// Puts a limit in force at once.
#[cfg(test)]
pub(super) fn force(local: &Local, limit: u64) {
    write(&local.iso(), &limit.to_string()).unwrap();
}

/// The limit as `cbls` puts it in force and reports it, from one load to the next.
#[derive(Debug)]
pub(super) struct IsoLimit {
    local: Local,
    /// The longest limit in loads so far that may still be in the last load that the leader has
    /// read.
    reported: u64,
    /// When a shorter limit came into force that some processes here may not have seen.
    shorter_at: Option<u64>,
}

impl IsoLimit {
    pub(super) fn new(local: &Local, now: u64) -> IsoLimit {
        let (limit, reported) = match read(&local.iso()) {
            // An earlier version did not record what it reported.
            Ok(Some((limit, text))) => (limit, text.parse().unwrap_or(limit)),
            Ok(None) => (0, 0),
            Err(e) => {
                let path = local.iso();
                tracing::error!(
                    "{}:{}: {}: it is written again",
                    path.display(),
                    e.offset,
                    e.damage
                );
                // What was reported is not known: no limit is the longest.
                (in_force(local), 0)
            }
        };
        IsoLimit {
            local: local.clone(),
            reported,
            shorter_at: (reported != limit).then_some(now),
        }
    }

    /// The limit for the load that is written now: no process here applies a longer limit until
    /// the next load. `None` before any leader has ordered a limit.
    pub(super) fn to_report(&self, now: u64) -> Option<u64> {
        let ordered = ordered_limit(&self.local)?;
        let limit = in_force(&self.local);
        let is_settled = self.shorter_at.is_none_or(|at| now >= at + SETTLE_MS);
        let least = if is_settled {
            limit
        } else {
            longest(self.reported, limit)
        };
        Some(longest(least, ordered))
    }

    /// The load that names `reported` was written: puts the ordered limit in force.
    ///
    /// # Errors
    /// The local directory cannot be written: the previous limit stays in force.
    pub(super) fn written(&mut self, reported: Option<u64>, now: u64) -> sys::Result<()> {
        let (Some(reported), Some(ordered)) = (reported, ordered_limit(&self.local)) else {
            return Ok(());
        };
        let before = in_force(&self.local);
        // A limit that was ordered while the load was written comes into force with the next load.
        let covered = length(ordered) <= length(reported);
        let limit = if covered { ordered } else { before };
        let is_damaged = read(&self.local.iso()).is_err();
        if (limit, reported) != (before, self.reported) || is_damaged {
            if is_damaged {
                let path = self.local.iso();
                tracing::error!("{} was damaged and is written again", path.display());
            }
            write(&self.local.iso(), &format!("{limit} {reported}"))?;
        }
        self.reported = reported;
        if length(limit) < length(before) {
            self.shorter_at = Some(now);
        } else if limit == reported {
            self.shorter_at = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One load: the limit that it names, and the limit in force after it was written.
    fn load(limit: &mut IsoLimit, now: u64) -> (Option<u64>, u64) {
        let reported = limit.to_report(now);
        let during = in_force(&limit.local);
        if let Some(reported) = reported {
            assert!(length(during) <= length(reported), "{during} > {reported}");
        }
        limit.written(reported, now).unwrap();
        let after = in_force(&limit.local);
        if let Some(reported) = reported {
            assert!(length(after) <= length(reported), "{after} > {reported}");
        }
        (reported, after)
    }

    fn local() -> (tempfile::TempDir, Local) {
        let dir = tempfile::tempdir().unwrap();
        let local = Local::at(dir.path());
        (dir, local)
    }

    #[test]
    fn a_longer_limit_is_reported_before_it_is_in_force() {
        let (_dir, local) = local();
        force(&local, 20_000);
        let mut limit = IsoLimit::new(&local, 0);
        assert_eq!(load(&mut limit, 1), (None, 20_000), "no leader ordered any");
        keep_order(&local, 60_000).unwrap();
        assert_eq!(limit.to_report(2), Some(60_000));
        assert_eq!(in_force(&local), 20_000, "not before it was written");
        assert_eq!(load(&mut limit, 3), (Some(60_000), 60_000));
        keep_order(&local, 0).unwrap();
        assert_eq!(load(&mut limit, 4), (Some(0), 0), "no limit is the longest");
    }

    #[test]
    fn a_shorter_limit_is_reported_when_everybody_has_seen_it() {
        let (_dir, local) = local();
        let mut limit = IsoLimit::new(&local, 0);
        keep_order(&local, 20_000).unwrap();
        assert_eq!(load(&mut limit, 1_000), (Some(0), 20_000));
        let settled = 1_000 + SETTLE_MS;
        assert_eq!(load(&mut limit, settled - 1), (Some(0), 20_000));
        // A restarted cbls does not know when the shorter limit came into force.
        let mut limit = IsoLimit::new(&local, settled);
        assert_eq!(load(&mut limit, settled + 1), (Some(0), 20_000));
        let settled = settled + SETTLE_MS;
        assert_eq!(load(&mut limit, settled), (Some(20_000), 20_000));
        let limit = IsoLimit::new(&local, settled);
        assert_eq!(limit.to_report(settled), Some(20_000));
    }

    #[test]
    fn an_order_that_comes_while_the_load_is_written_waits_for_the_next_one() {
        let (_dir, local) = local();
        force(&local, 20_000);
        keep_order(&local, 20_000).unwrap();
        let mut limit = IsoLimit::new(&local, 0);
        let reported = limit.to_report(1);
        keep_order(&local, 60_000).unwrap();
        limit.written(reported, 1).unwrap();
        assert_eq!((reported, in_force(&local)), (Some(20_000), 20_000));
        // The limit is raised and lowered at any time: the reported one is never shorter than the
        // applied one.
        let mut now = 2;
        for ordered in [60_000, 10_000, 0, 30_000, 10_000, 90_000, 10_000] {
            keep_order(&local, ordered).unwrap();
            for _ in 0..3 {
                now += SETTLE_MS / 2;
                load(&mut limit, now);
            }
            assert_eq!(in_force(&local), ordered);
        }
    }

    /// Limits that a disk changed are not obeyed: each file is covered by the other one, and both
    /// are written again.
    #[test]
    fn a_damaged_limit_is_no_limit_and_is_written_again() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        keep_order(&local, 60_000).unwrap();
        force(&local, 60_000);
        let flip = |path: &Path| {
            let mut bytes = std::fs::read(path).unwrap();
            bytes[0] ^= 1;
            std::fs::write(path, bytes).unwrap();
        };
        flip(&local.iso());
        assert_eq!(in_force(&local), 60_000, "as ordered");
        let mut iso = IsoLimit::new(&local, 0);
        let reported = iso.to_report(0);
        iso.written(reported, 0).unwrap();
        assert_eq!(intact(&local.iso()), Some(60_000), "written again");
        flip(&local.iso_ordered());
        assert_eq!(ordered_limit(&local), Some(60_000), "as in force");
        keep_order(&local, 60_000).unwrap();
        assert_eq!(intact(&local.iso_ordered()), Some(60_000), "written again");
        // An earlier version wrote no checksum.
        std::fs::write(local.iso(), "7000 9000").unwrap();
        assert_eq!(in_force(&local), 7_000);
    }
}
