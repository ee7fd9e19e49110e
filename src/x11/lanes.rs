//! Connections of X11 clients in one channel: a lane for each. Owns their number and how much of
//! each is buffered at one end: a client or display that does not read delays only itself.

use crate::channel::{ChannelError, DATA_MAX, Link, Message, X11Message};
use crate::sys::stream::PollEntry;
use crate::sys::terminal::{read_now, write_now};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Maximum number of lanes of a channel.
pub(crate) const LANES_MAX: usize = 64;
/// Maximum number of bytes of a lane that wait at one end.
const WINDOW: usize = 256 << 10;
/// Maximum number of bytes that are read for all lanes in one turn.
pub(crate) const BUDGET: usize = 32 << 10;

/// The lanes of one end.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: BTreeMap<u32, Lane>,
    /// Counts turns: each starts with another lane.
    turns: usize,
}

struct Lane {
    /// The client or the display; `None`: not yet, or no longer.
    socket: Option<File>,
    /// Bytes that arrived for it and are not written yet.
    queue: Vec<u8>,
    /// Number of bytes that the other end still accepts.
    room: usize,
    /// Each end states once that it has closed.
    closed_locally: bool,
    closed_remotely: bool,
}

impl Lanes {
    pub(crate) fn is_full(&self) -> bool {
        self.lanes.len() >= LANES_MAX
    }

    /// Opens another lane.
    ///
    /// # Errors
    /// There are too many, or it exists already.
    pub(crate) fn open(&mut self, n: u32, socket: Option<File>) -> Result<(), ChannelError> {
        if self.is_full() || self.lanes.contains_key(&n) {
            return Err(ChannelError::Corrupt);
        }
        let lane = Lane {
            socket,
            queue: Vec::new(),
            room: WINDOW,
            closed_locally: false,
            closed_remotely: false,
        };
        self.lanes.insert(n, lane);
        Ok(())
    }

    /// Sets the display of a lane.
    pub(super) fn connect(&mut self, n: u32, socket: File) {
        if let Some(lane) = self.lanes.get_mut(&n) {
            lane.socket = Some(socket);
        }
    }

    /// Closes a lane at this end.
    pub(super) fn close(&mut self, n: u32, link: &mut Link) {
        if let Some(lane) = self.lanes.get_mut(&n) {
            lane.close(n, link);
        }
        self.forget_closed();
    }

    /// The events to wait for, one entry per lane. `budget`: number of bytes that may be read.
    pub(crate) fn watched(&self, budget: usize) -> impl Iterator<Item = PollEntry> {
        self.lanes.values().map(move |lane| PollEntry {
            fd: lane.socket.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            read: budget > 0 && lane.room > 0,
            write: !lane.queue.is_empty(),
        })
    }

    /// Reads and writes what is `ready` among the watched. Returns true if something moved.
    pub(crate) fn transfer(
        &mut self,
        ready: &[(bool, bool)],
        mut budget: usize,
        link: &mut Link,
    ) -> bool {
        self.turns = self.turns.wrapping_add(1);
        let mut all: Vec<_> = self.lanes.iter_mut().zip(ready).collect();
        let first = self.turns % all.len().max(1);
        all.rotate_left(first);
        let mut moved = false;
        for ((n, lane), (read, write)) in all {
            if *write {
                lane.flush(*n, link);
            }
            if *read && lane.room > 0 && budget > 0 {
                budget -= lane.read(*n, budget, link);
            }
            moved |= *read || *write;
        }
        self.forget_closed();
        moved
    }

    /// Handles a message of the other end about a lane.
    ///
    /// # Errors
    /// It sends more than it may.
    pub(crate) fn handle_message(
        &mut self,
        n: u32,
        bytes: &[u8],
        link: &mut Link,
    ) -> Result<(), ChannelError> {
        // A lane that is closed at both ends is not mentioned any more.
        let lane = self.lanes.get_mut(&n).ok_or(ChannelError::Corrupt)?;
        if lane.closed_remotely || lane.queue.len() + bytes.len() > WINDOW {
            return Err(ChannelError::Corrupt);
        }
        lane.closed_remotely = bytes.is_empty();
        if lane.socket.is_some() {
            lane.queue.extend_from_slice(bytes);
        }
        lane.flush(n, link);
        self.forget_closed();
        Ok(())
    }

    /// Notes that the other end has passed on this many bytes of a lane.
    pub(crate) fn note_consumed(&mut self, n: u32, bytes: u32) {
        if let Some(lane) = self.lanes.get_mut(&n) {
            lane.room = lane.room.saturating_add(bytes as usize).min(WINDOW);
        }
    }

    fn forget_closed(&mut self) {
        self.lanes
            .retain(|_, lane| !lane.closed_locally || !lane.closed_remotely);
    }
}

impl Lane {
    /// Reads at most `most` bytes for the other end. Returns their number.
    fn read(&mut self, n: u32, most: usize, link: &mut Link) -> usize {
        let Some(socket) = &self.socket else { return 0 };
        let mut buf = [0; DATA_MAX];
        let most = most.min(self.room).min(DATA_MAX);
        match read_now(socket, &mut buf[..most]) {
            Ok(None) => 0,
            Ok(Some(0)) | Err(_) => {
                self.close(n, link);
                0
            }
            Ok(Some(got)) => {
                self.room -= got;
                let data = X11Message::Data(n, buf[..got].to_vec());
                link.send(&Message::X(data));
                got
            }
        }
    }

    /// Writes what can be written, and closes after the last bytes of the other end.
    fn flush(&mut self, n: u32, link: &mut Link) {
        if let Some(socket) = self.socket.as_ref().filter(|_| !self.queue.is_empty()) {
            match write_now(socket, &self.queue) {
                Ok(0) => {}
                Ok(put) => {
                    self.queue.drain(..put);
                    link.send(&Message::X(X11Message::Took(n, put as u32)));
                }
                Err(_) => self.close(n, link),
            }
        }
        if self.closed_remotely && self.queue.is_empty() {
            self.close(n, link);
        }
    }

    fn close(&mut self, n: u32, link: &mut Link) {
        self.socket = None;
        self.queue = Vec::new();
        if !std::mem::replace(&mut self.closed_locally, true) {
            link.send(&Message::X(X11Message::Data(n, Vec::new())));
        }
    }
}
