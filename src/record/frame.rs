//! Framing of records: `- {json} #<seq> <len> <crc>\n`.
//!
//! `seq` counts from 0 in each file without a gap (0 is the header), `len` is the number of bytes
//! of the JSON text, `crc` is CRC32C (eight hex digits) over the decimal text of `seq` followed by
//! the JSON text. A reader accepts a prefix of complete, intact, gapless lines; anything else is
//! reported by its byte offset. Owns no file; never guesses at damaged bytes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum length of an accepted line in bytes. A longer one is damage, not data.
pub const LINE_MAX: usize = 16 << 20;
/// Maximum length of a written line if every line must be readable: a later copy of it with another
/// sequence number is slightly longer.
pub const WRITE_MAX: usize = LINE_MAX - 64;

/// Appends one framed record to `out`.
///
/// # Errors
/// Fails only when `value` cannot be represented as JSON.
pub fn write<T: Serialize>(
    out: &mut Vec<u8>,
    seq: u64,
    value: &T,
) -> Result<(), serde_json::Error> {
    let start = out.len();
    out.extend_from_slice(b"- ");
    let from = out.len();
    if let Err(e) = serde_json::to_writer(&mut *out, value) {
        out.truncate(start);
        return Err(e);
    }
    finish_line(out, from, seq);
    Ok(())
}

/// Appends one framed record whose JSON text exists: one line without a raw newline.
pub fn write_json(out: &mut Vec<u8>, seq: u64, json: &[u8]) {
    // A record is one line.
    debug_assert!(!json.contains(&b'\n'));
    out.extend_from_slice(b"- ");
    let from = out.len();
    out.extend_from_slice(json);
    finish_line(out, from, seq);
}

/// Completes a line whose JSON text was written to `out` from byte `from` on (after `- `).
fn finish_line(out: &mut Vec<u8>, from: usize, seq: u64) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(seq).as_bytes();
    let crc = crc32c::crc32c_append(crc32c::crc32c(digits), &out[from..]);
    let len = out.len() - from;
    out.extend_from_slice(b" #");
    out.extend_from_slice(digits);
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    out.push(b' ');
    for shift in (0..8).rev() {
        out.push(b"0123456789abcdef"[((crc >> (shift * 4)) & 15) as usize]);
    }
    out.push(b'\n');
}

/// The kind of damage at an offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The last line lacks its newline: an incomplete write, or one in progress.
    Torn,
    /// The line's frame, length or checksum is wrong.
    Frame(&'static str),
    /// The line is intact but its sequence number is not the expected one.
    Sequence { expected: u64, found: u64 },
    /// The frame is intact, but the content is not of the expected type.
    Content(String),
}

/// Damage and its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damaged {
    /// Byte offset of the line in the file.
    pub offset: u64,
    pub damage: Damage,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Torn => f.write_str("the last line is incomplete"),
            Damage::Frame(what) => f.write_str(what),
            Damage::Sequence { expected, found } => {
                write!(f, "record {found} is in the place of record {expected}")
            }
            Damage::Content(what) => write!(f, "the record is intact but not understood: {what}"),
        }
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.damage)
    }
}

impl std::error::Error for Damaged {}

/// One intact line: its sequence number and JSON text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    pub seq: u64,
    pub json: &'a [u8],
}

impl<'a> Line<'a> {
    /// Decodes the record; text in it may be borrowed from the line.
    ///
    /// # Errors
    /// [`Damage::Content`] if the JSON is not a `T`.
    pub fn decode<T: Deserialize<'a>>(&self) -> Result<T, Damage> {
        serde_json::from_slice(self.json).map_err(|e| Damage::Content(e.to_string()))
    }
}

/// Checks and splits one line (without its newline).
///
/// # Errors
/// [`Damage::Frame`] with the part that is wrong.
pub fn parse_line(line: &[u8]) -> Result<Line<'_>, Damage> {
    if line.len() > LINE_MAX {
        return Err(Damage::Frame("line longer than the limit"));
    }
    let body = line
        .strip_prefix(b"- ")
        .ok_or(Damage::Frame("line does not begin with '- '"))?;
    // The trailer is at most "#" + 20 + 1 + 20 + 1 + 8 bytes: never search the whole text.
    let tail_from = body.len().saturating_sub(52);
    let mark = body[tail_from..]
        .windows(2)
        .rposition(|w| w == b" #")
        .ok_or(Damage::Frame("no checksum at the end of the line"))?
        + tail_from;
    let json = &body[..mark];
    let trailer = std::str::from_utf8(&body[mark + 2..])
        .map_err(|_| Damage::Frame("the checksum is not text"))?;
    let mut parts = trailer.split(' ');
    let (Some(seq), Some(len), Some(crc), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Damage::Frame("the checksum does not have three parts"));
    };
    if crc.len() != 8 {
        return Err(Damage::Frame("the checksum does not have eight digits"));
    }
    // One text form per value: a changed case of a letter is damage like any other.
    if !crc.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(Damage::Frame("bad checksum digits"));
    }
    let crc = u32::from_str_radix(crc, 16).map_err(|_| Damage::Frame("bad checksum digits"))?;
    if len.parse() != Ok(json.len()) {
        return Err(Damage::Frame("the length does not match"));
    }
    if crc32c::crc32c_append(crc32c::crc32c(seq.as_bytes()), json) != crc {
        return Err(Damage::Frame("the checksum does not match"));
    }
    let seq: u64 = seq
        .parse()
        .map_err(|_| Damage::Frame("bad sequence number"))?;
    Ok(Line { seq, json })
}

/// Reads framed lines from bytes, in order, and stops at the first damage.
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// Offset in the file of `bytes[0]`.
    base: u64,
    at: usize,
    next_seq: u64,
}

impl<'a> Reader<'a> {
    /// A reader over a whole file.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader::resume(bytes, 0, 0)
    }

    /// A reader over the bytes from file offset `base` on, where record `next_seq` is expected.
    pub fn resume(bytes: &'a [u8], base: u64, next_seq: u64) -> Reader<'a> {
        Reader {
            bytes,
            base,
            at: 0,
            next_seq,
        }
    }

    /// File offset after the last intact record.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The next expected sequence number.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The next intact line, `None` at the end of the bytes.
    ///
    /// # Errors
    /// [`Damaged`] if a line is incomplete, damaged or out of sequence. Another call repeats the
    /// error.
    pub fn next_line(&mut self) -> Result<Option<Line<'a>>, Damaged> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let damaged = |damage| Damaged {
            offset: self.base + self.at as u64,
            damage,
        };
        let Some(end) = memchr::memchr(b'\n', rest) else {
            return Err(damaged(Damage::Torn));
        };
        let line = parse_line(&rest[..end]).map_err(damaged)?;
        if line.seq != self.next_seq {
            let expected = self.next_seq;
            return Err(damaged(Damage::Sequence {
                expected,
                found: line.seq,
            }));
        }
        self.at += end + 1;
        self.next_seq += 1;
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(n: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for seq in 0..n {
            write(
                &mut out,
                seq,
                &serde_json::json!({"k": "x", "text": format!(" #{seq} 5 é\n")}),
            )
            .unwrap();
        }
        out
    }

    fn read_all(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<Damaged>) {
        let mut reader = Reader::new(bytes);
        let mut lines = Vec::new();
        loop {
            match reader.next_line() {
                Ok(Some(line)) => lines.push(line.json.to_vec()),
                Ok(None) => return (lines, None),
                Err(e) => return (lines, Some(e)),
            }
        }
    }

    #[test]
    fn every_flip_of_a_byte_gives_a_prefix_and_a_named_error() {
        let good = sample(20);
        let (whole, none) = read_all(&good);
        assert!(none.is_none() && whole.len() == 20);
        for at in 0..good.len() {
            for bit in [1u8, 0x80] {
                let mut bad = good.clone();
                bad[at] ^= bit;
                let (lines, damage) = read_all(&bad);
                assert!(damage.is_some(), "flip at {at} went unseen");
                assert!(
                    whole.starts_with(&lines),
                    "flip at {at} gave different data"
                );
            }
        }
    }

    #[test]
    fn every_truncation_gives_a_prefix() {
        let good = sample(20);
        let (whole, _) = read_all(&good);
        for len in 0..good.len() {
            let (lines, damage) = read_all(&good[..len]);
            assert!(whole.starts_with(&lines));
            let at_boundary = len == 0 || good[len - 1] == b'\n';
            assert_eq!(damage.is_none(), at_boundary);
        }
    }

    #[test]
    fn reordered_and_repeated_records_are_refused() {
        let good = sample(3);
        let lines: Vec<&[u8]> = good.split_inclusive(|b| *b == b'\n').collect();
        let (intact, damage) = read_all(&[lines[0], lines[2], lines[1]].concat());
        assert_eq!(intact.len(), 1);
        assert_eq!(
            damage.unwrap().damage,
            Damage::Sequence {
                expected: 1,
                found: 2
            }
        );
        let (intact, damage) = read_all(&[lines[0], lines[1], lines[1]].concat());
        assert_eq!((intact.len(), damage.is_some()), (2, true));
    }

    #[test]
    fn a_huge_length_field_is_refused() {
        let line = b"- {} #0 9223372036854775808 00000000";
        assert!(matches!(parse_line(line), Err(Damage::Frame(_))));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            prop_assert!(read_all(&bytes).0.is_empty());
            prop_assert!(parse_line(&bytes).is_err());
        }
    }
}
