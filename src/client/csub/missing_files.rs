//! Files and directories of a job that this host does not have: the submitter is warned, and the
//! leader learns of it and then does not ask a second host. Only what can be known here is looked
//! up: not a path that contains the job's id or index.

use crate::model::Spec;
use crate::sys::fs::{self, Kind};
use std::path::{Path, PathBuf};

/// Looks up what the job needs and notes in the specification whether something is missing. Returns
/// the warning for it. What other jobs may create until its dependency is met is not looked up.
pub(super) fn note(spec: &mut Spec) -> Option<String> {
    if !spec.depend.is_empty() {
        return None;
    }
    let missing = missing(spec)?;
    spec.unseen = true;
    let (option, path) = (missing.option, missing.path.display());
    Some(format!(
        "warning: {option}: this host has no {path}: on a host without it the job cannot start"
    ))
}

/// What a job needs and this host lacks.
#[derive(Debug, PartialEq)]
struct Missing {
    option: &'static str,
    path: PathBuf,
}

/// The first thing that is missing.
fn missing(spec: &Spec) -> Option<Missing> {
    let cwd = Path::new(&spec.cwd);
    if spec.cwd_create || is_pattern(&spec.cwd) {
        return None;
    }
    let (input, outputs) = (&spec.stdin, [("-o", &spec.stdout), ("-e", &spec.stderr)]);
    if !has_dir(cwd) {
        return Some(Missing {
            option: "-cwd",
            path: cwd.to_path_buf(),
        });
    }
    for (option, file) in outputs {
        let path = cwd.join(file);
        let dir = path.parent().unwrap_or(cwd);
        if !file.is_empty() && !is_pattern(&dir.to_string_lossy()) && !has_dir(dir) {
            let path = dir.to_path_buf();
            return Some(Missing { option, path });
        }
    }
    let path = cwd.join(input);
    let is_known = !input.is_empty() && !is_pattern(input);
    (is_known && fs::stat(&path).is_ok_and(|found| found.is_none()))
        .then_some(Missing { option: "-i", path })
}

/// Whether a path contains the job's id or index, or another word that its host replaces.
fn is_pattern(path: &str) -> bool {
    path.contains('%')
}

/// Whether the directory exists; one that cannot be looked up may.
fn has_dir(dir: &Path) -> bool {
    fs::stat(dir).map_or(true, |found| {
        found.is_some_and(|found| found.kind == Kind::Dir)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_here_is_named_unless_it_cannot_be_known() {
        let d = tempfile::tempdir().unwrap();
        let dir = d.path().to_str().unwrap();
        std::fs::write(d.path().join("in"), "").unwrap();
        let missing = |cwd: &str, stdin: &str, stdout: &str, stderr: &str| {
            let found = missing(&Spec {
                cwd: cwd.into(),
                stdin: stdin.into(),
                stdout: stdout.into(),
                stderr: stderr.into(),
                ..Spec::default()
            });
            found.map(|found| (found.option, found.path.display().to_string()))
        };
        let of = |option, path: &str| Some((option, format!("{dir}/{path}")));
        assert_eq!(missing(dir, "", "", ""), None);
        assert_eq!(missing(dir, "in", "out", "/dev/null"), None);
        assert_eq!(missing(&format!("{dir}/no"), "", "", ""), of("-cwd", "no"));
        assert_eq!(missing(&format!("{dir}/in"), "", "", ""), of("-cwd", "in"));
        assert_eq!(missing(dir, "", "no/out", ""), of("-o", "no"));
        assert_eq!(missing(dir, "", "out", "no/err"), of("-e", "no"));
        assert_eq!(missing(dir, "no", "", ""), of("-i", "no"));
        assert_eq!(missing(dir, "in.%I", "%J/out", "%I/err"), None);
    }

    #[test]
    fn the_job_carries_what_its_submitter_lacked() {
        let mut spec = Spec {
            cwd: "/no/such/directory".into(),
            ..Spec::default()
        };
        let warning = note(&mut spec).unwrap();
        assert!(warning.contains("-cwd: this host has no /no/such/directory"));
        assert!(spec.unseen);
        spec = Spec {
            cwd: "/".into(),
            ..Spec::default()
        };
        assert_eq!(note(&mut spec), None);
        assert!(!spec.unseen);
        spec.cwd = "/no/such/directory".into();
        spec.cwd_create = true;
        assert_eq!(note(&mut spec), None);
        assert!(!spec.unseen, "it will be created");
        (spec.cwd_create, spec.depend) = (false, "done(1)".into());
        assert_eq!(note(&mut spec), None, "job 1 may create it");
    }
}
