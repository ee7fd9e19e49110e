//! The components of the cluster (`cinfo`): resources, host types, models, static facts of hosts.
//!
//! Owns the three tables of `cinfo` and the table of `cinfo -H` (LSF's lshosts).

use super::cell::{self, Cut, Object, int};
use super::dates::Dates;
use super::field::{Field, Table, cut, field};
use super::health;
use super::host::HostGet;
use super::load::megabytes;
use crate::record::view::{HostRow, Params};
use crate::text::{resreq, width};
use std::fmt::Write as _;

fn size(out: &mut String, mb: u64) {
    if mb > 0 {
        #[allow(clippy::cast_precision_loss)] // shown with two digits
        out.push_str(&megabytes(mb as f64));
    }
}

/// All static fields of a host.
pub(crate) static HOST_FIELDS: &[Field<HostGet>] = &[
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
    field("type", &["htype"], "type", 10, false, |h, out| {
        out.push_str(&h.host_type)
    }),
    field("model", &["hmodel"], "model", 10, false, |h, out| {
        out.push_str(&h.model)
    }),
    field("cpuf", &[], "cpuf", 5, true, |h, out| {
        write!(out, "{:.1}", h.cpuf).expect("a string takes every write");
    }),
    field("ncpus", &["ncores"], "ncpus", 5, true, |h, out| {
        if h.load.ncpus > 0 {
            int(out, h.load.ncpus);
        }
    }),
    field("maxmem", &[], "maxmem", 6, true, |h, out| {
        size(out, h.load.maxmem)
    }),
    field("maxswp", &[], "maxswp", 6, true, |h, out| {
        size(out, h.load.maxswp)
    }),
    field("server", &[], "server", 6, true, |_, out| {
        out.push_str("Yes")
    }),
    field("resources", &["res"], "RESOURCES", 9, false, |h, out| {
        out.push('(');
        out.push_str(&h.tags.join(" "));
        out.push(')');
    }),
    field("ndisks", &[], "ndisks", 6, true, |h, out| {
        int(out, h.load.ndisks)
    }),
    field("maxtmp", &[], "maxtmp", 6, true, |h, out| {
        size(out, h.load.maxtmp)
    }),
    field("nprocs", &[], "nprocs", 6, true, |_, _| {}),
    field("nthreads", &[], "nthreads", 8, true, |_, _| {}),
    field("slots", &[], "slots", 5, true, |h, out| int(out, h.slots)),
    field("version", &[], "version", 8, false, |h, out| {
        out.push_str(&h.load.version)
    }),
];

/// The table of static facts.
pub(crate) fn host_table(wide: bool) -> Table<HostGet> {
    Table::fixed(
        HOST_FIELDS,
        &[
            ("host_name", 14, cut(wide, Cut::Head)),
            ("type", 7, cut(wide, Cut::Head)),
            ("model", 8, cut(wide, Cut::Head)),
            ("cpuf", 5, Cut::Never),
            ("ncpus", 5, Cut::Never),
            ("maxmem", 6, Cut::Never),
            ("maxswp", 6, Cut::Never),
            ("server", 6, Cut::Never),
            ("resources", 9, Cut::Never),
        ],
    )
}

/// The fields of `cinfo -H -json` without `-o`.
pub(crate) const HOST_JSON_DEFAULT: &str =
    "host_name type model cpuf ncpus maxmem maxswp server resources";

/// Appends the long page of a host's facts.
pub(crate) fn put_host_long(out: &mut String, h: &HostRow) {
    writeln!(out, "\nHOST_NAME:  {}", width::escape(&h.name)).expect("a string takes every write");
    let table = Table::fixed(
        HOST_FIELDS,
        &[
            ("type", 10, Cut::Never),
            ("model", 12, Cut::Never),
            ("cpuf", 5, Cut::Never),
            ("ncpus", 5, Cut::Never),
            ("ndisks", 6, Cut::Never),
            ("maxmem", 6, Cut::Never),
            ("maxswp", 6, Cut::Never),
            ("maxtmp", 6, Cut::Never),
            ("server", 6, Cut::Never),
            ("version", 7, Cut::Never),
        ],
    );
    out.push_str(&table.print([h], true));
    writeln!(out, "\nRESOURCES: ({})", width::escape(&h.tags.join(" ")))
        .expect("a string takes every write");
    for (name, value) in &h.resources {
        writeln!(out, " {}={}", width::escape(name), width::escape(value))
            .expect("a string takes every write");
    }
    if !h.load.boot.is_empty() {
        writeln!(out, "BOOT_ID: {}", width::escape(&h.load.boot))
            .expect("a string takes every write");
    }
}

/// Appends the JSON line of a host's facts. Sizes are in MB.
pub(crate) fn put_host_json(out: &mut String, h: &HostRow) {
    let mut o = Object::begin(out);
    o.text("name", &h.name);
    o.text("type", &h.host_type);
    o.text("model", &h.model);
    o.float("cpuf", h.cpuf);
    o.int("ncpus", h.load.ncpus);
    o.int("slots", h.slots);
    o.int("maxmem", h.load.maxmem);
    o.int("maxswp", h.load.maxswp);
    o.int("maxtmp", h.load.maxtmp);
    o.int("ndisks", h.load.ndisks);
    o.texts("tags", &h.tags);
    let mut inner = Object::begin(o.key("resources"));
    for (name, value) in &h.resources {
        cell::json_str(inner.free_key(name), value);
    }
    inner.end();
    o.some_text("boot", &h.load.boot);
    o.some_text("version", &h.load.version);
    o.end();
    out.push('\n');
}

/// The parts of `cinfo` that are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InfoTables {
    pub resources: bool,
    pub types: bool,
    pub models: bool,
}

/// Whether the row of a resource is selected: it is named, or no name was given.
fn is_selected(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|n| n == name)
}

/// Appends the tables of `cinfo`. `names` limits the resources.
pub(crate) fn put(out: &mut String, params: &Params, parts: InfoTables, names: &[String]) {
    let mut first = true;
    let mut gap = |out: &mut String| {
        if !std::mem::take(&mut first) {
            out.push('\n');
        }
    };
    if parts.resources {
        gap(out);
        out.push_str("RESOURCE_NAME    TYPE    ORDER  DESCRIPTION\n");
        for (name, kind, order, about) in &params.resources {
            if is_selected(names, name) {
                line(
                    out,
                    format_args!("{name:<15} {kind:>7}  {order:>5}  {about}"),
                );
            }
        }
    }
    if parts.types && names.is_empty() {
        gap(out);
        out.push_str("TYPE_NAME\n");
        params
            .types
            .iter()
            .for_each(|t| line(out, format_args!("{t}")));
    }
    if parts.models && names.is_empty() {
        gap(out);
        out.push_str("MODEL_NAME      CPU_FACTOR\n");
        for (name, factor) in &params.models {
            line(out, format_args!("{name:<15} {factor:>10.2}"));
        }
    }
}

/// Appends the long form: one block for each resource.
pub(crate) fn put_long(out: &mut String, params: &Params, names: &[String]) {
    for (name, kind, order, about) in &params.resources {
        if !is_selected(names, name) {
            continue;
        }
        let builtin = resreq::builtin(name);
        let interval = builtin.map_or(0, |b| b.interval_s);
        let dynamic = interval > 0 || params.sensed.contains_key(name);
        let released = match builtin {
            Some(builtin) => builtin.release,
            None => params.released.contains(name),
        };
        let yes = |b: bool| if b { "Yes" } else { "No" };
        let interval = match interval {
            0 => "-".to_owned(),
            seconds => seconds.to_string(),
        };
        line(out, format_args!("RESOURCE_NAME:  {name}"));
        line(out, format_args!("DESCRIPTION: {about}"));
        out.push_str("TYPE       ORDER  INTERVAL  BUILTIN  DYNAMIC  RELEASE\n");
        let (builtin, dynamic) = (yes(builtin.is_some()), yes(dynamic));
        let released = yes(released);
        line(
            out,
            format_args!(
                "{kind:<10} {order:>5}  {interval:>8}  {builtin:>7}  {dynamic:>7}  {released:>7}\n"
            ),
        );
    }
}

/// Appends a line escaped for a terminal; a newline at its end is kept as an empty line.
fn line(out: &mut String, args: std::fmt::Arguments<'_>) {
    let text = args.to_string();
    let body = text.trim_end_matches('\n');
    let from = out.len();
    out.push_str(body);
    cell::escape_and_cut(out, from, None, Cut::Never);
    out.push_str(if body.len() < text.len() {
        "\n\n"
    } else {
        "\n"
    });
}

/// Appends one JSON object with all data of `cinfo`.
pub(crate) fn put_json(out: &mut String, params: &Params, hosts: &[HostRow], dates: &Dates) {
    let mut o = Object::begin(out);
    o.text("cluster", &params.cluster);
    cell::list(
        o.key("resources"),
        &params.resources,
        |out, (name, kind, order, about)| {
            let mut r = Object::begin(out);
            r.text("name", name);
            r.text("type", kind);
            r.text("order", order);
            r.text("description", about);
            r.end();
        },
    );
    o.texts("types", &params.types);
    cell::list(o.key("models"), &params.models, |out, (name, factor)| {
        let mut m = Object::begin(out);
        m.text("name", name);
        m.float("cpu_factor", *factor);
        m.end();
    });
    cell::list(
        o.key("host_groups"),
        &params.host_groups,
        |out, (name, hosts)| {
            let mut g = Object::begin(out);
            g.text("name", name);
            g.texts("hosts", hosts);
            g.end();
        },
    );
    cell::list(
        o.key("user_groups"),
        &params.user_groups,
        |out, (name, users, admins)| {
            let mut g = Object::begin(out);
            g.text("name", name);
            g.texts("users", users);
            g.text("administrators", admins);
            g.end();
        },
    );
    health::put_json(&mut o, params, hosts, dates);
    o.end();
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::host::tests::host;
    use super::*;
    use jiff::tz::TimeZone;

    fn params() -> Params {
        Params {
            cluster: "c1".into(),
            resources: vec![
                (
                    "r15s".into(),
                    "Numeric".into(),
                    "Inc".into(),
                    "15-second CPU run queue".into(),
                ),
                ("fast".into(), "Boolean".into(), "N/A".into(), "快".into()),
            ],
            types: vec!["X86_64".into()],
            models: vec![("EPYC".into(), 1.5)],
            ..Params::default()
        }
    }

    const ALL: InfoTables = InfoTables {
        resources: true,
        types: true,
        models: true,
    };

    #[test]
    fn three_tables() {
        let mut out = String::new();
        put(&mut out, &params(), ALL, &[]);
        let want = "\
RESOURCE_NAME    TYPE    ORDER  DESCRIPTION
r15s            Numeric    Inc  15-second CPU run queue
fast            Boolean    N/A  快

TYPE_NAME
X86_64

MODEL_NAME      CPU_FACTOR
EPYC                  1.50
";
        assert_eq!(out, want);
        let mut out = String::new();
        put(&mut out, &params(), ALL, &["fast".into()]);
        assert_eq!(out.lines().count(), 2);
    }

    #[test]
    fn hosts() {
        let want = "\
HOST_NAME      type    model     cpuf ncpus maxmem maxswp server RESOURCES
a_host_with_a_ X86_64  EPYC       1.5    64   251G  4096M    Yes (fast)
";
        assert_eq!(host_table(false).print([&host()], true), want);
        let mut out = String::new();
        put_host_long(&mut out, &host());
        assert!(out.contains("RESOURCES: (fast)\n lic=10\n"), "{out}");
        let mut out = String::new();
        put_host_json(&mut out, &host());
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (&v["maxmem"], &v["resources"]["lic"]),
            (&257_000.into(), &"10".into())
        );
    }

    #[test]
    fn lshosts_formats_of_known_clients() {
        let format = "HOST_NAME:80 type:30 model:30 cpuf ncpus maxmem: maxswp: server nprocs \
                      ncores nthreads maxtmp: delimiter='|'";
        let table = Table::from_format(HOST_FIELDS, format).unwrap();
        assert_eq!(
            table.print([&host()], false),
            "a_host_with_a_long_name|X86_64|EPYC|1.5|64|251G|4096M|Yes|-|64|-|97.7G\n"
        );
    }

    #[test]
    fn long_and_json() {
        let mut out = String::new();
        put_long(&mut out, &params(), &["r15s".into()]);
        let want = "\
RESOURCE_NAME:  r15s
DESCRIPTION: 15-second CPU run queue
TYPE       ORDER  INTERVAL  BUILTIN  DYNAMIC  RELEASE
Numeric      Inc        15      Yes      Yes      Yes

";
        assert_eq!(out, want);
        let more = Params {
            released: vec!["fast".into()],
            ..params()
        };
        for (params, yes) in [(params(), "No"), (more, "Yes")] {
            let mut out = String::new();
            put_long(&mut out, &params, &["fast".into()]);
            let row: Vec<&str> = out.lines().nth(3).unwrap().split_whitespace().collect();
            assert_eq!(row, ["Boolean", "N/A", "-", "No", "No", yes], "{out}");
        }
        let mut out = String::new();
        put_json(&mut out, &params(), &[host()], &Dates::new(TimeZone::UTC));
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(v["models"][0]["cpu_factor"], 1.5);
    }
}
