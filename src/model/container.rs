//! The container of a job (`csub -di`), as data, and the runtimes of containers.

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
}

impl ContainerRuntime {
    pub fn is_none(&self) -> bool {
        *self == ContainerRuntime::None
    }

    /// Whether an image is given by name instead of by directory.
    pub fn takes_names(self) -> bool {
        matches!(self, ContainerRuntime::Podman | ContainerRuntime::Docker)
    }
}

/// The container that a job requests.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Container {
    /// Directory with a root file system on the execution host, or the name of an image.
    pub image: String,
    /// Options for the runtime.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
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
                "an image is the path of a directory or the name of an image, of at most \
                 {TEXT_MAX} printable bytes"
            ));
        }
        if options > TEXT_MAX || self.options.iter().any(control) {
            return Err(format!("options have at most {TEXT_MAX} printable bytes"));
        }
        Ok(())
    }
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
            let image = image.to_owned();
            Container { image, options }.check()
        };
        of("/i", vec!["--x".into()]).unwrap();
        of("docker.io/library/debian:12", vec![]).unwrap();
        for bad in ["", "/i\n", "./i", "-v", "a b", "a$x"] {
            assert!(of(bad, vec![]).is_err(), "{bad:?}");
        }
        assert!(of("/i", vec!["x".repeat(5000)]).is_err() && of("/i", vec!["\0".into()]).is_err());
    }
}
