//! Requests that were read while they are written: since when each was seen in this state. Reads no
//! file.

use super::RequestLocation;
use std::collections::BTreeMap;

/// How long the leader waits for the rest of a request, in milliseconds. A command writes a short
/// request with one call.
pub(super) const GROW_MS: u64 = 10_000;
/// Maximum number of incomplete requests that are remembered; any others are rejected at once.
const MOST: usize = 4096;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct PartialRequests(BTreeMap<RequestLocation, u64>);

impl PartialRequests {
    /// Whether the request, which is incomplete at `now` (boot clock, ms), may still be completed.
    pub(super) fn may_grow(&mut self, location: &RequestLocation, now: u64) -> bool {
        if self.0.len() >= MOST {
            // The command may have withdrawn the file of some of them.
            let young = |seen_at: &u64| now.saturating_sub(*seen_at) < 2 * GROW_MS;
            self.0.retain(|_, seen_at| young(seen_at));
        }
        if self.0.len() >= MOST && !self.0.contains_key(location) {
            return false;
        }
        let since = *self.0.entry(location.clone()).or_insert(now);
        let may = now.saturating_sub(since) < GROW_MS;
        if !may {
            self.0.remove(location);
        }
        may
    }

    /// Forgets a request that is complete or gone.
    pub(super) fn forget(&mut self, location: &RequestLocation) {
        if !self.0.is_empty() {
            self.0.remove(location);
        }
    }

    /// Whether incomplete requests are expected to be completed in this user's box.
    pub(super) fn are_expected(&self, uid: u32) -> bool {
        let first = RequestLocation {
            uid,
            name: std::ffi::OsString::new(),
        };
        let next = self.0.range(first..).next();
        next.is_some_and(|(location, _)| location.uid == uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(uid: u32, n: usize) -> RequestLocation {
        RequestLocation {
            uid,
            name: format!("r.{n}").into(),
        }
    }

    #[test]
    fn a_request_has_some_time_to_become_whole() {
        let mut partial = PartialRequests::default();
        let (at, own) = (1_000, location(7, 1));
        assert!(partial.may_grow(&own, at));
        assert!(partial.are_expected(7) && !partial.are_expected(6) && !partial.are_expected(8));
        assert!(partial.may_grow(&own, at + GROW_MS - 1));
        assert!(!partial.may_grow(&own, at + GROW_MS));
        assert!(!partial.are_expected(7));
        assert!(partial.may_grow(&own, at + GROW_MS), "another of that name");
        partial.forget(&own);
        assert!(!partial.are_expected(7));
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let mut partial = PartialRequests::default();
        (0..MOST).for_each(|n| assert!(partial.may_grow(&location(7, n), 0)));
        assert!(!partial.may_grow(&location(8, 0), 1));
        assert!(partial.may_grow(&location(7, 0), 1));
        assert!(partial.may_grow(&location(8, 0), 2 * GROW_MS));
    }
}
