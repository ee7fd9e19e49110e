//! TCP connections of this machine with the bytes that each has carried, from the kernel by netlink
//! (`sock_diag`), and which of them a process has open. Needs no privilege except the right to
//! inspect the process. Sees only the network namespace of this process.

use super::{Error, Result};
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where `struct tcp_info` of the kernel has `tcpi_bytes_acked`; `tcpi_bytes_received` follows.
const BYTES_ACKED_AT: usize = 120;
/// Maximum size of a part of an answer, bytes.
const PART: usize = 64 << 10;
/// Longest wait for a part, s: the kernel answers within the call that asks.
const WAIT_S: i64 = 2;
/// Maximum number of connections that are read.
const CONNECTIONS_MAX: usize = 1_000_000;

/// A connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Unique until the machine boots again.
    pub cookie: u64,
    /// As `/proc/PID/fd` names it; 0: no process has it open.
    pub inode: u64,
    pub received: u64,
    /// Sent and acknowledged.
    pub sent: u64,
}

/// All connections over which data can flow or has just flowed.
pub fn connections() -> Result<Vec<Connection>> {
    if super::platform::simulated() {
        return Ok(Vec::new());
    }
    let socket = open().map_err(failed)?;
    let mut all = Vec::new();
    query(&socket, AF_INET, &mut all)?;
    query(&socket, AF_INET6, &mut all)?;
    Ok(all)
}

fn failed(e: nix::Error) -> Error {
    Error::new("list connections", Path::new("netlink"), e.into())
}

fn open() -> nix::Result<OwnedFd> {
    let fd = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    setsockopt(&fd, ReceiveTimeout, &TimeVal::seconds(WAIT_S))?;
    bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    Ok(fd)
}

fn request(family: u8) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let excluded = StateFlags::LISTEN | StateFlags::TIME_WAIT | StateFlags::SYN_RECV;
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::all().difference(excluded),
        socket_id: match family {
            AF_INET => SocketId::new_v4(),
            _ => SocketId::new_v6(),
        },
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn query(fd: &OwnedFd, family: u8, all: &mut Vec<Connection>) -> Result<()> {
    let kernel = NetlinkAddr::new(0, 0);
    sendto(fd.as_raw_fd(), &request(family), &kernel, MsgFlags::empty()).map_err(failed)?;
    let mut part = vec![0; PART];
    loop {
        let n = match recv(fd.as_raw_fd(), &mut part, MsgFlags::empty()) {
            Err(nix::Error::EINTR) => continue,
            other => other.map_err(failed)?,
        };
        if read_part(part.get(..n).unwrap_or_default(), all)? {
            return Ok(());
        }
    }
}

/// Reads a part of an answer. Returns true if it was the last one.
fn read_part(mut part: &[u8], all: &mut Vec<Connection>) -> Result<bool> {
    while let Some(length) = part.first_chunk::<4>() {
        let length = u32::from_ne_bytes(*length) as usize;
        let Some(message) = part.get(..length).filter(|_| length >= 16) else {
            return Ok(true);
        };
        // A message that is not understood loses one connection.
        if let Ok(message) = NetlinkMessage::<SockDiagMessage>::deserialize(message) {
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
                    all.extend(connection(&found).filter(|_| all.len() < CONNECTIONS_MAX));
                }
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(e) => {
                    let e = std::io::Error::from_raw_os_error(-e.raw_code());
                    return Err(Error::new("list connections", Path::new("netlink"), e));
                }
                _ => {}
            }
        }
        part = part.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn connection(found: &InetResponse) -> Option<Connection> {
    let info = found.nlas.iter().find_map(|nla| match nla {
        Nla::TcpInfo(bytes) => Some(bytes),
        _ => None,
    })?;
    // Kernels before 4.1 return less.
    let number = |at: usize| {
        let bytes = info.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_ne_bytes(bytes))
    };
    Some(Connection {
        cookie: u64::from_ne_bytes(found.header.socket_id.cookie),
        inode: u64::from(found.header.inode),
        sent: number(BYTES_ACKED_AT)?,
        received: number(BYTES_ACKED_AT + 8)?,
    })
}

/// Inodes of the sockets that a process has open. `room`: the number of descriptors that may still
/// be examined; it is reduced by the number of those examined. If none is left, the process may
/// have more.
pub fn of_process(pid: i32, room: &mut usize) -> Vec<u64> {
    let dir = PathBuf::from(format!("/proc/{pid}/fd"));
    let Ok(list) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for entry in list.flatten() {
        if *room == 0 {
            break;
        }
        *room -= 1;
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        out.extend(target.to_str().and_then(inode_of));
    }
    out
}

/// `socket:[4711]`
fn inode_of(target: &str) -> Option<u64> {
    let number = target.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn only_sockets_have_an_inode_here() {
        assert_eq!(inode_of("socket:[4711]"), Some(4711));
        for other in ["pipe:[4711]", "/dev/null", "socket:[x]", "socket:[1"] {
            assert_eq!(inode_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_connection_is_found_with_what_it_has_carried() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(&[7; 100_000][..]).unwrap();
            client.write_all(b"end").unwrap();
            server.read_exact(&mut vec![0; 100_003]).unwrap();
            server.write_all(b"answer").unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
            let me = i32::try_from(std::process::id()).unwrap();
            let own = of_process(me, &mut 10_000);
            let all = match connections() {
                Ok(all) => all,
                // A sandbox without sock_diag.
                Err(e) => return println!("skipped: {e}"),
            };
            let mut ours = all.iter().filter(|c| own.contains(&c.inode));
            let sent = ours.find(|c| c.sent >= 100_003 && c.received == 6);
            let sent = sent.unwrap_or_else(|| panic!("{address}: {all:?}"));
            let end = |c: &&Connection| c.received == 100_003 && c.cookie != sent.cookie;
            assert_eq!(
                all.iter()
                    .filter(|c| own.contains(&c.inode))
                    .filter(end)
                    .count(),
                1
            );
            assert!(of_process(me, &mut 0).is_empty());
        }
    }

    #[test]
    fn a_torn_answer_ends_the_reading() {
        let mut all = Vec::new();
        for torn in [&[][..], &[200, 0, 0, 0][..], &[1, 0, 0, 0, 9][..]] {
            let last = read_part(torn, &mut all).unwrap();
            assert_eq!((last, all.len()), (!torn.is_empty(), 0));
        }
    }
}
