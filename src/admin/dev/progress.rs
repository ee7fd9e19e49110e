//! Progress on a terminal: one line for each activity, with a bar, a count and a text, redrawn in
//! place.
//!
//! Writes to standard error, and only where that is a terminal. Has no clock and starts no thread:
//! a line changes when its caller says so.

use crate::sys::terminal;
use crate::text::width::truncate;
use std::io::{IsTerminal as _, Write as _};

/// Width of a bar.
const BAR_COLUMNS: u32 = 30;
/// Columns of a terminal that does not report its size.
const COLUMNS: usize = 80;

#[derive(Default)]
struct Line {
    label: String,
    done: u32,
    all: u32,
    text: String,
}

/// See the top of this file.
pub(super) struct ProgressLines {
    lines: Vec<Line>,
    /// The number of lines that are on the screen, above the cursor.
    on_screen: usize,
    is_terminal: bool,
}

impl ProgressLines {
    pub(super) fn new() -> ProgressLines {
        ProgressLines {
            lines: Vec::new(),
            on_screen: 0,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Whether nothing is shown, because standard error is not a terminal.
    pub(super) fn is_hidden(&self) -> bool {
        !self.is_terminal
    }

    /// Appends a line for `all` steps; returns its number.
    pub(super) fn add(&mut self, label: String, all: u32) -> usize {
        self.lines.push(Line {
            label,
            all,
            ..Line::default()
        });
        self.lines.len() - 1
    }

    /// Sets the steps that are done, and the text after them.
    pub(super) fn set(&mut self, line: usize, done: u32, text: String) {
        if let Some(line) = self.lines.get_mut(line) {
            (line.done, line.text) = (done, text);
        }
    }

    /// Shows the lines as they are now.
    pub(super) fn draw(&mut self) {
        let columns =
            terminal::size_of(&std::io::stderr()).map_or(COLUMNS, |(_, cols)| cols.into());
        self.write(&frame(&self.lines, self.on_screen, columns));
        self.on_screen = self.lines.len();
    }

    /// Removes the lines from the screen.
    pub(super) fn clear(&mut self) {
        self.write(&frame(&[], self.on_screen, 0));
        self.on_screen = 0;
    }

    /// An error affects only the display.
    fn write(&self, text: &str) {
        if self.is_terminal {
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}

/// The control sequences and text that replace `on_screen` lines above the cursor by these lines.
fn frame(lines: &[Line], on_screen: usize, columns: usize) -> String {
    let mut out = match on_screen {
        0 => String::new(),
        up => format!("\x1b[{up}A"),
    };
    // Everything below the cursor is erased.
    out.push_str("\x1b[J");
    for line in lines {
        let full = (BAR_COLUMNS * line.done.min(line.all) / line.all.max(1)) as usize;
        let rest = BAR_COLUMNS as usize - full;
        let Line {
            label,
            done,
            all,
            text,
        } = line;
        let head = match label.as_str() {
            "" => String::new(),
            label => format!("{label} "),
        };
        let bar = format!("{}{}", "#".repeat(full), "-".repeat(rest));
        let whole = format!("{head}{bar} {done}/{all} {text}");
        // A line that wraps would be two, and only one would be replaced.
        out.push_str(&truncate(&whole, columns.saturating_sub(1)));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_replace_those_on_the_screen_and_never_wrap() {
        let line = |label: &str, done, text: &str| Line {
            label: label.into(),
            done,
            all: 4,
            text: text.into(),
        };
        let two = [line("a 1", 0, "pending"), line("", 3, "1 running")];
        let shown = frame(&two, 0, 80);
        let none = "-".repeat(30);
        let most = format!("{}{}", "#".repeat(22), "-".repeat(8));
        assert_eq!(
            shown,
            format!("\x1b[Ja 1 {none} 0/4 pending\n{most} 3/4 1 running\n")
        );
        let shown = frame(&two[1..], 2, 40);
        assert_eq!(shown, format!("\x1b[2A\x1b[J{most} 3/4 1 ru\n"));
        assert_eq!(frame(&[], 1, 0), "\x1b[1A\x1b[J");
        // More than all, and no steps.
        let odd = [line("", 9, ""), Line::default()];
        let full = "#".repeat(30);
        assert_eq!(
            frame(&odd, 0, 80),
            format!("\x1b[J{full} 9/4 \n{none} 0/0 \n")
        );
    }
}
