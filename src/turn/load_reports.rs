//! Load samples of hosts: whether a host is up, its measured values, the limit that it applies.

use super::context::Turn;
use super::host_loss::SILENT_MS;
use crate::model::Mono;
use crate::record::event::Event;
use crate::record::load::LoadDoc;
use crate::record::order::Order;

impl Turn<'_> {
    /// Takes a load sample; its age shows whether the host is up.
    pub(super) fn load(&mut self, host: &str, mut doc: LoadDoc, silent_ms: u64) {
        // A host that cb.yaml no longer names counts until the last job there has ended.
        let member = self.core.config.host(host).is_some();
        if !member && self.core.state.on_host(host).next().is_none() {
            return;
        }
        let (silent, memory) = (silent_ms > SILENT_MS, self.core.memory.host_mut(host));
        memory.given_up.heard(self.mono, silent);
        self.exclude_from_dispatch(host, &mut doc);
        self.order_iso_timeout(host, &doc, silent_ms);
        match silent {
            true => self.core.memory.silent.insert(host.to_owned()),
            false => self.core.memory.silent.remove(host),
        };
        let up = silent_ms < SILENT_MS && !doc.boot.is_empty();
        self.take_sensors(host, &mut doc, up);
        self.note_beat(host, &doc, silent_ms);
        let before = self.core.inputs.loads.get(host);
        if before.is_some_and(|(d, _)| d.executor) && !doc.executor {
            // No part can be prepared there. Whatever is already started needs no executor.
            self.cancel_preparing_on(host, "runs no executor");
        }
        if self.core.state.host_ctl(host).up != up {
            let (name, boot, t) = (host.to_owned(), String::new(), self.now);
            self.emit(Event::HostSeen { name, up, boot, t });
            self.core.pass.needed = true;
            if !up && !self.core.state.is_old() {
                self.cancel_unstarted(host);
                self.cancel_preparing_on(host, "does not answer");
            }
        }
        let core = &mut *self.core;
        if member {
            core.pass.needed = true;
            core.pass.hosts_changed |= !core.hosts.sample(&core.state, host, &doc, silent_ms);
        }
        core.inputs.loads.insert(host.to_owned(), (doc, silent_ms));
    }

    /// Notes when the host beat, if this sample shows another beat than the last one.
    fn note_beat(&mut self, host: &str, doc: &LoadDoc, silent_ms: u64) {
        let known = self.core.inputs.loads.get(host);
        let same = |(known, _): &(LoadDoc, u64)| {
            (&known.incarnation, known.beat) == (&doc.incarnation, doc.beat)
        };
        if !known.is_some_and(same) {
            let at = Mono(self.mono.0.saturating_sub(silent_ms));
            self.core.memory.host_mut(host).alive_at = Some(at);
        }
    }

    /// Orders `iso_timeout` from a host that uses another value.
    fn order_iso_timeout(&mut self, host: &str, doc: &LoadDoc, silent_ms: u64) {
        let limit = self.core.config.general.iso_timeout_ms;
        let is_old = self.core.state.is_old();
        let memory = self.core.memory.host_mut(host);
        // If there never was a limit, none is needed.
        if doc.iso_ms.map_or(limit == 0, |reported| reported == limit) {
            memory.iso_ordered = None;
            return;
        }
        let listens = doc.executor && silent_ms < SILENT_MS && !is_old;
        if listens && memory.iso_ordered != Some(limit) {
            memory.iso_ordered = Some(limit);
            self.ready.order(host, Order::Limit { iso_ms: limit });
        }
    }
}
