//! The real core behind the virtual cluster: the state that a leader keeps, changed by the events
//! that a leader journals, and the engine that a leader asks. Submissions pass the same checks as
//! `csub`'s. Owns the translation between places in the workload and jobs of the state (job id =
//! place + 1); decides nothing.

use super::drive::{Act, Decider, Next, Start, Uses};
use super::fabric::Fabric;
use super::workload::{Job, Workload};
use crate::config::Config;
use crate::intake::{self, Requester};
use crate::model::{AttemptId, JobKey, Limits, Share, Spec, Stamp, Submission, Token};
use crate::record::event::{Event, Submitted};
use crate::record::report::Ended;
use crate::sched::{Engine, HostTable, depend};
use crate::state::State;
use crate::text::depend::{Expr, JobRef};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Most starts of one call, as in a leader's turn.
const STARTS_MAX: usize = 4096;
/// Uids of users begin here; only their being different matters.
const UID_FIRST: u32 = 100_000;
/// The state's list of changed rows, which nobody reads here, is emptied every so many passes.
const TIDY_EVERY: u32 = 1024;

/// What one specification follows from: ask, run limit, begin.
type SpecKey = (u32, Option<u64>, Option<i64>);

/// See the head of the file.
pub struct Core<'a> {
    workload: &'a Workload,
    config: Arc<Config>,
    state: State,
    hosts: HostTable,
    engine: Engine,
    pub fabric: Fabric,
    /// Milliseconds since the epoch at which the workload starts.
    base_ms: i64,
    /// Number of each user of [`Core::parties`] by ask.
    users: Vec<Requester>,
    user_of: Vec<u32>,
    /// Specifications that passed, or why not.
    specs: HashMap<SpecKey, Result<(u32, Arc<Spec>), String>>,
    /// Number of each file's job, where dependencies name them.
    places: HashMap<u64, u32>,
    /// Jobs that others may ask about: they stay in the state when they have ended.
    asked: HashSet<u32>,
    passes: u32,
}

impl<'a> Core<'a> {
    /// A cluster as `config` describes it, all hosts up and idle.
    pub fn new(workload: &'a Workload, config: Arc<Config>, base_ms: i64, cores: u32) -> Core<'a> {
        let mut state = State::new();
        let fabric = Fabric::new(&config, cores);
        for name in fabric.names() {
            let (up, boot, t) = (true, String::new(), Stamp(base_ms));
            let name = name.to_owned();
            state.apply(&Event::HostSeen { name, up, boot, t });
        }
        let mut hosts = HostTable::default();
        hosts.rebuild(&config, &state, fabric.samples());
        let mut engine = Engine::new(config.clone());
        let (users, user_of) = users(workload);
        for user in &users {
            engine.note_groups(&user.user, &user.groups);
        }
        let mut core = Core {
            workload,
            state,
            hosts,
            engine,
            fabric,
            base_ms,
            users,
            user_of,
            specs: HashMap::new(),
            places: HashMap::new(),
            asked: HashSet::new(),
            passes: 0,
            config,
        };
        core.note_dependencies();
        core
    }

    /// Numbers jobs only if some job depends on another: most workloads have no such.
    fn note_dependencies(&mut self) {
        let jobs = &self.workload.jobs;
        if jobs.iter().all(|j| j.depends.is_none()) {
            return;
        }
        self.places = (0u32..).zip(jobs).map(|(at, j)| (j.id, at)).collect();
        for text in jobs.iter().filter_map(|j| j.depends.as_deref()) {
            let Ok(expr) = Expr::parse(text) else {
                continue;
            };
            for cond in expr.conditions() {
                if let JobRef::Id(id) = cond.target.job
                    && let Some(at) = self.places.get(&u64::from(id))
                {
                    self.asked.insert(*at);
                }
            }
        }
    }

    fn stamp(&self, ms: i64) -> Stamp {
        Stamp(self.base_ms + ms)
    }

    /// The specification of a job, with its number in the state.
    fn spec(&mut self, job: &Job, now_ms: i64) -> Result<(u32, Arc<Spec>), String> {
        let key = (job.ask, job.est_ms, job.begin_ms);
        // What depends on other jobs, or on how many wait, is asked anew each time.
        let lasting = job.depends.is_none() && self.config.general.max_pend_jobs.is_none();
        if lasting && let Some(known) = self.specs.get(&key) {
            let (id, spec) = known.clone()?;
            self.define(id, &spec);
            return Ok((id, spec));
        }
        let made = self.admit(job, now_ms).map(|spec| {
            let id = self.state.find_spec(&spec).unwrap_or(self.state.next_spec());
            let spec = Arc::new(spec);
            self.define(id, &spec);
            (id, spec)
        });
        if lasting {
            self.specs.insert(key, made.clone());
        }
        made
    }

    /// A specification that no live job uses is forgotten by the state: it is told again.
    fn define(&mut self, id: u32, spec: &Arc<Spec>) {
        if !self.state.specs.contains_key(&id) {
            let spec = Box::new(spec.as_ref().clone());
            self.state.apply(&Event::Spec { id, spec });
        }
    }

    fn admit(&self, job: &Job, now_ms: i64) -> Result<Spec, String> {
        let ask = self.workload.ask(job);
        let known = self.config.queue(&ask.queue).is_some();
        let run_s = job.est_ms.map(|ms| ms.div_ceil(1000));
        let spec = Spec {
            queue: if known { ask.queue.clone() } else { String::new() },
            project: ask.project.clone(),
            min: ask.min,
            max: ask.max,
            res_req: ask.res_req.clone(),
            hosts: ask.hosts.clone(),
            exclusive: ask.exclusive,
            priority: ask.priority,
            limits: Limits { run_s, ..Limits::default() },
            begin: job.begin_ms.map(|ms| self.stamp(ms)),
            depend: self.depend(job)?,
            cwd: "/".to_owned(),
            ..Spec::default()
        };
        let who = &self.users[self.user_of[job.ask as usize] as usize];
        let submission = Submission { spec, command: "-".to_owned(), ..Submission::default() };
        let now = self.stamp(now_ms);
        let admitted = intake::admit(submission, who, &self.config, &self.state, now);
        admitted.map(|a| a.spec).map_err(|refusal| refusal.text)
    }

    /// A dependency with ids of the state instead of the file's numbers.
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
                    let place = self.places.get(&u64::from(*id));
                    let place = place.ok_or(format!("depends: no job {id} in the workload"))?;
                    *id = place + 1;
                    Ok(())
                }
                JobRef::Name(name) => Err(format!("depends: {name:?} is not a job number")),
            },
        }
    }

    fn judge_dependencies(&mut self) {
        for id in self.state.take_dep_dirty() {
            if let Some(verdict) = depend::judge(&self.state, id) {
                self.state.set_dependency(id, verdict);
            }
        }
    }

    fn start(&mut self, start: &crate::sched::Start, now: Stamp) -> Start {
        let j = start.j;
        let at = self.state.work(j).map_or(0, |work| work.attempt) + 1;
        let share = |(id, n): &(_, u32)| Share(self.state.host_name(*id).to_string(), *n);
        let hosts: Vec<Share> = start.hosts.iter().map(share).collect();
        let a = AttemptId { j, at };
        let parts = start.hosts.iter().map(|(id, n)| (id.0, *n)).collect();
        self.state.apply(&Event::Dispatched { a, t: now, hosts });
        self.state.apply(&Event::Started { a, pid: 1, t: now });
        let mut out = Start { job: j.id - 1, parts, ..Start::default() };
        out.cpuf = self.fabric.cpuf(&out.parts);
        if let Some(spec) = self.state.spec_of(j.id) {
            out.limit_ms = spec.limits.run_s.map(|s| s * 1000);
            let ask = self.workload.jobs[out.job as usize].ask;
            out.uses = self.fabric.take(out.job, ask, spec, &self.config, &out.parts);
        }
        out
    }
}

/// Users by number, and the number of each ask's user. A job without a user belongs to `nobody`.
fn users(workload: &Workload) -> (Vec<Requester>, Vec<u32>) {
    let mut users: Vec<Requester> = Vec::new();
    let mut known: HashMap<(&str, &str), u32> = HashMap::new();
    let of = |ask: &'a super::workload::Ask| ask;
    let mut user_of = Vec::new();
    for ask in &workload.asks {
        let _ = of;
        let n = *known.entry((&ask.user, &ask.group)).or_insert_with(|| {
            let user = if ask.user.is_empty() { "nobody" } else { &ask.user };
            let groups = if ask.group.is_empty() { vec![] } else { vec![ask.group.clone()] };
            let uid = UID_FIRST + users.len() as u32;
            users.push(Requester { uid, user: user.to_owned(), groups });
            users.len() as u32 - 1
        });
        user_of.push(n);
    }
    (users, user_of)
}
