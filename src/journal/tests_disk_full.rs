//! Tests a journal whose disk fills up and empties: nothing committed is lost in between.

use super::tests::{TestJournal, event, range, with_file_limit, write};
use super::*;
use crate::record::event::Event;
use crate::record::frame;
use crate::record::header::{FileKind, Header};
use nix::sys::resource::{Resource, setrlimit};
use std::fs;

/// Limits the size of this process's files; root may raise the limit again.
fn limit(bytes: u64) {
    setrlimit(Resource::RLIMIT_FSIZE, bytes, 1 << 40).unwrap();
}

/// Commits five events, then five that fail `tries` times at different lengths, then five more.
fn fill_up(test: &TestJournal, tries: u64) {
    let code = with_file_limit(1 << 40, || {
        let (mut w, ..) = test.lead(1);
        write(&mut w, 0..5);
        (5..10).for_each(|n| w.append(&event(n)).unwrap());
        for n in 0..tries {
            // Nothing, half a header, or header and seal and some records.
            limit([0, 40, 400][(n % 3) as usize]);
            assert!(w.commit().is_err());
        }
        limit(1 << 40);
        w.commit().unwrap();
        write(&mut w, 10..15);
        i32::from(w.position().segment as i64 != 2 + tries as i64)
    });
    assert_eq!(code, 0);
}

#[test]
fn what_could_not_be_written_goes_to_a_later_segment_once() {
    for tries in 1..=7 {
        let test = TestJournal::new();
        fill_up(&test, tries);
        assert_eq!(test.numbers(2).unwrap(), range(0..15), "{tries} failures");
        // And under a successor's seal.
        drop(test.lead(2));
        assert_eq!(test.numbers(3).unwrap(), range(0..15), "{tries} failures");
    }
}

#[test]
fn a_leader_that_dies_while_nothing_can_be_written_leaves_what_was_committed() {
    for tries in 1..=7 {
        let test = TestJournal::new();
        fill_up(&test, tries);
        fs::remove_file(test.segment(1, 2 + tries)).unwrap();
        let found = test.numbers(2).unwrap();
        assert!(range(0..10).starts_with(&found), "{tries}: {found:?}");
        assert!(found.len() >= 5, "{tries}: {found:?}");
        drop(test.lead(2));
        assert_eq!(test.numbers(3).unwrap(), found, "{tries}");
    }
}

#[test]
fn damage_to_the_segment_behind_failed_ones_is_named() {
    let test = TestJournal::new();
    fill_up(&test, 4);
    let path = test.segment(1, 6);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 2;
        fs::write(&path, &bad).unwrap();
        if let Ok(found) = test.numbers(2) {
            assert!(range(0..15).starts_with(&found), "flip at {at}: {found:?}");
        }
    }
}

#[test]
fn an_epoch_whose_first_segment_failed_begins_in_the_next() {
    let test = TestJournal::new();
    let code = with_file_limit(1 << 40, || {
        let mut w = Writer::new(&test.layout(), "c", 1);
        for bytes in [20, 0] {
            limit(bytes);
            assert!(w.open().is_err());
        }
        limit(1 << 40);
        w.open().unwrap();
        write(&mut w, 0..5);
        i32::from(w.position().segment != 3)
    });
    assert_eq!(code, 0);
    assert_eq!(test.numbers(2).unwrap(), range(0..5));
    drop(test.lead(2));
    assert_eq!(test.numbers(3).unwrap(), range(0..5));
}

/// The next segment could only be opened in part, but its content states where this one ends:
/// nothing may be added after that.
#[test]
fn a_segment_that_another_one_has_sealed_is_not_continued() {
    let test = TestJournal::new();
    let (w, ..) = test.lead(1);
    let mut w = w.with_segment_bytes(4096);
    let path = test.segment(1, 2);
    fs::write(&path, b"").unwrap();
    let mut n = 0;
    let failed = loop {
        w.append(&event(n)).unwrap();
        n += 1;
        if w.commit().is_err() {
            break w.position();
        }
    };
    let mut bytes = Vec::new();
    let seal = Event::Seal {
        epoch: 1,
        segment: 1,
        bytes: failed.bytes,
        next_seq: failed.seq,
    };
    frame::write(&mut bytes, 0, &Header::new(FileKind::Journal, "c", 1, 2)).unwrap();
    frame::write(&mut bytes, 1, &seal).unwrap();
    fs::write(&path, &bytes).unwrap();
    write(&mut w, n..n + 5);
    assert_eq!(w.position().segment, 3);
    write(&mut w, n + 5..n + 10);
    assert_eq!(test.numbers(2).unwrap(), range(0..n + 10));
    drop(test.lead(2));
    assert_eq!(test.numbers(3).unwrap(), range(0..n + 10));
}

/// No reader could read what follows it.
#[test]
fn an_event_longer_than_a_line_may_be_is_refused_and_costs_nothing_else() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..5);
    let name = "h".repeat(frame::LINE_MAX);
    let t = crate::model::Stamp(1);
    let long = Event::HostLedger {
        name,
        id: String::new(),
        t,
    };
    assert!(w.append(&long).is_err());
    write(&mut w, 5..10);
    assert_eq!(test.numbers(2).unwrap(), range(0..10));
}
