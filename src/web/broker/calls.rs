//! The actions for a user through the broker, and the process that carries out one of them.
//!
//! A call is a variant of [`Call`] with plain values and one arm of [`Call::run`]. The process
//! reads it after it has become the user, so a call can do no more than the user can.

use super::wire;
use crate::identity::{Identity, JobAction, SameUser, UserAccess};
use crate::submission::option_named;
use corral::api::admin::AdminAction;
use corral::api::attach::{self, AttachRequest};
use corral::api::files::FileRequest;
use corral::api::portal::{PortalToken, Scope, claimed_uid, take_login, token_of};
use corral::api::{Failure, FailureKind, JobRequest, TemplateValues};
use corral::model::JobKey;
use corral::spool::Site;
use corral::sys;
use corral::sys::confine;
use corral::sys::launch::{ProcessIdentity, become_user};
use corral::sys::users::{self, UserFacts};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read as _, Write as _};

/// Maximum time in which a call is received, and in which its answer is read, ms.
const TRANSFER_MS: u64 = 20_000;

/// A job's description, as it is transferred.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainJob {
    pub options: Vec<String>,
    pub command: Vec<String>,
    pub line: String,
    pub script: String,
    pub template: Option<TemplateValues>,
    pub named: Vec<(String, String)>,
    pub env: Vec<(String, String)>,
    pub name: String,
    pub array: String,
    pub hold: bool,
    pub begin_ms: Option<i64>,
    pub deadline_ms: Option<i64>,
    pub run_limit_s: Option<u64>,
}

impl From<&JobRequest> for PlainJob {
    fn from(job: &JobRequest) -> PlainJob {
        let named = job.named_options.iter();
        PlainJob {
            options: job.options.clone(),
            command: job.command.clone(),
            line: job.line.clone(),
            script: job.script.clone(),
            template: job.template.clone(),
            named: named
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            env: job.env.clone(),
            name: job.name.clone(),
            array: job.array.clone(),
            hold: job.hold,
            begin_ms: job.begin_ms,
            deadline_ms: job.deadline_ms,
            run_limit_s: job.run_limit_s,
        }
    }
}

impl PlainJob {
    /// # Errors
    /// The description names an option that the portal does not accept.
    fn request(self) -> Result<JobRequest, Failure> {
        let known = |(name, value): (String, String)| match option_named(&name) {
            Some(option) => Ok((option, value)),
            None => Err(wrong("the job states an option that is unknown")),
        };
        let named: Result<_, Failure> = self.named.into_iter().map(known).collect();
        Ok(JobRequest {
            options: self.options,
            command: self.command,
            line: self.line,
            script: self.script,
            template: self.template,
            named_options: named?,
            env: self.env,
            name: self.name,
            array: self.array,
            hold: self.hold,
            begin_ms: self.begin_ms,
            deadline_ms: self.deadline_ms,
            run_limit_s: self.run_limit_s,
        })
    }
}

/// An action for a user: one method of [`UserAccess`] each.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    Submit {
        job: Box<PlainJob>,
    },
    DryRun {
        job: Box<PlainJob>,
    },
    Act {
        act: JobAction,
        jobs: Vec<String>,
    },
    Output {
        id: u32,
        idx: u32,
        most: usize,
    },
    Administer {
        act: Box<AdminAction>,
    },
    Files {
        ask: Box<FileRequest>,
    },
    Clone {
        job: String,
        key: String,
    },
    Texts {
        id: u32,
        idx: u32,
    },
    Token {},
    /// Something that lasts while its socket is open: only in a process that the broker started for
    /// this.
    Attend {
        ask: AttachRequest,
    },
}

/// The result of a call: a value, and a descriptor if there is one.
type CallResult = Result<(Value, Option<File>), Failure>;

/// The scope that a token needs for a call.
fn needs(call: &Call) -> Scope {
    match call {
        Call::DryRun { .. } | Call::Output { .. } | Call::Token {} => Scope::Read,
        // The user's files and secrets are more than the cluster shows.
        Call::Submit { .. }
        | Call::Act { .. }
        | Call::Clone { .. }
        | Call::Files { .. }
        | Call::Texts { .. } => Scope::Submit,
        Call::Administer { .. } | Call::Attend { .. } => Scope::Admin,
    }
}

impl Call {
    fn run(self, user: &SameUser, identity: &Identity, token: Option<&PortalToken>) -> CallResult {
        match self {
            Call::Submit { job } => plain(user.submit(identity, &job.request()?)?),
            Call::DryRun { job } => plain(user.dry_run(identity, &job.request()?)?),
            Call::Act { act, jobs } => plain(user.act(identity, act, jobs)?),
            Call::Output { id, idx, most } => {
                let job = user.reader(identity)?.job(JobKey { id, idx })?;
                plain(user.output(identity, &job, most)?)
            }
            Call::Administer { act } => plain(user.administer(identity, &act)?),
            Call::Files { ask } => plain(user.files(identity, &ask)?),
            Call::Clone { job, key } => plain(user.clone_job(identity, &job, &key)?),
            Call::Texts { id, idx } => {
                let job = user.reader(identity)?.job(JobKey { id, idx })?;
                plain(user.texts(identity, &job)?)
            }
            Call::Token {} => plain((identity.name.clone(), token)),
            Call::Attend { .. } => Err(wrong("this process does not stay")),
        }
    }
}

fn plain<T: Serialize>(value: T) -> CallResult {
    match serde_json::to_value(value) {
        Ok(value) => Ok((value, None)),
        Err(e) => Err(system(e)),
    }
}

fn wrong(text: &str) -> Failure {
    Failure {
        kind: FailureKind::Wrong,
        text: text.to_owned(),
    }
}

fn system(why: impl ToString) -> Failure {
    Failure {
        kind: FailureKind::System,
        text: why.to_string(),
    }
}

fn denied(text: &str) -> Failure {
    Failure {
        kind: FailureKind::Permission,
        text: text.to_owned(),
    }
}

/// The proof by which the broker lets a process act.
pub(super) enum ActingProof {
    /// A session, which the broker has checked to be the user's.
    Session,
    /// A token, which the process must find among the user's tokens.
    Token(String),
}

/// Becomes the user permanently, with all groups of the user.
///
/// # Errors
/// There is no such user, it is root, or the system refuses.
fn become_the_user(uid: u32) -> Result<UserFacts, Failure> {
    let unknown = || denied("this user is not known on this host");
    if uid == 0 {
        return Err(denied("the portal does not act for root"));
    }
    let facts = users::look_up(uid).map_err(system)?.ok_or_else(unknown)?;
    let who = ProcessIdentity {
        uid,
        gid: facts.gid,
        groups: users::groups_of(&facts),
    };
    become_user(&who).map_err(system)?;
    if users::effective_uid() != uid || users::effective_gid() != facts.gid {
        return Err(system("the process has not become the user"));
    }
    // Only now, because changing the user clears this setting.
    sys::proc::die_with_parent(9);
    confine::login_environment(&facts);
    sys::caller::umask(0o022);
    Ok(facts)
}

/// A process that carries out one call: becomes the user, reads the call, answers. Returns its exit
/// code.
pub(super) fn serve(site: &Site, uid: u32, by: &ActingProof, socket: &File) -> i32 {
    if sys::descriptors::limit_time(socket, TRANSFER_MS).is_err() {
        return 1;
    }
    let (answer, with) = match answer(site, uid, by, socket) {
        Ok((value, with)) => (Ok(value), with),
        Err(failure) => (Err(failure), None),
    };
    let sent: Result<Value, Failure> = answer;
    let done = wire::send(socket, &sent, with.as_ref());
    i32::from(done.is_err())
}

fn answer(site: &Site, uid: u32, by: &ActingProof, socket: &File) -> CallResult {
    let facts = become_the_user(uid)?;
    let now = sys::clock::wall_ms();
    let token = match by {
        ActingProof::Session => None,
        ActingProof::Token(secret) => {
            let found = token_of(&site.layout(), uid, secret, now);
            let unknown_token = || denied("the token is unknown, revoked or expired");
            Some(found.ok_or_else(unknown_token)?)
        }
    };
    let (call, _) = wire::receive::<Call>(socket).map_err(|e| wrong(&e.to_string()))?;
    if token
        .as_ref()
        .is_some_and(|token| token.scope < needs(&call))
    {
        return Err(denied("this token is for reading only"));
    }
    let who = Identity::new(uid, facts.name);
    call.run(&SameUser::new(site.clone()), &who, token.as_ref())
}

/// Interval at which an attending process checks what it has started, ms.
const POLL_MS: u64 = 500;

/// A process that attends to something with which the user communicates: becomes the user, reads
/// the call, starts it, passes on its descriptor, and ends it when the socket is closed. Returns
/// its exit code.
pub(super) fn attend(site: &Site, uid: u32, socket: &File) -> i32 {
    if sys::descriptors::limit_time(socket, TRANSFER_MS).is_err() {
        return 1;
    }
    let begun = (|| {
        let facts = become_the_user(uid)?;
        match wire::receive::<Call>(socket) {
            Ok((Call::Attend { ask }, _)) => attach::start_attached(site, &facts, &ask, true),
            Ok(_) => Err(wrong("this process handles only one call")),
            Err(e) => Err(wrong(&e.to_string())),
        }
    })();
    let (end, mut attended) = match begun {
        Ok(begun) => begun,
        Err(failure) => {
            let _ = wire::send(socket, &Err::<Value, Failure>(failure), None);
            return 1;
        }
    };
    let sent = wire::send(socket, &Ok::<_, Failure>(Value::Null), Some(&end));
    // From now on, only the receiver has this end.
    drop(end);
    while sent.is_ok() && !attended.has_ended() && !is_closed(socket) {}
    attended.end();
    i32::from(sent.is_err())
}

/// Whether the other end of a socket, which sends nothing more, is closed. Waits a little.
fn is_closed(socket: &File) -> bool {
    let mut from = socket;
    sys::ipc::wait_readable(socket, Some(POLL_MS)) && !from.read(&mut [0; 1]).is_ok_and(|n| n > 0)
}

/// A process that uses up a login link: reports the user's name to the broker if the link is valid.
pub(super) fn log_in(site: &Site, link: &str, tell: &File) -> i32 {
    let Some(uid) = claimed_uid(link) else {
        return 1;
    };
    let Ok(facts) = become_the_user(uid) else {
        return 1;
    };
    let now = sys::clock::wall_ms();
    let is_good = take_login(&site.layout(), uid, link, now).unwrap_or(false);
    let mut to = tell;
    i32::from(!is_good || to.write_all(facts.name.as_bytes()).is_err())
}
