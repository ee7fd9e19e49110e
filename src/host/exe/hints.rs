//! Hints to this host and from it: its orders have grown, a user requests a launch, its reports
//! have grown.
//!
//! A hint only causes a look; without hints, polls find the same data later. Looks that hints cause
//! without result are limited to a few per second.

use crate::config::Cluster;
use crate::host::setup::HostSetup;
use crate::record::hint::{self, ADDRESSES_MAX, Endpoint, Hint, HintNumbers};
use crate::spool::polling::Budget;
use crate::sys::clock;
use crate::sys::datagram::{self, Socket};
use crossbeam::channel::{Receiver, never};

/// Hints that are accepted per second, and the size of a burst.
const RECEIVED_PER_S: u64 = 500;
const RECEIVED_MAX: u64 = 100;
/// Looks without result that hints may cause per second, and the size of a burst.
const FALSE_PER_S: u64 = 10;
const FALSE_MAX: u64 = 20;

/// The content of hints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HintContent {
    /// There are new orders.
    pub orders: bool,
    /// A user requests a launch.
    pub launches: bool,
}

/// The socket of an executor.
#[derive(Debug)]
pub(super) struct Hints {
    socket: Option<Socket>,
    /// The address at which hints are received, as the reports state it.
    address: Option<String>,
    /// The tag of the host's name in hints.
    name: u64,
    received: Receiver<HintContent>,
    false_hints: Budget,
}

impl Hints {
    /// Neither receives nor sends hints.
    pub(super) fn none() -> Hints {
        Hints {
            socket: None,
            address: None,
            name: 0,
            received: never(),
            false_hints: Budget::new(FALSE_PER_S, FALSE_MAX),
        }
    }

    /// Opens a socket, if the configuration enables hints here, and listens.
    pub(super) fn open(setup: &HostSetup, config: &Cluster) -> Hints {
        let mut hints = Hints::none();
        let Some(ports) = config.hint_ports(setup.share_is_local) else {
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
        let mut budget = Budget::new(RECEIVED_PER_S, RECEIVED_MAX);
        let mut numbers = HintNumbers::default();
        let receiver = socket.listen("hints", move |bytes, _| {
            let (number, content) = match hint::decode(bytes, tag)? {
                Hint::Orders { number } => (
                    number,
                    HintContent {
                        orders: true,
                        ..HintContent::default()
                    },
                ),
                Hint::Launches { number } => (
                    number,
                    HintContent {
                        launches: true,
                        ..HintContent::default()
                    },
                ),
                _ => return None,
            };
            (!numbers.is_repeated(u64::from(content.launches), number)).then_some(())?;
            let left = budget.available(clock::boot_ms());
            budget.spend(1);
            (left > 0).then_some(content)
        });
        let share = setup.layout.root();
        let addresses = datagram::addresses(share, socket.port(), ADDRESSES_MAX);
        hints.address = Some(Endpoint { tag, addresses }.to_string());
        hints.name = hint::tag_of(&setup.site.host);
        hints.received = receiver.unwrap_or_else(never);
        hints.socket = Some(socket);
        hints
    }

    /// The address at which hints are received, if they are.
    pub(super) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// The channel to wait on; its messages are for [`Hints::take_all`].
    pub(super) fn receiver(&self) -> &Receiver<HintContent> {
        &self.received
    }

    /// Takes the hint `first` and all that are waiting. Returns what to look at, as far as the
    /// budget permits.
    pub(super) fn take_all(&mut self, first: Option<HintContent>, now: u64) -> HintContent {
        let mut all = first.unwrap_or_default();
        while let Ok(next) = self.received.try_recv() {
            all.orders |= next.orders;
            all.launches |= next.launches;
        }
        match self.false_hints.available(now) > 0 {
            true => all,
            false => HintContent::default(),
        }
    }

    /// A look that was caused by a hint found nothing.
    pub(super) fn note_futile_hint(&mut self) {
        self.false_hints.spend(1);
    }

    /// Sends a hint that this host's reports have grown.
    pub(super) fn reported(&self, leader: Option<&Endpoint>) {
        if let (Some(socket), Some(leader)) = (&self.socket, leader) {
            let (host, number) = (self.name, clock::short_number());
            let bytes = hint::encode(leader.tag, Hint::Reports { host, number });
            socket.send(&bytes, &leader.addresses);
        }
    }
}
