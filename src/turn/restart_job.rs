//! `crestart`: a submission that continues a job from its last checkpoint.
//!
//! Owns which parts of the saved job are copied, and that a job which may still continue itself is
//! refused. The saved job comes from a file of the requester and is not trusted here: the checks
//! that the admission of every job makes apply to it.

use super::clone_job::forget_conditions;
use super::core::Core;
use crate::intake::{self, Refusal, Requester};
use crate::model::{Restart, Submission};

/// Fills in the submission from the saved job. What comes with the request takes precedence.
///
/// # Errors
/// The job has not ended, or an option cannot be changed.
pub(super) fn complete(
    core: &Core,
    requester: &Requester,
    new: &mut Submission,
    of: &Restart,
) -> Result<(), Refusal> {
    refuse_unfinished(core, requester, of)?;
    let spec = intake::changed(&of.old, &new.spec, (&of.set, &[]), &core.config)?;
    let given = std::mem::replace(&mut new.spec, spec);
    let spec = &mut new.spec;
    (spec.env, spec.script) = (given.env, given.script);
    (spec.stdin_blob, spec.params) = (given.stdin_blob, given.params);
    spec.sub_host = given.sub_host;
    spec.session = None;
    forget_conditions(spec, |option| of.set.iter().any(|o| o == option));
    // It was checked when the saved job was submitted.
    new.app_label = true;
    Ok(())
}

/// A job with this id that was submitted at another time is a different job.
fn refuse_unfinished(core: &Core, requester: &Requester, of: &Restart) -> Result<(), Refusal> {
    let job = core.state.job(of.j.id);
    let job =
        job.filter(|job| job.submit == of.t && core.state.spec(job.spec).uid == requester.uid);
    let Some(job) = job else { return Ok(()) };
    let over = job
        .work(of.j.idx)
        .is_some_and(|work| work.stat.is_finished());
    match over {
        true => Ok(()),
        false => Err(Refusal::refused(format!(
            "job {} has not ended: it continues from its checkpoints by itself; cchkpnt -k saves \
             and ends it",
            of.j
        ))),
    }
}
