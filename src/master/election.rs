//! The election against the real share: carries out what `lease` asks for, keeps the beat, watches
//! the own lease, and re-reads `leader/epoch` on behalf of everything the leader makes known.
//!
//! Threads: `beat` writes `leader/beat` and tries the lock; `watchdog` reads only the clock and an
//! atomic, so that a share that hangs cannot keep it from falling silent; the election's lock is
//! tried on a thread of its own where the share is remote (a dead holder's delegation stalls
//! opens). After the loss of leadership nothing is written and nothing is cleaned up.

use crate::lease::{Check, Intent, Lease, Look, Protocol, Seen, Settings as Rules};
use crate::lease::{Verdict, judge, lease_over};
use crate::record::FORMAT;
use crate::record::leader::{BeatDoc, ClusterDoc, EpochDoc, FIXED_LEN, decode_fixed, encode_fixed};
use crate::spool::Layout;
use crate::sys;
use crate::sys::clock;
use crate::sys::lock::Lock;
use crate::sys::mount::FsKind;
use crate::sys::thread::{self, Thread};
use crate::sys::trust::Owners;
use crossbeam::channel::{Receiver, Sender, bounded};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most claims listed; a leader removes all but the last [`CLAIMS_KEPT`].
const CLAIMS_MAX: usize = 100_000;
const CLAIMS_KEPT: u64 = 100;
/// Cache bound of a remote share when none is set (ms).
const REMOTE_CACHE_MS: u64 = 3000;
/// A new candidate looks so often (ms) for so long (ms): the lock of a process that was just killed
/// is free in a moment.
const EAGER_MS: u64 = 25;
const EAGER_FOR_MS: u64 = 2000;
/// How often a damaged read of a fixed document is tried again: it is being overwritten.
const READ_TRIES: u32 = 5;
/// How often a claim may take a part of the reserve (ms).
const GIVE_MS: u64 = 5000;
/// Largest cluster file and pin.
const SMALL_MAX: u64 = 64 << 10;

/// Why a daemon must not work on this share. The program ends with code 2.
#[derive(Debug)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Reads the cluster file and refuses a share that is missing, empty, foreign or of a newer format.
/// `pin`: a file of this host that remembers the cluster id from the first start on. Makes nothing
/// on the share.
///
/// # Errors
/// [`Refused`] with what is wrong and what to do.
pub fn open_cluster(layout: &Layout, pin: Option<&Path>) -> Result<ClusterDoc, Refused> {
    let path = layout.cluster();
    let shown = path.display();
    let bytes = sys::fs::read_small(&path, SMALL_MAX).map_err(|e| {
        Refused(if e.is_not_found() {
            format!(
                "{shown} does not exist: the share is not mounted or was never made by \
                 'cadmin init'; nothing was written"
            )
        } else {
            e.to_string()
        })
    })?;
    let doc: ClusterDoc = serde_json::from_slice(&bytes)
        .map_err(|e| Refused(format!("{shown} is not a cluster file: {e}")))?;
    if doc.format > FORMAT {
        let format = doc.format;
        return Err(Refused(format!(
            "{shown} has format {format}, this program knows {FORMAT}: upgrade it"
        )));
    }
    for needed in [layout.lock(), layout.epoch(), layout.beat()] {
        if !sys::fs::exists(&needed) {
            let needed = needed.display();
            return Err(Refused(format!(
                "{needed} is missing: 'cadmin fsck' tells what else; it is never made anew by a \
                 daemon"
            )));
        }
    }
    if let Some(pin) = pin {
        check_pin(pin, &doc)?;
    }
    Ok(doc)
}

fn check_pin(pin: &Path, doc: &ClusterDoc) -> Result<(), Refused> {
    let refuse = |e: sys::Error| Refused(e.to_string());
    match sys::fs::read_optional(pin, SMALL_MAX).map_err(refuse)? {
        None => {
            sys::fs::durable_write(pin, format!("{}\n", doc.cluster).as_bytes()).map_err(refuse)
        }
        Some(known) if known.trim_ascii() == doc.cluster.as_bytes() => Ok(()),
        Some(known) => Err(Refused(format!(
            "the share belongs to cluster {}, this host to {}: remove {} if that is meant",
            doc.cluster,
            String::from_utf8_lossy(&known).trim(),
            pin.display()
        ))),
    }
}

/// How a candidate campaigns.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this host in the cluster.
    pub host: String,
    /// T (ms); 3000 is the floor.
    pub takeover_ms: u64,
    /// How long another host may see old content (ms); `None` = by the kind of file system.
    pub cache_ms: Option<u64>,
    pub protocol: Protocol,
}

/// Leadership is gone, and why. The process must end without another write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost(pub String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leadership is lost: {}", self.0)
    }
}

impl std::error::Error for Lost {}

/// What the leader's threads share.
#[derive(Debug)]
struct Shared {
    layout: Layout,
    rules: Rules,
    check: Check,
    owners: Owners,
    own: EpochDoc,
    local: bool,
    /// When the last good renewal began (boot clock, ms).
    renewed: AtomicU64,
    leading: AtomicBool,
    /// DISK FULL, for whoever reads the beat.
    full: AtomicBool,
    lost: AtomicBool,
}

impl Shared {
    fn check_lease(&self) -> Result<(), Lost> {
        if self.lost.load(Ordering::Acquire) {
            return Err(Lost("a thread of this process found it so".into()));
        }
        let now = clock::boot_ms();
        let renewed = self.renewed.load(Ordering::Acquire);
        if lease_over(&self.rules, renewed, now) {
            let ms = now.saturating_sub(renewed);
            return Err(self.lose(format!("the beat could not be renewed for {ms} ms")));
        }
        Ok(())
    }

    /// Whoever finds it first says why: the others only see that it is so.
    fn lose(&self, why: String) -> Lost {
        let lost = Lost(why);
        if !self.lost.swap(true, Ordering::AcqRel) {
            tracing::error!("{lost}");
        }
        lost
    }

    /// Opens, reads and closes `leader/epoch`: what no cache may answer.
    fn check_epoch(&self) -> Result<(), Lost> {
        let read = match read_fixed::<EpochDoc>(&self.layout.epoch(), self.owners) {
            Ok(read) => read,
            Err(e) => return Err(self.lose(e.to_string())),
        };
        match judge(&self.own, read.as_ref()) {
            Verdict::Mine => Ok(()),
            Verdict::Higher | Verdict::Lower => {
                let found = read.map_or_else(|| "damage".to_owned(), |d| d.epoch.to_string());
                let own = self.own.epoch;
                Err(self.lose(format!("the epoch file names {found}, not {own}")))
            }
        }
    }
}

/// A leader's title. Dropped, the beat ends and the lock is released.
#[derive(Debug)]
pub struct Leadership {
    shared: Arc<Shared>,
    pub cluster: ClusterDoc,
    /// Why the title was free, for the log.
    pub reason: &'static str,
    /// Epoch whose leader said that it takes requests, by the beat before this one.
    pub led: Option<u64>,
    stop: Option<Sender<()>>,
    threads: Vec<Thread>,
}

impl Leadership {
    pub fn epoch(&self) -> u64 {
        self.shared.own.epoch
    }

    /// The document that stands in `leader/epoch`.
    pub fn doc(&self) -> &EpochDoc {
        &self.shared.own
    }

    /// True when the share is a file system of this machine.
    pub fn is_local(&self) -> bool {
        self.shared.local
    }

    /// To be called after each sync of the journal and before anything is made known: opens, reads
    /// and closes `leader/epoch`, and judges the own lease by the clock.
    ///
    /// # Errors
    /// [`Lost`]: end at once, write nothing.
    pub fn recheck(&self) -> Result<(), Lost> {
        if self.shared.check == Check::Never {
            return Ok(());
        }
        self.shared.check_lease()?;
        self.shared.check_epoch()
    }

    /// When the rules ask for the look that [`Leadership::recheck`] takes.
    pub fn check(&self) -> Check {
        self.shared.check
    }

    /// True once any thread found the leadership lost.
    pub fn is_lost(&self) -> bool {
        self.shared.check_lease().is_err()
    }

    /// From now on the beat says that requests are taken.
    pub fn set_leading(&self, leading: bool) {
        self.shared.leading.store(leading, Ordering::Release);
        self.wake_beat();
    }

    /// From now on the beat says whether the share is full.
    pub fn set_full(&self, full: bool) {
        self.shared.full.store(full, Ordering::Release);
        self.wake_beat();
    }

    /// Waiting commands see at once what the beat has to say.
    fn wake_beat(&self) {
        if let Some(stop) = &self.stop {
            let _ = stop.try_send(());
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.stop = None;
        // The beat thread may hang in the share: whoever drops must not.
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

/// Stands for election until this process leads. `wait(ms)` waits and returns true when the process
/// is to stop. `on_lost` is called once, from another thread, when leadership is lost later on: it
/// must end the process, whatever the caller's thread hangs in.
///
/// # Errors
/// [`Refused`] when the share is not this cluster's. `Ok(None)`: `wait` said stop.
pub fn campaign(
    layout: &Layout,
    cluster: ClusterDoc,
    settings: &Settings,
    wait: &dyn Fn(u64) -> bool,
    on_lost: impl Fn(&Lost) + Send + 'static,
) -> Result<Option<Leadership>, Refused> {
    let kind = sys::mount::fs_kind(layout.root()).map_err(|e| Refused(e.to_string()))?;
    let local = kind == FsKind::Local;
    let cache = if local { 0 } else { REMOTE_CACHE_MS };
    let takeover_ms = settings.takeover_ms.max(3000);
    let rules = Rules {
        takeover_ms,
        cache_ms: settings.cache_ms.unwrap_or(cache),
        poll_ms: (takeover_ms / 6).clamp(200, 2500),
        me: EpochDoc {
            host: settings.host.clone(),
            pid: sys::proc::own_pid(),
            nonce: clock::nonce(16),
            boot: sys::proc::boot_id().to_owned(),
            ..EpochDoc::default()
        },
    };
    let mut candidate = Candidate {
        layout,
        local,
        owners: crate::spool::owners(&cluster),
        lock: LockState::Free,
        last_beat: None,
        last_complaint: String::new(),
        gave_at: None,
    };
    let (mut lease, mut intent) = Lease::new(rules.clone());
    let began = clock::boot_ms();
    loop {
        if let Intent::Lead(own) = intent {
            tracing::info!("leading epoch {}: {}", own.epoch, lease.reason());
            let reason = lease.reason();
            let check = settings.protocol.check;
            let lead = candidate.lead((rules, check), own, cluster, reason, on_lost);
            return Ok(Some(lead));
        }
        let ms = match &intent {
            Intent::Poll { in_ms, .. } if clock::boot_ms() < began + EAGER_FOR_MS => {
                (*in_ms).min(EAGER_MS)
            }
            Intent::Poll { in_ms, .. } => *in_ms,
            Intent::WaitCache(ms) => *ms,
            _ => 0,
        };
        if wait(ms) {
            return Ok(None);
        }
        let seen = candidate.carry_out(&intent);
        intent = lease.step(clock::boot_ms(), seen);
    }
}

enum LockState {
    Free,
    /// Being tried on a thread of its own.
    Asked(Receiver<sys::Result<Option<Lock>>>),
    Held(Lock),
}

struct Candidate<'a> {
    layout: &'a Layout,
    local: bool,
    owners: Owners,
    lock: LockState,
    last_beat: Option<BeatDoc>,
    last_complaint: String,
    /// When a part of the reserve was last given back for a claim.
    gave_at: Option<u64>,
}

impl Candidate<'_> {
    fn carry_out(&mut self, intent: &Intent) -> Seen {
        match self.attempt(intent) {
            Ok(seen) => {
                self.last_complaint.clear();
                seen
            }
            Err(e) => {
                let text = e.to_string();
                if text != self.last_complaint {
                    tracing::warn!("standing for election: {text}");
                    self.last_complaint.clone_from(&text);
                }
                Seen::Failed(text)
            }
        }
    }

    fn attempt(&mut self, intent: &Intent) -> sys::Result<Seen> {
        let epoch_path = self.layout.epoch();
        Ok(match intent {
            Intent::Poll { unlock, .. } => {
                if *unlock {
                    self.lock = LockState::Free;
                } else {
                    self.drop_lost_lock();
                    self.lock = try_lock(
                        std::mem::replace(&mut self.lock, LockState::Free),
                        &self.layout.lock(),
                        self.local,
                    )?;
                }
                let beat = read_fixed(&self.layout.beat(), self.owners)?;
                self.last_beat.clone_from(&beat);
                Seen::Looked(Look {
                    locked: matches!(self.lock, LockState::Held(_)),
                    epoch: read_fixed(&epoch_path, self.owners)?,
                    beat,
                })
            }
            Intent::ListClaims => Seen::Highest(highest_claim(self.layout, self.owners)?),
            Intent::Claim(doc) => {
                tracing::info!("claiming epoch {}", doc.epoch);
                let path = self.layout.claim(doc.epoch);
                let won = sys::fs::link_exclusive(&path, &encode(&path, doc)?);
                if let Err(e) = &won {
                    self.make_room(e);
                }
                Seen::Claimed(won?)
            }
            Intent::WriteEpoch(doc) => {
                let there = read_fixed::<EpochDoc>(&epoch_path, self.owners)?;
                if there.is_some_and(|d| d.epoch > doc.epoch) {
                    return Ok(Seen::Failed("a higher epoch was written meanwhile".into()));
                }
                sys::fs::overwrite_in_place(&epoch_path, &encode(&epoch_path, doc)?)?;
                Seen::Wrote
            }
            Intent::WaitCache(_) => Seen::Waited,
            Intent::Confirm => Seen::Confirmed {
                epoch: read_fixed(&epoch_path, self.owners)?,
                highest: highest_claim(self.layout, self.owners)?,
            },
            Intent::Lead(_) => Seen::Waited,
        })
    }

    /// A share that is full must not keep the cluster without a leader: the next claim finds the
    /// room of a part of the reserve.
    fn make_room(&mut self, e: &sys::Error) {
        let now = clock::boot_ms();
        let rested = self
            .gave_at
            .is_none_or(|at| now.saturating_sub(at) > GIVE_MS);
        if e.is_no_space() && rested && super::room::give_one(self.layout) {
            tracing::warn!("DISK FULL: {e}: a part of the reserve is given to the next leader");
            self.gave_at = Some(now);
        }
    }

    /// A lock that the server took back is held by somebody else: only a write through it tells.
    /// Two candidates that both believe to hold it would claim over each other's heads for ever.
    fn drop_lost_lock(&mut self) {
        let LockState::Held(lock) = &self.lock else {
            return;
        };
        let in_place = lock.still_in_place().unwrap_or(false);
        let held = in_place && (self.local || lock.write(b"candidate\n").is_ok());
        if !held {
            tracing::warn!("the election's lock was lost");
            self.lock = LockState::Free;
        }
    }

    /// Starts the threads of a leader.
    fn lead(
        self,
        (rules, check): (Rules, Check),
        own: EpochDoc,
        cluster: ClusterDoc,
        reason: &'static str,
        on_lost: impl Fn(&Lost) + Send + 'static,
    ) -> Leadership {
        let before = self.last_beat.unwrap_or_default();
        let shared = Arc::new(Shared {
            layout: self.layout.clone(),
            local: self.local,
            renewed: AtomicU64::new(clock::boot_ms()),
            leading: AtomicBool::new(false),
            full: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            rules,
            check,
            owners: self.owners,
            own,
        });
        let (stop, stopped) = bounded(1);
        let beat = Beat {
            shared: shared.clone(),
            lock: self.lock,
            count: before.beat,
        };
        let (alive, gone) = bounded::<()>(0);
        let watched = shared.clone();
        let threads = vec![
            spawn("beat", move || {
                beat.run(&stopped);
                drop(alive);
            }),
            spawn("watchdog", move || watchdog(&watched, &gone, on_lost)),
        ];
        Leadership {
            shared,
            cluster,
            reason,
            led: before.leading.then_some(before.epoch),
            stop: Some(stop),
            threads,
        }
    }
}

fn spawn(name: &str, f: impl FnOnce() + Send + 'static) -> Thread {
    thread::spawn(name, 256 << 10, f).expect("a daemon that cannot start two threads cannot lead")
}

/// Looks at the clock and an atomic only. `gone` disconnects when the beat ended in good order.
fn watchdog(shared: &Shared, gone: &Receiver<()>, on_lost: impl Fn(&Lost)) {
    let every = (shared.rules.takeover_ms / 24).clamp(20, 500);
    loop {
        if let Err(lost) = shared.check_lease() {
            tracing::error!("{lost}");
            on_lost(&lost);
            return;
        }
        match thread::recv_timeout(gone, every) {
            Err(crossbeam::channel::RecvTimeoutError::Timeout) => {}
            _ if shared.lost.load(Ordering::Acquire) => {}
            _ => return,
        }
    }
}

/// The thread that renews.
struct Beat {
    shared: Arc<Shared>,
    lock: LockState,
    count: u64,
}

impl Beat {
    fn run(mut self, stopped: &Receiver<()>) {
        let every = self.shared.rules.renew_ms();
        let mut complained = false;
        loop {
            let began = clock::boot_ms();
            match self.renew() {
                Ok(()) => {
                    self.shared.renewed.store(began, Ordering::Release);
                    complained = false;
                }
                Err(e) if !complained => {
                    tracing::warn!("renewing the lease: {e}");
                    complained = true;
                }
                Err(_) => {}
            }
            if self.shared.lost.load(Ordering::Acquire) {
                return;
            }
            let gone = crossbeam::channel::RecvTimeoutError::Disconnected;
            if thread::recv_timeout(stopped, every) == Err(gone) {
                return;
            }
        }
    }

    fn renew(&mut self) -> sys::Result<()> {
        let shared = &self.shared;
        // A higher epoch is seen here even while the leader has nothing to journal.
        if shared.check != Check::Never && shared.check_epoch().is_err() {
            return Ok(());
        }
        match &self.lock {
            LockState::Held(lock) if !lock.still_in_place()? => {
                shared.lose("the lock file was replaced".into());
                return Ok(());
            }
            LockState::Held(lock) if !shared.local => {
                // Only a write through the locked descriptor tells that the server took the lock
                // back.
                if let Err(e) = lock.write(format!("{}\n", shared.own.epoch).as_bytes()) {
                    shared.lose(e.to_string());
                    return Ok(());
                }
            }
            LockState::Held(_) => {}
            LockState::Free | LockState::Asked(_) => {
                let old = std::mem::replace(&mut self.lock, LockState::Free);
                self.lock = try_lock(old, &shared.layout.lock(), shared.local)?;
            }
        }
        let doc = BeatDoc {
            epoch: shared.own.epoch,
            beat: self.count + 1,
            leading: shared.leading.load(Ordering::Acquire),
            full: shared.full.load(Ordering::Acquire),
            locked: matches!(self.lock, LockState::Held(_)),
        };
        let path = shared.layout.beat();
        sys::fs::overwrite_unsynced(&path, &encode(&path, &doc)?)?;
        self.count += 1;
        Ok(())
    }
}

/// Tries the lock; on a remote share without waiting for the answer.
fn try_lock(old: LockState, path: &Path, local: bool) -> sys::Result<LockState> {
    let answer = match old {
        LockState::Held(lock) => return Ok(LockState::Held(lock)),
        LockState::Free if local => Lock::try_take(path)?,
        LockState::Free => return ask_lock(path.to_path_buf()),
        LockState::Asked(rx) => match rx.try_recv() {
            Ok(answer) => answer?,
            Err(crossbeam::channel::TryRecvError::Empty) => return Ok(LockState::Asked(rx)),
            Err(crossbeam::channel::TryRecvError::Disconnected) => None,
        },
    };
    Ok(answer.map_or(LockState::Free, LockState::Held))
}

fn ask_lock(path: PathBuf) -> sys::Result<LockState> {
    let (tx, rx) = bounded(1);
    spawn("lock", move || drop(tx.send(Lock::try_take(&path))));
    // The usual answer comes in a few milliseconds; a stalled open must not stall the candidate.
    match thread::recv_timeout(&rx, 500) {
        Ok(answer) => Ok(answer?.map_or(LockState::Free, LockState::Held)),
        Err(_) => Ok(LockState::Asked(rx)),
    }
}

fn encode<T: serde::Serialize>(path: &Path, doc: &T) -> sys::Result<Vec<u8>> {
    encode_fixed(doc).map_err(|e| sys::Error::invalid("encode for", path, e))
}

/// Reads a fixed document; `None` when its content is damaged. A read that meets an overwrite half
/// done is tried again. A stranger's file is an error: it says nothing.
fn read_fixed<T: serde::de::DeserializeOwned>(
    path: &Path,
    owners: Owners,
) -> sys::Result<Option<T>> {
    for attempt in 0..READ_TRIES {
        if attempt > 0 {
            clock::sleep_ms(1);
        }
        let bytes = owners.read_small(path, FIXED_LEN as u64 * 2)?;
        if let Ok(doc) = decode_fixed(&bytes) {
            return Ok(Some(doc));
        }
    }
    Ok(None)
}

/// The highest claimed epoch, 0 when there is none. A claim that a stranger put there would keep
/// everybody else from its number: it is got out of sight.
fn highest_claim(layout: &Layout, owners: Owners) -> sys::Result<u64> {
    let entries = sys::fs::list_dir(&layout.claims_dir(), CLAIMS_MAX)?;
    let number = |e: &sys::fs::Entry| Some((e.text()?.parse::<u64>().ok()?, e.name.clone()));
    let mut claims: Vec<_> = entries.iter().filter_map(number).collect();
    claims.sort_unstable();
    while let Some((epoch, name)) = claims.pop() {
        let path = layout.claims_dir().join(name);
        let Some(uid) = owners.stranger_of(&path) else {
            return Ok(epoch);
        };
        let hidden = owners.hide(&path)?;
        let (path, hidden) = (path.display(), hidden.display());
        tracing::error!("{path}: a claim of uid {uid} is no claim, it is now {hidden}");
    }
    Ok(0)
}

/// The highest epoch that was ever claimed here, by the claims and by the epoch's file.
///
/// # Errors
/// Failing reads.
pub fn highest(layout: &Layout, owners: Owners) -> sys::Result<u64> {
    let named = read_fixed::<EpochDoc>(&layout.epoch(), owners)?.map_or(0, |doc| doc.epoch);
    Ok(highest_claim(layout, owners)?.max(named))
}

/// Claims `epoch` for nobody: the next claimant takes one above it.
///
/// # Errors
/// The claim cannot be written.
pub fn use_up(layout: &Layout, epoch: u64, host: &str) -> sys::Result<()> {
    let path = layout.claim(epoch);
    let doc = EpochDoc {
        epoch,
        host: host.to_owned(),
        nonce: clock::nonce(16),
        ..EpochDoc::default()
    };
    sys::fs::link_exclusive(&path, &encode(&path, &doc)?).map(drop)
}

/// Removes claims that nobody can need: all but the last hundred before `epoch`.
///
/// # Errors
/// The directory cannot be listed.
pub fn remove_old_claims(layout: &Layout, epoch: u64) -> sys::Result<()> {
    for entry in sys::fs::list_dir(&layout.claims_dir(), CLAIMS_MAX)? {
        let number = entry.text().and_then(|t| t.parse::<u64>().ok());
        if let Some(n) = number.filter(|n| n + CLAIMS_KEPT < epoch) {
            sys::fs::remove(&layout.claim(n))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
