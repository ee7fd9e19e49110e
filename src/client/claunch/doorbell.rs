//! Notifies the executor of a host of a waiting request, so that it looks at once instead of at its
//! next poll. It is not known, and does not matter, whether the notice arrives.

use crate::record::frame::Reader;
use crate::record::header::{FileKind as File, Header};
use crate::record::hint::{self, Endpoint, Hint};
use crate::record::report::Report;
use crate::spool::Layout;
use crate::sys::datagram::Socket;
use crate::sys::{clock, fs};

/// Maximum number of names read in a host's directory, and size of the part of its reports that is
/// read.
const NAMES_MAX: usize = 10_000;
const HEAD_BYTES: usize = 8 << 10;

/// See the top of this file.
pub(super) struct Doorbell {
    layout: Layout,
    socket: Option<Socket>,
}

impl Doorbell {
    pub(super) fn new(layout: Layout) -> Doorbell {
        let socket = Socket::open(0..=0);
        Doorbell { layout, socket }
    }

    /// Notifies this host, if it accepts hints.
    pub(super) fn ring(&self, host: &str) {
        if let (Some(socket), Some(at)) = (&self.socket, endpoint(&self.layout, host)) {
            let number = clock::short_number();
            let bytes = hint::encode(at.tag, Hint::Launches { number });
            socket.send(&bytes, &at.addresses);
        }
    }
}

/// Where the executor of a host receives hints: its newest report file begins with it.
fn endpoint(layout: &Layout, host: &str) -> Option<Endpoint> {
    let entries = fs::list_dir(&layout.host(host), NAMES_MAX).ok()?;
    let names = entries.iter().filter_map(|entry| entry.text());
    let newest = names.filter_map(Layout::parse_reports_name).max()?;
    let head = fs::read_from(&layout.reports(host, newest), 0, HEAD_BYTES).ok()?;
    let mut reader = Reader::new(&head.bytes);
    Header::read(&mut reader, File::Reports, None).ok()??;
    loop {
        let line = reader.next_line().ok()??;
        if let Ok(Report::Hints { at }) = line.decode() {
            return Endpoint::parse(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::frame;

    #[test]
    fn the_newest_reports_say_where_a_host_takes_hints() {
        let d = tempfile::tempdir().unwrap();
        let layout = Layout::new(d.path());
        fs::mkdir_p(&layout.host("h2"), 0o755).unwrap();
        assert_eq!(endpoint(&layout, "h2"), None);
        let write = |number: u64, at: &str| {
            let mut bytes = Vec::new();
            let header = Header::new(File::Reports, "c", 0, number);
            frame::write(&mut bytes, 0, &header).unwrap();
            let boot = Report::Complete { boot: "b".into() };
            frame::write(&mut bytes, 1, &boot).unwrap();
            let hints = Report::Hints { at: at.to_owned() };
            frame::write(&mut bytes, 2, &hints).unwrap();
            fs::publish(&layout.reports("h2", number), &bytes).unwrap();
        };
        write(9, "00000000000000ff 10.99.0.1:40000");
        write(11, "00000000000000fe 10.99.0.1:40001");
        assert_eq!(endpoint(&layout, "h2").map(|at| at.tag), Some(0xfe));
        write(12, "nowhere");
        assert_eq!(endpoint(&layout, "h2"), None);
    }
}
