//! The state of cview: what is shown, the position of the cursor, marks and open questions.
//!
//! Owns how the state changes with new data, answers and sizes. Pure: time is an argument, and
//! nothing here reads, draws or sends.

use super::actions::Action;
use super::columns::JobLine;
use super::filter::Filter;
use super::keys::Screen;
use super::lines::{Arrangement, host_lines, job_lines, queue_lines};
use super::pages;
use super::view_data::{ClusterSummary, Jobs, NeededData, NeededJobs, Page, Subject, ViewData};
use crate::record::ack::Ack;
use crate::record::view::{HostRow, QueueRow};
use crate::text::width;
use std::collections::{BTreeSet, HashSet, VecDeque};

/// Lines of the screen that are not rows of a list: head, screens, titles, status, keys.
pub(crate) const FRAME_ROWS: u16 = 5;
/// Lines of the overview above the queues.
pub(crate) const OVERVIEW_ROWS: u16 = 2;
/// If a read of the view takes longer, the share counts as not responding, ms.
pub(crate) const SLOW_MS: u64 = 3_000;

/// A list on the screen; an `L` identifies the row that a line shows.
#[derive(Debug)]
pub(crate) struct ListState<L> {
    pub arrangement: Arrangement,
    pub lines: Vec<L>,
    pub cursor: usize,
    /// The line at the top of the screen.
    pub top: usize,
    /// Ids or names.
    pub marks: BTreeSet<String>,
}

impl<L> Default for ListState<L> {
    fn default() -> Self {
        ListState {
            arrangement: Arrangement::default(),
            lines: Vec::new(),
            cursor: 0,
            top: 0,
            marks: BTreeSet::new(),
        }
    }
}

/// A movement of the cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Motion {
    Lines(isize),
    Pages(isize),
    First,
    Last,
}

impl Motion {
    /// The new position from line `at` of `len`, with `rows` rows on the screen.
    pub(crate) fn from(self, at: usize, len: usize, rows: usize) -> usize {
        let last = len.saturating_sub(1);
        let by = |n: isize| at.saturating_add_signed(n).min(last);
        match self {
            Motion::Lines(n) => by(n),
            Motion::Pages(n) => by(n.saturating_mul(rows.max(1).cast_signed())),
            Motion::First => 0,
            Motion::Last => last,
        }
    }
}

impl<L: Copy> ListState<L> {
    pub(crate) fn selected(&self) -> Option<L> {
        self.lines.get(self.cursor).copied()
    }

    /// Keeps the cursor within the list and on the screen.
    fn clamp_cursor(&mut self, rows: usize) {
        self.cursor = self.cursor.min(self.lines.len().saturating_sub(1));
        let lowest = self.lines.len().saturating_sub(rows);
        let first = (self.cursor + 1).saturating_sub(rows);
        self.top = self.top.clamp(first, self.cursor.max(first)).min(lowest);
    }

    /// Sets new lines; the cursor stays on the row for which `is_same` holds.
    fn set_lines(&mut self, lines: Vec<L>, is_same: impl Fn(&L) -> bool) {
        let on_screen = self.cursor.saturating_sub(self.top);
        if let Some(at) = lines.iter().position(is_same) {
            self.cursor = at;
            self.top = at.saturating_sub(on_screen);
        }
        self.lines = lines;
    }
}

/// The page of one job or host.
#[derive(Default, Debug)]
pub(crate) struct PageState {
    pub subject: Option<Subject>,
    /// Its lines for the width of the screen.
    pub lines: Vec<String>,
    pub top: usize,
    /// Columns of a table that are to the left of the screen.
    pub left_column: usize,
    /// Whether new lines at the end are followed.
    pub at_end: bool,
}

/// The question in the bottom line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Prompt {
    #[default]
    None,
    Help,
    /// The filter being typed, and the one before it.
    Filter {
        text: String,
        previous_filter: Filter,
    },
    /// The column to sort by.
    Sort {
        column: usize,
    },
    /// The comment of an action.
    Comment {
        action: Action,
        text: String,
    },
    /// Yes or no.
    Confirm(Action),
}

/// The data about the cluster.
#[derive(Default)]
pub(crate) struct ClusterData {
    /// `None`: nothing has been read yet.
    pub head: Option<ClusterSummary>,
    pub queues: Vec<QueueRow>,
    pub hosts: Vec<HostRow>,
    pub jobs: Jobs,
    pub page: Option<Page>,
    /// Why the last read failed.
    pub failure: Option<String>,
}

/// The content of the status line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Status {
    /// The action that the text concerns, shown before it; empty: none.
    pub action: String,
    pub text: String,
    pub bad: bool,
}

/// The state of cview.
#[derive(Default)]
pub(crate) struct App {
    pub screen: Option<Screen>,
    pub queues: ListState<u32>,
    pub hosts: ListState<u32>,
    pub jobs: ListState<JobLine>,
    pub needed_jobs: NeededJobs,
    /// Arrays whose elements are shown.
    pub unfolded: HashSet<u32>,
    pub page: PageState,
    pub prompt: Prompt,
    pub status: Status,
    pub cluster: ClusterData,
    /// Columns and rows of the screen.
    pub size: (u16, u16),
    /// Actions that wait for their answer.
    pub pending_actions: VecDeque<Action>,
    /// Wall clock of the last update, ms: running times are computed up to this moment when lists
    /// are sorted.
    pub now: i64,
}

impl App {
    pub(crate) fn new(screen: Screen, size: (u16, u16)) -> App {
        App {
            screen: Some(screen),
            size,
            ..App::default()
        }
    }

    pub(crate) fn screen(&self) -> Screen {
        self.screen.unwrap_or(Screen::Queues)
    }

    /// Number of rows of the list or page on the screen.
    pub(crate) fn rows(&self) -> usize {
        let frame = match self.screen() {
            Screen::Queues => FRAME_ROWS + OVERVIEW_ROWS,
            _ => FRAME_ROWS,
        };
        usize::from(self.size.1.saturating_sub(frame))
    }

    /// The data that the screen needs.
    pub(crate) fn needed_data(&self) -> NeededData {
        let screen = self.screen();
        NeededData {
            hosts: matches!(screen, Screen::Queues | Screen::Hosts),
            jobs: (screen == Screen::Jobs).then_some(self.needed_jobs),
            page: match screen {
                Screen::Job | Screen::Host => self.page.subject.clone(),
                _ => None,
            },
        }
    }

    /// Takes new data.
    pub(crate) fn set_data(&mut self, data: ViewData, now: i64) {
        self.now = now;
        self.cluster.failure = None;
        self.cluster.head = Some(data.head);
        if let Some(queues) = data.queues {
            let selected = self.queues.selected();
            let name = selected.and_then(|at| name_at(&self.cluster.queues, at, |q| &q.name));
            self.cluster.queues = queues;
            self.arrange_queues(name.as_deref());
        }
        if let Some(hosts) = data.hosts {
            let selected = self.hosts.selected();
            let name = selected.and_then(|at| name_at(&self.cluster.hosts, at, |h| &h.name));
            self.cluster.hosts = hosts;
            self.arrange_hosts(name.as_deref());
        }
        if let Some(jobs) = data.jobs {
            let key = self
                .jobs
                .selected()
                .map(|line| line.key(&self.cluster.jobs));
            self.cluster.jobs = jobs;
            self.arrange_jobs(key);
        }
        if data.page.is_some() {
            self.cluster.page = data.page;
        }
        self.wrap_page();
        self.clamp_cursors();
    }

    /// Records that the last read failed.
    pub(crate) fn fail(&mut self, why: String) {
        self.cluster.failure = Some(why);
    }

    /// Handles an answer of the leader, or why there is none.
    pub(crate) fn answered(&mut self, answer: Result<Ack, String>) {
        let Some(action) = self.pending_actions.pop_front() else {
            return;
        };
        let (of, (text, done)) = match answer {
            Ok(ack) => (String::new(), action.answer(&ack)),
            Err(why) => {
                let line = why.lines().next().unwrap_or_default();
                (action.title(), (width::escape(line).into_owned(), false))
            }
        };
        self.status = Status {
            action: of,
            text,
            bad: !done,
        };
    }

    /// Rebuilds the list on the screen after a change of filter, order or folding.
    pub(crate) fn arrange(&mut self) {
        match self.screen() {
            Screen::Queues => {
                let selected = self.queues.selected();
                let name = selected.and_then(|at| name_at(&self.cluster.queues, at, |q| &q.name));
                self.arrange_queues(name.as_deref());
            }
            Screen::Hosts => {
                let selected = self.hosts.selected();
                let name = selected.and_then(|at| name_at(&self.cluster.hosts, at, |h| &h.name));
                self.arrange_hosts(name.as_deref());
            }
            _ => {
                let key = self
                    .jobs
                    .selected()
                    .map(|line| line.key(&self.cluster.jobs));
                self.arrange_jobs(key);
            }
        }
        self.clamp_cursors();
    }

    fn arrange_queues(&mut self, selected: Option<&str>) {
        let queues = &self.cluster.queues;
        let lines = queue_lines(queues, &self.queues.arrangement);
        let same = |at: &u32| selected == Some(queues[*at as usize].name.as_str());
        self.queues.set_lines(lines, same);
    }

    fn arrange_hosts(&mut self, selected: Option<&str>) {
        let hosts = &self.cluster.hosts;
        let lines = host_lines(hosts, &self.hosts.arrangement);
        let same = |at: &u32| selected == Some(hosts[*at as usize].name.as_str());
        self.hosts.set_lines(lines, same);
    }

    fn arrange_jobs(&mut self, selected: Option<crate::model::JobKey>) {
        let jobs = &self.cluster.jobs;
        let lines = job_lines(jobs, &self.jobs.arrangement, &self.unfolded, self.now);
        let same = |line: &JobLine| selected == Some(line.key(jobs));
        self.jobs.set_lines(lines, same);
    }

    /// Handles a new size of the screen.
    pub(crate) fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        self.wrap_page();
        self.clamp_cursors();
    }

    /// Keeps the cursors and the page within their bounds.
    pub(crate) fn clamp_cursors(&mut self) {
        let rows = self.rows();
        match self.screen() {
            Screen::Queues => self.queues.clamp_cursor(rows),
            Screen::Hosts => self.hosts.clamp_cursor(rows),
            Screen::Jobs => self.jobs.clamp_cursor(rows),
            Screen::Job | Screen::Host => {
                let last = self.page.lines.len().saturating_sub(rows);
                let top = if self.page.at_end {
                    last
                } else {
                    self.page.top
                };
                self.page.top = top.min(last);
            }
        }
    }

    /// Wraps the lines of the page at the width of the screen.
    pub(crate) fn wrap_page(&mut self) {
        let columns = usize::from(self.size.0);
        let page = self.cluster.page.as_ref();
        let page = page.filter(|page| Some(&page.subject) == self.page.subject.as_ref());
        self.page.lines = page.map_or_else(Vec::new, |page| pages::lines_within(page, columns));
    }
}

/// The name of a row.
fn name_at<R>(rows: &[R], at: u32, name: impl Fn(&R) -> &str) -> Option<String> {
    rows.get(at as usize).map(|row| name(row).to_owned())
}
