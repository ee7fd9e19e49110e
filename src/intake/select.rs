//! The jobs that a command selects: ids, or the other selectors as in LSF (an id takes precedence
//! over them, `0` means all that match, neither means the latest that matches). The selection is
//! processed step by step: it may be a million elements, and is never completely in memory.

use super::Refusal;
use crate::record::request::{Selector, Verb};
use crate::state::{Body, Job, State};
use crate::text::glob::Glob;
use crate::text::indexset::IndexSet;
use crate::text::job_group::is_within;
use crate::text::jobids::JobSel;
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of jobs and elements that the ids of one request may name in total.
pub(super) const PICK_MAX: u64 = 1_000_000;
/// Maximum total length of the ids of one request: reading overlapping ranges costs more than their
/// elements.
pub(super) const IDS_BYTES_MAX: usize = 2 << 20;
/// Maximum number of selections of jobs in one request, and of those that do not select by ids; our
/// commands make one.
pub(super) const SELECTIONS_MAX: usize = 100;
pub(super) const SEARCHES_MAX: usize = 4;
/// Maximum number of candidates that a selection collects; if there are more, it searches all jobs
/// instead.
const AMONG_MAX: usize = 10_000;
/// Number of jobs visited in one step.
const STEP: usize = 1000;

/// Something that the ids of a selector name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamedJobs {
    /// A job or a whole array.
    Job(u32),
    Elements(u32, IndexSet),
}

/// What the ids of a selector name, in the order in which each job is first mentioned, and whether
/// all matching jobs are selected.
///
/// # Errors
/// An operand is not a job ID.
fn named_jobs(ids: &[String]) -> Result<(Vec<NamedJobs>, bool), Refusal> {
    let (mut out, mut all) = (Vec::<NamedJobs>::new(), false);
    let (mut whole, mut part) = (FxHashSet::default(), FxHashMap::default());
    for operand in ids {
        match JobSel::parse(operand).map_err(|e| Refusal::usage(e.to_string()))? {
            JobSel::All => all = true,
            JobSel::Job(id) if whole.insert(id) => out.push(NamedJobs::Job(id)),
            JobSel::Job(_) => {}
            JobSel::Elements(id, set) => {
                let at = *part.entry(id).or_insert(out.len());
                match out.get_mut(at) {
                    Some(NamedJobs::Elements(_, known)) => known.union(&set),
                    _ => out.push(NamedJobs::Elements(id, set)),
                }
            }
        }
    }
    Ok((out, all))
}

/// Refuses a request whose selections exceed the limits of one request, before any part of it is
/// carried out.
///
/// # Errors
/// Returns the limit that is exceeded.
pub fn check_bounds<'a>(
    verbs: impl Iterator<Item = &'a Verb>,
    state: &State,
) -> Result<(), Refusal> {
    let (mut selections, mut searches, mut bytes, mut count) = (0, 0, 0, 0u64);
    for sel in verbs.filter_map(selector) {
        selections += 1;
        searches += usize::from(sel.ids.is_empty() || sel.all);
        bytes += sel.ids.iter().map(String::len).sum::<usize>();
        if selections > SELECTIONS_MAX {
            return Err(Refusal::usage(format!(
                "more than {SELECTIONS_MAX} selections of jobs in one request: use several requests"
            )));
        }
        if searches > SEARCHES_MAX {
            return Err(Refusal::usage(format!(
                "more than {SEARCHES_MAX} selections of jobs by user, name, queue or host in one \
                 request: use several requests"
            )));
        }
        if bytes > IDS_BYTES_MAX {
            return Err(Refusal::usage(format!(
                "the job ids have {bytes} bytes, at most {IDS_BYTES_MAX} are allowed in one \
                 request: use several requests"
            )));
        }
        for operand in &sel.ids {
            // Counted before any further processing, whether the job exists or not.
            count = count.saturating_add(weight(operand, state)?);
            if count > PICK_MAX {
                return Err(Refusal::usage(format!(
                    "the ids name more than {PICK_MAX} jobs and elements, which is the maximum \
                     for one request: use several requests"
                )));
            }
        }
    }
    Ok(())
}

fn selector(verb: &Verb) -> Option<&Selector> {
    match verb {
        Verb::Signal { sel, .. }
        | Verb::Requeue { sel, .. }
        | Verb::Migrate { sel, .. }
        | Verb::Switch { sel, .. }
        | Verb::Post { sel, .. }
        | Verb::Modify { sel, .. } => Some(sel),
        _ => None,
    }
}

fn weight(operand: &str, state: &State) -> Result<u64, Refusal> {
    let jobs = JobSel::parse(operand).map_err(|e| Refusal::usage(e.to_string()))?;
    Ok(match jobs {
        JobSel::Elements(_, set) => set.len(),
        JobSel::All => 1,
        JobSel::Job(id) => match state.job(id).map(|job| &job.body) {
            Some(Body::Array(array)) => 1 + array.work.len() as u64,
            _ => 1,
        },
    })
}

/// The criteria beside ids that decide which jobs are selected.
#[derive(Clone, Debug, Default)]
struct Filter {
    queue: String,
    group: String,
    name: String,
    /// Jobs on the given host.
    on_host: Option<FxHashSet<u32>>,
    /// Uids; `None`: every user.
    users: Option<Vec<u32>>,
}

impl Filter {
    fn fits(&self, state: &State, job: &Job) -> bool {
        let spec = state.spec(job.spec);
        let user = self.users.as_ref();
        user.is_none_or(|users| users.contains(&spec.uid))
            && (self.queue.is_empty() || spec.queue == self.queue)
            && (self.group.is_empty() || is_within(&spec.job_group, &self.group))
            && (self.name.is_empty() || Glob::new(&self.name).matches(job.name()))
            && self.on_host.as_ref().is_none_or(|on| on.contains(&job.id))
    }
}

/// Where to search for the jobs that match a filter.
#[derive(Clone, Debug)]
enum SearchScope {
    Nothing,
    /// These jobs, in order.
    Ids(Vec<u32>),
    All,
}

/// The jobs that a selector selects, to be visited in order.
#[derive(Clone, Debug)]
pub struct Selection {
    named_jobs: Vec<NamedJobs>,
    filter: Filter,
    scope: SearchScope,
    /// Only the latest one is selected; the inner value is the latest one found so far.
    latest: Option<Option<u32>>,
    chosen: Option<u32>,
    /// Next index in `named_jobs`; after these, their number plus the next id.
    next_index: u32,
    found: bool,
}

/// The next result of a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionItem {
    /// A job or a whole array.
    Whole(u32),
    Elements(u32, IndexSet),
    /// An operand that matches nothing.
    Missing(String),
    /// There is more to search.
    Searching,
    End,
}

impl Selection {
    /// `users`: uids that the selector names; `None`: every user. `spent` counts visited jobs.
    ///
    /// # Errors
    /// An operand is not a job ID.
    pub fn new(
        sel: &Selector,
        state: &State,
        users: Option<Vec<u32>>,
        spent: &mut u64,
    ) -> Result<Selection, Refusal> {
        let (named, zero) = named_jobs(&sel.ids)?;
        let all = sel.all || zero;
        let mut filter = Filter {
            queue: sel.queue.clone(),
            group: sel.group.clone(),
            name: sel.name.clone(),
            on_host: None,
            users,
        };
        let mut scope = SearchScope::All;
        if !sel.ids.is_empty() && !all {
            scope = SearchScope::Nothing;
        } else if !sel.host.is_empty() {
            let id = state.host_id(&sel.host).into_iter();
            let works = id.flat_map(|id| state.used().started_on(id));
            let mut ids: Vec<u32> = works.map(|(j, _)| j.id).collect();
            ids.sort_unstable();
            ids.dedup();
            *spent += ids.len() as u64;
            filter.on_host = Some(ids.iter().copied().collect());
            scope = SearchScope::Ids(ids);
        } else if let Some([uid]) = filter.users.as_deref() {
            let glob = Glob::new(if sel.name.is_empty() { "*" } else { &sel.name });
            let jobs = state.maybe_named(*uid, &glob).take(AMONG_MAX + 1);
            let mut ids: Vec<u32> = jobs.map(|job| job.id).collect();
            *spent += ids.len() as u64;
            if ids.len() <= AMONG_MAX {
                ids.sort_unstable();
                scope = SearchScope::Ids(ids);
            }
        }
        Ok(Selection {
            named_jobs: named,
            filter,
            scope,
            latest: (sel.ids.is_empty() && !all).then_some(None),
            chosen: None,
            next_index: 0,
            found: false,
        })
    }

    /// Where to continue; to be passed to [`Selection::go_to`] of an equal selection.
    pub fn next_index(&self) -> u32 {
        match (&self.chosen, &self.latest) {
            (Some(id), _) => *id,
            // A search has no side effects, so it may start again.
            (None, Some(_)) => 0,
            (None, None) => self.next_index,
        }
    }

    pub fn go_to(&mut self, at: u32) {
        match self.latest {
            Some(_) if at > 0 => self.choose(at),
            _ => (self.next_index, self.found) = (at, at > 0),
        }
    }

    /// Sets the latest job; nothing follows it.
    fn choose(&mut self, id: u32) {
        self.scope = SearchScope::Nothing;
        (self.named_jobs, self.next_index) = (vec![NamedJobs::Job(id)], 0);
        (self.found, self.chosen) = (true, Some(id));
    }

    /// Whether anything was found.
    pub fn found(&self) -> bool {
        self.found
    }

    /// Moves past the current result.
    pub fn advance(&mut self) {
        self.next_index += 1;
    }

    /// The current result; it stays the same until [`Selection::advance`].
    pub fn current_item(
        &mut self,
        state: &State,
        eligible: &dyn Fn(&Job) -> bool,
        spent: &mut u64,
    ) -> SelectionItem {
        if let Some(named) = self.named_jobs.get(self.next_index as usize) {
            self.found = true;
            return match named {
                NamedJobs::Job(id) if state.job(*id).is_some() => SelectionItem::Whole(*id),
                NamedJobs::Elements(id, set)
                    if state.job(*id).is_some_and(|j| j.array().is_some()) =>
                {
                    SelectionItem::Elements(*id, set.clone())
                }
                NamedJobs::Job(id) => SelectionItem::Missing(id.to_string()),
                NamedJobs::Elements(id, set) => SelectionItem::Missing(format!("{id}[{set}]")),
            };
        }
        let base = self.named_jobs.len() as u32;
        let from = self.next_index - base;
        let mut next = from;
        let mut hit = None;
        let mut look = |job: &Job| {
            *spent += 1;
            next = job.id + 1;
            if self.filter.fits(state, job) && eligible(job) {
                hit = Some(job.id);
            }
            hit.is_some()
        };
        let ended = match &self.scope {
            SearchScope::Nothing => true,
            SearchScope::Ids(ids) => {
                let first = ids.partition_point(|id| *id < from);
                let rest = ids[first..].iter().take(STEP);
                let looked = rest.len();
                let found = rest.filter_map(|id| state.job(*id)).any(&mut look);
                if let (false, Some(last)) = (found, ids[first..].get(looked.wrapping_sub(1))) {
                    next = last + 1;
                }
                !found && looked < STEP
            }
            SearchScope::All => {
                let mut looked = 0;
                let mut rest = state.jobs_in(from..u32::MAX).take(STEP);
                let found = rest.any(|job| {
                    looked += 1;
                    look(job)
                });
                !found && looked < STEP
            }
        };
        match (hit, &mut self.latest) {
            (Some(id), None) => {
                (self.next_index, self.found) = (base + id, true);
                SelectionItem::Whole(id)
            }
            (Some(id), Some(latest)) => {
                (*latest, self.next_index) = (Some(id), base + next);
                SelectionItem::Searching
            }
            (None, _) if !ended => {
                self.next_index = base + next;
                SelectionItem::Searching
            }
            (None, latest) => match latest.as_mut().and_then(Option::take) {
                Some(id) => {
                    self.choose(id);
                    SelectionItem::Whole(id)
                }
                None => SelectionItem::End,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ack::Code;
    use crate::record::request::SignalAction;

    fn verbs(ids: Vec<Vec<String>>) -> Vec<Verb> {
        let of = |ids| Selector {
            ids,
            ..Selector::default()
        };
        let how = SignalAction::Stop;
        ids.into_iter()
            .map(|ids| Verb::Signal { sel: of(ids), how })
            .collect()
    }

    /// A request stays in the box until it is answered: if it exceeded the memory of every leader,
    /// it would end each of them.
    #[test]
    fn ids_name_no_more_than_one_request_may() {
        let all = "5[1-2147483647]".to_owned();
        let many = || (0..101).map(|_| vec!["1[1-1000]".to_owned()]).collect();
        for (ids, want) in [
            (vec![vec![all; 500]], "more than 1000000 jobs and elements"),
            (vec![vec!["5[1-999]".to_owned(); 1002]], "more than 1000000"),
            (vec![vec!["5".to_owned(); 1_000_001]], "more than 1000000"),
            (vec![vec!["5,".repeat(30_000); 200]], "at most 2097152"),
            (
                vec![vec!["1[1-100000]".to_owned()]; 11],
                "more than 1000000",
            ),
            (many(), "more than 100 selections"),
            (vec![Vec::new(); 5], "more than 4 selections of jobs by"),
        ] {
            let verbs = verbs(ids);
            let refusal = check_bounds(verbs.iter(), &State::new()).expect_err(want);
            assert_eq!(refusal.code, Code::Usage);
            assert!(refusal.text.contains(want), "{}", refusal.text);
        }
    }

    #[test]
    fn what_is_named_twice_is_picked_once() {
        let ids = ["7", "5[1-3]", "7", "5[2-9]", "5", "0"].map(str::to_owned);
        let set = IndexSet::from_range(1, 9);
        let want = vec![
            NamedJobs::Job(7),
            NamedJobs::Elements(5, set),
            NamedJobs::Job(5),
        ];
        assert_eq!(named_jobs(&ids).expect("is short"), (want, true));
    }

    #[test]
    fn elements_of_a_job_that_is_unknown_are_one_answer() {
        let sel = Selector {
            ids: vec!["5[1-900000]".into(), "7".into(), "7".into()],
            ..Selector::default()
        };
        let (state, mut spent) = (State::new(), 0);
        let mut picks = Selection::new(&sel, &state, None, &mut spent).expect("is short");
        for want in ["5[1-900000]", "7"] {
            let item = picks.current_item(&state, &|_| true, &mut spent);
            assert_eq!(item, SelectionItem::Missing(want.into()));
            picks.advance();
        }
        assert_eq!(
            picks.current_item(&state, &|_| true, &mut spent),
            SelectionItem::End
        );
    }
}
