//! Commands that a running job starts on its hosts by `claunch`, on the two hosts of a cluster.

use crate::cluster::{Cluster, exists, lines, text};
use crate::patience::{until, until_or};
use std::process::{Command, Output, Stdio};

const HOSTS: &str = "--hosts 3 --slots 1 --masters 1";

/// Runs a script as an interactive job on two hosts; they are in `$A` and `$B`.
fn on_two(c: &Cluster, script: &str, input: &str) -> Output {
    use std::io::Write as _;
    let head = "PATH=$LSF_BINDIR:$PATH; set -- $LSB_HOSTS; A=$1 B=$2; ";
    let mut command = c.command("csub");
    command
        .args(["-I", "-n", "2", &format!("{head}{script}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn a_command_on_another_host_has_streams_signals_and_an_exit_code() {
    for options in [HOSTS.to_owned(), format!("{HOSTS} --cgroup off")] {
        let c = Cluster::up(&options);
        let script = "blaunch $B 'cat; echo $CB_EXEC_HOST = '$B' $LSF_PM_TASKID \"$LSB_JOBID\"; \
                      echo to-err >&2; exit 7'; echo rc $?";
        let out = on_two(&c, script, "typed\n");
        let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines.len(), 3, "{}\n{}", text(&out), c.logs());
        assert_eq!((lines[0], lines[2]), ("typed", "rc 7"));
        let words: Vec<&str> = lines[1].split(' ').collect();
        assert!(words[0] == words[2] && words[3..] == ["1", "1"], "{stdout}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("to-err"));
        // All hosts, the own one too, each with its number; quotes as launchers write them.
        let script = "claunch -z \"$A $B\" '\"/bin/echo\"' '$LSF_PM_TASKID:$CB_EXEC_HOST' | sort; \
                      echo $A $B";
        let out = on_two(&c, script, "");
        let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines.len(), 3, "{}\n{}", text(&out), c.logs());
        let (a, b) = lines[2].split_once(' ').unwrap();
        assert_eq!(lines[..2], [format!("1:{a}"), format!("2:{b}")]);
        // No input, a file of hosts, a signal.
        let script = "echo $B >f; blaunch -n -u f 'cat; kill -9 $$'; echo rc $?";
        let out = on_two(&c, script, "typed\n");
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            "rc 137\n",
            "{}",
            text(&out)
        );
    }
}

#[test]
fn a_host_that_is_not_the_jobs_is_refused() {
    let c = Cluster::up(HOSTS);
    let script = "for h in h1 h2 h3; do case \" $LSB_HOSTS \" in *\" $h \"*) ;; *) X=$h;; esac; done; \
                  blaunch $X hostname; echo rc $?; \
                  LSB_MCPU_HOSTS=\"$X 1\" timeout 5 blaunch $X 'echo ran'; echo rc $?";
    let out = on_two(&c, script, "");
    let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(stdout, "rc 4\nrc 124\n", "{}\n{}", text(&out), c.logs());
    let out = c.run("claunch", &["h1", "true"]);
    assert!(text(&out).contains("not in a job"), "{}", text(&out));
}

#[test]
fn nothing_is_left_on_any_host_when_the_job_is_killed() {
    for options in [HOSTS.to_owned(), format!("{HOSTS} --cgroup off")] {
        let c = Cluster::up(&options);
        let script = "set -- $LSB_HOSTS; exec $LSF_BINDIR/claunch -n $2 \"trap '' HUP INT TERM; sleep 611 & wait; \
                      sleep 611\"";
        let id = c.csub(&["-n", "2", "-o", "o", script]);
        let sleeping = || {
            let out = Command::new("pgrep").args(["-f", "sleep 61[1]"]).output();
            let out = String::from_utf8(out.unwrap().stdout).unwrap();
            let dir = c.dir().to_str().unwrap().as_bytes().to_vec();
            let ours = |pid: &i32| {
                let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                env.windows(dir.len()).any(|w| w == dir)
            };
            let pids = out.lines().filter_map(|l| l.parse().ok());
            pids.filter(ours).collect::<Vec<i32>>()
        };
        // The command on the other host; the job's own words hold the text, too.
        until_or(
            || sleeping().len() >= 3,
            || format!("{:?}\n{}", sleeping(), c.logs()),
        );
        let known = sleeping();
        c.ok("ckill", &["-r", &id.to_string()]);
        until_or(|| !known.iter().any(|pid| exists(*pid)), || c.logs());
    }
}

/// What a job holds on a host is given to the next job when nothing of the job is left there.
#[test]
fn the_next_job_starts_when_nothing_of_the_last_one_is_left_on_any_host() {
    for shape in ["--hosts 2 --slots 1", "--hosts 1 --slots 2"] {
        nothing_is_left_before_the_next_job(&Cluster::up(&format!("{shape} --masters 1")));
    }
}

fn nothing_is_left_before_the_next_job(c: &Cluster) {
    // Without the variables of the job it is found only by its group or its shepherd.
    let slow = c.work().join("slow.sh");
    let body = "trap '' HUP INT TERM; echo $$ >$1; while :; do sleep 0.2; done\n";
    std::fs::write(&slow, body).unwrap();
    for (n, killed) in [false, true].into_iter().enumerate() {
        let [pid, found] = ["pid", "found"].map(|name| c.work().join(format!("{name}.{n}")));
        let (slow, pid_file, found_file) = (slow.display(), pid.display(), found.display());
        let script = format!(
            "set -- $LSB_HOSTS; $LSF_BINDIR/claunch -n $2 env -i /bin/sh {slow} {pid_file} & \
             while ! [ -s {pid_file} ]; do sleep 0.1; done; [ {killed} = true ] && wait; exit 0"
        );
        let first = c.csub(&["-n", "2", &script]);
        until("the command runs", || !lines(&pid).is_empty());
        let script = format!(
            "kill -0 $(cat {pid_file}) 2>/dev/null && echo two >{found_file} || echo one >{found_file}"
        );
        c.csub(&["-n", "2", &script]);
        if killed {
            c.ok("ckill", &[&first.to_string()]);
        }
        until("the next job ran", || !lines(&found).is_empty());
        assert_eq!(lines(&found), ["one"], "{}", c.logs());
    }
    c.ok("cadmin", &["check"]);
}
