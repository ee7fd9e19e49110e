//! The job's side of its windows: a port to which its X11 clients connect, and the file with the
//! cookie that they present. Never judges a client: the waiting command decides which are accepted.

use crate::channel::{ChannelError, Cookie, Link, Message, X11Message};
use crate::sys::stream::{Listener, PollEntry};
use crate::sys::{fs, host};
use crate::x11::{Address, Lanes, PORT, entry};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Display numbers that are tried. Lower ones are used by local sessions of the machine.
const FIRST_DISPLAY: u16 = 10;
const DISPLAYS_TRIED: u16 = 500;
/// Maximum number of new clients in one turn.
const CLIENTS_MAX: usize = 16;

pub(super) struct WindowForward {
    listener: Listener,
    lanes: Lanes,
    next: u32,
}

impl WindowForward {
    /// Listens, and creates what the job's clients need: a file in its directory `dir`, which is
    /// removed with that, and the returned variables.
    ///
    /// # Errors
    /// The reason why the job has no windows.
    pub(super) fn open(
        cookie: &Cookie,
        dir: Option<&Path>,
    ) -> Result<(WindowForward, Vec<String>), String> {
        let dir = dir.ok_or("the job has no private directory for the cookie")?;
        let free = (FIRST_DISPLAY..FIRST_DISPLAY + DISPLAYS_TRIED)
            .find_map(|n| Some((n, Listener::on_loopback(PORT + n).ok()?)));
        let (number, listener) = free.ok_or("no port from 6010 to 6509 is free")?;
        let file = dir.join(".Xauthority");
        // For programs that look up the machine's name, and for those that use another name for it.
        let of = [Address::Local(host::node_name()), Address::Any];
        let entries = of.map(|of| entry(&of, number, cookie)).concat();
        fs::publish_mode(&file, &entries, 0o600).map_err(|e| e.to_string())?;
        // By address: a host name may have a second address, at which another user listens.
        let env = vec![
            format!("DISPLAY=127.0.0.1:{number}.0"),
            format!("XAUTHORITY={}", file.display()),
        ];
        let forward = WindowForward {
            listener,
            lanes: Lanes::default(),
            next: 0,
        };
        Ok((forward, env))
    }

    /// The descriptors to wait for.
    pub(super) fn poll_entries(&self, budget: usize) -> impl Iterator<Item = PollEntry> {
        let listener = PollEntry {
            fd: self.listener.as_raw_fd(),
            read: true,
            write: false,
        };
        std::iter::once(listener).chain(self.lanes.watched(budget))
    }

    /// Accepts new clients and forwards bytes on ready descriptors. Returns true if anything
    /// happened.
    pub(super) fn transfer(
        &mut self,
        ready: &[(bool, bool)],
        budget: usize,
        link: &mut Link,
    ) -> bool {
        let Some(((calls, _), lanes)) = ready.split_first() else {
            return false;
        };
        let moved = self.lanes.transfer(lanes, budget, link);
        for _ in 0..if *calls { CLIENTS_MAX } else { 0 } {
            let Some(client) = self.listener.accept_local() else {
                break;
            };
            // A client beyond the maximum is closed at once.
            if self.lanes.open(self.next, Some(client)).is_ok() {
                link.send(&Message::X(X11Message::Open(self.next)));
                self.next = self.next.wrapping_add(1);
            }
        }
        moved || *calls
    }

    /// Handles a message of the waiting command about a client.
    ///
    /// # Errors
    /// The message is not allowed.
    pub(super) fn handle_message(
        &mut self,
        message: X11Message,
        link: &mut Link,
    ) -> Result<(), ChannelError> {
        match message {
            X11Message::Data(n, bytes) => self.lanes.handle_message(n, &bytes, link),
            X11Message::Took(n, bytes) => {
                self.lanes.note_consumed(n, bytes);
                Ok(())
            }
            X11Message::Open(_) => Err(ChannelError::Corrupt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Hello, Key, Welcome};
    use crate::sys::stream;
    use std::io::Read as _;
    use std::net::TcpStream;
    use std::os::unix::fs::PermissionsExt as _;

    /// The relay's end of a channel, and the other end.
    fn links() -> (Link, Link) {
        let key = Key::new([1; 32]);
        let mut mine = Link::caller(&key, "x", &Hello::default());
        let mut its = Link::accepting_end(&key, "x");
        pass(&mut mine, &mut its);
        its.hello().unwrap();
        its.welcome(&Welcome::default()).unwrap();
        pass(&mut its, &mut mine);
        mine.welcomed().unwrap();
        pass(&mut mine, &mut its);
        assert_eq!(its.next_message(), Ok(Some(Message::Begin)));
        (mine, its)
    }

    fn pass(from: &mut Link, to: &mut Link) {
        to.receive(from.outgoing()).unwrap();
        from.sent(from.outgoing().len());
    }

    fn turn(forward: &mut WindowForward, link: &mut Link) {
        let list: Vec<PollEntry> = forward.poll_entries(9_999).collect();
        let ready = stream::wait(&list, Some(1_000)).unwrap();
        assert!(forward.transfer(&ready, 9_999, link), "nothing came");
    }

    #[test]
    fn a_job_has_a_port_and_a_file_of_its_own_and_so_many_clients() {
        let d = tempfile::tempdir().unwrap();
        let cookie = Cookie::new([7; 16]);
        assert!(WindowForward::open(&cookie, None).is_err());
        assert!(WindowForward::open(&cookie, Some(&d.path().join("none"))).is_err());
        let (mut forward, env) = match WindowForward::open(&cookie, Some(d.path())) {
            Ok(opened) => opened,
            Err(e) if e.contains("no port") => return println!("skipped: {e}"),
            Err(e) => panic!("{e}"),
        };
        let file = d.path().join(".Xauthority");
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(std::fs::read(&file).unwrap().ends_with(cookie.bytes()));
        let port = forward.listener.port();
        assert_eq!(env[0], format!("DISPLAY=127.0.0.1:{}.0", port - PORT));
        assert_eq!(env[1], format!("XAUTHORITY={}", file.display()));
        let (mut mine, mut its) = links();
        let call = || TcpStream::connect(("127.0.0.1", port)).unwrap();
        let clients: Vec<TcpStream> = (0..64).map(|_| call()).collect();
        for n in 0..64 {
            let message = loop {
                if let Some(message) = its.next_message().unwrap() {
                    break message;
                }
                turn(&mut forward, &mut mine);
                pass(&mut mine, &mut its);
            };
            assert_eq!(message, Message::X(X11Message::Open(n)));
        }
        // Another client is closed without a message; once one has ended there is room.
        let mut late = call();
        let patience = Some(std::time::Duration::from_secs(5));
        late.set_read_timeout(patience).unwrap();
        turn(&mut forward, &mut mine);
        assert_eq!(late.read(&mut [0; 9]).unwrap(), 0);
        assert!(mine.outgoing().is_empty());
        assert!(
            forward
                .handle_message(X11Message::Open(99), &mut mine)
                .is_err()
        );
        forward
            .handle_message(X11Message::Data(5, Vec::new()), &mut mine)
            .unwrap();
        assert_eq!((&clients[5]).read(&mut [0; 9]).unwrap(), 0);
        let more = call();
        turn(&mut forward, &mut mine);
        pass(&mut mine, &mut its);
        let closed = Message::X(X11Message::Data(5, Vec::new()));
        assert_eq!(its.next_message(), Ok(Some(closed)));
        let opened = Message::X(X11Message::Open(64));
        assert_eq!(its.next_message(), Ok(Some(opened)));
        drop(forward);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        drop(more);
    }
}
