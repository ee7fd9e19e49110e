//! Callers that have not yet proved that they have the key. Owns their number, their time limit,
//! and the rule that only one is accepted: the first that proves it.

use super::terminal_session::Peer;
use crate::channel::{Key, Link, Message, Welcome};
use crate::language::tell;
use crate::model::JobKey;
use crate::sys::clock;
use crate::sys::stream::{self, Listener, PollEntry, Wire};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

/// Maximum number of callers at a time: another one replaces the oldest.
const CALLS_MAX: usize = 8;
/// Time limit of a caller, ms.
const CALL_MS: u64 = 10_000;
/// Time limit of a caller for a job that has ended, ms.
const LAST_CALL_MS: u64 = 2_000;
/// Maximum number of refused callers that are reported.
const NAMED_MAX: usize = 3;

struct IncomingConnection {
    wire: Wire,
    link: Link,
    address: SocketAddr,
    since: u64,
    welcomed: bool,
}

/// The result of reading from a caller.
enum ConnectionInput {
    Incomplete,
    /// It has proved that it has the key.
    Proven,
    /// It does not have the key.
    Refused,
    Closed,
}

pub(super) struct IncomingConnections {
    key: Key,
    about: String,
    job: JobKey,
    connections: Vec<IncomingConnection>,
    named: usize,
}

impl IncomingConnections {
    pub(super) fn new(key: Key, about: String, job: JobKey) -> IncomingConnections {
        IncomingConnections {
            key,
            about,
            job,
            connections: Vec::new(),
            named: 0,
        }
    }

    pub(super) fn poll_entries(&self) -> impl Iterator<Item = PollEntry> {
        self.connections.iter().map(|connection| PollEntry {
            fd: connection.wire.as_raw_fd(),
            read: true,
            write: !connection.link.outgoing().is_empty(),
        })
    }

    /// Accepts new callers and reads from all of them; returns the one that has the key. `welcome`:
    /// what the job's host learns.
    pub(super) fn poll_once(
        &mut self,
        listener: &Listener,
        welcome: Welcome,
        now: u64,
    ) -> Option<Peer> {
        while let Some((wire, address)) = listener.accept() {
            if self.connections.len() >= CALLS_MAX {
                self.connections.remove(0);
            }
            let link = Link::accepting_end(&self.key, &self.about);
            self.connections.push(IncomingConnection {
                wire,
                link,
                address,
                since: now,
                welcomed: false,
            });
        }
        let mut n = 0;
        while n < self.connections.len() {
            let connection = &mut self.connections[n];
            let input = match now.saturating_sub(connection.since) > CALL_MS {
                true => ConnectionInput::Closed,
                false => connection.listen(self.job, welcome),
            };
            match input {
                ConnectionInput::Incomplete => n += 1,
                ConnectionInput::Closed => drop(self.connections.remove(n)),
                ConnectionInput::Refused => {
                    let address = self.connections.remove(n).address;
                    self.named += 1;
                    if self.named <= NAMED_MAX {
                        tell!("csub: a caller from {address} does not have the key: refused");
                    }
                }
                ConnectionInput::Proven => {
                    let connection = self.connections.swap_remove(n);
                    return Some(Peer::of(connection.link, connection.wire));
                }
            }
        }
        None
    }

    /// The caller that connected before the end of the job was seen. The host of a short job may
    /// connect, run it and report its end between two polls; the output is then in this connection.
    pub(super) fn last(&mut self, listener: &Listener, welcome: Welcome) -> Option<Peer> {
        let until = clock::boot_ms() + LAST_CALL_MS;
        loop {
            let now = clock::boot_ms();
            if let Some(peer) = self.poll_once(listener, welcome, now) {
                return Some(peer);
            }
            if self.connections.is_empty() || now >= until {
                return None;
            }
            let list: Vec<PollEntry> = self.poll_entries().collect();
            stream::wait(&list, Some(until - now)).ok()?;
        }
    }
}

impl IncomingConnection {
    fn listen(&mut self, job: JobKey, welcome: Welcome) -> ConnectionInput {
        let mut buf = [0; 8192];
        match self.wire.read(&mut buf) {
            Ok(None) => {}
            Ok(Some(n)) if n > 0 => {
                if self.link.receive(&buf[..n]).is_err() {
                    return ConnectionInput::Refused;
                }
            }
            _ => return ConnectionInput::Closed,
        }
        if !self.welcomed {
            match self.link.hello() {
                Err(_) => return ConnectionInput::Refused,
                Ok(None) => {}
                Ok(Some(hello)) if hello.a.j != job => return ConnectionInput::Refused,
                Ok(Some(_)) => {
                    if self.link.welcome(&welcome).is_err() {
                        return ConnectionInput::Refused;
                    }
                    self.welcomed = true;
                }
            }
        }
        if !self.link.outgoing().is_empty() {
            match self.wire.write(self.link.outgoing()) {
                Ok(n) => self.link.sent(n),
                Err(_) => return ConnectionInput::Closed,
            }
        }
        match self.link.next_message() {
            Ok(None) => ConnectionInput::Incomplete,
            Ok(Some(Message::Begin)) if self.link.peer_has_key() => ConnectionInput::Proven,
            _ => ConnectionInput::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Hello, Screen};
    use crate::model::AttemptId;

    struct TestListener {
        listener: Listener,
        connections: IncomingConnections,
    }

    fn key(n: u8) -> Key {
        Key::new([n; 32])
    }

    fn bed() -> Option<TestListener> {
        let Ok(listener) = Listener::open() else {
            println!("skipped: no network here");
            return None;
        };
        let connections = IncomingConnections::new(key(1), "about".into(), JobKey::job(7));
        Some(TestListener {
            listener,
            connections,
        })
    }

    impl TestListener {
        fn dial(&self) -> Wire {
            let at = SocketAddr::from(([127, 0, 0, 1], self.listener.port()));
            Wire::call(&at, 60_000).unwrap()
        }

        /// Takes turns until `done`, which gets the accepted caller, if any.
        fn poll_until(&mut self, mut done: impl FnMut(Option<&Peer>) -> bool) -> Option<Peer> {
            for _ in 0..60_000 {
                let peer = self
                    .connections
                    .poll_once(&self.listener, welcome(), clock::boot_ms());
                if done(peer.as_ref()) {
                    return peer;
                }
                assert!(peer.is_none());
                clock::sleep_ms(1);
            }
            panic!("it never came");
        }
    }

    fn welcome() -> Welcome {
        Welcome {
            screen: Screen { rows: 31, cols: 97 },
            ..Welcome::default()
        }
    }

    fn hello(id: u32) -> Hello {
        Hello {
            a: AttemptId {
                j: JobKey::job(id),
                at: 1,
            },
            host: "h1".into(),
            task: 0,
        }
    }

    /// The side of a caller, as far as the session gets: returns the bytes that it sent.
    fn converse(wire: &Wire, mut link: Link) -> Option<Vec<u8>> {
        let (mut sent, mut buf) = (Vec::new(), [0; 4096]);
        for _ in 0..60_000 {
            let n = wire.write(link.outgoing()).ok()?;
            sent.extend_from_slice(&link.outgoing()[..n]);
            link.sent(n);
            if let Ok(Some(welcome)) = link.welcomed() {
                assert_eq!(welcome.screen, Screen { rows: 31, cols: 97 });
                wire.write(link.outgoing()).ok()?;
                sent.extend_from_slice(link.outgoing());
                return Some(sent);
            }
            match wire.read(&mut buf) {
                Ok(Some(0)) | Err(_) => return None,
                Ok(Some(n)) => link.receive(&buf[..n]).ok()?,
                Ok(None) => clock::sleep_ms(1),
            }
        }
        None
    }

    #[test]
    fn the_first_caller_with_the_key_and_the_job_is_believed() {
        let Some(mut bed) = bed() else { return };
        for (k, id) in [(2, 7), (1, 8)] {
            let wire = bed.dial();
            let link = Link::caller(&key(k), "about", &hello(id));
            let caller = std::thread::spawn(move || converse(&wire, link));
            bed.poll_until(|_| caller.is_finished());
            assert_eq!(caller.join().unwrap(), None);
        }
        let wire = bed.dial();
        let link = Link::caller(&key(1), "about", &hello(7));
        let caller = std::thread::spawn(move || (converse(&wire, link), wire));
        let peer = bed.poll_until(|peer| peer.is_some()).unwrap();
        assert_eq!(peer.host, "h1");
        let (sent, _wire) = caller.join().unwrap();
        // The same bytes, sent again by another caller, are not accepted.
        let mut bed = self::bed().unwrap();
        let thief = bed.dial();
        assert!(thief.write(&sent.unwrap()).unwrap() > 0);
        bed.poll_until(|_| matches!(thief.read(&mut [0; 4096]), Ok(Some(0)) | Err(_)));
    }

    #[test]
    fn a_call_of_a_job_that_is_over_is_taken() {
        let Some(mut bed) = bed() else { return };
        assert!(bed.connections.last(&bed.listener, welcome()).is_none());
        let wire = bed.dial();
        let link = Link::caller(&key(1), "about", &hello(7));
        // The caller proves the key and disconnects: what it sent is received.
        let caller = std::thread::spawn(move || converse(&wire, link));
        let peer = bed.connections.last(&bed.listener, welcome()).unwrap();
        assert_eq!(peer.host, "h1");
        assert!(caller.join().unwrap().is_some());
        assert!(bed.connections.last(&bed.listener, welcome()).is_none());
    }

    #[test]
    fn callers_that_say_nothing_make_room() {
        let Some(mut bed) = bed() else { return };
        let silent: Vec<Wire> = (0..20).map(|_| bed.dial()).collect();
        bed.poll_until(|_| matches!(silent[0].read(&mut [0; 9]), Ok(Some(0)) | Err(_)));
        assert_eq!(bed.connections.connections.len(), CALLS_MAX);
        let late = clock::boot_ms() + CALL_MS + 1;
        assert!(
            bed.connections
                .poll_once(&bed.listener, Welcome::default(), late)
                .is_none()
        );
        assert!(bed.connections.connections.is_empty());
    }
}
