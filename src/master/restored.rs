//! A share that an older copy has replaced: detects it from what hosts remember, lets one of them
//! remember the journal's position, and ends a leader whose epoch hosts have seen before. The turn
//! decides what follows.

use super::election;
use super::lead::Leader;
use super::leader_end::LeaderEnd;
use super::outgoing::REMIND_MS;
use crate::record::point::Point;
use crate::turn::{self, Input};

impl Leader {
    /// Reports to the turn, before anything else, a host that remembers more than the share: the
    /// share is older than what happened. When hosts already follow the next leader, the NFS client
    /// of an overtaken leader may still show old files.
    pub(super) fn report_lost_history(&mut self, inputs: &mut Vec<Input>) {
        let id = self.hosts.most_advanced.2;
        let Some((host, epoch)) = self.more_advanced_host() else {
            return;
        };
        let state = &self.core.state;
        let back = state.restored_share().map(|back| (back.epoch, back.id));
        if back.is_some_and(|back| back >= (epoch, id)) {
            return;
        }
        let later = epoch.max(state.epoch() + 1);
        let cache_ms = self.leadership.cache_ms();
        match election::highest(&self.site.layout, self.hosts.owners, later, cache_ms) {
            // A later leader is taking over, and this one ends soon.
            Ok(highest) if highest >= later || self.leadership.is_lost() => {}
            Ok(_) => inputs.insert(0, Input::RestoredShare { host, epoch, id }),
            Err(e) => tracing::warn!("{e}"),
        }
    }

    /// A host that has followed a later epoch, or was sent orders that follow from events that this
    /// journal lacks; with the epoch.
    fn more_advanced_host(&mut self) -> Option<(String, u64)> {
        let state = &self.core.state;
        let at = self.store.journal.position();
        let end = (at.segment, at.seq);
        let is_lacking = |point: &&Point| state.is_behind(point, end);
        let points = &mut self.hosts.points;
        points.retain(|_, points| points.iter().any(|point| is_lacking(&point)));
        let (host, epoch, _) = &self.hosts.most_advanced;
        if *epoch > state.epoch() {
            return Some((host.clone(), *epoch));
        }
        let lost = self.hosts.points.iter().find_map(|(host, points)| {
            let point = points.iter().find(is_lacking)?;
            Some((host.clone(), point.epoch))
        });
        // More ids may be found after the alarm was raised.
        lost.or_else(|| {
            state
                .restored_share()
                .map(|back| (back.host.clone(), back.epoch))
        })
    }

    /// Ends a leader whose epoch hosts have seen before, so that the next leader's epoch is new to
    /// them.
    pub(super) fn end_in_known_epoch(&self) -> Result<(), LeaderEnd> {
        let state = &self.core.state;
        match state.restored() {
            Some((above, _)) if above >= state.epoch() => {
                election::skip_epoch(&self.site.layout, above, &self.site.host)?;
                Err(LeaderEnd::Lost(format!(
                    "the share was restored: the next leader's epoch is above {above}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Lets one host remember how far the journal has come. If an older copy later replaces the
    /// share, the loss of jobs that were accepted and are pending for long is then noticed, too.
    pub(super) fn store_point_on_host(&mut self, now: u64) -> Result<(), LeaderEnd> {
        let at = self.store.journal.position();
        let (core, end) = (&self.core, (at.segment, at.seq));
        self.outgoing.orders.follow_from(core.state.point(end));
        if self.outgoing.orders.has_sent_point() {
            self.outgoing.point_unsent_since = None;
            return Ok(());
        }
        let since = *self.outgoing.point_unsent_since.get_or_insert(now);
        let early = now.saturating_sub(since) < REMIND_MS;
        if early || core.state.is_old() || self.reserve.is_full() {
            return Ok(());
        }
        self.outgoing.point_unsent_since = Some(now);
        let Some(host) = self.host_for_point() else {
            return Ok(());
        };
        let ack = self.outgoing.report_acks.take_held_back(&host);
        if !ack.is_empty() {
            self.recheck()?;
            return self.write_orders(ack).map(drop);
        }
        let core = &self.core;
        let again = |host: &str| {
            let orders = turn::outstanding(core, Some(host)).into_iter();
            orders.map(|(_, order)| order).collect()
        };
        self.outgoing
            .orders
            .send_point(&host, now, &core.state, &again);
        // If the host found it without a hint, it would seem that hints do not arrive.
        if let Some(endpoint) = self.hosts.endpoint(&host) {
            self.hints.hint_host(endpoint);
        }
        Ok(())
    }

    /// The host to which it is sent: one with a waiting acknowledgement, this one, or any that is
    /// up.
    fn host_for_point(&self) -> Option<String> {
        let state = &self.core.state;
        let is_up = |host: &&String| state.host_ctl(host).up;
        let mut up = state.known_hosts().filter(|(_, ctl)| ctl.up);
        let waits = self.outgoing.report_acks.any_host().filter(is_up);
        let host = waits.or(Some(&self.site.host).filter(is_up));
        host.or_else(|| up.next().map(|(name, _)| name)).cloned()
    }
}
