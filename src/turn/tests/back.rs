//! A share that is older than what happened.

use super::*;

impl Bench {
    fn went_back(&mut self, epoch: u64, id: u32) {
        let host = "h2".to_owned();
        self.turn(vec![Input::WentBack { host, epoch, id }]);
    }

    fn host_started(&mut self, host: &str, id: u32) {
        let a = AttemptId {
            j: JobKey::job(id),
            at: 1,
        };
        let (pid, t) = (7, self.now);
        self.report(host, vec![Report::Started { a, pid, t }]);
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
    let mut b = Bench::new();
    // 1 runs and may run again, 2 is bound and not started, 3 to 5 wait.
    b.submit(5, |j| j.spec.queue = "again".into());
    b.host_started("h1", 1);
    for _ in 0..4 {
        b.submit(5, |_| {});
    }
    assert_eq!(b.stat(5), JobStat::Pend);
    b.went_back(7, 812);
    assert!(matches!(
        b.last.events[..],
        [Event::WentBack { epoch: 7, .. }]
    ));
    // No end, no start, no order, no answer but a refusal.
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
    b.went_back(7, 812);
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
    // Still this epoch is one that hosts have seen: only the next leader acts.
    assert!(b.last.orders.is_empty());
    let ack = b.submit(5, |_| {});
    assert!(!ack.ok && ack.error.contains("ask again"), "{}", ack.error);
    for id in 2..=5 {
        assert_eq!(b.stat(id), JobStat::Psusp, "job {id}");
    }
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    b.new_epoch(8);
    let ack = b.submit(5, |_| {});
    assert_eq!(ack.ids[0].id, 10_001);
    assert_eq!(b.starts().len(), 1);
    // What ran when the backup was made and is not known any more is not run again unasked.
    let boot = "b".to_owned();
    let hello = Report::Hello {
        boot: boot.clone(),
        version: String::new(),
        t: b.now,
    };
    b.report("h1", vec![hello, Report::Complete { boot }]);
    assert_eq!(b.stat(1), JobStat::Psusp);
    let again = b.ask(0, vec![Verb::Restored]);
    assert_eq!(again.results[0].code, Code::Refused);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_snapshot_remembers_that_the_share_went_back() {
    let mut b = Bench::new();
    b.went_back(7, 812);
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    assert_eq!(restored.back(), b.core.state.back());
    assert!(restored.is_old());
    b.ask(0, vec![Verb::Restored]);
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    assert_eq!(restored.restored(), b.core.state.restored());
    assert!(restored.is_old() && restored.back().is_none());
}

#[test]
fn an_epoch_that_is_not_ahead_is_nothing_new() {
    let mut b = Bench::new();
    b.new_epoch(9);
    b.went_back(9, 1);
    assert!(b.core.state.back().is_none());
    b.went_back(10, 1);
    assert!(b.core.state.back().is_some());
}
