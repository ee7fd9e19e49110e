//! Starting helper programs of the system itself: never a user's command.
//!
//! Owns `std::process::Command`. A helper gets one stream as its standard input and the caller's
//! standard error.

use super::{ErrorContext, Result};
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

/// Starts `program` in its own session, with `stream` as standard input. `privileged`: if the
/// caller is root with another effective id, the program becomes root again.
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

/// The standard output of `program`, at most `max` bytes.
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
        // What was read before an error is kept.
        drop(stdout.take(max as u64).read_to_end(&mut bytes));
    }
    let _ = child.kill();
    let _ = child.wait();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Pause between two checks of a program with a time limit, ms.
const POLL_MS: u64 = 20;

/// How a program with limits ended. Beyond a limit it is killed with its process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedEnd {
    Exited(i32),
    /// A signal ended it.
    Signalled,
    TimeLimit,
    OutputLimit,
}

/// Runs `program` with these variables beside the caller's, without input, with this new file as
/// its output, of at most about `output_max` bytes, and the caller's standard error.
///
/// # Errors
/// It cannot be started, or the file cannot be created.
pub fn run_with(
    program: &Path,
    env: &[(String, String)],
    (output, output_max): (&Path, u64),
    limit_ms: u64,
) -> Result<LimitedEnd> {
    let file = File::create_new(output).at("create", output)?;
    let mut command = Command::new(program);
    command
        .envs(env.iter().map(|(n, v)| (n, v)))
        .stdin(Stdio::null())
        .stdout(Stdio::from(OwnedFd::from(file)))
        .process_group(0);
    let child = command.spawn().at("start", program)?;
    let writes_too_much = || {
        let written = std::fs::metadata(output).map_or(0, |data| data.len());
        written > output_max
    };
    wait_within(child, program, limit_ms, writes_too_much)
}

/// Waits for a process that leads its own group.
fn wait_within(
    mut child: Child,
    program: &Path,
    limit_ms: u64,
    writes_too_much: impl Fn() -> bool,
) -> Result<LimitedEnd> {
    let end = super::clock::boot_ms().saturating_add(limit_ms);
    let beyond = loop {
        if let Some(status) = child.try_wait().at("wait for", program)? {
            return Ok(status
                .code()
                .map_or(LimitedEnd::Signalled, LimitedEnd::Exited));
        }
        if writes_too_much() {
            break LimitedEnd::OutputLimit;
        }
        if super::clock::boot_ms() >= end {
            break LimitedEnd::TimeLimit;
        }
        super::clock::sleep_ms(POLL_MS);
    };
    let _ = super::proc::killpg(child.id() as i32, libc::SIGKILL);
    let _ = child.wait();
    Ok(beyond)
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
        // It fits into the pipe, so this never blocks. The program need not read it.
        drop(stdin.write_all(input));
    }
    Ok(match wait_within(child, program, limit_ms, || false)? {
        LimitedEnd::Exited(code) => Some(code),
        LimitedEnd::Signalled | LimitedEnd::TimeLimit | LimitedEnd::OutputLimit => None,
    })
}

/// Maximum size in bytes of [`feed`]'s input: what a pipe accepts without a reader.
pub const INPUT_MAX: usize = 64 << 10;

impl Helper {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Whether it has ended; collects it.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it and collects it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program `name` beside the running one: helper programs are always those of the same
/// installation.
pub fn sibling(name: &str) -> PathBuf {
    let own_path = std::env::current_exe().ok();
    own_path
        .and_then(|p| Some(p.parent()?.join(name)))
        .unwrap_or_else(|| PathBuf::from(name))
}

/// A program of the system whose standard input and output are one descriptor that a user holds,
/// until that is closed. It is ended when this is dropped.
#[derive(Debug)]
pub struct AttendedProgram {
    child: Option<Child>,
}

/// How an attended program is started.
#[derive(Debug)]
pub struct AttendedCommand<'a> {
    pub program: &'a Path,
    pub args: &'a [String],
    /// Added to the variables of this process.
    pub env: &'a [(&'a str, String)],
    pub dir: &'a Path,
    /// It is killed when the thread that starts it ends: only for a process with one thread.
    pub dies_with_parent: bool,
}

/// How long an attended program may take to end after it was asked to, ms.
const END_MS: u64 = 5_000;

impl AttendedProgram {
    /// Starts it in its own session. `stream` becomes its standard input and output; if it is a
    /// terminal, also its error output and controlling terminal.
    pub fn begin(
        how: &AttendedCommand<'_>,
        stream: File,
        is_terminal: bool,
    ) -> Result<AttendedProgram> {
        let mut command = Command::new(how.program);
        let copy = || stream.try_clone().at("start", how.program);
        command
            .args(how.args)
            .envs(how.env.iter().map(|(name, value)| (name, value)))
            .current_dir(how.dir)
            .stdin(Stdio::from(OwnedFd::from(copy()?)))
            .stdout(Stdio::from(OwnedFd::from(copy()?)));
        if is_terminal {
            command.stderr(Stdio::from(OwnedFd::from(copy()?)));
        }
        let dies = how.dies_with_parent;
        // SAFETY: only async-signal-safe system calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::setsid();
                super::signals::reset_all();
                if is_terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                if dies && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().at("start", how.program)?;
        Ok(AttendedProgram { child: Some(child) })
    }

    /// Whether it has ended; collects it.
    pub fn has_ended(&mut self) -> bool {
        let ended = match &mut self.child {
            Some(child) => !matches!(child.try_wait(), Ok(None)),
            None => true,
        };
        if ended {
            self.child = None;
        }
        ended
    }

    /// Asks it to end, and kills it if it does not. Waits for the end.
    pub fn end(&mut self) {
        if let Some(child) = self.child.take() {
            end_child(child);
        }
    }
}

fn end_child(mut child: Child) {
    let group = child.id() as i32;
    let _ = super::proc::killpg(group, libc::SIGHUP);
    let end = super::clock::boot_ms() + END_MS;
    while matches!(child.try_wait(), Ok(None)) {
        if super::clock::boot_ms() >= end {
            let _ = super::proc::killpg(group, libc::SIGKILL);
            let _ = child.wait();
            return;
        }
        super::clock::sleep_ms(POLL_MS);
    }
}

impl Drop for AttendedProgram {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else {
            return;
        };
        // The thread that drops it does not wait.
        let ending = std::thread::Builder::new().name("ending".to_owned());
        let _ = ending.spawn(move || end_child(child));
    }
}

#[cfg(test)]
mod attended_tests {
    use super::*;
    use crate::sys::{ipc, terminal};

    fn attend(line: &str, is_terminal: bool) -> (File, AttendedProgram) {
        let (mine, other) = match is_terminal {
            true => terminal::open_pair(31, 97).unwrap(),
            false => ipc::pair().unwrap(),
        };
        let how = AttendedCommand {
            program: Path::new("/bin/sh"),
            args: &["-c".to_owned(), line.to_owned()],
            env: &[("ATTENDED", "yes".to_owned())],
            dir: Path::new("/"),
            dies_with_parent: false,
        };
        let attended = AttendedProgram::begin(&how, other, is_terminal).unwrap();
        (mine, attended)
    }

    fn until(text: &str, from: &File) -> String {
        let (mut received, mut from) = (String::new(), from);
        while !received.contains(text) {
            let mut buf = [0; 512];
            let n = from.read(&mut buf).unwrap();
            assert!(n > 0, "{received}");
            received.push_str(&String::from_utf8_lossy(&buf[..n]));
        }
        received
    }

    #[test]
    fn it_has_the_stream_and_ends_with_it() {
        let (mine, mut attended) = attend("echo $ATTENDED; read x; echo $x; cat", false);
        until("yes", &mine);
        (&mine).write_all(b"word\n").unwrap();
        until("word", &mine);
        assert!(!attended.has_ended());
        attended.end();
        assert!(attended.has_ended());
        let (mine, attended) = attend("sleep 300", false);
        drop(attended);
        let mut rest = Vec::new();
        (&mine).read_to_end(&mut rest).unwrap();
    }

    #[test]
    fn a_terminal_is_its_own_and_hangs_up() {
        let (mine, mut attended) = attend("stty size; tty >/dev/tty; sleep 300", true);
        // Both lines may come at once.
        let output = until("/dev/", &mine);
        assert!(output.contains("31 97"), "{output}");
        drop(mine);
        let begin = crate::sys::clock::boot_ms();
        while !attended.has_ended() {
            assert!(
                crate::sys::clock::boot_ms() - begin < 120_000,
                "it hangs up"
            );
            crate::sys::clock::sleep_ms(10);
        }
    }
}

#[cfg(test)]
mod limited_tests {
    use super::*;
    use crate::sys::{clock, fs, proc};

    /// With what it has started: `csub` waits for no `esub` longer.
    #[test]
    fn a_program_that_hangs_is_killed_at_its_time_limit() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("hang");
        let script = "#!/bin/sh\nsleep 97.5 &\necho $!\nsleep 97.5\n";
        fs::publish_mode(&program, script.as_bytes(), 0o755).unwrap();
        let began = clock::boot_ms();
        let output = dir.path().join("output");
        let end = run_with(&program, &[], (&output, 99), 300).unwrap();
        let took = clock::boot_ms() - began;
        assert_eq!(end, LimitedEnd::TimeLimit);
        assert!((300..120_000).contains(&took), "{took}");
        let pid = String::from_utf8(fs::read_small(&output, 99).unwrap()).unwrap();
        let pid: i32 = pid.trim().parse().unwrap();
        let end = feed(&program, &[], &[], b"unread", 300).unwrap();
        assert_eq!(end, None);
        let lives = || proc::start_ticks(pid).is_some_and(|start| proc::alive(pid, start));
        while lives() {
            assert!(clock::boot_ms() - began < 120_000, "{pid} lives on");
            clock::sleep_ms(10);
        }
    }

    #[test]
    fn a_program_that_floods_its_output_is_killed_soon() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("flood");
        let script = b"#!/bin/sh\nwhile :; do echo more; done\n";
        fs::publish_mode(&program, script, 0o755).unwrap();
        let output = dir.path().join("output");
        let end = run_with(&program, &[], (&output, 1_000), 60_000).unwrap();
        assert_eq!(end, LimitedEnd::OutputLimit);
    }
}
