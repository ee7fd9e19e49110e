//! The data for the screens of cview, as read from the published view.
//!
//! Owns the compact form in which all jobs are held, so that a hundred thousand of them cost little
//! until they are shown. Reads nothing and formats nothing.

use crate::client::exit::Exit;
use crate::model::{JobKey, JobStat, Spec};
use crate::record::view::{ArrayRow, HostRow, JobRow, QueueRow};
use crate::show::job_select::SortKey;
use crate::text::IndexSet;
use crate::text::indexset::MAX_INDEX;
use crate::text::width::truncate;
use compact_str::CompactString;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum width of a job's name or command that is kept, in columns.
const NAME_MAX: usize = 200;

/// The result of one read. `None`: it was not requested.
#[derive(Default)]
pub(crate) struct ViewData {
    pub head: ClusterSummary,
    pub queues: Option<Vec<QueueRow>>,
    pub hosts: Option<Vec<HostRow>>,
    pub jobs: Option<Jobs>,
    pub page: Option<Page>,
}

/// The cluster as a whole.
#[derive(Clone, Default, Debug)]
pub(crate) struct ClusterSummary {
    pub cluster: String,
    pub master: String,
    pub epoch: u64,
    /// How long the leader has been silent, if that is too long, ms.
    pub silent_ms: Option<u64>,
    pub alarms: Vec<String>,
    /// Damage that was found while reading.
    pub warnings: Vec<String>,
}

/// The subject of a page of details.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    Job(JobKey),
    Host(String),
}

/// Everything about one job or host, line by line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Page {
    pub subject: Subject,
    pub lines: Vec<String>,
    /// The lines are rows of a table: they are not wrapped.
    pub is_table: bool,
    /// Set if the lines say why there is nothing to show: the exit code of a command that only
    /// prints.
    pub problem: Option<Exit>,
}

/// The data that the visible screen needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct NeededData {
    pub hosts: bool,
    pub jobs: Option<NeededJobs>,
    pub page: Option<Subject>,
}

/// The jobs that are needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NeededJobs {
    /// The jobs of all users, not only the caller's.
    pub all_users: bool,
    /// Finished jobs as well.
    pub finished: bool,
}

/// A job, array or element.
#[derive(Debug)]
pub(crate) struct JobItem {
    pub key: JobKey,
    pub stat: JobStat,
    pub spec: Arc<Spec>,
    /// The name without the index; if it has no name, the command.
    pub name: CompactString,
    pub slots: u32,
    /// Time of submission, ms.
    pub submit: i64,
    /// `None` for most waiting jobs.
    run: Option<Box<RunFacts>>,
    pub array: Option<Box<ArrayFacts>>,
    /// The sort key without the job's key.
    order: (i64, i64),
    rank: u8,
}

/// Data of a job that has or had hosts.
#[derive(Clone, Default, PartialEq, Debug)]
struct RunFacts {
    /// E.g. `h1`, `2*h1:4*h2`.
    hosts: Box<str>,
    /// Times in ms; 0: not yet.
    start: i64,
    end: i64,
    suspended_ms: u64,
    cpu_ms: u64,
    mem_kb: u64,
}

impl RunFacts {
    fn of(row: &JobRow<'_>) -> RunFacts {
        let mut hosts = String::new();
        for (n, host) in row.hosts.iter().enumerate() {
            if n > 0 {
                hosts.push(':');
            }
            if host.1 != 1 {
                hosts.push_str(&format!("{}*", host.1));
            }
            hosts.push_str(&host.0);
        }
        RunFacts {
            hosts: hosts.into(),
            start: row.start,
            end: row.end,
            suspended_ms: row.suspended_ms,
            cpu_ms: row.usage.cpu_ms,
            mem_kb: row.usage.mem_kb,
        }
    }
}

/// The data of an array's row about its elements.
#[derive(Debug)]
pub(crate) struct ArrayFacts {
    /// All indices.
    pub indices: Box<str>,
    /// Elements that have no row.
    pub waiting: IndexSet,
    /// Number of elements in each state, by position in [`JobStat::ALL`], including waiting ones.
    pub counts: [u64; JobStat::ALL.len()],
    /// When the first of its elements started and the last one ended, among those that have rows,
    /// ms; 0: none.
    start: i64,
    end: i64,
}

impl ArrayFacts {
    fn of(row: &ArrayRow, stat: JobStat) -> ArrayFacts {
        // If the text is damaged, only the elements are lost, not the array.
        let waiting = IndexSet::parse(&row.waiting, 1, MAX_INDEX).unwrap_or_default();
        let mut counts = [0; JobStat::ALL.len()];
        for (count, known) in counts.iter_mut().zip(JobStat::ALL) {
            let own = row.counts.get(known.word()).copied().unwrap_or(0);
            *count = u64::from(own) + if known == stat { waiting.len() } else { 0 };
        }
        ArrayFacts {
            indices: row.all.as_str().into(),
            waiting,
            counts,
            start: 0,
            end: 0,
        }
    }

    fn note_times_of(&mut self, element: &JobItem) {
        let start = element.start();
        if start > 0 && (self.start == 0 || start < self.start) {
            self.start = start;
        }
        self.end = self.end.max(element.end());
    }

    pub(crate) fn count(&self, stat: JobStat) -> u64 {
        let at = JobStat::ALL.iter().position(|s| *s == stat);
        at.map_or(0, |at| self.counts[at])
    }

    /// Number of elements that have not ended.
    pub(crate) fn unfinished(&self) -> u64 {
        let live = JobStat::ALL.iter().filter(|s| !s.is_finished());
        live.map(|s| self.count(*s)).sum()
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl JobItem {
    pub(crate) fn of(row: &JobRow<'_>, spec: &Arc<Spec>, order: SortKey) -> JobItem {
        let name = match &*row.name {
            "" => &*row.command,
            name => name,
        };
        let used: u32 = row.hosts.iter().map(|host| host.1).sum();
        JobItem {
            key: row.j,
            stat: row.stat,
            spec: spec.clone(),
            name: CompactString::from(truncate(name, NAME_MAX)),
            slots: if used > 0 { used } else { spec.min },
            submit: row.submit,
            run: Some(RunFacts::of(row))
                .filter(|run| *run != RunFacts::default())
                .map(Box::new),
            rank: order.0,
            order: (order.1, order.2),
            array: row
                .arr
                .as_ref()
                .map(|arr| Box::new(ArrayFacts::of(arr, row.stat))),
        }
    }

    /// The position in the lists of cjobs.
    pub(crate) fn order(&self) -> SortKey {
        (self.rank, self.order.0, self.order.1, self.key)
    }

    /// E.g. `h1`, `2*h1:4*h2`.
    pub(crate) fn hosts(&self) -> &str {
        self.run.as_ref().map_or("", |run| &run.hosts)
    }

    /// The start time, ms; 0: not yet. Of an array, that of its first element.
    pub(crate) fn start(&self) -> i64 {
        match (&self.array, &self.run) {
            (Some(array), _) => array.start,
            (None, run) => run.as_ref().map_or(0, |run| run.start),
        }
    }

    /// The end time, ms; 0: not yet. An array ends with its last element.
    pub(crate) fn end(&self) -> i64 {
        match (&self.array, &self.run) {
            (Some(array), _) if array.unfinished() > 0 => 0,
            (Some(array), _) => array.end,
            (None, run) => run.as_ref().map_or(0, |run| run.end),
        }
    }

    pub(crate) fn cpu_ms(&self) -> u64 {
        self.run.as_ref().map_or(0, |run| run.cpu_ms)
    }

    pub(crate) fn mem_kb(&self) -> u64 {
        self.run.as_ref().map_or(0, |run| run.mem_kb)
    }

    /// How long the job waits or waited, or runs or ran, without suspensions, ms. For an array:
    /// from the first start to the last end.
    pub(crate) fn time_ms(&self, now: i64) -> u64 {
        let stat = self.shown_stat();
        let until = match stat.is_finished() {
            true => self.end(),
            false => now,
        };
        let off = self.run.as_ref().map_or(0, |run| run.suspended_ms);
        let (since, off) = match self.start() {
            start if start > 0 && !stat.is_waiting() => (start, off),
            _ => (self.submit, 0),
        };
        let whole = u64::try_from(until.saturating_sub(since)).unwrap_or(0);
        whole.saturating_sub(off)
    }

    /// The state to show; for an array, that of its most active elements.
    pub(crate) fn shown_stat(&self) -> JobStat {
        use JobStat::{Done, Exit, Pend, Psusp, Run, Ssusp, Unkwn, Ususp};
        let Some(array) = &self.array else {
            return self.stat;
        };
        let order = [Run, Unkwn, Ssusp, Ususp, Pend, Psusp, Exit, Done];
        let first = order.into_iter().find(|stat| array.count(*stat) > 0);
        first.unwrap_or(self.stat)
    }
}

/// All jobs that were read, in the order of cjobs.
#[derive(Default, Debug)]
pub(crate) struct Jobs {
    pub items: Vec<JobItem>,
    /// Indices of all items, sorted by key.
    by_key: Vec<u32>,
    /// Indices of the elements with rows, by array, sorted by element index.
    elements: HashMap<u32, Vec<u32>>,
}

impl Jobs {
    pub(crate) fn of(mut items: Vec<JobItem>) -> Jobs {
        items.shrink_to_fit();
        items.sort_by_key(JobItem::order);
        let mut by_key: Vec<u32> = (0..).take(items.len()).collect();
        by_key.sort_unstable_by_key(|n| items[*n as usize].key);
        let mut elements: HashMap<u32, Vec<u32>> = HashMap::new();
        for n in 0..items.len() {
            let key = items[n].key;
            if key.idx == 0 {
                continue;
            }
            let place = u32::try_from(n).unwrap_or(u32::MAX);
            elements.entry(key.id).or_default().push(place);
            if items[n].name.is_empty()
                && let Some(array) = index_of(&items, &by_key, JobKey::job(key.id))
            {
                items[n].name = items[array].name.clone();
            }
        }
        for (id, list) in &mut elements {
            list.sort_by_key(|n| items[*n as usize].key);
            let array = index_of(&items, &by_key, JobKey::job(*id));
            note_times(&mut items, array, list);
        }
        Jobs {
            items,
            by_key,
            elements,
        }
    }

    /// Finds a job, array or element that has a row.
    pub(crate) fn find(&self, key: JobKey) -> Option<&JobItem> {
        let place = index_of(&self.items, &self.by_key, key)?;
        self.items.get(place)
    }

    /// Indices of the elements of an array that have rows, sorted by element index.
    pub(crate) fn elements_of(&self, id: u32) -> &[u32] {
        self.elements.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Whether this is an element whose array is in the list: it is shown below the array.
    pub(crate) fn is_below_array(&self, item: &JobItem) -> bool {
        item.key.idx > 0 && self.find(JobKey::job(item.key.id)).is_some()
    }
}

/// Gives the array at this place the times of its elements.
fn note_times(items: &mut [JobItem], array: Option<usize>, elements: &[u32]) {
    let Some(at) = array else {
        return;
    };
    let Some(mut facts) = items[at].array.take() else {
        return;
    };
    for n in elements {
        facts.note_times_of(&items[*n as usize]);
    }
    items[at].array = Some(facts);
}

fn index_of(items: &[JobItem], by_key: &[u32], key: JobKey) -> Option<usize> {
    let found = by_key.binary_search_by_key(&key, |n| items[*n as usize].key);
    found.ok().map(|at| by_key[at] as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Share;

    fn item(key: JobKey, stat: JobStat, order: i64) -> JobItem {
        let row = JobRow {
            j: key,
            stat,
            submit: 1000,
            start: if stat.is_waiting() { 0 } else { 5000 },
            suspended_ms: 500,
            hosts: vec![Share("h1".into(), 2), Share("h2".into(), 1)],
            name: if key.idx == 0 { "n".into() } else { "".into() },
            ..JobRow::default()
        };
        JobItem::of(&row, &Arc::default(), (0, order, 0, key))
    }

    #[test]
    fn elements_have_the_name_of_their_array_and_are_found_by_index() {
        let jobs = Jobs::of(vec![
            item(JobKey::element(7, 9), JobStat::Run, 1),
            item(JobKey::element(7, 2), JobStat::Run, 2),
            item(JobKey::job(7), JobStat::Pend, 3),
            item(JobKey::element(8, 1), JobStat::Run, 4),
        ]);
        let below: Vec<u32> = jobs.elements_of(7).to_vec();
        let keys = below.iter().map(|n| jobs.items[*n as usize].key.idx);
        assert_eq!(keys.collect::<Vec<_>>(), [2, 9]);
        assert_eq!(&*jobs.find(JobKey::element(7, 9)).unwrap().name, "n");
        assert!(jobs.is_below_array(&jobs.items[0]));
        assert!(!jobs.is_below_array(jobs.find(JobKey::element(8, 1)).unwrap()));
    }

    #[test]
    fn times_count_from_the_submission_or_the_start() {
        let one = item(JobKey::job(1), JobStat::Run, 0);
        assert_eq!(
            (one.time_ms(9000), one.slots, one.hosts()),
            (3500, 3, "2*h1:h2")
        );
        assert_eq!(item(JobKey::job(1), JobStat::Pend, 0).time_ms(9000), 8000);
        assert_eq!(item(JobKey::job(1), JobStat::Pend, 0).time_ms(0), 0);
    }

    #[test]
    fn an_array_counts_its_elements() {
        let row = ArrayRow {
            all: "1-5".into(),
            waiting: "3-5".into(),
            counts: [("RUN".to_owned(), 1), ("DONE".to_owned(), 1)].into(),
            ..ArrayRow::default()
        };
        let facts = ArrayFacts::of(&row, JobStat::Pend);
        assert_eq!(facts.count(JobStat::Pend), 3);
        assert_eq!((facts.unfinished(), facts.total()), (4, 5));
    }

    /// The row of an array stays PEND after its last element has ended.
    #[test]
    fn an_array_has_the_state_and_the_times_of_its_elements() {
        let element = |idx, stat: JobStat, start, end| {
            let row = JobRow {
                j: JobKey::element(7, idx),
                stat,
                submit: 1000,
                start,
                end,
                ..JobRow::default()
            };
            JobItem::of(&row, &Arc::default(), (0, 1, 0, row.j))
        };
        let array = |waiting: &str, counts: &[(&str, u32)]| {
            let counts = counts.iter().map(|(stat, n)| ((*stat).to_owned(), *n));
            let row = JobRow {
                j: JobKey::job(7),
                stat: JobStat::Pend,
                submit: 1000,
                arr: Some(Box::new(ArrayRow {
                    all: "1-3".into(),
                    waiting: waiting.into(),
                    counts: counts.collect(),
                    ..ArrayRow::default()
                })),
                ..JobRow::default()
            };
            JobItem::of(&row, &Arc::default(), (0, 0, 0, row.j))
        };
        let seen = |items: Vec<JobItem>, now| {
            let jobs = Jobs::of(items);
            let item = jobs.find(JobKey::job(7)).unwrap();
            let times = (item.start(), item.end(), item.time_ms(now));
            (item.shown_stat(), times)
        };
        let waits = vec![array("1-3", &[])];
        assert_eq!(seen(waits, 9000), (JobStat::Pend, (0, 0, 8000)));
        let some = [
            array("3", &[("DONE", 1), ("RUN", 1)]),
            element(2, JobStat::Run, 4000, 0),
            element(1, JobStat::Done, 3000, 5000),
        ];
        assert_eq!(seen(some.into(), 9000), (JobStat::Run, (3000, 0, 6000)));
        // One was ended before it started.
        let all = || {
            vec![
                element(1, JobStat::Done, 3000, 5000),
                element(2, JobStat::Done, 4000, 8000),
                element(3, JobStat::Exit, 0, 7000),
                array("", &[("DONE", 2), ("EXIT", 1)]),
            ]
        };
        let ended = (JobStat::Exit, (3000, 8000, 5000));
        assert_eq!(seen(all(), 9000), ended);
        assert_eq!(seen(all(), 99_000), ended, "its time does not grow");
    }
}
