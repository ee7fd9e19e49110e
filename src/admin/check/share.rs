//! The share itself: owners and modes, leftovers, free space, and mount options on this host.

use super::Ctx;
use super::finding::Finding;
use crate::spool::hazards;
use crate::sys;
use crate::sys::fs::{Kind, Stat};
use crate::text::count::count;
use crate::text::size::human;
use std::path::Path;

/// Below this much free space the leader will soon stop accepting jobs.
const FULL_BYTES: u64 = 64 << 20;
const FULL_INODES: u64 = 1000;
/// Free space below one part in this many is reported.
const LOW_PART: u64 = 20;
/// Maximum number of names read in one directory for leftovers and owners.
const NAMES_MAX: usize = 200_000;
/// A temporary file older than this was left by a writer that crashed, ms.
const OLD_MS: i64 = 24 * 3600 * 1000;
/// Write permission for the group or for others.
const OTHERS: u32 = 0o022;

/// Runs all checks of the share.
pub(super) fn check_all(ctx: &Ctx) -> Vec<Finding> {
    let mut out = Vec::new();
    owners(ctx, &mut out);
    leftovers(ctx, &mut out);
    disk_space(ctx, &mut out);
    mount(ctx, &mut out);
    out
}

fn stat(path: &Path, out: &mut Vec<Finding>) -> Option<Stat> {
    match sys::fs::stat(path) {
        Ok(stat) => stat,
        Err(e) => {
            out.push(Finding::unreadable("share", &e));
            None
        }
    }
}

/// Checks owner and permissions: another account that can write here could forge the state of the
/// cluster.
fn check_permissions(ctx: &Ctx, path: &Path, kind: Kind, out: &mut Vec<Finding>) {
    let Some(s) = stat(path, out) else { return };
    let (uid, place) = (ctx.cluster.service_uid, path.display().to_string());
    if s.kind != kind {
        let what = format!(
            "it is {}; {} is expected",
            kind_word(s.kind),
            kind_word(kind)
        );
        let todo = "stop all daemons and find out who put it there; 'cadmin fsck' lists what \
                    else is missing";
        return out.push(Finding::broken("share", place, what, todo));
    }
    if s.uid != uid && s.uid != 0 {
        let what = format!(
            "it belongs to user {}, not to {uid}: its content is not safe",
            s.uid
        );
        let todo = format!("chown {uid} {place}");
        out.push(Finding::broken("share", &place, what, todo));
    }
    if s.mode & OTHERS != 0 {
        let what = format!("its mode {:04o} allows others to write", s.mode & 0o7777);
        let todo = format!("chmod go-w {place}");
        out.push(Finding::broken("share", &place, what, todo));
    }
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "a regular file",
        Kind::Dir => "a directory",
        Kind::Link => "a symbolic link",
        Kind::Other => "a pipe, socket or device",
    }
}

fn owners(ctx: &Ctx, out: &mut Vec<Finding>) {
    let layout = &ctx.layout;
    check_permissions(ctx, layout.root(), Kind::Dir, out);
    for (dir, mode) in layout.directories() {
        if !sys::fs::exists(&dir) {
            let what = "the directory is missing";
            let todo = format!(
                "create it, owned by user {}, mode {mode:04o}; if others are missing too, check \
                 first whether this is the right directory and its file system is mounted \
                 completely",
                ctx.cluster.service_uid
            );
            out.push(Finding::broken("share", dir.display(), what, todo));
        } else if dir == layout.inbox() {
            inbox(ctx, mode, out);
        } else {
            check_permissions(ctx, &dir, Kind::Dir, out);
        }
    }
    for made_later in [layout.acct(), layout.history()] {
        if sys::fs::exists(&made_later) {
            check_permissions(ctx, &made_later, Kind::Dir, out);
        }
    }
    for file in [
        layout.cluster(),
        layout.config(),
        layout.lock(),
        layout.epoch(),
        layout.beat(),
    ] {
        check_permissions(ctx, &file, Kind::File, out);
    }
    for dir in [layout.epochs(), layout.hosts()] {
        for entry in sys::fs::list_dir(&dir, NAMES_MAX).unwrap_or_default() {
            check_permissions(ctx, &dir.join(&entry.name), Kind::Dir, out);
        }
    }
}

/// Checks that users can create their own directories and cannot remove those of others.
fn inbox(ctx: &Ctx, mode: u32, out: &mut Vec<Finding>) {
    let dir = ctx.layout.inbox();
    let Some(s) = stat(&dir, out) else { return };
    if s.mode & 0o1000 == 0 || s.mode & 0o004 != 0 || s.uid != ctx.cluster.service_uid {
        let what = format!(
            "owner {}, mode {:04o}: users could remove or see each other's requests",
            s.uid,
            s.mode & 0o7777
        );
        let todo = format!(
            "chown {0} {1}; chmod {mode:04o} {1}",
            ctx.cluster.service_uid,
            dir.display()
        );
        out.push(Finding::broken("share", dir.display(), what, todo));
    }
    for entry in sys::fs::list_dir(&dir, NAMES_MAX).unwrap_or_default() {
        let path = dir.join(&entry.name);
        let owner = entry.text().and_then(|t| t.parse::<u32>().ok());
        let Some(s) = stat(&path, out) else { continue };
        if owner.is_none_or(|uid| uid != s.uid) || s.mode & 0o002 != 0 {
            let what =
                "it does not belong to the user it is named after, or is writable by everyone";
            let todo = "the leader accepts nothing from it; ask its owner who created it";
            out.push(Finding::warning("share", path.display(), what, todo));
        }
    }
}

fn leftovers(ctx: &Ctx, out: &mut Vec<Finding>) {
    let layout = &ctx.layout;
    let now = sys::clock::wall_ms();
    let dirs = [
        layout.root().to_path_buf(),
        layout.conf_dir(),
        layout.leader_dir(),
        layout.claims_dir(),
        layout.snapshots(),
        layout.view(),
    ];
    for dir in dirs {
        let entries = sys::fs::list_dir(&dir, NAMES_MAX).unwrap_or_default();
        let temporary_files = entries
            .iter()
            .filter(|e| e.text().is_some_and(sys::fs::is_aside));
        let old = temporary_files.filter(|e| {
            let s = sys::fs::stat(&dir.join(&e.name)).ok().flatten();
            s.is_some_and(|s| now.saturating_sub(s.mtime_ms) > OLD_MS)
        });
        let n = old.count();
        if n > 0 {
            let n = count(n, "temporary file");
            let what = format!("{n} ('.*.tmp') older than a day, left by writers that crashed");
            let todo = "no program reads them; they only take up space";
            out.push(Finding::warning("share", dir.display(), what, todo));
        }
    }
    let lost = layout.lost_found();
    let n = sys::fs::list_dir(&lost, NAMES_MAX).map_or(0, |all| all.len());
    if n > 0 {
        let n = count(n, "name");
        let what = format!("{n} set aside: damaged files or unreadable requests");
        let todo = "each has a file '.why' with the reason; no program reads them again";
        out.push(Finding::warning("share", lost.display(), what, todo));
    }
}

fn disk_space(ctx: &Ctx, out: &mut Vec<Finding>) {
    let root = ctx.layout.root();
    let free = match sys::statfs::disk_free(root) {
        Ok(free) => free,
        Err(e) => return out.push(Finding::unreadable("share", &e)),
    };
    let place = root.display();
    let todo = "enlarge the file system, or free space in it outside the cluster's directory; \
        clean_period in cb.yaml determines how long finished jobs are kept";
    let left = format!(
        "{} of {} are free",
        human(free.available),
        human(free.total)
    );
    if free.available < FULL_BYTES.min(free.total / 50) {
        let what = format!("DISK FULL: {left}");
        out.push(Finding::broken("share", place, what, todo));
    } else if free.available < free.total / LOW_PART {
        out.push(Finding::warning("share", place, left, todo));
    }
    let (all, rest) = (free.inodes, free.inodes_available);
    if all == 0 {
        return;
    }
    let left = format!("{rest} of {all} inodes are free");
    if rest < FULL_INODES.min(all / 50) {
        let what = format!("DISK FULL: {left}");
        out.push(Finding::broken("share", root.display(), what, todo));
    } else if rest < all / LOW_PART {
        out.push(Finding::warning("share", root.display(), left, todo));
    }
}

fn mount(ctx: &Ctx, out: &mut Vec<Finding>) {
    let is_accepted = ctx.site.as_ref().is_some_and(|s| s.unsafe_mount);
    for hazard in hazards(&ctx.layout) {
        let place = "mount on this host";
        let todo = "change the mount on every host; see corral-share(5)";
        out.push(if hazard.is_grave && !is_accepted {
            Finding::broken("share", place, hazard.text, todo)
        } else {
            Finding::warning("share", place, hazard.text, todo)
        });
    }
}
