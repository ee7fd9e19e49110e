//! The picture of pending jobs: a record for each class, its entry in the order of its queue.

use super::Picture;
use crate::config::UserLimits;
use crate::model::JobKey;
use crate::sched::hosts::HostTable;
use crate::sched::pending_classes::{ClassUser, FIRST_JOBS, PendingClass, Progress};
use crate::sched::queue_order::{OrderGroup, QueueEntry, QueueOrder};
use crate::sched::run_length::{RunLength, estimate_of};
use crate::state::{Class, State};
use smallvec::SmallVec;

impl Picture {
    /// Updates a class: its first job, or its removal.
    pub(super) fn set_class(&mut self, state: &State, table: &HostTable, id: u32) {
        let class = state.pending().class(id);
        let head = class.and_then(|class| class.jobs.first());
        let Some((class, (order, j))) = class.zip(head) else {
            if let Some(pending) = self.classes.take_out(id) {
                self.queues.set_entry(&pending, None);
                self.queues.count_alike(&pending, false);
                self.requests.drop_ref(pending.shape);
            }
            return;
        };
        if !self.classes.contains(id) {
            let pending = self.pending_class_of(class, table);
            self.queues.count_alike(&pending, true);
            self.classes.put(id, Box::new(pending));
        }
        self.classes.note_changed(id);
        let mut pending = self.classes.take_out(id).expect("just made");
        let entry = self.entry_of(state, pending.priority, order, j, id);
        self.queues.set_entry(&pending, Some(entry));
        pending.first_jobs.clear();
        pending
            .first_jobs
            .extend(class.jobs.iter().take(FIRST_JOBS));
        pending.arrays = class.arrays > 0;
        pending.progress.entry = Some(entry);
        (pending.progress.first_index, pending.progress.has_advanced) = (0, false);
        self.classes.put(id, pending);
    }

    pub(in crate::sched) fn entry_of(
        &self,
        state: &State,
        priority: u32,
        order: i64,
        j: JobKey,
        id: u32,
    ) -> QueueEntry {
        QueueEntry {
            rank: self.priority_rank(state, priority, j),
            order,
            j,
            class: id,
        }
    }

    /// The rank of a job by priority; the smallest goes first. With ageing, all priorities grow at
    /// the same rate, so the order of two jobs never changes: the age at submission decides. The
    /// points of the setting are added at fixed times, not by the age of each job, so that jobs of
    /// about the same age stay equal: `ctop` decides among them.
    fn priority_rank(&self, state: &State, priority: u32, j: JobKey) -> i64 {
        let Some(age) = self.config.general.job_priority_over_time else {
            return -i64::from(priority);
        };
        let submit = state.job(j.id).map_or(0, |job| job.submit.0);
        let points = i128::from(submit) * i128::from(age.points);
        let born = points.div_euclid(i128::from(age.every_ms.max(1)));
        i64::try_from(born - i128::from(priority)).unwrap_or(i64::MAX)
    }

    fn pending_class_of(&mut self, class: &Class, table: &HostTable) -> PendingClass {
        let spec = class.spec.clone();
        let config = self.config.clone();
        let shape = self.shape_of(&spec, table);
        let queue = self.requests.shape(shape).queue;
        let ident = self.ident_of(&spec, shape);
        let groups = self.users.of_system(&spec.user);
        let limits = config.user_limits(&spec.user, groups);
        let group = match queue.map(|q| self.queues.order(q)) {
            Some(QueueOrder::RoundRobin(_)) => OrderGroup::User(spec.uid),
            Some(QueueOrder::FairShare(_)) => {
                let leaf = self.leaf_of(queue, &spec.user, &spec.user_group);
                OrderGroup::Leaf(leaf.expect("the queue has a tree"))
            }
            Some(QueueOrder::Fifo(_)) | None => OrderGroup::Queue,
        };
        PendingClass {
            shape,
            queue,
            group,
            user: ClassUser {
                uid: spec.uid,
                name: spec.user.clone(),
                max_slots: limits.max_slots,
                slots_per_core: limits.slots_per_cpu_milli,
            },
            priority: class.key.priority,
            min: spec.min.max(1),
            begin: spec.begin,
            deadline: spec.deadline,
            estimate: estimate_of(spec.limits.run_s),
            length: RunLength::of(&spec, &config),
            ident,
            spec: class.spec_id,
            first_jobs: SmallVec::new(),
            arrays: false,
            progress: Progress::default(),
        }
    }

    /// The limits of section `users` for the user of a job.
    pub(in crate::sched) fn user_limits(&self, state: &State, j: JobKey) -> UserLimits {
        let Some(spec) = state.spec_of(j.id) else {
            return UserLimits::default();
        };
        let groups = self.users.of_system(&spec.user);
        self.config.user_limits(&spec.user, groups)
    }
}
