//! Judging hosts by a merged requirement: `select[]`, `order[]`, `rusage[]`.

use super::hosts::HostInfo;
use crate::config::require::Request;
use crate::record::report::Usage;
use crate::text::resreq::{Direction, HostFacts, builtin};
use std::collections::HashMap;

/// Reserved amounts of a host by resource name.
pub type Reserved = HashMap<String, f64>;

/// A host as an expression sees it: measured values less what is reserved.
pub struct Facts<'a> {
    pub host: &'a HostInfo,
    pub reserved: &'a Reserved,
    pub free: u32,
    /// The submission host, when it belongs to the cluster.
    pub local: Option<&'a HostInfo>,
}

impl HostFacts for Facts<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        if name == "slots" {
            return Some(f64::from(self.free));
        }
        let value = self.host.number(name)?;
        let taken = self.reserved.get(name).copied().unwrap_or(0.0);
        let more_is_less =
            builtin(name).is_some_and(|b| matches!(b.direction, Direction::Increase));
        Some(if more_is_less {
            value + taken
        } else {
            value - taken
        })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.host.text(name)
    }

    fn tag(&self, name: &str) -> bool {
        self.host.tag(name)
    }

    fn local(&self, name: &str) -> Option<&str> {
        self.local?.text(name)
    }
}

impl Request {
    /// Whether the host satisfies `select[]`; without one (or without a word about types in it) it
    /// must be of the submission host's type, when that is known.
    pub fn selects(&self, facts: &Facts<'_>) -> bool {
        let named = self
            .select
            .as_ref()
            .is_some_and(|select| select.mentions_text_or_tag());
        if let (false, Some(local)) = (named, facts.local)
            && local.host_type() != facts.host.host_type()
        {
            return false;
        }
        self.select
            .as_ref()
            .is_none_or(|select| select.accepts(facts))
    }

    /// The host's values of the `order[]` keys, each so that smaller is better.
    pub fn keys(&self, facts: &Facts<'_>) -> Vec<f64> {
        let Some(order) = &self.order else {
            return Vec::new();
        };
        let key = |key: &crate::text::resreq::OrderKey| {
            let less_is_better =
                builtin(&key.name).is_some_and(|b| matches!(b.direction, Direction::Increase));
            let value = facts.number(&key.name);
            match (value, less_is_better != key.reverse) {
                (None, _) => f64::INFINITY,
                (Some(value), true) => value,
                (Some(value), false) => -value,
            }
        };
        order.keys.iter().map(key).collect()
    }

    /// For an order by unused slots alone: whether more come first; it changes with every start.
    pub fn by_slots(&self) -> Option<bool> {
        match self.order.as_ref().map(|order| &order.keys[..]) {
            Some([key]) if key.name == "slots" => Some(!key.reverse),
            _ => None,
        }
    }

    /// How many of `room` slots the host's unreserved amounts allow.
    pub fn fit(&self, host: &HostInfo, reserved: &Reserved, room: u32) -> u32 {
        let mut room = room;
        for want in self.rusage.iter().filter(|want| want.amount > 0.0) {
            let taken = reserved.get(&want.name).copied().unwrap_or(0.0);
            let have = host.number(&want.name).unwrap_or(0.0) - taken;
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
