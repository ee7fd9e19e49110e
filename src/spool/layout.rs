//! The layout of the shared directory. The only place that knows a path of it.

use crate::model::{JobKey, Token};
use std::path::{Path, PathBuf};

/// Paths below the root of the share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

/// Number of jobs per directory below `jobs/`.
const JOBS_PER_DIR: u32 = 1000;

impl Layout {
    pub fn new(root: impl Into<PathBuf>) -> Layout {
        Layout { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Cluster id and format (`record::leader::ClusterDoc`, JSON). Only created by `cadmin init`.
    pub fn cluster(&self) -> PathBuf {
        self.root.join("cluster")
    }

    pub fn conf_dir(&self) -> PathBuf {
        self.root.join("conf")
    }

    pub fn config(&self) -> PathBuf {
        self.conf_dir().join("cb.yaml")
    }

    /// Templates of applications, which the administrator writes.
    pub fn apps_dir(&self) -> PathBuf {
        self.conf_dir().join("apps.d")
    }

    pub fn leader_dir(&self) -> PathBuf {
        self.root.join("leader")
    }

    /// The election's lock file: created by init, never unlinked, opened without O_CREAT.
    pub fn lock(&self) -> PathBuf {
        self.leader_dir().join("lock")
    }

    /// Fixed file naming the current epoch, overwritten in place.
    pub fn epoch(&self) -> PathBuf {
        self.leader_dir().join("epoch")
    }

    /// Fixed file with the leader's beat counter, overwritten in place.
    pub fn beat(&self) -> PathBuf {
        self.leader_dir().join("beat")
    }

    /// Written from time to time by a candidate on that host while another one leads.
    pub fn standby(&self, host: &str) -> PathBuf {
        self.leader_dir().join(format!("standby.{host}"))
    }

    /// The host in the name of such a file.
    pub fn parse_standby_name(name: &str) -> Option<&str> {
        name.strip_prefix("standby.")
            .filter(|host| !host.is_empty())
    }

    pub fn claims_dir(&self) -> PathBuf {
        self.leader_dir().join("claims")
    }

    pub fn claim(&self, epoch: u64) -> PathBuf {
        self.claims_dir().join(format!("{epoch:06}"))
    }

    pub fn inbox(&self) -> PathBuf {
        self.root.join("inbox")
    }

    pub fn inbox_of(&self, uid: u32) -> PathBuf {
        self.inbox().join(uid.to_string())
    }

    /// Where a user's waiting commands store how to reach them; only the user has access.
    pub fn sessions_of(&self, uid: u32) -> PathBuf {
        self.inbox_of(uid).join(".sessions")
    }

    /// Address and key of one waiting command (`channel::Rendezvous`), mode 0600.
    pub fn session(&self, uid: u32, token: Token) -> PathBuf {
        self.sessions_of(uid).join(format!("s.{token}"))
    }

    /// The message of a host that cannot reach that command (`channel::Unreached`). Created empty
    /// by the command, written by the host as the user.
    pub fn session_word(session: &Path) -> PathBuf {
        let mut path = session.as_os_str().to_owned();
        path.push(".host");
        path.into()
    }

    /// Where a user stores the credentials with which the portal identifies that user
    /// (`record::portal`), mode 0750.
    pub fn portal_of(&self, uid: u32) -> PathBuf {
        self.inbox_of(uid).join(".portal")
    }

    /// The address of the portal for all users (`record::portal::PortalAddress`, JSON).
    pub fn portal_service(&self) -> PathBuf {
        self.root.join("portal")
    }

    /// Where a user's `claunch` stores what hosts must start (`record::launch`).
    pub fn launches_of(&self, uid: u32) -> PathBuf {
        self.inbox().join(Layout::launches_below_inbox(uid))
    }

    pub fn launches_below_inbox(uid: u32) -> String {
        format!("{uid}/.launch")
    }

    /// Name of such a file for a host.
    pub fn launch_name(host: &str, token: Token) -> String {
        format!("l.{token}.{host}")
    }

    /// The host in such a name.
    pub fn launch_host(name: &str) -> Option<&str> {
        let (token, host) = name.strip_prefix("l.")?.split_once('.')?;
        token.parse::<Token>().ok().map(|_| host)
    }

    /// Name of a request file; anything else in an inbox directory is not a request.
    pub fn request_name(token: Token) -> String {
        format!("r.{token}")
    }

    /// The token in a request's file name.
    pub fn parse_request_name(name: &str) -> Option<Token> {
        name.strip_prefix("r.")?.parse().ok()
    }

    pub fn epochs(&self) -> PathBuf {
        self.root.join("epoch")
    }

    /// The epoch in a directory's name.
    pub fn parse_epoch_name(name: &str) -> Option<u64> {
        name.parse().ok()
    }

    pub fn epoch_dir(&self, epoch: u64) -> PathBuf {
        self.epochs().join(format!("{epoch:06}"))
    }

    /// Journal segment `n` (from 1) of an epoch.
    pub fn journal(&self, epoch: u64, n: u64) -> PathBuf {
        self.epoch_dir(epoch).join(format!("journal.{n:04}.yaml"))
    }

    /// The segment number in a journal file's name.
    pub fn parse_journal_name(name: &str) -> Option<u64> {
        name.strip_prefix("journal.")?
            .strip_suffix(".yaml")?
            .parse()
            .ok()
    }

    pub fn acks(&self, epoch: u64) -> PathBuf {
        self.epoch_dir(epoch).join("acks.yaml")
    }

    /// The previous part of the answers.
    pub fn acks_before(&self, epoch: u64) -> PathBuf {
        self.epoch_dir(epoch).join("acks.before.yaml")
    }

    /// The number in a snapshot's name.
    pub fn parse_snapshot_name(name: &str) -> Option<u64> {
        name.strip_suffix(".yaml")?.parse().ok()
    }

    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshot")
    }

    /// Older snapshots and copies of cb.yaml, from which a past state can be restored; created by
    /// the first leader that has one.
    pub fn history(&self) -> PathBuf {
        self.root.join("history")
    }

    /// The copy of the configuration with this digest.
    pub fn past_config(&self, digest: &str) -> PathBuf {
        self.history().join(format!("cb.{digest}.yaml"))
    }

    /// Whether a name in `history/` belongs to such a copy.
    pub fn is_past_config(name: &str) -> bool {
        name.starts_with("cb.") && name.ends_with(".yaml")
    }

    pub fn hosts(&self) -> PathBuf {
        self.root.join("hosts")
    }

    pub fn host(&self, host: &str) -> PathBuf {
        self.hosts().join(host)
    }

    pub fn orders(&self, host: &str, epoch: u64, part: u64) -> PathBuf {
        self.host(host)
            .join(format!("orders.{epoch:06}.{part:04}.yaml"))
    }

    /// Epoch and part in an orders file's name.
    pub fn parse_orders_name(name: &str) -> Option<(u64, u64)> {
        let rest = name.strip_prefix("orders.")?.strip_suffix(".yaml")?;
        let (epoch, part) = rest.split_once('.')?;
        Some((epoch.parse().ok()?, part.parse().ok()?))
    }

    pub fn reports(&self, host: &str, n: u64) -> PathBuf {
        self.host(host).join(format!("reports.{n:06}.yaml"))
    }

    pub fn parse_reports_name(name: &str) -> Option<u64> {
        name.strip_prefix("reports.")?
            .strip_suffix(".yaml")?
            .parse()
            .ok()
    }

    pub fn load(&self, host: &str) -> PathBuf {
        self.host(host).join("load.yaml")
    }

    /// One name for each host, renamed by its cbls at each beat; see `record::beat`.
    pub fn beats(&self) -> PathBuf {
        self.root.join("beats")
    }

    /// Published query state; see `record::view`.
    pub fn view(&self) -> PathBuf {
        self.root.join("view")
    }

    pub fn view_file(&self, name: &str) -> PathBuf {
        self.view().join(name)
    }

    /// Documents of the programs that send notices; see `record::notices`.
    pub fn notices(&self) -> PathBuf {
        self.root.join("notices")
    }

    /// The state of an epoch's notifier, mode 0600.
    pub fn notices_state(&self, epoch: u64) -> PathBuf {
        self.notices().join(format!("state.{epoch:06}.yaml"))
    }

    /// The part of it that all users may read.
    pub fn notices_alerts(&self, epoch: u64) -> PathBuf {
        self.notices().join(format!("alerts.{epoch:06}.yaml"))
    }

    /// Whether a name there belongs to a state, and its epoch.
    pub fn parse_notices_name(name: &str) -> Option<(bool, u64)> {
        let (what, rest) = name.split_once('.')?;
        let epoch = rest.strip_suffix(".yaml")?.parse().ok()?;
        match what {
            "state" => Some((true, epoch)),
            "alerts" => Some((false, epoch)),
            _ => None,
        }
    }

    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// A content-addressed blob (environment, script, input) by the hex of its SHA-256.
    pub fn blob(&self, sha: &str) -> PathBuf {
        let dir = sha.get(..2).unwrap_or("xx");
        self.blobs().join(dir).join(sha)
    }

    pub fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    /// Directory of one job's own files (default output).
    pub fn job_dir(&self, id: u32) -> PathBuf {
        self.jobs()
            .join((id / JOBS_PER_DIR).to_string())
            .join(id.to_string())
    }

    /// The file for a job's output if the job requested none.
    pub fn default_output(&self, j: JobKey) -> PathBuf {
        self.job_dir(j.id).join(format!("{}.out", j.idx))
    }

    /// Accounting records, by the month of the end; created by the first leader that has one.
    pub fn acct(&self) -> PathBuf {
        self.root.join("acct")
    }

    /// Records of ends in a month (`2026-11`) that the leader of an epoch wrote; `part` from 1.
    pub fn acct_file(&self, month: &str, epoch: u64, part: u64) -> PathBuf {
        let name = format!("{epoch:06}.{part:04}.yaml");
        self.acct().join(month).join(name)
    }

    /// Epoch and part in such a file's name.
    pub fn parse_acct_name(name: &str) -> Option<(u64, u64)> {
        let (epoch, part) = name.strip_suffix(".yaml")?.split_once('.')?;
        Some((epoch.parse().ok()?, part.parse().ok()?))
    }

    /// Whether a directory of `acct/` has the name of a month.
    pub fn is_acct_month(name: &str) -> bool {
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let parts = name.split_once('-');
        parts.is_some_and(|(y, m)| (y.len(), m.len()) == (4, 2) && digits(y) && digits(m))
    }

    /// The position up to which the journal's ends are in `acct/` (`record::acct::Written`).
    pub fn acct_written(&self) -> PathBuf {
        self.acct().join("written.yaml")
    }

    pub fn reserve(&self) -> PathBuf {
        self.root.join("reserve")
    }

    /// A part of the reserve; one part at a time is released when the share is full.
    pub fn reserve_part(&self, n: u32) -> PathBuf {
        self.reserve().join(format!("{n:02}"))
    }

    pub fn lost_found(&self) -> PathBuf {
        self.root.join("lost+found")
    }

    /// Directories that `cadmin init` creates, with their modes. Users can enter the inboxes but
    /// not list them; everything else belongs to the service account.
    pub fn directories(&self) -> Vec<(PathBuf, u32)> {
        vec![
            (self.conf_dir(), 0o755),
            (self.leader_dir(), 0o755),
            (self.claims_dir(), 0o755),
            (self.inbox(), 0o3733),
            (self.epochs(), 0o755),
            (self.snapshots(), 0o750),
            (self.hosts(), 0o755),
            (self.beats(), 0o755),
            (self.view(), 0o755),
            (self.blobs(), 0o750),
            (self.jobs(), 0o755),
            (self.lost_found(), 0o700),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        let layout = Layout::new("/s");
        let name = |p: PathBuf| p.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            Layout::parse_journal_name(&name(layout.journal(7, 12))),
            Some(12)
        );
        assert_eq!(
            Layout::parse_orders_name(&name(layout.orders("h", 7, 3))),
            Some((7, 3))
        );
        assert_eq!(
            Layout::parse_reports_name(&name(layout.reports("h", 9))),
            Some(9)
        );
        let token = Token(5);
        assert_eq!(
            Layout::parse_request_name(&Layout::request_name(token)),
            Some(token)
        );
        assert_eq!(Layout::parse_request_name("r.x"), None);
        let launch = Layout::launch_name("h1.site", token);
        assert_eq!(Layout::launch_host(&launch), Some("h1.site"));
        assert_eq!(Layout::launch_host("l.x.h1"), None);
        let session = layout.session(7, token);
        assert_eq!(
            name(Layout::session_word(&session)),
            format!("s.{token}.host")
        );
        let standby = name(layout.standby("m2.site"));
        assert_eq!(Layout::parse_standby_name(&standby), Some("m2.site"));
    }
}
