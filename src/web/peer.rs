//! The origin of a request: the other end of the connection, or the client named by a trusted
//! proxy.
//!
//! Pure. The headers `Forwarded` (RFC 7239), `X-Forwarded-For`, `-Proto` and `-Host` are used only
//! if the other end is such a proxy, because any client can write them. Looks no name up.

use axum::http::HeaderMap;
use corral::text::net::Net;
use std::net::{IpAddr, SocketAddr};

/// Maximum number of proxies that a request may have passed.
const HOPS_MAX: usize = 32;

/// The other end of a connection; `None`: a socket of this host without an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Peer(pub Option<IpAddr>);

/// The origin of a request, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// The address of the caller.
    pub address: Option<IpAddr>,
    /// Whether the caller's connection to the proxy is encrypted.
    pub encrypted: bool,
    /// Names by which the proxy was called, in lower case.
    pub hosts: Vec<String>,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address {
            Some(address) => write!(f, "{address}"),
            None => f.write_str("here"),
        }
    }
}

/// The origin of a request with these headers.
///
/// # Errors
/// A trusted proxy sends contradictory headers: the caller has invented one of them.
pub fn origin(peer: Peer, trusted: &[Net], headers: &HeaderMap) -> Result<Origin, &'static str> {
    let address = peer.0.map(|address| address.to_canonical());
    let is_trusted = |address: IpAddr| trusted.iter().any(|net| net.has(address));
    let Some(proxy) = address.filter(|address| is_trusted(*address)) else {
        return Ok(Origin {
            address,
            ..Origin::default()
        });
    };
    let forwarded = elements(headers)?;
    let callers: Vec<&str> = forwarded.iter().filter_map(|e| e.of("for")).collect();
    let listed = list(headers, "x-forwarded-for");
    if callers.len().max(listed.len()) > HOPS_MAX {
        return Err("the request has passed too many proxies");
    }
    let by_element = caller(proxy, &callers, is_trusted);
    let by_list = caller(proxy, &listed, is_trusted);
    let address = match (callers.is_empty(), listed.is_empty()) {
        (true, _) => by_list,
        (false, true) => by_element,
        (false, false) if by_element == by_list => by_list,
        (false, false) => {
            return Err("the proxy's headers Forwarded and X-Forwarded-For name two callers");
        }
    };
    let protocols = forwarded.iter().filter_map(|e| e.of("proto"));
    let mut protocols = protocols.chain(list(headers, "x-forwarded-proto"));
    let hosts = forwarded.iter().filter_map(|e| e.of("host"));
    let hosts = hosts.chain(list(headers, "x-forwarded-host"));
    Ok(Origin {
        address: Some(address),
        encrypted: protocols.any(|word| word.eq_ignore_ascii_case("https")),
        hosts: hosts.map(str::to_ascii_lowercase).collect(),
    })
}

/// The last address of the path that is not a trusted proxy's. Entries before an unreadable one are
/// not trusted: then the proxy that wrote it counts as the caller.
fn caller(proxy: IpAddr, hops: &[&str], is_trusted: impl Fn(IpAddr) -> bool) -> IpAddr {
    let mut last = proxy;
    for word in hops.iter().rev() {
        let Some(address) = address_of(word) else {
            return last;
        };
        last = address;
        if !is_trusted(address) {
            return last;
        }
    }
    last
}

/// An address, with or without a port.
fn address_of(word: &str) -> Option<IpAddr> {
    let bare = word
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = bare.unwrap_or(word).parse::<IpAddr>().ok();
    let address = address.or_else(|| Some(word.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address| address.to_canonical())
}

/// The words of a header that is a list, over all its lines. A line that is not text is one empty
/// word.
fn list<'h>(headers: &'h HeaderMap, name: &str) -> Vec<&'h str> {
    let lines = headers.get_all(name).iter();
    let lines = lines.map(|line| line.to_str().unwrap_or_default());
    lines
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .collect()
}

/// What one proxy states in `Forwarded`.
#[derive(Default)]
struct Element(Vec<(String, String)>);

impl Element {
    fn of(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The elements of all headers `Forwarded`, in their order.
fn elements(headers: &HeaderMap) -> Result<Vec<Element>, &'static str> {
    const WRONG: &str = "the header Forwarded is not one";
    let mut out = Vec::new();
    for line in headers.get_all("forwarded") {
        let line = line.to_str().map_err(|_| WRONG)?;
        let mut element = Element::default();
        for (pair, ends) in pairs(line).ok_or(WRONG)? {
            if let Some((name, value)) = pair.split_once('=') {
                let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
                // A name that occurs twice is ambiguous.
                if element.of(&name).is_some() {
                    return Err(WRONG);
                }
                let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
                let plain = pair.split_once('=').map_or("", |(_, value)| value.trim());
                element.0.push((name, value.unwrap_or(plain).to_owned()));
            } else if !pair.trim().is_empty() {
                return Err(WRONG);
            }
            if ends {
                out.push(std::mem::take(&mut element));
            }
        }
        if out.len() > HOPS_MAX {
            return Err(WRONG);
        }
    }
    Ok(out)
}

/// The parts between `;` and `,` outside of quotes, and whether an element ends there.
fn pairs(line: &str) -> Option<Vec<(&str, bool)>> {
    let (mut out, mut begin, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            // Addresses and names need no escapes.
            '\\' => return None,
            ';' | ',' if !quoted => {
                out.push((&line[begin..at], c == ','));
                begin = at + 1;
            }
            _ => {}
        }
    }
    out.push((&line[begin..], true));
    (!quoted).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const PROXY: &str = "127.0.0.1";

    fn origin_of(peer: &str, headers: &[(&'static str, &str)]) -> Result<Origin, &'static str> {
        let trusted = ["127.0.0.1", "10.0.0.0/8", "::1"].map(|net| Net::parse(net).unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        origin(Peer(peer.parse().ok()), &trusted, &map)
    }

    fn address(headers: &[(&'static str, &str)]) -> String {
        origin_of(PROXY, headers).unwrap().to_string()
    }

    #[test]
    fn the_words_of_a_peer_that_is_not_trusted_are_nothing() {
        let all = [
            ("x-forwarded-for", "192.0.2.1"),
            (
                "forwarded",
                "for=192.0.2.1;proto=https;host=portal.example.org",
            ),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "portal.example.org"),
        ];
        for peer in ["192.0.2.9", "::2", "11.0.0.1"] {
            let origin = origin_of(peer, &all).unwrap();
            assert_eq!(origin.address, peer.parse().ok(), "{peer}");
            assert!(!origin.encrypted && origin.hosts.is_empty(), "{peer}");
        }
        let unknown = origin_of("", &all).unwrap();
        assert_eq!(
            (unknown.to_string().as_str(), unknown.encrypted),
            ("here", false)
        );
        // A peer may be written as an address of IPv6.
        let mapped = origin_of("::ffff:10.1.1.1", &all).unwrap();
        assert_eq!(mapped.to_string(), "192.0.2.1");
    }

    #[test]
    fn the_caller_is_the_last_one_that_is_not_a_proxy() {
        let xff = |text: &str| address(&[("x-forwarded-for", text)]);
        assert_eq!(address(&[]), PROXY);
        assert_eq!(xff("192.0.2.1"), "192.0.2.1");
        // What the caller writes comes before what the proxy adds.
        assert_eq!(xff("127.0.0.1, 192.0.2.1"), "192.0.2.1");
        assert_eq!(xff("203.0.113.5, 192.0.2.1, 10.1.1.1"), "192.0.2.1");
        assert_eq!(xff("192.0.2.1:4711"), "192.0.2.1");
        assert_eq!(xff("[2001:db8::1]:4711"), "2001:db8::1");
        assert_eq!(xff("2001:db8::1"), "2001:db8::1");
        assert_eq!(xff("10.0.0.1, 10.0.0.2"), "10.0.0.1");
        let two = [
            ("x-forwarded-for", "203.0.113.5"),
            ("x-forwarded-for", "192.0.2.1"),
        ];
        assert_eq!(address(&two), "192.0.2.1");
        for junk in ["unknown", "_hidden", "", "192.0.2.1 evil", "1.2.3"] {
            assert_eq!(xff(&format!("203.0.113.5, {junk}")), PROXY, "{junk}");
        }
        let forwarded = |text: &str| address(&[("forwarded", text)]);
        assert_eq!(forwarded("for=192.0.2.1;proto=https"), "192.0.2.1");
        assert_eq!(
            forwarded("for=203.0.113.5, For=\"[2001:db8::1]:80\";by=_x, for=10.1.1.1"),
            "2001:db8::1"
        );
        assert_eq!(
            forwarded("for=\"a,for=203.0.113.5\", for=192.0.2.1"),
            "192.0.2.1"
        );
    }

    #[test]
    fn two_callers_at_once_are_refused() {
        let both = |a: &str, b: &str| {
            origin_of(PROXY, &[("forwarded", a), ("x-forwarded-for", b)]).map(|o| o.to_string())
        };
        assert_eq!(both("for=192.0.2.1", "192.0.2.1").unwrap(), "192.0.2.1");
        assert!(both("for=192.0.2.1", "203.0.113.5").is_err());
        for bad in [
            "for=\"192.0.2.1",
            "for=1.1.1.1;for=2.2.2.2",
            "for=\"\\1\"",
            "nonsense",
        ] {
            assert!(origin_of(PROXY, &[("forwarded", bad)]).is_err(), "{bad}");
        }
        let long = "1.1.1.1,".repeat(HOPS_MAX + 1);
        assert!(origin_of(PROXY, &[("x-forwarded-for", &long)]).is_err());
    }

    #[test]
    fn protocol_and_names_are_those_of_the_proxy() {
        let origin = |headers: &[(&'static str, &str)]| {
            let origin = origin_of(PROXY, headers).unwrap();
            (origin.encrypted, origin.hosts.join(" "))
        };
        assert_eq!(
            origin(&[("x-forwarded-proto", "http")]),
            (false, String::new())
        );
        assert_eq!(
            origin(&[
                ("x-forwarded-proto", "HTTPS"),
                ("x-forwarded-host", "Portal.Example.org")
            ]),
            (true, "portal.example.org".to_owned())
        );
        assert_eq!(
            origin(&[(
                "forwarded",
                "for=192.0.2.1;host=\"a:443\";proto=https, host=b"
            )]),
            (true, "a:443 b".to_owned())
        );
    }
}
