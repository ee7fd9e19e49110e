//! Addresses of hosts and networks: `192.0.2.7`, `10.1.0.0/16`, `2001:db8::/32`.
//!
//! Owns their text and whether an address belongs to one. Looks up no names.

use super::error::ParseError;
use std::fmt;
use std::net::IpAddr;

/// An address, or all addresses with the same leading bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    /// The remaining bits are 0.
    address: IpAddr,
    /// The number of significant bits: 32 or 128 for a single address.
    bits: u8,
}

impl Net {
    /// Parses an address or network.
    ///
    /// # Errors
    /// The text is neither, has bits set after the significant ones, or would match all addresses.
    pub fn parse(text: &str) -> Result<Net, ParseError> {
        let (head, tail) = match text.split_once('/') {
            Some((head, tail)) => (head, Some(tail)),
            None => (text, None),
        };
        let Ok(address) = head.parse::<IpAddr>() else {
            let message = format!("{head:?} is not the address of a host or net");
            let hint = "write 192.0.2.7, 10.1.0.0/16 or 2001:db8::/32; names are not looked up";
            return Err(ParseError::new(0, head.len(), message).hint(hint));
        };
        let most = width(address);
        let bits = match tail {
            None => most,
            Some(tail) => {
                let bits = tail.parse::<u8>().ok();
                let is_plain = tail.bytes().all(|b| b.is_ascii_digit());
                match bits.filter(|bits| is_plain && (1..=most).contains(bits)) {
                    Some(bits) => bits,
                    None => {
                        let message = format!("/{tail}: the number of bits is 1 to {most}");
                        let hint = "list the networks; all addresses at once are not allowed";
                        let at = head.len() + 1;
                        return Err(ParseError::new(at, tail.len(), message).hint(hint));
                    }
                }
            }
        };
        let net = Net {
            address: first_of(address, bits),
            bits,
        };
        if net.address != address {
            let message = format!("{text} has bits after its first {bits}");
            let hint = format!("write {net}");
            return Err(ParseError::new(0, head.len(), message).hint(hint));
        }
        Ok(net)
    }

    /// Whether an address belongs to it; an IPv4 address may be written as one of IPv6.
    pub fn has(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        width(address) == width(self.address) && first_of(address, self.bits) == self.address
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with all bits after the first `bits` cleared.
fn first_of(address: IpAddr, bits: u8) -> IpAddr {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits == width(self.address) {
            true => write!(f, "{}", self.address),
            false => write!(f, "{}/{}", self.address, self.bits),
        }
    }
}

super::serde_by_text!(Net, Net::parse);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_net_has_the_addresses_that_begin_as_it_does() {
        let has = |net: &str, address: &str| {
            let parsed = Net::parse(net).unwrap();
            assert_eq!(parsed.to_string(), net);
            parsed.has(address.parse().unwrap())
        };
        assert!(has("192.0.2.7", "192.0.2.7") && has("192.0.2.7", "::ffff:192.0.2.7"));
        assert!(!has("192.0.2.7", "192.0.2.6"));
        assert!(has("10.1.0.0/16", "10.1.255.255") && !has("10.1.0.0/16", "10.2.0.0"));
        assert!(has("128.0.0.0/1", "255.0.0.0") && !has("128.0.0.0/1", "127.0.0.1"));
        assert!(has("2001:db8::/32", "2001:db8:f::1") && !has("2001:db8::/32", "2001:db9::1"));
        assert!(has("::1", "::1") && !has("::1", "127.0.0.1") && !has("10.0.0.0/8", "::a00:1"));
    }

    #[test]
    fn what_is_none_is_refused_where_it_is_wrong() {
        for (text, at) in [
            ("", 0),
            ("proxy.example.org", 0),
            ("10.1.0.1/16", 0),
            ("10.0.0.0/0", 9),
            ("10.0.0.0/33", 9),
            ("10.0.0.0/+8", 9),
            ("10.0.0.0/", 9),
            ("::/0", 3),
            ("1.2.3", 0),
            ("10.0.0.1:80", 0),
        ] {
            let e = Net::parse(text).unwrap_err();
            assert_eq!(e.at, at, "{text}: {}", e.message);
        }
    }
}
