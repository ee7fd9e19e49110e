//! Messages of jobs as `cread` prints them, in the columns of LSF, and as members of JSON.

use super::cell::{self, Object};
use super::dates::Dates;
use crate::model::JobKey;
use crate::record::message::JobMessage;
use crate::text::width::{escape, width};

/// The columns of `cread` with their widths; the last one is as wide as its text.
const COLUMNS: [(&str, usize); 5] = [
    ("JOBID", 10),
    ("MSG_ID", 8),
    ("FROM", 11),
    ("POST_TIME", 15),
    ("DESCRIPTION", 0),
];
/// The columns of the long page of a job.
const LONG: [(&str, usize); 5] = [
    (" MSG_ID", 8),
    ("FROM", 11),
    ("POST_TIME", 15),
    ("MESSAGE", 36),
    ("ATTACHMENT", 0),
];

/// The table of one message.
pub(crate) fn table(j: JobKey, message: &JobMessage, dates: &Dates) -> String {
    let mut out = String::new();
    titles(&mut out, &COLUMNS);
    let cells = [
        j.to_string(),
        message.index.to_string(),
        message.by.clone(),
        time(message, dates),
        message.text.clone(),
    ];
    row(&mut out, &COLUMNS, &cells);
    out
}

/// Appends the list of the long page of a job. A message never has an attachment.
pub(crate) fn put_list(out: &mut String, messages: &[JobMessage], dates: &Dates) {
    if messages.is_empty() {
        return;
    }
    out.push_str("\n EXTERNAL MESSAGES:\n");
    titles(out, &LONG);
    for message in messages {
        let cells = [
            format!(" {}", message.index),
            message.by.clone(),
            time(message, dates),
            message.text.clone(),
            "N".to_owned(),
        ];
        row(out, &LONG, &cells);
    }
}

fn time(message: &JobMessage, dates: &Dates) -> String {
    let mut time = String::new();
    dates.short(&mut time, message.t.0);
    time
}

fn titles(out: &mut String, columns: &[(&str, usize); 5]) {
    row(out, columns, &columns.map(|(title, _)| title.to_owned()));
}

/// Values are padded and never cut.
fn row(out: &mut String, columns: &[(&str, usize); 5], cells: &[String; 5]) {
    for (n, ((_, columns), value)) in columns.iter().zip(cells).enumerate() {
        let shown = escape(value);
        out.push_str(&shown);
        if n + 1 < cells.len() {
            cell::blanks(out, columns.saturating_sub(width(&shown)).max(1));
        }
    }
    out.push('\n');
}

/// Appends an object; `j`: with the job.
pub(crate) fn put_json(out: &mut String, j: Option<JobKey>, message: &JobMessage) {
    let mut o = Object::begin(out);
    if let Some(j) = j {
        o.int("id", j.id);
        o.int("index", j.idx);
    }
    o.int("message_index", message.index);
    o.text("from", &message.by);
    o.int("post_time", message.t.0.div_euclid(1000));
    o.int("post_ms", message.t.0);
    o.text("text", &message.text);
    o.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Stamp;
    use jiff::tz::TimeZone;

    fn message(text: &str) -> JobMessage {
        JobMessage {
            index: 1,
            by: "user1".into(),
            t: Stamp(1_795_230_429_000),
            text: text.into(),
        }
    }

    #[test]
    fn the_columns_are_those_of_lsf() {
        let dates = Dates::new(TimeZone::UTC);
        let got = table(JobKey::job(2500), &message("step 1"), &dates);
        let want = "JOBID     MSG_ID  FROM       POST_TIME      DESCRIPTION\n\
                    2500      1       user1      Nov 21 03:07   step 1\n";
        assert_eq!(got, want);
        let mut out = String::new();
        put_list(&mut out, &[message("a\x1b[2J\nb")], &dates);
        assert!(
            out.contains("\n MSG_ID FROM       POST_TIME      MESSAGE "),
            "{out}"
        );
        assert!(out.ends_with(" N\n") && !out.contains('\x1b'), "{out}");
        assert_eq!(out.lines().count(), 4, "one line for each message: {out}");
        out.clear();
        put_list(&mut out, &[], &dates);
        assert_eq!(out, "");
    }
}
