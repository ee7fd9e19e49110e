//! The table of a job's tasks (`cjobs -t`): rank, section, host, state, process, usage.

use super::cell::{self, Cut};
use super::job::JobView;
use crate::language::translated;
use crate::model::JobStat;
use crate::record::report::TaskUse;
use std::fmt::Write as _;

/// Widths of the columns except the last.
const WIDTHS: [usize; 6] = [6, 13, 8, 19, 6, 8];
const TITLES: [&str; 6] = ["RANK", "SECTION", "REPLICA", "HOST", "STAT", "PID"];

/// Appends the table. A job without tasks is shown as a single task; for a job that has not started
/// or has ended, nothing is appended.
pub(crate) fn put(out: &mut String, v: &JobView<'_>) {
    if !v.stat().is_started() {
        return;
    }
    let whole;
    let tasks: &[TaskUse] = match v.row.usage.tasks.as_slice() {
        [] => {
            whole = [whole_job(v)];
            &whole
        }
        tasks => tasks,
    };
    out.push_str("\n TASKS:\n ");
    for (title, width) in TITLES.iter().zip(WIDTHS) {
        write!(out, "{title:<width$} ").expect("a string takes every write");
    }
    out.push_str("CPU_TIME  MEM\n");
    for task in tasks {
        row(out, task, v.stat());
    }
    let more = u64::from(v.slots()).saturating_sub(tasks.len() as u64);
    if more > 0 && !v.row.usage.tasks.is_empty() {
        let text = format!("and {more} more, not started yet or beyond those that hosts report");
        writeln!(out, " {}", translated(&text)).expect("a string takes every write");
    }
}

fn whole_job(v: &JobView<'_>) -> TaskUse {
    let u = &v.row.usage;
    TaskUse {
        section: "-".to_owned(),
        host: v
            .row
            .hosts
            .first()
            .map_or(String::new(), |share| share.0.clone()),
        pid: u.pids.first().copied().unwrap_or(0),
        cpu_ms: u.cpu_ms,
        mem_kb: u.mem_kb,
        ..TaskUse::default()
    }
}

fn row(out: &mut String, task: &TaskUse, stat: JobStat) {
    let state = match task.ended {
        true => "ended".to_owned(),
        false => stat.to_string(),
    };
    let pid = match task.pid {
        0 => "-".to_owned(),
        pid => pid.to_string(),
    };
    let from = out.len();
    let (rank, replica) = (task.rank.to_string(), task.replica.to_string());
    let cells = [&rank, &task.section, &replica, &task.host, &state, &pid];
    out.push(' ');
    for (text, width) in cells.into_iter().zip(WIDTHS) {
        write!(out, "{text:<width$} ").expect("a string takes every write");
    }
    let cpu_from = out.len();
    cell::fraction(out, task.cpu_ms, 1);
    out.push('s');
    let blanks = 10usize.saturating_sub(out.len() - cpu_from);
    cell::blanks(out, blanks);
    write!(out, "{}M", task.mem_kb.div_ceil(1024)).expect("a string takes every write");
    // Names come from the environment of the job.
    cell::escape_and_cut(out, from, None, Cut::Never);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::job::samples::*;
    use super::*;

    #[test]
    fn each_task_has_a_row_and_another_job_is_one_task() {
        let (ctx, spec, mut job) = (ctx(), spec(), running());
        let mut out = String::new();
        put(&mut out, &view(&ctx, &spec, &job, None));
        let words: Vec<&str> = out.lines().nth(3).unwrap().split_whitespace().collect();
        assert_eq!(words, ["0", "-", "0", "h1", "RUN", "4711", "61.0s", "3M"]);
        let task = |rank: u32, ended| TaskUse {
            rank,
            section: "work\u{1b}er".into(),
            host: "h2".into(),
            pid: 7,
            cpu_ms: 1500,
            mem_kb: 2048,
            ended,
            ..TaskUse::default()
        };
        job.usage.tasks = vec![task(0, false), task(1, true)];
        let mut out = String::new();
        put(&mut out, &view(&ctx, &spec, &job, None));
        assert!(out.contains(" ended ") && !out.contains('\u{1b}'), "{out}");
        assert!(out.contains("1.5s") && out.contains("2M\n"), "{out}");
        assert!(out.ends_with("beyond those that hosts report\n"), "{out}");
        let mut out = String::new();
        put(&mut out, &view(&ctx, &spec, &pending(), None));
        assert_eq!(out, "");
    }
}
