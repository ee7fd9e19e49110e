//! One end of a channel: the handshake, then messages in both directions, each a frame.
//!
//! The pattern is NNpsk0 of the Noise protocol framework: no long-lived keys, one key that both
//! ends know in advance. Without the key it is impossible to connect or to read. A recording of one
//! channel does not open another, because both ends contribute new data to each. A frame is its
//! length (2 bytes, high byte first) followed by that many encrypted bytes.

use super::key::Key;
use super::message::{Hello, Message, Welcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::{Builder, HandshakeState, TransportState};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// Number of bytes of an encrypted message beside its text.
const SEAL: usize = 16;
/// Number of bytes of a handshake message's public key, beside its text.
const PUBLIC: usize = 32;
/// Maximum length of a text in the handshake.
const GREETING_MAX: usize = 4 << 10;
/// Maximum length of a frame.
const FRAME_MAX: usize = 24 << 10;
/// Maximum number of bytes that are received before they are decoded.
const TAKEN_MAX: usize = 256 << 10;

/// Why a channel is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelError {
    /// The other end does not have the key, or bytes were changed on their way.
    Refused,
    /// The other end sent something that this version does not understand.
    Corrupt,
    /// A frame exceeds the maximum length.
    TooLong,
    /// The other end disappeared in the middle of a frame.
    Truncated,
}

impl std::fmt::Display for ChannelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ChannelError::Refused => "the other end does not have the key",
            ChannelError::Corrupt => {
                "the other end sent a message that this version does not \
                understand"
            }
            ChannelError::TooLong => "the other end sent a frame that is too long",
            ChannelError::Truncated => "the connection ended in the middle of a message",
        })
    }
}

impl std::error::Error for ChannelError {}

enum State {
    /// The caller waits for the welcome; the called end waits for the call, or for its own answer.
    Greeting(Box<HandshakeState>),
    Open(Box<TransportState>),
    /// It failed: nothing more is decoded or sent.
    Failed(ChannelError),
}

/// One end of a channel.
pub struct Link {
    state: State,
    /// Bytes that were received and are not decoded yet.
    received: Vec<u8>,
    /// Bytes that are to be sent.
    outgoing: Vec<u8>,
    hello: Option<Hello>,
    welcome: Option<Welcome>,
    /// The called end knows that the caller has the key.
    proven: bool,
}

impl Link {
    /// The end that calls. `about` names the channel; both ends must know the same.
    pub fn caller(key: &Key, about: &str, hello: &Hello) -> Link {
        let mut link = Link::new(key, about, true);
        if let State::Greeting(noise) = &mut link.state {
            let frame = greeting(noise, hello);
            push_frame(&mut link.outgoing, &frame);
        }
        link
    }

    /// The end that is called.
    pub fn accepting_end(key: &Key, about: &str) -> Link {
        Link::new(key, about, false)
    }

    fn new(key: &Key, about: &str, calls: bool) -> Link {
        let params = PATTERN.parse().expect("a pattern that is known");
        let builder = Builder::new(params)
            .prologue(about.as_bytes())
            .and_then(|b| b.psk(0, key.bytes()))
            .expect("each is set once");
        let noise = match calls {
            true => builder.build_initiator(),
            false => builder.build_responder(),
        };
        Link {
            state: State::Greeting(Box::new(noise.expect("the pattern needs nothing else"))),
            received: Vec::new(),
            outgoing: Vec::new(),
            hello: None,
            welcome: None,
            proven: false,
        }
    }

    /// Takes received bytes. The amount that is not decoded yet is limited: call `next_message`
    /// until it returns nothing more, before passing the next bytes.
    ///
    /// # Errors
    /// There are too many bytes.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        if self.received.len() + bytes.len() > TAKEN_MAX {
            return Err(self.fail(ChannelError::TooLong));
        }
        self.received.extend_from_slice(bytes);
        Ok(())
    }

    /// The caller's greeting, once it has arrived: the sender has the key, or has recorded the
    /// greeting of another caller.
    ///
    /// # Errors
    /// It was not created with this key.
    pub fn hello(&mut self) -> Result<Option<&Hello>, ChannelError> {
        if self.hello.is_none()
            && let Some(frame) = self.take_frame()?
        {
            self.hello = Some(self.read_greeting(&frame)?);
        }
        Ok(self.hello.as_ref())
    }

    /// Answers the caller: messages follow.
    ///
    /// # Errors
    /// The channel is over.
    pub fn welcome(&mut self, words: &Welcome) -> Result<(), ChannelError> {
        if let State::Greeting(noise) = &mut self.state {
            let frame = greeting(noise, words);
            push_frame(&mut self.outgoing, &frame);
        }
        self.open()
    }

    /// The called end's greeting, once it has arrived. From then on messages are sent in both
    /// directions.
    ///
    /// # Errors
    /// It was not created with this key.
    pub fn welcomed(&mut self) -> Result<Option<Welcome>, ChannelError> {
        if self.welcome.is_none()
            && let Some(frame) = self.take_frame()?
        {
            self.welcome = Some(self.read_greeting(&frame)?);
            self.open()?;
            self.send(&Message::Begin);
        }
        Ok(self.welcome)
    }

    /// The next complete message.
    ///
    /// # Errors
    /// The bytes were not created by the other end, or cannot be decoded. The channel is then over.
    pub fn next_message(&mut self) -> Result<Option<Message>, ChannelError> {
        if !matches!(self.state, State::Open(_)) {
            return match self.state {
                State::Failed(e) => Err(e),
                _ => Ok(None),
            };
        }
        let Some(frame) = self.take_frame()? else {
            return Ok(None);
        };
        let State::Open(noise) = &mut self.state else {
            return Ok(None);
        };
        let mut text = vec![0; frame.len()];
        let Ok(n) = noise.read_message(&frame, &mut text) else {
            return Err(self.fail(ChannelError::Refused));
        };
        self.proven = true;
        match Message::decode(&text[..n]) {
            Ok(message) => Ok(Some(message)),
            Err(_) => Err(self.fail(ChannelError::Corrupt)),
        }
    }

    /// Whether the called end knows that this caller has the key, and did not only record the
    /// greeting of another caller.
    pub fn peer_has_key(&self) -> bool {
        self.proven
    }

    /// Adds a message to those to be sent. Before the handshake is complete, or after a failure, it
    /// is lost: there is no other end that could read it.
    pub fn send(&mut self, message: &Message) {
        let State::Open(noise) = &mut self.state else {
            return;
        };
        let text = message.encode();
        let mut frame = vec![0; text.len() + SEAL];
        match noise.write_message(&text, &mut frame) {
            Ok(n) => push_frame(&mut self.outgoing, &frame[..n]),
            // Sending fails after 2^64 messages.
            Err(_) => self.state = State::Failed(ChannelError::TooLong),
        }
    }

    /// The bytes to be sent.
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// Notes that `n` bytes of it were sent.
    pub fn sent(&mut self, n: usize) {
        self.outgoing.drain(..n);
    }

    /// Handles the end of the connection: the other end sends nothing more.
    ///
    /// # Errors
    /// It was in the middle of a message.
    pub fn closed(&self) -> Result<(), ChannelError> {
        match (&self.state, self.received.is_empty()) {
            (State::Failed(e), _) => Err(*e),
            (_, true) => Ok(()),
            (_, false) => Err(ChannelError::Truncated),
        }
    }

    fn open(&mut self) -> Result<(), ChannelError> {
        let state = std::mem::replace(&mut self.state, State::Failed(ChannelError::Corrupt));
        self.state = match state {
            State::Greeting(noise) => match noise.into_transport_mode() {
                Ok(open) => State::Open(Box::new(open)),
                // A welcome arrived before a call.
                Err(_) => return Err(ChannelError::Corrupt),
            },
            other => other,
        };
        match self.state {
            State::Failed(e) => Err(e),
            _ => Ok(()),
        }
    }

    fn fail(&mut self, e: ChannelError) -> ChannelError {
        self.received.clear();
        self.state = State::Failed(e);
        e
    }

    /// The encrypted bytes of the next complete frame.
    fn take_frame(&mut self) -> Result<Option<Vec<u8>>, ChannelError> {
        let most = match self.state {
            State::Failed(e) => return Err(e),
            State::Greeting(_) => GREETING_MAX + PUBLIC + SEAL,
            State::Open(_) => FRAME_MAX,
        };
        let Some(head) = self.received.get(..2) else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes([head[0], head[1]]));
        if len > most {
            return Err(self.fail(ChannelError::TooLong));
        }
        if self.received.len() < 2 + len {
            return Ok(None);
        }
        let frame = self.received[2..2 + len].to_vec();
        self.received.drain(..2 + len);
        Ok(Some(frame))
    }

    fn read_greeting<T: DeserializeOwned>(&mut self, frame: &[u8]) -> Result<T, ChannelError> {
        let State::Greeting(noise) = &mut self.state else {
            return Err(self.fail(ChannelError::Corrupt));
        };
        let mut text = vec![0; frame.len()];
        match noise.read_message(frame, &mut text) {
            Err(_) => Err(self.fail(ChannelError::Refused)),
            Ok(n) => match serde_json::from_slice(&text[..n]) {
                Ok(words) => Ok(words),
                Err(_) => Err(self.fail(ChannelError::Corrupt)),
            },
        }
    }
}

/// A message of the handshake.
fn greeting<T: Serialize>(noise: &mut HandshakeState, words: &T) -> Vec<u8> {
    let mut text = serde_json::to_vec(words).expect("plain data becomes JSON");
    if text.len() > GREETING_MAX {
        text = b"{}".to_vec();
    }
    let mut frame = vec![0; text.len() + PUBLIC + SEAL];
    let n = noise
        .write_message(&text, &mut frame)
        .expect("it is this end's turn, and the room is enough");
    frame.truncate(n);
    frame
}

fn push_frame(out: &mut Vec<u8>, frame: &[u8]) {
    let len = u16::try_from(frame.len()).expect("no message is as long");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(frame);
}
