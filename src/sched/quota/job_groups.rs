//! Limits of job groups: how many started jobs a group and its subgroups may have. A job counts in
//! the counter of its group and in those of the groups that contain it. Owns the limits in force;
//! the counters are those of the other limits. A job without a group never comes here.

use super::{Kind, Members, Quotas, Rule, UNLIMITED};
use crate::config::Quota;
use crate::text::job_group::ancestors;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Limits by the path of their group, and the version of the state that has them.
#[derive(Debug, Default)]
pub(super) struct GroupLimits {
    by_path: BTreeMap<String, i64>,
    version: u64,
}

impl Quotas {
    /// Takes over the limits of job groups if `version` is another than before. `at`: the
    /// position in the log of changed hosts.
    pub fn limit_groups<'s>(
        &mut self,
        version: u64,
        limits: impl Iterator<Item = (&'s str, u32)>,
        at: u64,
    ) {
        if self.group_limits.version == version {
            return;
        }
        let limits = limits.map(|(path, limit)| (path.to_owned(), i64::from(limit)));
        self.group_limits = GroupLimits {
            by_path: limits.collect(),
            version,
        };
        for family in self.family_ids.values() {
            let family = &self.families[*family as usize];
            let rule = &self.rules[usize::from(family.rule)];
            let (Kind::JobGroups, Some(counter)) = (rule.kind, family.counter) else {
                continue;
            };
            let limit = self.group_limits.of(&family.members);
            let counter = &mut self.counters[counter as usize];
            if counter.most != limit {
                (counter.most, counter.freed) = (limit, at);
            }
        }
    }

    /// The counters of a group and of the groups that contain it.
    pub(super) fn counters_of_group(&mut self, path: &str) -> Vec<u32> {
        let rule = self.rules.iter().position(|r| r.kind == Kind::JobGroups);
        let Some(rule) = rule.and_then(|at| u16::try_from(at).ok()) else {
            return Vec::new();
        };
        let counter = |group: &str| {
            let members = [Some(Box::from(group)), None, None, None];
            let limit = self.group_limits.of(&members);
            let family = self.family(rule, members);
            let counter = self.families[family as usize].counter?;
            self.counters[counter as usize].most = limit;
            Some(counter)
        };
        ancestors(path).filter_map(counter).collect()
    }
}

impl GroupLimits {
    fn of(&self, members: &Members) -> Option<i64> {
        let path = members[0].as_deref()?;
        self.by_path.get(path).copied()
    }
}

impl Rule {
    /// The rule of all groups.
    pub(super) fn of_groups() -> Rule {
        Rule {
            quota: Quota::default(),
            res: Vec::new(),
            slots: UNLIMITED,
            jobs: UNLIMITED,
            amounts: SmallVec::new(),
            raised_at: 0,
            until: None,
            includes_host: Vec::new(),
            kind: Kind::JobGroups,
        }
    }
}
