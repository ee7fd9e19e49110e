//! The leading fields of a job row, read from its bytes without decoding the rest.
//!
//! Owns the form in which the leader writes them. A row in another form is decoded as a whole.

use crate::model::{JobKey, JobStat};
use crate::record::frame::Damage;
use crate::record::view::JobRow;

/// The leading fields of a job row, read without decoding it.
pub(super) struct RowHead<'a> {
    pub(super) key: JobKey,
    pub(super) spec: u32,
    pub(super) stat: JobStat,
    /// The data after them; empty if the row was written in another form.
    pub(super) rest: &'a [u8],
}

pub(super) const JOB_PREFIX: &[u8] = b"{\"k\":\"job\",";

/// Reads `{"k":"job","j":"12[3]","s":4,"p":"RUN"`; `None` if the row has another form.
pub(super) fn peek(json: &[u8]) -> Option<RowHead<'_>> {
    let rest = json.strip_prefix(b"{\"k\":\"job\",\"j\":\"")?;
    let (id, rest) = digits(rest)?;
    let (idx, rest) = match rest.strip_prefix(b"[") {
        None => (0, rest),
        Some(rest) => {
            let (idx, rest) = digits(rest)?;
            (idx, rest.strip_prefix(b"]")?)
        }
    };
    let (spec, rest) = digits(rest.strip_prefix(b"\",\"s\":")?)?;
    let rest = rest.strip_prefix(b",\"p\":\"")?;
    let end = rest.iter().take(6).position(|b| *b == b'"')?;
    let (word, rest) = (&rest[..end], &rest[end + 1..]);
    let stat = match word {
        [b'P', b'E', ..] => JobStat::Pend,
        [b'P', b'S', ..] => JobStat::Psusp,
        [b'R', ..] => JobStat::Run,
        [b'U', b'S', ..] => JobStat::Ususp,
        [b'U', b'N', ..] => JobStat::Unkwn,
        [b'S', ..] => JobStat::Ssusp,
        [b'D', ..] => JobStat::Done,
        [b'E', ..] => JobStat::Exit,
        _ => return None,
    };
    let key = JobKey { id, idx };
    Some(RowHead {
        key,
        spec,
        stat,
        rest,
    })
}

fn digits(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value: u32 = 0;
    let mut n = 0;
    while let Some(d) = bytes.get(n).filter(|b| b.is_ascii_digit()) {
        value = value.checked_mul(10)?.checked_add(u32::from(d - b'0'))?;
        n += 1;
    }
    (n > 0).then_some((value, &bytes[n..]))
}

/// The leading fields of a job row; `None` if it is another kind of row.
pub(super) fn peek_or_decode(json: &[u8]) -> Result<Option<RowHead<'_>>, Damage> {
    if let Some(p) = peek(json) {
        return Ok(Some(p));
    }
    if !json.starts_with(JOB_PREFIX) {
        return Ok(None);
    }
    let row: JobRow<'_> = decode_job(json)?;
    Ok(Some(RowHead {
        key: row.j,
        spec: row.s,
        stat: row.stat,
        rest: &[],
    }))
}

/// Decodes the row itself: it ignores the tag in front as an unknown field; decoding through a
/// tagged enum would cost more than the row.
pub(super) fn decode_job(json: &[u8]) -> Result<JobRow<'_>, Damage> {
    serde_json::from_slice(json).map_err(|e| Damage::Content(e.to_string()))
}
