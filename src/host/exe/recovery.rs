//! Recovery of what earlier processes of this host left: half-started tasks, ended shepherds,
//! control groups, files. Runs when a spawner is ready, and finds ended shepherds while tasks run.
//!
//! Owns the rule that an end without a record is unknown, and that "never started" is reported only
//! if intact records prove it.

use super::exec::Exec;
use super::spawn;
use super::table::{Entry, Shepherd, Status};
use crate::host::local::Local;
use crate::model::{AttemptId, TermReason};
use crate::sys::{clock, proc};
use crate::task::ending;
use crate::task::spec::ToSpawner;

/// Whether a shepherd has certainly ended.
pub(super) fn has_ended(s: &Shepherd) -> bool {
    s.boot != proc::boot_id() || proc::has_ended(s.pid, s.started_ms)
}

impl Exec {
    /// Starts a spawner and recovers the attempts of the previous one.
    pub fn respawn(&mut self) {
        // Also above the numbers of recorded logs that no longer exist: their content is not in the
        // new log.
        let known = self
            .table
            .live_attempts()
            .filter_map(|(_, e)| match e.status {
                Status::Sent(log) => Some(log.saturating_add(1)),
                _ => None,
            });
        let log = known.fold(spawn::next_log(&self.setup.local), u64::max);
        match self.spawners.start(&self.setup.local, log) {
            Ok(()) => {
                self.starter.new_spawner();
                self.starter.units.new_spawner();
                self.follow_units();
                self.recover(log);
            }
            Err(e) => {
                tracing::error!("{e}");
                clock::sleep_ms(1_000);
            }
        }
    }

    /// Once a spawner is ready, attempts of earlier spawners without a recorded start were never
    /// started, and shepherds that are not alive ended without a record. Attempts whose tasks log
    /// cannot be read are left for a later call.
    pub(super) fn recover(&mut self, log: u64) {
        self.follow_tasks();
        self.spawners.unrecovered = self.spawners.logs.any_fails();
        let logs = &self.spawners.logs;
        let waits = |e: &Entry| matches!(e.status, Status::Sent(n) if n != log && !logs.fails(n));
        let given = self.table.live_attempts().filter(|(_, e)| waits(e));
        let given: Vec<AttemptId> = given.map(|(a, _)| a).collect();
        for a in given {
            let Some(e) = self.table.get(a) else { continue };
            let logs = &self.spawners.logs;
            // The log of started tasks may have lost its last records at a power failure.
            let unknown = if e.given.boot != proc::boot_id() {
                Some("the host was restarted before the start was recorded durably")
            } else if matches!(e.status, Status::Sent(n) if n > 0 && !logs.is_complete(n)) {
                Some("the host's log of started tasks is damaged or gone")
            } else {
                None
            };
            match unknown {
                Some(text) => {
                    let mut end = ending::unknown(a, TermReason::HostLost, text);
                    end.t = clock::wall_ms();
                    self.record_end(end);
                }
                None => self.never_start(a, "the spawner ended before it was started"),
            }
        }
        self.find_lost();
        self.sweep_groups();
        if let Err(e) = self.ledger.commit(true) {
            self.rewrite_after_failure(&e.to_string());
        }
    }

    pub(super) fn sweep_groups(&mut self) {
        // It is not known which groups belong to running tasks.
        if self.spawners.unrecovered {
            return;
        }
        self.follow_commands();
        let tasks = self.table.running().map(|(_, s)| s.group.clone());
        let keep: Vec<String> = tasks.chain(self.parts.commands.groups()).collect();
        self.spawners.send(&ToSpawner::Sweep { keep });
        self.spawners.flush();
    }

    /// A shepherd has ended without a record: the end of its task is unknown, and its processes are
    /// killed.
    pub(super) fn note_lost(&mut self, a: AttemptId, pid: i32) {
        let Some(e) = self.table.get(a) else { return };
        let log = match &e.status {
            Status::Running(s) => s.log,
            Status::Sent(n) => *n,
            _ => return,
        };
        // The log that cannot be read may contain its record.
        if self.spawners.logs.fails(log) {
            if !self.spawners.died.contains(&(a, pid)) {
                self.spawners.died.push((a, pid));
            }
            return;
        }
        match &e.status {
            Status::Running(s) if s.pid == pid => {
                let (group, rebooted) = (s.group.clone(), s.boot != proc::boot_id());
                self.conclude_lost(a, group, rebooted);
            }
            Status::Sent(_) => self.never_start(a, "its shepherd ended before it was started"),
            _ => {}
        }
    }

    pub(super) fn conclude_lost(&mut self, a: AttemptId, group: String, rebooted: bool) {
        let (reason, text) = match rebooted {
            true => (TermReason::HostLost, "the host was restarted while it ran"),
            false => (TermReason::ShepherdLost, "its shepherd was killed"),
        };
        tracing::warn!("attempt {a}: end unknown, {text}");
        if !rebooted {
            let env = self.env_of(a);
            self.spawners.send(&ToSpawner::Reap { a, group, env });
            self.spawners.flush();
        }
        self.spawners.send(&ToSpawner::ClearTmp);
        self.spawners.flush();
        let mut end = ending::unknown(a, reason, text);
        end.t = clock::wall_ms();
        if let Some(Status::Running(s)) = self.table.get(a).map(|e| &e.status) {
            end.start = s.t;
        }
        self.record_end(end);
    }

    /// Variables that every process of an attempt has in its environment.
    pub(super) fn env_of(&self, a: AttemptId) -> Vec<String> {
        let mut env = self.host_env();
        env.push(format!("CB_JOBID={}", a.j.id));
        env.push(format!("CB_JOBINDEX={}", a.j.idx));
        env.push(format!("CB_ATTEMPT={}", a.at));
        env
    }

    /// Variables that every process of a job on this host has in its environment.
    fn host_env(&self) -> Vec<String> {
        let conf = crate::sys::fs::parent(&self.setup.site.conf);
        vec![
            format!("CB_EXEC_HOST={}", self.setup.site.host),
            format!("CB_ENVDIR={}", conf.to_string_lossy()),
        ]
    }

    /// Checks whether the shepherds of running tasks are alive.
    pub(super) fn find_lost(&mut self) {
        let mut dead = std::mem::take(&mut self.spawners.died);
        let ended = self.table.running().filter(|(_, s)| has_ended(s));
        dead.extend(ended.map(|(a, s)| (a, s.pid)));
        if dead.is_empty() {
            return;
        }
        // A shepherd that ended normally has written its record before.
        self.follow_tasks();
        for (a, pid) in dead {
            self.note_lost(a, pid);
        }
    }

    /// Ends processes of an earlier executor of this host that this one does not know: its ledger
    /// is lost, and no attempt of the leader refers to them. On hosts with control groups, the
    /// spawner's sweep has ended them.
    pub fn clear_away(&mut self) {
        if self.spawners.unrecovered || self.table.live_attempts().next().is_some() {
            return;
        }
        let (a, group, env) = (AttemptId::default(), String::new(), self.host_env());
        self.spawners.send(&ToSpawner::Reap { a, group, env });
        self.spawners.flush();
    }

    /// Removes temporary directories that no task holds: a spawner that was killed cannot take back
    /// those of its tasks.
    pub(super) fn sweep_tmp(&mut self) {
        self.spawners.send(&ToSpawner::ClearTmp);
        self.spawners.flush();
    }

    /// Removes copies of scripts and temporary directories whose shepherds were killed before they
    /// could remove them.
    pub fn sweep_scratch(&mut self) {
        if self.spawners.unrecovered {
            return;
        }
        self.sweep_tmp();
        let dir = self.setup.local.scratch_dir();
        let names = crate::sys::fs::list_dir(&dir, 1_000_000).unwrap_or_default();
        let live: Vec<String> = self
            .table
            .live_attempts()
            .map(|(a, _)| Local::scratch_prefix(a))
            .collect();
        for name in names.iter().filter_map(|e| e.text()) {
            if !live.iter().any(|prefix| name.starts_with(prefix)) {
                let _ = crate::sys::fs::remove(&dir.join(name));
            }
        }
    }
}
