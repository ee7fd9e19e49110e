//! A leader in memory with hosts that answer: what a cluster journals, orders and reports comes out
//! of it, and mutated requests and reports go into it. Owns what must hold after each turn.

use super::{Dice, Target};
use corral::config::{Config, OsNames};
use corral::intake::Requester;
use corral::journal::decode_event;
use corral::master::inbox;
use corral::model::{AttemptId, Mono, Now, Stamp, TermReason, Token};
use corral::record::event::Event;
use corral::record::frame::Line;
use corral::record::header::{FileKind, Header};
use corral::record::load::LoadDoc;
use corral::record::order::Order;
use corral::record::report::{Ended, Report, ReportRecord};
use corral::record::request::{RequestHead, Verb};
use corral::sched::depend;
use corral::state::State;
use corral::turn::{Core, Input, RequestIn, turn};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A cluster with something of everything.
pub const SITE: &str = "
cluster: {name: demo, administrators: [root]}
resources: [{name: lic, type: number, slotresource: yes}, {name: rack, type: text}]
hosts:
- {names: 'h[1-3]', slots: 4, tags: fs, resources: {lic: 2, gpu: 2, rack: r1}, unit: u1}
queues:
- {name: high, priority: 40, user_slots: 3}
- {name: urgent, priority: 50, preemption: {preempt: again}}
- {name: normal, priority: 30, rerunnable: no, exclusive: yes}
- {name: again, priority: 20, requeue_exit_values: '7', rerunnable: yes}
limits:
- {name: l1, queues: normal, users: all ~u7, slots: '[2 1:8:0-5:18:0] [5 5:18:01-1:7:59]'}
- {name: l2, per_user: all, resources: '[mem,5000] [gpu, 2]'}
general: {default_queue: normal, clean_period: 100}
";

/// Verbs of requests, a file a line.
const REQUESTS: &[&str] = &[
    r#"{"k":"submit","job":{"spec":{"cwd":"/tmp"},"command":"true"}}"#,
    r#"{"k":"submit","job":{"spec":{"cwd":"/tmp","queue":"high","min":2,"max":4,
       "res_req":"select[mem>1] rusage[mem=10]","limits":{"run_s":60,"mem_b":1048576}},
       "command":"sleep 1","name":"a","array":"1-10:2,15","array_limit":2}}"#,
    r#"{"k":"submit","job":{"spec":{"cwd":"/tmp","depend":"done(1)||ended(\"a\")","priority":5,
       "begin":1000500,"deadline":9000000,"hosts":"h1+2 h2","rerunnable":true,"queue":"again"},
       "command":"x","hold":true,"key":"k1"}}"#,
    r#"{"k":"submit","line":1,"job":{"spec":{"cwd":"/tmp","stdout":"o.%J","stderr":"e.%I",
       "project":"p","notify":"n","min":1,"max":3},"command":"one","name":"b"}}
       {"k":"submit","line":2,"same":true,"job":{"command":"two"}}
       {"k":"submit","line":3,"same":true,"job":{"command":"three","array":"1-3"}}"#,
    r#"{"k":"submit","job":{"spec":{"cwd":"/tmp","queue":"urgent","exclusive":true,
       "res_req":"{2*{mem>1}+1*{rusage[lic=1]}}||{3*{}}"},"command":"y"}}"#,
    r#"{"k":"signal","sel":{"ids":["1","2[3]"]},"how":"kill"}"#,
    r#"{"k":"signal","sel":{"all":true,"name":"a*","user":"all"},"how":{"number":12}}"#,
    r#"{"k":"signal","sel":{"ids":["3"]},"how":"stop"}{"k":"signal","sel":{"ids":["3"]},"how":"resume"}"#,
    r#"{"k":"signal","sel":{"ids":["4"]},"how":"force"}"#,
    r#"{"k":"requeue","sel":{"ids":["1"]},"hold":true,"states":["d","e","r"]}"#,
    r#"{"k":"switch","sel":{"ids":["2"]},"queue":"again"}"#,
    r#"{"k":"move","id":"2[3]","pos":1,"bottom":false}{"k":"move","id":"3","pos":2,"bottom":true}"#,
    r#"{"k":"run","id":"2[5]","hosts":"h1#2 h2","closed":true}"#,
    r#"{"k":"modify","sel":{"ids":["2"]},"changes":{"job":{"spec":{"priority":7,"min":3,"max":3,
       "res_req":"span[hosts=1]"},"command":"z","name":"c"},"set":["sp","n","R","Z","J"],
       "reset":["W","w"]}}"#,
    r#"{"k":"queue","names":["normal"],"act":"close","comment":"c"}
       {"k":"queue","names":["normal"],"act":"open","comment":""}"#,
    r#"{"k":"host","names":["h1"],"act":"close","comment":"c"}{"k":"host","names":["all"],"act":"open","comment":""}"#,
    r#"{"k":"host_lost","host":"h2"}"#,
    r#"{"k":"reconfig"}"#,
];

pub fn config() -> Arc<Config> {
    let loaded = corral::config::load(SITE.as_bytes(), "cb.yaml", &OsNames::ANY);
    Arc::new(loaded.unwrap_or_else(|p| panic!("{}", p[0])).config)
}

/// The records of the request files of the corpus.
pub fn requests() -> Vec<Vec<Vec<u8>>> {
    let one = |(n, verbs): (u128, &&str)| {
        let head = RequestHead {
            token: Token(n + 1),
            host: "h".into(),
            env: BTreeMap::from([("HOME".into(), "/root".into()), ("A".into(), "b\n".into())]),
            script: String::from("#!/bin/sh\ntrue\n").into(),
            ..RequestHead::default()
        };
        let header = Header::new(FileKind::Request, "", 0, 0);
        let json = |e: Result<Vec<u8>, serde_json::Error>| e.expect("plain data");
        let mut out = vec![
            json(serde_json::to_vec(&header)),
            json(serde_json::to_vec(&head)),
        ];
        for verb in serde_json::Deserializer::from_str(verbs).into_iter::<Verb>() {
            out.push(json(serde_json::to_vec(
                &verb.expect("the corpus is right"),
            )));
        }
        out
    };
    (0u128..).zip(REQUESTS).map(one).collect()
}

/// See the head of the file.
pub struct Scene {
    pub core: Core,
    pub events: Vec<Event>,
    /// Every order ever given, by host.
    pub orders: BTreeMap<String, Vec<Order>>,
    /// Every report ever made, by host.
    pub reports: BTreeMap<String, Vec<Report>>,
    unanswered: Vec<(String, Order)>,
    now: i64,
    tokens: u128,
}

impl Scene {
    pub fn new(config: &Arc<Config>) -> Scene {
        Scene::with(config, State::new(), 1_000_000)
    }

    pub fn with(config: &Arc<Config>, state: State, now: i64) -> Scene {
        let mut scene = Scene {
            core: Core::new(state, config.clone(), 1000),
            events: Vec::new(),
            orders: BTreeMap::new(),
            reports: BTreeMap::new(),
            unanswered: Vec::new(),
            now,
            tokens: 1 << 100,
        };
        scene.turn(vec![Input::Config(config.clone())]);
        for host in ["h1", "h2", "h3"] {
            scene.turn(vec![beat(host)]);
        }
        scene
    }

    /// A turn, and what must hold of what came out of it.
    pub fn turn(&mut self, inputs: Vec<Input>) {
        self.now += 10;
        let now = Now {
            wall: Stamp(self.now),
            mono: Mono(self.now.unsigned_abs()),
        };
        let ready = turn(&mut self.core, inputs, now);
        let broken = self.core.state.check();
        assert!(broken.is_empty(), "unsound: {broken:?}");
        for event in &ready.events {
            let json = serde_json::to_vec(event).expect("events are data");
            let line = Line {
                seq: 1,
                json: &json,
            };
            let read = decode_event(&line).expect("a leader reads what it wrote");
            assert_eq!(read, *event, "it reads something else than it wrote");
        }
        for (host, order) in &ready.orders {
            let json = serde_json::to_vec(order).expect("orders are data");
            let read: Order = serde_json::from_slice(&json).expect("hosts read orders");
            assert_eq!(read, *order);
            self.orders.entry(host.clone()).or_default().push(read);
        }
        for ack in &ready.acks {
            serde_json::to_vec(ack).expect("answers are data");
        }
        self.events.extend(ready.events);
        self.unanswered.extend(ready.orders);
    }

    /// What hosts say to the orders of the last turns.
    pub fn answer(&mut self, dice: &mut Dice) {
        let mut said: BTreeMap<String, Vec<Report>> = BTreeMap::new();
        for (host, order) in std::mem::take(&mut self.unanswered) {
            let (t, start) = (self.now, self.now);
            let end = |a: AttemptId, code, reason| {
                Report::Ended(Box::new(Ended {
                    a,
                    start,
                    t,
                    code,
                    reason,
                    ..Ended::default()
                }))
            };
            let out = said.entry(host).or_default();
            match order {
                Order::Start(o) => {
                    out.push(Report::Started {
                        a: o.a,
                        pid: 7,
                        t,
                        bind: None,
                    });
                    match dice.roll(4) {
                        0 => out.push(end(o.a, Some(0), TermReason::None)),
                        1 => out.push(end(o.a, Some(7), TermReason::None)),
                        2 => out.push(end(o.a, None, TermReason::ShepherdLost)),
                        _ => {}
                    }
                }
                Order::Part { a, .. } => out.push(Report::PartReady { a, bind: None }),
                Order::Cancel { a } => out.push(Report::Never {
                    a,
                    why: "no".into(),
                }),
                Order::Signal { a, reason, .. } => match dice.roll(3) {
                    0 => out.push(end(a, None, reason)),
                    1 => out.push(Report::Suspended { a, t }),
                    _ => out.push(Report::Resumed { a, t }),
                },
                _ => {}
            }
        }
        for (host, list) in said {
            self.reports
                .entry(host.clone())
                .or_default()
                .extend(list.clone());
            let told = |(seq, report)| ReportRecord {
                seq,
                run: Default::default(),
                report,
            };
            let reports = (1..).zip(list).map(told).collect();
            let (part, more) = (1, false);
            self.turn(vec![Input::Reports {
                host,
                part,
                reports,
                more,
            }]);
        }
    }

    /// One request of a user.
    pub fn ask(&mut self, uid: u32, mut head: RequestHead, verbs: Vec<Verb>) {
        self.tokens += 1;
        head.token = Token(self.tokens);
        let who = Requester {
            uid,
            user: format!("u{uid}"),
            groups: Vec::new(),
        };
        let (config, place) = (None, 0);
        let request = RequestIn {
            others: Vec::new(),
            requester: who,
            head,
            verbs,
            config,
            location: place,
        };
        self.turn(vec![Input::Request(Box::new(request))]);
    }

    /// Replaying what was journalled must give the state that was lived through.
    pub fn compare(&self) {
        let mut state = State::new();
        self.events.iter().for_each(|event| state.apply(event));
        for id in state.take_dep_dirty() {
            let verdict = depend::evaluate(&state, id).expect("a job that depends on something");
            state.set_dependency(id, verdict);
        }
        // Why something waits, and whether, is worked out anew by each leader.
        let all = |state: &State| {
            let rows = state.snapshot().map(|record| {
                let mut row = serde_json::to_value(record).expect("plain data");
                forget(&mut row, "why");
                forget(&mut row, "gated");
                row.to_string()
            });
            let mut all: Vec<String> = rows.collect();
            all.sort();
            all
        };
        let (lived, read) = (all(&self.core.state), all(&state));
        let odd = lived.iter().zip(&read).find(|(a, b)| a != b);
        assert!(
            odd.is_none() && lived.len() == read.len(),
            "replay differs: {odd:?}"
        );
    }

    /// A few turns of a leader who just recovered.
    pub fn live_briefly(&mut self) {
        self.answer(&mut Dice(5));
        self.now += 3_600_000;
        self.turn(Vec::new());
    }

    /// Lets every kind of thing happen a little.
    pub fn live(&mut self, dice: &mut Dice) {
        for _ in 0..2 {
            for records in requests() {
                let bytes = super::frames::join(&records);
                let (head, verbs) = inbox::parse(&bytes).expect("the corpus is right");
                self.ask([0, 5, 6][dice.roll(3)], head, verbs);
                self.answer(dice);
            }
        }
    }
}

fn forget(value: &mut serde_json::Value, name: &str) {
    match value {
        serde_json::Value::Array(all) => all.iter_mut().for_each(|v| forget(v, name)),
        serde_json::Value::Object(all) => {
            all.remove(name);
            all.values_mut().for_each(|v| forget(v, name));
        }
        _ => {}
    }
}

/// A sample of a host that is up.
pub fn sample(host: &str) -> LoadDoc {
    LoadDoc {
        host: host.into(),
        boot: "b".into(),
        incarnation: "i".into(),
        beat: 1,
        executor: true,
        ncpus: 4,
        mem: 9000.0,
        maxmem: 10000,
        host_type: "X".into(),
        values: BTreeMap::from([("lic".into(), "2".into())]),
        ..LoadDoc::default()
    }
}

fn beat(host: &str) -> Input {
    let (doc, silent_ms) = (Box::new(sample(host)), 0);
    let host = host.to_owned();
    Input::Load {
        host,
        doc,
        silent_ms,
    }
}

/// Requests through the drop box reader's parser into a leader's turns.
pub struct Requests {
    config: Arc<Config>,
    corpus: Vec<Vec<Vec<u8>>>,
    all: Vec<Vec<u8>>,
    scene: Scene,
    since: u32,
    uid: u32,
    bytes: Vec<u8>,
    rest: Dice,
}

impl Requests {
    pub fn new() -> Requests {
        let config = config();
        let corpus = requests();
        Requests {
            scene: Scene::new(&config),
            all: corpus.concat(),
            config,
            corpus,
            since: 0,
            uid: 0,
            bytes: Vec::new(),
            rest: Dice(1),
        }
    }
}

impl Target for Requests {
    fn make(&mut self, dice: &mut Dice) {
        if self.since == 100 {
            (self.scene, self.since) = (Scene::new(&self.config), 0);
        }
        self.since += 1;
        let mut records = self.corpus[dice.roll(self.corpus.len())].clone();
        if dice.roll(8) > 0 {
            super::frames::records(dice, &mut records, &self.all);
        }
        self.bytes = super::frames::join(&records);
        if dice.roll(6) == 0 {
            super::frames::bytes(dice, &mut self.bytes);
        }
        self.uid = [0, 5, 6, 1000][dice.roll(4)];
        self.rest = Dice(dice.roll(usize::MAX) as u64 | 1);
    }

    fn run(&mut self) {
        if let Ok((head, verbs)) = inbox::parse(&self.bytes) {
            self.scene.ask(self.uid, head, verbs);
            self.scene.answer(&mut self.rest);
        }
        if self.since == 100 {
            self.scene.compare();
        }
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        vec![(format!("request-of-{}", self.uid), self.bytes.clone())]
    }
}
