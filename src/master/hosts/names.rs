//! The names of hosts in `hosts/`, and when that directory is listed for new ones.

use crate::spool::Layout;
use crate::spool::polling::ChangeGate;
use crate::sys::fs;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Maximum number of host directories.
pub(super) const HOSTS_MAX: usize = 100_000;
/// Maximum number of names in `hosts/` that do not belong to a host.
const IGNORED_MAX: usize = 1000;
/// How often directories are listed without a hint, in milliseconds.
pub(super) const LIST_IDLE_MS: u64 = 10_000;
/// How soon after a hint directories are listed again, in milliseconds.
pub(super) const LIST_EVERY_MS: u64 = 250;
/// `hosts/` is listed after this time even if it has not changed (ms): with thousands of hosts, its
/// listing takes as many requests as everything else that an idle leader does.
const HOSTS_SWEEP_MS: u64 = 600_000;

/// How far `hosts/` has been searched.
pub(super) struct HostNames {
    dir: PathBuf,
    /// Names in it that are not directories.
    ignored: BTreeSet<String>,
    /// 0: never.
    listed_at: u64,
    /// Whether it has changed since it was listed.
    pub(super) gate: ChangeGate,
    /// Why it cannot be listed.
    failed: Option<String>,
}

impl HostNames {
    pub(super) fn new(layout: &Layout) -> HostNames {
        HostNames {
            dir: layout.hosts(),
            ignored: BTreeSet::new(),
            listed_at: 0,
            gate: ChangeGate::default(),
            failed: None,
        }
    }

    /// Whether it has not been searched yet.
    pub(super) fn is_new(&self) -> bool {
        self.listed_at == 0
    }

    /// The alarm for administrators, if there is one.
    pub(super) fn alarm(&self) -> Option<String> {
        let failed = self.failed.as_ref();
        failed.map(|e| format!("new hosts and their reports cannot be found: {e}"))
    }

    /// Names of hosts that are not `known`, if a search is due and something changed. `hinted`:
    /// something changed anywhere. `frequent_ms`: how often to search while hosts start up.
    pub(super) fn find_new(
        &mut self,
        now_ms: u64,
        hinted: bool,
        frequent_ms: Option<u64>,
        known: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let age = now_ms.saturating_sub(self.listed_at);
        let frequent = frequent_ms.is_some_and(|pace| age > pace);
        let list = frequent || age > LIST_IDLE_MS || (hinted && age > LIST_EVERY_MS);
        if self.listed_at != 0 && !list {
            return Vec::new();
        }
        self.listed_at = now_ms.max(1);
        let mark = fs::mark(&self.dir);
        let changed = |mark| self.gate.must_read_within(mark, now_ms, HOSTS_SWEEP_MS);
        if !mark.map_or(true, changed) {
            return Vec::new();
        }
        let known = |name: &str| known(name) || self.ignored.contains(name);
        let listed = fs::list_others(&self.dir, HOSTS_MAX, known);
        self.failed = listed.as_ref().err().map(ToString::to_string);
        if listed.is_err() {
            self.gate.forget();
        }
        let mut found = Vec::new();
        for entry in listed.unwrap_or_default() {
            match (entry.is_dir, entry.text()) {
                (true, Some(name)) => found.push(name.to_owned()),
                (false, Some(name)) if self.ignored.len() < IGNORED_MAX => {
                    self.ignored.insert(name.to_owned());
                }
                _ => {}
            }
        }
        found
    }
}
