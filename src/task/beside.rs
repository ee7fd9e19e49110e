//! What a job starts on its hosts beside itself (`claunch`): from the request to the task. Owns
//! what is believed of the request: nothing that says which job it is.

use super::build::{self, TASK_NAMES, both};
use super::spec::{TaskLimits, TaskSpec};
use super::units;
use crate::model::{JobKey, Spec};
use crate::record::launch::LaunchRequest;

/// Between the signals that end a command which a job started, ms: the job is over, or it itself
/// has ended the command.
const LAUNCH_GRACE_MS: u64 = 1_000;

/// The specification of a command that a job starts: the job's, but for what the request says.
pub fn launch_spec(spec: &Spec, launch: &LaunchRequest) -> Spec {
    let (cwd, umask) = (launch.cwd.clone(), launch.umask);
    let none = String::new;
    Spec {
        cwd,
        umask,
        cwd_create: false,
        stdin: none(),
        stdin_blob: none(),
        stdout: none(),
        stderr: none(),
        session: None,
        ..spec.clone()
    }
}

/// The task of such a command. It has the job's names in its environment, by which it is found.
pub fn launched(launch: &LaunchRequest, spec: &Spec, base: u32) -> TaskSpec {
    let JobKey { id, idx } = launch.a.j;
    let mut env = Vec::new();
    both(&mut env, "JOBID", &id.to_string());
    both(&mut env, "JOBINDEX", &idx.to_string());
    env.push(format!("CB_ATTEMPT={}", launch.a.at));
    env.push(format!("LSF_PM_TASKID={}", launch.task));
    let set: Vec<String> = env
        .iter()
        .filter_map(|e| e.split('=').next().map(str::to_owned))
        .collect();
    let passed = launch.env.iter().filter(|(name, value)| {
        let own = TASK_NAMES.contains(&name.as_str()) || name.starts_with(units::PREFIX);
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
            ..build::limits(&spec.limits)
        },
        grace_ms: LAUNCH_GRACE_MS,
        rerunnable: spec.rerunnable,
        ..TaskSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AttemptId;

    #[test]
    fn it_has_the_names_of_its_own_job_whatever_the_request_says() {
        let env = [("CB_JOBID", "99"), ("LSB_HOSTS", "h1 h2"), ("HOME", "/x")];
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
        let task = launched(&request, &spec, 5);
        for e in [
            "CB_JOBID=7",
            "CB_ATTEMPT=2",
            "LSF_PM_TASKID=3",
            "LSB_HOSTS=h1 h2",
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
        assert!(!task.env.iter().any(|e| e.starts_with("HOME=")));
        assert_eq!(task.argv, ["/bin/sh", "-c", "echo a; echo b"]);
    }
}
