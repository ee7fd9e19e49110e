//! The published view on random histories: what a reader finds is what the state says, whatever
//! was written as a delta, in a round, or by an earlier leader.

use super::super::*;
use crate::model::{JobKey, PendReason};
use crate::record::event::Event;
use crate::spool::view::JobSet;
use crate::state::any_events::{Dice, History, Step, steps};
use proptest::prelude::*;

/// Rows as texts and their reasons, by job.
type Rows = BTreeMap<JobKey, (String, Option<PendReason>)>;

fn text(row: &crate::record::view::JobRow<'_>, spec: &Spec) -> String {
    let mut row = serde_json::to_value(row).unwrap();
    // The reader combines it with that of the class.
    row.as_object_mut().unwrap().remove("why");
    format!("{row} {spec:?}")
}

/// What the view has to show, computed from the jobs alone.
fn expected(state: &State) -> Rows {
    let mut rows = Rows::new();
    for job in state.jobs() {
        let elements = job.array().into_iter().flat_map(|array| array.work.keys());
        for idx in std::iter::once(&0).chain(elements) {
            let j = JobKey::element(job.id, *idx);
            let row = state.row(j).unwrap();
            let class = state.pending().class(row.class);
            let of_class = class.map(|class| &class.why);
            let why = job.own_reason(*idx).or(of_class);
            let why = why.filter(|_| row.stat.is_waiting()).cloned();
            rows.insert(j, (text(&row, state.spec(job.spec)), why));
        }
    }
    rows
}

fn published(layout: &Layout) -> Rows {
    let (jobs, reading) = ViewReader::new(layout).collect(&JobSet::all()).unwrap();
    assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
    let row = |job: &crate::spool::view::ViewJob| (text(&job.row, &job.spec), job.why.clone());
    let rows: Rows = jobs.iter().map(|job| (job.row.j, row(job))).collect();
    assert_eq!(rows.len(), jobs.len(), "a job came twice");
    rows
}

/// Jobs without a reason of their own, in classes of which nothing can be scheduled: their
/// dependency is about to be judged, or all of an array has started.
fn without_reason(state: &State) -> BTreeSet<JobKey> {
    let idle = |j: &JobKey| {
        let class = state.row(*j).map_or(0, |row| row.class);
        let class = state.pending().class(class);
        class.is_some_and(|class| class.jobs.is_empty())
    };
    let keys = state
        .jobs()
        .flat_map(|job| (0..8).map(|idx| JobKey::element(job.id, idx)));
    let own = |j: &JobKey| {
        state
            .job(j.id)
            .is_some_and(|job| job.own_reason(j.idx).is_some())
    };
    keys.filter(|j| idle(j) && !own(j)).collect()
}

/// The shards with their entries as they follow from the state.
fn shards(state: &State) -> BTreeMap<String, ShardInfo> {
    let infos = state.shards().into_iter().map(|key| {
        let info = info_of(String::new(), &state.shard_rows(key));
        (key.to_string(), info.expect("it has rows"))
    });
    infos.collect()
}

/// The shards that the manifest names.
fn named(layout: &Layout) -> BTreeMap<String, ShardInfo> {
    let manifest = ViewReader::new(layout).manifest().unwrap();
    let infos = manifest.shards.into_iter().map(|mut info| {
        let file = std::mem::take(&mut info.file);
        (key_of(&file).unwrap().to_owned(), info)
    });
    infos.collect()
}

/// Changes the reason of a class, as a pass of the scheduler does.
fn judge_class(state: &mut State, dice: &mut Dice) {
    let classes: Vec<u32> = state.pending().classes().map(|(id, _)| id).collect();
    if classes.is_empty() {
        return;
    }
    let id = classes[dice.roll(classes.len() as u32) as usize];
    let (need, free) = (dice.roll(9), 0);
    state.pending.set_why(id, PendReason::Slots { need, free });
}

/// What the leader does with the view after a turn: more of a round, all of it, a new leader, or
/// nothing. Rows that no command waits for may be left for the round to write.
fn publish(publisher: &mut Publisher, state: &mut State, dice: &mut Dice) {
    let changed = state.take_delta();
    let (rows, changed) = state.delta_rows(changed);
    publisher.rows(&rows, &|id| state.spec(id).as_ref());
    drop(rows);
    publisher.mark_changed(changed);
    let begins = publisher.round.is_none();
    match dice.roll(12) {
        0 => publisher.finish(state).unwrap(),
        1..=5 => {
            if !begins || dice.roll(2) == 0 {
                publisher.flush().unwrap();
            }
            publisher.slice(state, 0, 0).unwrap();
        }
        6 => {
            publisher.flush().unwrap();
            let (layout, epoch) = (publisher.files.layout.clone(), publisher.files.epoch);
            *publisher = Publisher::new(&layout, "c", epoch + 1).unwrap();
        }
        _ => publisher.flush().unwrap(),
    }
}

/// The same event; a specification that was removed returns as it was, because leaders give each
/// number once.
fn defined_once(event: Event, specs: &mut BTreeMap<u32, Box<Spec>>) -> Event {
    match event {
        Event::Spec { id, spec } => {
            let spec = specs.entry(id).or_insert(spec).clone();
            Event::Spec { id, spec }
        }
        other => other,
    }
}

/// The first job that is not shown as it is.
fn differing(shown: &Rows, due: &Rows) -> Option<JobKey> {
    let mut all = shown.keys().chain(due.keys());
    all.find(|j| shown.get(j) != due.get(j)).copied()
}

fn follow(steps: &[Step]) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("view")).unwrap();
    let layout = Layout::new(dir.path());
    let (mut history, mut specs) = (History::default(), BTreeMap::new());
    let mut publisher = Publisher::new(&layout, "c", 1).unwrap();
    for (number, step) in steps.iter().enumerate() {
        let mut dice = Dice::new(step.1 ^ 0x5555);
        for event in history.events(*step) {
            history.state.apply(&defined_once(event, &mut specs));
        }
        history.derive(step.1, &mut []);
        judge_class(&mut history.state, &mut dice);
        // Several events in one turn.
        if dice.roll(3) == 0 {
            continue;
        }
        publish(&mut publisher, &mut history.state, &mut dice);
        let (mut shown, mut due) = (published(&layout), expected(&history.state));
        for j in without_reason(&history.state) {
            for rows in [&mut shown, &mut due] {
                rows.entry(j).and_modify(|(_, why)| *why = None);
            }
        }
        if let Some(j) = differing(&shown, &due) {
            let (shown, due) = (shown.get(&j), due.get(&j));
            prop_assert!(
                false,
                "step {}: {} is\n{:?}\nnot\n{:?}",
                number,
                j,
                shown,
                due
            );
        }
        if publisher.is_up_to_date() {
            prop_assert_eq!(named(&layout), shards(&history.state), "step {}", number);
        }
    }
    super::turn(&mut history.state, &mut publisher);
    publisher.finish(&history.state).unwrap();
    prop_assert_eq!(named(&layout), shards(&history.state));
    Ok(())
}

#[test]
fn the_view_is_what_the_state_says_after_every_turn() {
    let mut config = crate::text::cases();
    config.cases = 24;
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    if let Err(e) = runner.run(&steps(120), |steps| follow(&steps)) {
        panic!("{e}");
    }
}
