//! The waiting side of commands on several hosts: `claunch`. Waits until each host has connected,
//! then serves as the terminal of all.

use super::incoming_connections::IncomingConnections;
use super::terminal_session::{Peer, SessionEnd, TerminalSession};
use super::{InteractiveListener, readable};
use crate::channel::{Welcome, channel_name};
use crate::client::exit::{Fail, Result};
use crate::language::tell;
use crate::model::JobKey;
use crate::sys::signals::{self, SignalQueue};
use crate::sys::{clock, stream};

/// Time limit for a host to connect (ms), and interval at which its message is looked for.
const CALL_MS: u64 = 60_000;
const POLL_MS: u64 = 250;

/// How all commands ended.
pub(crate) enum RunResult {
    /// Exit codes; `None`: the connection was lost.
    Codes(Vec<Option<i32>>),
    Signal(i32),
}

struct HostCommand {
    host: String,
    listener: InteractiveListener,
    connections: IncomingConnections,
    peer: Option<Peer>,
}

/// The commands on all hosts.
pub(crate) struct HostCommands<'a> {
    all: Vec<HostCommand>,
    queue: &'a SignalQueue,
}

impl<'a> HostCommands<'a> {
    pub(crate) fn new(
        job: JobKey,
        listeners: Vec<(String, InteractiveListener)>,
        queue: &'a SignalQueue,
    ) -> HostCommands<'a> {
        let one = |(host, listener): (String, InteractiveListener)| {
            let name = channel_name(listener.session.token);
            HostCommand {
                host,
                connections: IncomingConnections::new(listener.key.clone(), name, job),
                listener,
                peer: None,
            }
        };
        HostCommands {
            all: listeners.into_iter().map(one).collect(),
            queue,
        }
    }

    /// Waits for all connections, then for all ends. `input`: the first command gets standard
    /// input.
    ///
    /// # Errors
    /// A host does not connect.
    pub(crate) fn run(mut self, input: bool) -> Result<RunResult> {
        if let Some(signal) = self.until_connected()? {
            return Ok(RunResult::Signal(signal));
        }
        let peers: Vec<Peer> = self.all.drain(..).filter_map(|one| one.peer).collect();
        Ok(
            match TerminalSession::new(peers, input, None, self.queue).run() {
                SessionEnd::Signal(signal) => RunResult::Signal(signal),
                SessionEnd::Ended(ends) => {
                    let code = |end: Option<crate::channel::Finish>| {
                        let end = end?;
                        if !end.text.is_empty() {
                            tell!("claunch: {}", crate::text::width::escape(&end.text));
                        }
                        end.shell_code()
                    };
                    RunResult::Codes(ends.into_iter().map(code).collect())
                }
            },
        )
    }

    /// Waits until every host has connected; returns the signal that ended the wait.
    fn until_connected(&mut self) -> Result<Option<i32>> {
        let begin = clock::boot_ms();
        while self.all.iter().any(|one| one.peer.is_none()) {
            let now = clock::boot_ms();
            let mut list = vec![readable(self.queue)];
            for one in self.all.iter().filter(|one| one.peer.is_none()) {
                if let Some(failure) = one.listener.rendezvous_files.connect_failure(now) {
                    let (host, why) = (failure.host, failure.why);
                    let text = format!("host {host} cannot reach this command: {why}");
                    return Err(Fail::system(text));
                }
                if now - begin > CALL_MS {
                    let text = format!(
                        "host {} has not answered within {} s: its cbexe does not run, or the \
                         job has no slots there",
                        one.host,
                        CALL_MS / 1000
                    );
                    return Err(Fail::system(text));
                }
                list.push(readable(&one.listener.listener));
                list.extend(one.connections.poll_entries());
            }
            stream::wait(&list, Some(POLL_MS))?;
            while let Some(signal) = self.queue.next_signal() {
                let name = signals::name(signal);
                if !matches!(name.as_str(), "WINCH" | "CONT" | "TSTP" | "USR1" | "USR2") {
                    return Ok(Some(signal));
                }
            }
            for one in self.all.iter_mut().filter(|one| one.peer.is_none()) {
                let (listener, now) = (&one.listener.listener, clock::boot_ms());
                one.peer = one.connections.poll_once(listener, Welcome::default(), now);
            }
        }
        Ok(None)
    }
}
