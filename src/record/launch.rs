//! The request of `claunch` to a host: a command to run there for a running job. Owns its form and
//! its limits. It does not name the requester, who is the owner of the file.

use crate::model::{AttemptId, Token};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum size of such a file in bytes.
pub const LAUNCH_MAX: u64 = 4 << 20;
/// Version of the file.
const VERSION: u32 = 1;

/// A command for one host of a running job.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchRequest {
    /// Version of the file, set when it is written.
    pub v: u32,
    /// The attempt to which the command belongs.
    #[serde(flatten)]
    pub a: AttemptId,
    /// Identifies the file with address and key of the waiting command.
    pub session: Token,
    /// The command line for a shell.
    pub command: String,
    pub cwd: String,
    pub umask: u32,
    pub env: BTreeMap<String, String>,
    /// Number of this command among those started together, from 1.
    pub task: u32,
}

impl LaunchRequest {
    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let file = LaunchRequest {
            v: VERSION,
            ..self.clone()
        };
        serde_json::to_vec(&file).expect("plain data becomes JSON")
    }

    /// Reads the content of the file.
    ///
    /// # Errors
    /// This version does not understand it.
    pub fn from_bytes(bytes: &[u8]) -> Result<LaunchRequest, String> {
        let launch: LaunchRequest = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        match launch.v {
            VERSION if launch.task > 0 && launch.umask <= 0o777 => Ok(launch),
            VERSION => Err("its numbers are not valid".to_owned()),
            v => Err(format!("version {v} is not supported")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_reads_back_and_nothing_else_does() {
        let one = LaunchRequest {
            command: "hostname".into(),
            task: 1,
            ..LaunchRequest::default()
        };
        let read = LaunchRequest::from_bytes(&one.to_bytes()).unwrap();
        assert_eq!(read.command, "hostname");
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"v":2,"task":1}"#,
            r#"{"v":1,"task":1,"umask":4096}"#,
        ] {
            assert!(LaunchRequest::from_bytes(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
