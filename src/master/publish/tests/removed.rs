//! Whatever is removed from the state disappears from the view: in the delta, and after the next
//! round in the shards. Random histories with few ids, so that ids return.

use super::*;
use crate::model::{SplitMix64, TermReason};

/// A publisher whose specifications stay in use.
fn with_specs() -> TestPublisher {
    let mut fixture = TestPublisher::new();
    (100..103).for_each(|id| fixture.submit(id));
    fixture
}

/// Submits an array of elements 1 to `n`.
fn submit_array(state: &mut State, id: u32, n: u32) {
    state.apply(&Event::Submitted(Box::new(Submitted {
        id,
        s: id % 3 + 1,
        t: Stamp(1),
        command: "true".into(),
        array: format!("1-{n}"),
        tok: Token(0),
        ..Submitted::default()
    })));
}

fn cancel(state: &mut State, j: JobKey) {
    state.apply(&Event::Cancelled {
        j,
        reason: TermReason::Owner,
        by: "alice".into(),
        t: Stamp(3),
    });
}

fn clean(state: &mut State, ids: Vec<u32>) {
    state.apply(&Event::Cleaned { ids, t: Stamp(4) });
}

/// The keys that a reader sees, and those that the state has.
fn seen_and_due(fixture: &TestPublisher) -> (Vec<JobKey>, Vec<JobKey>) {
    let (jobs, reading) = ViewReader::new(&fixture.layout())
        .collect(&JobSet::all())
        .unwrap();
    assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
    let mut seen: Vec<JobKey> = jobs.iter().map(|j| j.row.j).collect();
    seen.retain(|j| j.id < 100);
    let mut due = Vec::new();
    for job in fixture.state.jobs.values().filter(|job| job.id < 100) {
        due.push(JobKey::job(job.id));
        let elements = job.array().into_iter().flat_map(|array| array.work.keys());
        due.extend(elements.map(|idx| JobKey::element(job.id, *idx)));
    }
    seen.sort_unstable();
    due.sort_unstable();
    (seen, due)
}

#[test]
fn the_elements_of_an_ended_array_disappear_with_it() {
    let mut fixture = with_specs();
    let mut p = fixture.publisher(1);
    p.finish(&fixture.state).unwrap();
    submit_array(&mut fixture.state, 1, 2000);
    for idx in 1..=2000 {
        cancel(&mut fixture.state, JobKey::element(1, idx));
    }
    fixture.turn(&mut p);
    p.finish(&fixture.state).unwrap();
    assert_eq!(seen_and_due(&fixture).0.len(), 2001);
    clean(&mut fixture.state, vec![1]);
    fixture.turn(&mut p);
    assert!(seen_and_due(&fixture).0.is_empty());
    p.finish(&fixture.state).unwrap();
    let left = seen_and_due(&fixture).0;
    assert!(left.is_empty(), "{} rows, first {:?}", left.len(), left[0]);
    let manifest = ViewReader::new(&fixture.layout()).manifest().unwrap();
    assert_eq!(manifest.shards.len(), 1, "of the jobs that stay");
}

/// The id of a removed array, given again at once, shows nothing of the array.
#[test]
fn a_new_job_with_the_id_of_a_removed_one_is_seen_alone() {
    let mut fixture = with_specs();
    let mut p = fixture.publisher(1);
    submit_array(&mut fixture.state, 1, 3);
    for idx in 1..=2 {
        cancel(&mut fixture.state, JobKey::element(1, idx));
    }
    p.finish(&fixture.state).unwrap();
    cancel(&mut fixture.state, JobKey::element(1, 3));
    for between in [false, true] {
        fixture.turn(&mut p);
        clean(&mut fixture.state, vec![1]);
        if between {
            fixture.turn(&mut p);
        }
        fixture.submit(1);
        fixture.turn(&mut p);
        let (seen, due) = seen_and_due(&fixture);
        assert_eq!((seen, &due), (due.clone(), &vec![JobKey::job(1)]));
        cancel(&mut fixture.state, JobKey::job(1));
    }
}

fn no_row_is_left(fixture: &TestPublisher, seed: u64) {
    let (seen, due) = seen_and_due(fixture);
    let (n, of) = (seen.len(), due.len());
    assert!(seen == due, "seed {seed}: {n} seen, {of} due");
}

#[test]
fn random_histories_leave_no_row_behind() {
    for seed in 0..40 {
        let mut rng = SplitMix64::new(seed);
        let mut fixture = with_specs();
        let mut p = fixture.publisher(1);
        for _ in 0..150 {
            let id = 1 + rng.below(6) as u32;
            let idx = 1 + rng.below(1500) as u32;
            match rng.below(10) {
                0 => submit_array(&mut fixture.state, id, 1500),
                1 => fixture.submit(id),
                2..6 => cancel(&mut fixture.state, JobKey::element(id, idx)),
                6 => cancel(&mut fixture.state, JobKey::job(id)),
                7 => clean(&mut fixture.state, vec![id]),
                8 => drop(p.slice(&fixture.state, 0, 0).unwrap()),
                _ => {
                    fixture.turn(&mut p);
                    no_row_is_left(&fixture, seed);
                }
            }
        }
        fixture.turn(&mut p);
        p.finish(&fixture.state).unwrap();
        no_row_is_left(&fixture, seed);
    }
}
