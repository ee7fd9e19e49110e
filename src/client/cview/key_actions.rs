//! What each key does: it changes the state, and may request actions that only the session can do.
//!
//! Pure. The help texts of the keys are in `keys`.

use super::actions::{Action, ActionKind, COMMENT_MAX};
use super::app::{App, ListState, Motion, Prompt, Status};
use super::columns::{Column, HOSTS, JOBS, QUEUES};
use super::filter::{FILTER_MAX, Filter};
use super::keys::{Key, Screen};
use super::lines::Arrangement;
use super::targets;
use super::view_data::Subject;
use crate::text::width::width;

/// Number of columns by which a page scrolls sideways.
const SCROLL_COLUMNS: usize = 8;

/// What the session must do after a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SessionEffect {
    None,
    /// End normally.
    Quit,
    /// End as interrupted.
    Interrupt,
    Suspend,
    /// Draw everything again.
    Redraw,
    /// Send the action to the leader; it is the last one of `App::pending_actions`.
    Ask(Action),
}

/// Handles a key.
pub(crate) fn handle_key(app: &mut App, key: Key) -> SessionEffect {
    match key {
        Key::Ctrl('c') => return SessionEffect::Interrupt,
        Key::Ctrl('z') => return SessionEffect::Suspend,
        Key::Ctrl('l') => return SessionEffect::Redraw,
        _ => {}
    }
    app.status = Status::default();
    let effect = match std::mem::take(&mut app.prompt) {
        Prompt::None => browse(app, key),
        // Any key leaves the help.
        Prompt::Help => SessionEffect::None,
        Prompt::Filter {
            text,
            previous_filter,
        } => type_filter(app, key, text, previous_filter),
        Prompt::Sort { column } => choose_column(app, key, column),
        Prompt::Comment { action, text } => type_comment(app, key, action, text),
        Prompt::Confirm(action) => confirm(app, key, action),
    };
    app.clamp_cursors();
    effect
}

fn browse(app: &mut App, key: Key) -> SessionEffect {
    if let Some(motion) = motion(key) {
        move_cursor(app, motion);
        return SessionEffect::None;
    }
    match key {
        Key::Left => scroll_sideways(app, false),
        Key::Right => scroll_sideways(app, true),
        Key::Char('?') => app.prompt = Prompt::Help,
        Key::Char('1') => show(app, Screen::Queues),
        Key::Char('2') => show(app, Screen::Hosts),
        Key::Char('3') => show(app, Screen::Jobs),
        Key::Char('4') => show_selected(app),
        Key::Tab => next(app),
        Key::BackTab => before(app),
        Key::Enter => open(app),
        Key::Esc => go_back(app),
        Key::Char('q') if is_page(app) => go_back(app),
        Key::Char('q') => return SessionEffect::Quit,
        Key::Char('/') => begin_filter(app),
        Key::Char('s') => begin_sort(app),
        Key::Char('r') => {
            if let Some(arrangement) = current_arrangement(app) {
                arrangement.reverse ^= true;
                app.arrange();
            }
        }
        Key::Char('a') if app.screen() == Screen::Jobs => app.needed_jobs.all_users ^= true,
        Key::Char('f') if app.screen() == Screen::Jobs => app.needed_jobs.finished ^= true,
        Key::Char(' ') => mark(app),
        Key::Char('U') => unmark(app),
        Key::Char(c) => {
            if let Some(act) = action_for_letter(app.screen(), c) {
                begin(app, act);
            }
        }
        _ => {}
    }
    SessionEffect::None
}

fn motion(key: Key) -> Option<Motion> {
    Some(match key {
        Key::Up | Key::Char('k') => Motion::Lines(-1),
        Key::Down | Key::Char('j') => Motion::Lines(1),
        Key::PageUp | Key::Ctrl('b') => Motion::Pages(-1),
        Key::PageDown | Key::Ctrl('f') => Motion::Pages(1),
        Key::Home | Key::Char('g') => Motion::First,
        Key::End | Key::Char('G') => Motion::Last,
        _ => return None,
    })
}

fn move_cursor(app: &mut App, motion: Motion) {
    fn move_in<L: Copy>(list: &mut ListState<L>, motion: Motion, rows: usize) {
        list.cursor = motion.from(list.cursor, list.lines.len(), rows);
    }
    let rows = app.rows();
    match app.screen() {
        Screen::Queues => move_in(&mut app.queues, motion, rows),
        Screen::Hosts => move_in(&mut app.hosts, motion, rows),
        Screen::Jobs => move_in(&mut app.jobs, motion, rows),
        Screen::Job | Screen::Host => {
            let last = app.page.lines.len().saturating_sub(rows);
            app.page.top = motion.from(app.page.top, last + 1, rows);
            app.page.at_end = app.page.top == last && motion != Motion::First;
        }
    }
}

/// Scrolls a page with lines wider than the screen.
fn scroll_sideways(app: &mut App, right: bool) {
    let widest = app.page.lines.iter().map(|line| width(line)).max();
    let most = widest.unwrap_or(0).saturating_sub(usize::from(app.size.0));
    app.page.left_column = match right {
        true => (app.page.left_column + SCROLL_COLUMNS).min(most),
        false => app.page.left_column.saturating_sub(SCROLL_COLUMNS),
    };
}

/// The action of a capital letter on a screen.
fn action_for_letter(screen: Screen, letter: char) -> Option<ActionKind> {
    Some(match (screen, letter) {
        (Screen::Jobs | Screen::Job, 'K') => ActionKind::Kill,
        (Screen::Jobs | Screen::Job, 'S') => ActionKind::Stop,
        (Screen::Jobs | Screen::Job, 'R') => ActionKind::Resume,
        (Screen::Jobs | Screen::Job, 'T') => ActionKind::Top,
        (Screen::Jobs | Screen::Job, 'B') => ActionKind::Bottom,
        (Screen::Jobs | Screen::Job, 'Q') => ActionKind::Requeue,
        (Screen::Hosts | Screen::Host, 'O') => ActionKind::OpenHosts,
        (Screen::Hosts | Screen::Host, 'C') => ActionKind::CloseHosts,
        (Screen::Queues, 'O') => ActionKind::OpenQueues,
        (Screen::Queues, 'C') => ActionKind::CloseQueues,
        _ => return None,
    })
}

fn is_page(app: &App) -> bool {
    matches!(app.screen(), Screen::Job | Screen::Host)
}

pub(crate) fn show(app: &mut App, screen: Screen) {
    app.screen = Some(screen);
}

/// Shows the page of a job or host.
pub(crate) fn show_page(app: &mut App, subject: Subject) {
    let screen = match subject {
        Subject::Job(_) => Screen::Job,
        Subject::Host(_) => Screen::Host,
    };
    if app.page.subject.as_ref() != Some(&subject) {
        app.page.top = 0;
        app.page.left_column = 0;
        app.page.at_end = false;
        app.page.subject = Some(subject);
    }
    show(app, screen);
    app.wrap_page();
}

/// Shows the page of the selected job or host, or the last page.
fn show_selected(app: &mut App) {
    let selected = match app.screen() {
        Screen::Jobs => targets::selected_job(app).map(Subject::Job),
        Screen::Hosts => targets::selected_host(app).map(Subject::Host),
        _ => None,
    };
    match selected.or_else(|| app.page.subject.clone()) {
        Some(subject) => show_page(app, subject),
        None => show_message(app, "no job or host is selected: choose one in its list"),
    }
}

fn next(app: &mut App) {
    match app.screen() {
        Screen::Queues => show(app, Screen::Hosts),
        Screen::Hosts => show(app, Screen::Jobs),
        Screen::Jobs if targets::selected_job(app).is_some() => show_selected(app),
        Screen::Jobs | Screen::Job | Screen::Host => show(app, Screen::Queues),
    }
}

fn before(app: &mut App) {
    match app.screen() {
        Screen::Queues => show(app, Screen::Jobs),
        Screen::Hosts => show(app, Screen::Queues),
        Screen::Jobs => show(app, Screen::Hosts),
        Screen::Job | Screen::Host => show(app, Screen::Jobs),
    }
}

/// Handles Enter.
fn open(app: &mut App) {
    match app.screen() {
        Screen::Queues => {
            if let Some(queue) = targets::selected_queue(app) {
                show_jobs_of(app, "queue", &queue);
            }
        }
        Screen::Hosts => show_selected(app),
        Screen::Jobs => {
            let array = app
                .jobs
                .selected()
                .filter(|line| line.is_array(&app.cluster.jobs));
            match array.map(|line| line.key(&app.cluster.jobs).id) {
                Some(id) => {
                    if !app.unfolded.remove(&id) {
                        app.unfolded.insert(id);
                    }
                    app.arrange();
                }
                None => show_selected(app),
            }
        }
        Screen::Host => {
            if let Some(Subject::Host(name)) = app.page.subject.clone() {
                show_jobs_of(app, "host", &name);
            }
        }
        Screen::Job => {}
    }
}

fn show_jobs_of(app: &mut App, field: &str, name: &str) {
    app.jobs.arrangement.filter = Filter::by(field, name);
    app.needed_jobs.all_users = true;
    app.jobs.cursor = 0;
    show(app, Screen::Jobs);
    app.arrange();
}

/// Handles Esc: from a page back to its list; in a list removes the filter, then the marks.
fn go_back(app: &mut App) {
    match app.screen() {
        Screen::Job => return show(app, Screen::Jobs),
        Screen::Host => return show(app, Screen::Hosts),
        _ => {}
    }
    let Some(arrangement) = current_arrangement(app) else {
        return;
    };
    if arrangement.filter.is_empty() {
        unmark(app);
    } else {
        arrangement.filter = Filter::default();
        app.arrange();
    }
}

fn current_arrangement(app: &mut App) -> Option<&mut Arrangement> {
    match app.screen() {
        Screen::Queues => Some(&mut app.queues.arrangement),
        Screen::Hosts => Some(&mut app.hosts.arrangement),
        Screen::Jobs => Some(&mut app.jobs.arrangement),
        Screen::Job | Screen::Host => None,
    }
}

/// The columns of the list on the screen.
pub(crate) fn columns(screen: Screen) -> &'static [Column] {
    match screen {
        Screen::Queues => QUEUES,
        Screen::Hosts => HOSTS,
        _ => JOBS,
    }
}

fn begin_filter(app: &mut App) {
    if let Some(arrangement) = current_arrangement(app) {
        let previous_filter = arrangement.filter.clone();
        let mut text = previous_filter.text.clone();
        if !text.is_empty() {
            text.push(' ');
        }
        app.prompt = Prompt::Filter {
            text,
            previous_filter,
        };
    }
}

fn type_filter(
    app: &mut App,
    key: Key,
    mut text: String,
    previous_filter: Filter,
) -> SessionEffect {
    let mut done = false;
    match key {
        Key::Enter => done = true,
        Key::Esc => {
            if let Some(arrangement) = current_arrangement(app) {
                arrangement.filter = previous_filter;
                app.arrange();
            }
            return SessionEffect::None;
        }
        Key::Backspace => drop(text.pop()),
        Key::Ctrl('u') => text.clear(),
        Key::Char(c) if text.len() + c.len_utf8() <= FILTER_MAX => text.push(c),
        _ => {}
    }
    match (Filter::parse(&text), current_arrangement(app)) {
        (Ok(filter), Some(arrangement)) => {
            arrangement.filter = filter;
            app.arrange();
        }
        (Err(why), _) => {
            // Only at the end of the input is it known whether the word is complete.
            done = false;
            show_error(app, why);
        }
        (Ok(_), None) => {}
    }
    if !done {
        app.prompt = Prompt::Filter {
            text,
            previous_filter,
        };
    }
    SessionEffect::None
}

fn begin_sort(app: &mut App) {
    if let Some(arrangement) = current_arrangement(app) {
        let column = arrangement.column.unwrap_or(0);
        app.prompt = Prompt::Sort { column };
    }
}

fn choose_column(app: &mut App, key: Key, column: usize) -> SessionEffect {
    let last = columns(app.screen()).len() - 1;
    let column = match key {
        Key::Right | Key::Down | Key::Tab | Key::Char('s' | 'l' | 'j') => {
            if column == last {
                0
            } else {
                column + 1
            }
        }
        Key::Left | Key::Up | Key::BackTab | Key::Char('h' | 'k') => {
            column.checked_sub(1).unwrap_or(last)
        }
        Key::Enter => {
            sort_by(app, Some(column));
            return SessionEffect::None;
        }
        // Back to the order of the commands.
        Key::Backspace | Key::Char('0') => {
            sort_by(app, None);
            return SessionEffect::None;
        }
        Key::Esc | Key::Char('q') => return SessionEffect::None,
        _ => column,
    };
    app.prompt = Prompt::Sort { column };
    SessionEffect::None
}

fn sort_by(app: &mut App, column: Option<usize>) {
    if let Some(arrangement) = current_arrangement(app) {
        arrangement.column = column;
        app.arrange();
    }
}

fn mark(app: &mut App) {
    let Some(name) = targets::selected_name(app) else {
        return;
    };
    let marks = match app.screen() {
        Screen::Queues => &mut app.queues.marks,
        Screen::Hosts => &mut app.hosts.marks,
        Screen::Jobs => &mut app.jobs.marks,
        Screen::Job | Screen::Host => return,
    };
    if !marks.remove(&name) {
        marks.insert(name);
    }
    move_cursor(app, Motion::Lines(1));
}

fn unmark(app: &mut App) {
    match app.screen() {
        Screen::Queues => app.queues.marks.clear(),
        Screen::Hosts => app.hosts.marks.clear(),
        Screen::Jobs => app.jobs.marks.clear(),
        Screen::Job | Screen::Host => {}
    }
}

/// Asks for confirmation of an action.
fn begin(app: &mut App, act: ActionKind) {
    match targets::action(app, act) {
        Ok(action) if act.takes_comment() => {
            app.prompt = Prompt::Comment {
                action,
                text: String::new(),
            };
        }
        Ok(action) => app.prompt = Prompt::Confirm(action),
        Err(why) => show_error(app, why),
    }
}

fn type_comment(app: &mut App, key: Key, action: Action, mut text: String) -> SessionEffect {
    match key {
        Key::Esc => {
            show_message(app, "nothing was done");
            return SessionEffect::None;
        }
        Key::Enter => {
            app.prompt = Prompt::Confirm(Action {
                comment: text.trim().to_owned(),
                ..action
            });
            return SessionEffect::None;
        }
        Key::Backspace => drop(text.pop()),
        Key::Ctrl('u') => text.clear(),
        Key::Char(c) if text.len() + c.len_utf8() <= COMMENT_MAX => text.push(c),
        _ => {}
    }
    app.prompt = Prompt::Comment { action, text };
    SessionEffect::None
}

fn confirm(app: &mut App, key: Key, action: Action) -> SessionEffect {
    if !matches!(key, Key::Char('y' | 'Y')) {
        show_message(app, "nothing was done");
        return SessionEffect::None;
    }
    // The marks were set for this action.
    if !is_page(app) {
        unmark(app);
    }
    app.pending_actions.push_back(action.clone());
    SessionEffect::Ask(action)
}

fn show_message(app: &mut App, text: &str) {
    app.status = Status {
        text: text.to_owned(),
        ..Status::default()
    };
}

fn show_error(app: &mut App, text: String) {
    app.status = Status {
        text,
        bad: true,
        ..Status::default()
    };
}
