//! Datagrams between processes of one cluster, for hints: sockets, addresses, a listening thread.
//!
//! Owns every use of datagrams. Sending never waits and never fails: a lost datagram has the same
//! effect as one that was not sent. The caller's filter checks received datagrams on the listening
//! thread and passes them on at a limited rate. A simulated machine has no network.

use super::{mount, platform, thread};
use crossbeam::channel::{Receiver, TrySendError, bounded};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of datagrams that wait to be passed on.
const WAITING_MAX: usize = 256;
/// Pause after a failed receive, ms: a persistent error must not keep a processor busy.
const FAILED_MS: u64 = 100;
/// Port of NFS, to determine which own address faces a server; nothing is sent there.
const NFS_PORT: u16 = 2049;

/// A socket that sends and receives.
#[derive(Debug, Clone)]
pub struct Socket(Arc<UdpSocket>);

impl Socket {
    /// Opens a socket on the first free port of `ports`; 0..=0 means any. `None` if there is no
    /// network or no free port.
    pub fn open(ports: RangeInclusive<u16>) -> Option<Socket> {
        if platform::simulated() {
            return None;
        }
        let bind = |port: u16| {
            UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port))
                .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)))
        };
        let socket = ports.into_iter().find_map(|port| bind(port).ok())?;
        Some(Socket(Arc::new(socket)))
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.0.local_addr().map_or(0, |a| a.port())
    }

    /// Sends `bytes` to each address. Failures are not reported.
    pub fn send(&self, bytes: &[u8], to: &[SocketAddr]) {
        let six = self.0.local_addr().is_ok_and(|a| a.is_ipv6());
        for address in to {
            let address = match address {
                SocketAddr::V4(four) if six => {
                    SocketAddr::new(four.ip().to_ipv6_mapped().into(), four.port())
                }
                other => *other,
            };
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            let _ = send_to(&self.0, bytes, address, flags);
        }
    }

    /// Waits at most `us` microseconds for a datagram that `wanted` accepts. Returns true if one
    /// arrived.
    pub fn wait(&self, us: u64, wanted: impl Fn(&[u8]) -> bool) -> bool {
        let end = super::clock::boot_ns() + u128::from(us) * 1000;
        let mut buf = [0u8; 64];
        loop {
            let left = end.saturating_sub(super::clock::boot_ns()) as u64;
            if left == 0 || self.0.set_read_timeout(Some(nanos(left))).is_err() {
                return false;
            }
            match self.0.recv(&mut buf) {
                Ok(n) if wanted(&buf[..n]) => return true,
                Ok(_) => {}
                // The time is over, or a signal arrived that the caller handles.
                Err(_) => return false,
            }
        }
    }

    /// Passes on the result of `filter` for each datagram and its sender. It runs on its own
    /// thread; results are dropped if the channel is full.
    pub fn listen<T: Send + 'static>(
        &self,
        name: &str,
        mut filter: impl FnMut(&[u8], SocketAddr) -> Option<T> + Send + 'static,
    ) -> Option<Receiver<T>> {
        let (tx, rx) = bounded(WAITING_MAX);
        let socket = self.clone();
        let body = move || {
            let mut buf = [0u8; 64];
            loop {
                let Ok((n, from)) = socket.0.recv_from(&mut buf) else {
                    super::clock::sleep_ms(FAILED_MS);
                    continue;
                };
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                if let Some(message) = filter(&buf[..n], from)
                    && let Err(TrySendError::Disconnected(_)) = tx.try_send(message)
                {
                    return;
                }
            }
        };
        thread::spawn(name, 128 << 10, body).ok().map(|_| rx)
    }
}

fn nanos(ns: u64) -> Duration {
    // Zero would mean no time limit.
    Duration::from_nanos(ns.max(1000))
}

/// `sendto` that does not wait for room in the socket's buffer.
fn send_to(socket: &UdpSocket, bytes: &[u8], to: SocketAddr, flags: i32) -> io::Result<usize> {
    use nix::sys::socket::{MsgFlags, SockaddrStorage, sendto};
    use std::os::fd::AsRawFd;
    let flags = MsgFlags::from_bits_truncate(flags);
    Ok(sendto(
        socket.as_raw_fd(),
        bytes,
        &SockaddrStorage::from(to),
        flags,
    )?)
}

/// Addresses of this machine at which others can reach `port`, at most `most`; the one that faces
/// the file server of `share` comes first.
pub fn addresses(share: &Path, port: u16, most: usize) -> Vec<SocketAddr> {
    let mut found: Vec<IpAddr> = address_towards(share).into_iter().collect();
    let others = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let others = others
        .filter_map(|i| ip_of(i.address?))
        .filter(is_reachable);
    let (mut four, six): (Vec<_>, Vec<_>) = others.partition(IpAddr::is_ipv4);
    four.extend(six);
    for ip in four {
        if !found.contains(&ip) {
            found.push(ip);
        }
    }
    if found.is_empty() {
        found.push(Ipv4Addr::LOCALHOST.into());
    }
    let few = found.into_iter().take(most);
    few.map(|ip| SocketAddr::new(ip, port)).collect()
}

fn ip_of(address: nix::sys::socket::SockaddrStorage) -> Option<IpAddr> {
    let four = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
    four.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())))
}

/// Whether other machines can reach it, beyond a single link.
fn is_reachable(ip: &IpAddr) -> bool {
    let of_one_wire = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !ip.is_loopback() && !of_one_wire
}

/// The own address from which this machine connects to the file server of a mount.
fn address_towards(share: &Path) -> Option<IpAddr> {
    let mount = mount::mount_of(share).ok()?;
    let server: IpAddr = mount.value("addr")?.parse().ok()?;
    let any = match server {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((server, NFS_PORT)).ok()?;
    socket.local_addr().ok().map(|a| a.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_reaches_who_waits_and_who_listens() {
        let Some(a) = Socket::open(0..=0) else {
            println!("skipped: no network here");
            return;
        };
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let b = Socket::open(0..=0).unwrap();
        b.send(b"no", &[local(a.port())]);
        b.send(b"yes", &[local(1), local(a.port())]);
        assert!(a.wait(60_000_000, |bytes| bytes == b"yes"));
        assert!(!a.wait(1_000, |_| true));
        let heard = a
            .listen("test", |bytes, from| (bytes != b"no").then_some(from))
            .unwrap();
        b.send(b"no", &[local(a.port())]);
        b.send(b"yes", &[local(a.port())]);
        let from = heard.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(from, local(b.port()));
        assert!(heard.try_recv().is_err());
    }

    #[test]
    fn ports_of_a_range_are_taken_one_after_the_other() {
        let Some(a) = Socket::open(0..=0) else {
            println!("skipped: no network here");
            return;
        };
        let port = a.port();
        assert!(Socket::open(port..=port).is_none());
        if let Some(next) = port.checked_add(20) {
            assert!(Socket::open(port..=next).unwrap().port() > port);
        }
    }

    #[test]
    fn this_machine_has_an_address() {
        let found = addresses(Path::new("/"), 7, 3);
        assert!((1..=3).contains(&found.len()));
        assert!(found.iter().all(|a| a.port() == 7));
    }
}
