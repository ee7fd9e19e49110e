//! Converts file paths in a job template, `[host]:path` with the standard's placeholders, to the
//! form of `csub`. Pure: the caller answers whether a path is a directory.

use std::path::{Path, PathBuf};

/// The index of an array's element, anywhere in a path.
pub(crate) const INDEX: &str = "$drmaa_incr_ph$";
/// The user's home directory and the job's working directory, at the beginning.
pub(crate) const HOME: &str = "$drmaa_hd_ph$";
pub(crate) const WORK: &str = "$drmaa_wd_ph$";

/// What a path is resolved against.
pub(crate) struct PathContext<'a> {
    /// This host, by its name in the cluster.
    pub(crate) host: &'a str,
    /// The user's home directory.
    pub(crate) home: &'a Path,
    /// The directory in which relative paths start.
    pub(crate) work_dir: PathBuf,
    /// Several jobs are submitted at once.
    pub(crate) bulk: bool,
    pub(crate) is_directory: &'a dyn Fn(&Path) -> bool,
}

/// The purpose of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathUse {
    Input,
    Output,
    Error,
}

/// The two parts of `[host]:path`.
///
/// # Errors
/// Returns what the text lacks.
pub(crate) fn split(text: &str) -> Result<(&str, &str), String> {
    let parts = text.split_once(':').filter(|(_, path)| !path.is_empty());
    parts.ok_or_else(|| format!("'{text}' is not of the form [host]:path"))
}

/// Rejects a host other than this one: files are opened where the job runs, on file systems that
/// all hosts share, and nothing is copied.
///
/// # Errors
/// Returns a message that names the host.
pub(crate) fn check_host(host: &str, own: &str) -> Result<(), String> {
    match host {
        "" | "localhost" => Ok(()),
        host if host == own => Ok(()),
        host => Err(format!(
            "the host '{host}' is not supported: jobs open their files where they run, and no \
             file is copied; write ':path'"
        )),
    }
}

/// The path for an option of `csub`, in which `%J` and `%I` denote the job and the index.
///
/// # Errors
/// A placeholder that has no meaning at its place; input that is a directory.
pub(crate) fn for_csub(
    text: &str,
    what: PathUse,
    around: &PathContext<'_>,
) -> Result<String, String> {
    let (host, path) = split(text)?;
    check_host(host, around.host)?;
    let (front, rest) = placeholder_value(path, around)?;
    if [HOME, WORK].iter().any(|mark| rest.contains(mark)) {
        return Err(format!(
            "'{text}': {HOME} and {WORK} are only allowed at the beginning of a path"
        ));
    }
    if rest.contains(INDEX) && !around.bulk {
        return Err(format!("'{text}': {INDEX} is only allowed in bulk jobs"));
    }
    let ready = format!("{front}{}", rest.replace('%', "%%").replace(INDEX, "%I"));
    // A name that contains an index is not known before its job starts.
    let is_directory = || !rest.contains(INDEX) && (around.is_directory)(&directory(path, around));
    if !rest.ends_with('/') && !is_directory() {
        return Ok(ready);
    }
    let end = match what {
        PathUse::Input => return Err(format!("'{text}' is a directory")),
        PathUse::Output => "out",
        PathUse::Error => "err",
    };
    let index = if around.bulk { ".%I" } else { "" };
    let slash = if ready.ends_with('/') { "" } else { "/" };
    Ok(format!("{ready}{slash}%J{index}.{end}"))
}

/// The value of the placeholder at the beginning, and the rest.
fn placeholder_value<'p>(
    path: &'p str,
    around: &PathContext<'_>,
) -> Result<(String, &'p str), String> {
    if let Some(rest) = path.strip_prefix(HOME) {
        let home = around
            .home
            .to_str()
            .ok_or("the home directory is not UTF-8")?;
        return Ok((home.replace('%', "%%"), rest));
    }
    // Relative paths start in the job's working directory.
    Ok(match path.strip_prefix(WORK) {
        Some(rest) => (".".to_owned(), rest),
        None => (String::new(), path),
    })
}

/// The directory to which a path without an index leads, as seen from here.
fn directory(path: &str, around: &PathContext<'_>) -> PathBuf {
    if let Some(rest) = path.strip_prefix(HOME) {
        return around.home.join(rest.trim_start_matches('/'));
    }
    match path.strip_prefix(WORK) {
        Some(rest) => around.work_dir.join(rest.trim_start_matches('/')),
        None => around.work_dir.join(path),
    }
}

/// The working directory of a template.
///
/// # Errors
/// A placeholder that has no meaning there.
pub(crate) fn working_directory(text: &str, home: &Path) -> Result<PathBuf, String> {
    let (front, rest) = match text.strip_prefix(HOME) {
        Some(rest) => (Some(home), rest),
        None => (None, text),
    };
    if rest.contains(INDEX) {
        return Err(format!(
            "'{text}': {INDEX} is not possible in a working directory: all jobs of an array have \
             the same one"
        ));
    }
    if [HOME, WORK].iter().any(|mark| rest.contains(mark)) || text.is_empty() {
        return Err(format!("'{text}' is not the path of a working directory"));
    }
    Ok(match front {
        Some(home) => home.join(rest.trim_start_matches('/')),
        None => PathBuf::from(rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str, bulk: bool) -> Result<String, String> {
        let is_directory = |p: &Path| p == Path::new("/w/logs") || p == Path::new("/u%/a/d");
        let around = PathContext {
            host: "h1",
            home: Path::new("/u%/a"),
            work_dir: PathBuf::from("/w"),
            bulk,
            is_directory: &is_directory,
        };
        for_csub(text, PathUse::Output, &around)
    }

    #[test]
    fn placeholders_become_what_csub_knows() {
        for (text, bulk, want) in [
            (":/tmp/x", false, "/tmp/x"),
            ("h1:/tmp/100%J", false, "/tmp/100%%J"),
            (":$drmaa_hd_ph$/o", false, "/u%%/a/o"),
            (":$drmaa_wd_ph$/o.$drmaa_incr_ph$", true, "./o.%I"),
            (":logs", false, "logs/%J.out"),
            (":logs", true, "logs/%J.%I.out"),
            (":$drmaa_hd_ph$/d", false, "/u%%/a/d/%J.out"),
            (":new/", false, "new/%J.out"),
            (":a:b", false, "a:b"),
        ] {
            assert_eq!(path(text, bulk).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for (text, why) in [
            ("/tmp/x", "not of the form"),
            (":", "not of the form"),
            ("other:/x", "the host 'other'"),
            (":/x/$drmaa_hd_ph$", "at the beginning"),
            (":/x.$drmaa_incr_ph$", "only allowed in bulk jobs"),
        ] {
            let text = path(text, false).expect_err(text);
            assert!(text.contains(why), "{text}");
        }
        let home = Path::new("/u");
        assert_eq!(
            working_directory("$drmaa_hd_ph$/x", home),
            Ok("/u/x".into())
        );
        assert_eq!(working_directory("/w", home), Ok("/w".into()));
        for bad in ["", "/w/$drmaa_incr_ph$", "/w/$drmaa_hd_ph$"] {
            assert!(working_directory(bad, home).is_err(), "{bad}");
        }
    }
}
