//! `crestart`: a submission that takes up a job where its last checkpoint left it.
//!
//! Owns what of the saved job is taken over, and that a job which may go on itself is not taken up.
//! The saved job comes from a file of the requester: nothing of it is believed here, and the
//! admission of every job checks it.

use super::clone_job::forget_conditions;
use super::core::Core;
use crate::intake::{self, Refusal, Requester};
use crate::model::{Restart, Submission};

/// Fills in the submission from the saved job. What travels with the request counts as it is.
///
/// # Errors
/// The job has not ended, or an option cannot be changed.
pub(super) fn complete(
    core: &Core,
    who: &Requester,
    new: &mut Submission,
    of: &Restart,
) -> Result<(), Refusal> {
    refuse_unfinished(core, who, of)?;
    let spec = intake::changed(&of.old, &new.spec, (&of.set, &[]), &core.config)?;
    let given = std::mem::replace(&mut new.spec, spec);
    let spec = &mut new.spec;
    (spec.env, spec.script) = (given.env, given.script);
    (spec.stdin_blob, spec.params) = (given.stdin_blob, given.params);
    spec.sub_host = given.sub_host;
    spec.session = None;
    forget_conditions(spec, |option| of.set.iter().any(|o| o == option));
    // It was checked when the saved job came.
    new.app_label = true;
    Ok(())
}

/// A job of this ID that was submitted at another time is another job.
fn refuse_unfinished(core: &Core, who: &Requester, of: &Restart) -> Result<(), Refusal> {
    let job = core.state.job(of.j.id);
    let job = job.filter(|job| job.submit == of.t && core.state.spec(job.spec).uid == who.uid);
    let Some(job) = job else { return Ok(()) };
    let over = job
        .work(of.j.idx)
        .is_some_and(|work| work.stat.is_finished());
    match over {
        true => Ok(()),
        false => Err(Refusal::refused(format!(
            "job {} has not ended: it goes on from its checkpoints itself; cchkpnt -k saves and \
             ends it",
            of.j
        ))),
    }
}
