//! Blocks of `KEY=VALUE` in the form of `scontrol show`: jobs, nodes, partitions.
//!
//! Owns the keys: those of Slurm that have a meaning in Corral.

use super::fields::{Ctx, FIELDS as JOB_FIELDS, by_letter as job_letter};
use super::jobs::SlurmItem;
use super::sinfo_nodes::{FIELDS as NODE_FIELDS, Group, Node, NodeState, by_letter as node_letter};
use super::states::exit_codes;
use crate::record::view::QueueRow;
use crate::text::slurm::long_clock;

/// The lines of a block; each line has several `KEY=VALUE`.
pub(crate) type Block = Vec<String>;

/// Blocks as text: one line each with `-o`, else several, indented after the first.
pub(crate) fn text(blocks: &[Block], one_line: bool) -> String {
    let mut out = String::new();
    for block in blocks {
        let between = if one_line { " " } else { "\n   " };
        for (n, line) in block.iter().enumerate() {
            if n > 0 {
                out.push_str(between);
            }
            out.push_str(&crate::text::width::escape(line));
        }
        out.push_str(if one_line { "\n" } else { "\n\n" });
    }
    out
}

fn job_value(item: &SlurmItem, ctx: &Ctx, letter: char) -> String {
    job_letter(letter).map_or(String::new(), |n| (JOB_FIELDS[n].get)(item, ctx))
}

/// The block of a job.
pub(crate) fn job(item: &SlurmItem, ctx: &Ctx) -> Block {
    let value = |letter| job_value(item, ctx, letter);
    let or = |text: String, none: &str| match text.is_empty() {
        true => none.to_owned(),
        false => text,
    };
    let (row, spec) = (&item.row, &item.spec);
    let array = item.index().map_or(String::new(), |index| {
        let index = index.trim_matches(['[', ']']).to_owned();
        format!(" ArrayJobId={} ArrayTaskId={index}", item.id())
    });
    let (code, _) = exit_codes(item.state(), row.code, row.sig);
    let cpus = spec.slurm.as_ref().map_or(1, |slurm| slurm.cpus.max(1));
    let time_limit = spec.limits.run_s;
    let file = |name: &str| {
        let found = JOB_FIELDS.iter().find(|field| field.name == name);
        found.map_or(String::new(), |field| (field.get)(item, ctx))
    };
    let output = or(file("StdOut"), "(null)");
    vec![
        format!("JobId={}{array} JobName={}", item.id(), item.name),
        format!(
            "UserId={}({}) GroupId={} Priority={} Nice=0 Account={} QOS=(null)",
            spec.user,
            spec.uid,
            value('g'),
            spec.priority,
            value('a')
        ),
        format!(
            "JobState={} Reason={} Dependency={}",
            item.state().word(),
            item.reason(),
            value('E')
        ),
        format!(
            "Requeue={} Restarts={} BatchFlag=1 ExitCode={code}",
            u8::from(spec.rerunnable),
            row.attempt.saturating_sub(1)
        ),
        format!(
            "RunTime={} TimeLimit={}",
            long_clock(item.run_s(ctx.now)),
            time_limit.map_or_else(|| "UNLIMITED".to_owned(), long_clock)
        ),
        format!(
            "SubmitTime={} StartTime={} EndTime={}",
            value('V'),
            value('S').replace("N/A", "Unknown"),
            value('e').replace("N/A", "Unknown")
        ),
        format!("Partition={} AllocNode:Sid={}:0", spec.queue, spec.sub_host),
        format!("NodeList={}", or(item.node_list(), "(null)")),
        format!("BatchHost={}", value('B')),
        format!(
            "NumNodes={} NumCPUs={} NumTasks={} CPUs/Task={cpus}",
            item.nodes(),
            item.slots(),
            (item.slots() / cpus).max(1)
        ),
        format!("MinMemoryNode={}", value('m')),
        format!("Command={}", item.command),
        format!("WorkDir={}", spec.cwd),
        format!("Comment={}", value('k')),
        // Error output goes to the output file if it has none of its own.
        format!("StdErr={}", or(file("StdErr"), &output)),
        format!("StdIn={}", or(file("StdIn"), "/dev/null")),
        format!("StdOut={output}"),
    ]
}

fn node_value(group: &Group<'_>, letter: char) -> String {
    node_letter(letter).map_or(String::new(), |n| (NODE_FIELDS[n].get)(group))
}

/// The block of a node. `queues`: the queues that it serves.
pub(crate) fn node(node: &Node<'_>, queues: &[&QueueRow]) -> Block {
    let nothing = QueueRow::default();
    let group = Group {
        queue: queues.first().copied().unwrap_or(&nothing),
        nodes: vec![node],
    };
    let value = |letter| node_value(&group, letter);
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    let used = u64::from(node.host.njobs).min(u64::from(node.host.slots));
    let mut block = vec![
        format!(
            "NodeName={} Arch={} CoresPerSocket={}",
            node.host.name, node.host.host_type, node.host.slots
        ),
        format!(
            "CPUAlloc={used} CPUTot={} CPULoad={}",
            node.host.slots,
            value('O')
        ),
        format!("AvailableFeatures={}", value('f')),
        format!("ActiveFeatures={}", value('f')),
        format!("Gres={}", value('G')),
        format!(
            "NodeAddr={} NodeHostName={} Version={}",
            node.host.name, node.host.name, node.host.load.version
        ),
        format!(
            "RealMemory={} FreeMem={} Sockets=1 Boards=1",
            value('m'),
            value('e')
        ),
        format!(
            "State={} ThreadsPerCore=1 TmpDisk={} Weight=1",
            state(node),
            value('d')
        ),
        format!("Partitions={}", names.join(",")),
    ];
    let reason = value('E');
    if reason != "none" {
        block.push(format!("Reason={reason}"));
    }
    block
}

/// The state in capitals; for a closed node together with its use.
fn state(node: &Node<'_>) -> String {
    let busy = match node.host.njobs {
        0 => "IDLE",
        n if n >= node.host.slots => "ALLOCATED",
        _ => "MIXED",
    };
    match node.state {
        NodeState::Drained | NodeState::Draining => format!("{busy}+DRAIN"),
        other => other.state_words().0.to_ascii_uppercase(),
    }
}

/// The block of a partition.
pub(crate) fn partition(queue: &QueueRow, nodes: Vec<&Node<'_>>) -> Block {
    let group = Group { queue, nodes };
    let value = |letter| node_value(&group, letter);
    let slots: u64 = group.nodes.iter().map(|n| u64::from(n.host.slots)).sum();
    let default = if queue.default { "YES" } else { "NO" };
    let time = |text: String, none: &str| match text.as_str() {
        "infinite" | "n/a" => none.to_owned(),
        _ => text,
    };
    vec![
        format!("PartitionName={}", queue.name),
        "AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL".to_owned(),
        format!("AllowGroups={} Default={default} Hidden=NO", queue.users),
        format!(
            "MaxTime={} DefaultTime={}",
            time(value('l'), "UNLIMITED"),
            time(value('L'), "NONE")
        ),
        format!("Nodes={}", value('N')),
        format!("PriorityTier={} RootOnly=NO", queue.priority),
        format!(
            "State={} TotalCPUs={slots} TotalNodes={}",
            value('a').to_ascii_uppercase(),
            group.nodes.len()
        ),
    ]
}
