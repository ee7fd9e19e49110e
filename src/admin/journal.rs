//! `cadmin journal [-f] [JOBID...]`: prints the events of the journal as sentences; `cadmin journal
//! export` is in [`super::journal_export`].
//!
//! Reads the kept segments under their seals; takes no lock and needs no leader. Damage is printed
//! at its place, and reading continues after it. Exit code 1 if nothing matched.

use super::journal_export::Export;
use crate::client::env::{Site, cluster_of};
use crate::client::exit::{Exit, Fail};
use crate::client::read::{OWN_ONLY, Source};
use crate::journal::{History, HistoryEntry, Position};
use crate::model::{JobKey, Stamp};
use crate::show::event::{Sentences, concerns_job, time_of};
use crate::spool::view::JobSet;
use crate::sys;
use clap::{Command, CommandFactory as _, Parser, Subcommand};
use jiff::tz::TimeZone;
use std::io::Write as _;

/// Interval between two reads with `-f`, ms.
const FOLLOW_MS: u64 = 500;

/// Prints the events of the journal.
#[derive(Parser, Debug)]
#[command(name = "cadmin journal", disable_version_flag = true)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Args {
    /// Follow the journal until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// Print only the last N events.
    #[arg(short = 'n', long, value_name = "N")]
    last: Option<usize>,
    /// Print the records as JSON lines.
    #[arg(long)]
    json: bool,
    /// Only events of these jobs: 123 or 123[4].
    jobs: Vec<JobKey>,
    #[command(subcommand)]
    command: Option<JournalCommand>,
}

#[derive(Subcommand, Debug)]
enum JournalCommand {
    Export(Export),
}

/// The options of `cadmin journal`.
pub(super) fn options() -> Command {
    Args::command()
}

/// Runs `cadmin journal` with its arguments; returns the exit code.
pub(crate) fn run(words: &[String]) -> i32 {
    let args = match crate::client::parsed::<Args>("cadmin journal", words) {
        Ok(args) => args,
        Err(e) => return crate::client::usage(&e),
    };
    if let Some(JournalCommand::Export(export)) = &args.command {
        return crate::client::read::end(
            "cadmin journal export",
            super::journal_export::run(export),
        );
    }
    match print(&args) {
        Ok(0) if !args.jobs.is_empty() => Exit::NotFound.code(),
        Ok(_) => Exit::Ok.code(),
        Err(e) => crate::client::report(Err(e)),
    }
}

/// Prints until the end, or without end; returns the number of events.
fn print(args: &Args) -> Result<usize, Fail> {
    let site = Site::find()?;
    let layout = site.layout();
    let cluster = cluster_of(&site)?;
    check_visible(&site, &args.jobs)?;
    let ids: Vec<u32> = args.jobs.iter().map(|j| j.id).collect();
    let mut history = History::new(&layout, &cluster.cluster).of_jobs(&ids);
    let mut printer = Printer {
        sentences: Sentences::new(sys::signals::name),
        zone: TimeZone::system(),
        json: args.json,
    };
    let mut first = true;
    let mut count = 0;
    loop {
        let mut lines = Vec::new();
        let mut flow = Ok(());
        history
            .read(&mut |entry| {
                let Some(line) = printer.entry(entry, &args.jobs) else {
                    return;
                };
                count += 1;
                lines.push(line);
                if let Some(n) = args.last.filter(|_| first) {
                    // Up to twice as many lines are kept, because removing one for each new line
                    // would be slow.
                    if lines.len() >= 2 * n.max(500) {
                        lines.drain(..lines.len() - n);
                    }
                } else if lines.len() >= 1000 && flow.is_ok() {
                    flow = write_out(&mut lines);
                }
            })
            .map_err(|e| Fail::system(e.to_string()))?;
        if let Some(n) = args.last.filter(|_| first) {
            lines.drain(..lines.len().saturating_sub(n));
        }
        flow.and_then(|()| write_out(&mut lines))
            .map_err(|e| Fail::system(format!("cannot write the output: {}", sys::reason(&e))))?;
        if !args.follow {
            return Ok(count);
        }
        first = false;
        sys::clock::sleep_ms(FOLLOW_MS);
    }
}

/// Follows `user_view_alljobs` like cjobs: a user who may not see all jobs must name jobs, and sees
/// their events only if cjobs would show these jobs. This protects nothing: the file is readable.
fn check_visible(site: &Site, jobs: &[JobKey]) -> Result<(), Fail> {
    let source = Source::of("cadmin journal", site.clone());
    if source.me.uid == 0 || source.is_service() {
        return Ok(());
    }
    let params = source.params()?;
    if source.may_see_all(&params) {
        return Ok(());
    }
    let want = JobSet {
        ids: jobs.iter().map(|j| (j.id, j.id)).collect(),
        finished: true,
        ..JobSet::default()
    };
    let found = match jobs.is_empty() {
        true => Vec::new(),
        false => source.view.collect(&want).map_err(|e| source.failed(e))?.0,
    };
    let visible = |j: &JobKey| {
        let mut rows = found.iter().filter(|job| job.row.j.id == j.id);
        rows.next()
            .is_some_and(|job| source.may_see(&params, &job.spec))
    };
    if !jobs.is_empty() && jobs.iter().all(visible) {
        return Ok(());
    }
    let text = format!("{OWN_ONLY}\nhint: name jobs of yours, or see them with 'chist'");
    Err(Fail::permission(text))
}

fn write_out(lines: &mut Vec<String>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines.drain(..) {
        out.write_all(line.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

struct Printer {
    sentences: Sentences,
    zone: TimeZone,
    json: bool,
}

impl Printer {
    /// The line of an entry; `None` if it is not selected.
    fn entry(&mut self, entry: HistoryEntry, jobs: &[JobKey]) -> Option<String> {
        let (at, event) = match entry {
            HistoryEntry::Problem(text) => return Some(format!("!! {text}")),
            HistoryEntry::Event { at, event } => (at, event),
        };
        self.sentences.note(&event);
        if !jobs.is_empty() && !jobs.iter().any(|j| concerns_job(&event, *j)) {
            return None;
        }
        if self.json {
            return serde_json::to_string(&event).ok();
        }
        // Times of hosts and of the leader are mixed; the order is that of the journal.
        let time = match time_of(&event) {
            Some(t) => time_text(t, &self.zone),
            None => " ".repeat(19),
        };
        Some(format!(
            "{time}  {:<16} {}",
            position_text(at),
            self.sentences.of(&event)
        ))
    }
}

/// A time of an event, 19 characters.
pub(super) fn time_text(t: Stamp, zone: &TimeZone) -> String {
    match jiff::Timestamp::from_millisecond(t.0) {
        Ok(ts) => ts
            .to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        Err(_) => format!("{:>19}", t.0),
    }
}

fn position_text(at: Position) -> String {
    format!("{}.{}.{}", at.epoch, at.segment, at.seq.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Spec, Token};
    use crate::record::event::{Event, Submitted};

    fn printer() -> Printer {
        Printer {
            sentences: Sentences::new(sys::signals::name),
            zone: TimeZone::UTC,
            json: false,
        }
    }

    fn line(p: &mut Printer, event: Event, jobs: &[JobKey]) -> Option<String> {
        let at = Position {
            epoch: 7,
            segment: 1,
            bytes: 9,
            seq: 4,
        };
        p.entry(HistoryEntry::Event { at, event }, jobs)
    }

    #[test]
    fn events_read_as_sentences_with_time_and_place() {
        let mut p = printer();
        let spec = Spec {
            user: "ada".into(),
            queue: "night".into(),
            ..Spec::default()
        };
        let spec = Box::new(spec);
        line(&mut p, Event::Spec { id: 2, spec }, &[]);
        let submitted = Submitted {
            id: 12,
            s: 2,
            t: Stamp(1_000_000_000_000),
            command: "echo \u{1b}[31m".into(),
            name: String::new(),
            array: "1-3".into(),
            array_limit: 0,
            hold: false,
            tok: Token(1),
            line: 0,
            key: String::new(),
            cron: None,
        };
        let text = line(&mut p, Event::Submitted(Box::new(submitted)), &[]).unwrap();
        assert!(text.starts_with("2001-09-09 01:46:40  7.1.3 "), "{text}");
        assert!(text.contains("job 12 array [1-3] submitted by ada to queue night: echo"));
        assert!(
            !text.contains('\u{1b}'),
            "no control characters reach the terminal"
        );
    }

    #[test]
    fn an_elements_events_include_its_arrays() {
        let moved = |j| Event::Moved {
            j,
            order: 1,
            by: "x".into(),
            t: Stamp(1),
        };
        let wanted = [JobKey::element(3, 4)];
        let mut p = printer();
        assert!(line(&mut p, moved(JobKey::job(3)), &wanted).is_some());
        assert!(line(&mut p, moved(JobKey::element(3, 4)), &wanted).is_some());
        assert!(line(&mut p, moved(JobKey::element(3, 5)), &wanted).is_none());
        assert!(line(&mut p, moved(JobKey::job(4)), &wanted).is_none());
        let whole = [JobKey::job(3)];
        assert!(line(&mut p, moved(JobKey::element(3, 5)), &whole).is_some());
    }
}
