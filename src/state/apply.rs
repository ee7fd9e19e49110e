//! `State::apply`: one event, one change. Applying is total: an event that does not fit (an unknown
//! job, an old attempt) changes nothing, so that replay never stops at one bad record.

use super::job::{Array, Body, HostId, Job, Run, Work};
use super::{SpecEntry, SpecTraits, State};
use crate::model::{AttemptId, JobKey, JobStat, PendReason, Spec, Stamp, Token};
use crate::record::cron::CronRun;
use crate::record::event::{Event, Submitted};
use crate::text::indexset::IndexSet;
use std::sync::Arc;

/// Gap between the order numbers of two submissions, so that moves can place jobs between them.
const ORDER_STEP: i64 = 1 << 20;

impl State {
    /// Applies one event.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Spec { id, spec } => {
                self.numbers.last_spec = *id;
                self.define_spec(*id, spec);
            }
            Event::Submitted(s) => self.submitted(s),
            Event::Dispatched {
                a,
                t,
                hosts,
                alt,
                forced,
                units,
            } => self.dispatched(*a, *t, (hosts, units), (*alt, *forced)),
            Event::Resized {
                a, hosts, units, ..
            } => self.resized(*a, hosts, units),
            Event::Started { a, pid, t, bind } => self.started(*a, (*pid, bind), *t),
            Event::PartBound { a, part, .. } => {
                if let Some(run) = self.current_run(*a) {
                    run.set_part_bind(part);
                    self.changes.rows.note(a.j);
                }
            }
            Event::PartUsed { a, part, .. } => self.part_used(*a, part),
            Event::Ended { e, requeue, hold } => self.ended(e, *requeue, *hold),
            Event::Gathered { a, .. } => {
                if let Some(run) = self.current_run(*a) {
                    run.preparing = false;
                }
            }
            Event::Unbound { a, why, t, host } => self.unbound(*a, why, *t, host),
            Event::Signalled { j, act, by, .. } => self.signalled(*j, *act, by),
            Event::Warned { j, at, signal, .. } => self.warned(*j, *at, *signal),
            Event::Halted { j, why, .. } => self.halted(*j, Some(why)),
            Event::Unhalted { j, .. } => self.halted(*j, None),
            Event::Cancelled { j, reason, t, .. } => self.cancelled(*j, *reason, *t),
            Event::Held { j, held, admin, .. } => self.held(*j, *held, *admin),
            Event::Suspended { a, on, t } => self.suspended(*a, *on, *t),
            Event::Checkpointed { a, why, t } => self.checkpointed(*a, why.is_empty(), *t),
            Event::Requeued { j, hold, .. } => self.requeued(*j, *hold),
            Event::Changed { j, s, .. } => self.changed(*j, *s),
            Event::Renamed {
                j,
                name,
                command,
                array_limit,
                ..
            } => {
                self.renamed(*j, name.as_deref(), command.as_deref(), *array_limit);
            }
            Event::Moved { j, order, .. } => self.moved(*j, *order),
            Event::Posted { j, message } => self.posted(*j, message.clone()),
            Event::Used { a, u } => {
                if let Some(run) = self.current_run(*a) {
                    run.set_usage(u);
                    self.changes.rows.note(a.j);
                    self.note_work(a.j);
                }
            }
            Event::Why { j, why, .. } => {
                self.change_job(*j, |job| job.set_why(j.idx, Some(why.clone())))
            }
            Event::Cleaned { ids, .. } => ids.iter().for_each(|id| self.clean(*id)),
            Event::Handled { tok, t } => self.note_handled(*tok, *t),
            part @ Event::PartHandled { .. } => self.part_handled(part),
            other if self.apply_to_cron(other) || self.apply_to_job_group(other) => {}
            of_cluster => self.apply_to_cluster(of_cluster),
        }
        self.note_cron_end(event);
    }

    pub(super) fn intern_host(&mut self, host: &str) -> HostId {
        if let Some(id) = self.hosts.numbers.id(host) {
            return id;
        }
        let id = self.hosts.numbers.add(host);
        self.used.grow(self.hosts.numbers.names().len());
        id
    }

    pub(super) fn define_spec(&mut self, id: u32, spec: &Spec) {
        if self.specs.contains_key(&id) {
            return;
        }
        let spec = Arc::new(spec.clone());
        let class = self.pending.take_class(&spec, id);
        let owner = self.used.usage_owner(&spec);
        let named = self.backlog.users.entry(owner.uid);
        named.or_insert_with(|| spec.user.clone());
        self.numbers.by_spec.insert(spec.clone(), id);
        let traits = SpecTraits::of(&spec);
        self.specs.insert(
            id,
            SpecEntry {
                spec,
                refs: 0,
                class,
                waiting: 0,
                owner,
                traits,
            },
        );
        self.changes.specs.insert(id);
    }

    fn add_spec_ref(&mut self, id: u32) {
        if let Some(entry) = self.specs.get_mut(&id) {
            entry.refs += 1;
        }
    }

    /// Drops a job's reference to a specification; an unused specification is removed.
    fn drop_spec(&mut self, id: u32) {
        let Some(entry) = self.specs.get_mut(&id) else {
            return;
        };
        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs == 0 {
            let entry = self.specs.remove(&id).expect("present");
            if self.numbers.by_spec.get(&entry.spec) == Some(&id) {
                self.numbers.by_spec.remove(&entry.spec);
            }
            self.pending.leave(entry.class);
            self.changes.specs.remove(&id);
        }
    }

    fn submitted(&mut self, s: &Submitted) {
        self.numbers.last_job = s.id;
        // A run that fell due by itself answers no request.
        let of_request = |run: &CronRun| run.due == Stamp(0) && s.tok != Token(0);
        if s.cron.as_deref().is_none_or(of_request) {
            self.remember(s);
        }
        if self.jobs.contains_key(s.id) || !self.specs.contains_key(&s.s) {
            return;
        }
        let stat = if s.hold {
            JobStat::Psusp
        } else {
            JobStat::Pend
        };
        let hold_reason = s.hold.then(|| Box::new(PendReason::HeldByOwner));
        let body = match IndexSet::parse(&s.array, 1, u32::MAX >> 1) {
            Ok(all) if !s.array.is_empty() => Body::Array(Box::new(Array {
                waiting: all.clone(),
                all,
                head: stat,
                why: hold_reason,
                limit: s.array_limit,
                work: Default::default(),
                counts: [0; 8],
            })),
            _ => Body::Single(Work {
                stat,
                why: hold_reason,
                ..Work::default()
            }),
        };
        let depend = self.specs[&s.s].traits.depends;
        let boxed = |text: &str| (!text.is_empty()).then(|| Box::from(text));
        let job = Job {
            id: s.id,
            spec: s.s,
            submit: s.t,
            order: i64::from(s.id) * ORDER_STEP,
            name: boxed(&s.name),
            command: Box::from(s.command.as_str()),
            key: boxed(&s.key),
            gated: depend,
            deferred: false,
            body,
        };
        self.add_spec_ref(s.s);
        if depend {
            self.watch(s.id, s.s);
        }
        self.insert_job(job);
        if let Some(run) = s.cron.as_deref() {
            self.cron_run(s, run);
        }
    }

    /// Adds a job from a snapshot.
    pub(super) fn restore_indexed(&mut self, job: Job) {
        let (id, s) = (job.id, job.spec);
        let watches = job.may_be_gated() && self.specs[&s].traits.depends;
        self.add_spec_ref(s);
        if watches {
            self.watch(id, s);
        }
        self.insert_job(job);
    }

    /// Adds a complete job (from an event or a snapshot) to every index.
    pub(super) fn insert_job(&mut self, job: Job) {
        let id = job.id;
        self.note_deadlines(id, job.spec);
        self.jobs.insert(id, job);
        self.index(id, true);
        self.index_name(id, true);
        self.changes.rows.note(JobKey::job(id));
    }

    /// Adds a job to the index, or removes it.
    fn index_name(&mut self, id: u32, plus: bool) {
        let Some(job) = self.jobs.get(id) else { return };
        let uid = self.specs[&job.spec].owner.uid;
        match plus {
            true => self.dependencies.names.add(uid, job.name(), id),
            false => self.dependencies.names.remove(uid, job.name(), id),
        }
    }

    /// Adds everything derived from job `id` to the indices, or removes it.
    pub(super) fn index(&mut self, id: u32, plus: bool) {
        let State {
            jobs,
            specs,
            used,
            hosts,
            pending,
            times,
            backlog,
            changes,
            ..
        } = self;
        let Some(job) = jobs.get(id) else { return };
        let entry = specs
            .get_mut(&job.spec)
            .expect("jobs refer to live specifications");
        let (mut waiting, array) = (0, job.array().is_some());
        job.each_pending(&mut |order, j, n, ready| {
            waiting += n;
            match (ready, plus) {
                (true, true) => pending.put(entry.class, order, j, array),
                (_, false) => pending.take(entry.class, order, j, array),
                (false, true) => {}
            }
        });
        if waiting > 0 {
            let (before, after) = if plus { (0, waiting) } else { (waiting, 0) };
            backlog.change(entry.owner, entry.traits.min, before, after);
            entry.waiting = entry.waiting + after - before;
        }
        job.each_retry(&mut |at, j| {
            let entry = (at, j);
            if plus {
                times.retries.insert(entry)
            } else {
                times.retries.remove(&entry)
            };
        });
        job.each_started(&mut |j, run, stat| {
            used.charge(j, entry.owner, run, stat, plus, &hosts.numbers);
            if let Some(log) = changes.changed_work.as_mut() {
                log.push(j);
            }
        });
        if job.is_finished() {
            let at = (job.end_learned_at(), id);
            if plus {
                times.finished.insert(at)
            } else {
                times.finished.remove(&at)
            };
        }
    }

    /// Changes one job or element through `f` and updates every index. Elements are first created
    /// from the waiting part of their array.
    pub(super) fn change_job(&mut self, j: JobKey, f: impl FnOnce(&mut Job)) {
        let State {
            jobs,
            specs,
            used,
            hosts,
            pending,
            times,
            backlog,
            ..
        } = self;
        let Some(job) = jobs.get_mut(j.id) else {
            return;
        };
        if job.stat(j.idx).is_none() {
            return;
        }
        let entry = specs
            .get_mut(&job.spec)
            .expect("jobs refer to live specifications");
        let (was_finished, was_waiting) = (job.is_finished(), job.is_waiting());
        if was_finished {
            times.finished.remove(&(job.end_learned_at(), j.id));
        }
        let before = job.weight(j.idx);
        let mut started = false;
        let array = job.array().is_some();
        let mut charge = |job: &Job, plus| {
            job.charge(j.idx, |run, stat| {
                started = true;
                used.charge(j, entry.owner, run, stat, plus, &hosts.numbers)
            });
        };
        job.each_removable(j.idx, |order, key| {
            pending.take(entry.class, order, key, array)
        });
        charge(job, false);
        let retry = |job: &Job| Some((job.work(j.idx)?.retry_at()?, j));
        if let Some(entry) = retry(job) {
            times.retries.remove(&entry);
        }
        f(job);
        times.retries.extend(retry(job));
        charge(job, true);
        job.list(j.idx, |order, key| {
            pending.put(entry.class, order, key, array)
        });
        let after = job.weight(j.idx);
        if after != before {
            backlog.change(entry.owner, entry.traits.min, before, after);
            entry.waiting = entry.waiting + after - before;
        }
        let watch = job.watch_changes(entry.traits.depends, was_waiting);
        let spec = job.spec;
        let finished = job.is_finished().then(|| (job.end_learned_at(), j.id));
        times.finished.extend(finished);
        if started {
            self.note_work(j);
        }
        self.changes.rows.note(j);
        if j.idx > 0 {
            self.changes.rows.note(JobKey::job(j.id));
        }
        if let Some(watching) = self.dependencies.watchers.get(&j.id) {
            self.dependencies.changed.extend(watching);
        }
        match watch {
            Some(true) => self.watch(j.id, spec),
            Some(false) => self.unwatch(j.id, spec),
            None => {}
        }
    }

    /// The run of attempt `a`, if it is the job's current one and has not ended.
    pub(super) fn current_run(&mut self, a: AttemptId) -> Option<&mut Run> {
        let work = self.jobs.get_mut(a.j.id)?.work_mut(a.j.idx)?;
        if work.attempt != a.at || !work.stat.is_started() {
            return None;
        }
        work.run.as_deref_mut()
    }

    pub(super) fn is_current(&mut self, a: AttemptId) -> bool {
        self.current_run(a).is_some()
    }

    fn held(&mut self, j: JobKey, held: bool, admin: bool) {
        let (from, to) = match held {
            true => (JobStat::Pend, JobStat::Psusp),
            false => (JobStat::Psusp, JobStat::Pend),
        };
        let why = if admin {
            PendReason::HeldByAdmin
        } else {
            PendReason::HeldByOwner
        };
        let why = if held { why } else { PendReason::New };
        self.change_job(j, |job| {
            if j.idx > 0 && job.materialise(j.idx).is_none() {
                return;
            }
            if job.stat(j.idx) == Some(from) {
                job.set_stat(j.idx, to);
                job.set_why(j.idx, held.then_some(why));
            }
        });
        // What is released waits for its dependency again.
        if !held && self.jobs.get(j.id).is_some_and(|job| job.gated) {
            self.dependencies.changed.insert(j.id);
        }
    }

    /// Holds all waiting jobs and elements.
    pub(super) fn hold_all(&mut self) {
        let mut keys = Vec::new();
        for job in self.jobs.values() {
            job.each_pending(&mut |_, j, _, _| keys.push(j));
        }
        for j in keys {
            self.held(j, true, true);
        }
    }

    /// Notes for everything that runs that it ran when the copy was made.
    pub(super) fn note_copied(&mut self) {
        let keys: Vec<JobKey> = self.all_started().collect();
        for j in keys {
            let work = self.jobs.get_mut(j.id).and_then(|job| job.work_mut(j.idx));
            if let Some(run) = work.and_then(|work| work.run.as_deref_mut()) {
                run.rerun.copied = true;
            }
        }
    }

    fn requeued(&mut self, j: JobKey, hold: bool) {
        self.change_job(j, |job| {
            if job.stat(j.idx).is_some_and(JobStat::is_finished) {
                job.set_stat(j.idx, if hold { JobStat::Psusp } else { JobStat::Pend });
                let why = if hold {
                    PendReason::HeldByOwner
                } else {
                    PendReason::Requeued
                };
                job.set_why(j.idx, Some(why));
            }
        });
    }

    fn changed(&mut self, j: JobKey, s: u32) {
        if !self.specs.contains_key(&s) {
            return;
        }
        let Some(old) = self.jobs.get(j.id).map(|job| job.spec) else {
            return;
        };
        self.index(j.id, false);
        self.index_name(j.id, false);
        if !self.spec(old).depend.is_empty() {
            self.unwatch(j.id, old);
        }
        self.add_spec_ref(s);
        let depend = !self.spec(s).depend.is_empty();
        let same = self.spec(s).depend == self.spec(old).depend;
        let limits = |s: u32| {
            let spec = self.spec(s);
            (&spec.limits, &spec.run_on, &spec.cpu_on)
        };
        let limited = limits(s) != limits(old);
        if let Some(job) = self.jobs.get_mut(j.id) {
            job.spec = s;
            job.gated = depend && (job.gated || !same);
            if limited {
                job.each_started_mut(&mut |run| run.orders.limits += 1);
            }
        }
        // A condition that was met is not judged again by a change of something else.
        if depend && self.jobs.get(j.id).is_some_and(Job::may_be_gated) {
            self.watch(j.id, s);
        }
        self.drop_deadline(j.id, old);
        self.note_deadlines(j.id, s);
        self.index(j.id, true);
        self.index_name(j.id, true);
        self.drop_spec(old);
        self.changes.rows.note(JobKey::job(j.id));
        self.dirty_elements(j.id);
    }

    fn renamed(&mut self, j: JobKey, name: Option<&str>, command: Option<&str>, lim: Option<u32>) {
        self.index_name(j.id, false);
        self.change_job(JobKey::job(j.id), |job| {
            if let Some(name) = name {
                job.name = (!name.is_empty()).then(|| Box::from(name));
            }
            if let Some(command) = command {
                job.command = Box::from(command);
            }
            if let (Some(lim), Body::Array(array)) = (lim, &mut job.body) {
                array.limit = lim;
                array.drop_outdated_limit();
            }
        });
        self.index_name(j.id, true);
        self.dirty_elements(j.id);
    }

    fn moved(&mut self, j: JobKey, order: i64) {
        self.index(j.id, false);
        if let Some(job) = self.jobs.get_mut(j.id) {
            job.order = order;
        }
        self.index(j.id, true);
        self.changes.rows.note(JobKey::job(j.id));
        self.dirty_elements(j.id);
    }

    fn clean(&mut self, id: u32) {
        if !self.jobs.get(id).is_some_and(Job::is_finished) {
            return;
        }
        self.index(id, false);
        self.index_name(id, false);
        self.dirty_elements(id);
        let job = self.jobs.remove(id).expect("just seen");
        self.drop_deadline(id, job.spec);
        self.drop_messages(id, self.specs[&job.spec].owner.uid);
        self.drop_spec(job.spec);
        self.dependencies.watchers.remove(&id);
        self.changes.rows.note(JobKey::job(id));
    }

    /// Notes when this specification ends a job, regardless of what it does or whether it has
    /// started.
    fn note_deadlines(&mut self, id: u32, s: u32) {
        for at in self.deadlines_of(s).into_iter().flatten() {
            self.times.deadlines.insert((at, id));
        }
    }

    /// Removes these times.
    fn drop_deadline(&mut self, id: u32, s: u32) {
        for at in self.deadlines_of(s).into_iter().flatten() {
            self.times.deadlines.remove(&(at, id));
        }
    }

    fn deadlines_of(&self, s: u32) -> [Option<Stamp>; 2] {
        let entry = &self.specs[&s];
        match entry.traits.timed {
            true => [entry.spec.deadline, entry.spec.start_by],
            false => [None; 2],
        }
    }

    /// Excludes a job from scheduling, or includes it again. Each leader derives this, so it needs
    /// no event.
    pub fn defer(&mut self, id: u32, deferred: bool) {
        if self.jobs.get(id).is_none_or(|job| job.deferred == deferred) {
            return;
        }
        self.index(id, false);
        if let Some(job) = self.jobs.get_mut(id) {
            job.deferred = deferred;
        }
        self.index(id, true);
    }

    fn dirty_elements(&mut self, id: u32) {
        if let Some(Body::Array(array)) = self.jobs.get(id).map(|job| &job.body) {
            self.changes
                .rows
                .extend(array.work.keys().map(|idx| JobKey::element(id, *idx)));
        }
    }
}
