//! Long pages: items wrapped at the terminal's width like in LSF.
//!
//! Owns the wrapping: continuation lines start with 21 blanks and nothing is lost or added at a
//! break, so that joining the lines restores the item.

use super::cell;
use crate::text::width;
use unicode_width::UnicodeWidthChar as _;

/// Width of a wrapped page.
const COLUMNS: usize = 80;
/// Blanks before a continuation line.
const INDENT: usize = 21;

/// Appends `item` as one logical line, wrapped unless `unfolded`. Control characters are escaped.
pub(crate) fn item(out: &mut String, item: &str, unfolded: bool) {
    let safe = width::escape(item);
    if unfolded || width::width(&safe) < COLUMNS {
        out.push_str(&safe);
        out.push('\n');
        return;
    }
    let mut rest: &str = &safe;
    let mut room = COLUMNS - 1;
    while width::width(rest) > room {
        let at = break_position(rest, room);
        out.push_str(&rest[..at]);
        out.push('\n');
        cell::blanks(out, INDENT);
        rest = &rest[at..];
        room = COLUMNS - 1 - INDENT;
    }
    out.push_str(rest);
    out.push('\n');
}

/// The break position: after the last blank in the second half of the line, else where it is full.
fn break_position(text: &str, room: usize) -> usize {
    let mut used = 0;
    let mut full = text.len();
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > room {
            full = at;
            break;
        }
    }
    let blank = text[..full].rfind(' ').map(|at| at + 1);
    match blank {
        Some(at) if at > full / 2 => at,
        _ => full.max(text.chars().next().map_or(1, char::len_utf8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn folded(text: &str) -> String {
        let mut out = String::new();
        item(&mut out, text, false);
        out
    }

    #[test]
    fn short_items_stay_on_a_line() {
        assert_eq!(folded("Job <1>"), "Job <1>\n");
    }

    #[test]
    fn long_items_break_at_blanks_when_they_can() {
        let text = format!("{} {}", "a".repeat(60), "b".repeat(70));
        let blanks = " ".repeat(INDENT);
        let want = format!(
            "{} \n{blanks}{}\n{blanks}{}\n",
            "a".repeat(60),
            "b".repeat(58),
            "b".repeat(12)
        );
        assert_eq!(folded(&text), want);
        let mut out = String::new();
        item(&mut out, &text, true);
        assert_eq!(out, format!("{text}\n"));
    }

    proptest! {
        #[test]
        fn joining_gives_the_item_back(text in "[a-z作业 ]{0,300}") {
            let folded = folded(&text);
            for line in folded.lines() {
                prop_assert!(width::width(line) < COLUMNS);
            }
            let joint = folded.replace(&format!("\n{}", " ".repeat(INDENT)), "");
            prop_assert_eq!(joint, format!("{text}\n"));
        }
    }
}
