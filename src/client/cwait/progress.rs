//! What a user at a terminal sees of a long wait: one line that is rewritten, and the message when
//! the wait is interrupted.

use crate::language::translated;
use crate::model::JobStat;
use crate::sys::signals;
use std::io::{IsTerminal as _, Write as _};

/// Exit code of an interrupted wait.
pub(super) const INTERRUPTED: i32 = 130;

/// The number of jobs and elements in each state.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Counts {
    pub pend: u64,
    pub run: u64,
    pub susp: u64,
    pub done: u64,
    pub exit: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, stat: JobStat, n: u64) {
        let count = match stat {
            JobStat::Pend | JobStat::Psusp => &mut self.pend,
            JobStat::Run => &mut self.run,
            JobStat::Ususp | JobStat::Ssusp | JobStat::Unkwn => &mut self.susp,
            JobStat::Done => &mut self.done,
            JobStat::Exit => &mut self.exit,
        };
        *count += n;
    }

    fn all(&self) -> u64 {
        self.pend + self.run + self.susp + self.done + self.exit
    }

    /// Returns e.g. `40 of 100 ended (2 as EXIT), 8 running, 52 pending`.
    fn text(&self) -> String {
        let ended = format!("{} of {} ended", self.done + self.exit, self.all());
        let mut text = translated(&ended).into_owned();
        if self.exit > 0 {
            text += &format!(" ({})", translated(&format!("{} as EXIT", self.exit)));
        }
        let others = [
            (self.run, "running"),
            (self.susp, "suspended"),
            (self.pend, "pending"),
        ];
        for (n, word) in others.into_iter().filter(|(n, _)| *n > 0) {
            text += &format!(", {}", translated(&format!("{n} {word}")));
        }
        text
    }
}

/// The progress line on standard error, if that is a terminal.
pub(super) struct Progress {
    command: &'static str,
    on: bool,
    shown: Counts,
}

impl Progress {
    pub(crate) fn of(command: &'static str, quiet: bool) -> Progress {
        // From now on an interruption ends the wait with a message.
        drop(signals::catch_term());
        Progress {
            command,
            on: !quiet && std::io::stderr().is_terminal(),
            shown: Counts::default(),
        }
    }

    /// A progress line that shows nothing.
    pub(crate) fn hidden() -> Progress {
        Progress {
            command: "",
            on: false,
            shown: Counts::default(),
        }
    }

    /// Shows the counts if the wait concerns more than one job.
    pub(crate) fn show(&mut self, counts: Counts) {
        if self.on && counts.all() > 1 && counts != self.shown {
            self.shown = counts;
            eprint!("\r{}: {}\x1b[K", self.command, counts.text());
            drop(std::io::stderr().flush());
        }
    }

    /// Clears the line before other output is written.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) != Counts::default() {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_words() {
        let mut counts = Counts::default();
        counts.add(JobStat::Pend, 52);
        counts.add(JobStat::Run, 8);
        counts.add(JobStat::Done, 38);
        assert_eq!(counts.text(), "38 of 98 ended, 8 running, 52 pending");
        counts.add(JobStat::Exit, 2);
        counts.add(JobStat::Ssusp, 1);
        let want = "40 of 101 ended (2 as EXIT), 8 running, 1 suspended, 52 pending";
        assert_eq!(counts.text(), want);
    }
}
