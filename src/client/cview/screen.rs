//! The terminal while cview uses it: taken over completely, and restored on every exit path.
//!
//! Owns the terminal's mode, its alternate screen and the meaning of its bytes as keys. Draws
//! nothing.

use super::keys::Key;
use crate::client::exit::{Fail, Result};
use crate::sys;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, terminal};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use std::io::{self, BufWriter, IsTerminal as _, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code after a panic, the same as Rust's own.
const PANICKED: i32 = 101;

/// Whether the terminal is taken over now.
static IS_TAKEN_OVER: AtomicBool = AtomicBool::new(false);

/// Where frames are drawn.
pub(crate) type Canvas = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// The terminal while it is taken over; restored when dropped.
pub(crate) struct FullScreen {
    pub canvas: Canvas,
}

impl FullScreen {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// The terminal does not support it.
    pub(crate) fn take_over() -> Result<FullScreen> {
        restore_at_panic();
        enter().map_err(|e| refused(&e))?;
        match blank() {
            Ok(canvas) => Ok(FullScreen { canvas }),
            Err(e) => {
                restore();
                Err(refused(&e))
            }
        }
    }

    /// Restores the terminal, stops this process until it is continued, and takes the terminal over
    /// again.
    ///
    /// # Errors
    /// As [`FullScreen::take_over`].
    pub(crate) fn suspend(&mut self) -> Result<()> {
        restore();
        sys::signals::stop_group();
        self.retake()
    }

    /// Takes the terminal over again and clears it, because another process may have used it
    /// meanwhile.
    ///
    /// # Errors
    /// As [`FullScreen::take_over`].
    pub(crate) fn retake(&mut self) -> Result<()> {
        restore();
        enter().map_err(|e| refused(&e))?;
        self.canvas = blank().map_err(|e| refused(&e))?;
        Ok(())
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// A cleared screen, on which the next frame is drawn completely. `Terminal::clear` would query the
/// position of the cursor, which not every terminal answers.
fn blank() -> io::Result<Canvas> {
    execute!(io::stdout(), terminal::Clear(terminal::ClearType::All))?;
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(
        1 << 16,
        io::stdout(),
    )))
}

fn refused(e: &io::Error) -> Fail {
    Fail::system(format!("cannot use the terminal: {}", sys::reason(e)))
}

fn enter() -> io::Result<()> {
    terminal::enable_raw_mode()?;
    IS_TAKEN_OVER.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)
}

/// Restores the terminal if it is taken over.
fn restore() {
    if IS_TAKEN_OVER.swap(false, Ordering::SeqCst) {
        // If the terminal no longer exists, there is nothing to restore.
        drop(execute!(io::stdout(), cursor::Show, LeaveAlternateScreen));
        drop(terminal::disable_raw_mode());
    }
}

/// Makes a panic in any thread restore the terminal before it is reported, and end the program,
/// whose other threads could only wait.
fn restore_at_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        report(info);
        sys::proc::exit_now(PANICKED);
    }));
}

/// Checks whether cview can work on this terminal.
///
/// # Errors
/// Says why not, and what to use instead.
pub(crate) fn check(term: Option<&str>) -> Result<()> {
    const HINT: &str = "\nhint: 'cview -once' prints one screen as text; 'cjobs', 'chosts' and \
                           'cqueues' print lists";
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let text = "standard input and output must be a terminal";
        return Err(Fail::usage(format!("{text}{HINT}")));
    }
    match term {
        None | Some("" | "dumb") => {
            let shown = crate::text::width::escape(term.unwrap_or_default());
            Err(Fail::usage(format!(
                "this terminal (TERM={shown}) cannot show a full screen{HINT}"
            )))
        }
        Some(_) => Ok(()),
    }
}

/// The size of the terminal in columns and rows.
pub(crate) fn size() -> (u16, u16) {
    terminal::size().unwrap_or((80, 24))
}

/// An input of the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    Key(Key),
    /// The size has changed; it is queried when drawing.
    Resize,
}

/// Waits for a key or a change of size; `None`: the terminal no longer exists.
pub(crate) fn next_input() -> Option<Input> {
    loop {
        match crossterm::event::read().ok()? {
            Event::Key(event) => {
                if let Some(key) = key_of(event) {
                    return Some(Input::Key(key));
                }
            }
            Event::Resize(..) => return Some(Input::Resize),
            _ => {}
        }
    }
}

fn key_of(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
    Some(match event.code {
        KeyCode::Char(c) if ctrl => Key::Ctrl(c.to_ascii_lowercase()),
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_and_releases_are_none() {
        let event = |code, modifiers| KeyEvent::new(code, modifiers);
        let none = KeyModifiers::NONE;
        assert_eq!(
            key_of(event(KeyCode::Char('K'), KeyModifiers::SHIFT)),
            Some(Key::Char('K'))
        );
        assert_eq!(
            key_of(event(KeyCode::Char('c'), KeyModifiers::CONTROL)),
            Some(Key::Ctrl('c'))
        );
        assert_eq!(key_of(event(KeyCode::PageUp, none)), Some(Key::PageUp));
        assert_eq!(key_of(event(KeyCode::F(1), none)), None);
        let mut release = event(KeyCode::Enter, none);
        release.kind = KeyEventKind::Release;
        assert_eq!(key_of(release), None);
    }

    #[test]
    fn what_is_not_a_full_terminal_is_refused() {
        // Standard input of a test is not a terminal.
        let fail = check(Some("xterm")).unwrap_err();
        assert!(
            fail.text.contains("cview -once") && fail.text.contains("cjobs"),
            "{}",
            fail.text
        );
    }
}
