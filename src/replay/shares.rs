//! What each user and group of a workload is entitled to: the share tree of the first queue that
//! has one, flattened. Owns the arithmetic; `config` finds the path of a user through the tree.

use super::workload::{Principals, Workload};
use crate::config::Config;
use std::collections::{BTreeMap, BTreeSet};

/// Shares of users and of groups by number, each list adding up to 1; all equal without a tree. A
/// user who is not in the tree has none.
pub fn shares(
    config: &Config,
    workload: &Workload,
    principals: &Principals,
) -> (Vec<f64>, Vec<f64>) {
    let mut groups_of: Vec<Vec<String>> = vec![Vec::new(); principals.users.len()];
    let mut members: BTreeSet<(u32, u32)> = BTreeSet::new();
    for (ask, (user, group)) in workload.requests.iter().zip(&principals.by_request) {
        let groups = &mut groups_of[*user as usize];
        if !ask.group.is_empty() && !groups.contains(&ask.group) {
            groups.push(ask.group.clone());
        }
        members.insert((*user, *group));
    }
    let users = of_users(config, &principals.users, &groups_of);
    let mut groups = vec![0.0; principals.groups.len()];
    for (user, group) in &members {
        // A user who works for several groups counts partly for each.
        let all = members.iter().filter(|(u, _)| u == user).count();
        groups[*group as usize] += users[*user as usize] / all as f64;
    }
    (users, groups)
}

fn of_users(config: &Config, users: &[String], groups: &[Vec<String>]) -> Vec<f64> {
    let tree = config.queues.iter().find_map(|q| q.policy.shares());
    let Some(tree) = tree else {
        return vec![1.0 / users.len().max(1) as f64; users.len()];
    };
    let paths: Vec<Vec<(String, u32)>> = users
        .iter()
        .zip(groups)
        .map(|(user, groups)| {
            let path = config.share_path(tree, user, groups).unwrap_or_default();
            path.iter()
                .map(|step| (format!("{:?}", step.node), step.shares))
                .collect()
        })
        .collect();
    // Shares of each node's children, by the path to the node.
    let mut children: BTreeMap<Vec<&str>, BTreeMap<&str, u32>> = BTreeMap::new();
    for path in &paths {
        let mut names = Vec::new();
        for (node, shares) in path {
            let level = children.entry(names.clone()).or_default();
            level.insert(node, *shares);
            names.push(node);
        }
    }
    let weight = |path: &Vec<(String, u32)>| {
        let mut names: Vec<&str> = Vec::new();
        let mut weight = if path.is_empty() { 0.0 } else { 1.0 };
        for (node, shares) in path {
            let all: u32 = children.get(&names).map_or(0, |level| level.values().sum());
            weight *= f64::from(*shares) / f64::from(all.max(1));
            names.push(node);
        }
        weight
    };
    paths.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OsNames, load};
    use crate::replay::workload::JobRequest;

    fn workload(users: &[(&str, &str)]) -> Workload {
        let ask = |(user, group): &(&str, &str)| JobRequest {
            user: (*user).to_owned(),
            group: (*group).to_owned(),
            ..JobRequest::default()
        };
        Workload {
            requests: users.iter().map(ask).collect(),
            ..Workload::default()
        }
    }

    fn found(queue: &str, users: &[(&str, &str)]) -> (Vec<f64>, Vec<f64>) {
        let text = format!(
            "cluster: {{name: c, administrators: [root]}}\nhosts:\n- {{name: h, slots: 1}}\n\
             usergroups:\n- {{name: d1, members: a b, fairshare: '[default,1]'}}\n\
             queues:\n- {{name: q{queue}}}\n"
        );
        let config = load(text.as_bytes(), "cb.yaml", &OsNames::ANY)
            .unwrap()
            .config;
        let w = workload(users);
        shares(&config, &w, &Principals::of(&w))
    }

    #[test]
    fn without_a_tree_all_are_alike() {
        let (users, groups) = found("", &[("a", "d1"), ("b", "d1"), ("c", "")]);
        assert!(
            users.iter().all(|s| (s - 1.0 / 3.0).abs() < 1e-9),
            "{users:?}"
        );
        assert!((groups[0] - 2.0 / 3.0).abs() < 1e-9, "{groups:?}");
    }

    #[test]
    fn shares_multiply_down_the_tree() {
        let queue = ", policy: fairshare, fairshare: '[d1,2] [c,1]'";
        let (users, groups) = found(queue, &[("a", "d1"), ("b", "d1"), ("c", "")]);
        for (share, expected) in users.iter().zip([1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]) {
            assert!((share - expected).abs() < 1e-9, "{users:?}");
        }
        assert!((groups[0] - 2.0 / 3.0).abs() < 1e-9, "{groups:?}");
        // Only users who occur count: b does not.
        let (users, _) = found(queue, &[("a", "d1"), ("c", "")]);
        assert!((users[0] - 2.0 / 3.0).abs() < 1e-9, "{users:?}");
    }
}
