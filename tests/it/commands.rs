//! The commands that act, against a real cluster: what they print where, and how they end.

use crate::cluster::Cluster;
use crate::patience::until_or;
use std::io::Write as _;
use std::process::{Output, Stdio};

/// A command line, its exit code, and what its output and error output must hold.
type Step = (&'static str, i32, &'static str, &'static str);

fn run(cluster: &Cluster, line: &str) -> Output {
    let words = corral::text::command::split_words(line).unwrap();
    let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    cluster.run(&words[0], &args)
}

fn play(cluster: &Cluster, steps: &[Step]) {
    for (line, code, out, err) in steps {
        let got = run(cluster, line);
        let (stdout, stderr) = (
            String::from_utf8_lossy(&got.stdout),
            String::from_utf8_lossy(&got.stderr),
        );
        let output = format!("{line}\nstdout: {stdout}\nstderr: {stderr}");
        assert_eq!(got.status.code(), Some(*code), "{output}");
        assert!(stdout.contains(out), "{output}");
        assert!(stderr.contains(err), "{output}");
        if out.is_empty() && *code != 0 {
            assert_eq!(stdout, "", "{output}");
        }
    }
}

/// Runs a command with a text on its standard input.
fn feed(cluster: &Cluster, name: &str, args: &[&str], text: &str) -> Output {
    let mut child = cluster
        .command(name)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn commands_say_what_they_did_and_end_with_the_right_code() {
    let cluster = Cluster::up("--hosts 2 --slots 4 --masters 1");
    // Ids are given from 1 in the order of acceptance; a refused job takes none.
    play(
        &cluster,
        &[
            (
                "csub -H -J one sleep 300",
                0,
                "Job <1> is submitted to default queue <normal>.\n",
                "",
            ),
            ("csub -q nope x", 1, "", "Job not submitted"),
            ("csub -w 'done(99)' x", 2, "", "99"),
            ("csub -R 'select[foo>1]' x", 2, "", "foo"),
            (
                "csub -H -q normal -J 'arr[1-5]%2' sleep 300",
                0,
                "Job <2> is submitted to queue <normal>.",
                "",
            ),
            ("csub -key once -H x", 0, "Job <3>", ""),
            ("csub -key once -H x", 0, "Job <3>", "no new job"),
            ("cresume 1", 0, "Job <1> is being resumed", ""),
            ("cstop 2", 0, "Job <2> is being stopped", ""),
            (
                "cmod -W 10 -Jd text 2",
                0,
                "Parameters of job <2> are being changed",
                "",
            ),
            (
                "cmod -Wn 2",
                0,
                "Parameters of job <2> are being changed",
                "",
            ),
            ("cswitch nope 2", 1, "", "nope"),
            (
                "ckill 3 99",
                1,
                "Job <3> is being terminated",
                "Job <99>: No matching job found",
            ),
            ("ckill 3", 1, "", "Job <3>: Job has already finished"),
            ("ckill -J 'nobody*' 0", 1, "", "No matching job found"),
            ("ckill -s USR9 1", 2, "", "not a signal"),
            ("ckill 1x", 2, "", "1x"),
            ("cpeek 2", 2, "", "is an array"),
            ("cpeek 99", 1, "", "not found"),
            ("cwait -timeout 0 'ended(2)'", 4, "", "not within"),
            ("cwait 99", 1, "", "not found"),
            ("cadmin qclose -C why", 0, "Queue <normal> is closed", ""),
            ("csub x", 4, "", "closed"),
            ("cadmin qopen all", 0, "Queue <normal> is opened", ""),
            ("cadmin hclose h2", 0, "Host <h2> is closed", ""),
            ("cadmin hopen all", 0, "Host <h2> is opened", ""),
            ("cadmin hopen nope", 1, "", "No such host"),
            ("cadmin ckconfig", 0, "No errors found", ""),
            ("cadmin reconfig", 0, "new configuration is in force", ""),
            ("cadmin showconf", 0, "LSF_UNIT_FOR_LIMITS = MB", ""),
            ("cadmin hrestart h1", 0, "Host <h1>: cbexe is started", ""),
            ("ckill 0", 0, "Job <2> is being terminated", ""),
        ],
    );
}

#[test]
fn a_waiting_csub_gives_the_code_of_its_job() {
    let cluster = Cluster::up("--hosts 2 --slots 4 --masters 1");
    let work = cluster.work();
    std::fs::write(
        work.join("job.sh"),
        "#!/bin/sh\n#BSUB -J from_file -oo out.%J\n#CSUB -n 2 -R span[hosts=1]\nread line\n\
         echo \"$LSB_JOBNAME $X $line\"\nexit 7\n",
    )
    .unwrap();
    std::fs::write(work.join("in"), "input").unwrap();
    play(
        &cluster,
        &[
            ("csub -K true", 0, "Job <1>", "<<Job is finished>>"),
            ("csub -K 'kill -9 $$'", 137, "Job <2>", ""),
            (
                "csub -K -is in -env X=5 job.sh",
                7,
                "Job <3>",
                "<<Starting on",
            ),
            ("csub -K -J 'a[1-3]' 'exit $LSB_JOBINDEX'", 3, "Job <4>", ""),
            (
                "csub -K -oo /nonexistent/dir/x true",
                5,
                "Job <5>",
                "/nonexistent",
            ),
            ("cwait 1", 0, "", ""),
            ("cwait 1 3", 1, "", "Job <3> ended as EXIT (exit code 7)"),
            ("cwait 'exit(3,==7) && done(from*)'", 1, "", "can no longer"),
            ("cwait 'exit(3,==7) && ended(from*)'", 0, "", ""),
            ("cpeek 3", 0, "from_file 5 input", ""),
            ("crequeue -e 3", 0, "Job <3> is being requeued", ""),
        ],
    );
}

#[test]
fn a_pack_lists_what_it_took_and_what_it_refused() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1");
    let text = "# a pack\ntrue\n-q nope true\n-n x true\n-J last true\n";
    let out = feed(&cluster, "csub", &["-pack", "-"], text);
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "Line#2 Job <1> is submitted to default queue <normal>.\n\
         Line#5 Job <2> is submitted to default queue <normal>.\n"
    );
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(
        err.contains("Line#3: there is no queue") && err.contains("Line#4: -n:"),
        "{err}"
    );
    assert_eq!(out.status.code(), Some(2));
    let many = "true\n".repeat(50);
    let out = feed(&cluster, "csub", &["-pack", "-"], &many);
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "Line#1-50 Jobs <3-52> are submitted to default queue <normal>.\n"
    );
    cluster.wait(|states| states.len() == 52 && states.values().all(|s| s == "DONE"));
    let out = feed(&cluster, "csub", &["-K"], "#CSUB -J stdin\nexit 4\n");
    assert_eq!(out.status.code(), Some(4));
    let out = feed(&cluster, "cadmin", &[], "qclose\nnonsense\nqopen\nquit\n");
    assert_eq!(out.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&out.stdout).contains("Queue <normal> is opened"));
}

/// A job that writes to a file with content has its output beside it until it ends.
#[test]
fn cpeek_shows_the_output_of_one_job_without_its_report() {
    let cluster = &Cluster::up("--hosts 1 --slots 4 --masters 1 --cgroup off");
    let path = |name: &str| cluster.dir().join(name).display().to_string();
    let (shared, own, go) = (path("shared"), path("own"), path("go"));
    std::fs::write(&shared, "of others\n").unwrap();
    let script = format!("echo first; while ! test -e {go}; do sleep 0.05; done; echo last");
    for out in [&shared, &own] {
        cluster.csub(&[
            "-o",
            out,
            "-J",
            "peek",
            "/bin/sh",
            "-c",
            &format!("\"{script}\""),
        ]);
    }
    cluster.csub(&["-o", &path("silent"), "sleep 1000"]);
    let output = |id: u32| {
        let out = cluster.run("cpeek", &[&id.to_string()]);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(out.stdout), text(out.stderr))
    };
    let until = |id: u32, want: &str| {
        let want = format!("<< output from stdout >>\n{want}");
        until_or(|| output(id).0 == want, || format!("{:?}", output(id)));
    };
    let nothing = || output(3).1.contains("Job <3> has written no output yet.");
    until_or(nothing, || format!("{:?}", output(3)));
    for id in 1..=2 {
        until(id, "first\n");
    }
    std::fs::write(&go, "").unwrap();
    cluster.ok("cwait", &["-w", "ended(peek)"]);
    for id in 1..=2 {
        until(id, "first\nlast\n");
    }
    let shared = std::fs::read_to_string(&shared).unwrap();
    assert!(shared.starts_with("of others\n") && shared.contains("Job 1: <peek>"));
}

/// What Prometheus gets is what the commands show.
#[test]
fn the_figures_of_metrics_are_those_of_the_commands() {
    let cluster = &Cluster::up("--hosts 2 --slots 2 --masters 1 --cgroup off");
    cluster.csub(&["-J", "a[1-7]", "-P", "p", "-o", "/dev/null", "sleep 1000"]);
    let all_run = |states: &std::collections::BTreeMap<(u32, u32), String>| {
        states.values().filter(|s| *s == "RUN").count() == 4
    };
    cluster.wait(all_run);
    let file = cluster.dir().join("corral.prom");
    let path = file.display().to_string();
    let figures = || {
        cluster.ok("cadmin", &["metrics", "--file", &path]);
        std::fs::read_to_string(&file).unwrap()
    };
    let due = [
        "corral_leader{host=\"h1\"} 1.0",
        "corral_jobs{queue=\"normal\",state=\"run\"} 4.0",
        "corral_jobs{queue=\"normal\",state=\"pend\"} 3.0",
        "corral_queue_slots{queue=\"normal\",state=\"run\"} 4.0",
        "corral_project_slots{project=\"p\"} 4.0",
        "corral_host_slots_used{host=\"h1\"} 2.0",
        "corral_host_slots{host=\"h2\"} 2.0",
        "# EOF",
    ];
    let all = || {
        let text = figures();
        due.iter().all(|due| text.contains(due))
    };
    until_or(all, || format!("not all of {due:?} in {}", figures()));
    let refused = cluster.run("cadmin", &["metrics", "--file", "/nosuch/x.prom"]);
    assert_eq!(refused.status.code(), Some(5));
}

/// Each library adds about 0.15 ms to the start of a command, which scripts start once a job.
#[test]
#[cfg(target_env = "gnu")]
fn commands_and_tasks_load_no_library_but_that_of_c() {
    let cb = std::path::Path::new(env!("CARGO_BIN_EXE_cb"));
    for name in ["cb", "csub", "cbtask"] {
        let bytes = std::fs::read(cb.with_file_name(name)).unwrap();
        let loads = |library: &str| memchr::memmem::find(&bytes, library.as_bytes()).is_some();
        assert!(loads("libc.so.6"), "{name}: the search finds nothing");
        for library in ["libgcc_s.so", "libm.so", "libstdc++.so", "libdl.so"] {
            assert!(!loads(library), "{name} loads {library}");
        }
    }
}
