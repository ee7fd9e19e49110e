//! Events of jobs whose users asked for notices: follows the journal from the position of the last
//! notifier.
//!
//! Keeps only those jobs. Their data comes from the published view, if they were submitted before
//! the kept journal begins, and otherwise from the journal.

use crate::alert::{self, JobFacts, JobNotice};
use crate::client::read::Source;
use crate::config::Notices;
use crate::journal::{Flow, History, HistoryEntry};
use crate::model::{JobKey, Share, Spec};
use crate::record::event::Event;
use crate::record::notices::{Delivery, NotifierState, Silence};
use crate::spool::view::{JobSet, ViewItem};
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of jobs that are followed; no notices are sent about further jobs.
const JOBS_MAX: usize = 500_000;

/// For this time (ms) after its event, a configuration may not be stored yet.
const RECENT_MS: i64 = 60_000;

/// Maximum number of reported problems of the journal.
const TROUBLES_MAX: usize = 100;

/// The context in which messages about jobs are created.
pub(super) struct JobMessage<'a> {
    pub cluster: &'a str,
    pub notices: &'a Notices,
    pub wall: i64,
}

pub(super) struct Jobs {
    history: History,
    /// A notifier has read up to the position from which this one continues: all events after it
    /// should be kept.
    continues: bool,
    /// Specifications that request notices, by their numbers.
    specs: BTreeMap<u32, Box<Spec>>,
    /// The first and last number read: a number between them that is not in `specs` requests no
    /// notices.
    read: Option<(u32, u32)>,
    jobs: HashMap<u32, JobFacts>,
    /// Hosts of current attempts.
    hosts: BTreeMap<JobKey, String>,
    zone: TimeZone,
}

/// What following the journal has led to.
#[derive(Default)]
pub(super) struct Followed {
    /// Problems of the journal, one sentence each.
    pub troubles: Vec<String>,
    /// The configuration that came into force at an event, by its digest: what comes after it is
    /// not read yet.
    pub configuration: Option<String>,
}

/// The record after which events are reported. `seen`: of the last notifier. `since`: messages were
/// switched on after this record.
pub(super) fn reported_after(
    seen: (u64, u64, u64),
    since: Option<(u64, u64, u64)>,
    epoch: u64,
) -> (u64, u64, u64) {
    match since {
        // What happened while they were off is not reported.
        Some(since) => seen.max(since),
        // The first notifier reports what happened under its leader.
        None if seen == (0, 0, 0) => (epoch, 0, 0),
        None => seen,
    }
}

impl Jobs {
    /// `state.seen`: events after it are reported. `continues`: a notifier has read up to it.
    pub(super) fn new(
        source: &Source,
        cluster: &str,
        state: &NotifierState,
        continues: bool,
    ) -> Jobs {
        let history = History::new(&source.layout, cluster).after(state.seen);
        let mut jobs = Jobs {
            history,
            continues,
            specs: BTreeMap::new(),
            read: None,
            jobs: HashMap::new(),
            hosts: BTreeMap::new(),
            zone: TimeZone::system(),
        };
        jobs.learn(source, Vec::new());
        jobs
    }

    /// Reads the data of these jobs from the published view; no `ids`: of all jobs.
    fn learn(&mut self, source: &Source, ids: Vec<(u32, u32)>) {
        let asks = |spec: &Spec| spec.mail.is_wanted();
        let want = JobSet {
            ids,
            finished: true,
            spec: Some(&asks),
            ..JobSet::default()
        };
        let read = source.view.stream(&want, &mut |piece| {
            let ViewItem::Job { row, spec, .. } = piece else {
                return;
            };
            if row.j.idx == 0 && self.jobs.len() < JOBS_MAX {
                let facts = facts(spec, &row.name, &row.command, row.submit);
                self.jobs.insert(row.j.id, facts);
            }
            if !row.hosts.is_empty() {
                self.hosts.insert(row.j, hosts_text(&row.hosts));
            }
        });
        if let Err(e) = read {
            tracing::warn!("{e}: no notices are sent about jobs that were submitted earlier");
        }
    }

    /// Reads new events of the journal, up to the next one that puts a configuration in force:
    /// messages about later events depend on it.
    pub(super) fn follow(
        &mut self,
        source: &Source,
        context: &JobMessage<'_>,
        state: &mut NotifierState,
    ) -> Followed {
        let mut history = self.history.clone();
        let mut followed = Followed::default();
        // The first read may return everything that is kept: no messages are created from it.
        let old = state.seen;
        let read = history.read_while(&mut |entry| match entry {
            HistoryEntry::Event { at, event } => {
                let is_new = at.record_before() > old;
                self.note(source, &event);
                if is_new {
                    self.create_messages(context, &event, state);
                    state.seen = at.record_before();
                }
                self.forget(&event);
                match event {
                    Event::Config { digest, t } if is_new && is_recent(t.0, context.wall) => {
                        followed.configuration = Some(digest);
                        Flow::Stop
                    }
                    _ => Flow::Continue,
                }
            }
            HistoryEntry::Problem(text) if followed.troubles.len() < TROUBLES_MAX => {
                followed.troubles.push(text);
                Flow::Continue
            }
            HistoryEntry::Problem(_) => Flow::Continue,
        });
        if let Err(e) = read {
            // The events are read again; `seen` prevents repeated messages.
            return Followed {
                troubles: vec![e.to_string()],
                configuration: None,
            };
        }
        if self.continues && !history.is_complete() {
            let text = "events since the last notifier are no longer kept: notices about some jobs \
                        are missing";
            followed.troubles.push(text.to_owned());
        }
        // Records to which only later ones refer were passed, too: the last event is not the end.
        state.seen = state.seen.max(history.last_read().unwrap_or_default());
        // All events from here on are new.
        (self.history, self.continues) = (history.after((0, 0, 0)), true);
        followed
    }

    /// Stores the data to which later events refer.
    fn note(&mut self, source: &Source, event: &Event) {
        match event {
            Event::Spec { id, spec } => {
                let (first, last) = self.read.unwrap_or((*id, *id));
                self.read = Some((first.min(*id), last.max(*id)));
                self.specs.remove(id);
                if spec.mail.is_wanted() {
                    self.specs.insert(*id, spec.clone());
                }
                if self.specs.len() > JOBS_MAX {
                    self.specs.pop_first();
                }
            }
            Event::Submitted(job) => match self.specs.get(&job.s) {
                Some(spec) if self.jobs.len() < JOBS_MAX => {
                    let facts = facts(spec, &job.name, &job.command, job.t.0);
                    self.jobs.insert(job.id, facts);
                }
                Some(_) => {}
                // The specification is older than the kept journal.
                None if !self.is_silent(job.s) && !self.jobs.contains_key(&job.id) => {
                    self.learn(source, vec![(job.id, job.id)]);
                }
                None => {}
            },
            Event::Changed { j, s, .. } if self.is_silent(*s) => _ = self.jobs.remove(&j.id),
            Event::Changed { j, s, .. } => match (self.specs.get(s), self.jobs.get_mut(&j.id)) {
                (Some(spec), Some(job)) => {
                    let now = facts(spec, &job.name, &job.command, job.submit);
                    let hosts = std::mem::take(&mut job.hosts);
                    *job = JobFacts { hosts, ..now };
                }
                _ => self.learn(source, vec![(j.id, j.id)]),
            },
            Event::Renamed {
                j, name, command, ..
            } => {
                if let Some(job) = self.jobs.get_mut(&j.id) {
                    job.name = name.clone().unwrap_or(std::mem::take(&mut job.name));
                    job.command = command.clone().unwrap_or(std::mem::take(&mut job.command));
                }
            }
            Event::Dispatched { a, hosts, .. } if self.jobs.contains_key(&a.j.id) => {
                self.hosts.insert(a.j, hosts_text(hosts));
            }
            _ => {}
        }
    }

    /// Whether the specification is known and requests no notices.
    fn is_silent(&self, s: u32) -> bool {
        let read = self
            .read
            .is_some_and(|(first, last)| (first..=last).contains(&s));
        read && !self.specs.contains_key(&s)
    }

    fn forget(&mut self, event: &Event) {
        match event {
            Event::Ended { e, .. } => _ = self.hosts.remove(&e.a.j),
            Event::Cleaned { ids, .. } => ids.iter().for_each(|id| _ = self.jobs.remove(id)),
            _ => {}
        }
    }

    /// Creates the messages for an event.
    fn create_messages(&self, context: &JobMessage<'_>, event: &Event, state: &mut NotifierState) {
        let (j, notice) = match event {
            Event::AlertSilenced {
                name,
                until,
                by,
                why,
                ..
            } => {
                let silence = Silence {
                    rule: name.clone(),
                    until: until.0,
                    by: by.clone(),
                    because: why.clone(),
                };
                return alert::silence(state, silence);
            }
            Event::Started { a, t, .. } => (a.j, JobNotice::Started { at: a.at, t: t.0 }),
            Event::Suspended { a, on: true, t } => (a.j, JobNotice::Suspended { at: a.at, t: t.0 }),
            // The job continues: no message.
            Event::Ended { requeue: true, .. } => return,
            Event::Ended { e, .. } => (e.a.j, JobNotice::Ended(e)),
            Event::Cancelled { j, by, t, .. } => (*j, JobNotice::Cancelled { by, t: t.0 }),
            _ => return,
        };
        let Some(job) = self.jobs.get(&j.id) else {
            return;
        };
        let hosts = self.hosts.get(&j).cloned().unwrap_or_default();
        let job = JobFacts {
            hosts,
            ..job.clone()
        };
        let time = (context.wall, &self.zone);
        if let Some(delivery) = alert::job_message(context.cluster, j, &job, &notice, time) {
            push(context, &delivery, &job, state);
        }
    }
}

/// Whether an event of this time is so recent that the configuration in force may be older.
fn is_recent(t: i64, wall: i64) -> bool {
    wall.saturating_sub(t) < RECENT_MS
}

/// Queues the message for the mail server, if there is one, and for all receivers with
/// `job_notices`.
fn push(context: &JobMessage<'_>, delivery: &Delivery, job: &JobFacts, state: &mut NotifierState) {
    let receivers = context
        .notices
        .receivers
        .iter()
        .filter(|(_, r)| r.job_notices);
    for (name, _) in receivers {
        let mut copy = delivery.clone();
        (copy.to, copy.user) = (name.clone(), String::new());
        alert::push(state, copy);
    }
    if let Some(mail) = &context.notices.mail {
        for copy in alert::copies(delivery, job) {
            alert::hold_or_send(state, copy, mail.hourly, context.wall);
        }
    }
}

fn facts(spec: &Spec, name: &str, command: &str, submit: i64) -> JobFacts {
    JobFacts {
        mail_request: spec.mail.clone(),
        user: spec.user.clone(),
        queue: spec.queue.clone(),
        project: spec.project.clone(),
        name: name.to_owned(),
        command: command.to_owned(),
        sub_host: spec.sub_host.clone(),
        cwd: spec.cwd.clone(),
        stdout: spec.stdout.clone(),
        submit,
        hosts: String::new(),
    }
}

fn hosts_text(hosts: &[Share]) -> String {
    let all: Vec<String> = hosts.iter().map(Share::to_string).collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_messages_begin() {
        let none = (0, 0, 0);
        assert_eq!(reported_after((3, 1, 9), None, 4), (3, 1, 9), "a takeover");
        assert_eq!(reported_after(none, None, 4), (4, 0, 0), "a new cluster");
        let since = Some((4, 2, 7));
        assert_eq!(reported_after(none, since, 4), (4, 2, 7), "switched on");
        assert_eq!(reported_after((3, 1, 9), since, 4), (4, 2, 7), "on again");
        assert_eq!(reported_after((4, 2, 8), since, 4), (4, 2, 8), "a restart");
    }
}
