//! Commands whose share does not answer: a call on a file of the share is held in the kernel, by a
//! pipe that nobody has opened for writing, until the test lets it go.

use crate::cluster::{Cluster, interruptible};
use crate::patience::{PATIENCE, until_or};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// What a development build says before it hangs.
const HANGS: &str = "failpoint sys.any@";

/// A command that is held at its first call on a path that contains `part`.
struct Hung {
    child: Child,
    pipe: PathBuf,
    /// What it has said so far.
    stderr: PathBuf,
    began: Instant,
}

impl Hung {
    fn start(cluster: &Cluster, n: usize, part: &str, words: &[&str]) -> Hung {
        interruptible();
        let pipe = cluster.work().join(format!("pipe{n}"));
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&pipe, mode).unwrap();
        let mut command = cluster.command(words[0]);
        let rule = format!("sys.any@{part}#1=hang:{}", pipe.display());
        command.args(&words[1..]).env("CORRAL_FAIL", rule);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let stderr = cluster.work().join(format!("stderr{n}"));
        let file = std::fs::File::create(&stderr).unwrap();
        let child = command.stderr(file).spawn().unwrap();
        Hung {
            child,
            pipe,
            stderr,
            began: Instant::now(),
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap()
    }

    /// Waits until it has said this.
    fn until(&self, words: &str) {
        let so = || self.said().contains(words);
        until_or(so, || format!("no {words:?} in {}", self.said()));
    }

    /// Lets it go on once it has said this; what it said.
    fn released_after(self, words: &str) -> (Option<i32>, String, Duration) {
        self.until(words);
        // Fails when nobody waits any more.
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut open = std::fs::File::options();
        let let_go = open.write(true).custom_flags(libc::O_NONBLOCK);
        drop(let_go.open(&self.pipe));
        self.ended()
    }

    fn ended(mut self) -> (Option<i32>, String, Duration) {
        // Nobody reads what it prints: none of these commands fills a pipe.
        let status = self.child.wait().unwrap();
        let code = status.code();
        let code = code.or_else(|| status.signal().map(|n| 128 + n));
        (code, self.said(), self.began.elapsed())
    }
}

#[test]
fn every_command_tells_of_a_share_that_hangs_and_goes_on_with_it() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let id = cluster.csub(&["sleep 1000"]).to_string();
    let share = cluster.share();
    let lines: [&[&str]; 8] = [
        &["cjobs"],
        &["cqueues"],
        &["chosts"],
        &["cid"],
        &["csub", "true"],
        &["ckill", &id],
        &["cadmin", "check"],
        &["cadmin", "qopen", "normal"],
    ];
    let start = |(n, words): (usize, &&[&str])| Hung::start(&cluster, n, "/share/", words);
    let hung: Vec<Hung> = lines.iter().enumerate().map(start).collect();
    for (words, hung) in lines.iter().zip(hung) {
        let (code, output, time) = hung.released_after("answered for 5 s; waiting");
        let notice = format!("{}: the share {} has not", words[0], share.display());
        assert!(output.contains(&notice), "{words:?} said: {output}");
        assert!(time >= Duration::from_secs(5), "{words:?}: {time:?}");
        assert_eq!(code, Some(0), "{words:?}: {output}");
    }
}

#[test]
fn a_share_that_hangs_ends_no_later_than_wait_says_and_interruptions_work() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let at_most = Hung::start(&cluster, 1, "/share/", &["csub", "-wait", "3", "true"]);
    let view = Hung::start(&cluster, 2, "/share/", &["cjobs"]);
    view.until(HANGS);
    interrupt(&view.child);
    let (code, _, _) = view.ended();
    assert_eq!(code, Some(130), "it ends by the signal at once");
    let (code, output, time) = at_most.ended();
    assert_eq!(code, Some(5), "{output}");
    assert!(output.contains("has not answered for 3 s"), "{output}");
    assert!(time < PATIENCE, "{time:?}");
    // One that catches interruptions, since it waits for its answer already.
    let leader = cluster.leader().pid;
    let leader = nix::unistd::Pid::from_raw(leader);
    nix::sys::signal::kill(leader, nix::sys::signal::SIGSTOP).unwrap();
    let waits = Hung::start(&cluster, 3, "leader/beat", &["csub", "true"]);
    waits.until(HANGS);
    std::thread::sleep(Duration::from_secs(1));
    interrupt(&waits.child);
    let (code, output, _) = waits.ended();
    nix::sys::signal::kill(leader, nix::sys::signal::SIGCONT).unwrap();
    assert_eq!(code, Some(130), "{output}");
    assert!(output.contains("interrupted while the share"), "{output}");
}

fn interrupt(child: &Child) {
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).unwrap();
}
