//! The columns of the three lists: titles, widths, values and sort orders.
//!
//! Owns the content of a cell. A cell is formatted only when it is shown, so a list of a hundred
//! thousand rows costs as much as a list that fits on the screen.

use super::view_data::{JobItem, Jobs};
use crate::model::{JobKey, JobStat};
use crate::record::view::{HostRow, QueueRow};
use crate::show::cell::{Cut, int};
use crate::show::{Dates, field, host, load, queue};
use crate::text::duration;
use std::cmp::Ordering;
use std::fmt::Write as _;

/// A column.
pub(crate) struct Column {
    pub title: &'static str,
    /// 0: what the other columns leave.
    pub width: u16,
    pub right_aligned: bool,
    /// Shown on screens with at least this many columns.
    pub min_columns: u16,
    pub cut: Cut,
}

const fn left(title: &'static str, width: u16, min_columns: u16) -> Column {
    Column {
        title,
        width,
        right_aligned: false,
        min_columns,
        cut: Cut::Head,
    }
}

const fn right(title: &'static str, width: u16, from: u16) -> Column {
    Column {
        right_aligned: true,
        ..left(title, width, from)
    }
}

/// What a line of the list of jobs shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JobLine {
    /// The index of its row.
    pub row_index: u32,
    /// The index of an element that has no row, of the array at `row_index`; 0: the row itself.
    pub idx: u32,
}

impl JobLine {
    pub(crate) fn item(self, jobs: &Jobs) -> Option<&JobItem> {
        jobs.items.get(self.row_index as usize)
    }

    pub(crate) fn key(self, jobs: &Jobs) -> JobKey {
        let key = self.item(jobs).map(|item| item.key).unwrap_or_default();
        match self.idx {
            0 => key,
            idx => JobKey::element(key.id, idx),
        }
    }

    /// Whether this is the row of a whole array.
    pub(crate) fn is_array(self, jobs: &Jobs) -> bool {
        self.idx == 0 && self.item(jobs).is_some_and(|item| item.array.is_some())
    }
}

pub(crate) const JOBS: &[Column] = &[
    left("JOBID", 11, 0),
    left("USER", 8, 0),
    left("STAT", 5, 0),
    left("QUEUE", 8, 72),
    right("SLOTS", 5, 48),
    left("HOST", 9, 80),
    right("TIME", 8, 0),
    right("CPU", 8, 110),
    right("MEM", 6, 100),
    left("SUBMITTED", 12, 124),
    Column {
        cut: Cut::Tail,
        ..left("NAME", 0, 0)
    },
];

/// The context of the cells of a job.
pub(crate) struct JobCells<'a> {
    pub jobs: &'a Jobs,
    pub dates: &'a Dates,
    pub now: i64,
    /// Whether the elements of an array are shown below it.
    pub unfolded: &'a dyn Fn(u32) -> bool,
}

impl JobCells<'_> {
    /// Appends the value of one cell.
    pub(crate) fn put(&self, line: JobLine, column: usize, out: &mut String) {
        let Some(item) = line.item(self.jobs) else {
            return;
        };
        let whole_array = item.array.as_deref().filter(|_| line.idx == 0);
        match column {
            0 => {
                let key = line.key(self.jobs);
                let folded = if (self.unfolded)(key.id) { "-" } else { "+" };
                let before = match (whole_array, key.idx) {
                    (Some(_), _) => folded,
                    (None, 0) => "",
                    (None, _) => " ",
                };
                write!(out, "{before}{key}").expect("a string takes every write");
            }
            1 => out.push_str(&item.spec.user),
            2 => out.push_str(item.shown_stat().word()),
            3 => out.push_str(&item.spec.queue),
            4 => int(out, item.slots),
            5 => out.push_str(item.hosts()),
            6 if !item.stat.is_finished() || item.end() > 0 => {
                out.push_str(&duration::short(item.time_ms(self.now)));
            }
            7 if item.cpu_ms() > 0 => out.push_str(&duration::short(item.cpu_ms())),
            8 if item.mem_kb() > 0 => {
                #[allow(clippy::cast_precision_loss)] // three digits are shown
                out.push_str(&load::megabytes(item.mem_kb() as f64 / 1024.0));
            }
            9 => self.dates.short(out, item.submit),
            10 => put_name(item, line, out),
            _ => {}
        }
    }
}

/// The name. For an array preceded by the counts of its elements by state: `3P 1R sweep[1-4]`.
fn put_name(item: &JobItem, line: JobLine, out: &mut String) {
    let Some(array) = item.array.as_deref().filter(|_| line.idx == 0) else {
        out.push_str(&item.name);
        return;
    };
    for stat in JobStat::ALL {
        let n = array.count(stat);
        if n > 0 {
            write!(out, "{n}{} ", state_letters(stat)).expect("a string takes every write");
        }
    }
    write!(out, "{}[{}]", item.name, array.indices).expect("a string takes every write");
}

/// A state abbreviated to one or two letters.
fn state_letters(stat: JobStat) -> &'static str {
    match stat {
        JobStat::Pend => "P",
        JobStat::Psusp => "PS",
        JobStat::Run => "R",
        JobStat::Ususp => "US",
        JobStat::Ssusp => "SS",
        JobStat::Unkwn => "U",
        JobStat::Done => "D",
        JobStat::Exit => "E",
    }
}

/// Compares two jobs by a column; equal jobs stay in the order of cjobs.
pub(crate) fn compare_jobs(column: usize, a: &JobItem, b: &JobItem, now: i64) -> Ordering {
    match column {
        0 => a.key.cmp(&b.key),
        1 => a.spec.user.cmp(&b.spec.user),
        2 => a.shown_stat().cmp(&b.shown_stat()),
        3 => a.spec.queue.cmp(&b.spec.queue),
        4 => b.slots.cmp(&a.slots),
        5 => a.hosts().cmp(b.hosts()),
        6 => b.time_ms(now).cmp(&a.time_ms(now)),
        7 => b.cpu_ms().cmp(&a.cpu_ms()),
        8 => b.mem_kb().cmp(&a.mem_kb()),
        9 => a.submit.cmp(&b.submit),
        10 => a.name.cmp(&b.name),
        _ => Ordering::Equal,
    }
}

pub(crate) const QUEUES: &[Column] = &[
    left("QUEUE", 14, 0),
    right("PRIO", 4, 54),
    left("STATUS", 15, 0),
    right("MAX", 5, 72),
    right("NJOBS", 6, 65),
    right("PEND", 6, 48),
    right("RUN", 6, 0),
    right("SUSP", 5, 58),
    right("PJOBS", 6, 78),
    left("DESCRIPTION", 0, 90),
];

/// The fields of the registry for [`QUEUES`].
const QUEUE_FIELDS: [&str; 10] = [
    "queue_name",
    "prio",
    "status",
    "max",
    "njobs",
    "pend",
    "run",
    "susp",
    "pjobs",
    "description",
];

/// Appends the value of a cell of a queue.
pub(crate) fn put_queue(q: &QueueRow, column: usize, out: &mut String) {
    let field = QUEUE_FIELDS
        .get(column)
        .and_then(|name| field::find(queue::FIELDS, name));
    if let Some(field) = field {
        (field.get)(q, out);
    }
}

/// Compares two queues by a column, large numbers first.
pub(crate) fn compare_queues(column: usize, a: &QueueRow, b: &QueueRow) -> Ordering {
    let susp = |q: &QueueRow| q.counts.ssusp + q.counts.ususp;
    match column {
        0 => a.name.cmp(&b.name),
        1 => b.priority.cmp(&a.priority),
        2 => queue::status(a).cmp(queue::status(b)),
        3 => b.max.cmp(&a.max),
        4 => b.counts.njobs.cmp(&a.counts.njobs),
        5 => b.counts.pend.cmp(&a.counts.pend),
        6 => b.counts.run.cmp(&a.counts.run),
        7 => susp(b).cmp(&susp(a)),
        8 => b.counts.pend_jobs.cmp(&a.counts.pend_jobs),
        9 => a.description.cmp(&b.description),
        _ => Ordering::Equal,
    }
}

pub(crate) const HOSTS: &[Column] = &[
    left("HOST", 16, 0),
    left("STATUS", 11, 0),
    right("MAX", 5, 0),
    right("NJOBS", 5, 48),
    right("RUN", 5, 54),
    right("SUSP", 4, 70),
    right("RSV", 4, 77),
    right("r1m", 5, 60),
    right("ut", 4, 42),
    right("mem", 6, 72),
    right("tmp", 6, 92),
    right("swp", 6, 98),
    right("it", 5, 104),
    left("COMMENT", 0, 116),
];

/// Appends the value of a cell of a host.
pub(crate) fn put_host(h: &HostRow, column: usize, out: &mut String) {
    let of = |fields: &'static [field::Field<host::HostGet>], name: &str, out: &mut String| {
        if let Some(field) = field::find(fields, name) {
            (field.get)(h, out);
        }
    };
    match column {
        0 => out.push_str(&h.name),
        1 => out.push_str(h.status.word()),
        2 => int(out, h.slots),
        3 => int(out, h.njobs),
        4 => int(out, h.run),
        5 => int(out, h.ssusp + h.ususp),
        6 => int(out, h.rsv),
        7 => of(load::FIELDS, "r1m", out),
        8 => of(load::FIELDS, "ut", out),
        9 => of(load::FIELDS, "mem", out),
        10 => of(load::FIELDS, "tmp", out),
        11 => of(load::FIELDS, "swp", out),
        12 => of(load::FIELDS, "it", out),
        13 => out.push_str(&h.comment),
        _ => {}
    }
}

/// Compares two hosts by a column, large numbers first. Their names have been compared already.
pub(crate) fn compare_hosts(column: usize, a: &HostRow, b: &HostRow) -> Ordering {
    match column {
        1 => a.status.word().cmp(b.status.word()),
        2 => b.slots.cmp(&a.slots),
        3 => b.njobs.cmp(&a.njobs),
        4 => b.run.cmp(&a.run),
        5 => (b.ssusp + b.ususp).cmp(&(a.ssusp + a.ususp)),
        6 => b.rsv.cmp(&a.rsv),
        7 => b.load.r1m.total_cmp(&a.load.r1m),
        8 => b.load.ut.total_cmp(&a.load.ut),
        9 => b.load.mem.total_cmp(&a.load.mem),
        10 => b.load.tmp.total_cmp(&a.load.tmp),
        11 => b.load.swp.total_cmp(&a.load.swp),
        12 => b.load.it.total_cmp(&a.load.it),
        13 => a.comment.cmp(&b.comment),
        // Hosts are already in the natural order of their names.
        _ => Ordering::Equal,
    }
}

/// The columns for a screen of this width: their numbers, start positions and widths.
pub(crate) fn layout(columns: &[Column], width: u16, before: u16) -> Vec<(usize, u16, u16)> {
    let shown = |column: &&Column| column.min_columns <= width;
    let fixed: u16 = columns
        .iter()
        .filter(shown)
        .map(|column| {
            if column.width == 0 {
                0
            } else {
                column.width + 1
            }
        })
        .sum();
    let rest = width.saturating_sub(before + fixed);
    let mut x = before;
    let mut out = Vec::new();
    for (n, column) in columns.iter().enumerate().filter(|(_, c)| shown(c)) {
        let wide = if column.width == 0 {
            rest
        } else {
            column.width
        };
        let wide = wide.min(width.saturating_sub(x));
        if wide > 0 {
            out.push((n, x, wide));
        }
        x = x.saturating_add(wide + 1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_in_every_width_and_the_last_takes_the_rest() {
        for (columns, last) in [(JOBS, "NAME"), (QUEUES, ""), (HOSTS, "")] {
            for width in 40..200 {
                let cells = layout(columns, width, 2);
                let (n, x, wide) = *cells.last().unwrap();
                assert!(x + wide <= width, "{} at {width}", columns[n].title);
                for pair in cells.windows(2) {
                    assert!(pair[0].1 + pair[0].2 < pair[1].1, "{width}");
                }
                let whole = |(n, _, wide): &(usize, u16, u16)| {
                    *wide >= columns[*n].width || columns[*n].width == 0
                };
                assert!(cells.iter().all(whole), "a column is cut at {width}");
                if !last.is_empty() {
                    assert_eq!((columns[n].title, x + wide), (last, width));
                }
            }
        }
        let name = layout(JOBS, 80, 2).last().unwrap().2;
        assert!(name >= 16, "{name}");
        assert!(layout(JOBS, 60, 2).last().unwrap().2 >= 16);
    }

    #[test]
    fn every_column_of_queues_has_a_field() {
        for name in QUEUE_FIELDS {
            assert!(field::find(queue::FIELDS, name).is_some(), "{name}");
        }
        assert_eq!(QUEUE_FIELDS.len(), QUEUES.len());
    }
}
