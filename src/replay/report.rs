//! Results for users and programs: one JSON object for a replay, or a table with several side by
//! side. Owns the names and the rounding of what is printed; never measures.

use super::metrics::{Fairness, ResourceUse, Sla, Spread, Summary};
use super::virtual_cluster::Outcome;
use crate::language::translated;
use crate::text::width::{pad_left, pad_right, width};
use serde::Serialize;

/// One replay, as printed. Times in seconds. The groups do not appear in JSON.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The policy, or the file of the configuration.
    pub name: String,
    /// Jobs that ended.
    jobs: u64,
    #[serde(flatten)]
    means: Means,
    decisions: u64,
    /// Elapsed real time: reading and replay.
    pub wall_s: f64,
    #[serde(flatten)]
    more: Distribution,
    users: Fairness,
    groups: Fairness,
    sla: Sla,
    #[serde(flatten)]
    exceptions: Exceptions,
}

/// The figures that most simulators print.
#[derive(Clone, Debug, Default, Serialize)]
struct Means {
    avg_wait_s: f64,
    avg_response_s: f64,
    avg_bsld: f64,
    max_wait_s: f64,
    makespan_s: f64,
    utilization: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Distribution {
    median_wait_s: f64,
    p95_wait_s: f64,
    jct_s: Spread,
    throughput_per_h: f64,
    resources: Vec<ResourceUse>,
    fragmentation: f64,
}

/// Jobs that did not run to their end, or did not run at all.
#[derive(Clone, Debug, Default, Serialize)]
struct Exceptions {
    /// Jobs ended by their run limit.
    at_limit: u64,
    /// Jobs and lines of the workload that were left out.
    left_out: u64,
    refused: u64,
    /// Jobs that never ended.
    stuck: u64,
}

/// Rounds to six decimal places: the rest is rounding noise.
fn round(v: f64) -> f64 {
    (v * 1e6).round() / 1e6
}

fn rounded(s: Spread) -> Spread {
    Spread {
        mean: round(s.mean),
        median: round(s.median),
        p95: round(s.p95),
        max: round(s.max),
    }
}

fn rounded_fairness(f: Fairness) -> Fairness {
    Fairness {
        parties: f.parties,
        jain_usage: round(f.jain_usage),
        jain_slowdown: round(f.jain_slowdown),
        share_error: round(f.share_error),
    }
}

impl Report {
    pub fn new(name: &str, summary: Summary, outcome: &Outcome, left_out: u64) -> Report {
        let used = summary.resources.into_iter().map(|r| ResourceUse {
            utilization: round(r.utilization),
            ..r
        });
        Report {
            name: name.to_owned(),
            jobs: summary.jobs,
            means: Means {
                avg_wait_s: round(summary.wait_s.mean),
                avg_response_s: round(summary.avg_response_s),
                avg_bsld: round(summary.avg_bsld),
                max_wait_s: round(summary.wait_s.max),
                makespan_s: round(summary.makespan_s),
                utilization: round(summary.utilization),
            },
            decisions: outcome.decisions,
            wall_s: 0.0,
            more: Distribution {
                median_wait_s: round(summary.wait_s.median),
                p95_wait_s: round(summary.wait_s.p95),
                jct_s: rounded(summary.jct_s),
                throughput_per_h: round(summary.throughput_per_h),
                resources: used.collect(),
                fragmentation: round(summary.fragmentation),
            },
            users: rounded_fairness(summary.users),
            groups: rounded_fairness(summary.groups),
            sla: Sla {
                mean_late_s: round(summary.sla.mean_late_s),
                ..summary.sla
            },
            exceptions: Exceptions {
                at_limit: outcome.at_limit,
                left_out,
                refused: outcome.refused_jobs,
                stuck: outcome.never_ended_count,
            },
        }
    }

    /// One line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain numbers and texts are JSON")
    }

    /// Label and value of every line of the table.
    fn cells(&self) -> Vec<(String, String)> {
        let s = |v: f64| format!("{v:.2}");
        let part = |v: f64| format!("{:.2} %", v * 100.0);
        let mut out: Vec<(String, String)> = Vec::new();
        let mut put =
            |label: &str, value: String| out.push((translated(label).into_owned(), value));
        put("jobs", self.jobs.to_string());
        put("mean wait, s", s(self.means.avg_wait_s));
        put("median wait, s", s(self.more.median_wait_s));
        put("95 % wait at most, s", s(self.more.p95_wait_s));
        put("longest wait, s", s(self.means.max_wait_s));
        put("mean response, s", s(self.means.avg_response_s));
        put("median completion (JCT), s", s(self.more.jct_s.median));
        put("95 % complete within, s", s(self.more.jct_s.p95));
        put("bounded slowdown", format!("{:.4}", self.means.avg_bsld));
        put("makespan, s", s(self.means.makespan_s));
        put("throughput, jobs/h", s(self.more.throughput_per_h));
        put("utilization", part(self.means.utilization));
        for r in &self.more.resources {
            put(&format!("use of {}", r.name), part(r.utilization));
        }
        put("fragmentation", part(self.more.fragmentation));
        for (who, f) in [("users", &self.users), ("groups", &self.groups)] {
            put(who, f.parties.to_string());
            put(
                &format!("Jain index of usage, {who}"),
                format!("{:.4}", f.jain_usage),
            );
            put(
                &format!("Jain index of slowdown, {who}"),
                format!("{:.4}", f.jain_slowdown),
            );
            put(&format!("error against shares, {who}"), part(f.share_error));
        }
        put(
            "deadlines missed",
            translated(&format!("{} of {}", self.sla.missed, self.sla.jobs)).into_owned(),
        );
        put("mean lateness, s", s(self.sla.mean_late_s));
        put("ended by run limit", self.exceptions.at_limit.to_string());
        put("refused", self.exceptions.refused.to_string());
        put("never ended", self.exceptions.stuck.to_string());
        put("decisions", self.decisions.to_string());
        put("took, s", format!("{:.3}", self.wall_s));
        out
    }
}

/// A table with a column for each replay and a line for each number.
pub fn table(reports: &[Report]) -> String {
    let columns: Vec<Vec<(String, String)>> = reports.iter().map(Report::cells).collect();
    // The resources that were used may differ between configurations.
    let mut labels: Vec<&str> = Vec::new();
    for (label, _) in columns.iter().flatten() {
        if !labels.contains(&label.as_str()) {
            let after = columns.iter().find_map(|c| {
                let at = c.iter().position(|(l, _)| l == label)?;
                let before = c.get(at.checked_sub(1)?)?;
                labels.iter().position(|l| *l == before.0)
            });
            labels.insert(after.map_or(labels.len(), |at| at + 1), label);
        }
    }
    let first = labels.iter().map(|l| width(l)).max().unwrap_or(0);
    let value = |column: &[(String, String)], label: &str| {
        let found = column.iter().find(|(l, _)| l == label);
        found.map_or("-".to_owned(), |(_, v)| v.clone())
    };
    let widths: Vec<usize> = reports
        .iter()
        .zip(&columns)
        .map(|(r, c)| {
            c.iter()
                .map(|(_, v)| width(v))
                .chain([width(&r.name)])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = pad_right("", first);
    for (report, w) in reports.iter().zip(&widths) {
        out.push_str("  ");
        out.push_str(&pad_left(&report.name, *w));
    }
    out.push('\n');
    for label in labels {
        out.push_str(&pad_right(label, first));
        for (column, w) in columns.iter().zip(&widths) {
            out.push_str("  ");
            out.push_str(&pad_left(&value(column, label), *w));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str, gpu: bool) -> Report {
        let slots = ResourceUse {
            name: "slots".into(),
            capacity: 8.0,
            utilization: 0.5,
        };
        let mut resources = vec![slots.clone()];
        if gpu {
            resources.push(ResourceUse {
                name: "gpu".into(),
                ..slots
            });
        }
        Report {
            name: name.into(),
            means: Means {
                avg_wait_s: 12.345,
                ..Means::default()
            },
            more: Distribution {
                resources,
                ..Distribution::default()
            },
            ..Report::default()
        }
    }

    #[test]
    fn the_object_begins_with_the_promised_names() {
        let json = report("easy", false).json();
        let promised = "{\"name\":\"easy\",\"jobs\":0,\"avg_wait_s\":12.345,\"avg_response_s\":0.0,\
                        \"avg_bsld\":0.0,\"max_wait_s\":0.0,\"makespan_s\":0.0,\"utilization\":0.0,\
                        \"decisions\":0,\"wall_s\":0.0,";
        assert!(json.starts_with(promised), "{json}");
        assert!(!json.contains('\n'));
    }

    #[test]
    fn the_table_is_in_the_language_of_the_process_and_json_is_not() {
        let all = [report("easy", false), report("my.yaml", true)];
        let chinese = crate::language::in_chinese(|| table(&all));
        let is_label = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
        for line in chinese.lines().skip(1) {
            assert!(line.contains(is_label), "{chinese}");
            assert_eq!(
                width(line),
                width(chinese.lines().next().unwrap()),
                "{chinese}"
            );
        }
        assert!(chinese.contains("gpu 的使用率"), "{chinese}");
        let json = crate::language::in_chinese(|| all[0].json());
        assert_eq!(json, all[0].json());
    }

    #[test]
    fn the_table_has_a_column_for_each_and_a_line_for_every_resource() {
        let text = table(&[report("easy", false), report("my.yaml", true)]);
        let line = |label: &str| {
            text.lines()
                .find(|l| l.starts_with(label))
                .unwrap()
                .to_owned()
        };
        assert!(
            text.lines().next().unwrap().ends_with("   easy  my.yaml"),
            "{text}"
        );
        assert!(line("mean wait").ends_with("12.35    12.35"), "{text}");
        assert!(line("use of gpu").ends_with("      -  50.00 %"), "{text}");
        let at = |l: &str| text.find(l).unwrap();
        assert!(at("use of slots") < at("use of gpu") && at("use of gpu") < at("fragmentation"));
    }
}
