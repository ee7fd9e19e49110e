//! The protocol between the HTTP process and the broker, byte by byte.
//!
//! A message on the control socket contains the request, in at most [`ASK_MAX`] bytes, and brings
//! one socket for the answer. The content of a call follows on that socket as a frame: four bytes
//! of length, lowest first, then JSON. The broker itself never reads a frame: the process that has
//! become the user does.

use corral::sys;
use corral::sys::descriptors::{self, Message};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::path::Path;
use zeroize::Zeroizing;

/// Largest message on the control socket, bytes.
pub const ASK_MAX: usize = 1024;
/// Maximum size of a frame: a script of 1 MiB with its environment, where JSON may double every
/// byte.
pub const FRAME_MAX: usize = 24 << 20;
/// Maximum length of a secret, bytes.
pub const SECRET_MAX: usize = 160;
/// Maximum length of a user name and of a password, bytes.
pub const USER_MAX: usize = 128;
pub const PASSWORD_MAX: usize = 512;

/// A request of the HTTP process to the broker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum BrokerRequest {
    /// The HTTP process listens and answers.
    Ready {},
    /// Use up this login link and begin a session.
    LogIn { link: String },
    /// Have PAM check a password, which follows on the socket, and begin a session.
    Password { user: String, from: Option<IpAddr> },
    /// Let a process become this user, if `proof` is a session or a token of the user. A frame with
    /// the call follows.
    Act { uid: u32, proof: String },
    /// Let a process become this user and run while the socket is open, for something with which
    /// the user communicates; `proof` is a session of the user. A frame with the call follows.
    Attend { uid: u32, proof: String },
    /// Report whether this session may continue; it counts as used.
    GoOn { session: String },
    /// End this session.
    End { session: String },
}

/// The answer to a login: a session that the broker has begun; `None` if the link is not valid.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    pub uid: u32,
    pub name: String,
    /// The secret of the new session.
    pub session: String,
}

/// The result of a login by password.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PasswordResult {
    Begun(NewSession),
    /// User or password is wrong, or the password did not arrive.
    Wrong,
    /// Not checked: this many seconds must pass first.
    Wait(u64),
    /// The password is right, but the login is refused.
    Refused(PasswordRefusal),
    /// Not checked: passwords cannot be checked here now, or too many are being checked.
    Unchecked,
    Busy,
}

/// Why a login with the right password is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PasswordRefusal {
    PasswordExpired,
    AccountExpired,
    Denied,
}

/// Parses a message of the HTTP process; `None`: invalid.
pub fn parse_request(bytes: &[u8]) -> Option<BrokerRequest> {
    if bytes.len() > ASK_MAX {
        return None;
    }
    let ask: BrokerRequest = serde_json::from_slice(bytes).ok()?;
    let secret = match &ask {
        BrokerRequest::Ready {} => return Some(ask),
        BrokerRequest::Password { user, .. } => return is_user(user).then_some(ask),
        BrokerRequest::LogIn { link: secret }
        | BrokerRequest::Act { proof: secret, .. }
        | BrokerRequest::Attend { proof: secret, .. }
        | BrokerRequest::GoOn { session: secret }
        | BrokerRequest::End { session: secret } => secret,
    };
    is_secret(secret).then_some(ask)
}

/// Whether a text can be a secret: the broker looks up no other text.
pub fn is_secret(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    !text.is_empty() && text.len() <= SECRET_MAX && text.bytes().all(is_plain)
}

/// Whether a text can be the name of a user: PAM gets no other text.
pub fn is_user(text: &str) -> bool {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || "/:\"'`$*?<>|;&()".contains(c);
    let is_short = !text.is_empty() && text.len() <= USER_MAX;
    is_short && !text.starts_with(['-', '.', '+']) && !text.contains(is_odd)
}

/// Sends a password over the socket of its request.
///
/// # Errors
/// The password is too long, or is not read in time.
pub fn send_password(socket: &File, password: &str) -> sys::Result<()> {
    let wrong = |why: String| sys::Error::invalid("send", Path::new("a password"), why);
    if password.len() > PASSWORD_MAX {
        return Err(wrong(format!("it has more than {PASSWORD_MAX} bytes")));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(4 + PASSWORD_MAX));
    bytes.extend_from_slice(&(password.len() as u32).to_le_bytes());
    bytes.extend_from_slice(password.as_bytes());
    // A few bytes into an empty socket never wait for a reader.
    descriptors::send(socket, &bytes, None, false)
}

/// Receives the password over the socket of a request.
///
/// # Errors
/// The password does not arrive completely and in time, or is too long.
pub fn receive_password(socket: &File) -> sys::Result<Zeroizing<Vec<u8>>> {
    let wrong = |why: String| sys::Error::invalid("receive", Path::new("a password"), why);
    let mut from = socket;
    let mut head = [0u8; 4];
    from.read_exact(&mut head)
        .map_err(|e| wrong(e.to_string()))?;
    let len = u32::from_le_bytes(head) as usize;
    if len > PASSWORD_MAX {
        return Err(wrong(format!("{len} bytes were announced")));
    }
    let mut bytes = Zeroizing::new(vec![0u8; len]);
    from.read_exact(&mut bytes)
        .map_err(|e| wrong(e.to_string()))?;
    Ok(bytes)
}

/// Encodes a value as a frame.
///
/// # Errors
/// The value is larger than [`FRAME_MAX`].
pub fn frame<T: Serialize>(value: &T) -> sys::Result<Vec<u8>> {
    let mut out = vec![0; 4];
    let wrong = |why: String| sys::Error::invalid("write", Path::new("a frame"), why);
    serde_json::to_writer(&mut out, value).map_err(|e| wrong(e.to_string()))?;
    let len = out.len() - 4;
    if len > FRAME_MAX {
        return Err(wrong(format!("it has {len} bytes, more than {FRAME_MAX}")));
    }
    out[..4].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(out)
}

/// Sends a value as a frame over the socket of a call, with a descriptor.
///
/// # Errors
/// The value is too large, or is not read in time.
pub fn send<T: Serialize>(socket: &File, value: &T, with: Option<&File>) -> sys::Result<()> {
    let bytes = frame(value)?;
    // The descriptor is sent with the length, so that it arrives before the end of the frame.
    descriptors::send(socket, &bytes[..4], with, true)?;
    let mut to = socket;
    let sent = to.write_all(&bytes[4..]);
    sent.map_err(|e| sys::Error::invalid("send", Path::new("a frame"), e.to_string()))
}

/// Receives a frame over the socket of a call, and the descriptor that came with it.
///
/// # Errors
/// The frame does not arrive completely and in time, is too large, or is not a value of this type.
pub fn receive<T: DeserializeOwned>(socket: &File) -> sys::Result<(T, Option<File>)> {
    let wrong = |why: String| sys::Error::invalid("receive", Path::new("a frame"), why);
    let (mut head, mut with) = (Vec::new(), None);
    while head.len() < 4 {
        let Some(Message {
            bytes, descriptor, ..
        }) = descriptors::receive(socket, 4 - head.len())?
        else {
            return Err(wrong("the other side has closed".to_owned()));
        };
        head.extend_from_slice(&bytes);
        with = with.or(descriptor);
    }
    let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if len > FRAME_MAX {
        return Err(wrong(format!(
            "{len} bytes were announced, more than {FRAME_MAX}"
        )));
    }
    let mut bytes = Vec::new();
    let mut from = socket.take(len as u64);
    let read = from.read_to_end(&mut bytes);
    read.map_err(|e| wrong(e.to_string()))?;
    if bytes.len() < len {
        return Err(wrong("it is cut off".to_owned()));
    }
    let value = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
    Ok((value, with))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_come_back_as_they_were() {
        let secret = || "1000-ab".to_owned();
        for ask in [
            BrokerRequest::Ready {},
            BrokerRequest::LogIn { link: secret() },
            BrokerRequest::Password {
                user: "alice@example.org".to_owned(),
                from: "2001:db8::1".parse().ok(),
            },
            BrokerRequest::Password {
                user: "DOM\\用户".to_owned(),
                from: None,
            },
            BrokerRequest::Act {
                uid: 7,
                proof: secret(),
            },
            BrokerRequest::Attend {
                uid: 7,
                proof: secret(),
            },
            BrokerRequest::GoOn { session: secret() },
            BrokerRequest::End { session: secret() },
        ] {
            let bytes = serde_json::to_vec(&ask).unwrap();
            assert_eq!(parse_request(&bytes), Some(ask));
        }
    }

    #[test]
    fn garbage_is_no_ask() {
        let long = format!(
            r#"{{"ask":"go_on","session":"{}"}}"#,
            "a".repeat(SECRET_MAX + 1)
        );
        for bad in [
            "",
            "{}",
            "null",
            r#"{"ask":"ready","more":1}"#,
            r#"{"ask":"act","uid":-1,"proof":"a"}"#,
            r#"{"ask":"act","uid":4294967296,"proof":"a"}"#,
            r#"{"ask":"act","uid":1,"proof":""}"#,
            r#"{"ask":"act","uid":1,"proof":"../../x"}"#,
            r#"{"ask":"log_in","link":"a\u0000b"}"#,
            r#"{"ask":"password","user":"","from":null}"#,
            r#"{"ask":"password","user":"a b","from":null}"#,
            r#"{"ask":"password","user":"-a","from":null}"#,
            r#"{"ask":"password","user":"../a","from":null}"#,
            r#"{"ask":"password","user":"a\u001b[2J","from":null}"#,
            r#"{"ask":"password","user":"a","from":"proxy"}"#,
            r#"{"ask":"password","user":"a","from":null,"password":"x"}"#,
            &long,
        ] {
            assert_eq!(parse_request(bad.as_bytes()), None, "{bad}");
        }
        let padded = format!("{{\"ask\":\"ready\"}}{}", " ".repeat(ASK_MAX));
        assert_eq!(
            parse_request(padded.as_bytes()),
            None,
            "its size is bounded"
        );
    }

    #[test]
    fn a_password_is_bounded_and_whole() {
        let (a, b) = sys::ipc::pair().unwrap();
        send_password(&a, "pä ss").unwrap();
        assert_eq!(receive_password(&b).unwrap().as_slice(), "pä ss".as_bytes());
        assert!(send_password(&a, &"x".repeat(PASSWORD_MAX + 1)).is_err());
        for bad in [&[1u8, 0, 0][..], &[5, 0, 0, 0, b'a'], &[255; 8]] {
            let (a, b) = sys::ipc::pair().unwrap();
            (&a).write_all(bad).unwrap();
            drop(a);
            assert!(receive_password(&b).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_frame_that_lies_about_its_length_is_refused() {
        let send_raw = |bytes: &[u8]| {
            let (a, b) = sys::ipc::pair().unwrap();
            (&a).write_all(bytes).unwrap();
            drop(a);
            receive::<String>(&b).unwrap_err().to_string()
        };
        assert!(send_raw(&[]).contains("closed"));
        assert!(send_raw(&[1, 0]).contains("closed"));
        assert!(send_raw(&[9, 0, 0, 0, b'"']).contains("cut off"));
        assert!(send_raw(&[255; 8]).contains("more than"));
        assert!(send_raw(&[1, 0, 0, 0, b'{']).contains("receive"));
        let (a, b) = sys::ipc::pair().unwrap();
        send(&a, &"text", Some(&b)).unwrap();
        let (text, with) = receive::<String>(&b).unwrap();
        assert!(text == "text" && with.is_some());
    }
}
