//! Threads of this process that the kernel holds in a call on a file: the effect of an unavailable
//! file system on its callers, whose own code cannot detect it.
//!
//! Reads `/proc/self/task` only, never the file concerned, which would hold the reader as well.

use super::proc::{ProcInfo, parse_stat};
use std::path::{Path, PathBuf};

const LIMIT: u64 = 4096;
/// Maximum number of threads that are examined.
const THREADS_MAX: usize = 100;
/// Standard input, output and error: the programs at their other ends may take any time.
const STREAMS: u64 = 2;

/// Calls that wait on purpose for something other than a file.
const WAITS: &[libc::c_long] = &[
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_futex,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_restart_syscall,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_execve,
    libc::SYS_rt_sigreturn,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
];

/// Calls whose first argument is a descriptor.
const ON_DESCRIPTORS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_getdents64,
];

/// A thread in a call on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedThread {
    pub thread: i32,
    /// The call with its arguments, and the processor time that the thread has used: if equal in
    /// two checks, it is the same call.
    pub call: (String, u64),
    /// The open file, if the call names one.
    pub file: Option<PathBuf>,
}

/// The threads of this process that are in such a call now.
pub fn blocked_threads() -> Vec<BlockedThread> {
    let names = super::fs::names(Path::new("/proc/self/task"), THREADS_MAX).unwrap_or_default();
    let ids = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    ids.filter_map(blocked_call).collect()
}

fn blocked_call(thread: i32) -> Option<BlockedThread> {
    let task = PathBuf::from(format!("/proc/self/task/{thread}"));
    let read = |name: &str| super::fs::read_small(&task.join(name), LIMIT).ok();
    let stat = parse_stat(&String::from_utf8_lossy(&read("stat")?))?;
    let call = read("syscall").map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let link = |fd: u64| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok();
    let (call, file) = describe_call(&stat, call.as_deref(), link)?;
    let call = (call, stat.utime + stat.stime);
    Some(BlockedThread { thread, call, file })
}

/// The call, and the file that it concerns, if it names one; `None` if the thread runs or waits for
/// something else. `link`: what a descriptor is open on.
fn describe_call(
    stat: &ProcInfo,
    call: Option<&str>,
    link: impl Fn(u64) -> Option<PathBuf>,
) -> Option<(String, Option<PathBuf>)> {
    if !matches!(stat.state, 'S' | 'D') {
        return None;
    }
    let text = call.unwrap_or_default().trim();
    let mut words = text.split_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse().ok()) else {
        // The kernel does not tell: then only a wait that no signal can end counts.
        return (stat.state == 'D').then(|| (String::new(), None));
    };
    // Also a thread that was held before it made a call.
    if number < 0 || WAITS.contains(&number) {
        return None;
    }
    if !ON_DESCRIPTORS.contains(&number) {
        return Some((text.to_owned(), None));
    }
    let word = words.next()?.strip_prefix("0x")?;
    let fd = u64::from_str_radix(word, 16).ok()?;
    let file = link(fd)?;
    let waits = fd <= STREAMS
        || !file.is_absolute()
        || ["/dev", "/proc", "/sys"]
            .iter()
            .any(|of| file.starts_with(of));
    (!waits).then(|| (text.to_owned(), Some(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(state: char) -> ProcInfo {
        parse_stat(&format!(
            "7 (cb) {state} 1 1 1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 99 0 50"
        ))
        .unwrap()
    }

    #[test]
    fn only_calls_on_files_count() {
        let link = |fd: u64| {
            let files = [
                "/share/script",
                "",
                "",
                "/share/view/m",
                "pipe:[7]",
                "/dev/pts/1",
            ];
            files.get(fd as usize).map(PathBuf::from)
        };
        let judge = |state, call: &str| describe_call(&stat(state), Some(call), link);
        let call = |number: libc::c_long, fd: u64| format!("{number} 0x{fd:x} 0x7f 0x0 0x0 0x0\n");
        let file = |number, fd| judge('S', &call(number, fd)).and_then(|(_, file)| file);
        assert!(judge('S', &call(libc::SYS_openat, 0xffff_ff9c)).is_some());
        assert!(judge('D', &call(libc::SYS_openat, 0xffff_ff9c)).is_some());
        assert!(judge('R', &call(libc::SYS_openat, 0xffff_ff9c)).is_none());
        assert!(judge('S', &call(libc::SYS_clock_nanosleep, 1)).is_none());
        assert!(judge('S', &call(libc::SYS_futex, 1)).is_none());
        assert!(judge('S', "running").is_none() && judge('D', "").is_some());
        assert!(judge('S', "-1 0x7ffd 0x7f02").is_none());
        assert_eq!(file(libc::SYS_read, 3), Some("/share/view/m".into()));
        assert_eq!(
            file(libc::SYS_read, 0),
            None,
            "what feeds a command may take long"
        );
        assert_eq!(file(libc::SYS_read, 4), None);
        assert_eq!(file(libc::SYS_write, 5), None);
    }

    #[test]
    fn a_thread_that_opens_a_pipe_without_a_writer_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let opener = {
            let pipe = pipe.clone();
            std::thread::spawn(move || drop(std::fs::File::open(pipe)))
        };
        let opens = |blocked: &BlockedThread| {
            blocked
                .call
                .0
                .starts_with(&format!("{} ", libc::SYS_openat))
        };
        while !blocked_threads().iter().any(opens) {
            std::thread::yield_now();
        }
        drop(std::fs::File::options().write(true).open(&pipe).unwrap());
        opener.join().unwrap();
        assert!(!blocked_threads().iter().any(opens));
    }
}
