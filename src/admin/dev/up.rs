//! `cadmin dev up`: starts the daemons that are not running and waits until the cluster is ready.

use super::processes::{self, MARK, MARK_NAME, Processes};
use super::progress::ProgressLines;
use super::ready::{self, Readiness};
use super::site::{Daemon, Site};
use crate::client::Fail;
use crate::language::answer;
use crate::sys::detach::{self, Background};
use crate::sys::{clock, failpoint, fs, proc};
use crate::text::count::count;
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Child;

const POLL_MS: u64 = 50;
/// Number of bytes shown of the log of a daemon that has ended.
const LOG_TAIL: usize = 2000;
/// Variables of the caller that daemons keep; all others are removed.
const KEPT_VARIABLES: [&str; 10] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "CB_LOG",
    "SSL_CERT_FILE",
    "RUST_BACKTRACE",
];

/// A started daemon, as written to D/run/<name>.json for administrators and scripts.
#[derive(Serialize, Debug)]
struct DaemonRecord<'a> {
    role: &'a str,
    host: &'a str,
    pid: i32,
    /// Clock ticks after boot: distinguishes it from a later process with the same pid.
    start: u64,
    boot: &'a str,
}

/// Starts the daemons that are not running, then waits until the cluster is ready, at most
/// `wait_ms`; with `None` it does not wait.
///
/// # Errors
/// A daemon cannot be started or ends during the wait, or the cluster is not ready in time.
pub(crate) fn up(site: &Site, wait_ms: Option<u64>) -> Result<(), Fail> {
    let _lock = site.lock()?;
    let bin = detach::own_directory()?;
    let processes = processes::find(site);
    let mut started = Vec::new();
    for daemon in site.settings.daemons() {
        if processes.daemon(&daemon).is_none() {
            let child = start(site, &bin, &daemon)?;
            started.push((daemon, child));
        }
    }
    let Some(timeout_ms) = wait_ms else {
        answer!("{} started.", count(started.len(), "daemon"));
        return Ok(());
    };
    let mut lines = ProgressLines::new();
    let progress = wait(site, &mut started, timeout_ms, &mut lines);
    lines.clear();
    let progress = progress?;
    answer!(
        "Cluster in {} is up: leader on {}, {} ok, {} started.",
        site.dir.display(),
        progress.leader.unwrap_or_default(),
        count(progress.hosts.len(), "host"),
        count(started.len(), "daemon")
    );
    Ok(())
}

/// Starts one daemon.
///
/// # Errors
/// Names the program or file that could not be started or written.
pub(crate) fn start(site: &Site, bin: &Path, daemon: &Daemon) -> Result<Child, Fail> {
    let mut env: Vec<(String, OsString)> = KEPT_VARIABLES
        .iter()
        .chain(failpoint::VARIABLES)
        .filter_map(|name| Some((name.to_string(), std::env::var_os(name)?)))
        .collect();
    env.push(("CB_ENVDIR".into(), site.host_etc(&daemon.host).into()));
    env.push(("CB_HOST".into(), daemon.host.clone().into()));
    env.push((MARK.into(), site.dir.clone().into()));
    env.push((MARK_NAME.into(), daemon.name.clone().into()));
    let background = Background {
        program: program(bin, daemon.role),
        env,
        dir: site.dir.clone(),
        log: site.log(daemon),
    };
    let child = background.start()?;
    let pid = child.id() as i32;
    let record = DaemonRecord {
        role: daemon.role,
        host: &daemon.host,
        pid,
        start: proc::start_ticks(pid).unwrap_or(0),
        boot: proc::boot_id(),
    };
    let text = serde_json::to_string(&record).map_err(|e| Fail::system(e.to_string()))?;
    fs::publish(
        &site.records().join(format!("{}.json", daemon.name)),
        text.as_bytes(),
    )?;
    Ok(child)
}

/// The program of a daemon: beside the commands, as built, or in the directory sbin beside theirs,
/// as installed.
pub(super) fn program(bin: &Path, role: &str) -> PathBuf {
    let installed = fs::parent(bin).join("sbin").join(role);
    let sibling = bin.join(role);
    if !fs::exists(&sibling) && fs::exists(&installed) {
        installed
    } else {
        sibling
    }
}

fn wait(
    site: &Site,
    started: &mut [(Daemon, Child)],
    timeout_ms: u64,
    lines: &mut ProgressLines,
) -> Result<Readiness, Fail> {
    let layout = site.layout();
    let begin = clock::boot_ms();
    let end = begin.saturating_add(timeout_ms);
    let line = lines.add(String::new(), 1 + site.settings.hosts);
    loop {
        if let Some(fail) = ended(site, started) {
            return Err(fail);
        }
        let processes: Processes = processes::find(site);
        let progress = ready::observe(&layout, &site.settings, &processes);
        let text = format!(
            "{} ({} s)",
            progress.missing(),
            (clock::boot_ms() - begin) / 1000
        );
        lines.set(line, progress.steps(), text);
        lines.draw();
        if progress.complete() {
            return Ok(progress);
        }
        if clock::boot_ms() > end {
            return Err(Fail::system(format!(
                "{}: not ready after {} s: {}\nhint: the logs are in {}",
                site.dir.display(),
                timeout_ms / 1000,
                progress.missing(),
                site.logs().display()
            )));
        }
        clock::sleep_ms(POLL_MS);
    }
}

/// The failure of a daemon that this call started and that has ended.
fn ended(site: &Site, started: &mut [(Daemon, Child)]) -> Option<Fail> {
    for (daemon, child) in started {
        let Ok(Some(status)) = child.try_wait() else {
            continue;
        };
        let log = site.log(daemon);
        let size = fs::stat(&log).ok().flatten().map_or(0, |s| s.len);
        let tail = fs::read_from(&log, size.saturating_sub(LOG_TAIL as u64), LOG_TAIL);
        let tail = tail.map(|c| c.bytes).unwrap_or_default();
        return Some(Fail::system(format!(
            "{} ended ({status}); the end of {}:\n{}",
            daemon.name,
            log.display(),
            String::from_utf8_lossy(&tail).trim_end()
        )));
    }
    None
}
