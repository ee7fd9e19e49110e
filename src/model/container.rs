//! The container of a job (`csub -di`, `-Si`), as data, and the runtimes of containers.

use serde::{Deserialize, Serialize};

/// Maximum length of the path of an image, and of all options together, in bytes.
const TEXT_MAX: usize = 4095;

/// The runtime of containers (`container_runtime` of cb.yaml).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerRuntime {
    /// None: jobs with containers are refused.
    #[default]
    None,
    Bubblewrap,
    Charliecloud,
    /// Images by name; never as root.
    Podman,
    /// Images by name; only for users with access to its daemon, which is root.
    Docker,
    /// Images as files, as directories or by address.
    Apptainer,
}

impl ContainerRuntime {
    /// All, with their names in cb.yaml.
    pub const ALL: [(&'static str, ContainerRuntime); 6] = [
        ("none", ContainerRuntime::None),
        ("bubblewrap", ContainerRuntime::Bubblewrap),
        ("charliecloud", ContainerRuntime::Charliecloud),
        ("podman", ContainerRuntime::Podman),
        ("docker", ContainerRuntime::Docker),
        ("apptainer", ContainerRuntime::Apptainer),
    ];

    pub fn is_none(&self) -> bool {
        *self == ContainerRuntime::None
    }

    /// Whether it finds an image that is given as `image`.
    pub fn takes(self, image: &str) -> bool {
        let is_path = image.starts_with('/');
        match self {
            ContainerRuntime::Podman | ContainerRuntime::Docker => !is_path,
            ContainerRuntime::Apptainer => is_path || is_address(image),
            _ => is_path,
        }
    }
}

/// The container that a job requests.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Container {
    /// Directory with a root file system or file of an image on the execution host, or the name of
    /// an image.
    pub image: String,
    /// Options for the runtime.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Specified by `-Si`: only for Apptainer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub apptainer: bool,
}

impl Container {
    /// Checks values that our clients never send.
    ///
    /// # Errors
    /// The problem.
    pub fn check(&self) -> Result<(), String> {
        let options: usize = self.options.iter().map(|word| word.len() + 1).sum();
        let control = |text: &String| text.contains(char::is_control);
        let is_path = self.image.starts_with('/') && !control(&self.image);
        if self.image.len() > TEXT_MAX || !(is_path || is_name(&self.image)) {
            return Err(format!(
                "an image is the path of a directory or file or the name of an image, of at most \
                 {TEXT_MAX} printable bytes"
            ));
        }
        if options > TEXT_MAX || self.options.iter().any(control) {
            return Err(format!("options have at most {TEXT_MAX} printable bytes"));
        }
        Ok(())
    }

    /// The option with which Apptainer would give the container a control group of its own, beside
    /// the job's: limits, signals and accounting of the job would not reach it.
    pub fn own_group_option(&self) -> Option<&str> {
        let own = |word: &&str| {
            let (name, _) = word.split_once('=').unwrap_or((word, ""));
            APPTAINER_GROUPS.contains(&name)
        };
        self.options.iter().map(String::as_str).find(own)
    }
}

/// Options of Apptainer that need a control group of the container.
pub const APPTAINER_GROUPS: [&str; 12] = [
    "--apply-cgroups",
    "--blkio-weight",
    "--blkio-weight-device",
    "--cpu-shares",
    "--cpus",
    "--cpuset-cpus",
    "--cpuset-mems",
    "--memory",
    "--memory-reservation",
    "--memory-swap",
    "--oom-kill-disable",
    "--pids-limit",
];

/// Whether `text` is an address from which Apptainer fetches an image. Others, as that of a running
/// instance, are not images.
pub fn is_address(text: &str) -> bool {
    let kinds = ["docker://", "library://", "oras://"];
    let name = kinds.iter().find_map(|kind| text.strip_prefix(kind));
    name.is_some_and(is_name)
}

/// Whether `text` is the name of an image in the form of registries, and not an option.
pub fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_path_and_options_are_bounded() {
        let of = |image: &str, options: Vec<String>| {
            let container = Container {
                image: image.to_owned(),
                options,
                apptainer: false,
            };
            container.check()
        };
        of("/i", vec!["--x".into()]).unwrap();
        of("docker.io/library/debian:12", vec![]).unwrap();
        for bad in ["", "/i\n", "./i", "-v", "a b", "a$x"] {
            assert!(of(bad, vec![]).is_err(), "{bad:?}");
        }
        assert!(of("/i", vec!["x".repeat(5000)]).is_err() && of("/i", vec!["\0".into()]).is_err());
    }

    #[test]
    fn each_runtime_takes_its_own_kinds_of_images() {
        let taken = |image: &str| {
            let all = ContainerRuntime::ALL.iter().skip(1);
            let own = all.filter(|(_, runtime)| runtime.takes(image));
            own.map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(taken("/i/a.sif"), "bubblewrap charliecloud apptainer");
        assert_eq!(taken("debian:12"), "podman docker");
        for uri in ["docker://debian:12", "library://a/b", "oras://h/a"] {
            assert_eq!(taken(uri), "podman docker apptainer", "{uri}");
        }
        for other in ["instance://x", "docker://-x", "docker://", "a.sif"] {
            assert!(!ContainerRuntime::Apptainer.takes(other), "{other}");
        }
    }

    #[test]
    fn options_that_take_a_container_out_of_the_jobs_group_are_found() {
        let of = |words: &[&str]| {
            let container = Container {
                options: words.iter().map(|word| (*word).to_owned()).collect(),
                ..Container::default()
            };
            container.own_group_option().map(str::to_owned)
        };
        assert_eq!(of(&["--nv", "--bind", "/memory"]), None);
        let found = of(&["--nv", "--memory=1G"]);
        assert_eq!(found.as_deref(), Some("--memory=1G"));
        let found = of(&["--apply-cgroups", "x.toml"]);
        assert_eq!(found.as_deref(), Some("--apply-cgroups"));
    }
}
