//! A request as it is written, before it is sent. Does no input or output.

use crate::client::env::Site;
use crate::client::exit::Fail;
use crate::model::Token;
use crate::record::frame;
use crate::record::header::{self, Header};
use crate::record::request::{REQUEST_MAX, RequestHead, SHORT_MAX, VERBS_MAX, Verb};
use crate::sys;

/// A request being composed: the bytes of the file grow as verbs are added, so that a pack of many
/// jobs is never in memory twice.
pub(crate) struct Outgoing {
    pub(super) token: Token,
    head: RequestHead,
    /// Offset of the end of the head's line.
    verbs_at: usize,
    bytes: Vec<u8>,
    /// Number of the next record.
    seq: u64,
}

impl Outgoing {
    /// A request without verbs. `head` needs only what the caller knows: environment, script and
    /// input; token, host, pid and time are filled in here.
    ///
    /// # Errors
    /// The head cannot be written as JSON.
    pub(crate) fn new(site: &Site, head: RequestHead) -> Result<Outgoing, Fail> {
        let head = RequestHead {
            token: new_token(),
            host: site.host.clone(),
            pid: sys::proc::own_pid(),
            t: sys::clock::wall_ms(),
            ..head
        };
        let mut bytes = Vec::with_capacity(16 << 10);
        write_head(&mut bytes, &head)?;
        Ok(Outgoing {
            token: head.token,
            verbs_at: bytes.len(),
            head,
            bytes,
            seq: 2,
        })
    }

    /// The whole file. A short request states its number of verbs.
    ///
    /// # Errors
    /// The head cannot be written as JSON.
    pub(super) fn into_bytes(mut self) -> Result<Vec<u8>, Fail> {
        if self.bytes.len() > SHORT_MAX {
            return Ok(self.bytes);
        }
        self.head.verbs = u32::try_from(self.len()).unwrap_or(0);
        let mut bytes = Vec::with_capacity(self.bytes.len() + 32);
        write_head(&mut bytes, &self.head)?;
        bytes.extend_from_slice(&self.bytes[self.verbs_at..]);
        Ok(bytes)
    }

    /// Adds a verb.
    ///
    /// # Errors
    /// The request would become larger than a leader accepts.
    pub(crate) fn push(&mut self, verb: &Verb) -> Result<(), Fail> {
        if self.seq - 2 >= VERBS_MAX as u64 {
            return Err(Fail::usage(format!(
                "more than {VERBS_MAX} parts in one request: send it in several"
            )));
        }
        frame::write(&mut self.bytes, self.seq, verb).map_err(failed)?;
        self.seq += 1;
        if self.bytes.len() > REQUEST_MAX {
            return Err(Fail::usage(format!(
                "the request is larger than {REQUEST_MAX} bytes: send it in several"
            )));
        }
        Ok(())
    }

    /// The number of verbs.
    pub(crate) fn len(&self) -> u64 {
        self.seq - 2
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn write_head(bytes: &mut Vec<u8>, head: &RequestHead) -> Result<(), Fail> {
    let header = Header::new(header::FileKind::Request, "", 0, 0);
    frame::write(bytes, 0, &header).map_err(failed)?;
    frame::write(bytes, 1, head).map_err(failed)
}

fn failed(e: serde_json::Error) -> Fail {
    Fail::usage(format!("cannot encode the request: {e}"))
}

fn new_token() -> Token {
    let mut bytes = [0u8; 16];
    sys::clock::random(&mut bytes);
    Token(u128::from_le_bytes(bytes))
}
