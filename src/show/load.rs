//! Load in the form of `cload`: indices of each host, JSON, registry of fields.
//!
//! Owns the printed form of each index. A host that is unavailable has no load, because its values
//! are out of date.

use super::cell::{Cut, Object, int};
use super::field::{Field, Get, Table, cut};
use super::job_table::stat_color;
use crate::record::host_status::HostStatus;
use crate::record::view::HostRow;
use crate::text::units;
use crate::text::width::{escape, width};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The function that writes the value of a field.
pub(crate) type LoadGet = Get<HostRow>;

/// Whether the load of the host is known.
pub(crate) fn is_known(h: &HostRow) -> bool {
    !h.status.is_silent()
}

/// The load status: `ok`, `-ok` (no executor), `unavail`, `lockU` (locked by an administrator).
/// Whether the host takes jobs is shown by `chosts`.
pub(crate) fn status(h: &HostRow) -> &'static str {
    match (is_known(h), h.load.executor) {
        (true, true) if h.lock.is_some() => "lockU",
        // A host whose executor is silent still reports its load.
        _ if h.status == HostStatus::Unreachable => "-ok",
        (false, _) => "unavail",
        (true, true) => "ok",
        (true, false) => "-ok",
    }
}

fn shows_load(h: &HostRow) -> bool {
    h.status != HostStatus::Unavailable
}

/// An amount in MB, formatted in at most five columns: `812M`, `50.8G`, `128G`, `1.2T`.
pub(crate) fn megabytes(mb: f64) -> String {
    if !mb.is_finite() || mb < 0.0 {
        return "-".to_owned();
    }
    let (gb, tb) = (mb / 1024.0, mb / 1_048_576.0);
    match () {
        () if mb < 9999.5 => format!("{mb:.0}M"),
        () if gb < 99.95 => format!("{gb:.1}G"),
        () if gb < 9999.5 => format!("{gb:.0}G"),
        () => format!("{tb:.1}T"),
    }
}

fn float(out: &mut String, h: &HostRow, value: f64) {
    if shows_load(h) && value.is_finite() {
        write!(out, "{value:.1}").expect("a string takes every write");
    }
}

fn whole(out: &mut String, h: &HostRow, value: f64) {
    if shows_load(h) && value.is_finite() {
        write!(out, "{value:.0}").expect("a string takes every write");
    }
}

fn size(out: &mut String, h: &HostRow, mb: f64) {
    if shows_load(h) {
        out.push_str(&megabytes(mb));
    }
}

const fn index(name: &'static str, get: LoadGet) -> Field<LoadGet> {
    Field {
        name,
        aliases: &[],
        header: name,
        width: 6,
        right_aligned: true,
        get,
    }
}

/// All fields of a host's load.
pub(crate) static FIELDS: &[Field<LoadGet>] = &[
    Field {
        name: "host_name",
        aliases: &["hname", "name", "host"],
        header: "HOST_NAME",
        width: 20,
        right_aligned: false,
        get: |h, out| out.push_str(&h.name),
    },
    Field {
        name: "status",
        aliases: &["stat"],
        header: "status",
        width: 7,
        right_aligned: false,
        get: |h, out| out.push_str(status(h)),
    },
    index("r15s", |h, out| float(out, h, h.load.r15s)),
    index("r1m", |h, out| float(out, h, h.load.r1m)),
    index("r15m", |h, out| float(out, h, h.load.r15m)),
    index("ut", |h, out| {
        if shows_load(h) && h.load.ut.is_finite() {
            write!(out, "{:.0}%", h.load.ut * 100.0).expect("a string takes every write");
        }
    }),
    index("pg", |h, out| float(out, h, h.load.pg)),
    index("io", |h, out| whole(out, h, h.load.io)),
    index("ls", |h, out| whole(out, h, h.load.ls)),
    index("it", |h, out| whole(out, h, h.load.it)),
    index("tmp", |h, out| size(out, h, h.load.tmp)),
    index("swp", |h, out| size(out, h, h.load.swp)),
    index("mem", |h, out| size(out, h, h.load.mem)),
    index("ncpus", |h, out| int(out, h.load.ncpus)),
];

/// Indices with their column widths, in the order of the table; `io` is shown with `-l` only.
const INDICES: [(&str, usize); 11] = [
    ("r15s", 5),
    ("r1m", 5),
    ("r15m", 5),
    ("ut", 4),
    ("pg", 5),
    ("io", 5),
    ("ls", 3),
    ("it", 5),
    ("tmp", 5),
    ("swp", 5),
    ("mem", 5),
];

/// Names of all load indices.
pub(crate) fn index_names() -> impl Iterator<Item = &'static str> {
    INDICES.iter().map(|(name, _)| *name)
}

/// The table of the load indices only.
pub(crate) fn indices_table(io: bool) -> Table<LoadGet> {
    let columns: Vec<_> = INDICES
        .iter()
        .filter(|(name, _)| io || *name != "io")
        .map(|(name, columns)| (*name, *columns, Cut::Never))
        .collect();
    Table::fixed(FIELDS, &columns)
}

/// The table. `long`: also io, and more space for names; `wide`: full names; `only` (with `-I`):
/// the indices to show.
pub(crate) fn table(long: bool, wide: bool, only: &[&str]) -> Table<LoadGet> {
    let name = if long { 24 } else { 15 };
    let mut columns = vec![
        ("host_name", name, cut(wide || long, Cut::Head)),
        ("status", 6, Cut::Never),
    ];
    for (index, width) in INDICES {
        let wanted = if only.is_empty() {
            long || index != "io"
        } else {
            only.contains(&index)
        };
        if wanted {
            columns.push((index, width, Cut::Never));
        }
    }
    Table::fixed(FIELDS, &columns).painted("status", |word| match word {
        "ok" => stat_color("RUN"),
        "unavail" => stat_color("EXIT"),
        _ => stat_color("PEND"),
    })
}

/// The table, with a column for each of these sensors' resources after the indices.
pub(crate) fn with_sensors(
    table: &Table<LoadGet>,
    hosts: &[&HostRow],
    sensors: &[&str],
    header: bool,
) -> String {
    let value = |h: &HostRow, name: &str| match h.load.values.get(name) {
        Some(value) if shows_load(h) => units::shown(value).into_owned(),
        _ => "-".to_owned(),
    };
    let columns = sensors.iter().map(|name| {
        let values = hosts.iter().map(|h| width(&value(h, name)));
        values.chain([width(name)]).max().unwrap_or(0)
    });
    let columns: Vec<usize> = columns.collect();
    let mut out = String::new();
    let mut line = |row: &dyn Fn(&mut String), text: &dyn Fn(&str) -> String| {
        let from = out.len();
        row(&mut out);
        out.truncate(out.trim_end_matches('\n').len());
        for (name, columns) in sensors.iter().zip(&columns) {
            let text = escape(&text(name)).into_owned();
            super::cell::blanks(&mut out, 1 + columns.saturating_sub(width(&text)));
            out.push_str(&text);
        }
        if let Some(most) = table.most {
            super::cell::fit(&mut out, from, most);
        }
        out.push('\n');
    };
    if header {
        line(&|out| table.header(out), &str::to_owned);
    }
    for h in hosts {
        let row = |out: &mut String| table.row(out, |get, out| get(h, out));
        line(&row, &|name| value(h, name));
    }
    out
}

/// The fields of `-json` without `-o`.
pub(crate) const JSON_DEFAULT: &str = "host_name status r15s r1m r15m ut pg io ls it tmp swp mem";

/// Divides run queues by the number of processors (`-E`), and also by the CPU factor (`-N`).
pub(crate) fn normalize(h: &mut HostRow, by_factor: bool) {
    let cpus = f64::from(h.load.ncpus.max(1));
    let factor = if by_factor && h.cpuf > 0.0 {
        h.cpuf
    } else {
        1.0
    };
    for value in [&mut h.load.r15s, &mut h.load.r1m, &mut h.load.r15m] {
        *value /= cpus * factor;
    }
}

/// Appends the member `load`; `null` if it is unknown.
pub(crate) fn json_load(o: &mut Object<'_>, h: &HostRow) {
    if !shows_load(h) {
        return o.null("load");
    }
    let mut inner = Object::begin(o.key("load"));
    for (name, value) in indices(h) {
        inner.float(name, value);
    }
    for (name, value) in &h.load.values {
        super::cell::json_str(inner.free_key(name), value);
    }
    inner.end();
}

fn indices(h: &HostRow) -> [(&'static str, f64); 11] {
    let l = &h.load;
    [
        ("r15s", l.r15s),
        ("r1m", l.r1m),
        ("r15m", l.r15m),
        ("ut", l.ut),
        ("pg", l.pg),
        ("io", l.io),
        ("ls", l.ls),
        ("it", l.it),
        ("tmp", l.tmp),
        ("swp", l.swp),
        ("mem", l.mem),
    ]
}

/// A host's row as a JSON object for programs that store samples, with a constant set of members:
/// indices as in [`json_load`], and the values of sensors as a list, each as text and, if it is
/// one, as a number.
pub(crate) fn sample(h: &HostRow) -> String {
    let mut out = String::with_capacity(512);
    let mut o = Object::begin(&mut out);
    o.text("host", &h.name);
    o.text("status", h.status.word());
    o.flag("executor", h.load.executor);
    o.opt("measured_ms", Some(h.load.t).filter(|t| *t != 0));
    for (name, n) in [
        ("ncpus", u64::from(h.load.ncpus)),
        ("maxmem", h.load.maxmem),
        ("maxswp", h.load.maxswp),
        ("maxtmp", h.load.maxtmp),
        ("slots", u64::from(h.slots)),
        ("slots_used", u64::from(h.njobs)),
        ("slots_running", u64::from(h.run)),
        ("slots_suspended", u64::from(h.ssusp) + u64::from(h.ususp)),
        ("slots_reserved", u64::from(h.rsv)),
    ] {
        o.int(name, n);
    }
    if shows_load(h) {
        for (name, value) in indices(h) {
            o.float(name, value);
        }
        let values: Vec<(&String, &String)> = h.load.values.iter().collect();
        super::cell::list(o.key("sensors"), &values, |out, (name, value)| {
            let mut sensor = Object::begin(out);
            sensor.text("name", name);
            sensor.text("text", value);
            sensor.float("value", value.parse().unwrap_or(f64::NAN));
            sensor.end();
        });
    }
    o.end();
    out
}

/// Appends the JSON line of a host's load. Memory is in MB, `ut` from 0 to 1, `it` in minutes.
pub(crate) fn put_json(out: &mut String, h: &HostRow) {
    let mut o = Object::begin(out);
    o.text("name", &h.name);
    o.text("status", status(h));
    o.int("ncpus", h.load.ncpus);
    o.int("maxmem", h.load.maxmem);
    o.int("maxswp", h.load.maxswp);
    o.int("maxtmp", h.load.maxtmp);
    o.flag("executor", h.load.executor);
    o.int("measured_ms", h.load.t);
    json_load(&mut o, h);
    o.end();
    out.push('\n');
}

/// Header of `-s`.
pub(crate) const SHARED_HEADER: &str =
    "RESOURCE                  VALUE       RESERVED       LOCATION\n";

/// `-s`: values of sensors and shared resources, with the amounts that jobs reserve: one line for
/// each host, or for the hosts that share a resource.
pub(crate) fn put_shared(out: &mut String, hosts: &[&HostRow], wanted: &[String]) {
    type Row<'h> = (&'h str, f64, Vec<&'h str>);
    let mut rows: BTreeMap<(&str, &str, bool), Row<'_>> = BTreeMap::new();
    for h in hosts.iter().filter(|h| is_known(h)) {
        let shared = |(name, _): &(&String, &String)| h.load.shared.contains_key(*name);
        let stated = h.resources.iter().filter(shared);
        for (name, value) in h.load.values.iter().chain(stated) {
            if !wanted.is_empty() && !wanted.contains(name) {
                continue;
            }
            let from = h.load.shared.get(name);
            let whose = from.map_or(h.name.as_str(), String::as_str);
            let row = rows.entry((name, whose, from.is_some()));
            let row = row.or_insert_with(|| (value, 0.0, Vec::new()));
            row.1 += h.reserved.get(name).copied().unwrap_or(0.0);
            row.2.push(&h.name);
        }
    }
    for ((name, ..), (value, reserved, at)) in rows {
        let from = out.len();
        write!(
            out,
            "{name:<20}{value:>11}{reserved:>15.1}{:>15}",
            at.join(" ")
        )
        .expect("a string takes every write");
        super::cell::escape_and_cut(out, from, None, Cut::Never);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::tests::host;
    use super::*;

    fn gone() -> HostRow {
        HostRow {
            name: "h2".into(),
            status: "unavail".into(),
            ..host()
        }
    }

    #[test]
    fn the_table_has_lsf_columns() {
        let mut h1 = host();
        h1.name = "h1".into();
        let mut silent = h1.clone();
        silent.load.executor = false;
        let want = "\
HOST_NAME       status  r15s   r1m  r15m   ut    pg  ls    it   tmp   swp   mem
h1              ok       3.2   2.0   0.0  12%   1.5   2     7 50.8G 4096M  128G
h1              -ok      3.2   2.0   0.0  12%   1.5   2     7 50.8G 4096M  128G
";
        assert_eq!(table(false, false, &[]).print([&h1, &silent], true), want);
        let row = table(false, false, &[]).print([&gone()], false);
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>()[..3],
            ["h2", "unavail", "-"]
        );
    }

    #[test]
    fn the_long_table_has_io_and_whole_names() {
        let want = "\
HOST_NAME                status  r15s   r1m  r15m   ut    pg    io  ls    it   tmp   swp   mem
a_host_with_a_long_name  ok       3.2   2.0   0.0  12%   1.5    12   2     7 50.8G 4096M  128G
";
        assert_eq!(table(true, false, &[]).print([&host()], true), want);
        let some = table(false, true, &["r1m", "mem"]).print([&host()], true);
        assert_eq!(
            some.lines().next(),
            Some("HOST_NAME       status   r1m   mem")
        );
    }

    #[test]
    fn sensors_have_columns_of_their_own() {
        let mut with = host();
        with.name = "h1".into();
        with.load.values = [("seat".to_owned(), "12345".to_owned())].into();
        let table = table(false, false, &["r1m"]);
        let want = "\
HOST_NAME       status   r1m  seat other
h1              ok       2.0 12345     -
h2              unavail     -     -     -
";
        let out = with_sensors(&table, &[&with, &gone()], &["seat", "other"], true);
        assert_eq!(out, want);
    }

    #[test]
    fn sizes_fit_in_five_columns() {
        for (mb, text) in [
            (0.0, "0M"),
            (9999.0, "9999M"),
            (10_240.0, "10.0G"),
            (131_072.0, "128G"),
            (20_971_520.0, "20.0T"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(megabytes(mb), text);
        }
    }

    #[test]
    fn run_queues_can_be_shared_out() {
        let mut h = host();
        normalize(&mut h, true);
        assert!((h.load.r15s - 3.25 / 96.0).abs() < 1e-9);
    }

    #[test]
    fn json_has_no_stale_load() {
        let mut out = String::new();
        put_json(&mut out, &gone());
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(v["load"], serde_json::Value::Null);
        let v: serde_json::Value = serde_json::from_str(&sample(&gone())).unwrap();
        assert_eq!((v.get("ut"), &v["status"]), (None, &"unavail".into()));
        let mut sensing = host();
        let values = [("lic", "3"), ("fabric", "ib")];
        sensing.load.values = values.map(|(k, v)| (k.into(), v.into())).into();
        let v: serde_json::Value = serde_json::from_str(&sample(&sensing)).unwrap();
        assert_eq!((&v["ut"], &v["ncpus"]), (&0.123.into(), &64.into()));
        let both = [&v["sensors"][0]["value"], &v["sensors"][1]["value"]];
        assert_eq!(both, [&serde_json::Value::Null, &3.into()]);
        let mut out = String::new();
        put_json(&mut out, &host());
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&v["load"]["ut"], &v["ncpus"]), (&0.123.into(), &64.into()));
    }
}
