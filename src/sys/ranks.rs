//! The processes of a job's tasks, started from inside the job by a separate process.
//!
//! Owns how they are started and awaited. They are ordinary children with the caller's identity;
//! nothing here is privileged.

use super::supervise::{self, Ended, Reaped};
use super::{ErrorContext, Result, clock};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Pause between two checks of children while a time limit runs, ms.
const POLL_MS: u64 = 20;

/// Signals to a whole job that the process starting its tasks survives: it ends when its tasks have
/// ended.
const OUTLIVED: &[libc::c_int] = &[
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGQUIT,
];

extern "C" fn ignore_signal(_: libc::c_int) {}

/// From now on signals to a whole job do not end this process. Its children receive them as usual.
pub fn outlive_signals() {
    for signal in OUTLIVED {
        // SAFETY: the handler does nothing; a handler, unlike an ignored signal, is not inherited.
        unsafe {
            let mut act: libc::sigaction = std::mem::zeroed();
            act.sa_sigaction = ignore_signal as *const () as libc::sighandler_t;
            libc::sigaction(*signal, &act, std::ptr::null_mut());
        }
    }
}

/// A process to start.
#[derive(Debug)]
pub struct Rank<'a> {
    /// Program, looked up in PATH, and its arguments.
    pub argv: &'a [String],
    /// Variables that are added to this process's environment.
    pub env: &'a [(String, String)],
    /// Variables that are removed from it.
    pub removed_variables: &'a [String],
    /// It reads this process's input; otherwise it has none.
    pub reads: bool,
    /// It gets its own process group. On a terminal it could then not read from it.
    pub own_group: bool,
}

impl Rank<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(&self) -> Result<i32> {
        let name = self.argv.first().map_or("", String::as_str);
        let mut command = Command::new(name);
        command.args(self.argv.iter().skip(1));
        for name in self.removed_variables {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(n, v)| (n, v)));
        if !self.reads {
            command.stdin(Stdio::null());
        }
        if self.own_group {
            command.process_group(0);
        }
        let child = command.spawn().at("start", Path::new(name))?;
        Ok(i32::try_from(child.id()).unwrap_or(0))
    }
}

/// Waits until a child has ended, or until `ms` have passed. `None`: no child ended.
pub fn wait(ms: Option<u64>) -> Option<(i32, Ended)> {
    let end = ms.map(|ms| clock::boot_ms().saturating_add(ms));
    loop {
        match supervise::reap() {
            Reaped::Child(pid, how) => return Some((pid, how)),
            Reaped::None => return None,
            Reaped::Running if end.is_some_and(|end| clock::boot_ms() >= end) => return None,
            Reaped::Running if end.is_some() => clock::sleep_ms(POLL_MS),
            Reaped::Running => supervise::wait_child(),
        }
    }
}

/// Signals a task with its process group, if it has its own; a task that is gone is ignored.
pub fn signal(pid: i32, signal: i32) {
    if pid > 1 && !matches!(super::proc::killpg(pid, signal), Ok(true)) {
        let _ = super::proc::kill(pid, signal);
    }
}

/// The first of `count` consecutive ports that are free here, below those that systems usually
/// assign. `seed` distributes the jobs of one host.
pub fn free_ports(count: usize, seed: u32) -> Option<u16> {
    const FIRST: u32 = 20_000;
    const LAST: u32 = 32_000;
    let count = u32::try_from(count.max(1)).ok()?;
    let room = (LAST - FIRST).checked_sub(count)?;
    let free = |port: u32| {
        let port = u16::try_from(port).unwrap_or(0);
        TcpListener::bind(("0.0.0.0", port)).is_ok()
    };
    (0..64u32).find_map(|n| {
        let spread = seed
            .wrapping_mul(37)
            .wrapping_add(n.wrapping_mul(count + 101));
        let from = FIRST + spread % room;
        let all = (from..from + count).all(free);
        all.then(|| u16::try_from(from).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_a_row_are_free() {
        let seed = std::process::id();
        let port = free_ports(3, seed).unwrap();
        // Another process may have been faster.
        if let Ok(held) = TcpListener::bind(("0.0.0.0", port + 1)) {
            assert_ne!(free_ports(3, seed), Some(port));
            drop(held);
        }
        assert_eq!(free_ports(100_000, 7), None);
    }
}
