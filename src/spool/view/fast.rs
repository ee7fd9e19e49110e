//! Decodes the usual job row with hand-written code.
//!
//! Owns a shortcut, never a format: anything unexpected (another order of bytes, an escape, a
//! nested value) is left to the general decoder, and the result is always the same as that
//! decoder's.

use crate::model::{JobKey, JobStat, TermReason};
use crate::record::view::JobRow;
use std::borrow::Cow;

/// Reads the rest of a row whose leading fields (`k`, `j`, `s`, `p`) are known; `rest` begins after
/// them. `None` = use the general decoder.
pub(super) fn job<'a>(
    key: JobKey,
    spec: u32,
    stat: JobStat,
    mut rest: &'a [u8],
) -> Option<JobRow<'a>> {
    let mut row = JobRow {
        j: key,
        s: spec,
        stat,
        ..JobRow::default()
    };
    loop {
        rest = match rest {
            b"}" => return Some(row),
            [b',', b'"', more @ ..] => more,
            _ => return None,
        };
        let (name, value) = split_name(rest)?;
        rest = match name {
            b"t" => number(value, &mut row.submit)?,
            b"o" => number(value, &mut row.order)?,
            b"n" => text(value, &mut row.name)?,
            b"c" => text(value, &mut row.command)?,
            b"cl" => number(value, &mut row.class)?,
            b"at" => number(value, &mut row.attempt)?,
            b"dt" => number(value, &mut row.dispatch)?,
            b"st" => number(value, &mut row.start)?,
            b"et" => number(value, &mut row.end)?,
            b"sig" => number(value, &mut row.sig)?,
            b"sus" => number(value, &mut row.suspended_ms)?,
            b"code" => {
                let mut code = 0;
                let after = number(value, &mut code)?;
                row.code = Some(code);
                after
            }
            b"tr" => {
                let mut word = Cow::Borrowed("");
                let after = text(value, &mut word)?;
                if word != "none" {
                    return None;
                }
                row.reason = TermReason::None;
                after
            }
            _ => return None,
        };
    }
}

/// The member's name and what follows its colon.
fn split_name(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = rest.iter().take(8).position(|b| *b == b'"')?;
    let value = rest[end + 1..].strip_prefix(b":")?;
    Some((&rest[..end], value))
}

/// An integer as JSON writes it, in the range of `N`.
fn number<'a, N: TryFrom<i64>>(value: &'a [u8], into: &mut N) -> Option<&'a [u8]> {
    let (minus, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    // Eighteen digits always fit; a leading zero is not JSON.
    if len == 0 || len > 18 || (len > 1 && digits[0] == b'0') {
        return None;
    }
    let size = digits[..len]
        .iter()
        .fold(0i64, |n, b| n * 10 + i64::from(b - b'0'));
    *into = N::try_from(if minus { -size } else { size }).ok()?;
    let rest = &digits[len..];
    // A fraction or an exponent is left to the general decoder.
    matches!(rest.first(), Some(b',' | b'}')).then_some(rest)
}

/// A string without escapes.
fn text<'a>(value: &'a [u8], into: &mut Cow<'a, str>) -> Option<&'a [u8]> {
    let inside = value.strip_prefix(b"\"")?;
    let end = inside
        .iter()
        .position(|b| *b == b'"' || *b == b'\\' || *b < b' ')?;
    if inside[end] != b'"' {
        return None;
    }
    *into = Cow::Borrowed(std::str::from_utf8(&inside[..end]).ok()?);
    Some(&inside[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::super::row_head::{JOB_PREFIX, decode_job, peek};
    use super::*;
    use proptest::prelude::*;

    fn quick(json: &[u8]) -> Option<JobRow<'_>> {
        let p = peek(json)?;
        job(p.key, p.spec, p.stat, p.rest)
    }

    #[test]
    fn usual_rows_take_the_shortcut() {
        let json =
            br#"{"k":"job","j":"7","s":2,"p":"PEND","t":5,"o":-3,"n":"x","c":"sleep 1","cl":4}"#;
        let row = quick(json).expect("a usual row");
        assert_eq!(row, decode_job(json).expect("a row"));
        let done = br#"{"k":"job","j":"7","s":2,"p":"DONE","et":9,"code":0,"tr":"none"}"#;
        let done = quick(done).expect("a usual row");
        assert_eq!((done.end, done.code), (9, Some(0)));
        assert_eq!((row.order, &*row.command, row.class), (-3, "sleep 1", 4));
    }

    #[test]
    fn odd_rows_do_not() {
        let head = r#"{"k":"job","j":"7","s":2,"p":"PEND""#;
        for tail in [
            r#","n":"a\"b"}"#,
            r#","t":1.5}"#,
            r#","t":01}"#,
            r#","at":-1}"#,
            r#","h":[["h1",1]]}"#,
            r#","t":1} "#,
            r#","new":1}"#,
            r#","tr":"owner"}"#,
            r#""#,
        ] {
            assert!(
                quick(format!("{head}{tail}").as_bytes()).is_none(),
                "{tail}"
            );
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_general_decoder(
            t in any::<i64>(),
            order in any::<i64>(),
            name in "[a-z\"\\\\作 ]{0,6}",
            command in ".{0,12}",
            class in any::<u32>(),
            code in proptest::option::of(any::<i32>()),
            sus in any::<u64>(),
        ) {
            let row = JobRow {
                j: JobKey::element(9, 3),
                s: 1,
                submit: t,
                order,
                name: name.into(),
                command: command.into(),
                class,
                code,
                suspended_ms: sus,
                ..JobRow::default()
            };
            let mut json = serde_json::to_vec(&row).expect("JSON");
            json.splice(..1, JOB_PREFIX.iter().copied());
            if let Some(quick) = quick(&json) {
                prop_assert_eq!(quick, row);
            }
        }

        #[test]
        fn never_panics(bytes: Vec<u8>, tail in "[\",:{}a-z0-9-]{0,40}") {
            prop_assert!(quick(&bytes).is_none());
            let head = r#"{"k":"job","j":"7","s":2,"p":"PEND""#;
            let _ = quick(format!("{head}{tail}").as_bytes());
        }
    }
}
