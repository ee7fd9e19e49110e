//! Connects this terminal to the programs at the other ends: input, output, keys, sizes and
//! signals, until all have ended. Owns the input that is in transit.

use crate::channel::{ChannelError, DATA_MAX, Finish, Link, Message, ROOM, Screen, Stream};
use crate::sys::signals::{self, SignalQueue};
use crate::sys::stream::{self, PollEntry};
use crate::sys::terminal::{self, KeyMode, RawTerminal};
use crate::x11::{BUDGET, Windows};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;

/// Maximum number of bytes that wait to be sent; beyond it no input is read.
const WAITING_MAX: usize = 64 << 10;

/// The other end of a proven channel.
pub(crate) struct Peer {
    link: Link,
    wire: stream::Wire,
    pub(crate) host: String,
    /// Number of bytes of input that it still accepts.
    room: usize,
    end: Option<Finish>,
    /// Nothing more is received.
    closed: bool,
    /// Its X11 clients, if they are forwarded.
    windows: Option<Windows>,
}

impl Peer {
    pub(super) fn of(mut link: Link, wire: stream::Wire) -> Peer {
        let hello = link.hello().ok().flatten().cloned().unwrap_or_default();
        Peer {
            link,
            wire,
            host: hello.host,
            room: ROOM as usize,
            end: None,
            closed: false,
            windows: None,
        }
    }

    /// Forwards its X11 clients.
    pub(super) fn with(mut self, windows: Option<Windows>) -> Peer {
        self.windows = windows;
        self
    }

    /// How much of its windows may be read now; limited so that keys are sent soon.
    fn windows_budget(&self) -> usize {
        let waits = self.link.outgoing().len() >= BUDGET || self.is_over();
        if waits { 0 } else { BUDGET }
    }

    /// The next whole message of the program; messages of its windows are processed here. Messages
    /// to the user go to `warn`.
    fn next_message(
        &mut self,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Option<Message>, ChannelError> {
        while let Some(message) = self.link.next_message()? {
            match (message, &mut self.windows) {
                (Message::Warn(text), _) => warn(&crate::text::width::escape(&text)),
                (Message::X(said), Some(windows)) => {
                    if let Some(text) = windows.handle_message(said, &mut self.link)? {
                        warn(&text);
                    }
                }
                (message, _) => return Ok(Some(message)),
            }
        }
        Ok(None)
    }

    fn is_over(&self) -> bool {
        self.end.is_some() || self.closed
    }
}

/// Why a session has ended.
pub(crate) enum SessionEnd {
    /// How each program ended; `None`: its connection was lost.
    Ended(Vec<Option<Finish>>),
    /// A signal ended this command.
    Signal(i32),
}

/// A connection to one or more programs. The first of them gets the input.
pub(crate) struct TerminalSession<'a> {
    peers: Vec<Peer>,
    stdin: Option<File>,
    raw_terminal: Option<RawTerminal>,
    /// The size of the terminals, if the programs have terminals.
    screen: Option<Screen>,
    queue: &'a SignalQueue,
}

impl<'a> TerminalSession<'a> {
    /// `input`: standard input is passed on. `keys`: the programs have terminals, which get keys in
    /// this way.
    pub(crate) fn new(
        peers: Vec<Peer>,
        input: bool,
        keys: Option<KeyMode>,
        queue: &'a SignalQueue,
    ) -> TerminalSession<'a> {
        let mut session = TerminalSession {
            peers,
            stdin: None,
            raw_terminal: keys.and_then(RawTerminal::stdin),
            screen: keys.map(|_| Screen::default()),
            queue,
        };
        session.stdin = terminal::own_stream(0).ok().filter(|_| input);
        if session.stdin.is_none() {
            session.end_input();
        }
        session.send_size();
        session
    }

    /// Runs until all programs have ended.
    pub(crate) fn run(mut self) -> SessionEnd {
        // Output that arrived together with the proof of the key.
        for n in 0..self.peers.len() {
            if let Err(end) = self.show_output(n) {
                return end;
            }
        }
        self.flush();
        while !self.peers.iter().all(Peer::is_over) {
            if let Some(end) = self.poll_once() {
                return end;
            }
        }
        SessionEnd::Ended(self.peers.drain(..).map(|peer| peer.end).collect())
    }

    fn poll_once(&mut self) -> Option<SessionEnd> {
        let room = self.input_room();
        let mut list = vec![
            PollEntry {
                fd: self.queue.as_raw_fd(),
                read: true,
                write: false,
            },
            PollEntry {
                fd: self.stdin.as_ref().map_or(-1, AsRawFd::as_raw_fd),
                read: room > 0,
                write: false,
            },
        ];
        list.extend(self.peers.iter().map(|peer| PollEntry {
            fd: peer.wire.as_raw_fd(),
            read: !peer.is_over(),
            write: !peer.is_over() && !peer.link.outgoing().is_empty(),
        }));
        let budgets: Vec<usize> = self.peers.iter().map(Peer::windows_budget).collect();
        for (peer, budget) in self.peers.iter().zip(&budgets) {
            let windows = peer.windows.iter();
            list.extend(windows.flat_map(|windows| windows.watched(*budget)));
        }
        let ready = match stream::wait(&list, Some(stream::LOSS_CHECK_MS)) {
            Ok(ready) => ready,
            Err(_) => return Some(SessionEnd::Ended(Vec::new())),
        };
        if ready.iter().all(|now| *now == (false, false)) {
            self.close_lost();
        }
        if ready[1].0 && room > 0 {
            self.pass_input(room);
        }
        while let Some(signal) = self.queue.next_signal() {
            if let Some(end) = self.handle_signal(signal) {
                return Some(end);
            }
        }
        let mut lanes = &ready[2 + self.peers.len()..];
        for (peer, budget) in self.peers.iter_mut().zip(budgets) {
            if let Some(windows) = &mut peer.windows {
                let (its, rest) = lanes.split_at(windows.watched(budget).count());
                windows.transfer(its, budget, &mut peer.link);
                lanes = rest;
            }
        }
        for n in 0..self.peers.len() {
            if ready[n + 2].0
                && let Err(end) = self.take_output(n)
            {
                return Some(end);
            }
        }
        self.flush();
        None
    }

    /// Marks connections to machines that are lost as closed.
    fn close_lost(&mut self) {
        for peer in &mut self.peers {
            peer.closed |= peer.wire.is_lost();
        }
    }

    /// The amount of input that may be read now.
    fn input_room(&self) -> usize {
        match (&self.stdin, self.peers.first()) {
            (Some(_), Some(first)) if !first.is_over() => {
                let waits = first.link.outgoing().len() > WAITING_MAX;
                if waits { 0 } else { first.room.min(DATA_MAX) }
            }
            _ => 0,
        }
    }

    fn pass_input(&mut self, room: usize) {
        let mut buf = [0; DATA_MAX];
        let Some(stdin) = &self.stdin else { return };
        match terminal::read_now(stdin, &mut buf[..room]) {
            Ok(None) => {}
            Ok(Some(n)) if n > 0 => {
                let first = &mut self.peers[0];
                first.room -= n;
                first
                    .link
                    .send(&Message::Data(Stream::In, buf[..n].to_vec()));
            }
            _ => {
                self.stdin = None;
                self.end_input();
            }
        }
    }

    /// Signals the end of input; programs after the first never get any.
    fn end_input(&mut self) {
        for peer in &mut self.peers {
            peer.link.send(&Message::Data(Stream::In, Vec::new()));
        }
    }

    /// Receives what a program sent and shows it.
    fn take_output(&mut self, n: usize) -> Result<(), SessionEnd> {
        let peer = &mut self.peers[n];
        let mut buf = [0; 32 << 10];
        match peer.wire.read(&mut buf) {
            Ok(None) => return Ok(()),
            Ok(Some(n)) if n > 0 => {
                if peer.link.receive(&buf[..n]).is_err() {
                    peer.closed = true;
                }
            }
            _ => peer.closed = true,
        }
        self.show_output(n)
    }

    fn show_output(&mut self, n: usize) -> Result<(), SessionEnd> {
        let end = if self.raw_terminal.is_some() {
            "\r\n"
        } else {
            "\n"
        };
        let peer = &mut self.peers[n];
        loop {
            match peer.next_message(&mut |text| eprint!("csub: {text}{end}")) {
                Ok(None) => return Ok(()),
                Ok(Some(Message::Data(stream, bytes))) => show(stream, &bytes)?,
                Ok(Some(Message::Took(n))) => {
                    peer.room = (peer.room + n as usize).min(ROOM as usize);
                }
                Ok(Some(Message::End(finish))) => peer.end = Some(finish),
                Ok(Some(_)) => {}
                Err(_) => {
                    peer.closed = true;
                    return Ok(());
                }
            }
        }
    }

    fn flush(&mut self) {
        for peer in self.peers.iter_mut().filter(|peer| !peer.is_over()) {
            if peer.link.outgoing().is_empty() {
                continue;
            }
            match peer.wire.write(peer.link.outgoing()) {
                Ok(n) => peer.link.sent(n),
                // Data that this end has received before is read first.
                Err(_) => peer.room = 0,
            }
        }
    }

    /// Handles a signal to this command: most are passed on, as if the programs ran at this
    /// terminal.
    fn handle_signal(&mut self, signal: i32) -> Option<SessionEnd> {
        match signals::name(signal).as_str() {
            "WINCH" => self.send_size(),
            // Continued after a stop that did not come through this code.
            "CONT" => self.resume_terminal(),
            "TSTP" => {
                self.signal_all(signal);
                self.flush();
                if let Some(taken) = &self.raw_terminal {
                    taken.restore();
                }
                signals::stop_self();
                self.resume_terminal();
                self.signal_all(signals::number("CONT").unwrap_or(18));
            }
            // Only `claunch` catches the last two, with which a job is warned.
            "INT" | "QUIT" | "USR1" | "USR2" => self.signal_all(signal),
            _ => return Some(SessionEnd::Signal(signal)),
        }
        None
    }

    fn resume_terminal(&mut self) {
        if let Some(taken) = &self.raw_terminal {
            taken.set_raw();
        }
        self.send_size();
    }

    fn signal_all(&mut self, signal: i32) {
        for peer in &mut self.peers {
            peer.link.send(&Message::Signal(signal));
        }
    }

    /// Sends the size of this terminal to the programs with terminals if it has changed.
    fn send_size(&mut self) {
        let Some(last_sent) = self.screen else { return };
        let Some((rows, cols)) = terminal::size_of(&std::io::stdin()) else {
            return;
        };
        let now = Screen { rows, cols };
        if now != last_sent {
            self.screen = Some(now);
            for peer in &mut self.peers {
                peer.link.send(&Message::Size(now));
            }
        }
    }
}

/// Writes output to its stream. If the stream has no reader any more, this command ends like any
/// program at the start of a pipe.
fn show(stream: Stream, bytes: &[u8]) -> Result<(), SessionEnd> {
    let written = match stream {
        Stream::In => return Ok(()),
        Stream::Out => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        Stream::Err => std::io::stderr().lock().write_all(bytes),
    };
    written.map_err(|_| SessionEnd::Signal(signals::number("PIPE").unwrap_or(13)))
}
