//! The display of the waiting command: its address, its credentials, and whether it accepts them.
//! Owns the true cookie, which stays in this process.

use super::PORT;
use super::authority::{self, Address};
use super::display::Display;
use super::setup;
use crate::channel::Cookie;
use crate::sys::stream::{self, PollEntry, ServerAddress};
use crate::sys::terminal::{read_now, write_now};
use crate::sys::{self, clock, fs, host};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Maximum size of a file of cookies.
const AUTHORITY_MAX: u64 = 1 << 20;
/// Maximum number of addresses of a display's host.
const PLACES_MAX: usize = 8;
/// How long a display may take to answer (ms).
const ANSWER_MS: u64 = 5_000;
/// Number of bytes before the reason in an answer.
const ANSWER: usize = 8;

/// A display that answers and admits programs.
pub(crate) struct Server {
    address: ServerAddress,
    cookie: Option<Cookie>,
}

impl Server {
    /// Finds the display `name` and its cookie, and checks that it admits clients.
    ///
    /// # Errors
    /// The name has another form, or the display does not answer or admits no client with this
    /// cookie.
    pub(crate) fn find(name: &str, authority: &Path) -> Result<Server, String> {
        let display = Display::parse(name).map_err(|why| {
            format!("DISPLAY={name} is not a display, [HOST]:NUMBER[.SCREEN]: {why}")
        })?;
        let places = places(&display).map_err(|e| format!("DISPLAY={name}: {e}"))?;
        let mut wrong = Vec::new();
        for address in places {
            let socket = match connected(&address) {
                Ok(socket) => socket,
                Err(e) => {
                    wrong.push(format!("{}: {}", shown(&address), sys::reason(&e)));
                    continue;
                }
            };
            let cookie = cookie_of(&display, &address, authority)?;
            let answer = probe_display(&socket, cookie.as_ref());
            answer.map_err(|e| match cookie {
                Some(_) => format!("DISPLAY={name}: {e}"),
                None => format!(
                    "DISPLAY={name}: {e}\nhint: {} has no MIT-MAGIC-COOKIE-1 for it; xauth list \
                     shows what it has",
                    authority.display()
                ),
            })?;
            return Ok(Server { address, cookie });
        }
        Err(format!(
            "DISPLAY={name} does not answer ({})",
            wrong.join("; ")
        ))
    }

    #[cfg(test)]
    pub(super) fn at(address: ServerAddress, cookie: Cookie) -> Server {
        let cookie = Some(cookie);
        Server { address, cookie }
    }

    pub(super) fn call(&self) -> io::Result<File> {
        stream::connect_nonblocking(&self.address)
    }

    pub(super) fn cookie(&self) -> Option<&Cookie> {
        self.cookie.as_ref()
    }
}

/// Where a display may be, in the order in which the places are tried.
fn places(display: &Display) -> io::Result<Vec<ServerAddress>> {
    let Some(host) = &display.host else {
        // The socket file comes first: an abstract name could belong to any user.
        let name = format!("/tmp/.X11-unix/X{}", display.number);
        return Ok(vec![
            ServerAddress::Unix(name.clone().into()),
            ServerAddress::Abstract(name),
        ]);
    };
    let port = PORT.saturating_add(display.number);
    let all = stream::resolve(host, port, PLACES_MAX)?;
    Ok(all.into_iter().map(ServerAddress::Tcp).collect())
}

fn shown(at: &ServerAddress) -> String {
    match at {
        ServerAddress::Unix(path) => path.display().to_string(),
        ServerAddress::Abstract(name) => format!("@{name}"),
        ServerAddress::Tcp(address) => address.to_string(),
    }
}

/// The cookie of a display at this place, found as X11 clients do: a display of this machine is
/// listed under the machine's name.
fn cookie_of(display: &Display, at: &ServerAddress, file: &Path) -> Result<Option<Cookie>, String> {
    let address = match at {
        ServerAddress::Tcp(at) if !at.ip().is_loopback() => match at.ip() {
            IpAddr::V4(ip) => Address::V4(ip.octets()),
            IpAddr::V6(ip) => Address::V6(ip.octets()),
        },
        _ => Address::Local(host::node_name()),
    };
    let bytes = match fs::read_small_owned(file, AUTHORITY_MAX) {
        Ok((bytes, _)) => bytes,
        Err(e) if e.is_not_found() => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let found = authority::cookie(&bytes, &[address], display.number);
    found.map_err(|why| format!("{}: {why}", file.display()))
}

/// Connects, and waits for the answer.
fn connected(at: &ServerAddress) -> io::Result<File> {
    let socket = stream::connect_nonblocking(at)?;
    wait(&socket, false, clock::boot_ms() + ANSWER_MS)?;
    // A connection that failed.
    match read_now(&socket, &mut [0; 1])? {
        None => Ok(socket),
        // A display never sends first.
        Some(_) => Err(io::Error::other("it is not an X11 server")),
    }
}

/// Waits until the socket can be read, or written.
fn wait(socket: &File, read: bool, until: u64) -> io::Result<()> {
    let watched = PollEntry {
        fd: socket.as_raw_fd(),
        read,
        write: !read,
    };
    loop {
        let left = until.saturating_sub(clock::boot_ms());
        if left == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let ready = stream::wait(&[watched], Some(left)).map_err(io::Error::other)?;
        if ready[0].0 || ready[0].1 {
            return Ok(());
        }
    }
}

/// Checks whether a display admits a program with this cookie.
fn probe_display(socket: &File, cookie: Option<&Cookie>) -> Result<(), String> {
    let failed = |e: io::Error| format!("it gives no answer of X11: {}", sys::reason(&e));
    let words = setup::words(b'l', [11, 0, 0, 0], cookie);
    // These are a few bytes on an empty connection.
    if write_now(socket, &words).map_err(failed)? < words.len() {
        return Err(failed(io::ErrorKind::WouldBlock.into()));
    }
    let until = clock::boot_ms() + ANSWER_MS;
    let (mut answer, mut most) = (Vec::new(), ANSWER);
    while answer.len() < most {
        wait(socket, true, until).map_err(failed)?;
        let mut buf = [0; ANSWER + 255];
        let room = &mut buf[..most - answer.len()];
        match read_now(socket, room).map_err(failed)? {
            None => {}
            Some(0) => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
            Some(n) => answer.extend_from_slice(&buf[..n]),
        }
        match answer[..] {
            [1, ..] => return Ok(()),
            // Its reason follows.
            [0, len, ..] => most = ANSWER + usize::from(len),
            _ => {}
        }
    }
    let why = String::from_utf8_lossy(answer.get(ANSWER..).unwrap_or_default());
    let why = crate::text::width::escape(why.trim());
    Err(format!("it refuses this command: {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::entry;
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// A display that expects this first message and sends this answer, and its name.
    fn display(
        want: Vec<u8>,
        answer: &'static [u8],
    ) -> Option<(String, std::thread::JoinHandle<()>)> {
        let listener = (0..500).find_map(|n| {
            let number = 20_000 + std::process::id() as u16 % 20_000 + n;
            Some((
                TcpListener::bind(("127.0.0.1", PORT + number)).ok()?,
                number,
            ))
        });
        let Some((listener, number)) = listener else {
            println!("skipped: no network here");
            return None;
        };
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut received = vec![0; want.len()];
            // If nothing is expected: until it disconnects.
            match want.is_empty() {
                true => assert_eq!(client.read(&mut [0; 1]).unwrap(), 0),
                false => client.read_exact(&mut received).unwrap(),
            }
            assert_eq!(received, want);
            client.write_all(answer).unwrap();
        });
        Some((format!("127.0.0.1:{number}.0"), server))
    }

    #[test]
    fn a_display_is_asked_with_the_cookie_of_its_file() {
        let d = tempfile::tempdir().unwrap();
        let file = d.path().join("auth");
        let cookie = Cookie::new([7; 16]);
        let local = Address::Local(host::node_name());
        for with in [None, Some(cookie)] {
            let words = setup::words(b'l', [11, 0, 0, 0], with.as_ref());
            let Some((name, server)) = display(words, &[1, 0, 11, 0]) else {
                return;
            };
            // Without a file, and with one for this display.
            if with.is_some() {
                let number = Display::parse(&name).unwrap().number;
                std::fs::write(&file, entry(&local, number, &cookie)).unwrap();
            }
            assert_eq!(Server::find(&name, &file).unwrap().cookie, with);
            server.join().unwrap();
        }
    }

    #[test]
    fn what_a_display_refuses_is_said() {
        let d = tempfile::tempdir().unwrap();
        let file = d.path().join("auth");
        let words = setup::words(b'l', [11, 0, 0, 0], None);
        let no = b"\0\x0b\x0b\0\0\0\x03\0No protocol";
        for (answer, why) in [
            (&no[..], "it refuses this command: No protocol\nhint: "),
            (&[2, 0, 0, 0, 0, 0, 0, 0], "it refuses this command: \n"),
            (&[0, 9], "it gives no answer of X11"),
            (b"", "it gives no answer of X11"),
        ] {
            let Some((name, server)) = display(words.clone(), answer) else {
                return;
            };
            let message = Server::find(&name, &file).err().unwrap();
            assert!(
                message.contains(why) && message.contains("xauth list"),
                "{message}"
            );
            server.join().unwrap();
        }
        for (name, why) in [
            ("nonsense", "it has no colon"),
            (":59001", "/tmp/.X11-unix/X59001: No such file"),
            ("127.0.0.1:59534", "127.0.0.1:65534: Connection refused"),
            ("no-such-host.invalid:0", "DISPLAY=no-such-host.invalid:0: "),
        ] {
            let message = Server::find(name, &file).err().unwrap();
            assert!(message.contains(why), "{message}");
        }
        // A cookie file that is invalid, too large, or not a file.
        for bytes in [vec![255; 99], vec![0; (1 << 20) + 1]] {
            std::fs::write(&file, bytes).unwrap();
            let Some((name, server)) = display(Vec::new(), b"") else {
                return;
            };
            let message = Server::find(&name, &file).err().unwrap();
            assert!(message.contains("auth"), "{message}");
            server.join().unwrap();
        }
        let Some((name, server)) = display(Vec::new(), b"") else {
            return;
        };
        assert!(Server::find(&name, d.path()).is_err());
        server.join().unwrap();
    }
}
