//! The real scheduler of the virtual cluster: the state that a leader keeps, changed by the events
//! that a leader journals, and the engine that a leader asks. Submissions pass the same checks as
//! `csub`'s. Owns the translation between places in the workload and jobs of the state (job id =
//! place + 1); decides nothing.

use super::host_fragmentation::HostFragmentation;
use super::live_cluster::Samples;
use super::virtual_cluster::{Decider, Decision, Parts, PassOutcome, Start, Uses};
use super::virtual_hosts::Hosts;
use super::workload::{Job, Principals, Workload};
use crate::config::{Config, seconds_on};
use crate::intake::{self, Requester};
use crate::model::{
    AttemptId, JobKey, Limits, PendReason, Share, Spec, Stamp, Submission, TermReason, Token,
};
use crate::record::event::{Event, SignalAct, Submitted};
use crate::record::order::Act as OrderAct;
use crate::record::report::{Ended, Usage};
use crate::sched::plan_applier::{Sink, apply_plan};
use crate::sched::{Engine, HostTable, Placement, depend};
use crate::state::{HostId, Run, State};
use crate::text::depend::{Expr, JobRef};
use jiff::tz::TimeZone;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum number of starts of one call, as in a leader's turn.
const STARTS_MAX: usize = 4096;
/// First uid of users; they only need to be different.
const UID_FIRST: u32 = 100_000;
/// The state's list of changed rows, which is not used here, is emptied after this many passes.
const CLEANUP_EVERY: u32 = 1024;

/// What determines a specification: request, run limit, begin.
type SpecKey = (u32, Option<u64>, Option<i64>);

/// See the head of this file.
pub struct VirtualLeader<'a> {
    workload: &'a Workload,
    config: Arc<Config>,
    state: State,
    hosts: HostTable,
    engine: Engine,
    /// What is free and of no use, if that is needed.
    waste: Option<HostFragmentation>,
    /// Hosts whose allocations changed since fragmentation was last computed.
    touched: Vec<u32>,
    /// Milliseconds since the epoch at which the workload starts.
    base_ms: i64,
    /// Users by number, and the number of the user of each request.
    users: Vec<Requester>,
    principals: &'a Principals,
    /// Specifications that were accepted, or the reason why not.
    specs: HashMap<SpecKey, Result<(u32, Arc<Spec>), String>>,
    numbers: JobNumbers,
    ended: EndedJobs,
    passes: u32,
    /// The events that followed from plans.
    #[cfg(test)]
    log: Vec<Event>,
}

/// Places in the workload, and the jobs of the state.
#[derive(Default)]
struct JobNumbers {
    /// Place of each job by its number in the file, which dependencies use.
    places_by_number: HashMap<u64, u32>,
    /// Jobs of a live cluster by place, and back; a workload's own jobs are numbered by place.
    keys: Vec<JobKey>,
    places_of: HashMap<JobKey, u32>,
}

/// What the state may forget.
#[derive(Default)]
struct EndedJobs {
    /// Jobs that others may refer to: they stay in the state after they have ended.
    referenced: HashSet<u32>,
    /// Ended jobs that the state may forget.
    forgettable: Vec<u32>,
}

impl<'a> VirtualLeader<'a> {
    /// A cluster as described by `config`, with all hosts up and idle.
    pub fn new(set: ClusterSetting<'a>) -> VirtualLeader<'a> {
        let ClusterSetting {
            workload,
            principals,
            config,
            base_ms,
            cores,
            waste,
            live,
        } = set;
        let (mut state, virtual_hosts, keys, zone) = match live {
            Some(live) => (
                live.state,
                Hosts::from_samples(&config, cores, live.samples),
                live.keys,
                live.zone,
            ),
            None => {
                let hosts = Hosts::new(&config, cores);
                (State::new(), hosts, Vec::new(), TimeZone::UTC)
            }
        };
        let (up, t) = (true, Stamp(base_ms));
        for name in virtual_hosts.names() {
            if state.host_id(name).is_none() {
                let (name, boot) = (name.to_owned(), String::new());
                state.apply(&Event::HostSeen { name, up, boot, t });
            }
        }
        state.apply(&Event::Config {
            digest: config.digest(),
            t,
        });
        let mut hosts = HostTable::default();
        hosts.rebuild(&config, &state, virtual_hosts.samples());
        let mut engine = Engine::new(config.clone());
        engine.give_reasons(false);
        engine.set_zone(zone);
        let users = requesters(workload, principals);
        for user in &users {
            engine.note_groups(&user.user, &user.groups);
        }
        let waste = waste.then(|| HostFragmentation::new(workload, &config, &hosts));
        let mut core = VirtualLeader {
            workload,
            touched: (0..hosts.count() as u32).collect(),
            state,
            hosts,
            engine,
            waste,
            base_ms,
            users,
            principals,
            specs: HashMap::new(),
            numbers: JobNumbers {
                places_by_number: HashMap::new(),
                places_of: keys.iter().copied().zip(0u32..).collect(),
                keys,
            },
            ended: EndedJobs::default(),
            passes: 0,
            #[cfg(test)]
            log: Vec::new(),
            config,
        };
        core.note_dependencies();
        core
    }

    /// Names and capacities, in thousandths, of slots and of all resources that were reserved.
    pub fn resources(&self) -> Vec<(String, i64)> {
        let slots: i64 = self.hosts.iter().map(|h| i64::from(h.slots)).sum();
        let mut out = vec![("slots".to_owned(), slots * 1000)];
        for (res, name) in (0u16..).zip(self.engine.resources()) {
            let all = (0..self.hosts.count())
                .map(|at| self.engine.total_amount(at, res))
                .sum();
            out.push((name.to_owned(), all));
        }
        out
    }

    /// CPU factor, in thousandths, of the slowest host of a started job.
    pub fn cpuf_of(&self, place: u32) -> u32 {
        let work = self.state.work(self.key(place));
        let run = work.and_then(|work| work.run.as_deref());
        run.map_or(1000, |run| self.cpuf(&run.hosts))
    }

    /// Run limit of a started job, from its start on.
    pub fn limit_of(&self, place: u32) -> Option<u64> {
        let j = self.key(place);
        let run = self.state.work(j)?.run.as_deref()?;
        self.limit_ms(j, &run.hosts)
    }

    /// The run limit as hosts enforce it: by the clock, or the time stated for a host or model,
    /// converted to the first of these hosts.
    fn limit_ms(&self, j: JobKey, hosts: &[(HostId, u32)]) -> Option<u64> {
        let spec = self.state.spec_of(j.id)?;
        let seconds = spec.limits.run_s?;
        let named = (!spec.run_on.is_empty()).then_some(&spec.run_on);
        let stated = named.and_then(|name| self.config.cpu_factor(name));
        let first = hosts.first().and_then(|(id, _)| self.hosts.get(*id));
        let seconds = match (stated, first) {
            (Some(stated), Some(host)) => seconds_on(seconds, stated, host.entry.cpuf),
            _ => seconds,
        };
        Some(seconds.saturating_mul(1000))
    }

    /// Slots of all hosts.
    pub fn slots(&self) -> u64 {
        self.hosts.iter().map(|h| u64::from(h.slots)).sum()
    }

    /// The capacity to which fragments are related, in thousandths.
    pub fn waste_capacity(&self) -> f64 {
        self.waste.as_ref().map_or(0.0, HostFragmentation::capacity)
    }

    /// Numbers jobs only if some job depends on another: most workloads have no dependencies.
    fn note_dependencies(&mut self) {
        let jobs = &self.workload.jobs;
        if jobs.iter().all(|j| j.depends.is_none()) {
            return;
        }
        self.numbers.places_by_number = (0u32..).zip(jobs).map(|(at, j)| (j.id, at)).collect();
        for text in jobs.iter().filter_map(|j| j.depends.as_deref()) {
            let Ok(expr) = Expr::parse(text) else {
                continue;
            };
            for cond in expr.conditions() {
                if let JobRef::Id(id) = cond.target.job
                    && let Some(at) = self.numbers.places_by_number.get(&u64::from(id))
                {
                    self.ended.referenced.insert(*at);
                }
            }
        }
    }

    fn stamp(&self, ms: i64) -> Stamp {
        Stamp(self.base_ms + ms)
    }

    /// The specification of a job, with its number in the state.
    fn spec(&mut self, job: &Job, now_ms: i64) -> Result<(u32, Arc<Spec>), String> {
        let key = (job.request, job.est_ms, job.begin_ms);
        // A job that depends on other jobs, or on how many wait, is checked again each time.
        let lasting = job.depends.is_none() && self.config.general.max_pend_jobs.is_none();
        if lasting && let Some(known) = self.specs.get(&key) {
            let (id, spec) = known.clone()?;
            // The state forgets a specification that no unfinished job uses.
            if self.state.specs.contains_key(&id) {
                return Ok((id, spec));
            }
            let made = self.number(spec);
            self.specs.insert(key, made.clone());
            return made;
        }
        let made = self
            .admit(job, now_ms)
            .and_then(|spec| self.number(Arc::new(spec)));
        if lasting {
            self.specs.insert(key, made.clone());
        }
        made
    }

    /// The number of a specification; it is added to the state if it is new.
    fn number(&mut self, spec: Arc<Spec>) -> Result<(u32, Arc<Spec>), String> {
        if let Some(id) = self.state.find_spec(&spec) {
            return Ok((id, spec));
        }
        let id = self.state.next_spec();
        let id = id.ok_or("all specification numbers are in use")?;
        let copy = Box::new(spec.as_ref().clone());
        self.state.apply(&Event::Spec { id, spec: copy });
        Ok((id, spec))
    }

    fn admit(&self, job: &Job, now_ms: i64) -> Result<Spec, String> {
        let ask = self.workload.request(job);
        let known = self.config.queue(&ask.queue).is_some();
        let run_s = job.est_ms.map(|ms| ms.div_ceil(1000));
        let spec = Spec {
            queue: if known {
                ask.queue.clone()
            } else {
                String::new()
            },
            project: ask.project.clone(),
            min: ask.min,
            max: ask.max,
            res_req: ask.res_req.clone(),
            hosts: ask.hosts.clone(),
            exclusive: ask.exclusive,
            priority: ask.priority,
            limits: Limits {
                run_s,
                ..Limits::default()
            },
            begin: job.begin_ms.map(|ms| self.stamp(ms)),
            depend: self.depend(job)?,
            cwd: "/".to_owned(),
            ..Spec::default()
        };
        let who = &self.users[self.principals.by_request[job.request as usize].0 as usize];
        let submission = Submission {
            spec,
            command: "-".to_owned(),
            ..Submission::default()
        };
        let now = self.stamp(now_ms);
        let admitted = intake::admit(
            submission,
            who,
            &self.config,
            &self.state,
            now,
            &mut intake::NameBudget::default(),
        );
        admitted.map(|a| a.spec).map_err(|refusal| refusal.text)
    }

    /// A dependency with ids of the state instead of the numbers in the file.
    fn depend(&self, job: &Job) -> Result<String, String> {
        let Some(text) = job.depends.as_deref() else {
            return Ok(String::new());
        };
        let mut expr = Expr::parse(text).map_err(|e| format!("depends: {e}"))?;
        self.renumber(&mut expr)?;
        Ok(expr.to_string())
    }

    fn renumber(&self, expr: &mut Expr) -> Result<(), String> {
        match expr {
            Expr::And(parts) | Expr::Or(parts) => {
                parts.iter_mut().try_for_each(|part| self.renumber(part))
            }
            Expr::Not(inner) => self.renumber(inner),
            Expr::Is(cond) => match &mut cond.target.job {
                JobRef::Id(id) => {
                    let place = self.numbers.places_by_number.get(&u64::from(*id));
                    let place = place.ok_or(format!("depends: no job {id} in the workload"))?;
                    *id = place + 1;
                    Ok(())
                }
                JobRef::Name(name) => Err(format!("depends: {name:?} is not a job number")),
            },
        }
    }

    fn judge_dependencies(&mut self) {
        depend::evaluate_due(&mut self.state, self.config.general.orphans);
    }

    fn attempt(&self, j: JobKey) -> AttemptId {
        let at = self.state.work(j).map_or(0, |work| work.attempt);
        AttemptId { j, at }
    }

    fn parts(&self, hosts: &[(HostId, u32)]) -> Parts {
        let part = |(id, n): &(HostId, u32)| (self.hosts.position(*id).unwrap_or(0) as u32, *n);
        hosts.iter().map(part).collect()
    }

    /// Ends an attempt; `requeue`: the job waits again.
    fn end_work(&mut self, j: JobKey, t: Stamp, reason: TermReason, requeue: bool) {
        self.note_hosts_changed(j);
        let e = Box::new(Ended {
            a: self.attempt(j),
            t: t.0,
            u: used(self.state.work(j).and_then(|work| work.run.as_deref()), t),
            code: (reason == TermReason::None).then_some(0),
            reason,
            ..Ended::default()
        });
        let hold = false;
        self.state.apply(&Event::Ended { e, requeue, hold });
        let place = self.place(j);
        if !requeue && self.numbers.keys.is_empty() && !self.ended.referenced.contains(&place) {
            self.ended.forgettable.push(j.id);
        }
    }

    /// CPU factor of the slowest of these hosts, in thousandths.
    fn cpuf(&self, hosts: &[(HostId, u32)]) -> u32 {
        let each = hosts.iter().filter_map(|(id, _)| self.hosts.get(*id));
        let each = each.map(|host| (host.entry.cpuf * 1000.0).round() as u32);
        each.min().unwrap_or(1000)
    }

    /// The job of a place, and the place of a job.
    fn key(&self, place: u32) -> JobKey {
        match self.numbers.keys.get(place as usize) {
            Some(j) => *j,
            None => JobKey::job(place + 1),
        }
    }

    fn place(&self, j: JobKey) -> u32 {
        match self.numbers.places_of.get(&j) {
            Some(place) => *place,
            None => j.id - 1,
        }
    }

    /// Everything that a started job holds beside slots.
    fn uses(&self, j: JobKey) -> Uses {
        let mut uses = Uses::new();
        let n = self.engine.resources().count();
        for res in 0..n {
            let allocated = self.engine.allocation_of(j).iter();
            let amount: i64 = allocated.map(|(_, bundle)| bundle.get(res)).sum();
            if amount != 0 {
                uses.push((res as u16 + 1, amount));
            }
        }
        uses
    }

    /// Notes that the hosts of a job changed.
    fn note_hosts_changed(&mut self, j: JobKey) {
        if self.waste.is_some() {
            let allocated = self.engine.allocation_of(j).iter();
            self.touched.extend(allocated.map(|(at, _)| *at));
        }
    }
}

/// Virtual jobs keep all their slots busy.
fn used(run: Option<&Run>, t: Stamp) -> Usage {
    let busy = run.map_or(0, |run| {
        let stopped = match run.suspension.since {
            Stamp(0) => 0,
            since => t.since_ms(since),
        };
        let ms = t
            .since_ms(run.start)
            .saturating_sub(run.suspension.total_ms + stopped);
        ms.saturating_mul(u64::from(run.slots()))
    });
    Usage {
        cpu_ms: busy,
        ..Usage::default()
    }
}

/// The properties of a virtual cluster.
pub struct ClusterSetting<'a> {
    pub workload: &'a Workload,
    pub principals: &'a Principals,
    pub config: Arc<Config>,
    /// Milliseconds since the epoch at which the workload starts.
    pub base_ms: i64,
    /// Number of cores of hosts that have as many slots as cores.
    pub cores: u32,
    /// Whether fragmentation is measured.
    pub waste: bool,
    /// A live cluster; otherwise an empty one.
    pub live: Option<LiveSetting>,
}

/// A live cluster whose jobs are those of the workload.
pub struct LiveSetting {
    pub state: State,
    pub samples: Samples,
    /// The job of each place.
    pub keys: Vec<JobKey>,
    /// The time zone of windows.
    pub zone: TimeZone,
}

/// The users that submit, each in all groups that any of the user's jobs names.
fn requesters(workload: &Workload, principals: &Principals) -> Vec<Requester> {
    let names = principals.users.iter().zip(UID_FIRST..);
    let mut users: Vec<Requester> = names
        .map(|(user, uid)| Requester {
            uid,
            user: user.clone(),
            groups: Vec::new(),
        })
        .collect();
    for (ask, (user, _)) in workload.requests.iter().zip(&principals.by_request) {
        let groups = &mut users[*user as usize].groups;
        if !ask.group.is_empty() && !groups.contains(&ask.group) {
            groups.push(ask.group.clone());
        }
    }
    users
}

/// Hosts that carry out everything at once: the simulator's sink of the plan applier.
struct ImmediateHosts<'a, 'w> {
    core: &'a mut VirtualLeader<'w>,
    now: Stamp,
    decisions: &'a mut Vec<Decision>,
}

impl ImmediateHosts<'_, '_> {
    fn suspended(&mut self, j: JobKey, on: bool) {
        let (a, t) = (self.core.attempt(j), self.now);
        self.core.state.apply(&Event::Suspended { a, on, t });
    }
}

impl Sink for ImmediateHosts<'_, '_> {
    fn state(&mut self) -> &mut State {
        &mut self.core.state
    }

    fn emit(&mut self, event: Event) {
        self.core.state.apply(&event);
        #[cfg(test)]
        self.core.log.push(event);
    }

    fn bound(&mut self, a: AttemptId) {
        let core = &mut *self.core;
        let t = self.now;
        core.state.apply(&Event::Started {
            a,
            pid: 1,
            t,
            bind: None,
        });
        let run = core.state.work(a.j).and_then(|work| work.run.as_deref());
        let hosts: Placement =
            run.map_or_else(Placement::new, |run| run.hosts.iter().copied().collect());
        let start = Start {
            job: core.place(a.j),
            parts: core.parts(&hosts),
            cpuf: core.cpuf(&hosts),
            limit_ms: core.limit_ms(a.j, &hosts),
            uses: core.uses(a.j),
        };
        core.note_hosts_changed(a.j);
        self.decisions.push(Decision::Start(Box::new(start)));
    }

    fn signal(&mut self, j: JobKey, act: OrderAct, reason: TermReason) {
        let job = self.core.place(j);
        match act {
            OrderAct::Stop => {
                self.suspended(j, true);
                self.decisions.push(Decision::Suspend { job });
            }
            OrderAct::Resume => {
                self.suspended(j, false);
                self.decisions.push(Decision::Resume { job });
            }
            _ => {
                let work = self.core.state.work(j);
                let killing = work.and_then(|work| work.run.as_ref()?.killing);
                let requeue = matches!(killing, Some(SignalAct::Requeue { .. }));
                self.core.end_work(j, self.now, reason, requeue);
                self.decisions.push(match requeue {
                    true => Decision::Requeue { job },
                    false => Decision::Kill { job },
                });
            }
        }
    }

    fn resized(&mut self, j: JobKey, added: &[Share]) {
        let core = &*self.core;
        let place = |Share(name, n): &Share| Some((core.state.host_id(name)?, *n));
        let added: Placement = added.iter().filter_map(place).collect();
        let (job, parts) = (core.place(j), core.parts(&added));
        self.decisions.push(Decision::Grow { job, parts });
    }
}

impl Decider for VirtualLeader<'_> {
    fn submit(&mut self, job: u32, now_ms: i64) -> Result<(), String> {
        if !self.numbers.keys.is_empty() {
            // It is already in the state.
            return Ok(());
        }
        let workload = self.workload;
        let (s, _) = self.spec(&workload.jobs[job as usize], now_ms)?;
        let id = job + 1;
        self.state.apply(&Event::Submitted(Box::new(Submitted {
            id,
            s,
            t: self.stamp(now_ms),
            command: "-".to_owned(),
            name: String::new(),
            array: String::new(),
            array_limit: 0,
            hold: false,
            tok: Token(0),
            line: id,
            key: String::new(),
            cron: None,
        })));
        Ok(())
    }

    fn end(&mut self, job: u32, now_ms: i64, killed: bool) {
        let reason = match killed {
            true => TermReason::RunLimit,
            false => TermReason::None,
        };
        self.end_work(self.key(job), self.stamp(now_ms), reason, false);
    }

    fn plan(&mut self, now_ms: i64, decisions: &mut Vec<Decision>) -> PassOutcome {
        let now = self.stamp(now_ms);
        self.judge_dependencies();
        self.engine.sync(&mut self.state, &mut self.hosts);
        if !self.ended.forgettable.is_empty() {
            // Only after the engine has seen their usage.
            let ids = std::mem::take(&mut self.ended.forgettable);
            self.state.apply(&Event::Cleaned { ids, t: now });
        }
        let plan = self.engine.plan(&self.state, &self.hosts, now, STARTS_MAX);
        // What is stopped or ended frees its slots at once: the jobs for which it made room start
        // at this instant, too.
        let freed = plan.halts.len() + plan.requeues.len() + plan.kills.len();
        let (more, wake) = (plan.more || freed > 0, plan.wake);
        apply_plan(
            plan,
            now,
            &mut ImmediateHosts {
                core: self,
                now,
                decisions,
            },
        );
        self.passes += 1;
        if self.passes.is_multiple_of(CLEANUP_EVERY) {
            self.state.take_dirty();
        }
        PassOutcome {
            more,
            wake_ms: wake.map(|at| at.0 - self.base_ms),
        }
    }

    fn explain(&mut self, now_ms: i64) {
        // Only now: reasons cost more than all decisions.
        self.engine.give_reasons(true);
        self.plan(now_ms, &mut Vec::new());
    }

    fn last_date_ms(&self) -> Option<i64> {
        let classes = self.state.pending().classes();
        let dates = classes.filter_map(|(_, class)| class.key.begin);
        dates.map(|at| at.0 - self.base_ms).max()
    }

    fn waits_for_windows(&mut self, now_ms: i64) -> bool {
        self.explain(now_ms);
        self.engine.give_reasons(false);
        let mut classes = self.state.pending().classes();
        classes.all(|(_, class)| {
            let closed = matches!(
                class.why,
                PendReason::RunWindow { .. } | PendReason::DispatchWindow { .. }
            );
            closed || class.jobs.is_empty()
        })
    }

    fn why(&self, job: u32) -> String {
        let j = self.key(job);
        let Some(found) = self.state.job(j.id) else {
            return "it is not there".to_owned();
        };
        let class = self.state.class_of(found.spec);
        let class = self.state.pending().class(class).map(|class| &class.why);
        let why = PendReason::current(found.own_reason(j.idx), class);
        why.map_or_else(String::new, ToString::to_string)
    }

    fn fragments(&mut self) -> f64 {
        let touched = std::mem::take(&mut self.touched);
        let Some(waste) = &mut self.waste else {
            return 0.0;
        };
        waste.update(&self.engine, touched);
        waste.total()
    }
}

#[cfg(test)]
mod leader_tests;

#[cfg(test)]
mod tests {
    use crate::replay::{csv, trace};

    /// First start and end of each job in seconds, by id.
    fn replay(queues: &str, slots: u32, jobs: &str) -> Vec<(u64, i64, i64, u32)> {
        let config = format!(
            "cluster: {{name: demo, administrators: [root]}}\n\
             hosts: [{{name: h1, slots: {slots}}}]\nqueues:\n{queues}"
        );
        let config = trace::load(config.as_bytes(), "cb.yaml").unwrap_or_else(|e| panic!("{e}"));
        let jobs = format!("id,submit,run,min,max,slots,queue\n{jobs}");
        let workload = csv::read(jobs.as_bytes(), "jobs", &|_| false).unwrap();
        let out = trace::run(&workload, config);
        assert_eq!(out.never_ended, vec![]);
        let id = |job: u32| workload.jobs[job as usize].id;
        let each = out.done.iter();
        let mut all: Vec<_> = each
            .map(|d| (id(d.job), d.start_ms / 1000, d.end_ms / 1000, d.slots))
            .collect();
        all.sort_unstable();
        all
    }

    const LOW: &str = "- {name: lo, priority: 10}\n";

    #[test]
    fn victims_stop_and_go_on_or_begin_anew() {
        let hi = "- {name: hi, priority: 40, preemption: {preempt: lo}}\n";
        let jobs = "1,0,100,,,4,lo\n2,20,10,,,2,hi\n3,21,10,,,2,lo\n";
        assert_eq!(
            replay(&format!("{hi}{LOW}"), 4, jobs),
            [(1, 0, 110, 4), (2, 20, 30, 2), (3, 110, 120, 2)]
        );
        let hi = hi.replace("lo}", "lo, method: requeue}");
        assert_eq!(
            replay(&format!("{hi}{LOW}"), 4, &jobs[..33]),
            [(1, 0, 130, 4), (2, 20, 30, 2)]
        );
    }

    #[test]
    fn elastic_work_gets_what_comes_free() {
        let queue = "- {name: lo, elastic: yes}\n";
        let jobs = "1,0,10,,,5,lo\n2,0,90,2,8,,lo\n";
        let all = replay(queue, 8, jobs);
        assert_eq!((all[1].1, all[1].3), (0, 8));
    }
}
