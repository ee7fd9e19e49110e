//! Times in the form of the standard: moments `[[[[CC]YY/]MM/]DD] hh:mm[:ss] [{-|+}UU:uu]` and
//! durations `[[h:]m:]s`. Pure: the current time comes in.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

/// Maximum length, in seconds (a hundred years).
const LENGTH_MAX_S: u64 = 100 * 366 * 86_400;

/// A moment in ms since 1970. Missing parts are taken from `now`, and the first such moment that is
/// not in the past is returned: without a day, today or tomorrow.
///
/// # Errors
/// Returns the problem of the text.
pub(crate) fn moment(text: &str, now: &Zoned) -> Result<i64, String> {
    let wrong = || {
        format!("'{text}' is not a time of the form [[[[CC]YY/]MM/]DD] hh:mm[:ss] [{{-|+}}UU:uu]")
    };
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let zone = match words.last().filter(|w| w.starts_with(['+', '-'])) {
        Some(word) => offset(word).ok_or_else(wrong)?,
        None => now.time_zone().clone(),
    };
    words.retain(|w| !w.starts_with(['+', '-']));
    let (date, time) = match words[..] {
        [time] => (None, time),
        [date, time] => (Some(date), time),
        _ => return Err(wrong()),
    };
    let time = time_of_day(time).ok_or_else(wrong)?;
    let local_now = now.with_time_zone(zone.clone());
    let parts = match date {
        Some(date) => numbers(date, '/').ok_or_else(wrong)?,
        None => Vec::new(),
    };
    let today = local_now.date();
    let at = |date: Option<Date>| -> Option<Timestamp> {
        let zoned = DateTime::from_parts(date?, time)
            .to_zoned(zone.clone())
            .ok()?;
        Some(zoned.timestamp())
    };
    let (first, next) = dates(&parts, today).ok_or_else(wrong)?;
    let first = at(first);
    let found = match first {
        Some(t) if t >= now.timestamp() => Some(t),
        earlier => next.and_then(|date| at(Some(date))).or(earlier),
    };
    found.map(Timestamp::as_millisecond).ok_or_else(wrong)
}

/// The date that the parts denote, and the one to use if that has passed.
fn dates(parts: &[i64], today: Date) -> Option<(Option<Date>, Option<Date>)> {
    let date = |y: i64, m: i64, d: i64| {
        Date::new(y.try_into().ok()?, m.try_into().ok()?, d.try_into().ok()?).ok()
    };
    let (year, month) = (i64::from(today.year()), i64::from(today.month()));
    Some(match *parts {
        [] => (Some(today), today.tomorrow().ok()),
        [d] => {
            let (y, m) = if month == 12 {
                (year + 1, 1)
            } else {
                (year, month + 1)
            };
            (date(year, month, d), date(y, m, d))
        }
        [m, d] => (date(year, m, d), date(year + 1, m, d)),
        [y, m, d] => {
            let y = if y < 100 { year / 100 * 100 + y } else { y };
            (Some(date(y, m, d)?), None)
        }
        _ => return None,
    })
}

fn time_of_day(text: &str) -> Option<Time> {
    let (h, m, s) = match numbers(text, ':')?[..] {
        [h, m] => (h, m, 0),
        [h, m, s] => (h, m, s),
        _ => return None,
    };
    let part = |n: i64| i8::try_from(n).ok();
    Time::new(part(h)?, part(m)?, part(s)?, 0).ok()
}

fn offset(word: &str) -> Option<TimeZone> {
    let (sign, digits) = word.split_at(1);
    let [hours, minutes] = numbers(digits, ':')?[..] else {
        return None;
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = i32::try_from(hours * 3600 + minutes * 60).ok()?;
    let seconds = if sign == "-" { -seconds } else { seconds };
    Some(TimeZone::fixed(Offset::from_seconds(seconds).ok()?))
}

/// A length of time in seconds.
///
/// # Errors
/// Returns the problem of the text.
pub(crate) fn length_s(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a length of time of the form [[h:]m:]s");
    let parts = numbers(text, ':')
        .filter(|p| p.len() <= 3)
        .ok_or_else(wrong)?;
    // The first part has no upper limit: 90 seconds, 100 hours.
    if parts.iter().skip(1).any(|n| *n > 59) {
        return Err(wrong());
    }
    let seconds = parts.iter().try_fold(0i64, |sum, n| {
        sum.checked_mul(60).and_then(|sum| sum.checked_add(*n))
    });
    let seconds = seconds.and_then(|s| u64::try_from(s).ok());
    seconds
        .filter(|s| (1..=LENGTH_MAX_S).contains(s))
        .ok_or_else(wrong)
}

/// Numbers consisting of digits only, separated by a character.
fn numbers(text: &str, by: char) -> Option<Vec<i64>> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split(by)
        .map(|part| part.parse().ok().filter(|_| digits(part)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Result<String, String> {
        let now: Zoned = "2026-11-25T12:00:00+00:00[UTC]".parse().unwrap();
        let ms = moment(text, &now)?;
        Ok(Timestamp::from_millisecond(ms).unwrap().to_string())
    }

    #[test]
    fn moments_are_completed_by_the_present_one() {
        for (text, want) in [
            ("13:30", "2026-11-25T13:30:00Z"),
            ("11:30", "2026-11-26T11:30:00Z"),
            ("26 11:30:05", "2026-11-26T11:30:05Z"),
            ("24 11:30", "2026-12-24T11:30:00Z"),
            ("01/02 00:00", "2027-01-02T00:00:00Z"),
            ("27/01/02 03:04", "2027-01-02T03:04:00Z"),
            ("1999/01/02 03:04", "1999-01-02T03:04:00Z"),
            ("13:30 +02:00", "2026-11-26T11:30:00Z"),
            ("2027/01/02 03:04 -01:30", "2027-01-02T04:34:00Z"),
        ] {
            assert_eq!(at(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "1330",
            "25:00",
            "13:60",
            "32 10:00",
            "13/01 10:00",
            "1/2/3/4 10:00",
            "2027/02/30 10:00",
            "10:00 +2",
            "10:00 x",
            "-10:00",
            "10:00 +24:00",
        ] {
            assert!(at(text).is_err(), "{text}: {:?}", at(text));
        }
    }

    #[test]
    fn lengths_are_hours_minutes_and_seconds() {
        let all = ["90", "1:30", "100:00:01", "0:10"].map(length_s);
        assert_eq!(all, [Ok(90), Ok(90), Ok(360_001), Ok(10)]);
        for text in [
            "",
            "0",
            "1:60",
            "1:2:3:4",
            "-1",
            "x",
            "99999999999999999999",
            "9e9",
        ] {
            assert!(length_s(text).is_err(), "{text}");
        }
    }
}
