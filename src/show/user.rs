//! Users and groups in the form of `cusers`: table, JSON, registry of fields. All counts are slots.

use super::cell::{Cut, Object, int};
use super::field::{Field, Get, Table, cut};
use super::queue::json_counts;
use crate::record::view::UserRow;
use std::fmt::Write as _;

/// The function that writes the value of a field.
pub(crate) type UserGet = Get<UserRow>;

const fn field(name: &'static str, header: &'static str, get: UserGet) -> Field<UserGet> {
    Field {
        name,
        aliases: &[],
        header,
        width: 6,
        right_aligned: true,
        get,
    }
}

fn limit(out: &mut String, value: Option<u32>) {
    if let Some(n) = value {
        int(out, n);
    }
}

/// All fields of a user.
pub(crate) static FIELDS: &[Field<UserGet>] = &[
    Field {
        name: "user",
        aliases: &["name", "user_group"],
        header: "USER/GROUP",
        width: 18,
        right_aligned: false,
        get: |u, out| {
            out.push_str(&u.name);
            if u.group {
                out.push('/');
            }
        },
    },
    field("jl_p", "JL/P", |u, out| {
        if let Some(n) = u.per_proc {
            write!(out, "{n}").expect("a string takes every write");
        }
    }),
    field("max", "MAX", |u, out| limit(out, u.max)),
    field("njobs", "NJOBS", |u, out| int(out, u.counts.njobs)),
    field("pend", "PEND", |u, out| int(out, u.counts.pend)),
    field("run", "RUN", |u, out| int(out, u.counts.run)),
    field("ssusp", "SSUSP", |u, out| int(out, u.counts.ssusp)),
    field("ususp", "USUSP", |u, out| int(out, u.counts.ususp)),
    field("rsv", "RSV", |u, out| int(out, u.counts.rsv)),
    field("mpend", "MPEND", |u, out| limit(out, u.max_pend)),
    field("pjobs", "PJOBS", |u, out| int(out, u.counts.pend_jobs)),
    field("mpjobs", "MPJOBS", |u, out| limit(out, u.max_pend)),
];

/// The table; `wide` adds the data about pending jobs.
pub(crate) fn table(wide: bool) -> Table<UserGet> {
    let mut columns = vec![
        ("user", 18, cut(wide, Cut::Head)),
        ("jl_p", 5, Cut::Never),
        ("max", 6, Cut::Never),
        ("njobs", 6, Cut::Never),
        ("pend", 6, Cut::Never),
        ("run", 6, Cut::Never),
        ("ssusp", 6, Cut::Never),
        ("ususp", 6, Cut::Never),
        ("rsv", 6, Cut::Never),
    ];
    if wide {
        columns.extend(["mpend", "pjobs", "mpjobs"].map(|name| (name, 6, Cut::Never)));
    }
    Table::fixed(FIELDS, &columns)
}

/// The fields of `-json` without `-o`.
pub(crate) const JSON_DEFAULT: &str =
    "user jl_p max njobs pend run ssusp ususp rsv mpend pjobs mpjobs";

/// Appends the JSON line of a user.
pub(crate) fn put_json(out: &mut String, u: &UserRow) {
    let mut o = Object::begin(out);
    o.text("name", &u.name);
    o.flag("group", u.group);
    match u.per_proc {
        Some(n) => o.float("proc_slots", n),
        None => o.null("proc_slots"),
    }
    o.opt("max_slots", u.max);
    o.opt("max_pend_jobs", u.max_pend);
    json_counts(&mut o, &u.counts);
    o.end();
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::view::Counts;

    #[test]
    fn the_table_has_lsf_columns() {
        let u = UserRow {
            name: "alice".into(),
            max: Some(100),
            max_pend: Some(5000),
            counts: Counts {
                njobs: 12,
                pend: 10,
                run: 2,
                pend_jobs: 9,
                ..Counts::default()
            },
            ..UserRow::default()
        };
        let g = UserRow {
            name: "组".into(),
            group: true,
            per_proc: Some(1.5),
            ..UserRow::default()
        };
        let want = "\
USER/GROUP          JL/P    MAX  NJOBS   PEND    RUN  SSUSP  USUSP    RSV
alice                  -    100     12     10      2      0      0      0
组/                  1.5      -      0      0      0      0      0      0
";
        assert_eq!(table(false).print([&u, &g], true), want);
        let want = "\
USER/GROUP          JL/P    MAX  NJOBS   PEND    RUN  SSUSP  USUSP    RSV  MPEND  PJOBS MPJOBS
alice                  -    100     12     10      2      0      0      0   5000      9   5000
";
        assert_eq!(table(true).print([&u], true), want);
        let mut out = String::new();
        put_json(&mut out, &u);
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (&v["max_pend_jobs"], &v["group"]),
            (&5000.into(), &false.into())
        );
    }
}
