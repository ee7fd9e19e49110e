//! Events of the journal as sentences (`cadmin journal`).
//!
//! Owns the wording. Text of users is escaped. Never reads a journal.

use crate::model::{AttemptId, JobKey, Share, Spec, Stamp, TermReason, Units};
use crate::record::event::{Event, SignalAct, Submitted};
use crate::record::report::Ended;
use crate::record::request::{HostAct, QueueAct};
use crate::text::count::count;
use crate::text::width::escape;
use std::borrow::Cow;
use std::collections::HashMap;

/// Returns the name of a signal of this system.
pub(crate) type SignalName = fn(i32) -> String;

/// Formats sentences; keeps the data to which later events refer.
pub(crate) struct Sentences {
    /// Owner and queue of each specification read so far.
    specs: HashMap<u32, (String, String)>,
    signal: SignalName,
}

impl Sentences {
    pub(crate) fn new(signal: SignalName) -> Sentences {
        Sentences {
            specs: HashMap::new(),
            signal,
        }
    }

    /// Stores the owner and queue of a specification.
    pub(crate) fn note(&mut self, event: &Event) {
        if let Event::Spec { id, spec } = event {
            let Spec { user, queue, .. } = spec.as_ref();
            self.specs.insert(*id, (user.clone(), queue.clone()));
        }
    }

    /// The sentence of an event.
    pub(crate) fn of(&self, event: &Event) -> String {
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
                format!(
                    "share restored to an earlier state: host {host} knows more of epoch {epoch} \
                     than the journal"
                )
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
            } => format!(
                "queue {name} {} by {by}{}",
                queue_act(*act),
                comment_text(comment)
            ),
            Event::Host {
                name,
                act,
                by,
                comment,
                ..
            } => format!(
                "host {name} {} by {by}{}",
                host_act(*act),
                comment_text(comment)
            ),
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
            Event::HostReports { name, part, .. } => {
                format!("host {name} reports in file {part}")
            }
            Event::Shares { queue, past, .. } => {
                format!("queue {queue}: history of {}", count(past.len(), "user"))
            }
            of_job => cron_sentence(of_job).unwrap_or_else(|| job_sentence(of_job, self.signal)),
        }
    }

    fn submitted(&self, s: &Submitted) -> String {
        let unknown = ("?".to_owned(), "?".to_owned());
        let (user, queue) = self.specs.get(&s.s).unwrap_or(&unknown);
        let array = if s.array.is_empty() {
            String::new()
        } else {
            format!(" array [{}]", s.array)
        };
        let held_suffix = if s.hold { " held" } else { "" };
        let command = escape(&s.command);
        let cron = match s.cron.as_deref() {
            None => String::new(),
            Some(run) if run.due.0 == 0 => format!(" for cron job {}, by hand", run.name),
            Some(run) => format!(" for cron job {}, due at {}", run.name, run.due.0 / 1000),
        };
        format!(
            "job {}{array} submitted by {user} to queue {queue}{held_suffix}{cron}: {command}",
            s.id
        )
    }
}

/// E.g. `, units: node01 gpu 0,3`.
pub(crate) fn with_units(units: &[Units]) -> String {
    let units: Vec<String> = units.iter().map(Units::to_string).collect();
    match units.is_empty() {
        true => String::new(),
        false => format!(", units: {}", units.join("; ")),
    }
}

/// E.g. `job 7 attempt 1 dispatched to node01, units: node01 gpu 0,3`.
fn hosts_sentence(a: AttemptId, what: &str, hosts: &[Share], units: &[Units]) -> String {
    let hosts: Vec<String> = hosts.iter().map(Share::to_string).collect();
    let (hosts, units) = (hosts.join(" "), with_units(units));
    format!("job {} attempt {} {what} {hosts}{units}", a.j, a.at)
}

/// The sentence of an event about a cron job.
fn cron_sentence(event: &Event) -> Option<String> {
    Some(match event {
        Event::CronDefined { user, def, by, .. } => format!(
            "cron job {} of {user} defined by {by}: {} {}",
            def.name, def.schedule, def.zone
        ),
        Event::CronSwitched {
            uid, name, on, by, ..
        } => {
            let act = if *on { "enabled" } else { "disabled" };
            format!("cron job {name} of uid {uid} {act} by {by}")
        }
        Event::CronRemoved { uid, name, by, .. } => {
            format!("cron job {name} of uid {uid} removed by {by}")
        }
        Event::CronSkipped {
            uid,
            name,
            n,
            why,
            text,
            ..
        } => format!(
            "cron job {name} of uid {uid}: {} {}: {}",
            count(*n as usize, "due time"),
            why.word(),
            escape(text)
        ),
        Event::JobGroupDefined { group, by } => {
            let limit = group.limit.map(|limit| format!(", limit {limit}"));
            let (name, user) = (&group.name, &group.user);
            format!(
                "job group {name} of {user} defined by {by}{}",
                limit.unwrap_or_default()
            )
        }
        Event::JobGroupRemoved { name, by, .. } => format!("job group {name} removed by {by}"),
        Event::AlertSilenced {
            name,
            until: Stamp(0),
            by,
            ..
        } => format!("alert {name} no longer silenced, by {by}"),
        Event::AlertSilenced { name, by, why, .. } => {
            format!("alert {name} silenced by {by}: {}", escape(why))
        }
        _ => return None,
    })
}

/// The sentence of an event about one job.
fn job_sentence(event: &Event, signal_name: SignalName) -> String {
    match event {
        Event::Dispatched {
            a, hosts, units, ..
        } => hosts_sentence(*a, "dispatched to", hosts, units),
        Event::Gathered { a, .. } => {
            format!("job {} attempt {} has all its hosts ready", a.j, a.at)
        }
        Event::Resized {
            a, hosts, units, ..
        } => hosts_sentence(*a, "also has", hosts, units),
        Event::Halted { j, why, .. } => format!("job {j} stopped by the system: {why}"),
        Event::Unhalted { j, .. } => format!("job {j} resumed by the system"),
        Event::Warned { j, at, .. } if at.0 == 0 => format!("job {j} will not be preempted"),
        Event::Warned { j, at, t, .. } => format!(
            "job {j} will be preempted in {} s",
            at.since_ms(*t).div_ceil(1000)
        ),
        Event::Started { a, pid, bind, .. } => {
            let bound: String = bind.iter().map(|bind| format!(", {bind}")).collect();
            format!("job {} attempt {} started, process {pid}{bound}", a.j, a.at)
        }
        Event::Ended { e, requeue, hold } => ended(e, *requeue, *hold, signal_name),
        Event::Unbound { a, why, .. } => {
            let why = escape(why);
            format!(
                "job {} attempt {} was not started by its host: {why}",
                a.j, a.at
            )
        }
        Event::Signalled { j, act, by, .. } => {
            format!("job {j} {} by {by}", signal(*act, signal_name))
        }
        Event::Cancelled { j, by, reason, .. } => {
            format!("job {j} ended without a start by {by}: {}", reason.word())
        }
        Event::Held {
            j,
            held: held_suffix,
            admin,
            by,
            ..
        } => {
            let act = if *held_suffix { "held" } else { "released" };
            let role = if *admin { ", an administrator" } else { "" };
            format!("job {j} {act} by {by}{role}")
        }
        Event::Suspended { a, on, .. } => {
            let act = if *on { "suspended" } else { "resumed" };
            format!("job {} attempt {} {act}", a.j, a.at)
        }
        Event::Checkpointed { a, why, .. } => match why.as_str() {
            "" => format!("job {} attempt {} was checkpointed", a.j, a.at),
            why => format!(
                "job {} attempt {} has no checkpoint: {}",
                a.j,
                a.at,
                escape(why)
            ),
        },
        Event::Requeued { j, hold, by, .. } => {
            let how = if *hold { " and held" } else { "" };
            format!("job {j} requeued{how} by {by}")
        }
        Event::Used { a, u } => format!(
            "job {} attempt {} used {} ms of CPU, {} KB of memory",
            a.j, a.at, u.cpu_ms, u.mem_kb
        ),
        Event::Why { j, why, .. } => format!("job {j} waits: {why}"),
        _ => user_sentence(event),
    }
}

/// The sentence of what a user did to a job.
fn user_sentence(event: &Event) -> String {
    match event {
        Event::Changed { j, by, what, .. } => format!("job {j} changed by {by}: {}", escape(what)),
        Event::Renamed { j, by, .. } => format!("job {j}: parameters changed by {by}"),
        Event::Moved { j, order, by, .. } => format!("job {j} moved to place {order} by {by}"),
        Event::Posted { j, message } => format!(
            "job {j} has message {} of {}: {}",
            message.index,
            message.by,
            escape(&message.text)
        ),
        _ => part_sentence(event),
    }
}

/// The sentence of an event about a host of a job after its first.
fn part_sentence(event: &Event) -> String {
    match event {
        Event::PartBound { a, part, .. } => format!(
            "job {} attempt {} is {} on {}",
            a.j, a.at, part.bind, part.host
        ),
        Event::PartUsed { a, part, .. } => format!(
            "job {} attempt {} had used {} ms of CPU on {}, as reported after the end",
            a.j, a.at, part.u.cpu_ms, part.host
        ),
        _ => "an event of the cluster".to_owned(),
    }
}

fn ended(e: &Ended, requeue: bool, hold: bool, signal_name: SignalName) -> String {
    let how = match (e.code, e.sig) {
        (Some(0), 0) if e.reason == TermReason::None => "done".to_owned(),
        (_, sig) if sig != 0 => format!("ended by signal {}", signal_name(sig)),
        (Some(code), _) => format!("exited with code {code}"),
        (None, _) => "ended; exit status unknown".to_owned(),
    };
    let why = match e.reason {
        TermReason::None => String::new(),
        reason => format!(" ({})", reason.word()),
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

fn signal(act: SignalAct, signal_name: SignalName) -> String {
    match act {
        SignalAct::Kill(reason) => format!("kill requested ({})", reason.word()),
        SignalAct::Migrate { .. }
        | SignalAct::Requeue {
            why: TermReason::Migrate,
            ..
        } => "migration requested".into(),
        SignalAct::Requeue { hold: false, .. } => "requeue requested".into(),
        SignalAct::Requeue { hold: true, .. } => "requeue and hold requested".into(),
        SignalAct::Stop => "stop requested".into(),
        SignalAct::Resume => "resume requested".into(),
        SignalAct::Number(n) => format!("signal {} requested", signal_name(n)),
        SignalAct::Checkpoint { kill: false } => "checkpoint requested".into(),
        SignalAct::Checkpoint { kill: true } => "checkpoint and kill requested".into(),
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

fn host_act(act: HostAct) -> Cow<'static, str> {
    match act {
        HostAct::Open => "opened".into(),
        HostAct::Close => "closed".into(),
        HostAct::Lock { for_s: 0 } => "locked".into(),
        HostAct::Lock { for_s } => format!("locked for {for_s} s").into(),
        HostAct::Unlock => "unlocked".into(),
    }
}

fn comment_text(comment: &str) -> String {
    if comment.is_empty() {
        String::new()
    } else {
        format!(": {}", escape(comment))
    }
}

/// The time of an event that has its own time.
pub(crate) fn time_of(event: &Event) -> Option<Stamp> {
    match event {
        Event::Epoch { t, .. }
        | Event::Handled { t, .. }
        | Event::PartHandled { t, .. }
        | Event::Dispatched { t, .. }
        | Event::Gathered { t, .. }
        | Event::PartBound { t, .. }
        | Event::PartUsed { t, .. }
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
        | Event::Checkpointed { t, .. }
        | Event::Requeued { t, .. }
        | Event::Changed { t, .. }
        | Event::Renamed { t, .. }
        | Event::Moved { t, .. }
        | Event::Queue { t, .. }
        | Event::Host { t, .. }
        | Event::HostSeen { t, .. }
        | Event::HostLedger { t, .. }
        | Event::HostReports { t, .. }
        | Event::Config { t, .. }
        | Event::WentBack { t, .. }
        | Event::Restored { t, .. }
        | Event::Why { t, .. }
        | Event::Cleaned { t, .. } => Some(*t),
        Event::Submitted(s) => Some(s.t),
        Event::Posted { message, .. } => Some(message.t),
        Event::Ended { e, .. } => Some(Stamp(e.t)),
        Event::CronDefined { t, .. }
        | Event::CronSwitched { t, .. }
        | Event::CronRemoved { t, .. }
        | Event::CronSkipped { t, .. }
        | Event::JobGroupRemoved { t, .. }
        | Event::AlertSilenced { t, .. } => Some(*t),
        Event::JobGroupDefined { group, .. } => Some(group.t),
        Event::Seal { .. } | Event::Spec { .. } | Event::Used { .. } => None,
    }
}

/// The job of an event.
pub(crate) fn job_of(event: &Event) -> Option<JobKey> {
    Some(match event {
        Event::Submitted(s) => JobKey::job(s.id),
        Event::Dispatched { a, .. }
        | Event::Gathered { a, .. }
        | Event::PartBound { a, .. }
        | Event::PartUsed { a, .. }
        | Event::Resized { a, .. }
        | Event::Started { a, .. }
        | Event::Unbound { a, .. }
        | Event::Suspended { a, .. }
        | Event::Checkpointed { a, .. }
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
        | Event::Posted { j, .. }
        | Event::Why { j, .. } => *j,
        _ => return None,
    })
}

/// Whether an event concerns a job; an element's events include its array's.
pub(crate) fn concerns_job(event: &Event, wanted: JobKey) -> bool {
    if let Event::Cleaned { ids, .. } = event {
        return ids.contains(&wanted.id);
    }
    job_of(event).is_some_and(|of| {
        of.id == wanted.id && (wanted.idx == 0 || of.idx == 0 || of.idx == wanted.idx)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AttemptId;

    fn name(number: i32) -> String {
        format!("S{number}")
    }

    #[test]
    fn ends_read_differently() {
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
        let done = ended(&e(Some(0), 0, TermReason::None), false, false, name);
        assert_eq!(done, "job 3[4] attempt 2 done");
        let killed = ended(&e(None, 9, TermReason::MemLimit), true, false, name);
        assert!(killed.contains("signal S9") && killed.ends_with("pending again"));
        let lost = ended(&e(None, 0, TermReason::HostLost), false, false, name);
        assert!(lost.contains("exit status unknown"), "{lost}");
    }

    #[test]
    fn orders_about_hosts_say_what_was_done_and_by_whom() {
        let sentence = |act| {
            let (host, by, comment) = ("h1".into(), "boss".into(), String::new());
            let t = Stamp(1);
            let event = Event::Host {
                name: host,
                act,
                by,
                comment,
                t,
            };
            Sentences::new(name).of(&event)
        };
        assert_eq!(sentence(HostAct::Close), "host h1 closed by boss");
        assert_eq!(
            sentence(HostAct::Lock { for_s: 0 }),
            "host h1 locked by boss"
        );
        let timed = sentence(HostAct::Lock { for_s: 60 });
        assert_eq!(timed, "host h1 locked for 60 s by boss");
        assert_eq!(sentence(HostAct::Unlock), "host h1 unlocked by boss");
    }
}
