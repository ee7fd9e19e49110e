//! A request that submits jobs: what its jobs share, and which of them an earlier leader created.

use super::ready::Blob;
use crate::intake;
use crate::model::{Spec, Submission, sha256_hex};
use crate::record::ack::IdRun;
use crate::record::request::{ENV_MAX, RequestHead, SCRIPT_MAX};
use crate::text::names::is_variable;
use rustc_hash::FxHashSet;

/// Blobs that come with a request, by their hashes.
#[derive(Default)]
pub(super) struct Attachments {
    env: String,
    script: String,
    stdin: String,
    params: String,
}

impl Attachments {
    /// Adds references to them to a specification.
    pub(super) fn attach(&self, spec: &mut Spec) {
        spec.env.clone_from(&self.env);
        spec.script.clone_from(&self.script);
        spec.stdin_blob.clone_from(&self.stdin);
        spec.params.clone_from(&self.params);
    }
}

/// See the head of this file.
pub(super) struct Pack {
    attachments: Attachments,
    /// Options of the last job that had its own.
    last: Option<Spec>,
    /// Lines whose jobs an earlier leader created.
    created_lines: FxHashSet<u32>,
    /// Remaining limits of names in dependencies.
    pub names: intake::NameBudget,
}

impl Pack {
    pub(crate) fn new(attachments: Attachments) -> Pack {
        Pack {
            attachments,
            last: None,
            created_lines: FxHashSet::default(),
            names: intake::NameBudget::default(),
        }
    }

    /// Notes the jobs that an earlier leader created.
    pub(crate) fn note_created(&mut self, ids: &[IdRun]) {
        let lines = |run: &IdRun| {
            (0..run.n).map({
                let line = run.line;
                move |n| line.saturating_add(n)
            })
        };
        self.created_lines.extend(ids.iter().flat_map(lines));
        let jobs = ids
            .iter()
            .flat_map(|run| (0..run.n).map(|n| run.id.saturating_add(n)));
        self.names.pack.ids.extend(jobs);
    }

    pub(crate) fn has_created(&self, line: u32) -> bool {
        self.created_lines.contains(&line)
    }

    /// Adds to a job what it shares with others. `same`: it also takes the options of the previous
    /// job. Returns false if there is none.
    pub(crate) fn complete(&mut self, job: &mut Submission, same: bool) -> bool {
        match (&self.last, same) {
            (Some(spec), true) => job.spec = spec.clone(),
            (None, true) => return false,
            (_, false) => self.last = Some(job.spec.clone()),
        }
        self.attachments.attach(&mut job.spec);
        true
    }
}

/// The blobs of a request that must be stored before it is carried out; none if it is refused for
/// that reason.
pub fn blobs(head: &RequestHead) -> Vec<Blob> {
    let mut blobs = Vec::new();
    match attachments(head, &mut blobs) {
        Ok(_) => blobs,
        Err(_) => Vec::new(),
    }
}

/// Hashes of a request's blobs, which are added to `blobs`.
pub(super) fn attachments(
    head: &RequestHead,
    blobs: &mut Vec<Blob>,
) -> Result<Attachments, String> {
    let mut attached = Attachments::default();
    if !head.env.is_empty() {
        let bytes = serde_json::to_vec(&head.env).map_err(|e| e.to_string())?;
        if bytes.len() > ENV_MAX {
            return Err(format!(
                "the environment has {} bytes, at most {ENV_MAX} are accepted: use -env",
                bytes.len()
            ));
        }
        check_env(head)?;
        attached.env = blob(bytes, blobs);
    }
    for (bytes, sha) in [
        (head.script.as_bytes(), &mut attached.script),
        (head.stdin.as_bytes(), &mut attached.stdin),
        (head.params.as_bytes(), &mut attached.params),
    ] {
        if bytes.len() > SCRIPT_MAX {
            return Err(format!(
                "a script, input or parameter table of {} bytes is above {SCRIPT_MAX}",
                bytes.len()
            ));
        }
        if !bytes.is_empty() {
            *sha = blob(bytes.to_vec(), blobs);
        }
    }
    Ok(attached)
}

fn blob(bytes: Vec<u8>, blobs: &mut Vec<Blob>) -> String {
    let sha = sha256_hex(&bytes);
    blobs.push(Blob {
        sha: sha.clone(),
        bytes,
    });
    sha
}

fn check_env(head: &RequestHead) -> Result<(), String> {
    for (name, value) in &head.env {
        if !is_variable(name) {
            return Err(format!("environment variable {name:?} has no valid name"));
        }
        if value.contains('\0') {
            return Err(format!("environment variable {name} contains a NUL"));
        }
    }
    Ok(())
}
