//! Which jobs a command means: ids, or the other selectors as in LSF (an id wins over them, `0`
//! means all that fit, neither means the latest that fits).

use super::Refusal;
use crate::model::JobKey;
use crate::record::ack::Code;
use crate::record::request::Selector;
use crate::state::{Job, State};
use crate::text::jobids::JobSel;
use rustc_hash::FxHashSet;

/// Most jobs and elements that the ids of one request may name together.
const PICK_MAX: u64 = 1_000_000;
/// Longest the ids of one request may be together: reading overlapping ranges costs more than
/// their elements.
const IDS_BYTES_MAX: usize = 8 << 20;

/// One thing picked: a job (whole, `idx` 0) or an element of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    Job(JobKey),
    /// An operand that names nothing.
    Missing(String, Refusal),
}

/// A name with `*` at either end.
pub struct Glob<'a> {
    text: &'a str,
    front: bool,
    back: bool,
}

impl<'a> Glob<'a> {
    pub fn new(pattern: &'a str) -> Glob<'a> {
        let front = pattern.starts_with('*');
        let text = pattern.strip_prefix('*').unwrap_or(pattern);
        let back = text.ends_with('*');
        let text = text.strip_suffix('*').unwrap_or(text);
        Glob {
            text,
            front: front || pattern == "*",
            back: back || pattern == "*",
        }
    }

    pub fn matches(&self, name: &str) -> bool {
        match (self.front, self.back) {
            (false, false) => name == self.text,
            (true, false) => name.ends_with(self.text),
            (false, true) => name.starts_with(self.text),
            (true, true) => name.contains(self.text),
        }
    }
}

/// Resolves a selector. `uid_of` turns a user name into his uid (`None`: everybody).
///
/// # Errors
/// A refusal when an operand is not a job id at all, when the operands name more than one request
/// may (nothing is done then), or when nothing fits.
pub fn pick(
    sel: &Selector,
    requester: u32,
    state: &State,
    users: Option<&[u32]>,
    eligible: &dyn Fn(&Job) -> bool,
) -> Result<Vec<Pick>, Refusal> {
    let (mut picks, all) = named(sel, state)?;
    if !sel.ids.is_empty() && !all {
        return Ok(picks);
    }
    let glob = (!sel.name.is_empty()).then(|| Glob::new(&sel.name));
    let fits = |job: &&Job| {
        let spec = state.spec(job.spec);
        let user = match users {
            Some(users) => users.contains(&spec.uid),
            None => sel.user == "all" || spec.uid == requester,
        };
        user && (sel.queue.is_empty() || spec.queue == sel.queue)
            && glob.as_ref().is_none_or(|glob| glob.matches(job.name()))
            && (sel.host.is_empty() || runs_on(state, job, &sel.host))
            && eligible(job)
    };
    if all {
        picks.extend(
            state
                .jobs()
                .filter(fits)
                .map(|job| Pick::Job(JobKey::job(job.id))),
        );
    } else {
        let latest = state.jobs().rev().find(|job| fits(job));
        picks.extend(latest.map(|job| Pick::Job(JobKey::job(job.id))));
    }
    if picks.is_empty() {
        return Err(Refusal::new(Code::NotFound, "no matching job found"));
    }
    Ok(picks)
}

/// What the operands name, each thing once, and whether all that fits is meant.
fn named(sel: &Selector, state: &State) -> Result<(Vec<Pick>, bool), Refusal> {
    let bytes: usize = sel.ids.iter().map(String::len).sum();
    if bytes > IDS_BYTES_MAX {
        return Err(Refusal::usage(format!(
            "the job ids have {bytes} bytes, at most {IDS_BYTES_MAX} are allowed in one request: \
             ask in several parts"
        )));
    }
    let mut picks = Vec::new();
    let mut all = sel.all;
    let mut seen = FxHashSet::default();
    let mut count = 0u64;
    for operand in &sel.ids {
        let jobs = JobSel::parse(operand).map_err(|e| Refusal::usage(e.to_string()))?;
        // Counted before anything is made of it, whether it exists or not.
        count = count.saturating_add(match &jobs {
            JobSel::Elements(_, set) => set.len(),
            JobSel::All | JobSel::Job(_) => 1,
        });
        if count > PICK_MAX {
            return Err(Refusal::usage(format!(
                "the ids name more than {PICK_MAX} jobs and elements, the most for one request: \
                 write the id alone for a whole array, or ask in several parts"
            )));
        }
        let mut add = |j: JobKey| {
            if seen.insert(j) {
                picks.push(match state.stat(j) {
                    Some(_) => Pick::Job(j),
                    None => missing(j.to_string()),
                });
            }
        };
        match jobs {
            JobSel::All => all = true,
            JobSel::Job(id) => add(JobKey::job(id)),
            JobSel::Elements(id, set) if state.job(id).is_some_and(|job| job.array().is_some()) => {
                set.iter().for_each(|idx| add(JobKey::element(id, idx)));
            }
            JobSel::Elements(..) => picks.push(missing(operand.clone())),
        }
    }
    Ok((picks, all))
}

fn missing(operand: String) -> Pick {
    let refusal = Refusal::new(Code::NotFound, "no matching job found");
    Pick::Missing(operand, refusal)
}

fn runs_on(state: &State, job: &Job, host: &str) -> bool {
    let Some(id) = state.host_id(host) else {
        return false;
    };
    state.used().work_on(id).any(|(j, _)| j.id == job.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_at_either_end() {
        for (pattern, name, want) in [
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*b*", "abc", true),
            ("b", "abc", false),
            ("*", "", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), want, "{pattern} {name}");
        }
    }

    fn of(ids: Vec<String>) -> Result<Vec<Pick>, Refusal> {
        let sel = Selector {
            ids,
            ..Selector::default()
        };
        pick(&sel, 0, &State::new(), None, &|_| true)
    }

    /// A request stays in the box until it was answered: one that no leader has the memory for
    /// would end each of them.
    #[test]
    fn ids_name_no_more_than_one_request_may() {
        let all = "5[1-2147483647]".to_owned();
        for (ids, want) in [
            (vec![all; 500], "more than 1000000 jobs and elements"),
            (vec!["5[1-999]".to_owned(); 1002], "more than 1000000"),
            (vec!["5".to_owned(); 1_000_001], "more than 1000000"),
            (vec!["5,".repeat(30_000); 200], "at most 8388608"),
        ] {
            let refusal = of(ids).expect_err(want);
            assert_eq!(refusal.code, Code::Usage);
            assert!(refusal.text.contains(want), "{}", refusal.text);
        }
    }

    #[test]
    fn elements_of_a_job_that_is_unknown_are_one_answer() {
        let picks = of(vec!["5[1-900000]".into(), "7".into(), "7".into()]).expect("is short");
        assert_eq!(picks, ["5[1-900000]", "7"].map(|p| missing(p.to_owned())));
    }
}
