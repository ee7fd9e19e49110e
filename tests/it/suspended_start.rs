//! A job that is stopped before its command began: nothing starts until it is resumed, and orders are
//! taken meanwhile.

use crate::cluster::{Cluster, exists, signal, text};
use crate::patience::until_or;
use crate::policies::{is, until};
use std::process::{Command, Stdio};
use std::time::Duration;

fn soon(what: &str, c: &Cluster, holds: impl FnMut() -> bool) {
    until_or(holds, || format!("{what}\n{}", c.logs()));
}

/// The pre-exec command goes on although the job is stopped: without a freezer its user may do that.
#[test]
fn a_job_that_is_stopped_in_its_pre_exec_does_not_begin_its_command() {
    stopped_in_its_pre_exec("");
}

/// What the pre-exec left is killed, and the job stays stopped.
#[test]
fn the_kill_of_what_a_pre_exec_left_does_not_resume_a_stopped_job() {
    stopped_in_its_pre_exec("sleep 996.75 & ");
}

/// `leaves`: what the pre-exec command begins and does not wait for.
fn stopped_in_its_pre_exec(leaves: &str) {
    for end in ["cresume", "ckill"] {
        let c = Cluster::up("--hosts 1 --slots 1 --masters 1 --cgroup off");
        let work = c.work();
        let dir = work.display();
        let pre =
            format!("{leaves}echo $$ >{dir}/pid; while [ ! -e {dir}/go ]; do sleep 0.05; done");
        let id = c.csub(&["-o", "/dev/null", "-E", &pre, "touch begun"]);
        let pid = || {
            let text = std::fs::read_to_string(work.join("pid")).ok()?;
            text.trim().parse::<i32>().ok()
        };
        soon("the pre-exec", &c, || pid().is_some());
        c.ok("cstop", &[&id.to_string()]);
        until(&c, id, "stopped", is("USUSP"));
        let pid = pid().unwrap();
        let state = || corral::sys::proc::info(pid).map(|p| p.state);
        // A shell whose child was stopped before its exec waits for that child in the kernel.
        soon("the stop", &c, || matches!(state(), Some('T' | 'D')));
        std::fs::write(work.join("go"), "").unwrap();
        let group = nix::unistd::Pid::from_raw(pid);
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGCONT).unwrap();
        soon("the end of the pre-exec", &c, || !exists(pid));
        std::thread::sleep(Duration::from_secs(1));
        assert!(!work.join("begun").exists(), "it is stopped");
        until(&c, id, "still stopped", is("USUSP"));
        // The other test has one while this one has none.
        if !leaves.is_empty() {
            let left = Command::new("pgrep").args(["-xf", "sleep 996.75"]).output();
            let left = left.unwrap();
            assert!(left.stdout.is_empty(), "what was left is killed: {left:?}");
        }
        c.ok(end, &[&id.to_string()]);
        let wanted = if end == "ckill" { "EXIT" } else { "DONE" };
        until(&c, id, wanted, is(wanted));
        assert_eq!(work.join("begun").exists(), end == "cresume");
    }
}

/// A csub that does not answer for a while: the job is stopped before it is connected.
#[test]
fn an_interactive_job_that_is_stopped_before_it_is_connected_begins_when_it_is_resumed() {
    for end in ["cresume", "ckill"] {
        let c = Cluster::up("--hosts 1 --slots 1 --masters 1");
        let full = c.csub(&["-o", "/dev/null", "sleep", "600"]);
        until(&c, full, "RUN", is("RUN"));
        let mut csub = c.command("csub");
        csub.args(["-I", "echo begun; exit 3"]);
        let waiting = csub
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let waiting = waiting.spawn().unwrap();
        soon("a second job", &c, || c.states().len() == 2);
        let id = full + 1;
        let pid = i32::try_from(waiting.id()).unwrap();
        signal(pid, "-STOP");
        c.ok("ckill", &[&full.to_string()]);
        // It calls, and nothing answers.
        until(&c, id, "RUN", is("RUN"));
        c.ok("cstop", &[&id.to_string()]);
        until(&c, id, "stopped", is("USUSP"));
        signal(pid, "-CONT");
        std::thread::sleep(Duration::from_secs(2));
        until(&c, id, "still stopped", is("USUSP"));
        c.ok(end, &[&id.to_string()]);
        let out = waiting.wait_with_output().unwrap();
        let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
        match end {
            "cresume" => assert_eq!((stdout.as_str(), out.status.code()), ("begun\n", Some(3))),
            _ => assert_eq!(stdout, "", "{}", text(&out)),
        }
        until(&c, id, "ended", is("EXIT"));
    }
}
