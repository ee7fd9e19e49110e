//! `cadmin hstartup` and its processes: starting and stopping daemons.
//!
//! In a development cluster, daemons are found by their marks and started as by `cadmin dev up`.
//! Elsewhere, daemons belong to the service manager of their host: Corral has no remote execution
//! of its own and prints the command to run there.

use super::dev::processes::{self, Member};
use super::dev::site::{Daemon, Site};
use super::dev::up;
use crate::client::env;
use crate::client::exit::{Exit, Fail, Result};
use crate::language::{answer, tell};
use crate::sys::{clock, detach, proc};
use std::path::{Path, PathBuf};

/// How long to wait for a daemon to end, ms.
const STOP_MS: u64 = 15_000;
const POLL_MS: u64 = 20;
/// Number of directories above CB_ENVDIR that are searched for a development cluster.
const LEVELS: usize = 4;
const SIGTERM: i32 = 15;

/// The action on a daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DaemonAction {
    Start,
    Stop,
    Restart,
}

impl DaemonAction {
    fn verb(self) -> &'static str {
        match self {
            DaemonAction::Start => "start",
            DaemonAction::Stop => "stop",
            DaemonAction::Restart => "restart",
        }
    }
}

/// Acts on the daemons of one role on the named hosts (none: this host; `all`).
///
/// # Errors
/// Outside of a development cluster, for an unknown host, or if a daemon does not end or start.
pub(super) fn control(role: &'static str, act: DaemonAction, names: &[String]) -> Result<i32> {
    let environment = env::Site::find()?;
    let Some(site) = dev_site(&environment.conf) else {
        return Err(refusal(role, act, names, &environment.host));
    };
    let _lock = site.lock()?;
    let mut exit = Exit::Ok;
    for daemon in selected_daemons(&site.settings.daemons(), role, names, &environment.host)? {
        if let Err(fail) = control_one(&site, &daemon, act) {
            tell!("cadmin: Host <{}>: {}", daemon.host, fail.text);
            exit = exit.worst(fail.exit);
        }
    }
    Ok(exit.code())
}

/// The development cluster to which a cb.conf belongs.
pub(super) fn dev_site(conf: &Path) -> Option<Site> {
    let conf = crate::sys::fs::canonical(conf).ok()?;
    let above: Vec<PathBuf> = conf
        .ancestors()
        .skip(1)
        .take(LEVELS)
        .map(Into::into)
        .collect();
    above.iter().find_map(|dir| Site::open(dir).ok())
}

fn refusal(role: &str, act: DaemonAction, names: &[String], this_host: &str) -> Fail {
    let hosts = match names {
        [] => this_host.to_owned(),
        names => names.join(", "),
    };
    Fail::refused(format!(
        "daemons are not {}ed from here: Corral has no remote execution\n\
         hint: on {hosts} type: systemctl {} {role}",
        match act {
            DaemonAction::Stop => "stopp",
            other => other.verb(),
        },
        act.verb()
    ))
}

/// The daemons of `role` on the named hosts.
fn selected_daemons(
    all: &[Daemon],
    role: &str,
    names: &[String],
    this_host: &str,
) -> Result<Vec<Daemon>> {
    let ours: Vec<&Daemon> = all.iter().filter(|d| d.role == role).collect();
    if names.iter().any(|n| n == "all") {
        return Ok(ours.into_iter().cloned().collect());
    }
    let own = [this_host.to_owned()];
    let names = if names.is_empty() { &own[..] } else { names };
    let mut found = Vec::new();
    for name in names {
        let on: Vec<&&Daemon> = ours.iter().filter(|d| d.host == *name).collect();
        if on.is_empty() {
            let hosts: Vec<&str> = ours.iter().map(|d| d.host.as_str()).collect();
            return Err(Fail::not_found(format!(
                "no {role} belongs to host {name}\nhint: {role} runs on {}",
                hosts.join(" ")
            )));
        }
        found.extend(on.into_iter().map(|d| (*d).clone()));
    }
    Ok(found)
}

fn control_one(site: &Site, daemon: &Daemon, act: DaemonAction) -> Result<()> {
    let running = processes::find(site).daemon(daemon).cloned();
    let what = |text: &str| answer!("Host <{}>: {} {text}", daemon.host, daemon.role);
    if act == DaemonAction::Start {
        if let Some(member) = running {
            what(&format!("already runs (pid {})", member.pid));
            return Ok(());
        }
    } else {
        match running {
            Some(member) => stop(&member)?,
            None if act == DaemonAction::Stop => {
                what("does not run");
                return Ok(());
            }
            None => {}
        }
    }
    if act == DaemonAction::Stop {
        what("is stopped");
        return Ok(());
    }
    let child = up::start(site, &detach::own_directory()?, daemon)?;
    what(&format!("is started (pid {})", child.id()));
    Ok(())
}

fn stop(member: &Member) -> Result<()> {
    proc::kill(member.pid, SIGTERM)?;
    let until = clock::boot_ms() + STOP_MS;
    while proc::alive(member.pid, member.start) {
        if clock::boot_ms() >= until {
            return Err(Fail::system(format!(
                "{} (pid {}) did not end within {} s of SIGTERM",
                member.role,
                member.pid,
                STOP_MS / 1000
            )));
        }
        clock::sleep_ms(POLL_MS);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemons() -> Vec<Daemon> {
        [
            ("cbls", "h1"),
            ("cbexe", "h1"),
            ("cbls", "h2"),
            ("cbsched", "h1"),
        ]
        .into_iter()
        .map(|(role, host)| Daemon {
            role,
            host: host.into(),
            name: format!("{role}.{host}"),
        })
        .collect()
    }

    fn names(role: &str, words: &[&str]) -> Result<Vec<String>> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let found = selected_daemons(&daemons(), role, &words, "h1")?;
        Ok(found.into_iter().map(|d| d.name).collect())
    }

    #[test]
    fn hosts_choose_daemons() {
        assert_eq!(names("cbls", &["all"]).unwrap(), ["cbls.h1", "cbls.h2"]);
        assert_eq!(names("cbls", &[]).unwrap(), ["cbls.h1"]);
        assert_eq!(names("cbls", &["h2"]).unwrap(), ["cbls.h2"]);
        assert_eq!(names("cbsched", &["h2"]).unwrap_err().exit, Exit::NotFound);
    }

    #[test]
    fn outside_a_development_cluster_the_command_is_named() {
        let d = tempfile::tempdir().unwrap();
        std::fs::write(d.path().join("cb.conf"), "CB_SHARE=/s\n").unwrap();
        assert!(dev_site(&d.path().join("cb.conf")).is_none());
        let text = refusal("cbexe", DaemonAction::Restart, &["n7".to_owned()], "n1").text;
        assert!(
            text.contains("on n7 type: systemctl restart cbexe"),
            "{text}"
        );
    }
}
