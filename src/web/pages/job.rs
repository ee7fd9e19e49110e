//! One job: its data, why it waits or failed, its tasks, its output, its history.

use super::chart::{self, Chart};
use super::frame::{Frame, page};
use super::jobs::{acts, elements_text, in_path};
use super::text::{class, moment};
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{Caller, DisplaySettings};
use crate::rest::{RestQuery, key_of};
use crate::translations::Translations;
use crate::{App, blocking, files};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use corral::api::attach::{CONNECT_HOME, CONNECT_MAX, connect_name, read_announced};
use corral::api::files::{FileAnswer, FileLocation, FileRequest};
use corral::api::jobs::ListedJob;
use corral::api::read::{JobOutput, JobTexts, ReadCommand, Reader};
use corral::model::{JobKey, JobStat, Share, TermReason};
use corral::record::report::TaskUse;
use corral::spool::view::ViewJob;
use corral::sys;

/// The last bytes of a file that the page shows, and the maximum number of lines found by a search.
const SHOWN: usize = 64 << 10;
const FOUND_MAX: usize = 500;
/// The last bytes that are searched.
const SEARCHED: usize = 256 << 10;

/// A file of the job.
struct File {
    path: String,
    text: String,
    failure: Option<String>,
}

/// The head of the page.
struct Facts {
    id: String,
    /// The id as part of a path.
    link: String,
    name: String,
    command: String,
    user: String,
    queue: String,
    project: String,
    stat: &'static str,
    class: &'static str,
    /// The numbers of elements of an array by state.
    elements: String,
    /// Why the job waits or does not run.
    why: String,
    /// Name, link, slots.
    hosts: Vec<(String, String, u32)>,
    moments: Vec<(&'static str, String)>,
}

impl Facts {
    /// `array`: the array with the state and the times of its elements, which its row lacks.
    fn of(reader: &Reader, job: &ViewJob, id: &str, array: Option<&ListedJob>) -> Facts {
        let (name, command) = names(reader, job);
        let stat = array.map_or(job.row.stat, |array| array.stat);
        Facts {
            link: in_path(id),
            id: id.to_owned(),
            name,
            command,
            user: job.spec.user.clone(),
            queue: job.spec.queue.clone(),
            project: job.spec.project.clone(),
            stat: stat.word(),
            class: class(stat),
            elements: array.map_or_else(String::new, elements_text),
            why: match stat.is_finished() && array.is_some() {
                true => String::new(),
                false => why(job),
            },
            hosts: hosts(job),
            moments: moments(job, array),
        }
    }
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    f: Frame,
    job: Facts,
    is_array: bool,
    is_live: bool,
    tasks: Vec<TaskUse>,
    charts: Vec<Chart>,
    files: Vec<File>,
    find: String,
    /// The output of cjobs -l.
    long: String,
    /// The output of chist -l.
    history: String,
    acts: Vec<(&'static str, String)>,
    texts: Option<Texts>,
    /// For the job's user: the kind of the program of the job that can be opened.
    program: Option<String>,
}

/// What only the job's user can see.
struct Texts {
    texts: JobTexts,
    /// The link to the list of the job's directory.
    cwd: String,
    /// A form that is sent twice submits one job.
    key: String,
}

impl Texts {
    fn of(app: &App, caller: &Caller, job: &ViewJob) -> Result<Option<Texts>, WebError> {
        if job.spec.uid != caller.identity.uid || files::allow(caller).is_err() {
            return Ok(None);
        }
        Ok(Some(Texts {
            texts: app.actor.texts(&caller.identity, job)?,
            cwd: format!("/files?{}", files::query(job.spec.cwd.as_bytes(), b"")),
            key: format!("portal-{}", sys::clock::nonce(12)),
        }))
    }
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(fields): RestQuery,
) -> Result<Response, WebError> {
    let fields = Fields(fields);
    blocking(move || {
        let reader = app.actor.reader(&caller.identity)?;
        let job = reader.job(key_of(&id)?)?;
        let now = app.cluster.now();
        let is_array = job.row.arr.is_some() && !id.contains('[');
        let at = sys::clock::wall_ms();
        let array = is_array.then(|| now.jobs.listed(job.row.j, at)).flatten();
        let words: &[&str] = match is_array {
            true => &["-A", "-w", &id],
            false => &["-l", &id],
        };
        let find = fields.get("find").to_owned();
        let most = if find.is_empty() { SHOWN } else { SEARCHED };
        let output = app.actor.output(&caller.identity, &job, most)?;
        let history = reader.answer(ReadCommand::History, &["-l", &id]);
        let url = format!("/jobs/{}", in_path(&id));
        page(&JobPage {
            f: Frame::new(display, &caller, &now, "/jobs", url),
            is_array,
            is_live: !job.row.stat.is_finished() && !output.is_empty(),
            tasks: job.row.usage.tasks.clone(),
            charts: charts(&app, display.words, &job),
            files: output.iter().map(|file| shown(file, &find)).collect(),
            find,
            long: reader.answer(ReadCommand::Jobs, words)?,
            history: history.unwrap_or_else(|failure| failure.text),
            acts: acts(display.words),
            texts: Texts::of(&app, &caller, &job)?,
            program: program(&app, &caller, &job),
            job: Facts::of(&reader, &job, &id, array.as_ref()),
        })
    })
    .await
}

/// The kind of program that a running job has announced, if its file can be read here.
fn program(app: &App, caller: &Caller, job: &ViewJob) -> Option<String> {
    let is_own = job.spec.uid == caller.identity.uid && !caller.secret.is_empty();
    if !is_own || job.row.stat != JobStat::Run || job.row.arr.is_some() {
        return None;
    }
    let JobKey { id, idx } = job.row.j;
    let home = app.actor.reader(&caller.identity).ok()?.user().home.clone();
    let ask = FileRequest::Read {
        at: FileLocation {
            root: home.into_os_string().into_encoded_bytes(),
            path: format!("{CONNECT_HOME}/{}", connect_name(id, idx)).into_bytes(),
        },
        offset: 0,
        most: CONNECT_MAX as usize,
    };
    let FileAnswer::Bytes { bytes, .. } = app.actor.files(&caller.identity, &ask).ok()? else {
        return None;
    };
    Some(read_announced(&bytes, id, idx).ok()?.kind)
}

/// Charts of the usage of the current or last attempt.
fn charts(app: &App, w: Translations, job: &ViewJob) -> Vec<Chart> {
    let (history, row) = (app.history(), &job.row);
    let ring = history.job(row.j, row.start);
    ring.map_or_else(Vec::new, |ring| {
        chart::of_job(ring, w, sys::clock::wall_ms())
    })
}

/// Name and command; those of the array for an element.
fn names(reader: &Reader, job: &ViewJob) -> (String, String) {
    let row = &job.row;
    let own = |job: &ViewJob| {
        let (name, command) = (&job.row.name, &job.row.command);
        let name = if name.is_empty() { command } else { name };
        (name.to_string(), command.to_string())
    };
    if row.j.idx == 0 || !row.command.is_empty() {
        return own(job);
    }
    match reader.job(JobKey::job(row.j.id)) {
        Ok(array) => own(&array),
        Err(_) => own(job),
    }
}

fn hosts(job: &ViewJob) -> Vec<(String, String, u32)> {
    let host = |share: &Share| (share.0.clone(), in_path(&share.0), share.1);
    job.row.hosts.iter().map(host).collect()
}

fn why(job: &ViewJob) -> String {
    let row = &job.row;
    match (row.stat.is_waiting(), &job.why, &row.halt) {
        (true, Some(why), _) => why.to_string(),
        (false, _, Some(why)) if !row.stat.is_finished() => why.to_string(),
        _ if row.stat.is_finished() => end_sentence(job),
        _ => String::new(),
    }
}

/// How the job ended: by itself with which code, or what ended it.
fn end_sentence(job: &ViewJob) -> String {
    let row = &job.row;
    let mut text = match (row.reason, row.code, row.sig) {
        (TermReason::None, _, sig) if sig > 0 => {
            format!("ended by signal {}", sys::signals::name(sig))
        }
        (TermReason::None, Some(0), _) => TermReason::None.sentence().to_owned(),
        (TermReason::None, Some(code), _) => format!("ended by itself with exit code {code}"),
        (reason, ..) => reason.sentence().to_owned(),
    };
    if !row.text.is_empty() {
        text.push_str(": ");
        text.push_str(&row.text);
    }
    text
}

fn moments(job: &ViewJob, array: Option<&ListedJob>) -> Vec<(&'static str, String)> {
    let (row, now) = (&job.row, sys::clock::wall_ms());
    let all = [
        ("job.submitted", row.submit),
        ("job.dispatched", row.dispatch),
        ("job.started", array.map_or(row.start, |array| array.start)),
        ("job.ended", array.map_or(row.end, |array| array.end)),
    ];
    let passed = all.into_iter().filter(|(_, ms)| *ms > 0);
    passed.map(|(key, ms)| (key, moment(ms, now))).collect()
}

/// The end of a file, or those of its lines that a search finds.
fn shown(file: &JobOutput, find: &str) -> File {
    let (text, failure) = match &file.bytes {
        Ok(bytes) => (String::from_utf8_lossy(bytes).into_owned(), None),
        Err(why) => (String::new(), Some(why.clone())),
    };
    let text = match find {
        "" => text,
        find => {
            let lower = find.to_lowercase();
            let lines = text
                .lines()
                .filter(|line| line.to_lowercase().contains(&lower));
            lines.take(FOUND_MAX).collect::<Vec<_>>().join("\n")
        }
    };
    File {
        path: file.path.to_string_lossy().into_owned(),
        text,
        failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_keeps_the_lines_that_hold_the_text() {
        let file = JobOutput {
            path: "/o".into(),
            bytes: Ok(b"one\nTwo\nthree two\n".to_vec()),
        };
        assert_eq!(shown(&file, "two").text, "Two\nthree two");
        assert_eq!(shown(&file, "").text, "one\nTwo\nthree two\n");
    }
}
