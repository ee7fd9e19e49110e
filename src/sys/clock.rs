//! Clocks, sleep and randomness.
//!
//! Owns the only calls that read a clock. Wall time is used for display and records; intervals and
//! deadlines use the boot-time clock, which no administrator can set and which continues while the
//! machine is suspended.

use super::platform;
use crate::model::{Mono, Now, Stamp};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall clock: milliseconds since the Unix epoch.
pub fn wall_ms() -> i64 {
    if let Some(machine) = platform::here() {
        return machine.wall_ms();
    }
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(d) => d.as_millis() as i64,
        Err(e) => -(e.duration().as_millis() as i64),
    }
}

/// The current time by the wall clock and the boot-time clock.
pub fn now() -> Now {
    Now {
        wall: Stamp(wall_ms()),
        mono: Mono(boot_ms()),
    }
}

/// Boot-time clock: milliseconds since this machine started, suspended time included.
pub fn boot_ms() -> u64 {
    (boot_ns() / 1_000_000) as u64
}

/// Boot-time clock in nanoseconds.
pub fn boot_ns() -> u128 {
    if let Some(machine) = platform::here() {
        return machine.boot_ns();
    }
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a valid timespec that the call fills; the clock id is a constant.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut t) };
    assert_eq!(rc, 0, "CLOCK_BOOTTIME exists on every Linux this runs on");
    t.tv_sec as u128 * 1_000_000_000 + t.tv_nsec as u128
}

/// Sleeps for `ms` milliseconds.
pub fn sleep_ms(ms: u64) {
    sleep_us(ms.saturating_mul(1000));
}

/// A time for users, in the local time of this machine: `Sat Nov 21 03:21:15 2026`.
pub fn local_text(wall_ms: i64) -> String {
    let t: libc::time_t = wall_ms.div_euclid(1000);
    let mut buf = [0u8; 64];
    // SAFETY: `tm` is plain data that localtime_r fills; strftime writes at most the given length.
    let n = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&t, &mut tm).is_null() {
            return t.to_string();
        }
        let format = c"%a %b %e %H:%M:%S %Y";
        libc::strftime(buf.as_mut_ptr().cast(), buf.len(), format.as_ptr(), &tm)
    };
    String::from_utf8_lossy(&buf[..n]).into_owned()
}

/// Sleeps for `us` microseconds: for waits that will end soon.
pub fn sleep_us(us: u64) {
    match platform::here() {
        Some(machine) => machine.sleep_us(us),
        None => std::thread::sleep(Duration::from_micros(us)),
    }
}

/// A number that differs from those of the previous hour, never 0: each step is two microseconds of
/// the boot clock.
pub fn short_number() -> u32 {
    (boot_ns() / 1000) as u32 | 1
}

/// Fills `buf` with random bytes of the kernel.
pub fn random(buf: &mut [u8]) {
    if let Some(machine) = platform::here() {
        return machine.random(buf);
    }
    let mut done = 0;
    while done < buf.len() {
        let rest = &mut buf[done..];
        // SAFETY: pointer and length describe `rest`, which outlives the call.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match n {
            n if n > 0 => done += n as usize,
            _ => {
                let e = std::io::Error::last_os_error();
                assert_eq!(
                    e.kind(),
                    std::io::ErrorKind::Interrupted,
                    "getrandom failed: {e}"
                );
            }
        }
    }
}

/// `bytes` random bytes as lower-case hexadecimal text (twice as many characters).
pub fn nonce(bytes: usize) -> String {
    let mut buf = vec![0u8; bytes];
    random(&mut buf);
    crate::model::hex(&buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_clock_moves_on() {
        let a = boot_ms();
        sleep_ms(3);
        assert!(boot_ms() >= a + 3);
    }

    #[test]
    fn local_text_has_a_fixed_width() {
        assert_eq!(local_text(0).len(), 24);
        assert_eq!(local_text(1_800_000_000_000).len(), 24);
    }

    #[test]
    fn nonces_differ_and_have_the_asked_length() {
        let (a, b) = (nonce(16), nonce(16));
        assert_eq!(a.len(), 32);
        assert_ne!(a, b);
    }

    #[test]
    fn wall_clock_is_after_2020() {
        assert!(wall_ms() > 1_577_836_800_000);
    }
}
