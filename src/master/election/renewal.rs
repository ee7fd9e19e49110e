//! The threads of a leader that keep its lease: `beat`, `look` and `watchdog`.
//!
//! * `beat` overwrites `leader/beat` through an open descriptor and does nothing else: bulk data of
//!   the leader on the same share delays each answer of the server, and this takes one or two.
//! * `look` checks `leader/epoch`, and proves or tries the election lock. It may be slower.
//! * `watchdog` reads only the clock and atomics, so that a hanging share cannot keep it from
//!   ending the leadership.
//!
//! After the loss of leadership nothing is written and nothing is cleaned up.

use super::{LeadershipLost, LockState, encode, read_fixed, try_lock};
use crate::lease::{Check, Settings as Rules, Verdict, check_overdue, judge, lease_over};
use crate::record::leader::{BeatDoc, EpochDoc, FIXED_LEN};
use crate::spool::Layout;
use crate::spool::polling::ChangeGate;
use crate::sys;
use crate::sys::clock;
use crate::sys::overwrite_file::{self, OverwriteFile};
use crate::sys::thread::{self, Thread};
use crate::sys::trust::Owners;
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How often a slow renewal is logged (ms).
const COMPLAIN_MS: u64 = 60_000;

/// For how long a process that has lost leadership waits for its log before it ends (ms): far less
/// than the time between the end of a lease and a takeover.
const LOG_MS: u64 = 200;

/// Data that the leader's threads share.
#[derive(Debug)]
pub(super) struct RenewalState {
    pub layout: Layout,
    pub rules: Rules,
    pub check: Check,
    pub owners: Owners,
    pub own_doc: EpochDoc,
    pub local: bool,
    /// When the last successful renewal was sent (boot clock, ms): no process saw it earlier.
    pub renewed: AtomicU64,
    /// When the last successful check of the epoch began (boot clock, ms).
    pub epoch_checked: AtomicU64,
    pub leading: AtomicBool,
    /// DISK FULL, for readers of the beat.
    pub full: AtomicBool,
    /// The lock of the election is held, for readers of the beat.
    pub locked: AtomicBool,
    pub lost: AtomicBool,
    /// The reason of the loss is in the log.
    pub logged: AtomicBool,
    /// `leader/beat` was found damaged, and no alarm was raised yet.
    pub beat_damaged: AtomicBool,
    /// Device and inode of the open beat file, until another file is found under its name.
    pub beat: Mutex<Option<(u64, u64)>>,
}

impl RenewalState {
    pub(super) fn check_lease(&self) -> Result<(), LeadershipLost> {
        if self.lost.load(Ordering::Acquire) {
            return Err(LeadershipLost(
                "another thread of this process has detected it".into(),
            ));
        }
        let now = clock::boot_ms();
        let renewed = self.renewed.load(Ordering::Acquire);
        if lease_over(&self.rules, renewed, now) {
            let ms = now.saturating_sub(renewed);
            return Err(self.lose(format!("the beat could not be renewed for {ms} ms")));
        }
        let looked = self.epoch_checked.load(Ordering::Acquire);
        if check_overdue(&self.rules, looked, now) {
            let ms = now.saturating_sub(looked);
            return Err(self.lose(format!("the epoch could not be checked for {ms} ms")));
        }
        Ok(())
    }

    /// Records the loss of leadership. The thread that finds it first gives the reason: the others
    /// only see the flag.
    fn lose(&self, why: String) -> LeadershipLost {
        let lost = LeadershipLost(why);
        if !self.lost.swap(true, Ordering::AcqRel) {
            tracing::error!("{lost}");
            self.logged.store(true, Ordering::Release);
        }
        lost
    }

    /// Waits until the thread that found the loss has logged the reason: this process ends next.
    /// Logging may hang, too.
    fn wait_for_log(&self) {
        for _ in 0..LOG_MS {
            if self.logged.load(Ordering::Acquire) {
                return;
            }
            clock::sleep_ms(1);
        }
    }

    /// Checks `leader/epoch` past all caches. If its mark equals that of the last check that read
    /// it, and was older than one tick of the server's clock at that time, its content is
    /// unchanged: that takes one request to a file server. Otherwise the file is opened, read and
    /// closed. `gate` belongs to the caller: what another thread is about to read has not been
    /// read.
    pub(super) fn check_epoch(&self, gate: &mut ChangeGate) -> Result<(), LeadershipLost> {
        let mark = sys::fs::mark(&self.layout.epoch());
        // Taken after the answer: the mark must not seem older than it is.
        let now = clock::boot_ms();
        if mark.is_ok_and(|mark| !gate.must_read(mark, now)) {
            return Ok(());
        }
        let read = match read_fixed::<EpochDoc>(&self.layout.epoch(), self.owners) {
            Ok(read) => read,
            Err(e) => return Err(self.lose(e.to_string())),
        };
        match judge(&self.own_doc, read.as_ref()) {
            Verdict::Mine => Ok(()),
            Verdict::Higher | Verdict::Lower => {
                let found = read.map_or_else(|| "damage".to_owned(), |d| d.epoch.to_string());
                let own = self.own_doc.epoch;
                Err(self.lose(format!("the epoch file names {found}, not {own}")))
            }
        }
    }

    /// Notes whether the present beat is damaged. The next one replaces it, so that this may be the
    /// only look at the damage.
    fn look_at_beat(&self) {
        if let Ok(None) = read_fixed::<BeatDoc>(&self.layout.beat(), self.owners) {
            self.beat_damaged.store(true, Ordering::Release);
        }
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    fn open_beat(&self) -> std::sync::MutexGuard<'_, Option<(u64, u64)>> {
        self.beat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running threads. When this is dropped, they end and the lock is released.
#[derive(Debug)]
pub(super) struct RenewalThreads {
    /// A message wakes the beat; when it is disconnected, the threads end.
    stop: Option<(Sender<()>, Sender<()>)>,
    threads: Vec<Thread>,
}

impl RenewalThreads {
    /// Starts the threads. `count`: of the beat before the first one; `on_lost` as for `campaign`.
    pub(super) fn start(
        shared: &Arc<RenewalState>,
        lock: LockState,
        count: u64,
        on_lost: impl Fn(&LeadershipLost) + Send + 'static,
    ) -> RenewalThreads {
        let (wake, stopped) = bounded(1);
        let (end_look, look_ended) = bounded(1);
        let (alive, ended) = bounded::<()>(0);
        let mut beat = Beat {
            shared: shared.clone(),
            file: None,
            count,
            logged_at: None,
        };
        let mut look = EpochChecker {
            shared: shared.clone(),
            lock,
            epoch: ChangeGate::default(),
        };
        let watched = shared.clone();
        let threads = vec![
            spawn("beat", move || {
                let shared = beat.shared.clone();
                call_at_interval(&shared, &stopped, "renewing the lease", || beat.renew());
                drop(alive);
            }),
            spawn("look", move || {
                let shared = look.shared.clone();
                call_at_interval(&shared, &look_ended, "checking the lease", || {
                    look.check_epoch()
                });
            }),
            spawn("watchdog", move || watchdog(&watched, &ended, on_lost)),
        ];
        RenewalThreads {
            stop: Some((wake, end_look)),
            threads,
        }
    }

    /// Writes the beat at once, so that waiting commands see what it states.
    pub(super) fn wake_beat(&self) {
        if let Some((wake, _)) = &self.stop {
            let _ = wake.try_send(());
        }
    }
}

impl Drop for RenewalThreads {
    fn drop(&mut self) {
        self.stop = None;
        // A thread may hang on the share: the thread that drops this must not.
        let deadline = clock::boot_ms() + 200;
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && clock::boot_ms() < deadline {
                clock::sleep_ms(2);
            }
            if thread.is_finished() {
                thread.join();
            }
        }
    }
}

pub(super) fn spawn(name: &str, f: impl FnOnce() + Send + 'static) -> Thread {
    thread::spawn(name, 256 << 10, f).expect("a daemon that cannot start a few threads cannot lead")
}

/// Calls a function every T/6 from start to start, or as fast as possible.
fn call_at_interval(
    shared: &RenewalState,
    stopped: &Receiver<()>,
    what: &str,
    mut act: impl FnMut() -> sys::Result<()>,
) {
    let every = shared.rules.renew_ms();
    let mut complained = false;
    while !shared.is_lost() {
        let began = clock::boot_ms();
        match act() {
            Ok(()) => complained = false,
            Err(e) if !complained => {
                tracing::warn!("{what}: {e}");
                complained = true;
            }
            Err(_) => {}
        }
        let took = clock::boot_ms().saturating_sub(began);
        let pause = every.saturating_sub(took).max(1);
        if thread::recv_timeout(stopped, pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// Reads only the clock and atomics. `ended` is disconnected when the beat ended in good order.
fn watchdog(shared: &RenewalState, ended: &Receiver<()>, on_lost: impl Fn(&LeadershipLost)) {
    let every = (shared.rules.takeover_ms / 24).clamp(20, 500);
    loop {
        if let Err(lost) = shared.check_lease() {
            shared.wait_for_log();
            on_lost(&lost);
            return;
        }
        match thread::recv_timeout(ended, every) {
            Err(RecvTimeoutError::Timeout) => {}
            _ if shared.is_lost() => {}
            _ => return,
        }
    }
}

/// The thread that renews the beat.
struct Beat {
    shared: Arc<RenewalState>,
    file: Option<OverwriteFile>,
    count: u64,
    logged_at: Option<u64>,
}

impl Beat {
    fn renew(&mut self) -> sys::Result<()> {
        let shared = self.shared.clone();
        let path = shared.layout.beat();
        let doc = BeatDoc {
            epoch: shared.own_doc.epoch,
            beat: self.count + 1,
            leading: shared.leading.load(Ordering::Acquire),
            full: shared.full.load(Ordering::Acquire),
            locked: shared.locked.load(Ordering::Acquire),
            fresh: shared.own_doc.fresh,
        };
        let bytes = encode(&path, &doc)?;
        let began = clock::boot_ms();
        // On a network this would take requests of which the renewal cannot wait: see the look.
        if shared.local {
            shared.look_at_beat();
        }
        let known = *shared.open_beat();
        let file = match self.file.take() {
            Some(file) if known == Some(file.id()) => file,
            _ => {
                let file = OverwriteFile::open(&path, Some(FIXED_LEN as u64))?;
                *shared.open_beat() = Some(file.id());
                file
            }
        };
        // Opening may have taken long. What counts is when others may see the beat, which is not
        // before it is sent. After an error the file is reopened.
        let sent = clock::boot_ms();
        if shared.is_lost() {
            return Ok(());
        }
        file.overwrite(&bytes, !shared.local)?;
        self.file = Some(file);
        self.count += 1;
        shared.renewed.store(sent, Ordering::Release);
        self.log_slow_renewal(began);
        Ok(())
    }

    /// Logs when renewals take so long that T is too short for this share.
    fn log_slow_renewal(&mut self, began: u64) {
        let now = clock::boot_ms();
        let took = now.saturating_sub(began);
        let rested = |at| now.saturating_sub(at) > COMPLAIN_MS;
        if took > self.shared.rules.renew_ms() && self.logged_at.is_none_or(rested) {
            tracing::warn!(
                "renewing the lease took {took} ms: {}",
                self.shared.rules.advice(took)
            );
            self.logged_at = Some(now);
        }
    }
}

/// The thread that checks whether this process may continue to lead.
struct EpochChecker {
    shared: Arc<RenewalState>,
    lock: LockState,
    epoch: ChangeGate,
}

impl EpochChecker {
    fn check_epoch(&mut self) -> sys::Result<()> {
        let shared = &self.shared;
        let began = clock::boot_ms();
        // A higher epoch is detected here even while the leader has nothing to write to the
        // journal.
        if shared.check != Check::Never && shared.check_epoch(&mut self.epoch).is_err() {
            return Ok(());
        }
        shared.epoch_checked.store(began, Ordering::Release);
        let open = *shared.open_beat();
        if let Some(id) = open
            && !overwrite_file::names(&shared.layout.beat(), id)?
        {
            *shared.open_beat() = None;
        }
        match &self.lock {
            LockState::Held(lock) if !lock.still_in_place()? => {
                shared.lose("the lock file was replaced".into());
                return Ok(());
            }
            LockState::Held(lock) if !shared.local => {
                // Only a write through the locked descriptor shows that the server revoked the
                // lock.
                if let Err(e) = lock.write(format!("{}\n", shared.own_doc.epoch).as_bytes()) {
                    shared.lose(e.to_string());
                    return Ok(());
                }
            }
            LockState::Held(_) => {}
            LockState::Free | LockState::Requested(_) => {
                let old = std::mem::replace(&mut self.lock, LockState::Free);
                self.lock = try_lock(old, &shared.layout.lock(), shared.local)?;
            }
        }
        let is_held = matches!(self.lock, LockState::Held(_));
        shared.locked.store(is_held, Ordering::Release);
        // Last, since nothing waits for it.
        if !shared.local {
            shared.look_at_beat();
        }
        Ok(())
    }
}
