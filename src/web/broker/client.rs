//! The HTTP process's side: [`UserAccess`] by requests to the broker.
//!
//! Has no rights of its own: without the secret of a session or a token, the broker does nothing.
//! The published view, which all users may read, is read here.

use super::calls::{Call, PlainJob};
use super::wire::{self, BrokerRequest, NewSession, PasswordResult};
use crate::identity::{AttachedProgram, Identity, JobAction, Proof, UserAccess, reader_for};
use crate::secret::Secret;
use corral::api::admin::{AdminAction, AdminAnswer};
use corral::api::attach::AttachRequest;
use corral::api::files::{FileAnswer, FileRequest};
use corral::api::portal::{PortalToken, claimed_uid};
use corral::api::read::{JobOutput, JobTexts, Reader};
use corral::api::{Accepted, Failure, FailureKind, JobRequest};
use corral::record::ack::Outcome;
use corral::spool::Site;
use corral::spool::view::ViewJob;
use corral::sys::{descriptors, ipc, users};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::File;
use std::net::IpAddr;

/// Maximum wait for an answer, ms: the leader's answer is awaited for a minute.
const ANSWER_MS: u64 = 90_000;

/// See the top of this file.
pub struct BrokerClient {
    control: File,
    site: Site,
}

impl BrokerClient {
    /// `control`: the socket to the broker.
    pub fn new(control: File, site: Site) -> BrokerClient {
        BrokerClient { control, site }
    }

    /// Reports to the broker that the HTTP process answers.
    ///
    /// # Errors
    /// The broker is gone.
    pub fn ready(&self) -> Result<(), Failure> {
        self.ask(&BrokerRequest::Ready {}).map(drop)
    }

    /// Sends a request; returns the socket over which the answer comes.
    fn ask(&self, ask: &BrokerRequest) -> Result<File, Failure> {
        let (mine, other) = ipc::pair().map_err(failed)?;
        descriptors::limit_time(&mine, ANSWER_MS).map_err(failed)?;
        let bytes = serde_json::to_vec(ask).map_err(failed)?;
        descriptors::send(&self.control, &bytes, Some(&other), true).map_err(failed)?;
        Ok(mine)
    }

    /// Has a call carried out as `identity`; returns its value and the descriptor that came with
    /// the answer.
    ///
    /// # Errors
    /// Those of the call; or the broker refuses or does not answer.
    pub fn call_with<T: DeserializeOwned>(
        &self,
        identity: &Identity,
        call: &Call,
    ) -> Result<(T, Option<File>), Failure> {
        let ask = BrokerRequest::Act {
            uid: identity.uid,
            proof: identity.proof.0.clone(),
        };
        let (value, with, _) = self.answered(&ask, call)?;
        Ok((value, with))
    }

    /// Sends a request and its call; returns the answer, its descriptor, and the socket.
    fn answered<T: DeserializeOwned>(
        &self,
        ask: &BrokerRequest,
        call: &Call,
    ) -> Result<(T, Option<File>, File), Failure> {
        let socket = self.ask(ask)?;
        // A broker that refuses does not read the call, but its answer can still be read.
        let sent = wire::send(&socket, call, None);
        let received = wire::receive::<Result<Value, Failure>>(&socket);
        let (answer, with) = match (received, sent) {
            (Ok(received), _) => received,
            (Err(_), Err(e)) | (Err(e), Ok(())) => return Err(failed(e)),
        };
        let value = serde_json::from_value(answer?).map_err(failed)?;
        Ok((value, with, socket))
    }

    fn call<T: DeserializeOwned>(&self, identity: &Identity, call: &Call) -> Result<T, Failure> {
        Ok(self.call_with(identity, call)?.0)
    }
}

fn failed(why: impl ToString) -> Failure {
    Failure {
        kind: FailureKind::System,
        text: format!("the broker of the portal: {}", why.to_string()),
    }
}

fn boxed(job: &JobRequest) -> Box<PlainJob> {
    Box::new(PlainJob::from(job))
}

impl UserAccess for BrokerClient {
    fn reader(&self, identity: &Identity) -> Result<Reader, Failure> {
        let facts = users::look_up(identity.uid).map_err(failed)?;
        let facts = facts.ok_or_else(|| failed("the user is no longer known on this host"))?;
        Ok(reader_for(&self.site, facts))
    }

    fn submit(&self, identity: &Identity, job: &JobRequest) -> Result<Accepted, Failure> {
        self.call(identity, &Call::Submit { job: boxed(job) })
    }

    fn dry_run(&self, identity: &Identity, job: &JobRequest) -> Result<String, Failure> {
        self.call(identity, &Call::DryRun { job: boxed(job) })
    }

    fn act(
        &self,
        identity: &Identity,
        act: JobAction,
        jobs: Vec<String>,
    ) -> Result<Vec<Outcome>, Failure> {
        self.call(identity, &Call::Act { act, jobs })
    }

    fn output(
        &self,
        identity: &Identity,
        job: &ViewJob,
        most: usize,
    ) -> Result<Vec<JobOutput>, Failure> {
        let (id, idx) = (job.row.j.id, job.row.j.idx);
        self.call(identity, &Call::Output { id, idx, most })
    }

    fn administer(&self, identity: &Identity, act: &AdminAction) -> Result<AdminAnswer, Failure> {
        let act = Box::new(act.clone());
        self.call(identity, &Call::Administer { act })
    }

    fn files(&self, identity: &Identity, ask: &FileRequest) -> Result<FileAnswer, Failure> {
        let ask = Box::new(ask.clone());
        self.call(identity, &Call::Files { ask })
    }

    fn clone_job(&self, identity: &Identity, job: &str, key: &str) -> Result<Accepted, Failure> {
        let (job, key) = (job.to_owned(), key.to_owned());
        self.call(identity, &Call::Clone { job, key })
    }

    fn texts(&self, identity: &Identity, job: &ViewJob) -> Result<JobTexts, Failure> {
        let (id, idx) = (job.row.j.id, job.row.j.idx);
        self.call(identity, &Call::Texts { id, idx })
    }

    fn attend(&self, identity: &Identity, ask: &AttachRequest) -> Result<AttachedProgram, Failure> {
        let call = Call::Attend { ask: ask.clone() };
        let ask = BrokerRequest::Attend {
            uid: identity.uid,
            proof: identity.proof.0.clone(),
        };
        let (Value::Null, Some(end), socket) = self.answered(&ask, &call)? else {
            return Err(failed("the answer is without a descriptor"));
        };
        // What was started runs as long as the socket is open.
        Ok(AttachedProgram::new(end, socket))
    }

    fn log_in(&self, secret: &str, _now: i64) -> Result<Option<Identity>, Failure> {
        if claimed_uid(secret).is_none() {
            return Ok(None);
        }
        let link = secret.to_owned();
        let socket = self.ask(&BrokerRequest::LogIn { link })?;
        let received = wire::receive::<Result<Option<NewSession>, Failure>>(&socket);
        let (begun, _) = received.map_err(failed)?;
        Ok(begun?.map(|begun| Identity {
            uid: begun.uid,
            name: begun.name,
            proof: Proof(begun.session),
        }))
    }

    fn log_in_by_password(
        &self,
        user: &str,
        password: &Secret,
        from: Option<IpAddr>,
    ) -> Result<PasswordResult, Failure> {
        let password = password.reveal();
        if !wire::is_user(user) || password.len() > wire::PASSWORD_MAX {
            return Ok(PasswordResult::Wrong);
        }
        let user = user.to_owned();
        let socket = self.ask(&BrokerRequest::Password { user, from })?;
        // A broker that refuses does not read the password, but its answer can still be read.
        let _ = wire::send_password(&socket, password);
        let received = wire::receive::<Result<PasswordResult, Failure>>(&socket);
        received.map_err(failed)?.0
    }

    fn token(&self, secret: &str, _now: i64) -> Option<(Identity, PortalToken)> {
        let mut who = Identity::new(claimed_uid(secret)?, "");
        who.proof = Proof(secret.to_owned());
        let received = self.call::<(String, PortalToken)>(&who, &Call::Token {});
        let (name, token) = received.ok()?;
        who.name = name;
        Some((who, token))
    }

    fn may_go_on(&self, session: &str) -> bool {
        if !wire::is_secret(session) {
            return false;
        }
        let session = session.to_owned();
        let socket = self.ask(&BrokerRequest::GoOn { session });
        let confirmed =
            socket.map(|socket| wire::receive::<bool>(&socket).is_ok_and(|(yes, _)| yes));
        confirmed.unwrap_or(false)
    }

    fn bounds_logins(&self) -> bool {
        true
    }

    fn end_session(&self, session: &str) {
        if wire::is_secret(session) {
            let session = session.to_owned();
            if let Err(failure) = self.ask(&BrokerRequest::End { session }) {
                tracing::warn!("a session is not ended: {failure}");
            }
        }
    }
}
