//! The name of a display: `:0`, `host:10.0`. Owns its form; opens no connection.

use super::PORT;

/// Maximum length of a name.
const NAME_MAX: usize = 300;

/// A display.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Display {
    /// `None`: on this machine, by its socket in /tmp.
    pub(super) host: Option<String>,
    pub(super) number: u16,
}

impl Display {
    /// Reads `[HOST]:NUMBER[.SCREEN]`.
    ///
    /// # Errors
    /// It has another form.
    pub(super) fn parse(text: &str) -> Result<Display, &'static str> {
        if text.len() > NAME_MAX {
            return Err("it is too long");
        }
        let (host, rest) = text.rsplit_once(':').ok_or("it has no colon")?;
        let (number, screen) = rest.split_once('.').unwrap_or((rest, "0"));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(number) || !digits(screen) {
            return Err("there is no number after its colon");
        }
        let number = number.parse().ok().filter(|n| *n <= u16::MAX - PORT);
        let number = number.ok_or("its number is too high")?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let sound = |b: u8| b.is_ascii_alphanumeric() || b"-._:%".contains(&b);
        if !host.bytes().all(sound) || host.ends_with(':') {
            return Err("the part before its colon is not a host name");
        }
        let host = (!host.is_empty() && host != "unix").then(|| host.to_owned());
        Ok(Display { host, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_displays() {
        for (text, host, number) in [
            (":0", None, 0),
            (":10.2", None, 10),
            ("unix:3.0", None, 3),
            ("localhost:10.0", Some("localhost"), 10),
            ("a-b.example.org:0", Some("a-b.example.org"), 0),
            ("127.0.0.1:59535", Some("127.0.0.1"), 59_535),
            ("[::1]:4", Some("::1"), 4),
            ("fe80::1%eth0:4", Some("fe80::1%eth0"), 4),
        ] {
            let want = Display {
                host: host.map(str::to_owned),
                number,
            };
            assert_eq!(Display::parse(text), Ok(want), "{text}");
        }
        let long = format!("{}:0", "h".repeat(NAME_MAX));
        for bad in [
            "",
            "0",
            ":",
            ":x",
            ":-1",
            ":+1",
            ":0.",
            ":0.x",
            ":0.0.0",
            ":59536",
            ":99999999999",
            "host::0",
            "a b:0",
            "/tmp/x:0",
            "tcp/h:0",
            "h\u{e9}:0",
            &long,
        ] {
            assert!(Display::parse(bad).is_err(), "{bad}");
        }
    }
}
