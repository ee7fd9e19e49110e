//! A share that is older than the cluster.

use super::*;

impl TestLeader {
    fn note_restored_share(&mut self, epoch: u64, id: u32) {
        let host = "h2".to_owned();
        self.turn(vec![Input::RestoredShare { host, epoch, id }]);
    }

    fn host_started(&mut self, host: &str, id: u32) {
        self.host_runs(host, attempt(id, 1));
    }

    fn new_epoch(&mut self, epoch: u64) {
        let (host, t) = ("h1".to_owned(), Stamp(self.now));
        let event = Event::Epoch {
            epoch,
            host,
            pid: 1,
            t,
        };
        self.core.state.apply(&event);
        self.events.push(event);
    }
}

#[test]
fn an_old_state_decides_nothing_until_it_is_confirmed() {
    let mut b = TestLeader::new();
    // 1 runs and may run again, 2 is bound and not started, 3 to 5 wait.
    b.submit(5, |j| j.spec.queue = "again".into());
    b.host_started("h1", 1);
    for _ in 0..4 {
        b.submit(5, |_| {});
    }
    assert_eq!(b.stat(5), JobStat::Pend);
    b.note_restored_share(7, 812);
    assert!(matches!(
        b.last.events[..],
        [Event::WentBack { epoch: 7, .. }]
    ));
    // No end, no start, no order, and no answer except a refusal.
    b.end("h1", 1, 1, 0);
    assert_eq!(b.stat(1), JobStat::Run);
    assert!(b.last.events.is_empty() && b.last.orders.is_empty());
    let ack = b.submit(5, |_| {});
    assert!(
        !ack.ok && ack.error.contains("cadmin restored --confirm"),
        "{}",
        ack.error
    );
    assert_eq!(b.core.state.job_count(), 5);
    assert!(outstanding(&b.core, None).is_empty());
    // A later leader is as old.
    b.new_epoch(3);
    b.note_restored_share(7, 812);
    assert!(b.last.events.is_empty(), "it is told once");
    let refused = b.ask(5, vec![Verb::Restored]);
    assert_eq!(refused.results[0].code, Code::Permission);
    let done = b.ask(0, vec![Verb::Restored]);
    assert_eq!(done.results[0].code, Code::Ok, "{}", done.results[0].text);
    assert!(
        done.results[0].text.contains("job ids above 10000"),
        "{}",
        done.results[0].text
    );
    // This epoch is still one that hosts have seen: only the next leader acts.
    assert!(b.last.orders.is_empty());
    let ack = b.submit(5, |_| {});
    assert!(
        !ack.ok && ack.error.contains("repeat the command"),
        "{}",
        ack.error
    );
    for id in 2..=5 {
        assert_eq!(b.stat(id), JobStat::Psusp, "job {id}");
    }
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    // A candidate that did not see the claim of epoch 7 leads for a moment: no new alarm.
    b.new_epoch(5);
    b.note_restored_share(7, 812);
    assert!(b.last.events.is_empty() && b.core.state.restored_share().is_none());
    b.new_epoch(8);
    let ack = b.submit(5, |_| {});
    assert_eq!(ack.ids[0].id, 10_001);
    assert_eq!(b.starts().len(), 1);
    // A job that ran when the backup was made and whose state is unknown is not run again unless
    // requested.
    b.host_boots("h1", "b");
    assert_eq!(b.stat(1), JobStat::Psusp);
    let again = b.ask(0, vec![Verb::Restored]);
    assert_eq!(again.results[0].code, Code::Refused);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_snapshot_remembers_that_the_share_went_back() {
    let mut b = TestLeader::new();
    b.note_restored_share(7, 812);
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    assert_eq!(restored.restored_share(), b.core.state.restored_share());
    assert!(restored.is_old());
    b.ask(0, vec![Verb::Restored]);
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    assert_eq!(restored.restored(), b.core.state.restored());
    assert!(restored.is_old() && restored.restored_share().is_none());
}

#[test]
fn a_copy_of_the_same_epoch_is_confirmed_as_any_other() {
    let mut b = TestLeader::new();
    b.new_epoch(9);
    b.note_restored_share(2, 812);
    let alarm = crate::turn::restored_share_alarm(b.core.state.restored_share().unwrap(), 9);
    assert!(
        alarm.contains("host h2 received orders of epoch 2"),
        "{alarm}"
    );
    assert!(alarm.contains("jobs up to 812"), "{alarm}");
    let ack = b.submit(5, |_| {});
    assert!(!ack.ok && ack.error.contains("the share is older than the cluster"));
    // Another host was given more.
    b.note_restored_share(2, 20_812);
    b.note_restored_share(2, 20_812);
    assert!(b.last.events.is_empty(), "it is told once");
    let done = b.ask(0, vec![Verb::Restored]);
    assert!(done.results[0].text.contains("job ids above 30000"));
    // Hosts already follow this epoch: the next one is new to them.
    assert_eq!(b.core.state.restored().unwrap().0, 9);
    assert!(b.core.state.is_old());
    b.new_epoch(10);
    assert!(!b.core.state.is_old());
    let record = outstanding(&b.core, None);
    for host in ["h1", "h2"] {
        let first = record.iter().find(|(of, _)| of == host).expect("an order");
        assert_eq!(first.1, Order::Restored { above: 9 });
    }
    assert_eq!(b.submit(5, |_| {}).ids[0].id, 30_001);
}

#[test]
fn the_word_of_another_run_by_the_same_name_changes_nothing() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    let mark = b.core.state.mark(JobKey::job(1));
    let ordered = b.last.orders.iter().find_map(|(_, order)| match order {
        Order::Start(start) => Some(start.mark),
        _ => None,
    });
    assert_eq!(ordered, Some(mark));
    let a = attempt(1, 1);
    let ended = exited(a, 0);
    let never = || Report::Never {
        a,
        why: "cancelled".into(),
    };
    // It belongs to a job that had this id before the share was restored.
    b.report("h1", Vec::new());
    let started = Report::Started {
        a,
        pid: 7,
        t: 1,
        bind: None,
    };
    b.report_marked("h1", mark ^ 1, vec![started, ended.clone(), never()]);
    assert!(b.last.events.is_empty(), "{:?}", b.last.events);
    let ack = Order::Ack { part: 1, seq: 3 };
    assert_eq!(b.last.orders, [("h1".to_owned(), ack)]);
    assert_eq!(b.stat(1), JobStat::Run);
    // After the host's answer that it does not start this one, the job continues with its next
    // attempt, whose mark differs.
    b.report_marked("h1", mark, vec![never()]);
    assert_eq!(b.starts().len(), 1);
    assert_ne!(b.core.state.mark(JobKey::job(1)), mark);
    b.report_marked("h1", mark, vec![ended.clone()]);
    assert_eq!(b.stat(1), JobStat::Run, "that is the first attempt's end");
    // A snapshot leads to the same marks.
    let mut read = State::new();
    b.core.state.snapshot().for_each(|r| read.restore(r));
    let marks = [&read, &b.core.state].map(|s| s.mark(JobKey::job(1)));
    assert_eq!(marks[0], marks[1]);
    // Hosts of an earlier version report no mark.
    b.submit(5, |_| {});
    let host = b.starts()[0].0.clone();
    b.end(&host, 2, 1, 0);
    assert_eq!(b.stat(2), JobStat::Done);
}

#[test]
fn hosts_are_shown_although_the_alarm_came_with_the_first_beat() {
    let mut b = TestLeader::new();
    let config = b.core.config.clone();
    b.core = Core::new(State::new(), config.clone(), 1000);
    let (host, epoch, id) = ("h2".to_owned(), 7, 1);
    let back = Input::RestoredShare { host, epoch, id };
    b.turn(vec![back, Input::Config(config)]);
    assert!(b.core.state.is_old());
    assert_eq!(crate::turn::host_rows(&b.core).len(), 2);
}

#[test]
fn an_order_that_is_repeated_says_whether_its_host_has_started_it() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    b.submit(5, |_| {});
    b.host_started("h1", 1);
    let orders = outstanding(&b.core, None);
    let ran = orders.iter().filter_map(|(_, order)| match order {
        Order::Start(start) => Some((start.a.j.id, start.ran)),
        _ => None,
    });
    assert_eq!(ran.collect::<Vec<_>>(), [(1, true), (2, false)]);
}

#[test]
fn an_answer_says_when_its_job_was_accepted() {
    let mut b = TestLeader::new();
    let ack = b.ask_token(5, vec![submission(|_| {})], Token(77));
    let submit = b.core.state.job(1).unwrap().submit.0;
    assert_eq!(ack.ids[0].t, submit);
    b.now += 5_000;
    let again = b.ask_token(5, vec![submission(|_| {})], Token(77));
    assert_eq!((again.ids[0].known, again.ids[0].t), (true, submit));
}

/// A leader whose share was restored: epochs up to 6 are over, 7 leads; when the copy was made, job
/// 1 ran on h1 and job 2 waited.
fn restored_leader() -> (TestLeader, AttemptId) {
    let mut b = TestLeader::new();
    b.new_epoch(5);
    b.submit(5, |_| {});
    b.submit(5, |j| j.hold = true);
    b.host_started("h1", 1);
    b.note_restored_share(6, 40);
    (b, attempt(1, 1))
}

/// A leader whose share was restored to the time when job 1, which may run again, ran on h1; and
/// its run.
fn restored_rerunnable() -> (TestLeader, RunId) {
    let mut b = TestLeader::new();
    b.new_epoch(5);
    b.submit(5, |j| j.spec.queue = "again".into());
    b.host_started("h1", 1);
    b.note_restored_share(6, 40);
    let mark = b.core.state.mark(JobKey::job(1));
    (b, RunId { mark, epoch: 5 })
}

fn started(a: AttemptId) -> Vec<Report> {
    vec![Report::Started {
        a,
        pid: 7,
        t: 1,
        bind: None,
    }]
}

impl TestLeader {
    fn confirm(&mut self) {
        let done = self.ask(0, vec![Verb::Restored]);
        assert_eq!(done.results[0].code, Code::Ok, "{}", done.results[0].text);
        self.new_epoch(7);
        self.turn(vec![]);
    }

    /// Orders of the last turn to kill: host, attempt, mark.
    fn marked_kills(&self) -> Vec<(String, AttemptId, u32)> {
        let kill = |(host, order): &(String, Order)| match order {
            Order::Signal {
                a,
                act: Act::Kill,
                mark,
                ..
            } => Some((host.clone(), *a, *mark)),
            _ => None,
        };
        self.last.orders.iter().filter_map(kill).collect()
    }
}

#[test]
fn runs_that_the_restored_journal_does_not_know_are_killed_after_the_word_and_not_before() {
    let (mut b, known) = restored_leader();
    let here = |mark| RunId { mark, epoch: 6 };
    let mark = b.core.state.mark(known.j);
    // A job, an attempt, an element and another run of a known attempt.
    let element = AttemptId {
        j: JobKey::element(2, 3),
        at: 1,
    };
    let lost = [attempt(40, 1), attempt(1, 2), attempt(2, 1), element];
    let tell = |b: &mut TestLeader| {
        for a in lost {
            b.report_of("h2", here(9), started(a));
        }
        b.report_of("h2", here(mark ^ 8), started(known));
    };
    tell(&mut b);
    assert!(b.last.orders.is_empty() && b.core.memory.stray_runs.is_empty());
    b.confirm();
    let mut killed = Vec::new();
    for a in lost {
        b.report_of("h2", here(9), started(a));
        killed.extend(b.marked_kills());
    }
    b.report_of("h2", here(mark ^ 8), started(known));
    killed.extend(b.marked_kills());
    let mut wanted = lost.map(|a| ("h2".to_owned(), a, 9)).to_vec();
    wanted.push(("h2".to_owned(), known, mark ^ 8));
    assert_eq!(killed, wanted);
    // Runs that the journal knows continue.
    b.report_of("h1", here(mark), started(known));
    assert!(b.marked_kills().is_empty());
    assert_eq!(b.stat(1), JobStat::Run);
    // Their ends do not end anything else, and settle the matter.
    for (_, a, mark) in killed {
        b.report_of("h2", here(mark), vec![signalled(a)]);
    }
    assert!(b.core.memory.stray_runs.is_empty());
    assert_eq!(b.stat(1), JobStat::Run);
}

#[test]
fn nothing_is_killed_for_a_word_about_an_earlier_copy() {
    let (mut b, _) = restored_leader();
    b.confirm();
    // From a leader after that confirmation: the share may have been restored again.
    let later = RunId { mark: 9, epoch: 7 };
    b.report_of("h2", later, started(attempt(20_000, 1)));
    b.report_of("h2", later, started(attempt(1, 2)));
    // It is not known when these were ordered, or to which run the end would belong.
    b.report_of("h2", RunId::marked(9), started(attempt(20_000, 1)));
    b.report_of("h2", RunId { mark: 0, epoch: 6 }, started(attempt(1, 2)));
    assert!(b.marked_kills().is_empty() && b.core.memory.stray_runs.is_empty());
}

#[test]
fn a_job_waits_until_a_run_that_the_journal_does_not_know_has_ended() {
    let (mut b, known) = restored_leader();
    let mark = b.core.state.mark(known.j);
    b.confirm();
    let lost = RunId { mark: 9, epoch: 6 };
    b.report_of("h2", lost, started(attempt(1, 2)));
    assert_eq!(b.marked_kills().len(), 1);
    // The run that it does know ends; a user requests that the job runs again.
    b.report_of("h1", RunId { mark, epoch: 5 }, vec![exited(known, 3)]);
    let sel = selector(&["1"]);
    let states = vec!["exit".to_owned()];
    let hold = false;
    let again = b.ask(5, vec![Verb::Requeue { sel, hold, states }]);
    assert_eq!(again.results[0].code, Code::Ok, "{}", again.results[0].text);
    assert!(b.starts().is_empty(), "{:?}", b.starts());
    b.report_of("h2", lost, vec![signalled(attempt(1, 2))]);
    b.now += 1000;
    b.turn(vec![]);
    assert_eq!(b.stat(1), JobStat::Run);
}

#[test]
fn what_ran_when_the_copy_was_made_is_not_run_again_unasked() {
    let (mut b, run) = restored_rerunnable();
    b.confirm();
    b.report_of("h1", run, vec![exited(attempt(1, 1), 7)]);
    assert_eq!(b.stat(1), JobStat::Psusp);
}

#[test]
fn what_ran_when_the_copy_was_made_is_known_whatever_the_clocks_say() {
    let (mut b, run) = restored_rerunnable();
    // The leader that takes the confirmation has a clock an hour slower than the leader that
    // dispatched.
    b.now -= 3_600_000;
    b.confirm();
    let mut read = State::new();
    b.core.state.snapshot().for_each(|r| read.restore(r));
    assert_eq!(contents(&read), contents(&b.core.state));
    b.report_of("h1", run, vec![exited(attempt(1, 1), 7)]);
    assert_eq!(b.stat(1), JobStat::Psusp);
}

/// A stop, and the resume that followed, were lost with the share. The host has carried out the
/// first as order number 1, and carries out no order with a lower number.
#[test]
fn a_suspension_that_the_restored_journal_does_not_know_ends_after_the_word() {
    let (mut b, known) = restored_leader();
    let mark = b.core.state.mark(known.j);
    b.confirm();
    let resumes = |orders: &[(String, Order)]| {
        let number = |(host, order): &(String, Order)| match order {
            Order::Signal { a, act, n, .. } if (host.as_str(), *a) == ("h1", known) => {
                Some((*act, *n))
            }
            _ => None,
        };
        orders.iter().filter_map(number).collect::<Vec<_>>()
    };
    let record = resumes(&outstanding(&b.core, Some("h1")));
    assert!(
        matches!(record[..], [(Act::Resume, n)] if n > 1000),
        "{record:?}"
    );
    let run = RunId { mark, epoch: 6 };
    let t = b.now;
    b.report_of("h1", run, vec![Report::Suspended { a: known, t }]);
    assert_eq!(resumes(&b.last.orders), record);
    // Later requests of users are carried out, too.
    let sel = selector(&["1"]);
    let how = SignalAction::Stop;
    b.ask(5, vec![Verb::Signal { sel, how }]);
    let stop = resumes(&b.last.orders);
    assert!(
        matches!(stop[..], [(Act::Stop, n)] if n > record[0].1),
        "{stop:?}"
    );
}
