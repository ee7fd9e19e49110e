//! A development cluster for one test, made of the real programs: brought up in a directory of its
//! own, taken down with all its processes when the test ends, however it ends.

use crate::patience::{PATIENCE, find_or, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A running cluster.
pub struct Cluster {
    _tmp: tempfile::TempDir,
    dir: PathBuf,
    /// Its daemons read armed failpoints from a file, which costs them time.
    armed: bool,
}

/// One listed process.
#[derive(Clone, Debug)]
pub struct Process {
    pub role: String,
    pub host: String,
    pub pid: i32,
    pub leader: bool,
}

/// A built program where all users can run it: a clone below a directory that others cannot enter
/// has it copied to `dir`, which they can.
pub fn reachable(dir: &Path, built: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let built = Path::new(built);
    let passable = |p: &Path| {
        let mode = std::fs::metadata(p).map_or(0, |m| m.permissions().mode());
        mode & 0o001 != 0
    };
    if built.ancestors().all(passable) {
        return built.to_path_buf();
    }
    let copy = dir.join(built.file_name().expect("a program has a name"));
    if !copy.exists() {
        copy_program(built, &copy);
    }
    copy
}

/// Copies a program that is to be run. Not by this process: what another test starts meanwhile would
/// inherit the open copy for a moment, and a file that is open for writing cannot be run.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg(from).arg(to).status();
    assert!(copied.unwrap().success(), "{} is copied", from.display());
}

/// Builds what the other packages of the workspace hold, `--bins` or `--lib`, beside the programs of
/// this one: a test program is given only those of its own package.
pub fn build(what: &str) {
    let programs = Path::new(env!("CARGO_BIN_EXE_cb")).parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--quiet",
        "--locked",
        "--offline",
        "--workspace",
        what,
    ]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    cargo.arg("--target-dir").arg(programs.parent().unwrap());
    let done = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{what}: {}", text(&done));
}

impl Cluster {
    /// Brings a cluster up with the given options of `cadmin dev up`.
    pub fn up(options: &str) -> Cluster {
        let tmp = tempfile::tempdir().expect("a directory for the cluster");
        let dir = tmp.path().join("d");
        let cluster = Cluster {
            _tmp: tmp,
            dir,
            armed: false,
        };
        cluster.dev_up(options);
        cluster
    }

    /// The same with daemons in which failpoints can be armed (docs/faults.md).
    pub fn up_armed(options: &str) -> Cluster {
        let tmp = tempfile::tempdir().expect("a directory for the cluster");
        let dir = tmp.path().join("d");
        Cluster::armed_in(tmp, dir, options)
    }

    /// The same in a directory `dir` of the caller's, which is kept as long as `tmp`.
    pub fn armed_in(tmp: tempfile::TempDir, dir: PathBuf, options: &str) -> Cluster {
        let cluster = Cluster {
            _tmp: tmp,
            dir,
            armed: true,
        };
        cluster.arm("");
        cluster.dev_up(options);
        cluster
    }

    /// The same in a directory that `prepare` has filled beforehand.
    pub fn prepared(options: &str, prepare: impl FnOnce(&Path)) -> Cluster {
        let tmp = tempfile::tempdir().expect("a directory for the cluster");
        let dir = tmp.path().join("d");
        std::fs::create_dir(&dir).unwrap();
        prepare(&dir);
        let cluster = Cluster {
            _tmp: tmp,
            dir,
            armed: false,
        };
        cluster.dev_up(options);
        cluster
    }

    /// Arms failpoints in all daemons of the cluster, in the place of those armed before.
    pub fn arm(&self, rules: &str) {
        assert!(self.armed, "this cluster's daemons have no failpoints");
        let debug = cfg!(debug_assertions);
        assert!(
            debug || rules.is_empty(),
            "a release build has no failpoints"
        );
        let aside = self.rules().with_extension("new");
        std::fs::write(&aside, rules).unwrap();
        std::fs::rename(&aside, self.rules()).unwrap();
    }

    fn rules(&self) -> PathBuf {
        self._tmp.path().join("failpoints")
    }

    /// The leading process; waits for one.
    pub fn leader(&self) -> Process {
        let leader = || self.ps().into_iter().find(|p| p.leader);
        find_or(leader, || format!("nobody leads\n{}", self.logs()))
    }

    /// The log of a daemon: `cbsched.h1`.
    pub fn log(&self, name: &str) -> String {
        let path = self.dir.join("log").join(format!("{name}.log"));
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Runs `cadmin dev up` again.
    pub fn dev_up(&self, options: &str) {
        let dir = self.dir.to_str().expect("a path of plain characters");
        let patience = PATIENCE.as_secs().to_string();
        let mut words = vec!["cadmin", "dev", "up", "--dir", dir, "--timeout", &patience];
        words.extend(options.split_whitespace());
        let mut command = Command::new(env!("CARGO_BIN_EXE_cb"));
        if self.armed {
            command.env("CORRAL_FAIL", format!("@{}", self.rules().display()));
        }
        let out = command.args(&words).output().unwrap();
        assert!(
            out.status.success(),
            "{words:?}: {}\n{}",
            text(&out),
            self.logs()
        );
    }

    /// A directory for the files of the test's jobs.
    pub fn work(&self) -> PathBuf {
        let work = self.dir.join("work");
        std::fs::create_dir_all(&work).unwrap();
        work
    }

    /// The cluster's own directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory of a host's own state.
    pub fn local(&self, host: &str) -> PathBuf {
        self.dir.join("local").join(host)
    }

    /// The shared directory.
    pub fn share(&self) -> PathBuf {
        self.dir.join("share")
    }

    /// A command of the cluster, ready to run in the work directory.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.dir.join("bin").join(name));
        command
            .env("CB_ENVDIR", self.dir.join("etc"))
            .env("LC_ALL", "C")
            .current_dir(self.work());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, name: &str, args: &[&str]) -> Output {
        self.command(name).args(args).output().unwrap()
    }

    /// Runs a command that must succeed; gives its standard output.
    pub fn ok(&self, name: &str, args: &[&str]) -> String {
        let out = self.run(name, args);
        assert!(
            out.status.success(),
            "{name} {args:?}: {}\n{}",
            text(&out),
            self.logs()
        );
        String::from_utf8(out.stdout).unwrap()
    }

    /// The page of `cinfo -health`, whatever it says.
    pub fn health(&self) -> String {
        String::from_utf8(self.run("cinfo", &["-health"]).stdout).unwrap()
    }

    /// Submits; gives the job's id.
    pub fn csub(&self, args: &[&str]) -> u32 {
        let output = self.ok("csub", args);
        job_id(&output).unwrap_or_else(|| panic!("no job id in {output:?}"))
    }

    /// State words of all known jobs by id and index.
    pub fn states(&self) -> BTreeMap<(u32, u32), String> {
        let output = self.ok(
            "cjobs",
            &["-a", "-u", "all", "-noheader", "-o", "jobid jobindex stat"],
        );
        output.lines().filter_map(state_line).collect()
    }

    /// Waits until `done` holds for the states; panics with what they are when it does not.
    pub fn wait(
        &self,
        mut done: impl FnMut(&BTreeMap<(u32, u32), String>) -> bool,
    ) -> BTreeMap<(u32, u32), String> {
        let those = || Some(self.states()).filter(|states| done(states));
        find_or(those, || {
            let mut count: BTreeMap<String, u32> = BTreeMap::new();
            for state in self.states().into_values() {
                *count.entry(state).or_default() += 1;
            }
            format!("{count:?}\n{}", self.logs())
        })
    }

    /// Waits until job `id` is in one of these states.
    pub fn wait_for(&self, id: u32, stats: &[&str]) -> BTreeMap<(u32, u32), String> {
        self.wait(|states| {
            let stat = states.get(&(id, 0));
            stat.is_some_and(|stat| stats.contains(&stat.as_str()))
        })
    }

    /// The processes of the cluster.
    pub fn ps(&self) -> Vec<Process> {
        let dir = self.dir.to_str().unwrap();
        let output = self.ok("cadmin", &["dev", "ps", "--json", "--dir", dir]);
        let rows: Vec<Value> = serde_json::from_str(&output).unwrap();
        let word = |row: &Value, key: &str| row[key].as_str().unwrap().to_string();
        rows.iter()
            .map(|row| Process {
                role: word(row, "role"),
                host: word(row, "host"),
                pid: row["pid"].as_i64().unwrap() as i32,
                leader: row["leader"].as_bool().unwrap_or(false),
            })
            .collect()
    }

    /// Ends the cluster and keeps its directory.
    pub fn stop(&self) {
        let dir = self.dir.to_str().unwrap();
        self.ok("cadmin", &["dev", "down", "--dir", dir]);
    }

    /// Ends the cluster and removes its directory; nothing of it may be left.
    pub fn down(&self) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cb"));
        command
            .args(["cadmin", "dev", "down", "--purge", "--dir"])
            .arg(&self.dir)
            .output()
            .unwrap()
    }

    /// The ends of all daemons' logs, for a failing test's message.
    pub fn logs(&self) -> String {
        let mut out = String::new();
        for entry in std::fs::read_dir(self.dir.join("log"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let log = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(15)..];
            out += &format!(
                "--- {}\n{}\n",
                entry.file_name().to_string_lossy(),
                tail.join("\n")
            );
        }
        out
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.dir.exists() {
            let out = self.down();
            if !out.status.success() && !std::thread::panicking() {
                panic!("dev down: {}", text(&out));
            }
        }
    }
}

/// Has programs that are started from now on end by an interruption: a shell that started the tests
/// in the background has it ignored, which children inherit.
pub fn interruptible() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler is installed, and nothing in this process depends on the signal.
    unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }.unwrap();
}

/// Sends a signal that cannot be caught, and waits for its effect: a dying leader is still listed.
pub fn kill_9(pid: i32) {
    signal(pid, "-KILL");
    until("a killed process has ended", || {
        !exists(pid) && has_closed_its_files(pid)
    });
}

/// Whether all threads of a process have ended: the locks that it held are free by then.
fn has_closed_its_files(pid: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        state.is_none_or(|state| "ZX".contains(state))
    })
}

/// Sends a signal.
pub fn signal(pid: i32, name: &str) {
    assert!(name.starts_with('-'), "{name}: kill takes it for a process");
    let done = Command::new("kill")
        .args([name, &pid.to_string()])
        .output()
        .unwrap();
    drop(done); // a process that ended meanwhile is as good as killed
}

/// Whether a process of that id runs. One that has ended and is not reaped yet does not, nor one
/// that has given up its memory: the kernel of a busy machine closes its files seconds later.
pub fn exists(pid: i32) -> bool {
    let memory = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    memory
        .split(' ')
        .next()
        .is_some_and(|pages| !matches!(pages, "" | "0"))
}

/// The id in `Job <12> is submitted ...`.
pub fn job_id(output: &str) -> Option<u32> {
    output
        .lines()
        .find_map(|l| l.strip_prefix("Job <")?.split('>').next()?.parse().ok())
}

fn state_line(line: &str) -> Option<((u32, u32), String)> {
    let mut words = line.split_whitespace();
    let id = words.next()?.split('[').next()?.parse().ok()?;
    let index = words.next()?.parse().unwrap_or(0);
    Some(((id, index), words.next()?.to_string()))
}

/// Everything a command said.
pub fn text(out: &Output) -> String {
    format!(
        "{}\n{}{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    )
}

/// The lines of a file; none if it does not exist.
pub fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .map(String::from)
        .collect()
}
