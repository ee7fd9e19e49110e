//! The election on the real share: carries out what `lease` requests, keeps the beat, watches its
//! own lease, and re-reads `leader/epoch` before anything is made known by the leader.
//!
//! A leader's threads are in `renewal`. The election lock is tried on a separate thread if the
//! share is remote (a dead holder's delegation stalls opens). After the loss of leadership nothing
//! is written and nothing is cleaned up.

mod renewal;

use crate::lease::{Check, Intent, Lease, Observation, PollResult, Protocol, Settings as Rules};
use crate::record::leader::{BeatDoc, CLUSTER_MAX, ClusterDoc, EpochDoc};
use crate::record::leader::{FIXED_LEN, decode_fixed, encode_fixed};
use crate::spool::Layout;
use crate::spool::polling::ChangeGate;
use crate::sys;
use crate::sys::clock;
use crate::sys::fs::FileMark;
use crate::sys::lock::Lock;
use crate::sys::service;
use crate::sys::statfs::FsKind;
use crate::sys::thread;
use crate::sys::trust::Owners;
use crossbeam::channel::{Receiver, bounded};
use renewal::{RenewalState, RenewalThreads, spawn};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of earlier claims that are kept.
const CLAIMS_KEPT: u64 = 100;
/// Assumed cache time of a remote share if none is set (ms).
const REMOTE_CACHE_MS: u64 = 3000;
/// How often a candidate logs that it stands by (ms).
const STANDBY_EVERY_MS: u64 = 30_000;
/// A new candidate polls this often (ms), and for this long (ms): the lock of a process that was
/// just killed is released after a moment.
const FREQUENT_POLL_MS: u64 = 25;
const FREQUENT_FOR_MS: u64 = 2000;
/// Maximum number of claims after the last leader's that are read; if there are more, the next one
/// waits.
const CLAIMS_READ: u64 = 16;
/// How often a damaged read of a fixed document is repeated: the document is being overwritten.
const READ_TRIES: u32 = 5;
/// How often a claim may use a part of the reserve (ms).
const RESERVE_RELEASE_MS: u64 = 5000;
/// How often a candidate logs that the share is too slow (ms).
const SLOW_EVERY_MS: u64 = 60_000;
/// How often the candidate looks for a claim that a cache may hide (ms).
const LOOK_AGAIN_MS: u64 = 100;
/// A candidate on a remote share checks everything at least this often (ms).
const FULL_MS: u64 = 30_000;
/// Maximum size of a pin.
const PIN_MAX: u64 = 64 << 10;
/// Maximum number of a candidate's notes about its findings.
const NOTES_MAX: usize = 10;

/// Why a daemon must not work on this share. The program ends with code 2.
#[derive(Debug)]
pub struct CandidateError(pub String);

impl fmt::Display for CandidateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CandidateError {}

/// Reads the cluster file and rejects a share that is missing, empty, foreign or of a newer format.
/// `pin`: a file of this host that stores the cluster id at the first start. Creates nothing on the
/// share.
///
/// # Errors
/// [`CandidateError`] with the problem and the remedy.
pub fn open_cluster(layout: &Layout, pin: Option<&Path>) -> Result<ClusterDoc, CandidateError> {
    let path = layout.cluster();
    let shown = path.display();
    let bytes = sys::fs::read_small(&path, CLUSTER_MAX).map_err(|e| {
        CandidateError(if e.is_not_found() {
            format!(
                "{shown} does not exist: the share is probably not mounted on this host, or \
                 CB_SHARE in cb.conf names another directory; nothing was written"
            )
        } else {
            e.to_string()
        })
    })?;
    let doc = ClusterDoc::decode(&bytes).map_err(|e| CandidateError(format!("{shown}: {e}")))?;
    for needed in [layout.lock(), layout.epoch(), layout.beat()] {
        if !sys::fs::exists(&needed) {
            let needed = needed.display();
            return Err(CandidateError(format!(
                "{needed} is missing, and no daemon creates it again: 'cadmin fsck' lists what \
                 else is missing"
            )));
        }
    }
    if let Some(pin) = pin {
        check_pin(pin, &doc)?;
    }
    Ok(doc)
}

fn check_pin(pin: &Path, doc: &ClusterDoc) -> Result<(), CandidateError> {
    let refuse = |e: sys::Error| CandidateError(e.to_string());
    match sys::fs::read_optional(pin, PIN_MAX).map_err(refuse)? {
        None => {
            sys::fs::durable_write(pin, format!("{}\n", doc.cluster).as_bytes()).map_err(refuse)
        }
        Some(known) if known.trim_ascii() == doc.cluster.as_bytes() => Ok(()),
        Some(known) => Err(CandidateError(format!(
            "the share belongs to cluster {}, this host to {}, as {} says: check the mount and \
             CB_SHARE; a host that changes its cluster needs a new local directory (CB_LOCAL)",
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
    /// The address at which it takes hints once it leads, as text; empty: none.
    pub hints: String,
    /// T (ms); 3000 is the floor.
    pub takeover_ms: u64,
    /// How long another host may see old content (ms); `None` = derived from the kind of file
    /// system.
    pub cache_ms: Option<u64>,
    /// Whether each open on this machine is answered by the server; `None` = derived from the
    /// mount.
    pub opens_are_fresh: Option<bool>,
    pub protocol: Protocol,
}

/// Leadership was lost, and the reason. The process must end without another write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadershipLost(pub String);

impl fmt::Display for LeadershipLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leadership is lost: {}", self.0)
    }
}

impl std::error::Error for LeadershipLost {}

/// The leadership that a candidate has won. When it is dropped, the beat ends and the lock is
/// released.
#[derive(Debug)]
pub struct Leadership {
    shared: Arc<RenewalState>,
    pub cluster: ClusterDoc,
    /// Why leadership was free, for the log.
    pub reason: &'static str,
    /// The epoch whose leader took requests, according to the previous beat.
    pub led_epoch: Option<u64>,
    /// Notes for administrators about the files of leadership.
    pub notes: Vec<String>,
    threads: RenewalThreads,
    /// What [`Leadership::recheck`] knows of `leader/epoch`.
    epoch: Mutex<ChangeGate>,
}

impl Leadership {
    pub fn epoch(&self) -> u64 {
        self.shared.own_doc.epoch
    }

    /// The document in `leader/epoch`.
    pub fn doc(&self) -> &EpochDoc {
        &self.shared.own_doc
    }

    /// Whether the share is a file system of this machine.
    pub fn is_local(&self) -> bool {
        self.shared.local
    }

    /// Must be called after each sync of the journal and before anything is published: reads
    /// `leader/epoch` past all caches, and checks the own lease by the clock.
    ///
    /// # Errors
    /// [`LeadershipLost`]: end at once, write nothing.
    pub fn recheck(&self) -> Result<(), LeadershipLost> {
        if self.shared.check == Check::Never {
            return Ok(());
        }
        self.shared.check_lease()?;
        let mut gate = self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.check_epoch(&mut gate)
    }

    /// When the rules require the check that [`Leadership::recheck`] makes.
    pub fn check(&self) -> Check {
        self.shared.check
    }

    /// How long this client may still see earlier content of the files of leadership (ms).
    pub fn cache_ms(&self) -> u64 {
        self.shared.rules.cache_ms
    }

    /// Whether some thread found that leadership was lost.
    pub fn is_lost(&self) -> bool {
        self.shared.check_lease().is_err()
    }

    /// Sets whether the beat states that requests are taken.
    pub fn set_leading(&self, leading: bool) {
        self.shared.leading.store(leading, Ordering::Release);
        self.threads.wake_beat();
    }

    /// Whether `leader/beat` was found damaged since the last call. Its next beat replaces it.
    pub fn take_beat_damage(&self) -> bool {
        self.shared.beat_damaged.swap(false, Ordering::AcqRel)
    }

    /// Sets whether the beat states that the share is full.
    pub fn set_full(&self, full: bool) {
        self.shared.full.store(full, Ordering::Release);
        self.threads.wake_beat();
    }
}

/// Stands for election until this process leads. `wait(ms)` waits and returns true if the process
/// must stop. `on_lost` is called once, from another thread, when leadership is lost later: it must
/// end the process even if the caller's thread hangs.
///
/// # Errors
/// [`CandidateError`] if the share does not belong to this cluster. `Ok(None)`: `wait` returned
/// true.
pub fn campaign(
    layout: &Layout,
    cluster: ClusterDoc,
    settings: &Settings,
    wait: &dyn Fn(u64) -> bool,
    on_lost: impl Fn(&LeadershipLost) + Send + 'static,
) -> Result<Option<Leadership>, CandidateError> {
    let kind = sys::statfs::fs_kind(layout.root()).map_err(|e| CandidateError(e.to_string()))?;
    let local = kind == FsKind::Local;
    let cache = if local { 0 } else { REMOTE_CACHE_MS };
    let takeover_ms = settings.takeover_ms.max(3000);
    let rules = Rules {
        takeover_ms,
        cache_ms: settings.cache_ms.unwrap_or(cache),
        poll_ms: poll_ms(takeover_ms, local),
        me: EpochDoc {
            fresh: settings
                .opens_are_fresh
                .unwrap_or_else(|| opens_are_fresh(layout, kind)),
            ..own_document(settings)
        },
    };
    let mut candidate = Candidate {
        layout,
        local,
        owners: crate::spool::owners(&cluster),
        lock: LockState::Free,
        last_beat: None,
        last_complaint: String::new(),
        reserve_released_at: None,
        found_epoch: 0,
        not_found_reason: None,
        notes: Vec::new(),
        slow_logged_at: None,
        beat_mark: None,
        moved_at: 0,
        full_at: None,
        stood_by_at: None,
    };
    let (mut lease, mut intent) = Lease::new(rules.clone());
    let began = clock::boot_ms();
    let mut served = false;
    loop {
        service::alive();
        if let Intent::Lead(own) = intent {
            service::ready(&format!("leads epoch {}", own.epoch));
            tracing::info!("leading epoch {}: {}", own.epoch, lease.reason());
            let reason = lease.reason();
            let check = settings.protocol.check;
            let lead = candidate.lead((rules, check), own, cluster, reason, on_lost);
            return Ok(Some(lead));
        }
        if matches!(intent, Intent::Poll { .. }) {
            candidate.publish_standby(&settings.host);
        }
        let ms = match &intent {
            Intent::Poll { in_ms, .. } if clock::boot_ms() < began + FREQUENT_FOR_MS => {
                (*in_ms).min(FREQUENT_POLL_MS)
            }
            Intent::Poll { in_ms, .. } => *in_ms,
            Intent::WaitCache(ms) => *ms,
            _ => 0,
        };
        if wait(ms) {
            return Ok(None);
        }
        if matches!(intent, Intent::Poll { unlock: false, .. })
            && candidate.sees_life(rules.renew_ms())
        {
            continue;
        }
        let observation = candidate.carry_out(&intent);
        intent = lease.step(clock::boot_ms(), observation);
        log_candidacy(&mut served);
        candidate.log_slow_share(&rules, lease.too_slow());
    }
}

/// Logs once that this candidate takes part.
fn log_candidacy(served: &mut bool) {
    if !std::mem::replace(served, true) {
        service::ready("stands by to lead");
    }
}

/// How often a candidate polls (ms): if most polls are one request to a server, twice as often as a
/// leader beats, but at most twice a second.
fn poll_ms(takeover_ms: u64, local: bool) -> u64 {
    match local {
        true => (takeover_ms / 6).clamp(200, 2500),
        false => (takeover_ms / 12).clamp(600, 1250),
    }
}

/// The claimant's own document. It omits its hints if they would make it too long.
fn own_document(settings: &Settings) -> EpochDoc {
    let mut doc = EpochDoc {
        epoch: u64::MAX,
        host: settings.host.clone(),
        pid: sys::proc::own_pid(),
        nonce: clock::nonce(16),
        boot: sys::proc::boot_id().to_owned(),
        locked: false,
        hints: settings.hints.clone(),
        fresh: true,
    };
    if encode_fixed(&doc).is_err() {
        doc.hints = String::new();
    }
    doc.epoch = 0;
    doc
}

enum LockState {
    Free,
    /// A thread of its own is trying it.
    Requested(Receiver<sys::Result<Option<Lock>>>),
    Held(Lock),
}

struct Candidate<'a> {
    layout: &'a Layout,
    local: bool,
    owners: Owners,
    lock: LockState,
    last_beat: Option<BeatDoc>,
    last_complaint: String,
    /// When a part of the reserve was last released for a claim.
    reserve_released_at: Option<u64>,
    /// The epoch that the last check found, 0 if none, and why it found none.
    found_epoch: u64,
    not_found_reason: Option<String>,
    /// Problems of the epoch file, for the leader's alarms.
    notes: Vec<String>,
    /// When it was last logged that the share is too slow to lead.
    slow_logged_at: Option<u64>,
    /// The mark of the beat as last seen, and when it was seen to change (boot clock, ms).
    beat_mark: Option<FileMark>,
    moved_at: u64,
    /// When everything was last checked.
    full_at: Option<u64>,
    /// When the candidate last logged that it stands by.
    stood_by_at: Option<u64>,
}

impl Candidate<'_> {
    /// Logs from time to time that this candidate would take over.
    fn publish_standby(&mut self, host: &str) {
        let now = clock::boot_ms();
        let recent = |at: u64| now.saturating_sub(at) < STANDBY_EVERY_MS;
        if self.last_beat.is_none() || self.stood_by_at.is_some_and(recent) {
            return;
        }
        self.stood_by_at = Some(now);
        let (path, pid) = (self.layout.standby(host), sys::proc::own_pid());
        let text = format!("{pid:010}\n");
        let written = match sys::fs::overwrite_unsynced(&path, text.as_bytes()) {
            Err(e) if e.is_not_found() => sys::fs::publish(&path, text.as_bytes()),
            other => other,
        };
        if let Err(e) = written {
            tracing::debug!("{e}");
        }
    }

    /// On a remote share, checking lock, beat and epoch takes eight requests. A single request
    /// shows that the beat was written again `renew_ms` after the previous one: then there is a
    /// leader, and nothing to decide. The first check that finds the beat overdue tries the lock of
    /// a leader that died.
    fn sees_life(&mut self, renew_ms: u64) -> bool {
        if self.local || !matches!(self.lock, LockState::Free) {
            return false;
        }
        let now = clock::boot_ms();
        let recent = |at: u64| now.saturating_sub(at) < FULL_MS;
        let mark = sys::fs::mark(&self.layout.beat()).ok();
        let before = std::mem::replace(&mut self.beat_mark, mark);
        let moved = match (before, mark) {
            (Some(before), Some(mark)) => {
                before.ino == mark.ino && before.changed_ns != mark.changed_ns
            }
            _ => false,
        };
        if moved {
            self.moved_at = now;
        }
        let same = before.is_some() && before == mark;
        let alive = moved || (same && now < self.moved_at.saturating_add(renew_ms));
        let life = alive && self.full_at.is_some_and(recent);
        if !life {
            self.full_at = Some(now);
        }
        life
    }

    fn carry_out(&mut self, intent: &Intent) -> Observation {
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
                Observation::Failed(text)
            }
        }
    }

    fn attempt(&mut self, intent: &Intent) -> sys::Result<Observation> {
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
                let began = clock::boot_ms();
                let beat = read_fixed(&self.layout.beat(), self.owners)?;
                let read_ms = clock::boot_ms().saturating_sub(began);
                self.last_beat.clone_from(&beat);
                let (epoch, wrong) = read_epoch(self.layout, self.owners)?;
                self.not_found_reason = wrong;
                self.found_epoch = epoch.as_ref().map_or(0, |doc| doc.epoch);
                Observation::Polled(PollResult {
                    locked: matches!(self.lock, LockState::Held(_)),
                    epoch,
                    beat,
                    read_ms,
                })
            }
            Intent::ListClaims => {
                let highest = highest_claim(self.layout, self.owners)?;
                self.note_wrong_epoch(highest);
                let beat = self.last_beat.as_ref().map_or(0, |beat| beat.epoch);
                let claims_are_fresh = self.claims_are_fresh(beat, highest);
                Observation::Highest {
                    highest,
                    claims_are_fresh,
                }
            }
            Intent::Claim(doc) => {
                tracing::info!("claiming epoch {}", doc.epoch);
                let path = self.layout.claim(doc.epoch);
                let won = sys::fs::link_exclusive(&path, &encode(&path, doc)?);
                if let Err(e) = &won {
                    self.release_reserve(e);
                }
                Observation::Claimed(won?)
            }
            Intent::WriteEpoch(doc) => {
                let (there, _) = read_epoch(self.layout, self.owners)?;
                if there.is_some_and(|d| d.epoch > doc.epoch) {
                    return Ok(Observation::Failed(
                        "a higher epoch was written meanwhile".into(),
                    ));
                }
                sys::fs::overwrite_in_place(&epoch_path, &encode(&epoch_path, doc)?)?;
                Observation::Wrote
            }
            Intent::WaitCache(_) => Observation::Waited,
            Intent::Confirm => Observation::Confirmed {
                epoch: read_epoch(self.layout, self.owners)?.0,
                highest: highest_claim(self.layout, self.owners)?,
            },
            Intent::Lead(_) => Observation::Waited,
        })
    }

    /// Whether all that claimed after `beat` stated that their opens are fresh.
    fn claims_are_fresh(&self, beat: u64, highest: u64) -> bool {
        let fresh = |epoch| {
            let doc = read_fixed::<EpochDoc>(&self.layout.claim(epoch), self.owners);
            matches!(doc, Ok(Some(doc)) if doc.fresh)
        };
        highest.saturating_sub(beat) <= CLAIMS_READ && (beat + 1..=highest).all(fresh)
    }

    /// Logs once an epoch file that was not written by a claimant, before it is overwritten.
    fn note_wrong_epoch(&mut self, highest: u64) {
        let named = self.found_epoch;
        let unclaimed =
            || format!("names epoch {named}, which has no claim (the highest claim is {highest})");
        let wrong = self.not_found_reason.take();
        if let Some(wrong) = wrong.or_else(|| (named > highest).then(unclaimed)) {
            let path = self.layout.epoch();
            let note = format!(
                "{} {wrong}: this content was not written by a cbsched. The previous leader \
                 stepped down because of it; this one rewrote it",
                path.display()
            );
            if !self.notes.contains(&note) && self.notes.len() < NOTES_MAX {
                tracing::error!("{note}");
                self.notes.push(note);
            }
        }
    }

    /// Logs why there is no leader if the share is too slow for T.
    fn log_slow_share(&mut self, rules: &Rules, read_ms: Option<u64>) {
        let now = clock::boot_ms();
        let rested = |at| now.saturating_sub(at) > SLOW_EVERY_MS;
        let Some(ms) = read_ms.filter(|_| self.slow_logged_at.is_none_or(rested)) else {
            return;
        };
        tracing::error!(
            "not leading: reading 512 bytes of {} takes {ms} ms, a leader would lose its lease: {}",
            self.layout.root().display(),
            rules.advice(ms)
        );
        self.slow_logged_at = Some(now);
    }

    /// Releases a part of the reserve, so that a full share does not keep the cluster without a
    /// leader: the next claim finds room.
    fn release_reserve(&mut self, e: &sys::Error) {
        let now = clock::boot_ms();
        let rested = self
            .reserve_released_at
            .is_none_or(|at| now.saturating_sub(at) > RESERVE_RELEASE_MS);
        if e.is_no_space() && rested && super::disk_reserve::remove_part(self.layout) {
            tracing::warn!("DISK FULL: {e}: a part of the reserve is given to the next leader");
            self.reserve_released_at = Some(now);
        }
    }

    /// Drops a lock that the server revoked and that another process now holds; only a write
    /// through it shows that. Two candidates that both believe they hold it would overtake each
    /// other without end.
    fn drop_lost_lock(&mut self) {
        let LockState::Held(lock) = &self.lock else {
            return;
        };
        let in_place = lock.still_in_place().unwrap_or(false);
        let is_held = in_place && (self.local || lock.write(b"candidate\n").is_ok());
        if !is_held {
            tracing::warn!("the election's lock was lost");
            self.lock = LockState::Free;
        }
    }

    /// Starts the threads of a leader.
    fn lead(
        self,
        (rules, check): (Rules, Check),
        own_doc: EpochDoc,
        cluster: ClusterDoc,
        reason: &'static str,
        on_lost: impl Fn(&LeadershipLost) + Send + 'static,
    ) -> Leadership {
        let before = self.last_beat.unwrap_or_default();
        let now = clock::boot_ms();
        let shared = Arc::new(RenewalState {
            layout: self.layout.clone(),
            local: self.local,
            renewed: AtomicU64::new(now),
            epoch_checked: AtomicU64::new(now),
            leading: AtomicBool::new(false),
            full: AtomicBool::new(false),
            locked: AtomicBool::new(matches!(self.lock, LockState::Held(_))),
            beat_damaged: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            logged: AtomicBool::new(false),
            beat: Mutex::new(None),
            rules,
            check,
            owners: self.owners,
            own_doc,
        });
        let threads = RenewalThreads::start(&shared, self.lock, before.beat, on_lost);
        Leadership {
            shared,
            cluster,
            reason,
            led_epoch: before.leading.then_some(before.epoch),
            notes: self.notes,
            threads,
            epoch: Mutex::default(),
        }
    }
}

/// Close-to-open: NFS asks the server at each open, unless it is mounted with `nocto`. Other
/// network file systems give no such guarantee.
fn opens_are_fresh(layout: &Layout, kind: FsKind) -> bool {
    let asks = || sys::mount::mount_of(layout.root()).is_ok_and(|mount| !mount.has("nocto"));
    kind == FsKind::Nfs && asks()
}

/// Tries the lock; on a remote share without waiting for the answer.
fn try_lock(old: LockState, path: &Path, local: bool) -> sys::Result<LockState> {
    let answer = match old {
        LockState::Held(lock) => return Ok(LockState::Held(lock)),
        LockState::Free if local => Lock::try_take(path)?,
        LockState::Free => return request_lock(path.to_path_buf()),
        LockState::Requested(rx) => match rx.try_recv() {
            Ok(answer) => answer?,
            Err(crossbeam::channel::TryRecvError::Empty) => return Ok(LockState::Requested(rx)),
            Err(crossbeam::channel::TryRecvError::Disconnected) => None,
        },
    };
    Ok(answer.map_or(LockState::Free, LockState::Held))
}

fn request_lock(path: PathBuf) -> sys::Result<LockState> {
    let (tx, rx) = bounded(1);
    spawn("lock", move || drop(tx.send(Lock::try_take(&path))));
    // The answer usually arrives in a few milliseconds; a stalled open must not stall the
    // candidate.
    match thread::recv_timeout(&rx, 500) {
        Ok(answer) => Ok(answer?.map_or(LockState::Free, LockState::Held)),
        Err(_) => Ok(LockState::Requested(rx)),
    }
}

fn encode<T: serde::Serialize>(path: &Path, doc: &T) -> sys::Result<Vec<u8>> {
    encode_fixed(doc).map_err(|e| sys::Error::invalid("encode for", path, e))
}

/// Reads a fixed document; returns `None` if its content is damaged. A read that meets an
/// unfinished overwrite is repeated. A file of another account is an error: its content counts for
/// nothing.
fn read_fixed<T: serde::de::DeserializeOwned>(
    path: &Path,
    owners: Owners,
) -> sys::Result<Option<T>> {
    for attempt in 0..READ_TRIES {
        if attempt > 0 {
            clock::sleep_ms(1);
        }
        let bytes = match owners.read_small(path, FIXED_LEN as u64 * 2) {
            Ok(bytes) => bytes,
            Err(e) if too_long(&e) && owners.untrusted_owner(path).is_none() => return Ok(None),
            Err(e) => return Err(e),
        };
        if let Ok(doc) = decode_fixed(&bytes) {
            return Ok(Some(doc));
        }
    }
    Ok(None)
}

/// Whether a file is longer than any document: no claimant left it like that.
fn too_long(e: &sys::Error) -> bool {
    e.act == "read" && e.kind() == std::io::ErrorKind::InvalidData
}

/// Reads `leader/epoch` for a candidate; if its content is not an epoch of this share, also returns
/// why. A number that no candidate can have claimed counts as damage: after a claim above it, every
/// later leader and host would have to record the ends of all epochs in between.
fn read_epoch(layout: &Layout, owners: Owners) -> sys::Result<(Option<EpochDoc>, Option<String>)> {
    let Some(doc) = read_fixed::<EpochDoc>(&layout.epoch(), owners)? else {
        return Ok((None, Some("is damaged".to_owned())));
    };
    match crate::spool::epoch_known(layout, doc.epoch)? {
        None => Ok((Some(doc), None)),
        Some(known) => {
            let named = doc.epoch;
            let why = format!("names epoch {named}, far above the highest claimed epoch, {known}");
            Ok((None, Some(why)))
        }
    }
}

/// The highest claimed epoch; 0 if there is none. A claim of another account would block its
/// number, so it is renamed.
fn highest_claim(layout: &Layout, owners: Owners) -> sys::Result<u64> {
    let mut claims = crate::spool::claims(layout)?;
    claims.sort_unstable();
    while let Some(epoch) = claims.pop() {
        let path = layout.claim(epoch);
        let Some(uid) = owners.untrusted_owner(&path) else {
            return Ok(epoch);
        };
        let hidden = owners.quarantine(&path)?;
        let (path, hidden) = (path.display(), hidden.display());
        tracing::error!("{path}: a claim of uid {uid} does not count, it is renamed to {hidden}");
    }
    Ok(0)
}

/// The highest epoch that was ever claimed here, according to the claims and the epoch file. A
/// result below `epoch`, which a host reported, is returned only after `cache_ms`, in which caches
/// drop older content.
///
/// # Errors
/// Failing reads.
pub fn highest(layout: &Layout, owners: Owners, epoch: u64, cache_ms: u64) -> sys::Result<u64> {
    let until = clock::boot_ms() + cache_ms;
    loop {
        let last = clock::boot_ms() >= until;
        let named = read_epoch(layout, owners)?.0.map_or(0, |doc| doc.epoch);
        let highest = highest_claim(layout, owners)?.max(named);
        if highest >= epoch || last {
            return Ok(highest);
        }
        clock::sleep_ms(LOOK_AGAIN_MS);
    }
}

/// Claims `epoch` without a leader, so that the next claimant takes a higher one.
///
/// # Errors
/// The claim cannot be written.
pub fn skip_epoch(layout: &Layout, epoch: u64, host: &str) -> sys::Result<()> {
    let path = layout.claim(epoch);
    let doc = EpochDoc {
        epoch,
        host: host.to_owned(),
        nonce: clock::nonce(16),
        ..EpochDoc::default()
    };
    sys::fs::link_exclusive(&path, &encode(&path, &doc)?).map(drop)
}

/// Removes claims that are not needed: all except the last hundred before `epoch`.
///
/// # Errors
/// The directory cannot be listed.
pub fn remove_old_claims(layout: &Layout, epoch: u64) -> sys::Result<()> {
    let claims = crate::spool::claims(layout)?;
    for old in claims.into_iter().filter(|n| n + CLAIMS_KEPT < epoch) {
        sys::fs::remove(&layout.claim(old))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
