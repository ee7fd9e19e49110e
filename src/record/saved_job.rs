//! The file in a checkpoint's directory about the job that was saved: everything needed to submit
//! it again, for a leader that has forgotten it.
//!
//! Owns the form of this file. Its user can write anything into it: the reader treats it as a
//! submission of that user and checks it accordingly.

use super::byte_text::ByteText;
use crate::model::{JobKey, Spec, Stamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the file in a job's directory of checkpoints.
pub const NAME: &str = ".job";
/// Maximum size of the file in bytes.
pub const BYTES_MAX: u64 = 8 << 20;

/// A job with the content of its submission.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedJob {
    pub format: u32,
    pub j: JobKey,
    /// When it was submitted: identifies the job that had this id then.
    pub t: Stamp,
    pub name: String,
    pub command: String,
    pub spec: Spec,
    pub env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "ByteText::is_empty")]
    pub script: ByteText,
    #[serde(skip_serializing_if = "ByteText::is_empty")]
    pub stdin: ByteText,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub params: String,
}

impl SavedJob {
    /// Reads the file.
    ///
    /// # Errors
    /// The content is invalid or of a later version.
    pub fn parse(bytes: &[u8]) -> Result<SavedJob, String> {
        let job: SavedJob = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        match job.format {
            0 => Err("it names no format".to_owned()),
            format if format > super::FORMAT => {
                Err(format!("format {format} is of a later version of Corral"))
            }
            _ => Ok(job),
        }
    }

    /// The file's text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("all keys of its maps are texts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_later_format_is_not() {
        let job = SavedJob {
            format: super::super::FORMAT,
            j: JobKey::element(7, 2),
            t: Stamp(5),
            command: "run".into(),
            env: [("A".to_owned(), "1\n".to_owned())].into(),
            script: "#!/bin/sh\n".to_owned().into(),
            ..SavedJob::default()
        };
        let text = job.text();
        assert_eq!(SavedJob::parse(text.as_bytes()), Ok(job));
        let later = text.replace("\"format\":1", "\"format\":2");
        assert!(
            SavedJob::parse(later.as_bytes())
                .unwrap_err()
                .contains("later")
        );
        for bad in ["", "{}", "[]", "{\"format\":1,\"spec\":7}"] {
            assert!(SavedJob::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
