//! `capps far-end`: the job's end of a tunnel to a program of a running job. It runs on the job's
//! host as the job's user. It exchanges frames of `channel::Frame`. Each connection that a frame
//! opens goes to the port that the job has announced, and to no other port.
//!
//! Owns the choice of the target: only a program of the same user that listens on this host. If the
//! port belongs to another user, the connection is refused before a byte is sent.

use crate::channel::{FRAME_DATA_MAX, Frame, STREAMS_MAX, WINDOW};
use crate::client::exit::{Fail, Result};
use crate::client::job_requests::finish;
use crate::record::connect::{CONNECT_DIR, CONNECT_HOME, CONNECT_MAX, Connect, connect_name};
use crate::sys::stream::{self, PollEntry, ServerAddress};
use crate::sys::{self, fs, ports, proc, terminal};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::PathBuf;

/// Maximum number of paths that are searched for the job's file.
const PLACES_MAX: usize = 16;
/// While more bytes than this wait to be sent, nothing is read from programs.
const OUTGOING_MAX: usize = 1 << 20;

/// Runs it; returns the exit code.
pub(super) fn run() -> i32 {
    finish("capps", serve())
}

fn serve() -> Result<i32> {
    sys::signals::ignore_sigpipe();
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let number = |name: &str| var(name).and_then(|text| text.parse::<u32>().ok());
    let Some(id) = number("CB_JOBID") else {
        return Err(Fail::usage("far-end: not started for a job"));
    };
    let idx = number("CB_JOBINDEX").unwrap_or(0);
    let known = RefCell::new(Vec::new());
    let announced = move || {
        let mut known = known.borrow_mut();
        // The processes are searched once, and again as long as no file exists.
        if !known.iter().any(|file: &PathBuf| fs::exists(file)) {
            *known = endpoint_paths(id, idx);
        }
        announced(&known, (id, idx))
    };
    let (input, output) = (terminal::own_stream(0)?, terminal::own_stream(1)?);
    TunnelServer::new(input, output, &announced)?.run()?;
    Ok(0)
}

/// The possible paths of the job's file, from the environments of the job's processes; this process
/// is one of them. Environments of other users' processes cannot be read.
fn endpoint_paths(id: u32, idx: u32) -> Vec<PathBuf> {
    let of_job = [format!("CB_JOBID={id}"), format!("CB_JOBINDEX={idx}")];
    let mut all = Vec::new();
    for pid in proc::with_environment(&of_job) {
        let [dir, home] = proc::variables(pid, [CONNECT_DIR, "HOME"]);
        let home = home.map(|home| PathBuf::from(home).join(CONNECT_HOME));
        for dir in dir.map(PathBuf::from).into_iter().chain(home) {
            let place = dir.join(connect_name(id, idx));
            if place.is_absolute() && !all.contains(&place) && all.len() < PLACES_MAX {
                all.push(place);
            }
        }
    }
    all
}

/// The announcement of the job: the bytes of its file, and the parsed content.
type Announcement = std::result::Result<(Vec<u8>, Connect), String>;

/// Reads the first of these files that exists.
fn announced(files: &[PathBuf], (id, idx): (u32, u32)) -> Announcement {
    let me = sys::users::effective_uid();
    for file in files {
        let (bytes, uid) = match fs::read_small_owned(file, CONNECT_MAX) {
            Ok(read) => read,
            Err(e) if e.is_not_found() => continue,
            Err(e) => return Err(e.to_string()),
        };
        if uid != me {
            return Err(format!("{} is another user's", file.display()));
        }
        let connect = Connect::from_bytes(&bytes, id, idx);
        let connect = connect.map_err(|why| format!("{}: {why}", file.display()))?;
        return Ok((bytes, connect));
    }
    Err("the job has not announced a program (yet)".to_owned())
}

/// A connection to the program.
struct ProgramConnection {
    socket: File,
    /// Bytes to be written to the program.
    outgoing: Vec<u8>,
    /// Number of bytes that the portal's end still accepts.
    room: usize,
    /// The portal's end has sent its last byte.
    input_ended: bool,
    /// The end of input was passed on to the program.
    end_sent: bool,
    /// The program has sent its last byte.
    output_ended: bool,
}

/// See the top of this file.
pub(crate) struct TunnelServer<'a> {
    input: File,
    output: File,
    announced: &'a dyn Fn() -> Announcement,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    streams: BTreeMap<u32, ProgramConnection>,
    /// The user who must have the program's port.
    me: u32,
}

impl<'a> TunnelServer<'a> {
    /// `input` and `output` may be the same socket. `announced` reads the job's announcement.
    ///
    /// # Errors
    /// The descriptors cannot be made non-blocking.
    pub(crate) fn new(
        input: File,
        output: File,
        announced: &'a dyn Fn() -> Announcement,
    ) -> Result<TunnelServer<'a>> {
        terminal::set_nonblocking(&input)?;
        terminal::set_nonblocking(&output)?;
        Ok(TunnelServer {
            input,
            output,
            announced,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            streams: BTreeMap::new(),
            me: sys::users::effective_uid(),
        })
    }

    /// Forwards data until the portal's end closes the tunnel.
    ///
    /// # Errors
    /// The portal's end sends an invalid frame.
    pub(crate) fn run(mut self) -> Result<()> {
        loop {
            let (list, order) = self.poll_entries();
            let ready = stream::wait(&list, None)?;
            for (stream, (read, write)) in order.iter().zip(&ready[2..]) {
                self.forward(*stream, *read, *write);
            }
            if ready[0].0 && !self.receive()? {
                return Ok(());
            }
            if !self.outgoing.is_empty() {
                match terminal::write_now(&self.output, &self.outgoing) {
                    Ok(n) => drop(self.outgoing.drain(..n)),
                    Err(_) => return Ok(()),
                }
            }
        }
    }

    /// The descriptors to wait for: input, output, then the connections in the returned order.
    fn poll_entries(&self) -> (Vec<PollEntry>, Vec<u32>) {
        let of = |fd: RawFd, read: bool, write: bool| PollEntry { fd, read, write };
        let mut list = vec![
            of(self.input.as_raw_fd(), true, false),
            of(self.output.as_raw_fd(), false, !self.outgoing.is_empty()),
        ];
        let reads = self.outgoing.len() < OUTGOING_MAX;
        for stream in self.streams.values() {
            let read = reads && stream.room > 0 && !stream.output_ended;
            let write = !stream.outgoing.is_empty() || (stream.input_ended && !stream.end_sent);
            list.push(of(stream.socket.as_raw_fd(), read, write));
        }
        (list, self.streams.keys().copied().collect())
    }

    fn send_frame(&mut self, frame: &Frame) {
        frame.put(&mut self.outgoing);
    }

    /// Receives frames from the portal's end; false: it has closed the tunnel.
    fn receive(&mut self) -> Result<bool> {
        let mut buf = [0; 32 << 10];
        match terminal::read_now(&self.input, &mut buf) {
            Ok(None) => return Ok(true),
            Ok(Some(n)) if n > 0 => self.incoming.extend_from_slice(&buf[..n]),
            _ => return Ok(false),
        }
        loop {
            let frame =
                Frame::take_frame(&mut self.incoming).map_err(|e| Fail::system(e.to_string()))?;
            match frame {
                None => return Ok(true),
                Some(Frame::Ask) => {
                    let about = (self.announced)().map(|(bytes, _)| bytes);
                    self.send_frame(&Frame::About(about));
                }
                Some(Frame::Open(n)) => match self.open(n) {
                    Ok(stream) => drop(self.streams.insert(n, stream)),
                    Err(why) => self.send_frame(&Frame::Over(n, why)),
                },
                Some(Frame::Data(n, bytes)) => self.accept_data(n, &bytes),
                Some(Frame::Took(n, bytes)) => {
                    if let Some(stream) = self.streams.get_mut(&n) {
                        stream.room = (stream.room + bytes as usize).min(WINDOW as usize);
                    }
                }
                Some(Frame::Over(n, _)) => drop(self.streams.remove(&n)),
                Some(Frame::About(_)) => return Err(Fail::system("an unexpected frame")),
            }
        }
    }

    /// Accepts bytes for the program. A sender that exceeds its window violates the protocol.
    fn accept_data(&mut self, n: u32, bytes: &[u8]) {
        let Some(stream) = self.streams.get_mut(&n) else {
            return;
        };
        if stream.input_ended || stream.outgoing.len() + bytes.len() > WINDOW as usize {
            self.streams.remove(&n);
            let why = "the sender exceeded its window".to_owned();
            return self.send_frame(&Frame::Over(n, why));
        }
        stream.input_ended = bytes.is_empty();
        stream.outgoing.extend_from_slice(bytes);
    }

    /// Connects to the program that the job has announced.
    fn open(&self, n: u32) -> std::result::Result<ProgramConnection, String> {
        if self.streams.len() >= STREAMS_MAX || self.streams.contains_key(&n) {
            return Err(format!(
                "{STREAMS_MAX} connections are open, which is the maximum"
            ));
        }
        let (_, connect) = (self.announced)()?;
        let port = connect.port;
        let not_listening = || format!("nothing listens on port {port} (yet)");
        let near = self.program_of(port)?.ok_or_else(not_listening)?;
        let at = ServerAddress::Tcp(SocketAddr::new(near, port));
        let socket = stream::connect_nonblocking(&at)
            .map_err(|e| format!("port {port}: {}", sys::reason(&e)))?;
        // Checked again: the port may have belonged to another user while connecting.
        self.program_of(port)?.ok_or_else(not_listening)?;
        Ok(ProgramConnection {
            socket,
            outgoing: Vec::new(),
            room: WINDOW as usize,
            input_ended: false,
            end_sent: false,
            output_ended: false,
        })
    }

    /// The address on which the user's own program listens; `None`: nothing listens on the port.
    fn program_of(&self, port: u16) -> std::result::Result<Option<std::net::IpAddr>, String> {
        let all = ports::listeners(port).map_err(|e| e.to_string())?;
        match all.iter().find(|listens| listens.uid != self.me) {
            Some(_) => Err(format!("port {port} on this host belongs to another user")),
            None => Ok(all.first().map(ports::ListeningSocket::local_address)),
        }
    }

    /// Forwards data of one connection.
    fn forward(&mut self, n: u32, read: bool, write: bool) {
        let Some(stream) = self.streams.get_mut(&n) else {
            return;
        };
        let mut frames = Vec::new();
        let is_open = stream.forward(n, read, write, &mut frames);
        if !is_open {
            self.streams.remove(&n);
        }
        frames.iter().for_each(|frame| self.send_frame(frame));
    }
}

impl ProgramConnection {
    /// Forwards as much as possible without waiting; false: the connection has ended.
    fn forward(&mut self, n: u32, read: bool, write: bool, frames: &mut Vec<Frame>) -> bool {
        let over = |why: &std::io::Error| Frame::Over(n, sys::reason(why));
        if write && !self.outgoing.is_empty() {
            match terminal::write_now(&self.socket, &self.outgoing) {
                Ok(0) => {}
                Ok(sent) => {
                    self.outgoing.drain(..sent);
                    frames.push(Frame::Took(n, u32::try_from(sent).unwrap_or(WINDOW)));
                }
                Err(e) => {
                    frames.push(over(&e));
                    return false;
                }
            }
        }
        if self.input_ended && self.outgoing.is_empty() && !self.end_sent {
            sys::ipc::shut_down_writes(&self.socket);
            self.end_sent = true;
        }
        if read && self.room > 0 && !self.output_ended {
            let mut buf = [0; FRAME_DATA_MAX];
            let most = self.room.min(buf.len());
            match terminal::read_now(&self.socket, &mut buf[..most]) {
                Ok(None) => {}
                Ok(Some(got)) => {
                    self.room -= got;
                    self.output_ended = got == 0;
                    frames.push(Frame::Data(n, buf[..got].to_vec()));
                }
                Err(e) => {
                    frames.push(over(&e));
                    return false;
                }
            }
        }
        !(self.output_ended && self.end_sent)
    }
}

#[cfg(test)]
mod tests;
