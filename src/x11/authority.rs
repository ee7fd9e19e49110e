//! Cookie files in the format of `xauth`. Owns their form: reads what a display needs, makes the
//! entry of another one; opens no file.
//!
//! An entry is the number of a family and four texts (address, number of the display, name, data),
//! each after its length; all numbers have two bytes, high byte first.

use super::setup::NAME;
use crate::channel::Cookie;

/// The display to which an entry applies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    V4([u8; 4]),
    V6([u8; 16]),
    /// The machine with this name itself.
    Local(String),
    Any,
}

impl Address {
    fn parts(&self) -> (u16, &[u8]) {
        match self {
            Address::V4(bytes) => (0, bytes),
            Address::V6(bytes) => (6, bytes),
            Address::Local(name) => (256, name.as_bytes()),
            Address::Any => (65_535, b""),
        }
    }
}

/// The first cookie in a file for one of these addresses; `None` if there is none.
///
/// # Errors
/// The file is damaged before there is one.
pub(super) fn cookie(
    mut file: &[u8],
    of: &[Address],
    display: u16,
) -> Result<Option<Cookie>, &'static str> {
    let display = display.to_string();
    let any = Address::Any;
    while !file.is_empty() {
        let family = take_number(&mut file)?;
        let [address, number, name, data] = [
            take_text(&mut file)?,
            take_text(&mut file)?,
            take_text(&mut file)?,
            take_text(&mut file)?,
        ];
        let (any, _) = any.parts();
        let is_address = family == any || of.iter().any(|a| a.parts() == (family, address));
        let numbered = number.is_empty() || number == display.as_bytes();
        if let (true, true, true, Ok(bytes)) = (is_address, numbered, name == NAME, data.try_into())
        {
            return Ok(Some(Cookie::new(bytes)));
        }
    }
    Ok(None)
}

fn take_number(file: &mut &[u8]) -> Result<u16, &'static str> {
    let (number, rest) = file
        .split_first_chunk()
        .ok_or("it ends within an entry: it is damaged")?;
    *file = rest;
    Ok(u16::from_be_bytes(*number))
}

fn take_text<'a>(file: &mut &'a [u8]) -> Result<&'a [u8], &'static str> {
    let len = usize::from(take_number(file)?);
    let (text, rest) = file
        .split_at_checked(len)
        .ok_or("it ends within an entry: it is damaged")?;
    *file = rest;
    Ok(text)
}

/// The entry of a display. Overlong names of machines are cut.
pub(crate) fn entry(of: &Address, display: u16, cookie: &Cookie) -> Vec<u8> {
    let (family, address) = of.parts();
    let mut out = family.to_be_bytes().to_vec();
    let number = display.to_string();
    let address = &address[..address.len().min(255)];
    for text in [address, number.as_bytes(), NAME, cookie.bytes()] {
        out.extend_from_slice(&[0, text.len() as u8]);
        out.extend_from_slice(text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(name: &str) -> Address {
        Address::Local(name.to_owned())
    }

    fn c(n: u8) -> Cookie {
        Cookie::new([n; 16])
    }

    #[test]
    fn the_entry_of_the_display_is_found_among_others() {
        let mut other = entry(&local("h1"), 0, &c(1));
        // Another kind of secret, a secret of another length, another display, another machine.
        other[13] ^= 1;
        let mut short = entry(&local("h1"), 0, &c(2));
        short.truncate(short.len() - 1);
        let at = short.len() - 16;
        short[at] = 15;
        let file = [
            other,
            short,
            entry(&local("h1"), 10, &c(3)),
            entry(&local("h2"), 0, &c(4)),
            entry(&Address::V4([10, 0, 0, 1]), 0, &c(5)),
            entry(&Address::V6([7; 16]), 0, &c(6)),
            entry(&local("h1"), 0, &c(7)),
            entry(&local("h1"), 0, &c(8)),
        ]
        .concat();
        for (of, display, found) in [
            (local("h1"), 0, Some(c(7))),
            (local("h1"), 10, Some(c(3))),
            (local("h1"), 1, None),
            (local("h"), 0, None),
            (Address::V4([10, 0, 0, 1]), 0, Some(c(5))),
            (Address::V4([10, 0, 0, 2]), 0, None),
            (Address::V6([7; 16]), 0, Some(c(6))),
        ] {
            assert_eq!(cookie(&file, &[of], display), Ok(found));
        }
        let several = [local("h3"), Address::V4([10, 0, 0, 1])];
        assert_eq!(cookie(&file, &several, 0), Ok(Some(c(5))));
        // For every machine, for every display.
        let mut any = entry(&Address::Any, 0, &c(9));
        assert_eq!(cookie(&any, &[], 0), Ok(Some(c(9))));
        assert_eq!(cookie(&any, &[local("h1")], 1), Ok(None));
        any.splice(4..7, [0, 0]);
        assert_eq!(cookie(&any, &[local("h1")], 1), Ok(Some(c(9))));
        assert_eq!(cookie(b"", &[local("h1")], 0), Ok(None));
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_damaged_and_what_stands_before_counts() {
        let first = entry(&local("h1"), 0, &c(1));
        let file = [first.clone(), entry(&local("h2"), 0, &c(2))].concat();
        for n in 0..file.len() {
            let cut = &file[..n];
            let found = cookie(cut, &[local("h1")], 0);
            match n >= first.len() {
                true => assert_eq!(found, Ok(Some(c(1))), "at byte {n}"),
                false => assert_eq!(found.is_err(), n > 0, "at byte {n}"),
            }
            let found = cookie(cut, &[local("h2")], 0);
            assert_eq!(found.is_err(), n > 0 && n != first.len(), "at byte {n}");
        }
        for bad in [&[255; 100][..], b"#!/bin/sh\n", &[0, 0, 255, 255, 1]] {
            assert!(cookie(bad, &[local("h1")], 0).is_err());
        }
        let long = entry(&local(&"h".repeat(9_999)), 0, &c(1));
        assert_eq!(cookie(&long, &[local(&"h".repeat(255))], 0), Ok(Some(c(1))));
    }
}
