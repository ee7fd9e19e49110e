//! Elections on a temporary share with real files, locks and clocks.

use super::*;
use crate::record::FORMAT;
use std::fs;
use std::time::Duration;

struct TestElection {
    dir: tempfile::TempDir,
}

impl TestElection {
    fn new() -> TestElection {
        let fixture = TestElection {
            dir: tempfile::tempdir().unwrap(),
        };
        let layout = fixture.layout();
        for (dir, _) in layout.directories() {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(layout.lock(), b"").unwrap();
        fs::write(layout.epoch(), encode_fixed(&EpochDoc::default()).unwrap()).unwrap();
        fs::write(layout.beat(), encode_fixed(&BeatDoc::default()).unwrap()).unwrap();
        fs::write(layout.cluster(), serde_json::to_vec(&cluster()).unwrap()).unwrap();
        fixture
    }

    fn layout(&self) -> Layout {
        Layout::new(self.dir.path())
    }

    fn owners(&self) -> Owners {
        crate::spool::owners(&cluster())
    }

    fn campaign(&self, on_lost: impl Fn(&LeadershipLost) + Send + 'static) -> Leadership {
        self.campaign_by(&settings(), on_lost)
    }

    fn campaign_by(
        &self,
        settings: &Settings,
        on_lost: impl Fn(&LeadershipLost) + Send + 'static,
    ) -> Leadership {
        let wait = |ms| {
            clock::sleep_ms(ms);
            false
        };
        campaign(&self.layout(), cluster(), settings, &wait, on_lost)
            .unwrap()
            .unwrap()
    }
}

/// What must happen is waited for much longer than it takes: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = clock::boot_ms() + PATIENCE.as_millis() as u64;
    while !so() {
        assert!(clock::boot_ms() < end, "{what}");
        clock::sleep_ms(10);
    }
}

/// A claim of another account would block its number for all candidates.
#[test]
fn a_strangers_claim_and_epoch_file_are_not_believed() {
    if !sys::users::may_switch() {
        println!("skipped: only root can give files away");
        return;
    }
    let fixture = TestElection::new();
    let forged = fixture.layout().claim(8);
    for own in [6, 7] {
        fs::write(fixture.layout().claim(own), b"x").unwrap();
    }
    fs::write(&forged, b"x").unwrap();
    std::os::unix::fs::chown(&forged, Some(65_534), None).unwrap();
    assert_eq!(
        highest_claim(&fixture.layout(), fixture.owners()).unwrap(),
        7
    );
    assert!(!forged.exists(), "the number is free");
    let epoch = fixture.layout().epoch();
    read_fixed::<EpochDoc>(&epoch, fixture.owners())
        .unwrap()
        .unwrap();
    std::os::unix::fs::chown(&epoch, Some(65_534), None).unwrap();
    let e = read_fixed::<EpochDoc>(&epoch, fixture.owners()).unwrap_err();
    assert!(e.to_string().contains("uid 65534"), "{e}");
}

fn cluster() -> ClusterDoc {
    ClusterDoc {
        cluster: "c1".into(),
        name: "n".into(),
        format: FORMAT,
        service_uid: sys::users::effective_uid(),
        service_gid: sys::users::effective_gid(),
    }
}

fn settings() -> Settings {
    Settings {
        hints: String::new(),
        protocol: Protocol::default(),
        host: "h1".into(),
        takeover_ms: 3000,
        cache_ms: None,
        opens_are_fresh: None,
    }
}

#[test]
fn a_free_title_is_taken_at_once_and_again_after_a_restart() {
    let fixture = TestElection::new();
    for epoch in 1..4 {
        let t = clock::boot_ms();
        let lead = fixture.campaign(|_| {});
        assert_eq!(lead.epoch(), epoch);
        lead.recheck().unwrap();
        assert!(
            clock::boot_ms() - t < settings().takeover_ms - 500,
            "a restart in place waits for nothing"
        );
        assert_eq!(lead.led_epoch, None);
    }
}

#[test]
fn a_second_candidate_waits_while_the_first_beats() {
    let fixture = TestElection::new();
    let lead = fixture.campaign(|_| {});
    lead.set_leading(true);
    let until = clock::boot_ms() + 600;
    let wait = |ms: u64| {
        clock::sleep_ms(ms.min(50));
        clock::boot_ms() > until
    };
    let second = campaign(&fixture.layout(), cluster(), &settings(), &wait, |_| {}).unwrap();
    assert!(second.is_none());
    lead.recheck().unwrap();
    let beat: BeatDoc = read_fixed(&fixture.layout().beat(), fixture.owners())
        .unwrap()
        .unwrap();
    assert!(beat.leading && beat.locked && beat.epoch == 1);
    drop(lead);
    let next = fixture.campaign(|_| {});
    assert_eq!((next.epoch(), next.led_epoch), (2, Some(1)));
}

#[test]
fn a_higher_or_a_lower_epoch_in_the_file_ends_a_leader() {
    for other in [7, 0] {
        let fixture = TestElection::new();
        let (tx, rx) = bounded(1);
        let lead = fixture.campaign(move |lost| drop(tx.send(lost.clone())));
        let doc = EpochDoc {
            epoch: other,
            ..EpochDoc::default()
        };
        fs::write(fixture.layout().epoch(), encode_fixed(&doc).unwrap()).unwrap();
        let lost = lead.recheck().unwrap_err();
        // The beat may have seen it first.
        let reasons = [
            format!("names {other}, not 1"),
            "has detected it".to_owned(),
        ];
        assert!(reasons.iter().any(|t| lost.0.contains(t)), "{lost}");
        assert!(lead.is_lost());
        rx.recv_timeout(PATIENCE).expect("the watchdog called");
    }
}

#[test]
fn a_damaged_beat_is_noticed_and_written_again() {
    let fixture = TestElection::new();
    let leader = fixture.campaign(|_| {});
    let beat = fixture.layout().beat();
    let intact = || decode_fixed::<BeatDoc>(&fs::read(&beat).unwrap()).is_ok();
    std::thread::sleep(Duration::from_millis(300));
    assert!(intact() && !leader.take_beat_damage());
    let mut bytes = fs::read(&beat).unwrap();
    bytes[20] ^= 1;
    fs::write(&beat, bytes).unwrap();
    until("it is noticed", || leader.take_beat_damage());
    until("it is whole again", intact);
    assert!(!leader.is_lost());
}

#[test]
fn an_idle_leader_notices_a_higher_epoch_by_itself() {
    let fixture = TestElection::new();
    let (tx, rx) = bounded(1);
    let _lead = fixture.campaign(move |lost| drop(tx.send(lost.clone())));
    let doc = EpochDoc {
        epoch: 9,
        ..EpochDoc::default()
    };
    fs::write(fixture.layout().epoch(), encode_fixed(&doc).unwrap()).unwrap();
    rx.recv_timeout(PATIENCE).expect("noticed");
}

#[test]
fn a_leader_that_cannot_renew_falls_silent_before_t() {
    let fixture = TestElection::new();
    let (tx, rx) = bounded(1);
    // So long that a busy machine has seconds between two thirds of it and the whole.
    let slow = Settings {
        takeover_ms: 12_000,
        ..settings()
    };
    let t = clock::boot_ms();
    let on_lost = move |lost: &LeadershipLost| drop(tx.send(lost.clone()));
    let lead = fixture.campaign_by(&slow, on_lost);
    fs::remove_file(fixture.layout().beat()).unwrap();
    let lost = rx.recv_timeout(PATIENCE).expect("silent");
    assert!(lost.0.contains("could not be renewed"), "{lost}");
    let took = clock::boot_ms() - t;
    assert!((7_900..11_950).contains(&took), "{took} ms");
    assert!(lead.recheck().is_err());
}

/// Otherwise a process can end before the thread that found the loss has logged the reason.
#[test]
fn the_watchdog_waits_for_the_log_but_not_if_that_hangs() {
    let fixture = TestElection::new();
    let (tx, rx) = bounded(1);
    let lead = fixture.campaign(move |_| _ = tx.send(clock::boot_ms()));
    let lost_at = clock::boot_ms();
    lead.shared.lost.store(true, Ordering::Release);
    let ended_at = rx.recv_timeout(PATIENCE).expect("the watchdog called");
    assert!(ended_at >= lost_at + 200, "{}", ended_at - lost_at);
}

#[test]
fn a_replaced_lock_file_ends_a_leader() {
    let fixture = TestElection::new();
    let (tx, rx) = bounded(1);
    let _lead = fixture.campaign(move |lost| drop(tx.send(lost.clone())));
    fs::remove_file(fixture.layout().lock()).unwrap();
    fs::write(fixture.layout().lock(), b"").unwrap();
    rx.recv_timeout(PATIENCE).expect("noticed");
}

#[test]
fn a_frozen_holder_of_the_lock_is_replaced_after_t() {
    let fixture = TestElection::new();
    let frozen = Lock::try_take(&fixture.layout().lock()).unwrap().unwrap();
    let doc = EpochDoc {
        epoch: 4,
        locked: true,
        ..EpochDoc::default()
    };
    fs::write(fixture.layout().epoch(), encode_fixed(&doc).unwrap()).unwrap();
    let t = clock::boot_ms();
    let lead = fixture.campaign(|_| {});
    let took = clock::boot_ms() - t;
    assert_eq!(lead.epoch(), 5);
    assert!(took >= 3000, "{took} ms");
    assert!(!lead.doc().locked);
    drop(frozen);
    until("the leader takes the lock that became free", || {
        let beat = read_fixed::<BeatDoc>(&fixture.layout().beat(), fixture.owners());
        beat.unwrap().unwrap().locked
    });
}

#[test]
fn missing_foreign_and_newer_shares_are_refused_and_left_alone() {
    let empty = tempfile::tempdir().unwrap();
    let e = open_cluster(&Layout::new(empty.path()), None).unwrap_err();
    assert!(e.0.contains("not mounted"), "{e}");
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
    let fixture = TestElection::new();
    let pin = fixture.dir.path().join("pin");
    for _ in 0..2 {
        open_cluster(&fixture.layout(), Some(&pin)).unwrap();
    }
    fs::write(&pin, "other\n").unwrap();
    let e = open_cluster(&fixture.layout(), Some(&pin)).unwrap_err();
    assert!(
        e.0.contains("belongs to cluster c1, this host to other"),
        "{e}"
    );
    let newer = ClusterDoc {
        format: FORMAT + 1,
        ..cluster()
    };
    fs::write(
        fixture.layout().cluster(),
        serde_json::to_vec(&newer).unwrap(),
    )
    .unwrap();
    assert!(
        open_cluster(&fixture.layout(), None)
            .unwrap_err()
            .0
            .contains("newer version wrote it")
    );
    fs::write(fixture.layout().cluster(), b"{}").unwrap();
    assert!(open_cluster(&fixture.layout(), None).is_err());
}

/// A host may report the next epoch before this client sees which host claimed it.
#[test]
fn a_claim_that_a_cache_may_hide_is_waited_for() {
    let fixture = TestElection::new();
    fs::write(fixture.layout().claim(6), b"x").unwrap();
    let highest = |cache_ms| highest(&fixture.layout(), fixture.owners(), 7, cache_ms).unwrap();
    assert_eq!(highest(0), 6);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            clock::sleep_ms(150);
            fs::write(fixture.layout().claim(7), b"x").unwrap();
        });
        assert_eq!(highest(60_000), 7);
    });
    let began = clock::boot_ms();
    assert_eq!(highest(60_000), 7);
    assert!(
        clock::boot_ms() - began < 60_000,
        "what is there is seen at once"
    );
}

#[test]
fn old_claims_go_and_recent_ones_stay() {
    let fixture = TestElection::new();
    for n in 1..=150 {
        fs::write(fixture.layout().claim(n), b"").unwrap();
    }
    remove_old_claims(&fixture.layout(), 150).unwrap();
    assert_eq!(
        highest_claim(&fixture.layout(), fixture.owners()).unwrap(),
        150
    );
    assert_eq!(
        fs::read_dir(fixture.layout().claims_dir()).unwrap().count(),
        101
    );
}

#[test]
fn a_waiting_candidate_looks_at_everything_only_where_the_beat_is_overdue() {
    const RENEW_MS: u64 = 500;
    let fixture = TestElection::new();
    let layout = fixture.layout();
    let lead = fixture.campaign(|_| {});
    let mut candidate = Candidate {
        layout: &layout,
        local: false,
        owners: fixture.owners(),
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
    assert!(!candidate.sees_life(RENEW_MS), "nothing was seen before");
    until("another beat", || candidate.sees_life(RENEW_MS));
    candidate.full_at = Some(clock::boot_ms().saturating_sub(FULL_MS));
    clock::sleep_ms(1200);
    assert!(
        !candidate.sees_life(RENEW_MS),
        "now and then it looks all the same"
    );
    drop(lead);
    candidate.sees_life(RENEW_MS);
    assert!(candidate.sees_life(60_000), "the next beat is not due");
    assert!(!candidate.sees_life(0), "the beat is overdue");
    candidate.local = true;
    assert!(!candidate.sees_life(60_000));
}

#[test]
fn hints_that_do_not_fit_into_the_claim_are_left_out() {
    let hints = |host: usize| {
        let host = "h".repeat(host);
        let hints = "00000000000000ff 10.99.0.1:40000".to_owned();
        let of = Settings {
            host,
            hints,
            ..settings()
        };
        own_document(&of).hints
    };
    assert!(!hints(64).is_empty());
    assert!(hints(400).is_empty());
}
