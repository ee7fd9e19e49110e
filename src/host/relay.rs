//! The process that connects an interactive task to the command that waits for it: how a shepherd
//! starts it, the messages between the two, and what the task gets from it.
//!
//! A relay runs as the task's user and outside the task's control group: it handles data from the
//! network, and root never does. Other processes of the user cannot inspect it. The shepherd
//! detects a lost connection by the relay's end.

mod serve;
mod windows;

use crate::channel::{Finish, Stream};
use crate::model::{AttemptId, Terminal};
use crate::sys::launch::{self, ProcessIdentity};
use crate::sys::{self, clock, fork, ipc, proc, supervise, terminal, userfile};
use crate::task::spec::WaitingClient;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

/// Maximum length of a line between shepherd and relay.
const LINE_MAX: usize = 16 << 10;
/// How long a shepherd waits at the end of the task until everything was sent (ms).
const LAST_MS: u64 = 10_000;

/// A message of a relay.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RelayMessage {
    /// The command is connected. With the variables that the job's environment gets for its
    /// windows.
    Connected(Vec<String>),
    /// The command runs but cannot be reached, for this reason: it reads the files of the job's
    /// output.
    Files(String),
    /// The command has ended or does not answer.
    Gone(String),
}

/// A message of a shepherd.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToRelay {
    /// The task's first process, which leads a group.
    Begun(i32),
    /// The task is over.
    End(Finish),
}

/// The task's ends of standard input, output and error output.
#[derive(Default)]
pub(super) struct TaskEnds {
    pub(super) stdin: Option<File>,
    pub(super) stdout: Option<File>,
    pub(super) stderr: Option<File>,
    /// The ends are one terminal.
    pub(super) is_pty: bool,
}

/// The relay's sides of them.
struct RelayEnds {
    input: Option<File>,
    outputs: Vec<(Stream, File)>,
    /// The master, if there is a terminal.
    master: Option<File>,
}

impl TaskEnds {
    /// Creates the task's input and outputs as the current user. `own_files`: whether the task has
    /// its own file for input, output and error output.
    fn open(kind: Terminal, own_files: [bool; 3]) -> sys::Result<(TaskEnds, RelayEnds)> {
        if kind.is_pty() {
            let (master, slave) = terminal::open_pair(0, 0)?;
            terminal::set_nonblocking(&master)?;
            let copy = |file: &File| userfile::copy_of(file);
            let ends = TaskEnds {
                stdin: Some(copy(&slave)?),
                stdout: Some(copy(&slave)?),
                stderr: Some(slave),
                is_pty: true,
            };
            let sides = RelayEnds {
                input: Some(copy(&master)?),
                outputs: vec![(Stream::Out, copy(&master)?)],
                master: Some(master),
            };
            return Ok((ends, sides));
        }
        let mut ends = TaskEnds::default();
        let mut sides = RelayEnds {
            input: None,
            outputs: Vec::new(),
            master: None,
        };
        if !own_files[0] {
            let (read, write) = terminal::pipe()?;
            terminal::set_nonblocking(&write)?;
            (ends.stdin, sides.input) = (Some(read), Some(write));
        }
        let outputs = [
            (1, Stream::Out, &mut ends.stdout),
            (2, Stream::Err, &mut ends.stderr),
        ];
        for (n, stream, end) in outputs {
            if !own_files[n] {
                let (read, write) = terminal::pipe()?;
                terminal::set_nonblocking(&read)?;
                *end = Some(write);
                sides.outputs.push((stream, read));
            }
        }
        Ok((ends, sides))
    }
}

impl RelayEnds {
    fn fds(&self) -> Vec<RawFd> {
        let files = self.input.iter().chain(&self.master);
        let outputs = self.outputs.iter().map(|(_, file)| file);
        files.chain(outputs).map(AsRawFd::as_raw_fd).collect()
    }
}

/// A request to connect a task.
pub(super) struct RelayRequest<'a> {
    pub(super) a: AttemptId,
    pub(super) host: &'a str,
    pub(super) caller: &'a WaitingClient,
    /// The user that the relay becomes; `None` = it keeps its user.
    pub(super) user: Option<&'a ProcessIdentity>,
    /// Whether the task has its own file for input, output and error output.
    pub(super) own_files: [bool; 3],
    /// The task's own directory for temporary files.
    pub(super) dir: Option<&'a Path>,
}

/// A shepherd's relay.
pub(super) struct Relay {
    pub(super) pid: i32,
    control: File,
    received: Vec<u8>,
    /// Variables for the task's environment.
    pub(super) env: Vec<String>,
}

/// Starts a relay. The task's ends are created as the user, who thus owns the terminal.
pub(super) fn begin(ask: &RelayRequest<'_>) -> sys::Result<(Relay, TaskEnds)> {
    let made = crate::host::outputs::run_as(ask.user, || {
        TaskEnds::open(ask.caller.session.terminal, ask.own_files)
    });
    let (ends, sides) = made?;
    let (mine, its) = ipc::pair()?;
    ipc::limit_writes(&mine, LAST_MS)?;
    match fork::fork_plain()? {
        0 => {
            let run = || relay_process(ask, sides, its);
            let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            proc::exit_now(ran.unwrap_or(101))
        }
        pid => {
            let relay = Relay {
                pid,
                control: mine,
                received: Vec::new(),
                env: Vec::new(),
            };
            Ok((relay, ends))
        }
    }
}

/// Runs in the forked process. Signals stay blocked, as in the shepherd: none is meant for it.
fn relay_process(ask: &RelayRequest<'_>, sides: RelayEnds, control: File) -> i32 {
    let mut keep = sides.fds();
    keep.push(control.as_raw_fd());
    fork::detach(c"cbrelay", &keep);
    if let Some(user) = ask.user
        && let Err(e) = launch::become_user(user)
    {
        serve::report(&control, &RelayMessage::Gone(e.to_string()));
        return 1;
    }
    serve::serve(ask, sides, control)
}

impl Relay {
    /// The result, once the relay has reported it; waits at most `ms`. A relay that ends without a
    /// message could not even try.
    pub(super) fn wait_for_result(&mut self, ms: u64) -> Option<RelayMessage> {
        if !ipc::wait_readable(&self.control, Some(ms)) {
            return None;
        }
        let relay_gone = || Some(RelayMessage::Gone("the relay ended".to_owned()));
        let read = userfile::read_more(&self.control, &mut self.received, LINE_MAX);
        if !matches!(read, Ok(n) if n > 0) || self.received.len() > LINE_MAX {
            return relay_gone();
        }
        let end = self.received.iter().position(|b| *b == b'\n')?;
        serde_json::from_slice(&self.received[..end])
            .ok()
            .or_else(relay_gone)
    }

    /// Reports that the task's first process runs.
    pub(super) fn begun(&self, pid: i32) {
        send_line(&self.control, &ToRelay::Begun(pid));
    }

    /// The task is over: the relay sends the rest of its output and this end. Waits for the relay
    /// for at most `LAST_MS`. `alive`: it has not ended before.
    pub(super) fn finish(self, finish: Finish, alive: bool) {
        send_line(&self.control, &ToRelay::End(finish));
        let until = clock::boot_ms() + LAST_MS;
        while alive && clock::boot_ms() < until {
            match supervise::reap() {
                supervise::Reaped::Child(pid, _) if pid == self.pid => return,
                supervise::Reaped::None => return,
                _ => clock::sleep_ms(2),
            }
        }
    }
}

/// Sends a message to the other process; nothing happens if it has ended.
fn send_line<T: Serialize>(mut to: &File, words: &T) {
    let mut line = serde_json::to_vec(words).expect("plain data becomes JSON");
    line.push(b'\n');
    let _ = to.write_all(&line);
}
