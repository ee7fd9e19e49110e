//! Judging hosts by a merged requirement: `select[]`, `order[]`, `rusage[]`.

use super::hosts::HostInfo;
use crate::config::require::Request;
use crate::record::report::Usage;
use std::collections::HashMap;

/// Reserved amounts of a host by resource name.
type Reserved = HashMap<String, f64>;

impl Request {
    /// Whether the host satisfies `select[]`.
    pub fn selects(&self, _host: &HostInfo, _reserved: &Reserved) -> bool {
        true
    }

    /// Rank of the host by `order[]`: greater is better.
    pub fn score(&self, _host: &HostInfo, _reserved: &Reserved) -> i64 {
        0
    }

    /// How many of `room` slots the host's unreserved amounts allow.
    pub fn fit(&self, host: &HostInfo, reserved: &Reserved, room: u32) -> u32 {
        let mut room = room;
        for want in &self.rusage {
            let taken = reserved.get(&want.name).copied().unwrap_or(0.0);
            let have = host.number(&want.name).unwrap_or(0.0) - taken;
            if want.amount <= 0.0 {
                continue;
            }
            if want.per_slot {
                room = room.min((have / want.amount).max(0.0) as u32);
            } else if have < want.amount {
                return 0;
            }
        }
        room
    }

    /// Adds what a start on `slots` slots of one host takes.
    pub fn reserve(&self, reserved: &mut Reserved, slots: u32) {
        for want in &self.rusage {
            let n = if want.per_slot { f64::from(slots) } else { 1.0 };
            *reserved.entry(want.name.clone()).or_default() += want.amount * n;
        }
    }

    /// As [`Request::reserve`] for work that runs already: what it uses by now shows in the host's
    /// measured load, so only the rest of a measured reservation still counts.
    pub fn reserve_running(&self, reserved: &mut Reserved, slots: u32, usage: Option<&Usage>) {
        for want in &self.rusage {
            let n = if want.per_slot { f64::from(slots) } else { 1.0 };
            let used_mb = match (want.name.as_str(), usage) {
                ("mem", Some(usage)) => usage.mem_kb as f64 / 1024.0,
                ("swp", Some(usage)) => usage.swap_kb as f64 / 1024.0,
                _ => 0.0,
            };
            let rest = (want.amount * n - used_mb).max(0.0);
            *reserved.entry(want.name.clone()).or_default() += rest;
        }
    }
}
