//! Collects the rows of cjobs: streams the view, combines elements with their arrays, formats each
//! row once and orders the formatted rows.
//!
//! Rows are formatted while they are read, so that a list of a hundred thousand jobs keeps only
//! their text in memory and not their values. JSON Lines need no order and are printed at once.

use super::{ListRequest, Style};
use crate::client::exit::{self, Exit, Fail};
use crate::client::read::{self, Source};
use crate::language::tell;
use crate::model::{JobKey, PendReason, Spec};
use crate::record::view::JobRow;
use crate::show::job::{Ctx, JobView};
use crate::show::job_json::{self, JsonJobs};
use crate::show::job_select::{SortKey, Stats, Users, sort_key};
use crate::show::{cell, job_long, job_table, job_tasks};
use crate::spool::view::{JobSet, ViewItem, into_owned};
use crate::text::indexset::{IndexSet, MAX_INDEX};
use crate::text::jobids::JobSel;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// JSON Lines are written in pieces of this size.
const FLUSH: usize = 1 << 18;
/// Maximum number of threads that read and format.
const THREADS_MAX: usize = 4;

/// The result of the command.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Lines for standard error.
    pub err: Vec<String>,
    pub exit: Exit,
}

/// Receives text piece by piece, so that a long list is not in memory twice.
pub(super) type TextSink<'p> = &'p (dyn Fn(&str) -> Result<(), Fail> + Sync);

/// Lists the requested jobs as of the moment of `ctx`.
///
/// # Errors
/// The view cannot be read, or a requested queue does not exist.
pub(super) fn run_at(
    source: &Source,
    request: &ListRequest,
    ctx: Ctx,
    put: TextSink<'_>,
) -> Result<Outcome, Fail> {
    // Without queues all priorities are equal: a missing order is not a reason to fail.
    let queues = source.view.queues().unwrap_or_default();
    let priority: BTreeMap<String, i64> =
        queues.into_iter().map(|q| (q.name, q.priority)).collect();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS_MAX));
    let mut make = |left: Vec<List<'_>>| -> Vec<List<'_>> {
        let sent: Vec<JobKey> = left.into_iter().flat_map(|list| list.rows.sent).collect();
        let mut lists: Vec<_> = (0..threads)
            .map(|_| List::new(request, ctx.same(), &priority, put))
            .collect();
        for list in &mut lists {
            list.rows.skip.extend(sent.iter().copied());
        }
        // Rows printed before a restart count as found by the first list.
        lists[0].rows.count = sent.len();
        lists[0].rows.sent = sent;
        lists
    };
    let (lists, reading) = source
        .view
        .stream_into(&wanted_jobs(request), &mut make, List::job)
        .map_err(|e| source.failed(e))?;
    source.warn(&reading.warnings);
    let list = List::adopt(lists, source)?;
    list.finish(source, &priority)
}

/// The texts that elements take from the row of their array.
struct ArrayText {
    name: String,
    command: String,
}

impl ArrayText {
    fn of(row: &JobRow<'_>) -> ArrayText {
        ArrayText {
            name: text_or(&row.name, &row.command).to_owned(),
            command: row.command.clone().into_owned(),
        }
    }
}

/// An element that was read before its array.
struct EarlyElement {
    row: JobRow<'static>,
    spec: Arc<Spec>,
    why: Option<PendReason>,
}

struct List<'a> {
    rows: Rows<'a>,
    arrays: HashMap<u32, ArrayText>,
    orphans: Vec<EarlyElement>,
}

/// The rows written so far.
struct Rows<'a> {
    request: &'a ListRequest,
    sink: TextSink<'a>,
    ctx: Ctx,
    priority: &'a BTreeMap<String, i64>,
    text: String,
    /// The position of each row in `text`.
    positions: Vec<(SortKey, usize, usize)>,
    json: JsonJobs,
    /// Keys of JSON Lines that are already written; after a restart they must not be written again.
    sent: Vec<JobKey>,
    /// Keys of JSON Lines that are still in `text`.
    unsent: Vec<JobKey>,
    skip: HashSet<JobKey>,
    /// For each id on the command line: whether a visible job has it.
    found: Vec<bool>,
    count: usize,
    failed: Option<Fail>,
}

/// What is requested from the view. Names of users, queues etc. are checked row by row, so that
/// arrays are read together with their elements.
fn wanted_jobs(request: &ListRequest) -> JobSet<'static> {
    let selection = &request.selection;
    let range = |sel: &JobSel| sel.id().map(|id| (id, id));
    let finished = Stats::live().union(selection.stats) != Stats::live();
    JobSet {
        uids: match &selection.users {
            Users::These(uids, names) if names.is_empty() => uids.iter().copied().collect(),
            _ => Vec::new(),
        },
        ids: selection.ids.iter().filter_map(range).collect(),
        finished: finished || !selection.ids.is_empty(),
        spec: None,
    }
}

impl<'a> List<'a> {
    fn new(
        request: &'a ListRequest,
        ctx: Ctx,
        priority: &'a BTreeMap<String, i64>,
        sink: TextSink<'a>,
    ) -> List<'a> {
        let rows = Rows {
            request,
            sink,
            ctx,
            priority,
            text: String::new(),
            positions: Vec::new(),
            json: JsonJobs::default(),
            sent: Vec::new(),
            unsent: Vec::new(),
            skip: HashSet::new(),
            found: vec![false; request.selection.ids.len()],
            count: 0,
            failed: None,
        };
        List {
            rows,
            arrays: HashMap::new(),
            orphans: Vec::new(),
        }
    }

    fn job(&mut self, row: JobRow<'_>, spec: &Arc<Spec>, why: Option<&PendReason>) {
        if let Some(arr) = row.arr.as_deref() {
            let text = ArrayText::of(&row);
            let text = self.arrays.entry(row.j.id).insert_entry(text).into_mut();
            return self.rows.array(&row, &arr.waiting, spec, why, text);
        }
        if row.j.idx == 0 {
            let name = text_or(&row.name, &row.command);
            return self.rows.add(row.j, &row, spec, why, name, &row.command);
        }
        let array = self.arrays.get(&row.j.id);
        match (array, row.command.is_empty()) {
            (Some(array), _) => {
                let (name, command) = (
                    text_or(&row.name, &array.name),
                    text_or(&row.command, &array.command),
                );
                self.rows.add(row.j, &row, spec, why, name, command);
            }
            // The element has its own name and command.
            (None, false) => {
                let name = text_or(&row.name, &row.command);
                self.rows.add(row.j, &row, spec, why, name, &row.command);
            }
            (None, true) => self.orphans.push(EarlyElement {
                row: into_owned(row),
                spec: spec.clone(),
                why: why.cloned(),
            }),
        }
    }

    /// Combines the lists of all threads and adds the elements that were read before their array;
    /// reads arrays that were not selected.
    fn adopt(lists: Vec<List<'a>>, source: &Source) -> Result<Listed<'a>, Fail> {
        let (mut all, mut arrays, mut orphans) = (Vec::new(), HashMap::new(), Vec::new());
        for list in lists {
            arrays.extend(list.arrays);
            orphans.extend(list.orphans);
            all.push(list.rows);
        }
        let missing: HashSet<u32> = orphans
            .iter()
            .map(|o: &EarlyElement| o.row.j.id)
            .filter(|id| !arrays.contains_key(id))
            .collect();
        if !missing.is_empty() {
            let want = JobSet {
                ids: missing.iter().map(|id| (*id, *id)).collect(),
                finished: true,
                ..JobSet::default()
            };
            let mut sink = |piece: ViewItem<'_>| {
                if let ViewItem::Job { row, .. } = piece
                    && row.arr.is_some()
                {
                    arrays.insert(row.j.id, ArrayText::of(&row));
                }
            };
            source
                .view
                .stream(&want, &mut sink)
                .map_err(|e| source.failed(e))?;
        }
        let rows = all.first_mut().expect("there is a list at least");
        for o in &orphans {
            let array = arrays.get(&o.row.j.id);
            let (name, command) = array.map_or(("", ""), |a| (&a.name, &a.command));
            let (name, command) = (text_or(&o.row.name, name), text_or(&o.row.command, command));
            rows.add(o.row.j, &o.row, &o.spec, o.why.as_ref(), name, command);
        }
        for rows in &mut all {
            if let Some(fail) = rows.failed.take() {
                return Err(fail);
            }
        }
        Ok(Listed { all })
    }
}

/// All rows that were found, in parts with their own text.
struct Listed<'a> {
    all: Vec<Rows<'a>>,
}

/// The sort key of a row, the index of its part, and its position in the text of that part.
type RowPosition = (SortKey, usize, usize, usize);

impl Listed<'_> {
    fn finish(self, source: &Source, priority: &BTreeMap<String, i64>) -> Result<Outcome, Fail> {
        let request = self.all[0].request;
        let count: usize = self.all.iter().map(|rows| rows.count).sum();
        let lost = self.missing_ids();
        let by_id = !request.selection.ids.is_empty();
        let mut outcome = Outcome {
            err: Vec::new(),
            exit: Exit::Ok,
        };
        if count == 0 && !by_id {
            check_names(request, source, priority)?;
        }
        if count == 0 && by_id {
            outcome.exit = Exit::NotFound;
        }
        if matches!(request.style, Style::Records) {
            self.records(&lost)?;
            if exit::lsf_name().is_some() {
                // The records show which ids are unknown; LSF returns success in this case.
                outcome.exit = Exit::Ok;
            }
            return Ok(outcome);
        }
        let not_found = |id: &String| format!("Job <{id}> is not found");
        outcome.err.extend(lost.iter().map(not_found));
        if count == 0 && by_id {
            if lost.is_empty() {
                outcome.err.push("No matching job found".to_owned());
            }
        } else if count == 0 {
            outcome.err.push(request.empty_message.to_owned());
        }
        match request.style {
            Style::Lines => self
                .all
                .iter()
                .try_for_each(|rows| (rows.sink)(&rows.text))?,
            _ => self.page()?,
        }
        Ok(outcome)
    }

    /// The positions of all rows in order.
    fn row_positions(&self) -> Vec<RowPosition> {
        let mut places = Vec::with_capacity(self.all.iter().map(|rows| rows.positions.len()).sum());
        for (part, rows) in self.all.iter().enumerate() {
            places.extend(
                rows.positions
                    .iter()
                    .map(|(key, from, to)| (*key, part, *from, *to)),
            );
        }
        // A stable sort is fast if the shards are already in order.
        places.sort_by_key(|(key, ..)| *key);
        places
    }

    fn text(&self, (_, part, from, to): &RowPosition) -> &str {
        &self.all[*part].text[*from..*to]
    }

    /// The ids of the command line for which there is no visible job.
    fn missing_ids(&self) -> Vec<String> {
        let found = |n: usize| self.all.iter().any(|rows| rows.found[n]);
        let ids = self.all[0].request.selection.ids.iter().enumerate();
        let missing = ids.filter(|(n, _)| !found(*n));
        missing.map(|(_, sel)| sel.to_string()).collect()
    }

    /// A table or long pages, in order.
    fn page(&self) -> Result<(), Fail> {
        let request = self.all[0].request;
        let mut out = OutputBuffer::new(self.all[0].sink);
        let places = self.row_positions();
        let long = matches!(request.style, Style::Long { .. });
        let header = !long && !matches!(request.style, Style::ArrayLines);
        if !places.is_empty() && request.header && header {
            match request.style {
                Style::Arrays { .. } => out.text.push_str(job_table::ARRAY_HEADER),
                _ => request.table.header(&mut out.text),
            }
        }
        for (n, place) in places.iter().enumerate() {
            if long && n > 0 {
                out.add(job_long::RULE)?;
            }
            out.add(self.text(place))?;
        }
        out.end()
    }

    /// LSF's JSON object.
    fn records(&self, lost: &[String]) -> Result<(), Fail> {
        let places = self.row_positions();
        let mut out = OutputBuffer::new(self.all[0].sink);
        let command = exit::lsf_name().unwrap_or("cjobs");
        out.add(&format!("{{\n  \"COMMAND\":\"{command}\",\n  \"JOBS\":"))?;
        cell::int(&mut out.text, places.len() + lost.len());
        out.add(",\n  \"RECORDS\":[")?;
        for (n, place) in places.iter().enumerate() {
            out.add(if n > 0 { ",\n    " } else { "\n    " })?;
            out.add(self.text(place))?;
        }
        for (n, id) in lost.iter().enumerate() {
            let first = n + places.len() == 0;
            out.add(if first { "\n    " } else { ",\n    " })?;
            let mut o = cell::Object::begin(&mut out.text);
            o.text("JOBID", id);
            o.text("ERROR", &format!("Job <{id}> is not found"));
            o.end();
        }
        out.add("\n  ]\n}\n")?;
        out.end()
    }
}

/// Output text, collected into pieces before it is written.
struct OutputBuffer<'p> {
    text: String,
    sink: TextSink<'p>,
}

impl<'p> OutputBuffer<'p> {
    fn new(sink: TextSink<'p>) -> OutputBuffer<'p> {
        let text = String::new();
        OutputBuffer { text, sink }
    }

    fn add(&mut self, text: &str) -> Result<(), Fail> {
        self.text.push_str(text);
        if self.text.len() >= FLUSH {
            (self.sink)(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    fn end(self) -> Result<(), Fail> {
        (self.sink)(&self.text)
    }
}

/// Checks the names of queues if nothing was found, because a queue may not exist.
fn check_names(
    request: &ListRequest,
    source: &Source,
    priority: &BTreeMap<String, i64>,
) -> Result<(), Fail> {
    if let Some(queue) = &request.selection.queue
        && !priority.is_empty()
        && !priority.contains_key(queue)
    {
        let known = source.queues()?;
        let known = known.iter().map(|q| q.name.as_str());
        return Err(read::unknown("queue", queue, known));
    }
    Ok(())
}

fn text_or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

impl Rows<'_> {
    /// Adds an array: its elements that have not started are shown in rows of their own.
    fn array(
        &mut self,
        row: &JobRow<'_>,
        waiting: &str,
        spec: &Arc<Spec>,
        why: Option<&PendReason>,
        text: &ArrayText,
    ) {
        if matches!(self.request.style, Style::Arrays { .. } | Style::ArrayLines) {
            return self.summary(row, spec, why, text);
        }
        let selection = &self.request.selection;
        if waiting.is_empty() || !selection.stats.has(row.stat) {
            // A job in another state than the requested ones counts as found.
            self.mark(row.j, spec);
            return;
        }
        match IndexSet::parse(waiting, 1, MAX_INDEX) {
            Ok(set) => {
                for idx in set.iter() {
                    let key = JobKey::element(row.j.id, idx);
                    self.add(key, row, spec, why, &text.name, &text.command);
                }
            }
            Err(e) => tell!("cjobs: warning: array {}: {}", row.j.id, e.message),
        }
    }

    fn summary(
        &mut self,
        row: &JobRow<'_>,
        spec: &Arc<Spec>,
        why: Option<&PendReason>,
        text: &ArrayText,
    ) {
        let v = JobView {
            name: &text.name,
            command: &text.command,
            ..JobView::of(row, spec, why, &self.ctx)
        };
        let selection = &self.request.selection;
        let counts = job_table::ArrayCounts::of(&v).unwrap_or_default();
        let in_state = crate::model::JobStat::ALL
            .iter()
            .any(|s| selection.stats.has(*s) && counts.get(*s) > 0);
        if !in_state || !selection.accepts_in_any_state(&v) {
            self.mark(row.j, spec);
            return;
        }
        let from = self.text.len();
        match self.request.style {
            Style::ArrayLines => job_json::put_array(&mut self.text, &v),
            Style::Arrays { wide } => job_table::put_array(&mut self.text, &v, wide),
            _ => {}
        }
        let key = sort_key(&v, self.priority);
        self.add_row_key(key, from);
        self.mark(row.j, spec);
    }

    fn add_row_key(&mut self, key: SortKey, from: usize) {
        self.positions.push((key, from, self.text.len()));
        self.count += 1;
    }

    /// Notes which ids of the command line exist.
    fn mark(&mut self, key: JobKey, spec: &Spec) {
        let selection = &self.request.selection;
        if selection.users.has(spec.uid, &spec.user, &spec.queue) {
            for (n, sel) in selection.ids.iter().enumerate() {
                self.found[n] |=
                    sel.matches(key.id, key.idx) || matches!(sel, JobSel::Job(id) if *id == key.id);
            }
        }
    }

    fn add(
        &mut self,
        key: JobKey,
        row: &JobRow<'_>,
        spec: &Arc<Spec>,
        why: Option<&PendReason>,
        name: &str,
        command: &str,
    ) {
        let v = JobView {
            key,
            name,
            command,
            ..JobView::of(row, spec, why, &self.ctx)
        };
        let request = self.request;
        if matches!(request.style, Style::Arrays { .. } | Style::ArrayLines) {
            return;
        }
        if !request.selection.accepts(&v) {
            return self.mark(key, spec);
        }
        let out = &mut self.text;
        let from = out.len();
        match request.style {
            Style::Lines => {
                if !self.skip.is_empty() && self.skip.contains(&key) {
                    return self.mark(key, spec);
                }
                self.json.put(out, &v, spec);
            }
            Style::Records => request.table.record(out, |get, out| get(&v, out)),
            Style::Long { unfolded, tasks } => {
                job_long::put(out, &v, unfolded);
                if tasks {
                    job_tasks::put(out, &v);
                }
            }
            _ => {
                request.table.row(out, |get, out| get(&v, out));
                match request.style {
                    Style::Short => job_table::put_more_hosts(out, &v),
                    Style::Reasons => job_table::put_reason(out, &v),
                    _ => {}
                }
            }
        }
        if matches!(request.style, Style::Lines) {
            self.unsent.push(key);
            self.count += 1;
            self.flush();
        } else {
            let sort = sort_key(&v, self.priority);
            self.add_row_key(sort, from);
        }
        if !request.selection.ids.is_empty() {
            self.mark(key, spec);
        }
    }

    fn flush(&mut self) {
        if self.text.len() >= FLUSH {
            if let Err(fail) = (self.sink)(&self.text) {
                self.failed.get_or_insert(fail);
            }
            self.text.clear();
            self.sent.append(&mut self.unsent);
        }
    }
}
