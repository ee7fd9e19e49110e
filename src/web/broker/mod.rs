//! The broker of a portal for all users: root, with one thread, without any HTTP.
//!
//! - `wire`: messages and frames. `calls`: actions for a user, in a process that becomes the user.
//! - `passwords`: the process that asks PAM; `throttle`: how often it may be asked.
//! - `client`: the HTTP process's side.
//!
//! Owns the sessions and the processes that act for users. Nothing that comes from the HTTP process
//! is trusted: a message has at most [`wire::ASK_MAX`] bytes and one of a few forms, an action
//! needs the secret of a session or a token, and everything else is read by a process that has
//! given up root's rights, except a password, which the process that runs PAM receives as bytes.
//! The broker waits for no file server, no user database, no module of PAM and no caller.

mod calls;
pub mod client;
mod passwords;
pub mod throttle;
pub mod wire;

pub use calls::{Call, PlainJob};
pub use passwords::{PASSWORDS_MAX, STEP_MS};

use crate::identity::Identity;
use crate::sessions::{Limits, Sessions};
use calls::ActingProof;
use corral::api::portal::{Portal, claimed_uid, portal_settings};
use corral::api::{Failure, FailureKind};
use corral::spool::Site;
use corral::sys;
use corral::sys::fork::{Forked, detach, fork_snapshot};
use corral::sys::launch::{ProcessIdentity, become_user};
use corral::sys::signals::{self, SignalQueue};
use corral::sys::stream::{PollEntry, wait};
use corral::sys::{clock, descriptors, ipc, proc};
use passwords::PasswordAttempt;
use serde::Serialize;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use throttle::Throttle;
use wire::{BrokerRequest, NewSession, PasswordResult};

/// Maximum number of processes that act for users at once: in total, for one user, and for login
/// links.
pub const PROCESSES_MAX: usize = 64;
pub const OF_USER_MAX: usize = 16;
pub const LOGINS_MAX: usize = 16;
/// Maximum number of processes that attend to something with which users communicate, in total and
/// for one user.
pub const ATTENDED_MAX: usize = 128;
pub const ATTENDED_OF_USER_MAX: usize = 16;
/// Maximum lifetime of a process, ms: the leader's answer is awaited for a minute.
const LIFE_MS: u64 = 80_000;
/// Interval at which the sessions of attending processes are checked, ms.
const SESSION_CHECK_MS: u64 = 5_000;
/// Interval at which a process that is ending is checked, ms.
const ENDING_MS: u64 = 20;
/// Time that the HTTP process gets to end, ms.
const END_MS: u64 = 10_000;
/// Random bytes of a session's secret.
const SECRET: usize = 32;
/// Maximum size of what a process reports to the broker, bytes: a user, or settings.
const REPORT_MAX: usize = 1024;
/// Interval at which the settings of the portal are read again, ms.
const SETTINGS_MS: u64 = 60_000;

/// A process that acts for a user.
struct Worker {
    process: Forked,
    uid: u32,
    /// When the process is killed, ms since boot.
    deadline: u64,
    /// The session with which the process ends; other processes end with their call.
    session: Option<String>,
    /// The socket for reports of the process; closed when the process has ended.
    reports: File,
    report: Vec<u8>,
    task: WorkerTask,
}

/// The purpose of a process, which determines what its end means.
enum WorkerTask {
    /// A call; the process answers it itself.
    Call,
    /// Uses up a login link; contains the socket for the answer.
    Link(File),
    /// Asks PAM.
    Password(PasswordAttempt),
    /// Reads the settings of the portal again.
    Settings,
}

impl Worker {
    /// Kills the process and everything that it has started.
    fn kill(&self) {
        self.process.kill();
        self.kill_group();
    }

    /// Kills the processes that it started and that still run.
    fn kill_group(&self) {
        if self.process.pid() > 1 {
            let _ = proc::killpg(self.process.pid(), signals::number("KILL").unwrap_or(9));
        }
    }
}

/// See the top of this file.
pub struct Broker {
    site: Site,
    control: File,
    sessions: Sessions,
    /// The settings of section `portal` that apply, and when they are read again, ms since boot.
    portal: Portal,
    read_again: u64,
    throttle: Throttle,
    /// Answers to passwords with the time at which each is sent, ms since boot.
    delayed_answers: Vec<(u64, File, PasswordResult)>,
    workers: Vec<Worker>,
    /// Processes that have closed their socket but still exist: a file server may block them.
    ending: Vec<Worker>,
    is_ready: bool,
}

/// Why the broker has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BrokerEnd {
    /// A signal ended it.
    BySignal,
    /// The HTTP process has ended.
    Alone,
}

impl Broker {
    /// `control`: the socket to the HTTP process.
    pub fn new(control: File, site: Site) -> Broker {
        Broker {
            site,
            control,
            sessions: Sessions::default(),
            portal: Portal::default(),
            read_again: u64::MAX,
            throttle: Throttle::default(),
            delayed_answers: Vec::new(),
            workers: Vec::new(),
            ending: Vec::new(),
            is_ready: false,
        }
    }

    /// Uses these settings, which are read again at intervals.
    pub fn following(mut self, portal: &Portal) -> Broker {
        self.read_again = clock::boot_ms() + SETTINGS_MS;
        self.set(broker_settings(portal));
        self
    }

    fn set(&mut self, portal: Portal) {
        self.sessions.set_limits(Limits::of(&portal));
        self.portal = portal;
    }

    /// Serves until a signal has come and the HTTP process, `http`, has ended. `ready` is called
    /// when that process answers.
    ///
    /// # Errors
    /// The system refuses to wait, or `ready` fails.
    pub fn run(
        &mut self,
        http: &mut Forked,
        ready: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<BrokerEnd, Failure> {
        let signal = |name| signals::number(name).unwrap_or_default();
        let (term, hup) = (signal("TERM"), signal("HUP"));
        let queue = SignalQueue::open(&[term, signal("INT"), hup]).map_err(system)?;
        let mut ends: Option<u64> = None;
        loop {
            let now = clock::boot_ms();
            if ends.is_some_and(|end| now >= end) {
                http.kill();
            }
            self.do_what_is_due(now);
            let pause = self.pause(ends, now);
            let events = wait(&self.watched(&queue), pause).map_err(system)?;
            let caught = events[1].0.then(|| queue.next_signal()).flatten();
            if caught == Some(hup) {
                self.read_again = 0;
                if self.is_ready {
                    let _ = proc::kill(http.pid(), hup);
                }
            } else if caught.is_some() && ends.is_none() {
                ends = Some(clock::boot_ms() + END_MS);
                let _ = proc::kill(http.pid(), term);
            }
            self.read_reports(&events[2..]);
            if events[0].0 {
                match descriptors::receive(&self.control, wire::ASK_MAX + 1) {
                    Ok(Some(message)) => {
                        if self.take(&message.bytes, message.descriptor) {
                            ready()?;
                        }
                    }
                    Ok(None) => break,
                    Err(e) => tracing::warn!("the HTTP process: {e}"),
                }
            }
        }
        self.workers
            .iter()
            .chain(&self.ending)
            .for_each(Worker::kill);
        http.kill();
        let _ = http.wait();
        Ok(match ends {
            Some(_) => BrokerEnd::BySignal,
            None => BrokerEnd::Alone,
        })
    }

    fn do_what_is_due(&mut self, now: u64) {
        self.end_late_ones(now);
        self.reap_ended();
        let is_due = |late: &mut (u64, File, PasswordResult)| late.0 <= now;
        for (_, to, result) in self.delayed_answers.extract_if(.., is_due) {
            answer(&to, &Ok::<_, Failure>(result));
        }
        if self.read_again <= now {
            self.read_again = now + SETTINGS_MS;
            self.read_settings();
        }
    }

    /// Time until something is due, ms.
    fn pause(&self, ends: Option<u64>, now: u64) -> Option<u64> {
        let workers = self.workers.iter().map(|worker| worker.deadline);
        let late = self.delayed_answers.iter().map(|(at, ..)| *at);
        let next = workers.chain(late).chain(ends).chain([self.read_again]);
        let next = next.min().filter(|at| *at < u64::MAX);
        let pause = next.map(|at| at.saturating_sub(now).max(1));
        let soon = (!self.ending.is_empty()).then_some(ENDING_MS);
        soon.into_iter().chain(pause).min()
    }

    fn watched(&self, queue: &SignalQueue) -> Vec<PollEntry> {
        let own = [self.control.as_raw_fd(), queue.as_raw_fd()];
        let reports = self.workers.iter().map(|worker| worker.reports.as_raw_fd());
        let watched = |fd| PollEntry {
            fd,
            read: true,
            write: false,
        };
        own.into_iter().chain(reports).map(watched).collect()
    }

    fn end_late_ones(&mut self, now: u64) {
        let wall = clock::wall_ms();
        for worker in &mut self.workers {
            let session = worker.session.as_ref().filter(|_| worker.deadline <= now);
            if session.is_some_and(|session| self.sessions.is_there(session, wall)) {
                worker.deadline = now + SESSION_CHECK_MS;
            }
        }
        let late = |worker: &&mut Worker| worker.deadline <= now;
        for worker in self.workers.iter_mut().filter(late) {
            match worker.session {
                Some(_) => tracing::info!("the session of uid {} is over", worker.uid),
                None => {
                    tracing::warn!("a call of uid {} takes too long and is ended", worker.uid);
                }
            }
            worker.kill();
            // Only once: a process that is blocked by a file server ends when the server answers.
            worker.deadline = u64::MAX;
        }
    }

    /// Reads reports of processes. A process that closes its socket is about to end.
    fn read_reports(&mut self, events: &[(bool, bool)]) {
        let mut over = Vec::new();
        for (at, worker) in self.workers.iter_mut().enumerate() {
            if !events.get(at).is_some_and(|event| event.0) {
                continue;
            }
            let mut bytes = [0u8; REPORT_MAX];
            match (&worker.reports).read(&mut bytes) {
                Ok(n) if n > 0 && worker.report.len() + n <= REPORT_MAX => {
                    worker.report.extend_from_slice(&bytes[..n]);
                }
                _ => over.push(at),
            }
        }
        for at in over.into_iter().rev() {
            let worker = self.workers.swap_remove(at);
            self.ending.push(worker);
        }
        self.reap_ended();
    }

    /// Removes the processes that have ended, and answers their logins. Does not wait for any.
    fn reap_ended(&mut self) {
        let mut at = 0;
        while at < self.ending.len() {
            // As long as the process was not waited for, its pid cannot be reused.
            self.ending[at].kill_group();
            let code = match self.ending[at].process.try_wait() {
                Ok(Some(code)) => Some(code),
                // It cannot be waited for: its result is unknown, so no session is begun.
                Err(_) => None,
                Ok(None) => {
                    at += 1;
                    continue;
                }
            };
            let Worker {
                uid,
                report,
                task: work,
                ..
            } = self.ending.swap_remove(at);
            match work {
                WorkerTask::Call => {}
                WorkerTask::Link(to) => self.answer_login(&to, uid, &report, code == Some(0)),
                WorkerTask::Password(tried) => self.end_of_password(tried, &report, code),
                WorkerTask::Settings => self.take_settings(&report),
            }
        }
    }

    fn answer_login(&mut self, to: &File, uid: u32, name: &[u8], is_good: bool) {
        let name = String::from_utf8_lossy(name).into_owned();
        let begun = (is_good && !name.is_empty()).then(|| {
            tracing::info!("login by a link: {name} ({uid})");
            self.begin(uid, name)
        });
        answer(to, &Ok::<_, Failure>(begun));
    }

    /// Begins a session of this user.
    fn begin(&mut self, uid: u32, name: String) -> NewSession {
        let session = clock::nonce(SECRET);
        let who = Identity::new(uid, name.clone());
        let now = clock::wall_ms();
        self.sessions.begin(&session, String::new(), who, now);
        NewSession { uid, name, session }
    }

    /// Starts a process that reads the settings of the portal and may wait for the file server.
    fn read_settings(&mut self) {
        let mut all = self.workers.iter().chain(&self.ending);
        if all.any(|worker| matches!(worker.task, WorkerTask::Settings))
            || self.count() >= PROCESSES_MAX
        {
            return;
        }
        let site = self.site.clone();
        match fork(None, |tell| send_settings(&site, tell)) {
            Ok(made) => self.add_worker(made, 0, LIFE_MS, WorkerTask::Settings),
            Err(e) => tracing::warn!("the settings of the portal: {e}"),
        }
    }

    fn take_settings(&mut self, bytes: &[u8]) {
        match serde_json::from_slice::<Portal>(bytes) {
            Ok(portal) if portal != self.portal => {
                tracing::info!("section portal of cb.yaml has changed and takes effect");
                self.set(portal);
            }
            Ok(_) => {}
            // The process has already logged why it could not read them.
            Err(_) if bytes.is_empty() => {}
            Err(e) => tracing::error!("the settings of the portal are not understood: {e}"),
        }
    }

    /// Carries out a message; true: the HTTP process answers for the first time. An invalid message
    /// is ignored.
    fn take(&mut self, bytes: &[u8], socket: Option<File>) -> bool {
        let (Some(ask), Some(socket)) = (wire::parse_request(bytes), socket) else {
            tracing::warn!("a message of the HTTP process is not understood");
            return false;
        };
        let now = clock::wall_ms();
        match ask {
            BrokerRequest::Ready {} => return !std::mem::replace(&mut self.is_ready, true),
            BrokerRequest::LogIn { link } => self.log_in(link, socket),
            BrokerRequest::Password { user, from } => self.try_password(user, from, socket),
            BrokerRequest::GoOn { session } => {
                answer(&socket, &self.sessions.find(&session, now).is_some());
            }
            BrokerRequest::End { session } => {
                self.sessions.end(&session);
                let of_it = |worker: &&mut Worker| worker.session.as_ref() == Some(&session);
                self.workers
                    .iter_mut()
                    .filter(of_it)
                    .for_each(|worker| worker.deadline = 0);
            }
            BrokerRequest::Attend { uid, proof } => match self.sessions.find(&proof, now) {
                Some(session) if session.identity.uid == uid => self.attend(uid, proof, &socket),
                _ => refuse(&socket, no_session()),
            },
            BrokerRequest::Act { uid, proof } => match self.proof_of(uid, proof, now) {
                Ok(by) => self.act(uid, by, socket),
                Err(failure) => refuse(&socket, failure),
            },
        }
        false
    }

    /// The proof by which a process may become this user.
    fn proof_of(&mut self, uid: u32, proof: String, now: i64) -> Result<ActingProof, Failure> {
        match self.sessions.find(&proof, now) {
            Some(session) if session.identity.uid == uid => return Ok(ActingProof::Session),
            Some(session) => {
                let whose = session.identity.uid;
                tracing::warn!("a session of uid {whose} gives no right to act for uid {uid}");
            }
            None if claimed_uid(&proof) == Some(uid) => return Ok(ActingProof::Token(proof)),
            None => {}
        }
        Err(no_session())
    }

    /// Starts an attending process for a session of this user.
    fn attend(&mut self, uid: u32, session: String, socket: &File) {
        let all = self
            .workers
            .iter()
            .filter(|worker| worker.session.is_some());
        let of_user = all.clone().filter(|worker| worker.uid == uid).count();
        let busy = match () {
            () if all.count() + self.ending.len() >= ATTENDED_MAX => Some(ATTENDED_MAX),
            () if of_user >= ATTENDED_OF_USER_MAX => Some(ATTENDED_OF_USER_MAX),
            () => None,
        };
        if let Some(most) = busy {
            return refuse(socket, too_many(most));
        }
        let site = self.site.clone();
        match fork(Some(socket), |_| calls::attend(&site, uid, socket)) {
            Ok(made) => {
                self.add_worker(made, uid, LIFE_MS, WorkerTask::Call);
                if let Some(worker) = self.workers.last_mut() {
                    worker.session = Some(session);
                    worker.deadline = clock::boot_ms() + SESSION_CHECK_MS;
                }
            }
            Err(e) => refuse(socket, system(e)),
        }
    }

    fn act(&mut self, uid: u32, by: ActingProof, socket: File) {
        let is_call = |worker: &&Worker| worker.uid == uid && worker.session.is_none();
        let of_user = self.workers.iter().filter(is_call);
        let busy = match () {
            () if self.count() >= PROCESSES_MAX => Some(PROCESSES_MAX),
            () if of_user.count() >= OF_USER_MAX => Some(OF_USER_MAX),
            () => None,
        };
        if let Some(most) = busy {
            return refuse(&socket, too_many(most));
        }
        let site = self.site.clone();
        let call = |_: &File| calls::serve(&site, uid, &by, &socket);
        let made = fork(Some(&socket), call);
        match made {
            Ok(made) => self.add_worker(made, uid, LIFE_MS, WorkerTask::Call),
            Err(e) => refuse(&socket, system(e)),
        }
    }

    fn log_in(&mut self, link: String, socket: File) {
        let is_link = |worker: &&Worker| matches!(worker.task, WorkerTask::Link(_));
        let logins = self.workers.iter().filter(is_link);
        let most = match logins.count() >= LOGINS_MAX {
            true => LOGINS_MAX,
            false => PROCESSES_MAX,
        };
        if most == LOGINS_MAX || self.count() >= PROCESSES_MAX {
            return refuse(&socket, too_many(most));
        }
        let Some(uid) = claimed_uid(&link) else {
            return answer(&socket, &Ok::<_, Failure>(None::<NewSession>));
        };
        let site = self.site.clone();
        match fork(None, |tell| calls::log_in(&site, &link, tell)) {
            Ok(made) => self.add_worker(made, uid, LIFE_MS, WorkerTask::Link(socket)),
            Err(e) => refuse(&socket, system(e)),
        }
    }

    /// The number of processes that carry out a call.
    fn count(&self) -> usize {
        let calls = self
            .workers
            .iter()
            .filter(|worker| worker.session.is_none());
        calls.count() + self.ending.len()
    }

    fn add_worker(
        &mut self,
        (process, reports): (Forked, File),
        uid: u32,
        life_ms: u64,
        work: WorkerTask,
    ) {
        self.workers.push(Worker {
            process,
            uid,
            deadline: clock::boot_ms() + life_ms,
            session: None,
            reports,
            report: Vec::new(),
            task: work,
        });
    }
}

/// Only those settings that the broker uses.
fn broker_settings(portal: &Portal) -> Portal {
    Portal {
        pam: portal.pam,
        pam_service: portal.pam_service.clone(),
        session_idle_ms: portal.session_idle_ms,
        session_max_ms: portal.session_max_ms,
        ..Portal::default()
    }
}

/// A process that reads the settings of section `portal` for the broker, as the owner of the share,
/// and reports them; returns its exit code.
fn send_settings(site: &Site, tell: &File) -> i32 {
    let owner = sys::fs::stat(&site.layout().cluster()).ok().flatten();
    let became = owner.is_some_and(|owner| {
        let (uid, gid, groups) = (owner.uid, owner.gid, vec![owner.gid]);
        uid == 0 || become_user(&ProcessIdentity { uid, gid, groups }).is_ok()
    });
    if !became {
        return 1;
    }
    match portal_settings(site) {
        Ok(portal) => {
            let text = serde_json::to_vec(&broker_settings(&portal)).unwrap_or_default();
            let mut to = tell;
            i32::from(to.write_all(&text).is_err())
        }
        Err(failure) => {
            tracing::warn!("section portal stays as it was read: {failure}");
            1
        }
    }
}

/// Starts a process for `task`, which gets the socket for its reports to the broker. Of the
/// broker's descriptors it inherits only `keep`.
fn fork(keep: Option<&File>, work: impl FnOnce(&File) -> i32) -> sys::Result<(Forked, File)> {
    let (reports, tell) = ipc::pair()?;
    let process = fork_snapshot(|| {
        signals::reset_all();
        signals::ignore_sigpipe();
        let mut kept_open = vec![tell.as_raw_fd()];
        kept_open.extend(keep.map(std::os::fd::AsRawFd::as_raw_fd));
        detach(c"cbweb-call", &kept_open);
        work(&tell)
    })?;
    Ok((process, reports))
}

/// Answers without waiting: if the socket cannot take the answer, it is lost.
fn answer<T: Serialize>(to: &File, value: &T) {
    let sent = wire::frame(value).and_then(|bytes| descriptors::send(to, &bytes, None, false));
    if let Err(e) = sent {
        tracing::debug!("an answer cannot be sent: {e}");
    }
}

fn refuse(to: &File, failure: Failure) {
    answer(to, &Err::<serde_json::Value, Failure>(failure));
}

fn no_session() -> Failure {
    Failure {
        kind: FailureKind::Permission,
        text: "the session is over\nhint: log in again".to_owned(),
    }
}

fn too_many(most: usize) -> Failure {
    Failure {
        kind: FailureKind::System,
        text: format!("{most} calls are in progress, which is the maximum\nhint: try again"),
    }
}

fn system(why: impl ToString) -> Failure {
    Failure {
        kind: FailureKind::System,
        text: why.to_string(),
    }
}
