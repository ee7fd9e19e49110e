//! Times in the form of tables, fast enough for a hundred thousand rows.
//!
//! Owns the three printed forms. The zone's offset is looked up once per quarter of an hour, since
//! no time zone changes its offset in between.

use super::cell::int;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::cell::{Cell, RefCell};

/// Period for which an offset from UTC is reused, ms.
const STEP_MS: i64 = 900_000;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
/// 1970-01-01 was a Thursday.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Prints times in one time zone.
pub(crate) struct Dates {
    zone: TimeZone,
    /// Times in another year than this are shown with their year; 0: never.
    this_year: i64,
    /// The last period and its offset in seconds.
    last_offset: Cell<(i64, i64)>,
    /// The last minute printed in the short form: adjacent rows of a table often share it.
    minute: RefCell<(i64, String)>,
}

/// The components of a time.
struct DateParts {
    days: i64,
    year: i64,
    month: usize,
    day: i64,
    second: i64,
}

impl Dates {
    pub(crate) fn new(zone: TimeZone) -> Dates {
        Dates {
            zone,
            this_year: 0,
            last_offset: Cell::new((i64::MIN, 0)),
            minute: RefCell::new((i64::MIN, String::new())),
        }
    }

    /// Shows the year of times that are not in the year of `ms`.
    pub(crate) fn now(mut self, ms: i64) -> Dates {
        self.this_year = self.parts(ms).year;
        self
    }

    /// Another printer with the same settings: each thread needs its own.
    pub(crate) fn same(&self) -> Dates {
        Dates {
            this_year: self.this_year,
            ..Dates::new(self.zone.clone())
        }
    }

    fn is_other_year(&self, p: &DateParts) -> bool {
        ![0, p.year].contains(&self.this_year)
    }

    /// The time zone of this printer.
    pub(crate) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    fn offset(&self, ms: i64) -> i64 {
        let step = ms.div_euclid(STEP_MS);
        let (known, offset) = self.last_offset.get();
        if known == step {
            return offset;
        }
        let offset = Timestamp::from_millisecond(ms)
            .map_or(0, |t| i64::from(self.zone.to_offset(t).seconds()));
        self.last_offset.set((step, offset));
        offset
    }

    fn parts(&self, ms: i64) -> DateParts {
        let local = ms.div_euclid(1000).saturating_add(self.offset(ms));
        let days = local.div_euclid(86_400);
        // Days since 0000-03-01 in eras of 400 years: leap days then fall at the end of a year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12;
        DateParts {
            days,
            year: year_of_era + era * 400 + i64::from(month < 2),
            month: usize::try_from(month).unwrap_or(0),
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            second: local.rem_euclid(86_400),
        }
    }

    /// E.g. `Nov 21 03:07`, in another year `Nov 21  2025`; nothing for 0, which means "never".
    pub(crate) fn short(&self, out: &mut String, ms: i64) {
        if ms == 0 {
            return;
        }
        let (known, text) = &mut *self.minute.borrow_mut();
        if *known != ms.div_euclid(60_000) {
            let p = self.parts(ms);
            *known = ms.div_euclid(60_000);
            text.clear();
            month_day(text, &p);
            text.push(' ');
            if self.is_other_year(&p) {
                text.push(' ');
                int(text, p.year);
            } else {
                two_digits(text, p.second / 3600);
                text.push(':');
                two_digits(text, p.second / 60 % 60);
            }
        }
        out.push_str(text);
    }

    /// E.g. `11/21-03:07:09`, in another year `2025/11/21-03:07:09`; nothing for 0.
    pub(crate) fn compact(&self, out: &mut String, ms: i64) {
        if ms == 0 {
            return;
        }
        let p = self.parts(ms);
        if self.is_other_year(&p) {
            int(out, p.year);
            out.push('/');
        }
        two_digits(out, p.month as i64 + 1);
        out.push('/');
        two_digits(out, p.day);
        out.push('-');
        clock(out, p.second);
    }

    /// E.g. `Sat Nov 21 03:07:09`, in another year `Fri Nov 21 03:07:09 2025`.
    pub(crate) fn long(&self, out: &mut String, ms: i64) {
        let p = self.parts(ms);
        out.push_str(DAYS[usize::try_from(p.days.rem_euclid(7)).unwrap_or(0)]);
        out.push(' ');
        month_day(out, &p);
        out.push(' ');
        clock(out, p.second);
        if self.is_other_year(&p) {
            out.push(' ');
            int(out, p.year);
        }
    }
}

fn month_day(out: &mut String, p: &DateParts) {
    out.push_str(MONTHS[p.month]);
    out.push_str(if p.day < 10 { "  " } else { " " });
    int(out, p.day);
}

fn clock(out: &mut String, second: i64) {
    two_digits(out, second / 3600);
    out.push(':');
    two_digits(out, second / 60 % 60);
    out.push(':');
    two_digits(out, second % 60);
}

/// Two decimal digits.
pub(crate) fn two_digits(out: &mut String, n: i64) {
    if n < 10 {
        out.push('0');
    }
    int(out, n);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(dates: &Dates, ms: i64) -> (String, String, String) {
        let (mut a, mut b, mut c) = (String::new(), String::new(), String::new());
        dates.short(&mut a, ms);
        dates.compact(&mut b, ms);
        dates.long(&mut c, ms);
        (a, b, c)
    }

    #[test]
    fn a_known_moment() {
        let dates = Dates::new(TimeZone::UTC);
        let (a, b, c) = all(&dates, 1_795_230_429_123);
        assert_eq!(a, "Nov 21 03:07");
        assert_eq!(b, "11/21-03:07:09");
        assert_eq!(c, "Sat Nov 21 03:07:09");
        assert_eq!(all(&dates, 0).0, "");
    }

    #[test]
    fn moments_of_another_year_are_shown_with_it() {
        let (now, last_year) = (1_795_230_429_123, 1_763_694_429_123);
        let dates = Dates::new(TimeZone::UTC).now(now);
        let want = ("Nov 21 03:07", "11/21-03:07:09", "Sat Nov 21 03:07:09");
        assert_eq!(
            all(&dates, now),
            (want.0.into(), want.1.into(), want.2.into())
        );
        let want = (
            "Nov 21  2025",
            "2025/11/21-03:07:09",
            "Fri Nov 21 03:07:09 2025",
        );
        let dates = dates.same();
        assert_eq!(
            all(&dates, last_year),
            (want.0.into(), want.1.into(), want.2.into())
        );
    }

    #[test]
    fn the_offset_follows_a_clock_change() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let dates = Dates::new(berlin);
        // 2026-03-29 02:00 CET is 03:00 CEST.
        assert_eq!(all(&dates, 1_774_745_999_000).1, "03/29-01:59:59");
        assert_eq!(all(&dates, 1_774_746_000_000).1, "03/29-03:00:00");
    }

    proptest! {
        #[test]
        fn agrees_with_the_calendar(ms in 1i64..4_000_000_000_000) {
            let dates = Dates::new(TimeZone::UTC).now(ms + 400 * 86_400_000);
            let want = Timestamp::from_millisecond(ms)
                .unwrap()
                .to_zoned(TimeZone::UTC)
                .strftime("%a %b %e %H:%M:%S %Y")
                .to_string();
            prop_assert_eq!(all(&dates, ms).2, want);
        }
    }
}
