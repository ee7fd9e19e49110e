//! Files that jobs have copied, and their directories for temporary files, which leave nothing
//! behind whatever dies.

use crate::cluster::{Cluster, kill_9};
use crate::executor_bed;
use crate::policies;
use corral::sys::{clock, fs, proc};
use std::path::Path;

fn site() -> Cluster {
    policies::cluster(
        1,
        "hosts:\n- {name: h1, slots: 4}\nqueues:\n- {name: q}\ngeneral: {pre_exec_retries: 1}\n",
    )
}

#[test]
fn files_are_copied_in_before_and_out_after_the_job() {
    let site = site();
    let dir = site.work();
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    std::fs::create_dir(dir.join("run")).unwrap();
    std::fs::write(dir.join("in"), "input\n").unwrap();
    std::fs::write(dir.join("log"), "before\n").unwrap();
    std::fs::write(dir.join("both"), "1\n").unwrap();
    let copies = [
        "in > in.%J",
        "out < result",
        "log << log",
        "both >< both",
        "in >",
    ];
    let mut args: Vec<&str> = vec!["-cwd", "run"];
    args.extend(copies.iter().flat_map(|copy| ["-f", copy]));
    args.push("cat in.$LSB_JOBID >result; echo after >log; echo 2 >>both; exit 3");
    let id = site.csub(&args);
    let job = policies::until(&site, id, "EXIT", policies::is("EXIT"));
    assert_eq!(job["exit_code"], 3, "{job}");
    assert!(job["text"].is_null(), "{job}");
    assert_eq!(job["file_copies"][2]["operator"], "<<", "{job}");
    assert_eq!(read("out"), "input\n");
    assert_eq!(read("log"), "before\nafter\n");
    assert_eq!(read("both"), "1\n2\n");
    assert_eq!(read("run/in"), "input\n");
    // One file under both names is left alone.
    let same = site.csub(&["-f", "in >< in", "true"]);
    policies::until(&site, same, "DONE", policies::is("DONE"));
    assert_eq!(read("in"), "input\n");
    // What is missing after the job is said, what is missing before it keeps it from running.
    let late = site.csub(&["-f", "x < nothing", "true"]);
    let job = policies::until(&site, late, "DONE", policies::is("DONE"));
    assert!(
        job["text"].as_str().unwrap().contains("/nothing to "),
        "{job}"
    );
    let missing = site.csub(&["-f", "missing > here", "touch ran"]);
    let job = policies::until(&site, missing, "PSUSP", policies::is("PSUSP"));
    assert!(
        job.to_string().contains("(csub -f) exited with 66"),
        "{job}"
    );
    assert!(!dir.join("ran").exists());
    site.ok("cmod", &["-fn", &missing.to_string()]);
    site.ok("cresume", &[&missing.to_string()]);
    policies::until(&site, missing, "DONE", policies::is("DONE"));
    for wrong in ["in", "in > a b", "in >> a", "in > a/"] {
        assert!(
            !site.run("csub", &["-f", wrong, "true"]).status.success(),
            "{wrong}"
        );
    }
}

/// The directory of a job, once it said so.
fn tmp_of(c: &executor_bed::Cluster, name: &str) -> String {
    c.wait_file(name).trim().to_owned()
}

fn gone(path: &str) {
    for _ in 0..500 {
        if !Path::new(path).exists() {
            return;
        }
        clock::sleep_ms(20);
    }
    panic!("{path} stays");
}

#[test]
fn a_jobs_tmpdir_goes_with_its_shepherd_and_with_a_host_that_was_restarted() {
    let mut c = executor_bed::Cluster::new();
    let job = |c: &executor_bed::Cluster, name: &str| {
        let file = c.path(name).display().to_string();
        format!("mkdir $TMPDIR/d; touch $TMPDIR/d/f; echo $TMPDIR >{file}; exec sleep 94.5")
    };
    c.start_of(1, 1, &job(&c, "one"));
    c.start_of(2, 1, &job(&c, "two"));
    c.start_exe();
    let (one, two) = (tmp_of(&c, "one"), tmp_of(&c, "two"));
    assert!(Path::new(&one).join("d/f").exists());
    kill_9(c.started(1));
    gone(&one);
    assert!(Path::new(&two).exists(), "only of the shepherd that died");
    // Everything dies at once, as at a restart of the host; another executor comes.
    let exe = c.exe.as_ref().unwrap().id() as i32;
    let spawner = proc::children(exe);
    let shepherd = c.started(2);
    c.kill_exe();
    spawner.into_iter().for_each(kill_9);
    let left = proc::children(shepherd);
    kill_9(shepherd);
    left.into_iter().for_each(kill_9);
    assert!(Path::new(&two).exists());
    c.start_exe();
    gone(&two);
    c.end(2);
    // And one that is in no record of this host any more.
    let lost = format!("{two}77");
    fs::mkdir(lost.as_ref(), 0o700).unwrap();
    c.restart_exe();
    gone(&lost);
}
