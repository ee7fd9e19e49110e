//! Draws the state into a buffer of cells.
//!
//! Owns the layout and the look. Every text passes [`put`], which shows control characters instead
//! of executing them. Pure: the buffer is written to a terminal elsewhere.

use super::app::{App, FRAME_ROWS, ListState, OVERVIEW_ROWS, Prompt};
use super::columns::{self, Column, JobCells, layout};
use super::key_actions;
use super::keys::{HELP, Screen, hints_within};
use super::overview;
use super::pages::after;
use super::view_data::Subject;
use crate::language::Language;
use crate::show::Dates;
use crate::show::cell::{self, Cut};
use crate::text::width::{escape, pad_right, truncate, width};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use std::borrow::Cow;

/// The minimum size of a screen, in columns and rows.
const SMALLEST: (u16, u16) = (40, 8);
/// Width of the cursor and the mark before a row.
const BEFORE: u16 = 2;

/// The settings of the appearance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DisplayOptions {
    pub color: bool,
    /// Whether the line of the cursor is shown.
    pub cursor: bool,
    pub language: Language,
}

impl DisplayOptions {
    fn translated(self, text: &str) -> Cow<'_, str> {
        self.language.translate(text)
    }
}

/// The time for which a frame is drawn.
pub(crate) struct DrawTime<'a> {
    pub now: i64,
    pub dates: &'a Dates,
    /// How long the share has not responded, in seconds.
    pub hangs_s: Option<u64>,
}

/// Draws everything. Returns the number of list rows that were formatted: only the visible ones.
pub(crate) fn draw(
    app: &App,
    display: DisplayOptions,
    moment: &DrawTime<'_>,
    buf: &mut Buffer,
) -> usize {
    let area = buf.area;
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let (columns, rows) = SMALLEST;
        put(
            buf,
            0,
            0,
            &display.translated(&format!("too small: {columns}x{rows} at least")),
            Style::new(),
        );
        return 0;
    }
    head(app, display, moment, buf);
    screens(app, display, buf);
    let rows = match app.prompt {
        Prompt::Help => {
            help(display, buf);
            0
        }
        _ => body(app, display, moment, buf),
    };
    status(app, display, moment, buf);
    bottom(app, display, buf);
    rows
}

/// Writes text at a position, up to the right edge; returns the column after it.
fn put(buf: &mut Buffer, x: u16, y: u16, text: &str, style: Style) -> u16 {
    let room = usize::from(buf.area.width.saturating_sub(x));
    put_within(buf, x, y, text, room, style)
}

fn put_within(buf: &mut Buffer, x: u16, y: u16, text: &str, room: usize, style: Style) -> u16 {
    if x >= buf.area.width || y >= buf.area.height {
        return x;
    }
    buf.set_stringn(x, y, escape(text), room, style).0
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn painted(display: DisplayOptions, color: Color) -> Style {
    match display.color {
        true => Style::new().fg(color),
        false => Style::new(),
    }
}

/// The style for a state word of a job, host or queue.
fn style_of(display: DisplayOptions, word: &str) -> Style {
    match word {
        "RUN" | "ok" | "Open:Active" => painted(display, Color::Green),
        "EXIT" | "unavail" | "unreach" => painted(display, Color::Red),
        "UNKWN" => painted(display, Color::Red).add_modifier(Modifier::BOLD),
        "DONE" => painted(display, Color::Cyan),
        "PSUSP" | "USUSP" | "SSUSP" => painted(display, Color::Magenta),
        word if word.starts_with("Closed") => painted(display, Color::Red),
        _ => painted(display, Color::Yellow),
    }
}

/// The first line: the cluster, its leader, the time.
fn head(app: &App, display: DisplayOptions, moment: &DrawTime<'_>, buf: &mut Buffer) {
    let mut clock = String::new();
    moment.dates.compact(&mut clock, moment.now);
    let clock = clock.rsplit('-').next().unwrap_or_default();
    let left = match &app.cluster.head {
        None => "cview".to_owned(),
        Some(head) if head.master.is_empty() => {
            format!("{}  {}", head.cluster, display.translated("no leader"))
        }
        Some(head) => {
            let leader = format!("leader {}, epoch {}", head.master, head.epoch);
            let slots = overview::slots(&app.cluster.queues);
            let (leader, slots) = (display.translated(&leader), display.translated(&slots));
            format!("{}  {leader}  {slots}", head.cluster)
        }
    };
    let columns = usize::from(buf.area.width);
    let room = columns.saturating_sub(clock.len() + 1);
    put_within(buf, 0, 0, &left, room, bold());
    put(
        buf,
        (columns - clock.len().min(columns)) as u16,
        0,
        clock,
        bold(),
    );
}

/// The second line: the names of the screens, and the arrangement of the list.
fn screens(app: &App, display: DisplayOptions, buf: &mut Buffer) {
    let now = app.screen();
    let page = match &app.page.subject {
        Some(subject) => title(display, subject),
        None => display.translated("Details").into_owned(),
    };
    let names = [
        (Screen::Queues, display.translated("Queues")),
        (Screen::Hosts, display.translated("Hosts")),
        (Screen::Jobs, display.translated("Jobs")),
        (Screen::Job, page.into()),
    ];
    let mut x = 0;
    for ((screen, name), key) in names.into_iter().zip(1..) {
        let name = format!("{key} {name}");
        let is_now = screen == now || (screen == Screen::Job && now == Screen::Host);
        let (text, style) = match is_now {
            true => (format!("[{}]", truncate(&name, 24)), reversed()),
            false => (format!(" {} ", truncate(&name, 24)), Style::new()),
        };
        x = put(buf, x, 1, &text, style);
    }
    let columns = usize::from(buf.area.width);
    let room = columns.saturating_sub(usize::from(x) + 1);
    let text = arrangement(app, display, room);
    let at = columns.saturating_sub(width(&text));
    put(buf, at as u16, 1, &text, Style::new());
}

/// The title of the page of a job or host.
fn title(display: DisplayOptions, subject: &Subject) -> String {
    match subject {
        Subject::Job(key) => format!("{} {key}", display.translated("Job")),
        Subject::Host(name) => format!("{} {name}", display.translated("Host")),
    }
}

/// The arrangement of a list, and the position of the cursor in it.
fn order_and_place<L>(app: &App, display: DisplayOptions, list: &ListState<L>) -> (String, String) {
    let mut how = Vec::new();
    if !list.arrangement.filter.is_empty() {
        how.push(format!("/{}", escape(&list.arrangement.filter.text)));
    }
    if let Some(column) = list.arrangement.column {
        let title = key_actions::columns(app.screen())[column].title;
        how.push(format!("{} {title}", display.translated("sort")));
    }
    if list.arrangement.reverse {
        how.push(display.translated("reversed").into_owned());
    }
    if !list.marks.is_empty() {
        let marked = format!("{} marked", list.marks.len());
        how.push(display.translated(&marked).into_owned());
    }
    let at = if list.lines.is_empty() {
        0
    } else {
        list.cursor + 1
    };
    (how.join(" "), format!("{at}/{}", list.lines.len()))
}

/// Filter, order and position in the list, in `room` columns; the position is never cut.
fn arrangement(app: &App, display: DisplayOptions, room: usize) -> String {
    let (how, place) = match app.screen() {
        Screen::Queues => order_and_place(app, display, &app.queues),
        Screen::Hosts => order_and_place(app, display, &app.hosts),
        Screen::Jobs => {
            let (how, place) = order_and_place(app, display, &app.jobs);
            let which = match (app.needed_jobs.all_users, app.needed_jobs.finished) {
                (false, false) => "own",
                (false, true) => "own+finished",
                (true, false) => "all",
                (true, true) => "all+finished",
            };
            (how, format!("{} {place}", display.translated(which)))
        }
        Screen::Job | Screen::Host => {
            let last = (app.page.top + app.rows()).min(app.page.lines.len());
            let place = format!("line {last}/{}", app.page.lines.len());
            (String::new(), display.translated(&place).into_owned())
        }
    };
    let left = room.saturating_sub(width(&place) + 1);
    match truncate(&how, left).trim_end() {
        "" => place,
        how => format!("{how} {place}"),
    }
}

fn body(app: &App, display: DisplayOptions, moment: &DrawTime<'_>, buf: &mut Buffer) -> usize {
    match app.screen() {
        Screen::Queues => {
            overview_lines(app, display, buf);
            let put = |at: u32, column, out: &mut String| {
                let queue = &app.cluster.queues[at as usize];
                columns::put_queue(queue, column, out);
            };
            let name = |at: u32| app.cluster.queues[at as usize].name.clone();
            let formatter = RowFormatter {
                cell: &put,
                name: &name,
                from_the_start: &|_| false,
            };
            let kind = ListKind {
                columns: columns::QUEUES,
                title_row: 2 + OVERVIEW_ROWS,
                state: 2,
            };
            list(app, &app.queues, &kind, &formatter, display, buf)
        }
        Screen::Hosts => {
            let put = |at: u32, column, out: &mut String| {
                columns::put_host(&app.cluster.hosts[at as usize], column, out);
            };
            let name = |at: u32| app.cluster.hosts[at as usize].name.clone();
            let formatter = RowFormatter {
                cell: &put,
                name: &name,
                from_the_start: &|_| false,
            };
            let kind = ListKind {
                columns: columns::HOSTS,
                title_row: 2,
                state: 1,
            };
            list(app, &app.hosts, &kind, &formatter, display, buf)
        }
        Screen::Jobs => {
            let jobs = &app.cluster.jobs;
            let cells = JobCells {
                jobs,
                dates: moment.dates,
                now: moment.now,
                unfolded: &|id| app.unfolded.contains(&id),
            };
            let put = |line, column, out: &mut String| cells.put(line, column, out);
            let name = |line: columns::JobLine| line.key(jobs).to_string();
            let formatter = RowFormatter {
                cell: &put,
                name: &name,
                from_the_start: &|line| line.is_array(jobs),
            };
            let kind = ListKind {
                columns: columns::JOBS,
                title_row: 2,
                state: 2,
            };
            list(app, &app.jobs, &kind, &formatter, display, buf)
        }
        Screen::Job | Screen::Host => {
            page(app, display, buf);
            0
        }
    }
}

/// The differences between the lists.
struct ListKind {
    columns: &'static [Column],
    /// The line with the titles.
    title_row: u16,
    /// The column of the state.
    state: usize,
}

/// How the rows of a list are formatted.
struct RowFormatter<'w, L> {
    cell: &'w dyn Fn(L, usize, &mut String),
    /// The id or name, in the form of the marks.
    name: &'w dyn Fn(L) -> String,
    /// Whether text that does not fit is cut at the end, whatever the column specifies.
    from_the_start: &'w dyn Fn(L) -> bool,
}

/// Draws titles and the visible rows; returns their number.
fn list<L: Copy>(
    app: &App,
    list: &ListState<L>,
    kind: &ListKind,
    formatter: &RowFormatter<'_, L>,
    display: DisplayOptions,
    buf: &mut Buffer,
) -> usize {
    let cells = layout(kind.columns, buf.area.width, BEFORE);
    let sort_column = match app.prompt {
        Prompt::Sort { column } => Some(column),
        _ => None,
    };
    for (n, x, wide) in &cells {
        let column = &kind.columns[*n];
        let title = truncate(column.title, usize::from(*wide));
        let at = match column.right_aligned {
            true => x + wide - title.len() as u16,
            false => *x,
        };
        let style = match sort_column == Some(*n) {
            true => reversed(),
            false => bold().add_modifier(Modifier::UNDERLINED),
        };
        put(buf, at, kind.title_row, &title, style);
    }
    if list.lines.is_empty() {
        let text = display.translated(empty_list_text(app, list.arrangement.filter.is_empty()));
        put(buf, BEFORE, kind.title_row + 1, &text, Style::new());
        return 0;
    }
    let shown = list
        .lines
        .iter()
        .enumerate()
        .skip(list.top)
        .take(app.rows());
    let mut rows = 0;
    let mut text = String::new();
    for ((n, line), y) in shown.zip(kind.title_row + 1..) {
        rows += 1;
        let is_cursor = display.cursor && n == list.cursor;
        if is_cursor {
            put(buf, 0, y, ">", bold());
        }
        if !list.marks.is_empty() && list.marks.contains(&(formatter.name)(*line)) {
            put(buf, 1, y, "*", bold());
        }
        for (column, x, wide) in &cells {
            text.clear();
            (formatter.cell)(*line, *column, &mut text);
            let wide = usize::from(*wide);
            let of = &kind.columns[*column];
            let how = match of.cut == Cut::Tail && (formatter.from_the_start)(*line) {
                true => Cut::Head,
                false => cut_of(of, &text),
            };
            let used = cell::escape_and_cut(&mut text, 0, Some(wide), how);
            let x = match of.right_aligned {
                true => usize::from(*x) + wide.saturating_sub(used),
                false => usize::from(*x),
            };
            let style = match *column == kind.state {
                true => style_of(display, &text),
                false => Style::new(),
            };
            put_within(buf, x as u16, y, &text, wide, style);
        }
        if is_cursor {
            let row = Rect::new(BEFORE, y, buf.area.width - BEFORE, 1);
            buf.set_style(row, reversed());
        }
    }
    rows
}

/// A number that does not fit shows its end after a `*`, so that it is not taken for another
/// number.
fn cut_of(column: &Column, text: &str) -> Cut {
    match column.right_aligned && text.starts_with(|c: char| c.is_ascii_digit()) {
        true => Cut::Tail,
        false => column.cut,
    }
}

/// Why a list is empty.
fn empty_list_text(app: &App, no_filter: bool) -> &'static str {
    match (&app.cluster.head, app.screen()) {
        (None, _) => "reading the view ...",
        (_, _) if !no_filter => "nothing matches the filter; Esc removes it",
        (_, Screen::Jobs) if !app.needed_jobs.all_users => {
            "no jobs of yours; a: of all users, f: finished ones too"
        }
        (_, Screen::Jobs) if !app.needed_jobs.finished => "no jobs; f: finished ones too",
        (_, Screen::Jobs) => "no jobs",
        _ => "nothing is published",
    }
}

fn overview_lines(app: &App, display: DisplayOptions, buf: &mut Buffer) {
    let columns = usize::from(buf.area.width);
    let cluster = &app.cluster;
    let first = display
        .translated(&overview::counts(&cluster.hosts, &cluster.queues))
        .into_owned();
    let second = overview::bar(&cluster.hosts, display.language, columns);
    put(buf, 0, 2, &first, Style::new());
    put(buf, 0, 3, &second, Style::new());
}

/// The page of a job or host.
fn page(app: &App, display: DisplayOptions, buf: &mut Buffer) {
    let title = match &app.page.subject {
        Some(subject) => title(display, subject),
        None => display.translated("nothing is selected").into_owned(),
    };
    let title = pad_right(&escape(&title), usize::from(buf.area.width));
    put(buf, 0, 2, &title, bold().add_modifier(Modifier::UNDERLINED));
    if app.page.lines.is_empty() && app.page.subject.is_some() {
        put(buf, 0, 3, &display.translated("reading ..."), Style::new());
    }
    let shown = app.page.lines.iter().skip(app.page.top).take(app.rows());
    for (line, y) in shown.zip(3..) {
        put(buf, 0, y, after(line, app.page.left_column), Style::new());
    }
}

fn help(display: DisplayOptions, buf: &mut Buffer) {
    let rows = buf.area.height.saturating_sub(FRAME_ROWS - 1);
    for ((keys, what), y) in HELP.iter().zip(2..2 + rows) {
        put(buf, 1, y, keys, bold());
        put(buf, 16, y, &display.translated(what), Style::new());
    }
}

/// The last line but one: the status.
fn status(app: &App, display: DisplayOptions, moment: &DrawTime<'_>, buf: &mut Buffer) {
    let (text, bad) = overview::status(app, moment.hangs_s, display.language);
    let style = match bad {
        true => painted(display, Color::Red).add_modifier(Modifier::BOLD),
        false => Style::new(),
    };
    put(buf, 0, buf.area.height - 2, &text, style);
}

/// The last line: keys, or a question.
fn bottom(app: &App, display: DisplayOptions, buf: &mut Buffer) {
    let columns = usize::from(buf.area.width);
    let typed = |before: &str, text: &str| {
        // The end of the typed text stays visible.
        let room = columns.saturating_sub(width(before) + 2);
        let text = escape(text);
        let shown = crate::text::width::truncate_left(&text, room);
        format!("{before} {shown}_")
    };
    let (text, style) = match &app.prompt {
        Prompt::None => (
            hints_within(app.screen(), columns, display.language),
            Style::new(),
        ),
        Prompt::Help => (display.translated("any key: back").into_owned(), bold()),
        Prompt::Filter { text, .. } => (typed(&display.translated("Filter:"), text), bold()),
        Prompt::Comment { action, text } => {
            let before = format!("{}; comment, may be empty:", action.title());
            (typed(&display.translated(&before), text), bold())
        }
        Prompt::Sort { column } => {
            let title = key_actions::columns(app.screen())[*column].title;
            let text = format!("Sort by {title}?  Left Right: another  Enter: yes  0: as listed");
            (display.translated(&text).into_owned(), bold())
        }
        Prompt::Confirm(action) => (action.question(columns, display.language), bold()),
    };
    put(buf, 0, buf.area.height - 1, &text, style);
}

/// The buffer as lines of text.
pub(crate) fn lines_of(buf: &Buffer) -> Vec<String> {
    let mut lines = Vec::new();
    for y in 0..buf.area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..buf.area.width {
            let symbol = buf[(x, y)].symbol();
            if skip > 0 {
                // Covered by a wide character.
                skip -= 1;
                continue;
            }
            line.push_str(symbol);
            skip = width(symbol).saturating_sub(1);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}
