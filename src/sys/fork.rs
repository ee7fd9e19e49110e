//! A forked child that works on a frozen copy of this process's memory.
//!
//! Owns `fork` for snapshots only (tasks are forked by the shepherd's own code). The child has one
//! thread, the caller's: it must not wait for any other thread or take a lock that one may hold.

use super::{Error, ErrorContext, Result};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::os::fd::RawFd;
use std::path::Path;

/// A running forked child.
#[derive(Debug)]
pub struct Forked {
    pid: Pid,
    /// Its exit code, if it ran to its end at once: on a simulated machine.
    ended: Option<i32>,
}

/// Runs `f` in a forked child, whose exit code is what `f` returns (0..=255). The C library's
/// allocator is made consistent by its own fork handlers, and that of `cbsched` takes no lock to
/// allocate, so `f` may allocate and write files; descriptors inherited from the parent must not be
/// written.
pub fn fork_snapshot(f: impl FnOnce() -> i32) -> Result<Forked> {
    if super::platform::simulated() {
        let (pid, ended) = (Pid::from_raw(0), Some(f()));
        return Ok(Forked { pid, ended });
    }
    let parent = nix::unistd::getpid();
    // SAFETY: the child runs only `f` under the rule above and leaves by _exit, so no destructor
    // or exit handler of the parent runs twice.
    match unsafe { fork() }.at("fork", Path::new("a snapshot writer"))? {
        ForkResult::Parent { child } => Ok(Forked {
            pid: child,
            ended: None,
        }),
        ForkResult::Child => {
            // It holds copies of the parent's locks, so it must not outlive the parent.
            let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
            if nix::unistd::getppid() != parent {
                // SAFETY: as below. The parent died before the signal was set.
                unsafe { libc::_exit(102) }
            }
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
            // SAFETY: _exit ends the process at once.
            unsafe { libc::_exit(caught.unwrap_or(101)) }
        }
    }
}

/// A plain fork for a process with one thread: `Ok(0)` in the child.
pub fn fork_plain() -> Result<i32> {
    // SAFETY: the caller has one thread, so there are no restrictions for the child.
    match unsafe { libc::fork() } {
        pid if pid >= 0 => Ok(pid),
        _ => Err(Error::last("fork", Path::new("a supervisor"))),
    }
}

/// Separates a forked process: gives it its own session and a name in lists of processes, and
/// closes all descriptors except the standard ones and these. It must not close what it inherited
/// in memory.
pub fn detach(name: &std::ffi::CStr, keep: &[RawFd]) {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    // SAFETY: a constant text, and integers; the owner of a descriptor that is closed here never
    // uses it again, as the caller promises.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        let mut from = 3;
        for fd in keep.into_iter().filter(|fd| *fd >= 3) {
            if fd > from {
                libc::syscall(libc::SYS_close_range, from as u32, fd as u32 - 1, 0u32);
            }
            from = fd + 1;
        }
        libc::syscall(libc::SYS_close_range, from as u32, u32::MAX, 0u32);
    }
}

impl Forked {
    /// `None` while it runs, then its exit code (128 + signal if it was killed).
    pub fn try_wait(&mut self) -> Result<Option<i32>> {
        self.wait_with(Some(WaitPidFlag::WNOHANG))
    }

    /// Waits for the end and returns the exit code (128 + signal if it was killed).
    pub fn wait(&mut self) -> Result<i32> {
        loop {
            if let Some(code) = self.wait_with(None)? {
                return Ok(code);
            }
        }
    }

    /// Kills the child; `wait` collects it.
    pub fn kill(&self) {
        let _ = super::proc::kill(self.pid.as_raw(), libc::SIGKILL);
    }

    /// The child's process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    fn wait_with(&mut self, flags: Option<WaitPidFlag>) -> Result<Option<i32>> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        match waitpid(self.pid, flags) {
            Ok(WaitStatus::Exited(_, code)) => Ok(Some(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(128 + signal as i32)),
            Ok(_) | Err(nix::Error::EINTR) => Ok(None),
            Err(e) => Err(e).at("wait for", Path::new("a snapshot writer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_sees_the_memory_of_the_moment_and_returns_its_code() {
        let data = vec![1u8; 1 << 20];
        let mut c = fork_snapshot(|| if data.iter().all(|b| *b == 1) { 7 } else { 1 }).unwrap();
        assert_eq!(c.wait().unwrap(), 7);
    }

    #[test]
    fn a_killed_child_is_never_a_success() {
        let mut c = fork_snapshot(|| {
            super::super::clock::sleep_ms(10_000);
            0
        })
        .unwrap();
        assert_eq!(c.try_wait().unwrap(), None);
        c.kill();
        assert_eq!(c.wait().unwrap(), 128 + 9);
    }
}
