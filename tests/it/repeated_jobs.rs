//! Jobs that are made of a description, of another job, or of a file of parameters.

use crate::cluster::{Cluster, job_id, text};

/// Submits, and waits until all jobs of the cluster have ended; gives the id.
fn ended(cluster: &Cluster, args: &[&str]) -> u32 {
    let id = cluster.csub(args);
    cluster.wait(|states| {
        let ends = |state: &str| state == "DONE" || state == "EXIT";
        states.keys().any(|(job, _)| *job == id) && states.values().all(|s| ends(s))
    });
    id
}

fn put(cluster: &Cluster, name: &str, text: &str) -> String {
    let path = cluster.work().join(name);
    std::fs::write(&path, text).expect("the directory is ours");
    path.to_str().expect("UTF-8").to_owned()
}

fn read(cluster: &Cluster, name: &str) -> String {
    std::fs::read_to_string(cluster.work().join(name)).unwrap_or_default()
}

#[test]
fn a_description_a_clone_and_a_parameter_file_make_jobs() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1");
    let out = cluster
        .work()
        .join("out")
        .to_str()
        .expect("UTF-8")
        .to_owned();
    let spec = put(
        &cluster,
        "job.json",
        &format!(
            r#"{{"Command": "echo $A $B $LSB_DJOB_NUMPROC >> {out}", "Interactive": false,
               "JobName": "described", "MinNumSlots": 2, "Envs": ["A=from spec"],
               "OutFile": {{"Name": "/dev/null", "Overwrite": true}}}}"#
        ),
    );
    let id = ended(&cluster, &["--spec", &spec, "-env", "B=line"]);
    assert_eq!(read(&cluster, "out"), "from spec line 2\n");
    let long = cluster.ok("cjobs", &["-l", &id.to_string()]);
    assert!(long.contains("described"), "{long}");
    // The same again: its command, options and environment, under an id of its own.
    let same = ended(&cluster, &["--clone", &id.to_string()]);
    assert!(same > id);
    let other = ended(
        &cluster,
        &["--clone", &id.to_string(), "-n", "3", "-J", "more"],
    );
    assert_eq!(
        read(&cluster, "out"),
        "from spec line 2\nfrom spec line 2\nfrom spec line 3\n"
    );
    let fields = |id: u32| cluster.ok("cjobs", &["-noheader", "-o", "job_name", &id.to_string()]);
    assert_eq!(
        (fields(same).trim(), fields(other).trim()),
        ("described", "more")
    );
    // One element for each line, and some of them once more.
    let params = put(&cluster, "p.csv", "lr,opt\n0.1,a\n0.2,\"b, c\"\n0.3,d\n");
    let row =
        format!("echo $LSB_JOBINDEX $CB_PARAM_lr $CB_PARAM_opt > {out}.$LSB_JOBINDEX.$LSB_JOBID");
    let sweep = ended(&cluster, &["--params", &params, "-o", "/dev/null", &row]);
    let of = |n: u32, job: u32| read(&cluster, &format!("out.{n}.{job}"));
    assert_eq!(of(1, sweep), "1 0.1 a\n");
    assert_eq!(of(2, sweep), "2 0.2 b, c\n");
    assert_eq!(of(3, sweep), "3 0.3 d\n");
    let some = ended(&cluster, &["--clone", &format!("{sweep}[2-3]")]);
    assert_eq!(
        (of(1, some), of(3, some)),
        (String::new(), "3 0.3 d\n".to_owned())
    );
}

#[test]
fn what_cannot_be_repeated_or_described_is_refused() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let refused = |args: &[&str], want: &str| {
        let out = cluster.run("csub", args);
        let output = text(&out);
        assert!(
            !out.status.success() && output.contains(want),
            "{args:?}: {output}"
        );
        assert_eq!(job_id(&output), None, "{output}");
    };
    let spec = put(&cluster, "bad.yaml", "Command: x\nQeue: normal\n");
    refused(&["--spec", &spec], "bad.yaml:2:1: no key is named 'Qeue'");
    let spec = put(
        &cluster,
        "size.yaml",
        "{Command: x, MinNumSlots: 2, Options: -n 3}\n",
    );
    refused(&["--spec", &spec], "-n is given twice");
    let spec = put(
        &cluster,
        "pack.yaml",
        "{Command: x, Options: -pack lines}\n",
    );
    refused(
        &["--spec", &spec],
        "options: -pack belongs on the command line",
    );
    refused(&["--clone", "77"], "job 77 is not known");
    refused(&["--clone", "x"], "'x' is not a job ID");
    refused(&["--clone", "1", "-I", "true"], "cannot be given together");
    let params = put(&cluster, "p.csv", "a,b\n1\n");
    refused(&["--params", &params, "true"], "p.csv:2: 1 values");
    let id = ended(&cluster, &["-o", "/dev/null", "true"]);
    let element = format!("{id}[1]");
    refused(&["--clone", &element], "has no elements [1]");
}

#[test]
fn only_failed_elements_run_again() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1");
    let mark = cluster
        .work()
        .join("again")
        .to_str()
        .expect("UTF-8")
        .to_owned();
    let command = format!("echo $LSB_JOBINDEX >> {mark}; test -e {mark}.ok -o $LSB_JOBINDEX -lt 3");
    let id = ended(&cluster, &["-J", "a[1-4]", "-o", "/dev/null", &command]);
    let states = cluster.states();
    assert_eq!((&*states[&(id, 2)], &*states[&(id, 3)]), ("DONE", "EXIT"));
    put(&cluster, "again.ok", "");
    cluster.ok("crequeue", &["-e", &id.to_string()]);
    cluster.wait(|states| states.values().all(|state| state == "DONE"));
    let mut runs: Vec<String> = read(&cluster, "again").lines().map(str::to_owned).collect();
    runs.sort();
    assert_eq!(runs, ["1", "2", "3", "3", "4", "4"]);
}

#[test]
fn a_job_waits_for_a_share_of_an_array() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1");
    let array = cluster.csub(&[
        "-J",
        "a[1-4]",
        "-o",
        "/dev/null",
        "test $LSB_JOBINDEX -lt 4",
    ]);
    let enough = format!("numdone({array}, 75%)");
    let never = format!("numdone({array}, 76%)");
    let enough = cluster.csub(&["-J", "next", "-w", &enough, "-o", "/dev/null", "true"]);
    let parents = cluster.ok("cdeps", &[&enough.to_string()]);
    assert!(
        parents.contains(&format!("\n{enough:<14} {array:<14} ")),
        "{parents}"
    );
    let children = cluster.ok("cdeps", &["-c", &array.to_string()]);
    assert!(
        children.contains("CHILD_STATUS") && children.contains(" next "),
        "{children}"
    );
    let never = cluster.csub(&["-w", &never, "-ti", "-o", "/dev/null", "true"]);
    cluster.wait(|states| {
        let is = |id: u32, want: &str| states.get(&(id, 0)).is_some_and(|state| state == want);
        is(enough, "DONE") && is(never, "EXIT")
    });
}
