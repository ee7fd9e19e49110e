//! A small cluster for tests of the engine: state, configuration, virtual hosts that are always up,
//! a clock that only moves on request. Owns no expectations; those are in the modules below.
//!
//! A case reads: make a [`Cluster`], [`Cluster::submit`] jobs, [`Cluster::pass`], look at who runs
//! where with [`Cluster::on`], [`Cluster::end`] some, pass again.

mod frag;
mod gang;
mod golden;
mod groups;
mod halts;
mod limits;
mod place;
mod preempt;
mod random;
mod reasons;
mod released;
mod rusage_decay;
mod share_ratio;
mod shared_amounts;
mod thresholds;
mod unit_parts;
mod units;
mod window;

use super::plan_applier::{Sink, apply_plan};
use super::{Engine, HostTable, Plan};
use crate::config::{Config, OsNames};
use crate::model::{AttemptId, JobKey, JobStat, PendReason, Share, Spec, Stamp, TermReason, Token};
use crate::record::event::{Event, SignalAct, Submitted};
use crate::record::load::LoadDoc;
use crate::record::order::Act;
use crate::record::report::Ended;
use crate::state::State;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The time at which every test begins, in milliseconds.
pub(super) const T0: i64 = 1_000_000_000;

/// No job starts.
pub(super) const NOBODY: [u32; 0] = [];

pub(super) struct Cluster {
    pub config: Arc<Config>,
    pub state: State,
    pub table: HostTable,
    pub engine: Engine,
    pub now: Stamp,
    loads: BTreeMap<String, (LoadDoc, u64)>,
    /// The decisions of the last pass.
    pub last: Plan,
    /// The effect of [`Cluster::pass`] on running jobs: `halt 1`, `resume 1`, `requeue 1`, `kill
    /// 1`, `warn 1`, `grow 1 h1:2`.
    pub log: Vec<String>,
}

/// The properties of a job in a test: slots, user, queue and what `change` sets.
pub(super) fn job(slots: u32) -> Spec {
    Spec {
        uid: 1000,
        user: "u1000".into(),
        queue: "normal".into(),
        min: slots,
        max: slots,
        sub_host: "h1".into(),
        ..Spec::default()
    }
}

fn parsed(text: &str) -> Arc<Config> {
    let text = format!("cluster: {{name: demo, administrators: [root]}}\n{text}");
    let loaded = crate::config::load(text.as_bytes(), "cb.yaml", &OsNames::ANY)
        .unwrap_or_else(|p| panic!("{}", p[0]));
    Arc::new(loaded.config)
}

#[allow(dead_code, reason = "each module of tests uses what it needs")]
/// Hosts that carry everything out at once.
impl Sink for Cluster {
    fn state(&mut self) -> &mut State {
        &mut self.state
    }

    fn emit(&mut self, event: Event) {
        match &event {
            Event::Halted { j, why, .. } => self.log.push(format!("halt {j}: {why}")),
            Event::Unhalted { j, .. } => self.log.push(format!("resume {j}")),
            Event::Warned { j, at, .. } if at.0 == 0 => self.log.push(format!("spare {j}")),
            Event::Warned { j, at, t, .. } => {
                self.log
                    .push(format!("warn {j} {}", at.since_ms(*t) / 1000));
            }
            Event::Signalled { j, act, .. } => self.log.push(match act {
                SignalAct::Requeue { .. } => format!("requeue {j}"),
                _ => format!("kill {j}"),
            }),
            Event::Resized { a, hosts, .. } => {
                let hosts = hosts.iter().map(|Share(h, n)| format!("{h}:{n}"));
                let hosts: Vec<String> = hosts.collect();
                self.log.push(format!("grow {} {}", a.j, hosts.join(" ")));
            }
            _ => {}
        }
        self.state.apply(&event);
    }

    fn bound(&mut self, a: AttemptId) {
        let t = self.now;
        self.state.apply(&Event::Started {
            a,
            pid: 1,
            t,
            bind: None,
        });
    }

    fn signal(&mut self, j: JobKey, act: Act, _reason: TermReason) {
        let (a, t, on) = (self.attempt(j), self.now, act == Act::Stop);
        match act {
            Act::Stop | Act::Resume => self.state.apply(&Event::Suspended { a, on, t }),
            _ => {
                let run = self.state.work(j).and_then(|work| work.run.as_ref());
                let killing = run.and_then(|run| run.killing);
                self.end_key(j, matches!(killing, Some(SignalAct::Requeue { .. })));
            }
        }
    }

    fn resized(&mut self, _j: JobKey, _added: &[Share]) {}
}

impl Cluster {
    /// A cluster with the hosts, queues and settings of the text; `cluster:` may be omitted.
    pub(super) fn new(text: &str) -> Cluster {
        let config = parsed(text);
        let mut cluster = Cluster {
            state: State::new(),
            table: HostTable::default(),
            engine: Engine::new(config.clone()),
            now: Stamp(T0),
            loads: BTreeMap::new(),
            last: Plan::default(),
            log: Vec::new(),
            config: config.clone(),
        };
        for name in config.host_names() {
            let doc = LoadDoc {
                host: name.to_owned(),
                executor: true,
                ncpus: 4,
                maxmem: 8000,
                mem: 8000.0,
                swp: 8000.0,
                tmp: 8000.0,
                host_type: "X".into(),
                ..LoadDoc::default()
            };
            cluster.loads.insert(name.to_owned(), (doc, 0));
            cluster.state.apply(&Event::HostSeen {
                name: name.to_owned(),
                up: true,
                boot: "b".into(),
                t: Stamp(T0),
            });
        }
        cluster.rebuild_table();
        cluster
    }

    /// `n` equal hosts `h1`, `h2`, .. of `slots` slots and one queue `normal`.
    pub(super) fn equal(n: u32, slots: u32) -> Cluster {
        Cluster::new(&format!(
            "hosts:\n- {{names: 'h[1-{n}]', slots: {slots}}}\nqueues:\n- {{name: normal}}\n"
        ))
    }

    /// Activates another cb.yaml.
    pub(super) fn reconfigure(&mut self, text: &str) {
        self.config = parsed(text);
        self.engine.configure(self.config.clone());
        self.rebuild_table();
    }

    pub(super) fn rebuild_table(&mut self) {
        self.table.rebuild(&self.config, &self.state, &self.loads);
    }

    /// A new load sample of a host.
    pub(super) fn sample(&mut self, host: &str, change: impl FnOnce(&mut LoadDoc)) {
        let doc = &mut self.loads.get_mut(host).expect("a host of the cluster").0;
        change(doc);
        doc.beat += 1;
        self.table.sample(&self.state, host, doc, 0);
    }

    /// Lets seconds pass.
    pub(super) fn after(&mut self, seconds: i64) {
        self.now = Stamp(self.now.0 + seconds * 1000);
    }

    /// Submits a job now; returns its id.
    pub(super) fn submit(&mut self, spec: Spec) -> u32 {
        self.submit_array(spec, "", 0)
    }

    /// Submits an array (`1-10`) with its limit of started elements, 0 = none.
    pub(super) fn submit_array(&mut self, spec: Spec, array: &str, array_limit: u32) -> u32 {
        let s = match self.state.find_spec(&spec) {
            Some(s) => s,
            None => {
                let id = self.state.next_spec().expect("numbers are left");
                let spec = Box::new(spec);
                self.state.apply(&Event::Spec { id, spec });
                id
            }
        };
        let id = self.state.next_id(1_000_000_000).expect("ids are left");
        self.state.apply(&Event::Submitted(Box::new(Submitted {
            id,
            s,
            t: self.now,
            command: "true".into(),
            array: array.into(),
            array_limit,
            tok: Token(u128::from(id)),
            ..Submitted::default()
        })));
        id
    }

    /// A job of user `u<uid>` with a requirement string.
    pub(super) fn ask(&mut self, slots: u32, res_req: &str) -> u32 {
        let res_req = crate::config::require::check_request(res_req, &self.config)
            .unwrap_or_else(|e| panic!("{e}"));
        self.submit(Spec {
            res_req,
            ..job(slots)
        })
    }

    /// Decides and carries out until nothing more can start: ids of jobs started, in order.
    pub(super) fn pass(&mut self) -> Vec<u32> {
        self.pass_keys().iter().map(|j| j.id).collect()
    }

    /// As [`Cluster::pass`], with the elements of arrays.
    pub(super) fn pass_keys(&mut self) -> Vec<JobKey> {
        let mut started = Vec::new();
        self.log.clear();
        loop {
            self.engine.sync(&mut self.state, &mut self.table);
            let plan = self
                .engine
                .plan(&self.state, &self.table, self.now, 1_000_000);
            self.carry_out(&plan);
            started.extend(plan.starts.iter().map(|s| s.j));
            let done = plan.starts.is_empty() && plan.requeues.is_empty() && !plan.more;
            self.last = plan;
            if done {
                assert_eq!(self.state.check(), Vec::<String>::new());
                return started;
            }
        }
    }

    /// Applies a plan to the state: started jobs run at once.
    pub(super) fn carry_out(&mut self, plan: &Plan) {
        let now = self.now;
        apply_plan(plan.clone(), now, self);
    }

    fn attempt(&self, j: JobKey) -> AttemptId {
        let at = self.state.work(j).map_or(0, |work| work.attempt);
        AttemptId { j, at }
    }

    /// A running job ends with exit code 0.
    pub(super) fn end(&mut self, id: u32) {
        self.end_key(JobKey::job(id), false);
    }

    /// A running job or element ends; `requeue`: it is pending again.
    pub(super) fn end_key(&mut self, j: JobKey, requeue: bool) {
        self.end_used(j, requeue, 0);
    }

    /// Ends a job after it has run for this many seconds.
    pub(super) fn end_after(&mut self, id: u32, seconds: i64) {
        let a = self.attempt(JobKey::job(id));
        let e = Box::new(Ended {
            a,
            start: self.now.0 - seconds * 1000,
            t: self.now.0,
            code: Some(0),
            ..Ended::default()
        });
        let (requeue, hold) = (false, false);
        self.state.apply(&Event::Ended { e, requeue, hold });
    }

    /// As [`Cluster::end_key`], with the CPU time it used.
    pub(super) fn end_used(&mut self, j: JobKey, requeue: bool, cpu_ms: u64) {
        let run = self.state.work(j).and_then(|work| work.run.as_ref());
        let mut e = Ended {
            a: self.attempt(j),
            start: run.map_or(self.now, |run| run.dispatch).0,
            t: self.now.0,
            code: Some(0),
            ..Ended::default()
        };
        e.u.cpu_ms = cpu_ms;
        let (e, hold) = (Box::new(e), false);
        self.state.apply(&Event::Ended { e, requeue, hold });
    }

    pub(super) fn stat(&self, id: u32) -> JobStat {
        self.state.stat(JobKey::job(id)).expect("a job of the test")
    }

    /// The hosts of a started job: `h1:2 h3:1`; empty if it does not run.
    pub(super) fn on(&self, id: u32) -> String {
        self.on_key(JobKey::job(id))
    }

    pub(super) fn on_key(&self, j: JobKey) -> String {
        let run = self.state.work(j).and_then(|work| work.run.as_deref());
        let shares = run.into_iter().flat_map(|run| &run.hosts);
        let shown = shares.map(|(id, n)| format!("{}:{n}", self.state.host_name(*id)));
        shown.collect::<Vec<_>>().join(" ")
    }

    /// Why a pending job waits, in words.
    pub(super) fn why(&self, id: u32) -> String {
        let class = self
            .state
            .class_of(self.state.job(id).expect("a job of the test").spec);
        let class = self.state.pending().class(class).expect("it is pending");
        class.why.to_string()
    }

    /// Why a job or element waits, in words, as a user is told.
    pub(super) fn told(&self, j: JobKey) -> String {
        let job = self.state.job(j.id).expect("a job of the test");
        let class = self.state.pending().class(self.state.class_of(job.spec));
        let own = job.own_reason(j.idx);
        let why = PendReason::current(own, class.map(|class| &class.why));
        why.map_or(String::new(), ToString::to_string)
    }
}
