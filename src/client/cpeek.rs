//! `cpeek`: what a job has written so far.
//!
//! Finds the job in the published view and reads its files as the calling user.

use super::cli::{Values, command, flag, operands, opt, parse};
use super::env::Site;
use super::exit::{Exit, Fail, Result};
use super::job_requests::finish;
use super::known_names;
use super::read::{OWN_ONLY, Source};
use crate::language::tell;
use crate::model::{AttemptId, JobKey, JobStat};
use crate::spool::Layout;
use crate::spool::view::{JobSet, ViewItem, ViewJob, ViewReader, into_owned};
use crate::sys;
use crate::task::output::{after_report, spool_name};
use crate::text::jobids::JobSel;
use crate::text::subst::subst;
use clap::{ArgMatches, Command};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Maximum number of bytes read at once.
const CHUNK: usize = 1 << 20;
/// How much of a file to which others append is searched for a job's report, in bytes.
const REPORT_WITHIN: u64 = 16 << 20;
/// Interval between two reads of growing files, ms.
const FOLLOW_MS: u64 = 500;

/// The options of `cpeek`.
pub(super) fn options() -> Command {
    command("cpeek", "Show the output of a job so far")
        .arg(flag("f", "Follow the output until the job ends"))
        .arg(opt("J", "NAME", "The latest job of this name"))
        .arg(opt("m", "HOST", "The latest job on this host"))
        .arg(opt("q", "QUEUE", "The latest job in this queue"))
        .arg(operands(
            "job",
            "JOB",
            "A job ID or an element 12[3]; none: the latest job",
        ))
}

/// Runs `cpeek`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match parse(options(), args) {
        Ok(m) => finish("cpeek", peek(&m)),
        Err(code) => code,
    }
}

fn peek(m: &ArgMatches) -> Result<i32> {
    let operands = m.all("job");
    let wanted = match operands.as_slice() {
        [] => None,
        [one] => Some(one_job(one)?),
        _ => return Err(Fail::usage("give one job")),
    };
    let site = Site::find()?;
    let reader = ViewReader::new(&site.layout());
    let source = Source::of("cpeek", site.clone());
    let job = match wanted {
        Some(key) => by_key(&reader, key)?,
        None => latest(&reader, m, &source)?,
    };
    if job.spec.uid != sys::users::effective_uid() && !source.may_see(&source.params()?, &job.spec)
    {
        return Err(Fail::permission(OWN_ONLY));
    }
    let shown = job.row.j;
    if job.row.stat.is_waiting() || (job.row.attempt == 0 && job.row.start == 0) {
        return Err(Fail::not_found(format!("Job <{shown}> : Not yet started.")));
    }
    let mut files = Files::of(&job, &site.layout());
    let offsets = files.show(&job)?;
    if m.has("f") {
        follow(&reader, &job, files, offsets)?;
    }
    Ok(Exit::Ok.code())
}

/// The single job or element that an operand names.
pub(crate) fn one_job(operand: &str) -> Result<JobKey> {
    let wrong = || Fail::usage(format!("'{operand}' does not name one job or element"));
    match JobSel::parse(operand) {
        Ok(JobSel::Job(id)) => Ok(JobKey::job(id)),
        Ok(JobSel::Elements(id, set)) => match (set.len(), set.first()) {
            (1, Some(idx)) => Ok(JobKey::element(id, idx)),
            _ => Err(wrong()),
        },
        Ok(JobSel::All) => Err(wrong()),
        Err(e) => {
            let caret = e.caret(operand);
            let text = format!("{}\n{}", e.message, caret.trim_end_matches('\n'));
            Err(Fail::usage(text))
        }
    }
}

/// The job or element with this key, from the view.
pub(crate) fn by_key(reader: &ViewReader, key: JobKey) -> Result<ViewJob> {
    let want = JobSet {
        ids: vec![(key.id, key.id)],
        finished: true,
        ..JobSet::default()
    };
    let (jobs, _) = reader
        .collect(&want)
        .map_err(|e| Fail::system(e.to_string()))?;
    let is_array = jobs.iter().any(|j| j.row.arr.is_some());
    if is_array && key.idx == 0 {
        return Err(Fail::usage(format!(
            "job <{}> is an array\nhint: name an element, such as {}[1]",
            key.id, key.id
        )));
    }
    let found = jobs.into_iter().find(|j| j.row.j == key);
    match found {
        Some(job) => Ok(job),
        None if is_array => Err(Fail::not_found(format!("Job <{key}> : Not yet started."))),
        None => Err(Fail::not_found(format!("Job <{key}> is not found"))),
    }
}

/// The caller's job that matches -J -m -q and started last: running jobs before ended ones.
fn latest(reader: &ViewReader, m: &ArgMatches, source: &Source) -> Result<ViewJob> {
    let want = JobSet {
        uids: vec![sys::users::effective_uid()],
        finished: true,
        ..JobSet::default()
    };
    let (name, host, queue) = (m.last("J"), m.last("m"), m.last("q"));
    let mut best: Option<ViewJob> = None;
    let read = reader.stream(&want, &mut |piece| match piece {
        ViewItem::Restart => best = None,
        ViewItem::Job { row, spec, .. } => {
            let fits = row.start > 0
                && row.arr.is_none()
                && name.is_none_or(|n| row.name == n || (row.name.is_empty() && row.command == n))
                && host.is_none_or(|h| row.hosts.iter().any(|s| s.0 == h))
                && queue.is_none_or(|q| spec.queue == q);
            let rank = (!row.stat.is_finished(), row.start, row.j);
            let better = best
                .as_ref()
                .is_none_or(|b| rank > (!b.row.stat.is_finished(), b.row.start, b.row.j));
            if fits && better {
                best = Some(ViewJob {
                    row: into_owned(row),
                    spec: spec.clone(),
                    why: None,
                });
            }
        }
    });
    read.map_err(|e| Fail::system(e.to_string()))?;
    match best {
        Some(job) => Ok(job),
        None => {
            known_names::check(m, source)?;
            Err(Fail::not_found("No started job found"))
        }
    }
}

/// The files to which a job writes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Files {
    out: PathBuf,
    /// The file of the output while the job runs; it is appended to `out` afterwards, because
    /// others write to that file as well.
    while_running: Option<PathBuf>,
    /// The file of the error output, if it is a different one.
    err: Option<PathBuf>,
}

/// How far the files have been shown.
#[derive(Clone, Copy, Default)]
struct Offsets {
    out: u64,
    err: u64,
}

impl Files {
    fn of(job: &ViewJob, layout: &Layout) -> Files {
        let key = job.row.j;
        let cwd = Path::new(&job.spec.cwd);
        let index = job.spec.submitters_index(key.idx);
        let path = |text: &str| cwd.join(subst(text, key.id, index));
        let out = match job.spec.stdout.as_str() {
            "" => layout.default_output(key),
            text => path(text),
        };
        let err = match job.spec.stderr.as_str() {
            "" => None,
            text => Some(path(text)),
        };
        let err = err.filter(|e| *e != out);
        let attempt = AttemptId {
            j: key,
            at: job.row.attempt,
        };
        let name = out.file_name().map(|name| name.to_string_lossy());
        let while_running = name.map(|name| out.with_file_name(spool_name(&name, attempt)));
        let while_running = while_running.filter(|_| !job.row.stat.is_finished());
        Files {
            out,
            while_running,
            err,
        }
    }

    /// Prints everything written so far.
    fn show(&mut self, job: &ViewJob) -> Result<Offsets> {
        let mut offsets = Offsets::default();
        println!("<< output from stdout >>");
        if self
            .while_running
            .as_ref()
            .is_some_and(|a| !sys::fs::exists(a))
        {
            self.while_running = None;
        }
        if self.while_running.is_none() {
            offsets.out = output_start(&self.out, job.row.j).map_err(|e| unreadable(job, &e))?;
        }
        let begun = offsets.out;
        self.print_new_output(job, &mut offsets)?;
        if let Some(err) = &self.err {
            println!("<< output from stderr >>");
            copy(err, &mut offsets.err).map_err(|e| unreadable(job, &e))?;
        }
        if (offsets.out, offsets.err) == (begun, 0) {
            match job.row.stat.is_finished() {
                true => tell!("cpeek: Job <{}> has written no output.", job.row.j),
                false => tell!("cpeek: Job <{}> has written no output yet.", job.row.j),
            }
        }
        Ok(offsets)
    }

    /// Prints what was added since.
    fn print_new(&mut self, job: &ViewJob, offsets: &mut Offsets) -> Result<()> {
        self.print_new_output(job, offsets)?;
        if let Some(err) = &self.err {
            copy(err, &mut offsets.err).map_err(|e| unreadable(job, &e))?;
        }
        Ok(())
    }

    fn print_new_output(&mut self, job: &ViewJob, offsets: &mut Offsets) -> Result<()> {
        if let Some(while_running) = &self.while_running {
            match copy(while_running, &mut offsets.out) {
                Err(e) if e.is_not_found() => {
                    // The job ended, and its output was moved to `out` after its report.
                    self.while_running = None;
                    let start = output_start(&self.out, job.row.j);
                    offsets.out += start.map_err(|e| unreadable(job, &e))?;
                }
                other => return other.map_err(|e| unreadable(job, &e)),
            }
        }
        copy(&self.out, &mut offsets.out).map_err(|e| unreadable(job, &e))
    }
}

/// The end of an output file of a job: its path and last bytes, or why they cannot be shown.
pub(crate) struct OutputEnd {
    pub path: PathBuf,
    pub bytes: Result<Vec<u8>>,
}

/// The last bytes, at most `most`, that a job has written so far to each of its files.
pub(crate) fn ends(job: &ViewJob, layout: &Layout, most: usize) -> Vec<OutputEnd> {
    let files = Files::of(job, layout);
    let while_running = files.while_running.filter(|a| sys::fs::exists(a));
    let out = match &while_running {
        Some(while_running) => end_from(while_running, 0, most),
        None => output_start(&files.out, job.row.j).and_then(|at| end_from(&files.out, at, most)),
    };
    let end = |path: PathBuf, bytes: sys::Result<Vec<u8>>| OutputEnd {
        path,
        bytes: bytes.map_err(|e| unreadable(job, &e)),
    };
    let mut ends = vec![end(files.out, out)];
    if let Some(err) = files.err {
        let bytes = end_from(&err, 0, most);
        ends.push(end(err, bytes));
    }
    ends
}

/// The last bytes of a file, none of them before `start`.
fn end_from(path: &Path, start: u64, most: usize) -> sys::Result<Vec<u8>> {
    let len = sys::fs::read_from(path, 0, 0)?.file_len;
    let from = len.saturating_sub(most as u64).max(start.min(len));
    Ok(sys::fs::read_from(path, from, most)?.bytes)
}

/// The start of a job's output in its file: after its report if that is in the first [`CHUNK`] or
/// the last [`REPORT_WITHIN`] bytes; else the start of the file.
fn output_start(path: &Path, j: JobKey) -> sys::Result<u64> {
    let head = sys::fs::read_from(path, 0, CHUNK)?;
    if let Some(at) = after_report(&head.bytes, j) {
        return Ok(at as u64);
    }
    let from = head.file_len.saturating_sub(REPORT_WITHIN);
    if from == 0 && head.file_len <= CHUNK as u64 {
        return Ok(0);
    }
    let tail = sys::fs::read_from(path, from, REPORT_WITHIN as usize)?;
    Ok(after_report(&tail.bytes, j).map_or(0, |at| from + at as u64))
}

/// Why a file of the job cannot be shown. The default output is on the share: if the file does not
/// exist, the job has written nothing. A file of the user's choice may be on a disk of the job's
/// host.
fn unreadable(job: &ViewJob, e: &sys::Error) -> Fail {
    let by_default = job.spec.stdout.is_empty() && job.spec.stderr.is_empty();
    match (e.kind(), job.row.hosts.first()) {
        (std::io::ErrorKind::NotFound, Some(host)) if !by_default => Fail::not_found(format!(
            "Job <{}> has written no output to {} that this host can see.\n\
             hint: if that is a local path, look on the job's host {}",
            job.row.j,
            e.path.display(),
            host.0
        )),
        (std::io::ErrorKind::NotFound, _) => {
            Fail::not_found(format!("Job <{}> has written no output.", job.row.j))
        }
        (std::io::ErrorKind::PermissionDenied, _) => Fail::permission(e.to_string()),
        _ => Fail::system(e.to_string()),
    }
}

/// Copies a file from `offset` on to standard output; a file that shrank is shown from its start.
pub(crate) fn copy(path: &Path, offset: &mut u64) -> sys::Result<()> {
    loop {
        let chunk = sys::fs::read_from(path, *offset, CHUNK)?;
        if chunk.file_len < *offset {
            *offset = 0;
            continue;
        }
        if chunk.bytes.is_empty() {
            return Ok(());
        }
        *offset += chunk.bytes.len() as u64;
        let mut out = std::io::stdout().lock();
        let written = out.write_all(&chunk.bytes).and_then(|()| out.flush());
        written.map_err(|e| sys::Error::new("write to", Path::new("standard output"), e))?;
    }
}

fn follow(
    reader: &ViewReader,
    job: &ViewJob,
    mut files: Files,
    mut offsets: Offsets,
) -> Result<()> {
    loop {
        // Checked before the last copy, so that nothing written before the end is missed.
        let ended = match by_key(reader, job.row.j) {
            Ok(now) => now.row.stat.is_finished() || now.row.stat == JobStat::Pend,
            Err(fail) => fail.exit == Exit::NotFound,
        };
        files.print_new(job, &mut offsets)?;
        if ended {
            return Ok(());
        }
        sys::clock::sleep_ms(FOLLOW_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Spec;
    use crate::record::view::JobRow;

    fn files(out: &str, err: &str) -> Files {
        let job = ViewJob {
            row: JobRow {
                j: JobKey::element(12, 3),
                ..JobRow::default()
            },
            spec: std::sync::Arc::new(Spec {
                cwd: "/w".into(),
                stdout: out.into(),
                stderr: err.into(),
                ..Spec::default()
            }),
            why: None,
        };
        Files::of(&job, &Layout::new("/s"))
    }

    #[test]
    fn files_are_found_as_the_job_wrote_them() {
        assert_eq!(files("o.%J.%I", "/e").out, Path::new("/w/o.12.3"));
        assert_eq!(files("o", "/e").err.as_deref(), Some(Path::new("/e")));
        assert_eq!(files("o", "o").err, None);
        let layout = Layout::new("/s");
        assert_eq!(
            files("", "").out,
            layout.default_output(JobKey::element(12, 3))
        );
    }

    #[test]
    fn the_end_of_the_output_has_no_report_and_no_more_bytes_than_asked_for() {
        let d = tempfile::tempdir().unwrap();
        let at = |text: &str| d.path().join(text);
        std::fs::write(at("o"), "123456789").unwrap();
        assert_eq!(end_from(&at("o"), 0, 4).unwrap(), b"6789");
        assert_eq!(end_from(&at("o"), 7, 4).unwrap(), b"89");
        assert_eq!(end_from(&at("o"), 70, 4).unwrap(), b"");
        let job = ViewJob {
            row: JobRow {
                j: JobKey::job(12),
                stat: JobStat::Run,
                attempt: 1,
                ..JobRow::default()
            },
            spec: std::sync::Arc::new(Spec {
                cwd: d.path().to_str().unwrap().into(),
                stdout: "o".into(),
                stderr: "e".into(),
                ..Spec::default()
            }),
            why: None,
        };
        let layout = Layout::new("/s");
        let output_ends = ends(&job, &layout, 3);
        assert_eq!(output_ends[0].bytes.as_deref(), Ok(&b"789"[..]));
        assert!(output_ends[1].bytes.is_err(), "there is no e");
        let while_running = spool_name(
            "o",
            AttemptId {
                j: job.row.j,
                at: 1,
            },
        );
        std::fs::write(at(&while_running), "new").unwrap();
        assert_eq!(ends(&job, &layout, 9)[0].bytes.as_deref(), Ok(&b"new"[..]));
    }

    #[test]
    fn one_job_only() {
        assert_eq!(one_job("7").unwrap(), JobKey::job(7));
        assert_eq!(one_job("7[2]").unwrap(), JobKey::element(7, 2));
        for bad in ["0", "7[1-2]", "x", "007", "-1"] {
            assert!(one_job(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn copying_goes_on_where_it_stopped() {
        let d = tempfile::tempdir().unwrap();
        let path = d.path().join("f");
        std::fs::write(&path, "12345").unwrap();
        let mut offset = 0;
        copy(&path, &mut offset).unwrap();
        assert_eq!(offset, 5);
        std::fs::write(&path, "12").unwrap();
        copy(&path, &mut offset).unwrap();
        assert_eq!(offset, 2);
    }
}
