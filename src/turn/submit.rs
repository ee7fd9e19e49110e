//! Submissions: checked, given ids, journalled. A pack is one request with partial failures listed.

use super::requests::{ActiveRequest, DEPEND, LOOK, SUBMIT};
use super::{Answer, Blob, Turn};
use crate::intake::{self, Admitted, Requester};
use crate::model::{Spec, Submission, Token, sha256_hex};
use crate::record::ack::{Ack, Code, IdRun};
use crate::record::event::{Event, Submitted};
use crate::record::request::{ENV_MAX, RequestHead, SCRIPT_MAX, Verb};
use rustc_hash::FxHashSet;

/// Why a job with new options is not taken.
pub(super) const NO_SPEC: &str = "all numbers of specifications are in use: let some jobs end";

/// Blobs of a request, by their hashes.
#[derive(Default)]
struct Shared {
    env: String,
    script: String,
    stdin: String,
}

/// A request that submits jobs, on its way.
pub(super) struct Pack {
    shared: Shared,
    /// Options of the last job that had its own.
    last: Option<Spec>,
    /// Lines whose jobs an earlier leader made.
    made: FxHashSet<u32>,
    /// What names in dependencies may still cost.
    names: intake::NameRoom,
}

/// What a request brings along that must be stored before it is carried out; nothing where it is
/// refused for that.
pub fn blobs(head: &RequestHead) -> Vec<Blob> {
    let mut blobs = Vec::new();
    match shared(head, &mut blobs) {
        Ok(_) => blobs,
        Err(_) => Vec::new(),
    }
}

impl Turn<'_> {
    /// Prepares a submission. `known`: jobs of it that an earlier leader made.
    pub(super) fn begin_pack(
        &mut self,
        request: &mut ActiveRequest,
        known: Option<Ack>,
    ) -> Result<(), String> {
        let most = self.core.config.general.pack_max as usize;
        let jobs = request.verbs.len();
        if jobs > most {
            return Err(format!(
                "the pack has {jobs} jobs, at most {most} are accepted (pack_max): \
                 submit it in parts"
            ));
        }
        let mut made = FxHashSet::default();
        if let Some(ack) = known {
            let lines = ack
                .ids
                .iter()
                .flat_map(|run| (0..run.n).map(|n| run.line.saturating_add(n)));
            made.extend(lines);
            request.answer.ack.ids = ack.ids;
        }
        request.pack = Some(Pack {
            shared: shared(&request.head, &mut self.out.blobs)?,
            last: None,
            made,
            names: intake::NameRoom::default(),
        });
        Ok(())
    }

    /// Submits jobs until the part is used up. True when none is left.
    pub(super) fn submit_slice(&mut self, request: &mut ActiveRequest) -> bool {
        let ActiveRequest {
            who,
            head,
            verbs,
            answer,
            pack: Some(pack),
            ..
        } = request
        else {
            return true;
        };
        self.core.needs_pass = true;
        while self.in_slice() {
            let Some(verb) = verbs.pop_front() else {
                return true;
            };
            request.verb += 1;
            if let Verb::Submit { line, same, job } = verb {
                self.spend(SUBMIT);
                self.submit_one(who, head.token, pack, (line, same, job), answer);
            }
        }
        verbs.is_empty()
    }

    fn submit_one(
        &mut self,
        who: &Requester,
        token: Token,
        pack: &mut Pack,
        (line, same, mut job): (u32, bool, Box<Submission>),
        answer: &mut Answer,
    ) {
        if same {
            match &pack.last {
                Some(spec) => job.spec = spec.clone(),
                None => {
                    answer.say(what(line), Code::Usage, "the first job has no options");
                    return;
                }
            }
        } else {
            pack.last = Some(job.spec.clone());
        }
        if pack.made.contains(&line) {
            return;
        }
        job.spec.env = pack.shared.env.clone();
        job.spec.script = pack.shared.script.clone();
        job.spec.stdin_blob = pack.shared.stdin.clone();
        if let Some(run) = self.known_key(who, &job.key, line) {
            answer.ack.ids.push(run);
            return;
        }
        let core = &*self.core;
        let now = self.now;
        let before = (pack.names.looks, pack.names.ids);
        let admitted = intake::admit(*job, who, &core.config, &core.state, now, &mut pack.names);
        let (looks, ids) = (before.0 - pack.names.looks, before.1 - pack.names.ids);
        self.spend(looks * LOOK + ids * DEPEND);
        match admitted {
            Err(refusal) => answer.refuse(what(line), refusal),
            Ok(admitted) => match self.accept(admitted, token, line) {
                Ok((id, queue, default)) => {
                    let t = self.now.0;
                    push_id(answer, (line, id, t), queue, default);
                }
                Err(why) => answer.say(what(line), Code::Refused, why),
            },
        }
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
            t: t.0,
        })
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

/// Hashes of what a request brings along, which goes to `blobs`.
fn shared(head: &RequestHead, blobs: &mut Vec<Blob>) -> Result<Shared, String> {
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
        shared.env = blob(bytes, blobs);
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
            *sha = blob(text.clone().into_bytes(), blobs);
        }
    }
    Ok(shared)
}

fn blob(bytes: Vec<u8>, blobs: &mut Vec<Blob>) -> String {
    let sha = sha256_hex(&bytes);
    blobs.push(Blob {
        sha: sha.clone(),
        bytes,
    });
    sha
}

fn what(line: u32) -> String {
    if line == 0 {
        "job".to_owned()
    } else {
        format!("line {line}")
    }
}

/// Adds an id to the answer, joining consecutive ids of consecutive lines.
fn push_id(answer: &mut Answer, job: (u32, u32, i64), queue: String, default: bool) {
    let (line, id, t) = job;
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
        t,
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
