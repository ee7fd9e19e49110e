//! The requester, and actions with the requester's rights.
//!
//! Everything that needs a user's rights goes through [`UserAccess`]. [`SameUser`] acts as the user
//! of this process and serves no other user; a service uses its broker through the same trait
//! (`broker::client`), whose processes use [`SameUser`] after becoming the user. No other code in
//! this package submits, acts, or opens a file of a user.

use crate::broker::wire::PasswordResult;
use crate::secret::Secret;
use corral::api::admin::{self, AdminAction, AdminAnswer};
use corral::api::attach::{self, AttachRequest};
use corral::api::files::{self, FileAnswer, FileRequest};
use corral::api::portal::{PortalToken, take_login, token_of};
use corral::api::read::{JobOutput, JobTexts, Reader};
use corral::api::{self, Accepted, Failure, FailureKind, JobRequest};
use corral::record::ack::Outcome;
use corral::record::request::SignalAction;
use corral::spool::Site;
use corral::spool::view::ViewJob;
use corral::sys;
use corral::sys::users::UserFacts;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::net::IpAddr;

/// The requester: a user of the operating system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub uid: u32,
    pub name: String,
    pub proof: Proof,
}

impl Identity {
    /// An identity that is trusted without a proof.
    pub fn new(uid: u32, name: impl Into<String>) -> Identity {
        Identity {
            uid,
            name: name.into(),
            proof: Proof::default(),
        }
    }
}

/// The secret by which a user has proved their identity: that of a session or a token. The broker
/// of a service acts for no user without it. Logs do not show it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Proof(pub String);

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "secret" })
    }
}

/// What can be done to jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum JobAction {
    Kill,
    Stop,
    Resume,
    Requeue,
}

impl JobAction {
    pub const ALL: [JobAction; 4] = [
        JobAction::Kill,
        JobAction::Stop,
        JobAction::Resume,
        JobAction::Requeue,
    ];

    pub fn word(self) -> &'static str {
        match self {
            JobAction::Kill => "kill",
            JobAction::Stop => "stop",
            JobAction::Resume => "resume",
            JobAction::Requeue => "requeue",
        }
    }

    pub fn parse(word: &str) -> Option<JobAction> {
        JobAction::ALL.into_iter().find(|act| act.word() == word)
    }
}

/// Something that runs for a user, who communicates with it through `end`; it is ended when this is
/// dropped.
pub struct AttachedProgram {
    pub end: File,
    keeps: Box<dyn Send + Sync>,
}

impl AttachedProgram {
    /// `keeps`: ends it when dropped.
    pub fn new(end: File, keeps: impl Send + Sync + 'static) -> AttachedProgram {
        AttachedProgram {
            end,
            keeps: Box::new(keeps),
        }
    }

    /// The descriptor, and the object that must be kept as long as the descriptor is used.
    pub fn split(self) -> (File, Box<dyn Send + Sync>) {
        (self.end, self.keeps)
    }
}

/// Acting with a user's rights. Calls may block and wait for the leader.
pub trait UserAccess: Send + Sync {
    /// The user's view of the cluster.
    ///
    /// # Errors
    /// The user is not served here.
    fn reader(&self, identity: &Identity) -> Result<Reader, Failure>;

    /// # Errors
    /// The request is refused, or no answer came.
    fn submit(&self, identity: &Identity, job: &JobRequest) -> Result<Accepted, Failure>;

    /// The chances of a job to start, as JSON of `csub --dry-run --json`.
    ///
    /// # Errors
    /// csub would refuse the job, or the cluster cannot be read.
    fn dry_run(&self, identity: &Identity, job: &JobRequest) -> Result<String, Failure>;

    /// Acts on jobs; returns the outcome for each of them.
    ///
    /// # Errors
    /// The whole request is refused, or no answer came.
    fn act(
        &self,
        identity: &Identity,
        act: JobAction,
        jobs: Vec<String>,
    ) -> Result<Vec<Outcome>, Failure>;

    /// The ends of a job's files, read with the user's rights.
    ///
    /// # Errors
    /// The user is not served here.
    fn output(
        &self,
        identity: &Identity,
        job: &ViewJob,
        most: usize,
    ) -> Result<Vec<JobOutput>, Failure>;

    /// Carries out an action of an administrator of the cluster.
    ///
    /// # Errors
    /// The user is not an administrator, something is refused, or no answer came.
    fn administer(&self, identity: &Identity, act: &AdminAction) -> Result<AdminAnswer, Failure>;

    /// Carries out an operation on the user's files.
    ///
    /// # Errors
    /// The system refuses it.
    fn files(&self, identity: &Identity, ask: &FileRequest) -> Result<FileAnswer, Failure>;

    /// Submits an unchanged copy of a job. `key`: repeated calls with the same key return the same
    /// job.
    ///
    /// # Errors
    /// The request is refused, or no answer came.
    fn clone_job(&self, identity: &Identity, job: &str, key: &str) -> Result<Accepted, Failure>;

    /// Script and environment of a job, for the job's user.
    ///
    /// # Errors
    /// The user is not served here.
    fn texts(&self, identity: &Identity, job: &ViewJob) -> Result<JobTexts, Failure>;

    /// Starts something with which the user communicates. It requires a session: a token is not
    /// enough.
    ///
    /// # Errors
    /// The user is not served here, a value is invalid, or the system refuses.
    fn attend(&self, identity: &Identity, ask: &AttachRequest) -> Result<AttachedProgram, Failure>;

    /// Uses up a login link; returns its user if it is valid.
    ///
    /// # Errors
    /// The drop box cannot be read.
    fn log_in(&self, secret: &str, now: i64) -> Result<Option<Identity>, Failure>;

    /// Begins a session by the password of the operating system; `from`: the caller's address. May
    /// take seconds, and always does if the password is wrong.
    ///
    /// # Errors
    /// Passwords are not accepted here, or cannot be checked now.
    fn log_in_by_password(
        &self,
        _user: &str,
        _password: &Secret,
        _from: Option<IpAddr>,
    ) -> Result<PasswordResult, Failure> {
        Ok(PasswordResult::Unchecked)
    }

    /// The user of a token for programs, if the token is valid.
    fn token(&self, secret: &str, now: i64) -> Option<(Identity, PortalToken)>;

    /// Whether the session with this secret may continue; the session counts as used now. Called
    /// because a broker keeps sessions, too. Does not wait for users' files.
    fn may_go_on(&self, _session: &str) -> bool {
        true
    }

    /// Whether the broker limits parallel logins. If so, wrong links, which cost little and cannot
    /// be guessed, are not counted: no caller can lock out others with them.
    fn bounds_logins(&self) -> bool {
        false
    }

    /// Ends the session with this secret.
    fn end_session(&self, _session: &str) {}
}

/// The published view for a user, read with the rights of this process.
pub(crate) fn reader_for(site: &Site, facts: UserFacts) -> Reader {
    Reader::new(site, facts)
}

/// Acts as the user of this process and serves no other user.
pub struct SameUser {
    site: Site,
    me: UserFacts,
}

impl SameUser {
    /// An actor for the user of this process.
    pub fn new(site: Site) -> SameUser {
        let me = sys::users::current_user();
        SameUser { site, me }
    }

    fn check(&self, identity: &Identity) -> Result<(), Failure> {
        match identity.uid == self.me.uid {
            true => Ok(()),
            false => Err(Failure {
                kind: FailureKind::Permission,
                text: format!("this portal serves the user {} only", self.me.name),
            }),
        }
    }

    fn identity(&self) -> Identity {
        Identity::new(self.me.uid, self.me.name.clone())
    }
}

impl UserAccess for SameUser {
    fn reader(&self, identity: &Identity) -> Result<Reader, Failure> {
        self.check(identity)?;
        Ok(reader_for(&self.site, self.me.clone()))
    }

    fn submit(&self, identity: &Identity, job: &JobRequest) -> Result<Accepted, Failure> {
        self.check(identity)?;
        api::submit(&self.site, job)
    }

    fn dry_run(&self, identity: &Identity, job: &JobRequest) -> Result<String, Failure> {
        self.check(identity)?;
        api::dry_run(&self.site, job)
    }

    fn act(
        &self,
        identity: &Identity,
        act: JobAction,
        jobs: Vec<String>,
    ) -> Result<Vec<Outcome>, Failure> {
        self.check(identity)?;
        let how = match act {
            JobAction::Kill => SignalAction::Kill,
            JobAction::Stop => SignalAction::Stop,
            JobAction::Resume => SignalAction::Resume,
            JobAction::Requeue => return api::requeue(&self.site, jobs),
        };
        api::signal(&self.site, jobs, how)
    }

    fn output(
        &self,
        identity: &Identity,
        job: &ViewJob,
        most: usize,
    ) -> Result<Vec<JobOutput>, Failure> {
        Ok(self.reader(identity)?.output(job, most))
    }

    fn administer(&self, identity: &Identity, act: &AdminAction) -> Result<AdminAnswer, Failure> {
        admin::administer(&self.reader(identity)?, act)
    }

    fn files(&self, identity: &Identity, ask: &FileRequest) -> Result<FileAnswer, Failure> {
        self.check(identity)?;
        files::carry_out(ask)
    }

    fn clone_job(&self, identity: &Identity, job: &str, key: &str) -> Result<Accepted, Failure> {
        self.check(identity)?;
        api::submit_clone(&self.site, job, key)
    }

    fn texts(&self, identity: &Identity, job: &ViewJob) -> Result<JobTexts, Failure> {
        Ok(self.reader(identity)?.texts(job))
    }

    fn attend(&self, identity: &Identity, ask: &AttachRequest) -> Result<AttachedProgram, Failure> {
        self.check(identity)?;
        let (end, attended) = attach::start_attached(&self.site, &self.me, ask, false)?;
        Ok(AttachedProgram::new(end, attended))
    }

    fn log_in(&self, secret: &str, now: i64) -> Result<Option<Identity>, Failure> {
        let good = take_login(&self.site.layout(), self.me.uid, secret, now)?;
        Ok(good.then(|| self.identity()))
    }

    fn token(&self, secret: &str, now: i64) -> Option<(Identity, PortalToken)> {
        let token = token_of(&self.site.layout(), self.me.uid, secret, now)?;
        Some((self.identity(), token))
    }
}
