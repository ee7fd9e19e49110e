//! Every kind of file on the share, and the kind of a path. `cadmin fsck` walks the share with this
//! table and names what is not in it; docs/damage-matrix.md has a row for each kind.

use ShareFile::{
    Aside, Beat, Blob, Claim, Cluster, Config, ConfigVersion, Epoch, HostBeat, Inbox, Journal,
    LastGood, Load, Lock, LostFound, Notices, Orders, Output, PastConfig, Portal, Reports, Reserve,
    Snapshot, Standby, Template, View,
};

/// A kind of file on the share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShareFile {
    Cluster,
    Config,
    ConfigVersion,
    LastGood,
    Template,
    Lock,
    Epoch,
    Beat,
    Standby,
    Claim,
    Inbox,
    Portal,
    Journal,
    Acks,
    Snapshot,
    PastConfig,
    Orders,
    Reports,
    Load,
    HostBeat,
    View,
    Notices,
    Accounting,
    Blob,
    Output,
    Reserve,
    LostFound,
    Aside,
}

/// Patterns of paths below the root: `N` is a number, `*` any text, `**` any path.
pub const SHARE_FILES: &[(ShareFile, &str)] = &[
    (Cluster, "cluster"),
    (Config, "conf/cb.yaml"),
    (ConfigVersion, "conf/cb.yaml.*"),
    (LastGood, "conf/last-good.yaml"),
    (Template, "conf/apps.d/*"),
    (Lock, "leader/lock"),
    (Epoch, "leader/epoch"),
    (Beat, "leader/beat"),
    (Standby, "leader/standby.*"),
    (Claim, "leader/claims/N"),
    (Inbox, "inbox/**"),
    (Portal, "portal"),
    (Journal, "epoch/N/journal.N.yaml"),
    (ShareFile::Acks, "epoch/N/acks.yaml"),
    (ShareFile::Acks, "epoch/N/acks.before.yaml"),
    (Snapshot, "snapshot/N.yaml"),
    (Snapshot, "history/N.yaml"),
    (PastConfig, "history/cb.*.yaml"),
    (Orders, "hosts/*/orders.N.N.yaml"),
    (Reports, "hosts/*/reports.N.yaml"),
    (Load, "hosts/*/load.yaml"),
    (HostBeat, "beats/*"),
    (View, "view/*"),
    (Notices, "notices/state.N.yaml"),
    (Notices, "notices/alerts.N.yaml"),
    (ShareFile::Accounting, "acct/*/N.N.yaml"),
    (ShareFile::Accounting, "acct/written.yaml"),
    (Blob, "blobs/*/*"),
    (Output, "jobs/**"),
    (Reserve, "reserve/N"),
    (LostFound, "lost+found/**"),
];

/// The kind of a path below the root; `None`: Corral creates no such file.
pub fn share_file(path: &str) -> Option<ShareFile> {
    if path.rsplit('/').next().is_some_and(|n| n.starts_with('.')) {
        return Some(Aside);
    }
    let found = SHARE_FILES.iter().find(|(_, p)| matches_path(p, path));
    found.map(|(kind, _)| *kind)
}

/// Whether a path has the form of a pattern.
pub fn matches_path(pattern: &str, path: &str) -> bool {
    if let Some(dir) = pattern.strip_suffix("**") {
        return path.starts_with(dir);
    }
    let (patterns, names) = (pattern.split('/'), path.split('/'));
    patterns.clone().count() == names.clone().count()
        && patterns.zip(names).all(|(p, n)| matches_name(p, n))
}

fn matches_name(pattern: &str, name: &str) -> bool {
    let Some(at) = pattern.find(['N', '*']) else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(&pattern[..at]) else {
        return false;
    };
    let rest = &pattern[at + 1..];
    if pattern.as_bytes()[at] == b'N' {
        let digits = name.bytes().take_while(u8::is_ascii_digit).count();
        return digits > 0 && matches_name(rest, &name[digits..]);
    }
    // A text is the last variable part of a name.
    name.len() > rest.len() && name.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobKey, Token};
    use crate::spool::Layout;

    /// Each function of the layout that returns a file, with its kind here.
    fn of_the_layout(layout: &Layout) -> Vec<(ShareFile, std::path::PathBuf)> {
        vec![
            (Cluster, layout.cluster()),
            (Config, layout.config()),
            (Template, layout.apps_dir().join("x.sh")),
            (Lock, layout.lock()),
            (Epoch, layout.epoch()),
            (Beat, layout.beat()),
            (Standby, layout.standby("m2.site")),
            (Claim, layout.claim(7)),
            (
                Inbox,
                layout.inbox_of(7).join(Layout::request_name(Token(5))),
            ),
            (Inbox, layout.session(7, Token(5))),
            (Inbox, layout.portal_of(7).join("t")),
            (
                Inbox,
                layout
                    .launches_of(7)
                    .join(Layout::launch_name("h", Token(5))),
            ),
            (Portal, layout.portal_service()),
            (Journal, layout.journal(7, 12)),
            (ShareFile::Acks, layout.acks(7)),
            (ShareFile::Acks, layout.acks_before(7)),
            (Snapshot, layout.snapshots().join("000001.yaml")),
            (Snapshot, layout.history().join("000001.yaml")),
            (PastConfig, layout.past_config("ab12")),
            (Orders, layout.orders("h.site", 7, 3)),
            (Reports, layout.reports("h", 9)),
            (Load, layout.load("h")),
            (HostBeat, layout.beats().join("h,1,2")),
            (View, layout.view_file("manifest.yaml")),
            (Notices, layout.notices_state(7)),
            (Notices, layout.notices_alerts(7)),
            (Blob, layout.blob(&"ab".repeat(32))),
            (Output, layout.job_dir(7).join("x")),
            (Output, layout.default_output(JobKey::element(7, 3))),
            (ShareFile::Accounting, layout.acct_file("2026-11", 7, 1)),
            (ShareFile::Accounting, layout.acct_written()),
            (Reserve, layout.reserve_part(3)),
            (LostFound, layout.lost_found().join("x")),
        ]
    }

    #[test]
    fn every_file_of_the_layout_has_a_kind() {
        let layout = Layout::new("/s");
        for (kind, path) in of_the_layout(&layout) {
            let below = path.strip_prefix("/s").unwrap().to_str().unwrap();
            assert_eq!(share_file(below), Some(kind), "{below}");
        }
        assert_eq!(share_file("hosts/h1/.x.h.1.tmp"), Some(Aside));
        for foreign in [
            "core",
            "epoch/x/acks.yaml",
            "snapshot/old",
            "view",
            "notices/state.yaml",
        ] {
            assert_eq!(share_file(foreign), None, "{foreign}");
        }
    }

    /// A function that returns a path and is not in the list above is a kind that `cadmin fsck`
    /// does not know.
    #[test]
    fn no_function_of_the_layout_is_forgotten() {
        let own = include_str!("share_files.rs");
        let own: String = own.split_whitespace().collect();
        let directories = [
            "conf_dir",
            "leader_dir",
            "inbox",
            "sessions_of",
            "epochs",
            "epoch_dir",
            "hosts",
            "host",
            "view",
            "jobs",
            "acct",
            "claims_dir",
            "notices",
            "reserve",
            "blobs",
            "session_word",
        ];
        for line in include_str!("layout.rs").lines() {
            let Some(head) = line.trim().strip_prefix("pub fn ") else {
                continue;
            };
            let name = head.split('(').next().unwrap();
            let is_path = head.contains("-> PathBuf") && !directories.contains(&name);
            assert!(
                !is_path || own.contains(&format!("layout.{name}(")),
                "{name}"
            );
        }
    }
}
