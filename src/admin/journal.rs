//! `cadmin journal [-f] [JOBID...]`: prints the events of the journal as sentences.
//!
//! Reads the kept segments under their seals; takes no lock and needs no leader. Damage is printed
//! where it lies, and reading continues after it. Exit code 1 when nothing matched.

use crate::client::env::Site;
use crate::client::exit::{Exit, Fail};
use crate::journal::{Entry, History, Position};
use crate::model::{JobKey, Share, Spec, Stamp, TermReason};
use crate::record::event::{Event, SignalAct, Submitted};
use crate::record::leader::{CLUSTER_MAX, ClusterDoc};
use crate::record::report::Ended;
use crate::record::request::{HostAct, QueueAct};
use crate::sys;
use crate::text::count::count;
use crate::text::width::escape;
use clap::Parser;
use jiff::tz::TimeZone;
use std::collections::HashMap;
use std::io::Write as _;

/// Interval between two reads with `-f`, ms.
const FOLLOW_MS: u64 = 500;

/// Prints the events of the journal.
#[derive(Parser, Debug)]
#[command(name = "cadmin journal", disable_version_flag = true)]
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
}

/// Runs `cadmin journal` with its arguments; returns the exit code.
pub fn run(words: &[String]) -> i32 {
    let args = match Args::try_parse_from(crate::client::with_name("cadmin journal", words)) {
        Ok(args) => args,
        Err(e) => return crate::client::usage(&e),
    };
    match print(&args) {
        Ok(0) if !args.jobs.is_empty() => Exit::NotFound.code(),
        Ok(_) => Exit::Ok.code(),
        Err(e) => crate::client::report(Err(e)),
    }
}

/// Prints until the end, or for ever; returns the number of events.
fn print(args: &Args) -> Result<usize, Fail> {
    let site = Site::find()?;
    let layout = site.layout();
    let bytes = sys::fs::read_small(&layout.cluster(), CLUSTER_MAX)
        .map_err(|_| Fail::system(site.diagnose()))?;
    let cluster = ClusterDoc::decode(&bytes)
        .map_err(|e| Fail::system(format!("{}: {e}", layout.cluster().display())))?;
    let ids: Vec<u32> = args.jobs.iter().map(|j| j.id).collect();
    let mut history = History::new(&layout, &cluster.cluster).of_jobs(&ids);
    let mut printer = Printer {
        specs: HashMap::new(),
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
                    // Twice as many are kept for a moment: draining at each line would be slow.
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

fn write_out(lines: &mut Vec<String>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines.drain(..) {
        out.write_all(line.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

struct Printer {
    /// Owner and queue of each specification seen.
    specs: HashMap<u32, (String, String)>,
    zone: TimeZone,
    json: bool,
}

impl Printer {
    /// The line of an entry; `None` when it is not selected.
    fn entry(&mut self, entry: Entry, jobs: &[JobKey]) -> Option<String> {
        let (at, event) = match entry {
            Entry::Problem(text) => return Some(format!("!! {text}")),
            Entry::Event { at, event } => (at, event),
        };
        if let Event::Spec { id, spec } = &event {
            let Spec { user, queue, .. } = spec.as_ref();
            self.specs.insert(*id, (user.clone(), queue.clone()));
        }
        if !jobs.is_empty() && !jobs.iter().any(|j| concerns(&event, *j)) {
            return None;
        }
        if self.json {
            return serde_json::to_string(&event).ok();
        }
        // Times of hosts and of the leader alike; the order is the journal's.
        let time = match time_of(&event) {
            Some(t) => self.time(t),
            None => " ".repeat(19),
        };
        Some(format!(
            "{time}  {:<16} {}",
            place(at),
            self.sentence(&event)
        ))
    }

    fn time(&self, t: Stamp) -> String {
        match jiff::Timestamp::from_millisecond(t.0) {
            Ok(ts) => ts
                .to_zoned(self.zone.clone())
                .strftime("%Y-%m-%d %H:%M:%S")
                .to_string(),
            Err(_) => format!("{:>19}", t.0),
        }
    }

    fn sentence(&self, event: &Event) -> String {
        match event {
            Event::Epoch {
                epoch, host, pid, ..
            } => format!("epoch {epoch} begins: {host} leads, process {pid}"),
            Event::Seal {
                epoch,
                segment,
                bytes,
                next_seq,
            } => format!("epoch {epoch} segment {segment} ends at byte {bytes}, record {next_seq}"),
            Event::Spec { id, spec } => format!(
                "specification {id}: {} queue {} slots {}-{}",
                spec.user, spec.queue, spec.min, spec.max
            ),
            Event::Submitted(s) => self.submitted(s),
            Event::Handled { tok, .. } => format!("request {tok} was carried out"),
            Event::PartHandled { tok, verb, .. } => {
                format!("request {tok} was carried out up to its part {verb}")
            }
            Event::Cleaned { ids, .. } if ids.len() > 8 => {
                format!("{} finished jobs from {} on are removed", ids.len(), ids[0])
            }
            Event::Cleaned { ids, .. } => format!("finished jobs {ids:?} are removed"),
            Event::WentBack { epoch, host, .. } => {
                format!("share set back: host {host} knows more of epoch {epoch} than the journal")
            }
            Event::Restored { above, id, by, .. } => format!(
                "{by} confirmed a restored share: epochs continue above {above}, job IDs above \
                 {id}, pending jobs are held"
            ),
            Event::Config { digest, .. } => format!("configuration {digest} is in force"),
            Event::Queue {
                name,
                act,
                by,
                comment,
                ..
            } => format!("queue {name} {} by {by}{}", queue_act(*act), said(comment)),
            Event::Host {
                name,
                act,
                by,
                comment,
                ..
            } => format!("host {name} {} by {by}{}", host_act(*act), said(comment)),
            Event::HostSeen { name, up, boot, .. } => {
                let state = if *up { "is up" } else { "does not answer" };
                let boot = if boot.is_empty() {
                    ""
                } else {
                    &format!(", boot {boot}")
                };
                format!("host {name} {state}{boot}")
            }
            Event::HostLedger { name, id, .. } => format!("host {name} uses ledger {id}"),
            Event::Shares { queue, past, .. } => {
                format!("queue {queue}: history of {}", count(past.len(), "user"))
            }
            of_job => job_sentence(of_job),
        }
    }

    fn submitted(&self, s: &Submitted) -> String {
        let nobody = ("?".to_owned(), "?".to_owned());
        let (user, queue) = self.specs.get(&s.s).unwrap_or(&nobody);
        let array = if s.array.is_empty() {
            String::new()
        } else {
            format!(" array [{}]", s.array)
        };
        let held = if s.hold { " held" } else { "" };
        let command = escape(&s.command);
        format!(
            "job {}{array} submitted by {user} to queue {queue}{held}: {command}",
            s.id
        )
    }
}

/// Sentences of events that concern one job.
fn job_sentence(event: &Event) -> String {
    match event {
        Event::Dispatched { a, hosts, .. } => {
            let hosts: Vec<String> = hosts.iter().map(Share::to_string).collect();
            format!(
                "job {} attempt {} dispatched to {}",
                a.j,
                a.at,
                hosts.join(" ")
            )
        }
        Event::Gathered { a, .. } => {
            format!("job {} attempt {} has all its hosts ready", a.j, a.at)
        }
        Event::Resized { a, hosts, .. } => {
            let hosts: Vec<String> = hosts.iter().map(Share::to_string).collect();
            format!("job {} attempt {} also has {}", a.j, a.at, hosts.join(" "))
        }
        Event::Halted { j, why, .. } => format!("job {j} stopped by the system: {why}"),
        Event::Unhalted { j, .. } => format!("job {j} resumed by the system"),
        Event::Warned { j, at, t } => format!(
            "job {j} will be preempted in {} s",
            at.since_ms(*t).div_ceil(1000)
        ),
        Event::Started { a, pid, .. } => {
            format!("job {} attempt {} started, process {pid}", a.j, a.at)
        }
        Event::Ended { e, requeue, hold } => ended(e, *requeue, *hold),
        Event::Unbound { a, why, .. } => {
            let why = escape(why);
            format!(
                "job {} attempt {} was not started by its host: {why}",
                a.j, a.at
            )
        }
        Event::Signalled { j, act, by, .. } => format!("job {j} {} by {by}", signal(*act)),
        Event::Cancelled { j, by, reason, .. } => {
            format!(
                "job {j} ended without a start by {by}: {}",
                reason_text(*reason)
            )
        }
        Event::Held {
            j, held, admin, by, ..
        } => {
            let act = if *held { "held" } else { "released" };
            let role = if *admin { ", an administrator" } else { "" };
            format!("job {j} {act} by {by}{role}")
        }
        Event::Suspended { a, on, .. } => {
            let act = if *on { "suspended" } else { "resumed" };
            format!("job {} attempt {} {act}", a.j, a.at)
        }
        Event::Requeued { j, hold, by, .. } => {
            let how = if *hold { " and held" } else { "" };
            format!("job {j} requeued{how} by {by}")
        }
        Event::Changed { j, by, what, .. } => format!("job {j} changed by {by}: {}", escape(what)),
        Event::Renamed { j, by, .. } => format!("job {j} has other parameters by {by}"),
        Event::Moved { j, order, by, .. } => format!("job {j} moved to place {order} by {by}"),
        Event::Used { a, u } => format!(
            "job {} attempt {} used {} ms of CPU, {} KB of memory",
            a.j, a.at, u.cpu_ms, u.mem_kb
        ),
        Event::Why { j, why, .. } => format!("job {j} waits: {why}"),
        _ => "an event of the cluster".to_owned(),
    }
}

fn ended(e: &Ended, requeue: bool, hold: bool) -> String {
    let how = match (e.code, e.sig) {
        (Some(0), 0) if e.reason == TermReason::None => "done".to_owned(),
        (_, sig) if sig != 0 => format!("ended by signal {}", sys::signals::name(sig)),
        (Some(code), _) => format!("exited with code {code}"),
        (None, _) => "ended; exit status unknown".to_owned(),
    };
    let why = match e.reason {
        TermReason::None => String::new(),
        reason => format!(" ({})", reason_text(reason)),
    };
    let then = match (requeue, hold) {
        (false, _) => "",
        (true, false) => "; pending again",
        (true, true) => "; pending again and held",
    };
    let text = if e.text.is_empty() {
        String::new()
    } else {
        format!(": {}", escape(&e.text))
    };
    format!("job {} attempt {} {how}{why}{text}{then}", e.a.j, e.a.at)
}

fn reason_text(reason: TermReason) -> &'static str {
    reason.word()
}

fn signal(act: SignalAct) -> String {
    match act {
        SignalAct::Kill(reason) => format!("kill asked ({})", reason_text(reason)),
        SignalAct::Requeue { hold: false, .. } => "requeue asked".into(),
        SignalAct::Requeue { hold: true, .. } => "requeue and hold asked".into(),
        SignalAct::Stop => "stop asked".into(),
        SignalAct::Resume => "resume asked".into(),
        SignalAct::Number(n) => format!("signal {} asked", sys::signals::name(n)),
    }
}

fn queue_act(act: QueueAct) -> &'static str {
    match act {
        QueueAct::Open => "opened",
        QueueAct::Close => "closed",
        QueueAct::Activate => "activated",
        QueueAct::Inactivate => "inactivated",
    }
}

fn host_act(act: HostAct) -> &'static str {
    match act {
        HostAct::Open => "opened",
        HostAct::Close => "closed",
    }
}

fn said(comment: &str) -> String {
    if comment.is_empty() {
        String::new()
    } else {
        format!(": {}", escape(comment))
    }
}

fn place(at: Position) -> String {
    format!("{}.{}.{}", at.epoch, at.segment, at.seq.saturating_sub(1))
}

/// When it happened, for events with a time of their own.
fn time_of(event: &Event) -> Option<Stamp> {
    match event {
        Event::Epoch { t, .. }
        | Event::Handled { t, .. }
        | Event::PartHandled { t, .. }
        | Event::Dispatched { t, .. }
        | Event::Gathered { t, .. }
        | Event::Resized { t, .. }
        | Event::Halted { t, .. }
        | Event::Unhalted { t, .. }
        | Event::Warned { t, .. }
        | Event::Shares { t, .. }
        | Event::Started { t, .. }
        | Event::Unbound { t, .. }
        | Event::Signalled { t, .. }
        | Event::Cancelled { t, .. }
        | Event::Held { t, .. }
        | Event::Suspended { t, .. }
        | Event::Requeued { t, .. }
        | Event::Changed { t, .. }
        | Event::Renamed { t, .. }
        | Event::Moved { t, .. }
        | Event::Queue { t, .. }
        | Event::Host { t, .. }
        | Event::HostSeen { t, .. }
        | Event::HostLedger { t, .. }
        | Event::Config { t, .. }
        | Event::WentBack { t, .. }
        | Event::Restored { t, .. }
        | Event::Why { t, .. }
        | Event::Cleaned { t, .. } => Some(*t),
        Event::Submitted(s) => Some(s.t),
        Event::Ended { e, .. } => Some(Stamp(e.t)),
        Event::Seal { .. } | Event::Spec { .. } | Event::Used { .. } => None,
    }
}

/// Whether an event concerns a job; an element's events include its array's.
fn concerns(event: &Event, wanted: JobKey) -> bool {
    let of = match event {
        Event::Submitted(s) => JobKey::job(s.id),
        Event::Dispatched { a, .. }
        | Event::Gathered { a, .. }
        | Event::Resized { a, .. }
        | Event::Started { a, .. }
        | Event::Unbound { a, .. }
        | Event::Suspended { a, .. }
        | Event::Used { a, .. } => a.j,
        Event::Ended { e, .. } => e.a.j,
        Event::Signalled { j, .. }
        | Event::Halted { j, .. }
        | Event::Unhalted { j, .. }
        | Event::Warned { j, .. }
        | Event::Cancelled { j, .. }
        | Event::Held { j, .. }
        | Event::Requeued { j, .. }
        | Event::Changed { j, .. }
        | Event::Renamed { j, .. }
        | Event::Moved { j, .. }
        | Event::Why { j, .. } => *j,
        Event::Cleaned { ids, .. } => return ids.contains(&wanted.id),
        _ => return false,
    };
    of.id == wanted.id && (wanted.idx == 0 || of.idx == 0 || of.idx == wanted.idx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AttemptId, Token};

    fn printer() -> Printer {
        Printer {
            specs: HashMap::new(),
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
        p.entry(Entry::Event { at, event }, jobs)
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
    fn ends_are_told_apart() {
        let a = AttemptId {
            j: JobKey::element(3, 4),
            at: 2,
        };
        let e = |code, sig, reason| Ended {
            a,
            code,
            sig,
            reason,
            ..Ended::default()
        };
        let done = ended(&e(Some(0), 0, TermReason::None), false, false);
        assert_eq!(done, "job 3[4] attempt 2 done");
        let killed = ended(&e(None, 9, TermReason::MemLimit), true, false);
        assert!(killed.contains("signal KILL") && killed.ends_with("pending again"));
        let lost = ended(&e(None, 0, TermReason::HostLost), false, false);
        assert!(lost.contains("exit status unknown"), "{lost}");
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
