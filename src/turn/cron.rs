//! Cron jobs in a turn: due jobs are submitted, or the reason why not is recorded; and requests of
//! users about cron jobs.
//!
//! A due time is handled by one event: the submission that names it, or the record that nothing was
//! submitted. A leader that dies before that event is durable has done nothing, a leader that dies
//! after it has done everything, so a due time leads to at most one run over all leaders. Times up
//! to the last handled one never fall due again, whatever the clock shows. In a pack, the
//! submission of the first job handles the due time; each further one contains its number, so that
//! a leader that finds a pack incomplete submits the rest of it, and nothing twice.

use super::answer::Answer;
use super::context::Turn;
use super::core::Core;
use super::job_verb::WorkCounts;
use super::pack::attachments;
use super::request_queue::{CHANGE, SUBMIT};
use crate::intake::{self, Action, ActionObject, Admitted, NameBudget, Owner, Refusal, Requester};
use crate::model::{JobKey, Mono, Stamp, Submission, TermReason, Token};
use crate::record::ack::{Code, IdRun};
use crate::record::cron::{
    CronDef, CronJob, CronResult, CronRun, DEADLINE_MAX_S, HISTORY_MAX, NAME_MAX, Overlap,
    PACK_MAX, PackRun, RUNS_MAX,
};
use crate::record::event::{Event, SignalAct};
use crate::record::request::{CronAct, CronPut, RequestHead, SignalAction};
use crate::state::CronKey;
use crate::text::count::count;
use crate::text::cron::{Schedule, Zone};
use crate::text::error::did_you_mean;
use crate::text::names;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of cron jobs of one user and of all users.
const USER_MAX: usize = 200;
const ALL_MAX: usize = 5_000;
/// Maximum number of cron jobs that fall due in one turn; the others follow in the next.
const DUE_MAX: usize = 50;
/// How long a new leader waits for the first comparison of its clock with those of the hosts before
/// anything falls due, in milliseconds; there may be no hosts.
const CLOCK_WAIT_MS: u64 = 10_000;

/// The due times that this leader has computed.
#[derive(Default)]
pub(super) struct CronTimetable {
    calendars: BTreeMap<CronKey, (Schedule, Zone)>,
    next: BTreeMap<CronKey, Stamp>,
    due: BTreeSet<(Stamp, CronKey)>,
    /// When this leader's first turn was.
    since: Option<Mono>,
}

impl CronTimetable {
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

    /// Computes when a cron job falls due next. Returns why not if its definition cannot be read.
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
    /// Whether the clock of this leader was compared with those of hosts, or there are none.
    pub(super) fn clock_is_known(&self, now: Mono) -> bool {
        let since = self.memory.timetable.since;
        let waited = since.is_some_and(|at| now.since_ms(at) >= CLOCK_WAIT_MS);
        waited || self.clock.was_compared()
    }

    /// In how many milliseconds a cron job falls due; `None`: never, or something else must happen
    /// first.
    pub(super) fn cron_due_ms(&self, wall: Stamp, mono: Mono) -> Option<u64> {
        let first = self.memory.timetable.first()?;
        if self.inputs.share_full {
            return None;
        }
        let wait = match (self.clock_is_known(mono), self.memory.timetable.since) {
            (true, _) | (_, None) => 0,
            (false, Some(at)) => CLOCK_WAIT_MS.saturating_sub(mono.since_ms(at)),
        };
        Some(first.since_ms(wall).max(wait))
    }
}

impl Turn<'_> {
    /// Submits the runs that are due.
    pub(super) fn fire_due_crons(&mut self) {
        let mono = self.mono;
        self.core.memory.timetable.since.get_or_insert(mono);
        self.plan_changed_crons();
        if self.core.inputs.share_full || !self.core.clock_is_known(mono) {
            return;
        }
        for key in self.core.state.open_crons() {
            self.continue_packs(&key);
        }
        let now = self.now;
        let timetable = &self.core.memory.timetable;
        let due = timetable.due.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<CronKey> = due.take(DUE_MAX).map(|(_, key)| key.clone()).collect();
        self.ready.more |= due.len() == DUE_MAX;
        for key in &due {
            self.fall_due(key);
        }
        self.plan_changed_crons();
    }

    /// Computes the next due times of cron jobs that were changed or handled.
    fn plan_changed_crons(&mut self) {
        let changed = self.core.state.take_changed_crons();
        self.ready.publish |= !changed.is_empty();
        for key in changed {
            let core = &mut *self.core;
            let timetable = &mut core.memory.timetable;
            let Some(cron) = core.state.cron(&key).filter(|cron| !cron.def.disabled) else {
                timetable.forget(&key);
                continue;
            };
            if let Err(why) = timetable.plan(key.clone(), cron) {
                // It was written by a leader with a newer version: it stays unchanged, for the next
                // leader that understands it.
                tracing::warn!("cron job {} of {}: {why}: not scheduled", key.1, cron.user);
            }
        }
    }

    /// Handles the due times of one cron job up to now.
    fn fall_due(&mut self, key: &CronKey) {
        let (core, now) = (&*self.core, self.now);
        let calendar = core.memory.timetable.calendars.get(key);
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
            return self.skip(key, (due.newest, due.count), CronResult::Missed, text);
        }
        let run = CronRun {
            uid: key.0,
            name: key.1.clone(),
            due: due.newest,
            missed: due.count - 1,
            ..CronRun::default()
        };
        let start_by = cron.def.deadline_s.map(|s| plus_s(due.newest, s));
        if let Err((what, text)) = self.start_run(key, run, start_by, Token(0)) {
            self.skip(key, (due.newest, due.count), what, text);
        }
    }

    fn skip(&mut self, key: &CronKey, (due, n): (Stamp, u32), why: CronResult, text: String) {
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

    /// Submits a run, or records why not. `start_by`: when it is dropped if it has not started.
    fn start_run(
        &mut self,
        key: &CronKey,
        run: CronRun,
        start_by: Option<Stamp>,
        token: Token,
    ) -> Result<Vec<IdRun>, (CronResult, String)> {
        let core = &*self.core;
        let Some(cron) = core.state.cron(key) else {
            return Err((CronResult::Refused, "no such cron job".to_owned()));
        };
        let (live, most) = (cron.running.len(), most_runs(&cron.def));
        let replaces = cron.def.overlap == Overlap::Replace;
        if live >= most && !replaces {
            let text = format!(
                "{} not ended: {}",
                count(live, "earlier run"),
                overlap_text(&cron.def)
            );
            return Err((CronResult::Overlapped, text));
        }
        let owner = self.cron_owner(cron);
        let jobs = submissions_of_run(&cron.def, 0, start_by);
        // If any job of a pack is refused, none of it is submitted.
        let admitted = self.admit_all(&PackJobs::default(), jobs, &owner);
        let admitted = admitted.map_err(|refusal| (CronResult::Refused, refusal.text))?;
        if replaces {
            self.replace_runs(key);
        }
        self.submit_run(key, &run, admitted, token)
    }

    /// Submits the jobs of a run. If jobs of a pack are left out because no ids are available, the
    /// run has failed.
    fn submit_run(
        &mut self,
        key: &CronKey,
        run: &CronRun,
        admitted: Vec<Admitted>,
        token: Token,
    ) -> Result<Vec<IdRun>, (CronResult, String)> {
        let parts = match admitted.len() {
            1 => 0,
            n => u32::try_from(n).unwrap_or(u32::MAX),
        };
        let mut made: Vec<IdRun> = Vec::new();
        let mut pack = PackJobs::default();
        for (part, mut job) in (0u32..).zip(admitted) {
            let name = pack.complete(&mut job);
            let run = CronRun {
                part,
                parts,
                first: made.first().map_or(0, |first| first.id),
                missed: if part == 0 { run.missed } else { 0 },
                ..run.clone()
            };
            let due = run.due;
            match self.accept_run(job, token, part, Some(Box::new(run))) {
                Ok((id, queue, default)) => {
                    pack.note(name, id);
                    made.push(IdRun {
                        line: part,
                        id,
                        n: 1,
                        queue,
                        default,
                        known: false,
                        t: self.now.0,
                    });
                }
                Err(why) if part == 0 => return Err((CronResult::Refused, why.to_owned())),
                Err(why) => {
                    self.skip(key, (due, 0), CronResult::Refused, why.to_owned());
                    break;
                }
            }
        }
        self.core.pass.needed = true;
        Ok(made)
    }

    /// Submits the jobs of packs that an earlier leader had not submitted when it died.
    fn continue_packs(&mut self, key: &CronKey) {
        let Some(cron) = self.core.state.cron(key) else {
            return;
        };
        let open = cron.packs.iter().filter(|(_, pack)| pack.is_open());
        let open: Vec<(u32, PackRun)> = open.map(|(id, pack)| (*id, pack.clone())).collect();
        for (first, pack) in open {
            let Some(cron) = self.core.state.cron(key) else {
                return;
            };
            let due = cron.running.get(&first).copied().unwrap_or_default();
            let from = if due == Stamp(0) { self.now } else { due };
            let start_by = cron.def.deadline_s.map(|s| plus_s(from, s));
            let owner = self.cron_owner(cron);
            let jobs = submissions_of_run(&cron.def, 0, start_by);
            if let Err(text) = self.submit_remaining((key, due), (first, &pack), jobs, &owner) {
                self.skip(key, (due, 0), CronResult::Refused, text);
            }
        }
        self.core.pass.needed = true;
    }

    fn submit_remaining(
        &mut self,
        (key, due): (&CronKey, Stamp),
        (first, run): (u32, &PackRun),
        mut jobs: Vec<Submission>,
        owner: &Requester,
    ) -> Result<(), String> {
        let (made, parts) = (run.made, run.parts);
        let rest = jobs.split_off(jobs.len().min(made as usize));
        let mut pack = PackJobs::default();
        for (job, id) in jobs.into_iter().zip(&run.ids) {
            pack.note(job.name, *id);
        }
        let admitted = self.admit_all(&pack, rest, owner);
        for (part, mut job) in (made..parts).zip(admitted.map_err(|refusal| refusal.text)?) {
            let name = pack.complete(&mut job);
            let run = CronRun {
                uid: key.0,
                name: key.1.clone(),
                due,
                missed: 0,
                part,
                parts,
                first,
            };
            let (id, ..) = self.accept_run(job, Token(0), part, Some(Box::new(run)))?;
            pack.note(name, id);
        }
        Ok(())
    }

    /// Admits all jobs, or returns why one is refused. `made`: the jobs of the same pack before
    /// them.
    fn admit_all(
        &self,
        made: &PackJobs,
        jobs: Vec<Submission>,
        owner: &Requester,
    ) -> Result<Vec<Admitted>, Refusal> {
        let (config, state) = (&self.core.config, &self.core.state);
        let mut budget = NameBudget::default();
        budget.pack.before = made.names().collect();
        budget.pack.after = jobs.iter().map(|job| job.name.clone()).collect();
        let mut admitted = Vec::with_capacity(jobs.len());
        for job in jobs {
            let name = budget.pack.after.pop_front();
            let job = intake::admit(job, owner, config, state, self.now, &mut budget)?;
            admitted.push(job);
            budget.pack.before.extend(name);
        }
        Ok(admitted)
    }

    /// Ends the runs of a cron job, because the next one takes their place.
    fn replace_runs(&mut self, key: &CronKey) {
        let Some(cron) = self.core.state.cron(key) else {
            return;
        };
        let ids: Vec<u32> = cron.live_jobs().collect();
        for j in ids
            .into_iter()
            .flat_map(|id| self.works_of(JobKey::job(id)))
            .collect::<Vec<_>>()
        {
            let run = self.core.state.work(j).and_then(|work| work.run.as_deref());
            let killed = run.and_then(|run| run.killing);
            if !matches!(killed, Some(SignalAct::Kill(_))) {
                self.end_work(j, TermReason::Replaced);
            }
        }
    }

    /// Ends the runs of a cron job. Returns their number.
    fn end_runs(&mut self, requester: &Requester, key: &CronKey) -> usize {
        let Some(cron) = self.core.state.cron(key) else {
            return 0;
        };
        let (runs, ids): (usize, Vec<u32>) = (cron.running.len(), cron.live_jobs().collect());
        for id in ids {
            for j in self.works_of(JobKey::job(id)) {
                let mut counts = WorkCounts::default();
                self.signal_work(requester, j, SignalAction::Kill, &mut counts);
            }
        }
        self.core.pass.needed |= runs > 0;
        runs
    }

    fn cron_owner(&self, cron: &CronJob) -> Requester {
        Requester {
            uid: cron.uid,
            user: cron.user.clone(),
            groups: self.core.groups_of(&cron.user).to_vec(),
        }
    }

    /// Carries out `ccron create` and `ccron edit`. `others`: accounts of the users that are named.
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
            Ok(text) => answer.add_result(name, Code::Ok, text),
            Err(refusal) => answer.refuse(name, refusal),
        }
    }

    fn define_cron(
        &mut self,
        requester: &Requester,
        others: &[Requester],
        head: &RequestHead,
        mut put: CronPut,
    ) -> Result<String, Refusal> {
        let owner = match put.user.as_str() {
            "" => requester,
            name if name == requester.user => requester,
            name => {
                if !self.may(requester, Action::CronAs, ActionObject::Cluster) {
                    return Err(Refusal::permission(
                        "permission denied: only root and the account that owns the share may \
                         name another user, whose programs it runs",
                    ));
                }
                let found = others.iter().find(|other| other.user == name);
                found.ok_or_else(|| {
                    Refusal::not_found(format!(
                        "user: user {name:?} does not \
                    exist on the leader's host"
                    ))
                })?
            }
        };
        check_def(&put.def)?;
        let key = (owner.uid, put.def.name.clone());
        let state = &self.core.state;
        match (state.cron(&key).is_some(), put.replace, put.create) {
            (true, false, _) => {
                return Err(Refusal::refused(
                    "a cron job with this name exists: use --overwrite, or ccron edit",
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
        self.check_jobs(&put.def, owner, head)?;
        let attached = attachments(head, &mut self.ready.blobs).map_err(Refusal::usage)?;
        attached.attach(&mut put.def.job.spec);
        for job in &mut put.def.more {
            attached.attach(&mut job.spec);
        }
        let (verb, uid, user) = (
            if put.create {
                "is created"
            } else {
                "is changed"
            },
            owner.uid,
            owner.user.clone(),
        );
        let (by, t) = (requester.user.clone(), self.now);
        self.emit(Event::CronDefined {
            uid,
            user,
            def: Box::new(put.def),
            by,
            t,
        });
        Ok(verb.to_owned())
    }

    /// Checks now what the cluster would refuse today; the same is checked at each due time.
    fn check_jobs(
        &self,
        def: &CronDef,
        owner: &Requester,
        head: &RequestHead,
    ) -> Result<(), Refusal> {
        if def.more.len() >= PACK_MAX {
            let text = format!("a pack has at most {PACK_MAX} jobs");
            return Err(Refusal::usage(text));
        }
        let mut jobs = def.jobs();
        if jobs.any(|job| job.hold || job.spec.session.is_some()) {
            let text = "a cron job's job cannot be interactive or held";
            return Err(Refusal::usage(text));
        }
        let attached = !head.script.is_empty() || !head.stdin.is_empty();
        if attached && !def.more.is_empty() {
            return Err(Refusal::usage(
                "jobs of a pack cannot have a script or an input: give commands",
            ));
        }
        let jobs = submissions_of_run(def, 0, None);
        self.admit_all(&PackJobs::default(), jobs, owner)
            .map(|_| ())
    }

    fn no_such_cron(&self, uid: u32, name: &str) -> Refusal {
        let known = self.core.state.crons_of(uid);
        let near = did_you_mean(name, known.map(|cron| cron.def.name.as_str()));
        Refusal::not_found(format!("no such cron job{near}"))
    }

    /// Carries out what `ccron` requests for existing cron jobs.
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
            return answer.add_result(name, Code::NotFound, "no cron job found");
        }
        for key in keys {
            self.spend(CHANGE);
            match self.act_on_one(who, token, &key, act, answer) {
                Ok(text) => answer.add_result(&key.1, Code::Ok, text),
                Err(refusal) => answer.refuse(&key.1, refusal),
            }
        }
    }

    fn act_on_one(
        &mut self,
        requester: &Requester,
        token: Token,
        key: &CronKey,
        act: CronAct,
        answer: &mut Answer,
    ) -> Result<String, Refusal> {
        let Some(cron) = self.core.state.cron(key) else {
            return Err(self.no_such_cron(key.0, &key.1));
        };
        let owner = Owner {
            uid: cron.uid,
            user: &cron.user,
            groups: self.core.groups_of(&cron.user),
            queue: &cron.def.job.spec.queue,
        };
        if !self.may(requester, Action::Cron, ActionObject::Job(owner)) {
            return Err(Refusal::permission("permission denied"));
        }
        let ((uid, name), by, t) = (key.clone(), requester.user.clone(), self.now);
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
            CronAct::Kill => match self.end_runs(requester, key) {
                0 => return Err(Refusal::new(Code::NotFound, "it has no unfinished run")),
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
                let text = match &made[..] {
                    [one] => format!("job <{}> is submitted to queue <{}>", one.id, one.queue),
                    all => {
                        let ids: Vec<String> = all.iter().map(|m| m.id.to_string()).collect();
                        format!("jobs <{}> are submitted", ids.join("> <"))
                    }
                };
                answer.ack.ids.extend(made);
                text
            }
        })
    }
}

/// The jobs of one run from job `from` on, as they are submitted.
fn submissions_of_run(def: &CronDef, from: usize, start_by: Option<Stamp>) -> Vec<Submission> {
    let jobs = def.jobs().skip(from).cloned();
    jobs.map(|mut job| {
        job.spec.start_by = start_by;
        if job.name.is_empty() {
            job.name.clone_from(&def.name);
        }
        job
    })
    .collect()
}

/// The jobs of a pack that have ids, with their names.
#[derive(Default)]
struct PackJobs(Vec<(String, u32)>);

impl PackJobs {
    fn names(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(name, _)| name.clone())
    }

    fn note(&mut self, name: String, id: u32) {
        self.0.push((name, id));
    }

    /// Replaces names of these jobs in the dependency of the next one. Returns its own name.
    fn complete(&self, job: &mut Admitted) -> String {
        job.spec.depend = intake::with_pack_ids(std::mem::take(&mut job.spec.depend), &self.0);
        match job.name.is_empty() {
            true => job.command.clone(),
            false => job.name.clone(),
        }
    }
}

/// Maximum number of runs at a time by the overlap policy.
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

/// Checks a definition without its job: our commands send valid ones; a forged request may contain
/// anything.
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
