//! Which jobs a command means: ids, or the other selectors as in LSF (an id wins over them, `0`
//! means all that fit, neither means the latest that fits).

use super::Refusal;
use crate::model::JobKey;
use crate::record::ack::Code;
use crate::record::request::Selector;
use crate::state::{Job, State};
use crate::text::jobids::JobSel;

/// Most jobs or elements one request may act on.
pub const PICK_MAX: usize = 1_000_000;

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
/// A refusal when an operand is not a job id at all or a selector names an unknown user.
pub fn pick(
    sel: &Selector,
    requester: u32,
    state: &State,
    users: Option<&[u32]>,
    eligible: &dyn Fn(&Job) -> bool,
) -> Result<Vec<Pick>, Refusal> {
    let mut picks = Vec::new();
    let mut all = sel.all;
    for operand in &sel.ids {
        match JobSel::parse(operand).map_err(|e| Refusal::usage(e.to_string()))? {
            JobSel::All => all = true,
            JobSel::Job(id) => picks.push(one(state, JobKey::job(id), operand)),
            JobSel::Elements(id, set) => {
                for idx in set.iter().take(PICK_MAX) {
                    let j = JobKey::element(id, idx);
                    picks.push(one(state, j, &j.to_string()));
                }
            }
        }
    }
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

fn one(state: &State, j: JobKey, operand: &str) -> Pick {
    match state.stat(j) {
        Some(_) => Pick::Job(j),
        None => {
            let refusal = Refusal::new(Code::NotFound, "no matching job found");
            Pick::Missing(operand.to_owned(), refusal)
        }
    }
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
}
