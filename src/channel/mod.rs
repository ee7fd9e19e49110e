//! The channel between a command that waits at a terminal and the host that runs what it started:
//! messages, their limits, and the encryption under a key that is used once.
//!
//! Bytes in, messages out. Owns no socket and no terminal, and does no input or output: both ends
//! pass in what they read and write what they get.

mod key;
mod link;
mod message;
mod rendezvous;
mod streams;
#[cfg(test)]
mod tests;

pub use key::{Cookie, Key};
pub use link::{ChannelError, Link};
pub use message::{DATA_MAX, Finish, Hello, Message, Screen, Stream, Welcome, X11Message};
pub use rendezvous::{ADDRESSES_MAX, ConnectFailure, RENDEZVOUS_MAX, Rendezvous};
pub use streams::{FRAME_DATA_MAX, Frame, InvalidFrame, STREAMS_MAX, WINDOW};

use crate::model::Token;

/// The text by which both ends identify a channel: its version and its name.
pub fn channel_name(token: Token) -> String {
    format!("corral channel 1 {token}")
}

/// Number of bytes of input that may be in transit to a program that has not read any of them, so
/// that other data on the channel, such as a signal, is never held up by a program that does not
/// read.
pub const ROOM: u32 = 256 << 10;
