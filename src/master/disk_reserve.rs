//! Disk space on the share: the reserve, and the state DISK FULL (docs/journal.md).
//!
//! Owns `reserve/`: filler files. If a write that must not fail finds the share full, one of them
//! is removed and the write is tried again; when none is left, the leader waits and renews its
//! beat. Never decides what is written or in which order.

use super::election::Leadership;
use super::leader_end::LeaderEnd;
use crate::spool::Layout;
use crate::sys::statfs::{self, DiskFree};
use crate::sys::{self, clock, fs, service, thread};
use crossbeam::channel::Receiver;

/// Number of parts of the reserve.
const PARTS: u32 = 16;
/// Size of the whole reserve in bytes; on a small file system, one part in [`SHARE`] of the file
/// system.
const RESERVE: u64 = 32 << 20;
const SHARE: u64 = 16;
/// Minimum size of a part: a smaller one could not hold a segment and a view.
const PART_MIN: u64 = 16 << 10;
/// How often the free space is checked, in milliseconds; less often if there is plenty: if a share
/// fills faster, the write that fails shows it.
const POLL_MS: u64 = 1000;
const AMPLE_POLL_MS: u64 = 10_000;
const AMPLE_BYTES: u64 = 1 << 30;
/// How often a write is tried while nothing can be written, in milliseconds.
const RETRY_MS: u64 = 1000;
/// How often a part is released so that hosts can report on their jobs, in milliseconds. This stops
/// at half of the reserve.
const RELEASE_MS: u64 = 10_000;

/// The reserve, and the known free space on the share.
pub(super) struct DiskReserve {
    layout: Layout,
    /// Size of one part; 0 = no reserve.
    part: u64,
    /// Number of parts that exist.
    parts: u32,
    /// Since when the share is full (boot clock, ms), and the first message about it.
    full: Option<(u64, String)>,
    checked_at: u64,
    released_at: u64,
    free: Option<u64>,
    /// Parts of an existing reserve are missing: DISK FULL was in force.
    used_before: bool,
}

impl DiskReserve {
    /// `bytes`: size of the reserve; `None` = derived from the size of the file system. Existing
    /// parts are taken over; [`DiskReserve::maintain`] creates the others.
    pub(super) fn new(layout: &Layout, bytes: Option<u64>) -> DiskReserve {
        let by_size = |free: DiskFree| (free.total / SHARE).min(RESERVE);
        let bytes = bytes.or_else(|| statfs::disk_free(layout.root()).ok().map(by_size));
        let part = bytes.filter(|b| *b > 0).map_or(0, |bytes| {
            (bytes / u64::from(PARTS)).max(PART_MIN) / 4096 * 4096
        });
        let mut reserve = DiskReserve {
            layout: layout.clone(),
            part,
            parts: 0,
            full: None,
            checked_at: 0,
            released_at: 0,
            free: None,
            used_before: false,
        };
        reserve.parts = (0..PARTS).filter(|n| reserve.part_exists(*n)).count() as u32;
        reserve.used_before = reserve.parts < PARTS && fs::exists(&layout.reserve());
        reserve
    }

    fn part_exists(&self, n: u32) -> bool {
        let stat = fs::stat(&self.layout.reserve_part(n));
        // A part of another size was left by an interrupted leader, or was made by another rule.
        matches!(stat, Ok(Some(s)) if s.len == self.part)
    }

    /// Whether DISK FULL is in force.
    pub(super) fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// Whether small requests may still be taken: half of the reserve is for the reports of hosts.
    pub(super) fn may_spend(&self) -> bool {
        self.parts > PARTS / 2
    }

    /// The alarm for administrators, if there is one.
    pub(super) fn alarm(&self) -> Option<String> {
        let (since, why) = self.full.as_ref()?;
        let minutes = clock::boot_ms().saturating_sub(*since) / 60_000;
        let free = self
            .free
            .map_or_else(String::new, |b| format!(", {} kB free", b >> 10));
        Some(format!(
            "DISK FULL for {minutes} min: {}{free}, {} of {PARTS} parts of the reserve left: no \
             submission is accepted and no job is started until there is space; first failure: \
             {why}",
            self.layout.root().display(),
            self.parts
        ))
    }

    /// Puts DISK FULL in force, because a write found no room.
    pub(super) fn enter_disk_full(&mut self, why: &str, leadership: &Leadership) {
        if self.full.is_none() {
            tracing::error!("DISK FULL: {why}: no submission is accepted and no job is started");
            self.full = Some((clock::boot_ms(), why.to_owned()));
            leadership.set_full(true);
        }
    }

    /// Makes room for a write of `need` bytes that must not fail but found no room. Returns when
    /// another attempt makes sense: each attempt may leave an incomplete file.
    ///
    /// # Errors
    /// Leadership was lost meanwhile, or the process must stop.
    pub(super) fn make_room(
        &mut self,
        need: u64,
        why: &str,
        leadership: &Leadership,
        stop: &Receiver<i32>,
    ) -> Result<(), LeaderEnd> {
        self.enter_disk_full(why, leadership);
        let parts = match self.part {
            0 => 0,
            part => u32::try_from(need / part)
                .unwrap_or(u32::MAX)
                .saturating_add(1),
        };
        if self.part > 0 && self.release_parts(parts) {
            return Ok(());
        }
        loop {
            service::alive();
            if thread::recv_timeout(stop, RETRY_MS).is_ok() {
                return Err(LeaderEnd::Stopped);
            }
            if leadership.is_lost() {
                return Err(LeaderEnd::Lost(format!(
                    "no space until the lease expired: {why}"
                )));
            }
            // Whatever can be created can be released.
            while self.part > 0 && self.parts < parts.min(PARTS) && self.create_part().is_ok() {}
            if self.part == 0 || self.release_parts(parts) {
                return Ok(());
            }
        }
    }

    /// Releases this many parts, or none; all possible parts are always enough.
    fn release_parts(&mut self, parts: u32) -> bool {
        let parts = parts.min(PARTS);
        self.parts >= parts && (0..parts).all(|_| self.release_part())
    }

    /// Releases a part for a write that can wait, if half of the reserve remains.
    pub(super) fn release_for_deferrable(&mut self) {
        if self.may_spend() {
            self.release_part();
        }
    }

    /// Removes a part of the reserve. Returns false if none is left.
    fn release_part(&mut self) -> bool {
        let removed = remove_part(&self.layout);
        match removed {
            true => self.parts = self.parts.saturating_sub(1),
            false => self.parts = 0,
        }
        self.released_at = clock::boot_ms();
        removed
    }

    /// Creates a missing part of the reserve.
    fn create_part(&mut self) -> sys::Result<()> {
        let Some(n) = (0..PARTS).find(|n| !self.part_exists(*n)) else {
            self.parts = PARTS;
            return Ok(());
        };
        fs::mkdir_p(&self.layout.reserve(), 0o755)?;
        fs::remove(&self.layout.reserve_part(n))?;
        fs::create_with_space(&self.layout.reserve_part(n), self.part)?;
        self.parts += 1;
        Ok(())
    }

    /// Whether a write finds room on the share now, even if another one found none.
    pub(super) fn has_room(&self) -> bool {
        self.full.is_none() && self.probe()
    }

    fn probe(&self) -> bool {
        let path = self.layout.reserve().join("probe");
        let made = fs::mkdir_p(&self.layout.reserve(), 0o755)
            .and_then(|()| fs::remove(&path))
            .and_then(|()| fs::create_with_space(&path, self.part.max(4096)))
            .and_then(|()| fs::remove(&path));
        made.is_ok()
    }

    /// Checks the free space from time to time, creates missing parts of the reserve, and ends DISK
    /// FULL when the reserve is complete again. Returns true if the state changed.
    pub(crate) fn maintain(&mut self, now: u64, leadership: &Leadership) -> bool {
        let plenty = self.free.is_some_and(|free| free > AMPLE_BYTES) && !self.is_full();
        let every = if plenty { AMPLE_POLL_MS } else { POLL_MS };
        if now.saturating_sub(self.checked_at) < every {
            return false;
        }
        self.checked_at = now;
        let before = self.is_full();
        self.free = statfs::disk_free(self.layout.root())
            .ok()
            .map(|d| d.available);
        if let Some(free) = self.free.filter(|free| *free < self.part) {
            self.enter_disk_full(&format!("{} kB are free", free >> 10), leadership);
            let hosts_wait = free < self.part / 4 && self.parts > PARTS / 2;
            if before && hosts_wait && now.saturating_sub(self.released_at) >= RELEASE_MS {
                self.release_part();
            }
            return !before;
        }
        // The same amount must stay free beside each part, so that the state does not return at
        // once.
        let enough = |free: Option<u64>, part: u64| free.is_none_or(|free| free > 3 * part);
        while self.part > 0 && self.parts < PARTS && enough(self.free, self.part) {
            if let Err(e) = self.create_part() {
                if !e.is_no_space() {
                    // The failure is not a lack of room: a part that cannot be created is not
                    // waited for.
                    tracing::error!("{e}: this leader has no reserve for a full share");
                    self.part = 0;
                }
                break;
            }
            self.free = self.free.map(|free| free.saturating_sub(self.part));
        }
        let whole = self.part == 0 || self.parts == PARTS;
        if self.used_before && !whole {
            self.enter_disk_full("an earlier leader used a part of the reserve", leadership);
        }
        self.used_before = false;
        // Free space that cannot be written to does not count.
        if before && whole && enough(self.free, self.part) && self.probe() {
            tracing::info!("DISK FULL is over: there is free space, and the reserve is complete");
            self.full = None;
            leadership.set_full(false);
        }
        before != self.is_full()
    }
}

/// Removes one part of the reserve. Returns false if none is left.
pub(super) fn remove_part(layout: &Layout) -> bool {
    (0..PARTS).rev().any(|n| {
        let path = layout.reserve_part(n);
        fs::exists(&path) && fs::remove(&path).is_ok()
    })
}
