//! The cluster's cb.yaml for administrators' commands: reports every problem with line and caret,
//! and replaces the file by a changed text.
//!
//! Owns the replacement: one command at a time, by a lock on the file itself. The previous content
//! is kept beside it under the time of the change. A file that was edited in the meantime is not
//! touched.

use crate::client::exit::{Fail, Result};
use crate::config;
use crate::config::edit::Edited;
use crate::language::tell;
use crate::model::sha256_hex;
use crate::spool::Layout;
use crate::sys::fs::{self, Kind};
use crate::sys::lock::Lock;
use crate::sys::{self, clock};
use crate::text::count::count;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Maximum number of earlier versions kept beside the file; older ones are removed.
const KEPT_MAX: usize = 50;
/// Maximum number of names that are read in conf/.
const NAMES_MAX: usize = 10_000;
/// Maximum number of changes within one second that get different names.
const SAME_SECOND_MAX: u32 = 100;
/// The time (UTC) in the name of an earlier version.
const STAMP: &str = "%Y%m%dT%H%M%SZ";
/// The permissions of the file.
const MODE: u32 = 0o644;

/// Reads a configuration; the failure lists all its problems.
///
/// # Errors
/// The file cannot be read, or has problems.
pub(crate) fn load(path: &Path) -> Result<config::Loaded> {
    let bytes = fs::read_small(path, config::MAX_BYTES as u64)?;
    let refused =
        |problems: String| Fail::usage(format!("{} is refused:\n\n{problems}", path.display()));
    check(&bytes, path).map_err(refused)
}

/// The configuration, or its problems as text.
///
/// # Errors
/// Each problem with line and caret, then their number.
pub(crate) fn check(bytes: &[u8], path: &Path) -> std::result::Result<config::Loaded, String> {
    let os = config::OsNames {
        user: &|name| sys::users::by_name(name).is_some(),
        group: &|name| sys::users::group_by_name(name).is_some(),
    };
    config::load(bytes, &path.display().to_string(), &os).map_err(|problems| {
        let mut text = String::new();
        for problem in &problems {
            let _ = writeln!(text, "{problem}\n");
        }
        text.push_str(&count(problems.len(), "problem"));
        text
    })
}

/// The text of a file without problems.
///
/// # Errors
/// As [`load`].
pub(super) fn text(path: &Path) -> Result<(String, config::Loaded)> {
    let loaded = load(path)?;
    Ok((utf8(path)?, loaded))
}

fn utf8(path: &Path) -> Result<String> {
    let bytes = fs::read_small(path, config::MAX_BYTES as u64)?;
    String::from_utf8(bytes).map_err(|_| Fail::usage(format!("{} is not UTF-8", path.display())))
}

/// The result of a change of the file.
#[derive(Debug)]
pub(crate) struct ConfigChangeResult {
    /// What was done, one sentence each; empty: the file is unchanged.
    pub done: Vec<String>,
    /// Where the previous version is kept.
    pub backup: Option<PathBuf>,
    pub warnings: Vec<config::Problem>,
}

/// Changes the file by `edit`, if the result has no problems.
///
/// # Errors
/// Another command is changing the file, it was edited meanwhile, the result would be refused, or
/// it cannot be written. The file is then unchanged.
pub(super) fn change(
    path: &Path,
    edit: impl FnOnce(&str, &config::Config) -> Result<Edited>,
) -> Result<ConfigChangeResult> {
    put(path, |before| edit(before, &load(path)?.config))
}

/// Replaces the whole text if the file still has the text with the digest `base`. The previous text
/// may have problems.
///
/// # Errors
/// As [`change`].
pub(crate) fn replace(path: &Path, base: &str, text: &str) -> Result<ConfigChangeResult> {
    put(path, |before| {
        if sha256_hex(before.as_bytes()) != base {
            return Err(Fail::refused(format!(
                "{} was changed since it was read; nothing was written\nhint: load it again, then \
                 make the change in the current text",
                path.display()
            )));
        }
        let done = match before == text {
            true => Vec::new(),
            false => vec!["The text is replaced".to_owned()],
        };
        Ok(Edited {
            text: text.to_owned(),
            done,
        })
    })
}

/// Replaces the current text by the one that `edit` makes of it.
fn put(path: &Path, edit: impl FnOnce(&str) -> Result<Edited>) -> Result<ConfigChangeResult> {
    let at = path.display();
    let stat = match fs::stat(path)? {
        Some(stat) if stat.kind == Kind::File => stat,
        Some(_) => {
            return Err(Fail::refused(format!(
                "{at} is not a regular file itself\nhint: edit what it refers to, then 'cadmin \
                 reconfig'"
            )));
        }
        None => return Err(Fail::system(format!("{at}: there is no such file"))),
    };
    // A lock on the file that is replaced: a process that waits for it then finds another file.
    let Some(lock) = Lock::try_take(path)? else {
        return Err(Fail::refused(format!(
            "another administrator is changing {at} now; nothing was changed\nhint: repeat the \
             command"
        )));
    };
    let before = utf8(path)?;
    let edited = edit(&before)?;
    if edited.done.is_empty() {
        return Ok(ConfigChangeResult {
            done: edited.done,
            backup: None,
            warnings: Vec::new(),
        });
    }
    let loaded = check(edited.text.as_bytes(), path).map_err(|problems| {
        Fail::usage(format!(
            "{at} is not changed, since it would be refused:\n\n{problems}"
        ))
    })?;
    let backup = write_backup(path, before.as_bytes())?;
    let now = fs::read_small(path, config::MAX_BYTES as u64)?;
    if now != before.as_bytes() || !lock.still_in_place()? {
        fs::remove(&backup)?;
        return Err(Fail::refused(format!(
            "{at} was edited meanwhile; this command has changed nothing\nhint: repeat the \
             command"
        )));
    }
    fs::durable_write_mode(path, edited.text.as_bytes(), MODE)?;
    keep_owner(path, &stat);
    keep_owner(&backup, &stat);
    forget_old(path);
    Ok(ConfigChangeResult {
        done: edited.done,
        backup: Some(backup),
        warnings: loaded.warnings,
    })
}

/// Keeps the file's previous owner, also if root changed it.
fn keep_owner(path: &Path, before: &fs::Stat) {
    let set =
        fs::chmod(path, before.mode & 0o777).and_then(|()| match sys::users::current_user().uid {
            0 => fs::chown(path, before.uid, before.gid),
            _ => Ok(()),
        });
    if let Err(e) = set {
        tell!("warning: {e}");
    }
}

/// Writes an earlier version beside the file.
fn write_backup(path: &Path, bytes: &[u8]) -> Result<PathBuf> {
    let stamp = jiff::Timestamp::from_millisecond(clock::wall_ms())
        .map(|now| now.strftime(STAMP).to_string())
        .map_err(|e| Fail::system(format!("this machine's clock: {e}")))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for n in 1..=SAME_SECOND_MAX {
        let more = if n == 1 {
            String::new()
        } else {
            format!(".{n}")
        };
        let backup = path.with_file_name(format!("{name}.{stamp}{more}"));
        if !fs::exists(&backup) && fs::link_exclusive(&backup, bytes)? {
            return Ok(backup);
        }
    }
    Err(Fail::system(format!(
        "{}: {SAME_SECOND_MAX} changes within one second",
        path.display()
    )))
}

/// The earlier versions beside the file, oldest first; only names that [`write_backup`] creates.
fn backups(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!("{name}.");
    let all = fs::list_dir(fs::parent(path), NAMES_MAX).unwrap_or_default();
    let names = all.iter().filter_map(|entry| entry.text());
    let mut backups: Vec<&str> = names
        .filter(|n| n.strip_prefix(&prefix).is_some_and(is_stamp))
        .collect();
    backups.sort_unstable();
    let paths = backups.iter().map(|name| path.with_file_name(name));
    paths.collect()
}

fn forget_old(path: &Path) {
    let backups = backups(path);
    let old = backups.len().saturating_sub(KEPT_MAX);
    for path in &backups[..old] {
        if let Err(e) = fs::remove(path) {
            tell!("warning: {e}");
        }
    }
}

/// The earlier versions of the file that are kept and can be read: those beside it, and those that
/// were in force.
pub(super) fn earlier_texts(layout: &Layout) -> Vec<String> {
    let in_force = fs::list_dir(&layout.history(), NAMES_MAX).unwrap_or_default();
    let in_force = in_force.iter().filter_map(|entry| entry.text());
    let in_force = in_force.filter(|name| Layout::is_past_config(name));
    let in_force = in_force.map(|name| layout.history().join(name));
    let paths = backups(&layout.config()).into_iter().chain(in_force);
    let bytes = paths.filter_map(|path| fs::read_small(&path, config::MAX_BYTES as u64).ok());
    bytes
        .filter_map(|bytes| String::from_utf8(bytes).ok())
        .collect()
}

fn is_stamp(text: &str) -> bool {
    let (stamp, more) = text.split_once('.').unwrap_or((text, "2"));
    let number = !more.is_empty() && more.bytes().all(|b| b.is_ascii_digit());
    number && jiff::civil::DateTime::strptime(STAMP, stamp).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::edit::{NewHost, add_host};

    const TEXT: &str = "cluster:\n  name: c\n  administrators: [root]\nhosts: []\n\
                        queues:\n- name: q\n";

    fn file() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cb.yaml");
        std::fs::write(&path, TEXT).unwrap();
        (dir, path)
    }

    fn add(text: &str, name: &str, words: &[&str]) -> Result<Edited> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let host = NewHost::parse(name, &words).map_err(Fail::usage)?;
        add_host(text, &host).map_err(|e| Fail::usage(e.to_string()))
    }

    fn versions(path: &Path) -> usize {
        let all = std::fs::read_dir(path.parent().unwrap()).unwrap();
        all.count() - 1
    }

    #[test]
    fn a_change_keeps_the_version_before_and_nothing_else() {
        let (_dir, path) = file();
        let changed = change(&path, |text, _| add(text, "h1", &["slots=2"])).unwrap();
        assert_eq!(changed.done, ["Host <h1> is added"]);
        let backup = changed.backup.unwrap();
        assert_eq!(std::fs::read_to_string(&backup).unwrap(), TEXT);
        let want = TEXT.replace("[]", "[{name: h1, slots: 2}]");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), want);
        let again = change(&path, |text, _| add(text, "h1", &[])).unwrap();
        assert!(again.done.is_empty() && again.backup.is_none());
        assert_eq!(versions(&path), 1);
    }

    #[test]
    fn a_result_with_problems_is_not_written() {
        let (_dir, path) = file();
        let fail = change(&path, |text, _| add(text, "h1", &["slots=many"])).unwrap_err();
        assert!(fail.text.contains("is not changed"), "{}", fail.text);
        assert!(fail.text.contains("slots"), "{}", fail.text);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), TEXT);
        assert_eq!(versions(&path), 0);
    }

    #[test]
    fn an_edit_made_meanwhile_is_not_lost() {
        let (_dir, path) = file();
        let other = TEXT.replace("name: c", "name: d");
        let fail = change(&path, |text, _| {
            std::fs::write(&path, &other).unwrap();
            add(text, "h1", &[])
        });
        let fail = fail.unwrap_err();
        assert!(fail.text.contains("was edited meanwhile"), "{}", fail.text);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        assert_eq!(versions(&path), 0);
        // The same, for an editor that renames a new file into place.
        let fail = change(&path, |text, _| {
            std::fs::write(path.with_extension("new"), text).unwrap();
            std::fs::rename(path.with_extension("new"), &path).unwrap();
            add(text, "h1", &[])
        });
        assert!(fail.is_err());
    }

    #[test]
    fn of_two_commands_at_once_one_is_refused() {
        let (_dir, path) = file();
        let changed = change(&path, |text, _| {
            let second = change(&path, |text, _| add(text, "h2", &[])).unwrap_err();
            assert!(
                second.text.contains("another administrator"),
                "{}",
                second.text
            );
            add(text, "h1", &[])
        });
        assert_eq!(changed.unwrap().done.len(), 1);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("h1") && !text.contains("h2"), "{text}");
        assert_eq!(
            change(&path, |text, _| add(text, "h2", &[]))
                .unwrap()
                .done
                .len(),
            1
        );
    }

    #[test]
    fn a_whole_text_replaces_the_one_it_was_made_from_only() {
        let (_dir, path) = file();
        let new = TEXT.replace("name: c", "name: d");
        let base = sha256_hex(TEXT.as_bytes());
        let changed = replace(&path, &base, &new).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), new);
        let backup = changed.backup.unwrap();
        assert_eq!(std::fs::read_to_string(backup).unwrap(), TEXT);
        let late = replace(&path, &base, TEXT).unwrap_err();
        assert!(late.text.contains("since it was read"), "{}", late.text);
        // A text with problems may be replaced, but none is written.
        std::fs::write(&path, "queues: 7\n").unwrap();
        let base = sha256_hex(b"queues: 7\n");
        let bad = replace(&path, &base, "queues: 8\n").unwrap_err();
        assert!(bad.text.contains("is not changed"), "{}", bad.text);
        assert!(replace(&path, &base, TEXT).unwrap().backup.is_some());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), TEXT);
    }

    #[test]
    fn the_oldest_versions_go_and_other_files_stay() {
        let (_dir, path) = file();
        for n in 0..KEPT_MAX + 5 {
            let name = format!("cb.yaml.20260101T0000{:02}Z", n % 60);
            std::fs::write(path.with_file_name(name), "x").unwrap();
        }
        for own in ["cb.yaml.bak", "cb.yaml.20260101", "other.20260101T000000Z"] {
            std::fs::write(path.with_file_name(own), "x").unwrap();
        }
        forget_old(&path);
        assert_eq!(versions(&path), KEPT_MAX + 3);
        assert!(!path.with_file_name("cb.yaml.20260101T000004Z").exists());
        assert!(path.with_file_name("cb.yaml.20260101T000005Z").exists());
    }
}
