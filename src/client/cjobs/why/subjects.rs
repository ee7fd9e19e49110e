//! Selects the jobs to explain: the named jobs that the caller may see, with similar elements of an
//! array combined. Pure.

use crate::model::{JobKey, JobStat, PendReason, Spec, TermReason};
use crate::record::view::JobRow;
use crate::show::job_select::Users;
use crate::spool::view::ViewJob;
use crate::text::indexset::IndexSet;
use crate::text::jobids::JobSel;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of groups of one array that are explained.
pub(super) const GROUPS_MAX: usize = 20;

/// A job, or elements of an array in the same state for the same reason.
pub(super) struct JobSubject {
    /// The name that is shown: `12`, `12[3-5]`.
    pub label: String,
    /// The job, or the first of the elements.
    pub j: JobKey,
    pub row: JobRow<'static>,
    pub spec: Arc<Spec>,
    /// The reason that the leader has published.
    pub why: Option<PendReason>,
    /// Number of other elements that are similar.
    pub more: u64,
}

/// What similar elements have in common: state, reason, how they ended.
type SharedState = (JobStat, u32, String, Option<i32>, i32, String, String);

/// The subjects by id, which of the selections were found, and how many groups of arrays were left
/// out.
pub(super) struct SelectedJobs {
    pub subjects: Vec<JobSubject>,
    pub not_found: Vec<String>,
    pub left_out: usize,
}

/// Selects the jobs and groups similar elements.
pub(super) fn find(jobs: Vec<ViewJob>, ids: &[JobSel], users: &Users) -> SelectedJobs {
    let mut singles = Vec::new();
    let mut arrays: BTreeMap<u32, BTreeMap<SharedState, (JobSubject, IndexSet)>> = BTreeMap::new();
    let mut hit = vec![false; ids.len()];
    for job in jobs {
        let ViewJob { row, spec, why } = job;
        if !users.has(spec.uid, &spec.user, &spec.queue) {
            continue;
        }
        let requested = indices(&row, ids, &mut hit);
        let Some(first) = requested.as_ref().and_then(IndexSet::first) else {
            if requested.is_some() {
                singles.push(subject(row, spec, why));
            }
            continue;
        };
        let (requested, id) = (requested.unwrap_or_default(), row.j.id);
        let mut one = subject(row, spec, why);
        one.j = JobKey::element(id, first);
        let group = arrays.entry(id).or_default().entry(shared_state(&one));
        group.or_insert((one, IndexSet::new())).1.union(&requested);
    }
    let mut left_out = 0;
    for (id, groups) in arrays {
        left_out += groups.len().saturating_sub(GROUPS_MAX);
        for (mut one, set) in groups.into_values().take(GROUPS_MAX) {
            one.label = format!("{id}[{set}]");
            one.more = set.len() - 1;
            singles.push(one);
        }
    }
    singles.sort_by_key(|subject| subject.j);
    let lost = ids.iter().zip(&hit).filter(|(_, hit)| !**hit);
    SelectedJobs {
        not_found: lost.map(|(sel, _)| sel.to_string()).collect(),
        subjects: singles,
        left_out,
    }
}

/// The indices of a row that are selected; empty for a single job. `None`: nothing of it is
/// selected.
fn indices(row: &JobRow<'_>, ids: &[JobSel], hit: &mut [bool]) -> Option<IndexSet> {
    let j = row.j;
    let waiting: IndexSet = match row.arr.as_deref() {
        Some(arr) => arr.waiting.parse().unwrap_or_default(),
        None if j.idx > 0 => IndexSet::from_range(j.idx, j.idx),
        None => IndexSet::new(),
    };
    let mut out: Option<IndexSet> = None;
    for (sel, hit) in ids.iter().zip(hit) {
        let part = match sel {
            JobSel::Job(id) if *id == j.id => waiting.clone(),
            JobSel::Elements(id, set) if *id == j.id => waiting.intersection(set),
            _ => continue,
        };
        let single = row.arr.is_none() && j.idx == 0;
        if single && matches!(sel, JobSel::Job(_)) || !part.is_empty() {
            *hit = true;
            out.get_or_insert_with(IndexSet::new).union(&part);
        }
    }
    out
}

fn subject(row: JobRow<'static>, spec: Arc<Spec>, why: Option<PendReason>) -> JobSubject {
    JobSubject {
        label: row.j.to_string(),
        j: row.j,
        row,
        spec,
        why,
        more: 0,
    }
}

fn shared_state(one: &JobSubject) -> SharedState {
    let row = &one.row;
    let why = one.why.as_ref().map(ToString::to_string);
    let text = match row.reason {
        TermReason::None => String::new(),
        _ => row.text.clone(),
    };
    (
        row.stat,
        one.why.as_ref().map_or(0, PendReason::code),
        why.unwrap_or_default(),
        row.code,
        row.sig,
        row.reason.word().to_owned(),
        text,
    )
}
