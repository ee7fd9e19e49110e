//! Crash images: the possible states of a file server and its clients if everything loses power
//! after a writing file operation, for every such operation of a run, and whether a leader recovers
//! from each with all promises kept.
//!
//! An image is the share with the synced data plus some of the unsynced data: nothing, everything,
//! or a random part. The recovery is that of the daemons, on an idle machine that only reads.

use super::cluster::CrashPoint;
use super::disk::Disk;
use super::read_only_disk::ReadOnlyDisk;
use crate::journal;
use crate::model::SplitMix64;
use crate::spool::Layout;
use crate::state_loader::Loader;
use crate::sys::platform;
use std::sync::Arc;

/// Number of parts of the unsynced data that are tried for each moment, beside none and all.
const PARTS: u64 = 2;

/// Recovers from an image. Returns the error, if there is one.
fn judge(moment: &CrashPoint, disk: Disk, cluster: &str) -> Option<String> {
    platform::enter(Arc::new(ReadOnlyDisk(disk)));
    let layout = Layout::new(super::simulated_os::SHARE);
    let claims = crate::spool::claims(&layout).unwrap_or_default();
    let claimed = claims.into_iter().max();
    let mut loader = Loader::default();
    let epoch = claimed.unwrap_or(0).max(moment.highest_epoch) + 1;
    let options = journal::Options::default();
    let found = journal::recover(&layout, cluster, epoch, options, &mut loader);
    platform::leave();
    if let Err(e) = found {
        return Some(format!("no leader can recover: {e}"));
    }
    let state = loader.state;
    let broken = state.check();
    if !broken.is_empty() {
        return Some(format!("unsound: {broken:?}"));
    }
    for (name, id) in &moment.acked {
        let job = state.job(*id).and_then(|j| j.name.as_deref());
        if job != Some(name.as_str()) {
            return Some(format!(
                "{name} was acknowledged as job {id}, which is {job:?}"
            ));
        }
    }
    for (j, stat) in &moment.final_stats {
        let now = state.stat(*j);
        if now != Some(*stat) {
            return Some(format!("{j} had ended as {stat:?}, is {now:?}"));
        }
    }
    None
}

/// Checks the images of a moment: with nothing of the unsynced data, all of it, and parts of it.
/// Returns their number and the errors.
pub(super) fn judge_all(
    moment: &CrashPoint,
    cluster: &str,
    rng: &mut SplitMix64,
) -> (usize, Vec<String>) {
    let mut wrong = Vec::new();
    wrong.extend(judge(moment, moment.disk.clone(), cluster));
    for part in 0..=PARTS {
        let mut disk = moment.disk.clone();
        disk.lose_unsynced(|_, len| match part {
            0 => 0,
            _ => rng.below(len as u64 + 1) as usize,
        });
        wrong.extend(judge(moment, disk, cluster));
    }
    (2 + PARTS as usize, wrong)
}
