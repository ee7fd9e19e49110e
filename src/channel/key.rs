//! The secrets of one channel: its key, and the cookie of a display whose windows use the channel.
//! Owns their form; never shows them in a message.

use crate::model::hex;
use serde::{Deserialize, Serialize};

/// 32 random bytes that open one channel once.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of these random bytes.
    pub fn new(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// The form in which it is stored in a file: 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// The inverse of `to_hex`; `None` for any other text.
    pub fn from_hex(text: &str) -> Option<Key> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |c: u8| match c {
                b'0'..=b'9' => Some(c - b'0'),
                b'a'..=b'f' => Some(c - b'a' + 10),
                _ => None,
            };
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Key(key))
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The cookie that admits a program to an X11 display (MIT-MAGIC-COOKIE-1).
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Cookie([u8; Cookie::LEN]);

impl Cookie {
    pub const LEN: usize = 16;

    /// The cookie of these random bytes.
    pub fn new(bytes: [u8; Cookie::LEN]) -> Cookie {
        Cookie(bytes)
    }

    pub fn bytes(&self) -> &[u8; Cookie::LEN] {
        &self.0
    }

    /// Whether `bytes` are this cookie. Takes the same time for all bytes of its length.
    pub fn is(&self, bytes: &[u8]) -> bool {
        let differ = self.0.iter().zip(bytes).fold(0, |d, (a, b)| d | (a ^ b));
        std::hint::black_box(differ) == 0 && bytes.len() == Cookie::LEN
    }
}

impl PartialEq for Cookie {
    fn eq(&self, other: &Cookie) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Cookie {}

impl std::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cookie(..)")
    }
}
