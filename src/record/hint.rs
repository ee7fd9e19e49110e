//! Hints: datagrams that say "look" and at what. They transfer no state: a receiver looks at the
//! share and trusts only the data there. A lost hint costs one polling interval, a forged one costs
//! a look.
//!
//! Each hint contains a tag that its receiver chose at random and published on the share, so that a
//! hint from outside the cluster, or for a process that used the port before, is dropped unread.

use crate::model::Token;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// Size of a hint in bytes.
pub const LEN: usize = 40;
const MAGIC: &[u8; 8] = b"CBhint1\n";
/// Maximum number of addresses of one receiver, and maximum length of their text in characters.
pub const ADDRESSES_MAX: usize = 3;
const TEXT_MAX: usize = 180;

/// What to look at. `number`: the same hint is sent to each address of its receiver, which looks
/// once for hints with one number. Versions without numbers send 0, which is never a repetition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hint {
    /// To the leader: the drop box of this user, who waits for the answer to this token.
    DropBox { uid: u32, token: Token },
    /// To the leader: the reports of the host whose name has this [`tag_of`].
    Reports { host: u64, number: u32 },
    /// To a host: its orders.
    Orders { number: u32 },
    /// To a host: requests of users for it in their drop boxes.
    Launches { number: u32 },
    /// To a command: the answer to its token.
    Acks { token: Token },
}

/// Encodes a hint for the receiver with this tag.
pub fn encode(tag: u64, what: Hint) -> [u8; LEN] {
    let (kind, uid, value) = match what {
        Hint::DropBox { uid, token } => (1u32, uid, token.0),
        Hint::Reports { host, number } => (2, number, u128::from(host)),
        Hint::Orders { number } => (3, number, 0),
        Hint::Acks { token } => (4, 0, token.0),
        Hint::Launches { number } => (5, number, 0),
    };
    let mut out = [0u8; LEN];
    out[..8].copy_from_slice(MAGIC);
    out[8..16].copy_from_slice(&tag.to_le_bytes());
    out[16..20].copy_from_slice(&kind.to_le_bytes());
    out[20..24].copy_from_slice(&uid.to_le_bytes());
    out[24..].copy_from_slice(&value.to_le_bytes());
    out
}

/// Reads a hint; `None`: it is not a hint, or not for the receiver with this tag.
pub fn decode(bytes: &[u8], tag: u64) -> Option<Hint> {
    let bytes: &[u8; LEN] = bytes.try_into().ok()?;
    let number = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes).ok();
    let value = u128::from_le_bytes(bytes[24..].try_into().ok()?);
    if &bytes[..8] != MAGIC || bytes[8..16] != tag.to_le_bytes() {
        return None;
    }
    match number(16)? {
        1 => Some(Hint::DropBox {
            uid: number(20)?,
            token: Token(value),
        }),
        2 => Some(Hint::Reports {
            host: u64::try_from(value).ok()?,
            number: number(20)?,
        }),
        3 => Some(Hint::Orders {
            number: number(20)?,
        }),
        4 => Some(Hint::Acks {
            token: Token(value),
        }),
        5 => Some(Hint::Launches {
            number: number(20)?,
        }),
        _ => None,
    }
}

/// The last numbers of hints, by sender or kind.
#[derive(Debug, Default)]
pub struct HintNumbers(BTreeMap<u64, u32>);

/// Maximum number of senders whose last number is remembered.
const SENDERS_MAX: usize = 16_384;

impl HintNumbers {
    /// Whether a hint of this sender has the same number as the last one: it was then sent to
    /// another of the receiver's addresses.
    pub fn is_repeated(&mut self, of: u64, number: u32) -> bool {
        if self.0.len() >= SENDERS_MAX && !self.0.contains_key(&of) {
            self.0.clear();
        }
        self.0.insert(of, number) == Some(number) && number != 0
    }
}

/// A short number for a name (FNV-1a). Two names may share one; then both are looked at.
pub fn tag_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The tag of a command that waits for the answer to a token.
pub fn tag_of_token(token: Token) -> u64 {
    (token.0 >> 64) as u64 ^ token.0 as u64
}

/// Where a process receives hints, as published on the share.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Endpoint {
    pub tag: u64,
    /// Addresses of the same socket on its machine; a sender tries all.
    pub addresses: Vec<SocketAddr>,
}

impl Endpoint {
    /// Reads the text of a file; `None` if it is empty or not an endpoint.
    pub fn parse(text: &str) -> Option<Endpoint> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let mut words = text.split(' ');
        let tag = u64::from_str_radix(words.next()?, 16).ok()?;
        let addresses = words.map(SocketAddr::from_str).take(ADDRESSES_MAX);
        let addresses = addresses.collect::<Result<Vec<_>, _>>().ok()?;
        (!addresses.is_empty()).then_some(Endpoint { tag, addresses })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.tag)?;
        let few = self.addresses.iter().take(ADDRESSES_MAX);
        few.into_iter().try_for_each(|a| write!(f, " {a}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_come_back_as_they_were_and_only_to_their_receiver() {
        let token = Token(u128::MAX - 5);
        for what in [
            Hint::DropBox { uid: 1001, token },
            Hint::Reports {
                host: tag_of("node17"),
                number: 5,
            },
            Hint::Orders { number: 6 },
            Hint::Launches { number: 7 },
            Hint::Acks { token },
        ] {
            let bytes = encode(7, what);
            assert_eq!(decode(&bytes, 7), Some(what));
            assert_eq!(decode(&bytes, 8), None);
            assert_eq!(decode(&bytes[1..], 7), None);
            assert_eq!(decode(&[&bytes[..], b"x"].concat(), 7), None);
        }
        let mut bytes = encode(7, Hint::Orders { number: 0 });
        bytes[16] = 9;
        assert_eq!(decode(&bytes, 7), None);
        assert_eq!(decode(b"", 0), None);
    }

    #[test]
    fn a_hint_that_comes_by_two_addresses_counts_once() {
        let mut numbers = HintNumbers::default();
        let seen = [(1, 5), (1, 5), (2, 5), (1, 6), (1, 5), (3, 0), (3, 0)];
        let repeated = seen.map(|(of, number)| numbers.is_repeated(of, number));
        assert_eq!(repeated, [false, true, false, false, false, false, false]);
    }

    #[test]
    fn endpoints_come_back_and_damaged_ones_are_none() {
        let text = "00000000000000ff 10.99.0.1:40000 [fd00::1]:40000";
        let endpoint = Endpoint::parse(text).unwrap();
        assert_eq!((endpoint.tag, endpoint.addresses.len()), (255, 2));
        assert_eq!(endpoint.to_string(), text);
        for bad in ["", "ff", "x 10.0.0.1:1", "ff host:1", "ff 10.0.0.1"] {
            assert_eq!(Endpoint::parse(bad), None, "{bad}");
        }
        let many = format!("ff{}", " 10.0.0.1:1".repeat(100));
        assert_eq!(Endpoint::parse(&many), None);
        assert_ne!(tag_of("node1"), tag_of("node2"));
    }
}
