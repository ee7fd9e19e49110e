//! Messages between two processes of this host that carry open descriptors.
//!
//! Owns sending and receiving them. The callers own the meaning of a message. A receiver trusts
//! nothing: a message has a maximum length, and descriptors that were not requested are closed.

use super::{Error, ErrorContext, Result};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, setsockopt, socketpair, sockopt,
};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Number of descriptors that one message may carry; further ones are closed by the kernel or here.
const BROUGHT: usize = 4;

/// A received message.
#[derive(Debug)]
pub struct Message {
    pub bytes: Vec<u8>,
    /// The first descriptor in the message, closed on exec.
    pub descriptor: Option<File>,
    /// It was longer than the receiver accepts.
    pub is_cut: bool,
}

/// Two connected sockets that preserve the boundaries of messages, closed on exec.
pub fn message_pair() -> Result<(File, File)> {
    let pair = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    );
    let (a, b) = pair.at("make", Path::new("a socket pair"))?;
    Ok((File::from(a), File::from(b)))
}

/// Limits how long a read or a write of a socket may block, ms.
pub fn limit_time(socket: &File, ms: u64) -> Result<()> {
    let time = nix::sys::time::TimeVal::new((ms / 1000) as i64, (ms % 1000 * 1000) as i64);
    let what = Path::new("a socket");
    setsockopt(socket, sockopt::SendTimeout, &time).at("set the time limit of", what)?;
    setsockopt(socket, sockopt::ReceiveTimeout, &time).at("set the time limit of", what)
}

/// Sends bytes at once, with a descriptor. `wait`: waits until there is room. If the reader is
/// gone, it is an error, not a signal.
pub fn send(socket: &File, bytes: &[u8], with: Option<&File>, wait: bool) -> Result<()> {
    let descriptors: Vec<RawFd> = with.iter().map(|file| file.as_raw_fd()).collect();
    let control = [ControlMessage::ScmRights(&descriptors)];
    let control = if with.is_some() { &control[..] } else { &[] };
    let flags = match wait {
        true => MsgFlags::MSG_NOSIGNAL,
        false => MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
    };
    let what = Path::new("a process of this host");
    loop {
        let sent = sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(bytes)],
            control,
            flags,
            None,
        );
        match sent {
            Ok(n) if n == bytes.len() => return Ok(()),
            Ok(_) => return Err(Error::invalid("send to", what, "only a part was accepted")),
            Err(nix::Error::EINTR) => {}
            Err(e) => return Err(e).at("send to", what),
        }
    }
}

/// The next message, or for a stream at most `most` bytes; `None`: the other end is closed.
pub fn receive(socket: &File, most: usize) -> Result<Option<Message>> {
    let mut bytes = vec![0u8; most];
    let mut space = nix::cmsg_space!([RawFd; BROUGHT]);
    let (len, descriptor, is_cut) = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags);
        let message = match message {
            Err(nix::Error::EINTR) => continue,
            message => message.at("receive from", Path::new("a process of this host"))?,
        };
        break (
            message.bytes,
            received_file(&message),
            message.flags.contains(MsgFlags::MSG_TRUNC),
        );
    };
    bytes.truncate(len);
    // An empty message is not one of ours: it is read as the end.
    Ok((len > 0).then_some(Message {
        bytes,
        descriptor,
        is_cut,
    }))
}

fn received_file(message: &nix::sys::socket::RecvMsg<'_, '_, ()>) -> Option<File> {
    let mut all = Vec::new();
    for control in message.cmsgs().into_iter().flatten() {
        if let ControlMessageOwned::ScmRights(list) = control {
            for fd in list {
                // SAFETY: the kernel has just created it for this process; it has no other owner.
                all.push(File::from(unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
    }
    all.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_message_brings_a_descriptor() {
        let (a, b) = message_pair().unwrap();
        let mut text = super::super::ipc::text_file(b"content").unwrap();
        send(&a, b"one", Some(&text), true).unwrap();
        send(&a, b"two", None, true).unwrap();
        let message = receive(&b, 10).unwrap().unwrap();
        assert_eq!((&message.bytes[..], message.is_cut), (&b"one"[..], false));
        let mut read = String::new();
        message
            .descriptor
            .unwrap()
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, "content");
        let cut = receive(&b, 2).unwrap().unwrap();
        assert!(cut.is_cut && cut.descriptor.is_none() && cut.bytes == b"tw");
        drop(a);
        assert!(receive(&b, 10).unwrap().is_none());
        text.read_to_string(&mut read).unwrap();
    }

    #[test]
    fn nobody_waits_for_ever() {
        let (a, b) = super::super::ipc::pair().unwrap();
        limit_time(&a, 50).unwrap();
        assert!(receive(&a, 10).is_err());
        let much = vec![0u8; 1 << 20];
        assert!(send(&a, &much, None, false).is_err());
        drop(b);
        assert!(send(&a, b"x", None, true).is_err());
    }
}
