//! Messages to the service manager that started this program: ready, alive, status.
//!
//! Owns the protocol of `sd_notify(3)`: one datagram per message to the socket that `NOTIFY_SOCKET`
//! names. Sending never waits and never fails for the caller; without a service manager, and in
//! simulations, nothing is sent.

use super::{clock, platform};
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of signs of life within the time after which the service manager considers the program
/// hung.
const SIGNS: u64 = 4;
/// Maximum length of a status, in bytes.
const STATUS_MAX: usize = 200;

/// The service manager of this process.
#[derive(Debug)]
struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// Interval of the signs of life, ms; 0: the manager does not watch.
    every_ms: u64,
    ready: AtomicBool,
    /// When the last sign of life was sent, ms since boot.
    sign_at: AtomicU64,
}

impl Manager {
    /// Derived from the variables of the environment. A watchdog for another process does not apply
    /// to this one.
    fn of(notify: Option<&OsStr>, usec: Option<&str>, pid: Option<&str>) -> Option<Manager> {
        let address = address(notify?)?;
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        let mine = pid.is_none_or(|pid| pid == std::process::id().to_string());
        let usec: u64 = usec.and_then(|text| text.parse().ok()).unwrap_or(0);
        let every_ms = match usec {
            0 => 0,
            usec => (usec / 1000 / SIGNS).max(1),
        };
        Some(Manager {
            socket,
            address,
            every_ms: if mine { every_ms } else { 0 },
            ready: AtomicBool::new(false),
            sign_at: AtomicU64::new(0),
        })
    }

    fn send(&self, text: &str) {
        // The socket is full: the next message has the same effect.
        let _ = self.socket.send_to_addr(text.as_bytes(), &self.address);
    }

    fn ready(&self, status: &str) {
        let first = !self.ready.swap(true, Ordering::Relaxed);
        let ready = if first { "READY=1\n" } else { "" };
        self.send(&format!("{ready}STATUS={}", line(status)));
    }

    fn alive(&self, now: u64) {
        let due = self.sign_at.load(Ordering::Relaxed) + self.every_ms;
        if self.every_ms > 0 && now >= due {
            self.sign_at.store(now, Ordering::Relaxed);
            self.send("WATCHDOG=1");
        }
    }
}

/// A path, or an abstract name after an @.
fn address(notify: &OsStr) -> Option<SocketAddr> {
    match notify.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        [b'/', ..] => SocketAddr::from_pathname(notify).ok(),
        _ => None,
    }
}

/// One line of limited length.
fn line(text: &str) -> String {
    let mut flat = text.replace(char::is_control, " ");
    let fits = |end: &usize| flat.is_char_boundary(*end);
    let end = (0..=STATUS_MAX.min(flat.len())).rev().find(fits);
    flat.truncate(end.unwrap_or(0));
    flat
}

fn manager() -> Option<&'static Manager> {
    static MANAGER: OnceLock<Option<Manager>> = OnceLock::new();
    let found = MANAGER.get_or_init(|| {
        if platform::simulated() {
            return None;
        }
        let var = |name| std::env::var(name).ok();
        let notify = std::env::var_os("NOTIFY_SOCKET");
        let (usec, pid) = (var("WATCHDOG_USEC"), var("WATCHDOG_PID"));
        Manager::of(notify.as_deref(), usec.as_deref(), pid.as_deref())
    });
    found.as_ref()
}

/// Reports that the program serves; `status` describes what it does. Later calls only change the
/// status.
pub fn ready(status: &str) {
    if let Some(manager) = manager() {
        manager.ready(status);
    }
}

/// Reports what keeps the program from its work, or that nothing does.
pub fn status(text: &str) {
    if let Some(manager) = manager() {
        manager.send(&format!("STATUS={}", line(text)));
    }
}

/// Reports that the caller's loop runs. Must be called at least every few seconds; fewer messages
/// are sent.
pub fn alive() {
    if let Some(manager) = manager() {
        manager.alive(clock::boot_ms());
    }
}

/// Reports that the program ends because it was asked to.
pub fn stopping() {
    if let Some(manager) = manager() {
        manager.send("STOPPING=1\nSTATUS=ends");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver() -> (tempfile::TempDir, UnixDatagram, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        (dir, socket, path)
    }

    fn heard(socket: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 1000];
        let mut all = Vec::new();
        while let Ok(len) = socket.recv(&mut buffer) {
            all.push(String::from_utf8_lossy(&buffer[..len]).into_owned());
        }
        all
    }

    #[test]
    fn it_is_ready_once_and_its_status_is_one_line() {
        let (_dir, socket, path) = receiver();
        let manager = Manager::of(Some(path.as_os_str()), None, None).unwrap();
        manager.ready("stands by");
        manager.ready("leads\nREADY=1");
        manager.alive(1);
        let long = "é".repeat(STATUS_MAX);
        manager.ready(&long);
        let heard = heard(&socket);
        assert_eq!(heard[0], "READY=1\nSTATUS=stands by");
        assert_eq!(heard[1], "STATUS=leads READY=1");
        assert_eq!(heard[2].len(), "STATUS=".len() + STATUS_MAX);
        assert_eq!(heard.len(), 3, "without a limit no sign of life");
    }

    #[test]
    fn signs_of_life_are_given_several_times_in_the_limit_and_no_oftener() {
        let (_dir, socket, path) = receiver();
        let own = std::process::id().to_string();
        let limit = Some("8000000");
        let manager = Manager::of(Some(path.as_os_str()), limit, Some(&own)).unwrap();
        for now in (10_000..20_000).step_by(100) {
            manager.alive(now);
        }
        assert_eq!(heard(&socket), ["WATCHDOG=1"; 5]);
        let other = Manager::of(Some(path.as_os_str()), limit, Some("1")).unwrap();
        other.alive(10_000);
        assert!(
            heard(&socket).is_empty(),
            "the limit is for another process"
        );
    }

    #[test]
    fn without_a_service_manager_nothing_happens() {
        assert!(Manager::of(None, None, None).is_none());
        assert!(Manager::of(Some(OsStr::new("relative")), None, None).is_none());
        let (dir, socket, path) = receiver();
        let manager = Manager::of(Some(path.as_os_str()), None, None).unwrap();
        drop((socket, dir));
        manager.ready("alone");
    }

    #[test]
    fn abstract_names_are_reached() {
        let name = format!("corral-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let notify = format!("@{name}");
        let manager = Manager::of(Some(OsStr::new(&notify)), None, None).unwrap();
        manager.ready("serves");
        assert_eq!(heard(&socket), ["READY=1\nSTATUS=serves"]);
    }
}
