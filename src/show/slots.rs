//! Slots on which work could start now, as `cslots` shows them: table, long page, JSON, fields.

use super::cell::{Cut, Object, int};
use super::field::{Field, Get, Table, left};
use crate::model::Share;
use std::fmt::Write as _;

/// A number of slots for a job that lasts no longer than this.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SlotWindow {
    pub slots: u64,
    /// Longest run in whole seconds; `None`: no end is known.
    pub run_s: Option<u64>,
    /// The hosts of these slots.
    pub hosts: Vec<Share>,
}

/// The function that writes a field.
pub(crate) type SlotGet = Get<SlotWindow>;

/// The text for a run without an end.
const UNLIMITED: &str = "UNLIMITED";

/// Every field of a window.
pub(crate) static FIELDS: &[Field<SlotGet>] = &[
    left("slots", &[], "SLOTS", 15, |r, out| int(out, r.slots)),
    left("runtime", &[], "RUNTIME", 32, |r, out| {
        runtime(out, r.run_s)
    }),
    left("hosts", &[], "HOSTS", 40, |r, out| hosts(out, &r.hosts)),
];

/// `6 hours 37 minutes 0 seconds`.
fn runtime(out: &mut String, run_s: Option<u64>) {
    let Some(s) = run_s else {
        return out.push_str(UNLIMITED);
    };
    let parts = [
        (s / 3600, "hour"),
        (s / 60 % 60, "minute"),
        (s % 60, "second"),
    ];
    let first = parts.iter().position(|(n, _)| *n > 0).unwrap_or(2);
    for (at, (n, unit)) in parts.iter().enumerate().skip(first) {
        let (gap, many) = (if at > first { " " } else { "" }, plural(*n));
        write!(out, "{gap}{n} {unit}{many}").expect("a string takes every write");
    }
}

fn plural(n: u64) -> &'static str {
    match n {
        1 => "",
        _ => "s",
    }
}

/// `4*h1 2*h2`.
fn hosts(out: &mut String, hosts: &[Share]) {
    for (at, Share(host, slots)) in hosts.iter().enumerate() {
        let gap = if at > 0 { " " } else { "" };
        write!(out, "{gap}{slots}*{host}").expect("a string takes every write");
    }
}

/// The table.
pub(crate) fn table() -> Table<SlotGet> {
    let columns = [("slots", 14, Cut::Never), ("runtime", 1, Cut::Never)];
    Table::fixed(FIELDS, &columns)
}

/// The fields of `-json` without `-o`.
pub(crate) const JSON_DEFAULT: &str = "slots runtime hosts";

/// Appends the long form of a window.
pub(crate) fn put_long(out: &mut String, row: &SlotWindow) {
    let _ = write!(out, "SLOTS: {}\nRUNTIME: ", row.slots);
    runtime(out, row.run_s);
    out.push_str("\nHOSTS: ");
    hosts(out, &row.hosts);
    out.push('\n');
}

/// Appends the JSON line of a window.
pub(crate) fn put_json(out: &mut String, row: &SlotWindow) {
    let mut o = Object::begin(out);
    o.int("slots", row.slots);
    o.opt("runtime_s", row.run_s);
    let list = o.key("hosts");
    super::cell::list(list, &row.hosts, |out, Share(host, slots)| {
        let mut o = Object::begin(out);
        o.text("host", host);
        o.int("slots", *slots);
        o.end();
    });
    o.end();
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_out() {
        let text = |s| {
            let mut out = String::new();
            runtime(&mut out, s);
            out
        };
        assert_eq!(text(Some(23_820)), "6 hours 37 minutes 0 seconds");
        assert_eq!(text(Some(3661)), "1 hour 1 minute 1 second");
        assert_eq!(text(Some(0)), "0 seconds");
        assert_eq!(text(None), "UNLIMITED");
    }
}
