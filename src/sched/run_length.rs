//! How long jobs run by their run limits, and when they end. A run limit may be stated for a host
//! or model of some speed (`-W 10/NAME`): it is converted for the host that runs the command, which
//! is the first host of a start. A limit without a name is the same everywhere and costs nothing
//! here.

use super::amount::NEVER_MS;
use super::hosts::HostTable;
use super::profile::end_of;
use super::shape::{HostQuery, TrialHosts};
use crate::config::{self, Config};
use crate::model::{Spec, Stamp};

/// A run limit as the scheduler calculates with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunLength {
    /// Milliseconds on a host of the stated factor; a hundred years without a limit.
    stated_ms: i64,
    /// The CPU factor for which it is stated.
    factor: Option<f64>,
}

impl RunLength {
    pub(super) fn of(spec: &Spec, config: &Config) -> RunLength {
        let run_s = spec.limits.run_s;
        let named = (run_s.is_some() && !spec.run_on.is_empty()).then_some(&spec.run_on);
        RunLength {
            stated_ms: estimate_of(run_s),
            factor: named.and_then(|name| config.cpu_factor(name)),
        }
    }

    /// Whether it differs between hosts of different speed.
    pub(super) fn depends_on_host(&self) -> bool {
        self.factor.is_some()
    }

    /// The length in milliseconds on a host with that CPU factor.
    pub(super) fn on_factor(&self, factor: f64) -> i64 {
        match self.factor {
            Some(stated) if self.stated_ms < NEVER_MS => {
                let seconds = self.stated_ms.unsigned_abs() / 1000;
                estimate_of(Some(config::seconds_on(seconds, stated, factor)))
            }
            _ => self.stated_ms,
        }
    }

    /// The length in milliseconds on the host at a position.
    pub(super) fn at(&self, table: &HostTable, at: Option<u32>) -> i64 {
        match at {
            Some(at) if self.depends_on_host() => self.on_factor(table.at(at as usize).entry.cpuf),
            _ => self.stated_ms,
        }
    }

    /// The longest length on any of these hosts.
    pub(super) fn longest(&self, table: &HostTable, hosts: &[u32]) -> i64 {
        if !self.depends_on_host() {
            return self.stated_ms;
        }
        let all = hosts.iter().map(|at| self.at(table, Some(*at)));
        all.max().unwrap_or(self.stated_ms)
    }
}

/// When a job must end at the latest, and when it would end, depending on its first host.
pub(super) struct EndTimes<'a> {
    pub table: &'a HostTable,
    pub length: RunLength,
    pub now: Stamp,
    /// The end if it does not depend on the host.
    pub end_on_any_host: i64,
    /// The end on the slowest host.
    pub last: i64,
    /// The time by which the job must have ended.
    pub latest: i64,
}

impl EndTimes<'_> {
    /// The end if the job takes the slots of the query.
    pub(super) fn at(&self, query: &HostQuery<'_>, at: usize) -> i64 {
        if !self.length.depends_on_host() {
            return self.end_on_any_host;
        }
        let first = match query.trial_hosts {
            TrialHosts::Slots([]) => at as u32,
            TrialHosts::Slots([(first, _), ..]) => *first,
            // Sections are not placed in order: any host may become the first one.
            TrialHosts::Uses(_) => return self.last,
        };
        end_at(self.now, self.length.at(self.table, Some(first)))
    }
}

/// When a job that starts at `now` is expected to end.
pub(super) fn end_at(now: Stamp, estimate: i64) -> i64 {
    end_of(now.0, estimate)
}

/// The length of a job by its run limit.
pub(super) fn estimate_of(run_s: Option<u64>) -> i64 {
    run_s.map_or(NEVER_MS, |s| {
        i64::try_from(s.saturating_mul(1000))
            .unwrap_or(NEVER_MS)
            .min(NEVER_MS)
    })
}
