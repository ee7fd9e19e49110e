//! What the leader writes for others, one writer per file: acknowledgements and orders.
//!
//! Needs no durability: after a crash a new epoch repeats every answer and order from the journal.
//! But on a network file system what is written through a descriptor that stays open reaches the
//! server only with a sync, or half a minute later by the kernel's own will; so there it is synced.
//! A failed write poisons the file; the leader then steps down.

use crate::record::ack::Ack;
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
struct Framed {
    file: Appender,
    seq: u64,
    buffer: Vec<u8>,
    /// What is written must be synced to be seen by other hosts.
    sync: bool,
}

impl Framed {
    fn create(path: &std::path::Path, header: &Header, sync: bool) -> sys::Result<Framed> {
        fs::mkdir_p(fs::parent(path), 0o755)?;
        let mut framed = Framed {
            file: Appender::create_new(path)?,
            seq: 0,
            buffer: Vec::new(),
            sync,
        };
        framed.push(header);
        framed.flush()?;
        Ok(framed)
    }

    fn push<T: serde::Serialize>(&mut self, record: &T) {
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

/// The acknowledgements of this epoch.
pub struct Acks {
    framed: Framed,
}

impl Acks {
    /// # Errors
    /// When the file exists already or cannot be made.
    pub fn create(layout: &Layout, cluster: &str, epoch: u64) -> sys::Result<Acks> {
        let header = Header::new(What::Acks, cluster, epoch, 1);
        let sync = sys::mount::fs_kind(layout.root())? != FsKind::Local;
        Ok(Acks {
            framed: Framed::create(&layout.acks(epoch), &header, sync)?,
        })
    }

    /// # Errors
    /// A failed write: the file is poisoned and the leader must step down.
    pub fn write(&mut self, acks: &[Ack]) -> sys::Result<()> {
        acks.iter().for_each(|ack| self.framed.push(ack));
        self.framed.flush()
    }
}

/// Orders of this epoch to all hosts.
pub struct Orders {
    layout: Layout,
    cluster: String,
    epoch: u64,
    hosts: BTreeMap<String, HostOrders>,
    sync: bool,
}

struct HostOrders {
    part: u64,
    framed: Framed,
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
        })
    }

    /// Makes the host's file, so that the host never looks for a name that is not there yet.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn prepare(&mut self, host: &str) -> sys::Result<()> {
        if !self.hosts.contains_key(host) {
            let file = self.open(host, 1)?;
            self.hosts.insert(host.to_owned(), file);
        }
        Ok(())
    }

    fn open(&self, host: &str, part: u64) -> sys::Result<HostOrders> {
        let header = Header::new(What::Orders, &self.cluster, self.epoch, part);
        let path = self.layout.orders(host, self.epoch, part);
        let framed = Framed::create(&path, &header, self.sync)?;
        Ok(HostOrders {
            part,
            framed,
            specs: BTreeSet::new(),
        })
    }

    /// Appends orders, one write per host. `again` gives a host's orders in force, for a new part.
    ///
    /// # Errors
    /// When a file cannot be written.
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
            let file = self.hosts.get_mut(&host).expect("just written");
            file.framed.flush()?;
            if file.framed.file.valid_len() > PART_BYTES {
                self.next_part(&host, state, again)?;
            }
        }
        Ok(())
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
        next.framed.flush()?;
        if let Some(mut old) = self.hosts.insert(host.to_owned(), next) {
            old.framed.push(&Order::Next { part });
            old.framed.flush()?;
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
        let names = match order {
            Order::Start(start) => Some(start.s),
            Order::Part { s, .. } => Some(*s),
            _ => None,
        };
        if let Some(id) = names.filter(|id| self.specs.insert(*id)) {
            let spec = Box::new(state.spec(id).as_ref().clone());
            self.framed.push(&Order::Spec { id, spec });
        }
        self.framed.push(order);
    }
}
