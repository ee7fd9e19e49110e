//! Commands around jobs that hang: a kill reaches one that runs after the job's command, and
//! administrators are told.

use super::*;
use crate::model::TermReason;
use crate::record::report::Usage;
use crate::record::running_hook::RunningHook;
use crate::turn::host_rows;

/// Its time limit in these tests, ms.
const LIMIT_MS: i64 = 600_000;

impl TestLeader {
    /// The first host of a job reports that a hook of it takes long, or that it is over.
    fn hook(&mut self, id: u32, hook: Option<RunningHook>) {
        let run = self.core.state.work(JobKey::job(id)).unwrap().run.as_ref();
        let host = run.unwrap().hosts[0].0;
        let host = self.core.state.host_name(host).to_string();
        let (a, hook) = (attempt(id, 1), hook.map(Box::new));
        let u = Usage {
            procs: 1,
            hook,
            ..Usage::default()
        };
        self.report(&host, vec![Report::Usage { a, u }]);
    }

    fn runs_hook(&mut self, id: u32, after: bool) {
        let hook = RunningHook {
            what: "post-exec of the queue".into(),
            after,
            since: self.now,
            until: self.now + LIMIT_MS,
        };
        self.hook(id, Some(hook));
    }

    /// A running job of user 5.
    fn running_job(&mut self, id: u32) {
        self.submit(5, |_| {});
        let (host, _) = self.starts()[0].clone();
        self.host_runs(&host, attempt(id, 1));
    }

    /// What a kill of job 1 is answered, and the orders that follow.
    fn killed_by(&mut self, uid: u32) -> (String, Vec<(Act, TermReason, u32)>) {
        let (sel, how) = (selector(&["1"]), SignalAction::Kill);
        let ack = self.ask(uid, vec![Verb::Signal { sel, how }]);
        (ack.results[0].text.clone(), self.signals_sent())
    }

    fn signals_sent(&self) -> Vec<(Act, TermReason, u32)> {
        let signal = |(_, order): &(String, Order)| match order {
            Order::Signal { act, reason, n, .. } => Some((*act, *reason, *n)),
            _ => None,
        };
        self.last.orders.iter().filter_map(signal).collect()
    }

    fn notes(&self) -> Vec<String> {
        let rows = host_rows(&self.core).into_iter();
        rows.flat_map(|row| row.warnings).collect()
    }

    fn wait(&mut self, ms: i64) {
        self.now += ms;
        self.beat("h1");
        self.beat("h2");
    }
}

#[test]
fn each_kill_reaches_a_post_exec_that_takes_long() {
    let mut b = TestLeader::new();
    b.running_job(1);
    let kill = |reason, n| vec![(Act::Terminate, reason, n)];
    assert_eq!(
        b.killed_by(5),
        ("is being terminated".into(), kill(TermReason::Owner, 1))
    );
    // The command has its end; a further kill changes nothing.
    assert_eq!(b.killed_by(5).1, []);
    b.runs_hook(1, true);
    let answer = "has ended: its post-exec of the queue is being ended".to_owned();
    assert_eq!(b.killed_by(5), (answer.clone(), kill(TermReason::Owner, 2)));
    assert_eq!(b.killed_by(0), (answer, kill(TermReason::Admin, 3)));
    // The end of the command stands.
    let end = b.core.state.work(JobKey::job(1)).unwrap().run.as_ref();
    let host = end.unwrap().hosts[0].0;
    let host = b.core.state.host_name(host).to_string();
    b.end(&host, 1, 1, 0);
    assert_eq!(b.stat(1), JobStat::Done);
}

/// It ends the job itself.
#[test]
fn a_second_kill_during_a_pre_exec_changes_nothing() {
    let mut b = TestLeader::new();
    b.running_job(1);
    b.runs_hook(1, false);
    assert_eq!(b.killed_by(5).1, [(Act::Terminate, TermReason::Owner, 1)]);
    assert_eq!(b.killed_by(5).1, []);
}

#[test]
fn a_job_that_is_requeued_does_not_wait_for_its_post_exec() {
    let mut b = TestLeader::new();
    b.running_job(1);
    b.runs_hook(1, true);
    let requeue = |b: &mut TestLeader| {
        let verb = Verb::Requeue {
            sel: selector(&["1"]),
            hold: false,
            states: Vec::new(),
        };
        b.ask(5, vec![verb]);
        b.signals_sent()
    };
    assert_eq!(requeue(&mut b), [(Act::Terminate, TermReason::Owner, 1)]);
    assert_eq!(requeue(&mut b), [(Act::Terminate, TermReason::Owner, 2)]);
}

#[test]
fn several_jobs_of_a_queue_whose_hooks_hang_raise_an_alarm() {
    let mut b = TestLeader::new();
    (1..=3).for_each(|id| b.running_job(id));
    (1..=3).for_each(|id| b.runs_hook(id, true));
    b.wait(LIMIT_MS / 2 - 1_000);
    assert_eq!((b.core.hook_alarms(), b.notes()), (vec![], vec![]));
    b.wait(2_000);
    assert!(
        b.notes().iter().any(|note| note.contains("'cjobs -l ID'")),
        "{:?}",
        b.notes()
    );
    let alarms = b.core.hook_alarms();
    assert_eq!(
        alarms,
        [
            "queue normal: post_exec of 3 jobs hung within the last hour; 3 hold slots meanwhile: \
          1 2 3; 'ckill ID' ends such a command"
        ]
    );
    // Those that ran into their time limit still count.
    (1..=3).for_each(|id| b.hook(id, None));
    b.wait(2_000);
    assert_eq!(b.notes(), [""; 0]);
    let alarms = b.core.hook_alarms();
    assert!(alarms[0].ends_with("none hangs now"), "{alarms:?}");
    b.wait(3_600_000);
    assert_eq!(b.core.hook_alarms(), [""; 0]);
    assert!(b.core.memory.long_hooks.is_empty());
}

#[test]
fn two_jobs_whose_hooks_hang_are_no_alarm_for_their_queue() {
    let mut b = TestLeader::new();
    (1..=2).for_each(|id| b.running_job(id));
    (1..=2).for_each(|id| b.runs_hook(id, false));
    b.wait(LIMIT_MS);
    assert_eq!(b.core.hook_alarms(), [""; 0]);
    assert!(!b.notes().is_empty(), "their hosts say it");
}
