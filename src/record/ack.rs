//! Answers of the leader to requests: `epoch/<n>/acks.yaml`, framed, append-only, one per request.

use crate::model::Token;
use serde::{Deserialize, Serialize};

/// Maximum number of single results in one answer; more are counted in `more`.
pub const RESULTS_MAX: usize = 10_000;

/// The answer to one request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename = "ack")]
pub struct Ack {
    pub tok: Token,
    /// The request as a whole was understood; single verbs may nevertheless have failed.
    pub ok: bool,
    /// Why the whole request was refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// For a pack: id of the first job and number of consecutive ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<IdRun>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Outcome>,
    /// Number of results omitted because of [`RESULTS_MAX`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// The request was refused because too many jobs are pending: the same request may succeed
    /// after this time. 0 = it was accepted, or refused for another reason.
    #[serde(default, skip_serializing_if = "is_zero_s")]
    pub retry_s: u32,
}

impl Ack {
    /// An answer without results yet.
    #[must_use]
    pub fn empty(tok: Token) -> Ack {
        Ack {
            tok,
            ok: true,
            error: String::new(),
            ids: Vec::new(),
            results: Vec::new(),
            more: 0,
            retry_s: 0,
        }
    }

    /// The answer to a request that was not carried out at all.
    #[must_use]
    pub fn refused(tok: Token, error: String) -> Ack {
        Ack {
            ok: false,
            error,
            ..Ack::empty(tok)
        }
    }
}

fn is_zero_i64(n: &i64) -> bool {
    *n == 0
}

fn is_zero_s(n: &u32) -> bool {
    *n == 0
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Consecutive job ids for consecutive pack lines.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IdRun {
    /// Line of the first job, 0 for a plain submission.
    pub line: u32,
    pub id: u32,
    pub n: u32,
    pub queue: String,
    /// The queue was chosen from the default list.
    #[serde(default)]
    pub default: bool,
    /// An earlier job with the same `--key` exists: no new job was created.
    #[serde(default)]
    pub known: bool,
    /// When the first of them was accepted (ms, as in its row of the view): distinguishes it from
    /// another job that has its id after the share was restored from a copy. 0 = unknown.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    pub t: i64,
}

/// The result for one verb, pack line or job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// `123[4]`, a queue or host name, or `line 7`.
    pub what: String,
    pub code: Code,
    /// A sentence for the user, lower-case, without a full stop.
    pub text: String,
}

/// Kinds of outcome; the client maps them to exit codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    Ok,
    NotFound,
    Usage,
    Permission,
    Refused,
}
