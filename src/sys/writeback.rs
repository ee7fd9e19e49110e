//! Sends data that was written to a network file system in steps, so that it does not fill the
//! connection: everything else that this machine does on the share waits for it, including a
//! leader's beat.
//!
//! Owns the size of the steps. Makes nothing durable: the sync does.

use super::statfs::{self, FsKind};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Less than this is sent by the sync or the close, at once (bytes).
pub(super) const SMALL: u64 = 32 << 10;
/// Minimum and maximum size of a step (bytes).
const STEP: (u64, u64) = (16 << 10, 1 << 20);
/// After a step that took less than the first value, the size is doubled; after one that took more
/// than the second, it is halved (ms).
const GOOD_MS: (u64, u64) = (50, 100);

/// Sends the bytes of `file` from `from` up to `to` that are only in memory, and waits for them. On
/// a local file system it does nothing.
///
/// # Errors
/// The server did not accept them; a later sync need not report this again.
pub(super) fn send(file: &File, from: u64, to: u64) -> io::Result<()> {
    if to.saturating_sub(from) <= SMALL || statfs::kind_of_file(file)? == FsKind::Local {
        return Ok(());
    }
    in_steps(from, to, super::clock::boot_ms, |at, len| {
        write_out(file, at, len)
    })
}

fn in_steps(
    from: u64,
    to: u64,
    now: impl Fn() -> u64,
    mut write_out: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let (mut at, mut step) = (from, SMALL);
    while at < to {
        let began = now();
        let len = step.min(to - at);
        write_out(at, len)?;
        at += len;
        step = next_step(step, now().saturating_sub(began));
    }
    Ok(())
}

fn next_step(step: u64, took_ms: u64) -> u64 {
    match took_ms {
        ms if ms < GOOD_MS.0 => step * 2,
        ms if ms > GOOD_MS.1 => step / 2,
        _ => step,
    }
    .clamp(STEP.0, STEP.1)
}

fn write_out(file: &File, at: u64, len: u64) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: a system call on an open file that uses no memory of this process.
    let rc = unsafe { libc::sync_file_range(file.as_raw_fd(), at as i64, len as i64, flags) };
    match rc {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // Not available on every file system: then the sync sends all of it.
            e if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::ESPIPE)) => Ok(()),
            e => Err(e),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// The steps over `bytes` if the server accepts `rate` bytes per ms, plus `rtt` ms for each
    /// step.
    fn steps(bytes: u64, rate: u64, rtt: u64) -> Vec<(u64, u64)> {
        let (time, mut seen) = (Cell::new(0), Vec::new());
        let write = |at, len| {
            time.set(time.get() + rtt + len / rate);
            seen.push((at, len));
            Ok(())
        };
        in_steps(7, 7 + bytes, || time.get(), write).unwrap();
        seen
    }

    #[test]
    fn a_slow_server_gets_small_steps_and_a_fast_one_large_ones() {
        let slow = steps(1 << 20, 170, 1);
        assert!(
            slow[2..].iter().all(|(_, len)| *len == 16 << 10),
            "{slow:?}"
        );
        let fast = steps(8 << 20, 100_000, 1);
        assert!(fast.len() < 16 && fast[6].1 == 1 << 20, "{fast:?}");
        let far = steps(8 << 20, 100_000, 20);
        assert!(far.len() < 16, "{far:?}");
    }

    #[test]
    fn every_byte_is_sent_once_and_an_error_is_told() {
        for bytes in [1, 32 << 10, (2 << 20) + 5] {
            let mut at = 7;
            for (from, len) in steps(bytes, 300, 1) {
                assert_eq!(from, at);
                at += len;
            }
            assert_eq!(at, 7 + bytes);
        }
        let fail = |_, _| Err(io::ErrorKind::StorageFull.into());
        assert!(in_steps(0, 9, || 0, fail).is_err());
    }

    #[test]
    fn an_ordinary_file_is_written_out() {
        let d = tempfile::tempdir().unwrap();
        let file = File::create(d.path().join("f")).unwrap();
        assert!(write_out(&file, 0, 4096).is_ok());
        assert!(send(&file, 0, 1 << 20).is_ok());
    }
}
