//! Background snapshots: a forked child writes the state at the moment of the fork while the leader
//! continues. A failed snapshot costs nothing: the older snapshot and the journal are still there.
//! A child that hangs in the share is ended, and another snapshot is tried later; the leader never
//! waits for it.

use crate::journal::{Position, Retention, compact, snapshot};
use crate::spool::Layout;
use crate::state::State;
use crate::sys::fork::{Forked, fork_snapshot};
use crate::sys::{clock, failpoint};

/// Number of journal bytes since the last snapshot at which a new one is due.
const EVERY_BYTES: u64 = 64 << 20;
/// Number of epochs since the last snapshot at which a new one is due, even if they wrote little:
/// each leaves a directory, and the next leader reads all of them.
const EVERY_EPOCHS: u64 = 16;
/// Minimum time between the starts of two snapshots, in milliseconds.
const EVERY_MS: u64 = 30_000;

/// A writer that takes longer than this hangs, in milliseconds.
const LIMIT_MS: u64 = 900_000;
/// First and longest pause after a failure, in milliseconds.
const PAUSE_MS: (u64, u64) = (60_000, 1_800_000);
/// Maximum number of writers that were killed but still exist: each holds a copy of the state.
const HUNG_MAX: usize = 2;

/// Schedules snapshots and holds the one that is being written.
pub(super) struct Snapshots {
    layout: Layout,
    cluster: String,
    child: Option<Forked>,
    /// Bytes written to the journal since the last snapshot began.
    bytes: u64,
    begun_at: u64,
    every: u64,
    /// Writers that were killed and cannot end before the share answers them.
    hung_writers: Vec<Forked>,
    /// Why the last one failed, and since when none has succeeded (boot clock, ms).
    failed: Option<(String, u64)>,
    /// A snapshot was requested but could not begin yet.
    requested: bool,
    /// The pause after the last failure, and its end.
    pause: u64,
    not_before: u64,
}

impl Snapshots {
    /// `backlog`: bytes and epochs of journal that were replayed at the start. `every`: bytes
    /// between two snapshots.
    pub(super) fn new(
        layout: &Layout,
        cluster: &str,
        backlog: (u64, u64),
        every: Option<u64>,
    ) -> Snapshots {
        let (layout, cluster) = (layout.clone(), cluster.to_owned());
        let every = every.unwrap_or(EVERY_BYTES);
        let (bytes, epochs) = backlog;
        Snapshots {
            layout,
            cluster,
            child: None,
            bytes: match epochs {
                EVERY_EPOCHS.. => bytes.max(every),
                _ => bytes,
            },
            begun_at: 0,
            every,
            hung_writers: Vec::new(),
            failed: None,
            requested: false,
            pause: 0,
            not_before: 0,
        }
    }

    fn is_due(&self, now_ms: u64) -> bool {
        let rested = self.begun_at == 0 || now_ms.saturating_sub(self.begun_at) > EVERY_MS;
        let may = rested && now_ms >= self.not_before && self.hung_writers.len() < HUNG_MAX;
        may && (self.bytes >= self.every || self.failed.is_some())
    }

    /// The alarm for administrators: no snapshot can be written, so the journal grows.
    pub(super) fn alarm(&self) -> Option<String> {
        let (why, since) = self.failed.as_ref()?;
        let minutes = self.not_before.saturating_sub(*since) / 60_000;
        Some(format!(
            "no snapshot could be written for {minutes} min: {why}; the journal grows until one \
             is written ({} MB since the last attempt): {}",
            self.bytes >> 20,
            self.layout.snapshots().display()
        ))
    }

    /// Notes how many bytes were written to the journal.
    pub(super) fn note_written(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Starts a snapshot if one is due, and collects a finished one. Returns true if one was
    /// finished. `keep`: what is kept of the data it covers. `may_begin`: all ends of jobs that it
    /// would cover are durable in accounting.
    pub(super) fn step(
        &mut self,
        state: &State,
        at: Position,
        now_ms: u64,
        (keep, may_begin): (Retention, bool),
    ) -> bool {
        self.hung_writers
            .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        if let Some(mut child) = self.child.take() {
            match child.try_wait() {
                Ok(None) if now_ms.saturating_sub(self.begun_at) > LIMIT_MS => {
                    self.give_up(child, now_ms);
                }
                Ok(None) => self.child = Some(child),
                Ok(Some(0)) => return self.finished(keep),
                Ok(Some(code)) => self.fail(reason(code), now_ms),
                Err(e) => self.fail(e.to_string(), now_ms),
            }
            return false;
        }
        self.requested |= failpoint::pass("snapshot.due").is_err();
        if self.must_begin(now_ms) && may_begin {
            self.begin(state, at, now_ms);
        }
        false
    }

    /// Whether a snapshot must begin as soon as it may.
    pub(super) fn must_begin(&self, now_ms: u64) -> bool {
        self.child.is_none() && (self.requested || self.is_due(now_ms))
    }

    /// Ends a writer that hangs. A writer that waits for a file server ends when that answers.
    fn give_up(&mut self, child: Forked, now_ms: u64) {
        child.kill();
        let (pid, minutes) = (child.pid(), LIMIT_MS / 60_000);
        self.hung_writers.push(child);
        let text = format!(
            "its writer (pid {pid}) was killed because it had not ended after \
            {minutes} min"
        );
        self.fail(text, now_ms);
    }

    fn fail(&mut self, why: String, now_ms: u64) {
        tracing::error!("no snapshot: {why}");
        self.pause = (self.pause * 2).clamp(PAUSE_MS.0, PAUSE_MS.1);
        self.not_before = now_ms + self.pause;
        let since = self.failed.take().map_or(self.begun_at, |(_, since)| since);
        self.failed = Some((why, since));
    }

    fn begin(&mut self, state: &State, at: Position, now_ms: u64) {
        self.begun_at = now_ms.max(1);
        (self.bytes, self.requested) = (0, false);
        let (layout, cluster) = (&self.layout, &self.cluster);
        let forked = fork_snapshot(|| match write(layout, cluster, state, at) {
            Ok(()) => 0,
            Err(e) => e.errno().filter(|n| (1..100).contains(n)).unwrap_or(100),
        });
        match forked {
            Ok(child) => self.child = Some(child),
            Err(e) => self.fail(e.to_string(), now_ms),
        }
    }

    fn finished(&mut self, keep: Retention) -> bool {
        (self.failed, self.pause) = (None, 0);
        match compact(&self.layout, &self.cluster, keep, clock::wall_ms()) {
            Ok(done) => tracing::info!("snapshot written; removed {done:?}"),
            Err(e) => tracing::warn!("after a snapshot: {e}"),
        }
        true
    }
}

/// The meaning of a writer's exit code: an error of the system, a signal, or something else.
fn reason(code: i32) -> String {
    match code {
        1..100 => crate::sys::reason(&std::io::Error::from_raw_os_error(code)),
        129.. => format!("its writer was killed by signal {}", code - 128),
        _ => format!("its writer ended with code {code}"),
    }
}

/// Writes a complete snapshot.
///
/// # Errors
/// The file cannot be created or written.
pub(super) fn write(
    layout: &Layout,
    cluster: &str,
    state: &State,
    at: Position,
) -> Result<(), crate::journal::Error> {
    let mut writer = snapshot::SnapshotWriter::create(layout, cluster, at, clock::wall_ms())?;
    for record in state.snapshot() {
        writer.push(&record)?;
        failpoint::hit("snapshot.writing");
    }
    failpoint::hit("snapshot.before_rename");
    writer.finish().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fs;

    const AT: Position = Position {
        epoch: 1,
        segment: 1,
        bytes: 0,
        seq: 1,
    };

    fn bed() -> (tempfile::TempDir, Snapshots) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        for dir in [layout.snapshots(), layout.epochs()] {
            fs::mkdir_p(&dir, 0o755).unwrap();
        }
        let snapshots = Snapshots::new(&layout, "c", (0, 0), Some(1 << 30));
        (dir, snapshots)
    }

    /// Takes steps at `now` until the child has ended. Returns whether a snapshot was finished.
    fn run_to_end(snapshots: &mut Snapshots, now: u64) -> bool {
        let state = State::new();
        let end = clock::boot_ms() + 120_000;
        while clock::boot_ms() < end {
            if snapshots.step(&state, AT, now, (Retention::default(), true)) {
                return true;
            }
            if snapshots.child.is_none() && snapshots.hung_writers.is_empty() {
                return false;
            }
            clock::sleep_ms(5);
        }
        panic!("the writer does not end");
    }

    #[test]
    fn none_begins_while_ends_are_not_accounted() {
        let (_dir, mut snapshots) = bed();
        snapshots.note_written(1 << 30);
        assert!(snapshots.must_begin(1_000));
        assert!(!snapshots.step(&State::new(), AT, 1_000, (Retention::default(), false)));
        assert!(snapshots.child.is_none() && snapshots.must_begin(2_000));
        assert!(run_to_end(&mut snapshots, 3_000));
    }

    #[test]
    fn a_writer_that_hangs_is_killed_and_another_one_is_tried_later() {
        let (_dir, mut snapshots) = bed();
        let hangs = || {
            clock::sleep_ms(120_000);
            0
        };
        snapshots.child = Some(fork_snapshot(hangs).unwrap());
        snapshots.begun_at = 1;
        let state = State::new();
        assert!(!snapshots.step(&state, AT, LIMIT_MS, (Retention::default(), true)));
        assert!(snapshots.child.is_some() && snapshots.alarm().is_none());
        let late = LIMIT_MS + 2;
        assert!(!run_to_end(&mut snapshots, late));
        let alarm = snapshots.alarm().unwrap();
        assert!(alarm.contains("had not ended after 15 min"), "{alarm}");
        assert!(!snapshots.step(
            &state,
            AT,
            late + PAUSE_MS.0 - 1,
            (Retention::default(), true)
        ));
        assert!(snapshots.child.is_none(), "too soon");
        assert!(run_to_end(&mut snapshots, late + PAUSE_MS.0));
        assert_eq!(snapshots.alarm(), None);
    }

    #[test]
    fn a_directory_that_takes_no_snapshot_is_named_and_tried_ever_more_rarely() {
        let (_dir, mut snapshots) = bed();
        let dir = snapshots.layout.snapshots();
        fs::remove_dir(&dir).unwrap();
        fs::publish(&dir, b"in the way").unwrap();
        snapshots.bytes = 1 << 30;
        let (mut now, mut waits) = (1_000, Vec::new());
        for _ in 0..7 {
            assert!(!run_to_end(&mut snapshots, now));
            assert!(!run_to_end(&mut snapshots, now), "not at once again");
            waits.push((snapshots.not_before - now) / 60_000);
            now = snapshots.not_before;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        let alarm = snapshots.alarm().unwrap();
        assert!(alarm.contains("Not a directory"), "{alarm}");
        fs::remove(&dir).unwrap();
        fs::mkdir_p(&dir, 0o755).unwrap();
        assert!(run_to_end(&mut snapshots, now));
        assert_eq!(snapshots.alarm(), None);
    }

    #[test]
    fn writers_that_cannot_die_do_not_pile_up() {
        let (_dir, mut snapshots) = bed();
        let stopped = || {
            clock::sleep_ms(120_000);
            0
        };
        snapshots.hung_writers = (0..HUNG_MAX)
            .map(|_| fork_snapshot(stopped).unwrap())
            .collect();
        snapshots.bytes = 1 << 30;
        assert!(!snapshots.step(&State::new(), AT, 1_000_000, (Retention::default(), true)));
        assert!(snapshots.child.is_none());
        snapshots.hung_writers.iter().for_each(Forked::kill);
        assert!(run_to_end(&mut snapshots, 1_000_000) || run_to_end(&mut snapshots, 1_000_001));
    }

    #[test]
    fn leaders_that_write_little_make_a_snapshot_now_and_then() {
        let layout = Layout::new("/nowhere");
        let of = |epochs| Snapshots::new(&layout, "c", (1000, epochs), None);
        assert!(!of(15).is_due(1));
        let mut s = of(16);
        assert!(s.is_due(1));
        (s.begun_at, s.bytes) = (1, 0);
        assert!(!s.is_due(1_000_000), "once is enough");
    }
}
