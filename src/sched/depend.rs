//! Judging `-w` conditions against the state.

use crate::model::{JobStat, Orphans, PendReason};
use crate::state::{Array, Body, DepVerdict, Job, State, Work};
use crate::text::IndexSet;
use crate::text::depend::{
    Answer, Cond, DependencyFacts, ElementStates, Elements, Expr, JobRef, Target,
};
use std::cell::Cell;

/// The state, and a counter of the jobs and elements that were looked at.
struct StateFacts<'a>(&'a State, Cell<u64>);

/// Evaluates the dependency of a job. Returns `None` if it has none.
pub fn evaluate(state: &State, id: u32) -> Option<DepVerdict> {
    evaluate_counting(state, id, &mut 0)
}

/// Applies the job's policy to a verdict: a dependency that can never be met may count as met.
pub fn apply_policy(verdict: DepVerdict, policy: Orphans) -> DepVerdict {
    match (verdict, policy) {
        (DepVerdict::Never(_), Orphans::Run) => DepVerdict::Met,
        (verdict, _) => verdict,
    }
}

/// Evaluates all dependencies that are due, by the policies of their jobs or else that of the
/// cluster.
pub fn evaluate_due(state: &mut State, general: Orphans) {
    for id in state.take_dep_dirty() {
        if let Some(verdict) = evaluate(state, id) {
            let policy = policy_of(state, id, general);
            state.set_dependency(id, apply_policy(verdict, policy));
        }
    }
}

/// The policy for a job whose dependency can never be met.
pub fn policy_of(state: &State, id: u32, general: Orphans) -> Orphans {
    let spec = state.spec_of(id);
    spec.map_or(general, |spec| spec.orphans(general))
}

/// As [`evaluate`]; adds to `looks` the number of other jobs that were looked at.
pub fn evaluate_counting(state: &State, id: u32, looks: &mut u64) -> Option<DepVerdict> {
    let spec = state.spec_of(id)?;
    if spec.depend.is_empty() {
        return None;
    }
    let on = spec.depend.clone();
    let Ok(expr) = Expr::parse_stored(&on) else {
        let why = "it cannot be read".to_owned();
        return Some(DepVerdict::Never(PendReason::DependencyNever { on, why }));
    };
    let view = StateFacts(state, Cell::new(0));
    let verdict = match expr.eval(&view) {
        Answer::True => DepVerdict::Met,
        Answer::False => DepVerdict::NotYet(PendReason::Dependency { on }),
        Answer::Never => {
            let why = expr.never(&view).map_or(String::new(), |c| cause(state, c));
            DepVerdict::Never(PendReason::DependencyNever { on, why })
        }
    };
    *looks += view.1.get();
    Some(verdict)
}

/// What happened to the job that a condition names, in words.
fn cause(state: &State, cond: &Cond) -> String {
    let id = match &cond.target.job {
        JobRef::Id(id) => *id,
        JobRef::Name(name) => return format!("no job is named {name}"),
    };
    match state.job(id).map(|job| &job.body) {
        None => format!("job {id} no longer exists"),
        Some(Body::Array(array)) => format!(
            "of array {id} {} elements are DONE and {} EXIT",
            array.count(JobStat::Done),
            array.count(JobStat::Exit)
        ),
        Some(Body::Single(work)) => {
            let end = work.run.as_ref().and_then(|run| run.end.as_ref());
            match (work.stat, end.and_then(|end| end.code)) {
                (JobStat::Exit, Some(code)) => format!("job {id} ended with exit code {code}"),
                (JobStat::Exit, None) => format!("job {id} ended without success"),
                (JobStat::Done, _) => format!("job {id} is DONE"),
                _ => format!("job {id} has not ended as it says"),
            }
        }
    }
}

/// The elements of `array` that are in `set`. A condition may name two thousand million indices:
/// never more of them are checked than the array has.
fn matching_elements<'a>(
    array: &'a Array,
    set: &'a IndexSet,
) -> Box<dyn Iterator<Item = u32> + 'a> {
    if set.len() < array.all.len() {
        Box::new(set.iter())
    } else {
        Box::new(array.all.iter().filter(|idx| set.contains(*idx)))
    }
}

impl StateFacts<'_> {
    fn count_lookups(&self, n: usize) {
        self.1.set(self.1.get() + n as u64);
    }

    fn job(&self, target: &Target) -> Option<&Job> {
        self.count_lookups(1);
        match &target.job {
            JobRef::Id(id) => self.0.job(*id),
            JobRef::Name(_) => None,
        }
    }

    fn each(&self, target: &Target, f: &mut dyn FnMut(JobStat, u64, Option<&Work>)) -> Option<()> {
        let job = self.job(target)?;
        match (&job.body, &target.elements) {
            (Body::Single(work), _) => f(work.stat, 1, Some(work)),
            (Body::Array(array), Elements::Some(set)) => {
                self.count_lookups(set.len().min(array.all.len()) as usize);
                for idx in matching_elements(array, set) {
                    if let Some(stat) = job.stat(idx) {
                        f(stat, 1, array.work.get(&idx));
                    }
                }
            }
            (Body::Array(array), _) => {
                f(array.head, array.waiting.len(), None);
                for stat in JobStat::ALL {
                    f(stat, u64::from(array.count(stat)), None);
                }
            }
        }
        Some(())
    }
}

impl DependencyFacts for StateFacts<'_> {
    fn element_states(&self, target: &Target) -> Option<ElementStates> {
        let mut states = ElementStates::default();
        self.each(target, &mut |stat, n, _| match stat {
            JobStat::Pend => states.pend += n,
            JobStat::Psusp => states.hold += n,
            JobStat::Run => states.run += n,
            JobStat::Ususp | JobStat::Ssusp | JobStat::Unkwn => states.susp += n,
            JobStat::Done => states.done += n,
            JobStat::Exit => states.exit += n,
        })?;
        Some(states)
    }

    fn exit_code(&self, target: &Target, test: &dyn Fn(i32) -> bool) -> bool {
        let Some(job) = self.job(target) else {
            return false;
        };
        let hit = |work: &Work| {
            let end = work.run.as_ref().and_then(|run| run.end.as_ref());
            work.stat == JobStat::Exit && end.is_some_and(|f| f.code.is_some_and(test))
        };
        match (&job.body, &target.elements) {
            (Body::Single(work), _) => hit(work),
            (Body::Array(array), Elements::Some(set)) => {
                self.count_lookups(set.len().min(array.all.len()) as usize);
                matching_elements(array, set).any(|idx| array.work.get(&idx).is_some_and(hit))
            }
            (Body::Array(array), _) => {
                self.count_lookups(array.work.len());
                array.work.values().any(hit)
            }
        }
    }

    fn post_failed(&self, target: &Target) -> u64 {
        let Some(job) = self.job(target) else {
            return 0;
        };
        let hit = |work: &&Work| {
            let end = work.run.as_ref().and_then(|run| run.end.as_ref());
            work.stat.is_finished() && end.is_some_and(|end| end.post_failed)
        };
        let found = match (&job.body, &target.elements) {
            (Body::Single(work), _) => usize::from(hit(&work)),
            (Body::Array(array), Elements::Some(set)) => {
                self.count_lookups(set.len().min(array.all.len()) as usize);
                let works = matching_elements(array, set).filter_map(|idx| array.work.get(&idx));
                works.filter(hit).count()
            }
            (Body::Array(array), _) => {
                self.count_lookups(array.work.len());
                array.work.values().filter(hit).count()
            }
        };
        found as u64
    }

    fn external(&self, _target: &Target, _word: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// It fails by its running time: looking at each named index takes minutes.
    #[test]
    fn a_condition_looks_at_no_more_elements_than_the_array_has() {
        let array = Array {
            all: IndexSet::from_range(1, 4),
            waiting: IndexSet::from_range(1, 4),
            head: JobStat::Pend,
            why: None,
            limit: 0,
            work: BTreeMap::default(),
            counts: [0; 8],
        };
        for (set, want) in [
            (IndexSet::from_range(1, i32::MAX.cast_unsigned()), 4),
            (IndexSet::from_range(3, i32::MAX.cast_unsigned()), 2),
            (IndexSet::from_range(2, 3), 2),
            (IndexSet::from_range(9, i32::MAX.cast_unsigned()), 0),
        ] {
            let found = matching_elements(&array, &set).filter(|idx| array.all.contains(*idx));
            assert_eq!(found.count(), want, "{set}");
        }
    }
}
