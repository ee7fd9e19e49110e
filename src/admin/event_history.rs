//! `cadmin qhist`, `hhist`, `mbdhist`, `hist`: what was done to queues and hosts, and which leaders
//! there were, from the journal.
//!
//! Owns the choice of events; `show` owns their sentences. Takes no lock and needs no leader.

use super::journal::time_text;
use super::subcommand::{Subcommand, cmd, matches};
use crate::client::cli::{Values, operands, opt};
use crate::client::env::{Site, cluster_of};
use crate::client::exit::{Exit, Fail, Result};
use crate::client::job_requests::finish;
use crate::client::read;
use crate::journal::{History, HistoryEntry};
use crate::language::tell;
use crate::model::Stamp;
use crate::record::event::Event;
use crate::show::event::{Sentences, time_of};
use crate::show::history::range::{self, Range};
use crate::sys;
use clap::{ArgMatches, Command};
use jiff::tz::TimeZone;

/// Bytes of output that are written at once.
const PART: usize = 64 << 10;

/// The requested events.
struct EventQuery {
    kinds: Kinds,
    names: Vec<String>,
    within: Option<Range>,
}

/// The kinds of events of a subcommand.
#[derive(Clone, Copy)]
struct Kinds {
    queues: bool,
    hosts: bool,
    leaders: bool,
}

/// Its options.
pub(super) fn options(s: &Subcommand) -> Command {
    let names = match s.name {
        "qhist" => Some(("QUEUE", "Queues; default: all")),
        "hhist" => Some(("HOST", "Hosts; default: all")),
        _ => None,
    };
    let cmd = cmd(s).arg(opt("t", "T0,T1", "Only events of this range of time"));
    match names {
        Some((name, help)) => cmd.arg(operands("names", name, help)),
        None => cmd,
    }
}

/// Runs one of them; returns the exit code.
pub(super) fn run(s: &'static Subcommand, words: &[String]) -> i32 {
    match matches(options(s), words) {
        Ok(m) => finish(&format!("cadmin {}", s.name), print(s, &m)),
        Err(code) => code,
    }
}

fn print(s: &Subcommand, m: &ArgMatches) -> Result<i32> {
    let zone = TimeZone::system();
    let within = m.last("t").map(|text| {
        let range = Range::parse(text, sys::clock::wall_ms(), &zone);
        range.map_err(|e| Fail::usage(format!("-t: {e}\nhint: {}", range::HINT)))
    });
    let query = EventQuery {
        kinds: Kinds {
            queues: matches!(s.name, "qhist" | "hist"),
            hosts: matches!(s.name, "hhist" | "hist"),
            leaders: matches!(s.name, "mbdhist" | "hist"),
        },
        names: match s.name {
            "qhist" | "hhist" => m.all("names"),
            _ => Vec::new(),
        },
        within: within.transpose()?,
    };
    let site = Site::find()?;
    let layout = site.layout();
    let cluster = cluster_of(&site)?;
    let sentences = Sentences::new(sys::signals::name);
    // Written in parts: the journal may have more events than fit into memory.
    let (mut out, mut found, mut written) = (String::new(), false, Ok(()));
    let mut history = History::new(&layout, &cluster.cluster);
    let read = history.read(&mut |entry| match entry {
        HistoryEntry::Problem(text) => tell!("!! {text}"),
        HistoryEntry::Event { event, .. } => {
            if let Some(t) = query.time(&event) {
                out += &format!("{}  {}\n", time_text(t, &zone), sentences.of(&event));
                found = true;
            }
            if out.len() > PART && written.is_ok() {
                written = read::put(&std::mem::take(&mut out));
            }
        }
    });
    read.map_err(|e| Fail::system(e.to_string()))?;
    written.and_then(|()| read::put(&out))?;
    if !found {
        tell!("No matching event found");
        return Ok(Exit::NotFound.code());
    }
    Ok(Exit::Ok.code())
}

impl EventQuery {
    /// The time of the event, if it is requested.
    fn time(&self, event: &Event) -> Option<Stamp> {
        let named = |name: &String| self.names.is_empty() || self.names.contains(name);
        let wanted = match event {
            Event::Queue { name, .. } => self.kinds.queues && named(name),
            Event::Host { name, .. } | Event::HostSeen { name, .. } => {
                self.kinds.hosts && named(name)
            }
            Event::Epoch { .. }
            | Event::Config { .. }
            | Event::WentBack { .. }
            | Event::Restored { .. } => self.kinds.leaders,
            _ => false,
        };
        let t = time_of(event).filter(|_| wanted)?;
        self.within.is_none_or(|range| range.has(t.0)).then_some(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::request::{HostAct, QueueAct};

    fn events() -> [Event; 4] {
        let (by, comment) = ("boss".to_owned(), "dimm".to_owned());
        let (name, boot) = ("h2".to_owned(), String::new());
        [
            Event::Queue {
                name: "night".into(),
                act: QueueAct::Close,
                by: by.clone(),
                comment: String::new(),
                t: Stamp(1000),
            },
            Event::Host {
                name: "h1".into(),
                act: HostAct::Close,
                by,
                comment,
                t: Stamp(2000),
            },
            Event::HostSeen {
                name,
                up: false,
                boot,
                t: Stamp(3000),
            },
            Event::Config {
                digest: "d".into(),
                t: Stamp(4000),
            },
        ]
    }

    #[test]
    fn each_subcommand_has_its_events() {
        let times = |queues, hosts, leaders, names: &[&str], within| {
            let query = EventQuery {
                kinds: Kinds {
                    queues,
                    hosts,
                    leaders,
                },
                names: names.iter().map(|n| (*n).to_owned()).collect(),
                within,
            };
            let found = events().iter().filter_map(|e| query.time(e)).collect();
            let found: Vec<Stamp> = found;
            found.iter().map(|t| t.0 / 1000).collect::<Vec<_>>()
        };
        assert_eq!(times(true, false, false, &[], None), [1]);
        assert_eq!(times(false, true, false, &[], None), [2, 3]);
        assert_eq!(times(false, true, false, &["h1"], None), [2]);
        assert_eq!(times(false, false, true, &[], None), [4]);
        assert_eq!(times(true, true, true, &[], None), [1, 2, 3, 4]);
        let range = Range {
            from: 2000,
            to: 4000,
        };
        assert_eq!(times(true, true, true, &[], Some(range)), [2, 3]);
    }
}
