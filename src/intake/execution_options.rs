//! Checks what a job requests around and with its command: its job group, copies of files, tasks
//! for each slot, a container.

use super::Refusal;
use crate::config::Config;
use crate::model::{FILE_COPIES_MAX, Spec};
use crate::text::job_group;

/// Checks all of these options. Our clients send valid ones; a forged request may contain anything.
///
/// # Errors
/// Returns the option and its problem.
pub(super) fn check(spec: &Spec, config: &Config) -> Result<(), Refusal> {
    if !spec.job_group.is_empty() {
        job_group::check(&spec.job_group).map_err(|e| Refusal::usage(format!("-g: {e}")))?;
    }
    if spec.files.len() > FILE_COPIES_MAX {
        return Err(Refusal::usage(format!("-f: at most {FILE_COPIES_MAX}")));
    }
    for copy in &spec.files {
        copy.check()
            .map_err(|e| Refusal::usage(format!("-f: {e}")))?;
    }
    if let Some(slurm) = &spec.slurm {
        slurm
            .check()
            .map_err(|e| Refusal::usage(format!("sbatch: {e}")))?;
    }
    if let Some(launch) = &spec.launch {
        let checked = launch.check();
        checked.map_err(|e| Refusal::usage(format!("--launch: {e}")))?;
    }
    if let Some(container) = &spec.container {
        let checked = container.check();
        checked.map_err(|e| Refusal::usage(format!("-di: {e}")))?;
        if config.general.container_runtime.is_none() {
            return Err(Refusal::refused(
                "-di: this cluster runs no containers: container_runtime is not set in cb.yaml",
            ));
        }
        let names = config.general.container_runtime.takes_names();
        if names == container.image.starts_with('/') {
            return Err(Refusal::refused(match names {
                true => "-di: containers are made from images by name here: give the name of one",
                false => "-di: give the directory of an image: /PATH, or ./PATH",
            }));
        }
    }
    if let Some(checkpoint) = &spec.chkpnt {
        let checked = checkpoint.check();
        checked.map_err(|e| Refusal::usage(format!("-k: {e}")))?;
        for (given, option) in [
            (spec.container.is_some(), "-di"),
            (spec.launch.is_some(), "--launch"),
            (spec.session.is_some(), "-I"),
        ] {
            if given {
                return Err(Refusal::usage(format!(
                    "-k cannot be given with {option}: such jobs have no checkpoints"
                )));
            }
        }
    }
    Ok(())
}
