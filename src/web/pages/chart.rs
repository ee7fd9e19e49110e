//! Charts: tables of numbers over time, drawn by a script and readable without it.
//!
//! Owns the number of points and lines of a chart, and how numbers are written.

use super::text::moment;
use crate::history::{JobRing, JobSample, Rings};
use crate::translations::Translations;

/// Maximum number of points of a chart, so that a page stays small.
const POINTS: usize = 48;
/// Maximum number of lines of a chart: those with the largest values; the others are added up.
const LINES: usize = 6;

/// A chart, as a table.
pub(super) struct Chart {
    pub id: &'static str,
    pub title: &'static str,
    /// When the first sample was taken.
    pub since: String,
    pub columns: Vec<String>,
    pub rows: Vec<ChartRow>,
}

pub(super) struct ChartRow {
    /// Seconds since 1970.
    pub at: i64,
    pub time: String,
    pub values: Vec<String>,
}

/// Values of some lines at the same moments; moments are in ms since 1970.
struct Lines {
    at: Vec<i64>,
    lines: Vec<(String, Vec<f32>)>,
}

impl Lines {
    /// Reduces the points to at most [`POINTS`], each the mean of those that it replaces.
    fn thinned(self) -> Lines {
        let step = self.at.len().div_ceil(POINTS).max(1);
        let at = self.at.chunks(step).map(|part| part[part.len() / 2]);
        let mean = |part: &[f32]| {
            let known = part.iter().filter(|value| value.is_finite());
            known.clone().sum::<f32>() / known.count() as f32
        };
        Lines {
            at: at.collect(),
            lines: self
                .lines
                .into_iter()
                .map(|(name, values)| (name, values.chunks(step).map(mean).collect()))
                .collect(),
        }
    }

    /// Reduces the lines to at most [`LINES`]: the largest, and the sum of the others.
    fn largest(mut self, others: &str) -> Lines {
        if self.lines.len() <= LINES {
            return self;
        }
        let whole = |values: &[f32]| values.iter().filter(|v| v.is_finite()).sum::<f32>();
        self.lines
            .sort_by(|a, b| whole(&b.1).total_cmp(&whole(&a.1)));
        let rest = self.lines.split_off(LINES - 1);
        let sum = |n: usize| rest.iter().map(|(_, values)| values[n]).sum::<f32>();
        let sums = (0..self.at.len()).map(sum).collect();
        self.lines.push((others.to_owned(), sums));
        self
    }

    fn chart(self, id: &'static str, title: &'static str, now: i64) -> Chart {
        let thin = self.thinned();
        let row = |(n, at): (usize, &i64)| ChartRow {
            at: at / 1000,
            time: moment(*at, now),
            values: thin.lines.iter().map(|(_, v)| written(v[n])).collect(),
        };
        Chart {
            id,
            title,
            since: thin.at.first().map_or(String::new(), |at| moment(*at, now)),
            rows: thin.at.iter().enumerate().map(row).collect(),
            columns: thin.lines.into_iter().map(|(name, _)| name).collect(),
        }
    }
}

/// `3`, `0.25`; empty for an unknown value.
fn written(value: f32) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A chart of one value for all names; `None`: there are fewer than two samples. `sees`: whether
/// the line of a name may be shown.
pub(super) fn of_names<const N: usize>(
    rings: &Rings<N>,
    which: usize,
    (id, title): (&'static str, &'static str),
    (w, now): (Translations, i64),
    sees: impl Fn(&str) -> bool,
) -> Option<Chart> {
    let shown = rings.rows.iter().filter(|(name, _)| sees(name));
    let line = |(name, row): (&String, &std::collections::VecDeque<[f32; N]>)| {
        (name.clone(), row.iter().map(|value| value[which]).collect())
    };
    let all = Lines {
        at: rings.times.iter().copied().collect(),
        lines: shown.map(line).collect(),
    };
    let is_there = all.at.len() > 1 && !all.lines.is_empty();
    is_there.then(|| all.largest(w.t("chart.others")).chart(id, title, now))
}

/// Charts of all values of one name, one chart for each value.
pub(super) fn of_name<const N: usize>(
    rings: &Rings<N>,
    name: &str,
    titles: [(&'static str, &'static str); N],
    now: i64,
) -> Vec<Chart> {
    let Some(row) = rings.rows.get(name).filter(|row| row.len() > 1) else {
        return Vec::new();
    };
    let one = |(n, (id, title)): (usize, (&'static str, &'static str))| {
        let all = Lines {
            at: rings.times.iter().copied().collect(),
            lines: vec![(title.to_owned(), row.iter().map(|value| value[n]).collect())],
        };
        all.chart(id, title, now)
    };
    titles.into_iter().enumerate().map(one).collect()
}

/// Charts of a job's usage over its run: processors, memory, processes, I/O; GPUs and network if it
/// used them.
pub(super) fn of_job(ring: &JobRing, w: Translations, now: i64) -> Vec<Chart> {
    let samples = &ring.samples;
    if samples.len() < 2 {
        return Vec::new();
    }
    let rate = |of| rates(ring, of);
    let line = |key: &'static str, values: Vec<f32>| (w.t(key).to_owned(), values);
    let mut charts = vec![
        (
            "cpu",
            "chart.cpu",
            vec![line("chart.cpu", rate(|s| s.cpu_ms))],
        ),
        (
            "memory",
            "chart.memory",
            vec![line(
                "chart.memory",
                samples.iter().map(|s| s.mem_kb as f32 / 1024.0).collect(),
            )],
        ),
        (
            "processes",
            "chart.processes",
            vec![
                line(
                    "chart.processes",
                    samples.iter().map(|s| s.procs as f32).collect(),
                ),
                line(
                    "chart.threads",
                    samples.iter().map(|s| s.threads as f32).collect(),
                ),
            ],
        ),
        (
            "files",
            "chart.files",
            vec![
                line("chart.read", megabytes(rate(|s| s.read_kb))),
                line("chart.written", megabytes(rate(|s| s.write_kb))),
            ],
        ),
    ];
    charts.extend(of_devices(ring, w));
    let at = || samples.iter().map(|s| s.at).collect::<Vec<i64>>();
    let one = |(id, title, lines)| Lines { at: at(), lines }.chart(id, w.t(title), now);
    charts.into_iter().map(one).collect()
}

/// A chart without its times: its name, the key of its title, its lines.
type Untimed = (&'static str, &'static str, Vec<(String, Vec<f32>)>);

/// Charts of GPUs and network traffic, for a job that has used them.
fn of_devices(ring: &JobRing, w: Translations) -> Vec<Untimed> {
    let all = &ring.samples;
    let each = |of: fn(&JobSample) -> u64| all.iter().map(|s| of(s) as f32).collect::<Vec<f32>>();
    let line = |key: &'static str, values: Vec<f32>| (w.t(key).to_owned(), values);
    let mut charts = Vec::new();
    if all.iter().any(|s| s.gpu_util + s.gpu_mem_mb > 0) {
        let mut add = |id, key, of| charts.push((id, key, vec![line(key, each(of))]));
        add("gpu", "chart.gpu", |s| s.gpu_util);
        add("gpu-memory", "chart.gpu_memory", |s| s.gpu_mem_mb);
    }
    if all.iter().any(|s| s.net_in_kb + s.net_out_kb > 0) {
        let lines = vec![
            line("chart.net_in", megabytes(rates(ring, |s| s.net_in_kb))),
            line("chart.net_out", megabytes(rates(ring, |s| s.net_out_kb))),
        ];
        charts.push(("network", "chart.network", lines));
    }
    charts
}

/// A counter as a rate per ms since the previous sample; the first one since the start.
fn rates(ring: &JobRing, of: fn(&JobSample) -> u64) -> Vec<f32> {
    let mut before = (ring.start, 0);
    let each = ring.samples.iter().map(|s| {
        let (ms, more) = ((s.at - before.0).max(1), of(s).saturating_sub(before.1));
        before = (s.at, of(s));
        more as f32 / ms as f32
    });
    each.collect()
}

/// Converts KB per ms into MB per second.
fn megabytes(rates: Vec<f32>) -> Vec<f32> {
    rates.into_iter().map(|kb_ms| kb_ms / 1.024).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_becomes_few_points_and_few_lines() {
        let lines = (0..9).map(|n| (format!("q{n}"), vec![n as f32; 1_440]));
        let all = Lines {
            at: (0..1_440).map(|n| n * 60_000).collect(),
            lines: lines.collect(),
        };
        let chart = all.largest("others").chart("id", "title", 0);
        assert_eq!(chart.rows.len(), POINTS);
        assert_eq!(chart.columns, ["q8", "q7", "q6", "q5", "q4", "others"]);
        assert_eq!(chart.rows[0].values, ["8", "7", "6", "5", "4", "6"]);
    }

    #[test]
    fn gpus_and_network_have_charts_where_a_job_used_them() {
        use corral::api::jobs::JobUse;
        use corral::model::JobKey;
        use corral::record::device_use::DeviceUse;
        let ids = |devices: DeviceUse| {
            let mut history = crate::history::History::default();
            for n in 1..4 {
                let used = JobUse {
                    key: JobKey::job(1),
                    start: 1,
                    cpu_ms: n,
                    mem_kb: 1,
                    swap_kb: 0,
                    procs: 1,
                    threads: 1,
                    read_kb: 0,
                    write_kb: 0,
                    devices,
                };
                history.note_jobs(n as i64 * 10_000, &[used]);
            }
            let ring = history.job(JobKey::job(1), 1).unwrap();
            let charts = of_job(ring, Translations::default(), 40_000);
            charts.iter().map(|chart| chart.id).collect::<Vec<_>>()
        };
        let usual = ["cpu", "memory", "processes", "files"];
        assert_eq!(ids(DeviceUse::default()), usual);
        let all = DeviceUse {
            gpu_util: 90,
            net_out_kb: 5,
            ..DeviceUse::default()
        };
        assert_eq!(ids(all)[4..], ["gpu", "gpu-memory", "network"]);
        let net = DeviceUse { gpu_util: 0, ..all };
        assert_eq!(ids(net)[4..], ["network"]);
    }

    #[test]
    fn unknown_values_are_left_out_of_means() {
        let all = Lines {
            at: (0..POINTS as i64 * 2).collect(),
            lines: vec![("h".into(), [1.0, f32::NAN].repeat(POINTS))],
        };
        assert_eq!(all.thinned().lines[0].1, [1.0; POINTS]);
        assert_eq!(
            (written(f32::NAN), written(0.25)),
            (String::new(), "0.25".into())
        );
    }
}
