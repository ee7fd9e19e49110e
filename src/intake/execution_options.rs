//! Checks what a job requests around and with its command: its job group, copies of files, tasks
//! for each slot, a container.

use super::Refusal;
use crate::config::Config;
use crate::model::{Container, ContainerRuntime, FILE_COPIES_MAX, Spec};
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
    if let Some(own) = &spec.container {
        container(own, config.general.container_runtime)?;
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

/// Checks that the runtime of the cluster can run the container.
fn container(container: &Container, runtime: ContainerRuntime) -> Result<(), Refusal> {
    let option = match container.apptainer {
        true => "-Si",
        false => "-di",
    };
    let checked = container.check();
    checked.map_err(|e| Refusal::usage(format!("{option}: {e}")))?;
    if runtime.is_none() {
        return Err(Refusal::refused(format!(
            "{option}: this cluster runs no containers: container_runtime is not set in cb.yaml"
        )));
    }
    let is_apptainer = runtime == ContainerRuntime::Apptainer;
    if container.apptainer && !is_apptainer {
        return Err(Refusal::refused(
            "-Si: this cluster does not run Apptainer: container_runtime of cb.yaml selects \
             another runtime, for which there are -di and -do",
        ));
    }
    if !runtime.takes(&container.image) {
        return Err(Refusal::refused(match runtime {
            ContainerRuntime::Podman | ContainerRuntime::Docker => {
                "-di: this cluster starts containers from images by name: give the name of an \
                 image"
                    .to_owned()
            }
            ContainerRuntime::Apptainer => format!(
                "{option}: give the file or directory of an image, /PATH or ./PATH, or an address: \
                 docker://, library:// or oras://"
            ),
            _ => "-di: give the directory of an image: /PATH, or ./PATH".to_owned(),
        }));
    }
    match container.own_group_option().filter(|_| is_apptainer) {
        Some(word) => Err(Refusal::refused(format!(
            "{option}: option {word} would give the container a control group beside the job's: \
             limits are options of csub, such as -M and -p"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(image: &str, options: &[&str], apptainer: bool, runtime: ContainerRuntime) -> String {
        let own = Container {
            image: image.to_owned(),
            options: options.iter().map(|word| (*word).to_owned()).collect(),
            apptainer,
        };
        container(&own, runtime).map_or_else(|e| e.text, |()| String::new())
    }

    #[test]
    fn a_container_of_apptainer_needs_that_runtime() {
        let of = |runtime| said("/i", &[], true, runtime);
        assert_eq!(of(ContainerRuntime::Apptainer), "");
        for other in [ContainerRuntime::Bubblewrap, ContainerRuntime::Podman] {
            assert!(of(other).contains("-Si: this cluster does not run Apptainer"));
        }
        assert!(of(ContainerRuntime::None).starts_with("-Si: this cluster runs no containers"));
    }

    #[test]
    fn apptainer_takes_paths_and_addresses_and_no_group_of_its_own() {
        let of = |image, options: &[&str]| said(image, options, false, ContainerRuntime::Apptainer);
        assert_eq!(of("/i/a.sif", &["--nv"]), "");
        assert_eq!(of("docker://debian:12", &[]), "");
        assert!(of("debian:12", &[]).contains("-di: give the file or directory"));
        assert!(of("/i", &["--cpus", "2"]).contains("option --cpus would give"));
        // Podman's option of this name is not refused.
        let podman = said(
            "debian:12",
            &["--cpus", "2"],
            false,
            ContainerRuntime::Podman,
        );
        assert_eq!(podman, "");
    }
}
