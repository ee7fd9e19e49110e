//! All known jobs, held in memory for fast lists: read once for all clients, filtered by what each
//! client may see.
//!
//! Owns which jobs are in a list, in which order, and where a page begins. A row is formatted only
//! if it is on the page, so the cost of a list of a hundred thousand jobs is that of one page.

use super::Failure;
use super::read::Reader;
use crate::client::cview::columns::compare_jobs;
use crate::client::cview::filter::Filter;
use crate::client::cview::view_data::{JobItem, Jobs};
use crate::model::{JobKey, JobStat};
use crate::record::device_use::DeviceUse;
use crate::record::view;
use crate::show::job::JobView;
use crate::show::job_select::{Users, sort_key};
use crate::spool::view::{JobSet, ViewItem};
use crate::sys::fs::{self, FileMark};
use std::collections::BTreeMap;

/// Maximum number of rows on one page.
pub const PAGE_MAX: usize = 500;

/// Columns by which a list can be sorted: the name, and the column of `cview` with the same order.
const COLUMNS: &[(&str, usize)] = &[
    ("id", 0),
    ("user", 1),
    ("stat", 2),
    ("queue", 3),
    ("slots", 4),
    ("host", 5),
    ("time", 6),
    ("cpu", 7),
    ("mem", 8),
    ("submit", 9),
    ("name", 10),
];

/// The names of the columns by which a list can be sorted.
pub fn columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, _)| *name)
}

/// The state of the view's files at one time: equal marks mean that nothing has changed.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ViewMark {
    manifest: (u64, u64),
    delta: Option<FileMark>,
    others: [Option<FileMark>; 4],
}

impl ViewMark {
    /// The current mark.
    ///
    /// # Errors
    /// There is no view, or it cannot be read.
    pub fn current_mark(reader: &Reader) -> Result<ViewMark, Failure> {
        let source = reader.source();
        let manifest = source.view.manifest().map_err(|e| source.failed(e))?;
        let mark = |name: &str| {
            let path = source.layout.view_file(name);
            // Opening the file makes a network file system query its server.
            drop(fs::read_from(&path, 0, 0));
            fs::mark(&path).ok()
        };
        Ok(ViewMark {
            manifest: (manifest.epoch, manifest.generation),
            delta: match manifest.delta.as_str() {
                "" => None,
                delta => mark(delta),
            },
            others: [view::QUEUES, view::HOSTS, view::PARAMS, view::LIMITS].map(mark),
        })
    }

    /// Whether the jobs are the same as at the time of `other`.
    pub fn has_jobs_of(&self, other: &ViewMark) -> bool {
        (self.manifest, &self.delta) == (other.manifest, &other.delta)
    }
}

/// The users whose jobs a user may see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VisibleJobs {
    uid: u32,
    users: Users,
}

impl VisibleJobs {
    /// The users whose jobs this reader's user may see now.
    ///
    /// # Errors
    /// As [`ViewMark::current_mark`].
    pub fn of(reader: &Reader) -> Result<VisibleJobs, Failure> {
        let source = reader.source();
        let (uid, params) = (source.me.uid, source.params()?);
        let users = source.visible_users(Users::All, &params);
        Ok(VisibleJobs {
            uid,
            users: users.unwrap_or_else(|| Users::one(uid)),
        })
    }

    fn has(&self, item: &JobItem) -> bool {
        let spec = &item.spec;
        self.users.has(spec.uid, &spec.user, &spec.queue)
    }
}

/// Selects jobs for a list, and a part of it.
#[derive(Clone, Default, Debug)]
pub struct JobQuery {
    /// Words as entered in `cview` after `/`: `user:u1 state:run weather`.
    pub filter: String,
    /// Only jobs of the requesting user.
    pub own_only: bool,
    /// Also finished ones.
    pub finished: bool,
    /// One of [`columns`]; empty: the order of `cjobs`.
    pub sort: String,
    pub reverse: bool,
    /// The elements of this array instead of whole jobs.
    pub array: Option<u32>,
    /// Number of rows before the page, and on it.
    pub from: usize,
    pub count: usize,
}

/// A job, an array or an element of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedJob {
    pub id: String,
    pub user: String,
    pub stat: JobStat,
    pub queue: String,
    pub name: String,
    pub hosts: String,
    pub slots: u32,
    /// Times in ms since 1970, 0: not yet.
    pub submit: i64,
    pub start: i64,
    pub end: i64,
    /// Waiting or run time, ms.
    pub time_ms: u64,
    pub cpu_ms: u64,
    pub mem_kb: u64,
    /// For an array: its elements by state, without states that no element has.
    pub elements: Vec<(JobStat, u64)>,
}

/// A part of a list.
#[derive(Clone, Debug, Default)]
pub struct JobPage {
    pub rows: Vec<ListedJob>,
    /// Number of rows of the whole list.
    pub total: usize,
    pub from: usize,
    /// Jobs and elements of the whole list by state.
    pub counts: Vec<(JobStat, u64)>,
}

/// Maximum number of running jobs whose usage is kept.
pub const USES_MAX: usize = 1_000;

/// The usage of a running job, as last reported by its hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct JobUse {
    pub key: JobKey,
    /// When its attempt started, ms since 1970.
    pub start: i64,
    pub cpu_ms: u64,
    pub mem_kb: u64,
    pub swap_kb: u64,
    pub procs: u32,
    pub threads: u32,
    /// KB read from and written to files since its start.
    pub read_kb: u64,
    pub write_kb: u64,
    /// Use of GPUs and of the network.
    pub devices: DeviceUse,
}

impl JobUse {
    fn of(row: &view::JobRow<'_>) -> Option<JobUse> {
        let u = &row.usage;
        let runs = row.start > 0 && !row.stat.is_finished() && !row.stat.is_waiting();
        (runs && row.arr.is_none()).then_some(JobUse {
            key: row.j,
            start: row.start,
            cpu_ms: u.cpu_ms,
            mem_kb: u.mem_kb,
            swap_kb: u.swap_kb,
            procs: u.procs,
            threads: u.threads,
            read_kb: u.read_kb,
            write_kb: u.write_kb,
            devices: u.devices(),
        })
    }
}

/// All jobs of the view at one time.
#[derive(Default)]
pub struct JobIndex {
    jobs: Jobs,
    /// The usage of running jobs: of the first [`USES_MAX`] of them.
    pub uses: Vec<JobUse>,
    /// Damage that was found while reading.
    pub warnings: Vec<String>,
}

impl JobIndex {
    /// Reads all known jobs of all users, including finished ones.
    ///
    /// # Errors
    /// As [`ViewMark::current_mark`].
    pub fn read(reader: &Reader) -> Result<JobIndex, Failure> {
        let source = reader.source();
        let ctx = source.ctx();
        let queues = source.queues().unwrap_or_default();
        let priority: BTreeMap<String, i64> =
            queues.into_iter().map(|q| (q.name, q.priority)).collect();
        let (mut items, mut uses) = (Vec::new(), Vec::new());
        let reading = source
            .view
            .stream(&JobSet::all(), &mut |piece| match piece {
                ViewItem::Restart => {
                    items.clear();
                    uses.clear();
                }
                ViewItem::Job { row, spec, why } => {
                    if uses.len() < USES_MAX {
                        uses.extend(JobUse::of(&row));
                    }
                    let v = JobView::of(&row, spec, why, &ctx);
                    let order = sort_key(&v, &priority);
                    items.push(JobItem::of(&row, spec, order));
                }
            });
        let reading = reading.map_err(|e| source.failed(e))?;
        Ok(JobIndex {
            jobs: Jobs::of(items),
            uses,
            warnings: reading.warnings,
        })
    }

    /// Number of rows, elements included.
    pub fn len(&self) -> usize {
        self.jobs.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.jobs.items.is_empty()
    }

    /// A job, array or element as lists show it.
    pub fn listed(&self, key: JobKey, now: i64) -> Option<ListedJob> {
        self.jobs.find(key).map(|item| listed_job(item, now))
    }

    /// A page of a list.
    ///
    /// # Errors
    /// The filter or the column is wrong.
    pub fn page(
        &self,
        query: &JobQuery,
        visible: &VisibleJobs,
        now: i64,
    ) -> Result<JobPage, Failure> {
        let filter = Filter::parse(&query.filter).map_err(invalid)?;
        let column = match query.sort.as_str() {
            "" => None,
            name => Some(column(name)?),
        };
        let mut text = String::new();
        let mut fits = |item: &JobItem| {
            (!query.own_only || item.spec.uid == visible.uid)
                && visible.has(item)
                && (filter.is_empty() || filter.fits_job(item, &mut text))
        };
        let mut places: Vec<u32> = match query.array {
            Some(id) => self.jobs.elements_of(id).to_vec(),
            None => self.tops(query.finished),
        };
        places.retain(|at| fits(&self.jobs.items[*at as usize]));
        let item = |at: &u32| &self.jobs.items[*at as usize];
        if let Some(column) = column {
            // The sort is stable: equal rows keep their order.
            places.sort_by(|a, b| compare_jobs(column, item(a), item(b), now));
        }
        if query.reverse {
            places.reverse();
        }
        let count = query.count.clamp(1, PAGE_MAX);
        let from = match places.len() {
            0 => 0,
            total => query.from.min((total - 1) / count * count),
        };
        let rows = places.iter().skip(from).take(count);
        Ok(JobPage {
            rows: rows.map(|at| listed_job(item(at), now)).collect(),
            total: places.len(),
            from,
            counts: counts(places.iter().map(item)),
        })
    }

    /// Indices of whole jobs and arrays, and of elements whose array is no longer known.
    fn tops(&self, finished: bool) -> Vec<u32> {
        let live = |item: &JobItem| match &item.array {
            Some(array) => array.unfinished() > 0,
            None => !item.stat.is_finished(),
        };
        let all = (0..).zip(&self.jobs.items);
        let shown = all.filter(|(_, item)| finished || live(item));
        let tops = shown.filter(|(_, item)| !self.jobs.is_below_array(item));
        tops.map(|(at, _)| at).collect()
    }

    /// Unfinished jobs and elements by queue and by user, as far as the user sees them: pending and
    /// started ones, and the longest and the median wait of the pending jobs, ms.
    pub fn sums(&self, visible: &VisibleJobs, now: i64) -> JobSums {
        let mut sums = JobSums::default();
        let mut waits = Vec::new();
        let live = self.jobs.items.iter().filter(|item| visible.has(item));
        for item in live {
            if self.jobs.is_below_array(item) && item.stat.is_waiting() {
                continue;
            }
            let (pending, started) = match (&item.array, item.stat) {
                (Some(array), _) => (array.waiting.len(), 0),
                (None, stat) if stat.is_finished() => continue,
                (None, stat) => (u64::from(stat.is_waiting()), u64::from(!stat.is_waiting())),
            };
            for (map, name) in [
                (&mut sums.by_user, &item.spec.user),
                (&mut sums.by_queue, &item.spec.queue),
            ] {
                let sum = map.entry(name.clone()).or_default();
                sum.pending += pending;
                sum.started += started;
                sum.slots += started * u64::from(item.slots);
            }
            if item.stat == JobStat::Pend && pending > 0 {
                // An array of which elements run waits since its submission, too.
                waits.push(u64::try_from(now.saturating_sub(item.submit)).unwrap_or(0));
            }
        }
        waits.sort_unstable();
        sums.longest_wait_ms = waits.last().copied().unwrap_or(0);
        sums.middle_wait_ms = waits.get(waits.len() / 2).copied().unwrap_or(0);
        sums
    }
}

/// Jobs of a queue or user.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct JobSum {
    pub pending: u64,
    pub started: u64,
    /// Slots of started jobs.
    pub slots: u64,
}

/// The result of [`JobIndex::sums`].
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct JobSums {
    pub by_queue: BTreeMap<String, JobSum>,
    pub by_user: BTreeMap<String, JobSum>,
    pub longest_wait_ms: u64,
    pub middle_wait_ms: u64,
}

fn invalid(text: String) -> Failure {
    Failure {
        kind: super::FailureKind::Wrong,
        text,
    }
}

fn column(name: &str) -> Result<usize, Failure> {
    let found = COLUMNS.iter().find(|(known, _)| *known == name);
    found.map(|(_, column)| *column).ok_or_else(|| {
        let names: Vec<&str> = columns().collect();
        let name = crate::text::width::escape(name);
        invalid(format!("no column {name}; there are: {}", names.join(" ")))
    })
}

fn listed_job(item: &JobItem, now: i64) -> ListedJob {
    let elements = item.array.as_deref().map_or_else(Vec::new, |array| {
        let each = JobStat::ALL.iter().map(|stat| (*stat, array.count(*stat)));
        each.filter(|(_, n)| *n > 0).collect()
    });
    let mut name = item.name.to_string();
    if item.key.idx > 0 {
        name.push_str(&format!("[{}]", item.key.idx));
    }
    ListedJob {
        id: item.key.to_string(),
        user: item.spec.user.clone(),
        stat: item.shown_stat(),
        queue: item.spec.queue.clone(),
        name,
        hosts: item.hosts().to_owned(),
        slots: item.slots,
        submit: item.submit,
        start: item.start(),
        end: item.end(),
        time_ms: item.time_ms(now),
        cpu_ms: item.cpu_ms(),
        mem_kb: item.mem_kb(),
        elements,
    }
}

/// Number of jobs by state; an array counts its elements.
fn counts<'i>(items: impl Iterator<Item = &'i JobItem>) -> Vec<(JobStat, u64)> {
    let mut sums = [0u64; JobStat::ALL.len()];
    for item in items {
        for (sum, stat) in sums.iter_mut().zip(JobStat::ALL) {
            *sum += match &item.array {
                Some(array) => array.count(stat),
                None => u64::from(item.stat == stat),
            };
        }
    }
    let each = JobStat::ALL.into_iter().zip(sums);
    each.filter(|(_, n)| *n > 0).collect()
}

/// The single job or element that a text names, in the form in which keys are printed.
pub fn job_key(text: &str) -> Option<JobKey> {
    let key: Option<JobKey> = text.parse().ok().filter(|key: &JobKey| key.id > 0);
    key.filter(|key| key.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_view::{NOW, TestView, job, spec};

    fn bed() -> TestView {
        let bed = TestView::new();
        bed.put::<view::QueueRow>(view::QUEUES, &[]);
        let jobs = vec![
            spec(1, 7),
            spec(2, 8),
            job(JobKey::job(1), 1, JobStat::Run),
            job(JobKey::job(2), 1, JobStat::Pend),
            job(JobKey::job(3), 2, JobStat::Pend),
            job(JobKey::job(4), 2, JobStat::Done),
        ];
        bed.publish(&[("s1", jobs)]);
        bed
    }

    fn reader(bed: &TestView, uid: u32) -> Reader {
        Reader {
            source: bed.source("portal", uid),
        }
    }

    fn ids(bed: &TestView, uid: u32, query: &JobQuery) -> String {
        let reader = reader(bed, uid);
        let index = JobIndex::read(&reader).unwrap();
        let visible = VisibleJobs::of(&reader).unwrap();
        let page = index.page(query, &visible, NOW).unwrap();
        let ids: Vec<&str> = page.rows.iter().map(|row| row.id.as_str()).collect();
        ids.join(" ")
    }

    fn query(filter: &str) -> JobQuery {
        JobQuery {
            filter: filter.to_owned(),
            count: 10,
            ..JobQuery::default()
        }
    }

    #[test]
    fn lists_are_filtered_sorted_and_cut() {
        let bed = bed();
        assert_eq!(ids(&bed, 7, &query("")), "1 2 3");
        assert_eq!(ids(&bed, 7, &query("user:u8")), "3");
        let with = |change: fn(&mut JobQuery)| {
            let mut query = query("");
            change(&mut query);
            ids(&bed, 7, &query)
        };
        assert_eq!(with(|q| q.own_only = true), "1 2");
        assert_eq!(with(|q| q.finished = true), "1 2 3 4");
        assert_eq!(with(|q| (q.from, q.count) = (2, 2)), "3");
        assert_eq!(with(|q| (q.from, q.count) = (99, 2)), "3", "the last page");
        assert_eq!(with(|q| (q.sort, q.reverse) = ("id".into(), true)), "3 2 1");
        let index = JobIndex::read(&reader(&bed, 7)).unwrap();
        let visible = VisibleJobs::of(&reader(&bed, 7)).unwrap();
        for bad in [
            query("nonsense:x"),
            JobQuery {
                sort: "x".into(),
                ..query("")
            },
        ] {
            assert!(index.page(&bad, &visible, NOW).is_err());
        }
        let sums = index.sums(&visible, NOW);
        assert_eq!(
            sums.by_user["u7"],
            JobSum {
                pending: 1,
                started: 1,
                slots: 1
            }
        );
        assert!(sums.longest_wait_ms >= sums.middle_wait_ms);
    }

    #[test]
    fn who_sees_own_jobs_only_gets_no_others() {
        let bed = bed();
        let closed = view::Params {
            view_all_jobs: false,
            ..view::Params::default()
        };
        bed.put(view::PARAMS, &[closed]);
        assert_eq!(ids(&bed, 8, &query("")), "3");
        assert_eq!(ids(&bed, 8, &query("user:u7")), "");
        let key = JobKey::job(1);
        let refused = reader(&bed, 8).job(key).unwrap_err();
        assert_eq!(refused.kind, super::super::FailureKind::Permission);
        assert!(reader(&bed, 7).job(key).is_ok());
    }

    #[test]
    fn one_form_of_keys() {
        assert_eq!(job_key("12"), Some(JobKey::job(12)));
        assert_eq!(job_key("12[3]"), Some(JobKey::element(12, 3)));
        for bad in ["0", "012", "12[0]", "12[1-3]", "x", "../1"] {
            assert_eq!(job_key(bad), None, "{bad}");
        }
    }
}
