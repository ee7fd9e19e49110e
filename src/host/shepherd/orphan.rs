//! Returns what a shepherd borrowed from the spawner that forked it. A shepherd that outlives its
//! spawner, and ends while no other spawner works in this host's directory, removes it itself;
//! otherwise it would stay until the next `cbexe`.

use super::Shepherd;
use crate::sys::{fs, lock, proc};

impl Shepherd<'_> {
    /// Whether the spawner has ended.
    pub(super) fn is_orphan(&self) -> bool {
        proc::parent() != self.inherited.spawner
    }

    /// Removes the task's group, and the directory of all groups if it was the last.
    pub(super) fn leave_group(&mut self) {
        if !self.is_orphan() {
            return;
        }
        self.leave_group_of_task();
        // A spawner that starts meanwhile waits for this lock before it creates a group.
        let file = fs::open_rw(&self.inherited.local.spawner_lock());
        let spawner_lock = match &file {
            Ok(file) => lock::wait_for(file, 0),
            // The host's directory was removed, so no spawner works there.
            Err(e) if e.is_not_found() => None,
            Err(_) => return,
        };
        if (spawner_lock.is_some() || file.is_err())
            && let Some(group) = self.group.as_mut()
        {
            group.remove();
            group.remove_parents();
        }
    }
}
