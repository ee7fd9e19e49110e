//! How evenly the hosts are used (`cload -summary`): the least and the most used host, the mean and
//! the spread, of the CPUs and of the GPUs.
//!
//! The spread is the largest value minus the smallest one. Only hosts whose load is known count.

use super::cell::{Cut, Object, int};
use super::field::{Field, Get, Table};
use super::load::is_known;
use crate::record::view::HostRow;
use std::fmt::Write as _;

/// One index over the hosts that report it. Values are from 0 to 1.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Balance {
    pub index: &'static str,
    pub hosts: usize,
    pub min: f64,
    pub min_host: String,
    pub max: f64,
    pub max_host: String,
    pub mean: f64,
}

impl Balance {
    pub(crate) fn spread(&self) -> f64 {
        self.max - self.min
    }

    /// The spread as a part of the mean; `None`: the mean is 0.
    pub(crate) fn of_mean(&self) -> Option<f64> {
        (self.mean > 0.0).then(|| self.spread() / self.mean)
    }
}

/// The function that writes a field.
pub(crate) type BalanceGet = Get<Balance>;

/// The use of the CPUs of a host.
fn cpus(h: &HostRow) -> Option<f64> {
    Some(h.load.ut).filter(|ut| ut.is_finite())
}

/// The mean use of the GPUs of a host, as a sensor measures it.
fn gpus(h: &HostRow) -> Option<f64> {
    let value: f64 = h.load.values.get("gpu_util")?.parse().ok()?;
    Some(value).filter(|part| part.is_finite())
}

/// Reads an index of a host.
type Index = fn(&HostRow) -> Option<f64>;

/// The indices that at least one of the hosts reports.
pub(crate) fn of(hosts: &[&HostRow]) -> Vec<Balance> {
    let indices: [(&str, Index); 2] = [("ut", cpus), ("gpu_util", gpus)];
    let one = |(index, get): (&'static str, Index)| {
        let known = hosts.iter().filter(|h| is_known(h));
        let values: Vec<(f64, &str)> = known
            .filter_map(|h| Some((get(h)?, h.name.as_str())))
            .collect();
        let least = values.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let most = values.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let sum: f64 = values.iter().map(|(value, _)| value).sum();
        Some(Balance {
            index,
            hosts: values.len(),
            min: least.0,
            min_host: least.1.to_owned(),
            max: most.0,
            max_host: most.1.to_owned(),
            mean: sum / values.len() as f64,
        })
    };
    indices.into_iter().filter_map(one).collect()
}

fn percent(out: &mut String, part: f64) {
    write!(out, "{:.0}%", part * 100.0).expect("a string takes every write");
}

const fn field(
    name: &'static str,
    header: &'static str,
    width: usize,
    right_aligned: bool,
    get: BalanceGet,
) -> Field<BalanceGet> {
    Field {
        name,
        aliases: &[],
        header,
        width,
        right_aligned,
        get,
    }
}

/// Every field of an index.
pub(crate) static FIELDS: &[Field<BalanceGet>] = &[
    field("index", "INDEX", 10, false, |b, out| out.push_str(b.index)),
    field("hosts", "HOSTS", 6, true, |b, out| int(out, b.hosts as u64)),
    field("mean", "MEAN", 6, true, |b, out| percent(out, b.mean)),
    field("min", "MIN", 6, true, |b, out| percent(out, b.min)),
    field("max", "MAX", 6, true, |b, out| percent(out, b.max)),
    field("spread", "SPREAD", 7, true, |b, out| {
        percent(out, b.spread())
    }),
    field("of_mean", "OF_MEAN", 8, true, |b, out| {
        if let Some(part) = b.of_mean() {
            percent(out, part);
        }
    }),
    field("min_host", "MIN_HOST", 16, false, |b, out| {
        out.push_str(&b.min_host)
    }),
    field("max_host", "MAX_HOST", 16, false, |b, out| {
        out.push_str(&b.max_host)
    }),
];

/// The table.
pub(crate) fn table() -> Table<BalanceGet> {
    let columns = [
        ("index", 10, Cut::Never),
        ("hosts", 6, Cut::Never),
        ("mean", 6, Cut::Never),
        ("min", 6, Cut::Never),
        ("max", 6, Cut::Never),
        ("spread", 7, Cut::Never),
        ("of_mean", 8, Cut::Never),
        ("min_host", 16, Cut::Never),
        ("max_host", 1, Cut::Never),
    ];
    Table::fixed(FIELDS, &columns)
}

/// The fields of `-json` without `-o`.
pub(crate) const JSON_DEFAULT: &str = "index hosts mean min max spread of_mean min_host max_host";

/// Appends the JSON line of an index; values are from 0 to 1, with four decimals.
pub(crate) fn put_json(out: &mut String, row: &Balance) {
    let rounded = |part: f64| (part * 10_000.0).round() / 10_000.0;
    let mut o = Object::begin(out);
    o.text("index", row.index);
    o.int("hosts", row.hosts);
    o.float("mean", rounded(row.mean));
    o.float("min", rounded(row.min));
    o.text("min_host", &row.min_host);
    o.float("max", rounded(row.max));
    o.text("max_host", &row.max_host);
    o.float("spread", rounded(row.spread()));
    match row.of_mean() {
        Some(part) => o.float("spread_of_mean", rounded(part)),
        None => o.null("spread_of_mean"),
    }
    o.end();
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, status: &str, ut: f64, gpu: Option<&str>) -> HostRow {
        let mut host = HostRow {
            name: name.into(),
            status: status.into(),
            ..HostRow::default()
        };
        host.load.ut = ut;
        let values = gpu.map(|value| ("gpu_util".to_owned(), value.to_owned()));
        host.load.values = values.into_iter().collect();
        host
    }

    #[test]
    fn the_spread_is_between_the_most_and_the_least_used_host_that_reports() {
        let all = [
            host("h1", "ok", 0.25, Some("0.9")),
            host("h2", "closed_Full", 0.75, None),
            host("h3", "unavail", 1.0, Some("0")),
            host("h4", "ok", 0.5, Some("0.5")),
            host("h5", "ok", f64::NAN, Some("-")),
        ];
        let rows: Vec<&HostRow> = all.iter().collect();
        let balances = of(&rows);
        let numbers = |b: &Balance| (b.hosts, b.min, b.max, b.mean, b.spread(), b.of_mean());
        assert_eq!(numbers(&balances[0]), (3, 0.25, 0.75, 0.5, 0.5, Some(1.0)));
        assert_eq!(
            (&*balances[0].min_host, &*balances[0].max_host),
            ("h1", "h2")
        );
        assert_eq!((balances[1].index, balances[1].hosts), ("gpu_util", 2));
        assert!((balances[1].spread() - 0.4).abs() < 1e-9);
        // Idle hosts have no spread, and no mean to compare it with.
        let idle = host("h1", "ok", 0.0, None);
        let balances = of(&[&idle]);
        assert_eq!(
            (balances.len(), balances[0].spread(), balances[0].of_mean()),
            (1, 0.0, None)
        );
        assert!(of(&[&all[2]]).is_empty());
    }
}
