//! Lengths of time and points in time, as users write and read them.
//!
//! Owns run limits (`[h:]m[/host]`), unit forms (`90s`, `1h30m`), begin and termination times of
//! `-b` and `-t`, and the printed forms. Never reads a clock: now and the time zone are arguments.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use super::ParseError;

/// The maximum duration that is accepted: ten years, in milliseconds.
pub const MAX_MS: u64 = 10 * 366 * 24 * 3_600_000;

const MAX_TEXT: usize = 64;

/// The unit of a number without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultUnit {
    /// Minutes, as in run limits; `h:m` is allowed.
    Minutes,
    /// Seconds, as in most settings of cb.yaml; `m:s` is not allowed.
    Seconds,
}

/// A run or CPU limit with the host or model whose CPU factor scales it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The limit in seconds, at least 1.
    pub seconds: u64,
    /// The word after `/`: a host or host model name.
    pub on: Option<String>,
}

/// Parses `[h:]m`, `90s`, `2h`, `1h30m`, each with an optional `/host` or `/model`.
///
/// ```
/// use corral::text::duration::limit;
/// assert_eq!(limit("1:30").unwrap().seconds, 5400);
/// assert_eq!(limit("10/modelA").unwrap().on.as_deref(), Some("modelA"));
/// assert!(limit("0").is_err());
/// ```
///
/// # Errors
/// The text is not a limit, or the time is too long.
pub fn limit(text: &str) -> Result<Limit, ParseError> {
    let (time, on) = match text.find('/') {
        None => (text, None),
        Some(slash) => {
            let name = &text[slash + 1..];
            super::names::check_name(name).map_err(|e| e.shifted(slash + 1))?;
            (&text[..slash], Some(name.to_owned()))
        }
    };
    Ok(Limit {
        seconds: parse_ms(time, DefaultUnit::Minutes)? / 1000,
        on,
    })
}

/// Parses a duration of at least one second and returns seconds.
///
/// # Errors
/// The text is not a duration, or it is less than a second.
pub fn parse_s(text: &str, bare: DefaultUnit) -> Result<u64, ParseError> {
    Ok(parse_ms_from(text, bare, 1000)? / 1000)
}

/// Parses a duration of at least one second and returns milliseconds.
///
/// # Errors
/// The text is not a duration, or it is less than a second.
pub fn parse_ms(text: &str, bare: DefaultUnit) -> Result<u64, ParseError> {
    parse_ms_from(text, bare, 1000)
}

/// Parses a duration and returns milliseconds; `min_ms` is the smallest value allowed (0 allows
/// zero). Units are d h m s ms, largest first, each once.
///
/// ```
/// use corral::text::duration::{DefaultUnit, parse_ms_from};
/// assert_eq!(parse_ms_from("250ms", DefaultUnit::Seconds, 0), Ok(250));
/// assert_eq!(parse_ms_from("1d2h", DefaultUnit::Seconds, 0), Ok(93_600_000));
/// ```
///
/// # Errors
/// The text is not a duration, or it is less than `min_ms`.
pub fn parse_ms_from(text: &str, bare: DefaultUnit, min_ms: u64) -> Result<u64, ParseError> {
    let what = "duration";
    if text.len() > MAX_TEXT {
        return Err(ParseError::too_long(what, MAX_TEXT, text.len()));
    }
    if text.is_empty() {
        return Err(ParseError::new(0, 0, "a duration is missing").hint(advice(bare)));
    }
    if let Some(rest) = text.strip_prefix('-') {
        return Err(ParseError::new(
            0,
            text.len(),
            format!("a duration cannot be negative: -{rest}"),
        )
        .hint(advice(bare)));
    }
    let ms = match text.find(':') {
        Some(colon) => hours_minutes(text, colon, bare)?,
        None => with_units(text, bare)?,
    };
    if ms < min_ms {
        let least = if min_ms >= 1000 {
            format!("{}s", min_ms / 1000)
        } else {
            "1ms".into()
        };
        return Err(ParseError::new(
            0,
            text.len(),
            format!("{text} is shorter than {least}"),
        ));
    }
    Ok(ms)
}

fn advice(bare: DefaultUnit) -> &'static str {
    match bare {
        DefaultUnit::Minutes => "write minutes, hours:minutes, or units as in 90s, 2h, 1h30m",
        DefaultUnit::Seconds => "write seconds, or units as in 90s, 2h, 1h30m",
    }
}

fn too_big(text: &str) -> ParseError {
    ParseError::new(0, text.len(), format!("{text} is longer than ten years"))
}

fn hours_minutes(text: &str, colon: usize, bare: DefaultUnit) -> Result<u64, ParseError> {
    if bare == DefaultUnit::Seconds {
        return Err(ParseError::new(colon, 1, "':' is not used here").hint(advice(bare)));
    }
    let (hours, minutes) = (&text[..colon], &text[colon + 1..]);
    if let Some(more) = minutes.find(':') {
        return Err(
            ParseError::new(colon + 1 + more, 1, "a limit has no seconds field")
                .hint("write hours:minutes; seconds are written as 90s"),
        );
    }
    let hours = digits(hours, 0, advice(bare))?.ok_or_else(|| too_big(text))?;
    let minute = digits(minutes, colon + 1, advice(bare))?.ok_or_else(|| too_big(text))?;
    if minute > 59 {
        return Err(ParseError::new(
            colon + 1,
            minutes.len(),
            format!("minute {minute} is over 59"),
        )
        .hint("after hours: the minutes go from 0 to 59"));
    }
    let ms = hours
        .saturating_mul(3_600_000)
        .saturating_add(minute * 60_000);
    if ms > MAX_MS {
        Err(too_big(text))
    } else {
        Ok(ms)
    }
}

/// A sequence of digits as a number; `None` if it has more than 12 digits.
fn digits(text: &str, at: usize, hint: &str) -> Result<Option<u64>, ParseError> {
    if text.is_empty() {
        return Err(ParseError::new(at, 0, "a number is missing").hint(hint));
    }
    if let Some(bad) = text.find(|c: char| !c.is_ascii_digit()) {
        let len = text[bad..].chars().next().map_or(0, char::len_utf8);
        let bad_text = super::width::escape(&text[bad..bad + len]).into_owned();
        return Err(
            ParseError::new(at + bad, len, format!("'{bad_text}' is not a digit")).hint(hint),
        );
    }
    Ok(if text.len() > 12 {
        None
    } else {
        text.parse().ok()
    })
}

fn with_units(text: &str, bare: DefaultUnit) -> Result<u64, ParseError> {
    const UNITS: [(&str, u64); 5] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];
    let mut total: u64 = 0;
    let mut at = 0;
    let mut next_unit = 0;
    while at < text.len() {
        let rest = &text[at..];
        let number_len = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let unit_at = at + number_len;
        let tail = &text[unit_at..];
        let unit_len = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let unit = &tail[..unit_len];
        if number_len == 0 {
            return Err(digits(rest, at, advice(bare)).expect_err("it does not start with a digit"));
        }
        let number = digits(&rest[..number_len], at, advice(bare))?.ok_or_else(|| too_big(text))?;
        let scale = if unit.is_empty() {
            if at > 0 {
                return Err(ParseError::new(unit_at, 0, "a unit is missing").hint(advice(bare)));
            }
            if bare == DefaultUnit::Minutes {
                60_000
            } else {
                1000
            }
        } else {
            let found = UNITS.iter().position(|(u, _)| u.eq_ignore_ascii_case(unit));
            let Some(found) = found else {
                let shown = super::width::escape(unit).into_owned();
                return Err(ParseError::new(
                    unit_at,
                    unit_len,
                    format!("'{shown}' is not a time unit"),
                )
                .hint("the units are d, h, m (minutes), s, ms"));
            };
            if found < next_unit {
                return Err(ParseError::new(
                    unit_at,
                    unit_len,
                    "units must go from large to small, each at most once",
                )
                .hint("for example 1h30m"));
            }
            next_unit = found + 1;
            UNITS[found].1
        };
        total = total.saturating_add(number.saturating_mul(scale));
        if total > MAX_MS {
            return Err(too_big(text));
        }
        at = unit_at + unit_len;
    }
    Ok(total)
}

/// A point in time for `-b` and `-t`: `h:m`, `day:h:m`, `month:day:h:m`, `year:month:day:h:m`.
///
/// The first three mean the next such moment after `now_ms`; a moment with a year must be in the
/// future. `now_ms` and the result are milliseconds since the Unix epoch; `tz` is the zone of the
/// user. A time skipped by a clock change moves forward by the gap; of a time that occurs twice,
/// the first one in the future is used.
///
/// # Errors
/// The text has another form, the day does not exist, or the time with its year is past.
pub fn point_in_time(text: &str, now_ms: i64, tz: &TimeZone) -> Result<i64, ParseError> {
    const HINT: &str = "write [[[year:]month:]day:]hour:minute";
    if text.len() > MAX_TEXT {
        return Err(ParseError::too_long("time", MAX_TEXT, text.len()));
    }
    let mut fields = Vec::new();
    let mut at = 0;
    for part in text.split(':') {
        let value = digits(part, at, HINT)?;
        let value = value.and_then(|v| i16::try_from(v).ok()).ok_or_else(|| {
            ParseError::new(at, part.len(), format!("{part} is too big for a date")).hint(HINT)
        })?;
        fields.push((value, at, part.len()));
        at += part.len() + 1;
    }
    if !(2..=5).contains(&fields.len()) {
        return Err(ParseError::new(
            0,
            text.len(),
            format!("{} fields are not a valid time", fields.len()),
        )
        .hint(HINT));
    }
    let fixed = FixedTime::read(&fields, text.len())?;
    fixed.next_after(now_ms, tz).ok_or_else(|| {
        let message = match fixed.year {
            Some(_) => format!("{text} is in the past, or there is no such day"),
            None => format!("{text} never occurs: there is no such day"),
        };
        ParseError::new(0, text.len(), message).hint(HINT)
    })
}

struct FixedTime {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    hour: i8,
    minute: i8,
}

impl FixedTime {
    fn read(fields: &[(i16, usize, usize)], text_len: usize) -> Result<FixedTime, ParseError> {
        let mut fields = fields.iter().rev();
        let mut take = |name: &str, low: i16, high: i16| match fields.next() {
            None => Ok(None),
            Some(&(v, _, _)) if (low..=high).contains(&v) => Ok(Some(v)),
            Some(&(v, at, len)) => {
                let message = format!("{name} {v} is not in {low} to {high}");
                Err(ParseError::new(at, len, message)
                    .hint("write [[[year:]month:]day:]hour:minute"))
            }
        };
        let small = |v: i16| i8::try_from(v).expect("checked to be under 60");
        let missing = || ParseError::new(text_len, 0, "hour and minute are missing");
        let minute = small(take("minute", 0, 59)?.ok_or_else(missing)?);
        let hour = small(take("hour", 0, 23)?.ok_or_else(missing)?);
        let day = take("day", 1, 31)?.map(small);
        let month = take("month", 1, 12)?.map(small);
        let year = take("year", 1970, 9000)?;
        Ok(FixedTime {
            year,
            month,
            day,
            hour,
            minute,
        })
    }

    /// Milliseconds of the first matching moment after `now_ms`, within the next nine years.
    fn next_after(&self, now_ms: i64, tz: &TimeZone) -> Option<i64> {
        let now = Timestamp::from_millisecond(now_ms)
            .ok()?
            .to_zoned(tz.clone());
        let today = now.date();
        let try_at = |year: i16, month: i8, day: i8| -> Option<i64> {
            let when = DateTime::new(year, month, day, self.hour, self.minute, 0, 0).ok()?;
            let moment = tz.to_ambiguous_zoned(when);
            let early = moment.clone().earlier().ok()?.timestamp().as_millisecond();
            let late = moment.clone().later().ok()?.timestamp().as_millisecond();
            let normal = moment.compatible().ok()?.timestamp().as_millisecond();
            // For a repeated time, `compatible` is the earlier one; in a gap, only `compatible` is
            // meant.
            let folded = normal == early && late > early;
            let answers = if folded {
                [normal, late]
            } else {
                [normal, normal]
            };
            answers.into_iter().find(|t| *t > now_ms)
        };
        match (self.year, self.month, self.day) {
            (Some(y), Some(m), Some(d)) => try_at(y, m, d),
            (None, Some(m), Some(d)) => (0..9).find_map(|n| try_at(today.year() + n, m, d)),
            (None, None, Some(d)) => (0..13).find_map(|n: i32| {
                let month = today.first_of_month().checked_add(n.months()).ok()?;
                try_at(month.year(), month.month(), d)
            }),
            _ => (0..3).find_map(|n: i32| {
                let day = today.checked_add(n.days()).ok()?;
                try_at(day.year(), day.month(), day.day())
            }),
        }
    }
}

/// A duration in its two largest units, `1h 5m`, `3d 2h`, `42s`, `250ms`.
///
/// ```
/// assert_eq!(corral::text::duration::short(3_900_000), "1h 5m");
/// assert_eq!(corral::text::duration::short(0), "0s");
/// ```
pub fn short(ms: u64) -> String {
    if ms > 0 && ms < 1000 {
        return format!("{ms}ms");
    }
    let s = ms / 1000;
    let parts = [
        (s / 86_400, 'd'),
        (s / 3600 % 24, 'h'),
        (s / 60 % 60, 'm'),
        (s % 60, 's'),
    ];
    let first = parts.iter().position(|(n, _)| *n > 0).unwrap_or(3);
    let mut out = format!("{}{}", parts[first].0, parts[first].1);
    if let Some((n, unit)) = parts.get(first + 1).filter(|(n, _)| *n > 0) {
        out.push_str(&format!(" {n}{unit}"));
    }
    out
}

/// Seconds in a form that [`parse_s`] reads back as the same value: `1h30m`, `90s`, `2d`.
pub fn exact(seconds: u64) -> String {
    if seconds == 0 {
        return "0s".to_owned();
    }
    let parts = [
        (seconds / 86_400, 'd'),
        (seconds / 3600 % 24, 'h'),
        (seconds / 60 % 60, 'm'),
        (seconds % 60, 's'),
    ];
    parts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, unit)| format!("{n}{unit}"))
        .collect()
}

/// A moment as `Nov 21 03:07` in the zone `tz`; `-` when it is outside the calendar.
pub fn date(ms: i64, tz: &TimeZone) -> String {
    formatted(ms, tz, "%b %e %H:%M")
}

/// As [`date`], with the year if it differs from that of `now`.
pub fn date_near(ms: i64, now: i64, tz: &TimeZone) -> String {
    match formatted(ms, tz, "%Y") == formatted(now, tz, "%Y") {
        true => date(ms, tz),
        false => formatted(ms, tz, "%b %e %H:%M %Y"),
    }
}

/// A moment with weekday, seconds and year: `Sat Nov 21 03:07:09 2026`.
pub fn date_long(ms: i64, tz: &TimeZone) -> String {
    formatted(ms, tz, "%a %b %e %H:%M:%S %Y")
}

fn formatted(ms: i64, tz: &TimeZone, format: &str) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(moment) => moment.to_zoned(tz.clone()).strftime(format).to_string(),
        Err(_) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>()
            .expect("a timestamp")
            .as_millisecond()
    }

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a rule")
    }

    #[test]
    fn run_limits() {
        for (text, seconds) in [
            ("90s", 90),
            ("2h", 7200),
            ("1h30m", 5400),
            ("210", 12600),
            ("3:30", 12600),
            ("0:01", 60),
        ] {
            assert_eq!(limit(text).map(|l| l.seconds), Ok(seconds), "{text}");
        }
        let l = limit("1:00/hostA").expect("parses");
        assert_eq!((l.seconds, l.on.as_deref()), (3600, Some("hostA")));
    }

    #[test]
    fn absurd_limits_are_refused() {
        for bad in [
            "0",
            "-5",
            "99999999999:00",
            "1:60:00",
            "1:60",
            "",
            ":",
            "1:",
            ":5",
            "5x",
            "1m1h",
            "1h1",
            "1:00/",
            "1:00/a b",
            "99999999999999999999",
            "1e3",
            "0:00",
            "0s",
            "１",
            "500ms",
            "1.5h",
        ] {
            assert!(limit(bad).is_err(), "{bad}");
        }
        assert_eq!(limit("1:75").unwrap_err().at, 2);
    }

    #[test]
    fn begin_times_are_the_next_such_moment() {
        let now = ms("2026-11-21T03:07:00Z");
        let utc = TimeZone::UTC;
        for (text, expect) in [
            ("4:00", "2026-11-21T04:00:00Z"),
            ("3:07", "2026-11-22T03:07:00Z"),
            ("21:3:00", "2026-12-21T03:00:00Z"),
            ("31:0:00", "2026-12-31T00:00:00Z"),
            ("2:29:12:00", "2028-02-29T12:00:00Z"),
            ("11:21:03:08", "2026-11-21T03:08:00Z"),
            ("2027:01:02:03:04", "2027-01-02T03:04:00Z"),
        ] {
            assert_eq!(point_in_time(text, now, &utc), Ok(ms(expect)), "{text}");
        }
    }

    #[test]
    fn impossible_times_are_refused() {
        let now = ms("2026-11-21T03:07:00Z");
        for bad in [
            "24:00",
            "3:60",
            "0:3:00",
            "32:3:00",
            "13:1:0:0",
            "2:30:0:0",
            "2020:1:1:0:0",
            "5",
            "",
            ":",
            "1:2:3:4:5:6",
            "2026:2:29:0:0",
            "x:1",
            "-1:00",
            "99999:1:1:0:0",
            "10000:1:1:0:0",
        ] {
            assert!(point_in_time(bad, now, &TimeZone::UTC).is_err(), "{bad}");
        }
    }

    #[test]
    fn clock_changes() {
        let tz = berlin();
        // 2026-03-29 02:30 does not exist: it moves to 03:30 summer time.
        assert_eq!(
            point_in_time("2026:3:29:2:30", 0, &tz),
            Ok(ms("2026-03-29T01:30:00Z"))
        );
        // 2026-10-25 02:30 occurs twice.
        let first = ms("2026-10-25T00:30:00Z");
        assert_eq!(point_in_time("2:30", first - 1000, &tz), Ok(first));
        assert_eq!(point_in_time("2:30", first, &tz), Ok(first + 3_600_000));
    }

    #[test]
    fn printed_forms() {
        assert_eq!(short(42_000), "42s");
        assert_eq!(short(250), "250ms");
        assert_eq!(short(86_400_000 * 3 + 60_000), "3d");
        let at = ms("2026-11-05T03:07:09Z");
        assert_eq!(date(at, &TimeZone::UTC), "Nov  5 03:07");
        assert_eq!(date_long(at, &TimeZone::UTC), "Thu Nov  5 03:07:09 2026");
        assert_eq!(date(i64::MAX, &TimeZone::UTC), "-");
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn exact_reads_back(s in 1u64..MAX_MS / 1000) {
            prop_assert_eq!(parse_s(&exact(s), DefaultUnit::Seconds), Ok(s));
        }

        #[test]
        fn never_panics(s in ".{0,70}", t in "[0-9:hmsd/ -]{0,20}", now in any::<i64>()) {
            for text in [&s, &t] {
                let _ = limit(text);
                let _ = parse_ms_from(text, DefaultUnit::Seconds, 0);
                let _ = point_in_time(text, now, &berlin());
                let _ = point_in_time(text, now % 4_000_000_000_000, &berlin());
            }
            let _ = (short(now.unsigned_abs()), date(now, &TimeZone::UTC));
        }
    }
}
