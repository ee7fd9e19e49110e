//! The walk over all files of a share: it checks the kinds that have no check of their own, and
//! names the files that Corral does not know.

use super::{NAMES_MAX, ShareCheck};
use crate::record::cron::CronJob;
use crate::record::figures::Figures;
use crate::record::frame::{Damage, Damaged};
use crate::record::header::FileKind;
use crate::record::job_group::JobGroup;
use crate::record::notices::{AlertsDoc, DOC_MAX, NotifierState};
use crate::record::portal::PortalAddress;
use crate::record::sealed;
use crate::record::view::{self, EstimateRow, LimitRow, ShareRow};
use crate::spool::Layout;
use crate::spool::share_files::{ShareFile, share_file};
use crate::sys;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Directories whose names users choose, or that have a check of their own.
const SKIPPED: &[&str] = &["inbox", "jobs", "lost+found", "blobs"];
/// Maximum number of unknown files that are named.
const UNKNOWN_SHOWN: usize = 20;
/// Maximum size of a configuration that is read.
const CONFIG_MAX: u64 = crate::config::MAX_BYTES as u64 + 100;

impl ShareCheck<'_> {
    pub(super) fn other_files(&mut self) {
        let root = self.layout.root().to_path_buf();
        let mut unknown = Vec::new();
        self.walk(&root, "", &mut unknown);
        let more = unknown.len().saturating_sub(UNKNOWN_SHOWN);
        for path in unknown.iter().take(UNKNOWN_SHOWN) {
            self.note(format!(
                "{}: not a file of Corral, not checked",
                path.display()
            ));
        }
        if more > 0 {
            self.note(format!("{more} more files that are not of Corral"));
        }
    }

    fn walk(&mut self, dir: &Path, below: &str, unknown: &mut Vec<PathBuf>) {
        let entries = match sys::fs::list_dir(dir, NAMES_MAX) {
            Ok(entries) => entries,
            Err(e) => return self.unreadable(&e),
        };
        for entry in entries {
            let path = dir.join(&entry.name);
            let Some(name) = entry.text() else {
                unknown.push(path);
                continue;
            };
            let below = match below {
                "" => name.to_owned(),
                below => format!("{below}/{name}"),
            };
            match share_file(&below) {
                _ if entry.is_dir && SKIPPED.contains(&below.as_str()) => {}
                _ if entry.is_dir => self.walk(&path, &below, unknown),
                Some(kind) => self.other_file(kind, &path, name),
                None => unknown.push(path),
            }
        }
    }

    fn other_file(&mut self, kind: ShareFile, path: &Path, name: &str) {
        match kind {
            ShareFile::LastGood | ShareFile::PastConfig => self.sealed_text(path),
            ShareFile::Config => self.config(path),
            ShareFile::Notices => match Layout::parse_notices_name(name) {
                Some((true, _)) => self.sealed_json::<NotifierState>(path),
                _ => self.sealed_json::<AlertsDoc>(path),
            },
            ShareFile::Portal => self.sealed_json::<PortalAddress>(path),
            ShareFile::View => self.view_table(path, name),
            ShareFile::Standby => {
                let number = |bytes: &[u8]| match bytes {
                    [digits @ .., b'\n'] if digits.iter().all(u8::is_ascii_digit) => Ok(()),
                    _ => Err("not the number of a process".to_owned()),
                };
                self.document(path, number);
            }
            // Files without content, or with content that only people read.
            ShareFile::Lock | ShareFile::HostBeat | ShareFile::Reserve | ShareFile::Aside => {}
            ShareFile::LostFound | ShareFile::Output => {}
            // Written by people, who check them: `cadmin ckconfig`, `csub --app`.
            ShareFile::ConfigVersion | ShareFile::Template => {}
            // These have checks of their own.
            ShareFile::Cluster | ShareFile::Epoch | ShareFile::Beat | ShareFile::Claim => {}
            ShareFile::Journal | ShareFile::Acks | ShareFile::Snapshot => {}
            ShareFile::Orders | ShareFile::Reports | ShareFile::Load => {}
            ShareFile::Inbox | ShareFile::Accounting | ShareFile::Blob => {}
        }
    }

    /// Notes where the configuration that people edit differs from the one in force.
    fn config(&mut self, path: &Path) {
        self.report.files += 1;
        let read = |path: &Path| sys::fs::read_small(path, CONFIG_MAX).ok();
        let in_force = crate::master::config_in_force_path(self.layout);
        let (Some(text), Some(known)) = (read(path), read(&in_force)) else {
            return;
        };
        let Ok(known) = sealed::open_text(&known) else {
            return;
        };
        let (text, known) = (text.trim_ascii_end(), known.bytes.trim_ascii_end());
        if text != known {
            let same = text.iter().zip(known).take_while(|(a, b)| a == b).count();
            self.note(format!(
                "{}:{same}: differs from here on from the configuration in force ({}): it was \
                 changed since the last reconfiguration, or it is damaged",
                path.display(),
                in_force.display()
            ));
        }
    }

    fn sealed_text(&mut self, path: &Path) {
        self.whole_document(path, CONFIG_MAX, &|bytes| {
            sealed::open_text(bytes).map(|content| content.checked)
        });
    }

    pub(super) fn sealed_json<T: DeserializeOwned>(&mut self, path: &Path) {
        self.whole_document(path, DOC_MAX, &|bytes| {
            sealed::from_json::<T>(bytes).map(|(_, checked)| checked)
        });
    }

    /// Checks a document that is replaced as a whole; one without a checksum is only noted.
    pub(super) fn whole_document(
        &mut self,
        path: &Path,
        limit: u64,
        open: &dyn Fn(&[u8]) -> Result<bool, Damaged>,
    ) {
        self.report.files += 1;
        let bytes = match sys::fs::read_optional(path, limit) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(e) => return self.unreadable(&e),
        };
        let empty = Damaged {
            offset: 0,
            damage: Damage::Frame("the file is empty"),
        };
        match if bytes.is_empty() {
            Err(empty)
        } else {
            open(&bytes)
        } {
            Ok(true) => self.report.records += 1,
            Ok(false) => self.note(format!(
                "{}: has no checksum: an earlier version wrote it, or its end is missing",
                path.display()
            )),
            Err(d) => self.damaged(path, &d),
        }
    }

    fn view_table(&mut self, path: &Path, name: &str) {
        // Each is renamed into place as a whole; a delta may be empty.
        let tables = [
            view::LIMITS,
            view::SHARES,
            view::ESTIMATES,
            view::CRONS,
            view::JOB_GROUPS,
            view::FIGURES,
        ];
        let is_empty = || {
            sys::fs::stat(path)
                .ok()
                .flatten()
                .is_some_and(|s| s.len == 0)
        };
        if tables.contains(&name) && is_empty() {
            return self.damage(path, 0, "the file is empty");
        }
        let what = FileKind::View;
        match name {
            view::LIMITS => self.parse_document::<LimitRow>(path, what, None),
            view::SHARES => self.parse_document::<ShareRow>(path, what, None),
            view::ESTIMATES => self.parse_document::<EstimateRow>(path, what, None),
            view::CRONS => self.parse_document::<CronJob>(path, what, None),
            view::JOB_GROUPS => self.parse_document::<JobGroup>(path, what, None),
            view::FIGURES => self.parse_document::<Figures>(path, what, None),
            // The manifest and what it names were checked; a file that it does not name is old or
            // not in use yet.
            _ => {}
        }
    }
}
