//! The windows of a job in the waiting command: a client that presents the job's cookie gets a
//! connection to the display, with the display's own cookie. Owns that decision; the host has no
//! part in it.

use super::lanes::Lanes;
use super::server::Server;
use super::setup::{ClientSetup, SetupProgress};
use crate::channel::{ChannelError, Cookie, Link, X11Message};
use crate::sys::stream::PollEntry;
use crate::sys::{self, clock};
use std::collections::BTreeMap;

/// Maximum number of rejected clients that are named.
const NAMED_MAX: usize = 3;

/// The windows of a job.
pub(crate) struct Windows {
    server: Server,
    fake: Cookie,
    /// Clients that are not admitted yet.
    pending_clients: BTreeMap<u32, ClientSetup>,
    lanes: Lanes,
    rejections_reported: usize,
}

impl Windows {
    /// Windows at this display, for clients with a cookie that is created here.
    pub(crate) fn new(server: Server) -> Windows {
        let mut bytes = [0; Cookie::LEN];
        clock::random(&mut bytes);
        Windows {
            server,
            fake: Cookie::new(bytes),
            pending_clients: BTreeMap::new(),
            lanes: Lanes::default(),
            rejections_reported: 0,
        }
    }

    /// The cookie for the job.
    pub(crate) fn cookie(&self) -> Cookie {
        self.fake
    }

    /// The events to wait for.
    pub(crate) fn watched(&self, budget: usize) -> impl Iterator<Item = PollEntry> {
        self.lanes.watched(budget)
    }

    /// Carries bytes between the displays' connections and the channel.
    pub(crate) fn transfer(&mut self, ready: &[(bool, bool)], budget: usize, link: &mut Link) {
        self.lanes.transfer(ready, budget, link);
    }

    /// Handles a message of the host about its clients. Returns a warning for the user.
    ///
    /// # Errors
    /// It sends more than it may.
    pub(crate) fn handle_message(
        &mut self,
        message: X11Message,
        link: &mut Link,
    ) -> Result<Option<String>, ChannelError> {
        match message {
            X11Message::Open(n) => {
                self.lanes.open(n, None)?;
                self.pending_clients.insert(n, ClientSetup::new(self.fake));
                Ok(None)
            }
            X11Message::Took(n, bytes) => {
                self.lanes.note_consumed(n, bytes);
                Ok(None)
            }
            X11Message::Data(n, bytes) => self.pass(n, &bytes, link),
        }
    }

    fn pass(
        &mut self,
        n: u32,
        bytes: &[u8],
        link: &mut Link,
    ) -> Result<Option<String>, ChannelError> {
        let Some(gate) = self
            .pending_clients
            .get_mut(&n)
            .filter(|_| !bytes.is_empty())
        else {
            self.pending_clients.remove(&n);
            self.lanes.handle_message(n, bytes, link)?;
            return Ok(None);
        };
        let gated = gate.take(bytes, self.server.cookie());
        if gated == SetupProgress::More {
            return Ok(None);
        }
        self.pending_clients.remove(&n);
        let why = match gated {
            SetupProgress::Pass(bytes) => match self.server.call() {
                Ok(socket) => {
                    self.lanes.connect(n, socket);
                    self.lanes.handle_message(n, &bytes, link)?;
                    return Ok(None);
                }
                Err(e) => format!("the display does not answer: {}", sys::reason(&e)),
            },
            SetupProgress::Refused(why) => why.to_owned(),
            SetupProgress::More => return Ok(None),
        };
        self.lanes.close(n, link);
        self.rejections_reported += 1;
        let say = self.rejections_reported <= NAMED_MAX;
        Ok(say.then(|| format!("an X11 client of the job was refused: {why}")))
    }
}
