//! Hosts as Slurm's nodes: their states, and the fields of sinfo over groups of them.

use super::jobs::fold;
use crate::record::host_status::HostStatus;
use crate::record::view::{HostRow, QueueRow};
use std::collections::BTreeMap;

/// The state of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum NodeState {
    Down,
    Drained,
    Draining,
    Mixed,
    Allocated,
    Idle,
}

impl NodeState {
    pub(crate) fn of(host: &HostRow) -> NodeState {
        let busy = host.njobs.saturating_sub(host.rsv) > 0;
        match host.status {
            HostStatus::Unavailable | HostStatus::Unreachable => NodeState::Down,
            // Closed or locked by an administrator, or closed by a window.
            HostStatus::ClosedByAdmin | HostStatus::Locked | HostStatus::ClosedByWindow => {
                if busy {
                    NodeState::Draining
                } else {
                    NodeState::Drained
                }
            }
            HostStatus::Exclusive => NodeState::Allocated,
            _ if host.njobs == 0 => NodeState::Idle,
            _ if host.njobs >= host.slots => NodeState::Allocated,
            _ => NodeState::Mixed,
        }
    }

    /// The state's word, and its short form.
    pub(crate) fn state_words(self) -> (&'static str, &'static str) {
        match self {
            // The star means that the node does not respond.
            NodeState::Down => ("down*", "down*"),
            NodeState::Drained => ("drained", "drain"),
            NodeState::Draining => ("draining", "drng"),
            NodeState::Mixed => ("mixed", "mix"),
            NodeState::Allocated => ("allocated", "alloc"),
            NodeState::Idle => ("idle", "idle"),
        }
    }

    /// The states that a word of `-t` selects; `None`: the word is unknown to Slurm.
    pub(crate) fn parse(word: &str) -> Option<Vec<NodeState>> {
        use NodeState::{Allocated, Down, Drained, Draining, Idle, Mixed};
        Some(match word.to_ascii_lowercase().as_str() {
            "all" => vec![Down, Drained, Draining, Mixed, Allocated, Idle],
            "down" | "no_respond" | "fail" => vec![Down],
            "drain" => vec![Drained, Draining],
            "drained" => vec![Drained],
            "draining" | "drng" => vec![Draining],
            "mix" | "mixed" => vec![Mixed],
            "alloc" | "allocated" => vec![Allocated],
            "idle" => vec![Idle],
            "unk" | "unknown" | "maint" | "resv" | "reserved" | "comp" | "completing" | "failg"
            | "failing" | "future" | "futr" | "planned" | "plnd" | "power_down" | "power_up"
            | "powering_down" | "powered_down" | "perfctrs" | "npc" | "reboot" | "cloud"
            | "blocked" => vec![],
            _ => return None,
        })
    }
}

/// A host with its state.
pub(crate) struct Node<'a> {
    pub host: &'a HostRow,
    pub state: NodeState,
}

/// Nodes on one line; for a queue without hosts, none.
pub(crate) struct Group<'a> {
    pub queue: &'a QueueRow,
    pub nodes: Vec<&'a Node<'a>>,
}

type Get = fn(&Group<'_>) -> String;

/// A field: letter, heading, value, and whether nodes that differ in it are on different lines.
pub(crate) struct NodeField {
    pub letter: char,
    pub header: &'static str,
    pub get: Get,
    pub parts: bool,
}

impl NodeField {
    /// Whether the field describes the queue, not its nodes.
    pub(crate) fn of_queue(&self) -> bool {
        "PRalLghrsSp".contains(self.letter)
    }
}

const fn letter_field(letter: char, header: &'static str, get: Get) -> NodeField {
    NodeField {
        letter,
        header,
        get,
        parts: true,
    }
}

const fn all(letter: char, header: &'static str, get: Get) -> NodeField {
    NodeField {
        parts: false,
        ..letter_field(letter, header, get)
    }
}

fn avail(queue: &QueueRow) -> &'static str {
    match (queue.open, queue.active) {
        (true, true) => "up",
        (true, false) => "down",
        (false, true) => "drain",
        (false, false) => "inact",
    }
}

/// A limit of the queue in seconds.
pub(super) fn limit_s(queue: &QueueRow, title: &str) -> Option<u64> {
    let mut settings = queue.settings.iter();
    let (_, text) = settings.find(|(name, _)| name == title)?;
    let minutes = text.strip_suffix(" min")?.parse::<f64>().ok()?;
    Some((minutes * 60.0).round() as u64)
}

/// The limit in Slurm's time format.
fn limit(queue: &QueueRow, title: &str, none: &str) -> String {
    limit_s(queue, title).map_or_else(|| none.to_owned(), crate::text::slurm::clock)
}

/// The minimum over the nodes, with `+` if they differ.
fn least(group: &Group<'_>, value: impl Fn(&HostRow) -> u64) -> String {
    let all = || group.nodes.iter().map(|node| value(node.host));
    match (all().min(), all().max()) {
        (Some(least), Some(most)) if least < most => format!("{least}+"),
        (least, _) => least.unwrap_or(0).to_string(),
    }
}

fn load(group: &Group<'_>) -> String {
    let mut all: Vec<f64> = group.nodes.iter().map(|n| n.host.load.r1m).collect();
    all.sort_by(f64::total_cmp);
    match all.as_slice() {
        [] => "N/A".to_owned(),
        [one] => format!("{one:.2}"),
        [least, .., most] => format!("{least:.2}-{most:.2}"),
    }
}

fn state(group: &Group<'_>, short: bool) -> String {
    let words = group.nodes.first().map(|node| node.state.state_words());
    let (long, code) = words.unwrap_or(("n/a", "n/a"));
    if short { code } else { long }.to_owned()
}

/// Allocated, idle, other, total: of nodes, or of their slots.
pub(super) fn counts(group: &Group<'_>, slots: bool) -> [u64; 4] {
    let mut out = [0; 4];
    for node in &group.nodes {
        let size = if slots { u64::from(node.host.slots) } else { 1 };
        let used = match (slots, node.state) {
            (true, NodeState::Allocated) => size,
            (true, _) => u64::from(node.host.njobs).min(size),
            (false, NodeState::Allocated | NodeState::Mixed | NodeState::Draining) => 1,
            (false, _) => 0,
        };
        let out_of_use = matches!(
            node.state,
            NodeState::Down | NodeState::Drained | NodeState::Draining
        );
        out[0] += used;
        out[if out_of_use { 2 } else { 1 }] += size - used;
        out[3] += size;
    }
    out
}

fn slashed(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    words.join("/")
}

/// The GPUs of a host in Slurm's form: `gpu:2`.
pub(super) fn gres(host: &HostRow) -> String {
    let values = [&host.resources, &host.load.values];
    let found = values
        .iter()
        .find_map(|map: &&BTreeMap<_, _>| map.get("gpu"));
    let n = found.and_then(|text| match text.strip_prefix('[') {
        Some(names) => Some(names.trim_end_matches(']').split(',').count()),
        None => text.parse::<f64>().ok().map(|n| n as usize),
    });
    match n {
        None | Some(0) => "(null)".to_owned(),
        Some(n) => format!("gpu:{n}"),
    }
}

fn first<'g>(group: &Group<'g>) -> Option<&'g HostRow> {
    group.nodes.first().map(|node| node.host)
}

fn or_null(text: String) -> String {
    match text.is_empty() {
        true => "(null)".to_owned(),
        false => text,
    }
}

pub(super) fn why(group: &Group<'_>) -> String {
    let host = first(group);
    let comment = host.map_or(String::new(), |host| host.comment.clone());
    match (comment.is_empty(), group.nodes.first().map(|n| n.state)) {
        (true, Some(NodeState::Down)) => "Not responding".to_owned(),
        (true, _) => "none".to_owned(),
        (false, _) => comment,
    }
}

/// All fields.
pub(crate) static FIELDS: &[NodeField] = &[
    letter_field('P', "PARTITION", |g| {
        let star = if g.queue.default { "*" } else { "" };
        format!("{}{star}", g.queue.name)
    }),
    letter_field('R', "PARTITION", |g| g.queue.name.clone()),
    letter_field('a', "AVAIL", |g| avail(g.queue).to_owned()),
    letter_field('l', "TIMELIMIT", |g| {
        limit(g.queue, "MAXIMUM RUNLIMIT", "infinite")
    }),
    letter_field('L', "DEFAULTTIME", |g| {
        limit(g.queue, "DEFAULT RUNLIMIT", "n/a")
    }),
    letter_field('g', "GROUPS", |g| g.queue.users.clone()),
    letter_field('h', "OVERSUBSCRIBE", |_| "NO".to_owned()),
    letter_field('r', "ROOT", |_| "no".to_owned()),
    letter_field('s', "JOB_SIZE", |_| "1-infinite".to_owned()),
    letter_field('S', "ALLOCNODES", |_| "all".to_owned()),
    letter_field('p', "PRIO_TIER", |g| g.queue.priority.to_string()),
    letter_field('t', "STATE", |g| state(g, true)),
    letter_field('T', "STATE", |g| state(g, false)),
    letter_field('f', "AVAIL_FEATURES", |g| {
        or_null(first(g).map_or(String::new(), |host| host.tags.join(",")))
    }),
    letter_field('b', "ACTIVE_FEATURES", |g| {
        or_null(first(g).map_or(String::new(), |host| host.tags.join(",")))
    }),
    letter_field('G', "GRES", |g| {
        first(g).map_or_else(|| "(null)".to_owned(), gres)
    }),
    letter_field('E', "REASON", why),
    letter_field('u', "USER", |g| {
        let by = first(g).map_or(String::new(), |host| host.closed_by.clone());
        if by.is_empty() {
            "Unknown".to_owned()
        } else {
            by
        }
    }),
    letter_field('H', "TIMESTAMP", |g| {
        let at = first(g).map_or(0, |host| host.closed_at);
        super::format::moment(at, &jiff::tz::TimeZone::system(), "Unknown")
    }),
    letter_field('i', "RESERVATION", |_| String::new()),
    letter_field('w', "WEIGHT", |_| "1".to_owned()),
    all('D', "NODES", |g| g.nodes.len().to_string()),
    all('N', "NODELIST", |g| {
        fold(
            &g.nodes
                .iter()
                .map(|n| n.host.name.clone())
                .collect::<Vec<_>>(),
        )
    }),
    letter_field('n', "HOSTNAMES", |g| {
        first(g).map_or(String::new(), |host| host.name.clone())
    }),
    letter_field('o', "NODE_ADDR", |g| {
        first(g).map_or(String::new(), |host| host.name.clone())
    }),
    all('A', "NODES(A/I)", |g| slashed(&counts(g, false)[..2])),
    all('F', "NODES(A/I/O/T)", |g| slashed(&counts(g, false))),
    all('C', "CPUS(A/I/O/T)", |g| slashed(&counts(g, true))),
    all('c', "CPUS", |g| least(g, |host| u64::from(host.slots))),
    all('m', "MEMORY", |g| least(g, |host| host.load.maxmem)),
    all('e', "FREE_MEM", |g| {
        least(g, |host| host.load.mem.max(0.0) as u64)
    }),
    all('d', "TMP_DISK", |g| least(g, |host| host.load.maxtmp)),
    all('O', "CPU_LOAD", load),
    all('X', "SOCKETS", |_| "1".to_owned()),
    all('Y', "CORES", |g| least(g, |host| u64::from(host.slots))),
    all('Z', "THREADS", |_| "1".to_owned()),
    all('z', "S:C:T", |g| {
        format!("1:{}:1", least(g, |host| u64::from(host.slots)))
    }),
];

pub(crate) fn by_letter(letter: char) -> Option<usize> {
    FIELDS.iter().position(|f| f.letter == letter)
}
