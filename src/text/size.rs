//! Amounts of memory and disk: `512`, `1.5G`, `20 mb`.
//!
//! Owns the suffixes (powers of 1024) and both printed forms. Does not know what is measured.

use super::ParseError;

/// The maximum size that is accepted: 8 EiB - 1, so that the sum of two never overflows.
pub const MAX: u64 = i64::MAX.cast_unsigned();

const MAX_TEXT: usize = 40;

/// The unit of a number without a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// Bytes.
    B,
    /// 1024 bytes.
    K,
    /// 1024^2 bytes.
    M,
    /// 1024^3 bytes.
    G,
    /// 1024^4 bytes.
    T,
    /// 1024^5 bytes.
    P,
}

impl Unit {
    const ALL: [(Unit, char); 6] = [
        (Unit::B, 'B'),
        (Unit::K, 'K'),
        (Unit::M, 'M'),
        (Unit::G, 'G'),
        (Unit::T, 'T'),
        (Unit::P, 'P'),
    ];

    /// Bytes in one of this unit.
    pub const fn bytes(self) -> u64 {
        1 << (10 * self as u32)
    }

    /// The unit of a suffix (`k`, `KB`, `KiB`), in upper or lower case.
    pub fn from_suffix(suffix: &str) -> Option<Unit> {
        let mut chars = suffix.chars();
        let first = chars.next()?.to_ascii_uppercase();
        let (unit, _) = *Unit::ALL.iter().find(|(_, c)| *c == first)?;
        let rest = chars.as_str();
        let whole = rest.is_empty()
            || (unit != Unit::B
                && (rest.eq_ignore_ascii_case("b") || rest.eq_ignore_ascii_case("ib")));
        whole.then_some(unit)
    }
}

/// Parses a size; a number without suffix is in `default`. The result is in bytes; fractions of a
/// byte are dropped. Zero is a valid size: callers check further restrictions themselves.
///
/// ```
/// use corral::text::size::{parse, Unit};
/// assert_eq!(parse("512", Unit::M), Ok(512 << 20));
/// assert_eq!(parse("1.5g", Unit::M), Ok(3 << 29));
/// assert!(parse("-1", Unit::M).is_err());
/// ```
///
/// # Errors
/// The text is not a size, or the size does not fit 64 bits.
pub fn parse(text: &str, default: Unit) -> Result<u64, ParseError> {
    const HINT: &str = "write a number and K, M, G or T, for example 1.5G";
    if text.len() > MAX_TEXT {
        return Err(ParseError::too_long("size", MAX_TEXT, text.len()));
    }
    let number_len = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let number = &text[..number_len];
    let suffix_at = number_len
        + text[number_len..]
            .bytes()
            .take_while(|b| *b == b' ')
            .count();
    let suffix = &text[suffix_at..];
    if number.is_empty() {
        let message = if text.starts_with('-') {
            "a size cannot be negative"
        } else {
            "a size starts with a number"
        };
        return Err(ParseError::new(0, text.len().min(1), message).hint(HINT));
    }
    let unit = if suffix.is_empty() && suffix_at == number_len {
        default
    } else {
        Unit::from_suffix(suffix).ok_or_else(|| {
            let shown = super::width::escape(suffix).into_owned();
            ParseError::new(
                suffix_at,
                suffix.len(),
                format!("'{shown}' is not a unit of size"),
            )
            .hint(HINT)
        })?
    };
    let bytes = scaled(number, unit).map_err(|e| e.hint(HINT))?;
    u64::try_from(bytes)
        .ok()
        .filter(|b| *b <= MAX)
        .ok_or_else(|| too_big(text))
}

fn too_big(text: &str) -> ParseError {
    ParseError::new(0, text.len(), format!("{text} is too big")).hint("the largest size is 8191P")
}

fn scaled(number: &str, unit: Unit) -> Result<u128, ParseError> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if let Some(dot) = part.find('.') {
        return Err(ParseError::new(
            whole.len() + 1 + dot,
            1,
            "a number has at most one decimal point",
        ));
    }
    if whole.is_empty() || (part.is_empty() && number.contains('.')) {
        return Err(ParseError::new(
            0,
            number.len(),
            "digits are needed on both sides of the decimal point",
        ));
    }
    let whole = whole.trim_start_matches('0');
    if whole.len() > 20 {
        return Err(too_big(number));
    }
    // Digits after the twelfth are worth less than a byte in the largest unit.
    let part = &part[..part.len().min(12)];
    let scale = 10u128.pow(u32::try_from(part.len()).expect("at most 12"));
    let digits = |t: &str| t.bytes().fold(0u128, |n, b| n * 10 + u128::from(b - b'0'));
    let bytes = u128::from(unit.bytes());
    Ok(digits(whole) * bytes + digits(part) * bytes / scale)
}

/// A size rounded for reading: `0`, `512K`, `1.5G`, `128G`.
///
/// ```
/// assert_eq!(corral::text::size::human(3 << 29), "1.5G");
/// ```
pub fn human(bytes: u64) -> String {
    let (unit, letter) = Unit::ALL
        .into_iter()
        .rev()
        .find(|(u, _)| u.bytes() <= bytes)
        .unwrap_or(Unit::ALL[0]);
    if unit == Unit::B {
        return if bytes == 0 {
            "0".to_owned()
        } else {
            format!("{bytes}B")
        };
    }
    // Tenths, rounded half up, in integers.
    let tenths = (u128::from(bytes) * 10 + u128::from(unit.bytes() / 2)) / u128::from(unit.bytes());
    if tenths >= 10_240 && unit != Unit::P {
        let (_, letter) = Unit::ALL[unit as usize + 1];
        return format!("1{letter}");
    }
    if tenths >= 1000 || tenths.is_multiple_of(10) {
        return format!("{}{letter}", (tenths + 5) / 10);
    }
    format!("{}.{}{letter}", tenths / 10, tenths % 10)
}

/// A size in the largest unit that divides it: [`parse`] reads back the same number.
///
/// ```
/// assert_eq!(corral::text::size::exact(3 << 29), "1536M");
/// ```
pub fn exact(bytes: u64) -> String {
    let (unit, letter) = Unit::ALL
        .into_iter()
        .rev()
        .find(|(u, _)| bytes > 0 && bytes.is_multiple_of(u.bytes()))
        .unwrap_or(Unit::ALL[0]);
    format!("{}{letter}", bytes / unit.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn suffixes_in_either_case() {
        for text in [
            "2g", "2G", "2gb", "2GiB", "2 GB", "2048M", "2.0g", "2097152k",
        ] {
            assert_eq!(parse(text, Unit::B), Ok(2 << 30), "{text}");
        }
        assert_eq!(parse("100", Unit::K), Ok(102_400));
        assert_eq!(parse("0.1", Unit::B), Ok(0));
        assert_eq!(parse("1b", Unit::G), Ok(1));
    }

    #[test]
    fn wrong_sizes_are_refused() {
        for bad in [
            "",
            "-1",
            "1e999",
            "inf",
            "nan",
            "1..2",
            ".5",
            "5.",
            "1x",
            "1 ",
            "G",
            "1Bb",
            "1KiBs",
            " 1",
            "9999999999999999999999",
            "9e18",
            "8192P",
            "0x10",
            "1,5G",
        ] {
            assert!(parse(bad, Unit::M).is_err(), "{bad}");
        }
        assert_eq!(parse("1.5Q", Unit::M).unwrap_err().at, 3);
    }

    #[test]
    fn readable_forms() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023B"),
            (1024, "1K"),
            (1536, "1.5K"),
            (128 << 30, "128G"),
            ((1 << 30) - 1, "1G"),
            (1_048_575, "1M"),
            (176 * 1024 * 1024 * 1024 + 1, "176G"),
            (u64::MAX, "16384P"),
        ] {
            assert_eq!(human(bytes), text, "{bytes}");
        }
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn exact_reads_back(b in 0..=MAX, shift in 0u32..50) {
            let b = b >> shift << (shift / 2);
            prop_assume!(b <= MAX);
            prop_assert_eq!(parse(&exact(b), Unit::T), Ok(b));
        }

        #[test]
        fn never_panics(s in ".{0,45}", t in "[0-9.kKmMgGtTbBi ]{0,25}", b in any::<u64>()) {
            let _ = (parse(&s, Unit::P), parse(&t, Unit::P), human(b), exact(b));
        }
    }
}
