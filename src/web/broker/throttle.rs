//! How often passwords may be tried: by user, by address, and in total.
//!
//! Pure: time is an argument, ms since boot. A try counts as wrong from its beginning, so that
//! parallel tries do not bypass the limit, and the count is taken back if it was correct. A caller
//! that must wait gets this answer without a check of the password; whether a user exists makes no
//! difference.

use std::collections::HashMap;
use std::net::IpAddr;

/// Attempts without a wait, for one user name and for one address; many users may share an address.
pub const FREE_OF_USER: u32 = 3;
pub const FREE_OF_ADDRESS: u32 = 10;
/// The wait after the next attempt, ms; it is doubled with each further one, up to these maxima.
const FIRST_MS: u64 = 1_000;
pub const LONGEST_OF_USER_MS: u64 = 15 * 60_000;
pub const LONGEST_OF_ADDRESS_MS: u64 = 60_000;
/// A name or an address is forgotten after this time without a wrong attempt, ms.
pub const FORGET_MS: u64 = 60 * 60_000;
/// Maximum number of wrong attempts per minute, in total.
pub const OF_ALL_MAX: u32 = 120;
const MINUTE_MS: u64 = 60_000;
/// Maximum number of names and of addresses that are remembered. At most `OF_ALL_MAX` attempts are
/// possible per minute, so attempts of others cannot displace an entry early.
pub const KNOWN_MAX: usize = 8_192;

/// Wrong attempts of one name or address.
#[derive(Clone, Copy, Debug)]
struct FailureCount {
    failures: u32,
    last: u64,
}

impl FailureCount {
    /// When the next attempt is allowed.
    fn until(self, free: u32, longest: u64) -> u64 {
        let over = self.failures.saturating_sub(free);
        let wait = match over {
            0 => 0,
            over => FIRST_MS
                .saturating_mul(1 << (over - 1).min(30))
                .min(longest),
        };
        self.last + wait
    }
}

/// See the top of this file.
#[derive(Default, Debug)]
pub struct Throttle {
    users: HashMap<String, FailureCount>,
    addresses: HashMap<ThrottleKey, FailureCount>,
    /// Start of the current minute, and the number of wrong attempts in it.
    in_minute: (u64, u32),
}

/// An address as it is counted: for IPv6 the /64 network, which belongs to one caller.
type ThrottleKey = [u8; 8];

fn address_key(from: IpAddr) -> ThrottleKey {
    let mut out = [0; 8];
    match from.to_canonical() {
        IpAddr::V4(v4) => out[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => out.copy_from_slice(&v6.octets()[..8]),
    }
    out
}

/// A name as it is counted: some directories ignore its case.
fn user_key(user: &str) -> String {
    user.to_lowercase()
}

impl Throttle {
    /// How long an attempt must wait, ms; 0: it is allowed now.
    pub fn wait(&self, user: &str, from: Option<IpAddr>, now: u64) -> u64 {
        let of_user = self.users.get(&user_key(user));
        let until = of_user.map_or(0, |w| w.until(FREE_OF_USER, LONGEST_OF_USER_MS));
        let of_address = from.and_then(|from| self.addresses.get(&address_key(from)));
        let longest = LONGEST_OF_ADDRESS_MS;
        let until = until.max(of_address.map_or(0, |w| w.until(FREE_OF_ADDRESS, longest)));
        let (since, n) = self.in_minute;
        let of_all = match now.saturating_sub(since) < MINUTE_MS && n >= OF_ALL_MAX {
            true => since + MINUTE_MS,
            false => 0,
        };
        until.max(of_all).saturating_sub(now)
    }

    /// Counts an attempt at its beginning.
    pub fn begin(&mut self, user: &str, from: Option<IpAddr>, now: u64) {
        note(&mut self.users, user_key(user), now);
        if let Some(from) = from {
            note(&mut self.addresses, address_key(from), now);
        }
        let (since, n) = self.in_minute;
        self.in_minute = match now.saturating_sub(since) < MINUTE_MS {
            true => (since, n.saturating_add(1)),
            false => (now, 1),
        };
    }

    /// The password was right: the name starts again from zero. For the address, only this attempt
    /// is taken back: knowing one password must not give a caller more attempts at others.
    pub fn was_right(&mut self, user: &str, from: Option<IpAddr>) {
        self.users.remove(&user_key(user));
        self.take_back_others(from);
    }

    /// The password was not checked: the attempt does not count.
    pub fn was_none(&mut self, user: &str, from: Option<IpAddr>) {
        less(&mut self.users, &user_key(user));
        self.take_back_others(from);
    }

    fn take_back_others(&mut self, from: Option<IpAddr>) {
        if let Some(from) = from {
            less(&mut self.addresses, &address_key(from));
        }
        self.in_minute.1 = self.in_minute.1.saturating_sub(1);
    }

    /// How many names and addresses are remembered.
    pub fn len(&self) -> usize {
        self.users.len() + self.addresses.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn note<K: std::hash::Hash + Eq + Clone>(all: &mut HashMap<K, FailureCount>, key: K, now: u64) {
    if all.len() >= KNOWN_MAX && !all.contains_key(&key) {
        all.retain(|_, wrong| now.saturating_sub(wrong.last) < FORGET_MS);
    }
    if all.len() >= KNOWN_MAX && !all.contains_key(&key) {
        let oldest = all.iter().min_by_key(|(_, wrong)| wrong.last);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            all.remove(&key);
        }
    }
    let wrong = all.entry(key).or_insert(FailureCount {
        failures: 0,
        last: now,
    });
    let is_old = now.saturating_sub(wrong.last) >= FORGET_MS;
    wrong.failures = if is_old {
        1
    } else {
        wrong.failures.saturating_add(1)
    };
    wrong.last = now;
}

fn less<K: std::hash::Hash + Eq>(all: &mut HashMap<K, FailureCount>, key: &K) {
    if let Some(wrong) = all.get_mut(key) {
        wrong.failures -= 1;
        if wrong.failures == 0 {
            all.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(n: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, n]))
    }

    #[test]
    fn waits_double_and_end() {
        let mut t = Throttle::default();
        let mut waits = Vec::new();
        let mut now = 1_000;
        for n in 0..16u8 {
            assert_eq!(t.wait("alice", from(n), now), 0);
            t.begin("alice", from(n), now);
            waits.push(t.wait("alice", from(n), now));
            now += waits[n as usize];
        }
        assert_eq!(waits[..6], [0, 0, 0, 1_000, 2_000, 4_000]);
        assert_eq!(waits[13..], [LONGEST_OF_USER_MS; 3]);
        assert_eq!(
            t.wait("ALICE", None, now - 1),
            1,
            "capitals are the same name"
        );
        assert_eq!(t.wait("bob", from(200), now), 0);
        // Long after its last attempt, a name starts again from zero.
        let later = now + FORGET_MS;
        t.begin("alice", None, later);
        assert_eq!(t.wait("alice", None, later), 0);
    }

    #[test]
    fn an_address_waits_for_whatever_names_it_tries() {
        let mut t = Throttle::default();
        for n in 0..=FREE_OF_ADDRESS {
            t.begin(&format!("u{n}"), from(1), 5_000);
        }
        assert_eq!(t.wait("somebody", from(1), 5_000), 1_000);
        assert_eq!(t.wait("somebody", from(2), 5_000), 0);
        // An IPv6 caller has a whole network.
        let (a, b) = ("2001:db8::1", "2001:db8::ffff:1");
        for n in 0..=FREE_OF_ADDRESS {
            t.begin(&format!("v{n}"), a.parse().ok(), 5_000);
        }
        assert_eq!(t.wait("somebody", b.parse().ok(), 5_000), 1_000);
    }

    #[test]
    fn a_right_password_gives_its_name_back_and_the_address_nothing_more() {
        let mut t = Throttle::default();
        for n in 0..FREE_OF_ADDRESS {
            t.begin(&format!("u{n}"), from(1), 5_000);
        }
        for _ in 0..100 {
            t.begin("mallory", from(1), 5_000);
            t.was_right("mallory", from(1));
        }
        t.begin("victim", from(1), 5_000);
        assert_eq!(t.wait("next", from(1), 5_000), 1_000);
        for _ in 0..9 {
            t.begin("alice", from(2), 5_000);
        }
        t.was_right("alice", from(2));
        assert_eq!(t.wait("alice", from(3), 5_000), 0);
        t.begin("bob", from(4), 5_000);
        t.was_none("bob", from(4));
        t.was_none("bob", from(4));
        assert_eq!(t.wait("bob", from(4), 5_000), 0);
    }

    #[test]
    fn a_thousand_wrong_passwords_take_days_and_little_memory() {
        let mut t = Throttle::default();
        let mut now = 0;
        for n in 0..1_000u32 {
            let from = Some(IpAddr::from(n.to_be_bytes()));
            now += t.wait("alice", from, now);
            t.begin("alice", from, now);
        }
        assert!(now > 1_000 * LONGEST_OF_USER_MS / 2, "{now}");
        // Many names from many addresses: only so many per minute, and none is forgotten too early.
        let mut t = Throttle::default();
        let (mut now, mut minute) = (0, 0);
        for n in 0..20_000u32 {
            let (user, from) = (format!("u{n}"), Some(IpAddr::from(n.to_be_bytes())));
            let wait = t.wait(&user, from, now);
            assert!(wait == 0 || minute >= OF_ALL_MAX);
            minute = if wait > 0 { 1 } else { minute + 1 };
            now += wait;
            t.begin(&user, from, now);
        }
        assert!(
            now >= (20_000 / u64::from(OF_ALL_MAX) - 1) * MINUTE_MS,
            "{now}"
        );
        assert!(t.len() <= 2 * KNOWN_MAX, "{}", t.len());
        assert!(u64::from(OF_ALL_MAX) * FORGET_MS / MINUTE_MS < KNOWN_MAX as u64);
    }
}
