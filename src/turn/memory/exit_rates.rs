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
    /// Number of failures on all hosts.
    sum: usize,
}

#[derive(Default)]
struct HostFailures {
    /// When jobs failed, oldest first.
    at: VecDeque<Mono>,
    closed: bool,
}

impl HostFailures {
    /// Forgets failures that no longer count; returns how many.
    fn forget_old(&mut self, rate: ExitRate, now: Mono) -> usize {
        let is_old = |at: &&Mono| at.plus_ms(rate.within_ms) <= now;
        let old = self.at.iter().take_while(is_old).count();
        self.at.drain(..old);
        old
    }
}

impl ExitRates {
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Notes that a job failed on a host. `all`: number of hosts. Returns whether this closes it.
    /// Only [`ExitRates::forget_old`] opens a host, and looks at all of them.
    pub(crate) fn failed(&mut self, host: &str, all: usize, rate: ExitRate, now: Mono) -> bool {
        let failures = self.hosts.entry(host.to_owned()).or_default();
        self.sum -= failures.forget_old(rate, now);
        if failures.at.len() < COUNTED_MAX {
            failures.at.push_back(now);
            self.sum += 1;
        }
        let n = failures.at.len();
        let (on_others, others) = (self.sum - n, all.saturating_sub(1));
        let stands_out = n.saturating_mul(others) >= on_others.saturating_mul(TIMES_OTHERS);
        let closes = !failures.closed && others > 0 && n >= rate.most && stands_out;
        failures.closed |= closes;
        closes
    }

    /// Forgets failures that no longer count; returns the hosts that get jobs again.
    pub(crate) fn forget_old(&mut self, rate: ExitRate, now: Mono) -> Vec<String> {
        let mut opened = Vec::new();
        for (host, failures) in &mut self.hosts {
            self.sum -= failures.forget_old(rate, now);
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
        let failures = self.hosts.remove(host);
        self.sum -= failures.map_or(0, |failures| failures.at.len());
    }

    /// Forgets everything; returns the hosts that were closed.
    pub(crate) fn clear(&mut self) -> Vec<String> {
        let all = std::mem::take(self).hosts;
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

    /// The host that is to be opened is not lost when another one has a failure first.
    #[test]
    fn a_failure_elsewhere_opens_no_host_silently() {
        let mut rates = ExitRates::default();
        for at in [0, 1, 2] {
            rates.failed("h1", 3, RATE, Mono(at));
        }
        assert!(rates.closure("h1").is_some());
        assert!(!rates.failed("h2", 3, RATE, Mono(1500)));
        assert_eq!(rates.forget_old(RATE, Mono(1500)), ["h1"]);
        rates.forget_host("h2");
        assert!(rates.is_empty() && rates.sum == 0);
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
