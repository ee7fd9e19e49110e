//! The page of `cadmin perfmon view`, in the form and with the names of LSF: as text and as JSON.
//!
//! Metrics that Corral does not have are left out.

use super::cell::{self, Object};
use super::dates::Dates;
use crate::record::samples::{PERIOD_S, SampleCounter, Samples};
use std::fmt::Write as _;

/// LSF's name of a number.
fn name(what: SampleCounter) -> &'static str {
    match what {
        SampleCounter::Requests => "Processed requests: mbatchd",
        SampleCounter::Submissions => "Job submission requests",
        SampleCounter::Submitted => "Jobs submitted",
        SampleCounter::Dispatched => "Jobs dispatched",
        SampleCounter::Completed => "Jobs completed",
    }
}

/// The numbers of which a value is known: none before the first period has ended.
fn known(samples: &Samples) -> impl Iterator<Item = SampleCounter> {
    let any = samples.periods > 0;
    SampleCounter::ALL.into_iter().filter(move |_| any)
}

/// The page as text.
pub(crate) fn text(samples: &Samples, dates: &Dates) -> String {
    let line = "-".repeat(72);
    let mut out = String::from("Performance monitor start time:  ");
    dates.long(&mut out, samples.since);
    out.push_str("\nEnd time of last sample period:  ");
    match samples.periods {
        0 => out.push('-'),
        _ => dates.long(&mut out, samples.end_ms()),
    }
    let titles = ["Last", "Max", "Min", "Avg", "Total"];
    let _ = writeln!(
        out,
        "\nSample period :                  {PERIOD_S} Seconds\n{line}"
    );
    let _ = write!(out, "{:<32}", "Metrics");
    titles
        .iter()
        .for_each(|title| _ = write!(out, "{title:>8}"));
    let _ = writeln!(out, "\n{line}");
    for what in known(samples) {
        let _ = write!(out, "{:<32}", name(what));
        let one = samples.of(what);
        for n in [one.last, one.max, one.min, samples.mean(what), one.total] {
            let _ = write!(out, "{n:>8}");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "{line}");
    out
}

/// The page as a JSON object.
pub(crate) fn json(samples: &Samples) -> String {
    let mut out = String::new();
    let mut o = Object::begin(&mut out);
    let all: Vec<SampleCounter> = known(samples).collect();
    o.int("num", all.len());
    cell::list(o.key("record"), &all, |out, what| {
        let one = samples.of(*what);
        let mut record = Object::begin(out);
        record.text("name", name(*what));
        record.int("current", one.last);
        record.int("max", one.max);
        record.int("min", one.min);
        record.int("avg", samples.mean(*what));
        record.int("total", one.total);
        record.end();
    });
    o.int("period", PERIOD_S);
    o.int("start", samples.since.div_euclid(1000));
    o.int("end", samples.end_ms().div_euclid(1000));
    o.end();
    out.push('\n');
    out
}
