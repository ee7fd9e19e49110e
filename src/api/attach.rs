//! Programs that run for a user while another process is connected to them: a terminal, which is
//! `csub -Is` on a pseudo-terminal, and the connection to a program of a running job, which is
//! `capps tunnel`.
//!
//! Owns the arguments of these commands. They run with the rights of this process and end when the
//! returned value is dropped, when its other end is closed, or with the job.

use super::{Failure, FailureKind};
use crate::channel::Frame;
use crate::client::capps::TunnelServer;
use crate::model::JobKey;
use crate::record::connect::Connect;
use crate::spool::Site;
use crate::sys::child::{self, AttendedCommand, AttendedProgram};
use crate::sys::users::UserFacts;
use crate::sys::{fs, ipc, terminal};
use serde::{Deserialize, Serialize};
use std::fs::File;

pub use crate::channel::{FRAME_DATA_MAX, Frame as TunnelFrame, STREAMS_MAX, WINDOW};
pub use crate::record::connect::{CONNECT_HOME, CONNECT_MAX, connect_name};

/// Maximum number of slots of a terminal's job.
const SLOTS_MAX: u32 = 10_000;
/// Maximum length of a name or limit.
const WORD_MAX: usize = 128;

/// The program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AttachRequest {
    /// A shell as an interactive job.
    Terminal {
        /// Empty: the default queue.
        queue: String,
        slots: u32,
        /// As `-W` of `csub`; empty: the limit of the queue.
        run_limit: String,
        rows: u16,
        cols: u16,
    },
    /// A connection to the program that a running job has announced; frames of [`TunnelFrame`].
    Tunnel { id: u32, idx: u32 },
}

/// Starts it. `dies_with_parent`: only for a process with one thread. The descriptor is the master
/// of its terminal, or the socket that is its input and output.
///
/// # Errors
/// A value is invalid, or the system refuses.
pub fn start_attached(
    site: &Site,
    user: &UserFacts,
    request: &AttachRequest,
    dies_with_parent: bool,
) -> Result<(File, AttendedProgram), Failure> {
    let system = |e: crate::sys::Error| Failure {
        kind: FailureKind::System,
        text: e.to_string(),
    };
    let args = program_arguments(request, &user.shell.to_string_lossy())?;
    let found = fs::stat(&user.home).ok().flatten();
    let has_home = found.is_some_and(|stat| stat.kind == fs::Kind::Dir);
    let how = AttendedCommand {
        program: &child::sibling("cb"),
        args: &args,
        env: &[
            ("CB_ENVDIR", fs::parent(&site.conf).display().to_string()),
            ("CB_HOST", site.host.clone()),
            ("TERM", "xterm-256color".to_owned()),
        ],
        dir: match has_home {
            true => &user.home,
            false => std::path::Path::new("/"),
        },
        dies_with_parent,
    };
    let (mine, other, is_terminal) = match request {
        AttachRequest::Terminal { rows, cols, .. } => {
            let (master, slave) = terminal::open_pair(*rows, *cols).map_err(system)?;
            (master, slave, true)
        }
        AttachRequest::Tunnel { .. } => {
            let (mine, other) = ipc::pair().map_err(system)?;
            (mine, other, false)
        }
    };
    let attended = AttendedProgram::begin(&how, other, is_terminal).map_err(system)?;
    Ok((mine, attended))
}

/// The command line after the name of the program `cb`.
fn program_arguments(request: &AttachRequest, shell: &str) -> Result<Vec<String>, Failure> {
    let mut out = Vec::new();
    let mut add = |words: &[&str]| out.extend(words.iter().map(|word| (*word).to_owned()));
    match request {
        AttachRequest::Terminal {
            queue,
            slots,
            run_limit,
            ..
        } => {
            add(&["csub", "-Is"]);
            if !(1..=SLOTS_MAX).contains(slots) {
                return Err(invalid(format!("slots: 1 to {SLOTS_MAX}, not {slots}")));
            }
            add(&["-n", &slots.to_string()]);
            for (option, what, value) in [("-q", "queue", queue), ("-W", "run limit", run_limit)] {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
                let is_word = value.bytes().all(plain) && !value.starts_with('-');
                if !is_word || value.len() > WORD_MAX {
                    return Err(invalid(format!("{what}: not a name or number")));
                }
                if !value.is_empty() {
                    add(&[option, value]);
                }
            }
            let shell = if shell.is_empty() { "/bin/sh" } else { shell };
            add(&[shell, "-l"]);
        }
        AttachRequest::Tunnel { id, idx } => {
            let key = JobKey { id: *id, idx: *idx };
            add(&["capps", "tunnel", &key.to_string()]);
        }
    }
    Ok(out)
}

fn invalid(text: String) -> Failure {
    Failure {
        kind: FailureKind::Wrong,
        text,
    }
}

/// The announcement of a job's program, for display in a portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramAnnouncement {
    /// jupyter, vscode, tensorboard, vnc, or another word.
    pub kind: String,
    /// The path of its first page.
    pub path: String,
    pub port: u16,
    /// The token that it requires; empty: none.
    pub token: String,
}

/// Reads the announcement of the job `id` or its element `idx`.
///
/// # Errors
/// It is not an announcement of that job.
pub fn read_announced(bytes: &[u8], id: u32, idx: u32) -> Result<ProgramAnnouncement, String> {
    let read = Connect::from_bytes(bytes, id, idx)?;
    Ok(ProgramAnnouncement {
        kind: read.kind,
        path: read.path,
        port: read.port,
        token: read.token,
    })
}

/// The far end of a tunnel in this process, for tests of tunnel users: a job `id` that has
/// announced these bytes, until `socket` is closed.
///
/// # Errors
/// The near end violates the form.
pub fn far_end(socket: File, announced: &[u8], id: u32) -> Result<(), Failure> {
    let copy = socket.try_clone().map_err(|e| Failure {
        kind: FailureKind::System,
        text: e.to_string(),
    })?;
    let found = || {
        let connect = Connect::from_bytes(announced, id, 0)?;
        Ok((announced.to_vec(), connect))
    };
    Ok(TunnelServer::new(socket, copy, &found)?.run()?)
}

/// Takes the first whole frame from the received bytes.
///
/// # Errors
/// The bytes are not a frame.
pub fn take_frame(came: &mut Vec<u8>) -> Result<Option<Frame>, Failure> {
    Frame::take_frame(came).map_err(|e| Failure {
        kind: FailureKind::System,
        text: e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(queue: &str, slots: u32, run_limit: &str) -> AttachRequest {
        AttachRequest::Terminal {
            queue: queue.into(),
            slots,
            run_limit: run_limit.into(),
            rows: 24,
            cols: 80,
        }
    }

    #[test]
    fn values_are_never_options_of_the_command() {
        let line = |request: &AttachRequest| {
            program_arguments(request, "/bin/bash").map(|words| words.join(" "))
        };
        assert_eq!(
            line(&terminal("night", 2, "1:30")).unwrap(),
            "csub -Is -n 2 -q night -W 1:30 /bin/bash -l"
        );
        let plain = "csub -Is -n 1 /bin/bash -l";
        assert_eq!(line(&terminal("", 1, "")).unwrap(), plain);
        for bad in [
            terminal("-o", 1, ""),
            terminal("a b", 1, ""),
            terminal("a;b", 1, ""),
            terminal("", 1, "-x"),
            terminal("", 0, ""),
            terminal("", SLOTS_MAX + 1, ""),
            terminal(&"q".repeat(WORD_MAX + 1), 1, ""),
        ] {
            assert!(line(&bad).is_err(), "{bad:?}");
        }
        let tunnel = AttachRequest::Tunnel { id: 12, idx: 3 };
        assert_eq!(line(&tunnel).unwrap(), "capps tunnel 12[3]");
    }
}
