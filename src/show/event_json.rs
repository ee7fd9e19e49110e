//! Events of the journal as JSON documents for programs (`cevents`).
//!
//! Owns the names of events and of their members, which never change because programs store them.
//! Journal data that only daemons need is not an event here. Never reads a journal.

use super::cell::Object;
use super::event::{job_of, time_of};
use crate::model::{AttemptId, Share, Spec, Stamp, TermReason};
use crate::record::event::{Event, SignalAct, Submitted};
use crate::record::report::Ended;
use crate::record::request::{HostAct, QueueAct};
use std::collections::HashMap;

/// A position in the journal in the form that programs store: `EPOCH.SEGMENT.RECORD`. Later events
/// have higher positions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct JournalPosition {
    pub epoch: u64,
    pub segment: u64,
    pub record: u64,
}

impl JournalPosition {
    /// # Errors
    /// The text has another form.
    pub(crate) fn parse(text: &str) -> Result<JournalPosition, String> {
        let wrong = || format!("'{text}' is not a position: write EPOCH.SEGMENT.RECORD, or 0");
        if text == "0" {
            return Ok(JournalPosition::default());
        }
        let digits = |part: &str| {
            let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| part.parse::<u64>().ok()).flatten()
        };
        let parts: Vec<Option<u64>> = text.split('.').map(digits).collect();
        match parts.as_slice() {
            [Some(epoch), Some(segment), Some(record)] => Ok(JournalPosition {
                epoch: *epoch,
                segment: *segment,
                record: *record,
            }),
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for JournalPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.epoch, self.segment, self.record)
    }
}

/// The owner of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub uid: u32,
    pub user: String,
    pub queue: String,
    pub project: String,
    pub app: String,
}

/// Formats documents; keeps the data to which later events refer, as long as a known job needs it.
pub(crate) struct Documents {
    /// Owners by number of the specification, and the number of jobs with it.
    specs: HashMap<u32, (Owner, u32)>,
    /// The specification of each known job.
    jobs: HashMap<u32, u32>,
    signal: fn(i32) -> String,
}

impl Documents {
    /// `signal` returns the name of a signal of this system.
    pub(crate) fn new(signal: fn(i32) -> String) -> Documents {
        Documents {
            specs: HashMap::new(),
            jobs: HashMap::new(),
            signal,
        }
    }

    /// Stores the data to which later events refer.
    pub(crate) fn note(&mut self, event: &Event) {
        match event {
            Event::Spec { id, spec } => {
                let Spec {
                    uid,
                    user,
                    queue,
                    project,
                    app,
                    ..
                } = spec.as_ref();
                let owner = Owner {
                    uid: *uid,
                    user: user.clone(),
                    queue: queue.clone(),
                    project: project.clone(),
                    app: app.clone(),
                };
                self.specs.entry(*id).or_insert((owner, 0));
            }
            Event::Submitted(s) => self.add_reference(s.id, s.s),
            Event::Changed { j, s, .. } => self.add_reference(j.id, *s),
            _ => {}
        }
    }

    fn add_reference(&mut self, job: u32, spec: u32) {
        if let Some((_, jobs)) = self.specs.get_mut(&spec) {
            *jobs += 1;
        }
        if let Some(old) = self.jobs.insert(job, spec) {
            self.release(old);
        }
    }

    /// Releases a specification; without jobs it is dropped, as by the leader, which records it
    /// again before another job gets it.
    fn release(&mut self, spec: u32) {
        if let Some((_, jobs)) = self.specs.get_mut(&spec) {
            *jobs = jobs.saturating_sub(1);
            if *jobs == 0 {
                self.specs.remove(&spec);
            }
        }
    }

    /// Drops data to which no later event refers.
    pub(crate) fn forget(&mut self, event: &Event) {
        if let Event::Cleaned { ids, .. } = event {
            for id in ids {
                if let Some(spec) = self.jobs.remove(id) {
                    self.release(spec);
                }
            }
        }
    }

    /// The owner of a job, as far as the kept events tell.
    pub(crate) fn owner(&self, id: u32) -> Option<&Owner> {
        let (owner, _) = self.specs.get(self.jobs.get(&id)?)?;
        Some(owner)
    }

    /// The document of an event, as a line without a newline; `None`: not an event for programs.
    pub(crate) fn of(&self, position: JournalPosition, event: &Event) -> Option<String> {
        let name = name_of(event)?;
        let mut out = String::with_capacity(256);
        let mut o = Object::begin(&mut out);
        o.text("position", &position.to_string());
        o.opt("time_ms", time_of(event).map(|t| t.0));
        o.text("event", name);
        if let Some(j) = job_of(event) {
            o.int("job_id", j.id);
            o.int("index", j.idx);
            let owner = self.owner(j.id);
            let of = |part: fn(&Owner) -> &String| owner.map_or("", |owner| part(owner));
            o.some_text("user", of(|owner| &owner.user));
            o.some_text("queue", of(|owner| &owner.queue));
            o.some_text("project", of(|owner| &owner.project));
            o.some_text("app", of(|owner| &owner.app));
        }
        if let Some(a) = attempt_of(event) {
            o.int("attempt", a.at);
        }
        match event {
            Event::Submitted(s) => submitted(&mut o, s),
            Event::Ended { e, requeue, .. } => ended(&mut o, e, *requeue),
            _ => self.members(&mut o, event),
        }
        o.end();
        Some(out)
    }

    fn members(&self, o: &mut Object<'_>, event: &Event) {
        match event {
            Event::Dispatched { hosts: all, .. } | Event::Resized { hosts: all, .. } => {
                hosts(o, all);
            }
            Event::Started { pid, .. } => o.int("pid", *pid),
            Event::Unbound { why, host, .. } => {
                o.some_text("host", host);
                o.some_text("why", why);
            }
            Event::Signalled { act, by, .. } => {
                o.text("act", &self.act(*act));
                o.text("by", by);
            }
            Event::Halted { why, .. } => o.text("why", &why.to_string()),
            Event::Warned { at, .. } => o.int("at_ms", at.0),
            Event::Cancelled { by, reason, .. } => {
                o.text("by", by);
                o.some_text("term_reason", reason.word());
            }
            Event::Held { by, .. } | Event::Moved { by, .. } | Event::Requeued { by, .. } => {
                o.text("by", by);
            }
            Event::Posted { message, .. } => {
                o.text("by", &message.by);
                o.int("message_index", message.index);
                o.text("text", &message.text);
            }
            Event::Checkpointed { why, .. } => o.some_text("why", why),
            Event::Changed { by, what, .. } => {
                o.text("by", by);
                o.text("options", what);
            }
            Event::Renamed {
                name, command, by, ..
            } => {
                o.text("by", by);
                o.some_text("job_name", name.as_deref().unwrap_or_default());
                o.some_text("command", command.as_deref().unwrap_or_default());
            }
            Event::Why { why, .. } => {
                o.int("reason_code", why.code());
                o.text("reason", &why.to_string());
            }
            other => of_cluster(o, other),
        }
    }

    fn act(&self, act: SignalAct) -> String {
        match act {
            SignalAct::Kill(_) => "kill".into(),
            SignalAct::Migrate { .. }
            | SignalAct::Requeue {
                why: TermReason::Migrate,
                ..
            } => "migrate".into(),
            SignalAct::Requeue { .. } => "requeue".into(),
            SignalAct::Stop => "stop".into(),
            SignalAct::Resume => "resume".into(),
            SignalAct::Number(n) => (self.signal)(n),
            SignalAct::Checkpoint { .. } => "checkpoint".into(),
        }
    }
}

/// A document that reports that a part of the journal is missing.
pub(crate) fn trouble(event: &str, text: &str) -> String {
    let mut out = String::new();
    let mut o = Object::begin(&mut out);
    o.null("position");
    o.null("time_ms");
    o.text("event", event);
    o.text("text", text);
    o.end();
    out
}

/// The names of all events, for the option that selects events.
pub(crate) const NAMES: &[&str] = &[
    "submitted",
    "dispatched",
    "dispatch_undone",
    "started",
    "resized",
    "ended",
    "signalled",
    "suspended",
    "resumed",
    "halted",
    "unhalted",
    "warned",
    "cancelled",
    "held",
    "released",
    "checkpointed",
    "requeued",
    "changed",
    "renamed",
    "moved",
    "posted",
    "pending_reason",
    "removed",
    "leader",
    "configuration",
    "queue_opened",
    "queue_closed",
    "queue_activated",
    "queue_inactivated",
    "host_opened",
    "host_closed",
    "host_locked",
    "host_unlocked",
    "host_up",
    "host_down",
    "share_set_back",
    "share_confirmed",
    "cron_defined",
    "cron_enabled",
    "cron_disabled",
    "cron_removed",
    "cron_skipped",
    "job_group_defined",
    "job_group_removed",
    "alert_silenced",
];

/// The name of an event; `None`: not an event for programs.
pub(crate) fn name_of(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::Submitted(_) => "submitted",
        Event::Dispatched { .. } => "dispatched",
        Event::Unbound { .. } => "dispatch_undone",
        Event::Started { .. } => "started",
        Event::Resized { .. } => "resized",
        Event::Ended { .. } => "ended",
        Event::Signalled { .. } => "signalled",
        Event::Suspended { on: true, .. } => "suspended",
        Event::Suspended { on: false, .. } => "resumed",
        Event::Halted { .. } => "halted",
        Event::Unhalted { .. } => "unhalted",
        Event::Warned { .. } => "warned",
        Event::Cancelled { .. } => "cancelled",
        Event::Held { held: true, .. } => "held",
        Event::Held { held: false, .. } => "released",
        Event::Checkpointed { .. } => "checkpointed",
        Event::Requeued { .. } => "requeued",
        Event::Changed { .. } => "changed",
        Event::Renamed { .. } => "renamed",
        Event::Moved { .. } => "moved",
        Event::Posted { .. } => "posted",
        Event::Why { .. } => "pending_reason",
        Event::Cleaned { .. } => "removed",
        Event::Epoch { .. } => "leader",
        Event::Config { .. } => "configuration",
        Event::Queue { act, .. } => match act {
            QueueAct::Open => "queue_opened",
            QueueAct::Close => "queue_closed",
            QueueAct::Activate => "queue_activated",
            QueueAct::Inactivate => "queue_inactivated",
        },
        Event::Host { act, .. } => match act {
            HostAct::Open => "host_opened",
            HostAct::Close => "host_closed",
            HostAct::Lock { .. } => "host_locked",
            HostAct::Unlock => "host_unlocked",
        },
        Event::HostSeen { up: true, .. } => "host_up",
        Event::HostSeen { up: false, .. } => "host_down",
        Event::WentBack { .. } => "share_set_back",
        Event::Restored { .. } => "share_confirmed",
        Event::CronDefined { .. } => "cron_defined",
        Event::CronSwitched { on: true, .. } => "cron_enabled",
        Event::CronSwitched { on: false, .. } => "cron_disabled",
        Event::CronRemoved { .. } => "cron_removed",
        Event::CronSkipped { .. } => "cron_skipped",
        Event::JobGroupDefined { .. } => "job_group_defined",
        Event::JobGroupRemoved { .. } => "job_group_removed",
        Event::AlertSilenced { .. } => "alert_silenced",
        Event::Seal { .. }
        | Event::Spec { .. }
        | Event::Handled { .. }
        | Event::PartHandled { .. }
        | Event::Gathered { .. }
        | Event::PartBound { .. }
        | Event::PartUsed { .. }
        | Event::Used { .. }
        | Event::Shares { .. }
        | Event::HostLedger { .. }
        | Event::HostReports { .. } => return None,
    })
}

fn attempt_of(event: &Event) -> Option<AttemptId> {
    match event {
        Event::Dispatched { a, .. }
        | Event::Resized { a, .. }
        | Event::Started { a, .. }
        | Event::Unbound { a, .. }
        | Event::Suspended { a, .. }
        | Event::Checkpointed { a, .. } => Some(*a),
        Event::Ended { e, .. } => Some(e.a),
        _ => None,
    }
}

fn submitted(o: &mut Object<'_>, s: &Submitted) {
    o.some_text("job_name", &s.name);
    o.text("command", &s.command);
    o.some_text("array", &s.array);
    o.flag("held", s.hold);
    o.some_text("cron_job", s.cron.as_ref().map_or("", |run| &run.name));
}

fn ended(o: &mut Object<'_>, e: &Ended, requeue: bool) {
    o.flag("requeued", requeue);
    o.opt("exit_code", e.code.filter(|_| e.sig == 0));
    o.opt("signal", Some(e.sig).filter(|sig| *sig != 0));
    o.some_text("term_reason", e.reason.word());
    o.opt("start_ms", Some(e.start).filter(|start| *start != 0));
    o.int("end_ms", e.t);
    o.int("cpu_ms", e.u.cpu_ms);
    o.int("max_mem_kb", e.u.maxmem_kb);
    o.int("max_swap_kb", e.u.maxswap_kb);
    let devices = e.u.devices();
    o.int("max_gpu_mem_mb", devices.max_gpu_mem_mb);
    o.int("gpu_ms", devices.gpu_ms);
    o.int("net_in_kb", devices.net_in_kb);
    o.int("net_out_kb", devices.net_out_kb);
    o.some_text("text", &e.text);
}

fn hosts(o: &mut Object<'_>, all: &[Share]) {
    let out = o.key("hosts");
    out.push('[');
    for (n, Share(host, slots)) in all.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        let mut inner = Object::begin(out);
        inner.text("host", host);
        inner.int("slots", *slots);
        inner.end();
    }
    out.push(']');
}

/// The members of an event that does not concern a job.
fn of_cluster(o: &mut Object<'_>, event: &Event) {
    match event {
        Event::Epoch {
            epoch, host, pid, ..
        } => {
            o.int("epoch", *epoch);
            o.text("host", host);
            o.int("pid", *pid);
        }
        Event::Config { digest, .. } => o.text("digest", digest),
        Event::Queue {
            name, by, comment, ..
        } => commented(o, "queue", name, (by, comment)),
        Event::Host { .. } => of_host_order(o, event),
        Event::HostSeen { name, .. } => o.text("host", name),
        Event::WentBack { epoch, host, .. } => {
            o.int("epoch", *epoch);
            o.text("host", host);
        }
        Event::Restored { by, .. } => o.text("by", by),
        Event::Cleaned { ids, .. } => {
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            o.key("job_ids").push_str(&format!("[{}]", ids.join(",")));
        }
        Event::CronDefined { user, def, by, .. } => {
            o.text("cron_job", &def.name);
            o.text("user", user);
            o.text("by", by);
        }
        Event::CronSwitched { name, by, .. } | Event::CronRemoved { name, by, .. } => {
            o.text("cron_job", name);
            o.text("by", by);
        }
        Event::CronSkipped {
            name, due, n, text, ..
        } => {
            let Stamp(due) = *due;
            o.text("cron_job", name);
            o.int("due_ms", due);
            o.int("times", *n);
            o.some_text("text", text);
        }
        Event::JobGroupDefined { group, by } => {
            o.text("job_group", &group.name);
            o.text("user", &group.user);
            o.opt("limit", group.limit);
            o.text("by", by);
        }
        Event::JobGroupRemoved { name, by, .. } => {
            o.text("job_group", name);
            o.text("by", by);
        }
        Event::AlertSilenced {
            name,
            until,
            by,
            why,
            ..
        } => {
            let Stamp(until) = *until;
            o.text("alert", name);
            o.int("until_ms", until);
            o.text("by", by);
            o.some_text("text", why);
        }
        _ => {}
    }
}

fn of_host_order(o: &mut Object<'_>, event: &Event) {
    if let Event::Host {
        name,
        act,
        by,
        comment,
        ..
    } = event
    {
        commented(o, "host", name, (by, comment));
        if let HostAct::Lock { for_s: s @ 1.. } = act {
            o.int("for_s", *s);
        }
    }
}

fn commented(o: &mut Object<'_>, kind: &str, name: &str, (by, comment): (&str, &str)) {
    o.text(kind, name);
    o.text("by", by);
    o.some_text("comment", comment);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobKey, PendReason, TermReason};
    use crate::record::report::Usage;

    fn spec(id: u32, user: &str) -> Event {
        let spec = Box::new(Spec {
            uid: 1001,
            user: user.into(),
            queue: "night".into(),
            ..Spec::default()
        });
        Event::Spec { id, spec }
    }

    fn submitted(id: u32, s: u32) -> Event {
        let submitted = Submitted {
            id,
            s,
            t: Stamp(5),
            command: "echo \"x\"\n".into(),
            ..Submitted::default()
        };
        Event::Submitted(Box::new(submitted))
    }

    fn line(docs: &mut Documents, event: &Event) -> Option<serde_json::Value> {
        docs.note(event);
        let position = JournalPosition {
            epoch: 7,
            segment: 1,
            record: 3,
        };
        let text = docs.of(position, event);
        text.map(|text| serde_json::from_str(&text).expect("JSON"))
    }

    #[test]
    fn a_lock_says_for_how_long() {
        let mut docs = Documents::new(|n| format!("S{n}"));
        let mut of = |act| {
            let (name, by, comment) = ("h1".into(), "boss".into(), String::new());
            let t = Stamp(1);
            let event = Event::Host {
                name,
                act,
                by,
                comment,
                t,
            };
            let doc = line(&mut docs, &event).unwrap();
            ["event", "host", "by", "for_s"].map(|name| doc[name].to_string())
        };
        let timed = of(HostAct::Lock { for_s: 60 });
        assert_eq!(timed, ["\"host_locked\"", "\"h1\"", "\"boss\"", "60"]);
        assert_eq!(of(HostAct::Lock { for_s: 0 })[3], "null");
        assert_eq!(of(HostAct::Unlock)[0], "\"host_unlocked\"");
    }

    #[test]
    fn a_job_is_followed_by_user_and_queue() {
        let mut docs = Documents::new(|n| format!("S{n}"));
        assert_eq!(line(&mut docs, &spec(2, "ada")), None);
        let doc = line(&mut docs, &submitted(12, 2)).unwrap();
        let of = |doc: &serde_json::Value, names: [&str; 4]| names.map(|n| doc[n].to_string());
        assert_eq!(
            of(&doc, ["position", "event", "user", "command"]),
            [
                "\"7.1.3\"",
                "\"submitted\"",
                "\"ada\"",
                "\"echo \\\"x\\\"\\n\""
            ]
        );
        let a = AttemptId {
            j: JobKey::job(12),
            at: 2,
        };
        let e = Ended {
            a,
            start: 10,
            t: 20,
            sig: 9,
            reason: TermReason::MemLimit,
            u: Usage {
                cpu_ms: 7,
                ..Usage::default()
            },
            ..Ended::default()
        };
        let (e, requeue, hold) = (Box::new(e), true, false);
        let doc = line(&mut docs, &Event::Ended { e, requeue, hold }).unwrap();
        assert_eq!(
            of(&doc, ["attempt", "exit_code", "signal", "cpu_ms"]),
            ["2", "null", "9", "7"]
        );
        assert_eq!(
            (&doc["requeued"], &doc["queue"]),
            (&true.into(), &"night".into())
        );
        // A changed job has the owner and queue of its new specification; a removed job has none.
        line(&mut docs, &spec(3, "eve"));
        let changed = Event::Changed {
            j: JobKey::job(12),
            s: 3,
            by: "root".into(),
            what: "-q".into(),
            t: Stamp(9),
        };
        assert_eq!(line(&mut docs, &changed).unwrap()["user"], "eve");
        let cleaned = Event::Cleaned {
            ids: vec![12],
            t: Stamp(30),
        };
        assert_eq!(line(&mut docs, &cleaned).unwrap()["job_ids"][0], 12);
        docs.forget(&cleaned);
        let why = Event::Why {
            j: JobKey::job(12),
            why: PendReason::NoLeader,
            t: Stamp(40),
        };
        assert!(line(&mut docs, &why).unwrap()["user"].is_null());
    }

    #[test]
    fn what_no_job_refers_to_is_forgotten() {
        let mut docs = Documents::new(|n| format!("S{n}"));
        for id in 1..=1000 {
            docs.note(&spec(id, "ada"));
            docs.note(&submitted(id, id));
            docs.note(&submitted(id + 5000, id));
            let ids = vec![id];
            docs.forget(&Event::Cleaned { ids, t: Stamp(9) });
            assert_eq!(docs.owner(id), None);
            assert_eq!(docs.owner(id + 5000).unwrap().user, "ada");
            let ids = vec![id + 5000];
            docs.forget(&Event::Cleaned { ids, t: Stamp(9) });
        }
        assert_eq!((docs.specs.len(), docs.jobs.len()), (0, 0));
    }

    #[test]
    fn positions_are_read_back_and_ordered() {
        let position = JournalPosition::parse("12.3.400").unwrap();
        assert_eq!(JournalPosition::parse(&position.to_string()), Ok(position));
        assert!(
            JournalPosition::parse("12.3.399").unwrap() < position
                && JournalPosition::parse("0").unwrap() < position
        );
        for wrong in ["", "1", "1.2", "1.2.3.4", "1.x.3", "-1.2.3", "1..3"] {
            assert!(JournalPosition::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_name_can_be_selected() {
        let t = Stamp(1);
        let (name, by, comment) = ("q".to_owned(), "root".to_owned(), String::new());
        let act = QueueAct::Inactivate;
        let event = Event::Queue {
            name,
            act,
            by,
            comment,
            t,
        };
        assert!(NAMES.contains(&name_of(&event).unwrap()));
        let mut sorted = NAMES.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), NAMES.len());
    }
}
