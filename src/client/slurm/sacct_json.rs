//! A job in the form of `sacct --json`.

use super::jobs::fold;
use super::json::{exit_code, limit, number};
use super::sacct_fields::AcctJob;
use super::states::exit_codes;
use serde_json::{Value, json};

/// Slurm's ids of trackable resources.
const CPU: u32 = 1;
const MEM: u32 = 2;
const NODE: u32 = 4;

fn tres(kind: &str, id: u32, count: u64) -> Value {
    json!({"type": kind, "name": "", "id": id, "count": count})
}

fn seconds(ms: u64) -> Value {
    json!({"seconds": ms / 1000, "microseconds": ms % 1000 * 1000})
}

/// A time in seconds; 0: not yet.
fn moment(ms: i64) -> i64 {
    ms / 1000
}

/// One entry of the list, including its batch step if `steps` is set.
pub(super) fn job(job: &AcctJob, steps: bool, cluster: &str) -> Value {
    let (of_job, _) = exit_codes(job.end.state, job.end.code, job.end.sig);
    let nodes: Vec<String> = job.hosts.iter().map(|(name, _)| name.clone()).collect();
    let slots: u64 = job.hosts.iter().map(|(_, n)| u64::from(*n)).sum();
    let mem_mb = job.requested.mem_b.map(|b| b.div_ceil(1 << 20));
    let mut allocated = Vec::new();
    if slots > 0 {
        allocated.push(tres("cpu", CPU, slots));
        allocated.extend(mem_mb.map(|mb| tres("mem", MEM, mb)));
        allocated.push(tres("node", NODE, nodes.len() as u64));
    }
    let mut requested = vec![tres("cpu", CPU, u64::from(job.requested.slots))];
    requested.extend(mem_mb.map(|mb| tres("mem", MEM, mb)));
    let task = job.id.split_once('_').map(|(_, task)| task);
    let task_id = task.and_then(|task| task.parse().ok());
    json!({
        "job_id": job.key.id,
        "name": job.name,
        "user": job.submitter.user,
        "account": job.submitter.project,
        "association": {
            "account": job.submitter.project,
            "cluster": cluster,
            "partition": "",
            "user": job.submitter.user,
        },
        "cluster": cluster,
        "partition": job.queue,
        "array": {
            "job_id": if task.is_some() { job.key.id } else { 0 },
            "task_id": number(task_id),
            "task": if task_id.is_none() { task.unwrap_or_default() } else { "" },
        },
        "state": {"current": [job.end.state.word()], "reason": "None"},
        "exit_code": exit_code(&of_job),
        // There are no other steps from which the code could come.
        "derived_exit_code": exit_code("0:0"),
        "nodes": if nodes.is_empty() { "None assigned".to_owned() } else { fold(&nodes) },
        "allocation_nodes": nodes.len(),
        "required": {"CPUs": job.requested.slots, "memory_per_node": number(mem_mb)},
        "restart_cnt": job.attempt.saturating_sub(1),
        "time": {
            "submission": moment(job.times.submit),
            "eligible": moment(job.times.submit),
            "start": moment(job.times.start),
            "end": moment(job.times.end),
            "elapsed": job.times.run_ms / 1000,
            "suspended": job.times.suspended_ms / 1000,
            "limit": limit(job.requested.run_s.map(|s| s.div_ceil(60))),
            "total": seconds(job.usage.cpu_ms),
        },
        "tres": {"allocated": allocated, "requested": requested},
        "working_directory": job.cwd,
        "steps": if steps && job.has_step() { vec![step(job)] } else { Vec::new() },
    })
}

/// The batch step: the command of the job on its first host.
fn step(job: &AcctJob) -> Value {
    let (_, of_step) = exit_codes(job.end.state, job.end.code, job.end.sig);
    let first = job.hosts.first();
    let (host, slots) = first.map_or((String::new(), 0), |(name, n)| (name.clone(), *n));
    let most = match job.usage.maxmem_kb {
        0 => Vec::new(),
        kb => vec![json!({
            "type": "mem", "name": "", "id": MEM, "count": kb * 1024, "node": host,
        })],
    };
    json!({
        "step": {"id": format!("{}.batch", job.id), "name": "batch"},
        "state": [job.end.state.of_step().word()],
        "exit_code": exit_code(&of_step),
        "nodes": {"count": 1, "range": host, "list": [host]},
        "tasks": {"count": 1},
        "time": {
            "start": number(u64::try_from(moment(job.times.start)).ok()),
            "end": number(u64::try_from(moment(job.times.end)).ok().filter(|t| *t > 0)),
            "elapsed": job.times.run_ms / 1000,
            "suspended": job.times.suspended_ms / 1000,
            "total": seconds(job.usage.cpu_ms),
        },
        "tres": {
            "allocated": [tres("cpu", CPU, u64::from(slots)), tres("node", NODE, 1)],
            "requested": {"max": most},
        },
    })
}
