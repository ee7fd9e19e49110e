//! Usage of attempts on several hosts: the sum of the hosts' reports, during the run and after it.
//!
//! An end is journalled when the first host reports it, with what the others had reported by then.
//! Later reports count once if they are higher, as long as the job has no later attempt. Never
//! delays an end for them.

use super::context::Turn;
use super::gang_start::other_hosts;
use super::input::Input;
use crate::model::AttemptId;
use crate::record::event::Event;
use crate::record::report::{PartUse, Report, Usage};

impl Turn<'_> {
    /// Notes which commands were ended by limits on hosts after the first, before the ends of their
    /// jobs are handled: both may have been read at the same time, in any order.
    pub(super) fn note_command_ends(&mut self, input: &Input) {
        let Input::Reports { host, reports, .. } = input else {
            return;
        };
        for record in reports {
            let Report::PartUsage { a, u } = &record.report else {
                continue;
            };
            let other = self.core.state.is_other_run(*a, record.run.mark);
            if u.command_end.is_some()
                && !other
                && !self.core.state.is_old()
                && let Some(id) = self.has_part(*a, host)
            {
                self.core.memory.part_usage.note(*a, id, u.clone());
            }
        }
    }

    /// Adds the usage reported by a host that is not the attempt's first to that of the other
    /// hosts.
    pub(super) fn part_used(&mut self, host: &str, a: AttemptId, u: Usage) {
        if let Some(id) = self.has_part(a, host) {
            self.core.memory.part_usage.note(a, id, u);
            self.sum_up(a);
        } else {
            self.late_usage(host, a, &u);
        }
    }

    /// The same for the first host.
    pub(super) fn used(&mut self, a: AttemptId, u: Usage) {
        if u.hook.is_some() {
            self.core.memory.long_hooks.add(a);
        }
        if other_hosts(self.core, a.j).is_empty() {
            return self.core.state.apply(&Event::Used { a, u });
        }
        self.core.memory.part_usage.note_first(a, u);
        self.sum_up(a);
    }

    fn sum_up(&mut self, a: AttemptId) {
        if let Some(u) = self.core.memory.part_usage.total(a) {
            self.core.state.apply(&Event::Used { a, u });
        }
    }

    /// What hosts other than the first have reported to this leader, for the record of the end.
    pub(super) fn parts_reported(&self, a: AttemptId) -> Vec<PartUse> {
        let reported = self.core.memory.part_usage.parts(a);
        let part = |(id, u): (_, &Usage)| PartUse {
            host: self.core.state.host_name(id).to_string(),
            u: u.totals(),
        };
        reported.map(part).collect()
    }

    /// The usage so far, for an end that no host reports, and the parts of it that hosts other than
    /// the first reported. If an earlier leader summed up usage, these parts are not known: each of
    /// those hosts then counts as having reported everything, so that nothing is counted twice.
    pub(super) fn used_so_far(&self, a: AttemptId) -> (Usage, Vec<PartUse>) {
        let run = self.core.state.work(a.j).and_then(|w| w.run.as_deref());
        let u = run.map(|run| run.usage().clone()).unwrap_or_default();
        if self.core.memory.part_usage.knows(a) || u.is_empty() {
            return (u, Vec::new());
        }
        let others = other_hosts(self.core, a.j).into_iter();
        let parts = others.map(|id| PartUse {
            host: self.core.state.host_name(id).to_string(),
            u: u.totals(),
        });
        let parts = parts.collect();
        (u, parts)
    }

    /// Adds usage that is reported after the end of the attempt.
    fn late_usage(&mut self, host: &str, a: AttemptId, u: &Usage) {
        let state = &self.core.state;
        let work = state.work(a.j).filter(|work| work.attempt == a.at);
        let run = work.and_then(|work| work.run.as_deref());
        let Some(run) = run.filter(|run| run.end.is_some()) else {
            return;
        };
        let is_part = state
            .host_id(host)
            .is_some_and(|id| other_hosts(self.core, a.j).contains(&id));
        let known = run.part_use().iter().find(|part| part.host == host);
        let is_higher = match known {
            Some(known) => u.exceeds(&known.u),
            None => u.exceeds(&Usage::default()),
        };
        if is_part && is_higher {
            let part = PartUse {
                host: host.to_owned(),
                u: u.totals(),
            };
            let t = self.now;
            self.emit(Event::PartUsed { a, part, t });
        }
    }
}
