//! Jobs as Slurm's commands list them: jobs, started elements, and all elements of an array that
//! have not started, as one row.
//!
//! Owns ids in Slurm's form (`12_3`, `12_[0-9%4]`). Only reads the view.

use super::states::{State, reason};
use crate::client::exit::{Fail, Result};
use crate::client::read::{Source, natural};
use crate::model::{JobKey, PendReason, Spec, Stamp};
use crate::record::view::JobRow;
use crate::spool::view::{JobSet, ViewJob};
use crate::text::hostlist;
use crate::text::indexset::{IndexSet, MAX_INDEX};
use crate::text::slurm::SlurmJobId;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// Maximum length of a list of indices that is shown.
const INDICES_MAX: usize = 64;

/// The part of a job that an item represents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ItemScope {
    Job,
    /// An element, by its index in Corral.
    Element(u32),
    /// Elements that have not started.
    Waiting(IndexSet),
}

/// One line of a list.
#[derive(Clone, Debug)]
pub(crate) struct SlurmItem {
    pub row: Arc<JobRow<'static>>,
    pub spec: Arc<Spec>,
    pub why: Option<PendReason>,
    pub name: Arc<str>,
    pub command: Arc<str>,
    pub part: ItemScope,
}

impl SlurmItem {
    pub(crate) fn id(&self) -> u32 {
        self.row.j.id
    }

    /// The key of the job or element; for several elements that of the job.
    pub(crate) fn key(&self) -> JobKey {
        match self.part {
            ItemScope::Element(idx) => JobKey::element(self.id(), idx),
            _ => JobKey::job(self.id()),
        }
    }

    pub(crate) fn state(&self) -> State {
        State::of(self.row.stat, self.row.reason)
    }

    pub(crate) fn reason(&self) -> &'static str {
        match self.state().why_ended() {
            "" => reason(self.row.stat, self.why.as_ref()),
            why => why,
        }
    }

    /// Returns e.g. `12`, `12_3`, `12_[0-9%4]`.
    pub(crate) fn text(&self) -> String {
        match self.index() {
            None => self.id().to_string(),
            Some(index) => format!("{}_{index}", self.id()),
        }
    }

    /// The index as counted by its submitter: e.g. `3`, `[0-9%4]`.
    pub(crate) fn index(&self) -> Option<String> {
        match &self.part {
            ItemScope::Job => None,
            ItemScope::Element(idx) => Some(self.spec.submitters_index(*idx).to_string()),
            ItemScope::Waiting(set) => {
                let limit = self.row.arr.as_ref().map_or(0, |array| array.limit);
                let limit = match limit {
                    0 => String::new(),
                    n => format!("%{n}"),
                };
                Some(format!("[{}{limit}]", indices(set, &self.spec)))
            }
        }
    }

    /// How long it has run, in seconds.
    pub(crate) fn run_s(&self, now: i64) -> u64 {
        let row = &self.row;
        if row.start == 0 || row.stat.is_waiting() {
            return 0;
        }
        let end = if row.stat.is_finished() { row.end } else { now };
        let whole = Stamp(end).since_ms(Stamp(row.start));
        whole.saturating_sub(row.suspended_ms) / 1000
    }

    /// The slots that it has, or requests.
    pub(crate) fn slots(&self) -> u32 {
        match self.row.hosts.iter().map(|h| h.1).sum() {
            0 => self.spec.min.max(1),
            n => n,
        }
    }

    /// The number of hosts that it has, or at least requests.
    pub(crate) fn nodes(&self) -> usize {
        match self.row.hosts.len() {
            0 => requested_nodes(&self.spec),
            n => n,
        }
    }

    pub(crate) fn node_list(&self) -> String {
        let hosts = self.row.hosts.iter().map(|host| host.0.clone());
        fold(&hosts.collect::<Vec<_>>())
    }

    /// Whether an id of a command line selects it.
    pub(crate) fn is_named(&self, word: &SlurmJobId) -> bool {
        if word.id != self.id() {
            return false;
        }
        let Some(list) = &word.elements else {
            return true;
        };
        let shift = self.spec.index_shift();
        let has = |idx: u32| {
            let raised = (idx + list.shift).checked_sub(shift);
            raised.is_some_and(|index| list.indices.contains(index))
        };
        match &self.part {
            ItemScope::Job => false,
            ItemScope::Element(idx) => has(*idx),
            ItemScope::Waiting(set) => set.iter().any(has),
        }
    }

    /// Splits waiting elements into one item each.
    pub(crate) fn push_each(self, out: &mut Vec<SlurmItem>) {
        let ItemScope::Waiting(set) = &self.part else {
            return out.push(self);
        };
        out.extend(set.iter().map(|idx| SlurmItem {
            part: ItemScope::Element(idx),
            ..self.clone()
        }));
    }
}

/// Sorted hosts, in brackets where names differ only by numbers.
pub(crate) fn fold(hosts: &[String]) -> String {
    if hosts.is_empty() {
        return String::new();
    }
    let mut sorted = hosts.to_vec();
    sorted.sort_by_key(|name| natural(name));
    hostlist::fold(&sorted)
}

/// The number of hosts that `span[]` implies.
fn requested_nodes(spec: &Spec) -> usize {
    let rest = spec.res_req.split_once("span[ptile=").map(|(_, rest)| rest);
    let each = rest.and_then(|rest| rest.split(']').next()?.parse::<u32>().ok());
    let each = each.filter(|n| *n > 0);
    each.map_or(1, |each| spec.min.max(1).div_ceil(each) as usize)
}

fn indices(set: &IndexSet, spec: &Spec) -> String {
    let mut out = String::new();
    for range in set.ranges() {
        let comma = if out.is_empty() { "" } else { "," };
        let (first, last) = (
            spec.submitters_index(range.first),
            spec.submitters_index(range.last),
        );
        // Writing to a string cannot fail.
        let _ = match (first == last, range.step) {
            (true, _) => write!(out, "{comma}{first}"),
            (false, 1) => write!(out, "{comma}{first}-{last}"),
            (false, step) => write!(out, "{comma}{first}-{last}:{step}"),
        };
        if out.len() > INDICES_MAX {
            out.push_str("...");
            break;
        }
    }
    out
}

/// The texts of an array that the rows of its elements leave out.
type Texts = HashMap<u32, (Arc<str>, Arc<str>)>;

/// All requested items, in the order of the view. Prints warnings.
///
/// # Errors
/// The view cannot be read.
pub(crate) fn items(source: &Source, want: &JobSet<'_>) -> Result<Vec<SlurmItem>> {
    let (jobs, reading) = source.view.collect(want).map_err(|e| source.failed(e))?;
    source.warn(&reading.warnings);
    let mut texts = Texts::new();
    note(&jobs, &mut texts);
    let lacks = |job: &&ViewJob| job.row.j.idx > 0 && job.row.command.is_empty();
    let lost: HashSet<u32> = jobs
        .iter()
        .filter(lacks)
        .map(|job| job.row.j.id)
        .filter(|id| !texts.contains_key(id))
        .collect();
    if !lost.is_empty() {
        let want = JobSet {
            ids: lost.iter().map(|id| (*id, *id)).collect(),
            finished: true,
            ..JobSet::default()
        };
        let (arrays, _) = source.view.collect(&want).map_err(|e| source.failed(e))?;
        note(&arrays, &mut texts);
    }
    jobs.into_iter()
        .filter_map(|job| item(job, &texts).transpose())
        .collect()
}

fn note(jobs: &[ViewJob], texts: &mut Texts) {
    for job in jobs.iter().filter(|job| job.row.arr.is_some()) {
        texts.insert(job.row.j.id, own_texts(&job.row));
    }
}

fn own_texts(row: &JobRow<'_>) -> (Arc<str>, Arc<str>) {
    let name = if row.name.is_empty() {
        &row.command
    } else {
        &row.name
    };
    (Arc::from(&**name), Arc::from(&*row.command))
}

fn item(job: ViewJob, texts: &Texts) -> Result<Option<SlurmItem>> {
    let ViewJob { row, spec, why } = job;
    let (mut name, mut command) = own_texts(&row);
    let part = match (&row.arr, row.j.idx) {
        (Some(array), _) if array.waiting.is_empty() => return Ok(None),
        (Some(array), _) => {
            let set = IndexSet::parse(&array.waiting, 1, MAX_INDEX);
            let wrong = |e: crate::text::ParseError| {
                Fail::system(format!("array {}: {}", row.j.id, e.message))
            };
            ItemScope::Waiting(set.map_err(wrong)?)
        }
        (None, 0) => ItemScope::Job,
        (None, idx) => {
            if let Some((array_name, array_command)) = texts.get(&row.j.id) {
                if name.is_empty() {
                    name = array_name.clone();
                }
                if command.is_empty() {
                    command = array_command.clone();
                }
            }
            ItemScope::Element(idx)
        }
    };
    Ok(Some(SlurmItem {
        row: Arc::new(row),
        spec,
        why,
        name,
        command,
        part,
    }))
}
