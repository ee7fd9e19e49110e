//! Messages of jobs and elements (`cpost`), kept until their job is removed.
//!
//! Owns the messages and their number by owner. They are beside the jobs, so that a job without
//! messages takes no room for them.

use super::State;
use super::snapshot::SnapWork;
use crate::model::JobKey;
use crate::record::message::JobMessage;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Parts of jobs that are kept apart from them.
#[derive(Clone, Debug, Default)]
pub(super) struct DetachedParts {
    messages: Messages,
    /// Elements read from a snapshot whose job comes later.
    pub restoring: FxHashMap<u32, Vec<SnapWork>>,
}

/// The messages of all jobs.
#[derive(Clone, Debug, Default)]
struct Messages {
    /// By job or element; those of each in the order of their indexes.
    by_job: BTreeMap<JobKey, Vec<JobMessage>>,
    /// Their number by the uid of the job's owner.
    by_owner: FxHashMap<u32, u32>,
}

#[cfg(test)]
impl DetachedParts {
    /// All that they stand for, as a text.
    pub(super) fn facts(&self) -> String {
        let DetachedParts {
            messages: Messages { by_job, by_owner },
            restoring,
        } = self;
        let by_owner: BTreeMap<_, _> = by_owner.iter().collect();
        format!("{by_job:?} {by_owner:?} {restoring:?}")
    }
}

impl State {
    /// The messages of a job or element, in the order of their indexes.
    pub fn messages(&self, j: JobKey) -> &[JobMessage] {
        self.detached
            .messages
            .by_job
            .get(&j)
            .map_or(&[], Vec::as_slice)
    }

    /// Number of messages of all jobs of a user.
    pub fn messages_of(&self, uid: u32) -> u32 {
        self.detached
            .messages
            .by_owner
            .get(&uid)
            .copied()
            .unwrap_or(0)
    }

    /// All messages, by job or element.
    pub(super) fn all_messages(&self) -> impl Iterator<Item = (JobKey, &[JobMessage])> {
        let all = self.detached.messages.by_job.iter();
        all.map(|(j, messages)| (*j, messages.as_slice()))
    }

    /// Adds a message; one with the same index is replaced.
    pub(super) fn posted(&mut self, j: JobKey, message: JobMessage) {
        let Some(uid) = self.spec_of(j.id).map(|spec| spec.uid) else {
            return;
        };
        if self.stat(j).is_none() {
            return;
        }
        match self.work(j).is_none() && j.idx > 0 {
            // An element that waits with its array has no row of its own.
            true => self.change_job(j, |job| _ = job.materialise(j.idx)),
            false => self.changes.rows.note(j),
        }
        let messages = self.detached.messages.by_job.entry(j).or_default();
        match messages.binary_search_by_key(&message.index, |known| known.index) {
            Ok(at) => messages[at] = message,
            Err(at) => {
                messages.insert(at, message);
                *self.detached.messages.by_owner.entry(uid).or_default() += 1;
            }
        }
    }

    /// Removes the messages of a job and of its elements.
    pub(super) fn drop_messages(&mut self, id: u32, uid: u32) {
        if self.detached.messages.by_job.is_empty() {
            return;
        }
        let within = JobKey::job(id)..=JobKey::element(id, u32::MAX);
        let forgotten: Vec<JobKey> = self
            .detached
            .messages
            .by_job
            .range(within)
            .map(|(j, _)| *j)
            .collect();
        let removed = forgotten
            .iter()
            .filter_map(|j| self.detached.messages.by_job.remove(j));
        let removed: usize = removed.map(|messages| messages.len()).sum();
        if let Some(count) = self.detached.messages.by_owner.get_mut(&uid) {
            *count = count.saturating_sub(u32::try_from(removed).unwrap_or(u32::MAX));
            if *count == 0 {
                self.detached.messages.by_owner.remove(&uid);
            }
        }
    }

    /// Messages without their job, out of order, or counted wrongly for their owner.
    pub(super) fn check_messages(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let mut expected = FxHashMap::<u32, u32>::default();
        for (j, messages) in self.all_messages() {
            let Some(spec) = self.spec_of(j.id).filter(|_| self.stat(j).is_some()) else {
                broken.push(format!("job {j}: has messages and does not exist"));
                continue;
            };
            *expected.entry(spec.uid).or_default() += messages.len() as u32;
            let sorted = messages.windows(2).all(|two| two[0].index < two[1].index);
            if messages.is_empty() || !sorted {
                broken.push(format!("job {j}: its messages are not in order"));
            }
        }
        if expected != self.detached.messages.by_owner {
            broken.push("messages are miscounted by owner".to_owned());
        }
        broken
    }
}
