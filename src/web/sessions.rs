//! The logged-in users: sessions by the digest of their secret, with an idle and an absolute limit.
//!
//! Pure: time and randomness are arguments. Sessions are not stored on disk: a restart logs out all
//! users.

use crate::identity::Identity;
use corral::api::portal::Portal;
use corral::record::portal::digest;
use std::collections::HashMap;

/// Lifetimes of sessions, ms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// A session that was not used for this long ends.
    pub idle: i64,
    /// Every session ends after this time.
    pub absolute: i64,
}

impl Limits {
    /// The limits of section `portal`.
    pub fn of(portal: &Portal) -> Limits {
        let ms = |ms| i64::try_from(ms).unwrap_or(i64::MAX);
        Limits {
            idle: ms(portal.session_idle_ms),
            absolute: ms(portal.session_max_ms),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::of(&Portal::default())
    }
}

/// Maximum number of sessions of one user and of all users; the one that was not used for the
/// longest time is removed.
pub const OF_USER_MAX: usize = 20;
pub const SESSIONS_MAX: usize = 10_000;
/// Wrong logins that are checked per minute; further ones are refused without a check.
pub const WRONG_MAX: u32 = 20;
const MINUTE_MS: i64 = 60_000;

/// One login.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    pub identity: Identity,
    /// Must be sent with each change.
    pub csrf: String,
    pub created: i64,
    pub used_at: i64,
}

impl Session {
    fn is_good(&self, limits: Limits, now: i64) -> bool {
        now - self.used_at < limits.idle && now - self.created < limits.absolute
    }
}

/// All sessions.
#[derive(Default, Debug)]
pub struct Sessions {
    by_digest: HashMap<String, Session>,
    limits: Limits,
    /// Start of the current minute, and the number of wrong logins in it.
    wrong_in_minute: (i64, u32),
}

impl Sessions {
    /// Sets the limits of all sessions, including existing ones.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Begins a session; `secret` is the value of its cookie.
    pub fn begin(&mut self, secret: &str, csrf: String, identity: Identity, now: i64) {
        let limits = self.limits;
        self.by_digest
            .retain(|_, session| session.is_good(limits, now));
        let of_user = self
            .by_digest
            .values()
            .filter(|s| s.identity.uid == identity.uid);
        if of_user.count() >= OF_USER_MAX {
            self.drop_oldest(|session| session.identity.uid == identity.uid);
        }
        if self.by_digest.len() >= SESSIONS_MAX {
            self.drop_oldest(|_| true);
        }
        let session = Session {
            identity,
            csrf,
            created: now,
            used_at: now,
        };
        self.by_digest.insert(digest(secret), session);
    }

    fn drop_oldest(&mut self, of: impl Fn(&Session) -> bool) {
        let all = self.by_digest.iter().filter(|(_, session)| of(session));
        let oldest = all.min_by_key(|(_, session)| session.used_at);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.by_digest.remove(&key);
        }
    }

    /// The session of a cookie; it counts as used now.
    pub fn find(&mut self, secret: &str, now: i64) -> Option<Session> {
        let key = digest(secret);
        let limits = self.limits;
        let session = self.by_digest.get_mut(&key)?;
        if !session.is_good(limits, now) {
            self.by_digest.remove(&key);
            return None;
        }
        session.used_at = now;
        Some(session.clone())
    }

    /// Whether the session of a cookie still exists; this does not count as a use.
    pub fn is_there(&self, secret: &str, now: i64) -> bool {
        let session = self.by_digest.get(&digest(secret));
        session.is_some_and(|session| session.is_good(self.limits, now))
    }

    pub fn end(&mut self, secret: &str) {
        self.by_digest.remove(&digest(secret));
    }

    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }

    /// Whether a login is allowed now.
    pub fn may_try(&self, now: i64) -> bool {
        let (since, n) = self.wrong_in_minute;
        now - since >= MINUTE_MS || n < WRONG_MAX
    }

    /// Counts a wrong login.
    pub fn count_wrong(&mut self, now: i64) {
        let (since, n) = self.wrong_in_minute;
        self.wrong_in_minute = match now - since >= MINUTE_MS {
            true => (now, 1),
            false => (since, n.saturating_add(1)),
        };
    }
}

/// Compares two secrets in a time that does not depend on where they differ.
pub fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let differing = a.iter().zip(b).fold(0, |sum, (x, y)| sum | (x ^ y));
    a.len() == b.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(uid: u32) -> Identity {
        Identity::new(uid, format!("u{uid}"))
    }

    #[test]
    fn sessions_end_by_idleness_age_and_logout() {
        let mut all = Sessions::default();
        let Limits { idle, absolute } = all.limits();
        assert_eq!((idle, absolute), (2 * 3_600_000, 12 * 3_600_000));
        all.begin("a", "c".into(), who(1), 0);
        assert_eq!(all.find("a", idle - 1).unwrap().identity, who(1));
        assert!(all.find("b", 1).is_none());
        assert!(all.find("a", 2 * idle).is_none(), "idle for too long");
        assert!(all.is_empty());
        all.begin("a", "c".into(), who(1), 0);
        let mut now = 0;
        while now < absolute {
            assert!(all.find("a", now).is_some(), "{now}");
            now += idle / 2;
        }
        assert!(all.find("a", now).is_none(), "too old");
        all.begin("a", "c".into(), who(1), 0);
        all.end("a");
        assert!(!all.is_there("a", 1));
        // Shorter limits apply to existing sessions, too.
        all.begin("a", "c".into(), who(1), 0);
        all.set_limits(Limits {
            idle: 10,
            absolute: 10,
        });
        assert!(all.is_there("a", 9) && !all.is_there("a", 10));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut all = Sessions::default();
        for n in 0..=OF_USER_MAX {
            all.begin(&n.to_string(), String::new(), who(1), n as i64);
        }
        assert_eq!(all.len(), OF_USER_MAX);
        assert!(!all.is_there("0", 1) && all.is_there("1", 1));
    }

    #[test]
    fn guesses_are_slowed_down() {
        let mut all = Sessions::default();
        for _ in 0..WRONG_MAX {
            assert!(all.may_try(MINUTE_MS));
            all.count_wrong(MINUTE_MS);
        }
        assert!(!all.may_try(MINUTE_MS + 1));
        assert!(all.may_try(2 * MINUTE_MS));
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(is_same("abc", "abc") && is_same("", ""));
        assert!(!is_same("abc", "abd") && !is_same("abc", "ab") && !is_same("", "a"));
    }
}
