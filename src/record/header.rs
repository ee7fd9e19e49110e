//! The first record of every log: which cluster, which kind of file, which format.

use super::FORMAT;
use super::frame::{Damage, Damaged, Reader};
use serde::{Deserialize, Serialize};

/// Kinds of framed files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    Journal,
    Acks,
    Orders,
    Reports,
    Snapshot,
    View,
    Request,
    Acct,
    Local,
}

/// Record 0 of a framed file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename = "header")]
pub struct Header {
    pub format: u32,
    pub what: FileKind,
    /// Cluster id; empty in requests (a client need not know it).
    #[serde(default)]
    pub cluster: String,
    /// Epoch of the writing leader, 0 if none applies.
    #[serde(default)]
    pub epoch: u64,
    /// Segment, part or incarnation number of the file.
    #[serde(default)]
    pub part: u64,
}

impl Header {
    pub fn new(what: FileKind, cluster: &str, epoch: u64, part: u64) -> Header {
        Header {
            format: FORMAT,
            what,
            cluster: cluster.to_owned(),
            epoch,
            part,
        }
    }

    /// Reads and checks the header at the beginning of `reader`. `Ok(None)`: the file is still
    /// empty.
    ///
    /// # Errors
    /// Damage, a foreign cluster (when `cluster` is given), another kind of file, a newer format.
    pub fn read(
        reader: &mut Reader<'_>,
        what: FileKind,
        cluster: Option<&str>,
    ) -> Result<Option<Header>, Damaged> {
        let offset = reader.offset();
        let Some(line) = reader.next_line()? else {
            return Ok(None);
        };
        let refuse = |text: String| Damaged {
            offset,
            damage: Damage::Content(text),
        };
        let header: Header = line.decode().map_err(|damage| Damaged { offset, damage })?;
        if header.format > FORMAT {
            return Err(refuse(format!(
                "format {} is newer than this program's {FORMAT}: upgrade it",
                header.format
            )));
        }
        if header.what != what {
            return Err(refuse(format!(
                "a {:?} file in the place of {what:?}",
                header.what
            )));
        }
        if let Some(cluster) = cluster
            && header.cluster != cluster
        {
            return Err(refuse(format!("belongs to cluster {:?}", header.cluster)));
        }
        Ok(Some(header))
    }
}
