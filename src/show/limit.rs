//! Limits in the form of `climits`: table, JSON, registry of fields, and the selection of rows.

use super::cell::{Cut, Object, int};
use super::field::{Field, Get, Table};
use crate::record::view::LimitRow;
use std::fmt::Write as _;

/// The function that writes the value of a field.
pub(crate) type LimitGet = Get<LimitRow>;

fn amount(out: &mut String, n: f64) {
    if n.fract() == 0.0 && n.abs() < 1e15 {
        int(out, n as i64);
    } else {
        write!(out, "{n}").expect("a string takes every write");
    }
}

const fn field(
    name: &'static str,
    header: &'static str,
    width: usize,
    right_aligned: bool,
    get: LimitGet,
) -> Field<LimitGet> {
    Field {
        name,
        aliases: &[],
        header,
        width,
        right_aligned,
        get,
    }
}

/// All fields of a limit's counter.
pub(crate) static FIELDS: &[Field<LimitGet>] = &[
    field("name", "NAME", 15, false, |r, out| out.push_str(&r.name)),
    field("consumer", "CONSUMER", 30, false, |r, out| {
        out.push_str(consumer(r));
    }),
    field("resource", "RESOURCE", 12, false, |r, out| {
        out.push_str(&r.resource);
    }),
    field("used", "USED", 10, true, |r, out| amount(out, r.used)),
    field("limit", "LIMIT", 10, true, |r, out| {
        if let Some(n) = r.limit {
            amount(out, n);
        }
    }),
];

fn consumer(row: &LimitRow) -> &str {
    match row.consumer.as_str() {
        "" => "all",
        consumer => consumer,
    }
}

/// The table.
pub(crate) fn table() -> Table<LimitGet> {
    let columns = [
        ("name", 15, Cut::Never),
        ("consumer", 30, Cut::Never),
        ("resource", 12, Cut::Never),
        ("used", 10, Cut::Never),
        ("limit", 10, Cut::Never),
    ];
    Table::fixed(FIELDS, &columns)
}

/// The fields of `-json` without `-o`.
pub(crate) const JSON_DEFAULT: &str = "name consumer resource used limit";

/// Appends the JSON line of a counter.
pub(crate) fn put_json(out: &mut String, row: &LimitRow) {
    let mut o = Object::begin(out);
    o.text("name", &row.name);
    o.text("consumer", consumer(row));
    o.text("resource", &row.resource);
    o.float("used", row.used);
    match row.limit {
        Some(n) => o.float("limit", n),
        None => o.null("limit"),
    }
    o.end();
    out.push('\n');
}

/// Whether the counter concerns a consumer. `kind`: `user`, `queue`, `host`, `project`, `app`. A
/// limit that does not name the kind applies to all of them. `named`: whether a word is the
/// consumer or a group that contains it.
pub(crate) fn concerns_consumer(row: &LimitRow, kind: &str, named: &dyn Fn(&str) -> bool) -> bool {
    // `users a b`, `user a`, or for limits of each member `each user of a b`.
    let names = row.consumer.split(", ").find_map(|part| {
        let each = part.strip_prefix("each ");
        let (word, names) = each.unwrap_or(part).split_once(' ')?;
        let names = match each {
            Some(_) => names.strip_prefix("of ")?,
            None => names,
        };
        (word.strip_suffix('s').unwrap_or(word) == kind).then_some(names)
    });
    let Some(names) = names else {
        return true;
    };
    let mut words = names.split(' ');
    let named = |w: &str| named(w.trim_end_matches('/'));
    let out = words
        .clone()
        .any(|w| w.strip_prefix('~').is_some_and(named));
    !out && words.any(|w| w == "all" || named(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(consumer: &str, used: f64, limit: Option<f64>) -> LimitRow {
        LimitRow {
            name: "limit1".into(),
            consumer: consumer.into(),
            resource: "slots".into(),
            used,
            limit,
            each: false,
        }
    }

    #[test]
    fn the_table_names_consumers() {
        let rows = [
            row("", 5.0, Some(130.0)),
            row("users all ~u001, host h1", 1.5, None),
        ];
        let want = "\
NAME            CONSUMER                       RESOURCE           USED      LIMIT
limit1          all                            slots                 5        130
limit1          users all ~u001, host h1       slots               1.5          -
";
        assert_eq!(table().print(rows.iter(), true), want);
        let mut out = String::new();
        put_json(&mut out, &rows[1]);
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&v["used"], v["limit"].is_null()), (&1.5.into(), true));
    }

    #[test]
    fn rows_are_chosen_by_consumer() {
        let each = row;
        let row = row("users all ~u001, host h1", 1.0, None);
        let concerns =
            |row: &LimitRow, kind: &str, name: &str| concerns_consumer(row, kind, &|w| w == name);
        assert!(concerns(&row, "user", "u002") && concerns(&row, "queue", "q"));
        assert!(!concerns(&row, "user", "u001") && !concerns(&row, "host", "h2"));
        assert!(concerns(&row, "host", "h1"));
        let row = each("each user of lab ~eve, each host of h1 h2", 0.0, None);
        assert!(concerns(&row, "user", "lab") && !concerns(&row, "user", "eve"));
        assert!(concerns(&row, "host", "h2") && !concerns(&row, "host", "h3"));
    }
}
