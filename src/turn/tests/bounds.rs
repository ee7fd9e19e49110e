//! The maximum cost of a request, and that nothing is kept of forgotten jobs.

use super::*;
use crate::turn::upkeep::{JUDGE_EACH, JUDGE_LOOKS};

#[test]
fn deadlines_of_forgotten_jobs_are_forgotten() {
    let mut b = TestLeader::new();
    let far = Stamp(b.now + 365 * 86_400_000);
    b.submit(5, |j| j.spec.deadline = Some(far));
    b.submit(5, |j| (j.spec.deadline, j.hold) = (Some(far), true));
    let changes = crate::record::request::Changes {
        reset: vec!["t".into()],
        ..Default::default()
    };
    let sel = selector(&["2"]);
    let changes = Box::new(changes);
    b.ask(5, vec![Verb::Modify { sel, changes }]);
    assert_eq!(b.core.state.next_deadline(), Some(far));
    b.end("h1", 1, 1, 0);
    b.now += 101_000;
    b.turn(Vec::new());
    assert!(b.core.state.job(1).is_none());
    assert_eq!(b.core.state.next_deadline(), None);
}

const WIDE: &str = "
cluster: {name: demo, administrators: [root]}
hosts:
- {name: h1, slots: 2}
queues:
- {name: normal, priority: 30}
general: {default_queue: normal, clean_period: 100}
";

fn signal(id: &str, action: SignalAction) -> Verb {
    let sel = selector(&[id]);
    Verb::Signal { sel, how: action }
}

impl TestLeader {
    /// Adds a request and takes turns until it is answered. Returns the answer, the number of turns
    /// and the events.
    fn ask_long(&mut self, uid: u32, verbs: Vec<Verb>) -> (Ack, usize, Vec<Event>) {
        let before = self.events.len();
        self.tokens += 1;
        self.begin(uid, verbs, Token(self.tokens));
        let mut turns = 1;
        while self.last.acks.is_empty() {
            self.turn_quickly(Vec::new());
            turns += 1;
        }
        (
            self.last.acks[0].clone(),
            turns,
            self.events[before..].to_vec(),
        )
    }

    fn begin(&mut self, uid: u32, verbs: Vec<Verb>, token: Token) {
        let request = RequestIn {
            requester: Requester {
                uid,
                user: format!("u{uid}"),
                groups: Vec::new(),
            },
            head: RequestHead {
                token,
                ..RequestHead::default()
            },
            verbs,
            others: Vec::new(),
            config: None,
            location: token.0 as usize,
        };
        self.turn_quickly(vec![Input::Request(Box::new(request))]);
    }

    /// A turn whose state is not checked against its own jobs afterwards: that takes long with many
    /// jobs.
    fn turn_quickly(&mut self, inputs: Vec<Input>) {
        self.now += 10;
        let now = self.present();
        self.last = turn(&mut self.core, inputs, now);
        assert!(
            self.last.units <= TURN_UNITS + 30_000,
            "{} units",
            self.last.units
        );
        self.events.extend(self.last.events.iter().cloned());
    }
}

/// An array whose elements all have separate records: they are held and stopped one by one.
fn array(b: &mut TestLeader, n: u32) {
    b.submit(5, |j| (j.array, j.hold) = (format!("1-{n}"), true));
    let (ack, ..) = b.ask_long(5, vec![signal(&format!("1[1-{n}]"), SignalAction::Resume)]);
    assert!(ack.ok, "{ack:?}");
}

#[test]
fn a_small_request_that_means_much_is_refused_whole() {
    let mut b = TestLeader::with(WIDE);
    array(&mut b, 1000);
    let verbs = (0..100).map(|n| match n % 2 {
        0 => signal("1[1-100000]", SignalAction::Stop),
        _ => signal("1[1-100000]", SignalAction::Resume),
    });
    let (ack, turns, events) = b.ask_long(5, verbs.collect());
    assert!(!ack.ok && ack.error.contains("1000000 jobs and elements"));
    assert_eq!((turns, events), (1, Vec::new()));
}

#[test]
fn a_long_request_takes_several_turns_and_others_go_on_in_between() {
    let mut b = TestLeader::with(WIDE);
    array(&mut b, 40_000);
    b.begin(5, vec![signal("1", SignalAction::Stop)], Token(1 << 20));
    assert!(b.last.acks.is_empty() && b.last.more && b.last.finished_requests.is_empty());
    let part = b.events.last().unwrap().clone();
    assert!(
        matches!(part, Event::PartHandled { verb: 0, at: 0, within, .. } if within > 1000),
        "{part:?}"
    );
    // Another user's job is accepted and started in the next turn.
    b.begin(6, vec![submission(|_| {})], Token(77));
    assert_eq!(b.last.acks[0].tok, Token(77));
    assert_eq!(b.core.state.job(2).map(|job| job.id), Some(2));
    let mut turns = 2;
    while b.last.finished_requests != [1 << 20] {
        b.turn_quickly(Vec::new());
        turns += 1;
    }
    assert!((4..20).contains(&turns), "{turns} turns");
    assert_eq!(b.last.acks[0].results[0].text, "is being stopped");
    // Two of them run.
    assert_eq!(b.core.state.pending_jobs_of(5), 39_998);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    assert_eq!(b.core.state.check(), Vec::<String>::new());
    assert!(b.core.state.partial_request(Token(1 << 20)).is_none());
}

#[test]
fn a_leader_that_takes_over_goes_on_where_the_last_one_was() {
    let mut b = TestLeader::with(WIDE);
    for pack in [false, true] {
        let verbs = match pack {
            false => {
                array(&mut b, 30_000);
                vec![signal("1[1-30000]", SignalAction::Stop)]
            }
            true => pack_of(4000),
        };
        let token = Token(1 << 30 | u128::from(pack));
        b.begin(5, verbs.clone(), token);
        assert!(b.last.acks.is_empty());
        // Another leader has only the journal and the request.
        let known: Vec<SnapRecord> = b.replayed().snapshot().collect();
        let config = b.core.config.clone();
        let mut state = State::new();
        known.into_iter().for_each(|record| state.restore(record));
        b.core = Core::new(state, config.clone(), 1000);
        b.turn_quickly(vec![Input::Config(config)]);
        let before = b.events.len();
        b.begin(5, verbs, token);
        while b.last.acks.is_empty() {
            b.turn_quickly(Vec::new());
        }
        let made = |events: &[Event]| {
            let one = |e: &&Event| matches!(e, Event::Submitted(_));
            events.iter().filter(one).count()
        };
        if !pack {
            let held = |e: &&Event| matches!(e, Event::Held { held: true, .. });
            assert_eq!(b.events.iter().filter(held).count(), 29_998);
            let first = b.events[before..].iter().find_map(|e| match e {
                Event::Held { j, .. } => Some(j.idx),
                _ => None,
            });
            assert!(first.is_some_and(|idx| idx > 5000), "{first:?}");
        } else {
            let ids = &b.last.acks[0].ids;
            assert_eq!(ids.iter().map(|run| run.n).sum::<u32>(), 4000);
            assert!((1..4000).contains(&made(&b.events[before..])));
            assert_eq!(made(&b.events), 4001, "with the array");
            b.begin(5, pack_of(4000), token);
            assert_eq!(made(&b.events), 4001, "a repeated token makes no job");
        }
    }
}

fn pack_of(n: u32) -> Vec<Verb> {
    let line = |line: u32| {
        let Verb::Submit { job, .. } = submission(|j| j.hold = true) else {
            unreachable!()
        };
        let same = line > 1;
        Verb::Submit { line, same, job }
    };
    (1..=n).map(line).collect()
}

#[test]
fn what_is_so_already_makes_no_event() {
    let mut b = TestLeader::with(WIDE);
    b.submit(5, |_| {});
    b.submit(5, |j| j.hold = true);
    for (id, how, again) in [
        ("1", SignalAction::Stop, true),
        ("1", SignalAction::Resume, true),
        ("2", SignalAction::Stop, false),
        ("2", SignalAction::Resume, true),
        ("2", SignalAction::Resume, false),
        ("1", SignalAction::Kill, true),
        ("1", SignalAction::Kill, false),
    ] {
        let (ack, _, events) = b.ask_long(5, vec![signal(id, how); 3]);
        let about = |e: &&Event| matches!(e, Event::Signalled { .. } | Event::Held { .. });
        let n = events.iter().filter(about).count();
        assert_eq!(n, usize::from(again), "{id} {how:?} {ack:?}");
    }
}

#[test]
fn moves_cost_no_walk_and_none_to_the_present_place() {
    let mut b = TestLeader::with(WIDE);
    let (ack, ..) = b.ask_long(5, pack_of(20_000));
    assert!(ack.ok);
    b.ask_long(5, vec![signal("0", SignalAction::Resume)]);
    let moves = |n: u32| -> Vec<Verb> {
        let one = |n: u32| Verb::Move {
            id: (10_000 + n % 2).to_string(),
            pos: 1,
            bottom: false,
        };
        (0..n).map(one).collect()
    };
    let (ack, turns, events) = b.ask_long(5, moves(5_000));
    assert_eq!(ack.results[0].text, "has been moved to position 1 from top");
    assert!(turns < 10, "{turns} turns");
    let moved = |e: &&Event| matches!(e, Event::Moved { .. });
    assert_eq!(events.iter().filter(moved).count(), 5_000);
    let line = |b: &TestLeader| -> Vec<u32> {
        let classes = b.core.state.pending().classes();
        let jobs = classes.flat_map(|(_, class)| class.jobs.iter());
        jobs.map(|(_, j)| j.id).take(2).collect()
    };
    assert_eq!(line(&b), [10_001, 10_000]);
    let (_, _, events) = b.ask_long(5, vec![moves(2).remove(1)]);
    assert_eq!(events, Vec::new(), "it is there already");
}

#[test]
fn a_pack_that_depends_on_names_looks_at_few_jobs() {
    let mut b = TestLeader::with(WIDE);
    let line = |line: u32| {
        let Verb::Submit { job, .. } = submission(|j| {
            j.hold = true;
            j.name = format!("step-{line}");
            if line > 1 {
                j.spec.depend = format!("done(step-{})", line - 1);
            }
        }) else {
            unreachable!()
        };
        Verb::Submit {
            line,
            same: false,
            job,
        }
    };
    let before = b.core.state.job_count();
    let (ack, turns, _) = b.ask_long(5, (1..=3000).map(line).collect());
    assert!(ack.ok && ack.results.is_empty(), "{ack:?}");
    assert_eq!(b.core.state.job_count(), before + 3000);
    // 150 for each job, 1 and 10 for each name: a complete walk would take 4.5 million more.
    assert!(turns <= 3, "{turns} turns");
    assert_eq!(b.core.state.check(), Vec::<String>::new());
}

/// A name means the job of the same pack, also after a takeover, and not older ones beside it.
#[test]
fn a_name_in_a_pack_means_the_job_of_an_earlier_line() {
    let line = |(line, name, depend): (u32, &str, &str)| {
        let Verb::Submit { job, .. } = submission(|j| {
            (j.hold, j.name) = (true, name.to_owned());
            j.spec.depend = depend.to_owned();
        }) else {
            unreachable!()
        };
        let same = false;
        Verb::Submit { line, same, job }
    };
    let mut b = TestLeader::with(WIDE);
    b.submit(5, |j| (j.hold, j.name) = (true, "prep".into()));
    b.submit(5, |j| (j.hold, j.name) = (true, "old".into()));
    let pack = [
        (1, "prep", ""),
        (2, "run", "done(prep)"),
        (3, "end", "ended(old)"),
    ];
    assert!(b.ask(5, pack.map(line).to_vec()).ok);
    let depend = |id: u32| b.core.state.spec_of(id).unwrap().depend.clone();
    assert_eq!(
        (depend(4), depend(5)),
        ("done(3)".into(), "ended(2)".into())
    );
}

/// If many jobs wait for one job, a turn evaluates a limited number of them: none is left out.
#[test]
fn the_end_of_a_job_that_many_wait_for_is_spread_over_turns() {
    let mut b = TestLeader::with(WIDE);
    b.submit(5, |j| j.hold = true);
    let Verb::Submit { job, .. } = submission(|j| {
        j.hold = true;
        j.spec.depend = "ended(1)".into();
    }) else {
        unreachable!()
    };
    let line = |line: u32| Verb::Submit {
        line,
        same: line > 1,
        job: job.clone(),
    };
    let n = 12_000;
    assert!(b.ask_long(5, (1..=n).map(line).collect()).0.ok);
    while b.core.state.has_dep_dirty() {
        b.turn_quickly(Vec::new());
    }
    let gated = |b: &TestLeader| {
        let waits = |id: &u32| b.core.state.job(*id).is_some_and(|job| job.gated);
        (2..=n + 1).filter(waits).count() as u32
    };
    assert_eq!(gated(&b), n);
    b.begin(5, vec![signal("1", SignalAction::Kill)], Token(77));
    let left = gated(&b);
    assert!(
        u64::from(n - left) * JUDGE_EACH <= JUDGE_LOOKS,
        "{left} left"
    );
    assert!(left > 0 && b.last.more, "it does not go on by itself");
    b.turn_quickly(Vec::new());
    assert_eq!(gated(&b), 0);
}
