//! Moments: `--begin` of sbatch, `-S` and `-E` of sacct, `-a` of PBS.

use super::{number, shown};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

fn ms(zoned: &Zoned) -> i64 {
    zoned.timestamp().as_millisecond()
}

fn at(date: Date, time: Time, tz: &TimeZone) -> Option<Zoned> {
    DateTime::from_parts(date, time).to_zoned(tz.clone()).ok()
}

/// The earliest start of a job, ms since the epoch: [`moment`], where a time of day that has passed
/// means the next day.
///
/// # Errors
/// The text has another form.
pub fn begin(text: &str, now_ms: i64, tz: &TimeZone) -> Result<i64, String> {
    read(text, now_ms, tz, true).ok_or_else(|| wrong(text))
}

/// A moment, ms since the epoch: `now`, `now+2hours`, `now-1days`, `14:30`, `today`, `midnight`,
/// `noon`, `2026-12-31`, `2026-12-31T14:30:10`, `12/31`, `123126`.
///
/// # Errors
/// The text has another form.
pub fn moment(text: &str, now_ms: i64, tz: &TimeZone) -> Result<i64, String> {
    read(text, now_ms, tz, false).ok_or_else(|| wrong(text))
}

fn wrong(text: &str) -> String {
    format!(
        "'{}' is not a time: write now+2hours, 14:30, tomorrow or 2026-12-31T14:30",
        shown(text)
    )
}

fn read(text: &str, now_ms: i64, tz: &TimeZone, next: bool) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let now = Timestamp::from_millisecond(now_ms)
        .ok()?
        .to_zoned(tz.clone());
    if let Some(rest) = lower.strip_prefix("now") {
        return Some(now_ms + offset(rest)?);
    }
    let today = now.date();
    let day_of = |time: Time| {
        let first = at(today, time, tz)?;
        match next && ms(&first) < now_ms {
            true => at(today.checked_add(1.day()).ok()?, time, tz),
            false => Some(first),
        }
    };
    let found = match lower.as_str() {
        "today" | "tomorrow" => {
            let days = if lower == "today" { 0 } else { 1 };
            let day = today.checked_add(i64::from(days).days()).ok()?;
            // For a job: at the current time of day; for a range: from the beginning of the day.
            let time = if next { now.time() } else { Time::midnight() };
            at(day, time, tz)?
        }
        "midnight" => day_of(Time::midnight())?,
        "noon" => day_of(Time::constant(12, 0, 0, 0))?,
        "elevenses" => day_of(Time::constant(11, 0, 0, 0))?,
        "fika" => day_of(Time::constant(15, 0, 0, 0))?,
        "teatime" => day_of(Time::constant(16, 0, 0, 0))?,
        _ => match lower.split_once(['t', ' ']) {
            Some((date, time)) => at(day(date, today)?, clock(time)?, tz)?,
            None if lower.contains(':') => day_of(clock(&lower)?)?,
            None => at(day(&lower, today)?, Time::midnight(), tz)?,
        },
    };
    Some(ms(&found))
}

/// `+2hours`, `+90` (seconds), or empty.
fn offset(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (digits, unit) = rest.split_at(end.unwrap_or(rest.len()));
    let unit_s: i64 = match unit.trim_end_matches('s') {
        "" | "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86_400,
        "week" => 604_800,
        _ => return None,
    };
    let n = i64::try_from(number(digits)?).ok()?;
    n.checked_mul(unit_s)?.checked_mul(1000 * sign)
}

/// `14:30`, `14:30:10`, `2:30pm`.
fn clock(text: &str) -> Option<Time> {
    let bare = text.trim();
    let (bare, noon) = match (bare.strip_suffix("am"), bare.strip_suffix("pm")) {
        (Some(bare), _) => (bare.trim(), Some(false)),
        (_, Some(bare)) => (bare.trim(), Some(true)),
        _ => (bare, None),
    };
    let fields: Option<Vec<i8>> = bare
        .split(':')
        .map(|field| i8::try_from(number(field)?).ok())
        .collect();
    let (h, m, s) = match fields?.as_slice() {
        [h, m] => (*h, *m, 0),
        [h, m, s] => (*h, *m, *s),
        _ => return None,
    };
    let h = match noon {
        None => h,
        Some(_) if !(1..=12).contains(&h) => return None,
        Some(after) => h % 12 + if after { 12 } else { 0 },
    };
    Time::new(h, m, s, 0).ok()
}

/// `2026-12-31`, `12/31`, `12/31/26`, `12.31.26`, `1231`, `123126`.
fn day(text: &str, today: Date) -> Option<Date> {
    let small = |text: &str| i8::try_from(number(text)?).ok();
    let year = |text: &str| {
        let n = i16::try_from(number(text)?).ok()?;
        Some(if text.len() <= 2 { 2000 + n } else { n })
    };
    if let [y, m, d] = text.split('-').collect::<Vec<_>>()[..] {
        return Date::new(year(y)?, small(m)?, small(d)?).ok();
    }
    let parts: Vec<&str> = if text.contains(['/', '.']) {
        text.split(['/', '.']).collect()
    } else if text.is_ascii() && (text.len() == 4 || text.len() == 6) {
        [&text[..2], &text[2..4], &text[4..]]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect()
    } else {
        return None;
    };
    match parts[..] {
        [m, d] => Date::new(today.year(), small(m)?, small(d)?).ok(),
        [m, d, y] => Date::new(year(y)?, small(m)?, small(d)?).ok(),
        _ => None,
    }
}

/// A moment of PBS's `-a`: `[[[[CC]YY]MM]DD]hhmm[.SS]`; omitted parts are those of the next such
/// moment.
///
/// # Errors
/// The text has another form.
pub fn pbs_moment(text: &str, now_ms: i64, tz: &TimeZone) -> Result<i64, String> {
    let read = || {
        let (digits, seconds) = text.split_once('.').unwrap_or((text, "0"));
        let all = digits.bytes().all(|b| b.is_ascii_digit());
        if !all || ![4, 6, 8, 10, 12].contains(&digits.len()) {
            return None;
        }
        let field = |from_end: usize, len: usize| {
            let end = digits.len().checked_sub(from_end)?;
            let start = end.checked_sub(len)?;
            i16::try_from(number(&digits[start..end])?).ok()
        };
        let small = |n: i16| i8::try_from(n).ok();
        let (h, m) = (small(field(2, 2)?)?, small(field(0, 2)?)?);
        let time = Time::new(h, m, i8::try_from(number(seconds)?).ok()?, 0).ok()?;
        let now = Timestamp::from_millisecond(now_ms)
            .ok()?
            .to_zoned(tz.clone());
        let today = now.date();
        let day = field(4, 2).and_then(small);
        let month = field(6, 2).and_then(small);
        let year = match digits.len() {
            12 => field(8, 4),
            10 => field(8, 2).map(|y| 2000 + y),
            _ => None,
        };
        let date = Date::new(
            year.unwrap_or(today.year()),
            month.unwrap_or(today.month()),
            day.unwrap_or(today.day()),
        );
        let mut found = at(date.ok()?, time, tz)?;
        if ms(&found) < now_ms && year.is_none() {
            let more = match (day, month) {
                (None, _) => 1.day(),
                (_, None) => 1.month(),
                _ => 1.year(),
            };
            found = found.checked_add(more).ok()?;
        }
        Some(ms(&found))
    };
    read().ok_or_else(|| format!("'{}' is not a time: write [[CCYY]MMDD]hhmm", shown(text)))
}
