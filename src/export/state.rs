//! The state of an exporter: the position up to which it has delivered, and its counters.
//!
//! Owns `state.json`, `lock` and `rejected.ndjson` in the directory of the exporter, which no other
//! exporter may use at the same time. Never writes into the shared directory.

use super::bulk::Document;
use corral::api::accounting::FilePositions;
use corral::sys;
use corral::sys::append::Appender;
use corral::sys::lock::Lock;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of `state.json`.
const FORMAT: u32 = 1;
/// Maximum size of `state.json`.
const STATE_MAX: u64 = 64 << 20;

/// Counts since the state was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    /// Documents that the server stored, and those that it had already.
    pub stored: u64,
    pub present: u64,
    /// Documents in `rejected.ndjson`, including those lost by its size limit.
    pub rejected: u64,
    /// Requests that failed and were repeated.
    pub failures: u64,
    /// Number of times that events after the position were no longer kept.
    pub gaps: u64,
    /// Places of journal and accounting files that could not be read.
    pub damage: u64,
    /// Samples of load that were not taken in time.
    pub missed: u64,
}

/// The position up to which everything is delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    pub format: u32,
    /// Id of the cluster to which the positions belong.
    pub cluster: String,
    /// Prefix of the indices in which the documents are.
    pub prefix: String,
    /// The last event; empty: none yet.
    #[serde(default)]
    pub events: String,
    #[serde(default)]
    pub accounting: FilePositions,
    #[serde(default)]
    pub counts: Counts,
}

impl State {
    pub(super) fn new(cluster: &str, prefix: &str) -> State {
        State {
            format: FORMAT,
            cluster: cluster.to_owned(),
            prefix: prefix.to_owned(),
            ..State::default()
        }
    }

    /// Reads the state in a directory; a new one if there is none.
    pub(super) fn read(dir: &Path, cluster: &str, prefix: &str) -> Result<State, String> {
        let path = dir.join("state.json");
        let bytes = sys::fs::read_optional(&path, STATE_MAX).map_err(|e| e.to_string())?;
        let Some(bytes) = bytes else {
            return Ok(State::new(cluster, prefix));
        };
        let path = path.display();
        let hint = "hint: remove the file to send all kept events again; documents that the server \
                    already has do not change";
        let state: State =
            serde_json::from_slice(&bytes).map_err(|e| format!("{path}: {e}\n{hint}"))?;
        if state.format > FORMAT {
            let newer = state.format;
            return Err(format!(
                "{path}: format {newer} is newer than this program's {FORMAT}"
            ));
        }
        for (what, has, wanted) in [
            ("cluster", &state.cluster, cluster),
            ("index_prefix", &state.prefix, prefix),
        ] {
            if has != wanted {
                return Err(format!(
                    "{path}: is of {what} '{has}', not '{wanted}'\n\
                     hint: use a separate state_dir for each cluster and index_prefix"
                ));
            }
        }
        Ok(state)
    }

    /// Writes the state, durably.
    pub(super) fn write(&self, dir: &Path) -> Result<(), String> {
        let text = serde_json::to_vec(self).map_err(|e| e.to_string())?;
        let path = dir.join("state.json");
        sys::fs::durable_write_mode(&path, &text, 0o600).map_err(|e| e.to_string())
    }
}

/// Creates the directory if needed, and locks out other exporters until the result is dropped.
pub(super) fn lock_dir(dir: &Path) -> Result<Lock, String> {
    let text = |e: sys::Error| e.to_string();
    sys::fs::mkdir_p(dir, 0o700).map_err(text)?;
    let path = dir.join("lock");
    sys::fs::ensure_file(&path, 0o600).map_err(text)?;
    Lock::try_take(&path).map_err(text)?.ok_or_else(|| {
        format!(
            "{}: another cb-export uses it\n\
             hint: one program a state_dir; a second one may run with another state_dir, \
             even on another host: documents have the same ids",
            path.display()
        )
    })
}

/// Documents that can never be stored.
pub(super) struct Rejected {
    path: PathBuf,
    /// Size in bytes at which the file is renamed to `rejected.old.ndjson`.
    most: u64,
}

impl Rejected {
    pub(super) fn new(dir: &Path, most: u64) -> Rejected {
        Rejected {
            path: dir.join("rejected.ndjson"),
            most,
        }
    }

    /// Appends a document with the reason, durably.
    pub(super) fn append_rejected(
        &self,
        d: &Document,
        status: u16,
        why: &str,
    ) -> Result<(), String> {
        let line = serde_json::json!({
            "index": d.index, "id": d.id, "status": status, "reason": why, "document": d.json,
        });
        let line = format!("{line}\n");
        let text = |e: sys::Error| e.to_string();
        let stat = sys::fs::stat(&self.path).map_err(text)?;
        let len = stat.map_or(0, |stat| stat.len);
        if len > 0 && len + line.len() as u64 > self.most {
            let old = self.path.with_file_name("rejected.old.ndjson");
            sys::fs::rename(&self.path, &old).map_err(text)?;
        }
        let mut file = Appender::open(&self.path).map_err(text)?;
        file.append(line.as_bytes()).map_err(text)?;
        file.sync().map_err(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_and_kept_apart_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut state = State::read(dir.path(), "c", "corral").unwrap();
        state.events = "1.2.3".into();
        state
            .accounting
            .insert("2026-11/000001.0001.yaml".into(), (9, 2));
        state.counts.stored = 5;
        state.write(dir.path()).unwrap();
        assert_eq!(State::read(dir.path(), "c", "corral"), Ok(state));
        for (cluster, prefix, part) in [("d", "corral", "cluster 'c'"), ("c", "x", "index_prefix")]
        {
            let text = State::read(dir.path(), cluster, prefix).unwrap_err();
            assert!(text.contains(part), "{text}");
        }
        std::fs::write(dir.path().join("state.json"), "{\"form").unwrap();
        let text = State::read(dir.path(), "c", "corral").unwrap_err();
        assert!(
            text.contains("state.json") && text.contains("hint"),
            "{text}"
        );
    }

    #[test]
    fn two_exporters_do_not_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new");
        let first = lock_dir(&dir).unwrap();
        assert!(lock_dir(&dir).unwrap_err().contains("another cb-export"));
        drop(first);
        assert!(lock_dir(&dir).is_ok());
    }

    #[test]
    fn rejected_documents_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let rejected = Rejected::new(dir.path(), 1000);
        let d = Document {
            index: "i".into(),
            id: "1".into(),
            json: "x".repeat(300),
        };
        for _ in 0..20 {
            rejected.append_rejected(&d, 400, "because").unwrap();
        }
        let mut names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap())
            .collect();
        names.sort_by_key(|e| e.file_name());
        assert_eq!(names.len(), 2);
        for e in names {
            assert!(e.metadata().unwrap().len() <= 1000, "{e:?}");
            let text = std::fs::read_to_string(e.path()).unwrap();
            let line: serde_json::Value =
                serde_json::from_str(text.lines().next().unwrap()).unwrap();
            assert_eq!(
                (&line["status"], &line["reason"]),
                (&400.into(), &"because".into())
            );
        }
    }
}
