//! The first message of an X11 client: its byte order, its version, and its credentials. Owns their
//! form, and the rule that a client is accepted by one cookie and reaches the display with another.

use crate::channel::Cookie;

/// The only supported kind of secret.
pub(super) const NAME: &[u8] = b"MIT-MAGIC-COOKIE-1";
/// Number of bytes before name and secret.
const FIXED: usize = 12;
/// Name and secret begin at multiples of four bytes.
const NAME_ROOM: usize = NAME.len().next_multiple_of(4);
const WHOLE: usize = FIXED + NAME_ROOM + Cookie::LEN;

/// The bytes of one client until it is admitted.
pub(super) struct ClientSetup {
    fake: Cookie,
    head: Vec<u8>,
}

/// The decision about a client.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum SetupProgress {
    /// Its first message is incomplete.
    More,
    /// It is admitted; these bytes are for the display.
    Pass(Vec<u8>),
    /// It is rejected, for this reason.
    Refused(&'static str),
}

impl ClientSetup {
    /// A gate for clients with this cookie.
    pub(super) fn new(fake: Cookie) -> ClientSetup {
        let head = Vec::new();
        ClientSetup { fake, head }
    }

    /// Takes the next bytes. `real`: the cookie that the display expects; `None`: none.
    pub(super) fn take(&mut self, bytes: &[u8], real: Option<&Cookie>) -> SetupProgress {
        let (mine, rest) = bytes.split_at(bytes.len().min(WHOLE - self.head.len()));
        self.head.extend_from_slice(mine);
        let head = &self.head;
        if head.first().is_some_and(|order| !b"Bl".contains(order)) {
            return SetupProgress::Refused("it does not speak X11");
        }
        let Some(fixed) = head.first_chunk::<FIXED>() else {
            return SetupProgress::More;
        };
        let number = |at: usize| match fixed[0] {
            b'B' => u16::from_be_bytes([fixed[at], fixed[at + 1]]),
            _ => u16::from_le_bytes([fixed[at], fixed[at + 1]]),
        };
        let lens = (usize::from(number(6)), usize::from(number(8)));
        if lens != (NAME.len(), Cookie::LEN) {
            return SetupProgress::Refused("it brings no cookie");
        }
        if head.len() < WHOLE {
            return SetupProgress::More;
        }
        let name = &head[FIXED..FIXED + NAME.len()];
        if name != NAME || !self.fake.is(&head[FIXED + NAME_ROOM..]) {
            return SetupProgress::Refused("its cookie is not the one of this job");
        }
        let mut out = words(fixed[0], [fixed[2], fixed[3], fixed[4], fixed[5]], real);
        out.extend_from_slice(rest);
        SetupProgress::Pass(out)
    }
}

/// The first message of a client. `order`: B or l; `version`: in that order.
pub(super) fn words(order: u8, version: [u8; 4], cookie: Option<&Cookie>) -> Vec<u8> {
    let number = |n: usize| match order {
        b'B' => (n as u16).to_be_bytes(),
        _ => (n as u16).to_le_bytes(),
    };
    let mut out = vec![order, 0];
    out.extend_from_slice(&version);
    let lens = cookie.map_or((0, 0), |_| (NAME.len(), Cookie::LEN));
    out.extend_from_slice(&number(lens.0));
    out.extend_from_slice(&number(lens.1));
    out.resize(FIXED, 0);
    if let Some(cookie) = cookie {
        out.extend_from_slice(NAME);
        out.resize(FIXED + NAME_ROOM, 0);
        out.extend_from_slice(cookie.bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAKE: [u8; 16] = *b"0123456789abcdef";
    const REAL: [u8; 16] = *b"the display's co";

    fn gate() -> ClientSetup {
        ClientSetup::new(Cookie::new(FAKE))
    }

    fn version(order: u8) -> [u8; 4] {
        match order {
            b'B' => [0, 11, 0, 0],
            _ => [11, 0, 0, 0],
        }
    }

    fn client(order: u8, cookie: [u8; 16]) -> Vec<u8> {
        words(order, version(order), Some(&Cookie::new(cookie)))
    }

    #[test]
    fn the_cookie_is_replaced_in_both_orders_however_the_bytes_come() {
        let real = Cookie::new(REAL);
        for order in *b"Bl" {
            let sent = [client(order, FAKE), b"the first request".to_vec()].concat();
            let with = [client(order, REAL), b"the first request".to_vec()].concat();
            let mut without = vec![order, 0];
            without.extend_from_slice(&version(order));
            without.extend_from_slice(&[0; 6]);
            without.extend_from_slice(b"the first request");
            for (real, want) in [(Some(&real), with), (None, without)] {
                for cut in 0..=sent.len() {
                    let mut gate = gate();
                    let first = gate.take(&sent[..cut], real);
                    let progress = match first {
                        SetupProgress::More => gate.take(&sent[cut..], real),
                        SetupProgress::Pass(mut bytes) => {
                            bytes.extend_from_slice(&sent[cut..]);
                            SetupProgress::Pass(bytes)
                        }
                        SetupProgress::Refused(why) => panic!("at byte {cut}: {why}"),
                    };
                    assert_eq!(progress, SetupProgress::Pass(want.clone()), "at byte {cut}");
                }
            }
        }
        // As in the protocol, bytes counted by hand.
        let greeting = client(b'l', FAKE);
        assert_eq!(greeting[..12], [b'l', 0, 11, 0, 0, 0, 18, 0, 16, 0, 0, 0]);
        assert_eq!((greeting.len(), greeting[30], greeting[31]), (48, 0, 0));
        assert_eq!(client(b'B', FAKE)[6..10], [0, 18, 0, 16]);
    }

    #[test]
    fn who_brings_anything_else_is_refused() {
        let real = Cookie::new(REAL);
        for order in *b"Bl" {
            let good = client(order, FAKE);
            for at in 12..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 1;
                let padding = (30..32).contains(&at);
                let passed = matches!(gate().take(&bad, Some(&real)), SetupProgress::Pass(_));
                assert_eq!(passed, padding, "byte {at}");
            }
            let cases = [
                client(order, REAL),
                words(order, version(order), None),
                // Lengths that are longer or shorter, or in the other order.
                [&good[..6], &[255, 255, 255, 255], &good[10..]].concat(),
                [
                    &good[..6],
                    &[good[7], good[6], good[9], good[8]],
                    &good[10..],
                ]
                .concat(),
                [&good[..8], &[15, 15], &good[10..]].concat(),
                b"GET / HTTP/1.0\r\n\r\n".to_vec(),
                vec![0],
            ];
            for bad in cases {
                let progress = gate().take(&bad, Some(&real));
                assert!(matches!(progress, SetupProgress::Refused(_)), "{bad:?}");
            }
        }
        // Rejected as early as possible, but not before a wrong byte has arrived.
        let mut gate = gate();
        assert_eq!(
            gate.take(&client(b'l', FAKE)[..47], Some(&real)),
            SetupProgress::More
        );
        assert_eq!(gate.take(b"", Some(&real)), SetupProgress::More);
        assert!(matches!(
            gate.take(b"?", Some(&real)),
            SetupProgress::Refused(_)
        ));
    }
}
