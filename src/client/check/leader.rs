//! The leader: its beat, and what its claim says.

use super::Ctx;
use super::finding::Finding;
use crate::record::leader::{BeatDoc, EpochDoc, FIXED_LEN, decode_fixed};
use crate::sys;
use crate::text::duration::short;
use std::path::Path;

/// Pause between two looks, ms.
const LOOK_MS: u64 = 100;

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

/// The beat as it stands.
pub fn beat(ctx: &Ctx) -> Option<BeatDoc> {
    fixed(&ctx.layout.beat())
}

/// Waits until a leader beats and leads, for as long as a takeover may need; true when one does.
pub fn wait(ctx: &Ctx, lease_ms: u64) -> bool {
    moves(ctx, beat(ctx).as_ref(), lease_ms)
}

/// True when the beat is another than `before`, now or within the time of a takeover.
fn moves(ctx: &Ctx, before: Option<&BeatDoc>, lease_ms: u64) -> bool {
    let end = sys::clock::boot_ms() + 2 * lease_ms + 5_000;
    loop {
        let now = beat(ctx);
        let alive = now.as_ref().is_some_and(|b| b.leading) && now.as_ref() != before;
        if alive || sys::clock::boot_ms() >= end {
            return alive;
        }
        sys::clock::sleep_ms(LOOK_MS);
    }
}

/// A leader leads: the beat has moved since `before`.
pub fn look(ctx: &Ctx, before: Option<&BeatDoc>, lease_ms: u64) -> Vec<Finding> {
    let mut out = Vec::new();
    let start = "start cbsched on a host that may lead; its log says why it does not lead";
    let epoch: Option<EpochDoc> = fixed(&ctx.layout.epoch());
    let Some(epoch) = epoch else {
        let path = ctx.layout.epoch();
        let what = "it is damaged or missing: nobody can lead";
        let todo = "restore it from a backup, with the whole directory 'leader'";
        return vec![Finding::broken("leader", path.display(), what, todo)];
    };
    if !moves(ctx, before, lease_ms) {
        let waited = short(2 * lease_ms + 5_000);
        let who = match epoch.epoch {
            0 => "no leader has ever been".to_owned(),
            n => format!("epoch {n} was claimed by {}, pid {}", epoch.host, epoch.pid),
        };
        let what = format!("nobody leads: the beat stood still for {waited}; {who}");
        let place = ctx.layout.beat();
        out.push(Finding::broken("leader", place.display(), what, start));
    }
    if !sys::fs::exists(&ctx.layout.lock()) {
        let path = ctx.layout.lock();
        let what = "the election's lock file is missing";
        let todo = "make it anew, empty, owned by the account of the share, while no cbsched runs";
        out.push(Finding::broken("leader", path.display(), what, todo));
    }
    out
}
