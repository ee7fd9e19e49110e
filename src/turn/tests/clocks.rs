//! Wall clocks that are set forward and back, and leaders whose clock is wrong.

use super::*;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const A: AttemptId = AttemptId {
    j: JobKey { id: 1, idx: 0 },
    at: 1,
};

/// A sample of a host whose clock is `ahead_ms` ahead of the file server's.
fn sample(b: &TestLeader, host: &str, ahead_ms: i64) -> Input {
    let mut doc = b.core.inputs.loads[host].0.clone();
    doc.clock_ahead_ms = Some(ahead_ms);
    Input::Load {
        host: host.into(),
        doc: Box::new(doc),
        silent_ms: 0,
    }
}

#[test]
fn a_pause_of_a_second_takes_a_second_whatever_the_clock_is_set_to() {
    for step in [-HOUR, HOUR] {
        let mut b = TestLeader::new();
        b.submit(5, |j| j.spec.min = 4);
        let why = "no".to_owned();
        b.report("h2", vec![Report::Never { a: A, why }]);
        assert_eq!(b.stat(1), JobStat::Pend);
        b.set_clock(step);
        b.turn(Vec::new());
        assert_eq!(b.stat(1), JobStat::Pend, "{step}: not before its time");
        b.now += 1_000;
        b.turn(Vec::new());
        assert_eq!(b.core.state.work(A.j).unwrap().attempt, 2, "{step}");
    }
}

#[test]
fn the_parts_of_a_gang_have_their_time_whatever_the_clock_is_set_to() {
    for step in [-HOUR, HOUR] {
        let mut b = TestLeader::new();
        b.submit(5, |j| j.spec.min = 4);
        b.set_clock(step);
        b.turn(Vec::new());
        assert_eq!(b.stat(1), JobStat::Run, "{step}: not before its time");
        b.now += 31_000;
        b.turn(Vec::new());
        assert_eq!(b.stat(1), JobStat::Pend, "{step}");
    }
}

#[test]
fn a_clock_set_forward_a_day_forgets_no_token_no_key_and_no_job() {
    let mut b = TestLeader::new();
    let token = Token(77);
    let keyed = |j: &mut Submission| j.key = "k".into();
    let first = b.ask_token(5, vec![submission(keyed)], token);
    b.end("h1", 1, 1, 0);
    b.set_clock(8 * DAY);
    b.now += 61_000;
    b.turn(Vec::new());
    let again = b.ask_token(5, vec![submission(keyed)], token);
    assert_eq!(again.ids[0].id, first.ids[0].id);
    assert_eq!(b.submit(5, keyed).ids[0].id, first.ids[0].id);
    assert!(b.core.state.job(1).is_some(), "it ended a minute ago");
    b.now += 101_000;
    b.turn(Vec::new());
    assert!(b.core.state.job(1).is_none(), "clean_period: 100");
}

#[test]
fn a_clock_set_back_delays_no_look_at_pending_jobs() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.res_req = "select[mem>1500]".into());
    b.set_clock(-HOUR);
    b.turn(Vec::new());
    let idle = b.core.idle_ms(b.present());
    assert!(idle.is_some_and(|ms| ms <= 1_000), "{idle:?}");
}

#[test]
fn a_victim_has_its_grace_whatever_the_clock_is_set_to() {
    let config = CONFIG.replace(
        "preemption: {preempt: again}",
        "preemption: {preempt: again, grace: 30}",
    );
    for step in [-HOUR, HOUR] {
        let mut b = TestLeader::with(&config);
        for _ in 0..4 {
            b.submit(5, |j| j.spec.queue = "again".into());
        }
        for id in 1..=4 {
            let j = JobKey::job(id);
            let (a, t) = (AttemptId { j, at: 1 }, b.now);
            let here = b.core.state.on_host("h1").any(|(on, _)| on == j);
            let host = if here { "h1" } else { "h2" };
            b.report(
                host,
                vec![Report::Started {
                    a,
                    pid: 7,
                    t,
                    bind: None,
                }],
            );
        }
        b.submit(6, |j| j.spec.queue = "urgent".into());
        assert_eq!(b.stat(5), JobStat::Pend, "{step}: its victim is warned");
        b.set_clock(step);
        b.turn(Vec::new());
        assert_eq!(b.stat(5), JobStat::Pend, "{step}: not before the grace");
        b.now += 31_000;
        b.turn(Vec::new());
        assert_eq!(b.stat(5), JobStat::Run, "{step}");
    }
}

#[test]
fn a_leader_whose_clock_is_a_day_ahead_starts_and_forgets_nothing_early() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    b.end("h1", 1, 1, 0);
    // The next leader's clock is a day ahead.
    let state = std::mem::take(&mut b.core.state);
    b.core = Core::new(state, b.core.config.clone(), 1000);
    b.turn(vec![Input::Config(b.core.config.clone())]);
    b.beat("h1");
    b.beat("h2");
    b.now += DAY;
    let (begin, late) = (b.now - DAY + 60_000, b.now - DAY + 90_000);
    b.core.note_server_clock(b.present(), DAY);
    let samples = ["h1", "h2"].map(|host| sample(&b, host, 0));
    b.now += 10_000;
    b.turn(samples.into());
    b.submit(5, |j| j.spec.begin = Some(Stamp(begin)));
    b.submit(5, |j| {
        j.spec.begin = Some(Stamp(late));
        j.spec.deadline = Some(Stamp(late));
    });
    assert_eq!((b.stat(2), b.stat(3)), (JobStat::Pend, JobStat::Pend));
    let alarm = b.core.clock_alarm().unwrap_or_default();
    assert!(alarm.contains("1d ahead of most hosts' clocks"), "{alarm}");
    assert!(b.core.idle_ms(b.present()) > Some(0), "no look without end");
    b.now += 60_000;
    b.turn(Vec::new());
    assert_eq!(b.stat(2), JobStat::Run, "the hosts' clocks say so");
    // The clock is corrected.
    b.set_clock(-DAY);
    b.now += 10_000;
    b.turn(Vec::new());
    assert_eq!(b.core.clock_alarm(), None);
}

#[test]
fn one_host_with_a_wrong_clock_is_not_believed() {
    let mut b = TestLeader::new();
    b.core.note_server_clock(b.present(), 0);
    let wrong = sample(&b, "h2", -DAY);
    let right = sample(&b, "h1", 0);
    b.now += 10_000;
    b.turn(vec![wrong, right]);
    b.turn(Vec::new());
    assert_eq!(b.core.clock_alarm(), None);
    b.submit(5, |j| j.spec.begin = Some(Stamp(0)));
    assert_eq!(b.stat(1), JobStat::Run);
}
