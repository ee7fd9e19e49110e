//! Hand-checkable cases: one pool of slots, few jobs, starts that are easy to work out by hand.

use super::super::*;
use super::replay::{Job, Policy, starts};

/// (id, submit, run, estimate, width)
type Row = (u32, i64, i64, i64, u32);

fn check(procs: u32, rows: &[Row], policy: Policy, wanted: &[(u32, i64)]) {
    let job = |&(id, submit, run, estimate, width): &Row| Job {
        id,
        submit,
        run,
        estimate,
        width,
    };
    let mut jobs: Vec<Job> = rows.iter().map(job).collect();
    jobs.sort_by_key(|job| (job.submit, job.id));
    let got = starts(&jobs, procs, policy);
    for (id, start) in wanted {
        let found = got
            .iter()
            .find(|(known, _)| known == id)
            .expect("the job is there");
        assert_eq!(found.1, *start, "{policy:?}: J{id}, of {got:?}");
    }
}

const FIRST: [Row; 5] = [
    (1, 0, 100, 100, 6),
    (2, 1, 50, 50, 8),
    (3, 2, 60, 60, 2),
    (4, 3, 200, 200, 2),
    (5, 4, 90, 90, 4),
];

#[test]
fn case_1_the_head_blocks_all() {
    check(
        10,
        &FIRST,
        Policy::Fcfs,
        &[(1, 0), (2, 100), (3, 100), (4, 150), (5, 150)],
    );
}

#[test]
fn case_2_backfill_by_time_or_beside() {
    check(
        10,
        &FIRST,
        Policy::Easy,
        &[(1, 0), (2, 100), (3, 2), (4, 3), (5, 150)],
    );
}

#[test]
fn case_3_depth_protects_those_behind() {
    let rows = [
        (1, 0, 100, 100, 6),
        (2, 1, 100, 100, 8),
        (3, 2, 50, 50, 10),
        (4, 3, 250, 250, 2),
    ];
    check(10, &rows, Policy::Easy, &[(4, 3), (3, 253)]);
    check(10, &rows, Policy::Conservative, &[(3, 200), (4, 250)]);
}

#[test]
fn case_4_shortest_candidates_first() {
    let rows = [
        (1, 0, 100, 100, 8),
        (5, 0, 10, 10, 2),
        (2, 1, 50, 50, 10),
        (3, 2, 80, 80, 2),
        (4, 3, 20, 20, 2),
    ];
    check(10, &rows, Policy::Easy, &[(3, 10), (4, 150), (2, 100)]);
    check(10, &rows, Policy::Sjbf, &[(4, 10), (3, 150), (2, 100)]);
}

#[test]
fn case_5_an_early_end_is_gained() {
    let rows = [
        (1, 0, 50, 100, 8),
        (2, 1, 100, 100, 10),
        (3, 2, 90, 90, 2),
        (4, 60, 10, 10, 2),
    ];
    check(10, &rows, Policy::Easy, &[(3, 2), (4, 60), (2, 92)]);
    check(10, &rows, Policy::Fcfs, &[(2, 50)]);
}

#[test]
fn case_6_ending_right_at_the_start_is_allowed() {
    let rows = [
        (1, 0, 100, 100, 8),
        (2, 1, 100, 100, 10),
        (3, 2, 98, 98, 2),
        (4, 3, 99, 99, 2),
    ];
    check(10, &rows, Policy::Easy, &[(3, 2), (2, 100), (4, 200)]);
}

#[test]
fn case_7_without_run_limits_only_what_is_left_over() {
    let never = NEVER_MS;
    let rows = [
        (1, 0, 100, never, 6),
        (2, 1, 100, never, 8),
        (3, 2, 300, never, 2),
        (4, 3, 300, never, 1),
    ];
    check(10, &rows, Policy::Easy, &[(3, 2), (2, 100), (4, 200)]);
}

#[test]
fn case_8_a_large_job_does_not_starve() {
    let mut rows = vec![(1, 0, 10, 10, 2), (2, 0, 15, 15, 2), (3, 1, 10, 10, 4)];
    rows.extend((1..=20).map(|i| (100 + i, 2 * i64::from(i), 10, 10, 1)));
    check(4, &rows, Policy::FirstFit, &[(3, 65)]);
    check(4, &rows, Policy::Hold, &[(3, 15)]);
    check(4, &rows, Policy::Easy, &[(3, 15)]);
}

struct SlotsRequest(u32);

impl BookRequest for SlotsRequest {
    fn hosts(&self) -> &[u32] {
        &[0]
    }

    fn min(&self) -> u32 {
        self.0
    }

    fn bundle(&self, _: u32, slots: u32) -> Bundle {
        Bundle::of_slots(i64::from(slots))
    }
}

#[test]
fn case_25_only_the_first_job_gathers_slots() {
    for depth in [1, 2] {
        let mut book: Book<char> = Book::new(BookSettings::default());
        book.set_host(0, &Bundle::of_slots(10));
        let one = [(0, Bundle::of_slots(1))];
        let work: Vec<ClaimId> = (0..10).map(|_| book.claim(&one, 0, FOREVER)).collect();
        let terms = ReservationTerms {
            duration: NEVER_MS,
            depth,
            hold_ms: Some(1000),
            free_first: false,
        };
        for (freed, claim) in (1..).zip(&work[..8]) {
            let now = freed;
            book.release(*claim, now);
            book.open(now);
            let first = book.begin_turn('a') == BookTurn::Try
                && book.free_for(0, now, end_of(now, NEVER_MS), false).slots >= 8;
            assert_eq!(first, freed == 8, "the job starts at the eighth free slot");
            if first {
                break;
            }
            book.reserve('a', &SlotsRequest(8), &terms)
                .expect("it reserves");
            assert_eq!(book.begin_turn('b'), BookTurn::Try);
            assert_eq!(book.free_for(0, now, end_of(now, NEVER_MS), false).slots, 0);
            let second = book.reserve('b', &SlotsRequest(8), &terms).cloned();
            assert_eq!(second.is_some(), depth == 2);
            assert!(second.is_none_or(|second| !second.holds_slots));
            book.close(true);
            assert_eq!(book.reserved_free_slots(0, now), freed);
            assert_eq!(
                book.estimate('a'),
                Some(Estimate::Unknown {
                    unlimited: 10 - freed as usize
                })
            );
        }
    }
}
