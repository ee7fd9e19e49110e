//! The messages between the two ends of a channel, as bytes. Owns the form and its limits.
//!
//! The first byte is the kind. Stream data follows unchanged; no data means the end of the stream.
//! The data of an X11 client follows its number. Everything else is JSON with optional fields, so
//! that versions may differ.

use super::key::Cookie;
use crate::model::AttemptId;
use serde::{Deserialize, Serialize};

/// Maximum number of bytes of one stream in one message.
pub const DATA_MAX: usize = 16 << 10;
/// Maximum length of a message that is not data.
const WORDS_MAX: usize = 8 << 10;
/// Maximum length of the text of an end.
const TEXT_MAX: usize = 2 << 10;

const DATA: [u8; 3] = [b'0', b'1', b'2'];
const X_DATA: u8 = b'x';
const WORDS: u8 = b'j';

/// A stream of the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stream {
    In,
    Out,
    Err,
}

/// The size of a terminal; 0: unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Screen {
    pub rows: u16,
    pub cols: u16,
}

/// Identifies the caller; sent with the first message, encrypted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    #[serde(flatten)]
    pub a: AttemptId,
    pub host: String,
    /// The number of this program among several started together, from 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub task: u32,
}

/// What the caller needs before the program starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Welcome {
    pub screen: Screen,
    /// The cookie with which X11 clients of the program are passed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x11: Option<Cookie>,
}

/// How the program ended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Finish {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that killed it, 0: none.
    #[serde(skip_serializing_if = "is_none")]
    pub sig: i32,
    /// The reason, if there is more to say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl Finish {
    /// The exit code that a shell would show; an unknown end is never a success.
    pub fn shell_code(&self) -> Option<i32> {
        match (self.sig, self.code) {
            (sig, _) if sig > 0 => Some(128 + sig),
            (_, code) => code,
        }
    }
}

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Bytes of a stream; no bytes: its end.
    Data(Stream, Vec<u8>),
    /// The size of the terminal has changed.
    Size(Screen),
    /// Send this signal to the program.
    Signal(i32),
    /// The program has taken this many bytes of input.
    Took(u32),
    /// The caller has the key: it read the welcome.
    Begin,
    /// The program has ended, and everything that it wrote was sent before.
    End(Finish),
    /// A warning for the waiting command to display: something that the host could not do.
    Warn(String),
    X(X11Message),
}

/// Messages about the X11 clients at the host; each client has a number that is used once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum X11Message {
    /// The host has another client.
    Open(u32),
    /// Bytes from or for it; no bytes: this end has closed it. Each end closes it once.
    Data(u32, Vec<u8>),
    /// This end has passed on this many bytes.
    Took(u32, u32),
}

/// The messages that are not data.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlMessage {
    Size(Screen),
    Signal(i32),
    Took(u32),
    Begin,
    End(Finish),
    Warn(String),
    XOpen(u32),
    XTook(u32, u32),
}

impl Message {
    /// The bytes of a message. Texts that are too long are cut.
    ///
    /// # Panics
    /// If there are more than `DATA_MAX` bytes of data: the caller reads no more at a time.
    pub(super) fn encode(&self) -> Vec<u8> {
        let words = match self {
            Message::Data(stream, bytes) => {
                assert!(bytes.len() <= DATA_MAX, "{} bytes of data", bytes.len());
                let mut out = Vec::with_capacity(1 + bytes.len());
                out.push(DATA[*stream as usize]);
                out.extend_from_slice(bytes);
                return out;
            }
            Message::X(X11Message::Data(n, bytes)) => {
                assert!(bytes.len() <= DATA_MAX, "{} bytes of data", bytes.len());
                let mut out = vec![X_DATA];
                out.extend_from_slice(&n.to_be_bytes());
                out.extend_from_slice(bytes);
                return out;
            }
            Message::X(X11Message::Open(n)) => ControlMessage::XOpen(*n),
            Message::X(X11Message::Took(n, bytes)) => ControlMessage::XTook(*n, *bytes),
            Message::Warn(text) => ControlMessage::Warn(text.chars().take(TEXT_MAX / 4).collect()),
            Message::Size(screen) => ControlMessage::Size(*screen),
            Message::Signal(n) => ControlMessage::Signal(*n),
            Message::Took(n) => ControlMessage::Took(*n),
            Message::Begin => ControlMessage::Begin,
            Message::End(finish) => {
                let text = finish.text.chars().take(TEXT_MAX / 4).collect();
                ControlMessage::End(Finish {
                    text,
                    ..finish.clone()
                })
            }
        };
        let mut out = vec![WORDS];
        serde_json::to_writer(&mut out, &words).expect("plain data becomes JSON");
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is of an unknown kind, too long, or incomplete.
    pub(super) fn decode(bytes: &[u8]) -> Result<Message, String> {
        let (kind, rest) = bytes.split_first().ok_or("an empty message")?;
        if let Some(n) = DATA.iter().position(|data| data == kind) {
            if rest.len() > DATA_MAX {
                return Err(format!("{} bytes of data, at most {DATA_MAX}", rest.len()));
            }
            let stream = [Stream::In, Stream::Out, Stream::Err][n];
            return Ok(Message::Data(stream, rest.to_vec()));
        }
        if *kind == X_DATA {
            let (n, rest) = rest.split_first_chunk().ok_or("data of no client")?;
            if rest.len() > DATA_MAX {
                return Err(format!("{} bytes of data, at most {DATA_MAX}", rest.len()));
            }
            let n = u32::from_be_bytes(*n);
            return Ok(Message::X(X11Message::Data(n, rest.to_vec())));
        }
        if *kind != WORDS {
            return Err(format!("a message of unknown kind {kind}"));
        }
        if rest.len() > WORDS_MAX {
            return Err(format!("a message of {} bytes", rest.len()));
        }
        let words = serde_json::from_slice(rest).map_err(|e| e.to_string())?;
        Ok(match words {
            ControlMessage::Size(screen) => Message::Size(screen),
            ControlMessage::Signal(n) if (1..=64).contains(&n) => Message::Signal(n),
            ControlMessage::Signal(n) => return Err(format!("{n} is not a signal")),
            ControlMessage::Took(n) => Message::Took(n),
            ControlMessage::Begin => Message::Begin,
            ControlMessage::End(finish) => Message::End(finish),
            ControlMessage::Warn(text) => Message::Warn(text),
            ControlMessage::XOpen(n) => Message::X(X11Message::Open(n)),
            ControlMessage::XTook(n, bytes) => Message::X(X11Message::Took(n, bytes)),
        })
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_none(n: &i32) -> bool {
    *n == 0
}
