//! Connections between two machines: listening, connecting, and bytes without waiting.
//!
//! Owns TCP, and connections to sockets of this machine. Nothing here knows what the bytes mean or
//! trusts the sender. A connection whose other machine disappears is detected as lost within about
//! a minute; a connection whose other program reads nothing stays.

use super::{Error, ErrorContext, Result, datagram};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Keepalive of a silent connection: after this many seconds, at this interval in seconds, this
/// many times.
const ALIVE_S: (i32, i32, i32) = (20, 10, 3);
/// How long sent bytes may stay unconfirmed, and how long the other end may have no room for bytes
/// (ms). In the second case the system asks for room at least every two minutes (Linux's longest
/// retransmission timeout) and gets an answer. `TCP_USER_TIMEOUT` does not distinguish the two
/// cases, so a program stopped for a minute would lose its connection.
const UNCONFIRMED_MS: u32 = 60_000;
const NO_ROOM_MS: u32 = 300_000;
/// How often a connection in use is checked for loss (ms).
pub const LOSS_CHECK_MS: u64 = 10_000;

/// Waits for connections.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens on a free port of all addresses of this machine.
    pub fn open() -> Result<Listener> {
        let what = Path::new("a port");
        let ipv6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0));
        let listener = ipv6
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
            .at("listen on", what)?;
        listener.set_nonblocking(true).at("listen on", what)?;
        Ok(Listener(listener))
    }

    /// Listens on a port of this machine, only for its own programs.
    ///
    /// # Errors
    /// Another program has the port.
    pub fn on_loopback(port: u16) -> io::Result<Listener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        Ok(Listener(listener))
    }

    /// The next connection from a program of this machine; `None` if there is none now. The program
    /// may read as slowly as it likes: there is no keepalive.
    pub fn accept_local(&self) -> Option<File> {
        let (stream, _) = self.0.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        let _ = stream.set_nodelay(true);
        Some(File::from(OwnedFd::from(stream)))
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.0.local_addr().map_or(0, |a| a.port())
    }

    /// Addresses at which others can reach it, at most `most`: the one that faces the file server
    /// of `share` comes first, this machine's own last.
    pub fn addresses(&self, share: &Path, most: usize) -> Vec<SocketAddr> {
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()));
        let mut all = datagram::addresses(share, self.port(), most.saturating_sub(1));
        all.retain(|a| *a != own);
        all.push(own);
        all
    }

    /// The next connection and its source address; `None` if there is none now.
    pub fn accept(&self) -> Option<(Wire, SocketAddr)> {
        let (stream, from) = self.0.accept().ok()?;
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        Some((Wire::of(stream).ok()?, from))
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerAddress {
    Unix(PathBuf),
    Abstract(String),
    Tcp(SocketAddr),
}

/// The addresses of a port of a machine, at most `most`.
///
/// # Errors
/// Its name is not known.
pub fn resolve(host: &str, port: u16, most: usize) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.take(most).collect())
}

/// Connects to a server without waiting: it may not have answered yet; a failed connection shows at
/// the first read.
///
/// # Errors
/// The system's error, if it is known at once.
pub fn connect_nonblocking(at: &ServerAddress) -> io::Result<File> {
    use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, UnixAddr};
    let family = match at {
        ServerAddress::Tcp(SocketAddr::V4(_)) => AddressFamily::Inet,
        ServerAddress::Tcp(SocketAddr::V6(_)) => AddressFamily::Inet6,
        ServerAddress::Unix(_) | ServerAddress::Abstract(_) => AddressFamily::Unix,
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket::socket(family, SockType::Stream, flags, None)?;
    let connected = match at {
        ServerAddress::Tcp(address) => {
            let _ = socket::setsockopt(&fd, socket::sockopt::TcpNoDelay, &true);
            socket::connect(fd.as_raw_fd(), &SockaddrStorage::from(*address))
        }
        ServerAddress::Unix(path) => socket::connect(fd.as_raw_fd(), &UnixAddr::new(path)?),
        ServerAddress::Abstract(name) => {
            socket::connect(fd.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)
        }
    };
    match connected {
        Ok(()) | Err(nix::errno::Errno::EINPROGRESS) => Ok(File::from(fd)),
        Err(e) => Err(e.into()),
    }
}

/// The beginning of Linux's `struct tcp_info`.
#[repr(C)]
#[derive(Default)]
struct TcpInfo {
    _states: [u8; 8],
    _times: [u32; 4],
    /// Segments that were sent but not confirmed.
    unconfirmed: u32,
    _counts: [u32; 4],
    _last_sent: [u32; 3],
    /// Time since the last confirmation, ms.
    last_ms: u32,
}

fn lost(unconfirmed: u32, last_ms: u32) -> bool {
    let longest = match unconfirmed {
        0 => NO_ROOM_MS,
        _ => UNCONFIRMED_MS,
    };
    last_ms > longest
}

/// A connection. Reading and writing never block.
#[derive(Debug)]
pub struct Wire(TcpStream);

impl Wire {
    /// Connects to `address`, waiting at most `ms`.
    ///
    /// # Errors
    /// The system's error.
    pub fn call(address: &SocketAddr, ms: u64) -> io::Result<Wire> {
        let stream = TcpStream::connect_timeout(address, Duration::from_millis(ms.max(1)))?;
        Wire::of(stream)
    }

    fn of(stream: TcpStream) -> io::Result<Wire> {
        use nix::sys::socket::{setsockopt, sockopt};
        stream.set_nonblocking(true)?;
        // A pressed key is sent at once.
        stream.set_nodelay(true)?;
        let (idle, interval, count) = ALIVE_S;
        setsockopt(&stream, sockopt::KeepAlive, &true)?;
        setsockopt(&stream, sockopt::TcpKeepIdle, &idle.unsigned_abs())?;
        setsockopt(&stream, sockopt::TcpKeepInterval, &interval.unsigned_abs())?;
        setsockopt(&stream, sockopt::TcpKeepCount, &count.unsigned_abs())?;
        Ok(Wire(stream))
    }

    /// Whether the other machine must be gone, because it confirms nothing that was sent. Must be
    /// checked every `LOSS_CHECK_MS`; if nothing is in transit, the system itself checks the
    /// connection.
    pub fn is_lost(&self) -> bool {
        let mut info = TcpInfo::default();
        let mut len = size_of::<TcpInfo>() as libc::socklen_t;
        // SAFETY: a valid descriptor, and as much room as `len` states.
        let rc = unsafe {
            libc::getsockopt(
                self.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut len,
            )
        };
        rc == 0 && len as usize == size_of::<TcpInfo>() && lost(info.unconfirmed, info.last_ms)
    }

    /// Reads the available bytes, at most the room of `buf`; `Some(0)`: the other end sends nothing
    /// more; `None`: nothing for now.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        nonblocking_result((&self.0).read(buf))
    }

    /// Sends what can be sent now. Returns the number of bytes.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(nonblocking_result((&self.0).write(bytes))?.unwrap_or(0))
    }
}

impl AsRawFd for Wire {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A result without waiting: `None` if there is nothing now.
pub(super) fn nonblocking_result(answer: io::Result<usize>) -> io::Result<Option<usize>> {
    use io::ErrorKind::{Interrupted, WouldBlock};
    match answer {
        Ok(n) => Ok(Some(n)),
        Err(e) if matches!(e.kind(), Interrupted | WouldBlock) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The events to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollEntry {
    pub fd: RawFd,
    pub read: bool,
    pub write: bool,
}

/// Waits until one of them is ready or closed at the other end, at most `ms`. Returns which of them
/// are ready for reading (or closed) and for writing. A signal ends the wait early.
pub fn wait(list: &[PollEntry], ms: Option<u64>) -> Result<Vec<(bool, bool)>> {
    let mut polled: Vec<libc::pollfd> = list
        .iter()
        .map(|w| {
            let mut events = 0;
            if w.read {
                events |= libc::POLLIN;
            }
            if w.write {
                events |= libc::POLLOUT;
            }
            // Neither: otherwise, a close at the other end would be reported again and again.
            let fd = if events == 0 { -1 } else { w.fd };
            libc::pollfd {
                fd,
                events,
                revents: 0,
            }
        })
        .collect();
    let ms = ms.map_or(-1, |m| i32::try_from(m).unwrap_or(i32::MAX));
    // SAFETY: as many valid entries as the length says.
    let rc = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) };
    if rc < 0 {
        let e = Error::last("wait for", Path::new("a connection"));
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
    let over = libc::POLLHUP | libc::POLLERR;
    let ready = |p: &libc::pollfd| match rc {
        ..=0 => (false, false),
        _ => (
            p.revents & (libc::POLLIN | over) != 0,
            p.revents & (libc::POLLOUT | over) != 0,
        ),
    };
    Ok(polled.iter().map(ready).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until<T>(mut get: impl FnMut() -> Option<T>) -> T {
        for _ in 0..60_000 {
            if let Some(got) = get() {
                return got;
            }
            super::super::clock::sleep_ms(1);
        }
        panic!("nothing came");
    }

    #[test]
    fn bytes_go_both_ways_without_waiting() {
        let Ok(listener) = Listener::open() else {
            println!("skipped: no network here");
            return;
        };
        assert!(listener.accept().is_none());
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.port()));
        let a = Wire::call(&at, 2_000).unwrap();
        let (b, from) = until(|| listener.accept());
        assert!(from.ip().is_loopback());
        let mut buf = [0; 9];
        assert_eq!(b.read(&mut buf).unwrap(), None);
        assert_eq!(a.write(b"abc").unwrap(), 3);
        let watched = [b.as_raw_fd(), a.as_raw_fd()].map(|fd| PollEntry {
            fd,
            read: true,
            write: false,
        });
        assert_eq!(
            wait(&watched, Some(2_000)).unwrap(),
            [(true, false), (false, false)]
        );
        assert_eq!(b.read(&mut buf).unwrap(), Some(3));
        drop(a);
        assert_eq!(until(|| b.read(&mut buf).unwrap()), 0);
        assert!(Wire::call(&from, 500).is_err());
    }

    #[test]
    fn a_program_that_reads_nothing_is_not_lost() {
        let Ok(listener) = Listener::open() else {
            println!("skipped: no network here");
            return;
        };
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.port()));
        let a = Wire::call(&at, 2_000).unwrap();
        let _silent = until(|| listener.accept());
        while a.write(&[0; 65_536]).unwrap() > 0 {}
        // The system would end it at this time, whether or not the other machine answers.
        let limit = nix::sys::socket::sockopt::TcpUserTimeout;
        assert_eq!(nix::sys::socket::getsockopt(&a, limit), Ok(0));
        assert!(!a.is_lost());
        let cases = [(1, 60_000), (0, 60_001), (0, 300_000)];
        assert!(cases.iter().all(|(sent, ms)| !lost(*sent, *ms)));
        assert!(lost(1, 60_001) && lost(0, 300_001));
    }

    #[test]
    fn servers_of_every_kind_are_called_without_waiting() {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::net::{SocketAddr as Name, UnixListener};
        let d = tempfile::tempdir().unwrap();
        let path = d.path().join("s");
        let name = format!("corral.test.{}", std::process::id());
        assert!(connect_nonblocking(&ServerAddress::Unix(path.clone())).is_err());
        assert!(connect_nonblocking(&ServerAddress::Abstract(name.clone())).is_err());
        let file = UnixListener::bind(&path).unwrap();
        let named = Name::from_abstract_name(&name).unwrap();
        let named = UnixListener::bind_addr(&named).unwrap();
        let calls = [
            (ServerAddress::Unix(path), file),
            (ServerAddress::Abstract(name), named),
        ];
        for (place, listener) in calls {
            let mut mine = connect_nonblocking(&place).unwrap();
            let (mut its, _) = listener.accept().unwrap();
            let empty = mine.read(&mut [0; 9]).unwrap_err();
            assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
            mine.write_all(b"x").unwrap();
            assert_eq!(its.read(&mut [0; 9]).unwrap(), 1);
        }
        // A port of this machine only; a connection to it fails after it is closed.
        let Ok(listener) = Listener::on_loopback(0) else {
            println!("skipped: no network here");
            return;
        };
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.port()));
        assert!(Listener::on_loopback(at.port()).is_err());
        let mine = connect_nonblocking(&ServerAddress::Tcp(at)).unwrap();
        let mut its = until(|| listener.accept_local());
        assert!(its.read(&mut [0; 9]).is_err());
        drop((its, mine, listener));
        let refused = connect_nonblocking(&ServerAddress::Tcp(at)).and_then(|mut late| {
            let watched = [PollEntry {
                fd: late.as_raw_fd(),
                read: true,
                write: false,
            }];
            wait(&watched, Some(2_000)).unwrap();
            late.read(&mut [0; 9])
        });
        assert_eq!(
            refused.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        assert!(resolve("127.0.0.1", 6000, 1).unwrap()[0].ip().is_loopback());
    }

    #[test]
    fn the_own_machine_is_the_last_address() {
        let Ok(listener) = Listener::open() else {
            println!("skipped: no network here");
            return;
        };
        let all = listener.addresses(Path::new("/"), 4);
        assert!(all.len() <= 4 && all.last().unwrap().ip().is_loopback());
        assert!(all.iter().all(|a| a.port() == listener.port()));
    }
}
