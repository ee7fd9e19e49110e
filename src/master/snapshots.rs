//! Background snapshots: a forked child writes the state as it is at the fork while the leader goes
//! on. A failed one costs nothing: the older snapshot and the journal still stand.

use crate::journal::{Keep, Position, compact, snapshot};
use crate::spool::Layout;
use crate::state::State;
use crate::sys::fork::{Forked, fork_snapshot};
use crate::sys::{clock, failpoint};

/// Journal bytes behind the last snapshot that call for a new one.
const EVERY_BYTES: u64 = 64 << 20;
/// Epochs behind the last snapshot that call for a new one, however little they wrote: each leaves a
/// directory, and all are read by the next leader.
const EVERY_EPOCHS: u64 = 16;
/// Least time between the beginnings of two snapshots, in milliseconds.
const EVERY_MS: u64 = 30_000;

/// When to write snapshots, and the one being written.
pub struct Snapshots {
    layout: Layout,
    cluster: String,
    child: Option<Forked>,
    /// Bytes journalled since the last one began.
    bytes: u64,
    begun_at: u64,
    every: u64,
}

impl Snapshots {
    /// `behind`: bytes and epochs of journal that were replayed at the start. `every`: bytes between
    /// two.
    pub fn new(
        layout: &Layout,
        cluster: &str,
        behind: (u64, u64),
        every: Option<u64>,
    ) -> Snapshots {
        let (layout, cluster) = (layout.clone(), cluster.to_owned());
        let every = every.unwrap_or(EVERY_BYTES);
        let (bytes, epochs) = behind;
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
        }
    }

    fn is_due(&self, now_ms: u64) -> bool {
        let rested = self.begun_at == 0 || now_ms.saturating_sub(self.begun_at) > EVERY_MS;
        self.bytes >= self.every && rested
    }

    /// Notes what was journalled.
    pub fn grew(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Begins a snapshot when one is due, collects a finished one. True when one was finished.
    /// `keep_ms`: how long covered segments stay for history.
    pub fn step(&mut self, state: &State, at: Position, now_ms: u64, keep_ms: u64) -> bool {
        if let Some(child) = &mut self.child {
            return match child.try_wait() {
                Ok(None) => false,
                Ok(Some(code)) => {
                    self.child = None;
                    self.finished(code, keep_ms)
                }
                Err(e) => {
                    tracing::error!("{e}");
                    self.child = None;
                    false
                }
            };
        }
        let due = failpoint::pass("snapshot.due").is_err();
        if due || self.is_due(now_ms) {
            self.begin(state, at, now_ms);
        }
        false
    }

    fn begin(&mut self, state: &State, at: Position, now_ms: u64) {
        self.begun_at = now_ms.max(1);
        self.bytes = 0;
        let (layout, cluster) = (&self.layout, &self.cluster);
        let forked = fork_snapshot(|| match write(layout, cluster, state, at) {
            Ok(()) => 0,
            Err(_) => 1,
        });
        match forked {
            Ok(child) => self.child = Some(child),
            Err(e) => tracing::error!("no snapshot: {e}"),
        }
    }

    fn finished(&self, code: i32, keep_ms: u64) -> bool {
        if code != 0 {
            tracing::error!("a snapshot could not be written (code {code}): is the share full?");
            return false;
        }
        let keep = Keep {
            age_ms: keep_ms,
            ..Keep::default()
        };
        match compact(&self.layout, &self.cluster, keep, clock::wall_ms()) {
            Ok(done) => tracing::info!("snapshot written; removed {done:?}"),
            Err(e) => tracing::warn!("after a snapshot: {e}"),
        }
        true
    }
}

/// Writes a complete snapshot.
///
/// # Errors
/// The file cannot be made or written.
pub fn write(
    layout: &Layout,
    cluster: &str,
    state: &State,
    at: Position,
) -> Result<(), crate::journal::Error> {
    let mut writer = snapshot::Writer::create(layout, cluster, at, clock::wall_ms())?;
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
