//! Both ends of the windows of a job, with a channel between them and sockets beyond.

use super::lanes::{BUDGET, LANES_MAX, Lanes};
use super::server::Server;
use super::setup;
use super::windows::Windows;
use crate::channel::{Cookie, Hello, Key, Link, Message, Welcome, X11Message};
use crate::sys::stream::{self, PollEntry, ServerAddress};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

const REAL: [u8; 16] = *b"the display's co";
/// More than the amount that waits anywhere on the path of one client.
const MUCH: usize = 4 << 20;

/// The end of the waiting command: plain lanes, or those of a display.
enum TestHome {
    Lanes(Lanes, Vec<(u32, File)>),
    Windows(Box<Windows>),
}

struct TestDisplay {
    host: Lanes,
    mine: Link,
    home: TestHome,
    its: Link,
    warned: Vec<String>,
    /// The messages to the host.
    told: Vec<u8>,
    /// Maximum number of bytes that waited to be sent at either end.
    waited: usize,
}

impl TestDisplay {
    fn new(home: TestHome) -> TestDisplay {
        let key = Key::new([1; 32]);
        let mut mine = Link::caller(&key, "x", &Hello::default());
        let mut its = Link::accepting_end(&key, "x");
        move_all(&mut mine, &mut its);
        its.hello().unwrap();
        its.welcome(&Welcome::default()).unwrap();
        move_all(&mut its, &mut mine);
        mine.welcomed().unwrap();
        move_all(&mut mine, &mut its);
        assert_eq!(its.next_message(), Ok(Some(Message::Begin)));
        TestDisplay {
            host: Lanes::default(),
            mine,
            home,
            its,
            warned: Vec::new(),
            told: Vec::new(),
            waited: 0,
        }
    }

    /// A client at the host; the other end of its lane is `display`, or is found by its cookie.
    fn client(&mut self, n: u32, display: Option<File>) -> UnixStream {
        let (client, socket) = sockets();
        self.host.open(n, Some(socket)).unwrap();
        self.mine.send(&Message::X(X11Message::Open(n)));
        if let (TestHome::Lanes(_, displays), Some(display)) = (&mut self.home, display) {
            displays.push((n, display));
        }
        client
    }

    fn turn(&mut self) {
        let list: Vec<PollEntry> = self.host.watched(BUDGET).collect();
        let ready = stream::wait(&list, Some(0)).unwrap();
        self.host.transfer(&ready, BUDGET, &mut self.mine);
        let list: Vec<PollEntry> = match &self.home {
            TestHome::Lanes(lanes, _) => lanes.watched(BUDGET).collect(),
            TestHome::Windows(windows) => windows.watched(BUDGET).collect(),
        };
        let ready = stream::wait(&list, Some(0)).unwrap();
        match &mut self.home {
            TestHome::Lanes(lanes, _) => drop(lanes.transfer(&ready, BUDGET, &mut self.its)),
            TestHome::Windows(windows) => windows.transfer(&ready, BUDGET, &mut self.its),
        }
        let waited = self.mine.outgoing().len().max(self.its.outgoing().len());
        self.waited = self.waited.max(waited);
        move_all(&mut self.mine, &mut self.its);
        while let Some(Message::X(output)) = self.its.next_message().unwrap() {
            match &mut self.home {
                TestHome::Windows(windows) => {
                    let warned = windows.handle_message(output, &mut self.its).unwrap();
                    self.warned.extend(warned);
                }
                TestHome::Lanes(lanes, displays) => match output {
                    X11Message::Open(n) => {
                        let at = displays.iter().position(|(of, _)| *of == n).unwrap();
                        lanes.open(n, Some(displays.remove(at).1)).unwrap();
                    }
                    X11Message::Data(n, bytes) => {
                        lanes.handle_message(n, &bytes, &mut self.its).unwrap()
                    }
                    X11Message::Took(n, bytes) => lanes.note_consumed(n, bytes),
                },
            }
        }
        move_all(&mut self.its, &mut self.mine);
        while let Some(Message::X(output)) = self.mine.next_message().unwrap() {
            match output {
                X11Message::Data(n, bytes) => {
                    self.told.extend_from_slice(&bytes);
                    self.host.handle_message(n, &bytes, &mut self.mine).unwrap();
                }
                X11Message::Took(n, bytes) => self.host.note_consumed(n, bytes),
                X11Message::Open(n) => panic!("client {n} at the display"),
            }
        }
    }

    /// Takes turns until this many bytes were read, or the end.
    fn read(&mut self, from: &mut UnixStream, most: usize) -> Vec<u8> {
        let mut got = Vec::new();
        for _ in 0..20_000 {
            let mut buf = vec![0; (most - got.len()).min(1 << 16)];
            match from.read(&mut buf) {
                Ok(n) => got.extend_from_slice(&buf[..n]),
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
            self.turn();
            if got.len() == most {
                return got;
            }
        }
        got
    }
}

fn move_all(from: &mut Link, to: &mut Link) {
    to.receive(from.outgoing()).unwrap();
    from.sent(from.outgoing().len());
}

fn sockets() -> (UnixStream, File) {
    let (a, b) = UnixStream::pair().unwrap();
    a.set_nonblocking(true).unwrap();
    b.set_nonblocking(true).unwrap();
    (a, File::from(OwnedFd::from(b)))
}

/// Writes until nothing more is accepted; returns the number of bytes.
fn fill(to: &mut UnixStream, bytes: &[u8]) -> usize {
    match to.write(bytes) {
        Ok(n) => n,
        Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
        Err(e) => panic!("{e}"),
    }
}

fn plain() -> TestDisplay {
    TestDisplay::new(TestHome::Lanes(Lanes::default(), Vec::new()))
}

#[test]
fn who_does_not_read_holds_up_nobody_else_and_little_waits() {
    let mut bed = plain();
    let (mut slow, display) = sockets();
    let mut client = bed.client(1, Some(display));
    let (mut quick, display) = sockets();
    let mut other = bed.client(2, Some(display));
    let bytes: Vec<u8> = (0..MUCH).map(|n| (n / 7) as u8).collect();
    let mut sent = 0;
    for n in 0..2_000 {
        sent += fill(&mut client, &bytes[sent..]);
        other.write_all(&[n as u8]).unwrap();
        assert_eq!(bed.read(&mut quick, 1), [n as u8]);
    }
    // Two windows plus what the system holds at both ends; little is in transit.
    assert!(sent > 256 << 10 && sent < 2 << 20, "{sent}");
    assert!(bed.waited < 2 * BUDGET, "{}", bed.waited);
    let mut got = Vec::new();
    while got.len() < bytes.len() {
        sent += fill(&mut client, &bytes[sent..]);
        let most = (sent - got.len()).min(1 << 15);
        got.extend(bed.read(&mut slow, most));
    }
    assert!(got == bytes, "bytes were lost or changed");
    // The other direction, with an end.
    let mut sent = 0;
    let mut got = Vec::new();
    while sent < bytes.len() {
        sent += fill(&mut slow, &bytes[sent..]);
        let most = (sent - got.len()).min(1 << 15);
        got.extend(bed.read(&mut client, most));
    }
    drop(slow);
    got.extend(bed.read(&mut client, MUCH - got.len()));
    assert!(got == bytes, "bytes were lost or changed");
    bed.turn();
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
}

#[test]
fn a_lane_that_is_closed_at_both_ends_is_forgotten() {
    let mut bed = plain();
    for n in 0..200 {
        let (mut far, display) = sockets();
        let mut client = bed.client(n, Some(display));
        client.write_all(b"last words").unwrap();
        bed.turn();
        if n % 2 == 0 {
            drop(client);
            assert_eq!(bed.read(&mut far, 10), b"last words");
            bed.turn();
            assert_eq!(far.read(&mut [0; 9]).unwrap(), 0);
        } else {
            drop(far);
            bed.turn();
            bed.turn();
            assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
        }
        bed.turn();
    }
    assert!(!bed.host.is_full());
}

#[test]
fn more_than_a_channel_may_carry_ends_it() {
    let mut bed = plain();
    let mut lanes = Lanes::default();
    for n in 0..LANES_MAX as u32 {
        lanes.open(n, None).unwrap();
        assert!(lanes.open(n, None).is_err());
    }
    assert!(lanes.is_full() && lanes.open(99, None).is_err());
    assert!(lanes.handle_message(99, b"x", &mut bed.mine).is_err());
    lanes.handle_message(1, b"", &mut bed.mine).unwrap();
    assert!(lanes.handle_message(1, b"", &mut bed.mine).is_err());
    lanes.open(99, None).unwrap();
    // A client that reads nothing gets a window, and not a byte more.
    let (_client, socket) = sockets();
    let mut lanes = Lanes::default();
    lanes.open(1, Some(socket)).unwrap();
    let part = [0; 16 << 10];
    let taken = (0..1_000).take_while(|_| lanes.handle_message(1, &part, &mut bed.mine).is_ok());
    let taken = taken.count() * part.len();
    assert!((256 << 10..1 << 20).contains(&taken), "{taken}");
}

fn windows() -> (tempfile::TempDir, UnixListener, TestDisplay, Cookie) {
    let d = tempfile::tempdir().unwrap();
    let path = d.path().join("X0");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = Server::at(ServerAddress::Unix(path), Cookie::new(REAL));
    let windows = Windows::new(server);
    let fake = windows.cookie();
    (
        d,
        listener,
        TestDisplay::new(TestHome::Windows(Box::new(windows))),
        fake,
    )
}

#[test]
fn a_client_with_the_jobs_cookie_reaches_the_display_with_the_displays() {
    let (_d, listener, mut bed, fake) = windows();
    assert!(!fake.is(&REAL) && !fake.is(windows().3.bytes()));
    for order in *b"Bl" {
        let mut client = bed.client(u32::from(order), None);
        let words = setup::words(order, [0; 4], Some(&fake));
        let real = setup::words(order, [0; 4], Some(&Cookie::new(REAL)));
        // A byte at a time.
        for byte in words {
            assert!(listener.accept().is_err());
            client.write_all(&[byte]).unwrap();
            bed.turn();
        }
        let (mut display, _) = listener.accept().unwrap();
        display.set_nonblocking(true).unwrap();
        client.write_all(b"a request").unwrap();
        let got = bed.read(&mut display, real.len() + 9);
        assert_eq!(got, [&real[..], b"a request"].concat());
        display.write_all(b"an answer").unwrap();
        assert_eq!(bed.read(&mut client, 9), b"an answer");
        drop(client);
        bed.turn();
        bed.turn();
        assert_eq!(display.read(&mut [0; 9]).unwrap(), 0);
    }
    assert!(bed.warned.is_empty());
    assert_eq!(bed.told, b"an answeran answer");
}

#[test]
fn a_client_without_it_reaches_nothing_and_is_named() {
    let (d, listener, mut bed, fake) = windows();
    let right = setup::words(b'l', [0; 4], Some(&fake));
    let mut wrong = right.clone();
    *wrong.last_mut().unwrap() ^= 1;
    let real = setup::words(b'l', [0; 4], Some(&Cookie::new(REAL)));
    let none = setup::words(b'l', [0; 4], None);
    for (n, words) in [wrong, real, none, b"GET /".to_vec()].iter().enumerate() {
        let mut client = bed.client(n as u32, None);
        client.write_all(words).unwrap();
        bed.turn();
        bed.turn();
        assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
        assert!(listener.accept().is_err());
    }
    assert_eq!(bed.warned.len(), 3, "{:?}", bed.warned);
    // A client that disconnects before it has identified itself, and a display that is gone.
    drop(bed.client(10, None));
    bed.turn();
    let (_d, _, mut bed, fake) = windows();
    std::fs::remove_file(_d.path().join("X0")).unwrap();
    let mut client = bed.client(0, None);
    let right = setup::words(b'l', [0; 4], Some(&fake));
    client.write_all(&right).unwrap();
    bed.turn();
    bed.turn();
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
    assert!(
        bed.warned[0].contains("the display does not answer"),
        "{:?}",
        bed.warned
    );
    drop(d);
}
