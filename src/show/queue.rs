//! Queues in the form of `cqueues`: table, long page, JSON, and the registry of their fields.
//!
//! Owns headers and widths. All counts are slots.

use super::cell::{self, Cut, Object, int};
use super::field::{Field, Get, Table, cut, left as text};
use super::job_table::stat_color;
use crate::record::view::{Counts, QueueRow};
use crate::text::window::Windows;
use jiff::tz::TimeZone;
use std::fmt::Write as _;

/// The function that writes the value of a field.
pub(crate) type QueueGet = Get<QueueRow>;

/// Settings whose values are windows.
const WINDOWS: &[&str] = &["RUN_WINDOW", "DISPATCH_WINDOW"];

/// The status, e.g. `Open:Active`.
pub(crate) fn status(q: &QueueRow) -> &'static str {
    match (q.open, q.active) {
        (true, false) => "Open:Inact_Adm",
        (false, false) => "Closed:Inact_Adm",
        (true, true) if q.window_closed => "Open:Inact_Win",
        (false, true) if q.window_closed => "Closed:Inact_Win",
        (true, true) => "Open:Active",
        (false, true) => "Closed:Active",
    }
}

/// Whether a window of the queue is closed at `ms`, according to its settings.
pub(crate) fn window_closed(q: &QueueRow, ms: i64, tz: &TimeZone) -> bool {
    let windows = q
        .settings
        .iter()
        .filter(|(key, _)| WINDOWS.contains(&key.as_str()));
    let mut windows = windows.filter_map(|(_, text)| Windows::parse(text).ok());
    windows.any(|window| !window.contains_ms(ms, tz))
}

fn limit(out: &mut String, value: Option<u32>) {
    if let Some(n) = value {
        int(out, n);
    }
}

const fn field(
    name: &'static str,
    header: &'static str,
    width: usize,
    get: QueueGet,
) -> Field<QueueGet> {
    Field {
        name,
        aliases: &[],
        header,
        width,
        right_aligned: true,
        get,
    }
}

/// All fields of a queue.
pub(crate) static FIELDS: &[Field<QueueGet>] = &[
    text(
        "queue_name",
        &["qname", "name", "queue"],
        "QUEUE_NAME",
        15,
        |q, out| {
            out.push_str(&q.name);
        },
    ),
    field("prio", "PRIO", 4, |q, out| int(out, q.priority)),
    text("status", &["stat"], "STATUS", 15, |q, out| {
        out.push_str(status(q))
    }),
    field("max", "MAX", 5, |q, out| limit(out, q.max)),
    field("jl_u", "JL_U", 5, |q, out| limit(out, q.user)),
    field("jl_p", "JL_P", 5, |q, out| {
        if let Some(n) = q.proc {
            write!(out, "{n}").expect("a string takes every write");
        }
    }),
    field("jl_h", "JL_H", 5, |q, out| limit(out, q.host)),
    field("njobs", "NJOBS", 6, |q, out| int(out, q.counts.njobs)),
    field("pend", "PEND", 6, |q, out| int(out, q.counts.pend)),
    field("run", "RUN", 6, |q, out| int(out, q.counts.run)),
    field("susp", "SUSP", 6, |q, out| {
        int(out, q.counts.ssusp + q.counts.ususp)
    }),
    field("ssusp", "SSUSP", 6, |q, out| int(out, q.counts.ssusp)),
    field("ususp", "USUSP", 6, |q, out| int(out, q.counts.ususp)),
    field("rsv", "RSV", 6, |q, out| int(out, q.counts.rsv)),
    field("pjobs", "PJOBS", 6, |q, out| int(out, q.counts.pend_jobs)),
    field("nice", "NICE", 5, |q, out| int(out, q.nice)),
    text("description", &["desc"], "DESCRIPTION", 20, |q, out| {
        out.push_str(&q.description)
    }),
    text("users", &[], "USERS", 10, |q, out| out.push_str(&q.users)),
    text("hosts", &[], "HOSTS", 10, |q, out| {
        out.push_str(&q.hosts.join(" "))
    }),
    text(
        "administrators",
        &["admins"],
        "ADMINISTRATORS",
        14,
        |q, out| {
            out.push_str(&q.administrators.join(" "));
        },
    ),
    text("comment", &[], "COMMENT", 10, |q, out| {
        out.push_str(&q.comment)
    }),
];

/// The default table; with full names and pending jobs for `-w`.
pub(crate) fn table(wide: bool) -> Table<QueueGet> {
    let mut columns = vec![
        ("queue_name", 14, cut(wide, Cut::Head)),
        ("prio", 4, Cut::Never),
        ("status", 15, Cut::Never),
        ("max", 4, Cut::Never),
        ("jl_u", 5, Cut::Never),
        ("jl_p", 4, Cut::Never),
        ("jl_h", 4, Cut::Never),
        ("njobs", 5, Cut::Never),
        ("pend", 5, Cut::Never),
        ("run", 4, Cut::Never),
        ("susp", 5, Cut::Never),
    ];
    if wide {
        columns.push(("pjobs", 6, Cut::Never));
    }
    let mut table = Table::fixed(FIELDS, &columns).painted("status", |word| match word {
        "Open:Active" => stat_color("RUN"),
        word if word.starts_with("Closed") => stat_color("EXIT"),
        _ => stat_color("PEND"),
    });
    table.title = Some(if wide {
        "QUEUE_NAME     PRIO      STATUS      MAX  JL/U JL/P JL/H NJOBS  PEND  RUN  SUSP  PJOBS"
    } else {
        "QUEUE_NAME     PRIO      STATUS      MAX  JL/U JL/P JL/H NJOBS  PEND  RUN  SUSP"
    });
    table
}

/// The fields of `-json` without `-o`.
pub(crate) const JSON_DEFAULT: &str =
    "queue_name prio status max jl_u jl_p jl_h njobs pend run susp pjobs";

fn numbers(q: &QueueRow) -> String {
    let opt = |n: Option<u32>| n.map_or("-".to_owned(), |n| n.to_string());
    let proc = q.proc.map_or("-".to_owned(), |n| n.to_string());
    let c = &q.counts;
    format!(
        "{:>4} {:>5}  {:<15} {:>4} {:>4} {:>4} {:>4} {:>5} {:>5} {:>5} {:>5} {:>5} {:>4}\n",
        q.priority,
        q.nice,
        status(q),
        opt(q.max),
        opt(q.user),
        proc,
        opt(q.host),
        c.njobs,
        c.pend,
        c.run,
        c.ssusp,
        c.ususp,
        c.rsv
    )
}

/// The policy that orders its jobs.
fn policy(q: &QueueRow) -> &str {
    let setting = q.settings.iter().find(|(title, _)| title == "POLICY");
    setting.map_or("fifo", |(_, value)| value.as_str())
}

/// Whether its policy has a share tree, which is published once its shares are used.
pub(crate) fn has_shares(q: &QueueRow) -> bool {
    matches!(policy(q), "fairshare" | "drf")
}

/// Appends the long page of a queue.
pub(crate) fn put_long(out: &mut String, q: &QueueRow) {
    let mut page = String::new();
    let add = |page: &mut String, args: std::fmt::Arguments<'_>| {
        page.write_fmt(args).expect("a string takes every write");
    };
    add(&mut page, format_args!("\nQUEUE: {}\n", safe(&q.name)));
    let default = if q.default {
        "  This is the default queue."
    } else {
        ""
    };
    add(
        &mut page,
        format_args!("  -- {}{default}\n", safe(&q.description)),
    );
    page.push_str("\nPARAMETERS/STATISTICS\n");
    page.push_str(
        "PRIO  NICE  STATUS           MAX JL/U JL/P JL/H NJOBS  PEND   RUN SSUSP USUSP  RSV\n",
    );
    page.push_str(&numbers(q));
    if !q.comment.is_empty() {
        add(
            &mut page,
            format_args!("ADMIN ACTION COMMENT: \"{}\"\n", safe(&q.comment)),
        );
    }
    for (prefix, title) in [
        ("DEFAULT ", "DEFAULT LIMITS"),
        ("MAXIMUM ", "MAXIMUM LIMITS"),
    ] {
        put_limits(&mut page, q, prefix, title);
    }
    add(
        &mut page,
        format_args!("\nSCHEDULING POLICIES:  {}\n\n", safe(policy(q))),
    );
    add(
        &mut page,
        format_args!("USERS: {}\n", text_or(&q.users, "all")),
    );
    add(
        &mut page,
        format_args!("HOSTS: {}\n", text_or(&q.hosts.join(" "), "none")),
    );
    if q.administrators.iter().any(|a| !a.is_empty()) {
        add(
            &mut page,
            format_args!("ADMINISTRATORS: {}\n", safe(&q.administrators.join(" "))),
        );
    }
    for (title, value) in &q.settings {
        if !title.starts_with("DEFAULT ") && !title.starts_with("MAXIMUM ") {
            add(
                &mut page,
                format_args!("{}: {}\n", safe(title), safe(value)),
            );
        }
    }
    out.push_str(&page);
}

fn safe(text: &str) -> std::borrow::Cow<'_, str> {
    crate::text::width::escape(text)
}

fn text_or(text: &str, otherwise: &str) -> String {
    safe(if text.is_empty() { otherwise } else { text }).into_owned()
}

/// Appends settings called `DEFAULT x` or `MAXIMUM x`, each with its value on the next line.
fn put_limits(page: &mut String, q: &QueueRow, prefix: &str, title: &str) {
    let limits: Vec<_> = q
        .settings
        .iter()
        .filter(|(t, _)| t.starts_with(prefix))
        .collect();
    if limits.is_empty() {
        return;
    }
    writeln!(page, "\n{title}:").expect("a string takes every write");
    for (name, value) in limits {
        let name = safe(&name[prefix.len()..]);
        writeln!(page, " {name}\n {}", safe(value)).expect("a string takes every write");
    }
}

/// Appends the members of slot counts, in all JSON outputs.
pub(crate) fn json_counts(o: &mut Object<'_>, c: &Counts) {
    let mut inner = Object::begin(o.key("counts"));
    inner.int("njobs", c.njobs);
    inner.int("pend", c.pend);
    inner.int("run", c.run);
    inner.int("ssusp", c.ssusp);
    inner.int("ususp", c.ususp);
    inner.int("rsv", c.rsv);
    inner.int("pend_jobs", c.pend_jobs);
    inner.end();
}

/// Appends the JSON line of a queue.
pub(crate) fn put_json(out: &mut String, q: &QueueRow) {
    let mut o = Object::begin(out);
    o.text("name", &q.name);
    o.text("description", &q.description);
    o.int("priority", q.priority);
    o.int("nice", q.nice);
    o.text("status", status(q));
    o.flag("open", q.open);
    o.flag("active", q.active);
    o.some_text("comment", &q.comment);
    o.opt("max_slots", q.max);
    o.opt("user_slots", q.user);
    match q.proc {
        Some(n) => o.float("proc_slots", n),
        None => o.null("proc_slots"),
    }
    o.opt("host_slots", q.host);
    json_counts(&mut o, &q.counts);
    o.text("users", &q.users);
    o.texts("hosts", &q.hosts);
    o.texts(
        "administrators",
        q.administrators.iter().filter(|a| !a.is_empty()),
    );
    o.flag("default", q.default);
    let mut settings = Object::begin(o.key("settings"));
    for (title, value) in &q.settings {
        cell::json_str(settings.free_key(title), value);
    }
    settings.end();
    o.end();
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> QueueRow {
        QueueRow {
            name: "normal_with_a_long_name".into(),
            description: "for 大家".into(),
            priority: 30,
            open: true,
            active: true,
            user: Some(64),
            counts: Counts {
                njobs: 12,
                pend: 7,
                run: 4,
                ususp: 1,
                pend_jobs: 5,
                ..Counts::default()
            },
            settings: vec![
                ("MAXIMUM RUNLIMIT".into(), "60.0 min".into()),
                ("RERUNNABLE".into(), "no".into()),
            ],
            users: "all".into(),
            hosts: vec!["h1".into(), "h2".into()],
            administrators: vec!["boss".into()],
            default: true,
            ..QueueRow::default()
        }
    }

    #[test]
    fn the_table_has_lsf_columns() {
        let closed = QueueRow {
            name: "night".into(),
            priority: 5,
            max: Some(100),
            proc: Some(0.5),
            ..QueueRow::default()
        };
        let want = "\
QUEUE_NAME     PRIO      STATUS      MAX  JL/U JL/P JL/H NJOBS  PEND  RUN  SUSP
normal_with_a_   30 Open:Active        -    64    -    -    12     7    4     1
night             5 Closed:Inact_Adm  100     -  0.5    -     0     0    0     0
";
        assert_eq!(table(false).print([&queue(), &closed], true), want);
        let wide = table(true).print([&queue()], true);
        assert!(wide.contains("normal_with_a_long_name") && wide.ends_with(" 5\n"));
    }

    #[test]
    fn a_queue_outside_its_window_says_so() {
        // Monday 08:00 UTC.
        let at = 1_795_420_800_000;
        let mut q = queue();
        (q.open, q.active) = (true, true);
        q.settings
            .push(("DISPATCH_WINDOW".into(), "18:00-7:00".into()));
        q.window_closed = window_closed(&q, at, &TimeZone::UTC);
        assert_eq!(status(&q), "Open:Inact_Win");
        q.open = false;
        assert_eq!(status(&q), "Closed:Inact_Win");
        q.active = false;
        assert_eq!(status(&q), "Closed:Inact_Adm");
        assert!(!window_closed(&q, at - 2 * 3_600_000, &TimeZone::UTC));
        assert!(!window_closed(&queue(), at, &TimeZone::UTC));
    }

    #[test]
    fn the_long_page() {
        let mut out = String::new();
        put_long(&mut out, &queue());
        let want = "
QUEUE: normal_with_a_long_name
  -- for 大家  This is the default queue.

PARAMETERS/STATISTICS
PRIO  NICE  STATUS           MAX JL/U JL/P JL/H NJOBS  PEND   RUN SSUSP USUSP  RSV
  30     0  Open:Active        -   64    -    -    12     7     4     0     1    0

MAXIMUM LIMITS:
 RUNLIMIT
 60.0 min

SCHEDULING POLICIES:  fifo

USERS: all
HOSTS: h1 h2
ADMINISTRATORS: boss
RERUNNABLE: no
";
        assert_eq!(out, want);
    }

    #[test]
    fn json_is_typed() {
        let mut out = String::new();
        put_json(&mut out, &queue());
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (&v["max_slots"], &v["user_slots"]),
            (&serde_json::Value::Null, &64.into())
        );
        assert_eq!(v["counts"]["pend"], 7);
        assert_eq!(v["settings"]["RERUNNABLE"], "no");
        let table = Table::from_format(FIELDS, JSON_DEFAULT).unwrap();
        let records = table.records("cqueues", "QUEUES", [&queue()]);
        let v: serde_json::Value = serde_json::from_str(&records).unwrap();
        assert_eq!(
            (&v["QUEUES"], &v["RECORDS"][0]["MAX"]),
            (&1.into(), &"".into())
        );
    }
}
