//! The container of a job: `-di` and `-do` for any runtime, `-Si`, `-So` and `-Sb` for Apptainer.
//!
//! Checks the form of these options; the leader checks whether the cluster has that runtime.

use super::options::JobOptions;
use super::spec::{ParseContext, file, invalid_value, path_text, without_current_dirs};
use crate::client::exit::{Fail, Result};
use crate::model::{Container, is_image_address, is_image_name};
use crate::text::command::split_words;

/// The options that describe a container: how its image and the options of its runtime are given.
struct Family {
    image: &'static str,
    options: &'static str,
    /// The option that binds paths, if it has one.
    binds: Option<&'static str>,
}

const ANY: Family = Family {
    image: "di",
    options: "do",
    binds: None,
};

const APPTAINER: Family = Family {
    image: "Si",
    options: "So",
    binds: Some("Sb"),
};

/// The container that the options request.
///
/// # Errors
/// An option that is wrong, or that has no effect because there is no image.
pub(super) fn of(options: &JobOptions, context: &ParseContext<'_>) -> Result<Option<Container>> {
    let mut found = None;
    for family in [&ANY, &APPTAINER] {
        let with_image = [Some(family.options), family.binds];
        let image = options.get(family.image);
        match (
            image,
            with_image.into_iter().flatten().find(|id| options.has(id)),
        ) {
            (Some(image), _) => found = Some((family, image)),
            (None, Some(id)) => {
                let image = family.image;
                return Err(Fail::usage(format!("-{id} has no effect without -{image}")));
            }
            (None, None) => {}
        }
    }
    found
        .map(|(family, image)| container(family, image, options, context))
        .transpose()
}

fn container(
    family: &Family,
    image: &str,
    job_options: &JobOptions,
    context: &ParseContext<'_>,
) -> Result<Container> {
    let id = family.image;
    let apptainer = family.binds.is_some();
    let is_name = match apptainer {
        true => is_image_address(image),
        false => is_image_name(image),
    };
    if apptainer && !is_name && image.contains("://") {
        return Err(Fail::usage(format!(
            "-{id}: {image:?} is not the address of an image: docker://, library:// or oras://"
        )));
    }
    let image = match is_name {
        true => image.to_owned(),
        false => path_text(&without_current_dirs(&context.cwd.join(file(id, image)?)))?,
    };
    let mut options = Vec::new();
    if let Some(text) = family.binds.and_then(|id| job_options.get(id)) {
        check_binds(text)?;
        options.extend(["--bind".to_owned(), text.to_owned()]);
    }
    let text = job_options.get(family.options).unwrap_or_default();
    options.extend(split_words(text).map_err(|e| invalid_value(family.options, text, &e))?);
    let container = Container {
        image,
        options,
        apptainer,
    };
    container
        .check()
        .map_err(|e| Fail::usage(format!("-{id}: {e}")))?;
    Ok(container)
}

/// Checks a list of `SRC[:DST[:ro]]`. Paths are absolute: the job runs in another directory than
/// csub.
fn check_binds(text: &str) -> Result<()> {
    for bind in text.split(',') {
        let parts: Vec<&str> = bind.split(':').collect();
        let paths = &parts[..parts.len().min(2)];
        let absolute = paths.iter().all(|path| path.starts_with('/'));
        let mode = parts.get(2).is_none_or(|mode| ["ro", "rw"].contains(mode));
        if !(absolute && mode && parts.len() <= 3) {
            return Err(Fail::usage(format!(
                "-Sb: {bind:?} is not /SRC, /SRC:/DST, /SRC:/DST:ro or /SRC:/DST:rw"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[(&str, &str)]) -> Result<Option<Container>> {
        let context = ParseContext {
            now_ms: 0,
            cwd: std::path::Path::new("/w"),
            umask: 0,
            host: "",
            default_queue: "",
            default_project: "",
            unit: &|| crate::text::size::Unit::M,
        };
        let mut options = JobOptions::default();
        for (id, value) in words {
            options.add(id, value);
        }
        of(&options, &context)
    }

    #[test]
    fn an_image_of_apptainer_is_a_path_or_an_address() {
        let image = |text| read(&[("Si", text)]).map(|c| c.unwrap().image);
        assert_eq!(image("a.sif").unwrap(), "/w/a.sif");
        assert_eq!(image("../i/a").unwrap(), "/w/../i/a");
        assert_eq!(image("docker://debian:12").unwrap(), "docker://debian:12");
        for bad in ["instance://x", "docker://a b", ""] {
            assert!(image(bad).is_err(), "{bad:?}");
        }
        // With -di, a word without a slash at its beginning is a name.
        let any = read(&[("di", "a.sif")]).unwrap().unwrap();
        assert_eq!((any.image.as_str(), any.apptainer), ("a.sif", false));
    }

    #[test]
    fn binds_and_options_need_an_image_of_their_own_kind() {
        let all = [("Si", "/i"), ("So", "--nv 'a b'"), ("Sb", "/d,/e:/f:ro")];
        let found = read(&all).unwrap().unwrap();
        assert_eq!(found.options, ["--bind", "/d,/e:/f:ro", "--nv", "a b"]);
        assert!(found.apptainer);
        for (words, why) in [
            (&[("So", "--nv")][..], "-So has no effect without -Si"),
            (&[("Sb", "/d")], "-Sb has no effect without -Si"),
            (&[("do", "--nv")], "-do has no effect without -di"),
            (
                &[("di", "/i"), ("Sb", "/d")],
                "-Sb has no effect without -Si",
            ),
            (
                &[("Si", "/i"), ("do", "--nv")],
                "-do has no effect without -di",
            ),
            (
                &[("Si", "/i"), ("di", "/i"), ("So", "x")],
                "-So has no effect",
            ),
        ] {
            let message = read(words).unwrap_err().text;
            assert!(message.contains(why), "{words:?}: {message}");
        }
    }

    #[test]
    fn binds_have_absolute_paths_and_a_known_mode() {
        for good in ["/a", "/a:/b", "/a:/b:ro", "/a,/b:/c:rw,/d"] {
            check_binds(good).unwrap();
        }
        for bad in ["", "a", "/a:b", "/a:/b:no", "/a:/b:ro:x", "/a,", "/a::ro"] {
            assert!(check_binds(bad).is_err(), "{bad:?}");
        }
    }
}
