//! Reads the data for the screens from the published view, and the output of a job.
//!
//! Sends no request to the leader and takes no lock. Data that has not changed since the last poll
//! is not read again: each poll opens a few small files, which on a network file system makes their
//! state fresh.

use super::view_data::{
    ClusterSummary, JobItem, Jobs, NeededData, NeededJobs, Page, Subject, ViewData,
};
use crate::client::cpeek;
use crate::client::exit::Exit;
use crate::client::read::{OWN_ONLY, Source, quiet_limit_ms, unknown};
use crate::language::translated;
use crate::model::JobKey;
use crate::record::view::{self, Params, QueueRow};
use crate::show::job::{Ctx, JobView};
use crate::show::job_select::{Users, sort_key};
use crate::show::{host, job_long, queue};
use crate::spool::view::{JobSet, ViewError, ViewItem, ViewJob};
use crate::sys::fs::{self, FileMark};
use crate::text::width::escape;
use std::collections::{BTreeMap, HashSet};

/// Size of the end of a job's output that is read, and number of its lines that are shown.
const OUTPUT_MAX: usize = 32 << 10;
const OUTPUT_LINES: usize = 200;
/// Width of a tab stop.
const TAB: usize = 8;

/// The result of a look at the view.
pub(crate) enum PollResult {
    Data(Box<ViewData>),
    /// Nothing changed.
    Unchanged,
    Failed(String),
}

/// The files of the view at the last look.
#[derive(Default, PartialEq, Eq)]
struct FileMarks {
    jobs: JobFiles,
    /// Other documents that are needed.
    documents: Vec<Option<FileMark>>,
}

/// The files from which a list of jobs is made.
#[derive(Default, PartialEq, Eq)]
struct JobFiles {
    /// Epoch and number of the manifest.
    manifest: (u64, u64),
    delta: Option<FileMark>,
    /// Parameters, which determine whose jobs are visible.
    params: Option<FileMark>,
}

/// Looks at the view repeatedly.
#[derive(Default)]
pub(crate) struct ViewPoller {
    marks: FileMarks,
    needed: NeededData,
    /// The job whose page is shown, the page without its output, and the output.
    job: Option<(ViewJob, Vec<String>, Vec<String>)>,
}

impl ViewPoller {
    /// Looks once for the needed data.
    pub(crate) fn poll(&mut self, source: &Source, requested: &NeededData, ctx: Ctx) -> PollResult {
        let marks = match files_of(source, requested) {
            Ok(marks) => marks,
            Err(why) => return PollResult::Failed(why),
        };
        if marks == self.marks && *requested == self.needed {
            return self.poll_output(source);
        }
        let mut needed = requested.clone();
        if *requested == self.needed && marks.jobs == self.marks.jobs {
            // Only the counts of hosts or queues have changed.
            needed.jobs = None;
        }
        match self.read(source, &needed, ctx) {
            Ok(data) => {
                self.marks = marks;
                self.needed = requested.clone();
                PollResult::Data(Box::new(data))
            }
            Err(why) => {
                self.marks = FileMarks::default();
                PollResult::Failed(why)
            }
        }
    }

    /// The view has not changed, but the job may have written output.
    fn poll_output(&mut self, source: &Source) -> PollResult {
        let Some((job, page, output)) = &mut self.job else {
            return PollResult::Unchanged;
        };
        let now = output_of(source, job);
        if now == *output {
            return PollResult::Unchanged;
        }
        let lines = page.iter().chain(&now).cloned().collect();
        *output = now;
        let page = Page {
            subject: self.needed.page.clone().unwrap_or(Subject::Job(job.row.j)),
            lines,
            is_table: false,
            problem: None,
        };
        match head(source) {
            Ok((head, _)) => PollResult::Data(Box::new(ViewData {
                head,
                page: Some(page),
                ..ViewData::default()
            })),
            Err(why) => PollResult::Failed(why),
        }
    }

    /// Reads everything needed.
    fn read(&mut self, source: &Source, needed: &NeededData, ctx: Ctx) -> Result<ViewData, String> {
        let failed = |e: ViewError| source.failed(e).text;
        let (mut head, params) = head(source)?;
        let counted = source.view.counted_queues().map_err(failed)?;
        head.warnings.extend(counted.warnings);
        let queues = arranged(counted.rows, &ctx);
        let mut data = ViewData::default();
        if needed.hosts {
            let counted = source.view.counted_hosts().map_err(failed)?;
            head.warnings.extend(counted.warnings);
            let mut hosts = counted.rows;
            hosts.sort_by_cached_key(|host| crate::client::read::natural(&host.name));
            data.hosts = Some(hosts);
        }
        if let Some(needed) = needed.jobs {
            let jobs = jobs(source, &params, needed, &ctx, &queues)?;
            data.jobs = Some(jobs.0);
            head.warnings.extend(jobs.1);
        }
        self.job = None;
        data.page = match &needed.page {
            None => None,
            Some(Subject::Host(name)) => Some(host_page(source, name, &ctx)?),
            Some(Subject::Job(key)) => Some(self.job_page(source, &params, *key, &ctx)?),
        };
        data.queues = Some(queues);
        data.head = head;
        Ok(data)
    }

    fn job_page(
        &mut self,
        source: &Source,
        params: &Params,
        key: JobKey,
        ctx: &Ctx,
    ) -> Result<Page, String> {
        let subject = Subject::Job(key);
        let only = |problem, text: String| Page {
            subject: Subject::Job(key),
            lines: vec![text],
            is_table: false,
            problem: Some(problem),
        };
        let want = JobSet {
            ids: vec![(key.id, key.id)],
            finished: true,
            ..JobSet::default()
        };
        let (found, _) = source
            .view
            .collect(&want)
            .map_err(|e| source.failed(e).text)?;
        let array = found.iter().position(|job| job.row.arr.is_some());
        let at = found.iter().position(|job| job.row.j == key).or(array);
        let Some(job) = at.map(|at| &found[at]) else {
            let text = format!("Job <{key}> is not found");
            return Ok(only(Exit::NotFound, text));
        };
        if !source.may_see(params, &job.spec) {
            return Ok(only(Exit::Permission, OWN_ONLY.to_owned()));
        }
        let text = |own: &str, of: fn(&ViewJob) -> &str| match (own, array) {
            ("", Some(array)) => of(&found[array]).to_owned(),
            (own, _) => own.to_owned(),
        };
        let command = text(&job.row.command, |job| &job.row.command);
        let name = text(&job.row.name, |job| &job.row.name);
        let v = JobView {
            key,
            name: if name.is_empty() { &command } else { &name },
            command: &command,
            ..JobView::of(&job.row, &job.spec, job.why.as_ref(), ctx)
        };
        let mut page = String::new();
        job_long::put(&mut page, &v, true);
        let page: Vec<String> = page.trim_matches('\n').lines().map(str::to_owned).collect();
        let output = output_of(source, job);
        let lines = page.iter().chain(&output).cloned().collect();
        self.job = Some((job.clone(), page, output));
        Ok(Page {
            subject,
            lines,
            is_table: false,
            problem: None,
        })
    }
}

/// Marks of the files that change when the needed data change.
fn files_of(source: &Source, needed: &NeededData) -> Result<FileMarks, String> {
    let manifest = source.view.manifest();
    let manifest = manifest.map_err(|e| source.failed(e).text)?;
    let mark = |name: &str| {
        let path = source.layout.view_file(name);
        // Opening the file makes a network file system ask its server.
        drop(fs::read_from(&path, 0, 0));
        fs::mark(&path).ok()
    };
    let is_host = matches!(needed.page, Some(Subject::Host(_)));
    let is_job = matches!(needed.page, Some(Subject::Job(_)));
    let documents = [
        (view::QUEUES, true),
        (view::HOSTS, needed.hosts || is_host),
        (view::ESTIMATES, is_job),
    ];
    let needed = documents.into_iter().filter(|(_, needed)| *needed);
    Ok(FileMarks {
        jobs: JobFiles {
            manifest: (manifest.epoch, manifest.generation),
            delta: match manifest.delta.as_str() {
                "" => None,
                delta => mark(delta),
            },
            params: mark(view::PARAMS),
        },
        documents: needed.map(|(name, _)| mark(name)).collect(),
    })
}

fn head(source: &Source) -> Result<(ClusterSummary, Params), String> {
    let params = source.params().map_err(|fail| fail.text)?;
    let quiet = source.quiet_ms();
    let head = ClusterSummary {
        cluster: params.cluster.clone(),
        master: params.master.clone(),
        epoch: params.epoch,
        silent_ms: quiet.filter(|ms| *ms > quiet_limit_ms(&params)),
        alarms: params.alarms.clone(),
        warnings: Vec::new(),
    };
    Ok((head, params))
}

/// Queues in the order of cqueues.
fn arranged(mut queues: Vec<QueueRow>, ctx: &Ctx) -> Vec<QueueRow> {
    for q in &mut queues {
        q.window_closed = queue::window_closed(q, ctx.now.0, ctx.dates.zone());
    }
    queues.sort_by(|a, b| (-a.priority, &a.name).cmp(&(-b.priority, &b.name)));
    queues
}

/// The needed jobs that the caller may see, and warnings about damage.
fn jobs(
    source: &Source,
    params: &Params,
    needed: NeededJobs,
    ctx: &Ctx,
    queues: &[QueueRow],
) -> Result<(Jobs, Vec<String>), String> {
    let own = Users::one(source.me.uid);
    let users = match needed.all_users {
        true => source.visible_users(Users::All, params).unwrap_or(own),
        false => own,
    };
    let want = JobSet {
        uids: match &users {
            Users::These(uids, names) if names.is_empty() => uids.iter().copied().collect(),
            _ => Vec::new(),
        },
        finished: needed.finished,
        ..JobSet::default()
    };
    let priority: BTreeMap<String, i64> = queues
        .iter()
        .map(|q| (q.name.clone(), q.priority))
        .collect();
    let mut items = Vec::new();
    let warnings = stream(source, &want, ctx, &priority, &users, &mut items)?;
    // For an array that has ended, only the elements are read.
    let arrays: HashSet<u32> = items
        .iter()
        .filter(|item| item.array.is_some())
        .map(|item| item.key.id)
        .collect();
    let missing: HashSet<u32> = items
        .iter()
        .filter(|item| item.key.idx > 0 && !arrays.contains(&item.key.id))
        .map(|item| item.key.id)
        .collect();
    if !missing.is_empty() {
        let want = JobSet {
            ids: missing.iter().map(|id| (*id, *id)).collect(),
            finished: true,
            ..JobSet::default()
        };
        let mut more = Vec::new();
        stream(source, &want, ctx, &priority, &users, &mut more)?;
        items.extend(more.into_iter().filter(|item| item.array.is_some()));
    }
    Ok((Jobs::of(items), warnings))
}

/// Reads jobs and converts them to their compact form.
fn stream(
    source: &Source,
    want: &JobSet<'_>,
    ctx: &Ctx,
    priority: &BTreeMap<String, i64>,
    users: &Users,
    items: &mut Vec<JobItem>,
) -> Result<Vec<String>, String> {
    let mut sink = |piece: ViewItem<'_>| match piece {
        ViewItem::Restart => items.clear(),
        ViewItem::Job { row, spec, why } => {
            if !users.has(spec.uid, &spec.user, &spec.queue) {
                return;
            }
            let v = JobView::of(&row, spec, why, ctx);
            let order = sort_key(&v, priority);
            items.push(JobItem::of(&row, spec, order));
        }
    };
    let reading = source.view.stream(want, &mut sink);
    Ok(reading.map_err(|e| source.failed(e).text)?.warnings)
}

fn host_page(source: &Source, name: &str, ctx: &Ctx) -> Result<Page, String> {
    let counted = source.view.counted_hosts();
    let hosts = counted.map_err(|e| source.failed(e).text)?.rows;
    let mut text = String::new();
    let found = hosts.iter().find(|host| host.name == name);
    match found {
        Some(found) => host::put_long(&mut text, found, &ctx.dates),
        None => {
            let known = hosts.iter().map(|host| host.name.as_str());
            text = unknown("host", name, known).text;
        }
    }
    Ok(Page {
        subject: Subject::Host(name.to_owned()),
        lines: text.lines().map(str::to_owned).collect(),
        is_table: true,
        problem: found.is_none().then_some(Exit::NotFound),
    })
}

/// The end of a job's output, with titles.
fn output_of(source: &Source, job: &ViewJob) -> Vec<String> {
    let row = &job.row;
    if row.arr.is_some() || row.stat.is_waiting() || (row.attempt == 0 && row.start == 0) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for end in cpeek::ends(job, &source.layout, OUTPUT_MAX) {
        lines.push(String::new());
        let title = format!("OUTPUT in {}", escape(&end.path.to_string_lossy()));
        lines.push(format!(" {}", translated(&title)));
        match end.bytes {
            Ok(bytes) if bytes.is_empty() => lines.push(translated("(nothing yet)").into_owned()),
            Ok(bytes) => lines.extend(last_lines(&bytes, bytes.len() >= OUTPUT_MAX)),
            Err(fail) => {
                let why = translated(&fail.text);
                lines.extend(why.lines().map(|line| escape(line).into_owned()));
            }
        }
    }
    lines
}

/// The last lines as a terminal would show them, without executing control characters. `cut`: the
/// beginning of the first line is missing.
fn last_lines(bytes: &[u8], cut: bool) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let lines: Vec<&str> = text.split('\n').collect();
    let skip = usize::from(cut && lines.len() > 1).max(lines.len().saturating_sub(OUTPUT_LINES));
    lines[skip..]
        .iter()
        .map(|line| displayed_line(line))
        .collect()
}

/// A line of output: text that later progress overwrote is left out, tabs become blanks.
fn displayed_line(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or_default();
    let mut out = String::with_capacity(line.len());
    let mut column = 0;
    for part in line.split_inclusive('\t') {
        let (text, tab) = match part.strip_suffix('\t') {
            Some(text) => (text, true),
            None => (part, false),
        };
        let safe = escape(text);
        column += crate::text::width::width(&safe);
        out.push_str(&safe);
        if tab {
            let blanks = TAB - column % TAB;
            column += blanks;
            out.extend(std::iter::repeat_n(' ', blanks));
        }
    }
    out
}

#[cfg(test)]
mod tests;
