//! `sinfo`: queues and hosts, as partitions and nodes.

use super::command_line::{
    self, RefusedOption, both, refusals, refuse, value_words, without_h_flag,
};
use super::format::{self, FormatColumn, FormatPart};
use super::json;
use super::sinfo_json;
use super::sinfo_nodes::{FIELDS, Group, Node, NodeField, NodeState, by_letter};
use crate::client::cli::{Values, flag, opt};
use crate::client::exit::{Exit, Fail, Result};
use crate::client::read::{self, Source};
use crate::record::view::QueueRow;
use crate::sys;
use clap::{ArgMatches, Command};
use jiff::tz::TimeZone;
use std::collections::HashSet;
use std::ffi::OsString;

const DEFAULT: &str = "%9P %.5a %.10l %.6D %.6t %N";
const LONG: &str = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N";
const NODES: &str = "%N %.6D %9P %6t";
const NODES_LONG: &str = "%N %.6D %9P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E";
const SUMMARY: &str = "%9P %.5a %.10l %.16F %N";
const REASONS: &str = "%20E %9u %19H %N";

const REFUSED: &[RefusedOption] = &[
    ("Format", 'O', true, "-o names the columns"),
    ("clusters", 'M', true, "there is one cluster"),
    ("iterate", 'i', true, "watch repeats a command"),
    (
        "reservation",
        ' ',
        false,
        "there are no reservations by name",
    ),
    (
        "yaml",
        ' ',
        false,
        "chosts --json and cqueues --json give the values",
    ),
    (
        "sort",
        'S',
        true,
        "queues are listed by priority, nodes by state",
    ),
    ("federation", ' ', false, "there is one cluster"),
];

fn options() -> Command {
    let cmd = without_h_flag("sinfo", "List queues and hosts, as Slurm's command does")
        .arg(both(flag("noheader", "No header line"), 'h'))
        .arg(both(flag("Node", "A line for each host"), 'N'))
        .arg(both(flag("long", "More columns"), 'l'))
        .arg(both(flag("summarize", "A line for each queue"), 's'))
        .arg(both(
            flag("list-reasons", "Hosts that are closed, and why"),
            'R',
        ))
        .arg(both(opt("partition", "QUEUES", "These queues"), 'p'))
        .arg(both(opt("nodes", "HOSTS", "These hosts"), 'n'))
        .arg(both(
            opt(
                "states",
                "STATES",
                "Hosts in these states: idle mix alloc drain down ...",
            ),
            't',
        ))
        .arg(both(
            opt("format", "FORMAT", "Columns: %[.][WIDTH]LETTER ..."),
            'o',
        ))
        .arg(flag("json", "The nodes as one JSON object"))
        .arg(both(flag("responding", "Hosts that answer"), 'r'))
        .arg(both(flag("dead", "Hosts that do not answer"), 'd'))
        .arg(both(
            flag("all", "No effect: no queue is hidden").hide(true),
            'a',
        ))
        .arg(both(flag("exact", "No effect").hide(true), 'e'))
        .arg(both(flag("verbose", "No effect").hide(true), 'v'))
        .arg(flag("hide", "No effect").hide(true))
        .arg(flag("local", "No effect").hide(true));
    refusals(cmd, REFUSED)
}

/// Runs `sinfo`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    command_line::run("sinfo", options(), args, |m, source| {
        let at = (sys::clock::wall_ms(), TimeZone::system());
        let text = show(m, source, at)?;
        read::put(&text)?;
        Ok(Exit::Ok)
    })
}

/// The selection of hosts.
struct HostFilter {
    hosts: Option<HashSet<String>>,
    states: Option<Vec<NodeState>>,
    /// Those that respond, or those that do not.
    responding: Option<bool>,
    reasons: bool,
}

impl HostFilter {
    fn of(m: &ArgMatches) -> Result<HostFilter> {
        let hosts = value_words(m, "nodes");
        let hosts = match hosts.is_empty() {
            true => None,
            false => {
                let list = crate::text::hostlist::expand(&hosts.join(" "));
                let list = list.map_err(|e| Fail::usage(format!("--nodes: {}", e.message)))?;
                Some(list.into_iter().collect())
            }
        };
        let mut states = Vec::new();
        let named = value_words(m, "states");
        for word in &named {
            let found = NodeState::parse(word).ok_or_else(|| {
                let word = crate::text::width::escape(word);
                Fail::usage(format!("Bad state string: \"{word}\""))
            })?;
            states.extend(found);
        }
        Ok(HostFilter {
            hosts,
            states: (!named.is_empty()).then_some(states),
            responding: match (m.has("responding"), m.has("dead")) {
                (true, false) => Some(true),
                (false, true) => Some(false),
                _ => None,
            },
            reasons: m.has("list-reasons"),
        })
    }

    fn has(&self, node: &Node<'_>) -> bool {
        let down = node.state == NodeState::Down;
        let out = down || matches!(node.state, NodeState::Drained | NodeState::Draining);
        self.hosts
            .as_ref()
            .is_none_or(|set| set.contains(&node.host.name))
            && self
                .states
                .as_ref()
                .is_none_or(|all| all.contains(&node.state))
            && self.responding.is_none_or(|up| up != down)
            && (!self.reasons || out)
    }

    fn is_all(&self) -> bool {
        self.hosts.is_none() && self.states.is_none() && self.responding.is_none() && !self.reasons
    }
}

fn show(m: &ArgMatches, source: &Source, (now, zone): (i64, TimeZone)) -> Result<String> {
    refuse(m, REFUSED)?;
    let format = match m.has("json") {
        true => sinfo_json::FORMAT,
        false => format_of(m),
    };
    let mut pieces = format::percent(format, &by_letter).map_err(Fail::usage)?;
    let filter = HostFilter::of(m)?;
    let hosts = source.counted_hosts()?;
    let queues = source.queues()?;
    let nodes: Vec<Node<'_>> = hosts
        .iter()
        .map(|host| Node {
            host,
            state: NodeState::of(host),
        })
        .filter(|node| filter.has(node))
        .collect();
    let named = value_words(m, "partition");
    let wanted = |queue: &&QueueRow| named.is_empty() || named.contains(&queue.name);
    let mut lines = Lines::of(&pieces, m.has("Node"));
    for queue in queues.iter().filter(wanted) {
        let mine = nodes
            .iter()
            .filter(|node| queue.hosts.contains(&node.host.name));
        let mine: Vec<&Node<'_>> = mine.collect();
        if mine.is_empty() && filter.is_all() {
            lines.add_empty(queue);
        }
        for node in mine {
            lines.add(queue, node);
        }
    }
    let mut groups = lines.groups();
    if m.has("Node") {
        groups.sort_by_key(|group| group.nodes.first().map(|n| read::natural(&n.host.name)));
        widen(&mut pieces, &groups);
    }
    let mut out = String::new();
    if m.has("json") {
        let cluster = source.params()?.cluster;
        let (before, after) = json::frame("sinfo", &["sinfo", "--json"], &cluster);
        out.push_str(&before);
        for (n, group) in groups.iter().enumerate() {
            json::put(&mut out, &sinfo_json::entry(group, &cluster), n > 0);
        }
        out.push_str(&after);
        return Ok(out);
    }
    if m.has("long") {
        let t = jiff::Timestamp::from_millisecond(now).unwrap_or_default();
        let t = t.to_zoned(zone);
        out.push_str(&t.strftime("%a %b %d %H:%M:%S %Y\n").to_string());
    }
    if !m.has("noheader") {
        let mut header = |n: usize| FIELDS[n].header.to_owned();
        out.push_str(&format::line(&pieces, &mut header));
    }
    for group in &groups {
        let mut value = |n: usize| (FIELDS[n].get)(group);
        out.push_str(&format::line(&pieces, &mut value));
    }
    Ok(out)
}

fn format_of(m: &ArgMatches) -> &str {
    match m.last("format") {
        Some(text) => text,
        None if m.has("list-reasons") => REASONS,
        None if m.has("summarize") => SUMMARY,
        None if m.has("Node") && m.has("long") => NODES_LONG,
        None if m.has("Node") => NODES,
        None if m.has("long") => LONG,
        None => DEFAULT,
    }
}

/// Groups nodes into lines: nodes that differ in a shown field are on different lines. If no field
/// of queues is shown, a node of several queues appears once.
struct Lines<'a> {
    fields: Vec<&'static NodeField>,
    per_node: bool,
    lines: Vec<(String, Group<'a>)>,
}

impl<'a> Lines<'a> {
    fn of(pieces: &[FormatPart], per_node: bool) -> Lines<'a> {
        let fields = pieces.iter().filter_map(|piece| match piece {
            FormatPart::Field(column) => Some(&FIELDS[column.field]),
            FormatPart::Text(_) => None,
        });
        Lines {
            fields: fields.filter(|field| field.parts).collect(),
            per_node,
            lines: Vec::new(),
        }
    }

    fn key(&self, group: &Group<'_>) -> String {
        let mut key = String::new();
        for field in &self.fields {
            key.push_str(&(field.get)(group));
            key.push('\0');
        }
        if self.per_node {
            key.extend(group.nodes.iter().map(|node| node.host.name.as_str()));
        }
        key
    }

    fn add(&mut self, queue: &'a QueueRow, node: &'a Node<'a>) {
        let nodes = vec![node];
        let one = Group { queue, nodes };
        let key = self.key(&one);
        match self.lines.iter_mut().find(|(known, _)| *known == key) {
            None => self.lines.push((key, one)),
            Some((_, group)) => {
                if !group
                    .nodes
                    .iter()
                    .any(|old| old.host.name == node.host.name)
                {
                    group.nodes.push(node);
                }
            }
        }
    }

    /// Adds a line for a queue without hosts, if a field of queues is shown.
    fn add_empty(&mut self, queue: &'a QueueRow) {
        let of_queues = self.fields.iter().any(|field| field.of_queue());
        if of_queues && !self.per_node {
            let nodes = Vec::new();
            self.lines.push((String::new(), Group { queue, nodes }));
        }
    }

    /// The groups sorted by queue, then by state.
    fn groups(self) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = self.lines.into_iter().map(|(_, group)| group).collect();
        let rank = |group: &Group<'_>| {
            let queue = group.queue;
            let state = group.nodes.first().map(|node| node.state);
            (-queue.priority, queue.name.clone(), state)
        };
        groups.sort_by_key(rank);
        groups
    }
}

/// Makes the column of host names as wide as the longest one.
fn widen(pieces: &mut [FormatPart], groups: &[Group<'_>]) {
    let names = groups.iter().flat_map(|group| &group.nodes);
    let longest = names.map(|node| node.host.name.chars().count()).max();
    if let Some(FormatPart::Field(FormatColumn {
        field,
        width: width @ None,
        ..
    })) = pieces.first_mut()
        && FIELDS[*field].letter == 'N'
    {
        *width = Some(longest.unwrap_or(0).max(FIELDS[*field].header.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;
    use crate::client::read::test_view::NOW;

    #[test]
    fn golden_output() {
        let bed = test_cluster::cluster();
        let lines = [
            "",
            "-N",
            "-s -h",
            "-h -p normal -o '%R|%a|%l|%D|%t|%T|%N|%c|%m|%G|%C|%O|%z|%F|%A'",
            "-l -p night",
            "-N -l",
            "-h -t idle,mix -o '%n %t'",
            "-h -d -o '%N %E %u %H'",
            "-n h1,h2 -h",
            "-R",
            "--json -p normal",
        ];
        test_cluster::compare("sinfo", &lines, |words| {
            let m = command_line::parsed(options(), words);
            show(&m, &bed.source("sinfo", 10), (NOW, TimeZone::UTC)).unwrap()
        });
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let bed = test_cluster::cluster();
        let fail = |words: &[&str]| {
            let m = command_line::parsed(options(), words);
            show(&m, &bed.source("sinfo", 10), (NOW, TimeZone::UTC))
                .unwrap_err()
                .text
        };
        assert!(fail(&["-t", "odd"]).contains("Bad state string"));
        assert!(fail(&["-o", "%?"]).contains("%?"));
        assert!(fail(&["-O", "x"]).contains("--Format is not available"));
    }
}
