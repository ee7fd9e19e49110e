//! The waiting side of an interactive job: `csub -I`, `-Ip`, `-Is`, each also with `-XF`.
//!
//! Listens, leaves address and key for the job's host in the user's drop box, submits, and waits
//! for the connection of that host, whose program then runs at this terminal, or for the end of the
//! job. If the host cannot connect, it shows what the job writes to its output file.

pub(crate) mod host_commands;
mod incoming_connections;
mod rendezvous_files;
mod terminal_session;

use super::csub::options::JobOptions;
use super::cwait::{self, JobStatus, Say};
use super::env::Site;
use super::exit::{Exit, Fail, Result};
use super::quiet::{MessageKind, Quiet};
use super::requests;
use crate::channel::{ADDRESSES_MAX, Key, Rendezvous, Screen, Welcome};
use crate::language::tell;
use crate::model::{JobKey, Session, Terminal, Token};
use crate::record::ack::IdRun;
use crate::record::request::{Selector, SignalAction, Verb};
use crate::spool::view::ViewReader;
use crate::sys::clock;
use crate::sys::signals::{self, SignalQueue};
use crate::sys::stream::{self, Listener, PollEntry};
use crate::sys::terminal::{self, KeyMode};
use crate::x11::{Server, Windows};
use incoming_connections::IncomingConnections;
use rendezvous_files::RendezvousFiles;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use terminal_session::{Peer, SessionEnd, TerminalSession};

/// First and longest interval between two looks at the view, ms.
const PAUSE_MS: (u64, u64) = (5, 1000);
/// A job that is missing in the view for this time counts as forgotten, ms.
const MISSING_MS: u64 = 120_000;
/// Interval at which the output is read if the host cannot connect, ms.
const FOLLOW_MS: u64 = 300;
/// Exit code of a command that was interrupted.
const INTERRUPTED: i32 = 130;
const SIGNALS: [&str; 7] = ["INT", "QUIT", "TERM", "HUP", "TSTP", "CONT", "WINCH"];

/// The kind of interactive job that the options request.
///
/// # Errors
/// Options that an interactive job cannot have.
pub(crate) fn requested_terminal(options: &JobOptions) -> Result<Option<Terminal>> {
    let kinds = [
        ("I", Terminal::Streams),
        ("Ip", Terminal::Pty),
        ("Is", Terminal::Shell),
    ];
    let mut given = kinds.iter().filter(|(id, _)| options.has(id));
    let alone = ("XF", Terminal::Streams);
    let alone = Some(&alone).filter(|_| options.has("XF"));
    let Some((id, kind)) = given.next().or(alone) else {
        return Ok(None);
    };
    if let Some((other, _)) = given.next() {
        return Err(Fail::usage(format!(
            "-{id} and -{other} cannot be given together"
        )));
    }
    for refused in ["K", "H", "r", "Q", "retries", "key"] {
        if options.has(refused) {
            let dashes = if refused.len() > 2 { "--" } else { "-" };
            return Err(Fail::usage(format!(
                "-{id} and {dashes}{refused} cannot be given together"
            )));
        }
    }
    let image = ["di", "Si"].into_iter().find(|id| options.has(id));
    if let Some(image) = image.filter(|_| options.has("XF")) {
        return Err(Fail::usage(format!(
            "-XF and -{image} cannot be given together"
        )));
    }
    if kind.is_pty() {
        for refused in ["i", "is", "o", "oo", "e", "eo"] {
            if options.has(refused) {
                return Err(Fail::usage(format!(
                    "-{id} gives the job a terminal of its own: -{refused} cannot be given with \
                     it\nhint: -I has separate streams, of which -{refused} replaces one"
                )));
            }
        }
    }
    Ok(Some(*kind))
}

/// The window forwarding of a job with `-XF`, to the display of this command.
///
/// # Errors
/// There is no display, or it accepts no client with the credentials that are known here.
fn windows(options: &JobOptions) -> Result<Option<Windows>> {
    if !options.has("XF") {
        return Ok(None);
    }
    let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let Some(display) = var("DISPLAY") else {
        return Err(Fail::usage(
            "-XF: DISPLAY is not set: there is no display for the windows of the job\nhint: if you \
             are logged in by ssh, use ssh -X",
        ));
    };
    let home = || Path::new(&var("HOME").unwrap_or_default()).join(".Xauthority");
    let authority = var("XAUTHORITY").map_or_else(home, PathBuf::from);
    let server = Server::find(&display, &authority);
    let server = server.map_err(|e| Fail::system(format!("-XF: {e}")))?;
    Ok(Some(Windows::new(server)))
}

/// Catches the signals of this command.
///
/// # Errors
/// They cannot be caught.
pub(crate) fn catch_signals() -> Result<SignalQueue> {
    signals::ignore_sigpipe();
    let numbers = SIGNALS.iter().filter_map(|name| signals::number(name));
    Ok(SignalQueue::open(&numbers.collect::<Vec<_>>())?)
}

/// A command that listens and to which no host has connected yet.
pub(crate) struct InteractiveListener {
    listener: Listener,
    key: Key,
    session: Session,
    rendezvous_files: RendezvousFiles,
    windows: Option<Windows>,
}

impl InteractiveListener {
    /// Listens for an interactive job if these options request one.
    ///
    /// # Errors
    /// As [`InteractiveListener::open`]; there is no display for `-XF`.
    pub(crate) fn for_job(
        site: &Site,
        options: &JobOptions,
        terminal: Option<Terminal>,
    ) -> Result<Option<InteractiveListener>> {
        let Some(terminal) = terminal else {
            return Ok(None);
        };
        let windows = windows(options)?;
        let waiting = InteractiveListener::open(site, terminal)?;
        Ok(Some(InteractiveListener { windows, ..waiting }))
    }

    /// Listens, and leaves a rendezvous file for the host. The file is removed when the value is
    /// dropped.
    ///
    /// # Errors
    /// There is no free port, or the file cannot be written.
    pub(crate) fn open(site: &Site, terminal: Terminal) -> Result<InteractiveListener> {
        let listener = Listener::open()?;
        let (mut name, mut key) = ([0; 16], [0; 32]);
        clock::random(&mut name);
        clock::random(&mut key);
        let token = Token(u128::from_le_bytes(name));
        let key = Key::new(key);
        let rendezvous = Rendezvous {
            addresses: listener.addresses(&site.share, ADDRESSES_MAX),
            key: key.clone(),
        };
        let rendezvous_files = RendezvousFiles::create(&site.layout(), token, &rendezvous)?;
        Ok(InteractiveListener {
            listener,
            key,
            session: Session { terminal, token },
            rendezvous_files,
            windows: None,
        })
    }

    /// Leaves a request for a host to start something for this command.
    ///
    /// # Errors
    /// The request cannot be written.
    pub(crate) fn ask_host(&mut self, site: &Site, host: &str, request: &[u8]) -> Result<()> {
        let token = self.session.token;
        self.rendezvous_files
            .ask_host(&site.layout(), host, token, request)
    }

    /// What the job's host learns of this command.
    fn welcome(&self) -> Welcome {
        Welcome {
            screen: screen_of(self.session.terminal),
            x11: self.windows.as_ref().map(Windows::cookie),
        }
    }

    /// The session for the job's specification.
    pub(crate) fn session(&self) -> Session {
        self.session
    }

    /// Waits for the job, connects it to the terminal, and returns its exit code. `follow`: the
    /// file of its output if it writes to the default one.
    pub(crate) fn serve(self, site: &Site, run: &IdRun, follow: Option<PathBuf>) -> i32 {
        let queue = match catch_signals() {
            Ok(queue) => queue,
            Err(e) => return e.report("csub"),
        };
        let mut monitor = JobMonitor {
            site,
            job: (run.id, run.t),
            reader: ViewReader::new(&site.layout()),
            queue,
            last_seen_at: clock::boot_ms(),
            start_reported: false,
            quiet: Quiet::from_environment(),
            killed: false,
        };
        monitor.print_status(MessageKind::Submission, "<<Waiting for dispatch ...>>");
        monitor.wait(self, follow)
    }
}

struct JobMonitor<'a> {
    site: &'a Site,
    /// The id, and when the leader accepted the job.
    job: (u32, i64),
    reader: ViewReader,
    queue: SignalQueue,
    /// When the view last showed the job.
    last_seen_at: u64,
    start_reported: bool,
    quiet: Quiet,
    /// The user has requested the end of the job.
    killed: bool,
}

/// The result of waiting.
enum WaitResult {
    Connected(Box<Peer>),
    /// A host cannot connect: its name, and why.
    Unreachable(String, String),
    Code(i32),
}

impl JobMonitor<'_> {
    fn wait(&mut self, mut waiting: InteractiveListener, follow: Option<PathBuf>) -> i32 {
        let terminal = waiting.session.terminal;
        match self.wait_for_host(&waiting) {
            WaitResult::Code(code) => code,
            WaitResult::Connected(peer) => {
                // The key has been used: the port is closed and the file removed.
                let windows = waiting.windows.take();
                drop(waiting);
                self.report_start(&peer.host);
                self.run_session(peer.with(windows), terminal)
            }
            WaitResult::Unreachable(host, why) => {
                let own = match follow {
                    Some(_) => "its output is read from the share",
                    None => "its output goes to its file",
                };
                tell!(
                    "csub: host {host} cannot reach this command ({why}): {own}, input is not \
                     passed on"
                );
                if waiting.windows.is_some() {
                    tell!("csub: -XF: the windows of the job are not passed on either");
                }
                waiting.rendezvous_files.void_key();
                self.report_start(&host);
                let code = self.follow(follow);
                drop(waiting);
                code
            }
        }
    }

    fn report_start(&mut self, host: &str) {
        if !std::mem::replace(&mut self.start_reported, true) {
            let text = format!("<<Starting on {host}>>");
            self.print_status(MessageKind::Submission, &text);
        }
    }

    fn print_status(&self, kind: MessageKind, message: &str) {
        self.quiet.print(kind, message);
    }

    /// Waits for a connection, a message of the host, or the end of the job.
    fn wait_for_host(&mut self, waiting: &InteractiveListener) -> WaitResult {
        let about = crate::channel::channel_name(waiting.session.token);
        let mut connections =
            IncomingConnections::new(waiting.key.clone(), about, JobKey::job(self.job.0));
        let (mut pause, mut look_at) = (PAUSE_MS.0, 0);
        loop {
            let now = clock::boot_ms();
            if now >= look_at {
                if let Some(failure) = waiting.rendezvous_files.connect_failure(now) {
                    return WaitResult::Unreachable(failure.host, failure.why);
                }
                let mut lines = Vec::new();
                let mut keep = |kind, line: &str| lines.push((kind, line.to_owned()));
                if let Some(code) = self.check_job(now, &mut keep) {
                    if let Some(peer) = connections.last(&waiting.listener, waiting.welcome()) {
                        return WaitResult::Connected(Box::new(peer));
                    }
                    lines
                        .iter()
                        .for_each(|(kind, line)| self.print_status(*kind, line));
                    return WaitResult::Code(code);
                }
                look_at = now + pause;
                pause = (pause + pause / 4 + 1).min(PAUSE_MS.1);
            }
            let mut list = vec![readable(&self.queue), readable(&waiting.listener)];
            list.extend(connections.poll_entries());
            let left = look_at.saturating_sub(clock::boot_ms());
            if let Err(e) = stream::wait(&list, Some(left)) {
                return WaitResult::Code(Fail::from(e).report("csub"));
            }
            if let Some(code) = self.heed_signals() {
                return WaitResult::Code(code);
            }
            let now = clock::boot_ms();
            if let Some(peer) = connections.poll_once(&waiting.listener, waiting.welcome(), now) {
                return WaitResult::Connected(Box::new(peer));
            }
        }
    }

    /// Looks at the job in the view; returns its code when it has ended, reported through `say`.
    fn check_job(&mut self, now: u64, say: Say<'_>) -> Option<i32> {
        let status = cwait::check_job(&self.reader, self.job, say);
        match status {
            JobStatus::Ended(code) => return Some(code),
            JobStatus::Unknown(text) if now - self.last_seen_at >= MISSING_MS => {
                tell!("csub: {text}; its end is unknown");
                return Some(Exit::System.code());
            }
            JobStatus::Unknown(_) => {}
            JobStatus::Pending => self.last_seen_at = now,
            // Reported when its terminal is connected, or is known not to be.
            JobStatus::Started(_) => self.last_seen_at = now,
        }
        None
    }

    /// The first signal ends the job, the second one this command.
    fn heed_signals(&mut self) -> Option<i32> {
        while let Some(signal) = self.queue.next_signal() {
            match signals::name(signal).as_str() {
                "WINCH" | "CONT" => {}
                "TSTP" => signals::stop_self(),
                _ if self.killed => return Some(INTERRUPTED),
                _ => {
                    self.killed = true;
                    self.kill();
                }
            }
        }
        None
    }

    fn kill(&self) {
        let (id, _) = self.job;
        let sel = Selector {
            ids: vec![id.to_string()],
            ..Selector::default()
        };
        let how = SignalAction::Kill;
        let wait_s = requests::wait_s(None).unwrap_or(0);
        if let Err(e) =
            requests::send_and_wait(self.site, "csub", &[Verb::Signal { sel, how }], wait_s)
        {
            e.report("csub");
            tell!("csub: job <{id}> continues; interrupt again to leave it");
        }
    }

    /// Connects the terminal to the running job.
    fn run_session(&mut self, peer: Peer, terminal: Terminal) -> i32 {
        let keys = match terminal {
            Terminal::Streams => None,
            Terminal::Pty => Some(KeyMode::Signals),
            Terminal::Shell => Some(KeyMode::All),
        };
        let end = TerminalSession::new(vec![peer], true, keys, &self.queue).run();
        let (id, _) = self.job;
        match end {
            SessionEnd::Ended(mut ends) => match ends.pop().flatten() {
                Some(finish) => {
                    if !finish.text.is_empty() {
                        let text = crate::text::width::escape(&finish.text);
                        tell!("csub: job <{id}>: {text}");
                    }
                    finish.shell_code().unwrap_or(Exit::System.code())
                }
                None => {
                    tell!("csub: the connection was lost; waiting for the end of job <{id}>");
                    self.until_over()
                }
            },
            // The connection ends with this process, and the job with the connection.
            SessionEnd::Signal(signal) => 128 + signal,
        }
    }

    /// Waits for the end of the job in the view.
    fn until_over(&mut self) -> i32 {
        self.follow(None)
    }

    /// Like [`Self::until_over`], but shows what the job writes to a file.
    fn follow(&mut self, file: Option<PathBuf>) -> i32 {
        let mut offset = 0;
        loop {
            let quiet = self.quiet;
            let mut say = |kind, line: &str| quiet.print(kind, line);
            let code = self.check_job(clock::boot_ms(), &mut say);
            // Checked before the last copy, so that nothing written before the end is missed.
            if let Some(file) = &file
                && let Err(e) = super::cpeek::copy(file, &mut offset)
                && !e.is_not_found()
            {
                tell!("csub: {e}");
                return Exit::System.code();
            }
            if let Some(code) = code {
                return code;
            }
            if let Err(e) = stream::wait(&[readable(&self.queue)], Some(FOLLOW_MS)) {
                return Fail::from(e).report("csub");
            }
            if let Some(code) = self.heed_signals() {
                return code;
            }
        }
    }
}

/// The size of the terminal at which the command was called, if the job gets one.
fn screen_of(terminal: Terminal) -> Screen {
    let found = terminal::size_of(&std::io::stdin()).filter(|_| terminal.is_pty());
    found.map_or(Screen::default(), |(rows, cols)| Screen { rows, cols })
}

fn readable(what: &impl AsRawFd) -> PollEntry {
    PollEntry {
        fd: what.as_raw_fd(),
        read: true,
        write: false,
    }
}
