//! How many jobs have failed on each host lately: a host on which they fail at once would take one
//! job after the other. Pure.
//!
//! A host is judged by comparison: jobs that fail everywhere are at fault themselves, and close no
//! host.

use crate::model::Mono;
use std::collections::{BTreeMap, VecDeque};

/// A host is closed if at least so many times as many jobs fail there as on other hosts on average.
const TIMES_OTHERS: usize = 2;
/// Maximum number of failures that are remembered for a host.
const COUNTED_MAX: usize = 100_000;

/// When a host gets no jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::turn) struct ExitRate {
    /// Number of failed jobs.
    pub most: usize,
    /// In this time, ms.
    pub within_ms: u64,
}

/// See the head of this file.
#[derive(Default)]
pub(in crate::turn) struct ExitRates {
    hosts: BTreeMap<String, HostFailures>,
}

#[derive(Default)]
struct HostFailures {
    /// When jobs failed, oldest first.
    at: VecDeque<Mono>,
    closed: bool,
}

impl ExitRates {
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Notes that a job failed on a host. `all`: number of hosts. Returns whether this closes it.
    pub(crate) fn failed(&mut self, host: &str, all: usize, rate: ExitRate, now: Mono) -> bool {
        self.forget_old(rate, now);
        let failures = self.hosts.entry(host.to_owned()).or_default();
        if failures.at.len() < COUNTED_MAX {
            failures.at.push_back(now);
        }
        let (n, was_closed) = (failures.at.len(), failures.closed);
        let sum: usize = self.hosts.values().map(|failures| failures.at.len()).sum();
        let (on_others, others) = (sum - n, all.saturating_sub(1));
        let stands_out = n.saturating_mul(others) >= on_others.saturating_mul(TIMES_OTHERS);
        let closes = !was_closed && others > 0 && n >= rate.most && stands_out;
        if let Some(failures) = self.hosts.get_mut(host).filter(|_| closes) {
            failures.closed = true;
        }
        closes
    }

    /// Forgets failures that no longer count; returns the hosts that get jobs again.
    pub(crate) fn forget_old(&mut self, rate: ExitRate, now: Mono) -> Vec<String> {
        let mut opened = Vec::new();
        for (host, failures) in &mut self.hosts {
            let is_old = |at: &Mono| at.plus_ms(rate.within_ms) <= now;
            while failures.at.front().is_some_and(is_old) {
                failures.at.pop_front();
            }
            if failures.closed && failures.at.len() < rate.most {
                failures.closed = false;
                opened.push(host.clone());
            }
        }
        self.hosts.retain(|_, failures| !failures.at.is_empty());
        opened
    }

    /// The number of failed jobs that close the host; `None`: they do not.
    pub(crate) fn closure(&self, host: &str) -> Option<usize> {
        let failures = self.hosts.get(host).filter(|failures| failures.closed)?;
        Some(failures.at.len())
    }

    /// Forgets the failures on a host.
    pub(crate) fn forget_host(&mut self, host: &str) {
        self.hosts.remove(host);
    }

    /// Forgets everything; returns the hosts that were closed.
    pub(crate) fn clear(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.hosts);
        let closed = all.into_iter().filter(|(_, failures)| failures.closed);
        closed.map(|(host, _)| host).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: ExitRate = ExitRate {
        most: 3,
        within_ms: 1000,
    };

    #[test]
    fn a_host_is_closed_while_so_many_jobs_have_failed_there() {
        let mut rates = ExitRates::default();
        let mut fail = |at| rates.failed("h1", 3, RATE, Mono(at));
        assert_eq!(
            [fail(0), fail(10), fail(1005)],
            [false; 3],
            "the first is old"
        );
        assert!(fail(1006) && !fail(1007), "it is closed once");
        assert_eq!(rates.closure("h1"), Some(4));
        assert!(rates.forget_old(RATE, Mono(1010)).is_empty());
        assert_eq!(rates.closure("h1"), Some(3));
        assert_eq!(rates.forget_old(RATE, Mono(2005)), ["h1"]);
        assert_eq!(rates.closure("h1"), None);
        assert!(rates.forget_old(RATE, Mono(9000)).is_empty() && rates.is_empty());
    }

    /// Otherwise one user with jobs that fail everywhere would close the cluster.
    #[test]
    fn jobs_that_fail_everywhere_close_no_host() {
        let mut rates = ExitRates::default();
        for n in 0..30 {
            let host = ["h1", "h2", "h3"][n % 3];
            assert!(!rates.failed(host, 3, RATE, Mono(n as u64)), "{n}");
        }
        for n in 0..9 {
            assert!(!rates.failed("h1", 3, RATE, Mono(30 + n)), "{n}");
        }
        assert!(rates.failed("h1", 3, RATE, Mono(39)), "20 of 40");
        assert!(rates.closure("h2").is_none());
        let mut alone = ExitRates::default();
        assert!(
            (0..9).all(|n| !alone.failed("h1", 1, RATE, Mono(n))),
            "no other host"
        );
        assert_eq!(rates.clear(), ["h1"]);
    }
}
