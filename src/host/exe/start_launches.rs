//! Commands that users start on this host for running jobs of theirs (`claunch`): found in their
//! drop boxes, checked, and given to the spawner.
//!
//! The owner of the file is who asks. What is started here is on no record: it lives as long as the
//! `claunch` that waits for it, and is ended with the job's part at the latest.

use super::exec::Exec;
use crate::model::AttemptId;
use crate::record::launch::{LAUNCH_MAX, LaunchRequest};
use crate::spool::Layout;
use crate::sys::clock;
use crate::sys::dropbox::{DropBox, DropError};
use crate::task::spec::ToSpawner;
use std::ffi::OsStr;

/// Pause between two looks, ms: where looking is free, and where it asks a file server.
const LOOK_MS: u64 = 100;
const REMOTE_MS: u64 = 1_000;
/// Most names of one user that are looked at in one look, and so many are started.
const NAMES_MAX: usize = 1_000;
const STARTS_MAX: usize = 64;

impl Exec {
    /// Pause between two looks for commands to start.
    pub(super) fn launch_pause_ms(&self) -> u64 {
        match self.place.share_is_local {
            true => LOOK_MS,
            false => REMOTE_MS,
        }
    }

    /// How long a turn may be waited for (ms).
    pub(super) fn launches_due_ms(&self) -> u64 {
        let due = self
            .parts
            .launches
            .due_in(clock::boot_ms(), self.launch_pause_ms());
        due.unwrap_or(u64::MAX)
    }

    /// Looks for commands to start and starts them.
    pub(super) fn follow_launches(&mut self, now: u64) {
        self.parts.launches.looked(now);
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
            if let Err(e) = self.follow_user(uid) {
                tracing::debug!("{e}");
            }
        }
    }

    fn follow_user(&mut self, uid: u32) -> Result<(), DropError> {
        let layout = self.place.layout.clone();
        let inbox = DropBox::open(&layout.inbox()).map_err(DropError::System)?;
        let place = match inbox.enter(OsStr::new(&Layout::launches_below_inbox(uid))) {
            Ok(place) => place,
            // The usual user starts nothing.
            Err(_) => return Ok(()),
        };
        if place.uid != uid || place.open_to_all {
            return Ok(());
        }
        let names = place.names(NAMES_MAX).map_err(DropError::System)?;
        let host = self.place.site.host.clone();
        let mine = |name: &&str| Layout::launch_host(name) == Some(host.as_str());
        let names: Vec<&str> = names.iter().filter_map(|e| e.text()).filter(mine).collect();
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
        Ok(())
    }

    fn start_launch(&mut self, launch: &LaunchRequest, owner: u32) -> Result<(), String> {
        let spec = self.parts.launches.judge(launch, owner)?;
        let spawners = &mut self.spawners;
        let mut send = |m: &ToSpawner| spawners.push(m);
        let task = self.starter.launch(launch, spec, &mut send);
        let mut task = task.map_err(|refused| refused.text)?;
        task.limits.devices = self.devices_of(launch.a);
        self.parts.launches.launched(launch.a);
        self.spawners.send(&ToSpawner::Start(Box::new(task)));
        self.spawners.flush();
        Ok(())
    }

    /// The work is over here: nothing that was started for it goes on.
    pub(super) fn end_launches(&mut self, a: AttemptId) {
        if self.parts.launches.end(a) {
            let (group, env) = (String::new(), self.env_of(a));
            self.spawners.send(&ToSpawner::Reap { a, group, env });
            self.spawners.flush();
        }
    }
}
