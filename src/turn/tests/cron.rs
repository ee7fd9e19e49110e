//! Cron jobs: each due time leads to at most one job, over takeovers and set clocks; policies of
//! overlap, deadlines and failures; what is refused.

use super::*;
use crate::model::TermReason;
use crate::record::cron::{CronDef, CronJob, CronResult, Overlap};
use crate::record::request::{CronAct, CronPut};

const MINUTE: i64 = 60_000;
const U: u32 = 5;

/// A definition for every minute.
pub(super) fn put(name: &str, change: impl FnOnce(&mut CronDef)) -> Verb {
    let mut def = CronDef {
        name: name.into(),
        schedule: "* * * * *".into(),
        zone: "UTC".into(),
        history: 10,
        ..CronDef::default()
    };
    def.job.command = "true".into();
    def.job.spec.cwd = "/tmp".into();
    change(&mut def);
    Verb::CronPut(Box::new(CronPut {
        def,
        create: true,
        ..CronPut::default()
    }))
}

fn act(act: CronAct) -> Verb {
    let (name, user) = ("c".to_owned(), String::new());
    Verb::Cron { name, user, act }
}

/// A cluster whose leader knows its clock, at a full minute, with a cron job.
fn test_leader(change: impl FnOnce(&mut CronDef)) -> TestLeader {
    let mut b = TestLeader::new();
    b.now = 20 * MINUTE - 10;
    b.turn(Vec::new());
    let ack = b.ask(U, vec![put("c", change)]);
    assert_eq!(ack.results[0].code, Code::Ok, "{}", ack.results[0].text);
    assert_eq!(b.core.state.last_id(), 0);
    b
}

fn cron(b: &TestLeader) -> &CronJob {
    b.core.state.cron(&(U, "c".to_owned())).unwrap()
}

/// Advances the time, and takes a turn.
fn pass(b: &mut TestLeader, ms: i64) {
    b.now += ms;
    b.turn(Vec::new());
}

/// The records of the history: kind, due minute, number.
fn history(b: &TestLeader) -> Vec<(CronResult, i64, u32)> {
    let records = cron(b).history.iter();
    records.map(|r| (r.what, r.due.0 / MINUTE, r.n)).collect()
}

/// A new leader that knows what is in the journal.
fn takeover(b: &mut TestLeader) {
    let config = b.core.config.clone();
    let loads: Vec<String> = b.core.inputs.loads.keys().cloned().collect();
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    b.core = Core::new(b.replayed(), config.clone(), 1000);
    b.turn(vec![Input::Config(config)]);
    loads.iter().for_each(|host| b.beat(host));
}

#[test]
fn each_due_time_gives_one_job_by_one_event() {
    let mut b = test_leader(|_| {});
    pass(&mut b, MINUTE);
    assert_eq!((b.core.state.last_id(), b.stat(1)), (1, JobStat::Run));
    let due: Vec<i64> = b
        .last
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Submitted(s) => s.cron.as_ref().map(|run| run.due.0),
            _ => None,
        })
        .collect();
    assert_eq!(due, [21 * MINUTE]);
    assert_eq!(b.core.state.job(1).unwrap().name.as_deref(), Some("c"));
    b.end("h1", 1, 1, 0);
    pass(&mut b, 30_000);
    assert_eq!(b.core.state.last_id(), 1);
    pass(&mut b, 30_000);
    assert_eq!(b.core.state.last_id(), 2);
    assert_eq!(history(&b), [(CronResult::Done, 21, 1)]);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn the_driver_is_told_when_the_next_one_is_due() {
    let mut b = test_leader(|_| {});
    let ms = b.core.idle_ms(b.present()).unwrap();
    assert!((59_000..=60_000).contains(&ms), "{ms}");
    b.core.set_share_full(true);
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 0);
    assert_ne!(
        b.core.idle_ms(b.present()),
        Some(0),
        "it would turn without end"
    );
    b.core.set_share_full(false);
    pass(&mut b, 0);
    assert_eq!(b.core.state.last_id(), 1);
}

#[test]
fn a_takeover_at_the_due_second_gives_one_instance_each_time() {
    for before in [true, false] {
        let mut b = test_leader(|def| def.overlap = Overlap::Run);
        for n in 1..=50u32 {
            pass(&mut b, MINUTE - 20_000);
            if before {
                takeover(&mut b);
                pass(&mut b, 20_000);
            } else {
                pass(&mut b, 20_000);
                takeover(&mut b);
            }
            pass(&mut b, 11_000);
            b.now -= 11_100;
            b.stepped -= 11_100;
            assert_eq!(b.core.state.last_id(), n, "{before}");
        }
    }
}

#[test]
fn a_new_leader_does_not_trust_its_clock_before_it_was_compared() {
    let mut b = test_leader(|_| {});
    takeover(&mut b);
    b.set_clock(3 * MINUTE);
    b.turn(Vec::new());
    assert_eq!(b.core.state.last_id(), 0);
    pass(&mut b, 10_000);
    assert_eq!(
        b.core.state.last_id(),
        1,
        "there is nothing to compare it with"
    );
}

#[test]
fn a_clock_set_back_fires_nothing_twice() {
    let mut b = test_leader(|def| def.overlap = Overlap::Run);
    pass(&mut b, MINUTE);
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 2);
    b.set_clock(-10 * MINUTE);
    for _ in 0..10 {
        pass(&mut b, MINUTE - 10);
    }
    assert_eq!(b.core.state.last_id(), 2);
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 3);
    takeover(&mut b);
    b.set_clock(-5 * MINUTE);
    pass(&mut b, 11_000);
    assert_eq!(b.core.state.last_id(), 3);
}

#[test]
fn a_clock_that_was_far_ahead_is_left_behind_by_disabling_and_enabling() {
    let mut b = test_leader(|_| {});
    b.set_clock(1_000 * MINUTE);
    b.turn(Vec::new());
    assert_eq!(b.core.state.last_id(), 1);
    b.set_clock(-1_000 * MINUTE);
    b.end("h1", 1, 1, 0);
    pass(&mut b, 2 * MINUTE);
    assert_eq!(b.core.state.last_id(), 1);
    b.ask(U, vec![act(CronAct::Disable)]);
    b.ask(U, vec![act(CronAct::Enable)]);
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 2);
}

#[test]
fn missed_times_coalesce_to_the_newest() {
    let mut b = test_leader(|_| {});
    pass(&mut b, 10 * MINUTE);
    assert_eq!(b.core.state.last_id(), 1);
    assert_eq!(history(&b), [(CronResult::Missed, 30, 9)]);
    let text = &cron(&b).history[0].text;
    assert_eq!(text, "one run for all of them");
}

#[test]
fn past_the_start_deadline_it_is_recorded_how_many_were_missed() {
    let mut b = test_leader(|def| {
        def.schedule = "*/10 * * * *".into();
        def.deadline_s = Some(60);
    });
    pass(&mut b, 28 * MINUTE);
    assert_eq!(b.core.state.last_id(), 0);
    assert_eq!(history(&b), [(CronResult::Missed, 40, 2)]);
    assert_eq!(cron(&b).history[0].text, "2 due times: too late to start");
    // The next one is on time, and is dropped if no host takes it within its deadline.
    for host in ["h1", "h2"] {
        b.ask(
            0,
            vec![Verb::Host {
                names: vec![host.into()],
                act: crate::record::request::HostAct::Close,
                comment: String::new(),
            }],
        );
    }
    pass(&mut b, 2 * MINUTE);
    assert_eq!((b.core.state.last_id(), b.stat(1)), (1, JobStat::Pend));
    pass(&mut b, 61_000);
    assert_eq!(b.stat(1), JobStat::Exit);
    assert_eq!(history(&b)[1], (CronResult::Failed, 50, 1));
}

#[test]
fn overlap_skips_runs_or_replaces() {
    let mut b = test_leader(|_| {});
    pass(&mut b, MINUTE);
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 1);
    assert_eq!(history(&b), [(CronResult::Overlapped, 22, 1)]);
    let text = &cron(&b).history[0].text;
    assert_eq!(text, "1 earlier run not ended: Overlap is skip");

    let mut b = test_leader(|def| (def.overlap, def.max_runs) = (Overlap::Run, 2));
    (0..3).for_each(|_| pass(&mut b, MINUTE));
    assert_eq!((b.core.state.last_id(), cron(&b).running.len()), (2, 2));
    assert_eq!(history(&b), [(CronResult::Overlapped, 23, 1)]);

    let mut b = test_leader(|def| def.overlap = Overlap::Replace);
    pass(&mut b, MINUTE);
    b.host_runs("h1", attempt(1, 1));
    pass(&mut b, MINUTE);
    let kills = |b: &TestLeader| {
        b.last
            .orders
            .iter()
            .filter(|(_, order)| matches!(order, Order::Signal { .. } | Order::Start(_)))
            .count()
    };
    assert_eq!((b.core.state.last_id(), kills(&b)), (2, 2));
    assert_eq!(
        b.stat(2),
        JobStat::Run,
        "it does not wait for the end of the first"
    );
}

/// A run that its successor ends has neither failed nor succeeded, pending or started.
#[test]
fn replaced_runs_are_no_failures() {
    let mut b = test_leader(|def| {
        (def.overlap, def.max_fails) = (Overlap::Replace, 2);
    });
    for id in 1..5 {
        pass(&mut b, MINUTE);
        assert_eq!(b.core.state.last_id(), id);
        if id > 1 && b.core.state.work(JobKey::job(id - 1)).unwrap().attempt > 0 {
            let e = Ended {
                a: attempt(id - 1, 1),
                t: b.now,
                sig: 15,
                reason: TermReason::Replaced,
                ..Ended::default()
            };
            let run = b.core.state.work(e.a.j).unwrap().run.as_deref().unwrap();
            let host = b.core.state.host_name(run.hosts[0].0).to_string();
            b.report(&host, vec![Report::Ended(Box::new(e))]);
        }
    }
    let ends = history(&b);
    assert_eq!(ends.len(), 3, "{ends:?}");
    assert!(
        ends.iter().all(|(what, ..)| *what == CronResult::Replaced),
        "{ends:?}"
    );
    assert_eq!((cron(&b).fails, cron(&b).def.disabled), (0, false));
    let why = b
        .core
        .state
        .work(JobKey::job(3))
        .unwrap()
        .run
        .as_deref()
        .unwrap();
    let reason = why.end.as_deref().unwrap().reason;
    assert_eq!(reason, TermReason::Replaced);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

/// Whether jobs of its own failed counts, not that the rest was ended.
#[test]
fn a_replaced_run_that_had_failed_is_a_failure() {
    for (code, what) in [(0, CronResult::Replaced), (3, CronResult::Failed)] {
        let mut b = test_leader(|def| {
            def.overlap = Overlap::Replace;
            pack(def);
            // They wait for what never ends.
            def.more[1].spec.depend = "done(b)".into();
            def.more[0].array.clear();
            def.more[0].name = "b".into();
        });
        pass(&mut b, MINUTE);
        b.end("h1", 1, 1, code);
        pass(&mut b, MINUTE);
        let e = Ended {
            a: attempt(2, 1),
            t: b.now,
            sig: 15,
            reason: TermReason::Replaced,
            ..Ended::default()
        };
        let run = b.core.state.work(e.a.j).unwrap().run.as_deref().unwrap();
        let host = b.core.state.host_name(run.hosts[0].0).to_string();
        b.report(&host, vec![Report::Ended(Box::new(e))]);
        assert_eq!(history(&b), [(what, 21, 1)]);
    }
}

#[test]
fn failures_in_a_row_disable_it_and_a_success_counts_from_the_start() {
    let mut b = test_leader(|def| def.max_fails = 2);
    for (id, code) in [(1, 3), (2, 0), (3, 1), (4, 1)] {
        pass(&mut b, MINUTE);
        assert!(!cron(&b).def.disabled);
        b.end("h1", id, 1, code);
    }
    assert!(cron(&b).def.disabled);
    assert_eq!(cron(&b).why, "2 failed runs in a row (MaxFails)");
    pass(&mut b, 5 * MINUTE);
    assert_eq!(b.core.state.last_id(), 4);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    b.ask(U, vec![act(CronAct::Enable)]);
    assert_eq!((cron(&b).fails, cron(&b).why.as_str()), (0, ""));
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 5, "from now on, and none of before");
}

#[test]
fn a_run_that_is_retried_counts_when_it_has_ended_for_good() {
    let mut b = test_leader(|def| {
        def.max_fails = 1;
        def.job.spec.again.retries = Some(1);
    });
    pass(&mut b, MINUTE);
    b.end("h1", 1, 1, 3);
    assert_eq!((b.stat(1), cron(&b).fails), (JobStat::Pend, 0));
    pass(&mut b, 2_000);
    b.end("h1", 1, 2, 3);
    assert!(cron(&b).def.disabled);
}

#[test]
fn what_the_cluster_refuses_at_the_due_time_is_a_failed_run() {
    let mut b = test_leader(|def| {
        def.max_fails = 1;
        def.job.spec.queue = "high".into();
    });
    let close = Verb::Queue {
        names: vec!["high".into()],
        act: crate::record::request::QueueAct::Close,
        comment: String::new(),
    };
    b.ask(0, vec![close]);
    pass(&mut b, MINUTE);
    assert_eq!(history(&b), [(CronResult::Refused, 21, 1)]);
    assert!(
        cron(&b).history[0].text.contains("high"),
        "{}",
        cron(&b).history[0].text
    );
    assert!(cron(&b).def.disabled);
}

/// Unlike `csub`, the leader does not try again: the next due time comes.
#[test]
fn a_run_over_the_limit_of_pending_jobs_is_a_failed_run() {
    let mut b = test_leader(|_| {});
    let mut config = (*b.core.config).clone();
    config.general.max_pend_jobs = Some(1);
    b.turn(vec![Input::Config(Arc::new(config))]);
    b.submit(7, |j| j.hold = true);
    pass(&mut b, MINUTE);
    assert_eq!(history(&b), [(CronResult::Refused, 21, 1)]);
    let text = cron(&b).history[0].text.clone();
    assert!(text.contains("(max_pend_jobs)"), "{text}");
    pass(&mut b, MINUTE / 2);
    assert_eq!((b.core.state.last_id(), cron(&b).fails), (1, 1));
    let sel = selector(&["1"]);
    let how = SignalAction::Kill;
    b.ask(7, vec![Verb::Signal { sel, how }]);
    pass(&mut b, MINUTE / 2);
    assert_eq!(
        b.core.state.last_id(),
        2,
        "there is room at the next due time"
    );
}

#[test]
fn a_start_by_hand_leaves_the_schedule_and_counts_for_overlap() {
    let mut b = test_leader(|_| {});
    let handled = cron(&b).handled;
    let ack = b.ask(U, vec![act(CronAct::Start)]);
    assert_eq!((ack.ids[0].id, cron(&b).handled), (1, handled));
    let again = b.ask(U, vec![act(CronAct::Start)]);
    assert_eq!(again.results[0].code, Code::Refused);
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 1, "it overlaps");
    assert_eq!(
        b.ask(U, vec![act(CronAct::Kill)]).results[0].text,
        "1 run being terminated"
    );
    b.report("h1", vec![signalled(attempt(1, 1))]);
    assert_eq!(history(&b)[1].0, CronResult::Failed);
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 2);
    let token = Token(99);
    let first = b.ask_token(U, vec![act(CronAct::Remove)], token);
    assert_eq!(first.results[0].text, "is removed; 1 run not ended");
    pass(&mut b, 5 * MINUTE);
    assert_eq!(b.core.state.last_id(), 2);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_start_by_hand_that_is_asked_for_twice_is_one() {
    let mut b = test_leader(|def| def.overlap = Overlap::Run);
    let token = Token(99);
    let first = b.ask_token(U, vec![act(CronAct::Start)], token);
    let again = b.ask_token(U, vec![act(CronAct::Start)], token);
    assert_eq!((first.ids[0].id, again.ids[0].id), (1, 1));
    assert_eq!(b.core.state.last_id(), 1);
}

#[test]
fn definitions_are_replaced_only_when_that_is_asked_for() {
    let mut b = test_leader(|_| {});
    let again = b.ask(U, vec![put("c", |_| {})]);
    assert_eq!(again.results[0].code, Code::Refused);
    let other = b.ask(6, vec![put("c", |_| {})]);
    assert_eq!(other.results[0].code, Code::Ok, "names are each user's own");
    let Verb::CronPut(mut edit) = put("c", |def| def.schedule = "0 * * * *".into()) else {
        unreachable!("it is one");
    };
    (edit.create, edit.replace) = (false, true);
    b.ask(U, vec![Verb::CronPut(edit.clone())]);
    assert_eq!(cron(&b).def.schedule, "0 * * * *");
    pass(&mut b, 5 * MINUTE);
    assert_eq!(cron(&b).handled.0 / MINUTE, 20);
    edit.def.name = "d".into();
    let none = b.ask(U, vec![Verb::CronPut(edit)]);
    assert_eq!(none.results[0].code, Code::NotFound);
}

#[test]
fn what_no_command_of_ours_sends_is_refused() {
    let mut b = test_leader(|_| {});
    type Change = fn(&mut CronDef);
    let forged: [(&str, Change); 12] = [
        ("schedule", |d| d.schedule = "61 * * * *".into()),
        ("schedule", |d| d.schedule = "@daily".into()),
        ("timezone", |d| d.zone = "Mars/Base".into()),
        ("name", |d| d.name = "all".into()),
        ("name", |d| d.name = "a b".into()),
        ("maxconcurrentruns", |d| d.max_runs = 3),
        ("historylimit", |d| d.history = 1_000_000),
        ("startdeadline", |d| d.deadline_s = Some(u64::MAX)),
        ("array", |d| d.job.array = "1-99999999".into()),
        ("at most 100 jobs", |d| d.more = vec![d.job.clone(); 100]),
        ("held", |d| d.job.hold = true),
        ("queue", |d| d.job.spec.queue = "nowhere".into()),
    ];
    for (word, change) in forged {
        let ack = b.ask(U, vec![put("d", change)]);
        let result = &ack.results[0];
        assert_ne!(result.code, Code::Ok, "{word}");
        assert!(result.text.contains(word), "{word}: {}", result.text);
    }
}

#[test]
fn history_and_number_are_bounded() {
    let mut b = test_leader(|def| def.history = 3);
    pass(&mut b, MINUTE);
    (0..20).for_each(|_| pass(&mut b, MINUTE));
    assert_eq!(cron(&b).history.len(), 3);
    for n in 1..200 {
        b.ask(U, vec![put(&format!("n{n}"), |_| {})]);
    }
    let ack = b.ask(U, vec![put("more", |_| {})]);
    assert!(ack.results[0].text.contains("limit of 200 cron jobs"));
}

#[test]
fn a_restored_share_fires_nothing_of_before() {
    let mut b = test_leader(|_| {});
    b.core.state.apply(&Event::Restored {
        above: 0,
        id: 5,
        by: "root".into(),
        t: Stamp(40 * MINUTE),
    });
    assert_eq!(cron(&b).handled, Stamp(40 * MINUTE));
}

#[test]
fn a_snapshot_keeps_runs_and_history() {
    let mut b = test_leader(|def| def.overlap = Overlap::Run);
    (0..3).for_each(|_| pass(&mut b, MINUTE));
    b.end("h1", 1, 1, 0);
    let mut restored = State::new();
    b.core
        .state
        .snapshot()
        .for_each(|record| restored.restore(record));
    assert_eq!(contents(&restored), contents(&b.core.state));
    assert_eq!(restored.check(), Vec::<String>::new());
    assert_eq!(restored.blobs(), b.core.state.blobs());
}

/// Every element of array `id` that runs ends with this code.
fn end_elements(b: &mut TestLeader, id: u32, codes: &[(u32, i32)]) {
    for (idx, code) in codes {
        let a = AttemptId {
            j: JobKey::element(id, *idx),
            at: 1,
        };
        let run = b.core.state.work(a.j).unwrap().run.clone().unwrap();
        let host = b.core.state.host_name(run.hosts[0].0).to_string();
        b.report(&host, vec![exited(a, *code)]);
    }
}

#[test]
fn a_run_that_is_an_array_ends_with_its_last_element_and_fails_with_any() {
    let mut b = test_leader(|def| {
        def.job.array = "1-3".into();
        def.max_fails = 1;
    });
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 1);
    assert_eq!(b.core.state.job(1).unwrap().array().unwrap().started(), 3);
    end_elements(&mut b, 1, &[(2, 3), (1, 0)]);
    assert_eq!((history(&b), cron(&b).running.len()), (vec![], 1));
    pass(&mut b, MINUTE);
    assert_eq!(history(&b), [(CronResult::Overlapped, 22, 1)]);
    takeover(&mut b);
    end_elements(&mut b, 1, &[(3, 0)]);
    let last = cron(&b).history.last().unwrap();
    assert_eq!((last.what, last.id, last.n), (CronResult::Failed, 1, 1));
    assert_eq!(last.text, "an element failed");
    assert!(cron(&b).def.disabled, "a run counts once for MaxFails");
    assert_eq!(cron(&b).fails, 1);
    // Those that are pending are ended as well.
    b.ask(U, vec![act(CronAct::Enable)]);
    pass(&mut b, MINUTE);
    b.ask(U, vec![act(CronAct::Kill)]);
    let killed = |event: &&Event| matches!(event, Event::Signalled { j, .. } if j.id == 2);
    assert_eq!(b.events.iter().filter(killed).count(), 3);
}

/// Three jobs a run: a held command, an array of two, another command.
fn pack(def: &mut CronDef) {
    let job = def.job.clone();
    def.more = vec![job.clone(), job];
    def.more[0].array = "1-2".into();
}

#[test]
fn a_run_that_is_a_pack_is_submitted_whole_and_ends_with_its_last_job() {
    let mut b = test_leader(pack);
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 3);
    assert_eq!(cron(&b).running.len(), 1, "one run");
    assert_eq!(cron(&b).live_jobs().collect::<Vec<_>>(), [1, 2, 3]);
    pass(&mut b, MINUTE);
    assert_eq!(history(&b), [(CronResult::Overlapped, 22, 1)]);
    takeover(&mut b);
    let host = |b: &TestLeader, id| {
        let run = b.core.state.work(JobKey::job(id)).unwrap().run.clone();
        b.core.state.host_name(run.unwrap().hosts[0].0).to_string()
    };
    let of = host(&b, 1);
    b.end(&of, 1, 1, 0);
    let of = host(&b, 3);
    b.end(&of, 3, 1, 4);
    assert_eq!(cron(&b).running.len(), 1);
    end_elements(&mut b, 2, &[(1, 0), (2, 0)]);
    let last = cron(&b).history.last().unwrap();
    assert_eq!((last.what, last.id), (CronResult::Failed, 1));
    assert_eq!(last.text, "job 3: exit code 4");
    assert_eq!((cron(&b).fails, cron(&b).packs.len()), (1, 0));
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 6, "the next due time");
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

/// The leader died when this many jobs of the pack were recorded; the next one leads.
fn died_after(b: &mut TestLeader, jobs: usize) {
    let submitted = |(_, event): &(usize, &Event)| matches!(event, Event::Submitted(_));
    let mut all = b.events.iter().enumerate().filter(submitted);
    let (last, _) = all.nth(jobs - 1).unwrap();
    b.events.truncate(last + 1);
    let config = b.core.config.clone();
    b.core = Core::new(b.replayed(), config.clone(), 1000);
    b.turn(vec![Input::Config(config)]);
    b.beat("h1");
    b.beat("h2");
}

#[test]
fn a_pack_of_which_some_jobs_are_missing_is_completed_once_by_the_next_leader() {
    for jobs in 1..3 {
        let mut b = test_leader(pack);
        pass(&mut b, MINUTE);
        died_after(&mut b, jobs);
        pass(&mut b, 11_000);
        assert_eq!(b.core.state.last_id(), 3);
        assert_eq!(cron(&b).live_jobs().collect::<Vec<_>>(), [1, 2, 3]);
        let arrays = [1, 2, 3].map(|id| b.core.state.job(id).unwrap().array().is_some());
        assert_eq!(arrays, [false, true, false], "each job once");
        takeover(&mut b);
        pass(&mut b, 11_000);
        assert_eq!(b.core.state.last_id(), 3, "and by no other");
        assert_eq!((history(&b), cron(&b).running.len()), (vec![], 1));
    }
    // A definition that was changed in the meantime has other jobs.
    let mut b = test_leader(pack);
    pass(&mut b, MINUTE);
    died_after(&mut b, 1);
    let Verb::CronPut(mut edit) = put("c", |_| {}) else {
        unreachable!("it is one");
    };
    (edit.create, edit.replace) = (false, true);
    b.ask(U, vec![Verb::CronPut(edit)]);
    pass(&mut b, 11_000);
    assert_eq!(b.core.state.last_id(), 1);
    b.end("h1", 1, 1, 0);
    let last = cron(&b).history.last().unwrap();
    assert_eq!(last.what, CronResult::Failed);
    assert!(
        last.text.contains("1 of 3 jobs were submitted"),
        "{}",
        last.text
    );
}

/// Its second job is named like an older one.
fn chain(def: &mut CronDef) {
    pack(def);
    def.more[0].name = "prep".into();
    def.more[1].spec.depend = "done(prep) && ended(c)".into();
}

/// The dependency of a job.
fn depend(b: &TestLeader, id: u32) -> String {
    b.core.state.spec_of(id).unwrap().depend.clone()
}

#[test]
fn a_name_in_a_pack_means_its_own_job() {
    let mut b = test_leader(chain);
    b.submit(U, |j| j.name = "prep".into());
    pass(&mut b, MINUTE);
    assert_eq!(depend(&b, 4), "done(3) && ended(2)");
    for jobs in 1..3 {
        let mut b = test_leader(chain);
        pass(&mut b, MINUTE);
        died_after(&mut b, jobs);
        pass(&mut b, 11_000);
        assert_eq!(depend(&b, 3), "done(2) && ended(1)", "after {jobs} jobs");
    }
    // Other names mean older jobs, as those of a run that is no pack.
    let mut b = TestLeader::new();
    b.now = 20 * MINUTE - 10;
    b.submit(U, |j| j.name = "old".into());
    b.ask(
        U,
        vec![put("c", |def| {
            chain(def);
            def.more[1].spec.depend = "ended(old)".into();
        })],
    );
    pass(&mut b, MINUTE);
    assert_eq!(depend(&b, 4), "ended(1)");
}

#[test]
fn a_job_of_a_pack_waits_for_no_later_one() {
    let mut b = TestLeader::new();
    let late = |def: &mut CronDef| {
        chain(def);
        def.job.spec.depend = "done(prep)".into();
    };
    b.submit(U, |j| j.name = "prep".into());
    let ack = b.ask(U, vec![put("c", late)]);
    let text = &ack.results[0].text;
    assert!(
        text.contains("\"prep\" is a later job of this pack"),
        "{text}"
    );
}

#[test]
fn nothing_of_a_pack_is_submitted_when_one_of_its_jobs_is_refused() {
    let mut b = test_leader(|def| {
        pack(def);
        def.more[1].spec.queue = "high".into();
    });
    let close = Verb::Queue {
        names: vec!["high".into()],
        act: crate::record::request::QueueAct::Close,
        comment: String::new(),
    };
    b.ask(0, vec![close]);
    pass(&mut b, MINUTE);
    assert_eq!(b.core.state.last_id(), 0);
    assert_eq!(history(&b), [(CronResult::Refused, 21, 1)]);
}
