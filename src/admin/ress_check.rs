//! `cadmin ress-check`: reads the output of a sensor like cbls, and shows what cbls would accept.
//!
//! Runs nothing and sends no request: the output comes from a file or a pipe.

use crate::client::cli::Values;
use crate::client::exit::{Exit, Fail, Result};
use crate::language::answer;
use crate::record::load::SensedKind;
use crate::sensors::document_splitter::{self, StreamPart};
use crate::sensors::parse::{Parsed, document};
use crate::sys;
use clap::ArgMatches;
use std::fmt::Write as _;
use std::path::Path;

/// Maximum size of the output that is read, in bytes.
const OUTPUT_MAX: u64 = 16 << 20;

/// Prints each document's resources; the problems are the failure.
///
/// # Errors
/// The file cannot be read, contains no document, or cbls would not accept all of it.
pub(super) fn check(m: &ArgMatches) -> Result<i32> {
    let files = m.all("file");
    let [file] = files.as_slice() else {
        return Err(Fail::usage(
            "give one file with the output of the sensor, or - for standard input\n\
             hint: timeout 30 ./ress.host | cadmin ress-check -",
        ));
    };
    let (name, bytes) = match file.as_str() {
        "-" => ("standard input", sys::caller::read_stdin(OUTPUT_MAX)?),
        path => (path, sys::fs::read_small(Path::new(path), OUTPUT_MAX)?),
    };
    let read = read(name, &bytes);
    print!("{}", read.table);
    if read.documents == 0 && read.problems == 0 {
        return Err(Fail::usage(format!("{name}: it contains no document")));
    }
    let s = |n: usize| if n == 1 { "" } else { "s" };
    if read.problems > 0 {
        let (n, s) = (read.problems, s(read.problems));
        return Err(Fail::usage(format!(
            "{}{n} problem{s} in {name}",
            read.text
        )));
    }
    let (n, s) = (read.documents, s(read.documents));
    answer!("No errors found in {n} document{s} of {name}.");
    Ok(Exit::Ok.code())
}

/// The result of parsing a text.
#[derive(Default)]
struct ParseReport {
    table: String,
    /// The problems with their positions, one per line.
    text: String,
    problems: usize,
    documents: usize,
}

fn read(name: &str, bytes: &[u8]) -> ParseReport {
    let mut out = ParseReport::default();
    for piece in document_splitter::all(bytes) {
        match piece {
            StreamPart::Document { bytes, line } => {
                out.documents += 1;
                out.add(name, line, document(&bytes, line));
            }
            StreamPart::Dropped { line, why } => {
                out.problems += 1;
                let _ = writeln!(out.text, "{name}:{line}: {}", why.text());
            }
        }
    }
    out
}

impl ParseReport {
    fn add(&mut self, name: &str, line: u64, parsed: Parsed) {
        let _ = writeln!(self.table, "document at line {line}:");
        for r in &parsed.readings {
            let s = &r.sensed;
            let kind = match s.kind {
                SensedKind::Number if s.increase => "number, increase",
                SensedKind::Number => "number, decrease",
                SensedKind::Text => "text",
                SensedKind::Tag => "tag",
                SensedKind::Unknown => "unknown",
            };
            let value = s.value.as_deref().unwrap_or("-");
            let _ = write!(self.table, "  {:<20} {value:<15} {kind}", r.name);
            for (word, set) in [("release", s.release), ("slotresource", s.slot)] {
                if set {
                    let _ = write!(self.table, ", {word}");
                }
            }
            if !s.per_unit.is_empty() {
                let _ = write!(self.table, ", per unit of {}", s.per_unit);
            }
            if !s.locale.is_empty() {
                let _ = write!(self.table, ", locale {}", s.locale);
            }
            self.table.push('\n');
        }
        self.problems += parsed.problems.len();
        for p in &parsed.problems {
            let _ = writeln!(self.text, "{name}:{p}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_told_with_their_lines_in_the_whole_output() {
        let text = "- resource: a\n value: 1\n---\n- resource: b\n value: x\n- resource: c\n  \
                    value: 3\n  locale: all\n";
        let found = read("out", text.as_bytes());
        assert_eq!((found.documents, found.problems), (2, 1));
        assert!(
            found
                .text
                .starts_with("out:5:9: resource b: x is not a usable number"),
            "{}",
            found.text
        );
        assert!(
            found.table.contains("  c                    3"),
            "{}",
            found.table
        );
        assert!(found.table.contains("locale all"), "{}", found.table);
    }
}
