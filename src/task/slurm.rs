//! Slurm's variables in the environment of a job that was submitted by `sbatch`, or whose script
//! has lines for Slurm.
//!
//! Owns their names. The job's command is treated as its only task: the variables of a task are
//! those of the first one.

use super::files::TaskFiles;
use crate::model::{Share, Spec};
use crate::record::order::StartOrder;
use crate::text::hostlist;

/// Maximum length of a list of hosts in bytes: a longer one is omitted, since a variable is limited
/// to 128 KB.
const LIST_MAX: usize = 64 << 10;

/// Names that are removed from the environment that such a job is submitted with.
pub(super) const NAMES: &[&str] = &[
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_USER",
    "SLURM_JOB_UID",
    "SLURM_JOB_ACCOUNT",
    "SLURM_CLUSTER_NAME",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_NODELIST",
    "SLURM_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_CPUS_ON_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_SUBMIT_DIR",
    "SLURM_SUBMIT_HOST",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_MAX",
    "SLURM_ARRAY_TASK_STEP",
    "SLURM_RESTART_COUNT",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURMD_NODENAME",
    "SLURM_TMPDIR",
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_plm_rsh_agent",
];

/// Settings that prevent MPI from starting its processes by `srun`, which does not exist here, when
/// it finds the names above: Open MPI uses its agent, Hydra LSF's names.
const LAUNCHERS: &[(&str, &str)] = &[
    ("OMPI_MCA_plm", "^slurm"),
    ("OMPI_MCA_ras", "^slurm"),
    ("PRTE_MCA_plm", "^slurm"),
    ("PRTE_MCA_ras", "^slurm"),
    ("HYDRA_RMK", "lsf"),
    ("HYDRA_LAUNCHER", "lsf"),
    ("I_MPI_HYDRA_RMK", "lsf"),
    ("I_MPI_HYDRA_BOOTSTRAP", "lsf"),
];

/// Adds the variables that all such jobs of a specification have: settings of MPI that the job has
/// not made itself, and its TMPDIR under Slurm's name.
pub(super) fn put_shared(out: &mut Vec<String>) {
    put_settings(out, LAUNCHERS);
    let mut pairs = out.iter().filter_map(|e| e.split_once('='));
    let dir = pairs.find(|(name, _)| *name == "TMPDIR");
    if let Some((_, dir)) = dir {
        out.push(format!("SLURM_TMPDIR={dir}"));
    }
}

/// Whether a job of Slurm's finds this variable.
pub fn is_set(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Adds settings that the job has not made itself.
pub(super) fn put_settings(out: &mut Vec<String>, settings: &[(&str, &str)]) {
    let has = |out: &[String], name: &str| {
        let mut names = out.iter().filter_map(|e| e.split_once('='));
        names.any(|(known, _)| known == name)
    };
    for (name, setting) in settings {
        if !has(out, name) {
            out.push(format!("{name}={setting}"));
        }
    }
}

/// Adds the hosts and the agent for Open MPI, unless the script sets them.
pub(super) fn put_open_mpi(out: &mut Vec<String>, order: &StartOrder, files: &TaskFiles) {
    if order.hosts.len() > 1 && !files.hosts.is_empty() {
        out.push(format!("OMPI_MCA_orte_default_hostfile={}", files.hosts));
        out.push(format!("OMPI_MCA_plm_rsh_agent={}/blaunch", files.bindir));
    }
}

/// Adds Slurm's variables, if the job is to find them.
pub(super) fn put(
    out: &mut Vec<String>,
    order: &StartOrder,
    spec: &Spec,
    (name, files): (&str, &TaskFiles),
) {
    let Some(slurm) = spec.slurm.as_deref() else {
        return;
    };
    put_open_mpi(out, order, files);
    let mut set = |name: &str, value: &str| out.push(format!("{name}={value}"));
    let id = order.a.j.id.to_string();
    for name in ["SLURM_JOB_ID", "SLURM_JOBID"] {
        set(name, &id);
    }
    set("SLURM_JOB_NAME", name);
    set("SLURM_JOB_USER", &spec.user);
    set("SLURM_JOB_UID", &spec.uid.to_string());
    set("SLURM_JOB_ACCOUNT", &spec.project);
    set("SLURM_JOB_PARTITION", &spec.queue);
    set("SLURM_SUBMIT_DIR", &slurm.submit_dir);
    set("SLURM_SUBMIT_HOST", &spec.sub_host);
    if let Some(array) = slurm.array.filter(|_| order.a.j.idx > 0) {
        set("SLURM_ARRAY_JOB_ID", &id);
        let index = spec.submitters_index(order.a.j.idx);
        set("SLURM_ARRAY_TASK_ID", &index.to_string());
        set("SLURM_ARRAY_TASK_COUNT", &array.count.to_string());
        set("SLURM_ARRAY_TASK_MIN", &array.min.to_string());
        set("SLURM_ARRAY_TASK_MAX", &array.max.to_string());
        set("SLURM_ARRAY_TASK_STEP", &array.step.to_string());
    }
    if order.a.at > 1 {
        set("SLURM_RESTART_COUNT", &(order.a.at - 1).to_string());
    }
    for name in ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"] {
        set(name, "0");
    }
    put_hosts(out, &order.hosts, slurm.tasks, slurm.cpus);
}

fn put_hosts(out: &mut Vec<String>, hosts: &[Share], tasks: u32, cpus: u32) {
    let mut set = |name: &str, value: &str| out.push(format!("{name}={value}"));
    let names: Vec<String> = hosts.iter().map(|Share(host, _)| host.clone()).collect();
    let list = hostlist::fold(&names);
    if list.len() <= LIST_MAX {
        for name in ["SLURM_JOB_NODELIST", "SLURM_NODELIST"] {
            set(name, &list);
        }
    }
    for name in ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"] {
        set(name, &hosts.len().to_string());
    }
    let slots: Vec<u32> = hosts.iter().map(|Share(_, n)| *n).collect();
    let each: Vec<u32> = slots.iter().map(|n| (n / cpus.max(1)).max(1)).collect();
    for (name, numbers) in [
        ("SLURM_JOB_CPUS_PER_NODE", &slots),
        ("SLURM_TASKS_PER_NODE", &each),
    ] {
        let text = repeated(numbers);
        if text.len() <= LIST_MAX {
            set(name, &text);
        }
    }
    if let Some(Share(host, n)) = hosts.first() {
        set("SLURMD_NODENAME", host);
        set("SLURM_CPUS_ON_NODE", &n.to_string());
    }
    if cpus > 0 {
        set("SLURM_CPUS_PER_TASK", &cpus.to_string());
    }
    let tasks = match tasks {
        0 => each.iter().sum(),
        n => n,
    };
    for name in ["SLURM_NTASKS", "SLURM_NPROCS"] {
        set(name, &tasks.to_string());
    }
}

/// Formats numbers as `4(x2),1`: repeated ones with their count.
fn repeated(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a == b);
    let words: Vec<String> = runs
        .map(|run| match run.len() {
            1 => run[0].to_string(),
            n => format!("{}(x{n})", run[0]),
        })
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AttemptId, JobKey, SlurmArray, SlurmJob};

    fn spec() -> Spec {
        let slurm = SlurmJob {
            tasks: 3,
            cpus: 2,
            of_csub: false,
            args: vec!["a b".into()],
            submit_dir: "/from".into(),
            array: Some(SlurmArray {
                min: 0,
                max: 6,
                step: 3,
                count: 3,
                shift: 1,
            }),
        };
        Spec {
            queue: "q".into(),
            slurm: Some(Box::new(slurm)),
            ..Spec::default()
        }
    }

    fn order() -> StartOrder {
        let shares = [("n1", 2), ("n2", 2), ("n3", 2)];
        StartOrder {
            a: AttemptId {
                j: JobKey::element(12, 4),
                at: 2,
            },
            hosts: shares.map(|(host, n)| Share(host.into(), n)).into(),
            ..serde_json::from_value(serde_json::json!({
                "j": JobKey::job(1), "at": 1, "s": 1, "c": "x", "hosts": [], "limits": {},
                "t": 0, "grace_ms": 1
            }))
            .unwrap()
        }
    }

    #[test]
    fn a_job_of_sbatch_finds_slurms_names() {
        let mut out = Vec::new();
        let files = TaskFiles {
            hosts: "/l/hosts".into(),
            bindir: "/bin".into(),
            ..TaskFiles::default()
        };
        put(&mut out, &order(), &spec(), ("sim", &files));
        for e in [
            "SLURM_JOB_ID=12",
            "SLURM_JOB_NAME=sim",
            "SLURM_ARRAY_TASK_ID=3",
            "SLURM_ARRAY_TASK_COUNT=3",
            "SLURM_ARRAY_TASK_MIN=0",
            "SLURM_ARRAY_TASK_MAX=6",
            "SLURM_ARRAY_TASK_STEP=3",
            "SLURM_JOB_NODELIST=n[1-3]",
            "SLURM_NNODES=3",
            "SLURM_JOB_CPUS_PER_NODE=2(x3)",
            "SLURM_TASKS_PER_NODE=1(x3)",
            "SLURM_CPUS_PER_TASK=2",
            "SLURM_NTASKS=3",
            "SLURM_JOB_PARTITION=q",
            "SLURM_SUBMIT_DIR=/from",
            "SLURM_RESTART_COUNT=1",
            "SLURM_PROCID=0",
            "SLURMD_NODENAME=n1",
            "OMPI_MCA_orte_default_hostfile=/l/hosts",
            "OMPI_MCA_plm_rsh_agent=/bin/blaunch",
        ] {
            assert!(out.iter().any(|x| x == e), "{e}: {out:?}");
        }
        let mut names = out.iter().filter_map(|e| e.split_once('='));
        assert!(names.all(|(name, _)| NAMES.contains(&name)), "{out:?}");
        let mut none = Vec::new();
        put(&mut none, &order(), &Spec::default(), ("sim", &files));
        assert_eq!(none, [""; 0]);
    }

    #[test]
    fn mpi_is_kept_from_srun_unless_the_job_says_otherwise() {
        let own = ["OMPI_MCA_plm=rsh", "HYDRA_RMKX=1", "TMPDIR=/scratch"];
        let mut out: Vec<String> = own.map(str::to_owned).into();
        put_shared(&mut out);
        let has = |e: &str| out.iter().any(|x| x == e);
        assert!(has("OMPI_MCA_plm=rsh") && !has("OMPI_MCA_plm=^slurm"));
        assert!(has("OMPI_MCA_ras=^slurm") && has("HYDRA_RMK=lsf"));
        assert!(has("SLURM_TMPDIR=/scratch"));
        assert_eq!(repeated(&[4, 4, 1]), "4(x2),1");
    }
}
