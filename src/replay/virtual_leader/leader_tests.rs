//! The simulator decides like a leader: both process the same random history, and every event that
//! follows from a plan must be the same.

use super::*;
use crate::model::{Mono, Now};
use crate::record::order::Order;
use crate::record::report::{Report, ReportRecord};
use crate::record::request::{RequestHead, Verb};
use crate::replay::rng::Rng;
use crate::replay::workload::JobRequest;
use crate::turn::{self, Core as LeaderCore, Input, Ready, RequestIn};

const CONFIG: &str = "
cluster: {name: demo, administrators: [root]}
hosts:
- {name: h1, slots: 4}
- {name: h2, slots: 4}
- {name: h3, slots: 2}
queues:
- {name: urgent, priority: 50, preemption: {preempt: low}}
- {name: express, priority: 45, preemption: {preempt: again, method: requeue}}
- {name: patient, priority: 44, preemption: {preempt: low, grace: 5}}
- {name: normal, priority: 30, policy: fairshare}
- {name: grows, priority: 25, elastic: yes}
- {name: again, priority: 20}
- {name: low, priority: 10, user_slots: 6}
general: {default_queue: normal}
";
const QUEUES: [&str; 7] = [
    "urgent", "express", "patient", "normal", "grows", "again", "low",
];
const JOBS: usize = 60;
const STEPS: usize = 150;
const BASE_MS: i64 = 1_000_000;

/// The events that follow from plans, without those that hosts report.
fn follows_from_a_plan(event: &Event) -> bool {
    matches!(
        event,
        Event::Dispatched { .. }
            | Event::Halted { .. }
            | Event::Unhalted { .. }
            | Event::Warned { .. }
            | Event::Signalled { .. }
            | Event::Resized { .. }
    )
}

/// A leader whose hosts carry out everything at once.
struct Leader {
    core: LeaderCore,
    events: Vec<Event>,
    now: i64,
    seq: u64,
}

impl Leader {
    fn turn(&mut self, inputs: Vec<Input>) -> Ready {
        let now = Now {
            wall: Stamp(self.now),
            mono: Mono(self.now.unsigned_abs()),
        };
        let ready = turn::turn(&mut self.core, inputs, now);
        let compared = ready.events.iter().filter(|e| follows_from_a_plan(e));
        self.events.extend(compared.cloned());
        assert_eq!(self.core.state.check(), Vec::<String>::new());
        ready
    }

    /// Takes turns until no host has anything to report.
    fn settle(&mut self, inputs: Vec<Input>) {
        let mut inputs = inputs;
        loop {
            let ready = self.turn(std::mem::take(&mut inputs));
            for (host, order) in ready.orders {
                let report = obey(&order, self.now, &self.core.state);
                inputs.extend(report.map(|report| self.report(&host, report)));
            }
            if inputs.is_empty() && !ready.more {
                return;
            }
        }
    }

    fn report(&mut self, host: &str, report: Report) -> Input {
        self.seq += 1;
        Input::Reports {
            host: host.to_owned(),
            part: 1,
            reports: vec![ReportRecord {
                seq: self.seq,
                run: Default::default(),
                report,
            }],
            more: false,
        }
    }

    fn submit(&mut self, requester: &Requester, job: Submission, n: u32) {
        let head = RequestHead {
            token: Token(u128::from(n)),
            ..RequestHead::default()
        };
        let submit = Verb::Submit {
            line: 0,
            same: false,
            job: Box::new(job),
        };
        let request = RequestIn {
            others: Vec::new(),
            requester: requester.clone(),
            head,
            verbs: vec![submit],
            config: None,
            location: 0,
        };
        self.settle(vec![Input::Request(Box::new(request))]);
    }
}

/// The report of a host that carries out an order at once.
fn obey(order: &Order, t: i64, state: &State) -> Option<Report> {
    match order {
        Order::Start(start) => Some(Report::Started {
            a: start.a,
            pid: 1,
            t,
            bind: None,
        }),
        Order::Part { a, .. } => Some(Report::PartReady { a: *a, bind: None }),
        Order::Signal { a, act, reason, .. } => Some(match act {
            OrderAct::Stop => Report::Suspended { a: *a, t },
            OrderAct::Resume => Report::Resumed { a: *a, t },
            _ => Report::Ended(Box::new(ended(*a, t, *reason, state))),
        }),
        _ => None,
    }
}

fn ended(a: AttemptId, t: i64, reason: TermReason, state: &State) -> Ended {
    let run = state.work(a.j).and_then(|work| work.run.as_deref());
    Ended {
        a,
        start: run.map_or(0, |run| run.start.0),
        t,
        code: (reason == TermReason::None).then_some(0),
        reason,
        u: used(run, Stamp(t)),
        ..Ended::default()
    }
}

fn workload(rng: &mut Rng) -> Workload {
    let ask = |queue: &str, user: u64, min: u32, max: u32| JobRequest {
        user: format!("u{user}"),
        queue: queue.to_owned(),
        min,
        max,
        ..JobRequest::default()
    };
    let mut asks = Vec::new();
    let mut jobs = Vec::new();
    for id in 0..JOBS {
        let queue = QUEUES[rng.below(QUEUES.len() as u64) as usize];
        let min = 1 + rng.below(3) as u32;
        let max = if queue == "grows" { min + 2 } else { min };
        asks.push(ask(queue, rng.below(3), min, max));
        jobs.push(Job {
            id: id as u64 + 1,
            request: id as u32,
            ..Job::default()
        });
    }
    Workload {
        jobs,
        requests: asks,
        ..Workload::default()
    }
}

fn leader(config: &Arc<Config>, users: &[Requester]) -> Leader {
    let mut leader = Leader {
        core: LeaderCore::new(State::new(), config.clone(), 1),
        events: Vec::new(),
        now: BASE_MS,
        seq: 0,
    };
    users
        .iter()
        .for_each(|user| leader.core.note_groups(&user.user, &user.groups));
    leader.settle(vec![Input::Config(config.clone())]);
    let hosts = Hosts::new(config, 1);
    for (host, (doc, silent_ms)) in hosts.samples() {
        let input = Input::Load {
            host: host.clone(),
            doc: Box::new(doc.clone()),
            silent_ms: *silent_ms,
        };
        leader.settle(vec![input]);
    }
    leader
}

/// One random history of both.
fn live_through(seed: u64) {
    let mut rng = Rng::new(seed);
    let config = crate::replay::trace::load(CONFIG.as_bytes(), "cb.yaml").unwrap();
    let workload = workload(&mut rng);
    let principals = Principals::of(&workload);
    let mut sim = VirtualLeader::new(ClusterSetting {
        workload: &workload,
        principals: &principals,
        config: config.clone(),
        base_ms: BASE_MS,
        cores: 1,
        waste: false,
        live: None,
    });
    let mut leader = leader(&config, &sim.users);
    let (mut next, mut acts, mut compared) = (0u32, Vec::new(), 0);
    for _ in 0..STEPS {
        leader.now += 1_000;
        let now_ms = leader.now - BASE_MS;
        let running: Vec<JobKey> = leader.core.state.all_started().collect();
        let runs = |j: &&JobKey| leader.core.state.stat(**j) == Some(crate::model::JobStat::Run);
        let running: Vec<JobKey> = running.iter().filter(runs).copied().collect();
        if (next as usize == JOBS || rng.chance(0.5)) && !running.is_empty() {
            let j = running[rng.below(running.len() as u64) as usize];
            let work = leader.core.state.work(j).unwrap();
            let host = work.run.as_ref().unwrap().hosts[0].0;
            let host = leader.core.state.host_name(host).to_string();
            let a = AttemptId {
                j,
                at: work.attempt,
            };
            let end = ended(a, leader.now, TermReason::None, &leader.core.state);
            let input = leader.report(&host, Report::Ended(Box::new(end)));
            sim.end(sim.place(j), now_ms, false);
            leader.settle(vec![input]);
        } else if (next as usize) < JOBS {
            let ask = workload.request(&workload.jobs[next as usize]);
            let spec = Spec {
                queue: ask.queue.clone(),
                min: ask.min,
                max: ask.max,
                cwd: "/".to_owned(),
                ..Spec::default()
            };
            let job = Submission {
                spec,
                command: "-".to_owned(),
                ..Submission::default()
            };
            let who = &sim.users[principals.by_request[next as usize].0 as usize];
            leader.submit(who, job, next + 1);
            sim.submit(next, now_ms).unwrap();
            next += 1;
        }
        while sim.plan(now_ms, &mut acts).more {}
        let kept = sim.log.iter().filter(|e| follows_from_a_plan(e));
        let kept: Vec<&Event> = kept.collect();
        let theirs: Vec<&Event> = leader.events.iter().collect();
        assert_eq!(
            kept[compared..],
            theirs[compared..],
            "seed {seed}, {now_ms} ms"
        );
        compared = kept.len();
    }
    assert!(compared > JOBS / 2, "seed {seed}: too little happened");
}

#[test]
fn a_simulated_cluster_and_a_leader_live_through_the_same_history() {
    (1..=12).for_each(live_through);
}
