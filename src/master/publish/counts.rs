//! Counts that changed since the summary documents were last written, as stored in the delta. Owns
//! no file.

use crate::record::view::{self, CountChanges, Counts, HostCounts, LimitChange, UserRow};
use std::collections::BTreeMap;

/// Limit, consumer and resource of a counter.
type LimitKey = (String, String, String);

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct CountsSinceDocuments {
    /// The moment of the last change.
    moment: u64,
    hosts: BTreeMap<String, HostCounts>,
    queues: BTreeMap<String, Counts>,
    users: BTreeMap<String, UserRow>,
    limits: BTreeMap<LimitKey, LimitChange>,
}

impl CountsSinceDocuments {
    /// The moment of a document that is written now.
    pub(crate) fn moment(&self) -> u64 {
        self.moment
    }

    /// Adds a change; returns it with its moment.
    pub(crate) fn add(&mut self, mut changes: CountChanges) -> CountChanges {
        self.moment += 1;
        changes.moment = self.moment;
        for host in &changes.hosts {
            self.hosts.insert(host.name.clone(), host.clone());
        }
        for (queue, counts) in &changes.queues {
            self.queues.insert(queue.clone(), *counts);
        }
        for user in &changes.users {
            self.users.insert(user.name.clone(), user.clone());
        }
        for limit in &changes.limits {
            let row = &limit.row;
            let key = [&row.name, &row.consumer, &row.resource].map(String::clone);
            self.limits.insert(key.into(), limit.clone());
        }
        changes
    }

    /// Notes that the document was written with all changes so far.
    pub(crate) fn documented(&mut self, name: &str) {
        match name {
            view::HOSTS => self.hosts.clear(),
            view::QUEUES => self.queues.clear(),
            view::USERS => self.users.clear(),
            view::LIMITS => self.limits.clear(),
            _ => {}
        }
    }

    /// All changes that the documents lack, for a new delta.
    pub(crate) fn all(&self) -> Option<CountChanges> {
        let queues = self.queues.iter();
        let all = CountChanges {
            moment: self.moment,
            hosts: self.hosts.values().cloned().collect(),
            queues: queues.map(|(name, n)| (name.clone(), *n)).collect(),
            users: self.users.values().cloned().collect(),
            limits: self.limits.values().cloned().collect(),
        };
        (!all.is_empty()).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Publisher;
    use super::*;
    use crate::record::view::QueueRow;
    use crate::spool::Layout;
    use crate::spool::view::ViewReader;
    use crate::state::State;

    fn queue(run: u64) -> QueueRow {
        let counts = Counts {
            run,
            ..Counts::default()
        };
        QueueRow {
            name: "q".into(),
            counts,
            ..QueueRow::default()
        }
    }

    fn changed(run: u64) -> CountChanges {
        CountChanges {
            queues: vec![("q".into(), queue(run).counts)],
            ..CountChanges::default()
        }
    }

    fn seen(layout: &Layout) -> u64 {
        let counted = ViewReader::new(layout).counted_queues().unwrap();
        assert!(counted.warnings.is_empty(), "{:?}", counted.warnings);
        counted.rows[0].counts.run
    }

    /// Regardless of what is written first and by which leader, readers see the last value.
    #[test]
    fn the_last_count_is_seen_across_documents_rounds_and_leaders() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("view")).unwrap();
        let (layout, state) = (Layout::new(dir.path()), State::default());
        let mut old = Publisher::new(&layout, "c", 1).unwrap();
        old.document(view::QUEUES, &[queue(0)]).unwrap();
        old.counts(changed(1), false);
        old.flush().unwrap();
        assert_eq!(seen(&layout), 1);
        old.finish(&state).unwrap();
        assert_eq!(seen(&layout), 1, "after a round");
        old.counts(changed(2), true);
        old.document(view::QUEUES, &[queue(2)]).unwrap();
        assert_eq!(seen(&layout), 2, "by the document");
        old.counts(changed(3), false);
        old.counts(changed(2), false);
        old.flush().unwrap();
        old.document(view::QUEUES, &[queue(2)]).unwrap();
        assert_eq!(seen(&layout), 2, "the document was not written again");
        let mut new = Publisher::new(&layout, "c", 2).unwrap();
        assert_eq!(seen(&layout), 2);
        new.counts(changed(5), true);
        new.document(view::QUEUES, &[queue(5)]).unwrap();
        assert_eq!(seen(&layout), 5, "the delta of the last leader is older");
        new.counts(changed(6), false);
        new.finish(&state).unwrap();
        assert_eq!(seen(&layout), 6);
    }
}
