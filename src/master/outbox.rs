//! What the leader writes for others, one writer per file: acknowledgements and orders.
//!
//! Needs no durability: after a crash a new epoch repeats every answer and order from the journal.
//! But on a network file system what is written through a descriptor that stays open reaches the
//! server only with a sync, or half a minute later by the kernel's own will; so there it is synced.
//! A write that fails for want of room is tried again: answers in the same file, a host's orders in
//! the next part. After any other failed write the leader steps down.

use crate::record::frame;
use crate::record::header::{Header, What};
use crate::record::order::Order;
use crate::spool::Layout;
use crate::state::State;
use crate::sys::append::Appender;
use crate::sys::mount::FsKind;
use crate::sys::{self, fs};
use std::collections::{BTreeMap, BTreeSet};

/// Size at which an orders file is continued in a new part, in bytes.
const PART_BYTES: u64 = 8 << 20;

/// A framed file with its next sequence number.
pub(super) struct Framed {
    pub(super) file: Appender,
    seq: u64,
    pub(super) buffer: Vec<u8>,
    /// What is written must be synced to be seen by other hosts.
    pub(super) sync: bool,
}

impl Framed {
    pub(super) fn create(
        path: &std::path::Path,
        header: &Header,
        sync: bool,
    ) -> sys::Result<Framed> {
        fs::mkdir_p(fs::parent(path), 0o755)?;
        let mut framed = Framed {
            file: Appender::create_new(path)?,
            seq: 0,
            buffer: Vec::new(),
            sync,
        };
        framed.push(header);
        if let Err(e) = framed.flush() {
            // Nobody has read it, and the next attempt takes the same name.
            drop(fs::remove(path));
            return Err(e);
        }
        Ok(framed)
    }

    pub(super) fn push<T: serde::Serialize>(&mut self, record: &T) {
        match frame::write(&mut self.buffer, self.seq, record) {
            Ok(()) => self.seq += 1,
            Err(e) => tracing::error!("a record cannot be written as JSON: {e}"),
        }
    }

    fn flush(&mut self) -> sys::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let wrote = self.file.append(&self.buffer).map(|_| ());
        self.buffer.clear();
        match self.sync {
            true => wrote.and_then(|()| self.file.sync()),
            false => wrote,
        }
    }
}

/// Orders of this epoch to all hosts.
pub struct Orders {
    layout: Layout,
    cluster: String,
    epoch: u64,
    hosts: BTreeMap<String, HostOrders>,
    sync: bool,
    /// Why some hosts' orders wait for room on the share.
    waiting: Option<String>,
}

struct HostOrders {
    part: u64,
    /// None: a write found no room. All that is in force goes to the next part.
    framed: Option<Framed>,
    /// Specifications defined in this part.
    specs: BTreeSet<u32>,
}

impl Orders {
    /// # Errors
    /// When the kind of the share's file system cannot be found out.
    pub fn new(layout: &Layout, cluster: &str, epoch: u64) -> sys::Result<Orders> {
        let sync = sys::mount::fs_kind(layout.root())? != FsKind::Local;
        let (layout, cluster) = (layout.clone(), cluster.to_owned());
        Ok(Orders {
            layout,
            cluster,
            epoch,
            hosts: BTreeMap::new(),
            sync,
            waiting: None,
        })
    }

    /// Makes the host's file, so that the host never looks for a name that is not there yet.
    ///
    /// # Errors
    /// When the file cannot be made; for want of room it is made later.
    pub fn prepare(&mut self, host: &str) -> sys::Result<()> {
        if self.hosts.contains_key(host) {
            return Ok(());
        }
        let file = match self.open(host, 1) {
            Err(e) if e.is_no_space() => self.without_room(0, &e),
            other => other?,
        };
        self.hosts.insert(host.to_owned(), file);
        Ok(())
    }

    fn without_room(&mut self, part: u64, e: &sys::Error) -> HostOrders {
        tracing::error!("{e}: these orders wait for room");
        self.waiting = Some(e.to_string());
        HostOrders {
            part,
            framed: None,
            specs: BTreeSet::new(),
        }
    }

    fn open(&self, host: &str, part: u64) -> sys::Result<HostOrders> {
        let header = Header::new(What::Orders, &self.cluster, self.epoch, part);
        let path = self.layout.orders(host, self.epoch, part);
        let framed = Framed::create(&path, &header, self.sync)?;
        Ok(HostOrders {
            part,
            framed: Some(framed),
            specs: BTreeSet::new(),
        })
    }

    /// Why orders wait for room on the share, if any do.
    pub fn waiting(&self) -> Option<&str> {
        self.waiting.as_deref()
    }

    /// Appends orders, one write per host. `again` gives a host's orders in force, for a new part.
    /// Those that find no room are not lost: they are in force, see [`Orders::waiting`].
    ///
    /// # Errors
    /// When a file cannot be written for another reason.
    pub fn write(
        &mut self,
        orders: Vec<(String, Order)>,
        state: &State,
        again: &dyn Fn(&str) -> Vec<Order>,
    ) -> sys::Result<()> {
        let mut touched = BTreeSet::new();
        for (host, order) in orders {
            self.prepare(&host)?;
            let file = self.hosts.get_mut(&host).expect("just prepared");
            file.push(&order, state);
            touched.insert(host);
        }
        for host in touched {
            let Some(framed) = self.hosts.get_mut(&host).and_then(|f| f.framed.as_mut()) else {
                continue;
            };
            let wrote = framed.flush();
            let full = framed.file.valid_len() > PART_BYTES;
            let next = match wrote {
                Ok(()) if full => self.next_part(&host, state, again),
                other => other,
            };
            self.note(&host, next)?;
        }
        Ok(())
    }

    /// Tries again what waits for room.
    ///
    /// # Errors
    /// As [`Orders::write`].
    pub fn mend(&mut self, state: &State, again: &dyn Fn(&str) -> Vec<Order>) -> sys::Result<()> {
        if self.waiting.take().is_none() {
            return Ok(());
        }
        let broken = self.hosts.iter().filter(|(_, file)| file.framed.is_none());
        for host in broken.map(|(host, _)| host.clone()).collect::<Vec<_>>() {
            let next = self.next_part(&host, state, again);
            self.note(&host, next)?;
            if self.waiting.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Orders of a host that found no room wait; its present part ends here.
    fn note(&mut self, host: &str, wrote: sys::Result<()>) -> sys::Result<()> {
        match wrote {
            Err(e) if e.is_no_space() => {
                let part = self.hosts.get(host).map_or(0, |file| file.part);
                let file = self.without_room(part, &e);
                self.hosts.insert(host.to_owned(), file);
                Ok(())
            }
            other => other,
        }
    }

    fn next_part(
        &mut self,
        host: &str,
        state: &State,
        again: &dyn Fn(&str) -> Vec<Order>,
    ) -> sys::Result<()> {
        let part = self.hosts.get(host).map_or(1, |file| file.part + 1);
        let mut next = self.open(host, part)?;
        for order in again(host) {
            next.push(&order, state);
        }
        if let Some(framed) = next.framed.as_mut()
            && let Err(e) = framed.flush()
        {
            // A host may be reading it: it ends here, and what waits goes to the one behind it.
            if let Some(old) = self.hosts.get_mut(host) {
                (old.part, old.framed) = (part, None);
            }
            return Err(e);
        }
        let old = self.hosts.insert(host.to_owned(), next);
        // Without this last word the host finds the new part by itself, later.
        if let Some(mut framed) = old.and_then(|old| old.framed) {
            framed.push(&Order::Next { part });
            match framed.flush() {
                Err(e) if e.is_no_space() => tracing::warn!("{e}"),
                other => other?,
            }
        }
        // The part before the last is behind every host by now, or the host reads the newest.
        if part > 2 {
            let _ = fs::remove(&self.layout.orders(host, self.epoch, part - 2));
        }
        Ok(())
    }

    /// Removes orders of older epochs.
    pub fn sweep(&self, host: &str) {
        let Ok(entries) = fs::list_dir(&self.layout.host(host), 10_000) else {
            return;
        };
        for entry in entries {
            let old = entry.text().and_then(Layout::parse_orders_name);
            if old.is_some_and(|(epoch, _)| epoch < self.epoch) {
                let _ = fs::remove(&self.layout.host(host).join(&entry.name));
            }
        }
    }
}

impl HostOrders {
    fn push(&mut self, order: &Order, state: &State) {
        let Some(framed) = self.framed.as_mut() else {
            return;
        };
        let names = match order {
            Order::Start(start) => Some(start.s),
            Order::Part { s, .. } => Some(*s),
            _ => None,
        };
        if let Some(id) = names.filter(|id| self.specs.insert(*id)) {
            let spec = Box::new(state.spec(id).as_ref().clone());
            framed.push(&Order::Spec { id, spec });
        }
        framed.push(order);
    }
}
