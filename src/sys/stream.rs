//! Connections between two machines: listening, calling, and bytes without waiting.
//!
//! Owns TCP. Nothing here knows what the bytes mean or believes who sends them. A connection whose
//! other machine is gone without a word ends within about a minute.

use super::{At, Error, Result, datagram};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::time::Duration;

/// A silent connection is asked for a sign of life after so many seconds, so often, so many times.
const ALIVE_S: (i32, i32, i32) = (20, 10, 3);
/// How long sent bytes may stay unconfirmed, ms.
const UNCONFIRMED_MS: u32 = 60_000;

/// Waits for calls.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens on a free port of all addresses of this machine.
    pub fn open() -> Result<Listener> {
        let what = Path::new("a port");
        let six = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0));
        let listener = six
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
            .at("listen on", what)?;
        listener.set_nonblocking(true).at("listen on", what)?;
        Ok(Listener(listener))
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.0.local_addr().map_or(0, |a| a.port())
    }

    /// Addresses under which others reach it, at most `most`: the one that faces the file server
    /// of `share` first, this machine's own last.
    pub fn addresses(&self, share: &Path, most: usize) -> Vec<SocketAddr> {
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()));
        let mut all = datagram::addresses(share, self.port(), most.saturating_sub(1));
        all.retain(|a| *a != own);
        all.push(own);
        all
    }

    /// The next caller and where it calls from; `None` when there is none now.
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

/// A connection. Reading and writing never wait.
#[derive(Debug)]
pub struct Wire(TcpStream);

impl Wire {
    /// Calls `address`, for at most `ms`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn call(address: &SocketAddr, ms: u64) -> io::Result<Wire> {
        let stream = TcpStream::connect_timeout(address, Duration::from_millis(ms.max(1)))?;
        Wire::of(stream)
    }

    fn of(stream: TcpStream) -> io::Result<Wire> {
        use nix::sys::socket::{setsockopt, sockopt};
        stream.set_nonblocking(true)?;
        // A key that is pressed is sent at once.
        stream.set_nodelay(true)?;
        let (idle, interval, count) = ALIVE_S;
        setsockopt(&stream, sockopt::KeepAlive, &true)?;
        setsockopt(&stream, sockopt::TcpKeepIdle, &idle.unsigned_abs())?;
        setsockopt(&stream, sockopt::TcpKeepInterval, &interval.unsigned_abs())?;
        setsockopt(&stream, sockopt::TcpKeepCount, &count.unsigned_abs())?;
        setsockopt(&stream, sockopt::TcpUserTimeout, &UNCONFIRMED_MS)?;
        Ok(Wire(stream))
    }

    /// What is there, at most the room of `buf`; `Some(0)`: the other end sends nothing more;
    /// `None`: nothing for now.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        now_or_later((&self.0).read(buf))
    }

    /// Sends what can be sent now; how much that was.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(now_or_later((&self.0).write(bytes))?.unwrap_or(0))
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

/// An answer without waiting: `None` when there is nothing now.
pub(super) fn now_or_later(answer: io::Result<usize>) -> io::Result<Option<usize>> {
    use io::ErrorKind::{Interrupted, WouldBlock};
    match answer {
        Ok(n) => Ok(Some(n)),
        Err(e) if matches!(e.kind(), Interrupted | WouldBlock) => Ok(None),
        Err(e) => Err(e),
    }
}

/// What is waited for at a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    pub fd: RawFd,
    pub read: bool,
    pub write: bool,
}

/// Waits until one of them is ready or closed at the other end, at most `ms`; which of them are,
/// for reading (or closed) and for writing. A signal ends the wait early.
pub fn wait(list: &[Watched], ms: Option<u64>) -> Result<Vec<(bool, bool)>> {
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
            // Neither: its closing at the other end would be reported again and again.
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
        for _ in 0..2_000 {
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
        let watched = [b.as_raw_fd(), a.as_raw_fd()].map(|fd| Watched {
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
