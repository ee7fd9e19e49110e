//! Starting helper programs of the system itself: never a user's command.
//!
//! Owns `std::process::Command`. A helper gets one stream as its standard input and the caller's
//! standard error.

use super::{At, Result};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running helper.
#[derive(Debug)]
pub struct Helper {
    child: Child,
}

/// Starts `program` in a session of its own, with `stream` as standard input. `privileged`: a
/// caller that is root in disguise (real id 0, effective id another) makes it root again.
pub fn start(program: &Path, args: &[String], stream: File, privileged: bool) -> Result<Helper> {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::from(OwnedFd::from(stream)))
        .stdout(Stdio::null());
    // SAFETY: only async-signal-safe system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            super::signals::reset_all();
            if privileged {
                let none: [libc::gid_t; 0] = [];
                let back = libc::syscall(libc::SYS_setresuid, 0, 0, 0) == 0
                    && libc::syscall(libc::SYS_setresgid, 0, 0, 0) == 0
                    && libc::syscall(libc::SYS_setgroups, 0, none.as_ptr()) == 0;
                if !back {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let child = command.spawn().at("start", program)?;
    Ok(Helper { child })
}

/// What `program` says on its standard output, at most `max` bytes of it.
///
/// # Errors
/// It cannot be started.
pub fn output(program: &Path, args: &[&str], max: usize) -> Result<String> {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().at("start", program)?;
    let mut bytes = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        // What comes before an error is kept.
        drop(stdout.take(max as u64).read_to_end(&mut bytes));
    }
    let _ = child.kill();
    let _ = child.wait();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Pause between two looks at a program with a time limit, ms.
const LOOK_MS: u64 = 20;

/// Runs `program` with these variables beside the caller's, without input, with this new file as
/// its output and the caller's standard error. `None`: a signal ended it, or it was killed with its
/// process group after `limit_ms`.
///
/// # Errors
/// It cannot be started, or the file not be made.
pub fn run_with(
    program: &Path,
    env: &[(String, String)],
    output: &Path,
    limit_ms: u64,
) -> Result<Option<i32>> {
    let file = File::create_new(output).at("create", output)?;
    let mut command = Command::new(program);
    command
        .envs(env.iter().map(|(n, v)| (n, v)))
        .stdin(Stdio::null())
        .stdout(Stdio::from(OwnedFd::from(file)))
        .process_group(0);
    let child = command.spawn().at("start", program)?;
    wait_at_most(child, program, limit_ms)
}

/// The code of a process, which leads a group of its own; `None`: a signal ended it, or the group
/// was killed when the time was up.
fn wait_at_most(mut child: Child, program: &Path, limit_ms: u64) -> Result<Option<i32>> {
    let end = super::clock::boot_ms().saturating_add(limit_ms);
    loop {
        match child.try_wait().at("wait for", program)? {
            Some(status) => return Ok(status.code()),
            None if super::clock::boot_ms() >= end => {
                let _ = super::proc::killpg(child.id() as i32, libc::SIGKILL);
                let _ = child.wait();
                return Ok(None);
            }
            None => super::clock::sleep_ms(LOOK_MS),
        }
    }
}

/// Runs `program` with these words, these variables and no others, and `input` on its standard
/// input, of at most [`INPUT_MAX`] bytes; its output goes to the caller's standard error. `None`: a
/// signal ended it, or it was killed with its process group after `limit_ms`.
///
/// # Errors
/// It cannot be started, or the input is too long.
pub fn feed(
    program: &Path,
    args: &[String],
    env: &[(&str, String)],
    input: &[u8],
    limit_ms: u64,
) -> Result<Option<i32>> {
    if input.len() > INPUT_MAX {
        let text = format!("its input has more than {INPUT_MAX} bytes");
        return Err(super::Error::invalid("start", program, text));
    }
    let (output, own) = (std::io::stderr().as_fd().try_clone_to_owned(), program);
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(env.iter().map(|(n, v)| (n, v)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::from(output.at("start", own)?))
        .process_group(0);
    let mut child = command.spawn().at("start", program)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It fits into the pipe: this never waits. A program need not read it.
        drop(stdin.write_all(input));
    }
    wait_at_most(child, program, limit_ms)
}

/// Most bytes of [`feed`]'s input: what a pipe takes without a reader.
pub const INPUT_MAX: usize = 64 << 10;

impl Helper {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// True once it has ended; collects it.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it and collects it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program `name` beside the running one: helpers of one installation belong together.
pub fn sibling(name: &str) -> PathBuf {
    let here = std::env::current_exe().ok();
    here.and_then(|p| Some(p.parent()?.join(name)))
        .unwrap_or_else(|| PathBuf::from(name))
}
