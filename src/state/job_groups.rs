//! Job groups in the state: those that were created by `cgadd`, with their limits, and which groups
//! have unfinished jobs. Decides nothing.

use super::State;
use crate::record::event::Event;
use crate::record::job_group::JobGroup;
use crate::text::job_group::is_within;

impl State {
    pub fn job_group(&self, name: &str) -> Option<&JobGroup> {
        self.queues.groups.groups.get(name)
    }

    /// All explicit groups, by name.
    pub fn job_groups(&self) -> impl ExactSizeIterator<Item = &JobGroup> {
        self.queues.groups.groups.values()
    }

    /// A number that changes whenever something of the explicit groups changes.
    pub fn job_group_version(&self) -> u64 {
        self.queues.groups.version
    }

    /// The owners of the unfinished jobs of a group and of its subgroups.
    pub fn owners_in_group(&self, name: &str) -> impl Iterator<Item = u32> {
        let within = |spec: &u32| is_within(&self.spec(*spec).job_group, name);
        let waiting = self.specs.iter().filter(|(_, entry)| entry.waiting > 0);
        let waiting = waiting.map(|(id, _)| *id);
        let started = self.all_started();
        let started = started.filter_map(|j| self.job(j.id).map(|job| job.spec));
        let specs = waiting.chain(started).filter(within);
        specs.map(|spec| self.spec(spec).uid)
    }

    /// Applies an event about a group. Returns false if it is not one.
    pub(super) fn apply_to_job_group(&mut self, event: &Event) -> bool {
        match event {
            Event::JobGroupDefined { group, .. } => self.put_job_group(group.clone()),
            Event::JobGroupRemoved { name, .. } => {
                self.queues.groups.groups.remove(name);
                self.queues.groups.version += 1;
            }
            _ => return false,
        }
        true
    }

    /// Adds a group, from the journal or a snapshot.
    pub(super) fn put_job_group(&mut self, group: JobGroup) {
        self.queues.groups.groups.insert(group.name.clone(), group);
        self.queues.groups.version += 1;
    }
}
