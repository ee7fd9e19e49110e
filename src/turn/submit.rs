//! Submissions: checked, given ids, journalled. A pack is one request with partial failures listed.

use super::answer::Answer;
use super::clone_job;
use super::context::Turn;
use super::pack::{Pack, attachments};
use super::request_queue::{ActiveRequest, DEPEND, LOOK, SUBMIT};
use super::restart_job;
use crate::intake::{self, Admitted, Requester};
use crate::model::{Spec, Submission, Token};
use crate::record::ack::{Ack, Code, IdRun};
use crate::record::cron::CronRun;
use crate::record::event::{Event, Submitted};
use crate::record::request::Verb;

/// Why a job with new options is not accepted.
pub(super) const NO_SPEC: &str = "all specification numbers are in use: wait until some jobs \
    have ended";

impl Turn<'_> {
    /// Prepares a submission. `known`: its jobs that an earlier leader created.
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
        let mut pack = Pack::new(attachments(&request.head, &mut self.ready.blobs)?);
        if let Some(ack) = known {
            pack.note_created(&ack.ids);
            request.answer.ack.ids = ack.ids;
        }
        request.pack = Some(pack);
        Ok(())
    }

    /// Submits jobs until the slice is used up. Returns true if none is left.
    pub(super) fn submit_slice(&mut self, request: &mut ActiveRequest) -> bool {
        let ActiveRequest {
            requester,
            head,
            verbs,
            answer,
            pack: Some(pack),
            ..
        } = request
        else {
            return true;
        };
        self.core.pass.needed = true;
        while self.in_slice() {
            let Some(verb) = verbs.pop_front() else {
                return true;
            };
            request.verb += 1;
            if let Verb::Submit { line, same, job } = verb {
                self.spend(SUBMIT);
                self.submit_one(requester, head.token, pack, (line, same, job), answer);
            }
        }
        verbs.is_empty()
    }

    fn submit_one(
        &mut self,
        requester: &Requester,
        token: Token,
        pack: &mut Pack,
        (line, same, mut job): (u32, bool, Box<Submission>),
        answer: &mut Answer,
    ) {
        if !pack.complete(&mut job, same) {
            return answer.add_result(what(line), Code::Usage, "the first job has no options");
        }
        if pack.has_created(line) {
            return;
        }
        if let Some(run) = self.known_key(requester, &job.key, line) {
            answer.ack.ids.push(run);
            return;
        }
        if let Some(of) = job.clone.take()
            && let Err(refusal) = clone_job::complete(self.core, requester, &mut job, &of)
        {
            return answer.refuse(what(line), refusal);
        }
        if let Some(of) = job.restart.take()
            && let Err(refusal) = restart_job::complete(self.core, requester, &mut job, &of)
        {
            return answer.refuse(what(line), refusal);
        }
        let core = &*self.core;
        let now = self.now;
        let before = (pack.names.lookups, pack.names.ids);
        let admitted = intake::admit(
            *job,
            requester,
            &core.config,
            &core.state,
            now,
            &mut pack.names,
        );
        let (looks, ids) = (before.0 - pack.names.lookups, before.1 - pack.names.ids);
        self.spend(looks * LOOK + ids * DEPEND);
        match admitted {
            Err(refusal) => answer.refuse(what(line), refusal),
            Ok(admitted) => match self.accept(admitted, token, line) {
                Ok((id, queue, default)) => {
                    let t = self.now.0;
                    pack.names.pack.ids.insert(id);
                    push_id(answer, (line, id, t), queue, default);
                }
                Err(why) => answer.add_result(what(line), Code::Refused, why),
            },
        }
    }

    /// The job that the same user created with the same key.
    fn known_key(&self, requester: &Requester, key: &str, line: u32) -> Option<IdRun> {
        if key.is_empty() {
            return None;
        }
        let (id, t) = self.core.state.keyed(requester.uid, key)?;
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

    /// Creates a job. Returns its id, its queue and whether that is the default queue, or why not.
    fn accept(
        &mut self,
        job: Admitted,
        tok: Token,
        line: u32,
    ) -> Result<(u32, String, bool), &'static str> {
        self.accept_run(job, tok, line, None)
    }

    /// As [`Turn::accept`]; `cron`: the cron job of which it is a run.
    pub(super) fn accept_run(
        &mut self,
        job: Admitted,
        tok: Token,
        line: u32,
        cron: Option<Box<CronRun>>,
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
            cron,
        })));
        Ok((id, queue, default))
    }

    /// The number of a specification; defines the specification first if it is new. `None` if all
    /// numbers are in use.
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

/// Adds an id to the answer, and joins consecutive ids of consecutive lines.
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
