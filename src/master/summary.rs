//! The leader publishes what commands show: the rows of a turn, the summary views with the alarms.
//!
//! A failed write costs freshness, never a job. [`super::publish`] writes the files.

use super::lead::Leader;
use super::leader_end::LeaderEnd;
use super::leader_metrics::TimedWork;
use crate::model::Stamp;
use crate::record::cron::CronJob;
use crate::record::job_group::JobGroup;
use crate::record::view::{self, CountChanges};
use crate::sys::{self, clock, fs};
use crate::turn;
use std::path::Path;

/// Maximum number of alarms that are shown.
const ALARMS_MAX: usize = 50;

impl Leader {
    /// Writes the changes of this turn for readers, in one write. `answers`: a command waits for an
    /// answer. Rows that no command waits for are written at most a few times a second.
    pub(super) fn publish_rows(&mut self, answers: bool, now: u64) -> Result<(), LeaderEnd> {
        let changed = self.core.state.take_delta();
        if !changed.is_empty() && self.view.has_summary {
            let changes = self.count_changes();
            self.view.publisher.counts(changes, false);
        }
        let state = &self.core.state;
        let (rows, shards) = state.delta_rows(changed);
        if !rows.is_empty() {
            self.view
                .publisher
                .rows(&rows, &|id| state.spec(id).as_ref());
            self.view.publisher.mark_changed(shards);
        }
        drop(rows);
        let soon =
            !self.wakeups.has_events() && self.view.publisher.flush_at().is_some_and(|at| now < at);
        if soon && !answers {
            return Ok(());
        }
        // A full disk delays the rows but loses nothing: they are written with the next round.
        if let Err(e) = self.view.publisher.flush() {
            self.view_lags(&e);
        }
        Ok(())
    }

    /// Notes the result of a write: on a full share the view that readers see may be out of date.
    fn note_write(&mut self, wrote: sys::Result<()>) {
        if let Err(e) = wrote {
            self.view_lags(&e);
        }
    }

    pub(super) fn view_lags(&mut self, e: &sys::Error) {
        if e.is_no_space() {
            return self
                .reserve
                .enter_disk_full(&e.to_string(), &self.leadership);
        }
        let text = format!("commands show an old state because the view cannot be written: {e}");
        self.view.alarms.raise("view", text, clock::boot_ms());
    }

    /// Publishes shares and estimates, and the documents if they are due or `all` is set.
    pub(super) fn publish_summary(&mut self, all: bool, now: u64) {
        let changes = self.count_changes();
        let documents = all || self.view.documents_are_due(self.hosts.count(), now);
        self.view.publisher.counts(changes, documents);
        self.view.has_summary = true;
        // The summary views must not be ahead of the jobs.
        if let Err(e) = self.view.publisher.flush() {
            self.view_lags(&e);
        }
        self.publish_shares(now);
        if documents {
            self.publish_documents(now);
        }
    }

    fn count_changes(&mut self) -> CountChanges {
        let wall = Stamp(clock::wall_ms());
        turn::count_changes(&mut self.core, &mut self.view.shown_counts, wall)
    }

    fn publish_shares(&mut self, now: u64) {
        let (core, wall) = (&self.core, Stamp(clock::wall_ms()));
        let shares = turn::share_rows(core, wall);
        let grow = shares.iter().any(|row| row.started > 0);
        self.view.summary.shares_written(now, shares.len(), grow);
        let publisher = &mut self.view.publisher;
        let wrote = [
            publisher.document(view::SHARES, &shares),
            publisher.document(view::ESTIMATES, &turn::estimate_rows(core)),
        ];
        let version = core.state.cron_version();
        let crons = match self.view.shown_crons == Some(version) {
            true => Ok(()),
            false => {
                let rows: Vec<&CronJob> = core.state.crons().collect();
                publisher.document(view::CRONS, &rows)
            }
        };
        self.view.shown_crons = crons.is_ok().then_some(version);
        let version = core.state.job_group_version();
        let groups = match self.view.shown_groups == Some(version) {
            true => Ok(()),
            false => {
                let rows: Vec<&JobGroup> = core.state.job_groups().collect();
                publisher.document(view::JOB_GROUPS, &rows)
            }
        };
        self.view.shown_groups = groups.is_ok().then_some(version);
        self.note_write(wrote.into_iter().chain([crons, groups]).collect());
    }

    fn publish_documents(&mut self, now: u64) {
        let began_ns = clock::boot_ns();
        self.write_documents(now);
        self.view.meter.timed(TimedWork::Publication, began_ns);
        if self.view.meter.is_due(now) {
            let (name, figures) = self.view.meter.document();
            let wrote = self.view.publisher.document(name, figures);
            self.note_write(wrote);
        }
    }

    fn write_documents(&mut self, now: u64) {
        self.view.summary.documents_written(now);
        if self.view.may_compare_clock(now) {
            // The beat is at most a few seconds old, which is little compared with the minute from
            // which on the clock is doubted.
            self.compare_clock(&self.site.layout.beat());
        }
        let (core, wall) = (&self.core, Stamp(clock::wall_ms()));
        let mut params = turn::params(core, &self.site.cluster, &self.site.host, self.site.since);
        let full = self.reserve.alarm();
        let back = core.state.restored_share();
        let back = back.map(|back| turn::restored_share_alarm(back, core.state.epoch()));
        let clock_alarm = core.clock_alarm();
        let (orders, snapshots) = (self.outgoing.orders.alarm(), self.store.snapshots.alarm());
        let accounts = self.store.accounts.alarm();
        let (damages, unreadable) = (self.hosts.damages(now), self.hosts.unreadable());
        let unreadable: Vec<String> = unreadable.collect();
        let grave = full.iter().chain(&back).chain(self.view.alarms.grave());
        let grave = grave
            .chain(self.outgoing.orders.damages(now))
            .chain(&damages);
        let grave: Vec<&String> = grave.take(ALARMS_MAX).collect();
        params.grave_alarms = grave.len();
        let others = clock_alarm.iter().chain(&orders).chain(&accounts);
        let others = others.chain(&snapshots).chain(self.view.alarms.others(now));
        let hooks = core.hook_alarms();
        let others = others.chain(&hooks);
        let others = others.chain(&unreadable).chain(&self.hosts.alarms);
        let alarms = grave.into_iter().chain(others).take(ALARMS_MAX);
        params.alarms = alarms.cloned().collect();
        let configured = |host: &str| core.config.host(host).is_some();
        params.unconfigured_hosts = self.hosts.unconfigured(configured);
        let publisher = &mut self.view.publisher;
        // The parameters come first: they report a share without room for the rest. Each document
        // is written separately: one that cannot be replaced must not block the others.
        let wrote = [
            publisher.document(view::PARAMS, &[params]),
            publisher.document(view::HOSTS, &turn::host_rows(core)),
            publisher.document(view::QUEUES, &turn::queue_rows(core)),
            publisher.document(view::USERS, &turn::user_rows(core)),
            publisher.document(view::LIMITS, &turn::limit_rows(core, wall)),
        ];
        self.note_write(wrote.into_iter().collect());
    }

    /// Compares the leader's clock with the file server's, using a file that this leader has just
    /// written.
    pub(super) fn compare_clock(&mut self, written: &Path) {
        if let Ok(Some(written)) = fs::stat(written) {
            let now = clock::now();
            let ahead_ms = now.wall.0.saturating_sub(written.mtime_ms);
            self.core.note_server_clock(now, ahead_ms);
        }
    }
}
