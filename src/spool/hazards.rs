//! Mount options of the share that endanger leadership and data: sentences for users.
//!
//! Judges the facts that `sys::mount` gives; changes nothing.

use super::Layout;
use crate::sys;
use crate::sys::mount::MountFacts;
use std::path::Path;

/// The kernel's setting for a lock that its server revoked.
const RECOVER: &str = "/sys/module/nfs/parameters/recover_lost_locks";

/// One danger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    pub text: String,
    /// A leader must not work on such a mount unless the administrator insists.
    pub is_grave: bool,
}

/// The problems of the mount of the share, as this host sees it.
pub fn hazards(layout: &Layout) -> Vec<Hazard> {
    let Ok(mount) = sys::mount::mount_of(layout.root()) else {
        return Vec::new();
    };
    let recover = sys::fs::read_optional(Path::new(RECOVER), 16)
        .ok()
        .flatten();
    judge(&mount, recover.as_deref().unwrap_or_default())
}

/// Evaluates a mount; `recover` is the kernel's setting for lost locks.
pub(super) fn judge(mount: &MountFacts, recover: &[u8]) -> Vec<Hazard> {
    let mut out = Vec::new();
    if !mount.fstype.starts_with("nfs") {
        return out;
    }
    let point = mount.point.display();
    let mut add = |is_grave: bool, text: String| out.push(Hazard { text, is_grave });
    if mount.has("soft") || mount.has("softerr") {
        add(
            true,
            format!("{point} is a soft mount: a slow server loses writes; mount it hard"),
        );
    }
    if mount.has("nolock") || mount.value("local_lock").is_some_and(|v| v != "none") {
        add(
            true,
            format!(
                "{point} keeps locks local: two leaders would not see each other; mount it \
                 without nolock and local_lock"
            ),
        );
    }
    if mount.has("nocto") {
        add(
            true,
            format!(
                "{point} is mounted with nocto: a leader would read from its cache who leads; \
                 mount it without"
            ),
        );
    }
    if mount.fstype == "nfs" || mount.value("vers").is_some_and(|v| v.starts_with('3')) {
        add(
            false,
            format!(
                "{point} is mounted by NFS version 3, whose server never drops a dead host's \
                 lock: a takeover may wait for it; use vers=4.1 or 4.2"
            ),
        );
    }
    if mount.fstype == "nfs4" && mount.value("vers") == Some("4.0") {
        add(
            false,
            format!(
                "{point} is mounted by NFS version 4.0: a delegation may stall others for a \
                 lease; use vers=4.1 or 4.2"
            ),
        );
    }
    let longest = ["acregmax", "acdirmax", "actimeo"]
        .into_iter()
        .filter_map(|o| mount.value(o)?.parse::<u64>().ok())
        .max();
    if let Some(s) = longest.filter(|s| *s > 60) {
        add(
            false,
            format!("{point} caches attributes for up to {s} s: orders and views arrive late"),
        );
    }
    if matches!(recover.trim_ascii(), b"Y" | b"1") {
        add(
            false,
            "nfs.recover_lost_locks is on: a lock that was lost is silently taken again; set it \
             to N"
                .to_owned(),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(fstype: &str, options: &str) -> MountFacts {
        MountFacts {
            point: "/share".into(),
            fstype: fstype.into(),
            source: "srv:/x".into(),
            options: options.into(),
        }
    }

    fn words(fstype: &str, options: &str, recover: &[u8]) -> (usize, String) {
        let all = judge(&mount(fstype, options), recover);
        let text: Vec<String> = all.iter().map(|h| h.text.clone()).collect();
        (all.iter().filter(|h| h.is_grave).count(), text.join("\n"))
    }

    #[test]
    fn options_that_endanger_locks_are_named_and_grave_ones_told_apart() {
        assert_eq!(words("ext4", "rw,soft", b"Y").1, "");
        let good = "rw,vers=4.2,hard,local_lock=none,acregmax=60";
        assert_eq!(words("nfs4", good, b"N\n"), (0, String::new()));
        for (options, due) in [
            ("rw,vers=4.2,soft", "soft mount"),
            ("rw,vers=4.2,softerr", "soft mount"),
            ("rw,vers=4.2,nolock", "locks local"),
            ("rw,vers=4.2,local_lock=flock", "locks local"),
            ("rw,vers=4.2,hard,nocto", "nocto"),
        ] {
            let (is_grave, text) = words("nfs4", options, b"");
            assert!(is_grave == 1 && text.contains(due), "{options}: {text}");
        }
        for (fstype, options, recover, due) in [
            ("nfs", "rw,vers=3,hard", &b""[..], "version 3"),
            ("nfs4", "rw,vers=4.0,hard", b"", "version 4.0"),
            ("nfs4", "rw,vers=4.2,acdirmax=600", b"", "600 s"),
            ("nfs4", good, b"Y\n", "recover_lost_locks"),
        ] {
            let (is_grave, text) = words(fstype, options, recover);
            assert!(is_grave == 0 && text.contains(due), "{options}: {text}");
        }
    }
}
