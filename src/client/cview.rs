//! `cview`: shows the cluster on a full screen, like top: queues, hosts, jobs, one job, one host;
//! and acts on the selected entry.
//!
//! Owns the options. The state and what keys do to it (`app`, `key_actions`) and how it is drawn
//! (`draw`) are pure; `reading` reads the published view, `session` owns the terminal.

mod actions;
mod app;
pub(crate) mod columns;
mod draw;
pub(crate) mod filter;
mod key_actions;
mod keys;
pub(crate) mod lines;
mod overview;
mod pages;
mod reading;
mod screen;
mod session;
mod targets;
pub(crate) mod view_data;

use super::cli::{self, Values, command, flag, operands, opt};
use super::exit::{Fail, Result};
use super::job_requests::finish;
use super::read::{self, Source};
use crate::language::{self, Language};
use crate::model::JobKey;
use crate::show::job::Ctx;
use crate::text::width::escape;
use app::App;
use clap::{ArgMatches, Command};
use draw::{DisplayOptions, DrawTime};
use filter::Filter;
use keys::Screen;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use reading::{PollResult, ViewPoller};
use std::ffi::OsString;
use view_data::Subject;

/// Interval between two looks at the view: default, minimum and maximum, ms.
const INTERVAL_MS: (u64, u64, u64) = (1_000, 100, 3_600_000);
/// Default size of the single frame.
const SIZE: (u16, u16) = (80, 24);
/// Maximum size of the frame, in columns and rows.
const SIZE_MAX: u16 = 1000;

/// The options of `cview`.
pub(super) fn options() -> Command {
    command(
        "cview",
        "Watch queues, hosts and jobs on a full screen, and act on them",
    )
    .arg(flag("a", "Jobs of all users, not only your own"))
    .arg(flag("f", "Finished jobs too, as long as they are kept"))
    .arg(opt("i", "SECONDS", "Update interval, 0.1 to 3600 [1]"))
    .arg(opt(
        "screen",
        "NAME",
        "Begin with queues, hosts, jobs, job or host [jobs]",
    ))
    .arg(opt(
        "filter",
        "TEXT",
        "Begin with this filter, as typed after /",
    ))
    .arg(flag(
        "once",
        "Print one frame as plain text and exit; no terminal is needed",
    ))
    .arg(opt(
        "size",
        "COLSxROWS",
        "With -once: the size of the frame [80x24]",
    ))
    .arg(operands(
        "what",
        "NAME",
        "With -screen job or host: a job ID, an element 12[3], or a host",
    ))
}

/// Runs `cview`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match cli::parse(options(), args) {
        Ok(m) => finish("cview", view(&m)),
        Err(code) => code,
    }
}

fn view(m: &ArgMatches) -> Result<i32> {
    let interval_ms = interval(m.last("i"))?;
    if m.has("once") {
        let app = initial_app(m, size(m.last("size"))?)?;
        let source = Source::open("cview")?;
        let ctx = source.ctx_with_estimates();
        read::put(&print_once(app, &source, ctx, language::of_process())?)?;
        return Ok(0);
    }
    if m.last("size").is_some() {
        return Err(Fail::usage("-size can only be given with -once"));
    }
    let app = initial_app(m, SIZE)?;
    screen::check(std::env::var("TERM").ok().as_deref())?;
    let source = Source::open("cview")?;
    let app = App {
        size: screen::size(),
        ..app
    };
    session::run(source, app, interval_ms, session::colors())
}

/// The interval of `-i`.
fn interval(text: Option<&str>) -> Result<u64> {
    let (default, least, most) = INTERVAL_MS;
    let Some(text) = text else {
        return Ok(default);
    };
    let wrong = || {
        let shown = escape(text);
        Fail::usage(format!(
            "-i: '{shown}' is not a number of seconds from 0.1 to {}",
            most / 1000
        ))
    };
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    let ms = (seconds * 1000.0).round();
    #[allow(clippy::cast_precision_loss)] // both are small
    let within = ms >= least as f64 && ms <= most as f64;
    match within {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is within
        true => Ok(ms as u64),
        false => Err(wrong()),
    }
}

/// The size of `-size`.
fn size(text: Option<&str>) -> Result<(u16, u16)> {
    let Some(text) = text else {
        return Ok(SIZE);
    };
    let part = |text: &str| text.parse().ok().filter(|n| (1..=SIZE_MAX).contains(n));
    let parts = text.split_once('x');
    let size = parts.and_then(|(columns, rows)| Some((part(columns)?, part(rows)?)));
    size.ok_or_else(|| {
        let shown = escape(text);
        Fail::usage(format!(
            "-size: '{shown}' is not a size such as 80x24, at most {SIZE_MAX}x{SIZE_MAX}"
        ))
    })
}

/// The initial state.
fn initial_app(m: &ArgMatches, size: (u16, u16)) -> Result<App> {
    let names = m.all("what");
    let name = match names.as_slice() {
        [] => None,
        [one] => Some(one),
        _ => return Err(Fail::usage("give one job or host")),
    };
    let (screen, subject) = match (m.last("screen").unwrap_or("jobs"), name) {
        ("queues", None) => (Screen::Queues, None),
        ("hosts", None) => (Screen::Hosts, None),
        ("jobs", None) => (Screen::Jobs, None),
        ("job", Some(text)) => (Screen::Job, Some(Subject::Job(job(text)?))),
        ("host", Some(text)) => (Screen::Host, Some(Subject::Host(text.clone()))),
        ("job" | "host", None) => {
            return Err(Fail::usage(
                "-screen job and -screen host need a job or host",
            ));
        }
        ("queues" | "hosts" | "jobs", Some(_)) => {
            let text = "a job or host can only be given with -screen job or host";
            return Err(Fail::usage(text));
        }
        (other, _) => {
            let shown = escape(other);
            return Err(Fail::usage(format!(
                "-screen: there is no screen '{shown}'; there are queues, hosts, jobs, job, host"
            )));
        }
    };
    let mut app = App::new(screen, size);
    app.needed_jobs.all_users = m.has("a");
    app.needed_jobs.finished = m.has("f");
    app.page.subject = subject;
    if let Some(text) = m.last("filter") {
        let filter = Filter::parse(text).map_err(|why| Fail::usage(format!("-filter: {why}")))?;
        match screen {
            Screen::Queues => app.queues.arrangement.filter = filter,
            Screen::Hosts => app.hosts.arrangement.filter = filter,
            Screen::Jobs => app.jobs.arrangement.filter = filter,
            Screen::Job | Screen::Host => {
                return Err(Fail::usage("-filter can only be given with a list"));
            }
        }
    }
    Ok(app)
}

fn job(text: &str) -> Result<JobKey> {
    let key: Option<JobKey> = text.parse().ok().filter(|key: &JobKey| key.id > 0);
    // Only the form in which keys are printed is accepted.
    key.filter(|key| key.to_string() == text).ok_or_else(|| {
        let shown = escape(text);
        Fail::usage(format!("'{shown}' does not name one job or element"))
    })
}

/// One frame as plain text.
fn print_once(mut app: App, source: &Source, ctx: Ctx, language: Language) -> Result<String> {
    let display = DisplayOptions {
        color: false,
        cursor: false,
        language,
    };
    let (now, dates) = (ctx.now.0, ctx.dates.same());
    match ViewPoller::default().poll(source, &app.needed_data(), ctx) {
        PollResult::Data(data) => app.set_data(*data, now),
        PollResult::Failed(why) => return Err(Fail::system(why)),
        PollResult::Unchanged => {}
    }
    let page = app.cluster.page.as_ref();
    if let Some((page, exit)) = page.and_then(|page| Some((page, page.problem?))) {
        return Err(Fail::new(exit, page.lines.join("\n")));
    }
    let moment = DrawTime {
        now,
        dates: &dates,
        hangs_s: None,
    };
    let mut buf = Buffer::empty(Rect::new(0, 0, app.size.0, app.size.1));
    draw::draw(&app, display, &moment, &mut buf);
    Ok(draw::lines_of(&buf).join("\n") + "\n")
}

#[cfg(test)]
mod tests;
