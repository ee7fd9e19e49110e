//! `hosts/<host>/load.yaml`: a host's facts and load, overwritten in place by cbls when anything
//! changes that is not in its beat (`record::beat`).

use super::point::Points;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Minimum size of the file; padded with spaces (see `leader::FIXED_LEN` for the reason).
pub const LOAD_LEN: usize = 4096;
/// Maximum size in bytes: a host with many sensors needs more than one block.
pub const LOAD_MAX: usize = 128 << 10;

/// One sample. Memory figures in MB, `ut` in 0..1, rates per second, `it` in minutes.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadDoc {
    pub host: String,
    /// Changes with every reboot of the machine.
    pub boot: String,
    /// Random id of this cbls process.
    pub incarnation: String,
    /// Increments with every beat; observers detect life by its change, never by the time.
    pub beat: u64,
    /// Number of times that this incarnation has written the document, including this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub written: u64,
    /// The host's wall clock, for display and skew warnings only.
    pub t: i64,
    /// Milliseconds between beats.
    pub every_ms: u64,
    /// Whether cbls found this host's cbexe alive (its local beat).
    pub executor: bool,
    /// That cbexe can start no task now; a note says why.
    #[serde(rename = "sn", skip_serializing_if = "std::ops::Not::not")]
    pub starts_nothing: bool,
    /// Set by the leader: tasks cannot be started or fail there, so that it gets none for a while.
    #[serde(skip)]
    pub failing: bool,
    /// The ledger of that cbexe; empty = not known.
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
    /// Highest epoch whose orders this host has followed, and highest job id in them: a share that
    /// was restored from a backup lacks these.
    #[serde(skip_serializing_if = "is_zero")]
    pub epoch: u64,
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub top: u32,
    /// `iso_timeout` of this host, ms (0: none): until the next sample no process on the host waits
    /// longer than this before it ends tasks that the leader may start elsewhere. The age of a beat
    /// is judged by the limit in the same sample. `None`: the host has received none from a leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iso_ms: Option<u64>,
    /// The position of the journal in this host's last orders.
    #[serde(skip_serializing_if = "Points::is_empty")]
    pub journal: Points,
    /// Anything that an administrator should know about this host (cgroups absent, clock, mount).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Resources of this host's sensors, by name; the leader adds and removes them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sensors: BTreeMap<String, Sensed>,
    /// Values of sensors that apply to the host, its own and shared ones, as computed by the
    /// leader: name -> value text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// For values that several hosts may share: the host whose sensor reports it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, String>,
    /// By how many milliseconds the host's clock is ahead of the file server's, as computed by the
    /// leader; never written.
    #[serde(skip)]
    pub clock_ahead_ms: Option<i64>,
}

/// A resource as reported by a sensor.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Sensed {
    #[serde(rename = "k")]
    pub kind: SensedKind,
    /// A number that increases with the load: lower is better.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub increase: bool,
    /// Returned while the job is suspended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub release: bool,
    /// An amount is required for each slot.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slot: bool,
    /// Jobs get single units of it, by name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub assign: bool,
    /// The resource with units that each have this amount; empty: it is an amount of the host.
    #[serde(rename = "pu", skip_serializing_if = "String::is_empty")]
    pub per_unit: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Hosts and host groups that have it, separated by single blanks, or `all`; empty: the host of
    /// the sensor.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub locale: String,
    /// `None`: its last value is too old. A tag has `yes` or `no`, named units are written `[a,b]`,
    /// amounts of units `{1,2}`.
    #[serde(rename = "v", skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// The kind of value of a sensor's resource.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SensedKind {
    #[default]
    Number,
    Text,
    Tag,
    /// A kind of a later version.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
impl LoadDoc {
    /// A host with 64 CPUs on which nothing runs.
    pub(crate) fn of_idle_host() -> LoadDoc {
        LoadDoc {
            executor: true,
            ncpus: 64,
            maxmem: 257_000,
            maxswp: 4096,
            maxtmp: 100_000,
            ndisks: 1,
            pg: 1.5,
            io: 12.0,
            ls: 2.0,
            it: 7.0,
            tmp: 52_000.0,
            swp: 4096.0,
            mem: 131_072.0,
            ..LoadDoc::default()
        }
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn is_zero_u32(n: &u32) -> bool {
    *n == 0
}

/// Encodes a sample to overwrite a file of `old` bytes in place.
///
/// # Errors
/// The document does not fit into [`LOAD_MAX`].
pub fn encode_over(doc: &LoadDoc, old: usize) -> Result<Vec<u8>, String> {
    let mut out = serde_json::to_vec(doc).map_err(|e| e.to_string())?;
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(format!(" #{crc:08x}").as_bytes());
    let room = out.len() + 1;
    if room > LOAD_MAX {
        return Err(format!("load document of {room} bytes exceeds {LOAD_MAX}"));
    }
    // No rest of a longer document may remain after it.
    let len = room.next_multiple_of(LOAD_LEN).max(old.min(LOAD_MAX));
    out.resize(len - 1, b' ');
    out.push(b'\n');
    Ok(out)
}

/// Encodes a sample for a new file.
///
/// # Errors
/// As [`encode_over`].
pub fn encode(doc: &LoadDoc) -> Result<Vec<u8>, String> {
    encode_over(doc, LOAD_LEN)
}

/// Decodes a sample.
///
/// # Errors
/// The problem (an incomplete read can occur at any time: read again).
pub fn decode(bytes: &[u8]) -> Result<LoadDoc, String> {
    super::leader::decode_fixed(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_sample_leaves_nothing_of_a_longer_one() {
        let mut doc = LoadDoc::default();
        let small = encode(&doc).unwrap();
        assert_eq!(small.len(), LOAD_LEN);
        for n in 0..200 {
            doc.sensors
                .insert(format!("resource{n}"), Sensed::default());
        }
        let long = encode_over(&doc, small.len()).unwrap();
        assert!(long.len() > LOAD_LEN && long.len().is_multiple_of(LOAD_LEN));
        assert_eq!(decode(&long), Ok(doc.clone()));
        doc.sensors.clear();
        let over = encode_over(&doc, long.len()).unwrap();
        assert_eq!((over.len(), decode(&over)), (long.len(), Ok(doc.clone())));
        doc.sensors.insert(
            "x".into(),
            Sensed {
                about: "x".repeat(LOAD_MAX),
                ..Sensed::default()
            },
        );
        assert!(encode(&doc).is_err());
    }

    #[test]
    fn a_kind_of_a_later_version_costs_nothing_but_itself() {
        let text = r#"{"k":"vector","v":"1"}"#;
        let sensed: Sensed = serde_json::from_str(text).unwrap();
        assert_eq!(sensed.kind, SensedKind::Unknown);
    }
}
