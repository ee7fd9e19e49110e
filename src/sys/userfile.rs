//! Files that a job reads and writes, opened under whatever identity the caller has taken.
//!
//! Owns the flags that keep a user's path from hurting the opener: no terminal is acquired, a pipe
//! without a reader does not block, every descriptor closes on exec.

use super::{Error, ErrorContext, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

const FLAGS: i32 = libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC;
/// Number of bytes copied at a time.
const CHUNK: usize = 1 << 20;

/// Opens or creates a file for appending; `over` truncates it first. Mode 0666 before the umask.
pub fn open_output(path: &Path, over: bool) -> Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o666)
        .custom_flags(FLAGS | if over { libc::O_TRUNC } else { 0 })
        .open(path)
        .at("open the output file", path)?;
    set_flag(&file, libc::O_NONBLOCK, false, path)?;
    Ok(file)
}

/// Creates a new file for the output until the end of the job, replacing a leftover.
pub fn open_aside(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(FLAGS | libc::O_TRUNC | libc::O_NOFOLLOW)
        .open(path);
    file.at("open the output file", path)
}

/// Opens a file for reading.
pub fn open_input(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(FLAGS)
        .open(path)
        .at("open the input file", path)?;
    set_flag(&file, libc::O_NONBLOCK, false, path)?;
    Ok(file)
}

/// Checks that a file or directory exists and can be reached.
pub fn find(path: &Path) -> Result<()> {
    std::fs::metadata(path).map(drop).at("find", path)
}

/// `/dev/null` for reading and writing.
pub fn open_null() -> Result<File> {
    let path = Path::new("/dev/null");
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .at("open", path)
}

/// A second descriptor of the same open file description, closed on exec.
pub fn copy_of(file: &File) -> Result<File> {
    file.try_clone().at("copy", Path::new("a descriptor"))
}

fn set_flag(file: &File, flag: i32, on: bool, path: &Path) -> Result<()> {
    // SAFETY: plain calls on an open descriptor.
    let rc = unsafe {
        let old = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        let new = if on { old | flag } else { old & !flag };
        if old < 0 {
            old
        } else {
            libc::fcntl(file.as_raw_fd(), libc::F_SETFL, new)
        }
    };
    if rc < 0 {
        Err(Error::last("set the flags of", path))
    } else {
        Ok(())
    }
}

/// Writes `bytes` at the end and returns their offset.
pub fn write_head(mut file: &File, path: &Path, bytes: &[u8]) -> Result<u64> {
    use std::io::Seek;
    file.write_all(bytes).at("write to the output file", path)?;
    let end = file
        .stream_position()
        .at("write to the output file", path)?;
    Ok(end.saturating_sub(bytes.len() as u64))
}

/// Overwrites bytes in the middle of a file opened for appending; no other process may still be
/// writing through this open file description.
pub fn overwrite_at(file: &File, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
    // With O_APPEND Linux appends regardless of the offset.
    set_flag(file, libc::O_APPEND, false, path)?;
    file.write_all_at(bytes, offset)
        .at("write to the output file", path)
}

/// Appends `head` and then all of `from` to `to`. Small content is written together with the head
/// in one write, larger content piece by piece.
pub fn append_all(mut to: &File, path: &Path, head: &[u8], from: &File) -> Result<()> {
    let mut buf = head.to_vec();
    let mut at = 0;
    loop {
        let used = buf.len();
        buf.resize(used + CHUNK, 0);
        let n = match from.read_at(&mut buf[used..], at) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
            other => {
                let n = other.at("read back the output for", path)?;
                if n == 0 {
                    buf.truncate(used);
                    return to.write_all(&buf).at("write to the output file", path);
                }
                n
            }
        };
        buf.truncate(used + n);
        at += n as u64;
        if buf.len() >= CHUNK {
            to.write_all(&buf).at("write to the output file", path)?;
            buf.clear();
        }
    }
}

/// Changes the owner of a file to its user, and sets these permission bits.
///
/// # Errors
/// The file system does not let this process do so.
pub fn give_to(file: &File, path: &Path, (uid, gid): (u32, u32), mode: u32) -> Result<()> {
    std::os::unix::fs::fchown(file, Some(uid), Some(gid)).at("change the owner of", path)?;
    set_mode(file, path, mode)
}

/// Sets the permission bits of an open file.
///
/// # Errors
/// It belongs to another user.
pub fn set_mode(file: &File, path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let bits = std::fs::Permissions::from_mode(mode);
    file.set_permissions(bits).at("set the mode of", path)
}

/// Turns the system's copy of a script into a file that only its user can read and execute. `user`:
/// uid and gid, if this process may change the owner.
///
/// # Errors
/// There is no such regular file, or its owner cannot be changed.
pub fn hand_script(path: &Path, user: Option<(u32, u32)>) -> Result<()> {
    let mut options = OpenOptions::new();
    let flags = FLAGS | libc::O_NOFOLLOW;
    let file = options.read(true).custom_flags(flags).open(path);
    let file = file.at("open the copy of the script", path)?;
    match user {
        Some(user) => give_to(&file, path, user, 0o500),
        None => set_mode(&file, path, 0o500),
    }
}

/// Changes the working directory of this process.
pub fn enter(dir: &Path) -> Result<()> {
    std::env::set_current_dir(dir).at("enter the working directory", dir)
}

/// Sets the umask of this process.
pub fn set_umask(mask: u32) {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(mask));
}

/// Appends the available bytes of a stream to `buf`, at most `max`, waiting for the first; returns
/// their number, 0 at the end of the stream. The buffer keeps its capacity between calls.
pub fn read_more(mut file: &File, buf: &mut Vec<u8>, max: usize) -> io::Result<usize> {
    let used = buf.len();
    buf.resize(used + max, 0);
    let count = file.read(&mut buf[used..]);
    buf.truncate(used + count.as_ref().copied().unwrap_or(0));
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fs;
    use tempfile::tempdir;

    #[test]
    fn a_head_is_filled_in_before_what_follows() {
        let d = tempdir().unwrap();
        let p = d.path().join("out");
        fs::publish(&p, b"old\n").unwrap();
        let f = open_output(&p, false).unwrap();
        let at = write_head(&f, &p, b"head ....\n").unwrap();
        (&f).write_all(b"body\n").unwrap();
        overwrite_at(&f, &p, at, b"head done\n").unwrap();
        assert_eq!(fs::read_small(&p, 99).unwrap(), b"old\nhead done\nbody\n");
    }

    #[test]
    fn appending_all_keeps_every_byte_of_a_large_file() {
        let d = tempdir().unwrap();
        let (a, b) = (d.path().join("a"), d.path().join("b"));
        let data: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
        let from = open_aside(&a).unwrap();
        (&from).write_all(&data).unwrap();
        append_all(&open_output(&b, false).unwrap(), &b, b"H", &from).unwrap();
        let got = fs::read_small(&b, 1 << 30).unwrap();
        assert!(got[0] == b'H' && got[1..] == data);
    }

    #[test]
    fn a_pipe_without_reader_does_not_block() {
        let d = tempdir().unwrap();
        let p = d.path().join("pipe");
        nix::unistd::mkfifo(&p, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(open_output(&p, false).is_err());
    }
}
