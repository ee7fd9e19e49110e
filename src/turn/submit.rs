//! Submissions: checked, given ids, journalled. A pack is one request with partial failures listed.

use super::{Answer, Blob, RequestIn, Turn};
use crate::intake::{self, Admitted, Requester};
use crate::model::{Spec, Token};
use crate::record::ack::{Code, IdRun};
use crate::record::event::{Event, Submitted};
use crate::record::request::{ENV_MAX, RequestHead, SCRIPT_MAX, Verb};
use sha2::{Digest, Sha256};

/// Why a job with new options is not taken.
pub(super) const NO_SPEC: &str = "all numbers of specifications are in use: let some jobs end";

/// Blobs of a request, by their hashes.
#[derive(Default)]
struct Shared {
    env: String,
    script: String,
    stdin: String,
}

impl Turn<'_> {
    pub(super) fn submit_all(&mut self, request: RequestIn, answer: &mut Answer) {
        let RequestIn {
            who, head, verbs, ..
        } = request;
        let most = self.core.config.general.pack_max as usize;
        let jobs = verbs
            .iter()
            .filter(|v| matches!(v, Verb::Submit { .. }))
            .count();
        if jobs > most {
            answer.ack.ok = false;
            answer.ack.error = format!(
                "the pack has {jobs} jobs, at most {most} are accepted (pack_max): \
                 submit it in parts"
            );
            return;
        }
        let shared = match self.shared(&head) {
            Ok(shared) => shared,
            Err(text) => {
                answer.ack.ok = false;
                answer.ack.error = text;
                return;
            }
        };
        let mut last: Option<Spec> = None;
        for verb in verbs {
            let Verb::Submit {
                line,
                same,
                mut job,
            } = verb
            else {
                continue;
            };
            if same {
                match &last {
                    Some(spec) => job.spec = spec.clone(),
                    None => {
                        answer.say(what(line), Code::Usage, "the first job has no options");
                        continue;
                    }
                }
            } else {
                last = Some(job.spec.clone());
            }
            job.spec.env = shared.env.clone();
            job.spec.script = shared.script.clone();
            job.spec.stdin_blob = shared.stdin.clone();
            if let Some(run) = self.known_key(&who, &job.key, line) {
                answer.ack.ids.push(run);
                continue;
            }
            let core = &*self.core;
            let now = core.clock.reached(self.now);
            match intake::admit(*job, &who, &core.config, &core.state, now) {
                Err(refusal) => answer.refuse(what(line), refusal),
                Ok(admitted) => match self.accept(admitted, head.token, line) {
                    Ok((id, queue, default)) => push_id(answer, line, id, queue, default),
                    Err(why) => answer.say(what(line), Code::Refused, why),
                },
            }
        }
        self.core.needs_pass = true;
    }

    /// The job that the same user made with the same key.
    fn known_key(&self, who: &Requester, key: &str, line: u32) -> Option<IdRun> {
        if key.is_empty() {
            return None;
        }
        let (id, t) = self.core.state.keyed(who.uid, key)?;
        if t < self
            .core
            .clock
            .older_than(self.core.config.general.key_keep_ms)
        {
            return None;
        }
        let queue = self
            .core
            .state
            .spec_of(id)
            .map_or(String::new(), |s| s.queue.clone());
        Some(IdRun {
            line,
            id,
            n: 1,
            queue,
            default: false,
            known: true,
        })
    }

    fn shared(&mut self, head: &RequestHead) -> Result<Shared, String> {
        let mut shared = Shared::default();
        if !head.env.is_empty() {
            let bytes = serde_json::to_vec(&head.env).map_err(|e| e.to_string())?;
            if bytes.len() > ENV_MAX {
                return Err(format!(
                    "the environment has {} bytes, at most {ENV_MAX} are accepted: use -env",
                    bytes.len()
                ));
            }
            check_env(head)?;
            shared.env = self.blob(bytes);
        }
        for (text, sha) in [
            (&head.script, &mut shared.script),
            (&head.stdin, &mut shared.stdin),
        ] {
            if text.len() > SCRIPT_MAX {
                return Err(format!(
                    "a script or input of {} bytes is above {SCRIPT_MAX}",
                    text.len()
                ));
            }
            if !text.is_empty() {
                *sha = self.blob(text.clone().into_bytes());
            }
        }
        Ok(shared)
    }

    fn blob(&mut self, bytes: Vec<u8>) -> String {
        let mut sha = String::with_capacity(64);
        for byte in Sha256::digest(&bytes) {
            use std::fmt::Write;
            let _ = write!(sha, "{byte:02x}");
        }
        self.out.blobs.push(Blob {
            sha: sha.clone(),
            bytes,
        });
        sha
    }

    /// Makes a job; gives its id and queue and whether that is the default one, or why not.
    fn accept(
        &mut self,
        job: Admitted,
        tok: Token,
        line: u32,
    ) -> Result<(u32, String, bool), &'static str> {
        let id = self
            .core
            .state
            .next_id(self.core.config.general.max_jobid)
            .ok_or("all job ids are in use")?;
        let (queue, default) = (job.spec.queue.clone(), job.default_queue);
        let s = self.spec_id(job.spec).ok_or(NO_SPEC)?;
        let array = job.array.map_or(String::new(), |set| set.to_string());
        self.emit(Event::Submitted(Box::new(Submitted {
            id,
            s,
            t: self.now,
            command: job.command,
            name: job.name,
            array,
            array_limit: job.array_limit,
            hold: job.hold,
            tok,
            line,
            key: job.key,
        })));
        Ok((id, queue, default))
    }

    /// The number of a specification, defining it first when it is new; `None` when all numbers
    /// are in use.
    pub(super) fn spec_id(&mut self, spec: Spec) -> Option<u32> {
        if let Some(id) = self.core.state.find_spec(&spec) {
            return Some(id);
        }
        let id = self.core.state.next_spec()?;
        self.emit(Event::Spec {
            id,
            spec: Box::new(spec),
        });
        Some(id)
    }
}

fn what(line: u32) -> String {
    if line == 0 {
        "job".to_owned()
    } else {
        format!("line {line}")
    }
}

/// Adds an id to the answer, joining consecutive ids of consecutive lines.
fn push_id(answer: &mut Answer, line: u32, id: u32, queue: String, default: bool) {
    if let Some(run) = answer.ack.ids.last_mut()
        && !run.known
        && run.line.checked_add(run.n) == Some(line)
        && run.id.checked_add(run.n) == Some(id)
        && run.queue == queue
    {
        run.n += 1;
        return;
    }
    answer.ack.ids.push(IdRun {
        line,
        id,
        n: 1,
        queue,
        default,
        known: false,
    });
}

fn check_env(head: &RequestHead) -> Result<(), String> {
    for (name, value) in &head.env {
        let mut bytes = name.bytes();
        let first = bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !first || !bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(format!("environment variable {name:?} has no valid name"));
        }
        if value.contains('\0') {
            return Err(format!("environment variable {name} contains a NUL"));
        }
    }
    Ok(())
}
