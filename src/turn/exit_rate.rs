//! A host on which many more jobs fail than elsewhere (`exit_rate`) gets none for a while: its jobs
//! end at once, so it would take one after the other. What counts is in `memory/exit_rates.rs`.
//!
//! Known only to this leader: the next one begins to count.

use super::context::Turn;
use super::memory::exit_rates::ExitRate;
use crate::model::TermReason;
use crate::record::report::Ended;
use crate::text::duration;

impl Turn<'_> {
    fn exit_rate(&self) -> Option<ExitRate> {
        let general = &self.core.config.general;
        Some(ExitRate {
            most: usize::try_from(general.exit_rate?).unwrap_or(usize::MAX),
            within_ms: general.exit_rate_duration_ms,
        })
    }

    /// Counts a job that failed by itself. An interactive job fails as its user types.
    pub(super) fn count_failure(&mut self, e: &Ended) {
        let Some(rate) = self.exit_rate() else {
            return;
        };
        let core = &*self.core;
        let interactive = core
            .state
            .spec_of(e.a.j.id)
            .is_none_or(|spec| spec.session.is_some());
        let failed = e.reason == TermReason::None && !e.is_success();
        let known = e.code.is_some() || e.sig > 0;
        if interactive || !failed || !known {
            return;
        }
        let Some(host) = self.first_host(e.a.j) else {
            return;
        };
        let (all, now) = (self.core.hosts.iter().count(), self.mono);
        if self.core.memory.exit_rates.failed(&host, all, rate, now) {
            self.reevaluate_load(&host);
        }
    }

    /// Opens hosts for which enough time has passed.
    pub(super) fn review_exit_rates(&mut self) {
        if self.core.memory.exit_rates.is_empty() {
            return;
        }
        let (rate, now) = (self.exit_rate(), self.mono);
        let rates = &mut self.core.memory.exit_rates;
        let opened = match rate {
            Some(rate) => rates.forget_old(rate, now),
            None => rates.clear(),
        };
        opened.iter().for_each(|host| self.reevaluate_load(host));
    }

    /// Why failed jobs close the host, for administrators.
    pub(super) fn exit_rate_note(&self, host: &str) -> Option<String> {
        let n = self.core.memory.exit_rates.closure(host)?;
        let within = duration::exact(self.core.config.general.exit_rate_duration_ms / 1000);
        Some(format!(
            "gets no jobs: {n} jobs failed on it within {within}, many more than on other hosts \
             (exit_rate)"
        ))
    }
}
