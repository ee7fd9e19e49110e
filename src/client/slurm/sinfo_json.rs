//! Nodes of a partition in the form of `sinfo --json`.

use super::jobs::fold;
use super::json::{limit, number};
use super::sinfo_nodes::{Group, NodeState, counts, gres, limit_s, why};
use crate::record::view::{HostRow, QueueRow};
use serde_json::{Value, json};

/// Nodes that differ in one of these fields are in different entries.
pub(super) const FORMAT: &str = "%P %T %c %m %d %f %G %E";

/// The flags of a state.
fn flags(state: NodeState) -> &'static [&'static str] {
    match state {
        NodeState::Down => &["DOWN", "NOT_RESPONDING"],
        NodeState::Drained => &["IDLE", "DRAIN"],
        NodeState::Draining => &["MIXED", "DRAIN"],
        NodeState::Mixed => &["MIXED"],
        NodeState::Allocated => &["ALLOCATED"],
        NodeState::Idle => &["IDLE"],
    }
}

fn partition_state(queue: &QueueRow) -> &'static str {
    match (queue.open, queue.active) {
        (true, true) => "UP",
        (true, false) => "DOWN",
        (false, true) => "DRAIN",
        (false, false) => "INACTIVE",
    }
}

/// One entry of the list.
pub(super) fn entry(group: &Group<'_>, cluster: &str) -> Value {
    let names: Vec<String> = group.nodes.iter().map(|n| n.host.name.clone()).collect();
    let hosts = || group.nodes.iter().map(|node| node.host);
    let range = |value: &dyn Fn(&HostRow) -> u64| {
        let least = hosts().map(value).min().unwrap_or(0);
        let most = hosts().map(value).max().unwrap_or(0);
        (least, most)
    };
    let span = |value: &dyn Fn(&HostRow) -> u64| {
        let (least, most) = range(value);
        json!({"minimum": least, "maximum": most})
    };
    let slots = |host: &HostRow| u64::from(host.slots);
    let one = |_: &HostRow| 1;
    let free = range(&|host| host.load.mem.max(0.0) as u64);
    let first = group.nodes.first().map(|node| node.host);
    let tags = first.map_or(String::new(), |host| host.tags.join(","));
    let units = first.map_or(String::new(), gres);
    let units = if units == "(null)" {
        String::new()
    } else {
        units
    };
    let reason = why(group);
    let (nodes, cpus) = (counts(group, false), counts(group, true));
    let state = group
        .nodes
        .first()
        .map_or(&[][..], |node| flags(node.state));
    json!({
        "cluster": cluster,
        "partition": partition(group.queue, cluster),
        "node": {"state": state},
        "nodes": {
            "allocated": nodes[0], "idle": nodes[1], "other": nodes[2], "total": nodes[3],
            "hostnames": names, "addresses": names, "nodes": names,
        },
        "cpus": {
            "allocated": cpus[0], "idle": cpus[1], "other": cpus[2], "total": cpus[3],
            "minimum": range(&slots).0, "maximum": range(&slots).1,
            "load": span(&|host| (host.load.r1m.max(0.0) * 100.0).round() as u64),
        },
        "sockets": span(&one),
        "cores": span(&slots),
        "threads": span(&one),
        "memory": {
            "minimum": range(&|host| host.load.maxmem).0,
            "maximum": range(&|host| host.load.maxmem).1,
            "free": {"minimum": number(Some(free.0)), "maximum": number(Some(free.1))},
        },
        "disk": span(&|host| host.load.maxtmp),
        "weight": span(&one),
        "features": {"total": tags, "active": tags},
        "gres": {"total": units},
        "reason": if reason == "none" { String::new() } else { reason },
        "reservation": "",
    })
}

fn partition(queue: &QueueRow, cluster: &str) -> Value {
    let minutes = |title: &str| limit_s(queue, title).map(|s| s.div_ceil(60));
    json!({
        "name": queue.name,
        "cluster": cluster,
        "nodes": {
            "allowed_allocation": "",
            "configured": fold(&queue.hosts),
            "total": queue.hosts.len(),
        },
        "maximums": {"time": limit(minutes("MAXIMUM RUNLIMIT"))},
        "defaults": {"time": number(minutes("DEFAULT RUNLIMIT"))},
        "priority": {"tier": queue.priority},
        "partition": {"state": [partition_state(queue)]},
    })
}
