//! Commands that a job starts on its hosts by `claunch`: from the request to the task. Owns which
//! parts of the request are trusted: never its statements about the job to which it belongs.

use super::build::both;
use super::cpu_binding::SLOTS_FILE;
use super::spec::{TaskLimits, TaskSpec};
use super::units;
use super::variables::{HOST_FILES, TASK_NAMES};
use crate::model::{JobKey, Spec};
use crate::record::launch::LaunchRequest;
use crate::record::order::TaskUnits;

/// Time between the signals that end a command that a job started, ms: because the job is over, or
/// because it ended the command itself.
const LAUNCH_GRACE_MS: u64 = 1_000;
/// Maximum size of a list of hosts in bytes.
const HOSTS_MAX: usize = 4 << 20;
/// Prefix of the directories for temporary files that a job's first host made for it.
const OWN_TMP: &str = "/tmp/corral.";
/// The variables of the job that apply only to its first host.
const OF_ITS_HOST: &[&str] = &[
    "CB_BIND_CPUS",
    "LSB_BIND_CPU_LIST",
    SLOTS_FILE,
    "CB_WARNING_FILE",
    "LSB_JOBFILENAME",
    "LS_JOBPID",
];

/// The specification of a command that a job starts: the job's, changed as requested.
pub fn launch_spec(spec: &Spec, launch: &LaunchRequest) -> Spec {
    let (cwd, umask) = (launch.cwd.clone(), launch.umask);
    let none = String::new;
    Spec {
        cwd,
        umask,
        cwd_create: false,
        stdin: none(),
        stdin_blob: none(),
        params: none(),
        stdout: none(),
        stderr: none(),
        session: None,
        ..spec.clone()
    }
}

/// The task of such a command. Its environment contains the job's variables, by which it is found,
/// and what belongs to the job on this host. `hosts_file`: the list of the job's hosts.
pub fn launched(
    launch: &LaunchRequest,
    (limits, units): (&TaskLimits, &TaskUnits),
    base: u32,
    hosts_file: &str,
) -> TaskSpec {
    let JobKey { id, idx } = launch.a.j;
    let mut env = Vec::new();
    both(&mut env, "JOBID", &id.to_string());
    both(&mut env, "JOBINDEX", &idx.to_string());
    env.push(format!("CB_ATTEMPT={}", launch.a.at));
    env.push(format!("LSF_PM_TASKID={}", launch.task));
    env.extend(HOST_FILES.map(|name| format!("{name}={hosts_file}")));
    units::put(&mut env, units);
    let set = names(&env);
    let passed = launch.env.iter().filter(|(name, value)| {
        let own = TASK_NAMES.contains(&name.as_str()) && !OF_ITS_HOST.contains(&name.as_str());
        own && !set.contains(name) && !value.contains('\0')
    });
    env.extend(passed.map(|(name, value)| format!("{name}={value}")));
    TaskSpec {
        a: launch.a,
        base,
        argv: ["/bin/sh", "-c", &launch.command].map(str::to_owned).into(),
        env,
        limits: TaskLimits {
            run_ms: None,
            deadline: None,
            warn: None,
            cpus: None,
            ..limits.clone()
        },
        grace_ms: LAUNCH_GRACE_MS,
        ..TaskSpec::default()
    }
}

fn names(env: &[String]) -> Vec<String> {
    let names = env.iter().filter_map(|e| e.split_once('='));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// The variables around `claunch` that are also valid on the other host. `task`: variables that are
/// set there.
pub fn shared_env(launch: &LaunchRequest, task: &[String]) -> Vec<(String, String)> {
    let set = names(task);
    let has_units = launch.env.contains_key("CB_ASSIGN_GPU");
    let holds = |name: &str, value: &str| {
        let tmp = name == "TMPDIR" && value.starts_with(OWN_TMP);
        let devices = has_units && units::DEVICES.contains(&name);
        !tmp && !devices && !set.iter().any(|n| n == name)
    };
    let all = launch.env.iter().filter(|(name, value)| holds(name, value));
    all.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The job's hosts as listed in the environment around `claunch`: a line for each slot.
pub fn hosts_text(launch: &LaunchRequest) -> String {
    let list = launch.env.get("LSB_MCPU_HOSTS").map_or("", String::as_str);
    let words: Vec<&str> = list.split_whitespace().collect();
    let mut text = String::new();
    for pair in words.chunks_exact(2) {
        let slots = pair[1].parse().unwrap_or(0);
        for _ in 0..slots {
            if text.len() > HOSTS_MAX {
                return text;
            }
            text.push_str(pair[0]);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AttemptId;

    #[test]
    fn it_has_the_names_of_its_own_job_whatever_the_request_says() {
        let env = [
            ("CB_JOBID", "99"),
            ("LSB_HOSTS", "h1 h2"),
            ("LSB_MCPU_HOSTS", "h1 2 h2 1"),
            ("HOME", "/x"),
            ("TMPDIR", "/tmp/corral.t.1"),
            ("CB_BIND_CPUS", "0-1"),
            ("CB_ASSIGN_GPU", "GPU-1"),
            ("CUDA_VISIBLE_DEVICES", "GPU-1"),
            ("ROCR_VISIBLE_DEVICES", "GPU-1"),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = LaunchRequest {
            a: AttemptId {
                j: JobKey::job(7),
                at: 2,
            },
            command: "echo a; echo b".into(),
            task: 3,
            env: env.into(),
            ..LaunchRequest::default()
        };
        let spec = Spec {
            stdout: "o".into(),
            ..Spec::default()
        };
        assert_eq!(launch_spec(&spec, &request).stdout, "");
        let gpu = crate::model::Units {
            host: "h2".into(),
            res: "gpu".into(),
            names: vec!["GPU-2".into()].into(),
            ..crate::model::Units::default()
        };
        let units = TaskUnits {
            list: vec![gpu],
            ..TaskUnits::default()
        };
        let limits = TaskLimits {
            mem_b: Some(7),
            run_ms: Some(9),
            ..TaskLimits::default()
        };
        let task = launched(&request, (&limits, &units), 5, "/l/hosts");
        assert_eq!((task.limits.mem_b, task.limits.run_ms), (Some(7), None));
        for e in [
            "CB_JOBID=7",
            "CB_ATTEMPT=2",
            "LSF_PM_TASKID=3",
            "LSB_HOSTS=h1 h2",
            "CB_HOSTFILE=/l/hosts",
            "LSB_DJOB_RANKFILE=/l/hosts",
            "CB_ASSIGN_GPU=GPU-2",
            "CUDA_VISIBLE_DEVICES=GPU-2",
        ] {
            assert!(task.env.iter().any(|x| x == e), "{e}: {:?}", task.env);
        }
        assert_eq!(
            task.env
                .iter()
                .filter(|e| e.starts_with("CB_JOBID="))
                .count(),
            1
        );
        let of_first = |e: &&String| e.starts_with("HOME=") || e.starts_with("CB_BIND_CPUS=");
        assert_eq!(task.env.iter().find(of_first), None);
        let shared = shared_env(&request, &task.env[..0]);
        let shared: Vec<&str> = shared.iter().map(|(name, _)| name.as_str()).collect();
        // Variables that identify the job are replaced later.
        assert!(
            shared.contains(&"HOME") && shared.contains(&"LSB_HOSTS"),
            "{shared:?}"
        );
        assert!(!shared.contains(&"TMPDIR") && !shared.contains(&"ROCR_VISIBLE_DEVICES"));
        assert_eq!(hosts_text(&request), "h1\nh1\nh2\n");
        assert_eq!(task.argv, ["/bin/sh", "-c", "echo a; echo b"]);
    }
}
