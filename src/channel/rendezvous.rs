//! The two small files by which the ends of a channel find each other: the address and key of the
//! waiting command, and the message of a host that cannot reach it. Owns their form and limits.

use super::key::Key;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Maximum size of such a file in bytes.
pub const RENDEZVOUS_MAX: u64 = 8 << 10;
/// Maximum number of addresses of one waiting command.
pub const ADDRESSES_MAX: usize = 6;
/// Maximum length of a host's text.
const WHY_MAX: usize = 500;
/// Version of both files.
const VERSION: u32 = 1;

/// Where the waiting command listens, and the key of its channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendezvous {
    /// The addresses, in the order in which they are tried.
    pub addresses: Vec<SocketAddr>,
    pub key: Key,
}

#[derive(Serialize, Deserialize)]
struct RendezvousFile {
    v: u32,
    at: Vec<SocketAddr>,
    key: String,
}

impl Rendezvous {
    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let file = RendezvousFile {
            v: VERSION,
            at: self.addresses.iter().take(ADDRESSES_MAX).copied().collect(),
            key: self.key.to_hex(),
        };
        serde_json::to_vec(&file).expect("plain data becomes JSON")
    }

    /// Reads the content of the file.
    ///
    /// # Errors
    /// This version does not understand it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Rendezvous, String> {
        let file: RendezvousFile = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if file.v != VERSION {
            return Err(format!("version {} is not supported", file.v));
        }
        let mut addresses = file.at;
        addresses.truncate(ADDRESSES_MAX);
        let key = Key::from_hex(&file.key).ok_or("its key is not 64 hexadecimal digits")?;
        Ok(Rendezvous { addresses, key })
    }
}

/// The report of a host that could not reach the waiting command.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectFailure {
    pub host: String,
    pub why: String,
}

impl ConnectFailure {
    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let cut = ConnectFailure {
            host: self.host.clone(),
            why: self.why.chars().take(WHY_MAX).collect(),
        };
        serde_json::to_vec(&cut).expect("plain data becomes JSON")
    }

    /// Reads the content of the file; `None` while it is empty or incomplete.
    pub fn from_bytes(bytes: &[u8]) -> Option<ConnectFailure> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_read_back_and_nothing_else_does() {
        let one = Rendezvous {
            addresses: vec![
                "10.0.0.1:4711".parse().unwrap(),
                "[::1]:4711".parse().unwrap(),
            ],
            key: Key::new([7; 32]),
        };
        assert_eq!(Rendezvous::from_bytes(&one.to_bytes()), Ok(one.clone()));
        let many = Rendezvous {
            addresses: vec![one.addresses[0]; 50],
            ..one
        };
        let read = Rendezvous::from_bytes(&many.to_bytes()).unwrap();
        assert_eq!(read.addresses.len(), ADDRESSES_MAX);
        assert!(many.to_bytes().len() < RENDEZVOUS_MAX as usize);
        for bad in [
            "",
            "{}",
            r#"{"v":2,"at":[],"key":""}"#,
            r#"{"v":1,"at":[],"key":"00"}"#,
            r#"{"v":1,"at":["x"],"key":""}"#,
        ] {
            assert!(Rendezvous::from_bytes(bad.as_bytes()).is_err(), "{bad}");
        }
        let word = ConnectFailure {
            host: "h1".into(),
            why: "x".repeat(9_000),
        };
        let read = ConnectFailure::from_bytes(&word.to_bytes()).unwrap();
        assert_eq!((read.host.as_str(), read.why.len()), ("h1", WHY_MAX));
        assert_eq!(ConnectFailure::from_bytes(b""), None);
    }
}
