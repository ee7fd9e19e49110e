//! Reservations over several hosts: choice of the set, stickiness, precedence, giving up.

use super::super::*;
use crate::model::SplitMix64;

/// A request for slots on some of four hosts.
#[derive(Clone)]
struct HostsRequest {
    hosts: Vec<u32>,
    min: u32,
    hosts_max: u32,
    tile: Option<u32>,
}

impl BookRequest for HostsRequest {
    fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    fn min(&self) -> u32 {
        self.min
    }

    fn bundle(&self, _: u32, slots: u32) -> Bundle {
        Bundle::of_slots(i64::from(slots))
    }

    fn hosts_max(&self) -> u32 {
        self.hosts_max
    }

    fn slots_per_host(&self) -> Option<u32> {
        self.tile
    }
}

fn wide(min: u32) -> HostsRequest {
    let hosts = vec![0, 1, 2, 3];
    HostsRequest {
        hosts,
        min,
        hosts_max: u32::MAX,
        tile: None,
    }
}

const EASY: ReservationTerms = ReservationTerms {
    duration: 100,
    depth: 1,
    hold_ms: None,
    free_first: false,
};

/// Four hosts of four slots, all busy: host h until 100 (h + 1).
fn busy() -> (Book<u32>, Vec<ClaimId>) {
    let mut book = Book::new(BookSettings::default());
    (0..4).for_each(|host| book.set_host(host, &Bundle::of_slots(4)));
    let claim = |host: u32| {
        let until = 100 * i64::from(host + 1);
        book.claim(&[(host, Bundle::of_slots(4))], 0, until)
    };
    let work = (0..4).map(claim).collect();
    (book, work)
}

fn reserve(
    book: &mut Book<u32>,
    now: i64,
    key: u32,
    ask: &HostsRequest,
    terms: &ReservationTerms,
) -> Option<(i64, Vec<(u32, u32)>)> {
    book.open(now);
    book.begin_turn(key);
    let made = book.reserve(key, ask, terms).map(told);
    book.close(true);
    made
}

fn told(of: &Reservation) -> (i64, Vec<(u32, u32)>) {
    (
        of.start,
        of.parts
            .iter()
            .map(|part| (part.host, part.slots))
            .collect(),
    )
}

#[test]
fn a_set_is_found_as_soon_as_the_sum_suffices() {
    let (mut book, _) = busy();
    let made = reserve(&mut book, 0, 1, &wide(6), &EASY);
    assert_eq!(made, Some((200, vec![(0, 4), (1, 2)])));
    let (mut book, _) = busy();
    let mut ask = wide(6);
    ask.hosts.reverse();
    let made = reserve(&mut book, 0, 1, &ask, &EASY);
    assert_eq!(
        made,
        Some((200, vec![(1, 4), (0, 2)])),
        "in order of preference"
    );
    assert_eq!(
        reserve(&mut book, 0, 2, &wide(17), &EASY),
        None,
        "more than there is"
    );
}

#[test]
fn a_set_keeps_to_the_bounds_of_the_request() {
    let (mut book, work) = busy();
    book.release(work[2], 10);
    let one = HostsRequest {
        hosts_max: 1,
        ..wide(4)
    };
    assert_eq!(
        reserve(&mut book, 10, 1, &one, &EASY),
        Some((10, vec![(2, 4)]))
    );
    let two = HostsRequest {
        hosts_max: 2,
        ..wide(8)
    };
    assert_eq!(
        reserve(&mut book, 10, 2, &two, &EASY),
        Some((100, vec![(0, 4), (2, 4)]))
    );
    let tiled = HostsRequest {
        tile: Some(2),
        ..wide(5)
    };
    assert_eq!(
        reserve(&mut book, 10, 3, &tiled, &EASY),
        Some((200, vec![(0, 2), (1, 2), (2, 1)]))
    );
    let five = HostsRequest {
        hosts_max: 1,
        ..wide(5)
    };
    assert_eq!(reserve(&mut book, 10, 4, &five, &EASY), None);
}

#[test]
fn a_set_stands_until_there_is_a_better_start() {
    let (mut book, work) = busy();
    assert_eq!(
        reserve(&mut book, 0, 1, &wide(8), &EASY),
        Some((200, vec![(0, 4), (1, 4)]))
    );
    // Another host ends at the same time: the start is not better, so the set stays.
    book.release(work[3], 10);
    let extra = book.claim(&[(3, Bundle::of_slots(4))], 10, 200);
    assert_eq!(
        reserve(&mut book, 10, 1, &wide(8), &EASY),
        Some((200, vec![(0, 4), (1, 4)]))
    );
    // Now it is free at once: with host 0 at 100 it makes an earlier start.
    book.release(extra, 20);
    assert_eq!(
        reserve(&mut book, 20, 1, &wide(8), &EASY),
        Some((100, vec![(0, 4), (3, 4)]))
    );
}

#[test]
fn small_gains_do_not_move_a_set() {
    let (mut book, work) = busy();
    book.rules.min_gain = 150;
    reserve(&mut book, 0, 1, &wide(8), &EASY);
    book.release(work[3], 10);
    assert_eq!(
        reserve(&mut book, 10, 1, &wide(8), &EASY).map(|made| made.0),
        Some(200)
    );
    book.release(work[2], 20);
    assert_eq!(
        reserve(&mut book, 20, 1, &wide(8), &EASY).map(|made| made.0),
        Some(20)
    );
}

#[test]
fn nothing_changed_is_told_without_a_look() {
    let (mut book, work) = busy();
    reserve(&mut book, 0, 1, &wide(8), &EASY);
    book.open(5);
    assert!(book.idle());
    assert_eq!(book.begin_turn(1), BookTurn::Keep);
    book.close(true);
    book.release(work[0], 100);
    book.open(100);
    assert!(book.idle(), "an end at its time changes nothing");
    book.confirm_all();
    book.close(true);
    assert_eq!(book.get(1).map(|own| own.start), Some(200));
    book.open(200);
    assert!(!book.idle(), "it is due");
    assert_eq!(book.begin_turn(1), BookTurn::Try);
}

#[test]
fn who_comes_before_a_reserved_job_takes_precedence() {
    let (mut book, work) = busy();
    reserve(&mut book, 0, 1, &wide(8), &EASY);
    book.release(work[0], 50);
    book.open(50);
    // An earlier job may take host 0, although the reservation needs it at 200.
    assert_eq!(book.begin_turn(7), BookTurn::Try);
    assert_eq!(book.free_for(0, 50, 1050, false).slots, 4);
    book.started(7);
    book.claim(&[(0, Bundle::of_slots(4))], 50, 1050);
    assert_eq!(book.begin_turn(1), BookTurn::Try);
    let made = book.reserve(1, &wide(8), &EASY).map(told);
    assert_eq!(made, Some((300, vec![(1, 4), (2, 4)])));
    book.close(true);
}

#[test]
fn who_comes_behind_leaves_reservations_alone() {
    let (mut book, work) = busy();
    reserve(&mut book, 0, 1, &wide(8), &EASY);
    book.release(work[0], 50);
    book.open(50);
    assert_eq!(book.begin_turn(1), BookTurn::Try);
    book.reserve(1, &wide(8), &EASY);
    assert_eq!(book.begin_turn(7), BookTurn::Try);
    assert_eq!(book.free_for(0, 50, 200, true).slots, 4);
    assert_eq!(book.free_for(0, 50, 201, true).slots, 0);
    assert_eq!(
        book.free_for(0, 50, 60, false).slots,
        0,
        "only with backfill"
    );
    let part = ReservedPart {
        host: 0,
        slots: 1,
        take: Bundle::of_slots(1),
    };
    assert!(book.allows(std::slice::from_ref(&part), 50, 200, true));
    assert!(!book.allows(&[part], 50, 201, true));
    assert_eq!(book.reserved_free_slots(0, 50), 4);
    assert_eq!(book.reserved_free_slots(3, 50), 0);
    book.close(true);
}

#[test]
fn a_change_of_order_changes_who_is_served_first() {
    let (mut book, _) = busy();
    let terms = ReservationTerms { depth: 2, ..EASY };
    let pass = |book: &mut Book<u32>, now: i64, order: [u32; 2]| {
        book.open(now);
        for key in order {
            if book.begin_turn(key) == BookTurn::Try {
                book.reserve(key, &wide(4), &terms);
            }
        }
        book.close(true);
        book.iter()
            .map(|(key, own)| (key, own.start))
            .collect::<Vec<_>>()
    };
    assert_eq!(pass(&mut book, 0, [1, 2]), [(1, 100), (2, 200)]);
    assert_eq!(pass(&mut book, 1, [1, 2]), [(1, 100), (2, 200)]);
    assert_eq!(pass(&mut book, 2, [2, 1]), [(2, 100), (1, 200)]);
}

#[test]
fn a_pass_that_was_cut_off_drops_nothing() {
    let (mut book, work) = busy();
    reserve(&mut book, 0, 1, &wide(8), &EASY);
    book.release(work[3], 10);
    book.open(10);
    book.close(false);
    assert!(book.get(1).is_some());
    book.open(11);
    assert_eq!(
        book.begin_turn(1),
        BookTurn::Try,
        "the change is not forgotten"
    );
    book.close(true);
    assert!(book.get(1).is_none(), "its turn passed without renewal");
}

#[test]
fn work_over_its_estimate_moves_the_start() {
    let (mut book, _) = busy();
    book.rules.overrun = 40;
    reserve(&mut book, 0, 1, &wide(4), &EASY);
    assert_eq!(
        reserve(&mut book, 100, 1, &wide(4), &EASY).map(|made| made.0),
        Some(140)
    );
    assert_eq!(
        reserve(&mut book, 140, 1, &wide(4), &EASY).map(|made| made.0),
        Some(180)
    );
    assert_eq!(
        reserve(&mut book, 180, 1, &wide(4), &EASY),
        Some((200, vec![(1, 4)]))
    );
}

#[test]
fn hosts_that_are_free_by_now_are_reserved_first() {
    let free_first = ReservationTerms {
        free_first: true,
        ..EASY
    };
    // Host 3 is free; for six slots host 0 joins it at 100.
    let made = |terms: &ReservationTerms| {
        let (mut book, work) = busy();
        book.release(work[3], 10);
        let made = reserve(&mut book, 10, 1, &wide(6), terms);
        (book, work, made)
    };
    let (mut book, _, preferred) = made(&EASY);
    assert_eq!(preferred, Some((100, vec![(0, 4), (3, 2)])));
    assert_eq!(book.free_for(3, 10, 500, true).slots, 2);
    let (mut book, work, free) = made(&free_first);
    assert_eq!(free, Some((100, vec![(3, 4), (0, 2)])));
    // Longer jobs have no room, shorter ones have.
    assert_eq!(book.free_for(3, 10, 500, true).slots, 0);
    assert_eq!(book.free_for(3, 10, 100, true).slots, 4);
    // Host 2 became free: the start stays, the set does not.
    book.claim(&[(3, Bundle::of_slots(3))], 20, 100);
    book.release(work[2], 20);
    let again = reserve(&mut book, 20, 1, &wide(6), &free_first);
    assert_eq!(again, Some((100, vec![(3, 2), (2, 4)])));
}

#[test]
fn a_held_reservation_is_given_up_in_time_and_the_job_rests() {
    let (mut book, _) = busy();
    let terms = ReservationTerms {
        hold_ms: Some(50),
        ..EASY
    };
    assert!(reserve(&mut book, 0, 1, &wide(8), &terms).is_some());
    book.open(49);
    book.cancel(9);
    book.checks.changed = true;
    book.close(false);
    assert!(reserve(&mut book, 49, 1, &wide(8), &terms).is_some());
    book.checks.changed = true;
    assert!(reserve(&mut book, 50, 1, &wide(8), &terms).is_none());
    assert!(reserve(&mut book, 60, 1, &wide(8), &terms).is_none());
    assert!(
        reserve(&mut book, 60, 2, &wide(8), &terms).is_some(),
        "others may"
    );
    assert!(reserve(&mut book, 60_050, 1, &wide(8), &terms).is_some());
}

#[test]
fn without_known_ends_the_set_gathers_what_is_free() {
    let mut book: Book<u32> = Book::new(BookSettings::default());
    (0..4).for_each(|host| book.set_host(host, &Bundle::of_slots(2)));
    let mut work = Vec::new();
    for host in 0..4 {
        for _ in 0..2 {
            work.push(book.claim(&[(host, Bundle::of_slots(1))], 0, FOREVER));
        }
    }
    let terms = ReservationTerms {
        duration: NEVER_MS,
        depth: 2,
        hold_ms: Some(1000),
        free_first: false,
    };
    assert_eq!(
        reserve(&mut book, 1, 1, &wide(3), &terms),
        Some((FOREVER, vec![(0, 2), (1, 1)]))
    );
    book.release(work[6], 2);
    let made = reserve(&mut book, 2, 1, &wide(3), &terms);
    assert_eq!(made, Some((FOREVER, vec![(3, 2), (0, 1)])));
    assert_eq!(book.reserved_free_slots(3, 2), 1);
    book.release(work[2], 3);
    book.release(work[4], 3);
    let made = reserve(&mut book, 3, 1, &wide(3), &terms);
    assert_eq!(made, Some((3, vec![(3, 1), (1, 1), (2, 1)])));
}

#[test]
fn two_jobs_never_gather_halves_of_each_other() {
    let mut book: Book<u32> = Book::new(BookSettings::default());
    (0..4).for_each(|host| book.set_host(host, &Bundle::of_slots(1)));
    let claim = |host: u32| book.claim(&[(host, Bundle::of_slots(1))], 0, FOREVER);
    let work: Vec<ClaimId> = (0..4).map(claim).collect();
    let terms = ReservationTerms {
        duration: NEVER_MS,
        depth: 2,
        hold_ms: Some(1000),
        free_first: false,
    };
    let mut pass = |now: i64, free: Option<usize>| {
        if let Some(at) = free {
            book.release(work[at], now);
        }
        book.open(now);
        for key in [1, 2] {
            if book.begin_turn(key) == BookTurn::Try {
                book.reserve(key, &wide(2), &terms);
            }
        }
        book.close(true);
        let of = |key| book.get(key).map(told);
        (of(1), of(2))
    };
    let both = pass(1, None);
    assert_eq!(
        both,
        (
            Some((FOREVER, vec![(0, 1), (1, 1)])),
            Some((FOREVER, vec![(2, 1), (3, 1)]))
        )
    );
    // What is freed goes to the first, although it was in the second's set.
    let (first, _) = pass(2, Some(2));
    assert_eq!(first, Some((FOREVER, vec![(2, 1), (0, 1)])));
    let (first, _) = pass(3, Some(3));
    assert_eq!(first, Some((3, vec![(2, 1), (3, 1)])));
}

#[test]
fn a_request_may_choose_its_set_itself() {
    struct Pair(HostsRequest);
    impl BookRequest for Pair {
        fn hosts(&self) -> &[u32] {
            &self.0.hosts
        }
        fn min(&self) -> u32 {
            2
        }
        fn bundle(&self, _: u32, slots: u32) -> Bundle {
            Bundle::of_slots(i64::from(slots))
        }
        fn is_plain(&self) -> bool {
            false
        }
        /// One slot on a host with an odd number, one on a host with an even one.
        fn choose(&self, spots: &[FreeHost]) -> Option<ReservedParts> {
            let part = |rest: u32| {
                let spot = spots.iter().find(|spot| spot.host % 2 == rest)?;
                assert!(spot.free.slots >= 1);
                Some(ReservedPart {
                    host: spot.host,
                    slots: 1,
                    take: Bundle::of_slots(1),
                })
            };
            Some(ReservedParts::from_iter([part(1)?, part(0)?]))
        }
    }
    let (mut book, work) = busy();
    book.release(work[0], 10);
    book.open(10);
    book.begin_turn(1);
    let made = book.reserve(1, &Pair(wide(2)), &EASY).map(told);
    assert_eq!(made, Some((200, vec![(1, 1), (0, 1)])));
}

#[test]
fn ends_are_rounded_up_to_the_resolution() {
    let rules = BookSettings {
        resolution: 60,
        ..BookSettings::default()
    };
    let mut book: Book<u32> = Book::new(rules);
    book.set_host(0, &Bundle::of_slots(4));
    for end in [61, 70, 100, 119] {
        book.claim(&[(0, Bundle::of_slots(1))], 0, end);
    }
    assert_eq!(book.hosts[0].timeline.steps(), 2);
    let one = HostsRequest {
        hosts: vec![0],
        ..wide(4)
    };
    assert_eq!(
        reserve(&mut book, 0, 1, &one, &EASY).map(|made| made.0),
        Some(120)
    );
}

#[test]
fn a_host_that_shrinks_loses_its_reservations() {
    let (mut book, _) = busy();
    assert_eq!(
        reserve(&mut book, 0, 1, &wide(4), &EASY),
        Some((100, vec![(0, 4)]))
    );
    book.set_host(0, &Bundle::of_slots(3));
    assert_eq!(
        reserve(&mut book, 1, 1, &wide(4), &EASY),
        Some((200, vec![(0, 3), (1, 1)]))
    );
}

#[test]
#[ignore = "a measurement"]
fn speed_on_many_hosts() {
    for min_gain in [1, 10_000] {
        println!("moved for a gain of {min_gain} ms");
        measure(BookSettings {
            min_gain,
            ..BookSettings::default()
        });
    }
}

fn measure(rules: BookSettings) {
    let mut rng = SplitMix64::new(1);
    let mut book: Book<u32> = Book::new(rules);
    let hosts: Vec<u32> = (0..10_000).collect();
    let mut work = Vec::new();
    let clock = std::time::Instant::now();
    for host in &hosts {
        book.set_host(*host, &Bundle::of_slots(50));
        for _ in 0..50 {
            let until = 1 + rng.below(3_600_000) as i64;
            work.push(book.claim(&[(*host, Bundle::of_slots(1))], 0, until));
        }
    }
    println!("claims: {:?} each", clock.elapsed() / 500_000);
    let claim = |book: &mut Book<u32>, host: u32, now: i64, rng: &mut SplitMix64| {
        let until = now + 1 + rng.below(3_600_000) as i64;
        book.claim(&[(host, Bundle::of_slots(1))], now, until)
    };
    for (min, hosts_max) in [
        (200, u32::MAX),
        (2000, u32::MAX),
        (20_000, u32::MAX),
        (40, 1),
    ] {
        let ask = HostsRequest {
            hosts: hosts.clone(),
            min,
            hosts_max,
            tile: None,
        };
        let clock = std::time::Instant::now();
        let made = reserve(&mut book, 0, min, &ask, &EASY).expect("it fits");
        println!("{min} slots at {}: first {:?}", made.0, clock.elapsed());
        let clock = std::time::Instant::now();
        for now in 1..=100 {
            let at = rng.below(500_000) as usize;
            book.release(work[at], now);
            reserve(&mut book, now, min, &ask, &EASY);
            let host = (at / 50) as u32;
            work[at] = claim(&mut book, host, now, &mut rng);
        }
        println!("each pass after an early end: {:?}", clock.elapsed() / 100);
        let clock = std::time::Instant::now();
        for now in 101..=1100 {
            let at = rng.below(500_000) as usize;
            book.release(work[at], now);
            let host = (at / 50) as u32;
            let room = book.free_for(host, now, now + 10, true).slots;
            assert!(room < 50);
            work[at] = claim(&mut book, host, now, &mut rng);
        }
        println!("end, test, start: {:?}", clock.elapsed() / 1000);
        (0..=200).for_each(|_| book.cancel(min));
    }
}

/// Load samples change what hosts have all the time: only the reservations on them are checked
/// again.
#[test]
fn less_of_a_host_is_looked_at_where_somebody_needs_it() {
    let book = || {
        let mut book: Book<u32> = Book::new(BookSettings::default());
        (0..2).for_each(|host| book.set_host(host, &Bundle::new(2, &[1000])));
        book.open(0);
        book.claim(&[(0, Bundle::new(2, &[400]))], 0, 100);
        let ask = HostsRequest {
            hosts: vec![0],
            ..wide(2)
        };
        assert_eq!(book.reserve(7, &ask, &EASY).unwrap().start, 100);
        book.close(true);
        book
    };
    let mut other = book();
    other.set_host(1, &Bundle::new(1, &[10]));
    other.open(1);
    assert!(other.idle(), "nobody reserves there");
    let mut enough = book();
    enough.set_host(0, &Bundle::new(2, &[400]));
    enough.open(1);
    assert!(enough.idle(), "all that is there fits");
    let mut short = book();
    short.set_host(0, &Bundle::new(1, &[1000]));
    short.open(1);
    assert!(!short.idle(), "the reservation needs both slots");
}
