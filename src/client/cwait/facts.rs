//! The data in the published view about the jobs that a condition names.

use super::progress::Counts;
use crate::client::exit::{Fail, Result};
use crate::model::{JobKey, JobStat};
use crate::record::view::JobRow;
use crate::spool::view::{JobSet, ViewItem, ViewReader};
use crate::sys;
use crate::text::IndexSet;
use crate::text::depend::{Answer, DependencyFacts, ElementStates, Elements, Expr, JobRef, Target};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of the jobs of a condition at one time.
#[derive(Default)]
pub(super) struct JobRows {
    jobs: BTreeMap<u32, KnownJob>,
}

/// One job: its own row, and for an array its elements.
#[derive(Default)]
struct KnownJob {
    job_state: Option<ElementState>,
    /// All indices of an array, and those that have not started.
    array: Option<(IndexSet, IndexSet)>,
    elements: BTreeMap<u32, ElementState>,
}

#[derive(Clone, Copy)]
struct ElementState {
    stat: JobStat,
    code: i32,
    started: bool,
    post_failed: bool,
}

/// Replaces names by the ids of the caller's own jobs.
///
/// # Errors
/// A name that no job has, or a view that cannot be read.
pub(super) fn resolve(reader: &ViewReader, expr: Expr) -> Result<Expr> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for cond in expr.conditions() {
        if cond.target.elements == Elements::Same {
            return Err(Fail::usage("[*] has no meaning outside csub -w"));
        }
        if let JobRef::Name(name) = &cond.target.job {
            names.insert(name.clone());
        }
    }
    if names.is_empty() {
        return Ok(expr);
    }
    let want = JobSet {
        uids: vec![sys::users::effective_uid()],
        finished: true,
        ..JobSet::default()
    };
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let read = reader.stream(&want, &mut |piece| match piece {
        ViewItem::Restart => found.clear(),
        ViewItem::Job { row, .. } if row.j.idx == 0 => {
            let name = if row.name.is_empty() {
                &row.command
            } else {
                &row.name
            };
            for wanted in names.iter().filter(|w| name_matches(w, name)) {
                found.entry(wanted.clone()).or_default().insert(row.j.id);
            }
        }
        ViewItem::Job { .. } => {}
    });
    read.map_err(|e| Fail::system(e.to_string()))?;
    expr.resolve(&mut |name: &str| match found.get(name) {
        Some(ids) => Ok(ids.iter().copied().collect()),
        None => Err(Fail::not_found(format!(
            "no job of yours is named \"{name}\""
        ))),
    })
}

/// Whether `name` matches `wanted`, which may end in `*`.
fn name_matches(wanted: &str, name: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(front) => name.starts_with(front),
        None => name == wanted,
    }
}

impl JobRows {
    /// Reads the jobs that `expr` names by id.
    ///
    /// # Errors
    /// A view that cannot be read.
    pub(super) fn read(reader: &ViewReader, expr: &Expr) -> Result<JobRows> {
        let mut ids: Vec<(u32, u32)> = targets(expr).map(|(_, id)| (id, id)).collect();
        ids.sort_unstable();
        ids.dedup();
        let want = JobSet {
            ids,
            finished: true,
            ..JobSet::default()
        };
        let mut facts = JobRows::default();
        let read = reader.stream(&want, &mut |piece| match piece {
            ViewItem::Restart => facts = JobRows::default(),
            ViewItem::Job { row, .. } => facts.add(&row),
        });
        read.map_err(|e| Fail::system(e.to_string()))?;
        Ok(facts)
    }

    fn add(&mut self, row: &JobRow<'_>) {
        let one = ElementState {
            stat: row.stat,
            code: match (row.code, row.sig) {
                (Some(code), _) => code,
                (None, 0) => 0,
                (None, sig) => 128 + sig,
            },
            started: row.attempt > 0,
            post_failed: row.post_failed,
        };
        let known = self.jobs.entry(row.j.id).or_default();
        if row.j.idx > 0 {
            known.elements.insert(row.j.idx, one);
            return;
        }
        known.job_state = Some(one);
        if let Some(arr) = &row.arr {
            let set = |text: &str| IndexSet::parse(text, 1, u32::MAX).unwrap_or_default();
            known.array = Some((set(&arr.all), set(&arr.waiting)));
        }
    }

    pub(super) fn judge(&self, expr: &Expr) -> Answer {
        expr.eval(self)
    }

    /// The states of the targets of `expr`.
    pub(super) fn counts(&self, expr: &Expr) -> Counts {
        let mut counts = Counts::default();
        for (target, _) in targets(expr) {
            for one in self.selected_states(target).unwrap_or_default() {
                counts.add(one.stat, 1);
            }
        }
        counts
    }

    /// How the targets of `expr` that are not DONE have ended, in one sentence each.
    pub(super) fn not_done(&self, expr: &Expr) -> Vec<String> {
        let sentence = |(target, id): (&Target, u32)| {
            let all = self.selected_states(target).unwrap_or_default();
            let bad: Vec<&ElementState> = all.iter().filter(|o| o.stat == JobStat::Exit).collect();
            let name = JobKeyText(target, id);
            match (bad.as_slice(), all.len()) {
                ([], 0) => Some(format!("Job <{name}> is not found")),
                ([], _) => None,
                ([one], 1) if !one.started => Some(format!("Job <{name}> ended without a start")),
                ([one], 1) if one.code == 0 => Some(format!("Job <{name}> ended as EXIT")),
                ([one], 1) => Some(format!(
                    "Job <{name}> ended as EXIT (exit code {})",
                    one.code
                )),
                (bad, all) => Some(format!(
                    "Job <{name}>: {} of {all} elements ended as EXIT",
                    bad.len()
                )),
            }
        };
        targets(expr).filter_map(sentence).collect()
    }

    /// Why `expr` can never hold, as a sentence.
    pub(super) fn why_never(&self, expr: &Expr) -> String {
        let missing: Vec<String> = targets(expr)
            .filter(|(target, _)| self.element_states(target).is_none())
            .map(|(target, id)| JobKeyText(target, id).to_string())
            .collect();
        if missing.is_empty() {
            format!("condition {expr} can no longer become true")
        } else {
            format!("job <{}> is not found", missing.join("> <"))
        }
    }

    fn selected_states<'a>(&'a self, target: &'a Target) -> Option<Vec<ElementState>> {
        let JobRef::Id(id) = target.job else {
            return None;
        };
        let known = self.jobs.get(&id)?;
        let whole = known.job_state?;
        let Some((_, waiting)) = &known.array else {
            return matches!(target.elements, Elements::Whole).then(|| vec![whole]);
        };
        let inside = |idx: u32| match &target.elements {
            Elements::Whole => true,
            Elements::Some(set) => set.contains(idx),
            Elements::Same => false,
        };
        let head = ElementState {
            started: false,
            ..whole
        };
        let mut all: Vec<ElementState> = waiting
            .iter()
            .filter(|idx| inside(*idx) && !known.elements.contains_key(idx))
            .map(|_| head)
            .collect();
        let elements = known.elements.iter().filter(|(idx, _)| inside(**idx));
        all.extend(elements.map(|(_, one)| *one));
        (!all.is_empty()).then_some(all)
    }
}

/// A target with its id in the form in which it is printed.
struct JobKeyText<'a>(&'a Target, u32);

impl std::fmt::Display for JobKeyText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0.elements {
            Elements::Some(set) => write!(f, "{}[{set}]", self.1),
            _ => write!(f, "{}", JobKey::job(self.1)),
        }
    }
}

fn targets(expr: &Expr) -> impl Iterator<Item = (&Target, u32)> {
    expr.conditions()
        .into_iter()
        .filter_map(|c| match c.target.job {
            JobRef::Id(id) => Some((&c.target, id)),
            JobRef::Name(_) => None,
        })
}

impl DependencyFacts for JobRows {
    fn element_states(&self, target: &Target) -> Option<ElementStates> {
        let mut states = ElementStates::default();
        for one in self.selected_states(target)? {
            let count = match one.stat {
                JobStat::Pend => &mut states.pend,
                JobStat::Psusp => &mut states.hold,
                JobStat::Run => &mut states.run,
                JobStat::Ususp | JobStat::Ssusp | JobStat::Unkwn => &mut states.susp,
                JobStat::Done => &mut states.done,
                JobStat::Exit => &mut states.exit,
            };
            *count += 1;
        }
        Some(states)
    }

    fn post_failed(&self, target: &Target) -> u64 {
        let all = self.selected_states(target).unwrap_or_default();
        let failed = all
            .iter()
            .filter(|one| one.stat.is_finished() && one.post_failed);
        failed.count() as u64
    }

    fn exit_code(&self, target: &Target, test: &dyn Fn(i32) -> bool) -> bool {
        let all = self.selected_states(target).unwrap_or_default();
        all.iter()
            .any(|one| one.stat == JobStat::Exit && one.started && test(one.code))
    }

    fn external(&self, _: &Target, _: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::view::ArrayRow;

    fn row(id: u32, idx: u32, stat: JobStat) -> JobRow<'static> {
        JobRow {
            j: JobKey { id, idx },
            stat,
            attempt: u32::from(!stat.is_waiting()),
            ..JobRow::default()
        }
    }

    fn judged(text: &str, rows: &[JobRow<'_>]) -> Answer {
        let mut facts = JobRows::default();
        rows.iter().for_each(|r| facts.add(r));
        facts.judge(&Expr::parse(text).unwrap())
    }

    #[test]
    fn single_jobs() {
        let rows = [
            row(1, 0, JobStat::Done),
            row(2, 0, JobStat::Run),
            row(3, 0, JobStat::Exit),
        ];
        assert_eq!(judged("done(1)", &rows), Answer::True);
        assert_eq!(judged("done(1) && ended(2)", &rows), Answer::False);
        assert_eq!(judged("done(3)", &rows), Answer::Never);
        assert_eq!(judged("ended(3) && exit(3)", &rows), Answer::True);
        assert_eq!(judged("ended(9)", &rows), Answer::Never);
    }

    #[test]
    fn arrays_count_their_waiting_elements() {
        let mut whole = row(5, 0, JobStat::Pend);
        whole.arr = Some(Box::new(ArrayRow {
            all: "1-4".into(),
            waiting: "3-4".into(),
            ..ArrayRow::default()
        }));
        let rows = [whole, row(5, 1, JobStat::Done), row(5, 2, JobStat::Run)];
        assert_eq!(judged("ended(5)", &rows), Answer::False);
        assert_eq!(judged("done(5[1])", &rows), Answer::True);
        assert_eq!(judged("numpend(5, == 2)", &rows), Answer::True);
        assert_eq!(judged("ended(5[9])", &rows), Answer::Never);
    }

    #[test]
    fn what_failed_and_what_is_missing_are_named() {
        let mut facts = JobRows::default();
        facts.add(&row(1, 0, JobStat::Done));
        let mut failed = row(2, 0, JobStat::Exit);
        failed.code = Some(3);
        facts.add(&failed);
        let expr = Expr::parse("ended(1) && ended(2)").unwrap();
        assert_eq!(
            facts.not_done(&expr),
            ["Job <2> ended as EXIT (exit code 3)"]
        );
        let mut killed = row(3, 0, JobStat::Exit);
        killed.attempt = 0;
        facts.add(&killed);
        let expr = Expr::parse("ended(3)").unwrap();
        assert_eq!(facts.not_done(&expr), ["Job <3> ended without a start"]);
        let expr = Expr::parse("ended(1) && ended(7)").unwrap();
        assert_eq!(facts.why_never(&expr), "job <7> is not found");
    }

    #[test]
    fn names_match_with_a_star_at_the_end() {
        assert!(
            name_matches("a*", "abc") && name_matches("abc", "abc") && !name_matches("ab", "abc")
        );
    }
}
