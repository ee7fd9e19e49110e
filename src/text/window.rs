//! Time windows: `9:00-18:00`, `20:00-8:30`, `1:8:0-5:18:0`, `5:18:01-1:7:59`.
//!
//! Owns the written form and which minutes of a week are inside. Never reads a clock: the day and
//! minute, or the moment and its zone, are arguments.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::{ParseError, width};

/// Minutes of a week.
pub const WEEK: u32 = 7 * DAY;

const DAY: u32 = 24 * 60;
const MAX_TEXT: usize = 4096;
const MAX_WINDOWS: usize = 100;
const HINT: &str = "write hour[:minute]-hour[:minute], or day:hour:minute-day:hour:minute with \
                   days 0 (Sunday) to 6";

/// One or more windows; a moment is inside if it is inside at least one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    /// As written, in the same order.
    written: Vec<Window>,
    /// Minutes of the week that are inside: ascending, separate, without the end.
    open: Vec<(u32, u32)>,
}

/// One window, including the minute of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    begin: WeekMinute,
    end: WeekMinute,
}

/// A minute of a day, or of a day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WeekMinute {
    /// 0 is Sunday, as is a written 7; `None` is every day.
    day: Option<u32>,
    /// Minutes since midnight.
    minute: u32,
}

impl Windows {
    /// Parses windows separated by blanks or commas.
    ///
    /// The end minute is inside: `9:00-18:00` closes at 18:01:00. Without days, a window applies
    /// every day and crosses midnight if it begins later than it ends; with days, it crosses the
    /// end of the week.
    ///
    /// ```
    /// use corral::text::window::Windows;
    /// let w = Windows::parse("1:8:0-5:18:0").unwrap();
    /// assert!(w.contains(1, 8 * 60) && w.contains(5, 18 * 60));
    /// assert!(!w.contains(1, 8 * 60 - 1) && !w.contains(5, 18 * 60 + 1));
    /// assert!(Windows::parse("25:00-1:00").is_err());
    /// ```
    ///
    /// # Errors
    /// Names the window that is wrong, with its column.
    pub fn parse(text: &str) -> Result<Windows, ParseError> {
        if text.len() > MAX_TEXT {
            return Err(ParseError::too_long("time window", MAX_TEXT, text.len()));
        }
        let mut written = Vec::new();
        let mut at = 0;
        for word in text.split([' ', '\t', ',']) {
            if !word.is_empty() {
                written.push(window(word).map_err(|e| e.shifted(at))?);
            }
            if written.len() > MAX_WINDOWS {
                return Err(ParseError::new(
                    at,
                    word.len(),
                    format!("more than {MAX_WINDOWS} windows"),
                ));
            }
            at += word.len() + 1;
        }
        if written.is_empty() {
            return Err(ParseError::new(0, text.len(), "a time window is missing").hint(HINT));
        }
        let open = merged(written.iter().flat_map(|w| w.spans()).collect());
        Ok(Windows { written, open })
    }

    /// True if the minute (0 to 1439) of the day (0 = Sunday) is inside.
    pub fn contains(&self, weekday: u32, minute: u32) -> bool {
        self.contains_week(weekday % 7 * DAY + minute % DAY)
    }

    fn contains_week(&self, minute: u32) -> bool {
        let after = self.open.partition_point(|(begin, _)| *begin <= minute);
        after > 0 && minute < self.open[after - 1].1
    }

    /// True if the moment `ms` (milliseconds since the Unix epoch) is inside in the zone `tz`;
    /// false if it is outside the calendar.
    pub fn contains_ms(&self, ms: i64, tz: &TimeZone) -> bool {
        week_minute(ms, tz).is_some_and(|m| self.contains_week(m))
    }

    /// True if some minute is inside both.
    pub fn overlaps(&self, other: &Windows) -> bool {
        let holds = |a: &Windows, b: &Windows| {
            let mut begins = b.open.iter().map(|(begin, _)| *begin);
            begins.any(|minute| a.contains_week(minute))
        };
        holds(self, other) || holds(other, self)
    }

    /// The moment (milliseconds since the Unix epoch) after `ms` at which the next minute begins
    /// that is inside if `ms` is not, or outside if it is; `None` if the windows never change or
    /// the moment is outside the calendar.
    pub fn next_change_ms(&self, ms: i64, tz: &TimeZone) -> Option<i64> {
        let now = Timestamp::from_millisecond(ms)
            .ok()?
            .to_zoned(tz.clone())
            .datetime();
        let minute = week_minute(ms, tz)?;
        let wait = self.until_change(minute / DAY, minute % DAY)?;
        let begun = now.with().second(0).subsec_nanosecond(0).build().ok()?;
        let then = begun.checked_add(jiff::Span::new().minutes(wait)).ok()?;
        let wall = tz.to_ambiguous_timestamp(then);
        let then = match wall.offset() {
            // The clock skips this minute: the change takes place when the clock goes forward.
            AmbiguousOffset::Gap { .. } => {
                let before = wall.earlier().ok()?;
                tz.following(before).next()?.timestamp()
            }
            _ => wall.compatible().ok()?,
        };
        // In an hour that the clock repeats, `ms` may be after the result.
        Some(then.as_millisecond().max(ms.saturating_add(1)))
    }

    /// Number of minutes from the given one (counted as in [`Windows::contains`]) to the next that
    /// is inside if this one is not, or outside if it is; `None` if the whole week is inside.
    pub fn until_change(&self, weekday: u32, minute: u32) -> Option<u32> {
        let now = weekday % 7 * DAY + minute % DAY;
        let inside = self.contains_week(now);
        // Spans begin and end only at these minutes; the end of the week need not be a change.
        let edges = self
            .open
            .iter()
            .flat_map(|&(begin, end)| [begin, end % WEEK]);
        edges
            .filter(|edge| self.contains_week(*edge) != inside)
            .map(|edge| (edge + WEEK - now) % WEEK)
            .min()
    }
}

/// The minute of the week, from Sunday 0:00, of a moment; `None` outside the calendar.
fn week_minute(ms: i64, tz: &TimeZone) -> Option<u32> {
    let moment = Timestamp::from_millisecond(ms).ok()?.to_zoned(tz.clone());
    let day = u32::try_from(moment.weekday().to_sunday_zero_offset()).ok()?;
    let hour = u32::try_from(moment.hour()).ok()?;
    let minute = u32::try_from(moment.minute()).ok()?;
    Some(day * DAY + hour * 60 + minute)
}

impl Window {
    /// Spans of the week without the end; none crosses the end of the week.
    fn spans(&self) -> Vec<(u32, u32)> {
        let cut = |begin: u32, end: u32, length: u32, base: u32| {
            if begin < end {
                vec![(base + begin, base + end)]
            } else {
                vec![(base + begin, base + length), (base, base + end)]
            }
        };
        match (self.begin.day, self.end.day) {
            (Some(from), Some(to)) => cut(
                from * DAY + self.begin.minute,
                to * DAY + self.end.minute + 1,
                WEEK,
                0,
            ),
            _ => (0..7)
                .flat_map(|day| cut(self.begin.minute, self.end.minute + 1, DAY, day * DAY))
                .collect(),
        }
    }
}

/// Sorted spans; overlapping and adjacent ones are joined.
fn merged(mut spans: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    spans.sort_unstable();
    let mut out: Vec<(u32, u32)> = Vec::with_capacity(spans.len());
    for (begin, end) in spans {
        match out.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => out.push((begin, end)),
        }
    }
    out
}

fn window(word: &str) -> Result<Window, ParseError> {
    let Some(dash) = word.find('-') else {
        return Err(ParseError::new(word.len(), 0, "'-' and an end are missing").hint(HINT));
    };
    let (begin, from_seven) = moment(&word[..dash])?;
    let (end, to_seven) = moment(&word[dash + 1..]).map_err(|e| e.shifted(dash + 1))?;
    let refused = |message: &str, hint: &str| {
        Err(ParseError::new(0, word.len(), message.to_owned()).hint(hint))
    };
    if begin.day.is_some() != end.day.is_some() {
        return refused("only one end has a day", "give both ends a day, or none");
    }
    if begin.day == end.day && from_seven != to_seven {
        return refused(
            "0 and 7 are the same day, Sunday",
            "for the whole week leave the days out",
        );
    }
    if begin == end {
        return refused(
            "begin and end are the same",
            "for the whole day write 0:00-23:59",
        );
    }
    if begin.day.is_some() && begin.day == end.day && begin.minute > end.minute {
        return refused(
            "it ends before it begins on the same day",
            "write two windows, one to the end of the week and one from its beginning",
        );
    }
    Ok(Window { begin, end })
}

/// A moment, and whether its day was written as 7.
fn moment(text: &str) -> Result<(WeekMinute, bool), ParseError> {
    let parts: Vec<&str> = text.split(':').collect();
    let mut at = 0;
    let mut fields = Vec::new();
    let names: &[(&str, u32)] = match parts.len() {
        1 => &[("hour", 23)],
        2 => &[("hour", 23), ("minute", 59)],
        3 => &[("day", 7), ("hour", 23), ("minute", 59)],
        _ => {
            return Err(ParseError::new(0, text.len(), "too many fields in a time").hint(HINT));
        }
    };
    for (part, (name, high)) in parts.iter().zip(names) {
        let plain = (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        let value = part.parse::<u32>().ok().filter(|v| plain && v <= high);
        let Some(value) = value else {
            let shown = width::escape(width::truncate(part, 20).as_ref()).into_owned();
            let message = format!("{name} '{shown}' is not in 0 to {high}");
            return Err(ParseError::new(at, part.len(), message).hint(HINT));
        };
        fields.push(value);
        at += part.len() + 1;
    }
    let (day, hour, minute) = match fields[..] {
        [hour] => (None, hour, 0),
        [hour, minute] => (None, hour, minute),
        _ => (Some(fields[0]), fields[1], fields[2]),
    };
    Ok((
        WeekMinute {
            day: day.map(|d| d % 7),
            minute: hour * 60 + minute,
        },
        day == Some(7),
    ))
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, window) in self.written.iter().enumerate() {
            let blank = if n > 0 { " " } else { "" };
            write!(f, "{blank}{}-{}", window.begin, window.end)?;
        }
        Ok(())
    }
}

impl fmt::Display for WeekMinute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(day) = self.day {
            write!(f, "{day}:")?;
        }
        write!(f, "{:02}:{:02}", self.minute / 60, self.minute % 60)
    }
}

super::serde_by_text!(Windows, Windows::parse);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Windows {
        Windows::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    /// The definition, minute by minute: walks from the beginning until the end has been counted.
    fn walked(w: &Window) -> Vec<bool> {
        let mut inside = vec![false; WEEK as usize];
        let days = if w.begin.day.is_some() { 0..1 } else { 0..7 };
        for day in days {
            let cycle = if w.begin.day.is_some() { WEEK } else { DAY };
            let base = if w.begin.day.is_some() { 0 } else { day * DAY };
            let from = w.begin.day.unwrap_or(0) * DAY + w.begin.minute;
            let to = w.end.day.unwrap_or(0) * DAY + w.end.minute;
            let mut minute = from;
            loop {
                inside[(base + minute) as usize] = true;
                if minute == to {
                    break;
                }
                minute = (minute + 1) % cycle;
            }
        }
        inside
    }

    #[test]
    fn pairs_that_touch_leave_no_gap() {
        let w = parse("1:8:0-5:18:0 5:18:01-1:7:59");
        assert!((0..7).all(|d| (0..DAY).all(|m| w.contains(d, m))));
        assert_eq!(w.until_change(3, 0), None);
    }

    #[test]
    fn over_midnight_and_over_the_week() {
        let night = parse("20-8:30");
        assert!(
            night.contains(0, 0) && night.contains(3, 8 * 60 + 30) && night.contains(6, 20 * 60)
        );
        assert!(!night.contains(3, 8 * 60 + 31) && !night.contains(3, 20 * 60 - 1));
        let weekend = parse("5:18:01-1:7:59");
        assert!(weekend.contains(6, 0) && weekend.contains(0, 0) && weekend.contains(1, 479));
        assert!(!weekend.contains(1, 480) && !weekend.contains(5, 18 * 60));
        assert_eq!(parse("1:0:0-7:23:59").until_change(0, 5), None);
    }

    #[test]
    fn time_to_the_next_change() {
        let w = parse("9:00-17:59");
        assert_eq!(w.until_change(2, 9 * 60), Some(9 * 60));
        assert_eq!(w.until_change(2, 18 * 60), Some(15 * 60));
        assert_eq!(parse("20:00-8:30").until_change(6, 23 * 60), Some(571));
        assert_eq!(parse("6:23:58-0:0:1").until_change(6, DAY - 2), Some(4));
    }

    #[test]
    fn windows_meet_or_do_not() {
        let meets = |a: &str, b: &str| {
            let (a, b) = (parse(a), parse(b));
            assert_eq!(a.overlaps(&b), b.overlaps(&a));
            a.overlaps(&b)
        };
        assert!(meets("9-17", "17:00-18:00") && meets("0:00-23:59", "3:5:0-3:6:0"));
        assert!(meets("20-8:30", "1:8:0-1:9:0"));
        assert!(!meets("9-17", "17:01-8:59"));
        assert!(!meets("1:8:0-5:18:0", "5:18:01-1:7:59"));
    }

    #[test]
    fn the_moment_of_the_next_change() {
        let at = |text: &str| text.parse::<Timestamp>().expect(text).as_millisecond();
        let w = parse("9:00-17:59");
        let next = |text: &str| w.next_change_ms(at(text), &TimeZone::UTC);
        assert_eq!(
            next("2026-11-23T09:30:12.345Z"),
            Some(at("2026-11-23T18:00:00Z"))
        );
        assert_eq!(
            next("2026-11-23T18:00:00Z"),
            Some(at("2026-11-24T09:00:00Z"))
        );
        assert_eq!(parse("0:00-23:59").next_change_ms(0, &TimeZone::UTC), None);
        assert_eq!(w.next_change_ms(i64::MAX, &TimeZone::UTC), None);
        let Ok(berlin) = TimeZone::get("Europe/Berlin") else {
            return;
        };
        // The clock goes forward at night: the window still opens at nine.
        assert_eq!(
            w.next_change_ms(at("2026-03-28T20:00:00Z"), &berlin),
            Some(at("2026-03-29T07:00:00Z"))
        );
        // The clock skips the end of this window, 2:31: the window closes at 3:00 summer time.
        let night = parse("1:00-2:30");
        assert_eq!(
            night.next_change_ms(at("2026-03-29T00:10:00Z"), &berlin),
            Some(at("2026-03-29T01:00:00Z"))
        );
        assert!(!night.contains_ms(at("2026-03-29T01:00:00Z"), &berlin));
    }

    #[test]
    fn wrong_windows_are_refused() {
        for bad in [
            "25:00-1:00",
            "8-8",
            "8:00-8",
            "1:8:0-1:8:0",
            "1:9:0-1:8:0",
            "8:0:0-1:8:0",
            "9:60-10",
            "1:8:0-18:0",
            "",
            " ",
            "9",
            "9-",
            "-9",
            "9--10",
            "a-b",
            "1:2:3:4-5",
            "9:00-18:00x",
            "0:0:0-7:23:59",
            "009-10",
            "９-10",
            "24:00-1:00",
            "9:-10",
        ] {
            assert!(Windows::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Windows::parse("9-10 9:00-1:61:00").unwrap_err().at, 12);
        assert!(Windows::parse(&"1-2 ".repeat(200)).is_err());
    }

    #[test]
    fn moments_in_a_zone() {
        let w = parse("1:8:0-1:9:0");
        let monday: Timestamp = "2026-11-23T08:30:00Z".parse().expect("a timestamp");
        assert!(w.contains_ms(monday.as_millisecond(), &TimeZone::UTC));
        let later = TimeZone::fixed(jiff::tz::offset(2));
        assert!(!w.contains_ms(monday.as_millisecond(), &later));
        assert!(!w.contains_ms(i64::MAX, &TimeZone::UTC));
    }

    fn any_window() -> impl Strategy<Value = String> {
        let daily = (0u32..24, 0u32..60, 0u32..24, 0u32..60)
            .prop_map(|(a, b, c, d)| format!("{a}:{b}-{c}:{d:02}"));
        let weekly = (0u32..8, 0u32..24, 0u32..60, 0u32..8, 0u32..24, 0u32..60)
            .prop_map(|(a, b, c, d, e, f)| format!("{a}:{b}:{c}-{d}:{e}:{f}"));
        prop_oneof![daily, weekly]
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn every_minute_of_a_week_is_as_defined(
            texts in proptest::collection::vec(any_window(), 1..4)
        ) {
            let Ok(w) = Windows::parse(&texts.join(" ")) else { return Ok(()) };
            let mut expect = vec![false; WEEK as usize];
            for window in &w.written {
                for (minute, inside) in walked(window).into_iter().enumerate() {
                    expect[minute] |= inside;
                }
            }
            for minute in 0..WEEK {
                let inside = w.contains(minute / DAY, minute % DAY);
                prop_assert_eq!(inside, expect[minute as usize], "minute {}", minute);
            }
            // The next change from a few minutes, found by walking.
            for minute in (0..WEEK).step_by(997) {
                let inside = expect[minute as usize];
                let walk = (1..=WEEK).find(|n| expect[((minute + n) % WEEK) as usize] != inside);
                prop_assert_eq!(w.until_change(minute / DAY, minute % DAY), walk);
            }
            prop_assert_eq!(Windows::parse(&w.to_string()), Ok(w));
        }

        #[test]
        fn never_panics(s in ".{0,40}", t in "[0-9:, -]{0,30}") {
            let _ = (Windows::parse(&s), Windows::parse(&t));
        }
    }
}
