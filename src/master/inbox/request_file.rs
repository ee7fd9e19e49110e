//! The content of a request file: complete, ended early, or invalid. Reads no file, judges no
//! request.

use crate::record::frame::{Damage, Damaged, Reader};
use crate::record::header::{FileKind, Header};
use crate::record::request::{RequestHead, VERBS_MAX, Verb};

/// Why a request file cannot be carried out.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub why: String,
    /// It may be completed later: it ends early, and contains no error up to there.
    pub partial: bool,
}

/// Decodes a request file.
///
/// # Errors
/// The damage and its offset, and whether the file only ends early.
pub fn parse(bytes: &[u8]) -> Result<(RequestHead, Vec<Verb>), Unreadable> {
    let bad = |why: String| Unreadable {
        why,
        partial: false,
    };
    let early = |why: &str| Unreadable {
        why: why.to_owned(),
        partial: true,
    };
    let damaged = |e: Damaged| Unreadable {
        partial: matches!(e.damage, Damage::Torn),
        why: e.to_string(),
    };
    let mut reader = Reader::new(bytes);
    let header = Header::read(&mut reader, FileKind::Request, None).map_err(damaged)?;
    header.ok_or_else(|| early("the request is empty"))?;
    let at = reader.offset();
    let head = reader.next_line().map_err(damaged)?;
    let head = head.ok_or_else(|| early("the request has no head"))?;
    let undecodable = |at: u64, d: Damage| bad(format!("at byte {at}: {d:?}"));
    let head: RequestHead = head.decode().map_err(|d| undecodable(at, d))?;
    // A request without a number of verbs was renamed into its place, so it is complete.
    let (stated, mut verbs) = (head.verbs as usize, Vec::new());
    let cut = |e: Damaged| Unreadable {
        partial: stated > 0 && matches!(e.damage, Damage::Torn),
        why: e.to_string(),
    };
    loop {
        let at = reader.offset();
        let Some(line) = reader.next_line().map_err(cut)? else {
            break;
        };
        if verbs.len() >= VERBS_MAX {
            return Err(bad(format!("more than {VERBS_MAX} verbs")));
        }
        verbs.push(line.decode().map_err(|d| undecodable(at, d))?);
    }
    match verbs.len() {
        n if n < stated => Err(early("the request ends before its last verb")),
        0 => Err(bad("the request has no verbs".to_owned())),
        n if stated > 0 && n > stated => {
            Err(bad(format!("{n} verbs, but the head states {stated}")))
        }
        _ => Ok((head, verbs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Token;
    use crate::record::frame;
    use crate::record::request::Selector;

    fn request(stated: u32, verbs: u64) -> Vec<u8> {
        let head = RequestHead {
            token: Token(5),
            verbs: stated,
            ..RequestHead::default()
        };
        let verb = Verb::Switch {
            sel: Selector::default(),
            queue: "q".into(),
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, 0, &Header::new(FileKind::Request, "", 0, 0)).unwrap();
        frame::write(&mut bytes, 1, &head).unwrap();
        (0..verbs).for_each(|n| frame::write(&mut bytes, n + 2, &verb).unwrap());
        bytes
    }

    fn is_partial(bytes: &[u8]) -> bool {
        parse(bytes).unwrap_err().partial
    }

    #[test]
    fn every_beginning_of_a_request_that_states_its_verbs_only_ends_early() {
        let whole = request(3, 3);
        assert_eq!(parse(&whole).unwrap().1.len(), 3);
        for len in 0..whole.len() {
            assert!(is_partial(&whole[..len]), "{len} bytes");
        }
    }

    #[test]
    fn what_is_wrong_and_what_was_renamed_into_place_does_not_become_better() {
        assert!(!is_partial(&request(2, 3)), "more than stated");
        assert!(!is_partial(&request(0, 0)), "asks for nothing");
        assert!(!is_partial(b"hello\n"));
        let renamed = request(0, 2);
        assert!(!is_partial(&renamed[..renamed.len() - 1]), "cut off");
        let mut flipped = request(2, 2);
        let last = flipped.len() - 10;
        flipped[last] ^= 1;
        assert!(!is_partial(&flipped));
    }
}
