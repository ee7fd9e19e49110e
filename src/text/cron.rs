//! The calendar of cron jobs: converts an expression of five fields and a time zone into times.
//!
//! Owns which expressions are accepted, the errors for the others, and which of several missed
//! times counts. The crate `croner`, which no other file uses, searches for the next matching local
//! time; how local times are treated at clock changes is decided here. Never reads a clock or the
//! zone files of a host: zones are linked into the program, so that all masters that run the same
//! build compute the same times.
//!
//! The rules for clock changes are those of Debian's cron. For times of day (neither the minute nor
//! the hour begins with a star): a time that does not exist on a day (02:30 in the gap in spring)
//! is due once, at the end of the gap; a time that occurs twice on a day is due once, the first
//! time. Repeating schedules follow real time.

use super::ParseError;
use crate::model::Stamp;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use std::fmt;

/// Maximum length of an expression in bytes.
const EXPR_MAX: usize = 256;
/// Maximum number of due times that are counted one by one, in total and near the present.
const COUNT_MAX: u32 = 1000;
/// Windows before the present in which the newest of very many missed times is searched for.
const WINDOWS_MS: [i64; 4] = [3_600_000, 86_400_000, 32 * 86_400_000, 366 * 86_400_000];

/// A field: its name, its minimum and maximum, names of values from the minimum on.
struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    field("minute", 0, 59, &[]),
    field("hour", 0, 23, &[]),
    field("day of month", 1, 31, &[]),
    field(
        "month",
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    field(
        "day of week",
        0,
        7,
        &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    ),
];
const DAY: usize = 2;
const WEEKDAY: usize = 4;

const fn field(name: &'static str, low: u32, high: u32, names: &'static [&'static str]) -> Field {
    Field {
        name,
        low,
        high,
        names,
    }
}

/// Names for whole expressions.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Maximum number of days of each month.
const MONTH_DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// A checked expression.
#[derive(Clone, Debug)]
pub struct Schedule {
    text: String,
    cron: Cron,
    /// Neither minute nor hour begins with a star: times of day, not a repetition.
    fixed: bool,
}

impl fmt::Display for Schedule {
    /// The five fields, a blank between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Schedule {
    /// Reads an expression or one of `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`,
    /// `@yearly`, `@annually`.
    ///
    /// # Errors
    /// Names the field and the values that it may have.
    ///
    /// ```
    /// use corral::text::cron::Schedule;
    /// let e = Schedule::parse("61 * * * *").unwrap_err();
    /// assert_eq!(e.message, "minute: 61 is not a value from 0 to 59");
    /// ```
    pub fn parse(text: &str) -> Result<Schedule, ParseError> {
        if text.len() > EXPR_MAX {
            return Err(ParseError::too_long("a schedule", EXPR_MAX, text.len()));
        }
        let trimmed = text.trim();
        let from = text.len() - text.trim_start().len();
        if trimmed.starts_with('@') {
            return nickname(trimmed).map_err(|e| e.shifted(from));
        }
        let words = words(text);
        if words.len() != FIELDS.len() {
            let len = trimmed.len();
            let e = ParseError::new(
                from,
                len,
                format!("a schedule has five fields, not {}", words.len()),
            );
            return Err(e.hint("MINUTE HOUR DAY MONTH WEEKDAY, as in '30 2 * * mon-fri'"));
        }
        for (n, (at, word)) in words.iter().enumerate() {
            check_field(n, word).map_err(|e| e.shifted(*at))?;
        }
        check_dates(&words)?;
        let text: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
        evaluated(text.join(" "), (from, trimmed.len()))
    }

    /// The first due time after `after` in the zone; `None`: there are no more due times.
    pub fn next_after(&self, after: Stamp, zone: &Zone) -> Option<Stamp> {
        let from = Timestamp::from_millisecond(after.0).ok()?;
        let next = match self.fixed {
            true => self.next_fixed(from, &zone.0)?,
            false => self.next_repeated(from, &zone.0)?,
        };
        let next = Stamp(next.as_millisecond());
        // A search that makes no progress would be due forever.
        (next > after).then_some(next)
    }

    /// The next matching local time, regardless of clock changes: searched in UTC.
    fn next_local(&self, after: DateTime) -> Option<DateTime> {
        let start = after.to_zoned(TimeZone::UTC).ok()?;
        let next = self.cron.find_next_occurrence(&start, false).ok()?;
        Some(next.datetime())
    }

    /// For times of day: each local time once; the first of two, or the end of a gap.
    fn next_fixed(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut local = zone.to_datetime(after);
        loop {
            local = self.next_local(local)?;
            let ambiguous = zone.to_ambiguous_timestamp(local);
            let at = match ambiguous.offset() {
                AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok()?,
                AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok()?,
                AmbiguousOffset::Gap { before, .. } => {
                    let late = before.to_timestamp(local).ok()?;
                    let end = zone.preceding(late + SignedDuration::from_secs(1)).next();
                    end.map_or(late, |end| end.timestamp())
                }
            };
            // In the second half of a repeated hour, the times of the first half have passed.
            if at > after {
                return Some(at);
            }
        }
    }

    /// For repeating schedules: every moment whose local time matches, from one clock change to the
    /// next.
    fn next_repeated(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut changes = zone.following(after).map(|change| change.timestamp());
        let (mut offset, mut local) = (zone.to_offset(after), zone.to_datetime(after));
        loop {
            let at = offset.to_timestamp(self.next_local(local)?).ok()?;
            match changes.next() {
                Some(change) if change <= at => {
                    offset = zone.to_offset(change);
                    local = offset.to_datetime(change - SignedDuration::from_secs(1));
                }
                _ => return Some(at),
            }
        }
    }

    /// The due times after `handled` up to `now`: their number and the newest. If there are very
    /// many, the newest is found without counting all.
    pub fn due(&self, handled: Stamp, now: Stamp, zone: &Zone) -> Option<DueTimes> {
        let mut newest = self.next_after(handled, zone).filter(|at| *at <= now)?;
        let mut count = 1;
        while count < COUNT_MAX {
            match self.next_after(newest, zone).filter(|at| *at <= now) {
                Some(next) => (newest, count) = (next, count + 1),
                None => return Some(DueTimes { newest, count }),
            }
        }
        for window in WINDOWS_MS {
            let start = Stamp(now.0.saturating_sub(window));
            if start <= newest {
                break;
            }
            if let Some(first) = self.next_after(start, zone).filter(|at| *at <= now) {
                newest = first;
                break;
            }
        }
        // For such frequent schedules, at most a day of minutes is left.
        for _ in 0..COUNT_MAX * 2 {
            match self.next_after(newest, zone).filter(|at| *at <= now) {
                Some(next) => newest = next,
                None => break,
            }
        }
        Some(DueTimes { newest, count })
    }
}

/// See [`Schedule::due`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueTimes {
    pub newest: Stamp,
    /// The number of due times; a minimum if [`DueTimes::many`].
    pub count: u32,
}

impl DueTimes {
    /// Whether there were more than were counted.
    pub fn many(self) -> bool {
        self.count >= COUNT_MAX
    }
}

/// A time zone by its name in the tz database.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of this name.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn named(name: &str) -> Result<Zone, String> {
        let bounded = name.len() <= EXPR_MAX && !name.contains(char::is_control);
        let found = bounded.then(|| TimeZoneDatabase::bundled().get(name).ok());
        found.flatten().map(Zone).ok_or_else(|| {
            let shown: String = name.chars().take(64).collect();
            format!("no time zone is named {shown:?}; write one as Europe/Berlin or UTC")
        })
    }

    /// The rules of the zone.
    pub fn tz(&self) -> &TimeZone {
        &self.0
    }

    /// The name of the host's zone, if it is known here.
    pub fn of_system() -> Option<String> {
        let name = TimeZone::system().iana_name()?.to_owned();
        Zone::named(&name).is_ok().then_some(name)
    }

    /// A time in readable form in this zone.
    pub fn show(&self, at: Stamp) -> String {
        match Timestamp::from_millisecond(at.0) {
            Ok(at) => at
                .to_zoned(self.0.clone())
                .strftime("%a %Y-%m-%d %H:%M %Z")
                .to_string(),
            Err(_) => at.0.to_string(),
        }
    }
}

fn nickname(word: &str) -> Result<Schedule, ParseError> {
    let known = NICKNAMES.iter().find(|(name, _)| *name == word);
    match known {
        Some((_, expr)) => Schedule::parse(expr),
        None if word == "@reboot" => Err(ParseError::new(
            0,
            word.len(),
            "@reboot does not name a time: a cluster is not booted",
        )),
        None => {
            let names: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
            let e = ParseError::new(0, word.len(), format!("{word} is not known"));
            Err(e.hint(format!("one of {}", names.join(" "))))
        }
    }
}

/// The words of a text and their offsets.
fn words(text: &str) -> Vec<(usize, &str)> {
    let begin = text.as_ptr() as usize;
    let words = text.split_whitespace();
    words
        .map(|word| (word.as_ptr() as usize - begin, word))
        .collect()
}

fn check_field(n: usize, word: &str) -> Result<(), ParseError> {
    let mut at = 0;
    for item in word.split(',') {
        check_item(n, item).map_err(|e| e.shifted(at))?;
        at += item.len() + 1;
    }
    Ok(())
}

/// One item of a list: `*`, a value, a range, each with an optional step; or a word of its field.
fn check_item(n: usize, item: &str) -> Result<(), ParseError> {
    let f = &FIELDS[n];
    let wrong = |what: String| ParseError::new(0, item.len(), format!("{}: {what}", f.name));
    let (base, step) = match item.split_once('/') {
        Some((base, step)) => (base, Some(step)),
        None => (item, None),
    };
    if base.is_empty() {
        return Err(wrong("a value is missing".into()));
    }
    if let Some(step) = step {
        let most = f.high - f.low + 1;
        if !number(step).is_some_and(|n| (1..=most).contains(&n)) {
            return Err(wrong(format!("{step} is not a step from 1 to {most}")));
        }
        if base != "*" && !base.contains('-') {
            return Err(wrong(format!(
                "a step needs a range, {base}-{}/{step}",
                f.high
            )));
        }
    }
    if base == "*" || special(n, base)? {
        return Ok(());
    }
    let mut ends = base.splitn(2, '-').map(|v| (v, value(f, v)));
    let (first, last) = (ends.next(), ends.next());
    for (text, value) in [&first, &last].into_iter().flatten() {
        if value.is_none() {
            let names = match f.names {
                [] => String::new(),
                [first, .., last] => format!(" or {first} to {last}"),
                [only] => format!(" or {only}"),
            };
            let (low, high) = (f.low, f.high);
            return Err(wrong(format!(
                "{text} is not a value from {low} to {high}{names}"
            )));
        }
    }
    let ends = (first.and_then(|(_, v)| v), last.and_then(|(_, v)| v));
    match ends {
        (Some(a), Some(b)) if a > b => {
            Err(wrong(format!("the range {base} ends before it begins")))
        }
        _ => Ok(()),
    }
}

/// Words that are valid only for days: `L`, `15W`, `LW`; `5L`, `fri#2`.
fn special(n: usize, base: &str) -> Result<bool, ParseError> {
    let f = &FIELDS[n];
    let upper = base.to_ascii_uppercase();
    let day = |text: &str| value(f, text).is_some();
    Ok(match n {
        DAY => upper == "L" || upper == "LW" || upper.strip_suffix('W').is_some_and(day),
        WEEKDAY => {
            let nth = upper.split_once('#');
            let nth = nth.is_some_and(|(d, nth)| {
                day(d) && number(nth).is_some_and(|n| (1..=5).contains(&n))
            });
            nth || upper
                .strip_suffix('L')
                .is_some_and(|d| !d.is_empty() && day(d))
        }
        _ => false,
    })
}

fn value(f: &Field, text: &str) -> Option<u32> {
    let by_name = f.names.iter().position(|n| n.eq_ignore_ascii_case(text));
    match by_name {
        Some(at) => Some(f.low + u32::try_from(at).ok()?),
        None => number(text).filter(|n| (f.low..=f.high).contains(n)),
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// A day that no month has, such as 31 February, would never be due.
fn check_dates(words: &[(usize, &str)]) -> Result<(), ParseError> {
    let (at, days) = words[DAY];
    if words[WEEKDAY].1 != "*" {
        return Ok(());
    }
    let days_of = |item: &str| {
        let item = item.split(['-', '/']).next().unwrap_or_default();
        number(item.trim_end_matches(['W', 'w']))
    };
    let Some(first) = days.split(',').map(days_of).min().flatten() else {
        return Ok(());
    };
    let month = &FIELDS[3];
    let mut longest = 0;
    for item in words[3].1.split(',') {
        let range = item.split('/').next().unwrap_or_default();
        let (a, b) = range.split_once('-').unwrap_or((range, range));
        let (Some(a), Some(b)) = (value(month, a), value(month, b)) else {
            return Ok(());
        };
        let of = (a..=b).map(|m| MONTH_DAYS[m as usize - 1]);
        longest = longest.max(of.max().unwrap_or(31));
    }
    match first > longest {
        true => Err(ParseError::new(
            at,
            days.len(),
            format!("day of month: no month given in this schedule has a day {first}"),
        )),
        false => Ok(()),
    }
}

/// Passes a checked expression to the search.
fn evaluated(text: String, (at, len): (usize, usize)) -> Result<Schedule, ParseError> {
    let star = |n: usize| text.split(' ').nth(n).is_some_and(|f| f.starts_with('*'));
    // As cron does: days of the month and of the week are alternatives, unless one of the fields
    // begins with a star.
    let both = star(DAY) || star(WEEKDAY);
    let parser = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .dom_and_dow(both)
        .build();
    match parser.parse(&text) {
        Ok(cron) => {
            let fixed = !star(0) && !star(1);
            Ok(Schedule { text, cron, fixed })
        }
        Err(e) => Err(ParseError::new(
            at,
            len,
            format!("the schedule is not accepted: {e}"),
        )),
    }
}

#[cfg(test)]
mod tests;
