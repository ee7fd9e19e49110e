//! The limits of a rule at one moment, by its windows. Counts nothing.

use super::{Rule, UNLIMITED};
use crate::config::WindowedLimit;
use crate::model::Stamp;
use jiff::tz::TimeZone;
use smallvec::SmallVec;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Caps {
    pub slots: i64,
    pub jobs: i64,
    pub amounts: SmallVec<[i64; 2]>,
}

impl Rule {
    /// The limits that cb.yaml states for `now`.
    pub(super) fn caps_at(&self, now: Stamp, tz: &TimeZone) -> Caps {
        let whole = |list: &[WindowedLimit<u64>]| match WindowedLimit::limit_at(list, now, tz) {
            Some(n) => i64::try_from(n).unwrap_or(UNLIMITED),
            None => UNLIMITED,
        };
        let resources = self.quota.resources.iter().map(|(_, list)| list);
        Caps {
            slots: whole(&self.quota.slots),
            jobs: whole(&self.quota.jobs),
            amounts: resources
                .map(|list| WindowedLimit::limit_at(list, now, tz).unwrap_or(UNLIMITED))
                .collect(),
        }
    }
}
