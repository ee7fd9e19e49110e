//! `cbexe`'s end of the connection to the spawner: starts it, sends messages, receives answers.
//!
//! A spawner that has ended or does not accept messages is given up; tasks that it started
//! continue. The caller starts another one.

use crate::host::local::Local;
use crate::sys::child::{self, Helper};
use crate::sys::{fs, ipc, userfile};
use crate::task::spec::{FromSpawner, ToSpawner, encode, split};
use crossbeam::channel::{Receiver, Sender, unbounded};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// How long one message may wait for the spawner to read (ms).
const SEND_MS: u64 = 20_000;
const READ_MAX: usize = 16 << 10;

/// The connection to a spawner.
pub trait Wire: Send {
    fn pid(&self) -> i32;
    /// Sends bytes.
    ///
    /// # Errors
    /// The spawner has ended or does not read.
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()>;
    /// Closes the connection: nothing more is sent, and the spawner finishes its work and ends.
    fn close(&mut self);
    fn has_ended(&mut self) -> bool;
    fn kill(&mut self);
}

/// A `cbtask --spawner`.
struct Process {
    helper: Helper,
    stream: File,
}

impl Wire for Process {
    fn pid(&self) -> i32 {
        self.helper.pid()
    }

    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn close(&mut self) {
        ipc::shut_down_writes(&self.stream);
    }

    fn has_ended(&mut self) -> bool {
        self.helper.has_ended()
    }

    fn kill(&mut self) {
        self.helper.kill();
    }
}

/// Starts a replacement of the spawner that appends to tasks log `log` and sends its events to the
/// channel.
pub type StartReplacement = std::sync::Arc<
    dyn Fn(&Local, u64, Sender<SpawnerEvent>) -> Result<Box<dyn Wire>, String> + Send + Sync,
>;

/// How spawners are started.
#[derive(Clone)]
pub struct SpawnMode {
    pub program: PathBuf,
    pub host: String,
    pub cgroups: bool,
    /// Give it root privileges again: `cbexe` acts as the service account.
    pub privileged: bool,
    /// Started instead of the program in simulations.
    pub replacement: Option<StartReplacement>,
}

/// Events of a spawner; `Ended` is the last one.
#[derive(Clone, PartialEq, Debug)]
pub enum SpawnerEvent {
    Message(FromSpawner),
    Ended(String),
}

/// A running spawner.
pub struct Spawner {
    wire: Box<dyn Wire>,
    buf: Vec<u8>,
    pub received: Receiver<SpawnerEvent>,
    /// Number of the tasks log that its shepherds append to.
    pub log: u64,
}

/// The number for the next tasks log: higher than all existing ones.
pub fn next_log(local: &Local) -> u64 {
    let names = fs::list_dir(local.dir(), 100_000).unwrap_or_default();
    let used = names
        .iter()
        .filter_map(|e| Local::parse_tasks_name(e.text()?));
    used.max().unwrap_or(0).saturating_add(1)
}

impl Spawner {
    /// Starts a spawner that appends to tasks log `log`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(mode: &SpawnMode, local: &Local, log: u64) -> Result<Spawner, String> {
        let (tx, events) = unbounded();
        let wire = match &mode.replacement {
            Some(start_replacement) => start_replacement(local, log, tx)?,
            None => Box::new(start_process(mode, local, log, tx)?),
        };
        Ok(Spawner {
            wire,
            buf: Vec::new(),
            received: events,
            log,
        })
    }

    pub fn pid(&self) -> i32 {
        self.wire.pid()
    }

    /// Adds a message for the next `flush`.
    ///
    /// # Errors
    /// The message is too long.
    pub fn push(&mut self, message: &ToSpawner) -> Result<(), String> {
        encode(&mut self.buf, message)
    }

    /// Sends the pushed messages.
    ///
    /// # Errors
    /// The spawner has ended or does not read; it must then be given up.
    pub fn flush(&mut self) -> Result<(), String> {
        if self.buf.is_empty() {
            return Ok(());
        }
        let result = self.wire.send(&self.buf);
        self.buf.clear();
        result.map_err(|e| format!("the spawner (pid {}) accepts no messages: {e}", self.pid()))
    }

    /// Lets it finish the tasks that it was sent and end; its tasks continue. Poll `has_ended`
    /// afterwards.
    pub fn retire(&mut self) {
        let _ = self.flush();
        self.wire.close();
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.wire.has_ended()
    }

    /// Kills it; its tasks continue.
    pub fn give_up(mut self) {
        self.wire.kill();
    }
}

fn start_process(
    mode: &SpawnMode,
    local: &Local,
    log: u64,
    tx: Sender<SpawnerEvent>,
) -> Result<Process, String> {
    let (ours, theirs) = ipc::pair().map_err(|e| e.to_string())?;
    ipc::limit_writes(&ours, SEND_MS).map_err(|e| e.to_string())?;
    let text = |s: &str| s.to_owned();
    let dir = local.dir().to_string_lossy().into_owned();
    let mut args = vec![text("--spawner"), text("--local"), dir];
    args.extend([
        text("--host"),
        mode.host.clone(),
        text("--log"),
        log.to_string(),
    ]);
    if !mode.cgroups {
        args.push(text("--no-cgroups"));
    }
    let helper =
        child::start(&mode.program, &args, theirs, mode.privileged).map_err(|e| e.to_string())?;
    let listen = ours.try_clone().map_err(|e| e.to_string())?;
    std::thread::Builder::new()
        .name("spawner".to_owned())
        .stack_size(128 << 10)
        .spawn(move || {
            let why = listen_to(&listen, &tx).err();
            let _ = tx.send(SpawnerEvent::Ended(
                why.unwrap_or_else(|| "ended".to_owned()),
            ));
        })
        .map_err(|e| e.to_string())?;
    Ok(Process {
        helper,
        stream: ours,
    })
}

fn listen_to(stream: &File, tx: &Sender<SpawnerEvent>) -> Result<(), String> {
    let mut buf: Vec<u8> = Vec::new();
    loop {
        let more = userfile::read_more(stream, &mut buf, READ_MAX);
        if more.map_err(|e| e.to_string())? == 0 {
            return Ok(());
        }
        let mut used = 0;
        while let Some((json, n)) = split(&buf[used..])? {
            used += n;
            let message = serde_json::from_slice(json).map_err(|e| e.to_string())?;
            if tx.send(SpawnerEvent::Message(message)).is_err() {
                return Ok(());
            }
        }
        buf.drain(..used);
    }
}
