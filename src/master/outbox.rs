//! The orders files that the leader writes for hosts, and the framed file that `acks` uses too.
//! Each file has one writer.
//!
//! Needs no durability: after a crash, a new epoch repeats every answer and order from the journal.
//! But on a network file system, data written through an open descriptor reaches the server only
//! with a sync, or half a minute later when the kernel writes it back; therefore it is synced
//! there. A write that fails because there is no space is tried again: answers in the same file, a
//! host's orders in the next part. If orders cannot be written for another reason, only that host
//! waits, and they are tried again at growing intervals; after such a failure of the answers the
//! leader steps down.

use crate::model::AttemptId;
use crate::record::frame;
use crate::record::header::{FileKind, Header};
use crate::record::order::Order;
use crate::record::point::Point;
use crate::spool::Layout;
use crate::state::State;
use crate::sys::append::Appender;
use crate::sys::statfs::FsKind;
use crate::sys::{self, fs};
use crate::turn::DamagedOrders;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Size at which an orders file is continued in a new part, in bytes.
const PART_BYTES: u64 = 8 << 20;
/// First and longest pause before the orders of a host are written again (ms).
const RETRY_MS: (u64, u64) = (1_000, 300_000);
/// A failure that returns within this time continues with the pause that was reached (ms).
const CALM_MS: u64 = 600_000;
/// Maximum number of hosts whose orders are written again in one turn.
const RETRIES_MAX: usize = 16;
/// Maximum number of part files of other accounts that are skipped in one attempt.
const TAKEN_MAX: u64 = 8;
/// Maximum number of hosts named in the alarm, and in the log at a time.
const NAMED_MAX: usize = 5;
/// Maximum number of damages that are remembered, and how long they are shown (ms).
const DAMAGES_MAX: usize = 10;
const SHOWN_MS: u64 = 3_600_000;

/// A framed file with its next sequence number.
pub(super) struct FramedFile {
    pub(super) file: Appender,
    seq: u64,
    pub(super) buffer: Vec<u8>,
    /// Data must be synced before other hosts can see it.
    pub(super) sync: bool,
}

impl FramedFile {
    pub(super) fn create(
        path: &std::path::Path,
        header: &Header,
        sync: bool,
    ) -> sys::Result<FramedFile> {
        fs::mkdir_p(fs::parent(path), 0o755)?;
        let mut framed = FramedFile {
            file: Appender::create_new(path)?,
            seq: 0,
            buffer: Vec::new(),
            sync,
        };
        framed.push(header);
        if let Err(e) = framed.flush() {
            // No host has read it, and the next attempt uses the same name.
            drop(fs::remove(path));
            return Err(e);
        }
        Ok(framed)
    }

    pub(super) fn push<T: serde::Serialize>(&mut self, record: &T) {
        match frame::write(&mut self.buffer, self.seq, record) {
            Ok(()) => self.seq += 1,
            Err(e) => tracing::error!("a record cannot be written as JSON: {e}"),
        }
    }

    fn flush(&mut self) -> sys::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let wrote = self.file.append(&self.buffer).map(|_| ());
        self.buffer.clear();
        match self.sync {
            true => wrote.and_then(|()| self.file.sync()),
            false => wrote,
        }
    }
}

/// Orders of this epoch to all hosts.
pub(super) struct Orders {
    layout: Layout,
    cluster: String,
    epoch: u64,
    hosts: BTreeMap<String, HostOrders>,
    sync: bool,
    /// Hosts whose orders could not be written.
    waiting: BTreeSet<String>,
    /// Hosts whose orders began to wait, with the reason, or no longer wait, since the last turn
    /// that was given these changes.
    wait_changes: Vec<(String, Option<String>)>,
    /// A write failed since [`Orders::take_failed`].
    failed: bool,
    /// The point of the journal from which the orders follow, and the last one that was sent to a
    /// host.
    point: Option<Point>,
    point_sent: Option<Point>,
    /// Damage that hosts found in their orders, with its time: for administrators.
    damaged: VecDeque<(u64, String)>,
    /// Hosts that still have orders of older epochs.
    unswept: Vec<String>,
}

/// Starts of which not a single byte was written, with their hosts.
#[derive(Default, Debug, PartialEq)]
pub(super) struct UnsentStarts {
    /// The host's orders wait for something other than room.
    pub blocked: Vec<(String, AttemptId)>,
    /// They wait for room on the share, unless it turns out to be a problem of the host alone
    /// ([`Orders::have_room`]).
    pub without_space: Vec<(String, AttemptId)>,
}

#[derive(Default)]
struct HostOrders {
    part: u64,
    /// The previous part, which the host may still be reading.
    previous_part: u64,
    /// `None`: a write failed. All orders in force go to the next part.
    framed: Option<FramedFile>,
    /// Specifications defined in this part.
    specs: BTreeSet<u32>,
    write_problem: Option<WriteProblem>,
}

/// Why a host's orders wait, or recently waited.
struct WriteProblem {
    text: String,
    no_room: bool,
    /// There is no room for this host, although the share has some.
    host_only: bool,
    pause_ms: u64,
    retry_at: u64,
    /// When they could be written again.
    over_at: Option<u64>,
}

impl WriteProblem {
    fn of(e: &sys::Error, before: Option<WriteProblem>, now: u64) -> WriteProblem {
        let recent = |t: &WriteProblem| t.over_at.is_none_or(|at| now.saturating_sub(at) < CALM_MS);
        let before = before.filter(|t| !t.no_room && recent(t));
        let host_only = before.as_ref().is_some_and(|t| t.host_only);
        let no_room = e.is_no_space() && !host_only;
        let pause_ms = before.map_or(RETRY_MS.0, |t| (t.pause_ms * 2).min(RETRY_MS.1));
        WriteProblem {
            text: e.to_string(),
            no_room,
            host_only,
            pause_ms,
            // This leader itself makes the room.
            retry_at: if no_room { now } else { now + pause_ms },
            over_at: None,
        }
    }

    /// Whether it waits for room on the share.
    fn for_room(&self) -> bool {
        self.no_room && self.over_at.is_none()
    }
}

impl Orders {
    /// # Errors
    /// The kind of the share's file system cannot be determined.
    pub(super) fn new(layout: &Layout, cluster: &str, epoch: u64) -> sys::Result<Orders> {
        let sync = sys::statfs::fs_kind(layout.root())? != FsKind::Local;
        let (layout, cluster) = (layout.clone(), cluster.to_owned());
        Ok(Orders {
            layout,
            cluster,
            epoch,
            hosts: BTreeMap::new(),
            sync,
            waiting: BTreeSet::new(),
            wait_changes: Vec::new(),
            failed: false,
            point: None,
            point_sent: None,
            damaged: VecDeque::new(),
            unswept: Vec::new(),
        })
    }

    /// Notes that orders written from here on follow from the journal up to `point`, which is
    /// durable.
    pub(super) fn follow_from(&mut self, point: Point) {
        self.point = Some(point);
    }

    /// Whether some host was sent the current point of the journal.
    pub(super) fn has_sent_point(&self) -> bool {
        self.point == self.point_sent
    }

    /// Sends a host the current point of the journal, even though there is nothing to order.
    pub(super) fn send_point(
        &mut self,
        host: &str,
        now: u64,
        state: &State,
        again: &dyn Fn(&str) -> Vec<Order>,
    ) {
        self.prepare(host, now, state, again);
        self.flush(BTreeSet::from([host.to_owned()]), now, state, again);
    }

    /// Creates the host's file of this epoch with the first order for it; until then the host finds
    /// none in its directory and has nothing to do. The file first states for which ledger the
    /// orders are. If it cannot be created, the orders of this host wait.
    fn prepare(&mut self, host: &str, now: u64, state: &State, again: &dyn Fn(&str) -> Vec<Order>) {
        if self.hosts.contains_key(host) {
            return;
        }
        self.hosts.insert(host.to_owned(), HostOrders::default());
        let made = self.begin_part(host);
        self.note(host, made, now);
        self.unswept.push(host.to_owned());
        let ledger = |order: &Order| matches!(order, Order::Ledger { .. });
        let ledger = again(host).into_iter().find(ledger);
        if let (Some(order), Some(file)) = (ledger, self.hosts.get_mut(host)) {
            file.push(&order, state);
        }
    }

    /// Begins the next part of a host's orders. Returns the file of the previous part.
    fn begin_part(&mut self, host: &str) -> sys::Result<Option<FramedFile>> {
        let last = self.hosts.get(host).map_or(0, |file| file.part);
        let (part, framed) = self.open(host, last + 1)?;
        let file = self.hosts.entry(host.to_owned()).or_default();
        file.specs.clear();
        file.part = part;
        Ok(file.framed.replace(framed))
    }

    fn open(&self, host: &str, from: u64) -> sys::Result<(u64, FramedFile)> {
        let mut part = from;
        loop {
            let header = Header::new(FileKind::Orders, &self.cluster, self.epoch, part);
            let path = self.layout.orders(host, self.epoch, part);
            match FramedFile::create(&path, &header, self.sync) {
                // No other process writes orders of this epoch, so a file with this name is
                // skipped.
                Err(e) if e.is_taken() && part < from + TAKEN_MAX => part += 1,
                other => return other.map(|framed| (part, framed)),
            }
        }
    }

    /// Appends orders, one write per host. `again` returns a host's orders in force, for a new
    /// part. Orders that cannot be written are not lost: they are in force, and
    /// [`Orders::retry_writes`] repeats them. Returns the attempts whose start was not written at
    /// all, with their hosts.
    pub(super) fn write(
        &mut self,
        orders: Vec<(String, Order)>,
        now: u64,
        state: &State,
        again: &dyn Fn(&str) -> Vec<Order>,
    ) -> UnsentStarts {
        let mut touched = BTreeSet::new();
        let mut unsent = UnsentStarts::default();
        for (host, order) in orders {
            self.prepare(&host, now, state, again);
            let file = self.hosts.get_mut(&host).expect("just prepared");
            match &order {
                Order::Start(start) if file.is_blocked() => unsent.blocked.push((host, start.a)),
                Order::Start(start) if file.framed.is_none() => {
                    unsent.without_space.push((host, start.a));
                }
                _ => {
                    file.push(&order, state);
                    touched.insert(host);
                }
            }
        }
        self.flush(touched, now, state, again);
        unsent
    }

    fn flush(
        &mut self,
        touched: BTreeSet<String>,
        now: u64,
        state: &State,
        again: &dyn Fn(&str) -> Vec<Order>,
    ) {
        let point = self.point.map(Order::Journal);
        for host in touched {
            let Some(framed) = self.hosts.get_mut(&host).and_then(|f| f.framed.as_mut()) else {
                continue;
            };
            if let Some(point) = &point {
                framed.push(point);
            }
            let wrote = framed.flush();
            let full = framed.file.valid_len() > PART_BYTES;
            if wrote.is_ok() {
                self.point_sent = self.point;
            }
            let next = match wrote {
                Ok(()) if full => self.next_part(&host, state, again),
                other => other,
            };
            self.note(&host, next, now);
        }
    }

    /// Writes waiting orders again if it is time. Returns the hosts for which it did so; their new
    /// files may contain any part of what is in force.
    pub(super) fn retry_writes(
        &mut self,
        now: u64,
        state: &State,
        again: &dyn Fn(&str) -> Vec<Order>,
    ) -> Vec<String> {
        let due = |host: &&String| {
            let problem = self
                .hosts
                .get(*host)
                .and_then(|file| file.write_problem.as_ref());
            problem.is_none_or(|t| t.retry_at <= now)
        };
        let due = self.waiting.iter().filter(due).take(RETRIES_MAX);
        let mut tried = Vec::new();
        for host in due.cloned().collect::<Vec<_>>() {
            let next = self.next_part(&host, state, again);
            self.note(&host, next, now);
            let waits = |file: &HostOrders| {
                file.write_problem
                    .as_ref()
                    .is_some_and(WriteProblem::for_room)
            };
            let no_room = self.hosts.get(&host).is_some_and(waits);
            tried.push(host);
            if no_room {
                break;
            }
        }
        tried
    }

    /// When the first of the waiting orders are to be written again.
    pub(super) fn retry_at(&self) -> Option<u64> {
        self.write_problems().map(|(_, t)| t.retry_at).min()
    }

    fn write_problems(&self) -> impl Iterator<Item = (&String, &WriteProblem)> {
        let problem = |host| Some((host, self.hosts.get(host)?.write_problem.as_ref()?));
        self.waiting.iter().filter_map(problem)
    }

    /// Why orders wait for room on the share, if they do.
    pub(super) fn lacks_room(&self) -> Option<&str> {
        let mut all = self.write_problems();
        all.find(|(_, t)| t.no_room).map(|(_, t)| t.text.as_str())
    }

    /// Notes that the share does have room: what waits for some is a problem of these hosts alone,
    /// such as a quota of their directories or a directory mounted read-only.
    pub(super) fn have_room(&mut self, now: u64) {
        for host in &self.waiting {
            let problem = self
                .hosts
                .get_mut(host)
                .and_then(|f| f.write_problem.as_mut());
            if let Some(t) = problem.filter(|t| t.no_room) {
                (t.no_room, t.host_only) = (false, true);
                t.retry_at = now + t.pause_ms;
                self.wait_changes.push((host.clone(), Some(t.text.clone())));
            }
        }
    }

    /// The alarm for administrators about orders that wait for something other than room.
    pub(super) fn alarm(&self) -> Option<String> {
        let blocked: Vec<_> = self.write_problems().filter(|(_, t)| !t.no_room).collect();
        let named = blocked.iter().take(NAMED_MAX);
        let named: Vec<String> = named
            .map(|(host, t)| format!("{host}: {}", t.text))
            .collect();
        let who = match blocked.len() {
            0 => return None,
            1 => "1 host, which gets".to_owned(),
            n => format!("{n} hosts, which get"),
        };
        Some(format!(
            "orders cannot be written for {who} no work until then: {}; the leader tries again. \
             The cluster's account must be able to write hosts/<host>/; a directory that does not \
             belong to a host may be removed",
            named.join("; ")
        ))
    }

    /// Hosts whose orders began to wait, with the reason, or no longer wait.
    pub(super) fn take_changes(&mut self) -> Vec<(String, Option<String>)> {
        std::mem::take(&mut self.wait_changes)
    }

    /// Whether [`Orders::take_changes`] would return something.
    pub(super) fn has_changes(&self) -> bool {
        !self.wait_changes.is_empty()
    }

    /// Whether a write failed since the last call: the cause may be the share, and not only one
    /// host.
    pub(super) fn take_failed(&mut self) -> bool {
        std::mem::take(&mut self.failed)
    }

    /// Gives up parts that their hosts cannot read to the end, as after a failed write: another
    /// part repeats what is in force, at once or after an increasing pause.
    pub(super) fn renew(&mut self, damaged: Vec<DamagedOrders>, now: u64) {
        for DamagedOrders {
            host,
            part,
            at,
            why,
        } in damaged
        {
            // The host has not read a further part since that one was given up.
            let present = |file: &HostOrders| file.part == part && file.framed.is_some();
            if !self.hosts.get(&host).is_some_and(present) {
                continue;
            }
            let path = self.layout.orders(&host, self.epoch, part);
            let text = format!(
                "{}:{at}: damaged as host {host} reads it ({why}); another part repeats what is \
                 in force",
                path.display()
            );
            self.damaged.push_back((now, text));
            if self.damaged.len() > DAMAGES_MAX {
                self.damaged.pop_front();
            }
            let e = sys::Error::invalid("read", &path, format!("damaged at byte {at}"));
            self.note::<()>(&host, Err(e), now);
        }
    }

    /// Damage that hosts recently found, for administrators.
    pub(super) fn damages(&self, now: u64) -> impl Iterator<Item = &String> {
        let recent = move |(at, _): &&(u64, String)| now.saturating_sub(*at) < SHOWN_MS;
        self.damaged.iter().filter(recent).map(|(_, text)| text)
    }

    /// Records the result of writing a host's orders. After a failure the orders wait, and the
    /// current part ends at that place.
    fn note<T>(&mut self, host: &str, wrote: sys::Result<T>, now: u64) {
        let Some(file) = self.hosts.get_mut(host) else {
            return;
        };
        let was_blocked = file.is_blocked();
        match wrote {
            Ok(_) if self.waiting.remove(host) => {
                tracing::info!("orders to {host} can be written again");
                if let Some(problem) = file.write_problem.as_mut() {
                    problem.over_at = Some(now);
                }
            }
            Ok(_) => return,
            Err(e) => {
                self.failed = true;
                let problem = WriteProblem::of(&e, file.write_problem.take(), now);
                if self.waiting.len() < NAMED_MAX || problem.no_room {
                    tracing::error!("{e}: the orders to {host} wait");
                }
                (file.framed, file.write_problem) = (None, Some(problem));
                self.waiting.insert(host.to_owned());
            }
        }
        let blocked = file.is_blocked();
        if was_blocked != blocked {
            let text = file.write_problem.as_ref().map(|t| t.text.clone());
            self.wait_changes
                .push((host.to_owned(), text.filter(|_| blocked)));
        }
    }

    fn next_part(
        &mut self,
        host: &str,
        state: &State,
        again: &dyn Fn(&str) -> Vec<Order>,
    ) -> sys::Result<()> {
        let last = self.hosts.get(host).map_or(0, |file| file.part);
        let old = self.begin_part(host)?;
        let Some(file) = self.hosts.get_mut(host) else {
            return Ok(());
        };
        let point = self.point.map(Order::Journal);
        for order in again(host).into_iter().chain(point) {
            file.push(&order, state);
        }
        if let Some(framed) = file.framed.as_mut() {
            // A host may be reading the part: it ends here, and waiting orders go to the next one.
            framed.flush()?;
        }
        // Without this last record the host finds the new part by itself, but later.
        if let Some(mut framed) = old {
            framed.push(&Order::Next { part: file.part });
            if let Err(e) = framed.flush() {
                tracing::warn!("{e}");
            }
        }
        // Every host has read beyond the part before the last, or reads the newest.
        let old_part = std::mem::replace(&mut file.previous_part, last);
        if old_part > 0 {
            let _ = fs::remove(&self.layout.orders(host, self.epoch, old_part));
        }
        Ok(())
    }

    /// Removes the orders of older epochs of one host that has orders of this one.
    pub(super) fn remove_older_epochs(&mut self) {
        let Some(host) = self.unswept.pop() else {
            return;
        };
        let host = host.as_str();
        let dir = self.layout.host(host);
        for name in fs::names(&dir, 10_000).unwrap_or_default() {
            let old = name.to_str().and_then(Layout::parse_orders_name);
            if old.is_some_and(|(epoch, _)| epoch < self.epoch) {
                let _ = fs::remove(&dir.join(&name));
            }
        }
    }
}

impl HostOrders {
    /// Whether its orders wait, and not for room.
    fn is_blocked(&self) -> bool {
        let waits = |t: &WriteProblem| t.over_at.is_none() && !t.no_room;
        self.write_problem.as_ref().is_some_and(waits)
    }

    fn push(&mut self, order: &Order, state: &State) {
        let Some(framed) = self.framed.as_mut() else {
            return;
        };
        let names = match order {
            Order::Start(start) => Some(start.s),
            Order::Part { s, .. } => Some(*s),
            _ => None,
        };
        if let Some(id) = names.filter(|id| self.specs.insert(*id)) {
            let spec = Box::new(state.spec(id).as_ref().clone());
            framed.push(&Order::Spec { id, spec });
        }
        framed.push(order);
    }
}

#[cfg(test)]
mod tests;
