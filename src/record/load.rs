//! `hosts/<host>/load.yaml`: a host's heartbeat, facts and load, overwritten in place by cbls.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Size of the file; padded with spaces (see `leader::FIXED_LEN` for why).
pub const LOAD_LEN: usize = 4096;

/// One sample. Memory figures in MB, `ut` in 0..1, rates per second, `it` in minutes.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadDoc {
    pub host: String,
    /// Changes with every reboot of the machine.
    pub boot: String,
    /// Random id of this cbls process.
    pub incarnation: String,
    /// Increments with every write; observers judge life by its change, never by the time.
    pub beat: u64,
    /// The host's wall clock, for display and skew warnings only.
    pub t: i64,
    /// Milliseconds between beats.
    pub every_ms: u64,
    /// Whether cbexe of this host was seen alive by cbls (its local beat).
    pub executor: bool,
    /// The ledger by which that cbexe remembers; empty = it does not say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ledger: String,
    pub version: String,
    pub ncpus: u32,
    pub maxmem: u64,
    pub maxswp: u64,
    pub maxtmp: u64,
    pub ndisks: u32,
    #[serde(rename = "type")]
    pub host_type: String,
    pub model: String,
    pub r15s: f64,
    pub r1m: f64,
    pub r15m: f64,
    pub ut: f64,
    pub pg: f64,
    pub io: f64,
    pub ls: f64,
    pub it: f64,
    pub tmp: f64,
    pub swp: f64,
    pub mem: f64,
    /// Highest epoch whose orders this host has followed, and highest job id it was given: what a
    /// share that was restored from a backup has forgotten.
    #[serde(skip_serializing_if = "is_zero")]
    pub epoch: u64,
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub top: u32,
    /// Anything a human should know about this host (cgroups absent, clock, mount).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Values of sensors (a later step): name -> value text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn is_zero_u32(n: &u32) -> bool {
    *n == 0
}

/// Encodes a sample for overwriting in place.
///
/// # Errors
/// Fails when the document does not fit into [`LOAD_LEN`].
pub fn encode(doc: &LoadDoc) -> Result<Vec<u8>, String> {
    let mut out = serde_json::to_vec(doc).map_err(|e| e.to_string())?;
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(format!(" #{crc:08x}").as_bytes());
    if out.len() >= LOAD_LEN {
        return Err(format!(
            "load document of {} bytes exceeds {LOAD_LEN}",
            out.len()
        ));
    }
    out.resize(LOAD_LEN - 1, b' ');
    out.push(b'\n');
    Ok(out)
}

/// Decodes a sample.
///
/// # Errors
/// Names what is wrong (a torn read is normal now and then: read again).
pub fn decode(bytes: &[u8]) -> Result<LoadDoc, String> {
    super::leader::decode_fixed(bytes)
}
