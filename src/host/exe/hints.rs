//! Hints to this host and from it: its orders have grown, its reports have grown.
//!
//! A hint only causes a look; without hints, polls find the same, later. Looks that hints cause
//! without result are limited to a few per second.

use crate::config::Cluster;
use crate::host::setup::Place;
use crate::record::hint::{self, ADDRESSES_MAX, Endpoint, Numbers, What};
use crate::spool::polling::Budget;
use crate::sys::clock;
use crate::sys::datagram::{self, Socket};
use crossbeam::channel::{Receiver, never};

/// Hints that are accepted per second, and in a burst.
const HEARD_PER_S: u64 = 500;
const HEARD_MAX: u64 = 100;
/// Looks without result that hints may cause per second, and in a burst.
const VAIN_PER_S: u64 = 10;
const VAIN_MAX: u64 = 20;

/// The socket of an executor.
#[derive(Debug)]
pub(super) struct Hints {
    socket: Option<Socket>,
    /// Where hints are taken, as the reports say it.
    at: Option<String>,
    /// The tag of the host's name in hints.
    name: u64,
    heard: Receiver<()>,
    vain: Budget,
}

impl Hints {
    /// Neither takes nor gives hints.
    pub(super) fn none() -> Hints {
        Hints {
            socket: None,
            at: None,
            name: 0,
            heard: never(),
            vain: Budget::new(VAIN_PER_S, VAIN_MAX),
        }
    }

    /// Opens a socket if the configuration wants hints here, and listens.
    pub(super) fn open(place: &Place, config: &Cluster) -> Hints {
        let mut hints = Hints::none();
        let Some(ports) = config.hint_ports(place.share_is_local) else {
            return hints;
        };
        let Some(socket) = Socket::open(ports.clone()) else {
            if !crate::sys::platform::simulated() {
                tracing::warn!("no UDP port of {ports:?} is free: orders are found by polls alone");
            }
            return hints;
        };
        let mut tag = [0u8; 8];
        clock::random(&mut tag);
        let tag = u64::from_le_bytes(tag);
        let mut budget = Budget::new(HEARD_PER_S, HEARD_MAX);
        let mut numbers = Numbers::default();
        let heard = socket.listen("hints", move |bytes, _| {
            let What::Orders { number } = hint::decode(bytes, tag)? else {
                return None;
            };
            (!numbers.is_repeated(0, number)).then_some(())?;
            let left = budget.left(clock::boot_ms());
            budget.spend(1);
            (left > 0).then_some(())
        });
        let share = place.layout.root();
        let addresses = datagram::addresses(share, socket.port(), ADDRESSES_MAX);
        hints.at = Some(Endpoint { tag, addresses }.to_string());
        hints.name = hint::tag_of(&place.site.host);
        hints.heard = heard.unwrap_or_else(never);
        hints.socket = Some(socket);
        hints
    }

    /// Where hints are taken, if they are.
    pub(super) fn at(&self) -> Option<&str> {
        self.at.as_deref()
    }

    /// The channel to wait on; after a message, [`Hints::may_look`] says whether to look.
    pub(super) fn heard(&self) -> &Receiver<()> {
        &self.heard
    }

    /// Takes all hints that came. True when the budget permits a look.
    pub(super) fn may_look(&mut self, now: u64) -> bool {
        while self.heard.try_recv().is_ok() {}
        self.vain.left(now) > 0
    }

    /// A look caused by a hint found nothing.
    pub(super) fn in_vain(&mut self) {
        self.vain.spend(1);
    }

    /// This host's reports have grown.
    pub(super) fn reported(&self, leader: Option<&Endpoint>) {
        if let (Some(socket), Some(leader)) = (&self.socket, leader) {
            let (host, number) = (self.name, clock::short_number());
            let bytes = hint::encode(leader.tag, What::Reports { host, number });
            socket.send(&bytes, &leader.addresses);
        }
    }
}
