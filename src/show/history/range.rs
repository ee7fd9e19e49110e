//! Time ranges of `chist -C`, `-D`, `-S`, `-T`: `2026/11/20,2026/11/21/12:00`, `.-1`, `.-7,`.
//!
//! Owns their grammar. The clock and the zone are arguments.

use crate::text::duration::DefaultUnit;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _};

/// A range of times in milliseconds, excluding the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub from: i64,
    pub to: i64,
}

/// Help on the notation of a range.
pub(crate) const HINT: &str = "write START,END, START, or ,END or one moment; a moment is \
    [[year/]month/]day[/hour:minute], hour:minute, . for now, .-N for N days ago or .-N: for N \
    hours ago";

impl Range {
    /// Parses a range; `now` is the wall clock (ms).
    ///
    /// # Errors
    /// A sentence that names the invalid part.
    pub(crate) fn parse(text: &str, now: i64, zone: &TimeZone) -> Result<Range, String> {
        let moment = |part: &str| Moment::parse(part.trim(), now, zone);
        match text.split_once(',') {
            None => {
                let one = moment(text)?;
                Ok(Range {
                    from: one.from,
                    to: one.to,
                })
            }
            Some((from, to)) => {
                let from = match from.trim() {
                    "" => i64::MIN,
                    from => moment(from)?.from,
                };
                let to = match to.trim() {
                    "" => now.saturating_add(1),
                    to => moment(to)?.to,
                };
                if from >= to {
                    return Err(format!("'{}': the end is before the start", shown(text)));
                }
                Ok(Range { from, to })
            }
        }
    }

    pub(crate) fn has(&self, ms: i64) -> bool {
        (self.from..self.to).contains(&ms)
    }
}

/// Help on the notation of a single time.
pub(crate) const MOMENT_HINT: &str = "write [[year/]month/]day[/hour:minute], hour:minute, \
    2026-11-26T14:30:05, 90m or 2h30m for so long ago";

/// Parses a single time, ms: as in a range, in ISO 8601, or an amount of time with a unit, before
/// now.
///
/// # Errors
/// A sentence that describes the error.
pub(crate) fn moment(text: &str, now: i64, zone: &TimeZone) -> Result<i64, String> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at.as_millisecond());
    }
    if text.contains('-') && !text.starts_with('.') {
        let at = text.parse::<DateTime>().ok();
        let at = at.and_then(|at| at.to_zoned(zone.clone()).ok());
        let at = at.ok_or_else(|| format!("'{}' is not a moment", shown(text)))?;
        return Ok(at.timestamp().as_millisecond());
    }
    if text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        let ago = crate::text::duration::parse_ms(text, DefaultUnit::Seconds);
        let ago = ago.map_err(|e| format!("'{}': {}", shown(text), e.message))?;
        return Ok(now.saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX)));
    }
    Moment::parse(text, now, zone).map(|moment| moment.from)
}

fn shown(text: &str) -> String {
    let part = crate::text::width::truncate(text, 40);
    crate::text::width::escape(&part).into_owned()
}

/// A time with the precision of its notation: a day or a minute.
struct Moment {
    from: i64,
    to: i64,
}

impl Moment {
    fn parse(text: &str, now: i64, zone: &TimeZone) -> Result<Moment, String> {
        let wrong = || format!("'{}' is not a moment", shown(text));
        let today = Timestamp::from_millisecond(now)
            .map_err(|_| wrong())?
            .to_zoned(zone.clone())
            .datetime();
        if let Some(rest) = text.strip_prefix('.') {
            return Moment::relative(rest, now, today, zone).ok_or_else(wrong);
        }
        let (date, time) = match text.rsplit_once('/') {
            Some((date, time)) if time.contains(':') => (date, Some(time)),
            None if text.contains(':') => ("", Some(text)),
            _ => (text, None),
        };
        let day = day_of(date, today.date()).ok_or_else(wrong)?;
        match time {
            None => Moment::over(day.to_datetime(Time::midnight()), 1.day(), zone),
            Some(time) => {
                let clock = clock_of(time).ok_or_else(wrong)?;
                Moment::over(day.to_datetime(clock), 1.minute(), zone)
            }
        }
        .ok_or_else(wrong)
    }

    fn over(start: DateTime, span: Span, zone: &TimeZone) -> Option<Moment> {
        let ms = |at: DateTime| Some(at.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond());
        Some(Moment {
            from: ms(start)?,
            to: ms(start.checked_add(span).ok()?)?,
        })
    }

    /// Parses the text after the dot: nothing, `-N`, `-N/` (days) or `-N:` (hours).
    fn relative(rest: &str, now: i64, today: DateTime, zone: &TimeZone) -> Option<Moment> {
        if rest.is_empty() {
            return Some(Moment {
                from: now,
                to: now.saturating_add(1),
            });
        }
        let rest = rest.strip_prefix('-')?;
        let (digits, hours) = match rest.strip_suffix(':') {
            Some(digits) => (digits, true),
            None => (rest.strip_suffix('/').unwrap_or(rest), false),
        };
        let n: i64 = digits.parse().ok().filter(|n| (0..=100_000).contains(n))?;
        if hours {
            let from = now.saturating_sub(n * 3_600_000);
            return Some(Moment { from, to: from + 1 });
        }
        let day = today.date().checked_sub(Span::new().days(n)).ok()?;
        Moment::over(day.to_datetime(Time::midnight()), 1.day(), zone)
    }
}

/// Parses `""`, `day`, `month/day`, `year/month/day`.
fn day_of(text: &str, today: Date) -> Option<Date> {
    let mut fields = [
        today.year(),
        i16::from(today.month()),
        i16::from(today.day()),
    ];
    if !text.is_empty() {
        let words: Vec<&str> = text.split('/').collect();
        let skip = fields.len().checked_sub(words.len())?;
        for (field, word) in fields[skip..].iter_mut().zip(words) {
            *field = word.parse().ok().filter(|n| *n >= 0)?;
        }
    }
    let [year, month, day] = fields;
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// Parses `hour:minute` or `hour:`.
fn clock_of(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let minute = if minute.is_empty() {
        0
    } else {
        minute.parse().ok()?
    };
    Time::new(hour.parse().ok()?, minute, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sat Nov 21 03:07:09 2026 UTC.
    const NOW: i64 = 1_795_230_429_000;
    const DAY: i64 = 86_400_000;
    const MIDNIGHT: i64 = NOW - (3 * 3600 + 7 * 60 + 9) * 1000;

    fn parse(text: &str) -> Result<(i64, i64), String> {
        Range::parse(text, NOW, &TimeZone::UTC).map(|r| (r.from, r.to))
    }

    #[test]
    fn moments_cover_what_they_say() {
        for (text, from, to) in [
            ("2026/11/21", MIDNIGHT, MIDNIGHT + DAY),
            ("11/20", MIDNIGHT - DAY, MIDNIGHT),
            ("20", MIDNIGHT - DAY, MIDNIGHT),
            (
                "2026/11/21/01:30",
                MIDNIGHT + 5_400_000,
                MIDNIGHT + 5_460_000,
            ),
            ("01:30", MIDNIGHT + 5_400_000, MIDNIGHT + 5_460_000),
            (".-1", MIDNIGHT - DAY, MIDNIGHT),
            (".-7,", MIDNIGHT - 7 * DAY, NOW + 1),
            (".-2:,.", NOW - 7_200_000, NOW + 1),
            (",2026/11/20", i64::MIN, MIDNIGHT),
            (
                "2026/11/20,2026/11/21/00:00",
                MIDNIGHT - DAY,
                MIDNIGHT + 60_000,
            ),
        ] {
            assert_eq!(parse(text), Ok((from, to)), "{text}");
        }
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for text in [
            "x",
            "2026/13/01",
            "1/2/3/4",
            "25:00",
            ".+1",
            ".-x",
            "2026/11/21,2026/11/20",
            "-5",
            "",
        ] {
            let got = parse(text);
            assert!(got.is_err() || text.is_empty(), "{text}: {got:?}");
        }
    }

    #[test]
    fn one_moment() {
        let at = |text: &str| moment(text, NOW, &TimeZone::UTC);
        let iso = "2026-11-21T03:00:05Z".parse::<Timestamp>().unwrap();
        for (text, want) in [
            ("2026-11-21T03:00:05Z", iso.as_millisecond()),
            ("2026-11-21T04:00:05+01:00", iso.as_millisecond()),
            ("2026-11-21T03:00:05", iso.as_millisecond()),
            ("2026-11-21 03:00:05", iso.as_millisecond()),
            ("90m", NOW - 5_400_000),
            ("2h30m", NOW - 9_000_000),
            (".", NOW),
        ] {
            assert_eq!(at(text), Ok(want), "{text}");
        }
        assert_eq!(at("3:04"), parse("3:04").map(|range| range.0));
        for text in ["", "x", "2026-13-01", "90q", "1/2/3/4", "25:00"] {
            assert!(at(text).is_err() || text.is_empty(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "[0-9/:.,-]{0,30}", other in ".{0,30}") {
            for (from, to) in [parse(&text), parse(&other)].into_iter().flatten() {
                prop_assert!(from < to, "{text:?} {other:?}: {from}..{to}");
            }
        }
    }
}
