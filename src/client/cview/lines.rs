//! Determines the rows of a list and their order: filtered, sorted, arrays folded.
//!
//! Uses the values of rows and formats none of them. Recomputed when the view, the filter or the
//! order changes, not when the cursor moves.

use super::columns::{JobLine, compare_hosts, compare_jobs, compare_queues};
use super::filter::Filter;
use super::view_data::{JobItem, Jobs};
use crate::record::view::{HostRow, QueueRow};
use std::cmp::Ordering;
use std::collections::HashSet;

/// The arrangement of a list.
#[derive(Clone, Default, Debug)]
pub(crate) struct Arrangement {
    pub filter: Filter,
    /// The column to sort by; `None`: the order of the commands.
    pub column: Option<usize>,
    pub reverse: bool,
}

impl Arrangement {
    fn arrange<T: Copy>(&self, rows: &mut [T], compare: impl Fn(usize, T, T) -> Ordering) {
        if let Some(column) = self.column {
            // The sort is stable: equal rows keep their order.
            rows.sort_by(|a, b| compare(column, *a, *b));
        }
        if self.reverse {
            rows.reverse();
        }
    }
}

/// The rows of hosts, as indices into `hosts`.
pub(crate) fn host_lines(hosts: &[HostRow], arrangement: &Arrangement) -> Vec<u32> {
    let mut text = String::new();
    let mut rows = fitting(hosts, |host| arrangement.filter.fits_host(host, &mut text));
    arrangement.arrange(&mut rows, |column, a, b| {
        compare_hosts(column, &hosts[a as usize], &hosts[b as usize])
    });
    rows
}

/// The rows of queues, as indices into `queues`.
pub(crate) fn queue_lines(queues: &[QueueRow], arrangement: &Arrangement) -> Vec<u32> {
    let mut text = String::new();
    let mut rows = fitting(queues, |queue| {
        arrangement.filter.fits_queue(queue, &mut text)
    });
    arrangement.arrange(&mut rows, |column, a, b| {
        compare_queues(column, &queues[a as usize], &queues[b as usize])
    });
    rows
}

/// The indices of the matching rows.
fn fitting<R>(rows: &[R], mut fits: impl FnMut(&R) -> bool) -> Vec<u32> {
    let all = (0..).zip(rows);
    all.filter(|(_, row)| fits(row)).map(|(n, _)| n).collect()
}

/// The rows of jobs. An array is included if it or one of its elements matches; if unfolded, its
/// matching elements follow below it.
pub(crate) fn job_lines(
    jobs: &Jobs,
    arrangement: &Arrangement,
    unfolded: &HashSet<u32>,
    now: i64,
) -> Vec<JobLine> {
    let mut text = String::new();
    let filter = &arrangement.filter;
    let mut fits = |item: &JobItem| filter.is_empty() || filter.fits_job(item, &mut text);
    let mut with_fitting: HashSet<u32> = HashSet::new();
    let mut tops: Vec<u32> = Vec::new();
    let mut arrays: Vec<u32> = Vec::new();
    for (n, item) in (0..).zip(&jobs.items) {
        let is_below = jobs.is_below_array(item);
        match (is_below, item.array.is_some()) {
            (true, _) if filter.is_empty() => {}
            (true, _) => {
                if !with_fitting.contains(&item.key.id) && fits(item) {
                    with_fitting.insert(item.key.id);
                }
            }
            (false, true) => {
                arrays.push(n);
                tops.push(n);
            }
            (false, false) => {
                if fits(item) {
                    tops.push(n);
                }
            }
        }
    }
    let missing = |n: &u32| {
        let item = &jobs.items[*n as usize];
        !with_fitting.contains(&item.key.id) && !fits(item)
    };
    let missing_arrays: HashSet<u32> = arrays.into_iter().filter(missing).collect();
    tops.retain(|n| !missing_arrays.contains(n));
    arrangement.arrange(&mut tops, |column, a, b| {
        compare_jobs(
            column,
            &jobs.items[a as usize],
            &jobs.items[b as usize],
            now,
        )
    });
    let mut lines = Vec::with_capacity(tops.len());
    for row_index in tops {
        lines.push(JobLine { row_index, idx: 0 });
        if unfolded.contains(&jobs.items[row_index as usize].key.id) {
            put_elements(&mut lines, jobs, row_index, filter);
        }
    }
    lines
}

/// Adds the elements of the array at `row_index`, sorted by index.
fn put_elements(lines: &mut Vec<JobLine>, jobs: &Jobs, row_index: u32, filter: &Filter) {
    let item = &jobs.items[row_index as usize];
    let Some(array) = &item.array else {
        return;
    };
    let mut text = String::new();
    let mut own = jobs.elements_of(item.key.id).iter().copied().peekable();
    let index = |n: &u32| jobs.items[*n as usize].key.idx;
    let mut put_own = |n: u32, lines: &mut Vec<JobLine>| {
        if filter.is_empty() || filter.fits_job(&jobs.items[n as usize], &mut text) {
            lines.push(JobLine {
                row_index: n,
                idx: 0,
            });
        }
    };
    // Waiting elements differ only in their index.
    let waiting_fit = filter.is_empty() || filter.fits_waiting(item, &mut String::new());
    for idx in array.waiting.iter().filter(|_| waiting_fit) {
        while let Some(n) = own.next_if(|n| index(n) < idx) {
            put_own(n, lines);
        }
        lines.push(JobLine { row_index, idx });
    }
    for n in own {
        put_own(n, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobKey, JobStat, Spec};
    use crate::record::view::{ArrayRow, JobRow};
    use std::sync::Arc;

    fn item(key: JobKey, stat: JobStat, slots: u32) -> JobItem {
        let row = JobRow {
            j: key,
            stat,
            name: if key.idx == 0 { "n".into() } else { "".into() },
            arr: (key == JobKey::job(4)).then(|| {
                Box::new(ArrayRow {
                    all: "1-5".into(),
                    waiting: "1,3,5".into(),
                    counts: [("RUN".to_owned(), 1), ("DONE".to_owned(), 1)].into(),
                    ..ArrayRow::default()
                })
            }),
            ..JobRow::default()
        };
        let spec = Spec {
            min: slots,
            user: format!("u{slots}"),
            ..Spec::default()
        };
        let order = (u8::from(stat.is_waiting()), 0, 0, key);
        JobItem::of(&row, &Arc::new(spec), order)
    }

    fn jobs() -> Jobs {
        Jobs::of(vec![
            item(JobKey::job(1), JobStat::Pend, 3),
            item(JobKey::job(2), JobStat::Run, 9),
            item(JobKey::job(4), JobStat::Pend, 1),
            item(JobKey::element(4, 4), JobStat::Run, 1),
            item(JobKey::element(4, 2), JobStat::Done, 1),
        ])
    }

    fn shown(arrangement: &Arrangement, unfolded: &[u32]) -> String {
        let jobs = jobs();
        let unfolded = unfolded.iter().copied().collect();
        let lines = job_lines(&jobs, arrangement, &unfolded, 0);
        let keys = lines.iter().map(|line| line.key(&jobs).to_string());
        keys.collect::<Vec<_>>().join(" ")
    }

    fn filtered(text: &str) -> Arrangement {
        Arrangement {
            filter: Filter::parse(text).unwrap(),
            ..Arrangement::default()
        }
    }

    #[test]
    fn arrays_are_folded_and_unfold_in_the_order_of_indices() {
        let plain = Arrangement::default();
        assert_eq!(shown(&plain, &[]), "2 1 4");
        assert_eq!(shown(&plain, &[4, 9]), "2 1 4 4[1] 4[2] 4[3] 4[4] 4[5]");
    }

    #[test]
    fn a_filter_keeps_arrays_with_elements_that_fit() {
        assert_eq!(shown(&filtered("state:run"), &[]), "2 4");
        assert_eq!(shown(&filtered("state:run"), &[4]), "2 4 4[4]");
        assert_eq!(shown(&filtered("state:pend"), &[4]), "1 4 4[1] 4[3] 4[5]");
        assert_eq!(shown(&filtered("user:u3"), &[4]), "1");
        assert_eq!(shown(&filtered("nothing"), &[4]), "");
    }

    #[test]
    fn lists_are_sorted_by_a_column_and_reversed() {
        let by = |column, reverse| Arrangement {
            column: Some(column),
            reverse,
            ..Arrangement::default()
        };
        assert_eq!(shown(&by(0, false), &[]), "1 2 4");
        assert_eq!(shown(&by(4, false), &[]), "2 1 4");
        assert_eq!(shown(&by(4, true), &[]), "4 1 2");
        let host = |name: &str, slots| HostRow {
            name: name.into(),
            slots,
            ..HostRow::default()
        };
        let hosts = [host("h1", 4), host("h2", 8), host("h3", 8)];
        assert_eq!(host_lines(&hosts, &by(2, false)), [1, 2, 0]);
        assert_eq!(host_lines(&hosts, &filtered("h3")), [2]);
        let queue = |name: &str, priority| QueueRow {
            name: name.into(),
            priority,
            ..QueueRow::default()
        };
        let queues = [queue("b", 9), queue("a", 1)];
        assert_eq!(queue_lines(&queues, &by(0, false)), [1, 0]);
        assert_eq!(queue_lines(&queues, &by(1, true)), [1, 0]);
        assert_eq!(queue_lines(&queues, &filtered("queue:a")), [1]);
    }
}
