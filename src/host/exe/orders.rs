//! Reading orders: the epoch first, then the highest part of that epoch, by offset.
//!
//! Every look opens, reads and closes the file, so that a network file system returns fresh data.
//! Orders of a lower epoch than the highest ever seen are not read. Reading stops at damage: the
//! damage is reported, and the leader repeats everything in force in another part.

mod unchanged_share;

use super::ledger::LedgerIdentity;
use crate::record::frame::{Damage, Damaged, Reader};
use crate::record::header::{FileKind, Header};
use crate::record::hint::Endpoint;
use crate::record::leader::{EpochDoc, FIXED_LEN, decode_fixed};
use crate::record::order::Order;
use crate::record::report::Report;
use crate::record::suspect::Suspect;
use crate::spool::{Layout, epoch_known};
use crate::sys::tail::Tail;
use crate::sys::trust::Owners;
use crate::sys::{clock, fs};
use std::path::PathBuf;
use unchanged_share::UnchangedShare;

/// Maximum number of bytes of orders that are read in one turn.
const CHUNK: usize = 4 << 20;
/// How often a further part is looked for that the current one does not name (ms).
const NEXT_MS: u64 = 5000;
/// The same while the current part is damaged (ms).
const DAMAGED_MS: u64 = 1000;
/// How long an epoch that was read or found unchanged is not checked again (ms), if a check costs a
/// request. An order of the previous epoch that is followed in this time could also have been
/// followed before that epoch ended: the new leader knows of it and waits for this host's report.
const EPOCH_MS: u64 = 1000;
/// Maximum length of the reason in a report of damage, in characters.
const WHY_MAX: usize = 300;

/// Where the orders are, and the owners of their files.
#[derive(Debug)]
struct OrdersLocation {
    layout: Layout,
    host: String,
    cluster: String,
    /// The owners whose files are accepted; `None`: any owner.
    owners: Option<Owners>,
}

impl OrdersLocation {
    fn dir(&self) -> PathBuf {
        self.layout.host(&self.host)
    }

    fn file(&self, epoch: u64, part: u64) -> PathBuf {
        self.layout.orders(&self.host, epoch, part)
    }
}

/// What prevents further reading.
#[derive(Debug, Default)]
struct ReadProblem {
    /// The place at which reading stopped.
    suspect: Suspect,
    /// The damage of the current part, once it is certain.
    damage: Option<Report>,
    /// The last error that was logged, so that it is logged once.
    logged: String,
}

/// The leader according to `leader/epoch`.
#[derive(Debug, Default)]
struct KnownLeader {
    doc: EpochDoc,
    /// The address at which it receives hints.
    endpoint: Option<Endpoint>,
    /// When the document was read or found unchanged last (boot clock, ms).
    read_at: u64,
}

impl KnownLeader {
    fn now(doc: EpochDoc) -> KnownLeader {
        KnownLeader {
            endpoint: Endpoint::parse(&doc.hints),
            read_at: clock::boot_ms(),
            doc,
        }
    }
}

/// The position of reading.
#[derive(Debug)]
pub(super) struct OrderReader {
    location: OrdersLocation,
    epoch: u64,
    /// 0: no part found yet.
    part: u64,
    offset: u64,
    seq: u64,
    tail: Tail,
    read_problem: ReadProblem,
    /// When a further part was last looked for (boot clock, ms).
    next_at: u64,
    /// Accept what a lower epoch's leader published late: for simulations without the rule against
    /// it.
    pub follow_lower: bool,
    identity: LedgerIdentity,
    /// Whether the orders read are for this host's ledger; `None`: the file has not named a ledger
    /// yet.
    ours: Option<bool>,
    leader: KnownLeader,
    unchanged: UnchangedShare,
}

/// The result of one look.
#[derive(Debug, Default)]
pub(super) struct OrdersPoll {
    pub orders: Vec<Order>,
    /// The part that contains the orders.
    pub part: u64,
    /// A higher epoch than before: it must be recorded before its orders are followed.
    pub new_epoch: bool,
    /// More can be read at once.
    pub more: bool,
    /// Orders after this place cannot be read, now or ever: one of them may cancel a start.
    pub blocked: bool,
    /// Damage that became certain in this look.
    pub damage: Option<Report>,
    /// The highest epoch ever claimed here, if it is lower than the epoch that was followed before:
    /// the share is an older copy.
    pub reverted_epoch: Option<u64>,
}

impl OrderReader {
    /// A reader that follows `epoch` or a higher one.
    pub(super) fn new(
        layout: &Layout,
        host: &str,
        cluster: &str,
        identity: LedgerIdentity,
        epoch: u64,
    ) -> OrderReader {
        OrderReader {
            location: OrdersLocation {
                layout: layout.clone(),
                host: host.to_owned(),
                cluster: cluster.to_owned(),
                owners: None,
            },
            epoch,
            part: 0,
            offset: 0,
            seq: 0,
            tail: Tail::of(layout.root()),
            read_problem: ReadProblem::default(),
            next_at: 0,
            follow_lower: false,
            identity,
            ours: None,
            leader: KnownLeader::default(),
            unchanged: UnchangedShare::default(),
        }
    }

    /// Accepts only files of these owners.
    pub(super) fn follow_only(&mut self, owners: Owners) {
        self.location.owners = Some(owners);
    }

    /// On a network file system a look begins with requests for the attributes of the epoch's file
    /// and the orders, and ends there if neither can contain anything new.
    pub(super) fn prefetch_attributes(&mut self) {
        self.unchanged.checks_attributes = true;
    }

    /// Whether a hint caused the next look: it then skips the check whether reading is worth the
    /// requests.
    pub(super) fn set_hinted(&mut self, hinted: bool) {
        self.unchanged.skip_next = hinted;
    }

    /// Whether the leader's orders are for another ledger of this host; `None`: not known.
    pub(super) fn is_foreign(&self) -> Option<bool> {
        self.ours.map(|ours| !ours)
    }

    /// Epoch and part being read.
    pub(super) fn position(&self) -> (u64, u64) {
        (self.epoch, self.part)
    }

    /// The address at which the leader receives hints, if it does.
    pub(super) fn leader(&self) -> Option<&Endpoint> {
        self.leader.endpoint.as_ref()
    }

    /// The document of the epoch that is followed, and the time when it was last read or found
    /// unchanged (boot clock, ms).
    pub(super) fn epoch_doc(&self) -> Option<(&EpochDoc, u64)> {
        let known = self.epoch > 0 && self.leader.doc.epoch == self.epoch;
        known.then_some((&self.leader.doc, self.leader.read_at))
    }

    /// The damage of the part being read, if there is any.
    pub(super) fn damage(&self) -> Option<&Report> {
        self.read_problem.damage.as_ref()
    }

    /// Executes one look.
    ///
    /// # Errors
    /// The share does not answer, as a sentence; nothing is lost.
    pub(super) fn poll(&mut self) -> Result<OrdersPoll, String> {
        let now = clock::boot_ms();
        if self.unchanged.may_skip_read() && self.is_unchanged(now) {
            return Ok(OrdersPoll::default());
        }
        self.unchanged.since = None;
        let poll = self.read_all(now)?;
        let stops = poll.more || poll.new_epoch || poll.blocked;
        if !stops && poll.reverted_epoch.is_none() {
            self.unchanged.since = Some(now);
        }
        Ok(poll)
    }

    /// Whether the epoch and the orders are unchanged since the last look, which found nothing. As
    /// in a full look, no order is read before the epoch.
    fn is_unchanged(&mut self, now: u64) -> bool {
        if !self.unchanged.is_recent(now) {
            return false;
        }
        let has_more = match self.part {
            0 => self.unchanged.has_changed(&self.location.dir(), now),
            part => fs::mark(&self.location.file(self.epoch, part))
                .map_or(true, |mark| mark.len != self.offset),
        };
        !has_more && self.epoch_unchanged(now)
    }

    fn epoch_unchanged(&mut self, now: u64) -> bool {
        let recent = now.saturating_sub(self.leader.read_at) < EPOCH_MS;
        if recent && self.unchanged.epoch_read {
            return true;
        }
        let stands = self
            .unchanged
            .epoch_unchanged(&self.location.layout.epoch(), now);
        if stands {
            self.leader.read_at = now;
        }
        stands
    }

    fn read_all(&mut self, now: u64) -> Result<OrdersPoll, String> {
        let mut poll = OrdersPoll::default();
        let epoch = match self.unchanged.checks_attributes && self.epoch_unchanged(now) {
            true => self.epoch,
            false => {
                self.unchanged.epoch_read = false;
                let epoch = self.read_epoch()?;
                self.unchanged.epoch_read = epoch == self.epoch;
                epoch
            }
        };
        if epoch > self.epoch {
            if self.follow_lower && self.part > 0 {
                self.read_part(&mut poll)?;
            }
            self.epoch = epoch;
            self.go_to_part(0);
            poll.new_epoch = true;
        }
        if epoch < self.epoch && !self.follow_lower {
            // A late claimant may have overwritten the file; the claim of its successor exists as
            // well.
            let highest = self.highest_claim()?.max(epoch);
            poll.reverted_epoch = Some(highest).filter(|highest| *highest < self.epoch);
        }
        if self.epoch == 0 {
            return Ok(poll);
        }
        if self.part == 0 {
            match self.highest_part()? {
                Some(part) => self.go_to_part(part),
                None => return Ok(poll),
            }
        }
        self.read_part(&mut poll)?;
        if poll.orders.is_empty() && !poll.more {
            poll.more = self.find_next()?;
        }
        Ok(poll)
    }

    /// A leader whose share was full continues in a further part, and may have had no space to
    /// record that in this one. The further part repeats everything in force. Returns true if it
    /// exists.
    fn find_next(&mut self) -> Result<bool, String> {
        let now = clock::boot_ms();
        let every = self
            .read_problem
            .damage
            .as_ref()
            .map_or(NEXT_MS, |_| DAMAGED_MS);
        if now.saturating_sub(self.next_at) < every {
            return Ok(false);
        }
        self.next_at = now;
        let next = self.part.saturating_add(1);
        let there = || fs::exists(&self.location.file(self.epoch, next));
        if self.read_problem.damage.is_none() && !there() {
            return Ok(false);
        }
        let highest = self.highest_part()?;
        let next = highest.filter(|part| *part > self.part);
        if let Some(part) = next {
            self.go_to_part(part);
        }
        Ok(next.is_some())
    }

    /// Continues in another part, from its first byte.
    pub(super) fn go_to_part(&mut self, part: u64) {
        (self.part, self.offset, self.seq) = (part, 0, 0);
        self.ours = None;
        self.read_problem.damage = None;
        self.tail = self.tail.another();
        self.read_problem.suspect.clear();
    }

    /// Makes unreadable data look older by this time, in tests.
    #[cfg(test)]
    pub(super) fn age_for_tests(&mut self, ms: u64) {
        self.read_problem.suspect.age_for_tests(ms);
    }

    /// Reading of this part ends here.
    fn give_up(&mut self, poll: &mut OrdersPoll, why: &str) {
        if self.read_problem.damage.is_some() {
            return;
        }
        let report = Report::OrdersDamaged {
            epoch: self.epoch,
            part: self.part,
            seq: self.seq,
            at: self.offset,
            why: why.chars().take(WHY_MAX).collect(),
        };
        tracing::error!("{why}; another part is requested from the leader");
        (self.read_problem.damage, poll.damage) = (Some(report.clone()), Some(report));
    }

    fn read_epoch(&mut self) -> Result<u64, String> {
        let path = self.location.layout.epoch();
        let limit = 2 * FIXED_LEN as u64;
        let bytes = match self.location.owners {
            Some(owners) => owners.read_small(&path, limit),
            None => fs::read_small(&path, limit),
        };
        let bytes = match bytes {
            Ok(bytes) if bytes.is_empty() => return Ok(0),
            Ok(bytes) => bytes,
            Err(e) if e.is_not_found() => return Ok(0),
            Err(e) => return Err(e.to_string()),
        };
        match decode_fixed::<EpochDoc>(&bytes) {
            Ok(doc) if doc.epoch <= self.epoch => {
                let epoch = doc.epoch;
                if epoch == self.epoch {
                    self.leader = KnownLeader::now(doc);
                }
                Ok(epoch)
            }
            // If it followed a number without a claim, this host would follow no later leader.
            Ok(doc) => match epoch_known(&self.location.layout, doc.epoch) {
                Ok(None) => {
                    let epoch = doc.epoch;
                    self.leader = KnownLeader::now(doc);
                    Ok(epoch)
                }
                Ok(Some(known)) => Err(format!(
                    "{} names epoch {}, far above the highest claimed epoch, {known}: it is \
                     ignored, and the next leader rewrites the file",
                    path.display(),
                    doc.epoch
                )),
                Err(e) => Err(e.to_string()),
            },
            // The file was read while it was being overwritten: the next look reads it again.
            Err(_) => {
                self.unchanged.epoch_missed();
                Ok(self.epoch)
            }
        }
    }

    fn highest_claim(&self) -> Result<u64, String> {
        let claims = crate::spool::claims(&self.location.layout).map_err(|e| e.to_string())?;
        Ok(claims.into_iter().max().unwrap_or(0))
    }

    fn highest_part(&self) -> Result<Option<u64>, String> {
        let dir = self.location.dir();
        let names = match fs::list_dir(&dir, 100_000) {
            Ok(names) => names,
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(e.to_string()),
        };
        let parts = names
            .iter()
            .filter_map(|e| Layout::parse_orders_name(e.text()?));
        Ok(parts
            .filter(|(e, p)| *e == self.epoch && self.is_trusted(*e, *p))
            .map(|(_, p)| p)
            .max())
    }

    /// A file of a foreign owner must not hide the leader's file.
    fn is_trusted(&self, epoch: u64, part: u64) -> bool {
        let (path, owners) = (self.location.file(epoch, part), self.location.owners);
        owners.is_none_or(|o| o.refusal_of(&path).is_none())
    }

    fn read_part(&mut self, poll: &mut OrdersPoll) -> Result<(), String> {
        let path = self.location.file(self.epoch, self.part);
        let chunk = self.tail.read_from(&path, self.offset, CHUNK);
        let chunk = chunk.and_then(|chunk| match self.location.owners {
            Some(owners) => owners.check("believe", &path, chunk.uid).map(|()| chunk),
            None => Ok(chunk),
        });
        let chunk = match chunk {
            Ok(chunk) => chunk,
            // Named before this client can see it, or removed; the share itself has just answered.
            Err(e) => {
                poll.blocked = true;
                let suspect = &mut self.read_problem.suspect;
                if suspect.unreadable(self.offset, clock::boot_ms()) {
                    self.give_up(poll, &e.to_string());
                }
                return match e.is_not_found() {
                    true => Ok(()),
                    false => Err(e.to_string()),
                };
            }
        };
        poll.part = self.part;
        let before = self.offset;
        let mut reader = Reader::resume(&chunk.bytes, before, self.seq);
        let mut found = Vec::new();
        let result = read_orders(&mut reader, &self.location.cluster, &mut found);
        found.retain(|order| self.is_for_ledger(order));
        poll.orders.append(&mut found);
        (self.offset, self.seq) = (reader.offset(), reader.next_seq());
        // Not if reading stopped at a damaged order: the next look would find the same.
        let moved = self.offset > before;
        poll.more = moved && chunk.file_len > self.offset && chunk.bytes.len() == CHUNK;
        let shorter = chunk.file_len < self.offset;
        match result {
            Ok(()) if !shorter => self.read_problem.suspect.clear(),
            Ok(()) => {
                let why = format!("{} has become shorter", path.display());
                self.stop_at(poll, &Damage::Torn, chunk.file_len, why);
            }
            Err(e) => {
                let why = format!("{}: {e}", path.display());
                self.stop_at(poll, &e.damage, chunk.file_len, why);
            }
        }
        if let Some(part) = poll.orders.iter().rev().find_map(next_part) {
            self.go_to_part(part);
            poll.more = true;
        }
        Ok(())
    }
}

impl OrderReader {
    /// Reading stops here in this look.
    fn stop_at(&mut self, poll: &mut OrdersPoll, damage: &Damage, file_len: u64, why: String) {
        poll.blocked = true;
        let now = clock::boot_ms();
        let suspect = &mut self.read_problem.suspect;
        let lasts = suspect.is_damage(damage, self.offset, file_len, now);
        if *damage != Damage::Torn && why != self.read_problem.logged {
            tracing::error!("{why}; waiting for whole orders");
            self.read_problem.logged.clone_from(&why);
        }
        if lasts {
            self.give_up(poll, &why);
        }
    }

    /// Starts and cancellations are for one ledger only: a host with another ledger cannot know
    /// whether they were carried out. All other orders are harmless if the attempt is unknown.
    fn is_for_ledger(&mut self, order: &Order) -> bool {
        match order {
            Order::Ledger { id } => {
                self.ours = Some(*id == self.identity.id);
                false
            }
            Order::Start(_) | Order::Cancel { .. } => {
                self.ours.unwrap_or(self.identity.predates_names)
            }
            _ => true,
        }
    }
}

fn next_part(order: &Order) -> Option<u64> {
    match order {
        Order::Next { part } => Some(*part),
        _ => None,
    }
}

/// Reads whole orders until the end or until an incomplete line.
fn read_orders(
    reader: &mut Reader<'_>,
    cluster: &str,
    orders: &mut Vec<Order>,
) -> Result<(), Damaged> {
    loop {
        if reader.offset() == 0 {
            match Header::read(reader, FileKind::Orders, Some(cluster))? {
                Some(_) => continue,
                None => return Ok(()),
            }
        }
        match reader.next_line()? {
            None => return Ok(()),
            Some(line) => match line.decode::<Order>() {
                Ok(order) => {
                    let last = next_part(&order).is_some();
                    orders.push(order);
                    if last {
                        return Ok(());
                    }
                }
                // An intact order of a kind that this version does not know does not concern it.
                Err(e) => tracing::error!("order {} is not understood: {e:?}", line.seq),
            },
        }
    }
}

#[cfg(test)]
mod tests;
