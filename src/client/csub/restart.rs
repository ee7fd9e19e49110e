//! `crestart`: submits an ended job that has checkpoints as a new one, which continues from them.
//!
//! Owns which checkpoint is used, and that nothing of another user is run. Knows nothing of what a
//! method saved.

use super::clone::{changing_options, refuse_unchecked};
use super::options::{self, JobOptions};
use super::spec::{self, invalid_value, path_text, without_current_dirs};
use super::{
    NoEffect, SubmitContext, job_line, not_submitted, report_submission, retries, submitted_job,
};
use crate::client::cli::{Split, Table, texts};
use crate::client::env::Site;
use crate::client::exit::{Fail, Result};
use crate::client::limit_unit::limit_unit;
use crate::client::requests;
use crate::model::{Checkpoint, JobKey, Restart};
use crate::record::request::RequestHead;
use crate::record::saved_job::{self, SavedJob};
use crate::sys::{fs, users};
use crate::text::jobids::JobSel;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const COMMAND: &str = "crestart";
/// Maximum number of names that are read in a directory.
const NAMES_MAX: usize = 100_000;
/// Maximum number of jobs that a refusal names.
const SHOWN: usize = 10;
/// A file of this name shows that a job was saved.
const MARKER_FILE: &str = ".checkpoint";

/// Runs the command; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let table = Table::new(options::crestart());
    let split = match texts(args).and_then(|words| table.split(&words)) {
        Ok(split) => split,
        Err(e) => return not_submitted(COMMAND, &Fail::usage(format!("{e}\nhint: crestart -h"))),
    };
    let asks = |given| matches!(table.id(given), "help" | "version");
    if split.given.iter().any(asks) {
        return table.check(&split).err().unwrap_or(0);
    }
    match SubmitContext::now().and_then(|context| submit(&table, &split, &context)) {
        Ok(code) => code,
        Err(fail) => not_submitted(COMMAND, &fail),
    }
}

fn submit(table: &Table, split: &Split, context: &SubmitContext) -> Result<i32> {
    let options = JobOptions::from_split(table, split);
    options.check_implemented()?;
    let wait_s = requests::wait_s(options.get("wait"))?;
    let (dir, job) = match split.operands.as_slice() {
        [dir] => (dir, None),
        [dir, job] => (dir, Some(key_of(job)?)),
        [] => return Err(Fail::usage("name the checkpoint directory (csub -k)")),
        [_, _, more, ..] => return Err(Fail::usage(format!("'{more}' is one operand too many"))),
    };
    let dir = without_current_dirs(&context.cwd.join(dir));
    let key = match job {
        Some(key) => key,
        None => only_checkpoint(&dir)?,
    };
    let saved = saved(&dir, key)?;
    NoEffect::of(&options).warn(COMMAND);
    let mut set = Vec::new();
    let mut given = changing_options(&options, &mut set);
    given.remove("force");
    set.retain(|option| option != "force");
    let site = Site::find()?;
    refuse_unchecked(&site, COMMAND, &set)?;
    let unit = || limit_unit(&site);
    let mut parse_context = context.parse_context(&site, &unit);
    // The saved job provides queue and project.
    (parse_context.default_queue, parse_context.default_project) = ("", "");
    let mut job = spec::submission(&given, &parse_context)?;
    spec::check_command(&saved.command)?;
    (job.command, job.name) = (saved.command.clone(), saved.name.clone());
    if key.idx > 0 {
        job.array = key.idx.to_string();
    }
    let head = RequestHead {
        env: saved.env.clone(),
        script: saved.script.clone(),
        stdin: saved.stdin.clone(),
        params: saved.params.clone(),
        ..RequestHead::default()
    };
    job.restart = Some(Box::new(restart(saved, &dir, options.has("force"), set)?));
    let ack = match retries::send_job(&site, COMMAND, head, job, wait_s)? {
        Ok(ack) => ack,
        Err(code) => return Ok(code),
    };
    let run = submitted_job(&ack)?;
    Ok(report_submission(
        &site,
        run,
        &job_line(run, context, true),
        "",
        false,
    ))
}

fn key_of(text: &str) -> Result<JobKey> {
    let one = "name one job: 123, or an element of an array, \"123[4]\"";
    match JobSel::parse(text).map_err(|e| invalid_value(COMMAND, text, &e))? {
        JobSel::Job(id) => Ok(JobKey::job(id)),
        JobSel::Elements(id, set) => match (set.iter().next(), set.iter().nth(1)) {
            (Some(idx), None) => Ok(JobKey::element(id, idx)),
            _ => Err(Fail::usage(one)),
        },
        JobSel::All => Err(Fail::usage(one)),
    }
}

/// The single job that has a checkpoint in the directory.
fn only_checkpoint(dir: &Path) -> Result<JobKey> {
    let names = fs::list_dir(dir, NAMES_MAX).map_err(|e| Fail::not_found(e.to_string()))?;
    let keys = names
        .iter()
        .filter_map(|entry| Checkpoint::key_of(entry.text()?));
    let made = |key: &JobKey| fs::exists(&dir_of(dir, *key).join(MARKER_FILE));
    let mut keys: Vec<JobKey> = keys.filter(made).collect();
    keys.sort_unstable();
    match keys.as_slice() {
        [key] => Ok(*key),
        [] => Err(Fail::not_found(format!(
            "there is no checkpoint of a job in {}",
            dir.display()
        ))),
        all => {
            let first = all.iter().take(SHOWN).map(ToString::to_string);
            let more = if all.len() > SHOWN { " ..." } else { "" };
            Err(Fail::usage(format!(
                "{} has checkpoints of {} jobs: name one of {}{more}",
                dir.display(),
                all.len(),
                first.collect::<Vec<_>>().join(" ")
            )))
        }
    }
}

fn dir_of(dir: &Path, key: JobKey) -> PathBuf {
    dir.join(Checkpoint::dir_name(key))
}

/// The job that this user saved in the directory.
fn saved(dir: &Path, key: JobKey) -> Result<SavedJob> {
    let place = dir_of(dir, key);
    if fs::owner(&place)?.is_none() {
        return Err(Fail::not_found(format!(
            "there is no checkpoint of job {key} in {}: no directory {}",
            dir.display(),
            place.display()
        )));
    }
    refuse_of_others(&place, fs::Kind::Dir)?;
    if !fs::exists(&place.join(MARKER_FILE)) {
        return Err(Fail::not_found(format!(
            "there is no checkpoint of job {key} in {}: it was never saved",
            dir.display()
        )));
    }
    let file = place.join(saved_job::NAME);
    if fs::owner(&file)?.is_none() {
        return Err(Fail::not_found(format!(
            "{} is missing: the checkpoint is of an earlier version of Corral",
            file.display()
        )));
    }
    refuse_of_others(&file, fs::Kind::File)?;
    let (bytes, uid) = fs::read_small_owned(&file, saved_job::BYTES_MAX)?;
    if uid != users::effective_uid() {
        return Err(foreign_owner(&file, uid));
    }
    let damaged = |why: String| Fail::refused(format!("{}: {why}", file.display()));
    let job = SavedJob::parse(&bytes).map_err(damaged)?;
    match job.j == key {
        true => Ok(job),
        false => Err(damaged(format!("it is of job {}, not of {key}", job.j))),
    }
}

/// Refuses a path that belongs to another user or that others can write, because its content is run
/// as this user.
fn refuse_of_others(path: &Path, kind: fs::Kind) -> Result<()> {
    let Some(found) = fs::owner(path)? else {
        return Ok(());
    };
    if found.uid != users::effective_uid() {
        return Err(foreign_owner(path, found.uid));
    }
    if found.kind != kind || found.mode & 0o022 != 0 {
        return Err(Fail::permission(format!(
            "{} is a link, or other users can write to it",
            path.display()
        )));
    }
    Ok(())
}

fn foreign_owner(path: &Path, uid: u32) -> Fail {
    Fail::permission(format!(
        "permission denied: {} belongs to uid {uid}",
        path.display()
    ))
}

/// The request to the leader: the saved job, with its checkpoints below `dir` from now on.
fn restart(saved: SavedJob, dir: &Path, force: bool, set: Vec<String>) -> Result<Restart> {
    let SavedJob { j, t, spec, .. } = saved;
    let mut old = spec;
    let chkpnt = Checkpoint {
        dir: path_text(dir)?,
        from: Checkpoint::dir_name(j),
        force,
        ..old.chkpnt.map(|old| *old).unwrap_or_default()
    };
    chkpnt
        .check()
        .map_err(|e| Fail::usage(format!("CHKPNT_DIR: {e}")))?;
    old.chkpnt = Some(Box::new(chkpnt));
    // Earlier output of the job is kept.
    (old.stdout_over, old.stderr_over) = (false, false);
    Ok(Restart { j, t, old, set })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::exit::Exit;
    use crate::model::{Spec, Stamp};
    use crate::record::FORMAT;

    fn job(j: JobKey) -> SavedJob {
        let chkpnt = Checkpoint::parse("/old init=5 method=app").unwrap();
        SavedJob {
            format: FORMAT,
            j,
            t: Stamp(5),
            command: "x".into(),
            spec: Spec {
                chkpnt: Some(Box::new(chkpnt)),
                stdout: "out".into(),
                stdout_over: true,
                ..Spec::default()
            },
            ..SavedJob::default()
        }
    }

    fn put(dir: &Path, j: JobKey) -> PathBuf {
        let place = dir_of(dir, j);
        fs::mkdir_p(&place, 0o700).unwrap();
        let text = job(j).text();
        fs::publish_mode(&place.join(saved_job::NAME), text.as_bytes(), 0o600).unwrap();
        fs::publish_mode(&place.join(MARKER_FILE), b"", 0o600).unwrap();
        place
    }

    #[test]
    fn a_job_is_named_by_its_id_or_is_the_only_one() {
        assert_eq!(key_of("7").unwrap(), JobKey::job(7));
        assert_eq!(key_of("7[2]").unwrap(), JobKey::element(7, 2));
        for bad in ["0", "7[1-2]", "x", "7[0]"] {
            assert_eq!(key_of(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path();
        assert_eq!(only_checkpoint(dir).unwrap_err().exit, Exit::NotFound);
        fs::mkdir_p(&dir.join("8"), 0o700).unwrap();
        fs::mkdir_p(&dir.join("x"), 0o700).unwrap();
        put(dir, JobKey::element(7, 2));
        assert_eq!(only_checkpoint(dir).unwrap(), JobKey::element(7, 2));
        put(dir, JobKey::job(3));
        let text = only_checkpoint(dir).unwrap_err().text;
        assert!(text.ends_with("of 2 jobs: name one of 3 7[2]"), "{text}");
    }

    #[test]
    fn only_a_checkpoint_that_its_user_alone_can_write_is_taken_up() {
        let tmp = tempfile::tempdir().unwrap();
        let (dir, j) = (tmp.path(), JobKey::job(3));
        let refused = || saved(dir, j).unwrap_err();
        assert!(
            refused().text.contains("no directory"),
            "{}",
            refused().text
        );
        let place = put(dir, j);
        assert_eq!(saved(dir, j).unwrap(), job(j));
        for (path, mode) in [(place.clone(), 0o700), (place.join(saved_job::NAME), 0o600)] {
            fs::chmod(&path, mode | 0o020).unwrap();
            assert_eq!(refused().exit, Exit::Permission, "{}", path.display());
            fs::chmod(&path, mode).unwrap();
        }
        let file = place.join(saved_job::NAME);
        fs::publish_mode(&file, job(JobKey::job(4)).text().as_bytes(), 0o600).unwrap();
        assert!(refused().text.ends_with("it is of job 4, not of 3"));
        fs::remove(&file).unwrap();
        fs::symlink(&dir.join("elsewhere"), &file).unwrap();
        assert_eq!(refused().exit, Exit::Permission);
        fs::remove(&file).unwrap();
        assert!(refused().text.contains("earlier version"));
        fs::remove(&place.join(MARKER_FILE)).unwrap();
        assert!(refused().text.ends_with("it was never saved"));
    }

    #[test]
    fn the_new_job_goes_on_where_the_directory_is_now() {
        let of = restart(job(JobKey::job(3)), "/now".as_ref(), true, Vec::new()).unwrap();
        let chkpnt = of.old.chkpnt.unwrap();
        assert_eq!(chkpnt.to_string(), "/now init=5 method=app");
        assert_eq!((chkpnt.from.as_str(), chkpnt.force), ("3", true));
        assert!(!of.old.stdout_over && of.old.stdout == "out");
        let blank = restart(job(JobKey::job(3)), "/a b".as_ref(), false, Vec::new());
        assert!(blank.unwrap_err().text.contains("without blanks"));
    }
}
