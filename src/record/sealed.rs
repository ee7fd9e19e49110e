//! Checksums of small documents that are not framed: JSON objects, texts with `#` comments, and
//! lines of words.
//!
//! Each form stays readable for a program that does not know the checksum: in JSON it is the last
//! member (`"crc":"9ae0daaf"`), in a text the last line, a comment, and in a line the last word
//! (`=9ae0daaf`). A document without one was written by an earlier version and is accepted. Owns no
//! file.

use super::frame::{Damage, Damaged};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Number of hex digits of a checksum.
const DIGITS: usize = 8;
/// So many wrong bytes in the constant parts of a trailer are damage; more mean that there is none.
const WRONG_MAX: usize = 2;

/// The constant parts around the digits.
struct Trailer {
    before: &'static [u8],
    after: &'static [u8],
}

const JSON: Trailer = Trailer {
    before: b",\"crc\":\"",
    after: b"\"}",
};
const TEXT: Trailer = Trailer {
    before: b"# crc32c ",
    after: b"\n",
};
const WORDS: Trailer = Trailer {
    before: b" =",
    after: b"",
};

/// The content of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content<'a> {
    pub bytes: &'a [u8],
    /// It has a checksum, which is right.
    pub checked: bool,
}

/// What a trailer may be.
enum Found<'a> {
    None,
    Wrong(&'static str),
    Right(&'a [u8]),
}

impl Trailer {
    fn append(&self, out: &mut Vec<u8>) {
        let crc = crc32c::crc32c(out);
        out.extend_from_slice(self.before);
        out.extend_from_slice(format!("{crc:08x}").as_bytes());
        out.extend_from_slice(self.after);
    }

    fn find<'a>(&self, bytes: &'a [u8]) -> Found<'a> {
        let len = self.before.len() + DIGITS + self.after.len();
        let Some(from) = bytes.len().checked_sub(len) else {
            return Found::None;
        };
        let (content, tail) = bytes.split_at(from);
        let (before, rest) = tail.split_at(self.before.len());
        let (digits, after) = rest.split_at(DIGITS);
        let differ = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a != b).count();
        match differ(before, self.before) + differ(after, self.after) {
            0 => {}
            n if n <= WRONG_MAX.min(self.before.len() - 1) => {
                return Found::Wrong("the checksum's frame is damaged");
            }
            _ => return Found::None,
        }
        if digits != format!("{:08x}", crc32c::crc32c(content)).as_bytes() {
            return Found::Wrong("the checksum does not match");
        }
        Found::Right(content)
    }

    fn open<'a>(&self, bytes: &'a [u8]) -> Result<Content<'a>, Damaged> {
        match self.find(bytes) {
            Found::None => Ok(Content {
                bytes,
                checked: false,
            }),
            Found::Right(content) => Ok(Content {
                bytes: content,
                checked: true,
            }),
            Found::Wrong(what) => Err(Damaged {
                offset: 0,
                damage: Damage::Frame(what),
            }),
        }
    }
}

/// The JSON of an object, with its checksum as its last member.
///
/// # Errors
/// The value cannot be represented as JSON.
pub fn to_json<T: Serialize>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = serde_json::to_vec(value)?;
    // Only an object with members has room for one more.
    if out.len() > 2 && out.ends_with(b"}") {
        out.pop();
        JSON.append(&mut out);
    }
    Ok(out)
}

/// Decodes such an object; also returns whether it has a checksum.
///
/// # Errors
/// The checksum is wrong, or the JSON is not a `T`.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, bool), Damaged> {
    let content = JSON.open(bytes.trim_ascii_end())?;
    let value = serde_json::from_slice(bytes).map_err(|e| Damaged {
        offset: offset_of(bytes, &e),
        damage: Damage::Content(e.to_string()),
    })?;
    Ok((value, content.checked))
}

/// The offset that an error of a JSON document names.
fn offset_of(bytes: &[u8], e: &serde_json::Error) -> u64 {
    let lines = bytes.split_inclusive(|b| *b == b'\n');
    let before: usize = lines
        .take(e.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    let at = before + e.column().saturating_sub(1);
    at.min(bytes.len()) as u64
}

/// A text in which `#` begins a comment, with its checksum as last line.
pub fn seal_text(text: &[u8]) -> Vec<u8> {
    let mut out = text.to_vec();
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    TEXT.append(&mut out);
    out
}

/// The content of such a text.
///
/// # Errors
/// The checksum is wrong.
pub fn open_text(bytes: &[u8]) -> Result<Content<'_>, Damaged> {
    TEXT.open(bytes)
}

/// A line of words with its checksum as last word.
pub fn seal_words(words: &str) -> String {
    let mut out = words.as_bytes().to_vec();
    WORDS.append(&mut out);
    out.push(b'\n');
    String::from_utf8(out).expect("words and digits are text")
}

/// The words of such a line: of the first one, because the file may be longer while a shorter line
/// is written over it.
///
/// # Errors
/// The checksum is wrong or incomplete.
pub fn open_words(bytes: &[u8]) -> Result<Content<'_>, Damaged> {
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let opened = WORDS.open(line)?;
    if opened.checked || !line.windows(2).any(|pair| pair == b" =") {
        return Ok(opened);
    }
    Err(Damaged {
        offset: 0,
        damage: Damage::Frame("the checksum is incomplete"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::notices::NotifierState;

    /// Returns the flips and cuts of `good` after which `open` returns other data than before.
    #[allow(clippy::type_complexity)] // one reader, given once
    fn taken_for_data<T: PartialEq>(
        good: &[u8],
        open: &dyn Fn(&[u8]) -> Option<(T, bool)>,
    ) -> Vec<usize> {
        let (whole, _) = open(good).unwrap();
        let mut wrong = Vec::new();
        for at in 0..good.len() {
            for bit in [1u8, 8, 0x80] {
                let mut bad = good.to_vec();
                bad[at] ^= bit;
                if open(&bad).is_some() {
                    wrong.push(at);
                }
            }
            if open(&good[..at]).is_some_and(|(read, checked)| checked || read != whole) && at > 0 {
                wrong.push(at);
            }
        }
        wrong
    }

    #[test]
    fn no_flip_of_a_sealed_object_is_taken_for_data_and_an_unsealed_one_is_read() {
        let state = NotifierState {
            epoch: 7,
            lost: 812,
            ..NotifierState::default()
        };
        let good = to_json(&state).unwrap();
        assert_eq!(from_json(&good).unwrap(), (state.clone(), true));
        let open = |bytes: &[u8]| from_json::<NotifierState>(bytes).ok();
        assert_eq!(taken_for_data(&good, &open), [0; 0]);
        let plain = serde_json::to_vec(&state).unwrap();
        assert_eq!(from_json(&plain).unwrap(), (state.clone(), false));
        // An earlier version reads it.
        let earlier: NotifierState = serde_json::from_slice(&good).unwrap();
        assert_eq!(earlier, state);
    }

    #[test]
    fn an_object_that_is_no_json_is_named_with_the_offset() {
        let bad = b"{\"epoch\":1,\n\"seen\":x}";
        let damaged = from_json::<NotifierState>(bad).unwrap_err();
        assert_eq!(damaged.offset, 19, "{damaged}");
    }

    #[test]
    fn no_flip_of_a_sealed_text_or_line_is_taken_for_data() {
        let text = seal_text(b"cluster: {name: c}\nhosts: []");
        assert!(text.starts_with(b"cluster: {name: c}\nhosts: []\n# crc32c "));
        let open = |bytes: &[u8]| {
            let read = open_text(bytes).ok()?;
            read.checked.then(|| (read.bytes.to_vec(), true))
        };
        assert_eq!(taken_for_data(&text, &open), [0; 0]);
        assert!(!open_text(b"hosts: []\n").unwrap().checked);
        let line = seal_words("60000 120000");
        let open = |bytes: &[u8]| {
            let read = open_words(bytes).ok()?;
            let text = String::from_utf8(read.bytes.to_vec()).ok()?;
            Some((text, read.checked))
        };
        let wrong = taken_for_data(line.as_bytes(), &open);
        // A cut within the words leaves a line as earlier versions wrote it; the newline is not needed.
        let end = line.len() - 1;
        assert!(
            wrong
                .iter()
                .all(|at| *at < "60000 120000 =".len() || *at >= end),
            "{wrong:?}"
        );
        assert_eq!(open(b"60000 "), Some(("60000 ".to_owned(), false)));
        assert_eq!(
            open(line.as_bytes()),
            Some(("60000 120000".to_owned(), true))
        );
    }
}
