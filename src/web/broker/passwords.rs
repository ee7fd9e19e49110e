//! Login with the password of the operating system: the process that asks PAM, and how the broker
//! handles its end.
//!
//! The process is root, because PAM reads files that only root may read; it reads one text of
//! limited length, uses PAM and ends. Neither the broker nor a log ever has the password.

use super::wire::{self, PasswordRefusal, PasswordResult};
use super::{Broker, PROCESSES_MAX, WorkerTask, answer, fork};
use corral::api::Failure;
use corral::sys::pam::{self, Verdict};
use corral::sys::{clock, confine, descriptors, users};
use corral::text::width::escape;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write as _;
use std::net::IpAddr;

/// Maximum number of concurrent attempts, including those whose answer is delayed, and maximum
/// lifetime of a process that asks PAM, ms.
pub const PASSWORDS_MAX: usize = 8;
const PASSWORD_MS: u64 = 30_000;
/// Maximum time in which the password arrives, ms.
const READ_MS: u64 = 5_000;
/// Negative answers are sent at multiples of this time after the request, ms, so that the time that
/// PAM takes does not reveal whether a user exists.
pub const STEP_MS: u64 = 2_000;

/// An attempt whose process runs.
pub(super) struct PasswordAttempt {
    /// The socket for the answer.
    pub to: File,
    pub user: String,
    pub address: Option<IpAddr>,
    /// When the attempt was requested, ms since boot.
    pub requested_at: u64,
}

/// What the process reports if the password is right.
#[derive(Serialize, Deserialize)]
pub(super) struct VerifiedUser {
    pub uid: u32,
    pub name: String,
}

// Exit codes of the process.
const GOOD: i32 = 0;
const WRONG: i32 = 10;
const PASSWORD_EXPIRED: i32 = 11;
const ACCOUNT_EXPIRED: i32 = 12;
const DENIED: i32 = 13;

/// The result of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PasswordOutcome {
    Right,
    Refused(PasswordRefusal),
    Wrong,
    /// PAM was not asked, or did not answer in time.
    Unchecked,
}

impl PasswordOutcome {
    /// The result by the exit code of the process; `None`: the code is unknown.
    pub(super) fn of(code: Option<i32>) -> PasswordOutcome {
        match code {
            Some(GOOD) => PasswordOutcome::Right,
            Some(WRONG) => PasswordOutcome::Wrong,
            Some(PASSWORD_EXPIRED) => PasswordOutcome::Refused(PasswordRefusal::PasswordExpired),
            Some(ACCOUNT_EXPIRED) => PasswordOutcome::Refused(PasswordRefusal::AccountExpired),
            Some(DENIED) => PasswordOutcome::Refused(PasswordRefusal::Denied),
            _ => PasswordOutcome::Unchecked,
        }
    }

    /// The word for the log.
    pub(super) fn word(self) -> &'static str {
        match self {
            PasswordOutcome::Right => "right",
            PasswordOutcome::Refused(PasswordRefusal::PasswordExpired) => {
                "right, but the password has expired"
            }
            PasswordOutcome::Refused(PasswordRefusal::AccountExpired) => {
                "right, but the account has expired"
            }
            PasswordOutcome::Refused(PasswordRefusal::Denied) => {
                "right, but the account may not log in"
            }
            PasswordOutcome::Wrong => "wrong",
            PasswordOutcome::Unchecked => "not checked",
        }
    }
}

/// When a negative answer that is known at `now` to a request of `requested_at` is sent, ms since
/// boot.
pub(super) fn answer_at(requested_at: u64, now: u64) -> u64 {
    let took = now.saturating_sub(requested_at);
    requested_at + (took / STEP_MS + 1) * STEP_MS
}

/// The process that asks PAM; returns its exit code. The password comes over `socket`; the user is
/// reported to the broker over `tell`.
pub(super) fn ask_pam(service: &str, user: &str, from: &str, socket: &File, tell: &File) -> i32 {
    let closed = confine::close_memory().is_ok();
    if !closed || descriptors::limit_time(socket, READ_MS).is_err() {
        return 1;
    }
    let Ok(password) = wire::receive_password(socket) else {
        return WRONG;
    };
    // An empty password would open an account without one, or bind to a directory anonymously.
    // Root's password is not checked: the portal does not act for root, and must not let callers
    // guess it.
    let is_root = |name: &str| users::by_name(name).is_some_and(|facts| facts.uid == 0);
    if password.is_empty() || is_root(user) {
        return WRONG;
    }
    let shown = escape(user);
    match pam::check(service, user, &password, from) {
        Verdict::Accepted(name) => match users::by_name(&name) {
            Some(facts) if facts.uid != 0 => {
                let verified = VerifiedUser {
                    uid: facts.uid,
                    name: facts.name,
                };
                let text = serde_json::to_vec(&verified).unwrap_or_default();
                let mut to = tell;
                if to.write_all(&text).is_ok() { GOOD } else { 1 }
            }
            Some(_) => WRONG,
            None => {
                tracing::error!("PAM knows {shown}, but the user database does not");
                1
            }
        },
        Verdict::WrongPassword(why) => {
            tracing::info!("PAM does not let {shown} in: {}", escape(&why));
            WRONG
        }
        Verdict::PasswordExpired => PASSWORD_EXPIRED,
        Verdict::AccountExpired => ACCOUNT_EXPIRED,
        Verdict::Denied(why) => {
            tracing::info!("PAM refuses the account {shown}: {}", escape(&why));
            DENIED
        }
        Verdict::Unavailable(why) => {
            tracing::error!("the password of {shown} is not checked: {}", escape(&why));
            1
        }
    }
}

/// The user that the process has reported; `None`: it reported none.
pub(super) fn reported_user(report: &[u8]) -> Option<VerifiedUser> {
    let verified: VerifiedUser = serde_json::from_slice(report).ok()?;
    (verified.uid != 0 && !verified.name.is_empty()).then_some(verified)
}

impl Broker {
    /// Begins an attempt, if one is allowed now.
    pub(super) fn try_password(&mut self, user: String, address: Option<IpAddr>, socket: File) {
        let reply = |result: PasswordResult| answer(&socket, &Ok::<_, Failure>(result));
        if !self.portal.pam {
            return reply(PasswordResult::Unchecked);
        }
        let now = clock::boot_ms();
        let wait = self.throttle.wait(&user, address, now);
        if wait > 0 {
            audit(&user, address, "must wait");
            return reply(PasswordResult::Wait(wait.div_ceil(1000)));
        }
        let all = self.workers.iter().chain(&self.ending);
        let asking = all.filter(|worker| matches!(worker.task, WorkerTask::Password(_)));
        // Each delayed answer occupies a thread of the HTTP process.
        if asking.count() + self.delayed_answers.len() >= PASSWORDS_MAX
            || self.count() >= PROCESSES_MAX
        {
            return reply(PasswordResult::Busy);
        }
        let service = self.portal.pam_service.clone();
        let shown = address.map_or_else(String::new, |address| address.to_string());
        let made = fork(Some(&socket), |tell| {
            ask_pam(&service, &user, &shown, &socket, tell)
        });
        match made {
            Ok(made) => {
                self.throttle.begin(&user, address, now);
                let tried = PasswordAttempt {
                    to: socket,
                    user,
                    address,
                    requested_at: now,
                };
                self.add_worker(made, 0, PASSWORD_MS, WorkerTask::Password(tried));
            }
            Err(e) => {
                tracing::error!("no password is checked: {e}");
                reply(PasswordResult::Unchecked);
            }
        }
    }

    /// Evaluates the end of the process: a session begins only if PAM has accepted the password.
    pub(super) fn end_of_password(
        &mut self,
        tried: PasswordAttempt,
        report: &[u8],
        code: Option<i32>,
    ) {
        let PasswordAttempt {
            to,
            user,
            address,
            requested_at,
        } = tried;
        let end = PasswordOutcome::of(code);
        let verified = reported_user(report).filter(|_| end == PasswordOutcome::Right);
        let end = if end == PasswordOutcome::Right && verified.is_none() {
            PasswordOutcome::Unchecked
        } else {
            end
        };
        audit(&user, address, end.word());
        match end {
            PasswordOutcome::Right | PasswordOutcome::Refused(_) => {
                self.throttle.was_right(&user, address)
            }
            PasswordOutcome::Unchecked => self.throttle.was_none(&user, address),
            PasswordOutcome::Wrong => {}
        }
        let now = match (end, verified) {
            (_, Some(verified)) => PasswordResult::Begun(self.begin(verified.uid, verified.name)),
            (PasswordOutcome::Refused(why), None) => PasswordResult::Refused(why),
            (PasswordOutcome::Wrong, None) => {
                let at = answer_at(requested_at, clock::boot_ms());
                return self.delayed_answers.push((at, to, PasswordResult::Wrong));
            }
            (PasswordOutcome::Right | PasswordOutcome::Unchecked, None) => {
                let at = answer_at(requested_at, clock::boot_ms());
                return self
                    .delayed_answers
                    .push((at, to, PasswordResult::Unchecked));
            }
        };
        answer(&to, &Ok::<_, Failure>(now));
    }
}

/// Logs user, origin and result of an attempt.
fn audit(user: &str, from: Option<IpAddr>, result: &str) {
    let from = from.map_or_else(|| "here".to_owned(), |from| from.to_string());
    tracing::info!(
        "login by password: user={} from={from}: {result}",
        escape(user)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_not_understood_lets_nobody_in() {
        assert_eq!(PasswordOutcome::of(Some(0)), PasswordOutcome::Right);
        for code in [
            None,
            Some(1),
            Some(101),
            Some(102),
            Some(128 + 9),
            Some(255),
            Some(-1),
        ] {
            assert_eq!(
                PasswordOutcome::of(code),
                PasswordOutcome::Unchecked,
                "{code:?}"
            );
        }
        assert!(
            reported_user(b"").is_none()
                && reported_user(b"{\"uid\":0,\"name\":\"root\"}").is_none()
        );
        assert!(reported_user(b"{\"uid\":5,\"name\":\"\"}").is_none());
        assert_eq!(
            reported_user(b"{\"uid\":5,\"name\":\"u\"}").map(|k| k.uid),
            Some(5)
        );
    }

    #[test]
    fn answers_come_at_steps_of_time() {
        assert_eq!(answer_at(1_000, 1_000), 3_000);
        assert_eq!(answer_at(1_000, 2_999), 3_000);
        assert_eq!(answer_at(1_000, 3_000), 5_000);
        assert_eq!(answer_at(1_000, 7_500), 9_000);
    }
}
