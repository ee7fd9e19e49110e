//! Moments, times and amounts as pages show them.

use corral::model::JobStat;
use corral::text::duration;
use jiff::tz::TimeZone;

/// A moment near now: `Nov 26 11:20`; empty for 0.
pub(super) fn moment(ms: i64, now: i64) -> String {
    match ms {
        0 => String::new(),
        ms => duration::date_near(ms, now, &TimeZone::system()),
    }
}

/// `1h 5m`.
pub(super) fn time(ms: u64) -> String {
    duration::short(ms)
}

/// `1.5 GB`; empty for 0.
pub(super) fn kilobytes(kb: u64) -> String {
    match kb {
        0 => String::new(),
        kb => corral::text::size::human(kb.saturating_mul(1024)),
    }
}

/// The part in percent, at most 100.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    (part.saturating_mul(100))
        .checked_div(whole)
        .unwrap_or(0)
        .min(100)
}

/// The class of a state in the style sheet.
pub(super) fn class(stat: JobStat) -> &'static str {
    match stat {
        JobStat::Pend | JobStat::Psusp => "wait",
        JobStat::Run => "run",
        JobStat::Ususp | JobStat::Ssusp => "susp",
        JobStat::Done => "done",
        JobStat::Exit => "bad",
        JobStat::Unkwn => "lost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_amounts() {
        assert_eq!((percent(1, 4), percent(9, 3), percent(1, 0)), (25, 100, 0));
        assert_eq!((moment(0, 5), kilobytes(0)), (String::new(), String::new()));
    }
}
