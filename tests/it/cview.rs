//! cview at a terminal, on a real cluster: what it shows, what its keys do, and that the terminal
//! is as it was however it ends.

use crate::cluster::{Cluster, interruptible, signal};
use crate::patience::{find, until, until_or};
use crate::terminal_bed::Screen;
use std::process::{Command, Stdio};

const HOSTS: &str = "--hosts 1 --slots 2 --masters 1";
/// What ends the alternate screen.
const LEFT: &str = "\x1b[?1049l";

/// A cluster with a running job of this name.
fn with_job(name: &str) -> Cluster {
    let c = Cluster::up(HOSTS);
    let id = c.csub(&["-J", name, "sleep", "600"]);
    c.wait(|states| states.get(&(id, 0)).is_some_and(|s| s == "RUN"));
    c
}

/// A shell that notes the terminal's settings, runs cview, and notes them again.
fn shell(c: &Cluster, line: &str) -> Command {
    let script = format!("stty -g >before; {line}; echo code=$?; stty -g >after; echo over");
    let mut command = c.command("cview");
    let path = format!(
        "{}:{}",
        c.dir().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(c.work());
    for (name, value) in command.env("TERM", "xterm").get_envs() {
        shell.env(name, value.unwrap());
    }
    shell.env("PATH", path);
    shell
}

/// The terminal's settings are those of before.
fn restored(c: &Cluster) {
    let read = |name: &str| std::fs::read_to_string(c.work().join(name)).unwrap();
    let (before, after) = (read("before"), read("after"));
    assert!(before.contains(':'), "{before}");
    assert_eq!(before, after);
}

/// The process of cview below the shell.
fn child_of(shell: i32) -> i32 {
    find("cview runs", || {
        let path = format!("/proc/{shell}/task/{shell}/children");
        let pids = std::fs::read_to_string(path).unwrap_or_default();
        let is_cview = |pid: &i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim() == "cview")
        };
        let mut pids = pids.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.find(is_cview)
    })
}

#[test]
fn a_job_is_shown_and_killed_with_keys_and_the_terminal_is_restored() {
    let c = with_job("seenjob");
    let mut s = Screen::run(shell(&c, "cview"), 24, 80);
    s.until("[3 Jobs]");
    s.until("seenjob");
    s.keys("K");
    s.until("Kill 1 job: 1? (y/n)");
    s.keys("y");
    c.wait(|states| states[&(1, 0)] == "EXIT");
    // What stood there already is not written again: draw everything. Blanks are not written.
    s.keys("\x0c");
    for word in ["Job", "<1>", "being", "terminated"] {
        s.until(word);
    }
    // Another screen, and a resize.
    s.keys("2");
    s.until("[2 Hosts]");
    s.resize(20, 60);
    s.until("[2 Hosts]");
    // An administrator closes the host, with a comment.
    s.keys("C");
    s.until("comment,");
    s.keys("broken disk\r");
    s.until("(y/n)");
    s.keys("y");
    until("the host is closed", || {
        c.ok("chosts", &["-l", "h1"]).contains("\"broken disk\"")
    });
    s.keys("q");
    s.until(LEFT);
    s.until("code=0");
    s.until("over");
    assert_eq!(s.code(), 0);
    restored(&c);
}

#[test]
fn capital_letters_do_what_the_commands_do() {
    let c = Cluster::up(HOSTS);
    let first = c.csub(&["-n", "2", "sleep", "600"]);
    let is = |id: u32, state: &'static str| {
        c.wait(move |states| states.get(&(id, 0)).is_some_and(|s| s == state));
    };
    is(first, "RUN");
    let (second, third) = (c.csub(&["true"]), c.csub(&["true"]));
    is(third, "PEND");
    let mut s = Screen::run(shell(&c, "cview"), 24, 80);
    // The names of the last two.
    s.until("true");
    s.until("true");
    let mut act = |keys: &str, question: &str| {
        s.keys(keys);
        s.until(question);
        s.keys("y");
    };
    act("gS", "Stop 1 job: 1? (y/n)");
    is(first, "USUSP");
    act("R", "Resume 1 job: 1? (y/n)");
    is(first, "RUN");
    // The last one to the top.
    act("GT", "Move 1 job to the top: 3? (y/n)");
    let ids = || {
        c.ok("cjobs", &["-noheader", "-o", "jobid:"])
            .replace('\n', " ")
    };
    let moved = format!("{first} {third} {second} ");
    until_or(|| ids() == moved, ids);
    act("gQ", "Requeue 1 job: 1? (y/n)");
    let attempts = || c.ok("cjobs", &["-noheader", "-o", "attempt:", "1"]);
    until_or(|| attempts() == "2\n", attempts);
}

#[test]
fn a_signal_an_interruption_and_a_panic_restore_the_terminal() {
    let c = with_job("seenjob");
    let mut s = Screen::run(shell(&c, "cview"), 24, 80);
    s.until("seenjob");
    signal(child_of(s.pid()), "-TERM");
    s.until(LEFT);
    s.until("code=143");
    s.until("over");
    restored(&c);
    let mut s = Screen::run(shell(&c, "cview -a -i 0.5"), 24, 80);
    s.until("seenjob");
    s.keys("\x03");
    s.until(LEFT);
    s.until("code=130");
    s.until("over");
    restored(&c);
    // The thread that reads the view.
    let mut command = shell(&c, "cview -i 0.1");
    command.env("CORRAL_FAIL", "sys.any@view/manifest#60=panic");
    let mut s = Screen::run(command, 24, 80);
    s.until("seenjob");
    s.until(LEFT);
    s.until("panicked at");
    s.until("code=101");
    s.until("over");
    restored(&c);
}

#[test]
fn a_suspended_cview_gives_the_terminal_to_the_shell_and_comes_back() {
    let c = with_job("seenjob");
    let mut shell = shell(&c, "true");
    shell.env("PS1", "$ ");
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-i"]).current_dir(c.work());
    for (name, value) in shell.get_envs() {
        bash.env(name, value.unwrap());
    }
    let mut s = Screen::run(bash, 24, 80);
    s.keys("stty -g >before; cview\r");
    s.until("seenjob");
    s.keys("\x1a");
    s.until(LEFT);
    s.until("Stopped");
    s.until("$ ");
    s.keys("stty -g >after; echo no$((6 * 7))ted\r");
    s.until("no42ted");
    // The shell sets its own modes while it reads a line, before and after.
    restored(&c);
    s.keys("fg\r");
    s.until("\x1b[?1049h");
    s.until("seenjob");
    s.keys("q");
    s.until(LEFT);
    // What is typed before the prompt is thrown away with the keys of cview.
    s.until("$ ");
    s.keys("exit 7\r");
    assert_eq!(s.code(), 7, "{}", s.rest);
}

#[test]
fn a_share_that_hangs_leaves_the_keys_alive() {
    let c = with_job("seenjob");
    interruptible();
    let pipe = c.work().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut command = shell(&c, "cview -i 0.1");
    let rule = format!("sys.any@view/manifest#60=hang:{}", pipe.display());
    command.env("CORRAL_FAIL", rule);
    let mut s = Screen::run(command, 24, 80);
    s.until("seenjob");
    s.until("no answer from the share for ");
    s.keys("?");
    s.until("any key: back");
    s.keys("q");
    s.keys("q");
    s.until(LEFT);
    s.until("code=0");
    s.until("over");
    restored(&c);
}

#[test]
fn without_a_terminal_one_frame_is_printed_or_the_reason_said() {
    let c = with_job("seenjob");
    let out = c.ok("cview", &["-once"]);
    assert_eq!(out.lines().count(), 24, "{out}");
    let is_row = |line: &str| line.contains(" RUN ") && line.ends_with("seenjob");
    assert!(out.lines().any(is_row), "{out}");
    assert!(!out.contains('\x1b'), "{out}");
    let mut command = c.command("cview");
    let refused = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("must be a terminal") && stderr.contains("'cjobs'"),
        "{stderr}"
    );
    let mut command = c.command("cview");
    command.env("TERM", "dumb");
    let mut s = Screen::run(command, 24, 80);
    s.until("(TERM=dumb) cannot show a full screen");
    s.until("'cjobs'");
    assert_eq!(s.code(), 2);
    // cpeek has kept its own names only.
    let output = c.ok("bpeek", &["-h"]);
    assert!(output.contains("Show the output of a job"), "{output}");
    assert!(c.ok("cview", &["-h"]).contains("full screen"));
}
