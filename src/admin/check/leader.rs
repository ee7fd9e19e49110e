//! The leader: its beat, and the content of its claim.

use super::Ctx;
use super::finding::Finding;
use crate::record::leader::{BeatDoc, EpochDoc, FIXED_LEN, decode_fixed};
use crate::spool::epoch_known;
use crate::sys;
use crate::text::duration::short;
use std::path::Path;

const REWRITTEN: &str = "leave the file as it is: the next cbsched in an election writes it again; \
                    start one on a host that may lead";

/// Pause between two looks at the beat, ms.
const POLL_MS: u64 = 100;

fn fixed<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    for _ in 0..5 {
        let bytes = sys::fs::read_small(path, 2 * FIXED_LEN as u64).ok()?;
        if let Ok(doc) = decode_fixed(&bytes) {
            return Some(doc);
        }
        sys::clock::sleep_ms(2);
    }
    None
}

/// The current beat.
pub(super) fn beat(ctx: &Ctx) -> Option<BeatDoc> {
    fixed(&ctx.layout.beat())
}

/// Waits until a leader beats and leads, at most as long as a takeover may take; true if one does.
pub(super) fn wait(ctx: &Ctx, lease_ms: u64) -> bool {
    beat_moves(ctx, beat(ctx).as_ref(), lease_ms)
}

/// Whether a leading beat differs from `before`, now or within the time of a takeover.
fn beat_moves(ctx: &Ctx, before: Option<&BeatDoc>, lease_ms: u64) -> bool {
    let end = sys::clock::boot_ms() + 2 * lease_ms + 5_000;
    loop {
        let now = beat(ctx);
        let alive = now.as_ref().is_some_and(|b| b.leading) && now.as_ref() != before;
        if alive || sys::clock::boot_ms() >= end {
            return alive;
        }
        sys::clock::sleep_ms(POLL_MS);
    }
}

/// Checks that a leader leads, i.e. that the beat has changed since `before`.
pub(super) fn check_beat(ctx: &Ctx, before: Option<&BeatDoc>, lease_ms: u64) -> Vec<Finding> {
    let mut out = Vec::new();
    let start = "start cbsched on a host that may lead; if it runs, see its log";
    let path = ctx.layout.epoch();
    if !sys::fs::exists(&path) {
        let what = "it is missing: no cbsched can lead, and no daemon recreates it";
        let todo = "create it, empty, owned by the account of the share, while no cbsched runs: \
                    the first one that is started fills it";
        return vec![Finding::broken("leader", path.display(), what, todo)];
    }
    let epoch: Option<EpochDoc> = fixed(&path);
    let Some(epoch) = epoch else {
        let what = "it is damaged: leaders step down";
        let finding = Finding::broken("leader", path.display(), what, REWRITTEN);
        // A cbsched in an election rewrites the file within the time of a takeover.
        return if beat_moves(ctx, before, lease_ms) && fixed::<EpochDoc>(&path).is_some() {
            Vec::new()
        } else {
            vec![finding]
        };
    };
    match epoch_known(&ctx.layout, epoch.epoch) {
        Ok(Some(known)) => {
            let what = format!(
                "it names epoch {}, far above all existing ones (the highest is {known}): leaders \
                 step down",
                epoch.epoch
            );
            out.push(Finding::broken("leader", path.display(), what, REWRITTEN));
        }
        Ok(None) => {}
        Err(e) => out.push(Finding::unreadable("leader", &e)),
    }
    if !beat_moves(ctx, before, lease_ms) {
        let waited = short(2 * lease_ms + 5_000);
        let who = match epoch.epoch {
            0 => "there has never been a leader".to_owned(),
            n => format!("epoch {n} was claimed by {}, pid {}", epoch.host, epoch.pid),
        };
        let what = format!("there is no leader: the beat has not changed for {waited}; {who}");
        let place = ctx.layout.beat();
        out.push(Finding::broken("leader", place.display(), what, start));
    }
    if !sys::fs::exists(&ctx.layout.lock()) {
        let path = ctx.layout.lock();
        let what = "the election's lock file is missing";
        let todo = "create it, empty, owned by the account of the share, while no cbsched runs";
        out.push(Finding::broken("leader", path.display(), what, todo));
    }
    out
}
