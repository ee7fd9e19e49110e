//! A running relay: finds the waiting command, proves that it has the key, then forwards bytes in
//! both directions until the task is over or the command has ended. Owns the limits of buffered
//! data.

use super::windows::WindowForward;
use super::{LINE_MAX, RelayEnds, RelayMessage, RelayRequest, ToRelay, send_line};
use crate::channel::{
    ChannelError, ConnectFailure, DATA_MAX, Finish, Hello, Link, Message, RENDEZVOUS_MAX, ROOM,
    Rendezvous, Screen, Stream, Welcome, channel_name,
};
use crate::spool::Layout;
use crate::sys::stream::{self, PollEntry, Wire};
use crate::sys::{clock, fs, proc, terminal, userfile};
use crate::x11::BUDGET;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::Path;

/// How long a connection to one address may take, and how long an answer from there (ms).
const CALL_MS: u64 = 2_000;
const ANSWER_MS: u64 = 5_000;
/// How long a command that cannot be reached has to react to a notice on the share, and how often
/// that is checked (ms).
const NOTICE_MS: u64 = 60_000;
const POLL_MS: u64 = 200;
/// Maximum amount of output that waits to be sent; beyond it the task's output is not read.
const WAITING_MAX: usize = 256 << 10;
/// How long after the task's end the end of its output may be missing (ms).
const STUCK_MS: u64 = 60_000;
/// How soon a terminal that no process has open is read again (ms).
const QUIET_MS: u64 = 50;

/// Exit codes of a relay: everything was sent; the command has ended.
const SENT: i32 = 0;
const LOST: i32 = 1;

/// Reports to the shepherd.
pub(super) fn report(control: &File, what: &RelayMessage) {
    send_line(control, what);
}

/// Runs to the end. Returns the exit code of this process.
pub(super) fn serve(ask: &RelayRequest<'_>, sides: RelayEnds, control: File) -> i32 {
    let file = Path::new(&ask.caller.file);
    let reached = match find(file) {
        Err(remover) => Err(RelayMessage::Gone(remover)),
        Ok(at) => call(ask, &at).map_err(|why| instead(ask, file, why)),
    };
    let (mut link, wire, welcome) = match reached {
        Ok(connected) => connected,
        Err(how) => {
            report(&control, &how);
            return SENT;
        }
    };
    if let Some(master) = &sides.master {
        terminal::set_size(master, welcome.screen.rows, welcome.screen.cols);
    }
    let forward = welcome
        .x11
        .map(|cookie| WindowForward::open(&cookie, ask.dir));
    let (windows, env) = match forward {
        None => (None, Vec::new()),
        Some(Ok((windows, env))) => (Some(windows), env),
        Some(Err(why)) => {
            let text = format!("-XF: host {} cannot forward windows: {why}", ask.host);
            link.send(&Message::Warn(text));
            (None, Vec::new())
        }
    };
    report(&control, &RelayMessage::Connected(env));
    RelayLoop {
        link,
        wire,
        sides,
        control,
        received: Vec::new(),
        waiting: Vec::new(),
        input_over: false,
        leader: None,
        finish: None,
        end_sent: false,
        quiet_until: 0,
        windows,
    }
    .run()
}

/// Reads the address of the waiting command.
fn find(file: &Path) -> Result<Rendezvous, String> {
    let client_gone = "the command that waited for this job is gone";
    match fs::read_small_owned(file, RENDEZVOUS_MAX) {
        Err(e) if e.is_not_found() => Err(client_gone.to_owned()),
        Err(e) => Err(e.to_string()),
        Ok((_, owner)) if owner != crate::sys::users::effective_uid() => Err(format!(
            "{} does not belong to the job's user",
            file.display()
        )),
        Ok((bytes, _)) if bytes.is_empty() => Err(client_gone.to_owned()),
        Ok((bytes, _)) => Rendezvous::from_bytes(&bytes)
            .map_err(|e| format!("{} cannot be understood: {e}", file.display())),
    }
}

/// Connects to the command at its addresses, one after the other.
///
/// # Errors
/// The error of each address.
fn call(ask: &RelayRequest<'_>, at: &Rendezvous) -> Result<(Link, Wire, Welcome), String> {
    let mut wrong: Vec<String> = Vec::new();
    for address in &at.addresses {
        match connect_address(ask, at, address) {
            Ok(connected) => return Ok(connected),
            Err(e) => wrong.push(format!("{address}: {e}")),
        }
    }
    Err(wrong.join("; "))
}

fn connect_address(
    ask: &RelayRequest<'_>,
    at: &Rendezvous,
    address: &SocketAddr,
) -> Result<(Link, Wire, Welcome), String> {
    let wire = Wire::call(address, CALL_MS).map_err(|e| crate::sys::reason(&e))?;
    let hello = Hello {
        a: ask.a,
        host: ask.host.to_owned(),
        task: ask.caller.task,
    };
    let mut link = Link::caller(&at.key, &channel_name(ask.caller.session.token), &hello);
    let until = clock::boot_ms() + ANSWER_MS;
    let mut buf = [0; 4096];
    loop {
        flush(&mut link, &wire).map_err(|e| crate::sys::reason(&e))?;
        if let Some(welcome) = link.welcomed().map_err(|e| e.to_string())? {
            return Ok((link, wire, welcome));
        }
        let left = until.saturating_sub(clock::boot_ms());
        if left == 0 {
            return Err("no answer".to_owned());
        }
        let watched = PollEntry {
            fd: wire.as_raw_fd(),
            read: true,
            write: !link.outgoing().is_empty(),
        };
        stream::wait(&[watched], Some(left)).map_err(|e| e.to_string())?;
        match wire.read(&mut buf).map_err(|e| crate::sys::reason(&e))? {
            Some(0) => return Err("it closed the connection".to_owned()),
            Some(n) => link.receive(&buf[..n]).map_err(|e| e.to_string())?,
            None => {}
        }
    }
}

fn flush(link: &mut Link, wire: &Wire) -> std::io::Result<usize> {
    let n = match link.outgoing().is_empty() {
        true => 0,
        false => wire.write(link.outgoing())?,
    };
    link.sent(n);
    Ok(n)
}

/// Requests through the share that a command that cannot be reached reads the output files, and
/// waits until it confirms by emptying its own file. A command that has ended does not confirm.
fn instead(ask: &RelayRequest<'_>, file: &Path, why: String) -> RelayMessage {
    let word = ConnectFailure {
        host: ask.host.to_owned(),
        why: why.clone(),
    };
    let path = Layout::session_word(file);
    if let Err(e) = fs::overwrite_unsynced(&path, &word.to_bytes()) {
        return RelayMessage::Gone(format!(
            "the waiting command cannot be reached ({why}); {e}"
        ));
    }
    if ask.caller.task > 0 {
        return RelayMessage::Gone(format!("claunch cannot be reached ({why})"));
    }
    let until = clock::boot_ms() + NOTICE_MS;
    while clock::boot_ms() < until {
        match fs::read_small_owned(file, RENDEZVOUS_MAX) {
            Ok((bytes, _)) if bytes.is_empty() => return RelayMessage::Files(why),
            Err(e) if e.is_not_found() => {
                return RelayMessage::Gone(
                    "the command that waited for this job is gone".to_owned(),
                );
            }
            _ => clock::sleep_ms(POLL_MS),
        }
    }
    RelayMessage::Gone(format!(
        "the command that waited for this job cannot be reached ({why}) and does not react to \
         the notice on the share"
    ))
}

struct RelayLoop {
    link: Link,
    wire: Wire,
    sides: RelayEnds,
    control: File,
    /// Bytes of the shepherd's messages that are not a whole line yet.
    received: Vec<u8>,
    /// Input that the task has not read.
    waiting: Vec<u8>,
    /// No more input follows.
    input_over: bool,
    /// The task's first process.
    leader: Option<i32>,
    finish: Option<Finish>,
    end_sent: bool,
    /// Until when a terminal that no process had open is not read.
    quiet_until: u64,
    /// The task's X11 clients, if they are forwarded.
    windows: Option<WindowForward>,
}

/// The reason why the work ends.
enum WorkEnd {
    Sent,
    Lost,
}

impl From<std::io::Error> for WorkEnd {
    fn from(_: std::io::Error) -> WorkEnd {
        WorkEnd::Lost
    }
}

impl From<ChannelError> for WorkEnd {
    fn from(_: ChannelError) -> WorkEnd {
        WorkEnd::Lost
    }
}

impl RelayLoop {
    fn run(mut self) -> i32 {
        let mut moved_at = clock::boot_ms();
        loop {
            let turned = match self.forward_ready() {
                Ok(false) if self.wire.is_lost() => Err(WorkEnd::Lost),
                turned => turned,
            };
            match turned {
                Ok(true) => moved_at = clock::boot_ms(),
                Ok(false) => {
                    // A command that is suspended may read its output later.
                    let waits_for_task = self.link.outgoing().is_empty();
                    let quiet = clock::boot_ms() - moved_at;
                    if self.finish.is_some() && waits_for_task && quiet > STUCK_MS {
                        return LOST;
                    }
                }
                Err(WorkEnd::Sent) => return SENT,
                Err(WorkEnd::Lost) if self.end_sent => return SENT,
                Err(WorkEnd::Lost) => {
                    self.hang_up();
                    return LOST;
                }
            }
        }
    }

    /// The descriptors of command, shepherd and the task's streams; `reads`: read the task's
    /// output.
    fn poll_entries(&self, reads: bool) -> Vec<PollEntry> {
        let mut list = vec![
            PollEntry {
                fd: self.wire.as_raw_fd(),
                read: true,
                write: !self.link.outgoing().is_empty(),
            },
            PollEntry {
                fd: self.control.as_raw_fd(),
                read: self.finish.is_none(),
                write: false,
            },
            PollEntry {
                fd: self.sides.input.as_ref().map_or(-1, AsRawFd::as_raw_fd),
                read: false,
                write: !self.waiting.is_empty(),
            },
        ];
        list.extend(self.sides.outputs.iter().map(|(_, file)| PollEntry {
            fd: file.as_raw_fd(),
            read: reads,
            write: false,
        }));
        list
    }

    /// Waits for events and forwards available bytes. Returns true if something was forwarded.
    fn forward_ready(&mut self) -> Result<bool, WorkEnd> {
        let now = clock::boot_ms();
        let room = self.link.outgoing().len() < WAITING_MAX;
        let reads = room && now >= self.quiet_until;
        let mut list = self.poll_entries(reads);
        let lanes_at = list.len();
        let budget = if room { BUDGET } else { 0 };
        let windows = self.windows.iter();
        list.extend(windows.flat_map(|windows| windows.poll_entries(budget)));
        let wait = match (room && !reads, self.finish.is_some()) {
            (true, _) => Some(QUIET_MS),
            (false, true) => Some(1_000),
            (false, false) => Some(stream::LOSS_CHECK_MS),
        };
        let ready = stream::wait(&list, wait).map_err(|_| WorkEnd::Lost)?;
        let mut moved = false;
        if ready[1].0 {
            self.read_shepherd()?;
            moved = true;
        }
        if ready[2].1 {
            self.write_input();
            moved = true;
        }
        for n in (3..lanes_at).rev().filter(|n| ready[*n].0) {
            self.take_output(n - 3);
            moved = true;
        }
        if let Some(windows) = &mut self.windows {
            moved |= windows.transfer(&ready[lanes_at..], budget, &mut self.link);
        }
        if ready[0].0 {
            moved |= self.read_command()?;
        }
        if self.finish.is_some() && self.sides.outputs.is_empty() && !self.end_sent {
            let finish = self.finish.clone().unwrap_or_default();
            self.link.send(&Message::End(finish));
            self.end_sent = true;
        }
        moved |= flush(&mut self.link, &self.wire)? > 0;
        Ok(moved)
    }

    /// Reads the shepherd's messages. If it ended without a last message, the task's end is
    /// unknown.
    fn read_shepherd(&mut self) -> Result<(), WorkEnd> {
        let read = userfile::read_more(&self.control, &mut self.received, LINE_MAX);
        if !matches!(read, Ok(n) if n > 0) {
            return Err(WorkEnd::Lost);
        }
        while let Some(end) = self.received.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(ToRelay::Begun(pid)) => self.leader = Some(pid),
                Ok(ToRelay::End(finish)) => self.finish = Some(finish),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Writes waiting input to the task.
    fn write_input(&mut self) {
        let Some(input) = &self.sides.input else {
            return;
        };
        match terminal::write_now(input, &self.waiting) {
            Ok(n) => self.took(n),
            // The task has closed its input.
            Err(_) => {
                self.sides.input = None;
                self.took(self.waiting.len());
            }
        }
        self.end_input();
    }

    fn took(&mut self, n: usize) {
        self.waiting.drain(..n);
        if n > 0 {
            self.link.send(&Message::Took(n as u32));
        }
    }

    /// Ends the task's input, once it has read all of it.
    fn end_input(&mut self) {
        if !self.input_over || !self.waiting.is_empty() {
            return;
        }
        // Closing a pipe ends it.
        let input = self.sides.input.take();
        if let (Some(input), Some(master)) = (input, &self.sides.master)
            && let Some(key) = terminal::end_of_input(master)
        {
            let _ = terminal::write_now(&input, &[key]);
        }
    }

    fn take_output(&mut self, n: usize) {
        let mut buf = [0; DATA_MAX];
        let (stream, file) = &self.sides.outputs[n];
        let stream = *stream;
        match terminal::read_now(file, &mut buf) {
            Ok(Some(0)) | Err(_) if self.sides.master.is_some() && self.finish.is_none() => {
                // No process has it open now; another one may open it.
                self.quiet_until = clock::boot_ms() + QUIET_MS;
            }
            Ok(Some(0)) | Err(_) => {
                self.sides.outputs.remove(n);
                self.link.send(&Message::Data(stream, Vec::new()));
            }
            Ok(Some(n)) => self.link.send(&Message::Data(stream, buf[..n].to_vec())),
            Ok(None) => {}
        }
    }

    /// Reads messages of the command.
    fn read_command(&mut self) -> Result<bool, WorkEnd> {
        let mut buf = [0; 32 << 10];
        match self.wire.read(&mut buf)? {
            None => return Ok(false),
            Some(0) if self.end_sent => return Err(WorkEnd::Sent),
            Some(0) => return Err(WorkEnd::Lost),
            Some(n) => self.link.receive(&buf[..n])?,
        }
        while let Some(message) = self.link.next_message()? {
            match message {
                Message::Data(Stream::In, bytes) if bytes.is_empty() => {
                    self.input_over = true;
                    self.end_input();
                }
                Message::Data(Stream::In, bytes) => {
                    if self.waiting.len() + bytes.len() > ROOM as usize {
                        return Err(WorkEnd::Lost);
                    }
                    self.waiting.extend_from_slice(&bytes);
                    match self.sides.input {
                        Some(_) => self.write_input(),
                        None => self.took(bytes.len()),
                    }
                }
                Message::Size(Screen { rows, cols }) => {
                    if let Some(master) = &self.sides.master {
                        terminal::set_size(master, rows, cols);
                    }
                }
                Message::Signal(n) => self.signal(n),
                Message::X(x11_message) => match &mut self.windows {
                    Some(windows) => windows.handle_message(x11_message, &mut self.link)?,
                    None => return Err(WorkEnd::Lost),
                },
                _ => return Err(WorkEnd::Lost),
            }
        }
        Ok(true)
    }

    /// Sends a signal to the processes in the foreground of the user's terminal, otherwise to the
    /// group of the task's first process.
    fn signal(&self, n: i32) {
        let foreground = self.sides.master.as_ref().and_then(terminal::foreground);
        let group = match self.sides.master {
            Some(_) => foreground.or(self.leader),
            None => self.leader,
        };
        if let Some(group) = group.filter(|_| self.finish.is_none()) {
            let _ = proc::killpg(group, n);
        }
    }

    /// The command has ended: the task gets the signal of a terminal that hangs up. The shepherd
    /// does the rest when this process ends.
    fn hang_up(&mut self) {
        self.signal(HANG_UP);
        self.sides.outputs.clear();
        (self.sides.input, self.sides.master) = (None, None);
    }
}

/// SIGHUP.
const HANG_UP: i32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Key;
    use crate::model::{AttemptId, Session, Terminal};
    use crate::sys::ipc;
    use crate::task::spec::WaitingClient;
    use std::io::Read as _;

    fn caller(dir: &Path) -> WaitingClient {
        WaitingClient {
            session: Session::default(),
            file: dir.join("s.0").to_string_lossy().into_owned(),
            task: 0,
        }
    }

    fn ask(caller: &WaitingClient) -> RelayRequest<'_> {
        RelayRequest {
            a: AttemptId::default(),
            host: "h1",
            caller,
            user: None,
            own_files: [false; 3],
            dir: None,
        }
    }

    #[test]
    fn a_command_that_is_gone_or_not_the_users_is_not_called() {
        let d = tempfile::tempdir().unwrap();
        let caller = caller(d.path());
        let file = Path::new(&caller.file);
        let (a, b) = ipc::pair().unwrap();
        let sides = || {
            super::super::TaskEnds::open(Terminal::Streams, [false; 3])
                .unwrap()
                .1
        };
        assert!(find(file).unwrap_err().ends_with("is gone"));
        assert_eq!(serve(&ask(&caller), sides(), b), SENT);
        let mut line = String::new();
        (&a).read_to_string(&mut line).unwrap();
        let message: RelayMessage = serde_json::from_str(&line).unwrap();
        assert!(matches!(message, RelayMessage::Gone(_)));
        fs::publish(file, b"").unwrap();
        assert!(find(file).unwrap_err().ends_with("is gone"));
        fs::publish(file, b"{}").unwrap();
        assert!(find(file).unwrap_err().contains("cannot be understood"));
    }

    #[test]
    fn a_command_that_cannot_be_reached_is_asked_to_read_the_files() {
        let d = tempfile::tempdir().unwrap();
        let caller = caller(d.path());
        let file = Path::new(&caller.file).to_path_buf();
        let word = Layout::session_word(&file);
        fs::publish(&file, b"x").unwrap();
        fs::publish(&word, b"").unwrap();
        let notice = std::thread::spawn({
            let file = file.clone();
            move || loop {
                let bytes = fs::read_small(&word, RENDEZVOUS_MAX).unwrap();
                if let Some(failure) = ConnectFailure::from_bytes(&bytes) {
                    fs::overwrite_unsynced(&file, b"").unwrap();
                    return failure;
                }
                clock::sleep_ms(5);
            }
        });
        let how = instead(&ask(&caller), &file, "refused".into());
        assert_eq!(how, RelayMessage::Files("refused".into()));
        assert_eq!(notice.join().unwrap().host, "h1");
        // A command that ends meanwhile.
        fs::publish(&file, b"x").unwrap();
        let file_ = file.clone();
        let remover = std::thread::spawn(move || {
            clock::sleep_ms(50);
            fs::remove(&file_).unwrap();
        });
        let how = instead(&ask(&caller), &file, "refused".into());
        assert!(matches!(how, RelayMessage::Gone(_)), "{how:?}");
        remover.join().unwrap();
    }

    #[test]
    fn only_who_has_the_key_is_believed() {
        let Ok(listener) = stream::Listener::open() else {
            println!("skipped: no network here");
            return;
        };
        let d = tempfile::tempdir().unwrap();
        let caller = caller(d.path());
        let at = Rendezvous {
            addresses: vec![([127, 0, 0, 1], listener.port()).into()],
            key: Key::new([1; 32]),
        };
        let impostor = std::thread::spawn(move || {
            let wire = loop {
                match listener.accept() {
                    Some((wire, _)) => break wire,
                    None => clock::sleep_ms(2),
                }
            };
            let mut link =
                Link::accepting_end(&Key::new([2; 32]), &channel_name(Default::default()));
            let mut buf = [0; 4096];
            loop {
                match wire.read(&mut buf).unwrap() {
                    Some(n) => {
                        link.receive(&buf[..n]).unwrap();
                        return link.hello().unwrap_err();
                    }
                    None => clock::sleep_ms(2),
                }
            }
        });
        let why = call(&ask(&caller), &at).err().unwrap();
        assert!(
            why.contains("closed the connection") || why.contains("reset"),
            "{why}"
        );
        assert_eq!(impostor.join().unwrap(), ChannelError::Refused);
    }
}
