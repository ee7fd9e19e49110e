//! Hints between a command and the leader: "look into my drop box", "your answer is available". It
//! is not known, and does not matter, whether a hint arrives.

use crate::model::Token;
use crate::record::hint::{self, Endpoint, Hint};
use crate::record::leader::EpochDoc;
use crate::sys;
use crate::sys::datagram::Socket;

/// See the top of this file.
#[derive(Default)]
pub(super) struct LeaderHints {
    /// Receives the hints of the leader; opened once there is a leader that sends them.
    socket: Option<Socket>,
    leader: Option<Endpoint>,
    /// The leader has reported that the answer is available.
    answered: bool,
}

impl LeaderHints {
    /// Sends hints to the leader of `epoch` from now on.
    pub(super) fn follow(&mut self, epoch: &EpochDoc) {
        self.leader = Endpoint::parse(&epoch.hints);
        if self.leader.is_some() && self.socket.is_none() {
            self.socket = Socket::open(0..=0);
        }
    }

    /// Whether the leader is known to send hints.
    pub(super) fn expected(&self) -> bool {
        self.leader.is_some()
    }

    /// Whether the leader has reported an answer since the last call.
    pub(super) fn take_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }

    pub(super) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Tells the leader to look for the request `token` of this user.
    pub(super) fn send(&self, token: Token) {
        if let (Some(socket), Some(leader)) = (&self.socket, &self.leader) {
            let uid = sys::users::effective_uid();
            let bytes = hint::encode(leader.tag, Hint::DropBox { uid, token });
            socket.send(&bytes, &leader.addresses);
        }
    }

    /// Sleeps for `us` microseconds, or until the leader reports its answer.
    pub(super) fn pause(&mut self, token: Token, us: u64) {
        let (Some(socket), Some(_)) = (&self.socket, &self.leader) else {
            return sys::clock::sleep_us(us);
        };
        let tag = hint::tag_of_token(token);
        self.answered = socket.wait(us, |bytes| {
            hint::decode(bytes, tag) == Some(Hint::Acks { token })
        });
    }
}
