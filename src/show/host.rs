//! Hosts from the view of the batch system (`chosts`): tables, long page, JSON, registry of fields.
//!
//! Owns headers and widths. `load` shows load, `info` shows static facts.

use super::cell::{self, Cut, Object, int};
use super::dates::Dates;
use super::field::{Field, Get, Table, cut, field};
use super::health;
use super::job::put_key;
use super::job_table::stat_color;
use super::load;
use super::load_units::GpuCounts;
use crate::model::{Stamp, WHOLE_UNIT};
use crate::record::host_status::HostStatus;
use crate::record::request::HostLock;
use crate::record::view::HostRow;
use crate::text::{units, width};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The function that writes the value of a field.
pub(crate) type HostGet = Get<HostRow>;

const fn count(name: &'static str, header: &'static str, get: HostGet) -> Field<HostGet> {
    field(name, &[], header, 6, true, get)
}

/// All fields of a host for `chosts`.
pub(crate) static FIELDS: &[Field<HostGet>] = &[
    field(
        "host_name",
        &["hname", "name", "host"],
        "HOST_NAME",
        20,
        false,
        |h, out| {
            out.push_str(&h.name);
        },
    ),
    field("status", &["stat"], "STATUS", 15, false, |h, out| {
        out.push_str(h.status.word())
    }),
    field("status_short", &[], "STATUS", 8, false, |h, out| {
        out.push_str(h.status.short_word());
    }),
    count("jl_u", "JL_U", |h, out| {
        if h.user_slots > 0 {
            int(out, h.user_slots);
        }
    }),
    count("max", "MAX", |h, out| int(out, h.slots)),
    count("njobs", "NJOBS", |h, out| int(out, h.njobs)),
    count("run", "RUN", |h, out| int(out, h.run)),
    count("ssusp", "SSUSP", |h, out| int(out, h.ssusp)),
    count("ususp", "USUSP", |h, out| int(out, h.ususp)),
    count("rsv", "RSV", |h, out| int(out, h.rsv)),
    field("cpuf", &[], "CPUF", 6, true, |h, out| {
        write!(out, "{:.2}", h.cpuf).expect("a string takes every write");
    }),
    field("type", &["htype"], "TYPE", 10, false, |h, out| {
        out.push_str(&h.host_type)
    }),
    field("model", &["hmodel"], "MODEL", 10, false, |h, out| {
        out.push_str(&h.model)
    }),
    field(
        "available_slots",
        &["free"],
        "AVAILABLE_SLOTS",
        6,
        true,
        |h, out| {
            let open = h.status == HostStatus::Ok;
            int(
                out,
                if open {
                    h.slots.saturating_sub(h.njobs)
                } else {
                    0
                },
            );
        },
    ),
    field("jobs", &[], "JOBS", 10, false, put_jobs),
    field("comment", &[], "COMMENT", 10, false, |h, out| {
        out.push_str(&h.comment)
    }),
    field("closed_by", &[], "CLOSED_BY", 10, false, |h, out| {
        out.push_str(&h.closed_by)
    }),
    field("warnings", &[], "WARNINGS", 20, false, |h, out| {
        out.push_str(&h.warnings.join("; "));
    }),
    field("ngpus", &[], "NGPUS", 5, true, |h, out| {
        int(out, GpuCounts::of(h).total as u64);
    }),
    count("ngpus_alloc", "NGPUS_ALLOC", |h, out| {
        let gpus = GpuCounts::of(h);
        int(out, (gpus.held_whole + gpus.parts) as u64);
    }),
    count("ngpus_excl_alloc", "NGPUS_EXCL_ALLOC", |h, out| {
        int(out, GpuCounts::of(h).held_whole as u64);
    }),
    count("ngpus_shared_alloc", "NGPUS_SHARED_ALLOC", |h, out| {
        int(out, GpuCounts::of(h).parts as u64);
    }),
    // A GPU in shared mode that one job has: there is no such mode.
    field(
        "ngpus_shared_jexcl_alloc",
        &["ngpus_shr_jexcl_alloc"],
        "NGPUS_SHARED_JEXCL_ALLOC",
        5,
        true,
        |_, out| int(out, 0_u64),
    ),
    count("ngpus_excl_avail", "NGPUS_EXCL_AVAIL", |h, out| {
        int(out, GpuCounts::of(h).free as u64);
    }),
    count("ngpus_shared_avail", "NGPUS_SHARED_AVAIL", |h, out| {
        int(out, GpuCounts::of(h).partly_free as u64);
    }),
];

/// Appends jobs with their slots, e.g. `17(2),18[3](1)`.
fn put_jobs(h: &HostRow, out: &mut String) {
    for (n, (key, slots)) in h.jobs.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        put_key(out, *key);
        write!(out, "({slots})").expect("a string takes every write");
    }
}

fn status_color(word: &str) -> &'static str {
    match word {
        "ok" => stat_color("RUN"),
        "unavail" | "unreach" => stat_color("EXIT"),
        _ => stat_color("PEND"),
    }
}

/// The table. `wide`: full names and statuses; `jobs`: also the ids of the jobs.
pub(crate) fn table(wide: bool, jobs: bool) -> Table<HostGet> {
    let (status, columns) = if wide {
        ("status", 14)
    } else {
        ("status_short", 11)
    };
    let mut list = vec![
        ("host_name", 18, cut(wide, Cut::Head)),
        (status, columns, Cut::Never),
        ("jl_u", 5, Cut::Never),
        ("max", 6, Cut::Never),
        ("njobs", 6, Cut::Never),
        ("run", 6, Cut::Never),
        ("ssusp", 6, Cut::Never),
        ("ususp", 6, Cut::Never),
        ("rsv", 6, Cut::Never),
    ];
    if jobs {
        list.push(("jobs", 4, Cut::Never));
    }
    let mut table = Table::fixed(FIELDS, &list).painted(status, status_color);
    table.columns[2].header = "JL/U";
    table
}

/// The table of `-c`: closed hosts, who closed them and why.
pub(crate) fn closed_table() -> Table<HostGet> {
    let mut table = Table::fixed(
        FIELDS,
        &[
            ("host_name", 18, Cut::Never),
            ("status", 14, Cut::Never),
            ("njobs", 6, Cut::Never),
            ("closed_by", 10, Cut::Never),
            ("comment", 10, Cut::Never),
        ],
    );
    table = table.painted("status", status_color);
    table
}

/// The fields of `-json` without `-o`.
pub(crate) const JSON_DEFAULT: &str = "host_name status jl_u max njobs run ssusp ususp rsv";

/// Appends the long page of a host.
pub(crate) fn put_long(out: &mut String, h: &HostRow, dates: &Dates) {
    let mut page = String::new();
    let w = &mut page;
    let add = |w: &mut String, args: std::fmt::Arguments<'_>| {
        w.write_fmt(args).expect("a string takes every write");
    };
    let jl = if h.user_slots == 0 {
        "-".to_owned()
    } else {
        h.user_slots.to_string()
    };
    add(w, format_args!("HOST  {}\n", width::escape(&h.name)));
    w.push_str(
        "STATUS           CPUF  JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV DISPATCH_WINDOW\n",
    );
    add(
        w,
        format_args!(
            "{:<14} {:>6.2} {jl:>5} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>15}\n\n",
            h.status, h.cpuf, h.slots, h.njobs, h.run, h.ssusp, h.ususp, h.rsv, "-"
        ),
    );
    put_current_load(w, h);
    put_amounts(w, h);
    put_units(w, h);
    put_thresholds(w, h);
    if !h.tags.is_empty() {
        add(
            w,
            format_args!("\n TAGS: {}\n", width::escape(&h.tags.join(" "))),
        );
    }
    if !h.jobs.is_empty() {
        w.push_str("\n JOBS: ");
        put_jobs(h, w);
        w.push('\n');
    }
    if !h.closed_by.is_empty() || !h.comment.is_empty() {
        w.push_str("\n ADMIN ACTION COMMENT: ");
        add(w, format_args!("\"{}\"", width::escape(&h.comment)));
        if !h.closed_by.is_empty() {
            add(w, format_args!(" by {}", width::escape(&h.closed_by)));
        }
        if h.closed_at > 0 {
            w.push_str(" at ");
            dates.long(w, h.closed_at);
        }
        w.push('\n');
    }
    if let Some(lock) = &h.lock {
        put_lock(w, lock, dates);
    }
    if let Some(reason) = health::reason(h, dates) {
        add(w, format_args!("\n REASON: {}\n", width::escape(&reason)));
    }
    for warning in &h.warnings {
        add(w, format_args!("\n WARNING: {}\n", width::escape(warning)));
    }
    out.push_str(&page);
}

/// Appends by whom the host is locked, since when and until when.
fn put_lock(w: &mut String, lock: &HostLock, dates: &Dates) {
    write!(w, "\n LOCKED: by {} at ", width::escape(&lock.by)).expect("a string takes every write");
    dates.long(w, lock.t.0);
    if lock.until != Stamp(0) {
        w.push_str(" until ");
        dates.long(w, lock.until.0);
    }
    w.push('\n');
}

/// The host's static and sensors' resources, including those with a reservation: name, total
/// amount, reserved amount.
fn amounts(h: &HostRow) -> BTreeMap<&str, (Cow<'_, str>, Option<f64>)> {
    let there = h.load.values.iter().chain(&h.resources);
    let mut all: BTreeMap<&str, (Cow<'_, str>, Option<f64>)> = there
        .map(|(name, v)| (&**name, (units::shown(v), None)))
        .collect();
    for (name, reserved) in &h.reserved {
        all.entry(name).or_insert(("-".into(), None)).1 = Some(*reserved);
    }
    all
}

/// The part of a unit in use that is held, if it is not all of it.
fn part_of(h: &HostRow, res: &str, at: usize) -> Option<f64> {
    let part = h.unit_parts.get(res)?.get(at)?;
    (*part < WHOLE_UNIT).then(|| f64::from(*part) / 1000.0)
}

/// Appends the units in use, with the jobs that hold them.
fn put_units(w: &mut String, h: &HostRow) {
    if !h.units.is_empty() {
        w.push_str("\n UNITS IN USE         UNIT:JOB\n");
    }
    for (name, holders) in &h.units {
        let mut line = format!(" {:<20}", width::escape(name));
        for (at, (unit, j)) in holders.iter().enumerate() {
            write!(line, " {}:", width::escape(unit)).expect("a string takes every write");
            put_key(&mut line, *j);
            if let Some(part) = part_of(h, name, at) {
                write!(line, "({part})").expect("a string takes every write");
            }
        }
        line.push('\n');
        w.push_str(&line);
    }
}

fn put_amounts(w: &mut String, h: &HostRow) {
    let all = amounts(h);
    if !all.is_empty() {
        w.push_str("\n RESOURCE             TOTAL        RESERVED\n");
    }
    for (name, (total, reserved)) in all {
        let (name, total) = (width::escape(name), width::escape(&total));
        let reserved = reserved.map_or("-".to_owned(), |r| format!("{r:.1}"));
        writeln!(w, " {name:<20} {total:<12} {reserved}").expect("a string takes every write");
    }
}

fn put_thresholds(w: &mut String, h: &HostRow) {
    if !h.thresholds.is_empty() {
        w.push_str("\n LOAD THRESHOLDS (dispatch/stop):\n");
    }
    for of in &h.thresholds {
        let whose = match of.queue.as_str() {
            "" => "host".to_owned(),
            queue => format!("with queue {queue}"),
        };
        let marks = of.marks.join(", ");
        let (whose, marks) = (width::escape(&whose), width::escape(&marks));
        writeln!(w, " {whose:<20} {marks}").expect("a string takes every write");
    }
}

fn put_current_load(w: &mut String, h: &HostRow) {
    w.push_str(" CURRENT LOAD USED FOR SCHEDULING:\n");
    let table = load::indices_table(true);
    let mut header = String::new();
    table.header(&mut header);
    let mut row = String::new();
    table.row(&mut row, |get, out| get(h, out));
    w.push_str("           ");
    w.push_str(&header);
    w.push_str(" Total     ");
    w.push_str(&row);
    w.push_str(" Reserved  ");
    let mut reserved = String::new();
    for column in &table.columns {
        let text = match h.reserved.get(column.field.name) {
            Some(r) if matches!(column.field.name, "mem" | "swp" | "tmp") => load::megabytes(*r),
            Some(r) => format!("{r:.1}"),
            None => "-".to_owned(),
        };
        let columns = column.width;
        write!(reserved, "{text:>columns$} ").expect("a string takes every write");
    }
    w.push_str(reserved.trim_end());
    w.push('\n');
}

/// `-s`: one line for each static or reserved resource of each host, or of the hosts that share it.
pub(crate) fn put_resources(out: &mut String, hosts: &[&HostRow], wanted: &[String]) {
    // By resource, the host or group to which it belongs, and whether it is shared: total, amount
    // reserved on all hosts, hosts.
    type Row<'h> = (Cow<'h, str>, f64, Vec<&'h str>);
    let mut rows: BTreeMap<(&str, &str, bool), Row<'_>> = BTreeMap::new();
    for h in hosts {
        for (name, (total, reserved)) in amounts(h) {
            if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
                continue;
            }
            let from = h.load.shared.get(name);
            let whose = from.map_or(h.name.as_str(), String::as_str);
            let row = rows.entry((name, whose, from.is_some()));
            let row = row.or_insert_with(|| (total, 0.0, Vec::new()));
            row.1 += reserved.unwrap_or(0.0);
            row.2.push(&h.name);
        }
    }
    for ((name, ..), (total, reserved, at)) in rows {
        let from = out.len();
        write!(
            out,
            "{name:<20}{total:>10}{reserved:>15.1} {:>14}",
            at.join(" ")
        )
        .expect("a string takes every write");
        cell::escape_and_cut(out, from, None, Cut::Never);
        out.push('\n');
    }
}

/// Header of `-s`.
pub(crate) const RESOURCES_HEADER: &str =
    "RESOURCE                 TOTAL       RESERVED       LOCATION\n";

/// Appends the JSON line of a host.
pub(crate) fn put_json(out: &mut String, h: &HostRow) {
    let mut o = Object::begin(out);
    o.text("name", &h.name);
    o.text("status", h.status.word());
    o.int("slots", h.slots);
    o.opt("user_slots", (h.user_slots > 0).then_some(h.user_slots));
    o.int("njobs", h.njobs);
    o.int("run", h.run);
    o.int("ssusp", h.ssusp);
    o.int("ususp", h.ususp);
    o.int("rsv", h.rsv);
    o.some_text("closed_by", &h.closed_by);
    o.some_text("comment", &h.comment);
    o.opt(
        "closed_time",
        (h.closed_at > 0).then(|| h.closed_at.div_euclid(1000)),
    );
    if let Some(lock) = &h.lock {
        o.text("locked_by", &lock.by);
        o.int("locked_time", lock.t.0.div_euclid(1000));
        let until = (lock.until != Stamp(0)).then(|| lock.until.0.div_euclid(1000));
        o.opt("locked_until", until);
    }
    o.text("type", &h.host_type);
    o.text("model", &h.model);
    o.float("cpuf", h.cpuf);
    o.texts("tags", &h.tags);
    let mut inner = Object::begin(o.key("resources"));
    for (name, value) in &h.resources {
        cell::json_str(inner.free_key(name), value);
    }
    inner.end();
    let mut inner = Object::begin(o.key("reserved"));
    for (name, value) in &h.reserved {
        inner.float(name, *value);
    }
    inner.end();
    let mut inner = Object::begin(o.key("units_in_use"));
    for (name, holders) in &h.units {
        let out = inner.free_key(name);
        cell::list(out, holders.iter().enumerate(), |out, (at, (unit, j))| {
            out.push_str("{\"unit\":");
            cell::json_str(out, unit);
            out.push_str(",\"jobid\":\"");
            put_key(out, *j);
            out.push('"');
            if let Some(part) = part_of(h, name, at) {
                write!(out, ",\"part\":{part}").expect("a string takes every write");
            }
            out.push('}');
        });
    }
    inner.end();
    cell::list(o.key("jobs"), &h.jobs, |out, (key, slots)| {
        out.push_str("{\"jobid\":\"");
        put_key(out, *key);
        write!(out, "\",\"slots\":{slots}}}").expect("a string takes every write");
    });
    cell::list(o.key("thresholds"), &h.thresholds, |out, of| {
        let mut inner = Object::begin(out);
        inner.some_text("queue", &of.queue);
        inner.texts("marks", &of.marks);
        inner.end();
    });
    o.texts("warnings", &h.warnings);
    load::json_load(&mut o, h);
    o.end();
    out.push('\n');
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::JobKey;
    use crate::record::load::LoadDoc;
    use crate::record::view::HostThresholds;
    use jiff::tz::TimeZone;

    pub(crate) fn host() -> HostRow {
        HostRow {
            name: "a_host_with_a_long_name".into(),
            status: "closed_Adm".into(),
            slots: 64,
            njobs: 5,
            run: 4,
            ususp: 1,
            closed_by: "boss".into(),
            comment: "disk 坏了".into(),
            closed_at: 1_795_230_429_000,
            host_type: "X86_64".into(),
            model: "EPYC".into(),
            cpuf: 1.5,
            tags: vec!["fast".into()],
            resources: [("lic".to_owned(), "10".to_owned())].into(),
            reserved: [("lic".to_owned(), 2.0), ("mem".to_owned(), 2048.0)].into(),
            jobs: vec![(JobKey::job(17), 4), (JobKey::element(18, 3), 1)],
            load: LoadDoc {
                r15s: 3.25,
                r1m: 2.0,
                r15m: 0.04,
                ut: 0.123,
                ..LoadDoc::of_idle_host()
            },
            ..HostRow::default()
        }
    }

    fn free() -> HostRow {
        HostRow {
            name: "h2".into(),
            status: "ok".into(),
            slots: 8,
            user_slots: 2,
            ..HostRow::default()
        }
    }

    #[test]
    fn the_table_has_lsf_columns() {
        let want = "\
HOST_NAME          STATUS       JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV
a_host_with_a_long closed          -     64      5      4      0      1      0
h2                 ok              2      8      0      0      0      0      0
";
        assert_eq!(table(false, false).print([&host(), &free()], true), want);
        let want = "\
HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV JOBS
a_host_with_a_long_name closed_Adm         -     64      5      4      0      1      0 \
17(4),18[3](1)
";
        assert_eq!(table(true, true).print([&host()], true), want);
    }

    #[test]
    fn closed_hosts_say_why() {
        let want = "\
HOST_NAME          STATUS          NJOBS CLOSED_BY  COMMENT
a_host_with_a_long_name closed_Adm          5 boss       disk 坏了
";
        assert_eq!(closed_table().print([&host()], true), want);
    }

    #[test]
    fn the_long_page() {
        let mut out = String::new();
        put_long(&mut out, &host(), &Dates::new(TimeZone::UTC));
        let want = "\
HOST  a_host_with_a_long_name
STATUS           CPUF  JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV DISPATCH_WINDOW
closed_Adm       1.50     -     64      5      4      0      1      0               -

 CURRENT LOAD USED FOR SCHEDULING:
            r15s   r1m  r15m   ut    pg    io  ls    it   tmp   swp   mem
 Total       3.2   2.0   0.0  12%   1.5    12   2     7 50.8G 4096M  128G
 Reserved      -     -     -    -     -     -   -     -     -     - 2048M

 RESOURCE             TOTAL        RESERVED
 lic                  10           2.0
 mem                  -            2048.0

 TAGS: fast

 JOBS: 17(4),18[3](1)

 ADMIN ACTION COMMENT: \"disk 坏了\" by boss at Sat Nov 21 03:07:09
";
        assert_eq!(out, want);
    }

    #[test]
    fn a_lock_is_shown_with_its_end() {
        let lock = HostLock {
            by: "boss".into(),
            t: Stamp(1_795_230_429_000),
            until: Stamp(1_795_230_489_000),
        };
        let mut host = HostRow {
            lock: Some(lock),
            status: "closed_Lock".into(),
            ..free()
        };
        let long = |host: &HostRow| {
            let mut out = String::new();
            put_long(&mut out, host, &Dates::new(TimeZone::UTC));
            out
        };
        let since = "\n LOCKED: by boss at Sat Nov 21 03:07:09";
        let out = long(&host);
        let until = format!("{since} until Sat Nov 21 03:08:09\n\n REASON: an administrator");
        assert!(out.contains(&until), "{out}");
        let mut out = String::new();
        put_json(&mut out, &host);
        let times = r#""locked_by":"boss","locked_time":1795230429,"locked_until":1795230489,"#;
        assert!(out.contains(times), "{out}");
        host.lock = Some(HostLock {
            until: Stamp(0),
            ..host.lock.unwrap()
        });
        let out = long(&host);
        assert!(out.contains(&format!("{since}\n")), "{out}");
        // Closed as well: the status names one reason, the page both.
        host.status = "closed_Adm".into();
        host.closed_by = "boss".into();
        let out = long(&host);
        assert!(
            out.contains("closed_Adm") && out.contains(since) && out.contains("\" by boss"),
            "{out}"
        );
    }

    #[test]
    fn thresholds_of_the_host_and_with_queues() {
        let of = |queue: &str, mark: &str| HostThresholds {
            queue: queue.into(),
            marks: vec![mark.into(), "r1m: 2/-".into()],
        };
        let host = HostRow {
            thresholds: vec![of("", "mem: 500/200"), of("lo", "mem: 900/200")],
            ..free()
        };
        let mut out = String::new();
        put_long(&mut out, &host, &Dates::new(TimeZone::UTC));
        let want = "
 LOAD THRESHOLDS (dispatch/stop):
 host                 mem: 500/200, r1m: 2/-
 with queue lo        mem: 900/200, r1m: 2/-
";
        assert!(out.contains(want), "{out}");
    }

    #[test]
    fn known_clients_read_delimited_formats() {
        let table = Table::from_format(
            FIELDS,
            "HOST_NAME STATUS JL_U MAX NJOBS RUN SSUSP USUSP RSV delimiter='|'",
        )
        .unwrap();
        assert_eq!(table.print([&free()], false), "h2|ok|2|8|0|0|0|0|0\n");
    }

    #[test]
    fn resources_and_json() {
        let mut out = String::from(RESOURCES_HEADER);
        put_resources(&mut out, &[&host()], &["lic".into()]);
        let want = "\
RESOURCE                 TOTAL       RESERVED       LOCATION
lic                         10            2.0 a_host_with_a_long_name
";
        assert_eq!(out, want);
        let shares = |name: &str, reserved: f64| HostRow {
            name: name.into(),
            reserved: [("seat".to_owned(), reserved)].into(),
            load: LoadDoc {
                values: [("seat".to_owned(), "7".to_owned())].into(),
                shared: [("seat".to_owned(), "h1".to_owned())].into(),
                ..LoadDoc::default()
            },
            ..HostRow::default()
        };
        let mut out = String::new();
        put_resources(&mut out, &[&shares("h1", 2.0), &shares("h2", 1.0)], &[]);
        let want = "seat                         7            3.0          h1 h2\n";
        assert_eq!(out, want, "a shared resource once");
        let mut out = String::new();
        put_json(&mut out, &host());
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(v["jobs"][1], serde_json::json!({"jobid":"18[3]","slots":1}));
        assert_eq!(
            (&v["slots"], &v["user_slots"]),
            (&64.into(), &serde_json::Value::Null)
        );
        assert_eq!(v["load"]["mem"], 131_072.0);
    }
}
