//! `--params FILE`: an array of one element for each line of a file of values.
//!
//! Owns how the file is read: comma separated values with names in the first line, or tab separated
//! values if the file name ends with `.tsv`. Each element finds its values in its environment.

use super::options::JobOptions;
use crate::client::exit::{Fail, Result};
use crate::model::Submission;
use crate::record::request::SCRIPT_MAX;
use crate::sys;
use crate::task::params::{COLUMNS_MAX, check_name, line};
use crate::text::indexset::{IndexSet, MAX_INDEX};
use std::path::Path;

/// Maximum size of the file, in bytes.
const FILE_MAX: u64 = 4 * SCRIPT_MAX as u64;

/// The values of all elements, and the number of elements.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Params {
    /// In the stored form; empty: there are none.
    pub table: String,
    lines: u32,
}

impl Params {
    /// The values of the option, if given.
    ///
    /// # Errors
    /// The file cannot be read or is invalid.
    pub(super) fn of(options: &JobOptions, cwd: &Path) -> Result<Params> {
        let Some(name) = options.get("params") else {
            return Ok(Params::default());
        };
        let bytes = sys::fs::read_small(&cwd.join(name), FILE_MAX)
            .map_err(|e| Fail::usage(format!("--params: {e}")))?;
        read(&bytes, name)
    }

    /// Makes the job an array of these elements, or checks that its elements have values.
    ///
    /// # Errors
    /// An index has no line.
    pub(super) fn number(&self, job: &mut Submission) -> Result<()> {
        if self.table.is_empty() {
            return Ok(());
        }
        let lines = self.lines;
        if job.array.is_empty() {
            job.array = format!("1-{lines}");
            return Ok(());
        }
        let set = IndexSet::parse(&job.array, 1, MAX_INDEX).ok();
        match set.and_then(|set| set.last()) {
            Some(last) if last > lines => Err(Fail::usage(format!(
                "-J: element {last} has no line in the file of --params, which has {lines}"
            ))),
            _ => Ok(()),
        }
    }
}

fn read(bytes: &[u8], name: &str) -> Result<Params> {
    let delimiter = if name.ends_with(".tsv") { b'\t' } else { b',' };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .from_reader(bytes);
    let mut out = Params::default();
    let mut columns = 0;
    for record in reader.records() {
        let record = record.map_err(|e| invalid(name, &e))?;
        let values: Vec<&str> = record.iter().collect();
        let at = record.position().map_or(0, csv::Position::line);
        let refused = |text: String| Fail::usage(format!("--params: {name}:{at}: {text}"));
        if columns == 0 {
            columns = values.len();
            check_names(&values).map_err(refused)?;
        } else {
            out.lines += 1;
        }
        if let Some(n) = values.iter().position(|value| value.contains('\0')) {
            return Err(refused(format!("value {} contains a NUL byte", n + 1)));
        }
        out.table.push_str(&line(&values));
        if out.table.len() > SCRIPT_MAX {
            let text = format!("--params: the values of {name} have more than {SCRIPT_MAX} bytes");
            return Err(Fail::usage(text));
        }
    }
    match out.lines {
        0 => Err(Fail::usage(format!(
            "--params: {name} has no line of values\nhint: the first line names the columns, each \
             further one has the values of an element"
        ))),
        _ => Ok(out),
    }
}

fn check_names(names: &[&str]) -> std::result::Result<(), String> {
    if names.len() > COLUMNS_MAX {
        return Err(format!("more than {COLUMNS_MAX} columns"));
    }
    for (n, name) in names.iter().enumerate() {
        check_name(name)?;
        if names[..n].contains(name) {
            return Err(format!("two columns are named '{name}'"));
        }
    }
    Ok(())
}

/// The error of the CSV reader, with the line.
fn invalid(name: &str, e: &csv::Error) -> Fail {
    let at = e.position().map_or(0, csv::Position::line);
    let text = match e.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{len} values, the first line names {expected_len} columns"),
        csv::ErrorKind::Utf8 { .. } => "this is not UTF-8 text".to_owned(),
        _ => e.to_string(),
    };
    Fail::usage(format!("--params: {name}:{at}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::params::variables;

    fn of(text: &str) -> Params {
        read(text.as_bytes(), "p.csv").unwrap()
    }

    #[test]
    fn lines_are_elements() {
        let params = of("\u{feff}lr,name\r\n0.1,\"a, b\"\r\n\n0.2,\"two\nlines\"\n");
        assert_eq!(params.lines, 2);
        assert_eq!(
            variables(params.table.as_bytes(), 2).unwrap(),
            ["CB_PARAM_lr=0.2", "CB_PARAM_name=two\nlines"]
        );
        let tabs = read(b"a\tb\n1,2\t3\n", "p.tsv").unwrap();
        assert_eq!(
            variables(tabs.table.as_bytes(), 1).unwrap(),
            ["CB_PARAM_a=1,2", "CB_PARAM_b=3"]
        );
    }

    #[test]
    fn the_array_has_the_lines_or_some_of_them() {
        let params = of("a\n1\n2\n3\n");
        let numbered = |array: &str| {
            let mut job = Submission {
                array: array.into(),
                ..Submission::default()
            };
            params.number(&mut job).map(|()| job.array)
        };
        assert_eq!(numbered("").unwrap(), "1-3");
        assert_eq!(numbered("2-3").unwrap(), "2-3");
        let text = numbered("2-4").unwrap_err().text;
        assert!(text.contains("element 4 has no line"), "{text}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let many = format!("{}x\n", "x,".repeat(COLUMNS_MAX));
        for (text, want) in [
            ("", "--params: p.csv has no line of values"),
            ("a,b\n", "--params: p.csv has no line of values"),
            (
                "a,b\n1\n",
                "--params: p.csv:2: 1 values, the first line names 2",
            ),
            ("a b\n1\n", "--params: p.csv:1: column 'a b'"),
            ("a,a\n1,2\n", "--params: p.csv:1: two columns are named 'a'"),
            (
                "a,\n1,2\n",
                "--params: p.csv:1: the name of a column is missing",
            ),
            (
                "a\nx\0y\n",
                "--params: p.csv:2: value 1 contains a NUL byte",
            ),
            (many.as_str(), "--params: p.csv:1: more than 100 columns"),
        ] {
            let fail = read(text.as_bytes(), "p.csv").unwrap_err();
            assert!(fail.text.starts_with(want), "{text:?}: {}", fail.text);
        }
        let long = format!("a\n{}\n", "x".repeat(SCRIPT_MAX));
        assert!(read(long.as_bytes(), "p.csv").is_err());
        assert!(
            read(b"a\n\xff\n", "p.csv")
                .unwrap_err()
                .text
                .contains("UTF-8")
        );
    }
}
