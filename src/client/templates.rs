//! Templates of applications on the share: `conf/apps.d/NAME.yaml` and the shell files beside them.
//!
//! Owns their location, the rule that only the cluster's account may have written them, and the
//! limits on their number. `config::template` parses their content.

use super::env::{Site, cluster_of};
use super::exit::{Fail, Result};
use crate::config::template::{PathKind, Template, TemplateCommand};
use crate::config::{Problem, TEMPLATE_MAX, read_template};
use crate::record::request::SCRIPT_MAX;
use crate::spool;
use crate::sys;
use crate::sys::fs::Kind;
use crate::sys::trust::Owners;
use crate::text::names;
use std::path::{Path, PathBuf};

/// Maximum number of templates of a cluster.
const TEMPLATES_MAX: usize = 1000;
/// Maximum number of entries of the directory that are read.
const ENTRIES_MAX: usize = 4 * TEMPLATES_MAX;
/// Maximum size of a file of shell functions, in bytes.
const INCLUDE_MAX: u64 = 64 << 10;
const END: &str = ".yaml";

/// A file of `apps.d` and the result of reading it.
pub(crate) struct FoundTemplate {
    pub name: String,
    pub path: PathBuf,
    pub read: std::result::Result<Template, Vec<Problem>>,
}

/// The template of an application; `None`: there is none with this name.
///
/// # Errors
/// The file cannot be read or is invalid, or users other than the cluster's account could have
/// written it.
pub(crate) fn find(site: &Site, name: &str) -> Result<Option<(Template, PathBuf)>> {
    if names::check_name(name).is_err() || name.contains('/') {
        return Ok(None);
    }
    let path = site.layout().apps_dir().join(format!("{name}{END}"));
    let Some(bytes) = sys::fs::read_optional(&path, TEMPLATE_MAX as u64)? else {
        return Ok(None);
    };
    check_owner(owners(site)?, &path)?;
    let shown = path.display().to_string();
    let template = read_template(&bytes, &shown, name).map_err(|problems| {
        let first = problems
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        Fail::system(format!(
            "-app: the template of {name} is wrong: tell an administrator\n{first}\n\
             hint: capps check {name}"
        ))
    })?;
    Ok(Some((template, path)))
}

/// All templates by name; the invalid ones with their problems.
///
/// # Errors
/// The directory cannot be read, or has too many entries.
pub(crate) fn all(site: &Site) -> Result<Vec<FoundTemplate>> {
    let dir = site.layout().apps_dir();
    if !sys::fs::exists(&dir) {
        return Ok(Vec::new());
    }
    let mut names: Vec<String> = sys::fs::names(&dir, ENTRIES_MAX)?
        .into_iter()
        .filter_map(|name| {
            let name = name.into_string().ok()?;
            let name = name.strip_suffix(END)?;
            (!name.starts_with('.')).then(|| name.to_owned())
        })
        .collect();
    names.sort();
    if names.len() > TEMPLATES_MAX {
        return Err(Fail::system(format!(
            "{}: more than {TEMPLATES_MAX} templates",
            dir.display()
        )));
    }
    let read = |name: String| {
        let path = dir.join(format!("{name}{END}"));
        let read = read_file(&path, &name);
        FoundTemplate { name, path, read }
    };
    Ok(names.into_iter().map(read).collect())
}

/// Reads a template from a file in any place.
pub(crate) fn read_file(path: &Path, name: &str) -> std::result::Result<Template, Vec<Problem>> {
    let shown = path.display().to_string();
    let whole = |message: String| Problem {
        file: shown.clone(),
        line: 0,
        col: 0,
        code: "file",
        message,
        source: String::new(),
        hint: None,
    };
    let bytes = sys::fs::read_small(path, TEMPLATE_MAX as u64);
    let bytes = bytes.map_err(|e| vec![whole(e.to_string())])?;
    if names::check_name(name).is_err() {
        return Err(vec![whole(format!(
            "{name:?} cannot be the name of an application"
        ))]);
    }
    read_template(&bytes, &shown, name)
}

/// The script of a template with the files that it includes; empty if it has none.
///
/// # Errors
/// A file cannot be read, or the script is too long.
pub(crate) fn script(template: &Template, path: &Path) -> Result<String> {
    let TemplateCommand::Script(body) = &template.run else {
        return Ok(String::new());
    };
    let (first, rest) = match body.starts_with("#!") {
        true => body.split_once('\n').unwrap_or((body, "")),
        false => ("#!/bin/sh", body.as_str()),
    };
    let mut out = format!("{first}\n");
    for name in &template.include {
        let file = path.with_file_name(name);
        let bytes = sys::fs::read_small(&file, INCLUDE_MAX)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Fail::system(format!("{} is not UTF-8 text", file.display())))?;
        out.push_str(&text);
        if !text.ends_with('\n') {
            out.push('\n');
        }
    }
    out.push_str(rest);
    match out.len() {
        0..=SCRIPT_MAX => Ok(out),
        n => Err(Fail::system(format!(
            "{}: its script with the included files has {n} bytes, more than {SCRIPT_MAX}",
            path.display()
        ))),
    }
}

/// Like [`script`], for a template that runs as a job of another user: its files must belong to the
/// cluster.
///
/// # Errors
/// Those of [`script`]; names a file that others could have written.
pub(crate) fn trusted_script(site: &Site, template: &Template, path: &Path) -> Result<String> {
    if !template.include.is_empty() {
        let owners = owners(site)?;
        for name in &template.include {
            check_owner(owners, &path.with_file_name(name))?;
        }
    }
    script(template, path)
}

fn owners(site: &Site) -> Result<Owners> {
    Ok(spool::owners(&cluster_of(site)?))
}

fn check_owner(owners: Owners, path: &Path) -> Result<()> {
    let base = sys::fs::parent(path);
    let safe = owners.safe_to_load(path, base);
    safe.map_err(|e| Fail::refused(format!("-app: {e}")))
}

/// The kind of a path on this host.
pub(crate) fn path_kind(path: &Path) -> PathKind {
    let path = sys::fs::canonical(path).unwrap_or_else(|_| path.to_path_buf());
    match sys::fs::stat(&path) {
        Ok(Some(found)) => match found.kind {
            Kind::File => PathKind::File,
            Kind::Dir => PathKind::Dir,
            _ => PathKind::Other,
        },
        _ => PathKind::Missing,
    }
}
