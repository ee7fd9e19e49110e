//! Tests of the events that a follower returns while leaders change, and of those that it never
//! returns.

use super::*;
use crate::journal::Writer;
use crate::model::{JobKey, Spec, Stamp};
use crate::record::FORMAT;
use crate::record::event::Submitted;
use crate::record::leader::{ClusterDoc, encode_fixed};
use std::path::Path;

struct TestCluster {
    dir: tempfile::TempDir,
    site: Site,
}

impl TestCluster {
    fn new() -> TestCluster {
        let dir = tempfile::tempdir().unwrap();
        let conf = format!("CB_SHARE={}\n", dir.path().display());
        let site = Site::from_conf(Path::new("/e/cb.conf"), &conf, None).unwrap();
        let bed = TestCluster { dir, site };
        for (dir, _) in bed.layout().directories() {
            std::fs::create_dir_all(dir).unwrap();
        }
        let doc = ClusterDoc {
            cluster: "c".into(),
            name: "test".into(),
            format: FORMAT,
            service_uid: 0,
            service_gid: 0,
        };
        let text = serde_json::to_vec(&doc).unwrap();
        std::fs::write(bed.layout().cluster(), text).unwrap();
        bed
    }

    fn layout(&self) -> Layout {
        Layout::new(self.dir.path())
    }

    /// Writes the epoch in force.
    fn claim(&self, epoch: u64) {
        let doc = EpochDoc {
            epoch,
            ..EpochDoc::default()
        };
        std::fs::write(self.layout().epoch(), encode_fixed(&doc).unwrap()).unwrap();
    }

    fn lead(&self, epoch: u64, seals: &[Event]) -> Writer {
        let mut writer = Writer::create(&self.layout(), "c", epoch).unwrap();
        let begins = Event::Epoch {
            epoch,
            host: "h".into(),
            pid: 1,
            t: Stamp(1),
        };
        writer.append(&begins).unwrap();
        for seal in seals {
            writer.append(seal).unwrap();
        }
        writer.commit().unwrap();
        writer
    }

    fn follow(&self, after: Option<&str>) -> EventFollower {
        EventFollower::open(&self.site, after).unwrap()
    }
}

fn submit(writer: &mut Writer, id: u32) {
    let spec = Box::new(Spec {
        user: "ada".into(),
        queue: "night".into(),
        ..Spec::default()
    });
    writer.append(&Event::Spec { id, spec }).unwrap();
    let submitted = Submitted {
        id,
        s: id,
        t: Stamp(7),
        ..Submitted::default()
    };
    writer.append(&Event::Submitted(submitted.into())).unwrap();
    writer.commit().unwrap();
}

fn held(writer: &mut Writer, id: u32) {
    let event = Event::Held {
        j: JobKey::job(id),
        held: true,
        admin: false,
        by: "ada".into(),
        t: Stamp(9),
    };
    writer.append(&event).unwrap();
    writer.commit().unwrap();
}

fn positions(look: &EventBatch) -> Vec<&str> {
    look.events.iter().map(|e| e.position.as_str()).collect()
}

fn seal_of(bed: &TestCluster, epoch: u64) -> Event {
    let bytes = std::fs::read(bed.layout().journal(epoch, 1)).unwrap();
    let next_seq = bytes.iter().filter(|b| **b == b'\n').count() as u64;
    Event::Seal {
        epoch,
        segment: 1,
        bytes: bytes.len() as u64,
        next_seq,
    }
}

#[test]
fn batches_follow_each_other_without_a_gap_and_a_position_resumes() {
    let bed = TestCluster::new();
    bed.claim(1);
    let mut writer = bed.lead(1, &[]);
    (1..=5).for_each(|id| submit(&mut writer, id));
    let mut follower = bed.follow(None);
    let first = follower.next_events(3, 1 << 20).unwrap();
    assert_eq!(positions(&first), ["1.1.1", "1.1.3", "1.1.5"]);
    assert!(first.more && !first.gap && first.problems.is_empty());
    let rest = follower.next_events(100, 1 << 20).unwrap();
    assert_eq!(positions(&rest), ["1.1.7", "1.1.9", "1.1.11"]);
    assert!(!rest.more);
    assert_eq!(
        follower.next_events(100, 1 << 20).unwrap(),
        EventBatch::default()
    );
    held(&mut writer, 2);
    // A follower that continues knows the owner of the job although the submission precedes its
    // position.
    for follower in [&mut follower, &mut bed.follow(Some("1.1.11"))] {
        let look = follower.next_events(100, 1 << 20).unwrap();
        assert_eq!(positions(&look), ["1.1.12"]);
        assert!(look.events[0].json.contains("\"user\":\"ada\""), "{look:?}");
        assert!(!look.gap);
    }
    // The size of the documents also limits a batch.
    let small = bed.follow(None).next_events(100, 1).unwrap();
    assert_eq!(positions(&small), ["1.1.1"]);
}

#[test]
fn what_a_replaced_leader_appends_is_never_given() {
    let bed = TestCluster::new();
    bed.claim(1);
    let mut old = bed.lead(1, &[]);
    submit(&mut old, 1);
    let seal = seal_of(&bed, 1);
    // The successor has claimed and read the journal; only then does the old leader append.
    bed.claim(2);
    submit(&mut old, 2);
    let mut follower = bed.follow(None);
    let look = follower.next_events(100, 1 << 20).unwrap();
    assert_eq!(positions(&look), [""; 0], "not certain yet");
    let mut new = bed.lead(2, &[seal]);
    submit(&mut new, 2);
    let mut all: Vec<String> = Vec::new();
    for _ in 0..4 {
        let look = follower.next_events(100, 1 << 20).unwrap();
        all.extend(look.events.into_iter().map(|e| e.position));
    }
    assert_eq!(all, ["1.1.1", "1.1.3", "2.1.1", "2.1.4"]);
}

#[test]
fn a_position_that_is_not_kept_any_more_is_said_once() {
    let bed = TestCluster::new();
    bed.claim(1);
    let mut writer = bed.lead(1, &[]);
    submit(&mut writer, 1);
    bed.claim(2);
    let mut writer = bed.lead(2, &[seal_of(&bed, 1)]);
    submit(&mut writer, 2);
    std::fs::remove_dir_all(bed.layout().epoch_dir(1)).unwrap();
    let mut follower = bed.follow(Some("1.1.1"));
    let look = follower.next_events(1, 1 << 20).unwrap();
    assert!(look.gap && look.events.len() == 1, "{look:?}");
    assert!(!follower.next_events(9, 1 << 20).unwrap().gap);
    assert!(!bed.follow(None).next_events(9, 1 << 20).unwrap().gap);
    let Err(wrong) = EventFollower::open(&bed.site, Some("x")) else {
        panic!("taken");
    };
    assert!(wrong.text.contains("not a position"), "{wrong}");
}
