//! The part of the journal that is not about jobs: epochs, queues, hosts, the share itself. Knows
//! where the journals of the last epochs end, so that a share older than what its hosts saw is
//! detected.

use super::State;
use crate::record::event::Event;
use crate::record::point::{Point, epoch_id};
use crate::record::request::{HostAct, HostLock, QueueAct};

/// Number of epochs whose ends are kept, the newest ones.
pub(super) const EPOCHS_KEPT: usize = 256;

impl State {
    /// Applies events that concern no job.
    pub(super) fn apply_to_cluster(&mut self, event: &Event) {
        match event {
            Event::Queue {
                name,
                act,
                by,
                comment,
                t,
            } => {
                let ctl = self.queues.ctl.entry(name.clone()).or_default();
                match act {
                    QueueAct::Open => ctl.open = true,
                    QueueAct::Close => ctl.open = false,
                    QueueAct::Activate => ctl.active = true,
                    QueueAct::Inactivate => ctl.active = false,
                }
                (ctl.by, ctl.comment, ctl.t) = (by.clone(), comment.clone(), *t);
            }
            Event::Host {
                name,
                act,
                by,
                comment,
                t,
            } => {
                self.intern_host(name);
                let ctl = self.hosts.ctl.entry(name.clone()).or_default();
                match act {
                    HostAct::Open | HostAct::Close => {
                        ctl.closed = *act == HostAct::Close;
                        (ctl.by, ctl.comment, ctl.t) = (by.clone(), comment.clone(), *t);
                    }
                    HostAct::Lock { for_s } => ctl.lock = Some(HostLock::new(by, *t, *for_s)),
                    HostAct::Unlock => ctl.lock = None,
                }
            }
            Event::HostSeen { name, up, boot, .. } => self.host_seen(name, *up, boot),
            Event::HostLedger { name, id, .. } => {
                self.intern_host(name);
                self.hosts.ctl.entry(name.clone()).or_default().ledger = id.clone();
            }
            Event::HostReports { name, part, .. } => {
                self.intern_host(name);
                self.hosts.ctl.entry(name.clone()).or_default().part = *part;
            }
            Event::Config { digest, .. } => self.leaders.config_digest = digest.clone(),
            Event::WentBack { epoch, host, id, t } => {
                let (epoch, host, id, t) = (*epoch, host.clone(), *id, *t);
                self.leaders.restored_share = Some(super::RestoredShare { epoch, host, id, t });
            }
            Event::Restored { above, id, t, .. } => {
                self.leaders.restored_share = None;
                self.leaders.restored = Some((*above, *t));
                self.numbers.last_job = self.numbers.last_job.max(*id);
                self.hold_all();
                self.skip_due_times(*t);
                self.skip_order_numbers();
                self.note_copied();
            }
            Event::Shares { queue, past, t } => {
                self.queues
                    .share_histories
                    .insert(queue.clone(), (*t, past.clone()));
            }
            of_epochs => self.apply_to_epochs(of_epochs),
        }
    }

    /// Applies events that begin and end epochs.
    fn apply_to_epochs(&mut self, event: &Event) {
        match event {
            Event::Epoch {
                epoch,
                host,
                pid,
                t,
            } => {
                self.leaders.epoch = *epoch;
                self.note_epoch(*epoch, |end| end.id = epoch_id(host, *pid, t.0));
            }
            Event::Seal {
                epoch,
                segment,
                next_seq,
                ..
            } => self.note_epoch(*epoch, |end| end.end = end.end.max((*segment, *next_seq))),
            _ => {}
        }
    }

    /// Records something about an epoch, and removes the oldest.
    fn note_epoch(&mut self, epoch: u64, note: impl FnOnce(&mut super::parts::EpochEnd)) {
        note(self.leaders.ends.entry(epoch).or_default());
        while self.leaders.ends.len() > EPOCHS_KEPT {
            self.leaders.ends.pop_first();
        }
    }

    /// Whether this state lacks events from which orders were sent to a host: the share is then an
    /// older copy. `journal_end`: segment and sequence number up to which the journal of this epoch
    /// reaches.
    ///
    /// Orders are written after a sync and a check of the epoch, and each later epoch seals
    /// everything synced by then. So a point after the end of its epoch, or in an epoch that is not
    /// known here, belongs to records that existed and are lost.
    pub fn is_behind(&self, point: &Point, journal_end: (u64, u64)) -> bool {
        let confirmed = self
            .leaders
            .restored
            .is_some_and(|(above, _)| point.epoch <= above);
        if confirmed || point.epoch > self.leaders.epoch {
            return false;
        }
        let Some(end) = self.leaders.ends.get(&point.epoch) else {
            // Nothing is known of epochs before the first one that is kept.
            let first = self.leaders.ends.keys().next();
            return first.is_some_and(|first| *first < point.epoch);
        };
        let other = end.id != 0 && point.id != 0 && end.id != point.id;
        let at = if point.epoch == self.leaders.epoch {
            journal_end
        } else {
            end.end
        };
        other || (point.segment, point.seq) > at
    }

    /// The point of the journal at this segment and sequence number of this epoch.
    pub fn point(&self, (segment, seq): (u64, u64)) -> Point {
        Point {
            epoch: self.leaders.epoch,
            segment,
            seq,
            id: self
                .leaders
                .ends
                .get(&self.leaders.epoch)
                .map_or(0, |end| end.id),
        }
    }
}
