//! Terminals: a pair of master and slave for a job, and the settings of the terminal at which a
//! command was called.
//!
//! Owns termios, window sizes and pseudo-terminals. The original settings are restored by the owner
//! of a `RawTerminal` when it is dropped.

use super::{Error, ErrorContext, Result, stream::nonblocking_result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::termios::{self, InputFlags, LocalFlags, SetArg, Termios};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

const NAME: &str = "a pseudo-terminal";

/// Creates a pseudo-terminal with this many rows and columns, owned by the current user: master and
/// slave, both closed on exec. Neither becomes this process's controlling terminal.
pub fn open_pair(rows: u16, cols: u16) -> Result<(File, File)> {
    let what = Path::new(NAME);
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = nix::pty::posix_openpt(flags).at("make", what)?;
    nix::pty::grantpt(&master).at("make", what)?;
    nix::pty::unlockpt(&master).at("make", what)?;
    let name = nix::pty::ptsname_r(&master).at("find the name of", what)?;
    let slave = nix::fcntl::open(name.as_str(), flags, nix::sys::stat::Mode::empty());
    let slave = File::from(slave.at("open", Path::new(&name))?);
    let master = File::from(OwnedFd::from(master));
    if let Ok(mut now) = termios::tcgetattr(&slave) {
        now.input_flags |= InputFlags::IUTF8;
        let _ = termios::tcsetattr(&slave, SetArg::TCSANOW, &now);
    }
    set_size(&master, rows, cols);
    Ok((master, slave))
}

/// Sets the size of a terminal; its foreground processes get a signal if that changes it.
pub fn set_size(terminal: &impl AsRawFd, rows: u16, cols: u16) {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the pointer is to a winsize, as the call demands; a failure changes nothing.
    unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
}

/// Rows and columns of a terminal; `None`: it is not a terminal.
pub fn size_of(terminal: &impl AsRawFd) -> Option<(u16, u16)> {
    // SAFETY: an all-zero winsize is a valid one; the call fills it in.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a winsize.
    let rc = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (rc == 0).then_some((size.ws_row, size.ws_col))
}

/// The process group in the foreground of the terminal with this master; `None`: there is none.
pub fn foreground(master: &impl AsRawFd) -> Option<i32> {
    let mut group: libc::pid_t = 0;
    // SAFETY: the pointer is to a process id, as the call demands.
    let rc = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPGRP, &raw mut group) };
    (rc == 0 && group > 1).then_some(group)
}

/// The character that means "end of input" to the terminal with this master, if it has one and
/// reads whole lines.
pub fn end_of_input(master: &File) -> Option<u8> {
    let now = termios::tcgetattr(master).ok()?;
    let lines = now.local_flags.contains(LocalFlags::ICANON);
    let key = now.control_chars[termios::SpecialCharacterIndices::VEOF as usize];
    (lines && key != 0).then_some(key)
}

/// How the keys of a taken terminal are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMode {
    /// Every key is a byte to read.
    All,
    /// Keys that send signals send them to this process.
    Signals,
}

/// The terminal at standard input, with its keys passed on one by one; its settings are restored
/// when this is dropped.
#[derive(Debug)]
pub struct RawTerminal {
    before: Termios,
    keys: KeyMode,
}

impl RawTerminal {
    /// Takes the terminal at standard input; `None`: there is none, or another process has it.
    pub fn stdin(keys: KeyMode) -> Option<RawTerminal> {
        let before = termios::tcgetattr(std::io::stdin()).ok()?;
        let taken = RawTerminal { before, keys };
        taken.set_raw();
        Some(taken)
    }

    /// Applies the settings that this process needs: again after `restore`.
    pub fn set_raw(&self) {
        let mut raw = self.before.clone();
        termios::cfmakeraw(&mut raw);
        if self.keys == KeyMode::Signals {
            raw.local_flags |= LocalFlags::ISIG;
        }
        let _ = termios::tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &raw);
    }

    /// Restores the previous settings.
    pub fn restore(&self) {
        let _ = termios::tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &self.before);
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Makes reading and writing through this open file description non-blocking. This affects all that
/// share the description, so use it only for those that this process created.
pub fn set_nonblocking(file: &File) -> Result<()> {
    let what = Path::new("a stream");
    let now = fcntl(file, FcntlArg::F_GETFL).at("read the flags of", what)?;
    let flags = OFlag::from_bits_truncate(now) | OFlag::O_NONBLOCK;
    fcntl(file, FcntlArg::F_SETFL(flags)).at("set the flags of", what)?;
    Ok(())
}

/// A pipe: the end to read from and the end to write to, both closed on exec.
pub fn pipe() -> Result<(File, File)> {
    let ends = nix::unistd::pipe2(OFlag::O_CLOEXEC).at("make", Path::new("a pipe"))?;
    Ok((File::from(ends.0), File::from(ends.1)))
}

/// Reads the available bytes, as `stream::Wire::read`; a terminal without a process on its other
/// side is at its end.
///
/// # Errors
/// It cannot be read.
pub fn read_now(mut file: &File, buf: &mut [u8]) -> io::Result<Option<usize>> {
    match nonblocking_result(file.read(buf)) {
        Err(e) if e.raw_os_error() == Some(libc::EIO) => Ok(Some(0)),
        other => other,
    }
}

/// Writes what there is room for. Returns the number of bytes.
///
/// # Errors
/// Its other end is gone.
pub fn write_now(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    Ok(nonblocking_result(file.write(bytes))?.unwrap_or(0))
}

/// A copy of standard input, output (1) or error output (2) of this process.
pub fn own_stream(fd: i32) -> Result<File> {
    // SAFETY: duplicates a standard descriptor, closed on exec; this process owns the result.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(Error::last("copy", Path::new("a standard stream")));
    }
    // SAFETY: `copy` was just created and has no other owner.
    Ok(File::from(unsafe {
        <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(copy)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes next. Bytes pass through a thread of the kernel, and the other end stays open for
    /// a moment in a process that another test is about to start.
    fn next_of(master: &File, buf: &mut [u8]) -> usize {
        let looks = std::iter::repeat_with(|| {
            let read = read_now(master, buf).unwrap();
            if read.is_none() {
                super::super::clock::sleep_ms(1);
            }
            read
        });
        looks
            .take(60_000)
            .flatten()
            .next()
            .expect("something comes")
    }

    #[test]
    fn a_pair_carries_bytes_and_a_size() {
        let (master, slave) = open_pair(31, 97).unwrap();
        assert_eq!(size_of(&slave), Some((31, 97)));
        set_size(&master, 50, 132);
        assert_eq!(size_of(&slave), Some((50, 132)));
        set_nonblocking(&master).unwrap();
        (&slave).write_all(b"x\n").unwrap();
        let mut buf = [0; 9];
        let n = next_of(&master, &mut buf);
        assert_eq!(&buf[..n], b"x\r\n");
        assert_eq!(read_now(&master, &mut buf).unwrap(), None);
        assert_eq!(end_of_input(&master), Some(4));
        assert_eq!(foreground(&master), None);
        drop(slave);
        assert_eq!(next_of(&master, &mut buf), 0);
        assert_eq!(size_of(&std::fs::File::open("/dev/null").unwrap()), None);
    }

    #[test]
    fn a_pipe_without_reader_says_so() {
        let (read, write) = pipe().unwrap();
        set_nonblocking(&write).unwrap();
        assert_eq!(write_now(&write, b"ab").unwrap(), 2);
        let mut buf = [0; 9];
        assert_eq!(read_now(&read, &mut buf).unwrap(), Some(2));
        let full = std::iter::repeat_with(|| write_now(&write, &[0; 4096]).unwrap());
        assert!(full.take(100).any(|n| n == 0));
        drop(read);
        crate::sys::signals::ignore_sigpipe();
        assert!(write_now(&write, b"x").is_err());
    }
}
