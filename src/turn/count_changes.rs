//! Changes of the counts in the summary views by jobs, sent with the rows of the jobs themselves,
//! so that all commands show the same moment. Rows for `record::view`, pure.

use super::core::Core;
use super::scheduler_views::{limit_row, refresh};
use super::summary_views::{host_counts, queue_counts, user_counts, user_row};
use crate::model::Stamp;
use crate::record::view::{CountChanges, Counts, LimitChange, ROWS_MAX};
use crate::state::{HostId, InUse};
use rustc_hash::FxHashMap;

/// The counts that readers can see, by a summary view or by a change of it.
#[derive(Debug, Default)]
pub struct ShownCounts {
    /// Slots in use and reserved.
    hosts: FxHashMap<HostId, (InUse, u32)>,
    queues: FxHashMap<String, Counts>,
    users: FxHashMap<u32, Counts>,
    /// Used and limit, by limit, consumer and resource.
    limits: FxHashMap<(String, String, String), (i64, Option<i64>)>,
}

/// Returns the counts that are not shown yet, and marks them as shown. `now`: for limits that
/// depend on the time.
pub fn count_changes(core: &mut Core, shown: &mut ShownCounts, now: Stamp) -> CountChanges {
    refresh(core);
    let mut changes = CountChanges {
        limits: changed_limits(core, shown, now),
        ..CountChanges::default()
    };
    for host in core.hosts.iter() {
        let current = (core.state.used().host(host.id), core.reserved.host(host.id));
        if shown.hosts.insert(host.id, current) != Some(current) {
            changes.hosts.push(host_counts(core, host));
        }
    }
    for queue in &core.config.queues {
        let current = queue_counts(core, &queue.name);
        match shown.queues.get_mut(&queue.name) {
            Some(known) if *known == current => continue,
            Some(known) => *known = current,
            None => drop(shown.queues.insert(queue.name.clone(), current)),
        }
        changes.queues.push((queue.name.clone(), current));
    }
    // Users without any job left are included.
    for (uid, name) in core.state.user_names() {
        let current = user_counts(core, uid);
        let before = shown.users.insert(uid, current).unwrap_or_default();
        if before != current {
            changes.users.push(user_row(core, uid, name));
        }
    }
    changes
}

fn changed_limits(core: &mut Core, shown: &mut ShownCounts, now: Stamp) -> Vec<LimitChange> {
    let changed = match core.engine.take_changed_limits(now) {
        Some(changed) => changed,
        None => {
            let all = core.engine.limits(now).into_iter().take(ROWS_MAX);
            all.map(|row| (row, false)).collect()
        }
    };
    let mut out = Vec::new();
    for (row, is_gone) in changed {
        let key = (
            row.limit.clone(),
            row.consumer.clone(),
            row.resource.clone(),
        );
        let current = (row.used, row.max);
        let before = match is_gone {
            true => shown.limits.remove(&key),
            false => shown.limits.insert(key, current),
        };
        if before != (!is_gone).then_some(current) {
            let row = limit_row(row);
            out.push(LimitChange { row, gone: is_gone });
        }
    }
    out
}
