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
struct UnitUsage {
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

fn in_use<'h>(h: &'h HostRow, res: &str) -> BTreeMap<&'h str, UnitUsage> {
    let mut out: BTreeMap<&str, UnitUsage> = BTreeMap::new();
    let parts = h.unit_parts.get(res);
    for (at, (unit, j)) in h.units.get(res).into_iter().flatten().enumerate() {
        let part = parts.and_then(|parts| parts.get(at)).copied();
        let of = out.entry(unit).or_default();
        of.part = of.part.saturating_add(part.unwrap_or(WHOLE_UNIT));
        of.jobs.push(*j);
    }
    out
}

/// The GPUs of a host by what jobs hold of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct GpuCounts {
    pub total: usize,
    /// Held whole, and held in parts.
    pub held_whole: usize,
    pub parts: usize,
    /// Of which nothing is held, and of which something is left.
    pub free: usize,
    pub partly_free: usize,
}

impl GpuCounts {
    pub(crate) fn of(h: &HostRow) -> GpuCounts {
        let names = units_of(h).remove("gpu").unwrap_or_default();
        let used = in_use(h, "gpu");
        let mut counts = GpuCounts {
            total: names.len(),
            ..GpuCounts::default()
        };
        for name in &names {
            let Some(used) = used.get(name.as_str()) else {
                counts.free += 1;
                counts.partly_free += 1;
                continue;
            };
            let whole = used.part >= WHOLE_UNIT && used.jobs.len() == 1;
            *(if whole {
                &mut counts.held_whole
            } else {
                &mut counts.parts
            }) += 1;
            counts.partly_free += usize::from(used.part < WHOLE_UNIT);
        }
        counts
    }
}

const GPU_HEADER: &str = "HOST_NAME        gpuid  gpu_model            gpu_mode  gpu_temp  \
                          gpu_ecc  gpu_ut  gpu_mut  gpu_power  gpu_mtotal  gpu_mused  gpu_pstate  \
                          gpu_status  gpu_error\n";

/// `lsload -gpuload`: a line for each GPU. `-`: not measured, or measured for the GPUs of the host
/// together.
pub(crate) fn put_gpus(out: &mut String, hosts: &[&HostRow]) {
    out.push_str(GPU_HEADER);
    for h in hosts.iter().filter(|h| is_known(h)) {
        let names = units_of(h).remove("gpu").unwrap_or_default();
        for place in 0..names.len() {
            put_gpu(out, h, place, names.len() == 1);
        }
    }
}

fn put_gpu(out: &mut String, h: &HostRow, place: usize, only: bool) {
    let value = |name: &str| h.resources.get(name).or_else(|| h.load.values.get(name));
    let number = |name: &str| value(name)?.parse::<f64>().ok().filter(|_| only);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    // One model is that of all GPUs of the host.
    let model = value("gpu_model").filter(|models| !models.contains(','));
    let model = or_none(model.map(|model| model.split_whitespace().collect()));
    let celsius = or_none(number("gpu_temp").map(|degrees| format!("{degrees:.0}C")));
    let busy = or_none(number("gpu_util").map(|part| format!("{:.0}%", part * 100.0)));
    let memory = or_none(size(h, "gpu_mem", place).map(super::load::megabytes));
    let from = out.len();
    let (host, none) = (&h.name, "-");
    let line = write!(
        out,
        "{host:<16} {place:>5}  {model:<20} {none:>8}  {celsius:>8} {none:>8} {busy:>7} {none:>8} \
         {none:>10} {memory:>11} {none:>10} {none:>11}  {:>10}  {none:>9}",
        "ok",
    );
    line.expect("a string takes every write");
    cell::escape_and_cut(out, from, None, Cut::Never);
    out.push('\n');
}

fn put_unit(out: &mut String, at: (&HostRow, &str, usize), name: &str, used: Option<&UnitUsage>) {
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
    cell::escape_and_cut(out, from, None, Cut::Never);
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
        let holders = vec![
            ("GPU-a".into(), job(4)),
            ("GPU-a".into(), job(5)),
            ("GPU-c".into(), job(6)),
        ];
        h.units = [("gpu".to_owned(), holders)].into();
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
        let counts = GpuCounts {
            total: 3,
            held_whole: 1,
            parts: 1,
            free: 1,
            partly_free: 2,
        };
        assert_eq!(GpuCounts::of(&h), counts);
        // The value of cb.yaml, which takes precedence.
        h.resources = [("gpu".to_owned(), "2".to_owned())].into();
        let mut out = String::new();
        put(&mut out, &[&h]);
        assert_eq!(out.lines().count(), 4, "{out}");
        let mut none = String::new();
        put(&mut none, &[&HostRow::default()]);
        assert_eq!(none, "");
        assert_eq!(GpuCounts::of(&HostRow::default()), GpuCounts::default());
    }

    #[test]
    fn each_gpu_has_a_line_of_fourteen_words() {
        let mut h = host();
        h.name = "h1".into();
        let mut lines = |values: &[(&str, &str)]| -> Vec<String> {
            for (name, value) in values {
                h.load.values.insert((*name).into(), (*value).into());
            }
            let mut out = String::new();
            put_gpus(&mut out, &[&h]);
            let words = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                assert_eq!(words.len(), 14, "{line}");
                words.join(" ")
            };
            out.lines().map(words).collect()
        };
        assert_eq!(lines(&[]).len(), 1, "the header alone");
        let one = [
            ("gpu", "[GPU-a]"),
            ("gpu_mem", "{15360}"),
            ("gpu_model", "Tesla T4"),
            ("gpu_temp", "26"),
            ("gpu_util", "0.05"),
        ];
        assert_eq!(lines(&one)[1], "h1 0 TeslaT4 - 26C - 5% - - 15.0G - - ok -");
        // Of several, what is measured for all of them together is of none.
        let two = [("gpu", "[GPU-a,GPU-b]"), ("gpu_mem", "{15360,8192}")];
        assert_eq!(
            lines(&two)[1..],
            [
                "h1 0 TeslaT4 - - - - - - 15.0G - - ok -",
                "h1 1 TeslaT4 - - - - - - 8192M - - ok -"
            ]
        );
    }
}
