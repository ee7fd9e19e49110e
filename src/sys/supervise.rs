//! Supervising a job's processes: orders to the shepherd, signals held back, children collected.
//!
//! Owns what makes a process a supervisor and how it waits. Starts nothing (`launch` does) and ends
//! nothing.

use super::{Error, Result};
use std::ffi::{c_int, c_void};
use std::io;
use std::path::Path;

/// The signal that carries orders to a supervising process.
fn order_signal() -> c_int {
    libc::SIGRTMIN() + 4
}

/// Makes this process a supervisor: it gets its own session, orphans of its descendants become its
/// children, signals are held back for `wait_signal`, and only a kill can end it from outside.
pub fn become_supervisor() {
    // SAFETY: plain calls with integers; the set is filled before use.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        // This is the real id: root acts as the cluster's account here, and can return to its own.
        if libc::getuid() == 0 {
            // A privileged process writes no core into a user's directory, and other processes
            // cannot read its memory.
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        }
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}

/// Sets the name of this process in lists of processes: forked without exec, a supervisor would
/// have the name of the process that forks supervisors.
pub fn name_supervisor() {
    // SAFETY: a constant text.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"cbtask".as_ptr()) };
}

/// Holds back the signals of a supervisor's children and orders, for a process that will fork
/// supervisors, so that none is lost before they wait. In lists of processes it is `cbspawner` from
/// then on.
pub fn hold_signals() {
    // SAFETY: the set is filled before use.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"cbspawner".as_ptr());
        let set = supervisor_set();
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

unsafe fn supervisor_set() -> libc::sigset_t {
    // SAFETY: an all-zero set is valid memory for sigemptyset.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigaddset(&mut set, order_signal());
        set
    }
}

/// Why `wait_signal` returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// A child may have changed state.
    Child,
    /// An order with its value, from a process of this real user id.
    Order(u64, u32),
    /// The time is over.
    Timeout,
}

/// Waits for a child or an order; `None` waits without limit.
pub fn wait_signal(timeout_ms: Option<u64>) -> WakeReason {
    // SAFETY: all pointers refer to locals that outlive the call; `si_value` is read only for the
    // order signal, which is sent with a value.
    unsafe {
        let set = supervisor_set();
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let signal = match timeout_ms {
            None => libc::sigwaitinfo(&set, &mut info),
            Some(ms) => {
                let t = libc::timespec {
                    tv_sec: (ms / 1000).min(1 << 30) as libc::time_t,
                    tv_nsec: (ms % 1000 * 1_000_000) as libc::c_long,
                };
                libc::sigtimedwait(&set, &mut info, &t)
            }
        };
        match signal {
            libc::SIGCHLD => WakeReason::Child,
            s if s == order_signal() => {
                WakeReason::Order(info.si_value().sival_ptr as usize as u64, info.si_uid())
            }
            _ => WakeReason::Timeout,
        }
    }
}

/// Sends an order to a supervising process. `Ok(false)` if it is gone.
pub fn send_order(pid: i32, value: u64) -> Result<bool> {
    assert!(pid > 1, "order to a special pid {pid}");
    if let Some(machine) = super::platform::here() {
        return Ok(machine.send_order(pid, value));
    }
    let value = libc::sigval {
        sival_ptr: value as usize as *mut c_void,
    };
    // SAFETY: a plain call; the value is only a number to the receiver.
    if unsafe { libc::sigqueue(pid, order_signal(), value) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        e => Err(Error::new(
            "send an order to",
            Path::new(&format!("pid {pid}")),
            e,
        )),
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Exit code.
    Exited(i32),
    /// Signal, and whether a core was written.
    Killed(i32, bool),
}

/// The result of `reap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// This child ended.
    Child(i32, Ended),
    /// There are children, but none has ended.
    Running,
    /// There is no child.
    None,
}

/// Collects one ended child without waiting.
pub fn reap() -> Reaped {
    let mut status = 0;
    // SAFETY: plain call with a valid pointer.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    match pid {
        0 => Reaped::Running,
        p if p < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {
            Reaped::Running
        }
        p if p < 0 => Reaped::None,
        p if libc::WIFSIGNALED(status) => Reaped::Child(
            p,
            Ended::Killed(libc::WTERMSIG(status), libc::WCOREDUMP(status)),
        ),
        p => Reaped::Child(p, Ended::Exited(libc::WEXITSTATUS(status))),
    }
}

/// Waits until a child has ended, and leaves it to [`reap`]; returns early if a signal arrives.
pub fn wait_child() {
    // SAFETY: an all-zero siginfo is valid memory for the call; nothing of it is read.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &mut info, libc::WEXITED | libc::WNOWAIT);
    }
}

/// The usage of ended children of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildUsage {
    pub cpu_us: u64,
    /// Largest resident set of one process, KB.
    pub maxrss_kb: u64,
    /// Read from and written to disks, KB.
    pub read_kb: u64,
    pub write_kb: u64,
}

/// Reads the usage of all children that were collected, including that of their own children.
pub fn child_usage() -> ChildUsage {
    // SAFETY: rusage is plain data; the call fills it.
    let u = unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut u);
        u
    };
    let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    ChildUsage {
        cpu_us: us(u.ru_utime) + us(u.ru_stime),
        maxrss_kb: u.ru_maxrss as u64,
        read_kb: u.ru_inblock as u64 / 2,
        write_kb: u.ru_oublock as u64 / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(pid: i32) -> i32 {
        let mut status = 0;
        // SAFETY: waits for the child that was just created.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_privileged_supervisor_leaves_no_core_whomever_it_acts_as() {
        if !super::super::users::may_switch() {
            println!("skipped: not root");
            return;
        }
        for acting in [0, 65_534] {
            // SAFETY: the child makes plain system calls only, then ends.
            let pid = unsafe {
                match libc::fork() {
                    0 => {
                        libc::syscall(libc::SYS_setresuid, -1, acting, -1);
                        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
                        become_supervisor();
                        libc::_exit(libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0))
                    }
                    pid => pid,
                }
            };
            assert_eq!(code(pid), 0, "acting as {acting}");
        }
    }
}
