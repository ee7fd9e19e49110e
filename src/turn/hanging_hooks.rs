//! Hooks that hang: commands around jobs (`pre_exec`, `post_exec` and others) that have run for
//! more than half of their time limit. Their jobs keep slots and units, so a note on the host says
//! it to administrators, and an alarm if several jobs of a queue hang.
//!
//! Known only to this leader: the next one counts again from the reports of the hosts.

use super::context::Turn;
use super::core::Core;
use super::memory::long_hooks::HookKind;
use crate::model::{AttemptId, Mono};
use crate::record::running_hook::RunningHook;
use crate::state::{HostId, Run};
use crate::text::count::count;
use std::collections::BTreeMap;

/// Pause between two looks at hooks that take long.
const REVIEW_MS: u64 = 1_000;
/// Maximum number of jobs that a note or an alarm names.
const NAMED_MAX: usize = 5;

impl Core {
    fn run_of(&self, a: AttemptId) -> Option<&Run> {
        let work = self.state.work(a.j)?;
        let is_current = work.attempt == a.at && work.stat.is_started();
        work.run.as_deref().filter(|_| is_current)
    }

    fn hook_of(&self, a: AttemptId) -> Option<&RunningHook> {
        self.run_of(a)?.usage().hook.as_deref()
    }

    /// The alarms about queues of which hooks hang again and again.
    pub fn hook_alarms(&self) -> Vec<String> {
        let hooks = &self.memory.long_hooks;
        let text = |(kind, n): (&HookKind, usize)| {
            let now = hooks.hanging().filter(|(_, of)| *of == kind);
            let now: Vec<AttemptId> = now.map(|(a, _)| a).collect();
            let what = match kind.after {
                true => "post_exec",
                false => "pre_exec",
            };
            let queue = &kind.queue;
            let still = match now.len() {
                0 => "none hangs now".to_owned(),
                n => format!(
                    "{n} hold slots meanwhile: {}; 'ckill ID' ends such a command",
                    named(&now)
                ),
            };
            format!("queue {queue}: {what} of {n} jobs hung within the last hour; {still}")
        };
        hooks.often().map(text).collect()
    }

    /// What hosts wait for, by host.
    pub(super) fn hook_notes(&self) -> BTreeMap<HostId, String> {
        let mut hosts: BTreeMap<HostId, Vec<AttemptId>> = BTreeMap::new();
        for (a, _) in self.memory.long_hooks.hanging() {
            let first = self.run_of(a).and_then(|run| run.hosts.first());
            if let Some((host, _)) = first {
                hosts.entry(*host).or_default().push(a);
            }
        }
        let text = |of: Vec<AttemptId>| {
            let what = of.first().and_then(|a| self.hook_of(*a));
            let what = what.map_or("a command", |hook| &hook.what);
            let jobs = count(of.len(), "job");
            format!(
                "the slots of {jobs} wait for a command around the job ({what}) that hangs: {}; \
                 'cjobs -l ID' says since when, 'ckill ID' ends it",
                named(&of)
            )
        };
        hosts
            .into_iter()
            .map(|(host, of)| (host, text(of)))
            .collect()
    }
}

/// The ids of jobs, the first ones if there are many.
fn named(jobs: &[AttemptId]) -> String {
    let first = jobs.iter().take(NAMED_MAX);
    let mut names: Vec<String> = first.map(|a| a.j.to_string()).collect();
    names.extend((jobs.len() > NAMED_MAX).then(|| "...".to_owned()));
    names.join(" ")
}

impl Turn<'_> {
    /// Looks for hooks that hang, and for those that are over.
    pub(super) fn review_hooks(&mut self) {
        let (wall, now) = (self.now.0, self.mono);
        let core = &mut *self.core;
        let due = core.memory.last.hook_review.plus_ms(REVIEW_MS) <= now;
        if core.memory.long_hooks.is_empty() || !due {
            return;
        }
        core.memory.last.hook_review = now;
        let jobs: Vec<AttemptId> = core.memory.long_hooks.jobs().collect();
        let mut changed = core.memory.long_hooks.forget_old(now);
        for a in jobs {
            changed |= self.review_hook(a, wall, now);
        }
        self.ready.publish |= changed;
    }

    fn review_hook(&mut self, a: AttemptId, wall: i64, now: Mono) -> bool {
        let core = &mut *self.core;
        let Some(hook) = core.hook_of(a) else {
            return core.memory.long_hooks.remove(a);
        };
        let spec = core.state.spec_of(a.j.id).filter(|_| hook.hangs(wall));
        let Some(spec) = spec else {
            return false;
        };
        let kind = HookKind {
            queue: spec.queue.clone(),
            after: hook.after,
        };
        core.memory.long_hooks.hangs(a, kind, now)
    }
}
