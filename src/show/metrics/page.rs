//! Metrics with their values, and their conversion to text. Knows no metric.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// A label and its value.
pub(super) type Label = (&'static str, String);

/// A single number for alert rules.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MetricPoint {
    /// The name in the text: with `_total` for a counter.
    pub name: String,
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

/// The value of a metric for one set of labels.
#[derive(Clone, Debug)]
pub(super) enum Sample {
    Number(f64),
    /// Sum of all values; upper bounds, each with the number of values up to it and above the one
    /// before.
    Buckets(f64, Vec<(f64, u64)>),
}

impl Sample {
    fn encode(&self, kind: MetricType, out: &mut MetricEncoder<'_>) -> std::fmt::Result {
        match (kind, self) {
            (_, Sample::Buckets(sum, buckets)) => {
                let count = buckets.iter().map(|(_, n)| n).sum();
                out.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
            (MetricType::Counter, Sample::Number(n)) => {
                out.encode_counter::<NoLabelSet, f64, f64>(n, None)
            }
            (_, Sample::Number(n)) => out.encode_gauge(n),
        }
    }
}

/// One metric with its points.
#[derive(Debug)]
struct Metric {
    /// Without `_total`, which the text adds to the name of a counter.
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    points: Vec<(Vec<Label>, Sample)>,
}

/// All metrics, in the order of the text.
#[derive(Debug, Default)]
pub(super) struct MetricsPage(Vec<Metric>);

impl Collector for MetricsPage {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        for metric in &self.0 {
            let mut out = encoder.encode_descriptor(metric.name, metric.help, None, metric.kind)?;
            for (labels, sample) in &metric.points {
                match labels.is_empty() {
                    true => sample.encode(metric.kind, &mut out)?,
                    false => sample.encode(metric.kind, &mut out.encode_family(labels)?)?,
                }
            }
        }
        Ok(())
    }
}

impl MetricsPage {
    /// Adds a gauge, unless it has no points.
    pub(super) fn put(
        &mut self,
        name: &'static str,
        help: &'static str,
        points: impl IntoIterator<Item = (Vec<Label>, f64)>,
    ) {
        let points = points.into_iter();
        let points = points.map(|(labels, n)| (labels, Sample::Number(n)));
        self.put_as(name, help, MetricType::Gauge, points);
    }

    /// Adds a metric of a kind, unless it has no points.
    pub(super) fn put_as(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: MetricType,
        points: impl IntoIterator<Item = (Vec<Label>, Sample)>,
    ) {
        let points: Vec<_> = points.into_iter().collect();
        if !points.is_empty() {
            self.0.push(Metric {
                name,
                help,
                kind,
                points,
            });
        }
    }

    pub(super) fn one(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.put(name, help, [(Vec::new(), value)]);
    }

    /// # Errors
    /// The encoder refuses a name or value.
    pub(super) fn text(self) -> Result<String, std::fmt::Error> {
        let counters = self
            .0
            .iter()
            .filter(|m| matches!(m.kind, MetricType::Counter));
        let counters: Vec<&'static str> = counters.map(|m| m.name).collect();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        // The node exporter and promtool look up help and type by the name of the samples.
        for name in counters {
            for line in ["HELP", "TYPE"] {
                let (from, to) = (
                    format!("# {line} {name} "),
                    format!("# {line} {name}_total "),
                );
                out = out.replacen(&from, &to, 1);
            }
        }
        Ok(out)
    }

    pub(super) fn points(self) -> Vec<MetricPoint> {
        let mut out = Vec::new();
        for metric in self.0 {
            let name = match metric.kind {
                MetricType::Counter => format!("{}_total", metric.name),
                _ => metric.name.to_owned(),
            };
            for (labels, sample) in metric.points {
                if let Sample::Number(value) = sample {
                    let name = name.clone();
                    out.push(MetricPoint {
                        name,
                        labels,
                        value,
                    });
                }
            }
        }
        out
    }
}

pub(super) fn label(name: &'static str, value: &str) -> Vec<Label> {
    vec![(name, value.to_owned())]
}
