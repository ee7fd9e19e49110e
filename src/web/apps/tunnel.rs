//! A tunnel to the program of a job: `capps tunnel`, started for its user, whose input and output
//! are one socket of frames. Connections within it are opened as needed.
//!
//! Owns its bookkeeping and the buffers: each connection has a window of bytes in each direction,
//! and a connection with a slow reader does not delay the others.

use crate::App;
use crate::identity::AttachedProgram;
use corral::api::Failure;
use corral::api::attach::{FRAME_DATA_MAX, STREAMS_MAX, TunnelFrame as Frame, WINDOW, take_frame};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Plain;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// Bytes buffered between a connection and its user.
const BETWEEN: usize = 64 << 10;
/// Frames that wait to be sent.
const WAITING: usize = 64;
/// A tunnel that was unused for this long is closed.
const IDLE: Duration = Duration::from_secs(600);
/// Interval at which use and session are checked.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Maximum wait for the program's description: the job's host polls for this connection.
const ABOUT_TIME: Duration = Duration::from_secs(60);

type ProgramDescription = Result<Vec<u8>, String>;

/// A connection to the program.
pub(super) struct Connection {
    pub(super) io: DuplexStream,
    /// Why the other side ended it, if it did.
    pub(super) why: Arc<Mutex<String>>,
}

/// A connection, as seen by the tunnel.
struct Stream {
    /// Data for the user of the connection; its end closes the connection.
    down: mpsc::UnboundedSender<Vec<u8>>,
    /// Bytes that the program's side can still receive.
    room: Arc<Semaphore>,
    /// Bytes that arrived and were not read yet.
    waits: Arc<std::sync::atomic::AtomicUsize>,
    why: Arc<Mutex<String>>,
}

#[derive(Default)]
struct State {
    streams: HashMap<u32, Stream>,
    last: u32,
    description_requests: Vec<oneshot::Sender<ProgramDescription>>,
    is_over: bool,
    /// The reason that the other side has stated.
    why: String,
}

impl State {
    /// Removes requests that no longer wait: they would keep the tunnel in use, and accumulate.
    fn forget_gone(&mut self) {
        self.description_requests
            .retain(|sender| !sender.is_closed());
    }
}

/// See the top of this file.
pub(super) struct Tunnel {
    state: Mutex<State>,
    frames: mpsc::Sender<Frame>,
    end: watch::Sender<bool>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn over() -> String {
    "the connection to the job is closed".to_owned()
}

impl Tunnel {
    /// A tunnel over a started `capps tunnel`, which lasts as long as the session.
    ///
    /// # Errors
    /// The descriptor cannot be used.
    pub(super) fn begin(
        app: &App,
        session: &str,
        program: AttachedProgram,
    ) -> io::Result<Arc<Tunnel>> {
        let (end, keeps) = program.split();
        let plain = Plain::from(OwnedFd::from(end));
        plain.set_nonblocking(true)?;
        let (from, to) = UnixStream::from_std(plain)?.into_split();
        let (frames, outgoing) = mpsc::channel(WAITING);
        let (end, mut ending) = watch::channel(false);
        let tunnel = Arc::new(Tunnel {
            state: Mutex::default(),
            frames,
            end,
        });
        let (own, app, session) = (tunnel.clone(), app.clone(), session.to_owned());
        tokio::spawn(async move {
            tokio::select! {
                why = own.read_frames(from) => own.close(&why),
                () = write(to, outgoing) => own.close(&over()),
                () = own.until_unused(&app, &session) => own.close(&over()),
                _ = ending.wait_for(|end| *end) => own.close(&over()),
            }
            drop(keeps);
        });
        Ok(tunnel)
    }

    pub(super) fn is_over(&self) -> bool {
        lock(&self.state).is_over
    }

    /// Closes the tunnel with all its connections.
    pub(super) fn end(&self) {
        let _ = self.end.send(true);
    }

    fn close(&self, why: &str) {
        let mut state = lock(&self.state);
        state.is_over = true;
        if state.why.is_empty() {
            why.clone_into(&mut state.why);
        }
        let why = state.why.clone();
        for sender in state.description_requests.drain(..) {
            let _ = sender.send(Err(why.clone()));
        }
        for (_, stream) in state.streams.drain() {
            lock(&stream.why).clone_from(&why);
            stream.room.close();
        }
    }

    async fn until_unused(&self, app: &App, session: &str) {
        let mut idle = Duration::ZERO;
        let mut ending = app.ending.clone();
        while idle < IDLE {
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => return,
                () = tokio::time::sleep(CHECK_EVERY) => {}
            }
            if !app
                .sessions()
                .is_there(session, corral::sys::clock::wall_ms())
            {
                return;
            }
            let mut state = lock(&self.state);
            state.forget_gone();
            idle = match state.streams.is_empty() && state.description_requests.is_empty() {
                true => idle + CHECK_EVERY,
                false => Duration::ZERO,
            };
        }
    }

    /// The description that the job's program has announced.
    ///
    /// # Errors
    /// There is none, or it cannot be requested.
    pub(super) async fn about(&self) -> ProgramDescription {
        let (to, answer) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            if state.is_over {
                return Err(state.why.clone());
            }
            state.forget_gone();
            state.description_requests.push(to);
        }
        let _ = self.frames.send(Frame::Ask).await;
        match tokio::time::timeout(ABOUT_TIME, answer).await {
            Ok(Ok(about)) => about,
            Ok(Err(_)) => Err(over()),
            Err(_) => Err("the job's host does not answer".to_owned()),
        }
    }

    /// Opens a connection to the program.
    ///
    /// # Errors
    /// The tunnel is closed, or has the maximum number of connections.
    pub(super) async fn open(self: &Arc<Self>) -> Result<Connection, String> {
        let (mine, theirs) = tokio::io::duplex(BETWEEN);
        let (down, incoming) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(WINDOW as usize));
        let (why, waits) = (Arc::default(), Arc::default());
        let stream = Stream {
            down,
            room: room.clone(),
            waits: Arc::clone(&waits),
            why: Arc::clone(&why),
        };
        let n = {
            let mut state = lock(&self.state);
            if state.is_over {
                return Err(state.why.clone());
            }
            if state.streams.len() >= STREAMS_MAX {
                return Err(format!(
                    "{STREAMS_MAX} connections to the job are open, which is the maximum"
                ));
            }
            state.last = state.last.wrapping_add(1);
            let n = state.last;
            state.streams.insert(n, stream);
            n
        };
        if self.frames.send(Frame::Open(n)).await.is_err() {
            return Err(over());
        }
        let (from, to) = tokio::io::split(theirs);
        let own = self.clone();
        tokio::spawn(async move {
            // Either side may end first; the connection is over when both have.
            let up = send_up(&own.frames, n, from, &room);
            let down = take_down(&own.frames, n, to, incoming, &waits);
            let (up, down) = tokio::join!(up, down);
            lock(&own.state).streams.remove(&n);
            if up.is_err() || down.is_err() {
                let _ = own.frames.send(Frame::Over(n, String::new())).await;
            }
        });
        Ok(Connection { io: mine, why })
    }

    /// Handles incoming frames until the stream ends; returns why it ended.
    async fn read_frames(&self, mut from: OwnedReadHalf) -> String {
        let (mut received_bytes, mut buf) = (Vec::new(), vec![0; 32 << 10]);
        loop {
            match from.read(&mut buf).await {
                Ok(n) if n > 0 => received_bytes.extend_from_slice(&buf[..n]),
                _ => return over(),
            }
            loop {
                match take_frame(&mut received_bytes) {
                    Ok(None) => break,
                    Ok(Some(frame)) => {
                        if let Err(Failure { text, .. }) = self.handle_frame(frame) {
                            return text;
                        }
                    }
                    Err(failure) => return failure.text,
                }
            }
        }
    }

    fn handle_frame(&self, frame: Frame) -> Result<(), Failure> {
        use std::sync::atomic::Ordering::Relaxed;
        let broken = || Failure {
            kind: corral::api::FailureKind::System,
            text: "the other end violates the protocol".to_owned(),
        };
        let mut state = lock(&self.state);
        match frame {
            Frame::About(about) => {
                // It is repeated when the tunnel ends.
                if let Err(why) = &about {
                    state.why.clone_from(why);
                }
                for sender in state.description_requests.drain(..) {
                    let _ = sender.send(about.clone());
                }
            }
            Frame::Data(n, bytes) => {
                let Some(stream) = state.streams.get(&n) else {
                    return Ok(());
                };
                let waits = stream.waits.fetch_add(bytes.len(), Relaxed) + bytes.len();
                if waits > WINDOW as usize {
                    return Err(broken());
                }
                let _ = stream.down.send(bytes);
            }
            Frame::Took(n, bytes) => {
                if let Some(stream) = state.streams.get(&n) {
                    if stream.room.available_permits() + bytes as usize > WINDOW as usize {
                        return Err(broken());
                    }
                    stream.room.add_permits(bytes as usize);
                }
            }
            Frame::Over(n, why) => {
                if let Some(stream) = state.streams.remove(&n) {
                    *lock(&stream.why) = why;
                    stream.room.close();
                }
            }
            Frame::Ask | Frame::Open(_) => return Err(broken()),
        }
        Ok(())
    }
}

async fn write(mut to: OwnedWriteHalf, mut frames: mpsc::Receiver<Frame>) {
    let mut out = Vec::new();
    while let Some(frame) = frames.recv().await {
        out.clear();
        frame.put(&mut out);
        if to.write_all(&out).await.is_err() {
            return;
        }
    }
}

/// The connection ended prematurely.
struct ConnectionLost;

/// Sends what the user of the connection writes, as far as the other side can receive it.
async fn send_up(
    frames: &mpsc::Sender<Frame>,
    n: u32,
    mut from: ReadHalf<DuplexStream>,
    room: &Semaphore,
) -> Result<(), ConnectionLost> {
    let mut buf = vec![0; FRAME_DATA_MAX];
    loop {
        let count = from.read(&mut buf).await.map_err(|_| ConnectionLost)?;
        let cost = u32::try_from(count).map_err(|_| ConnectionLost)?;
        room.acquire_many(cost)
            .await
            .map_err(|_| ConnectionLost)?
            .forget();
        let frame = Frame::Data(n, buf[..count].to_vec());
        frames.send(frame).await.map_err(|_| ConnectionLost)?;
        if count == 0 {
            return Ok(());
        }
    }
}

/// Gives incoming data to the user of the connection, and acknowledges it.
async fn take_down(
    frames: &mpsc::Sender<Frame>,
    n: u32,
    mut to: WriteHalf<DuplexStream>,
    mut incoming: mpsc::UnboundedReceiver<Vec<u8>>,
    waits: &std::sync::atomic::AtomicUsize,
) -> Result<(), ConnectionLost> {
    while let Some(bytes) = incoming.recv().await {
        if bytes.is_empty() {
            return to.shutdown().await.map_err(|_| ConnectionLost);
        }
        to.write_all(&bytes).await.map_err(|_| ConnectionLost)?;
        waits.fetch_sub(bytes.len(), std::sync::atomic::Ordering::Relaxed);
        let took = u32::try_from(bytes.len()).map_err(|_| ConnectionLost)?;
        frames
            .send(Frame::Took(n, took))
            .await
            .map_err(|_| ConnectionLost)?;
    }
    let _ = to.shutdown().await;
    Err(ConnectionLost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_no_more_is_forgotten() {
        let mut state = State::default();
        let (to, waits) = oneshot::channel();
        let (closed_sender, closed_receiver) = oneshot::channel();
        drop(closed_receiver);
        state.description_requests.extend([closed_sender, to]);
        state.forget_gone();
        assert_eq!(state.description_requests.len(), 1);
        assert!(
            !state.description_requests[0].is_closed(),
            "the one that waits stays"
        );
        drop(waits);
    }
}
