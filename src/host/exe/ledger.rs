//! The local log of `cbexe`: `attempts.log`, written and synced before anything is started.
//!
//! It is rewritten completely at each start (so that nothing is appended to a torn tail), and
//! appended to otherwise. After a failed write it is rewritten under the same name.

use super::table::{Entry, SpawnRecord, Status, Table};
use crate::host::local::Local;
use crate::model::AttemptId;
use crate::record::frame;
use crate::record::header::{FileKind, Header};
use crate::record::point::Points;
use crate::sys::append::Appender;
use crate::sys::{self, clock, fs};
use crate::task::log::AttemptRec;
use std::path::PathBuf;

/// Maximum size of a log that is read.
const READ_MAX: u64 = 4 << 30;
/// Space reserved for records, so that ends can be reported while the disk is full. Renewed when
/// half of it is used.
const RESERVE: u64 = 1 << 20;
/// Size at which the log is rewritten.
const REWRITE_AT: u64 = 64 << 20;

/// The name of a ledger. The leader's orders are for the ledger that it knows: after a host has
/// lost its local directory, it does not carry them out again.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct LedgerIdentity {
    pub id: String,
    /// The ledger is older than ledger names, so orders without a name are for it too.
    pub predates_names: bool,
}

/// The open ledger.
pub(super) struct Ledger {
    pub identity: LedgerIdentity,
    path: PathBuf,
    cluster: String,
    file: Appender,
    seq: u64,
    buf: Vec<u8>,
    /// A pushed record must be durable before it is acted on.
    urgent: bool,
    /// The length of the log up to which space was last reserved.
    reserved_to: u64,
    /// Why the last commit failed, if it did.
    pub error: Option<String>,
}

/// What earlier processes recorded in the log.
#[derive(Debug, Default)]
pub(super) struct LedgerContents {
    pub table: Table,
    /// What is known of the share.
    pub share: KnownShare,
    /// Lines that could not be read, with their offset.
    pub bad: Vec<(u64, frame::Damage)>,
    /// `None` if it has no name, or if lines are missing: a ledger that lost records must not keep
    /// its name.
    pub identity: Option<LedgerIdentity>,
}

/// What a host remembers of the share, to notice if an older copy takes its place.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct KnownShare {
    /// Highest epoch whose orders were followed.
    pub epoch: u64,
    /// The position of the journal in the last orders.
    pub points: Points,
    /// The last restored share (`Order::Restored`) to which all reports were repeated.
    pub restored: u64,
}

/// Reads the log; damage only loses the damaged lines.
pub(super) fn read(local: &Local) -> sys::Result<LedgerContents> {
    let Some(bytes) = fs::read_optional(&local.attempts(), READ_MAX)? else {
        return Ok(LedgerContents::default());
    };
    let mut found = decode(&bytes);
    // A torn record at the end was not yet acted on.
    let torn = |(_, damage): &(u64, frame::Damage)| *damage == frame::Damage::Torn;
    let whole = found.bad.iter().all(torn) && !bytes.is_empty();
    found.identity = match (whole, found.identity) {
        (false, _) => None,
        (true, None) => Some(LedgerIdentity {
            id: clock::nonce(8),
            predates_names: true,
        }),
        (true, known) => known,
    };
    Ok(found)
}

fn decode(bytes: &[u8]) -> LedgerContents {
    let mut out = LedgerContents::default();
    let mut at = 0u64;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let offset = at;
        at += line.len() as u64;
        let whole = line.strip_suffix(b"\n");
        let parsed = whole
            .map(frame::parse_line)
            .unwrap_or(Err(frame::Damage::Torn));
        match parsed {
            Ok(l) if l.seq == 0 => {}
            Ok(l) => match l.decode::<AttemptRec>() {
                Ok(rec) => apply(&mut out, rec),
                Err(e) => out.bad.push((offset, e)),
            },
            Err(e) => out.bad.push((offset, e)),
        }
    }
    out
}

fn apply(out: &mut LedgerContents, rec: AttemptRec) {
    match rec {
        AttemptRec::Epoch { e, top, r } => {
            out.share.epoch = out.share.epoch.max(e);
            out.share.restored = out.share.restored.max(r);
            out.table.raise_top(top);
        }
        AttemptRec::Journal(point) => out.share.points.reach(point),
        AttemptRec::Ledger {
            id,
            kept: predates_names,
        } => out.identity = Some(LedgerIdentity { id, predates_names }),
        AttemptRec::Given {
            a,
            e,
            p,
            l,
            r,
            b,
            m,
            f,
            c,
            u,
        } => {
            if out.table.get(a).is_none() {
                let mut entry = Entry::new(Status::Sent(l), (e, p), r);
                entry.given = SpawnRecord {
                    boot: b,
                    binding: c,
                    units: u,
                    // Not recorded: the repeated order contains it.
                    ..SpawnRecord::default()
                };
                entry.mark = m;
                entry.ordered = if f > 0 { f } else { e };
                out.table.insert(a, entry);
            }
        }
        AttemptRec::Never { a, e, p, why } => {
            out.table
                .insert(a, Entry::new(Status::NeverStarts(why), (e, p), false));
        }
        AttemptRec::Refused { a, e, p } => {
            if let Some(entry) = out.table.get_mut(a) {
                entry.named_by = entry.named_by.max((e, p));
            }
        }
        AttemptRec::Signalled { a, n } => {
            if let Some(e) = out.table.get_mut(a) {
                e.signals = e.signals.max(n);
            }
        }
        AttemptRec::Resized { a, n } => {
            if let Some(e) = out.table.get_mut(a) {
                e.resizes.done = e.resizes.done.max(n);
            }
        }
        AttemptRec::Limited { a, n } => {
            if let Some(e) = out.table.get_mut(a) {
                e.limits.last_sent = e.limits.last_sent.max(n);
            }
        }
        AttemptRec::Acked { a } => {
            if let Some(e) = out.table.get_mut(a) {
                e.acked = true;
            }
        }
        AttemptRec::Concluded(end) => {
            out.table.set(end.a, Status::Ended(end));
        }
    }
}

/// Records that an attempt was given to the spawner that writes tasks log `l`.
pub(super) fn given_record(a: AttemptId, entry: &Entry, l: u64) -> AttemptRec {
    let (e, p) = entry.named_by;
    AttemptRec::Given {
        a,
        e,
        p,
        l,
        r: entry.rerunnable,
        b: entry.given.boot.clone(),
        m: entry.mark,
        f: if entry.ordered == e { 0 } else { entry.ordered },
        c: entry.given.binding.clone(),
        u: entry.given.units.clone(),
    }
}

/// The records from which the table can be restored.
fn records(identity: &LedgerIdentity, table: &Table, share: &KnownShare) -> Vec<AttemptRec> {
    let (id, predates_names) = (identity.id.clone(), identity.predates_names);
    let mut out = vec![
        AttemptRec::Ledger {
            id,
            kept: predates_names,
        },
        AttemptRec::Epoch {
            e: share.epoch,
            top: table.highest_job_id(),
            r: share.restored,
        },
    ];
    out.extend(share.points.iter().copied().map(AttemptRec::Journal));
    for (a, entry) in table.iter() {
        let (e, p) = entry.named_by;
        let l = match &entry.status {
            Status::Sent(log) => *log,
            Status::Running(s) => s.log,
            _ => 0,
        };
        match &entry.status {
            Status::NeverStarts(why) => out.push(AttemptRec::Never {
                a,
                e,
                p,
                why: why.clone(),
            }),
            Status::Ended(end) => {
                out.push(given_record(a, entry, l));
                out.push(AttemptRec::Concluded(end.clone()));
            }
            _ => out.push(given_record(a, entry, l)),
        }
        // Signals that wait for the start were not carried out: after a crash they are to be read
        // again.
        let waits = entry.waiting.first().map(|p| p.number.saturating_sub(1));
        let n = waits.unwrap_or(entry.signals);
        if n > 0 {
            out.push(AttemptRec::Signalled { a, n });
        }
        if entry.resizes.done > 0 {
            let n = entry.resizes.done;
            out.push(AttemptRec::Resized { a, n });
        }
        if entry.limits.last_sent > 0 {
            let n = entry.limits.last_sent;
            out.push(AttemptRec::Limited { a, n });
        }
        if entry.acked {
            out.push(AttemptRec::Acked { a });
        }
    }
    out
}

impl Ledger {
    /// Writes a new log with the content of `table`, durably, and opens it.
    ///
    /// # Errors
    /// The local directory cannot be written.
    pub(super) fn create(
        local: &Local,
        cluster: &str,
        identity: LedgerIdentity,
        table: &Table,
        share: &KnownShare,
    ) -> sys::Result<Ledger> {
        let path = local.attempts();
        let (bytes, seq) = whole(cluster, &identity, table, share);
        fs::durable_write_mode(&path, &bytes, 0o600)?;
        let file = Appender::open_existing(&path)?;
        let mut ledger = Ledger {
            identity,
            path,
            cluster: cluster.to_owned(),
            file,
            seq,
            buf: Vec::new(),
            urgent: false,
            reserved_to: 0,
            error: None,
        };
        ledger.reserve();
        Ok(ledger)
    }

    /// Adds a record, which the next `commit` writes.
    pub(super) fn push(&mut self, rec: &AttemptRec) {
        frame::write(&mut self.buf, self.seq, rec).expect("plain data becomes JSON");
        self.seq += 1;
        // If an acknowledgement is lost, a report is repeated; a point is written together with the
        // start that it belongs to, or again with the next orders.
        self.urgent |= !matches!(rec, AttemptRec::Acked { .. } | AttemptRec::Journal(_));
    }

    /// Writes the pushed records; with `durable`, only acknowledgements can be lost afterwards.
    ///
    /// # Errors
    /// The records cannot be written: none of them may be acted on, and `rewrite` must follow.
    pub(super) fn commit(&mut self, durable: bool) -> sys::Result<()> {
        let result = self.write_out(durable);
        self.error = result.as_ref().err().map(ToString::to_string);
        result
    }

    fn write_out(&mut self, durable: bool) -> sys::Result<()> {
        if !self.buf.is_empty() {
            let bytes = std::mem::take(&mut self.buf);
            self.file.append(&bytes)?;
            self.reserve();
        }
        if durable && self.urgent {
            self.file.sync()?;
            self.urgent = false;
        }
        Ok(())
    }

    /// Reserves space for records, unless half of the last reservation is left.
    fn reserve(&mut self) {
        let len = self.file.valid_len();
        if self.reserved_to.saturating_sub(len) < RESERVE / 2 {
            self.file.reserve(RESERVE);
            self.reserved_to = len.saturating_add(RESERVE);
        }
    }

    /// Whether the log has become long or can no longer be appended to.
    pub(super) fn wants_rewrite(&self) -> bool {
        self.file.is_poisoned() || self.file.valid_len() > REWRITE_AT
    }

    /// Replaces the log by one with the content of `table`.
    ///
    /// # Errors
    /// The new log cannot be written; the old one is kept.
    pub(super) fn rewrite(&mut self, table: &Table, share: &KnownShare) -> sys::Result<()> {
        let (bytes, seq) = whole(&self.cluster, &self.identity, table, share);
        fs::durable_write_mode(&self.path, &bytes, 0o600)?;
        self.file = Appender::open_existing(&self.path)?;
        self.reserved_to = 0;
        self.reserve();
        self.seq = seq;
        self.urgent = false;
        self.buf.clear();
        Ok(())
    }
}

#[cfg(test)]
impl Ledger {
    /// From now on there is no disk space for it.
    pub(super) fn on_full_disk(&mut self) {
        self.file = Appender::open_existing("/dev/full".as_ref()).unwrap();
        self.path = "/dev/full/attempts.log".into();
    }

    /// There is disk space again.
    pub(super) fn on_disk_again(&mut self, local: &Local) {
        self.path = local.attempts();
    }
}

fn whole(
    cluster: &str,
    identity: &LedgerIdentity,
    table: &Table,
    share: &KnownShare,
) -> (Vec<u8>, u64) {
    let mut bytes = Vec::new();
    let header = Header::new(FileKind::Local, cluster, 0, 1);
    frame::write(&mut bytes, 0, &header).expect("plain data becomes JSON");
    let mut seq = 1;
    for rec in records(identity, table, share) {
        frame::write(&mut bytes, seq, &rec).expect("plain data becomes JSON");
        seq += 1;
    }
    (bytes, seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::first_attempt as a;
    use crate::record::report::Ended;

    fn at(epoch: u64) -> KnownShare {
        KnownShare {
            epoch,
            ..KnownShare::default()
        }
    }

    fn named(id: &str) -> LedgerIdentity {
        let (id, predates_names) = (id.to_owned(), false);
        LedgerIdentity { id, predates_names }
    }

    #[test]
    fn who_forgot_something_does_not_go_by_the_old_name() {
        let d = tempfile::tempdir().unwrap();
        let local = filled(d.path());
        let path = local.attempts();
        let good = fs::read_small(&path, 1 << 20).unwrap();
        let identity = |bytes: &[u8]| {
            fs::publish(&path, bytes).unwrap();
            read(&local).unwrap().identity
        };
        assert_eq!(identity(&good[..good.len() - 3]), Some(named("one")));
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 1;
        assert_eq!(identity(&bad), None);
        assert_eq!(identity(b""), None);
        // A ledger from before ledgers had names keeps its records.
        let from = good.iter().position(|b| *b == b'\n').unwrap() + 1;
        let to = from + good[from..].iter().position(|b| *b == b'\n').unwrap() + 1;
        let old = [&good[..from], &good[to..]].concat();
        assert!(identity(&old).is_some_and(|i| i.predates_names && i.id.len() == 16));
        fs::remove(&path).unwrap();
        assert_eq!(read(&local).unwrap().identity, None);
    }

    /// Otherwise a host that has run some thousand tasks could record none on a full disk.
    #[test]
    fn however_much_is_recorded_space_for_more_stays_reserved() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        let mut l = Ledger::create(&local, "c", named("one"), &Table::default(), &at(3)).unwrap();
        let reserved = || {
            let data = std::fs::metadata(local.attempts()).unwrap();
            let blocks = std::os::unix::fs::MetadataExt::blocks(&data);
            (blocks * 512).saturating_sub(data.len())
        };
        if reserved() < RESERVE / 2 {
            println!("skipped: this file system reserves no space");
            return;
        }
        let why = "w".repeat(100_000);
        for id in 1..=30 {
            let (a, e, p, why) = (a(id), 3, 1, why.clone());
            l.push(&AttemptRec::Never { a, e, p, why });
            l.commit(true).unwrap();
            assert!(reserved() >= RESERVE / 2, "{id}: {}", reserved());
        }
    }

    fn filled(dir: &std::path::Path) -> Local {
        let local = Local::at(dir);
        let mut l = Ledger::create(&local, "c", named("one"), &Table::default(), &at(3)).unwrap();
        l.push(&AttemptRec::Given {
            a: a(1),
            e: 3,
            p: 1,
            l: 7,
            r: true,
            b: "boot".into(),
            m: 5,
            f: 0,
            c: None,
            u: Vec::new(),
        });
        l.push(&AttemptRec::Given {
            a: a(2),
            e: 3,
            p: 1,
            l: 7,
            r: false,
            b: "boot".into(),
            m: 5,
            f: 0,
            c: None,
            u: Vec::new(),
        });
        l.push(&AttemptRec::Signalled { a: a(1), n: 4 });
        l.push(&AttemptRec::Never {
            a: a(3),
            e: 3,
            p: 2,
            why: "w".into(),
        });
        let end = Ended {
            a: a(2),
            code: Some(3),
            ..Ended::default()
        };
        l.push(&AttemptRec::Concluded(Box::new(end)));
        l.push(&AttemptRec::Acked { a: a(2) });
        l.commit(true).unwrap();
        local
    }

    #[test]
    fn what_was_written_is_remembered_and_survives_a_rewrite() {
        let d = tempfile::tempdir().unwrap();
        let local = filled(d.path());
        for _ in 0..2 {
            let r = read(&local).unwrap();
            assert!(r.bad.is_empty(), "{:?}", r.bad);
            assert_eq!((r.share.epoch, r.table.iter().count()), (3, 3));
            assert_eq!(r.table.highest_job_id(), 3);
            let one = r.table.get(a(1)).unwrap();
            assert_eq!(
                (one.signals, one.rerunnable, one.named_by),
                (4, true, (3, 1))
            );
            assert_eq!(one.given.boot, "boot");
            let two = r.table.get(a(2)).unwrap();
            assert!(two.acked && matches!(&two.status, Status::Ended(e) if e.code == Some(3)));
            assert!(matches!(
                &r.table.get(a(3)).unwrap().status,
                Status::NeverStarts(_)
            ));
            assert_eq!(one.status, Status::Sent(7));
            assert_eq!(r.identity, Some(named("one")));
            Ledger::create(&local, "c", named("one"), &r.table, &r.share).unwrap();
        }
    }

    #[test]
    fn the_epoch_of_the_first_order_is_kept_when_a_later_one_names_the_run() {
        let d = tempfile::tempdir().unwrap();
        let local = filled(d.path());
        for _ in 0..2 {
            let mut r = read(&local).unwrap();
            let one = r.table.get_mut(a(1)).unwrap();
            assert_eq!((one.ordered, one.mark), (3, 5));
            one.named_by = (9, 4);
            Ledger::create(&local, "c", named("one"), &r.table, &r.share).unwrap();
            assert_eq!(
                read(&local).unwrap().table.get(a(1)).unwrap().named_by,
                (9, 4)
            );
        }
    }

    #[test]
    fn an_act_that_waits_for_its_task_is_not_on_record_as_done() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        let mut table = Table::default();
        let mut entry = Entry::new(Status::Sent(1), (1, 1), false);
        entry.signals = 3;
        entry.waiting = [2, 3]
            .map(|number| super::super::table::PendingAction {
                act: crate::task::spec::TaskAct::Kill,
                reason: crate::model::TermReason::None,
                grace_ms: 0,
                number,
            })
            .to_vec();
        table.insert(a(1), entry);
        Ledger::create(&local, "c", named("one"), &table, &at(1)).unwrap();
        assert_eq!(read(&local).unwrap().table.get(a(1)).unwrap().signals, 1);
    }

    /// A damaged line is not a torn end, whatever text describes its damage.
    #[test]
    fn only_a_torn_end_keeps_the_name_of_a_ledger() {
        let d = tempfile::tempdir().unwrap();
        let local = filled(d.path());
        let name = |bytes: &[u8]| {
            fs::publish(&local.attempts(), bytes).unwrap();
            read(&local).unwrap().identity
        };
        let good = fs::read_small(&local.attempts(), 1 << 20).unwrap();
        let lines = good.iter().filter(|b| **b == b'\n').count() as u64;
        assert_eq!(name(&good[..good.len() - 1]).unwrap().id, "one");
        let mut unknown = good.clone();
        frame::write_json(&mut unknown, lines, br#"{"k":"Torn"}"#);
        assert_eq!(name(&unknown), None);
    }

    #[test]
    fn damage_costs_one_line_only() {
        let d = tempfile::tempdir().unwrap();
        let local = filled(d.path());
        let good = fs::read_small(&local.attempts(), 1 << 20).unwrap();
        let ends = good.iter().enumerate().filter(|(_, b)| **b == b'\n');
        let ends: Vec<usize> = ends.map(|(at, _)| at).collect();
        let mut bad = good.clone();
        bad[ends[2] + 10] ^= 1;
        let r = decode(&bad);
        assert_eq!((r.bad.len(), r.table.iter().count()), (1, 2));
        assert!(r.table.get(a(2)).is_some());
        let torn = decode(&good[..good.len() - 1]);
        assert_eq!(torn.bad.len(), 1);
        assert!(!torn.table.get(a(2)).unwrap().acked);
    }
}
