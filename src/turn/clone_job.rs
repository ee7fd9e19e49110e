//! `csub --clone`: a submission that repeats a known job with some options changed.
//!
//! Owns which parts of the job are copied. Does not repeat the checks that the admission of every
//! job makes.

use super::core::Core;
use crate::intake::{self, Refusal, Requester};
use crate::model::{CloneOf, JobStat, Spec, Submission};
use crate::record::ack::Code;
use crate::state::{Body, Job};
use crate::text::indexset::{IndexSet, MAX_INDEX};

/// Fills in the submission from the job that it repeats. What comes with the request, such as its
/// environment, is already in the submission and takes precedence.
///
/// # Errors
/// There is no such job, it is not the requester's, or an option cannot be changed.
pub(super) fn complete(
    core: &Core,
    requester: &Requester,
    new: &mut Submission,
    of: &CloneOf,
) -> Result<(), Refusal> {
    let id = of.id;
    let job = core.state.job(id).ok_or_else(|| {
        let text = format!(
            "--clone: job {id} is not known; finished jobs are kept for \
            clean_period"
        );
        Refusal::new(Code::NotFound, text)
    })?;
    let mut old = Spec::clone(core.state.spec(job.spec));
    if old.uid != requester.uid {
        let owner = &old.user;
        return Err(Refusal::permission(format!(
            "permission denied: job {id} belongs to {owner}, only the owner may clone it"
        )));
    }
    if let Some(chkpnt) = &mut old.chkpnt {
        // A job that continued from a checkpoint is repeated from its start.
        chkpnt.from.clear();
    }
    let has = |option: &str| of.set.iter().any(|o| o == option);
    let options: Vec<String> = of.set.iter().filter(|o| !is_of_job(o)).cloned().collect();
    let spec = intake::changed(&old, &new.spec, (&options, &[]), &core.config)?;
    new.app_label = !has("app");
    let given = std::mem::replace(&mut new.spec, spec);
    take_attachments(&mut new.spec, given, has("Z"), has("i"));
    if has_started(job) {
        forget_conditions(&mut new.spec, has);
    }
    if !has("Z") {
        new.command = job.command.to_string();
    }
    if !has("J") {
        new.name = job.name.as_deref().unwrap_or_default().to_owned();
    }
    take_elements(new, job, of)
}

/// Removes the conditions that delayed a job that has started, except those of given options.
pub(super) fn forget_conditions(spec: &mut Spec, has: impl Fn(&str) -> bool) {
    for (option, forget) in [
        ("w", (|s: &mut Spec| s.depend.clear()) as fn(&mut Spec)),
        ("b", |s| s.begin = None),
        ("t", |s| s.deadline = None),
        ("start-timeout", |s| s.start_by = None),
    ] {
        if !has(option) {
            forget(spec);
        }
    }
}

/// Whether the option changes a part of a [`Submission`] other than its specification.
fn is_of_job(option: &str) -> bool {
    matches!(option, "J" | "Z" | "is")
}

/// `given`: the specification of the request, with its attachments. `new_command`: another command
/// is given; `new_input`: another input is given.
fn take_attachments(spec: &mut Spec, given: Spec, new_command: bool, new_input: bool) {
    if !given.env.is_empty() {
        spec.env = given.env;
    }
    if new_command {
        (spec.script, spec.shell) = (given.script, given.shell);
    }
    if !given.stdin_blob.is_empty() {
        (spec.stdin_blob, spec.stdin) = (given.stdin_blob, String::new());
    } else if new_input {
        spec.stdin_blob.clear();
    }
    if !given.params.is_empty() {
        spec.params = given.params;
    }
    spec.sub_host = given.sub_host;
    spec.session = None;
}

/// The elements requested by `-J` or by the operand, or all elements of the job.
fn take_elements(new: &mut Submission, job: &Job, of: &CloneOf) -> Result<(), Refusal> {
    let Body::Array(array) = &job.body else {
        return match of.elements.is_empty() {
            true => Ok(()),
            false => Err(no_element(of)),
        };
    };
    if !of.elements.is_empty() {
        let set = IndexSet::parse(&of.elements, 1, MAX_INDEX).map_err(|_| no_element(of))?;
        if set.is_empty() || !set.iter().all(|idx| array.all.contains(idx)) {
            return Err(no_element(of));
        }
    }
    if new.array.is_empty() {
        new.array = match of.elements.is_empty() {
            true => array.all.to_string(),
            false => of.elements.clone(),
        };
    }
    if new.array_limit == 0 {
        new.array_limit = array.limit;
    }
    Ok(())
}

fn no_element(of: &CloneOf) -> Refusal {
    let text = format!("--clone: job {} has no elements [{}]", of.id, of.elements);
    Refusal::new(Code::NotFound, text)
}

fn has_started(job: &Job) -> bool {
    match &job.body {
        Body::Single(work) => !matches!(work.stat, JobStat::Pend | JobStat::Psusp),
        Body::Array(array) => !array.work.is_empty(),
    }
}
