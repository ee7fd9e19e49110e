//! Checks whether a development cluster is ready: a leader leads, and it knows every host as
//! usable. Reads what the daemons publish, like any other command.

use super::processes::Processes;
use super::site::Settings;
use crate::record::frame::Reader;
use crate::record::header::{FileKind, Header};
use crate::record::host_status::HostKind;
use crate::record::leader::{BeatDoc, EpochDoc, FIXED_LEN, decode_fixed};
use crate::record::view::{self, HostRow};
use crate::spool::Layout;
use crate::sys::fs;
use serde::de::DeserializeOwned;
use std::path::Path;

const VIEW_MAX: u64 = 256 << 20;

/// The progress of the start of a cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness {
    /// Host of the leader that accepts requests.
    pub leader: Option<String>,
    /// Hosts that the leader knows as usable.
    pub hosts: Vec<String>,
    /// The other hosts, with the state that the leader publishes.
    pub waiting: Vec<String>,
}

impl Readiness {
    pub(super) fn complete(&self) -> bool {
        self.leader.is_some() && self.waiting.is_empty()
    }

    /// Number of completed steps: one for the leader and one for each host.
    pub(super) fn steps(&self) -> u32 {
        u32::from(self.leader.is_some()) + self.hosts.len() as u32
    }

    /// What is still missing.
    pub(super) fn missing(&self) -> String {
        match &self.leader {
            None => "waiting for a leader".to_string(),
            Some(_) if self.waiting.is_empty() => "ready".to_string(),
            Some(_) => format!("waiting for {}", self.waiting.join(", ")),
        }
    }
}

/// Looks once at the progress.
pub(super) fn observe(layout: &Layout, settings: &Settings, processes: &Processes) -> Readiness {
    let Some((pid, epoch)) = leading(layout, processes) else {
        let waiting = settings.hosts().collect();
        return Readiness {
            waiting,
            ..Readiness::default()
        };
    };
    let leader = processes
        .members
        .iter()
        .find(|m| m.pid == pid)
        .map(|m| m.host.clone());
    // The view of an earlier leader is out of date.
    let rows = host_rows(layout, epoch).unwrap_or_default();
    let mut progress = Readiness {
        leader,
        ..Readiness::default()
    };
    for host in settings.hosts() {
        match rows.iter().find(|r| r.name == host).map(|r| r.status) {
            Some(status) if status.kind() != HostKind::Away => progress.hosts.push(host),
            Some(status) => progress.waiting.push(format!("{host} ({status})")),
            None => progress.waiting.push(host),
        }
    }
    progress
}

/// The process of the leader, if one leads.
pub(super) fn leader_pid(layout: &Layout, processes: &Processes) -> Option<i32> {
    leading(layout, processes).map(|(pid, _)| pid)
}

fn leading(layout: &Layout, processes: &Processes) -> Option<(i32, u64)> {
    let claim: EpochDoc = fixed(&layout.epoch())?;
    let beat: BeatDoc = fixed(&layout.beat())?;
    let pid = i32::try_from(claim.pid).ok()?;
    let runs = processes
        .members
        .iter()
        .any(|m| m.daemon && m.role == "cbsched" && m.pid == pid);
    let leads = claim.epoch > 0 && beat.epoch == claim.epoch && beat.leading;
    (runs && leads).then_some((pid, claim.epoch))
}

/// Reads a document. A torn read or a missing file means "not yet": the next look decides.
fn fixed<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = fs::read_small(path, FIXED_LEN as u64).ok()?;
    decode_fixed(&bytes).ok()
}

fn host_rows(layout: &Layout, epoch: u64) -> Option<Vec<HostRow>> {
    let bytes = fs::read_small(&layout.view_file(view::HOSTS), VIEW_MAX).ok()?;
    let mut reader = Reader::new(&bytes);
    let header = Header::read(&mut reader, FileKind::View, None).ok()??;
    if header.epoch != epoch {
        return None;
    }
    let mut rows = Vec::new();
    while let Some(line) = reader.next_line().ok()? {
        rows.push(line.decode().ok()?);
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::dev::processes::Member;
    use crate::record::frame;
    use crate::record::leader::encode_fixed;

    fn processes() -> Processes {
        let member = Member {
            pid: 77,
            start: 1,
            ppid: 1,
            role: "cbsched".into(),
            host: "h1".into(),
            name: "cbsched.h1".into(),
            daemon: true,
        };
        Processes {
            members: vec![member],
            jobs: Vec::new(),
        }
    }

    fn publish(layout: &Layout, view_epoch: u64, pid: u32, status: &str) {
        std::fs::create_dir_all(layout.leader_dir()).unwrap();
        std::fs::create_dir_all(layout.view()).unwrap();
        let claim = EpochDoc {
            epoch: 3,
            host: "h1".into(),
            pid,
            ..EpochDoc::default()
        };
        std::fs::write(layout.epoch(), encode_fixed(&claim).unwrap()).unwrap();
        let beat = BeatDoc {
            epoch: 3,
            beat: 9,
            leading: true,
            ..BeatDoc::default()
        };
        std::fs::write(layout.beat(), encode_fixed(&beat).unwrap()).unwrap();
        let row = |name: &str, status: &str| HostRow {
            name: name.into(),
            status: status.into(),
            ..HostRow::default()
        };
        let mut out = Vec::new();
        frame::write(
            &mut out,
            0,
            &Header::new(FileKind::View, "c", view_epoch, 0),
        )
        .unwrap();
        frame::write(&mut out, 1, &row("h1", "ok")).unwrap();
        frame::write(&mut out, 2, &row("h2", status)).unwrap();
        std::fs::write(layout.view_file(view::HOSTS), out).unwrap();
    }

    #[test]
    fn ready_needs_a_living_leader_and_its_own_view() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let settings = Settings {
            hosts: 2,
            ..Settings::default()
        };
        assert!(!observe(&layout, &settings, &processes()).complete());
        publish(&layout, 3, 77, "closed_Adm");
        let p = observe(&layout, &settings, &processes());
        assert!(p.complete(), "{p:?}");
        assert_eq!((p.leader.as_deref(), p.steps()), (Some("h1"), 3));
        publish(&layout, 3, 77, "unavail");
        assert_eq!(
            observe(&layout, &settings, &processes()).waiting,
            ["h2 (unavail)"]
        );
        publish(&layout, 2, 77, "ok");
        assert_eq!(
            observe(&layout, &settings, &processes()).waiting,
            ["h1", "h2"]
        );
        publish(&layout, 3, 78, "ok");
        assert_eq!(observe(&layout, &settings, &processes()).leader, None);
    }
}
