//! The processes of a cluster as the machine shows them, without asking the cluster: by the marks in
//! their environment, as `cadmin dev` finds them, and by any mention of its directory.

use corral::record::leader::{EpochDoc, decode_fixed};
use std::path::{Path, PathBuf};

/// One process with the cluster's mark.
#[derive(Clone, Debug)]
pub struct Proc {
    pub pid: i32,
    pub ppid: i32,
    /// `leader`, `candidate`, `cbls`, `cbexe`, `spawner`, `shepherd`; others by program.
    pub role: String,
    /// Name of the daemon that it is or descends from.
    pub name: String,
}

fn read(pid: i32, what: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default()
}

fn variable(environ: &[u8], name: &str) -> Option<String> {
    let mut all = environ.split(|b| *b == 0);
    let found = all.find_map(|v| v.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    found.map(|v| String::from_utf8_lossy(v).into_owned())
}

fn pids() -> Vec<i32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect()
}

/// State letter and parent.
fn stat(pid: i32) -> Option<(char, i32)> {
    let text = String::from_utf8(read(pid, "stat")).ok()?;
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Resident kilobytes.
pub fn resident(pid: i32) -> Option<u64> {
    let status = String::from_utf8(read(pid, "status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Host and process of whoever holds the highest epoch.
pub fn leader(share: &Path) -> Option<(String, i32)> {
    let bytes = std::fs::read(share.join("leader/epoch")).ok()?;
    let doc: EpochDoc = decode_fixed(&bytes).ok()?;
    Some((doc.host, doc.pid as i32))
}

/// Every marked process: daemons, spawners, shepherds.
pub fn members(dir: &Path, share: &Path) -> Vec<Proc> {
    let leader = leader(share).map(|(_, pid)| pid);
    let one = |pid: i32| {
        let environ = read(pid, "environ");
        if variable(&environ, "CB_DEV").is_none_or(|d| Path::new(&d) != dir) {
            return None;
        }
        let (state, ppid) = stat(pid)?;
        if matches!(state, 'Z' | 'X') {
            return None;
        }
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let program = exe.file_name()?.to_string_lossy().into_owned();
        let spawner = read(pid, "cmdline")
            .split(|b| *b == 0)
            .any(|w| w == b"--spawner");
        let role = match program.as_str() {
            "cbsched" if Some(pid) == leader => "leader".to_owned(),
            "cbsched" => "candidate".to_owned(),
            "cbtask" if spawner => "spawner".to_owned(),
            "cbtask" => "shepherd".to_owned(),
            _ => program,
        };
        let name = variable(&environ, "CB_DEV_NAME").unwrap_or_default();
        Some(Proc {
            pid,
            ppid,
            role,
            name,
        })
    };
    let mut all: Vec<Proc> = pids().into_iter().filter_map(one).collect();
    // Children that a daemon forks for a moment are not daemons; shepherds fork off a spawner.
    let of = |pid: i32| all.iter().find(|p| p.pid == pid).map(|p| p.role.clone());
    let helpers: Vec<i32> = all
        .iter()
        .filter(|p| match (p.role.as_str(), of(p.ppid).as_deref()) {
            ("leader" | "candidate", Some("leader" | "candidate")) => true,
            (role @ ("cbls" | "cbexe"), Some(parent)) => role == parent,
            _ => false,
        })
        .map(|p| p.pid)
        .collect();
    // What a spawner forked carries its words, too, and outlives it under a name of its own.
    let is_shepherd = |p: &&Proc| match of(p.ppid).as_deref() {
        Some("spawner") => true,
        Some("cbexe") => false,
        _ => read(p.pid, "comm") == b"cbtask\n",
    };
    let forked: Vec<i32> = all
        .iter()
        .filter(|p| p.role == "spawner")
        .filter(is_shepherd)
        .map(|p| p.pid)
        .collect();
    for p in all.iter_mut().filter(|p| forked.contains(&p.pid)) {
        p.role = "shepherd".to_owned();
    }
    all.retain(|p| !helpers.contains(&p.pid));
    all
}

/// Every process, this one aside, that names the directory anywhere: command, environment, where it
/// stands, what it has open.
pub fn mentioning(dir: &Path) -> Vec<(i32, String)> {
    let text = dir.as_os_str().as_encoded_bytes();
    let names = |bytes: &[u8]| bytes.windows(text.len()).any(|w| w == text);
    let inside = |path: &str| std::fs::read_link(path).is_ok_and(|p: PathBuf| p.starts_with(dir));
    let me = std::process::id() as i32;
    let odd = |pid: i32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        names(&read(pid, "cmdline"))
            || names(&read(pid, "environ"))
            || inside(&format!("/proc/{pid}/cwd"))
            || open.flatten().any(|e| inside(&e.path().to_string_lossy()))
    };
    let alive = |pid: i32| stat(pid).is_some_and(|(s, _)| !matches!(s, 'Z' | 'X'));
    let words = |pid: i32| String::from_utf8_lossy(&read(pid, "cmdline")).replace('\0', " ");
    let all = pids()
        .into_iter()
        .filter(|pid| *pid != me && alive(*pid) && odd(*pid));
    all.map(|pid| (pid, words(pid))).collect()
}
