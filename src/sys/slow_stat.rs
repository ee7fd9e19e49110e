//! Looking up a path that may be on a file system that hangs, such as an automounted home: the
//! caller waits for a limited time. A thread that does not return stays in the kernel; there are
//! few of them.

use super::{Result, fs, platform};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Maximum number of threads that wait for a file system.
const THREADS_MAX: usize = 8;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// As [`fs::stat`]; `None` if there is no answer within `wait_ms`, or if too many callers wait.
pub fn stat(path: &Path, wait_ms: u64) -> Option<Result<Option<fs::Stat>>> {
    if platform::simulated() {
        return Some(fs::stat(path));
    }
    let path = path.to_path_buf();
    within(wait_ms, move || fs::stat(&path))
}

/// What `look` returns in time.
fn within<T: Send + 'static>(wait_ms: u64, look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if THREADS.fetch_add(1, Ordering::AcqRel) >= THREADS_MAX {
        THREADS.fetch_sub(1, Ordering::AcqRel);
        return None;
    }
    let (send, receive) = mpsc::channel();
    let thread = std::thread::Builder::new().name("stat".into());
    let started = thread.spawn(move || {
        let found = look();
        THREADS.fetch_sub(1, Ordering::AcqRel);
        // The caller may have given up.
        drop(send.send(found));
    });
    if started.is_err() {
        THREADS.fetch_sub(1, Ordering::AcqRel);
        return None;
    }
    receive.recv_timeout(Duration::from_millis(wait_ms)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system that hangs takes neither the caller nor all memory.
    #[test]
    fn a_path_that_does_not_answer_is_given_up() {
        assert!(stat(Path::new("/tmp"), 10_000).unwrap().unwrap().is_some());
        assert!(
            stat(Path::new("/no/such"), 10_000)
                .unwrap()
                .unwrap()
                .is_none()
        );
        let mut ends = Vec::new();
        for _ in 0..THREADS_MAX {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            assert!(within(1, move || ended.recv().is_ok()).is_none());
        }
        let began = std::time::Instant::now();
        assert!(stat(Path::new("/tmp"), 60_000).is_none(), "enough wait");
        assert!(began.elapsed() < Duration::from_secs(30));
        drop(ends);
        let answers = || stat(Path::new("/tmp"), 10_000).is_some();
        assert!((0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            answers()
        }));
    }
}
