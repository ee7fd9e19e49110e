//! Threads of this process and their waits for messages, here or in a simulated process.
//!
//! Owns nothing but the split: in a simulation a thread is one more actor of its process, and a
//! wait for a message is a series of short sleeps of its clock.

use super::{clock, platform};
use crossbeam::channel::{Receiver, RecvError, RecvTimeoutError, TryRecvError, select};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// First and longest sleep of a simulated wait, ms, which is how late a message may be noticed.
/// Each is as long as all earlier ones together.
const SLICE_MS: (u64, u64) = (250, 2000);

/// A thread that was started here.
#[derive(Debug)]
pub enum Thread {
    /// On this machine.
    Real(JoinHandle<()>),
    /// On a simulated one; true once it has ended.
    Simulated(Arc<AtomicBool>),
}

/// Starts a thread with a small stack.
pub fn spawn(name: &str, stack: usize, f: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    if let Some(machine) = platform::here() {
        let ended = Arc::new(AtomicBool::new(false));
        let mark = ended.clone();
        let body = move || {
            f();
            mark.store(true, Ordering::Release);
        };
        machine.spawn(name, Box::new(body));
        return Ok(Thread::Simulated(ended));
    }
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.stack_size(stack).spawn(f).map(Thread::Real)
}

impl Thread {
    /// True once it has ended.
    pub fn is_finished(&self) -> bool {
        match self {
            Thread::Real(handle) => handle.is_finished(),
            Thread::Simulated(ended) => ended.load(Ordering::Acquire),
        }
    }

    /// Waits for its end.
    pub fn join(self) {
        match self {
            Thread::Real(handle) => drop(handle.join()),
            Thread::Simulated(ended) => {
                while !ended.load(Ordering::Acquire) {
                    clock::sleep_ms(1);
                }
            }
        }
    }
}

/// Binds this thread, and those that it starts from now on, to one processor: threads that run one
/// after the other switch faster there. If that is not allowed, nothing happens.
pub fn bind_to_processor(number: usize) {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    let me = nix::unistd::Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(me) else {
        return;
    };
    let is_allowed = |n: &usize| allowed.is_set(*n).unwrap_or(false);
    let all: Vec<usize> = (0..CpuSet::count()).filter(is_allowed).collect();
    let mut one = CpuSet::new();
    if let Some(n) = all.get(number % all.len().max(1))
        && one.set(*n).is_ok()
    {
        let _ = sched_setaffinity(me, &one);
    }
}

/// Waits for a message for at most `ms` milliseconds.
///
/// # Errors
/// No message arrived, or none can arrive any more.
pub fn recv_timeout<T>(rx: &Receiver<T>, ms: u64) -> Result<T, RecvTimeoutError> {
    if !platform::simulated() {
        return rx.recv_timeout(Duration::from_millis(ms));
    }
    let began = clock::boot_ms();
    loop {
        match rx.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {}
        }
        let waited = clock::boot_ms().saturating_sub(began);
        if waited >= ms {
            return Err(RecvTimeoutError::Timeout);
        }
        let slice = waited.clamp(SLICE_MS.0, SLICE_MS.1);
        clock::sleep_ms(slice.min(ms - waited));
    }
}

/// Waits for a message.
///
/// # Errors
/// No message can arrive any more.
pub fn recv<T>(rx: &Receiver<T>) -> Result<T, RecvError> {
    if !platform::simulated() {
        return rx.recv();
    }
    loop {
        match recv_timeout(rx, 60_000) {
            Ok(message) => return Ok(message),
            Err(RecvTimeoutError::Disconnected) => return Err(RecvError),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Which of two channels had a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadyChannel {
    First,
    Second,
    Third,
    /// No message arrived within the time.
    Neither,
}

/// Waits for a message on any of three channels for at most `ms` milliseconds and takes it; that of
/// the third channel is returned.
pub fn any<A, B, C>(
    first: &Receiver<A>,
    second: &Receiver<B>,
    third: &Receiver<C>,
    ms: u64,
) -> (ReadyChannel, Option<C>) {
    if platform::simulated() {
        let which = match recv_timeout(first, ms) {
            Err(RecvTimeoutError::Timeout) => match second.try_recv() {
                Ok(_) => ReadyChannel::Second,
                Err(_) => ReadyChannel::Neither,
            },
            _ => ReadyChannel::First,
        };
        return match (which, third.try_recv()) {
            (ReadyChannel::Neither, Ok(message)) => (ReadyChannel::Third, Some(message)),
            (which, _) => (which, None),
        };
    }
    select! {
        recv(first) -> _ => (ReadyChannel::First, None),
        recv(second) -> _ => (ReadyChannel::Second, None),
        recv(third) -> message => (ReadyChannel::Third, message.ok()),
        default(Duration::from_millis(ms)) => (ReadyChannel::Neither, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam::channel::{bounded, unbounded};

    #[test]
    fn any_tells_which_channel_spoke() {
        let (a, first) = unbounded::<u8>();
        let (b, second) = bounded::<()>(1);
        let (c, third) = bounded::<u8>(1);
        assert_eq!(
            any(&first, &second, &third, 1),
            (ReadyChannel::Neither, None)
        );
        b.send(()).unwrap();
        assert_eq!(
            any(&first, &second, &third, 1000),
            (ReadyChannel::Second, None)
        );
        a.send(1).unwrap();
        assert_eq!(
            any(&first, &second, &third, 1000),
            (ReadyChannel::First, None)
        );
        c.send(5).unwrap();
        assert_eq!(
            any(&first, &second, &third, 1000),
            (ReadyChannel::Third, Some(5))
        );
    }

    #[test]
    fn a_thread_is_finished_when_it_returned() {
        let (tx, rx) = bounded::<()>(0);
        let thread = spawn("t", 64 << 10, move || {
            let _ = rx.recv();
        })
        .unwrap();
        assert!(!thread.is_finished());
        drop(tx);
        thread.join();
    }
}
