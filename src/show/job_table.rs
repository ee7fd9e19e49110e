//! The job tables: short, wide (`-w`), extra wide (`-W`), with reasons (`-p`, `-s`), arrays (`-A`).
//!
//! Owns their columns and colours. The caller decides which rows are shown, and in which order.

use super::cell::{self, Cut};
use super::field::{Field, Table};
use super::job::{self, FIELDS, JobGet, JobView};
use crate::language::translated;
use crate::model::JobStat;
use crate::record::view::ArrayRow;
use crate::text::IndexSet;
use crate::text::indexset::MAX_INDEX;
use std::fmt::Write as _;

/// Width of the columns before EXEC_HOST in the short table.
const BEFORE_HOST: usize = 45;

/// Why a job waits if it has no reason yet.
pub(crate) const NEW: &str = "new: not yet considered by the scheduler";

/// Fields that only the short table shows.
static SHORT_ONLY: &[Field<JobGet>] = &[Field {
    name: "exec_host",
    aliases: &[],
    header: "EXEC_HOST",
    width: 11,
    right_aligned: false,
    get: first_share,
}];

fn first_share(v: &JobView<'_>, out: &mut String) {
    if let Some(host) = v.row.hosts.first() {
        write!(out, "{host}").expect("a string takes every write");
    }
}

/// The colour of a state word on a terminal.
pub(crate) fn stat_color(word: &str) -> &'static str {
    match word {
        "RUN" => "\x1b[32m",
        "PEND" => "\x1b[33m",
        "EXIT" => "\x1b[31m",
        "DONE" => "\x1b[36m",
        "PSUSP" | "USUSP" | "SSUSP" => "\x1b[35m",
        "UNKWN" => "\x1b[1;31m",
        _ => "",
    }
}

/// The default table: values are cut to their columns.
pub(crate) fn short() -> Table<JobGet> {
    use Cut::{Head, Never, Tail};
    let mut table = Table::fixed(
        FIELDS,
        &[
            ("jobid", 7, Never),
            ("user", 7, Head),
            ("stat", 5, Head),
            ("queue", 10, Head),
            ("from_host", 11, Head),
        ],
    );
    let host = Table::fixed(SHORT_ONLY, &[("exec_host", 11, Head)]);
    let rest = Table::fixed(
        FIELDS,
        &[("job_name", 10, Tail), ("submit_time", 12, Never)],
    );
    table.columns.extend(host.columns);
    table.columns.extend(rest.columns);
    table.painted("stat", stat_color)
}

/// The same columns with whole values (`-w`).
pub(crate) fn wide() -> Table<JobGet> {
    use Cut::Never;
    Table::fixed(
        FIELDS,
        &[
            ("jobid", 7, Never),
            ("user", 7, Never),
            ("stat", 5, Never),
            ("queue", 10, Never),
            ("from_host", 11, Never),
            ("exec_host", 11, Never),
            ("job_name", 10, Never),
            ("submit_time", 12, Never),
        ],
    )
    .painted("stat", stat_color)
}

/// The table of `-W`: fifteen columns, whole values, times with seconds.
pub(crate) fn extra() -> Table<JobGet> {
    use Cut::Never;
    Table::fixed(
        FIELDS,
        &[
            ("jobid", 7, Never),
            ("user", 7, Never),
            ("stat", 5, Never),
            ("queue", 10, Never),
            ("from_host", 11, Never),
            ("exec_host", 11, Never),
            ("job_name", 10, Never),
            ("submit_date", 14, Never),
            ("proj_name", 9, Never),
            ("cpu_clock", 12, Never),
            ("mem_mb", 6, Never),
            ("swap_mb", 6, Never),
            ("pids", 7, Never),
            ("start_date", 14, Never),
            ("finish_date", 14, Never),
        ],
    )
    .painted("stat", stat_color)
}

/// `-WF`: the estimated end, where the field `finish_time` has the true one.
static EXPECTED: &[Field<JobGet>] = &[Field {
    name: "finish_time",
    aliases: &[],
    header: "FINISH_TIME",
    width: 14,
    right_aligned: false,
    get: job::expected_end,
}];

/// Options of a table that add a column about its progress.
pub(crate) const PROGRESS: [&str; 3] = ["WL", "WP", "WF"];

/// Adds the column of one of [`PROGRESS`].
pub(crate) fn add_progress(table: &mut Table<JobGet>, option: &str) {
    let (fields, name, width) = match option {
        "WL" => (FIELDS, "time_left", 11),
        "WP" => (FIELDS, "%complete", 11),
        _ => (EXPECTED, "finish_time", 14),
    };
    let more = Table::fixed(fields, &[(name, width, Cut::Never)]);
    table.columns.extend(more.columns);
}

/// The table of `-p` and `-s`: no execution host, reasons on separate lines (see [`put_reason`]).
pub(crate) fn reasons(wide: bool) -> Table<JobGet> {
    use Cut::{Head, Never, Tail};
    let cut = |c| if wide { Never } else { c };
    Table::fixed(
        FIELDS,
        &[
            ("jobid", 7, Never),
            ("user", 7, cut(Head)),
            ("stat", 5, Never),
            ("queue", 10, cut(Head)),
            ("from_host", 14, cut(Head)),
            ("job_name", 18, cut(Tail)),
            ("submit_time", 12, Never),
        ],
    )
    .painted("stat", stat_color)
}

/// The fields of `-json` without `-o`.
pub(crate) const JSON_DEFAULT: &str = "jobid jobindex user stat queue from_host exec_host job_name \
    submit_time proj_name start_time finish_time exit_code exit_reason pend_reason cpu_used \
    max_mem slots command";

/// Appends the lines below a row of the short table: other hosts.
pub(crate) fn put_more_hosts(out: &mut String, v: &JobView<'_>) {
    for host in v.row.hosts.iter().skip(1) {
        cell::blanks(out, BEFORE_HOST);
        let from = out.len();
        write!(out, "{host}").expect("a string takes every write");
        cell::escape_and_cut(out, from, None, Cut::Never);
        out.push('\n');
    }
}

/// Appends the lines below a row of [`reasons`]: why the job waits or is stopped.
pub(crate) fn put_reason(out: &mut String, v: &JobView<'_>) {
    let from = out.len();
    out.push(' ');
    if v.stat().is_waiting() {
        match v.why {
            Some(why) => out.push_str(&translated(&why.to_string())),
            None => out.push_str(&translated(NEW)),
        }
    } else if v.stat().is_started() && v.stat() != JobStat::Run {
        let mut why = String::new();
        job::put_suspend(&mut why, v);
        out.push_str(&translated(&why));
    } else {
        out.truncate(from);
        return;
    }
    cell::escape_and_cut(out, from, None, Cut::Never);
    out.push_str(";\n");
}

/// Numbers of an array's elements by state.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct ArrayCounts {
    pub njobs: u64,
    /// By position of the state in [`JobStat::ALL`].
    pub by_stat: [u64; JobStat::ALL.len()],
}

/// The number of indices in a text.
fn elements(text: &str) -> u64 {
    match text {
        "" => 0,
        text => IndexSet::parse(text, 1, MAX_INDEX).map_or(0, |set| set.len()),
    }
}

/// The number of elements of an array that have no row.
pub(crate) fn waiting_elements(arr: &ArrayRow) -> u64 {
    elements(&arr.waiting)
}

impl ArrayCounts {
    /// Counts the elements of the array in `v`; `None` if it is not the row of an array.
    pub(crate) fn of(v: &JobView<'_>) -> Option<ArrayCounts> {
        let arr = v.row.arr.as_deref()?;
        let waiting = waiting_elements(arr);
        let mut counts = ArrayCounts {
            njobs: elements(&arr.all),
            ..ArrayCounts::default()
        };
        for (at, stat) in JobStat::ALL.iter().enumerate() {
            let own = arr.counts.get(stat.word()).copied().unwrap_or(0);
            counts.by_stat[at] = u64::from(own) + if v.stat() == *stat { waiting } else { 0 };
        }
        Some(counts)
    }

    pub(crate) fn get(&self, stat: JobStat) -> u64 {
        let at = JobStat::ALL.iter().position(|s| *s == stat);
        at.map_or(0, |at| self.by_stat[at])
    }
}

/// The order of the counts in `-A`.
const ARRAY_COLUMNS: [JobStat; 7] = [
    JobStat::Pend,
    JobStat::Done,
    JobStat::Run,
    JobStat::Exit,
    JobStat::Ssusp,
    JobStat::Ususp,
    JobStat::Psusp,
];

/// Header of `-A`.
pub(crate) const ARRAY_HEADER: &str =
    "JOBID    ARRAY_SPEC  OWNER   NJOBS PEND DONE  RUN EXIT SSUSP USUSP PSUSP\n";

/// Appends the row of an array for `-A`; nothing for other jobs.
pub(crate) fn put_array(out: &mut String, v: &JobView<'_>, wide: bool) {
    let (Some(counts), Some(arr)) = (ArrayCounts::of(v), v.row.arr.as_deref()) else {
        return;
    };
    let put = |out: &mut String, columns: usize, cut: Cut, text: &str| {
        let from = out.len();
        out.push_str(text);
        let limit = (cut != Cut::Never).then_some(columns);
        let used = cell::escape_and_cut(out, from, limit, cut);
        cell::blanks(out, columns.saturating_sub(used) + 1);
    };
    let cut = |c| if wide { Cut::Never } else { c };
    put(out, 8, Cut::Never, &v.key.id.to_string());
    let mut spec = format!("{}[{}]", v.name, arr.all);
    if arr.limit > 0 {
        write!(spec, "%{}", arr.limit).expect("a string takes every write");
    }
    put(out, 11, cut(Cut::Tail), &spec);
    put(out, 7, cut(Cut::Head), &v.spec.user);
    write!(out, "{:>5}", counts.njobs).expect("a string takes every write");
    for stat in ARRAY_COLUMNS {
        // Elements of a lost host count as running for the owner of the array.
        let lost = if stat == JobStat::Run {
            counts.get(JobStat::Unkwn)
        } else {
            0
        };
        let columns = stat.word().len().max(4);
        let n = counts.get(stat) + lost;
        write!(out, " {n:>columns$}").expect("a string takes every write");
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::job::samples::*;
    use super::*;
    use crate::record::view::JobRow;

    fn print(table: &Table<JobGet>, rows: &[JobRow<'static>]) -> String {
        let (ctx, spec, why) = (ctx(), spec(), why());
        let mut out = String::new();
        table.header(&mut out);
        for row in rows {
            let v = view(&ctx, &spec, row, Some(&why));
            table.row(&mut out, |get, out| get(&v, out));
            if table.columns.len() == 8 && table.columns[5].cut == Cut::Head {
                put_more_hosts(&mut out, &v);
            }
            if table.columns.len() == 7 {
                put_reason(&mut out, &v);
            }
        }
        out
    }

    #[test]
    fn short_table() {
        let want = "\
JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME
101     user000 PEND  normal     login-host- -           *long_name Nov 21 02:07
102[7]  user000 RUN   normal     login-host- 4*h1        sweep[7]   Nov 21 01:07
                                             h2
103     user000 EXIT  normal     login-host- h1          *拟\\x1b[3 Nov 21 01:07
";
        let table = print(&short(), &[pending(), running(), killed()]);
        let lines: Vec<_> = table.lines().zip(want.lines()).collect();
        for (g, w) in &lines[..4] {
            assert_eq!(g, w);
        }
        assert!(table.lines().nth(4).is_some_and(|l| !l.contains('\u{1b}')));
    }

    #[test]
    fn wide_table() {
        let want = "\
JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME
101     user0001 PEND  normal     login-host-long -           a_rather_long_name Nov 21 02:07
102[7]  user0001 RUN   normal     login-host-long 4*h1:h2     sweep[7]   Nov 21 01:07
103     user0001 EXIT  normal     login-host-long h1          模拟\\x1b[31m Nov 21 01:07
";
        assert_eq!(print(&wide(), &[pending(), running(), killed()]), want);
    }

    #[test]
    fn extra_wide_table_has_no_blanks_in_values() {
        let table = print(&extra(), &[running(), killed()]);
        let want = "\
JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME    \
PROJ_NAME CPU_USED     MEM    SWAP   PIDS    START_TIME     FINISH_TIME
102[7]  user0001 RUN   normal     login-host-long 4*h1:h2     sweep[7]   11/21-01:07:09 \
default   000:01:01.05 3      -      4711,4712 11/21-02:57:10 -
";
        assert!(table.starts_with(want), "{table}");
        assert_eq!(table.lines().nth(2).unwrap().split_whitespace().count(), 15);
    }

    #[test]
    fn reasons_stand_below_their_job() {
        let mut stopped = running();
        stopped.stat = JobStat::Ususp;
        let want = "\
JOBID   USER    STAT  QUEUE      FROM_HOST      JOB_NAME           SUBMIT_TIME
101     user000 PEND  normal     login-host-lon a_rather_long_name Nov 21 02:07
 user user0001 has reached the limit of 4 slots;
102[7]  user000 USUSP normal     login-host-lon sweep[7]           Nov 21 01:07
 stopped by its owner or an administrator;
";
        assert_eq!(print(&reasons(false), &[pending(), stopped]), want);
    }

    #[test]
    fn array_summary() {
        let (ctx, spec, row) = (ctx(), spec(), array());
        let mut out = String::from(ARRAY_HEADER);
        put_array(&mut out, &view(&ctx, &spec, &row, None), false);
        put_array(&mut out, &view(&ctx, &spec, &pending(), None), false);
        let want = "\
JOBID    ARRAY_SPEC  OWNER   NJOBS PEND DONE  RUN EXIT SSUSP USUSP PSUSP
102      sweep[1-10] user000    10    3    6    1    0     0     0     0
";
        assert_eq!(out, want);
    }

    #[test]
    fn states_are_coloured_only_when_asked() {
        let plain = print(&short(), &[pending()]);
        assert!(!plain.contains('\u{1b}'));
        let color = print(&short().colored(true), &[pending()]);
        assert_eq!(color.replace("\x1b[33m", "").replace("\x1b[0m", ""), plain);
        assert_ne!(color, plain);
    }
}
