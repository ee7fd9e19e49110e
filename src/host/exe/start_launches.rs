//! Commands that users start on this host for their running jobs (`claunch`): found in their drop
//! boxes, checked, and sent to the spawner.
//!
//! The owner of the file is the requester. A command runs as long as the `claunch` that waits for
//! it, and is ended with the job's part at the latest.

use super::exec::Exec;
use super::hints::HintContent;
use crate::model::AttemptId;
use crate::record::launch::{LAUNCH_MAX, LaunchRequest};
use crate::spool::Layout;
use crate::sys::dropbox::{DropBox, DropError};
use crate::sys::{clock, fs};
use crate::task::spec::ToSpawner;
use std::ffi::OsStr;

/// Pause between two looks, ms: on a local file system, and where a look costs requests to a
/// server.
const POLL_MS: u64 = 100;
const REMOTE_MS: u64 = 1_000;
/// Maximum number of names of one user that one look reads, and of commands that it starts.
const NAMES_MAX: usize = 1_000;
const STARTS_MAX: usize = 64;

impl Exec {
    /// Pause between two looks for commands to start.
    pub(super) fn launch_pause_ms(&self) -> u64 {
        match self.setup.share_is_local {
            true => POLL_MS,
            false => REMOTE_MS,
        }
    }

    /// Accepts hints. Returns true if a hint requests a look at the orders.
    pub(super) fn receive_hints(&mut self, first: Option<HintContent>) -> bool {
        let hint_content = self.hints.take_all(first, clock::boot_ms());
        if hint_content.launches {
            self.parts.launches.request_poll();
        }
        hint_content.orders
    }

    /// Time until the next look for commands (ms).
    pub(super) fn launches_due_ms(&self) -> u64 {
        let due = self
            .parts
            .launches
            .due_in(clock::boot_ms(), self.launch_pause_ms());
        due.unwrap_or(u64::MAX)
    }

    /// Looks for commands to start and starts them.
    pub(super) fn follow_launches(&mut self, now: u64) {
        let hinted = self.parts.launches.note_poll(now);
        let mut found = 0;
        if self.spawners.is_simulated() || !self.spawners.is_ready() {
            return;
        }
        let over = |a: &AttemptId| self.table.get(*a).is_some_and(|e| e.is_final());
        let all = self.parts.launches.attempts();
        let ended: Vec<AttemptId> = all.into_iter().filter(over).collect();
        for a in ended {
            self.end_launches(a);
        }
        for uid in self.parts.launches.uids() {
            match self.follow_user(uid) {
                Ok(n) => found += n,
                Err(e) => tracing::debug!("{e}"),
            }
        }
        if hinted && found == 0 {
            self.hints.note_futile_hint();
        }
    }

    /// Handles the requests of one user. Returns their number.
    fn follow_user(&mut self, uid: u32) -> Result<usize, DropError> {
        let layout = self.setup.layout.clone();
        let inbox = DropBox::open(&layout.inbox()).map_err(DropError::System)?;
        let place = match inbox.enter(OsStr::new(&Layout::launches_below_inbox(uid))) {
            Ok(place) => place,
            // Most users start no commands.
            Err(_) => return Ok(0),
        };
        if place.uid != uid || place.open_to_all {
            return Ok(0);
        }
        let names = place.names(NAMES_MAX).map_err(DropError::System)?;
        let host = self.setup.site.host.clone();
        let mine = |name: &&str| Layout::launch_host(name) == Some(host.as_str());
        let names: Vec<&str> = names.iter().filter_map(|e| e.text()).filter(mine).collect();
        let found = names.len();
        for name in names.into_iter().take(STARTS_MAX) {
            let read = place.read(OsStr::new(name), LAUNCH_MAX);
            // Removed before it is started: it is started at most once.
            place.remove(OsStr::new(name)).map_err(DropError::System)?;
            let started = match read {
                Err(e) => Err(e.to_string()),
                Ok(dropped) if dropped.uid != uid => Err("it is another user's".to_owned()),
                Ok(dropped) => LaunchRequest::from_bytes(&dropped.bytes)
                    .and_then(|launch| self.start_launch(&launch, uid)),
            };
            if let Err(why) = started {
                tracing::warn!("a command of uid {uid} for this host is not started: {why}");
            }
        }
        Ok(found)
    }

    fn start_launch(&mut self, launch: &LaunchRequest, owner: u32) -> Result<(), String> {
        let work = self.parts.launches.judge(launch, owner)?;
        let (spec, mut own) = (work.spec, work.resources.clone());
        // For an attempt that began here, the table has the current values.
        if let Some(e) = self.table.get(launch.a) {
            own.binding = e.given.binding.clone();
            own.limits = e.limits.limits.as_deref().cloned().unwrap_or_default();
            own.limits.changes = e.limits.last_change;
        }
        let spawners = &mut self.spawners;
        let mut send = |m: &ToSpawner| spawners.push(m);
        let task = self.starter.launch(launch, (spec, &own), &mut send);
        let mut task = task.map_err(|refused| refused.text)?;
        task.limits.devices = self.devices_of(launch.a);
        self.parts.launches.launched(launch.a, clock::boot_ms());
        self.spawners.send(&ToSpawner::Start(Box::new(task)));
        self.spawners.flush();
        Ok(())
    }

    /// The attempt or part is over on this host: everything that was started for it is ended.
    pub(super) fn end_launches(&mut self, a: AttemptId) {
        // Commands that an earlier process of this program started are known only as commands.
        let runs = self.parts.commands.has(a);
        let used = self.parts.launches.part_usage(a);
        let used = used.map(|(u, run)| (u.clone(), run));
        if self.parts.launches.end(a) || runs {
            if let Some(used) = used {
                self.parts.late_parts.add(a, used, clock::boot_ms());
            }
            let (group, env) = (String::new(), self.env_of(a));
            self.spawners.send(&ToSpawner::Reap { a, group, env });
            self.spawners.flush();
            let _ = fs::remove(&self.setup.local.hosts_file(a));
            let _ = fs::remove(&self.setup.local.part_limits_file(a));
        }
    }
}
