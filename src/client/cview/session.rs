//! A session of cview: threads that read the view, send requests to the leader, and read keys and
//! signals; and the loop that updates the state with their results and draws it.
//!
//! The loop itself never accesses the share, so if the share hangs, updates are delayed but keys
//! are not.

use super::actions::Action;
use super::app::{App, SLOW_MS};
use super::draw::{DisplayOptions, DrawTime, draw};
use super::key_actions::{SessionEffect, handle_key};
use super::reading::{PollResult, ViewPoller};
use super::screen::{self, FullScreen, Input};
use super::view_data::NeededData;
use crate::client::env::Site;
use crate::client::exit::{Fail, Result};
use crate::client::read::{self, Source};
use crate::client::requests::{self, NoAnswer};
use crate::language;
use crate::record::ack::Ack;
use crate::sys::{clock, signals, thread};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of messages that wait for the loop.
const WAITING_MAX: usize = 256;
/// Stack size of a thread, in bytes.
const STACK: usize = 1 << 20;
/// The pause after a read lasts at least this many times as long as the read: on a slow machine
/// most of the time belongs to other programs.
const PAUSES: u64 = 4;
/// Signals that are handled: those that end the session, and those of job control.
const SIGNALS: &[&str] = &["TERM", "INT", "HUP", "TSTP", "CONT"];

/// A message from the threads.
enum Message {
    Input(Input),
    Update(PollResult),
    Answer(std::result::Result<Ack, String>),
    Signal(i32),
    /// The terminal no longer exists.
    Closed,
}

/// The channels to and from the threads.
struct Threads {
    messages: Receiver<Message>,
    needs: Sender<NeededData>,
    actions: Sender<Action>,
    /// When the current read began, by the monotonic clock; 0: the reader waits.
    reading_since: Arc<AtomicU64>,
}

/// Runs cview on the terminal until the user leaves; returns the exit code.
///
/// # Errors
/// The terminal or the system does not support it.
pub(crate) fn run(source: Source, mut app: App, interval_ms: u64, color: bool) -> Result<i32> {
    let dates = source.ctx().dates;
    let display = DisplayOptions {
        color,
        cursor: true,
        language: language::of_process(),
    };
    crate::client::hang_notice::end();
    let numbers = SIGNALS.iter().filter_map(|name| signals::number(name));
    let caught = signals::catch(&numbers.collect::<Vec<_>>())?;
    let mut full_screen = FullScreen::take_over()?;
    let threads = Threads::start(source, interval_ms, caught)?;
    let mut needed = NeededData::default();
    loop {
        if app.needed_data() != needed {
            needed = app.needed_data();
            drop(threads.needs.send(needed.clone()));
        }
        let now = clock::wall_ms();
        let moment = DrawTime {
            now,
            dates: &dates,
            hangs_s: threads.hangs_s(),
        };
        let drawn = full_screen.canvas.draw(|frame| {
            let area = frame.area();
            if (area.width, area.height) != app.size {
                app.resize((area.width, area.height));
            }
            draw(&app, display, &moment, frame.buffer_mut());
        });
        if drawn.is_err() {
            // The terminal no longer exists.
            return Ok(code_of("HUP"));
        }
        // Wakes up in time to update the clock on the screen.
        let until_next_s = 1000 - now.rem_euclid(1000).unsigned_abs();
        let mut message = match thread::recv_timeout(&threads.messages, until_next_s) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(Fail::system("all threads ended")),
        };
        // Messages that arrived together cause a single frame.
        while let Some(one) = message {
            if let Some(code) = handle_message(&mut app, &mut full_screen, &threads, one)? {
                return Ok(code);
            }
            message = threads.messages.try_recv().ok();
        }
    }
}

/// Handles a message; returns the exit code if it ends the session.
fn handle_message(
    app: &mut App,
    full_screen: &mut FullScreen,
    threads: &Threads,
    message: Message,
) -> Result<Option<i32>> {
    match message {
        Message::Input(Input::Key(key)) => match handle_key(app, key) {
            SessionEffect::None => {}
            SessionEffect::Quit => return Ok(Some(0)),
            SessionEffect::Interrupt => return Ok(Some(code_of("INT"))),
            SessionEffect::Suspend => full_screen.suspend()?,
            SessionEffect::Redraw => full_screen.retake()?,
            SessionEffect::Ask(action) => drop(threads.actions.send(action)),
        },
        // The size is queried when drawing.
        Message::Input(Input::Resize) | Message::Update(PollResult::Unchanged) => {}
        Message::Update(PollResult::Data(data)) => app.set_data(*data, clock::wall_ms()),
        Message::Update(PollResult::Failed(why)) => app.fail(why),
        Message::Answer(answer) => {
            app.answered(answer);
            // The effect of the action is read at once.
            drop(threads.needs.send(app.needed_data()));
        }
        Message::Signal(number) => match signals::name(number).as_str() {
            "TSTP" => full_screen.suspend()?,
            "CONT" => full_screen.retake()?,
            name => return Ok(Some(code_of(name))),
        },
        Message::Closed => return Ok(Some(code_of("HUP"))),
    }
    Ok(None)
}

/// The exit code after a signal: 128 and its number.
fn code_of(signal: &str) -> i32 {
    128 + signals::number(signal).unwrap_or(0)
}

impl Threads {
    fn start(source: Source, interval_ms: u64, caught: Receiver<i32>) -> Result<Threads> {
        let (tx, messages) = bounded(WAITING_MAX);
        let (needs, needs_read) = unbounded();
        let (actions, action_queue) = unbounded();
        let reading_since = Arc::new(AtomicU64::new(0));
        let site = source.site.clone();
        let (to, since) = (tx.clone(), reading_since.clone());
        spawn("view", move || {
            read_on(&source, interval_ms, &needs_read, &to, &since)
        })?;
        let to = tx.clone();
        spawn("ask", move || send_actions(&site, &action_queue, &to))?;
        let to = tx.clone();
        spawn("signals-on", move || {
            while let Ok(number) = caught.recv() {
                if to.send(Message::Signal(number)).is_err() {
                    return;
                }
            }
        })?;
        spawn("keys", move || {
            while let Some(input) = screen::next_input() {
                if tx.send(Message::Input(input)).is_err() {
                    return;
                }
            }
            drop(tx.send(Message::Closed));
        })?;
        Ok(Threads {
            messages,
            needs,
            actions,
            reading_since,
        })
    }

    /// How long the share has not responded, in seconds.
    fn hangs_s(&self) -> Option<u64> {
        let since = self.reading_since.load(Ordering::Relaxed);
        let ms = clock::boot_ms().saturating_sub(since);
        (since > 0 && ms >= SLOW_MS).then_some(ms / 1000)
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    match thread::spawn(name, STACK, body) {
        Ok(_) => Ok(()),
        Err(e) => Err(Fail::system(format!(
            "cannot start a thread: {}",
            crate::sys::reason(&e)
        ))),
    }
}

/// Reads the view at every interval, and when other data are needed.
fn read_on(
    source: &Source,
    interval_ms: u64,
    needs_read: &Receiver<NeededData>,
    to: &Sender<Message>,
    since: &AtomicU64,
) {
    let mut poller = ViewPoller::default();
    let Ok(mut needed) = needs_read.recv() else {
        return;
    };
    loop {
        let began = clock::boot_ms().max(1);
        since.store(began, Ordering::Relaxed);
        let ctx = match needed.page {
            Some(_) => source.ctx_with_estimates(),
            None => source.ctx(),
        };
        let update = poller.poll(source, &needed, ctx);
        since.store(0, Ordering::Relaxed);
        if to.send(Message::Update(update)).is_err() {
            return;
        }
        let took = clock::boot_ms().saturating_sub(began);
        match thread::recv_timeout(needs_read, interval_ms.max(took.saturating_mul(PAUSES))) {
            Ok(other) => needed = other,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Only the last request counts.
        while let Ok(other) = needs_read.try_recv() {
            needed = other;
        }
    }
}

/// Sends actions to the leader, one after the other.
fn send_actions(site: &Site, action_queue: &Receiver<Action>, to: &Sender<Message>) {
    while let Ok(action) = action_queue.recv() {
        let answer = requests::wait_s(None)
            .map_err(|fail| fail.text)
            .and_then(|wait_s| {
                let answer = requests::send_and_wait_silently(site, &action.verbs(), wait_s);
                answer.map_err(|e| match e {
                    NoAnswer::NotSent(fail) => fail.text,
                    NoAnswer::Silence(text) | NoAnswer::Interrupted(text) => text,
                })
            });
        if to.send(Message::Answer(answer)).is_err() {
            return;
        }
    }
}

/// Whether colours may be used.
pub(crate) fn colors() -> bool {
    read::colors()
}
