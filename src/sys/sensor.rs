//! Runs a sensor: a program of an administrator that prints for as long as it runs.
//!
//! Owns its two pipes, which are read without waiting, and its process group. It runs permanently
//! as the account that this process acts as, and dies with the thread that started it.

use super::{ErrorContext, Result, proc};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

/// A started sensor.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

/// One of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Output,
    Errors,
}

/// Starts `program` with only `env`, in its own session.
///
/// # Errors
/// It cannot be started.
pub fn start(program: &Path, env: &[(String, OsString)]) -> Result<Running> {
    let mut command = Command::new(program);
    command
        .env_clear()
        .envs(env.iter().map(|(k, v)| (k, v)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (uid, gid) = (super::users::effective_uid(), super::users::effective_gid());
    let parent = proc::own_pid() as i32;
    // SAFETY: only async-signal-safe system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            super::signals::reset_all();
            // A daemon that is root with another effective id must not pass that on.
            let dropped = libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0
                && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0;
            if !dropped {
                return Err(std::io::Error::last_os_error());
            }
            libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 4u32);
            // After the change of ids, which resets it.
            proc::die_with_parent(libc::SIGKILL);
            if libc::getppid() != parent {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
    let mut child = command.spawn().at("start", program)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut running = Running {
        child,
        stdout,
        stderr,
    };
    let set = running.set_nonblocking().at("open a pipe to", program);
    if let Err(e) = set {
        running.kill(libc::SIGKILL);
        let _ = running.child.wait();
        return Err(e);
    }
    Ok(running)
}

impl Running {
    fn set_nonblocking(&self) -> std::io::Result<()> {
        let flag = FcntlArg::F_SETFL(OFlag::O_NONBLOCK);
        if let Some(out) = &self.stdout {
            fcntl(out.as_fd(), flag)?;
        }
        if let Some(err) = &self.stderr {
            fcntl(err.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(())
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Reads what a stream has now; 0: nothing. A stream that has ended has nothing any more.
    pub fn read(&mut self, stream: Stream, buf: &mut [u8]) -> usize {
        // No room in the buffer is not the end of the stream.
        if buf.is_empty() {
            return 0;
        }
        let read = match stream {
            Stream::Output => self.stdout.as_mut().map(|s| s.read(buf)),
            Stream::Errors => self.stderr.as_mut().map(|s| s.read(buf)),
        };
        match read {
            Some(Ok(n)) if n > 0 => n,
            Some(Err(e)) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            _ => {
                match stream {
                    Stream::Output => self.stdout = None,
                    Stream::Errors => self.stderr = None,
                }
                0
            }
        }
    }

    /// How it ended, once it has, and its exit code, if there is one; collects it.
    pub fn has_ended(&mut self) -> Option<(String, Option<i32>)> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some((status_text(status), status.code())),
            Err(e) => Some((e.to_string(), None)),
        }
    }

    /// Sends a signal to its whole process group. Only valid until it has been collected.
    pub fn kill(&self, signal: i32) {
        let _ = proc::killpg(self.pid(), signal);
    }
}

fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown end".to_owned(),
    }
}

/// Waits until one of these streams has data or has ended, at most `ms`.
pub fn wait_any<'a>(streams: impl Iterator<Item = (&'a Running, Stream)>, ms: u64) {
    let fd = |(running, stream): (&Running, Stream)| match stream {
        Stream::Output => running.stdout.as_ref().map(AsRawFd::as_raw_fd),
        Stream::Errors => running.stderr.as_ref().map(AsRawFd::as_raw_fd),
    };
    let poll = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut all: Vec<libc::pollfd> = streams.filter_map(fd).map(poll).collect();
    let ms = i32::try_from(ms).unwrap_or(i32::MAX);
    // SAFETY: `all` is a valid array of that many entries.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, ms) };
}

/// Kills every process that has this `NAME=value` in its environment. Returns their number.
pub fn kill_marked(mark: &str) -> usize {
    let wanted = [mark.to_owned()];
    let mut killed = 0;
    // A killed process may have forked a moment before.
    for _ in 0..5 {
        let me = proc::own_pid() as i32;
        let alive = |pid: &i32| {
            let state = proc::info(*pid).map_or('X', |i| i.state);
            *pid != me && !matches!(state, 'Z' | 'X')
        };
        let all = proc::with_environment(&wanted);
        let all: Vec<i32> = all.into_iter().filter(alive).collect();
        if all.is_empty() {
            break;
        }
        for pid in all {
            killed += usize::from(proc::kill(pid, libc::SIGKILL).unwrap_or(false));
        }
    }
    killed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock;

    fn shell(text: &str, mark: &str) -> (tempfile::TempDir, Running) {
        use std::os::unix::fs::PermissionsExt;
        let d = tempfile::tempdir().unwrap();
        let path = d.path().join("ress.host");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let env = [
            ("PATH".to_owned(), "/bin:/usr/bin".into()),
            ("CB_SENSOR".to_owned(), mark.into()),
        ];
        let running = start(&path, &env).unwrap();
        (d, running)
    }

    fn until(mut done: impl FnMut() -> bool) {
        let end = clock::boot_ms() + 120_000;
        while !done() {
            assert!(clock::boot_ms() < end, "it takes too long");
            clock::sleep_ms(10);
        }
    }

    #[test]
    fn both_streams_are_read_without_waiting_and_the_end_is_told() {
        let (_d, mut r) = shell("echo out; echo err >&2; sleep 0.2; exit 3", "a");
        let (mut out, mut err, mut buf) = (Vec::new(), Vec::new(), [0; 64]);
        let mut end = None;
        assert_eq!(r.read(Stream::Output, &mut []), 0);
        assert_eq!(r.read(Stream::Errors, &mut []), 0);
        until(|| {
            wait_any([(&r, Stream::Output), (&r, Stream::Errors)].into_iter(), 50);
            let n = r.read(Stream::Output, &mut buf);
            out.extend_from_slice(&buf[..n]);
            let n = r.read(Stream::Errors, &mut buf);
            err.extend_from_slice(&buf[..n]);
            end = r.has_ended();
            end.is_some()
        });
        assert_eq!((&out[..], &err[..]), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(end, Some(("exit 3".to_owned(), Some(3))));
        assert_eq!(r.read(Stream::Output, &mut buf), 0);
    }

    #[test]
    fn what_left_the_group_is_found_by_its_mark() {
        let mark = format!("test-{}", clock::nonce(8));
        let (_d, mut r) = shell("setsid sleep 600 & sleep 600", &mark);
        let wanted = [format!("CB_SENSOR={mark}")];
        // The process in the background has the mark before it has left the group.
        until(|| {
            let all = proc::with_environment(&wanted);
            let groups = all.iter().filter_map(|pid| Some(proc::info(*pid)?.pgrp));
            let groups: std::collections::BTreeSet<i32> = groups.collect();
            all.len() >= 3 && groups.len() == 2
        });
        r.kill(libc::SIGKILL);
        until(|| r.has_ended().is_some());
        assert!(kill_marked(&wanted[0]) >= 1);
        until(|| proc::with_environment(&wanted).is_empty());
    }
}
