//! Cron jobs in a turn: what falls due is submitted, or why not is recorded; and what users ask for
//! about cron jobs.
//!
//! A due time is handled by one event: the submission that names it, or the record that nothing
//! was submitted. A leader that dies before that event is durable has done nothing, one that dies
//! after it has done all, so a due time leads to at most one job over all leaders. Times up to the
//! last handled one never fall due again, whatever the clock says.

use super::answer::Answer;
use super::context::Turn;
use super::core::Core;
use super::job_verb::WorkCounts;
use super::pack::attachments;
use super::request_queue::{CHANGE, SUBMIT};
use crate::intake::{self, Action, NameRoom, Over, Owner, Refusal, Requester};
use crate::model::{JobKey, Mono, Stamp, Token};
use crate::record::ack::{Code, IdRun};
use crate::record::cron::{
    CronDef, CronJob, CronRun, CronWhat, DEADLINE_MAX_S, HISTORY_MAX, NAME_MAX, Overlap, RUNS_MAX,
};
use crate::record::event::Event;
use crate::record::request::{CronAct, CronPut, RequestHead, SignalHow};
use crate::state::CronKey;
use crate::text::count::count;
use crate::text::cron::{Schedule, Zone};
use crate::text::error::did_you_mean;
use crate::text::names;
use std::collections::{BTreeMap, BTreeSet};

/// Most cron jobs of one user and of all.
const USER_MAX: usize = 200;
const ALL_MAX: usize = 5_000;
/// Most cron jobs that fall due in one turn; the others do in the next.
const DUE_MAX: usize = 50;
/// A new leader waits for the first comparison of its clock with those of the hosts before anything
/// falls due, but no longer than this, in milliseconds: there may be no host.
const CLOCK_WAIT_MS: u64 = 10_000;

/// What this leader has worked out of the calendar.
#[derive(Default)]
pub(super) struct Agenda {
    calendars: BTreeMap<CronKey, (Schedule, Zone)>,
    next: BTreeMap<CronKey, Stamp>,
    due: BTreeSet<(Stamp, CronKey)>,
    /// When this leader's first turn was.
    since: Option<Mono>,
}

impl Agenda {
    /// The next due time.
    pub(super) fn first(&self) -> Option<Stamp> {
        self.due.first().map(|(at, _)| *at)
    }

    fn forget(&mut self, key: &CronKey) {
        self.calendars.remove(key);
        if let Some(at) = self.next.remove(key) {
            self.due.remove(&(at, key.clone()));
        }
    }

    /// Works out when a cron job falls due next. Why not, when its definition cannot be read.
    fn plan(&mut self, key: CronKey, cron: &CronJob) -> Result<(), String> {
        self.forget(&key);
        let schedule = Schedule::parse(&cron.def.schedule).map_err(|e| e.message)?;
        let zone = Zone::named(&cron.def.zone)?;
        if let Some(at) = schedule.next_after(cron.handled, &zone) {
            self.next.insert(key.clone(), at);
            self.due.insert((at, key.clone()));
        }
        self.calendars.insert(key, (schedule, zone));
        Ok(())
    }
}

impl Core {
    /// The clock of this leader was compared with those of hosts, or there are none to compare
    /// with.
    pub(super) fn clock_is_known(&self, now: Mono) -> bool {
        let since = self.memory.agenda.since;
        let waited = since.is_some_and(|at| now.since_ms(at) >= CLOCK_WAIT_MS);
        waited || self.clock.was_compared()
    }

    /// In how many milliseconds a cron job falls due; `None`: never, or something else comes
    /// before.
    pub(super) fn cron_due_ms(&self, wall: Stamp, mono: Mono) -> Option<u64> {
        let first = self.memory.agenda.first()?;
        if self.inputs.share_full {
            return None;
        }
        let wait = match (self.clock_is_known(mono), self.memory.agenda.since) {
            (true, _) | (_, None) => 0,
            (false, Some(at)) => CLOCK_WAIT_MS.saturating_sub(mono.since_ms(at)),
        };
        Some(first.since_ms(wall).max(wait))
    }
}

impl Turn<'_> {
    /// Submits what is due.
    pub(super) fn fire_due_crons(&mut self) {
        let mono = self.mono;
        self.core.memory.agenda.since.get_or_insert(mono);
        self.plan_changed_crons();
        if self.core.inputs.share_full || !self.core.clock_is_known(mono) {
            return;
        }
        let now = self.now;
        let agenda = &self.core.memory.agenda;
        let due = agenda.due.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<CronKey> = due.take(DUE_MAX).map(|(_, key)| key.clone()).collect();
        self.out.more |= due.len() == DUE_MAX;
        for key in &due {
            self.fall_due(key);
        }
        self.plan_changed_crons();
    }

    /// Works out the next due times of what was changed or handled.
    fn plan_changed_crons(&mut self) {
        let changed = self.core.state.take_changed_crons();
        self.out.publish |= !changed.is_empty();
        for key in changed {
            let core = &mut *self.core;
            let agenda = &mut core.memory.agenda;
            let Some(cron) = core.state.cron(&key).filter(|cron| !cron.def.disabled) else {
                agenda.forget(&key);
                continue;
            };
            if let Err(why) = agenda.plan(key.clone(), cron) {
                // Of a leader that knew more: it stays as it is, for the next one that does.
                tracing::warn!("cron job {} of {}: {why}: not scheduled", key.1, cron.user);
            }
        }
    }

    /// Handles the due times of one cron job up to now.
    fn fall_due(&mut self, key: &CronKey) {
        let (core, now) = (&*self.core, self.now);
        let calendar = core.memory.agenda.calendars.get(key);
        let (Some(cron), Some((schedule, zone))) = (core.state.cron(key), calendar) else {
            return;
        };
        let Some(due) = schedule.due(cron.handled, now, zone) else {
            return;
        };
        let late_s = now.since_ms(due.newest) / 1000;
        let late = cron.def.deadline_s.is_some_and(|most| late_s > most);
        let many = if due.many() { "at least " } else { "" };
        if late {
            let text = format!(
                "{many}{}: too late to start",
                count(due.count as usize, "due time")
            );
            return self.skip(key, (due.newest, due.count), CronWhat::Missed, text);
        }
        let run = CronRun {
            uid: key.0,
            name: key.1.clone(),
            due: due.newest,
            missed: due.count - 1,
        };
        let start_by = cron.def.deadline_s.map(|s| plus_s(due.newest, s));
        if let Err((what, text)) = self.start_run(key, run, start_by, Token(0)) {
            self.skip(key, (due.newest, due.count), what, text);
        }
    }

    fn skip(&mut self, key: &CronKey, (due, n): (Stamp, u32), why: CronWhat, text: String) {
        let ((uid, name), t) = (key.clone(), self.now);
        self.emit(Event::CronSkipped {
            uid,
            name,
            due,
            n,
            why,
            text,
            t,
        });
    }

    /// Submits a run, or says why not. `start_by`: when it is dropped if it was not started.
    fn start_run(
        &mut self,
        key: &CronKey,
        run: CronRun,
        start_by: Option<Stamp>,
        token: Token,
    ) -> Result<IdRun, (CronWhat, String)> {
        let core = &*self.core;
        let Some(cron) = core.state.cron(key) else {
            return Err((CronWhat::Refused, "no such cron job".to_owned()));
        };
        let (live, most) = (cron.running.len(), most_runs(&cron.def));
        let replaces = cron.def.overlap == Overlap::Replace;
        if live >= most && !replaces {
            let text = format!(
                "{} not ended: {}",
                count(live, "earlier run"),
                overlap_text(&cron.def)
            );
            return Err((CronWhat::Overlapped, text));
        }
        let owner = self.cron_owner(cron);
        let mut job = cron.def.job.clone();
        job.spec.start_by = start_by;
        if job.name.is_empty() {
            job.name.clone_from(&cron.def.name);
        }
        let (config, state) = (&core.config, &core.state);
        let mut room = NameRoom::default();
        let refused = |refusal: Refusal| (CronWhat::Refused, refusal.text);
        let admitted = intake::admit(job, &owner, config, state, self.now, &mut room);
        let admitted = admitted.map_err(refused)?;
        if replaces {
            self.end_runs(&owner, key);
        }
        let made = self.accept_run(admitted, token, 0, Some(Box::new(run)));
        let (id, queue, default) = made.map_err(|why| (CronWhat::Refused, why.to_owned()))?;
        self.core.pass.needed = true;
        Ok(IdRun {
            line: 0,
            id,
            n: 1,
            queue,
            default,
            known: false,
            t: self.now.0,
        })
    }

    /// Ends the runs of a cron job; gives how many there were.
    fn end_runs(&mut self, who: &Requester, key: &CronKey) -> usize {
        let cron = self.core.state.cron(key);
        let ids: Vec<u32> = cron.map_or(Vec::new(), |c| c.running.keys().copied().collect());
        for id in &ids {
            let mut counts = WorkCounts::default();
            self.signal_work(who, JobKey::job(*id), SignalHow::Kill, &mut counts);
        }
        self.core.pass.needed |= !ids.is_empty();
        ids.len()
    }

    fn cron_owner(&self, cron: &CronJob) -> Requester {
        Requester {
            uid: cron.uid,
            user: cron.user.clone(),
            groups: self.core.groups_of(&cron.user).to_vec(),
        }
    }

    /// Carries out `ccron create` and `ccron edit`. `others`: accounts of users that are named.
    pub(super) fn put_cron(
        &mut self,
        (who, others): (&Requester, &[Requester]),
        head: &RequestHead,
        put: CronPut,
        answer: &mut Answer,
    ) {
        self.spend(SUBMIT);
        let name = put.def.name.clone();
        match self.define_cron(who, others, head, put) {
            Ok(text) => answer.say(name, Code::Ok, text),
            Err(refusal) => answer.refuse(name, refusal),
        }
    }

    fn define_cron(
        &mut self,
        who: &Requester,
        others: &[Requester],
        head: &RequestHead,
        mut put: CronPut,
    ) -> Result<String, Refusal> {
        let owner = match put.user.as_str() {
            "" => who,
            name if name == who.user => who,
            name => {
                if !self.may(who, Action::CronAs, Over::Cluster) {
                    return Err(Refusal::permission(
                        "permission denied: only root and the account that owns the share may \
                         name another user, whose programs it runs",
                    ));
                }
                let found = others.iter().find(|other| other.user == name);
                found.ok_or_else(|| Refusal::not_found(format!("user: no user {name:?} here")))?
            }
        };
        check_def(&put.def)?;
        let key = (owner.uid, put.def.name.clone());
        let state = &self.core.state;
        match (state.cron(&key).is_some(), put.replace, put.create) {
            (true, false, _) => {
                return Err(Refusal::refused(
                    "a cron job of this name exists: use --overwrite, or ccron edit",
                ));
            }
            (false, _, false) => return Err(self.no_such_cron(owner.uid, &key.1)),
            (true, ..) => {}
            (false, ..) if state.cron_count() >= ALL_MAX => {
                return Err(Refusal::refused(format!(
                    "the cluster's limit of {ALL_MAX} cron jobs is reached"
                )));
            }
            (false, ..) if state.crons_of(owner.uid).count() >= USER_MAX => {
                return Err(Refusal::refused(format!(
                    "user {}'s limit of {USER_MAX} cron jobs is reached",
                    owner.user
                )));
            }
            (false, ..) => {}
        }
        self.core.note_groups(&owner.user, &owner.groups);
        let mut room = NameRoom::default();
        let core = &*self.core;
        let trial = put.def.job.clone();
        if trial.hold || !trial.array.is_empty() || trial.spec.session.is_some() {
            return Err(Refusal::usage(
                "a cron job's job cannot be an array, interactive or held",
            ));
        }
        // What the cluster would refuse today is refused now; the same is checked at each due time.
        intake::admit(trial, owner, &core.config, &core.state, self.now, &mut room)?;
        let attached = attachments(head, &mut self.out.blobs).map_err(Refusal::usage)?;
        attached.attach(&mut put.def.job.spec);
        let (verb, uid, user) = (
            if put.create {
                "is created"
            } else {
                "is changed"
            },
            owner.uid,
            owner.user.clone(),
        );
        let (by, t) = (who.user.clone(), self.now);
        self.emit(Event::CronDefined {
            uid,
            user,
            def: Box::new(put.def),
            by,
            t,
        });
        Ok(verb.to_owned())
    }

    fn no_such_cron(&self, uid: u32, name: &str) -> Refusal {
        let known = self.core.state.crons_of(uid);
        let near = did_you_mean(name, known.map(|cron| cron.def.name.as_str()));
        Refusal::not_found(format!("no such cron job{near}"))
    }

    /// Carries out what `ccron` asks about cron jobs that exist.
    pub(super) fn act_on_cron(
        &mut self,
        (who, token): (&Requester, Token),
        (name, user): (&str, &str),
        act: CronAct,
        answer: &mut Answer,
    ) {
        let state = &self.core.state;
        let uid = match user {
            "" => Some(who.uid),
            user if user == who.user => Some(who.uid),
            user => state.crons().find(|c| c.user == user).map(|c| c.uid),
        };
        let all = name == "all";
        let keys: Vec<CronKey> = match uid {
            None => Vec::new(),
            Some(uid) if all => state
                .crons_of(uid)
                .map(|cron| (uid, cron.def.name.clone()))
                .collect(),
            Some(uid) => vec![(uid, name.to_owned())],
        };
        if keys.is_empty() {
            return answer.say(name, Code::NotFound, "no cron job is found");
        }
        for key in keys {
            self.spend(CHANGE);
            match self.act_on_one(who, token, &key, act, answer) {
                Ok(text) => answer.say(&key.1, Code::Ok, text),
                Err(refusal) => answer.refuse(&key.1, refusal),
            }
        }
    }

    fn act_on_one(
        &mut self,
        who: &Requester,
        token: Token,
        key: &CronKey,
        act: CronAct,
        answer: &mut Answer,
    ) -> Result<String, Refusal> {
        let Some(cron) = self.core.state.cron(key) else {
            return Err(self.no_such_cron(key.0, &key.1));
        };
        let over = Owner {
            uid: cron.uid,
            user: &cron.user,
            groups: self.core.groups_of(&cron.user),
            queue: &cron.def.job.spec.queue,
        };
        if !self.may(who, Action::Cron, Over::Job(over)) {
            return Err(Refusal::permission("permission denied"));
        }
        let ((uid, name), by, t) = (key.clone(), who.user.clone(), self.now);
        Ok(match act {
            CronAct::Enable | CronAct::Disable => {
                let on = act == CronAct::Enable;
                if cron.def.disabled == on {
                    self.emit(Event::CronSwitched {
                        uid,
                        name,
                        on,
                        by,
                        t,
                    });
                }
                if on { "is enabled" } else { "is disabled" }.to_owned()
            }
            CronAct::Remove => {
                let live = cron.running.len();
                self.emit(Event::CronRemoved { uid, name, by, t });
                match live {
                    0 => "is removed".to_owned(),
                    n => format!("is removed; {} not ended", count(n, "run")),
                }
            }
            CronAct::Kill => match self.end_runs(who, key) {
                0 => return Err(Refusal::new(Code::NotFound, "no run of it is under way")),
                n => format!("{} being terminated", count(n, "run")),
            },
            CronAct::Start => {
                let run = CronRun {
                    uid,
                    name,
                    ..CronRun::default()
                };
                let start_by = cron.def.deadline_s.map(|s| plus_s(t, s));
                let made = self.start_run(key, run, start_by, token);
                let made = made.map_err(|(_, text)| Refusal::refused(text))?;
                let text = format!("job <{}> is submitted to queue <{}>", made.id, made.queue);
                answer.ack.ids.push(made);
                text
            }
        })
    }
}

/// Most runs at a time by the overlap policy.
fn most_runs(def: &CronDef) -> usize {
    match (def.overlap, def.max_runs) {
        (Overlap::Run, 0) => RUNS_MAX as usize,
        (Overlap::Run, n) => n as usize,
        (Overlap::Skip | Overlap::Replace, _) => 1,
    }
}

fn overlap_text(def: &CronDef) -> String {
    match def.overlap {
        Overlap::Run => format!("at most {} at a time", most_runs(def)),
        other => format!("Overlap is {}", other.word()),
    }
}

fn plus_s(t: Stamp, s: u64) -> Stamp {
    Stamp(t.0.saturating_add_unsigned(s.saturating_mul(1000)))
}

/// Checks a definition without its job: our commands send good ones, a forged request anything.
fn check_def(def: &CronDef) -> Result<(), Refusal> {
    if def.name.len() > NAME_MAX || def.name == "all" || names::check_name(&def.name).is_err() {
        return Err(Refusal::usage(format!(
            "name: give a word of at most {NAME_MAX} letters, digits and -_. other than 'all'"
        )));
    }
    let schedule = Schedule::parse(&def.schedule);
    let schedule = schedule.map_err(|e| Refusal::usage(format!("schedule: {}", e.message)))?;
    if schedule.to_string() != def.schedule {
        return Err(Refusal::usage(
            "schedule: write five fields with one blank between them",
        ));
    }
    Zone::named(&def.zone).map_err(|e| Refusal::usage(format!("timezone: {e}")))?;
    let wrong = |what: &str, most: u64| Err(Refusal::usage(format!("{what}: at most {most}")));
    if def.deadline_s.is_some_and(|s| s > DEADLINE_MAX_S) {
        return wrong("startdeadline (minutes)", DEADLINE_MAX_S / 60);
    }
    if def.max_runs > RUNS_MAX {
        return wrong("maxconcurrentruns", u64::from(RUNS_MAX));
    }
    if def.max_runs > 0 && def.overlap != Overlap::Run {
        return Err(Refusal::usage(
            "maxconcurrentruns: only with overlap: run; otherwise there is one run at a time",
        ));
    }
    if def.history > HISTORY_MAX {
        return wrong("historylimit", u64::from(HISTORY_MAX));
    }
    Ok(())
}
