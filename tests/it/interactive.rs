//! Interactive jobs on a real cluster: a person at a terminal (`terminal_bed`) and pipes.

use crate::cluster::{Cluster, exists, kill_9, text};
use crate::patience::{PATIENCE, find, until};
use crate::security::Site;
use crate::terminal_bed::Screen;
use corral::channel::{RENDEZVOUS_MAX, Rendezvous};
use corral::sys::users;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

const HOSTS: &str = "--hosts 2 --slots 2 --masters 1";

/// Runs csub with input from a pipe, to its end.
fn piped(c: &Cluster, args: &[&str], input: &str) -> Output {
    let mut child = begin(c, args);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn begin(c: &Cluster, args: &[&str]) -> Child {
    let mut command = c.command("csub");
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The files of waiting commands.
fn sessions(c: &Cluster) -> Vec<PathBuf> {
    let dir = c
        .share()
        .join("inbox")
        .join(users::effective_uid().to_string())
        .join(".sessions");
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries.map(|e| e.unwrap().path()).collect()
}

/// The one file with a key.
fn rendezvous(c: &Cluster) -> PathBuf {
    find("a waiting command", || {
        let is_key = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("s.") && !name.ends_with(".host")
        };
        sessions(c).into_iter().find(is_key)
    })
}

/// Fills both hosts, so that what is submitted next waits; `go` makes room.
struct Full<'a>(&'a Cluster, u32);

impl<'a> Full<'a> {
    fn of(c: &'a Cluster) -> Full<'a> {
        let id = c.csub(&["-n", "4", "-o", "/dev/null", "sleep", "600"]);
        c.wait(|s| s.get(&(id, 0)).is_some_and(|s| s == "RUN"));
        Full(c, id)
    }

    fn go(&self) {
        self.0.ok("ckill", &[&self.1.to_string()]);
    }
}

#[test]
fn streams_stay_apart_and_the_exit_code_is_the_jobs() {
    for options in [HOSTS.to_owned(), format!("{HOSTS} --cgroup off")] {
        let c = Cluster::up(&options);
        let script = "cat; echo to-err >&2; echo $LSB_INTERACTIVE; exit 7";
        let out = piped(&c, &["-I", script], "hello\n");
        assert_eq!(out.status.code(), Some(7), "{}\n{}", text(&out), c.logs());
        assert_eq!(String::from_utf8_lossy(&out.stdout), "hello\nY\n");
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        let lines: Vec<&str> = stderr.lines().collect();
        assert_eq!(lines[0], "Job <1> is submitted to default queue <normal>.");
        assert_eq!(lines[1], "<<Waiting for dispatch ...>>");
        assert!(lines[2].starts_with("<<Starting on h"), "{stderr}");
        assert_eq!(lines[3..], ["to-err"]);
        assert!(sessions(&c).is_empty(), "{:?}", sessions(&c));
        // Much in both directions, and an end of input.
        let big = "0123456789abcdef".repeat(1 << 16);
        let out = piped(&c, &["-I", "wc -c; head -c 3000000 /dev/zero"], &big);
        assert_eq!(out.status.code(), Some(0), "{}", c.logs());
        assert!(out.stdout.starts_with(b"1048576\n"));
        assert_eq!(out.stdout.len(), 8 + 3_000_000);
        // A file in the place of one stream; a program that is not there; a signal.
        let out = piped(&c, &["-I", "-o", "o", "cat; echo file; echo here >&2"], "");
        let output = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(output.contains("here") && out.stdout.is_empty(), "{output}");
        let file = std::fs::read_to_string(c.work().join("o")).unwrap();
        assert!(file.contains("file\n"), "{file}");
        let out = piped(&c, &["-I", "/no/such/program"], "");
        assert_eq!(out.status.code(), Some(127), "{}", text(&out));
        let out = piped(&c, &["-I", "kill -9 $$"], "");
        assert_eq!(out.status.code(), Some(137), "{}", text(&out));
        let states = c.states();
        assert_eq!(
            (states[&(1, 0)].as_str(), states[&(2, 0)].as_str()),
            ("EXIT", "DONE")
        );
    }
}

#[test]
fn the_output_of_a_job_that_ends_between_two_looks_is_shown() {
    let c = Cluster::up(HOSTS);
    let mut command = c.command("csub");
    // Each look at the host's word takes so long that the job has ended when the view is read.
    command.env("CORRAL_FAIL", "sys.any@.host=delay:400");
    let out = command.args(["-I", "echo out; echo err >&2; exit 3"]);
    let out = out.stdin(Stdio::null()).output().unwrap();
    assert_eq!(out.status.code(), Some(3), "{}", text(&out));
    assert_eq!(String::from_utf8_lossy(&out.stdout), "out\n");
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        stderr.contains("err\n") && !stderr.contains("finished"),
        "{stderr}"
    );
}

#[test]
fn a_shell_at_a_terminal_has_its_size_its_keys_and_its_job_control() {
    for options in [HOSTS.to_owned(), format!("{HOSTS} --cgroup off")] {
        let c = Cluster::up(&options);
        let mut command = c.command("csub");
        command
            .args(["-Is", "bash", "--norc", "-i"])
            .env("PS1", "$ ");
        let mut s = Screen::run(command, 31, 97);
        s.until("<<Starting on h");
        s.until("$ ");
        s.keys("stty size; tty; echo $$ $PPID\r");
        s.until("31 97");
        s.until("/dev/pts/");
        let trap =
            "trap 'echo resized to $(stty size)' WINCH; echo set; while :; do sleep 0.1; done";
        s.keys(&format!("sh -c \"{}\"\r", trap.replace('$', "\\$")));
        s.until("set\r\n");
        s.resize(50, 132);
        s.until("resized to 50 132");
        s.keys("\x03");
        // ^C ends what runs in the foreground.
        s.keys("echo begun; sleep 1000; echo code $?\r");
        s.until("begun\r\n");
        std::thread::sleep(Duration::from_millis(300));
        s.keys("\x03");
        s.keys("echo after $?\r");
        s.until("after 130");
        // ^Z stops it, and the shell has it in its list.
        // A child of the shell that is stopped before its exec ignores SIGTERM, as the shell does.
        s.keys("sh -c 'echo begun; exec sleep 1001'\r");
        s.until("begun\r\n");
        std::thread::sleep(Duration::from_millis(500));
        s.keys("\x1a");
        s.until("Stopped");
        // Its own word on the end is not waited for: bash loses it when the end comes while it
        // writes "Stopped" once more.
        s.keys("kill %1; while kill -0 %1; do sleep 0.1; done 2>&-; echo code $((100 + 42))\r");
        s.until("code 142");
        // ^D is the end of the input of a program there.
        s.keys("echo now; cat\r");
        s.until("now\r\n");
        std::thread::sleep(Duration::from_millis(300));
        s.keys("typed\r");
        s.until("typed\r\ntyped");
        s.keys("\x04");
        s.keys("exit 7\r");
        assert_eq!(s.code(), 7, "{}\n{}", s.rest, c.logs());
        let long = c.ok("cjobs", &["-l", "-a", "1"]);
        assert!(
            long.replace("\n                     ", "")
                .contains("shell mode"),
            "{long}"
        );
    }
}

#[test]
fn without_shell_mode_the_keys_for_signals_are_the_commands() {
    let c = Cluster::up(HOSTS);
    let mut command = c.command("csub");
    command.args([
        "-Ip",
        "test -t 0 && test -t 2 && echo at $(stty size); cat; exit 3",
    ]);
    let mut s = Screen::run(command, 31, 97);
    s.until("at 31 97");
    s.keys("abc\r");
    s.until("abc\r\nabc");
    s.keys("\x04");
    assert_eq!(s.code(), 3, "{}", c.logs());
    let mut command = c.command("csub");
    let script = "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.1; done";
    command.args(["-Ip", script]);
    let mut s = Screen::run(command, 31, 97);
    s.until("ready");
    s.keys("\x03");
    s.until("caught");
    assert_eq!(s.code(), 4, "{}", c.logs());
    // Without any terminal for the job, too.
    let mut command = c.command("csub");
    command.args(["-I", script]);
    let mut s = Screen::run(command, 31, 97);
    s.until("ready");
    s.keys("\x03");
    s.until("caught");
    assert_eq!(s.code(), 4, "{}", c.logs());
}

#[test]
fn a_command_that_is_killed_leaves_nothing_of_its_job() {
    for options in [HOSTS.to_owned(), format!("{HOSTS} --cgroup off")] {
        let c = Cluster::up(&options);
        for kind in ["-Is", "-I"] {
            let mut command = c.command("csub");
            let script = "sleep 600 & echo pids $$ $! .; trap '' HUP; wait; sleep 600";
            command.args([kind, script]);
            let mut s = Screen::run(command, 31, 97);
            s.until("pids ");
            s.until(" .");
            let known: Vec<i32> = find("processes", || {
                let out = std::process::Command::new("pgrep")
                    .args(["-f", "sleep 60[0]"])
                    .output();
                let out = String::from_utf8(out.unwrap().stdout).unwrap();
                let pids: Vec<i32> = out.lines().filter_map(|l| l.parse().ok()).collect();
                let ours = |pid: &i32| {
                    let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                    let dir = c.dir().to_str().unwrap().as_bytes();
                    env.windows(dir.len()).any(|w| w == dir)
                };
                let pids: Vec<i32> = pids.into_iter().filter(ours).collect();
                (!pids.is_empty()).then_some(pids)
            });
            kill_9(s.pid());
            until("the end of all processes", || {
                known.iter().all(|pid| !exists(*pid))
            });
            let id = if kind == "-Is" { 1 } else { 2 };
            c.wait(|states| states[&(id, 0)] == "EXIT");
        }
    }
}

#[test]
fn a_stranger_at_the_port_learns_nothing_and_the_job_has_its_terminal() {
    let c = Cluster::up(HOSTS);
    let full = Full::of(&c);
    let child = begin(&c, &["-I", "echo it ran"]);
    let word = std::fs::read(rendezvous(&c)).unwrap();
    let word = Rendezvous::from_bytes(&word[..word.len().min(RENDEZVOUS_MAX as usize)]).unwrap();
    let own = word.addresses.last().unwrap();
    for bytes in [&[0, 48][..], b"GET / HTTP/1.0\r\n\r\n", &[255; 400]] {
        let mut stranger = TcpStream::connect(own).unwrap();
        let mut frame = bytes.to_vec();
        frame.resize(frame.len() + 48, 7);
        stranger.write_all(&frame).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut got = Vec::new();
        // Closed, perhaps at once, without a word.
        let _ = stranger.read_to_end(&mut got);
        assert!(got.is_empty(), "{got:?}");
    }
    full.go();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.stdout, b"it ran\n", "{}\n{}", text(&out), c.logs());
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        stderr.contains("does not have the key: refused"),
        "{stderr}"
    );
    // The port is closed once the key was used.
    assert!(TcpStream::connect(own).is_err());
}

#[test]
fn a_command_that_cannot_be_called_shows_the_output_from_the_share() {
    let c = Cluster::up(HOSTS);
    let full = Full::of(&c);
    let child = begin(&c, &["-I", "echo by file; cat; echo err >&2; exit 5"]);
    let file = rendezvous(&c);
    let mut word = Rendezvous::from_bytes(&std::fs::read(&file).unwrap()).unwrap();
    // A port at which nothing listens.
    word.addresses = vec!["127.0.0.1:1".parse().unwrap()];
    std::fs::write(&file, word.to_bytes()).unwrap();
    full.go();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(5), "{}\n{}", text(&out), c.logs());
    assert_eq!(String::from_utf8_lossy(&out.stdout), "by file\nerr\n");
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    let message = "cannot reach this command (127.0.0.1:1: Connection refused)";
    assert_eq!(stderr.matches(message).count(), 1, "{stderr}");
    assert!(sessions(&c).is_empty());
}

#[test]
fn a_pending_interactive_job_goes_with_its_command() {
    let c = Cluster::up(HOSTS);
    let full = Full::of(&c);
    // ^C ends the job, and says so.
    let mut command = c.command("csub");
    command.args(["-Is", "bash"]);
    let mut s = Screen::run(command, 31, 97);
    s.until("<<Waiting for dispatch ...>>");
    s.keys("\x03");
    s.until("<<Terminated while pending>>");
    assert_eq!(s.code(), 126);
    c.wait(|states| states[&(2, 0)] == "EXIT");
    // One that dies without a word: its job ends when it is started.
    let mut child = begin(&c, &["-I", "echo never"]);
    rendezvous(&c);
    c.wait(|states| states.contains_key(&(3, 0)));
    child.kill().unwrap();
    child.wait().unwrap();
    let file = rendezvous(&c);
    std::fs::remove_file(file).unwrap();
    full.go();
    c.wait(|states| states[&(3, 0)] == "EXIT");
    let long = c.ok("cjobs", &["-l", "-a", "3"]);
    let long = long.replace("\n                     ", "");
    assert!(
        long.contains("the command that waited for this job is gone"),
        "{long}"
    );
}

#[test]
fn what_an_interactive_job_cannot_have_is_refused_by_name() {
    let c = Cluster::up(HOSTS);
    for (args, why) in [
        (
            &["-I", "-K", "true"][..],
            "-I and -K cannot be given together",
        ),
        (
            &["-I", "-Ip", "true"],
            "-I and -Ip cannot be given together",
        ),
        (
            &["-Is", "-o", "x", "bash"],
            "-Is gives the job a terminal of its own",
        ),
        (&["-I", "-J", "a[1-3]", "true"], "index list"),
        (&["-I", "-r", "true"], "-I and -r cannot be given together"),
        (
            &["-I", "--retries", "2", "true"],
            "-I and --retries cannot be given together",
        ),
        (&["-IS", "true"], "option -IS is not implemented"),
    ] {
        let out = piped(&c, args, "");
        let output = text(&out);
        assert!(
            !out.status.success() && output.contains(why),
            "{args:?}: {output}"
        );
    }
    assert!(c.states().is_empty() && sessions(&c).is_empty());
}

#[test]
fn terminal_and_connection_belong_to_the_user_and_the_key_is_read_by_no_other() {
    use std::os::unix::process::CommandExt as _;
    let Some(site) = Site::up() else { return };
    let mut command = site.command(&site.alice, "csub");
    // A process of the same user outside the job's group must not be a way out of it.
    let script = "echo user $(id -u) tty $(stat -c %u $(tty)); \
                  for p in $(pgrep -x cbrelay); do \
                  echo relay $(stat -c %u /proc/$p/status) $(cat /proc/$p/maps | wc -l); done; \
                  echo asked; read x; exit 7";
    command.args(["-Is", script]);
    let mut s = Screen::run(command, 31, 97);
    s.until(&format!("user {} tty {}", site.alice.uid, site.alice.uid));
    s.until("relay 0 0");
    s.until("asked");
    s.keys("\r");
    assert_eq!(s.code(), 7, "{}\n{}", s.rest, site.cluster.logs());
    let mut command = site.command(&site.alice, "csub");
    command.args(["-b", "23:59", "-I", "true"]);
    let mut s = Screen::run(command, 31, 97);
    s.until("<<Waiting for dispatch ...>>");
    let dir = site.own_box(&site.alice).join(".sessions");
    for who in [&site.bob, &site.service] {
        let mut look = std::process::Command::new("ls");
        let out = look.arg(&dir).uid(who.uid).gid(who.uid).output().unwrap();
        assert!(
            !out.status.success(),
            "{} looks into {}",
            who.name,
            dir.display()
        );
    }
    s.keys("\x03");
    s.until("<<Terminated while pending>>");
}
