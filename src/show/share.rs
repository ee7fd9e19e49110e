//! Share trees in the form of `cqueues -r`: one block for each group that distributes shares.

use super::cell::Object;
use crate::record::view::ShareRow;
use crate::text::width;
use std::fmt::Write as _;

/// Appends the tree of a queue: the shares directly below it, then those of each group, under the
/// heading `SHARE_INFO_FOR: queue/group/`.
pub(crate) fn put_tree(out: &mut String, queue: &str, rows: &[&ShareRow]) {
    put_level(out, queue, "", rows);
    for group in rows.iter().filter(|row| row.group) {
        put_level(out, queue, &group.path, rows);
    }
}

/// The part of a path after the last `/`.
fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

fn put_level(out: &mut String, queue: &str, path: &str, rows: &[&ShareRow]) {
    let own: Vec<_> = rows.iter().filter(|row| above(&row.path) == path).collect();
    if own.is_empty() {
        return;
    }
    let sep = if path.is_empty() { "" } else { "/" };
    let (queue, path) = (width::escape(queue), width::escape(path));
    let head = "USER/GROUP       SHARES  PRIORITY  STARTED   CPU_TIME   RUN_TIME";
    let mut line = |args: std::fmt::Arguments<'_>| {
        out.write_fmt(args).expect("a string takes every write");
        out.push('\n');
    };
    line(format_args!("\nSHARE_INFO_FOR: {queue}/{path}{sep}"));
    line(format_args!("{head}"));
    for row in own {
        let slash = if row.group { "/" } else { "" };
        let shown = format!("{}{slash}", width::escape(name(&row.path)));
        let pad = 15usize.saturating_sub(width::width(&shown));
        line(format_args!(
            "{shown}{:pad$} {:>7} {:>9.3} {:>8} {:>10.1} {:>10.0}",
            "",
            row.shares,
            row.priority,
            row.started,
            row.cpu_s + row.hist_s,
            row.run_s,
        ));
    }
}

/// Appends the JSON line of a node.
pub(crate) fn put_json(out: &mut String, row: &ShareRow) {
    let mut o = Object::begin(out);
    o.text("queue", &row.queue);
    o.text("path", &row.path);
    o.flag("group", row.group);
    o.int("shares", row.shares);
    o.float("priority", row.priority);
    o.int("started_slots", row.started);
    o.int("started_jobs", row.jobs);
    o.float("cpu_s", row.cpu_s);
    o.float("run_s", row.run_s);
    o.float("history_cpu_s", row.hist_s);
    o.end();
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_for_each_group() {
        let row = |path: &str, group, shares| ShareRow {
            queue: "normal".into(),
            path: path.into(),
            group,
            shares,
            priority: 3.333,
            started: 2,
            cpu_s: 1.0,
            hist_s: 0.5,
            run_s: 90.0,
            ..ShareRow::default()
        };
        let rows = [
            row("g1", true, 20),
            row("g1/ann", false, 1),
            row("bob", false, 10),
        ];
        let mut out = String::new();
        put_tree(&mut out, "normal", &rows.iter().collect::<Vec<_>>());
        let want = "
SHARE_INFO_FOR: normal/
USER/GROUP       SHARES  PRIORITY  STARTED   CPU_TIME   RUN_TIME
g1/                  20     3.333        2        1.5         90
bob                  10     3.333        2        1.5         90

SHARE_INFO_FOR: normal/g1/
USER/GROUP       SHARES  PRIORITY  STARTED   CPU_TIME   RUN_TIME
ann                   1     3.333        2        1.5         90
";
        assert_eq!(out, want);
    }
}
