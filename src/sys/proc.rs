//! Processes: liveness, descendants, signals, usage.
//!
//! Owns reading of `/proc` and sending of signals. A process is identified by pid *and* start ticks
//! *and* boot id, because pids are reused.

use super::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const STAT_LIMIT: u64 = 4096;

/// The kernel's id of this boot; empty when it gives none.
pub fn boot_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    if let Some(machine) = super::platform::here() {
        return machine.boot_id();
    }
    ID.get_or_init(|| {
        let bytes = super::fs::read_small(Path::new("/proc/sys/kernel/random/boot_id"), 100);
        String::from_utf8_lossy(&bytes.unwrap_or_default())
            .trim()
            .to_string()
    })
}

/// The parent of this process; once the parent has ended, another process.
pub fn parent() -> i32 {
    nix::unistd::getppid().as_raw()
}

/// The id of this process.
pub fn own_pid() -> u32 {
    super::platform::here().map_or_else(std::process::id, |machine| machine.pid())
}

/// The content of `/proc/<pid>/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcInfo {
    /// Process id.
    pub pid: i32,
    /// Parent process id.
    pub ppid: i32,
    /// Process group.
    pub pgrp: i32,
    /// Session.
    pub session: i32,
    /// State letter: R, S, D, T, Z ...
    pub state: char,
    /// CPU time in user mode, clock ticks.
    pub utime: u64,
    /// CPU time in the kernel, clock ticks.
    pub stime: u64,
    /// CPU time of ended children that were waited for, including that of their own children, clock
    /// ticks.
    pub children_time: u64,
    /// Threads.
    pub threads: u32,
    /// Start, clock ticks after boot.
    pub start: u64,
    /// Resident memory, bytes.
    pub rss: u64,
}

/// Clock ticks per second of the values in `/proc`.
pub fn ticks_per_second() -> u64 {
    static HZ: OnceLock<u64> = OnceLock::new();
    // SAFETY: sysconf reads a constant of the system.
    *HZ.get_or_init(|| unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64)
}

fn page_size() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    // SAFETY: sysconf reads a constant of the system.
    *SIZE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64)
}

/// Reads the facts of one process; `None` if no process has this id.
pub fn info(pid: i32) -> Option<ProcInfo> {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let bytes = super::fs::read_small(&path, STAT_LIMIT).ok()?;
    parse_stat(&String::from_utf8_lossy(&bytes))
}

/// Parses the text of `/proc/<pid>/stat`.
pub(super) fn parse_stat(text: &str) -> Option<ProcInfo> {
    // The command's name is in parentheses and may contain any character, so the last one ends it.
    let open = text.find('(')?;
    let close = text.rfind(')')?;
    let pid = text[..open].trim().parse().ok()?;
    let f: Vec<&str> = text[close + 1..].split_whitespace().collect();
    let num = |i: usize| f.get(i).and_then(|s| s.parse::<i64>().ok());
    Some(ProcInfo {
        pid,
        state: f.first()?.chars().next()?,
        ppid: num(1)? as i32,
        pgrp: num(2)? as i32,
        session: num(3)? as i32,
        utime: num(11)? as u64,
        stime: num(12)? as u64,
        children_time: (num(13)? + num(14)?) as u64,
        threads: num(17)? as u32,
        start: f.get(19)?.parse().ok()?,
        rss: num(21)?.max(0) as u64 * page_size(),
    })
}

/// The start of a process in clock ticks after boot; `None` when it is gone.
pub fn start_ticks(pid: i32) -> Option<u64> {
    if super::platform::simulated() {
        return None;
    }
    info(pid).map(|i| i.start)
}

/// True when the process with that id *and* start still runs (a zombie does not).
pub fn alive(pid: i32, start: u64) -> bool {
    info(pid).is_some_and(|i| i.start == start && i.state != 'Z' && i.state != 'X')
}

/// When this process began according to the kernel, ms of the boot-time clock: the clock, read
/// after a fork, may be late by the time for which the machine was busy.
pub fn own_birth_ms() -> u64 {
    let bytes = super::fs::read_small(Path::new("/proc/self/stat"), STAT_LIMIT).ok();
    let own = bytes.and_then(|b| parse_stat(&String::from_utf8_lossy(&b)));
    own.map_or_else(super::clock::boot_ms, |i| birth_ms(&i))
}

/// The same for a process that was forked after `before`, ms of that clock. Asking the kernel takes
/// 40 us of processor time, a thirtieth of a short task, so it is only asked if `before` is not
/// precise enough.
pub fn forked_birth_ms(before: u64) -> u64 {
    let now = super::clock::boot_ms();
    match now.saturating_sub(before) <= BIRTH_MS / 3 {
        true => before,
        false => own_birth_ms(),
    }
}

/// If two start times differ by this much, they belong to different processes (ms).
const BIRTH_MS: u64 = 1_500;

fn birth_ms(i: &ProcInfo) -> u64 {
    i.start.saturating_mul(1000) / ticks_per_second()
}

/// True if it is certain that the process with this id that began at `born_ms` of the boot-time
/// clock has ended; a recorded `born_ms` may be late. A process that may not be inspected
/// (`hidepid`), or cannot for lack of descriptors, is not considered ended.
pub fn has_ended(pid: i32, born_ms: u64) -> bool {
    if let Some(machine) = super::platform::here() {
        return !machine.began_at(pid, born_ms);
    }
    // No task has one of these ids.
    pid <= 1 || is_over(info(pid), || !matches!(kill(pid, 0), Ok(false)), born_ms)
}

/// `process`: what could be read of the process; `exists`: whether some process has its id.
fn is_over(process: Option<ProcInfo>, exists: impl Fn() -> bool, born_ms: u64) -> bool {
    match process {
        Some(i) => matches!(i.state, 'Z' | 'X') || birth_ms(&i).abs_diff(born_ms) >= BIRTH_MS,
        None => !exists(),
    }
}

/// Processes whose environment has every one of these `NAME=value` entries.
pub fn with_environment(wanted: &[String]) -> Vec<i32> {
    if super::platform::simulated() {
        return Vec::new();
    }
    let has = |pid: i32| {
        let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let entries: Vec<&[u8]> = bytes.split(|b| *b == 0).collect();
        wanted.iter().all(|w| entries.contains(&w.as_bytes()))
    };
    all()
        .into_iter()
        .map(|p| p.pid)
        .filter(|pid| has(*pid))
        .collect()
}

/// Values of variables that a process was started with; `None` for one that it lacks, or when they
/// cannot be read.
pub fn variables<const N: usize>(pid: i32, names: [&str; N]) -> [Option<String>; N] {
    if super::platform::simulated() {
        return names.map(|_| None);
    }
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    names.map(|name| {
        let value = |entry: &[u8]| {
            let rest = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(rest).into_owned())
        };
        bytes.split(|b| *b == 0).find_map(value)
    })
}

/// All processes of the machine that can be seen.
pub fn all() -> Vec<ProcInfo> {
    if super::platform::simulated() {
        return Vec::new();
    }
    let Ok(dir) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    dir.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(info)
        .collect()
}

/// Those of `all` that descend from one of `roots` (the roots themselves not included).
pub fn descendants(all: &[ProcInfo], roots: &[i32]) -> Vec<i32> {
    let mut found: Vec<i32> = Vec::new();
    let mut layer: Vec<i32> = roots.to_vec();
    while !layer.is_empty() {
        let next: Vec<i32> = all
            .iter()
            .filter(|p| layer.contains(&p.ppid) && !found.contains(&p.pid))
            .map(|p| p.pid)
            .filter(|pid| !roots.contains(pid))
            .collect();
        found.extend(&next);
        layer = next;
    }
    found
}

/// The children of `pid`, read from the kernel's own list where it has one.
pub fn children(pid: i32) -> Vec<i32> {
    let path = PathBuf::from(format!("/proc/{pid}/task/{pid}/children"));
    match super::fs::read_small(&path, 1 << 20) {
        Ok(bytes) => String::from_utf8_lossy(&bytes)
            .split_whitespace()
            .filter_map(|s| s.parse().ok())
            .collect(),
        Err(_) => all()
            .iter()
            .filter(|p| p.ppid == pid)
            .map(|p| p.pid)
            .collect(),
    }
}

/// Sends a signal to one process. `Ok(false)` when it is gone.
pub fn kill(pid: i32, signal: i32) -> Result<bool> {
    assert!(pid > 1, "signal to a special pid {pid}");
    send(pid, signal)
}

/// Sends a signal to a process group. `Ok(false)` when it has no process.
pub fn killpg(pgrp: i32, signal: i32) -> Result<bool> {
    assert!(pgrp > 1, "signal to a special process group {pgrp}");
    send(-pgrp, signal)
}

fn send(target: i32, signal: i32) -> Result<bool> {
    // SAFETY: plain call with integers.
    if unsafe { libc::kill(target, signal) } == 0 {
        return Ok(true);
    }
    let e = std::io::Error::last_os_error();
    match e.raw_os_error() {
        Some(libc::ESRCH) => Ok(false),
        _ => Err(Error::new(
            "signal",
            &PathBuf::from(format!("pid {target}")),
            e,
        )),
    }
}

/// The command line of a process, words separated by blanks; empty when it cannot be read.
pub fn command_line(pid: i32) -> String {
    let path = PathBuf::from(format!("/proc/{pid}/cmdline"));
    let bytes = super::fs::read_from(&path, 0, 0)
        .ok()
        .and_then(|_| std::fs::read(&path).ok());
    let words = bytes.unwrap_or_default();
    let words: Vec<_> = words
        .split(|b| *b == 0)
        .map(String::from_utf8_lossy)
        .collect();
    words.join(" ").trim().to_string()
}

/// Bytes that a process read from and wrote to storage (`/proc/<pid>/io`); zeros when not readable.
pub fn io_bytes(pid: i32) -> (u64, u64) {
    let path = PathBuf::from(format!("/proc/{pid}/io"));
    let bytes = super::fs::read_small(&path, STAT_LIMIT).unwrap_or_default();
    storage_bytes(&String::from_utf8_lossy(&bytes))
}

/// The same from the text of that file, whose rchar and wchar count pipes, devices and reads from
/// the page cache as well.
fn storage_bytes(text: &str) -> (u64, u64) {
    let get = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(key));
        line.and_then(|v| v.trim().parse().ok()).unwrap_or(0)
    };
    (get("read_bytes:"), get("write_bytes:"))
}

/// The swap used by a process, bytes (`VmSwap`); 0 when not readable.
pub fn swap_bytes(pid: i32) -> u64 {
    let path = PathBuf::from(format!("/proc/{pid}/status"));
    let bytes = super::fs::read_small(&path, 64 << 10).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let line = text.lines().find_map(|l| l.strip_prefix("VmSwap:"));
    let kb = line.and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok());
    kb.unwrap_or(0) * 1024
}

/// Kills this process's child when it dies: asks the kernel to send `signal` to the *calling*
/// process when its parent thread ends.
pub fn die_with_parent(signal: i32) {
    // SAFETY: prctl with integer arguments.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
}

/// Ends this process at once, without destructors.
pub fn exit_now(code: i32) -> ! {
    if let Some(machine) = super::platform::here() {
        machine.exit(code);
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_alive_with_its_start_only() {
        let me = std::process::id() as i32;
        let start = start_ticks(me).unwrap();
        assert!(alive(me, start));
        assert!(!alive(me, start + 1));
        assert_eq!(boot_id().len(), 36);
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_has_not_ended() {
        let (me, started_ms) = (std::process::id() as i32, own_birth_ms());
        let seen = || info(me);
        let other = seen().map(|i| ProcInfo { state: 'Z', ..i });
        assert!(!is_over(None, || true, started_ms) && is_over(None, || false, started_ms));
        assert!(!is_over(seen(), || true, started_ms) && is_over(other, || true, started_ms));
        assert!(is_over(seen(), || true, started_ms + 1_500));
        // By the clock, this process would be as old as this test.
        assert!(!has_ended(me, started_ms) && has_ended(me, started_ms + 1_500));
        assert_eq!(
            started_ms,
            seen().unwrap().start * 1000 / ticks_per_second()
        );
        let now = super::super::clock::boot_ms();
        assert_eq!(forked_birth_ms(now), now);
        assert_eq!(forked_birth_ms(now.saturating_sub(9_000)), started_ms);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(has_ended(child.id() as i32, super::super::clock::boot_ms()));
    }

    #[test]
    fn input_and_output_are_those_of_storage() {
        let text = "rchar: 9000\nwchar: 8000\nsyscr: 7\nsyscw: 6\nread_bytes: 4096\n\
                    write_bytes: 12288\ncancelled_write_bytes: 512\n";
        assert_eq!(storage_bytes(text), (4096, 12288));
        assert_eq!(storage_bytes(""), (0, 0));
    }

    #[test]
    fn a_name_with_brackets_and_blanks_is_parsed() {
        let rest = "S 1 10 11 0 -1 4194560 1 2 3 4 55 66 0 0 20 0 3 0 777 1000 5";
        let p = parse_stat(&format!("42 (a ) (b c) {rest}")).unwrap();
        assert_eq!((p.pid, p.ppid, p.pgrp, p.session), (42, 1, 10, 11));
        assert_eq!((p.utime, p.stime, p.threads, p.start), (55, 66, 3, 777));
    }

    #[test]
    fn a_child_is_found_killed_and_gone() {
        let mut c = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = c.id() as i32;
        let me = std::process::id() as i32;
        assert!(descendants(&all(), &[me]).contains(&pid));
        assert!(kill(pid, libc::SIGKILL).unwrap());
        c.wait().unwrap();
        assert!(!kill(pid, 0).unwrap());
    }
}
