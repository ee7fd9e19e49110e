//! Data about a share that was restored from a copy of an earlier moment, in the same epoch.
//!
//! The checked promises: from a leader's alarm to the administrator's confirmation, no request is
//! answered and nothing new starts; afterwards no id that hosts know is given again.

use super::kernel::Kernel;
use super::tasks::RunKey;
use crate::state::{Job, State};
use std::collections::{BTreeMap, BTreeSet};

/// See the head of this file; empty as long as the share was not restored.
#[derive(Clone, Default)]
pub(super) struct RestoredShare {
    /// When the copy replaced the share (µs).
    pub replaced_at: Option<u64>,
    /// Runs that leaders had created by then, and those of them that the copy knows.
    created: BTreeSet<RunKey>,
    copied: BTreeSet<RunKey>,
    /// Jobs acknowledged since the copy was made, until a leader shows which it knows.
    doubtful: BTreeMap<String, u32>,
    /// Names of jobs that ran and that the copy does not know, by id.
    lost_names: BTreeMap<u32, String>,
    /// Names of all jobs that the copy knows, by id.
    known_names: BTreeMap<u32, String>,
    /// Machines that know of a run that the copy does not know.
    pub hosts_that_know: BTreeSet<usize>,
    /// A leader leads on the copy.
    has_leader: bool,
    pub alarm_at: Option<u64>,
    pub confirmed_at: Option<u64>,
    /// The epochs of an earlier confirmation that a share was restored.
    confirmed_above: Option<u64>,
}

impl RestoredShare {
    /// Notes that a copy replaces the share. `made`: runs that leaders had created until now;
    /// `copied`: until the copy was made; `acked`: what was acknowledged since.
    pub(super) fn note_restore(
        &self,
        now: u64,
        made: BTreeSet<RunKey>,
        copied: BTreeSet<RunKey>,
        acked: BTreeMap<String, u32>,
    ) -> RestoredShare {
        RestoredShare {
            replaced_at: Some(now),
            created: made,
            copied,
            doubtful: acked,
            confirmed_above: self.confirmed_above,
            ..RestoredShare::default()
        }
    }

    /// Notes that a machine knows a run that the copy does not know.
    pub(super) fn note_known_run(&mut self, machine: usize, id: u32, name: String) {
        self.hosts_that_know.insert(machine);
        self.lost_names.insert(id, name);
    }

    /// Forgets names that the copy knows: an id with such a name was assigned before the copy.
    pub(super) fn forget_names_in(&mut self, copy: &BTreeMap<u32, &String>) {
        self.lost_names
            .retain(|id, name| copy.get(id).is_none_or(|n| *n != name));
    }

    /// Whether the run was created by leaders after the copy.
    pub(super) fn is_lost(&self, run: &RunKey) -> bool {
        self.replaced_at.is_some() && self.created.contains(run) && !self.copied.contains(run)
    }

    /// Whether nothing may be started or answered: the alarm was raised and is not confirmed.
    pub(super) fn is_alarm(&self) -> bool {
        self.alarm_at.is_some() && self.confirmed_at.is_none()
    }

    /// Notes that a run starts. Returns the error, if there is one.
    pub(super) fn starts(&self, run: &RunKey, host: &str) -> Option<String> {
        let a = run.0;
        let new = self.replaced_at.is_some() && !self.created.contains(run);
        (new && self.is_alarm()).then(|| {
            format!("attempt {a} starts on {host}, although the restored share is not confirmed")
        })
    }

    /// Notes that a job is acknowledged. Returns the error, if there is one.
    pub(super) fn acknowledged(&mut self, name: &str, id: u32) -> Option<String> {
        if self.replaced_at.is_some() && !self.has_leader {
            self.doubtful.insert(name.to_owned(), id);
        }
        // The answer to a request accepted before the copy is repeated.
        let known = self.known_names.get(&id).is_some_and(|known| known == name);
        (self.is_alarm() && !known).then(|| {
            format!(
                "{name} is acknowledged as job {id}, although the restored share is not confirmed"
            )
        })
    }

    /// Whether it is open if a job with that name is known.
    pub(super) fn is_uncertain(&self, name: &str) -> bool {
        self.doubtful.contains_key(name)
    }

    /// Notes that a leader knows a job. Returns the error, if there is one.
    pub(super) fn names(&self, id: u32, name: &str) -> Option<String> {
        let lost = self.lost_names.get(&id).filter(|lost| *lost != name)?;
        Some(format!("job {id} is {name}, hosts know it as {lost}"))
    }

    /// Notes that a leader has recovered this state. Returns the doubtful jobs that it knows.
    pub(super) fn recovered(&mut self, state: &State) -> Vec<(String, u32)> {
        if self.replaced_at.is_none() || std::mem::replace(&mut self.has_leader, true) {
            return Vec::new();
        }
        let named = |job: &Job| Some((job.id, job.name.as_deref()?.to_owned()));
        self.known_names = state.jobs().filter_map(named).collect();
        let doubtful = std::mem::take(&mut self.doubtful).into_iter();
        let known = |(name, id): &(String, u32)| {
            let known = state.job(*id).and_then(|job| job.name.as_deref());
            known == Some(name.as_str())
        };
        doubtful.filter(known).collect()
    }

    /// Notes what a leader's state contains about the share.
    pub(super) fn observe(&mut self, kernel: &mut Kernel, state: &State) {
        let above = state.restored().map(|(above, _)| above);
        if self.replaced_at.is_none() {
            self.confirmed_above = above;
            return;
        }
        if state.restored_share().is_some() && self.alarm_at.is_none() {
            kernel.trace("check", || {
                "a leader reports that the share was restored".into()
            });
            self.alarm_at = Some(kernel.now);
        }
        if above > self.confirmed_above && self.confirmed_at.is_none() {
            kernel.trace("check", || "an administrator has confirmed it".into());
            self.confirmed_at = Some(kernel.now);
        }
    }
}
