//! Which user listens on a port of this machine: the kernel's lists `/proc/net/tcp` and `tcp6`.
//!
//! Owns their form. The caller decides which user to trust.

use super::{Result, fs};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Maximum size of a list that is read, in bytes: some 400,000 connections.
const LIST_MAX: u64 = 64 << 20;
/// The state of a socket that listens.
const LISTENS: &str = "0A";

/// A socket that listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListeningSocket {
    pub address: IpAddr,
    /// The user that created it.
    pub uid: u32,
}

impl ListeningSocket {
    /// Whether it may receive connections from this machine itself.
    fn is_reachable_locally(&self) -> bool {
        let address = match self.address {
            IpAddr::V6(six) => six.to_canonical(),
            four @ IpAddr::V4(_) => four,
        };
        address.is_loopback() || address.is_unspecified()
    }

    /// The address by which this machine connects to it.
    pub fn local_address(&self) -> IpAddr {
        match self.address {
            IpAddr::V6(six) if six.is_loopback() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            IpAddr::V4(four) if four.is_loopback() => self.address,
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

/// All sockets that may receive a connection from this machine to its port `port`.
pub fn listeners(port: u16) -> Result<Vec<ListeningSocket>> {
    let mut all = Vec::new();
    for list in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match fs::read_small(Path::new(list), LIST_MAX) {
            Ok(bytes) => all.extend(parse(&String::from_utf8_lossy(&bytes), port)),
            // The kernel lacks this family.
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e),
        }
    }
    all.retain(ListeningSocket::is_reachable_locally);
    Ok(all)
}

fn parse(list: &str, port: u16) -> Vec<ListeningSocket> {
    let suffix = format!(":{port:04X}");
    let one = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
        let [_, local, _, state, _, _, _, uid] = words[..] else {
            return None;
        };
        let address = local.strip_suffix(&suffix).filter(|_| state == LISTENS)?;
        Some(ListeningSocket {
            address: address_of(address)?,
            uid: uid.parse().ok()?,
        })
    };
    list.lines().skip(1).filter_map(one).collect()
}

/// An address as the kernel writes it: words of 32 bits in the machine's order.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok();
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes()))),
        32 => {
            let mut bytes = [0; 16];
            for (n, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(n * 8)?.to_ne_bytes());
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_listener_of_a_port_is_found_with_its_user() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = listeners(port).unwrap();
        let me = super::super::users::effective_uid();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].uid, found[0].local_address()),
            (me, Ipv4Addr::LOCALHOST.into())
        );
        // Its close is not checked: a process that another test starts at this moment has a copy of
        // it.
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1\n\
            1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000     7        0 1\n\
            2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     8        0 1\n\
            nonsense\n";
        if cfg!(target_endian = "little") {
            let found = parse(list, 0x1F90);
            let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
            assert_eq!(
                found,
                [ListeningSocket {
                    address: local,
                    uid: 1000
                }]
            );
            let six = "00000000000000000000000001000000";
            assert_eq!(address_of(six), Some(Ipv6Addr::LOCALHOST.into()));
        }
        assert!(parse(list, 1).is_empty());
        let far = ListeningSocket {
            address: "10.0.0.1".parse().unwrap(),
            uid: 1,
        };
        assert!(!far.is_reachable_locally());
        let mapped = ListeningSocket {
            address: "::ffff:127.0.0.1".parse().unwrap(),
            uid: 1,
        };
        assert!(mapped.is_reachable_locally());
    }
}
