//! The processes of a development cluster. They are found by the mark that `up` puts into the
//! environment of the daemons and that their children inherit. Also the jobs below them.

use super::site::{Daemon, Site};
use crate::sys::{detach, proc, proc::ProcInfo};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Environment variable with the cluster's directory: every process that has it belongs to that
/// cluster.
pub(crate) const MARK: &str = "CB_DEV";
/// Environment variable with the name of the daemon that a process is, or descends from.
pub(crate) const MARK_NAME: &str = "CB_DEV_NAME";

/// The programs that `cadmin dev ps` lists.
const ROLES: [&str; 5] = ["cbsched", "cbls", "cbexe", "cbweb", "cbtask"];

/// One process with the cluster's mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub pid: i32,
    pub start: u64,
    pub ppid: i32,
    /// Program name.
    pub role: String,
    pub host: String,
    /// Name of the daemon that it is, or descends from.
    pub name: String,
    /// Whether it is the daemon itself, not a process started by it.
    pub daemon: bool,
}

impl Member {
    /// Whether `ps` lists it: daemons and shepherds, not their helpers.
    pub(crate) fn listed(&self) -> bool {
        self.daemon || self.role == "cbtask"
    }
}

/// All processes of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// Marked processes, daemons first, then by host and pid.
    pub members: Vec<Member>,
    /// Processes of jobs: below a shepherd, or left over from one.
    pub jobs: Vec<ProcInfo>,
}

impl Processes {
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.jobs.is_empty()
    }

    /// The running process of a daemon.
    pub(crate) fn daemon(&self, daemon: &Daemon) -> Option<&Member> {
        self.members
            .iter()
            .find(|m| m.daemon && m.name == daemon.name)
    }
}

/// Searches the processes of this machine.
pub(crate) fn find(site: &Site) -> Processes {
    let all: Vec<ProcInfo> = proc::all()
        .into_iter()
        .filter(|p| !matches!(p.state, 'Z' | 'X'))
        .collect();
    let me = std::process::id() as i32;
    let mut processes = Processes::default();
    let mut roots = Vec::new();
    for p in all.iter().filter(|p| p.pid != me) {
        match membership(site, p) {
            Membership::Member(m) => processes.members.push(m),
            Membership::Job => roots.push(p.pid),
            Membership::No => {}
        }
    }
    mark_daemons(&mut processes.members);
    let shepherds = processes
        .members
        .iter()
        .filter(|m| m.role == "cbtask")
        .map(|m| m.pid);
    roots.extend(shepherds.clone());
    let sessions: Vec<i32> = all
        .iter()
        .filter(|p| roots.contains(&p.pid))
        .map(|p| p.session)
        .filter(|s| roots.contains(s))
        .collect();
    let below = proc::descendants(&all, &roots);
    let known: Vec<i32> = processes.members.iter().map(|m| m.pid).collect();
    processes.jobs = all
        .into_iter()
        .filter(|p| {
            let of_job =
                below.contains(&p.pid) || roots.contains(&p.pid) || sessions.contains(&p.session);
            of_job && !known.contains(&p.pid) && p.pid != me
        })
        .collect();
    processes
        .members
        .sort_by_key(|m| (!m.daemon, rank(&m.role), m.host.clone(), m.pid));
    processes
}

fn rank(role: &str) -> usize {
    ROLES.iter().position(|r| *r == role).unwrap_or(ROLES.len())
}

enum Membership {
    Member(Member),
    Job,
    No,
}

fn membership(site: &Site, p: &ProcInfo) -> Membership {
    let env = detach::environment(p.pid);
    let get = |name: &str| {
        env.iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_os_str())
    };
    let text = |name: &str| get(name).map(|v| v.to_string_lossy().into_owned());
    if get(MARK) == Some(site.dir.as_os_str()) {
        return Membership::Member(Member {
            pid: p.pid,
            start: p.start,
            ppid: p.ppid,
            role: detach::program_name(p.pid).unwrap_or_default(),
            host: text("CB_HOST").unwrap_or_default(),
            name: text(MARK_NAME).unwrap_or_default(),
            daemon: false,
        });
    }
    // A job whose shepherd was killed can no longer be found by its parent, but by its environment.
    let inside = |dir: &OsStr| Path::new(OsStr::from_bytes(dir.as_bytes())).starts_with(&site.dir);
    match (get("CB_JOBID"), get("CB_ENVDIR")) {
        (Some(_), Some(dir)) if inside(dir) => Membership::Job,
        _ => Membership::No,
    }
}

/// Marks the daemons: marked processes whose program matches their name, unless their parent is the
/// daemon of that name.
fn mark_daemons(members: &mut [Member]) {
    let own: Vec<(i32, String)> = members
        .iter()
        .filter(|m| m.name.split('.').next() == Some(m.role.as_str()))
        .map(|m| (m.pid, m.name.clone()))
        .collect();
    for m in members {
        let program = own.iter().any(|(pid, _)| *pid == m.pid);
        let child = own
            .iter()
            .any(|(pid, name)| *pid == m.ppid && *name == m.name);
        m.daemon = program && !child;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(pid: i32, ppid: i32, role: &str, name: &str) -> Member {
        Member {
            pid,
            ppid,
            start: 1,
            role: role.into(),
            host: "h1".into(),
            name: name.into(),
            daemon: false,
        }
    }

    #[test]
    fn helpers_of_a_daemon_are_not_the_daemon() {
        let mut all = [
            member(10, 1, "cbexe", "cbexe.h1"),
            member(11, 10, "cbexe", "cbexe.h1"),
            member(12, 11, "cbtask", "cbexe.h1"),
            member(13, 1, "cbls", "cbls.h1"),
        ];
        mark_daemons(&mut all);
        let listed: Vec<i32> = all.iter().filter(|m| m.listed()).map(|m| m.pid).collect();
        assert_eq!(listed, [10, 12, 13]);
        assert!(all[0].daemon && !all[2].daemon);
    }
}
