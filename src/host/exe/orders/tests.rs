//! Tests of how a host reads orders: parts, epochs, damage, quiet looks.

use super::*;
use crate::model::{AttemptId, JobKey};
use crate::record::frame;
use crate::record::leader::encode_fixed;

struct TestShare {
    _dir: tempfile::TempDir,
    layout: Layout,
}

fn cancel(id: u32) -> Order {
    Order::Cancel {
        a: AttemptId {
            j: JobKey::job(id),
            at: 1,
        },
    }
}

impl TestShare {
    fn new() -> TestShare {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        fs::mkdir_p(&layout.claims_dir(), 0o755).unwrap();
        fs::mkdir_p(&layout.host("h1"), 0o755).unwrap();
        TestShare { _dir: dir, layout }
    }

    fn epoch(&self, epoch: u64) {
        let doc = EpochDoc {
            epoch,
            ..EpochDoc::default()
        };
        fs::publish(&self.layout.epoch(), &encode_fixed(&doc).unwrap()).unwrap();
    }

    fn file(&self, epoch: u64, part: u64, orders: &[Order]) -> Vec<u8> {
        let mut out = Vec::new();
        frame::write(
            &mut out,
            0,
            &Header::new(FileKind::Orders, "c", epoch, part),
        )
        .unwrap();
        for (i, o) in orders.iter().enumerate() {
            frame::write(&mut out, i as u64 + 1, o).unwrap();
        }
        fs::publish(&self.layout.orders("h1", epoch, part), &out).unwrap();
        out
    }

    fn remembering(&self, id: &str, predates_names: bool) -> OrderReader {
        let id = id.to_owned();
        OrderReader::new(
            &self.layout,
            "h1",
            "c",
            LedgerIdentity { id, predates_names },
            0,
        )
    }

    fn reader(&self) -> OrderReader {
        self.remembering("one", true)
    }
}

#[test]
fn only_the_ledger_that_was_named_follows_starts_and_cancellations() {
    let s = TestShare::new();
    s.epoch(1);
    let ledger = |id: &str| Order::Ledger { id: id.into() };
    let end = |id| Order::PartEnd {
        a: AttemptId {
            j: JobKey::job(id),
            at: 1,
        },
    };
    let all = [
        cancel(1),
        ledger("one"),
        cancel(2),
        ledger("two"),
        cancel(3),
        end(4),
    ];
    s.file(1, 1, &all);
    let read = |id, predates_names| {
        let mut r = s.remembering(id, predates_names);
        (r.poll().unwrap().orders, r.is_foreign())
    };
    assert_eq!(read("one", false), (vec![cancel(2), end(4)], Some(true)));
    assert_eq!(read("two", false), (vec![cancel(3), end(4)], Some(false)));
    assert_eq!(
        read("two", true),
        (vec![cancel(1), cancel(3), end(4)], Some(false))
    );
    // The next file names its ledger again.
    s.file(1, 2, &[cancel(5)]);
    s.file(1, 1, &[ledger("one"), Order::Next { part: 2 }]);
    let mut r = s.remembering("one", false);
    assert!(r.poll().unwrap().orders.is_empty());
    r.go_to_part(1);
    assert_eq!(r.poll().unwrap().orders.len(), 1);
    assert!(r.poll().unwrap().orders.is_empty());
}

#[test]
fn orders_are_read_once_and_a_torn_tail_waits() {
    let s = TestShare::new();
    let mut r = s.reader();
    assert!(r.poll().unwrap().orders.is_empty());
    s.epoch(1);
    let bytes = s.file(1, 1, &[cancel(1), cancel(2)]);
    fs::publish(&s.layout.orders("h1", 1, 1), &bytes[..bytes.len() - 5]).unwrap();
    let look = r.poll().unwrap();
    assert_eq!((look.orders, look.new_epoch), (vec![cancel(1)], true));
    fs::publish(&s.layout.orders("h1", 1, 1), &bytes).unwrap();
    assert_eq!(r.poll().unwrap().orders, [cancel(2)]);
    assert!(r.poll().unwrap().orders.is_empty());
}

#[test]
fn a_lower_epoch_is_never_followed() {
    let s = TestShare::new();
    s.epoch(2);
    s.file(1, 1, &[cancel(1)]);
    s.file(2, 1, &[cancel(2)]);
    let mut r = s.reader();
    assert_eq!(r.poll().unwrap().orders, [cancel(2)]);
    s.epoch(1);
    let look = r.poll().unwrap();
    assert!(look.orders.is_empty() && !look.new_epoch);
    assert_eq!((r.position(), look.reverted_epoch), ((2, 1), Some(1)));
    // Now its claim exists, and only the file is late.
    fs::publish(&s.layout.claim(2), b"").unwrap();
    assert_eq!(r.poll().unwrap().reverted_epoch, None);
}

#[test]
fn reading_goes_on_in_the_next_part_and_starts_in_the_highest() {
    let s = TestShare::new();
    s.epoch(1);
    s.file(1, 1, &[cancel(1), Order::Next { part: 2 }, cancel(9)]);
    let mut r = s.reader();
    let look = r.poll().unwrap();
    assert_eq!((look.orders.len(), look.more), (2, true));
    s.file(1, 2, &[cancel(3)]);
    assert_eq!(r.poll().unwrap().orders, [cancel(3)]);
    assert_eq!(s.reader().poll().unwrap().orders, [cancel(3)]);
}

#[test]
fn orders_may_go_on_in_a_part_of_any_number() {
    let s = TestShare::new();
    s.epoch(1);
    s.file(1, 1, &[Order::Next { part: u64::MAX }]);
    let mut r = s.reader();
    assert!(r.poll().unwrap().more);
    assert!(!r.poll().unwrap().more);
    assert_eq!(r.position(), (1, u64::MAX));
}

#[test]
fn orders_and_epochs_of_a_stranger_are_not_followed() {
    if !crate::sys::users::may_switch() {
        println!("skipped: only root can give files away");
        return;
    }
    let s = TestShare::new();
    s.epoch(1);
    s.file(1, 1, &[cancel(1)]);
    s.file(1, 2, &[cancel(2)]);
    let stranger = |path: std::path::PathBuf| fs::chown(&path, 65_534, 65_534).unwrap();
    stranger(s.layout.orders("h1", 1, 2));
    let mut r = s.reader();
    r.follow_only(Owners { uid: 0, gid: 0 });
    assert_eq!(r.poll().unwrap().orders, [cancel(1)]);
    // The file being read is replaced by a file of another owner.
    s.file(1, 1, &[cancel(1), cancel(3)]);
    stranger(s.layout.orders("h1", 1, 1));
    assert!(r.poll().unwrap_err().contains("uid 65534"));
    // A forged epoch would make the host follow forged orders.
    s.epoch(9);
    s.file(9, 1, &[cancel(4)]);
    stranger(s.layout.epoch());
    assert!(r.poll().unwrap_err().contains("uid 65534"));
    assert_eq!(r.position(), (1, 1));
}

#[test]
fn a_flipped_byte_and_a_foreign_file_are_not_followed() {
    let s = TestShare::new();
    s.epoch(1);
    let mut bytes = s.file(1, 1, &[cancel(1), cancel(2)]);
    let at = bytes.len() - 60;
    bytes[at] ^= 1;
    fs::publish(&s.layout.orders("h1", 1, 1), &bytes).unwrap();
    let mut r = s.reader();
    assert!(!r.poll().unwrap().orders.contains(&cancel(2)));
    let mut foreign = OrderReader::new(&s.layout, "h1", "other", LedgerIdentity::default(), 0);
    assert!(foreign.poll().unwrap().orders.is_empty());
}

#[test]
fn a_quiet_look_sees_new_orders_parts_and_epochs() {
    let s = TestShare::new();
    s.epoch(1);
    s.file(1, 1, &[cancel(1)]);
    let mut r = s.reader();
    r.prefetch_attributes();
    assert_eq!(r.poll().unwrap().orders, [cancel(1)]);
    let quiet = |r: &mut OrderReader| {
        for _ in 0..50 {
            assert!(r.poll().unwrap().orders.is_empty());
            clock::sleep_ms(5);
        }
        assert!(
            r.is_unchanged(clock::boot_ms()),
            "looks go on to read everything"
        );
    };
    quiet(&mut r);
    s.file(1, 1, &[cancel(1), cancel(2)]);
    assert_eq!(r.poll().unwrap().orders, [cancel(2)]);
    quiet(&mut r);
    s.epoch(2);
    s.file(2, 1, &[cancel(3)]);
    let look = r.poll().unwrap();
    assert!(
        look.orders.is_empty(),
        "the epoch was asked for a moment ago"
    );
    assert_eq!(r.epoch_doc().map(|(doc, _)| doc.epoch), Some(1));
    // A second later.
    r.leader.read_at -= EPOCH_MS;
    let look = r.poll().unwrap();
    assert_eq!((look.orders, look.new_epoch), (vec![cancel(3)], true));
    quiet(&mut r);
    assert!(!r.is_unchanged(clock::boot_ms() + unchanged_share::QUIET_MS));
}

#[test]
fn a_quiet_look_sees_the_first_orders_of_an_epoch() {
    let s = TestShare::new();
    s.epoch(1);
    let mut r = s.reader();
    r.prefetch_attributes();
    for _ in 0..50 {
        assert!(r.poll().unwrap().orders.is_empty());
        clock::sleep_ms(5);
    }
    assert!(
        r.is_unchanged(clock::boot_ms()),
        "looks go on to list the directory"
    );
    s.file(1, 1, &[cancel(1)]);
    assert_eq!(r.poll().unwrap().orders, [cancel(1)]);
}

#[test]
fn a_damaged_order_with_much_behind_it_is_not_looked_at_without_a_pause() {
    let s = TestShare::new();
    s.epoch(1);
    let mut bytes = s.file(1, 1, &[cancel(1), cancel(2)]);
    let at = bytes.len() - 5;
    bytes[at] ^= 1;
    bytes.resize(CHUNK + 100_000, b'x');
    fs::publish(&s.layout.orders("h1", 1, 1), &bytes).unwrap();
    let mut r = s.reader();
    assert_eq!(r.poll().unwrap().orders, [cancel(1)]);
    assert!(!r.poll().unwrap().more);
}

#[test]
fn a_lasting_flip_is_reported_once_and_all_goes_on_in_the_next_part() {
    let s = TestShare::new();
    s.epoch(1);
    let mut bytes = s.file(1, 1, &[cancel(1), cancel(2), cancel(3)]);
    let at = bytes.len() - 90;
    bytes[at] ^= 1;
    fs::publish(&s.layout.orders("h1", 1, 1), &bytes).unwrap();
    let mut r = s.reader();
    let look = r.poll().unwrap();
    assert!(look.orders.len() < 3 && look.blocked && look.damage.is_none());
    let known = look.orders.len() as u64;
    r.age_for_tests(60_000);
    let look = r.poll().unwrap();
    let Some(Report::OrdersDamaged {
        epoch, part, seq, ..
    }) = look.damage
    else {
        panic!("{look:?}");
    };
    assert_eq!((epoch, part, seq), (1, 1, known + 1));
    let again = r.poll().unwrap();
    assert!(again.damage.is_none() && again.blocked && r.damage().is_some());
    s.file(1, 2, &[cancel(3)]);
    r.next_at = 0;
    assert!(r.poll().unwrap().more);
    let look = r.poll().unwrap();
    assert_eq!((look.orders, look.blocked), (vec![cancel(3)], false));
    assert!(r.damage().is_none());
}

#[test]
fn half_a_line_that_stays_and_a_part_that_is_gone_are_damage_too() {
    let s = TestShare::new();
    s.epoch(1);
    let bytes = s.file(1, 1, &[cancel(1), cancel(2)]);
    fs::publish(&s.layout.orders("h1", 1, 1), &bytes[..bytes.len() - 1]).unwrap();
    let mut r = s.reader();
    assert!(r.poll().unwrap().blocked);
    r.age_for_tests(60_000);
    assert!(r.poll().unwrap().damage.is_some());
    s.file(1, 2, &[cancel(1)]);
    r.go_to_part(2);
    assert!(!r.poll().unwrap().blocked);
    fs::remove(&s.layout.orders("h1", 1, 2)).unwrap();
    assert!(r.poll().unwrap().blocked);
    r.age_for_tests(60_000);
    assert!(r.poll().unwrap().damage.is_some());
}
