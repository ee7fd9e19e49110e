//! Job groups in the form of `cjgroup`: sums over the jobs of each group and its subgroups, table,
//! JSON, registry of fields. Reads no file.

use super::cell::{Cut, Object, int};
use super::field::{Field, Get, Table, cut, left};
use super::job_table::waiting_elements;
use crate::model::{JobStat, Spec};
use crate::record::job_group::JobGroup;
use crate::record::view::JobRow;
use crate::text::job_group::{ancestors, is_within};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A group. Counts are those of jobs, or of slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupRow {
    pub name: String,
    pend: u64,
    run: u64,
    ssusp: u64,
    ususp: u64,
    finish: u64,
    /// Started jobs, for the limit.
    started: u64,
    limit: Option<u32>,
    owner: String,
    /// The job that decides the owner of an implicit group.
    first: u32,
}

impl GroupRow {
    fn total(&self) -> u64 {
        self.pend + self.run + self.ssusp + self.ususp + self.finish
    }

    fn components(&self) -> Vec<&str> {
        self.name.split('/').collect()
    }
}

/// Groups with their sums.
#[derive(Debug, Default)]
pub(crate) struct GroupSums {
    rows: BTreeMap<String, GroupRow>,
    slots: bool,
}

impl GroupSums {
    /// `slots`: counts are those of slots.
    pub(crate) fn new(slots: bool) -> GroupSums {
        GroupSums {
            slots,
            ..GroupSums::default()
        }
    }

    /// Adds a job or element; for an array, its elements without a row.
    pub(crate) fn add(&mut self, row: &JobRow<'_>, spec: &Spec) {
        let jobs = row.arr.as_deref().map_or(1, waiting_elements);
        if jobs == 0 {
            return;
        }
        let slots = row.hosts.iter().map(|share| u64::from(share.1)).sum();
        let n = match (self.slots, row.stat) {
            (false, _) => jobs,
            (true, stat) if stat.is_waiting() => jobs * u64::from(spec.min.max(1)),
            (true, stat) if stat.is_finished() => 0,
            (true, _) => slots,
        };
        for name in ancestors(&spec.job_group) {
            let group = self.group(name);
            if group.first == 0 || row.j.id < group.first {
                (group.first, group.owner) = (row.j.id, spec.user.clone());
            }
            if row.stat.is_started() {
                group.started += jobs;
            }
            *match row.stat {
                JobStat::Pend | JobStat::Psusp => &mut group.pend,
                JobStat::Run | JobStat::Unkwn => &mut group.run,
                JobStat::Ssusp => &mut group.ssusp,
                JobStat::Ususp => &mut group.ususp,
                JobStat::Done | JobStat::Exit => &mut group.finish,
            } += n;
        }
    }

    /// The rows of the groups, with what is stated about the explicit ones. `top`: only this group
    /// and its subgroups; `by_tree`: each group is followed by its subgroups.
    pub(crate) fn rows(
        mut self,
        explicit: &[JobGroup],
        top: Option<&str>,
        by_tree: bool,
    ) -> Vec<GroupRow> {
        for group in explicit {
            for name in ancestors(&group.name) {
                let row = self.group(name);
                if row.owner.is_empty() {
                    row.owner.clone_from(&group.user);
                }
            }
        }
        // After the others: an explicit group has the owner who created it.
        for group in explicit {
            let row = self.group(&group.name);
            row.owner.clone_from(&group.user);
            row.limit = group.limit;
        }
        let mut rows: Vec<GroupRow> = self.rows.into_values().collect();
        rows.retain(|row| top.is_none_or(|top| is_within(&row.name, top)));
        rows.sort_by(|a, b| {
            let (a, b) = (a.components(), b.components());
            match by_tree {
                true => a.cmp(&b),
                false => (a.len(), a).cmp(&(b.len(), b)),
            }
        });
        rows
    }

    fn group(&mut self, name: &str) -> &mut GroupRow {
        self.rows
            .entry(name.to_owned())
            .or_insert_with(|| GroupRow {
                name: name.to_owned(),
                ..GroupRow::default()
            })
    }
}

/// The function that writes the value of a field.
pub(crate) type GroupGet = Get<GroupRow>;

const fn number(name: &'static str, header: &'static str, get: GroupGet) -> Field<GroupGet> {
    left(name, &[], header, 6, get)
}

/// All fields of a group.
pub(crate) static FIELDS: &[Field<GroupGet>] = &[
    left("group_name", &["name"], "GROUP_NAME", 18, |g, out| {
        out.push_str(&g.name);
    }),
    number("njobs", "NJOBS", |g, out| int(out, g.total())),
    number("nslots", "NSLOTS", |g, out| int(out, g.total())),
    number("pend", "PEND", |g, out| int(out, g.pend)),
    number("run", "RUN", |g, out| int(out, g.run)),
    number("ssusp", "SSUSP", |g, out| int(out, g.ssusp)),
    number("ususp", "USUSP", |g, out| int(out, g.ususp)),
    // What pending jobs reserve is not published for each job.
    number("rsv", "RSV", |_, _| {}),
    number("finish", "FINISH", |g, out| int(out, g.finish)),
    // Columns are found by their position: LSF has this one.
    number("sla", "SLA", |_, out| out.push_str("()")),
    left("jlimit", &[], "JLIMIT", 8, |g, out| {
        int(out, g.started);
        match g.limit {
            Some(limit) => write!(out, "/{limit}").expect("a string takes every write"),
            None => out.push_str("/-"),
        }
    }),
    left("owner", &["user"], "OWNER", 10, |g, out| {
        out.push_str(&g.owner);
    }),
];

/// The table. `slots`: counts are those of slots.
pub(crate) fn table(slots: bool, wide: bool) -> Table<GroupGet> {
    let mut columns = vec![("group_name", 18, cut(wide, Cut::Tail))];
    let counts: &[&str] = match slots {
        true => &["nslots", "pend", "run", "ssusp", "ususp", "rsv"],
        false => &["njobs", "pend", "run", "ssusp", "ususp", "finish"],
    };
    columns.extend(counts.iter().map(|name| (*name, 6, Cut::Never)));
    columns.extend([
        ("sla", 6, Cut::Never),
        ("jlimit", 8, Cut::Never),
        ("owner", 10, cut(wide, Cut::Head)),
    ]);
    Table::fixed(FIELDS, &columns)
}

/// The fields of `-json` without `-o`.
pub(crate) const JSON_DEFAULT: &str =
    "group_name njobs pend run ssusp ususp finish sla jlimit owner";

/// Appends the JSON line of a group.
pub(crate) fn put_json(out: &mut String, g: &GroupRow) {
    let mut o = Object::begin(out);
    o.text("name", &g.name);
    o.int("total", g.total());
    o.int("pend", g.pend);
    o.int("run", g.run);
    o.int("ssusp", g.ssusp);
    o.int("ususp", g.ususp);
    o.int("finish", g.finish);
    o.int("started_jobs", g.started);
    o.opt("limit", g.limit);
    o.text("owner", &g.owner);
    o.end();
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;
    use crate::record::view::ArrayRow;

    fn sums(slots: bool) -> GroupSums {
        let mut sums = GroupSums::new(slots);
        let mut add = |id: u32, user: &str, group: &str, stat, waiting: &str| {
            let spec = Spec {
                user: user.into(),
                job_group: group.into(),
                min: 2,
                ..Spec::default()
            };
            let started = JobStat::is_started(stat);
            let share = crate::model::Share("h1".into(), 2);
            let arr = (!waiting.is_empty()).then(|| ArrayRow {
                waiting: waiting.into(),
                ..ArrayRow::default()
            });
            let row = JobRow {
                j: JobKey::job(id),
                stat,
                hosts: if started { vec![share] } else { Vec::new() },
                arr: arr.map(Box::new),
                ..JobRow::default()
            };
            sums.add(&row, &spec);
        };
        add(3, "u2", "/a/b", JobStat::Run, "");
        add(2, "u1", "/a", JobStat::Ususp, "");
        add(4, "u1", "/a/b", JobStat::Psusp, "1-3");
        add(5, "u1", "/a-b", JobStat::Exit, "");
        add(6, "u1", "", JobStat::Run, "");
        sums
    }

    fn explicit(name: &str, limit: Option<u32>) -> JobGroup {
        JobGroup {
            name: name.into(),
            user: "admin".into(),
            limit,
            ..JobGroup::default()
        }
    }

    /// Name, owner, total, pending, started, limit.
    type Line = (String, String, u64, u64, u64, Option<u32>);

    fn lines(rows: &[GroupRow]) -> Vec<Line> {
        let line = |g: &GroupRow| {
            let (name, owner) = (g.name.clone(), g.owner.clone());
            (name, owner, g.total(), g.pend, g.started, g.limit)
        };
        rows.iter().map(line).collect()
    }

    fn line(name: &str, owner: &str, counts: (u64, u64, u64), limit: Option<u32>) -> Line {
        let (total, pend, started) = counts;
        (name.into(), owner.into(), total, pend, started, limit)
    }

    #[test]
    fn a_group_counts_the_jobs_of_its_subgroups() {
        let explicit = [explicit("/a/b", Some(7)), explicit("/new/x", None)];
        let rows = sums(false).rows(&explicit, None, true);
        let want = [
            line("/a", "u1", (5, 3, 2), None),
            line("/a/b", "admin", (4, 3, 1), Some(7)),
            line("/a-b", "u1", (1, 0, 0), None),
            line("/new", "admin", (0, 0, 0), None),
            line("/new/x", "admin", (0, 0, 0), None),
        ];
        assert_eq!(lines(&rows), want);
        let flat = sums(false).rows(&explicit, None, false);
        let names: Vec<&str> = flat.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(names, ["/a", "/a-b", "/new", "/a/b", "/new/x"]);
        let below = sums(false).rows(&explicit, Some("/a"), true);
        assert_eq!(lines(&below), want[..2]);
    }

    #[test]
    fn slots_are_those_held_and_those_requested() {
        let rows = sums(true).rows(&[], Some("/a"), true);
        let want = [
            line("/a", "u1", (10, 6, 2), None),
            line("/a/b", "u2", (8, 6, 1), None),
        ];
        assert_eq!(lines(&rows), want);
    }
}
