//! A copy of the cluster with the leader's own scheduler: used to find out why jobs wait, and to
//! try changes. Pure: the state, the load of the hosts and the time come as arguments.
//!
//! Owns how a change is tried and undone. Never decides where a job starts: that is `sched`.

mod read;

pub(crate) use read::read;

use crate::config::{Config, Queue};
use crate::intake::Requester;
use crate::model::{AttemptId, JobKey, PendReason, Spec, Stamp, TermReason, Token};
use crate::record::event::{Event, Submitted};
use crate::record::order::Act;
use crate::record::request::{HostAct, QueueAct};
use crate::sched::plan_applier::{Sink, apply_plan};
use crate::sched::{Engine, Examination, HostTable, Opening, Plan, depend};
use crate::state::State;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of starts in one pass, as in a leader's turn.
const STARTS_MAX: usize = 4096;
/// Maximum number of passes until nothing more starts: the view may be slightly older than the
/// leader's decisions.
const PASSES_MAX: usize = 8;
/// The name under which trial changes are made.
const TRIAL_USER: &str = "cjobs --why";

pub(crate) use crate::replay::live_cluster::Samples;

/// See the top of this file.
pub(crate) struct ClusterCopy {
    pub state: State,
    pub config: Arc<Config>,
    pub now: Stamp,
    pub samples: Samples,
    /// Groups of users in the operating system.
    pub groups: BTreeMap<String, Vec<String>>,
    /// The time zone in which windows are defined.
    pub zone: TimeZone,
    table: HostTable,
    engine: Engine,
}

/// A change to a job or to the cluster.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TrialAction {
    /// The job gets this specification.
    Spec(Box<Spec>),
    /// A held job is released.
    Release,
    /// The array may have this many started elements.
    ArrayLimit(u32),
    OpenHost(String),
    UnlockHost(String),
    ActivateQueue(String),
}

/// The result of a trial.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TrialResult {
    /// The job starts at once on these hosts.
    Starts(Vec<String>),
    /// The job waits, for this reason if it is known.
    StillWaiting(Option<PendReason>),
}

impl ClusterCopy {
    /// Starts at once what can start: the view may be older than the leader's last decisions.
    pub(crate) fn new(
        state: State,
        config: Arc<Config>,
        samples: Samples,
        groups: BTreeMap<String, Vec<String>>,
        zone: TimeZone,
        now: Stamp,
    ) -> ClusterCopy {
        let mut engine = Engine::new(config.clone());
        engine.set_zone(zone.clone());
        for (user, groups) in &groups {
            engine.note_groups(user, groups);
        }
        let mut copy = ClusterCopy {
            state,
            config,
            now,
            samples,
            groups,
            zone,
            table: HostTable::default(),
            engine,
        };
        copy.rebuild_hosts();
        copy.run_scheduler();
        copy
    }

    fn rebuild_hosts(&mut self) {
        self.table.rebuild(&self.config, &self.state, &self.samples);
    }

    /// Starts what can start now, and records why the other jobs wait.
    pub(crate) fn run_scheduler(&mut self) {
        for _ in 0..PASSES_MAX {
            let plan = self.plan_pass();
            let started = !plan.starts.is_empty();
            self.carry_out(plan);
            if !started {
                return;
            }
        }
    }

    /// Plans one pass without carrying it out.
    fn plan_pass(&mut self) -> Plan {
        depend::evaluate_due(&mut self.state, self.config.general.orphans);
        self.engine.sync(&mut self.state, &mut self.table);
        self.engine
            .plan(&self.state, &self.table, self.now, STARTS_MAX)
    }

    /// Carries out starts and reasons only; jobs that would be stopped for others stay as they are.
    fn carry_out(&mut self, plan: Plan) {
        let plan = Plan {
            starts: plan.starts,
            reasons: plan.reasons,
            at_limit: plan.at_limit,
            ..Plan::default()
        };
        let now = self.now;
        apply_plan(plan, now, &mut ImmediateStarts(&mut self.state, now));
    }

    /// Why a job or element waits, as this scheduler sees it. `None`: it does not wait.
    pub(crate) fn reason(&self, j: JobKey) -> Option<PendReason> {
        let job = self.state.job(j.id)?;
        if !self.state.stat(j)?.is_waiting() {
            return None;
        }
        let class = self.state.class_of(job.spec);
        let class = self.state.pending().class(class).map(|class| &class.why);
        let why = PendReason::current(job.own_reason(j.idx), class);
        Some(why.cloned().unwrap_or(PendReason::New))
    }

    /// At which stage each host is excluded for a waiting job. `None`: the job is not considered
    /// now.
    pub(crate) fn examine(&mut self, j: JobKey) -> Option<Examination> {
        let s = self.state.job(j.id)?.spec;
        let class = self.state.class_of(s);
        self.engine
            .examine(&self.state, &self.table, self.now, class)
    }

    /// Limits apply to a user also by these groups.
    pub(crate) fn note_groups(&mut self, user: &str, groups: &[String]) {
        self.engine.note_groups(user, groups);
    }

    /// What hosts and limits leave to a job like this that would start now, and until when. The job
    /// is added to the pending jobs of this copy.
    pub(crate) fn openings(&mut self, spec: &Spec) -> Vec<Opening> {
        let Some((_, s)) = self.add_job(spec, (String::new(), 0)) else {
            return Vec::new();
        };
        self.engine.sync(&mut self.state, &mut self.table);
        let class = self.state.class_of(s);
        let found = self
            .engine
            .openings(&self.state, &self.table, self.now, class);
        found.unwrap_or_default()
    }

    /// Adds a pending job to this copy; `array`: its elements and the limit of started ones.
    /// Returns the numbers of the job and of its specification.
    fn add_job(&mut self, spec: &Spec, array: (String, u32)) -> Option<(u32, u32)> {
        let (id, new) = (self.state.next_id(u32::MAX)?, self.state.next_spec()?);
        let s = self.state.find_spec(spec).unwrap_or(new);
        let spec = Box::new(spec.clone());
        self.state.apply(&Event::Spec { id: s, spec });
        self.state.apply(&Event::Submitted(Box::new(Submitted {
            id,
            s,
            t: self.now,
            command: TRIAL_USER.to_owned(),
            name: String::new(),
            array: array.0,
            array_limit: array.1,
            hold: false,
            tok: Token(0),
            line: 0,
            key: String::new(),
            cron: None,
        })));
        Some((id, s))
    }

    /// Submits a job to this copy: the result, and the hosts that fit, each taken alone. `None`: no
    /// number is left for it.
    pub(crate) fn try_submission(
        &mut self,
        spec: &Spec,
        array: (String, u32),
    ) -> Option<(TrialResult, Vec<String>)> {
        let (id, _) = self.add_job(spec, array)?;
        let j = JobKey::job(id);
        self.engine.sync(&mut self.state, &mut self.table);
        let found = self.examine(j).unwrap_or_default();
        let tried = match found.never {
            Some(why) => TrialResult::StillWaiting(Some(why)),
            None => self.try_changes(j, &[]),
        };
        Some((tried, found.fitting))
    }

    /// The owner of a specification, as known to the leader.
    pub(crate) fn owner(&self, spec: &Spec) -> Requester {
        Requester {
            uid: spec.uid,
            user: spec.user.clone(),
            groups: self.groups.get(&spec.user).cloned().unwrap_or_default(),
        }
    }

    /// Applies the changes, checks whether the job starts in the next pass, and undoes them.
    pub(crate) fn try_changes(&mut self, j: JobKey, actions: &[TrialAction]) -> TrialResult {
        let mut undo = Vec::new();
        for action in actions {
            undo.extend(self.apply_action(j.id, action));
        }
        let hosts = actions.iter().any(|action| {
            matches!(
                action,
                TrialAction::OpenHost(_) | TrialAction::UnlockHost(_)
            )
        });
        if hosts {
            self.rebuild_hosts();
        }
        let plan = self.plan_pass();
        let start = plan.starts.iter().find(|start| start.j.id == j.id);
        let tried = match start {
            Some(start) => {
                let name = |(id, _): &(_, u32)| self.state.host_name(*id).to_string();
                TrialResult::Starts(start.hosts.iter().map(name).collect())
            }
            None => {
                let never = self.examine(j).and_then(|found| found.never);
                TrialResult::StillWaiting(never.or_else(|| self.reason_in(&plan, j)))
            }
        };
        for event in undo.iter().rev() {
            self.state.apply(event);
        }
        if hosts {
            self.rebuild_hosts();
        }
        self.undo_starts(&plan);
        tried
    }

    /// Undoes the starts that the engine has booked but that do not take place.
    fn undo_starts(&mut self, plan: &Plan) {
        let paced = |queue: &Queue| queue.job_accept_interval_ms > 0;
        match self.config.queues.iter().any(paced) {
            // The time of each host's last start before this pass is not known.
            true if !plan.starts.is_empty() => self.engine.configure(self.config.clone()),
            _ => plan
                .starts
                .iter()
                .for_each(|start| self.state.mark_changed(start.j)),
        }
    }

    fn reason_in(&self, plan: &Plan, j: JobKey) -> Option<PendReason> {
        let job = self.state.job(j.id)?;
        let class = self.state.class_of(job.spec);
        let found = plan.reasons.iter().find(|(id, _)| *id == class);
        let before = || Some(&self.state.pending().class(class)?.why);
        let found = found.map(|(_, why)| why).or_else(before);
        let found = found.filter(|why| **why != PendReason::New);
        PendReason::current(job.own_reason(j.idx), found).cloned()
    }

    /// Applies a change; returns the events that undo it, the last one first.
    fn apply_action(&mut self, id: u32, action: &TrialAction) -> Vec<Event> {
        let (j, t, by) = (JobKey::job(id), self.now, TRIAL_USER.to_owned());
        let (event, back) = match action {
            TrialAction::Spec(spec) => return self.carry_spec(j, spec),
            TrialAction::Release => {
                let admin = self.state.job(id).and_then(|job| job.own_reason(0))
                    == Some(&PendReason::HeldByAdmin);
                let hold_event = |held, by| Event::Held {
                    j,
                    held,
                    admin,
                    by,
                    t,
                };
                (hold_event(false, by.clone()), hold_event(true, by))
            }
            TrialAction::ArrayLimit(n) => {
                let array = self.state.job(id).and_then(|job| job.array());
                let old = array.map_or(0, |array| array.limit);
                let limit = |n, by| Event::Renamed {
                    j,
                    name: None,
                    command: None,
                    array_limit: Some(n),
                    by,
                    t,
                };
                (limit(*n, by.clone()), limit(old, by))
            }
            TrialAction::OpenHost(name) | TrialAction::UnlockHost(name) => {
                let act = |act, by| Event::Host {
                    name: name.clone(),
                    act,
                    by,
                    comment: String::new(),
                    t,
                };
                let (begins, ends) = match action {
                    TrialAction::OpenHost(_) => (HostAct::Open, HostAct::Close),
                    _ => (HostAct::Unlock, HostAct::Lock { for_s: 0 }),
                };
                (act(begins, by.clone()), act(ends, by))
            }
            TrialAction::ActivateQueue(name) => {
                let act = |act, by| Event::Queue {
                    name: name.clone(),
                    act,
                    by,
                    comment: String::new(),
                    t,
                };
                (
                    act(QueueAct::Activate, by.clone()),
                    act(QueueAct::Inactivate, by),
                )
            }
        };
        self.state.apply(&event);
        vec![back]
    }

    fn carry_spec(&mut self, j: JobKey, spec: &Spec) -> Vec<Event> {
        let Some(job) = self.state.job(j.id) else {
            return Vec::new();
        };
        let (old, t) = (job.spec, self.now);
        let before = self.state.spec(old).clone();
        let found = self.state.find_spec(spec);
        let Some(s) = found.or_else(|| self.state.next_spec()) else {
            return Vec::new();
        };
        if found.is_none() {
            let spec = Box::new(spec.clone());
            self.state.apply(&Event::Spec { id: s, spec });
        }
        let changed = |s| Event::Changed {
            j,
            s,
            by: TRIAL_USER.to_owned(),
            what: String::new(),
            t,
        };
        self.state.apply(&changed(s));
        // The old specification is dropped if no other job has it.
        let spec = Box::new(before.as_ref().clone());
        vec![changed(old), Event::Spec { id: old, spec }]
    }
}

/// A sink of events: jobs that are bound to hosts start there at once.
struct ImmediateStarts<'a>(&'a mut State, Stamp);

impl Sink for ImmediateStarts<'_> {
    fn state(&mut self) -> &mut State {
        self.0
    }

    fn emit(&mut self, event: Event) {
        self.0.apply(&event);
    }

    fn bound(&mut self, a: AttemptId) {
        self.0.apply(&Event::Started {
            a,
            pid: 1,
            t: self.1,
            bind: None,
        });
    }

    fn signal(&mut self, _j: JobKey, _act: Act, _reason: TermReason) {}

    fn resized(&mut self, _j: JobKey, _added: &[crate::model::Share]) {}
}
