//! The variables of PBS and Torque in the environment of a job whose script has lines for them.
//!
//! Owns their names, except those that only the submission knows (PBS_O_PATH and similar ones).

use super::files::TaskFiles;
use crate::model::{JobKey, Share, Spec};
use crate::record::order::StartOrder;

/// Names that are removed from the environment that such a job is submitted with.
pub(super) const NAMES: &[&str] = &[
    "PBS_JOBID",
    "PBS_JOBNAME",
    "PBS_QUEUE",
    "PBS_ENVIRONMENT",
    "PBS_NODEFILE",
    "PBS_NP",
    "PBS_NUM_PPN",
    "PBS_NUM_NODES",
    "PBS_NODENUM",
    "PBS_VNODENUM",
    "PBS_TASKNUM",
    "PBS_JOBDIR",
    "PBS_ARRAY_INDEX",
    "PBS_ARRAYID",
    "PBS_ARRAY_ID",
    "PBS_O_QUEUE",
    "PBS_O_HOST",
    "PBS_SERVER",
];

/// Names that such a job finds whose values come from the submission.
const OF_SUBMISSION: &[&str] = &[
    "PBS_O_WORKDIR",
    "PBS_O_INITDIR",
    "PBS_O_HOME",
    "PBS_O_LOGNAME",
    "PBS_O_PATH",
    "PBS_O_SHELL",
    "PBS_O_LANG",
    "PBS_O_MAIL",
    "PBS_O_TZ",
    "PBS_O_SYSTEM",
];

/// Settings that keep Open MPI from asking PBS, which does not exist here, and lead Hydra to LSF's
/// names.
const LAUNCHERS: &[(&str, &str)] = &[
    ("OMPI_MCA_plm", "^tm"),
    ("OMPI_MCA_ras", "^tm"),
    ("PRTE_MCA_plm", "^tm"),
    ("PRTE_MCA_ras", "^tm"),
    ("HYDRA_RMK", "lsf"),
    ("HYDRA_LAUNCHER", "lsf"),
    ("I_MPI_HYDRA_RMK", "lsf"),
    ("I_MPI_HYDRA_BOOTSTRAP", "lsf"),
];

/// Whether a job with lines for PBS finds this variable.
pub fn is_set(name: &str) -> bool {
    NAMES.contains(&name) || OF_SUBMISSION.contains(&name)
}

/// Adds the settings of MPI that the job has not made itself.
pub(super) fn put_shared(out: &mut Vec<String>) {
    super::slurm::put_settings(out, LAUNCHERS);
}

/// Adds the variables, if the job's script has lines for PBS.
pub(super) fn put(
    out: &mut Vec<String>,
    order: &StartOrder,
    spec: &Spec,
    (name, files): (&str, &TaskFiles),
) {
    let Some(pbs) = spec.pbs.as_deref() else {
        return;
    };
    super::slurm::put_open_mpi(out, order, files);
    let mut set = |name: &str, value: &str| out.push(format!("{name}={value}"));
    let JobKey { id, idx } = order.a.j;
    match idx {
        0 => set("PBS_JOBID", &id.to_string()),
        idx => {
            set("PBS_JOBID", &format!("{id}[{idx}]"));
            set("PBS_ARRAY_ID", &format!("{id}[]"));
            for name in ["PBS_ARRAY_INDEX", "PBS_ARRAYID"] {
                set(name, &idx.to_string());
            }
        }
    }
    set("PBS_JOBNAME", name);
    for name in ["PBS_QUEUE", "PBS_O_QUEUE"] {
        set(name, &spec.queue);
    }
    for name in ["PBS_O_HOST", "PBS_SERVER"] {
        set(name, &spec.sub_host);
    }
    let environment = match spec.session {
        Some(_) => "PBS_INTERACTIVE",
        None => "PBS_BATCH",
    };
    set("PBS_ENVIRONMENT", environment);
    set("PBS_JOBDIR", &spec.cwd);
    if !files.hosts.is_empty() {
        set("PBS_NODEFILE", &files.hosts);
    }
    let lines = order.hosts.iter().map(|Share(_, n)| pbs.lines_of(*n));
    set("PBS_NP", &lines.sum::<u32>().to_string());
    set("PBS_NUM_NODES", &order.hosts.len().to_string());
    let first = order.hosts.first().map_or(1, |Share(_, n)| *n);
    set("PBS_NUM_PPN", &first.to_string());
    set("PBS_TASKNUM", "1");
    for name in ["PBS_NODENUM", "PBS_VNODENUM"] {
        set(name, "0");
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::{has_hosts_file, hosts_text};
    use super::*;
    use crate::model::{AttemptId, PbsJob};

    fn order(key: JobKey) -> StartOrder {
        let shares = [("n1", 4), ("n2", 4)];
        StartOrder {
            a: AttemptId { j: key, at: 1 },
            hosts: shares.map(|(host, n)| Share(host.into(), n)).into(),
            ..serde_json::from_value(serde_json::json!({
                "j": JobKey::job(1), "at": 1, "s": 1, "c": "x", "hosts": [], "limits": {},
                "t": 0, "grace_ms": 1
            }))
            .unwrap()
        }
    }

    fn spec(cpus: u32, ranks: u32) -> Spec {
        Spec {
            queue: "q".into(),
            sub_host: "login".into(),
            cwd: "/w".into(),
            pbs: Some(Box::new(PbsJob { cpus, ranks })),
            ..Spec::default()
        }
    }

    #[test]
    fn a_job_with_lines_for_pbs_finds_its_names() {
        let files = TaskFiles {
            hosts: "/l/hosts".into(),
            bindir: "/bin".into(),
            ..TaskFiles::default()
        };
        let mut out = Vec::new();
        let element = order(JobKey::element(12, 3));
        put(&mut out, &element, &spec(4, 2), ("sim", &files));
        for e in [
            "PBS_JOBID=12[3]",
            "PBS_ARRAY_ID=12[]",
            "PBS_ARRAY_INDEX=3",
            "PBS_ARRAYID=3",
            "PBS_JOBNAME=sim",
            "PBS_QUEUE=q",
            "PBS_O_HOST=login",
            "PBS_ENVIRONMENT=PBS_BATCH",
            "PBS_NODEFILE=/l/hosts",
            "PBS_NP=4",
            "PBS_NUM_PPN=4",
            "PBS_NUM_NODES=2",
            "OMPI_MCA_plm_rsh_agent=/bin/blaunch",
        ] {
            assert!(out.iter().any(|x| x == e), "{e}: {out:?}");
        }
        let mut names = out.iter().filter_map(|e| e.split_once('='));
        assert!(names.all(|(name, _)| is_set(name) || !name.starts_with("PBS_")));
        let mut out = Vec::new();
        put(
            &mut out,
            &order(JobKey::job(12)),
            &spec(0, 0),
            ("sim", &files),
        );
        assert!(out.iter().any(|e| e == "PBS_JOBID=12") && out.iter().any(|e| e == "PBS_NP=8"));
        assert!(!out.iter().any(|e| e.starts_with("PBS_ARRAY")), "{out:?}");
        let mut none = Vec::new();
        put(&mut none, &element, &Spec::default(), ("sim", &files));
        assert_eq!(none, [""; 0]);
    }

    #[test]
    fn the_list_of_hosts_has_a_line_for_each_rank() {
        let hosts = order(JobKey::job(1)).hosts;
        assert_eq!(hosts_text(&hosts, &spec(4, 1)), "n1\nn2\n");
        assert_eq!(hosts_text(&hosts, &spec(2, 2)).lines().count(), 8);
        assert_eq!(hosts_text(&hosts, &spec(0, 0)).lines().count(), 8);
        let one = [Share("n1".into(), 1)];
        assert!(has_hosts_file(&one, &spec(0, 0)) && !has_hosts_file(&one, &Spec::default()));
    }
}
