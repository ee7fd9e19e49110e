//! Alerts in the form of `cadmin alert list` and `cinfo -health`.

use super::cell::{self, Object};
use super::dates::Dates;
use crate::language::translated;
use crate::record::notices::{Alert, AlertsDoc, Silence};
use crate::text::width;
use std::fmt::Write as _;

fn put(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a string takes every write");
    out.push('\n');
}

/// `firing`, `silenced`, or `pending` as long as its delay has not passed.
pub(crate) fn state(alert: &Alert, silences: &[Silence]) -> &'static str {
    if alert.fired == 0 {
        return "pending";
    }
    let silent = silences.iter().any(|silence| silence.rule == alert.rule);
    if silent { "silenced" } else { "firing" }
}

/// The labels, one word each.
fn labels(alert: &Alert) -> String {
    let all = alert.labels.iter();
    let all = all.map(|(name, value)| format!("{name}={value}"));
    let all: Vec<String> = all.collect();
    if all.is_empty() {
        "-".to_owned()
    } else {
        all.join(",")
    }
}

/// A number without trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One line of an alert that has fired, for `cinfo -health`.
pub(crate) fn put_fired(out: &mut String, doc: &AlertsDoc, dates: &Dates) {
    for alert in doc.alerts.iter().filter(|alert| alert.fired > 0) {
        let mut since = String::new();
        dates.long(&mut since, alert.since);
        let (metric, value) = (&alert.metric, number(alert.value));
        let is = format!("{metric} is {value} since {since}");
        let mut line = format!("{} {} {}: ", alert.severity, alert.rule, labels(alert));
        line.push_str(&translated(&is));
        if state(alert, &doc.silences) == "silenced" {
            line.push_str(", ");
            line.push_str(&translated("silenced"));
        }
        put(out, format_args!("  {}", width::escape(&line)));
    }
}

/// The table of alerts, then silences and problems of delivery.
pub(crate) fn put_list(out: &mut String, doc: &AlertsDoc, dates: &Dates) {
    let head = ["ALERT", "STATE", "SEVERITY", "VALUE", "SINCE", "LABELS"].map(str::to_owned);
    let mut rows: Vec<[String; 6]> = vec![head];
    for alert in &doc.alerts {
        let mut since = String::new();
        dates.long(&mut since, alert.since);
        rows.push([
            alert.rule.clone(),
            state(alert, &doc.silences).to_owned(),
            alert.severity.clone(),
            number(alert.value),
            since,
            labels(alert),
        ]);
    }
    if doc.alerts.is_empty() {
        put(
            out,
            format_args!("{}", translated("No alert is pending or firing")),
        );
    } else {
        put_rows(out, &rows);
    }
    for silence in &doc.silences {
        let mut until = String::new();
        dates.long(&mut until, silence.until);
        let text = format!(
            "SILENCED: {} until {until} by {}: {}",
            silence.rule, silence.by, silence.because
        );
        put(out, format_args!("{}", width::escape(&translated(&text))));
    }
    for text in &doc.troubles {
        let text = format!("TROUBLE: {text}");
        put(out, format_args!("{}", width::escape(&translated(&text))));
    }
    if doc.waiting + doc.lost > 0 {
        let (waiting, lost) = (doc.waiting, doc.lost);
        let text = format!("MESSAGES: {waiting} wait, {lost} were lost");
        put(out, format_args!("{}", translated(&text)));
    }
}

fn put_rows(out: &mut String, rows: &[[String; 6]]) {
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..5).map(|column| wide(column).unwrap_or(0)).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, most) in row.iter().zip(&widths) {
            let cell = width::escape(cell);
            line.push_str(&format!("{cell:<most$} "));
        }
        line.push_str(&width::escape(&row[5]));
        put(out, format_args!("{}", line.trim_end()));
    }
}

/// Appends the members of the JSON object.
pub(crate) fn put_json(o: &mut Object<'_>, doc: &AlertsDoc) {
    cell::list(o.key("alerts"), &doc.alerts, |out, alert| {
        let mut one = Object::begin(out);
        one.text("alert", &alert.rule);
        one.text("state", state(alert, &doc.silences));
        one.text("severity", &alert.severity);
        one.text("metric", &alert.metric);
        one.text("value", &number(alert.value));
        one.int("since_ms", alert.since);
        one.int("fired_ms", alert.fired);
        one.flag("announced", alert.announced);
        let mut labels = Object::begin(one.key("labels"));
        for (name, value) in alert.extra.iter().chain(&alert.labels) {
            labels.text(name, value);
        }
        labels.end();
        one.end();
    });
    cell::list(o.key("silences"), &doc.silences, |out, silence| {
        let mut one = Object::begin(out);
        one.text("alert", &silence.rule);
        one.int("until_ms", silence.until);
        one.text("by", &silence.by);
        one.text("because", &silence.because);
        one.end();
    });
    o.texts("alert_troubles", &doc.troubles);
    o.int(
        "messages_waiting",
        i64::try_from(doc.waiting).unwrap_or(i64::MAX),
    );
    o.int("messages_lost", i64::try_from(doc.lost).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    #[test]
    fn alerts_are_listed_with_state_and_silence() {
        let alert = |rule: &str, fired| Alert {
            rule: rule.into(),
            severity: "critical".into(),
            metric: "corral_host_status".into(),
            value: 1.0,
            since: 1_795_230_429_000,
            fired,
            labels: [("host".to_owned(), "h1".to_owned())].into(),
            ..Alert::default()
        };
        let doc = AlertsDoc {
            alerts: vec![alert("silent", 9), alert("quiet", 9), alert("soon", 0)],
            silences: vec![Silence {
                rule: "quiet".into(),
                until: 1_795_230_429_000,
                by: "root".into(),
                because: "move".into(),
            }],
            troubles: vec!["no route\x1b[31m".into()],
            waiting: 2,
            ..AlertsDoc::default()
        };
        let dates = Dates::new(TimeZone::UTC);
        let mut out = String::new();
        put_list(&mut out, &doc, &dates);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(
            lines[1],
            "silent firing   critical 1     Sat Nov 21 03:07:09 host=h1"
        );
        assert!(lines[2].starts_with("quiet  silenced critical"), "{out}");
        assert!(lines[3].starts_with("soon   pending  critical"), "{out}");
        assert!(
            lines[4].starts_with("SILENCED: quiet until Sat Nov 21"),
            "{out}"
        );
        assert!(!out.contains('\x1b'), "{out}");
        assert!(out.ends_with("MESSAGES: 2 wait, 0 were lost\n"), "{out}");
        let mut fired = String::new();
        put_fired(&mut fired, &doc, &dates);
        assert_eq!(fired.lines().count(), 2);
        assert!(
            fired.contains("quiet host=h1: corral_host_status is 1 since"),
            "{fired}"
        );
    }
}
