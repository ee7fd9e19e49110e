//! The published view, read once for all clients and again when it has changed.
//!
//! Owns the copy in memory. It contains the jobs of all users; [`VisibleJobs`] decides at each
//! request what a user may see. Takes no lock of the cluster and writes nothing.

use corral::api::Failure;
use corral::api::jobs::{JobIndex, JobSums, ViewMark, VisibleJobs};
use corral::api::read::{ClusterHead, Reader, Waits};
use corral::record::view::{HostRow, QueueRow};
use corral::spool::Site;
use corral::sys;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::watch;

/// Interval between two checks of the view, ms.
pub const POLL_MS: u64 = 1_000;
/// Reading all jobs may take this fraction of the time, so that a million of them load neither this
/// process nor the file server: after a reading that took a second, the next one is ten seconds
/// later at the earliest.
const SHARE: u64 = 10;

/// The cluster at one moment.
#[derive(Default)]
pub struct Snapshot {
    pub head: ClusterHead,
    pub queues: Vec<QueueRow>,
    pub hosts: Vec<HostRow>,
    pub jobs: Arc<JobIndex>,
    /// When the jobs were read, ms since 1970.
    pub read_at: i64,
    /// Why the last check failed; the other fields are then older.
    pub failure: Option<String>,
    mark: ViewMark,
    /// The view from which the jobs were read, and when they may be read again, ms since boot.
    jobs_mark: ViewMark,
    not_before: u64,
}

/// See the top of this file.
pub struct Cluster {
    reader: Reader,
    snapshot: RwLock<Arc<Snapshot>>,
    /// One reading at a time.
    reading: Mutex<()>,
    changes: watch::Sender<u64>,
}

impl Cluster {
    /// A copy read as this process's user; it serves all users.
    pub fn new(site: &Site) -> Cluster {
        Cluster {
            reader: Reader::new(site, sys::users::current_user()),
            snapshot: RwLock::default(),
            reading: Mutex::new(()),
            changes: watch::channel(0).0,
        }
    }

    /// The last copy that was read.
    pub fn now(&self) -> Arc<Snapshot> {
        self.snapshot
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A counter of the changes of the view.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Checks the view and reads what has changed. Blocks. `at_once`: reads the jobs even if they
    /// were read a moment ago, for a user who has just changed one.
    pub fn refresh(&self, at_once: bool) {
        let _one = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.now();
        let new = match self.read(&old, at_once) {
            Ok(None) => return,
            Ok(Some(new)) => new,
            Err(failure) if old.failure.as_ref() == Some(&failure.text) => return,
            Err(failure) => Snapshot {
                head: old.head.clone(),
                queues: old.queues.clone(),
                hosts: old.hosts.clone(),
                jobs: old.jobs.clone(),
                read_at: old.read_at,
                failure: Some(failure.text),
                ..Snapshot::default()
            },
        };
        let renewed = !Arc::ptr_eq(&old.jobs, &new.jobs);
        *self
            .snapshot
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        self.changes.send_modify(|n| *n += 1);
        drop(old);
        if renewed {
            // For a moment, there were two copies of all jobs in memory.
            sys::memory::release_freed();
        }
    }

    /// A newer copy; `None`: nothing has changed.
    fn read(&self, old: &Snapshot, at_once: bool) -> Result<Option<Snapshot>, Failure> {
        let mark = ViewMark::current_mark(&self.reader)?;
        let is_due = at_once || sys::clock::boot_ms() >= old.not_before;
        let renew = is_due && !mark.has_jobs_of(&old.jobs_mark);
        let head = self.reader.head()?;
        let is_same = head.silent_ms.is_some() == old.head.silent_ms.is_some();
        if mark == old.mark && !renew && is_same && old.failure.is_none() {
            return Ok(None);
        }
        let mut new = Snapshot {
            head,
            queues: self.reader.queues()?,
            hosts: self.reader.hosts()?,
            jobs: old.jobs.clone(),
            read_at: old.read_at,
            failure: None,
            mark: mark.clone(),
            jobs_mark: old.jobs_mark.clone(),
            not_before: old.not_before,
        };
        if renew {
            let begun = sys::clock::boot_ms();
            new.read_at = sys::clock::wall_ms();
            new.jobs = Arc::new(JobIndex::read(&self.reader)?);
            let took = sys::clock::boot_ms().saturating_sub(begun);
            new.jobs_mark = mark;
            new.not_before = sys::clock::boot_ms() + took * SHARE;
        }
        Ok(Some(new))
    }

    /// The figures of `cadmin metrics` as the user of this process sees them. Blocks.
    ///
    /// # Errors
    /// The view cannot be read.
    pub fn metrics(&self) -> Result<String, Failure> {
        self.reader.metrics()
    }

    /// Jobs by queue and user as the user of this process sees them; `None`: unknown. Blocks.
    pub fn sums(&self, now: i64) -> Option<JobSums> {
        let visible = VisibleJobs::of(&self.reader).ok()?;
        Some(self.now().jobs.sums(&visible, now))
    }

    /// How long jobs waited for their first start. Blocks.
    ///
    /// # Errors
    /// The view cannot be read.
    pub fn waits(&self) -> Result<Waits, Failure> {
        self.reader.waiting_times()
    }

    /// The jobs that a user may see.
    ///
    /// # Errors
    /// The view cannot be read.
    pub fn visible_jobs(reader: &Reader) -> Result<VisibleJobs, Failure> {
        VisibleJobs::of(reader)
    }
}

/// Checks the view repeatedly until the portal ends.
pub async fn watch(app: crate::App) {
    let mut ending = app.ending.clone();
    let mut pause = tokio::time::interval(std::time::Duration::from_millis(POLL_MS));
    pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = pause.tick() => {}
            _ = ending.wait_for(|ending| *ending) => return,
        }
        let app = app.clone();
        let _ = tokio::task::spawn_blocking(move || {
            app.cluster.refresh(false);
            app.sample(sys::clock::wall_ms());
        })
        .await;
    }
}
