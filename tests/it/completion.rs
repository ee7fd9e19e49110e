//! The completion files of etc/completions in the shells themselves, against a real cluster: bash
//! always, zsh and fish where they are installed.

use crate::cluster::{Cluster, interruptible};
use crate::patience::find;
use crate::source;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A command of the system that finds the cluster's commands first.
fn shell(cluster: &Cluster, program: &str) -> Command {
    let bin = cluster.dir().join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command
        .env("CB_ENVDIR", cluster.dir().join("etc"))
        .env("PATH", format!("{}:{path}", bin.display()))
        .current_dir(cluster.work())
        .stdin(Stdio::null());
    command
}

fn file(name: &str) -> String {
    let path = source::root().join("etc/completions").join(name);
    path.to_str().unwrap().to_owned()
}

/// What a script of a shell prints, line by line; it must say nothing else.
fn lines(mut command: Command, script: &str) -> Vec<String> {
    let out = command.arg("-c").arg(script).output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(stderr, "", "{script}");
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// COMPREPLY of bash after these words, the last of which is completed.
fn bash(cluster: &Cluster, words: &str, comp_type: u32) -> Vec<String> {
    let script = format!(
        "source '{}'; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         COMP_TYPE={comp_type}; _corral; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        file("bash/corral")
    );
    lines(shell(cluster, "bash"), &script)
}

/// The same for names of the cluster: a busy machine does not find them every time in the moment that it
/// has for that.
fn names(cluster: &Cluster, words: &str, comp_type: u32) -> Vec<String> {
    let some = || Some(bash(cluster, words, comp_type)).filter(|names| *names != [""]);
    find(words, some)
}

fn is_installed(program: &str) -> bool {
    Command::new(program)
        .args(["-c", "exit 7"])
        .status()
        .is_ok_and(|status| status.code() == Some(7))
}

fn in_bash(cluster: &Cluster, id: &str) {
    assert_eq!(names(cluster, "csub -q n", 9), ["normal"]);
    let queues = names(cluster, "bsub -n 4 -q ''", 9);
    assert_eq!(queues, ["high", "normal", "low"], "by priority");
    assert_eq!(names(cluster, "cjobs -m ''", 9), ["h1", "h2"]);
    assert_eq!(names(cluster, "ckill ''", 9), [id]);
    let job = bash(cluster, "cjobs -noh", 9);
    assert_eq!(job, ["-noheader"]);
    let listed = names(cluster, "cqueues ''", 63);
    assert_eq!(listed[0], "high    (urgent jobs, scheduled first)");
    assert_eq!(bash(cluster, "csub -i ''", 9), [""], "left to the shell");
    assert_eq!(bash(cluster, "cb csu", 9), ["csub"]);
    let script = format!("source '{}'; complete -p bkill cadmin", file("bash/corral"));
    let known = lines(shell(cluster, "bash"), &script);
    assert_eq!(
        known,
        ["complete -F _corral bkill", "complete -F _corral cadmin"]
    );
}

/// The shell of a development cluster has completion without further ado; other shells go on.
fn in_the_shell_of_a_development_cluster(cluster: &Cluster) {
    let dir = cluster.dir().to_str().unwrap();
    let script = format!("eval \"$(cb cadmin dev env --dir '{dir}')\"; complete -p csub");
    let known = lines(shell(cluster, "bash"), &script);
    assert_eq!(known, ["complete -F _corral csub"]);
    let script = format!("set -eu; eval \"$(cb cadmin dev env --dir '{dir}')\"; echo on");
    assert_eq!(lines(shell(cluster, "sh"), &script), ["on"]);
}

/// The job comes first, and the queue is there.
fn all_named(output: &[String], id: &str) -> bool {
    let has = |begin: &str| output.iter().any(|line| line.starts_with(begin));
    output.len() >= 3 && output[0].starts_with(id) && has("low")
}

fn in_zsh(cluster: &Cluster, id: &str) {
    let script = format!(
        "compadd() {{ print -rl -- \"${{values[@]}}\" \"${{shown[@]}}\" }}; \
         words=(ckill ''); CURRENT=2; PREFIX=''; source '{0}'; \
         words=(csub -q lo); CURRENT=3; PREFIX=lo; source '{0}'",
        file("zsh/_corral")
    );
    let output = find("names of the cluster", || {
        let mut zsh = shell(cluster, "zsh");
        zsh.arg("-f");
        Some(lines(zsh, &script)).filter(|output| all_named(output, id))
    });
    assert_eq!(output[0], id);
    assert!(
        output[1].starts_with(&format!("{id}  -- PSUSP mine")),
        "{output:?}"
    );
    assert_eq!(output[2], "low");
}

fn in_fish(cluster: &Cluster, id: &str) {
    let script = format!(
        "source '{}'; complete -C 'ckill '; complete -C 'csub -q lo'; complete -C 'cjobs -noh'",
        file("fish/corral.fish")
    );
    let output = find("names of the cluster", || {
        let mut fish = shell(cluster, "fish");
        fish.arg("--no-config").env("HOME", cluster.work());
        Some(lines(fish, &script)).filter(|output| all_named(output, id))
    });
    assert_eq!(output[0], format!("{id}\tPSUSP mine"));
    assert!(output[1].starts_with("low\t"), "{output:?}");
    assert!(output[2].starts_with("-noheader\t"), "{output:?}");
}

#[test]
fn shells_complete_names_of_a_live_cluster() {
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 1");
    let id = cluster.csub(&["-H", "-J", "mine", "sleep 1"]).to_string();
    cluster.wait(|states| !states.is_empty());
    in_bash(&cluster, &id);
    in_the_shell_of_a_development_cluster(&cluster);
    for (program, check) in [
        ("zsh", in_zsh as fn(&Cluster, &str)),
        ("fish", in_fish as fn(&Cluster, &str)),
    ] {
        match is_installed(program) {
            true => check(&cluster, &id),
            false => eprintln!("{program} is not installed: its file is not tried"),
        }
    }
    hangs(&cluster);
}

/// A share that does not answer costs a moment and prints nothing.
fn hangs(cluster: &Cluster) {
    interruptible();
    let pipe = cluster.work().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut cb = shell(cluster, cluster.dir().join("bin/cb").to_str().unwrap());
    let share = cluster.share();
    let rule = format!("sys.any@{}=hang:{}", share.display(), pipe.display());
    cb.env("CORRAL_FAIL", rule);
    let began = Instant::now();
    let out = cb
        .args(["__complete", "bash", "cqueues", ""])
        .output()
        .unwrap();
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(200),
        "it did not hang: {took:?}"
    );
    // It does not wait for an answer, which never comes; a busy machine takes its time to start it.
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(out.stdout, b"words\n");
    // A development build names the point at which it is made to hang.
    let stderr = String::from_utf8(out.stderr).unwrap();
    let own = stderr.lines().find(|line| !line.starts_with("failpoint "));
    assert_eq!(own, None);
    assert!(out.status.success());
}
