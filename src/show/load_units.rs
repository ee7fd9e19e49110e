//! `cload -l`: the units of hosts, above all GPUs: the free part of each, its memory, and the jobs
//! that hold it. Owns the table; knows nothing about assignments.

use super::cell::{self, Cut};
use super::load::is_known;
use crate::model::{JobKey, WHOLE_UNIT};
use crate::record::view::HostRow;
use crate::text::units;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const HEADER: &str =
    "\nHOST_NAME       RESOURCE   UNIT                                     FREE      MEM JOBS\n";

/// The usage of one unit.
#[derive(Default)]
struct Use {
    /// Thousandths.
    part: u32,
    jobs: Vec<JobKey>,
}

/// The table, if some host has units.
pub(crate) fn put(out: &mut String, hosts: &[&HostRow]) {
    let mut header = Some(HEADER);
    for h in hosts.iter().filter(|h| is_known(h)) {
        for (res, names) in units_of(h) {
            let used = in_use(h, res);
            for (place, name) in names.iter().enumerate() {
                out.push_str(header.take().unwrap_or_default());
                put_unit(out, (h, res, place), name, used.get(name.as_str()));
            }
        }
    }
}

/// Resources with units, and the names of the units in order.
fn units_of(h: &HostRow) -> BTreeMap<&str, Vec<String>> {
    let mut out = BTreeMap::new();
    // Values of cb.yaml come last, because they take precedence.
    for (res, value) in h.load.values.iter().chain(&h.resources) {
        let named = units::split(value);
        let names: Vec<String> = match named {
            Some(names) => names.into_iter().map(str::to_owned).collect(),
            None if res == "gpu" || h.units.contains_key(res) => {
                let n = value.parse::<f64>().map_or(0, units::count);
                (0..n).map(|n| n.to_string()).collect()
            }
            None => continue,
        };
        out.insert(res.as_str(), names);
    }
    out
}

fn in_use<'h>(h: &'h HostRow, res: &str) -> BTreeMap<&'h str, Use> {
    let mut out: BTreeMap<&str, Use> = BTreeMap::new();
    let parts = h.unit_parts.get(res);
    for (at, (unit, j)) in h.units.get(res).into_iter().flatten().enumerate() {
        let part = parts.and_then(|parts| parts.get(at)).copied();
        let of = out.entry(unit).or_default();
        of.part = of.part.saturating_add(part.unwrap_or(WHOLE_UNIT));
        of.jobs.push(*j);
    }
    out
}

fn put_unit(out: &mut String, at: (&HostRow, &str, usize), name: &str, used: Option<&Use>) {
    let (h, res, place) = at;
    let part = used.map_or(0, |used| used.part);
    let free = f64::from(WHOLE_UNIT.saturating_sub(part)) / f64::from(WHOLE_UNIT);
    let memory = match res {
        "gpu" => size(h, "gpu_mem", place).map_or("-".to_owned(), |mb| mb.to_string()),
        _ => "-".to_owned(),
    };
    let from = out.len();
    let line = write!(
        out,
        "{:<15} {res:<10} {name:<40} {free:>4} {memory:>8}",
        h.name
    );
    line.expect("a string takes every write");
    for j in used.into_iter().flat_map(|used| &used.jobs) {
        write!(out, " {j}").expect("a string takes every write");
    }
    if used.is_none() {
        out.push_str(" -");
    }
    cell::tame(out, from, None, Cut::Never);
    out.push('\n');
}

/// The value of the unit at this position for a resource that each unit has.
fn size(h: &HostRow, own: &str, place: usize) -> Option<f64> {
    let value = h.resources.get(own).or_else(|| h.load.values.get(own))?;
    match units::sizes(value) {
        Some(sizes) => sizes.get(place).copied(),
        None => value.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::tests::host;
    use super::*;

    #[test]
    fn each_unit_has_a_line_with_what_is_left_of_it() {
        let mut h = host();
        h.name = "h1".into();
        let values = [
            ("gpu", "[GPU-a,GPU-b,GPU-c]"),
            ("gpu_mem", "{100,200,300}"),
            ("x", "7"),
        ];
        for (name, value) in values {
            h.load.values.insert(name.into(), value.into());
        }
        let job = JobKey::job;
        let held = vec![
            ("GPU-a".into(), job(4)),
            ("GPU-a".into(), job(5)),
            ("GPU-c".into(), job(6)),
        ];
        h.units = [("gpu".to_owned(), held)].into();
        h.unit_parts = [("gpu".to_owned(), vec![250, 500, 1000])].into();
        let mut out = String::new();
        put(&mut out, &[&h]);
        let lines: Vec<Vec<&str>> = out
            .lines()
            .skip(2)
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], ["h1", "gpu", "GPU-a", "0.25", "100", "4", "5"]);
        assert_eq!(lines[1], ["h1", "gpu", "GPU-b", "1", "200", "-"]);
        assert_eq!(lines[2], ["h1", "gpu", "GPU-c", "0", "300", "6"]);
        // The value of cb.yaml, which takes precedence.
        h.resources = [("gpu".to_owned(), "2".to_owned())].into();
        let mut out = String::new();
        put(&mut out, &[&h]);
        assert_eq!(out.lines().count(), 4, "{out}");
        let mut none = String::new();
        put(&mut none, &[&HostRow::default()]);
        assert_eq!(none, "");
    }
}
