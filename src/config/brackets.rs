//! Bracket groups side by side, `[mem,5000] [gpu, 2]`, and the numbers in them. Owns only the text
//! form; never knows what a group means.

use super::read::{Ctx, Words};
use crate::text::resreq::ResourceDef;
use crate::text::size::{self, Unit};
use crate::text::yaml::Pos;
use crate::text::{ParseError, width};

const HINT: &str = "write [...] groups with blanks between them, and quote the whole";

/// Maximum value in thousandths: sums of many stay within an i64.
const MAX_MILLI: i64 = 1_000_000_000_000_000;

/// The content of one bracket, and its byte offset in the whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bracket<'t> {
    pub at: usize,
    pub text: &'t str,
}

impl<'t> Bracket<'t> {
    /// The parts before and after the first comma, without surrounding blanks.
    pub(super) fn split(self) -> Option<(Bracket<'t>, Bracket<'t>)> {
        let (name, rest) = self.text.split_once(',')?;
        let after = self.at + name.len() + 1;
        let name = Bracket {
            text: name,
            at: self.at,
        };
        let rest = Bracket {
            text: rest,
            at: after,
        };
        Some((name.trim(), rest.trim()))
    }

    /// The first word and what follows it.
    pub(super) fn first_word(self) -> (Bracket<'t>, Bracket<'t>) {
        let b = self.trim();
        let end = b.text.find(char::is_whitespace).unwrap_or(b.text.len());
        let (word, rest) = b.text.split_at(end);
        let rest = Bracket {
            at: b.at + end,
            text: rest,
        };
        (
            Bracket {
                at: b.at,
                text: word,
            },
            rest.trim(),
        )
    }

    fn trim(self) -> Bracket<'t> {
        let text = self.text.trim_start();
        Bracket {
            at: self.at + (self.text.len() - text.len()),
            text: text.trim_end(),
        }
    }

    pub(super) fn pos(self, w: &Words, ctx: &Ctx<'_>) -> Pos {
        w.pos_at(self.at, ctx)
    }
}

/// The groups of a text, at least one and at most `most`.
pub(super) fn brackets(text: &str, most: usize) -> Result<Vec<Bracket<'_>>, ParseError> {
    let mut out = Vec::new();
    let mut open: Option<usize> = None;
    for (at, c) in text.char_indices() {
        match (c, open) {
            ('[', None) => open = Some(at + 1),
            (']', Some(from)) => {
                if out.len() == most {
                    let message = format!("more than {most} groups [...]");
                    return Err(ParseError::new(from, 0, message));
                }
                out.push(Bracket {
                    at: from,
                    text: &text[from..at],
                });
                open = None;
            }
            ('[', Some(_)) => {
                return Err(ParseError::new(at, 1, "'[' inside brackets").hint(HINT));
            }
            (_, Some(_)) => {}
            (c, None) if c.is_whitespace() => {}
            (c, None) => {
                let shown = width::escape(c.encode_utf8(&mut [0; 4])).into_owned();
                let message = format!("expected [ here, found {shown:?}");
                return Err(ParseError::new(at, c.len_utf8(), message).hint(HINT));
            }
        }
    }
    match open {
        Some(_) => Err(ParseError::new(text.len(), 0, "']' is missing").hint(HINT)),
        None if out.is_empty() => Err(ParseError::new(0, 0, "expected [...]").hint(HINT)),
        None => Ok(out),
    }
}

/// Thousandths of a decimal number of 0 or more with at most three decimal places.
pub(super) fn milli(text: &str) -> Result<i64, ParseError> {
    fixed(text, 3)
}

/// Millionths of such a number with at most six decimal places.
pub(super) fn micro(text: &str) -> Result<i64, ParseError> {
    fixed(text, 6)
}

/// A decimal number in units of its last place; `places`: the number of decimal places.
fn fixed(text: &str, places: u32) -> Result<i64, ParseError> {
    let refused = |message: &str| {
        let shown = width::escape(width::truncate(text, 24).as_ref()).into_owned();
        Err(ParseError::new(
            0,
            text.len(),
            format!("{shown:?} {message}"),
        ))
    };
    let (int, frac) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(int) || !digits(frac) {
        return refused("is not a number of 0 or more")
            .map_err(|e| e.hint("write a decimal number such as 2 or 0.5"));
    }
    if int.len() > 1 && int.starts_with('0') {
        return refused("has a leading zero")
            .map_err(|e| e.hint("octal numbers are not supported"));
    }
    let places = places as usize;
    if frac.len() > places {
        let most = if places == 3 { "three" } else { "six" };
        return refused(&format!("has more than {most} decimal places"));
    }
    let one = 10_i64.pow(places as u32);
    let value = int.parse::<i64>().ok().and_then(|n| n.checked_mul(one));
    let rest: i64 = format!("{frac:0<places$}").parse().unwrap_or(0);
    match value.map(|n| n.saturating_add(rest)) {
        Some(n) if n <= MAX_MILLI => Ok(n),
        _ => refused("is too large"),
    }
}

/// Thousandths of a resource's unit; resources counted in megabytes allow the suffixes K, M, G and
/// T.
pub(super) fn amount(def: &ResourceDef<'_>, text: &str) -> Result<i64, ParseError> {
    if !def.megabytes || text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return milli(text);
    }
    let bytes = size::parse(text, Unit::M)?;
    let milli = u128::from(bytes) * 1000 / u128::from(Unit::M.bytes());
    match i64::try_from(milli) {
        Ok(n) if n <= MAX_MILLI => Ok(n),
        _ => Err(ParseError::new(0, text.len(), "the size is too large")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::resreq::builtin;
    use proptest::prelude::*;

    fn inside(text: &str) -> Vec<(usize, &str)> {
        let all = brackets(text, 100).unwrap_or_else(|e| panic!("{text}: {e}"));
        all.into_iter().map(|b| (b.at, b.text)).collect()
    }

    #[test]
    fn groups_keep_their_places() {
        assert_eq!(inside("[g1,2] [ g 3 ]"), [(1, "g1,2"), (8, " g 3 ")]);
        assert_eq!(inside(" [][a]"), [(2, ""), (4, "a")]);
        let all = brackets("[ mem , 5 9-18 ]", 9).unwrap();
        let (name, rest) = all[0].split().unwrap();
        let (value, window) = rest.first_word();
        assert_eq!((name.at, name.text), (2, "mem"));
        assert_eq!((value.at, value.text), (8, "5"));
        assert_eq!((window.at, window.text), (10, "9-18"));
        assert!(Bracket { at: 0, text: "mem" }.split().is_none());
    }

    #[test]
    fn what_is_no_group_is_refused_at_its_place() {
        for (text, at) in [
            ("", 0),
            ("  ", 0),
            ("[a", 2),
            ("a]", 0),
            ("[a] b", 4),
            ("[a [b]]", 3),
            ("[a]]", 3),
        ] {
            assert_eq!(brackets(text, 9).unwrap_err().at, at, "{text}");
        }
        assert_eq!(brackets("[a][b][c]", 2).unwrap_err().at, 7);
    }

    #[test]
    fn numbers_are_exact_thousandths() {
        for (text, want) in [
            ("0", 0),
            ("1.5", 1500),
            ("0.007", 7),
            ("3.50", 3500),
            ("1000000000000", MAX_MILLI),
        ] {
            assert_eq!(milli(text), Ok(want), "{text}");
        }
        for bad in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "1e3",
            "010",
            "0.0001",
            "nan",
            "1,5",
            "1 2",
            "99999999999999999999",
            "1000000000000.001",
            "１",
        ] {
            assert!(milli(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn memory_takes_suffixes_and_others_do_not() {
        let [mem, gpu] = ["mem", "gpu"].map(|n| builtin(n).unwrap().def());
        assert_eq!(amount(&mem, "5"), Ok(5_000));
        assert_eq!(amount(&mem, "5G"), Ok(5_120_000));
        assert_eq!(amount(&mem, "512K"), Ok(500));
        assert!(amount(&gpu, "5G").is_err() && amount(&mem, "9000P").is_err());
    }

    proptest! {
        #![proptest_config(crate::text::cases())]
        #[test]
        fn never_panics(s in ".{0,40}", t in r"[\[\], a0-9.:-]{0,40}") {
            for text in [&s, &t] {
                let _ = (milli(text), brackets(text, 3));
                for b in brackets(text, 100).unwrap_or_default() {
                    prop_assert_eq!(&text[b.at..b.at + b.text.len()], b.text);
                    let (word, rest) = b.first_word();
                    prop_assert!(text[word.at..].starts_with(word.text));
                    prop_assert!(text[rest.at..].starts_with(rest.text));
                }
            }
        }
    }
}
