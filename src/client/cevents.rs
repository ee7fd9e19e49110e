//! `cevents`: the events of the cluster as JSON lines, for programs: one document for each event,
//! with a position from which a later run continues.
//!
//! Owns the options and the selection. Reads the journal under its seals, takes no lock and sends
//! no request to the leader. Never writes.

use super::cli::{self, Values, command, flag, operands, opt};
use super::exit::{Exit, Fail};
use super::read::{self, Source};
use crate::journal::{History, HistoryEntry};
use crate::language::tell;
use crate::record::event::Event;
use crate::show::event::job_of;
use crate::show::event_json::{Documents, JournalPosition, NAMES, Owner, name_of, trouble};
use crate::show::job_select::Users;
use crate::spool::Layout;
use crate::sys;
use crate::text::error::did_you_mean;
use crate::text::jobids::JobSel;
use clap::{ArgMatches, Command};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::Write as _;

/// Shortest and longest pause between two looks with `-f`, in seconds.
const PAUSE_MIN_S: f64 = 0.1;
const PAUSE_MAX_S: f64 = 3600.0;
/// Maximum number of lines of `-n`.
const LAST_MAX: usize = 1_000_000;
/// Output is written when this many bytes have been collected.
const OUT_BYTES: usize = 64 << 10;

/// The options of `cevents`.
pub(super) fn options() -> Command {
    command("cevents", "Print events as JSON lines, oldest first")
        .arg(flag("f", "Continue with new events until interrupted"))
        .arg(opt(
            "after",
            "POSITION",
            "Events after this position; 0: all that are kept",
        ))
        .arg(opt("n", "N", "The last N events before those of -f"))
        .arg(opt(
            "e",
            "EVENTS",
            "Events of these names, separated by commas",
        ))
        .arg(opt(
            "u",
            "USER",
            "Events of jobs of this user or user group; all = every user",
        ))
        .arg(opt("q", "QUEUE", "Events of jobs in these queues"))
        .arg(opt("i", "SECONDS", "Polling interval with -f [1]"))
        .arg(operands("ids", "JOB", "Events of these jobs: 123, 123[4]"))
}

/// Runs `cevents`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), args) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let printed = Source::open("cevents").and_then(|source| print(&m, &source));
    read::end("cevents", printed)
}

/// Which events are printed.
struct EventFilter {
    ids: Vec<JobSel>,
    names: Vec<String>,
    queues: Vec<String>,
    users: Users,
    /// Only events of jobs: those of the cluster are not requested.
    of_jobs: bool,
    /// Jobs whose owner is no longer known are shown.
    unowned: bool,
}

fn event_filter(m: &ArgMatches, source: &Source) -> Result<EventFilter, Fail> {
    // The journal can be read without a view; then every user sees only their own jobs.
    let params = source.view.params().unwrap_or_default();
    let ids = read::job_ids(m)?;
    let names = read::value_words(m, "e");
    if let Some(name) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        let shown = crate::text::width::escape(name);
        let hint = did_you_mean(name, NAMES.iter().copied());
        return Err(Fail::usage(format!(
            "-e: no event is named '{shown}'{hint}"
        )));
    }
    let queues = read::value_words(m, "q");
    let of_jobs = !ids.is_empty() || !queues.is_empty() || m.last("u").is_some();
    let users = match m.last("u") {
        Some(_) => read::selected_users(m, source, &params, &ids)?,
        None => source.allowed(&params, Users::All),
    };
    Ok(EventFilter {
        ids,
        names,
        queues,
        users,
        of_jobs,
        unowned: !of_jobs && source.may_see_all(&params),
    })
}

impl EventFilter {
    fn has(&self, event: &Event, owner: Option<&Owner>) -> bool {
        let Some(j) = job_of(event) else {
            return !self.of_jobs;
        };
        let of_these = |sel: &JobSel| match sel {
            // An event of an array also concerns its elements.
            JobSel::Elements(id, _) => *id == j.id && (j.idx == 0 || sel.matches(j.id, j.idx)),
            _ => sel.matches(j.id, j.idx),
        };
        if !self.ids.is_empty() && !self.ids.iter().any(of_these) {
            return false;
        }
        let Some(owner) = owner else {
            return self.unowned;
        };
        let in_queue = self.queues.is_empty() || self.queues.contains(&owner.queue);
        in_queue && self.users.has(owner.uid, &owner.user, &owner.queue)
    }
}

/// Output that is not yet written.
#[derive(Default)]
struct EventOutput {
    text: String,
    /// The last lines, while only a limited number of them is requested.
    last: Option<(usize, VecDeque<String>)>,
    failed: Option<std::io::Error>,
}

impl EventOutput {
    fn put(&mut self, line: String) {
        if let Some((most, lines)) = &mut self.last {
            if lines.len() == *most {
                lines.pop_front();
            }
            if *most > 0 {
                lines.push_back(line);
            }
            return;
        }
        self.text.push_str(&line);
        self.text.push('\n');
        if self.text.len() >= OUT_BYTES {
            self.write();
        }
    }

    /// Writes everything collected; from now on every line is written.
    fn flush(&mut self) -> Result<(), Fail> {
        if let Some((_, lines)) = self.last.take() {
            lines.into_iter().for_each(|line| self.put(line));
        }
        self.write();
        match self.failed.take() {
            None => Ok(()),
            Some(e) => Err(Fail::system(format!(
                "cannot write the output: {}",
                sys::reason(&e)
            ))),
        }
    }

    fn write(&mut self) {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(self.text.as_bytes());
        if let Err(e) = written.and_then(|()| out.flush()) {
            self.failed.get_or_insert(e);
        }
        self.text.clear();
    }
}

fn print(m: &ArgMatches, source: &Source) -> Result<Exit, Fail> {
    let follow = m.has("f");
    let after = m.last("after").map(JournalPosition::parse).transpose();
    let after = after.map_err(|e| Fail::usage(format!("--after: {e}")))?;
    let pause_ms = pause_ms(m)?;
    let wanted = event_filter(m, source)?;
    if follow {
        super::known_names::check(m, source)?;
    }
    let cluster = source.cluster()?.cluster;
    let mut history = History::new(&source.layout, &cluster);
    let mut out = EventOutput::default();
    match (last(m)?, after) {
        (Some(n), _) => out.last = Some((n, VecDeque::new())),
        // Existing events were not requested.
        (None, None) if follow => history = history.after((u64::MAX, 0, 0)),
        (None, _) => {}
    }
    if let Some(JournalPosition {
        epoch,
        segment,
        record,
    }) = after
    {
        history = history.after((epoch, segment, record));
    }
    let after = match (after, follow) {
        (Some(position), _) => Some(position),
        (None, true) if out.last.is_none() => Some(JournalPosition {
            epoch: u64::MAX,
            ..JournalPosition::default()
        }),
        (None, _) => None,
    };
    let mut events = Events {
        documents: Documents::new(sys::signals::name),
        unseen: wanted.ids.clone(),
        has_output: false,
        wanted,
        after,
    };
    loop {
        let read = history.read(&mut |entry| {
            if let Some(line) = events.line(entry) {
                events.has_output = true;
                out.put(line);
            }
        });
        read.map_err(|e| Fail::system(e.to_string()))?;
        if let Some(position) = m.last("after").filter(|_| !history.is_complete()) {
            return Err(no_longer_kept(position));
        }
        out.flush()?;
        if !follow {
            if !events.has_output {
                super::known_names::check(m, source)?;
            }
            return Ok(events.missing());
        }
        // From here on all events are new.
        (events.after, history) = (None, history.after((0, 0, 0)));
        sys::clock::sleep_ms(pause_ms);
    }
}

/// Events as they occur, for a program that polls for them.
pub(crate) struct EventPoller {
    layout: Layout,
    history: History,
    events: Events,
}

impl EventPoller {
    /// Starts after the position `after` (`0`: with all events that are kept), else with the next
    /// event.
    ///
    /// # Errors
    /// The position or a job id is invalid, events after the position are no longer kept, or the
    /// journal cannot be read.
    pub(crate) fn new(source: Source, after: Option<&str>, ids: &[String]) -> Result<Self, Fail> {
        let mut words: Vec<OsString> = ["-f", "-u", "all"].map(OsString::from).into();
        words.extend(ids.iter().map(OsString::from));
        let m = cli::parse(options(), &words).map_err(|_| Fail::usage("not a job ID"))?;
        let mut wanted = event_filter(&m, &source)?;
        let params = source.view.params().unwrap_or_default();
        (wanted.of_jobs, wanted.unowned) = (!ids.is_empty(), source.may_see_all(&params));
        let position = after.map(JournalPosition::parse).transpose();
        let position = position.map_err(|e| Fail::usage(format!("the position: {e}")))?;
        let cluster = source.cluster()?.cluster;
        let from = position.map_or((u64::MAX, 0, 0), |p| (p.epoch, p.segment, p.record));
        let mut poller = EventPoller {
            history: History::new(&source.layout, &cluster).after(from),
            events: Events {
                documents: Documents::new(sys::signals::name),
                unseen: Vec::new(),
                has_output: false,
                wanted,
                after: Some(position.unwrap_or(JournalPosition {
                    epoch: u64::MAX,
                    ..JournalPosition::default()
                })),
            },
            layout: source.layout,
        };
        if after.is_none() {
            // Existing events were not requested, but they are read because they name the owners of
            // jobs.
            poller.read_new(&mut |_| {})?;
            poller.skip_existing();
        }
        Ok(poller)
    }

    /// From now on every event that is read is new.
    fn skip_existing(&mut self) {
        self.events.after = None;
        let other = History::new(&self.layout, "");
        self.history = std::mem::replace(&mut self.history, other).after((0, 0, 0));
    }

    /// Passes on the events that occurred since the last look, each as a JSON object.
    ///
    /// # Errors
    /// The journal cannot be read, or events after the position are no longer kept.
    pub(crate) fn read_new(&mut self, line: &mut dyn FnMut(String)) -> Result<(), Fail> {
        let events = &mut self.events;
        let read = self.history.read(&mut |entry| {
            if let Some(text) = events.line(entry) {
                line(text);
            }
        });
        read.map_err(|e| Fail::system(e.to_string()))?;
        let position = self
            .events
            .after
            .filter(|position| position.epoch != u64::MAX);
        if position.is_some_and(|position| position != JournalPosition::default())
            && !self.history.is_complete()
        {
            return Err(Fail::not_found(
                "events after that position are no longer kept: start again without a position",
            ));
        }
        if self
            .events
            .after
            .is_some_and(|position| position.epoch != u64::MAX)
        {
            self.skip_existing();
        }
        Ok(())
    }
}

/// The failure if events after `position` are no longer complete.
fn no_longer_kept(position: &str) -> Fail {
    Fail::not_found(format!(
        "--after: the event at {position} is no longer kept, events after it may be missing\n\
         hint: --after 0 prints all that are kept; journal_keep of cb.yaml says for how long"
    ))
}

struct Events {
    documents: Documents,
    wanted: EventFilter,
    /// Requested jobs of which no event has been seen that the caller may see.
    unseen: Vec<JobSel>,
    /// Whether something was printed.
    has_output: bool,
    /// Events up to this position are not printed.
    after: Option<JournalPosition>,
}

impl Events {
    fn line(&mut self, entry: HistoryEntry) -> Option<String> {
        let (at, event) = match entry {
            HistoryEntry::Problem(text) => return Some(trouble("damage", &text)),
            HistoryEntry::Event { at, event } => (at, event),
        };
        let position = JournalPosition {
            epoch: at.epoch,
            segment: at.segment,
            record: at.seq.saturating_sub(1),
        };
        self.documents.note(&event);
        let line = self.event_text(position, &event);
        self.documents.forget(&event);
        line
    }

    fn event_text(&mut self, position: JournalPosition, event: &Event) -> Option<String> {
        let j = job_of(event);
        let owner = j.and_then(|j| self.documents.owner(j.id));
        if !self.wanted.has(event, owner) {
            return None;
        }
        if let Some(j) = j {
            self.unseen.retain(|sel| sel.id() != Some(j.id));
        }
        if self.after.is_some_and(|after| position <= after) {
            return None;
        }
        let names = &self.wanted.names;
        let name = name_of(event)?;
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            return None;
        }
        self.documents.of(position, event)
    }
}

impl Events {
    /// Reports the jobs that have no event.
    fn missing(&self) -> Exit {
        for sel in &self.unseen {
            tell!("Job <{sel}> is not found");
        }
        match self.unseen.is_empty() {
            true => Exit::Ok,
            false => Exit::NotFound,
        }
    }
}

fn last(m: &ArgMatches) -> Result<Option<usize>, Fail> {
    let Some(text) = m.last("n") else {
        return Ok(None);
    };
    match text.parse::<usize>() {
        Ok(n) if n <= LAST_MAX => Ok(Some(n)),
        _ => Err(Fail::usage(format!(
            "-n: '{}' is not a number from 0 to {LAST_MAX}",
            crate::text::width::escape(text)
        ))),
    }
}

fn pause_ms(m: &ArgMatches) -> Result<u64, Fail> {
    let text = m.last("i").unwrap_or("1");
    match text.parse::<f64>() {
        Ok(s) if (PAUSE_MIN_S..=PAUSE_MAX_S).contains(&s) => Ok((s * 1000.0) as u64),
        _ => Err(Fail::usage(format!(
            "-i: '{}' is not a number of seconds from {PAUSE_MIN_S} to {PAUSE_MAX_S}",
            crate::text::width::escape(text)
        ))),
    }
}
