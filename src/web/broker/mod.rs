//! The broker of a portal for all users: root, with one thread, without a word of HTTP.
//!
//! - `wire`: messages and frames. `calls`: what is done for a user, in a process that becomes them.
//! - `client`: the HTTP process's side.
//!
//! Owns the sessions and the processes that act for users. What comes from the HTTP process is
//! believed nowhere: a message is at most [`wire::ASK_MAX`] bytes and of one of a few forms, an act
//! needs the secret of a session or a token, and everything else is read by a process that has
//! given up root's rights. The broker waits for no file server, no user database and no caller.

mod calls;
pub mod client;
pub mod wire;

pub use calls::{Call, PlainJob};

use crate::identity::Identity;
use crate::sessions::Sessions;
use calls::By;
use corral::api::portal::claimed_uid;
use corral::api::{Failure, FailureKind};
use corral::spool::Site;
use corral::sys;
use corral::sys::fork::{Forked, fork_snapshot, stand_alone};
use corral::sys::signals::{self, SignalQueue};
use corral::sys::stream::{Watched, wait};
use corral::sys::{clock, descriptors, ipc, proc};
use serde::Serialize;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use wire::{Ask, Begun};

/// Most processes that act for users at once, for one of them, and for logins.
pub const PROCESSES_MAX: usize = 64;
pub const OF_USER_MAX: usize = 16;
pub const LOGINS_MAX: usize = 16;
/// Most processes that stay with what users speak to, and of one user.
pub const ATTENDED_MAX: usize = 128;
pub const ATTENDED_OF_USER_MAX: usize = 16;
/// Longest life of one, ms: the leader's answer is awaited for a minute.
const LIFE_MS: u64 = 80_000;
/// How often it is looked whether the sessions of those that stay still are, ms.
const SESSION_LOOK_MS: u64 = 5_000;
/// How soon it is looked again at a process that ends, ms.
const ENDING_MS: u64 = 20;
/// Longest time that the HTTP process gets to end, ms.
const END_MS: u64 = 10_000;
/// Random bytes of a session's secret.
const SECRET: usize = 32;
/// Longest name of a user, bytes.
const NAME_MAX: usize = 256;

/// A process that acts for a user.
struct Worker {
    process: Forked,
    uid: u32,
    /// When it is killed, ms since boot.
    ends: u64,
    /// The session that it ends with; other processes end with their call.
    session: Option<String>,
    /// Closed when it has ended; before that, what a login tells.
    told: File,
    said: Vec<u8>,
    /// Where the answer to a login goes; other calls answer themselves.
    login: Option<File>,
}

impl Worker {
    /// Ends it with all that it has started.
    fn kill(&self) {
        self.process.kill();
        self.kill_group();
    }

    /// Ends what it has started and left.
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
    workers: Vec<Worker>,
    /// Those that have told their end and are not quite gone: a file server may hold them.
    ending: Vec<Worker>,
    is_ready: bool,
}

/// Why the broker has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// A signal said so.
    Told,
    /// The HTTP process is gone.
    Alone,
}

impl Broker {
    /// `control`: the socket to the HTTP process.
    pub fn new(control: File, site: Site) -> Broker {
        Broker {
            site,
            control,
            sessions: Sessions::default(),
            workers: Vec::new(),
            ending: Vec::new(),
            is_ready: false,
        }
    }

    /// Serves until a signal comes and the HTTP process, `http`, has ended. `ready` is called when
    /// that process answers.
    ///
    /// # Errors
    /// The system refuses to wait, or `ready` fails.
    pub fn run(
        &mut self,
        http: &mut Forked,
        ready: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<Ended, Failure> {
        let stop = ["TERM", "INT"].map(|name| signals::number(name).unwrap_or_default());
        let queue = SignalQueue::open(&stop).map_err(system)?;
        let mut ends: Option<u64> = None;
        loop {
            let now = clock::boot_ms();
            if ends.is_some_and(|end| now >= end) {
                http.kill();
            }
            self.end_late_ones(now);
            self.bury();
            let next = self.workers.iter().map(|w| w.ends).chain(ends).min();
            let pause = next.map(|at| at.saturating_sub(now).max(1));
            let soon = (!self.ending.is_empty()).then_some(ENDING_MS);
            let pause = soon.into_iter().chain(pause).min();
            let seen = wait(&self.watched(&queue), pause).map_err(system)?;
            if seen[1].0 && queue.next_signal().is_some() && ends.is_none() {
                ends = Some(clock::boot_ms() + END_MS);
                let _ = proc::kill(http.pid(), stop[0]);
            }
            self.hear(&seen[2..]);
            if seen[0].0 {
                match descriptors::receive(&self.control, wire::ASK_MAX + 1) {
                    Ok(Some(message)) => {
                        if self.take(&message.bytes, message.brought) {
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
            Some(_) => Ended::Told,
            None => Ended::Alone,
        })
    }

    fn watched(&self, queue: &SignalQueue) -> Vec<Watched> {
        let own = [self.control.as_raw_fd(), queue.as_raw_fd()];
        let told = self.workers.iter().map(|worker| worker.told.as_raw_fd());
        let watched = |fd| Watched {
            fd,
            read: true,
            write: false,
        };
        own.into_iter().chain(told).map(watched).collect()
    }

    fn end_late_ones(&mut self, now: u64) {
        let wall = clock::wall_ms();
        for worker in &mut self.workers {
            let session = worker.session.as_ref().filter(|_| worker.ends <= now);
            if session.is_some_and(|session| self.sessions.is_there(session, wall)) {
                worker.ends = now + SESSION_LOOK_MS;
            }
        }
        let late = |worker: &&mut Worker| worker.ends <= now;
        for worker in self.workers.iter_mut().filter(late) {
            match worker.session {
                Some(_) => tracing::info!("the session of uid {} is over", worker.uid),
                None => {
                    tracing::warn!("a call of uid {} takes too long and is ended", worker.uid);
                }
            }
            worker.kill();
            // Once: one that a file server holds ends when that answers.
            worker.ends = u64::MAX;
        }
    }

    /// Takes what processes tell. One that tells nothing more is about to end.
    fn hear(&mut self, seen: &[(bool, bool)]) {
        let mut over = Vec::new();
        for (at, worker) in self.workers.iter_mut().enumerate() {
            if !seen.get(at).is_some_and(|seen| seen.0) {
                continue;
            }
            let mut bytes = [0u8; NAME_MAX];
            match (&worker.told).read(&mut bytes) {
                Ok(n) if n > 0 && worker.said.len() + n <= NAME_MAX => {
                    worker.said.extend_from_slice(&bytes[..n]);
                }
                _ => over.push(at),
            }
        }
        for at in over.into_iter().rev() {
            let worker = self.workers.swap_remove(at);
            self.ending.push(worker);
        }
        self.bury();
    }

    /// Forgets the processes that have ended, and answers their logins. Waits for none.
    fn bury(&mut self) {
        let mut at = 0;
        while at < self.ending.len() {
            // While it is known here, its number is nobody else's.
            self.ending[at].kill_group();
            let code = match self.ending[at].process.try_wait() {
                Ok(Some(code)) => Some(code),
                // It cannot be waited for: nothing is known of it, and nothing is begun.
                Err(_) => None,
                Ok(None) => {
                    at += 1;
                    continue;
                }
            };
            let worker = self.ending.swap_remove(at);
            if let Some(to) = &worker.login {
                self.answer_login(to, worker.uid, &worker.said, code == Some(0));
            }
        }
    }

    fn answer_login(&mut self, to: &File, uid: u32, name: &[u8], is_good: bool) {
        let name = String::from_utf8_lossy(name).into_owned();
        let begun = (is_good && !name.is_empty()).then(|| {
            tracing::info!("{name} ({uid}) has logged in");
            let session = clock::nonce(SECRET);
            let who = Identity::new(uid, name.clone());
            let now = clock::wall_ms();
            self.sessions.begin(&session, String::new(), who, now);
            Begun { uid, name, session }
        });
        answer(to, &Ok::<_, Failure>(begun));
    }

    /// Does what a message asks; true: that process answers for the first time. What is no message
    /// is passed over.
    fn take(&mut self, bytes: &[u8], socket: Option<File>) -> bool {
        let (Some(ask), Some(socket)) = (wire::parse_ask(bytes), socket) else {
            tracing::warn!("a message of the HTTP process is not understood");
            return false;
        };
        let now = clock::wall_ms();
        match ask {
            Ask::Ready {} => return !std::mem::replace(&mut self.is_ready, true),
            Ask::LogIn { link } => self.log_in(link, socket),
            Ask::GoOn { session } => {
                answer(&socket, &self.sessions.find(&session, now).is_some());
            }
            Ask::End { session } => {
                self.sessions.end(&session);
                let of_it = |worker: &&mut Worker| worker.session.as_ref() == Some(&session);
                self.workers
                    .iter_mut()
                    .filter(of_it)
                    .for_each(|worker| worker.ends = 0);
            }
            Ask::Attend { uid, proof } => match self.sessions.find(&proof, now) {
                Some(session) if session.who.uid == uid => self.attend(uid, proof, &socket),
                _ => refuse(&socket, no_session()),
            },
            Ask::Act { uid, proof } => match self.right_of(uid, proof, now) {
                Ok(by) => self.act(uid, by, socket),
                Err(failure) => refuse(&socket, failure),
            },
        }
        false
    }

    /// By what a process may become this user.
    fn right_of(&mut self, uid: u32, proof: String, now: i64) -> Result<By, Failure> {
        match self.sessions.find(&proof, now) {
            Some(session) if session.who.uid == uid => return Ok(By::Session),
            Some(session) => {
                let whose = session.who.uid;
                tracing::warn!("a session of uid {whose} is no right to act for uid {uid}");
            }
            None if claimed_uid(&proof) == Some(uid) => return Ok(By::Token(proof)),
            None => {}
        }
        Err(no_session())
    }

    /// Starts a process that stays, for a session of this user.
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
            Ok((process, told)) => {
                self.keep(process, told, uid, None);
                if let Some(worker) = self.workers.last_mut() {
                    worker.session = Some(session);
                    worker.ends = clock::boot_ms() + SESSION_LOOK_MS;
                }
            }
            Err(e) => refuse(socket, system(e)),
        }
    }

    fn act(&mut self, uid: u32, by: By, socket: File) {
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
            Ok((process, told)) => self.keep(process, told, uid, None),
            Err(e) => refuse(&socket, system(e)),
        }
    }

    fn log_in(&mut self, link: String, socket: File) {
        let logins = self.workers.iter().filter(|worker| worker.login.is_some());
        let most = match logins.count() >= LOGINS_MAX {
            true => LOGINS_MAX,
            false => PROCESSES_MAX,
        };
        if most == LOGINS_MAX || self.count() >= PROCESSES_MAX {
            return refuse(&socket, too_many(most));
        }
        let Some(uid) = claimed_uid(&link) else {
            return answer(&socket, &Ok::<_, Failure>(None::<Begun>));
        };
        let site = self.site.clone();
        match fork(None, |tell| calls::log_in(&site, &link, tell)) {
            Ok((process, told)) => self.keep(process, told, uid, Some(socket)),
            Err(e) => refuse(&socket, system(e)),
        }
    }

    /// All processes that do a call.
    fn count(&self) -> usize {
        let calls = self
            .workers
            .iter()
            .filter(|worker| worker.session.is_none());
        calls.count() + self.ending.len()
    }

    fn keep(&mut self, process: Forked, told: File, uid: u32, login: Option<File>) {
        self.workers.push(Worker {
            process,
            uid,
            ends: clock::boot_ms() + LIFE_MS,
            session: None,
            told,
            said: Vec::new(),
            login,
        });
    }
}

/// A process of its own for `work`, which gets the socket that tells the broker of its end. Of the
/// broker's descriptors it has `keep` only.
fn fork(keep: Option<&File>, work: impl FnOnce(&File) -> i32) -> sys::Result<(Forked, File)> {
    let (told, tell) = ipc::pair()?;
    let process = fork_snapshot(|| {
        signals::reset_all();
        signals::ignore_sigpipe();
        let mut kept = vec![tell.as_raw_fd()];
        kept.extend(keep.map(std::os::fd::AsRawFd::as_raw_fd));
        stand_alone(c"cbweb-call", &kept);
        work(&tell)
    })?;
    Ok((process, told))
}

/// Answers without waiting: a socket that takes nothing is the asker's loss.
fn answer<T: Serialize>(to: &File, value: &T) {
    let sent = wire::frame(value).and_then(|bytes| descriptors::send(to, &bytes, None, false));
    if let Err(e) = sent {
        tracing::debug!("an answer is not taken: {e}");
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
        text: format!("{most} calls are being done, the most there may be\nhint: try again"),
    }
}

fn system(why: impl ToString) -> Failure {
    Failure {
        kind: FailureKind::System,
        text: why.to_string(),
    }
}
