//! Whose jobs the caller may see with `user_view_alljobs: no`, according to the administrators that
//! the leader publishes. The view itself hides nothing; the commands follow this rule.

use super::read::{GROUP_DEPTH, members};
use crate::record::view::{Params, QueueRow};
use crate::text::names::{NameSet, check_user};
use std::collections::{HashMap, HashSet};

/// The system groups of a user, by user name.
pub(super) type GroupsOfUser<'a> = &'a (dyn Fn(&str) -> Vec<String> + Sync);

/// The user groups of the cluster, used to check membership in a set.
pub(super) struct UserSets<'a> {
    groups: HashMap<&'a str, NameSet>,
    os_groups: GroupsOfUser<'a>,
}

impl<'a> UserSets<'a> {
    pub(super) fn new(params: &'a Params, os_groups: GroupsOfUser<'a>) -> UserSets<'a> {
        let groups = params.user_groups.iter();
        let groups = groups.map(|(name, members, _)| (name.as_str(), set(&members.join(" "))));
        UserSets {
            groups: groups.collect(),
            os_groups,
        }
    }

    /// Whether the user is in a set as written in cb.yaml.
    pub(super) fn contains_user(&self, text: &str, user: &str) -> bool {
        self.is_in_set(&set(text), user, 0)
    }

    fn is_in_set(&self, set: &NameSet, user: &str, depth: usize) -> bool {
        set.contains(user, |group| match self.groups.get(group) {
            Some(inner) => depth < GROUP_DEPTH && self.is_in_set(inner, user, depth + 1),
            None => (self.os_groups)(user).iter().any(|g| g == group),
        })
    }
}

/// A set that cannot be parsed is empty.
fn set(text: &str) -> NameSet {
    let text = text.replace("@system", "all");
    NameSet::parse_stored(&text).unwrap_or_default()
}

/// Whose jobs an administrator of groups and queues sees besides their own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct VisibleJobs {
    pub users: HashSet<String>,
    pub queues: HashSet<String>,
}

impl VisibleJobs {
    /// `known`: users that may be members of groups without being listed there.
    pub(super) fn of(
        me: &str,
        params: &Params,
        queues: &[QueueRow],
        known: &[String],
        os_groups: GroupsOfUser<'_>,
    ) -> VisibleJobs {
        let sets = UserSets::new(params, os_groups);
        let mine = queues
            .iter()
            .filter(|q| sets.contains_user(&q.administrators.join(" "), me));
        let mut visible = VisibleJobs {
            users: HashSet::new(),
            queues: mine.map(|q| q.name.clone()).collect(),
        };
        for (name, _, administrators) in &params.user_groups {
            if sets.contains_user(administrators, me) {
                let all = members(name, params).into_iter();
                let all = all.chain(known.iter().cloned());
                // Words that are not users are left out: all, @system, ~u1.
                let all = all.filter(|user| user != "all" && check_user(user).is_ok());
                visible
                    .users
                    .extend(all.filter(|user| sets.contains_user(name, user)));
            }
        }
        visible
    }

    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.queues.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Params {
        let group = |name: &str, members: &str, administrators: &str| {
            let members = members.split(' ').map(str::to_owned).collect();
            (name.to_owned(), members, administrators.to_owned())
        };
        Params {
            user_groups: vec![
                group("bosses", "b1 b2", ""),
                group("lab", "u1 u2 wheel ~u2", "bosses ~b2"),
                group("everyone", "@system ~u3", "chief"),
            ],
            ..Params::default()
        }
    }

    fn os_groups(user: &str) -> Vec<String> {
        match user {
            "w" => vec!["wheel".to_owned()],
            _ => Vec::new(),
        }
    }

    #[test]
    fn administrators_of_groups_and_queues_see_the_jobs_of_those() {
        let params = params();
        let queue = QueueRow {
            name: "night".into(),
            administrators: vec!["b2".into(), "wheel".into()],
            ..QueueRow::default()
        };
        let open = QueueRow {
            name: "day".into(),
            administrators: vec![String::new()],
            ..QueueRow::default()
        };
        let queues = [queue, open];
        let known = ["u1", "u3", "w"].map(str::to_owned);
        let sees = |me: &str| {
            let visible = VisibleJobs::of(me, &params, &queues, &known, &os_groups);
            let mut all: Vec<String> = visible.users.into_iter().chain(visible.queues).collect();
            all.sort();
            all.join(" ")
        };
        // A name may be that of a user or of a group: wheel counts as both.
        assert_eq!(sees("b1"), "u1 w wheel", "u2 is taken out of the group");
        assert_eq!(sees("b2"), "night", "b2 is taken out of the administrators");
        assert_eq!(sees("w"), "night", "by a group of the system");
        assert_eq!(sees("chief"), "u1 w", "all but u3");
        assert_eq!(sees("u1"), "");
    }

    #[test]
    fn a_set_may_name_groups() {
        let params = params();
        let sets = UserSets::new(&params, &os_groups);
        assert!(
            sets.contains_user("root bosses", "b1") && !sets.contains_user("root bosses", "u1")
        );
        assert!(
            sets.contains_user("wheel", "w")
                && sets.contains_user("all", "x")
                && !sets.contains_user("", "x")
        );
    }
}
