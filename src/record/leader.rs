//! Small fixed documents of leadership: the epoch record, a claim, the beat. Overwritten in place.

use super::sealed;
use serde::{Deserialize, Serialize};

/// Size of `leader/epoch` and `leader/beat` on disk; padded with spaces so that a write replaces
/// the whole file in one block.
pub const FIXED_LEN: usize = 512;

/// Content of `leader/epoch` and of each claim `leader/claims/NNNNNN`.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct EpochDoc {
    /// 0 = there has never been a leader.
    pub epoch: u64,
    /// Host name of the claimant.
    pub host: String,
    pub pid: u32,
    /// Random, chosen by the claimant: shows whose claim succeeded.
    pub nonce: String,
    pub boot: String,
    /// The claimant held the election's lock: if the lock is free, the claimant has ended.
    pub locked: bool,
    /// The address at which the leader receives hints (see [`super::hint::Endpoint`]); empty: none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hints: String,
    /// The server, not a cache, answers whatever the claimant opens: its successor need not wait
    /// until the claimant can no longer read overwritten data.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

/// Content of `leader/beat`: a counter that only the leader increments.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct BeatDoc {
    pub epoch: u64,
    pub beat: u64,
    /// True once the leader accepts requests.
    pub leading: bool,
    /// The leader holds the election's lock (see [`EpochDoc::locked`]).
    pub locked: bool,
    /// DISK FULL: the leader leads, but accepts no submissions and starts nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// See [`EpochDoc::fresh`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

/// Content of `<share>/cluster`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterDoc {
    /// Random cluster id.
    pub cluster: String,
    pub name: String,
    pub format: u32,
    /// Uid that owns the share (service account, or the single user).
    pub service_uid: u32,
    pub service_gid: u32,
}

/// Largest cluster file that is read, in bytes.
pub const CLUSTER_MAX: u64 = 64 << 10;

impl ClusterDoc {
    /// Decodes the cluster file.
    ///
    /// # Errors
    /// It is not a cluster file, or has a format that this program does not know; the text has no
    /// path.
    pub fn decode(bytes: &[u8]) -> Result<ClusterDoc, String> {
        let (doc, checked) = sealed::from_json::<ClusterDoc>(bytes).map_err(|damaged| {
            format!(
                "{damaged}: the file is damaged or not a cluster file; restore it from a backup"
            )
        })?;
        match (doc.format, checked) {
            (1..=super::FORMAT, _) => Ok(doc),
            (newer, true) if newer > super::FORMAT => Err(format!(
                "has format {newer}, this program knows {}: upgrade it",
                super::FORMAT
            )),
            (wrong, _) => Err(format!(
                "names format {wrong}, this program knows {}: the file is damaged (it has no \
                 checksum), or a newer version wrote it",
                super::FORMAT
            )),
        }
    }

    /// The content of the cluster file.
    ///
    /// # Errors
    /// It cannot be represented as JSON.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = sealed::to_json(self)?;
        text.push(b'\n');
        Ok(text)
    }
}

/// Encodes a fixed document: JSON, a CRC32C comment, spaces up to [`FIXED_LEN`], newline.
///
/// # Errors
/// The document does not fit.
pub fn encode_fixed<T: Serialize>(doc: &T) -> Result<Vec<u8>, String> {
    let mut out = serde_json::to_vec(doc).map_err(|e| e.to_string())?;
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(format!(" #{crc:08x}").as_bytes());
    if out.len() >= FIXED_LEN {
        return Err(format!(
            "document of {} bytes exceeds {FIXED_LEN}",
            out.len()
        ));
    }
    out.resize(FIXED_LEN - 1, b' ');
    out.push(b'\n');
    Ok(out)
}

/// Decodes a document of [`encode_fixed`].
///
/// # Errors
/// The problem (incomplete write, checksum, content).
pub fn decode_fixed<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| "not text".to_owned())?
        .trim_end();
    let (json, crc) = text.rsplit_once(" #").ok_or("no checksum")?;
    let crc = u32::from_str_radix(crc, 16).map_err(|_| "bad checksum digits".to_owned())?;
    if crc != crc32c::crc32c(json.as_bytes()) {
        return Err("the checksum does not match".to_owned());
    }
    serde_json::from_str(json).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_documents_round_trip_and_show_damage() {
        let doc = EpochDoc {
            epoch: 7,
            host: "h1".into(),
            pid: 3,
            ..EpochDoc::default()
        };
        let mut bytes = encode_fixed(&doc).unwrap();
        assert_eq!(bytes.len(), FIXED_LEN);
        assert_eq!(decode_fixed::<EpochDoc>(&bytes), Ok(doc));
        bytes[10] ^= 1;
        assert!(decode_fixed::<EpochDoc>(&bytes).is_err());
        assert!(decode_fixed::<EpochDoc>(b"").is_err());
    }

    #[test]
    fn a_cluster_of_a_newer_format_is_refused() {
        let doc = |format: u32| ClusterDoc {
            cluster: "c".into(),
            name: "n".into(),
            format,
            service_uid: 1,
            service_gid: 1,
        };
        let read = |format: u32| ClusterDoc::decode(&doc(format).encode().unwrap());
        assert_eq!(read(super::super::FORMAT).unwrap().cluster, "c");
        assert!(read(99).unwrap_err().contains("upgrade"));
        assert!(ClusterDoc::decode(b"{}").is_err());
        // A file of an earlier version has no checksum: another number may be damage.
        let plain = |format: u32| ClusterDoc::decode(&serde_json::to_vec(&doc(format)).unwrap());
        assert_eq!(plain(super::super::FORMAT).unwrap().cluster, "c");
        let said = plain(5).unwrap_err();
        assert!(
            said.contains("damaged") && !said.contains("upgrade"),
            "{said}"
        );
    }

    #[test]
    fn a_flipped_byte_of_the_cluster_file_is_damage() {
        let doc = ClusterDoc {
            cluster: "0f1e".into(),
            name: "n".into(),
            format: super::super::FORMAT,
            service_uid: 1,
            service_gid: 1,
        };
        let good = doc.encode().unwrap();
        for at in 0..good.len() - 1 {
            for bit in [1u8, 4, 0x80] {
                let mut bad = good.clone();
                bad[at] ^= bit;
                let said = ClusterDoc::decode(&bad).unwrap_err();
                assert!(
                    said.contains("at byte") && said.contains("damaged"),
                    "{said}"
                );
            }
        }
    }
}
