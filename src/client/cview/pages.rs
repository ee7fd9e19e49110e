//! Lines of a page for the width of the screen: texts are wrapped, tables keep their columns.
//!
//! Pure; owns the wrapping.

use super::view_data::Page;
use crate::language::translated;
use crate::text::width::{truncate, width};

/// Blanks before a continuation line.
const INDENT: &str = "    ";

/// The lines of a page on a screen with this number of columns.
pub(crate) fn lines_within(page: &Page, columns: usize) -> Vec<String> {
    if page.is_table {
        return page.lines.clone();
    }
    let mut out = Vec::new();
    for line in &page.lines {
        let line = match page.problem {
            Some(_) => translated(line),
            None => line.into(),
        };
        fold(&line, columns.max(1), &mut out);
    }
    out
}

/// Adds a line in parts that fit. Only blanks at the line breaks are dropped.
fn fold(line: &str, columns: usize, out: &mut Vec<String>) {
    let mut rest = line;
    let mut before = "";
    loop {
        let room = columns.saturating_sub(before.len()).max(1);
        if width(rest) <= room {
            out.push(format!("{before}{rest}"));
            return;
        }
        let full = match truncate(rest, room).len() {
            // A character that is wider than the screen.
            0 => rest.chars().next().map_or(0, char::len_utf8),
            full => full,
        };
        let blank = rest[..full].rfind(' ').filter(|at| *at > full / 2);
        let at = match rest[full..].starts_with(' ') {
            true => full,
            false => blank.unwrap_or(full),
        };
        out.push(format!("{before}{}", rest[..at].trim_end()));
        rest = rest[at..].trim_start_matches(' ');
        if rest.is_empty() {
            return;
        }
        before = if columns > 2 * INDENT.len() {
            INDENT
        } else {
            ""
        };
    }
}

/// The text after this number of columns.
pub(crate) fn after(text: &str, columns: usize) -> &str {
    &text[truncate(text, columns).len()..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cview::view_data::Subject;
    use crate::model::JobKey;
    use proptest::prelude::*;

    fn folded(line: &str, columns: usize) -> Vec<String> {
        let page = Page {
            subject: Subject::Job(JobKey::job(1)),
            lines: vec![line.to_owned()],
            is_table: false,
            problem: None,
        };
        lines_within(&page, columns)
    }

    #[test]
    fn texts_are_folded_at_blanks() {
        assert_eq!(
            folded("Job <1>, Status <RUN>", 16),
            ["Job <1>, Status", "    <RUN>"]
        );
        assert_eq!(folded("", 16), [""]);
        assert_eq!(folded("abcdefghijklmnop", 10), ["abcdefghij", "    klmnop"]);
        assert_eq!(folded("作业", 1), ["作", "业"]);
        assert_eq!(after("abc", 2), "c");
        assert_eq!(after("abc", 9), "");
    }

    proptest! {
        #[test]
        fn every_part_fits_and_nothing_is_lost(line in "[a-z作 ]{0,60}", columns in 2usize..40) {
            let parts = folded(&line, columns);
            prop_assert!(parts.iter().all(|part| width(part) <= columns));
            let letters = |text: &str| text.replace(' ', "");
            prop_assert_eq!(letters(&parts.concat()), letters(&line));
        }
    }
}
