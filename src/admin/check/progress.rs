//! Shows on a terminal what `cadmin check` is doing if it takes long.

use crate::language::translated;
use crate::sys::clock;
use std::io::{IsTerminal as _, Write as _};

/// A check that ends earlier shows no progress, ms.
const QUIET_MS: u64 = 1_000;

/// One line on standard error that each step overwrites.
pub(super) struct Progress {
    on: bool,
    since_ms: u64,
    shown: bool,
}

impl Progress {
    pub(super) fn on_terminal() -> Progress {
        Progress {
            on: std::io::stderr().is_terminal(),
            since_ms: clock::boot_ms(),
            shown: false,
        }
    }

    pub(super) fn silent() -> Progress {
        Progress {
            on: false,
            since_ms: 0,
            shown: false,
        }
    }

    /// Begins a step.
    pub(super) fn begin_step(&mut self, what: &str) {
        if !self.on {
            return;
        }
        let passed = clock::boot_ms().saturating_sub(self.since_ms);
        if let Some(line) = line(what, passed) {
            self.shown = true;
            put(&line);
        }
    }

    /// Ends the last step: clears the line.
    pub(super) fn end(&mut self) {
        if self.shown {
            put("\r\x1b[K");
        }
    }
}

fn line(what: &str, passed_ms: u64) -> Option<String> {
    let seconds = passed_ms / 1000;
    let text = format!("{seconds} s: checking {what} ...");
    (passed_ms >= QUIET_MS).then(|| format!("\r\x1b[K{}", translated(&text)))
}

fn put(text: &str) {
    let mut err = std::io::stderr().lock();
    // Progress that cannot be shown is not a failure.
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_check_that_takes_long_says_what_it_does() {
        assert_eq!(line("the share", 999), None);
        let shown = line("the journal", 2_500).unwrap();
        assert!(shown.ends_with("2 s: checking the journal ..."), "{shown}");
    }
}
