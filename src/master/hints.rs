//! Hints to the leader and from it: which drop boxes and hosts' reports are reported to have new
//! data, and who waits for which answer.
//!
//! A hint only causes a check: it names a drop box or a host that is already known here, and checks
//! that find nothing are limited to a few per second, so forged hints cost no more. Lost or refused
//! hints are made up for by the next poll.

use super::hosts::Hosts;
use crate::model::Token;
use crate::record::ack::Ack;
use crate::record::hint::{self, ADDRESSES_MAX, Endpoint, Hint, HintNumbers};
use crate::spool::polling::Budget;
use crate::sys::clock;
use crate::sys::datagram::{self, Socket};
use crossbeam::channel::{Receiver, never};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;

/// Number of hints that are accepted per second, and in a burst.
const RECEIVED_PER_S: u64 = 2000;
const RECEIVED_MAX: u64 = 500;
/// Number of checks without result that hints may cause per second, and in a burst.
const FALSE_PER_S: u64 = 50;
const FALSE_MAX: u64 = 100;
/// Maximum number of boxes and hosts that wait for a check.
const BOXES_MAX: usize = 256;
/// Maximum number of requests of a box that are read by name; if hints name more, the box is
/// listed.
const NAMED_MAX: usize = 4;
const HOSTS_MAX: usize = 4096;
/// Maximum number of commands that get a hint about their answer, and of answers that are kept for
/// hints that arrive late.
const WAITING_MAX: usize = 1024;
const ANSWERED_MAX: usize = 256;

/// A hint and its sender.
type ReceivedHint = (Hint, SocketAddr);

/// The socket of a leader or candidate, opened before its claim publishes it.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    pub socket: Socket,
    /// The address that the claim publishes.
    pub endpoint: Endpoint,
}

impl Listener {
    /// Opens a socket on one of `ports`; `None` if that fails.
    pub(super) fn open(share: &Path, ports: RangeInclusive<u16>) -> Option<Listener> {
        let socket = Socket::open(ports.clone());
        if socket.is_none() && !crate::sys::platform::simulated() {
            tracing::warn!("no UDP port of {ports:?} is free: requests are found by polls alone");
        }
        let socket = socket?;
        let mut tag = [0u8; 8];
        clock::random(&mut tag);
        let endpoint = Endpoint {
            tag: u64::from_le_bytes(tag),
            addresses: datagram::addresses(share, socket.port(), ADDRESSES_MAX),
        };
        Some(Listener { socket, endpoint })
    }
}

/// Boxes that hints named, by user, and the requests in them; an empty set: too many.
pub(super) type NamedBoxes = BTreeMap<u32, BTreeSet<Token>>;

/// The hints since the last turn.
#[derive(Debug)]
pub(super) struct Hints {
    socket: Option<Socket>,
    received: Receiver<ReceivedHint>,
    boxes: NamedBoxes,
    hosts: BTreeSet<u64>,
    numbers: HintNumbers,
    false_hints: Budget,
    /// The commands that wait for the answer to a token, oldest first.
    waiting: BTreeMap<Token, SocketAddr>,
    order: VecDeque<Token>,
    answered: VecDeque<Token>,
}

impl Hints {
    /// Starts to listen; without a listener there are no hints.
    pub(super) fn new(listener: Option<Listener>) -> Hints {
        let receiver = listener.as_ref().and_then(|listener| {
            let (tag, mut budget) = (
                listener.endpoint.tag,
                Budget::new(RECEIVED_PER_S, RECEIVED_MAX),
            );
            listener.socket.listen("hints", move |bytes, from| {
                let what = hint::decode(bytes, tag)?;
                let left = budget.available(clock::boot_ms());
                budget.spend(1);
                (left > 0).then_some((what, from))
            })
        });
        Hints {
            socket: listener.map(|listener| listener.socket),
            received: receiver.unwrap_or_else(never),
            boxes: NamedBoxes::new(),
            hosts: BTreeSet::new(),
            numbers: HintNumbers::default(),
            false_hints: Budget::new(FALSE_PER_S, FALSE_MAX),
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            answered: VecDeque::new(),
        }
    }

    /// The channel to wait on; what it delivers must be passed to [`Hints::take_all`].
    pub(super) fn receiver(&self) -> &Receiver<ReceivedHint> {
        &self.received
    }

    /// Takes a hint, and those queued after it.
    pub(super) fn take_all(&mut self, first: Option<ReceivedHint>) {
        let mut next = first.or_else(|| self.received.try_recv().ok());
        while let Some((what, from)) = next {
            self.note(what, from);
            next = self.received.try_recv().ok();
        }
    }

    /// Notes that no more hints will come: the listening thread has ended.
    pub(super) fn note_closed(&mut self) {
        self.received = never();
    }

    fn note(&mut self, what: Hint, from: SocketAddr) {
        match what {
            Hint::DropBox { token, .. } if self.answered.contains(&token) => {
                self.send_answered(token, from);
            }
            Hint::DropBox { uid, token } => {
                let room = self.boxes.len() < BOXES_MAX;
                match self.boxes.get_mut(&uid) {
                    Some(tokens) if tokens.is_empty() => {}
                    Some(tokens) => {
                        tokens.insert(token);
                        if tokens.len() > NAMED_MAX {
                            tokens.clear();
                        }
                    }
                    None if room => {
                        self.boxes.insert(uid, BTreeSet::from([token]));
                    }
                    None => {}
                }
                if self.waiting.insert(token, from).is_none() {
                    self.order.push_back(token);
                }
                while self.order.len() > WAITING_MAX {
                    if let Some(old) = self.order.pop_front() {
                        self.waiting.remove(&old);
                    }
                }
            }
            Hint::Reports { host, number }
                if self.hosts.len() < HOSTS_MAX && !self.numbers.is_repeated(host, number) =>
            {
                self.hosts.insert(host);
            }
            _ => {}
        }
    }

    /// Whether there is something to check, and checks are left.
    pub(super) fn call(&mut self, now: u64) -> bool {
        let some = !self.boxes.is_empty() || !self.hosts.is_empty();
        some && self.false_hints.available(now) > 0
    }

    /// How long until what the hints named can be checked, in milliseconds.
    pub(super) fn wait_ms(&mut self, now: u64) -> u64 {
        match (
            self.call(now),
            self.boxes.is_empty() && self.hosts.is_empty(),
        ) {
            (true, _) => 0,
            (false, true) => u64::MAX,
            (false, false) => 1000 / FALSE_PER_S,
        }
    }

    /// The users whose boxes and the hosts whose reports must be checked now: at most as many as
    /// there are checks without result left. The rest waits.
    pub(super) fn due(&mut self, now: u64, hosts: &Hosts) -> (NamedBoxes, BTreeSet<String>) {
        let mut left = self.false_hints.available(now);
        let mut boxes = NamedBoxes::new();
        while left > 0
            && let Some((uid, tokens)) = self.boxes.pop_first()
        {
            boxes.insert(uid, tokens);
            left -= 1;
        }
        let mut names = BTreeSet::new();
        while left > 0
            && let Some(tag) = self.hosts.pop_first()
        {
            left -= 1;
            match hosts.name_of(tag) {
                Some(name) => drop(names.insert(name.to_owned())),
                None => self.false_hints.spend(1),
            }
        }
        (boxes, names)
    }

    /// Records that this many checks caused by hints found nothing.
    pub(super) fn note_futile_hints(&mut self, checks: usize) {
        self.false_hints.spend(checks as u64);
    }

    /// Sends hints to the commands that wait for these answers, which are on the share now.
    pub(super) fn answered(&mut self, acks: &[Ack]) {
        for ack in acks {
            if self.socket.is_some() {
                self.answered.push_back(ack.tok);
            }
            if self.answered.len() > ANSWERED_MAX {
                self.answered.pop_front();
            }
            if let Some(from) = self.waiting.remove(&ack.tok) {
                self.order.retain(|token| *token != ack.tok);
                self.send_answered(ack.tok, from);
            }
        }
    }

    fn send_answered(&self, token: Token, to: SocketAddr) {
        if let Some(socket) = &self.socket {
            let bytes = hint::encode(hint::tag_of_token(token), Hint::Acks { token });
            socket.send(&bytes, &[to]);
        }
    }

    /// Sends a hint to a host that has new orders.
    pub(super) fn hint_host(&self, to: &Endpoint) {
        if let Some(socket) = &self.socket {
            let number = clock::short_number();
            let bytes = hint::encode(to.tag, Hint::Orders { number });
            socket.send(&bytes, &to.addresses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::Layout;
    use crate::sys::trust::Owners;
    use crate::sys::users;

    fn hosts(layout: &Layout) -> Hosts {
        let owners = Owners {
            uid: users::effective_uid(),
            gid: 0,
        };
        Hosts::new(layout, "c", owners)
    }

    fn from() -> SocketAddr {
        "127.0.0.1:9".parse().unwrap()
    }

    #[test]
    fn a_flood_of_forged_hints_causes_a_bounded_number_of_looks() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = hosts(&Layout::new(dir.path()));
        let mut hints = Hints::new(None);
        let mut looks = 0;
        for now in 0..10_000u64 {
            for n in 0..100 {
                let token = Token(u128::from(now * 100 + n));
                let uid = (n % 50) as u32;
                hints.note(Hint::DropBox { uid, token }, from());
                hints.note(Hint::Reports { host: n, number: 0 }, from());
            }
            if hints.call(now) {
                let (boxes, names) = hints.due(now, &hosts);
                assert!(names.is_empty(), "no host of that name is known");
                hints.note_futile_hints(boxes.len());
                looks += boxes.len() as u64;
            }
        }
        let most = FALSE_MAX + 10 * FALSE_PER_S;
        assert!(looks <= most && looks > most / 2, "{looks} looks");
        assert!(hints.waiting.len() <= WAITING_MAX && hints.hosts.len() <= HOSTS_MAX);
        assert_eq!(hints.waiting.len(), hints.order.len());
    }

    #[test]
    fn looks_that_find_something_are_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = hosts(&Layout::new(dir.path()));
        let mut hints = Hints::new(None);
        for n in 0..10_000 {
            let token = Token(n);
            hints.note(Hint::DropBox { uid: 7, token }, from());
            assert!(hints.call(1));
            assert_eq!(hints.due(1, &hosts).0.len(), 1);
        }
        assert!(!hints.call(1));
    }

    #[test]
    fn whoever_waits_is_told_of_the_answer_also_when_its_hint_comes_late() {
        let Some(command) = Socket::open(0..=0) else {
            println!("skipped: no network here");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let listener = Listener::open(dir.path(), 0..=0).unwrap();
        let port = listener.socket.port();
        let tag = listener.endpoint.tag;
        let mut hints = Hints::new(Some(listener));
        let leader = [SocketAddr::from(([127, 0, 0, 1], port))];
        let ack = |token| Ack {
            tok: token,
            ok: true,
            error: String::new(),
            ids: Vec::new(),
            results: Vec::new(),
            more: 0,
            retry_s: 0,
        };
        let hinted = |token: Token| {
            let mine = hint::tag_of_token(token);
            let wanted = move |b: &[u8]| hint::decode(b, mine) == Some(Hint::Acks { token });
            command.wait(2_000_000, wanted)
        };
        for (n, late) in [(1, false), (2, true)] {
            let token = Token(n);
            let uid = 5;
            if late {
                hints.answered(&[ack(token)]);
            }
            command.send(&hint::encode(tag ^ 1, Hint::Orders { number: 0 }), &leader);
            let what = Hint::DropBox { uid, token };
            command.send(&hint::encode(tag, what), &leader);
            let receiver = clock_wait(&hints);
            assert_eq!(receiver.0, what, "what is for another is not heard");
            hints.take_all(Some(receiver));
            if !late {
                hints.answered(&[ack(token)]);
            }
            assert!(hinted(token));
        }
        assert!(hints.waiting.is_empty() && hints.order.is_empty());
    }

    fn clock_wait(hints: &Hints) -> ReceivedHint {
        crate::sys::thread::recv_timeout(hints.receiver(), 2000).unwrap()
    }
}
