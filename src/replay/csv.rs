//! Workloads as CSV: a header line with the names of the columns, in any order, then one job per
//! line. Richer than the Standard Workload Format: resources, queues, dependencies, deadlines.
//!
//! Owns the names of the columns and the meaning of their values (see cbsim(1)). Never reads a
//! file, and never knows which queues or hosts exist.

use super::workload::{Builder, Job, JobRequest, Workload, print_seconds, seconds};
use crate::text::error::nearest;
use csv::{ReaderBuilder, StringRecord, Trim, WriterBuilder};

/// Every supported column, in the order in which they are written.
pub const COLUMNS: &[&str] = &[
    "id",
    "submit",
    "run",
    "estimate",
    "slots",
    "min",
    "max",
    "mem",
    "gpu",
    "user",
    "group",
    "project",
    "queue",
    "res_req",
    "hosts",
    "priority",
    "exclusive",
    "depends",
    "begin",
    "deadline",
];

/// The meaning of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    Known(&'static str),
    /// An amount of this resource, reserved on each host.
    Resource(String),
}

/// Reads a workload. `file` is its name in messages; `declared` tells which resources the
/// configuration knows; each of them may be a column.
///
/// # Errors
/// The header has unknown or duplicate columns or lacks `submit` or `run`, or no line could be
/// read. Single wrong lines are counted in [`Workload::left_out`].
pub fn read(bytes: &[u8], file: &str, declared: &dyn Fn(&str) -> bool) -> Result<Workload, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = ReaderBuilder::new()
        .trim(Trim::All)
        .flexible(true)
        .comment(Some(b'#'))
        .from_reader(bytes);
    let header = reader
        .headers()
        .map_err(|e| format!("{file}: cannot read the header: {e}"))?;
    let columns = columns(&header.clone(), declared).map_err(|e| format!("{file}:1: {e}"))?;
    let mut builder = Builder::default();
    let mut record = StringRecord::new();
    let mut n = 0;
    loop {
        n += 1;
        match reader.read_record(&mut record) {
            Ok(false) => break,
            Ok(true) => {
                let line = record.position().map_or(0, csv::Position::line);
                match job(&columns, &record, n) {
                    Ok((job, ask)) => builder.push(job, ask)?,
                    Err(why) => builder.workload.left_out.bad_line(file, line, &why),
                }
            }
            Err(e) => {
                let line = e.position().map_or(0, csv::Position::line);
                let why = match e.kind() {
                    csv::ErrorKind::Utf8 { .. } => "the line is not UTF-8 text".to_owned(),
                    _ => e.to_string(),
                };
                builder.workload.left_out.bad_line(file, line, &why);
            }
        }
    }
    let workload = builder.finish();
    if workload.jobs.is_empty() {
        let first = workload.left_out.sentences().into_iter().next();
        let why = first.map_or(String::new(), |s| format!("; {s}"));
        return Err(format!("{file} has no job that can be used{why}"));
    }
    Ok(workload)
}

fn columns(header: &StringRecord, declared: &dyn Fn(&str) -> bool) -> Result<Vec<Column>, String> {
    let mut out: Vec<Column> = Vec::new();
    for name in header {
        let lower = name.to_ascii_lowercase();
        let column = match COLUMNS.iter().find(|c| **c == lower) {
            Some(known) => Column::Known(known),
            None if declared(name) => Column::Resource(name.to_owned()),
            None => {
                let hint = nearest(&lower, COLUMNS.iter().copied());
                let hint = hint.map_or(String::new(), |h| format!("; did you mean {h}?"));
                return Err(format!(
                    "column {name:?} is neither known nor a resource of the configuration{hint}"
                ));
            }
        };
        if out.contains(&column) {
            return Err(format!("column {name:?} occurs twice"));
        }
        out.push(column);
    }
    for needed in ["submit", "run"] {
        if !out.contains(&Column::Known(needed)) {
            return Err(format!("column {needed:?} is missing"));
        }
    }
    Ok(out)
}

/// Reads one line; `n` counts from 1 and is the number of a job without one.
fn job(columns: &[Column], record: &StringRecord, n: u64) -> Result<(Job, JobRequest), String> {
    if record.len() != columns.len() {
        return Err(format!(
            "{} values for {} columns",
            record.len(),
            columns.len()
        ));
    }
    let mut job = Job {
        id: n,
        ..Job::default()
    };
    let mut ask = JobRequest {
        min: 1,
        max: 1,
        ..JobRequest::default()
    };
    let mut usage = Vec::new();
    for (column, value) in columns.iter().zip(record) {
        if value.is_empty() {
            continue;
        }
        match column {
            Column::Resource(name) => usage.push(format!("{name}={}", amount(name, value)?)),
            Column::Known(name @ ("mem" | "gpu")) => {
                usage.push(format!("{name}={}", amount(name, value)?));
            }
            Column::Known(name) => cell(name, value, &mut job, &mut ask)?,
        }
    }
    if job.run_ms == 0 {
        return Err("run: the run time of a job is above 0".to_owned());
    }
    if ask.max < ask.min {
        ask.max = ask.min;
    }
    if !usage.is_empty() {
        let usage = format!("rusage[{}]", usage.join(":"));
        if ask.res_req.is_empty() {
            ask.res_req = usage;
        } else {
            return Err("a resource column and res_req in one line: write one of them".into());
        }
    }
    Ok((job, ask))
}

fn cell(name: &str, value: &str, job: &mut Job, ask: &mut JobRequest) -> Result<(), String> {
    let time = || {
        seconds(value)
            .filter(|ms| *ms >= 0)
            .ok_or_else(|| format!("{name}: {value:?} is not a number of seconds"))
    };
    let length = || time().map(i64::unsigned_abs);
    let count = || -> Result<u32, String> {
        let n = value
            .parse()
            .ok()
            .filter(|n| (1..=i32::MAX as u32).contains(n));
        n.ok_or_else(|| format!("{name}: {value:?} is not a number of slots"))
    };
    match name {
        "id" => {
            let id = value.parse();
            job.id = id.map_err(|_| format!("id: {value:?} is not a job number"))?;
        }
        "submit" => job.submit_ms = time()?,
        "run" => job.run_ms = length()?,
        "estimate" => job.est_ms = Some(length()?).filter(|ms| *ms > 0),
        "begin" => job.begin_ms = Some(time()?),
        "deadline" => job.deadline_ms = Some(time()?),
        "slots" => (ask.min, ask.max) = (count()?, count()?),
        "min" => ask.min = count()?,
        "max" => ask.max = count()?,
        "user" => value.clone_into(&mut ask.user),
        "group" => value.clone_into(&mut ask.group),
        "project" => value.clone_into(&mut ask.project),
        "queue" => value.clone_into(&mut ask.queue),
        "res_req" => value.clone_into(&mut ask.res_req),
        "hosts" => value.clone_into(&mut ask.hosts),
        "depends" => job.depends = Some(value.into()),
        "priority" => {
            let n = value.parse();
            ask.priority = n.map_err(|_| format!("priority: {value:?} is not a whole number"))?;
        }
        "exclusive" => {
            ask.exclusive = match value.to_ascii_lowercase().as_str() {
                "yes" | "y" | "true" | "1" => true,
                "no" | "n" | "false" | "0" => false,
                _ => return Err(format!("exclusive: {value:?} is neither yes nor no")),
            }
        }
        _ => {}
    }
    Ok(())
}

/// An amount in the form of `rusage[]`: digits, optionally a fraction and a unit.
fn amount<'a>(name: &str, value: &'a str) -> Result<&'a str, String> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let good = seconds(digits).is_some_and(|n| n >= 0) && value.len() - digits.len() <= 3;
    good.then_some(value)
        .ok_or_else(|| format!("{name}: {value:?} is not an amount"))
}

/// Writes a workload with all columns.
///
/// # Errors
/// Cannot fail when writing to memory; otherwise the writer's message.
pub fn write(workload: &Workload) -> Result<Vec<u8>, String> {
    let mut out = WriterBuilder::new().from_writer(Vec::with_capacity(80 * workload.jobs.len()));
    let written: Vec<&str> = COLUMNS
        .iter()
        .copied()
        // Resources are written as a requirement string, slots as minimum and maximum.
        .filter(|c| !["slots", "mem", "gpu"].contains(c))
        .collect();
    out.write_record(&written).map_err(|e| e.to_string())?;
    let time = |ms: Option<i64>| ms.map_or(String::new(), print_seconds);
    for job in &workload.jobs {
        let ask = workload.request(job);
        let length = |ms: u64| print_seconds(i64::try_from(ms).unwrap_or(i64::MAX));
        let priority = if ask.priority == 0 {
            String::new()
        } else {
            ask.priority.to_string()
        };
        let row: [&str; 17] = [
            &job.id.to_string(),
            &print_seconds(job.submit_ms),
            &length(job.run_ms),
            &job.est_ms.map_or(String::new(), length),
            &ask.min.to_string(),
            &ask.max.to_string(),
            &ask.user,
            &ask.group,
            &ask.project,
            &ask.queue,
            &ask.res_req,
            &ask.hosts,
            &priority,
            if ask.exclusive { "yes" } else { "" },
            job.depends.as_deref().unwrap_or(""),
            &time(job.begin_ms),
            &time(job.deadline_ms),
        ];
        out.write_record(row).map_err(|e| e.to_string())?;
    }
    out.into_inner().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Workload, String> {
        read(text.as_bytes(), "w.csv", &|name| name == "licence")
    }

    #[test]
    fn columns_come_in_any_order_and_case() {
        let w = parse("RUN, submit ,User,slots\n60,5,ann,4\n# a comment\n30,1,bob,\n").unwrap();
        let row = |i: usize| {
            let job = &w.jobs[i];
            let ask = w.request(job);
            (
                job.id,
                job.submit_ms,
                job.run_ms,
                ask.user.as_str(),
                ask.min,
                ask.max,
            )
        };
        assert_eq!(row(0), (2, 1000, 30_000, "bob", 1, 1));
        assert_eq!(row(1), (1, 5000, 60_000, "ann", 4, 4));
    }

    #[test]
    fn resources_become_a_requirement() {
        let w = parse("submit,run,mem,gpu,licence\n0,1,2G,0.5,3\n").unwrap();
        assert_eq!(w.requests[0].res_req, "rusage[mem=2G:gpu=0.5:licence=3]");
    }

    #[test]
    fn bad_lines_are_counted_with_their_line_and_column() {
        let w = parse(concat!(
            "submit,run,slots,exclusive,mem\n",
            "0,1,1,,\n",
            "x,1,1,,\n",
            "0,0,1,,\n",
            "0,1,0,,\n",
            "0,1,1,maybe,\n",
            "0,1,1,,-5\n",
            "0,1\n",
        ));
        let w = w.unwrap();
        assert_eq!(w.jobs.len(), 1);
        assert_eq!(
            w.left_out.sentences(),
            [
                "w.csv:3: submit: \"x\" is not a number of seconds",
                "w.csv:4: run: the run time of a job is above 0",
                "w.csv:5: slots: \"0\" is not a number of slots",
                "w.csv:6: exclusive: \"maybe\" is neither yes nor no",
                "w.csv:7: mem: \"-5\" is not an amount",
                "w.csv:8: 2 values for 5 columns",
            ]
        );
    }

    #[test]
    fn a_bad_header_is_refused_with_a_suggestion() {
        let e = parse("submit,run,qeue\n0,1,a\n").unwrap_err();
        assert!(e.starts_with("w.csv:1: column \"qeue\""), "{e}");
        assert!(e.ends_with("did you mean queue?"), "{e}");
        assert!(parse("submit,submit,run\n").unwrap_err().contains("twice"));
        assert!(
            parse("submit\n1\n")
                .unwrap_err()
                .contains("\"run\" is missing")
        );
    }

    #[test]
    fn what_is_written_reads_back_alike() {
        let w = parse(concat!(
            "id,submit,run,estimate,min,max,user,queue,res_req,exclusive,depends,begin,deadline\n",
            "5,0,1,,1,1,,,,,,,\n",
            "7,1.5,2,3,2,8,ann,long,\"select[mem>5] span[hosts=1]\",yes,\"done(5)\",9,20\n",
        ));
        let w = w.unwrap();
        let again = read(&write(&w).unwrap(), "again", &|_| false).unwrap();
        assert_eq!(again.jobs, w.jobs);
        assert_eq!(again.requests, w.requests);
    }
}
