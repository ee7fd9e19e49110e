//! Tests of the timeline: by hand, and against an array with one entry per moment.

use super::*;
use proptest::prelude::*;

const END: i64 = 60;

fn slots(n: i64) -> Bundle {
    Bundle::of_slots(n)
}

#[test]
fn claims_make_steps_and_equal_steps_merge() {
    let mut line = Timeline::new(&slots(10));
    line.claim(0, 100, &slots(6));
    line.claim(0, 50, &slots(2));
    assert_eq!(line.free_at(0), slots(2));
    assert_eq!(line.free_at(50), slots(4));
    assert_eq!(line.free_at(100), slots(10));
    assert_eq!(line.steps(), 4);
    line.claim(50, 100, &slots(2));
    assert_eq!(line.steps(), 3);
    line.release(0, 50, &slots(2));
    line.release(50, 100, &slots(2));
    line.release(0, 100, &slots(6));
    assert_eq!(line.steps(), 1);
}

#[test]
fn the_earliest_start_skips_gaps_that_are_too_short() {
    let mut line = Timeline::new(&Bundle::new(10, &[4000]));
    line.claim(0, 10, &slots(8));
    line.claim(20, 30, &Bundle::new(1, &[3000]));
    let far = i64::MAX;
    assert_eq!(line.earliest(&slots(2), 100, 0, far), Some(0));
    assert_eq!(line.earliest(&slots(10), 10, 0, far), Some(10));
    assert_eq!(line.earliest(&slots(10), 11, 0, far), Some(30));
    assert_eq!(line.earliest(&slots(10), 10, 11, far), Some(30));
    assert_eq!(
        line.earliest(&Bundle::new(1, &[2000]), 20, 5, far),
        Some(30)
    );
    assert_eq!(line.earliest(&Bundle::new(1, &[2000]), 15, 5, far), Some(5));
    assert_eq!(line.earliest(&slots(11), 1, 0, far), None);
    assert_eq!(line.earliest(&slots(10), 11, 0, 30), None);
    assert_eq!(line.earliest(&Bundle::new(1, &[0, 1]), 1, 0, far), None);
}

#[test]
fn work_without_end_frees_at_one_moment_after_all_others() {
    let mut line = Timeline::new(&slots(4));
    line.claim(5, FOREVER, &slots(1));
    line.claim(9, FOREVER, &slots(1));
    assert_eq!(line.steps(), 4);
    line.forget_before(9);
    assert_eq!(line.steps(), 2);
    assert_eq!(line.earliest(&slots(3), 10, 9, i64::MAX), Some(FOREVER));
    assert!(end_of(9, NEVER_MS) > FOREVER);
    assert!(end_of(FOREVER, NEVER_MS) > end_of(FOREVER, NEVER_MS - 1));
}

#[test]
fn the_past_is_dropped_and_the_present_kept() {
    let mut line = Timeline::new(&slots(8));
    for t in 0..200 {
        line.claim(t, t + 5, &slots(1));
        line.forget_before(t);
    }
    assert!(line.steps() <= 6, "{} steps", line.steps());
    assert!(line.times.len() < 80, "{} kept", line.times.len());
    assert_eq!(line.free_at(0), line.free_at(199));
    assert_eq!(line.free_at(199), slots(3));
}

#[test]
fn stairs_tell_what_an_end_leaves() {
    let mut line = Timeline::new(&Bundle::new(10, &[1000]));
    line.claim(0, 50, &slots(4));
    line.claim(50, 80, &Bundle::new(8, &[1000]));
    let mut stairs = Vec::new();
    line.decreasing_steps(0, &mut stairs);
    let step = |from, room| Step { from, room };
    let low = step(50, Bundle::new(2, &[0]));
    assert_eq!(stairs, vec![step(i64::MIN, Bundle::new(6, &[1000])), low]);
}

#[test]
fn a_host_that_shrinks_is_overdrawn_where_it_is_claimed() {
    let mut line = Timeline::new(&slots(4));
    line.claim(10, 20, &slots(3));
    line.grow(&slots(-2));
    assert!(line.is_overdrawn(&slots(1), 0, 20));
    assert!(!line.is_overdrawn(&slots(1), 0, 10));
    assert!(!line.is_overdrawn(&Bundle::new(0, &[1]), 0, 20));
    assert_eq!(line.free_at(30), slots(2));
}

#[derive(Clone, Debug)]
enum Operation {
    Take(i64, i64, i64, i64),
    Give(usize),
    Forget(i64),
}

fn act() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..END, 1..20i64, 0..5i64, 0..3i64)
            .prop_map(|(from, lasts, slots, mem)| Operation::Take(from, from + lasts, slots, mem)),
        2 => (0..100usize).prop_map(Operation::Give),
        1 => (0..END / 2).prop_map(Operation::Forget),
    ]
}

/// One entry per moment: (slots, memory).
fn brute_earliest(free: &[(i64, i64)], need: (i64, i64), duration: i64, from: i64) -> Option<i64> {
    let ok = |t: i64| {
        let (slots, mem) = free[(t as usize).min(free.len() - 1)];
        (need.0 <= 0 || need.0 <= slots) && (need.1 <= 0 || need.1 <= mem)
    };
    (from..free.len() as i64).find(|start| (*start..start + duration).all(ok))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_timeline_is_an_array_of_moments(acts in prop::collection::vec(act(), 1..60),
        need in (0..8i64, 0..4i64), duration in 1..30i64) {
        let mut line = Timeline::new(&Bundle::new(8, &[4]));
        let mut free = vec![(8i64, 4i64); 2 * END as usize];
        let mut taken: Vec<(i64, i64, i64, i64)> = Vec::new();
        let mut now = 0;
        for act in acts {
            match act {
                Operation::Take(from, to, slots, mem) => {
                    line.claim(from, to, &Bundle::new(slots, &[mem]));
                    for t in from..to {
                        free[t as usize].0 -= slots;
                        free[t as usize].1 -= mem;
                    }
                    taken.push((from, to, slots, mem));
                }
                Operation::Give(n) if !taken.is_empty() => {
                    let (from, to, slots, mem) = taken.swap_remove(n % taken.len());
                    line.release(from, to, &Bundle::new(slots, &[mem]));
                    for t in from..to {
                        free[t as usize].0 += slots;
                        free[t as usize].1 += mem;
                    }
                }
                Operation::Forget(t) => {
                    now = now.max(t);
                    line.forget_before(t);
                }
                Operation::Give(_) => {}
            }
            for t in now..2 * END {
                let (slots, mem) = free[t as usize];
                prop_assert_eq!(line.free_at(t), Bundle::new(slots, &[mem]));
            }
            let mut last = None;
            for i in line.head..line.times.len() {
                let row = Some(line.row(i));
                prop_assert!(row != last, "equal steps at {}", line.times[i]);
                last = row;
            }
        }
        let wants = Bundle::new(need.0, &[need.1]);
        let brute = brute_earliest(&free, need, duration, now);
        prop_assert_eq!(line.earliest(&wants, duration, now, i64::MAX), brute);
        let span = now as usize..(now + duration) as usize;
        let least = free[span].iter().fold((99, 99), |a, b| (a.0.min(b.0), a.1.min(b.1)));
        let room = line.min_free(now, now + duration);
        prop_assert_eq!(&room, &Bundle::new(least.0, &[least.1]));
        prop_assert_eq!(line.fits(&wants, now, now + duration), wants.fits(&room));
        let mut stairs = Vec::new();
        line.decreasing_steps(now, &mut stairs);
        let step = stairs.iter().rev().find(|step| step.from < now + duration);
        prop_assert_eq!(&step.expect("one step is there").room, &room);
    }
}
