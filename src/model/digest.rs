//! Hexadecimal text and SHA-256: the names of contents and configurations.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Bytes as lower-case hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The SHA-256 of `bytes` in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_digest_is_the_published_one() {
        let text = super::sha256_hex(b"abc");
        assert!(text.starts_with("ba7816bf8f01cfea") && text.len() == 64);
    }
}
