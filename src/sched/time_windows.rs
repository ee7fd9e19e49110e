//! Run windows of queues, dispatch windows of queues and hosts: which are open now, and until when.
//! The time zone is data. Never reads a clock; what follows for jobs is decided in
//! `pass/run_windows.rs`.

use super::hosts::HostTable;
use crate::config::Config;
use crate::model::Stamp;
use crate::text::window::Windows;
use jiff::tz::TimeZone;

/// Whether something is open at a moment, and for how long that is valid.
#[derive(Clone, Debug)]
pub(super) struct WindowState {
    pub open: bool,
    /// The next change.
    pub change: Option<Stamp>,
}

impl WindowState {
    const ALWAYS: WindowState = WindowState {
        open: true,
        change: None,
    };

    fn at(windows: Option<&Windows>, now: Stamp, zone: &TimeZone) -> WindowState {
        windows.map_or(WindowState::ALWAYS, |windows| WindowState {
            open: windows.contains_ms(now.0, zone),
            change: windows.next_change_ms(now.0, zone).map(Stamp),
        })
    }
}

/// What is open now.
#[derive(Debug)]
pub(super) struct TimeWindows {
    zone: TimeZone,
    /// By queue.
    run: Vec<WindowState>,
    dispatch: Vec<WindowState>,
    /// Hosts that have a window, by position.
    hosts: Vec<(u32, WindowState)>,
    /// Some queue has a window.
    any_queue: bool,
    /// The period in which all this is valid.
    valid_in: Option<(Stamp, Stamp)>,
}

impl Default for TimeWindows {
    fn default() -> TimeWindows {
        TimeWindows {
            zone: TimeZone::UTC,
            run: Vec::new(),
            dispatch: Vec::new(),
            hosts: Vec::new(),
            any_queue: false,
            valid_in: None,
        }
    }
}

impl TimeWindows {
    /// The windows for another configuration or other hosts: everything is computed at the next
    /// check.
    pub(super) fn renewed(zone: TimeZone, config: &Config, table: &HostTable) -> TimeWindows {
        let queues = config.queues.len();
        let windowed = |at: &usize| table.at(*at).entry.dispatch_window.is_some();
        let hosts = (0..table.count()).filter(windowed);
        let windowed =
            |q: &crate::config::Queue| q.run_window.is_some() || q.dispatch_window.is_some();
        TimeWindows {
            zone,
            run: vec![WindowState::ALWAYS; queues],
            dispatch: vec![WindowState::ALWAYS; queues],
            hosts: hosts.map(|at| (at as u32, WindowState::ALWAYS)).collect(),
            any_queue: config.queues.iter().any(windowed),
            valid_in: None,
        }
    }

    /// Whether the run window of a queue is open.
    pub(super) fn runs(&self, queue: Option<u16>) -> bool {
        let state = queue.and_then(|at| self.run.get(usize::from(at)));
        state.is_none_or(|state| state.open)
    }

    /// Whether the dispatch window of a host is closed.
    pub(super) fn is_closed(&self, at: usize) -> bool {
        let found = self.hosts.binary_search_by_key(&(at as u32), |(at, _)| *at);
        found.is_ok_and(|at| !self.hosts[at].1.open)
    }

    pub(super) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    pub(super) fn set_zone(&mut self, zone: TimeZone) {
        self.zone = zone;
        self.valid_in = None;
    }

    /// Whether some queue has a window.
    pub(super) fn any_of_queues(&self) -> bool {
        self.any_queue
    }

    /// Whether some queue or host has a window.
    pub(super) fn any(&self) -> bool {
        self.any_queue || !self.hosts.is_empty()
    }

    /// The run window of a queue.
    pub(super) fn run(&self, queue: usize) -> Option<&WindowState> {
        self.run.get(queue)
    }

    /// The dispatch window of a queue.
    pub(super) fn dispatch(&self, queue: usize) -> Option<&WindowState> {
        self.dispatch.get(queue)
    }

    /// Computes what is open at `now`, unless the known result is still valid. Returns the hosts
    /// whose dispatch window opened or closed.
    pub(super) fn renew(&mut self, config: &Config, table: &HostTable, now: Stamp) -> Vec<usize> {
        let mut turned = Vec::new();
        if self
            .valid_in
            .is_some_and(|(from, until)| from <= now && now < until)
        {
            return turned;
        }
        for (at, queue) in config.queues.iter().enumerate() {
            self.run[at] = WindowState::at(queue.run_window.as_ref(), now, &self.zone);
            self.dispatch[at] = WindowState::at(queue.dispatch_window.as_ref(), now, &self.zone);
        }
        for (at, state) in &mut self.hosts {
            let windows = table.at(*at as usize).entry.dispatch_window.as_ref();
            let new = WindowState::at(windows, now, &self.zone);
            if new.open != state.open {
                turned.push(*at as usize);
            }
            *state = new;
        }
        // The clock may be set, so the result is valid only for a limited time.
        let until = now.plus_ms(config.general.job_check_interval_ms.max(1));
        self.valid_in = Some((now, self.next(now).map_or(until, |at| at.min(until))));
        turned
    }

    /// The next time a window opens or closes.
    pub(super) fn next(&self, now: Stamp) -> Option<Stamp> {
        let hosts = self.hosts.iter().map(|(_, state)| state);
        let states = self.run.iter().chain(&self.dispatch).chain(hosts);
        states
            .filter_map(|state| state.change)
            .filter(|at| *at > now)
            .min()
    }
}
