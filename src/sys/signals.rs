//! Signal names and numbers, and how a daemon learns that it should end.
//!
//! Owns the signal handlers of this process. A handler only writes a byte to a pipe; a thread
//! turns bytes into messages, so that daemons wait on channels alone.

use super::{ErrorContext, Result};
use crossbeam::channel::{Receiver, unbounded};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

const NAMES: &[(&str, i32)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// The largest signal number that a request may carry.
pub const MAX_SIGNAL: i32 = 64;

/// The number of a signal given as `9`, `KILL` or `SIGKILL` (any case).
pub fn number(text: &str) -> Option<i32> {
    if let Ok(n) = text.parse::<i32>() {
        return (1..=MAX_SIGNAL).contains(&n).then_some(n);
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES
        .iter()
        .find(|(name, _)| *name == bare)
        .map(|(_, n)| *n)
}

/// The name of a signal without `SIG`; for a number without a name, the number, such as `32`.
pub fn name(number: i32) -> String {
    let known = NAMES.iter().find(|(_, n)| *n == number);
    known.map_or_else(|| number.to_string(), |(name, _)| name.to_string())
}

/// All names with their numbers, in the order of the numbers.
pub fn names() -> impl Iterator<Item = (&'static str, i32)> {
    NAMES.iter().copied()
}

static PIPE_WRITE: AtomicI32 = AtomicI32::new(-1);
static CAUGHT: AtomicBool = AtomicBool::new(false);

/// Whether a signal that this process catches has arrived: for code that must act while the thread
/// that takes signals from the channel cannot.
pub fn caught() -> bool {
    CAUGHT.load(Ordering::Relaxed)
}

/// Longest time after which a signal is noticed during a sleep, ms.
const SLICE_MS: u64 = 100;

/// Sleeps for `ms`. Returns true, at once, if such a signal arrived.
pub fn sleep_unless_caught(ms: u64) -> bool {
    if super::platform::simulated() {
        super::clock::sleep_ms(ms);
        return false;
    }
    let end = super::clock::boot_ms().saturating_add(ms);
    loop {
        let left = end.saturating_sub(super::clock::boot_ms());
        if left == 0 || caught() {
            return caught();
        }
        super::clock::sleep_ms(left.min(SLICE_MS));
    }
}

extern "C" fn note(signal: libc::c_int) {
    let fd = PIPE_WRITE.load(Ordering::Relaxed);
    let byte = signal as u8;
    CAUGHT.store(true, Ordering::Relaxed);
    // SAFETY: write is async-signal-safe; errno belongs to the interrupted code, but glibc's write
    // changes it only on failure, which can only be a pipe full of pending signals: harmless here.
    unsafe { libc::write(fd, (&raw const byte).cast(), 1) };
}

/// Catches the given signals for the rest of this process's life and delivers their numbers on a
/// channel. Call it once, early.
pub fn catch(signals: &[i32]) -> Result<Receiver<i32>> {
    if super::platform::simulated() {
        return Ok(crossbeam::channel::never());
    }
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
        .at("make a pipe for", Path::new("signals"))?;
    PIPE_WRITE.store(write.as_raw_fd(), Ordering::Relaxed);
    // The handler uses the descriptor permanently: never close it.
    std::mem::forget(write);
    for s in signals {
        set_handler(*s, note as *const () as libc::sighandler_t);
    }
    let (tx, rx) = unbounded();
    let spawned = std::thread::Builder::new()
        .name("signals".to_string())
        .stack_size(64 << 10)
        .spawn(move || forward(read, &tx));
    spawned
        .map(drop)
        .at("start a thread for", Path::new("signals"))?;
    Ok(rx)
}

static QUEUE_WRITE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn queue(signal: libc::c_int) {
    let fd = QUEUE_WRITE.load(Ordering::Relaxed);
    let byte = signal as u8;
    // SAFETY: as in `note`; errno may change, which the interrupted code sees as EINTR or EAGAIN.
    unsafe { libc::write(fd, (&raw const byte).cast(), 1) };
}

/// Signals of this process as bytes to be read: for a loop that waits for descriptors.
#[derive(Debug)]
pub struct SignalQueue(File);

impl SignalQueue {
    /// Catches the given signals for the rest of this process's life. Call it once.
    pub fn open(signals: &[i32]) -> Result<SignalQueue> {
        let flags = nix::fcntl::OFlag::O_CLOEXEC | nix::fcntl::OFlag::O_NONBLOCK;
        let made = nix::unistd::pipe2(flags).at("make a pipe for", Path::new("signals"));
        let (read, write) = made?;
        QUEUE_WRITE.store(write.as_raw_fd(), Ordering::Relaxed);
        // The handler uses the descriptor permanently: never close it.
        std::mem::forget(write);
        for s in signals {
            set_handler(*s, queue as *const () as libc::sighandler_t);
        }
        Ok(SignalQueue(File::from(read)))
    }

    /// The next signal that arrived; `None`: there is none.
    pub fn next_signal(&self) -> Option<i32> {
        let mut byte = [0u8; 1];
        match (&self.0).read(&mut byte) {
            Ok(1) => Some(i32::from(byte[0])),
            _ => None,
        }
    }
}

impl AsRawFd for SignalQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Stops this process as the shell's job control does, until it is continued.
pub fn stop_self() {
    // SAFETY: a plain call.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Stops this process and those that the shell started with it, as the terminal's key does, until
/// they are continued. If no shell could continue them, nothing happens.
pub fn stop_group() {
    // SAFETY: sigaction is plain data, filled in by the first call before the second one reads it.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigemptyset(&mut default.sa_mask);
        libc::sigaction(libc::SIGTSTP, &raw const default, &raw mut before);
        libc::kill(0, libc::SIGTSTP);
        libc::sigaction(libc::SIGTSTP, &raw const before, std::ptr::null_mut());
    }
}

fn forward(read: OwnedFd, tx: &crossbeam::channel::Sender<i32>) {
    let mut byte = [0u8; 1];
    loop {
        match nix::unistd::read(&read, &mut byte) {
            Ok(1) => {
                if tx.send(i32::from(byte[0])).is_err() {
                    return;
                }
            }
            Err(nix::Error::EINTR) => {}
            _ => return,
        }
    }
}

/// `catch` for the signals that end a daemon: TERM and INT. SIGHUP is left to the caller.
pub fn catch_term() -> Result<Receiver<i32>> {
    catch(&[libc::SIGTERM, libc::SIGINT])
}

fn set_handler(signal: i32, handler: libc::sighandler_t) {
    // SAFETY: sigaction is plain data; the handler is `note`, SIG_DFL or SIG_IGN.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Restores the default of SIGPIPE, so that a command ends silently when its reader ends.
pub fn default_sigpipe() {
    set_handler(libc::SIGPIPE, libc::SIG_DFL);
}

/// Ignores SIGHUP: a daemon started from a terminal outlives the terminal.
pub fn ignore_hangup() {
    set_handler(libc::SIGHUP, libc::SIG_IGN);
}

/// Ignores SIGPIPE: writes to a closed pipe or socket return an error instead.
pub fn ignore_sigpipe() {
    set_handler(libc::SIGPIPE, libc::SIG_IGN);
}

/// Resets every signal to its default and unblocks all, as a job expects them.
pub fn reset_all() {
    for n in 1..=MAX_SIGNAL {
        set_handler(n, libc::SIG_DFL);
    }
    // SAFETY: the set is filled before use.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_inverse() {
        for (n, i) in names() {
            assert_eq!(number(n), Some(i));
            assert_eq!(name(i), n);
        }
        assert_eq!(number("sigterm"), Some(15));
        assert_eq!(
            (number("0"), number("65"), number("NONE")),
            (None, None, None)
        );
    }

    #[test]
    fn a_caught_signal_arrives_on_the_channel() {
        let rx = catch(&[libc::SIGUSR2]).unwrap();
        super::super::proc::kill(std::process::id() as i32, libc::SIGUSR2).unwrap();
        let got = rx.recv_timeout(std::time::Duration::from_secs(60));
        assert_eq!(got, Ok(libc::SIGUSR2));
    }
}
