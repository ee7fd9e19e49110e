//! Local connections between the processes of one host: a stream pair, a bell, waiting for either.
//!
//! Owns socket pairs and named pipes. State is never sent here, only requests to a child and
//! wake-ups.

use super::{Error, ErrorContext, Result};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const BELL_CHUNK: usize = 4096;

/// Two connected stream sockets, closed on exec.
pub fn pair() -> Result<(File, File)> {
    let (a, b) = socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
    .at("make", Path::new("a socket pair"))?;
    Ok((File::from(a), File::from(b)))
}

/// A file in memory with this content, read from its first byte; closed on exec.
pub fn text_file(text: &[u8]) -> Result<File> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let name = Path::new("a file in memory");
    let fd = memfd_create("input", MFdFlags::MFD_CLOEXEC).at("make", name)?;
    let mut file = File::from(fd);
    file.write_all(text).at("write to", name)?;
    std::io::Seek::rewind(&mut file).at("rewind", name)?;
    Ok(file)
}

/// Limits how long a write to a socket may block.
pub fn limit_writes(socket: &File, ms: u64) -> Result<()> {
    let t = nix::sys::time::TimeVal::new((ms / 1000) as i64, (ms % 1000 * 1000) as i64);
    nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::SendTimeout, &t)
        .at("set the time limit of", Path::new("a socket"))
}

/// Signals to the reader at the other end that nothing more will be sent.
pub fn shut_down_writes(socket: &File) {
    let _ = nix::sys::socket::shutdown(socket.as_raw_fd(), nix::sys::socket::Shutdown::Write);
}

/// Waits until `file` can be read (or is closed at the other end), at most `ms`.
pub fn wait_readable(file: &File, ms: Option<u64>) -> bool {
    let mut p = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let ms = ms.map_or(-1, |m| i32::try_from(m).unwrap_or(i32::MAX));
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&mut p, 1, ms) > 0 }
}

/// A named pipe that anyone with its path can ring; rings that no process has read yet are kept.
#[derive(Debug)]
pub struct Bell {
    file: File,
}

impl Bell {
    /// Opens the bell at `path`, creating it (0600) if it does not exist.
    pub fn open(path: &Path) -> Result<Bell> {
        match nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o600)) {
            Ok(()) | Err(nix::Error::EEXIST) => {}
            Err(e) => return Err(Error::new("make the pipe", path, e.into())),
        }
        // Opened for reading and writing, so neither end ever sees the other as closed.
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open(path).at("open the pipe", path)?;
        Ok(Bell { file })
    }

    /// Rings. If the pipe is full, enough rings are already pending.
    pub fn ring(&self) {
        let _ = (&self.file).write(&[1]);
    }

    /// Waits for a ring for at most `ms` and takes all rings. Returns false if there was none.
    pub fn wait(&self, ms: Option<u64>) -> bool {
        if !wait_readable(&self.file, ms) {
            return false;
        }
        let mut buf = [0u8; BELL_CHUNK];
        while matches!((&self.file).read(&mut buf), Ok(n) if n == buf.len()) {}
        true
    }
}

/// Takes over descriptor 0 of this process as a stream and replaces it by `/dev/null`.
pub fn take_stdin() -> Result<File> {
    let what = Path::new("standard input");
    // SAFETY: duplicates descriptor 0 above the standard ones, closed on exec; this process owns
    // the result.
    let fd = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3) };
    if fd < 0 {
        return Err(Error::last("take over", what));
    }
    let null = super::userfile::open_null()?;
    // SAFETY: both descriptors are open.
    if unsafe { libc::dup2(null.as_raw_fd(), 0) } < 0 {
        return Err(Error::last("replace", what));
    }
    // SAFETY: `fd` was just created and has no other owner.
    Ok(File::from(unsafe {
        <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_kept_and_taken_together() {
        let d = tempfile::tempdir().unwrap();
        let p = d.path().join("bell");
        let (a, b) = (Bell::open(&p).unwrap(), Bell::open(&p).unwrap());
        assert!(!a.wait(Some(10)));
        (0..10_000).for_each(|_| b.ring());
        assert!(a.wait(Some(10)));
        assert!(!a.wait(Some(10)));
    }

    #[test]
    fn a_closed_pair_reads_as_readable() {
        let (a, b) = pair().unwrap();
        assert!(!wait_readable(&a, Some(5)));
        drop(b);
        // Other tests of this process start programs: until its exec, such a child also holds `b`.
        assert!(wait_readable(&a, Some(30_000)));
    }
}
